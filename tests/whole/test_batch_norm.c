/* Running statistics in training, from .vtb text to the checkpoint, against the same numbers in
 * plain C: a model of three convolutions with batch norm, the last two calls of one function. */
#include "codegen/codegen.h"
#include "frontend/lang/lang.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/launch/threads.h"
#include "runtime/train/train.h"
#include "tests/runtime/fake_program.h"
#include "tests/whole/attach.h"
#include "tests/runtime/schedule.h"

enum { C = 3, LAYERS = 3, TEST_IMAGES = 43, STEPS = 5 };
static const double eps = 1e-5, decay = 0.8; /* of the average */

static const char text[] = "use std.nn\n"
                           "use std.conv\n"
                           "block layer(x: tokens) {\n"
                           "  y = conv2d(\"conv\", to_image(x), 3, 3, pad = 1)\n"
                           "  return relu(batch_norm(\"bn\", y, counter = true))\n"
                           "}\n"
                           "model small() {\n"
                           "  input image: image[1, 6, 6]\n"
                           "  x = pixels(image)\n"
                           "  repeat 3 as i scope \"layers.{i}\" { x = layer(x) }\n"
                           "  output logits = linear(\"head\", mean(x, axis = \"tokens\"), 4)\n"
                           "}\n";

/* ---- the model, compiled --------------------------------------------------------------------- */

/* average: NULL: without an update. */
static vtb_module *module_of(vtb_unit *u, bool training, const bool *average) {
  vtb_diags diags = {0};
  vtb_error failure = {0};
  vtb_instantiate_options o = {.training = training};
  vtb_module *m = vtb_instantiate(u, "small", &o, &diags);
  vtb_diags_print(&diags, stderr);
  vtb_pass_context c = {.module = m, .diags = &diags};
  if (!m ||
      vtb_run_pipeline(&c, &(vtb_pipeline_options){.verify_each = true}, &failure) != VTB_OK) {
    fprintf(stderr, "no module: %s\n", failure.text);
    exit(1);
  }
  vtb_func *train = NULL;
  if (training)
    CHECK_OK(vtb_build_train_step(m, m->entry, &(vtb_train_step){0}, &train, &diags, err));
  if (train) m->entry = train;
  if (train && average) attach_update(m, train, "adamw", NULL, 0, *average);
  vtb_diags_free(&diags);
  return m;
}

static vtb_program *compile(bool training, bool average) {
  vtb_diags diags = {0};
  vtb_unit *u = vtb_unit_load_text("small.vtb", text, strlen(text), vtb_search_default(), &diags);
  vtb_module *m = module_of(u, training, &average); /* its spans point into the unit */
  vtb_program *p = NULL;
  vtb_pass_context c = {.module = m, .batch = FAKE_BATCH, .target = vtb_target_find("cpu")};
  CHECK_OK(vtb_run_pipeline(&c, NULL, err));
  CHECK_OK(vtb_jit(m, m->entry, &(vtb_codegen_options){0}, &p, err));
  vtb_module_free(m);
  vtb_unit_free(u);
  vtb_diags_free(&diags);
  if (!p) exit(1);
  return p;
}

static vtb_dataset *train_set, *eval_set;
static vtb_program *step_program, *eval_program;
static vtb_services *services;

/* The training set is one batch, so that its order does not matter. */
static void open_all(void) {
  fake_dataset("data", "train", FAKE_BATCH, 1);
  fake_dataset("data", "t10k", TEST_IMAGES, 2);
  CHECK_OK(vtb_dataset_open(temp_path("data"), NULL, &train_set, err));
  CHECK_OK(
      vtb_dataset_open(temp_path("data"), &(vtb_dataset_options){.split = "test"}, &eval_set, err));
  step_program = compile(true, true);
  eval_program = compile(false, false);
  services = vtb_services_default(2);
}

static vtb_train_config config(void) {
  vtb_train_config c = vtb_train_defaults();
  c.step = step_program, c.eval = eval_program, c.services = services;
  c.train_set = train_set, c.eval_set = eval_set;
  CHECK_OK(vtb_transform_init(&c.train_transform, train_set, 1, FAKE_SIDE, FAKE_SIDE, err));
  c.eval_transform = c.train_transform;
  c.optim.ema_decay = decay;
  c.schedule = warm_schedule(0.05, 0, STEPS);
  c.epochs = STEPS, c.eval_epochs = 1000, c.seed = 5;
  return c;
}

/* ---- the model in plain C -------------------------------------------------------------------- */

typedef struct plain {
  const float *weight[LAYERS], *bias[LAYERS], *gamma[LAYERS], *beta[LAYERS], *mean[LAYERS],
      *var[LAYERS], *seen[LAYERS];
  const float *head_weight, *head_bias;
} plain;

static const float *param(vtb_trainer *t, const char *name, int layer) {
  char full[64];
  snprintf(full, sizeof full, layer < 0 ? "%s" : "layers.%2$d.%1$s", name, layer);
  const float *p = vtb_trainer_param(t, full, NULL);
  CHECK_MSG(p != NULL, "no tensor %s", full);
  return p;
}

static plain plain_of(vtb_trainer *t) {
  plain m = {.head_weight = param(t, "head.weight", -1), .head_bias = param(t, "head.bias", -1)};
  for (int l = 0; l < LAYERS; l++) {
    m.weight[l] = param(t, "conv.weight", l), m.bias[l] = param(t, "conv.bias", l);
    m.gamma[l] = param(t, "bn.weight", l), m.beta[l] = param(t, "bn.bias", l);
    m.mean[l] = param(t, "bn.running_mean", l), m.var[l] = param(t, "bn.running_var", l);
    m.seen[l] = param(t, "bn.num_batches_tracked", l);
  }
  return m;
}

/* in (n, channels, pixels) to out (n, C, pixels) */
static void convolve(const double *in, int64_t n, int channels, const float *w, const float *bias,
                     double *out) {
  for (int64_t s = 0; s < n; s++)
    for (int o = 0; o < C; o++)
      for (int y = 0; y < FAKE_SIDE; y++)
        for (int x = 0; x < FAKE_SIDE; x++) {
          double sum = bias[o];
          for (int i = 0; i < channels; i++)
            for (int ky = 0; ky < 3; ky++)
              for (int kx = 0; kx < 3; kx++) {
                int iy = y + ky - 1, ix = x + kx - 1;
                if (iy < 0 || ix < 0 || iy >= FAKE_SIDE || ix >= FAKE_SIDE) continue;
                sum += in[(s * channels + i) * FAKE_PIXELS + iy * FAKE_SIDE + ix] *
                       (double)w[((o * channels + i) * 3 + ky) * 3 + kx];
              }
          out[(s * C + o) * FAKE_PIXELS + y * FAKE_SIDE + x] = sum;
        }
}

static void moments(const double *x, int64_t n, int channel, double *mean, double *var) {
  double sum = 0, squares = 0, count = (double)(n * FAKE_PIXELS);
  for (int64_t s = 0; s < n; s++)
    for (int k = 0; k < FAKE_PIXELS; k++) sum += x[(s * C + channel) * FAKE_PIXELS + k];
  *mean = sum / count;
  for (int64_t s = 0; s < n; s++)
    for (int k = 0; k < FAKE_PIXELS; k++) {
      double d = x[(s * C + channel) * FAKE_PIXELS + k] - *mean;
      squares += d * d;
    }
  *var = squares / count;
}

/* The last layer's output, to be freed. batch_mean and batch_var (LAYERS * C) are filled and used
 * if given, else the running statistics are used. */
static double *forward(const plain *m, const double *images, int64_t n, double *batch_mean,
                       double *batch_var) {
  double *in = vtb_xcalloc((size_t)n * C * FAKE_PIXELS, sizeof *in),
         *out = vtb_xcalloc((size_t)n * C * FAKE_PIXELS, 8);
  memcpy(in, images, (size_t)n * FAKE_PIXELS * sizeof *in);
  for (int l = 0; l < LAYERS; l++) {
    convolve(in, n, l ? C : 1, m->weight[l], m->bias[l], out);
    for (int c = 0; c < C; c++) {
      double mean = (double)m->mean[l][c], var = (double)m->var[l][c];
      if (batch_mean) {
        moments(out, n, c, &mean, &var);
        batch_mean[l * C + c] = mean;
        batch_var[l * C + c] = var;
      }
      for (int64_t s = 0; s < n; s++)
        for (int k = 0; k < FAKE_PIXELS; k++) {
          int64_t at = (s * C + c) * FAKE_PIXELS + k;
          in[at] = fmax(0, (out[at] - mean) / sqrt(var + eps) * (double)m->gamma[l][c] +
                               (double)m->beta[l][c]);
        }
    }
  }
  free(out);
  return in;
}

static double *images_of(const vtb_dataset *d, const vtb_transform *f) {
  int64_t n = vtb_dataset_count(d);
  double *all = vtb_xcalloc((size_t)n * FAKE_PIXELS, sizeof *all);
  for (int64_t i = 0; i < n; i++) {
    vtb_image im = {0};
    float one[FAKE_PIXELS];
    CHECK_OK(vtb_dataset_image(d, i, 1, &im, err));
    CHECK(vtb_transform_apply(f, &im, 0, one));
    for (int k = 0; k < FAKE_PIXELS; k++) all[i * FAKE_PIXELS + k] = (double)one[k];
    vtb_image_free(&im);
  }
  return all;
}

static double mean_loss(const plain *m, const double *images, const vtb_dataset *d) {
  int64_t n = vtb_dataset_count(d);
  double *h = forward(m, images, n, NULL, NULL), loss = 0;
  for (int64_t s = 0; s < n; s++) {
    double z[FAKE_CLASSES], sum = 0;
    for (int k = 0; k < FAKE_CLASSES; k++) {
      z[k] = (double)m->head_bias[k];
      for (int c = 0; c < C; c++)
        for (int p = 0; p < FAKE_PIXELS; p++)
          z[k] +=
              h[(s * C + c) * FAKE_PIXELS + p] / FAKE_PIXELS * (double)m->head_weight[k * C + c];
      sum += exp(z[k]);
    }
    loss += log(sum) - z[vtb_dataset_label(d, s)];
  }
  free(h);
  return loss / (double)n;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* What should stand in the buffers after each step, followed beside the training. */
typedef struct follower {
  vtb_trainer *t;
  /* with the weights before the next step */
  double *images, batch_mean[LAYERS * C], batch_var[LAYERS * C];
  double mean[LAYERS * C], var[LAYERS * C], average[LAYERS * C];
  int steps;
} follower;

static void look_ahead(follower *f) {
  plain m = plain_of(f->t);
  free(forward(&m, f->images, FAKE_BATCH, f->batch_mean, f->batch_var));
}

static void on_step(void *user, const vtb_train_event *e) {
  follower *f = user;
  if (e->kind != VTB_TRAIN_STEP) return;
  plain m = plain_of(f->t);
  double n = FAKE_BATCH * FAKE_PIXELS;
  f->steps++;
  for (int i = 0; i < LAYERS * C; i++) {
    f->mean[i] = 0.9 * f->mean[i] + 0.1 * f->batch_mean[i];
    f->var[i] = 0.9 * f->var[i] + 0.1 * f->batch_var[i] * n / (n - 1);
    f->average[i] = decay * f->average[i] + (1 - decay) * f->mean[i];
    CHECK_NEAR((double)m.mean[i / C][i % C], f->mean[i], 1e-5);
    CHECK_NEAR((double)m.var[i / C][i % C], f->var[i], 1e-5);
    CHECK((double)m.seen[i / C][0] == f->steps);
  }
  look_ahead(f);
}

static float saved_value(const char *path, const char *name, int k) {
  vtb_weights *w = NULL;
  float all[64] = {0};
  CHECK_OK(vtb_safetensors_load(path, &w, err));
  vtb_weight *t = w ? vtb_weights_find(w, name) : NULL;
  CHECK_MSG(t != NULL && t->count <= 64, "no tensor %s in %s", name, path);
  if (t && t->count <= 64) vtb_weight_read_f32(t, all);
  vtb_weights_free(w);
  return all[k];
}

TEST(running_statistics_follow_the_batches) {
  vtb_train_config c = config();
  follower f = {.images = images_of(train_set, &c.train_transform)};
  for (int i = 0; i < LAYERS * C; i++) f.var[i] = 1;
  c.on_event = on_step, c.user = &f;
  CHECK_OK(vtb_trainer_open(&c, &f.t, err));
  if (!f.t) return;
  look_ahead(&f);
  CHECK_OK(vtb_trainer_run(f.t, NULL, err));
  CHECK(f.steps == STEPS);
  CHECK_OK(vtb_trainer_checkpoint(f.t, temp_path("checkpoint"), err));
  CHECK_OK(vtb_trainer_save_weights(f.t, temp_path("weights"), err));
  CHECK_NEAR((double)saved_value(temp_path("checkpoint"), "layers.2.bn.running_mean", 1),
             f.mean[2 * C + 1], 1e-5);
  CHECK_NEAR((double)saved_value(temp_path("weights"), "layers.2.bn.running_mean", 1),
             f.average[2 * C + 1], 1e-5);
  CHECK(saved_value(temp_path("weights"), "layers.0.bn.num_batches_tracked", 0) == STEPS);
  vtb_trainer_close(f.t);
  free(f.images);
}

TEST(evaluation_after_training_uses_them) {
  vtb_train_config c = config();
  vtb_program *plain_step = compile(true, false);
  c.optim.ema_decay = 0, c.step = plain_step;
  vtb_trainer *t = NULL;
  vtb_eval_result r = {0};
  CHECK_OK(vtb_trainer_open(&c, &t, err));
  if (!t) return;
  CHECK_OK(vtb_trainer_run(t, NULL, err));
  CHECK_OK(vtb_trainer_evaluate(t, &r, err));
  double *images = images_of(eval_set, &c.eval_transform);
  plain m = plain_of(t);
  CHECK_NEAR(r.loss, mean_loss(&m, images, eval_set), 1e-5);
  free(images);
  vtb_trainer_close(t);
  vtb_program_free(plain_step);
}

static uint64_t hash_of_run(const vtb_train_config *c) {
  vtb_trainer *t = NULL;
  CHECK_OK(vtb_trainer_open(c, &t, err));
  if (!t) return 0;
  CHECK_OK(vtb_trainer_run(t, NULL, err));
  CHECK_OK(vtb_trainer_save_weights(t, temp_path("result"), err));
  uint64_t h = VTB_HASH_INIT;
  for (int i = 0; i < step_program->n_tensors; i++) {
    int64_t n = 0;
    const float *x = vtb_trainer_param(t, step_program->tensors[i].name, &n);
    if (x) h = vtb_hash_bytes(h, x, (size_t)n * 4);
  }
  vtb_trainer_close(t);
  size_t n;
  char *file = read_file(temp_path("result"), &n);
  h = vtb_hash_bytes(h, file, n);
  free(file);
  return h;
}

TEST(a_resumed_run_is_the_uninterrupted_one) {
  vtb_train_config c = config();
  uint64_t whole = hash_of_run(&c);
  c.checkpoint = temp_path("resume"), c.resume = true, c.max_steps = 2;
  CHECK(hash_of_run(&c) != whole);
  c.max_steps = 0;
  CHECK(hash_of_run(&c) == whole);
}

TEST(a_step_that_does_not_count_changes_no_buffer) {
  vtb_train_config c = config();
  vtb_trainer *t = NULL;
  CHECK_OK(vtb_trainer_open(&c, &t, err));
  if (!t) return;
  vtb_trainer_param(t, "head.bias", NULL)[0] = NAN;
  CHECK_REFUSED(vtb_trainer_run(t, NULL, err), "not finite");
  plain m = plain_of(t);
  for (int i = 0; i < LAYERS * C; i++) CHECK(m.mean[i / C][i % C] == 0 && m.var[i / C][i % C] == 1);
  CHECK(m.seen[0][0] == 0);
  vtb_trainer_close(t);
}

int main(void) {
  open_all();
  RUN(running_statistics_follow_the_batches);
  RUN(evaluation_after_training_uses_them);
  RUN(a_resumed_run_is_the_uninterrupted_one);
  RUN(a_step_that_does_not_count_changes_no_buffer);
  vtb_services_free(services);
  vtb_program_free(step_program);
  vtb_program_free(eval_program);
  vtb_dataset_free(train_set);
  vtb_dataset_free(eval_set);
  return test_done();
}
