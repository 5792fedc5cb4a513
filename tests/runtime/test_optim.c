/* Schedules of learning rates; the update itself is tested in tests/whole/test_update.c. */
#include "runtime/train/optim.h"
#include "runtime/artefact/safetensors.h"
#include "tests/runtime/support.h"

#include <cjson/cJSON.h>

TEST(schedule_warms_up_and_falls_along_a_cosine) {
  vtb_schedule c = {VTB_SCHEDULE_COSINE, 1e-3, 1e-5, 1e-6, 5, 30, true};
  CHECK_NEAR(vtb_schedule_lr(&c, 0), 1e-6, 1e-15);
  CHECK_NEAR(vtb_schedule_lr(&c, 2), 1e-6 + 2 * (1e-3 - 1e-6) / 5, 1e-15);
  CHECK_NEAR(vtb_schedule_lr(&c, 5), 1e-3, 1e-15);
  CHECK_NEAR(vtb_schedule_lr(&c, 20), (1e-3 + 1e-5) / 2, 1e-12);
  CHECK_NEAR(vtb_schedule_lr(&c, 35), 1e-5, 1e-15);
  CHECK_NEAR(vtb_schedule_lr(&c, 99), 1e-5, 1e-15);
  c.prefix = false;
  CHECK_NEAR(vtb_schedule_lr(&c, 15), (1e-3 + 1e-5) / 2, 1e-12);
  c.kind = VTB_SCHEDULE_CONSTANT;
  CHECK_NEAR(vtb_schedule_lr(&c, 1000), 1e-3, 0);
}

/* ---- the reference cases, where $VTB_GOLDEN names their folder ---- */

static vtb_weights *golden(const char *name, cJSON **config) {
  const char *root = getenv("VTB_GOLDEN");
  char path[512];
  vtb_weights *w = NULL;
  if (!root) return NULL;
  snprintf(path, sizeof path, "%s/heads/%s.safetensors", root, name);
  CHECK_OK(vtb_safetensors_load(path, &w, err));
  if (!w) return NULL;
  *config = cJSON_Parse(vtb_weights_meta(w, "config"));
  return w;
}

static double number(const cJSON *c, const char *key, double otherwise) {
  const cJSON *v = cJSON_GetObjectItem(c, key);
  return cJSON_IsNumber(v) ? v->valuedouble : otherwise;
}

TEST(reference_schedules_are_met) {
  static const char *const names[] = {"opt_cosine_schedule_30ep_warmup5",
                                      "opt_cosine_schedule_30ep_warmup5_prefix",
                                      "opt_cosine_schedule_30ep_nowarmup"};
  for (size_t i = 0; i < 3; i++) {
    cJSON *c = NULL;
    vtb_weights *w = golden(names[i], &c);
    if (!w) continue;
    vtb_schedule s = {VTB_SCHEDULE_COSINE,
                      number(c, "base_lr", 0),
                      number(c, "lr_min", 0),
                      number(c, "warmup_lr_init", 0),
                      (int64_t)number(c, "warmup_t", 0),
                      (int64_t)number(c, "t_initial", 0),
                      cJSON_IsTrue(cJSON_GetObjectItem(c, "warmup_prefix"))};
    const vtb_weight *t = vtb_weights_find(w, "input/t"),
                     *lr = vtb_weights_find(w, "output/lr_f64");
    int32_t *times = malloc((size_t)t->count * sizeof *times);
    double *want = malloc((size_t)t->count * sizeof *want);
    CHECK_OK(vtb_weight_read_i32(t, times, err));
    vtb_weight_read_f64(lr, want);
    for (int64_t k = 0; k < t->count; k++)
      CHECK_NEAR(vtb_schedule_lr(&s, times[k]), want[k], 1e-15);
    free(times), free(want);
    cJSON_Delete(c);
    vtb_weights_free(w);
  }
}

int main(void) {
  RUN(schedule_warms_up_and_falls_along_a_cosine);
  RUN(reference_schedules_are_met);
  return test_done();
}
