/* From a module after the code passes to a program, on the target the user named. */
#include "codegen/cuda/compile/nvrtc.h"
#include "codegen/emulator/emulator.h"
#include "frontend/cli/cli.h"
#include "runtime/cuda/cuda.h"
#include "runtime/launch/launch_check.h"

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

vtb_status cli_make_plan(vtb_module *m, const vtb_cuda_options *options, vtb_launch_plan **plan,
                         vtb_error *err) {
  vtb_status status = vtb_cuda_plan(m, m->entry, options, plan, err);
  if (status != VTB_OK) return status;
  status = vtb_launch_plan_check(*plan, NULL, err);
  if (status != VTB_OK) vtb_launch_plan_free(*plan);
  return status;
}

vtb_status cli_emulate_plan(vtb_launch_plan *plan, vtb_program **program, vtb_error *err) {
  const char *checks = getenv("VTB_EMULATOR_CHECKS"), *seed = getenv("VTB_EMULATOR_SEED");
  vtb_emulator_options o = {.unchecked = checks && strcmp(checks, "0") == 0,
                            .seed = seed ? strtoull(seed, NULL, 10) : 1};
  vtb_status status = vtb_emulator_program(plan, &o, program, err);
  if (status != VTB_OK) vtb_launch_plan_free(plan);
  return status;
}

static vtb_status emulate(vtb_module *m, const vtb_cuda_options *options, vtb_program **program,
                          vtb_error *err) {
  vtb_launch_plan *plan = NULL;
  vtb_status status = cli_make_plan(m, options, &plan, err);
  return status == VTB_OK ? cli_emulate_plan(plan, program, err) : status;
}

/* The device first: without one nothing need be compiled. */
static vtb_status compile_for(vtb_cuda_device *device, vtb_launch_plan *plan, vtb_program **program,
                              vtb_error *err) {
  vtb_cuda_code *codes = vtb_xcalloc((size_t)plan->n_sources + 1, sizeof *codes);
  vtb_cuda_image *images = vtb_xcalloc((size_t)plan->n_sources + 1, sizeof *images);
  vtb_status status = vtb_cuda_compile_plan(plan, vtb_cuda_device_arch(device), codes, err);
  if (status == VTB_OK) {
    for (int i = 0; i < plan->n_sources; i++)
      images[i] = (vtb_cuda_image){codes[i].data, codes[i].n_bytes};
    status = vtb_cuda_program(plan, images, device, program, err);
    for (int i = 0; i < plan->n_sources; i++) vtb_cuda_code_free(&codes[i]);
  }
  free(codes);
  free(images);
  return status;
}

/* VTB_CUBLAS=0: no; =1: yes, or an error; else if it is installed: generated kernels do all products as well. */
static bool library_products(void) {
  const char *wish = getenv("VTB_CUBLAS");
  if (wish && *wish) return strcmp(wish, "0") != 0;
  vtb_strbuf found = {0};
  bool there = vtb_cuda_probe_cublaslt(&found);
  vtb_log("large products: %s", there ? found.at : "generated kernels");
  vtb_strbuf_free(&found);
  return there;
}

static vtb_status run_on_device(vtb_module *m, const vtb_cuda_options *wanted,
                                vtb_program **program, vtb_error *err) {
  vtb_cuda_options options = *wanted;
  options.library_products = library_products();
  vtb_cuda_device *device = NULL;
  vtb_launch_plan *plan = NULL;
  vtb_status status = vtb_cuda_device_open(&device, err);
  if (status != VTB_OK) return status;
  status = cli_make_plan(m, &options, &plan, err);
  if (status == VTB_OK && (status = compile_for(device, plan, program, err)) != VTB_OK)
    vtb_launch_plan_free(plan);
  if (status != VTB_OK) vtb_cuda_device_close(device);
  return status;
}

vtb_status cli_make_program(vtb_module *m, cli_target target, const cli_model_options *o,
                            bool profile, vtb_program **program, vtb_error *err) {
  vtb_cuda_options cuda = {.update = o->update, .average = o->average};
  vtb_status status = cli_precision(o->precision, &cuda.precision, err);
  if (status != VTB_OK) return status;
  if (target == CLI_TARGET_CPU && cuda.precision != VTB_CUDA_FP32)
    return vtb_fail(err, VTB_E_USAGE,
                    "--precision %s is for CUDA targets: the CPU computes in fp32", o->precision);
  if (target == CLI_TARGET_CUDA_EMULATED) return emulate(m, &cuda, program, err);
  if (target == CLI_TARGET_CUDA) return run_on_device(m, &cuda, program, err);
  vtb_codegen_options options = {.profile = profile};
  return vtb_jit(m, m->entry, &options, program, err);
}
