/* Vertebra: the windows of depthwise convolutions (dwconv*.cu), and sums over the threads of a
 * column.
 *
 * store(c, sum, near) for columns c of a strip of STRIP, or of `length` of them: V is of one
 * channel or of four, near(a, e) is the input for row a and column e of the kernel. KEPT: weights,
 * which take(w) brings, and a window of inputs sit in registers, an input's place being its column
 * modulo KW, so that nothing moves: the strip is unrolled. load(a, c) reads the input for row a of
 * the kernel at column c of the strip, zero beyond the row's ends, and take(w) leaves zeros for
 * rows beyond the grid, for which load may give any of the window's. Else weight(a, e) is read, and
 * load gives zeros there as well: the strip's sums sit in registers, and a row of the kernel after
 * another, unless it is long, adds to them, but for rows beyond the grid and, if the strip is a
 * grid row (ALONE), columns beyond it. */
template <int ROWS, int KW, bool KEPT, int STRIP, bool WHOLE, bool ALONE, class V, class Row,
          class Load, class Weight, class Take, class Store>
VTB_FN void vtb_convolve(int length, int left, Row is_row, Load load, Weight weight, Take take,
                         Store store) {
  if constexpr (KEPT) {
    V w[ROWS][KW], window[ROWS][KW];
    take(w);
    VTB_UNROLL for (int a = 0; a < ROWS; a++)
      VTB_UNROLL for (int e = 0; e < KW; e++) window[a][e] = e + 1 < KW ? load(a, e - left) : V{};
    VTB_UNROLL for (int c = 0; c < STRIP; c++) {
      if (!WHOLE && c >= length) continue;
      V sum = {};
      VTB_UNROLL for (int a = 0; a < ROWS; a++) {
        window[a][(c + KW - 1) % KW] = load(a, c + KW - 1 - left);
        VTB_UNROLL for (int e = 0; e < KW; e++) sum = sum + w[a][e] * window[a][(c + e) % KW];
      }
      store(c, sum, [&](int a, int e) -> V { return window[a][(c + e) % KW]; });
    }
  } else if constexpr (KW <= 16) {
    V sums[STRIP];
    VTB_UNROLL for (int c = 0; c < STRIP; c++) sums[c] = V{};
    VTB_NO_UNROLL for (int a = 0; a < ROWS; a++) {
      if (!is_row(a)) continue;
      V w[KW];
      VTB_UNROLL for (int e = 0; e < KW; e++) w[e] = weight(a, e);
      VTB_UNROLL for (int x = 0; x < STRIP + KW - 1; x++) {
        if (ALONE && (x < left || x >= left + STRIP)) continue;
        const V in = load(a, x - left);
        VTB_UNROLL for (int c = vtb_max_int(x - KW + 1, 0); c < vtb_min_int(x + 1, STRIP); c++)
          sums[c] = sums[c] + w[x - c] * in;
      }
    }
    VTB_UNROLL for (int c = 0; c < STRIP; c++) {
      if (!WHOLE && c >= length) continue;
      store(c, sums[c], [&](int a, int e) -> V { return load(a, c + e - left); });
    }
  } else {
    for (int c = 0; c < length; c++) {
      V sum = {};
      for (int a = 0; a < ROWS; a++)
        for (int e = 0; e < KW; e++) sum = sum + weight(a, e) * load(a, c + e - left);
      store(c, sum, [&](int a, int e) -> V { return load(a, c + e - left); });
    }
  }
}

/* For n places and k taps, `before` of which lie before a place: pairs of a place and a tap's place
 * that is one, too. */
VTB_FN constexpr int vtb_taps_met(int n, int k, int before) {
  return vtb_max_int(n * k - before * (before + 1) / 2 - (k - 1 - before) * (k - before) / 2, n);
}

/* All taps of four channels that lie behind one another from w_in[0] on, backwards if TURNED. */
template <int ROWS, int KW, bool TURNED, class P>
VTB_FN void vtb_take_taps(vtb_f4 (&w)[ROWS][KW], P w_in) {
  constexpr int TAPS = ROWS * KW;
  float taps[4 * TAPS];
  VTB_UNROLL for (int i = 0; i < TAPS; i++) {
    const vtb_f4 four = vtb_load4(w_in, 4 * i);
    taps[4 * i] = four.x, taps[4 * i + 1] = four.y, taps[4 * i + 2] = four.z,
             taps[4 * i + 3] = four.w;
  }
  VTB_UNROLL for (int a = 0; a < ROWS; a++) VTB_UNROLL for (int e = 0; e < KW; e++) {
    const int tap = TURNED ? TAPS - 1 - a * KW - e : a * KW + e;
    vtb_put4(w[a][e], taps[tap], taps[TAPS + tap], taps[2 * TAPS + tap], taps[3 * TAPS + tap]);
  }
}

/* put(i, what sums[i] of all threads of a column comes to), in a fixed order, by the first of them
 * if it works: a column's threads stand ALONG apart, `lane` says which one this is, and chunk is
 * CHUNK numbers a thread in shared memory. */
template <int CHUNK, int THREADS, int ALONG, class V, int SUMS, class P, class Put>
VTB_FN void vtb_add_lanes(V (&sums)[SUMS], P chunk, int lane, bool works, Put put) {
  VTB_UNROLL for (int from = 0; from < SUMS; from += CHUNK) {
    VTB_UNROLL for (int i = 0; i < CHUNK; i++)
      if (from + i < SUMS) chunk[i * THREADS + vtb_tid()] = sums[from + i];
    vtb_sync();
    for (int left = THREADS / ALONG; left > 1; left = (left + 1) / 2) {
      const int half = (left + 1) / 2;
      if (lane + half < left) {
        VTB_UNROLL for (int i = 0; i < CHUNK; i++)
          if (from + i < SUMS) {
            const V more = chunk[i * THREADS + vtb_tid() + half * ALONG];
            chunk[i * THREADS + vtb_tid()] = chunk[i * THREADS + vtb_tid()] + more;
          }
      }
      vtb_sync();
    }
    if (works && lane == 0) {
      VTB_UNROLL for (int i = 0; i < CHUNK; i++)
        if (from + i < SUMS) put(from + i, chunk[i * THREADS + vtb_tid()]);
    }
    vtb_sync();
  }
}
