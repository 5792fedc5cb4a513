/* For tests of sessions on the fake driver's devices: the model y = x + 2 w, of four rows of 16,
 * where 2 w is a prepared step, and a caller with a stream and memory of its own. */
#ifndef VTB_TEST_SESSION_DEVICE_H
#define VTB_TEST_SESSION_DEVICE_H

#include "runtime/cuda/cuda.h"
#include "runtime/model.h"
#include "tests/runtime/sample_file.h"

#include <dlfcn.h>

enum { ROWS = 4, COLUMNS = 16, N = ROWS * COLUMNS };

typedef void (*hook_fn)(const char *, unsigned, unsigned, unsigned, void **);
static int *allocations, *launches, *graph_launches, *fail_number, *alive, *faults, *devices;
static const char **failed;
static char *trace;
static bool *default_streams;
static void (*record)(void *stream);

static struct {
  int (*cuCtxGetCurrent)(void **);
  int (*cuCtxPushCurrent_v2)(void *);
  int (*cuCtxPopCurrent_v2)(void **);
  int (*cuDevicePrimaryCtxRetain)(void **, int);
  int (*cuDevicePrimaryCtxRelease_v2)(int);
  int (*cuMemAlloc_v2)(uint64_t *, size_t);
  int (*cuMemFree_v2)(uint64_t);
  int (*cuStreamCreate)(void **, unsigned);
  int (*cuStreamDestroy_v2)(void *);
  int (*cuStreamSynchronize)(void *);
} cu;

static inline void run_kernel(const char *kernel, unsigned blocks, unsigned threads,
                              unsigned shared, void **parameters) {
  const float *a = (const float *)*(uintptr_t *)parameters[0];
  float *b = (float *)*(uintptr_t *)parameters[1];
  (void)blocks, (void)threads, (void)shared;
  if (strcmp(kernel, "k_twice") == 0) {
    for (int i = 0; i < COLUMNS; i++) b[i] = 2 * a[i];
  } else if (strcmp(kernel, "k_learn") == 0) {
    float *y = (float *)*(uintptr_t *)parameters[2], *next = (float *)*(uintptr_t *)parameters[3];
    for (int i = 0; i < COLUMNS; i++) next[i] = b[i] + a[i];
    for (int i = 0; i < N; i++) y[i] = a[i] + next[i % COLUMNS];
  } else if (strcmp(kernel, "k_store") == 0) {
    memcpy(b, a, 4 * COLUMNS);
  } else {
    float *y = (float *)*(uintptr_t *)parameters[2];
    for (int i = 0; i < N; i++) y[i] = a[i] + b[i % COLUMNS];
  }
}

/* ---- the model ------------------------------------------------------------------------------- */

static inline vtb_launch_arg arg(int space, int tensor, int access, int value, int64_t bytes) {
  return (vtb_launch_arg){.space = (uint8_t)space,
                          .access = (uint8_t)access,
                          .element_bytes = 4,
                          .align = 16,
                          .tensor = tensor,
                          .value = value,
                          .bytes = bytes,
                          .touched = bytes};
}

static inline vtb_launch_plan *make_plan(void) {
  vtb_launch_plan *p = vtb_xcalloc(1, sizeof *p);
  vtb_arena *a = &p->arena;
  p->n_tensors = 3;
  p->tensors = VTB_NEW_ARRAY(a, vtb_tensor_info, 3);
  p->tensors[0] =
      (vtb_tensor_info){.name = "x", .io = VTB_IO_INPUT, .rank = 2, .dim = {ROWS, COLUMNS}};
  p->tensors[1] = (vtb_tensor_info){
      .name = "w", .io = VTB_IO_PARAM, .rank = 1, .dim = {COLUMNS}, .init = "ones"};
  p->tensors[2] =
      (vtb_tensor_info){.name = "y", .io = VTB_IO_OUTPUT, .rank = 2, .dim = {ROWS, COLUMNS}};
  p->batch = ROWS;
  p->workspace_bytes = 256;
  p->n_sources = p->n_prepared = 1;
  p->sources = VTB_NEW_ARRAY(a, vtb_launch_source, 1);
  p->n_kernels = p->n_steps = 2;
  p->kernels = VTB_NEW_ARRAY(a, vtb_launch_kernel, 2);
  p->kernels[0] = (vtb_launch_kernel){.name = "k_twice", .threads = 32, .n_args = 2};
  p->kernels[1] = (vtb_launch_kernel){.name = "k_add", .threads = 32, .n_args = 3};
  p->steps = VTB_NEW_ARRAY(a, vtb_launch_step, 2);
  p->steps[0] = (vtb_launch_step){VTB_LAUNCH_KERNEL, 0, 1, 0, 2};
  p->steps[1] = (vtb_launch_step){VTB_LAUNCH_KERNEL, 1, 2, 2, 3};
  p->n_args = 5;
  p->args = VTB_NEW_ARRAY(a, vtb_launch_arg, 5);
  p->args[0] = arg(VTB_LAUNCH_TENSOR, 1, VTB_LAUNCH_READ, 1, 4 * COLUMNS);
  p->args[1] = arg(VTB_LAUNCH_WORKSPACE, 0, VTB_LAUNCH_WRITE, 2, 4 * COLUMNS);
  p->args[2] = arg(VTB_LAUNCH_TENSOR, 0, VTB_LAUNCH_READ, 0, 4 * N);
  p->args[3] = arg(VTB_LAUNCH_WORKSPACE, 0, VTB_LAUNCH_READ, 2, 4 * COLUMNS);
  p->args[4] = arg(VTB_LAUNCH_TENSOR, 2, VTB_LAUNCH_WRITE, 3, 4 * N);
  return p;
}

/* As vtb_compile_model() makes one. */
static inline vtb_status model_of(vtb_launch_plan *plan, const char *module, vtb_model **m,
                                  vtb_error *err) {
  vtb_cuda_image image = {module, strlen(module) + 1};
  vtb_cuda_device *device = NULL;
  vtb_program *program = NULL;
  vtb_status status = vtb_cuda_device_open(NULL, &device, err);
  if (status == VTB_OK) status = vtb_cuda_program(plan, &image, device, &program, err);
  if (status == VTB_OK) return vtb__model_of_program(program, NULL, NULL, m, err);
  vtb_launch_plan_free(plan);
  vtb_cuda_device_close(device);
  return status;
}

static inline vtb_status make_model(vtb_model **m, vtb_error *err) {
  return model_of(make_plan(), "fake\nk_twice 2\nk_add 3\n", m, err);
}

/* ---- the caller ------------------------------------------------------------------------------ */

typedef struct caller {
  void *context, *stream;
  uint64_t x, y;
} caller;

static inline void open_caller(caller *c, int device) {
  void *popped;
  *c = (caller){0};
  CHECK(cu.cuDevicePrimaryCtxRetain(&c->context, device) == 0);
  CHECK(cu.cuCtxPushCurrent_v2(c->context) == 0);
  CHECK(cu.cuStreamCreate(&c->stream, 1) == 0);
  CHECK(cu.cuMemAlloc_v2(&c->x, 24 * N) == 0 && cu.cuMemAlloc_v2(&c->y, 8 * N + 256) == 0);
  CHECK(cu.cuCtxPopCurrent_v2(&popped) == 0);
}

static inline void close_caller(caller *c, int device) {
  CHECK(cu.cuStreamDestroy_v2(c->stream) == 0);
  CHECK(cu.cuMemFree_v2(c->x) == 0 && cu.cuMemFree_v2(c->y) == 0);
  CHECK(cu.cuDevicePrimaryCtxRelease_v2(device) == 0);
}

static inline float *at(uint64_t address) { return (float *)(uintptr_t)address; }

static inline void fill(uint64_t x, float start) {
  for (int i = 0; i < N; i++) at(x)[i] = start + (float)i;
}

static inline void expect(const float *y, float start, float add, int n) {
  int wrong = 0;
  for (int i = 0; i < n; i++) wrong += y[i] != start + (float)i + add;
  CHECK_MSG(!wrong, "%d of %d are wrong, the first is %g", wrong, n, (double)y[0]);
}

static inline vtb_session_options on_stream(void *stream) {
  return (vtb_session_options){.size = sizeof(vtb_session_options),
                               .device = VTB_DEVICE_CUDA,
                               .threads = 1,
                               .cuda_stream = stream,
                               .has_cuda_stream = true};
}

static inline vtb_array rows(uint64_t address, int64_t n, vtb_device device) {
  return (vtb_array){.size = sizeof(vtb_array),
                     .type = VTB_ARRAY_F32,
                     .device = device,
                     .rank = 2,
                     .dim = {n, COLUMNS},
                     .data = (void *)(uintptr_t)address};
}

static inline vtb_status bind(vtb_session *s, const char *name, uint64_t address, int64_t n,
                              vtb_error *err) {
  vtb_array a = rows(address, n, VTB_DEVICE_CUDA);
  return vtb_session_bind(s, name, &a, err);
}

static inline int count(const char *what) {
  int n = 0;
  for (const char *found = trace; (found = strstr(found, what)); found++) n++;
  return n;
}

static inline void expect_nothing_left(void) {
  CHECK_MSG(*allocations == 0 && *alive == 0 && *faults == 0,
            "%d allocations, %d others, %d faults", *allocations, *alive, *faults);
}

#define FIND(name) *(void **)&cu.name = dlsym(fake, #name)

static inline void *open_fake(void) {
  void *fake = dlopen(VTB_FAKE_CUDA, RTLD_NOW);
  if (!fake) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  setenv("VTB_CUDA_DRIVER", VTB_FAKE_CUDA, 1);
  FIND(cuCtxGetCurrent);
  FIND(cuCtxPushCurrent_v2);
  FIND(cuCtxPopCurrent_v2);
  FIND(cuDevicePrimaryCtxRetain);
  FIND(cuDevicePrimaryCtxRelease_v2);
  FIND(cuMemAlloc_v2);
  FIND(cuMemFree_v2);
  FIND(cuStreamCreate);
  FIND(cuStreamDestroy_v2);
  FIND(cuStreamSynchronize);
  allocations = dlsym(fake, "fake_cuda_allocations");
  launches = dlsym(fake, "fake_cuda_launches");
  graph_launches = dlsym(fake, "fake_cuda_graph_launches");
  fail_number = dlsym(fake, "fake_cuda_fail_number");
  alive = dlsym(fake, "fake_cuda_alive");
  faults = dlsym(fake, "fake_cuda_faults");
  failed = dlsym(fake, "fake_cuda_failed");
  trace = dlsym(fake, "fake_cuda_trace");
  devices = dlsym(fake, "fake_cuda_devices");
  default_streams = dlsym(fake, "fake_cuda_default");
  *(void **)&record = dlsym(fake, "fake_cuda_capture");
  *(hook_fn *)dlsym(fake, "fake_cuda_hook") = run_kernel;
  return fake;
}

#endif
