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
 * stays, and so do scans, random numbers and calls. {of inference}: of other programs everything
 * stays.
 */
#include "passes/passes_internal.h"

/* By value id, true of what is made of parameters alone: the function's `scratch`. */
static bool *ready_in(const vtb_func *f) { return f->scratch; }

static bool is_work(const vtb_inst *i) {
  return i->op == VTB_OP_fused || i->op == VTB_OP_einsum || i->op == VTB_OP_concat ||
         i->op == VTB_OP_gather || i->op == VTB_OP_quantize ||
         vtb_op_get(i->op)->klass == VTB_CLASS_ELEMENTWISE ||
         vtb_op_get(i->op)->klass == VTB_CLASS_REDUCE;
}

/* Of an argument it is true where every call gives something ready: callers are marked before. */
static void mark(const vtb_func *f) {
  bool *ready = ready_in(f), entry = f == f->module->entry;
  vtb_inst **calls = vtb__calls_of(f);
  for (int a = 0; a < f->n_args; a++) {
    bool all = entry ? vtb__is_parameter(f->args[a]) : *calls != NULL;
    for (vtb_inst **c = calls; *c && all && !entry; c++)
      all = (*c)->op == VTB_OP_call && ready_in((*c)->func)[(*c)->operands[a]->id];
    ready[f->args[a]->id] = all;
  }
  for (const vtb_inst *i = f->first; i; i = i->next) {
    bool all = vtb_is_free(i->op) || is_work(i);
    for (int o = 0; o < i->n_operands; o++) all &= ready[i->operands[o]->id];
    for (int r = 0; r < i->n_results; r++) ready[i->results[r]->id] = all;
  }
}

void vtb__find_made_of_parameters(vtb_module *m) {
  vtb_func **all = vtb__callees_first(m, m->entry), **end = all;
  for (vtb_func *f = m->first; f; f = f->next) f->scratch = VTB_SCRATCH(f, bool, f->n_values);
  while (*end) end++;
  while (end-- > all)
    if ((*end)->kind == VTB_FUNC_PLAIN) mark(*end);
}

const bool *vtb__made_of_parameters(const vtb_func *f) { return ready_in(f); }

static bool is_among(const vtb_value *v, vtb_value *const *only, int n) {
  for (int i = 0; i < n; i++)
    if (only[i] == v) return true;
  return !only;
}

/* By what stays, or through views. */
static bool is_read_here(const vtb_value *v, const bool *ready) {
  for (vtb_inst **i = vtb__readers(v); *i; i++) {
    const vtb_value *y = (*i)->n_results ? (*i)->results[0] : NULL;
    if (!y || !ready[y->id] || (!is_work(*i) && is_read_here(y, ready))) return true;
  }
  return vtb_is_returned(v);
}

/* Results of ready work of f that others read: new arguments take their place. How many. */
static int wanted(const vtb_func *f, const bool *ready, vtb_value *const *only, int n_only,
                  vtb_value **out) {
  int n = 0;
  for (const vtb_inst *i = f->first; i; i = i->next) {
    if (!i->n_results || !ready[i->results[0]->id]) continue;
    if (only ? !is_among(i->results[0], only, n_only) : !is_work(i)) continue;
    for (int r = 0; r < i->n_results; r++)
      if (only || is_read_here(i->results[r], ready)) out[n++] = i->results[r];
  }
  return n;
}

/* The ready instructions of f once more before `call`, then the call with their results. */
static void extend_call(vtb_func *f, const bool *ready, vtb_inst *call, vtb_value **results,
                        int n) {
  vtb_builder b = vtb__before(call);
  vtb_value **there = VTB_SCRATCH(f, vtb_value *, f->n_values);
  vtb_value **more = VTB_SCRATCH(f, vtb_value *, n);
  for (int a = 0; a < call->n_operands; a++) there[f->args[a]->id] = call->operands[a];
  for (const vtb_inst *i = f->first; i; i = i->next)
    if (vtb_makes_any(i, ready)) vtb_inst_copy(&b, i, there);
  for (int r = 0; r < n; r++) more[r] = there[results[r]->id];
  vtb__call_with(call, f, more, n);
}

void vtb__hoist(vtb_func *f, vtb_value *const *only, int n_only) {
  vtb_value **results = VTB_SCRATCH(f, vtb_value *, f->n_values);
  vtb__find_made_of_parameters(f->module);
  bool *ready = ready_in(f);
  int n = wanted(f, ready, only, n_only, results), n_args = f->n_args;
  vtb_inst **calls = vtb__calls_of(f);
  for (int r = 0; r < n; r++) vtb_func_add_arg(f, results[r]->name, results[r]->type);
  for (vtb_inst **c = calls; *c && n; c++) extend_call(f, ready, *c, results, n);
  for (int r = n; r-- > 0;) {
    vtb_value *arg = f->args[n_args + r];
    vtb__stand_in(results[r], arg);
  }
  for (vtb_inst *i = f->last, *before; n && !only && i; i = before) {
    before = i->prev;
    if (ready[i->results[0]->id] && (is_work(i) || !is_read_here(i->results[0], ready)))
      vtb_inst_unlink(i);
  }
}

/* A function is called by those behind it, the entry last. */
void vtb__change_hoist(vtb_pass_context *c) {
  if (vtb__is_left_alone(c)) return;
  for (vtb_func *f = c->module->first; f; f = f->next)
    if (f->kind == VTB_FUNC_PLAIN && f != c->module->entry) vtb__hoist(f, NULL, 0);
  vtb__cse_func(c->module->entry);
  vtb__dce_func(c->module->entry);
}
