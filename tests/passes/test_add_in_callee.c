/* What is added to the results of calls: in the callee where every call does so, with the same
 * numbers, or left alone. */
#include "tests/passes/pass_check.h"
#include "ir/ops.h"

#define X "f32[3, 5]"
#define LAYER                                                                                      \
  "func @layer(%a: " X ", %b: " X ") -> (" X ", " X ") {\n"                                        \
  "  %c = mul %a, %b : " X "\n  %d = exp %a : " X "\n  return %c, %d\n}\n"
#define ENTRY "entry func @f(%x: " X ", %y: " X ") -> (" X ", " X ") {\n"

/* Sums that are left in the entry; the callee, whose arguments become `n_args`, has the others. */
static int left(const char *text, int n_args) {
  vtb_module *before = parse_ir(text);
  if (!before) return -1;
  vtb_module *after = vtb_module_clone(before);
  CHECK(run_passes(after, "add_in_callee"));
  CHECK(compare_modules(before, after, 5) < 1e-12);
  int sums = 0;
  for (const vtb_inst *i = after->entry->first; i; i = i->next) sums += i->op == VTB_OP_add;
  const vtb_func *layer = vtb_module_find(after, "layer");
  CHECK_MSG(layer && layer->n_args == n_args, "%d arguments", layer ? layer->n_args : -1);
  vtb_module_free(before);
  vtb_module_free(after);
  return sums;
}

/* A chain, as that of a residual stream's adjoint: what is added is an argument already. */
TEST(sums_of_a_stream) {
  CHECK(left(LAYER ENTRY "  %p, %q = call @layer(%x, %y) : " X ", " X "\n"
                         "  %s = add %p, %y : " X "\n"
                         "  %r, %t = call @layer(%q, %s) : " X ", " X "\n"
                         "  %u = add %s, %r : " X "\n"
                         "  %v = sub %t, %x : " X "\n"
                         "  return %u, %v\n}\n",
             2) == 0);
}

/* At one call it is another value: an argument more. */
TEST(sums_with_something_else) {
  CHECK(left(LAYER ENTRY "  %e = exp %x : " X "\n"
                         "  %p, %q = call @layer(%x, %y) : " X ", " X "\n"
                         "  %s = add %p, %e : " X "\n"
                         "  %r, %t = call @layer(%q, %s) : " X ", " X "\n"
                         "  %u = add %r, %s : " X "\n"
                         "  %v = sub %t, %x : " X "\n"
                         "  return %u, %v\n}\n",
             3) == 0);
}

TEST(both_results) {
  CHECK(left(LAYER ENTRY "  %p, %q = call @layer(%x, %y) : " X ", " X "\n"
                         "  %s = add %p, %y : " X "\n"
                         "  %t = add %q, %x : " X "\n"
                         "  return %s, %t\n}\n",
             2) == 0);
}

TEST(what_somebody_else_reads_is_left) {
  CHECK(left(LAYER ENTRY "  %p, %q = call @layer(%x, %y) : " X ", " X "\n"
                         "  %s = add %p, %y : " X "\n"
                         "  %t = sub %p, %q : " X "\n"
                         "  return %s, %t\n}\n",
             2) == 1);
  CHECK(left(LAYER ENTRY "  %p, %q = call @layer(%x, %y) : " X ", " X "\n"
                         "  %s = add %p, %y : " X "\n"
                         "  %t = sub %s, %q : " X "\n"
                         "  return %p, %t\n}\n",
             2) == 1);
}

TEST(what_one_call_does_not_add_is_left) {
  CHECK(left(LAYER ENTRY "  %p, %q = call @layer(%x, %y) : " X ", " X "\n"
                         "  %s = add %p, %y : " X "\n"
                         "  %r, %t = call @layer(%q, %s) : " X ", " X "\n"
                         "  return %r, %t\n}\n",
             2) == 1);
}

TEST(what_comes_later_or_is_broadcast_is_left) {
  CHECK(left(LAYER ENTRY "  %p, %q = call @layer(%x, %y) : " X ", " X "\n"
                         "  %e = exp %x : " X "\n"
                         "  %s = add %p, %e : " X "\n"
                         "  return %s, %q\n}\n",
             2) == 1);
  CHECK(left(LAYER "entry func @f(%x: " X ", %y: " X ", %b: f32[5]) -> (" X ", " X ") {\n"
                   "  %p, %q = call @layer(%x, %y) : " X ", " X "\n"
                   "  %s = add %p, %b : " X "\n"
                   "  return %s, %q\n}\n",
             2) == 1);
  CHECK(left(LAYER ENTRY "  %p, %q = call @layer(%x, %y) : " X ", " X "\n"
                         "  %s = add %p, %p : " X "\n"
                         "  %t = add %q, %q : " X "\n"
                         "  return %s, %t\n}\n",
             2) == 2);
}

int main(void) {
  RUN(sums_of_a_stream);
  RUN(sums_with_something_else);
  RUN(both_results);
  RUN(what_somebody_else_reads_is_left);
  RUN(what_one_call_does_not_add_is_left);
  RUN(what_comes_later_or_is_broadcast_is_left);
  return test_done();
}
