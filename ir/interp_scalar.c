/* Interpreter: sources and elementwise ops. The formulas are the definition that targets are
 * compared with. */
#include "ir/interp_internal.h"
#include "runtime/base/random.h"

#include <math.h>

static double log1p_exp(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }

static double sigmoid(double x) {
  double e = exp(-fabs(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

static double gelu(double x) { return 0.5 * x * erfc(-x * 0.70710678118654752440); }

static double gelu_tanh(double x) {
  return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

/* One inner loop: o[i] from up to three operands with strides; the op is chosen outside the
 * loop. */
#define LOOP(expr)                                                                                 \
  for (int64_t i = 0; i < n; i++) {                                                                \
    double x = a[i * sa];                                                                          \
    o[i] = (expr);                                                                                 \
  }                                                                                                \
  break
#define LOOP2(expr)                                                                                \
  for (int64_t i = 0; i < n; i++) {                                                                \
    double x = a[i * sa], y = b[i * sb];                                                           \
    o[i] = (expr);                                                                                 \
  }                                                                                                \
  break

static void unary(vtb_op op, int64_t n, double *o, const double *a, int64_t sa) {
  switch (op) {
  case VTB_OP_neg:
    LOOP(-x);
  case VTB_OP_abs:
    LOOP(fabs(x));
  case VTB_OP_sign:
    LOOP((x > 0) - (x < 0));
  case VTB_OP_exp:
    LOOP(exp(x));
  case VTB_OP_log:
    LOOP(log(x));
  case VTB_OP_sqrt:
    LOOP(sqrt(x));
  case VTB_OP_rsqrt:
    LOOP(1 / sqrt(x));
  case VTB_OP_square:
    LOOP(x * x);
  case VTB_OP_sin:
    LOOP(sin(x));
  case VTB_OP_cos:
    LOOP(cos(x));
  case VTB_OP_tanh:
    LOOP(tanh(x));
  case VTB_OP_erf:
    LOOP(erf(x));
  case VTB_OP_sigmoid:
    LOOP(sigmoid(x));
  case VTB_OP_log_sigmoid:
    LOOP(-log1p_exp(-x));
  case VTB_OP_softplus:
    LOOP(log1p_exp(x));
  case VTB_OP_silu:
    LOOP(x * sigmoid(x));
  case VTB_OP_gelu:
    LOOP(gelu(x));
  case VTB_OP_gelu_tanh:
    LOOP(gelu_tanh(x));
  case VTB_OP_relu:
    LOOP(x > 0 ? x : 0);
  case VTB_OP_floor:
    LOOP(floor(x));
  case VTB_OP_stop_gradient:
    LOOP(x);
  default:
    vtb_bug("no scalar rule for %s", vtb_op_get(op)->name);
  }
}

static void binary(vtb_op op, int64_t n, double *o, const double *a, int64_t sa, const double *b,
                   int64_t sb) {
  switch (op) {
  case VTB_OP_add:
    LOOP2(x + y);
  case VTB_OP_sub:
    LOOP2(x - y);
  case VTB_OP_mul:
    LOOP2(x * y);
  case VTB_OP_div:
    LOOP2(x / y);
  case VTB_OP_max:
    LOOP2(x > y ? x : y);
  case VTB_OP_min:
    LOOP2(x < y ? x : y);
  case VTB_OP_pow:
    LOOP2(pow(x, y));
  case VTB_OP_gt:
    LOOP2(x > y);
  case VTB_OP_ge:
    LOOP2(x >= y);
  case VTB_OP_eq:
    LOOP2(x == y);
  default:
    vtb_bug("no scalar rule for %s", vtb_op_get(op)->name);
  }
}

static void inner(const vtb__eval *e, int64_t n, double *o, const double *const *p,
                  const int64_t *s) {
  vtb_op op = e->inst->op;
  if (op == VTB_OP_select) {
    for (int64_t i = 0; i < n; i++) o[i] = p[0][i * s[0]] != 0 ? p[1][i * s[1]] : p[2][i * s[2]];
  } else if (op == VTB_OP_cast) {
    bool truncate = e->out[0]->type.dtype == VTB_I32;
    for (int64_t i = 0; i < n; i++) o[i] = truncate ? trunc(p[0][i * s[0]]) : p[0][i * s[0]];
  } else if (e->inst->n_operands == 1) {
    unary(op, n, o, p[0], s[0]);
  } else {
    binary(op, n, o, p[0], s[0], p[1], s[1]);
  }
}

vtb_status vtb__interp_scalar(vtb__eval *e) {
  const vtb_type *t = &e->out[0]->type;
  int n_in = e->inst->n_operands;
  vtb__loops l = {.rank = t->rank, .n_streams = n_in + 1};
  for (int i = 0; i < t->rank; i++) l.size[i] = t->dim[i].size;
  for (int i = 0; i < n_in; i++) vtb__broadcast_strides(&e->in[i]->type, t, l.stride[i]);
  vtb__strides(t, l.stride[n_in]);
  vtb__loops_merge(&l);
  int64_t index[VTB_MAX_RANK] = {0}, offset[VTB__MAX_STREAMS] = {0}, step[3] = {0};
  for (int i = 0; i < n_in; i++) step[i] = l.stride[i][l.rank - 1];
  do {
    const double *p[3] = {0};
    for (int i = 0; i < n_in; i++) p[i] = e->in[i]->data + offset[i];
    inner(e, l.size[l.rank - 1], e->out[0]->data + offset[n_in], p, step);
  } while (vtb__loops_next(&l, index, offset));
  return VTB_OK;
}

/* ---- sources --------------------------------------------------------------------------------- */

vtb_status vtb__interp_constant(vtb__eval *e) {
  int64_t n = vtb_type_count(&e->out[0]->type);
  const vtb_attr *data = vtb_attr_find(e->inst, "data");
  double value = vtb_attr_float(e->inst, "value", 0);
  for (int64_t i = 0; i < n; i++) e->out[0]->data[i] = data ? data->floats[i] : value;
  return VTB_OK;
}

vtb_status vtb__interp_iota(vtb__eval *e) {
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

vtb_status vtb__interp_random(vtb__eval *e) {
  int64_t n = vtb_type_count(&e->out[0]->type);
  uint32_t seed = (uint32_t)(int64_t)e->in[0]->data[0],
           stream = (uint32_t)vtb_attr_int(e->inst, "stream", 0);
  for (int64_t i = 0; i < n; i++)
    e->out[0]->data[i] = (double)vtb_random_uniform(seed, stream, (uint32_t)i);
  return VTB_OK;
}
