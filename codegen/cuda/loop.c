/* Loop kernels: elementwise ops and data movement over one iteration shape, one thread an element or four neighbours
 * along the innermost variable. */
#include <string.h>

#include "codegen/cuda/expr.h"

enum { THREADS = 256 };

typedef struct loop {
  const vtb_cuda_root *roots;
  int n;
  vtb_cuda_space space;
} loop;

static void store_roots(vtb_cuda_expr *e, const loop *l) {
  vtb_cuda_index index[VTB_MAX_RANK];
  vtb__cuda_space_index(e, &l->space, index);
  for (int r = 0; r < l->n; r++) vtb__cuda_store(e, &l->roots[r], index, vtb__cuda_eval(e, l->roots[r].value, index));
}

static void probe_roots(vtb_cuda_expr *e, vtb_cuda_space *s, void *user) {
  loop *l = user;
  l->space = *s;
  store_roots(e, l);
}

/* The kernel with `lanes` elements a thread; false if it cannot be. */
static bool write_kernel(vtb_cuda_expr *e, const loop *l, int lanes) {
  int all[VTB_CUDA_NEST_MAX];
  for (int g = 0; g < e->n_groups; g++) all[g] = g;
  e->k = vtb_cuda_begin(e->c, "loop", THREADS);
  e->lanes = lanes;
  e->vec = e->n_groups - 1;
  e->no_lanes = false;
  e->memo.n = 0;
  e->next_name = 0;
  int64_t n = vtb__cuda_groups_size(e, all, e->n_groups);
  const char *type = vtb__cuda_int(e);
  const char *first = e->wide ? "(vtb_i64)vtb_block()" : "vtb_block()";
  vtb_cuda_line(e->k, "const %s i = %s * %d + vtb_tid();", type, first, THREADS);
  vtb_cuda_open(e->k, "if (i < %lld)", (long long)n);
  vtb__cuda_decode(e, "i", all, e->n_groups);
  store_roots(e, l);
  vtb_cuda_close(e->k);
  e->memo.n = 0;
  e->vec = -1;
  e->lanes = 1;
  if (lanes > 1 && e->no_lanes) {
    vtb__cuda_discard(e->k);
    return false;
  }
  vtb_cuda_launch(e->k, (n + THREADS - 1) / THREADS);
  return true;
}

void vtb__cuda_emit_loop(vtb_cuda_expr *e, const vtb_cuda_root *roots, int n) {
  loop l = {.roots = roots, .n = n};
  vtb_cuda_space space;
  vtb__cuda_space_init(e, &space, &roots[0].value->type);
  memset(e->no_merge, 0, sizeof e->no_merge);
  vtb__cuda_probe(e, &space, probe_roots, &l);
  bool fours = e->n_groups > 0 && e->groups[e->n_groups - 1].size % 4 == 0;
  if (!fours || !write_kernel(e, &l, 4)) write_kernel(e, &l, 1);
}
