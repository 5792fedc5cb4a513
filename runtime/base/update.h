/* The words between a training program that updates its parameters and whoever runs it.
 *
 * One run of such a program (passes/train/update.c makes them) is a whole training step: forward,
 * backward, norm of the gradients, clipping, the optimiser's equations, averages, updates of
 * buffers. A return named "updated.<tensor>" is what that parameter, buffer or state is afterwards
 * and may share its memory. States have the names of a checkpoint: "optim/<state>/<param>",
 * "ema/<param or buffer>". A step whose loss or gradients are not finite changes none of them.
 *
 *   VTB_UPDATE_SCALARS an input, f32 [n, 2]: a scalar a row, the sum of two numbers, so that a
 *   double loses nothing that
 *                       matters. Its initialiser names the optimiser, then the rows: those of the
 *                       enumeration below,
 *                       then hyperparameters with their defaults, "adamw t lr average clip scale
 *                       beta1=0.9 ..."
 *   VTB_UPDATE_RATES an input, f32 [n, 2], a row each trained parameter (in the order of the
 *   program's tensors):
 *                       factors on its learning rate and on its weight decay
 *   VTB_UPDATE_VERDICT  an output, f32 [VTB_N_VERDICT]
 *   VTB_UPDATE_CORRECT  an output, f32 [batch]: 1 where the image was classified right; of
 *   classifiers that declare no loss only
 *   VTB_LOSS_SCALE an input, f32 []: what the loss was multiplied by, and so all gradients are;
 *   only of programs
 *                       whose gradients would be lost in a narrow format otherwise
 *   VTB_UPDATE_SHARE an input, f32 [2], of programs that make an update of several runs, each with
 *   a piece of its batch: what the gradients of a run count (1 / the number of runs), and 1 in the
 *                       last of them, else 0. Only the last changes parameters, buffers and states
 *                       but "optim/accumulated/<param>", which has the gradients so far, is zero
 *                       before the first and becomes zero in the last. The verdict of the others
 *                       says that they do not count
 *   VTB_UPDATE_CHANGE "<param>", an output of programs whose optimiser goes by the shapes of
 *   tensors: what is added to the parameter
 *   VTB_RANK_FIRST an input, i32 []: the number of the first of the rows that a run is given within
 *   the batch of
 *                       the update; only of programs for several ranks where results depend on it
 */
#ifndef VTB_UPDATE_H
#define VTB_UPDATE_H

#define VTB_UPDATE_SCALARS "update.scalars"
#define VTB_UPDATE_RATES "update.rates"
#define VTB_UPDATE_VERDICT "update.verdict"
#define VTB_UPDATE_CORRECT "update.correct"
#define VTB_LOSS_SCALE "loss_scale"
#define VTB_UPDATE_SHARE "update.share"
#define VTB_ACCUMULATED "optim/accumulated/"
#define VTB_UPDATE_CHANGE "d:change/"
#define VTB_RANK_FIRST "rank.first"

/* Number of the update from 1, learning rate, decay of averages (0: none), bound of the norm (0:
 * none), loss scale. */
enum {
  VTB_SCALAR_STEP,
  VTB_SCALAR_LR,
  VTB_SCALAR_AVERAGE,
  VTB_SCALAR_CLIP,
  VTB_SCALAR_SCALE,
  VTB_N_SCALARS /* hyperparameters follow */
};

/* The factor on the gradients; 1 if the step counted, else 0; the norm before clipping; the trained
 * parameter (from 0) whose gradient was not finite, -1: none. */
enum {
  VTB_VERDICT_FACTOR,
  VTB_VERDICT_COUNTS,
  VTB_VERDICT_NORM,
  VTB_VERDICT_CULPRIT,
  VTB_N_VERDICT
};

#endif
