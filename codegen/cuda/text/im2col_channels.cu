/* Patches of an image whose channels are neighbours: a block has SIDE patches and CHANNELS channels
 * of them, read along a pixel's channels, written along the patches' elements. */
hole int C, T, H, W;                 /* the image */
hole int KT, KH, KW, ST, SH, SW;     /* kernel; strides */
hole int FRONT, TOP, LEFT;           /* padding */
hole int OT, OH, OW;                 /* patches */
hole int CHANNELS, SIDE;             /* of a block */
hole int THREADS;
hole vtb_i64 ROWS;                   /* patches of all images */
hole type value, kept;               /* of PER channels: float or vtb_f4; of an element in shared
                                      * memory */
hole expr image_at, patch_at;        /* offsets for b, ch, t, y and x; for b, patch and element */
constexpr int PER = sizeof(value) == 16 ? 4 : 1, TAPS = KT * KH * KW, WIDTH = C * TAPS,
              PATCHES = OT * OH * OW;
constexpr int PARTS = (C + CHANNELS - 1) / CHANNELS, COLUMNS = CHANNELS / PER, RUN = COLUMNS * TAPS;
/* so that taps lie in other banks */
constexpr int APART = CHANNELS + (32 / TAPS + 3) / 4 * 4 + (TAPS > 32 ? 4 : 0);
require CHANNELS % PER == 0 && (C % PER == 0);
shared kept tile[SIDE * TAPS * APART];
const int first = vtb_block() % PARTS * CHANNELS;
const vtb_i64 rows = (vtb_i64)(vtb_block() / PARTS) * SIDE;
for (int i = vtb_tid(); i < SIDE * RUN; i += THREADS) {
  const int own = i % COLUMNS * PER, tap = i / COLUMNS % TAPS, p = i / COLUMNS / TAPS,
            ch = first + own;
  const int b = (int)((rows + p) / PATCHES), patch = (int)((rows + p) % PATCHES);
  const int t = patch / (OH * OW) * ST + tap / (KH * KW) - FRONT;
  const int y = patch / OW % OH * SH + tap / KW % KH - TOP, x = patch % OW * SW + tap % KW - LEFT;
  if (rows + p >= ROWS || ch >= C) continue;
  const bool inside = t >= 0 && t < T && y >= 0 && y < H && x >= 0 && x < W;
  vtb_write(tile, (p * TAPS + tap) * APART + own,
            inside ? vtb_read<value>(from, ${image_at}) : value{});
}
vtb_sync();
for (int i = vtb_tid(); i < SIDE * RUN; i += THREADS) {
  const int p = i / RUN, e = i % RUN * PER, element = first * TAPS + e;
  const int b = (int)((rows + p) / PATCHES), patch = (int)((rows + p) % PATCHES);
  if (rows + p >= ROWS || element >= WIDTH) continue;
  auto at = [&](int n) -> int { return (p * TAPS + n % TAPS) * APART + n / TAPS; };
  value v = {};
  if constexpr (PER == 4)
    vtb_put4(v, tile[at(e)], tile[at(e + 1)], tile[at(e + 2)], tile[at(e + 3)]);
  else
    v = vtb_read<value>(tile, at(e));
  vtb_write(to, ${patch_at}, v);
}
