/* The builtin of attention; windows of the grid: builtin_grid.c. */
#include "frontend/lang/builtin.h"
#include "ir/ops.h"

#include <math.h>

/* Tokens [B, N, heads, width] in q's order. */
static vtb_value *take_heads(vtb__eval *e, const vtb__args *a, const char *name, vtb__val *x) {
  vtb_value *v = (*x = vtb__arg(a, name)).u.t.v;
  if (v->type.rank == 4) return v;
  vtb__report(e, VTB_DIAG_WRONG_RANK, a->span,
              "attention takes %s with a head axis, [B, N, heads, width], not %s: use group", name,
              vtb__describe(e, *x));
  return NULL;
}

/* attention(q, k, v, bias = none, scale = 1 / sqrt(width), causal = false): see ir/attention.h. */
vtb__val vtb__b_attention(vtb__eval *e, const vtb__args *a) {
  vtb__val q, k, v, bias = vtb__arg(a, "bias");
  vtb_value *operands[4];
  int n = 3;
  if (!(operands[0] = take_heads(e, a, "q", &q)) || !(operands[1] = take_heads(e, a, "k", &k)) ||
      !(operands[2] = take_heads(e, a, "v", &v)))
    return VTB__ERR;
  double scale = 1 / sqrt((double)operands[0]->type.dim[3].size);
  if (vtb__arg_of(a, "scale")->given) scale = vtb__arg(a, "scale").u.f;
  if (bias.kind != VTB__NONE && !(operands[n++] = vtb__as_tensor(e, bias, a->span)))
    return VTB__ERR;
  if (!vtb__layout_merge(e, (vtb__val){.kind = VTB__TENSOR, .u.t = {k.u.t.v, k.u.t.layout}}, v,
                         a->span))
    return VTB__ERR;
  vtb_attr attrs[3] = {VTB_A_FLOAT("scale", scale)};
  int n_attrs = 1;
  if (vtb__arg(a, "causal").u.b) attrs[n_attrs++] = VTB_A_INT("causal", 1);
  const char *windows = vtb__windows_attr(e, q.u.t.layout);
  if (windows) attrs[n_attrs++] = VTB_A_STR("windows", windows);
  return vtb__tensor(vtb_b_op(vtb__at(e, a->span), VTB_OP_attention, operands, n, attrs, n_attrs),
                     q.u.t.layout);
}
