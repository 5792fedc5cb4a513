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
  bool counts; /* the next kernel of the step leaves the number of the next one */
} vtb_cuda_fold;

/* A copy between the part's sequence, at the step at hand, and `step`, dense. */
typedef struct vtb_cuda_move {
  const vtb_fold_part *part;
  vtb_spot step;
  bool to_sequence;
} vtb_cuda_move;
typedef VTB_VEC(vtb_cuda_move) vtb_cuda_moves;

/* Gives counter and steps their places in the tail; counts from 0. */
void vtb__cuda_fold_places(vtb_cuda_fold *l);
/* One launch, if there is anything to move. */
void vtb__cuda_fold_moves(vtb_cuda_fold *l, const vtb_cuda_moves *moves);

#endif
