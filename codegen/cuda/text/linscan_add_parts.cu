/* What several blocks of linscan_steps.cu or linscan_steps_grad.cu add up to, in order: row WHICH of parts
 * [PARTS, ROWS, scans, N, WIDTH], to a result with COLUMNS columns and the normalizer's. */
#include "scans.cuh"
hole int N, WIDTH, COLUMNS;      /* tokens; columns of parts, of the result */
hole int PARTS, ROWS, WHICH;
hole int SCANS, THREADS;
hole int DIRS, HEADS;            /* directions of the launch; heads */
hole code directions;            /* pointers of direction dir */
hole expr place;                 /* of step t */
hole expr result_at;             /* offset for pos and x */
hole code put_z;                 /* stores sum of the column behind COLUMNS at pos */
constexpr int COUNT = N * WIDTH, BLOCKS = (COUNT + THREADS - 1) / THREADS;
cost issue = THREADS / 32 * (30 + 4 * PARTS);
const int scan = vtb_block() / BLOCKS, unit = vtb_block() % BLOCKS;
const int dir = scan % DIRS, b = scan / (DIRS * HEADS), h = scan / DIRS % HEADS;
${directions}
const int i = unit * THREADS + vtb_tid();
if (i < COUNT) {
  const int x = i % WIDTH, t = i / WIDTH, pos = ${place};
  const vtb_i64 row = (vtb_i64)SCANS * COUNT;
  const float sum = vtb_sum_apart(parts, WHICH * row + (vtb_i64)scan * COUNT + i, ROWS * row, PARTS);
  if (x < COLUMNS) {
    result[${result_at}] = sum;
  } else {
    ${put_z}
  }
}
