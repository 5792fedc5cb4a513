/* Rows [.., N, HEADS, K] with their first TURNED channels turned, dense: a thread a piece of a
 * row. */
#include "turns.cuh"
hole int N, HEADS, K, TURNED;
hole bool FOUR;               /* rows can be read 16 bytes at a time */
hole int THREADS;
hole expr rows_from;          /* address of the row of b, i and head */
hole expr cosines, sines;     /* of the rows of tables */
constexpr int PIECE = FOUR ? 4 : 2, PIECES = (K + PIECE - 1) / PIECE;
hole vtb_i64 ITEMS;           /* pieces of all rows */
const vtb_i64 item = (vtb_i64)vtb_block() * THREADS + vtb_tid(), row = item / PIECES;
const int x = (int)(item % PIECES) * PIECE, head = (int)(row % HEADS), i = (int)(row / HEADS % N),
          b = (int)(row / HEADS / N);
if (item < ITEMS) {
  const auto from = ${rows_from};
  const auto to = turned + row * K;
  const auto c = ${cosines};
  const auto s = ${sines};
  if constexpr (FOUR) {
    vtb_f4 v = vtb_load4(from, x);
    if (x < TURNED) vtb_turn(v.x, v.y, c[x / 2], s[x / 2]);
    if (x + 2 < TURNED) vtb_turn(v.z, v.w, c[x / 2 + 1], s[x / 2 + 1]);
    vtb_store4(to, x, v);
  } else {
    const bool pair = x + 1 < K;
    float even = from[x], odd = pair ? from[x + 1] : 0.0f;
    if (x < TURNED) vtb_turn(even, odd, c[x / 2], s[x / 2]);
    to[x] = even;
    if (pair) to[x + 1] = odd;
  }
}
