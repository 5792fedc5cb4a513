/* delta token by token, for every class: the state [K, V] stays in scratch memory, vectors run
 * along V. All rows of a token read the state, then it decays and all of them are added; the pass
 * that adds the last one reads for the next token's first, so that one row a token is one pass.
 * Tiles of V are independent. */
#include "codegen/cpu/text/steps.h"

hole long RANK; /* rows a token */
hole int AT_B, AT_W;

typedef struct arrays {
  float *state, *rows[2];
} arrays;
static inline arrays lay_out(memory *m) {
  return (arrays){take(m, K * LD), {take(m, RANK * LD), take(m, RANK * LD)}};
}

/* Row r of the token at storage position pos. */
static inline float *delta_row(const scan *s, int tensor, long pos, long r) {
  return row(s, tensor, pos) + r * STRIDE[tensor][3];
}

typedef struct update {
  const steps *g;
  float *state, *w; /* w: row r in scratch memory */
  long pos, r;
  _Bool decays; /* the row is the first to be added */
  float *next;  /* it is the last one: the next token's first; or NULL */
  long next_pos;
} update;

/* w += S^T b */
static inline void read_vectors(const update *a, long j, int vectors, long left) {
  const float *b = delta_row(&a->g->s, AT_B, a->pos, a->r);
  vf w[4];
  (void)left;
  UNROLL for (int i = 0; i < vectors; i++) w[i] = load(a->w + j + i * W);
  for (long k = 0; k < K; k++)
    UNROLL for (int i = 0; i < vectors; i++) w[i] =
        fma((vf)b[k], load(a->state + k * LD + j + i * W), w[i]);
  UNROLL for (int i = 0; i < vectors; i++) store(a->w + j + i * W, w[i]);
}

/* S = D o S + k w^T, the decay with the first row alone; with the last one, next w += S^T b. */
static inline void add_vectors(const update *a, long j, int vectors, long left) {
  const float *keys = delta_row(&a->g->s, AT_K, a->pos, a->r);
  const float *b = a->next ? delta_row(&a->g->s, AT_B, a->next_pos, 0) : keys;
  vf w[4], next[4];
  UNROLL for (int i = 0; i < vectors; i++) {
    w[i] = load(a->w + j + i * W);
    next[i] = a->next ? load(a->next + j + i * W) : 0;
  }
  for (long k = 0; k < K; k++) {
    const vf key = (vf)keys[k], read = (vf)b[k];
    UNROLL for (int i = 0; i < vectors; i++) {
      float *at = a->state + k * LD + j + i * W;
      vf s = load(at);
      if (a->decays) s = decay_at(a->g, a->pos, k, j + i * W, left) * s;
      s = fma(key, w[i], s);
      store(at, s);
      if (a->next) next[i] = fma(read, s, next[i]);
    }
  }
  UNROLL for (int i = 0; i < vectors; i++) if (a->next) store(a->next + j + i * W, next[i]);
}

/* Rows from ... to of a token. */
#define EACH_ROW(a, rows, from, to, each)                                                          \
  for (long r = from; r < (to); r++) {                                                             \
    (a).r = r;                                                                                     \
    (a).w = (rows) + r * LD;                                                                       \
    EACH_GROUP(&(a).g->c, 4, each, &(a));                                                          \
  }

static inline void pack_rows(const steps *g, float *out, int tensor, long pos) {
  for (long r = 0; r < RANK; r++)
    pack_row(&g->c, out + r * LD, delta_row(&g->s, tensor, pos, r), 0);
}

TASK(steps, BATCH *HEADS *TILES, 1, BYTES_OF(lay_out)) {
  memory own = {scratch, 0};
  const arrays a = lay_out(&own);
  const steps g = steps_at(t, index, 0, 0);
  float *rows = a.rows[0], *next = a.rows[1];
  if (INIT)
    pack_state(&g.c, &g.s, a.state, AT_S0, -1, LD);
  else
    fill(a.state, 0, K * LD);
  pack_rows(&g, rows, AT_V, place(0));
  update first = {.g = &g, .state = a.state, .pos = place(0)};
  EACH_ROW(first, rows, 0, 1, read_vectors);
  for (long i = 0; i < TOKENS; i++) {
    const long pos = place(i), next_pos = place(least(i + 1, TOKENS - 1));
    update others = {.g = &g, .state = a.state, .pos = pos}, opening = others, closing = others;
    EACH_ROW(others, rows, 1, RANK, read_vectors);
    for (long r = 0; r < RANK; r++)
      unpack_row(&g.c, delta_row(&g.s, AT_W, pos, r), 0, rows + r * LD);
    pack_rows(&g, next, AT_V, next_pos);
    opening.decays = 1;
    closing.decays = RANK == 1;
    closing.next = next;
    closing.next_pos = next_pos;
    if (RANK > 1) EACH_ROW(opening, rows, 0, 1, add_vectors);
    EACH_ROW(others, rows, 1, RANK - 1, add_vectors);
    EACH_ROW(closing, rows, RANK - 1, RANK, add_vectors);
    next = rows;
    rows = closing.next;
  }
}
