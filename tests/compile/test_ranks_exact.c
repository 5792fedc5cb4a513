/* Training steps shared out over ranks, in double precision: losses and gradients are those of one
 * process but for the order of sums. */
#include "frontend/compile/driver.h"
#include "tests/compile/rank_models.h"
#include "tests/passes/rank_check.h"

/* The step of one process, before it is shared out. */
static char *step_of(const char *name, const char *source) {
  static const char *const search[] = {VTB_SOURCE_DIR "/models"};
  vtb_compile_options o = {.size = sizeof o,
                           .model = name,
                           .text = source,
                           .batch = 2,
                           .training = true,
                           .no_tuning = true,
                           .search = search,
                           .n_search = 1};
  vtb_report *r = vtb_report_new();
  char *text = NULL;
  vtb_status status = vtb_compile_stage(&o, "grad", NULL, &text, r);
  char *said = vtb_report_text(r, false);
  CHECK_MSG(status == VTB_OK, "%s: %s", name, said);
  free(said);
  vtb_report_free(r);
  if (status != VTB_OK) exit(1);
  return text;
}

static void check_model(const char *name, const char *source) {
  char *text = step_of(name, source);
  for (rank_count = 2; rank_count <= 3; rank_count++) check_ranks(text, -1);
  free(text);
}

TEST(batch_norm_of_tokens) { check_model("normed.vtb", normed); }
TEST(what_depends_on_the_batch) { check_model("mixed.vtb", mixed); }

int main(void) {
  RUN(batch_norm_of_tokens);
  RUN(what_depends_on_the_batch);
  return test_done();
}
