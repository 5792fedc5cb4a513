/* Mixers (a `fused` of kind "mixer", passes/fuse_mixer.c): a linear recurrence by products
 * whose blocks have whole rows of y and their normalizers, and evaluate there what is
 * computed of them. */
#include "codegen/cuda/emitters.h"
#include "codegen/cuda/loop/expr.h"
#include "codegen/cuda/scan/linscan.h"

void vtb__cuda_scan_fill_mixer(vtb__cuda_scan *s) {
  static const char *const number[] = {"b", "pos", "h"};
  const vtb_value *const *results = (const vtb_value *const *)s->inst->results;
  vtb_cuda_near near[] = {{results[0], "done_row", true},
                          {s->normalizer ? results[2] : NULL, "z_row", false}};
  const char *rows = vtb__cuda_row_text(s->k, s->mixer, number, near, s->normalizer ? 2 : 1);
  vtb_check(rows != NULL, "a mixer whose body is not of rows");
  vtb_cuda_fill(s->k, "row_body", "%s", rows);
  vtb_cuda_fill(s->k, "result", "ring"); /* not reached */
  vtb_cuda_fill(s->k, "result_at", "0");
  vtb_cuda_fill(s->k, "put_z", "%s", "");
  VTB_CUDA_NUMBERS(s->k, {"Z", s->normalizer}, {"BODY", true}, {"HALF", true}, {"FOUR", false});
}

/* Keys that are multiplied by a number a token are read as they are. */
static void find_gain(vtb__cuda_scan *s) {
  const vtb_value *gain, *keys = vtb_mixer_keys(s->inst, &gain);
  if (!gain) return;
  vtb_check(!keys->def && !gain->def, "a mixer's keys are arguments");
  s->gain = gain->index;
  s->at.k = s->dir_at[0].k = keys->index;
}

void vtb__cuda_mixer(vtb_cuda *c, const vtb_inst *fused) {
  vtb__cuda_scan s = vtb__cuda_scan_make(c, vtb_mixer_scan(fused));
  vtb_check(s.half, "a mixer of wide factors");
  s.mixer = fused;
  find_gain(&s);
  vtb__cuda_scan_forward(&s);
}
