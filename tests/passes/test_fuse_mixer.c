/* What is computed of a scan's rows moves into the kernel of its products, with the same numbers,
 * or stays. */
#include "tests/passes/pass_check.h"
#include "ir/ops.h"

#include "ir/kernels.h"

#define ROW "f32[2, 5, 3, 6]"
#define ONE "f32[2, 5, 3, 1]"
#define HEAD "f32[2, 5, 3]"
#define ARGS "%q: f32[2, 5, 3, 4], %k: f32[2, 5, 3, 4], %v: " ROW ", %d: " HEAD ", %g: " ROW
#define SCAN(more)                                                                                 \
  "  %y, %s, %z, %n = linscan %q, %k, %v, %d {class = \"scalar\", mode = \"parallel\", "           \
  "normalizer = 1, precision = \"bf16\"" more "} : " ROW ", f32[2, 3, 4, 6], " HEAD ", "           \
  "f32[2, 3, 4]\n"
#define BOUND                                                                                      \
  "  %a = abs %z : " HEAD "\n  %c = constant {value = 1} : f32[]\n  %m = max %a, %c : " HEAD "\n"  \
  "  %b = reshape %m {shape = [2, 5, 3, 1]} : " ONE "\n  %h = div %y, %b : " ROW "\n"
#define NORM "  %r = reduce_sum %h {axes = [3], keep = 1} : " ONE "\n  %o = mul %h, %r : " ROW "\n"
#define FUNC(results, body, returned)                                                              \
  "entry func @f(" ARGS ") -> (" results ") {\n" body "  return " returned "\n}\n"

/* Mixers times 100, and what else is left: loops, rows and scans. The numbers must be those from
 * before. */
static int kernels(const char *text) {
  vtb_module *before = parse_ir(text);
  if (!before) return -1;
  vtb_module *after = vtb_module_clone(before);
  CHECK(run_passes(after, "fuse,grow{maxima+mixers},dce"));
  forget_precision(before);
  forget_precision(after);
  CHECK(compare_modules(before, after, 3) < 1e-12);
  int n = 0;
  for (const vtb_inst *i = after->entry->first; i; i = i->next) {
    bool mixer = vtb_kernel_kind_of(i) == VTB_KERNEL_MIXER;
    n += mixer ? 100 : i->op == VTB_OP_fused || i->op == VTB_OP_linscan;
  }
  vtb_module_free(before);
  vtb_module_free(after);
  return n;
}

TEST(rows_behind_the_normalizer) {
  CHECK(kernels(FUNC(ROW, SCAN(", last = 0") BOUND NORM, "%o")) == 100);
  CHECK(kernels(FUNC(ROW ", " ROW ", " ONE, SCAN(", last = 0") BOUND NORM, "%o, %y, %r")) == 100);
  CHECK(kernels(FUNC(ROW, SCAN(", last = 0, path = \"rows~@1x5\"") "  %o = mul %y, %g : " ROW "\n",
                     "%o")) == 100);
}

/* A state is there when all tokens are done; sums over other axes are not of a row, so that the
 * mixer has the scan alone. */
#define OVER_TOKENS                                                                                \
  "  %t = reduce_sum %y {axes = [1], keep = 1} : f32[2, 1, 3, 6]\n  %o = mul %g, %t : " ROW "\n"
TEST(what_is_not_of_a_row_stays) {
  CHECK(kernels(FUNC(ROW ", f32[2, 3, 4, 6]", SCAN("") BOUND NORM, "%o, %s")) < 100);
  CHECK(kernels(FUNC(ROW, SCAN(", last = 0") OVER_TOKENS, "%o")) == 102);
}

/* Keys times a number a token are multiplied in the kernel; not if somebody else reads the
 * product, or states are made of it. */
#define GAIN(k, more)                                                                              \
  "  %e = reshape %d {shape = [2, 5, 3, 1]} : " ONE "\n  %kg = mul %k, %e : f32[2, 5, 3, 4]\n"     \
  "  %y, %s = linscan %q, %" k ", %v, %d {class = \"scalar\", " more ", last = 0, precision = "    \
  "\"bf16\"} : " ROW ", f32[2, 3, 4, 6]\n  %o = mul %y, %g : " ROW "\n"
TEST(gains_of_keys) {
  CHECK(kernels(FUNC(ROW, GAIN("kg", "mode = \"parallel\""), "%o")) == 100);
  CHECK(kernels(FUNC(ROW ", f32[2, 5, 3, 4]", GAIN("kg", "mode = \"parallel\""), "%o, %kg")) ==
        101);
  CHECK(kernels(FUNC(ROW, GAIN("kg", "mode = \"chunkwise\", chunk = 2"), "%o")) == 101);
}

/* The maximum of gates runs where a block has whole sequences, along the same path and for nobody
 * else; then decays, gains and the maximum are no tensors. */
#define PATH "path = \"rows~@1x5\""
#define GATES(path, comma, scan_path)                                                              \
  "  %l = log_sigmoid %d : " HEAD "\n  %x = mul %d, %d : " HEAD "\n  %m = maxplus %l, %x {" path   \
  "} : " HEAD "\n  %p = shift %m {axis = 1, by = 1, fill = -1e30" comma path "} : " HEAD           \
  "\n  %a = add %l, %p : " HEAD "\n  %s1 = sub %a, %m : " HEAD "\n  %c = exp %s1 : " HEAD          \
  "\n  %s2 = sub %x, %m : " HEAD "\n  %i = exp %s2 : " HEAD "\n  %e = reshape %i {shape = [2, "    \
  "5, 3, 1]} : " ONE "\n  %kg = mul %k, %e : f32[2, 5, 3, 4]\n"                                    \
  "  %y, %s = linscan %q, %kg, %v, %c {class = \"scalar\", mode = \"parallel\", last = 0, "        \
  "precision = \"bf16\"" scan_path "} : " ROW ", f32[2, 3, 4, 6]\n  %n = reshape %m {shape = [2, " \
  "5, 3, 1]} : " ONE "\n  %w = mul %y, %n : " ROW "\n  %o = mul %w, %g : " ROW "\n"
TEST(gates) {
  CHECK(kernels(FUNC(ROW, GATES("", "", ""), "%o")) == 100);
  CHECK(kernels(FUNC(ROW, GATES(PATH, ", ", ", " PATH), "%o")) == 100);
  CHECK(kernels(FUNC(ROW ", " HEAD, GATES("", "", ""), "%o, %m")) == 101);
  CHECK(kernels(FUNC(ROW ", " HEAD, GATES("", "", ""), "%o, %c")) == 101);
  CHECK(kernels(FUNC(ROW, GATES("", "", ", " PATH), "%o")) == 101);
}

/* Nobody reads y again, but it is a launch less. */
TEST(the_normalizer_alone) {
  CHECK(kernels(FUNC(ROW ", " HEAD, SCAN(", last = 0") "  %a = abs %z : " HEAD "\n", "%y, %a")) ==
        100);
}

int main(void) {
  RUN(rows_behind_the_normalizer);
  RUN(what_is_not_of_a_row_stays);
  RUN(gains_of_keys);
  RUN(gates);
  RUN(the_normalizer_alone);
  return test_done();
}
