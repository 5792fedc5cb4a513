/* vertebra dump: the model at any stage of the compiler. */
#include "frontend/cli/cli.h"

#include <stdlib.h>
#include <string.h>

/* The stages of every target; those of its code have rows in codegen/targets.c. */
static const char *const stages[] = {"ast",  "ir",  "graph", "grad",     "fused", "plan",
                                     "llvm", "asm", "cuda",  "launches", "ptx",   "resources"};
enum { AST, IR, GRAPH, GRAD, FUSED, PLAN, CODE, N_STAGES = sizeof stages / sizeof *stages };

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

static vtb_status print_code(vtb_module *m, const vtb_backend_text *text,
                             const vtb_codegen_options *code) {
  vtb_error err = {0};
  vtb_strbuf out = {0};
  vtb_status status = text->print(m, m->entry, code, &out, &err);
  if (status == VTB_OK) fputs(out.at ? out.at : "", stdout);
  vtb_strbuf_free(&out);
  return status == VTB_OK ? VTB_OK : cli_error(&err);
}

static void print_ast(const vtb_unit *unit) {
  vtb_strbuf out = {0};
  vtb_unit_print_ast(unit, &out);
  fputs(out.at ? out.at : "", stdout);
  vtb_strbuf_free(&out);
}

typedef struct dump_options {
  cli_model_options model;
  const char *cpu, *arch;
  int stage;
  bool train, taps;
} dump_options;

/* As far as the graph goes, with the training step if it is wanted. */
static vtb_status make_graph(cli_model *model, const dump_options *o) {
  vtb_module *m = model->module;
  vtb_status status = cli_run_passes(m, &o->model, vtb_pipeline_graph, o->taps, 0);
  if (status != VTB_OK || !(o->train || o->stage == GRAD)) return status;
  const char *name;
  if ((status = cli_add_train_step(m, &o->model, 0, &name)) != VTB_OK) return status;
  m->entry = vtb_module_find(m, name);
  return o->stage == GRAD ? cli_run_passes(m, &o->model, "simplify,cse,dce", o->taps, 0) : VTB_OK;
}

/* What runs on the target: one that has the stage, where none is named. */
static vtb_status dump_lowered(vtb_module *m, const dump_options *o) {
  const cli_model_options *mo = &o->model;
  const char *stage = stages[o->stage];
  const vtb_target *target = o->stage < CODE || mo->target ? NULL : vtb_target_with_stage(stage);
  vtb_codegen_options code;
  vtb_error err = {0};
  vtb_status status = target ? VTB_OK : cli_target(mo->target, true, &target, &err);
  if (status == VTB_OK) status = cli_codegen_options(target, mo, &code, &err);
  if (status != VTB_OK) return cli_error(&err);
  code.cpu = o->cpu;
  code.arch = o->arch;
  code.library = mo->library;
  code.update = o->train ? VTB_UPDATE_ADAMW : VTB_UPDATE_NONE;
  const vtb_backend_text *text = vtb_backend_text_of(vtb_backend_of(target), stage);
  if (o->stage >= CODE && !text)
    return cli_usage_error("dump", "target %s has no stage '%s'", target->name, stage);
  status = cli_lower(m, target, &code, mo, o->taps, mo->batch ? mo->batch : 1);
  if (status != VTB_OK) return status;
  if (text) return print_code(m, text, &code);
  if (o->stage == PLAN) return print_plan(m);
  print_module(m);
  return VTB_OK;
}

static vtb_status dump_stage(cli_model *model, const dump_options *o) {
  if (o->stage == AST) {
    print_ast(model->unit);
    return VTB_OK;
  }
  vtb_status status = o->stage == IR ? VTB_OK : make_graph(model, o);
  if (status == VTB_OK && o->stage > GRAD) return dump_lowered(model->module, o);
  if (status == VTB_OK) print_module(model->module);
  return status;
}

vtb_status cli_cmd_dump(int argc, char **argv) {
  enum { OWN = 7 };
  dump_options o = {0};
  const char *stage = "ir";
  cli_opt opts[OWN + CLI_N_MODEL_OPTS] = {
      {"--stage", CLI_STR, &stage, "STAGE",
       "ast, ir (default), graph, grad, fused, plan, llvm, asm, cuda, launches, ptx or resources"},
      {"--train", CLI_FLAG, &o.train, NULL, "the training step instead of the forward pass"},
      {"--taps", CLI_FLAG, &o.taps, NULL, "keep `tap` statements"},
      {"--cpu", CLI_STR, &o.cpu, "NAME",
       "code for another processor: x86-64-v3, x86-64-v4 (default: this one)"},
      {"--arch", CLI_STR, &o.arch, "NAME",
       "ptx, resources: compute_80, compute_90; sm_80, sm_90a (default), sm_100a"},
      {"--target", CLI_STR, &o.model.target, "T",
       "whose passes: cpu (default of fused and plan), interp, cuda or cuda-emulated"},
      {"--library", CLI_FLAG, &o.model.library, NULL,
       "large products by the vendor's library, as where it is installed"}};
  cli_model_opts(&o.model, opts + OWN);
  cli_list models = {0};
  int parsed = cli_parse("dump", opts, OWN + CLI_N_MODEL_OPTS, argc, argv, &models);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  if (models.n != 1) return cli_usage_error("dump", "one MODEL is needed");
  while (o.stage < N_STAGES && strcmp(stage, stages[o.stage]) != 0) o.stage++;
  if (o.stage == N_STAGES) {
    const char *near = vtb_suggest(stage, stages, N_STAGES);
    return cli_usage_error("dump", "unknown stage '%s'%s%s", stage, near ? "; did you mean " : "",
                           near ? near : "");
  }
  cli_model model;
  vtb_instantiate_options more = {.training = o.train || o.stage == GRAD, .taps = o.taps};
  vtb_status status = cli_model_load(models.at[0], &o.model, &more, &model);
  if (status == VTB_OK) {
    status = dump_stage(&model, &o);
    cli_model_free(&model);
  }
  vtb_vec_free(&models);
  vtb_vec_free(&o.model.defines);
  return status;
}
