/* The CUDA-on-CPU emulator: numbers of every intrinsic, in any order of threads, checked and
 * unchecked. */
#include "tests/codegen/emulate.h"

#include <ctype.h>

static uint16_t bf16_bits(float v) { /* of values bf16 holds exactly */
  uint32_t bits;
  memcpy(&bits, &v, 4);
  return (uint16_t)(bits >> 16);
}

/* y = x + 1 over a grid whose last block is partial. */
TEST(elementwise) {
  static const char text[] = "VTB_KERNEL(64, k)(VTB_IN(float) x, VTB_OUT(float) y) {\n"
                             "  int i = vtb_block() * 64 + vtb_tid();\n"
                             "  if (i < 1000) y[i] = x[i] + 1.0f;\n"
                             "}\n";
  float x[1000], y[1000];
  for (int i = 0; i < 1000; i++) x[i] = (float)i, y[i] = -1;
  vtb_emu_arg args[] = {EMU_ARG(x), EMU_ARG(y)};
  vtb_emulator_launch l = {.grid = 16, .threads = 64, .n_args = 2, .args = args};
  for (int checked = 0; checked < 2; checked++) {
    emulate_ok(text, &l, checked, 3);
    for (int i = 0; i < 1000; i++) CHECK(y[i] == (float)i + 1);
  }
}

/* A sum over 256 threads through shuffles and shared memory, as the library does it. */
TEST(block_sum) {
  static const char text[] =
      "VTB_KERNEL(256, k)(VTB_IN(float) x, VTB_OUT(float) y) {\n"
      "  VTB_SHARED(float, part, 0, 32);\n"
      "  float v = vtb_block_sum(x[vtb_block() * 256 + vtb_tid()], 8, part);\n"
      "  if (vtb_tid() == 255) y[vtb_block()] = v;\n"
      "}\n";
  float x[512], y[2];
  for (int i = 0; i < 512; i++) x[i] = (float)(i % 7);
  vtb_emu_arg args[] = {EMU_ARG(x), EMU_ARG(y)};
  vtb_emulator_launch l = {
      .grid = 2, .threads = 256, .shared_bytes = 128, .n_args = 2, .args = args};
  for (uint64_t seed = 0; seed < 4; seed++) {
    emulate_ok(text, &l, true, seed);
    for (int b = 0; b < 2; b++) {
      float want = 0;
      for (int i = 0; i < 256; i++) want += x[b * 256 + i];
      CHECK(y[b] == want);
    }
  }
}

TEST(shuffles) {
  static const char text[] = "VTB_KERNEL(32, k)(VTB_OUT(float) y) {\n"
                             "  int l = vtb_lane();\n"
                             "  y[l] = vtb_shfl((float)l, 5);\n"
                             "  y[32 + l] = vtb_shfl_xor((float)l, 3);\n"
                             "  y[64 + l] = vtb_shfl_up((float)l, 2);\n"
                             "  y[96 + l] = vtb_shfl_down((float)l, 30);\n"
                             "}\n";
  float y[128];
  vtb_emu_arg args[] = {EMU_ARG(y)};
  vtb_emulator_launch l = {.grid = 1, .threads = 32, .n_args = 1, .args = args};
  emulate_ok(text, &l, true, 1);
  for (int i = 0; i < 32; i++) {
    CHECK(y[i] == 5);
    CHECK(y[32 + i] == (float)(i ^ 3));
    CHECK(y[64 + i] == (float)(i < 2 ? i : i - 2));
    CHECK(y[96 + i] == (float)(i > 1 ? i : i + 30));
  }
}

/* c (16, 8) = a (16, k) b (k, 8), fragments loaded as the PTX manual lays them out. */
static void check_product(const float *a, const float *b, const float *c, int k, float bound) {
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 8; j++) {
      double want = 0;
      for (int p = 0; p < k; p++) want += (double)a[i * k + p] * b[p * 8 + j];
      CHECK(fabs(c[i * 8 + j] - want) <= bound);
    }
}

TEST(mma_tf32) {
  static const char text[] =
      "VTB_KERNEL(32, k)(VTB_IN(float) a, VTB_IN(float) b, VTB_OUT(float) c) {\n"
      "  int g = vtb_lane() >> 2, t = vtb_lane() & 3;\n"
      "  float d[4] = {0, 0, 0, 0};\n"
      "  vtb_u32 fa[4], fb[2];\n"
      "  fa[0] = vtb_to_tf32(a[g * 8 + t]);     fa[1] = vtb_to_tf32(a[(g + 8) * 8 + t]);\n"
      "  fa[2] = vtb_to_tf32(a[g * 8 + t + 4]); fa[3] = vtb_to_tf32(a[(g + 8) * 8 + t + 4]);\n"
      "  fb[0] = vtb_to_tf32(b[t * 8 + g]);     fb[1] = vtb_to_tf32(b[(t + 4) * 8 + g]);\n"
      "  vtb_mma_tf32_m16n8k8(d, fa, fb);\n"
      "  c[g * 8 + 2 * t] = d[0];       c[g * 8 + 2 * t + 1] = d[1];\n"
      "  c[(g + 8) * 8 + 2 * t] = d[2]; c[(g + 8) * 8 + 2 * t + 1] = d[3];\n"
      "}\n";
  float a[128], b[64], c[128];
  for (int i = 0; i < 128; i++) a[i] = (float)((i * 37) % 19 - 9);
  for (int i = 0; i < 64; i++) b[i] = (float)((i * 23) % 17 - 8);
  vtb_emu_arg args[] = {EMU_ARG(a), EMU_ARG(b), EMU_ARG(c)};
  vtb_emulator_launch l = {.grid = 1, .threads = 32, .n_args = 3, .args = args};
  emulate_ok(text, &l, true, 1);
  check_product(a, b, c, 8, 0);
  for (int i = 0; i < 128; i++)
    a[i] = 1.0f / (float)(i + 3); /* tf32 keeps 10 bits of the fraction */
  emulate_ok(text, &l, true, 1);
  check_product(a, b, c, 8, 8 * 8 * 0.34f / 2048);
  float exact = 0;
  for (int p = 0; p < 8; p++) exact += a[p] * b[p * 8];
  CHECK(c[0] != exact); /* it does round */
}

/* Sums within one instruction are exact and then cut off towards zero. */
TEST(mma_cuts_sums_off) {
  static const char text[] =
      "VTB_KERNEL(32, k)(VTB_IN(float) c, VTB_OUT(float) d) {\n"
      "  float s[4] = {c[0], c[1], c[2], c[3]};\n"
      "  const vtb_u32 a[4] = {vtb_bits(0.000244140625f), 0u, 0u, 0u};\n" /* 2^-12 */
      "  const vtb_u32 b[2] = {vtb_bits(0.00006103515625f), 0u};\n"       /* 2^-14 */
      "  vtb_mma_tf32_m16n8k8(s, a, b);\n" /* + 4 2^-26 in the rows from 0 to 7 */
      "  for (int i = 0; i < 4; i++) d[vtb_lane() * 4 + i] = s[i];\n"
      "}\n";
  float c[4] = {1, -1, -1, 1}, d[128];
  vtb_emu_arg args[] = {EMU_ARG(c), EMU_ARG(d)};
  vtb_emulator_launch l = {.grid = 1, .threads = 32, .n_args = 2, .args = args};
  emulate_ok(text, &l, true, 1);
  CHECK(d[0] == 1 && d[1] == -1 + 0x1p-24f && d[2] == -1 && d[3] == 1);
  c[0] = 1 - 0x1p-24f; /* 1 - 2^-24 + 2^-24 */
  emulate_ok(text, &l, true, 1);
  CHECK(d[0] == 1);
}

/* A through ldmatrix, B through the transposed form, both brought to shared memory by cp.async. */
TEST(mma_bf16_ldmatrix_cp_async) {
  static const char text[] =
      "VTB_KERNEL(32, k)(VTB_IN(vtb_bf16) a, VTB_IN(vtb_bf16) b, VTB_OUT(float) c) {\n"
      "  VTB_SHARED(vtb_bf16, sa, 0, 256);\n"
      "  VTB_SHARED(vtb_bf16, sb, 512, 256);\n" /* (16, 8), and 16 more rows of zeros */
      "  int l = vtb_lane(), g = l >> 2, t = l & 3;\n"
      "  vtb_cp_async16(sa + l * 8, a + l * 8, true);\n"
      "  vtb_cp_async16(sb + l * 8, b + l * 8, l < 16);\n"
      "  vtb_cp_commit();\n"
      "  vtb_cp_wait<0>();\n"
      "  vtb_sync();\n"
      "  vtb_u32 fa[4], fb[4], f2[2];\n"
      /* matrices: rows 0-7 and 8-15 of columns 0-7, then of columns 8-15 */
      "  vtb_ldmatrix_x4(fa, sa + (l & 15) * 16 + (l >> 4) * 8);\n"
      "  vtb_ldmatrix_x4_trans(fb, sb + l * 8);\n"
      "  f2[0] = fb[0]; f2[1] = fb[1];\n"
      "  float d[4] = {1, 1, 1, 1};\n"
      "  vtb_mma_bf16_m16n8k16(d, fa, f2);\n"
      "  c[g * 8 + 2 * t] = d[0] - 1;       c[g * 8 + 2 * t + 1] = d[1] - 1;\n"
      "  c[(g + 8) * 8 + 2 * t] = d[2] - 1; c[(g + 8) * 8 + 2 * t + 1] = d[3] - 1;\n"
      "}\n";
  float a[256], b[128], c[128];
  uint16_t ha[256], hb[128];
  for (int i = 0; i < 256; i++) a[i] = (float)((i * 37) % 19 - 9);
  for (int i = 0; i < 128; i++) b[i] = (float)((i * 23) % 17 - 8);
  for (int i = 0; i < 256; i++) ha[i] = bf16_bits(a[i]);
  for (int i = 0; i < 128; i++) hb[i] = bf16_bits(b[i]);
  vtb_emu_arg args[] = {EMU_ARG(ha), EMU_ARG(hb), EMU_ARG(c)};
  vtb_emulator_launch l = {
      .grid = 1, .threads = 32, .shared_bytes = 1024, .n_args = 3, .args = args};
  for (int checked = 0; checked < 2; checked++) {
    emulate_ok(text, &l, checked, 5);
    check_product(a, b, c, 16, 0);
  }
}

TEST(conversions) {
  static const char text[] =
      "VTB_KERNEL(32, k)(VTB_IN(float) x, VTB_OUT(int) y) {\n"
      "  if (vtb_tid() == 0) {\n"
      "    y[0] = (int)vtb_pack_bf16(x[0], 0.0f); y[1] = (int)vtb_pack_bf16(x[1], 0.0f);\n"
      "    y[2] = (int)vtb_to_tf32(x[2]); y[3] = vtb_to_int(x[3]); y[4] = vtb_to_int(x[4]);\n"
      "    y[5] = vtb_to_int(x[5]);\n"
      "  }\n"
      "}\n";
  /* a tie goes to the even bf16; a tie goes away from zero in tf32 */
  float x[6] = {1.0f + 0x1p-8f, 1.0f + 3 * 0x1p-8f, 1.0f + 0x1p-11f, 3e9f, NAN, -2.7f};
  int32_t y[6];
  vtb_emu_arg args[] = {EMU_ARG(x), EMU_ARG(y)};
  vtb_emulator_launch l = {.grid = 1, .threads = 32, .n_args = 2, .args = args};
  emulate_ok(text, &l, true, 1);
  CHECK(y[0] == 0x3f80 && y[1] == 0x3f82);
  CHECK(y[2] == 0x3f802000);
  CHECK(y[3] == INT32_MAX && y[4] == 0 && y[5] == -2);
}

/* Every function the GPU's intrinsics define exists here too, under the same name. */
TEST(no_intrinsic_is_missing) {
  vtb_error err = {0};
  char *gpu = NULL, *cpu = NULL;
  size_t n;
  int functions = 0;
  CHECK(vtb_file_read(VTB_SOURCE_DIR "/codegen/cuda/text/intrinsics.cuh", 1 << 20, &gpu, &n,
                      &err) == VTB_OK);
  CHECK(vtb_file_read(VTB_SOURCE_DIR "/codegen/emulator/device.hpp", 1 << 20, &cpu, &n, &err) ==
        VTB_OK);
  for (const char *p = gpu; p && (p = strstr(p, "VTB_FN ")); p++) {
    const char *paren = strchr(p, '('), *begin = paren;
    if (!paren || !cpu) break;
    while (begin > p && (begin[-1] == '_' || isalnum((unsigned char)begin[-1]))) begin--;
    char name[128];
    snprintf(name, sizeof name, "%.*s(", (int)(paren - begin), begin);
    if (!vtb_starts_with(name, "vtb_") || strcmp(name, "vtb_shared_address(") == 0) continue;
    CHECK_MSG(strstr(cpu, name), "%s) is not in device.hpp", name);
    functions++;
  }
  CHECK(functions > 30);
  free(gpu);
  free(cpu);
}

int main(void) {
  emulate_or_skip();
  RUN(elementwise);
  RUN(block_sum);
  RUN(shuffles);
  RUN(mma_tf32);
  RUN(mma_cuts_sums_off);
  RUN(mma_bf16_ldmatrix_cp_async);
  RUN(conversions);
  RUN(no_intrinsic_is_missing);
  return test_done();
}
