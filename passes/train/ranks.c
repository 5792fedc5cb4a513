/* ranks: a training step for one of several processes, each of which has its own rows of every
 * batch.
 *
 *   %s = reduce_sum %x {axes = [0]}          %x: f32[B, C]
 *   %y = sqrt %s
 * =>
 *   %s = reduce_sum %x {axes = [0]}          of this rank's rows
 *   %s.1 = sum_ranks %s {ranks = 4}
 *   %y = sqrt %s.1
 *
 * A value is split (it has a batch axis, of which each rank has its rows), same (on all ranks),
 * whole (the rows of all, on each: whole.c), or partial (a sum over the batch, of this rank's rows:
 * the sum over the ranks is meant). What is linear in partial values makes partial ones, as long as
 * they are not much larger; where anything else reads a partial value, its sum over the ranks is
 * put behind what makes it, once. Results of calls may be partial, so that gradients of parameters
 * are summed behind the call that makes them.
 *
 * Losses, their normalisers and the statistics of batch norm become those of the whole batch.
 *
 * Ops that mix rows, or pair them, take the rows of all, and so does what reads those pairs, until
 * it is a row a sample again and meets one that is split: contrastive losses are those of the whole
 * batch, and every rank computes all of them.
 *
 * What depends on the number of a row, `random` and `iota` over the batch, counts from the input
 * VTB_RANK_FIRST, the first row of this rank.
 *
 * Where an update is made of several runs (update.c), a rank adds up its own parts, and the last
 * run sums them: sum_ranks has then a second operand.
 *
 * On targets that tell when gradients are whole (passes/target.h) those that the verdict reads stay
 * partial: its attribute `partial` has their numbers.
 */
#include "ir/axes.h"
#include "ir/fold.h"
#include "ir/product.h"
#include "ir/update.h"
#include "passes/passes_internal.h"

#include <string.h>

/* Zeros are the same on all ranks, and a part of a sum as well. */
typedef enum share {
  SAME,
  SPLIT,
  WHOLE,
  PARTIAL,
  ZEROS,
  TOLD /* what the target sums where it lies: everyone else may read it as the same */
} share;

typedef struct known { /* of a function that was visited, its `scratch` */
  share *args, *returns;
  int first; /* argument that is the first row; -1: none */
  bool sums; /* it sums over ranks */
} known;

typedef struct fact { /* of a value */
  share is;
  vtb_value *sum, *whole, *own; /* what was made of it: its sum, the rows of all, own rows */
} fact;

typedef struct sharing { /* of a function */
  vtb_pass_context *c;
  vtb_func *f;
  VTB_VEC(fact) facts; /* by value id */
  bool has_sums, told;
  vtb_value *first; /* its argument; NULL: not yet */
} sharing;

/* ---- what values are ------------------------------------------------------------------------- */

static bool is_zero(const vtb_value *v) { return vtb__is_constant(v, 0); }

static fact *fact_of(sharing *s, const vtb_value *v) { return vtb__by_id(s->f, &s->facts, v->id); }

static share share_of(sharing *s, const vtb_value *v) { return fact_of(s, v)->is; }

static bool fits_partial(sharing *s, const vtb_value *v) {
  return share_of(s, v) == PARTIAL || share_of(s, v) == ZEROS || is_zero(v);
}

static void set_share(sharing *s, const vtb_value *v, share is) { fact_of(s, v)->is = is; }

/* ---- what is wrong --------------------------------------------------------------------------- */

static void refuse(sharing *s, const vtb_inst *i, const char *why) {
  if (s->told || s->c->ranks < 2) return;
  s->told = true;
  vtb_diag_error(s->c->diags, VTB_DIAG_NOT_SHARED, i->span,
                 "%s cannot be shared out over %d processes: %s", vtb_op_get(i->op)->name,
                 s->c->ranks, why);
  vtb_diag_help(s->c->diags, "sums and means over the batch can; else train it in one process");
}

/* The input that says which part of an update a run is; NULL: an update is one run. */
static vtb_value *share_input(const vtb_func *f) {
  for (int a = 0; a < f->n_args; a++)
    if (vtb_streq(f->arg_info[a].official, VTB_UPDATE_SHARE)) return f->args[a];
  return NULL;
}

static void refuse_pieces(sharing *s, const vtb_inst *i) {
  if (s->told) return;
  s->told = true;
  vtb_diag_error(s->c->diags, VTB_DIAG_NOT_SHARED, i->span,
                 "%s needs all rows of a batch at once, and they are taken in several runs",
                 vtb_op_get(i->op)->name);
  vtb_diag_help(s->c->diags, "without --accumulate, and with a smaller --batch if memory is short");
}

static const char *const mixes = "it needs all rows of a batch in one place";
static const char *const pairs = "it pairs the rows of a batch with one another";

/* ---- sums and first rows --------------------------------------------------------------------- */

static vtb_value *sum_of(sharing *s, vtb_value *v) {
  if (s->c->ranks < 2) return v;
  if (fact_of(s, v)->sum) return fact_of(s, v)->sum;
  vtb_attr ranks = VTB_A_INT("ranks", s->c->ranks);
  vtb_builder b = {.module = s->c->module,
                   .func = s->f,
                   .before = v->def ? v->def->next : s->f->first,
                   .span = v->def ? v->def->span : s->f->span,
                   .name_hint = v->name};
  vtb_value *sum = vtb_build(&b, VTB_OP_sum_ranks, &v, 1, &ranks, 1)->results[0];
  set_share(s, sum, SAME);
  fact_of(s, v)->sum = sum;
  s->has_sums = true;
  return sum;
}

static vtb_value *first_row(sharing *s) {
  if (s->first) return s->first;
  vtb_type t = {.dtype = VTB_I32};
  bool entry = s->f == s->c->module->entry;
  s->first = vtb__named_arg(s->f, VTB_RANK_FIRST, t, entry ? VTB_ROLE_INPUT : VTB_ROLE_PLAIN);
  set_share(s, s->first, SAME);
  return s->first;
}

/* ---- rows of all ranks ----------------------------------------------------------------------- */

static vtb_builder behind(sharing *s, const vtb_value *v) {
  return (vtb_builder){.module = s->c->module,
                       .func = s->f,
                       .before = v->def ? v->def->next : s->f->first,
                       .span = v->def ? v->def->span : s->f->span,
                       .name_hint = v->name};
}

static vtb_value *whole_of(sharing *s, vtb_value *v) {
  if (share_of(s, v) != SPLIT) return v;
  if (fact_of(s, v)->whole) return fact_of(s, v)->whole;
  vtb_builder b = behind(s, v);
  vtb_value *part = vtb__among_all_rows(&b, v, first_row(s), s->c->ranks);
  vtb_attr ranks = VTB_A_INT("ranks", s->c->ranks);
  vtb_value *all = vtb_build(&b, VTB_OP_sum_ranks, &part, 1, &ranks, 1)->results[0];
  if (v->type.dtype != VTB_F32) all = vtb_b_cast(&b, all, v->type.dtype);
  set_share(s, all, WHOLE);
  s->has_sums = true;
  return fact_of(s, v)->whole = all;
}

static vtb_value *own_of(sharing *s, vtb_value *v, const vtb_inst *reader) {
  if (share_of(s, v) != WHOLE) return v;
  if (vtb_type_batch_axes(&v->type) > 1) {
    refuse(s, reader, pairs);
    return v;
  }
  if (fact_of(s, v)->own) return fact_of(s, v)->own;
  vtb_builder b = behind(s, v);
  vtb_value *own = vtb__own_rows(&b, v, first_row(s), s->c->ranks);
  set_share(s, own, SPLIT);
  fact_of(s, own)->whole = v;
  return fact_of(s, v)->own = own;
}

static void own_operands(sharing *s, vtb_inst *i) {
  for (int o = 0; o < i->n_operands; o++)
    if (share_of(s, i->operands[o]) == WHOLE)
      vtb_inst_set_operand(i, o, own_of(s, i->operands[o], i));
}

static void sum_operands(sharing *s, vtb_inst *i) {
  for (int o = 0; o < i->n_operands; o++)
    if (share_of(s, i->operands[o]) == PARTIAL)
      vtb_inst_set_operand(i, o, sum_of(s, i->operands[o]));
}

static bool any(sharing *s, const vtb_inst *i, share is) {
  for (int o = 0; o < i->n_operands; o++)
    if (share_of(s, i->operands[o]) == is) return true;
  return false;
}

enum { SMALL_SUM = 1 << 16 };

/* A sum of `y` is about as much work as one of `x`, which it is made of. */
static bool is_no_larger(const vtb_type *y, const vtb_type *x) {
  return vtb_type_count(y) <= vtb_type_count(x) || vtb_type_count(y) <= SMALL_SUM;
}

static void set_results(sharing *s, const vtb_inst *i, share otherwise) {
  for (int r = 0; r < i->n_results; r++)
    set_share(s, i->results[r], vtb_type_is_dynamic(&i->results[r]->type) ? SPLIT : otherwise);
}

/* ---- ops that move elements, and sums -------------------------------------------------------- */

/* Elements before the batch axis, which say how rows lie. */
static int64_t outer(const vtb_type *t) {
  int64_t n = 1;
  for (int a = 0; a < t->rank && !vtb_is_batch(t->dim[a].size); a++) n *= t->dim[a].size;
  return n;
}

/* The result, which has the rows of all ranks where an operand has. */
static vtb_type result_type(sharing *s, const vtb_inst *i) {
  const vtb_type *y = &i->results[0]->type;
  return any(s, i, WHOLE) ? vtb__of_all_rows(y, s->c->ranks) : *y;
}

/* With the rows of all ranks in place of own ones. */
static void visit_whole(sharing *s, vtb_inst *i) {
  if (s->c->ranks < 2) {
    if (share_input(s->c->module->entry)) refuse_pieces(s, i);
    set_results(s, i, SAME);
    return;
  }
  vtb_type t = result_type(s, i);
  if (i->op == VTB_OP_reshape && !vtb_type_same_samples(&i->operands[0]->type, &t)) {
    refuse(s, i, mixes);
    return;
  }
  for (int o = 0; o < i->n_operands; o++)
    if (share_of(s, i->operands[o]) == SPLIT)
      vtb_inst_set_operand(i, o, whole_of(s, i->operands[o]));
  sum_operands(s, i);
  vtb_builder b = vtb__before(i);
  b.name_hint = i->results[0]->name;
  vtb_value *y = vtb__on_all_rows(&b, i, s->c->ranks);
  set_share(s, y, vtb_type_is_dynamic(&y->type) ? WHOLE : SAME);
  vtb__become(i, y);
}

static void visit_iota(sharing *s, vtb_inst *i) {
  vtb_value *y = i->results[0];
  if (vtb_type_batch_axes(&y->type) > 1) {
    visit_whole(s, i);
    return;
  }
  set_share(s, y, vtb_type_is_dynamic(&y->type) ? SPLIT : SAME);
  if (!vtb_type_is_dynamic(&y->type) || vtb_batch_axis(&y->type) != (int)vtb_attr_int(i, "axis", 0))
    return;
  vtb_builder b = {.module = s->c->module, .func = s->f, .before = i->next, .span = i->span};
  vtb_value *first = first_row(s);
  if (y->type.dtype == VTB_F32) first = vtb_b_cast(&b, first, VTB_F32);
  set_share(s, first, SAME);
  vtb_inst *sum = vtb_b_binary(&b, VTB_OP_add, y, first)->def;
  vtb_replace_all(y, sum->results[0]);
  vtb_inst_set_operand(sum, 0, y);
  set_share(s, sum->results[0], SPLIT);
}

/* Numbers of a row follow those of the rows before it. */
static void visit_random(sharing *s, vtb_inst *i) {
  const vtb_type *t = &i->results[0]->type;
  set_results(s, i, SAME);
  if (!vtb_type_is_dynamic(t)) return;
  if (outer(t) != 1) {
    refuse(s, i, "its rows are not the outermost axis");
    return;
  }
  vtb_builder b = vtb__before(i);
  vtb_type whole = {.dtype = VTB_I32};
  vtb_value *from = first_row(s);
  if (vtb_type_count(t) > 1)
    from = vtb_b_binary(&b, VTB_OP_mul, from, vtb_b_splat(&b, (double)vtb_type_count(t), &whole));
  vtb_value *operands[] = {i->operands[0], from};
  b.name_hint = i->results[0]->name;
  vtb_inst *made = vtb_build_typed(&b, VTB_OP_random, operands, 2, i->attrs, i->n_attrs, t, 1);
  set_share(s, made->results[0], SPLIT);
  vtb__become(i, made->results[0]);
}

/* ---- ops that treat rows alike --------------------------------------------------------------- */

/* The axis of the result that the batch becomes; VTB_AXIS_GONE: summed over, MIXED: no operand has
 * rows. *mixed: rows come to others, or meet others. */
static int batch_after(sharing *s, const vtb_inst *i, bool *mixed) {
  vtb_type y = result_type(s, i);
  int lead = -1, axis = -1;
  *mixed = vtb_type_batch_axes(&y) > 1;
  for (int o = 0; o < i->n_operands; o++) {
    const vtb_type *t = &i->operands[o]->type;
    int at = vtb_batch_axis(t);
    *mixed |= vtb_type_batch_axes(t) > 1;
    if (at < 0) continue;
    *mixed |= lead >= 0 && vtb_axis_beside(i, lead, axis, o) != at;
    if (lead < 0) lead = o, axis = at;
  }
  if (lead < 0) return VTB_AXIS_MIXED;
  bool regrouped = i->op == VTB_OP_reshape && vtb_type_same_samples(&i->operands[0]->type, &y);
  int to = regrouped ? vtb_batch_axis(&y) : vtb_axis_after(i, lead, axis);
  *mixed |= to == VTB_AXIS_MIXED || (to == VTB_AXIS_GONE && i->op == VTB_OP_reduce_max);
  return to;
}

static bool is_partial(sharing *s, const vtb_inst *i, int o) {
  return share_of(s, i->operands[o]) == PARTIAL;
}

static bool all_fit(sharing *s, const vtb_inst *i, int first) {
  for (int o = first; o < i->n_operands; o++)
    if (!fits_partial(s, i->operands[o])) return false;
  return true;
}

/* In which operands ops are linear, the others being the same on all ranks. */
typedef enum linearity { NEVER, IN_ANY, IN_ALL, IN_ONE, IN_FIRST, IN_BRANCHES } linearity;
static const linearity linear[VTB_OP_COUNT] = {
    [VTB_OP_neg] = IN_ANY,        [VTB_OP_stop_gradient] = IN_ANY, [VTB_OP_cast] = IN_ANY,
    [VTB_OP_reshape] = IN_ANY,    [VTB_OP_broadcast] = IN_ANY,     [VTB_OP_transpose] = IN_ANY,
    [VTB_OP_reduce_sum] = IN_ANY, [VTB_OP_add] = IN_ALL,           [VTB_OP_sub] = IN_ALL,
    [VTB_OP_slice] = IN_ALL,      [VTB_OP_pad] = IN_ALL,           [VTB_OP_concat] = IN_ALL,
    [VTB_OP_permute] = IN_ALL,    [VTB_OP_shift] = IN_ALL,         [VTB_OP_prefix_sum] = IN_ALL,
    [VTB_OP_mul] = IN_ONE,        [VTB_OP_einsum] = IN_ONE,        [VTB_OP_div] = IN_FIRST,
    [VTB_OP_gather] = IN_FIRST,   [VTB_OP_scatter_sum] = IN_FIRST, [VTB_OP_select] = IN_BRANCHES};

static bool is_linear(sharing *s, const vtb_inst *i) {
  switch (linear[i->op]) {
  case NEVER:
    break;
  case IN_ANY:
    return i->op != VTB_OP_cast || i->results[0]->type.dtype == VTB_F32;
  case IN_ALL:
    return all_fit(s, i, 0) && vtb_attr_float(i, "fill", 0) == 0 && !vtb_attr_find(i, "wrap");
  case IN_ONE:
    return i->n_operands == 2 && is_partial(s, i, 0) != is_partial(s, i, 1);
  case IN_FIRST:
    return !is_partial(s, i, 1);
  case IN_BRANCHES:
    return !is_partial(s, i, 0) && all_fit(s, i, 1);
  }
  return false;
}

/* A start value is added once, to the sum. */
static void visit_start(sharing *s, vtb_inst *i) {
  vtb_builder b = vtb__before(i);
  vtb_value *product =
      vtb_build(&b, VTB_OP_einsum, i->operands, 2, i->attrs, i->n_attrs)->results[0];
  set_share(s, product, PARTIAL);
  vtb_value *sum = vtb_b_binary(&b, VTB_OP_add, sum_of(s, product), i->operands[2]);
  set_share(s, sum, SAME);
  vtb__become(i, sum);
}

static void visit_alike(sharing *s, vtb_inst *i) {
  const vtb_type *y = &i->results[0]->type;
  bool mixed, paired = false;
  for (int o = 0; o < i->n_operands; o++) paired |= vtb_type_batch_axes(&i->operands[o]->type) > 1;
  if (any(s, i, SPLIT) && !paired) own_operands(s, i);
  int to = batch_after(s, i, &mixed);
  if (mixed || (any(s, i, WHOLE) && !any(s, i, SPLIT))) {
    visit_whole(s, i);
    return;
  }
  bool partial =
      any(s, i, PARTIAL) && !any(s, i, SPLIT) && is_linear(s, i) && !vtb_type_is_dynamic(y);
  for (int o = 0; o < i->n_operands && !vtb_attr_find(i, "axis"); o++)
    if (is_partial(s, i, o)) partial &= is_no_larger(y, &i->operands[o]->type);
  if (!partial) sum_operands(s, i);
  if (to == VTB_AXIS_GONE && i->n_operands == 3 && s->c->ranks > 1)
    visit_start(s, i);
  else
    set_results(s, i, partial || to == VTB_AXIS_GONE ? PARTIAL : SAME);
}

/* Kernels whose rows are the first axis; what has none of them is a sum over them. */
static void visit_rows(sharing *s, vtb_inst *i) {
  own_operands(s, i);
  sum_operands(s, i);
  bool split = any(s, i, SPLIT);
  for (int o = 0; o < i->n_operands; o++)
    if (vtb_batch_axis(&i->operands[o]->type) > 0) refuse(s, i, mixes);
  for (int r = 0; r < i->n_results; r++)
    if (vtb_type_batch_axes(&i->results[r]->type) > 1) refuse(s, i, pairs);
  set_results(s, i, split ? PARTIAL : SAME);
}

/* ---- gradients of several runs --------------------------------------------------------------- */

static bool is_accumulated(sharing *s, const vtb_value *v) {
  const char *official = v->def ? NULL : s->f->arg_info[v->index].official;
  return official && s->f->arg_info[v->index].role == VTB_ROLE_STATE &&
         vtb_starts_with(official, VTB_ACCUMULATED);
}

/* Gradients of several runs (update.c): every rank adds its own parts up, and the last run sums
 * them. Whoever reads the total reads it behind that, where it is still a part in other runs. */
static bool visit_accumulated(sharing *s, vtb_inst *i) {
  if (i->op != VTB_OP_add || !is_accumulated(s, i->operands[0])) return false;
  vtb_value *total = i->results[0];
  bool partial = share_of(s, i->operands[1]) == PARTIAL && s->c->ranks > 1;
  set_share(s, total, partial ? TOLD : SAME);
  if (!partial || (s->c->target && s->c->target->tells_gradients)) return true;
  vtb_value *when = share_input(s->f);
  vtb_check(when, "gradients are accumulated without %s", VTB_UPDATE_SHARE);
  vtb_builder b = {.module = s->c->module, .func = s->f, .before = i->next, .span = i->span};
  vtb_type scalar = vtb_type_scalar();
  when = vtb_b_reshape(&b, vtb_b_slice(&b, when, 0, 1, 2, 1), &scalar);
  vtb_attr ranks = VTB_A_INT("ranks", s->c->ranks);
  vtb_value *operands[] = {total, when};
  b.name_hint = total->name;
  vtb_value *sum = vtb_build(&b, VTB_OP_sum_ranks, operands, 2, &ranks, 1)->results[0];
  vtb_replace_all(total, sum);
  vtb_inst_set_operand(sum->def, 0, total);
  set_share(s, sum, SAME);
  return true;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static const known *visit_func(sharing *s, vtb_func *f, const share *args);

static known visit_callee(sharing *s, vtb_func *f, const share *args) {
  sharing inner = {.c = s->c, .told = s->told};
  known k = *visit_func(&inner, f, args);
  s->told = inner.told;
  s->has_sums |= k.sums;
  return k;
}

/* The call with the first row behind its operands, if the callee takes it. */
static vtb_inst *with_first(sharing *s, vtb_inst *i, const known *k) {
  vtb_value *first = k->first < 0 ? NULL : first_row(s);
  return first ? vtb__call_with(i, i->callee, &first, 1) : i;
}

static void visit_call(sharing *s, vtb_inst *i) {
  own_operands(s, i);
  sum_operands(s, i);
  known k = visit_callee(s, i->callee, NULL);
  i = with_first(s, i, &k);
  for (int r = 0; r < i->n_results; r++) set_share(s, i->results[r], k.returns[r]);
}

/* A state without rows that begins with zeros collects parts of what is made of rows; other states
 * are what they are. */
static void visit_fold(sharing *s, vtb_inst *i) {
  vtb_fold p = vtb_fold_of(i);
  share *args = VTB_SCRATCH(s->f, share, i->n_operands);
  own_operands(s, i);
  bool split = any(s, i, SPLIT);
  const bool *of_rows = vtb__made_of_rows(i);
  for (int o = 0; o < i->n_operands; o++) {
    vtb_value *v = i->operands[o];
    bool collects = split && o < p.states && !vtb_type_is_dynamic(&v->type) && fits_partial(s, v);
    collects = collects && of_rows[i->callee->returns[o]->id];
    if (!collects && share_of(s, v) == PARTIAL) vtb_inst_set_operand(i, o, sum_of(s, v));
    args[o] = collects ? PARTIAL : vtb_type_is_dynamic(&v->type) ? SPLIT : SAME;
    if (vtb_batch_axis(&v->type) > 0) refuse(s, i, mixes);
  }
  known k = visit_callee(s, i->callee, args);
  if (k.sums) refuse(s, i, "its steps need sums over all rows, one after the other");
  i = with_first(s, i, &k);
  set_results(s, i, SAME);
  for (int n = 0; n < p.states; n++) {
    vtb_value *y = i->results[p.yields + n];
    if (!vtb_type_is_dynamic(&y->type) && args[n] == PARTIAL) set_share(s, y, PARTIAL);
    bool kept = k.returns[n] == args[n] || (k.returns[n] == ZEROS && args[n] != SPLIT);
    if (!kept) refuse(s, i, "its states mix rows");
    if (p.is_while && args[0] == SPLIT && !vtb_type_is_dynamic(&y->type) && vtb__is_count_read(y))
      refuse(s, i, "each process ends it when its own rows are done");
  }
}

/* ---- the end of a step ----------------------------------------------------------------------- */

static bool is_told(const vtb_inst *verdict, const vtb_value *v) {
  for (vtb_inst **r = vtb__readers(v); *r; r++)
    if (*r != verdict && (*r)->op != VTB_OP_update) return false;
  return true;
}

/* Gradients that the target sums when they are whole keep their parts until then. */
static void visit_verdict(sharing *s, vtb_inst *i) {
  int64_t *partial = VTB_SCRATCH(s->f, int64_t, i->n_operands);
  const vtb_target *target = s->c->target;
  int n = 0;
  for (int o = 0; o < i->n_operands; o++) {
    vtb_value *v = i->operands[o];
    if (share_of(s, v) == TOLD) partial[n++] = o - 2;
    if (share_of(s, v) != PARTIAL) continue;
    if (o >= 2 && target && target->tells_gradients && is_told(i, v)) {
      partial[n++] = o - 2;
      fact_of(s, v)->sum = v;
    } else {
      vtb_inst_set_operand(i, o, sum_of(s, v));
    }
  }
  if (target && target->tells_gradients && s->c->ranks > 1)
    vtb_attr_set(i, VTB_A_INTS("partial", partial, n));
  set_results(s, i, SAME);
}

/* ---- functions ------------------------------------------------------------------------------- */

/* The op needs the sum of its partial operand v, as far as that shows in advance. */
static bool needs_sum(sharing *s, const vtb_inst *reader, const vtb_value *v) {
  if (reader->op == VTB_OP_call) return true;
  for (int r = 0; r < reader->n_results; r++)
    if (vtb_type_is_dynamic(&reader->results[r]->type)) return true;
  if (vtb_op_get(reader->op)->klass != VTB_CLASS_ELEMENTWISE) return false;
  if (reader->op == VTB_OP_div && reader->operands[1] == v) return true;
  if (reader->op == VTB_OP_add || reader->op == VTB_OP_sub) {
    const vtb_value *other = reader->operands[reader->operands[0] == v];
    if (!other->def) return share_of(s, other) == SAME && !is_accumulated(s, other);
    return other->def->op == VTB_OP_constant && !is_zero(other);
  }
  return linear[reader->op] == NEVER;
}

/* A value that one reader needs summed is summed for all: a sum of what they make would be one
 * more. */
static void sum_early(sharing *s, const vtb_inst *i) {
  for (int r = 0; r < i->n_results; r++) {
    vtb_value *v = i->results[r];
    bool needed = false;
    for (vtb_inst **k = vtb__readers(v); *k && share_of(s, v) == PARTIAL && !needed; k++)
      needed = needs_sum(s, *k, v);
    if (needed) (void)sum_of(s, v);
  }
}

static void read_sums(sharing *s, vtb_inst *i) {
  for (int o = 0; o < i->n_operands; o++) {
    vtb_value *v = i->operands[o];
    const fact *k = fact_of(s, v);
    if (k->is == PARTIAL && k->sum) vtb_inst_set_operand(i, o, k->sum);
  }
}

/* Where a run is a batch of its own, whose rows have numbers among those of other runs. */
static void visit_draws(sharing *s, vtb_inst *i) {
  if (i->op == VTB_OP_random) visit_random(s, i);
  if (i->op != VTB_OP_call && i->op != VTB_OP_fold) return;
  known k = visit_callee(s, i->callee, NULL);
  (void)with_first(s, i, &k);
}

static void visit(sharing *s, vtb_inst *i) {
  if (s->c->draws) {
    visit_draws(s, i);
    return;
  }
  switch (i->op) {
  case VTB_OP_iota:
    visit_iota(s, i);
    return;
  case VTB_OP_random:
    visit_random(s, i);
    return;
  case VTB_OP_einsum:
  case VTB_OP_shift:
  case VTB_OP_prefix_sum:
  case VTB_OP_gather:
  case VTB_OP_scatter_sum:
    visit_alike(s, i);
    return;
  case VTB_OP_call:
    visit_call(s, i);
    return;
  case VTB_OP_fold:
    visit_fold(s, i);
    return;
  case VTB_OP_verdict:
    visit_verdict(s, i);
    return;
  default:
    if (visit_accumulated(s, i)) return;
    if (vtb_op_get(i->op)->klass < VTB_CLASS_STRUCTURED)
      visit_alike(s, i);
    else
      visit_rows(s, i);
  }
}

/* A value that the target sums where it lies is its own sum. */
static void sum_returns(sharing *s) {
  vtb_func *f = s->f;
  for (int r = 0; r < f->n_returns; r++)
    if (share_of(s, f->returns[r]) == PARTIAL) f->returns[r] = sum_of(s, f->returns[r]);
}

static const known *visit_func(sharing *s, vtb_func *f, const share *args) {
  known *k = f->scratch;
  for (int a = 0; k && args && a < f->n_args - (k->first >= 0); a++)
    vtb_check(args[a] == k->args[a], "@%s is folded in two ways", f->name);
  if (k) return k;
  k = f->scratch = VTB_NEW(&f->module->scratch, known);
  k->args = VTB_SCRATCH(f, share, f->n_args);
  s->f = f;
  for (int a = 0; a < f->n_args; a++) {
    share is = vtb_type_is_dynamic(&f->args[a]->type) ? SPLIT : args ? args[a] : SAME;
    set_share(s, f->args[a], k->args[a] = is);
  }
  for (vtb_inst *i = f->first, *next; i && !s->told; i = next) {
    next = i->next;
    read_sums(s, i);
    visit(s, i);
    sum_early(s, i);
  }
  for (int r = 0; r < f->n_returns; r++)
    if (share_of(s, f->returns[r]) == WHOLE) f->returns[r] = own_of(s, f->returns[r], f->last);
  if (f == s->c->module->entry) sum_returns(s);
  k->returns = VTB_SCRATCH(f, share, f->n_returns);
  for (int r = 0; r < f->n_returns; r++) {
    const vtb_value *v = f->returns[r];
    k->returns[r] = !vtb_type_is_dynamic(&v->type) && is_zero(v) ? ZEROS : share_of(s, v);
  }
  k->first = s->first ? s->first->index : -1;
  k->sums = s->has_sums;
  return k;
}

void vtb__change_ranks(vtb_pass_context *c) {
  if (c->ranks < 2 && !c->pieces && !c->draws) return;
  sharing s = {.c = c};
  for (vtb_func *f = c->module->first; f; f = f->next) f->scratch = NULL;
  (void)visit_func(&s, c->module->entry, NULL);
}
