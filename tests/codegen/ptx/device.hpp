// What CUDA C offers by itself, for the text of intrinsics.cuh and hopper.cuh compiled for the
// machine of this folder.
#define __device__
#define __global__
#define __shared__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

extern "C" __attribute__((visibility("default"))) const ptx_host *ptx_the_host;
const ptx_host *ptx_the_host;

struct ptx_index {
  int x;
};
static inline ptx_index ptx_thread() { return {ptx_the_host->thread()}; }
static inline ptx_index ptx_block() { return {ptx_the_host->block()}; }
#define threadIdx ptx_thread()
#define blockIdx ptx_block()

static inline unsigned __float_as_uint(float v) {
  unsigned r;
  __builtin_memcpy(&r, &v, 4);
  return r;
}
static inline float __uint_as_float(unsigned v) {
  float r;
  __builtin_memcpy(&r, &v, 4);
  return r;
}
static inline unsigned long __cvta_generic_to_shared(const void *p) {
  return ptx_the_host->to_shared(p);
}
static inline void __syncthreads() { ptx_the_host->sync(1); }
static inline void __syncwarp() { ptx_the_host->sync(0); }
static inline float ptx_shuffle(int kind, float v, int by) {
  return __uint_as_float(ptx_the_host->shuffle(kind, __float_as_uint(v), by));
}
static inline float __shfl_sync(unsigned, float v, int from) {
  return ptx_shuffle(PTX_SHUFFLE, v, from);
}
static inline float __shfl_xor_sync(unsigned, float v, int mask) {
  return ptx_shuffle(PTX_SHUFFLE_XOR, v, mask);
}
static inline float __shfl_up_sync(unsigned, float v, int by) {
  return ptx_shuffle(PTX_SHUFFLE_UP, v, by);
}
static inline float __shfl_down_sync(unsigned, float v, int by) {
  return ptx_shuffle(PTX_SHUFFLE_DOWN, v, by);
}

#define expf __builtin_expf
#define logf __builtin_logf
#define log1pf __builtin_log1pf
#define sqrtf __builtin_sqrtf
#define sqrt __builtin_sqrt
#define pow __builtin_pow
#define exp __builtin_exp
#define log __builtin_log
#define rint __builtin_rint
#define sinf __builtin_sinf
#define cosf __builtin_cosf
#define tanhf __builtin_tanhf
#define erff __builtin_erff
#define floorf __builtin_floorf
#define rintf __builtin_rintf
#define expm1f __builtin_expm1f
#define atan2f __builtin_atan2f
#define fabsf __builtin_fabsf
#define fmaf __builtin_fmaf

// Operands of asm statements, of which text.c makes calls.
template <class T> struct ptx_kind_of {
  static const char value = 'i';
};
template <class T> struct ptx_kind_of<T *> {
  static const char value = 'p';
};
template <> struct ptx_kind_of<float> {
  static const char value = 'f';
};
template <class T> static inline ptx_operand ptx_out(T &v) {
  return {(void *)&v, 0, (int)sizeof v, ptx_kind_of<T>::value};
}
template <class T> static inline ptx_operand ptx_in(T v) {
  ptx_operand o = {0, 0, (int)sizeof v, ptx_kind_of<T>::value};
  __builtin_memcpy(&o.bits, &v, sizeof v);
  return o;
}
