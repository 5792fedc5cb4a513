/* What texts of kernels for processors are written in. A text is C for clang, compiled to bitcode
 * when the tree is built, once a width W of vectors; when a kernel is emitted its holes are filled
 * and it is linked into the program, where LLVM folds it for the machine (codegen/cpu/text.h).
 *
 *   hole long N;           a number of the kernel; what it decides is decided when it is emitted
 *   TASK(name, n, grain, scratch) { ... }
 *                          one task, launched over 0 <= index < n; tasks of a text run in the order
 *                          in which they stand, those of n = 0 left out. `t` are operands, then
 *                          results; `scratch` is memory of the thread, of so many bytes, `temp`
 *                          what the tasks of a kernel share
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

enum { MOST_TENSORS = 64, MOST_AXES = 8 };

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

typedef float v16 __attribute__((ext_vector_type(16))); /* at any W */
typedef float v16_at __attribute__((ext_vector_type(16), aligned(4)));

/* ---- filled for every text that names them --------------------------------------------------- */

hole long STRIDE[MOST_TENSORS][MOST_AXES]; /* of operands, then results; 0 along broadcast axes */
#if VTB_W == 4
hole int REGISTERS; /* for vectors: 16 of SSE, 32 of NEON */
#else
enum { REGISTERS = VTB_W == 16 ? 32 : 16 };
#endif
long place(long step); /* storage position of a step along the kernel's path */
vf vtb_load_part(const float *from, long n); /* the first n lanes, zeros in the others */
void vtb_store_part(float *to, vf x, long n);
v16 vtb_load_part_16(const float *from, long n);
void vtb_store_part_16(float *to, v16 x, long n);
v16 vtb_exp2_16(v16 x);
vf vtb_part(vf x, long n, vf others); /* the first n lanes of x */
vf vtb_exp(vf x);
float vtb_exp_1(float x), vtb_log_1(float x);
float vtb_sum(vf x), vtb_max(vf x); /* of all lanes, halves first */

/* ---- functions that a program has once (small.c) --------------------------------------------- */

/* out[m, vectors * W] = beta from + a[m, k] b[k, ...], summed over k in order; a's strides are
 * free; `from` is not read where beta is 0; n_ahead floats that are needed next are asked of memory
 * meanwhile. And of n columns, whose rows of b, from and out need no padding. */
void vtb_product_from(const float *a, long a_row, long a_col, const float *b, long ldb, float beta,
                      const float *from, long ld_from, float *out, long ldc, long m, long vectors,
                      long k, const float *ahead, long n_ahead);
void vtb_product_columns(const float *a, long a_row, long a_col, const float *b, long ldb,
                         float beta, const float *from, long ld_from, float *out, long ldc, long m,
                         long n, long k);
static inline void vtb_product(const float *a, long a_row, long a_col, const float *b, long ldb,
                               float beta, float *out, long ldc, long m, long vectors, long k) {
  vtb_product_from(a, a_row, a_col, b, ldb, beta, out, ldc, out, ldc, m, vectors, k, b, 0);
}
/* w[from + i] += sum over j < from + i of a[i, j] w[j] for i < m, in order: rows `from` on of
 * (I - A)^-1 w with A strictly lower triangular, of which a holds these rows; what a has at and
 * right of the diagonal is not read. */
void vtb_solve(const float *a, long lda, float *w, long ldw, long from, long m, long vectors);
/* out[j * ld_out + i] = x[i * ld + j], j < cols, i < rows rounded up to whole vectors, beyond the
 * last row that row again. */
void vtb_transpose(const float *x, long ld, long rows, long cols, float *out, long ld_out);

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
/* The first `left` lanes; 0: all. */
static inline vf load_some(const float *from, long left) {
  return left ? vtb_load_part(from, left) : load(from);
}
static inline void store_some(float *to, vf x, long left) {
  if (left)
    vtb_store_part(to, x, left);
  else
    store(to, x);
}

static inline v16 load_16(const float *from) { return *(const v16_at *)from; }
static inline void store_16(float *to, v16 x) { *(v16_at *)to = x; }

/* Of vectors of any width. max: y where either is NaN. */
#define fma(x, y, z) __builtin_elementwise_fma((x), (y), (z))
#define max(x, y)                                                                                  \
  ({                                                                                               \
    __auto_type x_ = (x), y_ = (y);                                                                \
    x_ > y_ ? x_ : y_;                                                                             \
  })

#define OWN(i, d) (i)
#define LANES_4(LANE, d) LANE(0, d), LANE(1, d), LANE(2, d), LANE(3, d)
#define LANES_8(LANE, d) LANES_4(LANE, d), LANE(4, d), LANE(5, d), LANE(6, d), LANE(7, d)
#define LANES_16(LANE, d)                                                                          \
  LANES_8(LANE, d), LANE(8, d), LANE(9, d), LANE(10, d), LANE(11, d), LANE(12, d), LANE(13, d),    \
      LANE(14, d), LANE(15, d)
#define LANES_OF(w) LANES_##w
#define LANES_OF_(w) LANES_OF(w)
#define STAYS(i, d) ((i) & (d) ? W + (i) - (d) : (i))
#define CROSSES(i, d) ((i) & (d) ? W + (i) : (i) + (d))

#if VTB_W > 1
/* The lanes of x and y that stay and those that cross when blocks of d lanes off the diagonal are
 * exchanged. */
#define STAYING(x, y, d) __builtin_shufflevector(x, y, LANES_OF_(VTB_W)(STAYS, d))
#define CROSSING(x, y, d) __builtin_shufflevector(x, y, LANES_OF_(VTB_W)(CROSSES, d))
#define ADD_ROWS(d)                                                                                \
  UNROLL for (int i = 0; i < W; i += 2 * (d)) r[i] =                                               \
      STAYING(r[i], r[i + (d)], d) + CROSSING(r[i], r[i + (d)], d)
/* Lane i of the result is the sum of the lanes of r[i]; the W rows are overwritten. */
static inline vf sum_rows(vf *r) {
  ADD_ROWS(1);
  ADD_ROWS(2);
#if VTB_W > 4
  ADD_ROWS(4);
#endif
#if VTB_W > 8
  ADD_ROWS(8);
#endif
  return r[0];
}
#endif

/* ---- numbers --------------------------------------------------------------------------------- */

static inline long least(long x, long y) { return x < y ? x : y; }
/* Of numbers that are not negative. */
static inline long quotient(long x, long by) {
  return (long)((unsigned long)x / (unsigned long)by);
}
static inline long remainder(long x, long by) {
  return (long)((unsigned long)x % (unsigned long)by);
}
static inline long pieces(long x, long of) { return quotient(x + of - 1, of); }
static inline long round_up(long x, long to) { return pieces(x, to) * to; }
/* Row length for n floats: whole vectors, and no multiple of 256 bytes, whose lines would share few
 * cache sets. */
static inline long row_length(long n) {
  const long ld = round_up(n, W);
  return ld >= 64 && ld % 64 == 0 ? ld + 16 : ld;
}

/* Arrays of scratch or temporary memory, one behind the other: `lay_out(memory *)` takes them, in
 * the task from where they are, for BYTES_OF from nowhere. */
typedef struct memory {
  char *base;
  long bytes;
} memory;
static inline float *take(memory *m, long floats) {
  float *at = (float *)(m->base + m->bytes);
  m->bytes += round_up(floats * (long)sizeof(float), 64);
  return at;
}
#define BYTES_OF(lay_out, ...)                                                                     \
  ({                                                                                               \
    memory m_ = {0};                                                                               \
    lay_out(&m_ __VA_OPT__(, ) __VA_ARGS__);                                                       \
    m_.bytes;                                                                                      \
  })

#endif
