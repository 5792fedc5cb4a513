/* Every differentiable op of the table against finite differences, with random cotangents. A
 * differentiable op without a sample fails. */
#include "tests/passes/op_samples.h"

TEST(samples_match_differences) {
  for (size_t i = 0; i < N_SAMPLES; i++) {
    vtb_strbuf text = {0};
    sample_text(&samples[i], &text);
    int before = test_failures;
    grad_check_text(text.at, "f", samples[i].lo, samples[i].hi);
    if (test_failures != before) fprintf(stderr, "in the sample\n%s", text.at);
    vtb_strbuf_free(&text);
  }
}

/* <v, J u> = <J^T v, u>, where J u = f(u) for linear f. */
TEST(linear_ops_transpose_exactly) {
  int n_linear = 0;
  for (size_t i = 0; i < N_SAMPLES; i++) {
    if (!samples[i].linear) continue;
    n_linear++;
    vtb_strbuf text = {0};
    sample_text(&samples[i], &text);
    vtb_module *m = grad_parse(text.at);
    vtb_func *f = grad_func(m, "f");
    grad_case c = grad_case_new(f, 0, 0);
    double left = grad_dot(&c.results[0], &c.args[f->n_args]), right = 0;
    for (int a = 0; a < f->n_args; a++) right += grad_dot(&c.results[f->n_returns + a], &c.args[a]);
    CHECK_MSG(fabs(left - right) <= 1e-12, "%s: <v, Ju> = %.17g, <J'v, u> = %.17g", samples[i].op,
              left, right);
    grad_case_free(&c);
    vtb_module_free(m);
    vtb_strbuf_free(&text);
  }
  CHECK(n_linear > 15);
}

/* Elementwise ops have theirs in test_scalar_ops.c as well, made from their rows. */
TEST(every_differentiable_op_has_a_sample) {
  static const struct {
    const char *op, *grad;
  } rows[] = {
#define VTB_OP(name, klass, min, max, shape, interp, grad, ...) {#name, #grad},
#include "ir/ops.def"
#undef VTB_OP
  };
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    if (vtb_streq(rows[r].grad, "zero") || vtb_streq(rows[r].grad, "not_diff") ||
        vtb_streq(rows[r].grad, "scalar"))
      continue;
    bool found = false;
    for (size_t i = 0; i < N_SAMPLES; i++) found |= vtb_streq(samples[i].op, rows[r].op);
    CHECK_MSG(found, "%s is differentiable and has no sample", rows[r].op);
  }
}

/* ---- what random numbers do not reach -------------------------------------------------------- */

static void check_at(const char *text, const double *x, int n, const double *want) {
  vtb_module *m = grad_parse(text);
  vtb_func *f = grad_func(m, "f");
  vtb_func *g = grad_of(f);
  vtb_tensor args[2] = {vtb_tensor_new(g->args[0]->type), vtb_tensor_new(g->args[1]->type)};
  for (int i = 0; i < n; i++) args[0].data[i] = x[i];
  for (int64_t i = 0; i < vtb_type_count(&args[1].type); i++) args[1].data[i] = 1;
  vtb_tensor *r = grad_run(g, args);
  for (int i = 0; i < n; i++) CHECK_NEAR(r[1].data[i], want[i], 1e-12);
  grad_free(r, g->n_returns);
  vtb_tensor_free(&args[0]);
  vtb_tensor_free(&args[1]);
  vtb_module_free(m);
}

/* An operand that nothing depends on takes its room all the same. */
TEST(parts_of_a_concatenation_get_their_own) {
  check_at("func @f(%x: f32[3]) -> (f32[7]) {\n"
           "  %c = constant {data = [5, 6]} : f32[2]\n"
           "  %s = square %x : f32[3]\n"
           "  %t = slice %s {axis = 0, start = 1, limit = 3} : f32[2]\n"
           "  %k = concat %c, %s, %t {axis = 0} : f32[7]\n"
           "  %w = constant {data = [1, 10, 100, 1000, 10000, 100000, 1000000]} : f32[7]\n"
           "  %y = mul %k, %w : f32[7]\n"
           "  return %y\n}\n",
           (double[]){1, 2, 3}, 3, (double[]){200, 404000, 6060000});
}

TEST(maximum_with_ties_goes_to_the_first) {
  check_at("func @f(%x: f32[2, 3]) -> (f32[2]) {\n  %y = reduce_max %x {axes = [1]} : f32[2]\n  "
           "return %y\n}\n",
           (double[]){1, 2, 2, 5, 5, 5}, 6, (double[]){0, 1, 0, 1, 0, 0});
  check_at("func @f(%x: f32[2, 3]) -> (f32[]) {\n  %y = reduce_max %x {axes = [0, 1]} : f32[]\n  "
           "return %y\n}\n",
           (double[]){1, 2, 7, 7, 5, 7}, 6, (double[]){0, 0, 1, 0, 0, 0});
}

TEST(kinks_follow_the_table) {
  check_at("func @f(%x: f32[3]) -> (f32[3]) {\n  %y = relu %x : f32[3]\n  return %y\n}\n",
           (double[]){-1, 0, 1}, 3, (double[]){0, 0, 1});
  check_at("func @f(%x: f32[3]) -> (f32[3]) {\n  %y = abs %x : f32[3]\n  return %y\n}\n",
           (double[]){-1, 0, 1}, 3, (double[]){-1, 0, 1});
  check_at("func @f(%x: f32[1]) -> (f32[1]) {\n  %z = neg %x : f32[1]\n  %y = max %x, %z : "
           "f32[1]\n  return %y\n}\n",
           (double[]){0}, 1, (double[]){-1});
}

/* Rules that square a large divisor or exponentiate a large argument would give NaN. */
TEST(large_arguments_stay_finite) {
  check_at("func @f(%x: f32[2]) -> (f32[2]) {\n  %y = div %x, %x : f32[2]\n  return %y\n}\n",
           (double[]){1e200, 1e-200}, 2, (double[]){0, 0});
  check_at("func @f(%x: f32[2]) -> (f32[2]) {\n  %y = softplus %x : f32[2]\n  return %y\n}\n",
           (double[]){1e4, -1e4}, 2, (double[]){1, 0});
  check_at("func @f(%x: f32[2]) -> (f32[2]) {\n  %y = log_sigmoid %x : f32[2]\n  return %y\n}\n",
           (double[]){1e4, -1e4}, 2, (double[]){0, 1});
  check_at("func @f(%x: f32[2]) -> (f32[2]) {\n  %y = gelu %x : f32[2]\n  return %y\n}\n",
           (double[]){1e3, -1e3}, 2, (double[]){1, 0});
}

int main(void) {
  RUN(samples_match_differences);
  RUN(linear_ops_transpose_exactly);
  RUN(every_differentiable_op_has_a_sample);
  RUN(parts_of_a_concatenation_get_their_own);
  RUN(maximum_with_ties_goes_to_the_first);
  RUN(kinks_follow_the_table);
  RUN(large_arguments_stay_finite);
  return test_done();
}
