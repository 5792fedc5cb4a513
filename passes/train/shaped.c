/* Optimisers whose equations go by the shapes of tensors, or sum over all of them, as ordinary
 * instructions before the update, which adds the changes that they make and replaces states:
 *
 *   @muon(%w: f32[R, C], %g: f32[R, C], %lr: f32[], ..., %m: f32[R, C]) -> (f32[R, C] "w", ... "m")
 *
 *   %change, %m.1 = call @muon(...)
 *   return ..., %change "d:change/w", %m.1 "d:optim/m/w"
 *
 * A matrix has the rows of its first axis; what is none is a vector. Equations are functions, one
 * for all tensors of which they read the same. A total is a sum over all tensors: equations give a
 * part of it, "total.0", and read it as the argument of that name. So they are called in stages,
 * each of which makes again what it needs: the parts that depend on no total, then, of their sums,
 * those that depend on these, and with all totals the changes. A state without axes is one of all
 * tensors, "optim/d/shared", and becomes what the equations of the first make of it, which read
 * nothing of the tensor.
 */
#include "ir/update.h"
#include "passes/train/attach.h"

#include <string.h>

/* Equations as one or more tensors have them. */
typedef struct equations {
  const vtb_func *f;
  const char *text;
  int *level;        /* by value id: totals that stand before it, one behind the other */
  int n_totals;      /* and so many parts */
  vtb_func **stages; /* by level, made when first called */
} equations;

typedef struct shaped {
  attach *a;
  const moved_list *list;
  equations **of; /* by tensor */
  VTB_VEC(equations *) all;
  vtb_value **totals; /* as far as they are known */
  int levels;
  vtb_value *factor, **rows;
  vtb_value *rates;
  moved_list *states;
} shaped;

/* ---- equations ------------------------------------------------------------------------------- */

/* The number behind "total."; -1: it is none. */
static int total_of(const char *name) {
  return name && vtb_starts_with(name, "total.") ? atoi(name + strlen("total.")) : -1;
}

static vtb_value *returned(const vtb_func *f, const char *name) {
  for (int r = 0; r < f->n_returns; r++)
    if (vtb_streq(f->return_names[r], name)) return f->returns[r];
  return NULL;
}

static vtb_value *part(const vtb_func *f, int total) {
  char name[24];
  snprintf(name, sizeof name, "total.%d", total);
  return returned(f, name);
}

/* Totals are read behind where their parts are made. */
static void find_levels(shaped *s, equations *x) {
  const vtb_func *f = x->f;
  x->level = VTB_SCRATCH(s->a->f, int, f->n_values);
  while (part(f, x->n_totals)) x->n_totals++;
  for (const vtb_inst *i = f->first; i; i = i->next)
    for (int o = 0; o < i->n_operands; o++) {
      const vtb_value *v = i->operands[o];
      int total = v->def ? -1 : total_of(f->arg_info[v->index].official);
      if (total >= 0) x->level[v->id] = x->level[part(f, total)->id] + 1;
      for (int r = 0; r < i->n_results; r++)
        if (x->level[v->id] > x->level[i->results[r]->id])
          x->level[i->results[r]->id] = x->level[v->id];
    }
  for (int k = 0; k < x->n_totals; k++)
    if (x->level[part(f, k)->id] + 1 > s->levels) s->levels = x->level[part(f, k)->id] + 1;
}

/* Rows and columns of the matrix that a tensor is; rows 0: it is none. */
static void sides(const vtb_type *t, int64_t *rows, int64_t *columns) {
  *rows = t->rank > 1 ? t->dim[0].size : 0;
  *columns = vtb_type_count(t);
  if (*rows < 2 || *columns / *rows < 2) *rows = 0;
  if (*rows) *columns /= *rows;
}

static equations *known(shaped *s, const char *text) {
  for (size_t k = 0; k < s->all.n; k++)
    if (strcmp(s->all.at[k]->text, text) == 0) return s->all.at[k];
  return NULL;
}

/* The equations of tensor i; NULL after an error. */
static equations *equations_of(shaped *s, const vtb_update_options *o, int i) {
  const moved *w = &s->list->at[i];
  const vtb_print_options plain = {0};
  int64_t rows, columns;
  vtb_strbuf text = {0};
  sides(&w->value->type, &rows, &columns);
  const vtb_func *f = o->of_tensor(o->user, w->official, rows, columns);
  if (!f) return NULL;
  vtb_func_print(f, &plain, &text);
  equations *x = known(s, text.at);
  if (!x) {
    x = VTB_SCRATCH(s->a->f, equations, 1);
    *x = (equations){.f = f, .text = vtb__text(s->a->f, "%s", text.at)};
    find_levels(s, x);
    vtb__put(s->a->f, &s->all, x);
  }
  vtb_strbuf_free(&text);
  return x;
}

static vtb_status check_totals(const shaped *s, const vtb_update_options *o, vtb_error *err) {
  const equations *first = s->of[0];
  if (first->n_totals && o->ranks > 1)
    return vtb_fail(err, VTB_E_USAGE,
                    "optimizer %s sums over all tensors, which every rank must have then: leave "
                    "out --shard-optimizer",
                    o->rule->declared);
  for (size_t i = 1; i < s->list->n; i++)
    if (s->of[i]->n_totals != first->n_totals)
      return vtb_fail(
          err, VTB_E_INPUT,
          "optimizer %s has %d totals for %s and %d for %s: total(x) is of all tensors, "
          "whatever their shapes",
          o->rule->declared, first->n_totals, s->list->at[0].official, s->of[i]->n_totals,
          s->list->at[i].official);
  return VTB_OK;
}

/* ---- stages ---------------------------------------------------------------------------------- */

static bool is_last(const shaped *s, int level) { return level == s->levels; }

/* An argument that the stage's caller gives: totals that are known, states that are kept. */
static bool is_given(const shaped *s, const equations *x, int arg, int level) {
  const vtb_arg_info *info = &x->f->arg_info[arg];
  int total = total_of(info->official);
  (void)s;
  if (total >= 0) return x->level[part(x->f, total)->id] < level;
  return info->role != VTB_ROLE_STATE || returned(x->f, info->official);
}

/* The equations as far as a level wants them, of gradients as they are and the tensor's own
 * factors. */
static vtb_func *new_stage(shaped *s, const equations *x, int level) {
  static const char *const own[] = {"factor", "rate", "decays"};
  const vtb_func *e = x->f;
  vtb_func *f = vtb_func_new(s->a->m, e->declared, VTB_FUNC_PLAIN, e->span);
  vtb_value **given = VTB_SCRATCH(f, vtb_value *, e->n_args), *lead[VTB_RULE_LEAD];
  vtb_value **out = VTB_SCRATCH(f, vtb_value *, e->n_returns);
  vtb_builder b = {.module = s->a->m, .func = f, .span = e->span};
  int n = 0;
  for (int i = 0; i < e->n_args; i++)
    if (is_given(s, x, i, level))
      given[i] = vtb__named_arg(f, e->arg_info[i].official, e->args[i]->type, VTB_ROLE_PLAIN);
  for (int i = 0; i < VTB_RULE_LEAD; i++)
    lead[i] = vtb__named_arg(f, own[i], vtb_type_scalar(), VTB_ROLE_PLAIN);
  for (int i = 0; i < e->n_args; i++) {
    const char *name = e->arg_info[i].official;
    int by = i == 1 ? 0 : vtb_streq(name, "lr") ? 1 : vtb_streq(name, "decay") ? 2 : -1;
    if (!given[i]) given[i] = vtb_b_splat(&b, 0, &e->args[i]->type);
    if (by >= 0) given[i] = vtb_b_binary(&b, VTB_OP_mul, given[i], lead[by]);
  }
  b.span = VTB_NO_SPAN; /* copies keep their own */
  vtb_value **made = vtb__inlined(&b, e, given);
  if (e->last) b.span = e->last->span;
  for (int r = 0; r < e->n_returns; r++) {
    int total = total_of(e->return_names[r]);
    bool wanted =
        total >= 0 ? x->level[e->returns[r]->id] == level && !is_last(s, level) : is_last(s, level);
    if (!wanted) continue;
    bool value = total < 0 && vtb_streq(e->return_names[r], "w");
    out[n++] = value ? vtb_b_binary(&b, VTB_OP_sub, made[r], given[0]) : made[r];
  }
  vtb_func_set_returns(f, out, NULL, n);
  vtb__dce_func(f);
  return f;
}

static vtb_value *element(vtb_builder *b, vtb_value *x, int64_t row, int64_t column) {
  vtb_type scalar = vtb_type_scalar();
  x = vtb_b_slice(b, x, 0, row, row + 1, 1);
  if (x->type.rank > 1) x = vtb_b_slice(b, x, 1, column, column + 1, 1);
  return vtb_b_reshape(b, x, &scalar);
}

/* The sum of a row's two numbers, once for all tensors. */
static vtb_value *scalar_row(shaped *s, int row) {
  vtb_builder *b = &s->a->b;
  if (!s->rows[row])
    s->rows[row] = vtb_b_binary(b, VTB_OP_add, element(b, s->a->scalars, row, 0),
                                element(b, s->a->scalars, row, 1));
  return s->rows[row];
}

/* The state of tensor i, or that of all, as an argument of the step. */
static vtb_value *state_of(shaped *s, int i, const vtb_value *arg, const char *name) {
  bool shared = !arg->type.rank;
  const char *official = vtb_arena_printf(&s->a->m->arena, "optim/%s/%s", name,
                                          shared ? "shared" : s->list->at[i].official);
  for (int k = 0; k < s->a->f->n_args; k++)
    if (vtb_streq(s->a->f->arg_info[k].official, official)) return s->a->f->args[k];
  return vtb__named_arg(s->a->f, official, arg->type, VTB_ROLE_STATE);
}

/* Hyperparameters are rows in their order. */
static vtb_value *number_of(shaped *s, const vtb_func *e, int arg) {
  const char *name = e->arg_info[arg].official;
  if (vtb_streq(name, "t")) return scalar_row(s, VTB_SCALAR_STEP);
  if (vtb_streq(name, "lr")) return scalar_row(s, VTB_SCALAR_LR);
  return scalar_row(s, VTB_N_SCALARS + arg - 4);
}

static vtb_inst *call_stage(shaped *s, int i, int level) {
  equations *x = s->of[i];
  const vtb_func *e = x->f;
  vtb_builder *b = &s->a->b;
  VTB_VEC(vtb_value *) operands = {0};
  if (!x->stages) x->stages = VTB_SCRATCH(s->a->f, vtb_func *, s->levels + 1);
  if (!x->stages[level]) x->stages[level] = new_stage(s, x, level);
  for (int k = 0; k < e->n_args; k++) {
    const vtb_arg_info *info = &e->arg_info[k];
    int total = total_of(info->official);
    if (!is_given(s, x, k, level)) continue;
    vtb_value *v = k < 2                          ? (k ? s->list->at[i].next : s->list->at[i].value)
                   : total >= 0                   ? s->totals[total]
                   : info->role == VTB_ROLE_STATE ? state_of(s, i, e->args[k], info->official)
                                                  : number_of(s, e, k);
    if (k < 2) v = vtb_b_reshape(b, v, &e->args[k]->type);
    vtb__put(s->a->f, &operands, v);
  }
  vtb__put(s->a->f, &operands, s->factor);
  vtb__put(s->a->f, &operands, element(b, s->rates, i, 0));
  vtb__put(s->a->f, &operands, element(b, s->rates, i, 1));
  return vtb_b_call(b, x->stages[level], operands.at, (int)operands.n);
}

/* The totals of a level: the parts of all tensors, in their order. */
static void add_totals(shaped *s, int level) {
  for (size_t i = 0; i < s->list->n; i++) {
    const equations *x = s->of[i];
    const vtb_inst *call = call_stage(s, (int)i, level);
    int n = 0;
    for (int r = 0; r < x->f->n_returns; r++) {
      int total = total_of(x->f->return_names[r]);
      if (total < 0 || x->level[x->f->returns[r]->id] != level) continue;
      vtb_value *more = call->results[n++];
      s->totals[total] = i ? vtb_b_binary(&s->a->b, VTB_OP_add, s->totals[total], more) : more;
    }
  }
}

static bool has_state(const shaped *s, const vtb_value *v) {
  for (size_t k = 0; k < s->states->n; k++)
    if (s->states->at[k].value == v) return true;
  return false;
}

static vtb_value *change(shaped *s, int i) {
  const equations *x = s->of[i];
  const vtb_inst *call = call_stage(s, i, s->levels);
  vtb_value *made = NULL;
  for (int r = 0, n = 0; r < x->f->n_returns; r++) {
    const char *name = x->f->return_names[r];
    if (total_of(name) >= 0) continue;
    vtb_value *v = call->results[n++];
    if (vtb_streq(name, "w")) {
      made = vtb_b_reshape(&s->a->b, v, &s->list->at[i].value->type);
      continue;
    }
    vtb_value *state = state_of(s, i, x->f->returns[r], name);
    if (!has_state(s, state))
      vtb__put(s->a->f, s->states, ((moved){state, v, s->a->f->arg_info[state->index].official}));
  }
  return made;
}

vtb_status vtb__update_shaped(attach *a, const vtb_update_options *o, const moved_list *list,
                              vtb_value *rates, vtb_value **changes, moved_list *states,
                              vtb_error *err) {
  shaped s = {.a = a, .list = list, .rates = rates, .states = states};
  s.of = VTB_SCRATCH(a->f, equations *, list->n);
  s.rows = VTB_SCRATCH(a->f, vtb_value *, o->rule->n_args + VTB_N_SCALARS);
  for (size_t i = 0; i < list->n; i++) {
    s.of[i] = equations_of(&s, o, (int)i);
    if (!s.of[i])
      return vtb_fail(err, VTB_E_INPUT, "optimizer %s has no equations for %s", o->rule->declared,
                      list->at[i].official);
  }
  VTB_TRY(check_totals(&s, o, err));
  s.totals = VTB_SCRATCH(a->f, vtb_value *, s.of[0]->n_totals);
  s.factor = element(&a->b, a->verdict, VTB_VERDICT_FACTOR, 0);
  for (int level = 0; level < s.levels; level++) add_totals(&s, level);
  for (size_t i = 0; i < list->n; i++) changes[i] = change(&s, (int)i);
  return VTB_OK;
}
