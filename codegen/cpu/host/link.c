/* See link.h. Everything happens in a temporary folder of its own, whose files have fixed names:
 * equal objects give equal libraries. */
#include "codegen/cpu/host/link.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/artefact/artefact.h"

extern char **environ;

typedef VTB_VEC(char *) word_list;

const char *vtb_link_symbol(const char *name, int i, char *buf) {
  if (name)
    snprintf(buf, VTB_LINK_SYMBOL, "%.*s_vtb_%d", VTB_LINK_NAME, name, i);
  else
    snprintf(buf, VTB_LINK_SYMBOL, "vtb_entry_%d", i);
  return buf;
}

/* ---- the compiler ---------------------------------------------------------------------------- */

static bool in_path(const char *name) {
  if (strchr(name, '/')) return access(name, X_OK) == 0;
  const char *path = getenv("PATH");
  bool found = false;
  for (const char *p = path ? path : "/usr/bin:/bin"; *p && !found;) {
    size_t n = strcspn(p, ":");
    vtb_strbuf file = {0};
    vtb_strbuf_printf(&file, "%.*s/%s", (int)n, p, name);
    found = n && access(file.at, X_OK) == 0;
    vtb_strbuf_free(&file);
    p += n + (p[n] == ':');
  }
  return found;
}

/* Compilers of an architecture, which is numbered as in the head of an object. */
typedef struct toolchain {
  int machine;
  const char *name, *known[4], *packages;
} toolchain;
static const toolchain here = {EM_NONE, NULL, {"cc", "gcc", "clang"}, "gcc libc6-dev"};
static const toolchain others[] = {
#if !defined(__x86_64__)
    {EM_X86_64, "x86-64", {"x86_64-linux-gnu-gcc"}, "gcc-x86-64-linux-gnu libc6-dev-amd64-cross"},
#endif
#if !defined(__aarch64__)
    {EM_AARCH64,
     "aarch64",
     {"aarch64-linux-gnu-gcc"},
     "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"},
#endif
    {EM_NONE, NULL, {NULL}, NULL}};

/* For objects, which are all of one; of none: for this machine. */
static const toolchain *toolchain_of(const vtb_object *objects, int n) {
  Elf64_Ehdr head;
  if (n == 0 || objects[0].n_bytes < sizeof head) return &here;
  memcpy(&head, objects[0].data, sizeof head);
  for (const toolchain *t = others; t->name; t++)
    if (t->machine == head.e_machine) return t;
  return &here;
}

/* CC may hold options: "ccache gcc". */
static vtb_status find_compiler(const toolchain *t, word_list *argv, vtb_error *err) {
  const char *wanted = getenv("CC");
  if (wanted && *wanted) {
    char *copy = vtb_xstrdup(wanted), *rest = copy;
    for (char *word; (word = strsep(&rest, " "));)
      if (*word) vtb_vec_push(argv, vtb_xstrdup(word));
    vtb_free(copy);
    if (argv->n && in_path(argv->at[0])) return VTB_OK;
    return vtb_fail(err, VTB_E_INPUT, "CC=%s is not a program: set CC to a C compiler, or unset it",
                    wanted);
  }
  for (const char *const *name = t->known; *name; name++) {
    if (!in_path(*name)) continue;
    vtb_vec_push(argv, vtb_xstrdup(*name));
    return VTB_OK;
  }
  return vtb_fail(err, VTB_E_INPUT,
                  "linking%s%s needs a C compiler%s, and there is no %s in PATH: install one "
                  "(apt-get install %s), or set CC",
                  t->name ? " code for " : "", t->name ? t->name : "", t->name ? " for it" : "",
                  t->name ? t->known[0] : "cc, gcc or clang", t->packages);
}

/* The exit status, -1 if it could not be run; what it printed is left in the file `log`. */
static int run_program(char *const *argv, const char *log) {
  posix_spawn_file_actions_t actions;
  pid_t pid;
  int state = 0;
  if (posix_spawn_file_actions_init(&actions) != 0) return -1;
  bool ok =
      posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600) == 0 &&
      posix_spawn_file_actions_adddup2(&actions, 1, 2) == 0 &&
      posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  if (!ok) return -1;
  while (waitpid(pid, &state, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

/* ---- the folder ------------------------------------------------------------------------------ */

static char *in_folder(const char *folder, const char *name) {
  vtb_strbuf s = {0};
  vtb_strbuf_printf(&s, "%s/%s", folder, name);
  return s.at;
}

static vtb_status make_folder(char **folder, vtb_error *err) {
  const char *base = getenv("TMPDIR");
  *folder = in_folder(base && *base ? base : "/tmp", "vertebra-XXXXXX");
  if (mkdtemp(*folder)) return VTB_OK;
  return vtb_fail(err, VTB_E_INPUT,
                  "cannot make a temporary folder %s: %s (TMPDIR names another place)", *folder,
                  strerror(errno));
}

static void remove_file(const char *folder, const char *name) {
  char *path = in_folder(folder, name);
  (void)unlink(path);
  vtb_free(path);
}

#define IMAGE ".lrodata.vertebra" /* far from code, which reaches 2 GiB */
#define SIZE ".rodata.vertebra"

/* The layout is vtb_artefact_linked's. Image and size are filled in later. */
static void write_model(const char *name, vtb_strbuf *out) {
  vtb_strbuf_printf(out,
                    "static const unsigned char image[64]"
                    " __attribute__((section(\"" IMAGE "\"), aligned(64))) = {1};\n"
                    "static const unsigned long long bytes __attribute__((section(\"" SIZE
                    "\"))) = 1;\n"
                    "extern const struct {\n  unsigned size, format;\n  const char *name;\n"
                    "  const void *table, *image, *bytes;\n} %s_vtb;\n"
                    "__attribute__((visibility(\"default\"))) const __typeof__(%s_vtb) %s_vtb ="
                    " {%zu, %d, \"%s\", &" VTB_ARTEFACT_SYMBOL ", image, &bytes};\n",
                    name, name, name, sizeof(vtb_artefact_linked), VTB_ARTEFACT_FORMAT, name);
}

/* The table in C that needs no header. The layout is vtb_artefact_table's. */
static void write_table(const char *name, int n, uint64_t build, vtb_strbuf *out) {
  char symbol[VTB_LINK_SYMBOL];
  vtb_strbuf_puts(out, "typedef void entry(void *const *, void *, const void *);\n");
  for (int i = 0; i < n; i++)
    vtb_strbuf_printf(out, "extern __attribute__((visibility(\"hidden\"))) entry %s;\n",
                      vtb_link_symbol(name, i, symbol));
  vtb_strbuf_printf(
      out,
      "%s const struct {\n"
      "  unsigned size, n;\n  unsigned long long build;\n  entry *at[%d];\n} " VTB_ARTEFACT_SYMBOL
      " = {%zu, %d, 0x%llxULL, {",
      name ? "static" : "__attribute__((visibility(\"default\")))", n ? n : 1,
      sizeof(vtb_artefact_table), n, (unsigned long long)build);
  for (int i = 0; i < n; i++)
    vtb_strbuf_printf(out, "%s%s", i ? ", " : "", vtb_link_symbol(name, i, symbol));
  vtb_strbuf_puts(out, n ? "}};\n" : "0}};\n");
  if (name) write_model(name, out);
}

/* ---- linking --------------------------------------------------------------------------------- */

static vtb_status put_file(const char *folder, const char *name, const void *data, size_t n,
                           word_list *argv, vtb_error *err) {
  char *path = in_folder(folder, name);
  vtb_vec_push(argv, path);
  return vtb_file_write_atomic(path, data, n, err);
}

static vtb_status report(char *const *argv, int code, const char *log, vtb_error *err) {
  char *text = NULL;
  size_t n = 0;
  if (code < 0) return vtb_fail(err, VTB_E_INPUT, "%s could not be run", argv[0]);
  if (vtb_file_read(log, (size_t)1 << 20, &text, &n, NULL) != VTB_OK) text = NULL;
  vtb_status status =
      vtb_fail(err, VTB_E_INPUT, "%s could not link the model (exit status %d):\n%.700s", argv[0],
               code, text ? text : "");
  vtb_free(text);
  return status;
}

/* model: the name of a static one, or NULL. */
static vtb_status link_in(const char *folder, const vtb_object *objects, int n, uint64_t build,
                          const char *model, word_list *argv, vtb_error *err) {
  static const char *const options[] = {"-shared",    "-fPIC", "-O1", "-w", "-Wl,-z,noexecstack",
                                        "-Wl,-z,now", "-o",    NULL};
  static const char *const partly[] = {"-r", "-nostdlib", "-fPIC", "-O1", "-w", "-o", NULL};
  char name[32];
  vtb_strbuf table = {0};
  for (const char *const *o = model ? partly : options; *o; o++)
    vtb_vec_push(argv, vtb_xstrdup(*o));
  vtb_vec_push(argv, in_folder(folder, "library"));
  write_table(model, n, build, &table);
  vtb_status status = put_file(folder, "table.c", table.at, table.n, argv, err);
  for (int i = 0; i < n && status == VTB_OK; i++) {
    snprintf(name, sizeof name, "%d.o", i);
    status = put_file(folder, name, objects[i].data, objects[i].n_bytes, argv, err);
  }
  if (!model) vtb_vec_push(argv, vtb_xstrdup("-lm"));
  vtb_vec_push(argv, NULL);
  vtb_strbuf_free(&table);
  if (status != VTB_OK) return status;
  char *log = in_folder(folder, "log");
  int code = run_program(argv->at, log);
  if (code != 0) status = report(argv->at, code, log, err);
  vtb_free(log);
  return status;
}

bool vtb_link_probe(vtb_strbuf *out) {
  char *data = NULL;
  size_t n = 0;
  vtb_error err = {0};
  word_list argv = {0};
  bool ok = find_compiler(&here, &argv, &err) == VTB_OK &&
            vtb_link_table(NULL, 0, 0, &data, &n, &err) == VTB_OK;
  if (ok)
    vtb_strbuf_printf(out, "%s links what `vertebra build` makes", argv.at[0]);
  else
    vtb_strbuf_puts(out, err.text);
  for (size_t i = 0; i < argv.n; i++) vtb_free(argv.at[i]);
  vtb_vec_free(&argv);
  vtb_free(data);
  return ok;
}

static vtb_status link_all(const vtb_object *objects, int n, uint64_t build, const char *model,
                           char **data, size_t *n_bytes, vtb_error *err) {
  word_list argv = {0};
  char *folder = NULL, name[32];
  vtb_status status = find_compiler(toolchain_of(objects, n), &argv, err);
  bool made = status == VTB_OK && (status = make_folder(&folder, err)) == VTB_OK;
  if (made) status = link_in(folder, objects, n, build, model, &argv, err);
  if (status == VTB_OK) {
    char *library = in_folder(folder, "library");
    status = vtb_file_read(library, SIZE_MAX / 2, data, n_bytes, err);
    vtb_free(library);
  }
  for (int i = 0; made && i < n; i++) {
    snprintf(name, sizeof name, "%d.o", i);
    remove_file(folder, name);
  }
  if (made) {
    remove_file(folder, "table.c");
    remove_file(folder, "library");
    remove_file(folder, "log");
    (void)rmdir(folder);
  }
  for (size_t i = 0; i < argv.n; i++) vtb_free(argv.at[i]);
  vtb_vec_free(&argv);
  vtb_free(folder);
  return status;
}

vtb_status vtb_link_table(const vtb_object *objects, int n, uint64_t build, char **data,
                          size_t *n_bytes, vtb_error *err) {
  return link_all(objects, n, build, NULL, data, n_bytes, err);
}

/* ---- static models --------------------------------------------------------------------------- */

/* The header of a section of the object, by its name; 0: there is none. */
static uint64_t find_section(const char *data, size_t n, const char *name, Elf64_Shdr *out) {
  Elf64_Ehdr head;
  Elf64_Shdr names;
  if (n < sizeof head) return 0;
  memcpy(&head, data, sizeof head);
  if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_shentsize != sizeof names ||
      head.e_shoff > n || head.e_shnum > (n - head.e_shoff) / sizeof names ||
      head.e_shstrndx >= head.e_shnum)
    return 0;
  memcpy(&names, data + head.e_shoff + head.e_shstrndx * sizeof names, sizeof names);
  size_t length = strlen(name) + 1;
  for (int i = 1; i < head.e_shnum; i++) {
    uint64_t at = head.e_shoff + (uint64_t)i * sizeof *out;
    memcpy(out, data + at, sizeof *out);
    uint64_t text = names.sh_offset + out->sh_name;
    if (text + length <= n && memcmp(data + text, name, length) == 0) return at;
  }
  return 0;
}

vtb_status vtb_link_static(const vtb_object *objects, int n, uint64_t build, const char *name,
                           char **data, size_t *n_bytes, uint64_t size_at[2], vtb_error *err) {
  Elf64_Shdr image, size;
  VTB_TRY(link_all(objects, n, build, name, data, n_bytes, err));
  uint64_t at = find_section(*data, *n_bytes, IMAGE, &image);
  if (!at || !find_section(*data, *n_bytes, SIZE, &size) || size.sh_offset > *n_bytes - 8)
    return vtb_fail(err, VTB_E_INPUT,
                    "the linker that the C compiler calls has given its object other sections "
                    "than it was told: set CC to gcc or clang");
  image.sh_offset = (*n_bytes + 63) / 64 * 64;
  memcpy(*data + at, &image, sizeof image);
  size_at[0] = at + offsetof(Elf64_Shdr, sh_size);
  size_at[1] = size.sh_offset;
  return VTB_OK;
}
