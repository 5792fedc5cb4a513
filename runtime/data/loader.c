/* The loader: threads take pieces of batches in order and fill a ring of batches ahead of the
 * consumer.
 *
 * One mutex guards the counters; samples are prepared outside it. Sample s of batch b always lands
 * in row s, so the result does not depend on which thread prepared it.
 */
#include "runtime/base/random.h"
#include "runtime/data/dataset_internal.h"
#include "runtime/launch/pixels.h"
#include "runtime/launch/threads.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { RING = VTB_LOADER_BATCHES, PIECE = 8 };

typedef struct slot {
  vtb_batch batch;
  void **at; /* a buffer a feed */
  int64_t *samples;
  int64_t rows_done, damaged;
  bool ready;
} slot;

struct vtb_loader {
  vtb_loader_options o;
  vtb__augmenter **augmenters; /* by feed; NULL: the loader has none, or the feed */
  void **rows;                 /* a worker: a place for the row of each feed */
  vtb_preparation moments;     /* as the model says; with feeds of it images are bytes */
  vtb_feed pair[2];            /* the image and the label, where no feeds are asked for */
  int64_t n_samples;
  int64_t per_epoch, total; /* pieces an epoch, pieces in all, counted from epoch 0 */
  slot ring[RING];

  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t *threads;
  int n_threads;
  int64_t next_batch, next_row; /* the next rows to prepare; batches are pieces of whole ones */
  int next_worker;              /* threads count themselves */
  int64_t consumed;             /* batches before this one are free again */
  bool holding, stop;           /* holding: the consumer has batch `consumed` */
  vtb_error error;
};

int64_t vtb_loader_batches(int64_t n_samples, int64_t batch, bool drop_last) {
  return drop_last ? n_samples / batch : n_samples / batch + (n_samples % batch != 0);
}

/* One row of a batch: the sample, unless it is padding, and what is decoded of it. */
typedef struct sample {
  int64_t number;
  uint64_t key;
  bool padding;
  int worker;
  vtb_image image, mask;
} sample;

static bool is_pixels(const vtb_loader *l, const vtb_feed *f) {
  return l->o.pixels && f->kind == VTB_FEED_IMAGE;
}

static vtb_pixels pixels_of(const vtb_loader *l, const vtb_feed *f) {
  return vtb_pixels_layout(l->o.batch, l->o.transform.prepare.channels, f->count);
}

/* Where a row of a batch stands. */
static void *row_at(const vtb_loader *l, const vtb_feed *f, void *at, int64_t row) {
  return is_pixels(l, f) ? (char *)at + pixels_of(l, f).bytes + row * f->count
                         : (char *)at + row * f->count * (int64_t)sizeof(float);
}

static int32_t *erased_at(const vtb_loader *l, const vtb_feed *f, void *at, int64_t row) {
  return (int32_t *)(void *)((char *)at + pixels_of(l, f).erased) + 4 * row;
}

/* The mean and the deviation of each channel. */
static void fill_moments(const vtb_loader *l, const vtb_feed *f, float *out) {
  const vtb_preparation *p = &l->moments;
  for (int64_t c = 0; c < f->count / 2; c++) {
    out[c] = p->mean[c];
    out[f->count / 2 + c] = p->std[c];
  }
}

/* Uniform numbers as the sample's own program draws them. */
static void fill_draw(const vtb_feed *f, const sample *s, float *out) {
  uint32_t seed = (uint32_t)vtb__augment_seed(vtb_view_key(s->key, f->view));
  for (int64_t i = 0; i < f->count; i++)
    out[i] = (float)(vtb_random_hash(seed, (uint32_t)f->stream, (uint32_t)i) >> 8) * 0x1p-24F;
}

/* Pixels are all erased. */
static void pad(const vtb_loader *l, const vtb_feed *f, void *at, int64_t row) {
  void *out = row_at(l, f, at, row);
  if (is_pixels(l, f)) {
    const vtb_preparation *p = &l->o.transform.prepare;
    memcpy(erased_at(l, f, at, row), (int32_t[]){0, 0, p->width, p->height}, 4 * sizeof(int32_t));
    memset(out, 0, (size_t)f->count);
    return;
  }
  if (f->kind == VTB_FEED_MOMENTS) {
    fill_moments(l, f, out);
    return;
  }
  if (f->kind != VTB_FEED_LABEL && f->kind != VTB_FEED_MASK) {
    memset(out, 0, (size_t)f->count * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < f->count; i++) ((int32_t *)out)[i] = -1;
}

static bool has_kind(const vtb_loader *l, vtb_feed_kind kind) {
  for (int i = 0; i < l->o.n_feeds; i++)
    if (l->o.feeds[i].kind == kind) return true;
  return false;
}

/* Decodes the part of the sample that the feeds take. */
static vtb_status decode(const vtb_loader *l, sample *s, vtb_error *err) {
  const vtb_dataset *d = l->o.dataset;
  vtb_status status = VTB_OK;
  bool mask = has_kind(l, VTB_FEED_MASK);
  if (mask || has_kind(l, VTB_FEED_IMAGE))
    status = vtb_dataset_image(d, s->number, l->o.transform.prepare.channels, &s->image, err);
  if (status == VTB_OK && mask) status = vtb_dataset_mask(d, s->number, &s->mask, err);
  if (status == VTB_OK) return VTB_OK;
  vtb_image_free(&s->image);
  return status;
}

/* The sample of a row, or where that is damaged the one after it; where samples come in order, none
 * in its place. Which one it is depends on the data alone. */
static vtb_status decode_sound(const vtb_loader *l, sample *s, vtb_error *err) {
  for (int64_t tries = 0; tries < l->n_samples; tries++) {
    vtb_error why = {0};
    if (decode(l, s, &why) == VTB_OK) return VTB_OK;
    VTB_TRY(vtb_dataset_skip(l->o.dataset, s->number, &why, err));
    s->padding = !l->o.shuffle;
    if (s->padding) return VTB_OK;
    s->number = (s->number + 1) % l->n_samples;
  }
  return vtb_fail(err, VTB_E_INPUT, "data set %s: every sample is damaged",
                  vtb_dataset_name(l->o.dataset));
}

static vtb__augmenter *augmenter_of(const vtb_loader *l, int feed) {
  return l->augmenters ? l->augmenters[feed] : NULL;
}

/* Rows of the other feeds are there already. im: the image, NULL of an array. */
static vtb_status augment(const vtb_loader *l, vtb__augmenter *a, const sample *s, vtb_image *im,
                          uint64_t key, void *const *at, int64_t row, vtb_error *err) {
  vtb_error why = {0};
  void **rows = l->rows + (size_t)s->worker * (size_t)l->o.n_feeds;
  for (int i = 0; i < l->o.n_feeds; i++) rows[i] = row_at(l, &l->o.feeds[i], at[i], row);
  vtb_status status = vtb__augmenter_run(a, s->worker, key, im, rows, &why);
  if (status != VTB_E_INPUT)
    return status == VTB_OK ? status : vtb_fail(err, status, "%s", why.text);
  const char *file = vtb_dataset_file(l->o.dataset, s->number);
  return vtb_fail(err, status, "%s, of sample %lld%s%s%s", why.text, (long long)s->number,
                  file ? " (" : "", file ? file : "", file ? ")" : "");
}

/* The image at the size of its input, as its equations make it, if it has any; number `i` of the
 * feeds. */
static vtb_status fill_image(const vtb_loader *l, int i, sample *s, void *const *at, int64_t row,
                             vtb_error *err) {
  const vtb_feed *f = &l->o.feeds[i];
  vtb__augmenter *a = augmenter_of(l, i);
  uint64_t key = vtb_view_key(s->key, f->view);
  void *out = row_at(l, f, at[i], row);
  vtb_transform t = l->o.transform;
  vtb_status status = VTB_OK;
  t.prepare.height = (int)f->dim[1];
  t.prepare.width = (int)f->dim[2];
  vtb_image im = vtb_transform_frame(&t, &s->image, key);
  if (!im.pixels) return vtb_no_memory(err, "preparing an image");
  if (a) status = augment(l, a, s, &im, key, at, row, err);
  if (status == VTB_OK && is_pixels(l, f))
    vtb_transform_pixels(&t, &im, key, out, erased_at(l, f, at[i], row));
  else if (status == VTB_OK)
    vtb_transform_values(&t, &im, key, out);
  vtb_image_free(&im);
  return status;
}

static vtb_status check_classes(const vtb_loader *l, const vtb_feed *f, const sample *s,
                                vtb_error *err) {
  size_t n = (size_t)s->mask.width * (size_t)s->mask.height;
  for (size_t i = 0; f->classes && i < n; i++) {
    int class = s->mask.pixels[i];
    if (class < f->classes || class == 255) continue;
    return vtb_fail(err, VTB_E_INPUT,
                    "%s: its labels have class %d, the input %s takes 0 to %d, and 255 to ignore",
                    vtb_dataset_file(l->o.dataset, s->number), class, f->name, f->classes - 1);
  }
  return VTB_OK;
}

static vtb_status fill_mask(const vtb_loader *l, const vtb_feed *f, sample *s, int32_t *out,
                            vtb_error *err) {
  VTB_TRY(check_classes(l, f, s, err));
  if (s->mask.width != s->image.width || s->mask.height != s->image.height)
    return vtb_fail(err, VTB_E_INPUT, "%s: the image is %d x %d pixels and its labels %d x %d",
                    vtb_dataset_file(l->o.dataset, s->number), s->image.width, s->image.height,
                    s->mask.width, s->mask.height);
  return vtb_transform_mask(&l->o.transform, &s->mask, s->key, f->height, f->width, out)
             ? VTB_OK
             : vtb_no_memory(err, "preparing labels");
}

static vtb_status fill_array(const vtb_loader *l, const vtb_feed *f, const sample *s, void *out,
                             vtb_error *err) {
  vtb_status status = vtb_dataset_read(l->o.dataset, f->array, s->number, f->is_int, out, err);
  for (int64_t i = 0; status == VTB_OK && f->is_int && f->classes && i < f->count; i++) {
    int32_t class = ((const int32_t *)out)[i];
    if ((class < 0 || class >= f->classes) && class != 255 && class != -1)
      status = vtb_fail(err, VTB_E_INPUT,
                        "data set %s: %s of sample %lld has class %d; the model takes 0 to %d, and "
                        "255 to ignore",
                        vtb_dataset_name(l->o.dataset), f->name, (long long)s->number, class,
                        f->classes - 1);
  }
  return status;
}

static vtb_status fill_row(const vtb_loader *l, int i, sample *s, void *const *at, int64_t row,
                           vtb_error *err) {
  const vtb_feed *f = &l->o.feeds[i];
  vtb__augmenter *a;
  void *out = row_at(l, f, at[i], row);
  switch (f->kind) {
  case VTB_FEED_IMAGE:
    return fill_image(l, i, s, at, row, err);
  case VTB_FEED_LABEL:
    *(int32_t *)out = vtb_dataset_label(l->o.dataset, s->number);
    return VTB_OK;
  case VTB_FEED_MASK:
    return fill_mask(l, f, s, out, err);
  case VTB_FEED_ARRAY:
    VTB_TRY(fill_array(l, f, s, out, err));
    a = augmenter_of(l, i);
    return a ? augment(l, a, s, NULL, vtb_view_key(s->key, f->view), at, row, err) : VTB_OK;
  case VTB_FEED_VALID:
    *(float *)out = 1;
    return VTB_OK;
  case VTB_FEED_DRAW:
    fill_draw(f, s, out);
    return VTB_OK;
  case VTB_FEED_MOMENTS:
    fill_moments(l, f, out);
    return VTB_OK;
  case VTB_FEED_NOTHING:
    break;
  }
  return vtb_fail(err, VTB_E_INTERNAL, "nothing fills the input %s", f->name);
}

/* The place of the first row of piece `b` in its epoch. */
static int64_t begin_of(const vtb_loader *l, int64_t b) {
  int64_t within = b % l->per_epoch;
  return within / l->o.pieces * l->o.whole + l->o.first + within % l->o.pieces * l->o.batch;
}

/* Row `row` of batch `b` into the slot; *damaged: padding stands in its place. */
static vtb_status prepare(const vtb_loader *l, int worker, slot *at, int64_t b, int64_t row,
                          int64_t *damaged, vtb_error *err) {
  int64_t epoch = b / l->per_epoch, position = begin_of(l, b) + row;
  sample s = {.padding = position >= l->n_samples, .worker = worker};
  vtb_status status = VTB_OK;
  if (!s.padding) {
    s.number = l->o.shuffle ? vtb_permute(l->o.seed, epoch, l->n_samples, position) : position;
    status = decode_sound(l, &s, err);
    s.key = vtb_sample_key(l->o.seed, epoch, s.number);
    at->samples[row] = s.number;
    *damaged += s.padding;
  }
  for (int made = 0; made < 2; made++) /* what equations make is made of the others, too */
    for (int i = 0; i < l->o.n_feeds && status == VTB_OK; i++) {
      const vtb_feed *f = &l->o.feeds[i];
      if ((augmenter_of(l, i) != NULL) != (made == 1)) continue;
      if (s.padding)
        pad(l, f, at->at[i], row);
      else
        status = fill_row(l, i, &s, at->at, row, err);
    }
  vtb_image_free(&s.image);
  vtb_image_free(&s.mask);
  return status;
}

/* Under the lock: are there rows, and is their slot free? */
static bool rows_available(const vtb_loader *l) {
  return l->next_batch < l->total && l->next_batch < l->consumed + RING;
}

static void *work(void *user) {
  vtb_loader *l = user;
  pthread_mutex_lock(&l->lock);
  int worker = l->next_worker++;
  while (!l->stop) {
    if (!rows_available(l)) {
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
    int64_t damaged = 0;
    for (int64_t row = from; row < to && status == VTB_OK; row++)
      status = prepare(l, worker, s, b, row, &damaged, &error);
    pthread_mutex_lock(&l->lock);
    if (status == VTB_OK) {
      s->rows_done += to - from;
      s->damaged += damaged;
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

/* The image and the label, of loaders that are not told otherwise. */
static void feed_pair(vtb_loader *l) {
  const vtb_transform *t = &l->o.transform;
  l->pair[0] =
      (vtb_feed){.name = "image",
                 .kind = VTB_FEED_IMAGE,
                 .rank = 3,
                 .dim = {t->prepare.channels, t->prepare.height, t->prepare.width},
                 .count = (int64_t)t->prepare.channels * t->prepare.height * t->prepare.width};
  l->pair[1] = (vtb_feed){.name = "label", .kind = VTB_FEED_LABEL, .is_int = true, .count = 1};
  l->o.feeds = l->pair;
  l->o.n_feeds = 2;
}

static size_t feed_bytes(const vtb_loader *l, const vtb_feed *f) {
  return is_pixels(l, f) ? pixels_of(l, f).size : (size_t)(f->count * l->o.batch) * sizeof(float);
}

/* Values of each channel's pixels are the same in all batches. */
static void fill_values(const vtb_loader *l, const vtb_feed *f, void *at) {
  const vtb_preparation *p = &l->o.transform.prepare;
  if (!is_pixels(l, f)) return;
  float *values = (float *)(void *)((char *)at + pixels_of(l, f).values);
  for (int c = 0; c < p->channels; c++) vtb_image_values(p->mean[c], p->std[c], values + 256 * c);
}

static vtb_status allocate_slot(const vtb_loader *l, slot *s, vtb_error *err) {
  s->at = calloc((size_t)l->o.n_feeds + 1, sizeof *s->at);
  s->samples = calloc((size_t)l->o.batch, sizeof *s->samples);
  s->batch.samples = s->samples;
  s->batch.at = s->at;
  bool enough = s->at && s->samples;
  for (int i = 0; i < l->o.n_feeds && enough; i++) {
    const vtb_feed *f = &l->o.feeds[i];
    s->at[i] = vtb_aligned_alloc(feed_bytes(l, f));
    enough = s->at[i] != NULL;
    if (enough) fill_values(l, f, s->at[i]);
    if (f->kind == VTB_FEED_IMAGE && !s->batch.images) s->batch.images = s->at[i];
    if (f->kind == VTB_FEED_LABEL && !s->batch.labels) s->batch.labels = s->at[i];
  }
  return enough ? VTB_OK : vtb_fail(err, VTB_E_MEMORY, "out of memory for batches of samples");
}

static vtb_status allocate_ring(vtb_loader *l, vtb_error *err) {
  vtb_status status = VTB_OK;
  if (!l->o.n_feeds) feed_pair(l);
  for (int i = 0; i < RING && status == VTB_OK; i++) status = allocate_slot(l, &l->ring[i], err);
  return status;
}

static int threads_wanted(const vtb_loader *l) {
  return l->o.n_threads > 0 ? l->o.n_threads : vtb_default_threads();
}

/* The augment of a feed; NULL: it has none. */
static const vtb_augment *augment_of(const vtb_loader *l, const vtb_feed *f) {
  if (f->kind != VTB_FEED_IMAGE && f->kind != VTB_FEED_ARRAY) return NULL;
  for (int i = 0; i < l->o.n_augments; i++) {
    const vtb_augment *a = &l->o.augments[i];
    if (l->o.feeds == l->pair || vtb_streq(a->input, f->name)) return a;
  }
  return NULL;
}

static vtb_status open_augmenters(vtb_loader *l, vtb_error *err) {
  size_t n = (size_t)l->o.n_feeds, workers = (size_t)threads_wanted(l);
  vtb_status status = VTB_OK;
  if (!l->o.n_augments) return VTB_OK;
  l->augmenters = calloc(n, sizeof *l->augmenters);
  l->rows = calloc(n * workers, sizeof *l->rows);
  if (!l->augmenters || !l->rows) return vtb_no_memory(err, "the threads that load images");
  for (int i = 0; i < l->o.n_feeds && status == VTB_OK; i++) {
    const vtb_augment *a = augment_of(l, &l->o.feeds[i]);
    if (a)
      status =
          vtb__augmenter_open(a, l->o.feeds, l->o.n_feeds, i, (int)workers, &l->augmenters[i], err);
  }
  return status;
}

/* Threads of the loader leave signals to the main thread. */
static vtb_status start_threads(vtb_loader *l, vtb_error *err) {
  int want = threads_wanted(l);
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
  int64_t n = vtb_dataset_count(o->dataset), whole = o->whole ? o->whole : o->batch,
          pieces = o->pieces ? o->pieces : 1;
  assert(o->batch > 0 && o->n_epochs >= 0 && o->first + pieces * o->batch <= whole);
  int64_t batches = vtb_loader_batches(n, whole, o->drop_last);
  if (batches == 0)
    return vtb_fail(err, VTB_E_INPUT, "data set %s has %lld samples, fewer than a batch of %lld",
                    vtb_dataset_name(o->dataset), (long long)n, (long long)whole);
  vtb_loader *l = calloc(1, sizeof *l);
  if (!l) return vtb_no_memory(err, "loading images");
  l->o = *o;
  l->o.whole = whole;
  l->o.pieces = pieces;
  l->n_samples = n;
  l->per_epoch = batches * pieces;
  l->total = l->per_epoch * o->n_epochs;
  l->next_batch = l->consumed = (o->start_epoch * batches + o->start_batch) * pieces;
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->changed, NULL);
  l->moments = o->transform.prepare;
  for (int c = 0; c < 3 && has_kind(l, VTB_FEED_MOMENTS); c++) {
    l->o.transform.prepare.mean[c] = 0;
    l->o.transform.prepare.std[c] = 1 / 255.0F;
  }
  vtb_status status = allocate_ring(l, err);
  if (status == VTB_OK) status = open_augmenters(l, err);
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
    for (int f = 0; l->ring[i].at && f < l->o.n_feeds; f++) free(l->ring[i].at[f]);
    free(l->ring[i].at);
    free(l->ring[i].samples);
  }
  for (int f = 0; l->augmenters && f < l->o.n_feeds; f++) vtb__augmenter_close(l->augmenters[f]);
  free(l->augmenters);
  free(l->rows);
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
  s->rows_done = s->damaged = 0;
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
    int64_t b = l->consumed, left = l->n_samples - begin_of(l, b);
    s->batch.n = left < 0 ? 0 : left < l->o.batch ? left : l->o.batch;
    s->batch.damaged = s->damaged;
    s->batch.epoch = b / l->per_epoch;
    s->batch.index = b % l->per_epoch / l->o.pieces;
    s->batch.piece = b % l->o.pieces;
    l->holding = true;
    *out = &s->batch;
  }
  pthread_mutex_unlock(&l->lock);
  return status;
}
