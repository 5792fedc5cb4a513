/* A part of linscan_grad_short.cu: adjoints of decays and gains, from sums. */
if constexpr (SUMMED) {
  vtb_sync();
  auto times_gain = [&](float v, int t) -> float {
    if constexpr (GAIN) return v * gains[t];
    return v;
  };
  const int tile = tid / 16, first = tile * 16;
  if (tid < ROWS) {
    float sum = 0.0f;
    VTB_NO_UNROLL for (int i = tile + 1; i < TILES; i++)
      sum += column_sums[tile_of(i, tile) * 16 + tid % 16];
    columns_behind[tid] = times_gain(sum, tid);
    if constexpr (GAIN) {
      VTB_UNROLL for (int i = 0; i < 16; i++)
        if (i >= tid % 16) sum += inner[(first + i) * PI + tid % 16];
      const vtb_i64 pos = order_of[tid];
      const float value = sum;
      if (tid < N) {
        ${put_gain}
      }
    }
    sum = 0.0f;
    VTB_NO_UNROLL for (int i = 0; i < (tile / 2 + 2) / 2; i++) sum += row_sums[i * ROWS + tid];
    rows_before[tid] = sum;
  }
  VTB_NO_UNROLL for (int e = tid; e < TILES * TILES; e += THREADS) {
    if (e % TILES >= e / TILES) continue;
    float sum = 0.0f;
    VTB_UNROLL for (int x = 0; x < 16; x++)
      sum += times_gain(column_sums[tile_of(e / TILES, e % TILES) * 16 + x], e % TILES * 16 + x);
    tile_sums[tile_of(e / TILES, e % TILES)] = sum;
  }
  vtb_sync();
  float total = 0.0f;
  if (DECAYS && tid < ROWS) { /* what is before a column, in a token's row and in one of tiles */
    auto add_along = [](float &sum, auto row, int at, float by) {
      const float here = row[at] * by;
      row[at] = sum;
      sum += here;
    };
    float sum = 0.0f;
    VTB_UNROLL for (int x = 0; x < 16; x++)
      add_along(sum, inner, tid * PI + x, times_gain(1.0f, first + x));
    sum = 0.0f;
    VTB_NO_UNROLL for (int j = 0; j < tid && tid < TILES; j++)
      add_along(sum, tile_sums, tile_of(tid, j), 1.0f);
  }
  vtb_sync();
  if (DECAYS && tid < N) {
    float sum = 0.0f;
    VTB_NO_UNROLL for (int i = tile + 1; i < TILES; i++) sum += tile_sums[tile_of(i, tile)];
    VTB_UNROLL for (int i = 0; i < 16; i++)
      if (i >= tid % 16) sum += rows_before[first + i] + inner[(first + i) * PI + tid % 16];
    VTB_NO_UNROLL for (int x = first; x < tid; x++) sum += columns_behind[x];
    const vtb_i64 pos = order_of[tid];
    const float value = sum / decays[tid];
    total = value;
    ${put}
  }
  if (PART) {
    total = vtb_block_sum(total, WARPS, total_of);
    if (tid == 0) {
      ${put_part}
    }
  }
}
