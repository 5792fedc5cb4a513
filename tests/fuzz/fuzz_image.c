/* PNG, JPEG and WebP decoding, and the resize that follows it. */
#include "runtime/image/resize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  vtb_image im = {0};
  vtb_error err = {0};
  if (vtb_image_decode("<fuzz>", data, n, 3, &im, &err) != VTB_OK) return 0;
  if ((int64_t)im.width * im.height < 1 << 16) {
    vtb_image small = vtb_image_resize(&im, 17, 9, VTB_FILTER_BICUBIC);
    vtb_image_free(&small);
  }
  vtb_image_free(&im);
  return 0;
}
