/* Several devices that add up their gradients, one process (or thread) each, through NCCL, opened
 * at run time.
 *
 * One rank makes an id and hands its bytes to the others; then all join at the same time. Sums go
 * on a stream of the group's own, beside what the device computes: an event on either side says
 * when they may begin, and what waits for them. Errors are VTB_E_DEVICE and name the call, its
 * error and its place. Ownership: a group borrows its device. Threads: one, but check and abort,
 * which another may call. Environment: VTB_NCCL names the library's file.
 */
#ifndef VTB_RUNTIME_CUDA_GROUP_H
#define VTB_RUNTIME_CUDA_GROUP_H

#include "runtime/cuda/cuda.h"

typedef struct vtb_cuda_group vtb_cuda_group;
typedef struct vtb_cuda_group_id {
  char bytes[128];
} vtb_cuda_group_id;

VTB_MUST_USE vtb_status vtb_cuda_group_make_id(vtb_cuda_group_id *id, vtb_error *err);
/* Waits for all `n_ranks`; ranks from 0. */
VTB_MUST_USE vtb_status vtb_cuda_group_join(const vtb_cuda_group_id *id, int n_ranks, int rank,
                                            vtb_cuda_device *d, vtb_cuda_group **out,
                                            vtb_error *err);
/* Waits for its sums, unless they were given up. NULL is fine. */
void vtb_cuda_group_leave(vtb_cuda_group *g);
/* n floats at an address of the device become their sums over all ranks: not before what is on the
 * `stream` now is done. Every rank calls it with the same n, in the same order. In the context. */
VTB_MUST_USE vtb_status vtb_cuda_group_sum_begin(vtb_cuda_group *g, void *stream, uint64_t address,
                                                 size_t n, vtb_error *err);
/* Work put on the stream from now on comes behind all sums that were begun. */
VTB_MUST_USE vtb_status vtb_cuda_group_sum_wait(vtb_cuda_group *g, void *stream, vtb_error *err);
/* Errors that came up while the device was at it. */
VTB_MUST_USE vtb_status vtb_cuda_group_check(vtb_cuda_group *g, vtb_error *err);
/* Gives up: sums that wait for a rank that is gone end, with any numbers, and later ones are
 * errors. */
void vtb_cuda_group_abort(vtb_cuda_group *g);
/* The device that a program of vtb_cuda_program() runs on; NULL: it is another's. */
vtb_cuda_device *vtb_cuda_device_of(const vtb_program *p);

/* For `vertebra doctor`: "NCCL 2.27.3 (libnccl.so.2)", or what is missing. */
bool vtb_cuda_probe_nccl(vtb_strbuf *out);

#endif
