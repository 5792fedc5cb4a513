/* Several devices that add up their gradients, one process (or thread) each, through NCCL, opened
 * at run time.
 *
 * One rank makes an id and hands its bytes to the others; then all join at the same time. Errors
 * are VTB_E_DEVICE and name the call, its error and its place. Ownership: a group borrows its
 * device, whose context is current in the calling thread. Environment: VTB_NCCL names the library's
 * file.
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
void vtb_cuda_group_leave(vtb_cuda_group *g); /* NULL is fine */
/* n floats at an address of the device become their sums over all ranks, in the order of the
 * device's stream; every rank calls it with the same n. */
VTB_MUST_USE vtb_status vtb_cuda_group_sum(vtb_cuda_group *g, uint64_t address, size_t n,
                                           vtb_error *err);

/* For `vertebra doctor`: "NCCL 2.27.3 (libnccl.so.2)", or what is missing. */
bool vtb_cuda_probe_nccl(vtb_strbuf *out);

#endif
