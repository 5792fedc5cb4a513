/* Gradients of random recurrences of every class, lowered in a random mode, against central
 * differences of the equations run step by step; and gates at +-60, whose gradients are finite. */
#include "tests/passes/grad_check.h"
#include "tests/passes/random_recurrence.h"

static const struct mode {
  const char *name;
  int64_t chunk;
} modes[] = {
    {"recurrent", 0}, {"parallel", 0}, {"chunkwise", 1}, {"chunkwise", 5}, {"chunkwise", 16}};

/* Differentiates the outputs listed; what `before` computes step by step is the truth. */
static void check_config(const config *c, unsigned long long seed, bool differences) {
  char *text = write_module(c);
  vtb_module *before = parse_ir(text), *m = parse_ir(text);
  if (!before || !m) return;
  const struct mode *mode = &modes[below(&seed, 5)];
  vtb_pass_context pc = {
      .module = m, .batch = GRAD_BATCH, .mode = mode->name, .chunk = mode->chunk};
  if (!run_passes_in(&pc, "recurrence,simplify,cse,dce,select_mode")) return;
  int outs[8] = {0}, wrt[12], n_args = m->entry->n_args;
  /* Final states are relative to a scale that the two may choose differently; the scale itself has
   * kinks. */
  int n_outs = c->gain ? 1 : m->entry->n_returns - 1;
  for (int i = 0; i < n_outs; i++) outs[i] = i;
  for (int i = 0; i < n_args; i++) wrt[i] = i;
  vtb_func *grad = NULL;
  vtb_diags d = {0};
  vtb_error err = {0};
  vtb_status status = vtb_autodiff(m, m->entry, outs, n_outs, wrt, n_args, &grad, &d, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  vtb_tensor *args = config_args(c, grad, seed), *results = grad_run(grad, args);
  for (int r = 0; r < grad->n_returns; r++)
    for (int64_t k = 0; k < vtb_type_count(&results[r].type); k++)
      CHECK_MSG(isfinite(results[r].data[k]), "result %d [%lld] is %g, mode %s\n%s", r,
                (long long)k, results[r].data[k], mode->name, text);
  vtb_strbuf what = {0};
  vtb_strbuf_printf(&what, "%s %lld\n%s", mode->name, (long long)mode->chunk, text);
  if (differences)
    grad_differences(before->entry, args, n_args, n_outs, results, m->entry->n_returns, 4, seed,
                     what.at);
  vtb_strbuf_free(&what);
  grad_free(results, grad->n_returns);
  grad_free(args, grad->n_args);
  vtb_diags_free(&d);
  vtb_module_free(m), vtb_module_free(before);
  free(text);
}

TEST(gradients_are_those_of_the_steps) {
  unsigned long long rng = 0x9e3779b97f4a7c15ull;
  for (int i = 0; i < 60; i++) {
    config c = random_config(&rng);
    c.gain_size = 1;
    c.read_whole = false; /* |S| has kinks where differences see both sides */
    check_config(&c, rng, true);
  }
}

TEST(gradients_of_steep_gates_are_finite) {
  unsigned long long rng = 0x2545f4914f6cdd1dull;
  for (int i = 0; i < 40; i++) {
    config c = random_config(&rng);
    c.gain_size = c.decay_size = 60;
    check_config(&c, rng, false);
  }
}

int main(void) {
  RUN(gradients_are_those_of_the_steps);
  RUN(gradients_of_steep_gates_are_finite);
  return test_done();
}
