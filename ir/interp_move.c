/* Interpreter: reductions and ops that move elements. */
#include "ir/interp_internal.h"
#include "ir/ops.h"

#include <math.h>

/* ---- reductions ------------------------------------------------------------------------------ */

static void reduce_inner(bool is_max, int64_t n, double *o, int64_t so, const double *x,
                         int64_t sx) {
  if (so == 0) {
    double acc = *o;
    for (int64_t i = 0; i < n; i++)
      acc = is_max ? (x[i * sx] > acc ? x[i * sx] : acc) : acc + x[i * sx];
    *o = acc;
  } else if (is_max) {
    for (int64_t i = 0; i < n; i++) o[i * so] = x[i * sx] > o[i * so] ? x[i * sx] : o[i * so];
  } else {
    for (int64_t i = 0; i < n; i++) o[i * so] += x[i * sx];
  }
}

/* Ranges of the leading axes, each summed on its own. */
static void sum_parts(vtb__interp_eval *e, int64_t parts) {
  int64_t count = vtb_type_count(&e->out[0]->type) / parts,
          rows = count ? vtb_type_count(&e->in[0]->type) / count : 0,
          range = (rows + parts - 1) / parts;
  for (int64_t k = 0; k < parts * count; k++) e->out[0]->data[k] = 0;
  for (int64_t r = 0; r < rows; r++)
    reduce_inner(false, count, e->out[0]->data + r / range * count, 1, e->in[0]->data + r * count,
                 1);
}

/* Walks the operand in order; the result's strides are 0 along reduced axes. */
vtb_status vtb__interp_reduce(vtb__interp_eval *e) {
  const vtb_type *x = &e->in[0]->type, *y = &e->out[0]->type;
  bool is_max = e->inst->op == VTB_OP_reduce_max, reduced[VTB_MAX_RANK] = {0};
  bool keep = vtb_attr_int(e->inst, "keep", 0) != 0;
  int n_axes;
  const int64_t *axes = vtb_attr_ints(e->inst, "axes", &n_axes);
  int64_t parts = vtb_attr_int(e->inst, "parts", 0);
  if (parts) {
    sum_parts(e, parts);
    return VTB_OK;
  }
  for (int i = 0; i < n_axes; i++) reduced[axes[i]] = true;
  int64_t own[VTB_MAX_RANK], n = vtb_type_count(y);
  vtb__strides(y, own);
  vtb__loops l = {.rank = x->rank, .n_streams = 2};
  vtb__strides(x, l.stride[0]);
  for (int i = 0, k = 0; i < x->rank; i++) {
    l.size[i] = x->dim[i].size;
    l.stride[1][i] = reduced[i] ? 0 : own[k];
    k += keep || !reduced[i];
  }
  for (int64_t i = 0; i < n; i++) e->out[0]->data[i] = is_max ? -INFINITY : 0;
  vtb__loops_merge(&l);
  int64_t index[VTB_MAX_RANK] = {0}, offset[VTB__MAX_STREAMS] = {0};
  int last = l.rank - 1;
  do {
    reduce_inner(is_max, l.size[last], e->out[0]->data + offset[1], l.stride[1][last],
                 e->in[0]->data + offset[0], l.stride[0][last]);
  } while (vtb__loops_next(&l, index, offset));
  return VTB_OK;
}

/* ---- views and copies ------------------------------------------------------------------------ */

static void sizes_of(const vtb_type *t, int64_t *size) {
  for (int i = 0; i < t->rank; i++) size[i] = t->dim[i].size;
}

vtb_status vtb__interp_reshape(vtb__interp_eval *e) {
  memcpy(e->out[0]->data, e->in[0]->data,
         (size_t)vtb_type_count(&e->out[0]->type) * sizeof(double));
  return VTB_OK;
}

vtb_status vtb__interp_broadcast(vtb__interp_eval *e) {
  const vtb_type *t = &e->out[0]->type;
  int64_t size[VTB_MAX_RANK], to[VTB_MAX_RANK], from[VTB_MAX_RANK];
  sizes_of(t, size);
  vtb__strides(t, to);
  vtb__broadcast_strides(&e->in[0]->type, t, from);
  vtb__copy_strided(t->rank, size, e->out[0]->data, to, e->in[0]->data, from);
  return VTB_OK;
}

vtb_status vtb__interp_transpose(vtb__interp_eval *e) {
  const vtb_type *t = &e->out[0]->type;
  int64_t size[VTB_MAX_RANK], to[VTB_MAX_RANK], own[VTB_MAX_RANK], from[VTB_MAX_RANK];
  int n;
  const int64_t *perm = vtb_attr_ints(e->inst, "perm", &n);
  sizes_of(t, size);
  vtb__strides(t, to);
  vtb__strides(&e->in[0]->type, own);
  for (int i = 0; i < t->rank; i++) from[i] = own[perm[i]];
  vtb__copy_strided(t->rank, size, e->out[0]->data, to, e->in[0]->data, from);
  return VTB_OK;
}

vtb_status vtb__interp_slice(vtb__interp_eval *e) {
  const vtb_type *t = &e->out[0]->type;
  int64_t size[VTB_MAX_RANK], to[VTB_MAX_RANK], from[VTB_MAX_RANK],
      axis = vtb_attr_int(e->inst, "axis", 0);
  sizes_of(t, size);
  vtb__strides(t, to);
  vtb__strides(&e->in[0]->type, from);
  const double *src = e->in[0]->data + vtb_attr_int(e->inst, "start", 0) * from[axis];
  from[axis] *= vtb_attr_int(e->inst, "step", 1);
  vtb__copy_strided(t->rank, size, e->out[0]->data, to, src, from);
  return VTB_OK;
}

vtb_status vtb__interp_pad(vtb__interp_eval *e) {
  const vtb_type *x = &e->in[0]->type, *t = &e->out[0]->type;
  int64_t size[VTB_MAX_RANK], to[VTB_MAX_RANK], from[VTB_MAX_RANK],
      axis = vtb_attr_int(e->inst, "axis", 0);
  sizes_of(x, size);
  vtb__strides(t, to);
  vtb__strides(x, from);
  memset(e->out[0]->data, 0, (size_t)vtb_type_count(t) * sizeof(double));
  double *dst = e->out[0]->data + vtb_attr_int(e->inst, "low", 0) * to[axis];
  to[axis] *= vtb_attr_int(e->inst, "step", 1);
  vtb__copy_strided(x->rank, size, dst, to, e->in[0]->data, from);
  return VTB_OK;
}

vtb_status vtb__interp_concat(vtb__interp_eval *e) {
  const vtb_type *t = &e->out[0]->type;
  int64_t to[VTB_MAX_RANK], axis = vtb_attr_int(e->inst, "axis", 0), at = 0;
  vtb__strides(t, to);
  for (int i = 0; i < e->inst->n_operands; i++) {
    const vtb_type *x = &e->in[i]->type;
    int64_t size[VTB_MAX_RANK], from[VTB_MAX_RANK];
    sizes_of(x, size);
    vtb__strides(x, from);
    vtb__copy_strided(x->rank, size, e->out[0]->data + at * to[axis], to, e->in[i]->data, from);
    at += x->dim[axis].size;
  }
  return VTB_OK;
}

/* ---- along a path ---------------------------------------------------------------------------- */

/* A tensor as [outer, n, inner] around one axis. */
typedef struct along {
  int64_t outer, n, inner;
} along;

static along around(const vtb_type *t, int64_t axis) {
  along a = {1, t->dim[axis].size, 1};
  for (int i = 0; i < axis; i++) a.outer *= t->dim[i].size;
  for (int i = (int)axis + 1; i < t->rank; i++) a.inner *= t->dim[i].size;
  return a;
}

vtb_status vtb__interp_permute(vtb__interp_eval *e) {
  along a = around(&e->out[0]->type, vtb_attr_int(e->inst, "axis", 0));
  bool inverse = vtb_attr_int(e->inst, "inverse", 0) != 0;
  int64_t *perm = vtb__path_perm(e->inst, a.n);
  for (int64_t o = 0; o < a.outer; o++)
    for (int64_t t = 0; t < a.n; t++) {
      int64_t to = inverse ? perm[t] : t, from = inverse ? t : perm[t];
      memcpy(e->out[0]->data + (o * a.n + to) * a.inner,
             e->in[0]->data + (o * a.n + from) * a.inner, (size_t)a.inner * sizeof(double));
    }
  vtb_free(perm);
  return VTB_OK;
}

vtb_status vtb__interp_shift(vtb__interp_eval *e) {
  along a = around(&e->out[0]->type, vtb_attr_int(e->inst, "axis", 0));
  int64_t by = vtb_attr_int(e->inst, "by", 0);
  double fill = vtb_attr_float(e->inst, "fill", 0);
  int64_t *perm = vtb__path_perm(e->inst, a.n);
  for (int64_t o = 0; o < a.outer; o++)
    for (int64_t t = 0; t < a.n; t++) {
      double *y = e->out[0]->data + (o * a.n + perm[t]) * a.inner;
      const double *x = NULL;
      if (t - by >= 0 && t - by < a.n)
        x = e->in[0]->data + (o * a.n + perm[t - by]) * a.inner;
      else if (e->inst->n_operands == 2)
        x = e->in[1]->data + o * a.inner;
      for (int64_t i = 0; i < a.inner; i++) y[i] = x ? x[i] : fill;
    }
  vtb_free(perm);
  return VTB_OK;
}

/* ---- places that indices name ---------------------------------------------------------------- */

/* [lead, n, rest] and [lead, picks, rest]: what `axis` common axes make of them. */
typedef struct picked {
  int64_t lead, n, picks, rest;
} picked;

static picked picked_of(const vtb_type *whole, const vtb_type *indices, int64_t axis) {
  along a = around(whole, axis);
  return (picked){a.outer, a.n, vtb_type_count(indices) / a.outer, a.inner};
}

/* The place of the whole that pick k names, -1: none. */
static int64_t place_of(const picked *p, const vtb_tensor *indices, int64_t k) {
  double at = indices->data[k];
  return at >= 0 && at < (double)p->n ? (k / p->picks * p->n + (int64_t)at) * p->rest : -1;
}

vtb_status vtb__interp_gather(vtb__interp_eval *e) {
  picked p = picked_of(&e->in[0]->type, &e->in[1]->type, vtb_attr_int(e->inst, "axis", 0));
  for (int64_t k = 0; k < p.lead * p.picks; k++) {
    int64_t from = place_of(&p, e->in[1], k);
    double *y = e->out[0]->data + k * p.rest;
    for (int64_t r = 0; r < p.rest; r++) y[r] = from < 0 ? 0 : e->in[0]->data[from + r];
  }
  return VTB_OK;
}

vtb_status vtb__interp_scatter_sum(vtb__interp_eval *e) {
  picked p = picked_of(&e->out[0]->type, &e->in[1]->type, vtb_attr_int(e->inst, "axis", 0));
  memset(e->out[0]->data, 0, (size_t)vtb_type_count(&e->out[0]->type) * sizeof(double));
  for (int64_t k = 0; k < p.lead * p.picks; k++) {
    int64_t to = place_of(&p, e->in[1], k);
    const double *x = e->in[0]->data + k * p.rest;
    for (int64_t r = 0; to >= 0 && r < p.rest; r++) e->out[0]->data[to + r] += x[r];
  }
  return VTB_OK;
}
