/* Devices that train together: see group.h. */
#include "runtime/cuda/group.h"
#include "runtime/base/library.h"
#include "runtime/cuda/device.h"

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
  void *communicator;
};

/* VTB_NCCL_CALL(&api, ncclGetUniqueId, (&id), err) */
#define VTB_NCCL_CALL(api, function, arguments, err)                                               \
  check((api), (api)->function arguments, #function #arguments, __FILE__, __LINE__, (err))
static vtb_status check(const vtb_nccl_api *api, int result, const char *call, const char *file,
                        int line, vtb_error *err) {
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

vtb_status vtb_cuda_group_join(const vtb_cuda_group_id *id, int n_ranks, int rank,
                               vtb_cuda_device *d, vtb_cuda_group **out, vtb_error *err) {
  if (rank < 0 || rank >= n_ranks)
    return vtb_fail(err, VTB_E_INPUT, "there is no rank %d among %d devices", rank, n_ranks);
  vtb_cuda_group *g = calloc(1, sizeof *g);
  if (!g) return vtb_no_memory(err, "a group of devices");
  g->device = d;
  vtb_status status = vtb_library_open(&nccl, &g->api, NULL, err);
  if (status == VTB_OK) status = VTB_CU_CALL(d, cuCtxSetCurrent, (d->context), err);
  if (status == VTB_OK)
    status = VTB_NCCL_CALL(&g->api, ncclCommInitRank, (&g->communicator, n_ranks, *id, rank), err);
  if (status != VTB_OK) {
    free(g);
    return status;
  }
  *out = g;
  return VTB_OK;
}

void vtb_cuda_group_leave(vtb_cuda_group *g) {
  if (!g) return;
  /* errors here would be those of sums that have been reported before */
  if (g->communicator) (void)g->api.ncclCommDestroy(g->communicator);
  free(g);
}

vtb_status vtb_cuda_group_sum(vtb_cuda_group *g, uint64_t address, size_t n, vtb_error *err) {
  return VTB_NCCL_CALL(
      &g->api, ncclAllReduce,
      (address, address, n, VTB__NCCL_FLOAT32, VTB__NCCL_SUM, g->communicator, g->device->stream),
      err);
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
