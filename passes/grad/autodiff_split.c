/* Cuts a joint function into a forward half, which returns what the backward half needs, and the
 * backward half.
 *
 * before   joint(x, w, d_y):  t = einsum x, w; s = silu t; y = mul s, x | g = mul d_y, x; ...
 *                             (behind the bar: adjoint code, which reads t, s, x, w)
 * after    fwd(x, w) -> (y, t)        bwd(x, w, t, d_y): s = silu t; ...
 *
 * Saved or recomputed: elementwise ops and moves of elements may run again in the backward half,
 * all others may not; arguments cost nothing, as the caller still has them. The saved set is the
 * cheapest cut (in bytes) between what cannot be recomputed and what the adjoint code reads. A view
 * costs twice, since saving it is a copy: its source is saved instead unless the view is a small
 * part of it. What lies in memory anyway is a little cheaper: a value that is returned, what a scan
 * by products makes, and what is read again behind an op that is no part of a kernel with others (a
 * residual stream). Equal costs are decided towards the later value. Where memory is the limit
 * (`keeps`), what products of both halves read costs nothing: either half stores it anyway; and
 * small matrices a group of channels run again where a scan's kernels, both ways, take them.
 */
#include "passes/grad/autodiff.h"

#include "ir/product.h"
#include "ir/recurrence.h"

#define NOMINAL_BATCH 32 /* what the batch counts in a comparison of sizes */

typedef struct split {
  vtb__ad *ad;
  vtb__ad_func *fi;
  vtb_func *joint;
  vtb_inst *first_backward; /* NULL: no adjoint code */
  vtb_value *const *outs;
  int n_outs;
  bool *live;                /* by value id: the backward half needs it */
  bool *saved;               /* by value id */
  VTB_VEC(vtb_value *) kept; /* those, in program order */
  int *behind, behind_now;   /* by value id: see is_read_again() */
  vtb_value **map;           /* by value id: its copy in the half being built */
  vtb_builder b;
} split;

/* ---- what to save ---------------------------------------------------------------------------- */

/* No adjoint code. */
static bool is_forward(const split *s, const vtb_inst *i) {
  return !s->first_backward || i->order < s->first_backward->order;
}

/* Small matrices a group of channels that make rows of a scan of few tokens: its kernels, both
 * ways, take what they multiply (fuse/words_mixer.c). */
static bool is_in_scan(const split *s, const vtb_inst *inst) {
  enum { MOST_TOKENS = 256, MOST_STEPS = 8 };
  if (!s->ad->keeps || inst->op != VTB_OP_einsum || !vtb__is_small_map(inst)) return false;
  for (int step = 0; step < MOST_STEPS; step++) {
    vtb_inst *next = NULL;
    int n = 0;
    for (vtb_inst **r = vtb__readers(inst->results[0]); *r; r++)
      if (is_forward(s, *r)) next = *r, n++;
    if (n != 1) return false;
    if (next->op == VTB_OP_linscan) {
      vtb_scan scan = vtb_scan_of(next);
      return vtb_scan_is_product(next) && scan.n_tokens <= MOST_TOKENS && !scan.init &&
             !scan.recurrent && scan.chunk >= scan.n_tokens;
    }
    if (next->op != VTB_OP_add && next->op != VTB_OP_mul && next->op != VTB_OP_reshape)
      return false;
    inst = next;
  }
  return false;
}

static bool can_recompute(const split *s, const vtb_inst *inst) {
  vtb_op_class c = vtb_op_get(inst->op)->klass;
  return c == VTB_CLASS_ELEMENTWISE || c == VTB_CLASS_SHAPE || inst->op == VTB_OP_tap ||
         is_in_scan(s, inst);
}

static bool is_seen_elsewhere(const vtb_value *v) {
  return vtb_is_view(v->def->op) || v->def->op == VTB_OP_tap;
}

static bool is_whole_op(const vtb_inst *i) {
  vtb_op_class c = vtb_op_get(i->op)->klass;
  return c == VTB_CLASS_STRUCTURED || c == VTB_CLASS_CONTROL;
}

/* An elementwise value is read once more by what depends on it through a structured op or a
 * call: behind[] holds one number for what depends on it, the next for what does so through one. */
static bool is_read_again(split *s, const vtb_value *v) {
  if (!v->def || is_whole_op(v->def) || is_seen_elsewhere(v)) return false;
  const vtb_inst *last = NULL; /* in the forward half */
  for (vtb_inst **r = vtb__readers(v); *r; r++)
    if (is_forward(s, *r)) last = *r;
  bool again = false;
  s->behind_now += 2;
  s->behind[v->id] = s->behind_now;
  for (const vtb_inst *i = last ? v->def->next : NULL; i && !again; i = i->next) {
    int reaches = 0;
    bool reads = false;
    for (int o = 0; o < i->n_operands; o++) {
      int b = s->behind[i->operands[o]->id];
      if (b >= s->behind_now && b > reaches) reaches = b;
      reads |= i->operands[o] == v;
    }
    again = reads && reaches > s->behind_now;
    if (reaches && is_whole_op(i)) reaches = s->behind_now + 1;
    for (int r = 0; r < i->n_results && reaches; r++) s->behind[i->results[r]->id] = reaches;
    if (i == last) break;
  }
  return again;
}

static bool lies_in_memory(split *s, const vtb_value *v) {
  bool product = v->def->op == VTB_OP_linscan && vtb_scan_is_product(v->def);
  return vtb_is_returned(v) || product || is_read_again(s, v);
}

static bool is_factor_of_both(const split *s, const vtb_value *v) {
  bool ahead = false, back = false;
  if (!s->ad->keeps || !s->first_backward || !vtb_type_is_dynamic(&v->type)) return false;
  if (is_seen_elsewhere(v)) return false;
  for (vtb_inst **r = vtb__readers(v); *r; r++) {
    const vtb_inst *i = *r;
    if (i->op != VTB_OP_einsum || (i->operands[0] != v && i->operands[1] != v)) continue;
    ahead |= is_forward(s, i) && vtb_is_product(i);
    back |= !is_forward(s, i) && vtb_ends_in_parameter(i);
  }
  return ahead && back;
}

/* In quarters of a byte: a value that is stored anyway is a little cheaper, a view dearer. */
static int64_t save_cost(split *s, const vtb_value *v) {
  if (is_factor_of_both(s, v)) return 0;
  int64_t elements = vtb_type_count(&v->type) * (vtb_type_is_dynamic(&v->type) ? NOMINAL_BATCH : 1);
  return elements * 4 * (lies_in_memory(s, v) ? 3 : is_seen_elsewhere(v) ? 8 : 4);
}

static void mark_live(split *s) {
  for (int i = 0; i < s->n_outs; i++) s->live[s->outs[i]->id] = true;
  if (s->first_backward) vtb_add_sources(s->first_backward, s->joint->last, s->live);
}

/* Vertices are value ids. The adjoint code's own values and the seeds have no edges and do not
 * matter. */
static void choose_saved(split *s) {
  int n = s->joint->n_values;
  int64_t *weight = VTB_SCRATCH(s->joint, int64_t, n);
  bool *source = VTB_SCRATCH(s->joint, bool, n), *sink = VTB_SCRATCH(s->joint, bool, n);
  VTB_VEC(int) edges = {0};
  for (vtb_inst *inst = s->joint->first; inst && inst != s->first_backward; inst = inst->next) {
    for (int r = 0; r < inst->n_results; r++) {
      int id = inst->results[r]->id;
      weight[id] = save_cost(s, inst->results[r]);
      sink[id] = s->live[id];
      source[id] = !can_recompute(s, inst);
      if (source[id]) continue;
      for (int k = 0; k < inst->n_operands; k++) {
        vtb__put(s->joint, &edges, inst->operands[k]->id);
        vtb__put(s->joint, &edges, id);
      }
    }
  }
  vtb__min_vertex_cut(s->joint->module, n, weight, source, sink, edges.at, (int)edges.n / 2,
                      s->saved);
  for (vtb_inst *inst = s->joint->first; inst && inst != s->first_backward; inst = inst->next)
    for (int r = 0; r < inst->n_results; r++)
      if (s->saved[inst->results[r]->id]) vtb__put(s->joint, &s->kept, inst->results[r]);
}

/* ---- building the halves --------------------------------------------------------------------- */

static void begin(split *s, const char *suffix) {
  s->map = VTB_SCRATCH(s->joint, vtb_value *, s->joint->n_values);
  s->b = (vtb_builder){.module = s->ad->module, .func = vtb_func_made_of(s->fi->func, suffix)};
}

static vtb_value *add_arg(split *s, const vtb_value *v, const vtb_arg_info *info) {
  vtb_value *a = vtb_func_add_arg(s->b.func, v->name, v->type);
  if (info) s->b.func->arg_info[a->index] = *info;
  s->map[v->id] = a;
  return a;
}

static void copy(split *s, const vtb_inst *inst) {
  s->b.span = inst->span;
  vtb_inst_copy(&s->b, inst, s->map);
}

/* fi->saved: for each saved value in program order its number among the results of the forward
 * half, behind whose own the others are returned. */
static void build_forward(split *s) {
  vtb_func *f = s->fi->func;
  bool *need = VTB_SCRATCH(s->joint, bool, s->joint->n_values);
  for (int r = 0; r < s->joint->n_returns; r++) need[s->joint->returns[r]->id] = true;
  for (int v = 0; v < s->joint->n_values; v++) need[v] |= s->saved[v];
  vtb_add_sources(NULL, s->first_backward ? s->first_backward->prev : s->joint->last, need);
  begin(s, "fwd");
  for (int i = 0; i < f->n_args; i++) add_arg(s, s->joint->args[i], &f->arg_info[i]);
  for (vtb_inst *inst = s->joint->first; inst && inst != s->first_backward; inst = inst->next)
    if (vtb_makes_any(inst, need)) copy(s, inst);
  vtb_func *fwd = s->fi->fwd = s->b.func;
  for (int r = 0; r < f->n_returns; r++)
    vtb_func_add_return(fwd, s->map[s->joint->returns[r]->id],
                        f->return_names ? f->return_names[r] : NULL);
  s->fi->saved = VTB_SCRATCH(s->ad, int, s->kept.n);
  for (size_t i = 0; i < s->kept.n; i++) {
    int own = vtb_return_of(s->kept.at[i]);
    s->fi->saved[s->fi->n_saved++] = own < 0 ? fwd->n_returns : own;
    if (own < 0) vtb_func_add_return(fwd, s->map[s->kept.at[i]->id], NULL);
  }
  if (fwd->n_returns > f->n_returns) return;
  s->fi->fwd = f; /* nothing is added: the function itself serves */
  vtb_module_remove(s->ad->module, fwd);
}

/* Puts a copy of a forward value into the backward half where it is not an argument there. */
static void recompute(split *s, const vtb_value *v) {
  if (s->map[v->id]) return;
  vtb_check(v->def && can_recompute(s, v->def), "%%%s of @%s is neither saved nor recomputed",
            v->name, s->joint->name);
  for (int k = 0; k < v->def->n_operands; k++) recompute(s, v->def->operands[k]);
  if (v->def->op == VTB_OP_tap)
    s->map[v->id] = s->map[v->def->operands[0]->id];
  else
    copy(s, v->def);
}

/* Marks the arguments of the function that the backward half reads, directly or to recompute
 * something. */
static void mark_args(const split *s, const vtb_value *v, bool *seen) {
  if (seen[v->id]) return;
  seen[v->id] = true;
  if (!v->def || s->saved[v->id]) return;
  for (int k = 0; k < v->def->n_operands; k++) mark_args(s, v->def->operands[k], seen);
}

static void add_backward_args(split *s) {
  vtb_func *f = s->fi->func;
  bool *seen = VTB_SCRATCH(s->joint, bool, s->joint->n_values);
  for (vtb_inst *inst = s->joint->first; inst && inst != s->first_backward; inst = inst->next)
    for (int r = 0; r < inst->n_results; r++)
      if (s->live[inst->results[r]->id]) mark_args(s, inst->results[r], seen);
  s->fi->bwd_args = VTB_SCRATCH(s->ad, int, f->n_args);
  for (int i = 0; i < f->n_args; i++) {
    vtb_value *a = s->joint->args[i];
    if (!seen[a->id] && !s->live[a->id]) continue;
    s->fi->bwd_args[s->fi->n_bwd_args++] = i;
    add_arg(s, a, NULL);
  }
  for (size_t i = 0; i < s->kept.n; i++) add_arg(s, s->kept.at[i], NULL);
  for (int i = f->n_args; i < s->joint->n_args; i++)
    add_arg(s, s->joint->args[i], &s->joint->arg_info[i]);
}

static void build_backward(split *s) {
  begin(s, "bwd");
  add_backward_args(s);
  for (vtb_inst *inst = s->first_backward; inst; inst = inst->next) {
    if (!vtb_makes_any(inst, s->live)) continue;
    for (int k = 0; k < inst->n_operands; k++) recompute(s, inst->operands[k]);
    copy(s, inst);
  }
  for (int i = 0; i < s->n_outs; i++) vtb_func_add_return(s->b.func, s->map[s->outs[i]->id], NULL);
  s->fi->bwd = s->b.func;
}

void vtb__ad_split(vtb__ad *ad, vtb__ad_func *fi, vtb_func *joint, vtb_inst *last_forward,
                   vtb_value *const *outs, int n_outs) {
  split s = {.ad = ad, .fi = fi, .joint = joint, .outs = outs, .n_outs = n_outs};
  s.first_backward = last_forward ? last_forward->next : joint->first;
  s.live = VTB_SCRATCH(joint, bool, joint->n_values);
  s.saved = VTB_SCRATCH(joint, bool, joint->n_values);
  s.behind = VTB_SCRATCH(joint, int, joint->n_values);
  vtb_func_number(joint);
  mark_live(&s);
  choose_saved(&s);
  build_forward(&s);
  build_backward(&s);
}
