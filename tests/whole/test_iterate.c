/* Loops kept at run time: what they compute, their gradients, and that a program of many steps is
 * one of one step. tests/lang/loops.vtb has each beside its steps written out. */
#include "frontend/lang/lang.h"
#include "ir/fold.h"
#include "ir/ops.h"
#include "tests/passes/grad_check.h"

static vtb_module *instantiate(const char *text) {
  static const char *const dirs[] = {VTB_SOURCE_DIR "/models"};
  static const vtb_search s = {.dirs = dirs, .n_dirs = 1};
  vtb_diags diags = {0};
  vtb_unit *u = vtb_unit_load_text("loop.vtb", text, strlen(text), &s, &diags);
  vtb_module *m = u ? vtb_instantiate(u, NULL, &(vtb_instantiate_options){0}, &diags) : NULL;
  if (diags.list.n) vtb_diags_print(&diags, stderr);
  CHECK(m != NULL);
  if (!m) exit(1);
  vtb_unit_free(u);
  vtb_diags_free(&diags);
  return m;
}

static int instructions(const vtb_module *m, int op) {
  int n = 0;
  for (const vtb_func *f = m->first; f; f = f->next)
    for (const vtb_inst *i = f->first; i; i = i->next) n += op < 0 || (int)i->op == op;
  return n;
}

static const char euler[] = "use std.nn\nmodel m(n: int = %d) {\n  input x: tokens[2x2, 4]\n"
                            "  iterate n as i { x += linear(\"v\", x, 4) * float(i) / n }\n"
                            "  output y = x\n}\n";

static vtb_module *euler_of(int n) {
  char text[400];
  snprintf(text, sizeof text, euler, n);
  return instantiate(text);
}

TEST(many_steps_are_one_body) {
  vtb_module *one = euler_of(1), *many = euler_of(250);
  CHECK(instructions(many, -1) == instructions(one, -1));
  CHECK(instructions(many, VTB_OP_fold) == 1);
  CHECK(many->entry->n_args == 3); /* x, and the params of one declaration */
  vtb_module_free(one);
  vtb_module_free(many);
}

/* The body of a loop is small: what is the same at all steps stands before it. */
TEST(what_no_step_changes_is_computed_once) {
  vtb_module *m = instantiate("model m() {\n  input x: tensor[4]\n  y = x\n"
                              "  iterate 9 { y += exp(x) * exp(y) }\n  output z = y\n}\n");
  const vtb_func *body = vtb_module_find(m, "loop");
  int inside = 0;
  for (const vtb_inst *i = body ? body->first : NULL; i; i = i->next) inside += i->op == VTB_OP_exp;
  CHECK(body && inside == 1 && instructions(m, VTB_OP_exp) == 2);
  vtb_module_free(m);
}

/* A loop of one step may not be run: what it computes alone is within it. */
TEST(a_branch_holds_its_work) {
  vtb_module *m =
      instantiate("model m() {\n  input x: tensor[4]\n  y = x\n"
                  "  iterate while mean(x, axis = \"all\") > 0, most = 1 { y = exp(x) }\n"
                  "  output z = y\n}\n");
  int outside = 0;
  for (const vtb_inst *i = m->entry->first; i; i = i->next) outside += i->op == VTB_OP_exp;
  CHECK(outside == 0 && instructions(m, VTB_OP_exp) == 1);
  vtb_module_free(m);
}

static const char root[] = "fn root(a: tensor) {\n  r = a\n"
                           "  iterate while amax(abs(r * r - a)) > 0.003, most = 20 {\n"
                           "    r = 0.5 * (r + a / r)\n  }\n  return r\n}\n"
                           "block loop_back(x: tensor) { return linear(\"b\", x, 3) }\n";

static void check_gradient(const char *what, const char *body) {
  vtb_strbuf s = {0};
  vtb_strbuf_printf(&s, "use std.nn\n%smodel m() {\n  input x: tensor[3]\n%s}\n", root, body);
  vtb_module *m = instantiate(s.at);
  vtb_pass_context compile = {.module = m};
  vtb_error err = {0};
  vtb_pipeline_options o = {.pipeline = "tangents", .verify_each = true};
  CHECK_MSG(vtb_run_pipeline(&compile, &o, &err) == VTB_OK, "%s", err.text);
  grad_case c = grad_case_new(m->entry, 0, 0);
  int failures = test_failures;
  grad_compare(&c, 2e-6);
  CHECK_MSG(test_failures == failures, "the gradient of %s", what);
  grad_case_free(&c);
  vtb_module_free(m);
  vtb_strbuf_free(&s);
}

TEST(gradients_match_differences) {
  check_gradient("steps with params, numbers and the index",
                 "  s = 0.5\n  w = param w: [3] ~ normal(1)\n"
                 "  iterate 4 as i {\n    x += tanh(linear(\"v\", x, 3) * (1 + float(i)) + w) * s\n"
                 "    s = cos(s) * mean(w)\n  }\n  output y = x * s\n");
  check_gradient(
      "loops in a loop",
      "  a = x\n  iterate 3 as i {\n    b = a\n    iterate 2 as j { b = sin(b + x * float(j)) }\n"
      "    a = a * b + float(i)\n  }\n  output y = a\n");
  check_gradient("a loop that its samples end",
                 "  a = 0.4 + square(x)\n  r = a\n  e = amax(a)\n"
                 "  iterate while e > 0.003, most = 30 {\n    old = r\n    r = 0.5 * (r + a / r)\n"
                 "    e = amax(abs(r - old))\n  }\n  output y = r\n");
  check_gradient("a loop that ends where a root has no slope",
                 "  z = sum(square(x), axis = \"channels\")\n"
                 "  e = 0 * z + 1 + 2 * int(where(sum(x, axis = \"channels\") > 0, 1.0, 0.0))\n"
                 "  y = z\n  iterate while e > 0.5, most = 4 {\n"
                 "    y += sqrt(e + 0 * z) * z\n    e -= 1 + 0 * z\n  }\n  output y = y\n");
  check_gradient("a loop that ends for all",
                 "  w = param w: [3] ~ normal(1)\n  k = 0.0\n"
                 "  iterate while k < 2.9, most = 9 {\n    k += 0.5\n    x = sin(x * w) + k\n  }\n"
                 "  output y = x * k\n");
  check_gradient("a loop that is not run",
                 "  k = 0.0\n  w = param w: [3] ~ normal(1)\n"
                 "  iterate while k > 1, most = 3 {\n    x = x * w\n    k += 1\n  }\n"
                 "  output y = x + 0 * w\n");
  check_gradient("the tangent of a loop that its samples end",
                 "  r, dr = jvp(root, 0.4 + square(x), sin(x))\n  output y = r\n  output z = dr\n");
  check_gradient("a loop beside a block of its adjoint's name",
                 "  x = loop_back(x) * x\n  iterate 2 { x = sin(x) * mean(x) }\n  output y = x\n");
  check_gradient("draws",
                 "  iterate 3 { x = sin(x * random(x)) + random_normal(x) }\n  output y = x\n");
}

int main(void) {
  RUN(many_steps_are_one_body);
  RUN(what_no_step_changes_is_computed_once);
  RUN(a_branch_holds_its_work);
  RUN(gradients_match_differences);
  return test_done();
}
