/* What a trainer and a program that updates its parameters itself say to each other.
 *
 * One run of such a program (codegen/cuda/plan/update.c makes them) is a whole training step:
 * forward, backward, norm of the gradients, clipping, AdamW or SGD, averages, updates of buffers,
 * all as runtime/train/optim.c and runtime/train/train_buffers.c do them. Parameters, buffers,
 * gradients and the optimiser's tensors stay in its memory; those of role VTB_IO_STATE have the
 * names of a checkpoint: "optim/m/<param>" and "optim/v/<param>", or "optim/momentum/<param>";
 * "ema/<param or buffer>". A step whose loss or gradients are not finite changes none of them.
 *
 *   VTB_UPDATE_SCALARS  an input, f32 [VTB_SCALAR_RATES + 2 n] for n trained parameters (those with
 *                       a gradient, in the order of the program's tensors): vtb_optim_scalars()
 *                       fills it
 *   VTB_UPDATE_RESULT   an output, f32 [VTB_N_RESULTS]
 *   VTB_LOSS_SCALE      an input, f32 []: what the loss was multiplied by, and so all gradients
 *                       are; only of programs whose gradients would be lost in a narrow format
 *                       otherwise
 */
#ifndef VTB_UPDATE_H
#define VTB_UPDATE_H

/* SGD: with momentum. */
typedef enum vtb_update_rule { VTB_UPDATE_NONE, VTB_UPDATE_ADAMW, VTB_UPDATE_SGD } vtb_update_rule;

#define VTB_UPDATE_SCALARS "update.scalars"
#define VTB_UPDATE_RESULT "update.result"
#define VTB_LOSS_SCALE "loss_scale"

/* Of AdamW: b1, 1 - b1, b2, 1 - b2, eps, 1 / sqrt(1 - b2^t); of SGD instead: momentum, the factor
 * on a gradient that enters it (1 at first, then 1 - dampening), and those on momentum and gradient
 * in the step (Nesterov: momentum and 1, else 1 and 0). Of both: the bound of the norm (0: none); 1
 * / loss scale; d, 1 - d of averages. Then for each parameter, of AdamW 1 - lr decay and lr / (1 -
 * b1^t), of SGD decay and lr. */
enum {
  VTB_SCALAR_MOMENTUM,
  VTB_SCALAR_GAIN,
  VTB_SCALAR_AHEAD,
  VTB_SCALAR_DIRECT,
  VTB_SCALAR_BETA1 = 0,
  VTB_SCALAR_REST1,
  VTB_SCALAR_BETA2,
  VTB_SCALAR_REST2,
  VTB_SCALAR_EPS,
  VTB_SCALAR_ROOT,
  VTB_SCALAR_CLIP,
  VTB_SCALAR_UNSCALE,
  VTB_SCALAR_AVERAGE,
  VTB_SCALAR_AVERAGE_REST,
  VTB_SCALAR_RATES = 12
};

/* The norm before clipping; 1 if the step counted, else 0; how many images were classified right;
 * the trained parameter (from 0) whose gradient was not finite, -1: none. */
enum { VTB_RESULT_NORM, VTB_RESULT_COUNTS, VTB_RESULT_CORRECT, VTB_RESULT_CULPRIT, VTB_N_RESULTS };

#endif
