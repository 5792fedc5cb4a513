/* See tuning.h. */
#include "frontend/compile/tuning.h"
#include "runtime/base/own_file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/cuda/cuda.h"
#include "runtime/launch/threads.h"

/* Raised when emitters of recurrences change what they take: older times are not read any more. */
enum { KERNELS = 1, MOST_BYTES = 16 << 20 };

int vtb_tuning_threads(const vtb_compile_options *o, const vtb_target *target) {
  const vtb_backend *backend = vtb_backend_of(target);
  if (backend && !backend->object) return 1;
  return o->threads > 0 ? (int)o->threads : vtb_default_threads();
}

/* ---- processors ------------------------------------------------------------------------------ */

/* "AMD EPYC 9654, ", where the system says so. */
static void put_model(vtb_strbuf *out) {
  char line[256];
  FILE *f = fopen("/proc/cpuinfo", "re");
  while (f && fgets(line, sizeof line, f)) {
    const char *colon = strchr(line, ':');
    if (!vtb_starts_with(line, "model name") || !colon) continue;
    colon += strspn(colon, ": \t");
    vtb_strbuf_printf(out, "%.*s, ", (int)strcspn(colon, "\n"), colon);
    break;
  }
  if (f) fclose(f);
}

static bool describe_device(const vtb_behaviour *how, vtb_strbuf *out) {
  vtb_cuda_device *device = NULL;
  vtb_error none = {0};
  if (vtb_cuda_device_open(how, &device, &none) != VTB_OK) return false;
  vtb_cuda_device_describe(device, out);
  vtb_cuda_device_close(device);
  return true;
}

static bool describe_processor(const vtb_target *target, const vtb_behaviour *how, char text[128]) {
  const vtb_backend *backend = vtb_backend_of(target);
  vtb_strbuf name = {0};
  bool known = backend != NULL;
  if (known && backend->object) {
    vtb_error none = {0};
    put_model(&name);
    known = vtb_codegen_describe_host(&name, &none) == VTB_OK;
  } else if (known) {
    known = target->needs && !backend->run_plan && describe_device(how, &name);
  }
  snprintf(text, 128, "%s", vtb_strbuf_text(&name));
  for (char *c = text; *c; c++)
    if (iscntrl((unsigned char)*c)) *c = ' ';
  vtb_strbuf_free(&name);
  return known;
}

/* ---- files ----------------------------------------------------------------------------------- */

char *vtb_tuning_folder(void) {
  vtb_strbuf path = {0};
  char *base = vtb_cache_dir();
  vtb_strbuf_printf(&path, "%s/tuning", base);
  vtb_free(base);
  return path.at;
}

bool vtb_tuning_file(const vtb_target *target, const vtb_behaviour *how, char **path,
                     char processor[128]) {
  char name[128], hash[33];
  if (!describe_processor(target, how, name)) return false;
  if (processor) memcpy(processor, name, sizeof name);
  if (!path) return true;
  vtb_strbuf key = {0}, file = {0};
  char *folder = vtb_tuning_folder();
  vtb_strbuf_printf(&key, "%s\n%s\n%d", name, target->name, KERNELS);
  vtb_hash128(key.at, key.n, hash);
  vtb_strbuf_printf(&file, "%s/%s.txt", folder, hash);
  vtb_free(folder);
  vtb_strbuf_free(&key);
  *path = file.at;
  return true;
}

static vtb_status read_file(const char *path, vtb_tuning *out, vtb_error *err) {
  char *text;
  size_t n;
  vtb_error why = {0};
  *out = (vtb_tuning){0};
  if (access(path, F_OK) != 0) return VTB_OK;
  VTB_TRY(vtb_file_read(path, MOST_BYTES, &text, &n, err));
  vtb_status status = vtb_tuning_parse(text, n, out, &why);
  vtb_free(text);
  if (status != VTB_OK) return vtb_fail(err, status, "%s is damaged: %s", path, why.text);
  return VTB_OK;
}

vtb_status vtb_tuning_read(const vtb_target *target, const vtb_behaviour *how, vtb_tuning *out,
                           vtb_error *err) {
  char *path, *folder = vtb_tuning_folder();
  bool any = access(folder, F_OK) == 0; /* else nobody need look at the processor */
  vtb_status status = VTB_OK;
  *out = (vtb_tuning){0};
  vtb_free(folder);
  if (!any || !vtb_tuning_file(target, how, &path, NULL)) return VTB_OK;
  status = read_file(path, out, err);
  vtb_free(path);
  return status;
}

/* Who writes has the lock from reading to renaming. -1: there is none, and who is last wins. */
static int lock_folder(const char *folder) {
  vtb_strbuf path = {0};
  vtb_strbuf_printf(&path, "%s/lock", folder);
  int fd;
  bool is_open = vtb_file_open_own(path.at, 0600, &fd, NULL) == VTB_OK;
  vtb_strbuf_free(&path);
  if (is_open) flock(fd, LOCK_EX);
  return fd;
}

static vtb_status merge_into(const char *path, const char *processor, const vtb_tuning *rows,
                             vtb_error *err) {
  vtb_tuning all;
  vtb_strbuf text = {0};
  vtb_error damaged = {0};
  if (read_file(path, &all, &damaged) != VTB_OK) vtb_log("%s; it is replaced", damaged.text);
  vtb_tuning_merge(&all, rows);
  snprintf(all.processor, sizeof all.processor, "%s", processor);
  vtb_tuning_print(&all, &text);
  vtb_status status = vtb_file_write_atomic(path, text.at, text.n, err);
  vtb_strbuf_free(&text);
  vtb_tuning_free(&all);
  return status;
}

vtb_status vtb_tuning_store(const vtb_target *target, const vtb_behaviour *how,
                            const vtb_tuning *rows, vtb_error *err) {
  char *path, *folder, processor[128];
  vtb_status status = vtb_cache_make("tuning", &folder, err);
  if (status != VTB_OK) return status;
  if (vtb_tuning_file(target, how, &path, processor)) {
    int lock = lock_folder(folder);
    status = merge_into(path, processor, rows, err);
    if (lock >= 0) close(lock);
    vtb_free(path);
  } else {
    status = vtb_fail(err, VTB_E_DEVICE, "target %s has no processor here", target->name);
  }
  vtb_free(folder);
  return status;
}

/* ---- all files ------------------------------------------------------------------------------- */

static vtb_status each_file(vtb_status (*visit)(void *arg, const char *path, const char *name,
                                                vtb_error *err),
                            void *arg, vtb_error *err) {
  char *folder = vtb_tuning_folder();
  DIR *dir = opendir(folder);
  vtb_status status = VTB_OK;
  if (!dir && errno != ENOENT) status = vtb_file_fail(err, "read", folder);
  for (struct dirent *e; dir && status == VTB_OK && (e = readdir(dir));) {
    if (!vtb_ends_with(e->d_name, ".txt")) continue;
    vtb_strbuf path = {0};
    vtb_strbuf_printf(&path, "%s/%s", folder, e->d_name);
    status = visit(arg, path.at, e->d_name, err);
    vtb_strbuf_free(&path);
  }
  if (dir) closedir(dir);
  vtb_free(folder);
  return status;
}

typedef VTB_VEC(vtb_tuning_entry) entries;

static vtb_status add_entry(void *arg, const char *path, const char *name, vtb_error *err) {
  entries *list = arg;
  vtb_tuning table;
  vtb_error damaged = {0};
  struct stat st;
  vtb_tuning_entry e = {.rows = -1};
  (void)err;
  snprintf(e.name, sizeof e.name, "%s", name);
  if (stat(path, &st) == 0) e.bytes = st.st_size;
  if (read_file(path, &table, &damaged) == VTB_OK) {
    e.rows = (int64_t)table.rows.n;
    memcpy(e.processor, table.processor, sizeof e.processor);
    vtb_tuning_free(&table);
  }
  vtb_vec_push(list, e);
  return VTB_OK;
}

vtb_status vtb_tuning_list(vtb_tuning_entry **out, size_t *n, vtb_error *err) {
  entries list = {0};
  vtb_status status = each_file(add_entry, &list, err);
  *out = list.at;
  *n = list.n;
  return status;
}

static vtb_status remove_file(void *arg, const char *path, const char *name, vtb_error *err) {
  (void)name;
  if (unlink(path) != 0) return vtb_file_fail(err, "remove", path);
  ++*(size_t *)arg;
  return VTB_OK;
}

vtb_status vtb_tuning_clear(size_t *n_removed, vtb_error *err) {
  *n_removed = 0;
  return each_file(remove_file, n_removed, err);
}
