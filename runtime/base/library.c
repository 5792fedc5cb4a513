/* Opening optional shared libraries: see library.h. */
#include "runtime/base/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <string.h>

/* A leading $NAME is an environment variable; the folder counts only if that is set. */
static const char *const folders[] = {
    "$CUDA_HOME/lib64",
    "$CUDA_HOME/lib",
    "$CUDA_PATH/lib64",
    "/usr/local/cuda/lib64",
    "$VIRTUAL_ENV/lib/python3*/site-packages/nvidia/*/lib",
    "$CONDA_PREFIX/lib",
    "$CONDA_PREFIX/lib/python3*/site-packages/nvidia/*/lib",
    "$HOME/.local/lib/python3*/site-packages/nvidia/*/lib",
    "/usr/local/lib/python3*/dist-packages/nvidia/*/lib",
    "/usr/local/lib/python3*/site-packages/nvidia/*/lib",
};

/* The pattern of `name` in a folder, or false. */
static bool pattern_of(const char *folder, const char *name, vtb_strbuf *out) {
  out->n = 0;
  if (folder[0] == '$') {
    char variable[32] = "";
    size_t n = strcspn(folder, "/");
    if (n > sizeof variable) return false;
    memcpy(variable, folder + 1, n - 1);
    const char *value = getenv(variable);
    if (!value || !value[0]) return false;
    vtb_strbuf_puts(out, value);
    folder += n;
  }
  vtb_strbuf_printf(out, "%s/%s", folder, name);
  return true;
}

static void *open_matching(const char *pattern, char **path) {
  glob_t found;
  void *library = NULL;
  if (glob(pattern, 0, NULL, &found) != 0) return NULL;
  for (size_t i = 0; i < found.gl_pathc && !library; i++) {
    library = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
    if (library && path) *path = vtb_xstrdup(found.gl_pathv[i]);
  }
  globfree(&found);
  return library;
}

void *vtb_library_open(const char *const *names, char **path) {
  vtb_strbuf pattern = {0};
  void *library = NULL;
  for (; *names && !library; names++) {
    library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    if (library && path) *path = vtb_xstrdup(*names);
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !library; i++)
      if (pattern_of(folders[i], *names, &pattern)) library = open_matching(pattern.at, path);
  }
  vtb_strbuf_free(&pattern);
  return library;
}

bool vtb_library_bind(void *library, const vtb_library_symbol *symbols, size_t n, const char **missing) {
  for (size_t i = 0; i < n; i++) {
    void *at = dlsym(library, symbols[i].name);
    if (!at) {
      *missing = symbols[i].name;
      return false;
    }
    memcpy(symbols[i].into, &at, sizeof at);
  }
  return true;
}
