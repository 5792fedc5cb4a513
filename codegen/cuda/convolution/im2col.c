/* im2col and col2im: patches [B, oh*ow, C*kh*kw] of an image [B, C, H, W], zeros outside it, and
 * the adjoint. A thread makes one element of the result: it gathers, so that the adjoint's sums
 * have an order. */
#include "codegen/cuda/emitters.h"
#include "codegen/cuda/compile/holes.h"

#define THREADS 256

static void emit(vtb_cuda *c, const vtb_inst *inst, bool gather) {
  int n;
  const vtb_type *image = gather ? &inst->operands[0]->type : &inst->results[0]->type;
  const vtb_type *result = &inst->results[0]->type;
  const int64_t *kernel = vtb_attr_ints(inst, "kernel", &n),
                *stride = vtb_attr_ints(inst, "stride", &n);
  const int64_t *pad = vtb_attr_ints(inst, "pad", &n);
  int64_t H = image->dim[2].size, W = image->dim[3].size, elements = vtb_type_count(result);
  const struct {
    const char *name;
    int64_t value;
  } numbers[] = {{"C", image->dim[1].size},
                 {"H", H},
                 {"W", W},
                 {"KH", kernel[0]},
                 {"KW", kernel[1]},
                 {"SH", stride[0]},
                 {"SW", stride[1]},
                 {"TOP", pad[0]},
                 {"LEFT", pad[1]},
                 {"OW", (W + pad[1] + pad[3] - kernel[1]) / stride[1] + 1},
                 {"OH", (H + pad[0] + pad[2] - kernel[0]) / stride[0] + 1},
                 {"ELEMENTS", elements}};
  vtb__cuda_holes h;
  vtb_cuda_kernel *k = vtb_cuda_begin(c, gather ? "im2col" : "col2im", THREADS);
  vtb__holes_init(&h);
  vtb_cuda_in(k, 0, "from");
  vtb_cuda_out(k, 1, "to");
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    vtb__hole_number(&h, numbers[i].name, numbers[i].value);
  vtb__hole_text(&h, "image", "%s[%s]", gather ? "from" : "to",
                 vtb_cuda_offset(c, !gather, (const char *const[]){"b", "ch", "y", "x"}));
  vtb__hole_text(&h, "patch", "%s[%s]", gather ? "to" : "from",
                 vtb_cuda_offset(c, gather, (const char *const[]){"b", "patch", "element"}));
  vtb__holes_fill(&h, k, gather ? "im2col.cu" : "col2im.cu");
  vtb_cuda_launch(k, (elements + THREADS - 1) / THREADS);
}

void vtb__cuda_im2col(vtb_cuda *c, const vtb_inst *inst) { emit(c, inst, true); }
void vtb__cuda_col2im(vtb_cuda *c, const vtb_inst *inst) { emit(c, inst, false); }
