/* Chunk by chunk with a matrix form: a task owns one batch entry, one head and a tile of V, and
 * walks the chunks with the state S [K, LD_V] in scratch memory. */
#ifndef VTB_CPU_TEXT_CHUNKS_H
#define VTB_CPU_TEXT_CHUNKS_H

#include "codegen/cpu/text/rows.h"

hole long CHUNK; /* tokens */
hole long WIDTH; /* columns of V a tile, whole vectors */
#define TILES quotient(STORED(V, NORMALIZER) + WIDTH - 1, WIDTH)
#define LD_K row_length(K)
#define LD_V row_length(TILES > 1 ? WIDTH : STORED(V, NORMALIZER))

typedef struct chunked {
  scan s;
  cols k_cols, v_cols;
  long n_vectors; /* of the V tile */
} chunked;

static inline chunked chunked_at(float *const *t, long index) {
  const cols c = cols_tile(V, NORMALIZER, WIDTH, remainder(index, TILES));
  return (chunked){scan_at(t, quotient(index, TILES)), cols_all(K, 0), c, vectors_of(&c)};
}

/* Calls chunk(of, first token, tokens, 1: they are all there are). */
#define EACH_CHUNK(chunk, of)                                                                      \
  do {                                                                                             \
    if (CHUNK == TOKENS)                                                                           \
      chunk(of, 0, TOKENS, 1);                                                                     \
    else                                                                                           \
      for (long t0 = 0; t0 < TOKENS; t0 += CHUNK) chunk(of, t0, least(TOKENS - t0, CHUNK), 0);     \
  } while (0)

/* The task of a text with `arrays`, their lay_out() and chunk(const forward *, ...), which begins
 * with FORWARD and ends with SCAN. */
#define FORWARD                                                                                    \
  typedef struct forward {                                                                         \
    chunked of;                                                                                    \
    arrays a;                                                                                      \
  } forward
#define SCAN                                                                                       \
  TASK(scan, BATCH *HEADS *TILES, 1, BYTES_OF(lay_out)) {                                          \
    memory own = {scratch, 0};                                                                     \
    const forward f = {chunked_at(t, index), lay_out(&own)};                                       \
    if (INIT) pack_state(&f.of.v_cols, &f.of.s, f.a.state, AT_S0, AT_N0, LD_V);                    \
    EACH_CHUNK(chunk, &f);                                                                         \
    if (LAST) unpack_state(&f.of.v_cols, &f.of.s, AT_S, AT_N, f.a.state, LD_V);                    \
  }

/* The state before the chunk at t0 is not zero. */
static inline _Bool enters(long t0, _Bool only) { return INIT || (!only && t0 != 0); }
/* What is kept of it: all, or nothing where nothing is written yet. */
static inline float keeps(long t0) { return INIT || t0 != 0 ? 1 : 0; }

/* out[r, :] = x[r, :] o y[r, :], or o y[:] for every row if y_ld is 0; n rows of n_vectors. */
static inline void rows_times(float *out, const float *x, const float *y, long ld, long y_ld,
                              long n, long n_vectors) {
  for (long r = 0; r < n; r++)
    for (long j = 0; j < n_vectors * W; j += W)
      store(out + r * ld + j, load(x + r * ld + j) * load(y + r * y_ld + j));
}
/* rows[k, 0 ... n_vectors) *= by[k] for k < n. */
static inline void keys_times(float *rows, long ld, const float *by, long n, long n_vectors) {
  for (long k = 0; k < n; k++) {
    const vf factor = (vf)by[k];
    for (long j = 0; j < n_vectors * W; j += W)
      store(rows + k * ld + j, load(rows + k * ld + j) * factor);
  }
}

#endif
