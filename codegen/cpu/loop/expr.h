/* Bodies of ops (codegen/body/body.h) as LLVM values. */
#ifndef VTB_CODEGEN_CPU_EXPR_H
#define VTB_CODEGEN_CPU_EXPR_H

#include "codegen/cpu/host/host.h"

typedef struct vtb_cpu_expr {
  vtb_body body; /* first: vtb__expr_of() */
  vtb_cpu *c;
  vtb_cpu_task *task;
  LLVMValueRef mask;       /* of the tail, or NULL */
  LLVMBasicBlockRef hoist; /* runs before the innermost loop; NULL: not in one */
  int64_t weight;          /* of one element, see vtb__body_weight */
  vtb_cpu_task probe;      /* stands for the task while probing */
} vtb_cpu_expr;

static inline vtb_cpu_expr *vtb__expr_of(vtb_body *b) { return (vtb_cpu_expr *)b; }

void vtb__expr_init(vtb_cpu_expr *e, vtb_cpu *c, const vtb_inst *inst);
void vtb__expr_free(vtb_cpu_expr *e);

/* ---- indices (index.c) ----------------------------------------------------------------------- */
/* Value of lane 0, and the step from lane to lane; or all lanes, as <lanes x i64> in *all. */
typedef struct vtb_place_at {
  LLVMValueRef base;
  int64_t step;
  LLVMValueRef all; /* NULL if affine in the lane */
} vtb_place_at;
vtb_place_at vtb__index_emit(vtb_cpu_expr *e, const vtb_index *x);
/* <lanes x i64>, or i64 if lanes is 1 */
LLVMValueRef vtb__index_lanes(vtb_cpu_expr *e, const vtb_index *x);
/* Run-time parts: see vtb_body_target. */
void *vtb__cpu_index_add(vtb_body *b, const vtb_index *x, const vtb_index *y);
void *vtb__cpu_index_scale(vtb_body *b, const vtb_index *x, int64_t k);
void vtb__cpu_index_divide(vtb_body *b, const vtb_index *x, int64_t inner, vtb_index *quotient,
                           vtb_index *rest);
vtb_index vtb__cpu_index_clamp(vtb_body *b, const vtb_index *x, int64_t lo, int64_t hi);
void *vtb__cpu_index_within(vtb_body *b, const vtb_index *x, int64_t lo, int64_t hi, bool above,
                            bool below);
void *vtb__cpu_index_position(vtb_body *b, vtb_dtype d, const vtb_index *x);

/* ---- values (expr.c) ----
 * A value is a scalar while it does not vary from lane to lane, else a vector of `lanes`; the two
 * mix by splatting. */
LLVMValueRef vtb__eval(vtb_cpu_expr *e, const vtb_value *v, const vtb_index *index);
/* Stores `v` (splat if need be) at element offset `at` from ptr; `at` has lane step 1 or 0. */
void vtb__store(vtb_cpu_expr *e, LLVMValueRef v, LLVMValueRef ptr, const vtb_index *at);
LLVMValueRef vtb__widen(vtb_cpu_expr *e, LLVMValueRef v);
LLVMTypeRef vtb__lane_type(vtb_cpu_expr *e, vtb_dtype d);

/* ---- nests (nest.c) -------------------------------------------------------------------------- */
void *vtb__cpu_begin_probe(vtb_body *b);
void vtb__cpu_end_probe(vtb_body *b);
/* Sets the values of groups [from, to) from a linear number. */
void vtb__decode(vtb_cpu_expr *e, LLVMValueRef linear, int from, int to);
void vtb__decode_list(vtb_cpu_expr *e, LLVMValueRef linear, const int *groups, int n);
int64_t vtb__groups_size(const vtb_cpu_expr *e, int from, int to);
void vtb__choose_lanes(vtb_cpu_expr *e, int group);
/* for (groups[vec] = from; ...; < to): body with full vectors, then once under a mask if a tail may
 * remain. `carry` values pass from one to the next. */
typedef void (*vtb_vector_fn)(vtb_cpu_expr *e, LLVMValueRef *carry, void *user);
void vtb__vector_loop(vtb_cpu_expr *e, LLVMValueRef from, LLVMValueRef to, bool tail,
                      LLVMValueRef *carry, int n_carry, vtb_vector_fn body, void *user);
/* A block before the loops that follow, where uniform loads may go. */
void vtb__hoist_here(vtb_cpu_expr *e);

/* ---- schedules ------------------------------------------------------------------------------- */
LLVMValueRef vtb__root_ptr(vtb_cpu_expr *e, const vtb_root *r);
vtb_index vtb__root_index(vtb_cpu_expr *e, const vtb_root *r, const vtb_index *index);
/* How many plain elements' worth of time one element takes. */
int64_t vtb__body_weight(const vtb_inst *inst);
void vtb__emit_loop(vtb_body *b, const vtb_root *roots, int n);
bool vtb__emit_row(vtb_body *b, const vtb_root *roots, int n);
void vtb__emit_reduce(vtb_body *b, const vtb_root *roots, int n);

#endif
