/* Files: read, mapped, and written beside before they are renamed. */
#include "runtime/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

vtb_status vtb_file_fail(vtb_error *err, const char *doing, const char *path) {
  return vtb_fail(err, errno == ENOMEM ? VTB_E_MEMORY : VTB_E_INPUT, "cannot %s %s: %s", doing,
                  path, strerror(errno));
}

vtb_status vtb_file_read(const char *path, size_t limit_bytes, char **data, size_t *n,
                         vtb_error *err) {
  FILE *f = fopen(path, "rb");
  if (!f) return vtb_file_fail(err, "open", path);
  vtb_strbuf s = VTB_CHECKED_STRBUF;
  char piece[65536];
  size_t got;
  vtb_status status = VTB_OK;
  vtb_strbuf_write(&s, "", 0);
  while (!s.failed && (got = fread(piece, 1, sizeof piece, f)) > 0) {
    if (s.n + got > limit_bytes) {
      status =
          vtb_fail(err, VTB_E_INPUT, "%s is larger than the limit of %zu bytes", path, limit_bytes);
      break;
    }
    vtb_strbuf_write(&s, piece, got);
  }
  if (status == VTB_OK && ferror(f)) status = vtb_file_fail(err, "read", path);
  fclose(f);
  if (status == VTB_OK && s.failed) status = vtb_no_memory(err, path);
  if (status != VTB_OK) {
    vtb_strbuf_free(&s);
    return status;
  }
  *data = s.at;
  *n = s.n;
  return VTB_OK;
}

/* Creates a file beside `path` that did not exist, with the mode that the process gives new
 * files. */
static int open_beside(const char *path, char **temp_path) {
  static atomic_uint count;
  unsigned tries = 0;
  int fd;
  do {
    unsigned number = (unsigned)getpid() * 4099u + atomic_fetch_add(&count, 1);
    *temp_path = vtb_strprintf("%s.tmp-%08x", path, number);
    if (!*temp_path) return -1;
    fd = open(*temp_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) return fd;
    int saved = errno;
    free(*temp_path);
    *temp_path = NULL;
    errno = saved;
  } while (errno == EEXIST && ++tries < 100);
  return fd;
}

vtb_status vtb_atomic_begin(vtb_atomic_file *f, const char *path, vtb_error *err) {
  *f = (vtb_atomic_file){.path = strdup(path)};
  int fd = f->path ? open_beside(path, &f->temp_path) : -1;
  if (fd >= 0) f->file = fdopen(fd, "wb");
  if (f->file) return VTB_OK;
  vtb_status status = vtb_file_fail(err, "write", path);
  if (fd >= 0) close(fd);
  vtb_atomic_abort(f);
  return status;
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
  char folder[4096] = ".";
  const char *slash = strrchr(path, '/');
  size_t n = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
  if (n >= sizeof folder) return; /* no system takes such a path */
  if (n) memcpy(folder, path, n), folder[n] = 0;
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    (void)!fsync(fd);
    close(fd);
  }
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
    errno = saved;
    status = vtb_file_fail(err, "write", f->path);
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
    status = vtb_file_fail(err, "write", path);
    vtb_atomic_abort(&f);
    return status;
  }
  return vtb_atomic_commit(&f, err);
}

vtb_status vtb_map_file(const char *path, vtb_mapped_file *f, vtb_error *err) {
  *f = (vtb_mapped_file){0};
  int fd = open(path, O_RDONLY | O_NONBLOCK); /* a pipe is refused, not waited for */
  if (fd < 0) return vtb_file_fail(err, "open", path);
  struct stat st;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    close(fd);
    return vtb_fail(err, VTB_E_INPUT, "%s is not a regular file", path);
  }
  f->n = (size_t)st.st_size;
  if (f->n) {
    void *p = mmap(NULL, f->n, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) {
      vtb_status status = vtb_file_fail(err, "map", path);
      close(fd);
      return status;
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
  char *copy = strdup(path);
  vtb_status status = VTB_OK;
  if (!copy) return vtb_no_memory(err, path);
  for (char *p = copy + 1; status == VTB_OK; p++) {
    if (*p != '/' && *p) continue;
    char saved = *p;
    *p = 0;
    if (mkdir(copy, 0777) != 0 && errno != EEXIST)
      status = vtb_file_fail(err, "create folder", copy);
    *p = saved;
    if (!saved) break;
  }
  free(copy);
  if (status == VTB_OK && !vtb_path_is_dir(path))
    status = vtb_fail(err, VTB_E_INPUT, "%s exists and is not a folder", path);
  return status;
}
