/* gather and scatter_sum: machine code against the interpreter. */
#include "tests/codegen/gather_cases.h"
#include "tests/codegen/one_kernel.h"

static void check(const gather_case *c, bool adds) {
  unsigned long long seed = 5;
  vtb_module *m = vtb_module_new("test");
  vtb_func *f = vtb_func_new(m, "kernel", VTB_FUNC_PLAIN, (vtb_span){0});
  vtb_builder b = {.module = m, .func = f};
  vtb_type x = gather_argument(c, adds ? gather_picked(c) : gather_whole(c)),
           at = gather_argument(c, gather_indices(c));
  double places = (double)c->size[c->axis];
  vtb_tensor args[] = {kernel_random(x, &seed, 1, 0),
                       kernel_random(at, &seed, places / 2 + 1, places / 2)};
  vtb_value *from = vtb_func_add_arg(f, "x", x), *indices = vtb_func_add_arg(f, "at", at);
  vtb_inst *inst = gather_build(&b, c, adds, from, indices);
  vtb_func_set_returns(f, inst->results, NULL, 1);
  m->entry = f;
  vtb_strbuf what = {0};
  vtb_inst_print(inst, &what);
  kernel_check(m, f, args, adds ? 3e-7 : 0, what.at);
  vtb_strbuf_free(&what);
  for (int i = 0; i < 2; i++) vtb_tensor_free(&args[i]);
  vtb_module_free(m);
}

TEST(rows_at_indices) {
  for (int i = 0; i < N_GATHER_CASES; i++) check(&gather_cases[i], false);
}

TEST(sums_of_rows_by_index) {
  for (int i = 0; i < N_GATHER_CASES; i++) check(&gather_cases[i], true);
}

int main(void) {
  RUN(rows_at_indices);
  RUN(sums_of_rows_by_index);
  return test_done();
}
