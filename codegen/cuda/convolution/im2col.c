/* im2col and col2im: patches [B, oh*ow, C*kh*kw] of an image [B, C, H, W], zeros outside it, and
 * the adjoint. A thread makes one element of the result: it gathers, so that the adjoint's sums
 * have an order. */
#include "codegen/cuda/emitters.h"

#define THREADS 256

static void emit(vtb_cuda *c, const vtb_inst *inst, bool gather) {
  int n;
  const vtb_type *image = gather ? &inst->operands[0]->type : &inst->results[0]->type;
  const vtb_type *result = &inst->results[0]->type;
  const int64_t *kernel = vtb_attr_ints(inst, "kernel", &n),
                *stride = vtb_attr_ints(inst, "stride", &n);
  const int64_t *pad = vtb_attr_ints(inst, "pad", &n);
  int64_t H = image->dim[2].size, W = image->dim[3].size, elements = vtb_type_count(result);
  vtb_cuda_kernel *k = gather ? vtb_cuda_begin_text(c, "im2col", "im2col.cu", THREADS)
                              : vtb_cuda_begin_text(c, "col2im", "col2im.cu", THREADS);
  vtb_cuda_in(k, 0, "from");
  vtb_cuda_out(k, 1, "to");
  VTB_CUDA_NUMBERS(k, {"C", image->dim[1].size}, {"H", H}, {"W", W}, {"KH", kernel[0]},
                   {"KW", kernel[1]}, {"SH", stride[0]}, {"SW", stride[1]}, {"TOP", pad[0]},
                   {"LEFT", pad[1]}, {"OW", (W + pad[1] + pad[3] - kernel[1]) / stride[1] + 1},
                   {"OH", (H + pad[0] + pad[2] - kernel[0]) / stride[0] + 1},
                   {"ELEMENTS", elements});
  vtb_cuda_fill(k, "image_at", "%s",
                vtb_cuda_offset(c, !gather, (const char *const[]){"b", "ch", "y", "x"}));
  vtb_cuda_fill(k, "patch_at", "%s",
                vtb_cuda_offset(c, gather, (const char *const[]){"b", "patch", "element"}));
  vtb_cuda_launch(k, (elements + THREADS - 1) / THREADS);
}

void vtb__cuda_im2col(vtb_cuda *c, const vtb_inst *inst) { emit(c, inst, true); }
void vtb__cuda_col2im(vtb_cuda *c, const vtb_inst *inst) { emit(c, inst, false); }
