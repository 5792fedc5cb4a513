/* Folds in tiles on the CPU: random cells and their gradients against the interpreter, for one, two
 * and three threads; one sample, one tile, several, and of one sample each. */
#include "tests/codegen/codegen_check.h"
#include "tests/codegen/fold_cells.h"

TEST(random_cells_match_the_interpreter) {
  static const int64_t batches[] = {1, 2, 8, 12, 16, 11};
  enum { CELLS = 24, BATCHES = sizeof batches / sizeof *batches };
  /* matrices of 32 whose gain is about 1: they would magnify rounding */
  const check_options o = {.tolerance = 2e-5, .low = -0.3, .high = 0.3};
  int tiled = 0;
  for (int i = 0; i < CELLS; i++) {
    char what[64];
    random_step r = random_step_of(i);
    if (i % 4 == 3) r.k = 16 + i % 3 * 8; /* whole vectors */
    vtb_module *m = cell_gradients(r, "cpu", batches[i % BATCHES]);
    if (!m) continue;
    snprintf(what, sizeof what, "cell %d, batch %lld", i, (long long)batches[i % BATCHES]);
    CHECK_MSG(fold_count(m, true) == fold_count(m, false), "%s is not in tiles", what);
    tiled += fold_count(m, true);
    check_function(m, m->entry, what, &o);
    vtb_module_free(m);
  }
  CHECK_MSG(tiled >= CELLS, "only %d folds", tiled);
}

int main(void) {
  RUN(random_cells_match_the_interpreter);
  return test_done();
}
