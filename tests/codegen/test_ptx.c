/* Each asm statement of intrinsics.cuh and hopper.cuh, executed by a machine that knows PTX (the
 * folder ptx), against what the emulator has in its place; and what of a statement no number shows.
 * Every slip of a table of plausible ones is noticed. */
#include "codegen/cuda/compile/text.h"
#include "runtime/base/half.h"
#include "tests/codegen/emulate.h"
#include "tests/codegen/ptx/pins.h"
#include "tests/codegen/ptx/ptx.h"

/* ---- cases ----------------------------------------------------------------------------------- */

enum { MAX_CASES = 80, WORDS = 65536, HALVES = 2048, INPUTS = 8192, MARK = 0x5a };
typedef struct test_case {
  char name[40], how;
  int threads, cluster;
  uint32_t y[WORDS], yb[HALVES / 2], yh[HALVES / 2]; /* by the emulator */
} test_case;
static test_case cases[MAX_CASES];
static const char *case_names[MAX_CASES];
static int n_cases;
static char *case_text;

static void add_case(int threads, int cluster, const char *how, const char *name) {
  test_case *c = &cases[n_cases];
  c->threads = threads;
  c->cluster = cluster;
  c->how = *how;
  snprintf(c->name, sizeof c->name, "%s", name);
  case_names[n_cases++] = c->name;
}

/* CASE(threads, cluster, how, name), in macros once for each N. */
static void read_cases(void) {
  static const char begin[] = "CASE(", wgmma[] = "\nWGMMA(";
  vtb_error err = {0};
  size_t n;
  vtb_status status =
      vtb_file_read(VTB_SOURCE_DIR "/tests/codegen/ptx/cases.cu", 1 << 20, &case_text, &n, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  if (status != VTB_OK) exit(test_done());
  for (const char *p = case_text; (p = strstr(p, begin)); p += strlen(begin)) {
    int threads, cluster;
    char how[16], name[40];
    if (sscanf(p, "CASE(%d, %d, %15[a-z], %39[a-z_0-9#N])", &threads, &cluster, how, name) != 4)
      continue;
    char *number = strstr(name, "##N");
    if (!number) add_case(threads, cluster, how, name);
    for (const char *q = case_text; number && (q = strstr(q, wgmma)); q += strlen(wgmma)) {
      snprintf(number, (size_t)(name + sizeof name - number), "%d", atoi(q + strlen(wgmma)));
      add_case(threads, cluster, how, name);
    }
  }
  CHECK(n_cases > 40);
}

/* ---- what kernels are given ------------------------------------------------------------------ */

static uint32_t x[INPUTS], y[WORDS], yb[HALVES / 2], yh[HALVES / 2];
static float f[INPUTS];
static uint16_t b[INPUTS], h[INPUTS];
static const vtb_emu_map maps[PTX_MAPS] = {
    {2, 2, 128, {100, 40}, {2, 208}, {64, 16}},
    {3, 2, 64, {50, 9, 6}, {2, 112, 1120}, {32, 8, 4}},
    {4, 4, 32, {13, 7, 5, 3}, {4, 64, 480, 2560}, {8, 8, 4, 2}},
    {2, 4, 0, {40, 60}, {4, 160}, {16, 32}},
    {3, 4, 128, {36, 10, 4}, {4, 144, 1456}, {32, 8, 2}}};
static vtb_emu_arg arguments[PTX_MAPS + PTX_POINTERS];

static void fill_inputs(void) {
  static const uint32_t special[] = {0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00000,
                                     0x7f7fffff, 0x00000001, 0x00800000, 0x477fefff, 0x477ff000,
                                     0x33000000, 0x33000001, 0x387fffff, 0x4f000000, 0xcf000000,
                                     0x3f808000, 0x3f818000, 0x3f801000, 0x3f803000, 0xffffffff};
  unsigned long long seed = 88172645463325252ull;
  for (int i = 0; i < INPUTS; i++) {
    x[i] = (uint32_t)(int64_t)(test_random(&seed) * 4294967295.0);
    /* halfway between neighbours of 16 bits and of tf32; numbers near one; near fp16's smallest */
    if (i % 8 == 1) x[i] = (x[i] & 0xffff0000) | 0x8000;
    if (i % 8 == 2) x[i] = (x[i] & 0xffffe000) | 0x1000;
    if (i % 8 >= 3) x[i] = (x[i] & 0x80ffffff) | (i % 8 == 3 ? 0x33000000 : 0x3f000000);
    f[i] = (float)((int)(test_random(&seed) * 8.99));
    b[i] = vtb_f32_to_bf16((float)((int)(test_random(&seed) * 6.99)));
    h[i] = vtb_f32_to_f16((float)((int)(test_random(&seed) * 6.99)));
  }
  memcpy(x + 40, special, sizeof special);
  memcpy(x + 1024 + 43, special, sizeof special);
  memcpy(x + 2048 + 51, special, sizeof special);
  void *const from[] = {x, f, b, h, y, yb, yh};
  static const size_t bytes[] = {sizeof x, sizeof f,  sizeof b, sizeof h,
                                 sizeof y, sizeof yb, sizeof yh};
  for (int i = 0; i < PTX_POINTERS; i++)
    arguments[PTX_MAPS + i] = (vtb_emu_arg){from[i], (char *)from[i] + bytes[i], NULL};
  for (int i = 0; i < PTX_MAPS; i++) {
    uint32_t *at = i < 3 ? x : y + (i == 3 ? 32768 : 32768 + 16384);
    arguments[i] = (vtb_emu_arg){(char *)at, (char *)at + 16384, &maps[i]};
  }
}

static void clear(void) {
  memset(y, MARK, sizeof y);
  memset(yb, MARK, sizeof yb);
  memset(yh, MARK, sizeof yh);
}

/* ---- both ------------------------------------------------------------------------------------ */

static void emulate_cases(void) {
  vtb_emulator *e = NULL;
  vtb_error err = {0};
  vtb_status status = vtb_emulator_new(case_text, case_names, n_cases, NULL, &e, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  if (status != VTB_OK) exit(test_done());
  for (int i = 0; i < n_cases; i++) {
    test_case *c = &cases[i];
    vtb_emulator_launch l = {.kernel = c->name,
                             .grid = c->cluster,
                             .cluster = c->cluster,
                             .threads = c->threads,
                             .shared_bytes = PTX_SHARED_BYTES,
                             .n_args = PTX_MAPS + PTX_POINTERS,
                             .args = arguments};
    clear();
    err = (vtb_error){0};
    CHECK_MSG(vtb_emulator_run(e, &l, NULL, &err) == VTB_OK, "%s", err.text);
    memcpy(c->y, y, sizeof y);
    memcpy(c->yb, yb, sizeof yb);
    memcpy(c->yh, yh, sizeof yh);
  }
  vtb_emulator_free(e);
}

static bool same(const test_case *c, uint32_t a, uint32_t w) {
  float got, want;
  memcpy(&got, &a, 4);
  memcpy(&want, &w, 4);
  if (a == w) return true;
  if (c->how == 'b') return false;
  if (c->how == 'f') return got == want || (isnan(got) && isnan(want));
  return fabsf(got - want) <= 1e-6f * fabsf(want);
}

/* Runs a case on the machine, in both orders of threads; false and why. */
static bool judge(test_case *c, ptx_program *p, char *error) {
  ptx_arguments a = {0};
  ptx_launch l = {.kernel = ptx_kernel_of(p, c->name),
                  .arguments = &a,
                  .threads = c->threads,
                  .cluster = c->cluster};
  for (int i = 0; i < PTX_MAPS; i++)
    a.map[i] = (ptx_map){(uintptr_t)&arguments[i], PTX_MAP_MARK, {0}};
  for (int i = 0; i < PTX_POINTERS; i++) a.pointer[i] = arguments[PTX_MAPS + i].begin;
  for (int order = 0; order < 2; order++) {
    l.reversed = order;
    clear();
    if (!ptx_run(&l, &p->text, error)) return false;
    int wrong = 0, first = -1;
    for (int i = 0; i < WORDS; i++)
      if (!same(c, y[i], c->y[i]) && wrong++ == 0) first = i;
    for (int i = 0; i < HALVES / 2; i++) wrong += yb[i] != c->yb[i] || yh[i] != c->yh[i];
    if (wrong)
      return snprintf(error, 512, "%d words differ, word %d is %#x, by the emulator %#x", wrong,
                      first, first < 0 ? 0 : y[first], first < 0 ? 0 : c->y[first]),
             false;
  }
  return true;
}

/* ---- the text -------------------------------------------------------------------------------- */

static void write_text(vtb_strbuf *out) {
  vtb_strbuf_puts(out, vtb__text_find("intrinsics.cuh"));
  vtb_strbuf_puts(out, vtb__text_find("hopper.cuh"));
}

TEST(statements_are_judged) {
  vtb_strbuf text = {0}, cpp = {0};
  ptx_program p = {0};
  char error[512] = "";
  write_text(&text);
  int words = 0;
  for (const char *at = text.at; (at = strstr(at, "asm")); at += 3)
    words += strncmp(at, "asm(", 4) == 0 || strncmp(at, "asm volatile(", 13) == 0;
  vtb_strbuf_puts(&text, case_text);
  bool ok = ptx_take(text.at, &p, &cpp, error) && ptx_check_pins(&p.text, error) &&
            ptx_compile(&p, &cpp, case_names, n_cases, error);
  CHECK_MSG(ok, "%s", error);
  for (int i = 0; ok && i < n_cases; i++)
    CHECK_MSG(judge(&cases[i], &p, error), "%s: %s", cases[i].name, error);
  for (int i = 0; ok && i < p.text.n; i++)
    CHECK_MSG(p.text.statement[i].runs, "no case runs the statement of %s: %s",
              p.text.statement[i].function, p.text.statement[i].template_text);
  printf("%d statements, %d with those of macros, %d cases\n", words, p.text.n, n_cases);
  ptx_free(&p);
  vtb_strbuf_free(&text);
  vtb_strbuf_free(&cpp);
}

/* ---- slips ----------------------------------------------------------------------------------- */

/* Of ptx/plants.txt, which says how they are written. */
enum { MAX_PLANTS = 120 };
typedef struct plant {
  char name[40];
  int line;
  vtb_strbuf from, to;
  bool alone;   /* other cases than its own may fail */
  bool is_done; /* judged */
} plant;
static plant plants[MAX_PLANTS];
static int n_plants;

static void add_line(vtb_strbuf *s, const char *line) {
  if (s->n) vtb_strbuf_putc(s, '\n');
  vtb_strbuf_puts(s, line);
}

static void read_plants(void) {
  FILE *file = fopen(VTB_SOURCE_DIR "/tests/codegen/ptx/plants.txt", "r");
  char line[512];
  CHECK(file);
  for (int number = 1; file && fgets(line, sizeof line, file); number++) {
    plant *p = &plants[n_plants];
    line[strcspn(line, "\n")] = 0;
    if (*line == '@' && n_plants + 1 < MAX_PLANTS) {
      n_plants++;
      snprintf(plants[n_plants].name, sizeof plants[0].name, "%.*s", (int)strcspn(line + 2, " "),
               line + 2);
      plants[n_plants].alone = strstr(line, " alone") != NULL;
      plants[n_plants].line = number;
    } else if (*line == '-' || *line == '+') {
      add_line(*line == '-' ? &p->from : &p->to, line + 2);
    } else {
      CHECK_MSG(!*line || *line == '#', "plants.txt:%d", number);
    }
  }
  if (file) fclose(file);
}

/* The text with a plant; false: its text is not there once. */
static bool put_plant(const plant *p, vtb_strbuf *text) {
  const char *at = strstr(text->at, p->from.at);
  vtb_strbuf out = {0};
  if (!at || strstr(at + 1, p->from.at)) return false;
  vtb_strbuf_write(&out, text->at, (size_t)(at - text->at));
  vtb_strbuf_puts(&out, vtb_strbuf_text(&p->to));
  vtb_strbuf_puts(&out, at + p->from.n);
  vtb_strbuf_free(text);
  *text = out;
  return true;
}

static test_case *find_case(const char *name) {
  for (int i = 0; i < n_cases; i++)
    if (strcmp(cases[i].name, name) == 0) return &cases[i];
  return NULL;
}

static void say(const plant *p, const char *error) {
  if (getenv("VTB_VERBOSE")) printf("plants.txt:%d: %s: %s\n", p->line, p->name, error);
}

/* Whether the text with a plant is refused; else its case, unless other C++ is compiled, too. */
static void try_text(plant *p, const vtb_strbuf *plain, ptx_program *whole) {
  vtb_strbuf text = {0}, cpp = {0};
  ptx_program own = {0};
  char error[512] = "";
  bool of_text = strcmp(p->name, "text") == 0;
  p->is_done = true;
  write_text(&text);
  CHECK_MSG(of_text || find_case(p->name), "plants.txt:%d: no case %s", p->line, p->name);
  if (!put_plant(p, &text)) {
    CHECK_MSG(false, "plants.txt:%d: not there once: %s", p->line, p->from.at);
  } else {
    vtb_strbuf_puts(&text, case_text);
    bool ok = ptx_take(text.at, &own, &cpp, error) && ptx_check_pins(&own.text, error);
    CHECK_MSG(ok != of_text, "plants.txt:%d: %s: %s", p->line,
              ok ? "the text is accepted" : "is refused before it runs", error);
    ok = ok && !of_text;
    p->is_done = !ok || strcmp(cpp.at, plain->at) == 0;
    if (ok && p->is_done) {
      own.library = whole->library;
      CHECK_MSG(!judge(find_case(p->name), &own, error), "plants.txt:%d: %s: not noticed", p->line,
                p->name);
      own.library = NULL;
    }
    if (p->is_done) say(p, error);
  }
  ptx_free(&own);
  vtb_strbuf_free(&text);
  vtb_strbuf_free(&cpp);
}

/* The cases' text, without those of wgmma for an N that no name ends with. */
static void write_cases(const char *const *names, int n, vtb_strbuf *out) {
  for (const char *line = case_text, *end; *line; line = end) {
    int size, wanted = 0;
    end = line + strcspn(line, "\n");
    end += *end == '\n';
    for (int i = 0; i < n; i++) {
      const char *number = strrchr(names[i], '_');
      wanted += number && sscanf(line, "WGMMA(%d", &size) == 1 && size == atoi(number + 1);
    }
    if (wanted || strncmp(line, "WGMMA(", 6) != 0)
      vtb_strbuf_write(out, line, (size_t)(end - line));
  }
}

/* Compiles those of one batch together: each has a case of its own. */
static bool try_batch(void) {
  vtb_strbuf text = {0}, cpp = {0};
  plant *batch[MAX_PLANTS];
  const char *names[MAX_PLANTS];
  ptx_program program = {0};
  char error[512] = "";
  int n = 0;
  write_text(&text);
  for (int i = 1; i <= n_plants; i++) {
    bool fits = !plants[i].is_done && !(n && (plants[i].alone || batch[0]->alone));
    for (int k = 0; k < n && fits; k++) fits = strncmp(plants[i].name, names[k], 5) != 0;
    if (!fits || !put_plant(&plants[i], &text)) continue;
    names[n] = plants[i].name;
    batch[n++] = &plants[i];
  }
  write_cases(names, n, &text);
  bool ok =
      n && ptx_take(text.at, &program, &cpp, error) && ptx_compile(&program, &cpp, names, n, error);
  CHECK_MSG(ok || !n, "%s", error);
  for (int i = 0; i < n; i++) {
    batch[i]->is_done = true;
    if (!ok) continue;
    CHECK_MSG(!judge(find_case(names[i]), &program, error), "plants.txt:%d: %s: not noticed",
              batch[i]->line, names[i]);
    say(batch[i], error);
  }
  ptx_free(&program);
  vtb_strbuf_free(&text);
  vtb_strbuf_free(&cpp);
  return n > 0;
}

TEST(slips_are_noticed) {
  vtb_strbuf text = {0}, plain = {0};
  ptx_program whole = {0};
  char error[512];
  read_plants();
  write_text(&text);
  vtb_strbuf_puts(&text, case_text);
  bool ok = ptx_take(text.at, &whole, &plain, error) &&
            ptx_compile(&whole, &plain, case_names, n_cases, error);
  CHECK_MSG(ok, "%s", error);
  for (int i = 1; ok && i <= n_plants; i++) try_text(&plants[i], &plain, &whole);
  int batches = 0;
  while (ok && try_batch()) batches++;
  printf("%d slips, %d libraries\n", n_plants, batches + 1);
  for (int i = 1; i <= n_plants; i++) {
    vtb_strbuf_free(&plants[i].from);
    vtb_strbuf_free(&plants[i].to);
  }
  ptx_free(&whole);
  vtb_strbuf_free(&text);
  vtb_strbuf_free(&plain);
}

int main(void) {
  emulate_or_skip();
  read_cases();
  fill_inputs();
  emulate_cases();
  RUN(statements_are_judged);
  if (!test_failures) RUN(slips_are_noticed);
  free(case_text);
  return test_done();
}
