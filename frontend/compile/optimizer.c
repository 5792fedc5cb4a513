/* Optimisers behind training steps: what an option says of one, and its equations. */
#include "frontend/compile/driver.h"
#include "frontend/compile/words.h"

#include <string.h>

static char *trimmed(vtb_arena *a, const char *s, size_t n) {
  while (n && (*s == ' ' || *s == '\t')) s++, n--;
  while (n && strchr(" \t", s[n - 1])) n--;
  return vtb_arena_strndup(a, s, n);
}

/* "name = value" becomes "name=value". */
static bool take_setting(vtb_optimizer_choice *o, const char *s, size_t n) {
  const char *eq = memchr(s, '=', n);
  if (!eq) return false;
  char *name = trimmed(&o->arena, s, (size_t)(eq - s));
  char *value = trimmed(&o->arena, eq + 1, n - (size_t)(eq + 1 - s));
  vtb_vec_push(&o->defines, vtb_arena_printf(&o->arena, "%s=%s", name, value));
  return *name && *value;
}

vtb_status vtb_optimizer_parse(const char *text, vtb_optimizer_choice *out, vtb_error *err) {
  const char *open = strchr(text, '('), *s = open ? open + 1 : "";
  *out = (vtb_optimizer_choice){0};
  vtb_arena_init(&out->arena);
  out->what = trimmed(&out->arena, text, open ? (size_t)(open - text) : strlen(text));
  bool good = *out->what && (!open || vtb_ends_with(text, ")"));
  while (good && *s && *s != ')') {
    size_t n = strcspn(s, ",)");
    good = take_setting(out, s, n);
    s += n + (s[n] == ',');
  }
  if (good) return VTB_OK;
  return vtb_fail(err, VTB_E_USAGE,
                  "'%s' is no optimizer: a name or a .vtb file is, or lamb(beta1 = 0.95)", text);
}

void vtb_optimizer_free(vtb_optimizer_choice *o) {
  vtb_vec_free(&o->defines);
  vtb_arena_free(&o->arena);
}

/* A word that no file of the search folders declares. */
static vtb_status check_known(const vtb_compilation *c, const char *what) {
  const vtb_search given = {.dirs = c->options.search, .n_dirs = c->options.n_search};
  vtb_diags diags = {0};
  if (vtb_ends_with(what, ".vtb") || strchr(what, '/')) return VTB_OK;
  vtb_unit *u = vtb_unit_find(what, c->options.search ? &given : NULL, &diags);
  vtb_diags_free(&diags);
  vtb_unit_free(u);
  if (u) return VTB_OK;
  vtb_strbuf known = {0};
  vtb_words("optimizers", c->options.search ? &given : NULL, ", ", ", ", &known);
  vtb_fail(&c->report->error, VTB_E_USAGE, "unknown optimizer '%s'; there are %s and .vtb files",
           what, vtb_strbuf_text(&known));
  vtb_strbuf_free(&known);
  return VTB_E_USAGE;
}

static vtb_status load_rule(vtb_compilation *c, vtb_compilation *rule) {
  vtb_optimizer_choice choice;
  vtb_error *err = &c->report->error;
  vtb_status status = vtb_optimizer_parse(c->options.optimizer, &choice, err);
  vtb_compile_options o = {.size = sizeof o,
                           .model = choice.what,
                           .defines = choice.defines.at,
                           .n_defines = choice.defines.n,
                           .search = c->options.search,
                           .n_search = c->options.n_search};
  if (status == VTB_OK) status = check_known(c, choice.what);
  if (status == VTB_OK) status = vtb_compilation_load(rule, &o, NULL, c->report);
  if (status == VTB_OK && rule->module->entry->kind != VTB_FUNC_RULE)
    status = vtb_fail(err, VTB_E_USAGE, "--optimizer: %s is no optimizer", choice.what);
  rule->options = (vtb_compile_options){0}; /* it was the choice's */
  vtb_optimizer_free(&choice);
  return status;
}

vtb_status vtb_compilation_update(vtb_compilation *c) {
  c->rule = vtb_xcalloc(1, sizeof *c->rule);
  c->rule->report = c->report;
  VTB_TRY(load_rule(c, c->rule));
  const vtb_compile_options *o = &c->options;
  vtb_update_options update = {.rule = c->rule->module->entry,
                               .average = o->average,
                               .accumulates = o->accumulate > 1,
                               .rank = o->rank,
                               .ranks = o->shard ? o->ranks : 0};
  return vtb__run_passes(c, (vtb_pass_context){.update = &update}, "update");
}
