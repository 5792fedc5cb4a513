/* Expressions. Every function returns VTB__ERROR after a message, and stays silent about operands
 * that are errors. */
#include "frontend/lang/entry.h"
#include "frontend/lang/habits.h"
#include "frontend/lang/symbols.h"
#include "frontend/lang/value.h"
#include "ir/recurrence.h"
#include "runtime/base/names.h"

/* ---- names ----------------------------------------------------------------------------------- */

static vtb__val const_value(vtb__eval *e, const vtb_decl *d) {
  char key[40];
  snprintf(key, sizeof key, "%p", (const void *)d);
  vtb__val *known = vtb_map_get(&e->consts, key);
  if (known) {
    if (known->kind == VTB__NONE)
      return vtb__report(e, VTB_DIAG_DEFINITION_CYCLE, d->name.span,
                         "'%s' is defined in terms of itself", d->name.text);
    return *known;
  }
  vtb__val *v = VTB_NEW(&e->arena, vtb__val);
  *v = VTB__NIL;
  vtb_map_set(&e->consts, key, v);
  vtb__env env = {0}, *saved_env = e->env;
  const vtb_file *saved_file = e->file;
  e->env = &env;
  e->file = d->file;
  *v = d->type ? vtb__expr_as(e, d->value, d->type, d->name.text) : vtb__expr(e, d->value);
  e->env = saved_env;
  e->file = saved_file;
  return *v;
}

static vtb__val unknown_name(vtb__eval *e, const char *name, vtb_span span) {
  const vtb__step *step = e->frame ? e->frame->step : NULL;
  for (int i = 0; step && i < step->n_states; i++)
    if (strcmp(step->states[i], name) == 0)
      return vtb__report(e, VTB_DIAG_STATE_NOT_DECLARED, span,
                         "state '%s' is used before it is declared", name);
  return vtb__unknown(e, "name", name, span);
}

static vtb__val eval_name(vtb__eval *e, const char *name, vtb_span span) {
  vtb__val v;
  if (vtb__env_get(e, name, span, &v)) return v;
  if (strcmp(name, "suffix") == 0 && e->suffix) {
    v = vtb__val_string(e->suffix);
    v.u.str.suffixed = true;
    if (e->suffix_empty) {
      vtb_diag_warning(e->diags, VTB_DIAG_EMPTY_SUFFIX, span,
                       "the `along each` around it names no suffixes: {suffix} is empty, and all "
                       "directions share this");
      vtb_diag_help(e->diags, "along each [...] suffix [\"\", \"_b\"] as d { ... } names them");
    }
    return v;
  }
  const vtb_decl *d = vtb__file_lookup(e->file, name);
  if (d && d->kind == VTB_DECL_CONST) return vtb__const(e, d);
  if (d && !vtb__is_called(d) && vtb__builtin_name(e, name, &v)) return v;
  if (d && (d->kind == VTB_DECL_OPTIMIZER || d->kind == VTB_DECL_SCHEDULE)) {
    vtb__report(e, VTB_DIAG_NOT_A_VALUE, span, "'%s' is %s, not a value", name,
                vtb__decl_kind_an(d->kind));
    if (!e->stopped) vtb_diag_note(e->diags, d->name.span, "declared here");
    return VTB__ERR;
  }
  if (d) return (vtb__val){.kind = VTB__FUNCTION, .u.fn = {.decl = d, .at = span}};
  if (vtb__builtin_name(e, name, &v)) return v;
  const vtb__builtin *b = vtb__builtin_find(name);
  if (!b) return unknown_name(e, name, span);
  if (!vtb__builtin_is_value(b))
    return vtb__report(e, VTB_DIAG_NOT_A_VALUE, span,
                       "'%s' is a builtin function, not a value; call it", name);
  return (vtb__val){.kind = VTB__FUNCTION, .u.fn = {.builtin = b, .at = span}};
}

/* ---- strings --------------------------------------------------------------------------------- */

static bool print_piece(vtb__eval *e, const vtb_expr *x, vtb_strbuf *out, bool *suffixed) {
  vtb__val v = vtb__expr(e, x);
  switch (v.kind) {
  case VTB__ERROR:
    return false;
  case VTB__STRING:
    *suffixed |= v.u.str.suffixed;
    vtb_strbuf_puts(out, v.u.str.s);
    return true;
  case VTB__INT:
  case VTB__BOOL:
  case VTB__SIZE:
    vtb__val_print(v, out);
    return true;
  default:
    vtb__report(e, VTB_DIAG_BAD_INTERPOLATED_VALUE, x->span, "%s cannot be written into a string",
                vtb__describe(e, v));
    if (v.kind == VTB__TENSOR && e->frame && e->frame->loop)
      vtb__help(e,
                "params of a loop are the same at every step; repeat n as i { ... } has some for "
                "each round");
    return false;
  }
}

static const char *eval_text(vtb__eval *e, const vtb_expr *x) {
  e->suffix_read = false;
  if (x->kind == VTB_EXPR_STRING) return x->u.str;
  if (x->kind != VTB_EXPR_INTERP) {
    vtb__val v = vtb__expr(e, x);
    e->suffix_read = v.kind == VTB__STRING && v.u.str.suffixed;
    if (v.kind == VTB__STRING) return v.u.str.s;
    if (v.kind != VTB__ERROR)
      vtb__report(e, VTB_DIAG_TYPE_MISMATCH, x->span, "a string is needed here, not %s",
                  vtb__describe(e, v));
    return NULL;
  }
  vtb_strbuf s = {0};
  bool ok = true, suffixed = false;
  for (size_t i = 0; i < x->u.list.n && ok && s.n <= VTB__MAX_TEXT; i++)
    ok = print_piece(e, x->u.list.at[i], &s, &suffixed);
  e->suffix_read = suffixed;
  if (ok && s.n > VTB__MAX_TEXT) {
    vtb__report(e, VTB_DIAG_TOO_LARGE, x->span, "string is longer than %d bytes", VTB__MAX_TEXT);
    ok = false;
  }
  const char *text = ok ? vtb_arena_strndup(&e->arena, s.at ? s.at : "", s.n) : NULL;
  vtb_strbuf_free(&s);
  return text;
}

/* ---- lists, indices, members ----------------------------------------------------------------- */

/* Elements of one kind; arguments and their tangents, and what is left out, stand side by side. */
static bool go_together(vtb__val a, vtb__val b) {
  bool x = a.kind == VTB__TENSOR || a.kind == VTB__NONE || vtb__is_number(a);
  bool y = b.kind == VTB__TENSOR || b.kind == VTB__NONE || vtb__is_number(b);
  return a.kind == b.kind || (x && y);
}

static vtb__val eval_list(vtb__eval *e, const vtb_expr *x) {
  size_t n = x->u.list.n;
  vtb__val *at = VTB_NEW_ARRAY(&e->arena, vtb__val, n);
  bool failed = false;
  for (size_t i = 0; i < n; i++) {
    at[i] = vtb__expr(e, x->u.list.at[i]);
    failed |= at[i].kind == VTB__ERROR;
    if (at[i].kind == VTB__TUPLE)
      at[i] = vtb__report(e, VTB_DIAG_VALUE_COUNT, x->u.list.at[i]->span,
                          "%s where one element is needed", vtb__describe(e, at[i])),
      failed = true;
    if (failed || i == 0 || go_together(at[i], at[0])) continue;
    vtb__report(e, VTB_DIAG_MIXED_LIST, x->u.list.at[i]->span, "%s in a list that begins with %s",
                vtb__describe(e, at[i]), vtb__describe(e, at[0]));
    failed = true;
  }
  return failed ? VTB__ERR : (vtb__val){.kind = VTB__LIST, .u.list = {at, n}};
}

const char *const vtb_members[] = {"dim",  "tokens", "t",     "h",     "w",     "grid",  "extra",
                                   "rank", "cells",  "hflip", "vflip", "tflip", "snake", NULL};

/* A mirror of a path, or the path as a snake; false if `member` is neither. */
static bool path_member(vtb__eval *e, const vtb__path *p, const char *member, vtb__val *out) {
  vtb__path q = *p;
  if (strcmp(member, "hflip") == 0)
    q.order.hflip = !q.order.hflip;
  else if (strcmp(member, "vflip") == 0)
    q.order.vflip = !q.order.vflip;
  else if (strcmp(member, "tflip") == 0)
    q.order.tflip = !q.order.tflip;
  else if (strcmp(member, "snake") == 0 && q.order.order == VTB_PATH_NEST)
    q.order.snake = true;
  else
    return false;
  *out = vtb__path_val(e, q);
  return true;
}

/* .t .h .w, an extent; 0 if the name is another. */
static int64_t grid_member(const vtb_grid *g, const char *name) {
  if (strcmp(name, "w") == 0) return g->w;
  if (strcmp(name, "h") == 0) return g->h;
  return strcmp(name, "t") == 0 ? g->t : 0;
}

/* The product of a size's extents; an int given for a size is a square. */
static vtb__val cells_of(vtb__eval *e, const vtb_grid *g, vtb_span span) {
  double n = (g->rank > 2 ? (double)g->t : 1) * (g->rank == 1 ? 1 : (double)g->h) * (double)g->w;
  if (n < 0 || n >= (double)VTB__MAX_SIZE)
    return vtb__report(e, VTB_DIAG_BAD_SIZE, span, "size %s is out of range", vtb__grid_text(e, g));
  return vtb__int((int64_t)n);
}

static vtb__val tensor_member(vtb__eval *e, vtb__val v, vtb_name m) {
  const vtb_type *t = &v.u.t.v->type;
  const vtb__layout *l = v.u.t.layout;
  if (strcmp(m.text, "rank") == 0) return vtb__int(t->rank);
  if (strcmp(m.text, "dim") == 0) {
    if (!t->rank) return vtb__report(e, VTB_DIAG_WRONG_RANK, m.span, "a scalar has no last axis");
    int axis = l->kind == VTB__IMAGE ? 1 : t->rank - 1;
    if (vtb_is_batch(t->dim[axis].size)) return vtb__batch_word(e, t->dim[axis].size / VTB_DYN);
    return vtb__int(t->dim[axis].size);
  }
  bool token_member = strcmp(m.text, "tokens") == 0 || strcmp(m.text, "extra") == 0;
  if (token_member && l->kind == VTB__TOKENS)
    return vtb__int(m.text[0] == 't' ? vtb__layout_tokens(l) : vtb__layout_extra(l));
  bool of_grid = strcmp(m.text, "grid") == 0 || grid_member(&(vtb_grid){3, 1, 1, 1}, m.text);
  if (of_grid && l->kind != VTB__PLAIN) {
    if (m.text[0] == 'g') return (vtb__val){.kind = VTB__SIZE, .u.size = l->grid};
    return vtb__int(grid_member(&l->grid, m.text));
  }
  if (token_member || of_grid)
    return vtb__report(e, VTB_DIAG_NEEDS_TOKENS, m.span, "%s has no .%s, because it is not tokens",
                       vtb__describe(e, v), m.text);
  const char *habit = vtb__habit(VTB__HABIT_MEMBER, m.text);
  vtb__report(e, VTB_DIAG_UNKNOWN_MEMBER, m.span,
              "tensors have .dim .tokens .t .h .w .grid .extra .rank, and no .%s", m.text);
  if (habit) vtb__help(e, "%s", habit);
  return VTB__ERR;
}

static vtb__val eval_member(vtb__eval *e, const vtb_expr *x) {
  vtb__val v = vtb__expr(e, x->u.member.base);
  vtb_name m = x->u.member.member;
  if (v.kind == VTB__SIZE && grid_member(&(vtb_grid){3, 1, 1, 1}, m.text))
    return vtb__int(grid_member(&v.u.size, m.text));
  if (v.kind == VTB__SIZE && strcmp(m.text, "cells") == 0) return cells_of(e, &v.u.size, m.span);
  vtb__val path;
  if (v.kind == VTB__PATH && path_member(e, v.u.path, m.text, &path)) return path;
  if (v.kind == VTB__TENSOR) return tensor_member(e, v, m);
  if (v.kind == VTB__ERROR) return v;
  const char *has = v.kind == VTB__SIZE   ? "sizes have .t .h .w and .cells"
                    : v.kind == VTB__PATH ? "paths have .hflip .vflip .tflip and .snake"
                                          : "only sizes, paths and tensors have members";
  return vtb__report(e, VTB_DIAG_UNKNOWN_MEMBER, m.span, "%s has no .%s; %s", vtb__describe(e, v),
                     m.text, has);
}

static bool condition(vtb__eval *e, const vtb_expr *x, const char *of_tensors, bool *out);
static const char choice[] = "where(c, x, y) takes one or the other for each element";

/* Bare choice names are words where a choice is expected, unless a variable has that name. */
static vtb__val eval_as(vtb__eval *e, const vtb_expr *x, const vtb_type_expr *t) {
  bool mode =
      t->kind == VTB_TYPE_NAME && strcmp(t->name.text, "mode") == 0 && x->kind == VTB_EXPR_NAME;
  vtb__val word;
  if (mode && !vtb__env_has(e, x->u.name) && !vtb__file_lookup(e->file, x->u.name) &&
      !vtb__builtin_name(e, x->u.name, &word)) {
    vtb_strbuf modes = {0};
    vtb_strbuf_names(&modes, vtb_mode_names, VTB_N_MODES, ", ", " and ");
    vtb__report(e, VTB_DIAG_BAD_MODE, x->span, "'%s' is not a mode; modes are %s(n)", x->u.name,
                modes.at);
    vtb_strbuf_free(&modes);
    vtb__suggest_help(e, x->u.name, vtb_mode_names, VTB_N_MODES);
    return VTB__ERR;
  }
  if (t->kind != VTB_TYPE_CHOICE) return vtb__expr(e, x);
  if (x->kind == VTB_EXPR_CONDITIONAL) {
    bool yes;
    if (!condition(e, x->u.cond.test, choice, &yes)) return VTB__ERR;
    return eval_as(e, yes ? x->u.cond.yes : x->u.cond.no, t);
  }
  if (x->kind != VTB_EXPR_NAME || vtb__env_has(e, x->u.name)) return vtb__expr(e, x);
  vtb_decl *d = vtb__file_lookup(e->file, x->u.name);
  if (!vtb__choice_find(t, x->u.name) && d && d->kind == VTB_DECL_CONST) return vtb__expr(e, x);
  return vtb__chosen(e, x->u.name, t, x->span);
}

static vtb__val eval_expr_as(vtb__eval *e, const vtb_expr *x, const vtb_type_expr *t,
                             const char *what) {
  return vtb__coerce(e, eval_as(e, x, t), t, x->span, what, false);
}

/* ---- operators ------------------------------------------------------------------------------- */

static bool condition(vtb__eval *e, const vtb_expr *x, const char *of_tensors, bool *out) {
  vtb__val v = vtb__expr(e, x);
  if (v.kind == VTB__BOOL) {
    *out = v.u.b;
    return true;
  }
  if (v.kind != VTB__ERROR)
    vtb__report(e, v.kind == VTB__TENSOR ? VTB_DIAG_NOT_COMPILE_TIME : VTB_DIAG_BAD_CONDITION,
                x->span,
                v.kind == VTB__TENSOR ? "the condition is %s, which is not known when compiling"
                                      : "the condition is %s, not true or false",
                vtb__describe(e, v));
  if (v.kind == VTB__TENSOR) vtb__help(e, "%s", of_tensors);
  return false;
}

static vtb__val eval_logic(vtb__eval *e, const vtb_expr *x) {
  bool l, r, want = x->u.binary.op == VTB_BIN_OR;
  const char *of_tensors = want ? "of tensors of 1 and 0 it is max(a, b)"
                                : "of tensors of 1 and 0 it is a * b: (x > 0) * (x < 1)";
  if (!condition(e, x->u.binary.left, of_tensors, &l)) return VTB__ERR;
  if (l == want) return vtb__bool(l);
  return condition(e, x->u.binary.right, of_tensors, &r) ? vtb__bool(r) : VTB__ERR;
}

static bool bare(vtb__eval *e, const vtb_expr *x) {
  return x->kind == VTB_EXPR_NAME && !vtb__env_has(e, x->u.name);
}

/* a == word, where a is a choice, or a string that nobody has listed the words of. */
static vtb__val other_side(vtb__eval *e, vtb__val known, const vtb_expr *x) {
  if (known.kind == VTB__STRING && known.u.str.choice) {
    vtb__val v = eval_as(e, x, known.u.str.choice);
    if (v.kind == VTB__NONE || v.kind == VTB__STRING)
      return vtb__coerce(e, v, known.u.str.choice, x->span, "this", false);
    return v;
  }
  const vtb_decl *d = bare(e, x) ? vtb__file_lookup(e->file, x->u.name) : NULL;
  if (known.kind == VTB__STRING && bare(e, x) && (!d || d->kind != VTB_DECL_CONST))
    return vtb__val_string(x->u.name);
  return vtb__expr(e, x);
}

static vtb__val eval_binary(vtb__eval *e, const vtb_expr *x) {
  vtb_binary_op op = x->u.binary.op;
  if (op == VTB_BIN_AND || op == VTB_BIN_OR) return eval_logic(e, x);
  const vtb_expr *l = x->u.binary.left, *r = x->u.binary.right;
  vtb__val a, b;
  if ((op == VTB_BIN_EQ || op == VTB_BIN_NE) && bare(e, l) && !bare(e, r)) {
    b = vtb__expr(e, r);
    a = other_side(e, b, l);
  } else {
    a = vtb__expr(e, l);
    b = op == VTB_BIN_EQ || op == VTB_BIN_NE ? other_side(e, a, r) : vtb__expr(e, r);
  }
  if (a.kind == VTB__ERROR || b.kind == VTB__ERROR) return VTB__ERR;
  bool of_length = r->kind == VTB_EXPR_CALL && strcmp(r->u.call.callee.text, "len") == 0;
  if (of_length && (op == VTB_BIN_MOD || op == VTB_BIN_DIV) && b.kind == VTB__INT && b.u.i == 0)
    return vtb__report(e, VTB_DIAG_EMPTY_LIST, r->span, "the list is empty");
  return vtb__binary(e, op, a, b, x->span);
}

static vtb__val eval_size(vtb__eval *e, const vtb_expr *x) {
  const vtb_grid *g = &x->u.size;
  if (g->t < 1 || g->h < 1 || g->w < 1 || g->t >= VTB__MAX_SIZE || g->h >= VTB__MAX_SIZE ||
      g->w >= VTB__MAX_SIZE)
    return vtb__report(e, VTB_DIAG_BAD_SIZE, x->span, "size %s is out of range",
                       vtb__grid_text(e, g));
  return (vtb__val){.kind = VTB__SIZE, .u.size = *g};
}

/* if and scope on the right of '=': the statement's value, and a return inside ends here. */
static vtb__val eval_stmt_value(vtb__eval *e, const vtb_expr *x) {
  vtb_stmt *one[1] = {x->u.stmt};
  vtb_stmt_list list = {one, 1, x->span};
  vtb__val v = vtb__body_value(e, &list);
  if (v.kind == VTB__NONE)
    return vtb__report(e, VTB_DIAG_NO_VALUE, x->span, "this has no value to use here");
  return v;
}

static vtb__val eval_block(vtb__eval *e, const vtb_expr *x) {
  vtb__val v = vtb__body_value(e, &x->u.block);
  if (v.kind == VTB__NONE)
    return vtb__report(e, VTB_DIAG_NO_VALUE, x->span, "the block has no value to use here");
  return v;
}

static vtb__val eval(vtb__eval *e, const vtb_expr *x) {
  switch (x->kind) {
  case VTB_EXPR_ERROR:
    return VTB__ERR;
  case VTB_EXPR_INT:
    return vtb__int(x->u.i);
  case VTB_EXPR_FLOAT:
    return vtb__float(x->u.f);
  case VTB_EXPR_BOOL:
    return vtb__bool(x->u.b);
  case VTB_EXPR_SIZE:
    return eval_size(e, x);
  case VTB_EXPR_STRING:
  case VTB_EXPR_INTERP: {
    const char *s = vtb__text(e, x);
    if (!s) return VTB__ERR;
    vtb__val v = vtb__val_string(s);
    v.u.str.suffixed = e->suffix_read;
    return v;
  }
  case VTB_EXPR_NAME:
    return eval_name(e, x->u.name, x->span);
  case VTB_EXPR_LIST:
    return eval_list(e, x);
  case VTB_EXPR_INDEX:
    return vtb__index(e, x);
  case VTB_EXPR_MEMBER:
    return eval_member(e, x);
  case VTB_EXPR_CALL:
    return vtb__call(e, x);
  case VTB_EXPR_UNARY: {
    vtb__val v = vtb__expr(e, x->u.unary.operand);
    return v.kind == VTB__ERROR ? v : vtb__unary(e, x->u.unary.op, v, x->span);
  }
  case VTB_EXPR_BINARY:
    return eval_binary(e, x);
  case VTB_EXPR_CONDITIONAL: {
    bool yes;
    if (!condition(e, x->u.cond.test, choice, &yes)) return VTB__ERR;
    return vtb__expr(e, yes ? x->u.cond.yes : x->u.cond.no);
  }
  case VTB_EXPR_PARAM:
    return vtb__eval_param(e, x);
  case VTB_EXPR_ALONG:
    return vtb__along(e, x);
  case VTB_EXPR_BLOCK:
    return eval_block(e, x);
  case VTB_EXPR_REPEAT:
    return vtb__collect(e, x);
  case VTB_EXPR_IF:
  case VTB_EXPR_SCOPE:
    return eval_stmt_value(e, x);
  case VTB_EXPR_RANGE:
  case VTB_EXPR_REST:
    break; /* the index around them reads them */
  }
  return VTB__ERR;
}

static vtb__val eval_expr(vtb__eval *e, const vtb_expr *x) {
  if (!vtb__tick(e, x->span)) return VTB__ERR;
  if (e->depth >= VTB__MAX_DEPTH) {
    vtb__report(e, VTB_DIAG_TOO_LARGE, x->span, "evaluation is nested more than %d deep",
                VTB__MAX_DEPTH);
    e->stopped = true;
    return VTB__ERR;
  }
  e->depth++;
  vtb__val v = eval(e, x);
  e->depth--;
  return v;
}

/* ---- the evaluator --------------------------------------------------------------------------- */

static const vtb__evaluator evaluation = {.expr = eval_expr,
                                          .expr_as = eval_expr_as,
                                          .text = eval_text,
                                          .body_value = vtb__run_body_value,
                                          .constant = const_value,
                                          .unknown = vtb__unknown_name,
                                          .model = vtb__call_model,
                                          .sorted = vtb__path_by_list};

void vtb__eval_begin(vtb__eval *e, vtb_unit *u, const char *name, const vtb_instantiate_options *o,
                     vtb_diags *diags) {
  static const vtb_instantiate_options none = {0};
  *e = (vtb__eval){.evaluator = &evaluation,
                   .unit = u,
                   .diags = diags,
                   .options = o ? o : &none,
                   .prefix = "",
                   .tap_prefix = "",
                   .batch = VTB_DYN,
                   .file = u->files.at[0],
                   .errors_before = diags->n_errors};
  vtb_arena_init(&e->arena);
  e->env = vtb__entry_env(e);
  e->module = vtb_module_new(name ? name : "model");
}

/* Errors without a message would be ours. */
void vtb__eval_end(vtb__eval *e) {
  vtb_arena_free(&e->arena);
  vtb_map_free(&e->blocks);
  vtb_map_free(&e->steps);
  vtb_map_free(&e->consts);
  vtb_map_free(&e->orders);
}
