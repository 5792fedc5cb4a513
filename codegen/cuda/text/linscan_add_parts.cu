/* The sum of what several blocks of linscan_steps.cu or of an adjoint make, in order: TAKEN rows
 * from FIRST on of parts [PARTS, ROWS, scans, N, WIDTH], to results with COLUMNS columns and the
 * normalizer's. */
#include "scans.cuh"
hole int N, WIDTH, COLUMNS;      /* tokens; columns of parts, of the results */
hole int PARTS, ROWS, FIRST, TAKEN;
hole int SCANS, THREADS;
hole int DIRS, HEADS;            /* directions of the launch; heads */
hole code directions;            /* pointers of direction dir */
hole expr place;                 /* of step t */
hole code put;                   /* stores sum of row `which` at pos and x */
hole code put_z;                 /* stores sum of the column behind COLUMNS at pos */
constexpr int COUNT = N * WIDTH, BLOCKS = (TAKEN * COUNT + THREADS - 1) / THREADS;
cost issue = THREADS / 32 * (34 + 4 * PARTS);
cost registers = 32;
const int scan = vtb_block() / BLOCKS, unit = vtb_block() % BLOCKS;
const int dir = scan % DIRS, b = scan / (DIRS * HEADS), h = scan / DIRS % HEADS;
${directions}
const int i = unit * THREADS + vtb_tid();
if (i < TAKEN * COUNT) {
  const int which = FIRST + i / COUNT, at = i % COUNT, x = at % WIDTH, t = at / WIDTH,
            pos = ${place};
  const vtb_i64 row = (vtb_i64)SCANS * COUNT;
  const float sum =
      vtb_sum_apart(parts, which * row + (vtb_i64)scan * COUNT + at, ROWS * row, PARTS);
  if (x < COLUMNS) {
    ${put}
  } else {
    ${put_z}
  }
}
