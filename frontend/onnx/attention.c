/* Attention as products around a softmax: ir/attention.h. */
#include "ir/attention.h"
#include "frontend/onnx/internal.h"

#include <math.h>

/* [B, N, h, W] to [B, h, N, W], heads apart by group: [B, g, h/g, N, W]. */
static ox_value *heads_first(ox *x, ox_value *a, int64_t groups) {
  const int64_t *d = a->type.dim;
  if (groups == d[2]) return OX_TRANSPOSE(x, a, 0, 2, 1, 3);
  return OX_TRANSPOSE(x, OX_RESHAPE(x, a, d[0], d[1], groups, d[2] / groups, d[3]), 0, 2, 3, 1, 4);
}

/* Keys or values for heads that share them. */
static ox_value *shared(ox *x, const vtb_attention *a, ox_value *v) {
  const int64_t *d = v->type.dim;
  if (a->kv_heads == a->n_heads) return v;
  return OX_RESHAPE(x, v, d[0], d[1], 1, d[2], d[3]);
}

/* Adds a bias with heads of its own: scores [B, h, N, M] plus it; head i has bias i mod a. */
static ox_value *add_bias(ox *x, const vtb_attention *a, ox_value *s, ox_value *bias) {
  int64_t batch = s->type.dim[0], n = a->n_queries, m = a->n_keys, h = a->n_heads,
          own = a->bias_heads;
  if (own == 1 || own == h) return vtb__ox_binary(x, "Add", s, bias);
  const int64_t *d = bias->type.dim;
  if (bias->type.rank == 4) bias = OX_RESHAPE(x, bias, d[0], 1, own, n, m);
  s = vtb__ox_binary(x, "Add", OX_RESHAPE(x, s, batch, h / own, own, n, m), bias);
  return OX_RESHAPE(x, s, batch, h, n, m);
}

/* -inf where query i must not see key j. */
static ox_value *causal_mask(ox *x, const vtb_attention *a) {
  int64_t n = a->n_queries, m = a->n_keys;
  float *mask = VTB_NEW_ARRAY(&x->arena, float, n *m);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++) mask[i * m + j] = j <= i + m - n ? 0 : -INFINITY;
  ox_type t = vtb__ox_shape(OX_F32, 2, (const int64_t[]){n, m});
  return vtb__ox_data(x, &t, mask);
}

typedef struct weights {
  ox_value *p, *sum, *top; /* e^(s - top) and its sums over keys; sum NULL: p is normalised */
} weights;

/* By hand where a query may be left without a key, whose sum is then 0. */
static weights soften(ox *x, ox_value *s, bool by_hand) {
  int64_t axis = s->type.rank - 1;
  weights w = {0};
  if (!by_hand) {
    w.p =
        vtb__ox_one(x, "Softmax", s->type, (const vtb_attr[]){VTB_A_INT("axis", -1)}, 1, OX_IN(s));
    return w;
  }
  ox_value *top = vtb__ox_reduce(x, "ReduceMax", s, &axis, 1, true);
  w.top = vtb__ox_binary(x, "Max", top, vtb__ox_number(x, -3e38));
  w.p = vtb__ox_unary(x, "Exp", vtb__ox_binary(x, "Sub", s, w.top));
  w.sum = vtb__ox_reduce(x, "ReduceSum", w.p, &axis, 1, true);
  return w;
}

/* The log of the sum [B, N, h]; +inf for a query without a key. */
static ox_value *log_sum(ox *x, const vtb_attention *a, const weights *w) {
  ox_value *none = vtb__ox_compare(x, "Equal", w->sum, vtb__ox_number(x, 0));
  ox_value *l = vtb__ox_binary(x, "Add", vtb__ox_unary(x, "Log", w->sum), w->top);
  l = vtb__ox_where(x, none, vtb__ox_number(x, INFINITY), l);
  return OX_TRANSPOSE(x, OX_RESHAPE(x, l, l->type.dim[0], a->n_heads, a->n_queries), 0, 2, 1);
}

void vtb__ox_attention(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  vtb_attention a = vtb_attention_of(inst);
  int64_t batch = in[0]->type.dim[0], n = a.n_queries, m = a.n_keys, h = a.n_heads;
  bool grouped = a.kv_heads != h, by_hand = a.bias >= 0 || (a.causal && m < n);
  ox_value *scaled = in[0];
  by_hand |= inst->results[1]->n_readers > 0;
  if (a.scale != 1) scaled = vtb__ox_binary(x, "Mul", in[0], vtb__ox_number(x, a.scale));
  ox_value *k = OX_TRANSPOSE(x, in[1], 0, 2, 3, 1);
  ox_value *s = vtb__ox_matmul(x, heads_first(x, scaled, a.kv_heads), shared(x, &a, k));
  if (grouped && a.bias >= 0) s = OX_RESHAPE(x, s, batch, h, n, m);
  if (a.bias >= 0) s = add_bias(x, &a, s, in[a.bias]);
  if (a.causal) s = vtb__ox_binary(x, "Add", s, causal_mask(x, &a));
  if (grouped) s = OX_RESHAPE(x, s, batch, a.kv_heads, h / a.kv_heads, n, m);
  weights w = soften(x, s, by_hand);
  ox_value *y = vtb__ox_matmul(x, w.p, shared(x, &a, OX_TRANSPOSE(x, in[2], 0, 2, 1, 3)));
  if (w.sum)
    y = vtb__ox_binary(x, "Div", y, vtb__ox_binary(x, "Max", w.sum, vtb__ox_number(x, 1e-37)));
  out[0] = OX_TRANSPOSE(x, OX_RESHAPE(x, y, batch, h, n, a.value_width), 0, 2, 1, 3);
  out[1] = w.sum ? log_sum(x, &a, &w) : NULL;
}
