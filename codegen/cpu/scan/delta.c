/* delta: texts of codegen/cpu/text, by the form of the decay. */
#include "codegen/cpu/scan/scan.h"

/* The sizes, path, decay, k, v, d and S_0 of a linscan. */
static vtb__cpu_scan scan_of(vtb_cpu *c, const vtb_delta *of) {
  vtb_scan scan = {.decay = of->decay,
                   .init = of->init,
                   .recurrent = of->recurrent,
                   .path = of->path,
                   .n_batch = of->n_batch,
                   .n_tokens = of->n_tokens,
                   .n_heads = of->n_heads,
                   .K = of->K,
                   .V = of->V,
                   .chunk = of->chunk};
  scan.at.k = of->at.k, scan.at.v = of->at.v, scan.at.d = of->at.d, scan.at.s0 = of->at.s0;
  return (vtb__cpu_scan){.c = c, .of = scan, .order = vtb__order_make(c, of->path, of->n_tokens)};
}

void vtb__cpu_delta(vtb_cpu *c, const vtb_inst *inst) {
  const vtb_delta of = vtb_delta_of(inst);
  vtb__cpu_scan s = scan_of(c, &of);
  vtb_decay_form form = vtb_scan_form(&s.of);
  int64_t step = of.rank; /* rows a token lies in; of a sub-block's 16 a power of two */
  if (form == VTB_FORM_VECTOR)
    for (step = 1; step < of.rank;) step *= 2;
  vtb_cpu_text *x = form == VTB_FORM_PRODUCTS ? vtb__chunks_text(&s, "delta_products")
                    : form == VTB_FORM_VECTOR && of.rank <= c->width
                        ? vtb__chunks_text(&s, "delta_vector")
                        : vtb__steps_text(&s, "delta_steps", 64);
  vtb_cpu_text_fill(x, {"RANK", of.rank}, {"AT_B", of.at.b}, {"AT_W", of.at.w});
  vtb_cpu_text_offer(x, "STEP", step);
  vtb_cpu_text_run(x, inst);
}
