/* An image's results are the same bits wherever it stands in a batch and whatever stands beside it,
 * with the products of every processor that this one can stand for: docs/abi.md, "results". The
 * models are those of VTB_ROWS_MODELS, separated by commas, or two, cut to two blocks. */
#include "frontend/compile/driver.h"
#include "runtime/runner.h"
#include "tests/runtime/support.h"

#include <sys/wait.h>

enum { ROWS = 8 };

static vtb_program *compiled(const char *model, const char *define) {
  vtb_compile_options o = {.size = sizeof o, .model = model, .batch = ROWS, .no_tuning = true};
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
static void fill(vtb_runner *m, const int *which) {
  int64_t n;
  float *x = vtb_runner_input(m, NULL, &n);
  for (int r = 0; r < ROWS; r++) {
    unsigned long long seed = 100 + (unsigned long long)which[r];
    for (int64_t i = 0; i < n / ROWS; i++) x[r * (n / ROWS) + i] = (float)test_random(&seed);
  }
}

static const float *run(vtb_runner *m, const int *which, size_t *row) {
  int64_t n = 0;
  fill(m, which);
  CHECK_OK(vtb_runner_run(m, err));
  const float *y = vtb_runner_output(m, NULL, &n);
  *row = (size_t)(n / ROWS);
  return y;
}

static void compare_rows(vtb_program *p, const char *model, const char *core) {
  static const int alike[ROWS] = {0}, beside[ROWS] = {1, 2, 0, 3, 4, 0, 5, 0};
  vtb_runner *m = NULL;
  size_t row;
  CHECK_OK(vtb_runner_new(p, 2, &m, err));
  if (!m) return;
  CHECK_OK(vtb_runner_init(m, 11, err));
  disturb(m);
  const float *y = run(m, alike, &row);
  float *first = vtb_xcalloc(row, sizeof *first);
  memcpy(first, y, row * sizeof *first);
  for (size_t i = 0; i < row; i++) CHECK(isfinite(first[i]));
  for (int r = 1; r < ROWS; r++)
    CHECK_MSG(memcmp(y + (size_t)r * row, first, row * sizeof *y) == 0,
              "%s, %s: row %d of eight equal images is not row 0", model, core, r);
  y = run(m, beside, &row);
  CHECK(memcmp(y, first, row * sizeof *y) != 0); /* another image */
  for (int r = 0; r < ROWS; r++)
    CHECK_MSG(beside[r] || memcmp(y + (size_t)r * row, first, row * sizeof *y) == 0,
              "%s, %s: an image in row %d beside others is not the image alone", model, core, r);
  vtb_free(first);
  vtb_runner_free(m);
}

/* Products are chosen once in a process, by OpenBLAS's own variable; NULL: by the processor. */
static void in_child(vtb_program *p, const char *model, const char *core) {
  int status = 0;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    if (core)
      setenv("OPENBLAS_CORETYPE", core, 1);
    else
      unsetenv("OPENBLAS_CORETYPE");
    compare_rows(p, model, core ? core : "this processor");
    fflush(NULL);
    _exit(test_failures != 0);
  }
  CHECK_MSG(child > 0 && waitpid(child, &status, 0) == child && status == 0, "%s, %s: status %x",
            model, core ? core : "this processor", (unsigned)status);
}

TEST(an_image_has_one_answer_in_every_row) {
  static const char *const cores[] = {"Prescott", "Nehalem",  "Sandybridge", "Haswell",
                                      "Zen",      "SkylakeX", "Cooperlake"};
  bool runs[] = {true, true, false, false, false, false, false};
#if defined(__x86_64__)
  runs[2] = __builtin_cpu_supports("avx");
  runs[3] = runs[4] = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  runs[5] = runs[6] = __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#endif
  const char *asked = getenv("VTB_ROWS_MODELS");
  char *list = vtb_strprintf("%s", asked ? asked : "vil_nano,deit_tiny"), *rest = list;
  for (char *model = strsep(&rest, ","); model; model = strsep(&rest, ",")) {
    vtb_program *p = compiled(model, asked ? NULL : "depth=2");
    if (!p) continue;
    in_child(p, model, NULL);
    for (size_t i = 0; i < sizeof cores / sizeof *cores; i++)
      if (runs[i]) in_child(p, model, cores[i]);
    vtb_program_free(p);
  }
  free(list);
}

int main(void) {
  setenv("VTB_MODELS", VTB_SOURCE_DIR "/models", 1);
  RUN(an_image_has_one_answer_in_every_row);
  return test_done();
}
