/* Products with small results, one a group, summed over many rows: those of a share of a[row, g, m]
 * b[row, g, n]. A block owns ALONG groups, SIDE of the n and a share of the rows; a thread every
 * LANES-th of them, and their sums are added in order. */
hole vtb_i64 ROWS, SHARE;      /* all; of a share */
hole int GROUPS, M, N;
hole int ALONG, SIDE;          /* groups and n of a block */
hole int THREADS;
hole int A_WIDE, B_WIDE;       /* elements loaded at a time: 4 or 1 */
hole type index;               /* of rows: int or vtb_i64 */
hole expr a_row, a_g, a_m;     /* offsets of row, g and m */
hole expr b_row, b_g, b_n;
hole bool BIAS;                /* a is summed itself, too, by the blocks of the first n */
hole code store, store_bias;   /* of the sum at share, g, m and n; of a's, at n = N */
constexpr int LANES = THREADS / ALONG, TILES = (GROUPS + ALONG - 1) / ALONG, SIDES = N / SIDE,
              AT_ONCE = 4;
constexpr int SUMS = M * SIDE, CHUNK = SUMS < 16 ? SUMS : 16,
              PLACES = BIAS && M > CHUNK ? M : CHUNK;
require ALONG <= THREADS && SIDE * SIDES == N && SUMS <= 64;
shared float sums_of[PLACES * THREADS];
const int lane = vtb_tid() / ALONG, g = vtb_block() % TILES * ALONG + vtb_tid() % ALONG;
const int n0 = vtb_block() / TILES % SIDES * SIDE, share = vtb_block() / (TILES * SIDES);
const vtb_i64 begin = share * SHARE, end = begin + SHARE < ROWS ? begin + SHARE : ROWS;
const bool works = lane < LANES && g < GROUPS;
float sums[M][SIDE], bias[M];
VTB_UNROLL for (int m = 0; m < M; m++) bias[m] = 0.0f;
VTB_UNROLL for (int m = 0; m < M; m++) VTB_UNROLL for (int i = 0; i < SIDE; i++) sums[m][i] = 0.0f;
auto load_a = [&](index row, float (&x)[M]) {
  if constexpr (A_WIDE == 4) {
    const int m = 0;
    VTB_UNROLL for (int i = 0; i < M; i += 4) {
      const vtb_f4 four = vtb_load4(a, ${a_row} + ${a_g} + ${a_m} + i);
      x[i] = four.x, x[i + 1] = four.y, x[i + 2] = four.z, x[i + 3] = four.w;
    }
  } else {
    VTB_UNROLL for (int m = 0; m < M; m++) x[m] = a[${a_row} + ${a_g} + ${a_m}];
  }
};
auto load_b = [&](index row, float (&x)[SIDE]) {
  if constexpr (B_WIDE == 4) {
    const int n = n0;
    VTB_UNROLL for (int i = 0; i < SIDE; i += 4) {
      const vtb_f4 four = vtb_load4(b, ${b_row} + ${b_g} + ${b_n} + i);
      x[i] = four.x, x[i + 1] = four.y, x[i + 2] = four.z, x[i + 3] = four.w;
    }
  } else {
    VTB_UNROLL for (int i = 0; i < SIDE; i++) {
      const int n = n0 + i;
      x[i] = b[${b_row} + ${b_g} + ${b_n}];
    }
  }
};
auto multiply = [&](const float (&x)[M], const float (&y)[SIDE]) {
  VTB_UNROLL for (int m = 0; m < M; m++) {
    VTB_UNROLL for (int i = 0; i < SIDE; i++) sums[m][i] += x[m] * y[i];
    if constexpr (BIAS) bias[m] += x[m];
  }
};
if (works) {
  vtb_i64 at = begin + lane;
  for (; at + (AT_ONCE - 1) * LANES < end; at += AT_ONCE * LANES) {
    float x[AT_ONCE][M], y[AT_ONCE][SIDE];
    VTB_UNROLL for (int r = 0; r < AT_ONCE; r++) {
      load_a((index)(at + r * LANES), x[r]);
      load_b((index)(at + r * LANES), y[r]);
    }
    VTB_UNROLL for (int r = 0; r < AT_ONCE; r++) multiply(x[r], y[r]);
  }
  for (; at < end; at += LANES) {
    float x[M], y[SIDE];
    load_a((index)at, x);
    load_b((index)at, y);
    multiply(x, y);
  }
}
auto add_lanes = [&](int n) {
  vtb_sync();
  for (int left = LANES; left > 1; left = (left + 1) / 2) {
    const int half = (left + 1) / 2;
    if (lane + half < left)
      for (int i = 0; i < n; i++)
        sums_of[i * THREADS + vtb_tid()] += sums_of[i * THREADS + vtb_tid() + half * ALONG];
    vtb_sync();
  }
};
VTB_UNROLL for (int from = 0; from < SUMS; from += CHUNK) {
  VTB_UNROLL for (int i = 0; i < CHUNK; i++)
    if (from + i < SUMS)
      sums_of[i * THREADS + vtb_tid()] = sums[(from + i) / SIDE][(from + i) % SIDE];
  add_lanes(vtb_min_int(CHUNK, SUMS - from));
  if (works && lane == 0) {
    VTB_UNROLL for (int i = 0; i < CHUNK; i++)
      if (from + i < SUMS) {
        const int m = (from + i) / SIDE, n = n0 + (from + i) % SIDE;
        const float sum = sums_of[i * THREADS + vtb_tid()];
        ${store}
      }
  }
  vtb_sync();
}
if constexpr (BIAS) {
  VTB_UNROLL for (int m = 0; m < M; m++) sums_of[m * THREADS + vtb_tid()] = bias[m];
  add_lanes(M);
  if (works && lane == 0 && n0 == 0)
    for (int m = 0; m < M; m++) {
      const int n = N;
      const float sum = sums_of[m * THREADS + vtb_tid()];
      ${store_bias}
    }
}
