/* One element of a patch. */
hole int C, T, H, W;                 /* the image */
hole int KT, KH, KW, ST, SH, SW;     /* kernel; strides */
hole int FRONT, TOP, LEFT;           /* padding */
hole int OT, OH, OW;                 /* patches */
hole int THREADS;
hole vtb_i64 ELEMENTS;               /* of the result */
hole expr image_at, patch_at;        /* offsets for b, ch, t, y and x; for b, patch and element */
constexpr int TAPS = KT * KH * KW, WIDTH = C * TAPS, PATCHES = OT * OH * OW;
const vtb_i64 i = (vtb_i64)vtb_block() * THREADS + vtb_tid();
if (i < ELEMENTS) {
  const int element = (int)(i % WIDTH), patch = (int)(i / WIDTH % PATCHES), b = (int)(i / WIDTH / PATCHES);
  const int ch = element / TAPS, t = patch / (OH * OW) * ST + element / (KH * KW) % KT - FRONT;
  const int y = patch / OW % OH * SH + element / KW % KH - TOP, x = patch % OW * SW + element % KW - LEFT;
  const bool inside = t >= 0 && t < T && y >= 0 && y < H && x >= 0 && x < W;
  to[${patch_at}] = inside ? from[${image_at}] : 0.0f;
}
