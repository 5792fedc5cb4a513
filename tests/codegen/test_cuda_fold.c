/* fold on CUDA: emulated against the interpreter, forwards and back, with states kept, for one and
 * several samples, an even and an odd number of steps, along paths; and the gradient, which is a
 * second fold. All folds of a test are one function, so that they are compiled together. */
#include "runtime/launch/launch_walk.h"
#include "tests/codegen/cuda_check.h"

static vtb_module *parse(const char *text) {
  static vtb_source source;
  source = (vtb_source){.path = "<test>", .text = text, .n = strlen(text)};
  vtb_diags d = {0};
  vtb_module *m = vtb_module_parse(&source, &d);
  vtb_diags_print(&d, stderr);
  CHECK_MSG(m != NULL, "the IR does not parse:\n%s", text);
  vtb_diags_free(&d);
  return m;
}

/* Random arguments in [-1, 1). */
static void check(const char *what, vtb_module *m, vtb_func *f, double tol) {
  unsigned long long seed = 11400714819323198485ull;
  m->entry = f;
  vtb_tensor *args = vtb_xcalloc((size_t)f->n_args + 1, sizeof *args);
  for (int a = 0; a < f->n_args; a++) {
    args[a] = vtb_tensor_new(f->args[a]->type);
    for (int64_t k = 0; k < vtb_type_count(&args[a].type); k++)
      args[a].data[k] = (float)test_random(&seed);
  }
  cuda_check(m, f, args, tol, what);
  for (int a = 0; a < f->n_args; a++) vtb_tensor_free(&args[a]);
  free(args);
}

/* A cell of two states that read each other through a matrix, tanh and a gate: @c of three samples
 * (steps are copied to and fro), @s of one (steps stay in the sequence, rows of four and of one);
 * @v reads views and yields nothing dense.
 */
static const char folds[] =
    "func @f(%c: f32[3, 6], %h: f32[3, 6], %x: f32[3, 6, 6], %g: f32[3, 6], %w: f32[6, 6], %d: "
    "f32[1, 4],\n"
    "    %k: f32[1, 4], %y: f32[1, 5, 4], %i: f32[1, 5], %u: f32[4, 4], %e: f32[2, 4, 3]) -> "
    "(f32[3, 6, 6], f32[3, "
    "6],\n"
    "    f32[3, 6], f32[1, 5, 4], f32[1, 5], f32[1, 4], f32[2, 4, 1], f32[2, 2]$) {\n"
    "  %y1, %z1, %c1, %h1$ = fold @c(%c, %h, %x, %g, %w) {states = 2, seqs = 2, path = "
    "\"snake@2x3\"$}\n"
    "    : f32[3, 6, 6], f32[3, 6], f32[3, 6], f32[3, 6]$\n"
    "  %y2, %z2, %c2, %h2$ = fold @s(%d, %k, %y, %i, %u) {states = 2, seqs = 2, reverse = 1$}\n"
    "    : f32[1, 5, 4], f32[1, 5], f32[1, 4], f32[1, 4]$\n"
    "  %e1 = slice %e {axis = 2, start = 1, limit = 3} : f32[2, 4, 2]\n"
    "  %w1 = slice %w {axis = 0, start = 1, limit = 3} : f32[2, 6]\n"
    "  %w2 = slice %w1 {axis = 1, start = 3, limit = 5} : f32[2, 2]\n"
    "  %v = transpose %w2 {perm = [1, 0]} : f32[2, 2]\n"
    "  %z = constant {value = 0.25} : f32[2, 2]\n"
    "  %y3, %a, %b = fold @v(%z, %z, %e1, %v) {states = 2, seqs = 1} : f32[2, 4, 1], f32[2, 2], "
    "f32[2, 2]\n"
    "  %ab = add %a, %b : f32[2, 2]\n"
    "  return %y1, %z1, %c1, %y2, %z2, %h2, %y3, %ab$\n"
    "}\n"
    "func @c(%c: f32[3, 6], %h: f32[3, 6], %x: f32[3, 1, 6], %g: f32[3, 1], %w: f32[6, 6]) -> "
    "(f32[3, 6], f32[3, 6],\n"
    "    f32[3, 1, 6], f32[3, 1]) {\n"
    "  %p = einsum %h, %w {spec = \"bi,io->bo\"} : f32[3, 6]\n  %x1 = reshape %x {shape = [3, 6]} "
    ": f32[3, 6]\n"
    "  %q = add %p, %x1 : f32[3, 6]\n  %t = tanh %q : f32[3, 6]\n  %d = sigmoid %g : f32[3, 1]\n"
    "  %dc = mul %d, %c : f32[3, 6]\n  %c2 = add %dc, %t : f32[3, 6]\n  %h2 = tanh %c2 : f32[3, "
    "6]\n"
    "  %y = reshape %h2 {shape = [3, 1, 6]} : f32[3, 1, 6]\n"
    "  %z = reduce_sum %c2 {axes = [1], keep = 1} : f32[3, 1]\n  return %c2, %h2, %y, %z\n}\n"
    "func @s(%c: f32[1, 4], %h: f32[1, 4], %x: f32[1, 1, 4], %g: f32[1, 1], %w: f32[4, 4]) -> "
    "(f32[1, 4], f32[1, 4],\n"
    "    f32[1, 1, 4], f32[1, 1]) {\n"
    "  %p = einsum %h, %w {spec = \"bi,io->bo\"} : f32[1, 4]\n  %x1 = reshape %x {shape = [1, 4]} "
    ": f32[1, 4]\n"
    "  %q = add %p, %x1 : f32[1, 4]\n  %t = tanh %q : f32[1, 4]\n  %d = sigmoid %g : f32[1, 1]\n"
    "  %dc = mul %d, %c : f32[1, 4]\n  %c2 = add %dc, %t : f32[1, 4]\n  %h2 = tanh %c2 : f32[1, "
    "4]\n"
    "  %y = reshape %h2 {shape = [1, 1, 4]} : f32[1, 1, 4]\n"
    "  %z = reduce_sum %c2 {axes = [1], keep = 1} : f32[1, 1]\n  return %c2, %h2, %y, %z\n}\n"
    "func @v(%a: f32[2, 2], %b: f32[2, 2], %x: f32[2, 1, 2], %v: f32[2, 2]) -> (f32[2, 2], f32[2, "
    "2], f32[2, 1, 1]) {\n"
    "  %x1 = reshape %x {shape = [2, 2]} : f32[2, 2]\n  %p = mul %a, %v : f32[2, 2]\n"
    "  %q = add %p, %x1 : f32[2, 2]\n  %t = tanh %q : f32[2, 2]\n"
    "  %r = reduce_sum %b {axes = [1], keep = 1} : f32[2, 1]\n"
    "  %y = reshape %r {shape = [2, 1, 1]} : f32[2, 1, 1]\n  return %b, %t, %y\n}\n";

/* The text above, with what `keep` adds at every $. */
static char *folds_text(bool keep) {
  static const char *const kept[] = {", f32[3, 6, 6], f32[1, 5, 4]", ", %k1, %l1", ", keep = 1",
                                     ", f32[3, 6, 6], f32[3, 6, 6]", ", %k2, %l2", ", keep = 1",
                                     ", f32[1, 5, 4], f32[1, 5, 4]", ", %k1, %l2"};
  vtb_strbuf s = {0};
  int n = 0;
  for (const char *at = folds; *at; at++) {
    if (*at != '$')
      vtb_strbuf_putc(&s, *at);
    else
      vtb_strbuf_puts(&s, keep ? kept[n] : ""), n++;
  }
  return s.at;
}

TEST(folds_match_the_interpreter) {
  char *text = folds_text(true); /* spans of the module point into it */
  vtb_module *m = parse(text);
  if (m) check("folds", m, vtb_module_find(m, "f"), 2e-6);
  vtb_module_free(m);
  free(text);
}

TEST(gradients_are_folds_backwards) {
  enum { ARGS = 11, OUTS = 8 };
  char *text = folds_text(false);
  vtb_module *m = parse(text);
  vtb_error err = {0};
  vtb_func *grad = NULL;
  int all[ARGS];
  if (!m) return;
  for (int i = 0; i < ARGS; i++) all[i] = i;
  m->entry = vtb_module_find(m, "f");
  vtb_status status = vtb_autodiff(m, m->entry, all, OUTS, all, ARGS, &grad, NULL, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  if (status != VTB_OK) return;
  m->entry = grad;
  cuda_passes(m, "dce,bind,simplify,cse,dce,fuse");
  check("gradients", m, m->entry, 5e-6);
  vtb_module_free(m);
  free(text);
}

/* @outer, `n` times, of which each runs @c five times; the sum of both folds' last states. */
static const char nested[] =
    "func @f(%%s: f32[2, 3], %%x: f32[2, %1$d, 3], %%w: f32[3, 3]) -> (f32[2, %1$d, 3], f32[2, 3])"
    " {\n  %%y, %%t = fold @outer(%%s, %%x, %%w) {states = 1, seqs = 1, reverse = 1} : f32[2, "
    "%1$d, 3], f32[2, 3]\n  return %%y, %%t\n}\n"
    "func @outer(%%s: f32[2, 3], %%x: f32[2, 1, 3], %%w: f32[3, 3]) -> (f32[2, 3], f32[2, 1, 3]) "
    "{\n  %%q = broadcast %%x {shape = [2, 5, 3]} : f32[2, 5, 3]\n"
    "  %%y, %%t = fold @c(%%s, %%q, %%w) {states = 1, seqs = 1} : f32[2, 5, 3], f32[2, 3]\n"
    "  %%z = reduce_sum %%y {axes = [1], keep = 1} : f32[2, 1, 3]\n  return %%t, %%z\n}\n"
    "func @c(%%h: f32[2, 3], %%x: f32[2, 1, 3], %%w: f32[3, 3]) -> (f32[2, 3], f32[2, 1, 3]) {\n"
    "  %%p = einsum %%h, %%w {spec = \"bi,io->bo\"} : f32[2, 3]\n"
    "  %%x1 = reshape %%x {shape = [2, 3]} : f32[2, 3]\n  %%q = add %%p, %%x1 : f32[2, 3]\n"
    "  %%t = tanh %%q : f32[2, 3]\n  %%y = reshape %%t {shape = [2, 1, 3]} : f32[2, 1, 3]\n"
    "  return %%t, %%y\n}\n";

TEST(folds_in_folds_are_loops_in_loops) {
  vtb_strbuf text = {0};
  vtb_strbuf_printf(&text, nested, 7);
  vtb_module *m = parse(text.at);
  if (m) check("nested", m, vtb_module_find(m, "f"), 5e-6);
  vtb_module_free(m);
  vtb_strbuf_free(&text);
}

static void check_format(const char *what, const char *format, ...) {
  vtb_strbuf text = {0};
  va_list ap;
  va_start(ap, format);
  vtb_strbuf_vprintf(&text, format, ap);
  va_end(ap);
  vtb_module *m = parse(text.at);
  if (m) check(what, m, vtb_module_find(m, "f"), 2e-6);
  vtb_module_free(m);
  vtb_strbuf_free(&text);
}

/* Each of two samples goes on until its count down is at 0: 0, 1, ... steps are run, of which
 * `most` at the latest. Without sequences nothing counts; with them each step adds its own. */
static void check_while(int first, int second, int most) {
  check_format("while",
               "func @f(%%x: f32[2, 3]) -> (f32[2], f32[2, 3]) {\n"
               "  %%g = constant {data = [%d, %d]} : f32[2]\n"
               "  %%h, %%y = fold @s(%%g, %%x) {states = 2, seqs = 0, steps = %d, while = 1} : "
               "f32[2], f32[2, 3]\n  return %%h, %%y\n}\n"
               "func @s(%%g: f32[2], %%x: f32[2, 3]) -> (f32[2], f32[2, 3]) {\n"
               "  %%one = constant {value = 1} : f32[]\n  %%zero = constant {value = 0} : f32[]\n"
               "  %%d = sub %%g, %%one : f32[2]\n  %%h = max %%d, %%zero : f32[2]\n"
               "  %%b = reshape %%g {shape = [2, 1]} : f32[2, 1]\n"
               "  %%t = tanh %%x : f32[2, 3]\n  %%y = select %%b, %%t, %%x : f32[2, 3]\n"
               "  return %%h, %%y\n}\n",
               first, second, most);
  check_format("while along a sequence",
               "func @f(%%x: f32[2, 3], %%u: f32[2, %3$d, 3]) -> (f32[], f32[2, 3]) {\n"
               "  %%g = constant {value = %1$d} : f32[]\n"
               "  %%h, %%y = fold @s(%%g, %%x, %%u) {states = 2, seqs = 1, steps = %3$d, while = "
               "1} : f32[], f32[2, 3]\n  return %%h, %%y\n}\n"
               "func @s(%%g: f32[], %%x: f32[2, 3], %%u: f32[2, 1, 3]) -> (f32[], f32[2, 3]) {\n"
               "  %%one = constant {value = 1} : f32[]\n  %%h = sub %%g, %%one : f32[]\n"
               "  %%v = reshape %%u {shape = [2, 3]} : f32[2, 3]\n"
               "  %%p = mul %%x, %%v : f32[2, 3]\n  %%y = add %%p, %%v : f32[2, 3]\n"
               "  return %%h, %%y\n}\n",
               first, second, most);
}

TEST(a_state_tells_whether_there_is_another_step) {
  check_while(0, 0, 5);
  check_while(1, 0, 5);
  check_while(2, 4, 5);
  check_while(9, 3, 5);
}

/* What a loop of at most five steps has kept is read from the last step that was run to the first;
 * what stands behind that is NaN. */
TEST(a_number_limits_the_steps) {
  for (int limit = -1; limit <= 6; limit++)
    for (int reverse = 0; reverse <= 1; reverse++)
      check_format("limit",
                   "func @f(%%x: f32[2, 3], %%u: f32[2, 5, 3]) -> (f32[2, 3]) {\n"
                   "  %%n = constant {value = %d} : i32[]\n"
                   "  %%y = fold @s(%%x, %%u, %%n) {states = 1, seqs = 1, steps = 5, limit = 1%s} "
                   ": f32[2, 3]\n  return %%y\n}\n"
                   "func @s(%%x: f32[2, 3], %%u: f32[2, 1, 3], %%n: i32[]) -> (f32[2, 3]) {\n"
                   "  %%v = reshape %%u {shape = [2, 3]} : f32[2, 3]\n"
                   "  %%p = mul %%x, %%v : f32[2, 3]\n  %%q = add %%p, %%v : f32[2, 3]\n"
                   "  return %%q\n}\n",
                   limit, reverse ? ", reverse = 1" : "");
}

/* Forwards until the count is at 0, states kept and a yield a step; back as far as it went. */
TEST(a_loop_goes_back_as_far_as_it_went) {
  for (int count = 0; count <= 6; count++)
    check_format(
        "there and back",
        "func @f(%%x: f32[2, 3]) -> (f32[2, 3]) {\n"
        "  %%g = constant {value = %d} : i32[]\n  %%z = constant {value = 0} : i32[]\n"
        "  %%u, %%h, %%y, %%n, %%hs, %%ys, %%ns = fold @s(%%g, %%x, %%z) {states = 3, seqs "
        "= 0, keep = 1, steps = 5, while = 1} : f32[2, 5, 3], i32[], f32[2, 3], i32[], "
        "i32[1, 5], f32[2, 5, 3], i32[1, 5]\n"
        "  %%r = fold @b(%%y, %%ys, %%u, %%n, %%x) {states = 1, seqs = 2, steps = 5, limit = "
        "1, reverse = 1} : f32[2, 3]\n  return %%r\n}\n"
        "func @s(%%g: i32[], %%x: f32[2, 3], %%n: i32[]) -> (i32[], f32[2, 3], i32[], "
        "f32[2, 1, 3]) {\n"
        "  %%one = constant {value = 1} : i32[]\n  %%h = sub %%g, %%one : i32[]\n"
        "  %%m = add %%n, %%one : i32[]\n  %%t = tanh %%x : f32[2, 3]\n"
        "  %%u = reshape %%t {shape = [2, 1, 3]} : f32[2, 1, 3]\n"
        "  return %%h, %%t, %%m, %%u\n}\n"
        "func @b(%%r: f32[2, 3], %%y: f32[2, 1, 3], %%u: f32[2, 1, 3], %%n: i32[], %%x: f32[2, 3]) "
        "-> "
        "(f32[2, 3]) {\n"
        "  %%v = sub %%y, %%u : f32[2, 1, 3]\n"
        "  %%w = reshape %%v {shape = [2, 3]} : f32[2, 3]\n"
        "  %%p = mul %%r, %%w : f32[2, 3]\n  %%q = add %%p, %%x : f32[2, 3]\n"
        "  return %%q\n}\n",
        count);
}

/* The plan of n steps has as many launches as that of any other even number; only the program's
 * tensors grow. */
TEST(plans_do_not_grow_with_the_steps) {
  vtb_launch_plan *plans[2] = {NULL, NULL};
  static const int steps[] = {10, 250};
  for (int i = 0; i < 2; i++) {
    vtb_strbuf text = {0};
    vtb_error err = {0};
    vtb_strbuf_printf(&text, nested, steps[i]);
    vtb_module *m = parse(text.at);
    const vtb_codegen_options o = {0};
    vtb_status status =
        m ? cuda_plan(m, vtb_module_find(m, "f"), &o, &plans[i], &err) : VTB_E_INPUT;
    CHECK_MSG(status == VTB_OK, "%s", err.text);
    vtb_module_free(m);
    vtb_strbuf_free(&text);
    if (status != VTB_OK) return;
    CHECK_MSG(vtb_launch_plan_check(plans[i], NULL, &err) == VTB_OK, "%s", err.text);
    CHECK(plans[i]->n_loops == 3 && plans[i]->loops[0].times == steps[i] / 2);
    CHECK(plans[i]->loops[1].times == 2 && plans[i]->loops[2].times == 2);
  }
  CHECK_MSG(plans[0]->n_steps == plans[1]->n_steps && plans[0]->n_kernels == plans[1]->n_kernels,
            "%d and %d launches", plans[0]->n_steps, plans[1]->n_steps);
  CHECK_MSG(plans[0]->workspace_bytes == plans[1]->workspace_bytes, "%lld and %lld bytes",
            (long long)plans[0]->workspace_bytes, (long long)plans[1]->workspace_bytes);
  CHECK(vtb_launch_count(plans[1]) > 20 * vtb_launch_count(plans[0]));
  for (int i = 0; i < 2; i++) vtb_launch_plan_free(plans[i]);
}

/* In each half of a turn, behind a launch of its own. */
TEST(a_sum_over_ranks_begins_a_step) {
  vtb_module *m = parse("func @f(%x: f32[2, 3]) -> (f32[2, 3]) {\n"
                        "  %y = fold @s(%x) {states = 1, seqs = 0, steps = 6} : f32[2, 3]\n"
                        "  return %y\n}\n"
                        "func @s(%x: f32[2, 3]) -> (f32[2, 3]) {\n"
                        "  %s = sum_ranks %x {ranks = 2} : f32[2, 3]\n"
                        "  %t = tanh %s : f32[2, 3]\n  return %t\n}\n");
  vtb_launch_plan *p = NULL;
  vtb_error err = {0};
  const vtb_codegen_options o = {0};
  vtb_status status = m ? cuda_plan(m, vtb_module_find(m, "f"), &o, &p, &err) : VTB_E_INPUT;
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  if (status == VTB_OK) {
    int first = p->loops[0].first;
    CHECK(p->n_loops == 1 && p->loops[0].times == 3 && p->n_buckets == 2);
    CHECK(p->buckets[0].step == first && p->buckets[1].step == first + p->loops[0].n / 2);
    CHECK_MSG(vtb_launch_plan_check(p, NULL, &err) == VTB_OK, "%s", err.text);
  }
  vtb_launch_plan_free(p);
  vtb_module_free(m);
}

int main(void) {
  emulate_or_skip();
  RUN(folds_match_the_interpreter);
  RUN(gradients_are_folds_backwards);
  RUN(folds_in_folds_are_loops_in_loops);
  RUN(a_state_tells_whether_there_is_another_step);
  RUN(a_number_limits_the_steps);
  RUN(a_loop_goes_back_as_far_as_it_went);
  RUN(plans_do_not_grow_with_the_steps);
  RUN(a_sum_over_ranks_begins_a_step);
  return test_done();
}
