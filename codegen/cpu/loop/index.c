/* Indices as LLVM values: their run-time parts, and all of an index. */
#include "codegen/cpu/loop/expr.h"

static LLVMValueRef splat(vtb_cpu_expr *e, LLVMValueRef v) {
  return vtb_cpu_splat(e->c, v, e->body.lanes);
}

static LLVMValueRef dyn_of(vtb_cpu_expr *e, const vtb_index *x, bool lanes) {
  return lanes && !x->lanes ? splat(e, x->dyn) : x->dyn;
}

void *vtb__cpu_index_add(vtb_body *b, const vtb_index *x, const vtb_index *y) {
  vtb_cpu_expr *e = vtb__expr_of(b);
  bool lanes = x->lanes || y->lanes;
  return LLVMBuildNSWAdd(e->c->b, dyn_of(e, x, lanes), dyn_of(e, y, lanes), "");
}

void *vtb__cpu_index_scale(vtb_body *b, const vtb_index *x, int64_t k) {
  vtb_cpu_expr *e = vtb__expr_of(b);
  LLVMValueRef factor = vtb_cpu_i64(e->c, k);
  return LLVMBuildNSWMul(e->c->b, x->dyn, x->lanes ? splat(e, factor) : factor, "");
}

/* The index, and a number beside it, as scalars or lanes. */
static LLVMValueRef whole(vtb_cpu_expr *e, const vtb_index *x, bool lanes) {
  return lanes ? vtb__index_lanes(e, x) : vtb__index_emit(e, x).base;
}
static LLVMValueRef number(vtb_cpu_expr *e, int64_t k, bool lanes) {
  LLVMValueRef v = vtb_cpu_i64(e->c, k);
  return lanes ? splat(e, v) : v;
}

void vtb__cpu_index_divide(vtb_body *b, const vtb_index *x, int64_t inner, vtb_index *quotient,
                           vtb_index *rest) {
  vtb_cpu_expr *e = vtb__expr_of(b);
  bool lanes = vtb__index_varies(b, x);
  LLVMValueRef v = whole(e, x, lanes), by = number(e, inner, lanes);
  *quotient = vtb__index_dyn(LLVMBuildUDiv(e->c->b, v, by, ""), lanes);
  *rest = vtb__index_dyn(LLVMBuildURem(e->c->b, v, by, ""), lanes);
}

void *vtb__cpu_index_within(vtb_body *body, const vtb_index *x, int64_t lo, int64_t hi, bool above,
                            bool below) {
  vtb_cpu_expr *e = vtb__expr_of(body);
  LLVMBuilderRef b = e->c->b;
  bool lanes = vtb__index_varies(body, x);
  LLVMValueRef v = whole(e, x, lanes);
  LLVMValueRef from = above ? NULL : LLVMBuildICmp(b, LLVMIntSGE, v, number(e, lo, lanes), "");
  LLVMValueRef to = below ? NULL : LLVMBuildICmp(b, LLVMIntSLT, v, number(e, hi, lanes), "");
  return !from ? to : !to ? from : LLVMBuildAnd(b, from, to, "");
}

vtb_index vtb__cpu_index_clamp(vtb_body *body, const vtb_index *x, int64_t lo, int64_t hi) {
  vtb_cpu_expr *e = vtb__expr_of(body);
  LLVMBuilderRef b = e->c->b;
  bool lanes = vtb__index_varies(body, x);
  LLVMValueRef v = whole(e, x, lanes), from = number(e, lo, lanes), to = number(e, hi - 1, lanes);
  v = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, v, from, ""), from, v, "");
  v = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSGT, v, to, ""), to, v, "");
  return vtb__index_dyn(v, lanes);
}

void *vtb__cpu_index_position(vtb_body *b, vtb_dtype d, const vtb_index *x) {
  vtb_cpu_expr *e = vtb__expr_of(b);
  bool lanes = vtb__index_varies(b, x);
  LLVMValueRef v = whole(e, x, lanes);
  v = LLVMBuildTrunc(e->c->b, v, lanes ? vtb__lane_type(e, VTB_I32) : e->c->i32, "");
  return d == VTB_I32
             ? v
             : LLVMBuildSIToFP(e->c->b, v, lanes ? vtb__lane_type(e, VTB_F32) : e->c->f32, "");
}

vtb_place_at vtb__index_emit(vtb_cpu_expr *e, const vtb_index *x) {
  vtb_cpu *c = e->c;
  vtb__index_used(&e->body, x);
  vtb_place_at p = {.base = vtb_cpu_i64(c, x->c)};
  for (int g = 0; g < e->body.n_groups; g++) {
    int64_t coef = x->coef[e->body.groups[g].last];
    if (!coef) continue;
    p.base = vtb_cpu_add(c, vtb_cpu_mul(c, e->body.groups[g].value, coef), p.base);
    if (g == e->body.vec) p.step = coef;
  }
  if (!x->dyn) return p;
  if (!x->lanes) {
    p.base = vtb_cpu_add(c, p.base, x->dyn);
    return p;
  }
  LLVMValueRef lane[64];
  for (int l = 0; l < e->body.lanes; l++) lane[l] = vtb_cpu_i64(c, l * p.step);
  p.all =
      LLVMBuildNSWAdd(c->b, splat(e, p.base), LLVMConstVector(lane, (unsigned)e->body.lanes), "");
  p.all = LLVMBuildNSWAdd(c->b, p.all, x->dyn, "");
  return p;
}

LLVMValueRef vtb__index_lanes(vtb_cpu_expr *e, const vtb_index *x) {
  vtb_cpu *c = e->c;
  vtb_place_at p = vtb__index_emit(e, x);
  if (p.all) return p.all;
  if (e->body.lanes == 1) return p.base;
  LLVMValueRef lane[64];
  for (int l = 0; l < e->body.lanes; l++) lane[l] = vtb_cpu_i64(c, l * p.step);
  return LLVMBuildNSWAdd(c->b, splat(e, p.base), LLVMConstVector(lane, (unsigned)e->body.lanes),
                         "");
}
