/* parts[block] = sum of the squares of one piece of the gradients, in double and in a fixed order.
 * table: for each piece its first four, the number of fours and of elements, its tensor, the
 * tensor's first piece and how many it has. */
hole int THREADS, ROW; /* ROW: of the table */
shared double lanes[THREADS];
const vtb_i64 first = (vtb_i64)table[vtb_block() * ROW] * 4;
const int fours = table[vtb_block() * ROW + 1];
double sum = 0.0;
for (int i = vtb_tid(); i < fours; i += THREADS) {
  const vtb_f4 v = vtb_load4(g, first + i * 4);
  sum += ((double)v.x * v.x + (double)v.y * v.y) + ((double)v.z * v.z + (double)v.w * v.w);
}
sum = vtb_block_sum<THREADS>(lanes, sum);
if (vtb_tid() == 0) parts[vtb_block()] = sum;
