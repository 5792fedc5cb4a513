/* One element of a patch. */
constexpr int C = ${C}, H = ${H}, W = ${W}, KH = ${KH}, KW = ${KW}, SH = ${SH}, SW = ${SW}, TOP = ${TOP}, LEFT = ${LEFT};
constexpr int OH = ${OH}, OW = ${OW}, WIDTH = C * KH * KW;
const vtb_i64 i = (vtb_i64)vtb_block() * 256 + vtb_tid();
if (i < ${ELEMENTS}ll) {
  const int element = (int)(i % WIDTH), patch = (int)(i / WIDTH % (OH * OW)), b = (int)(i / WIDTH / (OH * OW));
  const int ch = element / (KH * KW), y = patch / OW * SH + element / KW % KH - TOP;
  const int x = patch % OW * SW + element % KW - LEFT;
  ${patch} = y >= 0 && y < H && x >= 0 && x < W ? ${image} : 0.0f;
}
