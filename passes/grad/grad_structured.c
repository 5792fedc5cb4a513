/* Adjoints of products, convolutions and scans: each is one or two ops of the same family. d is the
 * adjoint of the result. */
#include "ir/convolution.h"
#include "ir/product.h"
#include "ir/recurrence.h"
#include "ir/rewrite.h"
#include "passes/grad/autodiff.h"

#include <string.h>

#define RULE(name) void vtb__grad_##name(vtb__gradient *g, vtb_inst *inst)

static vtb_value *dr(vtb__gradient *g, vtb_inst *inst) { return vtb__adjoint(g, inst->results[0]); }

/* ---- einsum ---------------------------------------------------------------------------------- */

/* d of operand `k` = einsum(d, other); axes that were summed in this operand alone are stretched
 * afterwards. */
static void einsum_operand(vtb__gradient *g, vtb_inst *inst, int k) {
  vtb_value *x = inst->operands[k], *other = inst->operands[1 - k];
  if (!vtb__wants(x)) return;
  vtb_product p = vtb_product_of(inst);
  vtb_spec of = vtb_spec_of(&p), adjoint = {0};
  vtb_type stretched = x->type;
  memcpy(adjoint.of[0], of.of[VTB_IN_RESULT], sizeof adjoint.of[0]);
  memcpy(adjoint.of[1], of.of[1 - k], sizeof adjoint.of[1]);
  for (int a = 0; a < x->type.rank; a++) {
    const vtb_letter *l = vtb_product_at(&p, k, a);
    if (l->role != VTB_LETTER_ALONE)
      vtb_spec_put(&adjoint, VTB_IN_RESULT, l->name);
    else
      stretched.dim[a].size = 1;
  }
  vtb_value *d = vtb_b_einsum_of(&g->b, &adjoint, dr(g, inst), other);
  if (d->type.rank < x->type.rank)
    d = vtb_b_broadcast(&g->b, vtb_b_reshape(&g->b, d, &stretched), &x->type);
  vtb__contribute(g, x, d);
}

RULE(einsum) {
  einsum_operand(g, inst, 0);
  einsum_operand(g, inst, 1);
  if (inst->n_operands == 3 && vtb__wants(inst->operands[2]))
    vtb__contribute(g, inst->operands[2],
                    vtb_b_reduce_to(&g->b, dr(g, inst), &inst->operands[2]->type));
}

/* ---- convolutions ---------------------------------------------------------------------------- */

/* `op` on one or two operands with those attributes of `inst` that `keys` names, and one more. */
static vtb_value *sibling(vtb__gradient *g, const vtb_inst *inst, vtb_op op, vtb_value *x,
                          vtb_value *y, const char *keys, const vtb_attr *more) {
  vtb_attr attrs[8];
  int n = vtb_attrs_of(inst, keys, attrs);
  if (more) attrs[n++] = *more;
  vtb_value *operands[2] = {x, y};
  return vtb_build(&g->b, op, operands, y ? 2 : 1, attrs, n)->results[0];
}

static const char im2col_keys[] = "kernel stride pad";

RULE(im2col) {
  const vtb_type *t = &inst->operands[0]->type;
  int64_t image[VTB_MAX_RANK];
  for (int k = 1; k < t->rank; k++) image[k - 1] = t->dim[k].size;
  vtb_attr more = VTB_A_INTS("image", image, t->rank - 1);
  vtb__contribute(g, inst->operands[0],
                  sibling(g, inst, VTB_OP_col2im, dr(g, inst), NULL, im2col_keys, &more));
}

RULE(col2im) {
  vtb__contribute(g, inst->operands[0],
                  sibling(g, inst, VTB_OP_im2col, dr(g, inst), NULL, im2col_keys, NULL));
}

/* dwconv is bilinear: with <u, conv(x, w)> = <dx(u, w), x> = <dw(x, u), w> each member's adjoints
 * are the other two. `start`: dw has a second result, the adjoint of what a dwconv adds. */
static vtb_inst *conv(vtb__gradient *g, const vtb_inst *inst, vtb_op op, vtb_value *x, vtb_value *y,
                      const vtb_type *w, bool start) {
  int64_t kernel[VTB_MAX_RANK];
  vtb_attr attrs[8];
  vtb_value *operands[2] = {x, y};
  int n = vtb_attrs_of(inst, "grid pad extra path", attrs);
  for (int k = 1; k < w->rank; k++) kernel[k - 1] = w->dim[k].size;
  if (op == VTB_OP_dwconv_dw) attrs[n++] = VTB_A_INTS("kernel", kernel, w->rank - 1);
  if (start) attrs[n++] = VTB_A_INT("start", 1);
  return vtb_build(&g->b, op, operands, 2, attrs, n);
}

RULE(dwconv) {
  vtb_value *x = inst->operands[0], *w = inst->operands[1], *d = dr(g, inst);
  vtb_value *start = inst->n_operands == 3 ? inst->operands[2] : NULL;
  bool starts = start && vtb__wants(start);
  if (vtb__wants(x))
    vtb__contribute(g, x, conv(g, inst, VTB_OP_dwconv_dx, d, w, &w->type, false)->results[0]);
  if (!vtb__wants(w) && !starts) return;
  vtb_inst *dw = conv(g, inst, VTB_OP_dwconv_dw, x, d, &w->type, starts);
  if (vtb__wants(w)) vtb__contribute(g, w, dw->results[0]);
  if (starts) vtb__contribute(g, start, dw->results[1]);
}

RULE(dwconv_dx) {
  vtb_value *u = inst->operands[0], *w = inst->operands[1], *d = dr(g, inst);
  if (vtb__wants(u))
    vtb__contribute(g, u, conv(g, inst, VTB_OP_dwconv, d, w, &w->type, false)->results[0]);
  if (vtb__wants(w))
    vtb__contribute(g, w, conv(g, inst, VTB_OP_dwconv_dw, d, u, &w->type, false)->results[0]);
}

vtb_value *vtb__on_grid(vtb_builder *b, const vtb_inst *inst, vtb_value *v) {
  vtb_depthwise d;
  vtb_check(vtb_depthwise_of(inst, &d), "dwconv: attributes");
  if (!d.n_extra) return v;
  vtb_type t = {.dtype = VTB_F32, .rank = 3, .dim = {{1, NULL}, v->type.dim[1], {1, NULL}}};
  int64_t *places = VTB_SCRATCH(b, int64_t, d.tokens);
  double *is_cell = VTB_SCRATCH(b, double, d.tokens);
  vtb_depthwise_places(inst, &d, places);
  for (int64_t n = 0; n < d.tokens; n++) is_cell[places[n]] = n < d.tokens - d.n_extra;
  vtb_attr data = VTB_A_FLOATS("data", is_cell, (int)d.tokens);
  vtb_inst *cells = vtb_build_typed(b, VTB_OP_constant, NULL, 0, &data, 1, &t, 1);
  return vtb_b_binary(b, VTB_OP_mul, v, cells->results[0]);
}

RULE(dwconv_dw) {
  vtb_value *x = inst->operands[0], *u = inst->operands[1], *d = vtb__adjoint(g, inst->results[0]);
  vtb_value *ds = inst->n_results == 2 ? vtb__adjoint(g, inst->results[1]) : NULL;
  if (!d) d = vtb__adjoint_or_zeros(g, inst->results[0]);
  if (vtb__wants(x)) {
    vtb_inst *dx = conv(g, inst, VTB_OP_dwconv_dx, u, d, &d->type, false);
    vtb__contribute(g, x, vtb__on_grid(&g->b, inst, dx->results[0]));
  }
  if (vtb__wants(u)) {
    vtb_value *du = conv(g, inst, VTB_OP_dwconv, x, d, &d->type, false)->results[0];
    if (ds) du = vtb_b_binary(&g->b, VTB_OP_add, du, ds);
    vtb__contribute(g, u, vtb__on_grid(&g->b, inst, du));
  }
}

enum { STARTS = 8 /* tokens */ };

/* ---- scans ----------------------------------------------------------------------------------- */

/* The forward scan leaves states for its adjoint, which then walks back from them. */
static bool leaves_starts(vtb__gradient *g, const vtb_inst *inst) {
  vtb_scan s = vtb_scan_of(inst);
  if (!g->ad->starts || !s.decay->rates || s.init || s.K > 256 || s.K % 4 != 0) return false;
  return vtb_reader_count(inst->results[1]) == 0 && s.n_tokens > STARTS;
}

/* Operands q, k, v, d, [S_0, [n_0]]; results y, S_T, [z, n_T]. Final states without an adjoint are
 * left out. */
RULE(linscan) {
  bool normalizer = vtb_attr_int(inst, "normalizer", 0) != 0;
  vtb_value **r = inst->results, *operands[11];
  int n = inst->n_operands;
  memcpy(operands, inst->operands, (size_t)n * sizeof *operands);
  operands[n++] = vtb__adjoint_or_zeros(g, r[0]);
  if (normalizer) operands[n++] = vtb__adjoint_or_zeros(g, r[2]);
  bool dlast = vtb__adjoint(g, r[1]) || (normalizer && vtb__adjoint(g, r[3]));
  if (dlast) operands[n++] = vtb__adjoint_or_zeros(g, r[1]);
  if (dlast && normalizer) operands[n++] = vtb__adjoint_or_zeros(g, r[3]);
  if (!dlast && leaves_starts(g, inst)) {
    const vtb_type *s = &r[1]->type; /* [B, h, K, V] */
    vtb_dim tokens = inst->operands[0]->type.dim[1];
    tokens.size = (tokens.size - 1) / STARTS;
    r[1]->type = (vtb_type){
        .dtype = s->dtype, .rank = 5, .dim = {s->dim[0], tokens, s->dim[1], s->dim[2], s->dim[3]}};
    vtb_attr_set(inst, VTB_A_INT("starts", STARTS));
    operands[n++] = r[1];
  }

  vtb_attr attrs[9];
  int n_attrs = vtb_attrs_of(inst, "class mode chunk path starts normalizer init", attrs);
  if (dlast) attrs[n_attrs++] = VTB_A_INT("dlast", 1);
  vtb_inst *grad = vtb_build(&g->b, VTB_OP_linscan_grad, operands, n, attrs, n_attrs);
  for (int i = 0; i < inst->n_operands; i++)
    vtb__contribute(g, inst->operands[i], grad->results[i]);
}

/* Operands q, k, v, [bias]; results y, lse. */
RULE(attention) {
  bool bias = inst->n_operands == 4, dlse = vtb__adjoint(g, inst->results[1]) != NULL;
  bool dbias = bias && vtb__wants(inst->operands[3]);
  vtb_value *operands[8];
  int n = inst->n_operands;
  memcpy(operands, inst->operands, (size_t)n * sizeof *operands);
  operands[n++] = inst->results[0];
  operands[n++] = inst->results[1];
  operands[n++] = vtb__adjoint_or_zeros(g, inst->results[0]);
  if (dlse) operands[n++] = vtb__adjoint(g, inst->results[1]);
  vtb_attr attrs[5];
  int n_attrs = vtb_attrs_of(inst, "scale causal", attrs);
  if (bias) attrs[n_attrs++] = VTB_A_INT("bias", 1);
  if (dlse) attrs[n_attrs++] = VTB_A_INT("dlse", 1);
  if (dbias) attrs[n_attrs++] = VTB_A_INT("dbias", 1);
  vtb_inst *grad = vtb_build(&g->b, VTB_OP_attention_grad, operands, n, attrs, n_attrs);
  for (int i = 0; i < 3 + dbias; i++) vtb__contribute(g, inst->operands[i], grad->results[i]);
}

/* Operands g, i, [m_0]. */
RULE(maxplus) {
  vtb_value *operands[5];
  int n = inst->n_operands;
  memcpy(operands, inst->operands, (size_t)n * sizeof *operands);
  operands[n++] = inst->results[0];
  operands[n++] = dr(g, inst);
  vtb_attr attrs[2];
  int n_attrs = vtb_attrs_of(inst, "path", attrs);
  if (inst->n_operands == 3) attrs[n_attrs++] = VTB_A_INT("init", 1);
  vtb_inst *grad = vtb_build(&g->b, VTB_OP_maxplus_grad, operands, n, attrs, n_attrs);
  for (int i = 0; i < inst->n_operands; i++)
    vtb__contribute(g, inst->operands[i], grad->results[i]);
}

/* The derivative is 1: wrapping is constant in pieces. */
RULE(prefix_sum) {
  vtb_value *d = dr(g, inst);
  vtb_attr attrs[4] = {VTB_A_INT("axis", (int)vtb_attr_int(inst, "axis", 0)),
                       VTB_A_INT("reverse", !vtb_attr_int(inst, "reverse", 0))};
  int n = 2 + vtb_attrs_of(inst, "path exclusive", attrs + 2);
  vtb__contribute(g, inst->operands[0],
                  vtb_build(&g->b, VTB_OP_prefix_sum, &d, 1, attrs, n)->results[0]);
}
