/* From CUDA C to a library whose kernels call the machine. What was compiled is kept by content. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/codegen/ptx/ptx.h"

static const char *compiler(void) {
  const char *names[] = {getenv("VTB_CXX"), getenv("CXX")};
  for (int i = 0; i < 2; i++)
    if (names[i] && *names[i]) return names[i];
  return system("command -v g++ >/dev/null 2>&1") == 0 ? "g++" : "clang++";
}

/* Runs the compiler on a text; what it prints goes to `out`. */
static bool run(const char *options, const char *folder, const vtb_strbuf *text, vtb_strbuf *out) {
  vtb_strbuf file = {0}, command = {0};
  vtb_strbuf_printf(&file, "%s/%ld.cpp", folder, (long)getpid());
  bool ok = vtb_file_write_atomic(file.at, text->at, text->n, NULL) == VTB_OK;
  vtb_strbuf_printf(&command, "'%s' %s '%s' 2>&1", compiler(), options, file.at);
  FILE *f = ok ? popen(command.at, "r") : NULL;
  char piece[4096];
  for (size_t n; f && (n = fread(piece, 1, sizeof piece, f)) > 0;) vtb_strbuf_write(out, piece, n);
  ok = f && pclose(f) == 0;
  unlink(file.at);
  vtb_strbuf_free(&file);
  vtb_strbuf_free(&command);
  return ok;
}

static bool fail(char *error, const char *what, const vtb_strbuf *log) {
  const char *text = vtb_strbuf_text(log), *at = strstr(text, "error:");
  snprintf(error, 512, "%s: %.400s", what, at ? at : text);
  return false;
}

static bool read_part(const char *name, vtb_strbuf *out, char *error) {
  char *text = NULL, path[1024];
  size_t n;
  vtb_error err = {0};
  snprintf(path, sizeof path, "%s/tests/codegen/ptx/%s", VTB_SOURCE_DIR, name);
  if (vtb_file_read(path, 1 << 20, &text, &n, &err) != VTB_OK)
    return snprintf(error, 512, "%.500s", err.text), false;
  vtb_strbuf_write(out, text, n);
  free(text);
  return true;
}

bool ptx_take(const char *cuda, ptx_program *p, vtb_strbuf *cpp, char *error) {
  vtb_strbuf text = {0}, expanded = {0};
  char *folder = NULL;
  bool ok = vtb_cache_make("ptx", &folder, NULL) == VTB_OK && read_part("abi.h", &text, error) &&
            read_part("device.hpp", &text, error);
  vtb_strbuf_puts(&text, cuda);
  ok = ok &&
       (run("-E -P -w", folder, &text, &expanded) || fail(error, "is not preprocessed", &expanded));
  ok = ok && ptx_read(vtb_strbuf_text(&expanded), &p->text, cpp, error);
  free(folder);
  vtb_strbuf_free(&text);
  vtb_strbuf_free(&expanded);
  return ok;
}

static void write_entry(const char *name, vtb_strbuf *out) {
  static const char *const types[PTX_POINTERS] = {"const vtb_u32", "const float", "const vtb_bf16",
                                                  "const vtb_f16", "vtb_u32",     "vtb_bf16",
                                                  "vtb_f16"};
  vtb_strbuf_printf(out, "extern \"C\" void ptx_run_%s(const ptx_arguments *a) { %s(", name, name);
  for (int i = 0; i < PTX_MAPS; i++) vtb_strbuf_printf(out, "*(const vtb_map *)&a->map[%d], ", i);
  for (int i = 0; i < PTX_POINTERS; i++)
    vtb_strbuf_printf(out, "%s(%s *)a->pointer[%d]", i ? ", " : "", types[i], i);
  vtb_strbuf_puts(out, "); }\n");
}

bool ptx_compile(ptx_program *p, const vtb_strbuf *cpp, const char *const *names, int n,
                 char *error) {
  static const char options[] = "-O0 -std=c++17 -shared -fPIC -w -fno-exceptions -fno-rtti -o ";
  vtb_strbuf text = {0}, library = {0}, log = {0}, words = {0};
  char key[33], *folder = NULL;
  vtb_strbuf_write(&text, cpp->at, cpp->n);
  for (int i = 0; i < n; i++) write_entry(names[i], &text);
  vtb_strbuf_printf(&text, "// %s %s\n", compiler(), options);
  vtb_hash128(text.at, text.n, key);
  bool ok = vtb_cache_make("ptx", &folder, NULL) == VTB_OK;
  vtb_strbuf_printf(&library, "%s/%s.so", folder, key);
  if (ok && access(library.at, R_OK) != 0) {
    vtb_strbuf_printf(&words, "%s '%s.%ld'", options, library.at, (long)getpid());
    ok = run(words.at, folder, &text, &log) || fail(error, "does not compile", &log);
    vtb_strbuf from = {0};
    vtb_strbuf_printf(&from, "%s.%ld", library.at, (long)getpid());
    ok = ok && rename(from.at, library.at) == 0;
    vtb_strbuf_free(&from);
  }
  p->library = ok ? dlopen(library.at, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (ok && !p->library) snprintf(error, 512, "%.500s", dlerror());
  if (p->library) *(const ptx_host **)dlsym(p->library, "ptx_the_host") = &ptx_machine_host;
  free(folder);
  vtb_strbuf_free(&text);
  vtb_strbuf_free(&library);
  vtb_strbuf_free(&log);
  vtb_strbuf_free(&words);
  return p->library != NULL;
}

ptx_kernel ptx_kernel_of(const ptx_program *p, const char *name) {
  ptx_kernel kernel;
  vtb_strbuf symbol = {0};
  vtb_strbuf_printf(&symbol, "ptx_run_%s", name);
  *(void **)&kernel = dlsym(p->library, symbol.at);
  vtb_strbuf_free(&symbol);
  if (!kernel) abort();
  return kernel;
}

void ptx_free(ptx_program *p) {
  if (p->library) dlclose(p->library);
  ptx_text_free(&p->text);
  p->library = NULL;
}
