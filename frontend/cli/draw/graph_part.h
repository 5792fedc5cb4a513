/* A function as the units that a picture of it shows: kernels, or ops of one module, and blocks,
 * with the tensors that go from one to the next. What parameters alone are computed to, and what
 * only looks at a tensor in another way, is no unit. */
#ifndef VTB_CLI_GRAPH_PART_H
#define VTB_CLI_GRAPH_PART_H

#include "ir/ir.h"

typedef enum graph_kind {
  GRAPH_INPUT,
  GRAPH_OUTPUT,
  GRAPH_BLOCK,       /* a call */
  GRAPH_PRODUCT,     /* matrix products */
  GRAPH_CONVOLUTION, /* also as a product of patches */
  GRAPH_RECURRENCE,
  GRAPH_ATTENTION,
  GRAPH_POINTWISE, /* elementwise ops and sums: of the fused stage one kernel */
  GRAPH_MOVE,      /* copies */
  GRAPH_KINDS
} graph_kind;

typedef struct graph_unit {
  graph_kind kind;
  char *name;                        /* of an input or output; NULL */
  const vtb_inst *main;              /* what makes it what it is; NULL: input, output */
  VTB_VEC(const vtb_inst *) ops;     /* in order; of a kernel those of its function */
  const vtb_inst *patches;           /* im2col before the product; NULL */
  const vtb_type *type;              /* of what it gives first */
  VTB_VEC(const vtb_value *) params; /* arguments of the function that are parameters */
  bool gone;                         /* part of another unit */
} graph_unit;

typedef struct graph_edge {
  int from, to;         /* units */
  const vtb_type *type; /* as it is read */
  int more;             /* further tensors from the one to the other */
} graph_edge;

typedef struct graph_part {
  const vtb_func *func;
  VTB_VEC(graph_unit) units; /* in the order of the text */
  VTB_VEC(graph_edge) edges; /* one a pair */
} graph_part;

/* Reads a function in any stage from `ir` to `fused`. */
void graph_part_read(graph_part *p, const vtb_func *f);
void graph_part_free(graph_part *p);

/* Elements of the parameters of a unit. */
int64_t graph_unit_parameters(const graph_unit *u);
double graph_unit_macs(const graph_unit *u); /* multiply-adds an image, as papers count */

#endif
