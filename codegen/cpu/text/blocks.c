/* Products with small square blocks on a diagonal, as in headwise projections:
 *
 *   y[t, g, o] = add + sum_i x[t, g, i] w[g, o, i]      "bngi,goi->bngo", and its adjoint in x
 *   sums[g, o, i] = sum_t y[t, g, o] x[t, g, i]         "bngo,bngi->goi"
 *
 * t stands for any letters. Lanes run over c = (g, o): a vector holds whole blocks, and x[t, g, i]
 * for all its lanes is a shuffle of the vector of x at c. Weights and sums lie as [i][c]; they stay
 * in registers while a piece of tokens passes.
 */
#include "codegen/cpu/text/kernel.h"

enum { X, Y, ADD, OF_BLOCK, ALL }; /* the last: weights, or the sums of pieces [OUTER, PIECES] */
enum { MOST_SIZE = 16, MOST_LOOPS = 8 };

hole long SIZE, WIDTH;                    /* of a block: a power of two, W at most; of all blocks */
hole long TOKENS, PIECE;                  /* of the innermost letters; that pass at a time */
hole long OUTER;                          /* size of all other letters, innermost first: */
hole long LOOP[MOST_LOOPS][1 + OF_BLOCK]; /* size, strides in x, y and add; size 0: no letter */
hole long TENSOR[ALL], STEP[ALL];         /* number among `t`, -1: absent; from token to token */
hole int SUMS;                            /* sums over tokens, not products */
hole long GRAIN;
#define PIECES pieces(TOKENS, PIECE)
#define WHOLE (quotient(WIDTH, W) * W)

/* Lane l takes element i of its own block. */
static inline vf spread(vf x, long i) {
  vf own = x;
  UNROLL for (long l = 0; l < W; l++) own[l] = x[quotient(l, SIZE) * SIZE + i];
  return own;
}

/* Some tokens, and the tensors at the place of the outer letters. */
typedef struct span {
  float *at[ALL];
  long from, end;
} span;

static inline span span_at(float *const *t, long index) {
  long outer = quotient(index, PIECES);
  span s = {.from = remainder(index, PIECES) * PIECE};
  s.end = least(s.from + PIECE, TOKENS);
  UNROLL for (int i = 0; i < ALL; i++) s.at[i] = TENSOR[i] < 0 ? 0 : t[TENSOR[i]];
  UNROLL for (int l = 0; l < MOST_LOOPS; l++) if (LOOP[l][0]) {
    UNROLL for (int i = 0; i < OF_BLOCK; i++) s.at[i] +=
        remainder(outer, LOOP[l][0]) * LOOP[l][1 + i];
    outer = quotient(outer, LOOP[l][0]);
  }
  if (SUMS) s.at[OF_BLOCK] += index * SIZE * WIDTH;
  return s;
}

static inline vf at_token(const span *s, int tensor, long token, long column, long left) {
  return load_some(s->at[tensor] + (token * STEP[tensor] + column), left);
}

static inline void apply(const span *s, long column, long left) {
  vf w[MOST_SIZE];
  UNROLL for (long i = 0; i < SIZE; i++) w[i] =
      load_some(s->at[OF_BLOCK] + (column + i * WIDTH), left);
  /* a bias: the same for every token */
  const int adds = TENSOR[ADD] >= 0, one_row = adds && STEP[ADD] == 0;
  const vf bias = one_row ? at_token(s, ADD, 0, column, left) : (vf)0;
  for (long token = s->from; token < s->end; token++) {
    const vf x = at_token(s, X, token, column, left), first = spread(x, 0);
    const vf start = adds && !one_row ? at_token(s, ADD, token, column, left) : bias;
    vf sum = adds ? fma(first, w[0], start) : first * w[0];
    UNROLL for (long i = 1; i < SIZE; i++) sum = fma(spread(x, i), w[i], sum);
    store_some(s->at[Y] + (token * STEP[Y] + column), sum, left);
  }
}

static inline void add_up(const span *s, long column, long left) {
  vf sum[MOST_SIZE];
  UNROLL for (long i = 0; i < SIZE; i++) sum[i] = 0;
  for (long token = s->from; token < s->end; token++) {
    const vf x = at_token(s, X, token, column, left), y = at_token(s, Y, token, column, left);
    UNROLL for (long i = 0; i < SIZE; i++) sum[i] = fma(spread(x, i), y, sum[i]);
  }
  UNROLL for (long i = 0; i < SIZE; i++)
      store_some(s->at[OF_BLOCK] + (column + i * WIDTH), sum[i], left);
}

#define EACH_COLUMN(s, each)                                                                       \
  do {                                                                                             \
    for (long column = 0; column < WHOLE; column += W) each(s, column, 0);                         \
    if (WHOLE < WIDTH) each(s, WHOLE, WIDTH - WHOLE);                                              \
  } while (0)

TASK(blocks, SUMS ? 0 : OUTER *PIECES, GRAIN, 0) {
  const span s = span_at(t, index);
  EACH_COLUMN(&s, apply);
}

TASK(block_sums, SUMS ? OUTER *PIECES : 0, 1, 0) {
  const span s = span_at(t, index);
  EACH_COLUMN(&s, add_up);
}
