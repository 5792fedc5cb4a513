/* What texts of kernels for processors are written in. A text is C for clang, compiled to bitcode
 * when the tree is built, once a width W of vectors; when a kernel is emitted its holes are filled
 * and it is linked into the program, where LLVM folds it for the machine (codegen/cpu/text.h).
 *
 *   hole long N;           a number of the kernel; what it decides is decided when it is emitted
 *   TASK(name, n, grain, scratch) { ... }
 *                          one task, launched over 0 <= index < n; tasks of a text run in the order
 *                          in which they stand. `t` are operands, then results; `scratch` is memory
 *                          of the thread, of so many bytes, `temp` what tasks of a kernel share
 *   UNROLL for (...)       a loop whose counter numbers registers: it has no more than a few rounds
 *
 * Vectors are plain values: + - * / compare, `x > y ? x : y` takes lane by lane. Nothing is
 * contracted or reordered, so that a text says which bits come out. Sizes and strides count
 * elements, scratch memory bytes.
 */
#ifndef VTB_CPU_TEXT_KERNEL_H
#define VTB_CPU_TEXT_KERNEL_H

#define hole extern const
#define UNROLL _Pragma("clang loop unroll(full)")
#define INFINITY __builtin_inff()

enum { MOST_TENSORS = 24, MOST_AXES = 8 };

#if VTB_W == 1
typedef float vf, vf_at;
typedef double vd;
#define WIDENED(x) ((double)(x))
#define NARROWED(x) ((float)(x))
#else
typedef float vf __attribute__((ext_vector_type(VTB_W)));
typedef float vf_at __attribute__((ext_vector_type(VTB_W), aligned(4)));
typedef double vd __attribute__((ext_vector_type(VTB_W)));
#define WIDENED(x) __builtin_convertvector((x), vd)
#define NARROWED(x) __builtin_convertvector((x), vf)
#endif
enum { W = VTB_W };

#define TASK(name, n, grain, scratch_bytes)                                                        \
  long n_##name(void) { return (n); }                                                              \
  long grain_##name(void) { return (grain); }                                                      \
  long scratch_##name(void) { return (scratch_bytes); }                                            \
  void task_##name(float *const *t, long index, char *scratch, char *temp)

/* ---- filled for every text that names them --------------------------------------------------- */

hole long STRIDE[MOST_TENSORS][MOST_AXES]; /* of operands, then results; 0 along broadcast axes */
long place(long step);                     /* storage position of a step along the kernel's path */
vf vtb_load_part(const float *from, long n); /* the first n lanes, zeros in the others */
void vtb_store_part(float *to, vf x, long n);

/* ---- vectors --------------------------------------------------------------------------------- */

static inline vf load(const float *from) { return *(const vf_at *)from; }
static inline void store(float *to, vf x) { *(vf_at *)to = x; }
static inline vf load_part(const float *from, long n) {
  return W == 1 ? load(from) : vtb_load_part(from, n);
}
static inline void store_part(float *to, vf x, long n) {
  if (W == 1)
    store(to, x);
  else
    vtb_store_part(to, x, n);
}

static inline vf splat(float x) { return (vf)(x); }
static inline vf fma(vf x, vf y, vf z) { return __builtin_elementwise_fma(x, y, z); }
static inline vf max(vf x, vf y) { return x > y ? x : y; } /* y where either is NaN */

static inline long least(long x, long y) { return x < y ? x : y; }
/* Of numbers that are not negative. */
static inline long quotient(long x, long by) {
  return (long)((unsigned long)x / (unsigned long)by);
}
static inline long remainder(long x, long by) {
  return (long)((unsigned long)x % (unsigned long)by);
}
static inline long round_up(long x, long to) { return quotient(x + to - 1, to) * to; }

#endif
