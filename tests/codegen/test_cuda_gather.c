/* gather and scatter_sum: kernels, emulated, against the interpreter. */
#include "tests/codegen/gather_cases.h"
#include "tests/codegen/cuda_check.h"

static void check(bool adds, double tol, const char *what) {
  cuda_cases all;
  cuda_begin(&all);
  for (int i = 0; i < N_GATHER_CASES; i++) {
    const gather_case *c = &gather_cases[i];
    double places = (double)c->size[c->axis];
    vtb_value *x =
        cuda_arg(&all, gather_argument(c, adds ? gather_picked(c) : gather_whole(c)), 1, 0);
    vtb_value *at =
        cuda_arg(&all, gather_argument(c, gather_indices(c)), places / 2 + 1, places / 2);
    cuda_return(&all, gather_build(&all.b, c, adds, x, at));
    all.n_cases++;
  }
  cuda_end(&all, tol, what);
}

TEST(rows_at_indices) { check(false, 0, "rows at indices"); }
TEST(sums_of_rows_by_index) { check(true, 3e-7, "sums of rows by index"); }

int main(void) {
  emulate_or_skip();
  RUN(rows_at_indices);
  RUN(sums_of_rows_by_index);
  return test_done();
}
