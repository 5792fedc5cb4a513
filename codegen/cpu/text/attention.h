/* Shared by attention and its adjoint: blocks of queries, tiles of keys, scores. Shapes and
 * meaning: ir/attention.h. Keys of a head lie in scratch memory transposed, tile after tile
 * [TILES, width, LD_S]; rows of queries, keys and values are padded with zeros to whole vectors.
 */
#include "codegen/cpu/text/cols.h"

hole long BATCH, QUERIES, KEYS, HEADS, KV_HEADS, WIDTH, VALUE_WIDTH;
hole long CAUSAL, BIAS_BATCH, BIAS_HEADS, BIAS_RANK;
hole float SCALE;
hole long Q, K, V, BIAS; /* tensors; -1: absent */
/* How queries and keys are turned: tensors, turned channels, whether tables differ by head. */
enum { COSINES, SINES, TURNED, BY_HEAD, NOT_TURNED = -1, QUERY = 0, KEY = 1 };
hole long TURN[2][4];

/* A block is a multiple of both tile heights of the product at most; the keys, values and scores of
 * a tile stay in L2. */
enum { MOST_QUERIES = 48, MOST_KEYS = 256 };
#define HEIGHT (REGISTERS > 16 ? 8 : 6)
#define BLOCK round_up(pieces(QUERIES, pieces(QUERIES, MOST_QUERIES)), HEIGHT)
#define BLOCKS pieces(QUERIES, BLOCK)
#define TILE round_up(pieces(KEYS, pieces(KEYS, MOST_KEYS)), W)
#define TILES pieces(KEYS, TILE)
/* Row lengths of scores (no multiple of 256 bytes, whose lines would share few cache sets), of keys
 * and queries, of values. */
#define LD_S (TILE >= 64 && TILE % 64 == 0 ? TILE + 16 : TILE)
#define LD_K round_up(WIDTH, W)
#define LD_V round_up(VALUE_WIDTH, W)

typedef struct attention {
  float *const *t;
  long batch, head;       /* of this part of the task */
  long i0, rows;          /* the block: its queries */
  long j0, cols, vectors; /* the tile: its keys, in whole vectors */
} attention;

static inline long kv_head(const attention *g) { return quotient(g->head, HEADS / KV_HEADS); }

/* Token i of tensor [B, tokens, heads, ...]. */
static inline float *row(const attention *g, long tensor, long i, long head) {
  const long *stride = STRIDE[tensor];
  return g->t[tensor] + g->batch * stride[0] + i * stride[1] + head * stride[2];
}

static inline void scale_row(float *at, long n, float factor) {
  for (long j = 0; j < n; j += W) store(at + j, load(at + j) * factor);
}

/* Rows [from, from + n) of `width` elements, padded with zeros. */
static inline void pack(const attention *g, long tensor, long head, long width, long from, long n,
                        float *out, long ld) {
  const cols c = cols_all(width, 0);
  for (long l = 0; l < n; l++) pack_row(&c, out + l * ld, row(g, tensor, from + l, head), 0);
}

/* ---- rotary embeddings ----------------------------------------------------------------------- */

typedef float half_at __attribute__((ext_vector_type(VTB_W / 2), aligned(4)));
#define PAIR_OF(lane, d) (lane) / 2
#define NEIGHBOUR(lane, d) ((lane) ^ 1)
#define SIGN(lane, d) ((lane) % 2 ? 1.0f : -1.0f)

static inline vf twice(half_at x) {
  return __builtin_shufflevector(x, x, LANES_OF_(VTB_W)(PAIR_OF, 0));
}

/* x c + swap(x) s, swap exchanging neighbours, s negative in even lanes. */
static inline vf turn_vector(vf x, const float *cosines, const float *sines, int back) {
  const half_at c = *(const half_at *)cosines, s = *(const half_at *)sines;
  const vf swapped = __builtin_shufflevector(x, x, LANES_OF_(VTB_W)(NEIGHBOUR, 0));
  return fma(swapped, twice(back ? -s : s) * (vf){LANES_OF_(VTB_W)(SIGN, 0)}, x * twice(c));
}

/* Turns packed rows of the tokens from `from` on; adjoints, `back`, the other way round. */
static inline void turn(const attention *g, int of, long head, long from, long n, float *rows,
                        long ld, int back) {
  if (of == NOT_TURNED || !TURN[of][TURNED]) return;
  const long *h = TURN[of], width = h[TURNED], whole = quotient(width, W) * W;
  const long by_head = h[BY_HEAD] ? head : 0;
  for (long l = 0; l < n; l++) {
    const long *c_at = STRIDE[h[COSINES]], *s_at = STRIDE[h[SINES]];
    const float *c = g->t[h[COSINES]] + (from + l) * c_at[0] + by_head * c_at[1];
    const float *s = g->t[h[SINES]] + (from + l) * s_at[0] + by_head * s_at[1];
    float *x = rows + l * ld;
    for (long j = 0; j < whole; j += W)
      store(x + j, turn_vector(load(x + j), c + j / 2, s + j / 2, back));
    UNROLL for (long p = whole / 2; p < width / 2; p++) {
      const float first = x[2 * p], second = x[2 * p + 1], sine = back ? -s[p] : s[p];
      x[2 * p] = fma(-second, sine, first * c[p]);
      x[2 * p + 1] = fma(first, sine, second * c[p]);
    }
  }
}

/* ---- blocks and tiles ------------------------------------------------------------------------ */

static inline void at_block(attention *g, long block) {
  g->i0 = block * BLOCK;
  g->rows = least(QUERIES - g->i0, BLOCK);
}

static inline void at_tile(attention *g, long tile) {
  g->j0 = tile * TILE;
  g->cols = least(KEYS - g->j0, TILE);
  g->vectors = pieces(g->cols, W);
}

/* Tiles that the block sees, at least one. */
static inline long tiles_seen(const attention *g) {
  if (!CAUSAL || TILES == 1) return TILES;
  const long seen = g->i0 + g->rows + KEYS - QUERIES;
  return least(TILES, pieces(seen > 0 ? seen : 1, TILE));
}

/* All keys' (or values') rows of the head, transposed by tiles. `rows`: room for those of a tile,
 * null where the width is whole vectors and nothing is turned. Columns beyond the last key repeat
 * it. */
static inline void transpose(attention *g, long tensor, long head, long width, int of, float *rows,
                             long ld, float *out) {
  for (long tile = 0; tile < TILES; tile++) {
    at_tile(g, tile);
    const float *from = row(g, tensor, g->j0, head);
    if (rows) {
      pack(g, tensor, head, width, g->j0, g->cols, rows, ld);
      turn(g, of, head, g->j0, g->cols, rows, ld, 0);
      from = rows;
    }
    vtb_transpose(from, rows ? ld : STRIDE[tensor][1], g->cols, width, out + tile * width * LD_S,
                  LD_S);
  }
}

/* The bias of query i (of this batch entry and head) at key j0; tensor: the bias or its adjoint. */
static inline float *bias_row(const attention *g, long tensor, long i) {
  const long *stride = STRIDE[tensor];
  float *at = g->t[tensor] + i * stride[BIAS_RANK - 2] + g->j0 * stride[BIAS_RANK - 1];
  if (BIAS_RANK >= 3) at += remainder(g->head, BIAS_HEADS) * stride[BIAS_RANK - 3];
  return BIAS_RANK == 4 && BIAS_BATCH > 1 ? at + g->batch * stride[0] : at;
}

/* scale s + bias for the columns j ... of query i, excluded keys and columns beyond the last at
 * -inf (the latter only if there is a bias or an exclusion; else they repeat the last key). */
static inline vf score(const attention *g, vf s, long i, long j) {
  long seen = g->cols - j;
  s *= SCALE;
  if (BIAS < 0 && !CAUSAL) return s;
  if (BIAS >= 0) s += load_part(bias_row(g, BIAS, i) + j, seen);
  if (CAUSAL) seen = i - g->j0 + 1 + KEYS - QUERIES - j;
  return vtb_part(s, seen, (vf)(-INFINITY));
}
