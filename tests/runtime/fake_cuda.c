/* A CUDA driver without a GPU, as a library of its own: device memory is host memory, a module is
 * the text "fake", perhaps with lines "kernel parameters" behind it (2 where a kernel has none),
 * and a launch calls the test's hook. It refuses what the real one would: addresses it did not give
 * out, launches outside their limits, copies during a capture. Calls can be made to fail by name.
 *
 *   fake_cuda_hook = ...; fake_cuda_fail = "cuMemAlloc_v2";        found by dlsym
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*fake_hook)(const char *kernel, unsigned blocks, unsigned threads, unsigned shared,
                          void **parameters);
fake_hook fake_cuda_hook;
const char *fake_cuda_fail;
int fake_cuda_allocations, fake_cuda_launches, fake_cuda_graph_launches, fake_cuda_devices = 1;

enum {
  OK = 0,
  INVALID = 1,
  NO_MEMORY = 2,
  NO_DEVICE = 100,
  NO_BINARY = 209,
  NOT_FOUND = 500,
  IN_CAPTURE = 900
};
enum { MAX_BLOCKS = 64, MAX_LAUNCHES = 512, MAX_PARAMETERS = 24 };

static struct {
  char *at;
  size_t n;
} memory[MAX_BLOCKS];

typedef struct launch {
  char kernel[64];
  unsigned blocks, threads, shared;
  uint64_t values[MAX_PARAMETERS];
} launch;
static struct {
  launch list[MAX_LAUNCHES];
  int n;
} graph;
static bool capturing;
static int opt_in; /* bytes of shared memory that were asked for */

#define FAIL_IF_ASKED(name)                                                                        \
  if (fake_cuda_fail && strcmp(fake_cuda_fail, name) == 0) return NO_MEMORY

/* ---- the driver's functions, with its own names and parameters ------------------------------- */

int cuInit(unsigned flags);
int cuInit(unsigned flags) {
  (void)flags;
  FAIL_IF_ASKED("cuInit");
  return fake_cuda_devices ? OK : NO_DEVICE;
}

int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version) {
  *version = fake_cuda_fail && strcmp(fake_cuda_fail, "old") == 0 ? 11040 : 12040;
  return OK;
}

int cuGetErrorName(int error, const char **text);
int cuGetErrorName(int error, const char **text) {
  *text = error == NO_DEVICE   ? "CUDA_ERROR_NO_DEVICE"
          : error == NO_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                               : "CUDA_ERROR_INVALID_VALUE";
  return OK;
}

int cuGetErrorString(int error, const char **text);
int cuGetErrorString(int error, const char **text) {
  *text = error == NO_DEVICE ? "no CUDA-capable device is detected" : "the fake refuses";
  return OK;
}

int cuDeviceGetCount(int *count);
int cuDeviceGetCount(int *count) {
  *count = fake_cuda_devices;
  return OK;
}

int cuDeviceGet(int *device, int ordinal);
int cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return OK;
}

int cuDeviceGetName(char *name, int length, int device);
int cuDeviceGetName(char *name, int length, int device) {
  snprintf(name, (size_t)length, "Fake %d", device);
  return OK;
}

int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)device;
  *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 97 ? 232448 : 0;
  return OK;
}

int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRetain(void **context, int device) {
  (void)device;
  *context = memory;
  return OK;
}
int cuDevicePrimaryCtxRelease_v2(int device);
int cuDevicePrimaryCtxRelease_v2(int device) { return device < 0; }
int cuCtxSetCurrent(void *context);
int cuCtxSetCurrent(void *context) { return context ? OK : INVALID; }

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
  *free_bytes = *total_bytes = (size_t)1 << 30;
  return OK;
}

int cuMemAlloc_v2(uint64_t *address, size_t n_bytes);
int cuMemAlloc_v2(uint64_t *address, size_t n_bytes) {
  FAIL_IF_ASKED("cuMemAlloc_v2");
  for (int i = 0; i < MAX_BLOCKS; i++) {
    if (memory[i].at) continue;
    memory[i].at = aligned_alloc(256, (n_bytes + 255) / 256 * 256);
    memory[i].n = n_bytes;
    if (!memory[i].at) return NO_MEMORY;
    memset(memory[i].at, 0xff, n_bytes);
    *address = (uint64_t)(uintptr_t)memory[i].at;
    fake_cuda_allocations++;
    return OK;
  }
  return NO_MEMORY;
}

int cuMemFree_v2(uint64_t address);
int cuMemFree_v2(uint64_t address) {
  for (int i = 0; i < MAX_BLOCKS; i++) {
    if ((uint64_t)(uintptr_t)memory[i].at != address) continue;
    free(memory[i].at);
    memory[i].at = NULL;
    fake_cuda_allocations--;
    return OK;
  }
  return INVALID;
}

static bool is_device(uint64_t address, size_t n_bytes) {
  for (int i = 0; i < MAX_BLOCKS; i++) {
    uint64_t begin = (uint64_t)(uintptr_t)memory[i].at;
    if (memory[i].at && address >= begin && address + n_bytes <= begin + memory[i].n) return true;
  }
  return false;
}

int cuMemsetD8Async(uint64_t to, unsigned char value, size_t n_bytes, void *stream);
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t n_bytes, void *stream) {
  if (capturing) return IN_CAPTURE;
  if (!stream || !is_device(to, n_bytes)) return INVALID;
  memset((void *)(uintptr_t)to, value, n_bytes);
  return OK;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n_bytes, void *stream);
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n_bytes, void *stream) {
  (void)stream;
  if (capturing) return IN_CAPTURE;
  if (!is_device(to, n_bytes) || is_device((uint64_t)(uintptr_t)from, n_bytes)) return INVALID;
  memcpy((void *)(uintptr_t)to, from, n_bytes);
  return OK;
}

/* What comes from the device is there when the stream has been waited for, not before. */
static struct {
  void *to, *bytes;
  size_t n;
} on_the_way[MAX_BLOCKS];
static int n_on_the_way;

static void arrive(void) {
  for (int i = 0; i < n_on_the_way; i++) {
    memcpy(on_the_way[i].to, on_the_way[i].bytes, on_the_way[i].n);
    free(on_the_way[i].bytes);
  }
  n_on_the_way = 0;
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n_bytes, void *stream);
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n_bytes, void *stream) {
  (void)stream;
  if (capturing) return IN_CAPTURE;
  if (!is_device(from, n_bytes)) return INVALID;
  if (n_on_the_way == MAX_BLOCKS) arrive();
  void *bytes = malloc(n_bytes ? n_bytes : 1);
  if (!bytes) return NO_MEMORY;
  on_the_way[n_on_the_way].to = to;
  on_the_way[n_on_the_way].n = n_bytes;
  on_the_way[n_on_the_way++].bytes = memcpy(bytes, (void *)(uintptr_t)from, n_bytes);
  return OK;
}

int cuModuleLoadDataEx(void **module, const void *image, unsigned n, int *options, void **values);
int cuModuleLoadDataEx(void **module, const void *image, unsigned n, int *options, void **values) {
  (void)n, (void)options, (void)values;
  if (strncmp(image, "fake", 4) != 0) return NO_BINARY;
  *module = strdup(image);
  return OK;
}
int cuModuleUnload(void *module);
int cuModuleUnload(void *module) {
  free(module);
  return OK;
}

static struct function {
  char name[64];
  int n_parameters;
} functions[MAX_LAUNCHES];
static int n_functions;
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuModuleGetFunction(void **function, void *module, const char *name) {
  if (!module || strstr(name, "absent") || n_functions == MAX_LAUNCHES) return NOT_FOUND;
  struct function *f = &functions[n_functions++];
  char line[80];
  snprintf(f->name, sizeof f->name, "%s", name);
  snprintf(line, sizeof line, "\n%s ", name);
  const char *at = strstr(module, line);
  f->n_parameters = at ? atoi(at + strlen(line)) : 2;
  *function = f;
  return OK;
}
int cuFuncSetAttribute(void *function, int attribute, int value);
int cuFuncSetAttribute(void *function, int attribute, int value) {
  if (!function || attribute != 8) return INVALID;
  opt_in = value;
  return OK;
}

int cuStreamCreate(void **stream, unsigned flags);
int cuStreamCreate(void **stream, unsigned flags) {
  (void)flags;
  *stream = &graph;
  return OK;
}
int cuStreamDestroy_v2(void *stream);
int cuStreamDestroy_v2(void *stream) { return stream ? OK : INVALID; }
int cuStreamSynchronize(void *stream);
int cuStreamSynchronize(void *stream) {
  FAIL_IF_ASKED("cuStreamSynchronize");
  if (stream && !capturing) arrive();
  return stream && !capturing ? OK : IN_CAPTURE;
}

static void execute(launch *l) {
  void *parameters[MAX_PARAMETERS];
  for (int i = 0; i < MAX_PARAMETERS; i++) parameters[i] = &l->values[i];
  fake_cuda_launches++;
  if (fake_cuda_hook) fake_cuda_hook(l->kernel, l->blocks, l->threads, l->shared, parameters);
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **parameters, void **extra);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **parameters, void **extra) {
  launch l = {.blocks = gx, .threads = bx, .shared = shared};
  FAIL_IF_ASKED("cuLaunchKernel");
  if (!function || !stream || extra || gy != 1 || gz != 1 || by != 1 || bz != 1 || !gx || bx > 1024)
    return INVALID;
  if (shared > 49152 && (int)shared > opt_in) return INVALID;
  const struct function *f = function;
  snprintf(l.kernel, sizeof l.kernel, "%s", f->name);
  if (f->n_parameters > MAX_PARAMETERS) return INVALID;
  for (int i = 0; i < f->n_parameters; i++) { /* read now, as the driver does */
    memcpy(&l.values[i], parameters[i], sizeof l.values[i]);
    if (!is_device(l.values[i], 4)) return INVALID;
  }
  if (!capturing)
    execute(&l);
  else if (graph.n < MAX_LAUNCHES)
    graph.list[graph.n++] = l;
  else
    return NO_MEMORY;
  return OK;
}

/* A map begins with the tensor's address, which launches read as they read pointers. */
int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *size,
                           const uint64_t *stride, const uint32_t *box, const uint32_t *steps,
                           int interleave, int swizzle, int promotion, int fill);
int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *size,
                           const uint64_t *stride, const uint32_t *box, const uint32_t *steps,
                           int interleave, int swizzle, int promotion, int fill) {
  static const uint64_t longest[] = {UINT64_MAX, 32, 64, 128};
  uint64_t begin = (uint64_t)(uintptr_t)address, element = type == 1 ? 2 : 4;
  FAIL_IF_ASKED("cuTensorMapEncodeTiled");
  if ((uintptr_t)map % 64 || begin % 16 || rank < 1 || rank > 5 || (type != 1 && type != 7) ||
      interleave || swizzle < 0 || swizzle > 3 || promotion < 0 || promotion > 3 || fill)
    return INVALID;
  uint64_t reach = (size[0] - 1) * element;
  for (uint32_t i = 0; i < rank; i++) {
    if (!size[i] || size[i] > UINT32_MAX || !box[i] || box[i] > 256 || steps[i] != 1)
      return INVALID;
    if (i && (stride[i - 1] % 16 || stride[i - 1] >= (uint64_t)1 << 40)) return INVALID;
    if (i) reach += (size[i] - 1) * stride[i - 1];
  }
  if (box[0] * element % 16 || box[0] * element > longest[swizzle]) return INVALID;
  if (!is_device(begin, reach + element)) return INVALID;
  memset(map, 0, 128);
  memcpy(map, &begin, sizeof begin);
  return OK;
}

int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamBeginCapture_v2(void *stream, int mode) {
  if (!stream || mode != 1 || capturing) return INVALID;
  capturing = true;
  graph.n = 0;
  return OK;
}
int cuStreamEndCapture(void *stream, void **out);
int cuStreamEndCapture(void *stream, void **out) {
  if (!stream || !capturing) return INVALID;
  capturing = false;
  *out = &graph;
  return OK;
}
int cuGraphInstantiateWithFlags(void **executable, void *from, unsigned long long flags);
int cuGraphInstantiateWithFlags(void **executable, void *from, unsigned long long flags) {
  if (from != &graph || flags) return INVALID;
  *executable = &graph;
  return OK;
}
int cuGraphLaunch(void *executable, void *stream);
int cuGraphLaunch(void *executable, void *stream) {
  if (executable != &graph || !stream) return INVALID;
  fake_cuda_graph_launches++;
  for (int i = 0; i < graph.n; i++) execute(&graph.list[i]);
  return OK;
}
int cuGraphExecDestroy(void *executable);
int cuGraphExecDestroy(void *executable) { return executable == &graph ? OK : INVALID; }
int cuGraphDestroy(void *from);
int cuGraphDestroy(void *from) { return from == &graph ? OK : INVALID; }
