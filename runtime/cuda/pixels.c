/* Images that come as bytes become floats on the device, by the kernel that a training step's plan
 * has for it (codegen/cuda/plan/pixels.c). */
#include "runtime/cuda/run.h"
#include "runtime/launch/pixels.h"

#include <string.h>

static bool makes_pixels(const vtb_launch_kernel *k) {
  return vtb_starts_with(k->name, VTB_PIXELS_KERNEL "_") && k->n_args == 4 && k->info.what;
}

static int kernel_of(const vtb_launch_plan *p) {
  for (int k = 0; k < p->n_kernels; k++)
    if (makes_pixels(&p->kernels[k])) return k;
  return -1;
}

int vtb__pixels_tensor(const vtb_launch_plan *p) {
  int k = kernel_of(p);
  if (k < 0) return -1;
  for (int i = 0; i < p->n_tensors; i++)
    if (p->tensors[i].io == VTB_IO_INPUT && p->tensors[i].rank == 4 &&
        vtb_streq(p->tensors[i].name, p->kernels[k].info.what))
      return i;
  return -1;
}

vtb_pixels vtb__pixels_of(const vtb_tensor_info *t) {
  return vtb_pixels_layout(t->dim[0], t->dim[1], t->dim[1] * t->dim[2] * t->dim[3]);
}

vtb_status vtb__pixels_run(const vtb__run *r, vtb_cu_address from, void *stream, vtb_error *err) {
  int k = kernel_of(r->plan), tensor = r->program.pixels - 1;
  const vtb_tensor_info *t = &r->plan->tensors[tensor];
  const vtb_launch_kernel *kernel = &r->plan->kernels[k];
  vtb_pixels at = vtb__pixels_of(t);
  vtb_cu_address args[4] = {from + at.bytes, from + at.erased, from + at.values,
                            r->set->tensors[tensor]};
  void *parameters[4] = {&args[0], &args[1], &args[2], &args[3]};
  vtb_error inner = {0};
  vtb_status status = VTB_CU_CALL(
      r->device, cuLaunchKernel,
      (r->functions[k], (unsigned)vtb_pixels_blocks(vtb_tensor_info_count(t)), 1, 1,
       (unsigned)kernel->threads, 1, 1, (unsigned)kernel->shared_bytes, stream, parameters, NULL),
      &inner);
  if (status == VTB_OK) return VTB_OK;
  return vtb_fail(err, status, "%s, which makes the input \"%s\" of bytes: %s", kernel->name,
                  t->name, inner.text);
}
