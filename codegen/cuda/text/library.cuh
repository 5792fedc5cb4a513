/* Vertebra: plain C++ on top of the intrinsics, the same on a GPU and in the emulator.
 *
 * Elementwise functions exist for float and for vtb_f4 (four neighbouring elements of one thread),
 * so that generated expressions read the same for both. Sums over threads have a fixed order:
 * results repeat bit by bit. */

#define VTB_INF vtb_float(0x7f800000u)
#define VTB_NAN vtb_float(0x7fc00000u)

VTB_FN float vtb_sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x * 0.0f; }
/* The factor that stands for a division by b: the largest where 1 / b is larger, so that 0 / b is
 * 0. */
VTB_FN float vtb_inverse(float b) {
  const float r = 1.0f / b, most = vtb_float(0x7f7fffffu);
  return vtb_abs(r) > most && b != 0.0f ? (b < 0.0f ? -most : most) : r;
}
/* Where e^-x is infinite its reciprocal is 0. */
VTB_FN float vtb_sigmoid(float x) {
  return vtb_rcp_fast(1.0f + vtb_exp2_fast(-1.4426950408889634f * x));
}
/* log(1 + e^-|x|), a number of (0, ln 2], with a relative error of 3e-7 where |x| is small:
 * log(1 + t) / t is close to a polynomial (its interpolation at the Chebyshev points of [0, 1]),
 * which takes a third of log1p's instructions. */
VTB_FN float vtb_log_of_gap(float x) {
  const float t = vtb_exp2_fast(-1.4426950408889634f * vtb_abs(x));
  float p = vtb_fma(0.00512610236f, t, -0.0290740654f);
  p = vtb_fma(p, t, 0.0775160864f);
  p = vtb_fma(p, t, -0.136022478f);
  p = vtb_fma(p, t, 0.190768808f);
  p = vtb_fma(p, t, -0.248353988f);
  p = vtb_fma(p, t, 0.333181202f);
  p = vtb_fma(p, t, -0.499994457f);
  p = vtb_fma(p, t, 0.99999994f);
  return p * t;
}
VTB_FN float vtb_softplus(float x) { return vtb_max(x, 0.0f) + vtb_log_of_gap(x); }
VTB_FN float vtb_log_sigmoid(float x) { return vtb_min(x, 0.0f) - vtb_log_of_gap(x); }
VTB_FN float vtb_relu(float x) { return x < 0.0f ? 0.0f : x; }
VTB_FN float vtb_gt(float x, float y) { return x > y ? 1.0f : 0.0f; }
VTB_FN float vtb_ge(float x, float y) { return x >= y ? 1.0f : 0.0f; }
VTB_FN float vtb_eq(float x, float y) { return x == y ? 1.0f : 0.0f; }
VTB_FN float vtb_select(float c, float x, float y) { return c != 0.0f ? x : y; }

/* ---- four at a time -------------------------------------------------------------------------- */
VTB_FN vtb_f4 vtb_splat(float v) {
  vtb_f4 r = {v, v, v, v};
  return r;
}
VTB_FN vtb_f4 vtb_splat(vtb_f4 v) { return v; }
#define VTB_UNARY4(f)                                                                              \
  VTB_FN vtb_f4 f(vtb_f4 a) {                                                                      \
    vtb_f4 r = {f(a.x), f(a.y), f(a.z), f(a.w)};                                                   \
    return r;                                                                                      \
  }
#define VTB_BINARY4(f)                                                                             \
  VTB_FN vtb_f4 f(vtb_f4 a, vtb_f4 b) {                                                            \
    vtb_f4 r = {f(a.x, b.x), f(a.y, b.y), f(a.z, b.z), f(a.w, b.w)};                               \
    return r;                                                                                      \
  }                                                                                                \
  VTB_FN vtb_f4 f(vtb_f4 a, float b) { return f(a, vtb_splat(b)); }                                \
  VTB_FN vtb_f4 f(float a, vtb_f4 b) { return f(vtb_splat(a), b); }
#define VTB_TERNARY4(f)                                                                            \
  VTB_FN vtb_f4 f(vtb_f4 a, vtb_f4 b, vtb_f4 c) {                                                  \
    vtb_f4 r = {f(a.x, b.x, c.x), f(a.y, b.y, c.y), f(a.z, b.z, c.z), f(a.w, b.w, c.w)};           \
    return r;                                                                                      \
  }
#define VTB_OPERATOR4(o)                                                                           \
  VTB_FN vtb_f4 operator o(vtb_f4 a, vtb_f4 b) {                                                   \
    vtb_f4 r = {a.x o b.x, a.y o b.y, a.z o b.z, a.w o b.w};                                       \
    return r;                                                                                      \
  }                                                                                                \
  VTB_FN vtb_f4 operator o(vtb_f4 a, float b) { return a o vtb_splat(b); }                         \
  VTB_FN vtb_f4 operator o(float a, vtb_f4 b) { return vtb_splat(a) o b; }
VTB_OPERATOR4(+)
VTB_OPERATOR4(-)
VTB_OPERATOR4(*)
VTB_OPERATOR4(/)
VTB_FN vtb_f4 operator-(vtb_f4 a) {
  vtb_f4 r = {-a.x, -a.y, -a.z, -a.w};
  return r;
}
/* Rows of ir/scalar_ops.def by their formulas, and all of them for four elements. */
/* @scalar_ops */
VTB_FN vtb_f4 vtb_select4(vtb_f4 c, vtb_f4 x, vtb_f4 y) {
  vtb_f4 r = {vtb_select(c.x, x.x, y.x), vtb_select(c.y, x.y, y.y), vtb_select(c.z, x.z, y.z),
              vtb_select(c.w, x.w, y.w)};
  return r;
}
/* Four elements `step` apart, or without the alignment of vtb_load4. */
template <class P> VTB_FN vtb_f4 vtb_gather4(P p, vtb_i64 at, vtb_i64 step) {
  vtb_f4 r = {p[at], p[at + step], p[at + 2 * step], p[at + 3 * step]};
  return r;
}
template <class P> VTB_FN void vtb_scatter4(P p, vtb_i64 at, vtb_i64 step, vtb_f4 v) {
  p[at] = v.x;
  p[at + step] = v.y;
  p[at + 2 * step] = v.z;
  p[at + 3 * step] = v.w;
}
/* One element or four neighbours, by the type V that a thread works with: from `at` on, or `step`
 * apart. */
template <class V, class P, class I> VTB_FN V vtb_read(P p, I at) {
  if constexpr (sizeof(V) == 16)
    return vtb_load4(p, at);
  else
    return p[at];
}
template <class V, class P, class I> VTB_FN V vtb_read_apart(P p, I at, int step) {
  if constexpr (sizeof(V) == 16)
    return vtb_gather4(p, at, step);
  else
    return p[at];
}
template <class P, class I> VTB_FN void vtb_write(P p, I at, vtb_f4 v) { vtb_store4(p, at, v); }
template <class P, class I> VTB_FN void vtb_write(P p, I at, float v) { p[at] = v; }
template <class P, class I> VTB_FN void vtb_write(P p, I at, int v) { p[at] = v; }
/* Four elements as one value; to a single one, which a kernel of ones does not do, nothing. */
VTB_FN void vtb_put4(vtb_f4 &to, float x, float y, float z, float w) {
  to.x = x, to.y = y, to.z = z, to.w = w;
}
VTB_FN void vtb_put4(float &, float, float, float, float) {}
VTB_FN float vtb_dot4(vtb_f4 a, vtb_f4 b) {
  return (a.x * b.x + a.y * b.y) + (a.z * b.z + a.w * b.w);
}
/* from[at] + from[at + step] + ..., n of them in this order. */
template <class P> VTB_FN float vtb_sum_apart(P from, vtb_i64 at, vtb_i64 step, int n) {
  float sum = from[at];
  for (int i = 1; i < n; i++) sum += from[i * step + at];
  return sum;
}
/* The number that memory of 16 bits would keep of v. */
template <class T> VTB_FN float vtb_rounded_to(float v) {
  T kept;
  kept = v;
  return (float)kept;
}
template <class T> VTB_FN vtb_f4 vtb_rounded_to(vtb_f4 v) {
  vtb_f4 r = {vtb_rounded_to<T>(v.x), vtb_rounded_to<T>(v.y), vtb_rounded_to<T>(v.z),
              vtb_rounded_to<T>(v.w)};
  return r;
}
VTB_FN float vtb_sum4(float v) { return v; }
VTB_FN float vtb_sum4(vtb_f4 v) { return (v.x + v.y) + (v.z + v.w); }
VTB_FN float vtb_max4(float v) { return v; }
VTB_FN float vtb_max4(vtb_f4 v) { return vtb_max(vtb_max(v.x, v.y), vtb_max(v.z, v.w)); }

/* ---- integers -------------------------------------------------------------------------------- */
VTB_FN int vtb_abs_int(int x) { return x > 0 ? x : (int)(0u - (vtb_u32)x); }
VTB_FN int vtb_sign_int(int x) { return (x > 0) - (x < 0); }
VTB_FN constexpr int vtb_max_int(int x, int y) { return x > y ? x : y; }
VTB_FN constexpr int vtb_min_int(int x, int y) { return x < y ? x : y; }
/* The nearest of 0 to n - 1. */
VTB_FN constexpr int vtb_within(int x, int n) { return x < 0 ? 0 : x < n ? x : n - 1; }

/* The hash of runtime/base/random.h. */
VTB_FN vtb_u32 vtb_random_mix(vtb_u32 x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}
VTB_FN vtb_u32 vtb_random_key(vtb_u32 seed, vtb_u32 stream) {
  return vtb_random_mix(stream ^ vtb_random_mix(seed + 0x9e3779b9u));
}
VTB_FN float vtb_random(vtb_u32 key, vtb_u32 at) {
  return (float)(vtb_random_mix(at ^ key) >> 8) * 5.9604644775390625e-8f;
}

/* ---- sums over threads ----------------------------------------------------------------------- */
VTB_FN float vtb_warp_sum(float v) {
  VTB_UNROLL for (int m = 16; m > 0; m >>= 1) v += vtb_shfl_xor(v, m);
  return v;
}
VTB_FN float vtb_warp_max(float v) {
  VTB_UNROLL for (int m = 16; m > 0; m >>= 1) v = vtb_max(v, vtb_shfl_xor(v, m));
  return v;
}
/* The same of N neighbouring lanes, a power of two, for each such part of a warp. */
template <int N> VTB_FN float vtb_part_sum(float v) {
  VTB_UNROLL for (int m = N / 2; m > 0; m >>= 1) v += vtb_shfl_xor(v, m);
  return v;
}
template <int N> VTB_FN float vtb_part_max(float v) {
  VTB_UNROLL for (int m = N / 2; m > 0; m >>= 1) v = vtb_max(v, vtb_shfl_xor(v, m));
  return v;
}
/* Mean, and sum of the squares of what they are off it, of the four numbers of each of eight lanes,
 * the first a multiple of eight; all eight get both. */
VTB_FN void vtb_part_of_8(vtb_f4 v, float &mean, float &squares) {
  mean = vtb_sum4(v);
  VTB_UNROLL for (int m = 4; m > 0; m >>= 1) mean += vtb_shfl_xor(mean, m);
  mean *= 0.03125f;
  const vtb_f4 off = v - mean;
  squares = vtb_dot4(off, off);
  VTB_UNROLL for (int m = 4; m > 0; m >>= 1) squares += vtb_shfl_xor(squares, m);
}
/* The same of the eight numbers of each of four lanes. */
VTB_FN void vtb_part_of_4(vtb_f4 low, vtb_f4 high, float &mean, float &squares) {
  mean = vtb_sum4(low) + vtb_sum4(high);
  VTB_UNROLL for (int m = 2; m > 0; m >>= 1) mean += vtb_shfl_xor(mean, m);
  mean *= 0.03125f;
  const vtb_f4 off = low - mean, off_high = high - mean;
  squares = vtb_dot4(off, off) + vtb_dot4(off_high, off_high);
  VTB_UNROLL for (int m = 2; m > 0; m >>= 1) squares += vtb_shfl_xor(squares, m);
}
/* A lane's four numbers of its pairs x and y: those, or with its neighbour's, of x for even lanes
 * and of y for odd ones. */
template <bool OWN> VTB_FN vtb_f4 vtb_four_of(float x0, float x1, float y0, float y1) {
  vtb_f4 four = {x0, x1, y0, y1};
  if constexpr (!OWN) {
    const bool odd = vtb_lane() % 2;
    const float given0 = vtb_shfl_xor(odd ? x0 : y0, 1), given1 = vtb_shfl_xor(odd ? x1 : y1, 1);
    vtb_put4(four, odd ? given0 : x0, odd ? given1 : x1, odd ? y0 : given0, odd ? y1 : given1);
  }
  return four;
}
/* Every thread gets the result; `shared` holds 32 floats and may be used again after the next
 * vtb_sync(). */
template <class P> VTB_FN float vtb_block_sum(float v, int n_warps, P shared) {
  v = vtb_warp_sum(v);
  if (vtb_lane() == 0) shared[vtb_warp()] = v;
  vtb_sync();
  v = vtb_warp_sum(vtb_lane() < n_warps ? shared[vtb_lane()] : 0.0f);
  vtb_sync();
  return v;
}
template <class P> VTB_FN float vtb_block_max(float v, int n_warps, P shared) {
  v = vtb_warp_max(v);
  if (vtb_lane() == 0) shared[vtb_warp()] = v;
  vtb_sync();
  v = vtb_warp_max(shared[vtb_lane() < n_warps ? vtb_lane() : 0]);
  vtb_sync();
  return v;
}
