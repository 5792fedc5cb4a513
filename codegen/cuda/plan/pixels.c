/* The kernel that makes a program's image of bytes: it is no step of the plan, since whoever
 * runs that may bring floats as well; the runtime launches it before a run (runtime/cuda/pixels.c),
 * and finds it by its name and the input's. */
#include "codegen/cuda/plan/program.h"
#include "runtime/launch/pixels.h"

static const vtb_tensor_info *find_image(const vtb_launch_plan *p) {
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *t = &p->tensors[i];
    bool colours = t->rank == 4 && (t->dim[1] == 1 || t->dim[1] == 3);
    if (t->io == VTB_IO_INPUT && !t->is_int && colours && t->dim[0] == p->batch &&
        vtb_tensor_info_count(t) < INT32_MAX - VTB_PIXELS_A_BLOCK)
      return t;
  }
  return NULL;
}

static void use(vtb_cuda_kernel *k, const char *type, const char *name, int index, int access) {
  vtb_cuda_ref ref = {.place = VTB_CUDA_ARG, .index = index, .value = index};
  vtb__cuda_use_ref(k, ref, type, name, access);
}

void vtb__cuda_pixels(vtb_cuda *c, const vtb_launch_plan *p) {
  const vtb_tensor_info *t = find_image(p);
  vtb_cuda_func nowhere = {0};
  if (!t || !vtb_tensor_info_count(t)) return;
  c->func = &nowhere;
  vtb__cuda_begin_unit(c, "pixels");
  c->unit.label = vtb_arena_strdup(&c->arena, t->name);
  vtb_cuda_kernel *k =
      vtb_cuda_begin_text(c, VTB_PIXELS_KERNEL, "pixels.cu", VTB_PIXELS_A_BLOCK / 4);
  use(k, "int", "bytes", 0, VTB_LAUNCH_READ);
  use(k, "int", "erased", 1, VTB_LAUNCH_READ);
  use(k, "float", "values", 2, VTB_LAUNCH_READ);
  use(k, "float", "image", 3, VTB_LAUNCH_WRITE);
  VTB_CUDA_NUMBERS(k, {"BATCH", t->dim[0]}, {"CHANNELS", t->dim[1]}, {"HEIGHT", t->dim[2]},
                   {"WIDTH", t->dim[3]});
  vtb_cuda_launch(k, vtb_pixels_blocks(vtb_tensor_info_count(t)));
  vtb__cuda_end_unit(c);
  c->func = NULL;
  vtb_vec_free(&nowhere.steps);
}
