#include "runtime/train/optim.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/launch/threads.h"
#include "runtime/train/update.h"
#include "tests/runtime/support.h"

#include <cjson/cJSON.h>

/* ---- by hand --------------------------------------------------------------------------------- */

TEST(adamw_follows_its_equations) {
  vtb_services *s = vtb_services_default(1);
  float p[2] = {1, -2}, g[2] = {0.5f, 0.25f};
  double q[2] = {1, -2}, m[2] = {0}, v[2] = {0};
  vtb_optim_config c = vtb_optim_defaults(VTB_OPTIM_ADAMW);
  c.weight_decay = 0.1;
  vtb_optim_param params[] = {{"a", &p[0], &g[0], 1, true, 0}, {"b", &p[1], &g[1], 1, false, 0.5}};
  vtb_optim *o = NULL;
  CHECK_OK(vtb_optim_new(&c, params, 2, s, &o, err));
  for (int t = 1; t <= 4; t++) {
    double norm, lr = 0.01 * t;
    CHECK_OK(vtb_optim_step(o, lr, &norm, err));
    CHECK_NEAR(norm, sqrt((double)g[0] * (double)g[0] + (double)g[1] * (double)g[1]), 1e-9);
    for (int i = 0; i < 2; i++) {
      double l = lr * (i ? 0.5 : 1), gi = (double)g[i];
      if (i == 0) q[i] *= 1 - l * 0.1;
      m[i] = 0.9 * m[i] + 0.1 * gi;
      v[i] = 0.999 * v[i] + 0.001 * gi * gi;
      q[i] -= l * (m[i] / (1 - pow(0.9, t))) / (sqrt(v[i] / (1 - pow(0.999, t))) + 1e-8);
      CHECK_NEAR((double)p[i], q[i], 1e-6);
    }
    g[0] = -g[0] * 0.7f, g[1] += 0.1f;
  }
  CHECK(vtb_optim_steps(o) == 4);
  vtb_optim_free(o);
  vtb_services_free(s);
}

/* A power of two is no rounding: not one bit differs. */
TEST(scaled_gradients_make_the_same_steps) {
  vtb_services *s = vtb_services_default(1);
  float p[2][3] = {{1, -2, 0.5f}, {1, -2, 0.5f}}, g[2][3];
  vtb_optim_config c = vtb_optim_defaults(VTB_OPTIM_ADAMW);
  vtb_optim *o[2] = {NULL, NULL};
  c.clip_norm = 0.3;
  for (int k = 0; k < 2; k++)
    CHECK_OK(vtb_optim_new(&c, &(vtb_optim_param){"p", p[k], g[k], 3, true, 0}, 1, s, &o[k], err));
  for (int t = 1; t <= 5; t++) {
    double norm[2];
    for (int i = 0; i < 3; i++)
      g[0][i] = 0.3f * (float)(i + 1) / (float)t, g[1][i] = 1024 * g[0][i];
    vtb_optim_set_scale(o[1], 1024);
    for (int k = 0; k < 2; k++) CHECK_OK(vtb_optim_step(o[k], 0.01, &norm[k], err));
    CHECK(norm[0] == norm[1] && memcmp(p[0], p[1], sizeof p[0]) == 0);
  }
  vtb_optim_free(o[0]);
  vtb_optim_free(o[1]);
  vtb_services_free(s);
}

/* The numbers for the next update, which a program does: it is the one that the optimiser would
 * do. */
TEST(scalars_are_those_of_the_next_update) {
  vtb_services *s = vtb_services_default(1);
  float p[2] = {1, -2}, g[2] = {0.5f, 0.25f}, n[VTB_SCALAR_RATES + 4];
  vtb_optim_config c = vtb_optim_defaults(VTB_OPTIM_ADAMW);
  vtb_optim_param params[] = {{"a", &p[0], &g[0], 1, true, 0}, {"b", &p[1], &g[1], 1, false, 0.5}};
  vtb_optim *o = NULL;
  vtb_strbuf name = {0};
  c.weight_decay = 0.1, c.ema_decay = 0.9;
  CHECK_OK(vtb_optim_new(&c, params, 2, s, &o, err));
  CHECK(vtb_optim_n_states(o) == 6);
  for (int t = 0; t < 3; t++) {
    float want[2];
    vtb_optim_scalars(o, 0.01, n);
    for (int i = 0; i < 2; i++) {
      float *m = vtb_optim_state(o, 3 * i, &name), *v = vtb_optim_state(o, 3 * i + 1, &name);
      float m1 = n[VTB_SCALAR_BETA1] * *m + n[VTB_SCALAR_REST1] * g[i];
      float v1 = n[VTB_SCALAR_BETA2] * *v + n[VTB_SCALAR_REST2] * (g[i] * g[i]);
      const float *rates = &n[VTB_SCALAR_RATES + 2 * i];
      want[i] =
          p[i] * rates[0] - rates[1] * m1 / (sqrtf(v1) * n[VTB_SCALAR_ROOT] + n[VTB_SCALAR_EPS]);
    }
    CHECK_STR(name.at, "optim/v/b");
    CHECK_OK(vtb_optim_step(o, 0.01, NULL, err));
    CHECK(p[0] == want[0] && p[1] == want[1]);
  }
  vtb_optim_count(o);
  CHECK(vtb_optim_steps(o) == 4);
  vtb_optim_state(o, 5, &name);
  CHECK_STR(name.at, "ema/b");
  vtb_strbuf_free(&name);
  vtb_optim_free(o);
  vtb_services_free(s);
}

TEST(scalars_are_those_of_the_next_update_by_sgd) {
  vtb_services *s = vtb_services_default(1);
  for (int nesterov = 0; nesterov < 2; nesterov++) {
    float p[2] = {1, -2}, g[2] = {0.5f, 0.25f}, n[VTB_SCALAR_RATES + 4];
    vtb_optim_config c = vtb_optim_defaults(VTB_OPTIM_SGD);
    vtb_optim_param params[] = {{"a", &p[0], &g[0], 1, true, 0},
                                {"b", &p[1], &g[1], 1, false, 0.5}};
    vtb_optim *o = NULL;
    vtb_strbuf name = {0};
    c.weight_decay = 0.1, c.nesterov = nesterov, c.dampening = nesterov ? 0 : 0.25;
    CHECK_OK(vtb_optim_new(&c, params, 2, s, &o, err));
    for (int t = 0; t < 3; t++) {
      float want[2];
      vtb_optim_scalars(o, 0.01, n);
      for (int i = 0; i < 2; i++) {
        const float *rates = &n[VTB_SCALAR_RATES + 2 * i], *b = vtb_optim_state(o, i, &name);
        float grad = g[i] + rates[0] * p[i],
              b1 = n[VTB_SCALAR_MOMENTUM] * *b + n[VTB_SCALAR_GAIN] * grad;
        want[i] = p[i] - rates[1] * (n[VTB_SCALAR_DIRECT] * grad + n[VTB_SCALAR_AHEAD] * b1);
      }
      CHECK_OK(vtb_optim_step(o, 0.01, NULL, err));
      CHECK(p[0] == want[0] && p[1] == want[1]);
    }
    CHECK_STR(name.at, "optim/momentum/b");
    vtb_strbuf_free(&name);
    vtb_optim_free(o);
  }
  vtb_services_free(s);
}

TEST(sgd_with_momentum_clipping_and_average) {
  vtb_services *s = vtb_services_default(1);
  float p = 2, g = 10;
  vtb_optim_config c = vtb_optim_defaults(VTB_OPTIM_SGD);
  c.clip_norm = 1, c.ema_decay = 0.5;
  vtb_optim *o = NULL;
  CHECK_OK(vtb_optim_new(&c, &(vtb_optim_param){"p", &p, &g, 1, true, 0}, 1, s, &o, err));
  CHECK_OK(vtb_optim_step(o, 0.1, NULL, err));
  CHECK_NEAR((double)p, 1.9, 1e-6); /* clipped to 1 */
  CHECK_NEAR((double)vtb_optim_ema(o, 0)[0], 1.95, 1e-6);
  CHECK_OK(vtb_optim_step(o, 0.1, NULL, err));
  CHECK_NEAR((double)p, 1.71, 1e-6); /* buffer 1.9 */
  CHECK_NEAR((double)vtb_optim_ema(o, 0)[0], 1.83, 1e-6);
  vtb_optim_free(o);
  vtb_services_free(s);
}

TEST(bad_gradients_change_nothing_and_name_the_parameter) {
  vtb_services *s = vtb_services_default(1);
  float p[2] = {1, 1}, g[2] = {1, NAN};
  vtb_optim_param params[] = {{"good", &p[0], &g[0], 1, true, 0},
                              {"head.weight", &p[1], &g[1], 1, true, 0}};
  vtb_optim_config c = vtb_optim_defaults(VTB_OPTIM_ADAMW);
  vtb_optim *o = NULL;
  CHECK_OK(vtb_optim_new(&c, params, 2, s, &o, err));
  CHECK_REFUSED(vtb_optim_step(o, 0.1, NULL, err),
                "gradient of head.weight is not finite at update 0");
  CHECK(p[0] == 1 && vtb_optim_steps(o) == 0);
  vtb_optim_free(o);
  c.beta2 = 1;
  CHECK_REFUSED(vtb_optim_new(&c, params, 2, s, &o, err), "beta2 must be below 1");
  c.beta2 = 0.9, c.weight_decay = -1;
  CHECK_REFUSED(vtb_optim_new(&c, params, 2, s, &o, err), "weight decay must not be negative");
  vtb_services_free(s);
}

/* ---- threads and saving ---------------------------------------------------------------------- */

enum { BIG = 100003 };

static vtb_optim *big_optimiser(float *p, float *g, vtb_services *s, vtb_optim_kind kind) {
  vtb_optim_config c = vtb_optim_defaults(kind);
  c.clip_norm = 0.5, c.ema_decay = 0.9;
  vtb_optim_param params[] = {{"a", p, g, 70001, true, 0},
                              {"b", p + 70001, g + 70001, BIG - 70001, false, 0}};
  vtb_optim *o = NULL;
  CHECK_OK(vtb_optim_new(&c, params, 2, s, &o, err));
  return o;
}

static void fill(float *x, unsigned long long seed) {
  for (int i = 0; i < BIG; i++) x[i] = (float)test_random(&seed);
}

TEST(results_do_not_depend_on_threads_and_saved_state_goes_on_exactly) {
  float *p[3], *g = malloc(BIG * sizeof *g);
  uint64_t hash[3];
  for (int kind = 0; kind < 2; kind++) {
    for (int run = 0; run < 3; run++) {
      vtb_services *s = vtb_services_default(run == 1 ? 3 : 1);
      p[run] = malloc(BIG * sizeof(float));
      fill(p[run], 1);
      vtb_optim *o = big_optimiser(p[run], g, s, (vtb_optim_kind)kind);
      for (unsigned step = 0; step < 4; step++) {
        fill(g, step + 2);
        CHECK_OK(vtb_optim_step(o, 0.01, NULL, err));
        if (run == 2 && step == 1) { /* save, throw away, load */
          vtb_weights *w = vtb_weights_new(), *back = NULL;
          vtb_optim_save(o, w);
          CHECK_OK(vtb_safetensors_save(temp_path("o.safetensors"), w, err));
          vtb_weights_free(w);
          vtb_optim_free(o);
          o = big_optimiser(p[run], g, s, (vtb_optim_kind)kind);
          CHECK_OK(vtb_safetensors_load(temp_path("o.safetensors"), &back, err));
          CHECK_OK(vtb_optim_load(o, back, err));
          vtb_weights_free(back);
        }
      }
      hash[run] = vtb_hash_bytes(VTB_HASH_INIT, p[run], BIG * sizeof(float));
      hash[run] = vtb_hash_bytes(hash[run], vtb_optim_ema(o, 1), (BIG - 70001) * sizeof(float));
      vtb_optim_free(o);
      vtb_services_free(s);
    }
    CHECK(hash[0] == hash[1]);
    CHECK(hash[0] == hash[2]);
    for (int run = 0; run < 3; run++) free(p[run]);
  }
  free(g);
}

TEST(foreign_state_is_refused) {
  vtb_services *s = vtb_services_default(1);
  float *p = calloc(BIG, sizeof *p), *g = calloc(BIG, sizeof *g);
  vtb_optim *adamw = big_optimiser(p, g, s, VTB_OPTIM_ADAMW),
            *sgd = big_optimiser(p, g, s, VTB_OPTIM_SGD);
  vtb_weights *w = vtb_weights_new(), *empty = vtb_weights_new();
  vtb_optim_save(sgd, w);
  CHECK_REFUSED(vtb_optim_load(adamw, w, err), "written by optimiser sgd, this run uses adamw");
  vtb_weights_set_meta(empty, "optim.kind", "adamw");
  CHECK_REFUSED(vtb_optim_load(adamw, empty, err), "optim.steps");
  vtb_weights_set_meta(empty, "optim.steps", "3");
  CHECK_REFUSED(vtb_optim_load(adamw, empty, err), "optim/m/a is missing");
  vtb_weights_free(w), vtb_weights_free(empty);
  vtb_optim_free(adamw), vtb_optim_free(sgd);
  free(p), free(g);
  vtb_services_free(s);
}

/* ---- schedule -------------------------------------------------------------------------------- */

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

/* ---- the reference cases, where $VTB_GOLDEN names their folder ------------------------------- */

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

enum { MAX_PARAMS = 16 };

static int collect(const vtb_weights *w, const cJSON *config, vtb_optim_param *params,
                   float **grads) {
  int n = 0;
  const cJSON *group, *name;
  double decay = number(config, "weight_decay", 0);
  cJSON_ArrayForEach(group, cJSON_GetObjectItem(config, "groups")) {
    cJSON_ArrayForEach(name, cJSON_GetObjectItem(group, "params")) {
      char full[128];
      snprintf(full, sizeof full, "param/%s", name->valuestring);
      const vtb_weight *t = vtb_weights_find(w, full);
      CHECK(t && n < MAX_PARAMS);
      float *value = malloc((size_t)t->count * sizeof *value);
      vtb_weight_read_f32(t, value);
      grads[n] = malloc((size_t)t->count * sizeof(float));
      params[n] = (vtb_optim_param){name->valuestring,
                                    value,
                                    grads[n],
                                    t->count,
                                    number(group, "weight_decay", decay) > 0,
                                    number(group, "lr_scale", 1)};
      n++;
    }
  }
  return n;
}

static double worst(const vtb_weights *w, int step, const vtb_optim_param *p) {
  char full[128];
  snprintf(full, sizeof full, "output/step%d/%s", step, p->name);
  const vtb_weight *t = vtb_weights_find(w, full);
  if (!t) return HUGE_VAL;
  double err = 0;
  for (int64_t i = 0; i < t->count; i++)
    err = fmax(err, fabs((double)p->value[i] - (double)((const float *)t->data)[i]));
  return err;
}

static void follow(const char *name) {
  cJSON *config = NULL;
  vtb_weights *w = golden(name, &config);
  if (!w) return;
  vtb_services *s = vtb_services_default(1);
  vtb_optim_param params[MAX_PARAMS];
  float *grads[MAX_PARAMS];
  int n = collect(w, config, params, grads);
  bool adamw = vtb_streq(cJSON_GetObjectItem(config, "optimizer")->valuestring, "adamw");
  vtb_optim_config c = vtb_optim_defaults(adamw ? VTB_OPTIM_ADAMW : VTB_OPTIM_SGD);
  c.weight_decay = number(config, "weight_decay", 0);
  c.clip_norm = number(config, "clip_grad_norm", 0);
  c.momentum = number(config, "momentum", 0);
  c.dampening = number(config, "dampening", 0);
  c.nesterov = cJSON_IsTrue(cJSON_GetObjectItem(config, "nesterov"));
  c.eps = number(config, "eps", 1e-8);
  if (adamw) {
    c.beta1 = cJSON_GetArrayItem(cJSON_GetObjectItem(config, "betas"), 0)->valuedouble;
    c.beta2 = cJSON_GetArrayItem(cJSON_GetObjectItem(config, "betas"), 1)->valuedouble;
  }
  vtb_optim *o = NULL;
  CHECK_OK(vtb_optim_new(&c, params, n, s, &o, err));
  const vtb_weight *norms = vtb_weights_find(w, "output/grad_norm");
  for (int step = 1; step <= (int)number(config, "steps", 0); step++) {
    double norm;
    for (int i = 0; i < n; i++) {
      char full[128];
      snprintf(full, sizeof full, "input/grad%d/%s", step, params[i].name);
      vtb_weight_read_f32(vtb_weights_find(w, full), grads[i]);
    }
    CHECK_OK(vtb_optim_step(
        o, cJSON_GetArrayItem(cJSON_GetObjectItem(config, "lr"), step - 1)->valuedouble, &norm,
        err));
    if (norms) CHECK_NEAR(norm, (double)((const float *)norms->data)[step - 1], 1e-5 * norm);
    /* Parameters are about 1 and rounded to f32 at each of five steps. */
    for (int i = 0; i < n; i++)
      CHECK_MSG(worst(w, step, &params[i]) < 1e-6, "%s step %d %s: %g", name, step, params[i].name,
                worst(w, step, &params[i]));
  }
  vtb_optim_free(o);
  for (int i = 0; i < n; i++) free(params[i].value), free(grads[i]);
  vtb_services_free(s);
  cJSON_Delete(config);
  vtb_weights_free(w);
}

TEST(reference_trajectories_are_met) {
  static const char *const names[] = {"opt_adamw",
                                      "opt_adamw_clip1_nodecay_1d",
                                      "opt_adamw_clip_inactive",
                                      "opt_adamw_layer_decay",
                                      "opt_adamw_full_recipe",
                                      "opt_sgd_plain_wd",
                                      "opt_sgd_momentum_clip1",
                                      "opt_sgd_nesterov",
                                      "opt_sgd_dampening"};
  if (!getenv("VTB_GOLDEN")) printf("skipped: VTB_GOLDEN is not set\n");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) follow(names[i]);
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
  RUN(adamw_follows_its_equations);
  RUN(scaled_gradients_make_the_same_steps);
  RUN(scalars_are_those_of_the_next_update);
  RUN(scalars_are_those_of_the_next_update_by_sgd);
  RUN(sgd_with_momentum_clipping_and_average);
  RUN(bad_gradients_change_nothing_and_name_the_parameter);
  RUN(results_do_not_depend_on_threads_and_saved_state_goes_on_exactly);
  RUN(foreign_state_is_refused);
  RUN(schedule_warms_up_and_falls_along_a_cosine);
  RUN(reference_trajectories_are_met);
  RUN(reference_schedules_are_met);
  return test_done();
}
