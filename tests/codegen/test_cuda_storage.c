/* Values of 16 bits in memory: which ones they are, that they are rounded once and nowhere else,
 * and products of them however their factors lie in memory. */
#include "codegen/codegen.h"
#include "tests/codegen/cuda_check.h"

static vtb_module *parse(const char *text) {
  static vtb_source source; /* spans point to it */
  vtb_diags diags = {0};
  source = (vtb_source){.path = "storage.ir", .text = text, .n = strlen(text)};
  vtb_module *m = vtb_module_parse(&source, &diags);
  vtb_diags_print(&diags, stderr);
  vtb_diags_free(&diags);
  if (!m) exit(1);
  return m;
}

static vtb_launch_plan *plan_of(vtb_module *m, vtb_precision precision) {
  vtb_launch_plan *plan = NULL;
  vtb_error err = {0};
  vtb_status status =
      cuda_plan(m, m->entry, &(vtb_codegen_options){.precision = precision}, &plan, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  if (!plan) exit(1);
  return plan;
}

/* The signature of the nth kernel whose name begins with `kind`. */
static const char *signature(const vtb_launch_plan *p, const char *kind, int nth) {
  static char found[400];
  for (int i = 0; i < p->n_kernels; i++) {
    if (!vtb_starts_with(p->kernels[i].name, kind) || nth-- > 0) continue;
    char name[80];
    snprintf(name, sizeof name, ", %s)(", p->kernels[i].name);
    const char *at = strstr(p->sources[p->kernels[i].source].text, name);
    if (!at) break;
    at += strlen(name);
    snprintf(found, sizeof found, "%.*s", (int)(strchr(at, '{') - at), at);
    return found;
  }
  return "none";
}

/* ---- the choice ------------------------------------------------------------------------------ */

/* A residual MLP whose hidden values only a product reads. */
static const char mlp[] = "entry func @f(%x: f32[2, 24, 32] input \"x\", %w1: f32[64, 32] param "
                          "\"w1\", %w2: f32[32, 64] param \"w2\") -> "
                          "(f32[2, 24, 32]) {\n"
                          "  %n = tanh %x : f32[2, 24, 32]\n"
                          "  %p = einsum %n, %w1 {spec = \"btc,dc->btd\"} : f32[2, 24, 64]\n"
                          "  %h = square %p : f32[2, 24, 64]\n"
                          "  %q = einsum %h, %w2 {spec = \"btd,cd->btc\"} : f32[2, 24, 32]\n"
                          "  %y = add %q, %x : f32[2, 24, 32]\n"
                          "  return %y\n}\n";

TEST(what_only_products_read_is_narrow) {
  vtb_module *m = parse(mlp);
  vtb_launch_plan *p = plan_of(m, VTB_PRECISION_BF16);
  CHECK_STR(signature(p, "product", 0),
            "VTB_IN(vtb_bf16) a, VTB_IN(vtb_bf16) b, VTB_OUT(float) c) ");
  CHECK_STR(signature(p, "product", 1),
            "VTB_IN(vtb_bf16) a, VTB_IN(vtb_bf16) b, VTB_OUT(float) c) ");
  CHECK(p->n_prepared == 2); /* the casts of w1 and w2 */
  vtb_launch_plan_free(p);
  vtb_module_free(m);
  m = parse(mlp);
  p = plan_of(m, VTB_PRECISION_BF16_ALL); /* results of products too; the sum with x stays */
  CHECK_STR(signature(p, "product", 0),
            "VTB_IN(vtb_bf16) a, VTB_IN(vtb_bf16) b, VTB_OUT(vtb_bf16) c) ");
  CHECK_STR(signature(p, "product", 1),
            "VTB_IN(vtb_bf16) a, VTB_IN(vtb_bf16) b, VTB_OUT(vtb_bf16) c) ");
  vtb_launch_plan_free(p);
  vtb_module_free(m);
  m = parse(mlp);
  p = plan_of(m, VTB_PRECISION_FP16);
  CHECK_STR(signature(p, "product", 0), "VTB_IN(vtb_f16) a, VTB_IN(vtb_f16) b, VTB_OUT(float) c) ");
  vtb_launch_plan_free(p);
  vtb_module_free(m);
  m = parse(mlp);
  p = plan_of(m, VTB_PRECISION_TF32);
  CHECK_STR(signature(p, "product", 0), "VTB_IN(float) a, VTB_IN(float) b, VTB_OUT(float) c) ");
  CHECK(p->n_prepared == 0);
  vtb_launch_plan_free(p);
  vtb_module_free(m);
}

/* One narrow operand as large as the result is enough, as for a residual stream; a statistic is
 * smaller. */
TEST(what_is_computed_of_narrow_values_is_narrow) {
  vtb_module *m = parse("entry func @f(%x: f32[40, 32] input \"x\", %w: f32[32, 24] param \"w\", "
                        "%v: f32[40, 24] input "
                        "\"v\") -> (f32[40, 24]) {\n"
                        "  %p = einsum %x, %w {spec = \"tc,cd->td\"} : f32[40, 24]\n"
                        "  %e = exp %p : f32[40, 24]\n"
                        "  %s = add %e, %v : f32[40, 24]\n"
                        "  %y = mul %s, %e : f32[40, 24]\n"
                        "  return %y\n}\n");
  vtb_launch_plan *p = plan_of(m, VTB_PRECISION_BF16_ALL);
  CHECK_STR(signature(p, "loop", 0),
            "VTB_IN(float) a0, VTB_OUT(vtb_bf16) r0) "); /* the cast of w */
  CHECK_STR(signature(p, "loop", 1), "VTB_IN(vtb_bf16) a0, VTB_OUT(vtb_bf16) r0) ");
  CHECK_STR(signature(p, "loop", 2),
            "VTB_IN(vtb_bf16) a0, VTB_IN(float) a1, VTB_OUT(vtb_bf16) r0) ");
  CHECK_STR(signature(p, "loop", 3),
            "VTB_IN(vtb_bf16) a0, VTB_IN(vtb_bf16) a1, VTB_OUT(float) r0) ");
  vtb_launch_plan_free(p);
  vtb_module_free(m);
}

/* What another kernel reads too stays as it is, through calls and views as well. */
TEST(what_others_read_is_wide) {
  vtb_module *m = parse("func @layer(%a: f32[20, 32], %w: f32[32, 24]) -> (f32[20, 24]) {\n"
                        "  %b = einsum %a, %w {spec = \"tc,cd->td\"} : f32[20, 24]\n"
                        "  return %b\n}\n"
                        "entry func @f(%x: f32[20, 32] input \"x\", %w: f32[32, 24] param \"w\", "
                        "%v: f32[32, 24] param "
                        "\"v\") -> (f32[20, 24], f32[32, 20]) {\n"
                        "  %n = tanh %x : f32[20, 32]\n"
                        "  %t = transpose %n {perm = [1, 0]} : f32[32, 20]\n"
                        "  %s = exp %t : f32[32, 20]\n"
                        "  %p = call @layer(%n, %w) : f32[20, 24]\n"
                        "  %q = call @layer(%x, %v) : f32[20, 24]\n"
                        "  %y = add %p, %q : f32[20, 24]\n"
                        "  return %y, %s\n}\n");
  vtb_launch_plan *p = plan_of(m, VTB_PRECISION_BF16);
  CHECK_STR(signature(p, "product", 0), "VTB_IN(float) a, VTB_IN(vtb_bf16) b, VTB_OUT(float) c) ");
  vtb_launch_plan_free(p);
  vtb_module_free(m);
}

/* Beside the sums of a stream's adjoint stand products of it: with bf16-all there is one copy. */
TEST(what_products_read_is_narrow_whoever_else_reads_it) {
  static const char text[] =
      "entry func @f(%x: f32[40, 32] input \"x\", %w: f32[32, 24] param \"w\") -> "
      "(f32[40, 24], f32[40, 32]) {\n"
      "  %s = sin %x : f32[40, 32]\n"
      "  %p = einsum %s, %w {spec = \"tc,cd->td\"} : f32[40, 24]\n"
      "  %n = shift %s {axis = 0, by = 1} : f32[40, 32]\n"
      "  %y = add %n, %x : f32[40, 32]\n"
      "  return %p, %y\n}\n";
  for (int all = 0; all < 2; all++) {
    vtb_module *m = parse(text);
    vtb_launch_plan *p = plan_of(m, all ? VTB_PRECISION_BF16_ALL : VTB_PRECISION_BF16);
    CHECK_STR(signature(p, "product", 0),
              all ? "VTB_IN(vtb_bf16) a, VTB_IN(vtb_bf16) b, VTB_OUT(float) c) "
                  : "VTB_IN(float) a, VTB_IN(vtb_bf16) b, VTB_OUT(float) c) ");
    vtb_launch_plan_free(p);
    vtb_module_free(m);
  }
}

/* ---- numbers --------------------------------------------------------------------------------- */

static double round_to(double v, int bits) {
  int e;
  if (v == 0) return 0;
  frexp(v, &e);
  double unit = ldexp(1, e - bits);
  return rint(v / unit) * unit;
}

/* Squares of a and of b, multiplied; `spec` and shapes vary. The largest error over the size of a
 * sum, of the exact product of rounded squares. */
static double error_of(const char *spec, const char *a_shape, const char *b_shape, const char *more,
                       vtb_precision precision, int64_t batch, int64_t rows, int64_t depth,
                       int64_t columns) {
  char text[1200];
  bool a_turned = spec[batch > 1] == 'k', b_turned = strchr(spec, ',')[1 + (batch > 1)] == 'n',
       wide = *more;
  snprintf(text, sizeof text,
           "entry func @f(%%a: f32[%s] input \"a\", %%b: f32[%s] input \"b\") -> (f32[%lld, %lld, "
           "%lld]%s%s%s) {\n"
           "  %%p = square %%a : f32[%s]\n  %%q = square %%b : f32[%s]\n%s"
           "  %%c = einsum %%p, %%q {spec = \"%s\"} : f32[%s%lld, %lld]\n"
           "  %%y = reshape %%c {shape = [%lld, %lld, %lld]} : f32[%lld, %lld, %lld]\n"
           "  return %%y%s\n}\n",
           a_shape, b_shape, (long long)batch, (long long)rows, (long long)columns,
           wide ? ", f32[" : "", wide ? b_shape : "", wide ? "]" : "", a_shape, b_shape, more, spec,
           batch > 1 ? "3, " : "", (long long)rows, (long long)columns, (long long)batch,
           (long long)rows, (long long)columns, (long long)batch, (long long)rows,
           (long long)columns, wide ? ", %z" : "");
  vtb_module *m = parse(text);
  vtb_launch_plan *plan = plan_of(m, precision);
  vtb_program *p = NULL;
  vtb_error err = {0};
  if (wide)
    CHECK(strstr(signature(plan, "product", 0), "(float) a") ||
          strstr(signature(plan, "product", 0), "(float) b"));
  else
    CHECK(!strstr(signature(plan, "product", 0), "VTB_IN(float)"));
  CHECK_MSG(vtb_emulator_program(plan, NULL, &p, &err) == VTB_OK, "%s", err.text);
  if (!p) exit(1);
  int64_t n_a = batch * rows * depth, n_b = batch * depth * columns, n_c = batch * rows * columns;
  float *a = calloc((size_t)n_a, 4), *b = calloc((size_t)n_b, 4), *c = calloc((size_t)n_c, 4);
  float *z = calloc((size_t)n_b, 4);
  if (!a || !b || !c || !z) exit(3);
  unsigned long long seed = 3;
  for (int64_t i = 0; i < n_a; i++) a[i] = (float)test_random(&seed);
  for (int64_t i = 0; i < n_b; i++) b[i] = (float)test_random(&seed);
  vtb_services *s = vtb_services_default(1);
  CHECK_MSG(vtb_program_execute(p, (void *[]){a, b, c, z}, NULL, s, &err) == VTB_OK, "%s",
            err.text);
  double worst = 0;
  int bits = precision == VTB_PRECISION_FP16 ? 11 : 8;
  for (int64_t x = 0; x < batch; x++)
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < columns; j++) {
        double want = 0;
        for (int64_t k = 0; k < depth; k++) {
          float u = a[x * rows * depth + (a_turned ? k * rows + i : i * depth + k)];
          float v = b[x * depth * columns + (b_turned ? j * depth + k : k * columns + j)];
          want += round_to((double)(u * u), bits) * round_to((double)(v * v), bits);
        }
        worst = fmax(worst, fabs((double)c[(x * rows + i) * columns + j] - want) / (double)depth);
      }
  vtb_services_free(s);
  vtb_program_free(p);
  vtb_module_free(m);
  free(a);
  free(b);
  free(c);
  free(z);
  return worst;
}

/* Rows along the depth or across it, of lengths that allow 16, 4 and 2 bytes at a time; several
 * tiles and ranges. */
TEST(factors_are_rounded_once_wherever_they_lie) {
  static const struct {
    int batch, rows, depth, columns;
  } sizes[] = {
      {1, 40, 48, 24}, {1, 33, 35, 70}, {1, 130, 66, 18}, {3, 20, 40, 72}, {1, 16, 1030, 16}};
  static const char *const specs[] = {"mk,kn->mn", "km,kn->mn", "mk,nk->mn", "km,nk->mn"};
  static const char *const batched[] = {"bmk,bkn->bmn", "bkm,bkn->bmn", "bmk,bnk->bmn",
                                        "bkm,bnk->bmn"};
  static const char keep[] = "  %z = exp %q : f32[";
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int turn = 0; turn < 4; turn++) {
      int batch = sizes[i].batch, m = sizes[i].rows, k = sizes[i].depth, n = sizes[i].columns;
      char a[40], b[40], more[80];
      const char *first = batch > 1 ? "3, " : "";
      snprintf(a, sizeof a, "%s%d, %d", first, turn & 1 ? k : m, turn & 1 ? m : k);
      snprintf(b, sizeof b, "%s%d, %d", first, turn & 2 ? n : k, turn & 2 ? k : n);
      snprintf(more, sizeof more, "%s%s]\n", keep, b);
      const char *spec = batch > 1 ? batched[turn] : specs[turn];
      vtb_precision precision = (i + (size_t)turn) % 2 ? VTB_PRECISION_FP16 : VTB_PRECISION_BF16;
      double both = error_of(spec, a, b, "", precision, batch, m, k, n);
      double mixed = i < 2 ? error_of(spec, a, b, more, precision, batch, m, k, n) : 0;
      CHECK_MSG(both < 2e-7 && mixed < 2e-7, "%s of %s and %s: errors %g, %g", spec, a, b, both,
                mixed);
    }
}

/* ---- by the library -------------------------------------------------------------------------- */

/* Two layers with biases, large enough for the library. */
static const char layers[] = "entry func @f(%x: f32[80, 64] input \"x\", %w1: f32[96, 64] param "
                             "\"w1\", %b1: f32[96] param \"b1\", %w2: f32[64, "
                             "96] param \"w2\", %b2: f32[64] param \"b2\") -> (f32[80, 64]) {\n"
                             "  %n = tanh %x : f32[80, 64]\n"
                             "  %p = einsum %n, %w1, %b1 {spec = \"tc,dc->td\"} : f32[80, 96]\n"
                             "  %h = square %p : f32[80, 96]\n"
                             "  %q = einsum %h, %w2, %b2 {spec = \"td,cd->tc\"} : f32[80, 64]\n"
                             "  %y = add %q, %x : f32[80, 64]\n"
                             "  return %y\n}\n";

static void run_layers(vtb_precision precision, bool library, float *y, const float *x) {
  static float w1[96 * 64], b1[96], w2[64 * 96], b2[64];
  vtb_module *m = parse(layers);
  vtb_launch_plan *plan = NULL;
  vtb_program *p = NULL;
  vtb_error err = {0};
  unsigned long long seed = 5;
  vtb_codegen_options o = {.precision = precision, .library = library};
  CHECK_MSG(cuda_plan(m, m->entry, &o, &plan, &err) == VTB_OK, "%s", err.text);
  if (!plan) exit(1);
  CHECK(plan->n_gemms == (library ? 2 : 0));
  for (int i = 0; i < plan->n_gemms; i++) {
    bool narrow = precision != VTB_PRECISION_FP32, result = precision == VTB_PRECISION_BF16_ALL;
    CHECK(plan->gemms[i].narrow_factors == narrow && plan->gemms[i].narrow_result == result);
  }
  CHECK_MSG(vtb_emulator_program(plan, NULL, &p, &err) == VTB_OK, "%s", err.text);
  if (!p) exit(1);
  for (int i = 0; i < 96 * 64; i++)
    w1[i] = (float)test_random(&seed), w2[i] = (float)test_random(&seed) / 8;
  for (int i = 0; i < 96; i++) b1[i] = (float)test_random(&seed);
  for (int i = 0; i < 64; i++) b2[i] = (float)test_random(&seed);
  vtb_services *s = vtb_services_default(1);
  CHECK_MSG(vtb_program_execute(p, (void *[]){(void *)(uintptr_t)x, w1, b1, w2, b2, y}, NULL, s,
                                &err) == VTB_OK,
            "%s", err.text);
  vtb_services_free(s);
  vtb_program_free(p);
  vtb_module_free(m);
}

TEST(the_library_takes_narrow_factors) {
  static float x[80 * 64], want[80 * 64], got[80 * 64];
  static const struct {
    vtb_precision precision;
    double most;
  } cases[] = {{VTB_PRECISION_FP32, 1e-5},
               {VTB_PRECISION_FP16, 5e-3},
               {VTB_PRECISION_BF16, 4e-2},
               {VTB_PRECISION_BF16_ALL, 6e-2}};
  unsigned long long seed = 8;
  for (int i = 0; i < 80 * 64; i++) x[i] = (float)test_random(&seed);
  run_layers(VTB_PRECISION_FP32, false, want, x);
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    double worst = 0, largest = 0;
    run_layers(cases[c].precision, true, got, x);
    for (int i = 0; i < 80 * 64; i++) {
      worst = fmax(worst, fabs((double)got[i] - (double)want[i]));
      largest = fmax(largest, fabs((double)want[i]));
    }
    CHECK_MSG(worst < cases[c].most * largest, "precision %d: error %g of %g",
              (int)cases[c].precision, worst, largest);
  }
}

int main(void) {
  RUN(what_only_products_read_is_narrow);
  RUN(what_is_computed_of_narrow_values_is_narrow);
  RUN(what_others_read_is_wide);
  RUN(what_products_read_is_narrow_whoever_else_reads_it);
  RUN(the_library_takes_narrow_factors);
  RUN(factors_are_rounded_once_wherever_they_lie);
  return test_done();
}
