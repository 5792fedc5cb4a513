/* 32 patches and 32 elements of each: read along the image's rows, written along the patches'. */
hole int C, T, H, W;                 /* the image */
hole int KT, KH, KW, ST, SH, SW;     /* kernel; strides */
hole int FRONT, TOP, LEFT;           /* padding */
hole int OT, OH, OW;                 /* patches */
hole int THREADS;
hole vtb_i64 ROWS;                   /* patches of all images */
hole expr image_at, patch_at;        /* offsets for b, ch, t, y and x; for b, patch and element */
constexpr int TAPS = KT * KH * KW, WIDTH = C * TAPS, PATCHES = OT * OH * OW, SIDE = 32;
/* columns of the kernel that neighbouring threads take, before the next patch's */
constexpr int COLS = KW >= 6 ? 8 : KW >= 4 ? 4 : KW % 2 == 0 || (KW == 3 && SW == 2) ? 2 : 1;
constexpr int PITCH = SIDE + COLS; /* so that their stores meet in no bank */
constexpr int SLABS = (WIDTH + SIDE - 1) / SIDE, TURNS = SIDE * SIDE / THREADS;
require SIDE * SIDE % THREADS == 0;
shared float tile[SIDE * PITCH];
const int first = vtb_block() % SLABS * SIDE;
const vtb_i64 rows = (vtb_i64)(vtb_block() / SLABS) * SIDE;
VTB_UNROLL for (int u = 0; u < TURNS; u++) {
  const int at = u * THREADS + vtb_tid(), p = at / COLS % SIDE,
            e = at / COLS / SIDE * COLS + at % COLS;
  const int b = (int)((rows + p) / PATCHES), patch = (int)((rows + p) % PATCHES),
            element = first + e;
  const int ch = element / TAPS, t = patch / (OH * OW) * ST + element / (KH * KW) % KT - FRONT;
  const int y = patch / OW % OH * SH + element / KW % KH - TOP,
            x = patch % OW * SW + element % KW - LEFT;
  const bool inside =
      rows + p < ROWS && element < WIDTH && t >= 0 && t < T && y >= 0 && y < H && x >= 0 && x < W;
  tile[p * PITCH + e] = inside ? from[${image_at}] : 0.0f;
}
vtb_sync();
VTB_UNROLL for (int u = 0; u < TURNS; u++) {
  const int at = u * THREADS + vtb_tid(), p = at / SIDE, e = at % SIDE;
  const int b = (int)((rows + p) / PATCHES), patch = (int)((rows + p) % PATCHES),
            element = first + e;
  if (rows + p < ROWS && element < WIDTH) to[${patch_at}] = tile[p * PITCH + e];
}
