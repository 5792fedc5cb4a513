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
/* Of 16 columns: to[0], to[1] are the first eight's. */
template <bool ALONG_K, int PITCH, class T> VTB_FN void vtb_fragment_b16(vtb_u32 (&to)[4], T tile, int column, int k) {
  const int l = vtb_lane(), first = l % 8, second = l / 8 % 2 * 8, third = l / 16 * 8;
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
