/* 16-bit factors in the emulator: fp16 rounded as the hardware does (nearest even, infinity,
 * subnormals), its products on real fragment layouts, and whole products at every precision. */
#include "tests/codegen/cuda_check.h"

/* What fp16 makes of v, in exact arithmetic. */
static double rounded(double v) {
  int e;
  if (v == 0 || !isfinite(v)) return v;
  frexp(v, &e); /* |v| in [2^(e-1), 2^e) */
  double unit = ldexp(1, (e - 1 < -14 ? -14 : e - 1) - 10), r = rint(v / unit) * unit;
  return fabs(r) > 65504 ? copysign(HUGE_VAL, v) : r;
}

/* 16 values in column 0 of A, ones in row 0 of B: column 0 of the product has them back,
 * rounded. */
TEST(fp16_is_rounded_as_by_the_hardware) {
  static const char text[] =
      "VTB_KERNEL(32, k)(VTB_IN(float) x, VTB_OUT(float) y) {\n"
      "  const int g = vtb_lane() >> 2, t = vtb_lane() & 3, at = vtb_block() * 16 + g;\n"
      "  float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};\n"
      "  const vtb_u32 a[4] = {t ? 0u : vtb_pack_f16(x[at], 0.0f),\n"
      "                        t ? 0u : vtb_pack_f16(x[at + 8], 0.0f), 0u, 0u};\n"
      "  const vtb_u32 b[2] = {t ? 0u : vtb_pack_f16(1.0f, 0.0f), 0u};\n"
      "  vtb_mma_f16_m16n8k16(d, a, b);\n"
      "  if (t == 0) {\n"
      "    y[at] = d[0];\n"
      "    y[at + 8] = d[2];\n"
      "  }\n"
      "}\n";
  enum { N = 2048 };
  static float x[N] = {65504,    65519.996f, 65520,     -65520,       0x1p-25f,     0x1.8p-25f,
                       0x1p-24f, -0x1p-26f,  1e30f,     0x1.ffep-15f, 0x1.fffp-15f, 2049,
                       2051,     -0.0f,      HUGE_VALF, 0x1p-14f};
  static float y[N];
  unsigned long long seed = 4;
  for (int i = 16; i < N; i++) { /* every power of two from 2^-26 to 2^17; every other one a tie */
    double fraction =
        i % 2 ? test_random(&seed) : 1 + floor(1024 * fabs(test_random(&seed))) / 1024 + 0x1p-11;
    x[i] = (float)ldexp(fraction, i % 44 - 26);
  }
  vtb_emu_arg args[] = {EMU_ARG(x), EMU_ARG(y)};
  vtb_emulator_launch l = {.grid = N / 16, .threads = 32, .n_args = 2, .args = args};
  emulate_ok(text, &l, true, 1);
  for (int i = 0; i < N; i++)
    CHECK_MSG((double)y[i] == rounded((double)x[i]), "%a becomes %a, want %a", (double)x[i],
              (double)y[i], rounded((double)x[i]));
  CHECK(y[1] == 65504 && isinf(y[2]) && y[4] == 0 && y[5] == 0x1p-24f && y[11] == 2048 &&
        y[12] == 2052);
}

TEST(fp16_fragments) {
  static const char text[] =
      "VTB_FN vtb_u32 pair(VTB_IN(float) m, int at, int step) {\n"
      "  return vtb_pack_f16(m[at], m[at + step]);\n"
      "}\n"
      "VTB_KERNEL(32, k)(VTB_IN(float) a, VTB_IN(float) b, VTB_OUT(float) c) {\n"
      "  const int g = vtb_lane() >> 2, t = 2 * (vtb_lane() & 3);\n"
      "  float d[4] = {1.0f, 0.0f, 0.0f, 0.0f};\n"
      "  const vtb_u32 fa[4] = {pair(a, g * 16 + t, 1), pair(a, (g + 8) * 16 + t, 1),\n"
      "                         pair(a, g * 16 + t + 8, 1), pair(a, (g + 8) * 16 + t + 8, 1)};\n"
      "  const vtb_u32 fb[2] = {pair(b, t * 8 + g, 8), pair(b, (t + 8) * 8 + g, 8)};\n"
      "  vtb_mma_f16_m16n8k16(d, fa, fb);\n"
      "  c[g * 8 + t] = d[0] - 1.0f;\n"
      "  c[g * 8 + t + 1] = d[1];\n"
      "  c[(g + 8) * 8 + t] = d[2];\n"
      "  c[(g + 8) * 8 + t + 1] = d[3];\n"
      "}\n";
  float a[256], b[128], c[128];
  for (int i = 0; i < 256; i++) a[i] = (float)((i * 37) % 19 - 9);
  for (int i = 0; i < 128; i++) b[i] = (float)((i * 23) % 17 - 8);
  vtb_emu_arg args[] = {EMU_ARG(a), EMU_ARG(b), EMU_ARG(c)};
  vtb_emulator_launch l = {.grid = 1, .threads = 32, .n_args = 3, .args = args};
  emulate_ok(text, &l, true, 1);
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 8; j++) {
      float want = 0;
      for (int p = 0; p < 16; p++) want += a[i * 16 + p] * b[p * 8 + j];
      CHECK(c[i * 8 + j] == want);
    }
}

/* ---- products at every precision ------------------------------------------------------------- */

static void run_product(vtb_precision precision, double scale, double *worst, bool *finite) {
  enum { M = 40, K = 35, N = 24 };
  static const char text[] = "entry func @f(%a: f32[40, 35], %b: f32[35, 24]) -> (f32[40, 24]) {\n"
                             "  %c = einsum %a, %b {spec = \"mk,kn->mn\"} : f32[40, 24]\n"
                             "  return %c\n}\n";
  static float a[M * K], b[K * N], c[M * N];
  vtb_diags diags = {0};
  vtb_error err = {0};
  vtb_source source = {.path = "product.ir", .text = text, .n = strlen(text)};
  vtb_module *m = vtb_module_parse(&source, &diags);
  vtb_launch_plan *plan = NULL;
  vtb_program *p = NULL;
  unsigned long long seed = 9;
  for (int i = 0; i < M * K; i++) a[i] = (float)(scale * test_random(&seed));
  for (int i = 0; i < K * N; i++) b[i] = (float)test_random(&seed);
  vtb_status status =
      m ? cuda_plan(m, m->entry, &(vtb_codegen_options){.precision = precision}, &plan, &err)
        : VTB_E_INPUT;
  if (status == VTB_OK) status = vtb_emulator_program(plan, NULL, &p, &err);
  vtb_services *s = vtb_services_default(1);
  if (status == VTB_OK) status = vtb_program_execute(p, (void *[]){a, b, c}, NULL, s, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  *worst = 0;
  *finite = true;
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      double want = 0;
      for (int k = 0; k < K; k++) want += (double)a[i * K + k] * (double)b[k * N + j];
      *worst = fmax(*worst, fabs((double)c[i * N + j] - want) / (scale * sqrt(K)));
      *finite &= isfinite(c[i * N + j]) != 0;
    }
  vtb_services_free(s);
  vtb_program_free(p);
  vtb_module_free(m);
  vtb_diags_free(&diags);
}

TEST(products_are_as_exact_as_their_factors) {
  static const struct {
    vtb_precision precision;
    double least, most; /* of the largest error over the size of a sum */
  } cases[] = {{VTB_PRECISION_FP32, 0, 1e-6},
               {VTB_PRECISION_TF32, 1e-5, 1e-3},
               {VTB_PRECISION_BF16, 1e-4, 8e-3},
               {VTB_PRECISION_FP16, 1e-5, 1e-3}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double worst;
    bool finite;
    run_product(cases[i].precision, 1, &worst, &finite);
    CHECK_MSG(finite && worst > cases[i].least && worst < cases[i].most, "precision %d: error %g",
              (int)i, worst);
    run_product(cases[i].precision, 1e6, &worst, &finite); /* beyond fp16 */
    CHECK_MSG(finite == (cases[i].precision != VTB_PRECISION_FP16), "precision %d", (int)i);
    run_product(cases[i].precision, 1e-9, &worst, &finite); /* below it */
    CHECK_MSG((worst < cases[i].most) == (cases[i].precision != VTB_PRECISION_FP16),
              "precision %d: error %g", (int)i, worst);
  }
}

/* Factors of 16 bits in memory (parameters get a narrow copy), every row of product/tile.c, edges
 * in all directions. */
TEST(every_tile_gives_the_same) {
  enum { M = 262, K = 72, N = 260, TILES = 9 };
  vtb_strbuf text = {0}, returns = {0}, types = {0};
  for (int t = 0; t < TILES; t++) {
    vtb_strbuf_printf(&types, "%sf32[262, 260]", t ? ", " : "");
    vtb_strbuf_printf(&returns, "%s%%c%d", t ? ", " : "", t);
  }
  vtb_strbuf_printf(&text,
                    "entry func @f(%%a: f32[262, 72] param \"a\", %%b: f32[260, 72] param \"b\") "
                    "-> (%s) {\n",
                    types.at);
  for (int t = 0; t < TILES; t++)
    vtb_strbuf_printf(&text,
                      "  %%c%d = einsum %%a, %%b {spec = \"mk,nk->mn\", tile = %d} : f32[262, "
                      "260]\n",
                      t, t);
  vtb_strbuf_printf(&text, "  return %s\n}\n", returns.at);
  static float a[M * K], b[N * K], c[TILES][M * N];
  vtb_diags diags = {0};
  vtb_error err = {0};
  vtb_source source = {.path = "tiles.ir", .text = text.at, .n = text.n};
  vtb_module *m = vtb_module_parse(&source, &diags);
  vtb_diags_print(&diags, stderr);
  vtb_launch_plan *plan = NULL;
  vtb_program *p = NULL;
  unsigned long long seed = 11;
  for (int i = 0; i < M * K; i++) a[i] = (float)test_random(&seed);
  for (int i = 0; i < N * K; i++) b[i] = (float)test_random(&seed);
  vtb_status status =
      m ? cuda_plan(m, m->entry, &(vtb_codegen_options){.precision = VTB_PRECISION_BF16}, &plan,
                    &err)
        : VTB_E_INPUT;
  int narrow = 0;
  for (int s = 0; plan && s < plan->n_sources; s++)
    narrow += strstr(plan->sources[s].text, "typedef vtb_bf16 A;") != NULL;
  CHECK(narrow > 0);
  if (status == VTB_OK) status = vtb_emulator_program(plan, NULL, &p, &err);
  vtb_services *services = vtb_services_default(1);
  void *tensors[2 + TILES] = {a, b};
  for (int t = 0; t < TILES; t++) tensors[2 + t] = c[t];
  void *workspace = p ? vtb_aligned_alloc((size_t)p->workspace_bytes + 64) : NULL;
  if (status == VTB_OK) status = vtb_program_execute(p, tensors, workspace, services, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  double worst = 0;
  for (int t = 0; t < TILES; t++)
    for (int i = 0; i < M * N; i += 7) {
      double want = 0;
      for (int k = 0; k < K; k++) want += (double)a[i / N * K + k] * (double)b[i % N * K + k];
      double error = fabs((double)c[t][i] - want) / sqrt(K);
      if (!(error <= worst)) worst = error;
      CHECK_MSG(fabsf(c[t][i] - c[0][i]) < 1e-4f, "tile %d, element %d", t, i);
    }
  CHECK_MSG(worst > 1e-4 && worst < 8e-3, "error %g", worst);
  free(workspace);
  vtb_services_free(services);
  vtb_program_free(p);
  vtb_module_free(m);
  vtb_diags_free(&diags);
  vtb_strbuf_free(&text);
  vtb_strbuf_free(&returns);
  vtb_strbuf_free(&types);
}

/* ---- which products get which factors -------------------------------------------------------- */

enum { CARRIED = 64, ENDING = 80 }; /* their numbers of columns tell the two products apart */

/* The precisions in the texts of a product that is carried on and of a parameter's gradient. */
static void precisions_of(const char *returns, const char *more, vtb_precision precision,
                          int *carried, int *ending) {
  vtb_strbuf text = {0};
  vtb_strbuf_printf(
      &text,
      "entry func @f(%%x: f32[2, 20, 48], %%w: f32[48, %d], %%u: f32[2, 20, %d], %%k: f32[2, 20, "
      "1, 4], "
      "%%g: f32[2, 20, 1]) -> (f32[2, 20, %d], f32[48, %d]) "
      "{\n  %%y = einsum %%x, %%w {spec = \"btk,kn->btn\"} : f32[2, 20, %d]\n"
      "  %%d = einsum %%x, %%u {spec = \"btk,btn->kn\"} : f32[48, %d]\n%s  return %%y, %%d\n}\n",
      CARRIED, ENDING, CARRIED, ENDING, CARRIED, ENDING, more);
  vtb_source source = {.path = "two.ir", .text = text.at, .n = text.n};
  vtb_diags diags = {0};
  vtb_error err = {0};
  vtb_module *m = vtb_module_parse(&source, &diags);
  vtb_diags_print(&diags, stderr);
  CHECK(m != NULL);
  if (!m) exit(1);
  const char *names[] = {"y", returns};
  vtb_launch_plan *plan = NULL;
  vtb_func_set_returns(m->entry, m->entry->returns, names, 2);
  CHECK_MSG(cuda_plan(m, m->entry, &(vtb_codegen_options){.precision = precision}, &plan, &err) ==
                VTB_OK,
            "%s", err.text);
  *carried = *ending = -1;
  for (int i = 0; plan && i < plan->n_sources; i++)
    for (const char *at = plan->sources[i].text; (at = strstr(at, "constexpr int M = ")); at++) {
      const char *n = strstr(at, ", N = "), *factors = strstr(at, "FACTORS = ");
      if (n && factors && atoi(n + 6) == 64) *carried = atoi(factors + strlen("FACTORS = "));
      if (n && factors && atoi(n + 6) == 80) *ending = atoi(factors + strlen("FACTORS = "));
    }
  vtb_launch_plan_free(plan);
  vtb_module_free(m);
  vtb_diags_free(&diags);
  vtb_strbuf_free(&text);
}

TEST(factors_follow_what_is_built_on_them) {
  enum { FP32, TF32, BF16, FP16, SPLIT }; /* of text/products.cuh */
  static const char scan[] = "  %s, %S = linscan %k, %k, %k, %g {class = \"scalar\"} : f32[2, 20, "
                             "1, 4], f32[2, 1, 4, 4]\n";
  static const struct {
    const char *returns, *more;
    vtb_precision precision;
    int carried, ending;
  } cases[] = {
      {"z", "", VTB_PRECISION_FP32, FP32, FP32},     {"d:w", "", VTB_PRECISION_FP32, FP32, FP32},
      {"z", "", VTB_PRECISION_TF32, TF32, TF32},     {"z", "", VTB_PRECISION_BF16, BF16, BF16},
      {"d:w", "", VTB_PRECISION_BF16, TF32, BF16},   {"d:w", "", VTB_PRECISION_FP16, FP16, FP16},
      {"z", scan, VTB_PRECISION_BF16, SPLIT, BF16},  {"d:w", scan, VTB_PRECISION_FP16, SPLIT, FP16},
      {"d:w", scan, VTB_PRECISION_TF32, SPLIT, TF32}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int carried, ending;
    precisions_of(cases[i].returns, cases[i].more, cases[i].precision, &carried, &ending);
    CHECK_MSG(carried == cases[i].carried && ending == cases[i].ending, "case %d: %d and %d",
              (int)i, carried, ending);
  }
}

int main(void) {
  emulate_or_skip();
  RUN(fp16_is_rounded_as_by_the_hardware);
  RUN(fp16_fragments);
  RUN(products_are_as_exact_as_their_factors);
  RUN(every_tile_gives_the_same);
  RUN(factors_follow_what_is_built_on_them);
  return test_done();
}
