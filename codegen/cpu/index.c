/* Index algebra: affine forms in the nest's variables, with a run-time part where affine does not reach. */
#include <string.h>

#include "codegen/cpu/expr.h"

vtb_index vtb__index_const(int64_t c) { return (vtb_index){.c = c}; }

vtb_index vtb__index_var(int k, int64_t coef) {
  vtb_index x = {0};
  x.coef[k] = coef;
  return x;
}

static LLVMValueRef splat(vtb_expr *e, LLVMValueRef v) { return vtb_cpu_splat(e->c, v, e->lanes); }

vtb_index vtb__index_add(vtb_expr *e, const vtb_index *x, const vtb_index *y) {
  vtb_index r = *x;
  r.c += y->c;
  for (int k = 0; k < VTB_NEST_MAX; k++) r.coef[k] += y->coef[k];
  if (!y->dyn) return r;
  if (!r.dyn) {
    r.dyn = y->dyn;
    r.lanes = y->lanes;
    return r;
  }
  LLVMValueRef a = r.dyn, b = y->dyn;
  if (r.lanes != y->lanes) {
    if (r.lanes)
      b = splat(e, b);
    else
      a = splat(e, a);
    r.lanes = true;
  }
  r.dyn = LLVMBuildNSWAdd(e->c->b, a, b, "");
  return r;
}

vtb_index vtb__index_scale(vtb_expr *e, const vtb_index *x, int64_t k) {
  vtb_index r = *x;
  r.c *= k;
  for (int i = 0; i < VTB_NEST_MAX; i++) r.coef[i] *= k;
  if (r.dyn && k == 0) r.dyn = NULL, r.lanes = false;
  if (r.dyn && k != 1) {
    LLVMValueRef factor = vtb_cpu_i64(e->c, k);
    r.dyn = LLVMBuildNSWMul(e->c->b, r.dyn, r.lanes ? splat(e, factor) : factor, "");
  }
  return r;
}

vtb_index vtb__index_shift(const vtb_index *x, int64_t by) {
  vtb_index r = *x;
  r.c += by;
  return r;
}

bool vtb__index_equal(const vtb_index *x, const vtb_index *y) {
  return x->c == y->c && x->dyn == y->dyn && memcmp(x->coef, y->coef, sizeof x->coef) == 0;
}

bool vtb__index_bounds(const vtb_expr *e, const vtb_index *x, int64_t *lo, int64_t *hi) {
  if (x->dyn) return false;
  *lo = *hi = x->c;
  for (int k = 0; k < e->n_vars; k++) {
    int64_t reach = x->coef[k] * (e->var_size[k] - 1);
    *(reach < 0 ? lo : hi) += reach;
  }
  return true;
}

/* ---- splitting -------------------------------------------------------------------------------------------- */

/* Terms that are multiples of `inner` go to the quotient; exact if the others stay within one period. */
static bool split_affine(const vtb_expr *e, const vtb_index *x, int64_t inner, vtb_index *q, vtb_index *r) {
  if (x->dyn) return false;
  int64_t whole = x->c >= 0 ? x->c / inner : -((inner - 1 - x->c) / inner);
  *q = vtb__index_const(whole);
  *r = vtb__index_const(x->c - whole * inner);
  for (int k = 0; k < e->n_vars; k++) {
    if (x->coef[k] % inner == 0)
      q->coef[k] = x->coef[k] / inner;
    else
      r->coef[k] = x->coef[k];
  }
  int64_t lo, hi;
  vtb__index_bounds(e, r, &lo, &hi);
  return lo >= 0 && hi < inner;
}

/* A variable whose inner part would stay in the rest and whose outer part would be a multiple of `inner`. */
static void want_split(vtb_expr *e, const vtb_index *x, int64_t inner) {
  if (!e->probing || e->split_inner || x->dyn || e->n_vars == VTB_NEST_MAX) return;
  for (int k = 0; k < e->n_vars; k++) {
    int64_t coef = x->coef[k];
    if (coef <= 0 || inner % coef != 0 || coef % inner == 0) continue;
    int64_t part = inner / coef;
    if (e->var_size[k] <= part || e->var_size[k] % part != 0) continue;
    e->split_var = k;
    e->split_inner = part;
    return;
  }
}

bool vtb__index_split(vtb_expr *e, const vtb_index *x, int64_t inner, vtb_index *quotient, vtb_index *rest) {
  vtb_cpu *c = e->c;
  if (split_affine(e, x, inner, quotient, rest)) return true;
  want_split(e, x, inner);
  *quotient = *rest = (vtb_index){0};
  quotient->lanes = rest->lanes = vtb__index_varies(e, x);
  LLVMValueRef v = quotient->lanes ? vtb__index_lanes(e, x) : vtb__index_emit(e, x).base;
  LLVMValueRef by = vtb_cpu_i64(c, inner);
  if (quotient->lanes) by = splat(e, by);
  quotient->dyn = LLVMBuildUDiv(c->b, v, by, "");
  rest->dyn = LLVMBuildURem(c->b, v, by, "");
  return false;
}

/* ---- values ----------------------------------------------------------------------------------------------- */

static void record(vtb_expr *e, const vtb_index *x) {
  if (e->probing) vtb_vec_push(&e->uses, *x);
}

vtb_place_at vtb__index_emit(vtb_expr *e, const vtb_index *x) {
  vtb_cpu *c = e->c;
  record(e, x);
  vtb_place_at p = {.base = vtb_cpu_i64(c, x->c)};
  for (int g = 0; g < e->n_groups; g++) {
    int64_t coef = x->coef[e->groups[g].last];
    if (!coef) continue;
    p.base = vtb_cpu_add(c, vtb_cpu_mul(c, e->groups[g].value, coef), p.base);
    if (g == e->vec) p.step = coef;
  }
  if (!x->dyn) return p;
  if (!x->lanes) {
    p.base = vtb_cpu_add(c, p.base, x->dyn);
    return p;
  }
  LLVMValueRef lane[64];
  for (int l = 0; l < e->lanes; l++) lane[l] = vtb_cpu_i64(c, l * p.step);
  p.all = LLVMBuildNSWAdd(c->b, splat(e, p.base), LLVMConstVector(lane, (unsigned)e->lanes), "");
  p.all = LLVMBuildNSWAdd(c->b, p.all, x->dyn, "");
  return p;
}

bool vtb__index_varies(const vtb_expr *e, const vtb_index *x) {
  if (e->lanes == 1) return false;
  return x->lanes || (e->vec >= 0 && x->coef[e->groups[e->vec].last] != 0);
}

LLVMValueRef vtb__index_lanes(vtb_expr *e, const vtb_index *x) {
  vtb_cpu *c = e->c;
  vtb_place_at p = vtb__index_emit(e, x);
  if (p.all) return p.all;
  if (e->lanes == 1) return p.base;
  LLVMValueRef lane[64];
  for (int l = 0; l < e->lanes; l++) lane[l] = vtb_cpu_i64(c, l * p.step);
  return LLVMBuildNSWAdd(c->b, splat(e, p.base), LLVMConstVector(lane, (unsigned)e->lanes), "");
}
