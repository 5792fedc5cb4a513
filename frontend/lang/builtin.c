/* Builtin functions: their names, and how they are called. */
#include "frontend/lang/builtin.h"

#include <string.h>

static const vtb__builtin rows[] = {
#define VTB_BUILTIN(name, function, where, parameters, doc)                                        \
  {#name, vtb__b_##function, VTB__##where, parameters, doc},
#include "frontend/lang/builtins.def"
#undef VTB_BUILTIN
    {0}};

static const vtb__builtin *const tables[] = {rows, vtb__scalar_builtins};
enum { N_TABLES = sizeof tables / sizeof *tables };
static const vtb__builtin tapped = {.name = "tapped",
                                    .parameters = "name: string, x: value",
                                    .doc = "x, with taps inside it named NAME.<tap>"},
                          prepare = {.name = "prepare",
                                     .parameters = "crop: number = none, resize: string = none, "
                                                   "filter: string = none, mean: value = none, "
                                                   "std: value = none",
                                     .doc = "how images are made the model's input"};
static const char *const init_names[] = {
    "zeros",      "ones",           "constant",       "normal",        "trunc_normal",
    "uniform",    "uniform_fan_in", "xavier_uniform", "linspace",      "s4d_real",
    "dt_bias",    "xavier_normal",  "normal_fan_out", "normal_fan_in", "rotary_cos",
    "rotary_sin", "sincos_columns", "sincos_rows",    "identity",      "dirac",
    "orthogonal", "table"};
static const vtb__builtin init_call = {.name = "init"};

const vtb__builtin *vtb__builtin_find(const char *name) {
  for (int t = 0; t < N_TABLES; t++)
    for (const vtb__builtin *b = tables[t]; b->name; b++)
      if (strcmp(b->name, name) == 0) return b;
  if (strcmp(name, tapped.name) == 0) return &tapped;
  if (strcmp(name, prepare.name) == 0) return &prepare;
  return vtb__init_builtin(name) ? &init_call : NULL;
}

size_t vtb__builtin_names(const char ***out) {
  VTB_VEC(const char *) v = {0};
  for (int t = 0; t < N_TABLES; t++)
    for (const vtb__builtin *b = tables[t]; b->name; b++)
      if (vtb__builtin_find(b->name) == b) vtb_vec_push(&v, b->name);
  vtb_vec_push(&v, tapped.name);
  vtb_vec_push(&v, prepare.name);
  for (size_t i = 0; i < sizeof init_names / sizeof *init_names; i++)
    vtb_vec_push(&v, init_names[i]);
  for (size_t i = 0; vtb__words[i]; i++) vtb_vec_push(&v, vtb__words[i]);
  *out = v.at;
  return v.n;
}

/* path(by = key): the key, which is evaluated once its grid is known; NULL for other calls. */
static const vtb_expr *key_of_path(const vtb__builtin *b, const vtb_expr *x) {
  const vtb_arg_list *l = &x->u.call.args;
  bool by =
      b->fn == vtb__b_path && l->n == 1 && !x->u.call.self && vtb_streq(l->at[0]->name.text, "by");
  return by ? l->at[0]->value : NULL;
}

/* Names that had two spellings, of builtins and of functions of std: the old one warns for a
 * version. */
static const char *const old_names[][2] = {
    {"select", "where"}, {"unfold", "patches"}, {"layernorm", "layer_norm"}};

const char *vtb__name_now(const char *name) {
  for (size_t i = 0; i < sizeof old_names / sizeof *old_names; i++)
    if (strcmp(name, old_names[i][0]) == 0) return old_names[i][1];
  return NULL;
}

void vtb__warn_of_old(vtb__eval *e, vtb_name old) {
  if (vtb__name_now(old.text))
    vtb_diag_warning(e->diags, VTB_DIAG_OLD_NAME, old.span,
                     "'%s' is now called '%s'; the next version does not know the old name",
                     old.text, vtb__name_now(old.text));
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* tapped("block3", e): taps inside e are named block3.<tap>. */
static vtb__val call_tapped(vtb__eval *e, const vtb_expr *x) {
  const vtb_arg_list *l = &x->u.call.args;
  if (l->n != 2 || x->u.call.self)
    return vtb__report(e, l->n < 2 ? VTB_DIAG_MISSING_ARGUMENT : VTB_DIAG_TOO_MANY_ARGUMENTS,
                       x->span, "builtin 'tapped' takes a name and an expression");
  const char *name = vtb__text(e, l->at[0]->value), *saved = e->tap_prefix;
  if (name) e->tap_prefix = vtb__tap_name(e, name);
  vtb__val v = vtb__expr(e, l->at[1]->value);
  e->tap_prefix = saved;
  return v;
}

static bool is_in_place(vtb__eval *e, const vtb__builtin *b, const char *name, const vtb_expr *x) {
  bool in_step = e->frame && e->frame->step;
  if (b->where == VTB__outside && in_step)
    vtb__report(e, VTB_DIAG_NOT_A_STEP_OPERATION, x->span,
                "'%s' works on the sequence, and a step sees one token", name);
  else if (b->where == VTB__inside && !in_step)
    vtb__report(e, VTB_DIAG_MISPLACED, x->span, "%s belongs to the body of a recurrence", name);
  else
    return true;
  return false;
}

bool vtb__builtin_is_value(const vtb__builtin *b) {
  return b->fn && b->where != VTB__inside && b->fn != vtb__b_path;
}

/* A named argument of jvp is one of the function's, and may be a word that its type knows. */
static vtb__val argument(vtb__eval *e, const vtb__builtin *b, const vtb_arg *arg, vtb__val first) {
  const vtb_decl *d = b->fn == vtb__b_jvp && first.kind == VTB__FUNCTION ? first.u.fn.decl : NULL;
  d = vtb__behind_presets(d);
  const vtb_param *p = d && arg->name.text ? vtb__param_find(d, arg->name.text) : NULL;
  if (!p || p->type->kind != VTB_TYPE_CHOICE) return vtb__expr(e, arg->value);
  return vtb__expr_as(e, arg->value, p->type, vtb_arena_printf(&e->arena, "'%s'", p->name.text));
}

vtb__val vtb__builtin_call(vtb__eval *e, const vtb__builtin *b, const char *name,
                           const vtb_expr *x) {
  if (b == &tapped) return call_tapped(e, x);
  if (b == &prepare) return vtb__prepare(e, x);
  if (key_of_path(b, x)) return vtb__path_by_call(e, key_of_path(b, x));
  if (!is_in_place(e, b, name, x)) return VTB__ERR;
  vtb__warn_of_old(e, x->u.call.callee);
  const vtb_arg_list *list = &x->u.call.args;
  size_t n = list->n + (x->u.call.self ? 1 : 0), at = 0;
  vtb__val *values = VTB_NEW_ARRAY(&e->arena, vtb__val, n);
  bool inexact = e->inexact;
  e->inexact = vtb__rounds(b) || b->fn == vtb__b_ceil || strcmp(b->name, "int") == 0;
  if (x->u.call.self) values[at++] = vtb__expr(e, x->u.call.self);
  for (size_t i = 0; i < list->n; i++, at++)
    values[at] = argument(e, b, list->at[i], at ? values[0] : VTB__NIL);
  e->inexact = inexact;
  for (size_t i = 0; i < n; i++) {
    if (values[i].kind == VTB__ERROR) return VTB__ERR;
    if (values[i].kind == VTB__TUPLE && b->fn != vtb__b_len)
      return vtb__report(e, VTB_DIAG_VALUE_COUNT,
                         i < n - list->n ? x->span : list->at[i - (n - list->n)]->span,
                         "%s where one argument is needed", vtb__describe(e, values[i]));
  }
  vtb__args a = {.name = name, .span = x->span};
  if (b == &init_call) return vtb__init_value(e, a.name, values, n, x->span);
  if (!vtb__args_bind(e, b, list, values, n, &a)) return VTB__ERR;
  int first_id = e->frame ? e->frame->func->n_values : 0;
  vtb__val v = b->fn(e, &a);
  vtb__name_built(e, v, a.name, first_id);
  return v;
}
