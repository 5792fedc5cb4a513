/* [repeat n as i { e }]: a list by an expression of its index. */
#include "frontend/lang/value.h"

bool vtb__repeat_count(vtb__eval *e, const vtb_expr *x, int64_t *n) {
  vtb__val v = vtb__expr(e, x);
  if (v.kind == VTB__INT && v.u.i >= 0 && v.u.i <= 10000) {
    *n = v.u.i;
    return true;
  }
  if (v.kind == VTB__ERROR) return false;
  vtb__report(e, v.kind == VTB__TENSOR ? VTB_DIAG_NOT_COMPILE_TIME : VTB_DIAG_REPEAT_COUNT, x->span,
              "a repeat count is an int from 0 to 10000, not %s", vtb__describe(e, v));
  return false;
}

/* One kind of element, numbers alike; false after an error. */
static bool fits(vtb__eval *e, vtb__val v, vtb__val first, vtb_span span) {
  if (v.kind == VTB__ERROR) return false;
  if (v.kind == VTB__NONE || v.kind == VTB__TUPLE)
    vtb__report(e, VTB_DIAG_NO_VALUE, span, "each round gives one element, and this gives %s",
                v.kind == VTB__NONE ? "none" : "several values");
  else if (v.kind != first.kind && !(vtb__is_number(v) && vtb__is_number(first)))
    vtb__report(e, VTB_DIAG_MIXED_LIST, span, "%s in a list that begins with %s",
                vtb__describe(e, v), vtb__describe(e, first));
  else
    return true;
  return false;
}

vtb__val vtb__collect(vtb__eval *e, const vtb_expr *x) {
  const vtb_stmt *s = x->u.stmt;
  int64_t n;
  if (!vtb__repeat_count(e, s->u.repeat.count, &n)) return VTB__ERR;
  vtb_name as = s->u.repeat.as;
  const vtb__binding *outer = as.text ? vtb__env_find_here(e->env, as.text) : NULL;
  vtb__binding was = outer ? *outer : (vtb__binding){0};
  vtb__val *at = VTB_NEW_ARRAY(&e->arena, vtb__val, n);
  bool ok = true;
  for (int64_t i = 0; i < n && ok; i++) {
    if (as.text) vtb__env_bind(e, as.text, vtb__int(i), "the index of a repeat", as.span);
    at[i] = vtb__body_value(e, &s->u.repeat.body);
    ok = !e->stopped && fits(e, at[i], at[0], x->span);
  }
  if (as.text && n > 0) vtb__env_unbind(e, as.text, outer ? &was : NULL);
  return ok ? (vtb__val){.kind = VTB__LIST, .u.list = {at, (size_t)n}} : VTB__ERR;
}
