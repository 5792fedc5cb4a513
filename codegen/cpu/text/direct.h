/* Scans whose decay is a vector along one axis of the state, inside a sub-block of at most SUB
 * tokens.
 *
 * Classes key and value are one thing seen from two sides. Call x the axis the decay has, z the
 * other one; rows a and b run along x, rows c and e along z:
 *                 x   z   a    b   c    e
 *   class key     K   V   q    k   dy   v
 *   class value   V   K   dy   v   q    k
 * With W[t,j] = d_{j+1} o ... o d_t, a vector along x, all of forward and gradient is made of
 *   M[t,j] = sum over x of a_t W[t,j] b_j
 *   N[t,j] = c_t . e_j
 *   sum over j <= t of N[t,j] W[t,j] o b_j
 * A sub-block forms the products W step by step, so that no factor exceeds 1. Everything outside it
 * is reached through its first or last token with the factors pre_t = d_1 o ... o d_t and suf_j =
 * d_{j+1} o ... o d_n, at most 1 as well: there is no exponential and no quotient of decays, and a
 * decay of 0 is exact.
 *
 * Rows lie in scratch memory, `ld` floats apart, padded to whole vectors; row-major [SUB, ld].
 * Scores sum over x: their lanes are tokens j, and W o b for all j of a group advances by one
 * multiplication a token. Sums and gradients keep x: their lanes are x. Tokens go in groups, a
 * triangle of groups at a time, so that a group's values stay in registers.
 */
#include "codegen/cpu/text/chunks.h"

hole int ALONG_KEY;

enum {
  SUB = 16, /* a multiple of every vector width and of HELD */
  HELD = 8  /* tokens in registers where lanes run along x */
};

/* The decays of a sub-block. */
typedef struct decays {
  float *d, *pre, *suf, *whole; /* rows; suf NULL: not wanted; whole [ld]: the product of all */
  long ld, n, n_vectors;        /* of all rows along x; tokens; vectors of a row */
  /* 0: a token meets itself and those before it. Else delta's order: `before` rows are one token
   * (a power of two up to the vector's lanes), whose last one has its decay and the others 1; a
   * row meets those of tokens before its own, W has the decays between the two alone, and pre_t
   * those before t. */
  int before;
} decays;

/* pre, suf, whole from d. Decays nearer to 0 than `floor` (either sign) become `floor`; rows of d
 * from n to SUB become 1, as the others rely on. */
static inline void direct_factors(const decays *g, float floor) {
  for (long x = 0; x < g->n_vectors * W; x += W) {
    vf product = 1, after = 1;
    for (long t = 0; t < g->n; t++) {
      const long at = t * g->ld + x;
      vf d = load(g->d + at);
      if (floor > 0) {
        d = __builtin_elementwise_abs(d) < (vf)floor ? (vf)floor : d;
        store(g->d + at, d);
      }
      if (g->before) store(g->pre + at, product);
      product *= d;
      if (!g->before) store(g->pre + at, product);
    }
    store(g->whole + x, product);
    for (long t = g->n - 1; g->suf && t >= 0; t--) {
      store(g->suf + t * g->ld + x, after);
      after *= load(g->d + t * g->ld + x);
    }
    for (long t = g->n; t < SUB; t++) store(g->d + t * g->ld + x, (vf)1);
  }
}

/* ---- lanes are tokens ------------------------------------------------------------------------ */

typedef struct scores {
  const decays *g;
  const float *a;
  float *bt, *out;
  long X, ld_bt, ld_out;
} scores;

/* The columns' factors as row t of a panel meets them; *b: as it leaves them to the next row. */
static inline vf advance_columns(const scores *s, vf *b, vf d, _Bool triangle, int t) {
  const int before = s->g->before;
  if (!before) {
    if (!triangle || t > 0) *b *= triangle ? vtb_part(d, t, (vf)1) : d;
    return *b;
  }
  const vf seen = *b;
  if (t % before == before - 1) *b *= triangle ? vtb_part(d, t / before * before, (vf)1) : d;
  return seen;
}

/* Rows of group `i` against the columns of group `j`: those of one group form a triangle. */
static inline void score_panel(const scores *s, long i, long j, _Bool triangle) {
  const int before = s->g->before;
  vf sum[W];
  UNROLL for (int t = 0; t < W; t++) sum[t] = 0;
  for (long x = 0; x < s->X; x++) {
    float *at = s->bt + x * s->ld_bt + j * W;
    vf b = load(at);
    UNROLL for (int t = 0; t < W; t++) {
      const long own = (i * W + t) * s->g->ld + x;
      const vf seen = advance_columns(s, &b, (vf)s->g->d[own], triangle, t);
      sum[t] = fma((vf)s->a[own], seen, sum[t]);
    }
    store(at, b);
  }
  UNROLL for (int t = 0; t < W; t++) {
    if (triangle) sum[t] = vtb_part(sum[t], before ? t / before * before : t + 1, (vf)0);
    store(s->out + (i * W + t) * s->ld_out + j * W, sum[t]);
  }
}

/* M[t, j] to out [SUB, ld_out] for t < n and j < n rounded up to whole vectors, 0 for j that t does
 * not meet. bt: b transposed, [X, ld_bt], becomes that of suf o b. */
static inline void direct_scores(const scores *s) {
  const long n_groups = quotient(s->g->n + W - 1, W);
  for (long j = 0; j < n_groups; j++) {
    score_panel(s, j, j, 1);
    if (W == SUB) continue;
    for (long t = j * W; t < (j + 1) * W; t++)
      for (long i = j + 1; i < n_groups; i++) store(s->out + t * s->ld_out + i * W, (vf)0);
    for (long i = j + 1; i < n_groups; i++) score_panel(s, i, j, 0);
  }
}

/* ---- lanes run along x ----------------------------------------------------------------------- */

/* Adds the tokens of group j, held in b, to the rows of group i. */
static inline void sum_panel(const decays *g, const float *N, long ld_N, float *y, long x, long i,
                             long j, _Bool triangle, vf *b) {
  UNROLL for (int t = 0; t < HELD; t++) {
    const long own = i * HELD + t, at = own * g->ld + x;
    const vf d = load(g->d + at);
    vf sum = load(y + at);
    UNROLL for (int s = 0; s < HELD; s++) if (!triangle || s < t) b[s] *= d;
    UNROLL for (int s = 0; s < HELD; s++) if (!triangle || s <= t) sum =
        fma((vf)N[own * ld_N + j * HELD + s], b[s], sum);
    store(y + at, sum);
  }
}

/* y_t += sum over j <= t of N[t, j] W[t, j] o b_j for t < n (later rows of y are clobbered); b
 * becomes suf o b. */
static inline void direct_sums(const decays *g, const float *N, long ld_N, float *b, float *y) {
  const long n_groups = quotient(g->n + HELD - 1, HELD);
  for (long x = 0; x < g->n_vectors * W; x += W)
    for (long j = 0; j < n_groups; j++) {
      float *at = b + j * HELD * g->ld + x;
      vf held[HELD];
      UNROLL for (int s = 0; s < HELD; s++) held[s] = load(at + s * g->ld);
      sum_panel(g, N, ld_N, y, x, j, j, 1, held);
      for (long i = j + 1; i < n_groups; i++) sum_panel(g, N, ld_N, y, x, i, j, 0, held);
      UNROLL for (int s = 0; s < HELD; s++) store(at + s * g->ld, held[s]);
    }
}

typedef struct grads {
  const decays *g;
  const float *N, *a, *b;
  float *da, *db, *inner;
  long ld_N;
} grads;

/* Row t of the triangle from its diagonal leftwards, W growing by d_j from column j to column j-1:
 * what row t adds to da_t and to every db_j. inner_t needs db_j summed over the rows from t on,
 * which is what db_j holds then. */
static inline void grad_row(const grads *s, long t, long x, int vectors) {
  const long ld = s->g->ld, own = t * ld + x;
  vf a[2], w[2], da[2], inner[2], n = (vf)s->N[t * s->ld_N + t];
  UNROLL for (int i = 0; i < vectors; i++) {
    const long at = own + i * W;
    a[i] = load(s->a + at);
    w[i] = load(s->g->d + at);
    da[i] = n * load(s->b + at);
    inner[i] = 0;
    store(s->db + at, fma(n, a[i], load(s->db + at)));
  }
  for (long j = t - 1; j >= 0; j--) {
    n = (vf)s->N[t * s->ld_N + j];
    UNROLL for (int i = 0; i < vectors; i++) {
      const long at = j * ld + x + i * W;
      const vf b = load(s->b + at), m = w[i] * n, db = fma(m, a[i], load(s->db + at));
      store(s->db + at, db);
      w[i] *= load(s->g->d + at);
      da[i] = fma(m, b, da[i]);
      inner[i] = fma(b, db, inner[i]);
    }
  }
  UNROLL for (int i = 0; i < vectors; i++) {
    store(s->da + own + i * W, da[i]);
    store(s->inner + own + i * W, inner[i]);
  }
}

static inline void grad_vectors(const grads *s, long x, int vectors) {
  for (long t = 0; t < s->g->n; t++)
    UNROLL for (int i = 0; i < vectors; i++) store(s->db + t * s->g->ld + x + i * W, (vf)0);
  for (long t = s->g->n - 1; t >= 0; t--) grad_row(s, t, x, vectors);
}

/* da_t = sum over j <= t of N[t,j] W[t,j] o b_j, db_j = sum over t >= j of N[t,j] W[t,j] o a_t, and
 * inner_r, what the pairs t >= r > j contribute to d_r dd_r: sum of N[t,j] a_t o W[t,j] o b_j. */
static inline void direct_grads(const grads *s) {
  const long end = s->g->n_vectors * W;
  long x = 0;
  for (; x < end + 1 - 2 * W; x += 2 * W) grad_vectors(s, x, 2);
  for (; x < end; x += W) grad_vectors(s, x, 1);
}
