/* Builtin functions: how their arguments are taken, and those on compile-time values. Tensors:
 * builtin_tensor.c, builtin_tokens.c, builtin_step.c. */
#include "frontend/lang/value.h"
#include "ir/ops.h"

#include <math.h>

static vtb__val surplus(vtb__eval *e, const vtb__args *a) {
  for (size_t i = 0; i < a->n; i++) {
    if (a->used[i]) continue;
    const char *name = vtb__arg_name(a, i);
    if (name)
      return vtb__report(e, VTB_DIAG_UNKNOWN_ARGUMENT, vtb__arg_span(a, i),
                         "builtin '%s' has no parameter '%s'", a->name, name);
    return vtb__report(e, VTB_DIAG_TOO_MANY_ARGUMENTS, vtb__arg_span(a, i),
                       "builtin '%s' takes fewer arguments", a->name);
  }
  return VTB__NIL;
}

/* ---- compile-time builtins ------------------------------------------------------------------- */

static vtb__val b_len(vtb__eval *e, vtb__args *a) {
  vtb__val v = vtb__take(e, a, "list");
  if (v.kind == VTB__ERROR) return v;
  if (v.kind != VTB__LIST && v.kind != VTB__TUPLE)
    return vtb__report(e, VTB_DIAG_TYPE_MISMATCH, a->span, "len takes a list, not %s",
                       vtb__describe(e, v));
  return vtb__int((int64_t)v.u.list.n);
}

/* size(w), size(h, w), size(t, h, w) */
static vtb__val b_size(vtb__eval *e, vtb__args *a) {
  static const char *const names[] = {"t", "h", "w"};
  int64_t side[VTB_GRID_AXES];
  if (a->n < 1 || a->n > VTB_GRID_AXES)
    return vtb__report(e, a->n ? VTB_DIAG_TOO_MANY_ARGUMENTS : VTB_DIAG_MISSING_ARGUMENT, a->span,
                       "size takes the extents of one to three axes: size(w), size(h, w), "
                       "size(t, h, w)");
  bool inside = true;
  for (size_t k = 0; k < a->n; k++) {
    if (!vtb__take_int(e, a, names[VTB_GRID_AXES - a->n + k], &side[k])) return VTB__ERR;
    inside &= side[k] >= 0 && side[k] < VTB__MAX_SIZE;
  }
  vtb_grid g = vtb_grid_of((int)a->n, side);
  if (!inside)
    return vtb__report(e, VTB_DIAG_BAD_SIZE, a->span, "size %s is out of range",
                       vtb__grid_text(e, &g));
  return (vtb__val){.kind = VTB__SIZE, .u.size = g};
}

static bool is_permutation(const int64_t *list, int64_t n) {
  bool *seen = vtb_xcalloc((size_t)n + 1, sizeof *seen), ok = true;
  for (int64_t i = 0; i < n && ok; i++) {
    ok = list[i] >= 0 && list[i] < n && !seen[list[i]];
    if (ok) seen[list[i]] = true;
  }
  vtb_free(seen);
  return ok;
}

static vtb__val b_path(vtb__eval *e, vtb__args *a) {
  vtb__val v = vtb__take(e, a, "list");
  vtb__path nest = {0};
  if (v.kind == VTB__ERROR || v.kind == VTB__PATH) return v;
  if (v.kind == VTB__STRING && *v.u.str.s && vtb_path_nest(&nest.order, v.u.str.s))
    return vtb__path_val(e, nest);
  if (v.kind != VTB__LIST || !v.u.list.n)
    return vtb__report(e, VTB_DIAG_BAD_PATH, a->span,
                       "path takes a list of token indices, by = a key of t, h and w, or the axes "
                       "from outside in, as in \"hwt\", not %s",
                       vtb__describe(e, v));
  int64_t n = (int64_t)v.u.list.n, *list = VTB_NEW_ARRAY(&e->arena, int64_t, n);
  for (int64_t i = 0; i < n; i++) {
    if (v.u.list.at[i].kind != VTB__INT)
      return vtb__report(e, VTB_DIAG_BAD_PATH, a->span, "path takes a list of ints");
    list[i] = v.u.list.at[i].u.i;
  }
  if (!is_permutation(list, n))
    return vtb__report(e, VTB_DIAG_BAD_PERMUTATION, a->span,
                       "the list does not name each of its %lld tokens once", (long long)n);
  return vtb__path_val(e, (vtb__path){{.order = VTB_PATH_LIST, .list = list, .n = n}, NULL, NULL});
}

static vtb__val b_chunkwise(vtb__eval *e, vtb__args *a) {
  int64_t n;
  if (!vtb__take_int(e, a, "chunk", &n)) return VTB__ERR;
  if (n < 1 || n > (1 << 24)) {
    vtb__report(e, VTB_DIAG_BAD_CHUNK, a->span, "a chunk of %lld tokens", (long long)n);
    vtb__chunk_help(e);
    return VTB__ERR;
  }
  return (vtb__val){.kind = VTB__MODE, .u.mode = {"chunkwise", n}};
}

static vtb__val b_ceil(vtb__eval *e, vtb__args *a) {
  vtb__val v = vtb__take(e, a, "x");
  if (v.kind == VTB__INT || v.kind == VTB__ERROR) return v;
  if (v.kind == VTB__TENSOR) {
    v = vtb__elementwise(e, VTB_OP_neg, &v, 1, a->span);
    if (v.kind == VTB__TENSOR) v = vtb__elementwise(e, VTB_OP_floor, &v, 1, a->span);
    return v.kind == VTB__TENSOR ? vtb__elementwise(e, VTB_OP_neg, &v, 1, a->span) : v;
  }
  if (v.kind != VTB__FLOAT)
    return vtb__report(e, VTB_DIAG_TYPE_MISMATCH, a->span, "%s takes a tensor or a number, not %s",
                       a->name, vtb__describe(e, v));
  double d = ceil(v.u.f);
  if (!(fabs(d) < 9e18))
    return vtb__report(e, VTB_DIAG_INTEGER_OVERFLOW, a->span,
                       "the result does not fit into 64 bits");
  return vtb__int((int64_t)d);
}

/* clamp(x, low, high): of numbers a number; either bound may be left out. */
static vtb__val bounded(vtb__eval *e, vtb_op op, vtb__val x, vtb__val bound, vtb_span span) {
  if (bound.kind == VTB__NONE || x.kind == VTB__ERROR) return x;
  if (!vtb__is_number(x) || !vtb__is_number(bound)) return vtb__elementwise2(e, op, x, bound, span);
  bool above = vtb__val_number(x) > vtb__val_number(bound);
  return above == (op == VTB_OP_max) ? x : bound;
}

static vtb__val b_clamp(vtb__eval *e, vtb__args *a) {
  vtb__val x = vtb__take(e, a, "x"), low = VTB__NIL, high = VTB__NIL;
  bool some = vtb__take_optional(e, a, "low", &low);
  some |= vtb__take_optional(e, a, "high", &high);
  if (a->failed) return VTB__ERR;
  if (!some)
    return vtb__report(e, VTB_DIAG_MISSING_ARGUMENT, a->span, "clamp needs 'low' or 'high'");
  return bounded(e, VTB_OP_min, bounded(e, VTB_OP_max, x, low, a->span), high, a->span);
}

static vtb__val b_float(vtb__eval *e, vtb__args *a) {
  vtb__val v = vtb__take(e, a, "x");
  if (v.kind == VTB__ERROR) return v;
  if (!vtb__is_number(v))
    return vtb__report(e, VTB_DIAG_TYPE_MISMATCH, a->span, "float takes a number, not %s",
                       vtb__describe(e, v));
  return vtb__float(vtb__val_number(v));
}

static const vtb__builtin value_builtins[] = {
    {"len", b_len},   {"size", b_size},   {"path", b_path},   {"chunkwise", b_chunkwise},
    {"ceil", b_ceil}, {"float", b_float}, {"clamp", b_clamp}, {NULL, NULL}};

static const vtb__builtin *const tables[] = {
    value_builtins,     vtb__scalar_builtins,      vtb__tensor_builtins,    vtb__token_builtins,
    vtb__step_builtins, vtb__sequence_builtins,    vtb__attention_builtins, vtb__buffer_builtins,
    vtb__axis_builtins, vtb__convolution_builtins, vtb__grid_builtins,      vtb__order_builtins,
    vtb__extra_builtins};
enum { N_TABLES = sizeof tables / sizeof *tables };
static const vtb__builtin tapped = {"tapped", NULL}, prepare = {"prepare", NULL};
static const char *const init_names[] = {
    "zeros",      "ones",           "constant",       "normal",        "trunc_normal",
    "uniform",    "uniform_fan_in", "xavier_uniform", "linspace",      "s4d_real",
    "dt_bias",    "xavier_normal",  "normal_fan_out", "normal_fan_in", "rotary_cos",
    "rotary_sin", "sincos_columns", "sincos_rows",    "identity",      "dirac",
    "orthogonal", "table"};
static const vtb__builtin init_call = {"init", NULL};

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
    for (const vtb__builtin *b = tables[t]; b->name; b++) vtb_vec_push(&v, b->name);
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
  bool by = b->fn == b_path && l->n == 1 && !x->u.call.self && vtb_streq(l->at[0]->name.text, "by");
  return by ? l->at[0]->value : NULL;
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

static bool of_sequence(const vtb__builtin *b) {
  static const vtb__builtin *const all[] = {vtb__token_builtins, vtb__convolution_builtins,
                                            vtb__grid_builtins, vtb__extra_builtins};
  for (size_t t = 0; t < sizeof all / sizeof *all; t++)
    for (const vtb__builtin *k = all[t]; k->name; k++)
      if (k == b) return true;
  return false;
}

vtb__val vtb__builtin_call(vtb__eval *e, const vtb__builtin *b, const vtb_expr *x) {
  if (b == &tapped) return call_tapped(e, x);
  if (b == &prepare) return vtb__prepare(e, x);
  if (key_of_path(b, x)) return vtb__path_by_call(e, key_of_path(b, x));
  if (of_sequence(b) && e->frame && e->frame->step)
    return vtb__report(e, VTB_DIAG_NOT_A_STEP_OPERATION, x->span,
                       "'%s' works on the sequence, and a step sees one token",
                       x->u.call.callee.text);
  const vtb_arg_list *list = &x->u.call.args;
  size_t n = list->n + (x->u.call.self ? 1 : 0), at = 0;
  vtb__args a = {.name = x->u.call.callee.text, .list = list, .n = n, .span = x->span};
  a.at = VTB_NEW_ARRAY(&e->arena, vtb__val, n);
  a.used = VTB_NEW_ARRAY(&e->arena, bool, n);
  bool inexact = e->inexact;
  e->inexact = vtb__rounds(b) || b->fn == b_ceil;
  if (x->u.call.self) a.at[at++] = vtb__expr(e, x->u.call.self);
  for (size_t i = 0; i < list->n; i++) a.at[at++] = vtb__expr(e, list->at[i]->value);
  e->inexact = inexact;
  for (size_t i = 0; i < n; i++) {
    if (a.at[i].kind == VTB__ERROR) return VTB__ERR;
    if (a.at[i].kind == VTB__TUPLE && b->fn != b_len)
      return vtb__report(e, VTB_DIAG_VALUE_COUNT, vtb__arg_span(&a, i),
                         "%s where one argument is needed", vtb__describe(e, a.at[i]));
  }
  if (b == &init_call) return vtb__init_value(e, a.name, a.at, n, x->span);
  int first_id = e->frame ? e->frame->func->n_values : 0;
  vtb__val v = b->fn(e, &a);
  vtb__name_built(e, v, a.name, first_id);
  if (a.failed) return VTB__ERR;
  if (v.kind == VTB__ERROR) return v;
  vtb__val extra = surplus(e, &a);
  return extra.kind == VTB__ERROR ? extra : v;
}
