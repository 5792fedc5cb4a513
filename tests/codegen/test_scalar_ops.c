/* Every row of ir/scalar_ops.def on the CPU, scalars and vectors, against the interpreter. */
#include "codegen/codegen.h"
#include "tests/codegen/scalar_ops.h"

static void check_cpu(const char *cpu) {
  scalar_rows s = scalar_rows_new();
  vtb_program *p = NULL;
  vtb_error err = {0};
  vtb_status status = vtb_jit(s.m, s.f, &(vtb_codegen_options){.cpu = cpu}, &p, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  if (status == VTB_OK) scalar_rows_check(&s, p);
  vtb_program_free(p);
  vtb_module_free(s.m);
}

TEST(all_rows_follow_the_interpreter) { check_cpu(NULL); }

int main(void) {
  RUN(all_rows_follow_the_interpreter);
  return test_done();
}
