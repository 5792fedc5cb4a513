/* im2col and col2im: text/im2col.c. */
#include "codegen/cpu/text.h"
#include "ir/convolution.h"

static void emit(vtb_cpu *c, const vtb_inst *inst, const vtb_type *image, bool gather) {
  vtb_patches p;
  vtb_check(vtb_patches_of(inst, image, &p), "patches: attributes");
  vtb_cpu_text *x = vtb_cpu_text_open(c, "im2col", c->width);
  vtb_cpu_text_fill(x, {"BATCH", p.batch}, {"CHANNELS", p.channels}, {"RANK", p.rank},
                    {"GATHER", gather});
  vtb_cpu_text_numbers(x, "SIZE", p.size, VTB_GRID_AXES);
  vtb_cpu_text_numbers(x, "KERNEL", p.kernel, VTB_GRID_AXES);
  vtb_cpu_text_numbers(x, "STEP", p.stride, VTB_GRID_AXES);
  vtb_cpu_text_numbers(x, "LOW", p.low, VTB_GRID_AXES);
  vtb_cpu_text_numbers(x, "GRID", p.out, VTB_GRID_AXES);
  vtb_cpu_text_run(x, inst);
}

void vtb__cpu_im2col(vtb_cpu *c, const vtb_inst *inst) {
  emit(c, inst, &inst->operands[0]->type, true);
}
void vtb__cpu_col2im(vtb_cpu *c, const vtb_inst *inst) {
  emit(c, inst, &inst->results[0]->type, false);
}
