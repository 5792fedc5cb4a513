/* gather: what a training step makes of weights on its way to gradients alone stands before its
 * update, if it takes no time.
 *
 *   %d1, %e1 = call @block_grad(%y0, ...)              %d1, %e1 = call @block_grad(%y0, ...)
 *   %dw1 = einsum %e1, %u1                             %d0, %e0 = call @block_grad(%x, ...)
 *   %d0, %e0 = call @block_grad(%x, ...)        =>     %dw1 = einsum %e1, %u1
 *   %dw0 = einsum %e0, %u0                             %dw0 = einsum %e0, %u0
 *   %verdict = verdict ...                             %verdict = verdict ...
 *
 * In the entry, sorted by how much stands between them and the update: what does not depend on one
 * another is then side by side for all blocks, and few launches (codegen/cuda/plan/jobs.c). Behind
 * hoist. Declines gradients made of no weights, which are told to other devices as soon as they are
 * there, and what is more than a megabyte, since it would stay in memory for longer.
 */
#include "passes/passes_internal.h"

enum { MOST_BYTES = 1 << 20 };

typedef struct gatherer {
  vtb_func *f;
  int *early, *late; /* by order: kernels up to here from parameters, or from here to the update,
                        itself included; -1: it stays */
} gatherer;

static bool is_update(const vtb_inst *i) {
  return i->op == VTB_OP_verdict || i->op == VTB_OP_update;
}

static bool is_small(const vtb_inst *i) {
  int64_t bytes = 0;
  if (!vtb_is_free(i->op) && i->op != VTB_OP_fused && i->op != VTB_OP_einsum &&
      i->op != VTB_OP_concat && vtb_op_get(i->op)->klass != VTB_CLASS_ELEMENTWISE)
    return false;
  for (int o = 0; o < i->n_operands; o++) bytes += vtb_type_bytes(&i->operands[o]->type);
  for (int r = 0; r < i->n_results; r++) bytes += vtb_type_bytes(&i->results[r]->type);
  return bytes <= MOST_BYTES || (vtb_is_free(i->op) && bytes <= 4 * MOST_BYTES);
}

static void find_early(gatherer *g) {
  for (const vtb_inst *i = g->f->first; i; i = i->next) {
    int level = is_small(i) ? 0 : -1;
    for (int o = 0; o < i->n_operands && level >= 0; o++) {
      const vtb_value *v = i->operands[o];
      int before = vtb__is_parameter(v) ? 0 : v->def ? g->early[v->def->order] : -1;
      level = before < 0 ? -1 : before > level ? before : level;
    }
    g->early[i->order] = level < 0 || vtb_is_free(i->op) ? level : level + 1;
  }
}

static void find_late(gatherer *g, const vtb_inst *update) {
  for (const vtb_inst *i = g->f->last; i; i = i->prev) {
    int level = is_small(i) && i->order < update->order && g->early[i->order] < 0 ? 0 : -1;
    for (int r = 0; r < i->n_results && level >= 0; r++) {
      for (vtb_inst **k = vtb__readers(i->results[r]); *k && level >= 0; k++) {
        int behind = is_update(*k) ? 0 : g->late[(*k)->order];
        level = behind < 0 ? -1 : behind > level ? behind : level;
      }
    }
    g->late[i->order] = level < 0 || vtb_is_free(i->op) ? level : level + 1;
  }
}

/* Keeps the readers of weights or of what is made of them, and these readers' readers. */
static void keep_chains_of_weights(gatherer *g) {
  for (const vtb_inst *i = g->f->first; i; i = i->next) {
    bool of_weights = false;
    for (int o = 0; o < i->n_operands && g->late[i->order] >= 0; o++) {
      const vtb_value *v = i->operands[o];
      of_weights |= vtb__is_parameter(v) ||
                    (v->def && (g->early[v->def->order] > 0 || g->late[v->def->order] >= 0));
    }
    if (!of_weights) g->late[i->order] = -1;
  }
}

/* Moves late instructions before `place`, the highest level first. */
static void move(gatherer *g, vtb_inst *place) {
  const int *level = g->late;
  VTB_VEC(vtb_inst *) all = {0};
  int most = 0;
  for (vtb_inst *i = g->f->first; i; i = i->next) {
    if (level[i->order] < 0) continue;
    vtb__put(g->f, &all, i);
    if (level[i->order] > most) most = level[i->order];
  }
  for (int l = 0; l <= most; l++)
    for (size_t k = 0; k < all.n; k++)
      if (level[all.at[k]->order] == most - l) vtb_inst_move_before(all.at[k], place);
}

void vtb__change_gather(vtb_pass_context *c) {
  vtb_func *f = c->module->entry;
  vtb_inst *update = f->first;
  while (update && !is_update(update)) update = update->next;
  if (!c->updates || !update) return;
  gatherer g = {.f = f};
  int n = vtb_func_number(f);
  g.early = VTB_SCRATCH(f, int, n);
  g.late = VTB_SCRATCH(f, int, n);
  find_early(&g);
  find_late(&g, update);
  keep_chains_of_weights(&g);
  move(&g, update);
}
