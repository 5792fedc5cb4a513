/* Bodies of ops as values at an index: the common ground of the loop, row and reduction kernels.
 *
 * A nest has variables, one an axis of its iteration space (finer where a reshape splits an axis). The index of a value
 * along an axis is affine in them, plus a part computed at run time (tables, divisions). Views change indices and cost
 * nothing; a load's address is one affine form. A body is first probed, emitted into a function that is thrown away, to
 * find out which splits it needs and which variables always occur together: those are merged into one loop.
 */
#ifndef VTB_CODEGEN_CPU_EXPR_H
#define VTB_CODEGEN_CPU_EXPR_H

#include "codegen/host.h"

#define VTB_NEST_MAX 16

/* c + sum coef[k] var[k] + dyn */
typedef struct vtb_index {
  int64_t c, coef[VTB_NEST_MAX];
  LLVMValueRef dyn; /* i64, or <lanes x i64> if `lanes`; NULL: none */
  bool lanes;
} vtb_index;

/* Where a value that is stored already lies: an operand (or result) of the kernel, a temporary of it, or a table. */
typedef struct vtb_leaf {
  const vtb_value *value;
  int tensor;            /* >= 0: number of the operand or result */
  int64_t temp;          /* else a temporary, dense */
  const int64_t *stride; /* instead of the memory's own, for a value that is another view of it; or NULL */
} vtb_leaf;

typedef struct vtb_memo {
  const vtb_value *value;
  vtb_index index[VTB_MAX_RANK];
  LLVMValueRef result;
} vtb_memo;

/* A loop: the variables first ... last, which every address has in the ratio of their sizes. */
typedef struct vtb_group {
  int first, last;
  int64_t size;
  LLVMValueRef value;
} vtb_group;

/* A transcendental value that several passes over a row need: kept in scratch memory by the first. */
typedef struct vtb_kept {
  const vtb_value *value;
  vtb_index index[VTB_MAX_RANK];
  LLVMValueRef row; /* scratch */
  unsigned passes;  /* bit set, from probing */
  int stored;       /* pass that computed it, or -1 */
} vtb_kept;

typedef struct vtb_level { /* of a value, see vtb__reduce_level */
  const vtb_value *value;
  int level;
} vtb_level;

typedef struct vtb_expr {
  vtb_cpu *c;
  const vtb_inst *inst; /* whose body this is; NULL: roots and leaves made by hand */
  vtb_cpu_task *task;
  VTB_VEC(vtb_level) levels; /* known ones; they change with the leaves */
  VTB_VEC(vtb_leaf) leaves;
  /* the nest */
  int n_vars;
  int64_t var_size[VTB_NEST_MAX];
  bool no_merge[VTB_NEST_MAX]; /* variable k never joins k + 1 */
  int n_groups;
  vtb_group groups[VTB_NEST_MAX];
  int vec; /* the vectorised group, or -1 */
  int lanes;
  LLVMValueRef mask; /* of the tail, or NULL */
  /* evaluation */
  VTB_VEC(vtb_memo) memo;
  LLVMBasicBlockRef hoist; /* runs before the innermost loop; NULL: not in one */
  int conditions;          /* depth of branches around the current place */
  int pass;                /* of a row kernel */
  VTB_VEC(vtb_kept) kept;
  bool keep; /* use `kept` */
  /* probing */
  bool probing;
  VTB_VEC(vtb_index) uses;
  int split_var;
  int64_t split_inner; /* wanted split, 0: none */
  int64_t weight;      /* of one element, see vtb__body_weight */
  /* reductions inside a row; NULL where there are none */
  LLVMValueRef (*reduce)(struct vtb_expr *e, const vtb_value *v, const vtb_index *index);
  void *user;
} vtb_expr;

/* ---- index algebra (index.c) ---- */
vtb_index vtb__index_const(int64_t c);
vtb_index vtb__index_var(int k, int64_t coef);
vtb_index vtb__index_add(vtb_expr *e, const vtb_index *x, const vtb_index *y);
vtb_index vtb__index_scale(vtb_expr *e, const vtb_index *x, int64_t k);
vtb_index vtb__index_shift(const vtb_index *x, int64_t by);
bool vtb__index_equal(const vtb_index *x, const vtb_index *y);
bool vtb__index_bounds(const vtb_expr *e, const vtb_index *x, int64_t *lo, int64_t *hi); /* false: unknown */
/* x / inner and x % inner. `exact` false if they had to be computed at run time. */
bool vtb__index_split(vtb_expr *e, const vtb_index *x, int64_t inner, vtb_index *quotient, vtb_index *rest);
/* Value of lane 0, and the step from lane to lane; or all lanes, as <lanes x i64> in *all. */
typedef struct vtb_place_at {
  LLVMValueRef base;
  int64_t step;
  LLVMValueRef all; /* NULL if affine in the lane */
} vtb_place_at;
vtb_place_at vtb__index_emit(vtb_expr *e, const vtb_index *x);
LLVMValueRef vtb__index_lanes(vtb_expr *e, const vtb_index *x); /* <lanes x i64>, or i64 if lanes is 1 */
bool vtb__index_varies(const vtb_expr *e, const vtb_index *x);  /* from lane to lane */

/* ---- values (expr.c) ---- */
LLVMValueRef vtb__eval(vtb_expr *e, const vtb_value *v, const vtb_index *index);
LLVMValueRef vtb__load(vtb_expr *e, const vtb_cpu_tensor *t, const vtb_index *index);
/* Stores `v` (splat if need be) at element offset `at` from ptr; `at` has lane step 1 or 0. */
void vtb__store(vtb_expr *e, LLVMValueRef v, LLVMValueRef ptr, const vtb_index *at);
LLVMValueRef vtb__widen(vtb_expr *e, LLVMValueRef v);
const vtb_leaf *vtb__leaf_find(const vtb_expr *e, const vtb_value *v);
vtb_cpu_tensor vtb__leaf_tensor(vtb_expr *e, const vtb_leaf *leaf);
vtb_index vtb__linear(vtb_expr *e, const vtb_type *t, const int64_t *stride, const vtb_index *index);

bool vtb__is_costly(vtb_op op); /* a polynomial or more */

/* ---- nests (nest.c) ---- */
void vtb__expr_init(vtb_expr *e, vtb_cpu *c, const vtb_inst *inst);
void vtb__expr_free(vtb_expr *e);
/* Variables for the axes of `shape` in order; *index gets each axis' index (0 along size-1 axes). */
typedef struct vtb_space {
  int rank;
  int first[VTB_MAX_RANK], count[VTB_MAX_RANK]; /* variables of each axis */
} vtb_space;
void vtb__space_init(vtb_expr *e, vtb_space *s, const vtb_type *shape);
void vtb__space_index(const vtb_expr *e, const vtb_space *s, vtb_index *index);
/* Runs `body` in a throw-away function until it asks for no more splits, then merges variables into groups. */
typedef void (*vtb_probe_fn)(vtb_expr *e, vtb_space *s, void *user);
void vtb__probe(vtb_expr *e, vtb_space *s, vtb_probe_fn body, void *user);
/* Sets the values of groups [from, to) from a linear number. */
void vtb__decode(vtb_expr *e, LLVMValueRef linear, int from, int to);
void vtb__decode_list(vtb_expr *e, LLVMValueRef linear, const int *groups, int n);
int64_t vtb__groups_size(const vtb_expr *e, int from, int to);
void vtb__choose_lanes(vtb_expr *e, int group);
/* for (groups[e->vec] = from; ...; < to): body with full vectors, then once under a mask if a tail may remain. `carry`
 * values pass from one to the next. */
typedef void (*vtb_vector_fn)(vtb_expr *e, LLVMValueRef *carry, void *user);
void vtb__vector_loop(vtb_expr *e, LLVMValueRef from, LLVMValueRef to, bool tail, LLVMValueRef *carry, int n_carry,
                      vtb_vector_fn body, void *user);
/* A block before the loops that follow, where uniform loads may go. */
void vtb__hoist_here(vtb_expr *e);

/* ---- schedules ---- */
typedef struct vtb_root { /* a value to compute and where it goes: a result of the kernel or a temporary */
  const vtb_value *value;
  int tensor;                           /* >= 0: number of the operand or result */
  int64_t temp;                         /* else a temporary */
  int64_t offset, stride[VTB_MAX_RANK]; /* elements, for the axes of value */
} vtb_root;
LLVMValueRef vtb__root_ptr(vtb_expr *e, const vtb_root *r);
vtb_index vtb__root_index(vtb_expr *e, const vtb_root *r, const vtb_index *index);
/* How many plain elements' worth of time one element takes. */
int64_t vtb__body_weight(const vtb_inst *inst);
/* All roots have one shape; no reductions left inside. */
void vtb__emit_loop(vtb_expr *e, const vtb_root *roots, int n);
/* False, with nothing emitted, if the body does not have the form of row kernels. */
bool vtb__emit_row(vtb_expr *e, const vtb_root *roots, int n);
/* Reductions of one operand shape over the same axes. */
void vtb__emit_reduce(vtb_expr *e, const vtb_root *roots, int n);

bool vtb__is_reduce(const vtb_value *v);
/* The body's reductions that are not leaves yet, in order; call with i = 0, 1, ... until NULL. */
const vtb_value *vtb__body_reduction(const vtb_expr *e, int i);
/* Nesting depth of reductions above leaves: 0 none. */
int vtb__reduce_level(vtb_expr *e, const vtb_value *v);

#endif
