/* Hyperparameters of an entry as they are under its overrides, and whether conditions hold of
 * them. */
#include "frontend/lang/entry.h"

static bool bind_entry(vtb__opened *o, const char *name) {
  vtb__eval *e = &o->e;
  vtb__entry *n = &o->entry;
  const vtb_decl *d = vtb__entry_find(e, name);
  o->env = vtb__entry_env(e);
  if (!d || !vtb__entry_presets(e, d, n) || !vtb__entry_parse(e, n) || !vtb__entry_apply(e, n))
    return false;
  e->decl = n->decl;
  return vtb__entry_bind(e, n, o->env) && e->diags->n_errors == e->errors_before;
}

bool vtb__entry_open(vtb__opened *o, vtb_unit *u, const char *name,
                     const vtb_instantiate_options *options, vtb_diags *diags) {
  vtb__frame *f = &o->frame;
  *o = (vtb__opened){.entry = {0}};
  vtb__eval_begin(&o->e, u, name, options, diags);
  f->func = vtb_func_new(o->e.module, "condition", VTB_FUNC_PLAIN, VTB_NO_SPAN);
  f->b = (vtb_builder){.module = o->e.module, .func = f->func, .diags = diags};
  o->e.frame = f;
  return bind_entry(o, name);
}

void vtb__entry_close(vtb__opened *o) {
  vtb__frame *f = &o->frame;
  vtb_vec_free(&o->entry.presets);
  vtb_vec_free(&f->weights);
  vtb_vec_free(&f->outputs);
  vtb_vec_free(&f->taps);
  vtb_vec_free(&f->updates);
  vtb_vec_free(&f->measures);
  vtb_module_free(o->e.module);
  vtb__eval_end(&o->e);
}

static vtb_hyperparameter describe_parameter(const vtb_param *p, vtb__env *env, vtb_arena *arena) {
  const char **aliases = VTB_NEW_ARRAY(arena, const char *, p->n_aliases + 1);
  const vtb__binding *b = vtb__env_find_here(env, p->name.text);
  vtb_strbuf text = {0};
  for (size_t i = 0; i < p->n_aliases; i++)
    aliases[i] = vtb_arena_strdup(arena, p->aliases[i].text);
  if (b && b->value.kind != VTB__TENSOR) vtb__val_print(b->value, &text);
  vtb_hyperparameter s = {.name = vtb_arena_strdup(arena, p->name.text),
                          .aliases = aliases,
                          .n_aliases = p->n_aliases,
                          .value = text.at ? vtb_arena_strdup(arena, text.at) : NULL};
  vtb_strbuf_free(&text);
  return s;
}

bool vtb_unit_hyperparameters(vtb_unit *u, const char *name, const vtb_instantiate_options *o,
                              vtb_arena *arena, vtb_hyperparameter **list, size_t *n,
                              vtb_diags *diags) {
  vtb__opened e;
  *n = 0;
  if (!vtb__is_usable(u)) return false;
  bool ok = vtb__entry_open(&e, u, name, o, diags);
  size_t count = ok ? e.entry.decl->params.n : 0;
  *list = VTB_NEW_ARRAY(arena, vtb_hyperparameter, count + 1);
  for (size_t i = 0; i < count; i++)
    (*list)[(*n)++] = describe_parameter(e.entry.decl->params.at[i], e.env, arena);
  vtb__entry_close(&e);
  return ok;
}

/* A number, a size or a truth as the language writes it; anything else is a string. */
static vtb__val word_value(vtb__eval *e, const char *text) {
  vtb_diags quiet = {0};
  vtb_expr *x = vtb__parse_expr_text(e->unit, "<word>", text, &quiet);
  vtb__val v = vtb__val_string(vtb_arena_strdup(&e->arena, text));
  vtb_diags_free(&quiet);
  if (x && x->kind == VTB_EXPR_INT) v = vtb__int(x->u.i);
  if (x && x->kind == VTB_EXPR_FLOAT) v = vtb__float(x->u.f);
  if (x && x->kind == VTB_EXPR_BOOL) v = vtb__bool(x->u.b);
  if (x && x->kind == VTB_EXPR_SIZE) v = (vtb__val){.kind = VTB__SIZE, .u.size = x->u.size};
  return v;
}

static void bind_new(vtb__eval *e, vtb__env *env, const char *name, vtb__val v, vtb_span span) {
  if (!vtb__env_find_here(env, name)) vtb__env_bind(e, name, v, "a setting", span);
}

/* A word that is optional gives way to a hyperparameter's own name; all count before aliases. */
static void bind_words(vtb__eval *e, vtb__env *env, const vtb_decl *d, const vtb_override *words,
                       size_t n) {
  e->env = env;
  for (size_t i = 0; i < n; i++)
    if (!words[i].optional || !vtb__env_find_here(env, words[i].name))
      vtb__env_bind(e, words[i].name, word_value(e, words[i].value), "a setting", VTB_NO_SPAN);
  for (size_t i = 0; i < d->params.n; i++) {
    const vtb_param *p = d->params.at[i];
    const vtb__binding *b = vtb__env_find_here(env, p->name.text);
    for (size_t k = 0; b && k < p->n_aliases; k++)
      bind_new(e, env, p->aliases[k].text, b->value, p->span);
  }
}

bool vtb_unit_condition(vtb_unit *u, const char *name, const vtb_instantiate_options *o,
                        const vtb_override *words, size_t n_words, const char *text, bool *holds,
                        vtb_diags *diags) {
  vtb__opened it;
  if (!vtb__is_usable(u)) return false;
  bool ok = vtb__entry_open(&it, u, name, o, diags);
  const vtb_expr *x = ok ? vtb__parse_expr_text(u, "<condition>", text, diags) : NULL;
  if (x) {
    bind_words(&it.e, it.env, it.entry.decl, words, n_words);
    vtb__val v = vtb__expr(&it.e, x);
    if (v.kind != VTB__BOOL && v.kind != VTB__ERROR)
      vtb__report(&it.e, VTB_DIAG_BAD_CONDITION, x->span, "the condition is %s, not true or false",
                  vtb__describe(&it.e, v));
    *holds = v.kind == VTB__BOOL && v.u.b;
    ok = v.kind == VTB__BOOL && diags->n_errors == it.e.errors_before;
  }
  vtb__entry_close(&it);
  return ok && x;
}
