/* Statements. Control flow is evaluated here and leaves no trace in the IR. */
#include "frontend/lang/value.h"

static void misplaced(vtb__eval *e, vtb_span span, const char *what, const char *where) {
  vtb__report(e, VTB_DIAG_MISPLACED, span, "%s belongs to %s", what, where);
}

/* ---- assignment ------------------------------------------------------------------------------ */

static int state_index(const vtb__step *s, const char *name) {
  for (int i = 0; i < s->n_states; i++)
    if (strcmp(s->states[i], name) == 0) return i;
  return -1;
}

/* The new value of a state has its declared shape. */
static vtb__val state_update(vtb__eval *e, int index, vtb__val v, vtb_name target, vtb_span span) {
  vtb__step *s = e->frame->step;
  const vtb_value *old = s->state[index];
  if (s->updated[index])
    return vtb__report(e, VTB_DIAG_STATE_TWICE, span, "state '%s' is assigned twice", target.text);
  s->updated[index] = true;
  vtb_value *x = vtb__as_tensor(e, v, span);
  if (!x) return VTB__ERR;
  vtb_type joint;
  if (!vtb_type_equal(&x->type, &old->type) &&
      (!vtb_type_broadcast(&x->type, &old->type, &joint) || !vtb_type_equal(&joint, &old->type)))
    return vtb__report(e, VTB_DIAG_STATE_SHAPE, span,
                       "the update of state '%s' is %s, and the state is %s", target.text,
                       vtb__type_string(e, &x->type), vtb__type_string(e, &old->type));
  if (!vtb_type_equal(&x->type, &old->type)) {
    vtb_builder *b = vtb__at(e, span);
    x = b ? vtb_b_broadcast(b, x, &old->type) : NULL;
  }
  return vtb__tensor(x, NULL);
}

static void declare_states(vtb__eval *e, const vtb_stmt *s) {
  for (size_t i = 0; i < s->u.state.n; i++) {
    vtb_name name = s->u.state.at[i]->name;
    int k = state_index(e->frame->step, name.text);
    if (k >= 0)
      vtb__env_bind(e, name.text, vtb__tensor(e->frame->step->state[k], NULL), NULL, name.span);
  }
}

static void assign(vtb__eval *e, vtb_name target, vtb__val v, vtb_span span) {
  vtb__binding *b = vtb__env_find_here(e->env, target.text);
  if (b && b->fixed) {
    vtb__report(e, VTB_DIAG_IMMUTABLE, target.span, "'%s' is %s and keeps its value", target.text,
                b->fixed);
    if (!e->stopped) vtb_diag_note(e->diags, b->span, "bound here");
    vtb__help(e, "give the new value another name");
    return;
  }
  if (v.kind == VTB__TUPLE) {
    v = vtb__report(e, VTB_DIAG_VALUE_COUNT, span, "one name on the left of %s",
                    vtb__describe(e, v));
    vtb__help(e, "each needs a name: %s, _rest = ..., those that are not wanted with a _ before",
              target.text);
  }
  int state = e->frame && e->frame->step ? state_index(e->frame->step, target.text) : -1;
  if (state >= 0 && !b && v.kind != VTB__ERROR)
    v = vtb__report(e, VTB_DIAG_STATE_NOT_DECLARED, target.span,
                    "state '%s' is used before it is declared", target.text);
  if (state >= 0) v = state_update(e, state, v, target, span);
  vtb__name_assigned(e, v, target.text);
  vtb__env_bind(e, target.text, v, NULL, target.span);
}

static void assign_many(vtb__eval *e, const vtb_stmt *s) {
  vtb__val v = vtb__expr(e, s->u.assign.value);
  size_t n = s->u.assign.n_targets;
  if (n == 1) {
    assign(e, s->u.assign.targets[0], v, s->u.assign.value->span);
    return;
  }
  bool fits = (v.kind == VTB__TUPLE || v.kind == VTB__LIST) && v.u.list.n == n;
  if (!fits && v.kind != VTB__ERROR)
    vtb__report(e, VTB_DIAG_VALUE_COUNT, s->u.assign.value->span, "%zu names on the left of %s", n,
                v.kind == VTB__TUPLE ? vtb__describe(e, v)
                : v.kind == VTB__LIST
                    ? vtb_arena_printf(&e->arena, "a list of %zu elements", v.u.list.n)
                    : "one value");
  if (!fits && v.kind == VTB__TENSOR)
    vtb__help(e, "split(x, %zu) are so many parts of the last axis", n);
  for (size_t i = 0; i < n; i++)
    assign(e, s->u.assign.targets[i], fits ? v.u.list.at[i] : VTB__ERR, s->u.assign.value->span);
}

static void op_assign(vtb__eval *e, const vtb_stmt *s) {
  vtb_name target = s->u.assign.targets[0];
  vtb_expr old = {.kind = VTB_EXPR_NAME, .span = target.span, .u.name = target.text};
  vtb__val a = vtb__expr(e, &old), b = vtb__expr(e, s->u.assign.value), v = VTB__ERR;
  if (a.kind != VTB__ERROR && b.kind != VTB__ERROR)
    v = vtb__binary(e, s->u.assign.op, a, b, s->span);
  assign(e, target, v, s->span);
}

static void let(vtb__eval *e, const vtb_stmt *s) {
  vtb_name name = s->u.let.name;
  vtb__binding *b = vtb__env_find_here(e->env, name.text);
  vtb__val v = vtb__expr(e, s->u.let.value);
  if (b && b->span.begin != name.span.begin) {
    if (b->fixed && strcmp(b->fixed, "a let") == 0)
      vtb__report(e, VTB_DIAG_REPEATED_LET, name.span, "'%s' is already a let", name.text);
    else
      vtb__report(e, VTB_DIAG_IMMUTABLE, name.span,
                  "'%s' already has a value, which a let cannot replace", name.text);
    if (!e->stopped) vtb_diag_note(e->diags, b->span, "bound here");
    return;
  }
  if (v.kind == VTB__TENSOR)
    v = vtb__report(e, VTB_DIAG_NOT_COMPILE_TIME, s->u.let.value->span,
                    "a let is known when compiling, and this is %s; write '%s = ...'",
                    vtb__describe(e, v), name.text);
  vtb__env_bind(e, name.text, v, "a let", name.span);
}

/* ---- inputs and outputs ---------------------------------------------------------------------- */

static bool input_dims(vtb__eval *e, const vtb_type_expr *t, vtb__val *dims) {
  for (size_t i = 0; i < t->dims.n; i++) {
    dims[i] = vtb__expr(e, t->dims.at[i]);
    if (dims[i].kind == VTB__ERROR) return false;
    bool ok = (dims[i].kind == VTB__SIZE && dims[i].u.size.t > 0 && dims[i].u.size.h > 0 &&
               dims[i].u.size.w > 0) ||
              (dims[i].kind == VTB__INT && dims[i].u.i > 0 && dims[i].u.i < VTB__MAX_SIZE);
    if (ok) continue;
    if (vtb__is_number(dims[i]))
      vtb__report(e, VTB_DIAG_BAD_VALUE, t->dims.at[i]->span,
                  "an axis needs a size from 1 to 2^31 - 1, not %s", vtb__describe(e, dims[i]));
    else
      vtb__report(e, VTB_DIAG_TYPE_MISMATCH, t->dims.at[i]->span, "an axis needs a size, not %s",
                  vtb__describe(e, dims[i]));
    return false;
  }
  return true;
}

/* The grid of image[3, 224, 224], image[3, 224x224], of a size hyperparameter in image[3]. */
static bool image_grid(vtb__eval *e, const vtb_type_expr *t, const vtb__val *d, int rank,
                       vtb_grid *g) {
  vtb__val v;
  int64_t side[VTB_GRID_AXES] = {0};
  size_t n = t->dims.n;
  if (!n || d[0].kind != VTB__INT) return false;
  if (n == 1 && vtb__env_get(e, t->name.text, t->span, &v) && v.kind == VTB__SIZE)
    *g = v.u.size;
  else if (n == 1 && rank == 2)
    *g = vtb_grid_image(224, 224);
  else if (n == 2 && d[1].kind == VTB__SIZE)
    *g = d[1].u.size;
  else if (n == (size_t)rank + 1) {
    for (int k = 0; k < rank; k++)
      if (d[k + 1].kind != VTB__INT) return false;
    for (int k = 0; k < rank; k++) side[k] = d[k + 1].u.i;
    *g = vtb_grid_of(rank, side);
  } else {
    return false;
  }
  if (!g->rank) *g = (vtb_grid){rank, rank > 2 ? g->w : 1, rank > 1 ? g->w : 1, g->w};
  return g->rank == rank && g->t > 0 && g->h > 0 && g->w > 0;
}

/* [B, C, grid...] of image[..] (two axes), series[..] (one) and video[..] (three). */
static bool image_type(vtb__eval *e, const vtb_type_expr *t, const vtb__val *d, int rank,
                       vtb_type *out, vtb__layout *l) {
  static const char *const names[] = {"T", "H", "W"};
  *l = (vtb__layout){.kind = VTB__IMAGE};
  if (!image_grid(e, t, d, rank, &l->grid)) return false;
  int64_t side[VTB_GRID_AXES];
  vtb_grid_sides(&l->grid, side);
  *out = (vtb_type){.dtype = VTB_F32, .rank = 2 + rank, .dim = {{e->batch, "B"}, {d[0].u.i, "C"}}};
  for (int k = 0; k < rank; k++)
    out->dim[2 + k] = (vtb_dim){side[k], names[VTB_GRID_AXES - rank + k]};
  return true;
}

/* tokens[784, C], tokens[14x14, C], tokens[8x14x14, C] */
static bool tokens_type(vtb__eval *e, const vtb_type_expr *t, const vtb__val *d, vtb_type *out,
                        vtb__layout *l) {
  if (t->dims.n != 2 || d[1].kind != VTB__INT) return false;
  vtb_grid g = d[0].kind == VTB__SIZE ? d[0].u.size : vtb_grid_series(d[0].u.i);
  if (!g.rank) g.rank = 2, g.t = 1; /* an int given for a size is a square */
  if ((double)g.t * (double)g.h * (double)g.w >= (double)VTB__MAX_SIZE) return false;
  *l = (vtb__layout){.kind = VTB__TOKENS, .grid = g};
  *out =
      (vtb_type){.rank = 3, .dim = {{e->batch, "B"}, {vtb_grid_cells(&g), "N"}, {d[1].u.i, "C"}}};
  return true;
}

static bool input_type(vtb__eval *e, const vtb_type_expr *t, const vtb__val *d, vtb_type *out,
                       vtb__layout *l) {
  if (t->kind != VTB_TYPE_NAME) return false;
  *l = vtb__plain;
  int rank = vtb__image_rank(t->name.text);
  if (rank) return image_type(e, t, d, rank, out, l);
  if (strcmp(t->name.text, "tokens") == 0) return tokens_type(e, t, d, out, l);
  bool labels = strcmp(t->name.text, "labels") == 0;
  if (!labels && strcmp(t->name.text, "tensor") != 0) return false;
  if (t->dims.n >= VTB_MAX_RANK) return false;
  *out = (vtb_type){
      .dtype = labels ? VTB_I32 : VTB_F32, .rank = (int)t->dims.n + 1, .dim = {{e->batch, "B"}}};
  for (size_t i = 0; i < t->dims.n; i++) {
    if (d[i].kind != VTB__INT) return false;
    out->dim[i + 1] =
        (vtb_dim){d[i].u.i, t->dims.at[i]->kind == VTB_EXPR_NAME ? t->dims.at[i]->u.name : NULL};
  }
  return true;
}

static vtb__val new_input(vtb__eval *e, vtb_name name, const vtb_type *type, vtb__layout l,
                          const vtb_type_expr *view) {
  vtb_value *arg = vtb_func_add_arg(e->frame->func, name.text, *type);
  e->frame->func->arg_info[arg->index] = (vtb_arg_info){
      .role = VTB_ROLE_INPUT, .official = vtb_intern(e->module, name.text), .span = name.span};
  vtb__val v = vtb__tensor(arg, vtb__layout_new(e, l));
  vtb__declare_input(e, name, v, view);
  return v;
}

/* view(picture): an image like any other, that the data set's pictures are made to once more. */
static const vtb_type_expr *viewed_type(vtb__eval *e, const vtb_type_expr *view) {
  static vtb_expr channels = {.kind = VTB_EXPR_INT, .u.i = 3};
  if (view->elem) return view->elem;
  vtb_type_expr *t = VTB_NEW(&e->arena, vtb_type_expr);
  *t = (vtb_type_expr){.kind = VTB_TYPE_NAME, .span = view->span, .has_dims = true};
  t->name = (vtb_name){"image", view->span};
  vtb_expr *three = VTB_NEW(&e->arena, vtb_expr), **dims = VTB_NEW(&e->arena, vtb_expr *);
  *three = channels;
  three->span = view->span;
  *dims = three;
  t->dims = (vtb_expr_list){dims, 1};
  return t;
}

static void input(vtb__eval *e, const vtb_stmt *s, vtb_name name) {
  const vtb_type_expr *t = s->u.input.type, *view = t->kind == VTB_TYPE_VIEW ? t : NULL;
  vtb__model_call *called = vtb__called_model(e);
  if (!called && (!e->frame || !e->frame->is_model)) {
    misplaced(e, s->span, "input", "models");
    return;
  }
  if (view) t = viewed_type(e, view);
  for (int i = 0; !called && i < e->frame->func->n_args; i++)
    if (e->frame->func->arg_info[i].role == VTB_ROLE_INPUT &&
        vtb_streq(e->frame->func->arg_info[i].official, name.text)) {
      vtb__report(e, VTB_DIAG_REPEATED_INPUT, name.span, "input '%s' is declared twice", name.text);
      vtb_diag_note(e->diags, e->frame->func->arg_info[i].span, "declared here first");
      return;
    }
  vtb__val v = VTB__ERR, dims[16];
  vtb_type type;
  vtb__layout l;
  if (t->dims.n <= 16 && input_dims(e, t, dims)) {
    bool known = input_type(e, t, dims, &type, &l);
    if (known && vtb__check_elements(e, &type, "an input", t->span)) {
      v = called ? vtb__model_input(e, called, name, &type, &l)
                 : new_input(e, name, &type, l, view);
    } else if (!known) {
      vtb__report(e, VTB_DIAG_BAD_INPUT_TYPE, t->span,
                  "an input is image[channels], image[channels, height, width], series[channels, "
                  "length], video[channels, 8x14x14], tokens[size, channels], tensor[sizes], "
                  "labels or view(picture)");
    }
  }
  vtb__env_bind(e, name.text, v, NULL, name.span);
}

/* Names of one type, whose mistakes are told once. */
static void inputs(vtb__eval *e, const vtb_stmt *s) {
  int errors = e->diags->n_errors;
  for (size_t i = 0; i < s->u.input.n_names; i++) {
    vtb_name name = s->u.input.names[i];
    if (e->diags->n_errors == errors)
      input(e, s, name);
    else
      vtb__env_bind(e, name.text, VTB__ERR, NULL, name.span);
  }
}

static void output(vtb__eval *e, const vtb_stmt *s) {
  const char *name = vtb__text(e, s->u.named.name);
  vtb__val v = vtb__expr(e, s->u.named.value);
  vtb__model_call *called = vtb__called_model(e);
  if (!called && (!e->frame || !e->frame->is_model)) {
    misplaced(e, s->span, "output", "models");
    return;
  }
  if (name && v.kind == VTB__ERROR && !vtb__env_has(e, name)) /* said once, not at every use */
    vtb__env_bind(e, name, v, NULL, s->u.named.name->span);
  if (!name || v.kind == VTB__ERROR) return;
  if (v.kind != VTB__TENSOR) {
    vtb__report(e, VTB_DIAG_TYPE_MISMATCH, s->u.named.value->span, "an output is a tensor, not %s",
                vtb__describe(e, v));
    return;
  }
  for (size_t i = 0; !called && i < e->frame->outputs.n; i++)
    if (strcmp(e->frame->outputs.at[i].name, name) == 0) {
      vtb__report(e, VTB_DIAG_REPEATED_OUTPUT, s->u.named.name->span,
                  "output '%s' is declared twice", name);
      vtb_diag_note(e->diags, e->frame->outputs.at[i].span, "declared here first");
      return;
    }
  vtb__output o = {name, v.u.t.v, s->u.named.name->span, NULL};
  if (called)
    vtb_vec_push(&called->outputs, v);
  else
    vtb_vec_push(&e->frame->outputs, o);
  if (!vtb__env_has(e, name)) vtb__env_bind(e, name, v, NULL, s->u.named.name->span);
}

/* ---- control --------------------------------------------------------------------------------- */

static vtb__val scoped(vtb__eval *e, const vtb_expr *name, const vtb_stmt_list *body) {
  const char *text = vtb__text(e, name), *prefix = e->prefix;
  if (text) e->prefix = vtb__official(e, text, name->span);
  vtb__val v = vtb__body(e, body);
  vtb__name_scoped(e, e->returning ? e->result : v);
  e->prefix = prefix;
  return v;
}

/* A condition that is known when compiling; false after an error. */
static bool condition(vtb__eval *e, const vtb_expr *test, bool *holds) {
  vtb__val v = vtb__expr(e, test);
  *holds = v.kind == VTB__BOOL && v.u.b;
  if (v.kind == VTB__BOOL || v.kind == VTB__ERROR) return v.kind == VTB__BOOL;
  if (v.kind == VTB__TENSOR) {
    vtb__report(e, VTB_DIAG_NOT_COMPILE_TIME, test->span,
                "the condition is %s, which is not known when compiling", vtb__describe(e, v));
    vtb__help(e,
              "where(c, x, y) takes one or the other for each element; iterate while c, most = 1 "
              "{ ... } is skipped where c is 0");
  } else {
    vtb__report(e, VTB_DIAG_BAD_CONDITION, test->span, "the condition is %s, not true or false",
                vtb__describe(e, v));
  }
  return false;
}

/* Params in the body are those of every other evaluation of a share of that name; one evaluation
 * declares each once. */
static vtb__val shared(vtb__eval *e, const vtb_stmt *s) {
  int before = e->share;
  e->share = ++e->n_shares;
  vtb__val v = s->u.scope.name ? scoped(e, s->u.scope.name, &s->u.scope.body)
                               : vtb__body(e, &s->u.scope.body);
  e->share = before;
  return v;
}

static vtb__val frozen(vtb__eval *e, const vtb_stmt *s) {
  bool before = e->frozen, holds = true;
  if (s->u.scope.name && !condition(e, s->u.scope.name, &holds)) return VTB__NIL;
  e->frozen |= holds;
  vtb__val v = vtb__body(e, &s->u.scope.body);
  e->frozen = before;
  return v;
}

static vtb__val scope(vtb__eval *e, const vtb_stmt *s) {
  switch (s->u.scope.kind) {
  case VTB_SCOPE_SHARED:
    return shared(e, s);
  case VTB_SCOPE_FROZEN:
    return frozen(e, s);
  case VTB_SCOPE_AUGMENT:
    return vtb__augment(e, s);
  case VTB_SCOPE_NAMED:
    return scoped(e, s->u.scope.name, &s->u.scope.body);
  }
  return VTB__NIL;
}

static vtb__val repeat(vtb__eval *e, const vtb_stmt *s) {
  int64_t n;
  vtb__val last = VTB__NIL;
  if (!vtb__repeat_count(e, s->u.repeat.count, &n)) return last;
  vtb_name as = s->u.repeat.as;
  const vtb__binding *outer = as.text ? vtb__env_find_here(e->env, as.text) : NULL;
  vtb__binding was = outer ? *outer : (vtb__binding){0};
  for (int64_t i = 0; i < n && !e->returning && !e->stopped; i++) {
    int before = e->diags->n_errors;
    if (as.text) vtb__env_bind(e, as.text, vtb__int(i), "the index of a repeat", as.span);
    if (s->u.repeat.scope)
      last = scoped(e, s->u.repeat.scope, &s->u.repeat.body);
    else
      last = vtb__body(e, &s->u.repeat.body);
    if (e->diags->n_errors > before) break; /* the next round would say the same */
  }
  if (as.text && n > 0) vtb__env_unbind(e, as.text, outer ? &was : NULL);
  return last;
}

static vtb__val branch(vtb__eval *e, const vtb_stmt *s) {
  bool holds;
  if (!condition(e, s->u.cond.test, &holds)) return VTB__NIL;
  return holds                ? vtb__body(e, &s->u.cond.yes)
         : s->u.cond.has_else ? vtb__body(e, &s->u.cond.no)
                              : VTB__NIL;
}

static vtb__val values(vtb__eval *e, const vtb_expr_list *list) {
  if (list->n == 1) return vtb__expr(e, list->at[0]);
  vtb__val *at = VTB_NEW_ARRAY(&e->arena, vtb__val, list->n);
  for (size_t i = 0; i < list->n; i++) {
    at[i] = vtb__expr(e, list->at[i]);
    if (at[i].kind == VTB__TUPLE)
      at[i] = vtb__report(e, VTB_DIAG_VALUE_COUNT, list->at[i]->span, "%s where one is needed",
                          vtb__describe(e, at[i]));
  }
  return (vtb__val){.kind = VTB__TUPLE, .u.list = {at, list->n}};
}

static void yield(vtb__eval *e, const vtb_stmt *s) {
  if (!e->frame || !e->frame->step) {
    misplaced(e, s->span, "yield", "recurrences");
    return;
  }
  vtb__step *step = e->frame->step;
  if (step->yields.n) {
    vtb__report(e, VTB_DIAG_YIELD_TWICE, s->span, "a recurrence has one yield");
    return;
  }
  for (size_t i = 0; i < s->u.values.n; i++) {
    vtb__val v = vtb__expr(e, s->u.values.at[i]);
    vtb_vec_push(&step->yields, v);
  }
}

static void check_stmt(vtb__eval *e, const vtb_stmt *s) {
  vtb__val v = vtb__expr(e, s->u.check.test);
  if (v.kind == VTB__ERROR || (v.kind == VTB__BOOL && v.u.b)) return;
  if (v.kind != VTB__BOOL) {
    vtb__report(e, v.kind == VTB__TENSOR ? VTB_DIAG_NOT_COMPILE_TIME : VTB_DIAG_BAD_CONDITION,
                s->u.check.test->span, "the condition is %s, not true or false",
                vtb__describe(e, v));
    return;
  }
  const char *text =
      s->u.check.message ? vtb__text(e, s->u.check.message) : "assertion does not hold";
  if (text) vtb__report(e, VTB_DIAG_ASSERT_FAILED, s->u.check.test->span, "%s", text);
}

/* ---- statements ------------------------------------------------------------------------------ */

static vtb__val statement(vtb__eval *e, const vtb_stmt *s, bool last) {
  switch (s->kind) {
  case VTB_STMT_EXPR: {
    vtb__val v = vtb__expr(e, s->u.value);
    if (!last && v.kind != VTB__NONE && v.kind != VTB__ERROR && !e->stopped)
      vtb_diag_warning(e->diags, VTB_DIAG_UNUSED_VALUE, s->span,
                       "the value of this expression is not used");
    return v;
  }
  case VTB_STMT_ASSIGN:
    assign_many(e, s);
    break;
  case VTB_STMT_OP_ASSIGN:
    op_assign(e, s);
    break;
  case VTB_STMT_LET:
    let(e, s);
    break;
  case VTB_STMT_INPUT:
    inputs(e, s);
    break;
  case VTB_STMT_OUTPUT:
    output(e, s);
    break;
  case VTB_STMT_LOSS:
  case VTB_STMT_METRIC:
    vtb__measure(e, s);
    break;
  case VTB_STMT_TAP:
    vtb__tap(e, s->u.named.name, s->u.named.value, s->span);
    break;
  case VTB_STMT_REPEAT:
    return repeat(e, s);
  case VTB_STMT_ITERATE:
    vtb__iterate(e, s);
    break;
  case VTB_STMT_IF:
    return branch(e, s);
  case VTB_STMT_SCOPE:
    return scope(e, s);
  case VTB_STMT_RETURN: {
    vtb__val v = values(e, &s->u.values);
    e->result = v;
    e->returning = true;
    break;
  }
  case VTB_STMT_YIELD:
    yield(e, s);
    break;
  case VTB_STMT_STATE:
    if (e->frame && e->frame->func->kind == VTB_FUNC_RULE) break; /* bound already */
    if (!e->frame || !e->frame->step)
      misplaced(e, s->span, "state", "the body of a recurrence or an optimizer");
    else
      declare_states(e, s);
    break;
  case VTB_STMT_ASSERT:
    check_stmt(e, s);
    break;
  }
  return VTB__NIL;
}

vtb__val vtb__body(vtb__eval *e, const vtb_stmt_list *body) {
  vtb__val last = VTB__NIL;
  for (size_t i = 0; i < body->n; i++) {
    if (!vtb__tick(e, body->at[i]->span)) return VTB__ERR;
    last = statement(e, body->at[i], i + 1 == body->n);
    if (!e->returning) continue;
    if (body->at[i]->kind == VTB_STMT_RETURN && i + 1 < body->n && !e->stopped)
      vtb_diag_warning(e->diags, VTB_DIAG_UNREACHABLE, body->at[i + 1]->span,
                       "this comes after the return and is never evaluated");
    return last;
  }
  return last;
}

vtb__val vtb__run_body_value(vtb__eval *e, const vtb_stmt_list *body) {
  vtb__val v = vtb__body(e, body);
  if (!e->returning) return v;
  e->returning = false;
  return e->result;
}
