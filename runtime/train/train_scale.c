/* Loss scaling: gradients below a narrow format's smallest number would be lost, so the loss, and
 * with it every gradient, is multiplied by a power of two, as large as does not overflow; the
 * optimiser divides by it.
 *
 * source  Micikevicius et al. 2018, arXiv:1710.03740, section 3.2: halve on overflow and leave the
 *         batch out, double after a number of good updates.
 */
#include "runtime/train/train_internal.h"

#include <math.h>

static const double FIRST = 65536, LEAST = 1, MOST = 0x1p60;
enum { STEPS = 2000 };

void vtb__scale_open(vtb_trainer *t) {
  t->state.scale = t->config.loss_scale > 0 ? t->config.loss_scale : FIRST;
  if (vtb__is_scaled(t)) t->bound.args[t->bound.scale] = &t->loss_scale;
}

void vtb__scale_begin(vtb_trainer *t) {
  t->loss_scale = vtb__is_scaled(t) ? (float)t->state.scale : 1;
}

static void change(vtb_trainer *t, double scale) {
  t->state.scale = scale;
  t->state.scaled = 0;
}

vtb_status vtb__scale_end(vtb_trainer *t, vtb_status status, const vtb_error *inner,
                          vtb_error *err) {
  int64_t steps = t->config.loss_scale_steps > 0 ? t->config.loss_scale_steps : STEPS;
  vtb_train_state *s = &t->state;
  if (status == VTB_OK) {
    if (vtb__is_scaled(t) && ++s->scaled >= steps && s->scale < MOST) change(t, 2 * s->scale);
    return VTB_OK;
  }
  if (status != VTB_E_NUMBERS || !vtb__is_scaled(t) || s->scale <= LEAST)
    return vtb_fail(err, status, "%s", inner->text);
  change(t, s->scale / 2);
  s->skipped++;
  t->grad_norm = NAN;
  return VTB_OK;
}
