/* Recurrences that are not linear in their state: run step after step, with the right gradients. */
#include "tests/passes/grad_check.h"
#include "ir/ops.h"
#include "tests/passes/pass_check.h"

/* A cell with two states that read each other through a matrix, tanh and a quotient. heads: "", ",
 * h=2", ", h=2, g=3"; attrs: further attributes; inits: initial states as operands. */
typedef struct cell {
  const char *heads, *attrs;
  bool inits, matrix_by_head;
  int tokens;
} cell;

static vtb_module *cell_module(const cell *c) {
  vtb_strbuf s = {0};
  const char *h = c->heads, *first = *h ? h + 2 : "";
  bool by_head = c->matrix_by_head && *h;
  vtb_strbuf_printf(&s,
                    "entry func @f(%%u: f32[B, N=%d%s, 3], %%g: f32[B, N=%d%s], %%A: f32[%s%s3, 3]",
                    c->tokens, h, c->tokens, h, by_head ? first : "", by_head ? ", " : "");
  if (c->inits) vtb_strbuf_printf(&s, ", %%p0: f32[B%s, 3], %%q0: f32[B%s, 3]", h, h);
  vtb_strbuf_printf(&s, ") -> (f32[B, N=%d%s, 3], f32[B%s, 3], f32[B%s, 3]) {\n", c->tokens, h, h,
                    h);
  vtb_strbuf_printf(&s,
                    "  %%y, %%p, %%q, %%m = recurrence @cell(%s%%u, %%g, %%A) {states = 2, inits = "
                    "%d, seqs = 2%s}",
                    c->inits ? "%p0, %q0, " : "", c->inits ? 2 : 0, c->attrs);
  vtb_strbuf_printf(&s, " : f32[B, N=%d%s, 3], f32[B%s, 3], f32[B%s, 3], f32[B%s]\n", c->tokens, h,
                    h, h, h);
  vtb_strbuf_puts(
      &s, "  return %y, %p, %q\n}\n"
          "step @cell(%p: f32[3], %q: f32[3], %u: f32[3], %g: f32[], %A: f32[3, 3]) -> (f32[3], "
          "f32[3], "
          "f32[3]) {\n"
          "  %Aq = einsum %A, %q {spec = \"ab,b->a\"} : f32[3]\n  %t0 = add %u, %Aq : f32[3]\n"
          "  %t = tanh %t0 : f32[3]\n  %d = sigmoid %g : f32[]\n  %dp = mul %d, %p : f32[3]\n"
          "  %p2 = add %dp, %t : f32[3]\n  %one = constant {value = 2} : f32[]\n"
          "  %pp = mul %p2, %p2 : f32[3]\n  %size = add %one, %pp : f32[3]\n"
          "  %q2 = div %p2, %size : f32[3]\n  return %p2, %q2, %q2\n}\n");
  return parse_ir(s.at);
}

static const cell cells[] = {
    {"", "", false, false, 5},
    {", h=2", "", false, true, 4},
    {", h=2", ", mode = \"recurrent\", path = \"snake@2x3\"", true, false, 6},
    {", h=2, g=3", ", path = \"rows~@1x5\"", true, true, 5},
    {"", "", true, false, 1},
};
enum { N_CELLS = sizeof cells / sizeof *cells };

static bool lower(vtb_module *m, vtb_diags *d) {
  vtb_error err = {0};
  vtb_pass_context c = {.module = m, .diags = d, .batch = GRAD_BATCH};
  vtb_pipeline_options o = {.pipeline = vtb_pipeline_graph, .verify_each = true};
  return vtb_run_pipeline(&c, &o, &err) == VTB_OK;
}

TEST(they_run_step_after_step) {
  for (int i = 0; i < N_CELLS; i++) {
    vtb_module *m = cell_module(&cells[i]);
    if (!m) return;
    vtb_module *before = vtb_module_clone(m);
    vtb_diags d = {0};
    CHECK_MSG(lower(m, &d), "cell %d is refused", i);
    CHECK_MSG(count_ops(m, VTB_OP_fold) == 1 && count_ops(m, VTB_OP_recurrence) == 0,
              "cell %d is no fold", i);
    CHECK(d.list.n == 2 && d.list.at[0].code == 3006 && d.list.at[0].severity == VTB_SEV_WARNING);
    CHECK(d.list.n == 2 && strstr(d.list.at[1].text, "is not linear") != NULL);
    CHECK_MSG(compare_modules(before, m, 7) <= 1e-13, "cell %d differs from its steps", i);
    vtb_diags_free(&d);
    vtb_module_free(before);
    vtb_module_free(m);
  }
}

TEST(their_gradients_match_differences) {
  for (int i = 0; i < N_CELLS; i++) {
    vtb_module *m = cell_module(&cells[i]);
    vtb_diags d = {0};
    if (!m || !lower(m, &d)) return;
    grad_case c = grad_case_new(m->entry, 0, 0);
    grad_compare(&c, 1e-6);
    CHECK_MSG(grad_count_ops(c.grad, VTB_OP_fold) == 2, "cell %d: one fold forward, one backward",
              i);
    grad_case_free(&c);
    vtb_diags_free(&d);
    vtb_module_free(m);
  }
}

TEST(a_form_they_do_not_have_is_refused) {
  const cell parallel = {"", ", mode = \"parallel\"", false, false, 5},
             chunkwise = {"", ", mode = \"chunkwise\", chunk = 2", false, false, 5};
  for (int i = 0; i < 2; i++) {
    vtb_module *m = cell_module(i ? &chunkwise : &parallel);
    vtb_diags d = {0};
    if (!m) return;
    CHECK(!lower(m, &d));
    CHECK(d.n_errors > 0 && d.list.at[0].code == 3001);
    vtb_diags_free(&d);
    vtb_module_free(m);
  }
}

static const char linear[] =
    "entry func @f(%u: f32[B, N=4, 3]) -> (f32[B, N=4, 3]) {\n"
    "  %y, %p, %m = recurrence @s(%u) {states = 1, inits = 0, seqs = 1, mode = \"recurrent\"} "
    ": f32[B, N=4, 3], f32[B, 3], f32[B]\n  return %y\n}\n"
    "step @s(%p: f32[3], %u: f32[3]) -> (f32[3], f32[3]) {\n"
    "  %p2 = add %p, %u : f32[3]\n  return %p2, %p2\n}\n";

TEST(a_linear_one_stays_a_scan) {
  vtb_module *m = parse_ir(linear);
  vtb_diags d = {0};
  if (!m) return;
  CHECK(lower(m, &d) && d.list.n == 0);
  CHECK(count_ops(m, VTB_OP_fold) == 0 && count_ops(m, VTB_OP_linscan) == 1);
  vtb_module_free(m);
}

/* Two calls of one block differentiate its fold once. */
TEST(equal_folds_share_their_adjoint) {
  vtb_module *m =
      grad_parse("func @f(%x: f32[B, 3, 4], %y: f32[B, 3, 4]) -> (f32[B, 4], f32[B, 4]) {\n"
                 "  %z = constant {value = 0} : f32[B, 4]\n"
                 "  %a = fold @s(%z, %x) {states = 1, seqs = 1} : f32[B, 4]\n"
                 "  %b = fold @s(%a, %y) {states = 1, seqs = 1} : f32[B, 4]\n  return %a, %b\n}\n"
                 "func @s(%s: f32[B, 4], %x: f32[B, 1, 4]) -> (f32[B, 4]) {\n"
                 "  %r = reshape %x {shape = [-1, 4]} : f32[B, 4]\n  %p = mul %s, %r : f32[B, 4]\n"
                 "  %q = add %p, %r : f32[B, 4]\n  %t = tanh %q : f32[B, 4]\n  return %t\n}\n");
  grad_case c = grad_case_new(grad_func(m, "f"), 0, 0);
  grad_compare(&c, 1e-6);
  int n = 0;
  for (const vtb_func *f = m->first; f; f = f->next) n += vtb_starts_with(f->name, "s_back");
  CHECK(n == 1);
  grad_case_free(&c);
  vtb_module_free(m);
}

/* What folds a step gives it all its arguments, read or not. */
TEST(a_step_keeps_its_arguments) {
  vtb_module *m = parse_ir("entry func @f(%x: f32[B, 3, 4], %w: f32[4]) -> (f32[B, 4]) {\n"
                           "  %z = constant {value = 0} : f32[B, 4]\n"
                           "  %a = fold @s(%z, %x, %w) {states = 1, seqs = 1} : f32[B, 4]\n"
                           "  return %a\n}\n"
                           "func @s(%s: f32[B, 4], %x: f32[B, 1, 4], %w: f32[4]) -> (f32[B, 4]) {\n"
                           "  %r = reshape %x {shape = [-1, 4]} : f32[B, 4]\n"
                           "  %t = add %s, %r : f32[B, 4]\n  return %t\n}\n");
  CHECK(m && run_passes(m, "dce") && vtb_module_find(m, "s")->n_args == 3);
  vtb_module_free(m);
}

int main(void) {
  RUN(they_run_step_after_step);
  RUN(their_gradients_match_differences);
  RUN(a_form_they_do_not_have_is_refused);
  RUN(a_linear_one_stays_a_scan);
  RUN(equal_folds_share_their_adjoint);
  RUN(a_step_keeps_its_arguments);
  return test_done();
}
