/* dq, dk, dv and, if asked for, the adjoint of the bias.
 *
 * An index of the first task is one batch entry and one head of keys, with the query heads that
 * read it one after the other. Blocks of queries meet tiles of keys; of the tile of scores come the
 * probabilities P = exp(s - lse) and dS = P o (dY V^T - delta), delta = dy . y - dlse, and of these
 *   dV += P^T dY        dK += scale dS^T Q        dQ += scale dS K
 * with dK and dV of the whole head in scratch memory. The bias is shared by many heads and batch
 * entries: a second task makes its adjoint, an index being a block of rows of the bias, by the same
 * two products once more.
 */
#include "codegen/cpu/text/attention.h"

hole long Y, LSE, DY, DLSE, DQ, DK, DV, DBIAS; /* DLSE, DBIAS: -1 where absent */

typedef struct backward {
  float *kt, *vt;                    /* of a head, transposed */
  float *q, *dy, *s, *ds;            /* of a block */
  float *lse, *delta, *row, *values; /* of a block; one row; a tile's rows of values or keys */
  float *k, *dk, *dv, *dq;           /* of a head; of a block: where inputs' adjoints are made */
} backward;

static inline backward lay_out(memory *m, int whole) {
  backward w = {.kt = take(m, TILES * LD_S * WIDTH), .vt = take(m, TILES * LD_S * VALUE_WIDTH)};
  w.q = take(m, BLOCK * LD_K), w.dy = take(m, BLOCK * LD_V);
  w.s = take(m, BLOCK * LD_S), w.ds = take(m, BLOCK * LD_S);
  w.lse = take(m, round_up(BLOCK, W)), w.delta = take(m, round_up(BLOCK, W));
  w.row = take(m, LD_V), w.values = take(m, TILE * (LD_V > LD_K ? LD_V : LD_K));
  if (!whole) return w;
  w.k = take(m, KEYS * LD_K), w.dk = take(m, KEYS * LD_K);
  w.dv = take(m, KEYS * LD_V), w.dq = take(m, BLOCK * LD_K);
  return w;
}

/* In the order of the products, so that a query that sees one key (P = 1, y = v) has dS = 0
 * exactly. */
static inline float dot(const float *x, const float *y, long n) {
  float sum = 0;
  for (long i = 0; i < n; i++) sum = fma(x[i], y[i], sum);
  return sum;
}

static inline void transpose_head(attention *g, const backward *w, long kv) {
  const int packed = WIDTH % W || TURN[KEY][TURNED];
  transpose(g, K, kv, WIDTH, KEY, packed ? w->values : 0, LD_K, w->kt);
  transpose(g, V, kv, VALUE_WIDTH, NOT_TURNED, VALUE_WIDTH % W ? w->values : 0, LD_V, w->vt);
}

/* Queries, their adjoints, lse and delta of the block. */
static inline void pack_block(const attention *g, const backward *w) {
  pack(g, Q, g->head, WIDTH, g->i0, g->rows, w->q, LD_K);
  turn(g, QUERY, g->head, g->i0, g->rows, w->q, LD_K, 0);
  pack(g, DY, g->head, VALUE_WIDTH, g->i0, g->rows, w->dy, LD_V);
  for (long r = 0; r < g->rows; r++) {
    const long i = g->i0 + r;
    pack(g, Y, g->head, VALUE_WIDTH, i, 1, w->row, LD_V);
    const float sum = dot(w->dy + r * LD_V, w->row, VALUE_WIDTH);
    w->delta[r] = DLSE >= 0 ? sum - *row(g, DLSE, i, g->head) : sum;
    w->lse[r] = *row(g, LSE, i, g->head);
  }
}

/* s = P and ds = dS for the tile; or ds added to rows of the bias's adjoint. */
static inline void probabilities(const attention *g, const backward *w, long tile, int to_bias) {
  vtb_product(w->q, LD_K, 1, w->kt + tile * WIDTH * LD_S, LD_S, 0, w->s, LD_S, g->rows, g->vectors,
              WIDTH);
  vtb_product(w->dy, LD_V, 1, w->vt + tile * VALUE_WIDTH * LD_S, LD_S, 0, w->ds, LD_S, g->rows,
              g->vectors, VALUE_WIDTH);
  for (long r = 0; r < g->rows; r++) {
    const long i = g->i0 + r, end = g->vectors * W;
    const vf lse = (vf)(w->lse[r]), delta = (vf)(w->delta[r]);
    for (long j = 0; j < end; j += W) {
      float *s = w->s + r * LD_S + j, *ds = w->ds + r * LD_S + j;
      const vf p = vtb_exp(score(g, load(s), i, j) - lse), d = p * (load(ds) - delta);
      if (to_bias) {
        float *to = bias_row(g, DBIAS, i) + j;
        store_part(to, load_part(to, g->cols - j) + d, g->cols - j);
      } else {
        store(s, p);
        store(ds, d);
      }
    }
  }
}

/* out[m, n] += a[k, m]^T b[k, n], a with rows of scores, out from the tile's keys on. */
static inline void add_transposed(const attention *g, const float *a, const float *b, float *out,
                                  long ld) {
  vtb_product(a, 1, LD_S, b, ld, 1, out + g->j0 * ld, ld, g->cols, ld / W, g->rows);
}

static inline void unpack(const attention *g, float *rows, long ld, long width, float factor,
                          long tensor, long head, long from, long n) {
  const cols c = cols_all(width, 0);
  for (long r = 0; r < n; r++) {
    if (factor != 1) scale_row(rows + r * ld, ld, factor);
    unpack_row(&c, row(g, tensor, from + r, head), 0, rows + r * ld);
  }
}

static inline void one_block(attention *g, const backward *w, long block) {
  at_block(g, block);
  pack_block(g, w);
  fill(w->dq, 0, BLOCK * LD_K);
  const long tiles = tiles_seen(g);
  for (long tile = 0; tile < tiles; tile++) {
    at_tile(g, tile);
    probabilities(g, w, tile, 0);
    add_transposed(g, w->s, w->dy, w->dv, LD_V);
    add_transposed(g, w->ds, w->q, w->dk, LD_K);
    vtb_product(w->ds, LD_S, 1, w->k + g->j0 * LD_K, LD_K, 1, w->dq, LD_K, g->rows, LD_K / W,
                g->cols);
  }
  turn(g, QUERY, g->head, g->i0, g->rows, w->dq, LD_K, 1);
  unpack(g, w->dq, LD_K, WIDTH, SCALE, DQ, g->head, g->i0, g->rows);
}

TASK(attention_grad, BATCH *KV_HEADS, 1, BYTES_OF(lay_out, 1)) {
  const long kv = remainder(index, KV_HEADS), shared = HEADS / KV_HEADS;
  const backward w = lay_out(&(memory){scratch, 0}, 1);
  attention g = {.t = t, .batch = quotient(index, KV_HEADS)};
  transpose_head(&g, &w, kv);
  pack(&g, K, kv, WIDTH, 0, KEYS, w.k, LD_K);
  turn(&g, KEY, kv, 0, KEYS, w.k, LD_K, 0);
  fill(w.dk, 0, KEYS * LD_K);
  fill(w.dv, 0, KEYS * LD_V);
  for (long h = 0; h < shared; h++)
    for (long block = 0; block < BLOCKS; block++) {
      g.head = kv * shared + h;
      one_block(&g, &w, block);
    }
  turn(&g, KEY, kv, 0, KEYS, w.dk, LD_K, 1);
  unpack(&g, w.dk, LD_K, WIDTH, SCALE, DK, kv, 0, KEYS);
  unpack(&g, w.dv, LD_V, VALUE_WIDTH, 1, DV, kv, 0, KEYS);
}

/* ---- the bias -------------------------------------------------------------------------------- */

TASK(attention_bias_grad, DBIAS < 0 ? 0 : BIAS_BATCH * BIAS_HEADS * BLOCKS, 1,
     BYTES_OF(lay_out, 0)) {
  const long outer = quotient(index, BLOCKS);
  const long batch = quotient(outer, BIAS_HEADS), head = remainder(outer, BIAS_HEADS);
  const backward w = lay_out(&(memory){scratch, 0}, 0);
  attention g = {.t = t, .batch = batch, .head = head};
  at_block(&g, remainder(index, BLOCKS));
  for (long r = 0; r < g.rows; r++)
    for (long j = 0; j < KEYS; j++) bias_row(&g, DBIAS, g.i0 + r)[j] = 0;
  const int by_batch = BIAS_BATCH > 1;
  for (g.batch = by_batch ? batch : 0; g.batch < (by_batch ? batch + 1 : BATCH); g.batch++)
    for (g.head = head; g.head < HEADS; g.head += BIAS_HEADS) {
      transpose_head(&g, &w, kv_head(&g));
      pack_block(&g, &w);
      const long tiles = tiles_seen(&g);
      for (long tile = 0; tile < tiles; tile++) {
        at_tile(&g, tile);
        probabilities(&g, &w, tile, 1);
      }
    }
}
