/* A kernel of products for one set of instructions: blas_kernels.c includes this once for each, and
 * says KERNEL, its name; TARGET, the functions' attribute; WIDTH, the floats of a vector; PANEL;
 * and VECTORS x ROWS, the largest tile.
 *
 *   C[i + j ldc] += alpha * sum over l of a[l, i] b[l, j]        i < m, j < n, l < k
 *
 * Packed, PANEL elements of A lie next to one another for each l (what is left of m in panels of 8,
 * 4, 2 and 1), and 4 of B (then 2, and 1). Every element is one sum in the order of l. */
#define INSIDE TARGET static inline __attribute__((always_inline))
#define TYPE(width) VTB__JOINED(KERNEL, _vector, width)
#define TILE(width) VTB__JOINED(KERNEL, _tile, width)
#define LOAD(width) VTB__JOINED(KERNEL, _load, width)
#define COLUMNS VTB__JOINED(KERNEL, _columns, )

/* vectors x rows vectors of C, which stay in registers while l runs; a panel is `step` wide. */
#define DEFINE_TILE(width)                                                                         \
  typedef float TYPE(width) __attribute__((vector_size(4 * width)));                               \
  INSIDE TYPE(width) LOAD(width)(const float *at) {                                                \
    TYPE(width) x;                                                                                 \
    memcpy(&x, at, sizeof x);                                                                      \
    return x;                                                                                      \
  }                                                                                                \
  INSIDE void TILE(width)(vtb__tile t, int vectors, int rows, int step) {                          \
    TYPE(width) sum[VECTORS][ROWS] = {0}, x[VECTORS];                                              \
    int of_b = rows < 4 ? rows : 4;                                                                \
    for (long l = 0; l < t.k; l++) {                                                               \
      UNROLLED for (int v = 0; v < vectors; v++) x[v] =                                            \
          LOAD(width)(t.a + v * width / step * step * t.k + v * width % step + l * step);          \
      UNROLLED for (int r = 0; r < rows; r++) {                                                    \
        float y = t.b[r / 4 * 4 * t.k + l * of_b + r % 4];                                         \
        UNROLLED for (int v = 0; v < vectors; v++) sum[v][r] += x[v] * y;                          \
      }                                                                                            \
    }                                                                                              \
    UNROLLED for (int r = 0; r < rows; r++) {                                                      \
      UNROLLED for (int v = 0; v < vectors; v++) {                                                 \
        float *at = t.c + v * width + r * t.ldc;                                                   \
        TYPE(width) out = LOAD(width)(at);                                                         \
        out += sum[v][r] * t.alpha;                                                                \
        memcpy(at, &out, sizeof out);                                                              \
      }                                                                                            \
    }                                                                                              \
  }
#if WIDTH >= 16
DEFINE_TILE(16)
#endif
#if WIDTH >= 8
DEFINE_TILE(8)
#endif
DEFINE_TILE(4)
DEFINE_TILE(2)
DEFINE_TILE(1)

/* m elements of `rows` rows of C. */
INSIDE void COLUMNS(vtb__tile t, long m, int rows) {
  enum { MOST = VECTORS * WIDTH, LESS = MOST / 2 / PANEL * PANEL };
  for (; m >= MOST; m -= MOST, t = further(t, MOST)) TILE(WIDTH)(t, VECTORS, rows, PANEL);
  for (; LESS > PANEL && m >= LESS; m -= LESS, t = further(t, LESS))
    TILE(WIDTH)(t, LESS / WIDTH, rows, PANEL);
  for (; m >= PANEL; m -= PANEL, t = further(t, PANEL)) TILE(WIDTH)(t, PANEL / WIDTH, rows, PANEL);
#if PANEL > 8
  if (m & 8) TILE(8)(t, 1, rows, 8), t = further(t, 8);
#endif
  if (m & 4) TILE(4)(t, 1, rows, 4), t = further(t, 4);
  if (m & 2) TILE(2)(t, 1, rows, 2), t = further(t, 2);
  if (m & 1) TILE(1)(t, 1, rows, 1);
}

int KERNEL(long m, long n, long k, float alpha, const float *a, const float *b, float *c, long ldc);
TARGET int KERNEL(long m, long n, long k, float alpha, const float *a, const float *b, float *c,
                  long ldc) {
  vtb__tile t = {a, b, c, k, ldc, alpha};
  for (; n >= ROWS; n -= ROWS, t = below(t, ROWS)) COLUMNS(t, m, ROWS);
#if ROWS > 4
  if (n & 4) COLUMNS(t, m, 4), t = below(t, 4);
#endif
  if (n & 2) COLUMNS(t, m, 2), t = below(t, 2);
  if (n & 1) COLUMNS(t, m, 1);
  return 0;
}

#undef INSIDE
#undef TYPE
#undef TILE
#undef LOAD
#undef COLUMNS
#undef DEFINE_TILE
#undef KERNEL
#undef TARGET
#undef WIDTH
#undef PANEL
#undef VECTORS
#undef ROWS
