/* Adjoints of elementwise ops. In every rule x, y are operands, r the result, d its adjoint.
 *
 * Shapes: operands broadcast, so contributions have the result's shape; vtb__contribute() sums them
 * down. Where a form in the result is cheaper or safer than one in the operand it is used (exp,
 * rsqrt, div).
 */
#include "passes/autodiff.h"

#include <math.h>

#define B (&g->b)
#define X (inst->operands[0])
#define Y (inst->operands[1])
#define R (inst->results[0])
#define RULE(name) void vtb__grad_##name(vtb__gradient *g, vtb_inst *inst)

static vtb_value *dr(vtb__gradient *g, vtb_inst *inst) { return vtb__adjoint(g, inst->results[0]); }
static vtb_value *add(vtb__gradient *g, vtb_value *x, vtb_value *y) {
  return vtb_b_binary(B, VTB_OP_add, x, y);
}
static vtb_value *sub(vtb__gradient *g, vtb_value *x, vtb_value *y) {
  return vtb_b_binary(B, VTB_OP_sub, x, y);
}
static vtb_value *mul(vtb__gradient *g, vtb_value *x, vtb_value *y) {
  return vtb_b_binary(B, VTB_OP_mul, x, y);
}
static vtb_value *div_(vtb__gradient *g, vtb_value *x, vtb_value *y) {
  return vtb_b_binary(B, VTB_OP_div, x, y);
}
static vtb_value *neg(vtb__gradient *g, vtb_value *x) { return vtb_b_unary(B, VTB_OP_neg, x); }
static vtb_value *num(vtb__gradient *g, double c) { return vtb_b_constant(B, c); }
static vtb_value *scale(vtb__gradient *g, double c, vtb_value *x) { return mul(g, num(g, c), x); }

/* d times a factor. */
static void chain(vtb__gradient *g, vtb_inst *inst, vtb_value *factor) {
  vtb__contribute(g, X, mul(g, dr(g, inst), factor));
}

/* ---- without a derivative -------------------------------------------------------------------- */

RULE(zero) { (void)g, (void)inst; }

RULE(not_diff) {
  if (g->ad->status != VTB_OK) return;
  char place[256];
  vtb_span_text(inst->span, place, sizeof place);
  g->ad->status = vtb_fail(g->ad->err, VTB_E_INPUT,
                           "%s%s%s in @%s has no derivative, but a gradient has to pass through it",
                           place, place[0] ? ": " : "", vtb_op_get(inst->op)->name, g->joint->name);
}

/* ---- one operand ----------------------------------------------------------------------------- */

RULE(neg) { vtb__contribute(g, X, neg(g, dr(g, inst))); }
RULE(abs) { chain(g, inst, vtb_b_unary(B, VTB_OP_sign, X)); }
RULE(exp) { chain(g, inst, R); }
RULE(log) { vtb__contribute(g, X, div_(g, dr(g, inst), X)); }
RULE(sqrt) { vtb__contribute(g, X, div_(g, scale(g, 0.5, dr(g, inst)), R)); }
RULE(rsqrt) { chain(g, inst, mul(g, scale(g, -0.5, R), mul(g, R, R))); }
RULE(square) { chain(g, inst, scale(g, 2.0, X)); }
RULE(sin) { chain(g, inst, vtb_b_unary(B, VTB_OP_cos, X)); }
RULE(cos) { chain(g, inst, neg(g, vtb_b_unary(B, VTB_OP_sin, X))); }
RULE(tanh) { chain(g, inst, sub(g, num(g, 1.0), mul(g, R, R))); }
RULE(sigmoid) { chain(g, inst, mul(g, R, sub(g, num(g, 1.0), R))); }
RULE(log_sigmoid) { chain(g, inst, vtb_b_unary(B, VTB_OP_sigmoid, neg(g, X))); }
RULE(softplus) { chain(g, inst, vtb_b_unary(B, VTB_OP_sigmoid, X)); }

/* e^(-c x^2) */
static vtb_value *bell(vtb__gradient *g, double c, vtb_value *x) {
  return vtb_b_unary(B, VTB_OP_exp, mul(g, scale(g, -c, x), x));
}

RULE(erf) { chain(g, inst, scale(g, 2.0 / sqrt(M_PI), bell(g, 1.0, X))); }

/* s (1 + x (1 - s)) with s = sigmoid(x) */
RULE(silu) {
  vtb_value *s = vtb_b_unary(B, VTB_OP_sigmoid, X), *one = num(g, 1.0);
  chain(g, inst, mul(g, s, add(g, one, mul(g, X, sub(g, one, s)))));
}

/* Phi(x) + x phi(x): the normal distribution and its density */
RULE(gelu) {
  vtb_value *half = num(g, 0.5);
  vtb_value *e = vtb_b_unary(B, VTB_OP_erf, scale(g, sqrt(0.5), X));
  vtb_value *phi = scale(g, 1.0 / sqrt(2.0 * M_PI), bell(g, 0.5, X));
  chain(g, inst, add(g, add(g, half, mul(g, half, e)), mul(g, X, phi)));
}

/* r = x/2 (1 + t), t = tanh(c (x + a x^3)):  r' = (1 + t)/2 + x/2 (1 - t^2) c (1 + 3 a x^2) */
RULE(gelu_tanh) {
  const double c = sqrt(2.0 / M_PI), a = 0.044715;
  vtb_value *one = num(g, 1.0), *half = num(g, 0.5);
  vtb_value *xx = mul(g, X, X);
  vtb_value *u = mul(g, scale(g, c, X), add(g, one, scale(g, a, xx)));
  vtb_value *t = vtb_b_unary(B, VTB_OP_tanh, u);
  vtb_value *du = scale(g, c, add(g, one, scale(g, 3.0 * a, xx)));
  vtb_value *left = mul(g, half, add(g, one, t));
  vtb_value *right = mul(g, mul(g, half, X), mul(g, sub(g, one, mul(g, t, t)), du));
  chain(g, inst, add(g, left, right));
}

RULE(relu) {
  vtb_value *zero = num(g, 0.0);
  vtb__contribute(g, X, vtb_b_select(B, vtb_b_binary(B, VTB_OP_gt, X, zero), dr(g, inst), zero));
}

/* ---- two and three operands ------------------------------------------------------------------ */

RULE(add) {
  vtb__contribute(g, X, dr(g, inst));
  vtb__contribute(g, Y, dr(g, inst));
}

RULE(sub) {
  vtb__contribute(g, X, dr(g, inst));
  if (vtb__wants(Y)) vtb__contribute(g, Y, neg(g, dr(g, inst)));
}

RULE(mul) {
  if (vtb__wants(X)) vtb__contribute(g, X, mul(g, dr(g, inst), Y));
  if (vtb__wants(Y)) vtb__contribute(g, Y, mul(g, dr(g, inst), X));
}

/* Through the quotient: the square of the divisor would overflow first. */
RULE(div) {
  vtb_value *q = div_(g, dr(g, inst), Y);
  vtb__contribute(g, X, q);
  if (vtb__wants(Y)) vtb__contribute(g, Y, neg(g, mul(g, R, q)));
}

/* The adjoint goes to `first` where cond holds, else to `second`. */
static void route(vtb__gradient *g, vtb_value *d, vtb_value *cond, vtb_value *first,
                  vtb_value *second) {
  vtb_value *zero = num(g, 0.0);
  if (vtb__wants(first)) vtb__contribute(g, first, vtb_b_select(B, cond, d, zero));
  if (vtb__wants(second)) vtb__contribute(g, second, vtb_b_select(B, cond, zero, d));
}

RULE(max) { route(g, dr(g, inst), vtb_b_binary(B, VTB_OP_gt, X, Y), X, Y); }
RULE(min) { route(g, dr(g, inst), vtb_b_binary(B, VTB_OP_gt, Y, X), X, Y); }
RULE(select) { route(g, dr(g, inst), X, Y, inst->operands[2]); }

/* d x = y x^(y-1), d y = r ln x */
RULE(pow) {
  if (vtb__wants(X)) {
    vtb_value *p = vtb_b_binary(B, VTB_OP_pow, X, sub(g, Y, num(g, 1.0)));
    vtb__contribute(g, X, mul(g, dr(g, inst), mul(g, Y, p)));
  }
  if (vtb__wants(Y))
    vtb__contribute(g, Y, mul(g, dr(g, inst), mul(g, R, vtb_b_unary(B, VTB_OP_log, X))));
}
