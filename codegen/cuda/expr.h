/* Bodies of ops as C expressions at an index: the common ground of the loop, row and reduction kernels. The CPU's
 * codegen/cpu/expr.h is the same with LLVM values instead of text.
 *
 * A nest has variables, one an axis of its iteration space (finer where a reshape splits an axis). The index of a value
 * along an axis is affine in them, plus a part computed at run time (tables, divisions). Views change indices and cost
 * nothing; an access's address is one affine form. A body is first probed, written into text that is thrown away, to
 * find out which splits it needs and which variables always occur together: those are merged into one.
 *
 * A thread handles one element, or four neighbours along the last variable ("lanes"): then values that vary from lane
 * to lane are vtb_f4, and the others float. What cannot be four at a time (divisions, tables, conditions, integers that
 * vary) says so by no_lanes, and the kernel is written again with one.
 */
#ifndef VTB_CODEGEN_CUDA_EXPR_H
#define VTB_CODEGEN_CUDA_EXPR_H

#include "codegen/cuda/program.h"

#define VTB_CUDA_NEST_MAX 16

/* c + sum coef[k] var[k] + dyn */
typedef struct vtb_cuda_index {
  int64_t c, coef[VTB_CUDA_NEST_MAX];
  const char *dyn;  /* a C expression that is an operand of *; NULL: none */
  int64_t multiple; /* of which dyn is a multiple */
  bool lanes;       /* dyn varies from lane to lane */
} vtb_cuda_index;

/* Where a value that is stored already lies: tensor number, else a temporary, dense. */
typedef struct vtb_cuda_leaf {
  const vtb_value *value;
  int tensor, temp; /* tensor >= 0, or temp */
} vtb_cuda_leaf;

typedef struct vtb_cuda_memo {
  const vtb_value *value;
  vtb_cuda_index index[VTB_MAX_RANK];
  const char *result;
} vtb_cuda_memo;

/* The variables first ... last, which every address has in the ratio of their sizes: one number. */
typedef struct vtb_cuda_group {
  int first, last;
  int64_t size;
  const char *value; /* name of the C variable */
} vtb_cuda_group;

/* A value that several passes over a row need: kept in registers by the first, an array of chunks. */
typedef struct vtb_cuda_kept {
  const vtb_value *value;
  vtb_cuda_index index[VTB_MAX_RANK];
  const char *array; /* NULL: computed again */
  unsigned passes;   /* bit set, from probing */
  int stored;        /* pass that computed it, or -1 */
} vtb_cuda_kept;

typedef struct vtb_cuda_level {
  const vtb_value *value;
  int level;
} vtb_cuda_level;

typedef struct vtb_cuda_expr {
  vtb_cuda *c;
  const vtb_inst *inst; /* whose body this is; NULL: roots and leaves made by hand */
  vtb_cuda_kernel *k;   /* under construction */
  VTB_VEC(vtb_cuda_level) levels;
  VTB_VEC(vtb_cuda_leaf) leaves;
  /* the nest */
  int n_vars;
  int64_t var_size[VTB_CUDA_NEST_MAX];
  bool no_merge[VTB_CUDA_NEST_MAX]; /* variable k never joins k + 1 */
  int n_groups;
  vtb_cuda_group groups[VTB_CUDA_NEST_MAX];
  int vec;       /* the group with lanes, or -1 */
  int lanes;     /* 1 or 4 */
  bool no_lanes; /* found while writing with four */
  bool wide;     /* indices need 64 bits */
  /* evaluation */
  VTB_VEC(vtb_cuda_memo) memo;
  int next_name, conditions;
  int pass; /* of a row kernel */
  VTB_VEC(vtb_cuda_kept) kept;
  bool keep;
  const char *chunk; /* C variable: number of the chunk of the row */
  /* probing */
  bool probing;
  VTB_VEC(vtb_cuda_index) uses;
  int split_var;
  int64_t split_inner; /* wanted split, 0: none */
  /* reductions inside a row; NULL where there are none */
  const char *(*reduce)(struct vtb_cuda_expr *e, const vtb_value *v, const vtb_cuda_index *index);
  void *user;
} vtb_cuda_expr;

/* ---- index algebra (index.c) ---- */
vtb_cuda_index vtb__cuda_index_const(int64_t c);
vtb_cuda_index vtb__cuda_index_var(int k, int64_t coef);
vtb_cuda_index vtb__cuda_index_dyn(const char *text, bool lanes);
vtb_cuda_index vtb__cuda_index_add(vtb_cuda_expr *e, const vtb_cuda_index *x, const vtb_cuda_index *y);
vtb_cuda_index vtb__cuda_index_scale(vtb_cuda_expr *e, const vtb_cuda_index *x, int64_t k);
vtb_cuda_index vtb__cuda_index_shift(const vtb_cuda_index *x, int64_t by);
bool vtb__cuda_index_equal(const vtb_cuda_index *x, const vtb_cuda_index *y);
bool vtb__cuda_index_bounds(const vtb_cuda_expr *e, const vtb_cuda_index *x, int64_t *lo, int64_t *hi);
/* x / inner and x % inner; false if they are computed at run time. */
bool vtb__cuda_index_split(vtb_cuda_expr *e, const vtb_cuda_index *x, int64_t inner, vtb_cuda_index *quotient,
                           vtb_cuda_index *rest);
/* C expression for lane 0. */
const char *vtb__cuda_index_text(vtb_cuda_expr *e, const vtb_cuda_index *x);
bool vtb__cuda_index_varies(const vtb_cuda_expr *e, const vtb_cuda_index *x);
int64_t vtb__cuda_index_step(const vtb_cuda_expr *e, const vtb_cuda_index *x); /* from lane to lane */

/* ---- values (expr.c) ---- */
/* Name of a C variable or a literal, float or vtb_f4 (int for i32). */
const char *vtb__cuda_eval(vtb_cuda_expr *e, const vtb_value *v, const vtb_cuda_index *index);
const vtb_cuda_leaf *vtb__cuda_leaf_find(const vtb_cuda_expr *e, const vtb_value *v);
vtb_cuda_index vtb__cuda_linear(vtb_cuda_expr *e, const vtb_type *t, const int64_t *stride,
                                const vtb_cuda_index *index);
bool vtb__cuda_is_costly(vtb_op op);
/* Whether the text names a vtb_f4. */
bool vtb__cuda_is_vector(const char *name);

/* ---- nests (nest.c) ---- */
void vtb__cuda_expr_init(vtb_cuda_expr *e, vtb_cuda *c, const vtb_inst *inst);
void vtb__cuda_expr_free(vtb_cuda_expr *e);
typedef struct vtb_cuda_space {
  int rank;
  int first[VTB_MAX_RANK], count[VTB_MAX_RANK]; /* variables of each axis */
} vtb_cuda_space;
void vtb__cuda_space_init(vtb_cuda_expr *e, vtb_cuda_space *s, const vtb_type *shape);
void vtb__cuda_space_index(const vtb_cuda_expr *e, const vtb_cuda_space *s, vtb_cuda_index *index);
/* Writes `body` into text that is thrown away until it asks for no more splits, then merges variables into groups. */
typedef void (*vtb_cuda_probe_fn)(vtb_cuda_expr *e, vtb_cuda_space *s, void *user);
void vtb__cuda_probe(vtb_cuda_expr *e, vtb_cuda_space *s, vtb_cuda_probe_fn body, void *user);
/* Declares a variable for each group of the list, in row-major order from the C expression `linear`. The lanes' group
 * counts in fours. */
void vtb__cuda_decode(vtb_cuda_expr *e, const char *linear, const int *groups, int n);
int64_t vtb__cuda_groups_size(const vtb_cuda_expr *e, const int *groups, int n);
const char *vtb__cuda_int(const vtb_cuda_expr *e); /* "int" or "vtb_i64" */
/* Forgets names declared since memo had `known` entries: their scope ended. */
void vtb__cuda_forget(vtb_cuda_expr *e, size_t known);

/* ---- schedules ---- */
typedef struct vtb_cuda_root { /* a value to compute and where it goes: a tensor of the unit or a temporary */
  const vtb_value *value;
  int tensor, temp;                     /* tensor >= 0, or temp */
  int64_t offset, stride[VTB_MAX_RANK]; /* elements, for the axes of value */
} vtb_cuda_root;
/* Stores a value (C name) of root r at the index of its element. */
void vtb__cuda_store(vtb_cuda_expr *e, const vtb_cuda_root *r, const vtb_cuda_index *index, const char *value);
/* All roots have one shape; no reductions left inside. */
void vtb__cuda_emit_loop(vtb_cuda_expr *e, const vtb_cuda_root *roots, int n);
/* False, with nothing emitted, if the body does not have the form of row kernels. */
bool vtb__cuda_emit_row(vtb_cuda_expr *e, const vtb_cuda_root *roots, int n);
/* Reductions of one operand shape over the same axes. */
void vtb__cuda_emit_reduce(vtb_cuda_expr *e, const vtb_cuda_root *roots, int n);

bool vtb__cuda_is_reduce(const vtb_value *v);
/* The body's reductions that are not leaves yet, in order; call with i = 0, 1, ... until NULL. */
const vtb_value *vtb__cuda_body_reduction(const vtb_cuda_expr *e, int i);
/* Nesting depth of reductions above leaves: 0 none. */
int vtb__cuda_reduce_level(vtb_cuda_expr *e, const vtb_value *v);

#endif
