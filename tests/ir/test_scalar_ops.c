/* Every row of ir/scalar_ops.def, in double precision: what it says of itself is true of samples
 * from its range. */
#include "tests/scalar_samples.h"
#include "ir/ops.h"

static const char *name(vtb_op op) { return vtb_op_get(op)->name; }

TEST(forms_by_hand_follow_the_formula) {
  int n = 0;
  EACH_SCALAR_OP(op, row) {
    for (int i = 0; row->value >= 0 && i < N_SCALAR_SAMPLES; i++) {
      double x[VTB_SCALAR_OPERANDS];
      scalar_sample(row, i, x);
      double want = scalar_value(row->nodes, row->value, x, 0, 0), got = vtb_scalar_eval(op, x);
      if (!isfinite(want)) continue; /* a formula may overflow where the form by hand does not */
      CHECK_MSG(fabs(got - want) <= 1e-12 * (1 + fabs(want)), "%s(%g, %g, %g): %.17g, not %.17g",
                name(op), x[0], x[1], x[2], got, want);
      n++;
    }
  }
  CHECK(n > 500);
}

TEST(results_are_finite_in_the_range) {
  EACH_SCALAR_OP(op, row) {
    for (int i = 0; i < N_SCALAR_SAMPLES; i++) {
      double x[VTB_SCALAR_OPERANDS];
      scalar_sample(row, i, x);
      CHECK_MSG(isfinite((float)vtb_scalar_eval(op, x)), "%s(%g, %g, %g)", name(op), x[0], x[1],
                x[2]);
    }
  }
}

TEST(adjoints_match_differences) {
  EACH_SCALAR_OP(op, row) {
    if (op == VTB_OP_stop_gradient) continue; /* it is its purpose not to */
    unsigned long long seed = 88172645463325252ull;
    for (int i = 0; i < 200; i++) {
      double x[VTB_SCALAR_OPERANDS];
      for (int k = 0; k < VTB_SCALAR_OPERANDS; k++) {
        x[k] = scalar_random(row, &seed);
        if (fabs(x[k]) < 0.01) x[k] = 0.25;
      }
      double r = vtb_scalar_eval(op, x), d = 0.75;
      for (int k = 0; k < row->n_operands; k++) {
        int node = row->adjoint[k];
        double got = node < 0 ? 0 : scalar_value(row->nodes, node, x, r, d);
        double want = d * scalar_difference(op, x, k);
        CHECK_MSG(fabs(got - want) <= 1e-6 * (1 + fabs(want)),
                  "%s(%g, %g, %g): adjoint %d is %.9g, not %.9g", name(op), x[0], x[1], x[2], k + 1,
                  got, want);
      }
    }
  }
}

TEST(what_is_monotone_moves_one_way) {
  int n = 0;
  EACH_SCALAR_OP(op, row) {
    for (int i = 0; i < N_SCALAR_SAMPLES * N_SCALAR_SAMPLES; i++) {
      double x[VTB_SCALAR_OPERANDS], y[VTB_SCALAR_OPERANDS];
      for (int k = 0; k < row->n_operands; k++) {
        scalar_sample(row, i % N_SCALAR_SAMPLES, x);
        scalar_sample(row, i / N_SCALAR_SAMPLES, y);
        double low = vtb_scalar_eval(op, x), moved = y[k];
        if (row->monotone[k] == '.' || !(moved > x[k])) continue;
        double before = x[k];
        x[k] = moved;
        double high = vtb_scalar_eval(op, x),
               rise = row->monotone[k] == '+' ? high - low : low - high;
        CHECK_MSG(rise >= -1e-12 * fabs(low), "%s: operand %d from %g to %g gives %.17g, %.17g",
                  name(op), k + 1, before, moved, low, high);
        n++;
      }
    }
  }
  CHECK(n > 10000);
}

static bool has_sign(const vtb_scalar *row, const double *x, double r) {
  bool above = true, below = true;
  int minus = 0, zeros = 0;
  for (int k = 0; k < row->n_operands; k++) {
    above &= r >= x[k];
    below &= r <= x[k];
    minus += x[k] < 0;
    zeros += x[k] == 0;
  }
  switch (row->sign) {
  case VTB_SIGN_nonnegative:
    return r >= 0;
  case VTB_SIGN_nonpositive:
    return r <= 0;
  case VTB_SIGN_largest:
    return above;
  case VTB_SIGN_smallest:
    return below;
  case VTB_SIGN_product:
    return zeros || (minus % 2 ? r <= 0 : r >= 0);
  case VTB_SIGN_any:
    return true;
  }
  return false;
}

TEST(signs_are_as_the_row_says) {
  EACH_SCALAR_OP(op, row) {
    for (int i = 0; i < N_SCALAR_SAMPLES; i++) {
      double x[VTB_SCALAR_OPERANDS];
      scalar_sample(row, i, x);
      CHECK_MSG(has_sign(row, x, vtb_scalar_eval(op, x)), "%s(%g, %g, %g) = %g", name(op), x[0],
                x[1], x[2], vtb_scalar_eval(op, x));
    }
  }
}

TEST(every_elementwise_op_but_the_conversion_is_a_row) {
  for (vtb_op op = 0; op < VTB_OP_COUNT; op++)
    CHECK_MSG((vtb_op_get(op)->klass == VTB_CLASS_ELEMENTWISE && op != VTB_OP_cast) ==
                  (vtb_scalar_get(op) != NULL),
              "%s", name(op));
}

int main(void) {
  RUN(forms_by_hand_follow_the_formula);
  RUN(results_are_finite_in_the_range);
  RUN(adjoints_match_differences);
  RUN(what_is_monotone_moves_one_way);
  RUN(signs_are_as_the_row_says);
  RUN(every_elementwise_op_but_the_conversion_is_a_row);
  return test_done();
}
