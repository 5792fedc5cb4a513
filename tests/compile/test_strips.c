/* Programs that run strip by strip: the numbers of whole images on every target, in a workspace
 * that does not grow with the image. */
#include "frontend/compile/driver.h"
#include "runtime/runner.h"
#include "tests/runtime/support.h"

enum { BATCH = 2 };

static vtb_program *compiled(const char *text, const char *target, const char *image, int strips) {
  vtb_compile_options o = {.size = sizeof o, .model = "strips.vtb", .text = text, .batch = BATCH};
  o.target = target, o.image = image, o.strips = strips, o.no_tuning = true;
  o.library = VTB_LIBRARY_NO;
  vtb_report *r = vtb_report_new();
  vtb_program *p = NULL;
  CHECK_MSG(vtb_compile(&o, &p, r) == VTB_OK, "%s: %s", text, vtb_report_text(r, false));
  vtb_report_free(r);
  return p;
}

/* The first output of the program, which goes, for random images with parameters as if trained. */
static float *results(vtb_program *p, int64_t *n) {
  vtb_runner *m = NULL;
  const vtb_tensor_info *t;
  unsigned long long seed = 5;
  float *out = NULL;
  CHECK_OK(vtb_runner_new(p, 2, &m, err));
  if (!m) return NULL;
  CHECK_OK(vtb_runner_init(m, 11, err));
  for (int i = vtb_runner_tensors(m, &t) - 1; i >= 0; i--) {
    float *at = t[i].io == VTB_IO_PARAM ? vtb_runner_param(m, t[i].name, n) : NULL;
    for (int64_t k = 0; at && k < *n; k++) at[k] += 0.05f * (float)test_random(&seed);
  }
  float *x = vtb_runner_input(m, NULL, n);
  for (int64_t i = 0; i < *n; i++) x[i] = (float)test_random(&seed);
  CHECK_OK(vtb_runner_run(m, err));
  const float *y = vtb_runner_output(m, NULL, n);
  out = vtb_xcalloc((size_t)*n, sizeof *out);
  memcpy(out, y, (size_t)*n * sizeof *out);
  vtb_runner_free(m);
  return out;
}

#define VIR(...)                                                                                   \
  "use vir\npreset m = vir(embed_dim = 32, depth = 2, num_heads = 2, num_classes = 5, patch_size " \
  "= 4" __VA_ARGS__ ")\n"
#define VIL(...)                                                                                   \
  "use vil\npreset m = vil(dim = 32, depth = 2, num_heads = 2, classes = 5, patch = 4, "           \
  "directions = [rows]" __VA_ARGS__ ")\n"
static const char *const models[] = {
    VIR(),
    VIR(", class_token = false, pos_grid = [5, 3]"),
    VIR(", pool = first, class_token_position = first, trace = true"),
    VIL(", version = 1"),
    VIL(),
    "use vim\npreset m = vim(depth = 2, dim = 32, patch = 4, num_classes = 5, class_token = none, "
    "bimamba_type = none)\n",
    "use std.nn\nuse std.gated_delta\nmodel m(image: size = 8x8) {\n  input x: image[3, image.h, "
    "image.w]\n  x = patch_embed(\"p\", x, 32, 4x4, 4x4)\n"
    "  q = rms_standardize(group(x, 2), 0.1) / 4\n"
    "  y = gated_delta(q, q, group(x, 2), sigmoid(linear(\"b\", x, 2)), log_sigmoid(linear(\"g\", "
    "x, "
    "2)))\n  output y = mean(ungroup(y), axis = \"tokens\")\n}\n",
};
enum { N_MODELS = sizeof models / sizeof *models };

static void compare(const char *text, const char *target) {
  int64_t n = 0, of_strips = 0;
  vtb_program *whole = compiled(text, target, "44x28", 0),
              *strips = compiled(text, target, "44x28", 2);
  float *want = whole ? results(whole, &n) : NULL;
  float *got = strips ? results(strips, &of_strips) : NULL;
  double worst = 0, size = 0;
  CHECK(want && got && n == of_strips);
  for (int64_t i = 0; want && got && i < n; i++) {
    size = fmax(size, fabs((double)want[i]));
    worst = fmax(worst, isfinite(got[i]) ? fabs((double)want[i] - (double)got[i]) : INFINITY);
  }
  CHECK_MSG(worst <= 5e-6 * size && size > 0, "%s on %s: %g of %g off", text, target, worst, size);
  vtb_free(want);
  vtb_free(got);
}

TEST(strips_are_the_whole_on_processors) {
  for (int i = 0; i < N_MODELS; i++) compare(models[i], "cpu");
}

TEST(strips_are_the_whole_on_a_gpu) {
  for (int i = 0; i < N_MODELS; i += 2) compare(models[i], "cuda-emulated");
}

TEST(the_workspace_does_not_grow_with_the_image) {
  for (int i = 0; i < 2; i++) {
    vtb_program *small = compiled(models[i], "cpu", "64x32", 2),
                *large = compiled(models[i], "cpu", "512x32", 2),
                *whole = compiled(models[i], "cpu", "512x32", 0);
    if (small && large && whole) {
      CHECK_MSG(large->workspace_bytes <= small->workspace_bytes + 64, "%lld, %lld bytes",
                (long long)small->workspace_bytes, (long long)large->workspace_bytes);
      CHECK(whole->workspace_bytes > 8 * large->workspace_bytes);
    }
    vtb_program_free(small);
    vtb_program_free(large);
    vtb_program_free(whole);
  }
}

TEST(training_has_no_strips) {
  vtb_compile_options o = {.size = sizeof o, .model = "strips.vtb", .text = VIR()};
  vtb_compilation c;
  vtb_report *r = vtb_report_new();
  o.strips = 2, o.training = true, o.optimizer = "adamw", o.image = "32x32";
  CHECK(vtb_compilation_open(&c, &o, r) == VTB_OK && c.strips.count == 0);
  vtb_compilation_free(&c);
  vtb_report_free(r);
}

TEST(what_they_save_is_a_sentence) {
  vtb_compile_options o = {.size = sizeof o, .model = "strips.vtb", .text = VIR()};
  vtb_strbuf s = {0};
  o.strips = 3, o.image = "44x28";
  CHECK(vtb_compile_strips(&o, 1 << 20, &s) == VTB_OK);
  CHECK_MSG(
      vtb_starts_with(s.at, "3 strips of 3 rows of patches and 2 rows: workspace 1.0 MiB instead"),
      "%s", s.at);
  vtb_strbuf_free(&s);
}

int main(void) {
  RUN(strips_are_the_whole_on_processors);
  RUN(strips_are_the_whole_on_a_gpu);
  RUN(the_workspace_does_not_grow_with_the_image);
  RUN(training_has_no_strips);
  RUN(what_they_save_is_a_sentence);
  return test_done();
}
