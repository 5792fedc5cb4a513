/* simplify, cse and dce: each rewrite beside a twin that must stay as it is. */
#include "tests/passes/pass_check.h"

/* A body over %x, %y [2, 3], %s [] that returns %r of the given type. */
#define F(type, body)                                                                              \
  "entry func @f(%x: f32[2, 3], %y: f32[2, 3], %s: f32[]) -> (" type ") {\n" body "return %r\n}\n"
#define T "f32[2, 3]"
#define ZERO "%c = constant {value = 0} : f32[]\n"
#define ONE "%c = constant {value = 1} : f32[]\n"
/* The body becomes `return %v`; arguments stay. */
#define GIVES(type, body, value)                                                                   \
  CHECK_PASS("simplify", F(type, body),                                                            \
             "entry func @f(%x: f32[2, 3], %y: f32[2, 3], %s: f32[]) -> (" type                    \
             ") {\nreturn " value "\n}\n")
#define BECOMES(type, body, after) CHECK_PASS("simplify", F(type, body), F(type, after))
#define STAYS(type, body) CHECK_KEPT("simplify", F(type, body))

TEST(neutral_elements_go) {
  GIVES(T, ZERO "%r = add %x, %c : " T "\n", "%x");
  GIVES(T, ZERO "%r = add %c, %x : " T "\n", "%x");
  GIVES(T, ZERO "%r = sub %x, %c : " T "\n", "%x");
  GIVES(T, ONE "%r = mul %c, %x : " T "\n", "%x");
  GIVES(T, ONE "%r = div %x, %c : " T "\n", "%x");
  GIVES(T, ONE "%r = pow %x, %c : " T "\n", "%x");
  STAYS(T, ONE "%r = div %c, %x : " T "\n");
  STAYS(T, ZERO "%r = mul %x, %c : " T "\n"); /* NaN * 0 */
  STAYS(T, "%r = sub %x, %x : " T "\n");
  STAYS(T, "%r = div %x, %x : " T "\n");
}

TEST(a_neutral_element_may_still_broadcast) {
  BECOMES(T, "%c = constant {value = 1} : f32[2, 3]\n%r = mul %s, %c : " T "\n",
          "%r = broadcast %s {shape = [2, 3]} : " T "\n");
}

TEST(signs_move) {
  GIVES(T, "%n = neg %x : " T "\n%r = neg %n : " T "\n", "%x");
  BECOMES(T, "%n = neg %y : " T "\n%r = add %x, %n : " T "\n", "%r = sub %x, %y : " T "\n");
  BECOMES(T, "%n = neg %y : " T "\n%r = sub %x, %n : " T "\n", "%r = add %x, %y : " T "\n");
  BECOMES(T, "%n = neg %x : " T "\n%r = abs %n : " T "\n", "%r = abs %x : " T "\n");
  BECOMES(T, ZERO "%r = sub %c, %x : " T "\n", "%r = neg %x : " T "\n");
  STAYS(T, "%a = abs %x : " T "\n%r = neg %a : " T "\n");
}

TEST(constants_fold) {
  BECOMES("f32[]",
          "%a = constant {value = 2} : f32[]\n%b = constant {value = 3} : f32[]\n%r = pow %a, %b : "
          "f32[]\n",
          "%r = constant {value = 8} : f32[]\n");
  BECOMES("f32[]",
          "%a = constant {value = 4} : f32[]\n%b = rsqrt %a : f32[]\n%r = neg %b : f32[]\n",
          "%r = constant {value = -0.5} : f32[]\n");
  BECOMES("f32[]",
          "%a = constant {value = 4} : f32[2, 3]\n%r = reduce_sum %a {axes = [0, 1]} : f32[]\n",
          "%r = constant {value = 24} : f32[]\n");
  STAYS("f32[]", "%a = constant {value = 0} : f32[]\n%r = log %a : f32[]\n"); /* not finite */
  BECOMES(T, "%a = constant {value = 4} : f32[]\n%r = div %x, %a : " T "\n",
          "%const = constant {value = 0.25} : f32[]\n%r = mul %x, %const : " T "\n");
  BECOMES(T,
          "%a = constant {value = 4} : f32[]\n%m = mul %x, %a : " T "\n%r = mul %a, %m : " T "\n",
          "%const = constant {value = 16} : f32[]\n%r = mul %x, %const : " T "\n");
}

/* A constant that only brings axes of size 1 leaves them behind. */
TEST(types_stay) {
  BECOMES("f32[1, 2, 3]",
          "%c = constant {value = 4} : f32[1, 1, 1]\n%r = div %x, %c : f32[1, 2, 3]\n",
          "%const = constant {value = 0.25} : f32[]\n%mul = mul %x, %const : " T
          "\n%r = broadcast %mul {shape = [1, 2, 3]} : f32[1, 2, 3]\n");
  BECOMES("f32[1, 2, 3]",
          "%c = constant {value = 1} : f32[1, 1, 1]\n%r = mul %x, %c : f32[1, 2, 3]\n",
          "%r = broadcast %x {shape = [1, 2, 3]} : f32[1, 2, 3]\n");
}

TEST(powers_of_small_numbers_are_products) {
  BECOMES(T, "%c = constant {value = 2} : f32[]\n%r = pow %x, %c : " T "\n",
          "%r = square %x : " T "\n");
  STAYS(T, "%c = constant {value = 3} : f32[]\n%r = pow %x, %c : " T "\n");
  STAYS(T, "%c = constant {value = 2} : f32[]\n%r = pow %c, %x : " T "\n");
}

TEST(a_constant_condition_selects) {
  GIVES(T, ONE "%r = select %c, %x, %y : " T "\n", "%x");
  GIVES(T, ZERO "%r = select %c, %x, %y : " T "\n", "%y");
  GIVES(T, "%r = select %s, %x, %x : " T "\n", "%x");
  STAYS(T, "%r = select %s, %x, %y : " T "\n");
}

TEST(reshapes_join) {
  GIVES(T, "%a = reshape %x {shape = [6]} : f32[6]\n%r = reshape %a {shape = [2, 3]} : " T "\n",
        "%x");
  BECOMES("f32[1, 6]",
          "%a = reshape %x {shape = [6]} : f32[6]\n%r = reshape %a {shape = [1, 6]} : f32[1, 6]\n",
          "%r = reshape %x {shape = [1, 6]} : f32[1, 6]\n");
  STAYS("f32[6]", "%a = reshape %x {shape = [3, 2]} : f32[3, 2]\n%b = exp %a : f32[3, 2]\n%r = "
                  "reshape %b {shape = "
                  "[6]} : f32[6]\n");
}

TEST(transposes_join) {
  GIVES(T,
        "%a = transpose %x {perm = [1, 0]} : f32[3, 2]\n%r = transpose %a {perm = [1, 0]} : " T
        "\n",
        "%x");
  BECOMES("f32[3, 1, 2]",
          "%a = reshape %x {shape = [3, 2, 1]} : f32[3, 2, 1]\n%r = transpose %a {perm = [0, 2, "
          "1]} : f32[3, 1, 2]\n",
          "%r = reshape %x {shape = [3, 1, 2]} : f32[3, 1, 2]\n");
  STAYS("f32[3, 2]", "%r = transpose %x {perm = [1, 0]} : f32[3, 2]\n");
}

TEST(slices_meet_concats) {
  GIVES(T,
        "%a = concat %x, %y {axis = 0} : f32[4, 3]\n%r = slice %a {axis = 0, start = 2, limit = 4} "
        ": " T "\n",
        "%y");
  BECOMES("f32[1, 3]",
          "%a = concat %x, %y {axis = 0} : f32[4, 3]\n%r = slice %a {axis = 0, start = 1, limit = "
          "2} : f32[1, 3]\n",
          "%r = slice %x {axis = 0, start = 1, limit = 2} : f32[1, 3]\n");
  STAYS(T, "%a = concat %x, %y {axis = 0} : f32[4, 3]\n%r = slice %a {axis = 0, start = 1, limit = "
           "3} : " T "\n");
  STAYS("f32[4, 2]", "%a = concat %x, %y {axis = 0} : f32[4, 3]\n%r = slice %a {axis = 1, start = "
                     "0, limit = 2} : f32[4, 2]\n");
  GIVES(T,
        "%a = slice %x {axis = 1, start = 0, limit = 2} : f32[2, 2]\n%b = slice %x {axis = 1, "
        "start = 2, limit = 3} : "
        "f32[2, 1]\n"
        "%r = concat %a, %b {axis = 1} : " T "\n",
        "%x");
  BECOMES("f32[2, 1]",
          "%a = slice %x {axis = 1, start = 1, limit = 3} : f32[2, 2]\n%r = slice %a {axis = 1, "
          "start = 1, limit = 2} "
          ": f32[2, 1]\n",
          "%r = slice %x {axis = 1, start = 2, limit = 3} : f32[2, 1]\n");
}

TEST(reductions_over_ones_are_reshapes) {
  BECOMES(
      "f32[6]",
      "%a = reshape %x {shape = [6, 1]} : f32[6, 1]\n%r = reduce_sum %a {axes = [1]} : f32[6]\n",
      "%r = reshape %x {shape = [6]} : f32[6]\n");
  BECOMES("f32[2]",
          "%a = reshape %x {shape = [1, 2, 3]} : f32[1, 2, 3]\n%r = reduce_max %a {axes = [0, 2]} "
          ": f32[2]\n",
          "%r = reduce_max %x {axes = [1]} : f32[2]\n");
  STAYS("f32[2]", "%r = reduce_sum %x {axes = [1]} : f32[2]\n");
}

TEST(operands_need_no_broadcast_of_their_own) {
  BECOMES(T, "%a = broadcast %s {shape = [2, 3]} : " T "\n%r = mul %x, %a : " T "\n",
          "%r = mul %x, %s : " T "\n");
  STAYS(T, "%a = broadcast %s {shape = [2, 3]} : " T "\n%r = exp %a : " T "\n");
}

TEST(permutations_cancel) {
  const char *head = "entry func @f(%x: f32[B, N=6, 2]) -> (f32[B, N=6, 2]) {\n";
  char before[600], after[400];
  snprintf(before, sizeof before,
           "%s%%a = permute %%x {axis = 1, path = \"cols@2x3\"} : f32[B, N=6, 2]\n"
           "%%r = permute %%a {axis = 1, path = \"cols@2x3\", inverse = 1} : f32[B, N=6, "
           "2]\nreturn %%r\n}\n",
           head);
  snprintf(after, sizeof after, "%sreturn %%x\n}\n", head);
  CHECK_PASS("simplify", before, after);
  snprintf(before, sizeof before,
           "%s%%r = permute %%x {axis = 1, path = \"rows@2x3\"} : f32[B, N=6, 2]\nreturn %%r\n}\n",
           head);
  CHECK_PASS("simplify", before, after);
  snprintf(before, sizeof before,
           "%s%%a = permute %%x {axis = 1, path = \"cols@2x3\"} : f32[B, N=6, 2]\n"
           "%%r = permute %%a {axis = 1, path = \"cols@2x3\"} : f32[B, N=6, 2]\nreturn %%r\n}\n",
           head);
  CHECK_KEPT("simplify", before);
}

TEST(equal_instructions_are_one) {
  CHECK_PASS("cse",
             F(T, "%a = mul %x, %y : " T "\n%b = mul %y, %x : " T "\n%r = sub %a, %b : " T "\n"),
             F(T, "%a = mul %x, %y : " T "\n%r = sub %a, %a : " T "\n"));
  CHECK_KEPT("cse",
             F(T, "%a = sub %x, %y : " T "\n%b = sub %y, %x : " T "\n%r = mul %a, %b : " T "\n"));
  CHECK_KEPT("cse",
             F(T, "%a = max %x, %y : " T "\n%b = max %y, %x : " T "\n%r = mul %a, %b : " T "\n"));
  CHECK_KEPT("cse", F("f32[2]",
                      "%a = reduce_sum %x {axes = [1]} : f32[2]\n%b = reduce_max %x {axes = [1]} : "
                      "f32[2]\n%r = mul %a, %b : f32[2]\n"));
  CHECK_KEPT(
      "cse",
      F(T,
        "%a = constant {value = 1} : f32[]\n%b = constant {value = 2} : f32[]\n%c = mul %x, %a : " T
        "\n%d = mul %y, %b : " T "\n%r = add %c, %d : " T "\n"));
}

/* So many that some meet in the table. */
TEST(instructions_of_other_attributes_are_others) {
  enum { N = 200 };
  vtb_strbuf text = {0};
  vtb_strbuf_printf(&text,
                    "entry func @f(%%x: f32[%d]) -> (f32[1]) {\n%%s0 = slice %%x {axis = 0, "
                    "start = 0, limit = 1} : f32[1]\n",
                    N);
  for (int i = 1; i < N; i++)
    vtb_strbuf_printf(&text,
                      "%%a%d = slice %%x {axis = 0, start = %d, limit = %d} : f32[1]\n"
                      "%%s%d = add %%s%d, %%a%d : f32[1]\n",
                      i, i, i + 1, i, i - 1, i);
  vtb_strbuf_printf(&text, "return %%s%d\n}\n", N - 1);
  CHECK_KEPT("cse", text.at);
  vtb_strbuf_free(&text);
}

/* Letters of a product are names, and names make no difference. */
TEST(equal_products_are_one_whatever_their_letters_are) {
  CHECK_PASS("cse",
             "entry func @f(%x: f32[2, 3], %w: f32[4, 3]) -> (f32[2, 4]) {\n"
             "%a = einsum %x, %w {spec = \"bc,ec->be\"} : f32[2, 4]\n"
             "%b = einsum %x, %w {spec = \"ab,zb->az\"} : f32[2, 4]\n"
             "%y = add %a, %b : f32[2, 4]\nreturn %y\n}\n",
             "entry func @f(%x: f32[2, 3], %w: f32[4, 3]) -> (f32[2, 4]) {\n"
             "%a = einsum %x, %w {spec = \"bc,ec->be\"} : f32[2, 4]\n"
             "%y = add %a, %a : f32[2, 4]\nreturn %y\n}\n");
  CHECK_KEPT("cse", "entry func @f(%x: f32[3, 3], %w: f32[3, 3]) -> (f32[3, 3]) {\n"
                    "%a = einsum %x, %w {spec = \"bc,ec->be\"} : f32[3, 3]\n"
                    "%b = einsum %x, %w {spec = \"bc,ce->be\"} : f32[3, 3]\n"
                    "%y = add %a, %b : f32[3, 3]\nreturn %y\n}\n");
}

TEST(unused_instructions_go) {
  CHECK_PASS("dce", F(T, "%a = exp %x : " T "\n%b = log %a : " T "\n%r = neg %y : " T "\n"),
             F(T, "%r = neg %y : " T "\n"));
  CHECK_KEPT("dce", F(T, "%a = exp %x : " T "\n%r = log %a : " T "\n"));
  CHECK_KEPT("dce", F(T, "%a = tap %x {name = \"a\"} : " T "\n%r = neg %y : " T "\n"));
}

TEST(unused_parts_of_functions_go) {
  CHECK_PASS("dce",
             "func @g(%a: " T ", %b: " T ") -> (" T ", " T ") {\n%c = exp %a : " T
             "\n%d = exp %b : " T "\nreturn %c, %d\n}\n"
             "func @never(%a: " T ") -> (" T ") {\nreturn %a\n}\n"
             "entry func @f(%x: " T ", %y: " T ") -> (" T ") {\n%p, %q = call @g(%x, %y) : " T
             ", " T "\nreturn %q\n}\n",
             "func @g(%b: " T ") -> (" T ") {\n%d = exp %b : " T "\nreturn %d\n}\n"
             "entry func @f(%x: " T ", %y: " T ") -> (" T ") {\n%q = call @g(%y) : " T
             "\nreturn %q\n}\n");
}

TEST(what_one_call_uses_stays_for_all) {
  CHECK_KEPT("dce", "func @g(%a: " T ", %b: " T ") -> (" T ", " T ") {\n%c = exp %a : " T
                    "\n%d = exp %b : " T "\nreturn %c, %d\n}\n"
                    "entry func @f(%x: " T ", %y: " T ") -> (" T ", " T
                    ") {\n%p, %q = call @g(%x, %y) : " T ", " T "\n%p1, %q1 = call @g(%y, %x) : " T
                    ", " T "\nreturn %q, %p1\n}\n");
}

TEST(results_that_the_caller_has_are_not_returned) {
  CHECK_PASS("dce",
             "func @g(%a: " T ") -> (" T ", " T ", " T ") {\n%c = exp %a : " T
             "\nreturn %a, %c, %c\n}\n"
             "entry func @f(%x: " T ") -> (" T ", " T ", " T ") {\n%p, %q, %r = call @g(%x) : " T
             ", " T ", " T "\nreturn %p, %q, %r\n}\n",
             "func @g(%a: " T ") -> (" T ") {\n%c = exp %a : " T "\nreturn %c\n}\n"
             "entry func @f(%x: " T ") -> (" T ", " T ", " T ") {\n%q = call @g(%x) : " T
             "\nreturn %x, %q, %q\n}\n");
}

int main(void) {
  RUN(neutral_elements_go);
  RUN(a_neutral_element_may_still_broadcast);
  RUN(signs_move);
  RUN(constants_fold);
  RUN(types_stay);
  RUN(powers_of_small_numbers_are_products);
  RUN(a_constant_condition_selects);
  RUN(reshapes_join);
  RUN(transposes_join);
  RUN(slices_meet_concats);
  RUN(reductions_over_ones_are_reshapes);
  RUN(operands_need_no_broadcast_of_their_own);
  RUN(permutations_cancel);
  RUN(equal_instructions_are_one);
  RUN(instructions_of_other_attributes_are_others);
  RUN(equal_products_are_one_whatever_their_letters_are);
  RUN(unused_instructions_go);
  RUN(unused_parts_of_functions_go);
  RUN(what_one_call_uses_stays_for_all);
  RUN(results_that_the_caller_has_are_not_returned);
  return test_done();
}
