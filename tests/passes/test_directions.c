/* Scans of one cell along several paths: joined, with the same numbers, or left alone. */
#include "tests/passes/pass_check.h"
#include "ir/ops.h"

#include "ir/recurrence.h"

#define SCAN(result, q, k, v, d, path)                                                             \
  "  " result ", " result "_s = linscan " q ", " k ", " v ", " d                                   \
  " {class = \"scalar\", path = \"" path "\", last = 0} : f32[2, 6, 1, 3], f32[2, 1, 3, 3]\n"
#define ARGS "%q: f32[2, 6, 1, 3], %k: f32[2, 6, 1, 3], %v: f32[2, 6, 1, 3], %d: f32[2, 6, 1]"
#define Y "f32[2, 6, 1, 3]"

/* Scans in each kernel of kind "scans", as decimal digits; the numbers must be those from
 * before. */
static int joined(const char *text) {
  vtb_module *before = parse_ir(text);
  if (!before) return -1;
  vtb_module *after = vtb_module_clone(before);
  CHECK(run_passes(after, "grow{directions},fuse,dce"));
  CHECK(compare_modules(before, after, 3) < 1e-12);
  int digits = 0;
  for (const vtb_inst *i = after->entry->first; i; i = i->next) {
    if (!vtb_is_scans(i)) continue;
    digits *= 10;
    for (const vtb_inst *scan = i->callee->first; scan; scan = scan->next) digits++;
  }
  vtb_module_free(before);
  vtb_module_free(after);
  return digits;
}

TEST(two_directions_of_one_cell) {
  CHECK(joined("entry func @f(" ARGS ") -> (" Y ", " Y
               ") {\n" SCAN("%a", "%q", "%k", "%v", "%d", "rows@2x3")
                   SCAN("%b", "%q", "%k", "%v", "%d", "rows~@2x3") "  return %a, %b\n}\n") == 2);
}

TEST(four_directions) {
  CHECK(joined("entry func @f(" ARGS ") -> (" Y ", " Y ", " Y ", " Y
               ") {\n" SCAN("%a", "%q", "%k", "%v", "%d", "rows@2x3")
                   SCAN("%b", "%q", "%k", "%v", "%d", "rows~@2x3")
                       SCAN("%c", "%q", "%k", "%v", "%d", "cols@2x3")
                           SCAN("%e", "%q", "%k", "%v", "%d",
                                "cols~@2x3") "  return %a, %b, %c, %e\n}\n") == 4);
}

/* What the second direction needs is computed before both; what reads the first stays behind. */
TEST(operands_between) {
  CHECK(joined("entry func @f(" ARGS ") -> (" Y ", " Y
               ") {\n" SCAN("%a", "%q", "%k", "%v", "%d",
                            "rows@2x3") "  %g = silu %a : " Y "\n"
                                        "  %e = sigmoid %d : f32[2, 6, 1]\n" SCAN(
                                            "%b", "%q", "%k", "%v", "%e",
                                            "rows~@2x3") "  %r = add %g, %b : " Y "\n"
                                                         "  return %r, %b\n}\n") == 2);
}

TEST(a_scan_of_a_scan_stays) {
  CHECK(joined("entry func @f(" ARGS ") -> (" Y
               ") {\n" SCAN("%a", "%q", "%k", "%v", "%d", "rows@2x3")
                   SCAN("%b", "%q", "%k", "%a", "%d", "rows~@2x3") "  return %b\n}\n") == 0);
  CHECK(
      joined("entry func @f(" ARGS ") -> (" Y
             ") {\n" SCAN("%a", "%q", "%k", "%v", "%d", "rows@2x3") "  %g = silu %a : " Y "\n" SCAN(
                 "%b", "%q", "%k", "%g", "%d", "rows~@2x3") "  return %b\n}\n") == 0);
}

TEST(nothing_in_common) {
  CHECK(joined("entry func @f(" ARGS ", %q2: " Y ", %k2: " Y ", %v2: " Y ") -> (" Y ", " Y
               ") {\n" SCAN("%a", "%q", "%k", "%v", "%d", "rows@2x3")
                   SCAN("%b", "%q2", "%k2", "%v2", "%d", "rows~@2x3") "  return %a, %b\n}\n") == 0);
}

/* One of three depends on another: two kernels' worth of scans, the first of two. */
TEST(a_group_around_a_dependence) {
  CHECK(joined("entry func @f(" ARGS ") -> (" Y ", " Y
               ") {\n" SCAN("%a", "%q", "%k", "%v", "%d", "rows@2x3")
                   SCAN("%b", "%q", "%k", "%a", "%d", "rows~@2x3")
                       SCAN("%c", "%q", "%k", "%v", "%d", "cols@2x3") "  return %b, %c\n}\n") == 2);
}

/* Operands and results of the one kernel, as decimal digits; 0: none. */
static int signature(const char *text) {
  vtb_module *m = parse_ir(text);
  int digits = 0;
  if (!m) return -1;
  CHECK(run_passes(m, "grow{directions}"));
  for (const vtb_inst *i = m->entry->first; i; i = i->next) {
    if (!vtb_is_scans(i)) continue;
    digits = 10 * i->n_operands + i->n_results;
    for (const vtb_inst *scan = i->callee->first; scan; scan = scan->next)
      CHECK(scan->op == VTB_OP_linscan || scan->op == VTB_OP_linscan_grad);
  }
  vtb_module_free(m);
  return digits;
}

/* Kernels of scans make all that scans make, but for states that are no values. */
TEST(results_that_nobody_reads_stay) {
#define GRAD(n, path)                                                                              \
  "  %q" n ", %k" n ", %v" n ", %d" n " = linscan_grad %q, %k, %v, %d, %dy {class = \"scalar\", "  \
  "path = \"" path "\"} : " Y ", " Y ", " Y ", f32[2, 6, 1]\n"
  CHECK(signature("entry func @f(" ARGS ", %dy: " Y ") -> (" Y ", " Y ") {\n" GRAD("1", "rows@2x3")
                      GRAD("2", "rows~@2x3") "  return %q1, %v2\n}\n") == 58);
  CHECK(signature("entry func @f(" ARGS ") -> (" Y
                  ") {\n" SCAN("%a", "%q", "%k", "%v", "%d", "rows@2x3")
                      SCAN("%b", "%q", "%k", "%v", "%d", "rows~@2x3") "  return %b\n}\n") == 42);
#undef GRAD
}

/* A view of what one direction reads is what another reads, and no part of the kernel. */
TEST(views_stay_outside) {
  CHECK(signature(
            "entry func @f(" ARGS ") -> (" Y ", " Y ") {\n  %s = reshape %k {shape = [2, 6, 3]} "
            ": f32[2, 6, 3]\n  %u = reshape %s {shape = [2, 6, 1, 3]} : " Y
            "\n" SCAN("%a", "%q", "%k", "%v", "%d", "rows@2x3")
                SCAN("%b", "%q", "%k", "%u", "%d", "rows~@2x3") "  return %a, %b\n}\n") == 52);
}

int main(void) {
  RUN(results_that_nobody_reads_stay);
  RUN(views_stay_outside);
  RUN(two_directions_of_one_cell);
  RUN(four_directions);
  RUN(operands_between);
  RUN(a_scan_of_a_scan_stays);
  RUN(nothing_in_common);
  RUN(a_group_around_a_dependence);
  return test_done();
}
