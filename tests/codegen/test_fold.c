/* fold in native code: against the interpreter, along every kind of path, forwards and back, with
 * states kept, for one and several samples, an even and an odd number of steps. */
#include "tests/codegen/codegen_check.h"

static const char cell[] =
    "func @f(%%c: f32[%d, 6], %%h: f32[%d, 6], %%x: f32[%d, %d, 6], %%g: f32[%d, %d], %%w: f32[6, "
    "6]) -> "
    "(f32[%d, %d, 6], f32[%d, %d], f32[%d, 6], f32[%d, 6]%s) {\n"
    "  %%y, %%z, %%c2, %%h2%s = fold @s(%%c, %%h, %%x, %%g, %%w) {states = 2, seqs = 2%s} : "
    "f32[%d, %d, 6], "
    "f32[%d, %d], f32[%d, 6], f32[%d, 6]%s\n  return %%y, %%z, %%c2, %%h2%s\n}\n"
    "func @s(%%c: f32[%d, 6], %%h: f32[%d, 6], %%x: f32[%d, 1, 6], %%g: f32[%d, 1], %%w: f32[6, "
    "6]) -> (f32[%d, 6], "
    "f32[%d, 6], f32[%d, 1, 6], f32[%d, 1]) {\n"
    "  %%p = einsum %%h, %%w {spec = \"bi,io->bo\"} : f32[%d, 6]\n  %%x1 = reshape %%x {shape = "
    "[%d, 6]} : f32[%d, 6]\n"
    "  %%q = add %%p, %%x1 : f32[%d, 6]\n  %%t = tanh %%q : f32[%d, 6]\n  %%d = sigmoid %%g : "
    "f32[%d, 1]\n"
    "  %%dc = mul %%d, %%c : f32[%d, 6]\n  %%c2 = add %%dc, %%t : f32[%d, 6]\n  %%h2 = tanh %%c2 : "
    "f32[%d, 6]\n"
    "  %%y = reshape %%h2 {shape = [%d, 1, 6]} : f32[%d, 1, 6]\n"
    "  %%z = reduce_sum %%c2 {axes = [1], keep = 1} : f32[%d, 1]\n  return %%c2, %%h2, %%y, "
    "%%z\n}\n";

static void check_cell(int b, int n, const char *attrs, bool keep) {
  char kept[64] = "", what[96];
  if (keep) snprintf(kept, sizeof kept, ", f32[%d, %d, 6], f32[%d, %d, 6]", b, n, b, n);
  snprintf(what, sizeof what, "batch %d, %d steps%s", b, n, attrs);
  const char *names = keep ? ", %ck, %hk" : "";
  check_format(what, NULL, cell, b, b, b, n, b, n, b, n, b, n, b, b, kept, names, attrs, b, n, b, n,
               b, b, kept, names, b, b, b, b, b, b, b, b, b, b, b, b, b, b, b, b, b, b, b, b);
}

TEST(folds_match_the_interpreter) {
  check_cell(1, 6, "", false);
  check_cell(3, 5, "", false);
  check_cell(1, 1, "", false);
  check_cell(2, 6, ", path = \"snake@2x3\"", false);
  check_cell(2, 6, ", path = \"cols@2x3\", reverse = 1", false);
}

TEST(states_are_kept) {
  check_cell(1, 6, ", keep = 1", true);
  check_cell(3, 5, ", path = \"rows~@1x5\", keep = 1", true);
  check_cell(2, 4, ", path = \"hilbert@2x2\", reverse = 1, keep = 1", true);
}

/* Operands that the plan makes views of something else, a constant, and one value for two
 * states. */
TEST(operands_need_not_be_stored_for_it) {
  check_text("views",
             "func @f(%x: f32[2, 4, 3], %w: f32[5, 2]) -> (f32[2, 4, 1], f32[2, 2]) {\n"
             "  %x1 = slice %x {axis = 2, start = 1, limit = 3} : f32[2, 4, 2]\n"
             "  %w1 = slice %w {axis = 0, start = 1, limit = 3} : f32[2, 2]\n"
             "  %v = transpose %w1 {perm = [1, 0]} : f32[2, 2]\n  %z = constant {value = 0.25} : "
             "f32[2, 2]\n"
             "  %y, %a, %b = fold @s(%z, %z, %x1, %v) {states = 2, seqs = 1} : f32[2, 4, 1], "
             "f32[2, 2], f32[2, 2]\n"
             "  %c = add %a, %b : f32[2, 2]\n  return %y, %c\n}\n"
             "func @s(%a: f32[2, 2], %b: f32[2, 2], %x: f32[2, 1, 2], %v: f32[2, 2]) -> (f32[2, "
             "2], f32[2, 2], "
             "f32[2, 1, 1]) {\n"
             "  %x1 = reshape %x {shape = [2, 2]} : f32[2, 2]\n  %p = mul %a, %v : f32[2, 2]\n"
             "  %q = add %p, %x1 : f32[2, 2]\n  %t = tanh %q : f32[2, 2]\n"
             "  %r = reduce_sum %b {axes = [1], keep = 1} : f32[2, 1]\n"
             "  %y = reshape %r {shape = [2, 1, 1]} : f32[2, 1, 1]\n  return %b, %t, %y\n}\n",
             NULL);
}

int main(void) {
  RUN(folds_match_the_interpreter);
  RUN(states_are_kept);
  RUN(operands_need_not_be_stored_for_it);
  return test_done();
}
