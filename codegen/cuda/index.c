/* Index algebra: affine forms in the nest's variables, with a run-time part where affine does not reach. Mirrors
 * codegen/cpu/index.c. */
#include <string.h>

#include "codegen/cuda/expr.h"

vtb_cuda_index vtb__cuda_index_const(int64_t c) { return (vtb_cuda_index){.c = c}; }

vtb_cuda_index vtb__cuda_index_var(int k, int64_t coef) {
  vtb_cuda_index x = {0};
  x.coef[k] = coef;
  return x;
}

vtb_cuda_index vtb__cuda_index_dyn(const char *text, bool lanes) {
  return (vtb_cuda_index){.dyn = text, .multiple = 1, .lanes = lanes};
}

static int64_t divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}

vtb_cuda_index vtb__cuda_index_add(vtb_cuda_expr *e, const vtb_cuda_index *x, const vtb_cuda_index *y) {
  vtb_cuda_index r = *x;
  r.c += y->c;
  for (int k = 0; k < VTB_CUDA_NEST_MAX; k++) r.coef[k] += y->coef[k];
  r.lanes = x->lanes || y->lanes;
  if (x->dyn && y->dyn)
    r.dyn = vtb_arena_printf(&e->c->arena, "(%s + %s)", x->dyn, y->dyn);
  else if (y->dyn)
    r.dyn = y->dyn;
  r.multiple = divisor(x->multiple, y->multiple); /* 0 where there is no dyn */
  return r;
}

vtb_cuda_index vtb__cuda_index_scale(vtb_cuda_expr *e, const vtb_cuda_index *x, int64_t k) {
  vtb_cuda_index r = *x;
  if (k == 0) return (vtb_cuda_index){0};
  r.c *= k;
  for (int i = 0; i < VTB_CUDA_NEST_MAX; i++) r.coef[i] *= k;
  r.multiple *= k < 0 ? -k : k;
  if (r.dyn && k != 1) r.dyn = vtb_arena_printf(&e->c->arena, "%s * %lld", r.dyn, (long long)k);
  return r;
}

vtb_cuda_index vtb__cuda_index_shift(const vtb_cuda_index *x, int64_t by) {
  vtb_cuda_index r = *x;
  r.c += by;
  return r;
}

bool vtb__cuda_index_equal(const vtb_cuda_index *x, const vtb_cuda_index *y) {
  return x->c == y->c && vtb_streq(x->dyn, y->dyn) && memcmp(x->coef, y->coef, sizeof x->coef) == 0;
}

bool vtb__cuda_index_bounds(const vtb_cuda_expr *e, const vtb_cuda_index *x, int64_t *lo, int64_t *hi) {
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
static bool split_affine(const vtb_cuda_expr *e, const vtb_cuda_index *x, int64_t inner, vtb_cuda_index *q,
                         vtb_cuda_index *r) {
  if (x->dyn) return false;
  int64_t whole = x->c >= 0 ? x->c / inner : -((inner - 1 - x->c) / inner);
  *q = vtb__cuda_index_const(whole);
  *r = vtb__cuda_index_const(x->c - whole * inner);
  for (int k = 0; k < e->n_vars; k++) {
    if (x->coef[k] % inner == 0)
      q->coef[k] = x->coef[k] / inner;
    else
      r->coef[k] = x->coef[k];
  }
  int64_t lo, hi;
  vtb__cuda_index_bounds(e, r, &lo, &hi);
  return lo >= 0 && hi < inner;
}

/* A variable whose inner part would stay in the rest and whose outer part would be a multiple of `inner`. */
static void want_split(vtb_cuda_expr *e, const vtb_cuda_index *x, int64_t inner) {
  if (!e->probing || e->split_inner || x->dyn || e->n_vars == VTB_CUDA_NEST_MAX) return;
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

bool vtb__cuda_index_split(vtb_cuda_expr *e, const vtb_cuda_index *x, int64_t inner, vtb_cuda_index *quotient,
                           vtb_cuda_index *rest) {
  if (split_affine(e, x, inner, quotient, rest)) return true;
  want_split(e, x, inner);
  bool lanes = vtb__cuda_index_varies(e, x);
  const char *text = vtb__cuda_index_text(e, x);
  e->no_lanes |= lanes;
  *quotient = vtb__cuda_index_dyn(vtb_arena_printf(&e->c->arena, "((%s) / %lld)", text, (long long)inner), lanes);
  *rest = vtb__cuda_index_dyn(vtb_arena_printf(&e->c->arena, "((%s) %% %lld)", text, (long long)inner), lanes);
  return false;
}

/* ---- text ------------------------------------------------------------------------------------------------- */

const char *vtb__cuda_index_text(vtb_cuda_expr *e, const vtb_cuda_index *x) {
  vtb_strbuf s = {0};
  if (e->probing) vtb_vec_push(&e->uses, *x);
  for (int g = 0; g < e->n_groups; g++) {
    int64_t coef = x->coef[e->groups[g].last];
    if (!coef) continue;
    vtb_strbuf_printf(&s, "%s%s", s.n ? (coef < 0 ? " - " : " + ") : (coef < 0 ? "-" : ""), e->groups[g].value);
    if (coef != 1 && coef != -1) vtb_strbuf_printf(&s, " * %lld", (long long)(coef < 0 ? -coef : coef));
  }
  if (x->dyn) vtb_strbuf_printf(&s, "%s%s", s.n ? " + " : "", x->dyn);
  if (x->c || !s.n)
    vtb_strbuf_printf(&s, "%s%lld", !s.n ? "" : x->c < 0 ? " - " : " + ", (long long)(s.n && x->c < 0 ? -x->c : x->c));
  const char *text = vtb_arena_strdup(&e->c->arena, s.at);
  vtb_strbuf_free(&s);
  return text;
}

int64_t vtb__cuda_index_step(const vtb_cuda_expr *e, const vtb_cuda_index *x) {
  return e->lanes > 1 && e->vec >= 0 ? x->coef[e->groups[e->vec].last] : 0;
}

bool vtb__cuda_index_varies(const vtb_cuda_expr *e, const vtb_cuda_index *x) {
  return e->lanes > 1 && (x->lanes || vtb__cuda_index_step(e, x) != 0);
}
