/* The identity of a run: settings, model, data. Going on with others would be another run. */
#include "runtime/train/train_internal.h"

#include <string.h>

#define MODEL_HASH "model_hash"
#define MORE_RECIPE "more_recipe"
static const char *const data_keys[2] = {"data", "eval_data"};
static const char *const data_names[2] = {"training data", "evaluation data"};

vtb_status vtb__identity_put(vtb_trainer *t, vtb_weights *w, vtb_error *err) {
  char text[32];
  if (t->config.recipe) {
    snprintf(text, sizeof text, "%016llx",
             (unsigned long long)vtb_hash_str(VTB_HASH_INIT, t->config.recipe));
    vtb_weights_set_meta(w, "recipe_hash", text);
    vtb_weights_set_meta(w, "recipe", t->config.recipe);
  }
  if (t->config.more_recipe) vtb_weights_set_meta(w, MORE_RECIPE, t->config.more_recipe);
  if (t->config.model_hash) vtb_weights_set_meta(w, MODEL_HASH, t->config.model_hash);
  for (int k = 0; k < 2; k++) {
    VTB_TRY(vtb__fingerprint_of(t, k, err));
    if (t->data[k][0]) vtb_weights_set_meta(w, data_keys[k], t->data[k]);
  }
  return VTB_OK;
}

static vtb_status other_settings(const char *what, vtb_error *err) {
  return vtb_fail(
      err, VTB_E_INPUT,
      "checkpoint: written with other settings than this run's: %s; the same are needed, "
      "or another --out",
      *what ? what : "it does not say which");
}

static vtb_status check_recipe(const vtb_trainer *t, const vtb_weights *w, vtb_error *err) {
  const char *then = vtb_weights_meta(w, "recipe"), *hash = vtb_weights_meta(w, "recipe_hash"),
             *more = vtb_weights_meta(w, MORE_RECIPE);
  char what[400] = "", now[32];
  if (!t->config.recipe || !hash) return VTB_OK;
  snprintf(now, sizeof now, "%016llx",
           (unsigned long long)vtb_hash_str(VTB_HASH_INIT, t->config.recipe));
  if (!then && strcmp(hash, now) != 0) return other_settings("", err);
  if (then) vtb_tell_differences(then, t->config.recipe, what, sizeof what);
  if (more && t->config.more_recipe)
    vtb_tell_differences(more, t->config.more_recipe, what, sizeof what);
  return *what ? other_settings(what, err) : VTB_OK;
}

static vtb_status check_data(vtb_trainer *t, const vtb_weights *w, int which, vtb_error *err) {
  const char *then = vtb_weights_meta(w, data_keys[which]);
  char what[400] = "";
  if (!then) return VTB_OK;
  VTB_TRY(vtb__fingerprint_of(t, which, err));
  vtb_tell_differences(then, t->data[which], what, sizeof what);
  if (!*what) return VTB_OK;
  return vtb_fail(err, VTB_E_INPUT,
                  "checkpoint: the %s are not those that the run began with: %s (labels, contents "
                  "and names of classes as hashes); the same are needed, or another --out",
                  data_names[which], what);
}

static vtb_status check_numbers(const vtb_trainer *t, const vtb_weights *w, vtb_error *err) {
  const struct {
    const char *key, *what;
    int64_t want;
  } same[] = {{"batch_size", "batch size", t->whole},
              {"samples", "number of training samples", vtb_dataset_count(t->config.train_set)},
              {"seed", "seed", (int64_t)t->config.seed}};
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
    int64_t v;
    VTB_TRY(vtb__meta_int(w, same[i].key, &v, err));
    if (v != same[i].want)
      return vtb_fail(err, VTB_E_INPUT, "checkpoint: its %s is %lld, this run's is %lld",
                      same[i].what, (long long)v, (long long)same[i].want);
  }
  return VTB_OK;
}

vtb_status vtb__identity_check(vtb_trainer *t, const vtb_weights *w, vtb_error *err) {
  const char *model = vtb_weights_meta(w, MODEL_HASH);
  if (!vtb_streq(vtb_weights_meta(w, "format"), VTB__CHECKPOINT_FORMAT))
    return vtb_fail(
        err, VTB_E_INPUT,
        "not a checkpoint of a training run (a weights file can be started from instead)");
  vtb_status status = check_numbers(t, w, err);
  if (status == VTB_OK) status = check_recipe(t, w, err);
  if (status == VTB_OK && model && t->config.model_hash && strcmp(model, t->config.model_hash) != 0)
    status = vtb_fail(err, VTB_E_INPUT,
                      "checkpoint: the model's text is not the one that the run began with");
  for (int k = 0; k < 2 && status == VTB_OK; k++) status = check_data(t, w, k, err);
  return status;
}
