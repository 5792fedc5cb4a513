/* Depthwise convolution: a thread owns PER channels of a strip of a grid row, and moves a window of inputs along it. */
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
hole expr place;                 /* of step t */
hole expr x_at, w_at;            /* offsets for b, pos and ch; of ch, row a and column e */
hole code store;                 /* of the sum at b, pos and ch */
constexpr int PER = sizeof(value) / 4, COLUMNS = C / PER;
constexpr int ROWS = KT * KH, TAPS = ROWS * KW; /* of the kernel, all frames */
constexpr bool IN_REGISTERS = ROWS * KW * PER <= WINDOW;
require C % PER == 0;
cost issue = THREADS / 32 * STRIP * (ROWS * KW * PER + 8 * ROWS + 12);
const vtb_i64 thread = (vtb_i64)vtb_block() * THREADS + vtb_tid();
if (thread < ITEMS) {
  const int ch = (int)(thread % COLUMNS) * PER, strip = (int)(thread / COLUMNS % STRIPS);
  const int y = (int)(thread / COLUMNS / STRIPS % GH), z = (int)(thread / COLUMNS / STRIPS / GH % GT);
  const int b = (int)(thread / COLUMNS / STRIPS / GH / GT);
  const int x0 = strip * STRIP, x1 = vtb_min_int(x0 + STRIP, GW);
  auto place = [&](int t) -> int { return ${place}; };
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
  auto store = [&](int column, value sum) {
    const vtb_i64 pos = place((z * GH + y) * GW + column);
    ${store}
  };
  if constexpr (IN_REGISTERS) {
    value w[ROWS][KW], window[ROWS][KW];
    if constexpr (PER == 4 && W_FLAT) {
      float taps[4 * TAPS];
      VTB_UNROLL for (int i = 0; i < TAPS; i++) {
        const vtb_f4 four = vtb_load4(w_in, ch * TAPS + 4 * i);
        taps[4 * i] = four.x, taps[4 * i + 1] = four.y, taps[4 * i + 2] = four.z, taps[4 * i + 3] = four.w;
      }
      VTB_UNROLL for (int a = 0; a < ROWS; a++) VTB_UNROLL for (int e = 0; e < KW; e++) {
        const int tap = TURNED ? TAPS - 1 - a * KW - e : a * KW + e;
        vtb_put4(w[a][e], taps[tap], taps[TAPS + tap], taps[2 * TAPS + tap], taps[3 * TAPS + tap]);
      }
    } else {
      VTB_UNROLL for (int a = 0; a < ROWS; a++) VTB_UNROLL for (int e = 0; e < KW; e++) w[a][e] = weight(a, e);
    }
    VTB_UNROLL for (int a = 0; a < ROWS; a++)
      VTB_UNROLL for (int e = 0; e < KW; e++) window[a][e] = e > 0 ? load(a, x0 + e - 1 - LEFT) : value{};
    for (int x = x0; x < x1; x++) {
      value sum = {};
      VTB_UNROLL for (int a = 0; a < ROWS; a++) {
        VTB_UNROLL for (int e = 0; e < KW; e++) {
          window[a][e] = e + 1 < KW ? window[a][vtb_min_int(e + 1, KW - 1)] : load(a, x + KW - 1 - LEFT);
          sum = sum + w[a][e] * window[a][e];
        }
      }
      store(x, sum);
    }
  } else {
    for (int x = x0; x < x1; x++) {
      value sum = {};
      for (int a = 0; a < ROWS; a++)
        for (int e = 0; e < KW; e++) sum = sum + weight(a, e) * load(a, x + e - LEFT);
      store(x, sum);
    }
  }
}
