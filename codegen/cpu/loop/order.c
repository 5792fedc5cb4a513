/* Storage position of a step along a path: see order.h. */
#include "codegen/cpu/loop/order.h"

static bool is_linear(const int64_t *perm, int64_t n) {
  for (int64_t t = 2; t < n; t++)
    if (perm[t] - perm[t - 1] != perm[1] - perm[0]) return false;
  return true;
}

vtb__loop_order vtb__order_list(vtb_cpu *c, const int64_t *places, int64_t n) {
  if (is_linear(places, n))
    return (vtb__loop_order){.base = n ? places[0] : 0, .step = n > 1 ? places[1] - places[0] : 1};
  int32_t *table = vtb_xcalloc((size_t)n, sizeof *table);
  for (int64_t t = 0; t < n; t++) table[t] = (int32_t)places[t];
  vtb__loop_order o = {.kind = VTB__ORDER_TABLE, .table = vtb_cpu_const_i32(c, table, (size_t)n)};
  vtb_free(table);
  return o;
}

vtb__loop_order vtb__order_make(vtb_cpu *c, const char *path, int64_t n) {
  vtb__loop_order o = {.kind = VTB__ORDER_LINEAR, .base = 0, .step = 1};
  if (!path) return o;
  vtb_path p;
  vtb_error err = {0};
  vtb_check(vtb_path_parse(path, &p, &err) == VTB_OK, "path '%s': %s", path, err.text);
  vtb_check(p.n == n, "path '%s' has %lld positions, not %lld", path, (long long)p.n, (long long)n);
  int64_t *perm = vtb_xcalloc((size_t)n, sizeof *perm);
  vtb_path_indices(&p, perm);
  if (!is_linear(perm, n) && vtb_path_get_affine(&p, &o.affine))
    o.kind = VTB__ORDER_AFFINE;
  else
    o = vtb__order_list(c, perm, n);
  vtb_free(perm);
  vtb_path_free(&p);
  return o;
}

LLVMValueRef vtb__order_at(vtb_cpu *c, const vtb__loop_order *o, LLVMValueRef t) {
  switch (o->kind) {
  case VTB__ORDER_LINEAR:
    return vtb_cpu_add(c, vtb_cpu_mul(c, t, o->step), vtb_cpu_i64(c, o->base));
  case VTB__ORDER_AFFINE: {
    LLVMValueRef outer = vtb_cpu_mul(c, vtb_cpu_div(c, t, o->affine.inner), o->affine.outer_step);
    LLVMValueRef inner = vtb_cpu_mul(c, vtb_cpu_rem(c, t, o->affine.inner), o->affine.inner_step);
    return vtb_cpu_add(c, vtb_cpu_add(c, outer, inner), vtb_cpu_i64(c, o->affine.base));
  }
  case VTB__ORDER_TABLE:
    break;
  }
  return LLVMBuildSExt(c->b, vtb_cpu_load_i32(c, vtb_cpu_at(c, o->table, t)), c->i64, "pos");
}
