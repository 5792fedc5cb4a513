/* The state at the border of every chunk: before it, S <- D S + (products of the decays behind a token o k)^T v, or,
 * BACKWARD, the adjoint of the state after it, G <- D G + (products of the decays up to a token o q)^T dy. A block walks
 * all chunks with 64 x 64 numbers of the state in its warps' registers. */
constexpr int N = ${N}, HEADS = ${HEADS}, K = ${K}, V = ${V}, V1 = ${V1}, CHUNK = ${CHUNK}, EXACT = ${EXACT};
constexpr int K_TILES = (K + 63) / 64, V_TILES = (V1 + 63) / 64, N_CHUNKS = (N + CHUNK - 1) / CHUNK;
constexpr bool BACKWARD = ${BACKWARD}, FIRST = ${FIRST}, LAST = ${LAST};
constexpr int P = vtb_pitch_across(64);
const int bh = vtb_block() / (K_TILES * V_TILES), b = bh / HEADS, h = bh % HEADS, tid = vtb_tid();
const int k0 = vtb_block() / V_TILES % K_TILES * 64, v0 = vtb_block() % V_TILES * 64, row = 16 * vtb_warp();
const int n_keys = vtb_min_int(K - k0, 64), n_values = vtb_min_int(V1 - v0, 64);
auto place = [&](int t) -> int { return ${place}; };
auto decay_at = [&](vtb_i64 pos) -> float { return ${decay}; };
auto decay = [&](int t) -> float { return decay_at(place(t)); };
auto key_at = [&](vtb_i64 pos, int x) -> float { return ${key}; };
auto value_at = [&](vtb_i64 pos, int x) -> float { return ${value}; };

float state[8][4];
vtb_each(state, [&](int r, int o, float &s) {
  const int key = k0 + row + r, x = v0 + o;
  s = 0.0f;
  if (FIRST && key < K && x < V1) s = ${first};
});
for (int step = 0; step < N_CHUNKS; step++) {
  const int chunk = BACKWARD ? N_CHUNKS - 1 - step : step, c0 = chunk * CHUNK, c1 = vtb_min_int(c0 + CHUNK, N);
  vtb_each(state, [&](int r, int o, float &s) {
    if (row + r < n_keys && o < n_values)
      states[((vtb_i64)bh * N_CHUNKS + chunk) * (K * V1) + (k0 + row + r) * V1 + v0 + o] = s;
  });
  if (!LAST && step == N_CHUNKS - 1) break;
  const int n_tiles = (c1 - c0 + 63) / 64;
  for (int i = 0; i < n_tiles; i++) {
    const int t0 = c0 + (BACKWARD ? n_tiles - 1 - i : i) * 64, n = vtb_min_int(c1 - t0, 64);
    vtb_sync();
    if (tid < 64) decays[tid] = tid < n ? decay(t0 + tid) : 1.0f;
    vtb_sync();
    if (vtb_warp() == 0) {
      const float all = vtb_running_products(decays, through, after);
      if (vtb_lane() == 0) parts[0] = all;
    }
    vtb_fill_rows<64, 64, P, 4>(
        values, n, n_values, [&](int r) { return place(t0 + r); },
        [&](vtb_i64 pos, int x) { return value_at(pos, v0 + x); });
    vtb_sync();
    for (int r = vtb_warp(); r < 64; r += 4) {
      const vtb_i64 pos = r < n ? place(t0 + r) : 0;
      const float factor = BACKWARD ? through[r] : after[r];
      VTB_UNROLL for (int x = vtb_lane(); x < 64; x += 32)
        keys[r * P + x] = r < n && x < n_keys ? factor * key_at(pos, k0 + x) : 0.0f;
    }
    const float all = parts[0];
    vtb_each(state, [&](int, int, float &s) { s *= all; });
    vtb_sync();
    vtb_product<EXACT, 64>(
        state, [&](int r, int t) -> float { return keys[t * P + row + r]; },
        [&](int t, int o) -> float { return values[t * P + o]; });
  }
}
if (LAST) {
  vtb_each(state, [&](int r, int o, float &s) {
    const int key = k0 + row + r, x = v0 + o;
    if (key < K && x < V1) {
      ${put_last}
    }
  });
}
