/* Optimisers: the equations of one update of one tensor, as a function of kind rule (ir/update.h).
 *
 * A body knows the value w, its gradient g, its states, the number t of the update (from 1), the
 * learning rate lr, and its hyperparameters: numbers among them are arguments of the rule, so that
 * a run may set them; the others are known when compiling. `decay` is the weight decay of the
 * tensor at hand. A name means the old value before it is assigned, the new one after.
 *
 *   optimizer sgd(decay: float = 0) { rule @sgd(%w: f32[B], %g: f32[B], %t: f32[], %lr: f32[],
 *   %decay: f32[])
 *     w = w - lr * (g + decay * w)      =>       ...
 *   }                                          -> (f32[B] "w")
 */
#include "frontend/lang/value.h"
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

static void argument(vtb__eval *e, const char *name, vtb_role role, bool vector, const char *init,
                     vtb_span span) {
  vtb_func *f = e->frame->func;
  vtb_type t = {.dtype = VTB_F32, .rank = vector};
  if (vector) t.dim[0] = (vtb_dim){VTB_DYN, NULL};
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

static bool add_states(vtb__eval *e, const vtb_decl *d) {
  bool ok = true;
  for (size_t i = 0; i < d->body.n; i++) {
    const vtb_stmt *s = d->body.at[i];
    for (size_t k = 0; s->kind == VTB_STMT_STATE && k < s->u.state.n; k++) {
      vtb_name name = s->u.state.at[k]->name;
      if (!fresh(e, name))
        ok = false;
      else
        argument(e, name.text, VTB_ROLE_STATE, true, NULL, name.span);
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
      argument(e, p->name.text, VTB_ROLE_INPUT, false, text.at, p->span);
      vtb_strbuf_free(&text);
    } else {
      vtb__env_bind(e, p->name.text, values[i], "a parameter", p->name.span);
    }
  }
  return ok;
}

/* The role of argument `at`; false after a message. */
static bool collect_argument(vtb__eval *e, const vtb_decl *d, int at) {
  const vtb_func *f = e->frame->func;
  const vtb_arg_info *info = &f->arg_info[at];
  vtb_value *old = f->args[at];
  vtb__val v = vtb__env_find_here(e->env, info->official)->value;
  if (v.kind == VTB__ERROR) return false;
  if (v.kind == VTB__TENSOR && v.u.t.v == old) {
    vtb__report(e, VTB_DIAG_MISSING_UPDATE, info->span, "'%s' of optimizer '%s' is never assigned",
                info->official, d->name.text);
    return false;
  }
  vtb_value *x = vtb__as_tensor(e, v, info->span);
  if (x && !vtb_type_equal(&x->type, &old->type)) {
    vtb_builder *b = vtb__at(e, info->span);
    x = b ? vtb_b_broadcast(b, x, &old->type) : NULL;
  }
  vtb_vec_push(&e->frame->outputs, ((vtb__output){info->official, x, info->span, NULL}));
  return x != NULL;
}

void vtb__optimizer_entry(vtb__eval *e, const vtb_decl *d, const vtb__val *values) {
  vtb__env env = {0};
  vtb_func *f = e->frame->func;
  e->env = vtb_arena_memdup(&e->arena, &env, sizeof env);
  e->decl = d;
  argument(e, vectors[0], VTB_ROLE_PARAM, true, NULL, d->name.span);
  argument(e, vectors[1], VTB_ROLE_GRAD, true, NULL, d->name.span);
  if (!add_states(e, d)) return;
  int n_vectors = f->n_args;
  for (int i = 0; i < 2; i++) argument(e, scalars[i], VTB_ROLE_INPUT, false, NULL, d->name.span);
  if (!add_hyperparameters(e, d, values)) return;
  vtb__body_value(e, &d->body);
  if (e->diags->n_errors > e->errors_before || e->stopped) return;
  for (int i = 0; i < n_vectors; i++)
    if (i != 1 && !collect_argument(e, d, i)) return;
  if (!vtb__check_chain(e, f, "optimizer", d->name.text)) return;
  const vtb_inst *bad = vtb_rule_obstacle(f);
  if (bad)
    vtb__report(e, VTB_DIAG_OPTIMIZER_OPERATION, bad->span,
                "an optimizer cannot use '%s': its equations are of numbers, elements and sums",
                vtb_op_get(bad->op)->name);
}
