/* dwconv and its adjoints: text/dwconv.c, text/dwconv_dw.c. */
#include "codegen/cpu/text.h"
#include "ir/convolution.h"
#include "ir/ops.h"

static void emit(vtb_cpu *c, const vtb_inst *inst, const char *name, bool mirrored) {
  vtb_depthwise d;
  vtb_check(vtb_depthwise_of(inst, &d), "dwconv: attributes");
  int64_t cells = d.tokens - d.n_extra, *places = vtb_xcalloc((size_t)d.tokens + 1, sizeof *places);
  vtb_depthwise_places(inst, &d, places);
  vtb__loop_order order = d.n_extra
                              ? vtb__order_list(c, places, cells)
                              : vtb__order_make(c, vtb_attr_str(inst, "path", NULL), d.tokens);
  vtb__loop_order extra = vtb__order_list(c, places + cells, d.n_extra);
  vtb_free(places);
  vtb_cpu_text *x = vtb_cpu_text_open(c, name, c->width);
  vtb_cpu_text_fill(x, {"BATCH", d.batch}, {"CHANNELS", d.channels}, {"RANK", d.rank},
                    {"STARTS", inst->n_operands == 3 || inst->n_results == 2});
  vtb_cpu_text_numbers(x, "GRID", d.grid, VTB_GRID_AXES);
  vtb_cpu_text_numbers(x, "KERNEL", d.kernel, VTB_GRID_AXES);
  vtb_cpu_text_numbers(x, "PAD", d.pad, VTB_GRID_AXES);
  vtb_cpu_text_offer(x, "EXTRA", d.n_extra);
  vtb_cpu_text_offer(x, "MIRRORED", mirrored);
  vtb_cpu_text_order(x, "place", &order);
  if (inst->op != VTB_OP_dwconv_dw) vtb_cpu_text_order(x, "extra_place", &extra);
  vtb_cpu_text_run(x, inst);
}

void vtb__cpu_dwconv(vtb_cpu *c, const vtb_inst *inst) { emit(c, inst, "dwconv", false); }
void vtb__cpu_dwconv_dx(vtb_cpu *c, const vtb_inst *inst) { emit(c, inst, "dwconv", true); }
void vtb__cpu_dwconv_dw(vtb_cpu *c, const vtb_inst *inst) { emit(c, inst, "dwconv_dw", false); }
