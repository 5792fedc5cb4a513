/* Devices that train together: see group.h. */
#include "runtime/cuda/group.h"
#include "runtime/base/library.h"
#include "runtime/cuda/device.h"

#include <pthread.h>
#include <time.h>

static const char *const names[] = {"libnccl.so.2", "libnccl.so", NULL};
static const vtb_symbol symbols[] = {
#define VTB_NCCL(type, name, parameters) {#name, offsetof(vtb_nccl_api, name)},
#include "runtime/cuda/functions.def"
#undef VTB_NCCL
};
static const vtb_library nccl = {
    .what = "NCCL",
    .environment = "VTB_NCCL",
    .remedy = "pip install nvidia-nccl-cu13, or nvidia-nccl-cu12 for CUDA 12",
    .names = names,
    .symbols = symbols,
    .n_symbols = sizeof symbols / sizeof *symbols};

struct vtb_cuda_group {
  vtb_nccl_api api;
  vtb_cuda_device *device;
  pthread_mutex_t lock; /* of the communicator, around calls that put work on the stream */
  void *communicator;   /* NULL: it was given up */
  void *stream, *ready, *done;
};

/* VTB_NCCL_CALL(&api, ncclGetUniqueId, (&id), err) */
#define VTB_NCCL_CALL(api, function, arguments, err)                                               \
  check_nccl((api), (api)->function arguments, #function #arguments, __FILE__, __LINE__, (err))
static vtb_status check_nccl(const vtb_nccl_api *api, int result, const char *call,
                             const char *file, int line, vtb_error *err) {
  if (result == VTB__NCCL_SUCCESS) return VTB_OK;
  const char *text = api->ncclGetErrorString(result);
  return vtb_fail(err, VTB_E_DEVICE, "NCCL: %s (%d) in %s at %s:%d", text ? text : "unknown error",
                  result, call, file, line);
}

vtb_status vtb_cuda_group_make_id(vtb_cuda_group_id *id, vtb_error *err) {
  vtb_nccl_api api;
  vtb_status status = vtb_library_open(&nccl, &api, NULL, err);
  return status == VTB_OK ? VTB_NCCL_CALL(&api, ncclGetUniqueId, (id), err) : status;
}

/* In the context. */
static vtb_status make_stream(vtb_cuda_group *g, vtb_error *err) {
  vtb_cuda_device *d = g->device;
  vtb_status status =
      VTB_CU_CALL(d, cuStreamCreate, (&g->stream, VTB__CU_STREAM_NON_BLOCKING), err);
  if (status == VTB_OK)
    status = VTB_CU_CALL(d, cuEventCreate, (&g->ready, VTB__CU_EVENT_NO_TIME), err);
  return status == VTB_OK ? VTB_CU_CALL(d, cuEventCreate, (&g->done, VTB__CU_EVENT_NO_TIME), err)
                          : status;
}

static void free_stream(vtb_cuda_group *g) {
  const vtb_cu_api *api = &g->device->api;
  if (g->done) (void)api->cuEventDestroy_v2(g->done);
  if (g->ready) (void)api->cuEventDestroy_v2(g->ready);
  if (g->stream) (void)api->cuStreamDestroy_v2(g->stream);
}

vtb_status vtb_cuda_group_join(const vtb_cuda_group_id *id, int n_ranks, int rank,
                               vtb_cuda_device *d, vtb_cuda_group **out, vtb_error *err) {
  if (rank < 0 || rank >= n_ranks)
    return vtb_fail(err, VTB_E_INPUT, "there is no rank %d among %d devices", rank, n_ranks);
  vtb_cuda_group *g = calloc(1, sizeof *g);
  if (!g) return vtb_no_memory(err, "a group of devices");
  g->device = d;
  pthread_mutex_init(&g->lock, NULL);
  vtb_status status = vtb_library_open(&nccl, &g->api, NULL, err);
  bool inside = status == VTB_OK && (status = vtb__cu_enter(d, err)) == VTB_OK;
  if (inside) status = make_stream(g, err);
  if (status == VTB_OK)
    status = VTB_NCCL_CALL(&g->api, ncclCommInitRank, (&g->communicator, n_ranks, *id, rank), err);
  if (status != VTB_OK && inside) free_stream(g);
  if (inside) vtb__cu_leave(d);
  if (status != VTB_OK) {
    pthread_mutex_destroy(&g->lock);
    free(g);
    return status;
  }
  *out = g;
  return VTB_OK;
}

void vtb_cuda_group_leave(vtb_cuda_group *g) {
  vtb_error none = {0};
  if (!g) return;
  bool inside = vtb__cu_enter(g->device, &none) == VTB_OK;
  /* errors here would be those of sums that have been reported before */
  if (inside && g->communicator) (void)g->device->api.cuStreamSynchronize(g->stream);
  if (g->communicator) (void)g->api.ncclCommDestroy(g->communicator);
  if (inside) {
    free_stream(g);
    vtb__cu_leave(g->device);
  }
  pthread_mutex_destroy(&g->lock);
  free(g);
}

static vtb_status sum(vtb_cuda_group *g, uint64_t address, size_t n, vtb_error *err) {
  if (!g->communicator)
    return vtb_fail(err, VTB_E_DEVICE, "NCCL: sums were given up, since another rank has failed");
  return VTB_NCCL_CALL(
      &g->api, ncclAllReduce,
      (address, address, n, VTB__NCCL_FLOAT32, VTB__NCCL_SUM, g->communicator, g->stream), err);
}

vtb_status vtb_cuda_group_sum_begin(vtb_cuda_group *g, void *stream, uint64_t address, size_t n,
                                    vtb_error *err) {
  vtb_cuda_device *d = g->device;
  VTB_TRY(VTB_CU_CALL(d, cuEventRecord, (g->ready, stream), err));
  VTB_TRY(VTB_CU_CALL(d, cuStreamWaitEvent, (g->stream, g->ready, 0), err));
  pthread_mutex_lock(&g->lock);
  vtb_status status = sum(g, address, n, err);
  pthread_mutex_unlock(&g->lock);
  return status;
}

vtb_status vtb_cuda_group_sum_wait(vtb_cuda_group *g, void *stream, vtb_error *err) {
  vtb_cuda_device *d = g->device;
  vtb_status status = VTB_CU_CALL(d, cuEventRecord, (g->done, g->stream), err);
  return status == VTB_OK ? VTB_CU_CALL(d, cuStreamWaitEvent, (stream, g->done, 0), err) : status;
}

vtb_status vtb_cuda_group_check(vtb_cuda_group *g, vtb_error *err) {
  int result = VTB__NCCL_SUCCESS;
  vtb_status status = VTB_OK;
  if (pthread_mutex_trylock(&g->lock) != 0) return VTB_OK; /* next time */
  if (g->communicator) {
    status = VTB_NCCL_CALL(&g->api, ncclCommGetAsyncError, (g->communicator, &result), err);
    if (status == VTB_OK && result != VTB__NCCL_IN_PROGRESS)
      status = check_nccl(&g->api, result, "a sum over the devices", __FILE__, __LINE__, err);
  }
  pthread_mutex_unlock(&g->lock);
  return status;
}

/* A call that itself waits for a rank that is gone holds the lock: after a second it is given up
 * from here, which NCCL allows. */
void vtb_cuda_group_abort(vtb_cuda_group *g) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec++;
  bool locked = pthread_mutex_clocklock(&g->lock, CLOCK_MONOTONIC, &until) == 0;
  void *communicator = g->communicator;
  g->communicator = NULL;
  if (communicator) (void)g->api.ncclCommAbort(communicator);
  if (locked) pthread_mutex_unlock(&g->lock);
}

bool vtb_cuda_probe_nccl(vtb_strbuf *out) {
  vtb_nccl_api api;
  vtb_error err = {0};
  char *path = NULL;
  int v = 0;
  bool ok = vtb_library_open(&nccl, &api, &path, &err) == VTB_OK &&
            VTB_NCCL_CALL(&api, ncclGetVersion, (&v), &err) == VTB_OK;
  int major = v < 10000 ? v / 1000 : v / 10000,
      minor = v < 10000 ? v % 1000 / 100 : v % 10000 / 100; /* since 2.9 */
  if (ok)
    vtb_strbuf_printf(out, "NCCL %d.%d.%d (%s)", major, minor, v % 100, path);
  else
    vtb_strbuf_puts(out, err.text);
  free(path);
  return ok;
}
