/* fold in native code: against the interpreter, along every kind of path, forwards and back, with
 * states kept, for one and several samples, an even and an odd number of steps; loops of steps
 * without sequences, and of as many as a run tells. */
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

/* Counts i, halves x [2, 3] and keeps both, with a scalar among the states. */
TEST(loops_need_no_sequence) {
  for (int n = 1; n <= 4; n++) {
    char what[32];
    snprintf(what, sizeof what, "%d steps", n);
    check_format(
        what, NULL,
        "func @f(%%i: i32[], %%x: f32[2, 3], %%c: f32[3]) -> (i32[], f32[2, 3], i32[1, %d], "
        "f32[2, %d, 3]) {\n"
        "  %%j, %%y, %%is, %%xs = fold @s(%%i, %%x, %%c) {states = 2, seqs = 0, keep = 1, "
        "steps = %d} : i32[], f32[2, 3], i32[1, %d], f32[2, %d, 3]\n"
        "  return %%j, %%y, %%is, %%xs\n}\n"
        "func @s(%%i: i32[], %%x: f32[2, 3], %%c: f32[3]) -> (i32[], f32[2, 3]) {\n"
        "  %%one = constant {value = 1} : i32[]\n  %%j = add %%i, %%one : i32[]\n"
        "  %%p = mul %%x, %%c : f32[2, 3]\n  %%t = tanh %%p : f32[2, 3]\n"
        "  return %%j, %%t\n}\n",
        n, n, n, n, n);
  }
}

/* Each of two samples goes on until its count down is at 0: 0, 1, ... steps are run, of which
 * `most` at the latest. */
static void check_while(int first, int second, int most) {
  char what[48];
  snprintf(what, sizeof what, "%d and %d steps of %d", first, second, most);
  check_format(
      what, NULL,
      "func @f(%%x: f32[2, 3]) -> (f32[2], f32[2, 3], i32[]) {\n"
      "  %%g = constant {data = [%d, %d]} : f32[2]\n  %%z = constant {value = 0} : i32[]\n"
      "  %%h, %%y, %%n = fold @s(%%g, %%x, %%z) {states = 3, seqs = 0, steps = %d, while = "
      "1} : f32[2], f32[2, 3], i32[]\n  return %%h, %%y, %%n\n}\n"
      "func @s(%%g: f32[2], %%x: f32[2, 3], %%n: i32[]) -> (f32[2], f32[2, 3], i32[]) {\n"
      "  %%one = constant {value = 1} : f32[]\n  %%zero = constant {value = 0} : f32[]\n"
      "  %%d = sub %%g, %%one : f32[2]\n  %%h = max %%d, %%zero : f32[2]\n"
      "  %%b = reshape %%g {shape = [2, 1]} : f32[2, 1]\n"
      "  %%t = tanh %%x : f32[2, 3]\n  %%y = select %%b, %%t, %%x : f32[2, 3]\n"
      "  %%i = constant {value = 1} : i32[]\n  %%m = add %%n, %%i : i32[]\n"
      "  return %%h, %%y, %%m\n}\n",
      first, second, most);
}

TEST(a_run_tells_how_many_steps_there_are) {
  check_while(0, 0, 5);
  check_while(1, 0, 5);
  check_while(2, 4, 5);
  check_while(9, 3, 5);
}

/* From the last step that was run to the first; what stands behind them is not read. */
static void check_limit(int limit, const char *attrs) {
  char what[48];
  snprintf(what, sizeof what, "the first %d%s", limit, attrs);
  check_format(
      what, NULL,
      "func @f(%%x: f32[2, 3], %%u: f32[2, 5, 3]) -> (f32[2, 3]) {\n"
      "  %%n = constant {value = %d} : i32[]\n"
      "  %%y = fold @s(%%x, %%u, %%n, %%x) {states = 1, seqs = 1, steps = 5, limit = 1%s} : "
      "f32[2, 3]\n  return %%y\n}\n"
      "func @s(%%x: f32[2, 3], %%u: f32[2, 1, 3], %%n: i32[], %%c: "
      "f32[2, 3]) -> (f32[2, 3]) {\n"
      "  %%v = reshape %%u {shape = [2, 3]} : f32[2, 3]\n  %%p = mul %%x, %%v : f32[2, "
      "3]\n  %%q = add %%p, %%v : f32[2, 3]\n  return %%q\n}\n",
      limit, attrs);
}

TEST(a_number_limits_the_steps) {
  for (int limit = 0; limit <= 6; limit++) {
    check_limit(limit, "");
    check_limit(limit, ", reverse = 1");
  }
  check_limit(-1, ", reverse = 1");
}

int main(void) {
  RUN(folds_match_the_interpreter);
  RUN(states_are_kept);
  RUN(operands_need_not_be_stored_for_it);
  RUN(loops_need_no_sequence);
  RUN(a_run_tells_how_many_steps_there_are);
  RUN(a_number_limits_the_steps);
  return test_done();
}
