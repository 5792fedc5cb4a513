/* The reader of weights files: any bytes give tensors or an error, and every tensor can be read. */
#include "runtime/artefact/safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  vtb_weights *w = NULL;
  vtb_error err = {0};
  if (vtb_safetensors_parse("<fuzz>", data, n, &w, &err) != VTB_OK) return 0;
  for (size_t i = 0; i < w->n; i++) {
    float *out = vtb_xmalloc((size_t)w->at[i]->count * sizeof *out + 4);
    vtb_weight_read_f32(w->at[i], out);
    free(out);
  }
  vtb_weights_free(w);
  return 0;
}
