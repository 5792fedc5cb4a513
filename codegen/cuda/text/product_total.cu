/* The parts that ranges of k made of a product (product.cu), added in order. */
hole int M, N, BATCHES, SPLITS;
hole int THREADS;
hole int EACH;           /* elements of a thread: 1, or 4 along n */
hole code store, store4; /* of the sum at batch, m, n; of vsum, from n on */
constexpr vtb_i64 COUNT = (vtb_i64)M * N * BATCHES;
cost issue = THREADS / 32 * (30 + EACH * 4 + 5 * SPLITS);
const vtb_i64 i = ((vtb_i64)vtb_block() * THREADS + vtb_tid()) * EACH;
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
}
