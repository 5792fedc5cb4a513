/* hoist: what a block computes from parameters alone is computed by its caller.
 *
 *   func @block(%x, %wi, %wf)                          func @block(%x, %w)
 *     %w = fused @concat(%wi, %wf)                       %y = einsum %x, %w
 *     %y = einsum %x, %w                          =>
 *   func @entry(%image, %a.wi, %a.wf, ...)             func @entry(%image, %a.wi, %a.wf, ...)
 *     %y = call @block(%image, %a.wi, %a.wf)             %w = fused @concat(%a.wi, %a.wf)
 *                                                        %y = call @block(%image, %w)
 *
 * In the entry it is prepared once for all runs while parameters stay as they are, and shared by
 * the way back. Behind all rewriting, for targets that prepare. What depends on other arguments
 * stays, and so do scans, random numbers and calls.
 */
#include "passes/passes_internal.h"

#include <stdlib.h>

typedef struct hoister {
  vtb_module *module;
  VTB_VEC(bool *) ready; /* by function and value id: made of parameters alone */
  VTB_VEC(vtb_func *) funcs;
} hoister;

static bool *ready_in(const hoister *h, const vtb_func *f) {
  for (size_t i = 0; i < h->funcs.n; i++)
    if (h->funcs.at[i] == f) return h->ready.at[i];
  vtb_bug("function @%s is not in the program", f->name);
}

static bool is_work(const vtb_inst *i) {
  return i->op == VTB_OP_fused || i->op == VTB_OP_einsum || i->op == VTB_OP_concat ||
         vtb_op_get(i->op)->klass == VTB_CLASS_ELEMENTWISE ||
         vtb_op_get(i->op)->klass == VTB_CLASS_REDUCE;
}

static void mark(const vtb_func *f, bool *ready) {
  for (const vtb_inst *i = f->first; i; i = i->next) {
    bool all = vtb_is_free(i->op) || is_work(i);
    for (int o = 0; o < i->n_operands; o++) all &= ready[i->operands[o]->id];
    for (int r = 0; r < i->n_results; r++) ready[i->results[r]->id] = all;
  }
}

/* Arguments of f that every call gives something ready; false if nothing is new. */
static bool mark_arguments(hoister *h, vtb_func *f) {
  bool *ready = ready_in(h, f), changed = false;
  for (int a = 0; a < f->n_args; a++) {
    bool all = true, called = false;
    for (size_t g = 0; g < h->funcs.n && all; g++)
      for (const vtb_inst *i = h->funcs.at[g]->first; i && all; i = i->next) {
        if (i->callee != f) continue;
        called = true;
        all = i->op == VTB_OP_call && h->ready.at[g][i->operands[a]->id];
      }
    changed |= all && called && !ready[f->args[a]->id];
    ready[f->args[a]->id] |= all && called;
  }
  return changed;
}

static void find_ready(hoister *h) {
  const vtb_func *entry = h->module->entry;
  for (vtb_func *f = h->module->first; f; f = f->next) {
    if (f->kind != VTB_FUNC_PLAIN) continue;
    bool *ready = vtb_xcalloc((size_t)f->n_values + 1, sizeof *ready);
    for (int a = 0; f == entry && a < f->n_args; a++) {
      vtb_role role = f->arg_info[a].role;
      ready[f->args[a]->id] = role == VTB_ROLE_PARAM || role == VTB_ROLE_BUFFER;
    }
    vtb_vec_push(&h->funcs, f);
    vtb_vec_push(&h->ready, ready);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < h->funcs.n; i++) mark(h->funcs.at[i], h->ready.at[i]);
    for (size_t i = 0; i < h->funcs.n; i++)
      if (h->funcs.at[i] != entry) changed |= mark_arguments(h, h->funcs.at[i]);
  }
}

static bool is_among(const vtb_value *v, vtb_value *const *only, int n) {
  for (int i = 0; i < n; i++)
    if (only[i] == v) return true;
  return !only;
}

/* Results of ready work of f that others read: new arguments take their place. How many. */
static int wanted(const vtb_func *f, const bool *ready, vtb_value *const *only, int n_only,
                  vtb_value **out) {
  int n = 0;
  for (const vtb_inst *i = f->first; i; i = i->next) {
    if (!i->n_results || !ready[i->results[0]->id]) continue;
    if (only ? !is_among(i->results[0], only, n_only) : !is_work(i)) continue;
    for (int r = 0; r < i->n_results; r++) out[n++] = i->results[r];
  }
  return n;
}

/* The ready instructions of f once more before `call`, then the call with their results. */
static void extend_call(vtb_func *f, const bool *ready, vtb_inst *call, vtb_value **results,
                        int n) {
  vtb_builder b = {.module = f->module, .func = call->func, .before = call, .span = call->span};
  vtb_value **there = vtb_xcalloc((size_t)f->n_values + 1, sizeof *there);
  vtb_value **operands = vtb_xcalloc((size_t)f->n_args + (size_t)n + 1, sizeof *operands);
  for (int a = 0; a < call->n_operands; a++) {
    operands[a] = call->operands[a];
    there[f->args[a]->id] = call->operands[a];
  }
  for (const vtb_inst *i = f->first; i; i = i->next)
    if (vtb_makes_any(i, ready)) vtb_inst_copy(&b, i, there);
  for (int r = 0; r < n; r++) operands[call->n_operands + r] = there[results[r]->id];
  vtb__replace_call(call, f, operands, call->n_operands + n, NULL);
  vtb_free(there);
  vtb_free(operands);
}

static void hoist_from(hoister *h, vtb_func *f, vtb_value *const *only, int n_only) {
  vtb_value **results = vtb_xcalloc((size_t)f->n_values + 1, sizeof *results);
  bool *ready = ready_in(h, f);
  int n = wanted(f, ready, only, n_only, results), n_args = f->n_args;
  VTB_VEC(vtb_inst *) calls = {0};
  for (vtb_func *g = h->module->first; n && g; g = g->next)
    for (vtb_inst *i = g->first; i; i = i->next)
      if (i->callee == f) vtb_vec_push(&calls, i);
  for (int r = 0; r < n; r++) vtb_func_add_arg(f, results[r]->name, results[r]->type);
  for (size_t c = 0; c < calls.n; c++) extend_call(f, ready, calls.at[c], results, n);
  for (int r = n; r-- > 0;) {
    vtb_value *arg = f->args[n_args + r];
    vtb__swap_names(results[r], arg);
    vtb_replace_all(results[r], arg);
  }
  for (vtb_inst *i = f->last, *before; n && !only && i; i = before) {
    before = i->prev;
    if (is_work(i) && ready[i->results[0]->id]) vtb_inst_unlink(i);
  }
  vtb_vec_free(&calls);
  vtb_free(results);
}

void vtb__hoist(vtb_func *f, vtb_value *const *only, int n) {
  hoister h = {.module = f->module};
  find_ready(&h);
  hoist_from(&h, f, only, n);
  for (size_t i = 0; i < h.ready.n; i++) vtb_free(h.ready.at[i]);
  vtb_vec_free(&h.ready);
  vtb_vec_free(&h.funcs);
}

/* A function is called by those behind it, the entry last. */
vtb_status vtb__pass_hoist(vtb_pass_context *c, vtb_error *err) {
  (void)err;
  for (vtb_func *f = c->module->first; f; f = f->next)
    if (f->kind == VTB_FUNC_PLAIN && f != c->module->entry) vtb__hoist(f, NULL, 0);
  vtb__cse_func(c->module->entry);
  vtb__dce_func(c->module->entry);
  return VTB_OK;
}
