/* Optimisers behind training steps: what an option says of one (of a schedule likewise), and its
 * equations. */
#include "frontend/compile/driver.h"
#include "frontend/compile/words.h"
#include "runtime/base/names.h"

#include <string.h>

static char *trimmed(vtb_arena *a, const char *s, size_t n) {
  while (n && (*s == ' ' || *s == '\t')) s++, n--;
  while (n && strchr(" \t", s[n - 1])) n--;
  return vtb_arena_strndup(a, s, n);
}

/* "name = value" becomes "name=value". */
static bool take_setting(vtb_rule_choice *o, const char *s, size_t n) {
  const char *eq = memchr(s, '=', n);
  if (!eq) return false;
  char *name = trimmed(&o->arena, s, (size_t)(eq - s));
  char *value = trimmed(&o->arena, eq + 1, n - (size_t)(eq + 1 - s));
  vtb_vec_push(&o->defines, vtb_arena_printf(&o->arena, "%s=%s", name, value));
  return *name && *value;
}

/* Bytes up to a comma or the end of the list, past what stands in brackets. */
static size_t setting_length(const char *s) {
  int depth = 0;
  size_t n = 0;
  for (; s[n] && (depth > 0 || !strchr(",)", s[n])); n++)
    depth += strchr("([", s[n]) ? 1 : strchr(")]", s[n]) ? -1 : 0;
  return n;
}

vtb_status vtb_rule_parse(const char *text, const char *kind, vtb_rule_choice *out,
                          vtb_error *err) {
  const char *open = strchr(text, '('), *s = open ? open + 1 : "";
  *out = (vtb_rule_choice){0};
  vtb_arena_init(&out->arena);
  out->what = trimmed(&out->arena, text, open ? (size_t)(open - text) : strlen(text));
  bool good = *out->what && (!open || vtb_ends_with(text, ")"));
  while (good && *s && *s != ')') {
    size_t n = setting_length(s);
    good = take_setting(out, s, n);
    s += n + (s[n] == ',');
  }
  if (good) return VTB_OK;
  return vtb_fail(
      err, VTB_E_USAGE,
      "'%s' is no %s: a name, a .vtb file or FILE:NAME is, with settings NAME(setting = 0.95)",
      text, kind);
}

void vtb_rule_free(vtb_rule_choice *o) {
  vtb_vec_free(&o->defines);
  vtb_arena_free(&o->arena);
}

vtb_status vtb_rule_find(vtb_rule_choice *choice, vtb_decl_kind kind, const vtb_compile_options *o,
                         vtb_error *err) {
  const vtb_search given = {.dirs = o->search, .n_dirs = o->n_search},
                   *search = o->search ? &given : NULL;
  const char *what = choice->what, *table = kind == VTB_DECL_OPTIMIZER ? "optimizers" : "schedules";
  const char *of_file = strstr(what, ".vtb:");
  choice->file = what;
  if (of_file) {
    choice->entry = strchr(of_file, ':') + 1;
    choice->file =
        vtb_arena_strndup(&choice->arena, what, (size_t)(of_file - what) + strlen(".vtb"));
  }
  if (of_file || vtb_ends_with(what, ".vtb") || strchr(what, '/')) return VTB_OK;
  char *file = vtb_unit_declaring(what, kind, search);
  choice->entry = what;
  if (file) choice->file = vtb_arena_strdup(&choice->arena, file);
  vtb_free(file);
  if (file) return VTB_OK;
  vtb_strbuf known = {0};
  vtb_words(table, search, ", ", ", ", &known);
  vtb_fail(err, VTB_E_USAGE, "unknown %.*s '%s'; there are %s and .vtb files",
           (int)strlen(table) - 1, table, what, vtb_strbuf_text(&known));
  vtb_strbuf_free(&known);
  return VTB_E_USAGE;
}

vtb_status vtb_rule_of_unit(const vtb_rule_choice *choice, vtb_decl_kind kind, const vtb_unit *u,
                            vtb_error *err) {
  const vtb_decl_info *decls;
  VTB_VEC(const char *) names = {0};
  vtb_strbuf list = {0};
  vtb_status status = VTB_OK;
  for (size_t i = 0, n = vtb_unit_decls(u, &decls); i < n && !choice->entry; i++)
    if (decls[i].kind == kind) vtb_vec_push(&names, decls[i].name);
  vtb_strbuf_names(&list, names.at, names.n, ", ", " and ");
  if (names.n > 1)
    status =
        vtb_fail(err, VTB_E_USAGE, "%s declares %zu %s, %s: say which, as in %s:%s", choice->file,
                 names.n, kind == VTB_DECL_OPTIMIZER ? "optimizers" : "schedules", list.at,
                 choice->file, names.at[names.n - 1]);
  vtb_strbuf_free(&list);
  vtb_vec_free(&names);
  return status;
}

static vtb_status load_rule(vtb_compilation *c, vtb_compilation *rule) {
  vtb_rule_choice choice;
  vtb_error *err = &c->report->error;
  vtb_status status = vtb_rule_parse(c->options.optimizer, "optimizer", &choice, err);
  if (status == VTB_OK) status = vtb_rule_find(&choice, VTB_DECL_OPTIMIZER, &c->options, err);
  vtb_compile_options o = {.size = sizeof o,
                           .model = choice.file,
                           .entry = choice.entry,
                           .defines = choice.defines.at,
                           .n_defines = choice.defines.n,
                           .search = c->options.search,
                           .n_search = c->options.n_search};
  if (status == VTB_OK) status = vtb_compilation_load(rule, &o, NULL, c->report);
  if (status == VTB_OK) status = vtb_rule_of_unit(&choice, VTB_DECL_OPTIMIZER, rule->unit, err);
  const vtb_func *entry = status == VTB_OK ? rule->module->entry : NULL;
  if (entry && (entry->kind != VTB_FUNC_RULE || !entry->n_args)) /* a schedule has none */
    status = vtb_fail(err, VTB_E_USAGE, "--optimizer: %s is no optimizer", choice.what);
  rule->options = (vtb_compile_options){0}; /* it was the choice's */
  vtb_rule_free(&choice);
  return status;
}

/* Equations of tensors, each evaluated in a module of its own, until the update stands. */
typedef struct shapes {
  vtb_compilation *c;
  vtb_rule_choice choice;
  VTB_VEC(vtb_override) settings;
  VTB_VEC(vtb_module *) modules;
} shapes;

static const vtb_func *of_tensor(void *user, const char *name, int64_t rows, int64_t columns) {
  shapes *s = user;
  const vtb_updated_tensor tensor = {name, rows, columns};
  const vtb_instantiate_options o = {
      .overrides = s->settings.at, .n_overrides = s->settings.n, .tensor = &tensor};
  vtb_diags diags = {0};
  vtb_module *m = vtb_instantiate(s->c->rule->unit, s->choice.entry, &o, &diags);
  if (m) vtb_vec_push(&s->modules, m);
  bool good = m && !diags.n_errors;
  vtb__report_take(s->c->report, &diags);
  return good ? m->entry : NULL;
}

static void take_settings(shapes *s) {
  for (size_t i = 0; i < s->choice.defines.n; i++) {
    const char *text = s->choice.defines.at[i], *eq = strchr(text, '=');
    char *name = vtb_arena_strndup(&s->choice.arena, text, (size_t)(eq - text));
    vtb_vec_push(&s->settings, ((vtb_override){.name = name, .value = eq + 1}));
  }
}

/* The error of the equations is a diagnostic. */
static vtb_status update(vtb_compilation *c, vtb_update_options *update) {
  shapes s = {.c = c};
  vtb_error *err = &c->report->error;
  VTB_TRY(vtb_rule_parse(c->options.optimizer, "optimizer", &s.choice, err));
  vtb_status status = vtb_rule_find(&s.choice, VTB_DECL_OPTIMIZER, &c->options, err);
  int errors = c->report->diags.n_errors;
  if (status == VTB_OK && vtb_optimizer_is_shaped(c->rule->unit, s.choice.entry)) {
    take_settings(&s);
    update->of_tensor = of_tensor;
    update->user = &s;
  }
  if (status == VTB_OK) status = vtb__run_passes(c, (vtb_pass_context){.update = update}, "update");
  if (c->report->diags.n_errors > errors) *err = (vtb_error){0};
  for (size_t i = 0; i < s.modules.n; i++) vtb_module_free(s.modules.at[i]);
  vtb_vec_free(&s.modules);
  vtb_vec_free(&s.settings);
  vtb_rule_free(&s.choice);
  return status;
}

vtb_status vtb_compilation_update(vtb_compilation *c) {
  c->rule = vtb_xcalloc(1, sizeof *c->rule);
  c->rule->report = c->report;
  VTB_TRY(load_rule(c, c->rule));
  const vtb_compile_options *o = &c->options;
  vtb_update_options options = {.rule = c->rule->module->entry,
                                .average = o->average,
                                .accumulates = o->accumulate > 1,
                                .rank = o->rank,
                                .ranks = o->shard ? o->ranks : 0};
  return update(c, &options);
}
