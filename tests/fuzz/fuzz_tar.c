/* Tar files of images: any bytes give samples, whose bytes lie inside the file, or an error. */
#include "runtime/data/dataset_internal.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  int fd = memfd_create("tar", 0);
  if (fd < 0) return 0;
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (write(fd, data, n) == (ssize_t)n) {
    vtb__place at = {.path = path, .format = &vtb__tar_format};
    vtb__source *s = NULL;
    vtb_error err = {0};
    if (vtb__source_open(&at, 0, &s, &err) == VTB_OK) {
      for (int64_t i = 0; i < s->count && i < 4; i++) {
        vtb_image im = {0};
        if (at.format->image(s, i, 3, &im, &err) == VTB_OK) vtb_image_free(&im);
      }
      vtb__source_leave(s);
    }
  }
  close(fd);
  return 0;
}
