/* Storage position of a step along a path, as a C expression: see cuda.h. Mirrors
 * codegen/cpu/loop/order.c. */
#include "codegen/cuda/plan/program.h"

static bool is_linear(const int64_t *perm, int64_t n) {
  for (int64_t t = 2; t < n; t++)
    if (perm[t] - perm[t - 1] != perm[1] - perm[0]) return false;
  return true;
}

static void make_table(vtb_cuda_kernel *k, const int64_t *perm, int64_t n, const char *name) {
  int32_t *table = vtb_xcalloc((size_t)n + 1, sizeof *table);
  for (int64_t t = 0; t < n; t++) table[t] = (int32_t)perm[t];
  vtb_cuda_table_i32(k, table, (size_t)n, name);
  vtb_free(table);
}

vtb_cuda_order vtb_cuda_order_of(vtb_cuda_kernel *k, const int64_t *places, int64_t n,
                                 const char *table) {
  vtb_cuda_order o = {.kind = VTB_CUDA_ORDER_LINEAR, .step = 1, .table = table};
  if (is_linear(places, n)) {
    o.base = n ? places[0] : 0;
    o.step = n > 1 ? places[1] - places[0] : 1;
    return o;
  }
  o.kind = VTB_CUDA_ORDER_TABLE;
  make_table(k, places, n, table);
  return o;
}

vtb_cuda_order vtb_cuda_order_make(vtb_cuda_kernel *k, const char *path, int64_t n,
                                   const char *table) {
  vtb_cuda_order o = {.kind = VTB_CUDA_ORDER_LINEAR, .step = 1, .table = table};
  if (!path) return o;
  vtb_path p;
  vtb_error err = {0};
  vtb_check(vtb_path_parse(path, &p, &err) == VTB_OK, "path '%s': %s", path, err.text);
  vtb_check(p.n == n, "path '%s' has %lld positions, not %lld", path, (long long)p.n, (long long)n);
  int64_t *perm = vtb_xcalloc((size_t)n + 1, sizeof *perm);
  vtb_path_indices(&p, perm);
  if (!is_linear(perm, n) && vtb_path_get_affine(&p, &o.affine))
    o.kind = VTB_CUDA_ORDER_AFFINE;
  else
    o = vtb_cuda_order_of(k, perm, n, table);
  vtb_free(perm);
  vtb_path_free(&p);
  return o;
}

const char *vtb_cuda_order_at(vtb_cuda *c, const vtb_cuda_order *o, const char *t) {
  switch (o->kind) {
  case VTB_CUDA_ORDER_LINEAR:
    if (o->base == 0 && o->step == 1) return t;
    return vtb_arena_printf(&c->arena, "(%lld + (%s) * %lld)", (long long)o->base, t,
                            (long long)o->step);
  case VTB_CUDA_ORDER_AFFINE:
    return vtb_arena_printf(&c->arena, "(%lld + (%s) / %lld * %lld + (%s) %% %lld * %lld)",
                            (long long)o->affine.base, t, (long long)o->affine.inner,
                            (long long)o->affine.outer_step, t, (long long)o->affine.inner,
                            (long long)o->affine.inner_step);
  case VTB_CUDA_ORDER_TABLE:
    break;
  }
  return vtb_arena_printf(&c->arena, "%s[%s]", o->table, t);
}
