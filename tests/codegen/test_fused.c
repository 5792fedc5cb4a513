/* Elementwise, moving and reducing kernels, bare and fused, against the interpreter. */
#include "tests/codegen/codegen_check.h"

static const char *cpu; /* NULL: this machine's */
#define ON_CPU (&(check_options){.cpu = cpu})

static const int64_t sizes[] = {1, 3, 8, 13, 31, 100};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

/* Each f32 op of one operand over its interesting range. */
TEST(unary_ops_follow_the_interpreter) {
  static const struct {
    const char *op;
    double low, high, tolerance;
  } ops[] = {{"neg", -3, 3, 0},
             {"abs", -3, 3, 0},
             {"sign", -3, 3, 0},
             {"exp", -100, 88, 1e-6},
             {"exp", -2, 2, 1e-6},
             {"log", 1e-6, 4, 1e-6},
             {"log", 0.9, 1.1, 1e-6},
             {"sqrt", 0, 9, 1e-6},
             {"rsqrt", 0.01, 9, 1e-6},
             {"square", -3, 3, 1e-6},
             {"sin", -40, 40, 1e-6},
             {"cos", -40, 40, 1e-6},
             {"tanh", -10, 10, 1e-6},
             {"tanh", -0.7, 0.7, 1e-6},
             {"erf", -5, 5, 1e-6},
             {"erf", -0.1, 0.1, 1e-6},
             {"sigmoid", -100, 100, 1e-6},
             {"log_sigmoid", -100, 100, 1e-6},
             {"log_sigmoid", 5, 30, 1e-6},
             {"softplus", -30, 5, 1e-6},
             {"softplus", -30, -5, 1e-6},
             {"silu", -90, 20, 1e-6},
             {"gelu", -6, 6, 1e-6},
             {"gelu_tanh", -6, 6, 1e-6},
             {"relu", -2, 2, 0},
             {"floor", -5, 5, 0},
             {"stop_gradient", -1, 1, 0}};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    check_options o = {.low = ops[i].low,
                       .high = ops[i].high,
                       .tolerance = ops[i].tolerance ? ops[i].tolerance : 1e-9};
    check_format(ops[i].op, &o,
                 "func @f(%%x: f32[37, 41]) -> (f32[37, 41]) {\n  %%y = %s %%x : f32[37, 41]\n  "
                 "return %%y\n}\n",
                 ops[i].op);
  }
}

/* Reads that go along another axis than writes, in patches that do and do not divide the sizes. */
TEST(patches_of_any_size) {
  static const char *const sizes_of[] = {"2, 300, 70", "1, 513, 64", "3, 17, 1000", "2, 260, 129"};
  for (size_t i = 0; i < sizeof sizes_of / sizeof *sizes_of; i++) {
    int n, rows, columns;
    CHECK(sscanf(sizes_of[i], "%d, %d, %d", &n, &rows, &columns) == 3);
    check_format("a transpose with an op, and by itself", ON_CPU,
                 "func @f(%%x: f32[%d, %d, %d], %%y: f32[%d, %d, %d]) -> (f32[%d, %d, %d], "
                 "f32[%d, %d, %d]) {\n"
                 "  %%t = transpose %%x {perm = [0, 2, 1]} : f32[%d, %d, %d]\n"
                 "  %%a = add %%t, %%y : f32[%d, %d, %d]\n  return %%a, %%t\n}\n",
                 n, rows, columns, n, columns, rows, n, columns, rows, n, columns, rows, n, columns,
                 rows, n, columns, rows);
  }
}

TEST(binary_ops_broadcast) {
  static const char *const ops[] = {"add", "sub", "mul", "div", "max",
                                    "min", "pow", "gt",  "ge",  "eq"};
  static const char *const shapes[][3] = {{"2, 3, 20", "2, 3, 20", "2, 3, 20"},
                                          {"2, 3, 20", "20", "2, 3, 20"},
                                          {"2, 3, 20", "2, 1, 1", "2, 3, 20"},
                                          {"5, 1", "1, 9", "5, 9"},
                                          {"4, 1, 33", "3, 1", "4, 3, 33"},
                                          {"", "17", "17"},
                                          {"", "", ""}};
  check_options o = {.low = 0.5, .high = 2};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
      if (k > 1 && i > 3) continue;
      check_format(ops[i], &o,
                   "func @f(%%x: f32[%s], %%w: f32[%s]) -> (f32[%s]) {\n  %%y = %s %%x, %%w : "
                   "f32[%s]\n  return %%y\n}\n",
                   shapes[k][0], shapes[k][1], shapes[k][2], ops[i], shapes[k][2]);
    }
}

TEST(integers_and_casts) {
  check_text("integers",
             "func @f(%i: i32[3, 11], %x: f32[3, 11]) -> (i32[3, 11], f32[3, 11], f32[3, 11], "
             "i32[3, 11], f32[3, 11]) {\n"
             "  %k = constant {value = 3} : i32[]\n"
             "  %a = add %i, %k : i32[3, 11]\n"
             "  %b = mul %a, %i : i32[3, 11]\n"
             "  %s = sub %k, %b : i32[3, 11]\n"
             "  %m = max %s, %i : i32[3, 11]\n"
             "  %e = eq %i, %k : f32[3, 11]\n"
             "  %f = cast %m {to = \"f32\"} : f32[3, 11]\n"
             "  %t = mul %x, %f : f32[3, 11]\n"
             "  %u = cast %t {to = \"i32\"} : i32[3, 11]\n"
             "  %v = select %e, %x, %f : f32[3, 11]\n"
             "  return %m, %e, %f, %u, %v\n}\n",
             ON_CPU);
}

TEST(sources) {
  check_text(
      "sources",
      "func @f(%seed: i32[]) -> (f32[3, 21], i32[3, 21], f32[3, 21], f32[2, 3], f32[3, 21]) {\n"
      "  %r = random %seed {stream = 5} : f32[3, 21]\n"
      "  %i = iota {axis = 1} : i32[3, 21]\n"
      "  %j = iota {axis = 0} : f32[3, 21]\n"
      "  %d = constant {data = [1, 2, 3.5, -4, 5, 6]} : f32[2, 3]\n"
      "  %s = add %r, %j : f32[3, 21]\n"
      "  return %r, %i, %j, %d, %s\n}\n",
      &(check_options){.tolerance = 1e-7, .cpu = cpu});
}

TEST(rows_norm_softmax) {
  for (int i = 0; i < N_SIZES; i += cpu ? 3 : 1) {
    long n = (long)sizes[i];
    check_format("layer norm", ON_CPU,
                 "func @f(%%x: f32[2, 7, %ld], %%g: f32[%ld], %%b: f32[%ld]) -> (f32[2, 7, %ld], "
                 "f32[2, 7, 1]) {\n"
                 "  %%inv = constant {value = %.9g} : f32[]\n"
                 "  %%eps = constant {value = 1e-5} : f32[]\n"
                 "  %%s = reduce_sum %%x {axes = [2], keep = 1} : f32[2, 7, 1]\n"
                 "  %%m = mul %%s, %%inv : f32[2, 7, 1]\n"
                 "  %%c = sub %%x, %%m : f32[2, 7, %ld]\n"
                 "  %%q = square %%c : f32[2, 7, %ld]\n"
                 "  %%v = reduce_sum %%q {axes = [2], keep = 1} : f32[2, 7, 1]\n"
                 "  %%w = mul %%v, %%inv : f32[2, 7, 1]\n"
                 "  %%e = add %%w, %%eps : f32[2, 7, 1]\n"
                 "  %%r = rsqrt %%e : f32[2, 7, 1]\n"
                 "  %%n = mul %%c, %%r : f32[2, 7, %ld]\n"
                 "  %%o = mul %%n, %%g : f32[2, 7, %ld]\n"
                 "  %%y = add %%o, %%b : f32[2, 7, %ld]\n"
                 "  return %%y, %%r\n}\n",
                 n, n, n, n, 1.0 / (double)n, n, n, n, n, n);
    check_format("softmax", ON_CPU,
                 "func @f(%%x: f32[5, %ld]) -> (f32[5, %ld], f32[5]) {\n"
                 "  %%m = reduce_max %%x {axes = [1], keep = 1} : f32[5, 1]\n"
                 "  %%c = sub %%x, %%m : f32[5, %ld]\n"
                 "  %%e = exp %%c : f32[5, %ld]\n"
                 "  %%s = reduce_sum %%e {axes = [1], keep = 1} : f32[5, 1]\n"
                 "  %%y = div %%e, %%s : f32[5, %ld]\n"
                 "  %%t = reduce_sum %%y {axes = [1]} : f32[5]\n"
                 "  return %%y, %%t\n}\n",
                 n, n, n, n, n);
  }
}

TEST(sums_over_any_axes) {
  static const struct {
    const char *axes, *out, *kept;
  } cases[] = {{"0", "7, 33", "1, 7, 33"}, {"1", "6, 33", "6, 1, 33"}, {"2", "6, 7", "6, 7, 1"},
               {"0, 1", "33", "1, 1, 33"}, {"1, 2", "6", "6, 1, 1"},   {"0, 2", "7", "1, 7, 1"},
               {"0, 1, 2", "", "1, 1, 1"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    check_format(cases[i].axes, ON_CPU,
                 "func @f(%%x: f32[6, 7, 33], %%z: f32[6, 7, 33]) -> (f32[%s], f32[%s], f32[%s], "
                 "f32[6, 7, 33]) {\n"
                 "  %%p = mul %%x, %%z : f32[6, 7, 33]\n"
                 "  %%a = reduce_sum %%p {axes = [%s]} : f32[%s]\n"
                 "  %%b = reduce_max %%p {axes = [%s]} : f32[%s]\n"
                 "  %%k = reduce_sum %%x {axes = [%s], keep = 1} : f32[%s]\n"
                 "  %%d = sub %%z, %%k : f32[6, 7, 33]\n"
                 "  return %%a, %%b, %%k, %%d\n}\n",
                 cases[i].out, cases[i].out, cases[i].kept, cases[i].axes, cases[i].out,
                 cases[i].axes, cases[i].out, cases[i].axes, cases[i].kept);
}

/* Large enough for several blocks, pieces and threads. */
TEST(long_sums_do_not_depend_on_threads) {
  static const char *const cases[][3] = {
      {"3, 400, 100", "0, 1", "100"},  {"150000", "0", ""},
      {"2, 70001", "1", "2"},          {"300, 1500", "0", "1500"},
      {"5, 90, 1100", "1", "5, 1100"}, {"64, 64, 64", "0, 1, 2", ""},
      {"4, 3000, 7", "1", "4, 7"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    check_format(cases[i][0], &(check_options){.low = -0.5, .high = 1},
                 "func @f(%%x: f32[%s]) -> (f32[%s], f32[%s]) {\n"
                 "  %%q = square %%x : f32[%s]\n"
                 "  %%a = reduce_sum %%q {axes = [%s]} : f32[%s]\n"
                 "  %%b = reduce_max %%x {axes = [%s]} : f32[%s]\n"
                 "  return %%a, %%b\n}\n",
                 cases[i][0], cases[i][2], cases[i][2], cases[i][0], cases[i][1], cases[i][2],
                 cases[i][1], cases[i][2]);
}

TEST(views_are_free_or_copied) {
  check_text("views",
             "func @f(%x: f32[2, 6, 20]) -> (f32[2, 6, 4, 5], f32[6, 2, 20], f32[2, 6, 7], f32[2, "
             "3, 20], f32[12, 20], "
             "f32[3, 2, 6, 20], f32[20, 6, 2], f32[2, 6, 4, 5]) {\n"
             "  %a = reshape %x {shape = [2, 6, 4, 5]} : f32[2, 6, 4, 5]\n"
             "  %b = transpose %x {perm = [1, 0, 2]} : f32[6, 2, 20]\n"
             "  %c = slice %x {axis = 2, start = 3, limit = 17, step = 2} : f32[2, 6, 7]\n"
             "  %d = slice %x {axis = 1, start = 1, limit = 6, step = 2} : f32[2, 3, 20]\n"
             "  %e = reshape %b {shape = [12, 20]} : f32[12, 20]\n"
             "  %g = broadcast %x {shape = [3, 2, 6, 20]} : f32[3, 2, 6, 20]\n"
             "  %t = transpose %x {perm = [2, 1, 0]} : f32[20, 6, 2]\n"
             "  %h = neg %a : f32[2, 6, 4, 5]\n"
             "  return %a, %b, %c, %d, %e, %g, %t, %h\n}\n",
             ON_CPU);
  check_text("elementwise over views",
             "func @f(%x: f32[4, 6, 24], %w: f32[3, 24]) -> (f32[6, 4, 24], f32[4, 6, 3, 8], "
             "f32[24, 6, 4]) {\n"
             "  %b = transpose %x {perm = [1, 0, 2]} : f32[6, 4, 24]\n"
             "  %n = neg %b : f32[6, 4, 24]\n"
             "  %w0 = slice %w {axis = 0, start = 1, limit = 2} : f32[1, 24]\n"
             "  %s = mul %n, %w0 : f32[6, 4, 24]\n"
             "  %r = reshape %x {shape = [4, 6, 3, 8]} : f32[4, 6, 3, 8]\n"
             "  %q = square %r : f32[4, 6, 3, 8]\n"
             "  %t = transpose %s {perm = [2, 0, 1]} : f32[24, 6, 4]\n"
             "  %u = exp %t : f32[24, 6, 4]\n"
             "  return %s, %q, %u\n}\n",
             ON_CPU);
}

TEST(pad_concat_permute_shift) {
  static const char *const paths[] = {"rows@3x4",  "rows~@3x4",   "cols@3x4",    "cols~@3x4",
                                      "snake@3x4", "hilbert@3x4", "diagonal@3x4"};
  check_text("pad and concat",
             "func @f(%x: f32[3, 5, 11], %z: f32[3, 2, 11], %w: f32[3, 5, 4]) -> (f32[3, 9, 11], "
             "f32[3, 5, 25], f32[3, "
             "11, 11], f32[3, 7, 11], f32[3, 5, 19], f32[3, 7, 11]) {\n"
             "  %a = pad %x {axis = 1, low = 3, high = 1} : f32[3, 9, 11]\n"
             "  %b = pad %x {axis = 2, low = 1, high = 3, step = 2} : f32[3, 5, 25]\n"
             "  %c = pad %x {axis = 1, low = 0, high = 2, step = 2} : f32[3, 11, 11]\n"
             "  %d = concat %x, %z {axis = 1} : f32[3, 7, 11]\n"
             "  %e = concat %w, %x, %w {axis = 2} : f32[3, 5, 19]\n"
             "  %g = exp %d : f32[3, 7, 11]\n"
             "  return %a, %b, %c, %d, %e, %g\n}\n",
             ON_CPU);
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
    check_format(
        paths[i], ON_CPU,
        "func @f(%%x: f32[2, 12, 19], %%e: f32[2, 19]) -> (f32[2, 12, 19], f32[2, 12, 19], f32[2, "
        "12, 19], "
        "f32[2, 12, 19], f32[19, 12]) {\n"
        "  %%a = permute %%x {axis = 1, path = \"%s\"} : f32[2, 12, 19]\n"
        "  %%b = permute %%x {axis = 1, path = \"%s\", inverse = 1} : f32[2, 12, 19]\n"
        "  %%c = shift %%x {axis = 1, by = -2, fill = 0.5, path = \"%s\"} : f32[2, 12, 19]\n"
        "  %%d = shift %%x, %%e {axis = 1, by = 1, path = \"%s\"} : f32[2, 12, 19]\n"
        "  %%s = slice %%x {axis = 0, start = 1, limit = 2} : f32[1, 12, 19]\n"
        "  %%r = reshape %%s {shape = [12, 19]} : f32[12, 19]\n"
        "  %%t = transpose %%r {perm = [1, 0]} : f32[19, 12]\n"
        "  %%u = shift %%t {axis = 1, by = 1, path = \"%s\"} : f32[19, 12]\n"
        "  %%v = neg %%u : f32[19, 12]\n"
        "  return %%a, %%b, %%c, %%d, %%v\n}\n",
        paths[i], paths[i], paths[i], paths[i], paths[i]);
}

/* Kernel bodies with views inside: reshapes split the iteration space, moves are evaluated where
 * they are used. */
TEST(views_inside_kernels) {
  check_text("reshape inside",
             "kernel @k(%x: f32[2, 5, 24], %h: f32[2, 5, 3]) -> (f32[2, 5, 24]) {\n"
             "  %a = reshape %x {shape = [2, 5, 3, 8]} : f32[2, 5, 3, 8]\n"
             "  %b = reshape %h {shape = [2, 5, 3, 1]} : f32[2, 5, 3, 1]\n"
             "  %c = mul %a, %b : f32[2, 5, 3, 8]\n"
             "  %d = reshape %c {shape = [2, 5, 24]} : f32[2, 5, 24]\n"
             "  return %d\n}\n"
             "func @f(%x: f32[2, 5, 24], %h: f32[2, 5, 3]) -> (f32[2, 5, 24]) {\n"
             "  %y = fused @k(%x, %h) {kind = \"loop\"} : f32[2, 5, 24]\n"
             "  return %y\n}\n",
             ON_CPU);
  check_text("head norm",
             "kernel @k(%x: f32[2, 5, 24], %g: f32[24]) -> (f32[2, 5, 24]) {\n"
             "  %a = reshape %x {shape = [2, 5, 3, 8]} : f32[2, 5, 3, 8]\n"
             "  %s = reduce_sum %a {axes = [3], keep = 1} : f32[2, 5, 3, 1]\n"
             "  %c = sub %a, %s : f32[2, 5, 3, 8]\n"
             "  %d = reshape %c {shape = [2, 5, 24]} : f32[2, 5, 24]\n"
             "  %e = mul %d, %g : f32[2, 5, 24]\n"
             "  return %e\n}\n"
             "func @f(%x: f32[2, 5, 24], %g: f32[24]) -> (f32[2, 5, 24]) {\n"
             "  %y = fused @k(%x, %g) {kind = \"row\"} : f32[2, 5, 24]\n"
             "  return %y\n}\n",
             ON_CPU);
  check_text("moves inside",
             "kernel @k(%x: f32[2, 5, 9], %z: f32[2, 3, 9]) -> (f32[2, 8, 9], f32[2, 8, 9]) {\n"
             "  %a = concat %x, %z {axis = 1} : f32[2, 8, 9]\n"
             "  %p = pad %x {axis = 1, low = 1, high = 2} : f32[2, 8, 9]\n"
             "  %b = add %a, %p : f32[2, 8, 9]\n"
             "  %h = shift %b {axis = 2, by = 1} : f32[2, 8, 9]\n"
             "  %q = concat %x, %x {axis = 2} : f32[2, 5, 18]\n"
             "  %s = slice %q {axis = 2, start = 5, limit = 14} : f32[2, 5, 9]\n"
             "  %t = pad %s {axis = 1, low = 3, high = 0} : f32[2, 8, 9]\n"
             "  %c = mul %h, %t : f32[2, 8, 9]\n"
             "  return %c, %b\n}\n"
             "func @f(%x: f32[2, 5, 9], %z: f32[2, 3, 9]) -> (f32[2, 8, 9], f32[2, 8, 9]) {\n"
             "  %y, %w = fused @k(%x, %z) {kind = \"loop\"} : f32[2, 8, 9], f32[2, 8, 9]\n"
             "  return %y, %w\n}\n",
             ON_CPU);
}

/* A value used twice by every op above it must not be walked twice. */
TEST(shared_values_cost_once) {
  static char text[8192];
  size_t n = (size_t)snprintf(text, sizeof text,
                              "kernel @k(%%x: f32[5, 30]) -> (f32[5, 30], f32[5, 1]) {\n  %%v0 = "
                              "sub %%x, %%x : f32[5, 30]\n");
  for (int i = 0; i < 60; i++)
    n += (size_t)snprintf(text + n, sizeof text - n, "  %%v%d = mul %%v%d, %%v%d : f32[5, 30]\n",
                          i + 1, i, i);
  snprintf(text + n, sizeof text - n,
           "  %%a = add %%v60, %%x : f32[5, 30]\n"
           "  %%s = reduce_sum %%a {axes = [1], keep = 1} : f32[5, 1]\n"
           "  %%y = mul %%a, %%s : f32[5, 30]\n"
           "  return %%y, %%s\n}\n"
           "func @f(%%x: f32[5, 30]) -> (f32[5, 30], f32[5, 1]) {\n"
           "  %%y, %%s = fused @k(%%x) {kind = \"row\"} : f32[5, 30], f32[5, 1]\n"
           "  return %%y, %%s\n}\n");
  check_text("shared values", text, ON_CPU);
}

int main(void) {
  RUN(unary_ops_follow_the_interpreter);
  RUN(patches_of_any_size);
  RUN(binary_ops_broadcast);
  RUN(integers_and_casts);
  RUN(sources);
  RUN(rows_norm_softmax);
  RUN(sums_over_any_axes);
  RUN(long_sums_do_not_depend_on_threads);
  RUN(views_are_free_or_copied);
  RUN(pad_concat_permute_shift);
  RUN(views_inside_kernels);
  RUN(shared_values_cost_once);
  static const char *const widths[] = {"x86-64", "x86-64-v3-wide"};
  for (int i = 0; i < 2; i++) {
    cpu = widths[i];
    RUN(sources);
    RUN(rows_norm_softmax);
    RUN(sums_over_any_axes);
    RUN(views_are_free_or_copied);
    RUN(views_inside_kernels);
  }
  return test_done();
}
