/* The adjoint of im2col where the image's channels are neighbours: a block makes ROWS x COLUMNS
 * pixels of CHANNELS channels, from the patches that hold one of them, whose elements of these
 * channels lie side by side and pass through shared memory. A pixel's sum goes over the rows of the
 * kernel, then over its columns. */
hole int C, T, H, W;                 /* the image; T of a video */
hole int KT, KH, KW, ST, SH, SW;     /* kernel; strides. KT and ST are 1 */
hole int FRONT, TOP, LEFT;           /* padding; FRONT is 0 */
hole int OT, OH, OW;                 /* patches */
hole int ROWS, COLUMNS, CHANNELS;    /* of a block */
hole int THREADS;
hole type value, kept;               /* of PER channels: float or vtb_f4; of an element in shared
                                      * memory */
hole expr image_at, patch_at;        /* offsets for b, ch, t, y and x; for b, patch and element */
require KT == 1 && ST == 1 && FRONT == 0 && OT == T;
constexpr int PER = sizeof(value) == 16 ? 4 : 1, TAPS = KH * KW, OWN = CHANNELS / PER,
              RUN = OWN * TAPS;
/* so that taps lie in other banks */
constexpr int APART = CHANNELS + (32 / TAPS + 3) / 4 * 4 + (TAPS > 32 ? 4 : 0);
constexpr int ACROSS = (W + COLUMNS - 1) / COLUMNS, DOWN = (H + ROWS - 1) / ROWS,
              PARTS = (C + CHANNELS - 1) / CHANNELS;
/* patches that hold some */
constexpr int MOST_Y = (ROWS + KH - 2) / SH + 1, MOST_X = (COLUMNS + KW - 2) / SW + 1;
require CHANNELS % PER == 0 && (C % PER == 0);
shared kept tile[MOST_Y * MOST_X * TAPS * APART];
const int first = vtb_block() % PARTS * CHANNELS, x0 = vtb_block() / PARTS % ACROSS * COLUMNS;
const int y0 = vtb_block() / (PARTS * ACROSS) % DOWN * ROWS,
          t = vtb_block() / (ACROSS * DOWN * PARTS) % T;
const int b = vtb_block() / (ACROSS * DOWN * PARTS * T);
const int oy0 = (vtb_max_int(y0 + TOP - KH + 1, 0) + SH - 1) / SH,
          ox0 = (vtb_max_int(x0 + LEFT - KW + 1, 0) + SW - 1) / SW;
const int patches_y = vtb_min_int((y0 + ROWS - 1 + TOP) / SH + 1, OH) - oy0;
const int patches_x = vtb_min_int((x0 + COLUMNS - 1 + LEFT) / SW + 1, OW) - ox0;
for (int i = vtb_tid(); i < MOST_Y * MOST_X * RUN; i += THREADS) {
  const int e = i % RUN * PER, px = i / RUN % MOST_X, py = i / RUN / MOST_X,
            element = first * TAPS + e;
  if (py >= patches_y || px >= patches_x || element >= C * TAPS) continue;
  const int patch = (t * OH + oy0 + py) * OW + ox0 + px;
  auto put = [&](int n, float v) {
    tile[((py * MOST_X + px) * TAPS + n % TAPS) * APART + n / TAPS] = v;
  };
  auto put_all = [&](auto v) {
    if constexpr (sizeof(v) == 16)
      put(e, v.x), put(e + 1, v.y), put(e + 2, v.z), put(e + 3, v.w);
    else
      put(e, v);
  };
  put_all(vtb_read<value>(from, ${patch_at}));
}
vtb_sync();
for (int i = vtb_tid(); i < ROWS * COLUMNS * OWN; i += THREADS) {
  const int own = i % OWN * PER, x = x0 + i / OWN % COLUMNS, y = y0 + i / OWN / COLUMNS,
            ch = first + own;
  if (x >= W || y >= H || ch >= C) continue;
  value sum = {};
  for (int a = 0; a < KH; a++) {
    const int oy = (y + TOP - a) / SH;
    if (y + TOP < a || oy >= OH || oy * SH != y + TOP - a) continue;
    for (int e = 0; e < KW; e++) {
      const int ox = (x + LEFT - e) / SW, tap = a * KW + e;
      if (x + LEFT < e || ox >= OW || ox * SW != x + LEFT - e) continue;
      sum = sum +
            vtb_read<value>(tile, (((oy - oy0) * MOST_X + ox - ox0) * TAPS + tap) * APART + own);
    }
  }
  vtb_write(to, ${image_at}, sum);
}
