/* Library products through cublasLt, which thinks in columns: a row-major C = op(A) op(B) is the
 * column-major C' = op(B)' op(A)' on the same memory, so that A and B change places. Tensors are
 * fp32; the plan's precision says what factors are rounded to. */
#include "runtime/cuda/device.h"
#include "runtime/base/library.h"

#include <string.h>

enum { MOST_ALIGNMENT = 256 };
enum { WORKSPACE_BYTES = 32 << 20, CANDIDATES = 8 };

static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so",
                                    NULL};
static const vtb_symbol symbols[] = {
#define VTB_LT(type, name, parameters) {#name, offsetof(vtb_lt_api, name)},
#include "runtime/cuda/functions.def"
#undef VTB_LT
};
static const vtb_library cublaslt = {
    .what = "cublasLt library",
    .environment = "VTB_CUBLASLT",
    .remedy = "pip install nvidia-cublas, or nvidia-cublas-cu12 for CUDA 12",
    .names = names,
    .symbols = symbols,
    .n_symbols = sizeof symbols / sizeof *symbols};

typedef struct product {
  void *operation, *first, *second, *result; /* cublasLt's A is our B */
  vtb_lt_algorithm algorithm;
} product;

struct vtb__products {
  vtb_cuda_device *device;
  const vtb_launch_plan *plan;
  vtb_lt_api api;
  void *handle;
  vtb_cu_address workspace;
  product *list; /* one a gemm of the plan */
  bool timed;    /* candidates are timed */
  char note[VTB__LT_NOTE];
};

/* VTB_LT_CALL(x, cublasLtCreate, (&h), err) */
#define VTB_LT_CALL(x, function, arguments, err)                                                   \
  check_cublaslt((x)->api.function arguments, #function #arguments, __FILE__, __LINE__, (err))
static vtb_status check_cublaslt(int result, const char *call, const char *file, int line,
                                 vtb_error *err) {
  static const char *const texts[16] = {
      [1] = "not initialised",       [3] = "out of memory",  [7] = "invalid value",
      [8] = "architecture mismatch", [11] = "mapping error", [13] = "execution failed",
      [14] = "internal error",       [15] = "not supported"};
  if (result == 0) return VTB_OK;
  const char *text = result > 0 && result < 16 && texts[result] ? texts[result] : "unknown error";
  return vtb_fail(err, VTB_E_DEVICE, "cublasLt: %s (%d) in %s at %s:%d", text, result, call, file,
                  line);
}

static vtb_status make_layout(vtb__products *x, void **layout, int type, int64_t rows,
                              int64_t columns, int64_t leading, int64_t batch, int64_t stride,
                              vtb_error *err) {
  int32_t count = (int32_t)batch;
  vtb_status status = VTB_LT_CALL(x, cublasLtMatrixLayoutCreate,
                                  (layout, type, (uint64_t)rows, (uint64_t)columns, leading), err);
  if (status != VTB_OK || batch == 1) return status;
  VTB_TRY(VTB_LT_CALL(x, cublasLtMatrixLayoutSetAttribute,
                      (*layout, VTB__LT_LAYOUT_BATCH, &count, sizeof count), err));
  return VTB_LT_CALL(x, cublasLtMatrixLayoutSetAttribute,
                     (*layout, VTB__LT_LAYOUT_STRIDE, &stride, sizeof stride), err);
}

static vtb_status make_operation(vtb__products *x, product *p, const vtb_launch_gemm *g,
                                 vtb_error *err) {
  static const int compute[] = {VTB__LT_COMPUTE_F32, VTB__LT_COMPUTE_F32_FAST_TF32,
                                VTB__LT_COMPUTE_F32_FAST_16BF, VTB__LT_COMPUTE_F32_FAST_16F};
  int32_t trans_first = g->trans_b != 0, trans_second = g->trans_a != 0;
  uint32_t epilogue = VTB__LT_EPILOGUE_BIAS;
  int precision = g->narrow_factors ? VTB__LT_COMPUTE_F32 : compute[g->precision];
  vtb_status status =
      VTB_LT_CALL(x, cublasLtMatmulDescCreate, (&p->operation, precision, VTB__LT_F32), err);
  if (status == VTB_OK)
    status = VTB_LT_CALL(x, cublasLtMatmulDescSetAttribute,
                         (p->operation, VTB__LT_TRANS_A, &trans_first, sizeof trans_first), err);
  if (status == VTB_OK)
    status = VTB_LT_CALL(x, cublasLtMatmulDescSetAttribute,
                         (p->operation, VTB__LT_TRANS_B, &trans_second, sizeof trans_second), err);
  if (status == VTB_OK && g->has_bias)
    status = VTB_LT_CALL(x, cublasLtMatmulDescSetAttribute,
                         (p->operation, VTB__LT_EPILOGUE, &epilogue, sizeof epilogue), err);
  return status;
}

/* The least alignment that argument `arg` of the product has at any step. Memory begins at
 * multiples of 256 bytes. */
static uint32_t alignment_of(const vtb__products *x, const product *p, int arg) {
  uint32_t align = MOST_ALIGNMENT;
  for (int s = 0; s < x->plan->n_steps; s++) {
    const vtb_launch_step *step = &x->plan->steps[s];
    if (step->kind != VTB_LAUNCH_GEMM || &x->list[step->index] != p) continue;
    const vtb_launch_arg *a = &x->plan->args[step->first_arg + arg];
    int64_t place = a->space == VTB_LAUNCH_TENSOR ? vtb_launch_place(x->plan, a->tensor) : -1;
    while ((a->offset + (place > 0 ? place : 0)) % align) align /= 2;
  }
  return align;
}

/* The library takes 256 bytes for granted unless it is told. */
static vtb_status set_alignments(vtb__products *x, const product *p, void *preference,
                                 vtb_error *err) {
  static const struct {
    int attribute, arg;
  } all[] = {{VTB__LT_PREFERENCE_ALIGNMENT_A, 1},
             {VTB__LT_PREFERENCE_ALIGNMENT_B, 0},
             {VTB__LT_PREFERENCE_ALIGNMENT_C, 2},
             {VTB__LT_PREFERENCE_ALIGNMENT_D, 2}};
  vtb_status status = VTB_OK;
  for (int i = 0; i < 4 && status == VTB_OK; i++) {
    uint32_t align = alignment_of(x, p, all[i].arg);
    status = VTB_LT_CALL(x, cublasLtMatmulPreferenceSetAttribute,
                         (preference, all[i].attribute, &align, sizeof align), err);
  }
  return status;
}

/* The library offers other ways with a bias than without, which it knows by the pointer: here one
 * that is aligned as the step's is. */
static vtb_status set_bias(vtb__products *x, product *p, const vtb_launch_gemm *g, vtb_error *err) {
  if (!g->has_bias) return VTB_OK;
  vtb_cu_address bias = x->workspace + alignment_of(x, p, 3);
  return VTB_LT_CALL(x, cublasLtMatmulDescSetAttribute,
                     (p->operation, VTB__LT_BIAS, &bias, sizeof bias), err);
}

/* ---- of several candidates one --------------------------------------------------------------- */

static vtb_status multiply(vtb__products *x, product *p, const vtb_launch_gemm *g,
                           const vtb_lt_algorithm *algorithm, const vtb_cu_address *args,
                           vtb_error *err) {
  float alpha = 1, beta = g->accumulate ? 1 : 0;
  return VTB_LT_CALL(x, cublasLtMatmul,
                     (x->handle, p->operation, &alpha, args[1], p->first, args[0], p->second, &beta,
                      args[2], p->result, args[2], p->result, algorithm, x->workspace,
                      WORKSPACE_BYTES, x->device->stream),
                     err);
}

typedef struct trial {
  vtb__products *x;
  product *p;
  const vtb_launch_gemm *g;
  vtb_cu_address args[3];
} trial;

static vtb_status try_once(void *user, const vtb_lt_algorithm *algorithm, vtb_error *err) {
  trial *t = user;
  return multiply(t->x, t->p, t->g, algorithm, t->args, err);
}

/* The key of times. */
static void put_key(const vtb__products *x, const product *p, const vtb_launch_gemm *g,
                    vtb_strbuf *out) {
  const vtb_cuda_device *d = x->device;
  vtb_strbuf_printf(out, "%s %d.%d %d %d:", d->name, d->major, d->minor, d->driver,
                    (int)x->api.cublasLtGetVersion());
  const int64_t sizes[] = {g->m,   g->n,   g->k,        g->batch,    g->lda,
                           g->ldb, g->ldc, g->stride_a, g->stride_b, g->stride_c};
  const int flags[] = {g->trans_a,   g->trans_b,        g->has_bias,     g->accumulate,
                       g->precision, g->narrow_factors, g->narrow_result};
  for (int i = 0; i < 10; i++) vtb_strbuf_printf(out, " %lld", (long long)sizes[i]);
  for (int i = 0; i < 7; i++) vtb_strbuf_printf(out, " %d", flags[i]);
  for (int i = 0; i < 3 + (g->has_bias != 0); i++)
    vtb_strbuf_printf(out, " %u", (unsigned)alignment_of(x, p, i));
}

/* Bytes of argument `arg` at the step that has most of them. */
static size_t argument_bytes(const vtb__products *x, const product *p, int arg) {
  int64_t most = 0;
  for (int s = 0; s < x->plan->n_steps; s++) {
    const vtb_launch_step *step = &x->plan->steps[s];
    if (step->kind != VTB_LAUNCH_GEMM || &x->list[step->index] != p) continue;
    int64_t n = x->plan->args[step->first_arg + arg].bytes;
    if (n > most) most = n;
  }
  return ((size_t)most + MOST_ALIGNMENT) / MOST_ALIGNMENT * MOST_ALIGNMENT;
}

/* On zeros, in memory of its own; 0, the library's first, where that is not to be had. */
static int time_candidates(vtb__products *x, product *p, const vtb_launch_gemm *g,
                           const vtb_lt_choice *choices, int n) {
  vtb_cuda_device *d = x->device;
  vtb_cu_address memory = 0;
  vtb_error why = {0};
  vtb_strbuf key = VTB_CHECKED_STRBUF;
  size_t a = argument_bytes(x, p, 0), b = argument_bytes(x, p, 1), c = argument_bytes(x, p, 2);
  int best = 0;
  if (VTB_CU_CALL(d, cuMemAlloc_v2, (&memory, a + b + c), &why) != VTB_OK) return 0;
  vtb_status status = VTB_CU_CALL(d, cuMemsetD8Async, (memory, 0, a + b + c, d->stream), &why);
  trial t = {x, p, g, {memory, memory + a, memory + a + b}};
  put_key(x, p, g, &key);
  if (status == VTB_OK && key.at) best = vtb__fastest(d, key.at, choices, n, try_once, &t, x->note);
  (void)d->api.cuStreamSynchronize(d->stream);
  (void)d->api.cuMemFree_v2(memory);
  vtb_strbuf_free(&key);
  return best;
}

/* The fastest candidate that can run in the workspace, or the first by the library's order. */
static vtb_status take_one(vtb__products *x, product *p, const vtb_launch_gemm *g,
                           vtb_lt_choice *choices, int n, vtb_error *err) {
  int fit = 0;
  for (int i = 0; i < n; i++)
    if (choices[i].state == 0 && choices[i].workspace_bytes <= WORKSPACE_BYTES)
      choices[fit++] = choices[i];
  if (fit) {
    int best = fit > 1 && x->timed ? time_candidates(x, p, g, choices, fit) : 0;
    p->algorithm = choices[best].algorithm;
    return VTB_OK;
  }
  return vtb_fail(err, VTB_E_DEVICE,
                  "cublasLt has no way to multiply %lld x %lld by %lld x %lld; VTB_CUBLAS=0 "
                  "generates kernels for all products",
                  (long long)g->m, (long long)g->k, (long long)g->k, (long long)g->n);
}

static vtb_status choose_algorithm(vtb__products *x, product *p, const vtb_launch_gemm *g,
                                   vtb_error *err) {
  void *preference = NULL;
  vtb_lt_choice choices[CANDIDATES] = {0};
  uint64_t workspace = WORKSPACE_BYTES;
  int found = 0;
  vtb_status status = VTB_LT_CALL(x, cublasLtMatmulPreferenceCreate, (&preference), err);
  if (status != VTB_OK) return status;
  status =
      VTB_LT_CALL(x, cublasLtMatmulPreferenceSetAttribute,
                  (preference, VTB__LT_PREFERENCE_WORKSPACE, &workspace, sizeof workspace), err);
  if (status == VTB_OK) status = set_alignments(x, p, preference, err);
  if (status == VTB_OK) status = set_bias(x, p, g, err);
  if (status == VTB_OK)
    status = VTB_LT_CALL(x, cublasLtMatmulAlgoGetHeuristic,
                         (x->handle, p->operation, p->first, p->second, p->result, p->result,
                          preference, CANDIDATES, choices, &found),
                         err);
  if (status == VTB_OK) status = take_one(x, p, g, choices, found, err);
  int destroyed = x->api.cublasLtMatmulPreferenceDestroy(preference);
  return status != VTB_OK ? status
                          : check_cublaslt(destroyed, "cublasLtMatmulPreferenceDestroy", __FILE__,
                                           __LINE__, err);
}

static vtb_status describe_product(vtb__products *x, product *p, const vtb_launch_gemm *g,
                                   vtb_error *err) {
  vtb_status status = make_operation(x, p, g, err);
  int64_t b_rows = g->trans_b ? g->k : g->n, b_columns = g->trans_b ? g->n : g->k;
  int64_t a_rows = g->trans_a ? g->m : g->k, a_columns = g->trans_a ? g->k : g->m;
  int narrow = g->precision == 3 ? VTB__LT_F16 : VTB__LT_BF16,
      from = g->narrow_factors ? narrow : VTB__LT_F32;
  int to = g->narrow_result ? narrow : VTB__LT_F32;
  if (status == VTB_OK)
    status = make_layout(x, &p->first, from, b_rows, b_columns, g->ldb, g->batch, g->stride_b, err);
  if (status == VTB_OK)
    status =
        make_layout(x, &p->second, from, a_rows, a_columns, g->lda, g->batch, g->stride_a, err);
  if (status == VTB_OK)
    status = make_layout(x, &p->result, to, g->n, g->m, g->ldc, g->batch, g->stride_c, err);
  return status == VTB_OK ? choose_algorithm(x, p, g, err) : status;
}

static vtb_status make_product(vtb__products *x, product *p, const vtb_launch_gemm *g,
                               vtb_error *err) {
  vtb_error inner = {0};
  vtb_status status = describe_product(x, p, g, &inner);
  if (status == VTB_OK) return VTB_OK;
  return vtb_fail(err, status, "%s (%s): %s", g->info.name ? g->info.name : "a product",
                  g->info.origin ? g->info.origin : "-", inner.text);
}

vtb_status vtb__products_open(vtb_cuda_device *d, const vtb_launch_plan *p, vtb__products **out,
                              vtb_error *err) {
  *out = NULL;
  if (!p->n_gemms) return VTB_OK;
  vtb__products *x = calloc(1, sizeof *x);
  product *list = calloc((size_t)p->n_gemms, sizeof *list);
  if (!x || !list) {
    free(x);
    free(list);
    return vtb_no_memory(err, "library products");
  }
  *x = (vtb__products){
      .device = d, .plan = p, .list = list, .timed = d->how.cublaslt_timing != VTB_NO};
  vtb_status status = vtb_library_open(&cublaslt, &x->api, NULL, err);
  if (status == VTB_OK) status = VTB_LT_CALL(x, cublasLtCreate, (&x->handle), err);
  if (status == VTB_OK)
    status = VTB_CU_CALL(d, cuMemAlloc_v2, (&x->workspace, WORKSPACE_BYTES), err);
  for (int i = 0; i < p->n_gemms && status == VTB_OK; i++)
    status = make_product(x, &x->list[i], &p->gemms[i], err);
  if (status != VTB_OK) {
    vtb__products_free(x);
    return status;
  }
  *out = x;
  return VTB_OK;
}

void vtb__products_free(vtb__products *x) {
  if (!x) return;
  for (int i = 0; i < x->plan->n_gemms; i++) {
    product *p = &x->list[i];
    if (p->operation) (void)x->api.cublasLtMatmulDescDestroy(p->operation);
    if (p->first) (void)x->api.cublasLtMatrixLayoutDestroy(p->first);
    if (p->second) (void)x->api.cublasLtMatrixLayoutDestroy(p->second);
    if (p->result) (void)x->api.cublasLtMatrixLayoutDestroy(p->result);
  }
  if (x->workspace) (void)x->device->api.cuMemFree_v2(x->workspace);
  if (x->handle) (void)x->api.cublasLtDestroy(x->handle);
  free(x->list);
  free(x);
}

const char *vtb__products_note(const vtb__products *x) { return x && x->note[0] ? x->note : NULL; }

vtb_status vtb__products_run(vtb__products *x, int i, const vtb_cu_address *args, vtb_error *err) {
  product *p = &x->list[i];
  const vtb_launch_gemm *g = &x->plan->gemms[i];
  if (g->has_bias)
    VTB_TRY(VTB_LT_CALL(x, cublasLtMatmulDescSetAttribute,
                        (p->operation, VTB__LT_BIAS, &args[3], sizeof args[3]), err));
  return multiply(x, p, g, &p->algorithm, args, err);
}

bool vtb_cuda_probe_cublaslt(vtb_strbuf *out) {
  vtb_lt_api api;
  vtb_error err = {0};
  char *path = NULL;
  bool ok = vtb_library_open(&cublaslt, &api, &path, &err) == VTB_OK;
  int v = ok ? (int)api.cublasLtGetVersion() : 0;
  if (ok)
    vtb_strbuf_printf(out, "cublasLt %d.%d.%d (%s)", v / 10000, v % 10000 / 100, v % 100, path);
  else
    vtb_strbuf_puts(out, err.text);
  free(path);
  return ok;
}
