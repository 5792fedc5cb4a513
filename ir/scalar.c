/* The rows of elementwise ops, and their values in double precision: the definition that targets
 * are compared with. */
#include "ir/scalar.h"
#include "ir/ops.h"

#include <math.h>

/* ---- forms by hand, eval_<name> -------------------------------------------------------------- */

static double log1p_exp(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }

static double eval_neg(double x) { return -x; }
static double eval_abs(double x) { return fabs(x); }
static double eval_sign(double x) { return isnan(x) ? x : (x > 0) - (x < 0); }
static double eval_exp(double x) { return exp(x); }
static double eval_log(double x) { return log(x); }
static double eval_sqrt(double x) { return sqrt(x); }
static double eval_sin(double x) { return sin(x); }
static double eval_cos(double x) { return cos(x); }
static double eval_tanh(double x) { return tanh(x); }
static double eval_erf(double x) { return erf(x); }
static double eval_floor(double x) { return floor(x); }
static double eval_add(double x, double y) { return x + y; }
static double eval_sub(double x, double y) { return x - y; }
static double eval_mul(double x, double y) { return x * y; }
static double eval_div(double x, double y) { return x / y; }
static double eval_max(double x, double y) { return isnan(x) || x > y ? x : y; }
static double eval_min(double x, double y) { return isnan(x) || x < y ? x : y; }
static double eval_gt(double x, double y) { return x > y; }
static double eval_ge(double x, double y) { return x >= y; }
static double eval_eq(double x, double y) { return x == y; }
static double eval_select(double x, double y, double z) { return x != 0 ? y : z; }
static double eval_log_sigmoid(double x) { return -log1p_exp(-x); }
static double eval_softplus(double x) { return log1p_exp(x); }
static double eval_gelu(double x) { return 0.5 * x * erfc(-x * 0.70710678118654752440); }
static double eval_round(double x) { return nearbyint(x); }
static double eval_expm1(double x) { return expm1(x); }
static double eval_log1p(double x) { return log1p(x); }
static double eval_atan2(double x, double y) { return atan2(x, y); }
static double eval_pow(double x, double y) { return pow(x, y); }

/* e^-|x| never overflows. */
static double eval_sigmoid(double x) {
  double e = exp(-fabs(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

/* ---- forms by formula, expressions ----------------------------------------------------------- */

#include "ir/scalar_ops.gen.h"

/* ---- loops ----------------------------------------------------------------------------------- */

#define AT(k) in[k][i * stride[k]]
#define OPERANDS_1 AT(0)
#define OPERANDS_2 AT(0), AT(1)
#define OPERANDS_3 AT(0), AT(1), AT(2)
#define VTB_SCALAR(name, n_operands, ...)                                                          \
  static void loop_##name(int64_t n, double *out, const double *const *in,                         \
                          const int64_t *stride) {                                                 \
    for (int64_t i = 0; i < n; i++) out[i] = eval_##name(OPERANDS_##n_operands);                   \
  }
#include "ir/scalar_ops.def"
#undef VTB_SCALAR

static const vtb_scalar_loop loops[VTB_OP_COUNT] = {
#define VTB_SCALAR(name, ...) [VTB_OP_##name] = loop_##name,
#include "ir/scalar_ops.def"
#undef VTB_SCALAR
};

vtb_scalar_loop vtb_scalar_loop_of(vtb_op op) { return loops[op]; }

double vtb_scalar_eval(vtb_op op, const double *operands) {
  static const int64_t stride[VTB_SCALAR_OPERANDS] = {0};
  const double *in[VTB_SCALAR_OPERANDS] = {operands, operands + 1, operands + 2};
  double out;
  loops[op](1, &out, in, stride);
  return out;
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define PRIMITIVE NULL
#define IS_ints true
#define IS_floats false
#define IS_costly true
#define IS_cheap false

static const vtb_scalar rows[VTB_OP_COUNT] = {
#define VTB_SCALAR(name, n, text, adjoints, eval, cpu, cuda, ints_, cost, flops_, monotone_,       \
                   sign_, from_, to_, language, doc)                                               \
  [VTB_OP_##name] = {.n_operands = n,                                                              \
                     .formula = text,                                                              \
                     CODE_##name,                                                                  \
                     .ints = IS_##ints_,                                                           \
                     .costly = IS_##cost,                                                          \
                     .flops = flops_,                                                              \
                     .monotone = monotone_,                                                        \
                     .sign = VTB_SIGN_##sign_,                                                     \
                     .from = from_,                                                                \
                     .to = to_,                                                                    \
                     .builtin = VTB_BUILTIN_##language},
#include "ir/scalar_ops.def"
#undef VTB_SCALAR
};
#define VTB_SCALAR(name, n, text, adjoints, eval, cpu, cuda, ints, cost, flops, monotone, sign,    \
                   from, to, language, doc)                                                        \
  _Static_assert(sizeof monotone == n + 1, #name ": monotone has a sign for each operand");        \
  _Static_assert((flops) >= 0 && sizeof doc > 1, #name ": flops, and what it computes");
#include "ir/scalar_ops.def"
#undef VTB_SCALAR

const vtb_scalar *vtb_scalar_get(vtb_op op) { return rows[op].n_operands ? &rows[op] : NULL; }
