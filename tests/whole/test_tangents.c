/* Tangents of texts: of every recurrence of models/std, step by step, attention and convolutions.
 * Before passes the interpreter takes differences of the step equations themselves; behind them
 * every mode has to give the same. */
#include "frontend/lang/lang.h"
#include "tests/passes/grad_check.h"

static const char *const entries[] = {"tangent_cells",     "tangent_turning",   "tangent_steps",
                                      "tangent_corrected", "tangent_attention", "tangent_loops",
                                      "tangent_twice",     "tangent_named"};
static const char *const modes[] = {"recurrent", "parallel", "chunkwise"};

static void lower(vtb_module *m, const char *mode) {
  vtb_diags diags = {0};
  vtb_error err = {0};
  vtb_pass_context c = {
      .module = m, .diags = &diags, .batch = GRAD_BATCH, .mode = mode, .chunk = 5};
  vtb_pipeline_options o = {.pipeline = vtb_pipeline_graph, .verify_each = true};
  CHECK_MSG(vtb_run_pipeline(&c, &o, &err) == VTB_OK, "%s", err.text);
  c.target = vtb_target_find("interp");
  CHECK_MSG(vtb_run_pipeline(&c, NULL, &err) == VTB_OK, "%s", err.text);
  vtb_diags_free(&diags);
}

static vtb_tensor *some_arguments(const vtb_func *f, double size) {
  unsigned long long seed = 362436069;
  vtb_tensor *args = vtb_xcalloc((size_t)f->n_args + 1, sizeof *args);
  for (int i = 0; i < f->n_args; i++) args[i] = grad_random(f->args[i]->type, -size, size, &seed);
  return args;
}

static void compare(const vtb_func *f, const vtb_tensor *got, const vtb_tensor *want,
                    const char *entry, const char *mode, double tolerance) {
  for (int r = 0; r < f->n_returns; r++) {
    double most = 0;
    for (int64_t i = 0; i < vtb_type_count(&want[r].type); i++) {
      double e = fabs(got[r].data[i] - want[r].data[i]) / (1 + fabs(want[r].data[i]));
      if (!(e <= most)) most = e;
    }
    CHECK_MSG(most <= tolerance, "%s, %s: %s is off by %.3g", entry, mode, f->return_names[r],
              most);
  }
}

static void check_entry(vtb_unit *u, const char *entry, const char *mode, double tolerance) {
  vtb_diags diags = {0};
  vtb_instantiate_options o = {0};
  vtb_module *m = vtb_instantiate(u, entry, &o, &diags);
  vtb_diags_print(&diags, stderr);
  CHECK(m != NULL);
  if (!m) return;
  vtb_tensor *args = some_arguments(m->entry, 0.8), *want = grad_run(m->entry, args);
  lower(m, mode);
  vtb_tensor *got = grad_run(m->entry, args);
  compare(m->entry, got, want, entry, mode, tolerance);
  grad_free(want, m->entry->n_returns);
  grad_free(got, m->entry->n_returns);
  grad_free(args, m->entry->n_args);
  vtb_module_free(m);
  vtb_diags_free(&diags);
}

TEST(every_mode_gives_what_differences_of_the_equations_give) {
  vtb_diags diags = {0};
  vtb_unit *u =
      vtb_unit_load(VTB_SOURCE_DIR "/tests/std/tangents.vtb", vtb_search_default(), &diags);
  vtb_diags_print(&diags, stderr);
  CHECK(u != NULL);
  for (size_t k = 0; u && k < sizeof modes / sizeof *modes; k++)
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
      check_entry(u, entries[i], modes[k], i == 6 ? 1e-5 : 1e-8);
  vtb_unit_free(u);
  vtb_diags_free(&diags);
}

int main(void) {
  RUN(every_mode_gives_what_differences_of_the_equations_give);
  return test_done();
}
