/* One product of a chunkwise linear recurrence:
 *   out = (A B^T o M) C + f o (A S)
 * Rows are tokens of a tile of 64, columns those of the tiles before it in the chunk (EARLIER:
 * M[t, j] = product of the decays after j up to t, f all of the chunk's up to t, S the state before
 * the chunk) or of those behind it (M transposed, f the decays behind the row's token, S the
 * adjoint of the state after the chunk). A block owns a tile of rows and TILE columns of out.
 *
 * PAIRED: two directions along a path, forth and back, with the same rows. The way back is the
 * second form in the order of the way forth, its decays moved by one: from t on, token j >= t
 * arrives with those of t ... j - 1. */
#include "products.cuh"
#include "scans.cuh"
hole int N, K, CHUNK;            /* tokens; width of keys; tokens of a chunk */
hole int DEPTH, WIDTH, COLUMNS;  /* of A and B; of out, of which so many are result's */
hole int ROW_TILES;              /* tiles of all chunks */
hole int STATE_PITCH;            /* from row to row of states */
hole int SCANS;                  /* of all directions */
hole int FACTORS, THREADS;
hole int DIRS, HEADS;            /* directions of the launch; heads */
hole code directions;            /* pointers of direction dir */
hole type T;                     /* of tiles */
hole bool FOUR;                  /* rows can be copied 16 bytes at a time */
hole bool PAIRED, FORWARD;       /* FORWARD: EARLIER, unless it is PAIRED */
hole bool OUTSIDE, ALWAYS;       /* states enter the chunks; the first one too */
hole bool STATE_ACROSS;          /* S is taken by its columns */
hole bool TERM;                  /* terms are summed of rows with their mates */
hole expr place;                 /* of step t */
hole expr decay;                 /* at pos */
hole expr a_from, b_from, c_from, mate_from; /* addresses of rows at pos */
hole expr a_extra, b_extra, c_extra;         /* what follows a row's columns */
hole int a_columns, b_columns, c_columns;    /* of a tensor */
hole bool a_more, b_more, c_more;            /* and one more */
hole expr states, terms;         /* their pointers */
hole expr result_at;             /* offset for pos and x */
hole code put_z;                 /* stores value of the column behind COLUMNS at pos */
constexpr int TILE = vtb_part_width(WIDTH), SLAB = vtb_slab(DEPTH), SIDES = PAIRED ? 2 : 1;
constexpr int OUT_TILES = (WIDTH + TILE - 1) / TILE, CHUNK_TILES = (CHUNK + 63) / 64;
constexpr int BLOCKS = ROW_TILES * OUT_TILES, N_CHUNKS = (N + CHUNK - 1) / CHUNK,
              STATE = K * STATE_PITCH;
constexpr int PA = vtb_pitch_along(SLAB, sizeof(T)), PC = vtb_pitch_across(TILE),
              PP = vtb_pitch_along(64, 4);
constexpr int STATE_SLAB = !OUTSIDE ? 0 : STATE_ACROSS ? TILE * PA : SLAB * PC;
require THREADS == 128 && (!PAIRED || DEPTH <= SLAB);
cost tensor = 4096 * SIDES * (CHUNK_TILES + 1) * (DEPTH + TILE) +
              (OUTSIDE ? 128 * DEPTH * TILE : 0);
cost issue = 2 * SIDES * (CHUNK_TILES + 1) * (12 * DEPTH + 13 * TILE) + (OUTSIDE ? 50 * DEPTH : 0);
cost registers = FORWARD ? 128 : 160;
shared T a_tile[64 * PA];
shared T b_tile[vtb_max_int(64 * PA, STATE_SLAB)];
shared T c_tile[64 * PC] over PAIRED ? b_tile : a_tile; /* after what it lies over */
shared float scores[64 * PP];
shared float decays[64], through[64], after[64], own[64], parts[32];
const int item = vtb_block() / BLOCKS, unit = vtb_block() % BLOCKS;
const int b = item / (DIRS / SIDES * HEADS), h = item / (DIRS / SIDES) % HEADS;
bool have_a = false; /* the rows' tile */
for (int side = 0; side < SIDES; side++) {
const int scan = item * SIDES + side, dir = scan % DIRS;
const bool EARLIER = PAIRED ? side == 0 : FORWARD;
${directions}
const int out_tile = unit % OUT_TILES, row_tile = unit / OUT_TILES, o0 = out_tile * TILE;
const int chunk = row_tile / CHUNK_TILES, c0 = chunk * CHUNK, c1 = vtb_min_int(c0 + CHUNK, N);
const int i0 = c0 + row_tile % CHUNK_TILES * 64, n_rows = vtb_min_int(c1 - i0, 64), tid = vtb_tid();
const int row = 16 * vtb_warp(); /* the warp's first */
const bool live = row < n_rows;   /* 196 tokens are 13 strips of 16, not 16 */
VTB_PTR(const float) states_of = ${states};
auto place = [&](int t) -> int { return ${place}; };
auto decay_at = [&](vtb_i64 pos) -> float { return ${decay}; };
auto decay = [&](int t) -> float { /* of a step from t - 1 to t, or PAIRED from t to t - 1 */
  if (!PAIRED || EARLIER) return decay_at(place(t));
  return t > 0 ? decay_at(place(t - 1)) : 1.0f;
};
auto a_row = [&](int t) {
  const vtb_i64 pos = place(t);
  return ${a_from};
};
auto b_row = [&](int t) {
  const vtb_i64 pos = place(t);
  return ${b_from};
};
auto c_row = [&](int t) {
  const vtb_i64 pos = place(t);
  return ${c_from};
};
auto a_beyond = [&](int t) -> float {
  const vtb_i64 pos = place(t);
  return ${a_extra};
};
auto b_beyond = [&](int t) -> float {
  const vtb_i64 pos = place(t);
  return ${b_extra};
};
auto c_beyond = [&](int t) -> float {
  const vtb_i64 pos = place(t);
  return ${c_extra};
};
auto fill_a = [&](int x0) { /* rows; PAIRED: one slab, once */
  if (PAIRED && have_a) return;
  have_a = true;
  vtb_copy_rows<FOUR, 64, SLAB, PA, THREADS>(
      a_tile, n_rows, vtb_clip(a_columns - x0, SLAB), a_more ? a_columns - x0 : -1,
      [&](int r) { return a_row(i0 + r) + x0; }, [&](int r) { return a_beyond(i0 + r); });
};
auto fill_b = [&](int j0, int n, int x0) { /* columns */
  vtb_copy_rows<FOUR, 64, SLAB, PA, THREADS>(
      b_tile, n, vtb_clip(b_columns - x0, SLAB), b_more ? b_columns - x0 : -1,
      [&](int r) { return b_row(j0 + r) + x0; }, [&](int r) { return b_beyond(j0 + r); });
};
auto fill_c = [&](int j0, int n) { /* what the columns hand to the rows */
  vtb_copy_rows<FOUR, 64, TILE, PC, THREADS>(
      c_tile, n, vtb_clip(c_columns - o0, TILE), c_more ? c_columns - o0 : -1,
      [&](int r) { return c_row(j0 + r) + o0; }, [&](int r) { return c_beyond(j0 + r); });
};

float out[TILE / 8][4];
vtb_clear(out);

/* The state that enters the chunk, with the term that the decays' adjoint takes of it. */
bool outside = OUTSIDE && (ALWAYS || (EARLIER ? c0 > 0 : c1 < N));
if (outside) {
  float factor = 1.0f;
  for (int t = EARLIER ? c0 + tid : i0 + n_rows + tid; t < (EARLIER ? i0 : c1); t += THREADS)
    factor *= decay(t);
  VTB_UNROLL for (int m = 16; m > 0; m >>= 1) factor *= vtb_shfl_xor(factor, m);
  if (vtb_lane() == 0) parts[vtb_warp()] = factor;
  if (tid < 64) decays[tid] = tid < n_rows ? decay(i0 + tid) : 1.0f;
  vtb_sync();
  factor = parts[0] * parts[1] * parts[2] * parts[3];
  if (vtb_warp() == 0) vtb_running_products(decays, through, after);
  vtb_sync();
  for (int x0 = 0; x0 < DEPTH; x0 += SLAB) {
    const vtb_i64 state = ((vtb_i64)scan * N_CHUNKS + chunk) * STATE;
    auto nothing = [&](int) { return 0.0f; };
    vtb_sync();
    fill_a(x0);
    if constexpr (STATE_ACROSS) {
      vtb_copy_rows<true, TILE, SLAB, PA, THREADS>(
          b_tile, vtb_min_int(WIDTH - o0, TILE), vtb_clip(STATE_PITCH - x0, SLAB), -1,
          [&](int o) { return states_of + (state + (o0 + o) * STATE_PITCH + x0); }, nothing);
    } else {
      vtb_copy_rows<true, SLAB, TILE, PC, THREADS>(
          b_tile, vtb_min_int(DEPTH - x0, SLAB), vtb_clip(STATE_PITCH - o0, TILE), -1,
          [&](int x) { return states_of + (state + (x0 + x) * STATE_PITCH + o0); }, nothing);
    }
    vtb_arrived();
    const auto a_of = vtb_rows<true, PA>(a_tile, row);
    if constexpr (STATE_ACROSS)
      vtb_product<FACTORS, SLAB>(out, a_of, vtb_columns<true, PA>(b_tile), live ? SLAB : 0);
    else
      vtb_product<FACTORS, SLAB>(out, a_of, vtb_columns<false, PC>(b_tile), live ? SLAB : 0);
  }
  vtb_each(out, [&](int r, int, float &v) {
    v *= factor * (EARLIER ? through[row + r] : after[row + r]);
  });
  if constexpr (TERM) {
    float sums[2] = {0.0f, 0.0f};
    auto mate_row = [&](int t) {
      const vtb_i64 pos = place(t);
      return ${mate_from};
    };
    vtb_sync();
    vtb_copy_rows<FOUR, 64, TILE, PC, THREADS>(
        c_tile, n_rows, vtb_clip(WIDTH - o0, TILE), -1,
        [&](int r) { return mate_row(i0 + r) + o0; }, [&](int) { return 0.0f; });
    vtb_arrived();
    vtb_each(out, [&](int r, int o, float &v) { sums[r / 8] += v * c_tile[(row + r) * PC + o]; });
    VTB_UNROLL for (int i = 0; i < 2; i++) {
      const float sum = vtb_quad_sum(sums[i]);
      const int r = row + 8 * i + vtb_lane() / 4;
      if (vtb_lane() % 4 == 0 && r < n_rows)
        ${terms}[((vtb_i64)out_tile * SCANS + scan) * N + i0 + r] = sum;
    }
  }
  vtb_sync();
}

/* Tiles of columns, the rows' own first. */
const int n_steps = EARLIER ? row_tile % CHUNK_TILES + 1 : (c1 - i0 + 63) / 64;
float between = 1.0f; /* decays of the tiles between rows and columns */
for (int step = 0; step < n_steps; step++) {
  const int j0 = EARLIER ? i0 - 64 * step : i0 + 64 * step, n_columns = vtb_min_int(c1 - j0, 64);
  if (tid < 64) decays[tid] = tid < n_columns ? decay(j0 + tid) : 1.0f;
  vtb_sync();
  /* through, after: of the columns' tile; own: of the rows', kept from step 0 */
  if (vtb_warp() == 0) {
    const float all = vtb_running_products(decays, through, after);
    if (vtb_lane() == 0) parts[4] = all;
  } else if (step == 0 && tid >= 64) {
    const int j = tid - 64;
    float m = 1.0f;
    for (int t = 0; t < 64; t++) {
      if (t > j) m *= decays[t];
      scores[EARLIER ? t * PP + j : j * PP + t] = t < j ? 0.0f : m;
    }
  }
  float s[8][4];
  vtb_clear(s);
  for (int x0 = 0; x0 < DEPTH; x0 += SLAB) {
    vtb_sync();
    fill_a(x0);
    fill_b(j0, n_columns, x0);
    vtb_arrived();
    vtb_product<FACTORS, SLAB>(s, vtb_rows<true, PA>(a_tile, row), vtb_columns<true, PA>(b_tile),
                               live ? SLAB : 0);
  }
  if (step == 0 && tid < 64) own[tid] = EARLIER ? through[tid] : after[tid];
  vtb_sync();
  vtb_each(s, [&](int r, int j, float &v) {
    const int at = (row + r) * PP + j;
    scores[at] =
        v * (step == 0 ? scores[at] : own[row + r] * (between * (EARLIER ? after[j] : through[j])));
  });
  fill_c(j0, n_columns);
  if (step > 0) between *= parts[4];
  vtb_arrived();
  vtb_product<FACTORS, 64>(out, vtb_rows<true, PP>(scores, row), vtb_columns<false, PC>(c_tile),
                           live ? (n_columns + 15) / 16 * 16 : 0);
  vtb_sync();
  if (between == 0.0f) break; /* all that is left has decayed */
}

vtb_each(out, [&](int r, int o, float &value) {
  const int x = o0 + o;
  if (row + r < n_rows && x < WIDTH) {
    const vtb_i64 pos = place(i0 + row + r);
    if (x < COLUMNS) {
      result[${result_at}] = value;
    } else {
      ${put_z}
    }
  }
});
}
