/* The parts that ranges of k made of a product and of a factor's sums (product.cu), added in
 * order. */
hole int M, N, BATCHES, SPLITS;
hole int SUMS, SUM_ROWS; /* sums of a factor, a batch entry: their parts lie behind those of the
                          * product */
hole int THREADS;
hole int EACH;           /* elements of a thread: 1, or 4 along n */
hole code store, store4; /* of the sum at batch, m, n; of vsum, from n on */
hole bool PARTED;        /* store4 leaves in `vpart` what it stores: mean and squares of 32 columns
                          * of a row are kept */
hole code store_part;    /* part_mean, part_squares of the columns from n - n % 32 on, at batch,
                          * m */
hole code store_total;   /* of total: at batch, row `at` */
require !PARTED || (EACH == 4 && N % 32 == 0);
constexpr vtb_i64 COUNT = (vtb_i64)M * N * BATCHES;
const vtb_i64 u = (vtb_i64)vtb_block() * THREADS + vtb_tid(), i = u * EACH;
const int n = (int)(i % N), m = (int)(i / N % M), batch = (int)(i / ((vtb_i64)M * N));
vtb_f4 vpart = {0, 0, 0, 0};
if (i < COUNT) {
  if constexpr (EACH == 4) {
    vtb_f4 vsum = vtb_load4(part, i);
    for (int s = 1; s < SPLITS; s++) vsum = vsum + vtb_load4(part, s * COUNT + i);
    ${store4}
  } else {
    const float sum = vtb_sum_apart(part, i, COUNT, SPLITS);
    ${store}
  }
} else if (u - COUNT / EACH < SUMS) {
  const int j = (int)(u - COUNT / EACH), batch = j / SUM_ROWS, at = j % SUM_ROWS;
  const float total = vtb_sum_apart(part, COUNT * SPLITS + j, SUMS, SPLITS);
  ${store_total}
}
if constexpr (PARTED) {
  float part_mean, part_squares;
  vtb_part_of_8(vpart, part_mean, part_squares);
  if (i < COUNT && vtb_lane() % 8 == 0) {
    ${store_part}
  }
}
