/* Vertebra: rotary embeddings where rows are brought into shared memory or registers, beside
 * products.cuh.
 *
 * Channels 2p and 2p+1 of a row, below a number of turned ones, become x c - y s and x s + y c;
 * cosines(row) and sines(row) are the addresses of c and s of its first pair. Tables are small and
 * read from the caches. */

/* Waits until what this thread is about to turn is there: its own pieces of vtb_copy_rows, all but
 * the last LEFT of its groups. Without FOUR the elements of a pair were copied by different
 * threads. */
template <bool FOUR, int LEFT = 0> VTB_FN void vtb_landed() {
  if constexpr (FOUR)
    vtb_cp_wait<LEFT>();
  else
    vtb_sync();
}

VTB_FN void vtb_turn(float &x, float &y, float c, float s) {
  const float first = x * c - y * s;
  y = x * s + y * c;
  x = first;
}

/* The first n_turned channels of rows that vtb_copy_rows, with the same parameters, has copied;
 * after vtb_landed(). With FOUR every thread turns what it copied, four pieces at a time: enough to
 * hide their loads, and few registers. */
template <bool FOUR, int ROWS, int COLUMNS, int PITCH, int THREADS, class T, class C, class S>
VTB_FN void vtb_turn_rows(T rows, int n_rows, int n_turned, C cosines, S sines,
                          int self = vtb_tid()) {
  constexpr int PIECE = FOUR ? 4 : 2, WIDE = COLUMNS / PIECE;
  auto turn_piece = [&](int row, int x) {
    const int at = row * PITCH + x;
    const auto c = cosines(row) + x / 2;
    const auto s = sines(row) + x / 2;
    if constexpr (FOUR) {
      vtb_f4 v = vtb_load4(rows, at);
      vtb_turn(v.x, v.y, c[0], s[0]);
      if (x + 2 < n_turned) vtb_turn(v.z, v.w, c[1], s[1]);
      vtb_store4(rows, at, v);
    } else {
      float even = rows[at], odd = rows[at + 1];
      vtb_turn(even, odd, c[0], s[0]);
      rows[at] = even;
      rows[at + 1] = odd;
    }
  };
  VTB_NO_UNROLL for (int first = self; first < ROWS * WIDE; first += 4 * THREADS) {
    VTB_UNROLL for (int i = first; i < first + 4 * THREADS; i += THREADS) {
      const int row = i / WIDE, x = i % WIDE * PIECE;
      if (row < n_rows && x < n_turned) turn_piece(row, x);
    }
  }
}

/* Channel x of a row in global memory, of which the first n_turned turn. */
template <class T, class C, class S>
VTB_FN float vtb_turned(T row, int x, int n_turned, C cosines, S sines) {
  const float v = row[x];
  if (x >= n_turned) return v;
  const float along = v * cosines[x / 2], across = row[x ^ 1] * sines[x / 2];
  return x % 2 ? along + across : along - across;
}

/* Rows of a product in registers (vtb_each), of which the warp has n_rows and the lane columns from
 * `first` on, turned back: adjoints of turned rows. */
template <int TILES, class C, class S>
VTB_FN void vtb_turn_back(float (&out)[TILES][4], int n_rows, int first, int n_turned, C cosines,
                          S sines) {
  VTB_UNROLL for (int half = 0; half < 2; half++) {
    const int row = (vtb_lane() >> 2) + 8 * half;
    if (row >= n_rows) continue;
    const auto c = cosines(row);
    const auto s = sines(row);
    VTB_UNROLL for (int i = 0; i < TILES; i++) {
      const int x = first + 8 * i + 2 * (vtb_lane() & 3);
      if (x < n_turned) vtb_turn(out[i][2 * half], out[i][2 * half + 1], c[x / 2], -s[x / 2]);
    }
  }
}
