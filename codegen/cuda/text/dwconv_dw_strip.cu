/* The adjoint of a depthwise convolution in its weights, and the sum of dy for a bias: a thread
 * owns PER channels and EACH rows of the kernel, and moves a window of inputs along strips of grid
 * rows, as the convolution does; a block owns ALONG such columns and a share of the strips, its
 * threads every LANES-th of them, and their sums are added in order to part[share, tap, C], the
 * last tap that of the bias. */
#include "convolve.cuh"
hole int C, GT, GH, GW;     /* channels; grid */
hole int KT, KH, KW;        /* kernel */
hole int FRONT, TOP, LEFT;  /* padding */
hole int STRIP, STRIPS;     /* columns of a strip; strips of a grid row */
hole int ALONG;             /* columns of a block */
hole int SHARES, ALL;       /* of the strips; all strips */
hole int EACH;              /* rows of the kernel that a thread has */
hole bool BIAS;
hole int THREADS;
hole type value;            /* of PER channels: float or vtb_f4 */
hole expr place;            /* of cell t */
hole expr x_at, dy_at;      /* offsets for b, pos and ch */
constexpr int PER = sizeof(value) / 4, COLUMNS = C / PER, LANES = THREADS / ALONG;
constexpr int TILES = (COLUMNS + ALONG - 1) / ALONG, SHARE = (ALL + SHARES - 1) / SHARES;
constexpr int ROWS = KT * KH, TAPS = ROWS * KW, GROUPS = ROWS / EACH,
              ALL_SUMS = TAPS + (BIAS ? 1 : 0), CHUNK = 4;
constexpr int SUMS = EACH * KW + (BIAS ? 1 : 0); /* of a thread */
require C % PER == 0 && ALONG <= THREADS && ROWS % EACH == 0;
/* the kernel has the row of dy */
constexpr bool OWN = FRONT >= 0 && FRONT < KT && TOP >= 0 && TOP < KH;
/* first of those that sum dy, too */
constexpr int OWN_ROW = OWN ? (FRONT * KH + TOP) / EACH * EACH : 0;
constexpr int TOGETHER = EACH == 1 ? KW : 1; /* columns whose inputs may be under way */
constexpr int TURNS = (SHARE + LANES - 1) / LANES,
              TOKEN = EACH > 1 ? EACH * (KW * PER + 5 * PER + 8) + 16 : KW * PER + 2 * PER + 12;
/* rows beyond the grid are left out */
constexpr int ALL_TURNS =
    EACH > 1 ? TURNS : (TURNS * KT * vtb_taps_met(GH, KH, TOP) + GH * ROWS - 1) / (GH * ROWS);
cost issue = THREADS / 32 * (ALL_TURNS * (STRIP * TOKEN + 60) + 16 * SUMS + 60);
cost registers = (EACH > 1 ? 40 : 50) + 2 * EACH * KW * PER;
shared value chunk[CHUNK * THREADS];
const int lane = vtb_tid() / ALONG, column = vtb_block() % TILES * ALONG + vtb_tid() % ALONG,
          ch = column * PER;
/* row of the kernel */
const int share = vtb_block() / (TILES * GROUPS), first = vtb_block() / TILES % GROUPS * EACH;
const int end = vtb_min_int(SHARE * (share + 1), ALL);
const bool works = lane < LANES && column < COLUMNS;
auto place = [&](int t) -> int { return ${place}; };
value sums[SUMS];
VTB_UNROLL for (int i = 0; i < SUMS; i++) sums[i] = value{};
for (int item = SHARE * share + lane; works && item < end; item += LANES) {
  const int x0 = item % STRIPS * STRIP, x1 = vtb_min_int(x0 + STRIP, GW), y = item / STRIPS % GH;
  const int z = item / STRIPS / GH % GT, b = item / STRIPS / GH / GT;
  auto load = [&](int a, int at) -> value {
    const int frame = z + (first + a) / KH - FRONT, row = y + (first + a) % KH - TOP;
    if (frame < 0 || frame >= GT || row < 0 || row >= GH || at < 0 || at >= GW) return value{};
    const vtb_i64 pos = place((frame * GH + row) * GW + at);
    return vtb_read<value>(x_in, ${x_at});
  };
  auto adjoint = [&](int at) -> value {
    const vtb_i64 pos = place((z * GH + y) * GW + at);
    return vtb_read<value>(dy_in, ${dy_at});
  };
  if (EACH == 1 && (!BIAS || (OWN && first != OWN_ROW))) {
    const int frame = z + first / KH - FRONT, row = y + first % KH - TOP;
    if (frame < 0 || frame >= GT || row < 0 || row >= GH) continue;
  }
  /* TOGETHER: a column's place is its number modulo KW, so that nothing moves */
  value window[EACH][KW];
  VTB_UNROLL for (int a = 0; a < EACH; a++)
    VTB_UNROLL for (int e = 0; e < KW; e++)
      window[a][e] = e + 1 < KW ? load(a, x0 + e - LEFT) : value{};
  VTB_NO_UNROLL for (int at = x0; at < x1; at += TOGETHER)
    VTB_UNROLL for (int c = 0; c < TOGETHER; c++) {
      if (at + c >= x1) break;
      const value dy = adjoint(at + c);
      VTB_UNROLL for (int a = 0; a < EACH; a++) {
        window[a][(c + KW - 1) % KW] = load(a, at + c + KW - 1 - LEFT);
        VTB_UNROLL for (int e = 0; e < KW; e++)
          sums[a * KW + e] = sums[a * KW + e] + dy * window[a][(c + e) % KW];
      }
      if (BIAS && first == OWN_ROW) sums[SUMS - 1] = sums[SUMS - 1] + dy;
      if constexpr (TOGETHER == 1) {
        VTB_UNROLL for (int a = 0; a < EACH; a++)
          VTB_UNROLL for (int e = 0; e + 1 < KW; e++) window[a][e] = window[a][e + 1];
      }
    }
}
vtb_add_lanes<CHUNK, THREADS, ALONG>(sums, chunk, lane, works, [&](int i, value sum) {
  const int tap = i < EACH * KW ? first * KW + i : TAPS;
  if (tap < TAPS || first == OWN_ROW)
    vtb_write(part, (vtb_i64)(share * ALL_SUMS + tap) * C + ch, sum);
});
