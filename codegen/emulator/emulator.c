/* An emulator: a compiled library, and launches of its kernels over the threads that services
 * offer. */
#include "codegen/emulator/emulator.h"

#include "codegen/emulator/core.h"
#include "codegen/emulator/count.h"

#include <dlfcn.h>
#include <string.h>

vtb_status vtb_emulator_new(const char *text, const char *const *kernels, int n_kernels,
                            const vtb_emulator_options *o, vtb_emulator **out, vtb_error *err) {
  static const vtb_emulator_options defaults;
  if (!o) o = &defaults;
  vtb_emulator *e = vtb_xcalloc(1, sizeof *e);
  e->checked = !o->unchecked && !o->counted;
  e->counted = o->counted;
  e->optimise = o->optimise;
  e->seed = o->seed;
  e->reversed = o->reversed;
  pthread_mutex_init(&e->lock, NULL);
  vtb_status status = vtb__emu_compile(e, text, kernels, n_kernels, o->compiler, err);
  if (status != VTB_OK) {
    vtb_emulator_free(e);
    return status;
  }
  *out = e;
  return VTB_OK;
}

void vtb_emulator_free(vtb_emulator *e) {
  if (!e) return;
  while (e->free_workers) {
    vtb__emu_worker *w = e->free_workers;
    e->free_workers = w->next_free;
    vtb__emu_worker_free(w);
  }
  if (e->library) dlclose(e->library);
  pthread_mutex_destroy(&e->lock);
  vtb_free(e->library_path);
  vtb_free(e->compiler);
  vtb_strbuf_free(&e->source);
  vtb_free(e);
}

/* ---- workers: as many as threads ever ran at once -------------------------------------------- */

static vtb__emu_worker *take_worker(vtb__emu_launch *l) {
  vtb_emulator *e = l->emulator;
  pthread_mutex_lock(&e->lock);
  vtb__emu_worker *w = e->free_workers;
  if (w) e->free_workers = w->next_free;
  pthread_mutex_unlock(&e->lock);
  if (w) return w;
  vtb_error err = {0};
  w = vtb__emu_worker_new(&err);
  if (w) return w;
  pthread_mutex_lock(&l->lock);
  vtb_fail(&l->error, err.status, "%s", err.text);
  pthread_mutex_unlock(&l->lock);
  atomic_store(&l->stop, true);
  return NULL;
}

static void give_worker(vtb_emulator *e, vtb__emu_worker *w) {
  pthread_mutex_lock(&e->lock);
  w->next_free = e->free_workers;
  e->free_workers = w;
  pthread_mutex_unlock(&e->lock);
}

/* ---- launches -------------------------------------------------------------------------------- */

static int size_of_cluster(const vtb_emulator_launch *l) { return l->cluster ? l->cluster : 1; }
static int64_t n_clusters(const vtb_emulator_launch *l) { return l->grid / size_of_cluster(l); }

static void run_blocks(void *closure, int64_t begin, int64_t end) {
  vtb__emu_launch *l = closure;
  if (atomic_load(&l->stop)) return;
  vtb__emu_worker *w = take_worker(l);
  if (!w) return;
  w->launch = l;
  for (int64_t i = begin; i < end && !atomic_load(&l->stop); i++) {
    uint64_t cluster = (l->start + (uint64_t)i * l->stride) % (uint64_t)n_clusters(l->what);
    if (!vtb__emu_run_cluster(w, (int)cluster * size_of_cluster(l->what))) break;
  }
  give_worker(l->emulator, w);
}

static uint64_t common_divisor(uint64_t a, uint64_t b) { return b ? common_divisor(b, a % b) : a; }

/* Clusters start + i * stride: every one once, in an order that the seed decides. */
static void shuffle_blocks(vtb__emu_launch *l) {
  uint64_t n = (uint64_t)n_clusters(l->what),
           h = vtb_hash_bytes(VTB_HASH_INIT, &l->emulator->seed, sizeof(uint64_t));
  l->start = h % n;
  l->stride = n > 1 ? (h >> 20) % n : 1;
  while (common_divisor(l->stride, n) != 1) l->stride++;
  if (l->emulator->reversed) {
    l->start = (l->start + (n - 1) * l->stride) % n;
    l->stride = n - l->stride % n;
  }
}

static vtb_status check_launch(const vtb__emu_launch *l, vtb_error *err) {
  const vtb_emulator_launch *what = l->what;
  int n_args = l->kernel(NULL);
  if (n_args != what->n_args)
    return vtb_fail(err, VTB_E_INTERNAL, "kernel %s takes %d arguments, the launch has %d",
                    what->kernel, n_args, what->n_args);
  int cluster = size_of_cluster(what);
  if (what->threads < VTB__EMU_WARP || what->threads > VTB__EMU_BLOCK_THREADS ||
      what->threads % VTB__EMU_WARP)
    return vtb_fail(err, VTB_E_INTERNAL, "kernel %s: blocks of %d threads", what->kernel,
                    what->threads);
  if (what->grid < 1 || what->grid > INT32_MAX || what->shared_bytes < 0 ||
      what->shared_bytes > VTB__EMU_MAX_SHARED)
    return vtb_fail(err, VTB_E_INTERNAL, "kernel %s: %lld blocks with %d bytes of shared memory",
                    what->kernel, (long long)what->grid, what->shared_bytes);
  if (cluster < 1 || cluster > VTB__EMU_CLUSTER || what->grid % cluster ||
      cluster * what->threads > VTB__EMU_MAX_THREADS)
    return vtb_fail(err, VTB_E_INTERNAL,
                    "kernel %s: %lld blocks of %d threads in clusters of %d (the emulator has at "
                    "most %d threads a cluster)",
                    what->kernel, (long long)what->grid, what->threads, cluster,
                    VTB__EMU_MAX_THREADS);
  return VTB_OK;
}

static vtb_status find_kernel(vtb__emu_launch *l, vtb_error *err) {
  char symbol[256];
  snprintf(symbol, sizeof symbol, "vtb_emu_run_%s", l->what->kernel);
  *(void **)&l->kernel = dlsym(l->emulator->library, symbol);
  if (!l->kernel)
    return vtb_fail(err, VTB_E_INTERNAL, "the emulated source has no kernel %s", l->what->kernel);
  return check_launch(l, err);
}

vtb_status vtb_emulator_run(vtb_emulator *e, const vtb_emulator_launch *what, const vtb_services *s,
                            vtb_error *err) {
  vtb__emu_launch l = {.emulator = e, .what = what, .args = what->args};
  VTB_TRY(find_kernel(&l, err));
  pthread_mutex_init(&l.lock, NULL);
  shuffle_blocks(&l);
  if (s && n_clusters(what) > 1)
    s->parallel(s, run_blocks, &l, n_clusters(what), 1);
  else
    run_blocks(&l, 0, n_clusters(what));
  pthread_mutex_destroy(&l.lock);
  if (!atomic_load(&l.stop)) return VTB_OK;
  return vtb_fail(err, l.error.status, "%s", l.error.text);
}

/* Accesses of single lanes after which no further block begins. */
static const int64_t ENOUGH_ACCESSES = 2000000;

vtb_status vtb_emulator_count(vtb_emulator *e, const vtb_emulator_launch *what,
                              const int64_t *blocks, int n, vtb_emulator_counts *counts,
                              vtb_error *err) {
  vtb__emu_launch l = {.emulator = e, .what = what, .args = what->args};
  VTB_TRY(find_kernel(&l, err));
  vtb_check(e->counted, "counts of an emulator that does not count");
  pthread_mutex_init(&l.lock, NULL);
  vtb__emu_worker *w = take_worker(&l);
  if (w) {
    w->launch = &l;
    w->count = vtb__emu_count_new(counts);
    for (int i = 0; i < n && (counts->whole || counts->lane_accesses < ENOUGH_ACCESSES); i++) {
      int64_t first = blocks[i] - blocks[i] % size_of_cluster(what);
      bool again = false;
      for (int k = 0; k < i; k++) again |= blocks[k] - blocks[k] % size_of_cluster(what) == first;
      if (again) continue;
      if (!vtb__emu_run_cluster(w, (int)first)) break;
      vtb__emu_count_cluster(w);
    }
    vtb__emu_count_end(w->count, e);
    vtb__emu_count_free(w->count);
    w->count = NULL;
    give_worker(e, w);
  }
  pthread_mutex_destroy(&l.lock);
  if (!atomic_load(&l.stop)) return VTB_OK;
  return vtb_fail(err, l.error.status, "%s", l.error.text);
}
