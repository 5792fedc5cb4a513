/* See objective.h. */
#include "ir/objective.h"

#include <string.h>

static const char *const prefixes[] = {VTB_MEASURE_LOSS, VTB_MEASURE_METRIC, VTB_MEASURE_LOWER};

bool vtb_is_measure(const char *name, const char **prefix) {
  for (size_t i = 0; name && i < sizeof prefixes / sizeof *prefixes; i++) {
    if (!vtb_starts_with(name, prefixes[i])) continue;
    if (prefix) *prefix = prefixes[i];
    return true;
  }
  return false;
}

static bool has(const vtb_func *f, const char *wanted) {
  const char *prefix;
  for (int r = 0; r < f->n_returns; r++)
    if (vtb_is_measure(f->return_names[r], &prefix) && (!wanted || strcmp(prefix, wanted) == 0))
      return true;
  return false;
}

bool vtb_has_loss(const vtb_func *f) { return has(f, VTB_MEASURE_LOSS); }
bool vtb_has_measure(const vtb_func *f) { return has(f, NULL); }

int vtb_find_measure(const vtb_func *f, const char *prefix, const char *name) {
  size_t n = strlen(prefix);
  for (int r = 0; r < f->n_returns; r++) {
    const char *have = f->return_names[r];
    if (have && strncmp(have, prefix, n) == 0 && strcmp(have + n, name) == 0) return r;
  }
  return -1;
}
