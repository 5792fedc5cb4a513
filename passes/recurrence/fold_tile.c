/* fold_tile: a step that keeps samples apart runs for a few samples at a time.
 *
 *   %y, %s = fold @f(%s0, %x, %w) {states=1, seqs=1}           @f: f32[B, 1, 8] -> ...
 *   =>
 *   %y, %s = fold @f_tile(%s0, %x, %w) {states=1, seqs=1, tile=8}    @f_tile: f32[8, 1, 8] -> ...
 *
 * Tiles need nothing of each other: each is one task of one thread, or a block of a GPU, that runs
 * all its steps while states and what is between the instructions of the step stay in its caches.
 * How many samples: a divisor of the batch, `samples` of the target's row at most. Before bind: the
 * symbolic batch is how samples are told from other axes. Calls in the step are expanded. Weights
 * that the step multiplies by are laid out once, before the loop, as rows along the result's last
 * axis: a product of so few samples has no time to turn them.
 *
 * Declines a step that mixes samples (a sum over them, a state without them), and few tiles of much
 * work, for which threads share every step instead.
 */
#include <string.h>

#include "ir/axes.h"
#include "ir/fold.h"
#include "ir/product.h"
#include "passes/passes_internal.h"

/* ---- whether samples are apart --------------------------------------------------------------- */

static bool keeps(const vtb_inst *i) {
  bool batch = !vtb_keeps_samples(i);
  for (int r = 0; r < i->n_results; r++) batch |= vtb_type_is_dynamic(&i->results[r]->type);
  if (!i->n_operands && batch) return vtb_is_splat(i);
  return vtb_keeps_samples(i) && !(batch && i->op == VTB_OP_einsum && i->n_operands > 2);
}

/* Everything with a batch axis gives values with one. */
static bool keeps_samples_apart(const vtb_func *f) {
  for (const vtb_inst *i = f->first; i; i = i->next)
    if (!keeps(i)) return false;
  return true;
}

static bool begins_with_batch(const vtb_value *v) { return vtb_batch_axis(&v->type) == 0; }

static bool has_samples(const vtb_inst *fold) {
  vtb_fold p = vtb_fold_of(fold);
  if (p.steps) return false;
  for (int i = 0; i < fold->n_operands; i++) {
    const vtb_value *v = fold->operands[i];
    if (i < p.states + p.seqs ? !begins_with_batch(v) : vtb_type_is_dynamic(&v->type)) return false;
  }
  for (int i = 0; i < fold->n_results; i++)
    if (!begins_with_batch(fold->results[i])) return false;
  return true;
}

/* ---- one kernel of CUDA ---------------------------------------------------------------------- */

static int64_t shared_bytes(const vtb_value *v) {
  return (vtb_type_count(&v->type) * 4 + 15) / 16 * 16;
}

int64_t vtb_fold_step_bytes(const vtb_func *step, int states) {
  int64_t sum = 0;
  for (int i = 0; i < states; i++) sum += 2 * shared_bytes(step->args[i]);
  for (const vtb_inst *i = step->first; i; i = i->next) {
    bool product = i->op == VTB_OP_einsum;
    if (!product && vtb_op_get(i->op)->klass != VTB_CLASS_REDUCE) continue;
    sum += shared_bytes(i->results[0]);
    for (int k = 0; product && k < i->n_operands; k++)
      if (i->operands[k]->def) sum += shared_bytes(i->operands[k]);
  }
  return sum;
}

/* Every op has a place in such a body. */
static bool has_body(const vtb_func *step) {
  for (const vtb_inst *i = step->first; i; i = i->next) {
    vtb_op_class klass = vtb_op_get(i->op)->klass;
    bool body = klass == VTB_CLASS_ELEMENTWISE || klass == VTB_CLASS_REDUCE ||
                klass == VTB_CLASS_SHAPE || i->op == VTB_OP_einsum;
    if (!body || i->n_results != 1 || i->op == VTB_OP_random) return false;
    if (i->op == VTB_OP_einsum && vtb_product_of(i).n > VTB_MAX_RANK) return false;
  }
  return true;
}

/* ---- how many -------------------------------------------------------------------------------- */

static int64_t divisor(int64_t n, int64_t most) {
  for (int64_t d = most < n ? most : n; d > 1; d--)
    if (n % d == 0) return d;
  return 1;
}

/* Samples of a tile; 0: no tiles. */
static int64_t tile_of(const vtb_pass_context *c, const vtb_func *step, int states) {
  const vtb_fold_costs *costs = &c->target->costs.fold;
  int64_t tile = divisor(c->batch, costs->samples);
  if (costs->one_body &&
      (!has_body(step) || tile * vtb_fold_step_bytes(step, states) > VTB_FOLD_SHARED))
    return 0;
  double work = vtb_func_cost(step, tile).flops;
  return c->batch / tile < costs->tiles && work > costs->work ? 0 : tile;
}

/* ---- weights --------------------------------------------------------------------------------- */

typedef struct tiled {
  vtb_inst *fold;
  vtb_func *step;
  VTB_VEC(vtb_value *) operands;
  vtb_builder outer; /* beside the fold */
} tiled;

/* Where a letter of weights w comes: of both and the result, summed, of the result; -1: nowhere. */
static int order_of(const vtb_letter *l, int w) {
  int other = l->at[1 - w], out = l->at[VTB_IN_RESULT];
  if (other >= 0) return (out >= 0 ? 0 : VTB_MAX_RANK) + other;
  return out >= 0 ? 2 * VTB_MAX_RANK + out : -1;
}

/* The order of the axes of weights w that puts the result's last letter last. */
static bool row_order(const vtb_inst *e, int w, int64_t *perm) {
  vtb_product p = vtb_product_of(e);
  int rank = p.rank[w], key[VTB_MAX_RANK];
  bool moved = false;
  for (int a = 0; a < rank; a++) {
    key[a] = order_of(vtb_product_at(&p, w, a), w);
    if (key[a] < 0) return false;
    int at = a;
    for (; at > 0 && key[perm[at - 1]] > key[a]; at--) perm[at] = perm[at - 1];
    perm[at] = a;
    moved |= at != a;
  }
  int last = p.rank[VTB_IN_RESULT] - 1;
  return moved && last >= 0 && vtb_product_at(&p, VTB_IN_RESULT, last)->at[w] == perm[rank - 1];
}

/* The argument for operand `w` with its axes in that order: equal ones are one. */
static vtb_value *turned_argument(tiled *t, const vtb_value *w, const int64_t *perm) {
  vtb_value *given = vtb_b_transpose(&t->outer, t->operands.at[w->index], perm);
  for (size_t i = (size_t)t->fold->n_operands; i < t->operands.n; i++) {
    const vtb_inst *known = t->operands.at[i]->def;
    if (vtb_attr_equal(vtb_attr_find(known, "perm"), vtb_attr_find(given->def, "perm")) &&
        known->operands[0] == given->def->operands[0]) {
      vtb_inst_unlink(given->def);
      return t->step->args[i];
    }
  }
  vtb__put(t->step, &t->operands, given);
  return vtb_func_add_arg(t->step, w->name, given->type);
}

static void turn_weights(tiled *t, vtb_inst *e, int w) {
  int64_t perm[VTB_MAX_RANK];
  const vtb_value *weights = e->operands[w];
  vtb_fold fold = vtb_fold_of(t->fold);
  if (weights->def || weights->index < fold.states + fold.seqs || !row_order(e, w, perm)) return;
  vtb_product p = vtb_product_of(e);
  vtb_spec turned = vtb_spec_of(&p);
  for (int a = 0; a < p.rank[w]; a++) turned.of[w][a] = vtb_product_at(&p, w, (int)perm[a])->name;
  vtb_inst_set_operand(e, w, turned_argument(t, weights, perm));
  vtb_einsum_set(e, &turned);
}

/* Weights that are read in their other order only. */
static void drop_unused(tiled *t) {
  vtb_fold p = vtb_fold_of(t->fold);
  for (int i = t->step->n_args; i-- > p.states + p.seqs;) {
    if (vtb_is_read(t->step->args[i])) continue;
    vtb_func_remove_arg(t->step, i);
    t->operands.n--;
    memmove(t->operands.at + i, t->operands.at + i + 1,
            (t->operands.n - (size_t)i) * sizeof *t->operands.at);
  }
}

static void tile_fold(vtb_inst *fold, vtb_func *step, int64_t tile) {
  tiled t = {.fold = fold, .step = step};
  t.outer = vtb__before(fold);
  for (int i = 0; i < fold->n_operands; i++) vtb__put(step, &t.operands, fold->operands[i]);
  for (vtb_inst *e = step->first; e; e = e->next)
    for (int w = 0; w < 2 && e->op == VTB_OP_einsum; w++) turn_weights(&t, e, w);
  drop_unused(&t);
  vtb__bind_func(step, tile);
  vtb_attr_set(fold, VTB_A_INT("tile", tile));
  vtb__replace_call(fold, step, t.operands.at, (int)t.operands.n, NULL);
}

static void visit(const vtb_pass_context *c, vtb_inst *fold) {
  if (!has_samples(fold)) return;
  vtb_module *m = fold->func->module;
  const char *name = vtb_arena_printf(&m->arena, "%s_tile", fold->callee->name);
  vtb_func *step = vtb_func_clone(fold->callee, m, name);
  vtb__expand_calls(step);
  int states = (int)vtb_attr_int(fold, "states", 0);
  int64_t tile = keeps_samples_apart(step) ? tile_of(c, step, states) : 0;
  if (tile && c->target->costs.fold.one_body) step->kind = VTB_FUNC_KERNEL;
  if (tile)
    tile_fold(fold, step, tile);
  else
    vtb_module_remove(m, step);
}

void vtb__change_fold_tile(vtb_pass_context *c) {
  if (!c->target || !c->target->costs.fold.samples) return;
  for (vtb_inst **i = vtb__all_of(c->module, VTB_OP_fold); *i; i++) visit(c, *i);
}
