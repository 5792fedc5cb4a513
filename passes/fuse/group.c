/* See group.h. */
#include "passes/fuse/group.h"

#include "ir/checks.h"
#include "ir/narrow.h"
#include "ir/recurrence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

vtb__group vtb__group_round(vtb_func *f, vtb_inst *anchor) {
  vtb__group g = {.func = f, .anchor = anchor, .at = {anchor}, .n = 1};
  g.ops = vtb__group_ops(anchor);
  return g;
}

bool vtb__group_has(const vtb__group *g, const vtb_inst *i) {
  for (int m = 0; m < g->n; m++)
    if (g->at[m] == i) return true;
  return false;
}

int vtb__group_ops(const vtb_inst *i) {
  int n = 1;
  for (const vtb_inst *x = i->callee ? i->callee->first : NULL; x; x = x->next) n++;
  return n;
}

bool vtb__group_add(vtb__group *g, vtb_inst *i) {
  if (vtb__group_has(g, i)) return true;
  if (g->ops + vtb__group_ops(i) > VTB__GROUP_MOST) return false;
  g->at[g->n++] = i;
  g->ops += vtb__group_ops(i);
  return true;
}

/* ---- readers --------------------------------------------------------------------------------- */

static bool is_view(const vtb__group *g, const vtb_inst *i) {
  return i->op == VTB_OP_reshape && !vtb__group_has(g, i);
}

bool vtb__group_is_read(const vtb__group *g, const vtb_value *v) {
  for (vtb_inst **r = vtb__readers(v); *r; r++)
    if (is_view(g, *r) ? vtb__group_is_read(g, (*r)->results[0]) : !vtb__group_has(g, *r))
      return true;
  return vtb_is_returned(v);
}

bool vtb__group_reads_alone(const vtb__group *g, const vtb_inst *i) {
  for (int r = 0; r < i->n_results; r++)
    if (vtb__group_is_read(g, i->results[r])) return false;
  return true;
}

vtb_inst *vtb__group_maker(const vtb__group *g, const vtb_value *v) {
  vtb_inst *def = vtb_behind_reshapes(v)->def;
  return def && vtb__group_has(g, def) ? def : NULL;
}

bool vtb__group_needs(const vtb__group *g, const vtb_inst *i) {
  VTB__EACH_MEMBER_READ(g, m, v)
  if (vtb_behind_reshapes(*v)->def == i) return true;
  return false;
}

/* ---- where it stands ------------------------------------------------------------------------- */

/* The first in the order of the function, or the last. */
static vtb_inst *member_at(const vtb__group *g, bool last) {
  vtb_inst *found = g->at[0];
  for (int m = 1; m < g->n; m++) {
    vtb_inst *i = g->at[m];
    if (last ? i->order > found->order : i->order < found->order) found = i;
  }
  return found;
}

/* By order from `first` on: whether an instruction outside is computed of what members make. */
typedef struct dependents {
  int first, n;
  bool *on;
} dependents;

static dependents find_dependents(const vtb__group *g) {
  vtb_inst *from = member_at(g, false);
  int last = member_at(g, true)->order;
  dependents d = {.first = from->order, .n = last + 1 - from->order};
  d.on = VTB_SCRATCH(g->func, bool, d.n);
  for (const vtb_inst *i = from; i && i->order <= last; i = i->next)
    for (int o = 0; o < i->n_operands; o++) {
      const vtb_inst *def = i->operands[o]->def;
      if (def && def->order >= d.first && (d.on[def->order - d.first] || vtb__group_has(g, def)))
        d.on[i->order - d.first] = true;
    }
  return d;
}

static bool depends(const dependents *d, const vtb_inst *i) {
  return i && i->order >= d->first && i->order < d->first + d->n && d->on[i->order - d->first];
}

/* The value that v is a view of inside: a member's, one that the anchor reads or, with `views`,
 * any; v itself: it is no view. */
static const vtb_value *source_of(const vtb__group *g, const vtb_value *v) {
  const vtb_value *base = v, *found = v;
  if (v->def && vtb__group_has(g, v->def)) return v;
  while (base->def && is_view(g, base->def)) base = base->def->operands[0];
  if ((g->whole || g->loop) && !(base->def && vtb__group_has(g, base->def))) return v;
  if (g->views || (base->def && vtb__group_has(g, base->def))) return base;
  for (int o = g->anchor->n_operands; o-- > 0 && !g->factors;) {
    const vtb_value *read = g->anchor->operands[o];
    if (read == v) return v;
    if (vtb_behind_reshapes(read) == base) found = read;
  }
  return found;
}

bool vtb__group_is_whole(const vtb__group *g) {
  dependents d = find_dependents(g);
  VTB__EACH_MEMBER_READ(g, m, v) {
    const vtb_inst *def = source_of(g, *v)->def;
    if (def && !vtb__group_has(g, def) && depends(&d, def)) return false;
  }
  return true;
}

/* Right behind what the group reads: before which instruction. */
static vtb_inst *place_of(const vtb__group *g) {
  const vtb_inst *last = NULL;
  if (g->loop) return member_at(g, true);
  VTB__EACH_MEMBER_READ(g, m, v) {
    const vtb_inst *def = source_of(g, *v)->def;
    if (def && !vtb__group_has(g, def) && (!last || def->order > last->order)) last = def;
  }
  return last ? last->next : g->func->first;
}

/* Instructions that depend on the group and stand before its kernel move behind it. */
static void move_dependents(const vtb__group *g, const dependents *d, const vtb_inst *kernel,
                            vtb_inst *behind) {
  vtb_inst *from = member_at(g, false);
  if (from->order >= kernel->order) return;
  for (vtb_inst *i = from, *next; i != kernel; i = next) {
    next = i->next;
    if (!vtb__group_has(g, i) && depends(d, i)) vtb_inst_move_before(i, behind);
  }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static int by_order(const void *x, const void *y) {
  return (*(vtb_inst *const *)x)->order - (*(vtb_inst *const *)y)->order;
}

/* Members in order: those that the anchor needs, the anchor, the others. */
static void sort_members(vtb__group *g) {
  bool need[VTB__GROUP_MOST] = {false};
  vtb_inst *sorted[VTB__GROUP_MOST];
  int n = 0, at = 0;
  qsort(g->at, (size_t)g->n, sizeof *g->at, by_order);
  if (g->loop) return;
  while (g->at[at] != g->anchor) at++;
  need[at] = true;
  for (int m = at; m >= 0; m--)
    for (int o = 0; need[m] && o < g->at[m]->n_operands; o++)
      for (int k = 0; k < m; k++) need[k] |= source_of(g, g->at[m]->operands[o])->def == g->at[k];
  for (int m = 0; m < g->n; m++)
    if (need[m]) sorted[n++] = g->at[m];
  for (int m = 0; m < g->n; m++)
    if (!need[m]) sorted[n++] = g->at[m];
  for (int m = 0; m < g->n; m++) g->at[m] = sorted[m];
}

/* A value of the function, and what it is inside. */
typedef struct known {
  const vtb_value *outer;
  vtb_value *inner;
} known;

typedef struct kernel {
  const vtb__group *g;
  vtb_func *func;
  vtb_builder b;
  VTB_VEC(known) inside;
  VTB_VEC(vtb_value *) inputs, results;
} kernel;

static vtb_value *find_inside(const kernel *k, const vtb_value *v) {
  for (size_t i = 0; i < k->inside.n; i++)
    if (k->inside.at[i].outer == v) return k->inside.at[i].inner;
  return NULL;
}

static vtb_value *know(kernel *k, const vtb_value *outer, vtb_value *inner) {
  vtb__put(&k->b, &k->inside, ((known){outer, inner}));
  return inner;
}

static vtb_value *argument(kernel *k, vtb_value *v) {
  vtb_type t = v->type; /* kernels read it as f32, whatever memory holds */
  t.dtype = vtb_is_half(t.dtype) ? VTB_F32 : t.dtype;
  vtb__put(&k->b, &k->inputs, v);
  return vtb_func_add_arg(k->func, v->name, t);
}

static vtb_value *value_inside(kernel *k, vtb_value *v) {
  vtb_value *inside = find_inside(k, v), *source = (vtb_value *)source_of(k->g, v);
  if (inside) return inside;
  if (k->g->loop && v->def && vtb_is_splat(v->def))
    return know(k, v, vtb_inst_clone(&k->b, v->def, NULL)->results[0]);
  if (source == v) return know(k, v, argument(k, v));
  inside = value_inside(k, source);
  return know(k, v, vtb_b_reshape(&k->b, inside, &v->type));
}

/* Operand o of a member. */
static vtb_value *operand_inside(kernel *k, const vtb_inst *i, int o) {
  vtb_value *v = i->operands[o];
  if (!k->g->factors || i != k->g->anchor) return value_inside(k, v);
  vtb_value *factor = argument(k, v);
  if (k->g->shared && !find_inside(k, v)) know(k, v, factor);
  return factor;
}

static void copy_member(kernel *k, const vtb_inst *i) {
  vtb_value **operands = VTB_SCRATCH(&k->b, vtb_value *, i->n_operands);
  for (int o = 0; o < i->n_operands; o++) operands[o] = operand_inside(k, i, o);
  vtb_value **made = i->op == VTB_OP_fused ? vtb__inlined(&k->b, i->callee, operands)
                                           : vtb_inst_clone(&k->b, i, operands)->results;
  for (int r = 0; r < i->n_results; r++) know(k, i->results[r], made[r]);
}

/* The group's flaw; NULL: it has none. */
static const char *flaw_of(const vtb__group *g) {
  const vtb_func *f = g->func;
  if (g->n < 1 || g->n > VTB__GROUP_MOST) return vtb__text(f, "has %d members", g->n);
  if (!vtb__group_has(g, g->anchor)) return "is without its anchor";
  for (int m = 0; m < g->n; m++) {
    const vtb_inst *i = g->at[m];
    const char *op = vtb_op_get(i->op)->name;
    if (i->func != f) return vtb__text(f, "has a %s of @%s", op, i->func->name);
    if (!vtb_is_linked(i)) return vtb__text(f, "has a %s that is not in it", op);
    for (int k = 0; k < m; k++)
      if (g->at[k] == i) return vtb__text(f, "has a %s twice", op);
  }
  return vtb__group_is_whole(g) ? NULL : "has no place between what it reads and what reads it";
}

vtb_status vtb__group_check(const vtb__group *g, vtb_error *err) {
  const char *flaw = flaw_of(g);
  if (!flaw) return VTB_OK;
  return vtb_fail(err, VTB_E_INTERNAL, "a group of @%s %s", g->func->name, flaw);
}

/* Reshapes of v that nothing outside reads. */
static void drop_views(const vtb__group *g, const vtb_value *v) {
  for (vtb_inst **r = vtb__readers(v); *r; r++) {
    if (!is_view(g, *r)) continue;
    drop_views(g, (*r)->results[0]);
    if (!vtb__group_is_read(g, (*r)->results[0])) vtb_inst_unlink(*r);
  }
}

static bool is_result(const vtb__group *g, const vtb_inst *i, int r) {
  return (g->whole && i->op == g->anchor->op && vtb_scan_computes(i, r) &&
          !vtb_is_read(i->results[r])) ||
         vtb__group_is_read(g, i->results[r]);
}

/* The body, and what is read outside. */
static void fill(kernel *k, vtb__group *g) {
  sort_members(g);
  for (int m = 0; m < g->n; m++) copy_member(k, g->at[m]);
  for (int m = 0; m < g->n; m++)
    for (int r = 0; r < g->at[m]->n_results; r++) {
      if (!is_result(g, g->at[m], r)) continue;
      vtb__put(&k->b, &k->results, g->at[m]->results[r]);
      vtb_func_add_return(k->func, find_inside(k, g->at[m]->results[r]), NULL);
    }
}

/* Whoever read a result reads the kernel's, whose axes get the names that were known there. */
static void take_place(vtb_value *old, vtb_value *now) {
  for (int a = 0; a < now->type.rank; a++) now->type.dim[a].name = old->type.dim[a].name;
  vtb__stand_in(old, now);
}

/* Whoever read the results reads the kernel's; the members are gone, and the orders, of which there
 * are enough, hold again. */
static void replace(vtb__group *g, vtb_inst *fused, const kernel *k) {
  const vtb_inst *end = member_at(g, true)->next;
  vtb_inst *first = member_at(g, false), *before = first->prev;
  int order = first->order < fused->order ? first->order : fused->order;
  bool leads = first->order >= fused->order;
  for (int m = 0; m < g->n; m++)
    for (int r = 0; r < g->at[m]->n_results; r++) drop_views(g, g->at[m]->results[r]);
  for (size_t r = 0; r < k->results.n; r++) take_place(k->results.at[r], fused->results[r]);
  for (int m = g->n; m-- > 0;) vtb_inst_unlink(g->at[m]);
  vtb_inst *i = leads ? fused : before ? before->next : g->func->first;
  for (; i && i != end; i = i->next) i->order = order++;
}

static void forget_names(vtb_type *t) {
  for (int d = 0; d < t->rank; d++) t->dim[d].name = NULL;
}

/* Kernels that are one have axes without names. */
static void forget_axis_names(vtb_func *k) {
  for (int a = 0; a < k->n_args; a++) forget_names(&k->args[a]->type);
  for (vtb_inst *i = k->first; i; i = i->next)
    for (int r = 0; r < i->n_results; r++) forget_names(&i->results[r]->type);
}

static kernel make_kernel(vtb__group *g) {
  kernel k = {.g = g, .func = vtb__kernel_new(g->anchor)};
  k.b = (vtb_builder){.module = g->func->module, .func = k.func};
  if (!g->loop) k.b.span = g->anchor->span;
  fill(&k, g);
  if (g->loop) forget_axis_names(k.func);
  return k;
}

/* The members of `all` that are not in g, in order; how many. */
static int list_others(const vtb__group *all, const vtb__group *g, const vtb_inst **out) {
  int n = 0;
  for (int m = 0; m < all->n; m++)
    if (!g || !vtb__group_has(g, all->at[m])) out[n++] = all->at[m];
  qsort(out, (size_t)n, sizeof *out, by_order);
  return n;
}

/* The kernel right before the group that makes something it reads: that lies in L2. NULL: none. */
static const vtb_inst *maker_before(const vtb__group *g) {
  const vtb_inst *first = member_at(g, false), *last = NULL;
  VTB__EACH_MEMBER_READ(g, m, v) {
    const vtb_inst *def = vtb_behind_reshapes(*v)->def;
    if (def && def->order < first->order && !vtb_is_free(def->op) && def->op != VTB_OP_call &&
        (!last || def->order > last->order))
      last = def;
  }
  return last;
}

/* Behind what makes what the group reads, whose own time is left out. */
static vtb_answer ask_behind(const vtb__group *all, const vtb_inst **asked, int n,
                             vtb_asker *asker) {
  const vtb_inst *maker = maker_before(all);
  vtb_answer own = maker ? vtb_ask(asker, maker) : (vtb_answer){0};
  if (!own.takes) return vtb_ask_all(asker, asked, n);
  memmove(asked + 1, asked, (size_t)n * sizeof *asked);
  asked[0] = maker;
  vtb_answer a = vtb_ask_all(asker, asked, n + 1);
  a.seconds -= own.seconds;
  return a;
}

/* The members' answer by themselves. */
static vtb_answer ask_apart(const vtb__group *g, vtb_asker *asker) {
  const vtb_inst *asked[VTB__GROUP_MOST + 1]; /* and what is before them */
  return ask_behind(g, asked, list_others(g, NULL, asked), asker);
}

/* Their kernel's answer, beside the members of `all` that are not in g; nothing is changed. */
static vtb_answer ask_fused(vtb__group *g, vtb_kernel_kind kind, const vtb__group *all,
                            vtb_asker *asker) {
  const vtb_inst *others[VTB__GROUP_MOST], *asked[VTB__GROUP_MOST + 2], *place = place_of(g);
  int n_others = list_others(all, g, others), n = 0, at = 0;
  kernel k = make_kernel(g);
  vtb_attr attr = VTB_A_STR("kind", vtb_kernel_kind_name(kind));
  const vtb_inst call = {.op = VTB_OP_fused,
                         .n_operands = (int)k.inputs.n,
                         .n_results = (int)k.results.n,
                         .n_attrs = 1,
                         .operands = k.inputs.at,
                         .results = k.results.at,
                         .attrs = &attr,
                         .callee = k.func,
                         .func = g->func};
  while (at < n_others && place && others[at]->order < place->order) asked[n++] = others[at++];
  asked[n++] = &call;
  while (at < n_others) asked[n++] = others[at++];
  vtb_answer a = ask_behind(all, asked, n, asker);
  vtb_module_remove(g->func->module, k.func);
  return a;
}

bool vtb__group_pays(vtb_pass_context *c, vtb_decision *d, vtb__group *g, vtb_kernel_kind kind,
                     const vtb__group *all) {
  if (!c->asker) return true; /* nobody knows better than the rows */
  vtb_answer apart = ask_apart(all, c->asker), fused = ask_fused(g, kind, all, c->asker);
  bool any = c->decisions && c->decisions->all;
  d->apart = apart.takes ? apart.seconds : INFINITY;
  d->fused = fused.takes ? fused.seconds : INFINITY;
  bool pays = fused.takes && (any || d->fused <= (1 + VTB_FUSION_MARGIN) * d->apart);
  d->verdict = !pays ? VTB_LEFT_OUT : g->n < all->n ? VTB_FUSED_IN_PART : VTB_FUSED;
  snprintf(d->place, sizeof d->place, "%s", g->anchor->results[0]->name);
  if (!fused.takes && !*d->why && fused.why) snprintf(d->why, sizeof d->why, "%s", fused.why);
  return pays;
}

void vtb__group_decided(vtb_pass_context *c, const vtb_decision *d) {
  if (c->decisions && c->asker) vtb_vec_push(&c->decisions->at, *d);
}

vtb_inst *vtb__group_join(vtb__group *g, vtb_kernel_kind kind) {
  vtb_error err = {0};
  vtb_func *f = g->func;
  if (vtb_checks()) vtb_check(vtb__group_check(g, &err) == VTB_OK, "%s", err.text);
  kernel k = make_kernel(g);
  dependents d = find_dependents(g);
  vtb_inst *place = place_of(g);
  vtb_builder outer = {.module = f->module, .func = f, .before = place, .span = g->anchor->span};
  vtb_attr attr = VTB_A_STR("kind", vtb_kernel_kind_name(kind));
  vtb_inst *fused =
      vtb_build_call(&outer, VTB_OP_fused, k.func, k.inputs.at, (int)k.inputs.n, &attr, 1);
  fused->order = place ? place->order : INT32_MAX;
  move_dependents(g, &d, fused, place);
  replace(g, fused, &k);
  return fused;
}
