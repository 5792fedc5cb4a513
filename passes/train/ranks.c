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
 * A value is split (it has a batch axis, of which each rank has its rows), same (on all ranks), or
 * partial (a sum over the batch, of this rank's rows: the sum over the ranks is meant). What is
 * linear in partial values makes partial ones, as long as they are not much larger; where anything
 * else reads a partial value, its sum over the ranks is put behind what makes it, once. Results of
 * calls may be partial, so that gradients of parameters are summed behind the call that makes them.
 * Losses, their normalisers and the statistics of batch norm become those of the whole batch.
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
#include "ir/fold.h"
#include "ir/product.h"
#include "ir/update.h"
#include "passes/passes_internal.h"

#include <stdlib.h>
#include <string.h>

/* Zeros are the same on all ranks, and a part of a sum as well. */
typedef enum share {
  SAME,
  SPLIT,
  PARTIAL,
  ZEROS,
  TOLD /* what the target sums where it lies: everyone else may read it as the same */
} share;

typedef struct known { /* a function that was visited */
  vtb_func *func;
  share *args, *returns;
  int first; /* argument that is the first row; -1: none */
  bool sums; /* it sums over ranks */
} known;

typedef struct sharing {
  vtb_pass_context *c;
  VTB_VEC(known) funcs;
  vtb_arena arena;
  /* the function at hand */
  vtb_func *f;
  share *of;        /* by value id */
  vtb_value **sums; /* by value id: its sum, if there is one */
  int n_room;
  bool has_sums, told;
  vtb_value *first; /* its argument; NULL: not yet */
} sharing;

/* ---- what values are ------------------------------------------------------------------------- */

/* -1: it has none. */
static int batch_axis(const vtb_value *v) {
  for (int a = 0; a < v->type.rank; a++)
    if (v->type.dim[a].size == VTB_DYN) return a;
  return -1;
}

static bool is_zero(const vtb_value *v) { return vtb__is_constant(v, 0); }

static share share_of(const sharing *s, const vtb_value *v) { return s->of[v->id]; }

static bool fits_partial(const sharing *s, const vtb_value *v) {
  return share_of(s, v) == PARTIAL || share_of(s, v) == ZEROS || is_zero(v);
}

static void make_room(sharing *s) {
  int n = s->f->n_values + 64;
  if (s->f->n_values <= s->n_room) return;
  s->of = vtb_xrealloc(s->of, (size_t)n, sizeof *s->of);
  s->sums = vtb_xrealloc(s->sums, (size_t)n, sizeof *s->sums);
  for (int i = s->n_room; i < n; i++) {
    s->of[i] = SAME;
    s->sums[i] = NULL;
  }
  s->n_room = n;
}

static void set_share(sharing *s, const vtb_value *v, share is) {
  make_room(s);
  s->of[v->id] = is;
}

/* ---- what is wrong --------------------------------------------------------------------------- */

static void refuse(sharing *s, const vtb_inst *i, const char *why) {
  if (s->told || s->c->ranks < 2) return;
  s->told = true;
  vtb_diag_error(s->c->diags, VTB_DIAG_NOT_SHARED, i->span,
                 "%s cannot be shared out over %d processes: %s", vtb_op_get(i->op)->name,
                 s->c->ranks, why);
  vtb_diag_help(s->c->diags, "sums and means over the batch can; else train it in one process");
}

static const char *const mixes = "it needs all rows of a batch in one place";

/* ---- sums and first rows --------------------------------------------------------------------- */

static vtb_value *sum_of(sharing *s, vtb_value *v) {
  make_room(s);
  if (s->c->ranks < 2) return v;
  if (s->sums[v->id]) return s->sums[v->id];
  vtb_attr ranks = VTB_A_INT("ranks", s->c->ranks);
  vtb_builder b = {.module = s->c->module,
                   .func = s->f,
                   .before = v->def ? v->def->next : s->f->first,
                   .span = v->def ? v->def->span : s->f->span,
                   .name_hint = v->name};
  vtb_value *sum = vtb_build(&b, VTB_OP_sum_ranks, &v, 1, &ranks, 1)->results[0];
  set_share(s, sum, SAME);
  s->sums[v->id] = sum;
  s->has_sums = true;
  return sum;
}

static vtb_value *first_row(sharing *s) {
  if (s->first) return s->first;
  vtb_type t = {.dtype = VTB_I32};
  bool entry = s->f == s->c->module->entry;
  s->first = vtb_func_add_arg(s->f, VTB_RANK_FIRST, t);
  s->f->arg_info[s->first->index] =
      (vtb_arg_info){.role = entry ? VTB_ROLE_INPUT : VTB_ROLE_PLAIN,
                     .official = vtb_intern(s->c->module, VTB_RANK_FIRST)};
  set_share(s, s->first, SAME);
  return s->first;
}

static void sum_operands(sharing *s, vtb_inst *i) {
  for (int o = 0; o < i->n_operands; o++)
    if (share_of(s, i->operands[o]) == PARTIAL)
      vtb_inst_set_operand(i, o, sum_of(s, i->operands[o]));
}

static bool any(const sharing *s, const vtb_inst *i, share is) {
  for (int o = 0; o < i->n_operands; o++)
    if (share_of(s, i->operands[o]) == is) return true;
  return false;
}

enum { SMALL_SUM = 1 << 16 };

/* Whether a sum of `y` is about as much work as one of `x`, which it is made of. */
static bool is_no_larger(const vtb_type *y, const vtb_type *x) {
  return vtb_type_count(y) <= vtb_type_count(x) || vtb_type_count(y) <= SMALL_SUM;
}

static void set_results(sharing *s, const vtb_inst *i, share otherwise) {
  for (int r = 0; r < i->n_results; r++)
    set_share(s, i->results[r], batch_axis(i->results[r]) >= 0 ? SPLIT : otherwise);
}

/* ---- ops that move elements, and sums -------------------------------------------------------- */

static bool has_axis(const vtb_inst *i, const char *key, int axis) {
  int n;
  const int64_t *axes = vtb_attr_ints(i, key, &n);
  for (int k = 0; k < n; k++)
    if (axes[k] == axis) return true;
  return false;
}

/* Elements before the batch axis, which say how rows lie. */
static int64_t outer(const vtb_type *t) {
  int64_t n = 1;
  for (int a = 0; a < t->rank && t->dim[a].size != VTB_DYN; a++) n *= t->dim[a].size;
  return n;
}

/* An op along one axis leaves rows alone unless it is theirs. */
static void visit_moved(sharing *s, vtb_inst *i) {
  int axis = (int)vtb_attr_int(i, "axis", -1);
  if (axis >= 0 && batch_axis(i->operands[0]) == axis) refuse(s, i, mixes);
  bool partial = any(s, i, PARTIAL) && batch_axis(i->results[0]) < 0;
  for (int o = 0; o < i->n_operands; o++) partial &= fits_partial(s, i->operands[o]);
  if (i->op == VTB_OP_shift && vtb_attr_float(i, "fill", 0) != 0) partial = false;
  if (!partial) sum_operands(s, i);
  set_results(s, i, partial ? PARTIAL : SAME);
}

static void visit_view(sharing *s, vtb_inst *i) {
  const vtb_type *x = &i->operands[0]->type, *y = &i->results[0]->type;
  bool split = share_of(s, i->operands[0]) == SPLIT;
  if (i->op == VTB_OP_reshape && split && (batch_axis(i->results[0]) < 0 || outer(x) != outer(y)))
    refuse(s, i, mixes);
  bool partial =
      share_of(s, i->operands[0]) == PARTIAL && !vtb_type_is_dynamic(y) && is_no_larger(y, x);
  if (!partial) sum_operands(s, i);
  set_results(s, i, partial ? PARTIAL : SAME);
}

static void visit_reduce(sharing *s, vtb_inst *i) {
  int axis = batch_axis(i->operands[0]);
  bool over = axis >= 0 && has_axis(i, "axes", axis), is_sum = i->op == VTB_OP_reduce_sum;
  if (over && !is_sum) refuse(s, i, mixes);
  if (!is_sum) sum_operands(s, i);
  set_results(s, i, over || share_of(s, i->operands[0]) == PARTIAL ? PARTIAL : SAME);
}

static void visit_iota(sharing *s, vtb_inst *i) {
  vtb_value *y = i->results[0];
  set_share(s, y, batch_axis(y) >= 0 ? SPLIT : SAME);
  if (batch_axis(y) < 0 || batch_axis(y) != (int)vtb_attr_int(i, "axis", 0)) return;
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
  vtb_builder b = {.module = s->c->module, .func = s->f, .before = i, .span = i->span};
  vtb_type whole = {.dtype = VTB_I32};
  vtb_value *from = first_row(s);
  if (vtb_type_count(t) > 1)
    from = vtb_b_binary(&b, VTB_OP_mul, from, vtb_b_splat(&b, (double)vtb_type_count(t), &whole));
  vtb_value *operands[] = {i->operands[0], from};
  b.name_hint = i->results[0]->name;
  vtb_inst *made = vtb_build_typed(&b, VTB_OP_random, operands, 2, i->attrs, i->n_attrs, t, 1);
  make_room(s);
  set_share(s, made->results[0], SPLIT);
  vtb__stand_in(i->results[0], made->results[0]);
  vtb_inst_unlink(i);
}

/* ---- products -------------------------------------------------------------------------------- */

/* The letter of the batch in an operand; NULL: none. */
static const vtb_letter *batch_letter(const vtb_product *p, const vtb_inst *i, int operand) {
  int axis = batch_axis(i->operands[operand]);
  return axis < 0 ? NULL : vtb_product_at(p, operand, axis);
}

/* Only of an operand that is neither summed over the batch nor multiplied by what has rows. */
static bool stays_partial(const sharing *s, const vtb_inst *i) {
  int partial = (share_of(s, i->operands[0]) == PARTIAL) + (share_of(s, i->operands[1]) == PARTIAL);
  int at = share_of(s, i->operands[1]) == PARTIAL;
  return partial == 1 && i->n_operands == 2 && !any(s, i, SPLIT) &&
         is_no_larger(&i->results[0]->type, &i->operands[at]->type);
}

static void visit_einsum(sharing *s, vtb_inst *i) {
  vtb_product p = vtb_product_of(i);
  const vtb_letter *a = batch_letter(&p, i, 0), *b = batch_letter(&p, i, 1), *letter = a ? a : b;
  if (a && b && a != b) refuse(s, i, "it pairs the rows of a batch with one another");
  bool summed = letter && letter->at[VTB_IN_RESULT] < 0;
  if (!stays_partial(s, i)) sum_operands(s, i);
  if (summed && s->c->ranks > 1 && i->n_operands == 3 && share_of(s, i->operands[2]) != PARTIAL) {
    vtb_builder at = {.module = s->c->module, .func = s->f, .before = i, .span = i->span};
    vtb_value *product =
        vtb_build(&at, VTB_OP_einsum, i->operands, 2, i->attrs, i->n_attrs)->results[0];
    set_share(s, product, PARTIAL);
    vtb_value *sum = vtb_b_binary(&at, VTB_OP_add, sum_of(s, product), i->operands[2]);
    set_share(s, sum, SAME);
    vtb__stand_in(i->results[0], sum);
    vtb_inst_unlink(i);
    return;
  }
  set_results(s, i, summed || any(s, i, PARTIAL) ? PARTIAL : SAME);
}

/* Kernels whose rows are the first axis; what has none of them is a sum over them. */
static void visit_rows(sharing *s, vtb_inst *i) {
  sum_operands(s, i);
  bool split = any(s, i, SPLIT);
  for (int o = 0; o < i->n_operands; o++)
    if (batch_axis(i->operands[o]) > 0) refuse(s, i, mixes);
  set_results(s, i, split ? PARTIAL : SAME);
}

/* ---- elementwise ----------------------------------------------------------------------------- */

static bool is_partial(const sharing *s, const vtb_inst *i, int o) {
  return share_of(s, i->operands[o]) == PARTIAL;
}

/* Whether the op is linear in its partial operands, the others being the same on all ranks. */
static bool is_linear(const sharing *s, const vtb_inst *i) {
  switch (i->op) {
  case VTB_OP_neg:
  case VTB_OP_stop_gradient:
    return true;
  case VTB_OP_cast:
    return i->results[0]->type.dtype == VTB_F32;
  case VTB_OP_add:
  case VTB_OP_sub:
    return fits_partial(s, i->operands[0]) && fits_partial(s, i->operands[1]);
  case VTB_OP_mul:
    return is_partial(s, i, 0) != is_partial(s, i, 1);
  case VTB_OP_div:
    return !is_partial(s, i, 1);
  case VTB_OP_select:
    return !is_partial(s, i, 0) && fits_partial(s, i->operands[1]) &&
           fits_partial(s, i->operands[2]);
  default:
    return false;
  }
}

static bool is_accumulated(const sharing *s, const vtb_value *v) {
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
  vtb_value *when = NULL;
  for (int a = 0; a < s->f->n_args; a++)
    if (vtb_streq(s->f->arg_info[a].official, VTB_UPDATE_SHARE)) when = s->f->args[a];
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

static void visit_elementwise(sharing *s, vtb_inst *i) {
  if (visit_accumulated(s, i)) return;
  bool partial = any(s, i, PARTIAL) && !any(s, i, SPLIT) && is_linear(s, i) &&
                 !vtb_type_is_dynamic(&i->results[0]->type);
  for (int o = 0; o < i->n_operands; o++)
    if (is_partial(s, i, o)) partial &= is_no_larger(&i->results[0]->type, &i->operands[o]->type);
  if (!partial) sum_operands(s, i);
  set_results(s, i, partial ? PARTIAL : SAME);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static const known *visit_func(sharing *s, vtb_func *f, const share *args);

/* The function at hand is put aside while the callee is visited. */
static known visit_callee(sharing *s, vtb_func *f, const share *args) {
  sharing outer_one = *s;
  s->of = NULL;
  s->sums = NULL;
  s->n_room = 0;
  s->has_sums = false;
  s->first = NULL;
  known k = *visit_func(s, f, args);
  s->f = outer_one.f;
  s->of = outer_one.of;
  s->sums = outer_one.sums;
  s->n_room = outer_one.n_room;
  s->has_sums = outer_one.has_sums || k.sums;
  s->first = outer_one.first;
  return k;
}

/* The call with the first row behind its operands, if the callee takes it. */
static vtb_inst *with_first(sharing *s, vtb_inst *i, const known *k) {
  if (k->first < 0) return i;
  vtb_value **operands = vtb_xcalloc((size_t)i->n_operands + 2, sizeof *operands);
  memcpy(operands, i->operands, sizeof(vtb_value *) * (size_t)i->n_operands);
  operands[i->n_operands] = first_row(s);
  vtb_inst *made = vtb__replace_call(i, i->callee, operands, i->n_operands + 1, NULL);
  vtb_free(operands);
  make_room(s);
  return made;
}

static void visit_call(sharing *s, vtb_inst *i) {
  sum_operands(s, i);
  known k = visit_callee(s, i->callee, NULL);
  i = with_first(s, i, &k);
  for (int r = 0; r < i->n_results; r++) set_share(s, i->results[r], k.returns[r]);
}

/* A state without rows that begins with zeros collects parts; other states are what they are. */
static void visit_fold(sharing *s, vtb_inst *i) {
  vtb_fold p = vtb_fold_of(i);
  share *args = vtb_xcalloc((size_t)i->n_operands + 1, sizeof *args);
  bool split = any(s, i, SPLIT);
  for (int o = 0; o < i->n_operands; o++) {
    vtb_value *v = i->operands[o];
    bool collects = split && o < p.states && batch_axis(v) < 0 && fits_partial(s, v);
    if (!collects && share_of(s, v) == PARTIAL) vtb_inst_set_operand(i, o, sum_of(s, v));
    args[o] = collects ? PARTIAL : batch_axis(v) >= 0 ? SPLIT : SAME;
    if (batch_axis(v) > 0) refuse(s, i, mixes);
  }
  known k = visit_callee(s, i->callee, args);
  if (k.sums) refuse(s, i, "its steps need sums over all rows, one after the other");
  i = with_first(s, i, &k);
  set_results(s, i, SAME);
  for (int n = 0; n < p.states; n++) {
    vtb_value *y = i->results[p.yields + n];
    if (batch_axis(y) < 0 && args[n] == PARTIAL) set_share(s, y, PARTIAL);
    bool kept = k.returns[n] == args[n] || (k.returns[n] == ZEROS && args[n] != SPLIT);
    if (!kept) refuse(s, i, "its states mix rows");
  }
  vtb_free(args);
}

/* ---- the end of a step ----------------------------------------------------------------------- */

static bool is_told(const vtb_inst *verdict, const vtb_value *v) {
  vtb_inst **readers;
  bool only = true;
  size_t n = vtb_value_readers(v, &readers);
  for (size_t r = 0; r < n; r++) only &= readers[r] == verdict || readers[r]->op == VTB_OP_update;
  vtb_free(readers);
  return only;
}

/* Gradients that the target sums when they are whole keep their parts until then. */
static void visit_verdict(sharing *s, vtb_inst *i) {
  int64_t *partial = vtb_xcalloc((size_t)i->n_operands + 1, sizeof *partial);
  const vtb_target *target = s->c->target;
  int n = 0;
  for (int o = 0; o < i->n_operands; o++) {
    vtb_value *v = i->operands[o];
    if (share_of(s, v) == TOLD) partial[n++] = o - 2;
    if (share_of(s, v) != PARTIAL) continue;
    if (o >= 2 && target && target->tells_gradients && is_told(i, v)) {
      partial[n++] = o - 2;
      s->sums[v->id] = v;
    } else {
      vtb_inst_set_operand(i, o, sum_of(s, v));
    }
  }
  if (target && target->tells_gradients && s->c->ranks > 1)
    vtb_attr_set(i, VTB_A_INTS("partial", partial, n));
  vtb_free(partial);
  set_results(s, i, SAME);
}

/* ---- functions ------------------------------------------------------------------------------- */

/* Whether the op needs the sum of its partial operand v, as far as that shows in advance. */
static bool needs_sum(const sharing *s, const vtb_inst *reader, const vtb_value *v) {
  static const vtb_op linear[] = {VTB_OP_neg, VTB_OP_stop_gradient, VTB_OP_add,    VTB_OP_sub,
                                  VTB_OP_mul, VTB_OP_div,           VTB_OP_select, VTB_OP_cast};
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
  for (size_t k = 0; k < sizeof linear / sizeof *linear; k++)
    if (linear[k] == reader->op) return false;
  return true;
}

/* What one reader needs summed the others read so, too: a sum of what they make would be one
 * more. */
static void sum_early(sharing *s, const vtb_inst *i) {
  for (int r = 0; r < i->n_results; r++) {
    vtb_inst **readers;
    vtb_value *v = i->results[r];
    if (share_of(s, v) != PARTIAL) continue;
    size_t n = vtb_value_readers(v, &readers);
    bool needed = false;
    for (size_t k = 0; k < n; k++) needed |= needs_sum(s, readers[k], v);
    vtb_free(readers);
    if (needed) (void)sum_of(s, v);
  }
}

static void read_sums(sharing *s, vtb_inst *i) {
  for (int o = 0; o < i->n_operands; o++) {
    vtb_value *v = i->operands[o];
    if (share_of(s, v) == PARTIAL && s->sums[v->id]) vtb_inst_set_operand(i, o, s->sums[v->id]);
  }
}

static void visit(sharing *s, vtb_inst *i) {
  switch (i->op) {
  case VTB_OP_reshape:
  case VTB_OP_broadcast:
  case VTB_OP_transpose:
    visit_view(s, i);
    return;
  case VTB_OP_slice:
  case VTB_OP_pad:
  case VTB_OP_concat:
  case VTB_OP_permute:
  case VTB_OP_shift:
  case VTB_OP_prefix_sum:
    visit_moved(s, i);
    return;
  case VTB_OP_reduce_sum:
  case VTB_OP_reduce_max:
    visit_reduce(s, i);
    return;
  case VTB_OP_iota:
    visit_iota(s, i);
    return;
  case VTB_OP_random:
    visit_random(s, i);
    return;
  case VTB_OP_einsum:
    visit_einsum(s, i);
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
    if (vtb_op_get(i->op)->klass == VTB_CLASS_ELEMENTWISE)
      visit_elementwise(s, i);
    else
      visit_rows(s, i);
  }
}

static void check_axes(sharing *s, const vtb_inst *i) {
  for (int r = 0; r < i->n_results; r++) {
    if (vtb_type_batch_axes(&i->results[r]->type) > 1)
      refuse(s, i, "it pairs the rows of a batch with one another");
  }
}

/* A value that the target sums where it lies is its own sum. */
static void sum_returns(sharing *s) {
  vtb_func *f = s->f;
  for (int r = 0; r < f->n_returns; r++)
    if (share_of(s, f->returns[r]) == PARTIAL) f->returns[r] = sum_of(s, f->returns[r]);
}

static const known *visit_func(sharing *s, vtb_func *f, const share *args) {
  for (size_t i = 0; i < s->funcs.n; i++)
    if (s->funcs.at[i].func == f) {
      const known *k = &s->funcs.at[i];
      for (int a = 0; args && a < f->n_args - (k->first >= 0); a++)
        vtb_check(args[a] == k->args[a], "@%s is folded in two ways", f->name);
      return k;
    }
  known k = {.func = f, .first = -1};
  k.args = VTB_NEW_ARRAY(&s->arena, share, f->n_args + 1);
  s->f = f;
  make_room(s);
  for (int a = 0; a < f->n_args; a++) {
    share is = batch_axis(f->args[a]) >= 0 ? SPLIT : args ? args[a] : SAME;
    set_share(s, f->args[a], k.args[a] = is);
  }
  for (vtb_inst *i = f->first, *next; i && !s->told; i = next) {
    next = i->next;
    check_axes(s, i);
    read_sums(s, i);
    visit(s, i);
    sum_early(s, i);
  }
  if (f == s->c->module->entry) sum_returns(s);
  k.returns = VTB_NEW_ARRAY(&s->arena, share, f->n_returns + 1);
  for (int r = 0; r < f->n_returns; r++) {
    const vtb_value *v = f->returns[r];
    k.returns[r] = batch_axis(v) < 0 && is_zero(v) ? ZEROS : share_of(s, v);
  }
  k.first = s->first ? s->first->index : -1;
  k.sums = s->has_sums;
  vtb_free(s->of);
  vtb_free(s->sums);
  vtb_vec_push(&s->funcs, k);
  return &s->funcs.at[s->funcs.n - 1];
}

vtb_status vtb__pass_ranks(vtb_pass_context *c, vtb_error *err) {
  (void)err;
  if (c->ranks < 2 && !c->pieces) return VTB_OK;
  sharing s = {.c = c};
  vtb_arena_init(&s.arena);
  (void)visit_func(&s, c->module->entry, NULL);
  vtb_vec_free(&s.funcs);
  vtb_arena_free(&s.arena);
  return VTB_OK;
}
