/* dce: what nothing uses goes.
 *
 *   %a, %b = call @f(%x, %y)      =>   %a = call @f(%x)
 *   func @f(%x, %y) -> (a, b)          func @f(%x) -> (a)
 *   when %b has no use and @f reads %y for nothing else
 *
 * Instructions without used results, functions the entry does not reach, and arguments and results
 * of inner functions that no call needs. A result that merely returns an argument is replaced by
 * the operand at each call, a result that repeats an earlier one by that. The signatures of the
 * entry, of step functions and of kernels stay; `tap` stays. Without an entry only instructions go.
 */
#include "passes/passes_internal.h"

static bool is_root(const vtb_inst *inst) { return inst->op == VTB_OP_tap; }

int vtb__dce_func(vtb_func *f) {
  int removed = 0;
  int *uses = vtb__uses(f);
  for (vtb_inst *inst = f->last, *prev; inst; inst = prev) {
    prev = inst->prev;
    bool used = is_root(inst);
    for (int i = 0; i < inst->n_results; i++) used |= uses[inst->results[i]->id] > 0;
    if (used) continue;
    for (int i = 0; i < inst->n_operands; i++) uses[inst->operands[i]->id]--;
    vtb_inst_unlink(inst);
    removed++;
  }
  return removed;
}

/* A function whose signature may change: what calls it, and what they use of it. */
typedef struct signature {
  vtb_func *func;
  vtb_inst **calls;
  bool *used; /* by return */
} signature;

/* False if some use is not a plain call. */
static bool find_signature(vtb_func *f, signature *s) {
  *s = (signature){f, vtb__calls_of(f), VTB_SCRATCH(f, bool, f->n_returns)};
  for (vtb_inst **c = s->calls; *c; c++) {
    if ((*c)->op != VTB_OP_call) return false;
    for (int i = 0; i < f->n_returns; i++) s->used[i] |= vtb_is_read((*c)->results[i]);
  }
  return f->kind == VTB_FUNC_PLAIN && f != f->module->entry;
}

/* Results that the caller already has. */
static bool bypass_returns(signature *s) {
  bool changed = false;
  for (int i = 0; i < s->func->n_returns; i++) {
    const vtb_value *v = s->func->returns[i];
    int same = vtb_return_of(v);
    if (!s->used[i] || (v->def && same == i)) continue;
    for (vtb_inst **c = s->calls; *c; c++)
      vtb_replace_all((*c)->results[i], v->def ? (*c)->results[same] : (*c)->operands[v->index]);
    if (v->def) s->used[same] = true;
    s->used[i] = false;
    changed = true;
  }
  return changed;
}

/* Gives the function the signature it needs and rewrites its calls. */
static bool shrink(signature *s) {
  vtb_func *f = s->func;
  int *return_map = VTB_SCRATCH(f, int, f->n_returns), n_kept = 0;
  vtb_value **values = VTB_SCRATCH(f, vtb_value *, f->n_returns);
  const char **names = VTB_SCRATCH(f, const char *, f->n_returns);
  for (int i = 0; i < f->n_returns; i++) {
    return_map[i] = s->used[i] ? n_kept : -1;
    if (!s->used[i]) continue;
    values[n_kept] = f->returns[i];
    names[n_kept++] = f->return_names ? f->return_names[i] : NULL;
  }
  bool changed = n_kept < f->n_returns && n_kept > 0;
  if (changed) vtb_func_set_returns(f, values, names, n_kept);
  vtb__dce_func(f);
  int *uses = vtb__uses(f), n_args = 0, old_args = f->n_args;
  bool *keep = VTB_SCRATCH(f, bool, old_args);
  for (int i = 0; i < old_args; i++) n_args += keep[i] = uses[f->args[i]->id] > 0;
  for (int i = old_args - 1; i >= 0; i--)
    if (!keep[i]) vtb_func_remove_arg(f, i);
  if (!changed && n_args == old_args) return false;
  vtb_value **operands = VTB_SCRATCH(f, vtb_value *, n_args);
  for (vtb_inst **c = s->calls; *c; c++) {
    for (int i = 0, to = 0; i < old_args; i++)
      if (keep[i]) operands[to++] = (*c)->operands[i];
    vtb__replace_call(*c, f, operands, n_args, changed ? return_map : NULL);
  }
  return true;
}

static void remove_unreached(vtb_module *m) {
  vtb_func **reached = vtb__callees_first(m, m->entry);
  for (vtb_func *f = m->first, *next; f; f = next) {
    next = f->next;
    vtb_func **at = reached;
    while (*at && *at != f) at++;
    if (!*at) vtb_module_remove(m, f);
  }
}

/* One round over the inner functions, callers first, so that an unused result is unused all the way
 * down in one round. */
static bool shrink_functions(vtb_module *m) {
  vtb_func **all = vtb__callees_first(m, m->entry);
  size_t n = 0;
  bool changed = false;
  while (all[n]) n++;
  while (n-- > 0) {
    signature s;
    vtb__dce_func(all[n]);
    if (!find_signature(all[n], &s)) continue;
    changed |= bypass_returns(&s);
    changed |= shrink(&s);
  }
  return changed;
}

void vtb__change_dce(vtb_pass_context *c) {
  vtb_module *m = c->module;
  for (vtb_func *f = m->first; f; f = f->next) vtb__dce_func(f);
  if (!m->entry) return;
  do remove_unreached(m);
  while (shrink_functions(m));
  remove_unreached(m);
}
