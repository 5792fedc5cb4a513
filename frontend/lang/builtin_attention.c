/* The builtin of attention; windows of the grid: builtin_grid.c. */
#include "frontend/lang/value.h"
#include "ir/ops.h"

#include <math.h>

/* Tokens [B, N, heads, width] in q's order. */
static vtb_value *take_heads(vtb__eval *e, vtb__args *a, const char *name, vtb__val *x) {
  vtb_value *v = vtb__take_tensor(e, a, name, x);
  if (!v || v->type.rank == 4) return v;
  vtb__report(e, VTB_DIAG_WRONG_RANK, a->span,
              "attention takes %s with a head axis, [B, N, heads, width], not %s: use group", name,
              vtb__describe(e, *x));
  a->failed = true;
  return NULL;
}

/* attention(q, k, v, bias = none, scale = 1 / sqrt(width), causal = false): see ir/attention.h. */
static vtb__val b_attention(vtb__eval *e, vtb__args *a) {
  vtb__val q, k, v, bias;
  vtb_value *operands[4];
  int n = 3;
  if (!(operands[0] = take_heads(e, a, "q", &q)) || !(operands[1] = take_heads(e, a, "k", &k)) ||
      !(operands[2] = take_heads(e, a, "v", &v)))
    return VTB__ERR;
  bool causal = false;
  double scale = 1 / sqrt((double)operands[0]->type.dim[3].size);
  if (vtb__take_optional(e, a, "bias", &bias) && bias.kind != VTB__NONE) {
    if (bias.kind == VTB__ERROR) return bias;
    if (!(operands[n++] = vtb__as_tensor(e, bias, a->span))) return VTB__ERR;
  }
  if (!vtb__option_number(e, a, "scale", &scale) || !vtb__option_bool(e, a, "causal", &causal))
    return VTB__ERR;
  if (!vtb__layout_merge(e, (vtb__val){.kind = VTB__TENSOR, .u.t = {k.u.t.v, k.u.t.layout}}, v,
                         a->span))
    return VTB__ERR;
  vtb_attr attrs[3] = {VTB_A_FLOAT("scale", scale)};
  int n_attrs = 1;
  if (causal) attrs[n_attrs++] = VTB_A_INT("causal", 1);
  const char *windows = vtb__windows_attr(e, q.u.t.layout);
  if (windows) attrs[n_attrs++] = VTB_A_STR("windows", windows);
  vtb_builder *b = vtb__at(e, a->span);
  vtb_inst *i = b ? vtb_build(b, VTB_OP_attention, operands, n, attrs, n_attrs) : NULL;
  return vtb__tensor(i ? i->results[0] : NULL, q.u.t.layout);
}

const vtb__builtin vtb__attention_builtins[] = {{"attention", b_attention}, {NULL, NULL}};
