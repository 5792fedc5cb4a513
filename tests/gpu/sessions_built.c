/* Built files in sessions on a GPU, in memory and on streams of the caller's: the same bits as
 * through the host, also from two threads at once; and what a session more takes.
 *
 *   sessions_built FILE.so...
 *
 * Linked to the runtime alone; the driver is opened as the runtime does. Exit status 0, 5 if
 * numbers differ, or what kept a file from running. */
#include "runtime/base/library.h"
#include "runtime/vertebra.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 256, RUNS = 20, THREADS = 2 };

static struct {
  int (*cuInit)(unsigned);
  int (*cuDevicePrimaryCtxRetain)(void **, int);
  int (*cuCtxPushCurrent_v2)(void *);
  int (*cuMemAlloc_v2)(uint64_t *, size_t);
  int (*cuMemFree_v2)(uint64_t);
  int (*cuMemGetInfo_v2)(size_t *, size_t *);
  int (*cuMemcpyHtoDAsync_v2)(uint64_t, const void *, size_t, void *);
  int (*cuMemcpyDtoHAsync_v2)(void *, uint64_t, size_t, void *);
  int (*cuStreamCreate)(void **, unsigned);
  int (*cuStreamSynchronize)(void *);
  int (*cuStreamDestroy_v2)(void *);
} cu;

typedef struct array {
  vtb_array about;
  size_t bytes;
  void *host, *want; /* inputs; results as they are through the host */
} array;

typedef struct work {
  vtb_model *model;
  array *arrays;
  int n;
  void *context;
  vtb_status status;
  vtb_error err;
  size_t taken; /* by the session */
} work;

static bool is_result(const array *a) {
  return a->about.kind == VTB_ARRAY_OUTPUT || a->about.kind == VTB_ARRAY_GRADIENT;
}

static bool moves(const vtb_array *a) {
  return a->kind == VTB_ARRAY_INPUT || a->kind == VTB_ARRAY_ADJOINT ||
         a->kind == VTB_ARRAY_OUTPUT || a->kind == VTB_ARRAY_GRADIENT;
}

static vtb_status cuda(int result, const char *what, vtb_error *err) {
  if (!result) return VTB_OK;
  snprintf(err->text, sizeof err->text, "%s: error %d", what, result);
  return err->status = VTB_E_DEVICE;
}
#define CU(function, arguments) cuda(cu.function arguments, #function, err)

/* ---- through the host ------------------------------------------------------------------------ */

static void fill(array *a, unsigned seed) {
  size_t n = a->bytes / 4;
  float *x = a->host = calloc(n + 1, 4);
  for (size_t i = 0; i < n && a->about.type == VTB_ARRAY_F32; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) / (float)(1 << 23) - 1;
  }
}

static vtb_status list(work *w, vtb_error *err) {
  vtb_program_info p = {.size = sizeof p};
  vtb_status status = vtb_model_program(w->model, 0, &p, err);
  for (int i = 0; i < p.n_arrays && status == VTB_OK && w->n < MOST; i++) {
    array *a = &w->arrays[w->n];
    *a = (array){.about = {.size = sizeof a->about}, .bytes = 4};
    status = vtb_model_array(w->model, 0, i, &a->about, err);
    if (status != VTB_OK || !moves(&a->about)) continue;
    for (int k = 0; k < a->about.rank; k++) a->bytes *= (size_t)a->about.dim[k];
    fill(a, (unsigned)i);
    a->want = malloc(a->bytes + 1);
    w->n++;
  }
  return status;
}

static vtb_status run_here(work *w, vtb_error *err) {
  vtb_session *s = NULL;
  vtb_session_options o = {.size = sizeof o, .device = VTB_DEVICE_CUDA};
  vtb_status status = vtb_session_open(w->model, &o, &s, err);
  for (int i = 0; i < w->n && status == VTB_OK; i++) {
    vtb_array a = w->arrays[i].about;
    a.data = is_result(&w->arrays[i]) ? w->arrays[i].want : w->arrays[i].host;
    a.device = VTB_DEVICE_CPU;
    status = vtb_session_bind(s, a.name, &a, err);
  }
  for (int i = 0; i < 3 && status == VTB_OK; i++) status = vtb_session_run(s, 0, err);
  vtb_session_close(s);
  return status;
}

/* ---- there ----------------------------------------------------------------------------------- */

/* shift: bytes by which every array is off what memory begins at. */
static vtb_status bind_there(const work *w, vtb_session *s, void *stream, uint64_t *at,
                             size_t shift, vtb_error *err) {
  vtb_status status = VTB_OK;
  for (int i = 0; i < w->n && status == VTB_OK; i++) {
    vtb_array a = w->arrays[i].about;
    if (!at[i]) status = CU(cuMemAlloc_v2, (&at[i], w->arrays[i].bytes + 256));
    if (status == VTB_OK)
      status =
          CU(cuMemcpyHtoDAsync_v2, (at[i] + shift, w->arrays[i].host, w->arrays[i].bytes, stream));
    a.device = VTB_DEVICE_CUDA;
    a.data = (void *)(uintptr_t)(at[i] + shift);
    if (status == VTB_OK) status = vtb_session_bind(s, a.name, &a, err);
  }
  return status;
}

static vtb_status compare(const work *w, void *stream, const uint64_t *at, size_t shift,
                          vtb_error *err) {
  vtb_status status = VTB_OK;
  for (int i = 0; i < w->n && status == VTB_OK; i++) {
    const array *a = &w->arrays[i];
    if (!is_result(a)) continue;
    void *got = malloc(a->bytes + 1);
    status = CU(cuMemcpyDtoHAsync_v2, (got, at[i] + shift, a->bytes, stream));
    if (status == VTB_OK) status = CU(cuStreamSynchronize, (stream));
    if (status == VTB_OK && memcmp(got, a->want, a->bytes) != 0) {
      snprintf(err->text, sizeof err->text, "%s has other bits than through the host, off by %zu",
               a->about.name, shift);
      status = err->status = VTB_E_NUMBERS;
    }
    free(got);
  }
  return status;
}

static vtb_status run_there(work *w, void *stream, vtb_error *err) {
  vtb_session *s = NULL;
  vtb_session_options o = {
      .size = sizeof o, .device = VTB_DEVICE_CUDA, .cuda_stream = stream, .has_cuda_stream = true};
  uint64_t at[MOST] = {0};
  size_t before = 0, after = 0, all;
  vtb_status status = CU(cuMemGetInfo_v2, (&before, &all));
  if (status == VTB_OK) status = vtb_session_open(w->model, &o, &s, err);
  if (status == VTB_OK) status = CU(cuMemGetInfo_v2, (&after, &all));
  w->taken = before > after ? before - after : 0;
  for (size_t shift = 0; shift <= 4 && status == VTB_OK; shift += 4) {
    status = bind_there(w, s, stream, at, shift, err);
    for (int i = 0; i < RUNS && status == VTB_OK; i++) status = vtb_session_run(s, 0, err);
    if (status == VTB_OK) status = compare(w, stream, at, shift, err);
  }
  vtb_session_close(s);
  for (int i = 0; i < w->n; i++)
    if (at[i]) (void)cu.cuMemFree_v2(at[i]);
  return status;
}

static void *thread(void *of) {
  work *w = of;
  void *stream = NULL;
  vtb_error *err = &w->err;
  w->status = CU(cuCtxPushCurrent_v2, (w->context));
  if (w->status == VTB_OK) w->status = CU(cuStreamCreate, (&stream, 1));
  if (w->status == VTB_OK) w->status = run_there(w, stream, err);
  if (stream) (void)cu.cuStreamDestroy_v2(stream);
  return NULL;
}

/* ---- a file ---------------------------------------------------------------------------------- */

static vtb_status check_file(const char *path, void *context, vtb_error *err) {
  static array arrays[MOST];
  work w = {.arrays = arrays, .context = context}, threads[THREADS];
  pthread_t ids[THREADS];
  vtb_status status = vtb_model_open(path, NULL, &w.model, err);
  if (status == VTB_OK) status = list(&w, err);
  if (status == VTB_OK) status = run_here(&w, err);
  if (status == VTB_OK) status = run_there(&w, NULL, err); /* on the default stream */
  for (int i = 0; i < THREADS && status == VTB_OK; i++) {
    threads[i] = w;
    if (pthread_create(&ids[i], NULL, thread, &threads[i]) != 0) return VTB_E_MEMORY;
  }
  for (int i = 0; i < THREADS && status == VTB_OK; i++) pthread_join(ids[i], NULL);
  for (int i = 0; i < THREADS && status == VTB_OK; i++) {
    status = threads[i].status;
    if (status != VTB_OK) *err = threads[i].err;
  }
  printf("%-4s %s: %d arrays, the first session takes %.1f MB%s%s\n", status ? "FAIL" : "ok", path,
         w.n, (double)w.taken / 1e6, status ? ": " : "", err->text);
  for (int i = 0; i < w.n; i++) free(arrays[i].host), free(arrays[i].want);
  vtb_model_release(w.model);
  return status;
}

#define FIND(name)                                                                                 \
  { #name, offsetof(__typeof__(cu), name) }

int main(int argc, char **argv) {
  static const char *const names[] = {"libcuda.so.1", "libcuda.so", NULL};
  static const vtb_symbol symbols[] = {FIND(cuInit),
                                       FIND(cuDevicePrimaryCtxRetain),
                                       FIND(cuCtxPushCurrent_v2),
                                       FIND(cuMemAlloc_v2),
                                       FIND(cuMemFree_v2),
                                       FIND(cuMemGetInfo_v2),
                                       FIND(cuStreamCreate),
                                       FIND(cuMemcpyHtoDAsync_v2),
                                       FIND(cuMemcpyDtoHAsync_v2),
                                       FIND(cuStreamDestroy_v2),
                                       FIND(cuStreamSynchronize)};
  const vtb_library driver = {.what = "CUDA driver",
                              .environment = "VTB_CUDA_DRIVER",
                              .remedy = "install NVIDIA's driver",
                              .names = names,
                              .symbols = symbols,
                              .n_symbols = sizeof symbols / sizeof *symbols};
  vtb_error first = {0}, *err = &first;
  void *context = NULL;
  vtb_status worst = vtb_library_open(&driver, &cu, NULL, err);
  if (worst == VTB_OK) worst = CU(cuInit, (0));
  if (worst == VTB_OK) worst = CU(cuDevicePrimaryCtxRetain, (&context, 0));
  if (worst == VTB_OK) worst = CU(cuCtxPushCurrent_v2, (context));
  if (worst != VTB_OK) fprintf(stderr, "%s\n", err->text);
  for (int i = 1; i < argc && context; i++) {
    vtb_error e = {0};
    vtb_status status = check_file(argv[i], context, &e);
    if (status != VTB_OK) worst = status;
  }
  return (int)worst;
}
