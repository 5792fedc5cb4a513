/* An image's results are the same bits wherever it stands in a batch, whatever stands beside it,
 * and in batches of any size, on every instruction set that this machine has: docs/abi.md,
 * "results". The models are those of VTB_ROWS_MODELS, separated by commas, on all sets; or two, cut
 * to two blocks, on two. */
#include "frontend/compile/driver.h"
#include "runtime/runner.h"
#include "tests/runtime/support.h"

enum { ROWS = 8 };

static vtb_program *compiled(const char *model, const char *define, const char *cpu, int batch) {
  vtb_compile_options o = {
      .size = sizeof o, .model = model, .batch = batch, .no_tuning = true, .cpu = cpu};
  o.defines = &define, o.n_defines = define != NULL;
  vtb_report *r = vtb_report_new();
  vtb_program *p = NULL;
  CHECK_MSG(vtb_compile(&o, &p, r) == VTB_OK, "%s: %s", model, vtb_report_text(r, false));
  vtb_report_free(r);
  return p;
}

/* As if it had been trained: what is initialised as zeros hides what is behind it. */
static void disturb(vtb_runner *m) {
  const vtb_tensor_info *t;
  unsigned long long seed = 5;
  for (int i = vtb_runner_tensors(m, &t) - 1; i >= 0; i--) {
    int64_t n;
    float *at = t[i].io == VTB_IO_PARAM ? vtb_runner_param(m, t[i].name, &n) : NULL;
    for (int64_t k = 0; at && k < n; k++) at[k] += 0.05f * (float)test_random(&seed);
  }
}

/* The image `which` of row k. */
static void fill(vtb_runner *m, const int *which, int rows) {
  int64_t n;
  float *x = vtb_runner_input(m, NULL, &n);
  for (int r = 0; r < rows; r++) {
    unsigned long long seed = 100 + (unsigned long long)which[r];
    for (int64_t i = 0; i < n / rows; i++) x[r * (n / rows) + i] = (float)test_random(&seed);
  }
}

static const float *run(vtb_runner *m, const int *which, int rows, size_t *row) {
  int64_t n = 0;
  fill(m, which, rows);
  CHECK_OK(vtb_runner_run(m, err));
  const float *y = vtb_runner_output(m, NULL, &n);
  *row = (size_t)(n / rows);
  return y;
}

static vtb_runner *started(vtb_program *p) {
  vtb_runner *m = NULL;
  CHECK_OK(vtb_runner_new(p, 2, &m, err));
  if (!m) return NULL;
  CHECK_OK(vtb_runner_init(m, 11, err));
  disturb(m);
  return m;
}

/* The first of `rows` images by a program of that batch. */
static void compare_batch(const float *want, size_t row, const char *model, const char *define,
                          const char *cpu, int rows) {
  static const int which[ROWS] = {0, 4, 2, 0};
  vtb_program *p = compiled(model, define, cpu, rows);
  vtb_runner *m = p ? started(p) : NULL;
  if (m) {
    size_t n;
    const float *y = run(m, which, rows, &n);
    CHECK(n == row);
    CHECK_MSG(memcmp(y, want, row * sizeof *y) == 0, "%s, %s: an image in a batch of %d differs",
              model, cpu, rows);
  }
  vtb_runner_free(m);
}

static void compare_rows(const char *model, const char *define, const char *cpu) {
  static const int alike[ROWS] = {0}, beside[ROWS] = {1, 2, 0, 3, 4, 0, 5, 0};
  vtb_program *p = compiled(model, define, cpu, ROWS);
  vtb_runner *m = p ? started(p) : NULL;
  size_t row;
  if (!m) return;
  const float *y = run(m, alike, ROWS, &row);
  float *first = vtb_xcalloc(row, sizeof *first);
  memcpy(first, y, row * sizeof *first);
  for (size_t i = 0; i < row; i++) CHECK(isfinite(first[i]));
  for (int r = 1; r < ROWS; r++)
    CHECK_MSG(memcmp(y + (size_t)r * row, first, row * sizeof *y) == 0,
              "%s, %s: row %d of eight equal images is not row 0", model, cpu, r);
  y = run(m, beside, ROWS, &row);
  CHECK(memcmp(y, first, row * sizeof *y) != 0); /* another image */
  for (int r = 0; r < ROWS; r++)
    CHECK_MSG(beside[r] || memcmp(y + (size_t)r * row, first, row * sizeof *y) == 0,
              "%s, %s: an image in row %d beside others is not the image alone", model, cpu, r);
  compare_batch(first, row, model, define, cpu, 1);
  compare_batch(first, row, model, define, cpu, 3);
  vtb_free(first);
  vtb_runner_free(m);
}

TEST(an_image_has_one_answer_in_every_row_and_batch) {
  static const char *const cpus[] = {"host", "x86-64-v3", "x86-64-v4", "x86-64"};
  const char *asked = getenv("VTB_ROWS_MODELS");
  bool runs[] = {true, false, false, false};
#if defined(__x86_64__)
  runs[1] = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  runs[2] = asked && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  runs[3] = asked != NULL;
#endif
  char *list = vtb_strprintf("%s", asked ? asked : "vil_nano,deit_tiny"), *rest = list;
  for (char *model = strsep(&rest, ","); model; model = strsep(&rest, ","))
    for (size_t i = 0; i < sizeof cpus / sizeof *cpus; i++)
      if (runs[i]) compare_rows(model, asked ? NULL : "depth=2", cpus[i]);
  free(list);
}

int main(void) {
  setenv("VTB_MODELS", VTB_SOURCE_DIR "/models", 1);
  RUN(an_image_has_one_answer_in_every_row_and_batch);
  return test_done();
}
