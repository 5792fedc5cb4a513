/* Every row of ir/scalar_ops.def as CUDA, run on the CPU, against the interpreter. */
#include "codegen/codegen.h"
#include "tests/codegen/emulate.h"
#include "tests/codegen/scalar_ops.h"

TEST(all_rows_follow_the_interpreter) {
  scalar_rows s = scalar_rows_new();
  vtb_launch_plan *plan = NULL;
  vtb_program *p = NULL;
  vtb_error err = {0};
  vtb_status status = vtb_cuda_plan(s.m, s.f, &(vtb_codegen_options){0}, &plan, &err);
  if (status == VTB_OK)
    status = vtb_emulator_program(plan, &(vtb_emulator_options){.unchecked = true}, &p, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  if (status == VTB_OK) scalar_rows_check(&s, p);
  vtb_program_free(p);
  vtb_module_free(s.m);
}

int main(void) {
  emulate_or_skip();
  RUN(all_rows_follow_the_interpreter);
  return test_done();
}
