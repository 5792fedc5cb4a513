/* Optimisers as equations (models/std), compiled: against the same formulas in plain C, recorded
 * trajectories, the interpreter and the emulated device; what threads, scales and checkpoints must
 * not change.
 *
 * The training step is a stand-in: its gradients are inputs, and pass through.
 */
#include "ir/interp.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/train/rates.h"
#include "tests/whole/stand_in.h"

#include <cjson/cJSON.h>

/* ---- by hand ---- */

static const parameter two[] = {{"a", 1, true, 1}, {"b", 1, false, 0.5}};

TEST(adamw_follows_its_equations) {
  vtb_setting decay = {"decay", 0.1};
  vtb_optim_config c = {.settings = &decay, .n_settings = 1};
  stand_in s = open_step(for_cpu, "adamw", NULL, 0, &c, two, 2, 1);
  float g[2] = {0.5f, 0.25f};
  double q[2] = {1, -2}, m[2] = {0}, v[2] = {0};
  s.value[0][0] = 1, s.value[1][0] = -2;
  for (int t = 1; t <= 4; t++) {
    double norm = 0, lr = 0.01 * t;
    s.grad[0][0] = g[0], s.grad[1][0] = g[1];
    CHECK_OK(update(&s, lr, 1, &norm, err));
    CHECK_NEAR(norm, sqrt((double)g[0] * (double)g[0] + (double)g[1] * (double)g[1]), 1e-7);
    for (int i = 0; i < 2; i++) {
      double l = lr * (i ? 0.5 : 1), gi = (double)g[i];
      if (i == 0) q[i] *= 1 - l * 0.1;
      m[i] = 0.9 * m[i] + 0.1 * gi;
      v[i] = 0.999 * v[i] + 0.001 * gi * gi;
      q[i] -= l * (m[i] / (1 - pow(0.9, t))) / (sqrt(v[i] / (1 - pow(0.999, t))) + 1e-8);
      CHECK_NEAR((double)s.value[i][0], q[i], 1e-6);
    }
    g[0] = -g[0] * 0.7f, g[1] += 0.1f;
  }
  CHECK(vtb_optim_steps(s.optim) == 4);
  close_step(&s);
}

/* A power of two is no rounding: not one bit differs. */
TEST(scaled_gradients_make_the_same_steps) {
  const parameter p = {"p", 3, true, 1};
  vtb_optim_config c = {.clip_norm = 0.3};
  stand_in s[2];
  for (int k = 0; k < 2; k++) {
    s[k] = open_step(for_cpu, "adamw", NULL, 0, &c, &p, 1, 1);
    memcpy(s[k].value[0], (float[]){1, -2, 0.5f}, 12);
  }
  for (int t = 1; t <= 5; t++) {
    double norm[2];
    for (int k = 0; k < 2; k++) {
      for (int i = 0; i < 3; i++)
        s[k].grad[0][i] = (k ? 1024 : 1) * 0.3f * (float)(i + 1) / (float)t;
      CHECK_OK(update(&s[k], 0.01, k ? 1024 : 1, &norm[k], err));
    }
    CHECK(norm[0] == norm[1] && memcmp(s[0].value[0], s[1].value[0], 12) == 0);
  }
  close_step(&s[0]);
  close_step(&s[1]);
}

TEST(sgd_with_momentum_clipping_and_average) {
  const parameter p = {"p", 1, true, 1};
  vtb_setting decay = {"decay", 0};
  vtb_optim_config c = {.settings = &decay, .n_settings = 1, .clip_norm = 1, .ema_decay = 0.5};
  stand_in s = open_step(for_cpu, "sgd", NULL, 0, &c, &p, 1, 1);
  s.value[0][0] = 2;
  vtb_optim_begin_averages(s.optim);
  s.grad[0][0] = 10;
  CHECK_OK(update(&s, 0.1, 1, NULL, err));
  CHECK_NEAR((double)s.value[0][0], 1.9, 1e-6); /* clipped to 1 */
  CHECK_NEAR((double)average(&s, 0)[0], 1.95, 1e-6);
  s.grad[0][0] = 10;
  CHECK_OK(update(&s, 0.1, 1, NULL, err));
  CHECK_NEAR((double)s.value[0][0], 1.71, 1e-6); /* buffer 1.9 */
  CHECK_NEAR((double)average(&s, 0)[0], 1.83, 1e-6);
  close_step(&s);
}

/* ---- rates by layer ---- */

/* Two numbered layers, so the embedding learns at x^3; a product within a block is of the block. */
static const struct {
  parameter is;
  int behind;
} deep[] = {{{"pos_embed", 1, true, 1}, 3},
            {{"blocks.0.norm.weight", 1, true, 1}, 2},
            {{"blocks.0.mlp.0.weight", 1, true, 1}, 2},
            {{"blocks.0.gamma", 1, true, 1}, 2},
            {{"blocks.1.mlp.0.weight", 1, true, 1}, 1},
            {{"blocks.1.norm.weight", 1, true, 1}, 1},
            {{"norm.weight", 1, true, 1}, 0},
            {{"head.weight", 1, true, 1}, 0}};
enum { DEEP = sizeof deep / sizeof *deep };

TEST(layers_learn_at_powers_of_their_decay) {
  const double x = 0.75, decay = 0.1, lr = 0.5, mu = 0.9;
  const vtb_rate slow = {"*.norm.weight", 0.5};
  const vtb_rates rates = {.at = &slow, .n = 1, .layer_decay = x};
  vtb_setting setting = {"decay", decay};
  vtb_optim_config c = {.settings = &setting, .n_settings = 1};
  parameter p[DEEP];
  double w[DEEP], m[DEEP] = {0};
  for (int i = 0; i < DEEP; i++) p[i] = deep[i].is, w[i] = 1 + 0.25 * i;
  stand_in s = open_step(for_cpu, "sgd", NULL, 0, &c, p, DEEP, 1);
  CHECK_OK(vtb_rates_apply(&rates, s.program, s.optim, err));
  for (int i = 0; i < DEEP; i++) s.value[i][0] = (float)w[i];
  for (int t = 0; t < 2; t++) {
    for (int i = 0; i < DEEP; i++) s.grad[i][0] = (float)(i % 3 - 1.5) / (float)(t + 1);
    for (int i = 0; i < DEEP; i++) {
      double rate = lr * pow(x, deep[i].behind) * (strstr(p[i].name, ".norm.weight") ? 0.5 : 1);
      m[i] = mu * m[i] + (double)s.grad[i][0] + decay * w[i];
      w[i] -= rate * m[i];
    }
    CHECK_OK(update(&s, lr, 1, NULL, err));
    for (int i = 0; i < DEEP; i++) CHECK_NEAR((double)s.value[i][0], w[i], 1e-6);
  }
  close_step(&s);
}

static int layers_of(const parameter *p, int n, int *layer) {
  vtb_optim_config c = {0};
  stand_in s = open_step(for_cpu, "sgd", NULL, 0, &c, p, n, 1);
  int layers = vtb_rates_layers(s.program, s.optim, layer);
  close_step(&s);
  return layers;
}

TEST(layers_of_stages_are_their_blocks) {
  static const parameter stages[] = {{"stem.weight", 1, true, 1},
                                     {"stages.0.blocks.0.norm.weight", 1, true, 1},
                                     {"stages.0.blocks.0.gamma", 1, true, 1},
                                     {"stages.0.blocks.1.norm.weight", 1, true, 1},
                                     {"stages.0.downsample.weight", 1, true, 1},
                                     {"stages.1.blocks.0.norm.weight", 1, true, 1},
                                     {"head.weight", 1, true, 1}};
  static const parameter lists[] = {{"blocks.0.0.norm.weight", 1, true, 1},
                                    {"pos.0.proj.0.weight", 1, true, 1},
                                    {"blocks.0.1.norm.weight", 1, true, 1}};
  int layer[7];
  CHECK(layers_of(stages, 7, layer) == 6);
  CHECK(memcmp(layer, (int[]){0, 1, 1, 2, 3, 4, 5}, sizeof layer) == 0);
  CHECK(layers_of(lists, 3, layer) == 5);
  CHECK(memcmp(layer, (int[]){1, 2, 3}, 3 * sizeof *layer) == 0);
  const parameter none = {"weight", 1, true, 1};
  CHECK(layers_of(&none, 1, layer) == 0);
}

TEST(bad_gradients_change_nothing_and_name_the_parameter) {
  const parameter p[] = {{"good", 1, true, 1}, {"head.weight", 1, true, 1}};
  vtb_optim_config c = {0};
  stand_in s = open_step(for_cpu, "adamw", NULL, 0, &c, p, 2, 1);
  s.value[0][0] = s.value[1][0] = s.grad[0][0] = 1, s.grad[1][0] = NAN;
  CHECK_REFUSED(update(&s, 0.1, 1, NULL, err), "gradient of head.weight is not finite at update 0");
  CHECK(s.value[0][0] == 1 && s.value[1][0] == 1 && vtb_optim_steps(s.optim) == 0);
  vtb_optim *o = NULL;
  c.ema_decay = 1;
  CHECK_REFUSED(vtb_optim_open(s.program, s.args, &c, &o, err), "EMA decay must be");
  c.ema_decay = 0, c.clip_norm = -1;
  CHECK_REFUSED(vtb_optim_open(s.program, s.args, &c, &o, err), "clip norm must not be negative");
  vtb_setting odd = {"beta3", 1};
  c = (vtb_optim_config){.settings = &odd, .n_settings = 1};
  CHECK_REFUSED(vtb_optim_open(s.program, s.args, &c, &o, err),
                "adamw has no hyperparameter beta3: there are beta1, beta2, eps, decay");
  close_step(&s);
}

/* ---- threads and saving ---- */

enum { BIG = 70001, REST = 30002 };
static const parameter large[] = {{"a", BIG, true, 1}, {"b", REST, false, 1}};

static void fill(float *x, int n, unsigned long long seed) {
  for (int i = 0; i < n; i++) x[i] = (float)test_random(&seed);
}

static stand_in open_large(make_fn make, const char *what, int threads) {
  vtb_optim_config c = {.clip_norm = 0.5, .ema_decay = 0.9};
  stand_in s = open_step(make, what, NULL, 0, &c, large, 2, threads);
  fill(s.value[0], BIG, 1);
  fill(s.value[1], REST, 2);
  vtb_optim_begin_averages(s.optim);
  return s;
}

static void step_large(stand_in *s, unsigned step) {
  fill(s->grad[0], BIG, step + 3);
  fill(s->grad[1], REST, step + 103);
  CHECK_OK(update(s, 0.01, 1, NULL, err));
}

/* Saved, thrown away, loaded into another. */
static void replace(stand_in *s, const char *what) {
  vtb_weights *w = vtb_weights_new(), *back = NULL;
  stand_in other = open_large(for_cpu, what, 1);
  for (int i = 0; i < 2; i++)
    memcpy(other.value[i], s->value[i], (size_t)large[i].count * sizeof(float));
  vtb_optim_save(s->optim, w);
  CHECK_OK(vtb_safetensors_save(temp_path("o.safetensors"), w, err));
  vtb_weights_free(w);
  close_step(s);
  CHECK_OK(vtb_safetensors_load(temp_path("o.safetensors"), &back, err));
  CHECK_OK(vtb_optim_load(other.optim, back, err));
  vtb_weights_free(back);
  *s = other;
}

TEST(results_do_not_depend_on_threads_and_saved_state_goes_on_exactly) {
  static const char *const names[] = {"adamw", "sgd", "lamb"};
  for (int kind = 0; kind < 3; kind++) {
    uint64_t hash[3];
    for (int run = 0; run < 3; run++) {
      stand_in s = open_large(for_cpu, names[kind], run == 1 ? 3 : 1);
      for (unsigned step = 0; step < 4; step++) {
        step_large(&s, step);
        if (run == 2 && step == 1) replace(&s, names[kind]);
      }
      hash[run] = vtb_hash_bytes(VTB_HASH_INIT, s.value[0], BIG * sizeof(float));
      hash[run] = vtb_hash_bytes(hash[run], average(&s, 1), REST * sizeof(float));
      close_step(&s);
    }
    CHECK(hash[0] == hash[1]);
    CHECK(hash[0] == hash[2]);
  }
}

TEST(foreign_state_is_refused) {
  stand_in adamw = open_large(for_cpu, "adamw", 1), sgd = open_large(for_cpu, "sgd", 1);
  vtb_weights *w = vtb_weights_new(), *empty = vtb_weights_new();
  vtb_optim_save(sgd.optim, w);
  CHECK_REFUSED(vtb_optim_load(adamw.optim, w, err),
                "written by optimiser sgd, this run uses adamw");
  vtb_weights_set_meta(empty, "optim.kind", "adamw");
  CHECK_REFUSED(vtb_optim_load(adamw.optim, empty, err), "optim.steps");
  vtb_weights_set_meta(empty, "optim.steps", "3");
  CHECK_REFUSED(vtb_optim_load(adamw.optim, empty, err), "optim/m/a is missing");
  vtb_weights_free(w), vtb_weights_free(empty);
  close_step(&adamw), close_step(&sgd);
}

/* ---- against formulas in plain C, on every target ---- */

enum { LONG = 20003, SHORT = 3 };
static const parameter pair[] = {{"w", LONG, true, 0.5}, {"bias", SHORT, false, 1}};

typedef struct plain { /* in double */
  double w[LONG], m[LONG], v[LONG];
  int64_t n;
} plain;

typedef struct plain_step {
  double lr, t, decay;
} plain_step;

static double norm_of(const double *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
  return sqrt(sum);
}

/* LAMB, arXiv:1904.00962, algorithm 2, as timm and apex write it: the trust ratio is 1 where a norm
 * is 0. */
static void plain_lamb(plain *p, const float *g, const plain_step *s) {
  static double u[LONG];
  for (int64_t i = 0; i < p->n; i++) {
    double gi = (double)g[i];
    p->m[i] = 0.9 * p->m[i] + 0.1 * gi;
    p->v[i] = 0.999 * p->v[i] + 0.001 * gi * gi;
    double m = p->m[i] / (1 - pow(0.9, s->t)), v = p->v[i] / (1 - pow(0.999, s->t));
    u[i] = m / (sqrt(v) + 1e-6) + s->decay * p->w[i];
  }
  double w = norm_of(p->w, p->n), d = norm_of(u, p->n), trust = w > 0 && d > 0 ? w / d : 1;
  for (int64_t i = 0; i < p->n; i++) p->w[i] -= s->lr * trust * u[i];
}

/* LARS, arXiv:1708.03888, with momentum as in its section 4; 1 where a norm is 0. */
static void plain_lars(plain *p, const float *g, const plain_step *s) {
  double gs = 0;
  for (int64_t i = 0; i < p->n; i++) gs += (double)g[i] * (double)g[i];
  double w = norm_of(p->w, p->n), d = sqrt(gs);
  double local = w > 0 && d > 0 ? 0.001 * w / (d + s->decay * w + 1e-8) : 1;
  for (int64_t i = 0; i < p->n; i++) {
    p->m[i] = 0.9 * p->m[i] + s->lr * local * ((double)g[i] + s->decay * p->w[i]);
    p->w[i] -= p->m[i];
  }
}

/* Lion, arXiv:2302.06675, algorithm 2. */
static void plain_lion(plain *p, const float *g, const plain_step *s) {
  for (int64_t i = 0; i < p->n; i++) {
    double c = 0.9 * p->m[i] + 0.1 * (double)g[i];
    double sign = c > 0 ? 1 : c < 0 ? -1 : 0;
    p->w[i] -= s->lr * (sign + s->decay * p->w[i]);
    p->m[i] = 0.99 * p->m[i] + 0.01 * (double)g[i];
  }
}

/* torch.optim.SGD(momentum=0.9, nesterov=True) */
static void plain_nesterov(plain *p, const float *g, const plain_step *s) {
  for (int64_t i = 0; i < p->n; i++) {
    double d = (double)g[i] + s->decay * p->w[i];
    p->m[i] = s->t == 1 ? d : 0.9 * p->m[i] + d;
    p->w[i] -= s->lr * (d + 0.9 * p->m[i]);
  }
}

typedef struct formula {
  const char *name;
  void (*step)(plain *p, const float *g, const plain_step *s);
  double lr;
  bool nesterov;
} formula;

static const formula formulas[] = {{"lamb", plain_lamb, 0.01, false},
                                   {"lars", plain_lars, 1, false},
                                   {"lion", plain_lion, 0.001, false},
                                   {"sgd", plain_nesterov, 0.01, true}};

/* Weights are about 1; each of four steps rounds them and their states to f32. */
static void follow_formula(const formula *f, make_fn make) {
  static plain p[2];
  vtb_override nesterov = {.name = "nesterov", .value = "true"};
  vtb_setting decay = {"decay", 0.1};
  vtb_optim_config c = {.settings = &decay, .n_settings = 1};
  stand_in s = open_step(make, f->name, &nesterov, f->nesterov, &c, pair, 2, 2);
  memset(p, 0, sizeof p);
  for (int i = 0; i < 2; i++) {
    p[i].n = pair[i].count;
    fill(s.value[i], (int)pair[i].count, 5 + (unsigned)i);
    for (int64_t k = 0; k < p[i].n; k++) p[i].w[k] = (double)s.value[i][k];
  }
  for (int t = 1; t <= 4; t++) {
    for (int i = 0; i < 2; i++) {
      fill(s.grad[i], (int)pair[i].count, (unsigned)(10 * t + i));
      f->step(&p[i], s.grad[i], &(plain_step){f->lr * pair[i].rate, t, pair[i].decay ? 0.1 : 0});
    }
    CHECK_OK(update(&s, f->lr, 1, NULL, err));
    double worst = 0;
    for (int i = 0; i < 2; i++)
      for (int64_t k = 0; k < p[i].n; k++)
        worst = fmax(worst, fabs((double)s.value[i][k] - p[i].w[k]));
    CHECK_MSG(worst < 2e-6, "%s, update %d: %g", f->name, t, worst);
  }
  close_step(&s);
}

TEST(optimisers_follow_their_papers) {
  for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
    follow_formula(&formulas[i], for_cpu);
}

TEST(optimisers_follow_their_papers_on_the_device) {
  for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
    follow_formula(&formulas[i], for_emulator);
}

/* The interpreter's results of one update of the module, which has not been lowered, against the
 * CPU's. */
static void interpret(const char *name) {
  const parameter p[] = {{"w", 37, true, 1}, {"bias", SHORT, false, 1}};
  vtb_optim_config c = {.clip_norm = 0.5, .ema_decay = 0.5};
  stand_in s = open_step(for_cpu, name, NULL, 0, &c, p, 2, 1);
  vtb_module *m = updating(name, NULL, 0, true, p, 2);
  vtb_func *f = m->entry;
  vtb_tensor *in = vtb_xcalloc((size_t)f->n_args, sizeof *in),
             *out = vtb_xcalloc((size_t)f->n_returns, sizeof *out);
  for (int i = 0; i < 2; i++) {
    fill(s.value[i], (int)p[i].count, 5);
    fill(s.grad[i], (int)p[i].count, 9);
    for (int64_t k = 0; k < p[i].count; k++) s.grad[i][k] = -s.grad[i][k];
  }
  vtb_optim_prepare(s.optim, 0.01, 1);
  for (int a = 0; a < f->n_args; a++) {
    in[a] = vtb_tensor_new(f->args[a]->type);
    bool is_int = f->args[a]->type.dtype == VTB_I32;
    for (int64_t k = 0; k < vtb_type_count(&f->args[a]->type); k++)
      in[a].data[k] = is_int ? 0 : (double)((float *)s.args[a])[k];
  }
  CHECK_OK(vtb_interpret(f, in, out, NULL, err));
  CHECK_OK(vtb_program_execute(s.program, s.args, s.workspace, s.services, err));
  for (int r = 0; r < f->n_returns; r++)
    for (int64_t k = 0; k < vtb_type_count(&f->returns[r]->type); k++)
      CHECK_NEAR((double)((float *)s.args[f->n_args + r])[k], out[r].data[k], 1e-6);
  for (int a = 0; a < f->n_args; a++) vtb_tensor_free(&in[a]);
  for (int r = 0; r < f->n_returns; r++) vtb_tensor_free(&out[r]);
  free(in), free(out);
  vtb_module_free(m);
  close_step(&s);
}

TEST(the_interpreter_makes_the_same_update) {
  interpret("adamw");
  interpret("lamb");
}

/* Printed, read and printed again: the same text; the read module is what was printed. */
TEST(updates_are_text) {
  vtb_module *m = updating("lamb", NULL, 0, true, pair, 2);
  vtb_strbuf text = {0}, again = {0};
  vtb_diags diags = {0};
  vtb_module_print(m, NULL, &text);
  vtb_source source = {.path = "update", .text = text.at, .n = text.n};
  vtb_module *back = vtb_module_parse(&source, &diags);
  vtb_diags_print(&diags, stderr);
  CHECK(back != NULL);
  if (back) vtb_module_print(back, NULL, &again);
  CHECK_STR(again.at ? again.at : "", text.at);
  CHECK(strstr(text.at, "rule @lamb(") && strstr(text.at, "= verdict ") &&
        strstr(text.at, "= update @lamb("));
  vtb_module_free(back);
  vtb_module_free(m);
  vtb_diags_free(&diags);
  vtb_strbuf_free(&text), vtb_strbuf_free(&again);
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

static int collect(const vtb_weights *w, const cJSON *config, parameter *params) {
  int n = 0;
  const cJSON *group, *name;
  double decay = number(config, "weight_decay", 0);
  cJSON_ArrayForEach(group, cJSON_GetObjectItem(config, "groups")) {
    cJSON_ArrayForEach(name, cJSON_GetObjectItem(group, "params")) {
      char full[128];
      snprintf(full, sizeof full, "param/%s", name->valuestring);
      const vtb_weight *t = vtb_weights_find(w, full);
      CHECK(t && n < MAX_PARAMS);
      params[n++] =
          (parameter){name->valuestring, t->count, number(group, "weight_decay", decay) > 0,
                      number(group, "lr_scale", 1)};
    }
  }
  return n;
}

static const float *tensor_of(const vtb_weights *w, const char *what, int step, const char *name) {
  char full[128];
  char number[16] = "";
  if (step) snprintf(number, sizeof number, "%d", step);
  snprintf(full, sizeof full, "%s%s/%s", what, number, name);
  const vtb_weight *t = vtb_weights_find(w, full);
  CHECK_MSG(t != NULL, "no tensor %s", full);
  return t->data;
}

/* The optimiser's hyperparameters by the case's config; strings are the case's. */
static int settings_of(const cJSON *config, bool adamw, vtb_setting *out) {
  int n = 0;
  out[n++] = (vtb_setting){"decay", number(config, "weight_decay", 0)};
  if (!adamw) {
    out[n++] = (vtb_setting){"mu", number(config, "momentum", 0)};
    out[n++] = (vtb_setting){"dampening", number(config, "dampening", 0)};
    return n;
  }
  const cJSON *betas = cJSON_GetObjectItem(config, "betas");
  out[n++] = (vtb_setting){"beta1", cJSON_GetArrayItem(betas, 0)->valuedouble};
  out[n++] = (vtb_setting){"beta2", cJSON_GetArrayItem(betas, 1)->valuedouble};
  out[n++] = (vtb_setting){"eps", number(config, "eps", 1e-8)};
  return n;
}

static void follow(const char *name) {
  cJSON *config = NULL;
  vtb_weights *w = golden(name, &config);
  if (!w) return;
  parameter p[MAX_PARAMS];
  vtb_setting settings[4];
  int n = collect(w, config, p);
  bool adamw = vtb_streq(cJSON_GetObjectItem(config, "optimizer")->valuestring, "adamw");
  vtb_override nesterov = {.name = "nesterov", .value = "true"};
  bool ahead = cJSON_IsTrue(cJSON_GetObjectItem(config, "nesterov"));
  vtb_optim_config c = {.settings = settings, .clip_norm = number(config, "clip_grad_norm", 0)};
  c.n_settings = settings_of(config, adamw, settings);
  stand_in s = open_step(for_cpu, adamw ? "adamw" : "sgd", &nesterov, ahead, &c, p, n, 1);
  for (int i = 0; i < n; i++)
    memcpy(s.value[i], tensor_of(w, "param", 0, p[i].name), (size_t)p[i].count * 4);
  const vtb_weight *norms = vtb_weights_find(w, "output/grad_norm");
  for (int step = 1; step <= (int)number(config, "steps", 0); step++) {
    double norm, worst = 0;
    for (int i = 0; i < n; i++)
      memcpy(s.grad[i], tensor_of(w, "input/grad", step, p[i].name), (size_t)p[i].count * 4);
    const cJSON *lr = cJSON_GetArrayItem(cJSON_GetObjectItem(config, "lr"), step - 1);
    CHECK_OK(update(&s, lr->valuedouble, 1, &norm, err));
    if (norms) CHECK_NEAR(norm, (double)((const float *)norms->data)[step - 1], 1e-5 * norm);
    for (int i = 0; i < n; i++) {
      const float *want = tensor_of(w, "output/step", step, p[i].name);
      for (int64_t k = 0; k < p[i].count; k++)
        worst = fmax(worst, fabs((double)s.value[i][k] - (double)want[k]));
    }
    /* Parameters are about 1 and rounded to f32 at each of five steps. */
    CHECK_MSG(worst < 1e-6, "%s step %d: %g", name, step, worst);
  }
  close_step(&s);
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

int main(void) {
  vtb_error none = {0};
  setenv("XDG_CACHE_HOME", VTB_BINARY_DIR "/test-cache", 1);
  RUN(adamw_follows_its_equations);
  RUN(scaled_gradients_make_the_same_steps);
  RUN(sgd_with_momentum_clipping_and_average);
  RUN(layers_learn_at_powers_of_their_decay);
  RUN(layers_of_stages_are_their_blocks);
  RUN(bad_gradients_change_nothing_and_name_the_parameter);
  RUN(results_do_not_depend_on_threads_and_saved_state_goes_on_exactly);
  RUN(foreign_state_is_refused);
  RUN(optimisers_follow_their_papers);
  RUN(the_interpreter_makes_the_same_update);
  RUN(updates_are_text);
  RUN(reference_trajectories_are_met);
  if (vtb_emulator_available(NULL, &none))
    RUN(optimisers_follow_their_papers_on_the_device);
  else
    printf("skipped: %s\n", none.text);
  return test_done();
}
