/* iterate n as i { }, iterate while c, most = n as i { }: loops that are kept at run time, as op
 * fold of ir/fold.h.
 *
 * The body is evaluated once, in line, on stand-ins for what it hands on: the tensors, and numbers
 * that it reads, which are there before the loop and are assigned in it. Then what depends on a
 * stand-in moves to a function of its own, whose arguments are the states and whatever else it
 * reads; the rest stays before the loop, computed once. So a body may hold whatever a model's text
 * may: params, which are declared once, blocks, recurrences, loops.
 *
 * The condition is evaluated once, too, on the stand-ins, and copied: before the loop, of the
 * values there, and behind the body, of the new ones. One of each sample lets a sample whose
 * condition is 0 keep its values, so that a result does not depend on its neighbours. */
#include "frontend/lang/ast_walk.h"
#include "frontend/lang/value.h"
#include "ir/ops.h"
#include "ir/rewrite.h"

#define MOST_STEPS 65536

typedef struct assigned { /* a variable that the body assigns */
  const char *name;
  bool read; /* before, in the order of the text */
} assigned;

typedef struct carried {
  const char *name;
  vtb_value *init, *old, *new; /* old: the stand-in */
  const vtb__layout *layout;
} carried;

typedef struct known { /* a variable before the loop */
  vtb__binding *binding, was;
} known;

typedef struct loop {
  vtb__visitor visitor; /* the first member: it is asked by its address */
  vtb__eval *e;
  const vtb_stmt *s;
  vtb__loop seen;
  int64_t most;
  int inside; /* bodies of `along`, whose variables are their own */
  vtb_map names;
  VTB_VEC(assigned) assigned;
  VTB_VEC(carried) carried;
  VTB_VEC(known) known;
  VTB_VEC(vtb__binding *) first; /* of each environment, from the body's outward */
  /* in the function that holds the loop: the last instruction before the condition, before the
   * body */
  vtb_inst *begin, *cond_end;
  vtb_value *cond, *go; /* the condition, and its stand-in; NULL without one */
  bool by_sample, counts_samples;
  bool *moves, *wanted; /* by id */
  vtb_value **of;       /* by id: what stands for it in the loop's function */
  vtb_builder b;        /* in the loop's function */
  VTB_VEC(vtb_value *) captured;
} loop;

/* ---- what the body assigns ------------------------------------------------------------------- */

static void note_target(loop *l, const char *name, bool reads) {
  for (size_t i = 0; i < l->assigned.n; i++)
    if (strcmp(l->assigned.at[i].name, name) == 0) return;
  assigned a = {name, reads || vtb_map_has(&l->names, name)};
  vtb_vec_push(&l->assigned, a);
}

static bool note_stmt(vtb__visitor *v, const vtb_stmt *s) {
  loop *l = (loop *)v;
  if (s->kind != VTB_STMT_ASSIGN && s->kind != VTB_STMT_OP_ASSIGN) return true;
  vtb__walk_expr(v, s->u.assign.value);
  for (size_t i = 0; i < s->u.assign.n_targets && !l->inside; i++)
    note_target(l, s->u.assign.targets[i].text, s->kind == VTB_STMT_OP_ASSIGN);
  return false;
}

static bool note_expr(vtb__visitor *v, const vtb_expr *x) {
  loop *l = (loop *)v;
  if (x->kind == VTB_EXPR_NAME) vtb_map_set(&l->names, x->u.name, l);
  if (x->kind != VTB_EXPR_ALONG) return true;
  vtb__walk_expr(v, x->u.along.path);
  vtb__walk_expr(v, x->u.along.suffix);
  l->inside++;
  vtb__walk_stmts(v, &x->u.along.body);
  l->inside--;
  return false;
}

static vtb_value *stand_in(loop *l, vtb_value *of) {
  return of ? vtb_b_reshape(vtb__at(l->e, l->s->span), of, &of->type) : NULL;
}

/* Stand-ins for the variables that are handed on. */
static bool carry(loop *l) {
  vtb__eval *e = l->e;
  l->visitor = (vtb__visitor){.expr = note_expr, .stmt = note_stmt};
  vtb__walk_expr(&l->visitor, l->s->u.iterate.test);
  vtb__walk_stmts(&l->visitor, &l->s->u.iterate.body);
  bool lists = false;
  for (size_t i = 0; i < l->assigned.n; i++) {
    const assigned *a = &l->assigned.at[i];
    vtb__val v;
    if (!vtb__env_has(e, a->name) || !vtb__env_get(e, a->name, l->s->span, &v)) continue;
    if (v.kind == VTB__ERROR) return false;
    lists |= v.kind == VTB__LIST;
    bool is_state = v.kind == VTB__TENSOR || (vtb__is_number(v) && a->read);
    if (!is_state || vtb__env_find_here(e->env, a->name)->fixed) continue;
    carried c = {.name = a->name, .init = vtb__as_tensor(e, v, l->s->span), .layout = &vtb__plain};
    if (v.kind == VTB__TENSOR) c.layout = v.u.t.layout;
    if (!c.init) return false;
    vtb_vec_push(&l->carried, c);
  }
  if (l->carried.n) return true;
  vtb__report(e, VTB_DIAG_LOOP_STATE, l->s->span,
              "the loop changes nothing: no tensor that is there before it is assigned in it");
  vtb__help(e, lists ? "a list is not handed on: give each of its elements a name, a, b = b, a + 1"
                     : "variables of the body are gone after it; what it shall hand on has its "
                       "first value before the loop");
  return false;
}

/* ---- variables ------------------------------------------------------------------------------- */

static void remember(loop *l) {
  for (vtb__env *env = l->e->env; env; env = env->up) vtb_vec_push(&l->first, env->first);
  for (vtb__binding *b = l->e->env->first; b; b = b->next) {
    known k = {b, *b};
    vtb_vec_push(&l->known, k);
  }
}

/* Variables that were made since are gone: they are of one step. */
static void forget(loop *l) {
  size_t i = 0;
  for (vtb__env *env = l->e->env; env; env = env->up, i++) {
    vtb__binding *last = env->first, *first = last;
    if (first == l->first.at[i]) continue;
    while (last->next != l->first.at[i]) last = last->next;
    env->first = l->first.at[i];
    last->next = NULL;
    vtb__env *gone = VTB_NEW(&l->e->arena, vtb__env);
    gone->first = first;
    gone->ended_next = env->ended;
    env->ended = gone;
  }
}

static carried *carried_as(loop *l, const char *name) {
  for (size_t i = 0; i < l->carried.n; i++)
    if (strcmp(l->carried.at[i].name, name) == 0) return &l->carried.at[i];
  return NULL;
}

/* Variables that are known when compiling have one value for all steps. */
static bool others_stay(loop *l) {
  vtb__eval *e = l->e;
  for (size_t i = 0; i < l->known.n; i++) {
    const known *k = &l->known.at[i];
    const vtb__binding *b = k->binding;
    vtb__val now = b->value, was = k->was.value;
    if (was.kind == VTB__TENSOR || (b->fixed && !k->was.fixed)) continue;
    if (now.kind == VTB__ERROR) return false;
    bool same_list = now.kind == VTB__LIST && was.kind == VTB__LIST;
    if (same_list && now.u.list.at == was.u.list.at) continue;
    bool same = now.kind != VTB__TENSOR && vtb__val_equal(now, was);
    if (same || carried_as(l, b->name)) continue;
    vtb__report(e, VTB_DIAG_LOOP_STATE, b->span,
                "'%s' is %s before the loop, which is known when compiling, and the same at all "
                "steps",
                b->name, vtb__describe(e, was));
    vtb__help(e, vtb__is_number(was)
                     ? "a number that the body reads before it assigns it is handed on"
                 : was.kind == VTB__LIST
                     ? "a list grows when compiling, in repeat n { ... }; a loop hands on tensors"
                     : "give the new value another name");
    return false;
  }
  return true;
}

/* ---- the condition --------------------------------------------------------------------------- */

static vtb_value *condition(loop *l) {
  vtb__eval *e = l->e;
  const vtb_expr *test = l->s->u.iterate.test;
  vtb__val v = vtb__expr(e, test);
  if (v.kind == VTB__ERROR) return NULL;
  if (v.kind != VTB__TENSOR) {
    vtb__report(e, VTB_DIAG_LOOP_END, test->span,
                "the condition is %s, known when compiling, and not of what the loop changes",
                vtb__describe(e, v));
    vtb__help(e, "it reads a tensor: error > 0.01; `iterate n { ... }` is a loop of n steps");
    return NULL;
  }
  const vtb_type *t = &v.u.t.v->type;
  bool one = !vtb_type_is_dynamic(t) && vtb_type_count(t) == 1;
  bool samples = !one && vtb__batches_of(e, t->dim[0]) == 1;
  vtb_type flat = {.dtype = t->dtype, .rank = one ? 0 : 1, .dim = {t->dim[0]}};
  if (!one && (!samples || vtb_type_count(t) != vtb_type_count(&flat))) {
    vtb__report(e, VTB_DIAG_LOOP_END, test->span,
                "the condition is %s; a loop goes by one number for all, or one a sample",
                vtb__describe(e, v));
    vtb__help(e,
              "amax(error, axis = \"sample\") > tol asks the largest of each sample, mean(error, "
              "axis = \"sample\") their mean");
    return NULL;
  }
  l->by_sample = samples;
  vtb_value *c = vtb_b_shaped(vtb__at(e, test->span), v.u.t.v, &flat);
  return c && c->type.dtype != VTB_F32 ? vtb_b_cast(vtb__at(e, test->span), c, VTB_F32) : c;
}

/* ---- the body -------------------------------------------------------------------------------- */

static void changed(loop *l, const carried *c, vtb_span span, const vtb_type *t, const char *what) {
  vtb__eval *e = l->e;
  vtb__report(e, VTB_DIAG_LOOP_STATE, span, "'%s' is %s before the loop and %s behind a step%s",
              c->name, vtb__type_string(e, &c->old->type), vtb__type_string(e, t), what);
  vtb_type joint;
  if (t->dtype != c->old->type.dtype)
    vtb__help(e, "let it be of floats %s: %s = float(%s)",
              t->dtype == VTB_F32 ? "from the beginning" : "behind a step", c->name, c->name);
  else if (t->rank == 1 && vtb__batches_of(e, t->dim[0]) == 1)
    vtb__help(e,
              "let each sample have its own from the beginning: %s = %s + 0 * mean(x, axis = "
              "\"sample\"), of any x of the batch",
              c->name, c->name);
  else if (vtb_type_broadcast(t, &c->old->type, &joint) && vtb_type_equal(&joint, t))
    vtb__help(e,
              "let it begin with the shape that it has behind a step: %s = %s + 0 * y, of a y "
              "with that shape",
              c->name, c->name);
  else
    vtb__help(e, "a loop hands on values of one shape; give the new value another name");
}

static bool has_samples(const loop *l, const vtb_type *t) {
  return t->rank && vtb__batches_of(l->e, t->dim[0]) == 1;
}

/* y of the samples that go on, z of those that are done. */
static vtb_value *if_going(loop *l, vtb_span span, vtb_value *y, vtb_value *z) {
  vtb_type rows = {.rank = y->type.rank};
  vtb_builder *b = vtb__at(l->e, span);
  for (int a = 0; a < rows.rank; a++) rows.dim[a] = a ? (vtb_dim){.size = 1} : y->type.dim[0];
  return b ? vtb_b_select(b, vtb_b_reshape(b, l->go, &rows), y, z) : NULL;
}

/* Samples that are done keep what they have, which takes an axis of samples. */
static void keep_if_done(loop *l, carried *c, vtb_span span) {
  vtb__eval *e = l->e;
  const vtb_type *t = &c->old->type;
  if (!has_samples(l, t)) {
    vtb__report(e, VTB_DIAG_LOOP_STATE, span,
                "'%s' is %s, one for all samples, and the condition is one a sample", c->name,
                vtb__type_string(e, t));
    vtb__help(e,
              "give each sample its own: %s = %s + 0 * mean(x, axis = \"sample\") of the "
              "batch's x, before the loop",
              c->name, c->name);
    return;
  }
  c->new = if_going(l, span, c->new, c->old);
}

/* Where each sample ends by itself, the step's number behind the loop is how many steps it took, a
 * state of its own. */
static void count_samples(loop *l) {
  vtb_name as = l->s->u.iterate.as;
  vtb_builder *b = vtb__at(l->e, as.span);
  if (!b || !l->go) return;
  vtb_type counts = {.dtype = VTB_I32, .rank = 1, .dim = {l->go->type.dim[0]}};
  carried c = {.name = as.text, .init = vtb_b_splat(b, 0, &counts), .layout = &vtb__plain};
  vtb_type number = {.dtype = VTB_I32};
  c.old = stand_in(l, c.init);
  vtb_value *more = vtb_b_binary(b, VTB_OP_add, c.old, vtb_b_splat(b, 1, &number));
  c.new = vtb_b_select(b, l->go, more, c.old);
  vtb_vec_push(&l->carried, c);
  l->counts_samples = true;
}

static void take_new(loop *l, carried *c) {
  vtb__eval *e = l->e;
  const vtb__binding *b = vtb__env_find_here(e->env, c->name);
  vtb__val v = b->value;
  if (v.kind == VTB__ERROR || !(c->new = vtb__as_tensor(e, v, b->span))) return;
  const vtb_type *t = &c->new->type;
  vtb_type joint;
  bool units = vtb_type_unit_reshape(t, &c->old->type); /* mean(x) is [1], and s = 0.0 is [] */
  bool fits = units || (vtb_type_broadcast(t, &c->old->type, &joint) &&
                        vtb_type_equal(&joint, &c->old->type));
  fits &= t->dtype == c->old->type.dtype;
  if (!fits) {
    changed(l, c, b->span, t, "");
    return;
  }
  const vtb__layout *order = v.kind == VTB__TENSOR ? v.u.t.layout : &vtb__plain;
  if (order->kind != VTB__PLAIN && c->layout->kind != VTB__PLAIN &&
      !vtb__layout_equal(order, c->layout)) {
    changed(l, c, b->span, t, ", in another order");
    return;
  }
  c->new = units ? vtb_b_shaped(vtb__at(e, b->span), c->new, &c->old->type)
                 : vtb_b_stretched(vtb__at(e, b->span), c->new, &c->old->type);
  if (c->new && l->by_sample) keep_if_done(l, c, b->span);
}

/* A sample that is done is computed beside the others, from where it began: a derivative that is
 * infinite where it ended would make NaN of the zeros that come back to it. */
static void compute_elsewhere_if_done(loop *l) {
  for (size_t i = 0; i < l->carried.n && l->by_sample && l->most > 1; i++) {
    const carried *c = &l->carried.at[i];
    if (!has_samples(l, &c->old->type)) continue; /* refused behind the body */
    vtb__env_find_here(l->e->env, c->name)->value =
        vtb__tensor(if_going(l, l->s->span, c->old, c->init), c->layout);
  }
}

/* Evaluates condition and body on the stand-ins. */
static bool evaluate(loop *l) {
  vtb__eval *e = l->e;
  const vtb_stmt *s = l->s;
  vtb_name as = s->u.iterate.as;
  int errors = e->diags->n_errors;
  for (size_t i = 0; i < l->carried.n; i++) {
    carried *c = &l->carried.at[i];
    c->old = stand_in(l, c->init);
    vtb__binding *b = vtb__env_find_here(e->env, c->name);
    b->value = vtb__tensor(c->old, c->layout);
  }
  if (as.text)
    vtb__env_bind(e, as.text, vtb__tensor(l->seen.index, NULL), "the index of a loop", as.span);
  l->begin = e->frame->func->last;
  if (s->u.iterate.test && !(l->cond = condition(l))) return false;
  l->cond_end = e->frame->func->last;
  if (l->cond) l->go = stand_in(l, l->cond);
  compute_elsewhere_if_done(l);
  (void)vtb__body_value(e, &s->u.iterate.body);
  bool ok = e->diags->n_errors == errors && !e->stopped && others_stay(l);
  for (size_t i = 0; i < l->carried.n && ok; i++) take_new(l, &l->carried.at[i]);
  ok &= e->diags->n_errors == errors && !e->stopped;
  if (ok && l->by_sample && as.text) count_samples(l);
  return ok;
}

/* ---- what moves into the loop ---------------------------------------------------------------- */

/* The stand-ins, and what is made of them; of a step that may not be run everything. */
static void mark_moves(loop *l) {
  vtb_func *f = l->e->frame->func;
  l->moves = VTB_NEW_ARRAY(&l->e->arena, bool, f->n_values);
  l->wanted = VTB_NEW_ARRAY(&l->e->arena, bool, f->n_values);
  l->moves[l->seen.index->id] = true;
  for (size_t i = 0; i < l->carried.n; i++) l->moves[l->carried.at[i].old->id] = true;
  if (l->go) l->moves[l->go->id] = true;
  for (const vtb_inst *i = l->begin->next; i; i = i->next) {
    bool moves = l->go && l->most == 1;
    for (int o = 0; o < i->n_operands; o++) moves |= l->moves[i->operands[o]->id];
    for (int r = 0; r < i->n_results; r++) l->moves[i->results[r]->id] |= moves;
  }
  for (size_t i = 0; i < l->carried.n; i++) l->wanted[l->carried.at[i].new->id] = true;
  vtb_add_sources(l->go ? l->go->def->next : l->begin->next, f->last, l->wanted);
  if (l->go) vtb_add_sources(l->begin->next, l->go->def->prev, l->wanted);
}

static void capture(loop *l, vtb_value *v) {
  if (l->of[v->id]) return;
  if (v->def && v->def->op == VTB_OP_constant) {
    vtb_inst_copy(&l->b, v->def, l->of);
    return;
  }
  l->of[v->id] = vtb_func_add_arg(l->b.func, v->name, v->type);
  vtb_vec_push(&l->captured, v);
}

/* Copies what moves, of (from, to], into the loop's function, of what `of` has; only what is
 * wanted, or all. */
static void copy_in(loop *l, const vtb_inst *from, const vtb_inst *to, bool all) {
  for (const vtb_inst *i = from->next; i && from != to; from = i, i = i->next) {
    const vtb_value *made = i->results[0];
    if (!l->moves[made->id] || (l->of[made->id] && !all)) continue;
    if (!all && !vtb_makes_any(i, l->wanted)) continue;
    for (int o = 0; o < i->n_operands; o++) capture(l, i->operands[o]);
    vtb_inst_copy(&l->b, i, l->of);
  }
}

/* The condition of the new values, 0 where it was 0 before; in a loop of one step nobody asks. */
static vtb_value *next_condition(loop *l, vtb_value *go) {
  if (l->most == 1) return go;
  l->b.span = (vtb_span){0};
  if (l->cond_end != l->begin) copy_in(l, l->begin, l->cond_end, true);
  capture(l, l->cond);
  vtb_value *next = l->of[l->cond->id];
  l->b.span = l->s->u.iterate.test->span;
  return l->by_sample ? vtb_b_select(&l->b, go, next, vtb_b_constant(&l->b, 0)) : next;
}

/* The loop's function: states, then what is captured; returns the new states. */
static void make_function(loop *l, bool counts) {
  vtb__eval *e = l->e;
  vtb_func *outer = e->frame->func;
  vtb_func *f = vtb_func_new(e->module, "loop", VTB_FUNC_PLAIN, l->s->span);
  l->b = (vtb_builder){.module = e->module, .func = f}; /* copies keep their places in the text */
  l->of = VTB_NEW_ARRAY(&e->arena, vtb_value *, outer->n_values);
  vtb_value **next = VTB_NEW_ARRAY(&e->arena, vtb_value *, l->carried.n + 2);
  vtb_value *index = NULL, *go = NULL;
  int n = 0;
  if (l->go) go = l->of[l->go->id] = vtb_func_add_arg(f, "go", l->go->type);
  if (counts) index = l->of[l->seen.index->id] = vtb_func_add_arg(f, "i", l->seen.index->type);
  for (size_t i = 0; i < l->carried.n; i++) {
    const carried *c = &l->carried.at[i];
    l->of[c->old->id] = vtb_func_add_arg(f, c->name, c->old->type);
  }
  copy_in(l, l->begin, outer->last, false);
  l->b.span = l->s->span;
  n = l->go ? 1 : 0;
  if (counts)
    next[n++] = vtb_b_binary(&l->b, VTB_OP_add, index, vtb_b_splat(&l->b, 1, &index->type));
  for (size_t i = 0; i < l->carried.n; i++) {
    capture(l, l->carried.at[i].new);
    next[n++] = l->of[l->carried.at[i].new->id];
  }
  n = l->go ? 1 : 0;
  if (counts) l->of[l->seen.index->id] = next[n++];
  for (size_t i = 0; i < l->carried.n; i++) l->of[l->carried.at[i].old->id] = next[n++];
  if (l->go) next[0] = next_condition(l, go);
  vtb_func_set_returns(f, next, NULL, n);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* The condition of the values before the loop, behind the instructions that stay there. */
static vtb_value *first_condition(loop *l) {
  vtb_builder *b = vtb__at(l->e, l->s->span);
  vtb_func *f = l->e->frame->func;
  if (!b) return NULL;
  vtb_value **of = VTB_NEW_ARRAY(&l->e->arena, vtb_value *, f->n_values);
  of[l->seen.index->id] = l->seen.index->def->operands[0];
  for (size_t i = 0; i < l->carried.n; i++) of[l->carried.at[i].old->id] = l->carried.at[i].init;
  const vtb_inst *at = l->begin;
  while (at != l->cond_end) {
    at = at->next;
    if (!l->moves[at->results[0]->id]) continue;
    for (int o = 0; o < at->n_operands; o++)
      if (!of[at->operands[o]->id]) of[at->operands[o]->id] = at->operands[o];
    vtb_inst_copy(b, at, of);
  }
  return of[l->cond->id] ? of[l->cond->id] : l->cond;
}

static void drop_moved(loop *l, const vtb_inst *end) {
  for (vtb_inst *i = (vtb_inst *)end, *before; i; i = before) {
    before = i->prev;
    if (l->moves[i->results[0]->id]) vtb_inst_unlink(i);
  }
}

/* A value that nothing changes which the loop hands on: the same behind one step and many. */
static void warn_of_same(loop *l) {
  for (size_t i = 0; i < l->carried.n && l->most > 1; i++) {
    const carried *c = &l->carried.at[i];
    if (l->moves[c->new->id]) continue;
    vtb_diag_warning(l->e->diags, VTB_DIAG_LOOP_STATE, vtb__env_find_here(l->e->env, c->name)->span,
                     "'%s' is the same behind every step: it is made of nothing that the loop "
                     "changes",
                     c->name);
  }
}

static void build(loop *l) {
  vtb__eval *e = l->e;
  const vtb_inst *end = e->frame->func->last;
  mark_moves(l);
  warn_of_same(l);
  bool counts = l->go || vtb_is_read(l->seen.index);
  make_function(l, counts);
  vtb_value **at = VTB_NEW_ARRAY(&e->arena, vtb_value *, l->carried.n + l->captured.n + 2);
  int n = 0;
  if (l->go) at[n++] = first_condition(l);
  if (counts) at[n++] = l->seen.index->def->operands[0];
  for (size_t i = 0; i < l->carried.n; i++) at[n++] = l->carried.at[i].init;
  int states = n;
  for (size_t i = 0; i < l->captured.n; i++) at[n++] = l->captured.at[i];
  vtb_attr attrs[] = {VTB_A_INT("states", states), VTB_A_INT("seqs", 0),
                      VTB_A_INT("steps", l->most), VTB_A_INT("while", 1)};
  vtb_inst *fold =
      vtb_build_call(vtb__at(e, l->s->span), VTB_OP_fold, l->b.func, at, n, attrs, l->go ? 4 : 3);
  if (!fold) return;
  drop_moved(l, end);
  int first = states - (int)l->carried.n;
  for (size_t i = 0; i < l->carried.n; i++) {
    const carried *c = &l->carried.at[i];
    vtb__val v = vtb__tensor(fold->results[first + (int)i], c->layout);
    vtb__binding *b = vtb__env_find_here(e->env, c->name);
    vtb__env_bind(e, c->name, v, NULL, b ? b->span : l->s->u.iterate.as.span);
    vtb__name_assigned(e, v, c->name);
  }
  vtb_name as = l->s->u.iterate.as;
  if (as.text && l->go && !l->counts_samples)
    vtb__env_bind(e, as.text, vtb__tensor(fold->results[1], NULL), NULL, as.span);
}

static bool count(vtb__eval *e, const vtb_stmt *s, int64_t *n) {
  const vtb_expr *x = s->u.iterate.count;
  if (s->u.iterate.most.text && strcmp(s->u.iterate.most.text, "most") != 0)
    return vtb__report(e, VTB_DIAG_LOOP_END, s->u.iterate.most.span,
                       "a loop takes 'most', the number of steps it has at most, not '%s'",
                       s->u.iterate.most.text),
           false;
  if (!x) {
    vtb__report(e, VTB_DIAG_LOOP_END, s->u.iterate.test->span, "a loop that may never end");
    vtb__help(e, "say how many steps it has at most: iterate while c, most = 200 { ... }");
    return false;
  }
  vtb__val v = vtb__expr(e, x);
  if (v.kind == VTB__INT && v.u.i >= 1 && v.u.i <= MOST_STEPS) {
    *n = v.u.i;
    return true;
  }
  if (v.kind == VTB__ERROR) return false;
  vtb__report(e, v.kind == VTB__TENSOR ? VTB_DIAG_NOT_COMPILE_TIME : VTB_DIAG_LOOP_END, x->span,
              "a loop has 1 to %d steps, an int known when compiling, not %s", MOST_STEPS,
              vtb__describe(e, v));
  if (v.kind == VTB__TENSOR)
    vtb__help(e, "as many steps as a tensor says: iterate while float(i) < n, most = 200 as i "
                 "{ ... }");
  return false;
}

static bool may_stand_here(vtb__eval *e, const vtb_stmt *s) {
  const vtb__frame *f = e->frame;
  if (f && !f->step && f->func->kind == VTB_FUNC_PLAIN) return true;
  vtb__report(e, VTB_DIAG_MISPLACED, s->span, "iterate belongs to models, blocks and functions");
  if (f && f->step) vtb__help(e, "a recurrence is a loop: it is run at each token");
  return false;
}

void vtb__iterate(vtb__eval *e, const vtb_stmt *s) {
  loop l = {.e = e, .s = s};
  if (!may_stand_here(e, s) || !count(e, s, &l.most)) return;
  vtb_type number = {.dtype = VTB_I32};
  l.seen = (vtb__loop){.up = e->frame->loop, .stride = 0x3A8D + 26 * (int64_t)e->n_loops++};
  l.seen.index = stand_in(&l, vtb_b_splat(vtb__at(e, s->span), 0, &number));
  const vtb__binding *outer =
      s->u.iterate.as.text ? vtb__env_find_here(e->env, s->u.iterate.as.text) : NULL;
  vtb__binding was = outer ? *outer : (vtb__binding){0};
  if (l.seen.index && carry(&l)) {
    remember(&l);
    e->frame->loop = &l.seen;
    bool ok = evaluate(&l);
    e->frame->loop = l.seen.up;
    forget(&l);
    if (outer) vtb__env_find_here(e->env, was.name)->value = was.value;
    if (outer) vtb__env_find_here(e->env, was.name)->fixed = was.fixed;
    for (size_t i = 0; i < l.known.n && !ok; i++)
      l.known.at[i].binding->value = l.known.at[i].was.value;
    if (ok) build(&l);
  }
  vtb_map_free(&l.names);
  vtb_vec_free(&l.assigned);
  vtb_vec_free(&l.carried);
  vtb_vec_free(&l.known);
  vtb_vec_free(&l.first);
  vtb_vec_free(&l.captured);
}
