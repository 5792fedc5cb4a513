/* Folds as one kernel of CUDA, a block a sample: random cells and their gradients, emulated,
 * against the interpreter; and the steps that have no kernel. */
#include "tests/codegen/cuda_check.h"
#include "tests/codegen/fold_cells.h"

static void check(const char *what, vtb_module *m, double tol) {
  unsigned long long seed = 11400714819323198485ull;
  vtb_func *f = m->entry;
  vtb_tensor *args = vtb_xcalloc((size_t)f->n_args + 1, sizeof *args);
  for (int a = 0; a < f->n_args; a++) {
    args[a] = vtb_tensor_new(f->args[a]->type);
    for (int64_t k = 0; k < vtb_type_count(&args[a].type); k++)
      args[a].data[k] = (float)test_random(&seed);
  }
  cuda_check(m, f, args, tol, what);
  for (int a = 0; a < f->n_args; a++) vtb_tensor_free(&args[a]);
  free(args);
}

TEST(random_cells_match_the_interpreter) {
  enum { CELLS = 8 };
  int tiled = 0;
  for (int i = 0; i < CELLS; i++) {
    char what[64];
    vtb_module *m = cell_gradients(random_step_of(i), "cuda-emulated", 1 + i % 3);
    if (!m) continue;
    snprintf(what, sizeof what, "cell %d", i);
    CHECK_MSG(fold_count(m, true) == fold_count(m, false), "%s is not one kernel", what);
    tiled += fold_count(m, true);
    check(what, m, 1e-5);
    vtb_module_free(m);
  }
  CHECK_MSG(tiled >= CELLS, "only %d folds", tiled);
}

/* More than a block's shared memory, and more work than a block should do alone. */
TEST(large_steps_are_launches) {
  random_step r = random_step_of(0);
  r.k = 1024;
  vtb_module *m = cell_gradients(r, "cuda-emulated", 2);
  if (!m) return;
  CHECK(fold_count(m, false) == 2 && fold_count(m, true) == 0);
  vtb_module_free(m);
}

int main(void) {
  emulate_or_skip();
  RUN(random_cells_match_the_interpreter);
  RUN(large_steps_are_launches);
  return test_done();
}
