/* Depthwise convolution with thin products of what it reads and makes beside it, which add up to
 * OUTPUTS numbers a token: a block owns a share of the channels of a strip of a grid row, whose
 * tokens are the rows of a tile on tensor cores. A thread convolves PER channels as in dwconv.cu
 * and leaves factors in shared memory; warps take shares of the depth. Factors of many outputs come
 * in turn, a product's in the place of the one before, so that more blocks share a
 * multiprocessor. */
#include "products.cuh"
#include "convolve.cuh"
hole int C, GT, GH, GW;          /* channels; grid */
hole int KT, KH, KW;             /* kernel */
hole int FRONT, TOP, LEFT;       /* padding */
hole int STRIP, STRIPS;          /* columns of a strip; strips of a grid row */
hole int SHARES, PRODUCTS;       /* of the channels; thin products */
hole int OUTPUTS;                /* of each */
hole int FACTORS;                /* how they round: products.cuh */
hole int THREADS, WINDOW;        /* WINDOW: taps times PER that may sit in registers */
hole int W_STEP;                 /* from channel to channel of the weights */
hole bool W_FLAT;                /* weights are dense and aligned */
hole int X_STEP;                 /* from channel to channel of the input; 0: neighbours, aligned */
hole int EACH;                   /* factors of the products copied at a time: 8 as they are, 4 or
                                  * 1 */
hole type value;                 /* of PER channels: float or vtb_f4 */
hole type T;                     /* of tiles */
hole int X_ALONG;                /* from token to token of a grid row of the input; 0: not the same
                                  * everywhere */
hole expr place;                 /* of cell t */
hole int EXTRA, EXTRAS;          /* tokens that are not of the grid and go past: of a sample, of
                                  * all */
hole expr extra;                 /* place of the sample's e-th */
hole bool START;                 /* sums begin with a number a channel */
hole expr start_from;            /* address of ch's */
hole int START_STEP;             /* from channel to channel */
hole int GRID_BLOCKS;            /* blocks of strips of the grid; those of extra tokens, a strip's,
                                  * are behind them */
hole expr x_at, w_at;            /* offsets for b, pos and ch; of ch, row a and column e */
hole code store;                 /* of the sum at b, pos and ch, and keep(p, v): v is factor p
                                  * there */
hole code bring;                 /* copy(p, from) for each product: from(n) is the address of the
                                  * share's factors of n */
hole code put;                   /* stores total, of output n at b and pos for `share` */
constexpr int PER = sizeof(value) / 4, WIDTH = C / SHARES, WARPS = THREADS / 32;
constexpr int ROWS = KT * KH, TAPS = ROWS * KW; /* of the kernel, all frames */
/* windows have their own row */
constexpr bool OWN = FRONT >= 0 && FRONT < KT && TOP >= 0 && TOP < KH;
constexpr bool IN_REGISTERS = OWN && ROWS * KW * PER <= WINDOW;
constexpr int DEPTH = (WIDTH + 15) / 16 * 16, PITCH = vtb_pitch_along(DEPTH, sizeof(T)),
              NI = (OUTPUTS + 7) / 8;
constexpr int WIDE = 8 * NI, PIECE = EACH == 8 ? 8 : 4;
constexpr bool IN_TURN = PRODUCTS > 1 && NI > 1;
/* of a row of factors; rows copied at a time */
constexpr int PIECES = DEPTH / PIECE, AT_ONCE = THREADS / PIECES;
require C % SHARES == 0 && WIDTH % PIECE == 0 && THREADS * PER >= WIDTH && STRIP <= 16 &&
        AT_ONCE > 0;
cost tensor = 32 * WIDE * DEPTH * PRODUCTS;
constexpr bool ALONE = STRIP == GW; /* a strip is a grid row */
/* of a strip and a row of the kernel */
constexpr int ROW_EFFORT = (ALONE ? vtb_taps_met(STRIP, KW, LEFT) : STRIP * KW) * PER +
                           (STRIP + (ALONE ? 0 : KW - 1)) * (PER + 2) + 2 * KW * PER;
/* of a token */
constexpr int EFFORT = IN_REGISTERS ? TAPS * PER + ROWS * (PER + 2)
                       : KW <= 16   ? KT * vtb_taps_met(GH, KH, TOP) * ROW_EFFORT / (GH * STRIP)
                                    : TAPS * (12 + 3 * PER);
cost issue = WARPS * (STRIP * (EFFORT + 4 + 3 * PRODUCTS) + (IN_REGISTERS ? 2 * TAPS * PER : 0) +
                      180 + 5 * PRODUCTS * WIDE / AT_ONCE) +
             PRODUCTS * DEPTH / 16 * vtb_step_issue(FACTORS, 1, NI) +
             (IN_TURN ? 12 * WARPS * PRODUCTS : 0);
cost registers = vtb_max_int(
    40 + (IN_REGISTERS ? 2 * TAPS * PER : KW <= 16 ? (STRIP + KW) * PER : 0), IN_TURN ? 128 : 0);
shared T rows[PRODUCTS * 16 * PITCH], columns[(IN_TURN ? 1 : PRODUCTS) * WIDE * PITCH];
shared float apart[IN_TURN ? 0 : WARPS * 16 * WIDE];
shared float sums[WARPS * 16 * WIDE] over IN_TURN ? columns : apart;
const bool past = EXTRA > 0 && vtb_block() >= GRID_BLOCKS;
/* of all extra tokens */
const int first_of = past ? (vtb_block() - GRID_BLOCKS) / SHARES * STRIP : 0;
const int share = vtb_block() % SHARES, strip = vtb_block() / SHARES % STRIPS;
const int y = vtb_block() / SHARES / STRIPS % GH, z = vtb_block() / SHARES / STRIPS / GH % GT;
const int b_of = vtb_block() / SHARES / STRIPS / GH / GT, tid = vtb_tid();
const int x0 = strip * STRIP, length = past ? vtb_min_int(STRIP, EXTRAS - first_of)
                                       : STRIP * STRIPS == GW ? STRIP
                                                              : vtb_min_int(STRIP, GW - x0);
auto place = [&](int t) -> int { return ${place}; };
/* of token c of the block; its place */
auto sample_of = [&](int c) -> int { return past ? (first_of + c) / vtb_max_int(EXTRA, 1) : b_of; };
auto token_at = [&](int c) -> vtb_i64 {
  if constexpr (EXTRA > 0) {
    const int e = (first_of + c) % vtb_max_int(EXTRA, 1);
    if (past) return ${extra};
  }
  return place((z * GH + y) * GW + x0 + c);
};
auto zero = [&](int row, int from) { /* from channel `from` on */
  VTB_UNROLL for (int i = 0; i < (DEPTH + 4 * THREADS - 1) / (4 * THREADS); i++) {
    const int x = from + 4 * (tid + i * THREADS);
    if (x < DEPTH) vtb_store4(rows, row * PITCH + x, vtb_splat(0.0f));
  }
};
int turn = 0;
auto copy = [&](int product, auto from) {
  const int first = tid / PIECES, x = tid % PIECES * PIECE, p = IN_TURN ? 0 : product;
  if (IN_TURN && product != turn) return;
  VTB_UNROLL for (int i = 0; i < (WIDE + AT_ONCE - 1) / AT_ONCE; i++) {
    const int n = first + i * AT_ONCE, at = (p * WIDE + n) * PITCH + x;
    if ((THREADS > AT_ONCE * PIECES && first >= AT_ONCE) || (WIDE % AT_ONCE > 0 && n >= WIDE))
      continue;
    if ((OUTPUTS < WIDE && n >= OUTPUTS) || (DEPTH > WIDTH && x >= WIDTH)) {
      for (int e = 0; e < PIECE; e += 4) vtb_store4(columns, at + e, vtb_splat(0.0f));
    } else if constexpr (EACH == 8) {
      vtb_cp_async16(columns + at, from(n) + x, true);
    } else if constexpr (EACH == 4) {
      vtb_bring4(columns + at, from(n) + x);
    } else {
      for (int e = 0; e < 4; e++) columns[at + e] = from(n)[x + e];
    }
  }
};
${bring}
vtb_cp_commit();
VTB_UNROLL for (int p = 0; p < PRODUCTS; p++) VTB_UNROLL for (int row = 0; row < 16; row++)
  if (row >= length || DEPTH > WIDTH) zero(p * 16 + row, row < length ? WIDTH : 0);
if (THREADS * PER == WIDTH || tid * PER < WIDTH) {
  const int ch = share * WIDTH + tid * PER, b = b_of;
  auto is_row = [&](int a) -> bool {
    const int frame = z + a / KH - FRONT, row = y + a % KH - TOP;
    return frame >= 0 && frame < GT && row >= 0 && row < GH;
  };
  auto load = [&](int a, int c) -> value {
    const int frame = vtb_within(z + a / KH - FRONT, GT), row = vtb_within(y + a % KH - TOP, GH),
              column = x0 + c;
    if (!IN_REGISTERS && !is_row(a)) return value{};
    if ((STRIP * STRIPS > GW || c < 0 || c >= STRIP) && (column < 0 || column >= GW))
      return value{};
    const vtb_i64 pos = place((frame * GH + row) * GW + (X_ALONG ? x0 : column));
    const auto from = x_in + (${x_at}); /* a row's addresses are one and numbers */
    if constexpr (X_STEP == 0)
      return vtb_read<value>(from, X_ALONG * c);
    else
      return vtb_read_apart<value>(from, X_ALONG * c, X_STEP);
  };
  auto weight = [&](int a, int e) -> value { return vtb_read_apart<value>(w_in, ${w_at}, W_STEP); };
  auto take = [&](auto &w) {
    if constexpr (PER == 4 && W_FLAT)
      vtb_take_taps<ROWS, KW, false>(w, w_in + ch * TAPS);
    else {
      VTB_UNROLL for (int a = 0; a < ROWS; a++)
        VTB_UNROLL for (int e = 0; e < KW; e++) w[a][e] = weight(a, e);
    }
    VTB_UNROLL for (int a = 0; a < ROWS; a++)
      if (!is_row(a)) {
        VTB_UNROLL for (int e = 0; e < KW; e++) w[a][e] = value{};
      }
  };
  auto store = [&](int c, value sum, value centre) {
    const int b = sample_of(c);
    const vtb_i64 pos = token_at(c);
    auto keep = [&](int p, value v) { vtb_write(rows, (p * 16 + c) * PITCH + tid * PER, v); };
    ${store}
  };
  if (past) {
    VTB_NO_UNROLL for (int c = 0; c < length; c++) {
      const int b = sample_of(c);
      const vtb_i64 pos = token_at(c);
      value own;
      if constexpr (X_STEP == 0)
        own = vtb_read<value>(x_in, ${x_at});
      else
        own = vtb_read_apart<value>(x_in, ${x_at}, X_STEP);
      store(c, own, own);
    }
  } else {
    vtb_convolve<ROWS, KW, IN_REGISTERS, STRIP, STRIP * STRIPS == GW, ALONE, value>(
        length, LEFT, is_row, load, weight, take, [&](int c, value sum, auto near) {
          if constexpr (START) sum = sum + vtb_read_apart<value>(${start_from}, 0, START_STEP);
          store(c, sum, near(FRONT * KH + TOP, LEFT));
        });
  }
}
vtb_arrived();
float part[NI][4];
vtb_clear(part);
VTB_UNROLL for (int p = 0; p < PRODUCTS; p++) {
  if (IN_TURN && p > 0) {
    turn = p;
    vtb_sync();
    ${bring}
    vtb_cp_commit();
    vtb_arrived();
  }
  const auto first = vtb_rows<true, PITCH>(rows, p * 16);
  const auto second = vtb_columns<true, PITCH>(columns, IN_TURN ? 0 : p * WIDE);
  for (int k = 16 * vtb_warp(); k < DEPTH; k += 16 * WARPS)
    VTB_UNROLL for (int step = 0; step < 16; step += vtb_depth(FACTORS))
      vtb_step<FACTORS, 1>(part, k + step, first, second);
}
if constexpr (IN_TURN) vtb_sync();
vtb_each(part, [&](int row, int n, float v) { sums[(vtb_warp() * 16 + row) * WIDE + n] = v; });
vtb_sync();
VTB_NO_UNROLL for (int i = tid; i < length * OUTPUTS; i += THREADS) {
  const int row = i / OUTPUTS, n = i % OUTPUTS, b = sample_of(row);
  const vtb_i64 pos = token_at(row);
  float total = 0.0f;
  for (int w = 0; w < WARPS; w++) total += sums[(w * 16 + row) * WIDE + n];
  ${put}
}
