/* Depthwise convolution with thin products of what it reads and makes beside it, which add up to OUTPUTS numbers a token:
 * a block owns a share of the channels of a strip of a grid row, whose tokens are the rows of a tile on tensor cores. A
 * thread convolves PER channels as in dwconv.cu and leaves factors in shared memory; warps take shares of the depth. */
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
hole int EACH;                   /* factors of the products copied at a time: 8 as they are, 4 or 1 */
hole type value;                 /* of PER channels: float or vtb_f4 */
hole type T;                     /* of tiles */
hole expr place;                 /* of step t */
hole expr x_at, w_at;            /* offsets for b, pos and ch; of ch, row a and column e */
hole code store;                 /* of the sum at b, pos and ch, and keep(p, v): v is factor p there */
hole code bring;                 /* copy(p, from) for each product: from(n) is the address of the share's factors of n */
hole code put;                   /* stores total, of output n at b and pos for `share` */
constexpr int PER = sizeof(value) / 4, WIDTH = C / SHARES, WARPS = THREADS / 32;
constexpr int ROWS = KT * KH, TAPS = ROWS * KW; /* of the kernel, all frames */
constexpr bool IN_REGISTERS = ROWS * KW * PER <= WINDOW;
constexpr int DEPTH = (WIDTH + 15) / 16 * 16, PITCH = vtb_pitch_along(DEPTH, sizeof(T)), NI = (OUTPUTS + 7) / 8;
constexpr int WIDE = 8 * NI, PIECE = EACH == 8 ? 8 : 4;
require C % SHARES == 0 && WIDTH % PIECE == 0 && THREADS * PER >= WIDTH && STRIP <= 16;
cost tensor = 32 * WIDE * DEPTH * PRODUCTS;
cost issue = WARPS * (STRIP * (ROWS * KW * PER + 8 * ROWS + 16 + 8 * PRODUCTS) + 20 * PRODUCTS * WIDE * DEPTH / (PIECE * THREADS) + 450) + PRODUCTS * DEPTH / 16 * vtb_step_issue(FACTORS, 1, NI);
shared T rows[PRODUCTS * 16 * PITCH], columns[PRODUCTS * WIDE * PITCH];
shared float sums[WARPS * 16 * WIDE];
const int share = vtb_block() % SHARES, strip = vtb_block() / SHARES % STRIPS;
const int y = vtb_block() / SHARES / STRIPS % GH, z = vtb_block() / SHARES / STRIPS / GH % GT;
const int b = vtb_block() / SHARES / STRIPS / GH / GT, tid = vtb_tid();
const int x0 = strip * STRIP, x1 = vtb_min_int(x0 + STRIP, GW), length = x1 - x0;
auto place = [&](int t) -> int { return ${place}; };
auto zero = [&](int row, int from) { /* from channel `from` on */
  for (int x = from + 4 * tid; x < DEPTH; x += 4 * THREADS) vtb_store4(rows, row * PITCH + x, vtb_splat(0.0f));
};
auto copy = [&](int p, auto from) {
  VTB_NO_UNROLL for (int i = tid; i < WIDE * DEPTH / PIECE; i += THREADS) {
    const int n = i / (DEPTH / PIECE), x = i % (DEPTH / PIECE) * PIECE, at = (p * WIDE + n) * PITCH + x;
    if (n >= OUTPUTS || x >= WIDTH) {
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
VTB_UNROLL for (int p = 0; p < PRODUCTS; p++)
  for (int row = DEPTH > WIDTH ? 0 : length; row < 16; row++) zero(p * 16 + row, row < length ? WIDTH : 0);
if (tid * PER < WIDTH) {
  const int ch = share * WIDTH + tid * PER;
  auto load = [&](int a, int column) -> value {
    const int frame = z + a / KH - FRONT, row = y + a % KH - TOP;
    if (frame < 0 || frame >= GT || row < 0 || row >= GH || column < 0 || column >= GW) return value{};
    const vtb_i64 pos = place((frame * GH + row) * GW + column);
    if constexpr (X_STEP == 0)
      return vtb_read<value>(x_in, ${x_at});
    else
      return vtb_read_apart<value>(x_in, ${x_at}, X_STEP);
  };
  auto weight = [&](int a, int e) -> value { return vtb_read_apart<value>(w_in, ${w_at}, W_STEP); };
  auto take = [&](auto &w) {
    if constexpr (PER == 4 && W_FLAT)
      vtb_take_taps<ROWS, KW, false>(w, w_in + ch * TAPS);
    else
      VTB_UNROLL for (int a = 0; a < ROWS; a++) VTB_UNROLL for (int e = 0; e < KW; e++) w[a][e] = weight(a, e);
  };
  auto store = [&](int column, value sum, value centre) {
    const vtb_i64 pos = place((z * GH + y) * GW + column);
    auto keep = [&](int p, value v) { vtb_write(rows, (p * 16 + column - x0) * PITCH + tid * PER, v); };
    ${store}
  };
  vtb_convolve<ROWS, KW, IN_REGISTERS, value>(x0, x1, LEFT, load, weight, take, [&](int x, value sum, auto near) {
    store(x, sum, near(FRONT * KH + TOP, LEFT));
  });
}
vtb_arrived();
float part[NI][4];
vtb_clear(part);
VTB_UNROLL for (int p = 0; p < PRODUCTS; p++) {
  const auto first = vtb_rows<true, PITCH>(rows, p * 16);
  const auto second = vtb_columns<true, PITCH>(columns, p * WIDE);
  for (int k = 16 * vtb_warp(); k < DEPTH; k += 16 * WARPS)
    VTB_UNROLL for (int step = 0; step < 16; step += vtb_depth(FACTORS)) vtb_step<FACTORS, 1>(part, k + step, first, second);
}
vtb_each(part, [&](int row, int n, float v) { sums[(vtb_warp() * 16 + row) * WIDE + n] = v; });
vtb_sync();
for (int i = tid; i < length * OUTPUTS; i += THREADS) {
  const int row = i / OUTPUTS, n = i % OUTPUTS;
  const vtb_i64 pos = place((z * GH + y) * GW + x0 + row);
  float total = 0.0f;
  for (int w = 0; w < WARPS; w++) total += sums[(w * 16 + row) * WIDE + n];
  ${put}
}
