/* One pixel: the sum over the patches that hold it, by their rows of the kernel. */
constexpr int C = ${C}, H = ${H}, W = ${W}, KH = ${KH}, KW = ${KW}, SH = ${SH}, SW = ${SW}, TOP = ${TOP}, LEFT = ${LEFT};
constexpr int OH = ${OH}, OW = ${OW};
const vtb_i64 i = (vtb_i64)vtb_block() * 256 + vtb_tid();
if (i < ${ELEMENTS}ll) {
  const int x = (int)(i % W), y = (int)(i / W % H), ch = (int)(i / W / H % C), b = (int)(i / W / H / C);
  float sum = 0.0f;
  for (int a = 0; a < KH; a++) {
    const int oy = (y + TOP - a) / SH;
    if (y + TOP < a || oy >= OH || oy * SH != y + TOP - a) continue;
    for (int e = 0; e < KW; e++) {
      const int ox = (x + LEFT - e) / SW;
      if (x + LEFT < e || ox >= OW || ox * SW != x + LEFT - e) continue;
      const int patch = oy * OW + ox, element = (ch * KH + a) * KW + e;
      sum += ${patch};
    }
  }
  ${image} = sum;
}
