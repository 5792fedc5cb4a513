/* The reader of checkpoints as a whole: any bytes under a path give tensors or an error. */
#include "runtime/weights/open.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static int fd = -1;
  char path[64];
  vtb_weights *w = NULL;
  vtb_error err = {0};
  vtb_strbuf said = VTB_CHECKED_STRBUF;
  if (fd < 0) fd = memfd_create("fuzz", 0);
  if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, n, 0) != (ssize_t)n) return 0;
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  vtb_status status = vtb_weights_open(path, &w, &said, &err);
  vtb_check(status == VTB_OK || err.text[0], "status %d without a sentence", (int)status);
  for (size_t i = 0; status == VTB_OK && i < w->n; i++) {
    float *out = vtb_xmalloc((size_t)w->at[i]->count * sizeof *out + 4);
    vtb_weight_read_f32(w->at[i], out);
    free(out);
  }
  vtb_weights_free(w);
  vtb_strbuf_free(&said);
  return 0;
}
