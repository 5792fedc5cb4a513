/* The gradient of every row of ir/scalar_ops.def, as IR, against finite differences. */
#include "ir/scalar.h"
#include "ir/ops.h"
#include "tests/passes/grad_check.h"

TEST(gradients_of_all_rows_match_differences) {
  static const char *const args[] = {"%x: f32[B, 3, 4]", "%x: f32[B, 3, 4], %y: f32[3, 1]",
                                     "%x: f32[B, 3, 4], %y: f32[3, 1], %z: f32[4]"};
  static const char *const operands[] = {"%x", "%x, %y", "%x, %y, %z"};
  for (vtb_op op = 0; op < VTB_OP_COUNT; op++) {
    const vtb_scalar *s = vtb_scalar_get(op);
    if (!s || op == VTB_OP_stop_gradient) continue;
    char text[400];
    snprintf(text, sizeof text,
             "func @f(%s) -> (f32[B, 3, 4]) {\n  %%r = %s %s : f32[B, 3, 4]\n  return %%r\n}\n",
             args[s->n_operands - 1], vtb_op_get(op)->name, operands[s->n_operands - 1]);
    int before = test_failures;
    grad_check_text(text, "f", s->from >= 0 ? 0.5 : fmax(0.9 * s->from, -3), fmin(0.9 * s->to, 3));
    CHECK_MSG(test_failures == before, "%s", text);
  }
}

int main(void) {
  RUN(gradients_of_all_rows_match_differences);
  return test_done();
}
