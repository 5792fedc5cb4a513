/* Instructions of a function that are to become one kernel: what reads them, where the kernel can
 * stand, and the kernel. */
#include "passes/passes_internal.h"

#include "ir/checks.h"
#include "ir/kernels.h"

#include <stdlib.h>

bool vtb__group_has(const vtb__group *g, const vtb_inst *i) {
  for (int m = 0; m < g->n; m++)
    if (g->at[m] == i) return true;
  return false;
}

bool vtb__group_add(vtb__group *g, vtb_inst *i) {
  if (vtb__group_has(g, i)) return true;
  if (g->n == VTB__GROUP_MOST) return false;
  g->at[g->n++] = i;
  return true;
}

bool vtb__group_is_read(const vtb__group *g, const vtb_value *v, int *first) {
  vtb_inst **readers;
  size_t n = vtb_value_readers(v, &readers);
  bool any = vtb_is_returned(v);
  for (size_t i = 0; i < n; i++) {
    if (vtb__group_has(g, readers[i])) continue;
    any = true;
    if (readers[i]->order < *first) *first = readers[i]->order;
  }
  vtb_free(readers);
  return any;
}

static int place_of(const vtb__group *g) {
  int place = 0;
  for (int m = 0; m < g->n; m++)
    for (int o = 0; o < g->at[m]->n_operands; o++) {
      const vtb_inst *def = g->at[m]->operands[o]->def;
      if (def && !vtb__group_has(g, def) && def->order + 1 > place) place = def->order + 1;
    }
  return place;
}

bool vtb__group_stands(const vtb__group *g) {
  int first = INT32_MAX;
  for (int m = 0; m < g->n; m++)
    for (int r = 0; r < g->at[m]->n_results; r++)
      vtb__group_is_read(g, g->at[m]->results[r], &first);
  return place_of(g) <= first;
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static int by_order(const void *x, const void *y) {
  return (*(vtb_inst *const *)x)->order - (*(vtb_inst *const *)y)->order;
}

typedef struct kernel {
  vtb_func *func;
  vtb_builder b;
  vtb_value **inside; /* by id of the plain function's values */
  vtb_value **inputs;
  int n_inputs;
} kernel;

/* A view of what comes from outside is one inside, too: views of one value are one argument. */
static vtb_value *value_inside(kernel *k, vtb_value *v, bool views) {
  if (!k->inside[v->id] && views && v->def && v->def->op == VTB_OP_reshape) {
    vtb_value *source = value_inside(k, v->def->operands[0], views);
    k->inside[v->id] = vtb_inst_clone(&k->b, v->def, &source)->results[0];
  } else if (!k->inside[v->id]) {
    k->inputs[k->n_inputs++] = v;
    k->inside[v->id] = vtb_func_add_arg(k->func, v->name, v->type);
  }
  return k->inside[v->id];
}

static void copy_member(kernel *k, vtb_inst *i, bool views) {
  vtb_value **operands = vtb_xcalloc((size_t)i->n_operands + 1, sizeof *operands);
  for (int o = 0; o < i->n_operands; o++) operands[o] = value_inside(k, i->operands[o], views);
  if (i->op == VTB_OP_fused) {
    const vtb_func *f = i->callee;
    vtb_value **body = vtb_xcalloc((size_t)f->n_values + 1, sizeof *body);
    for (int a = 0; a < f->n_args; a++) body[f->args[a]->id] = operands[a];
    vtb__copy_body(&k->b, f, body);
    for (int r = 0; r < i->n_results; r++) k->inside[i->results[r]->id] = body[f->returns[r]->id];
    vtb_free(body);
  } else {
    const vtb_inst *copy = vtb_inst_clone(&k->b, i, operands);
    for (int r = 0; r < i->n_results; r++) k->inside[i->results[r]->id] = copy->results[r];
  }
  vtb_free(operands);
}

static vtb_inst *at_order(const vtb_func *f, int order) {
  for (vtb_inst *i = f->first; i; i = i->next)
    if (i->order == order) return i;
  return NULL;
}

vtb_status vtb__group_check(const vtb__group *g, const vtb_func *f, vtb_error *err) {
  if (g->n < 1 || g->n > VTB__GROUP_MOST)
    return vtb_fail(err, VTB_E_INTERNAL, "a group of @%s has %d members", f->name, g->n);
  for (int m = 0; m < g->n; m++) {
    const vtb_inst *i = g->at[m];
    const char *op = vtb_op_get(i->op)->name;
    if (i->func != f)
      return vtb_fail(err, VTB_E_INTERNAL, "a group of @%s has a %s of @%s", f->name, op,
                      i->func->name);
    if ((i->prev ? i->prev->next : f->first) != i)
      return vtb_fail(err, VTB_E_INTERNAL, "a group of @%s has a %s that is not in it", f->name,
                      op);
    for (int k = 0; k < m; k++)
      if (g->at[k] == i)
        return vtb_fail(err, VTB_E_INTERNAL, "a group of @%s has a %s twice", f->name, op);
  }
  if (vtb__group_stands(g)) return VTB_OK;
  return vtb_fail(err, VTB_E_INTERNAL,
                  "a group of @%s has no place between what it reads and what reads it", f->name);
}

/* The kernel of a group, and what its call reads and makes. */
typedef struct joined {
  vtb_func *func;
  vtb_value **inputs, **outputs;
  int n_inputs, n_outputs;
} joined;

static joined make_kernel(vtb__group *g, vtb_func *f, const vtb_inst *named, bool views) {
  qsort(g->at, (size_t)g->n, sizeof *g->at, by_order);
  kernel k = {.func = vtb__kernel_new(named)};
  k.b = (vtb_builder){.module = f->module, .func = k.func, .span = named->span};
  k.inside = vtb_xcalloc((size_t)f->n_values + 1, sizeof *k.inside);
  k.inputs = vtb_xcalloc((size_t)f->n_values + 1, sizeof *k.inputs);
  joined j = {.func = k.func, .outputs = vtb_xcalloc((size_t)f->n_values + 1, sizeof *j.outputs)};
  vtb_value **returns = vtb_xcalloc((size_t)f->n_values + 1, sizeof *returns);
  for (int m = 0; m < g->n; m++) copy_member(&k, g->at[m], views);
  for (int m = 0; m < g->n; m++)
    for (int r = 0, first = 0; r < g->at[m]->n_results; r++) {
      if (!vtb__group_is_read(g, g->at[m]->results[r], &first)) continue;
      j.outputs[j.n_outputs] = g->at[m]->results[r];
      returns[j.n_outputs++] = k.inside[g->at[m]->results[r]->id];
    }
  vtb_func_set_returns(k.func, returns, NULL, j.n_outputs);
  j.inputs = k.inputs;
  j.n_inputs = k.n_inputs;
  vtb_free(k.inside);
  vtb_free(returns);
  return j;
}

static void free_joined(joined *j) {
  vtb_free(j->inputs);
  vtb_free(j->outputs);
}

vtb_answer vtb__group_ask(vtb__group *g, vtb_func *f, const vtb_inst *named, const char *kind,
                          bool views, vtb_asker *asker) {
  if (!asker) return vtb_ask(NULL, named);
  joined j = make_kernel(g, f, named, views);
  vtb_attr attr = VTB_A_STR("kind", kind);
  vtb_inst call = {.op = VTB_OP_fused,
                   .n_operands = j.n_inputs,
                   .n_results = j.n_outputs,
                   .n_attrs = 1,
                   .operands = j.inputs,
                   .results = j.outputs,
                   .attrs = &attr,
                   .callee = j.func,
                   .func = f};
  vtb_answer a = vtb_ask(asker, &call);
  vtb_module_remove(f->module, j.func);
  free_joined(&j);
  return a;
}

vtb_inst *vtb__group_join(vtb__group *g, vtb_func *f, const vtb_inst *named, const char *kind,
                          bool views) {
  vtb_error err = {0};
  if (vtb_checks()) vtb_check(vtb__group_check(g, f, &err) == VTB_OK, "%s", err.text);
  joined j = make_kernel(g, f, named, views);
  vtb_builder outer = {
      .module = f->module, .func = f, .before = at_order(f, place_of(g)), .span = named->span};
  vtb_attr attr = VTB_A_STR("kind", kind);
  vtb_inst *fused = vtb_build_call(&outer, VTB_OP_fused, j.func, j.inputs, j.n_inputs, &attr, 1);
  for (int r = 0; r < j.n_outputs; r++) vtb__stand_in(j.outputs[r], fused->results[r]);
  for (int m = g->n; m-- > 0;) vtb_inst_unlink(g->at[m]);
  free_joined(&j);
  return fused;
}
