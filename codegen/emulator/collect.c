/* Collectives, once all lanes are there: the operands of each are in `in` or at `address`, the
 * results go to `out`. Fragments are as in the PTX manual, g = lane / 4, t = lane % 4. Kernels name
 * these by vtb_emu_api, and are not compiled with them each time. */
#include "codegen/emulator/hopper.h"
#include "runtime/base/half.h"

#include <string.h>

/* For the vectors of the machine that runs it, where the linker chooses among functions. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) &&                 \
    !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDE
#endif

static unsigned bits_of(float v) {
  unsigned bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

/* in[0]: the value, in[1]: the lane it comes from */
void vtb__emu_shuffle(vtb_emu_thread **lane, unsigned mask) {
  for (unsigned l = 0; l < VTB__EMU_WARP; l++)
    if (mask >> l & 1) lane[l]->out[0] = lane[lane[l]->in[1] & 31]->in[0];
}

void vtb__emu_nothing(vtb_emu_thread **lane, unsigned mask) {
  (void)lane;
  (void)mask;
}

/* ---- tensor cores ---------------------------------------------------------------------------- */

/* Sums are exact within one instruction, then cut off: tensor cores do not round to nearest. */
static inline float cut(double v) {
  float f = (float)v;
  bool over = v > 0 ? f > v : f < v;
  return over && f - f == 0.0f ? vtb_float_of_bits(bits_of(f) - 1) : f;
}

/* acc (16 x n) += a (16 x k) b (k x n), rows of b `stride` apart; eight columns at a time, which
 * the compiler makes a vector. */
WIDE static void multiply(int n, int k, int stride, const float *a, const float *b, float *acc) {
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < n; j += 8) {
      double sum[8] = {0};
      for (int p = 0; p < k; p++)
        for (int x = 0; x < 8; x++) sum[x] += (double)a[i * k + p] * b[p * stride + j + x];
      for (int x = 0; x < 8; x++) acc[i * n + j + x] = cut(acc[i * n + j + x] + sum[x]);
    }
}

/* in[0..3]: the sums so far */
static void add_product(vtb_emu_thread **lane, int k, const float *a, const float *b) {
  float acc[16 * 8];
  for (int l = 0; l < VTB__EMU_WARP; l++)
    for (int r = 0; r < 4; r++)
      acc[(l / 4 + r / 2 * 8) * 8 + l % 4 * 2 + r % 2] = vtb_float_of_bits(lane[l]->in[r]);
  multiply(8, k, 8, a, b, acc);
  for (int l = 0; l < VTB__EMU_WARP; l++)
    for (int r = 0; r < 4; r++)
      lane[l]->out[r] = bits_of(acc[(l / 4 + r / 2 * 8) * 8 + l % 4 * 2 + r % 2]);
}

void vtb__emu_mma_tf32(vtb_emu_thread **lane, unsigned mask) {
  float a[16][8], b[8][8];
  const unsigned keep = 0xffffe000u; /* the tensor core does not read the other bits */
  (void)mask;
  for (int l = 0; l < VTB__EMU_WARP; l++) {
    const unsigned *in = lane[l]->in + 4;
    int g = l >> 2, t = l & 3;
    a[g][t] = vtb_float_of_bits(in[0] & keep);
    a[g + 8][t] = vtb_float_of_bits(in[1] & keep);
    a[g][t + 4] = vtb_float_of_bits(in[2] & keep);
    a[g + 8][t + 4] = vtb_float_of_bits(in[3] & keep);
    b[t][g] = vtb_float_of_bits(in[4] & keep);
    b[t + 4][g] = vtb_float_of_bits(in[5] & keep);
  }
  add_product(lane, 8, a[0], b[0]);
}

static inline float of_half(bool half, unsigned bits) {
  return half ? vtb_f16_to_f32((uint16_t)bits) : vtb_bf16_to_f32((uint16_t)bits);
}

static inline void mma_16(vtb_emu_thread **lane, bool half) {
  float a[16][16], b[16][8];
  for (int l = 0; l < VTB__EMU_WARP; l++) {
    const unsigned *in = lane[l]->in + 4;
    int g = l >> 2, t = l & 3;
    for (int r = 0; r < 4; r++) {
      int row = g + (r & 1) * 8, col = 2 * t + (r >> 1) * 8;
      a[row][col] = of_half(half, in[r] & 0xffffu);
      a[row][col + 1] = of_half(half, in[r] >> 16);
    }
    for (int r = 0; r < 2; r++) {
      b[2 * t + 8 * r][g] = of_half(half, in[4 + r] & 0xffffu);
      b[2 * t + 8 * r + 1][g] = of_half(half, in[4 + r] >> 16);
    }
  }
  add_product(lane, 16, a[0], b[0]);
}

void vtb__emu_mma_bf16(vtb_emu_thread **lane, unsigned mask) {
  (void)mask;
  mma_16(lane, false);
}

void vtb__emu_mma_f16(vtb_emu_thread **lane, unsigned mask) {
  (void)mask;
  mma_16(lane, true);
}

void vtb__emu_wgmma_compute(int n, bool half, const unsigned short *a, const unsigned short *b,
                            float *acc) {
  float fa[16 * 16], fb[16 * VTB__EMU_MAX_N];
  for (int i = 0; i < 16 * 16; i++) fa[i] = of_half(half, a[i]);
  for (int i = 0; i < 16 * n; i++) fb[i] = of_half(half, b[i]);
  multiply(n, 16, n, fa, fb, acc);
}

/* ---- ldmatrix: lane 8 m + r has the address of row r of matrix m ----------------------------- */

void vtb__emu_ldmatrix(vtb_emu_thread **lane, unsigned mask) {
  (void)mask;
  for (int l = 0; l < VTB__EMU_WARP; l++)
    for (int m = 0; m < 4; m++)
      lane[l]->out[m] = ((const unsigned *)lane[8 * m + (l >> 2)]->address)[l & 3];
}

void vtb__emu_ldmatrix_trans(vtb_emu_thread **lane, unsigned mask) {
  (void)mask;
  for (int l = 0; l < VTB__EMU_WARP; l++)
    for (int m = 0; m < 4; m++) {
      int row = l >> 2, col = 2 * (l & 3);
      unsigned lo = ((const unsigned short *)lane[8 * m + col]->address)[row];
      unsigned hi = ((const unsigned short *)lane[8 * m + col + 1]->address)[row];
      lane[l]->out[m] = lo | hi << 16;
    }
}
