/* The end of a training step: an optimiser's rule behind the gradients (ir/update.h,
 * runtime/base/update.h).
 *
 *   %d:w = ...                                       %d:w = ...
 *   return %loss, %logits, %d:w, ...           =>    %verdict = verdict %scalars, %loss, %d:w, ...
 *                                                    %w.1, ..., %m.1, ... =
 *                                                        update @adamw(%scalars, %rates, %verdict,
 *                                                        %w, ..., %d:w, ..., %m, ...)
 *                                                    return %loss, %logits, %d:w, ..., %w.1
 *                                                    "updated.w", %m.1 "updated.optim/m/w",
 *                                                           %verdict, %correct
 *
 * The rule gets what every update has: the gradient times the verdict's factor, the tensor's own
 * rate and decay, an average of the new value if one is asked for. Where an update is made of
 * several runs, a state adds the gradients up,
 *
 *   %total:w = add %accumulated:w, (mul %d:w, %share)      and becomes   select %last, 0, %total:w
 *
 * and the loss that the verdict sees is infinite in all but the last. Of several ranks each may
 * update the tensors that are dealt to it alone. Buffers that the step updates go
 * through a rule that takes the new contents, and average them too; a buffer of one number is a
 * count, and has no average.
 */
#include "ir/objective.h"
#include "ir/update.h"
#include "passes/train/attach.h"

#include <math.h>
#include <string.h>

/* ---- rules ----------------------------------------------------------------------------------- */

static vtb_value *add_scalar(vtb_func *f, const char *name) {
  return vtb__named_arg(f, name, vtb_type_scalar(), VTB_ROLE_PLAIN);
}

/* A function of the vectors w, g and the states named, without scalars or instructions. */
static vtb_func *new_rule(attach *a, const char *name, vtb_span span, int n_vectors,
                          const char *const *names) {
  vtb_func *f = vtb_func_new(a->m, name, VTB_FUNC_RULE, span);
  vtb_type t = VTB__F32({VTB_DYN, NULL});
  for (int i = 0; i < n_vectors; i++) vtb__named_arg(f, names[i], t, VTB_ROLE_PLAIN);
  return f;
}

/* The average of the new value w, as one more state. */
static vtb_value *averaged(vtb_builder *b, vtb_value *old, vtb_value *w, vtb_value *decay) {
  vtb_value *rest = vtb_b_binary(b, VTB_OP_sub, vtb_b_constant(b, 1), decay);
  return vtb_b_binary(b, VTB_OP_add, vtb_b_binary(b, VTB_OP_mul, decay, old),
                      vtb_b_binary(b, VTB_OP_mul, rest, w));
}

static int n_vectors_of(const vtb_func *rule) {
  int n = 0;
  while (n < rule->n_args && rule->args[n]->type.rank == 1) n++;
  return n;
}

/* Behind the last of its scalars: states and totals of one that goes by shapes follow. */
static int scalars_end(const vtb_func *rule) {
  int n = n_vectors_of(rule);
  while (n < rule->n_args && rule->arg_info[n].role == VTB_ROLE_INPUT) n++;
  return n;
}

/* Arguments of the new rule that stand for the optimiser's scalars: t, lr, then its
 * hyperparameters. */
static void give_scalars(const vtb_func *rule, vtb_func *f, vtb_builder *b, int first,
                         vtb_value **rows, vtb_value **given) {
  vtb_value *rate = f->args[first + 1], *decays = f->args[first + 2];
  int row = VTB_N_SCALARS;
  for (int i = n_vectors_of(rule); i < rule->n_args; i++) {
    const char *name = rule->arg_info[i].official;
    vtb_value *v = vtb_streq(name, "t")    ? rows[VTB_SCALAR_STEP]
                   : vtb_streq(name, "lr") ? rows[VTB_SCALAR_LR]
                                           : rows[row++];
    if (vtb_streq(name, "lr")) v = vtb_b_binary(b, VTB_OP_mul, v, rate);
    if (vtb_streq(name, "decay")) v = vtb_b_binary(b, VTB_OP_mul, v, decays);
    given[i] = v;
  }
}

static const char *const fixed_rows[] = {"t", "lr", "average", "clip", "scale"};

/* The arguments of no row, then the rows; returns the number of the first. */
static int add_scalars(vtb_func *f, const vtb_func *rule, vtb_value **rows) {
  static const char *const lead[VTB_RULE_LEAD] = {"factor", "rate", "decays"};
  int first = f->n_args, n = VTB_N_SCALARS;
  for (int i = 0; i < VTB_RULE_LEAD; i++) add_scalar(f, lead[i]);
  for (int i = 0; i < VTB_N_SCALARS; i++) rows[i] = add_scalar(f, fixed_rows[i]);
  for (int i = n_vectors_of(rule) + 2; i < scalars_end(rule); i++)
    rows[n++] = add_scalar(f, rule->arg_info[i].official);
  return first;
}

/* The rule as op update wants it, from the optimiser's; NULL `equations`: the value becomes the
 * gradient. */
static vtb_func *complete_rule(attach *a, const vtb_func *rule, bool equations, bool average) {
  int vectors = equations ? n_vectors_of(rule) : 2, n = vectors + average;
  const char **names = VTB_SCRATCH(a->f, const char *, n);
  vtb_value **given = VTB_SCRATCH(a->f, vtb_value *, rule->n_args);
  vtb_value **rows = VTB_SCRATCH(a->f, vtb_value *, rule->n_args + VTB_N_SCALARS);
  vtb_value **out = VTB_SCRATCH(a->f, vtb_value *, n);
  for (int i = 0; i < vectors; i++) names[i] = rule->arg_info[i].official;
  if (average) names[n - 1] = "ema";
  vtb_func *f = new_rule(a, equations ? rule->name : "moved", rule->span, n, names);
  int first = add_scalars(f, rule, rows);
  vtb_builder b = {.module = a->m, .func = f, .span = rule->span};
  out[0] = f->args[1];
  if (equations) {
    for (int i = 0; i < vectors; i++) given[i] = f->args[i];
    b.name_hint = "gradient";
    given[1] = vtb_b_binary(&b, VTB_OP_mul, f->args[1], f->args[first]);
    give_scalars(rule, f, &b, first, rows, given);
    b.span = VTB_NO_SPAN; /* copies keep their own */
    vtb_value **made = vtb__inlined(&b, rule, given);
    for (int i = 0; i < rule->n_returns; i++) out[i] = made[i];
    if (rule->last) b.span = rule->last->span;
  }
  if (average) out[n - 2] = averaged(&b, f->args[n - 1], out[0], rows[VTB_SCALAR_AVERAGE]);
  vtb_func_set_returns(f, out, NULL, n - 1);
  return f;
}

/* The rule of tensors whose change is made elsewhere. */
static vtb_func *changed_rule(attach *a, const vtb_func *rule, bool average) {
  const char *names[] = {"w", "g", average ? "ema" : "change", "change"};
  vtb_value **rows = VTB_SCRATCH(a->f, vtb_value *, rule->n_args + VTB_N_SCALARS), *out[2];
  vtb_func *f = new_rule(a, "changed", rule->span, 3 + average, names);
  add_scalars(f, rule, rows);
  vtb_builder b = {.module = a->m, .func = f, .span = rule->span};
  out[0] = vtb_b_binary(&b, VTB_OP_add, f->args[0], f->args[2 + average]);
  if (average) out[1] = averaged(&b, f->args[2], out[0], rows[VTB_SCALAR_AVERAGE]);
  vtb_func_set_returns(f, out, NULL, 1 + average);
  return f;
}

/* ---- the step -------------------------------------------------------------------------------- */

static void add_updated(attach *a, vtb_value *v, const char *state, const char *official) {
  vtb_func_add_return(a->f, v, vtb__text(a->f, "updated.%s%s", state, official));
}

/* Arguments of a role with a return of theirs under `prefix`, in order. */
static void find_moved(const attach *a, vtb_role role, const char *prefix, moved_list *out) {
  for (int i = 0; i < a->f->n_args; i++) {
    const vtb_arg_info *info = &a->f->arg_info[i];
    if (info->role != role || !info->official || a->f->args[i]->type.dtype != VTB_F32) continue;
    int r = vtb_find_measure(a->f, prefix, info->official);
    if (r >= 0) vtb__put(a->f, out, ((moved){a->f->args[i], a->f->returns[r], info->official}));
  }
}

/* "optim/m/" of a rule's state m; the last of those with an average is "ema/". */
static const char *state_prefix(attach *a, const vtb_func *rule, int vector) {
  const char *name = rule->arg_info[vector].official;
  if (vtb_streq(name, "ema")) return "ema/";
  return vtb_arena_printf(&a->m->arena, "optim/%s/", name);
}

/* changes: what is added to the values, one each; NULL: the rule makes it of the gradients. */
static void apply(attach *a, vtb_func *rule, const moved_list *list, vtb_value *rates,
                  vtb_value *const *changes) {
  int n = (int)list->n, vectors = n_vectors_of(rule) - (changes != NULL);
  VTB_VEC(vtb_value *) operands = {0};
  vtb_type t = VTB__F32({n, NULL}, {2, NULL});
  vtb__put(a->f, &operands, a->scalars);
  vtb__put(a->f, &operands, rates ? rates : vtb_b_splat(&a->b, 1, &t));
  vtb__put(a->f, &operands, a->verdict);
  for (int i = 0; i < n; i++) vtb__put(a->f, &operands, list->at[i].value);
  for (int i = 0; i < n; i++) vtb__put(a->f, &operands, list->at[i].next);
  for (int s = 2; s < vectors; s++)
    for (int i = 0; i < n; i++) {
      const char *name =
          vtb_arena_printf(&a->m->arena, "%s%s", state_prefix(a, rule, s), list->at[i].official);
      vtb__put(a->f, &operands,
               vtb__named_arg(a->f, name, list->at[i].value->type, VTB_ROLE_STATE));
    }
  for (int i = 0; changes && i < n; i++) vtb__put(a->f, &operands, changes[i]);
  vtb_attr attr[] = {VTB_A_INT("tensors", n), VTB_A_INT("changes", 1)};
  vtb_inst *u = vtb_build_call(&a->b, VTB_OP_update, rule, operands.at, (int)operands.n, attr,
                               changes ? 2 : 1);
  for (int s = 1; s < vectors; s++)
    for (int i = 0; i < n; i++)
      add_updated(a, u->results[(s - 1) * n + i], s == 1 ? "" : state_prefix(a, rule, s),
                  list->at[i].official);
}

static vtb_value *rates_of(attach *a, const moved_list *list) {
  vtb_type t = VTB__F32({(int64_t)list->n, NULL}, {2, NULL});
  return vtb__named_arg(a->f, VTB_UPDATE_RATES, t, VTB_ROLE_INPUT);
}

/* Equations by shapes make the changes and what states become. */
static vtb_status apply_shaped(attach *a, const vtb_update_options *o, const moved_list *list,
                               vtb_error *err) {
  moved_list states = {0};
  vtb_value *rates = rates_of(a, list), **changes = VTB_SCRATCH(a->f, vtb_value *, list->n);
  VTB_TRY(vtb__update_shaped(a, o, list, rates, changes, &states, err));
  for (size_t i = 0; i < list->n; i++)
    vtb_func_add_return(a->f, changes[i],
                        vtb__text(a->f, VTB_UPDATE_CHANGE "%s", list->at[i].official));
  for (size_t i = 0; i < states.n; i++)
    vtb_func_add_return(a->f, states.at[i].next, vtb__text(a->f, "d:%s", states.at[i].official));
  apply(a, changed_rule(a, o->rule, a->average), list, rates, changes);
  if (states.n) apply(a, complete_rule(a, o->rule, false, false), &states, NULL, NULL);
  return VTB_OK;
}

/* 1 where the largest of a row's logits, the first of equal ones, is its label's. */
static vtb_value *correct(attach *a, vtb_value *logits, vtb_value *labels) {
  vtb_builder *b = &a->b;
  vtb_type row = VTB__F32({1, NULL}, {logits->type.dim[1].size, "classes"});
  vtb_value *class = vtb_b_iota(b, 1, &row);
  vtb_value *top = vtb_b_reduce(b, VTB_OP_reduce_max, logits, (int64_t[]){1}, 1, true);
  vtb_value *back =
      vtb_b_select(b, vtb_b_binary(b, VTB_OP_ge, logits, top), vtb_b_unary(b, VTB_OP_neg, class),
                   vtb_b_constant(b, -(double)row.dim[1].size));
  vtb_value *first =
      vtb_b_unary(b, VTB_OP_neg, vtb_b_reduce(b, VTB_OP_reduce_max, back, (int64_t[]){1}, 1, true));
  vtb_value *label = vtb_b_cast(b, vtb_b_reshape(b, labels, &first->type), VTB_F32);
  vtb_value *hit = vtb_b_binary(b, VTB_OP_eq, first, label);
  vtb_type flat = hit->type;
  flat.rank = 1;
  b->name_hint = "correct";
  return vtb_b_reshape(b, hit, &flat);
}

/* ---- finding --------------------------------------------------------------------------------- */

static vtb_value *find_input(const vtb_func *f, const char *name) {
  for (int i = 0; i < f->n_args; i++)
    if (f->arg_info[i].role == VTB_ROLE_INPUT && vtb_streq(f->arg_info[i].official, name))
      return f->args[i];
  return NULL;
}

/* The first [batch, classes] that the step returns and that is no gradient. */
static vtb_value *find_logits(const vtb_func *f, const vtb_value *labels) {
  if (vtb_has_loss(f)) return NULL; /* it measures what it declares */
  for (int r = 0; r < f->n_returns; r++) {
    const vtb_type *t = &f->returns[r]->type;
    if (f->return_names && f->return_names[r] && t->rank == 2 && t->dtype == VTB_F32 &&
        t->dim[0].size == labels->type.dim[0].size && !vtb_starts_with(f->return_names[r], "d:"))
      return f->returns[r];
  }
  return NULL;
}

/* Updates of buffers come out of a rule; what they are made of is to a buffer what its gradient is
 * to a parameter. */
static void rename_updates(attach *a) {
  for (int r = 0; r < a->f->n_returns; r++) {
    const char *name = a->f->return_names[r];
    if (name && vtb_starts_with(name, "updated.") && a->f->returns[r]->type.dtype == VTB_F32)
      a->f->return_names[r] = vtb_intern(a->m, vtb__text(a->f, "d:%s", name + strlen("updated.")));
  }
}

static void add_scalar_rows(attach *a, const vtb_func *rule) {
  vtb_strbuf rows = {0};
  int n = VTB_N_SCALARS;
  vtb_strbuf_puts(&rows, rule->name);
  for (int i = 0; i < VTB_N_SCALARS; i++) vtb_strbuf_printf(&rows, " %s", fixed_rows[i]);
  for (int i = n_vectors_of(rule) + 2; i < scalars_end(rule); i++, n++)
    vtb_strbuf_printf(&rows, " %s=%s", rule->arg_info[i].official, rule->arg_info[i].init);
  vtb_type t = VTB__F32({n, NULL}, {2, NULL});
  a->scalars = vtb__named_arg(a->f, VTB_UPDATE_SCALARS, t, VTB_ROLE_INPUT);
  a->f->arg_info[a->scalars->index].init = vtb_intern(a->m, rows.at);
  vtb_strbuf_free(&rows);
}

static void judge(attach *a, vtb_value *loss, const moved_list *trained) {
  VTB_VEC(vtb_value *) operands = {0};
  if (a->last) loss = vtb_b_select(&a->b, a->last, loss, vtb_b_constant(&a->b, INFINITY));
  vtb__put(a->f, &operands, a->scalars);
  vtb__put(a->f, &operands, loss);
  for (size_t i = 0; i < trained->n; i++) vtb__put(a->f, &operands, trained->at[i].next);
  a->b.name_hint = "verdict";
  a->verdict = vtb_build(&a->b, VTB_OP_verdict, operands.at, (int)operands.n, NULL, 0)->results[0];
}

/* Buffers with an average first, then counts: each kind is one update. */
static void move_buffers(attach *a, const vtb_func *rule, const moved_list *buffers) {
  for (int average = a->average; average >= 0; average--) {
    moved_list list = {0};
    for (size_t i = 0; i < buffers->n; i++) {
      bool has = a->average && vtb_type_count(&buffers->at[i].value->type) > 1;
      if (has == (average == 1)) vtb__put(a->f, &list, buffers->at[i]);
    }
    if (list.n) apply(a, complete_rule(a, rule, false, average), &list, NULL, NULL);
  }
}

/* ---- several runs, several ranks ------------------------------------------------------------- */

static vtb_value *share_number(attach *a, vtb_value *both, int at) {
  vtb_type scalar = vtb_type_scalar();
  vtb_builder b = a->b;
  b.before = a->f->first;
  vtb_value *one = vtb_b_slice(&b, both, 0, at, at + 1, 1);
  b.before = one->def->next;
  return vtb_b_reshape(&b, one, &scalar);
}

/* Behind what makes a gradient, so that ranks begin to sum it while others are made; the total is
 * what is returned and judged. What a state becomes is at the end. */
static void accumulate(attach *a, moved_list *trained) {
  vtb_type t = VTB__F32({2, NULL});
  vtb_value *both = vtb__named_arg(a->f, VTB_UPDATE_SHARE, t, VTB_ROLE_INPUT);
  a->share = share_number(a, both, 0);
  a->last = share_number(a, both, 1);
  for (size_t i = 0; i < trained->n; i++) {
    moved *w = &trained->at[i];
    const char *name = vtb_arena_printf(&a->m->arena, VTB_ACCUMULATED "%s", w->official);
    vtb_value *state = vtb__named_arg(a->f, name, w->value->type, VTB_ROLE_STATE);
    vtb_inst *made = w->next->def;
    /* constants stand before the numbers of the run */
    vtb_inst *behind = !made || made->op == VTB_OP_constant ? a->last->def : made;
    vtb_builder b = {.module = a->m, .func = a->f, .before = behind->next, .span = behind->span};
    vtb_value *part = vtb_b_binary(&b, VTB_OP_mul, w->next, a->share);
    b.name_hint = w->next->name;
    vtb_value *total = vtb_b_binary(&b, VTB_OP_add, state, part);
    a->f->returns[vtb_find_measure(a->f, "d:", w->official)] = total;
    w->next = total;
    vtb_value *kept = vtb_b_select(&a->b, a->last, vtb_b_constant(&a->b, 0), total);
    add_updated(a, kept, VTB_ACCUMULATED, w->official);
  }
}

/* The tensors that are dealt to the rank: the largest first, each to the rank that has least. */
static void keep_own(attach *a, const vtb_update_options *o, const moved_list *all,
                     moved_list *own) {
  int64_t *has = VTB_SCRATCH(a->f, int64_t, o->ranks);
  bool *dealt = VTB_SCRATCH(a->f, bool, all->n), *mine = VTB_SCRATCH(a->f, bool, all->n);
  for (size_t k = 0; k < all->n; k++) {
    size_t next = all->n;
    int to = 0;
    for (size_t i = 0; i < all->n; i++)
      if (!dealt[i] && (next == all->n || vtb_type_count(&all->at[i].value->type) >
                                              vtb_type_count(&all->at[next].value->type)))
        next = i;
    for (int r = 1; r < o->ranks; r++)
      if (has[r] < has[to]) to = r;
    dealt[next] = true;
    mine[next] = to == o->rank;
    has[to] += vtb_type_count(&all->at[next].value->type);
  }
  for (size_t i = 0; i < all->n; i++)
    if (mine[i]) vtb__put(a->f, own, all->at[i]);
}

static vtb_status update_trained(attach *a, const vtb_update_options *o, const moved_list *trained,
                                 vtb_error *err) {
  moved_list own = {0};
  if (o->ranks > 1) keep_own(a, o, trained, &own);
  const moved_list *list = o->ranks > 1 ? &own : trained;
  if (!list->n) return VTB_OK;
  if (o->of_tensor) return apply_shaped(a, o, list, err);
  apply(a, complete_rule(a, o->rule, true, a->average), list, rates_of(a, list), NULL);
  return VTB_OK;
}

static vtb_span span_of(const vtb_func *f, int r) {
  return f->returns[r]->def ? f->returns[r]->def->span : f->span;
}

vtb_status vtb_attach_update(vtb_module *m, vtb_func *step, const vtb_update_options *o,
                             vtb_error *err) {
  int loss = vtb_find_measure(step, "", "loss");
  vtb_value *labels = find_input(step, "labels"),
            *logits = labels ? find_logits(step, labels) : NULL;
  if (loss < 0)
    return vtb_fail(err, VTB_E_INPUT, "@%s is no training step: it cannot update parameters",
                    step->name);
  attach a = {.m = m, .f = step, .average = o->average};
  a.b = (vtb_builder){.module = m, .func = step, .span = span_of(step, loss)};
  moved_list trained = {0}, buffers = {0};
  find_moved(&a, VTB_ROLE_PARAM, "d:", &trained);
  find_moved(&a, VTB_ROLE_BUFFER, "updated.", &buffers);
  vtb_status status = VTB_OK;
  if (!trained.n) {
    status =
        vtb_fail(err, VTB_E_INPUT, "@%s has no gradients: there is nothing to update", step->name);
  } else {
    rename_updates(&a);
    if (o->accumulates) accumulate(&a, &trained);
    add_scalar_rows(&a, o->rule);
    if (logits) vtb_func_add_return(step, correct(&a, logits, labels), VTB_UPDATE_CORRECT);
    judge(&a, step->returns[loss], &trained);
    vtb_func_add_return(step, a.verdict, VTB_UPDATE_VERDICT);
    status = update_trained(&a, o, &trained, err);
    move_buffers(&a, o->rule, &buffers);
  }
  return vtb__verified(m, "after the update was attached", status, err);
}

vtb_status vtb__pass_update(vtb_pass_context *c, vtb_error *err) {
  if (!c->update) return vtb_fail(err, VTB_E_USAGE, "pass \"update\": there is no optimiser");
  return vtb_attach_update(c->module, c->module->entry, c->update, err);
}
