/* A CUDA driver without a GPU, as a library of its own: device memory is host memory, a module is
 * the text "fake", perhaps with lines "kernel parameters" behind it (2 where a kernel has none),
 * and a launch calls the test's hook. It refuses what the real one would: addresses it did not give
 * out, launches outside their limits, copies during a capture, unloading what may still run. Calls
 * can be made to fail by name or by number; what is alive is counted, what streams get is written
 * down.
 *
 * A stream does nothing before somebody waits for it, or for what waits for it: whoever reads a
 * result too early finds the old one, and whoever fills a pinned buffer too early has the new
 * contents copied. Memory that is not pinned is read at once, as the driver does.
 *
 *   fake_cuda_hook = ...; fake_cuda_fail = "cuMemAlloc_v2";        found by dlsym
 *   fake_cuda_fail_number = 7;     the seventh call from now on fails, alone
 *   fake_cuda_trace                "in 256;launch k_double;sync;" since the test emptied it;
 *                                  streams behind the first have their number: "2:in 256;"
 */
#include "tests/runtime/fake_contexts.h"

/* For libraries whose work is done at once: what is before it on the stream. */
void fake_cuda_finish(void *of);
void fake_cuda_finish(void *of) { finish(stream_of(of)); }
/* For libraries whose work waits on the stream like any other: `what` is written down. */
int fake_cuda_call(void *of, const char *what, size_t n, void (*call)(void *), void *arg);
int fake_cuda_call(void *of, const char *what, size_t n, void (*call)(void *), void *arg) {
  LOCK;
  stream *on = stream_of(of);
  work *w = on && !capturing ? put(on) : NULL;
  if (!w) return INVALID;
  note(on, what, "", n);
  w->kind = CALL;
  w->call = call;
  w->host = arg;
  return OK;
}

/* ---- the driver's functions, with its own names and parameters ------------------------------- */

int cuInit(unsigned flags);
int cuInit(unsigned flags) {
  LOCK;
  (void)flags;
  FAIL_IF_ASKED("cuInit");
  return fake_cuda_devices ? OK : NO_DEVICE;
}

int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version) {
  LOCK;
  FAIL_IF_ASKED("cuDriverGetVersion");
  *version = fake_cuda_fail && strcmp(fake_cuda_fail, "old") == 0 ? 11040 : 12040;
  return OK;
}

int cuGetErrorName(int error, const char **text);
int cuGetErrorName(int error, const char **text) {
  LOCK;
  *text = error == NO_DEVICE   ? "CUDA_ERROR_NO_DEVICE"
          : error == NO_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                               : "CUDA_ERROR_INVALID_VALUE";
  return OK;
}

int cuGetErrorString(int error, const char **text);
int cuGetErrorString(int error, const char **text) {
  LOCK;
  *text = error == NO_DEVICE ? "no CUDA-capable device is detected" : "the fake refuses";
  return OK;
}

int cuDeviceGetCount(int *count);
int cuDeviceGetCount(int *count) {
  LOCK;
  FAIL_IF_ASKED("cuDeviceGetCount");
  *count = fake_cuda_devices;
  return OK;
}

int cuDeviceGet(int *device, int ordinal);
int cuDeviceGet(int *device, int ordinal) {
  LOCK;
  FAIL_IF_ASKED("cuDeviceGet");
  *device = ordinal;
  return OK;
}

int cuDeviceGetName(char *name, int length, int device);
int cuDeviceGetName(char *name, int length, int device) {
  LOCK;
  FAIL_IF_ASKED("cuDeviceGetName");
  snprintf(name, (size_t)length, "Fake %d", device);
  return OK;
}

int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  LOCK;
  FAIL_IF_ASKED("cuDeviceGetAttribute");
  (void)device;
  *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 97 ? 232448 : 0;
  return OK;
}

int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRetain(void **context, int device) {
  LOCK;
  FAIL_IF_ASKED("cuDevicePrimaryCtxRetain");
  fake_cuda_alive++;
  *context = &primary[device];
  return OK;
}
int cuDevicePrimaryCtxRelease_v2(int device);
int cuDevicePrimaryCtxRelease_v2(int device) {
  LOCK;
  fake_cuda_alive--;
  return device < 0 ? INVALID : GIVEN_BACK("cuDevicePrimaryCtxRelease_v2");
}
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
  LOCK;
  FAIL_IF_ASKED("cuMemGetInfo_v2");
  *free_bytes = *total_bytes = (size_t)1 << 30;
  return OK;
}

int cuMemAlloc_v2(uint64_t *address, size_t n_bytes);
int cuMemAlloc_v2(uint64_t *address, size_t n_bytes) {
  LOCK;
  FAIL_IF_ASKED("cuMemAlloc_v2");
  for (int i = 0; i < MAX_BLOCKS; i++) {
    if (memory[i].at) continue;
    memory[i].at = aligned_alloc(256, (n_bytes + 255) / 256 * 256);
    memory[i].n = n_bytes;
    memory[i].device = current_device();
    if (!current()) return INVALID;
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
  LOCK;
  for (int i = 0; i < MAX_BLOCKS; i++) {
    if ((uint64_t)(uintptr_t)memory[i].at != address) continue;
    finish_all(); /* as the driver waits */
    free(memory[i].at);
    memory[i].at = NULL;
    fake_cuda_allocations--;
    return GIVEN_BACK("cuMemFree_v2");
  }
  return INVALID;
}

int cuMemsetD8Async(uint64_t to, unsigned char value, size_t n_bytes, void *stream);
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t n_bytes, void *given) {
  LOCK;
  stream *on = stream_of(given);
  FAIL_IF_ASKED("cuMemsetD8Async");
  if (capturing) return IN_CAPTURE;
  if (!on || !is_device(to, n_bytes)) return INVALID;
  work *w = put(on);
  if (!w) return NO_MEMORY;
  w->kind = SET;
  w->at = to;
  w->n = n_bytes;
  w->number = value;
  return OK;
}

int cuMemHostAlloc(void **at, size_t n_bytes, unsigned flags);
int cuMemHostAlloc(void **at, size_t n_bytes, unsigned flags) {
  LOCK;
  FAIL_IF_ASKED("cuMemHostAlloc");
  if (flags) return INVALID;
  for (int i = 0; i < MAX_BLOCKS; i++) {
    if (pinned[i].at) continue;
    *at = pinned[i].at = aligned_alloc(256, (n_bytes + 255) / 256 * 256);
    if (!*at) return NO_MEMORY;
    pinned[i].n = n_bytes;
    fake_cuda_alive++;
    return OK;
  }
  return NO_MEMORY;
}
int cuMemFreeHost(void *at);
int cuMemFreeHost(void *at) {
  LOCK;
  for (int i = 0; i < MAX_BLOCKS; i++) {
    if (!at || pinned[i].at != at) continue;
    if (is_copied(at, pinned[i].n)) fake_cuda_faults++;
    free(at);
    pinned[i].at = NULL;
    fake_cuda_alive--;
    return GIVEN_BACK("cuMemFreeHost");
  }
  return INVALID;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n_bytes, void *on);
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n_bytes, void *given) {
  LOCK;
  stream *on = stream_of(given);
  FAIL_IF_ASKED("cuMemcpyHtoDAsync_v2");
  note(on, "in", "", n_bytes);
  if (capturing) return IN_CAPTURE;
  if (!on || !is_device(to, n_bytes) || is_device((uint64_t)(uintptr_t)from, n_bytes))
    return INVALID;
  void *bytes = is_pinned(from, n_bytes) ? NULL : malloc(n_bytes + 1);
  work *w = put(on);
  if (!w || (!bytes && !is_pinned(from, n_bytes))) {
    free(bytes);
    return NO_MEMORY;
  }
  w->kind = COPY_IN;
  w->at = to;
  w->n = n_bytes;
  w->host = (void *)(uintptr_t)from;
  if (bytes) w->bytes = memcpy(bytes, from, n_bytes);
  return OK;
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n_bytes, void *on);
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n_bytes, void *given) {
  LOCK;
  stream *on = stream_of(given);
  FAIL_IF_ASKED("cuMemcpyDtoHAsync_v2");
  note(on, "out", "", n_bytes);
  if (capturing) return IN_CAPTURE;
  if (!on || !is_device(from, n_bytes)) return INVALID;
  work *w = put(on);
  if (!w) return NO_MEMORY;
  w->kind = COPY_OUT;
  w->at = from;
  w->n = n_bytes;
  w->host = to;
  return OK;
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n_bytes, void *on);
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n_bytes, void *on) {
  LOCK;
  FAIL_IF_ASKED("cuMemcpyDtoDAsync_v2");
  stream *s = stream_of(on);
  note(s, "across", "", n_bytes);
  if (capturing) return IN_CAPTURE;
  if (!s || !is_device(from, n_bytes) || !is_device(to, n_bytes)) return INVALID;
  work *w = put(s);
  if (!w) return NO_MEMORY;
  w->kind = COPY_OUT;
  w->at = from;
  w->n = n_bytes;
  w->host = (void *)(uintptr_t)to;
  return OK;
}

int cuModuleLoadDataEx(void **module, const void *image, unsigned n, int *options, void **values);
int cuModuleLoadDataEx(void **module, const void *image, unsigned n, int *options, void **values) {
  LOCK;
  FAIL_IF_ASKED("cuModuleLoadDataEx");
  (void)n, (void)options, (void)values;
  if (strncmp(image, "fake", 4) != 0) return NO_BINARY;
  *module = strdup(image);
  fake_cuda_alive++;
  return OK;
}
int cuModuleUnload(void *module);
int cuModuleUnload(void *module) {
  LOCK;
  if (is_launched()) fake_cuda_faults++;
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
  LOCK;
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
  LOCK;
  FAIL_IF_ASKED("cuFuncSetAttribute");
  if (!function || attribute != 8) return INVALID;
  opt_in = value;
  return OK;
}

int cuStreamCreate(void **out, unsigned flags);
int cuStreamCreate(void **out, unsigned flags) {
  LOCK;
  (void)flags;
  FAIL_IF_ASKED("cuStreamCreate");
  for (int i = 0; i < MAX_STREAMS; i++) {
    if (streams[i].is_open) continue;
    streams[i].is_open = true;
    streams[i].number = i + 1;
    streams[i].context = current();
    fake_cuda_alive++;
    *out = &streams[i];
    return OK;
  }
  return NO_MEMORY;
}
int cuStreamDestroy_v2(void *of);
int cuStreamDestroy_v2(void *of) {
  LOCK;
  stream *s = stream_of(of);
  fake_cuda_alive--;
  if (!s || !s->is_open) return INVALID;
  finish(s);
  free(s->list);
  *s = (stream){0};
  return GIVEN_BACK("cuStreamDestroy_v2");
}
int cuStreamSynchronize(void *of);
int cuStreamSynchronize(void *of) {
  LOCK;
  stream *s = stream_of(of);
  bool fails = is_to_fail("cuStreamSynchronize"); /* with the error of what it waited for */
  if (s && !capturing) {
    note(s, "sync", "", 0);
    finish(s);
  }
  if (fails) return NO_MEMORY;
  return s && !capturing ? OK : IN_CAPTURE;
}

static int execute(stream *s, const launch *l) {
  if (s == capturing_on) {
    note(s, "record", l->kernel, 0);
    return OK;
  }
  work *w = put(s);
  if (!w) return NO_MEMORY;
  fake_cuda_launches++;
  if (!fake_cuda_quiet && l->cluster > 1) note(s, "clusters of", "", l->cluster);
  if (!fake_cuda_quiet) note(s, "launch", l->kernel, 0);
  w->kind = LAUNCH;
  w->launch = *l;
  return OK;
}

static int enqueue(const struct function *f, launch *l, stream *on, void **parameters,
                   void **extra) {
  if (!f || !on || extra || !l->blocks || l->threads > 1024) return INVALID;
  if (l->shared > 49152 && (int)l->shared > opt_in) return INVALID;
  snprintf(l->kernel, sizeof l->kernel, "%s", f->name);
  if (f->n_parameters > MAX_PARAMETERS) return INVALID;
  for (int i = 0; i < f->n_parameters; i++) { /* read now, as the driver does */
    memcpy(&l->values[i], parameters[i], sizeof l->values[i]);
    if (!is_device(l->values[i], 4)) return INVALID;
  }
  if (!capturing)
    return execute(on, l);
  else if (capturing->n < MAX_LAUNCHES)
    capturing->list[capturing->n++] = *l;
  else
    return NO_MEMORY;
  return OK;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *on, void **parameters, void **extra);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *given, void **parameters, void **extra) {
  LOCK;
  stream *on = stream_of(given);
  launch l = {.blocks = gx, .threads = bx, .shared = shared};
  FAIL_IF_ASKED("cuLaunchKernel");
  if (gy != 1 || gz != 1 || by != 1 || bz != 1) return INVALID;
  return enqueue(function, &l, on, parameters, extra);
}

/* CUlaunchAttribute, CUlaunchConfig */
typedef struct attribute {
  int id, unused;
  unsigned cluster[3], rest[13];
} attribute;
typedef struct config {
  unsigned grid[3], block[3], shared;
  void *stream;
  const attribute *attributes;
  unsigned n;
} config;

/* Blocks of a cluster; 0: it is none that a device takes. */
static unsigned cluster_of(const config *c) {
  if (c->n != 1 || c->attributes->id != 4) return 0;
  const unsigned *n = c->attributes->cluster;
  return n[1] != 1 || n[2] != 1 || n[0] > 8 || !n[0] || c->grid[0] % n[0] ? 0 : n[0];
}

int cuLaunchKernelEx(const void *how, void *function, void **parameters, void **extra);
int cuLaunchKernelEx(const void *how, void *function, void **parameters, void **extra) {
  LOCK;
  const config *c = how;
  launch l = {
      .blocks = c->grid[0], .threads = c->block[0], .shared = c->shared, .cluster = cluster_of(c)};
  FAIL_IF_ASKED("cuLaunchKernelEx");
  if (!l.cluster || c->grid[1] != 1 || c->grid[2] != 1 || c->block[1] != 1 || c->block[2] != 1)
    return INVALID;
  return enqueue(function, &l, stream_of(c->stream), parameters, extra);
}

int cuOccupancyMaxActiveClusters(int *clusters, void *function, const void *how);
int cuOccupancyMaxActiveClusters(int *clusters, void *function, const void *how) {
  LOCK;
  const config *c = how;
  FAIL_IF_ASKED("cuOccupancyMaxActiveClusters");
  if (!function || !cluster_of(c) || (c->shared > 49152 && (int)c->shared > opt_in)) return INVALID;
  *clusters = fake_cuda_fail && strcmp(fake_cuda_fail, "cut into parts") == 0 ? 0 : 66;
  return OK;
}

/* A map begins with the tensor's address, which launches read as they read pointers. */
int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *size,
                           const uint64_t *stride, const uint32_t *box, const uint32_t *steps,
                           int interleave, int swizzle, int promotion, int fill);
int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *size,
                           const uint64_t *stride, const uint32_t *box, const uint32_t *steps,
                           int interleave, int swizzle, int promotion, int fill) {
  LOCK;
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
int cuEventCreate(void **out, unsigned flags);
int cuEventCreate(void **out, unsigned flags) {
  LOCK;
  FAIL_IF_ASKED("cuEventCreate");
  if (flags != 0 && flags != 2) return INVALID; /* default; without a time */
  *out = calloc(1, sizeof(event));
  if (!*out) return NO_MEMORY;
  fake_cuda_alive++;
  return OK;
}
int cuEventDestroy_v2(void *e);
int cuEventDestroy_v2(void *e) {
  LOCK;
  finish_all(); /* they may point to it */
  fake_cuda_alive--;
  free(e);
  return GIVEN_BACK("cuEventDestroy_v2");
}
int cuEventRecord(void *of, void *on);
int cuEventRecord(void *of, void *given) {
  LOCK;
  stream *on = stream_of(given);
  event *e = of;
  FAIL_IF_ASKED("cuEventRecord");
  if (!e || !on || capturing) return INVALID;
  e->clock = fake_cuda_launches;
  note(on, "event", "", 0);
  work *w = put(on);
  if (!w) return NO_MEMORY;
  w->kind = RECORD;
  w->event = e;
  w->number = ++e->recorded;
  return OK;
}
int cuStreamWaitEvent(void *on, void *of, unsigned flags);
int cuStreamWaitEvent(void *given, void *of, unsigned flags) {
  LOCK;
  stream *on = stream_of(given);
  event *e = of;
  FAIL_IF_ASKED("cuStreamWaitEvent");
  if (!e || !on || capturing || flags) return INVALID;
  note(on, "after", "", 0);
  work *w = put(on);
  if (!w) return NO_MEMORY;
  w->kind = WAIT;
  w->event = e;
  w->number = e->recorded;
  return OK;
}
/* Whoever holds the event comes as far as that, and others as far as it needs them. */
int cuEventSynchronize(void *of);
int cuEventSynchronize(void *of) {
  LOCK;
  event *e = of;
  bool fails = is_to_fail("cuEventSynchronize");
  if (!e || capturing) return INVALID;
  note(NULL, "await", "", 0);
  while (e->done < e->recorded)
    if (!advance_another(NULL)) {
      fake_cuda_faults++;
      return INVALID;
    }
  return fails ? NO_MEMORY : OK;
}
int cuEventElapsedTime(float *milliseconds, void *begin, void *end);
int cuEventElapsedTime(float *milliseconds, void *begin, void *end) {
  LOCK;
  const event *from = begin, *to = end;
  FAIL_IF_ASKED("cuEventElapsedTime");
  if (from->done < from->recorded || to->done < to->recorded) return NOT_READY;
  *milliseconds = (float)(to->clock - from->clock);
  return OK;
}

int cuStreamBeginCapture_v2(void *on, int mode);
int cuStreamBeginCapture_v2(void *given, int mode) {
  LOCK;
  stream *on = stream_of(given);
  FAIL_IF_ASKED("cuStreamBeginCapture_v2");
  if (!on || on == &streams[MAX_STREAMS] || mode != 1 || capturing) return INVALID;
  capturing = calloc(1, sizeof *capturing);
  return capturing ? OK : NO_MEMORY;
}
int cuStreamEndCapture(void *on, void **out);
int cuStreamEndCapture(void *given, void **out) {
  LOCK;
  stream *on = stream_of(given);
  if (!on || !capturing) return INVALID;
  graph *g = capturing;
  capturing = NULL;
  *out = NULL;
  if (is_to_fail("cuStreamEndCapture")) {
    free(g);
    return NO_MEMORY;
  }
  *out = g;
  fake_cuda_alive++;
  return OK;
}
int cuGraphInstantiateWithFlags(void **executable, void *from, unsigned long long flags);
int cuGraphInstantiateWithFlags(void **executable, void *from, unsigned long long flags) {
  LOCK;
  FAIL_IF_ASKED("cuGraphInstantiateWithFlags");
  if (!from || flags) return INVALID;
  graph *copy = malloc(sizeof *copy);
  if (!copy) return NO_MEMORY;
  fake_cuda_alive++;
  *executable = memcpy(copy, from, sizeof *copy);
  return OK;
}
int cuGraphLaunch(void *executable, void *on);
int cuGraphLaunch(void *executable, void *given) {
  LOCK;
  stream *on = stream_of(given);
  const graph *g = executable;
  FAIL_IF_ASKED("cuGraphLaunch");
  if (on && on == capturing_on) return IN_CAPTURE;
  if (!g || !on) return INVALID;
  note(on, "graph", "", 0);
  fake_cuda_graph_launches++;
  int status = OK;
  for (int i = 0; i < g->n && status == OK; i++) status = execute(on, &g->list[i]);
  return status;
}
int cuGraphExecDestroy(void *executable);
int cuGraphExecDestroy(void *executable) {
  LOCK;
  fake_cuda_alive--; /* one that still runs is freed when it is done */
  free(executable);
  return !executable ? INVALID : GIVEN_BACK("cuGraphExecDestroy");
}
int cuGraphDestroy(void *from);
int cuGraphDestroy(void *from) {
  LOCK;
  fake_cuda_alive--;
  free(from);
  return !from ? INVALID : GIVEN_BACK("cuGraphDestroy");
}
