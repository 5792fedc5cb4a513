/* The adjoint of a depthwise convolution in its weights: a block owns 32 channels, some taps and a
 * share of the strips of all batch entries, its warps every eighth strip of the share; their sums
 * are added in order to part[share, tap, C]. */
hole int C, GT, GH, GW;     /* channels; grid */
hole int KT, KH, KW;        /* kernel */
hole int FRONT, TOP, LEFT;  /* padding */
hole int STRIP, STRIPS;     /* columns of a strip; strips of a grid row */
hole int SUMS, GROUPS;      /* taps a thread sums; groups of so many */
hole int SHARES, ALL;       /* of the strips; all strips */
hole bool BIAS;             /* the last tap is that of a bias: dy is summed */
hole int THREADS;
hole expr place;            /* of cell t */
hole expr x_at, dy_at;      /* offsets for b, pos and ch */
constexpr int WARPS = THREADS / 32, BLOCKS = (C + 31) / 32, SHARE = (ALL + SHARES - 1) / SHARES;
constexpr int TAPS = KT * KH * KW, ALL_TAPS = TAPS + (BIAS ? 1 : 0);
require SUMS * GROUPS >= ALL_TAPS;
cost issue = SHARE * STRIP * (9 * SUMS + 10);
cost registers = 40 + SUMS;
shared float warps[WARPS * SUMS * 32];
const int ch = vtb_block() % BLOCKS * 32 + vtb_lane(), first = vtb_block() / BLOCKS % GROUPS * SUMS;
const int share = vtb_block() / BLOCKS / GROUPS, end = vtb_min_int(SHARE * (share + 1), ALL);
auto place = [&](int t) -> int { return ${place}; };
auto x_of = [&](int b, vtb_i64 pos) -> float { return x_in[${x_at}]; };
auto dy_of = [&](int b, vtb_i64 pos) -> float { return dy_in[${dy_at}]; };

float sums[SUMS];
VTB_UNROLL for (int i = 0; i < SUMS; i++) sums[i] = 0.0f;
for (int item = SHARE * share + vtb_warp(); item < end && ch < C; item += WARPS) {
  const int x0 = item % STRIPS * STRIP, y = item / STRIPS % GH, t = item / STRIPS / GH % GT;
  const int b = item / STRIPS / GH / GT;
  for (int x = x0; x < vtb_min_int(x0 + STRIP, GW); x++) {
    const float dy = dy_of(b, place((t * GH + y) * GW + x));
    VTB_UNROLL for (int i = 0; i < SUMS; i++) {
      const int tap = first + i, frame = t + tap / (KH * KW) - FRONT;
      const int row = y + tap / KW % KH - TOP, column = x + tap % KW - LEFT;
      const bool inside = tap < TAPS && frame >= 0 && frame < GT && row >= 0 && row < GH &&
                          column >= 0 && column < GW;
      if (BIAS && tap == TAPS) sums[i] += dy;
      if (inside) sums[i] += dy * x_of(b, place((frame * GH + row) * GW + column));
    }
  }
}
VTB_UNROLL for (int i = 0; i < SUMS; i++)
  warps[(vtb_warp() * SUMS + i) * 32 + vtb_lane()] = sums[i];
vtb_sync();
for (int i = vtb_warp(); i < SUMS; i += WARPS) {
  float sum = 0.0f;
  for (int w = 0; w < WARPS; w++) sum += warps[(w * SUMS + i) * 32 + vtb_lane()];
  if (first + i < ALL_TAPS && ch < C) part[(share * ALL_TAPS + first + i) * C + ch] = sum;
}
