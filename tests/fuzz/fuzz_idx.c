/* The reader of IDX files, plain or gzip: any bytes give samples or an error. */
#include "runtime/data/dataset_internal.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  int fd = memfd_create("idx", 0);
  if (fd < 0) return 0;
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (write(fd, data, n) == (ssize_t)n) {
    int rank;
    int64_t dim[8];
    unsigned char *bytes = NULL;
    vtb_error err = {0};
    if (vtb__idx_read(path, 1, 4, &rank, dim, &bytes, &err) == VTB_OK) free(bytes);
  }
  close(fd);
  return 0;
}
