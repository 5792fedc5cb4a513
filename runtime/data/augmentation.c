/* The check of an augmentation's options. */
#include "runtime/data/dataset.h"

static bool is_share(double x) { return x >= 0 && x <= 1; }

vtb_status vtb_augmentation_check(const vtb_augmentation *a, int height, int width,
                                  vtb_error *err) {
  int64_t side = height < width ? height : width;
  if (!is_share(a->erase_prob))
    return vtb_fail(err, VTB_E_USAGE, "erase: a probability from 0 to 1, not %g", a->erase_prob);
  if (!is_share(a->scale_min))
    return vtb_fail(err, VTB_E_USAGE,
                    "crop-scale: the smallest share of the area, from 0 (off) to 1, not %g",
                    a->scale_min);
  if (a->shift < 0 || a->shift > side)
    return vtb_fail(err, VTB_E_USAGE, "shift: pixels from 0 to the image's side, %lld, not %lld",
                    (long long)side, (long long)a->shift);
  return VTB_OK;
}
