/* Tangents of ops, but recurrences: the op itself where it is linear, the product rule where it is
 * one, the adjoint's formula of a seed that moves where it is elementwise. */
#include "ir/attention.h"
#include "ir/product.h"
#include "passes/grad/autodiff.h"
#include "passes/grad/tangent.h"

#include <string.h>

#define RULE(name) void vtb__tangent_##name(vtb__tangents *t, vtb_inst *inst)
#define Y (inst->results[0])

static vtb_value *dx(vtb__tangents *t, const vtb_inst *inst, int operand) {
  return operand < inst->n_operands ? vtb__tangent(t, inst->operands[operand]) : NULL;
}

/* `inst` of x in place of an operand. */
static vtb_inst *with(vtb__tangents *t, const vtb_inst *inst, int operand, vtb_value *x) {
  vtb_value **operands = VTB_SCRATCH(t->duals, vtb_value *, inst->n_operands);
  memcpy(operands, inst->operands, (size_t)inst->n_operands * sizeof *operands);
  operands[operand] = x;
  return vtb_inst_clone(&t->b, inst, operands);
}

RULE(scalar) {
  for (int i = 0; i < inst->n_operands; i++)
    if (dx(t, inst, i))
      vtb__add_tangent(t, Y, vtb__scalar_derivative(&t->b, inst, i, dx(t, inst, i)));
}

/* ---- what moves elements, and sums ----------------------------------------------------------- */

RULE(linear) {
  if (dx(t, inst, 0)) vtb__add_tangent(t, Y, with(t, inst, 0, dx(t, inst, 0))->results[0]);
}

RULE(concat) {
  vtb_value **xs = VTB_SCRATCH(t->duals, vtb_value *, inst->n_operands);
  for (int i = 0; i < inst->n_operands; i++) xs[i] = vtb__tangent_or_zeros(t, inst->operands[i]);
  vtb__add_tangent(t, Y, vtb_inst_clone(&t->b, inst, xs)->results[0]);
}

/* Without its fill; zeros behind the missing step that does not change. */
RULE(shift) {
  vtb_value *operands[] = {vtb__tangent_or_zeros(t, inst->operands[0]), dx(t, inst, 1)};
  vtb_attr attrs[3];
  int n = vtb_attrs_of(inst, "axis by path", attrs);
  vtb_inst *made = vtb_build(&t->b, VTB_OP_shift, operands, operands[1] ? 2 : 1, attrs, n);
  vtb__add_tangent(t, Y, made->results[0]);
}

/* Wrapping is constant in pieces. */
RULE(prefix_sum) {
  vtb_value *d = dx(t, inst, 0);
  vtb_attr attrs[5];
  int n = vtb_attrs_of(inst, "axis path layout reverse exclusive", attrs);
  vtb__add_tangent(t, Y, vtb_build(&t->b, VTB_OP_prefix_sum, &d, 1, attrs, n)->results[0]);
}

/* Of the element that the gradient goes to. */
RULE(reduce_max) {
  int n;
  const int64_t *axes = vtb_attr_ints(inst, "axes", &n);
  vtb_value *first = vtb__first_largest(&t->b, inst), *d = dx(t, inst, 0);
  if (first) d = vtb_b_select(&t->b, first, d, vtb_b_constant(&t->b, 0));
  d = vtb_b_reduce(&t->b, VTB_OP_reduce_sum, d, axes, n, vtb_attr_int(inst, "keep", 0) != 0);
  vtb__add_tangent(t, Y, d);
}

/* ---- products -------------------------------------------------------------------------------- */

static vtb_value *product(vtb__tangents *t, const vtb_inst *inst, vtb_value *x, vtb_value *w) {
  if (inst->op == VTB_OP_einsum) return vtb_b_einsum_like(&t->b, inst, x, w);
  vtb_attr attrs[8];
  vtb_value *operands[] = {x, w};
  int n = vtb_attrs_of(inst, "grid pad kernel extra path", attrs);
  return vtb_build(&t->b, inst->op, operands, 2, attrs, n)->results[0];
}

/* x w + c: dx w + x dw + dc. Tokens that a convolution lets past are no part of the product. The
 * second result of the adjoint of its weights is a sum of its second operand. */
RULE(bilinear) {
  vtb_value *x = inst->operands[0], *d[3] = {dx(t, inst, 0), dx(t, inst, 1), dx(t, inst, 2)};
  bool passes = inst->op == VTB_OP_dwconv || inst->op == VTB_OP_dwconv_dx;
  if (d[0]) vtb__add_tangent(t, Y, product(t, inst, d[0], inst->operands[1]));
  if (d[1])
    vtb__add_tangent(t, Y, product(t, inst, passes ? vtb__on_grid(&t->b, inst, x) : x, d[1]));
  if (d[2] && passes) d[2] = vtb__on_grid(&t->b, inst, vtb_b_stretched(&t->b, d[2], &Y->type));
  vtb__add_tangent(t, Y, d[2]);
  if (inst->n_results == 2 && d[1])
    vtb__add_tangent(t, inst->results[1], with(t, inst, 1, d[1])->results[1]);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Less than any score, and a number. */
#define MASKED (-3e38)

typedef struct scores {
  vtb__tangents *t;
  vtb_builder *b;
  const vtb_inst *inst;
  vtb_attention of;
  vtb_dim batch, queries, keys, heads;
} scores;

/* [B,M,g,X] with a row a head of the queries, [B,M,h,X]. */
static vtb_value *each_head(scores *s, vtb_value *x) {
  int64_t share = s->of.n_heads / s->of.kv_heads;
  if (share == 1) return x;
  const vtb_dim *d = x->type.dim;
  vtb_type one = VTB__F32(d[0], d[1], d[2], {.size = 1}, d[3]), all = one, flat = x->type;
  all.dim[3].size = share, flat.dim[2] = s->heads;
  x = vtb_b_broadcast(s->b, vtb_b_reshape(s->b, x, &one), &all);
  return vtb_b_reshape(s->b, x, &flat);
}

/* A bias as [B or 1, h or 1, N, M]. */
static vtb_value *of_heads(scores *s, vtb_value *bias) {
  const vtb_type *x = &bias->type;
  vtb_type t = VTB__F32({.size = 1}, {.size = 1}, {.size = 1}, s->queries, s->keys), all;
  if (x->rank >= 3) t.dim[2] = x->dim[x->rank - 3];
  if (x->rank == 4) t.dim[0] = x->dim[0];
  bias = vtb_b_reshape(s->b, bias, &t);
  all = t;
  all.dim[1].size = s->heads.size / t.dim[2].size;
  vtb_type flat = VTB__F32(t.dim[0], s->heads, s->queries, s->keys);
  return vtb_b_reshape(s->b, vtb_b_stretched(s->b, bias, &all), &flat);
}

static vtb_value *score(scores *s, vtb_value *q, vtb_value *k) {
  vtb_value *x = vtb_b_einsum(s->b, "bnhk,bmhk->bhnm", q, each_head(s, k));
  if (s->of.scale == 1) return x;
  return vtb_b_binary(s->b, VTB_OP_mul, x, vtb_b_constant(s->b, s->of.scale));
}

/* 1 where a query sees a key: j <= i + M - N. */
static vtb_value *seen(scores *s) {
  vtb_type t = VTB__F32({.size = 1}, {.size = 1}, s->queries, s->keys);
  double more = (double)(s->of.n_keys - s->of.n_queries);
  vtb_value *i = vtb_b_iota(s->b, 2, &t), *j = vtb_b_iota(s->b, 3, &t);
  return vtb_b_binary(s->b, VTB_OP_ge,
                      vtb_b_binary(s->b, VTB_OP_add, i, vtb_b_constant(s->b, more)), j);
}

/* exp(s - lse), [B,h,N,M]. */
static vtb_value *probabilities(scores *s) {
  vtb_value **x = s->inst->operands, *p = score(s, x[0], x[1]);
  if (s->of.bias >= 0) p = vtb_b_binary(s->b, VTB_OP_add, p, of_heads(s, x[s->of.bias]));
  if (s->of.causal) p = vtb_b_select(s->b, seen(s), p, vtb_b_constant(s->b, MASKED));
  vtb_type t = VTB__F32(s->batch, s->heads, s->queries, {.size = 1});
  vtb_value *lse = vtb_b_transpose(s->b, s->inst->results[1], (int64_t[]){0, 2, 1});
  p = vtb_b_binary(s->b, VTB_OP_sub, p, vtb_b_reshape(s->b, lse, &t));
  return vtb_b_unary(s->b, VTB_OP_exp, p);
}

/* ds = scale (dq k^T + q dk^T) + dbias, dlse = rowsum(P o ds), dy = (P o (ds - dlse)) v + P dv. */
RULE(attention) {
  const vtb_dim *q = inst->operands[0]->type.dim;
  scores s = {t,   &t->b, inst, vtb_attention_of(inst), q[0], q[1], inst->operands[1]->type.dim[1],
              q[2]};
  vtb_builder *b = s.b;
  vtb_value **x = inst->operands, *p = probabilities(&s), *ds = NULL, *weight = NULL;
  if (dx(t, inst, 0)) ds = score(&s, dx(t, inst, 0), x[1]);
  if (dx(t, inst, 1)) ds = vtb__joined(b, VTB_OP_add, ds, score(&s, x[0], dx(t, inst, 1)));
  if (dx(t, inst, 3)) ds = vtb__joined(b, VTB_OP_add, ds, of_heads(&s, dx(t, inst, 3)));
  if (ds) {
    weight = vtb_b_binary(b, VTB_OP_mul, p, ds);
    vtb_value *dlse = vtb_b_reduce(b, VTB_OP_reduce_sum, weight, (int64_t[]){3}, 1, true);
    weight = vtb_b_binary(b, VTB_OP_sub, weight, vtb_b_binary(b, VTB_OP_mul, p, dlse));
    vtb_value *each = vtb_b_transpose(b, dlse, (int64_t[]){0, 2, 1, 3});
    vtb__add_tangent(t, inst->results[1], vtb_b_reshape(b, each, &inst->results[1]->type));
    vtb__add_tangent(t, Y, vtb_b_einsum(b, "bhnm,bmhv->bnhv", weight, each_head(&s, x[2])));
  }
  vtb_value *dv = dx(t, inst, 2);
  if (dv) vtb__add_tangent(t, Y, vtb_b_einsum(b, "bhnm,bmhv->bnhv", p, each_head(&s, dv)));
}
