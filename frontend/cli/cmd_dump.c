/* vertebra dump: the model at any stage of the compiler. */
#include "codegen/cuda/compile/report.h"
#include "frontend/cli/cli.h"

#include <stdlib.h>
#include <string.h>

static const char *const stages[] = {"ast",  "ir",  "graph", "grad",     "fused", "plan",
                                     "llvm", "asm", "cuda",  "launches", "ptx",   "resources"};
enum { N_STAGES = sizeof stages / sizeof *stages };

static void print_module(const vtb_module *m) {
  vtb_strbuf out = {0};
  vtb_module_print(m, &(vtb_print_options){.spans = true}, &out);
  fputs(out.at ? out.at : "", stdout);
  vtb_strbuf_free(&out);
}

static vtb_status print_plan(vtb_module *m) {
  vtb_plan plan;
  vtb_error err = {0};
  vtb_status status = vtb_plan_memory(m, m->entry, &plan, &err);
  if (status != VTB_OK) return cli_error(&err);
  vtb_strbuf out = {0};
  vtb_plan_print(&plan, &out);
  fputs(out.at, stdout);
  vtb_strbuf_free(&out);
  vtb_plan_free(&plan);
  return VTB_OK;
}

static vtb_status print_code(vtb_module *m, bool assembly, const char *cpu) {
  vtb_error err = {0};
  vtb_strbuf out = {0};
  vtb_codegen_options options = {.cpu = cpu};
  vtb_status status = vtb_codegen_text(m, m->entry, &options, assembly, &out, &err);
  if (status != VTB_OK) return cli_error(&err);
  fputs(out.at ? out.at : "", stdout);
  vtb_strbuf_free(&out);
  return VTB_OK;
}

static vtb_status print_ptx(const vtb_launch_plan *plan, const char *arch, vtb_error *err) {
  vtb_cuda_code *codes = vtb_xcalloc((size_t)plan->n_sources + 1, sizeof *codes);
  vtb_status status = vtb_cuda_compile_plan(plan, arch ? arch : "compute_80", codes, err);
  for (int i = 0; status == VTB_OK && i < plan->n_sources; i++) {
    fputs(codes[i].data, stdout);
    vtb_cuda_code_free(&codes[i]);
  }
  free(codes);
  return status;
}

static vtb_status print_resources(const vtb_launch_plan *plan, const char *arch, vtb_error *err) {
  vtb_strbuf out = {0};
  int spilling = 0;
  vtb_status status = vtb_cuda_report(plan, arch, &out, &spilling, err);
  if (status == VTB_OK) printf("%s%d of %d kernels spill\n", out.at, spilling, plan->n_kernels);
  vtb_strbuf_free(&out);
  return status;
}

static void print_launches(const vtb_launch_plan *plan) {
  vtb_strbuf out = {0};
  vtb_cuda_launches(plan, &out);
  fputs(out.at, stdout);
  vtb_strbuf_free(&out);
}

static void print_sources(const vtb_launch_plan *plan) {
  fputs(plan->common, stdout);
  for (int i = 0; i < plan->n_sources; i++) printf("%s%s", i ? "\n" : "", plan->sources[i].text);
}

static vtb_status dump_stage(cli_model *model, const cli_model_options *o, int stage, bool train,
                             bool taps, const char *cpu, const char *arch) {
  enum { AST, IR, GRAPH, GRAD, FUSED, PLAN, LLVM, ASM, CUDA, LAUNCHES, PTX, RESOURCES };
  if (stage == AST) {
    vtb_strbuf out = {0};
    vtb_unit_print_ast(model->unit, &out);
    fputs(out.at ? out.at : "", stdout);
    vtb_strbuf_free(&out);
    return VTB_OK;
  }
  if (stage == IR) {
    print_module(model->module);
    return VTB_OK;
  }
  vtb_status status = cli_run_passes(model->module, o, vtb_pipeline_graph, taps, 0);
  if (status != VTB_OK) return status;
  if (train || stage == GRAD) {
    const char *name;
    if ((status = cli_add_train_step(model->module, o, 0, &name)) != VTB_OK) return status;
    model->module->entry = vtb_module_find(model->module, name);
    if (stage == GRAD &&
        (status = cli_run_passes(model->module, o, "simplify,cse,dce", taps, 0)) != VTB_OK)
      return status;
  }
  if (stage > GRAD)
    status = cli_run_passes(model->module, o, vtb_pipeline_codegen, taps, o->batch ? o->batch : 1);
  if (status != VTB_OK) return status;
  if (stage == PLAN) return print_plan(model->module);
  if (stage == LLVM || stage == ASM) return print_code(model->module, stage == ASM, cpu);
  if (stage >= CUDA) {
    vtb_error err = {0};
    vtb_launch_plan *cuda = NULL;
    vtb_cuda_options options = {.update = train ? VTB_UPDATE_ADAMW : VTB_UPDATE_NONE};
    status = cli_precision(o->precision, &options.precision, &err);
    if (status == VTB_OK)
      status = vtb_cuda_plan(model->module, model->module->entry, &options, &cuda, &err);
    if (status == VTB_OK && stage == CUDA) print_sources(cuda);
    if (status == VTB_OK && stage == LAUNCHES) print_launches(cuda);
    if (status == VTB_OK && stage == PTX) status = print_ptx(cuda, arch, &err);
    if (status == VTB_OK && stage == RESOURCES) status = print_resources(cuda, arch, &err);
    vtb_launch_plan_free(cuda);
    return status == VTB_OK ? VTB_OK : cli_error(&err);
  }
  print_module(model->module);
  return VTB_OK;
}

vtb_status cli_cmd_dump(int argc, char **argv) {
  cli_model_options o = {0};
  const char *stage = "ir", *cpu = NULL, *arch = NULL;
  bool train = false, taps = false;
  cli_opt opts[CLI_N_MODEL_OPTS + 5] = {
      {"--stage", CLI_STR, &stage, "STAGE",
       "ast, ir (default), graph, grad, fused, plan, llvm, asm, cuda, launches, ptx or resources"},
      {"--train", CLI_FLAG, &train, NULL, "the training step instead of the forward pass"},
      {"--taps", CLI_FLAG, &taps, NULL, "keep `tap` statements"},
      {"--cpu", CLI_STR, &cpu, "NAME",
       "code for another processor: x86-64-v3, x86-64-v4 (default: this one)"},
      {"--arch", CLI_STR, &arch, "NAME",
       "ptx, resources: compute_80, compute_90; sm_80, sm_90a (default), sm_100a"}};
  cli_model_opts(&o, opts + 5);
  cli_list models = {0};
  int parsed = cli_parse("dump", opts, CLI_N_MODEL_OPTS + 5, argc, argv, &models);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  if (models.n != 1) return cli_usage_error("dump", "one MODEL is needed");
  int which = 0;
  while (which < N_STAGES && strcmp(stage, stages[which]) != 0) which++;
  if (which == N_STAGES) {
    const char *near = vtb_suggest(stage, stages, N_STAGES);
    return cli_usage_error("dump", "unknown stage '%s'%s%s", stage, near ? "; did you mean " : "",
                           near ? near : "");
  }
  cli_model model;
  vtb_instantiate_options more = {.training = train || strcmp(stage, "grad") == 0, .taps = taps};
  vtb_status status = cli_model_load(models.at[0], &o, &more, &model);
  if (status == VTB_OK) {
    status = dump_stage(&model, &o, which, train, taps, cpu, arch);
    cli_model_free(&model);
  }
  vtb_vec_free(&models);
  vtb_vec_free(&o.defines);
  return status;
}
