/* im2col and col2im: patches [B, oh*ow, C*kh*kw] of an image [B, C, H, W], a series or a video,
 * zeros outside it, and the adjoint. Patches go through shared memory, since they lie along other
 * axes than the image; of the adjoint a thread makes one element: it gathers, so that sums have an
 * order. */
#include "codegen/cuda/emitters.h"
#include "ir/convolution.h"

#define THREADS 256

static void emit(vtb_cuda *c, const vtb_inst *inst, bool gather) {
  const vtb_type *image = gather ? &inst->operands[0]->type : &inst->results[0]->type;
  int64_t elements = vtb_type_count(&inst->results[0]->type);
  vtb_patches p;
  vtb_check(vtb_patches_of(inst, image, &p), "patches: attributes");
  int64_t taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  vtb_cuda_kernel *k = gather ? vtb_cuda_begin_text(c, "im2col", "im2col.cu", THREADS)
                              : vtb_cuda_begin_text(c, "col2im", "col2im.cu", THREADS);
  vtb_cuda_in(k, 0, "from");
  vtb_cuda_out(k, 1, "to");
  VTB_CUDA_NUMBERS(k, {"C", p.channels}, {"T", p.size[0]}, {"H", p.size[1]}, {"W", p.size[2]},
                   {"KT", p.kernel[0]}, {"KH", p.kernel[1]}, {"KW", p.kernel[2]},
                   {"ST", p.stride[0]}, {"SH", p.stride[1]}, {"SW", p.stride[2]},
                   {"FRONT", p.low[0]}, {"TOP", p.low[1]}, {"LEFT", p.low[2]}, {"OT", p.out[0]},
                   {"OH", p.out[1]}, {"OW", p.out[2]});
  int64_t rows = elements / p.channels / taps;
  if (gather)
    VTB_CUDA_NUMBERS(k, {"ROWS", rows});
  else
    VTB_CUDA_NUMBERS(k, {"ELEMENTS", elements});
  static const char *const places[VTB_GRID_AXES] = {"t", "y", "x"};
  const char *at[2 + VTB_GRID_AXES] = {"b", "ch"};
  for (int n = 0; n < p.rank; n++) at[2 + n] = places[VTB_GRID_AXES - p.rank + n];
  vtb_cuda_fill(k, "image_at", "%s", vtb_cuda_offset(c, !gather, at));
  vtb_cuda_fill(k, "patch_at", "%s",
                vtb_cuda_offset(c, gather, (const char *const[]){"b", "patch", "element"}));
  int64_t side = gather ? vtb_cuda_value(k, "SIDE") : 1;
  vtb_cuda_launch(k, gather ? (rows + side - 1) / side * vtb_cuda_value(k, "SLABS")
                            : (elements + THREADS - 1) / THREADS);
}

void vtb__cuda_im2col(vtb_cuda *c, const vtb_inst *inst) { emit(c, inst, true); }
void vtb__cuda_col2im(vtb_cuda *c, const vtb_inst *inst) { emit(c, inst, false); }
