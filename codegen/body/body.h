/* Bodies of ops as values at an index: the common ground of the loop, row and reduction kernels of
 * all targets.
 *
 * A nest has variables, one an axis of its iteration space (finer where a reshape splits an axis).
 * The index of a value along an axis is affine in them, plus a part computed at run time (tables,
 * divisions). Views change indices and cost nothing; an access's address is one affine form. A body
 * is first probed, emitted into something that is thrown away, to find out which splits it needs
 * and which variables always occur together: those are merged into one group.
 *
 * A target embeds a vtb_body as the first member of its own state and fills a vtb_body_target. What
 * it makes (values, conditions, run-time parts of indices) is opaque here: an LLVMValueRef on the
 * CPU, a C expression on CUDA.
 */
#ifndef VTB_CODEGEN_BODY_H
#define VTB_CODEGEN_BODY_H

#include "ir/ir.h"

#define VTB_NEST_MAX 16
#define VTB_LAST_PASS 31 /* of a row kernel: the one that stores */

typedef struct vtb_body vtb_body;

/* c + sum coef[k] var[k] + dyn */
typedef struct vtb_index {
  int64_t c, coef[VTB_NEST_MAX];
  void *dyn;        /* the target's; NULL: none */
  int64_t multiple; /* of which dyn is a multiple */
  bool lanes;       /* dyn varies from lane to lane */
} vtb_index;

/* Where a value that is stored already lies: an operand (or result) of the kernel, or a temporary
 * of it. */
typedef struct vtb_leaf {
  const vtb_value *value;
  int tensor;   /* >= 0: number of the operand or result */
  int64_t temp; /* else a temporary, dense */
  /* instead of the memory's own, for a value that is another view of it; or NULL */
  const int64_t *stride;
} vtb_leaf;

/* A value to compute and where it goes. */
typedef struct vtb_root {
  const vtb_value *value;
  int tensor;                           /* >= 0: number of the operand or result */
  int64_t temp;                         /* else a temporary */
  int64_t offset, stride[VTB_MAX_RANK]; /* elements, for the axes of value */
} vtb_root;

/* The variables first ... last, which every address has in the ratio of their sizes: one number. */
typedef struct vtb_group {
  int first, last;
  int64_t size;
  void *value;
} vtb_group;

typedef struct vtb_space {
  int rank;
  int first[VTB_MAX_RANK], count[VTB_MAX_RANK]; /* variables of each axis */
} vtb_space;

typedef struct vtb_memo {
  const vtb_value *value;
  vtb_index index[VTB_MAX_RANK];
  void *result;
} vtb_memo;

/* A value that several passes over a row need: kept by the first. */
typedef struct vtb_kept {
  const vtb_value *value;
  vtb_index index[VTB_MAX_RANK];
  void *place;     /* the target's; NULL: computed again */
  unsigned passes; /* bit set, from probing */
  int stored;      /* pass that computed it, or -1 */
} vtb_kept;

typedef struct vtb_level { /* of a value, see vtb__reduce_level */
  const vtb_value *value;
  int level;
} vtb_level;

/* One side of a condition. */
typedef void *(*vtb_arm_fn)(vtb_body *b, const void *user, bool yes);

typedef struct vtb_body_target {
  int most_together; /* reductions in one kernel */
  bool keeps_leaves; /* several passes over a row keep what they load, not only what is costly */
  bool grids_by_division; /* else by a table, where an index cannot be split at compile time */
  bool
      joins_rows; /* concatenations of short rows of several lengths are one loop over whole rows */
  /* run-time parts of indices */
  bool (*same)(const void *x, const void *y);
  void *(*add)(vtb_body *b, const vtb_index *x, const vtb_index *y);
  void *(*scale)(vtb_body *b, const vtb_index *x, int64_t k);
  void (*divide)(vtb_body *b, const vtb_index *x, int64_t inner, vtb_index *quotient,
                 vtb_index *rest);
  /* x into [lo, hi) where the lanes of a condition are evaluated on both sides; x itself where they
   * never are */
  vtb_index (*clamp)(vtb_body *b, const vtb_index *x, int64_t lo, int64_t hi);
  /* values at an index */
  void *(*load)(vtb_body *b, const vtb_leaf *leaf, const vtb_index *index);
  /* structured ops inside a body; NULL: there are none */
  void *(*structured)(vtb_body *b, const vtb_value *v, const vtb_index *index);
  /* what an op that no body has is instead, and why there is no kernel; NULL: a bug */
  void *(*unknown)(vtb_body *b, const vtb_value *v);
  void *(*number)(vtb_body *b, vtb_dtype d, double v);
  void *(*table)(vtb_body *b, vtb_dtype d, const int32_t *bits, size_t n, const vtb_index *at);
  void *(*position)(vtb_body *b, vtb_dtype d, const vtb_index *x); /* the index as a number */
  void *(*as_dyn)(vtb_body *b, void *i32);                         /* the reverse */
  void *(*random)(vtb_body *b, void *seed, uint32_t stream, const vtb_index *at);
  void *(*elementwise)(vtb_body *b, const vtb_inst *i, void **operands);
  void *(*load_kept)(vtb_body *b, const vtb_kept *k);
  /* returns v as the target likes it */
  void *(*store_kept)(vtb_body *b, const vtb_kept *k, void *v);
  /* conditions */
  /* already known */
  void *(*within)(vtb_body *b, const vtb_index *x, int64_t lo, int64_t hi, bool above, bool below);
  void *(*both)(vtb_body *b, void *x, void *y);
  void *(*choose)(vtb_body *b, vtb_dtype d, void *condition, vtb_arm_fn arm, const void *user);
  /* probing: where a body may be emitted for nothing; returns what stands for every variable */
  void *(*begin_probe)(vtb_body *b);
  void (*end_probe)(vtb_body *b);
  /* storing a root, and kernels of roots of one shape */
  void (*store)(vtb_body *b, const vtb_root *r, const vtb_index *index, void *value);
  int64_t (*temp)(vtb_body *b, int64_t bytes);
  void (*loop)(vtb_body *b, const vtb_root *roots, int n); /* no reductions left inside */
  /* false, with nothing emitted: not of that form */
  bool (*row)(vtb_body *b, const vtb_root *roots, int n);
  void (*reduce)(vtb_body *b, const vtb_root *roots, int n);
} vtb_body_target;

struct vtb_body {
  const vtb_body_target *target;
  const vtb_inst *inst;      /* whose body this is; NULL: roots and leaves made by hand */
  VTB_VEC(vtb_level) levels; /* known ones; they change with the leaves */
  VTB_VEC(vtb_leaf) leaves;
  /* the nest */
  int n_vars;
  int64_t var_size[VTB_NEST_MAX];
  bool no_merge[VTB_NEST_MAX]; /* variable k never joins k + 1 */
  bool apart;                  /* none does, whatever is probed */
  int n_groups;
  vtb_group groups[VTB_NEST_MAX];
  int vec; /* the group with lanes, or -1 */
  int lanes;
  /* evaluation */
  VTB_VEC(vtb_memo) memo;
  int conditions; /* depth of branches around the current place */
  int pass;       /* of a row kernel */
  bool keep;      /* use `kept` */
  VTB_VEC(vtb_kept) kept;
  /* probing */
  bool probing;
  VTB_VEC(vtb_index) uses;
  int split_var;
  int64_t split_inner; /* wanted split, 0: none */
  /* reductions inside a row; NULL where there are none */
  void *(*reduce)(vtb_body *b, const vtb_value *v, const vtb_index *index);
  void *user;
};

void vtb__body_init(vtb_body *b, const vtb_body_target *target, const vtb_inst *inst);
void vtb__body_free(vtb_body *b);

/* ---- index algebra (index.c) ----------------------------------------------------------------- */
vtb_index vtb__index_const(int64_t c);
vtb_index vtb__index_var(int k, int64_t coef);
vtb_index vtb__index_dyn(void *dyn, bool lanes);
vtb_index vtb__index_add(vtb_body *b, const vtb_index *x, const vtb_index *y);
vtb_index vtb__index_scale(vtb_body *b, const vtb_index *x, int64_t k);
vtb_index vtb__index_shift(const vtb_index *x, int64_t by);
bool vtb__index_equal(const vtb_body *b, const vtb_index *x, const vtb_index *y);
/* false: unknown */
bool vtb__index_bounds(const vtb_body *b, const vtb_index *x, int64_t *lo, int64_t *hi);
/* x / inner and x % inner; false if they are computed at run time. */
bool vtb__index_split(vtb_body *b, const vtb_index *x, int64_t inner, vtb_index *quotient,
                      vtb_index *rest);
int64_t vtb__index_step(const vtb_body *b, const vtb_index *x); /* from lane to lane, but for dyn */
bool vtb__index_varies(const vtb_body *b, const vtb_index *x);
/* Row-major memory without gaps. */
void vtb__dense_strides(const vtb_type *t, int64_t *stride);
bool vtb__is_dense(const vtb_type *t, const int64_t *stride);
/* The index of an element in memory of these strides. */
vtb_index vtb__linear(vtb_body *b, const vtb_type *t, const int64_t *stride,
                      const vtb_index *index);
/* While probing, a target tells every index that it emits. */
void vtb__index_used(vtb_body *b, const vtb_index *x);

/* ---- views as changes of index (moves.c) ----------------------------------------------------- */
void vtb__operand_index(const vtb_value *operand, const vtb_type *result, const vtb_index *index,
                        vtb_index *out);
void vtb__reshape_index(vtb_body *b, const vtb_type *to, const vtb_index *index,
                        const vtb_type *from, vtb_index *out);
/* from[s]: which position of x comes to position s of a permute or shift; -1: none. malloc'd. */
int32_t *vtb__source_table(const vtb_inst *i, int64_t n);
/* from[s] = a s + b for lo <= s < hi, -1 elsewhere. */
bool vtb__table_is_line(const int32_t *from, int64_t n, int64_t *lo, int64_t *hi, int64_t *a,
                        int64_t *b);
/* from[s] = from[0] + (s / inner) outer_step + (s % inner) inner_step, nothing missing. */
bool vtb__table_is_grid(const int32_t *from, int64_t n, int64_t *inner, int64_t *outer_step,
                        int64_t *inner_step);

/* ---- values (eval.c) ------------------------------------------------------------------------- */
void *vtb__body_eval(vtb_body *b, const vtb_value *v, const vtb_index *index);
const vtb_leaf *vtb__leaf_find(const vtb_body *b, const vtb_value *v);
bool vtb__is_costly(vtb_op op); /* a polynomial or more */

/* ---- nests (nest.c) -------------------------------------------------------------------------- */
/* Variables for the axes of `shape` in order; *index gets each axis' index (0 along size-1
 * axes). */
void vtb__space_init(vtb_body *b, vtb_space *s, const vtb_type *shape);
void vtb__space_index(const vtb_body *b, const vtb_space *s, vtb_index *index);
/* Emits `emit` for nothing until it asks for no more splits, then merges variables into groups. */
typedef void (*vtb_probe_fn)(vtb_body *b, vtb_space *s, void *user);
void vtb__probe(vtb_body *b, vtb_space *s, vtb_probe_fn emit, void *user);
/* After a kernel: no lanes, nothing known. */
void vtb__nest_end(vtb_body *b);

/* ---- schedules ------------------------------------------------------------------------------- */
/* Kernels for results of the body (schedule.c): a row kernel for all; or each reduction, level by
 * level, and loops. */
void vtb__schedule(vtb_body *b, const vtb_root *results, int n);
bool vtb__is_reduce(const vtb_value *v);
/* The body's reductions that are not leaves yet, in order; call with i = 0, 1, ... until NULL. */
const vtb_value *vtb__body_reduction(const vtb_body *b, int i);
/* Nesting depth of reductions above leaves: 0 none. */
int vtb__reduce_level(vtb_body *b, const vtb_value *v);

/* Facts about row kernels, found by probing (row.c): reductions over the last axis among
 * elementwise ops. */
typedef struct vtb_row_sum { /* a reduction at an index that depends on the row only */
  const vtb_value *value;
  vtb_index index[VTB_MAX_RANK];
  int level;
} vtb_row_sum;
typedef struct vtb_row {
  const vtb_root *roots;
  int n_roots;
  vtb_type shape;
  vtb_space space;
  VTB_VEC(vtb_row_sum) sums;
  int levels;
  int strip; /* leading axes that sums beside the rows are over, in parts; 0: there are none */
  bool failed;
} vtb_row;
/* A sum of ranges of rows, in a kernel of kind strips: its operand has the rows' shape. */
bool vtb__row_is_strip(const vtb_value *v);
/* Where a strip's sum of a column lies among those of one part: linear, dense. */
vtb_index vtb__row_strip_index(vtb_body *b, const vtb_row *r);
/* False if the body does not have the form; vtb__row_end in either case. */
bool vtb__row_begin(vtb_body *b, vtb_row *r, const vtb_root *roots, int n);
void vtb__row_end(vtb_body *b, vtb_row *r);
/* The index of a sum's operand along the row. */
void vtb__row_operand(const vtb_body *b, const vtb_row_sum *s, vtb_index *out);
/* Index of a root: the row's axes, and the last one if it is as long (*full). False if its shape is
 * neither. */
bool vtb__row_root(const vtb_body *b, const vtb_row *r, const vtb_value *v, vtb_index *index,
                   bool *full);
/* A sum is known from here on. */
void vtb__row_know(vtb_body *b, const vtb_row_sum *s, void *value);

/* Reductions of one operand shape over the same axes (reduction.c). */
typedef struct vtb_reduction {
  const vtb_root *roots;
  int n;
  vtb_space space;
  bool reduced[VTB_MAX_RANK]; /* by axis of the operand */
  int64_t count;              /* elements of one result */
} vtb_reduction;
void vtb__reduction_begin(vtb_body *b, vtb_reduction *d, const vtb_root *roots, int n);
bool vtb__reduction_over(const vtb_reduction *d, const vtb_group *g); /* the group is summed over */
void *vtb__reduction_operand(vtb_body *b, const vtb_reduction *d, int r);
vtb_index vtb__reduction_result(vtb_body *b, const vtb_reduction *d); /* linear, dense */

/* ---- products as bodies (einsum.c) ----------------------------------------------------------- */
/* The product and sum of an einsum of x and y as ops, without what is added; `unroll`: the sum
 * written out. Of VTB_MAX_RANK letters at most. */
vtb_value *vtb__einsum_sum(vtb_builder *b, const vtb_inst *inst, vtb_value *x, vtb_value *y,
                           bool unroll);

#endif
