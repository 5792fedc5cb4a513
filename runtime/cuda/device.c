/* The driver, its errors, and a device. */
#include "runtime/cuda/device.h"

#include "runtime/base/library.h"

#include <string.h>

static const char *const driver_names[] = {"libcuda.so.1", "libcuda.so", NULL};
static const vtb_symbol driver_symbols[] = {
#define VTB_CU(name, parameters) {#name, offsetof(vtb_cu_api, name)},
#include "runtime/cuda/functions.def"
#undef VTB_CU
};
static const vtb_library driver = {.what = "CUDA driver",
                                   .environment = "VTB_CUDA_DRIVER",
                                   .remedy = "install NVIDIA's driver",
                                   .names = driver_names,
                                   .symbols = driver_symbols,
                                   .n_symbols = sizeof driver_symbols / sizeof *driver_symbols};

vtb_status vtb__cu_check(const vtb_cuda_device *d, vtb_cu_result result, const char *call,
                         const char *file, int line, vtb_error *err) {
  const char *name = NULL, *text = NULL;
  if (result == 0) return VTB_OK;
  if (d->api.cuGetErrorName(result, &name) != 0 || !name) name = "unknown error";
  if (d->api.cuGetErrorString(result, &text) != 0 || !text) text = "no description";
  return vtb_fail(err, VTB_E_DEVICE, "%s (%d: %s) in %s at %s:%d", name, result, text, call, file,
                  line);
}

/* A cubin of sm_80 runs on every 8.x; those with the features of "a" run on exactly their own. The
 * rest gets PTX. */
static void choose_arch(vtb_cuda_device *d) {
  const char *arch = d->major == 8                     ? "sm_80"
                     : d->major == 9 && d->minor == 0  ? "sm_90a"
                     : d->major == 10 && d->minor == 0 ? "sm_100a"
                                                       : "compute_90";
  snprintf(d->arch, sizeof d->arch, "%s", arch);
}

static vtb_status initialise(vtb_cuda_device *d, vtb_error *err) {
  vtb_status status = VTB_CU_CALL(d, cuInit, (0), err);
  if (status == VTB_OK) status = VTB_CU_CALL(d, cuDriverGetVersion, (&d->driver), err);
  if (status == VTB_OK && d->driver < 12000)
    return vtb_fail(err, VTB_E_DEVICE,
                    "the CUDA driver is of version %d.%d; 12.0 or newer is needed",
                    d->driver / 1000, d->driver % 1000 / 10);
  return status;
}

/* The number that a launcher gives to the processes of one machine; -1: none. */
static long rank_here(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *text = getenv(names[i]);
    char *end = NULL;
    long n = text && *text ? strtol(text, &end, 10) : -1;
    if (n >= 0 && end && !*end) return n;
  }
  return -1;
}

static vtb_status find_number(vtb_cuda_device *d, const vtb_device_choice *where, vtb_error *err) {
  int count = 0;
  long ordinal = where->has_number ? where->number : d->how.cuda_device;
  VTB_TRY(VTB_CU_CALL(d, cuDeviceGetCount, (&count), err));
  if (count == 0)
    return vtb_fail(err, VTB_E_DEVICE,
                    "the CUDA driver finds no device (see CUDA_VISIBLE_DEVICES)");
  bool named = where->has_number || d->how.has_cuda_device;
  if (!named && rank_here() > 0) ordinal = rank_here() % count;
  if (ordinal < 0 || ordinal >= count)
    return vtb_fail(err, VTB_E_DEVICE, "there is no CUDA device %ld: the driver finds %d", ordinal,
                    count);
  return VTB_CU_CALL(d, cuDeviceGet, (&d->number, (int)ordinal), err);
}

/* The context that the caller's stream is of. Default streams are of whatever context is current:
 * of a device that is named, they are of its primary one. NULL: to be found otherwise. */
static vtb_status context_of_stream(vtb_cuda_device *d, const vtb_device_choice *where,
                                    vtb_error *err) {
  if ((uintptr_t)where->stream > VTB__CU_STREAM_PER_THREAD)
    return VTB_CU_CALL(d, cuStreamGetCtx, (where->stream, &d->context), err);
  return where->has_number ? VTB_OK : VTB_CU_CALL(d, cuCtxGetCurrent, (&d->context), err);
}

static vtb_status find_context(vtb_cuda_device *d, const vtb_device_choice *where, vtb_error *err) {
  vtb_status status = where->has_stream ? context_of_stream(d, where, err) : VTB_OK;
  if (status == VTB_OK && d->context) {
    VTB_TRY(vtb__cu_enter(d, err));
    status = VTB_CU_CALL(d, cuCtxGetDevice, (&d->number), err);
    vtb__cu_leave(d);
    if (status != VTB_OK || !where->has_number || where->number == d->number) return status;
    return vtb_fail(err, VTB_E_USAGE, "the stream is of device %d, and device %d is asked for",
                    d->number, where->number);
  }
  if (status == VTB_OK) status = find_number(d, where, err);
  if (status == VTB_OK)
    status = VTB_CU_CALL(d, cuDevicePrimaryCtxRetain, (&d->context, d->number), err);
  d->retained = status == VTB_OK;
  return status;
}

static vtb_status look_at_device(vtb_cuda_device *d, vtb_error *err) {
  vtb_status status =
      VTB_CU_CALL(d, cuDeviceGetName, (d->name, (int)sizeof d->name, d->number), err);
  if (status == VTB_OK)
    status =
        VTB_CU_CALL(d, cuDeviceGetAttribute, (&d->major, VTB__CU_CAPABILITY_MAJOR, d->number), err);
  if (status == VTB_OK)
    status =
        VTB_CU_CALL(d, cuDeviceGetAttribute, (&d->minor, VTB__CU_CAPABILITY_MINOR, d->number), err);
  if (status == VTB_OK)
    status = VTB_CU_CALL(d, cuDeviceGetAttribute,
                         (&d->shared_bytes, VTB__CU_SHARED_BYTES_OPTIN, d->number), err);
  if (status == VTB_OK && d->major < 8)
    return vtb_fail(err, VTB_E_DEVICE, "%s has compute capability %d.%d; 8.0 or newer is needed",
                    d->name, d->major, d->minor);
  return status;
}

vtb_status vtb__cu_enter(const vtb_cuda_device *d, vtb_error *err) {
  return VTB_CU_CALL(d, cuCtxPushCurrent_v2, (d->context), err);
}

void vtb__cu_leave(const vtb_cuda_device *d) {
  void *ours;
  (void)d->api.cuCtxPopCurrent_v2(&ours); /* it was pushed: nothing can be wrong with it */
}

static vtb_status use_context(vtb_cuda_device *d, vtb_error *err) {
  size_t free_bytes = 0;
  VTB_TRY(vtb__cu_enter(d, err));
  vtb_status status = VTB_CU_CALL(d, cuMemGetInfo_v2, (&free_bytes, &d->memory_bytes), err);
  if (status == VTB_OK)
    status = VTB_CU_CALL(d, cuStreamCreate, (&d->own, VTB__CU_STREAM_NON_BLOCKING), err);
  vtb__cu_leave(d);
  return status;
}

vtb_status vtb__cu_open(const vtb_device_choice *where, vtb_cuda_device **out, vtb_error *err) {
  static const vtb_device_choice any;
  if (!where) where = &any;
  vtb_cuda_device *d = calloc(1, sizeof *d);
  if (!d) return vtb_no_memory(err, "a device");
  if (where->how) d->how = *where->how;
  vtb_status status = vtb_library_open(&driver, &d->api, NULL, err);
  if (status == VTB_OK) status = initialise(d, err);
  if (status == VTB_OK) status = find_context(d, where, err);
  if (status == VTB_OK) status = look_at_device(d, err);
  if (status == VTB_OK) status = use_context(d, err);
  if (status != VTB_OK) {
    vtb_cuda_device_close(d);
    return status;
  }
  d->stream = where->has_stream ? where->stream : d->own;
  choose_arch(d);
  *out = d;
  return VTB_OK;
}

vtb_status vtb_cuda_device_open(const vtb_behaviour *how, vtb_cuda_device **out, vtb_error *err) {
  return vtb__cu_open(&(vtb_device_choice){.how = how}, out, err);
}

void vtb_cuda_device_close(vtb_cuda_device *d) {
  if (!d) return;
  /* errors here would be those of work that has been reported before */
  if (d->own) (void)d->api.cuStreamDestroy_v2(d->own);
  if (d->retained) (void)d->api.cuDevicePrimaryCtxRelease_v2(d->number);
  free(d);
}

const char *vtb_cuda_device_arch(const vtb_cuda_device *d) { return d->arch; }

void vtb_cuda_device_describe(const vtb_cuda_device *d, vtb_strbuf *out) {
  vtb_strbuf_printf(out, "%s, compute capability %d.%d, %.0f GB, driver %d.%d", d->name, d->major,
                    d->minor, (double)d->memory_bytes / 1e9, d->driver / 1000,
                    d->driver % 1000 / 10);
}

bool vtb_cuda_probe_driver(const vtb_behaviour *how, vtb_strbuf *out) {
  vtb_cuda_device *d = NULL;
  vtb_error err = {0};
  bool ok = vtb_cuda_device_open(how, &d, &err) == VTB_OK;
  if (ok)
    vtb_cuda_device_describe(d, out);
  else
    vtb_strbuf_puts(out, err.text);
  vtb_cuda_device_close(d);
  return ok;
}
