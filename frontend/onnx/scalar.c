/* Elementwise ops: of most there is one of ONNX; the others are written so that they are as
 * accurate as the rows of ir/scalar_ops.def promise. */
#include "frontend/onnx/internal.h"
#include "ir/ops.h"

typedef ox_value *scalar_fn(ox *x, ox_value *const *v);

typedef struct scalar_row {
  const char *op; /* of ONNX, if it is one */
  scalar_fn *fn;  /* else */
  const char *form;
} scalar_row;

#define U(op, a) vtb__ox_unary(x, op, a)
#define B(op, a, b) vtb__ox_binary(x, op, a, b)
#define N(value) vtb__ox_number(x, value)

/* 1 or 0 in the element type of the operands. */
static ox_value *truth(ox *x, const char *op, ox_value *const *v) {
  return vtb__ox_cast(x, vtb__ox_compare(x, op, v[0], v[1]), OX_F32);
}
static ox_value *gt(ox *x, ox_value *const *v) { return truth(x, "Greater", v); }
static ox_value *ge(ox *x, ox_value *const *v) { return truth(x, "GreaterOrEqual", v); }
static ox_value *eq(ox *x, ox_value *const *v) { return truth(x, "Equal", v); }

static ox_value *choose_value(ox *x, ox_value *const *v) {
  return vtb__ox_where(x, vtb__ox_cast(x, v[0], OX_BOOL), v[1], v[2]);
}

static ox_value *itself(ox *x, ox_value *const *v) {
  (void)x;
  return v[0];
}

static ox_value *square(ox *x, ox_value *const *v) { return B("Mul", v[0], v[0]); }
static ox_value *rsqrt(ox *x, ox_value *const *v) { return U("Reciprocal", U("Sqrt", v[0])); }
static ox_value *silu(ox *x, ox_value *const *v) { return B("Mul", v[0], U("Sigmoid", v[0])); }

/* u = 1 + x rounded; ln(u) x / (u - 1) takes the rounding back. */
static ox_value *log1p_of(ox *x, ox_value *a) {
  ox_value *u = B("Add", a, N(1)), *none = vtb__ox_compare(x, "Equal", u, N(1));
  ox_value *over = vtb__ox_where(x, none, N(1), B("Sub", u, N(1)));
  return vtb__ox_where(x, none, a, B("Mul", U("Log", u), B("Div", a, over)));
}
static ox_value *log1p_row(ox *x, ox_value *const *v) { return log1p_of(x, v[0]); }

/* max(x, 0) + ln(1 + e^-|x|) */
static ox_value *softplus_of(ox *x, ox_value *a) {
  return B("Add", U("Relu", a), log1p_of(x, U("Exp", U("Neg", U("Abs", a)))));
}
static ox_value *softplus(ox *x, ox_value *const *v) { return softplus_of(x, v[0]); }
static ox_value *log_sigmoid(ox *x, ox_value *const *v) {
  return U("Neg", softplus_of(x, U("Neg", v[0])));
}

static ox_value *half_by(ox *x, ox_value *a, ox_value *inner) {
  return B("Mul", B("Mul", a, N(0.5)), B("Add", inner, N(1)));
}
static ox_value *gelu(ox *x, ox_value *const *v) {
  return half_by(x, v[0], U("Erf", B("Mul", v[0], N(0.70710678118654752))));
}
static ox_value *gelu_tanh(ox *x, ox_value *const *v) {
  ox_value *cube = B("Mul", B("Mul", v[0], v[0]), v[0]);
  ox_value *sum = B("Add", v[0], B("Mul", cube, N(0.044715)));
  return half_by(x, v[0], U("Tanh", B("Mul", sum, N(0.79788456080286536))));
}

/* tanh(x/2) (e^x + 1); beyond 1, where nothing cancels, by its definition: e^x may be infinite. */
static ox_value *expm1_of(ox *x, ox_value *a) {
  ox_value *e = U("Exp", a), *one = N(1);
  ox_value *near = B("Mul", U("Tanh", B("Mul", a, N(0.5))), B("Add", e, one));
  return vtb__ox_where(x, vtb__ox_compare(x, "Greater", a, one), B("Sub", e, one), near);
}
static ox_value *expm1_row(ox *x, ox_value *const *v) { return expm1_of(x, v[0]); }

static ox_value *sinh_row(ox *x, ox_value *const *v) {
  return B("Mul", B("Sub", expm1_of(x, v[0]), expm1_of(x, U("Neg", v[0]))), N(0.5));
}
static ox_value *cosh_row(ox *x, ox_value *const *v) {
  return B("Mul", B("Add", U("Exp", v[0]), U("Exp", U("Neg", v[0]))), N(0.5));
}

static ox_value *kinked(ox *x, ox_value *a, ox_value *below) {
  return vtb__ox_where(x, vtb__ox_compare(x, "Greater", a, N(0)), a, below);
}
static ox_value *elu(ox *x, ox_value *const *v) {
  ox_value *low = B("Min", v[0], N(0));
  return kinked(x, v[0], B("Mul", v[1], expm1_of(x, low)));
}
static ox_value *leaky_relu(ox *x, ox_value *const *v) {
  return kinked(x, v[0], B("Mul", v[1], v[0]));
}

/* The angle of (y, x): that of the smaller side over the larger, and what quarter it lies in. */
static ox_value *atan2_row(ox *x, ox_value *const *v) {
  const double pi = 3.14159265358979323846;
  ox_value *ay = U("Abs", v[0]), *ax = U("Abs", v[1]), *zero = N(0);
  ox_value *big = B("Max", ax, ay), *small = B("Min", ax, ay);
  ox_value *none = vtb__ox_compare(x, "Equal", big, zero);
  ox_value *a = U("Atan", B("Div", small, vtb__ox_where(x, none, N(1), big)));
  a = vtb__ox_where(x, vtb__ox_compare(x, "Greater", ay, ax), B("Sub", N(pi / 2), a), a);
  a = vtb__ox_where(x, vtb__ox_compare(x, "Less", v[1], zero), B("Sub", N(pi), a), a);
  return vtb__ox_where(x, vtb__ox_compare(x, "Less", v[0], zero), U("Neg", a), a);
}

static const scalar_row rows[VTB_OP_COUNT] = {
    [VTB_OP_neg] = {.op = "Neg"},
    [VTB_OP_abs] = {.op = "Abs"},
    [VTB_OP_sign] = {.op = "Sign"},
    [VTB_OP_exp] = {.op = "Exp"},
    [VTB_OP_log] = {.op = "Log"},
    [VTB_OP_sqrt] = {.op = "Sqrt"},
    [VTB_OP_sin] = {.op = "Sin"},
    [VTB_OP_cos] = {.op = "Cos"},
    [VTB_OP_tanh] = {.op = "Tanh"},
    [VTB_OP_erf] = {.op = "Erf"},
    [VTB_OP_floor] = {.op = "Floor"},
    [VTB_OP_round] = {.op = "Round"},
    [VTB_OP_tan] = {.op = "Tan"},
    [VTB_OP_atan] = {.op = "Atan"},
    [VTB_OP_relu] = {.op = "Relu"},
    [VTB_OP_sigmoid] = {.op = "Sigmoid"},
    [VTB_OP_add] = {.op = "Add"},
    [VTB_OP_sub] = {.op = "Sub"},
    [VTB_OP_mul] = {.op = "Mul"},
    [VTB_OP_div] = {.op = "Div"},
    [VTB_OP_max] = {.op = "Max"},
    [VTB_OP_min] = {.op = "Min"},
    [VTB_OP_pow] = {.op = "Pow"},
    [VTB_OP_gt] = {NULL, gt, "Greater, Cast"},
    [VTB_OP_ge] = {NULL, ge, "GreaterOrEqual, Cast"},
    [VTB_OP_eq] = {NULL, eq, "Equal, Cast"},
    [VTB_OP_select] = {NULL, choose_value, "Cast, Where"},
    [VTB_OP_stop_gradient] = {NULL, itself, "nothing"},
    [VTB_OP_square] = {NULL, square, "Mul"},
    [VTB_OP_rsqrt] = {NULL, rsqrt, "Sqrt, Reciprocal"},
    [VTB_OP_silu] = {NULL, silu, "Sigmoid, Mul"},
    [VTB_OP_log1p] = {NULL, log1p_row, "Log, corrected for the rounding of 1 + x"},
    [VTB_OP_softplus] = {NULL, softplus, "Relu(x) + log1p(Exp(-Abs(x)))"},
    [VTB_OP_log_sigmoid] = {NULL, log_sigmoid, "-softplus(-x)"},
    [VTB_OP_gelu] = {NULL, gelu, "Erf, Mul, Add"},
    [VTB_OP_gelu_tanh] = {NULL, gelu_tanh, "Tanh, Mul, Add"},
    [VTB_OP_expm1] = {NULL, expm1_row, "Tanh(x/2) (Exp(x) + 1), beyond 1 Exp(x) - 1"},
    [VTB_OP_sinh] = {NULL, sinh_row, "(expm1(x) - expm1(-x)) / 2"},
    [VTB_OP_cosh] = {NULL, cosh_row, "(Exp(x) + Exp(-x)) / 2"},
    [VTB_OP_elu] = {NULL, elu, "Where, y expm1(Min(x, 0))"},
    [VTB_OP_leaky_relu] = {NULL, leaky_relu, "Where, Mul"},
    [VTB_OP_atan2] = {NULL, atan2_row, "Atan of the smaller side over the larger, Where"},
};

/* An operand of one element type with the result of another would be our bug: shape rules see to
 * it. */
ox_value *vtb__ox_scalar(ox *x, vtb_op op, ox_value *const *in) {
  const scalar_row *row = &rows[op];
  if (row->fn) return row->fn(x, in);
  bool two = vtb_op_get(op)->min_operands == 2;
  return two ? vtb__ox_binary(x, row->op, in[0], in[1]) : vtb__ox_unary(x, row->op, in[0]);
}

const char *vtb__ox_scalar_form(vtb_op op) { return rows[op].fn ? rows[op].form : rows[op].op; }
