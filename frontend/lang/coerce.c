/* Values where a type is expected: choices, conversions, mismatches. */
#include "frontend/lang/value.h"

const char *vtb__choice_find(const vtb_type_expr *t, const char *word) {
  for (size_t i = 0; i < t->n_choices; i++) {
    const vtb_choice *c = t->choices[i];
    if (strcmp(c->name.text, word) == 0) return c->name.text;
    for (size_t k = 0; k < c->n_aliases; k++)
      if (strcmp(c->aliases[k].text, word) == 0) return c->name.text;
  }
  return NULL;
}

/* "last, tokens, B" */
static const char *choices_text(vtb__eval *e, const vtb_type_expr *t) {
  const char *text = "";
  for (size_t i = 0; i < t->n_choices; i++)
    text = vtb_arena_printf(&e->arena, i ? "%s, %s" : "%s%s", text, t->choices[i]->name.text);
  return text;
}

static vtb__val unknown_choice(vtb__eval *e, const char *word, const vtb_type_expr *t,
                               vtb_span span) {
  VTB_VEC(const char *) names = {0};
  for (size_t i = 0; i < t->n_choices; i++) {
    vtb_vec_push(&names, t->choices[i]->name.text);
    for (size_t k = 0; k < t->choices[i]->n_aliases; k++)
      vtb_vec_push(&names, t->choices[i]->aliases[k].text);
  }
  vtb__report(e, VTB_DIAG_UNKNOWN_CHOICE, span, "'%s' is not one of %s", word, choices_text(e, t));
  vtb__suggest_help(e, word, names.at, names.n);
  if (!e->stopped) vtb_diag_note(e->diags, t->span, "the choices");
  vtb_vec_free(&names);
  return VTB__ERR;
}

vtb__val vtb__chosen(vtb__eval *e, const char *word, const vtb_type_expr *t, vtb_span span) {
  const char *name = vtb__choice_find(t, word);
  if (!name) return unknown_choice(e, word, t, span);
  vtb__val v = vtb__val_string(name);
  v.u.str.choice = t;
  return v;
}

int vtb__image_rank(const char *type) {
  static const char *const names[] = {"series", "image", "video"};
  for (int k = 0; k < VTB_GRID_AXES; k++)
    if (strcmp(type, names[k]) == 0) return k + 1;
  return 0;
}

bool vtb__is_tensor_type(const vtb_type_expr *t) {
  return t->kind == VTB_TYPE_NAME &&
         (strcmp(t->name.text, "tensor") == 0 || strcmp(t->name.text, "tokens") == 0 ||
          vtb__image_rank(t->name.text));
}

bool vtb__is_function_type(const vtb_type_expr *t) {
  return t->kind == VTB_TYPE_NAME &&
         (strcmp(t->name.text, "block") == 0 || strcmp(t->name.text, "model") == 0);
}

static const char *type_text(vtb__eval *e, const vtb_type_expr *t) {
  switch (t->kind) {
  case VTB_TYPE_NAME:
    return t->name.text;
  case VTB_TYPE_LIST:
    return vtb_arena_printf(&e->arena, "[%s]", type_text(e, t->elem));
  case VTB_TYPE_CHOICE:
    return vtb_arena_printf(&e->arena, "one of %s", choices_text(e, t));
  case VTB_TYPE_SHAPE:
    return "a step shape";
  case VTB_TYPE_VIEW: /* of inputs alone */
    break;
  }
  return "?";
}

static vtb__val mismatch(vtb__eval *e, vtb__val v, const vtb_type_expr *t, vtb_span span,
                         const char *what) {
  int code = v.kind == VTB__TENSOR && !vtb__is_tensor_type(t) ? VTB_DIAG_NOT_COMPILE_TIME
                                                              : VTB_DIAG_TYPE_MISMATCH;
  const char *type = type_text(e, t);
  const char *article = t->kind == VTB_TYPE_LIST     ? "a list "
                        : t->kind == VTB_TYPE_CHOICE ? ""
                        : strchr("aeiou", type[0])   ? "an "
                                                     : "a ";
  vtb__report(e, code, span, "%s is %s, and %s%s is needed", what, vtb__describe(e, v),
              strcmp(type, "tokens") == 0 ? "" : article, type);
  if (v.kind == VTB__TENSOR && strcmp(type, "float") == 0)
    vtb__help(e, "a parameter of type number takes tensors of one number, too");
  return VTB__ERR;
}

/* The const that a config's string names, such as "row_tl". */
static bool named_const(vtb__eval *e, const char *name, vtb__val *out) {
  vtb_decl *d = vtb__file_lookup(e->file, name);
  if (d && d->kind == VTB_DECL_CONST) *out = vtb__const(e, d);
  return (d && d->kind == VTB_DECL_CONST) || vtb__builtin_name(e, name, out);
}

static vtb__val coerce_tensor(vtb__eval *e, vtb__val v, const vtb_type_expr *t, vtb_span span,
                              const char *what) {
  if (v.kind == VTB__NONE) return v;
  if (v.kind != VTB__TENSOR) {
    mismatch(e, v, t, span, what);
    if (v.kind == VTB__LIST) vtb__help(e, "vector([1, 2]) is a tensor of a list of numbers");
    return VTB__ERR;
  }
  vtb__layout_kind k = v.u.t.layout->kind;
  if (strcmp(t->name.text, "tokens") == 0 && k != VTB__TOKENS) {
    vtb__report(e, VTB_DIAG_NEEDS_TOKENS, span, "%s is %s, and tokens are needed", what,
                vtb__describe(e, v));
    if (k == VTB__PLAIN && v.u.t.v->type.rank == 3)
      vtb__help(e, "sequence(x) makes tokens of [B, N, C], as_tokens(x) of a grid [B, h, w, C]");
    return VTB__ERR;
  }
  int rank = vtb__image_rank(t->name.text);
  if (rank && (k != VTB__IMAGE || v.u.t.layout->grid.rank != rank))
    return vtb__report(e, VTB_DIAG_TYPE_MISMATCH, span, "%s is %s, and %s %s is needed", what,
                       vtb__describe(e, v), rank == 2 ? "an" : "a", t->name.text);
  return v;
}

static vtb__val coerce_list(vtb__eval *e, vtb__val v, const vtb_type_expr *t, vtb_span span,
                            const char *what, bool config) {
  if (v.kind != VTB__LIST && config) { /* one name where several may stand */
    vtb__val one = vtb__coerce(e, v, t->elem, span, what, config);
    return one.kind == VTB__ERROR
               ? one
               : (vtb__val){.kind = VTB__LIST,
                            .u.list = {vtb_arena_memdup(&e->arena, &one, sizeof one), 1}};
  }
  if (v.kind != VTB__LIST) return mismatch(e, v, t, span, what);
  vtb__val *at = VTB_NEW_ARRAY(&e->arena, vtb__val, v.u.list.n);
  for (size_t i = 0; i < v.u.list.n; i++) {
    at[i] = vtb__coerce(e, v.u.list.at[i], t->elem, span,
                        vtb_arena_printf(&e->arena, "element %zu of %s", i, what), config);
    if (at[i].kind == VTB__ERROR) return VTB__ERR;
  }
  v.u.list.at = at;
  return v;
}

/* A list of two or three extents, as a config has it, becomes a size. */
static bool size_of_list(vtb__val *v) {
  int64_t side[VTB_GRID_AXES];
  if (v->kind != VTB__LIST || v->u.list.n < 2 || v->u.list.n > VTB_GRID_AXES) return false;
  for (size_t k = 0; k < v->u.list.n; k++) {
    const vtb__val *x = &v->u.list.at[k];
    if (x->kind != VTB__INT || x->u.i < 1 || x->u.i >= VTB__MAX_SIZE) return false;
    side[k] = x->u.i;
  }
  *v = (vtb__val){.kind = VTB__SIZE, .u.size = vtb_grid_of((int)v->u.list.n, side)};
  return true;
}

/* A function, block or recurrence for `block`, a model or preset for `model`. */
static vtb__val coerce_function(vtb__eval *e, vtb__val v, const vtb_type_expr *t, vtb_span span,
                                const char *what, bool config) {
  bool model = strcmp(t->name.text, "model") == 0;
  if (v.kind == VTB__STRING && config) {
    vtb_expr name = {.kind = VTB_EXPR_NAME, .span = span, .u.name = v.u.str.s};
    v = vtb__expr(e, &name);
  }
  if (v.kind == VTB__ERROR || v.kind == VTB__NONE) return v;
  if (v.kind == VTB__FUNCTION && vtb__is_model(v) == model) return v;
  mismatch(e, v, t, span, what);
  vtb__help(e, model ? "a model or a preset by its name"
                     : "a function, block, recurrence or builtin by its name: silu");
  return VTB__ERR;
}

static vtb__val coerce_named(vtb__eval *e, vtb__val v, const vtb_type_expr *t, vtb_span span,
                             const char *what, bool config) {
  static const struct {
    const char *name;
    vtb__kind kind;
  } simple[] = {{"int", VTB__INT},       {"float", VTB__FLOAT}, {"bool", VTB__BOOL},
                {"string", VTB__STRING}, {"size", VTB__SIZE},   {"path", VTB__PATH},
                {"mode", VTB__MODE},     {"init", VTB__INIT}};
  for (size_t i = 0; i < sizeof simple / sizeof *simple; i++) {
    if (strcmp(t->name.text, simple[i].name) != 0) continue;
    vtb__kind want = simple[i].kind;
    if (v.kind == VTB__STRING && config &&
        (want == VTB__PATH || want == VTB__MODE || want == VTB__INIT)) {
      const char *word = v.u.str.s;
      if (!named_const(e, word, &v))
        return vtb__report(e, want == VTB__MODE ? VTB_DIAG_BAD_MODE : VTB_DIAG_BAD_PATH, span,
                           "'%s' is not a %s", word, t->name.text);
    }
    if (v.kind == want) return v;
    if (want == VTB__FLOAT && v.kind == VTB__INT) return vtb__float((double)v.u.i);
    if (want == VTB__SIZE && v.kind == VTB__INT && v.u.i >= 0 && v.u.i < VTB__MAX_SIZE)
      return (vtb__val){.kind = VTB__SIZE, .u.size = {0, v.u.i, v.u.i, v.u.i}};
    if (want == VTB__SIZE && config && size_of_list(&v)) return v;
    return mismatch(e, v, t, span, what);
  }
  if (vtb__is_function_type(t)) return coerce_function(e, v, t, span, what, config);
  if (strcmp(t->name.text, "number") == 0) { /* known when compiling, or not */
    if (v.kind == VTB__FLOAT || v.kind == VTB__TENSOR || v.kind == VTB__NONE) return v;
    return v.kind == VTB__INT ? vtb__float((double)v.u.i) : mismatch(e, v, t, span, what);
  }
  static const char *const names[] = {"int",   "float",  "number", "bool", "string",
                                      "size",  "path",   "mode",   "init", "block",
                                      "model", "tensor", "tokens", "image"};
  vtb__report(e, VTB_DIAG_UNKNOWN_NAME, t->name.span, "unknown type '%s'", t->name.text);
  if (!vtb__suggest_help(e, t->name.text, names, sizeof names / sizeof *names))
    vtb__help(e, "types are int, float, number, bool, string, size, path, mode, init, block, "
                 "model, tensor, tokens, image, [T] and 'one of a | b'");
  return VTB__ERR;
}

vtb__val vtb__coerce(vtb__eval *e, vtb__val v, const vtb_type_expr *t, vtb_span span,
                     const char *what, bool config) {
  if (v.kind == VTB__ERROR) return v;
  if (v.kind == VTB__TUPLE)
    return vtb__report(e, VTB_DIAG_VALUE_COUNT, span, "%s is %s, and one is needed", what,
                       vtb__describe(e, v));
  switch (t->kind) {
  case VTB_TYPE_CHOICE:
    if (v.kind == VTB__NONE && vtb__choice_find(t, "none")) return vtb__chosen(e, "none", t, span);
    if (v.kind == VTB__MODE && !v.u.mode.chunk) return vtb__chosen(e, v.u.mode.name, t, span);
    if (v.kind != VTB__STRING) return mismatch(e, v, t, span, what);
    return vtb__chosen(e, v.u.str.s, t, span);
  case VTB_TYPE_LIST:
    return coerce_list(e, v, t, span, what, config);
  case VTB_TYPE_NAME:
    return vtb__is_tensor_type(t) ? coerce_tensor(e, v, t, span, what)
                                  : coerce_named(e, v, t, span, what, config);
  case VTB_TYPE_SHAPE:
  case VTB_TYPE_VIEW:
    return v;
  }
  return VTB__ERR;
}
