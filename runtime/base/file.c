#include "runtime/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

vtb_status vtb_file_read(const char *path, size_t limit_bytes, char **data, size_t *n,
                         vtb_error *err) {
  FILE *f = fopen(path, "rb");
  if (!f) return vtb_fail(err, VTB_E_INPUT, "cannot open %s: %s", path, strerror(errno));
  vtb_strbuf s = {0};
  char piece[65536];
  size_t got;
  vtb_status status = VTB_OK;
  vtb_strbuf_write(&s, "", 0);
  while ((got = fread(piece, 1, sizeof piece, f)) > 0) {
    if (s.n + got > limit_bytes) {
      status =
          vtb_fail(err, VTB_E_INPUT, "%s is larger than the limit of %zu bytes", path, limit_bytes);
      break;
    }
    vtb_strbuf_write(&s, piece, got);
  }
  if (status == VTB_OK && ferror(f))
    status = vtb_fail(err, VTB_E_INPUT, "cannot read %s: %s", path, strerror(errno));
  fclose(f);
  if (status != VTB_OK) {
    vtb_strbuf_free(&s);
    return status;
  }
  *data = s.at;
  *n = s.n;
  return VTB_OK;
}

vtb_status vtb_atomic_begin(vtb_atomic_file *f, const char *path, vtb_error *err) {
  *f = (vtb_atomic_file){0};
  vtb_strbuf temp = {0};
  vtb_strbuf_printf(&temp, "%s.tmp-XXXXXX", path);
  int fd = mkstemp(temp.at);
  if (fd < 0) {
    vtb_fail(err, VTB_E_INPUT, "cannot write %s: %s", path, strerror(errno));
    vtb_strbuf_free(&temp);
    return VTB_E_INPUT;
  }
  mode_t mask = umask(0);
  umask(mask);
  if (fchmod(fd, 0666 & ~mask) != 0 || !(f->file = fdopen(fd, "wb"))) {
    vtb_fail(err, VTB_E_INPUT, "cannot write %s: %s", path, strerror(errno));
    close(fd);
    unlink(temp.at);
    vtb_strbuf_free(&temp);
    return VTB_E_INPUT;
  }
  f->temp_path = temp.at;
  f->path = vtb_xstrdup(path);
  return VTB_OK;
}

void vtb_atomic_abort(vtb_atomic_file *f) {
  if (f->file) fclose(f->file);
  if (f->temp_path) unlink(f->temp_path);
  free(f->temp_path);
  free(f->path);
  *f = (vtb_atomic_file){0};
}

/* The rename itself survives a power cut only once the folder is synced too. */
static void sync_parent(const char *path) {
  char *copy = vtb_xstrdup(path), *slash = strrchr(copy, '/');
  if (slash == copy) slash++;
  if (slash) *slash = 0;
  int fd = open(slash ? copy : ".", O_RDONLY | O_DIRECTORY);
  if (fd >= 0) {
    (void)!fsync(fd);
    close(fd);
  }
  free(copy);
}

vtb_status vtb_atomic_commit(vtb_atomic_file *f, vtb_error *err) {
  bool bad = ferror(f->file) || fflush(f->file) != 0 || fsync(fileno(f->file)) != 0;
  int saved = errno;
  if (fclose(f->file) != 0 && !bad) {
    bad = true;
    saved = errno;
  }
  f->file = NULL;
  if (!bad && rename(f->temp_path, f->path) != 0) {
    bad = true;
    saved = errno;
  }
  vtb_status status = VTB_OK;
  if (bad) {
    status = vtb_fail(err, VTB_E_INPUT, "cannot write %s: %s", f->path, strerror(saved));
  } else {
    sync_parent(f->path);
    free(f->temp_path);
    f->temp_path = NULL;
  }
  vtb_atomic_abort(f);
  return status;
}

vtb_status vtb_file_write_atomic(const char *path, const void *data, size_t n, vtb_error *err) {
  vtb_atomic_file f;
  vtb_status status = vtb_atomic_begin(&f, path, err);
  if (status != VTB_OK) return status;
  if (n && fwrite(data, 1, n, f.file) != n) {
    status = vtb_fail(err, VTB_E_INPUT, "cannot write %s: %s", path, strerror(errno));
    vtb_atomic_abort(&f);
    return status;
  }
  return vtb_atomic_commit(&f, err);
}

vtb_status vtb_map_file(const char *path, vtb_mapped_file *f, vtb_error *err) {
  *f = (vtb_mapped_file){0};
  int fd = open(path, O_RDONLY);
  if (fd < 0) return vtb_fail(err, VTB_E_INPUT, "cannot open %s: %s", path, strerror(errno));
  struct stat st;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    close(fd);
    return vtb_fail(err, VTB_E_INPUT, "%s is not a regular file", path);
  }
  f->n = (size_t)st.st_size;
  if (f->n) {
    void *p = mmap(NULL, f->n, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) {
      int saved = errno;
      close(fd);
      return vtb_fail(err, VTB_E_INPUT, "cannot map %s: %s", path, strerror(saved));
    }
    f->data = p;
  }
  close(fd);
  return VTB_OK;
}

void vtb_unmap_file(vtb_mapped_file *f) {
  if (f->data) munmap((void *)(uintptr_t)f->data, f->n);
  *f = (vtb_mapped_file){0};
}

bool vtb_path_exists(const char *path) {
  struct stat st;
  return stat(path, &st) == 0;
}

bool vtb_path_is_dir(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

vtb_status vtb_make_dirs(const char *path, vtb_error *err) {
  char *copy = vtb_xstrdup(path);
  vtb_status status = VTB_OK;
  for (char *p = copy + 1; status == VTB_OK; p++) {
    if (*p != '/' && *p) continue;
    char saved = *p;
    *p = 0;
    if (mkdir(copy, 0777) != 0 && errno != EEXIST)
      status = vtb_fail(err, VTB_E_INPUT, "cannot create folder %s: %s", copy, strerror(errno));
    *p = saved;
    if (!saved) break;
  }
  free(copy);
  if (status == VTB_OK && !vtb_path_is_dir(path))
    status = vtb_fail(err, VTB_E_INPUT, "%s exists and is not a folder", path);
  return status;
}

char *vtb_cache_dir(void) {
  vtb_strbuf s = {0};
  const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (xdg && xdg[0] == '/')
    vtb_strbuf_printf(&s, "%s/vertebra", xdg);
  else
    vtb_strbuf_printf(&s, "%s/.cache/vertebra", home && home[0] ? home : "/tmp");
  return s.at;
}
