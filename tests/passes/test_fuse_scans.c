/* Scans and the elementwise kernels before and behind them: joined, with the same numbers, or left
 * alone. */
#include "tests/passes/pass_check.h"
#include "ir/ops.h"

#include "ir/kernels.h"

#define ROW "f32[2, 5, 1, 6]"
#define KEYS "f32[2, 5, 1, 3]"
#define ARGS "%q: " KEYS ", %k: " KEYS ", %u: " ROW ", %p: " ROW ", %z: " ROW ", %A: f32[1, 3, 6]"
#define SCAN(y, v, d, more)                                                                        \
  "  %" y ", %" y "_s = linscan %q, %k, %" v ", %" d ", %A {class = \"rates\", last = 0" more      \
  "} : " ROW ", f32[2, 1, 3, 6]\n"
#define BEFORE "  %d = softplus %p : " ROW "\n  %v = mul %d, %u : " ROW "\n"
#define BEHIND "  %g = silu %z : " ROW "\n  %o = mul %y, %g : " ROW "\n"

/* What is left: scans in each kernel of kind "scan" as decimal digits, times 100, and the other
 * kernels. The numbers must be those from before. */
static int kernels_by(const char *text, const char *pipeline) {
  vtb_module *before = parse_ir(text);
  if (!before) return -1;
  vtb_module *after = vtb_module_clone(before);
  CHECK(run_passes(after, pipeline));
  CHECK(compare_modules(before, after, 3) < 1e-12);
  int digits = 0, others = 0;
  for (const vtb_inst *i = after->entry->first; i; i = i->next) {
    bool scan = vtb_kernel_kind_of(i) == VTB_KERNEL_SCAN;
    others += i->op == VTB_OP_fused && !scan;
    digits *= scan ? 10 : 1;
    for (const vtb_inst *x = scan ? i->callee->first : NULL; x; x = x->next)
      digits += x->op == VTB_OP_linscan;
  }
  vtb_module_free(before);
  vtb_module_free(after);
  return 100 * digits + others;
}

static int kernels(const char *text) {
  return kernels_by(text, "fuse,copy_for_scans,grow{scans+scan_adjoints+maxima}");
}

#define FUNC(results, body, returned)                                                              \
  "entry func @f(" ARGS ") -> (" results ") {\n" body "  return " returned "\n}\n"

TEST(what_is_before_and_behind_joins) {
  CHECK(kernels(FUNC(ROW, BEFORE SCAN("y", "v", "d", "") BEHIND, "%o")) == 100);
  CHECK(kernels(FUNC(ROW, BEFORE SCAN("y", "v", "d", ", path = \"rows~@1x5\""), "%y")) == 100);
  CHECK(kernels(FUNC(ROW, SCAN("y", "u", "z", "") BEHIND, "%o")) == 100);
}

/* Heads and columns are one axis for what is behind. */
TEST(views_go_along) {
  CHECK(kernels(FUNC(
            "f32[2, 5, 6]",
            BEFORE SCAN("y", "v", "d", "") "  %r = reshape %y {shape = [2, 5, 6]} : f32[2, 5, 6]\n"
                                           "  %o = silu %r : f32[2, 5, 6]\n",
            "%o")) == 100);
}

/* What others read, too, is stored, or stays. */
TEST(several_readers) {
  CHECK(kernels(FUNC(ROW ", " ROW, BEFORE SCAN("y", "v", "d", "") BEHIND, "%o, %y")) == 100);
  CHECK(kernels(FUNC(ROW ", " ROW, BEFORE SCAN("y", "v", "d", "") BEHIND, "%o, %d")) == 101);
}

/* Two that one kernel adds up are one; each may be wanted as well. */
TEST(two_scans_of_one_sum) {
#define TWO                                                                                        \
  BEFORE SCAN("y", "v", "d", "") SCAN("b", "u", "d", ", path = \"rows~@1x5\"") BEHIND              \
      "  %h = add %o, %b : " ROW "\n"
  CHECK(kernels(FUNC(ROW, TWO, "%h")) == 200);
  CHECK(kernels(FUNC(ROW ", " ROW, TWO, "%h, %o")) == 200);
#undef TWO
}

/* Directions of one launch run one after the other if there are columns enough: 1060 here. */
TEST(directions_part) {
#define MANY(b)                                                                                    \
  "entry func @f(%q: f32[" b ", 2, 1, 1], %u: f32[" b ", 2, 1, 1], %p: f32[" b                     \
  ", 2, 1, 1], %A: f32[1, 1, 1]) -> (f32[" b ", 2, 1, 1]) {\n"                                     \
  "  %y, %s = linscan %q, %q, %u, %p, %A {class = \"rates\", last = 0} : f32[" b                   \
  ", 2, 1, 1], f32[" b ", 1, 1, 1]\n"                                                              \
  "  %z, %r = linscan %q, %q, %u, %p, %A {class = \"rates\", last = 0, path = \"rows~@1x2\"} : "   \
  "f32[" b ", 2, 1, 1], f32[" b ", 1, 1, 1]\n"                                                     \
  "  %o = add %y, %z : f32[" b ", 2, 1, 1]\n  return %o\n}\n"
  CHECK(kernels_by(MANY("1060"),
                   "grow{directions},fuse,copy_for_scans,grow{scans+scan_adjoints+maxima}") == 200);
  CHECK(kernels_by(MANY("1050"),
                   "grow{directions},fuse,copy_for_scans,grow{scans+scan_adjoints+maxima}") == 2);
#undef MANY
}

TEST(what_cannot_join) {
  /* a sum */
  CHECK(kernels(FUNC("f32[2, 5, 1, 1]",
                     SCAN("y", "u", "z",
                          "") "  %o = reduce_sum %y {axes = [3], keep = 1} : f32[2, 5, 1, 1]\n",
                     "%o")) == 1);
  /* the second scan reads the first, with a sum between */
  CHECK(kernels(FUNC(ROW,
                     SCAN("y", "u", "z",
                          "") "  %s = reduce_sum %y {axes = [1], keep = 1} : f32[2, 1, 1, 6]\n"
                              "  %v = mul %u, %s : " ROW
                              "\n" SCAN("b", "v", "z", "") "  %o = add %y, %b : " ROW "\n",
                     "%o")) == 101);
  /* products of matrices have their own kernels */
  CHECK(kernels("entry func @f(%q: " KEYS ", %k: " KEYS ", %u: " ROW ", %d: f32[2, 5, 1], %z: " ROW
                ") -> (" ROW ") {\n"
                "  %y, %s = linscan %q, %k, %u, %d {class = \"scalar\", mode = \"parallel\", last "
                "= 0} : " ROW ", f32[2, 1, 3, 6]\n" BEHIND "  return %o\n}\n") == 1);
}

/* Kernels of kind "scan" times 100, and the others. */
static int maxima(const char *body, const char *returned) {
  char text[2000];
  snprintf(text, sizeof text,
           "entry func @f(%%a: f32[2, 6, 3], %%c: f32[2, 6, 3]) -> (f32[2, 6, 3], f32[2, 6, 3]) "
           "{\n  %%g = log_sigmoid %%a : f32[2, 6, 3]\n%s  return %s\n}\n",
           body, returned);
  vtb_module *before = parse_ir(text);
  if (!before) return -1;
  vtb_module *after = vtb_module_clone(before);
  CHECK(run_passes(after, "fuse,copy_for_scans,grow{scans+scan_adjoints+maxima}"));
  CHECK(compare_modules(before, after, 3) < 1e-12);
  int n = 0;
  for (const vtb_inst *i = after->entry->first; i; i = i->next)
    n += i->op != VTB_OP_fused ? 0 : vtb_kernel_kind_of(i) == VTB_KERNEL_SCAN ? 100 : 1;
  vtb_module_free(before);
  vtb_module_free(after);
  return n;
}

TEST(gates_and_what_is_behind_a_maximum) {
#define MAX(path) "  %m = maxplus %g, %c {path = \"" path "\"} : f32[2, 6, 3]\n"
#define BEFORE_IT(path, by)                                                                        \
  "  %p = shift %m {axis = 1, by = " by ", fill = 1, path = \"" path "\"} : f32[2, 6, 3]\n"        \
  "  %d = sub %p, %m : f32[2, 6, 3]\n"
#define GAIN "  %e = exp %m : f32[2, 6, 3]\n"
  CHECK(maxima(MAX("rows~@2x3") BEFORE_IT("rows~@2x3", "1") GAIN, "%d, %e") == 100);
  CHECK(maxima(MAX("rows~@2x3") GAIN, "%g, %e") == 100);
  /* another order, or further away */
  CHECK(maxima(MAX("rows~@2x3") BEFORE_IT("cols@2x3", "1"), "%d, %m") == 101);
  CHECK(maxima(MAX("rows~@2x3") BEFORE_IT("rows~@2x3", "2"), "%d, %m") == 101);
  CHECK(maxima(MAX("rows~@2x3") BEFORE_IT("rows~@2x3", "-1"), "%d, %m") == 101);
  /* the token before of what is made of the maximum */
  CHECK(maxima(MAX("rows@2x3") GAIN "  %p = shift %e {axis = 1, by = 1} : f32[2, 6, 3]\n"
                                    "  %d = mul %p, %a : f32[2, 6, 3]\n",
               "%d, %e") %
            100 >
        0);
#undef MAX
#undef BEFORE_IT
#undef GAIN
}

int main(void) {
  RUN(what_is_before_and_behind_joins);
  RUN(views_go_along);
  RUN(several_readers);
  RUN(two_scans_of_one_sum);
  RUN(directions_part);
  RUN(what_cannot_join);
  RUN(gates_and_what_is_behind_a_maximum);
  return test_done();
}
