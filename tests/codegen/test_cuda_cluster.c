/* Clusters of blocks in the emulator: barriers, memory of other blocks and copies to several
 * compute what they should; every planted bug of emulator_cluster_bugs.cu is caught, on its line,
 * whatever the order of threads. */
#include "runtime/base/half.h"
#include "tests/codegen/planted.h"

enum { ROWS = 64, COLS = 64, BLOCKS = 4 };
static uint16_t x[ROWS * COLS];
static float y[BLOCKS * ROWS * COLS];
static const vtb_emu_map map = {.rank = 2,
                                .element_bytes = 2,
                                .swizzle = 128,
                                .size = {COLS, ROWS},
                                .stride = {2, COLS * 2},
                                .box = {COLS, ROWS / 2}};
static planted bugs;

static float number(int i) { return (float)((i * 37 + i / 64 * 11) % 17 - 8); }

static vtb_emulator_launch launch_of(const char *kernel, const vtb_emu_arg *args) {
  return (vtb_emulator_launch){.kernel = kernel,
                               .grid = BLOCKS,
                               .cluster = 2,
                               .threads = 64,
                               .shared_bytes = 1024 + 16384,
                               .n_args = 3,
                               .args = args};
}

static void check_sound(const char *kernel, vtb_status status, const vtb_error *err) {
  int wrong = 0;
  CHECK_MSG(status == VTB_OK, "%s", err->text);
  for (int i = 0; i < BLOCKS * ROWS * COLS; i++) wrong += y[i] != number(i % (ROWS * COLS));
  CHECK_MSG(!wrong, "%s: %d numbers are wrong", kernel, wrong);
}

static void run_all(bool checked, uint64_t seed) {
  vtb_emulator *e = planted_emulator(&bugs, checked, seed);
  for (int k = 0; e && k < bugs.n_kernels; k++) {
    vtb_emu_arg args[] = {{(char *)x, (char *)(x + ROWS * COLS), &map}, EMU_ARG(x), EMU_ARG(y)};
    vtb_emulator_launch l = launch_of(bugs.names[k], args);
    vtb_error bug = {0};
    bool sound = vtb_starts_with(bugs.names[k], "ok_");
    if (!checked && !sound) continue;
    memset(y, 0xff, sizeof y);
    vtb_status status = vtb_emulator_run(e, &l, NULL, &bug);
    if (sound)
      check_sound(bugs.names[k], status, &bug);
    else
      planted_check(&bugs, bugs.names[k], status, bug.text, seed);
  }
  vtb_emulator_free(e);
}

TEST(planted_bugs) {
  CHECK(bugs.n_kernels > 15);
  for (uint64_t seed = 0; seed < 6; seed++) run_all(true, seed);
  run_all(false, 1);
}

static void refuse(int64_t grid, int cluster, int threads) {
  vtb_emu_arg args[] = {{(char *)x, (char *)(x + ROWS * COLS), &map}, EMU_ARG(x), EMU_ARG(y)};
  vtb_emulator_launch l = launch_of("ok_loads", args);
  vtb_emulator *e = planted_emulator(&bugs, true, 0);
  vtb_error err = {0};
  l.grid = grid;
  l.cluster = cluster;
  l.threads = threads;
  CHECK(vtb_emulator_run(e, &l, NULL, &err) == VTB_E_INTERNAL && strstr(err.text, "clusters of"));
  vtb_emulator_free(e);
}

TEST(launches_that_no_cluster_divides) {
  refuse(3, 2, 64);
  refuse(18, 9, 64);
  refuse(8, 8, 288);
  refuse(4, -2, 64);
}

int main(void) {
  emulate_or_skip();
  for (int i = 0; i < ROWS * COLS; i++) x[i] = vtb_f32_to_bf16(number(i));
  planted_read(&bugs, "emulator_cluster_bugs.cu", "VTB_KERNEL(64, ");
  RUN(planted_bugs);
  RUN(launches_that_no_cluster_divides);
  planted_free(&bugs);
  return test_done();
}
