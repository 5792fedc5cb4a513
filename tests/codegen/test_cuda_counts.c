/* What accesses cost, as the emulator counts it: each planted pattern exactly. */
#include "tests/codegen/emulate.h"

/* Counts one block of kernel `k`. */
static vtb_emulator_counts count(const char *body, int threads, int shared_bytes) {
  static char memory[1 << 16] __attribute__((aligned(256)));
  static const char *const name[] = {"k"};
  vtb_error err = {0};
  vtb_emulator *e = NULL;
  vtb_emulator_counts c = {0};
  vtb_strbuf text = {0};
  vtb_emulator_options o = {.counted = true, .seed = 3};
  vtb_emu_arg args[] = {EMU_ARG(memory), EMU_ARG(memory), EMU_ARG(memory)};
  vtb_emulator_launch l = {.kernel = "k",
                           .grid = 4,
                           .threads = threads,
                           .shared_bytes = shared_bytes,
                           .n_args = 3,
                           .args = args};
  vtb_strbuf_printf(&text,
                    "VTB_KERNEL(%d, k)(VTB_IN(float) x, VTB_IN(vtb_bf16) h, VTB_OUT(float) y) {\n"
                    "  const int t = vtb_tid(), l = vtb_lane();\n%s}\n",
                    threads, body);
  vtb_status status = vtb_emulator_new(text.at, name, 1, &o, &e, &err);
  if (status == VTB_OK) status = vtb_emulator_count(e, &l, (const int64_t[]){0}, 1, &c, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  vtb_emulator_free(e);
  vtb_strbuf_free(&text);
  return c;
}

#define CHECK_COUNT(is, want)                                                                      \
  CHECK_MSG((is) == (want), #is " is %lld, want %lld", (long long)(is), (long long)(want))

static void check_global(const vtb_emulator_counts *c, int accesses, int useful, int sectors,
                         int lines, int ideal) {
  CHECK_COUNT(c->accesses, accesses);
  CHECK_COUNT(c->useful, useful);
  CHECK_COUNT(c->sectors, sectors);
  CHECK_COUNT(c->lines, lines);
  CHECK_COUNT(c->ideal, ideal);
}

TEST(rows_of_floats_are_ideal) {
  vtb_emulator_counts c = count("  y[t] = x[t];\n", 64, 0);
  check_global(&c, 4, 512, 16, 4, 16);
  CHECK(c.block_sectors == 16 && c.block_ideal == 16 && c.block_useful == 512);
  CHECK(c.partial == 0 && c.idle == 0 && c.threads == 64 && c.blocks == 1 && !c.worst[0]);
}

TEST(halves_take_half) {
  vtb_emulator_counts c = count("  y[t] = h[t];\n", 32, 0);
  check_global(&c, 2, 64 + 128, 2 + 4, 2, 6);
}

TEST(vectors_take_four_times) {
  vtb_emulator_counts c = count(
      "  vtb_store4(y, 4 * t, vtb_load4(x, 4 * t));\n  y[t] = vtb_load4(h, 4 * t).x;\n", 32, 0);
  check_global(&c, 4, 512 + 512 + 256 + 128, 16 + 16 + 8 + 4, 4 + 4 + 2 + 1, 44);
}

/* Element 16 of each of 32 rows: a sector each for four bytes. */
TEST(strides_waste_sectors) {
  vtb_emulator_counts c = count("  y[t] = x[16 * t];\n", 32, 0);
  check_global(&c, 2, 256, 32 + 4, 16 + 1, 4 + 4);
  CHECK_STR(c.worst, "kernels.cu:3");
  CHECK(c.worst_sectors == 32 && c.worst_ideal == 4);
  c = count("  y[t] = h[512 * t];\n", 32, 0);
  check_global(&c, 2, 64 + 128, 32 + 4, 32 + 1, 2 + 4);
}

/* The same columns one after another: a warp's accesses are as bad, the block's are whole rows. */
TEST(a_cache_mends_what_the_block_uses_whole) {
  vtb_emulator_counts c = count(
      "  float s = 0;\n  for (int i = 0; i < 8; i++) s += x[8 * t + i];\n  y[t] = s;\n", 32, 0);
  check_global(&c, 9, 8 * 128 + 128, 8 * 32 + 4, 8 * 8 + 1, 8 * 4 + 4);
  CHECK(c.block_useful == 1024 + 128 && c.block_sectors == 36 && c.block_ideal == 36);
}

TEST(a_misaligned_row_touches_one_more) {
  vtb_emulator_counts c = count("  y[t] = x[t + 3];\n", 32, 0);
  check_global(&c, 2, 256, 5 + 4, 2 + 1, 8);
}

TEST(one_word_for_all_is_one_sector) {
  vtb_emulator_counts c = count("  y[t] = x[77];\n", 32, 0);
  check_global(&c, 2, 4 + 128, 1 + 4, 2, 5);
}

/* Lanes go through a loop together, tails included. */
TEST(lanes_meet_by_iteration) {
  vtb_emulator_counts c = count("  for (int i = t; i < 80; i += 32) y[i] = x[i];\n", 32, 0);
  check_global(&c, 6, 640, 20, 6, 20);
  CHECK_COUNT(c.partial, 2);
  CHECK_COUNT(c.lanes, 2 * 80);
}

TEST(branches_are_partial_accesses) {
  vtb_emulator_counts c =
      count("  if (l % 2)\n    y[t] = x[t];\n  else\n    y[t] = x[t + 1024];\n", 32, 0);
  CHECK_COUNT(c.accesses, 4);
  CHECK_COUNT(c.partial, 4);
  CHECK_COUNT(c.sectors, 16);
  CHECK_COUNT(c.ideal, 8);
}

TEST(threads_without_accesses_are_idle) {
  vtb_emulator_counts c = count("  if (t < 40) y[t] = 1.0f;\n", 128, 0);
  CHECK(c.threads == 128 && c.idle == 88 && c.partial == 1);
}

static void check_banks(const char *body, int shared, int wavefronts, int least) {
  vtb_emulator_counts c = count(body, 32, 16384);
  CHECK_COUNT(c.shared, shared);
  CHECK_COUNT(c.wavefronts, wavefronts);
  CHECK_COUNT(c.least_wavefronts, least);
}

#define SHARED "  VTB_SHARED(float, s, 0, 4096);\n"

TEST(banks) {
  check_banks(SHARED "  s[t] = 0.0f;\n", 1, 1, 1);
  check_banks(SHARED "  s[2 * t] = 0.0f;\n", 1, 2, 1);
  check_banks(SHARED "  s[32 * t] = 0.0f;\n", 1, 32, 1);
  check_banks(SHARED "  s[33 * t] = 0.0f;\n", 1, 1, 1);
  check_banks(SHARED "  y[t] = s[5];\n", 1, 1, 1); /* one word for all */
}

TEST(banks_of_wide_accesses) {
  check_banks(SHARED "  y[t] = vtb_load4(s, 4 * t).x;\n", 1, 4, 4);
  check_banks(SHARED "  y[t] = vtb_load4(s, 32 * t).x;\n", 1, 32, 4);
  check_banks(SHARED "  y[t] = vtb_load4(s, 36 * t).x;\n", 1, 4, 4);
  check_banks("  VTB_SHARED(vtb_bf16, s, 0, 4096);\n  y[t] = vtb_load4(s, 4 * t).x;\n", 1, 2, 2);
  check_banks("  VTB_SHARED(vtb_bf16, s, 0, 4096);\n  y[t] = s[t];\n", 1, 1, 1);
  check_banks("  VTB_SHARED(vtb_bf16, s, 0, 4096);\n  y[t] = s[64 * t];\n", 1, 32, 1);
}

TEST(asynchronous_copies_are_a_read_and_a_write) {
  vtb_emulator_counts c =
      count(SHARED "  vtb_cp_async16(s + 4 * t, x + 64 * t, true);\n  vtb_cp_commit();\n"
                   "  vtb_cp_wait<0>();\n",
            32, 16384);
  check_global(&c, 1, 512, 32, 32, 16);
  CHECK(c.shared == 1 && c.wavefronts == 4 && c.least_wavefronts == 4);
  c = count(SHARED "  vtb_cp_async16(s + 4 * t, x, t < 8);\n  vtb_cp_commit();\n"
                   "  vtb_cp_wait<0>();\n",
            32, 16384);
  CHECK(c.accesses == 1 && c.sectors == 1 && c.partial == 1);
}

/* Rows of 64 bytes: the quarters of a matrix's eight rows meet in the same banks. */
TEST(fragments) {
  static const char text[] = "  VTB_SHARED(vtb_bf16, s, 0, 4096);\n  vtb_u32 d[4];\n"
                             "  vtb_ldmatrix_x4(d, s + %d * l);\n  y[t] = (float)d[0];\n";
  char body[256];
  snprintf(body, sizeof body, text, 40);
  check_banks(body, 1, 4, 4);
  snprintf(body, sizeof body, text, 32);
  check_banks(body, 1, 16, 4);
}

/* Boxes of tensor maps: rows of 32 bytes in a matrix of 128 a row, one of them outside. */
TEST(boxes_are_rows) {
  static const char text[] =
      "VTB_KERNEL(32, k)(VTB_MAP(x)) {\n"
      "  VTB_SHARED(vtb_bf16, s, 0, 256);\n  VTB_SHARED(vtb_u64, bar, 1024, 1);\n"
      "  if (vtb_tid() == 0) {\n    vtb_mbar_init(bar, 1);\n    vtb_mbar_ready();\n  }\n"
      "  vtb_sync();\n"
      "  if (vtb_tid() == 0) {\n    vtb_mbar_expect(bar, 512);\n"
      "    vtb_tma_load(s, x, bar, 8, 1);\n  }\n"
      "  vtb_mbar_wait(bar, 0);\n}\n";
  static const vtb_emu_map map = {
      .rank = 2, .element_bytes = 2, .size = {64, 16}, .stride = {2, 128}, .box = {16, 16}};
  static char memory[16 * 128] __attribute__((aligned(256)));
  static const char *const name[] = {"k"};
  vtb_error err = {0};
  vtb_emulator *e = NULL;
  vtb_emulator_counts c = {0};
  vtb_emulator_options o = {.counted = true};
  vtb_emu_arg args[] = {{.begin = memory, .end = memory + sizeof memory, .map = &map}};
  vtb_emulator_launch l = {
      .kernel = "k", .grid = 1, .threads = 32, .shared_bytes = 2048, .n_args = 1, .args = args};
  vtb_status status = vtb_emulator_new(text, name, 1, &o, &e, &err);
  if (status == VTB_OK) status = vtb_emulator_count(e, &l, (const int64_t[]){0}, 1, &c, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  vtb_emulator_free(e);
  /* from byte 16 on: two sectors for one */
  check_global(&c, 15, 15 * 32, 30, 15, 15);
  CHECK(c.boxes == 15 && c.block_sectors == 30 && c.block_ideal == 15 && c.partial == 0);
}

int main(void) {
  emulate_or_skip();
  RUN(rows_of_floats_are_ideal);
  RUN(halves_take_half);
  RUN(vectors_take_four_times);
  RUN(strides_waste_sectors);
  RUN(a_cache_mends_what_the_block_uses_whole);
  RUN(a_misaligned_row_touches_one_more);
  RUN(one_word_for_all_is_one_sector);
  RUN(lanes_meet_by_iteration);
  RUN(branches_are_partial_accesses);
  RUN(threads_without_accesses_are_idle);
  RUN(banks);
  RUN(banks_of_wide_accesses);
  RUN(asynchronous_copies_are_a_read_and_a_write);
  RUN(fragments);
  RUN(boxes_are_rows);
  return test_done();
}
