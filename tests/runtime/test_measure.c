/* Losses and metrics summed over batches: means of quotients, those without a divisor left out, and
 * which value is the better one. */
#include "runtime/train/measure.h"
#include "tests/runtime/support.h"

static vtb_tensor_info tensors[] = {
    {"x", VTB_IO_INPUT, false, 1, {4}, NULL, false},
    {"loss:fit", VTB_IO_OUTPUT, false, 2, {2, 1}, NULL, false},
    {"metric:iou", VTB_IO_OUTPUT, false, 2, {2, 3}, NULL, false},
    {"lower:error", VTB_IO_OUTPUT, false, 2, {2, 1}, NULL, false},
    {"loss:more", VTB_IO_OUTPUT, false, 2, {2, 1}, NULL, false},
};

static vtb_measures open_measures(int n) {
  vtb_program p = {.n_tensors = n, .tensors = tensors, .batch = 4};
  vtb_measures m;
  CHECK_OK(vtb_measures_open(&m, &p, err));
  return m;
}

/* One batch: sums above, divisors below. */
static void add(vtb_measures *m, const float *fit, const float *iou, const float *error,
                const float *more) {
  const float *at[] = {NULL, fit, iou, error, more};
  void *args[5];
  for (int i = 0; i < 5; i++) args[i] = (void *)(uintptr_t)at[i];
  vtb_measures_add(m, args);
}

TEST(values_are_means_of_quotients) {
  vtb_measures m = open_measures(5);
  CHECK(m.n == 4);
  add(&m, (float[]){6, 4}, (float[]){1, 0, 2, 4, 0, 2}, (float[]){1, 4}, (float[]){8, 4});
  add(&m, (float[]){3, 2}, (float[]){1, 0, 1, 4, 0, 4}, (float[]){2, 2}, (float[]){1, 2});
  vtb_measured_list l = vtb_measures_values(&m);
  CHECK_NEAR(l.at[0].value, 9.0 / 6, 1e-15);
  CHECK_NEAR(l.at[1].value, (2.0 / 8 + 3.0 / 6) / 2,
             1e-15); /* the second of three counts for none */
  CHECK_NEAR(l.at[2].value, 3.0 / 6, 1e-15);
  CHECK_NEAR(vtb_measured_loss(&l), 9.0 / 6 + 9.0 / 6, 1e-15);
  CHECK_STR(vtb_measured_score_name(&l), "iou");
  CHECK(vtb_measured_score(&l) == l.at[1].value);
  vtb_measures_clear(&m);
  l = vtb_measures_values(&m);
  for (int i = 0; i < l.n; i++) CHECK_MSG(isnan(l.at[i].value), "%s of no samples", l.at[i].name);
  vtb_measures_free(&m);
}

TEST(better_is_higher_lower_or_a_number_at_all) {
  vtb_measures high = open_measures(5), loss = open_measures(2);
  vtb_tensor_info iou = tensors[2];
  tensors[2] = tensors[3];
  vtb_measures low = open_measures(3);
  tensors[2] = iou;
  CHECK(vtb_measured_is_better(&high.named, 0.6, 0.5) &&
        !vtb_measured_is_better(&high.named, 0.5, 0.6));
  CHECK(vtb_measured_is_better(&low.named, 0.5, 0.6) &&
        !vtb_measured_is_better(&low.named, 0.6, 0.5));
  CHECK(vtb_measured_is_better(&loss.named, 0.5, 0.6) &&
        !vtb_measured_is_better(&loss.named, 0.6, 0.5));
  CHECK_STR(vtb_measured_score_name(&loss.named), "loss");
  CHECK(vtb_measured_is_better(&high.named, 0, NAN) &&
        !vtb_measured_is_better(&high.named, NAN, 0));
  CHECK(!vtb_measured_is_better(&high.named, 0.5, 0.5));
  vtb_measures_free(&high), vtb_measures_free(&low), vtb_measures_free(&loss);
}

/* Half of an epoch saved and loaded is the half. */
TEST(sums_go_on_after_a_checkpoint) {
  vtb_measures m = open_measures(5), other = open_measures(5);
  vtb_weights *w = vtb_weights_new(), *empty = vtb_weights_new();
  add(&m, (float[]){6, 4}, (float[]){1, 0, 2, 4, 0, 2}, (float[]){1, 4}, (float[]){8, 4});
  vtb_measures_save(&m, w);
  CHECK_OK(vtb_measures_load(&other, w, err));
  CHECK(memcmp(m.sums, other.sums, (size_t)m.n_sums * sizeof *m.sums) == 0);
  CHECK_REFUSED(vtb_measures_load(&other, empty, err), "no sums of fit");
  vtb_weights_free(w), vtb_weights_free(empty);
  vtb_measures_free(&m), vtb_measures_free(&other);
}

int main(void) {
  RUN(values_are_means_of_quotients);
  RUN(better_is_higher_lower_or_a_number_at_all);
  RUN(sums_go_on_after_a_checkpoint);
  return test_done();
}
