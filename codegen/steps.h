/* The steps of a run, in order: kernels, copies, calls and folds, each with the places of its
 * tensors. Made once from the memory plan and the same for every target; the CPU's host function
 * and CUDA's launch plan are two printers of it (codegen/cpu/host, codegen/cuda/plan).
 *
 * The workspace of a function is its planned frame, then dense copies of call operands, then its
 * tail, which the instruction that runs has for itself: copies of its operands, temporaries of its
 * kernels, buffers of a fold, the frame of the callee that runs. How large the tail is only the
 * printer knows: kernels take temporaries when they are emitted.
 *
 * What is prepared (passes/memory/prepare.c) comes first in the entry. Where the target keeps it
 * (vtb_places.kept) what other steps read of it lies beside the workspace.
 *
 * Ownership: all of this lives until vtb_steps_free(). The module must outlive it. One thread.
 */
#ifndef VTB_CODEGEN_STEPS_H
#define VTB_CODEGEN_STEPS_H

#include "codegen/memory_plan.h"
#include "ir/fold.h"

typedef enum vtb_spot_kind {
  VTB_AT_ARG,     /* argument `index` of the function, then its returns */
  VTB_AT_FRAME,   /* the frame, copies of call operands included */
  VTB_AT_TAIL,    /* behind it */
  VTB_AT_KEPT,    /* of the entry: beside the workspace */
  VTB_AT_CONSTANT /* the data of instruction `constant` */
} vtb_spot_kind;

/* A tensor where it lies. */
typedef struct vtb_spot {
  vtb_spot_kind at;
  int index;
  /* of the storage: a value's id; ids from the function's n_values on are copies and buffers */
  int value;
  const vtb_inst *constant;
  int64_t offset; /* bytes */
  const vtb_type *type;
  /* elements; 0 along broadcast axes, and everywhere in a constant of equal elements */
  int64_t stride[VTB_MAX_RANK];
} vtb_spot;

/* A sequence [B, N, ...] of a fold and its step as [B, len]: in place within the sequence, or
 * `copied` to and fro. */
typedef struct vtb_fold_part {
  vtb_spot sequence, step;
  vtb_type type; /* [B, len] */
  int64_t n, len;
  bool copied;
} vtb_fold_part;

/* Tensors that step t hands to the callee, in order: operands, then results. States go to and fro
 * between `result` and `other`, so that the last step writes the result: step t reads `other` if n
 * - t is odd. Where a run tells how many steps there are (vtb_fold_varies), states begin in
 * `result`, step t reads `other` if t is odd, and after an odd number of steps the printer copies
 * `other` to `result`. */
typedef struct vtb_fold_slot {
  enum { VTB_FOLD_OLD, VTB_FOLD_NEW, VTB_FOLD_CONST, VTB_FOLD_PART } kind;
  int index;
} vtb_fold_slot;

/* A copy between a step's place in its sequence and `step`, or a state before the step (old >=
 * 0). */
typedef struct vtb_fold_move {
  int part, old;
  bool to_sequence;
} vtb_fold_move;

typedef struct vtb_fold_loop {
  vtb_fold p;
  int64_t n;     /* steps */
  int64_t frame; /* bytes from the tail's beginning to the callee's frame */
  vtb_spot *constants, *result, *other;
  vtb_fold_part *parts;
  vtb_fold_slot *slots;
  vtb_fold_move *before, *after;
  int n_slots, n_before, n_after;
} vtb_fold_loop;

typedef enum vtb_step_kind {
  VTB_STEP_KERNEL,
  VTB_STEP_COPY,
  VTB_STEP_CALL,
  VTB_STEP_FOLD,
  /* begins a sum over ranks, in place: the first place and the last are one, and dense; of three
   * the second has a number that is 0 if there is nothing to sum */
  VTB_STEP_SUM,
  VTB_STEP_WAIT /* for all sums that were begun; nothing touches them before */
} vtb_step_kind;

typedef struct vtb_step {
  vtb_step_kind kind;
  const vtb_inst *inst; /* NULL: a copy between functions and around folds, of no instruction */
  int n_operands, n_results;
  vtb_spot *at;      /* operands, then results; of a copy: from and to */
  int64_t tail;      /* bytes of the tail that are taken; temporaries start behind them */
  const char *label; /* for readers (codegen/label.h); NULL of a copy */
  bool prepared;     /* the instruction depends on parameters alone (passes/memory/prepare.c) */
  vtb_fold_loop *fold;
} vtb_step;

typedef struct vtb_func_steps {
  const vtb_func *func;
  int runs;          /* in one run of the entry; 0: inside a kernel */
  const char *path;  /* the scopes of the calls to it, "blocks.*" */
  int n_values;      /* of spots */
  bool is_step;      /* of a fold that is one kernel: runs inside it */
  int64_t tail_base; /* bytes of the frame and the copies */
  size_t n_prepared; /* the first steps, that runs leave out where what they make is kept */
  VTB_VEC(vtb_step) list;
} vtb_func_steps;

typedef struct vtb_steps {
  vtb_places places;
  vtb_plan plan;
  size_t n_funcs;
  vtb_func_steps *funcs; /* callees before callers; the entry is the last */
  vtb_arena arena;
} vtb_steps;

/* Plans memory and lists the steps. The module must be bound. */
VTB_MUST_USE vtb_status vtb_steps_make(vtb_module *m, vtb_func *entry, const vtb_places *places,
                                       vtb_steps *out, vtb_error *err);
void vtb_steps_free(vtb_steps *s);
/* Its number among the functions. */
size_t vtb_steps_find(const vtb_steps *s, const vtb_func *f);

/* Bytes, up to the next multiple of the target's frame alignment. */
int64_t vtb_places_round(const vtb_places *p, int64_t bytes);
/* Storage positions in the order of a fold's steps; n of them, from malloc. */
int64_t *vtb_fold_positions(const vtb_fold_loop *f);
/* Where in the sequence the step at `position` lies. */
vtb_spot vtb_fold_in_sequence(const vtb_fold_part *p, int64_t position);

#endif
