/* y = softmax(scale q k^T + bias) v without a matrix of scores in memory.
 *
 * An index of the task is one batch entry, one head and some blocks of queries; at batch 1 with few
 * heads the blocks of a head are shared out too. Keys (transposed) and values of the head are
 * packed into scratch memory once; then each block of queries meets one tile of keys after the
 * other, with the maximum m, the sum l and the output row carried and rescaled from tile to tile
 * (online softmax; one tile, the usual case at vision sizes, rescales nothing).
 */
#include "codegen/cpu/text/attention.h"

hole long Y, LSE;

/* Indices of the task, so that few heads keep several threads busy; FLOPs below which a piece for a
 * thread of its own does not pay. */
enum { MIN_TASKS = 16, TASK_FLOPS = 400000 };
#define PAIRS (BATCH * HEADS)
#define PER_PART pieces(BLOCKS, least(pieces(MIN_TASKS, PAIRS), BLOCKS))
#define PARTS pieces(BLOCKS, PER_PART)
#define FLOPS (2.0 * (double)(PER_PART * BLOCK) * (double)KEYS * (double)(WIDTH + VALUE_WIDTH))
#define CHANGED (BIAS >= 0 || CAUSAL) /* scores are more than products */
#define PACKED (WIDTH % W || TURN[KEY][TURNED])

typedef struct forward {
  float *kt, *v, *s, *o, *m, *l; /* keys, values; of a block: scores, outputs, maxima, sums */
  float *keys, *q;               /* rows of keys; queries of the block, if they are turned */
} forward;

static inline forward lay_out(memory *m) {
  forward f = {.kt = take(m, TILES * WIDTH * LD_S), .v = take(m, KEYS * LD_V)};
  f.s = take(m, BLOCK * LD_S), f.o = take(m, BLOCK * LD_V);
  f.m = take(m, round_up(BLOCK, W)), f.l = take(m, round_up(BLOCK, W));
  f.keys = PACKED ? take(m, TILE * LD_K) : 0;
  f.q = TURN[QUERY][TURNED] ? take(m, BLOCK * LD_K) : 0;
  return f;
}

/* The scores of one query become exp(score - m), m and l go on, the outputs so far are rescaled. */
static inline void softmax_row(const attention *g, const forward *f, long r, long tile) {
  float *s = f->s + r * LD_S;
  const long i = g->i0 + r, end = g->vectors * W;
  const float before = f->m[r];
  vf most = (vf)(before), sum = (vf)(0);
  for (long j = 0; j < end; j += W) {
    const vf x = score(g, load(s + j), i, j);
    if (CHANGED) store(s + j, x);
    most = max(x, most);
  }
  const float m = vtb_max(most);
  for (long j = 0; j < end; j += W) {
    vf x = load(s + j);
    x = vtb_exp((CHANGED ? x : x * SCALE) - (vf)(m));
    store(s + j, x);
    sum += !CHANGED && KEYS % W ? vtb_part(x, g->cols - j, (vf)(0)) : x;
  }
  float total = vtb_sum(sum);
  f->m[r] = m;
  if (TILES > 1) {
    const float shrink = vtb_exp_1(before - m);
    total = fma(f->l[r], shrink, total);
    if (tile > 0) scale_row(f->o + r * LD_V, LD_V, shrink);
  }
  f->l[r] = total;
}

static inline void one_tile(attention *g, const forward *f, long tile) {
  at_tile(g, tile);
  const int turned = TURN[QUERY][TURNED] != 0;
  vtb_product(turned ? f->q : row(g, Q, g->i0, g->head), turned ? LD_K : STRIDE[Q][1], 1,
              f->kt + tile * WIDTH * LD_S, LD_S, 0, f->s, LD_S, g->rows, g->vectors, WIDTH);
  for (long r = 0; r < g->rows; r++) softmax_row(g, f, r, tile);
  vtb_product(f->s, LD_S, 1, f->v + g->j0 * LD_V, LD_V, tile == 0 ? 0 : 1, f->o, LD_V, g->rows,
              LD_V / W, g->cols);
}

/* y = o / l, lse = m + log l; without any key y = 0, lse = inf. */
static inline void finish_row(const attention *g, const forward *f, long r) {
  const float l = f->l[r], inverse = 1 / l, lse = f->m[r] + vtb_log_1(l);
  float *o = f->o + r * LD_V;
  scale_row(o, LD_V, l == 0 ? 0 : inverse);
  const cols c = cols_all(VALUE_WIDTH, 0);
  unpack_row(&c, row(g, Y, g->i0 + r, g->head), 0, o);
  *row(g, LSE, g->i0 + r, g->head) = l == 0 ? INFINITY : lse;
}

static inline void one_block(attention *g, const forward *f, long block) {
  at_block(g, block);
  if (TURN[QUERY][TURNED]) {
    pack(g, Q, g->head, WIDTH, g->i0, g->rows, f->q, LD_K);
    turn(g, QUERY, g->head, g->i0, g->rows, f->q, LD_K, 0);
  }
  fill(f->m, -__FLT_MAX__, BLOCK);
  fill(f->l, 0, BLOCK);
  const long tiles = tiles_seen(g);
  for (long tile = 0; tile < tiles; tile++) one_tile(g, f, tile);
  for (long r = 0; r < g->rows; r++) finish_row(g, f, r);
}

TASK(attention, PAIRS *PARTS, (long)(TASK_FLOPS / FLOPS), BYTES_OF(lay_out)) {
  const long pair = quotient(index, PARTS), from = remainder(index, PARTS) * PER_PART;
  const forward f = lay_out(&(memory){scratch, 0});
  attention g = {.t = t, .batch = quotient(pair, HEADS), .head = remainder(pair, HEADS)};
  const long kv = kv_head(&g), to = least(from + PER_PART, BLOCKS);
  transpose(&g, K, kv, WIDTH, KEY, f.keys, LD_K, f.kt);
  pack(&g, V, kv, VALUE_WIDTH, 0, KEYS, f.v, LD_V);
  for (long block = from; block < to; block++) one_block(&g, &f, block);
}
