/* See ask.h. */
#include "passes/cost/ask.h"

vtb_answer vtb_ask(vtb_asker *a, const vtb_inst *inst) { return vtb_ask_all(a, &inst, 1); }

vtb_answer vtb_ask_all(vtb_asker *a, const vtb_inst *const *insts, int n) {
  if (!a) return (vtb_answer){.takes = true};
  return a->ask(a, insts, n);
}

void vtb_asker_free(vtb_asker *a) {
  if (a) a->free(a);
}
