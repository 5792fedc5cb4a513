/* Statistics of rows from those of their parts of COLUMNS columns, part[row, part] = mean and
 * squares of what they are off it: eight lanes add up a row's, in a fixed order and without
 * cancellation. */
hole int ROWS, PARTS, COLUMNS;
hole int THREADS;
constexpr int EACH = (PARTS + 7) / 8;
cost issue = THREADS / 32 * (EACH * 11 + 40);
const int row = (vtb_block() * THREADS + vtb_tid()) / 8, lane = vtb_tid() % 8;
float mean[EACH], squares[EACH], total = 0.0f, all = 0.0f;
VTB_UNROLL for (int i = 0; i < EACH; i++) {
  const int p = lane + i * 8;
  const bool here = row < ROWS && p < PARTS;
  mean[i] = here ? part[((vtb_i64)row * PARTS + p) * 2] : 0.0f;
  squares[i] = here ? part[((vtb_i64)row * PARTS + p) * 2 + 1] : 0.0f;
  total += mean[i];
}
VTB_UNROLL for (int m = 4; m > 0; m >>= 1) total += vtb_shfl_xor(total, m);
total *= 1.0f / PARTS;
VTB_UNROLL for (int i = 0; i < EACH; i++) {
  const float off = mean[i] - total;
  if (lane + i * 8 < PARTS) all += squares[i] + COLUMNS * (off * off);
}
VTB_UNROLL for (int m = 4; m > 0; m >>= 1) all += vtb_shfl_xor(all, m);
if (row < ROWS && lane == 0) {
  mean_to[row] = total;
  squares_to[row] = all;
}
