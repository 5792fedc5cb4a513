/* Products with parameters become products of 8 bits, the others stay, and it is told how many. */
#include "ir/int8.h"
#include "ir/ops.h"
#include "tests/passes/pass_check.h"

static vtb_module *quantized(const char *text, vtb_quantized *told) {
  vtb_module *m = parse_ir(text);
  vtb_pass_context c = {.module = m, .batch = 2, .int8 = true, .quantized = told};
  *told = (vtb_quantized){0};
  CHECK(m && run_passes_in(&c, "quantize"));
  return m;
}

/* A function that is called twice, with other parameters each time. */
static const char calls[] =
    "func @layer(%x: f32[2, 5, 40], %w: f32[40, 40], %b: f32[40]) -> (f32[2, 5, 40]) {\n"
    "  %y = einsum %x, %w, %b {spec = \"bnc,ec->bne\"} : f32[2, 5, 40]\n"
    "  return %y\n"
    "}\n"
    "entry func @f(%x: f32[2, 5, 40] input \"x\", %w: f32[40, 40] param \"w\", %v: f32[40, 40] "
    "param \"v\", %b: f32[40] param \"b\") -> (f32[2, 5, 40]) {\n"
    "  %y = call @layer(%x, %w, %b) : f32[2, 5, 40]\n"
    "  %z = call @layer(%y, %v, %b) : f32[2, 5, 40]\n"
    "  return %z\n"
    "}\n";

TEST(products_of_what_is_called) {
  vtb_quantized told;
  vtb_module *m = quantized(calls, &told);
  CHECK(count_ops(m, VTB_OP_product8) == 1 && count_ops(m, VTB_OP_einsum) == 0);
  CHECK(told.n[VTB_QUANTIZED] == 2);
  vtb_strbuf text = {0};
  vtb_quantized_print(&told, &text);
  CHECK_STR(text.at, "int8: 2 of 2 products with parameters, 100.0 % of their work");
  vtb_strbuf_free(&text);
  vtb_module_free(m);
}

/* One of the calls brings something else than a parameter. */
TEST(matrices_that_are_computed_stay) {
  char text[2048];
  vtb_quantized told;
  snprintf(text, sizeof text, "%s", calls);
  char *at = strstr(text, "%v: f32[40, 40] param \"v\"");
  memcpy(at, "%v: f32[40, 40] input \"v\"", 25);
  vtb_module *m = quantized(text, &told);
  CHECK(count_ops(m, VTB_OP_product8) == 0 && told.n[VTB_QUANTIZED] == 0);
  vtb_module_free(m);
}

TEST(nothing_is_done_unasked) {
  vtb_module *m = parse_ir(calls);
  CHECK(run_passes(m, "quantize") && count_ops(m, VTB_OP_product8) == 0);
  vtb_module_free(m);
}

TEST(what_stays_and_why) {
  vtb_quantized told;
  vtb_module *m = quantized(
      "entry func @f(%x: f32[2, 5, 40] input \"x\", %w: f32[8, 40] param \"w\", %g: f32[10, 4, 4] "
      "param \"g\", %t: f32[40, 64] param \"t\", %s: f32[5, 40, 64] param \"s\") -> "
      "(f32[2, 5, 8], f32[2, 5, 10, 4], f32[2, 5, 64], f32[2, 64]) {\n"
      "  %a = einsum %x, %w {spec = \"bnc,ec->bne\"} : f32[2, 5, 8]\n"
      "  %r = reshape %x {shape = [2, 5, 10, 4]} : f32[2, 5, 10, 4]\n"
      "  %b = einsum %r, %g {spec = \"bngi,goi->bngo\"} : f32[2, 5, 10, 4]\n"
      "  %c = einsum %x, %t {spec = \"bnc,ce->bne\"} : f32[2, 5, 64]\n"
      "  %d = einsum %x, %s {spec = \"bnc,nce->be\"} : f32[2, 64]\n"
      "  return %a, %b, %c, %d\n"
      "}\n",
      &told);
  CHECK(told.n[VTB_QUANTIZED] == 1 && told.n[VTB_LEFT_NARROW] == 1 &&
        told.n[VTB_LEFT_BLOCKS] == 1 && told.n[VTB_LEFT_FORM] == 1);
  CHECK(count_ops(m, VTB_OP_transpose) == 1); /* of the matrix that lies the other way */
  vtb_strbuf text = {0};
  vtb_quantized_print(&told, &text);
  CHECK_MSG(strstr(text.at, "1 of 4 products") && strstr(text.at, "1 of small matrices a group"),
            "%s", text.at);
  vtb_strbuf_free(&text);
  vtb_module_free(m);
}

/* Within what 8 bits lose of sums of forty random products. */
TEST(results_are_near) {
  vtb_quantized told;
  vtb_module *before = parse_ir(calls), *after = quantized(calls, &told);
  double error = compare_modules(before, after, 5);
  CHECK_MSG(error > 1e-3 && error < 0.3, "an error of %g", error);
  vtb_module_free(before);
  vtb_module_free(after);
}

int main(void) {
  RUN(products_of_what_is_called);
  RUN(matrices_that_are_computed_stay);
  RUN(nothing_is_done_unasked);
  RUN(what_stays_and_why);
  RUN(results_are_near);
  return test_done();
}
