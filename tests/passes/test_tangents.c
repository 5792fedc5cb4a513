/* Forward mode, on every op that has a derivative: the lowered tangent against differences along
 * the line, of all arguments together and of each by itself; against reverse mode, <v, J u> =
 * <J^T v, u>; and reverse mode over it against differences. */
#include "tests/passes/op_samples.h"

/* @t(args, tangents of those of `which`) -> the results of @f, then their tangents. */
static vtb_func *tangent_of(vtb_func *f, const bool *which) {
  vtb_func *t = vtb_func_new(f->module, "t", VTB_FUNC_PLAIN, VTB_NO_SPAN);
  vtb_builder b = {.module = f->module, .func = t};
  vtb_value *at[64];
  int64_t wrt[32];
  int n = f->n_args, n_wrt = 0;
  for (int i = 0; i < f->n_args; i++)
    at[i] = vtb_func_add_arg(t, f->args[i]->name, f->args[i]->type);
  for (int i = 0; i < f->n_args; i++) {
    if (!which[i]) continue;
    at[n++] = vtb_func_add_arg(t, "dx", f->args[i]->type);
    wrt[n_wrt++] = i;
  }
  vtb_attr attr = VTB_A_INTS("wrt", wrt, n_wrt);
  vtb_op op;
  CHECK(vtb_op_find("tangent", &op));
  vtb_inst *inst = vtb_build_call(&b, op, f, at, n, &attr, 1);
  vtb_func_set_returns(t, inst->results, NULL, inst->n_results);
  f->module->entry = t;
  return t;
}

static void lower(vtb_module *m) {
  vtb_error err = {0};
  vtb_pass_context c = {.module = m};
  vtb_pipeline_options o = {.pipeline = "tangents,simplify,cse", .verify_each = true};
  CHECK_MSG(vtb_run_pipeline(&c, &o, &err) == VTB_OK, "%s", err.text);
}

typedef struct arguments {
  vtb_tensor *at;
  int n;
} arguments;

static arguments arguments_of(const vtb_func *f, int n_own, double lo, double hi) {
  unsigned long long seed = 2463534242;
  arguments a = {vtb_xcalloc((size_t)f->n_args + 1, sizeof *a.at), f->n_args};
  for (int i = 0; i < f->n_args; i++)
    a.at[i] = grad_random(f->args[i]->type, i < n_own ? lo : 0, i < n_own ? hi : 0, &seed);
  return a;
}

/* Largest error of a tangent, relative to 1 + the tangent. */
static double worst(const vtb_tensor *x, const vtb_tensor *y, int from, int to) {
  double most = 0;
  for (int r = from; r < to; r++)
    for (int64_t i = 0; i < vtb_type_count(&x[r].type); i++) {
      double e = fabs(x[r].data[i] - y[r].data[i]) / (1 + fabs(y[r].data[i]));
      if (!(e <= most)) most = e;
    }
  return most;
}

static void check_sample(const sample *s, const char *text, const bool *which) {
  vtb_module *m = grad_parse(text);
  vtb_func *f = grad_func(m, "f"), *t = tangent_of(f, which);
  arguments a = arguments_of(t, f->n_args, s->lo, s->hi);
  vtb_tensor *want = grad_run(t, a.at);
  lower(m);
  vtb_tensor *got = grad_run(t, a.at);
  double error = worst(got, want, 0, t->n_returns);
  CHECK_MSG(error <= 1e-9, "%s: the tangent is off by %.3g", s->op, error);
  grad_free(want, t->n_returns);
  grad_free(got, t->n_returns);
  grad_free(a.at, a.n);
  vtb_module_free(m);
}

static bool is_float(const vtb_func *f, int i) { return f->args[i]->type.dtype == VTB_F32; }

TEST(tangents_match_differences) {
  for (size_t i = 0; i < N_SAMPLES; i++) {
    vtb_strbuf text = {0};
    sample_text(&samples[i], &text);
    int before = test_failures;
    vtb_module *m = grad_parse(text.at);
    const vtb_func *f = grad_func(m, "f");
    bool which[32] = {false};
    for (int k = 0; k < f->n_args; k++) which[k] = is_float(f, k);
    check_sample(&samples[i], text.at, which);
    for (int k = 0; k < f->n_args && f->n_args > 1; k++) {
      bool one[32] = {false};
      if (!(one[k] = is_float(f, k))) continue;
      check_sample(&samples[i], text.at, one);
    }
    if (test_failures != before) fprintf(stderr, "in the sample\n%s", text.at);
    vtb_module_free(m);
    vtb_strbuf_free(&text);
  }
}

/* <v, J u> = <J^T v, u>. */
TEST(forward_and_reverse_mode_agree) {
  for (size_t i = 0; i < N_SAMPLES; i++) {
    vtb_strbuf text = {0};
    sample_text(&samples[i], &text);
    vtb_module *m = grad_parse(text.at);
    vtb_func *f = grad_func(m, "f");
    grad_case c = grad_case_new(f, samples[i].lo, samples[i].hi);
    bool which[32] = {false};
    for (int k = 0; k < f->n_args; k++) which[k] = is_float(f, k);
    vtb_func *t = tangent_of(f, which);
    arguments a = arguments_of(t, f->n_args, 0, 0);
    for (int k = 0; k < f->n_args; k++)
      memcpy(a.at[k].data, c.args[k].data, (size_t)vtb_type_count(&a.at[k].type) * sizeof(double));
    lower(m);
    vtb_tensor *r = grad_run(t, a.at);
    double left = 0, right = 0;
    for (int k = 0; k < f->n_returns; k++)
      left += grad_dot(&c.args[f->n_args + k], &r[f->n_returns + k]);
    for (int k = f->n_args, d = f->n_returns; k < t->n_args; k++)
      right += grad_dot(&a.at[k], &c.results[d++]);
    CHECK_MSG(fabs(left - right) <= 1e-10 * (1 + fabs(left)),
              "%s: <v, J u> = %.15g, <J^T v, u> = %.15g", samples[i].op, left, right);
    grad_free(r, t->n_returns);
    grad_free(a.at, a.n);
    grad_case_free(&c);
    vtb_module_free(m);
    vtb_strbuf_free(&text);
  }
}

TEST(reverse_mode_goes_over_tangents) {
  for (size_t i = 0; i < N_SAMPLES; i++) {
    vtb_strbuf text = {0};
    sample_text(&samples[i], &text);
    int before = test_failures;
    vtb_module *m = grad_parse(text.at);
    vtb_func *f = grad_func(m, "f");
    bool which[32] = {false};
    for (int k = 0; k < f->n_args; k++) which[k] = is_float(f, k);
    vtb_func *t = tangent_of(f, which);
    lower(m);
    grad_case c = grad_case_new(t, samples[i].lo, samples[i].hi);
    grad_compare(&c, 1e-5);
    if (test_failures != before) fprintf(stderr, "in the sample\n%s", text.at);
    grad_case_free(&c);
    vtb_module_free(m);
    vtb_strbuf_free(&text);
  }
}

/* A tangent of a tangent, of x^3 y along (u, w) and (p, q). */
TEST(tangents_have_tangents) {
  vtb_module *m = grad_parse(
      "func @f(%x: f32[3], %y: f32[3]) -> (f32[3]) {\n"
      "  %s = square %x : f32[3]\n  %c = mul %s, %x : f32[3]\n  %r = mul %c, %y : f32[3]\n"
      "  return %r\n}\n"
      "func @g(%x: f32[3], %y: f32[3], %u: f32[3], %w: f32[3]) -> (f32[3]) {\n"
      "  %v, %d = tangent @f(%x, %y, %u, %w) {wrt = [0, 1]} : f32[3], f32[3]\n  return %d\n}\n"
      "entry func @t(%x: f32[3], %y: f32[3], %u: f32[3], %w: f32[3], %p: f32[3], %q: f32[3]) -> "
      "(f32[3]) {\n"
      "  %v, %d = tangent @g(%x, %y, %u, %w, %p, %q) {wrt = [0, 1]} : f32[3], f32[3]\n"
      "  return %d\n}\n");
  vtb_func *t = grad_func(m, "t");
  arguments a = arguments_of(t, t->n_args, 0, 0);
  lower(m);
  vtb_tensor *r = grad_run(t, a.at);
  for (int i = 0; i < 3; i++) {
    double x = a.at[0].data[i], y = a.at[1].data[i], u = a.at[2].data[i], w = a.at[3].data[i],
           p = a.at[4].data[i], q = a.at[5].data[i];
    CHECK_NEAR(r[0].data[i], 6 * x * y * u * p + 3 * x * x * (u * q + w * p), 1e-12);
  }
  grad_free(r, t->n_returns);
  grad_free(a.at, a.n);
  vtb_module_free(m);
}

TEST(what_stands_still_costs_nothing) {
  vtb_module *m = grad_parse(
      "func @f(%x: f32[B, 5, 2, 3], %v: f32[B, 5, 2, 4], %d: f32[B, 5, 2]) -> (f32[B, 5, 2, 4]) {\n"
      "  %e = exp %v : f32[B, 5, 2, 4]\n"
      "  %y, %s = linscan %x, %x, %e, %d {class = \"scalar\", mode = \"recurrent\"} : "
      "f32[B, 5, 2, 4], f32[B, 2, 3, 4]\n"
      "  return %y\n}\n");
  vtb_func *f = grad_func(m, "f"), *t = tangent_of(f, (bool[]){false, true, false});
  lower(m);
  int exps = 0, scans = 0;
  vtb_op exp, linscan;
  CHECK(vtb_op_find("exp", &exp) && vtb_op_find("linscan", &linscan));
  const vtb_func *dual = t->first->callee;
  for (const vtb_inst *i = dual->first; i; i = i->next) {
    exps += i->op == exp;
    scans += i->op == linscan;
    CHECK(!i->n_results || i->results[0]->type.rank < 5); /* no state is kept */
  }
  CHECK_MSG(exps == 1 && scans == 2, "%d exponentials, %d scans", exps, scans);
  vtb_module_free(m);
}

/* A function that is called where other arguments move has a dual for each; calls alike share
 * one. */
TEST(duals_are_by_what_moves) {
  vtb_module *m = grad_parse(
      "func @g(%a: f32[3], %b: f32[3]) -> (f32[3]) {\n  %s = square %a : f32[3]\n"
      "  %r = mul %s, %b : f32[3]\n  return %r\n}\n"
      "func @f(%x: f32[3], %c: f32[3]) -> (f32[3]) {\n  %p = call @g(%x, %c) : f32[3]\n"
      "  %q = call @g(%c, %x) : f32[3]\n  %o = call @g(%x, %p) : f32[3]\n"
      "  %u = call @g(%x, %c) : f32[3]\n  %v = add %p, %q : f32[3]\n  %w = add %v, %o : f32[3]\n"
      "  %r = add %w, %u : f32[3]\n  return %r\n}\n");
  vtb_func *t = tangent_of(grad_func(m, "f"), (bool[]){true, false});
  arguments a = arguments_of(t, t->n_args, 0, 0);
  lower(m);
  vtb_tensor *r = grad_run(t, a.at);
  for (int i = 0; i < 3; i++) {
    double x = a.at[0].data[i], c = a.at[1].data[i], dx = a.at[2].data[i];
    CHECK_NEAR(r[1].data[i], (4 * x * c + c * c + 4 * x * x * x * c) * dx, 1e-12);
  }
  int n = 0;
  for (const vtb_func *f = m->first; f; f = f->next) n += vtb_streq(f->declared, "g_dual");
  CHECK_MSG(n == 3, "%d duals", n);
  grad_free(r, t->n_returns);
  grad_free(a.at, a.n);
  vtb_module_free(m);
}

int main(void) {
  RUN(tangents_match_differences);
  RUN(forward_and_reverse_mode_agree);
  RUN(reverse_mode_goes_over_tangents);
  RUN(tangents_have_tangents);
  RUN(duals_are_by_what_moves);
  RUN(what_stands_still_costs_nothing);
  return test_done();
}
