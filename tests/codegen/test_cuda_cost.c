/* What kernels say they do, and what the estimate of a plan makes of it: operations of products as
 * many as the module has or, of padded tiles, more; special functions counted; bytes that the
 * launch before has touched from L2 as long as they fit. */
#include "codegen/codegen.h"
#include "codegen/cuda/compile/text.h"
#include "codegen/cuda/texts.h"
#include "codegen/estimate.h"
#include "tests/codegen/cuda_check.h"

static vtb_launch_plan *plan_of(const char *text, vtb_precision precision) {
  static vtb_source source; /* spans point to it */
  vtb_diags diags = {0};
  vtb_launch_plan *plan = NULL;
  vtb_error err = {0};
  source = (vtb_source){.path = "cost.ir", .text = text, .n = strlen(text)};
  vtb_module *m = vtb_module_parse(&source, &diags);
  vtb_diags_print(&diags, stderr);
  vtb_diags_free(&diags);
  if (!m) exit(1);
  vtb_status status =
      cuda_plan(m, m->entry, &(vtb_codegen_options){.precision = precision}, &plan, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  if (!plan) exit(1);
  vtb_module_free(m);
  return plan;
}

/* Together, of all kernels but prepared ones. */
static vtb_work all_work(const vtb_launch_plan *p) {
  vtb_work sum = {0};
  for (int i = p->n_prepared; i < p->n_steps; i++) {
    const vtb_work *w = &p->work[p->steps[i].index];
    for (int u = 0; u < VTB_N_TENSOR_UNITS; u++) sum.tensor[u] += w->tensor[u];
    sum.issue += w->issue;
    sum.special += w->special;
    sum.chain += w->chain;
  }
  return sum;
}

/* m x k by k x n */
static const char *product(int m, int n, int k) {
  static char text[400];
  snprintf(
      text, sizeof text,
      "entry func @f(%%x: f32[%d, %d] input \"x\", %%w: f32[%d, %d] param \"w\") -> (f32[%d, "
      "%d]) {\n  %%y = einsum %%x, %%w {spec = \"mk,nk->mn\"} : f32[%d, %d]\n  return %%y\n}\n",
      m, k, n, k, m, n, m, n);
  return text;
}

TEST(products) {
  static const int shapes[][3] = {
      {4096, 512, 768}, {1000, 200, 129}, {64, 48, 20000}, {77, 33, 65}};
  static const struct {
    vtb_precision precision;
    vtb_tensor_unit unit;
    double parts;
  } cases[] = {{VTB_PRECISION_FP32, VTB_TENSOR_WARP_TF32, 3},
               {VTB_PRECISION_TF32, VTB_TENSOR_WARP_TF32, 1},
               {VTB_PRECISION_BF16, VTB_TENSOR_WARP_16, 1},
               {VTB_PRECISION_FP16, VTB_TENSOR_WARP_16, 1}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
      int m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
      double flops = cases[c].parts * 2.0 * m * n * k;
      vtb_launch_plan *p = plan_of(product(m, n, k), cases[c].precision);
      vtb_work w = all_work(p);
      double pads = m >= 1000 && k >= 500 ? 1.1 : 6; /* tiles that reach beyond the edges */
      double wide = w.tensor[cases[c].unit - VTB_TENSOR_WARP_16 + VTB_TENSOR_WIDE_16];
      double made = w.tensor[cases[c].unit] + wide;
      CHECK_MSG(made >= flops && made <= pads * flops, "%d x %d x %d: %g flops for %g", m, n, k,
                made, flops);
      CHECK(w.issue > made / 4096 / 32 && w.issue < made / 50); /* wgmma issues little */
      vtb_launch_plan_free(p);
    }
}

/* 128 x 128 numbers and the ops on them. */
static vtb_work elementwise(const char *ops) {
  char text[600];
  snprintf(text, sizeof text,
           "entry func @f(%%x: f32[128, 128] input \"x\") -> (f32[128, 128]) {\n%s  return "
           "%%y\n}\n",
           ops);
  vtb_launch_plan *p = plan_of(text, VTB_PRECISION_FP32);
  vtb_work w = all_work(p);
  vtb_launch_plan_free(p);
  return w;
}

TEST(elementwise_ops) {
  double n = 128 * 128;
  vtb_work plain = elementwise("  %y = mul %x, %x : f32[128, 128]\n"),
           more = elementwise("  %a = mul %x, %x : f32[128, 128]\n"
                              "  %y = add %a, %x : f32[128, 128]\n"),
           one = elementwise("  %y = exp %x : f32[128, 128]\n"),
           silu = elementwise("  %y = silu %x : f32[128, 128]\n");
  CHECK(plain.special == 0 && more.special == 0 && one.special == n);
  CHECK(plain.issue > 3 * n / 32 && plain.issue < 20 * n / 32);
  CHECK(silu.special >= 2 * n && silu.special <= 3 * n); /* an exponential and a reciprocal */
  CHECK(silu.issue > plain.issue + 2 * n / 32);
  CHECK(plain.tensor[0] == 0 && plain.tensor[1] == 0);
}

/* What a thread keeps of rows and columns is counted: a row of 768 numbers is 24 a lane of a
 * warp. */
TEST(registers_of_rows) {
  static const char text[] =
      "entry func @f(%x: f32[512, 768] input \"x\") -> (f32[512, 768]) {\n"
      "  %y = fused @norm(%x) {kind = \"row\"} : f32[512, 768]\n  return %y\n}\n"
      "kernel @norm(%x: f32[512, 768]) -> (f32[512, 768]) {\n"
      "  %m = reduce_max %x {axes = [1], keep = 1} : f32[512, 1]\n"
      "  %d = sub %x, %m : f32[512, 768]\n  %e = exp %d : f32[512, 768]\n"
      "  %s = reduce_sum %e {axes = [1], keep = 1} : f32[512, 1]\n"
      "  %y = div %e, %s : f32[512, 768]\n  return %y\n}\n";
  vtb_launch_plan *p = plan_of(text, VTB_PRECISION_FP32);
  double registers = p->work[p->steps[0].index].registers;
  CHECK_MSG(registers >= 36 + 24 && registers <= 36 + 2 * 24, "%g", registers);
  vtb_launch_plan_free(p);
}

/* A second op reads what the first has written: from L2 if both fit. */
static void check_chain(int rows, bool cached) {
  char text[600];
  snprintf(text, sizeof text,
           "entry func @f(%%x: f32[%d, 1024] input \"x\") -> (f32[%d, 1024], f32[1024]) {\n"
           "  %%a = exp %%x : f32[%d, 1024]\n"
           "  %%y = reduce_sum %%a {axes = [0], keep = 0} : f32[1024]\n  return %%a, %%y\n}\n",
           rows, rows, rows);
  vtb_launch_plan *p = plan_of(text, VTB_PRECISION_FP32);
  vtb_launch_estimates each = {0};
  vtb_estimate e = vtb_estimate_plan(p, vtb_gpu_find("h200"), &each);
  double sum = 0, from_l2 = 0;
  CHECK(each.n == (size_t)e.launches && each.n >= 2);
  for (size_t i = 0; i < each.n; i++) {
    const vtb_launch_estimate *l = &each.at[i];
    sum += l->runs * l->time.seconds;
    from_l2 += l->l2_bytes;
    CHECK(l->time.seconds > 0 && isfinite(l->time.seconds) && l->bytes >= 0 && l->l2_bytes >= 0);
    CHECK(*l->name && l->blocks >= 1 && l->threads >= 32);
    CHECK(l->time.resident >= 1 && l->time.waves > 0);
  }
  CHECK_NEAR(sum, e.seconds, 1e-12);
  CHECK(e.bytes >= 2.0 * rows * 1024 * 4);
  CHECK_MSG(cached ? from_l2 >= rows * 4096.0 : from_l2 < rows * 4096.0, "%d rows: %g from L2",
            rows, from_l2);
  vtb_vec_free(&each);
  vtb_launch_plan_free(p);
}

TEST(what_was_just_written_is_in_l2) {
  check_chain(1000, true);   /* 4 MB */
  check_chain(50000, false); /* 200 MB, four times what an H200's L2 has */
}

/* Structured kernels cannot be guessed: their texts declare what a block does. */
TEST(structured_texts_declare_costs) {
  for (int i = 0; i < vtb__cuda_n_texts; i++) {
    const char *name = vtb__cuda_texts[i].name, *text = vtb__cuda_texts[i].text;
    bool structured =
        strstr(text, "#include \"products.cuh\"") || strstr(text, "#include \"scans.cuh\"");
    if (!vtb_ends_with(name, ".cu") || !structured) continue;
    CHECK_MSG(strstr(text, "\ncost issue = "), "%s does not say what a block does: cost issue",
              name);
    CHECK_MSG(strstr(text, "\ncost registers = "), "%s does not say cost registers", name);
    if (strstr(text, "FACTORS"))
      CHECK_MSG(strstr(text, "\ncost tensor = ") || strstr(text, "\ncost wide = "),
                "%s makes products, but says no cost tensor", name);
  }
}

int main(void) {
  RUN(products);
  RUN(elementwise_ops);
  RUN(registers_of_rows);
  RUN(what_was_just_written_is_in_l2);
  RUN(structured_texts_declare_costs);
  return test_done();
}
