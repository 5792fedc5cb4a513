/* Learning rates of single parameters: by patterns, by layers. */
#include "runtime/train/rates.h"
#include "tests/runtime/fake_program.h"

/* The rates of the weight and of the bias, under names of their own. */
static vtb_status rates(const char *weight, const char *bias, const vtb_rates *r, double got[2],
                        vtb_error *err) {
  vtb_tensor_info tensors[FAKE_TENSORS];
  void *args[FAKE_TENSORS] = {NULL};
  float w[FAKE_CLASSES * FAKE_PIXELS] = {0}, b[FAKE_CLASSES] = {0};
  static const char *const prefix[] = {"", "d:", "optim/m/", "optim/v/", "ema/", "updated."};
  static const int at[] = {3, 7, FAKE_M, FAKE_V, FAKE_EMA, FAKE_UPDATED};
  static char held[12][64];
  memcpy(tensors, fake_step_tensors, sizeof tensors);
  for (int k = 0; k < 6; k++)
    for (int i = 0; i < 2; i++) {
      snprintf(held[2 * k + i], 64, "%s%s", prefix[k], i ? bias : weight);
      tensors[at[k] + i].name = held[2 * k + i];
    }
  vtb_program p = fake_step_program();
  p.tensors = tensors;
  args[3] = w, args[4] = b;
  vtb_optim *o = NULL;
  vtb_optim_config c = {.ema_decay = 0.9};
  if (vtb_optim_open(&p, args, &c, &o, err) != VTB_OK) exit(1);
  vtb_status status = vtb_rates_apply(r, &p, o, err);
  for (int i = 0; i < 2; i++) got[i] = (double)((const float *)args[FAKE_RATES])[2 * i];
  vtb_optim_free(o);
  return status;
}

TEST(the_last_pattern_that_matches_holds) {
  const vtb_rate all_then_bias[] = {{"*", 0.5}, {"bias", 2}},
                 bias_then_all[] = {{"bias", 2}, {"*", 0.5}}, zero[] = {{"w*", 0}};
  double got[2];
  CHECK_OK(rates("weight", "bias", &(vtb_rates){all_then_bias, 2, 0}, got, err));
  CHECK(got[0] == 0.5 && got[1] == 2);
  CHECK_OK(rates("weight", "bias", &(vtb_rates){bias_then_all, 2, 0}, got, err));
  CHECK(got[0] == 0.5 && got[1] == 0.5);
  CHECK_OK(rates("weight", "bias", &(vtb_rates){zero, 1, 0}, got, err));
  CHECK(got[0] == 0 && got[1] == 1);
  CHECK_OK(rates("weight", "bias", &(vtb_rates){NULL, 0, 0}, got, err));
  CHECK(got[0] == 1 && got[1] == 1);
}

/* Before, 1, 2, behind: of layers that are numbered, in the program's order. */
TEST(deeper_layers_learn_faster) {
  const vtb_rate half[] = {{"blocks.0.w", 0.5}};
  double got[2];
  CHECK_OK(rates("blocks.0.w", "blocks.1.w", &(vtb_rates){NULL, 0, 0.5}, got, err));
  CHECK(got[0] == 0.25 && got[1] == 0.5);
  CHECK_OK(rates("embed", "blocks.0.w", &(vtb_rates){NULL, 0, 0.5}, got, err));
  CHECK(got[0] == 0.25 && got[1] == 0.5);
  CHECK_OK(rates("blocks.0.w", "head", &(vtb_rates){NULL, 0, 0.5}, got, err));
  CHECK(got[0] == 0.5 && got[1] == 1);
  CHECK_OK(rates("blocks.0.w", "blocks.0.b", &(vtb_rates){NULL, 0, 0.5}, got, err));
  CHECK(got[0] == 0.5 && got[1] == 0.5);
  CHECK_OK(rates("blocks.0.w", "blocks.1.w", &(vtb_rates){half, 1, 0.5}, got, err));
  CHECK(got[0] == 0.125 && got[1] == 0.5); /* both count */
  CHECK_OK(rates("blocks.0.w", "head", &(vtb_rates){NULL, 0, 1}, got, err));
  CHECK(got[0] == 1 && got[1] == 1);
}

TEST(what_is_no_rate_is_refused) {
  const vtb_rate none[] = {{"nothing", 1}}, below[] = {{"*", -1}}, endless[] = {{"*", INFINITY}},
                 no_number[] = {{"*", NAN}};
  double got[2];
  CHECK_REFUSED(rates("weight", "bias", &(vtb_rates){none, 1, 0}, got, err), "called 'nothing'");
  CHECK_REFUSED(rates("weight", "bias", &(vtb_rates){below, 1, 0}, got, err), "negative");
  CHECK_REFUSED(rates("weight", "bias", &(vtb_rates){endless, 1, 0}, got, err), "factor of '*'");
  CHECK_REFUSED(rates("weight", "bias", &(vtb_rates){no_number, 1, 0}, got, err), "factor of '*'");
  CHECK_REFUSED(rates("weight", "bias", &(vtb_rates){NULL, 0, 0.5}, got, err),
                "no parameter has a number");
  CHECK_REFUSED(rates("b.0.w", "b.1.w", &(vtb_rates){NULL, 0, 1.5}, got, err), "at most 1");
  CHECK_REFUSED(rates("b.0.w", "b.1.w", &(vtb_rates){NULL, 0, -0.5}, got, err), "above 0");
}

int main(void) {
  RUN(the_last_pattern_that_matches_holds);
  RUN(deeper_layers_learn_faster);
  RUN(what_is_no_rate_is_refused);
  return test_done();
}
