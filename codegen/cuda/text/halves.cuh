/* Vertebra: fragments of factors of 16 bits, on top of products.cuh. A tile in shared memory has rows along k (ALONG_K)
 * or along m or n, PITCH elements apart, and is of 16-bit elements, which ldmatrix takes as they are, or of floats,
 * which are rounded. */
template <bool ALONG_K, int PITCH, class T> VTB_FN void vtb_fragment_a16(vtb_u32 (&to)[4], T tile, int row, int k) {
  const int l = vtb_lane(), first = l % 8, second = l / 8 % 2 * 8, third = l / 16 * 8;
  if constexpr (ALONG_K)
    vtb_ldmatrix_x4(to, tile + ((row + first + second) * PITCH + k + third));
  else
    vtb_ldmatrix_x4_trans(to, tile + ((k + first + third) * PITCH + row + second));
}
/* Of 16 columns: to[0], to[1] are the first eight's; or, without BOTH, of these alone. */
template <bool ALONG_K, int PITCH, bool BOTH = true, class T>
VTB_FN void vtb_fragment_b16(vtb_u32 (&to)[4], T tile, int column, int k) {
  const int l = vtb_lane(), first = l % 8, second = l / 8 % 2 * 8, third = BOTH ? l / 16 * 8 : 0;
  if constexpr (ALONG_K)
    vtb_ldmatrix_x4(to, tile + ((column + first + third) * PITCH + k + second));
  else
    vtb_ldmatrix_x4_trans(to, tile + ((k + first + second) * PITCH + column + third));
}

template <bool HALF, bool ALONG_K, int PITCH, class T>
VTB_FN vtb_u32 vtb_pack_at(T tile, int row, int k) { /* two elements along k */
  if constexpr (ALONG_K)
    return vtb_pack<HALF>(tile[row * PITCH + k], tile[row * PITCH + k + 1]);
  else
    return vtb_pack<HALF>(tile[k * PITCH + row], tile[(k + 1) * PITCH + row]);
}

template <bool HALF, bool ALONG_K, int PITCH>
VTB_FN void vtb_fragment_a(vtb_u32 (&to)[4], VTB_PTR(float) tile, int row, int k) {
  const int g = vtb_lane() / 4, t = vtb_lane() % 4 * 2;
  VTB_UNROLL for (int x = 0; x < 4; x++)
    to[x] = vtb_pack_at<HALF, ALONG_K, PITCH>(tile, row + x % 2 * 8 + g, k + x / 2 * 8 + t);
}
template <bool HALF, bool ALONG_K, int PITCH>
VTB_FN void vtb_fragment_b(vtb_u32 (&to)[4], VTB_PTR(float) tile, int column, int k) {
  const int g = vtb_lane() / 4, t = vtb_lane() % 4 * 2;
  VTB_UNROLL for (int x = 0; x < 4; x++)
    to[x] = vtb_pack_at<HALF, ALONG_K, PITCH>(tile, column + x / 2 * 8 + g, k + x % 2 * 8 + t);
}
template <bool HALF, bool ALONG_K, int PITCH>
VTB_FN void vtb_fragment_a(vtb_u32 (&to)[4], VTB_PTR(vtb_bf16) tile, int row, int k) {
  vtb_fragment_a16<ALONG_K, PITCH>(to, tile, row, k);
}
template <bool HALF, bool ALONG_K, int PITCH>
VTB_FN void vtb_fragment_b(vtb_u32 (&to)[4], VTB_PTR(vtb_bf16) tile, int column, int k) {
  vtb_fragment_b16<ALONG_K, PITCH>(to, tile, column, k);
}
template <bool HALF, bool ALONG_K, int PITCH>
VTB_FN void vtb_fragment_a(vtb_u32 (&to)[4], VTB_PTR(vtb_f16) tile, int row, int k) {
  vtb_fragment_a16<ALONG_K, PITCH>(to, tile, row, k);
}
template <bool HALF, bool ALONG_K, int PITCH>
VTB_FN void vtb_fragment_b(vtb_u32 (&to)[4], VTB_PTR(vtb_f16) tile, int column, int k) {
  vtb_fragment_b16<ALONG_K, PITCH>(to, tile, column, k);
}

/* ---- for vtb_product: a second factor of 16 bits in shared memory ------------------------------------------- */

/* Rows of 16-byte pieces, an odd number of them. */
VTB_FN constexpr int vtb_pitch_half(int n) { return (n + 15) / 16 * 16 + 8; }

template <bool ALONG_K, int PITCH, class T> struct vtb_tile_of {
  T tile;
};
template <bool ALONG_K, int PITCH, class T> VTB_FN vtb_tile_of<ALONG_K, PITCH, T> vtb_tile(T tile) {
  vtb_tile_of<ALONG_K, PITCH, T> r = {tile};
  return r;
}

template <bool HALF, int TILES, class A, bool ALONG_K, int PITCH, class T>
VTB_FN void vtb_step_16(float (&c)[TILES][4], int k, A a, vtb_tile_of<ALONG_K, PITCH, T> b) {
  const int g = vtb_lane() >> 2, t = k + 2 * (vtb_lane() & 3);
  const vtb_u32 x[4] = {vtb_pack<HALF>(a(g, t), a(g, t + 1)), vtb_pack<HALF>(a(g + 8, t), a(g + 8, t + 1)),
                        vtb_pack<HALF>(a(g, t + 8), a(g, t + 9)), vtb_pack<HALF>(a(g + 8, t + 8), a(g + 8, t + 9))};
  VTB_UNROLL for (int i = 0; i + 1 < TILES; i += 2) {
    vtb_u32 both[4];
    vtb_fragment_b16<ALONG_K, PITCH>(both, b.tile, 8 * i, k);
    const vtb_u32 first[2] = {both[0], both[1]}, second[2] = {both[2], both[3]};
    vtb_mma_16<HALF>(c[i], x, first);
    vtb_mma_16<HALF>(c[i + 1], x, second);
  }
  if constexpr (TILES % 2 == 1) {
    vtb_u32 both[4];
    vtb_fragment_b16<ALONG_K, PITCH, false>(both, b.tile, 8 * (TILES - 1), k);
    const vtb_u32 last[2] = {both[0], both[1]};
    vtb_mma_16<HALF>(c[TILES - 1], x, last);
  }
}

/* vtb_copy_rows to such a tile: of its own type asynchronously. */
VTB_FN void vtb_bring4(VTB_PTR(vtb_bf16) to, VTB_PTR(const vtb_bf16) from) { vtb_cp_async8(to, from, true); }
VTB_FN void vtb_bring4(VTB_PTR(vtb_f16) to, VTB_PTR(const vtb_f16) from) { vtb_cp_async8(to, from, true); }
VTB_FN void vtb_bring4(VTB_PTR(vtb_bf16) to, VTB_PTR(const float) from) { vtb_store4(to, 0, vtb_load4(from, 0)); }
VTB_FN void vtb_bring4(VTB_PTR(vtb_f16) to, VTB_PTR(const float) from) { vtb_store4(to, 0, vtb_load4(from, 0)); }
