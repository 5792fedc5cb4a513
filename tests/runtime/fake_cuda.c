/* A CUDA driver without a GPU, as a library of its own: device memory is host memory, a module is
 * the text "fake", perhaps with lines "kernel parameters" behind it (2 where a kernel has none),
 * and a launch calls the test's hook. It refuses what the real one would: addresses it did not give
 * out, launches outside their limits, copies during a capture, unloading what may still run. Calls
 * can be made to fail by name or by number; what is alive is counted, what streams get is written
 * down.
 *
 *   fake_cuda_hook = ...; fake_cuda_fail = "cuMemAlloc_v2";        found by dlsym
 *   fake_cuda_fail_number = 7;     the seventh call from now on fails, alone
 *   fake_cuda_trace                "in 256;launch k_double;sync;" since the test emptied it
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
int fake_cuda_fail_number, fake_cuda_alive, fake_cuda_faults; /* alive: all but memory */
const char *fake_cuda_failed;                                 /* the call that failed by number */
char fake_cuda_trace[16384];

enum {
  OK = 0,
  INVALID = 1,
  NO_MEMORY = 2,
  NO_DEVICE = 100,
  NO_BINARY = 209,
  NOT_FOUND = 500,
  NOT_READY = 600,
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
static bool capturing, under_way; /* work that nobody has waited for */
static int opt_in;                /* bytes of shared memory that were asked for */

static bool is_to_fail(const char *name) {
  if (fake_cuda_fail && strcmp(fake_cuda_fail, name) == 0) return true;
  if (!fake_cuda_fail_number || --fake_cuda_fail_number) return false;
  fake_cuda_failed = name;
  return true;
}
#define FAIL_IF_ASKED(name)                                                                        \
  if (is_to_fail(name)) return NO_MEMORY
/* Of what gives back: it does so and may still fail, with what runs before it has failed. */
#define GIVEN_BACK(name) is_to_fail(name) ? NO_MEMORY : OK

static void note(const char *what, const char *name, size_t n) {
  size_t at = strlen(fake_cuda_trace);
  if (n)
    snprintf(fake_cuda_trace + at, sizeof fake_cuda_trace - at, "%s %zu;", what, n);
  else
    snprintf(fake_cuda_trace + at, sizeof fake_cuda_trace - at, "%s%s%s;", what, *name ? " " : "",
             name);
}

/* ---- the driver's functions, with its own names and parameters ------------------------------- */

int cuInit(unsigned flags);
int cuInit(unsigned flags) {
  (void)flags;
  FAIL_IF_ASKED("cuInit");
  return fake_cuda_devices ? OK : NO_DEVICE;
}

int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version) {
  FAIL_IF_ASKED("cuDriverGetVersion");
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
  FAIL_IF_ASKED("cuDeviceGetCount");
  *count = fake_cuda_devices;
  return OK;
}

int cuDeviceGet(int *device, int ordinal);
int cuDeviceGet(int *device, int ordinal) {
  FAIL_IF_ASKED("cuDeviceGet");
  *device = ordinal;
  return OK;
}

int cuDeviceGetName(char *name, int length, int device);
int cuDeviceGetName(char *name, int length, int device) {
  FAIL_IF_ASKED("cuDeviceGetName");
  snprintf(name, (size_t)length, "Fake %d", device);
  return OK;
}

int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  FAIL_IF_ASKED("cuDeviceGetAttribute");
  (void)device;
  *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 97 ? 232448 : 0;
  return OK;
}

int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRetain(void **context, int device) {
  FAIL_IF_ASKED("cuDevicePrimaryCtxRetain");
  fake_cuda_alive++;
  (void)device;
  *context = memory;
  return OK;
}
int cuDevicePrimaryCtxRelease_v2(int device);
int cuDevicePrimaryCtxRelease_v2(int device) {
  fake_cuda_alive--;
  return device < 0 ? INVALID : GIVEN_BACK("cuDevicePrimaryCtxRelease_v2");
}
int cuCtxSetCurrent(void *context);
int cuCtxSetCurrent(void *context) {
  FAIL_IF_ASKED("cuCtxSetCurrent");
  return context ? OK : INVALID;
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
  FAIL_IF_ASKED("cuMemGetInfo_v2");
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
    return GIVEN_BACK("cuMemFree_v2");
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
  FAIL_IF_ASKED("cuMemsetD8Async");
  under_way = true;
  if (capturing) return IN_CAPTURE;
  if (!stream || !is_device(to, n_bytes)) return INVALID;
  memset((void *)(uintptr_t)to, value, n_bytes);
  return OK;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n_bytes, void *stream);
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n_bytes, void *stream) {
  FAIL_IF_ASKED("cuMemcpyHtoDAsync_v2");
  under_way = true;
  note("in", "", n_bytes);
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
  FAIL_IF_ASKED("cuMemcpyDtoHAsync_v2");
  under_way = true;
  note("out", "", n_bytes);
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
  FAIL_IF_ASKED("cuModuleLoadDataEx");
  (void)n, (void)options, (void)values;
  if (strncmp(image, "fake", 4) != 0) return NO_BINARY;
  *module = strdup(image);
  fake_cuda_alive++;
  return OK;
}
int cuModuleUnload(void *module);
int cuModuleUnload(void *module) {
  if (under_way) fake_cuda_faults++;
  fake_cuda_alive--;
  free(module);
  return GIVEN_BACK("cuModuleUnload");
}

static struct function {
  char name[64];
  int n_parameters;
} functions[MAX_LAUNCHES];
static int n_functions;
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuModuleGetFunction(void **function, void *module, const char *name) {
  FAIL_IF_ASKED("cuModuleGetFunction");
  if (!module || strstr(name, "absent") || n_functions == MAX_LAUNCHES) return NOT_FOUND;
  struct function *f = functions;
  while (f < functions + n_functions && strcmp(f->name, name) != 0) f++;
  if (f == functions + n_functions) n_functions++;
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
  FAIL_IF_ASKED("cuFuncSetAttribute");
  if (!function || attribute != 8) return INVALID;
  opt_in = value;
  return OK;
}

int cuStreamCreate(void **stream, unsigned flags);
int cuStreamCreate(void **stream, unsigned flags) {
  (void)flags;
  FAIL_IF_ASKED("cuStreamCreate");
  fake_cuda_alive++;
  *stream = &graph;
  return OK;
}
int cuStreamDestroy_v2(void *stream);
int cuStreamDestroy_v2(void *stream) {
  fake_cuda_alive--;
  return !stream ? INVALID : GIVEN_BACK("cuStreamDestroy_v2");
}
int cuStreamSynchronize(void *stream);
int cuStreamSynchronize(void *stream) {
  bool fails = is_to_fail("cuStreamSynchronize"); /* with the error of what it waited for */
  if (stream && !capturing) {
    arrive();
    under_way = false;
    note("sync", "", 0);
  }
  if (fails) return NO_MEMORY;
  return stream && !capturing ? OK : IN_CAPTURE;
}

static void execute(launch *l) {
  void *parameters[MAX_PARAMETERS];
  for (int i = 0; i < MAX_PARAMETERS; i++) parameters[i] = &l->values[i];
  fake_cuda_launches++;
  under_way = true;
  note("launch", l->kernel, 0);
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

/* An event holds the clock, on which every launch takes a millisecond. */
int cuEventCreate(void **event, unsigned flags);
int cuEventCreate(void **event, unsigned flags) {
  FAIL_IF_ASKED("cuEventCreate");
  if (flags) return INVALID;
  *event = calloc(1, sizeof(int));
  fake_cuda_alive++;
  return OK;
}
int cuEventDestroy_v2(void *event);
int cuEventDestroy_v2(void *event) {
  fake_cuda_alive--;
  free(event);
  return GIVEN_BACK("cuEventDestroy_v2");
}
int cuEventRecord(void *event, void *stream);
int cuEventRecord(void *event, void *stream) {
  FAIL_IF_ASKED("cuEventRecord");
  if (!event || !stream || capturing) return INVALID;
  *(int *)event = fake_cuda_launches;
  under_way = true;
  note("event", "", 0);
  return OK;
}
int cuEventElapsedTime(float *milliseconds, void *begin, void *end);
int cuEventElapsedTime(float *milliseconds, void *begin, void *end) {
  FAIL_IF_ASKED("cuEventElapsedTime");
  if (under_way) return NOT_READY;
  *milliseconds = (float)(*(int *)end - *(int *)begin);
  return OK;
}

int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamBeginCapture_v2(void *stream, int mode) {
  FAIL_IF_ASKED("cuStreamBeginCapture_v2");
  if (!stream || mode != 1 || capturing) return INVALID;
  capturing = true;
  graph.n = 0;
  return OK;
}
int cuStreamEndCapture(void *stream, void **out);
int cuStreamEndCapture(void *stream, void **out) {
  if (!stream || !capturing) return INVALID;
  capturing = false;
  *out = NULL;
  FAIL_IF_ASKED("cuStreamEndCapture");
  *out = &graph;
  fake_cuda_alive++;
  return OK;
}
int cuGraphInstantiateWithFlags(void **executable, void *from, unsigned long long flags);
int cuGraphInstantiateWithFlags(void **executable, void *from, unsigned long long flags) {
  FAIL_IF_ASKED("cuGraphInstantiateWithFlags");
  if (from != &graph || flags) return INVALID;
  fake_cuda_alive++;
  *executable = &graph;
  return OK;
}
int cuGraphLaunch(void *executable, void *stream);
int cuGraphLaunch(void *executable, void *stream) {
  FAIL_IF_ASKED("cuGraphLaunch");
  if (executable != &graph || !stream) return INVALID;
  note("graph", "", 0);
  fake_cuda_graph_launches++;
  for (int i = 0; i < graph.n; i++) execute(&graph.list[i]);
  return OK;
}
int cuGraphExecDestroy(void *executable);
int cuGraphExecDestroy(void *executable) {
  if (under_way) fake_cuda_faults++;
  fake_cuda_alive--;
  return executable != &graph ? INVALID : GIVEN_BACK("cuGraphExecDestroy");
}
int cuGraphDestroy(void *from);
int cuGraphDestroy(void *from) {
  fake_cuda_alive--;
  return from != &graph ? INVALID : GIVEN_BACK("cuGraphDestroy");
}
