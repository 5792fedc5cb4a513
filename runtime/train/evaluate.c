/* What a program measures over a data set; accuracy and loss of a classifier. */
#include "runtime/launch/threads.h"
#include "runtime/train/train_internal.h"

#include <math.h>
#include <stdlib.h>

/* How many classes score above the label's; among equal scores the lower class number wins, so that
 * constant logits do not count as right. NaN scores rank above everything. */
static int rank_of(const float *logits, int64_t n, int64_t label) {
  int rank = 0;
  for (int64_t k = 0; k < n; k++)
    rank +=
        k != label && (!(logits[k] <= logits[label]) || (logits[k] == logits[label] && k < label));
  return rank;
}

static int64_t argmax(const float *x, int64_t n) {
  int64_t best = 0;
  for (int64_t k = 1; k < n; k++)
    if (x[k] > x[best]) best = k;
  return best;
}

static double cross_entropy(const float *logits, int64_t n, int64_t label) {
  double max = -HUGE_VAL, sum = 0;
  for (int64_t k = 0; k < n; k++) max = fmax(max, logits[k]);
  for (int64_t k = 0; k < n; k++) sum += exp(logits[k] - max);
  return max + log(sum) - logits[label];
}

typedef struct tally {
  double loss;
  int64_t n, top1, top5;
  int64_t *confusion;
  bool stopped;
} tally;

static void count_batch(tally *t, const vtb_batch *batch, const float *logits, int64_t classes) {
  for (int64_t i = 0; i < batch->n; i++) {
    const float *row = logits + i * classes;
    int64_t label = batch->labels[i];
    if (label < 0) continue; /* a damaged sample, left out */
    int rank = rank_of(row, classes, label);
    t->loss += cross_entropy(row, classes, label);
    t->top1 += rank < 1;
    t->top5 += rank < 5;
    if (t->confusion) t->confusion[label * classes + argmax(row, classes)]++;
  }
  t->n += batch->n - batch->damaged;
}

static vtb_status run_batches(vtb_bound *b, vtb_loader *loader, const vtb_eval_options *o, tally *t,
                              vtb_error *err) {
  int64_t total = vtb_dataset_count(o->dataset), done = 0;
  int32_t seed = 0;
  if (b->seed >= 0) b->args[b->seed] = &seed;
  vtb_program_keep(b->program, 0); /* parameters may have changed since the last evaluation */
  for (;;) {
    const vtb_batch *batch;
    vtb_status status = vtb_loader_next(loader, &batch, err);
    if (status != VTB_OK || !batch) return status;
    vtb__bound_fill(b, batch);
    if (vtb__is_measured(b)) seed = (int32_t)batch->index; /* noise of its own for every batch */
    status = vtb_program_execute(b->program, b->args, b->workspace, o->services, err);
    if (status != VTB_OK) return status;
    /* from now on they do not */
    vtb_program_keep(b->program, 1u << VTB_IO_PARAM | 1u << VTB_IO_BUFFER);
    if (vtb__is_measured(b)) {
      vtb_measures_add(&b->measures, b->args);
      t->n += batch->n - batch->damaged;
    } else {
      count_batch(t, batch, b->args[b->logits], b->classes);
    }
    done += batch->n;
    if (o->on_batch) o->on_batch(o->user, done, total);
    t->stopped = o->stop && *o->stop && done < total;
    if (t->stopped) return VTB_OK;
  }
}

static vtb_status check_options(const vtb_bound *b, const vtb_eval_options *o, vtb_error *err) {
  if (vtb__is_measured(b))
    return o->confusion ? vtb_fail(err, VTB_E_USAGE,
                                   "a table of classes is made of a classifier that declares no "
                                   "losses and metrics")
                        : VTB_OK;
  const vtb_tensor_info *image = &b->program->tensors[b->image];
  if (image->dim[1] != o->transform.prepare.channels ||
      image->dim[2] != o->transform.prepare.height || image->dim[3] != o->transform.prepare.width)
    return vtb_fail(
        err, VTB_E_INPUT, "images are prepared as %d x %d x %d, the model takes %lld x %lld x %lld",
        o->transform.prepare.channels, o->transform.prepare.height, o->transform.prepare.width,
        (long long)image->dim[1], (long long)image->dim[2], (long long)image->dim[3]);
  if (vtb_dataset_classes(o->dataset) > b->classes)
    return vtb_fail(err, VTB_E_INPUT, "data set %s has %d classes, the model %lld",
                    vtb_dataset_name(o->dataset), vtb_dataset_classes(o->dataset),
                    (long long)b->classes);
  return VTB_OK;
}

static void fill_result(vtb_eval_result *result, const tally *t, const vtb_bound *b,
                        double seconds) {
  double n = (double)t->n;
  if (t->stopped) {
    *result = (vtb_eval_result){.n = t->n, .stopped = true};
    free(t->confusion);
    return;
  }
  if (vtb__is_measured(b)) {
    *result = (vtb_eval_result){.n = t->n,
                                .seconds = seconds,
                                .images_per_second = seconds > 0 ? n / seconds : 0,
                                .measures = vtb_measures_values(&b->measures)};
    result->loss = vtb_measured_loss(&result->measures);
    return;
  }
  *result = (vtb_eval_result){.n = t->n,
                              .loss = t->loss / n,
                              .top1 = (double)t->top1 / n,
                              .top5 = (double)t->top5 / n,
                              .seconds = seconds,
                              .images_per_second = seconds > 0 ? n / seconds : 0,
                              .classes = (int)b->classes,
                              .confusion = t->confusion};
}

vtb_status vtb_evaluate(const vtb_program *p, void *const *params, const vtb_eval_options *o,
                        vtb_eval_result *result, vtb_error *err) {
  vtb_bound b;
  vtb_status status = vtb__bound_find(&b, p, o->image, o->logits, false, err);
  if (status == VTB_OK) status = check_options(&b, o, err);
  if (status == VTB_OK) status = vtb__bound_feed(&b, o->dataset, &o->transform, err);
  if (status != VTB_OK) {
    vtb__bound_free(&b);
    return status;
  }
  double start = vtb_now();
  tally t = {0};
  vtb_loader *loader = NULL;
  status = vtb__bound_allocate(&b, 1u << VTB_IO_OUTPUT, err);
  if (status == VTB_OK) {
    for (int i = 0; i < p->n_tensors; i++)
      if (p->tensors[i].io == VTB_IO_PARAM || p->tensors[i].io == VTB_IO_BUFFER)
        b.args[i] = params[i];
    if (o->confusion) t.confusion = calloc((size_t)(b.classes * b.classes), sizeof *t.confusion);
    if (o->confusion && !t.confusion) status = vtb_no_memory(err, "the confusion matrix");
    vtb_loader_options lo = {.dataset = o->dataset,
                             .transform = o->transform,
                             .batch = p->batch,
                             .feeds = b.feeds,
                             .n_feeds = b.n_feeds,
                             .n_epochs = 1,
                             .n_threads = o->loader_threads};
    if (status == VTB_OK) status = vtb_loader_open(&lo, &loader, err);
  }
  if (status == VTB_OK) status = run_batches(&b, loader, o, &t, err);
  if (status == VTB_OK)
    fill_result(result, &t, &b, vtb_now() - start);
  else
    free(t.confusion);
  vtb_loader_close(loader);
  vtb__bound_free(&b);
  return status;
}
