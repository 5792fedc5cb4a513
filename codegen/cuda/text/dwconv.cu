/* Depthwise convolution: a thread owns PER channels of a strip of a grid row, and moves a window of
 * inputs along it. The taps of single channels lie apart, so that a block brings those of its
 * channels to shared memory in one piece. */
#include "convolve.cuh"
hole int C, GT, GH, GW;          /* channels; grid */
hole int KT, KH, KW;             /* kernel */
hole int FRONT, TOP, LEFT;       /* padding */
hole int STRIP, STRIPS;          /* columns of a strip; strips of a grid row */
hole vtb_i64 ITEMS;              /* strips of all, times C / PER */
hole int THREADS, WINDOW;        /* WINDOW: taps times PER that may sit in registers */
hole int W_STEP;                 /* from channel to channel of the weights */
hole bool W_FLAT, TURNED;        /* weights are dense and aligned; their taps are read backwards */
hole int X_STEP;                 /* from channel to channel of the input; 0: neighbours, aligned */
hole type value;                 /* of PER channels: float or vtb_f4 */
hole int X_ALONG;                /* from token to token of a grid row of the input; 0: not the same
                                  * everywhere */
hole expr place;                 /* of cell t */
hole int EXTRA, EXTRAS;          /* tokens that are not of the grid and go past: of a sample, of
                                  * all */
hole expr extra;                 /* place of the sample's e-th */
hole bool START;                 /* sums begin with a number a channel */
hole expr start_from;            /* address of ch's */
hole int START_STEP;             /* from channel to channel */
hole expr x_at, w_at;            /* offsets for b, pos and ch; of ch, row a and column e */
hole code store;                 /* of the sum at b, pos and ch */
constexpr int PER = sizeof(value) == 16 ? 4 : 1, COLUMNS = C / PER;
constexpr int ROWS = KT * KH, TAPS = ROWS * KW; /* of the kernel, all frames */
/* windows have their own row */
constexpr bool OWN = FRONT >= 0 && FRONT < KT && TOP >= 0 && TOP < KH;
constexpr bool IN_REGISTERS = OWN && ROWS * KW * PER <= WINDOW;
/* odd: no bank twice */
constexpr int SLOTS = COLUMNS < THREADS ? COLUMNS : THREADS, PITCH = TAPS + 1 - TAPS % 2;
constexpr bool STAGED = PER == 1 && W_FLAT && TAPS > 1 && SLOTS * PITCH <= 16384;
require C % PER == 0;
constexpr bool ALONE = STRIP == GW; /* a strip is a grid row */
/* of a strip and a row of the kernel */
constexpr int ROW_EFFORT = (ALONE ? vtb_taps_met(STRIP, KW, LEFT) : STRIP * KW) * PER +
                           (STRIP + (ALONE ? 0 : KW - 1)) * (PER + 2) + 2 * KW * PER;
/* of a token */
constexpr int EFFORT = IN_REGISTERS ? TAPS * PER + ROWS * (PER + 2)
                       : KW <= 16   ? KT * vtb_taps_met(GH, KH, TOP) * ROW_EFFORT / (GH * STRIP)
                                    : TAPS * (12 + 3 * PER);
cost issue = THREADS / 32 * (STRIP * (EFFORT + 6) +
                             (IN_REGISTERS || PER == 1 ? TAPS * (PER == 4 ? 8 : 5) : 0) + 80);
cost registers = 40 + (IN_REGISTERS ? 2 * TAPS * PER : KW <= 16 ? (STRIP + KW) * PER : 0);
shared float taps[STAGED ? SLOTS * PITCH : 1]; /* of slot s: those of the channel of thread s */
const vtb_i64 thread = (vtb_i64)vtb_block() * THREADS + vtb_tid();
if constexpr (STAGED) {
  const int first = (int)((vtb_i64)vtb_block() * THREADS % COLUMNS);
  for (int i = vtb_tid(); i < SLOTS * TAPS; i += THREADS)
    taps[i / TAPS * PITCH + i % TAPS] = w_in[(first + i / TAPS) % COLUMNS * TAPS + i % TAPS];
  vtb_sync();
}
if constexpr (EXTRA > 0) {
  const vtb_i64 token = (thread - ITEMS) / COLUMNS;
  if (thread >= ITEMS && token < EXTRAS) {
    const int ch = (int)(thread % COLUMNS) * PER, e = (int)(token % EXTRA),
              b = (int)(token / EXTRA);
    const vtb_i64 pos = ${extra};
    value sum;
    if constexpr (X_STEP == 0)
      sum = vtb_read<value>(x_in, ${x_at});
    else
      sum = vtb_read_apart<value>(x_in, ${x_at}, X_STEP);
    ${store}
  }
}
if (thread < ITEMS) {
  const int ch = (int)(thread % COLUMNS) * PER, strip = (int)(thread / COLUMNS % STRIPS);
  const int y = (int)(thread / COLUMNS / STRIPS % GH),
            z = (int)(thread / COLUMNS / STRIPS / GH % GT);
  const int b = (int)(thread / COLUMNS / STRIPS / GH / GT);
  const int x0 = strip * STRIP;
  auto place = [&](int t) -> int { return ${place}; };
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
  auto weight = [&](int a, int e) -> value {
    if constexpr (STAGED)
      return vtb_read<value>(taps, vtb_tid() % SLOTS * PITCH +
                                       (TURNED ? TAPS - 1 - a * KW - e : a * KW + e));
    else
      return vtb_read_apart<value>(w_in, ${w_at}, W_STEP);
  };
  auto store = [&](int column, value sum) {
    const vtb_i64 pos = place((z * GH + y) * GW + column);
    if constexpr (START) sum = sum + vtb_read_apart<value>(${start_from}, 0, START_STEP);
    ${store}
  };
  auto take = [&](auto &w) {
    if constexpr (PER == 4 && W_FLAT)
      vtb_take_taps<ROWS, KW, TURNED>(w, w_in + ch * TAPS);
    else {
      VTB_UNROLL for (int a = 0; a < ROWS; a++)
        VTB_UNROLL for (int e = 0; e < KW; e++) w[a][e] = weight(a, e);
    }
    VTB_UNROLL for (int a = 0; a < ROWS; a++)
      if (!is_row(a)) {
        VTB_UNROLL for (int e = 0; e < KW; e++) w[a][e] = value{};
      }
  };
  vtb_convolve<ROWS, KW, IN_REGISTERS, STRIP, STRIP * STRIPS == GW, ALONE, value>(
      vtb_min_int(STRIP, GW - x0), LEFT, is_row, load, weight, take,
      [&](int c, value sum, auto) { store(x0 + c, sum); });
}
