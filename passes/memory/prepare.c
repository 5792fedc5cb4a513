/* prepare: what depends on nothing but parameters, buffers and constants comes first in the entry,
 * marked `prepared`.
 *
 *   %h = fused @k(%x)                             %w.1 = cast %w {to = "bf16", prepared = 1}
 *   %w.1 = cast %w {to = "bf16"}           =>     %h = fused @k(%x)
 *   %y = einsum %h, %w.1                          %y = einsum %h, %w.1
 *
 * Casts of weights, tables of angles, resized position embeddings: their results keep their places
 * in the workspace, or lie in memory of their own (codegen/memory_plan.c), so that runs repeat
 * these steps only when parameters have changed (runtime/launch/launch_plan.h, program.h).
 *
 * In programs whose runs change parameters (`updates` of the context) they come first, too, so that
 * small ones of all blocks are one launch, and are not marked. {of inference}: these and programs
 * that make gradients stay as they are.
 *
 * Needs all other rewriting to be done. Declines returned values, and parts of a concatenation that
 * is not prepared: their place is in a result of other lifetime.
 */
#include "passes/passes_internal.h"

#include <string.h>

static bool is_concat(const vtb_inst *i) {
  if (i->op == VTB_OP_fused && i->callee->first) i = i->callee->first;
  return i->op == VTB_OP_concat;
}

/* Marks values that are read by a concatenation which is not ready itself, and views that lead to
 * marked ones; true if there are more now. */
static bool mark_bound(const vtb_func *f, const bool *ready, bool *bound) {
  bool more = false;
  for (const vtb_inst *i = f->last; i; i = i->prev) {
    bool leads = is_concat(i) && !ready[i->results[0]->id];
    for (int r = 0; r < i->n_results; r++)
      leads |= bound[i->results[r]->id] && vtb_op_get(i->op)->klass == VTB_CLASS_SHAPE;
    for (int o = 0; leads && o < i->n_operands; o++) {
      more |= !bound[i->operands[o]->id];
      bound[i->operands[o]->id] = true;
    }
  }
  return more;
}

static bool is_ready(const vtb_inst *i, const bool *ready, const bool *bound) {
  if (i->op == VTB_OP_fold) return false;
  for (int o = 0; o < i->n_operands; o++)
    if (!ready[i->operands[o]->id]) return false;
  for (int r = 0; r < i->n_results; r++)
    if (bound[i->results[r]->id] && i->op != VTB_OP_constant) return false;
  return true;
}

static void mark_ready(const vtb_func *entry, const bool *bound, bool *ready) {
  memset(ready, 0, (size_t)entry->n_values * sizeof *ready);
  for (int a = 0; a < entry->n_args; a++)
    ready[entry->args[a]->id] = vtb__is_parameter(entry->args[a]);
  for (const vtb_inst *i = entry->first; i; i = i->next)
    for (int r = 0; r < i->n_results; r++) ready[i->results[r]->id] = is_ready(i, ready, bound);
}

static void prepare(vtb_func *entry, bool marked) {
  bool *ready = VTB_SCRATCH(entry, bool, entry->n_values);
  bool *bound = VTB_SCRATCH(entry, bool, entry->n_values);
  /* what is returned is bound, and what then waits is no reason for others not to */
  for (int r = 0; r < entry->n_returns; r++) bound[entry->returns[r]->id] = true;
  do mark_ready(entry, bound, ready);
  while (mark_bound(entry, ready, bound)); /* fewer are ready, until no part is of another's */
  vtb_inst *behind = entry->first;         /* the first that is not */
  VTB__EACH_INST(entry, i, next) {
    if (!i->n_results || !ready[i->results[0]->id]) continue;
    if (i->op != VTB_OP_constant && marked) vtb_attr_set(i, VTB_A_INT("prepared", 1));
    if (i == behind)
      behind = next;
    else
      vtb_inst_move_before(i, behind);
  }
}

void vtb__change_prepare(vtb_pass_context *c) {
  if (!vtb__is_left_alone(c)) prepare(c->module->entry, !c->updates);
}
