/* From the text of kernels to a loaded library: the host's C++ compiler, a cache of libraries by
 * content, and the way back from an address to a line. Libraries have no lines, which would take a
 * fifth of a compilation: where one is asked for, the source is compiled once more, with them.
 * Counts always ask. */
#include "codegen/codegen.h"
#include "codegen/cuda/texts.h"
#include "codegen/emulator/core.h"

#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const char *const flags[] = {"-std=c++17",
                                    "-fPIC",
                                    "-shared",
                                    "-fvisibility=hidden",
                                    "-fno-exceptions",
                                    "-fno-omit-frame-pointer",
                                    "-fno-rtti",
                                    "-fno-strict-aliasing",
                                    "-fno-math-errno",
                                    "-march=native",
                                    "-w"};
enum { N_FLAGS = sizeof flags / sizeof *flags };
/* With lines; the code is the same. */
static const char *const line_flags[] = {"-g1", "-gdwarf-4"};

/* ---- other programs -------------------------------------------------------------------------- */

/* Runs argv and collects what it prints; returns its exit status, or -1 if it could not be
 * started. */
static int run_program(char *const *argv, vtb_strbuf *out) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  pid_t pid;
  int failed = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  char piece[4096];
  for (ssize_t n; !failed && (n = read(ends[0], piece, sizeof piece)) != 0;) {
    if (n < 0 && errno != EINTR) break;
    if (n > 0) vtb_strbuf_write(out, piece, (size_t)n);
  }
  close(ends[0]);
  int status;
  if (failed || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

/* The program's file in $PATH; caller frees. */
static char *find_program(const char *name) {
  if (strchr(name, '/')) return access(name, X_OK) == 0 ? vtb_xstrdup(name) : NULL;
  const char *path = getenv("PATH");
  for (const char *p = path ? path : "/usr/bin:/bin"; *p;) {
    size_t n = strcspn(p, ":");
    vtb_strbuf file = {0};
    vtb_strbuf_write(&file, p, n);
    vtb_strbuf_printf(&file, "/%s", name);
    if (n && access(file.at, X_OK) == 0) return file.at;
    vtb_strbuf_free(&file);
    p += n + (p[n] == ':');
  }
  return NULL;
}

static char *find_compiler(const char *wanted, vtb_error *err) {
  const char *names[] = {wanted, getenv("VTB_CXX"), getenv("CXX"), "g++", "clang++", "c++"};
  for (int i = 0; i < 6; i++) {
    if (!names[i] || !*names[i]) continue;
    char *file = find_program(names[i]);
    if (file) return file;
    if (i < 3) {
      vtb_fail(err, VTB_E_INPUT, "the emulator's C++ compiler %s does not exist", names[i]);
      return NULL;
    }
  }
  vtb_fail(err, VTB_E_INPUT,
           "the emulator needs a C++ compiler (g++ or clang++ in PATH, or VTB_CXX)");
  return NULL;
}

bool vtb_emulator_available(const vtb_emulator_options *o, vtb_error *err) {
  char *file = find_compiler(o ? o->compiler : NULL, err);
  bool found = file != NULL;
  vtb_free(file);
  return found;
}

/* ---- the source ------------------------------------------------------------------------------ */

static const char *compiled_in(const char *name) {
  for (int i = 0; i < vtb__cuda_n_texts; i++)
    if (strcmp(vtb__cuda_texts[i].name, name) == 0) return vtb__cuda_texts[i].text;
  vtb_bug("the text %s is not compiled in", name);
}

static void write_part(const char *file, const char *text, vtb_strbuf *out) {
  vtb_strbuf_printf(out, "#line 1 \"%s\"\n%s\n", file, text);
}

/* Most kernels of a test run for less time than they compile; -Og compiles in half the time of -O1,
 * for code that is as fast. */
static const char *level_of(const vtb_emulator *e) { return e->optimise ? "-Og" : "-O0"; }

static void write_source(const vtb_emulator *e, const char *text, const char *const *kernels,
                         int n_kernels, vtb_strbuf *out) {
  vtb_strbuf_printf(out, "// %s\n", level_of(e)); /* so that it is part of the content */
  if (e->checked || e->counted) vtb_strbuf_puts(out, "#define VTB_EMU_CHECKED 1\n");
  if (e->counted) vtb_strbuf_puts(out, "#define VTB_EMU_COUNTED 1\n");
  write_part("abi.h", compiled_in("abi.h"), out);
  write_part("device.hpp", compiled_in("device.hpp"), out);
  if (strstr(text, "VTB_MAP(") || strstr(text, "vtb_mbar_") || strstr(text, "vtb_wgmma") ||
      strstr(text, "vtb_cluster_"))
    write_part("hopper.hpp", compiled_in("hopper.hpp"), out);
  write_part("library.cuh", compiled_in("library.cuh"), out);
  write_part(VTB__EMU_SOURCE, text, out);
  vtb_strbuf_puts(out, "#line 1 \"entries\"\n");
  for (int i = 0; i < n_kernels; i++) vtb_strbuf_printf(out, "VTB_EMU_ENTRY(%s)\n", kernels[i]);
}

/* Names the library: source, flags, compiler (path, size and time of its file), processor,
 * version. */
static void cache_name(const char *source, const char *compiler, char name[33]) {
  struct stat st = {0};
  char *real = realpath(compiler, NULL);
  vtb_strbuf all = {0};
  if (stat(compiler, &st) != 0) memset(&st, 0, sizeof st);
  vtb_error none = {0};
  if (vtb_codegen_describe_host(&all, &none) != VTB_OK) vtb_strbuf_puts(&all, "unknown");
  vtb_strbuf_printf(&all, " %s %s %lld %lld\n", VTB_VERSION, real ? real : compiler,
                    (long long)st.st_size, (long long)st.st_mtime);
  for (int i = 0; i < N_FLAGS; i++) vtb_strbuf_printf(&all, "%s ", flags[i]);
  vtb_strbuf_puts(&all, source);
  vtb_hash128(all.at, all.n, name);
  vtb_strbuf_free(&all);
  vtb_free(real);
}

/* ---- compilation ----------------------------------------------------------------------------- */

/* A library ends with the XXH3 hash of what is before it: the disk may damage what is run. */
static vtb_status append_hash(const char *path, vtb_error *err) {
  vtb_mapped_file file;
  VTB_TRY(vtb_map_file(path, &file, err));
  uint64_t hash = vtb_hash64(file.data, file.n);
  vtb_unmap_file(&file);
  FILE *f = fopen(path, "ab");
  bool ok = f && fwrite(&hash, sizeof hash, 1, f) == 1;
  if (f && fclose(f) != 0) ok = false;
  return ok ? VTB_OK : vtb_file_fail(err, "write", path);
}

static bool is_whole(const char *path) {
  vtb_mapped_file file;
  uint64_t hash;
  if (!vtb_path_exists(path) || vtb_map_file(path, &file, NULL) != VTB_OK) return false;
  bool whole = file.n > sizeof hash;
  if (whole) memcpy(&hash, (const char *)file.data + file.n - sizeof hash, sizeof hash);
  whole = whole && hash == vtb_hash64(file.data, file.n - sizeof hash);
  vtb_unmap_file(&file);
  return whole;
}

static vtb_status report_failure(const char *compiler, const char *source, const vtb_strbuf *log,
                                 int code, vtb_error *err) {
  if (code < 0) return vtb_fail(err, VTB_E_INPUT, "%s could not be run", compiler);
  const char *text = log->at ? log->at : "";
  const char *error = strstr(text, "error:");
  while (error && error > text && error[-1] != '\n') error--;
  return vtb_fail(err, VTB_E_INTERNAL, "%s does not accept the emitted source, kept as %s:\n%.700s",
                  compiler, source, error ? error : text);
}

static vtb_status compile(const vtb_emulator *e, const char *library, bool lines, vtb_error *err) {
  char *argv[N_FLAGS + 10];
  vtb_strbuf log = {0}, temporary = {0}, source = {0};
  vtb_strbuf_printf(&temporary, "%s.%ld", library, (long)getpid());
  vtb_strbuf_printf(&source, "%s.cpp", temporary.at);
  int n = 0;
  argv[n++] = e->compiler;
  argv[n++] = (char *)level_of(e);
  for (int i = 0; lines && i < 2; i++) argv[n++] = (char *)line_flags[i];
  for (int i = 0; i < N_FLAGS; i++) argv[n++] = (char *)flags[i];
  argv[n++] = "-o";
  argv[n++] = temporary.at;
  argv[n++] = source.at;
  argv[n++] = "-lm";
  argv[n] = NULL;
  vtb_status status = vtb_file_write_atomic(source.at, e->source.at, e->source.n, err);
  int code = status == VTB_OK ? run_program(argv, &log) : 0;
  if (code != 0)
    status = report_failure(e->compiler, source.at, &log, code, err);
  else if (status == VTB_OK && (status = append_hash(temporary.at, err)) == VTB_OK &&
           rename(temporary.at, library) != 0)
    status = vtb_fail(err, VTB_E_INPUT, "cannot create %s: %s", library, strerror(errno));
  if (status != VTB_OK) unlink(temporary.at);
  if (status == VTB_OK) unlink(source.at);
  vtb_strbuf_free(&log);
  vtb_strbuf_free(&temporary);
  vtb_strbuf_free(&source);
  return status;
}

vtb_status vtb__emu_compile(vtb_emulator *e, const char *text, const char *const *kernels,
                            int n_kernels, const char *wanted, vtb_error *err) {
  if (!(e->compiler = find_compiler(wanted, err))) return VTB_E_INPUT;
  char name[33];
  vtb_strbuf library = {0};
  write_source(e, text, kernels, n_kernels, &e->source);
  cache_name(e->source.at, e->compiler, name);
  char *folder = NULL;
  vtb_status status = vtb_cache_make("emulator", &folder, err);
  if (status != VTB_OK) return status;
  vtb_strbuf_printf(&library, "%s/%s.so", folder, name);
  e->library_path = library.at;
  if (!is_whole(library.at)) {
    double start = vtb_now();
    status = compile(e, library.at, e->counted, err);
    vtb_log("emulator: %d kernels compiled in %.2f s", n_kernels, vtb_now() - start);
  }
  if (status == VTB_OK && !(e->library = dlopen(library.at, RTLD_NOW | RTLD_LOCAL)))
    status = vtb_fail(err, VTB_E_INTERNAL, "cannot load %s: %s", library.at, dlerror());
  vtb_free(folder);
  return status;
}

/* ---- lines ----------------------------------------------------------------------------------- */

enum { MAX_FRAMES = 16 };

/* Return addresses inside the library; it is compiled with frame pointers: a frame begins with the
 * caller's, behind which is the return address. */
static int collect(const vtb_emulator *e, const void *frame, const void *stack_end,
                   char (*offset)[32]) {
  int n = 0;
  for (const void *const *f = frame; n < MAX_FRAMES;) {
    Dl_info info;
    if (!dladdr(f[1], &info) || !info.dli_fname || strcmp(info.dli_fname, e->library_path) != 0)
      break;
    snprintf(offset[n++], 32, "0x%lx",
             (unsigned long)((const char *)f[1] - (const char *)info.dli_fbase - 1));
    const void *const *next = *f;
    if (next <= f || (const void *)(next + 2) > stack_end) break;
    f = next;
  }
  return n;
}

/* addr2line names functions from the innermost one on. The first and the last place in the emitted
 * source count. */
static void name_places(const char *frames, char *text, size_t n) {
  static const char file[] = VTB__EMU_SOURCE ":";
  long first = 0, last = 0;
  for (const char *at = frames; (at = strstr(at, file)); at += strlen(file)) {
    long line = strtol(at + strlen(file), NULL, 10);
    if (line > 0 && !first) first = line;
    if (line > 0) last = line;
  }
  if (!first) return;
  snprintf(text, n, last == first ? "%s%ld" : "%s%ld, called in line %ld", file, first, last);
}

void vtb__emu_locate(vtb_emulator *e, const void *frame, const void *stack_end, char *text,
                     size_t n) {
  char offset[MAX_FRAMES][32];
  vtb_strbuf frames = {0}, with_lines = {0};
  vtb_strbuf_printf(&with_lines, "%.*s%s", (int)strlen(e->library_path) - 3, e->library_path,
                    e->counted ? ".so" : ".lines.so");
  pthread_mutex_lock(&e->lock); /* one that fails is enough to compile */
  if (!is_whole(with_lines.at) && compile(e, with_lines.at, true, NULL) != VTB_OK)
    vtb_log("emulator: %s could not be compiled", with_lines.at);
  pthread_mutex_unlock(&e->lock);
  char *argv[MAX_FRAMES + 5] = {"addr2line", "-i", "-e", with_lines.at};
  int n_frames = collect(e, frame, stack_end, offset);
  for (int i = 0; i < n_frames; i++) argv[4 + i] = offset[i];
  snprintf(text, n, "at an unknown line");
  if (run_program(argv, &frames) != 0 || !frames.at)
    snprintf(text, n, "offset %s (addr2line would name the line)",
             n_frames ? offset[0] : "unknown");
  else
    name_places(frames.at, text, n);
  vtb_strbuf_free(&frames);
  vtb_strbuf_free(&with_lines);
}
