/* dw [C, KT, KH, KW] from parts [share, tap, C]. */
hole int C, KT, KH, KW; /* channels; kernel */
hole int SHARES;
hole int THREADS;
hole expr dw_at; /* offset of ch, row a of the kernel, all frames, and column e */
constexpr int COUNT = KT * KH * KW * C;
const int i = vtb_block() * THREADS + vtb_tid();
if (i < COUNT) {
  const int ch = i % C, a = i / C / KW, e = i / C % KW;
  dw[${dw_at}] = vtb_sum_apart(part, i, COUNT, SHARES);
}
