/* As dwconv_grad.cu, of one frame, where dy is made as it is read: a block has the grid rows of dy
 * that its threads' rows need, of its columns, in a ring in shared memory, so that each is made
 * once a share. Rows of all samples are counted through; a thread owns PER channels and moves a
 * window along every LANES-th row of its share. */
#include "convolve.cuh"
hole int C, GT, GH, GW;     /* channels; grid */
hole int KT, KH, KW;        /* kernel */
hole int FRONT, TOP, LEFT;  /* padding of the kernel turned round */
hole int STRIP, STRIPS;     /* a row is one strip */
hole int ALONG;             /* columns of a block */
hole int SHARES, ALL;       /* of the rows; all rows */
hole bool BIAS, W_FLAT;     /* weights are dense and aligned */
hole int THREADS;
hole int W_STEP, X_STEP;    /* from channel to channel; 0: neighbours, aligned */
hole type value;            /* of PER channels: float or vtb_f4 */
hole expr place;            /* of cell t */
hole int EXTRA, EXTRAS;     /* tokens that are not of the grid and go past: of a sample, of all */
hole expr extra;            /* place of the sample's e-th */
hole expr x_at, w_at;       /* offsets for b, pos and ch; of ch, row a and column e */
hole code take;             /* makes `made` of b, pos and ch */
hole code store;            /* of the sum at b, pos and ch */
constexpr int PER = sizeof(value) / 4, COLUMNS = C / PER, LANES = THREADS / ALONG,
              RING = LANES + KH - 1;
constexpr int TILES = (COLUMNS + ALONG - 1) / ALONG, SHARE = (ALL + SHARES - 1) / SHARES;
constexpr int TAPS = KH * KW, SUMS = TAPS + (BIAS ? 1 : 0), CHUNK = 4;
require C % PER == 0 && ALONG <= THREADS && GT == 1 && KT == 1 && FRONT == 0 && STRIPS == 1 &&
        STRIP == GW;
require TOP >= 0 && TOP < KH && LEFT >= 0 && LEFT < KW;
constexpr int TURNS = (SHARE + LANES - 1) / LANES,
              TOKEN = 2 * TAPS * PER + KH * (KW - 1) * PER + KH * 9 + 80, MADE = 40;
cost issue = THREADS / 32 * (TURNS * (GW * (TOKEN + MADE) + 100) + KH * GW * MADE / LANES +
                             16 * SUMS + 100);
cost wavefronts = THREADS / 32 * TURNS * GW * (KH + 1) * PER;
cost registers = 52 + PER * (3 * TAPS + 1);
require 52 + PER * (3 * TAPS + 1) <= 255; /* registers */
shared value chunk[CHUNK * THREADS];
shared value ring[RING * GW * ALONG];
const int lane = vtb_tid() / ALONG, at = vtb_tid() % ALONG,
          column = vtb_block() % TILES * ALONG + at, ch = column * PER;
const int share = vtb_block() / TILES, begin = SHARE * share, end = vtb_min_int(begin + SHARE, ALL);
const bool works = lane < LANES && column < COLUMNS;
auto place = [&](int t) -> int { return ${place}; };
auto slot = [&](int row) -> int { return row % RING * (GW * ALONG) + at; };
auto make = [&](int row) {
  const int b = row / GH, y = row % GH;
  VTB_NO_UNROLL for (int x = 0; x < GW; x++) {
    const vtb_i64 pos = place(y * GW + x);
    value made;
    {
      ${take}
    }
    ring[slot(row) + x * ALONG] = made;
  }
};
value sums[SUMS], w[KH][KW];
VTB_UNROLL for (int i = 0; i < SUMS; i++) sums[i] = value{};
VTB_UNROLL for (int a = 0; a < KH; a++) VTB_UNROLL for (int e = 0; e < KW; e++) w[a][e] = value{};
auto take = [&](auto &to) {
  if constexpr (PER == 4 && W_FLAT)
    vtb_take_taps<KH, KW, true>(to, w_in + ch * TAPS);
  else {
    VTB_UNROLL for (int a = 0; a < KH; a++)
      VTB_UNROLL for (int e = 0; e < KW; e++)
        to[a][e] = vtb_read_apart<value>(w_in, ${w_at}, W_STEP);
  }
};
if (works) take(w);
if constexpr (EXTRA > 0) {
  for (int token = share * LANES + lane; works && token < EXTRAS; token += SHARES * LANES) {
    const int b = token / EXTRA, e = token % EXTRA;
    const vtb_i64 pos = ${extra};
    value made;
    {
      ${take}
    }
    const value sum = made;
    ${store}
  }
}
VTB_NO_UNROLL for (int first = begin; first < end; first += LANES) {
  const int to = vtb_min_int(vtb_min_int(first + LANES, end) + KH - 1 - TOP, ALL);
  if (works) {
    VTB_NO_UNROLL for (int row = (first == begin ? begin - TOP : first + KH - 1 - TOP) + lane;
                       row < to; row += LANES)
      if (row >= 0) make(row);
  }
  vtb_sync();
  const int item = first + lane, y = item % GH, b = item / GH;
  if (works && item < end) {
    int slots[KH]; /* of the window's rows; -1 beyond the grid */
    VTB_UNROLL for (int a = 0; a < KH; a++)
      slots[a] = y + a - TOP < 0 || y + a - TOP >= GH ? -1 : slot(item + a - TOP);
    auto load = [&](int a, int x) -> value {
      return slots[a] < 0 || x < 0 || x >= GW ? value{} : ring[slots[a] + x * ALONG];
    };
    auto input = [&](vtb_i64 pos) -> value {
      if constexpr (X_STEP == 0)
        return vtb_read<value>(x_in, ${x_at});
      else
        return vtb_read_apart<value>(x_in, ${x_at}, X_STEP);
    };
    auto store = [&](vtb_i64 pos, value sum) {
      ${store}
    };
    /* which moves: unrolled by its columns it costs a third of the warps in registers */
    value window[KH][KW];
    VTB_UNROLL for (int a = 0; a < KH; a++)
      VTB_UNROLL for (int e = 0; e < KW; e++)
        window[a][e] = e > 0 ? load(a, e - 1 - LEFT) : value{};
    VTB_NO_UNROLL for (int x = 0; x < GW; x++) {
      const vtb_i64 pos = place(y * GW + x);
      const value in = input(pos);
      value sum = {};
      VTB_UNROLL for (int a = 0; a < KH; a++)
        VTB_UNROLL for (int e = 0; e < KW; e++) {
          window[a][e] =
              e + 1 < KW ? window[a][vtb_min_int(e + 1, KW - 1)] : load(a, x + KW - 1 - LEFT);
          sum = sum + w[a][e] * window[a][e];
          sums[TAPS - 1 - a * KW - e] = sums[TAPS - 1 - a * KW - e] + in * window[a][e];
        }
      if constexpr (BIAS) sums[SUMS - 1] = sums[SUMS - 1] + window[TOP][LEFT];
      store(pos, sum);
    }
  }
  vtb_sync();
}
vtb_add_lanes<CHUNK, THREADS, ALONG>(sums, chunk, lane, works, [&](int i, value sum) {
  vtb_write(part, (vtb_i64)(share * SUMS + i) * C + ch, sum);
});
