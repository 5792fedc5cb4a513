/* Compiled models on an NVIDIA GPU: the driver and cublasLt opened at run time, a device, and
 * launch plans run on it.
 *
 * Errors are VTB_E_DEVICE and name the call, its error and its place; nothing falls back to the
 * CPU.
 * Ownership: a program owns its plan, its images and its device until vtb_program_free(). Threads:
 * one at a time per program. Environment: VTB_CUDA_DRIVER and VTB_CUBLASLT name library files.
 */
#ifndef VTB_RUNTIME_CUDA_H
#define VTB_RUNTIME_CUDA_H

#include "runtime/launch/launch_plan.h"
#include "runtime/vertebra.h"

typedef struct vtb_cuda_device vtb_cuda_device;

/* Opens the driver and the device that `how` says, else the first, or of several processes that a
 * launcher started on this machine the next one each. how: copied; NULL: it says nothing. */
VTB_MUST_USE vtb_status vtb_cuda_device_open(const vtb_behaviour *how, vtb_cuda_device **out,
                                             vtb_error *err);
void vtb_cuda_device_close(vtb_cuda_device *d); /* NULL is fine */
/* The architecture to compile for: "sm_90a"; "compute_90" (PTX) on devices that have no cubin of
 * their own. */
const char *vtb_cuda_device_arch(const vtb_cuda_device *d);
/* "NVIDIA H200, compute capability 9.0, 141 GB, driver 13.0" */
void vtb_cuda_device_describe(const vtb_cuda_device *d, vtb_strbuf *out);

/* One compiled source of a plan: a cubin, or PTX with its terminating zero. */
typedef struct vtb_cuda_image {
  const void *data;
  size_t n_bytes;
} vtb_cuda_image;

/* images: one a source of the plan, copied. Takes plan and device on success. */
VTB_MUST_USE vtb_status vtb_cuda_program(vtb_launch_plan *plan, const vtb_cuda_image *images,
                                         vtb_cuda_device *device, vtb_program **program,
                                         vtb_error *err);

/* For `vertebra doctor`: what is there and in which version, or what is missing. True if it can be
 * used. */
bool vtb_cuda_probe_driver(const vtb_behaviour *how, vtb_strbuf *out);
bool vtb_cuda_probe_cublaslt(vtb_strbuf *out);

#endif
