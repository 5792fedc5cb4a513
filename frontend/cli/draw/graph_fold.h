/* Repeats in a picture: blocks that are the same but for their weights and directions. */
#ifndef VTB_CLI_GRAPH_FOLD_H
#define VTB_CLI_GRAPH_FOLD_H

#include "frontend/cli/draw/graph_part.h"

/* `times` runs of `period` units, one behind the other, of which the first is shown. */
typedef struct graph_repeat {
  int first, period, times; /* of graph_fold.order */
} graph_repeat;

typedef struct graph_fold {
  VTB_VEC(int) order; /* units that are there, in order */
  int *shown;         /* by unit: the unit that stands for it; -1: gone */
  VTB_VEC(graph_repeat) repeats;
} graph_fold;

/* fold: false only lists the units. */
void graph_fold_find(graph_fold *out, const graph_part *p, bool fold);
void graph_fold_free(graph_fold *f);
/* The repeat whose shown part has that unit; NULL. */
const graph_repeat *graph_fold_repeat(const graph_fold *f, int unit);

/* Blocks with one text are drawn once: the same units in the same order, whatever their sizes. */
void graph_block_kind(const vtb_func *f, vtb_strbuf *out);

#endif
