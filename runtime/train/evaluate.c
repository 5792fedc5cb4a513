/* A program's measures over a data set; accuracy and loss of a classifier. Of programs that run
 * ahead of their results a few batches are under way at a time, images as bytes where the program
 * takes them so: the host prepares a batch, and counts another, while the device runs one. */
#include "runtime/launch/threads.h"
#include "runtime/train/train_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* A batch whose results are not there yet: what its place in the loader's ring no longer says. */
typedef struct under_way {
  int64_t n, damaged;
  int32_t *labels; /* NULL of programs that measure */
} under_way;

/* As many as the two sets of a device's inputs need: one runs, one waits, one is counted. */
enum { MOST_UNDER_WAY = 4 };

typedef struct tally {
  double loss;
  int64_t n, top1, top5;
  int64_t *confusion;
  bool stopped;
} tally;

static void count_batch(tally *t, const under_way *batch, const float *logits, int64_t classes) {
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

typedef struct evaluation {
  vtb_bound *bound;
  const vtb_eval_options *options;
  tally *tally;
  under_way batches[MOST_UNDER_WAY]; /* a ring */
  int most, first, n;                /* most: 0: of programs that wait for each run */
  int64_t done, total;
  int32_t seed;
  int rank, n_ranks;
} evaluation;

/* Profiles are of runs one by one. */
static int most_under_way(const vtb_program *p, const vtb_services *s) {
  bool timed = s && s->size >= sizeof *s && s->kernel_took;
  if (!p->submit || timed) return 0;
  return p->most_ahead < MOST_UNDER_WAY ? p->most_ahead : MOST_UNDER_WAY;
}

static vtb_status open_evaluation(evaluation *e, vtb_error *err) {
  vtb_bound *b = e->bound;
  size_t bytes = (size_t)b->program->batch * sizeof(int32_t);
  e->total = vtb_dataset_count(e->options->dataset);
  e->rank = vtb_ranks_rank(e->options->ranks);
  e->n_ranks = vtb_ranks_count(e->options->ranks);
  e->most = most_under_way(b->program, e->options->services);
  if (b->seed >= 0) b->args[b->seed] = &e->seed;
  for (int i = 0; i < MOST_UNDER_WAY && !vtb__is_measured(b); i++)
    if (!(e->batches[i].labels = malloc(bytes))) return vtb_no_memory(err, "labels");
  return VTB_OK;
}

static void free_evaluation(evaluation *e) {
  for (int i = 0; i < MOST_UNDER_WAY; i++) free(e->batches[i].labels);
}

static vtb_status begin_batch(evaluation *e, const vtb_batch *batch, vtb_error *err) {
  vtb_bound *b = e->bound;
  const vtb_program *p = b->program;
  under_way *u = &e->batches[(e->first + e->n) % MOST_UNDER_WAY];
  u->n = batch->n, u->damaged = batch->damaged;
  if (u->labels) memcpy(u->labels, batch->labels, (size_t)batch->n * sizeof *u->labels);
  vtb__bound_fill(b, batch);
  if (vtb__is_measured(b)) /* noise of its own for every batch */
    e->seed = (int32_t)(batch->index * e->n_ranks + e->rank);
  vtb_status status =
      e->most ? p->submit(p->owner, b->args, err)
              : vtb_program_execute(p, b->args, b->workspace, e->options->services, err);
  if (status != VTB_OK) return status;
  e->n++;
  /* from now on they do not */
  vtb_program_keep(p, 1u << VTB_IO_PARAM | 1u << VTB_IO_BUFFER);
  return VTB_OK;
}

static void count(evaluation *e, const under_way *u) {
  vtb_bound *b = e->bound;
  if (vtb__is_measured(b)) {
    vtb_measures_add(&b->measures, b->args);
    e->tally->n += u->n - u->damaged;
  } else {
    count_batch(e->tally, u, b->args[b->logits], b->classes);
  }
  e->done += u->n;
  if (!e->options->on_batch) return;
  int64_t of_all = e->done * e->n_ranks; /* others are about as far */
  e->options->on_batch(e->options->user, of_all < e->total ? of_all : e->total, e->total);
}

/* Counts all that is under way but the newest `leave`; after an error none is left, and what comes
 * behind it counts for nothing. */
static vtb_status take_results(evaluation *e, int leave, vtb_error *err) {
  const vtb_program *p = e->bound->program;
  vtb_status first = VTB_OK;
  for (; e->n > leave; e->n--, e->first = (e->first + 1) % MOST_UNDER_WAY) {
    vtb_error later = {0};
    vtb_status status =
        e->most ? p->collect(p->owner, e->bound->args, first == VTB_OK ? err : &later) : VTB_OK;
    if (first == VTB_OK && status == VTB_OK) count(e, &e->batches[e->first]);
    if (first == VTB_OK && status != VTB_OK) first = status, leave = 0;
  }
  return first;
}

/* Also after an error nothing stays under way: the next call of the program is another's. */
static vtb_status run_batches(evaluation *e, vtb_loader *loader, vtb_error *err) {
  const vtb_eval_options *o = e->options;
  vtb_error later = {0};
  vtb_program_keep(e->bound->program, 0); /* parameters may have changed since the last time */
  for (;;) {
    const vtb_batch *batch = NULL;
    vtb_status status = vtb_loader_next(loader, &batch, err);
    if (status == VTB_OK && batch && !batch->n) continue; /* the last ones are others' */
    if (status == VTB_OK && batch) status = begin_batch(e, batch, err);
    bool over = status != VTB_OK || !batch || (o->stop && *o->stop);
    bool full = e->n >= e->most;
    vtb_status taken = over   ? take_results(e, 0, status == VTB_OK ? err : &later)
                       : full ? take_results(e, e->most > 1, err)
                              : VTB_OK;
    if (status != VTB_OK || taken != VTB_OK) return status != VTB_OK ? status : taken;
    e->tally->stopped = over && batch && (e->n_ranks > 1 || e->done < e->total);
    if (over) return VTB_OK;
  }
}

/* Sums of all ranks on each; stopped where one is. */
static vtb_status sum_up(const evaluation *e, vtb_error *err) {
  tally *t = e->tally;
  vtb_bound *b = e->bound;
  vtb_ranks *ranks = e->options->ranks;
  double v[] = {t->stopped, (double)t->n, (double)t->top1, (double)t->top5, t->loss};
  if (e->n_ranks == 1) return VTB_OK;
  vtb_status status = vtb_ranks_sum(ranks, v, sizeof v / sizeof *v, err);
  if (status != VTB_OK) return status;
  t->stopped = v[0] > 0;
  t->n = (int64_t)v[1], t->top1 = (int64_t)v[2], t->top5 = (int64_t)v[3], t->loss = v[4];
  if (t->stopped) return VTB_OK;
  if (vtb__is_measured(b)) return vtb_ranks_sum(ranks, b->measures.sums, b->measures.n_sums, err);
  for (int64_t k = 0; t->confusion && k < b->classes && status == VTB_OK; k++) {
    double row[VTB__MOST_ISSUED];
    int64_t *counts = t->confusion + k * b->classes;
    for (int64_t i = 0; i < b->classes && status == VTB_OK; i += VTB__MOST_ISSUED) {
      int64_t n = b->classes - i < VTB__MOST_ISSUED ? b->classes - i : VTB__MOST_ISSUED;
      for (int64_t j = 0; j < n; j++) row[j] = (double)counts[i + j];
      status = vtb_ranks_sum(ranks, row, n, err);
      for (int64_t j = 0; j < n; j++) counts[i + j] = (int64_t)row[j];
    }
  }
  return status;
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

vtb_status vtb_evaluate(vtb_program *p, void *const *params, const vtb_eval_options *o,
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
  evaluation e = {.bound = &b, .options = o, .tally = &t};
  vtb_loader *loader = NULL;
  status = vtb__bound_allocate(&b, 1u << VTB_IO_OUTPUT, err);
  if (status == VTB_OK) {
    for (int i = 0; i < p->n_tensors; i++)
      if (p->tensors[i].io == VTB_IO_PARAM || p->tensors[i].io == VTB_IO_BUFFER)
        b.args[i] = params[i];
    if (o->confusion) t.confusion = calloc((size_t)(b.classes * b.classes), sizeof *t.confusion);
    if (o->confusion && !t.confusion) status = vtb_no_memory(err, "the confusion matrix");
    if (status == VTB_OK) status = open_evaluation(&e, err);
    vtb_loader_options lo = {.dataset = o->dataset,
                             .transform = o->transform,
                             .batch = p->batch,
                             .whole = p->batch * e.n_ranks,
                             .first = p->batch * e.rank,
                             .feeds = b.feeds,
                             .n_feeds = b.n_feeds,
                             .pixels = e.most && vtb__bound_takes_pixels(&b),
                             .n_epochs = 1,
                             .n_threads = o->loader_threads};
    p->uses_pixels = lo.pixels;
    if (status == VTB_OK) status = vtb_loader_open(&lo, &loader, err);
  }
  vtb_services_keep(o->services, true);
  if (status == VTB_OK) status = run_batches(&e, loader, err);
  vtb_services_keep(o->services, false);
  if (status == VTB_OK) status = sum_up(&e, err);
  if (status == VTB_OK)
    fill_result(result, &t, &b, vtb_now() - start);
  else
    free(t.confusion);
  p->uses_pixels = false;
  vtb_loader_close(loader);
  free_evaluation(&e);
  vtb__bound_free(&b);
  return status;
}
