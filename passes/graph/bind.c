/* bind: every axis of the batch gets the size of the context's.
 *
 *   %y = reshape %x {shape=[-1, 8]} : f32[B, 8]   =>   %y = reshape %x {shape=[4, 8]} : f32[B=4, 8]
 *
 * Types of all values and the shapes kept in attributes change together; nothing else depends on
 * the batch. The layouts of sequences go: they are for readers and drawings of the model, and
 * kernels that differ in nothing else are to be one.
 */
#include "passes/passes_internal.h"

static void bind_type(vtb_type *t, int64_t batch) {
  for (int i = 0; i < t->rank; i++) t->dim[i].size = vtb_bound_size(t->dim[i].size, batch);
}

static void bind_shape(vtb_inst *inst, int64_t batch) {
  int n;
  const int64_t *shape = vtb_attr_ints(inst, "shape", &n);
  int64_t bound[VTB_MAX_RANK];
  int64_t size = vtb_attr_int(inst, "size", 0);
  if (vtb_is_batch(size)) vtb_attr_set(inst, VTB_A_INT("size", vtb_bound_size(size, batch)));
  if (!shape || n > VTB_MAX_RANK) return;
  bool changed = false;
  for (int i = 0; i < n; i++) {
    bound[i] = vtb_bound_size(shape[i], batch);
    changed |= vtb_is_batch(shape[i]);
  }
  if (changed) vtb_attr_set(inst, VTB_A_INTS("shape", bound, n));
}

void vtb__bind_func(vtb_func *f, int64_t batch) {
  for (int i = 0; i < f->n_args; i++) bind_type(&f->args[i]->type, batch);
  for (vtb_inst *inst = f->first; inst; inst = inst->next) {
    bind_shape(inst, batch);
    vtb_attr_remove(inst, "layout");
    vtb_attr_remove(inst, "windows");
    for (int i = 0; i < inst->n_results; i++) bind_type(&inst->results[i]->type, batch);
  }
}

vtb_status vtb__pass_bind(vtb_pass_context *c, vtb_error *err) {
  if (c->batch < 1)
    return vtb_fail(err, VTB_E_USAGE, "the batch must be at least 1, and is %lld",
                    (long long)c->batch);
  for (vtb_func *f = c->module->first; f; f = f->next)
    if (f->kind != VTB_FUNC_RULE) vtb__bind_func(f, c->batch); /* a rule's VTB_DYN is no batch */
  return VTB_OK;
}
