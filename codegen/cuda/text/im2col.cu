/* One element of a patch. */
hole int C, H, W;               /* the image */
hole int KH, KW, SH, SW;        /* kernel; strides */
hole int TOP, LEFT;             /* padding */
hole int OH, OW;                /* patches */
hole int THREADS;
hole vtb_i64 ELEMENTS;          /* of the result */
hole expr image_at, patch_at;   /* offsets for b, ch, y and x; for b, patch and element */
constexpr int WIDTH = C * KH * KW;
const vtb_i64 i = (vtb_i64)vtb_block() * THREADS + vtb_tid();
if (i < ELEMENTS) {
  const int element = (int)(i % WIDTH), patch = (int)(i / WIDTH % (OH * OW)), b = (int)(i / WIDTH / (OH * OW));
  const int ch = element / (KH * KW), y = patch / OW * SH + element / KW % KH - TOP;
  const int x = patch % OW * SW + element % KW - LEFT;
  to[${patch_at}] = y >= 0 && y < H && x >= 0 && x < W ? from[${image_at}] : 0.0f;
}
