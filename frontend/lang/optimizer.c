/* Optimisers: the equations of one update of one tensor, as a function of kind rule (ir/update.h).
 *
 * A body knows the value w, its gradient g, its states, the number t of the update (from 1), the
 * learning rate lr, and its hyperparameters: numbers among them are arguments of the rule, so that
 * a run may set them; the others are known when compiling. `decay` is the weight decay of the
 * tensor at hand. A name means the old value before it is assigned, the new one after.
 *
 * An optimizer whose equations go by the shape of the tensor, its name, or sums over all tensors is
 * evaluated for each tensor, as passes/train/shaped.c wants it: of a matrix the vectors have its
 * axes, its states are those that the equations assign, and total(x) is the part of the tensor and
 * an argument.
 *
 *   optimizer sgd(decay: float = 0) { rule @sgd(%w: f32[B], %g: f32[B], %t: f32[], %lr: f32[],
 *   %decay: f32[])
 *     w = w - lr * (g + decay * w)      =>       ...
 *   }                                          -> (f32[B] "w")
 */
#include "frontend/lang/ast_walk.h"
#include "frontend/lang/value.h"
#include "ir/ops.h"
#include "ir/rewrite.h"
#include "ir/update.h"

static const char *const vectors[] = {"w", "g"}, *const scalars[] = {"t", "lr"};

/* Names that rows of the scalars have (passes/train/update.c), or the body's own variables. */
static bool is_reserved(const char *name) {
  static const char *const taken[] = {"w", "g", "t", "lr", "average", "clip", "scale"};
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
    if (strcmp(name, taken[i]) == 0) return true;
  return false;
}

static bool is_runtime(const vtb_type_expr *t) {
  return t->kind == VTB_TYPE_NAME && strcmp(t->name.text, "float") == 0;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static const char *const of_shape[] = {"matrix", "rows", "columns", "name", "total"};

typedef struct finder {
  vtb__visitor visitor;
  const vtb_decl *decl;
  bool found;
} finder;

static void look_for(finder *f, const char *name) {
  for (size_t i = 0; i < sizeof of_shape / sizeof *of_shape; i++)
    f->found |= strcmp(name, of_shape[i]) == 0 && !vtb__param_find(f->decl, name);
}

static bool look_at(vtb__visitor *v, const vtb_expr *x) {
  if (x->kind == VTB_EXPR_NAME) look_for((finder *)v, x->u.name);
  if (x->kind == VTB_EXPR_CALL) look_for((finder *)v, x->u.call.callee.text);
  return true;
}

static bool look_at_state(vtb__visitor *v, const vtb_stmt *s) {
  for (size_t i = 0; s->kind == VTB_STMT_STATE && i < s->u.state.n; i++)
    ((finder *)v)->found |= s->u.state.at[i]->type != NULL;
  return true;
}

static bool is_shaped(const vtb_decl *d) {
  finder f = {{.expr = look_at, .stmt = look_at_state}, d, false};
  vtb__walk_stmts(&f.visitor, &d->body);
  return f.found;
}

static bool look_for_w(vtb__visitor *v, const vtb_stmt *s) {
  bool assigns = s->kind == VTB_STMT_ASSIGN || s->kind == VTB_STMT_OP_ASSIGN;
  for (size_t i = 0; assigns && i < s->u.assign.n_targets; i++)
    ((finder *)v)->found |= strcmp(s->u.assign.targets[i].text, vectors[0]) == 0;
  return true;
}

static bool assigns_w(const vtb_decl *d) {
  finder f = {{.stmt = look_for_w}, d, false};
  vtb__walk_stmts(&f.visitor, &d->body);
  return f.found;
}

bool vtb_optimizer_is_shaped(const vtb_unit *u, const char *name) {
  const vtb_file *root = u->files.at[0];
  const vtb_decl *found = name ? vtb__unit_lookup(u, name) : NULL;
  for (size_t i = 0; !name && i < root->decls.n; i++)
    if (root->decls.at[i]->kind == VTB_DECL_OPTIMIZER) found = root->decls.at[i];
  return found && found->kind == VTB_DECL_OPTIMIZER && is_shaped(found);
}

/* The tensor at hand, or a vector of any length. */
static vtb_type type_of_w(const vtb__eval *e) {
  const vtb_updated_tensor *t = e->options->tensor;
  vtb_type type = {.dtype = VTB_F32, .rank = 1, .dim = {{t ? t->columns : VTB_DYN, NULL}}};
  if (!t || !t->rows) return type;
  type.rank = 2;
  type.dim[0] = (vtb_dim){t->rows, "rows"};
  type.dim[1] = (vtb_dim){t->columns, "columns"};
  return type;
}

static void give_shape(vtb__eval *e, const vtb_decl *d) {
  const vtb_updated_tensor *t = e->options->tensor;
  bool matrix = t && t->rows;
  const struct {
    const char *name;
    vtb__val value;
  } names[] = {{"matrix", vtb__bool(matrix)},
               {"name", vtb__val_string(t ? t->name : "w")},
               {"rows", vtb__int(matrix ? t->rows : 1)},
               {"columns", vtb__int(t ? t->columns : 1)}}; /* a vector is one row */
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!vtb__param_find(d, names[i].name))
      vtb__env_bind(e, names[i].name, names[i].value, "what the tensor is", d->name.span);
}

/* ---- arguments ------------------------------------------------------------------------------- */

static void argument(vtb__eval *e, const char *name, vtb_role role, vtb_type t, const char *init,
                     vtb_span span) {
  vtb_func *f = e->frame->func;
  vtb_value *v = vtb_func_add_arg(f, name, t);
  f->arg_info[v->index] = (vtb_arg_info){.role = role,
                                         .official = vtb_intern(e->module, name),
                                         .init = init ? vtb_intern(e->module, init) : NULL,
                                         .span = span};
  vtb__env_bind(e, name, vtb__tensor(v, NULL), NULL, span);
}

static bool fresh(vtb__eval *e, vtb_name name) {
  if (!is_reserved(name.text) && !vtb__env_find_here(e->env, name.text)) return true;
  vtb__report(e, VTB_DIAG_OPTIMIZER_NAME, name.span, "'%s' means something else in an optimizer",
              name.text);
  return false;
}

/* [] is a number of all tensors; false after a message. */
static bool state_type(vtb__eval *e, const vtb_state_decl *d, vtb_type *out) {
  *out = vtb_type_scalar();
  if (!d->type->dims.n) return true;
  if (d->type->dims.n > VTB_MAX_RANK) return false;
  for (size_t i = 0; i < d->type->dims.n; i++) {
    const vtb_expr *x = d->type->dims.at[i];
    vtb__val v = vtb__expr(e, x);
    if (v.kind == VTB__ERROR) return false;
    if (v.kind != VTB__INT || v.u.i < 1 || v.u.i >= VTB__MAX_SIZE) {
      vtb__report(e, VTB_DIAG_BAD_SIZE, x->span, "an axis of a state has a size, not %s",
                  vtb__describe(e, v));
      return false;
    }
    out->dim[out->rank++] = (vtb_dim){v.u.i, NULL};
  }
  return true;
}

static bool add_states(vtb__eval *e, const vtb_decl *d) {
  bool ok = true;
  for (size_t i = 0; i < d->body.n; i++) {
    const vtb_stmt *s = d->body.at[i];
    for (size_t k = 0; s->kind == VTB_STMT_STATE && k < s->u.state.n; k++) {
      const vtb_state_decl *state = s->u.state.at[k];
      vtb_type t = type_of_w(e);
      if (!fresh(e, state->name))
        ok = false;
      else if (!state->type || state_type(e, state, &t))
        argument(e, state->name.text, VTB_ROLE_STATE, t, NULL, state->name.span);
    }
  }
  return ok;
}

static bool add_hyperparameters(vtb__eval *e, const vtb_decl *d, const vtb__val *values) {
  bool ok = true;
  for (size_t i = 0; i < d->params.n; i++) {
    const vtb_param *p = d->params.at[i];
    if (!fresh(e, p->name)) {
      ok = false;
    } else if (is_runtime(p->type)) {
      vtb_strbuf text = {0};
      vtb_strbuf_double(&text, vtb__val_number(values[i]));
      argument(e, p->name.text, VTB_ROLE_INPUT, vtb_type_scalar(), text.at, p->span);
      vtb_strbuf_free(&text);
    } else {
      vtb__env_bind(e, p->name.text, values[i], "a parameter", p->name.span);
    }
  }
  return ok;
}

/* Argument `at` and its new value; false after a message. A tensor whose equations leave w alone
 * stays as it is; a state that they neither read nor assign is none of its. */
static bool collect_argument(vtb__eval *e, const vtb_decl *d, int at, bool shaped) {
  const vtb_func *f = e->frame->func;
  const vtb_arg_info *info = &f->arg_info[at];
  vtb_value *old = f->args[at];
  vtb__val v = vtb__env_find_here(e->env, info->official)->value;
  if (v.kind == VTB__ERROR) return false;
  bool stays = at == 0 && shaped && assigns_w(d);
  if (v.kind == VTB__TENSOR && v.u.t.v == old && !stays) {
    if (shaped && at > 0 && !vtb_is_read(old)) return true;
    vtb__report(e, VTB_DIAG_MISSING_UPDATE, info->span, "'%s' of optimizer '%s' is never assigned",
                info->official, d->name.text);
    return false;
  }
  vtb_value *x = vtb__as_tensor(e, v, info->span);
  vtb_type joint;
  if (x && !vtb_type_equal(&x->type, &old->type) &&
      (!vtb_type_broadcast(&x->type, &old->type, &joint) || !vtb_type_equal(&joint, &old->type))) {
    vtb__report(e, VTB_DIAG_STATE_SHAPE, info->span, "'%s' becomes %s, and it is %s",
                info->official, vtb__type_string(e, &x->type), vtb__type_string(e, &old->type));
    return false;
  }
  if (x && !vtb_type_equal(&x->type, &old->type)) {
    vtb_builder *b = vtb__at(e, info->span);
    x = b ? vtb_b_broadcast(b, x, &old->type) : NULL;
  }
  vtb_vec_push(&e->frame->outputs, ((vtb__output){info->official, x, info->span, NULL}));
  return x != NULL;
}

/* The rule of a tensor of any shape. */
static bool make_rule(vtb__eval *e, const vtb_decl *d, const vtb__val *values) {
  vtb_func *f = e->frame->func;
  if (!add_states(e, d)) return false;
  int n_vectors = f->n_args;
  for (int i = 0; i < 2; i++)
    argument(e, scalars[i], VTB_ROLE_INPUT, vtb_type_scalar(), NULL, d->name.span);
  if (!add_hyperparameters(e, d, values)) return false;
  vtb__body_value(e, &d->body);
  if (e->diags->n_errors > e->errors_before || e->stopped) return false;
  for (int i = 0; i < n_vectors; i++)
    if (i != 1 && !collect_argument(e, d, i, false)) return false;
  return true;
}

/* Numbers of all tensors are made of such alone: of totals, hyperparameters and each other. */
static bool check_shared(vtb__eval *e, int first, int end) {
  const vtb_func *f = e->frame->func;
  bool *own = VTB_NEW_ARRAY(&e->arena, bool, f->n_values + 1), ok = true;
  for (int i = 0; i < f->n_args; i++) own[f->args[i]->id] = f->args[i]->type.rank > 0;
  for (const vtb_inst *i = f->first; i; i = i->next)
    for (int o = 0; o < i->n_operands; o++)
      for (int r = 0; r < i->n_results; r++) own[i->results[r]->id] |= own[i->operands[o]->id];
  for (size_t k = 0; k < e->frame->outputs.n; k++) {
    const vtb__output *x = &e->frame->outputs.at[k];
    for (int i = first; i < end; i++) {
      if (f->args[i]->type.rank || strcmp(f->arg_info[i].official, x->name) != 0) continue;
      if (!own[x->value->id]) continue;
      vtb__report(e, VTB_DIAG_STATE_SHAPE, x->span,
                  "'%s' is one number of all tensors, and what it becomes is of one tensor",
                  x->name);
      vtb__help(e, "total(x) sums over all tensors");
      ok = false;
    }
  }
  return ok;
}

/* The equations of the tensor at hand. */
static bool make_equations(vtb__eval *e, const vtb_decl *d, const vtb__val *values) {
  vtb_func *f = e->frame->func;
  for (int i = 0; i < 2; i++)
    argument(e, scalars[i], VTB_ROLE_INPUT, vtb_type_scalar(), NULL, d->name.span);
  if (!add_hyperparameters(e, d, values)) return false;
  give_shape(e, d);
  int first = f->n_args;
  if (!add_states(e, d) || e->diags->n_errors > e->errors_before) return false;
  int end = f->n_args;
  vtb__body_value(e, &d->body);
  if (e->diags->n_errors > e->errors_before || e->stopped) return false;
  if (!collect_argument(e, d, 0, true)) return false;
  for (int i = first; i < end; i++)
    if (!collect_argument(e, d, i, true)) return false;
  return check_shared(e, first, end);
}

void vtb__optimizer_entry(vtb__eval *e, const vtb_decl *d, const vtb__val *values) {
  vtb__env env = {0};
  vtb_func *f = e->frame->func;
  e->env = vtb_arena_memdup(&e->arena, &env, sizeof env);
  e->decl = d;
  argument(e, vectors[0], VTB_ROLE_PARAM, type_of_w(e), NULL, d->name.span);
  argument(e, vectors[1], VTB_ROLE_GRAD, type_of_w(e), NULL, d->name.span);
  bool shaped = is_shaped(d);
  if (!(shaped ? make_equations : make_rule)(e, d, values)) return;
  if (!vtb__check_chain(e, f, "optimizer", d->name.text)) return;
  const vtb_inst *bad = shaped ? NULL : vtb_rule_obstacle(f);
  if (bad)
    vtb__report(e, VTB_DIAG_OPTIMIZER_OPERATION, bad->span,
                "an optimizer cannot use '%s': its equations are of numbers, elements and sums",
                vtb_op_get(bad->op)->name);
}
