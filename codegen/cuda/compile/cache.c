/* The disk cache of compiled kernels: one file a key, written under a temporary name and renamed,
 * so that processes share it without locks; the oldest files go when it outgrows its bound. A file
 * is a magic line, the XXH3 hash of what follows, the length of the log, the log, the image; one
 * that is not is as if it were not there. A use renews the file's time. */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "codegen/cuda/compile/nvrtc.h"

static const char magic[] = "vertebra cuda image 2\n";
enum { MAGIC = sizeof magic - 1, HASH = sizeof(uint64_t), DEFAULT_MB = 512 };

char *vtb_cuda_cache_folder(void) {
  char *base = vtb_cache_dir();
  vtb_strbuf s = {0};
  vtb_strbuf_printf(&s, "%s/cuda", base);
  vtb_free(base);
  return s.at;
}

vtb_cuda_key vtb__cuda_cache_key(const char *const *parts, int n) {
  vtb_strbuf all = {0};
  vtb_cuda_key key = {0};
  for (int i = 0; i < n; i++) vtb_strbuf_printf(&all, "%zu %s", strlen(parts[i]), parts[i]);
  vtb_hash128(vtb_strbuf_text(&all), all.n, key.text);
  vtb_strbuf_free(&all);
  return key;
}

static char *path_of(const char *key) {
  char *folder = vtb_cuda_cache_folder();
  vtb_strbuf s = {0};
  vtb_strbuf_printf(&s, "%s/%s", folder, key);
  vtb_free(folder);
  return s.at;
}

static char *copy_bytes(const char *from, size_t n) {
  char *copy = vtb_xmalloc(n + 1);
  memcpy(copy, from, n);
  copy[n] = '\0';
  return copy;
}

bool vtb__cuda_cache_get(const vtb_cuda_key *key, vtb_cuda_code *code) {
  char *folder = NULL, *data = NULL;
  if (vtb_cache_make("cuda", &folder, NULL) != VTB_OK) return false;
  vtb_free(folder);
  char *path = path_of(key->text);
  size_t n = 0;
  uint64_t log = 0, hash = 0;
  size_t head = MAGIC + HASH + sizeof log;
  bool ok = vtb_file_read(path, (size_t)1 << 30, &data, &n, NULL) == VTB_OK && n > head &&
            memcmp(data, magic, MAGIC) == 0;
  if (ok) memcpy(&hash, data + MAGIC, HASH);
  ok = ok && hash == vtb_hash64(data + MAGIC + HASH, n - MAGIC - HASH);
  if (ok) memcpy(&log, data + MAGIC + HASH, sizeof log);
  ok = ok && log < n - head;
  if (ok) {
    *code = (vtb_cuda_code){
        .log = copy_bytes(data + head, log), .n_bytes = n - head - log, .cached = true};
    code->data = copy_bytes(data + head + log, code->n_bytes);
    (void)utimensat(AT_FDCWD, path, NULL, 0); /* used now */
  }
  vtb_free(data);
  vtb_free(path);
  return ok;
}

/* ---- size ------------------------------------------------------------------------------------ */

static bool is_key(const char *name) {
  return strlen(name) == 32 && strspn(name, "0123456789abcdef") == 32;
}

static int by_age(const void *pa, const void *pb) {
  const vtb_cuda_cache_entry *a = pa, *b = pb;
  if (a->used_seconds_ago != b->used_seconds_ago)
    return a->used_seconds_ago > b->used_seconds_ago ? -1 : 1;
  return strcmp(a->key, b->key);
}

vtb_status vtb_cuda_cache_list(vtb_cuda_cache_entry **out, size_t *n, vtb_error *err) {
  VTB_VEC(vtb_cuda_cache_entry) list = {0};
  char *folder = vtb_cuda_cache_folder();
  DIR *d = opendir(folder);
  vtb_status status = VTB_OK;
  if (!d && vtb_path_exists(folder)) status = vtb_fail(err, VTB_E_INPUT, "cannot read %s", folder);
  for (struct dirent *f; d && (f = readdir(d));) {
    struct stat s;
    vtb_cuda_cache_entry entry = {0};
    if (!is_key(f->d_name) || fstatat(dirfd(d), f->d_name, &s, 0) != 0) continue;
    memcpy(entry.key, f->d_name, 32);
    entry.bytes = s.st_size;
    entry.used_seconds_ago = (int64_t)(time(NULL) - s.st_mtime);
    vtb_vec_push(&list, entry);
  }
  if (d) closedir(d);
  vtb_free(folder);
  if (list.n) qsort(list.at, list.n, sizeof *list.at, by_age);
  *out = list.at;
  *n = list.n;
  return status;
}

static void drop(const char *key) {
  char *path = path_of(key);
  (void)unlink(path);
  vtb_free(path);
}

vtb_status vtb_cuda_cache_clear(size_t *n_removed, vtb_error *err) {
  vtb_cuda_cache_entry *list = NULL;
  vtb_status status = vtb_cuda_cache_list(&list, n_removed, err);
  for (size_t i = 0; i < *n_removed; i++) drop(list[i].key);
  vtb_free(list);
  return status;
}

static void keep_within(int64_t most_bytes) {
  vtb_cuda_cache_entry *list = NULL;
  size_t n = 0;
  int64_t total = 0;
  if (vtb_cuda_cache_list(&list, &n, NULL) != VTB_OK) return;
  for (size_t i = 0; i < n; i++) total += list[i].bytes;
  for (size_t i = 0; i < n && total > most_bytes; i++) {
    drop(list[i].key);
    total -= list[i].bytes;
  }
  vtb_free(list);
}

void vtb__cuda_cache_put(const vtb_cuda_key *key, const vtb_cuda_code *code, int most_mb) {
  vtb_strbuf s = {0};
  uint64_t log = strlen(code->log), hash = 0;
  char *folder = NULL, *path = path_of(key->text);
  vtb_strbuf_write(&s, magic, MAGIC);
  vtb_strbuf_write(&s, (const char *)&hash, HASH);
  vtb_strbuf_write(&s, (const char *)&log, sizeof log);
  vtb_strbuf_write(&s, code->log, log);
  vtb_strbuf_write(&s, code->data, code->n_bytes);
  hash = vtb_hash64(s.at + MAGIC + HASH, s.n - MAGIC - HASH);
  memcpy(s.at + MAGIC, &hash, HASH);
  vtb_error err = {0};
  if (vtb_cache_make("cuda", &folder, &err) == VTB_OK &&
      vtb_file_write_atomic(path, s.at, s.n, &err) == VTB_OK)
    keep_within((int64_t)(most_mb ? most_mb : DEFAULT_MB) << 20);
  else
    vtb_log("the cache of compiled kernels was not written: %s", err.text);
  vtb_strbuf_free(&s);
  vtb_free(folder);
  vtb_free(path);
}
