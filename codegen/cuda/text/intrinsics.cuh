/* Vertebra: what generated kernels may use of the machine. No toolkit headers; PTX inline. The
 * CUDA-on-CPU emulator replaces exactly this text by its own with the same names; everything behind
 * it is plain C++17.
 *
 * Kernels:   VTB_KERNEL(threads, name)(VTB_IN(float) x, VTB_OUT(float) y) { ... }
 *            blocks and grids have one dimension; every argument is a pointer
 * Pointers:  VTB_IN(T) read only, not aliased; VTB_OUT(T); VTB_PTR(T) for locals, to global or
 *            shared memory (const T: read only). Indexed by [], moved by + with an int or vtb_i64.
 *            Nothing else is done with a pointer but passing it to the functions below: the
 *            emulator checks each access.
 * Shared:    VTB_SHARED(T, name, at, count): `count` elements at byte `at` of the block's dynamic
 *            shared memory (16-byte aligned). Contents are undefined at first; two arrays may
 *            overlap only on purpose.
 * 16 bits:   elements vtb_bf16 and vtb_f16 in memory are floats where they are read, and rounded
 *            (nearest, ties to even) where they are assigned to
 * Threads:   vtb_tid() in the block, vtb_block(), vtb_lane() in the warp, vtb_warp() in the block.
 *            Shuffles, mma and ldmatrix are executed by whole warps, vtb_sync() by whole blocks; no
 *            early return before one.
 */
typedef unsigned char vtb_u8;
typedef unsigned int vtb_u32;
typedef long long vtb_i64;
typedef unsigned long long vtb_u64;

#define VTB_KERNEL(threads, name) extern "C" __global__ void __launch_bounds__(threads) name
/* For kernels that would spill: all the registers that one block can have. */
#define VTB_KERNEL_ROOMY(threads, name)                                                            \
  extern "C" __global__ void __launch_bounds__(threads, 1) name
/* For kernels that two blocks of a multiprocessor are to run. */
#define VTB_KERNEL_PAIRED(threads, name)                                                           \
  extern "C" __global__ void __launch_bounds__(threads, 2) name
/* For kernels that three are to. */
#define VTB_KERNEL_TRIPLE(threads, name)                                                           \
  extern "C" __global__ void __launch_bounds__(threads, 3) name
#define VTB_IN(T) const T *__restrict__
#define VTB_OUT(T) T *__restrict__
#define VTB_PTR(T) T *
#define VTB_FN static __device__ __forceinline__
#define VTB_UNROLL _Pragma("unroll")
#define VTB_NO_UNROLL _Pragma("unroll 1")
extern __shared__ __align__(1024) vtb_u8 vtb_dynamic[];
#define VTB_SHARED(T, name, at, count) T *const name = (T *)(vtb_dynamic + (at))

/* ---- conversions ----------------------------------------------------------------------------- */
VTB_FN vtb_u32 vtb_bits(float v) { return __float_as_uint(v); }
VTB_FN float vtb_float(vtb_u32 bits) { return __uint_as_float(bits); }
/* Nearest, ties to even: `lo` in the low half. */
VTB_FN vtb_u32 vtb_pack_bf16(float lo, float hi) {
  vtb_u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}
/* The same as fp16: too large is infinity, below 2^-14 are multiples of 2^-24. */
VTB_FN vtb_u32 vtb_pack_f16(float lo, float hi) {
  vtb_u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}
VTB_FN float vtb_from_f16(unsigned short bits) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(bits));
  return r;
}
/* v rounded to tf32 (nearest, ties away), as bits with 13 zeros at the end. */
VTB_FN vtb_u32 vtb_to_tf32(float v) {
  vtb_u32 r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
  return r;
}
VTB_FN int vtb_to_int(float v) { /* toward zero, saturating, NaN to 0 */
  int r;
  asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(r) : "f"(v));
  return r;
}
struct vtb_bf16 {
  unsigned short bits;
  __device__ __forceinline__ operator float() const { return vtb_float((vtb_u32)bits << 16); }
  __device__ __forceinline__ void operator=(float v) {
    bits = (unsigned short)vtb_pack_bf16(v, 0.0f);
  }
};
struct vtb_f16 {
  unsigned short bits;
  __device__ __forceinline__ operator float() const { return vtb_from_f16(bits); }
  __device__ __forceinline__ void operator=(float v) {
    bits = (unsigned short)vtb_pack_f16(v, 0.0f);
  }
};

/* ---- threads --------------------------------------------------------------------------------- */
VTB_FN int vtb_tid() { return (int)threadIdx.x; }
VTB_FN int vtb_block() { return (int)blockIdx.x; }
VTB_FN int vtb_lane() { return (int)threadIdx.x & 31; }
VTB_FN int vtb_warp() { return (int)threadIdx.x >> 5; }
VTB_FN void vtb_sync() { __syncthreads(); }
VTB_FN void vtb_sync_warp() { __syncwarp(); }
VTB_FN float vtb_shfl(float v, int lane) { return __shfl_sync(0xffffffffu, v, lane); }
VTB_FN float vtb_shfl_xor(float v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
/* lanes < by: own v */
VTB_FN float vtb_shfl_up(float v, int by) { return __shfl_up_sync(0xffffffffu, v, by); }
/* last lanes: own v */
VTB_FN float vtb_shfl_down(float v, int by) { return __shfl_down_sync(0xffffffffu, v, by); }

/* ---- vectors of four: 16-byte accesses (8 of 16 bits), to which p + at must be aligned ------- */
struct __align__(16) vtb_f4 {
  float x, y, z, w;
};
VTB_FN vtb_f4 vtb_load4(const float *p, vtb_i64 at) { return *(const vtb_f4 *)(p + at); }
VTB_FN void vtb_store4(float *p, vtb_i64 at, vtb_f4 v) { *(vtb_f4 *)(p + at) = v; }
struct __align__(8) vtb_pairs { /* four elements of 16 bits: 8-byte accesses */
  vtb_u32 low, high;
};
VTB_FN vtb_f4 vtb_load4(const vtb_bf16 *p, vtb_i64 at) {
  const vtb_pairs v = *(const vtb_pairs *)(p + at);
  vtb_f4 r = {vtb_float(v.low << 16), vtb_float(v.low & 0xffff0000u), vtb_float(v.high << 16),
              vtb_float(v.high & 0xffff0000u)};
  return r;
}
VTB_FN void vtb_store4(vtb_bf16 *p, vtb_i64 at, vtb_f4 v) {
  vtb_pairs r = {vtb_pack_bf16(v.x, v.y), vtb_pack_bf16(v.z, v.w)};
  *(vtb_pairs *)(p + at) = r;
}
VTB_FN vtb_f4 vtb_load4(const vtb_f16 *p, vtb_i64 at) {
  const vtb_pairs v = *(const vtb_pairs *)(p + at);
  vtb_f4 r = {vtb_from_f16((unsigned short)v.low), vtb_from_f16((unsigned short)(v.low >> 16)),
              vtb_from_f16((unsigned short)v.high), vtb_from_f16((unsigned short)(v.high >> 16))};
  return r;
}
VTB_FN void vtb_store4(vtb_f16 *p, vtb_i64 at, vtb_f4 v) {
  vtb_pairs r = {vtb_pack_f16(v.x, v.y), vtb_pack_f16(v.z, v.w)};
  *(vtb_pairs *)(p + at) = r;
}

/* vtb_store4 as one instruction also where the compiler would make two of a struct's members. */
VTB_FN void vtb_store4_whole(float *p, vtb_i64 at, vtb_f4 v) { vtb_store4(p, at, v); }
VTB_FN void vtb_store4_whole(vtb_bf16 *p, vtb_i64 at, vtb_f4 v) {
  *(vtb_u64 *)(p + at) = (vtb_u64)vtb_pack_bf16(v.z, v.w) << 32 | vtb_pack_bf16(v.x, v.y);
}
VTB_FN void vtb_store4_whole(vtb_f16 *p, vtb_i64 at, vtb_f4 v) {
  *(vtb_u64 *)(p + at) = (vtb_u64)vtb_pack_f16(v.z, v.w) << 32 | vtb_pack_f16(v.x, v.y);
}

/* p, as a number that the compiler does not take apart: offsets are added to it, not to what it was
 * made of. */
template <class T> VTB_FN T *vtb_settled(T *p) {
  asm("" : "+l"(p));
  return p;
}
/* n, which what is made of is made again each time instead of kept in registers. */
VTB_FN int vtb_settled(int n) {
  asm volatile("" : "+r"(n));
  return n;
}

/* Two neighbours: 8-byte accesses (4 of 16 bits). */
struct __align__(8) vtb_two {
  float x, y;
};
VTB_FN void vtb_store2(float *p, vtb_i64 at, float x, float y) {
  const vtb_two v = {x, y};
  *(vtb_two *)(p + at) = v;
}
VTB_FN void vtb_store2(vtb_bf16 *p, vtb_i64 at, float x, float y) {
  *(vtb_u32 *)(p + at) = vtb_pack_bf16(x, y);
}
VTB_FN void vtb_store2(vtb_f16 *p, vtb_i64 at, float x, float y) {
  *(vtb_u32 *)(p + at) = vtb_pack_f16(x, y);
}

/* ---- asynchronous copies to shared memory: 16 bytes, both sides 16-byte aligned; zeros if not
 * `valid` ---- */
VTB_FN vtb_u32 vtb_shared_address(const void *p) { return (vtb_u32)__cvta_generic_to_shared(p); }
VTB_FN void vtb_cp_async16(void *to, const void *from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(vtb_shared_address(to)),
               "l"(from), "r"(valid ? 16 : 0)
               : "memory");
}
VTB_FN void vtb_cp_async8(void *to, const void *from, bool valid) { /* 8 bytes, 8-byte aligned */
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(vtb_shared_address(to)),
               "l"(from), "r"(valid ? 8 : 0)
               : "memory");
}
VTB_FN void vtb_cp_async4(void *to, const void *from, bool valid) { /* 4 bytes, 4-byte aligned */
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(vtb_shared_address(to)),
               "l"(from), "r"(valid ? 4 : 0)
               : "memory");
}
VTB_FN void vtb_cp_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/* Until at most `left` of this thread's groups are on their way; others' data needs vtb_sync()
 * after it. */
template <int left> VTB_FN void vtb_cp_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}

/* ---- tensor cores -------------------------------------------------------------------------------
 * With g = lane / 4 and t = lane % 4, as in the PTX manual:
 *   D (16 x 8, f32)  d[0] (g, 2t)  d[1] (g, 2t+1)  d[2] (g+8, 2t)  d[3] (g+8, 2t+1)
 *   tf32 A (16 x 8)  a[0] (g, t)  a[1] (g+8, t)  a[2] (g, t+4)  a[3] (g+8, t+4)
 *        B (8 x 8)   b[0] (t, g)  b[1] (t+4, g)
 *   bf16 A (16 x 16) a[0] (g, 2t..2t+1)  a[1] (g+8, 2t..)  a[2] (g, 2t+8..)  a[3] (g+8, 2t+8..)
 *        B (16 x 8)  b[0] (2t..2t+1, g)  b[1] (2t+8..2t+9, g); the lower column or row in the low
 *                    half; fp16 likewise
 * Of half the depth A is the first two (low, high), B the first. d += a b. */
VTB_FN void vtb_mma_tf32_m16n8k8(float (&d)[4], const vtb_u32 (&a)[4], const vtb_u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
VTB_FN void vtb_mma_bf16_m16n8k16(float (&d)[4], const vtb_u32 (&a)[4], const vtb_u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
VTB_FN void vtb_mma_bf16_m16n8k8(float (&d)[4], vtb_u32 low, vtb_u32 high, vtb_u32 b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(low), "r"(high), "r"(b));
}
VTB_FN void vtb_mma_f16_m16n8k8(float (&d)[4], vtb_u32 low, vtb_u32 high, vtb_u32 b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(low), "r"(high), "r"(b));
}
VTB_FN void vtb_mma_f16_m16n8k16(float (&d)[4], const vtb_u32 (&a)[4], const vtb_u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/* Pairs of 16 bits multiplied, nearest, ties to even. */
VTB_FN vtb_u32 vtb_multiply_bf16(vtb_u32 x, vtb_u32 y) {
  vtb_u32 r;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(0x80008000u));
  return r;
}
VTB_FN vtb_u32 vtb_fma_bf16(vtb_u32 x, vtb_u32 y, vtb_u32 z) { /* x y + z, rounded once */
  vtb_u32 r;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(z));
  return r;
}
VTB_FN vtb_u32 vtb_multiply_f16(vtb_u32 x, vtb_u32 y) {
  vtb_u32 r;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y));
  return r;
}
/* Four 8 x 8 matrices of 16-bit elements from shared memory: lane 8i + r gives the 16-byte aligned
 * address of row r of matrix i; lane g*4+t receives in d[i] elements 2t, 2t+1 of row g of matrix i.
 * _trans: of the transposed matrices. */
VTB_FN void vtb_ldmatrix_x4(vtb_u32 (&d)[4], const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(vtb_shared_address(row))
               : "memory");
}
VTB_FN void vtb_ldmatrix_x4_trans(vtb_u32 (&d)[4], const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(vtb_shared_address(row))
               : "memory");
}

/* ---- mathematics: fp32, a few ulp; the _fast forms use the special function units (relative error
 * near 1e-6) ---- */
VTB_FN float vtb_exp(float x) { return expf(x); }
VTB_FN float vtb_log(float x) { return logf(x); }
VTB_FN float vtb_log1p(float x) { return log1pf(x); }
VTB_FN float vtb_sqrt(float x) { return sqrtf(x); }
VTB_FN double vtb_sqrt64(double x) { return sqrt(x); }
VTB_FN double vtb_pow64(double x, double y) { return pow(x, y); }
VTB_FN double vtb_exp64(double x) { return exp(x); }
VTB_FN double vtb_log64(double x) { return log(x); }
VTB_FN double vtb_rint64(double x) { return rint(x); }
VTB_FN float vtb_sin(float x) { return sinf(x); }
VTB_FN float vtb_cos(float x) { return cosf(x); }
VTB_FN float vtb_tanh(float x) { return tanhf(x); }
VTB_FN float vtb_erf(float x) { return erff(x); }
VTB_FN float vtb_floor(float x) { return floorf(x); }
VTB_FN float vtb_round(float x) { return rintf(x); }
VTB_FN float vtb_expm1(float x) { return expm1f(x); }
VTB_FN float vtb_atan2(float x, float y) { return atan2f(x, y); }
VTB_FN float vtb_abs(float x) { return fabsf(x); }
VTB_FN float vtb_fma(float x, float y, float z) { return fmaf(x, y, z); }
/* NaN wins, as in the interpreter. */
VTB_FN float vtb_max(float x, float y) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
  return r;
}
VTB_FN float vtb_min(float x, float y) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
  return r;
}
VTB_FN float vtb_exp2_fast(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
VTB_FN float vtb_rcp_fast(float x) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
