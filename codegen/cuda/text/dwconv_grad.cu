/* The adjoints of a depthwise convolution in its input and its weights, and the sum of dy for a
 * bias: a thread owns PER channels and moves a window of dy along strips of grid rows. With the
 * taps turned round, the window's products with them add up to dx, those with the input where the
 * thread is to dw, so that dy and the input are read once. A block owns ALONG such columns and a
 * share of the strips, its threads every LANES-th of them, and their sums are added in order to
 * part[share, tap, C], the last tap that of the bias. */
#include "convolve.cuh"
hole int C, GT, GH, GW;     /* channels; grid */
hole int KT, KH, KW;        /* kernel */
hole int FRONT, TOP, LEFT;  /* padding of the kernel turned round */
hole int STRIP, STRIPS;     /* columns of a strip; strips of a grid row */
hole int ALONG;             /* columns of a block */
hole int SHARES, ALL;       /* of the strips; all strips */
hole bool BIAS, W_FLAT;     /* weights are dense and aligned */
hole int THREADS;
hole int W_STEP, DY_STEP, X_STEP; /* from channel to channel; 0: neighbours, aligned */
hole type value;            /* of PER channels: float or vtb_f4 */
hole expr place;            /* of cell t */
hole int EXTRA, EXTRAS;     /* tokens that are not of the grid and go past: of a sample, of all */
hole expr extra;            /* place of the sample's e-th */
hole expr dy_at, x_at, w_at; /* offsets for b, pos and ch; of ch, row a and column e */
hole code store;            /* of the sum at b, pos and ch */
constexpr int PER = sizeof(value) / 4, COLUMNS = C / PER, LANES = THREADS / ALONG;
constexpr int TILES = (COLUMNS + ALONG - 1) / ALONG, SHARE = (ALL + SHARES - 1) / SHARES;
constexpr int ROWS = KT * KH, TAPS = ROWS * KW, SUMS = TAPS + (BIAS ? 1 : 0), CHUNK = 4;
require C % PER == 0 && ALONG <= THREADS;
require FRONT >= 0 && FRONT < KT && TOP >= 0 && TOP < KH && LEFT >= 0 && LEFT < KW;
/* columns whose inputs may be under way: four channels have no registers for them */
constexpr int TOGETHER = PER == 1 ? KW : 1;
constexpr int TURNS = (SHARE + LANES - 1) / LANES,
              TOKEN = 2 * TAPS * PER + (PER == 1 ? 9 * ROWS + 19 : ROWS * (5 * PER + 8) + 39);
cost issue = THREADS / 32 * (TURNS * (STRIP * TOKEN + 84) + 16 * SUMS + 100);
cost registers = 52 + PER * (3 * TAPS + 1);
require 52 + PER * (3 * TAPS + 1) <= 255; /* registers */
shared value chunk[CHUNK * THREADS];
const int lane = vtb_tid() / ALONG, column = vtb_block() % TILES * ALONG + vtb_tid() % ALONG,
          ch = column * PER;
const int share = vtb_block() / TILES, end = vtb_min_int(SHARE * (share + 1), ALL);
const bool works = lane < LANES && column < COLUMNS;
auto place = [&](int t) -> int { return ${place}; };
value sums[SUMS], w[ROWS][KW];
VTB_UNROLL for (int i = 0; i < SUMS; i++) sums[i] = value{};
VTB_UNROLL for (int a = 0; a < ROWS; a++) VTB_UNROLL for (int e = 0; e < KW; e++) w[a][e] = value{};
auto take = [&](auto &to) {
  if constexpr (PER == 4 && W_FLAT)
    vtb_take_taps<ROWS, KW, true>(to, w_in + ch * TAPS);
  else {
    VTB_UNROLL for (int a = 0; a < ROWS; a++)
      VTB_UNROLL for (int e = 0; e < KW; e++)
        to[a][e] = vtb_read_apart<value>(w_in, ${w_at}, W_STEP);
  }
};
if (works) take(w);
if constexpr (EXTRA > 0) {
  for (int token = share * LANES + lane; works && token < EXTRAS; token += SHARES * LANES) {
    const int b = token / EXTRA, e = token % EXTRA;
    const vtb_i64 pos = ${extra};
    value sum;
    if constexpr (DY_STEP == 0)
      sum = vtb_read<value>(dy_in, ${dy_at});
    else
      sum = vtb_read_apart<value>(dy_in, ${dy_at}, DY_STEP);
    ${store}
  }
}
for (int item = SHARE * share + lane; works && item < end; item += LANES) {
  const int x0 = item % STRIPS * STRIP, x1 = vtb_min_int(x0 + STRIP, GW), y = item / STRIPS % GH;
  const int z = item / STRIPS / GH % GT, b = item / STRIPS / GH / GT;
  auto load = [&](int a, int at) -> value {
    const int frame = z + a / KH - FRONT, row = y + a % KH - TOP;
    if (frame < 0 || frame >= GT || row < 0 || row >= GH || at < 0 || at >= GW) return value{};
    const vtb_i64 pos = place((frame * GH + row) * GW + at);
    if constexpr (DY_STEP == 0)
      return vtb_read<value>(dy_in, ${dy_at});
    else
      return vtb_read_apart<value>(dy_in, ${dy_at}, DY_STEP);
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
  /* TOGETHER: a column's place is its number modulo KW, so that nothing moves */
  value window[ROWS][KW];
  VTB_UNROLL for (int a = 0; a < ROWS; a++)
    VTB_UNROLL for (int e = 0; e < KW; e++)
      window[a][e] = e + 1 < KW ? load(a, x0 + e - LEFT) : value{};
  VTB_NO_UNROLL for (int at = x0; at < x1; at += TOGETHER)
    VTB_UNROLL for (int c = 0; c < TOGETHER; c++) {
      if (at + c >= x1) break;
      const vtb_i64 pos = place((z * GH + y) * GW + at + c);
      const value in = input(pos);
      value sum = {};
      VTB_UNROLL for (int a = 0; a < ROWS; a++) {
        window[a][(c + KW - 1) % KW] = load(a, at + c + KW - 1 - LEFT);
        VTB_UNROLL for (int e = 0; e < KW; e++) {
          sum = sum + w[a][e] * window[a][(c + e) % KW];
          sums[TAPS - 1 - a * KW - e] = sums[TAPS - 1 - a * KW - e] + in * window[a][(c + e) % KW];
        }
      }
      if constexpr (BIAS)
        sums[SUMS - 1] = sums[SUMS - 1] + window[FRONT * KH + TOP][(c + LEFT) % KW];
      store(pos, sum);
      if constexpr (TOGETHER == 1) {
        VTB_UNROLL for (int a = 0; a < ROWS; a++)
          VTB_UNROLL for (int e = 0; e + 1 < KW; e++) window[a][e] = window[a][e + 1];
      }
    }
}
vtb_add_lanes<CHUNK, THREADS, ALONG>(sums, chunk, lane, works, [&](int i, value sum) {
  vtb_write(part, (vtb_i64)(share * SUMS + i) * C + ch, sum);
});
