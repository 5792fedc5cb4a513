/* Index algebra: affine forms in the nest's variables, with a run-time part where affine does not
 * reach. */
#include <assert.h>
#include <string.h>

#include "codegen/body/body.h"

vtb_index vtb__index_const(int64_t c) { return (vtb_index){.c = c}; }

vtb_index vtb__index_var(int k, int64_t coef) {
  assert(k >= 0 && k < VTB_NEST_MAX);
  vtb_index x = {0};
  x.coef[k] = coef;
  return x;
}

vtb_index vtb__index_dyn(void *dyn, bool lanes) {
  return (vtb_index){.dyn = dyn, .multiple = 1, .lanes = lanes};
}

static int64_t divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}

vtb_index vtb__index_add(vtb_body *b, const vtb_index *x, const vtb_index *y) {
  vtb_index r = *x;
  r.c += y->c;
  for (int k = 0; k < VTB_NEST_MAX; k++) r.coef[k] += y->coef[k];
  r.lanes = x->lanes || y->lanes;
  if (x->dyn && y->dyn)
    r.dyn = b->target->add(b, x, y);
  else if (y->dyn)
    r.dyn = y->dyn;
  r.multiple = divisor(x->multiple, y->multiple); /* 0 where there is no dyn */
  return r;
}

vtb_index vtb__index_scale(vtb_body *b, const vtb_index *x, int64_t k) {
  vtb_index r = *x;
  if (k == 0) return (vtb_index){0};
  r.c *= k;
  for (int i = 0; i < VTB_NEST_MAX; i++) r.coef[i] *= k;
  r.multiple *= k < 0 ? -k : k;
  if (r.dyn && k != 1) r.dyn = b->target->scale(b, x, k);
  return r;
}

vtb_index vtb__index_shift(const vtb_index *x, int64_t by) {
  vtb_index r = *x;
  r.c += by;
  return r;
}

bool vtb__index_equal(const vtb_body *b, const vtb_index *x, const vtb_index *y) {
  return x->c == y->c &&
         (x->dyn == y->dyn || (x->dyn && y->dyn && b->target->same(x->dyn, y->dyn))) &&
         memcmp(x->coef, y->coef, sizeof x->coef) == 0;
}

bool vtb__index_bounds(const vtb_body *b, const vtb_index *x, int64_t *lo, int64_t *hi) {
  if (x->dyn) return false;
  *lo = *hi = x->c;
  for (int k = 0; k < b->n_vars; k++) {
    int64_t reach = x->coef[k] * (b->var_size[k] - 1);
    *(reach < 0 ? lo : hi) += reach;
  }
  return true;
}

int64_t vtb__index_step(const vtb_body *b, const vtb_index *x) {
  return b->lanes > 1 && b->vec >= 0 ? x->coef[b->groups[b->vec].last] : 0;
}

bool vtb__index_varies(const vtb_body *b, const vtb_index *x) {
  return b->lanes > 1 && (x->lanes || vtb__index_step(b, x) != 0);
}

void vtb__index_used(vtb_body *b, const vtb_index *x) {
  if (b->probing) vtb_vec_push(&b->uses, *x);
}

void vtb__dense_strides(const vtb_type *t, int64_t *stride) {
  int64_t s = 1;
  for (int a = t->rank - 1; a >= 0; a--) {
    stride[a] = s;
    s *= t->dim[a].size;
  }
}

bool vtb__is_dense(const vtb_type *t, const int64_t *stride) {
  int64_t s = 1;
  for (int a = t->rank - 1; a >= 0; a--) {
    if (t->dim[a].size != 1 && stride[a] != s) return false;
    s *= t->dim[a].size;
  }
  return true;
}

vtb_index vtb__linear(vtb_body *b, const vtb_type *t, const int64_t *stride,
                      const vtb_index *index) {
  vtb_index at = {0};
  for (int a = 0; a < t->rank; a++) {
    if (t->dim[a].size == 1) continue;
    vtb_index part = vtb__index_scale(b, &index[a], stride[a]);
    at = vtb__index_add(b, &at, &part);
  }
  return at;
}

/* ---- splitting ------------------------------------------------------------------------------- */

/* Terms that are multiples of `inner` go to the quotient; exact if the others stay within one
 * period. */
static bool split_affine(const vtb_body *b, const vtb_index *x, int64_t inner, vtb_index *q,
                         vtb_index *r) {
  assert(inner > 0);
  if (x->dyn) return false;
  int64_t whole = x->c >= 0 ? x->c / inner : -((inner - 1 - x->c) / inner);
  *q = vtb__index_const(whole);
  *r = vtb__index_const(x->c - whole * inner);
  for (int k = 0; k < b->n_vars; k++) {
    if (x->coef[k] % inner == 0)
      q->coef[k] = x->coef[k] / inner;
    else
      r->coef[k] = x->coef[k];
  }
  int64_t lo, hi;
  vtb__index_bounds(b, r, &lo, &hi);
  return lo >= 0 && hi < inner;
}

/* A variable whose inner part would stay in the rest and whose outer part would be a multiple of
 * `inner`. */
static void want_split(vtb_body *b, const vtb_index *x, int64_t inner) {
  if (!b->probing || b->split_inner || x->dyn || b->n_vars == VTB_NEST_MAX) return;
  for (int k = 0; k < b->n_vars; k++) {
    int64_t coef = x->coef[k];
    if (coef <= 0 || inner % coef != 0 || coef % inner == 0) continue;
    int64_t part = inner / coef;
    if (b->var_size[k] <= part || b->var_size[k] % part != 0) continue;
    b->split_var = k;
    b->split_inner = part;
    return;
  }
}

bool vtb__index_split(vtb_body *b, const vtb_index *x, int64_t inner, vtb_index *quotient,
                      vtb_index *rest) {
  if (split_affine(b, x, inner, quotient, rest)) return true;
  want_split(b, x, inner);
  b->target->divide(b, x, inner, quotient, rest);
  return false;
}
