/* The loader: threads take pieces of batches in order and fill a ring of batches ahead of the
 * consumer.
 *
 * One mutex guards the counters; samples are prepared outside it. Sample s of batch b always lands
 * in row s, so the result does not depend on which thread prepared it.
 */
#include "runtime/data/dataset.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { RING = 3, PIECE = 8 };

typedef struct slot {
  vtb_batch batch;
  int64_t *samples;
  int64_t rows_done;
  bool ready;
} slot;

struct vtb_loader {
  vtb_loader_options o;
  int64_t n_samples, per_epoch, total; /* batches an epoch, batches in all, counted from epoch 0 */
  slot ring[RING];

  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t *threads;
  int n_threads;
  int64_t next_batch, next_row; /* the next piece to prepare */
  int64_t consumed;             /* batches before this one are free again */
  bool holding, stop;           /* holding: the consumer has batch `consumed` */
  vtb_error error;
};

int64_t vtb_loader_batches(int64_t n_samples, int64_t batch, bool drop_last) {
  return drop_last ? n_samples / batch : n_samples / batch + (n_samples % batch != 0);
}

static int64_t image_elements(const vtb_loader *l) {
  return (int64_t)l->o.transform.channels * l->o.transform.height * l->o.transform.width;
}

/* Row `row` of batch `b` into the slot. */
static vtb_status prepare(const vtb_loader *l, slot *s, int64_t b, int64_t row, vtb_error *err) {
  int64_t epoch = b / l->per_epoch, position = b % l->per_epoch * l->o.batch + row,
          n = image_elements(l);
  float *image = s->batch.images + row * n;
  if (position >= l->n_samples) {
    s->batch.labels[row] = -1;
    memset(image, 0, (size_t)n * sizeof *image);
    return VTB_OK;
  }
  int64_t sample = l->o.shuffle ? vtb_permute(l->o.seed, epoch, l->n_samples, position) : position;
  vtb_image im;
  vtb_status status = vtb_dataset_image(l->o.dataset, sample, l->o.transform.channels, &im, err);
  if (status != VTB_OK) return status;
  uint64_t key = vtb_sample_key(l->o.seed, epoch, sample);
  bool enough = vtb_transform_apply(&l->o.transform, &im, key, image);
  vtb_image_free(&im);
  if (!enough) return vtb_no_memory(err, "preparing an image");
  s->batch.labels[row] = vtb_dataset_label(l->o.dataset, sample);
  s->samples[row] = sample;
  return VTB_OK;
}

/* Under the lock: is there a piece, and is its slot free? */
static bool piece_available(const vtb_loader *l) {
  return l->next_batch < l->total && l->next_batch < l->consumed + RING;
}

static void *work(void *user) {
  vtb_loader *l = user;
  pthread_mutex_lock(&l->lock);
  while (!l->stop) {
    if (!piece_available(l)) {
      pthread_cond_wait(&l->changed, &l->lock);
      continue;
    }
    int64_t b = l->next_batch, from = l->next_row,
            to = from + PIECE < l->o.batch ? from + PIECE : l->o.batch;
    l->next_row = to;
    if (to == l->o.batch) {
      l->next_row = 0;
      l->next_batch++;
    }
    pthread_mutex_unlock(&l->lock);
    slot *s = &l->ring[b % RING];
    vtb_error error = {0};
    vtb_status status = VTB_OK;
    for (int64_t row = from; row < to && status == VTB_OK; row++)
      status = prepare(l, s, b, row, &error);
    pthread_mutex_lock(&l->lock);
    if (status == VTB_OK) {
      s->rows_done += to - from;
      if (s->rows_done == l->o.batch) s->ready = true;
    } else { /* a batch that lacks a row is never ready */
      if (!l->error.text[0]) l->error = error;
      l->stop = true;
    }
    pthread_cond_broadcast(&l->changed);
  }
  pthread_mutex_unlock(&l->lock);
  return NULL;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static vtb_status allocate_ring(vtb_loader *l, vtb_error *err) {
  for (int i = 0; i < RING; i++) {
    slot *s = &l->ring[i];
    s->batch.images = vtb_aligned_alloc((size_t)(image_elements(l) * l->o.batch) * sizeof(float));
    s->batch.labels = vtb_aligned_alloc((size_t)l->o.batch * sizeof(int32_t));
    s->samples = calloc((size_t)l->o.batch, sizeof *s->samples);
    s->batch.samples = s->samples;
    if (!s->batch.images || !s->batch.labels || !s->samples)
      return vtb_fail(err, VTB_E_MEMORY, "out of memory for batches of images");
  }
  return VTB_OK;
}

/* Threads of the loader leave signals to the main thread. */
static vtb_status start_threads(vtb_loader *l, vtb_error *err) {
  int want = l->o.n_threads > 0 ? l->o.n_threads : 2;
  l->threads = calloc((size_t)want, sizeof *l->threads);
  if (!l->threads) return vtb_no_memory(err, "the threads that load images");
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  while (l->n_threads < want && pthread_create(&l->threads[l->n_threads], NULL, work, l) == 0)
    l->n_threads++;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (!l->n_threads) return vtb_fail(err, VTB_E_MEMORY, "cannot start a thread for loading images");
  return VTB_OK;
}

vtb_status vtb_loader_open(const vtb_loader_options *o, vtb_loader **out, vtb_error *err) {
  int64_t n = vtb_dataset_count(o->dataset);
  assert(o->batch > 0 && o->n_epochs >= 0);
  int64_t per_epoch = vtb_loader_batches(n, o->batch, o->drop_last);
  if (per_epoch == 0)
    return vtb_fail(err, VTB_E_INPUT, "data set %s has %lld samples, fewer than a batch of %lld",
                    vtb_dataset_name(o->dataset), (long long)n, (long long)o->batch);
  vtb_loader *l = calloc(1, sizeof *l);
  if (!l) return vtb_no_memory(err, "loading images");
  l->o = *o;
  l->n_samples = n;
  l->per_epoch = per_epoch;
  l->total = per_epoch * o->n_epochs;
  l->next_batch = l->consumed = o->start_epoch * per_epoch + o->start_batch;
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->changed, NULL);
  vtb_status status = allocate_ring(l, err);
  if (status == VTB_OK) status = start_threads(l, err);
  if (status != VTB_OK) {
    vtb_loader_close(l);
    return status;
  }
  *out = l;
  return VTB_OK;
}

void vtb_loader_close(vtb_loader *l) {
  if (!l) return;
  pthread_mutex_lock(&l->lock);
  l->stop = true;
  pthread_cond_broadcast(&l->changed);
  pthread_mutex_unlock(&l->lock);
  for (int i = 0; i < l->n_threads; i++) pthread_join(l->threads[i], NULL);
  for (int i = 0; i < RING; i++) {
    free(l->ring[i].batch.images);
    free(l->ring[i].batch.labels);
    free(l->ring[i].samples);
  }
  pthread_cond_destroy(&l->changed);
  pthread_mutex_destroy(&l->lock);
  free(l->threads);
  free(l);
}

/* ---- consuming ------------------------------------------------------------------------------- */

/* Under the lock. */
static void release_held(vtb_loader *l) {
  if (!l->holding) return;
  slot *s = &l->ring[l->consumed % RING];
  s->ready = false;
  s->rows_done = 0;
  l->holding = false;
  l->consumed++;
  pthread_cond_broadcast(&l->changed);
}

vtb_status vtb_loader_next(vtb_loader *l, const vtb_batch **out, vtb_error *err) {
  *out = NULL;
  pthread_mutex_lock(&l->lock);
  release_held(l);
  slot *s = &l->ring[l->consumed % RING];
  vtb_status status = VTB_OK;
  bool end = l->consumed >= l->total;
  while (!end && !s->ready && !l->error.text[0]) pthread_cond_wait(&l->changed, &l->lock);
  if (!end && !s->ready) {
    status = vtb_fail(err, l->error.status, "%s", l->error.text);
  } else if (!end) {
    int64_t b = l->consumed, index = b % l->per_epoch, left = l->n_samples - index * l->o.batch;
    s->batch.n = left < l->o.batch ? left : l->o.batch;
    s->batch.epoch = b / l->per_epoch;
    s->batch.index = index;
    l->holding = true;
    *out = &s->batch;
  }
  pthread_mutex_unlock(&l->lock);
  return status;
}
