/* fold_split: what a step computes without its states, and what its states are not computed from,
 * leaves the loop.
 *
 *   %y, %dw = fold @f(%s, 0, %x, %w) {states=2}     @f: %p = einsum %x, %w      (reads no state)
 *                                                       %q = %p + tanh(%s)      (a state's update)
 *                                                       %e = einsum %q, %x      (summed, no more)
 *   =>
 *   %p = einsum %x, %w                              all tokens at once
 *   %q = fold @f_loop(%s, %p) {states=1}            @f_loop: %q = %p + tanh(%s)
 *   %dw = einsum %q, %x                             one product over samples and tokens
 *
 * A value of the step is
 *   early   it varies with the token, reads no state, and its ops can be widened (widen.h)
 *   late    it reads a state, no state is computed from it, it is a product or a reduction or
 *           computed from one, and can be widened
 *   fixed   it is the same for every token: products and the like of weights, computed once
 * and otherwise in the loop. A state that only collects, s' = s + e with no other reader, is the
 * sum of e over all tokens and no state any more: the gradients of weights. From early values to
 * the loop goes the cheapest cut: products stay outside, elementwise ops are done on the side where
 * fewer numbers cross. Late values read what the loop yields. In the adjoint of a fold the kept
 * states are sequences, so that everything the forward step computes is early.
 *
 * After autodiff, before bind: the batch must be symbolic. Calls in the step are expanded first.
 * Declines if nothing would leave the loop.
 */
#include <string.h>

#include "ir/axes.h"
#include "ir/fold.h"
#include "passes/recurrence/widen.h"

typedef enum place { FIXED, EARLY, LOOP, LATE } place;

typedef struct split {
  vtb_inst *inst;
  vtb_fold p;
  vtb_func *step; /* a copy without calls */
  int n;          /* values of the step */
  vtb_value **value;
  int *uses;
  vtb_value **sum; /* by state: what it collects, NULL if it is a state */
  bool *varies, *stateful, *core, *inside, *cut, *yielded, *sink;
  place *place;
  VTB_VEC(vtb_value *) yields, sequences, constants; /* of the new fold */
} split;

static bool is_state(const split *s, const vtb_value *v) {
  return !v->def && v->index < s->p.states;
}
static bool is_sequence(const split *s, const vtb_value *v) {
  return !v->def && v->index >= s->p.states && v->index < s->p.states + s->p.seqs;
}

/* ---- what depends on what -------------------------------------------------------------------- */

/* The value that state i collects and nothing else, or NULL. */
static vtb_value *collected(const split *s, int i) {
  const vtb_value *arg = s->step->args[i], *made = s->step->returns[i];
  const vtb_inst *add = made->def;
  if (s->p.keep || !add || add->op != VTB_OP_add || s->uses[arg->id] != 1) return NULL;
  if (s->uses[made->id] != 1 || !vtb_type_equal(&made->type, &arg->type)) return NULL;
  int k = add->operands[0] == arg ? 1 : add->operands[1] == arg ? 0 : -1;
  if (k < 0 || !vtb_type_equal(&add->operands[k]->type, &arg->type)) return NULL;
  return add->operands[k];
}

static void mark_dependence(split *s) {
  for (int i = 0; i < s->n; i++) s->varies[i] = s->stateful[i] = false;
  for (int i = 0; i < s->step->n_args; i++) {
    const vtb_value *arg = s->step->args[i];
    s->stateful[arg->id] = is_state(s, arg);
    s->varies[arg->id] = is_state(s, arg) || is_sequence(s, arg);
  }
  vtb_add_uses(s->step->first, s->varies);
  vtb_add_uses(s->step->first, s->stateful);
}

/* Marks values that the new values of states are computed from. */
static void mark_core(split *s) {
  memset(s->core, 0, (size_t)s->n);
  for (int i = 0; i < s->p.states; i++)
    if (!s->sum[i]) s->core[s->step->returns[i]->id] = true;
  vtb_add_sources(NULL, s->step->last, s->core);
}

/* ---- places ---------------------------------------------------------------------------------- */

static bool is_heavy(const vtb_inst *i) {
  return i->op == VTB_OP_einsum || i->op == VTB_OP_reduce_sum || i->op == VTB_OP_reduce_max;
}

/* As a sequence [B, N, ...] between the loop and what is around it. */
static bool can_cross(const vtb_value *v) {
  return v->type.rank < VTB_MAX_RANK && vtb_batch_axis(&v->type) == 0 && v->type.dtype == VTB_F32;
}

static bool has_outer(void *user, vtb_value *v) {
  const split *s = user;
  return s->place[v->id] != LOOP || can_cross(v);
}

static bool operands_are_early(const split *s, const vtb_inst *i) {
  for (int k = 0; k < i->n_operands; k++)
    if (s->place[i->operands[k]->id] > EARLY) return false;
  return true;
}

static bool could_be_late(const split *s, const vtb_inst *i) {
  const vtb_value *v = i->results[0];
  if (s->core[v->id] || !vtb__can_widen(i, s->varies)) return false;
  bool late = is_heavy(i);
  for (int k = 0; k < i->n_operands; k++) {
    if (!has_outer((void *)s, i->operands[k])) return false;
    late |= s->place[i->operands[k]->id] == LATE;
  }
  return late;
}

static place place_of(const split *s, const vtb_inst *i, const bool *stays) {
  const vtb_value *v = i->results[0];
  if (!s->varies[v->id]) return FIXED;
  if (!s->stateful[v->id])
    return operands_are_early(s, i) && vtb__can_widen(i, s->varies) ? EARLY : LOOP;
  return !stays[v->id] && could_be_late(s, i) ? LATE : LOOP;
}

/* The loop reads nothing late. True if that took something back. */
static bool take_back(const split *s, bool *stays) {
  bool changed = false;
  for (const vtb_inst *i = s->step->last; i; i = i->prev) {
    if (s->place[i->results[0]->id] != LOOP || vtb_batch_axis(&i->results[0]->type) < 0) continue;
    for (int k = 0; k < i->n_operands; k++) {
      int id = i->operands[k]->id;
      if (s->place[id] != LATE) continue;
      stays[id] = changed = true;
    }
  }
  return changed;
}

static void find_places(split *s) {
  bool *stays = VTB_SCRATCH(s->step, bool, s->n);
  do {
    for (int i = 0; i < s->step->n_args; i++) {
      const vtb_value *arg = s->step->args[i];
      s->place[arg->id] = is_state(s, arg) ? LOOP : is_sequence(s, arg) ? EARLY : FIXED;
    }
    for (const vtb_inst *i = s->step->first; i; i = i->next)
      for (int r = 0; r < i->n_results; r++) s->place[i->results[r]->id] = place_of(s, i, stays);
  } while (take_back(s, stays));
}

/* States that collect, unless their sums cannot be had outside: then they are states like
 * others. */
static void find_sums(split *s) {
  for (int i = 0; i < s->p.states; i++) s->sum[i] = collected(s, i);
  mark_dependence(s);
  for (bool again = true; again;) {
    again = false;
    mark_core(s);
    find_places(s);
    for (int i = 0; i < s->p.states && !again; i++) {
      if (!s->sum[i]) continue;
      again = s->core[s->sum[i]->id] && vtb_batch_axis(&s->sum[i]->type) < 0;
      again |= !vtb__total_leaves(s->sum[i], s->varies, has_outer, s);
      if (again) s->sum[i] = NULL;
    }
  }
}

/* ---- what crosses ---------------------------------------------------------------------------- */

/* Values of the loop that late ones read are yielded; of one value in two shapes the first. */
static void need_outside(split *s, vtb_value *v) {
  if (s->place[v->id] == FIXED || s->yielded[v->id]) return;
  s->yielded[v->id] = true;
  bool only_shape = v->def && v->def->op == VTB_OP_reshape && vtb__can_widen(v->def, s->varies);
  if (s->place[v->id] == LOOP && !(only_shape && can_cross(v->def->operands[0]))) {
    if (!(s->p.keep && is_state(s, v))) vtb__put(s->step, &s->yields, v);
    return;
  }
  for (int k = 0; v->def && k < v->def->n_operands; k++) need_outside(s, v->def->operands[k]);
}

static bool need_leaf(void *user, vtb_value *v) {
  need_outside(user, v);
  return true;
}

static void find_yields(split *s) {
  for (int i = s->p.states; i < s->step->n_returns; i++) need_outside(s, s->step->returns[i]);
  for (int i = 0; i < s->p.states; i++)
    if (s->sum[i]) vtb__total_leaves(s->sum[i], s->varies, need_leaf, s);
}

/* Marks the early values that the loop reads at first hand. */
static void find_sinks(split *s, vtb_value *v) {
  if (s->inside[v->id]) return;
  s->inside[v->id] = true;
  if (s->place[v->id] == EARLY) {
    s->sink[v->id] = true;
    return;
  }
  for (int k = 0; s->place[v->id] == LOOP && v->def && k < v->def->n_operands; k++)
    find_sinks(s, v->def->operands[k]);
}

static void visit_loop(split *s, void (*see)(split *, vtb_value *)) {
  for (int i = 0; i < s->p.states; i++)
    if (!s->sum[i]) see(s, s->step->returns[i]);
  for (size_t i = 0; i < s->yields.n; i++) see(s, s->yields.at[i]);
}

/* The cheapest set of early values between products and sequences on one side and the loop on the
 * other. Of equal ones that nearest the loop is not taken but the other: what can be done in the
 * loop at the same price needs no pass over memory of its own. */
static void find_cut(split *s) {
  VTB_VEC(int) edges = {0};
  int64_t *weight = VTB_SCRATCH(s->step, int64_t, s->n);
  bool *source = VTB_SCRATCH(s->step, bool, s->n);
  visit_loop(s, find_sinks);
  for (int v = 0; v < s->n; v++) {
    const vtb_value *x = s->value[v];
    if (!x || s->place[v] != EARLY) continue;
    weight[v] = can_cross(x) ? vtb_type_count(&x->type) : INT64_C(1) << 40;
    source[v] = !x->def || is_heavy(x->def);
    for (int k = 0; x->def && k < x->def->n_operands; k++) {
      int from = x->def->operands[k]->id;
      if (s->place[from] != EARLY) continue;
      vtb__put(s->step, &edges, v); /* backwards: the cut nearest what is cut from */
      vtb__put(s->step, &edges, from);
    }
  }
  vtb__min_vertex_cut(s->step->module, s->n, weight, s->sink, source, edges.at, (int)edges.n / 2,
                      s->cut);
}

/* Work on weights alone is done once, but not what would be as large as the batch or only moves
 * elements. */
static bool is_work(const vtb_value *v) {
  bool moves = !v->def || vtb_op_get(v->def->op)->klass == VTB_CLASS_SHAPE;
  return !moves && !vtb_type_is_dynamic(&v->type);
}

/* Marks values that the loop computes, or is given. */
static void need_inside(split *s, vtb_value *v) {
  if (s->inside[v->id]) return;
  s->inside[v->id] = true;
  place at = s->place[v->id];
  if (at == EARLY && s->cut[v->id])
    vtb__put(s->step, &s->sequences, v);
  else if (at == FIXED && (!v->def || is_work(v)))
    vtb__put(s->step, &s->constants, v);
  else
    for (int k = 0; v->def && k < v->def->n_operands; k++) need_inside(s, v->def->operands[k]);
}

/* Something leaves the loop that is more than an elementwise op. */
static bool is_worth_it(const split *s) {
  bool worth = false;
  for (int i = 0; i < s->p.states; i++) worth |= s->sum[i] != NULL;
  for (const vtb_inst *i = s->step->first; i; i = i->next)
    worth |= is_heavy(i) && s->place[i->results[0]->id] != LOOP;
  return worth && s->sequences.n > 0;
}

/* ---- the new step ---------------------------------------------------------------------------- */

/* [B, X...] as the step of a sequence; [B, 1, ...] is one. */
static vtb_type as_step(const vtb_type *t) {
  if (t->rank > 1 && t->dim[1].size == 1) return *t;
  return vtb_type_with_axis(t, 1, (vtb_dim){.size = 1, .name = "N"});
}

static void add_arguments(split *s, vtb_builder *b, vtb_value **map) {
  for (int i = 0; i < s->p.states; i++)
    if (!s->sum[i])
      map[s->step->args[i]->id] =
          vtb_func_add_arg(b->func, s->step->args[i]->name, s->step->args[i]->type);
  for (size_t i = 0; i < s->sequences.n; i++) {
    const vtb_value *v = s->sequences.at[i];
    map[v->id] = vtb_func_add_arg(b->func, v->name, as_step(&v->type));
  }
  for (size_t i = 0; i < s->constants.n; i++) {
    const vtb_value *v = s->constants.at[i];
    map[v->id] = vtb_func_add_arg(b->func, v->name, v->type);
  }
  for (size_t i = 0; i < s->sequences.n; i++) {
    const vtb_value *v = s->sequences.at[i];
    map[v->id] = vtb_b_shaped(b, map[v->id], &v->type);
  }
}

static void copy_inside(split *s, vtb_builder *b, vtb_value **map) {
  for (const vtb_inst *i = s->step->first; i; i = i->next) {
    bool wanted = false;
    for (int r = 0; r < i->n_results; r++)
      wanted |= s->inside[i->results[r]->id] && !map[i->results[r]->id];
    if (!wanted) continue;
    b->span = i->span;
    vtb_inst_copy(b, i, map);
  }
}

static vtb_func *make_loop(split *s) {
  vtb_module *m = s->step->module;
  const char *name = vtb_arena_printf(&m->arena, "%s_loop", s->inst->callee->name);
  vtb_func *f = vtb_func_new(m, name, VTB_FUNC_PLAIN, s->step->span);
  vtb_builder b = {.module = m, .func = f, .span = s->step->span};
  vtb_value **map = VTB_SCRATCH(s->step, vtb_value *, s->n);
  add_arguments(s, &b, map);
  copy_inside(s, &b, map);
  VTB_VEC(vtb_value *) out = {0};
  for (int i = 0; i < s->p.states; i++)
    if (!s->sum[i]) vtb__put(s->step, &out, map[s->step->returns[i]->id]);
  for (size_t i = 0; i < s->yields.n; i++) {
    vtb_value *v = map[s->yields.at[i]->id];
    vtb_type t = as_step(&v->type);
    vtb__put(s->step, &out, vtb_b_shaped(&b, v, &t));
  }
  vtb_func_set_returns(f, out.at, NULL, (int)out.n);
  return f;
}

/* ---- beside the fold ------------------------------------------------------------------------- */

/* A sequence of steps of type `t`. */
static vtb_type all_steps(const split *s, const vtb_type *t) {
  vtb_type r = as_step(t);
  r.dim[1] = s->inst->operands[s->p.states]->type.dim[1];
  return r;
}

/* [B, X...] of every token: [B, N, X...]. */
static vtb_value *outer_of_sequence(vtb__widen *w, const vtb_value *v, vtb_value *sequence) {
  vtb_type t = vtb_type_with_axis(&v->type, 1, w->tokens);
  return vtb_b_shaped(&w->b, sequence, &t);
}

static void give_arguments(split *s, vtb__widen *w) {
  for (int i = s->p.states; i < s->step->n_args; i++) {
    const vtb_value *arg = s->step->args[i];
    vtb_value *given = s->inst->operands[i];
    w->outer[arg->id] = is_sequence(s, arg) ? outer_of_sequence(w, arg, given) : given;
  }
}

static vtb_inst *build_fold(split *s, vtb__widen *w, vtb_func *loop) {
  VTB_VEC(vtb_value *) at = {0};
  for (int i = 0; i < s->p.states; i++)
    if (!s->sum[i]) vtb__put(s->step, &at, s->inst->operands[i]);
  int states = (int)at.n;
  for (size_t i = 0; i < s->sequences.n; i++) {
    vtb_value *v = s->sequences.at[i];
    vtb_type t = all_steps(s, &v->type);
    vtb__put(s->step, &at,
             is_sequence(s, v) ? s->inst->operands[v->index]
                               : vtb_b_shaped(&w->b, vtb__widen_value(w, v), &t));
  }
  for (size_t i = 0; i < s->constants.n; i++)
    vtb__put(s->step, &at, vtb__widen_value(w, s->constants.at[i]));
  vtb_attr_set(s->inst, VTB_A_INT("states", states)); /* which goes */
  vtb_attr_set(s->inst, VTB_A_INT("seqs", (int64_t)s->sequences.n));
  return vtb_build_call(&w->b, VTB_OP_fold, loop, at.at, (int)at.n, s->inst->attrs,
                        s->inst->n_attrs);
}

static void take_yields(split *s, vtb__widen *w, const vtb_inst *made) {
  int n_yields = (int)s->yields.n, states = (int)vtb_attr_int(made, "states", 0), kept = 0;
  for (int i = 0; i < n_yields; i++)
    w->outer[s->yields.at[i]->id] = outer_of_sequence(w, s->yields.at[i], made->results[i]);
  for (int i = 0; s->p.keep && i < s->p.states; i++, kept++)
    w->outer[s->step->args[i]->id] =
        outer_of_sequence(w, s->step->args[i], made->results[n_yields + states + kept]);
}

static void replace_results(split *s, vtb__widen *w, const vtb_inst *made) {
  const vtb_func *step = s->step;
  int state = (int)s->yields.n, states = (int)vtb_attr_int(made, "states", 0);
  for (int i = 0; i < s->p.yields; i++) {
    vtb_value *old = s->inst->results[i], *v = step->returns[s->p.states + i];
    vtb_value *now = vtb__widen_value(w, v);
    vtb__stand_in(old, s->varies[v->id] ? vtb_b_shaped(&w->b, now, &old->type)
                                        : vtb_b_broadcast(&w->b, now, &old->type));
  }
  for (int i = 0; i < s->p.states; i++) {
    vtb_value *old = s->inst->results[s->p.yields + i];
    if (s->sum[i])
      vtb__stand_in(
          old, vtb_b_binary(&w->b, VTB_OP_add, s->inst->operands[i], vtb__total(w, s->sum[i])));
    else
      vtb__stand_in(old, made->results[state++]);
  }
  for (int i = 0; s->p.keep && i < s->p.states; i++)
    vtb__stand_in(s->inst->results[s->p.yields + s->p.states + i],
                  made->results[(int)s->yields.n + states + i]);
}

static void rebuild(split *s) {
  vtb__widen w = {.tokens = s->inst->operands[s->p.states]->type.dim[1], .varies = s->varies};
  w.b = vtb__before(s->inst);
  w.outer = VTB_SCRATCH(s->step, vtb_value *, s->n);
  give_arguments(s, &w);
  vtb_inst *made = build_fold(s, &w, make_loop(s));
  take_yields(s, &w, made);
  replace_results(s, &w, made);
  vtb_inst_unlink(s->inst);
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void list_values(split *s) {
  s->n = s->step->n_values;
  s->value = VTB_SCRATCH(s->step, vtb_value *, s->n);
  for (int i = 0; i < s->step->n_args; i++) s->value[s->step->args[i]->id] = s->step->args[i];
  for (const vtb_inst *i = s->step->first; i; i = i->next)
    for (int r = 0; r < i->n_results; r++) s->value[i->results[r]->id] = i->results[r];
}

static void split_init(split *s, vtb_inst *fold) {
  *s = (split){.inst = fold, .p = vtb_fold_of(fold)};
  s->step = vtb_func_clone(fold->callee, fold->func->module, fold->callee->name);
  vtb__expand_calls(s->step);
  vtb__cse_func(s->step);
  vtb__dce_func(s->step);
  list_values(s);
  s->uses = vtb__uses(s->step);
  s->sum = VTB_SCRATCH(s->step, vtb_value *, s->p.states);
  bool **marks[] = {&s->varies, &s->stateful, &s->core, &s->inside, &s->cut, &s->yielded, &s->sink};
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
    *marks[i] = VTB_SCRATCH(s->step, bool, s->n);
  s->place = VTB_SCRATCH(s->step, place, s->n);
}

/* A loop of steps stays whole: what it would compute of all steps at once grows with them, and
 * steps that are not run have no numbers. */
static bool can_split(const vtb_inst *fold) {
  vtb_fold p = vtb_fold_of(fold);
  if (p.steps) return false;
  for (int i = p.states; i < p.states + p.seqs; i++)
    if (vtb_batch_axis(&fold->operands[i]->type) != 0) return false;
  return true;
}

static void visit(vtb_inst *fold) {
  if (!can_split(fold)) return;
  split s;
  split_init(&s, fold);
  find_sums(&s);
  find_yields(&s);
  find_cut(&s);
  memset(s.inside, 0, (size_t)s.n);
  visit_loop(&s, need_inside);
  if (is_worth_it(&s)) rebuild(&s);
  vtb_module_remove(s.step->module, s.step);
}

void vtb__change_fold_split(vtb_pass_context *c) {
  for (vtb_inst **i = vtb__all_of(c->module, VTB_OP_fold); *i; i++) visit(*i);
}
