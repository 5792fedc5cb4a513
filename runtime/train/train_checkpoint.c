/* Checkpoints: the whole state of a run in one safetensors file, and the checks before going on
 * from it. */
#include "runtime/artefact/content_hash.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/train/train_internal.h"

#include <stdlib.h>
#include <string.h>

static void set_int(vtb_weights *w, const char *key, int64_t v) {
  char text[32];
  snprintf(text, sizeof text, "%lld", (long long)v);
  vtb_weights_set_meta(w, key, text);
}

/* Hexadecimal: exact. */
static void set_real(vtb_weights *w, const char *key, double v) {
  char text[40];
  snprintf(text, sizeof text, "%a", v);
  vtb_weights_set_meta(w, key, text);
}

static void put_label(const vtb_trainer *t, vtb_weights *w) {
  if (t->config.label && *t->config.label) vtb_weights_set_meta(w, "label", t->config.label);
}

static void put_state(const vtb_trainer *t, vtb_weights *w) {
  vtb_weights_set_meta(w, "format", VTB__CHECKPOINT_FORMAT);
  set_int(w, "step", t->state.step);
  set_int(w, "epoch", t->state.epoch);
  set_int(w, "batch", t->state.batch);
  set_int(w, "seen", t->state.seen);
  set_int(w, "correct", t->state.correct);
  set_int(w, "pending", t->state.pending);
  set_int(w, "done", t->state.done);
  set_int(w, "window_seen", t->state.window_seen);
  set_int(w, "window_correct", t->state.window_correct);
  set_int(w, "window_steps", t->state.window_steps);
  set_real(w, "window_loss", t->state.window_loss);
  set_int(w, "seed", (int64_t)t->config.seed);
  set_int(w, "batch_size", t->whole);
  set_int(w, "samples", vtb_dataset_count(t->config.train_set));
  set_real(w, "loss_sum", t->state.loss_sum);
  set_real(w, "best_top1", t->state.best_top1);
  set_real(w, "seconds", t->state.seconds + (vtb_now() - t->started));
  put_label(t, w);
  if (!vtb__is_scaled(t)) return;
  set_real(w, "loss_scale", t->state.scale);
  set_int(w, "loss_scale_updates", t->state.scaled);
  set_int(w, "skipped", t->state.skipped);
}

/* Parameters and buffers under their own names; averaged copies instead where `averaged` and there
 * are any. */
static void put_params(const vtb_trainer *t, vtb_weights *w, bool averaged) {
  const vtb_program *p = t->bound.program;
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *info = &p->tensors[i];
    if (info->io != VTB_IO_PARAM && info->io != VTB_IO_BUFFER) continue;
    const void *data = averaged ? vtb__average(t, i) : NULL;
    if (!data) data = t->bound.args[i];
    vtb_weights_borrow(w, info->name, info->is_int ? VTB_ELEM_I32 : VTB_ELEM_F32, info->rank,
                       info->dim, data);
  }
}

/* ---- saving ---------------------------------------------------------------------------------- */

static vtb_status write_checkpoint(vtb_trainer *t, const char *path, vtb_error *err) {
  VTB_TRY(vtb__trainer_pull(t, err));
  vtb_weights *w = vtb_weights_new();
  if (!w) return vtb_no_memory(err, path);
  put_state(t, w);
  put_params(t, w, false);
  vtb_optim_save(t->optim, w);
  vtb__shards_put(t, w);
  vtb_measures_save(&t->bound.measures, w);
  vtb_status status = vtb__identity_put(t, w, err);
  if (status == VTB_OK && t->config.describe_model)
    status = t->config.describe_model(t->config.user, w, err);
  vtb_content_hash_want(w);
  if (status == VTB_OK) status = vtb_safetensors_save(path, w, err);
  vtb_weights_free(w);
  return status;
}

vtb_status vtb_trainer_checkpoint(vtb_trainer *t, const char *path, vtb_error *err) {
  vtb_status status = vtb__shards_gather(t, err);
  if (status == VTB_OK && !t->rank) status = write_checkpoint(t, path, err);
  vtb__shards_release(t);
  if (status != VTB_OK) return status;
  t->last_checkpoint = vtb_now();
  t->saved_step = t->state.step;
  t->changed = false;
  vtb_train_event e = vtb__event(t, VTB_TRAIN_CHECKPOINT);
  e.text = path;
  vtb__send(t, &e);
  return VTB_OK;
}

static vtb_status write_weights(vtb_trainer *t, const char *path, vtb_error *err) {
  vtb_status status = vtb__trainer_pull(t, err);
  if (status != VTB_OK) return status;
  vtb_weights *w = vtb_weights_new();
  if (!w) return vtb_no_memory(err, path);
  put_params(t, w, true);
  vtb_weights_set_meta(w, "format", "vertebra-weights-1");
  set_int(w, "step", t->state.step);
  set_int(w, "epoch", t->state.epoch);
  put_label(t, w);
  vtb_content_hash_want(w);
  if (t->config.describe_model) status = t->config.describe_model(t->config.user, w, err);
  if (status == VTB_OK && t->config.describe) status = t->config.describe(t->config.user, w, err);
  if (status == VTB_OK) status = vtb_safetensors_save(path, w, err);
  vtb_weights_free(w);
  return status;
}

vtb_status vtb_trainer_save_weights(vtb_trainer *t, const char *path, vtb_error *err) {
  vtb_status status = vtb__shards_fetch_averages(t, err);
  if (status == VTB_OK && !t->rank) status = write_weights(t, path, err);
  vtb__shards_release(t);
  return status;
}

/* ---- loading --------------------------------------------------------------------------------- */

vtb_status vtb__meta_int(const vtb_weights *w, const char *key, int64_t *out, vtb_error *err) {
  const char *text = vtb_weights_meta(w, key);
  char *end = NULL;
  *out = text ? strtoll(text, &end, 10) : 0;
  if (!text || end == text || *end)
    return vtb_fail(err, VTB_E_INPUT, "checkpoint: \"%s\" is missing or no number", key);
  return VTB_OK;
}

static vtb_status get_real(const vtb_weights *w, const char *key, double *out, vtb_error *err) {
  const char *text = vtb_weights_meta(w, key);
  char *end = NULL;
  *out = text ? strtod(text, &end) : 0;
  if (!text || end == text || *end)
    return vtb_fail(err, VTB_E_INPUT, "checkpoint: \"%s\" is missing or no number", key);
  return VTB_OK;
}

/* State that checkpoints of earlier versions lack. */
static vtb_status get_later_state(const vtb_weights *w, vtb_train_state *s, vtb_error *err) {
  int64_t pending = 0, done = 0;
  if (!vtb_weights_meta(w, "pending")) return VTB_OK;
  vtb_status status = vtb__meta_int(w, "pending", &pending, err);
  if (status == VTB_OK) status = vtb__meta_int(w, "done", &done, err);
  if (status == VTB_OK) status = vtb__meta_int(w, "window_seen", &s->window_seen, err);
  if (status == VTB_OK) status = vtb__meta_int(w, "window_correct", &s->window_correct, err);
  if (status == VTB_OK) status = vtb__meta_int(w, "window_steps", &s->window_steps, err);
  if (status == VTB_OK) status = get_real(w, "window_loss", &s->window_loss, err);
  s->pending = pending != 0;
  s->done = done != 0;
  return status;
}

static vtb_status get_state(const vtb_weights *w, vtb_train_state *s, vtb_error *err) {
  VTB_TRY(vtb__meta_int(w, "step", &s->step, err));
  VTB_TRY(vtb__meta_int(w, "epoch", &s->epoch, err));
  VTB_TRY(vtb__meta_int(w, "batch", &s->batch, err));
  VTB_TRY(vtb__meta_int(w, "seen", &s->seen, err));
  VTB_TRY(vtb__meta_int(w, "correct", &s->correct, err));
  VTB_TRY(get_real(w, "loss_sum", &s->loss_sum, err));
  VTB_TRY(get_real(w, "best_top1", &s->best_top1, err));
  return get_real(w, "seconds", &s->seconds, err);
}

/* A checkpoint of a run without a factor begins with this run's. */
static vtb_status get_scale(const vtb_trainer *t, const vtb_weights *w, vtb_train_state *s,
                            vtb_error *err) {
  s->scale = t->state.scale;
  if (!vtb__is_scaled(t) || !vtb_weights_meta(w, "loss_scale")) return VTB_OK;
  vtb_status status = get_real(w, "loss_scale", &s->scale, err);
  if (status == VTB_OK) status = vtb__meta_int(w, "loss_scale_updates", &s->scaled, err);
  if (status == VTB_OK) status = vtb__meta_int(w, "skipped", &s->skipped, err);
  if (status == VTB_OK && !(s->scale >= 1 && s->scale <= 0x1p127))
    return vtb_fail(err, VTB_E_INPUT, "checkpoint: a loss scale of %g", s->scale);
  return status;
}

static vtb_status take_checkpoint(vtb_trainer *t, const vtb_weights *w, vtb_error *err) {
  vtb_train_state s = {0};
  VTB_TRY(vtb__identity_check(t, w, err));
  VTB_TRY(get_state(w, &s, err));
  VTB_TRY(get_later_state(w, &s, err));
  VTB_TRY(get_scale(t, w, &s, err));
  if (s.step < 0 || s.epoch < 0 || s.batch < 0 || s.batch >= t->batches ||
      s.step != s.epoch * t->batches + s.batch)
    return vtb_fail(err, VTB_E_INPUT, "checkpoint: step %lld does not fit epoch %lld, batch %lld",
                    (long long)s.step, (long long)s.epoch, (long long)s.batch);
  VTB_TRY(vtb_weights_bind(t->bound.program, w, NULL, t->bound.args, NULL, NULL, err));
  VTB_TRY(vtb_optim_load(t->optim, w, err));
  VTB_TRY(vtb_measures_load(&t->bound.measures, w, err));
  t->state = s;
  t->saved_step = s.step;
  return VTB_OK;
}

vtb_status vtb__checkpoint_load(vtb_trainer *t, const char *path, vtb_error *err) {
  vtb_weights *w = NULL;
  VTB_TRY(vtb_safetensors_load(path, &w, err));
  vtb_error inner = {0};
  vtb_status status = take_checkpoint(t, w, &inner);
  if (status != VTB_OK) vtb_fail(err, status, "%s: %s", path, inner.text);
  vtb_weights_free(w);
  return status;
}
