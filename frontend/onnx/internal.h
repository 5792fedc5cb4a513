/* A graph of ONNX in the making, and what ops are written with: typed values, nodes, constants.
 *
 * Everything lives in the arena of the ox. Types are those of the result; VTB_DYN in a shape is the
 * batch. Nodes stand in the order in which they are made, so each after those it reads. What
 * nothing reads is left out when the file is written.
 */
#ifndef VTB_ONNX_INTERNAL_H
#define VTB_ONNX_INTERNAL_H

#include "frontend/onnx/onnx.h"

/* Numbers of the format. */
typedef enum ox_elem {
  OX_F32 = 1,
  OX_I32 = 6,
  OX_I64 = 7,
  OX_BOOL = 9,
  OX_F16 = 10,
  OX_F64 = 11
} ox_elem;
size_t vtb__ox_elem_bytes(ox_elem e);

enum { OX_MAX_RANK = 10 };
typedef struct ox_type {
  ox_elem elem;
  int rank;
  int64_t dim[OX_MAX_RANK];
} ox_type;

typedef struct ox_node ox_node;
typedef struct ox_value {
  const char *name; /* NULL: given when the file is written */
  ox_type type;
  ox_node *def;          /* NULL: an input or initialiser */
  const void *data;      /* of an initialiser, row-major */
  struct ox_value *from; /* of patches (im2col): their image */
  bool used;
} ox_value;

typedef struct ox_graph {
  const char *name;
  ox_node *first, *last;
  ox_value **in, **out;
  int n_in, n_out;
} ox_graph;

struct ox_node {
  const char *op;
  ox_value **in, **out;
  int n_in, n_out;
  vtb_attr *attrs;
  int n_attrs;
  ox_graph *graph;  /* it stands in */
  ox_graph *body;   /* of a Scan */
  const char *path; /* the modules around it and the IR's value, "blocks.0.norm1.mean" */
  const char *place;
  bool used;
  ox_node *next;
};

typedef struct ox {
  const vtb_onnx_job *job;
  vtb_arena arena;
  ox_graph *top, *at;               /* the file's, and where nodes are added */
  VTB_VEC(ox_value *) initialisers; /* parameters, then constants as they come up */
  vtb_map constants;                /* contents -> ox_value */
  ox_value *batch;                  /* the batch as i64 [1]; NULL: no size is symbolic */
  const char *path, *place;         /* of the nodes that are added */
  vtb_diags *diags;
} ox;

/* ---- values (values.c) ----------------------------------------------------------------------- */

ox_type vtb__ox_type(const vtb_type *t);
ox_type vtb__ox_shape(ox_elem elem, int rank, const int64_t *dim);
int64_t vtb__ox_count(const ox_type *t); /* VTB_DYN counts as 1 */
ox_value *vtb__ox_new(ox *x, const ox_type *t);
/* A constant, copied; equal ones are one. */
ox_value *vtb__ox_data(ox *x, const ox_type *t, const void *data);
ox_value *vtb__ox_number(ox *x, double value);               /* f32, rank 0 */
ox_value *vtb__ox_number_of(ox *x, ox_elem e, double value); /* rank 0 */
ox_value *vtb__ox_ints(ox *x, int n, const int64_t *at);     /* i64 [n] */

/* The one way to make a node; results have no names yet. */
ox_node *vtb__ox_node(ox *x, const char *op, ox_value *const *in, int n_in, const vtb_attr *attrs,
                      int n_attrs, const ox_type *types, int n_out);
#define OX_IN(...)                                                                                 \
  (ox_value *const[]){__VA_ARGS__},                                                                \
      (int)(sizeof((ox_value *const[]){__VA_ARGS__}) / sizeof(ox_value *))
/* The same of one result. */
ox_value *vtb__ox_one(ox *x, const char *op, ox_type t, const vtb_attr *attrs, int n_attrs,
                      ox_value *const *in, int n_in);

/* ---- ops (ops.c) ----------------------------------------------------------------------------- */

ox_value *vtb__ox_unary(ox *x, const char *op, ox_value *a);
ox_value *vtb__ox_binary(ox *x, const char *op, ox_value *a, ox_value *b);  /* numpy's way */
ox_value *vtb__ox_compare(ox *x, const char *op, ox_value *a, ox_value *b); /* bool */
ox_value *vtb__ox_where(ox *x, ox_value *c, ox_value *a, ox_value *b);
ox_value *vtb__ox_cast(ox *x, ox_value *a, ox_elem to);
/* `a` itself where nothing changes. */
ox_value *vtb__ox_reshape(ox *x, ox_value *a, int rank, const int64_t *dim);
#define OX_RESHAPE(x, a, ...)                                                                      \
  vtb__ox_reshape(x, a, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                 \
                  (const int64_t[]){__VA_ARGS__})
ox_value *vtb__ox_transpose(ox *x, ox_value *a, const int64_t *perm);
#define OX_TRANSPOSE(x, a, ...) vtb__ox_transpose(x, a, (const int64_t[]){__VA_ARGS__})
ox_value *vtb__ox_expand(ox *x, ox_value *a, int rank, const int64_t *dim);
ox_value *vtb__ox_slice(ox *x, ox_value *a, int axis, int64_t start, int64_t limit, int64_t step);
ox_value *vtb__ox_pad(ox *x, ox_value *a, int axis, int64_t low, int64_t high, double with);
ox_value *vtb__ox_concat(ox *x, ox_value *const *in, int n, int axis);
ox_value *vtb__ox_gather(ox *x, ox_value *a, int axis, ox_value *indices);
ox_value *vtb__ox_reduce(ox *x, const char *op, ox_value *a, const int64_t *axes, int n, bool keep);
ox_value *vtb__ox_matmul(ox *x, ox_value *a, ox_value *b);
/* The axis moved by `by` places, from + to: what moves in is `with`. */
ox_value *vtb__ox_shift(ox *x, ox_value *a, int axis, int64_t by, double with);
/* An axis of size 1 more, or less, in front of what is axis `at`. */
ox_value *vtb__ox_unsqueeze(ox *x, ox_value *a, int at);
ox_value *vtb__ox_squeeze(ox *x, ox_value *a, int at);
/* Along the axis: a[perm[t]] of the instruction's path at t, or back; `a` without a path. */
ox_value *vtb__ox_along(ox *x, const vtb_inst *inst, ox_value *a, int axis, bool back);
/* The path's places in storage order, n of them, in the arena. */
int64_t *vtb__ox_perm(ox *x, const vtb_inst *inst, int64_t n);

/* ---- what IR ops become ---------------------------------------------------------------------- */

/* Fills out[], a value a result. */
typedef void ox_rule(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out);

/* Elementwise (scalar.c). */
ox_value *vtb__ox_scalar(ox *x, vtb_op op, ox_value *const *in);
const char *vtb__ox_scalar_form(vtb_op op); /* NULL: none */

ox_rule vtb__ox_constant, vtb__ox_iota, vtb__ox_op_cast, vtb__ox_op_reduce, vtb__ox_op_reshape,
    vtb__ox_op_broadcast, vtb__ox_op_transpose, vtb__ox_op_slice, vtb__ox_op_pad, vtb__ox_op_concat,
    vtb__ox_permute, vtb__ox_op_gather, vtb__ox_op_shift; /* move.c */
ox_rule vtb__ox_einsum;                                   /* einsum.c */
ox_rule vtb__ox_im2col, vtb__ox_col2im, vtb__ox_dwconv;   /* convolution.c */
/* The Conv of an einsum of patches that both are; false if they are none. */
bool vtb__ox_conv_of_einsum(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out);
ox_rule vtb__ox_attention;                   /* attention.c */
ox_rule vtb__ox_maxplus, vtb__ox_prefix_sum; /* scan_sums.c */
ox_rule vtb__ox_linscan;                     /* linscan.c */
ox_rule vtb__ox_delta;                       /* steps.c */
ox_rule vtb__ox_linscan_steps;               /* steps.c */

/* A Scan over axis 1 (steps.c): begin it, make the body, end it. Sequences [B, N, ...] appear in
 * the body without axis 1; constants are read from outside. */
typedef struct ox_loop {
  ox_graph *body, *outside;
  int states, seqs;
  ox_value **outer; /* initial states, sequences */
} ox_loop;
ox_loop vtb__ox_loop_begin(ox *x, ox_value *const *init, int states, ox_value *const *over,
                           int seqs);
/* made: states after a step, then yields; out: yields [B, N, ...], then last states. */
void vtb__ox_loop_end(ox *x, ox_loop *l, ox_value *const *made, int n, int64_t steps,
                      ox_value **out);

/* The body of a function on `in` (lower.c). scope: "" or "blocks.0.". */
void vtb__ox_function(ox *x, const vtb_func *f, const char *scope, ox_value *const *in,
                      ox_value **out);
ox_rule vtb__ox_fold; /* fold.c */

/* ---- the file (write.c) ---------------------------------------------------------------------- */

VTB_MUST_USE vtb_status vtb__ox_write(ox *x, const char *path, vtb_onnx_made *made, vtb_error *err);

#endif
