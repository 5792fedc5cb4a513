/* See entry.h. */
#include "frontend/lang/entry.h"

/* ---- finding the entry ----------------------------------------------------------------------- */

static const vtb_decl *default_entry(vtb__eval *e) {
  const vtb_file *root = e->unit->files.at[0];
  const vtb_decl *found = NULL, *before = NULL;
  for (size_t i = 0; i < root->decls.n; i++) {
    if (root->decls.at[i]->kind != VTB_DECL_MODEL) continue;
    before = found;
    found = root->decls.at[i];
  }
  if (before) vtb__several_models(e, root, found);
  for (size_t i = root->decls.n; !found && i-- > 0;)
    if (root->decls.at[i]->kind == VTB_DECL_PRESET) found = root->decls.at[i];
  for (size_t i = root->decls.n; !found && i-- > 0;)
    if (root->decls.at[i]->kind == VTB_DECL_OPTIMIZER) found = root->decls.at[i];
  for (size_t i = root->decls.n; !found && i-- > 0;)
    if (root->decls.at[i]->kind == VTB_DECL_SCHEDULE) found = root->decls.at[i];
  if (!found)
    vtb__report(e, VTB_DIAG_NO_ENTRY, (vtb_span){.source = root->source}, "'%s' declares no model",
                root->source->path);
  return found;
}

const vtb_decl *vtb__entry_find(vtb__eval *e, const char *name) {
  if (!name) return default_entry(e);
  const vtb_decl *d = vtb__unit_lookup(e->unit, name);
  if (!d) d = vtb__unit_lookup_anywhere(e->unit, name);
  if (d && d->kind != VTB_DECL_CONST) return d;
  const vtb_file *root = e->unit->files.at[0];
  vtb__report(e, VTB_DIAG_UNKNOWN_ENTRY, (vtb_span){.source = root->source},
              "'%s' declares no model, preset, block, fn, recurrence, optimizer or schedule '%s'",
              root->source->path, name);
  const char **names;
  size_t n = vtb__file_names(root, &names);
  if (!vtb__suggest_help(e, name, names, n)) vtb__list_entries(e, root);
  vtb_free(names);
  return NULL;
}

/* ---- values from presets and overrides ------------------------------------------------------- */

int vtb__param_index(const vtb_decl *d, const char *name) {
  const vtb_param *p = vtb__param_find(d, name);
  for (size_t i = 0; p && i < d->params.n; i++)
    if (d->params.at[i] == p) return (int)i;
  return -1;
}

/* Evaluates in the empty environment of a file. */
vtb__val vtb__global_value(vtb__eval *e, const vtb_file *file, const vtb_expr *x,
                           const vtb_type_expr *type, const char *what) {
  vtb__env env = {0}, *saved = e->env;
  const vtb_file *saved_file = e->file;
  e->env = &env;
  e->file = file;
  vtb__val v = type ? vtb__expr_as(e, x, type, what) : vtb__expr(e, x);
  e->env = saved;
  e->file = saved_file;
  return v;
}

static bool preset_argument(vtb__eval *e, vtb__entry *n, const vtb_decl *preset, const vtb_arg *a,
                            int index) {
  if (a->name.text) index = vtb__param_index(n->decl, a->name.text);
  if (index < 0 || index >= (int)n->decl->params.n) {
    vtb__report(e, a->name.text ? VTB_DIAG_UNKNOWN_ARGUMENT : VTB_DIAG_TOO_MANY_ARGUMENTS, a->span,
                "model '%s' has no parameter %s", n->decl->name.text,
                a->name.text ? vtb_arena_printf(&e->arena, "'%s'", a->name.text) : "at this place");
    VTB_VEC(const char *) names = {0};
    for (size_t i = 0; i < n->decl->params.n; i++)
      vtb_vec_push(&names, n->decl->params.at[i]->name.text);
    if (a->name.text) vtb__suggest_help(e, a->name.text, names.at, names.n);
    vtb_vec_free(&names);
    return false;
  }
  const vtb_param *p = n->decl->params.at[index];
  vtb__val v = vtb__global_value(e, preset->file, a->value, p->type,
                                 vtb_arena_printf(&e->arena, "'%s'", p->name.text));
  n->values[index] = v;
  n->spans[index] = a->span;
  n->set[index] = true;
  return v.kind != VTB__ERROR;
}

/* Follows presets to their model; inner presets are overridden by outer ones. */
bool vtb__entry_presets(vtb__eval *e, const vtb_decl *d, vtb__entry *n) {
  bool ok = true;
  while (d && d->kind == VTB_DECL_PRESET && ok) {
    vtb_vec_push(&n->presets, d);
    const vtb_name callee = d->value->kind == VTB_EXPR_CALL ? d->value->u.call.callee : d->name;
    const vtb_decl *next = vtb__file_lookup(d->file, callee.text);
    if (!next) {
      vtb__report(e, VTB_DIAG_UNKNOWN_NAME, callee.span, "unknown model '%s'", callee.text);
      vtb__help(e, "`vertebra models` lists presets; `use` makes those of a file known");
    } else if (next->kind != VTB_DECL_MODEL && next->kind != VTB_DECL_PRESET)
      vtb__report(e, VTB_DIAG_NOT_A_MODEL, callee.span, "'%s' is %s, not a model", callee.text,
                  vtb__decl_kind_an(next->kind));
    else if (n->presets.n > 32 || next == d)
      vtb__report(e, VTB_DIAG_DEFINITION_CYCLE, d->name.span,
                  "preset '%s' is defined in terms of itself", d->name.text);
    else {
      d = next;
      continue;
    }
    ok = false;
  }
  n->decl = d;
  if (ok) {
    n->values = VTB_NEW_ARRAY(&e->arena, vtb__val, d->params.n);
    n->set = VTB_NEW_ARRAY(&e->arena, bool, d->params.n);
    n->spans = VTB_NEW_ARRAY(&e->arena, vtb_span, d->params.n);
  }
  for (size_t i = n->presets.n; ok && i-- > 0;) {
    const vtb_arg_list *args = &n->presets.at[i]->value->u.call.args;
    for (size_t k = 0; k < args->n; k++)
      ok &= preset_argument(e, n, n->presets.at[i], args->at[k], (int)k);
  }
  return ok;
}

bool vtb__entry_parse(vtb__eval *e, vtb__entry *n) {
  const vtb_instantiate_options *o = e->options;
  n->n_settings = o->n_overrides;
  n->settings = VTB_NEW_ARRAY(&e->arena, vtb__setting, o->n_overrides);
  bool ok = true;
  for (size_t i = 0; i < o->n_overrides; i++) {
    n->settings[i].o = &o->overrides[i];
    n->settings[i].x =
        vtb__parse_expr_text(e->unit, o->overrides[i].from_config ? "<config>" : "<command line>",
                             o->overrides[i].value, e->diags);
    ok &= n->settings[i].x != NULL;
  }
  return ok;
}

/* Functions are also the root file's, whose preset may be of a model elsewhere. */
static const vtb_file *file_of(vtb__eval *e, const vtb__entry *n, const vtb_expr *x,
                               const vtb_type_expr *type) {
  const vtb_file *root = e->unit->files.at[0];
  while (type->kind == VTB_TYPE_LIST && x->kind == VTB_EXPR_LIST && x->u.list.n)
    type = type->elem, x = x->u.list.at[0];
  if (!vtb__is_function_type(type) || x->kind != VTB_EXPR_NAME) return n->decl->file;
  bool elsewhere = vtb__file_lookup(n->decl->file, x->u.name) || vtb__builtin_find(x->u.name);
  return vtb__file_lookup(root, x->u.name) || !elsewhere ? root : n->decl->file;
}

/* Words of a config reach constants and choices; words of -D are expressions. */
static vtb__val setting_value(vtb__eval *e, const vtb__entry *n, const vtb__setting *s,
                              const vtb_type_expr *type, const char *what) {
  if (!s->o->from_config) return vtb__global_value(e, file_of(e, n, s->x, type), s->x, type, what);
  vtb__val v = vtb__global_value(e, n->decl->file, s->x, NULL, what);
  const vtb_file *file = e->file;
  e->file = n->decl->file;
  v = vtb__coerce(e, v, type, s->x->span, what, true);
  e->file = file;
  return v;
}

/* A hyperparameter that weights say and the command line sets too. */
static bool is_replaced(const vtb__entry *n, const vtb__setting *s, int index) {
  for (size_t i = 0; s->o->stored && i < n->n_settings; i++)
    if (!n->settings[i].o->stored && vtb__param_index(n->decl, n->settings[i].o->name) == index)
      return true;
  return false;
}

static bool apply_setting(vtb__eval *e, vtb__entry *n, vtb__setting *s) {
  int index = vtb__param_index(n->decl, s->o->name);
  if (index < 0 || vtb__is_tensor_type(n->decl->params.at[index]->type) ||
      n->decl->params.at[index]->type->kind == VTB_TYPE_SHAPE)
    return true;
  const vtb_param *p = n->decl->params.at[index];
  if (is_replaced(n, s, index)) {
    s->used = true;
    return true;
  }
  for (const vtb__setting *t = n->settings; t != s; t++)
    if (t->used && vtb__param_index(n->decl, t->o->name) == index &&
        t->o->from_config == s->o->from_config && t->o->stored == s->o->stored) {
      vtb__report(e, VTB_DIAG_REPEATED_OVERRIDE, s->x->span, "'%s' is set twice", p->name.text);
      return false;
    }
  s->used = true;
  int errors = e->diags->n_errors;
  vtb__val v = setting_value(e, n, s, p->type, vtb_arena_printf(&e->arena, "'%s'", s->o->name));
  if (v.kind == VTB__ERROR) {
    if (e->diags->n_errors > errors && !e->stopped)
      vtb_diag_note(e->diags, p->span, "declared here");
    return false;
  }
  n->values[index] = v;
  n->spans[index] = s->x->span;
  n->set[index] = true;
  return true;
}

/* -D comes after the config. */
bool vtb__entry_apply(vtb__eval *e, vtb__entry *n) {
  bool ok = true;
  for (int config = 1; config >= 0; config--)
    for (size_t i = 0; i < n->n_settings; i++)
      if (n->settings[i].o->from_config == (config == 1))
        ok &= apply_setting(e, n, &n->settings[i]);
  return ok;
}

/* ---- binding --------------------------------------------------------------------------------- */

vtb__env *vtb__entry_env(vtb__eval *e) { return VTB_NEW(&e->arena, vtb__env); }

size_t vtb__entry_actuals(const vtb__entry *n, vtb__actual *out) {
  size_t k = 0;
  for (size_t i = 0; i < n->decl->params.n; i++)
    if (n->set[i])
      out[k++] = (vtb__actual){
          .name = n->decl->params.at[i]->name.text, .value = n->values[i], .span = n->spans[i]};
  return k;
}

bool vtb__entry_bind(vtb__eval *e, vtb__entry *n, vtb__env *env) {
  vtb__actual *args = VTB_NEW_ARRAY(&e->arena, vtb__actual, n->decl->params.n);
  size_t k = vtb__entry_actuals(n, args);
  e->env = env;
  e->file = n->decl->file;
  return vtb__bind_params(e, n->decl, args, k, env, n->decl->file, n->decl->name.span);
}
