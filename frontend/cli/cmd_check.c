/* vertebra check: what a model is, without making code: inputs, outputs, parameters, FLOPs, memory,
 * structure. */
#include "codegen/label.h"
#include "frontend/cli/built.h"
#include "frontend/cli/progress.h"
#include "ir/numerics.h"
#include "frontend/lang/lang.h"
#include "ir/objective.h"
#include "passes/target.h"

#include <stdlib.h>
#include <string.h>

static bool is_param(const vtb_arg_info *info) {
  return info->role == VTB_ROLE_PARAM || info->frozen;
}

static int64_t call_params(const vtb_func *f, const vtb_inst *call) {
  int64_t n = 0;
  for (int o = 0; o < call->n_operands; o++) {
    const vtb_value *v = call->operands[o];
    if (!v->def && is_param(&f->arg_info[v->index])) n += vtb_type_count(&v->type);
  }
  return n;
}

/* A recurrence: its class, and the form that was chosen, with the reason. */
static void print_recurrence(const vtb_inst *i, vtb_strbuf *text) {
  if (i->op == VTB_OP_fold)
    vtb_strbuf_puts(text, "step after step: no form takes its tokens together");
  else
    vtb_mode_reason(vtb_target_find("cpu"), i, text);
}

/* The types of its operands, or how a recurrence is computed. */
static void describe(const vtb_inst *i, vtb_strbuf *text) {
  bool recurrence = i->op == VTB_OP_linscan || i->op == VTB_OP_delta || i->op == VTB_OP_fold;
  if (recurrence) print_recurrence(i, text);
  for (int o = 0; o < i->n_operands && o < 3 && !recurrence; o++) {
    vtb_strbuf_puts(text, o ? ", " : "");
    vtb_type_print(&i->operands[o]->type, text);
  }
}

static void print_op(const vtb_inst *i) {
  vtb_strbuf text = {0};
  vtb_arena arena;
  char place[256];
  cli_line l = {.cut = true};
  vtb_arena_init(&arena);
  describe(i, &text);
  cli_line_add(&l, "      %-33s", vtb_label_of(i, "", &arena));
  cli_line_add(&l, "%-8s", vtb_op_get(i->op)->name);
  cli_line_add(&l, cli_columns(stdout) ? "%s" : "%-66s", vtb_strbuf_text(&text));
  cli_line_add(&l, "%s", vtb_span_text(i->span, place, sizeof place));
  cli_line_print(&l);
  vtb_strbuf_free(&text);
  vtb_arena_free(&arena);
}

static void print_body(const vtb_func *f) {
  for (const vtb_inst *i = f->first; i; i = i->next)
    if (vtb_op_get(i->op)->klass == VTB_CLASS_STRUCTURED || i->op == VTB_OP_fold) print_op(i);
}

/* Smallest period of the callee sequence from `first`, if it repeats at least twice. */
static size_t period_of(vtb_func *const *callee, size_t n, size_t *repeats) {
  for (size_t p = 1; p <= n / 2; p++) {
    size_t k = p;
    while (k < n && callee[k] == callee[k - p]) k++;
    if (k / p >= 2 && k == n / p * p) {
      *repeats = k / p;
      return p;
    }
  }
  *repeats = 1;
  return n;
}

static void print_calls(const vtb_func *f, vtb_map *seen, const vtb_inst **calls, size_t n) {
  vtb_func **callee = vtb_xcalloc(n + 1, sizeof *callee);
  for (size_t i = 0; i < n; i++) callee[i] = calls[i]->callee;
  size_t repeats, period = period_of(callee, n, &repeats);
  printf("    %zu x\n", repeats);
  for (size_t i = 0; i < period; i++) {
    printf("      @%s: %lld parameters, %.3f GFLOP\n", callee[i]->name,
           (long long)call_params(f, calls[i]), vtb_func_cost(callee[i], 1).flops * 1e-9);
    if (vtb_map_has(seen, callee[i]->name)) continue;
    vtb_map_set(seen, callee[i]->name, callee[i]);
    print_body(callee[i]);
  }
  vtb_free(callee);
}

static void print_structure(const vtb_func *f) {
  vtb_map seen = {0};
  VTB_VEC(const vtb_inst *) calls = {0};
  for (const vtb_inst *i = f->first; i; i = i->next) {
    if (i->op == VTB_OP_call) {
      vtb_vec_push(&calls, i);
      continue;
    }
    if (vtb_op_get(i->op)->klass != VTB_CLASS_STRUCTURED && i->op != VTB_OP_fold) continue;
    if (calls.n) print_calls(f, &seen, calls.at, calls.n);
    calls.n = 0;
    print_op(i);
  }
  if (calls.n) print_calls(f, &seen, calls.at, calls.n);
  vtb_vec_free(&calls);
  vtb_map_free(&seen);
}

static void print_io(const vtb_func *f, const char *prepare) {
  vtb_strbuf text = {0};
  for (int a = 0; a < f->n_args; a++) {
    if (f->arg_info[a].role != VTB_ROLE_INPUT) continue;
    vtb_strbuf_printf(&text, "  input  %-12s ", f->arg_info[a].official);
    vtb_type_print(&f->args[a]->type, &text);
    vtb_strbuf_putc(&text, '\n');
  }
  if (prepare) vtb_strbuf_printf(&text, "  images %-12s %s\n", "", prepare);
  for (int r = 0; r < f->n_returns; r++) {
    vtb_strbuf_printf(&text, "  output %-12s ", f->return_names[r] ? f->return_names[r] : "");
    vtb_type_print(&f->returns[r]->type, &text);
    vtb_strbuf_putc(&text, '\n');
  }
  fputs(text.at ? text.at : "", stdout);
  vtb_strbuf_free(&text);
}

/* modes: the entry with the form of every recurrence chosen. */
static void print_json(const vtb_compilation *c, const vtb_func *modes, int64_t params,
                       int64_t peak) {
  vtb_published_macs macs = vtb_func_published_macs(modes);
  cJSON *out = cJSON_CreateObject();
  const vtb_func *f = c->module->entry;
  cJSON_AddStringToObject(out, "model", c->func);
  cJSON_AddNumberToObject(out, "parameters", (double)params);
  if (c->module->prepare) cJSON_AddItemToObject(out, "prepare", cJSON_Parse(c->module->prepare));
  cJSON_AddNumberToObject(out, "flops", vtb_func_cost(modes, 1).flops);
  cJSON_AddNumberToObject(out, "published_macs", macs.layers + macs.mixers);
  cJSON_AddNumberToObject(out, "layer_macs", macs.layers);
  cJSON_AddNumberToObject(out, "workspace_bytes", (double)peak);
  cJSON *list = cJSON_AddArrayToObject(out, "params");
  for (int a = 0; a < f->n_args; a++) {
    if (!is_param(&f->arg_info[a])) continue;
    cJSON *p = cJSON_CreateObject(), *shape = cJSON_CreateArray();
    for (int d = 0; d < f->args[a]->type.rank; d++)
      cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)f->args[a]->type.dim[d].size));
    cJSON_AddStringToObject(p, "name", f->arg_info[a].official);
    cJSON_AddItemToObject(p, "shape", shape);
    cJSON_AddStringToObject(p, "init", f->arg_info[a].init ? f->arg_info[a].init : "zeros");
    cJSON_AddBoolToObject(p, "decay", f->arg_info[a].decay);
    cJSON_AddBoolToObject(p, "frozen", f->arg_info[a].frozen);
    cJSON_AddNumberToObject(p, "uses", f->arg_info[a].uses);
    cJSON_AddItemToArray(list, p);
  }
  cli_print_json(out);
}

static void print_params(const vtb_func *f) {
  int columns = 0;
  for (int a = 0; a < f->n_args; a++) {
    int n = is_param(&f->arg_info[a]) ? (int)strlen(f->arg_info[a].official) : 0;
    if (n > columns) columns = n;
  }
  for (int a = 0; a < f->n_args; a++) {
    if (!is_param(&f->arg_info[a])) continue;
    vtb_strbuf type = {0};
    cli_line l = {.cut = true};
    vtb_type_print(&f->args[a]->type, &type);
    cli_line_add(&l, "  %-*s", columns, f->arg_info[a].official);
    cli_line_add(&l, "%-18s", type.at);
    cli_line_add(&l, "%.60s%s", f->arg_info[a].init ? f->arg_info[a].init : "",
                 f->arg_info[a].frozen ? " frozen" : "");
    if (f->arg_info[a].uses > 1) cli_line_add(&l, "shared by %d", f->arg_info[a].uses);
    cli_line_print(&l);
    vtb_strbuf_free(&type);
  }
}

/* What the model is trained for and measured by, and the inputs that only this reads. */
static void print_objective(const vtb_func *model, const vtb_func *f) {
  vtb_strbuf text = {0};
  for (int a = 0; a < f->n_args; a++) {
    bool known = f->arg_info[a].role != VTB_ROLE_INPUT;
    for (int k = 0; k < model->n_args && !known; k++)
      known = vtb_streq(model->arg_info[k].official, f->arg_info[a].official);
    if (known) continue;
    vtb_strbuf_printf(&text, "  target %-12s ", f->arg_info[a].official);
    vtb_type_print(&f->args[a]->type, &text);
    vtb_strbuf_putc(&text, '\n');
  }
  for (int r = 0; r < f->n_returns; r++) {
    const char *prefix, *name = f->return_names[r];
    if (!vtb_is_measure(name, &prefix)) continue;
    bool loss = strcmp(prefix, VTB_MEASURE_LOSS) == 0;
    vtb_strbuf_printf(&text, "  %-6s %-12s ", loss ? "loss" : "metric", name + strlen(prefix));
    vtb_type_print(&f->returns[r]->type, &text);
    vtb_strbuf_printf(&text, "%s%s\n",
                      vtb_find_measure(f, VTB_MEASURE_BY, name) >= 0 ? ", a quotient" : "",
                      loss                                     ? ""
                      : strcmp(prefix, VTB_MEASURE_LOWER) == 0 ? ", lower is better"
                                                               : ", higher is better");
  }
  fputs(text.at ? text.at : "", stdout);
  vtb_strbuf_free(&text);
}

static void print_flops(const vtb_func *modes) {
  vtb_published_macs macs = vtb_func_published_macs(modes);
  vtb_strbuf text = {0};
  vtb_strbuf_printf(
      &text, "%.3f G an image as executed; %.2f GMACs in the papers' count (\"FLOPs\" there)",
      vtb_func_cost(modes, 1).flops * 1e-9, (macs.layers + macs.mixers) * 1e-9);
  if (macs.mixers > 0)
    vtb_strbuf_printf(&text, ", %.2f without the mixers' own", macs.layers * 1e-9);
  printf("  FLOPs        ");
  cli_print_paragraph(text.at, 15, 15);
  vtb_strbuf_free(&text);
}

static void print_text(const vtb_compilation *c, const vtb_func *objective, const vtb_func *modes,
                       int64_t params, int64_t batch, int64_t peak) {
  char number[32];
  printf("%s\n", c->func);
  print_io(c->module->entry, c->module->prepare);
  print_objective(c->module->entry, objective);
  int64_t frozen = cli_count_params(c->module->entry, true);
  printf("  parameters   %s (%.1f MiB in f32)", cli_grouped(params, number, sizeof number),
         (double)params * 4 / 1048576);
  if (frozen) printf(", %s of them frozen", cli_grouped(frozen, number, sizeof number));
  putchar('\n');
  print_flops(modes);
  printf("  workspace    %.1f MiB for batch %lld\n", (double)peak / 1048576, (long long)batch);
  puts("  structure");
  print_structure(modes);
}

/* As it is trained, before any pass: what the user wrote. */
static vtb_status check_numerics(vtb_compile_options o, vtb_report *r, int *n) {
  vtb_compilation c;
  vtb_diags diags = {0};
  o.training = true;
  vtb_status status = vtb_compilation_load(&c, &o, NULL, r);
  if (status == VTB_OK) *n = vtb_numerics_check(c.module, &diags);
  vtb__report_take(r, &diags);
  vtb_compilation_free(&c);
  return status;
}

/* The model with its objective, and warnings of what would not be trained. */
static vtb_status open_objective(const cli_model_options *m, const char *what, const char *entry,
                                 vtb_compilation *c) {
  vtb_compile_options o = cli_compile_options(m, what);
  if (entry) o.entry = entry;
  o.evaluation = true;
  vtb_status status = vtb_compilation_load(c, &o, NULL, m->report);
  if (status == VTB_OK) status = vtb_compilation_graph(c);
  if (status == VTB_OK) vtb_compilation_check_training(c);
  return status;
}

static vtb_status check_one(const char *what, const char *entry, const cli_model_options *m,
                            bool list_params, bool numerics) {
  vtb_compilation c = {0}, modes = {0}, objective = {0};
  vtb_compile_options o = cli_compile_options(m, what);
  if (entry) o.entry = entry;
  int64_t batch = o.batch ? o.batch : 1, peak = 0;
  int places = -1;
  vtb_status status = numerics ? check_numerics(o, m->report, &places) : VTB_OK;
  if (status == VTB_OK) status = vtb_compilation_open(&c, &o, m->report);
  if (status == VTB_OK)
    status =
        vtb_compilation_lower(&c, vtb_target_find("interp"), &(vtb_codegen_options){0}, 1, &modes);
  if (status == VTB_OK) status = cli_plan_memory(&c, batch, &peak);
  if (status == VTB_OK) status = open_objective(m, what, entry, &objective);
  cli_report(m, status);
  if (status == VTB_OK) {
    int64_t params = cli_count_params(c.module->entry, false);
    if (m->json)
      print_json(&c, modes.module->entry, params, peak);
    else
      print_text(&c, objective.module->entry, modes.module->entry, params, batch, peak);
    if (!m->json && list_params) print_params(c.module->entry);
    if (!m->json && places == 0) puts("  numerics     nothing found");
    if (!m->json && places > 0) printf("  numerics     %d places, above\n", places);
  }
  vtb_compilation_free(&modes);
  if (objective.report) vtb_compilation_free(&objective);
  vtb_compilation_free(&c);
  return status;
}

/* Names of the models that a file declares, borrowed from *unit; none if it is no file that can be
 * read, of which check_one says more. */
static void models_of(const char *what, cli_list *names, vtb_unit **unit) {
  vtb_diags quiet = {0};
  const vtb_decl_info *decls;
  *unit = vtb_ends_with(what, ".vtb") ? vtb_unit_load(what, NULL, &quiet) : NULL;
  for (size_t i = 0, n = *unit ? vtb_unit_decls(*unit, &decls) : 0; i < n; i++)
    if (decls[i].kind == VTB_DECL_MODEL) vtb_vec_push(names, decls[i].name);
  vtb_diags_free(&quiet);
}

/* Every model of a file, if none is asked for. */
static vtb_status check(const char *what, const cli_model_options *m, bool list_params,
                        bool numerics) {
  cli_list names = {0};
  vtb_unit *unit = NULL;
  vtb_status worst = VTB_OK;
  if (!m->compile.entry) models_of(what, &names, &unit);
  if (names.n < 2 || m->json) worst = check_one(what, NULL, m, list_params, numerics);
  if (names.n > 1 && !m->json) {
    printf("%s declares %zu models:", what, names.n);
    for (size_t i = 0; i < names.n; i++) printf("%s %s", i ? "," : "", names.at[i]);
    puts("");
    for (size_t i = 0; i < names.n; i++) {
      vtb_status status = check_one(what, names.at[i], m, list_params, numerics);
      if (worst == VTB_OK) worst = status;
    }
  }
  vtb_vec_free(&names);
  vtb_unit_free(unit);
  return worst;
}

static vtb_status check_built(const char *path, const cli_model_options *m, bool list_params) {
  vtb_artefact *built;
  vtb_status status = cli_built_open("check", path, m, &built);
  if (status != VTB_OK) return status;
  cli_built_show(path, built, list_params, m->json);
  vtb_artefact_close(built);
  return VTB_OK;
}

vtb_status cli_cmd_check(int argc, char **argv) {
  cli_model_options o = {0};
  bool list_params = false, numerics = false;
  const cli_opt opts[] = {{"--params", CLI_FLAG, &list_params, NULL, "list every parameter"},
                          {"--numerics", CLI_FLAG, &numerics, NULL,
                           "where numbers or gradients can become infinite, and what to write"},
                          CLI_MODEL_OPTS(o)};
  cli_list rest = {0};
  int parsed = cli_parse("check", opts, CLI_COUNT(opts), argc, argv, &rest);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  if (!rest.n) return cli_usage_error("check", "a MODEL is needed");
  cli_model_parsed(&o);
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < rest.n && status == VTB_OK; i++)
    status = cli_is_built(rest.at[i]) ? check_built(rest.at[i], &o, list_params)
                                      : check(rest.at[i], &o, list_params, numerics);
  vtb_vec_free(&rest);
  cli_model_options_free(&o);
  return status;
}
