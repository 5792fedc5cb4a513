/* Gathers and their adjoints, for tests of either target: shapes, axes, views. */
#ifndef VTB_TEST_GATHER_CASES_H
#define VTB_TEST_GATHER_CASES_H

#include "ir/ir.h"
#include "ir/ops.h"

typedef struct gather_case {
  int rank;
  int64_t size[5]; /* of what is picked from */
  int axis;
  int n_picks;
  int64_t picks[2];
  bool views; /* rows are part of longer ones, and so are the indices */
} gather_case;

static const gather_case gather_cases[] = {
    {2, {40, 64}, 0, 1, {100}, false},      /* rows of a table */
    {2, {9, 3}, 0, 2, {7, 7}, false},       /* a bias of pairs of places */
    {1, {6}, 0, 1, {5}, false},             /* numbers */
    {2, {3, 33}, 1, 1, {20}, true},         /* of each sample its own */
    {2, {3, 8}, 1, 0, {0}, false},          /* one a sample */
    {3, {2, 17, 37}, 1, 1, {40}, true},     /* tokens, whose width is no whole vector */
    {3, {2, 1500, 3}, 1, 1, {2100}, false}, /* more picks than a block looks at together */
    {4, {2, 5, 3, 4}, 1, 2, {2, 3}, true},  /* rows of several axes, with gaps */
    {4, {2, 3, 5, 4}, 2, 1, {6}, false},    /* axes before */
    {4, {4, 3, 30, 30}, 0, 1, {4}, false},  /* the batch, in another order */
    {2, {1, 5000}, 0, 1, {3}, false},       /* one place, long rows */
    {5, {2, 2, 3, 2, 8}, 1, 2, {2, 1}, false}};
enum { N_GATHER_CASES = sizeof gather_cases / sizeof *gather_cases };

static vtb_type gather_whole(const gather_case *c) {
  return vtb_type_make(VTB_F32, c->rank, c->size);
}

static vtb_type gather_indices(const gather_case *c) {
  vtb_type t = gather_whole(c);
  t.rank = c->axis;
  for (int a = 0; a < c->n_picks; a++) t.dim[t.rank++].size = c->picks[a];
  return t;
}

static vtb_type gather_picked(const gather_case *c) {
  vtb_type t = gather_indices(c);
  for (int a = c->axis + 1; a < c->rank; a++) t.dim[t.rank++].size = c->size[a];
  return t;
}

/* The argument's type: with 5 more along the last axis if it is to be a view. */
static vtb_type gather_argument(const gather_case *c, vtb_type t) {
  if (c->views) t.dim[t.rank - 1].size += 5;
  return t;
}

static vtb_value *gather_part(vtb_builder *b, const gather_case *c, vtb_value *x) {
  int last = x->type.rank - 1;
  return c->views ? vtb_b_slice(b, x, last, 2, x->type.dim[last].size - 3, 1) : x;
}

/* Of arguments of these types; indices are numbers, from -1 to the number of places. */
static vtb_inst *gather_build(vtb_builder *b, const gather_case *c, bool adds, vtb_value *x,
                              vtb_value *indices) {
  vtb_attr attrs[] = {VTB_A_INT("axis", c->axis), VTB_A_INT("size", c->size[c->axis])};
  indices = vtb_b_cast(b, gather_part(b, c, indices), VTB_I32);
  vtb_value *operands[] = {gather_part(b, c, x), indices};
  return vtb_build(b, adds ? VTB_OP_scatter_sum : VTB_OP_gather, operands, 2, attrs, adds ? 2 : 1);
}

#endif
