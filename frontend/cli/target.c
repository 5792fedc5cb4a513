/* From a module after the code passes to a program, on the target the user named. */
#include "codegen/emulator/emulator.h"
#include "frontend/cli/cli.h"
#include "runtime/launch_check.h"

#include <stdlib.h>
#include <string.h>

const char *const cli_target_names[CLI_N_TARGETS] = {"interp", "cpu", "cuda-emulated", "cuda"};

bool cli_target_find(const char *name, cli_target *t) {
  for (int i = 0; i < CLI_N_TARGETS; i++)
    if (strcmp(name, cli_target_names[i]) == 0) {
      *t = (cli_target)i;
      return true;
    }
  return false;
}

/* Every plan is checked before it runs anywhere. */
static vtb_status make_plan(vtb_module *m, const vtb_cuda_options *options, vtb_launch_plan **plan, vtb_error *err) {
  vtb_status status = vtb_cuda_plan(m, m->entry, options, plan, err);
  if (status != VTB_OK) return status;
  status = vtb_launch_plan_check(*plan, NULL, err);
  if (status != VTB_OK) vtb_launch_plan_free(*plan);
  return status;
}

static vtb_status emulate(vtb_module *m, vtb_program **program, vtb_error *err) {
  const char *checks = getenv("VTB_EMULATOR_CHECKS"), *seed = getenv("VTB_EMULATOR_SEED");
  vtb_emulator_options o = {.unchecked = checks && strcmp(checks, "0") == 0,
                            .seed = seed ? strtoull(seed, NULL, 10) : 1};
  vtb_cuda_options options = {0};
  vtb_launch_plan *plan = NULL;
  vtb_status status = make_plan(m, &options, &plan, err);
  if (status != VTB_OK) return status;
  status = vtb_emulator_program(plan, &o, program, err);
  if (status != VTB_OK) vtb_launch_plan_free(plan);
  return status;
}

vtb_status cli_make_program(vtb_module *m, cli_target target, bool profile, vtb_program **program, vtb_error *err) {
  if (target == CLI_TARGET_CUDA_EMULATED) return emulate(m, program, err);
  vtb_codegen_options options = {.profile = profile};
  return vtb_jit(m, m->entry, &options, program, err);
}
