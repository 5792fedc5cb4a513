/* linscan and linscan_grad token by token: text/linscan_steps.c, text/linscan_steps_grad.c. */
#include "codegen/cpu/scan/linscan.h"

/* Columns of V a task takes: few heads are to feed all threads, too. */
static int64_t tile_width(const vtb__cpu_scan *s, int max_vectors) {
  vtb_cpu *c = s->c;
  int64_t stored = vtb__cols_stored(c, s->of.V, s->of.normalizer), least = 2 * c->width;
  int64_t bh = s->of.n_batch * s->of.n_heads, want = bh >= 8 ? 1 : (8 + bh - 1) / bh;
  int64_t width = vtb__padded(c, (stored + want - 1) / want);
  if (width > max_vectors * c->width) width = max_vectors * c->width;
  return width < least ? least : width;
}

vtb_cpu_text *vtb__steps_text(const vtb__cpu_scan *s, const char *name, int max_vectors) {
  vtb_cpu_text *x = vtb__scan_text(s, name);
  vtb_decay_axes axes = s->of.decay->axes;
  vtb_cpu_text_number(x, "WIDTH", tile_width(s, max_vectors));
  vtb_cpu_text_number(x, "ALONG_KEY", (axes & VTB_ALONG_KEY) != 0);
  vtb_cpu_text_number(x, "ALONG_VALUE", (axes & VTB_ALONG_VALUE) != 0);
  vtb_cpu_text_number(x, "BY_STEP", s->of.decay->by_step);
  return x;
}

void vtb__linscan_steps(vtb__cpu_scan *s, const vtb_inst *inst) {
  const char *name = vtb_scan_is_wide(&s->of) ? "linscan_steps_wide" : "linscan_steps";
  vtb_cpu_text_run(vtb__steps_text(s, name, 64), inst);
}

void vtb__linscan_grad_steps(vtb__cpu_scan *s, const vtb_inst *inst) {
  int64_t segment = 1; /* of the square root's length: fewest states are kept */
  while (segment * segment < s->of.n_tokens) segment++;
  vtb_cpu_text *x = vtb__steps_text(s, "linscan_steps_grad", 8);
  vtb_cpu_text_number(x, "SEGMENT", segment);
  vtb_cpu_text_run(x, inst);
}
