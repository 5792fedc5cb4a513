/* What sm_90a adds, in the emulator: copies of boxes, mbarriers and wgmma compute what they should,
 * for all shapes and layouts; every planted bug of emulator_hopper_bugs.cu is caught, on its line,
 * whatever the order of threads. */
#include "runtime/base/half.h"
#include "tests/codegen/planted.h"

enum { ROWS = 64, COLS = 64 };
static uint16_t x[ROWS * COLS];
static float y[ROWS * COLS], expected[ROWS * COLS];
static const vtb_emu_map map = {.rank = 2,
                                .element_bytes = 2,
                                .swizzle = 128,
                                .size = {COLS, ROWS},
                                .stride = {2, COLS * 2},
                                .box = {COLS, ROWS}};

static float number(int i) { return (float)((i * 37 + i / 64 * 11) % 17 - 8); }

static void fill(void) {
  for (int i = 0; i < ROWS * COLS; i++) x[i] = vtb_f32_to_bf16(number(i));
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < ROWS; c++) {
      expected[r * ROWS + c] = 0;
      for (int k = 0; k < COLS; k++)
        expected[r * ROWS + c] += number(r * COLS + k) * number(c * COLS + k);
    }
}

/* ---- planted bugs ---------------------------------------------------------------------------- */

static planted bugs;

static void run_all(bool checked, uint64_t seed) {
  vtb_emulator *e = planted_emulator(&bugs, checked, seed);
  for (int k = 0; e && k < bugs.n_kernels; k++) {
    vtb_emu_arg args[] = {{(char *)x, (char *)(x + ROWS * COLS), &map}, EMU_ARG(x), EMU_ARG(y)};
    vtb_emulator_launch l = {.kernel = bugs.names[k],
                             .grid = 1,
                             .threads = 160,
                             .shared_bytes = 9216 + 8192,
                             .n_args = 3,
                             .args = args};
    vtb_error bug = {0};
    bool sound = vtb_starts_with(bugs.names[k], "ok_");
    if (!checked && !sound) continue;
    memset(y, 0xff, sizeof y);
    vtb_status status = vtb_emulator_run(e, &l, NULL, &bug);
    if (!sound) {
      planted_check(&bugs, bugs.names[k], status, bug.text, seed);
      continue;
    }
    CHECK_MSG(status == VTB_OK, "%s", bug.text);
    CHECK_MSG(memcmp(y, expected, sizeof y) == 0, "%s: wrong numbers", bugs.names[k]);
  }
  vtb_emulator_free(e);
}

TEST(planted_bugs) {
  CHECK(bugs.n_kernels > 20);
  for (uint64_t seed = 0; seed < 3; seed++) run_all(true, seed);
  run_all(false, 1);
}

/* ---- registers ------------------------------------------------------------------------------- */

/* What the emulator says of three groups of four warps, one of which gives registers to the other
 * two. */
static const char *exchange_registers(int down, int up, const char *before_down) {
  static char message[1024];
  char text[600];
  snprintf(text, sizeof text,
           "VTB_KERNEL_ROOMY(384, k)(VTB_MAP(map)) {\n"
           "  if (vtb_warp() >= 8) {\n    %s\n    vtb_registers_down<%d>();\n  } else {\n"
           "    vtb_registers_up<%d>();\n  }\n%s}\n",
           before_down, down, up, *before_down ? "" : "  vtb_sync();\n");
  vtb_emu_arg args[] = {{(char *)x, (char *)(x + ROWS * COLS), &map}};
  vtb_emulator_launch l = {.grid = 1, .threads = 384, .n_args = 1, .args = args};
  for (uint64_t seed = 1; seed < 4; seed++) emulate(text, &l, true, seed, message);
  return message;
}

TEST(registers_of_a_block) {
  CHECK_STR(exchange_registers(40, 232, ""), "");
  CHECK_STR(exchange_registers(24, 240, ""), "");
  CHECK(strstr(exchange_registers(40, 240, ""), "waits at vtb_registers_up in kernels.cu:6 for"));
  CHECK(strstr(exchange_registers(40, 160, ""), "kernels.cu:6: from 168 registers up to 160"));
  CHECK(strstr(exchange_registers(176, 232, ""), "kernels.cu:4: from 168 registers down to 176"));
  /* who gives waits for who takes */
  CHECK(strstr(exchange_registers(40, 232, "vtb_sync();"), "waits at vtb_registers_up"));
}

/* ---- products -------------------------------------------------------------------------------- */

enum { K = 64, MOST_N = 256 };
static uint16_t left[64 * K], right[MOST_N * K];
static float result[64 * MOST_N];

typedef struct layout {
  int n, swizzle, half, a_mn, b_mn, rows;
} layout;

/* One product of 64 x n with k of 64, both factors by copies of boxes as wide as the swizzle. */
static const char *product_text(const layout *l) {
  static char text[4000];
  int wide = l->swizzle / 2; /* elements */
  snprintf(text, sizeof text,
           "template <class P> VTB_FN void load(const P &to, const vtb_map &map, const "
           "VTB_PTR(vtb_u64) bar, int across, int rows) {\n"
           "  if (across)\n"
           "    for (int r = 0; r < rows; r += %d) vtb_tma_load(to + r * 64, map, bar, r, 0);\n"
           "  else\n"
           "    for (int k = 0; k < 64; k += %d) vtb_tma_load(to + k * rows, map, bar, k, 0);\n"
           "}\n"
           "template <class P> VTB_FN vtb_u64 tile(const P &at, int across, int rows, int k) {\n"
           "  const int s = %d;\n"
           "  if (across) return vtb_wgmma_tile<s>(at, 64 * s, 8 * s) + k * s / 16;\n"
           "  return vtb_wgmma_tile<s>(at + k / %d * %d * rows, 0, 8 * s) + k %% %d / 8;\n"
           "}\n"
           "VTB_KERNEL(128, k)(VTB_MAP(am), VTB_MAP(bm), VTB_IN(%s) a, VTB_OUT(float) c) {\n"
           "  VTB_SHARED(vtb_u64, bar, 0, 1);\n"
           "  VTB_SHARED(vtb_bf16, at, 1024, 4096);\n"
           "  VTB_SHARED(vtb_bf16, bt, 9216, %d);\n"
           "  float d[%d];\n"
           "  if (vtb_tid() == 0) {\n"
           "    vtb_mbar_init(bar, 1);\n"
           "    vtb_mbar_ready();\n"
           "    vtb_mbar_expect(bar, %d);\n"
           "    load(at, am, bar, %d, 64);\n"
           "    load(bt, bm, bar, %d, %d);\n"
           "  }\n"
           "  vtb_sync();\n"
           "  vtb_mbar_wait(bar, 0);\n"
           "  vtb_wgmma_fence();\n"
           "  for (int k = 0; k < 64; k += 16) {\n"
           "    vtb_u64 b = tile(bt, %d, %d, k);\n"
           "    vtb_u32 r[4];\n"
           "    if (%d) {\n"
           "      int row = vtb_warp() * 16 + vtb_lane() / 4, col = k + vtb_lane() %% 4 * 2;\n"
           "      for (int i = 0; i < 4; i++) {\n"
           "        int e = (row + i %% 2 * 8) * 64 + col + i / 2 * 8;\n"
           "        r[i] = %s(a[e], a[e + 1]);\n"
           "      }\n"
           "      vtb_wgmma_rows<%d, %d, %d>(d, r, b, k > 0);\n"
           "    } else\n"
           "      vtb_wgmma<%d, %d, %d, %d>(d, tile(at, %d, 64, k), b, k > 0);\n"
           "  }\n"
           "  vtb_wgmma_commit();\n"
           "  vtb_wgmma_wait<0>();\n"
           "  for (int i = 0; i < %d; i++)\n"
           "    c[(vtb_warp() * 16 + vtb_lane() / 4 + i / 2 %% 2 * 8) * %d + i / 4 * 8 + "
           "vtb_lane() %% 4 "
           "* 2 + i %% 2] = d[i];\n"
           "}\n",
           wide, wide, l->swizzle, wide, wide, wide, l->half ? "vtb_f16" : "vtb_bf16", l->n * K,
           l->n / 2, (64 + l->n) * K * 2, l->a_mn, l->b_mn, l->n, l->b_mn, l->n, l->rows,
           l->half ? "vtb_pack_f16" : "vtb_pack_bf16", l->n, l->half, l->b_mn, l->n, l->half,
           l->a_mn, l->b_mn, l->a_mn, l->n / 2, l->n);
  return text;
}

/* A factor of `rows`, along or across k, with boxes as wide as the swizzle. */
static vtb_emu_map factor(int rows, bool across, int swizzle) {
  vtb_emu_map m = {.rank = 2, .element_bytes = 2, .swizzle = swizzle};
  m.size[0] = across ? rows : K;
  m.size[1] = across ? K : rows;
  m.stride[1] = m.size[0] * 2;
  m.box[0] = swizzle / 2;
  m.box[1] = across ? K : rows;
  return m;
}

static float wanted(const layout *l, int r, int c) {
  float sum = 0;
  for (int k = 0; k < K; k++) {
    uint16_t a = left[l->a_mn ? k * 64 + r : r * K + k],
             b = right[l->b_mn ? k * l->n + c : c * K + k];
    sum +=
        l->half ? vtb_f16_to_f32(a) * vtb_f16_to_f32(b) : vtb_bf16_to_f32(a) * vtb_bf16_to_f32(b);
  }
  return sum;
}

static void check_product(const layout *l) {
  for (int i = 0; i < 64 * K; i++)
    left[i] = l->half ? vtb_f32_to_f16(number(i)) : vtb_f32_to_bf16(number(i));
  for (int i = 0; i < l->n * K; i++)
    right[i] = l->half ? vtb_f32_to_f16(number(i + 5)) : vtb_f32_to_bf16(number(i + 5));
  vtb_emu_map a = factor(64, l->a_mn, l->swizzle), b = factor(l->n, l->b_mn, l->swizzle);
  vtb_emu_arg args[] = {{(char *)left, (char *)(left + 64 * K), &a},
                        {(char *)right, (char *)(right + l->n * K), &b},
                        EMU_ARG(left),
                        EMU_ARG(result)};
  vtb_emulator_launch launch = {
      .grid = 1, .threads = 128, .shared_bytes = 9216 + l->n * K * 2, .n_args = 4, .args = args};
  emulate_ok(product_text(l), &launch, true, 1);
  int wrong = 0;
  for (int r = 0; r < 64; r++)
    for (int c = 0; c < l->n; c++) wrong += result[r * l->n + c] != wanted(l, r, c);
  CHECK_MSG(!wrong, "n %d, swizzle %d, across %d %d, half %d, rows %d: %d are wrong", l->n,
            l->swizzle, l->a_mn, l->b_mn, l->half, l->rows, wrong);
}

TEST(products_of_every_layout) {
  static const layout layouts[] = {
      {64, 128, 0, 0, 0, 0}, {256, 128, 0, 0, 1, 0}, {128, 128, 1, 1, 0, 0}, {64, 128, 0, 1, 1, 0},
      {32, 64, 0, 0, 0, 0},  {96, 64, 1, 1, 1, 0},   {16, 32, 0, 1, 0, 0},   {192, 32, 0, 0, 1, 0},
      {64, 128, 0, 0, 0, 1}, {128, 128, 1, 0, 1, 1}};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) check_product(&layouts[i]);
}

/* ---- boxes that reach over the edges -------------------------------------------------------- */

/* A box of 3 x 5 x 8 at (z, y, x) of a tensor of 4 x 6 x 20, and back to another place. */
TEST(boxes_over_edges) {
  enum { X = 24, Y = 6, Z = 4 };
  static float from[Z * Y * X], to[Z * Y * X];
  static const char text[] = "VTB_KERNEL(32, k)(VTB_MAP(from), VTB_MAP(to)) {\n"
                             "  VTB_SHARED(vtb_u64, bar, 0, 1);\n"
                             "  VTB_SHARED(float, s, 128, 120);\n"
                             "  if (vtb_tid() == 0) {\n"
                             "    vtb_mbar_init(bar, 1);\n"
                             "    vtb_mbar_ready();\n"
                             "    vtb_mbar_expect(bar, 480);\n"
                             "    vtb_tma_load(s, from, bar, -3, 3, 2);\n"
                             "    vtb_mbar_wait(bar, 0);\n"
                             "    for (int i = 0; i < 120; i++) s[i] = s[i] + 1.0f;\n"
                             "    vtb_async_fence();\n"
                             "    vtb_tma_store(to, s, 15, -1, 0);\n"
                             "    vtb_tma_commit();\n"
                             "    vtb_tma_wait<0>();\n"
                             "  }\n"
                             "}\n";
  vtb_emu_map m = {.rank = 3,
                   .element_bytes = 4,
                   .size = {20, Y, Z},
                   .stride = {4, X * 4, Y * X * 4},
                   .box = {8, 5, 3}};
  for (int i = 0; i < Z * Y * X; i++) from[i] = (float)i, to[i] = -1;
  vtb_emu_arg args[] = {{(char *)from, (char *)(from + Z * Y * X), &m},
                        {(char *)to, (char *)(to + Z * Y * X), &m}};
  vtb_emulator_launch l = {
      .grid = 1, .threads = 32, .shared_bytes = 1024, .n_args = 2, .args = args};
  emulate_ok(text, &l, true, 0);
  for (int z = 0; z < Z; z++)
    for (int yy = 0; yy < Y; yy++)
      for (int xx = 0; xx < X; xx++) {
        int bx = xx - 15, by = yy + 1, bz = z;
        bool written = bx >= 0 && bx < 8 && by < 5 && bz < 3 && xx < 20;
        int sx = bx - 3, sy = by + 3, sz = bz + 2;
        bool inside = sx >= 0 && sx < 20 && sy < Y && sz < Z;
        float want = !written ? -1 : inside ? from[(sz * Y + sy) * X + sx] + 1 : 1;
        CHECK(to[(z * Y + yy) * X + xx] == want);
      }
}

int main(void) {
  emulate_or_skip();
  fill();
  planted_read(&bugs, "emulator_hopper_bugs.cu", "VTB_KERNEL(160, ");
  RUN(planted_bugs);
  RUN(registers_of_a_block);
  RUN(products_of_every_layout);
  RUN(boxes_over_edges);
  planted_free(&bugs);
  return test_done();
}
