/* The adjoint of a depthwise convolution in its weights: a block owns 32 channels, some taps and a share of the strips of
 * all batch entries, its warps every eighth strip of the share; their sums are added in order to part[share, tap, C]. */
constexpr int C = ${C}, GH = ${GH}, GW = ${GW}, KH = ${KH}, KW = ${KW}, TOP = ${TOP}, LEFT = ${LEFT}, SUMS = ${TAPS_AT_ONCE};
constexpr int STRIP = ${STRIP}, STRIPS = ${STRIPS}, GROUPS = ${GROUPS}, SHARES = ${SHARES}, ALL = ${ALL};
constexpr int BLOCKS = (C + 31) / 32, SHARE = (ALL + SHARES - 1) / SHARES;
const int ch = vtb_block() % BLOCKS * 32 + vtb_lane(), first = vtb_block() / BLOCKS % GROUPS * SUMS;
const int share = vtb_block() / BLOCKS / GROUPS, end = vtb_min_int(SHARE * (share + 1), ALL);
auto place = [&](int t) -> int { return ${place}; };
auto x_at = [&](int b, vtb_i64 pos) -> float { return ${x}; };
auto dy_at = [&](int b, vtb_i64 pos) -> float { return ${dy}; };

float sums[SUMS];
VTB_UNROLL for (int i = 0; i < SUMS; i++) sums[i] = 0.0f;
for (int item = SHARE * share + vtb_warp(); item < end && ch < C; item += 8) {
  const int x0 = item % STRIPS * STRIP, y = item / STRIPS % GH, b = item / STRIPS / GH;
  for (int x = x0; x < vtb_min_int(x0 + STRIP, GW); x++) {
    const float dy = dy_at(b, place(y * GW + x));
    VTB_UNROLL for (int i = 0; i < SUMS; i++) {
      const int tap = first + i, row = y + tap / KW - TOP, column = x + tap % KW - LEFT;
      const bool inside = tap < KH * KW && row >= 0 && row < GH && column >= 0 && column < GW;
      if (inside) sums[i] += dy * x_at(b, place(row * GW + column));
    }
  }
}
VTB_UNROLL for (int i = 0; i < SUMS; i++) warps[(vtb_warp() * SUMS + i) * 32 + vtb_lane()] = sums[i];
vtb_sync();
for (int i = vtb_warp(); i < SUMS; i += 8) {
  float sum = 0.0f;
  for (int w = 0; w < 8; w++) sum += warps[(w * SUMS + i) * 32 + vtb_lane()];
  if (first + i < KH * KW && ch < C) part[(share * KH * KW + first + i) * C + ch] = sum;
}
