/* How images become a model's input: what flags, weights, the model and the data set say. */
#include "frontend/cli/prepare.h"

#include <string.h>

vtb_status cli_prepare_transform(const cli_inference *inf, const vtb_dataset *d, vtb_transform *t,
                                 vtb_error *err) {
  *t = (vtb_transform){.prepare = vtb_preparation_default(inf->channels, inf->height, inf->width)};
  if (d && vtb_dataset_has_images(d) && inf->channels) {
    vtb_status status = vtb_transform_init(t, d, inf->channels, inf->height, inf->width, err);
    if (status != VTB_OK) return status;
  }
  for (int k = 0; k < 2; k++) {
    const char *text = cli_inference_meta(inf, k ? "std" : "mean");
    float *into = k ? t->prepare.std : t->prepare.mean;
    if (text) sscanf(text, "%f,%f,%f", &into[0], &into[1], &into[2]);
  }
  return VTB_OK;
}

void cli_prepare_describe(const vtb_transform *t, vtb_weights *w) {
  char numbers[128];
  if (!t->prepare.channels) return;
  snprintf(numbers, sizeof numbers, "%.9g,%.9g,%.9g", (double)t->prepare.mean[0],
           (double)t->prepare.mean[1], (double)t->prepare.mean[2]);
  vtb_weights_set_meta(w, "mean", numbers);
  snprintf(numbers, sizeof numbers, "%.9g,%.9g,%.9g", (double)t->prepare.std[0],
           (double)t->prepare.std[1], (double)t->prepare.std[2]);
  vtb_weights_set_meta(w, "std", numbers);
}
