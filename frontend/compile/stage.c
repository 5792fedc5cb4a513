/* A model at any stage of the compiler, as text. */
#include "codegen/memory_plan.h"
#include "frontend/compile/driver.h"
#include "frontend/compile/fusions.h"
#include "frontend/compile/words.h"

#include <string.h>

/* The work that must be done before a stage's text can be written. */
typedef enum level { PARSED, LOADED, GRAPH, DIFFERENTIATED, LOWERED } level;

/* A row of stages.def. */
typedef struct stage {
  const char *name;
  level level;
  vtb_status (*write)(const vtb_compilation *c, vtb_strbuf *out, vtb_error *err);
} stage;

static vtb_status write_ast(const vtb_compilation *c, vtb_strbuf *out, vtb_error *err) {
  (void)err;
  vtb_unit_print_ast(c->unit, out);
  return VTB_OK;
}

static vtb_status write_module(const vtb_compilation *c, vtb_strbuf *out, vtb_error *err) {
  (void)err;
  vtb_module_print(c->module, &(vtb_print_options){.spans = true, .fold = c->options.fold}, out);
  return VTB_OK;
}

static vtb_status write_plan(const vtb_compilation *c, vtb_strbuf *out, vtb_error *err) {
  vtb_plan plan;
  const vtb_target *target = c->context.target;
  vtb_status status =
      vtb_plan_memory(c->module, c->module->entry, target ? &target->places : NULL, &plan, err);
  if (status != VTB_OK) return status;
  vtb_plan_print(&plan, out);
  vtb_plan_free(&plan);
  return VTB_OK;
}

static vtb_status write_decisions(const vtb_compilation *c, vtb_strbuf *out, vtb_error *err) {
  (void)err;
  vtb_decisions_print(&c->decisions, vtb_gpu_or_default(&c->context.gpu)->name, out);
  return VTB_OK;
}

static const stage stages[] = {
#define X(name, level, write) {#name, level, write},
#include "frontend/compile/stages.def"
#undef X
};
enum { N_STAGES = sizeof stages / sizeof *stages };

static vtb_status unknown_stage(const char *name, vtb_error *err) {
  const char *names[VTB_MOST_STAGES];
  const char *near = vtb_suggest(name, names, vtb_stage_names(names));
  return vtb_fail(err, VTB_E_USAGE, "unknown stage '%s'%s%s%s", name, near ? "; did you mean " : "",
                  near ? near : "", near ? "" : "; `vertebra dump --help` lists them");
}

/* A stage of what runs: `common`, or one of the target's code. */
typedef struct view {
  const char *name, *processor;
  const stage *common; /* NULL: the target's own */
} view;

static bool is_table(const view *v) {
  return strcmp(v->name, "launches") == 0 || strcmp(v->name, "decisions") == 0;
}

/* Whose products the text shows, where there is a choice; as a comment, but below a table. */
static void say_products(const view *v, bool library, vtb_strbuf *out) {
  bool table = is_table(v);
  if (!v->common && !table && strcmp(v->name, "cuda") != 0) return;
  vtb_strbuf_printf(out, "%sproducts: %s\n", table ? "" : "// ",
                    library ? "large ones by cublasLt (VTB_CUBLAS=0: all generated)"
                            : "all generated (--library: large ones by cublasLt)");
}

static vtb_status write_lowered(const vtb_compilation *c, const view *v, vtb_strbuf *out,
                                vtb_error *err) {
  const vtb_compile_options *o = &c->options;
  const vtb_target *target = v->common || o->target ? NULL : vtb_target_with_stage(v->name);
  vtb_codegen_options code;
  vtb_compilation lowered;
  if (!target) VTB_TRY(vtb_compile_target(o->target, true, &target, err));
  VTB_TRY(vtb_compile_code(target, o, &code, err));
  code.cpu = code.arch = v->processor;
  const vtb_backend_text *text = vtb_backend_text_of(vtb_backend_of(target), v->name);
  if (!v->common && !text)
    return vtb_fail(err, VTB_E_USAGE, "target %s has no stage '%s'", target->name, v->name);
  vtb_status status = vtb_compilation_lower(c, target, &code, o->batch, &lowered);
  vtb_module *m = lowered.module;
  bool choice = o->target && vtb_backend_of(target) && vtb_backend_of(target)->library;
  bool below = is_table(v);
  if (status == VTB_OK && choice && !below) say_products(v, code.library, out);
  if (status == VTB_OK)
    status = v->common ? v->common->write(&lowered, out, err)
                       : text->print(m, m->entry, &code, out, err);
  if (status == VTB_OK && choice && below) say_products(v, code.library, out);
  vtb_compilation_free(&lowered);
  return status;
}

vtb_status vtb__stage_text(vtb_compilation *c, vtb_compile_options *o, const char *name,
                           const char *processor, vtb_strbuf *out, vtb_report *r) {
  view v = {.name = name, .processor = processor};
  for (int i = 0; i < N_STAGES; i++)
    if (strcmp(name, stages[i].name) == 0) v.common = &stages[i];
  if (!v.common && !vtb_target_with_stage(name)) return unknown_stage(name, &r->error);
  level needed = v.common ? v.common->level : LOWERED;
  o->training |= needed == DIFFERENTIATED;
  bool of_plans = !v.common || v.common->write == write_decisions;
  if (of_plans && !o->target) o->target = vtb_target_with_stage(v.common ? "launches" : name)->name;
  VTB_TRY(vtb_compilation_load(c, o, NULL, r));
  if (needed >= GRAPH) VTB_TRY(vtb_compilation_graph(c));
  if (needed >= DIFFERENTIATED && o->training) VTB_TRY(vtb_compilation_train(c));
  if (needed == DIFFERENTIATED) VTB_TRY(vtb_compilation_run(c, "simplify,cse,dce"));
  return needed == LOWERED ? write_lowered(c, &v, out, &r->error)
                           : v.common->write(c, out, &r->error);
}
