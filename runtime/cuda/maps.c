/* Tensor maps of a plan as the driver wants them. */
#include "runtime/cuda/device.h"

static int swizzle_of(const vtb_launch_map *m) {
  return m->swizzle == 128  ? VTB__CU_MAP_TURNS_128
         : m->swizzle == 64 ? VTB__CU_MAP_TURNS_64
         : m->swizzle == 32 ? VTB__CU_MAP_TURNS_32
                            : 0;
}

vtb_status vtb__cu_encode_map(vtb_cuda_device *d, const vtb_launch_map *m, vtb_cu_address address,
                              vtb__cu_map *out, vtb_error *err) {
  uint64_t size[VTB_LAUNCH_MAP_RANK], stride[VTB_LAUNCH_MAP_RANK];
  uint32_t box[VTB_LAUNCH_MAP_RANK], one[VTB_LAUNCH_MAP_RANK];
  for (int i = 0; i < m->rank; i++) {
    size[i] = (uint64_t)m->size[i];
    box[i] = (uint32_t)m->box[i];
    one[i] = 1;
    if (i) stride[i - 1] = (uint64_t)m->stride[i]; /* the innermost has none */
  }
  return VTB_CU_CALL(d, cuTensorMapEncodeTiled,
                     (out->bytes, m->element_bytes == 2 ? VTB__CU_MAP_16_BITS : VTB__CU_MAP_F32,
                      (uint32_t)m->rank, (void *)(uintptr_t)address, size, stride, box, one, 0,
                      swizzle_of(m), VTB__CU_MAP_FETCH_128, 0),
                     err);
}
