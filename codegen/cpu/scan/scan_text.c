/* The holes that texts of linear recurrences share (text/scan.h, text/chunks.h, text/steps.h). */
#include "codegen/cpu/scan/scan.h"

vtb_cpu_text *vtb__scan_text(const vtb__cpu_scan *s, const char *name) {
  const vtb_scan *of = &s->of;
  const vtb_cpu_hole numbers[] = {{"BATCH", of->n_batch},
                                  {"HEADS", of->n_heads},
                                  {"TOKENS", of->n_tokens},
                                  {"K", of->K},
                                  {"V", of->V},
                                  {"INIT", of->init},
                                  {"LAST", of->last},
                                  {"DLAST", of->dlast},
                                  {"BY_STEP", of->decay->by_step},
                                  {"AT_Q", of->at.q},
                                  {"AT_K", of->at.k},
                                  {"AT_V", of->at.v},
                                  {"AT_D", of->at.d},
                                  {"AT_RATES", of->at.rates},
                                  {"AT_S0", of->at.s0},
                                  {"AT_Y", of->at.y},
                                  {"AT_S", of->at.s},
                                  {"AT_DY", of->at.dy},
                                  {"AT_DS", of->at.ds},
                                  {"AT_DQ", of->at.dq},
                                  {"AT_DK", of->at.dk},
                                  {"AT_DV", of->at.dv},
                                  {"AT_DD", of->at.dd},
                                  {"AT_DRATES", of->at.drates},
                                  {"AT_DS0", of->at.ds0},
                                  {"NORMALIZER", of->normalizer},
                                  {"AT_N0", of->at.n0},
                                  {"AT_Z", of->at.z},
                                  {"AT_N", of->at.n},
                                  {"AT_DZ", of->at.dz},
                                  {"AT_DN", of->at.dn},
                                  {"AT_DN0", of->at.dn0}};
  vtb_cpu_text *x = vtb_cpu_text_open(s->c, name, s->c->width);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    vtb_cpu_text_offer(x, numbers[i].name, numbers[i].v);
  vtb_cpu_text_order(x, "place", &s->order);
  return x;
}

/* Columns of V a task takes where they are shared out to `parts`: two whole vectors at least. */
static int64_t tile_width(const vtb__cpu_scan *s, int64_t parts, int64_t max_vectors) {
  int64_t W = s->c->width, vectors = (s->of.V + s->of.normalizer + W - 1) / W;
  int64_t width = (vectors + parts - 1) / parts;
  if (width > max_vectors) width = max_vectors;
  return (width < 2 ? 2 : width) * W;
}

/* Few heads are to feed all threads, too. */
vtb_cpu_text *vtb__chunks_text(const vtb__cpu_scan *s, const char *name) {
  enum { MIN_TASKS = 4 };
  int64_t bh = s->of.n_batch * s->of.n_heads;
  vtb_cpu_text *x = vtb__scan_text(s, name);
  vtb_cpu_text_number(x, "CHUNK", s->of.chunk);
  vtb_cpu_text_offer(x, "WIDTH", tile_width(s, bh >= MIN_TASKS ? 1 : MIN_TASKS / bh, INT64_MAX));
  return x;
}

vtb_cpu_text *vtb__steps_text(const vtb__cpu_scan *s, const char *name, int max_vectors) {
  enum { MIN_TASKS = 8 };
  int64_t bh = s->of.n_batch * s->of.n_heads;
  vtb_cpu_text *x = vtb__scan_text(s, name);
  vtb_cpu_text_number(x, "WIDTH", tile_width(s, (MIN_TASKS + bh - 1) / bh, max_vectors));
  vtb_cpu_text_number(x, "ALONG_KEY", (s->of.decay->axes & VTB_ALONG_KEY) != 0);
  vtb_cpu_text_number(x, "ALONG_VALUE", (s->of.decay->axes & VTB_ALONG_VALUE) != 0);
  return x;
}
