/* Interpreter: elementwise ops over broadcast operands, and sources. */
#include "ir/interp_internal.h"
#include "ir/scalar.h"
#include "runtime/base/random.h"

#include <math.h>

static void copy(int64_t n, double *o, const double *const *p, const int64_t *s) {
  for (int64_t i = 0; i < n; i++) o[i] = p[0][i * s[0]];
}

static void truncate_all(int64_t n, double *o, const double *const *p, const int64_t *s) {
  for (int64_t i = 0; i < n; i++) o[i] = trunc(p[0][i * s[0]]);
}

/* Walks operands and result together; `loop` does the innermost axis. */
static vtb_status walk(vtb__interp_eval *e, vtb_scalar_loop loop) {
  const vtb_type *t = &e->out[0]->type;
  int n_in = e->inst->n_operands;
  vtb__loops l = {.rank = t->rank, .n_streams = n_in + 1};
  for (int i = 0; i < t->rank; i++) l.size[i] = t->dim[i].size;
  for (int i = 0; i < n_in; i++) vtb__broadcast_strides(&e->in[i]->type, t, l.stride[i]);
  vtb__strides(t, l.stride[n_in]);
  vtb__loops_merge(&l);
  int64_t index[VTB_MAX_RANK] = {0}, offset[VTB__MAX_STREAMS] = {0},
          step[VTB_SCALAR_OPERANDS] = {0};
  for (int i = 0; i < n_in; i++) step[i] = l.stride[i][l.rank - 1];
  do {
    const double *p[VTB_SCALAR_OPERANDS] = {0};
    for (int i = 0; i < n_in; i++) p[i] = e->in[i]->data + offset[i];
    loop(l.size[l.rank - 1], e->out[0]->data + offset[n_in], p, step);
  } while (vtb__loops_next(&l, index, offset));
  return VTB_OK;
}

vtb_status vtb__interp_scalar(vtb__interp_eval *e) {
  return walk(e, vtb_scalar_loop_of(e->inst->op));
}

vtb_status vtb__interp_cast(vtb__interp_eval *e) {
  return walk(e, e->out[0]->type.dtype == VTB_I32 ? truncate_all : copy);
}

/* ---- sources --------------------------------------------------------------------------------- */

vtb_status vtb__interp_constant(vtb__interp_eval *e) {
  int64_t n = vtb_type_count(&e->out[0]->type);
  const vtb_attr *data = vtb_attr_find(e->inst, "data");
  double value = vtb_attr_float(e->inst, "value", 0);
  for (int64_t i = 0; i < n; i++) e->out[0]->data[i] = data ? data->floats[i] : value;
  return VTB_OK;
}

vtb_status vtb__interp_iota(vtb__interp_eval *e) {
  const vtb_type *t = &e->out[0]->type;
  int64_t strides[VTB_MAX_RANK], axis = vtb_attr_int(e->inst, "axis", 0), n = vtb_type_count(t);
  vtb__strides(t, strides);
  for (int64_t i = 0; i < n; i++)
    e->out[0]->data[i] = (double)(i / strides[axis] % t->dim[axis].size);
  return VTB_OK;
}

float vtb_random_uniform(uint32_t seed, uint32_t stream, uint32_t index) {
  return (float)(vtb_random_hash(seed, stream, index) >> 8) * 0x1p-24f;
}

vtb_status vtb__interp_random(vtb__interp_eval *e) {
  int64_t n = vtb_type_count(&e->out[0]->type);
  uint32_t seed = (uint32_t)(int64_t)e->in[0]->data[0],
           stream = (uint32_t)vtb_attr_int(e->inst, "stream", 0),
           first = e->inst->n_operands > 1 ? (uint32_t)(int64_t)e->in[1]->data[0] : 0;
  for (int64_t i = 0; i < n; i++)
    e->out[0]->data[i] = (double)vtb_random_uniform(seed, stream, first + (uint32_t)i);
  return VTB_OK;
}
