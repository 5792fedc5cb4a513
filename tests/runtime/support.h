/* What the runtime's tests share: a folder that is removed at exit, file damage, a classifier
 * written in C. */
#ifndef VTB_TEST_SUPPORT_H
#define VTB_TEST_SUPPORT_H

#include "runtime/base/base.h"
#include "runtime/launch/program.h"
#include "tests/test.h"

#include <ftw.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static char temp_folder[64];

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw) {
  (void)st, (void)flag, (void)ftw;
  return remove(path);
}

static inline void remove_temp(void) { nftw(temp_folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS); }

/* "<temporary folder>/<name>" in one of a few static buffers. */
static inline const char *temp_path(const char *name) {
  static char paths[8][512];
  static int next;
  if (!temp_folder[0]) {
    strcpy(temp_folder, "/tmp/vtb-test-XXXXXX");
    if (!mkdtemp(temp_folder)) exit(1);
    atexit(remove_temp);
  }
  char *path = paths[next++ % 8];
  snprintf(path, 512, "%s/%s", temp_folder, name);
  return path;
}

static inline void write_file(const char *path, const void *data, size_t n) {
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(data, 1, n, f) != n || fclose(f) != 0) {
    fprintf(stderr, "cannot write %s\n", path);
    exit(1);
  }
}

static inline char *read_file(const char *path, size_t *n) {
  char *data = NULL;
  vtb_error err = {0};
  if (vtb_file_read(path, (size_t)1 << 30, &data, n, &err) != VTB_OK) {
    fprintf(stderr, "%s\n", err.text);
    exit(1);
  }
  return data;
}

#define CHECK_OK(call)                                                                             \
  do {                                                                                             \
    vtb_error err_ = {0};                                                                          \
    vtb_error *err = &err_;                                                                        \
    vtb_status status_ = (call);                                                                   \
    CHECK_MSG(status_ == VTB_OK, "%s: status %d: %s", #call, (int)status_, err_.text);             \
  } while (0)

/* The call, which takes `err`, must fail and say something that contains `part`. */
#define CHECK_REFUSED(call, part)                                                                  \
  do {                                                                                             \
    vtb_error err_ = {0};                                                                          \
    vtb_error *err = &err_;                                                                        \
    vtb_status status_ = (call);                                                                   \
    CHECK_MSG(status_ != VTB_OK, "%s succeeded", #call);                                           \
    CHECK_MSG(strstr(err_.text, part) != NULL, "%s says \"%s\", not \"%s\"", #call, err_.text,     \
              part);                                                                               \
  } while (0)

#endif
