/* The interpreter of verdict and update (ir/update.h). */
#include "ir/interp_internal.h"
#include "ir/update.h"

#include <math.h>

static double scalar(const vtb__interp_eval *e, int row) {
  return e->in[0]->data[2 * row] + e->in[0]->data[2 * row + 1];
}

vtb_status vtb__interp_verdict(vtb__interp_eval *e) {
  double sum = 0, scale = scalar(e, VTB_SCALAR_SCALE), bound = scalar(e, VTB_SCALAR_CLIP);
  int culprit = -1;
  for (int i = 2; i < e->inst->n_operands; i++) {
    int64_t n = vtb_type_count(&e->in[i]->type);
    for (int64_t k = 0; k < n; k++) sum += e->in[i]->data[k] * e->in[i]->data[k];
    if (!isfinite(sum) && culprit < 0) culprit = i - 2;
  }
  double norm = sqrt(sum) / scale, *out = e->out[0]->data;
  out[VTB_VERDICT_FACTOR] = (bound > 0 ? fmin(1, bound / (norm + 1e-6)) : 1) / scale;
  out[VTB_VERDICT_COUNTS] = isfinite(norm) && isfinite(e->in[1]->data[0]);
  out[VTB_VERDICT_NORM] = norm;
  out[VTB_VERDICT_CULPRIT] = culprit;
  return VTB_OK;
}

/* The rule's arguments for tensor k: vectors are borrowed, scalars lie in `small`. */
static void bind_rule(const vtb__interp_eval *e, const vtb_update *u, int k, double *small,
                      vtb__interp_frame *f) {
  const vtb_func *rule = e->inst->callee;
  int vectors = vtb_update_vectors(u);
  int64_t n = vtb_type_count(&e->in[vtb_update_operand(u, 0, k)]->type);
  small[0] = e->in[2]->data[VTB_VERDICT_FACTOR];
  small[1] = e->in[1]->data[2 * k];
  small[2] = e->in[1]->data[2 * k + 1];
  for (int i = 0; i < u->scalars; i++) small[VTB_RULE_LEAD + i] = scalar(e, i);
  for (int i = 0; i < rule->n_args; i++) {
    double *data = i < vectors ? e->in[vtb_update_operand(u, i, k)]->data : small + (i - vectors);
    vtb_type t = rule->args[i]->type;
    if (i < vectors) t.dim[0].size = n;
    f->t[rule->args[i]->id] = (vtb_tensor){t, data};
    f->borrowed[rule->args[i]->id] = true;
  }
  e->machine->batch = n;
}

static vtb_status apply_rule(vtb__interp_eval *e, const vtb_update *u, int k, double *small) {
  const vtb_func *rule = e->inst->callee;
  bool counts = e->in[2]->data[VTB_VERDICT_COUNTS] != 0;
  vtb__interp_frame f;
  vtb__frame_init(&f, rule, false);
  bind_rule(e, u, k, small, &f);
  vtb_status status = vtb__frame_run(e->machine, &f);
  for (int r = 0; status == VTB_OK && r < rule->n_returns; r++) {
    vtb_tensor *out = e->out[vtb_update_result(u, r, k)];
    const double *old = e->in[vtb_update_operand(u, r ? r + 1 : 0, k)]->data;
    memcpy(out->data, counts ? f.t[rule->returns[r]->id].data : old,
           (size_t)vtb_type_count(&out->type) * sizeof(double));
  }
  vtb__frame_free(&f);
  return status;
}

vtb_status vtb__interp_update(vtb__interp_eval *e) {
  vtb_update u = vtb_update_of(e->inst);
  int64_t batch = e->machine->batch;
  double *small = vtb_xcalloc((size_t)(VTB_RULE_LEAD + u.scalars), sizeof *small);
  vtb_status status = VTB_OK;
  for (int k = 0; k < u.tensors && status == VTB_OK; k++) status = apply_rule(e, &u, k, small);
  e->machine->batch = batch;
  vtb_free(small);
  return status;
}
