/* The holes that texts of linear recurrences share (text/scan.h). */
#include "codegen/cpu/scan/linscan.h"

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
  vtb_cpu_text_order(x, &s->order);
  return x;
}
