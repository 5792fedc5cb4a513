/* Loop kernels: elementwise ops and data movement over one iteration shape, one thread an element
 * or four neighbours along the innermost variable; where reads go along another axis, a warp covers
 * a patch of both (patch.c). */
#include "codegen/cuda/loop/expr.h"

enum { THREADS = 256 };

typedef struct loop {
  const vtb_root *roots;
  int n;
  vtb_space space;
  vtb_cuda_patch patch;
} loop;

static void store_roots(vtb_cuda_expr *e, const loop *l) {
  vtb_index index[VTB_MAX_RANK];
  vtb__space_index(&e->body, &l->space, index);
  for (int r = 0; r < l->n; r++)
    vtb__cuda_store(e, &l->roots[r], index, vtb__cuda_eval(e, l->roots[r].value, index));
}

static void probe_roots(vtb_body *b, vtb_space *s, void *user) {
  loop *l = user;
  l->space = *s;
  store_roots(vtb__cuda_expr_of(b), l);
}

/* The kernel with `lanes` elements a thread; false if it cannot be. */
static bool write_kernel(vtb_cuda_expr *e, const loop *l, int lanes) {
  int all[VTB_NEST_MAX];
  for (int g = 0; g < e->body.n_groups; g++) all[g] = g;
  e->k = vtb_cuda_begin(e->c, "loop", THREADS);
  vtb__cuda_begin_lanes(e, lanes);
  bool patch = vtb__cuda_patch_fits(e, &l->patch, lanes);
  int64_t n =
      patch ? vtb__cuda_patch_size(e, &l->patch) : vtb__cuda_groups_size(e, all, e->body.n_groups);
  const char *type = vtb__cuda_int(e);
  const char *first = e->wide ? "(vtb_i64)vtb_block()" : "vtb_block()";
  vtb_cuda_line(e->k, "const %s i = %s * %d + vtb_tid();", type, first, THREADS);
  vtb_cuda_open(e->k, "if (i < %lld)", (long long)n);
  bool guarded = patch && vtb__cuda_patch_decode(e, &l->patch);
  if (!patch) vtb__cuda_decode(e, "i", all, e->body.n_groups);
  store_roots(e, l);
  if (guarded) vtb_cuda_close(e->k);
  vtb_cuda_close(e->k);
  vtb__nest_end(&e->body);
  /* four single accesses of neighbours touch a warp's sectors four times, one a thread once */
  bool apart = !patch && e->apart && e->apart >= e->whole;
  if (lanes > 1 && (e->no_lanes || apart)) {
    vtb__cuda_discard(e->k);
    return false;
  }
  vtb_cuda_launch(e->k, (n + THREADS - 1) / THREADS);
  return true;
}

void vtb__cuda_emit_loop(vtb_body *b, const vtb_root *roots, int n) {
  vtb_cuda_expr *e = vtb__cuda_expr_of(b);
  loop l = {.roots = roots, .n = n};
  vtb_space space;
  vtb__space_init(b, &space, &roots[0].value->type);
  vtb__probe(b, &space, probe_roots, &l);
  l.patch = vtb__cuda_patch_of(e);
  bool fours = b->n_groups > 0 && b->groups[b->n_groups - 1].size % 4 == 0 &&
               !vtb__cuda_patch_interleaves(e, &l.patch);
  if (!fours || !write_kernel(e, &l, 4)) write_kernel(e, &l, 1);
}
