/* Partial results part[share, i], added: a block owns 32 of the COUNT elements, its warps every so
 * many-th share; their sums are added in order. */
hole int COUNT, SHARES;
hole int THREADS;
hole code store; /* of the sum of element i */
constexpr int WARPS = THREADS / 32;
shared float sums[THREADS];
const int i = vtb_block() * 32 + vtb_lane();
float sum = 0.0f;
if (i < COUNT)
  for (int share = vtb_warp(); share < SHARES; share += WARPS)
    sum += part[(vtb_i64)share * COUNT + i];
sums[vtb_tid()] = sum;
vtb_sync();
if (vtb_warp() == 0 && i < COUNT) {
  VTB_UNROLL for (int w = 1; w < WARPS; w++) sum += sums[w * 32 + vtb_lane()];
  ${store}
}
