/* A host whose locale writes numbers with a comma gets the same numbers: those of sources,
 * initialisers, built files and weights. */
#include "frontend/compile/driver.h"
#include "runtime/runner.h"
#include "tests/test.h"

#include <locale.h>
#include <unistd.h>

static const char source[] = "use std.nn\nuse std.conv\n"
                             "model m(scale: float = 0.625) {\n"
                             "  input image: image[1, 2, 2]\n"
                             "  x = pixels(image) * scale + 1.5e-1\n"
                             "  w = param w: [3, 1] ~ constant(0.375)\n"
                             "  output y = mean(matmul(x, w), axis = \"tokens\") * 2.5\n"
                             "}\n";

static char folder[] = "/tmp/vertebra-locale-XXXXXX";

/* False where the system has no such locale and cannot make one. */
static bool set_comma(void) {
  char command[256];
  snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 2>/dev/null",
           folder);
  setenv("LOCPATH", folder, 1);
  return system(command) == 0 && setlocale(LC_ALL, "de_DE.UTF-8") &&
         *localeconv()->decimal_point == ',';
}

static float output_of(vtb_runner *m) {
  int64_t n;
  vtb_error err = {0};
  float *in = vtb_runner_input(m, NULL, &n);
  for (int64_t i = 0; i < n; i++) in[i] = 1;
  CHECK_MSG(vtb_runner_run(m, &err) == VTB_OK, "%s", err.text);
  return *(const float *)vtb_runner_output(m, NULL, NULL);
}

static vtb_compile_options options_of(const char *const *defines) {
  return (vtb_compile_options){.size = sizeof(vtb_compile_options),
                               .model = "m.vtb",
                               .text = source,
                               .defines = defines,
                               .n_defines = 1};
}

static float compiled(const char *const *defines) {
  vtb_compile_options o = options_of(defines);
  vtb_program *p = NULL;
  vtb_report *r = vtb_report_new();
  CHECK_MSG(vtb_compile(&o, &p, r) == VTB_OK, "%s", vtb_report_text(r, false));
  vtb_report_free(r);
  vtb_runner *m = NULL;
  vtb_error err = {0};
  CHECK_MSG(vtb_runner_new(p, 1, &m, &err) == VTB_OK && vtb_runner_init(m, 0, &err) == VTB_OK, "%s",
            err.text);
  float y = output_of(m);
  vtb_runner_free(m);
  return y;
}

TEST(numbers_have_a_point) {
  static const char *const defines[] = {"scale=0.75"};
  CHECK_NEAR(compiled(defines), (0.75 + 0.15) * 0.375 * 2.5, 1e-6);
  CHECK(*localeconv()->decimal_point == ','); /* the host's locale is as it was */
  char text[16];
  snprintf(text, sizeof text, "%.1f", 0.5);
  CHECK_STR(text, "0,5");
}

int main(void) {
  if (!mkdtemp(folder) || !set_comma()) {
    puts("skipped: no locale with a comma, and localedef makes none");
    return 77;
  }
  RUN(numbers_have_a_point);
  char command[64];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command) ? 1 : test_done();
}
