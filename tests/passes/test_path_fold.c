/* Path folding: where permutations go, where they stay, and that results do not change. */
#include "tests/passes/pass_check.h"
#include "ir/ops.h"

#include "ir/path.h"

#define SCAN_OF(q, path)                                                                           \
  "%y, %s = linscan " q ", " q ", " q ", %d {class = \"constant\"" path                            \
  "} : f32[B, N=6, h=1, K=2], f32[B, h=1, K=2, 2]\n"
#define ARGS "(%x: f32[B, N=6, h=1, K=2], %d: f32[h=1])"
#define P "{axis = 1, path = \"cols@2x3\"}"
#define P_BACK "{axis = 1, path = \"cols@2x3\", inverse = 1}"

TEST(a_scan_takes_the_path_and_the_pair_goes) {
  CHECK_PASS("path_fold",
             "entry func @f" ARGS " -> (f32[B, N=6, h=1, K=2]) {\n"
             "%p = permute %x " P
             " : f32[B, N=6, h=1, K=2]\n%g = gelu %p : f32[B, N=6, h=1, K=2]\n" SCAN_OF(
                 "%g", "") "%z = permute %y " P_BACK " : f32[B, N=6, h=1, K=2]\nreturn %z\n}\n",
             "entry func @f" ARGS
             " -> (f32[B, N=6, h=1, K=2]) {\n%g = gelu %x : f32[B, N=6, h=1, K=2]\n" SCAN_OF(
                 "%g", ", path = \"cols@2x3\"") "return %y\n}\n");
}

TEST(without_a_permutation_nothing_happens) {
  CHECK_KEPT("path_fold",
             "entry func @f" ARGS
             " -> (f32[B, N=6, h=1, K=2]) {\n%g = gelu %x : f32[B, N=6, h=1, K=2]\n" SCAN_OF(
                 "%g", "") "return %y\n}\n");
}

TEST(a_result_in_path_order_keeps_its_permutation) {
  CHECK_PASS(
      "path_fold",
      "entry func @f(%x: f32[B, N=6, 2]) -> (f32[B, N=6, 2]) {\n%p = permute %x " P
      " : f32[B, N=6, 2]\n"
      "%g = gelu %p : f32[B, N=6, 2]\nreturn %g\n}\n",
      "entry func @f(%x: f32[B, N=6, 2]) -> (f32[B, N=6, 2]) {\n%g = gelu %x : f32[B, N=6, 2]\n"
      "%g.1 = permute %g " P " : f32[B, N=6, 2]\nreturn %g.1\n}\n");
}

TEST(paths_compose_and_identities_vanish) {
  CHECK_PASS(
      "path_fold",
      "entry func @f" ARGS " -> (f32[B, N=6, h=1, K=2]) {\n%p = permute %x {axis = 1, path = "
      "\"rows~@2x3\"} : f32[B, N=6, h=1, "
      "K=2]\n" SCAN_OF(
          "%p", ", path = \"rows~@2x3\"") "%z = permute %y {axis = 1, path = \"rows~@2x3\", "
                                          "inverse = 1} : f32[B, N=6, h=1, K=2]\nreturn %z\n}\n",
      "entry func @f" ARGS " -> (f32[B, N=6, h=1, K=2]) {\n" SCAN_OF("%x", "") "return %y\n}\n");
  CHECK_PASS(
      "path_fold",
      "entry func @f" ARGS " -> (f32[B, N=6, h=1, K=2]) {\n%p = permute %x {axis = 1, path = "
      "\"cols@2x3\"} : f32[B, N=6, h=1, "
      "K=2]\n" SCAN_OF("%p", ", path = \"rows~@2x3\"") "%z = permute %y " P_BACK
                                                       " : f32[B, N=6, h=1, K=2]\nreturn %z\n}\n",
      "entry func @f" ARGS
      " -> (f32[B, N=6, h=1, K=2]) {\n" SCAN_OF("%x", ", path = \"cols~@2x3\"") "return %y\n}\n");
}

TEST(one_token_is_picked_where_it_is_stored) {
  CHECK_PASS("path_fold",
             "entry func @f(%x: f32[B, N=6, 2]) -> (f32[B, 1, 2]) {\n%p = permute %x {axis = 1, "
             "path = \"rows~@2x3\"} "
             ": f32[B, N=6, 2]\n"
             "%c = slice %p {axis = 1, start = 1, limit = 2} : f32[B, 1, 2]\nreturn %c\n}\n",
             "entry func @f(%x: f32[B, N=6, 2]) -> (f32[B, 1, 2]) {\n%c = slice %x {axis = 1, "
             "start = 4, limit = 5} : "
             "f32[B, 1, 2]\nreturn %c\n}\n");
}

/* The tokens' axis moves to the front when those before it are summed away. */
TEST(tokens_are_followed_through_reductions) {
  CHECK_PASS("path_fold",
             "entry func @f(%x: f32[4, N=6, 2]) -> (f32[N=6, 2], f32[4, N=6]) {\n%p = permute %x " P
             " : f32[4, N=6, 2]\n"
             "%s = reduce_sum %p {axes = [0]} : f32[N=6, 2]\n"
             "%t = reduce_sum %p {axes = [2]} : f32[4, N=6]\n"
             "%u = permute %s {axis = 0, path = \"cols@2x3\", inverse = 1} : f32[N=6, 2]\n"
             "%v = permute %t {axis = 1, path = \"cols@2x3\", inverse = 1} : f32[4, N=6]\n"
             "return %u, %v\n}\n",
             "entry func @f(%x: f32[4, N=6, 2]) -> (f32[N=6, 2], f32[4, N=6]) {\n"
             "%s = reduce_sum %x {axes = [0]} : f32[N=6, 2]\n"
             "%t = reduce_sum %x {axes = [2]} : f32[4, N=6]\n"
             "return %s, %t\n}\n");
}

TEST(ops_that_mix_tokens_get_a_permutation) {
  CHECK_PASS("path_fold",
             "entry func @f(%x: f32[B, N=6, 2]) -> (f32[B, 2, 2]) {\n%p = permute %x " P
             " : f32[B, N=6, 2]\n"
             "%c = slice %p {axis = 1, start = 1, limit = 3} : f32[B, 2, 2]\nreturn %c\n}\n",
             "entry func @f(%x: f32[B, N=6, 2]) -> (f32[B, 2, 2]) {\n%x.1 = permute %x " P
             " : f32[B, N=6, 2]\n"
             "%c = slice %x.1 {axis = 1, start = 1, limit = 3} : f32[B, 2, 2]\nreturn %c\n}\n");
}

TEST(callees_are_copied_for_their_arguments_orders) {
  const char *text =
      "func @block" ARGS
      " -> (f32[B, N=6, h=1, K=2]) {\n%g = gelu %x : f32[B, N=6, h=1, K=2]\n" SCAN_OF(
          "%g", "") "return %y\n}\n"
                    "entry func @f" ARGS " -> (f32[B, N=6, h=1, K=2], f32[B, N=6, h=1, K=2]) {\n"
                    "%a = call @block(%x, %d) : f32[B, N=6, h=1, K=2]\n"
                    "%p = permute %a " P
                    " : f32[B, N=6, h=1, K=2]\n%b = call @block(%p, %d) : f32[B, N=6, h=1, K=2]\n"
                    "%z = permute %b " P_BACK " : f32[B, N=6, h=1, K=2]\n"
                    "%q = permute %z " P
                    " : f32[B, N=6, h=1, K=2]\n%c = call @block(%q, %d) : f32[B, N=6, h=1, K=2]\n"
                    "%y = permute %c " P_BACK " : f32[B, N=6, h=1, K=2]\nreturn %z, %y\n}\n";
  vtb_module *before = parse_ir(text), *after = parse_ir(text);
  if (!before || !after || !run_passes(after, "path_fold,dce")) return;
  CHECK(count_ops(after, VTB_OP_permute) == 0);
  CHECK(count_ops(after, VTB_OP_linscan) == 2); /* one plain, one along cols for both calls */
  CHECK(compare_modules(before, after, 3) <= 1e-13);
  vtb_module_free(before), vtb_module_free(after);
}

/* Two axes of one size: the path must follow the tokens. */
static void check_two_axes(const char *middle, int permutes) {
  char text[1200];
  snprintf(text, sizeof text,
           "entry func @f(%%x: f32[B, N=2, h=2, 3]) -> (f32[B, N=2, h=2, 3]) {\n"
           "%%p = permute %%x {axis = 1, path = \"rows~@1x2\"} : f32[B, N=2, h=2, 3]\n"
           "%%t = transpose %%p {perm = [0, 2, 1, 3]} : f32[B, h=2, N=2, 3]\n%s"
           "%%b = transpose %%u {perm = [0, 2, 1, 3]} : f32[B, N=2, h=2, 3]\n%%s = shift %%b {axis "
           "= 1, by = 1} : "
           "f32[B, N=2, h=2, 3]\n"
           "%%r = permute %%s {axis = 1, path = \"rows~@1x2\", inverse = 1} : f32[B, N=2, h=2, "
           "3]\nreturn %%r\n}\n",
           middle);
  vtb_module *before = parse_ir(text), *after = parse_ir(text);
  if (!before || !after || !run_passes(after, "path_fold")) return;
  CHECK(count_ops(after, VTB_OP_permute) == permutes);
  CHECK(compare_modules(before, after, 8) <= 0);
  vtb_module_free(before), vtb_module_free(after);
}

TEST(tokens_are_followed_through_reshapes) {
  check_two_axes("%a = reshape %t {shape = [-1, 2, 2, 1, 3]} : f32[B, 2, 2, 1, 3]\n%u = reshape %a "
                 "{shape = [-1, 2, 2, "
                 "3]} : f32[B, h=2, N=2, 3]\n",
                 0);
  check_two_axes("%a = reshape %t {shape = [-1, 4, 3]} : f32[B, 4, 3]\n%g = exp %a : f32[B, 4, "
                 "3]\n%u = reshape %g "
                 "{shape = [-1, 2, 2, 3]} : f32[B, h=2, N=2, 3]\n",
                 2);
}

/* ---- random bodies --------------------------------------------------------------------------- */

static int below(unsigned long long *rng, int n) { return (int)((test_random(rng) + 1) / 2 * n); }

static void put_path(vtb_strbuf *s, unsigned long long *rng) {
  static const char *const orders[] = {"rows", "cols", "snake", "diagonal", "hilbert"};
  vtb_strbuf_printf(s, "%s%s%s%s@3x4", orders[below(rng, 5)], below(rng, 2) ? "~" : "",
                    below(rng, 3) ? "" : ".hflip", below(rng, 3) ? "" : ".vflip");
}

/* A new value [B, 12, 2, 3] from earlier ones. */
static void put_step(vtb_strbuf *s, unsigned long long *rng, int id) {
  const char *t = "f32[B, N=12, 2, 3]";
  int a = below(rng, id), b = below(rng, id);
  switch (below(rng, 12)) {
  case 0:
  case 1:
  case 2:
    vtb_strbuf_printf(s, "%%t%d = permute %%t%d {axis = 1, path = \"", id, a);
    put_path(s, rng);
    vtb_strbuf_printf(s, "\", inverse = %d} : %s\n", below(rng, 2), t);
    break;
  case 3:
    vtb_strbuf_printf(s, "%%t%d = add %%t%d, %%t%d : %s\n", id, a, b, t);
    break;
  case 4:
    vtb_strbuf_printf(s, "%%t%d = mul %%t%d, %%pos : %s\n", id, a, t);
    break;
  case 5:
    vtb_strbuf_printf(s,
                      "%%r%d = reduce_sum %%t%d {axes = [3], keep = 1} : f32[B, N=12, 2, 1]\n%%t%d "
                      "= sub %%t%d, %%r%d : %s\n",
                      id, a, id, b, id, t);
    break;
  case 6:
    vtb_strbuf_printf(s, "%%t%d, %%s%d = linscan %%t%d, %%t%d, %%t%d, %%d {class = \"constant\"",
                      id, id, a, b, a);
    if (below(rng, 2)) {
      vtb_strbuf_puts(s, ", path = \"");
      put_path(s, rng);
      vtb_strbuf_puts(s, "\"");
    }
    vtb_strbuf_printf(s, "} : %s, f32[B, 2, 3, 3]\n", t);
    break;
  case 7:
    vtb_strbuf_printf(s,
                      "%%f%d = reshape %%t%d {shape = [-1, 12, 6]} : f32[B, N=12, 6]\n%%c%d = "
                      "dwconv %%f%d, %%w {grid "
                      "= [3, 4], pad = [1, 1]} : f32[B, N=12, 6]\n"
                      "%%t%d = reshape %%c%d {shape = [-1, 12, 2, 3]} : %s\n",
                      id, a, id, id, id, id, t);
    break;
  case 8:
    vtb_strbuf_printf(s, "%%t%d = shift %%t%d {axis = 1, by = %d} : %s\n", id, a,
                      below(rng, 2) ? 1 : -2, t);
    break;
  case 9:
    vtb_strbuf_printf(s, "%%t%d = prefix_sum %%t%d {axis = %d, reverse = 1} : %s\n", id, a,
                      below(rng, 2) ? 1 : 3, t);
    break;
  case 10:
    vtb_strbuf_printf(s,
                      "%%h%d = transpose %%t%d {perm = [0, 2, 1, 3]} : f32[B, 2, N=12, 3]\n%%e%d = "
                      "einsum %%h%d, %%m "
                      "{spec = \"bhnd,de->bnhe\"} : %s\n"
                      "%%t%d = maxplus %%e%d, %%t%d : %s\n",
                      id, a, id, id, t, id, id, b, t);
    break;
  default:
    vtb_strbuf_printf(s, "%%g%d = call @scale(%%t%d) : %s\n%%t%d = tanh %%g%d : %s\n", id, a, t, id,
                      id, t);
    break;
  }
}

static char *random_body(unsigned long long *rng) {
  vtb_strbuf s = {0};
  vtb_strbuf_puts(&s, "func @scale(%x: f32[B, N=12, 2, 3]) -> (f32[B, N=12, 2, 3]) {\n%p = permute "
                      "%x {axis = 1, path = "
                      "\"snake@3x4\"} : f32[B, N=12, 2, 3]\n"
                      "%y = shift %p {axis = 1, by = 1} : f32[B, N=12, 2, 3]\n%h = constant {value "
                      "= 0.5} : f32[]\n%z = "
                      "mul %y, %h : f32[B, N=12, 2, 3]\n"
                      "%q = permute %z {axis = 1, path = \"snake@3x4\", inverse = 1} : f32[B, "
                      "N=12, 2, 3]\nreturn %q\n}\n");
  vtb_strbuf_puts(&s, "entry func @f(%t0: f32[B, N=12, 2, 3], %pos: f32[N=12, 1, 3], %d: f32[2], "
                      "%w: f32[6, 3, 3], %m: "
                      "f32[3, 3]) -> (");
  int n = 3 + below(rng, 10);
  vtb_strbuf_puts(&s, "f32[B, N=12, 2, 3], f32[B, 2, 3]) {\n");
  for (int i = 1; i <= n; i++) put_step(&s, rng, i);
  vtb_strbuf_printf(
      &s, "%%pool = reduce_sum %%t%d {axes = [1]} : f32[B, 2, 3]\nreturn %%t%d, %%pool\n}\n", n, n);
  return s.at;
}

TEST(random_paths_do_not_change_results) {
  unsigned long long rng = 0x853c49e6748fea9bull;
  for (int i = 0; i < 150; i++) {
    char *text = random_body(&rng);
    vtb_module *before = parse_ir(text), *after = parse_ir(text);
    if (before && after && run_passes(after, "path_fold,simplify,cse,dce")) {
      double e = compare_modules(before, after, rng);
      CHECK_MSG(e <= 1e-12, "error %g after folding\n%s", e, text);
    }
    if (before) vtb_module_free(before);
    if (after) vtb_module_free(after);
    free(text);
  }
}

int main(void) {
  RUN(a_scan_takes_the_path_and_the_pair_goes);
  RUN(without_a_permutation_nothing_happens);
  RUN(a_result_in_path_order_keeps_its_permutation);
  RUN(paths_compose_and_identities_vanish);
  RUN(one_token_is_picked_where_it_is_stored);
  RUN(tokens_are_followed_through_reductions);
  RUN(ops_that_mix_tokens_get_a_permutation);
  RUN(callees_are_copied_for_their_arguments_orders);
  RUN(tokens_are_followed_through_reshapes);
  RUN(random_paths_do_not_change_results);
  return test_done();
}
