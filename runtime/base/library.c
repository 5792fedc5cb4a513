/* The search for a vendor library: see library.h. */
#include "runtime/base/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Behind each stands a file name; %s is replaced by the environment variable in front. */
static const struct {
  const char *variable, *pattern;
} places[] = {
    {"CUDA_HOME", "%s/lib64"},
    {"CUDA_PATH", "%s/lib64"},
    {"CONDA_PREFIX", "%s/lib"},
    {"VIRTUAL_ENV", "%s/lib/python3*/site-packages/nvidia/*/lib"},
    {"CONDA_PREFIX", "%s/lib/python3*/site-packages/nvidia/*/lib"},
    {"HOME", "%s/.local/lib/python3*/site-packages/nvidia/*/lib"},
    {NULL, "/usr/local/cuda/lib64"},
    {NULL, "/usr/local/cuda-*/lib64"},
    {NULL, "/opt/cuda/lib64"},
    {NULL, "/usr/local/lib/python3*/*-packages/nvidia/*/lib"},
    {NULL, "/usr/lib/python3*/*-packages/nvidia/*/lib"},
    {"PYENV_ROOT", "%s/versions/*/lib/python3*/site-packages/nvidia/*/lib"},
    {"HOME", "%s/.pyenv/versions/*/lib/python3*/site-packages/nvidia/*/lib"},
    {NULL, "/opt/*/lib/python3*/site-packages/nvidia/*/lib"}, /* conda, venv of containers */
};

/* A variable that somebody else's session left (HOME under sudo) would have us run his code. */
static bool is_trusted(const char *path) {
  char folder[PATH_MAX];
  struct stat file, parent;
  const char *slash = strrchr(path, '/');
  int n = snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 0, path);
  if (n <= 0 || (size_t)n >= sizeof folder || stat(path, &file) != 0 || stat(folder, &parent) != 0)
    return false;
  return (file.st_uid == 0 || file.st_uid == geteuid()) &&
         (parent.st_uid == 0 || parent.st_uid == geteuid());
}

/* The outcome of a search: the path, which may not be wanted, and a file of another user. */
typedef struct search {
  char **path;
  char untrusted[PATH_MAX]; /* "": none */
} search;

static void keep_path(search *s, const char *path) {
  if (s->path) *s->path = strdup(path);
}

static void *try_pattern(const char *pattern, bool of_variable, search *s) {
  glob_t found;
  void *handle = NULL;
  if (glob(pattern, 0, NULL, &found) != 0) return NULL;
  for (size_t i = found.gl_pathc; i > 0 && !handle; i--) { /* the highest version is the last */
    const char *file = found.gl_pathv[i - 1];
    if (of_variable && !is_trusted(file)) {
      snprintf(s->untrusted, sizeof s->untrusted, "%s", file);
      continue;
    }
    handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (handle) keep_path(s, file);
  }
  globfree(&found);
  return handle;
}

static void *try_places(const char *name, search *s) {
  void *handle = NULL;
  for (size_t i = 0; i < sizeof places / sizeof *places && !handle; i++) {
    const char *root = places[i].variable ? getenv(places[i].variable) : "";
    if (!root || (places[i].variable && !*root)) continue;
    char pattern[PATH_MAX]; /* no memory that could be missing: then a library would not be found */
    const char *rest = places[i].pattern + (places[i].variable ? strlen("%s") : 0);
    int n = snprintf(pattern, sizeof pattern, "%s%s/%s", root, rest, name);
    if (n > 0 && (size_t)n < sizeof pattern)
      handle = try_pattern(pattern, places[i].variable != NULL, s);
  }
  return handle;
}

/* The CUDA that the driver is of: 13; INT_MAX without a driver. */
static int driver_major(void) {
  const char *wanted = getenv("VTB_CUDA_DRIVER");
  void *handle = dlopen(wanted && *wanted ? wanted : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  int (*get)(int *) = NULL, version = 0;
  if (!handle) return INT_MAX;
  void *symbol = dlsym(handle, "cuDriverGetVersion");
  memcpy(&get, &symbol, sizeof get);
  bool known = get && get(&version) == 0;
  dlclose(handle);
  return known ? version / 1000 : INT_MAX;
}

/* "libnvrtc.so.13" is of CUDA 13; smaller numbers are other libraries' own. */
static bool is_newer(const char *name, int major) {
  const char *dot = strrchr(name, '.');
  return dot && strtol(dot + 1, NULL, 10) > (major > 11 ? major : 11);
}

static void *try_names(const vtb_library *l, int major, bool newer, search *s) {
  for (const char *const *name = l->names; *name; name++) {
    if (!l->of_system && is_newer(*name, major) != newer) continue;
    void *handle = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
    if (handle) keep_path(s, *name);
    if (!handle && !l->of_system) handle = try_places(*name, s);
    if (handle) return handle;
  }
  return NULL;
}

static void *find_library(const vtb_library *l, char **path, vtb_error *err) {
  const char *wanted = getenv(l->environment);
  search s = {.path = path};
  if (wanted && *wanted) {
    void *handle = dlopen(wanted, RTLD_NOW | RTLD_LOCAL);
    if (handle) keep_path(&s, wanted);
    if (!handle)
      vtb_fail(err, VTB_E_DEVICE, "%s: %s=%s cannot be loaded: %s", l->what, l->environment, wanted,
               dlerror());
    return handle;
  }
  int major = l->of_system ? 0 : driver_major();
  void *handle = try_names(l, major, false, &s);
  if (!handle && !l->of_system) handle = try_names(l, major, true, &s);
  if (!handle)
    vtb_fail(err, VTB_E_DEVICE,
             "no %s: %s was not found%s%s: %s (%s names its file if it is elsewhere)", l->what,
             l->names[0], *s.untrusted ? ", but for another user's: " : "", s.untrusted, l->remedy,
             l->environment);
  return handle;
}

/* The first object is the program; one with a loader names it. */
static int look_for_loader(struct dl_phdr_info *program, size_t size, void *found) {
  (void)size;
  for (int i = 0; i < program->dlpi_phnum; i++)
    if (program->dlpi_phdr[i].p_type == PT_INTERP) *(bool *)found = true;
  return 1;
}

bool vtb_library_loads(void) {
  bool found = false;
  dl_iterate_phdr(look_for_loader, &found);
  return found;
}

vtb_status vtb_library_open(const vtb_library *l, void *table, char **path, vtb_error *err) {
  char *file = NULL;
  if (!vtb_library_loads())
    return vtb_fail(err, VTB_E_DEVICE,
                    "no %s: this program is linked statically, and such programs load no libraries",
                    l->what);
  void *handle = find_library(l, &file, err);
  if (!handle) return VTB_E_DEVICE;
  if (!file) {
    dlclose(handle);
    return vtb_no_memory(err, l->what);
  }
  for (int i = 0; i < l->n_symbols; i++) {
    void *symbol = dlsym(handle, l->symbols[i].name);
    if (!symbol) {
      vtb_fail(err, VTB_E_DEVICE, "the %s in %s is too old: it has no %s", l->what, file,
               l->symbols[i].name);
      free(file);
      dlclose(handle);
      return VTB_E_DEVICE;
    }
    memcpy((char *)table + l->symbols[i].offset, &symbol, sizeof symbol);
  }
  if (path)
    *path = file;
  else
    free(file);
  return VTB_OK;
}

vtb_status vtb_library_need(vtb_late_library *l, vtb_error *err) {
  if (atomic_load_explicit(&l->open, memory_order_acquire)) return VTB_OK;
  vtb_status status = VTB_OK;
  (void)vtb_lock_take(&l->lock); /* half done in a parent it is done again */
  if (!atomic_load(&l->open)) status = vtb_library_open(l->library, l->table, NULL, err);
  if (status == VTB_OK) atomic_store_explicit(&l->open, true, memory_order_release);
  vtb_lock_give(&l->lock);
  return status;
}
