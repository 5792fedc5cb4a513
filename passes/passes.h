/* IR to IR. The pass manager, the default pipelines, and what code generation asks of modules.
 *
 * A pass is a row of passes/passes.def: name, summary, options. A pipeline is a string,
 * "path_fold,simplify,fuse{max=64}". Every pass takes the whole module, leaves it verified, and may
 * report to `diags`. Iteration is by list order and id, never by address: the same input prints the
 * same text.
 */
#ifndef VTB_PASSES_H
#define VTB_PASSES_H

#include "ir/ir.h"
#include "passes/cost/ask.h"
#include "passes/fuse/choice.h"
#include "passes/cost/gpu.h"
#include "passes/target.h"
#include "passes/cost/tuning.h"

struct vtb_gradients;
struct vtb_train_step;
struct vtb_update_options;

/* Processes that train one model together, at most. */
enum { VTB_MOST_RANKS = 4096 };

typedef struct vtb_pass_context {
  vtb_module *module;
  vtb_diags *diags;
  const char *options;      /* text between the braces of the pipeline, or NULL */
  int64_t batch;            /* what bind replaces VTB_DYN with */
  const vtb_target *target; /* what the module is on its way to; NULL in the graph's half */
  vtb_gpu gpu;              /* of targets that are one; without a name: the default */
  vtb_precision precision;  /* of products there */
  bool int8;                /* products with parameters are of numbers of 8 bits, where they can */
  struct vtb_quantized *quantized; /* takes how many are; may be NULL */
  bool library;                    /* large products are by the vendor's library */
  vtb_asker *asker;                /* what its kernels take; NULL: fusions follow the rules alone */
  bool updates;                    /* runs change the parameters */
  bool lean;                       /* memory counts for more than time: weights have no copies */
  int ranks;                       /* processes that share a batch out; 0: 1 */
  bool pieces;      /* runs have pieces of a batch, of which each begins at some row */
  bool draws;       /* runs are batches, whose random numbers alone go on from others' */
  const char *mode; /* of every recurrence: NULL, "auto", "recurrent", "parallel", "chunkwise" */
  int64_t chunk;    /* with mode "chunkwise"; 0: default */
  const vtb_tuning *tuning; /* what was measured, for mode "auto"; NULL: nothing */
  int threads;              /* that runs will have, as far as that decides modes; 0: 1 */
  bool keep_taps;
  vtb_decisions *decisions; /* what is wanted, and what was decided; NULL: anything */
  /* of the passes of these names; train_step makes another entry */
  struct vtb_gradients *autodiff;
  const struct vtb_train_step *train_step;
  const struct vtb_update_options *update;
} vtb_pass_context;

typedef struct vtb_pipeline_options {
  const char *pipeline;    /* NULL: the target's; without a target vtb_pipeline_graph */
  const char *print_after; /* pass name, or "all": the IR goes to `say` */
  bool verify_each, time;  /* time: a table, to `say` */
  void (*say)(void *user, const char *text); /* NULL: nobody listens */
  void *user;
} vtb_pipeline_options;

/* First half: graph level, keeps meaning and differentiability (taps, path folding, recurrence
 * lowering, simplify, cse, dce). The second half, after autodiff, is the target's
 * (passes/target.h). */
extern const char *const vtb_pipeline_graph;

VTB_MUST_USE vtb_status vtb_run_pipeline(vtb_pass_context *c, const vtb_pipeline_options *o,
                                         vtb_error *err);

/* What became of the products with parameters that a run computes: how many, and their operations.
 */
typedef enum vtb_quantized_verdict {
  VTB_QUANTIZED,
  VTB_LEFT_NARROW, /* few columns or terms */
  VTB_LEFT_BLOCKS, /* small matrices, one a group of channels */
  VTB_LEFT_FORM,
  VTB_N_QUANTIZED
} vtb_quantized_verdict;
typedef struct vtb_quantized {
  int64_t n[VTB_N_QUANTIZED];
  double work[VTB_N_QUANTIZED];
} vtb_quantized;
/* "int8: 74 of 98 products with parameters, 99.1 % of their work; left in float32: ..." */
void vtb_quantized_print(const vtb_quantized *q, vtb_strbuf *out);

/* How a recurrence or a loop is computed. Of a linscan or delta its class, the mode that
 * select_mode gave it, and why: "scalar decay, chunkwise(16): cheaper than parallel from 144
 * tokens", "scalar decay, parallel: measured 0.21 ms against 0.25 of chunkwise(64)"; of a fold
 * "step after step", "a loop of 250 steps". The context is that of select_mode: target, precision,
 * tuning and threads. */
void vtb_mode_reason(const vtb_pass_context *c, const vtb_inst *inst, vtb_strbuf *out);

/* Reverse mode. From entry @f(args) -> (outs) makes and returns a new entry function
 *   @f_grad(args..., adjoints of the outs listed in `outs`...)
 *       -> (outs..., adjoints of the args listed in `wrt`...)
 * with functions called by @f split into a forward that also returns what the backward needs, and a
 * backward. Adjoint arguments have role GRAD and official name "d:<output>"; adjoint returns are
 * named "d:<arg official name>". Adjoints of args that the outs do not depend on are zeros. Defined
 * in passes/grad/autodiff.c; rules in passes/grad/grad_*.c. */
VTB_MUST_USE vtb_status vtb_autodiff(vtb_module *m, vtb_func *f, const int *outs, int n_outs,
                                     const int *wrt, int n_wrt, vtb_func **grad, vtb_diags *diags,
                                     vtb_error *err);
/* The same, and more that can be asked for. */
typedef struct vtb_gradients {
  const int *outs, *wrt;
  int n_outs, n_wrt;
  /* for targets where memory is the limit (passes/target.h): what products read in the forward and
   * in the backward is returned too, so that it is stored once; takes more memory */
  bool keeps;
  bool starts; /* scans of class rates leave every eighth state for their adjoints */
  /* So many calls of the entry, the first of those that save something but never the last: their
   * forward half runs again ahead of the backward half, which takes what it saves from there. The
   * same bits, one more forward of those calls, and no memory in between but what they were given.
   */
  int64_t recompute;
  int64_t *recomputed; /* how many these came to; NULL: nobody asks */
  /* The halves as functions of their own, for callers that run other things in between:
   *   @f_fwd(args...) -> (outs..., "saved.0", "saved.1"...)
   *   @f_bwd(args that it reads..., what was saved..., adjoints of the outs) -> (adjoints of wrt)
   * What was saved and is an out is called "result.<out>" in the backward. fwd is @f where nothing
   * is saved besides. */
  bool halves;
  vtb_func *grad, *fwd, *bwd; /* what was made */
} vtb_gradients;
VTB_MUST_USE vtb_status vtb_autodiff_as(vtb_module *m, vtb_func *f, vtb_gradients *g,
                                        vtb_error *err);

/* Training step. Of an entry that returns losses and metrics (ir/objective.h):
 *   @train(args..., valid f32 [B]) -> (loss [], loss:<name> [2, K]..., metric:<name> [2, K]...,
 *                                      d:<param>...)
 *   loss = the sum of the losses
 * Of any other, for a classifier entry with output logits [B, classes]:
 *   @train(args..., labels i32 [B]) -> (loss [], logits, d:<param>...)
 *   loss = mean cross entropy with label smoothing
 * (passes/train/train_step.c: builds the loss in IR, then vtb_autodiff with a constant adjoint of
 * 1.) With loss_scale it has one more argument, input "loss_scale" f32 [], by which every adjoint
 * is multiplied. */
typedef struct vtb_train_step {
  const char *logits; /* of a classifier's outputs; NULL: the first */
  double label_smoothing;
  bool loss_scale;
  bool keeps, starts;             /* as in vtb_gradients */
  int64_t recompute, *recomputed; /* likewise */
} vtb_train_step;
VTB_MUST_USE vtb_status vtb_build_train_step(vtb_module *m, vtb_func *f, const vtb_train_step *o,
                                             vtb_func **train, vtb_diags *diags, vtb_error *err);

/* Warnings of what a training step of the entry would leave untrained; none of an entry that is
 * neither a classifier nor declares a loss. */
void vtb_check_training(vtb_func *f, vtb_diags *diags);

/* The measure of an entry that returns losses or metrics (passes/train/objective.c):
 *   @evaluation(args..., valid f32 [B]) -> (loss:<name> [2, K]..., metric:<name> [2, K]...)
 * VTB_E_INPUT if it returns none. */
VTB_MUST_USE vtb_status vtb_build_evaluation(vtb_module *m, vtb_func *f, vtb_func **made,
                                             vtb_error *err);

/* The end of a training step (passes/train/update.c): a rule behind the gradients of `step`.
 * VTB_E_INPUT if it is no training step. Of a classifier's step it also counts what was classified
 * right. */
typedef struct vtb_update_options {
  const vtb_func *rule; /* an optimiser of any module */
  /* Of one whose equations go by the shapes of tensors, or sum over all of them (see
   * passes/train/shaped.c): those of a tensor, in any module; rows 0: it is no matrix, and has
   * `columns` elements. NULL after an error, which is told elsewhere. Otherwise NULL. */
  const vtb_func *(*of_tensor)(void *user, const char *name, int64_t rows, int64_t columns);
  void *user;
  bool average; /* of parameters and buffers */
  /* gradients of several runs make an update (runtime/base/update.h); their number is no matter */
  bool accumulates;
  /* the step updates the parameters that are dealt to `rank` of `ranks`, and has their states
   * alone; 0: all */
  int rank, ranks;
} vtb_update_options;
VTB_MUST_USE vtb_status vtb_attach_update(vtb_module *m, vtb_func *step,
                                          const vtb_update_options *o, vtb_error *err);

/* ---- products (passes/fuse/product.c): what einsums and scans are on tensor cores ------------ */

/* Sums so short that products of tiles are mostly empty. */
enum { VTB_SHORT_SUM = 8 };
/* True if an einsum is a product of matrices, not a sum a thread; and linscan or linscan_grad
 * products of tiles, not steps. */
bool vtb_is_product(const vtb_inst *einsum);
bool vtb_scan_is_product(const vtb_inst *scan);
/* True if the kernel of a scan on CUDA can hold elementwise ops before and behind it
 * (fuse/words_scans.c). */
bool vtb_scan_takes_body(const vtb_inst *scan);

/* ---- folds in tiles (passes/recurrence/fold_tile.c)
 * ----------------------------------------------------- */

/* Shared memory that a step of a tile takes at most where a fold is one kernel of CUDA: its states
 * twice, what products read and make. */
int64_t vtb_fold_step_bytes(const vtb_func *step, int states);
/* Room of such a kernel: the GPUs of today have 99 KiB a block or more. */
enum { VTB_FOLD_SHARED = 96 << 10 };

/* ---- storage (passes/memory/storage.c) ------------------------------------------------------- */

/* Gives values of a function that is part of a program, arguments and results among them, the types
 * that memory would have if the rest of the program were as usual: of 16 bits where they are
 * products' factors, or where all products round and they are as large as the largest. For
 * estimates alone. */
void vtb_storage_guess(vtb_func *f, vtb_precision precision);

#endif
