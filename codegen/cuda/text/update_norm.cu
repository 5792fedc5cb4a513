/* parts[block] = sum of the squares of one piece of the gradients, in double and in a fixed order.
 * table: for each piece its first four and the number of fours, then what the other kernels need. */
hole int THREADS;
shared double lanes[THREADS];
  const vtb_i64 first = (vtb_i64)table[vtb_block() * 4] * 4;
  const int fours = table[vtb_block() * 4 + 1];
  double sum = 0.0;
  for (int i = vtb_tid(); i < fours; i += THREADS) {
    const vtb_f4 v = vtb_load4(g, first + i * 4);
    sum += ((double)v.x * v.x + (double)v.y * v.y) + ((double)v.z * v.z + (double)v.w * v.w);
  }
  lanes[vtb_tid()] = sum;
  VTB_UNROLL for (int half = THREADS / 2; half > 0; half /= 2) {
    vtb_sync();
    if (vtb_tid() < half) lanes[vtb_tid()] += lanes[vtb_tid() + half];
  }
  if (vtb_tid() == 0) parts[vtb_block()] = lanes[0];
