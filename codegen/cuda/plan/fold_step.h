/* Between fold.c and fold_step.c: a fold that becomes a loop. */
#ifndef VTB_CODEGEN_CUDA_FOLD_STEP_H
#define VTB_CODEGEN_CUDA_FOLD_STEP_H

#include "codegen/cuda/plan/program.h"

typedef struct vtb_cuda_fold {
  vtb_cuda *c;
  const vtb_fold_loop *fold;
  const char *label;
  int64_t *order;   /* positions in the sequences, in the order of the steps */
  int64_t frame;    /* of the callee, as in fold */
  bool odd;         /* of the step at hand */
  int64_t position; /* of one of a few */
  /* ---- of a loop: places of parts' steps; of the number of the step at hand, and of the next */
  vtb_spot *step;
  vtb_cuda_ref counter[2];
  bool counts;               /* something lies where the number of the step says */
  vtb_cuda_ref first, turns; /* conditions of loops: of the first of an odd limit, of all others */
} vtb_cuda_fold;

/* A copy between the part's sequence, at the step at hand, and `step`, dense. */
typedef struct vtb_cuda_move {
  const vtb_fold_part *part;
  vtb_spot step;
  bool to_sequence;
} vtb_cuda_move;
typedef VTB_VEC(vtb_cuda_move) vtb_cuda_moves;

/* A kernel before or behind the callee. */
typedef struct vtb_cuda_side {
  const vtb_cuda_ref *from, *to; /* number of the step; NULL, or where that of the next one goes */
  bool counted;                  /* `from` has that of the next one already */
  vtb_cuda_moves moves;
  /* all states from their other places to those of the results, with what a fold's condition says
   * then, or back */
  enum { VTB_HANDS_NONE, VTB_HANDS_ON, VTB_HANDS_BACK } hands;
} vtb_cuda_side;

/* Gives all of a loop its places in the tail. */
void vtb__cuda_fold_places(vtb_cuda_fold *l);
/* A launch: counts from 0, and how often loops run. */
void vtb__cuda_fold_begin(vtb_cuda_fold *l);
void vtb__cuda_fold_side(vtb_cuda_fold *l, const vtb_cuda_side *side);

#endif
