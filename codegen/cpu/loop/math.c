/* Mathematics on f32 scalars and vectors as polynomials. The builders of LLVM are polymorphic, so
 * one body serves both.
 *
 * Polynomials are Chebyshev fits of the named quotient on the named interval; the fit's error
 * stands beside each and is below half an ulp of the result. Argument reductions are the classical
 * ones (Cody and Waite 1980). */
#include "codegen/cpu/cpu.h"
#include "ir/ops.h"
#include "ir/scalar.h"

#define INF __builtin_inf()

/* ---- short forms ----------------------------------------------------------------------------- */

static LLVMValueRef fadd(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y) {
  return LLVMBuildFAdd(c->b, x, y, "");
}
static LLVMValueRef fsub(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y) {
  return LLVMBuildFSub(c->b, x, y, "");
}
static LLVMValueRef fmul(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y) {
  return LLVMBuildFMul(c->b, x, y, "");
}
static LLVMValueRef fdiv(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y) {
  return LLVMBuildFDiv(c->b, x, y, "");
}
static LLVMValueRef k(vtb_cpu *c, LLVMValueRef x, double v) { return vtb_cpu_like(c, x, v); }
static LLVMValueRef pick(vtb_cpu *c, LLVMValueRef cond, LLVMValueRef x, LLVMValueRef y) {
  return LLVMBuildSelect(c->b, cond, x, y, "");
}
static LLVMValueRef less(vtb_cpu *c, LLVMValueRef x, double v) {
  return LLVMBuildFCmp(c->b, LLVMRealOLT, x, k(c, x, v), "");
}
static LLVMValueRef above(vtb_cpu *c, LLVMValueRef x, double v) {
  return LLVMBuildFCmp(c->b, LLVMRealOGT, x, k(c, x, v), "");
}
static LLVMValueRef fabs_of(vtb_cpu *c, LLVMValueRef x) {
  return vtb_cpu_intrinsic(c, "llvm.fabs", &x, 1);
}
static LLVMValueRef copysign_of(vtb_cpu *c, LLVMValueRef x, LLVMValueRef sign) {
  return vtb_cpu_intrinsic(c, "llvm.copysign", (LLVMValueRef[]){x, sign}, 2);
}

static LLVMTypeRef int_like(vtb_cpu *c, LLVMValueRef x) {
  LLVMTypeRef t = LLVMTypeOf(x);
  return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMVectorType(c->i32, LLVMGetVectorSize(t))
                                                  : c->i32;
}
static LLVMValueRef int_const(vtb_cpu *c, LLVMValueRef x, uint32_t v) {
  LLVMValueRef one = LLVMConstInt(c->i32, v, 0);
  return LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMVectorTypeKind
             ? vtb_cpu_splat(c, one, (int)LLVMGetVectorSize(LLVMTypeOf(x)))
             : one;
}
static LLVMValueRef bits(vtb_cpu *c, LLVMValueRef x) {
  return LLVMBuildBitCast(c->b, x, int_like(c, x), "");
}
static LLVMValueRef floats(vtb_cpu *c, LLVMValueRef i, LLVMValueRef like) {
  return LLVMBuildBitCast(c->b, i, LLVMTypeOf(like), "");
}

/* Horner, highest coefficient first. */
static LLVMValueRef poly(vtb_cpu *c, LLVMValueRef x, const double *coef, int n) {
  LLVMValueRef r = k(c, x, coef[0]);
  for (int i = 1; i < n; i++) r = vtb_cpu_fma(c, r, x, k(c, x, coef[i]));
  return r;
}
#define POLY(c, x, ...)                                                                            \
  poly((c), (x), (const double[]){__VA_ARGS__},                                                    \
       (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)))

/* 1.5 * 2^23: adding it rounds to an integer, kept in the low bits */
static const double MAGIC = 12582912.0;

/* ---- exponential and logarithm --------------------------------------------------------------- */

/* x = n ln2 + r, e^x = 2^n (1 + r + r^2 P(r)); n goes straight into the exponent field. */
LLVMValueRef vtb_cpu_exp(vtb_cpu *c, LLVMValueRef x) {
  LLVMValueRef lo = k(c, x, -87.3), hi = k(c, x, 88.72);
  LLVMValueRef t = pick(c, less(c, x, -87.3), lo, x);
  t = pick(c, above(c, t, 88.72), hi, t);
  LLVMValueRef shifted = vtb_cpu_fma(c, t, k(c, x, 1.44269504088896341), k(c, x, MAGIC));
  LLVMValueRef n = fsub(c, shifted, k(c, x, MAGIC));
  LLVMValueRef r = vtb_cpu_fma(c, n, k(c, x, -0.693359375), t);
  r = vtb_cpu_fma(c, n, k(c, x, 0.000212194440054690583), r);
  /* 6.5e-8 r^2 */
  LLVMValueRef p = POLY(c, r, 0.001392619767, 0.008363190326, 0.04166655453, 0.1666657692, 0.5);
  p = vtb_cpu_fma(c, fmul(c, r, r), p, r);
  p = fadd(c, p, k(c, x, 1.0));
  LLVMValueRef exponent = LLVMBuildShl(c->b, bits(c, shifted), int_const(c, x, 23), "");
  LLVMValueRef y = floats(c, LLVMBuildAdd(c->b, bits(c, p), exponent, ""), x);
  y = pick(c, less(c, x, -87.3), k(c, x, 0.0), y);
  y = pick(c, above(c, x, 88.7228), k(c, x, INF), y);
  return pick(c, LLVMBuildFCmp(c->b, LLVMRealUNO, x, x, ""), x, y);
}

/* x = n + r, 2^x = 2^n (1 + r Q(r)). The limits of x are those at which the sum of exponent fields
 * is that of 0 and of infinity while r = 0. The operands of the comparisons stand so that NaN
 * stays. */
LLVMValueRef vtb_cpu_exp2(vtb_cpu *c, LLVMValueRef x) {
  LLVMValueRef t = vtb_cpu_fmin(c, k(c, x, 128.0), vtb_cpu_fmax(c, k(c, x, -127.0), x));
  LLVMValueRef shifted = fadd(c, t, k(c, x, MAGIC));
  LLVMValueRef r = fsub(c, t, fsub(c, shifted, k(c, x, MAGIC)));
  LLVMValueRef q = POLY(c, r, 0.001326472725, 0.009671512786, 0.05550733744, 0.2402224208,
                        0.6931469776); /* 9.1e-8 */
  LLVMValueRef p = vtb_cpu_fma(c, r, q, k(c, x, 1.0));
  LLVMValueRef exponent = LLVMBuildShl(c->b, bits(c, shifted), int_const(c, x, 23), "");
  return floats(c, LLVMBuildAdd(c->b, bits(c, p), exponent, ""), x);
}

/* x = 2^e (1 + r) with 1 + r in [sqrt 1/2, sqrt 2): ln x = e ln2 + r - r^2/2 + r^3 P(r). */
LLVMValueRef vtb_cpu_log(vtb_cpu *c, LLVMValueRef x) {
  LLVMValueRef tiny = less(c, x, 1.17549435e-38);
  LLVMValueRef scaled = pick(c, tiny, fmul(c, x, k(c, x, 8388608.0)), x);
  LLVMValueRef i = LLVMBuildSub(c->b, bits(c, scaled), int_const(c, x, 0x3f3504f3), "");
  LLVMValueRef e = LLVMBuildAShr(c->b, i, int_const(c, x, 23), "");
  LLVMValueRef m =
      LLVMBuildSub(c->b, bits(c, scaled), LLVMBuildShl(c->b, e, int_const(c, x, 23), ""), "");
  LLVMValueRef ef = LLVMBuildSIToFP(c->b, e, LLVMTypeOf(x), "");
  ef = fsub(c, ef, pick(c, tiny, k(c, x, 23.0), k(c, x, 0.0)));
  LLVMValueRef r = fsub(c, floats(c, m, x), k(c, x, 1.0));
  LLVMValueRef p =
      POLY(c, r, 0.06971611471, -0.1147973385, 0.1168541992, -0.1242568733, 0.1424905765,
           -0.1666780232, 0.2000071575, -0.2499999696, 0.3333333118); /* 2.9e-8 r^3 */
  LLVMValueRef r2 = fmul(c, r, r);
  LLVMValueRef y = fmul(c, fmul(c, r2, r), p);
  y = vtb_cpu_fma(c, ef, k(c, x, -0.000212194440054690583), y);
  y = vtb_cpu_fma(c, r2, k(c, x, -0.5), y);
  y = fadd(c, y, r);
  y = vtb_cpu_fma(c, ef, k(c, x, 0.693359375), y);
  y = pick(c, LLVMBuildFCmp(c->b, LLVMRealOEQ, x, k(c, x, 0.0), ""), k(c, x, -INF), y);
  y = pick(c, LLVMBuildFCmp(c->b, LLVMRealOEQ, x, k(c, x, INF), ""), k(c, x, INF), y);
  return pick(c, LLVMBuildFCmp(c->b, LLVMRealULT, x, k(c, x, 0.0), ""), k(c, x, __builtin_nan("")),
              y);
}

/* ln(1 + e), e = e^-|x| in [0, 1]: 2 artanh s = s P(s^2) with s = e / (e + 2) in [0, 1/3]. */
static LLVMValueRef log1p_exp_neg_abs(vtb_cpu *c, LLVMValueRef x) {
  LLVMValueRef e = vtb_cpu_exp(c, LLVMBuildFNeg(c->b, fabs_of(c, x), ""));
  LLVMValueRef s = fdiv(c, e, fadd(c, e, k(c, x, 2.0)));
  return fmul(c, s,
              POLY(c, fmul(c, s, s), 0.2817833537, 0.2796060303, 0.4002491023, 0.6666631468,
                   2.000000008)); /* 4e-9 */
}

/* |x| < 1/2: x + x^2 P(x), 7e-8; else e^x - 1, which cancels no more than one bit. */
static LLVMValueRef expm1_of(vtb_cpu *c, LLVMValueRef x) {
  LLVMValueRef p = POLY(c, x, 0.0001994487446, 0.001398218605, 0.008333236133, 0.04166579123,
                        0.166666668, 0.5000000122);
  LLVMValueRef near = vtb_cpu_fma(c, fmul(c, x, x), p, x);
  return pick(c, less(c, fabs_of(c, x), 0.5), near, fsub(c, vtb_cpu_exp(c, x), k(c, x, 1.0)));
}

/* With u = 1 + x as rounded, ln(1 + x) = ln(u) x / (u - 1) up to rounding: what u lost stands in
 * both (Higham 2002, section 1.14.1). */
static LLVMValueRef log1p_of(vtb_cpu *c, LLVMValueRef x) {
  LLVMValueRef u = fadd(c, x, k(c, x, 1.0)), kept = fsub(c, u, k(c, x, 1.0));
  LLVMValueRef y = fmul(c, vtb_cpu_log(c, u), fdiv(c, x, kept));
  y = pick(c, LLVMBuildFCmp(c->b, LLVMRealOEQ, kept, k(c, x, 0.0), ""), x, y);
  return pick(c, LLVMBuildFCmp(c->b, LLVMRealOEQ, x, k(c, x, INF), ""), x, y);
}

/* The angle of the point (y, x): of the smaller over the larger side, a + a^3 P(a^2), 8e-8, then
 * turned into its octant. Zeros have signs, as in C; (0, 0) is an angle of 0. */
static LLVMValueRef atan2_of(vtb_cpu *c, LLVMValueRef y, LLVMValueRef x) {
  LLVMValueRef ax = fabs_of(c, x), ay = fabs_of(c, y), zero = k(c, x, 0.0);
  LLVMValueRef steep = LLVMBuildFCmp(c->b, LLVMRealOGT, ay, ax, "");
  LLVMValueRef small = pick(c, steep, ax, ay), large = pick(c, steep, ay, ax);
  LLVMValueRef at_zero = LLVMBuildFCmp(c->b, LLVMRealOEQ, large, zero, "");
  LLVMValueRef a = pick(c, at_zero, zero, fdiv(c, small, large)), s = fmul(c, a, a);
  LLVMValueRef p = POLY(c, s, -0.002386997316, 0.01350777142, -0.03587153898, 0.06250169444,
                        -0.0865688043, 0.1103376412, -0.1427856875, 0.1999973933, -0.3333333173);
  LLVMValueRef r = vtb_cpu_fma(c, fmul(c, s, a), p, a);
  r = pick(c, steep, fsub(c, k(c, x, 1.57079632679489662), r), r);
  LLVMValueRef back = LLVMBuildICmp(c->b, LLVMIntSLT, bits(c, x), int_const(c, x, 0), "");
  r = pick(c, back, fsub(c, k(c, x, 3.14159265358979324), r), r);
  return copysign_of(c, r, y);
}

/* ---- sigmoids -------------------------------------------------------------------------------- */

/* |x| < 0.625: x + x^3 P(x^2); else 1 - 2 / (e^2|x| + 1). */
static LLVMValueRef tanh_of(vtb_cpu *c, LLVMValueRef x) {
  LLVMValueRef a = fabs_of(c, x), s = fmul(c, x, x), one = k(c, x, 1.0);
  LLVMValueRef p = POLY(c, s, -0.006096714166, 0.020997179, -0.05385090958, 0.1333276974,
                        -0.3333332894); /* 4.3e-8 */
  LLVMValueRef small = vtb_cpu_fma(c, fmul(c, s, x), p, x);
  LLVMValueRef e = vtb_cpu_exp(c, fadd(c, a, a));
  LLVMValueRef big = fsub(c, one, fdiv(c, k(c, x, 2.0), fadd(c, e, one)));
  return pick(c, less(c, a, 0.625), small, copysign_of(c, big, x));
}

/* x P(x^2) / Q(x^2), a minimax fit on |x| <= 3.925, where erf is 1 - 3e-8: 1.9e-8, rounded to f32
 * 3.2e-7. */
static LLVMValueRef erf_of(vtb_cpu *c, LLVMValueRef x) {
  x = pick(c, above(c, x, 3.925), k(c, x, 3.925), x);
  x = pick(c, less(c, x, -3.925), k(c, x, -3.925), x);
  LLVMValueRef s = fmul(c, x, x);
  LLVMValueRef p = POLY(c, s, 2.04601353e-6, 2.84845056e-4, 3.77262224e-3, 5.27695237e-2,
                        0.190595446, 1.12837915);
  LLVMValueRef q =
      POLY(c, s, 3.80477099e-5, 1.16387501e-3, 1.49833437e-2, 0.114183422, 0.502243547, 1);
  LLVMValueRef y = fdiv(c, fmul(c, x, p), q);
  y = pick(c, above(c, y, 1), k(c, x, 1), y);
  return pick(c, less(c, y, -1), k(c, x, -1), y);
}

/* ---- sine and cosine ------------------------------------------------------------------------- */

/* x = n pi/2 + r in three parts, good to about |x| = 1e5; then by the quadrant n mod 4. */
static LLVMValueRef sin_quadrant(vtb_cpu *c, LLVMValueRef x, uint32_t turn) {
  LLVMValueRef shifted = vtb_cpu_fma(c, x, k(c, x, 0.63661977236758134), k(c, x, MAGIC));
  LLVMValueRef n = fsub(c, shifted, k(c, x, MAGIC));
  LLVMValueRef r = vtb_cpu_fma(c, n, k(c, x, -1.5703125), x);
  r = vtb_cpu_fma(c, n, k(c, x, -0.0004837512969970703125), r);
  r = vtb_cpu_fma(c, n, k(c, x, -7.54978995489e-8), r);
  LLVMValueRef s = fmul(c, r, r);
  /* 2.8e-11 */
  LLVMValueRef ps = POLY(c, s, 2.72491468e-6, -0.0001984008072, 0.008333331864, -0.1666666666);
  /* 2.4e-12 */
  LLVMValueRef pc = POLY(c, s, -2.730030902e-7, 2.480059536e-5, -0.001388888766, 0.04166666666);
  LLVMValueRef sine = vtb_cpu_fma(c, fmul(c, s, r), ps, r);
  LLVMValueRef cosine =
      vtb_cpu_fma(c, fmul(c, s, s), pc, vtb_cpu_fma(c, s, k(c, x, -0.5), k(c, x, 1.0)));
  LLVMValueRef q = LLVMBuildAdd(c->b, bits(c, shifted), int_const(c, x, turn), "");
  LLVMValueRef odd = LLVMBuildICmp(c->b, LLVMIntNE, LLVMBuildAnd(c->b, q, int_const(c, x, 1), ""),
                                   int_const(c, x, 0), "");
  LLVMValueRef sign =
      LLVMBuildShl(c->b, LLVMBuildAnd(c->b, q, int_const(c, x, 2), ""), int_const(c, x, 30), "");
  LLVMValueRef y = pick(c, odd, cosine, sine);
  return floats(c, LLVMBuildXor(c->b, bits(c, y), sign, ""), x);
}

/* ---- the elementwise ops of the table -------------------------------------------------------- */

static LLVMValueRef truth(vtb_cpu *c, LLVMRealPredicate p, LLVMValueRef x, LLVMValueRef y) {
  return pick(c, LLVMBuildFCmp(c->b, p, x, y, ""), k(c, x, 1.0), k(c, x, 0.0));
}

/* Forms by hand, op_<name>. */
#define OP(name) static LLVMValueRef op_##name(vtb_cpu *c, LLVMValueRef *a)

OP(neg) { return LLVMBuildFNeg(c->b, a[0], ""); }
OP(abs) { return fabs_of(c, a[0]); }
OP(exp) { return vtb_cpu_exp(c, a[0]); }
OP(log) { return vtb_cpu_log(c, a[0]); }
OP(sqrt) { return vtb_cpu_intrinsic(c, "llvm.sqrt", a, 1); }
OP(sin) { return sin_quadrant(c, a[0], 0); }
OP(cos) { return sin_quadrant(c, a[0], 1); }
OP(tanh) { return tanh_of(c, a[0]); }
OP(erf) { return erf_of(c, a[0]); }
OP(floor) { return vtb_cpu_intrinsic(c, "llvm.floor", a, 1); }
OP(round) { return vtb_cpu_intrinsic(c, "llvm.rint", a, 1); }
OP(expm1) { return expm1_of(c, a[0]); }
OP(log1p) { return log1p_of(c, a[0]); }
OP(atan2) { return atan2_of(c, a[0], a[1]); }
OP(add) { return fadd(c, a[0], a[1]); }
OP(sub) { return fsub(c, a[0], a[1]); }
OP(mul) { return fmul(c, a[0], a[1]); }
OP(div) { return fdiv(c, a[0], a[1]); }
OP(max) { return vtb_cpu_fmax(c, a[0], a[1]); }
OP(min) { return vtb_cpu_fmin(c, a[0], a[1]); }
OP(gt) { return truth(c, LLVMRealOGT, a[0], a[1]); }
OP(ge) { return truth(c, LLVMRealOGE, a[0], a[1]); }
OP(eq) { return truth(c, LLVMRealOEQ, a[0], a[1]); }
OP(relu) { return pick(c, less(c, a[0], 0.0), k(c, a[0], 0.0), a[0]); }

/* NaN falls through both tests to itself. */
OP(sign) {
  LLVMValueRef x = a[0], otherwise = fmul(c, x, k(c, x, 0.0));
  return pick(c, above(c, x, 0.0), k(c, x, 1.0),
              pick(c, less(c, x, 0.0), k(c, x, -1.0), otherwise));
}

OP(select) {
  LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(a[0]));
  return pick(c, LLVMBuildFCmp(c->b, LLVMRealUNE, a[0], zero, ""), a[1], a[2]);
}

OP(log_sigmoid) {
  return fsub(c, vtb_cpu_fmin(c, a[0], k(c, a[0], 0.0)), log1p_exp_neg_abs(c, a[0]));
}
OP(softplus) { return fadd(c, vtb_cpu_fmax(c, a[0], k(c, a[0], 0.0)), log1p_exp_neg_abs(c, a[0])); }

OP(silu) {
  LLVMValueRef minus = LLVMBuildFNeg(c->b, a[0], "");
  return fdiv(c, a[0], fadd(c, k(c, a[0], 1.0), vtb_cpu_exp(c, minus)));
}

OP(gelu) {
  LLVMValueRef x = a[0], half = fmul(c, x, k(c, x, 0.5));
  return vtb_cpu_fma(c, half, erf_of(c, fmul(c, x, k(c, x, 0.70710678118654752))), half);
}

OP(gelu_tanh) {
  LLVMValueRef x = a[0], inner = vtb_cpu_fma(c, fmul(c, fmul(c, x, x), k(c, x, 0.044715)), x, x);
  LLVMValueRef half = fmul(c, x, k(c, x, 0.5));
  return vtb_cpu_fma(c, half, tanh_of(c, fmul(c, inner, k(c, x, 0.79788456080286536))), half);
}

typedef LLVMValueRef (*op_form)(vtb_cpu *c, LLVMValueRef *a);
#define FORM_hand(name) op_##name
#define FORM_formula(name) NULL
static const op_form forms[VTB_OP_COUNT] = {
#define VTB_SCALAR(name, n, formula, adjoints, eval, cpu, ...) [VTB_OP_##name] = FORM_##cpu(name),
#include "ir/scalar_ops.def"
#undef VTB_SCALAR
};

/* A row's formula; each of its nodes becomes one value. */
static LLVMValueRef by_formula(vtb_cpu *c, const vtb_scalar *row, LLVMValueRef *a) {
  LLVMValueRef at[VTB_SCALAR_NODES];
  for (int i = 0; i <= row->value; i++) {
    const vtb_scalar_node *n = &row->nodes[i];
    if (n->leaf == VTB_LEAF_NUMBER) {
      at[i] = k(c, a[0], n->number);
    } else if (n->leaf) {
      at[i] = a[n->leaf - VTB_LEAF_X];
    } else {
      LLVMValueRef args[VTB_SCALAR_OPERANDS];
      for (int o = 0; o < vtb_scalar_get(n->op)->n_operands; o++) args[o] = at[n->arg[o]];
      at[i] = vtb_cpu_scalar_op(c, n->op, args);
    }
  }
  return at[row->value];
}

LLVMValueRef vtb_cpu_scalar_op(vtb_cpu *c, vtb_op op, LLVMValueRef *a) {
  return forms[op] ? forms[op](c, a) : by_formula(c, vtb_scalar_get(op), a);
}
