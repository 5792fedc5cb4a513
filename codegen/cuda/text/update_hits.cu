/* hits[row] = 1 where the largest of the row's logits (the first of equal ones) is its label's, else 0. A warp a row. */
hole int BATCH, CLASSES, THREADS;
  const int row = vtb_block() * (THREADS / 32) + vtb_warp();
  float best = -VTB_INF, at = 0.0f;
  for (int k = vtb_lane(); row < BATCH && k < CLASSES; k += 32) {
    const float v = logits[(vtb_i64)row * CLASSES + k];
    if (v > best) best = v, at = (float)k;
  }
  VTB_UNROLL for (int m = 16; m > 0; m >>= 1) {
    const float other = vtb_shfl_xor(best, m), where = vtb_shfl_xor(at, m);
    if (other > best || (other == best && where < at)) best = other, at = where;
  }
  if (row < BATCH && vtb_lane() == 0) hits[row] = (int)at == labels[row] ? 1.0f : 0.0f;
