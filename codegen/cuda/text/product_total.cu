/* The parts that ranges of k made of a product and of a factor's sums (product.cu), added in order. */
hole int M, N, BATCHES, SPLITS;
hole int SUMS, SUM_ROWS; /* sums of a factor, a batch entry: their parts lie behind those of the product */
hole int THREADS;
hole int EACH;           /* elements of a thread: 1, or 4 along n */
hole code store, store4; /* of the sum at batch, m, n; of vsum, from n on */
hole code store_total;   /* of total: at batch, row `at` */
constexpr vtb_i64 COUNT = (vtb_i64)M * N * BATCHES;
const vtb_i64 u = (vtb_i64)vtb_block() * THREADS + vtb_tid(), i = u * EACH;
if (i < COUNT) {
  const int n = (int)(i % N), m = (int)(i / N % M), batch = (int)(i / (M * N));
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
