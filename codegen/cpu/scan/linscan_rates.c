/* linscan and linscan_grad of class rates: text/linscan_rates.c, text/linscan_rates_grad.c. */
#include "codegen/cpu/scan/linscan.h"

enum { TILE = 16, MAX_GROUP = 8, MIN_TASKS = 8 }; /* TILE: LANES of text/rates.h */

void vtb__linscan_rates(vtb__cpu_scan *s, const vtb_inst *inst) {
  vtb_cpu_text_run(vtb__scan_text(s, "linscan_rates"), inst);
}

/* Tiles of V that a task of the adjoint takes: many share one row of sums, few feed all threads. */
static int64_t group_of(const vtb_scan *of) {
  int64_t n_tiles = (of->V + TILE - 1) / TILE, group = n_tiles < MAX_GROUP ? n_tiles : MAX_GROUP;
  int64_t bh = of->n_batch * of->n_heads;
  while (group > 1 && bh * ((n_tiles + group - 1) / group) < MIN_TASKS) group /= 2;
  return group;
}

void vtb__linscan_grad_rates(vtb__cpu_scan *s, const vtb_inst *inst) {
  vtb_cpu_text *x = vtb__scan_text(s, "linscan_rates_grad");
  vtb_cpu_text_number(x, "GROUP", group_of(&s->of));
  vtb_cpu_text_run(x, inst);
}
