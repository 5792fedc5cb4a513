/* Bodies of ops (codegen/body/body.h) as C expressions.
 *
 * A thread handles one element, or four neighbours along the last variable ("lanes"): then values
 * that vary from lane to lane are vtb_f4, and the others float. What cannot be four at a time
 * (divisions, tables, conditions, integers that vary) says so by no_lanes, and the kernel is
 * written again with one.
 */
#ifndef VTB_CODEGEN_CUDA_EXPR_H
#define VTB_CODEGEN_CUDA_EXPR_H

#include "codegen/body/body.h"
#include "codegen/cuda/plan/program.h"

/* A value of the body that the kernel has of each row: elements along it from a pointer, or one
 * number. */
typedef struct vtb_cuda_near {
  const vtb_value *value;
  const char *from; /* C expression of a pointer */
  bool along;
} vtb_cuda_near;

typedef struct vtb_cuda_expr {
  vtb_body body; /* first: vtb__cuda_expr_of() */
  vtb_cuda *c;
  vtb_cuda_kernel *k; /* under construction */
  bool no_lanes;      /* found while writing with four */
  bool wide;          /* indices need 64 bits */
  int next_name;
  /* while writing with four: accesses of 16 bytes, and of four neighbours one by one though they
   * lie at most four apart */
  int whole, apart;
  /* In a loop over rows: where in the text it begins, how deep its lines are indented, and the
   * groups that change from row to row. What four lanes read apart for every row alike is read in
   * front of it. before_rows 0: there is none. */
  size_t before_rows;
  int rows_indent;
  bool by_row[VTB_NEST_MAX];
  const char *chunk;       /* C variable: number of the chunk of the row */
  vtb_cuda_kernel *behind; /* while probing: the kernel that waits */
  const vtb_cuda_near *near;
  int n_near;
} vtb_cuda_expr;

static inline vtb_cuda_expr *vtb__cuda_expr_of(vtb_body *b) { return (vtb_cuda_expr *)b; }

void vtb__cuda_expr_init(vtb_cuda_expr *e, vtb_cuda *c, const vtb_inst *inst);
void vtb__cuda_expr_free(vtb_cuda_expr *e);

/* C expression of an index, for lane 0. */
const char *vtb__cuda_index_text(vtb_cuda_expr *e, const vtb_index *x);
/* Name of a C variable or a literal, float or vtb_f4 (int for i32). */
const char *vtb__cuda_eval(vtb_cuda_expr *e, const vtb_value *v, const vtb_index *index);
/* Stores a value (C name) of root r at the index of its element. */
void vtb__cuda_store(vtb_cuda_expr *e, const vtb_root *r, const vtb_index *index,
                     const char *value);
/* The C form of an elementwise op of floats or vtb_f4; $ and @ stand for its operands. */
const char *vtb__cuda_float_form(vtb_op op);
/* True if the text names a vtb_f4. */
bool vtb__cuda_is_vector(const char *name);
const char *vtb__cuda_widen(vtb_cuda_expr *e, const char *v);
const char *vtb__cuda_int(const vtb_cuda_expr *e); /* "int" or "vtb_i64" */

/* ---- nests (nest.c) -------------------------------------------------------------------------- */
void *vtb__cuda_begin_probe(vtb_body *b);
void vtb__cuda_end_probe(vtb_body *b);
/* Before a kernel is written with `lanes` elements a thread, along the last group. */
void vtb__cuda_begin_lanes(vtb_cuda_expr *e, int lanes);
/* Declares a variable for each group of the list, in row-major order from the C expression
 * `linear`. The lanes' group counts in fours. */
void vtb__cuda_decode(vtb_cuda_expr *e, const char *linear, const int *groups, int n);
int64_t vtb__cuda_groups_size(const vtb_cuda_expr *e, const int *groups, int n);

/* ---- patches (patch.c): warps that cover two axes -------------------------------------------- */
typedef struct vtb_cuda_patch {
  int64_t across; /* elements along `group`; 1: no patch */
  int n, group[VTB_NEST_MAX];
  int64_t part[VTB_NEST_MAX]; /* of each */
} vtb_cuda_patch;
/* For the nest that has been probed: where reads go along other groups than the last. */
vtb_cuda_patch vtb__cuda_patch_of(const vtb_cuda_expr *e);
/* True if reads find the elements of its axes next to each other, those of its steps behind them: a
 * warp that takes one a thread reads them in one piece. */
bool vtb__cuda_patch_interleaves(const vtb_cuda_expr *e, const vtb_cuda_patch *p);
bool vtb__cuda_patch_fits(const vtb_cuda_expr *e, const vtb_cuda_patch *p, int lanes);
/* Threads, and the groups' variables from `i`; true: it opened a condition, since patches go beyond
 * the edges. */
int64_t vtb__cuda_patch_size(const vtb_cuda_expr *e, const vtb_cuda_patch *p);
bool vtb__cuda_patch_decode(vtb_cuda_expr *e, const vtb_cuda_patch *p);

/* ---- schedules ------------------------------------------------------------------------------- */
void vtb__cuda_emit_loop(vtb_body *b, const vtb_root *roots, int n);
bool vtb__cuda_emit_row(vtb_body *b, const vtb_root *roots, int n);
void vtb__cuda_emit_reduce(vtb_body *b, const vtb_root *roots, int n);

/* Lines of a kernel's text in which *threads neighbouring lanes of a warp, a power of two, evaluate
 * the body at one row, the other lanes at others: `row_lane` is the lane's number of them, and only
 * rows that are `real` are stored. Axis a of the row, but for the last, has the C expressions
 * number[a] as index. NULL: the body is not of rows. */
const char *vtb__cuda_row_text(vtb_cuda_kernel *k, const vtb_inst *fused, const char *const *number,
                               const vtb_cuda_near *near, int n_near, int *threads);

/* ---- kernels of kind local (local.c) --------------------------------------------------------- */
/* A place of a kernel's text where a value of the body is known at every element: axis a of its
 * type has the C expressions number[a] as index, the last one of the first of `lanes` elements. */
typedef struct vtb_cuda_point {
  const vtb_value *value;
  const char *name; /* the C variable */
  const char *const *number;
  int lanes;
  const char *centre; /* that of the convolution's input there; NULL: none */
} vtb_cuda_point;
/* Lines that compute and store the body's results there; NULL: not so many lanes. */
const char *vtb__cuda_local_text(vtb_cuda_kernel *k, const vtb_inst *fused,
                                 const vtb_cuda_point *p);
/* Lines that make the point's value, which is not known there yet, and assign it to `name`. */
const char *vtb__cuda_local_value(vtb_cuda_kernel *k, const vtb_inst *fused,
                                  const vtb_cuda_point *p);

#endif
