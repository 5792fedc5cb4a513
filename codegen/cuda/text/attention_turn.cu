/* Rows [.., N, HEADS, K] with their first TURNED channels turned, dense: a thread a piece of a row. */
constexpr int N = ${N}, HEADS = ${HEADS}, K = ${K}, TURNED = ${TURNED};
constexpr bool FOUR = ${FOUR};
constexpr int PIECE = FOUR ? 4 : 2, PIECES = (K + PIECE - 1) / PIECE;
const vtb_i64 item = (vtb_i64)vtb_block() * 256 + vtb_tid(), row = item / PIECES;
const int x = (int)(item % PIECES) * PIECE, head = (int)(row % HEADS), i = (int)(row / HEADS % N), b = (int)(row / HEADS / N);
if (item < ${ITEMS}ll) {
  const auto from = ${rows_from};
  const auto to = turned + row * K;
  const auto c = ${cosines_from};
  const auto s = ${sines_from};
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
