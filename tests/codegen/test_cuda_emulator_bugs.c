/* Every planted bug of emulator_bugs.cu is caught, on its line, whatever the order of threads; the
 * sound kernels beside them are not. A wrong row of a fragment shows in the numbers. */
#include "tests/codegen/emulate.h"

#include <ctype.h>

static char *source;
static float x[64], y[64];

enum { MAX_KERNELS = 64 };
static char names[MAX_KERNELS][64];
static const char *name_list[MAX_KERNELS];
static int n_kernels;

static void read_kernels(void) {
  vtb_error err = {0};
  size_t n;
  vtb_status status =
      vtb_file_read(VTB_SOURCE_DIR "/tests/codegen/emulator_bugs.cu", 1 << 20, &source, &n, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  for (const char *p = source;
       status == VTB_OK && (p = strstr(p, "VTB_KERNEL(64, ")) && n_kernels < MAX_KERNELS;) {
    p += strlen("VTB_KERNEL(64, ");
    snprintf(names[n_kernels], sizeof names[0], "%.*s", (int)strcspn(p, ")"), p);
    name_list[n_kernels] = names[n_kernels];
    n_kernels++;
  }
}

/* Whether the message names the line of one of the kernel's BUG comments. */
static bool names_a_marked_line(const char *message, const char *kernel) {
  vtb_strbuf marker = {0};
  int line = 1;
  bool found = false;
  vtb_strbuf_printf(&marker, "// BUG %s\n", kernel);
  for (const char *p = source; *p && !found; p++) {
    if (*p == '\n') line++;
    if (!vtb_starts_with(p, marker.at)) continue;
    char place[64];
    snprintf(place, sizeof place, "kernels.cu:%d", line);
    const char *at = strstr(message, place);
    found = at && !isdigit((unsigned char)at[strlen(place)]);
  }
  vtb_strbuf_free(&marker);
  return found;
}

static void run_all(bool checked, uint64_t seed) {
  vtb_emulator *e = NULL;
  vtb_error err = {0};
  vtb_emulator_options o = {.seed = seed, .unchecked = !checked};
  vtb_status status = vtb_emulator_new(source, name_list, n_kernels, &o, &e, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  for (int k = 0; e && k < n_kernels; k++) {
    vtb_emu_arg args[] = {EMU_ARG(x), EMU_ARG(y)};
    vtb_emulator_launch l = {.kernel = names[k],
                             .grid = 2,
                             .threads = 64,
                             .shared_bytes = 512,
                             .n_args = 2,
                             .args = args};
    vtb_error bug = {0};
    bool sound = vtb_starts_with(names[k], "ok_");
    bool waits = strstr(names[k], "barrier_in") || strstr(names[k], "two_bar") ||
                 strstr(names[k], "after_return");
    if (!checked && !sound && !waits)
      continue; /* out of bounds without a check could be anything */
    status = vtb_emulator_run(e, &l, NULL, &bug);
    if (sound) {
      CHECK_MSG(status == VTB_OK, "%s", bug.text);
      continue;
    }
    CHECK_MSG(status == VTB_E_INTERNAL, "%s is not caught (seed %d)", names[k], (int)seed);
    CHECK_MSG(strstr(bug.text, names[k]) && strstr(bug.text, "block ") &&
                  strstr(bug.text, "thread "),
              "%s", bug.text);
    CHECK_MSG(names_a_marked_line(bug.text, names[k]), "%s: wrong line: %s", names[k], bug.text);
    if (getenv("VTB_VERBOSE")) puts(bug.text);
  }
  vtb_emulator_free(e);
}

TEST(planted_bugs) {
  CHECK(n_kernels > 20);
  for (uint64_t seed = 0; seed < 3; seed++) run_all(true, seed);
}

TEST(waiting_for_ever_is_found_without_checks) { run_all(false, 1); }

/* A product with the rows of A taken from the wrong group: right shape, right instruction, wrong
 * numbers. */
static void product(const char *row, float *c) {
  vtb_strbuf text = {0};
  float a[128], b[64];
  for (int i = 0; i < 128; i++) a[i] = (float)(i / 8);
  for (int i = 0; i < 64; i++) b[i] = i % 8 == i / 8;
  vtb_strbuf_printf(
      &text,
      "VTB_KERNEL(32, k)(VTB_IN(float) a, VTB_IN(float) b, VTB_OUT(float) c) {\n"
      "  int g = vtb_lane() >> 2, t = vtb_lane() & 3, r = %s;\n"
      "  float d[4] = {0, 0, 0, 0};\n"
      "  vtb_u32 fa[4], fb[2];\n"
      "  for (int i = 0; i < 4; i++) fa[i] = vtb_bits(a[((i & 1) * 8 + r) * 8 + t + (i >> 1) * "
      "4]);\n"
      "  for (int i = 0; i < 2; i++) fb[i] = vtb_bits(b[(t + i * 4) * 8 + g]);\n"
      "  vtb_mma_tf32_m16n8k8(d, fa, fb);\n"
      "  for (int i = 0; i < 4; i++) c[(g + (i >> 1) * 8) * 8 + 2 * t + (i & 1)] = d[i];\n"
      "}\n",
      row);
  vtb_emu_arg args[] = {EMU_ARG(a), EMU_ARG(b), {(char *)c, (char *)(c + 128), NULL}};
  vtb_emulator_launch l = {.grid = 1, .threads = 32, .n_args = 3, .args = args};
  emulate_ok(text.at, &l, true, 0);
  vtb_strbuf_free(&text);
}

TEST(wrong_fragment_row) {
  float right[128], wrong[128];
  product("g", right);
  product("(g + 1) & 7", wrong);
  int differ = 0;
  for (int i = 0; i < 128; i++) {
    CHECK(right[i] == (float)(i / 8)); /* b is the identity */
    differ += right[i] != wrong[i];
  }
  CHECK(differ > 0);
}

int main(void) {
  emulate_or_skip();
  read_kernels();
  RUN(planted_bugs);
  RUN(waiting_for_ever_is_found_without_checks);
  RUN(wrong_fragment_row);
  free(source);
  return test_done();
}
