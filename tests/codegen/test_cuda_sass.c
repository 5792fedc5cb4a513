/* What each asm statement of intrinsics.cuh and hopper.cuh becomes: NVRTC's machine code, read by
 * nvdisasm, holds what sass.txt says. Needs both: NVRTC as ever (VTB_NVRTC), nvdisasm by
 * VTB_NVDISASM, of the toolkit or of the Python package nvidia-cuda-nvdisasm. */
#include <unistd.h>

#include "codegen/codegen.h"
#include "codegen/cuda/compile/nvrtc.h"
#include "codegen/cuda/compile/text.h"
#include "tests/test.h"

enum { MAX_PINS = 100, MOST_LINES = 24 };
typedef struct pin {
  char name[48], archs[64], *body, *wanted[MOST_LINES];
  int n_wanted, line;
} pin;
static pin pins[MAX_PINS];
static int n_pins;
static char *pin_text, nvdisasm[1024];

static void read_pins(void) {
  vtb_error err = {0};
  size_t n;
  vtb_status status =
      vtb_file_read(VTB_SOURCE_DIR "/tests/codegen/sass.txt", 1 << 20, &pin_text, &n, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  int number = 0;
  for (char *line = pin_text, *end; status == VTB_OK && *line; line = end) {
    end = line + strcspn(line, "\n");
    if (*end) *end++ = 0;
    number++;
    pin *p = &pins[n_pins ? n_pins - 1 : 0];
    if (*line == '@' && n_pins < MAX_PINS) {
      p = &pins[n_pins++];
      p->line = number;
      CHECK_MSG(sscanf(line, "@ %47s %63[a-z0-9_ ]", p->name, p->archs) == 2, "sass.txt:%d",
                number);
    } else if (*line == '-' && n_pins) {
      p->body = line + 2;
    } else if (*line && strchr("=!", *line) && n_pins && p->n_wanted < MOST_LINES) {
      p->wanted[p->n_wanted++] = line;
    } else {
      CHECK_MSG(!*line || *line == '#', "sass.txt:%d", number);
    }
  }
}

/* ---- tools ----------------------------------------------------------------------------------- */

static bool first_line_of(const char *command, char *line, size_t n) {
  FILE *f = popen(command, "r");
  bool ok = f && fgets(line, (int)n, f);
  if (f) pclose(f);
  if (ok) line[strcspn(line, "\n")] = 0;
  return ok && *line;
}

static void find_tools_or_skip(void) {
  static const char find[] =
      "{ echo \"$VTB_NVDISASM\"; command -v nvdisasm; ls /usr/local/cuda/bin/nvdisasm "
      "\"$CUDA_HOME/bin/nvdisasm\"; find $(python3 -c 'import nvidia; print(*nvidia.__path__)') "
      "-name nvdisasm -type f -perm -u+x; } 2>/dev/null | grep .";
  vtb_strbuf nvrtc = {0};
  bool found = vtb_cuda_describe_nvrtc(&nvrtc);
  if (!found) printf("skipped: %s\n", vtb_strbuf_text(&nvrtc));
  vtb_strbuf_free(&nvrtc);
  if (!found) exit(77);
  if (first_line_of(find, nvdisasm, sizeof nvdisasm)) return;
  puts("skipped: no nvdisasm (Python package nvidia-cuda-nvdisasm, or VTB_NVDISASM)");
  exit(77);
}

/* ---- kernels --------------------------------------------------------------------------------- */

static const char head[] =
    "#define MMA(call) float d[4] = {f[t], f[t + 1], f[t + 2], f[t + 3]}; \\\n"
    "  vtb_u32 a[4] = {x[t], x[t + 1], x[t + 2], x[t + 3]}, b[2] = {x[t + 4], x[t + 5]}; \\\n"
    "  call; y[t] = vtb_bits(d[0] + d[1] + d[2] + d[3]);\n"
    "#define WGMMA(left, call) float d[8] = {f[t], f[t + 1]}; \\\n"
    "  vtb_u32 a[4] = {x[t], x[t + 1], x[t + 2], x[t + 3]}; \\\n"
    "  const vtb_u64 of = vtb_wgmma_tile<128>(s, 2048, 1024); \\\n"
    "  vtb_wgmma_fence(); call; vtb_wgmma_commit(); vtb_wgmma_wait<left>(); vtb_wgmma_wait<0>(); "
    "\\\n"
    "  for (int i = 0; i < 8; i++) y[8 * t + i] = vtb_bits(d[i]);\n";

static bool is_for(const pin *p, const char *arch) { return strstr(p->archs, arch) != NULL; }

static char *compile(const char *arch) {
  vtb_strbuf text = {0}, command = {0}, sass = {0};
  vtb_cuda_code code = {0};
  vtb_error err = {0};
  bool hopper = strcmp(arch, "sm_90a") == 0;
  vtb_strbuf_puts(&text, head);
  for (int i = 0; i < n_pins; i++)
    if (is_for(&pins[i], arch))
      vtb_strbuf_printf(
          &text,
          "VTB_KERNEL_ROOMY(384, %s)(%sVTB_IN(vtb_u32) x, VTB_IN(float) f, "
          "VTB_OUT(vtb_u32) y) {\n  VTB_SHARED(vtb_u64, bar, 0, 2);\n"
          "  VTB_SHARED(float, s, 1024, 4096);\n  const int t = vtb_tid();\n  %s\n}\n",
          pins[i].name, hopper ? "VTB_MAP(m), " : "", pins[i].body);
  CHECK_MSG(vtb_cuda_compile(hopper ? vtb__text_find("hopper.cuh") : "", text.at, arch, NULL, &code,
                             &err) == VTB_OK,
            "%s", err.text);
  char path[] = "/tmp/vertebra-sass-XXXXXX", piece[4096];
  int file = mkstemp(path);
  if (file >= 0) close(file);
  CHECK(code.data && vtb_file_write_atomic(path, code.data, code.n_bytes, &err) == VTB_OK);
  vtb_strbuf_printf(&command, "'%s' -c '%s'", nvdisasm, path);
  FILE *f = popen(command.at, "r");
  for (size_t n; f && (n = fread(piece, 1, sizeof piece, f)) > 0;)
    vtb_strbuf_write(&sass, piece, n);
  CHECK(f && pclose(f) == 0);
  unlink(path);
  vtb_strbuf_free(&text);
  vtb_strbuf_free(&command);
  vtb_cuda_code_free(&code);
  return sass.at;
}

/* An instruction without its place, its registers' numbers, and what only the scheduler wants;
 * "" for other lines. */
static void plain(const char *line, const char *end, char *to, size_t n) {
  size_t k = 0;
  char last = ' ';
  const char *p = strstr(line, "*/");
  *to = 0;
  if (!p || p > end || !memchr(line, ';', (size_t)(end - line))) return;
  for (p += 2; p < end && *p != ';' && k + 1 < n; p++) {
    bool letter = strchr("RPB", last) && (k < 2 || !strchr("ABCDEFGHIJKLMNOQSTVWXYZ_", to[k - 2]));
    if (*p == '.' && strncmp(p, ".reuse", 6) == 0) p += 6;
    if (*p >= '0' && *p <= '9' && letter) continue;
    if (*p == ' ' && last == ' ') continue;
    last = to[k++] = *p;
  }
  while (k && to[k - 1] == ' ') k--;
  to[k] = 0;
}

/* ---- pins ------------------------------------------------------------------------------------ */

static void check_pin(const pin *p, const char *arch, const char *sass) {
  char section[80], text[256];
  snprintf(section, sizeof section, ".text.%s:", p->name);
  const char *at = sass ? strstr(sass, section) : NULL, *end;
  int next = 0;
  bool show = getenv("VTB_VERBOSE") != NULL;
  CHECK_MSG(at, "%s %s: no code", p->name, arch);
  CHECK_MSG(p->n_wanted, "sass.txt:%d: %s has no expectation", p->line, p->name);
  if (show) printf("@ %s %s\n", p->name, arch);
  for (; at && *at; at = end + 1) {
    end = at + strcspn(at, "\n");
    if (next >= 0 && strncmp(at, "\t.section", 9) == 0) break;
    plain(at, end, text, sizeof text);
    if (show && *text) printf("  %s\n", text);
    while (next < p->n_wanted && *p->wanted[next] == '!') next++;
    if (next < p->n_wanted && strstr(text, p->wanted[next] + 2)) next++;
    for (int i = 0; i < p->n_wanted; i++)
      CHECK_MSG(*p->wanted[i] != '!' || !*text || !strstr(text, p->wanted[i] + 2), "%s %s: %s",
                p->name, arch, text);
    if (!*end) break;
  }
  while (next < p->n_wanted && *p->wanted[next] == '!') next++;
  CHECK_MSG(next == p->n_wanted, "sass.txt:%d: %s %s: no %s", p->line, p->name, arch,
            next < p->n_wanted ? p->wanted[next] + 2 : "");
}

TEST(machine_code_is_as_pinned) {
  static const char *const archs[] = {"sm_80", "sm_90a"};
  for (int a = 0; a < 2; a++) {
    char *sass = compile(archs[a]);
    for (int i = 0; i < n_pins; i++)
      if (is_for(&pins[i], archs[a])) check_pin(&pins[i], archs[a], sass);
    free(sass);
  }
  printf("%d statements\n", n_pins);
}

int main(void) {
  setenv("XDG_CACHE_HOME", VTB_BINARY_DIR "/test-cache", 1);
  find_tools_or_skip();
  read_pins();
  RUN(machine_code_is_as_pinned);
  free(pin_text);
  return test_done();
}
