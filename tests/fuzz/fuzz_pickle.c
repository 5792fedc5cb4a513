/* The machine that reads pickles, and the choice of weights: any bytes give tensors or an error.
 * Storages are zeros of the size that the pickle asks for, up to a limit. */
#include "runtime/weights/checkpoint.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static vtb_status load_zeros(vtb_checkpoint *c, py_storage *s) {
  if (s->to - s->from > 1 << 20)
    return vtb_fail(c->err, VTB_E_INPUT, "a storage of %lld bytes", (long long)(s->to - s->from));
  void *zeros = calloc((size_t)(s->to - s->from) + 1, 1);
  if (!zeros || !vtb_weights_keep(c->w, zeros, free)) return vtb_no_memory(c->err, "zeros");
  s->data = zeros;
  return VTB_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  vtb_error err = {0};
  vtb_strbuf said = VTB_CHECKED_STRBUF;
  vtb_checkpoint c = {.path = "<fuzz>", .said = &said, .err = &err, .load = load_zeros};
  py_value *root = NULL;
  c.budget = c.most_total = 1 << 24;
  c.w = vtb_weights_new();
  vtb_arena_init(&c.arena);
  vtb_py_begin(&c.machine, c.path, data, n, &c.arena, &err);
  c.machine.torch = true;
  vtb_status status = vtb_py_load(&c.machine, &root);
  if (status == VTB_OK) status = vtb__checkpoint_take(&c, root);
  for (size_t i = 0; status == VTB_OK && i < c.w->n; i++) {
    float *out = vtb_xmalloc((size_t)c.w->at[i]->count * sizeof *out + 4);
    vtb_weight_read_f32(c.w->at[i], out);
    free(out);
  }
  if (status == VTB_OK) status = vtb__unwrap_names(&c.w, &said, &err);
  vtb_check(status == VTB_OK || err.text[0], "status %d without a sentence", (int)status);
  vtb_py_end(&c.machine);
  vtb_arena_free(&c.arena);
  vtb_weights_free(c.w);
  vtb_strbuf_free(&said);
  return 0;
}
