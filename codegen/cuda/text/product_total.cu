/* The parts that ranges of k made of a product (product.cu), added in order. */
hole int M, N, BATCHES, SPLITS;
hole int THREADS;
hole code store; /* of the sum at batch, m, n */
constexpr vtb_i64 COUNT = (vtb_i64)M * N * BATCHES;
const vtb_i64 i = (vtb_i64)vtb_block() * THREADS + vtb_tid();
if (i < COUNT) {
  const int n = (int)(i % N), m = (int)(i / N % M), batch = (int)(i / (M * N));
  const float sum = vtb_sum_apart(part, i, COUNT, SPLITS);
  ${store}
}
