/* One pixel: the sum over the patches that hold it, by their frames and rows of the kernel. */
hole int C, T, H, W;                 /* the image */
hole int KT, KH, KW, ST, SH, SW;     /* kernel; strides */
hole int FRONT, TOP, LEFT;           /* padding */
hole int OT, OH, OW;                 /* patches */
hole int THREADS;
hole vtb_i64 ELEMENTS;               /* of the result */
hole expr image_at, patch_at;        /* offsets for b, ch, t, y and x; for b, patch and element */
const vtb_i64 i = (vtb_i64)vtb_block() * THREADS + vtb_tid();
if (i < ELEMENTS) {
  const int x = (int)(i % W), y = (int)(i / W % H), t = (int)(i / W / H % T);
  const int ch = (int)(i / W / H / T % C), b = (int)(i / W / H / T / C);
  float sum = 0.0f;
  for (int f = 0; f < KT; f++) {
    const int ot = (t + FRONT - f) / ST;
    if (t + FRONT < f || ot >= OT || ot * ST != t + FRONT - f) continue;
    for (int a = 0; a < KH; a++) {
      const int oy = (y + TOP - a) / SH;
      if (y + TOP < a || oy >= OH || oy * SH != y + TOP - a) continue;
      for (int e = 0; e < KW; e++) {
        const int ox = (x + LEFT - e) / SW;
        if (x + LEFT < e || ox >= OW || ox * SW != x + LEFT - e) continue;
        const int patch = (ot * OH + oy) * OW + ox, element = ((ch * KT + f) * KH + a) * KW + e;
        sum += from[${patch_at}];
      }
    }
  }
  to[${image_at}] = sum;
}
