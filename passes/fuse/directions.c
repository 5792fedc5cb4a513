/* directions: scans of one cell along several paths become one kernel, which loads what they share
 * once.
 *
 *   %a = linscan %q, %k, %v, %d {path = "rows@14x14"}
 *   %b = linscan %q, %k, %v, %d {path = "rows~@14x14"}
 *   =>
 *   %a, %b = fused @scans(%q, %k, %v, %d) {kind = "scans"}
 *   func kernel @scans { both linscans }
 *
 * Before `fuse`; gradients (linscan_grad) and corrections (delta) alike. Joins scans that differ in
 * nothing but path and operands, read at least one sequence in common, and do not depend on one
 * another. Declines otherwise. Results that nothing reads stay inside.
 */
#include "ir/recurrence.h"
#include "passes/passes_internal.h"

#include "ir/kernels.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DIRECTIONS = 8, N_SEQUENCES = 3 /* rows of tokens come first */ };

typedef VTB_VEC(vtb_inst *) inst_list;

static bool is_scan(const vtb_inst *i) {
  return i->op == VTB_OP_linscan || i->op == VTB_OP_linscan_grad || i->op == VTB_OP_delta;
}

/* Every attribute of `a` but the path is in `b`. */
static bool attrs_within(const vtb_inst *a, const vtb_inst *b) {
  for (int i = 0; i < a->n_attrs; i++) {
    const vtb_attr *x = &a->attrs[i], *y = NULL;
    if (vtb_streq(x->key, "path")) continue;
    for (int j = 0; j < b->n_attrs; j++)
      if (vtb_streq(b->attrs[j].key, x->key)) y = &b->attrs[j];
    if (!y || !vtb_attr_equal(x, y)) return false;
  }
  return true;
}

static bool alike(const vtb_inst *a, const vtb_inst *b) {
  if (a->op != b->op || a->n_operands != b->n_operands || !attrs_within(a, b) ||
      !attrs_within(b, a))
    return false;
  for (int o = 0; o < a->n_operands; o++)
    if (!vtb_type_equal(&a->operands[o]->type, &b->operands[o]->type)) return false;
  return true;
}

static bool share_a_sequence(const vtb_inst *a, const vtb_inst *b) {
  for (int o = 0; o < N_SEQUENCES; o++)
    if (a->operands[o] == b->operands[o]) return true;
  return false;
}

/* Instructions after `first` that `i` needs, in order, without `i`; false if one of them is in the
 * group or needs one that is. */
static bool needed(const vtb_inst *first, vtb_inst *i, vtb_inst *const *group, int n,
                   inst_list *out) {
  int span = i->order - first->order;
  bool *need = vtb_xcalloc((size_t)span + 1, sizeof *need), independent = true;
  need[span] = true;
  for (vtb_inst *x = i; x != first; x = x->prev) {
    if (!need[x->order - first->order]) continue;
    for (int o = 0; o < x->n_operands; o++) {
      const vtb_inst *def = x->operands[o]->def;
      if (def && def->order >= first->order) need[def->order - first->order] = true;
    }
  }
  for (int g = 0; g < n; g++)
    if (group[g]->order < i->order) independent &= !need[group[g]->order - first->order];
  for (vtb_inst *x = first->next; independent && x != i; x = x->next)
    if (need[x->order - first->order]) vtb_vec_push(out, x);
  vtb_free(need);
  return independent;
}

/* The argument of k that stands for v; a new one if there is none. */
static vtb_value *argument(vtb_func *k, vtb_value *v, vtb_value **inputs, int *n) {
  for (int i = 0; i < *n; i++)
    if (inputs[i] == v) return k->args[i];
  inputs[(*n)++] = v;
  return vtb_func_add_arg(k, v->name, v->type);
}

/* Of a scan whose attribute last is 0, the states are no values. */
static bool is_computed(const vtb_inst *scan, int result) {
  bool states = scan->op == VTB_OP_linscan && vtb_attr_int(scan, "last", 1) == 0;
  return !states || result == 0 || result == 2;
}

static void join(vtb_func *f, vtb_inst **group, int n) {
  vtb_inst *first = group[0];
  vtb_func *k = vtb__kernel_new(first);
  vtb_builder inner = {.module = f->module, .func = k, .span = first->span};
  size_t most = (size_t)n * (size_t)(first->n_operands + first->n_results);
  vtb_value **inputs = vtb_xcalloc(most, sizeof *inputs),
            **outputs = vtb_xcalloc(most, sizeof *outputs);
  vtb_value **returns = vtb_xcalloc(most, sizeof *returns);
  vtb_value **operands = vtb_xcalloc((size_t)first->n_operands, sizeof *operands);
  int n_inputs = 0, n_returns = 0;
  for (int g = 0; g < n; g++) {
    for (int o = 0; o < first->n_operands; o++)
      operands[o] = argument(k, group[g]->operands[o], inputs, &n_inputs);
    const vtb_inst *scan = vtb_inst_clone(&inner, group[g], operands);
    for (int r = 0; r < scan->n_results; r++) {
      if (!is_computed(scan, r)) continue;
      outputs[n_returns] = group[g]->results[r];
      returns[n_returns++] = scan->results[r];
    }
  }
  vtb_func_set_returns(k, returns, NULL, n_returns);
  vtb_builder outer = {.module = f->module, .func = f, .before = first, .span = first->span};
  vtb_attr kind = VTB_A_STR("kind", vtb_kernel_kind_name(VTB_KERNEL_SCANS));
  const vtb_inst *fused = vtb_build_call(&outer, VTB_OP_fused, k, inputs, n_inputs, &kind, 1);
  for (int r = 0; r < n_returns; r++) {
    vtb__stand_in(outputs[r], fused->results[r]);
  }
  for (int g = 0; g < n; g++) vtb_inst_unlink(group[g]);
  vtb_free(inputs);
  vtb_free(outputs);
  vtb_free(returns);
  vtb_free(operands);
}

/* True if `first` was joined with others. */
static bool visit(vtb_func *f, vtb_inst *first) {
  vtb_inst *group[MOST_DIRECTIONS] = {first};
  int n = 1;
  vtb_func_number(f);
  for (vtb_inst *i = first->next, *next; i && n < MOST_DIRECTIONS; i = next) {
    inst_list before = {0};
    next = i->next;
    if (is_scan(i) && alike(first, i) && share_a_sequence(first, i) &&
        needed(first, i, group, n, &before)) {
      for (size_t b = 0; b < before.n; b++) vtb_inst_move_before(before.at[b], first);
      vtb_func_number(f);
      group[n++] = i;
    }
    vtb_vec_free(&before);
  }
  if (n == 1) return false;
  join(f, group, n);
  return true;
}

vtb_status vtb__pass_directions(vtb_pass_context *c, vtb_error *err) {
  (void)err;
  for (vtb_func *f = c->module->first; f; f = f->next) {
    if (f->kind != VTB_FUNC_PLAIN) continue;
    for (vtb_inst *i = f->first; i;) {
      vtb_inst *before = i->prev;
      bool joined = is_scan(i) && visit(f, i);
      /* joined: `i` is gone, and instructions may stand where it stood that nobody has looked at;
       * they are no scans */
      i = !joined ? i->next : before ? before->next : f->first;
    }
  }
  return VTB_OK;
}
