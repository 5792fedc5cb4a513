/* Where an update must not happen, and where its sums must end. */
#include "tests/whole/stand_in.h"

static const parameter two[] = {{"a", 1, true, 1}, {"b", 1, false, 0.5}};

/* A loss that is not finite is a bad step too, whatever its gradients are. */
TEST(a_bad_loss_changes_nothing) {
  vtb_optim_config c = {0};
  stand_in s = open_step(for_cpu, "adamw", NULL, 0, &c, two, 2, 1);
  float *scores = s.args[vtb_program_find(s.program, "scores")];
  s.value[0][0] = 1, s.value[1][0] = -2, s.grad[0][0] = s.grad[1][0] = 0.5f;
  scores[4] = INFINITY;
  CHECK_REFUSED(update(&s, 0.1, 1, NULL, err), "not finite at update 0");
  CHECK(s.value[0][0] == 1 && s.value[1][0] == -2 && vtb_optim_steps(s.optim) == 0);
  scores[4] = 0;
  CHECK_OK(update(&s, 0.1, 1, NULL, err));
  CHECK(s.value[0][0] != 1 && s.value[1][0] != -2 && vtb_optim_steps(s.optim) == 1);
  close_step(&s);
}

/* A rule of somebody's own, whose sum is not 0 where a tensor has ended: 19 elements fill no
 * vector. */
TEST(sums_of_a_rule_end_with_the_tensor) {
  enum { N = 19 };
  const char *path = temp_path("mine.vtb");
  static const char text[] = "optimizer mine() {\n  w = w - lr * sum(exp(g)) * g\n}\n";
  write_file(path, text, sizeof text - 1);
  const parameter p[] = {{"a", N, false, 1}, {"b", 3, false, 1}};
  vtb_optim_config c = {0};
  stand_in s = open_step(for_cpu, path, NULL, 0, &c, p, 2, 1);
  double sum[2] = {0};
  for (int i = 0; i < 2; i++)
    for (int64_t k = 0; k < p[i].count; k++) {
      s.value[i][k] = 1, s.grad[i][k] = 0.1f * (float)(k % 5 + 1);
      sum[i] += exp((double)s.grad[i][k]);
    }
  CHECK_OK(update(&s, 0.01, 1, NULL, err));
  for (int i = 0; i < 2; i++)
    for (int64_t k = 0; k < p[i].count; k++)
      CHECK_NEAR((double)s.value[i][k], 1 - 0.01 * sum[i] * 0.1 * (double)(k % 5 + 1), 1e-6);
  close_step(&s);
}

/* What was multiplied into the loss is divided out of the gradients and of their norm. */
static void check_scale(make_fn make) {
  enum { N = 70 };
  const parameter p = {"p", N, true, 1};
  vtb_optim_config c = {.clip_norm = 0.3};
  float after[2][N];
  double square = 0;
  for (int i = 1; i <= N; i++) square += 0.0625 * i * i;
  double norm[2];
  for (int k = 0; k < 2; k++) {
    stand_in s = open_step(make, "adamw", NULL, 0, &c, &p, 1, 1);
    for (int i = 0; i < N; i++) {
      s.value[0][i] = 1;
      s.grad[0][i] = (k ? 1024 : 1) * 0.25f * (float)(i + 1);
    }
    CHECK_OK(update(&s, 0.01, k ? 1024 : 1, &norm[k], err));
    memcpy(after[k], s.value[0], sizeof after[k]);
    close_step(&s);
  }
  CHECK_NEAR(norm[0] / sqrt(square), 1, 1e-6);
  CHECK(norm[0] == norm[1] && memcmp(after[0], after[1], sizeof after[0]) == 0);
}

TEST(the_norm_is_without_the_scale) {
  check_scale(for_cpu);
  if (vtb_emulator_available(NULL, NULL)) check_scale(for_emulator);
}

int main(void) {
  setenv("XDG_CACHE_HOME", VTB_BINARY_DIR "/test-cache", 1);
  RUN(a_bad_loss_changes_nothing);
  RUN(sums_of_a_rule_end_with_the_tensor);
  RUN(the_norm_is_without_the_scale);
  return test_done();
}
