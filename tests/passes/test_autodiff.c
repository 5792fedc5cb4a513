/* Reverse mode through calls: sharing, what is saved, accumulation, names. */
#include "tests/passes/grad_check.h"
#include "ir/ops.h"

/* ---- helpers --------------------------------------------------------------------------------- */

static int count_functions(const vtb_module *m, const char *prefix) {
  int n = 0;
  for (vtb_func *f = m->first; f; f = f->next) n += vtb_starts_with(f->name, prefix);
  return n;
}

/* The function's arguments or returns as "%a %b". */
static char *list_names(vtb_value *const *values, int n) {
  static char text[1024];
  size_t at = 0;
  text[0] = '\0';
  for (int i = 0; i < n; i++)
    at += (size_t)snprintf(text + at, sizeof text - at, "%s%%%s", i ? " " : "", values[i]->name);
  return text;
}

static char *args_of(const vtb_func *f) { return list_names(f->args, f->n_args); }
static char *returns_of(const vtb_func *f) { return list_names(f->returns, f->n_returns); }

static vtb_module *differentiate(const char *text, const char *name) {
  vtb_module *m = grad_parse(text);
  grad_of(grad_func(m, name));
  return m;
}

/* ---- calls ----------------------------------------------------------------------------------- */

#define BLOCKS                                                                                     \
  "func @inner(%x: f32[B, 4], %w: f32[4]) -> (f32[B, 4]) {\n"                                      \
  "  %p = mul %x, %w : f32[B, 4]\n"                                                                \
  "  %t = tanh %p : f32[B, 4]\n"                                                                   \
  "  return %t\n}\n"                                                                               \
  "func @block(%x: f32[B, 4], %w: f32[4], %v: f32[4, 4]) -> (f32[B, 4]) {\n"                       \
  "  %a = call @inner(%x, %w) : f32[B, 4]\n"                                                       \
  "  %h = einsum %a, %v {spec = \"bi,oi->bo\"} : f32[B, 4]\n"                                      \
  "  %s = silu %h : f32[B, 4]\n"                                                                   \
  "  %y = add %x, %s : f32[B, 4]\n"                                                                \
  "  return %y\n}\n"                                                                               \
  "func @main(%x: f32[B, 4], %w0: f32[4], %v0: f32[4, 4], %w1: f32[4], %v1: f32[4, 4]) -> "        \
  "(f32[B, 4]) {\n"                                                                                \
  "  %y0 = call @block(%x, %w0, %v0) : f32[B, 4]\n"                                                \
  "  %y1 = call @block(%y0, %w1, %v1) : f32[B, 4]\n"                                               \
  "  %y2 = call @block(%y1, %w0, %v1) : f32[B, 4]\n"                                               \
  "  %y3 = call @inner(%y2, %w1) : f32[B, 4]\n"                                                    \
  "  return %y3\n}\n"

static vtb_status keeping(vtb_module *m, const char *f, const int *wrt, int n_wrt, bool starts,
                          vtb_func **grad) {
  vtb_error err = {0};
  vtb_gradients g = {
      .outs = &(int){0}, .n_outs = 1, .wrt = wrt, .n_wrt = n_wrt, .keeps = true, .starts = starts};
  vtb_status status = vtb_autodiff_as(m, grad_func(m, f), &g, &err);
  *grad = g.grad;
  return status;
}

TEST(calls_within_calls_and_shared_weights) { grad_check_text(BLOCKS, "main", 0, 0); }

TEST(identical_blocks_share_one_backward) {
  vtb_module *m = differentiate(BLOCKS, "main");
  CHECK(count_functions(m, "block_bwd") == 1);
  CHECK(count_functions(m, "block_fwd") == 1);
  CHECK(count_functions(m, "inner_bwd") == 1);
  CHECK(count_functions(m, "inner_fwd") == 0); /* everything is recomputed from its arguments */
  CHECK(count_functions(m, "block_joint") == 0);
  vtb_func *main_grad = grad_func(m, "main_grad");
  CHECK(grad_count_ops(main_grad, VTB_OP_call) == 8);
  CHECK_STR(args_of(main_grad), "%x %w0 %v0 %w1 %v1 %d_y3");
  CHECK(main_grad->arg_info[5].role == VTB_ROLE_GRAD);
  CHECK_STR(main_grad->arg_info[5].official, "d:y3");
  CHECK_STR(main_grad->return_names[2], "d:w0");
  vtb_module_free(m);
}

/* The gradient of @main by all of its arguments, where so many calls run again, with what common
 * subexpressions leave. */
static vtb_func *recomputing(vtb_module *m, int64_t n) {
  vtb_error err = {0};
  vtb_diags diags = {0};
  vtb_gradients g = {
      .outs = &(int){0}, .n_outs = 1, .wrt = (int[]){0, 1, 2, 3, 4}, .n_wrt = 5, .recompute = n};
  vtb_status status = vtb_autodiff_as(m, grad_func(m, "main"), &g, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  m->entry = g.grad;
  vtb_pass_context c = {.module = m, .diags = &diags};
  status = vtb_run_pipeline(&c, &(vtb_pipeline_options){.pipeline = "simplify,cse,dce"}, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  vtb_diags_free(&diags);
  return m->entry;
}

/* Of the three blocks the last one's values are wanted at once; @inner saves nothing. */
TEST(calls_run_again_instead_of_saving) {
  static const int asked[] = {0, 1, 2, 100}, again[] = {0, 1, 2, 2};
  vtb_tensor *args = vtb_xcalloc(6, sizeof *args), *plain = NULL;
  for (int k = 0; k < 4; k++) {
    vtb_module *m = grad_parse(BLOCKS);
    vtb_func *f = recomputing(m, asked[k]);
    unsigned long long seed = 5;
    for (int a = 0; a < 6 && !k; a++) args[a] = grad_random(f->args[a]->type, 0, 0, &seed);
    int n = 0;
    for (vtb_inst *i = f->first; i; i = i->next)
      n += i->op == VTB_OP_call && vtb_starts_with(i->callee->name, "block_again");
    CHECK(n == again[k] && grad_count_ops(f, VTB_OP_call) == 8);
    CHECK(count_functions(m, "block_again") == (k > 0));
    vtb_tensor *results = grad_run(f, args);
    for (int r = 0; r < f->n_returns && plain; r++)
      for (int64_t e = 0; e < vtb_type_count(&plain[r].type); e++)
        CHECK(results[r].data[e] == plain[r].data[e]);
    if (plain)
      grad_free(results, f->n_returns);
    else
      plain = results;
    vtb_module_free(m);
  }
  grad_free(plain, 6);
  grad_free(args, 6);
}

/* Depth costs calls in the entry, nothing else. */
TEST(functions_do_not_grow_with_depth) {
  vtb_strbuf text = {0};
  vtb_strbuf_puts(&text, BLOCKS);
  char *main_at = strstr(text.at, "func @main");
  text.n = (size_t)(main_at - text.at);
  vtb_strbuf_puts(&text,
                  "func @main(%x0: f32[B, 4], %w: f32[4], %v: f32[4, 4]) -> (f32[B, 4]) {\n");
  for (int i = 0; i < 30; i++)
    vtb_strbuf_printf(&text, "  %%x%d = call @block(%%x%d, %%w, %%v) : f32[B, 4]\n", i + 1, i);
  vtb_strbuf_puts(&text, "  return %x30\n}\n");
  vtb_module *m = differentiate(text.at, "main");
  CHECK(count_functions(m, "") ==
        7); /* inner, block, main, inner_bwd, block_fwd, block_bwd, main_grad */
  vtb_module_free(m);
  vtb_strbuf_free(&text);
}

TEST(same_value_for_two_arguments) {
  const char *text = "func @f(%a: f32[3], %b: f32[3]) -> (f32[3]) {\n"
                     "  %c = exp %a : f32[3]\n"
                     "  %d = mul %c, %b : f32[3]\n"
                     "  return %d\n}\n"
                     "func @main(%x: f32[3]) -> (f32[3], f32[3]) {\n"
                     "  %y = call @f(%x, %x) : f32[3]\n"
                     "  %z = mul %y, %y : f32[3]\n"
                     "  return %z, %y\n}\n";
  grad_check_text(text, "main", 0, 0);
}

TEST(unused_arguments_have_zero_adjoints) {
  const char *text = "func @f(%a: f32[3], %b: f32[3]) -> (f32[3]) {\n"
                     "  %c = exp %a : f32[3]\n"
                     "  return %c\n}\n"
                     "func @main(%x: f32[3], %y: f32[3], %z: f32[B, 2]) -> (f32[3]) {\n"
                     "  %r = call @f(%x, %y) : f32[3]\n"
                     "  return %r\n}\n";
  grad_check_text(text, "main", 0, 0);
  vtb_module *m = differentiate(text, "main");
  CHECK_STR(args_of(grad_func(m, "f_bwd")), "%a %d_c"); /* what is not read is not passed */
  CHECK(grad_func(m, "f_bwd")->n_returns == 1);
  vtb_module_free(m);
}

TEST(arguments_and_repeated_values_may_be_returned) {
  const char *text = "func @f(%a: f32[3], %b: f32[3]) -> (f32[3], f32[3], f32[3]) {\n"
                     "  %c = mul %a, %b : f32[3]\n"
                     "  return %a, %c, %c\n}\n"
                     "func @main(%x: f32[3], %y: f32[3]) -> (f32[3]) {\n"
                     "  %p, %q, %r = call @f(%x, %y) : f32[3], f32[3], f32[3]\n"
                     "  %s = mul %p, %q : f32[3]\n"
                     "  %t = mul %s, %r : f32[3]\n"
                     "  return %t\n}\n";
  grad_check_text(text, "main", 0, 0);
}

/* One site uses both outputs, the other one: the sets are united and zeros are passed. */
TEST(sites_that_use_different_outputs_share_a_backward) {
  const char *text = "func @f(%a: f32[3]) -> (f32[3], f32[3]) {\n"
                     "  %c = exp %a : f32[3]\n"
                     "  %d = sin %a : f32[3]\n"
                     "  return %c, %d\n}\n"
                     "func @main(%x: f32[3]) -> (f32[3]) {\n"
                     "  %p, %q = call @f(%x) : f32[3], f32[3]\n"
                     "  %s = mul %p, %q : f32[3]\n"
                     "  %t, %u = call @f(%s) : f32[3], f32[3]\n"
                     "  return %u\n}\n";
  grad_check_text(text, "main", 0, 0);
  vtb_module *m = differentiate(text, "main");
  CHECK(count_functions(m, "f_bwd") == 1);
  vtb_module_free(m);
}

TEST(output_that_nothing_uses_adds_no_adjoint) {
  const char *text = "func @f(%a: f32[3]) -> (f32[3], f32[3]) {\n"
                     "  %c = exp %a : f32[3]\n"
                     "  %d = sin %a : f32[3]\n"
                     "  return %c, %d\n}\n"
                     "func @main(%x: f32[3]) -> (f32[3]) {\n"
                     "  %p, %q = call @f(%x) : f32[3], f32[3]\n"
                     "  return %p\n}\n";
  grad_check_text(text, "main", 0, 0);
  vtb_module *m = differentiate(text, "main");
  CHECK(grad_func(m, "f_bwd")->n_args == 2); /* c or a, and d_c; nothing for d */
  CHECK(grad_count_ops(grad_func(m, "f_bwd"), VTB_OP_cos) == 0);
  vtb_module_free(m);
}

TEST(stop_gradient_stops) {
  const char *text = "func @main(%x: f32[3]) -> (f32[3]) {\n"
                     "  %a = exp %x : f32[3]\n"
                     "  %b = stop_gradient %a : f32[3]\n"
                     "  %c = mul %a, %b : f32[3]\n"
                     "  return %c\n}\n";
  vtb_module *m = grad_parse(text);
  grad_case c = grad_case_new(grad_func(m, "main"), 0, 0);
  for (int i = 0; i < 3; i++)
    CHECK_NEAR(c.results[1].data[i], exp(2 * c.args[0].data[i]) * c.args[1].data[i], 1e-12);
  grad_case_free(&c);
  vtb_module_free(m);
}

/* A site that does not want an adjoint drops it. */
TEST(call_with_an_operand_without_gradient) {
  const char *text = "func @f(%a: f32[3], %b: f32[3]) -> (f32[3]) {\n"
                     "  %c = mul %a, %b : f32[3]\n"
                     "  return %c\n}\n"
                     "func @main(%x: f32[3], %y: f32[3]) -> (f32[3]) {\n"
                     "  %k = constant {value = 3.0} : f32[3]\n"
                     "  %p = call @f(%x, %y) : f32[3]\n"
                     "  %q = call @f(%k, %p) : f32[3]\n"
                     "  %r = call @f(%q, %k) : f32[3]\n"
                     "  return %r\n}\n";
  grad_check_text(text, "main", 0, 0);
}

TEST(integers_pass_through_calls) {
  const char *text = "func @f(%a: f32[B, 3], %l: i32[B]) -> (f32[B, 3], i32[B]) {\n"
                     "  %r = reshape %l {shape = [-1, 1]} : i32[B, 1]\n"
                     "  %t = cast %r {to = \"f32\"} : f32[B, 1]\n"
                     "  %c = mul %a, %t : f32[B, 3]\n"
                     "  %d = sin %c : f32[B, 3]\n"
                     "  return %d, %l\n}\n"
                     "func @main(%x: f32[B, 3], %l: i32[B]) -> (f32[B, 3]) {\n"
                     "  %p, %q = call @f(%x, %l) : f32[B, 3], i32[B]\n"
                     "  %u, %v = call @f(%p, %q) : f32[B, 3], i32[B]\n"
                     "  return %u\n}\n";
  grad_check_text(text, "main", 0, 0);
}

/* ---- accumulation ---------------------------------------------------------------------------- */

TEST(slices_that_tile_an_axis_become_one_concat) {
  const char *text = "func @main(%x: f32[B, 6]) -> (f32[B, 2]) {\n"
                     "  %a = slice %x {axis = 1, start = 0, limit = 2} : f32[B, 2]\n"
                     "  %b = slice %x {axis = 1, start = 2, limit = 4} : f32[B, 2]\n"
                     "  %c = slice %x {axis = 1, start = 4, limit = 6} : f32[B, 2]\n"
                     "  %d = mul %a, %c : f32[B, 2]\n"
                     "  %e = mul %d, %b : f32[B, 2]\n"
                     "  %f = mul %e, %a : f32[B, 2]\n"
                     "  return %f\n}\n";
  grad_check_text(text, "main", 0, 0);
  vtb_module *m = differentiate(text, "main");
  vtb_func *g = grad_func(m, "main_grad");
  CHECK(grad_count_ops(g, VTB_OP_concat) == 1);
  CHECK(grad_count_ops(g, VTB_OP_pad) == 0);
  CHECK_STR(g->returns[1]->name, "d_x");
  vtb_module_free(m);
}

/* Gaps are padding of the pieces; overlaps and other uses of the whole are added. */
TEST(slices_with_gaps_overlaps_and_other_axes) {
  const char *gaps = "func @main(%x: f32[B, 7]) -> (f32[B, 1]) {\n"
                     "  %a = slice %x {axis = 1, start = 1, limit = 2} : f32[B, 1]\n"
                     "  %b = slice %x {axis = 1, start = 4, limit = 5} : f32[B, 1]\n"
                     "  %c = mul %a, %b : f32[B, 1]\n"
                     "  return %c\n}\n";
  grad_check_text(gaps, "main", 0, 0);
  vtb_module *m = differentiate(gaps, "main");
  CHECK(grad_count_ops(grad_func(m, "main_grad"), VTB_OP_add) == 0);
  vtb_module_free(m);
  grad_check_text("func @main(%x: f32[B, 4]) -> (f32[B, 1]) {\n"
                  "  %a = slice %x {axis = 1, start = 1, limit = 2} : f32[B, 1]\n"
                  "  %b = slice %x {axis = 1, start = 1, limit = 4} : f32[B, 3]\n"
                  "  %c = mul %a, %b : f32[B, 3]\n"
                  "  %d = reduce_max %c {axes = [1], keep = 1} : f32[B, 1]\n"
                  "  return %d\n}\n",
                  "main", 0, 0);
  grad_check_text("func @main(%x: f32[B, 4, 4]) -> (f32[B, 4, 4]) {\n"
                  "  %a = slice %x {axis = 1, start = 0, limit = 3} : f32[B, 3, 4]\n"
                  "  %b = slice %x {axis = 1, start = 1, limit = 4} : f32[B, 3, 4]\n"
                  "  %c = slice %x {axis = 2, start = 2, limit = 3} : f32[B, 4, 1]\n"
                  "  %e = slice %x {axis = 2, start = 2, limit = 3} : f32[B, 4, 1]\n"
                  "  %d = mul %a, %b : f32[B, 3, 4]\n"
                  "  %p = pad %d {axis = 1, low = 1, high = 0} : f32[B, 4, 4]\n"
                  "  %q = mul %p, %c : f32[B, 4, 4]\n"
                  "  %r = mul %q, %x : f32[B, 4, 4]\n"
                  "  %s = mul %r, %e : f32[B, 4, 4]\n"
                  "  return %s\n}\n",
                  "main", 0, 0);
}

/* ---- what is saved --------------------------------------------------------------------------- */

#define WITH_MAIN(args, values, in, out)                                                           \
  "func @main(" args ") -> (" out ") {\n"                                                          \
  "  %r = call @f(" values ") : " out "\n"                                                         \
  "  %s = call @f(%r" in ") : " out "\n"                                                           \
  "  return %s\n}\n"

/* up-projection, split, silu gate: one tensor (the biased projection) is saved, neither its slices
 * nor the silu. */
#define GATED                                                                                      \
  "func @f(%x: f32[B, 5, 4], %w: f32[12, 4], %b: f32[12], %d: f32[4, 6]) -> (f32[B, 5, 4]) {\n"    \
  "  %p = einsum %x, %w {spec = \"bnd,ed->bne\"} : f32[B, 5, 12]\n"                                \
  "  %u = add %p, %b : f32[B, 5, 12]\n"                                                            \
  "  %h = slice %u {axis = 2, start = 0, limit = 6} : f32[B, 5, 6]\n"                              \
  "  %z = slice %u {axis = 2, start = 6, limit = 12} : f32[B, 5, 6]\n"                             \
  "  %g = silu %z : f32[B, 5, 6]\n"                                                                \
  "  %m = mul %h, %g : f32[B, 5, 6]\n"                                                             \
  "  %y = einsum %m, %d {spec = \"bne,de->bnd\"} : f32[B, 5, 4]\n"                                 \
  "  %o = add %x, %y : f32[B, 5, 4]\n"                                                             \
  "  return %o\n}\n" WITH_MAIN("%x: f32[B, 5, 4], %w: f32[12, 4], %b: f32[12], %d: f32[4, 6]",     \
                               "%x, %w, %b, %d", ", %w, %b, %d", "f32[B, 5, 4]")

TEST(gated_block_saves_the_projection_only) {
  grad_check_text(GATED, "main", 0, 0);
  vtb_module *m = differentiate(GATED, "main");
  CHECK_STR(returns_of(grad_func(m, "f_fwd")), "%o %u");
  CHECK_STR(args_of(grad_func(m, "f_bwd")), "%x %w %d %u %d_o");
  CHECK(grad_count_ops(grad_func(m, "f_bwd"), VTB_OP_concat) == 1); /* the two halves of d_u */
  vtb_module_free(m);
}

#define LAYERNORM                                                                                  \
  "func @f(%x: f32[B, 5, 4], %w: f32[4], %b: f32[4]) -> (f32[B, 5, 4]) {\n"                        \
  "  %n = constant {value = 0.25} : f32[]\n"                                                       \
  "  %e = constant {value = 1e-5} : f32[]\n"                                                       \
  "  %s = reduce_sum %x {axes = [2], keep = 1} : f32[B, 5, 1]\n"                                   \
  "  %mean = mul %s, %n : f32[B, 5, 1]\n"                                                          \
  "  %c = sub %x, %mean : f32[B, 5, 4]\n"                                                          \
  "  %q = square %c : f32[B, 5, 4]\n"                                                              \
  "  %v = reduce_sum %q {axes = [2], keep = 1} : f32[B, 5, 1]\n"                                   \
  "  %var = mul %v, %n : f32[B, 5, 1]\n"                                                           \
  "  %ve = add %var, %e : f32[B, 5, 1]\n"                                                          \
  "  %rstd = rsqrt %ve : f32[B, 5, 1]\n"                                                           \
  "  %hat = mul %c, %rstd : f32[B, 5, 4]\n"                                                        \
  "  %g = mul %hat, %w : f32[B, 5, 4]\n"                                                           \
  "  %y = add %g, %b : f32[B, 5, 4]\n"                                                             \
  "  return %y\n}\n"

TEST(layernorm_saves_mean_and_rstd) {
  const char *text = LAYERNORM WITH_MAIN("%x: f32[B, 5, 4], %w: f32[4], %b: f32[4]", "%x, %w, %b",
                                         ", %w, %b", "f32[B, 5, 4]");
  grad_check_text(text, "main", 0, 0);
  vtb_module *m = differentiate(text, "main");
  CHECK_STR(returns_of(grad_func(m, "f_fwd")), "%y %mean %rstd");
  CHECK_STR(args_of(grad_func(m, "f_bwd")), "%x %w %mean %rstd %d_y");
  vtb_module_free(m);
}

/* Where memory is the limit, what a product reads in either half is stored once. */
TEST(factors_of_both_halves_are_kept_where_that_is_asked_for) {
  static const char text[] =
      "func @f(%x: f32[B, 5, 16], %w: f32[32, 16], %d: f32[16, 32]) -> "
      "(f32[B, 5, 16]) {\n"
      "  %p = einsum %x, %w {spec = \"bnd,ed->bne\"} : f32[B, 5, 32]\n"
      "  %g = silu %p : f32[B, 5, 32]\n"
      "  %y = einsum %g, %d {spec = \"bne,de->bnd\"} : f32[B, 5, 16]\n"
      "  %o = add %x, %y : f32[B, 5, 16]\n"
      "  return %o\n}\n" WITH_MAIN("%x: f32[B, 5, 16], %w: f32[32, 16], %d: f32[16, 32]",
                                   "%x, %w, %d", ", %w, %d", "f32[B, 5, 16]");
  vtb_module *m = differentiate(text, "main");
  CHECK_STR(returns_of(grad_func(m, "f_fwd")), "%o %p");
  vtb_module_free(m);
  m = grad_parse(text);
  vtb_func *grad = NULL;
  vtb_error err = {0};
  CHECK(keeping(m, "main", (const int[]){0, 1, 2}, 3, false, &grad) == VTB_OK);
  CHECK(grad && vtb_module_verify(m, &err));
  CHECK_STR(returns_of(grad_func(m, "f_fwd")), "%o %p %g");
  CHECK_STR(args_of(grad_func(m, "f_bwd")), "%x %w %d %p %g %d_o");
  vtb_module_free(m);
}

/* A narrow product over many tokens is one, whatever the batch will be. */
TEST(factors_of_narrow_products_are_kept_likewise) {
  static const char text[] =
      "func @f(%x: f32[B, 5, 16], %w: f32[32, 16], %d: f32[4, 32], %u: f32[4, 16]) -> "
      "(f32[B, 5, 16]) {\n"
      "  %p = einsum %x, %w {spec = \"bnd,ed->bne\"} : f32[B, 5, 32]\n"
      "  %g = silu %p : f32[B, 5, 32]\n"
      "  %y = einsum %g, %d {spec = \"bne,de->bnd\"} : f32[B, 5, 4]\n"
      "  %o = einsum %y, %u {spec = \"bnd,dc->bnc\"} : f32[B, 5, 16]\n"
      "  return %o\n}\n" WITH_MAIN(
          "%x: f32[B, 5, 16], %w: f32[32, 16], %d: f32[4, 32], %u: f32[4, 16]", "%x, %w, %d, %u",
          ", %w, %d, %u", "f32[B, 5, 16]");
  vtb_module *m = grad_parse(text);
  vtb_func *grad = NULL;
  vtb_error err = {0};
  CHECK(keeping(m, "main", (const int[]){0, 1, 2, 3}, 4, false, &grad) == VTB_OK);
  CHECK(grad && vtb_module_verify(m, &err));
  CHECK_STR(returns_of(grad_func(m, "f_fwd")), "%o %p %g %y");
  vtb_module_free(m);
}

/* Where that is asked for, a scan of class rates leaves every eighth state, which its adjoint
 * reads; not one whose keys fill no quad, nor one of a single segment. */
TEST(scans_leave_states_for_their_adjoints) {
  static const struct { int tokens, keys, starts; } cases[] = {{17, 4, 8}, {17, 3, 0}, {8, 4, 0}};
  for (int i = 0; i < 3; i++) {
    char text[600];
    int n = cases[i].tokens, k = cases[i].keys;
    snprintf(text, sizeof text,
             "entry func @f(%%q: f32[B, %d, 1, %d], %%v: f32[B, %d, 1, 5], %%d: f32[B, %d, 1, 5], "
             "%%A: f32[1, %d, 5]) -> (f32[B, %d, 1, 5]) {\n"
             "  %%y, %%s = linscan %%q, %%q, %%v, %%d, %%A {class = \"rates\"} : f32[B, %d, 1, 5], "
             "f32[B, 1, %d, 5]\n  return %%y\n}\n",
             n, k, n, n, k, n, n, k);
    vtb_module *m = grad_parse(text);
    vtb_func *grad = NULL;
    vtb_error err = {0};
    CHECK(keeping(m, "f", (const int[]){0, 1, 2, 3}, 4, true, &grad) == VTB_OK);
    CHECK(grad && vtb_module_verify(m, &err));
    for (const vtb_inst *x = grad->first; x; x = x->next)
      if (x->op == VTB_OP_linscan || x->op == VTB_OP_linscan_grad) {
        CHECK(vtb_attr_int(x, "starts", 0) == cases[i].starts);
        CHECK(x->op == VTB_OP_linscan || x->n_operands == (cases[i].starts ? 7 : 6));
      }
    vtb_module_free(m);
  }
}

/* Only a small part of the projection is read again: the part is saved. */
TEST(small_view_is_saved_instead_of_its_large_source) {
  const char *text = "func @f(%x: f32[B, 12, 4], %w: f32[4, 4]) -> (f32[B, 12, 4]) {\n"
                     "  %p = einsum %x, %w {spec = \"bnd,ed->bne\"} : f32[B, 12, 4]\n"
                     "  %c = slice %p {axis = 1, start = 0, limit = 1} : f32[B, 1, 4]\n"
                     "  %s = sin %c : f32[B, 1, 4]\n"
                     "  %y = add %x, %s : f32[B, 12, 4]\n"
                     "  return %y\n}\n" WITH_MAIN("%x: f32[B, 12, 4], %w: f32[4, 4]", "%x, %w",
                                                  ", %w", "f32[B, 12, 4]");
  grad_check_text(text, "main", 0, 0);
  vtb_module *m = differentiate(text, "main");
  CHECK_STR(returns_of(grad_func(m, "f_fwd")), "%y %c");
  vtb_module_free(m);
}

/* The sum is in memory for the second residual; the centred rows would be stored for this alone. */
TEST(residual_stream_is_saved_instead_of_what_the_norm_makes_of_it) {
  static const char text[] =
      "func @f(%x: f32[B, 6, 8], %w: f32[8, 8], %o: f32[8, 8]) -> (f32[B, 6, 8]) {\n"
      "  %p = einsum %x, %w {spec = \"bnd,ed->bne\"} : f32[B, 6, 8]\n"
      "  %s = add %x, %p : f32[B, 6, 8]\n"
      "  %m = reduce_sum %s {axes = [2], keep = 1} : f32[B, 6, 1]\n"
      "  %c = sub %s, %m : f32[B, 6, 8]\n"
      "  %q = square %c : f32[B, 6, 8]\n"
      "  %v = reduce_sum %q {axes = [2], keep = 1} : f32[B, 6, 1]\n"
      "  %one = constant {value = 1.0} : f32[]\n"
      "  %e = add %v, %one : f32[B, 6, 1]\n"
      "  %r = rsqrt %e : f32[B, 6, 1]\n"
      "  %n = mul %c, %r : f32[B, 6, 8]\n"
      "  %h = einsum %n, %o {spec = \"bnd,ed->bne\"} : f32[B, 6, 8]\n"
      "  %out = add %s, %h : f32[B, 6, 8]\n"
      "  return %out\n}\n"
      "func @main(%x: f32[B, 6, 8], %w: f32[8, 8], %o: f32[8, 8]) -> (f32[B, 6, 8]) {\n"
      "  %y = call @f(%x, %w, %o) : f32[B, 6, 8]\n"
      "  return %y\n}\n";
  grad_check_text(text, "main", 0, 0);
  vtb_module *m = differentiate(text, "main");
  CHECK_STR(returns_of(grad_func(m, "f_fwd")), "%out %s %m %r");
  vtb_module_free(m);
}

/* ---- a block --------------------------------------------------------------------------------- */

#define MIXER                                                                                      \
  LAYERNORM                                                                                        \
  "func @block(%x: f32[B, 6, 4], %w: f32[8, 4], %k: f32[4, 3, 3], %ig: f32[2, 4], %o: f32[4, 4]) " \
  "-> (f32[B, 6, 4]) "                                                                             \
  "{\n"                                                                                            \
  "  %u = einsum %x, %w {spec = \"bnd,ed->bne\"} : f32[B, 6, 8]\n"                                 \
  "  %m = slice %u {axis = 2, start = 0, limit = 4} : f32[B, 6, 4]\n"                              \
  "  %z = slice %u {axis = 2, start = 4, limit = 8} : f32[B, 6, 4]\n"                              \
  "  %c = dwconv %m, %k {grid = [2, 3], pad = [1, 1], path = \"rows~@2x3\"} : f32[B, 6, 4]\n"      \
  "  %a = silu %c : f32[B, 6, 4]\n"                                                                \
  "  %q = reshape %a {shape = [-1, 6, 2, 2]} : f32[B, 6, 2, 2]\n"                                  \
  "  %v = reshape %m {shape = [-1, 6, 2, 2]} : f32[B, 6, 2, 2]\n"                                  \
  "  %i = einsum %a, %ig {spec = \"bnd,hd->bnh\"} : f32[B, 6, 2]\n"                                \
  "  %d = sigmoid %i : f32[B, 6, 2]\n"                                                             \
  "  %y, %S, %nq, %N = linscan %q, %q, %v, %d {class = \"scalar\", normalizer = 1, path = "        \
  "\"rows~@2x3\"} : "                                                                              \
  "f32[B, 6, 2, 2], f32[B, 2, 2, 2], f32[B, 6, 2], f32[B, 2, 2]\n"                                 \
  "  %one = constant {value = 1.0} : f32[]\n"                                                      \
  "  %ab = abs %nq : f32[B, 6, 2]\n"                                                               \
  "  %den = max %ab, %one : f32[B, 6, 2]\n"                                                        \
  "  %den1 = reshape %den {shape = [-1, 6, 2, 1]} : f32[B, 6, 2, 1]\n"                             \
  "  %h4 = div %y, %den1 : f32[B, 6, 2, 2]\n"                                                      \
  "  %h = reshape %h4 {shape = [-1, 6, 4]} : f32[B, 6, 4]\n"                                       \
  "  %g = silu %z : f32[B, 6, 4]\n"                                                                \
  "  %r = mul %h, %g : f32[B, 6, 4]\n"                                                             \
  "  %p = einsum %r, %o {spec = \"bne,de->bnd\"} : f32[B, 6, 4]\n"                                 \
  "  %out = add %x, %p : f32[B, 6, 4]\n"                                                           \
  "  return %out\n}\n"                                                                             \
  "func @main(%x: f32[B, 6, 4], %w: f32[8, 4], %k: f32[4, 3, 3], %ig: f32[2, 4], %o: f32[4, 4]) "  \
  "-> (f32[B, 4]) {\n"                                                                             \
  "  %y = call @block(%x, %w, %k, %ig, %o) : f32[B, 6, 4]\n"                                       \
  "  %z = call @block(%y, %w, %k, %ig, %o) : f32[B, 6, 4]\n"                                       \
  "  %first = slice %z {axis = 1, start = 0, limit = 1} : f32[B, 1, 4]\n"                          \
  "  %last = slice %z {axis = 1, start = 5, limit = 6} : f32[B, 1, 4]\n"                           \
  "  %both = add %first, %last : f32[B, 1, 4]\n"                                                   \
  "  %r = reshape %both {shape = [-1, 4]} : f32[B, 4]\n"                                           \
  "  return %r\n}\n"

TEST(mixer_block_with_conv_and_scan) {
  grad_check_text(MIXER, "main", 0, 0);
  vtb_module *m = differentiate(MIXER, "main");
  /* the projection, the convolution, the gate, and what the scan makes; the quotient, silu and
   * reshapes run again */
  CHECK_STR(returns_of(grad_func(m, "block_fwd")), "%out %u %c %d %y %nq");
  vtb_func *back = grad_func(m, "block_bwd");
  CHECK(grad_count_ops(back, VTB_OP_linscan_grad) == 1);
  CHECK(grad_count_ops(back, VTB_OP_linscan) == 0);
  CHECK(grad_count_ops(back, VTB_OP_dwconv) == 0);
  vtb_module_free(m);
}

/* The decay of a selective scan is larger than all else; it is computed again from its factors. */
TEST(full_decay_is_recomputed) {
  const char *text = "func @f(%x: f32[B, 5, 1, 4], %dt: f32[4, 4], %A: f32[3, 4], %k: f32[B, 5, 1, "
                     "3]) -> (f32[B, 5, 1, 4]) {\n"
                     "  %e = einsum %x, %dt {spec = \"bnhv,wv->bnhw\"} : f32[B, 5, 1, 4]\n"
                     "  %delta = softplus %e : f32[B, 5, 1, 4]\n"
                     "  %d5 = reshape %delta {shape = [-1, 5, 1, 1, 4]} : f32[B, 5, 1, 1, 4]\n"
                     "  %na = exp %A : f32[3, 4]\n"
                     "  %neg = neg %na : f32[3, 4]\n"
                     "  %arg = mul %d5, %neg : f32[B, 5, 1, 3, 4]\n"
                     "  %D = exp %arg : f32[B, 5, 1, 3, 4]\n"
                     "  %y, %S = linscan %k, %k, %delta, %D {class = \"full\"} : f32[B, 5, 1, 4], "
                     "f32[B, 1, 3, 4]\n"
                     "  return %y\n}\n"
                     "func @main(%x: f32[B, 5, 1, 4], %dt: f32[4, 4], %A: f32[3, 4], %k: f32[B, 5, "
                     "1, 3]) -> (f32[B, 5, 1, 4]) {\n"
                     "  %y = call @f(%x, %dt, %A, %k) : f32[B, 5, 1, 4]\n"
                     "  return %y\n}\n";
  grad_check_text(text, "main", 0, 0);
  vtb_module *m = differentiate(text, "main");
  vtb_func *fwd = grad_func(m, "f_fwd");
  for (int r = 0; r < fwd->n_returns; r++) CHECK(fwd->returns[r]->type.rank < 5);
  CHECK(fwd->n_returns == 2);
  vtb_module_free(m);
}

/* ---- text and errors ------------------------------------------------------------------------- */

TEST(text_of_a_small_gradient) {
  vtb_module *m = differentiate("func @main(%x: f32[B, 3], %w: f32[3]) -> (f32[B, 3]) {\n"
                                "  %y = mul %x, %w : f32[B, 3]\n"
                                "  return %y\n}\n",
                                "main");
  vtb_strbuf text = {0};
  vtb_func_print(grad_func(m, "main_grad"), &(vtb_print_options){0}, &text);
  CHECK(strstr(text.at, "%d_x = mul %d_y, %w : f32[B, 3]") != NULL);
  CHECK(strstr(text.at, "%d_w = reduce_sum") != NULL);
  CHECK(strstr(text.at, "return %y, %d_x, %d_w") != NULL);
  vtb_strbuf_free(&text);
  vtb_module_free(m);
}

TEST(adjoints_carry_the_spans_of_their_ops) {
  vtb_module *m =
      grad_parse("func @main(%x: f32[3]) -> (f32[3]) {\n  %y = exp %x : f32[3]\n  return %y\n}\n");
  vtb_func *f = grad_func(m, "main");
  vtb_source source = {.path = "a.vtb", .text = "y = exp(x)", .n = 10};
  f->first->span = (vtb_span){.source = &source, .begin = 4, .end = 10};
  vtb_func *g = grad_of(f);
  CHECK(g->returns[1]->def && g->returns[1]->def->span.source == &source &&
        g->returns[1]->def->span.begin == 4);
  vtb_module_free(m);
}

TEST(op_without_a_derivative_is_an_error) {
  vtb_module *m = grad_parse(
      "func @f(%x: f32[B, 3]) -> (f32[B, 3]) {\n  %y = exp %x : f32[B, 3]\n  return %y\n}\n"
      "func @main(%g: f32[B, 3], %i: f32[B, 3]) -> (f32[B, 3]) {\n"
      "  %h = call @f(%g) : f32[B, 3]\n"
      "  %a, %b = maxplus_grad %h, %i, %g, %i : f32[B, 3], f32[B, 3]\n"
      "  return %a\n}\n");
  vtb_func *grad = NULL;
  vtb_diags diags = {0};
  vtb_error err = {0};
  int zero = 0;
  CHECK(vtb_autodiff(m, grad_func(m, "main"), &zero, 1, &zero, 1, &grad, &diags, &err) ==
        VTB_E_INPUT);
  CHECK(strstr(err.text, "maxplus_grad") != NULL);
  CHECK(grad == NULL);
  CHECK(count_functions(m, "") == 2); /* nothing is left behind */
  vtb_error verify = {0};
  CHECK(vtb_module_verify(m, &verify));
  vtb_diags_free(&diags);
  vtb_module_free(m);
}

TEST(same_input_gives_the_same_text) {
  vtb_strbuf text[2] = {{0}};
  for (int i = 0; i < 2; i++) {
    vtb_module *m = differentiate(MIXER, "main");
    vtb_module_print(m, &(vtb_print_options){0}, &text[i]);
    vtb_module_free(m);
  }
  CHECK_STR(text[0].at, text[1].at);
  vtb_strbuf_free(&text[0]);
  vtb_strbuf_free(&text[1]);
}

int main(void) {
  RUN(calls_within_calls_and_shared_weights);
  RUN(identical_blocks_share_one_backward);
  RUN(calls_run_again_instead_of_saving);
  RUN(functions_do_not_grow_with_depth);
  RUN(same_value_for_two_arguments);
  RUN(unused_arguments_have_zero_adjoints);
  RUN(arguments_and_repeated_values_may_be_returned);
  RUN(sites_that_use_different_outputs_share_a_backward);
  RUN(output_that_nothing_uses_adds_no_adjoint);
  RUN(stop_gradient_stops);
  RUN(call_with_an_operand_without_gradient);
  RUN(integers_pass_through_calls);
  RUN(slices_that_tile_an_axis_become_one_concat);
  RUN(slices_with_gaps_overlaps_and_other_axes);
  RUN(gated_block_saves_the_projection_only);
  RUN(layernorm_saves_mean_and_rstd);
  RUN(factors_of_both_halves_are_kept_where_that_is_asked_for);
  RUN(factors_of_narrow_products_are_kept_likewise);
  RUN(scans_leave_states_for_their_adjoints);
  RUN(small_view_is_saved_instead_of_its_large_source);
  RUN(residual_stream_is_saved_instead_of_what_the_norm_makes_of_it);
  RUN(mixer_block_with_conv_and_scan);
  RUN(full_decay_is_recomputed);
  RUN(text_of_a_small_gradient);
  RUN(adjoints_carry_the_spans_of_their_ops);
  RUN(op_without_a_derivative_is_an_error);
  RUN(same_input_gives_the_same_text);
  return test_done();
}
