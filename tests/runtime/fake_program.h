/* A classifier written by hand in place of a compiled one: logits = (image * mask) W^T + b, mean
 * cross entropy. The mask depends on the input "seed" in training, so that a run whose seeds differ
 * cannot go unnoticed. The step ends with AdamW's update (runtime/base/update.h).
 *
 * fake_shared() is the same for one of several ranks: sums over its rows become those of all. */
#ifndef VTB_TEST_FAKE_PROGRAM_H
#define VTB_TEST_FAKE_PROGRAM_H

#include "runtime/base/random.h"
#include "runtime/base/update.h"
#include "runtime/artefact/init.h"
#include "tests/runtime/support.h"

enum { FAKE_BATCH = 8, FAKE_SIDE = 6, FAKE_PIXELS = FAKE_SIDE * FAKE_SIDE, FAKE_CLASSES = 4 };

/* Tensors of the step: image, labels, seed, weight, bias, loss, logits, d:weight, d:bias, then
 * those of FAKE_SCALARS ... Of the evaluation: image, weight, bias, logits. */
enum {
  FAKE_SCALARS = 9,
  FAKE_RATES,
  FAKE_M, /* of weight, then of bias */
  FAKE_V = FAKE_M + 2,
  FAKE_EMA = FAKE_V + 2,
  FAKE_VERDICT = FAKE_EMA + 2,
  FAKE_CORRECT,
  FAKE_UPDATED,
  FAKE_TENSORS = FAKE_UPDATED + 2,
  FAKE_FIRST = FAKE_TENSORS /* of a shared one */
};
typedef struct fake_call {
  const float *image, *weight, *bias;
  const int32_t *labels;
  float *logits, *d_logits, *d_weight, *d_bias;
  uint64_t seed;
  bool masked;
  int64_t rows, first;
  double valid;
} fake_call;

static inline float fake_mask(const fake_call *c, int64_t sample, int pixel) {
  if (!c->masked) return 1;
  return vtb_random_u64(c->seed, (uint64_t)((c->first + sample) * FAKE_PIXELS + pixel)) % 10 ? 1
                                                                                             : 0;
}

static void fake_logits(void *closure, int64_t begin, int64_t end) {
  const fake_call *c = closure;
  for (int64_t s = begin; s < end; s++)
    for (int k = 0; k < FAKE_CLASSES; k++) {
      float sum = c->bias[k];
      for (int i = 0; i < FAKE_PIXELS; i++)
        sum += c->image[s * FAKE_PIXELS + i] * fake_mask(c, s, i) * c->weight[k * FAKE_PIXELS + i];
      c->logits[s * FAKE_CLASSES + k] = sum;
    }
}

static void fake_weight_gradient(void *closure, int64_t begin, int64_t end) {
  const fake_call *c = closure;
  for (int64_t k = begin; k < end; k++) {
    c->d_bias[k] = 0;
    for (int i = 0; i < FAKE_PIXELS; i++) c->d_weight[k * FAKE_PIXELS + i] = 0;
    for (int64_t s = 0; s < c->rows; s++) {
      float d = c->d_logits[s * FAKE_CLASSES + k];
      c->d_bias[k] += d;
      for (int i = 0; i < FAKE_PIXELS; i++)
        c->d_weight[k * FAKE_PIXELS + i] += d * c->image[s * FAKE_PIXELS + i] * fake_mask(c, s, i);
    }
  }
}

static float fake_loss(fake_call *c) {
  double loss = 0, valid = c->valid;
  for (int s = 0; s < c->rows && !c->valid; s++) valid += c->labels[s] >= 0;
  for (int s = 0; s < c->rows; s++) {
    const float *z = c->logits + s * FAKE_CLASSES;
    double sum = 0;
    for (int k = 0; k < FAKE_CLASSES; k++) sum += exp((double)z[k]);
    for (int k = 0; k < FAKE_CLASSES; k++)
      c->d_logits[s * FAKE_CLASSES + k] =
          c->labels[s] < 0 ? 0 : (float)((exp((double)z[k]) / sum - (k == c->labels[s])) / valid);
    if (c->labels[s] >= 0) loss += (log(sum) - (double)z[c->labels[s]]) / valid;
  }
  return (float)loss;
}

static double fake_scalar(void *const *a, int row) {
  const float *at = (const float *)a[FAKE_SCALARS] + 2 * row;
  return (double)at[0] + (double)at[1];
}

static const int fake_counts[2] = {FAKE_CLASSES * FAKE_PIXELS, FAKE_CLASSES};

static void fake_verdict(void *const *a) {
  float *verdict = a[FAKE_VERDICT];
  double sum = 0, clip = fake_scalar(a, VTB_SCALAR_CLIP);
  int culprit = -1;
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < fake_counts[k]; i++) {
      double g = (double)((const float *)a[7 + k])[i];
      sum += g * g;
      if (!isfinite(sum) && culprit < 0) culprit = k;
    }
  double norm = sqrt(sum);
  verdict[VTB_VERDICT_FACTOR] = (float)(clip > 0 ? fmin(1, clip / (norm + 1e-6)) : 1);
  verdict[VTB_VERDICT_COUNTS] = isfinite(norm) && isfinite(*(const float *)a[5]);
  verdict[VTB_VERDICT_NORM] = (float)norm;
  verdict[VTB_VERDICT_CULPRIT] = (float)culprit;
}

/* Rows of hyperparameters: beta1, beta2, eps, decay. `row`: of the rates. */
static void fake_adamw(void *const *a, int k, int row) {
  const float *g = a[7 + k], *rates = (const float *)a[FAKE_RATES] + 2 * row;
  float *m = a[FAKE_M + k], *v = a[FAKE_V + k], *e = a[FAKE_EMA + k], *p = a[FAKE_UPDATED + k];
  double t = fake_scalar(a, VTB_SCALAR_STEP), lr = fake_scalar(a, VTB_SCALAR_LR) * (double)rates[0];
  double b1 = fake_scalar(a, VTB_N_SCALARS), b2 = fake_scalar(a, VTB_N_SCALARS + 1);
  double eps = fake_scalar(a, VTB_N_SCALARS + 2), average = fake_scalar(a, VTB_SCALAR_AVERAGE);
  double keep = 1 - lr * fake_scalar(a, VTB_N_SCALARS + 3) * (double)rates[1];
  for (int i = 0; i < fake_counts[k]; i++) {
    double gi = (double)(g[i] * ((const float *)a[FAKE_VERDICT])[VTB_VERDICT_FACTOR]);
    m[i] = (float)(b1 * (double)m[i] + (1 - b1) * gi);
    v[i] = (float)(b2 * (double)v[i] + (1 - b2) * gi * gi);
    double step = (double)m[i] / (1 - pow(b1, t)) / (sqrt((double)v[i] / (1 - pow(b2, t))) + eps);
    p[i] = (float)((double)((const float *)a[3 + k])[i] * keep - lr * step);
    e[i] = (float)(average * (double)e[i] + (1 - average) * (double)p[i]);
  }
}

/* owner: of tensor `owner` alone; -1: of both. */
static void fake_update(void *const *a, int64_t rows, int owner) {
  const float *logits = a[6];
  float *correct = a[FAKE_CORRECT];
  for (int s = 0; s < rows; s++) {
    int best = 0;
    for (int k = 1; k < FAKE_CLASSES; k++)
      if (logits[s * FAKE_CLASSES + k] > logits[s * FAKE_CLASSES + best]) best = k;
    correct[s] = best == ((const int32_t *)a[1])[s];
  }
  fake_verdict(a);
  for (int k = 0; k < 2 && ((const float *)a[FAKE_VERDICT])[VTB_VERDICT_COUNTS] != 0; k++)
    if (owner < 0 || owner == k) fake_adamw(a, k, owner < 0 ? k : 0);
}

static fake_call fake_call_of(void *const *a, void *workspace, int64_t rows, int64_t first) {
  return (fake_call){.image = a[0],
                     .weight = a[3],
                     .bias = a[4],
                     .labels = a[1],
                     .logits = a[6],
                     .d_logits = workspace,
                     .d_weight = a[7],
                     .d_bias = a[8],
                     .seed = (uint64_t) * (const int32_t *)a[2],
                     .masked = true,
                     .rows = rows,
                     .first = first};
}

static void fake_step(void *const *a, void *workspace, const vtb_services *s) {
  fake_call c = fake_call_of(a, workspace, FAKE_BATCH, 0);
  s->parallel(s, fake_logits, &c, FAKE_BATCH, 1);
  *(float *)a[5] = fake_loss(&c);
  s->parallel(s, fake_weight_gradient, &c, FAKE_CLASSES, 1);
  fake_update(a, FAKE_BATCH, -1);
}

static int64_t fake_rows; /* of a rank */
static bool fake_dealt;   /* rank 0 updates the weight, rank 1 the bias */

static void fake_shared_step(void *const *a, void *workspace, const vtb_services *s) {
  fake_call c = fake_call_of(a, workspace, fake_rows, *(const int32_t *)a[FAKE_FIRST]);
  float valid = 0;
  for (int i = 0; i < fake_rows; i++) valid += c.labels[i] >= 0;
  s->sum_begin(s, &valid, 1);
  s->parallel(s, fake_logits, &c, fake_rows, 1);
  s->sum_wait(s);
  c.valid = (double)valid;
  *(float *)a[5] = fake_loss(&c);
  s->sum_begin(s, a[5], 1);
  s->parallel(s, fake_weight_gradient, &c, FAKE_CLASSES, 1);
  for (int k = 0; k < 2; k++) s->sum_begin(s, a[7 + k], fake_counts[k]);
  s->sum_wait(s);
  fake_update(a, fake_rows, fake_dealt ? (int)(c.first / fake_rows) : -1);
}

static void fake_eval(void *const *a, void *workspace, const vtb_services *s) {
  (void)workspace;
  fake_call c = {.image = a[0], .weight = a[1], .bias = a[2], .logits = a[3], .rows = FAKE_BATCH};
  s->parallel(s, fake_logits, &c, FAKE_BATCH, 1);
}

#define FAKE_IMAGE                                                                                 \
  { "image", VTB_IO_INPUT, false, 4, {FAKE_BATCH, 1, FAKE_SIDE, FAKE_SIDE}, NULL, false }
#define FAKE_WEIGHT                                                                                \
  { "weight", VTB_IO_PARAM, false, 2, {FAKE_CLASSES, FAKE_PIXELS}, "trunc_normal(0.02)", true }
#define FAKE_BIAS                                                                                  \
  { "bias", VTB_IO_PARAM, false, 1, {FAKE_CLASSES}, "zeros", false }
#define FAKE_LOGITS                                                                                \
  { "logits", VTB_IO_OUTPUT, false, 2, {FAKE_BATCH, FAKE_CLASSES}, NULL, false }

static vtb_tensor_info fake_step_tensors[] = {
    FAKE_IMAGE,
    {"labels", VTB_IO_INPUT, true, 1, {FAKE_BATCH}, NULL, false},
    {"seed", VTB_IO_INPUT, true, 0, {0}, NULL, false},
    FAKE_WEIGHT,
    FAKE_BIAS,
    {"loss", VTB_IO_OUTPUT, false, 0, {0}, NULL, false},
    FAKE_LOGITS,
    {"d:weight", VTB_IO_GRAD_OUT, false, 2, {FAKE_CLASSES, FAKE_PIXELS}, NULL, false},
    {"d:bias", VTB_IO_GRAD_OUT, false, 1, {FAKE_CLASSES}, NULL, false},
    {VTB_UPDATE_SCALARS,
     VTB_IO_INPUT,
     false,
     2,
     {VTB_N_SCALARS + 4, 2},
     "adamw t lr average clip scale beta1=0.9 beta2=0.999 eps=1e-8 decay=0.05",
     false},
    {VTB_UPDATE_RATES, VTB_IO_INPUT, false, 2, {2, 2}, NULL, false},
    {"optim/m/weight", VTB_IO_STATE, false, 2, {FAKE_CLASSES, FAKE_PIXELS}, NULL, false},
    {"optim/m/bias", VTB_IO_STATE, false, 1, {FAKE_CLASSES}, NULL, false},
    {"optim/v/weight", VTB_IO_STATE, false, 2, {FAKE_CLASSES, FAKE_PIXELS}, NULL, false},
    {"optim/v/bias", VTB_IO_STATE, false, 1, {FAKE_CLASSES}, NULL, false},
    {"ema/weight", VTB_IO_STATE, false, 2, {FAKE_CLASSES, FAKE_PIXELS}, NULL, false},
    {"ema/bias", VTB_IO_STATE, false, 1, {FAKE_CLASSES}, NULL, false},
    {VTB_UPDATE_VERDICT, VTB_IO_OUTPUT, false, 1, {VTB_N_VERDICT}, NULL, false},
    {VTB_UPDATE_CORRECT, VTB_IO_OUTPUT, false, 1, {FAKE_BATCH}, NULL, false},
    {"updated.weight", VTB_IO_UPDATE, false, 2, {FAKE_CLASSES, FAKE_PIXELS}, NULL, false},
    {"updated.bias", VTB_IO_UPDATE, false, 1, {FAKE_CLASSES}, NULL, false},
};
static vtb_tensor_info fake_eval_tensors[] = {FAKE_IMAGE, FAKE_WEIGHT, FAKE_BIAS, FAKE_LOGITS};

static inline vtb_program fake_step_program(void) {
  return (vtb_program){.entry = fake_step,
                       .n_tensors = FAKE_TENSORS,
                       .tensors = fake_step_tensors,
                       .batch = FAKE_BATCH,
                       .workspace_bytes = FAKE_BATCH * FAKE_CLASSES * 4};
}

/* For ranks that each take so many rows at a time. */
static inline vtb_program fake_shared(int64_t rows) {
  static vtb_tensor_info tensors[FAKE_TENSORS + 1];
  static const int batched[] = {0, 1, 6, FAKE_CORRECT};
  memcpy(tensors, fake_step_tensors, sizeof fake_step_tensors);
  for (int i = 0; i < 4; i++) tensors[batched[i]].dim[0] = rows;
  tensors[FAKE_FIRST] = (vtb_tensor_info){VTB_RANK_FIRST, VTB_IO_INPUT, true, 0, {0}, NULL, false};
  fake_rows = rows;
  fake_dealt = false;
  vtb_program p = fake_step_program();
  p.entry = fake_shared_step;
  p.n_tensors = FAKE_TENSORS + 1;
  p.tensors = tensors;
  p.batch = rows;
  return p;
}

/* That of rank 0 or 1 which updates its own tensor alone; the other's are outputs of no use. */
static inline vtb_program fake_sharded(int64_t rows, int rank, vtb_tensor_info *tensors) {
  static const int dealt[] = {FAKE_M, FAKE_V, FAKE_EMA, FAKE_UPDATED};
  vtb_program p = fake_shared(rows);
  memcpy(tensors, p.tensors, (size_t)p.n_tensors * sizeof *tensors);
  for (int i = 0; i < 4; i++) {
    vtb_tensor_info *t = &tensors[dealt[i] + !rank];
    t->name = "nothing";
    t->io = VTB_IO_OUTPUT;
  }
  tensors[FAKE_RATES].dim[0] = 1;
  p.tensors = tensors;
  fake_dealt = true;
  return p;
}

static inline vtb_program fake_eval_program(void) {
  return (vtb_program){
      .entry = fake_eval, .n_tensors = 4, .tensors = fake_eval_tensors, .batch = FAKE_BATCH};
}

/* IDX files in the temporary folder `name`: the bright quadrant is the class. */
static inline void fake_dataset(const char *name, const char *stem, int n,
                                unsigned long long seed) {
  char path[256];
  vtb_error err = {0};
  if (vtb_make_dirs(temp_path(name), &err) != VTB_OK) exit(1);
  size_t n_images = 16 + (size_t)n * FAKE_PIXELS, n_labels = 8 + (size_t)n;
  unsigned char *images = calloc(n_images, 1), *labels = calloc(n_labels, 1);
  memcpy(images,
         (unsigned char[]){0, 0, 8, 3, 0, 0, (unsigned char)(n >> 8), (unsigned char)n, 0, 0, 0,
                           FAKE_SIDE, 0, 0, 0, FAKE_SIDE},
         16);
  memcpy(labels, (unsigned char[]){0, 0, 8, 1, 0, 0, (unsigned char)(n >> 8), (unsigned char)n}, 8);
  for (int s = 0; s < n; s++) {
    int label = (int)(2 + 2 * test_random(&seed)) & 3;
    labels[8 + s] = (unsigned char)label;
    for (int i = 0; i < FAKE_PIXELS; i++) {
      bool bright =
          (i / FAKE_SIDE >= FAKE_SIDE / 2) * 2 + (i % FAKE_SIDE >= FAKE_SIDE / 2) == label;
      images[16 + s * FAKE_PIXELS + i] =
          (unsigned char)((bright ? 150 : 80) + 60 * test_random(&seed));
    }
  }
  snprintf(path, sizeof path, "%s/%s-images-idx3-ubyte", name, stem);
  write_file(temp_path(path), images, n_images);
  snprintf(path, sizeof path, "%s/%s-labels-idx1-ubyte", name, stem);
  write_file(temp_path(path), labels, n_labels);
  free(images);
  free(labels);
}

#endif
