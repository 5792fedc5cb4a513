/* Checkpoints: the whole state of a run in one safetensors file, and the checks before going on
 * from it. */
#include "runtime/artefact/safetensors.h"
#include "runtime/train/train_internal.h"

#include <stdlib.h>
#include <string.h>

#define CHECKPOINT_FORMAT "vertebra-checkpoint-1"

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

static void set_recipe(vtb_weights *w, const char *recipe) {
  char text[32];
  snprintf(text, sizeof text, "%016llx", (unsigned long long)vtb_hash_str(VTB_HASH_INIT, recipe));
  vtb_weights_set_meta(w, "recipe_hash", text);
  vtb_weights_set_meta(w, "recipe", recipe);
}

static void put_state(const vtb_trainer *t, vtb_weights *w) {
  vtb_weights_set_meta(w, "format", CHECKPOINT_FORMAT);
  if (t->config.recipe) set_recipe(w, t->config.recipe);
  set_int(w, "step", t->state.step);
  set_int(w, "epoch", t->state.epoch);
  set_int(w, "batch", t->state.batch);
  set_int(w, "seen", t->state.seen);
  set_int(w, "correct", t->state.correct);
  set_int(w, "seed", (int64_t)t->config.seed);
  set_int(w, "batch_size", t->bound.program->batch);
  set_int(w, "samples", vtb_dataset_count(t->config.train_set));
  set_real(w, "loss_sum", t->state.loss_sum);
  set_real(w, "best_top1", t->state.best_top1);
  set_real(w, "seconds", t->state.seconds + (vtb_now() - t->started));
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
    const void *data = averaged ? vtb_optim_average(t->optim, i) : NULL;
    if (!data) data = t->bound.args[i];
    vtb_weights_borrow(w, info->name, info->is_int ? VTB_ELEM_I32 : VTB_ELEM_F32, info->rank,
                       info->dim, data);
  }
}

vtb_status vtb_trainer_checkpoint(vtb_trainer *t, const char *path, vtb_error *err) {
  vtb_status status = vtb__trainer_pull(t, err);
  if (status != VTB_OK) return status;
  vtb_weights *w = vtb_weights_new();
  if (!w) return vtb_no_memory(err, path);
  put_state(t, w);
  put_params(t, w, false);
  vtb_optim_save(t->optim, w);
  vtb_measures_save(&t->bound.measures, w);
  status = vtb_safetensors_save(path, w, err);
  vtb_weights_free(w);
  if (status != VTB_OK) return status;
  t->last_checkpoint = vtb_now();
  vtb_train_event e = vtb__event(t, VTB_TRAIN_CHECKPOINT);
  e.text = path;
  vtb__send(t, &e);
  return VTB_OK;
}

vtb_status vtb_trainer_save_weights(vtb_trainer *t, const char *path, vtb_error *err) {
  vtb_status status = vtb__trainer_pull(t, err);
  if (status != VTB_OK) return status;
  vtb_weights *w = vtb_weights_new();
  if (!w) return vtb_no_memory(err, path);
  put_params(t, w, true);
  vtb_weights_set_meta(w, "format", "vertebra-weights-1");
  set_int(w, "step", t->state.step);
  set_int(w, "epoch", t->state.epoch);
  status = vtb_safetensors_save(path, w, err);
  vtb_weights_free(w);
  return status;
}

/* ---- loading --------------------------------------------------------------------------------- */

static vtb_status get_int(const vtb_weights *w, const char *key, int64_t *out, vtb_error *err) {
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

/* The word of a recipe that has the key of `word`, "lr=0.1"; its length, 0 if there is none. */
static int word_like(const char *recipe, const char *word, const char **found) {
  size_t key = strcspn(word, "= ");
  for (const char *at = recipe; *at; at += strcspn(at, " "), at += *at == ' ') {
    *found = at;
    if (strcspn(at, "= ") == key && strncmp(at, word, key) == 0) return (int)strcspn(at, " ");
  }
  return 0;
}

/* Words of `a` that `b` has with another value, "lr=0.1 (now lr=0.2)", or lacks; only_missing: `a`
 * is what is now, and what `b` lacks is told. */
static void tell_difference(const char *a, const char *b, bool only_missing, char *out,
                            size_t size) {
  for (const char *at = a; *at; at += strcspn(at, " "), at += *at == ' ') {
    const char *other = "";
    int n = (int)strcspn(at, " "), m = word_like(b, at, &other);
    if (m ? only_missing || (m == n && strncmp(at, other, (size_t)n) == 0) : false) continue;
    size_t used = strlen(out);
    if (used) used += (size_t)snprintf(out + used, size - used, ", ");
    if (used >= size) return;
    if (m)
      snprintf(out + used, size - used, "%.*s (now %.*s)", n, at, m, other);
    else
      snprintf(out + used, size - used, only_missing ? "now %.*s" : "%.*s (now not set)", n, at);
    if (strlen(out) + 1 >= size) return;
  }
}

static vtb_status other_settings(const char *then, const char *now, vtb_error *err) {
  char what[200] = "";
  if (then) {
    tell_difference(then, now, false, what, sizeof what);
    tell_difference(now, then, true, what, sizeof what);
  }
  return vtb_fail(
      err, VTB_E_INPUT,
      "checkpoint: written with other settings than this run's: %s; the same are needed, "
      "or another --out",
      *what ? what : "it does not say which");
}

/* Going on with other data, batch or seed would be another run. */
static vtb_status check_same_run(const vtb_trainer *t, const vtb_weights *w, vtb_error *err) {
  if (!vtb_streq(vtb_weights_meta(w, "format"), CHECKPOINT_FORMAT))
    return vtb_fail(
        err, VTB_E_INPUT,
        "not a checkpoint of a training run (a weights file can be started from instead)");
  const struct {
    const char *key, *what;
    int64_t want;
  } same[] = {{"batch_size", "batch size", t->bound.program->batch},
              {"samples", "number of training samples", vtb_dataset_count(t->config.train_set)},
              {"seed", "seed", (int64_t)t->config.seed}};
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
    int64_t v;
    vtb_status status = get_int(w, same[i].key, &v, err);
    if (status != VTB_OK) return status;
    if (v != same[i].want)
      return vtb_fail(err, VTB_E_INPUT, "checkpoint: its %s is %lld, this run's is %lld",
                      same[i].what, (long long)v, (long long)same[i].want);
  }
  const char *recipe = vtb_weights_meta(w, "recipe_hash");
  char want[32];
  if (t->config.recipe && recipe) {
    snprintf(want, sizeof want, "%016llx",
             (unsigned long long)vtb_hash_str(VTB_HASH_INIT, t->config.recipe));
    if (!vtb_streq(recipe, want))
      return other_settings(vtb_weights_meta(w, "recipe"), t->config.recipe, err);
  }
  return VTB_OK;
}

static vtb_status get_state(const vtb_weights *w, vtb_train_state *s, vtb_error *err) {
  vtb_status status = get_int(w, "step", &s->step, err);
  if (status == VTB_OK) status = get_int(w, "epoch", &s->epoch, err);
  if (status == VTB_OK) status = get_int(w, "batch", &s->batch, err);
  if (status == VTB_OK) status = get_int(w, "seen", &s->seen, err);
  if (status == VTB_OK) status = get_int(w, "correct", &s->correct, err);
  if (status == VTB_OK) status = get_real(w, "loss_sum", &s->loss_sum, err);
  if (status == VTB_OK) status = get_real(w, "best_top1", &s->best_top1, err);
  if (status == VTB_OK) status = get_real(w, "seconds", &s->seconds, err);
  return status;
}

/* A checkpoint of a run without a factor begins with this run's. */
static vtb_status get_scale(const vtb_trainer *t, const vtb_weights *w, vtb_train_state *s,
                            vtb_error *err) {
  s->scale = t->state.scale;
  if (!vtb__is_scaled(t) || !vtb_weights_meta(w, "loss_scale")) return VTB_OK;
  vtb_status status = get_real(w, "loss_scale", &s->scale, err);
  if (status == VTB_OK) status = get_int(w, "loss_scale_updates", &s->scaled, err);
  if (status == VTB_OK) status = get_int(w, "skipped", &s->skipped, err);
  if (status == VTB_OK && !(s->scale >= 1 && s->scale <= 0x1p127))
    return vtb_fail(err, VTB_E_INPUT, "checkpoint: a loss scale of %g", s->scale);
  return status;
}

static vtb_status take(vtb_trainer *t, const vtb_weights *w, vtb_error *err) {
  vtb_train_state s = {0};
  vtb_status status = check_same_run(t, w, err);
  if (status == VTB_OK) status = get_state(w, &s, err);
  if (status == VTB_OK) status = get_scale(t, w, &s, err);
  if (status != VTB_OK) return status;
  if (s.step < 0 || s.epoch < 0 || s.batch < 0 || s.batch >= t->batches ||
      s.step != s.epoch * t->batches + s.batch)
    return vtb_fail(err, VTB_E_INPUT, "checkpoint: step %lld does not fit epoch %lld, batch %lld",
                    (long long)s.step, (long long)s.epoch, (long long)s.batch);
  status = vtb_weights_bind(t->bound.program, w, NULL, t->bound.args, NULL, NULL, err);
  if (status == VTB_OK) status = vtb_optim_load(t->optim, w, err);
  if (status == VTB_OK) status = vtb_measures_load(&t->bound.measures, w, err);
  if (status == VTB_OK) t->state = s;
  return status;
}

vtb_status vtb__checkpoint_load(vtb_trainer *t, const char *path, vtb_error *err) {
  vtb_weights *w = NULL;
  vtb_status status = vtb_safetensors_load(path, &w, err);
  if (status != VTB_OK) return status;
  vtb_error inner = {0};
  status = take(t, w, &inner);
  if (status != VTB_OK) vtb_fail(err, status, "%s: %s", path, inner.text);
  vtb_weights_free(w);
  return status;
}
