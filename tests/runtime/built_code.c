/* What the C compiler links for `vertebra build`, by hand: the table of a file's native code, whose
 * one entry is y = 3 x + w for 64 numbers. */
#include "runtime/artefact/artefact.h"

static void entry(void *const *args, void *workspace, const vtb_services *services) {
  const float *x = args[0], *w = args[1];
  float *y = args[2];
  (void)workspace, (void)services;
  for (int i = 0; i < 64; i++) y[i] = 3 * x[i] + w[i];
}

extern const struct {
  uint32_t size, n;
  uint64_t build;
  vtb_entry_fn at[1];
} vtb_artefact_1;
__typeof__(vtb_artefact_1) vtb_artefact_1 = {sizeof(vtb_artefact_table), 1, 42, {entry}};
