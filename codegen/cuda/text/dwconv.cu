/* Depthwise convolution: a thread owns PER channels of a strip of a grid row, and moves a window of inputs along it. */
constexpr int C = ${C}, GH = ${GH}, GW = ${GW}, KH = ${KH}, KW = ${KW}, TOP = ${TOP}, LEFT = ${LEFT}, PER = ${PER};
constexpr int STRIP = ${STRIP}, STRIPS = ${STRIPS}, COLUMNS = C / PER;
constexpr vtb_i64 THREADS = ${THREADS};
constexpr bool IN_REGISTERS = KH * KW * PER <= ${WINDOW};
typedef ${value} value;
const vtb_i64 thread = (vtb_i64)vtb_block() * 128 + vtb_tid();
if (thread < THREADS) {
  const int ch = (int)(thread % COLUMNS) * PER, strip = (int)(thread / COLUMNS % STRIPS);
  const int y = (int)(thread / COLUMNS / STRIPS % GH), b = (int)(thread / COLUMNS / STRIPS / GH);
  const int x0 = strip * STRIP, x1 = vtb_min_int(x0 + STRIP, GW);
  auto place = [&](int t) -> int { return ${place}; };
  auto load = [&](int row, int column) -> value {
    if (row < 0 || row >= GH || column < 0 || column >= GW) return ${zero};
    const vtb_i64 pos = place(row * GW + column);
    return ${load};
  };
  auto weight = [&](int a, int e) -> value { return ${weight}; };
  auto store = [&](int column, value sum) {
    const vtb_i64 pos = place(y * GW + column);
    ${store};
  };
  if constexpr (IN_REGISTERS) {
    value w[KH][KW], window[KH][KW];
    VTB_UNROLL for (int a = 0; a < KH; a++) VTB_UNROLL for (int e = 0; e < KW; e++) {
      w[a][e] = weight(a, e);
      window[a][e] = e > 0 ? load(y + a - TOP, x0 + e - 1 - LEFT) : ${zero};
    }
    for (int x = x0; x < x1; x++) {
      value sum = ${zero};
      VTB_UNROLL for (int a = 0; a < KH; a++) {
        VTB_UNROLL for (int e = 0; e < KW; e++) {
          window[a][e] = e + 1 < KW ? window[a][vtb_min_int(e + 1, KW - 1)] : load(y + a - TOP, x + KW - 1 - LEFT);
          sum = sum + w[a][e] * window[a][e];
        }
      }
      store(x, sum);
    }
  } else {
    for (int x = x0; x < x1; x++) {
      value sum = ${zero};
      for (int a = 0; a < KH; a++)
        for (int e = 0; e < KW; e++) sum = sum + weight(a, e) * load(y + a - TOP, x + e - LEFT);
      store(x, sum);
    }
  }
}
