/* Products with a short sum, of many rows with small matrices, one a group: y[row, g, n] = sum over
 * k of x[row, g, k] w[g, n, k]. A thread owns PER neighbouring columns (g, n), keeps their weights
 * in registers and walks its rows, four at a time; lanes run along the columns. */
hole vtb_i64 ROWS;
hole int GROUPS, N, K;         /* columns are (g, n) */
hole int PER, EACH;            /* columns and rows of a thread */
hole int THREADS;
hole int X_WIDE, W_WIDE, Y_WIDE; /* elements moved at a time: 4 or 1 */
hole int ADD_WIDE;             /* 0: nothing is added */
hole type index;               /* of rows: int or vtb_i64 */
hole expr x_row, x_g, x_k;     /* offsets of row, g and k */
hole expr w_g, w_n, w_k;       /* of g, n and k */
hole expr y_row, y_g, y_n;
hole expr add_row, add_g, add_n;
hole expr add_in;              /* what is added */
constexpr int SPAN = PER > N ? PER / N : 1;   /* groups of a thread */
constexpr int COLUMNS = GROUPS * N / PER, AT_ONCE = 4;
require PER % N == 0 || N % PER == 0;
require GROUPS * N % PER == 0 && K * PER <= 64;
const vtb_i64 thread = (vtb_i64)vtb_block() * THREADS + vtb_tid();
const int column = (int)(thread % COLUMNS) * PER, g0 = column / N, n0 = column % N;
const vtb_i64 first = thread / COLUMNS * EACH, end = first + EACH < ROWS ? first + EACH : ROWS;
if (first < ROWS) {
  float w[PER][K];
  VTB_UNROLL for (int i = 0; i < PER; i++) VTB_UNROLL for (int k = 0; k < K; k += W_WIDE) {
    const int g = g0 + (n0 + i) / N, n = (n0 + i) % N;
    const vtb_i64 at = ${w_g} + ${w_n} + ${w_k};
    if constexpr (W_WIDE == 4) {
      const vtb_f4 four = vtb_load4(w_in, at);
      w[i][k] = four.x, w[i][k + 1] = four.y, w[i][k + 2] = four.z, w[i][k + 3] = four.w;
    } else {
      w[i][k] = w_in[at];
    }
  }
  auto load = [&](index row, float (&x)[SPAN * K], float (&y)[PER]) {
    if constexpr (ADD_WIDE == 4) {
      const int g = g0, n = n0;
      VTB_UNROLL for (int i = 0; i < PER; i += 4) {
        const vtb_f4 four = vtb_load4(${add_in}, ${add_row} + ${add_g} + ${add_n} + i);
        y[i] = four.x, y[i + 1] = four.y, y[i + 2] = four.z, y[i + 3] = four.w;
      }
    } else {
      VTB_UNROLL for (int i = 0; i < PER; i++) {
        const int g = g0 + (n0 + i) / N, n = (n0 + i) % N;
        y[i] = ADD_WIDE ? (float)${add_in}[${add_row} + ${add_g} + ${add_n}] : 0.0f;
      }
    }
    if constexpr (X_WIDE == 4) {
      const int g = g0, k = 0;
      VTB_UNROLL for (int i = 0; i < SPAN * K; i += 4) {
        const vtb_f4 four = vtb_load4(x_in, ${x_row} + ${x_g} + ${x_k} + i);
        x[i] = four.x, x[i + 1] = four.y, x[i + 2] = four.z, x[i + 3] = four.w;
      }
    } else {
      VTB_UNROLL for (int i = 0; i < SPAN * K; i++) {
        const int g = g0 + i / K, k = i % K;
        x[i] = x_in[${x_row} + ${x_g} + ${x_k}];
      }
    }
  };
  auto multiply = [&](index row, const float (&x)[SPAN * K], float (&y)[PER]) {
    VTB_UNROLL for (int i = 0; i < PER; i++) {
      const int from = PER > N ? i / N * K : 0;
      float sum = 0.0f;
      VTB_UNROLL for (int k = 0; k < K; k++) sum += w[i][k] * x[from + k];
      y[i] += sum;
    }
    if constexpr (Y_WIDE == 4) {
      const int g = g0, n = n0;
      VTB_UNROLL for (int i = 0; i < PER; i += 4) {
        const vtb_f4 four = {y[i], y[i + 1], y[i + 2], y[i + 3]};
        vtb_store4(y_out, ${y_row} + ${y_g} + ${y_n} + i, four);
      }
    } else {
      VTB_UNROLL for (int i = 0; i < PER; i++) {
        const int g = g0 + (n0 + i) / N, n = (n0 + i) % N;
        y_out[${y_row} + ${y_g} + ${y_n}] = y[i];
      }
    }
  };
  index row = (index)first;
  for (; row + AT_ONCE <= end; row += AT_ONCE) {
    float x[AT_ONCE][SPAN * K], y[AT_ONCE][PER];
    VTB_UNROLL for (int r = 0; r < AT_ONCE; r++) load(row + r, x[r], y[r]);
    VTB_UNROLL for (int r = 0; r < AT_ONCE; r++) multiply(row + r, x[r], y[r]);
  }
  for (; row < end; row++) {
    float x[SPAN * K], y[PER];
    load(row, x, y);
    multiply(row, x, y);
  }
}
