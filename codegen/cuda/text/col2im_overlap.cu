/* The adjoint of im2col where patches overlap: a block makes ROWS x COLUMNS pixels of a few
 * channels, from the patches that hold one of them, whose elements of these channels lie side by
 * side and pass through shared memory. A pixel's sum goes over the rows of the kernel, then over
 * its columns. */
hole int C, T, H, W;                 /* the image; T of a video */
hole int KT, KH, KW, ST, SH, SW;     /* kernel; strides. KT and ST are 1 */
hole int FRONT, TOP, LEFT;           /* padding; FRONT is 0 */
hole int OT, OH, OW;                 /* patches */
hole int ROWS, COLUMNS, CHANNELS;    /* of a block */
hole int THREADS;
hole expr image_at, patch_at;        /* offsets for b, ch, t, y and x; for b, patch and element */
require KT == 1 && ST == 1 && FRONT == 0 && OT == T;
/* odd: neighbours on other banks */
constexpr int TAPS = KH * KW, RUN = CHANNELS * TAPS, PITCH = RUN + 1 - RUN % 2;
constexpr int ACROSS = (W + COLUMNS - 1) / COLUMNS, DOWN = (H + ROWS - 1) / ROWS,
              PARTS = (C + CHANNELS - 1) / CHANNELS;
/* patches that hold some */
constexpr int MOST_Y = (ROWS + KH - 2) / SH + 1, MOST_X = (COLUMNS + KW - 2) / SW + 1;
shared float tile[MOST_Y * MOST_X * PITCH];
const int x0 = vtb_block() % ACROSS * COLUMNS, y0 = vtb_block() / ACROSS % DOWN * ROWS;
const int first = vtb_block() / (ACROSS * DOWN) % PARTS * CHANNELS,
          t = vtb_block() / (ACROSS * DOWN * PARTS) % T;
const int b = vtb_block() / (ACROSS * DOWN * PARTS * T);
const int oy0 = (vtb_max_int(y0 + TOP - KH + 1, 0) + SH - 1) / SH,
          ox0 = (vtb_max_int(x0 + LEFT - KW + 1, 0) + SW - 1) / SW;
const int patches_y = vtb_min_int((y0 + ROWS - 1 + TOP) / SH + 1, OH) - oy0;
const int patches_x = vtb_min_int((x0 + COLUMNS - 1 + LEFT) / SW + 1, OW) - ox0;
for (int i = vtb_tid(); i < MOST_Y * MOST_X * RUN; i += THREADS) {
  const int e = i % RUN, px = i / RUN % MOST_X, py = i / RUN / MOST_X;
  if (py >= patches_y || px >= patches_x || first * TAPS + e >= C * TAPS) continue;
  const int patch = (t * OH + oy0 + py) * OW + ox0 + px, element = first * TAPS + e;
  tile[(py * MOST_X + px) * PITCH + e] = from[${patch_at}];
}
vtb_sync();
for (int i = vtb_tid(); i < ROWS * COLUMNS * CHANNELS; i += THREADS) {
  const int x = x0 + i % COLUMNS, y = y0 + i / COLUMNS % ROWS, own = i / COLUMNS / ROWS,
            ch = first + own;
  if (x >= W || y >= H || ch >= C) continue;
  float sum = 0.0f;
  for (int a = 0; a < KH; a++) {
    const int oy = (y + TOP - a) / SH;
    if (y + TOP < a || oy >= OH || oy * SH != y + TOP - a) continue;
    for (int e = 0; e < KW; e++) {
      const int ox = (x + LEFT - e) / SW;
      if (x + LEFT < e || ox >= OW || ox * SW != x + LEFT - e) continue;
      sum += tile[((oy - oy0) * MOST_X + ox - ox0) * PITCH + (own * KH + a) * KW + e];
    }
  }
  to[${image_at}] = sum;
}
