/* Equations of a sample, run by the loader's threads: an image's bytes and the rows of other feeds
 * go in as numbers, and come out as what they were of.
 *
 * All memory is taken when it opens, a part for each thread; a run copies the sample in, calls the
 * program, which works in place, and copies it out. */
#include "runtime/base/random.h"
#include "runtime/data/dataset_internal.h"
#include "runtime/launch/threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct worker {
  void **args; /* by tensor */
  void *workspace;
  vtb_services *services;
} worker;

struct vtb__augmenter {
  const vtb_augment *augment;
  const vtb_feed *feeds;
  int image; /* its feed */
  int *fed;  /* by tensor: the feed; -1: the seed */
  worker *workers;
  int n_workers;
};

enum { DRAW_AUGMENT = 128 }; /* behind those of transform.c */

static const vtb_tensor_info *tensor(const vtb__augmenter *a, int i) {
  return &a->augment->program->tensors[i];
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool is_seed(const vtb_tensor_info *t) { return t->is_int && strcmp(t->name, "seed") == 0; }

/* The feed of the tensor's name; without one it is the picture, which views and classifiers call
 * otherwise than their inputs. */
static vtb_status find_feed(vtb__augmenter *a, int n_feeds, int i, vtb_error *err) {
  const vtb_tensor_info *t = tensor(a, i);
  a->fed[i] = a->image;
  if (is_seed(t)) a->fed[i] = -1;
  for (int f = 0; f < n_feeds && !is_seed(t); f++)
    if (strcmp(a->feeds[f].name, t->name) == 0) a->fed[i] = f;
  if (a->fed[i] < 0 || vtb_tensor_info_count(t) == a->feeds[a->fed[i]].count) return VTB_OK;
  return vtb_fail(err, VTB_E_INPUT, "%s: the training has no input \"%s\" that augment can take",
                  a->augment->where, t->name);
}

static bool allocate_worker(const vtb__augmenter *a, worker *w) {
  const vtb_program *p = a->augment->program;
  w->args = calloc((size_t)p->n_tensors + 1, sizeof *w->args);
  w->workspace = vtb_aligned_alloc((size_t)p->workspace_bytes);
  w->services = vtb_services_default(1);
  bool enough = w->args && w->workspace && w->services;
  for (int i = 0; i < p->n_tensors && enough; i++) {
    w->args[i] = vtb_aligned_alloc((size_t)vtb_tensor_info_count(&p->tensors[i]) * sizeof(float));
    enough = w->args[i] != NULL;
  }
  return enough;
}

vtb_status vtb__augmenter_open(const vtb_augment *augment, const vtb_feed *feeds, int n_feeds,
                               int image, int n_workers, vtb__augmenter **out, vtb_error *err) {
  const vtb_program *p = augment->program;
  vtb__augmenter *a = calloc(1, sizeof *a);
  if (!a) return vtb_no_memory(err, "augment");
  *a = (vtb__augmenter){.augment = augment, .feeds = feeds, .image = image, .n_workers = n_workers};
  a->fed = calloc((size_t)p->n_tensors + 1, sizeof *a->fed);
  a->workers = calloc((size_t)n_workers, sizeof *a->workers);
  vtb_status status = a->fed && a->workers ? VTB_OK : vtb_no_memory(err, "augment");
  for (int i = 0; i < p->n_tensors && status == VTB_OK; i++) status = find_feed(a, n_feeds, i, err);
  for (int k = 0; k < n_workers && status == VTB_OK; k++)
    if (!allocate_worker(a, &a->workers[k])) status = vtb_no_memory(err, "augment");
  if (status != VTB_OK) {
    vtb__augmenter_close(a);
    return status;
  }
  *out = a;
  return VTB_OK;
}

void vtb__augmenter_close(vtb__augmenter *a) {
  if (!a) return;
  for (int k = 0; a->workers && k < a->n_workers; k++) {
    worker *w = &a->workers[k];
    for (int i = 0; w->args && i < a->augment->program->n_tensors; i++) free(w->args[i]);
    free(w->args);
    free(w->workspace);
    vtb_services_free(w->services);
  }
  free(a->workers);
  free(a->fed);
  free(a);
}

int32_t vtb__augment_seed(uint64_t key) {
  return (int32_t)(vtb_random_u64(key, DRAW_AUGMENT) >> 33);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void planes_of(const vtb_image *im, float *out) {
  size_t n = (size_t)im->width * (size_t)im->height, c = (size_t)im->channels;
  for (size_t k = 0; k < c; k++)
    for (size_t i = 0; i < n; i++) out[k * n + i] = im->pixels[i * c + k];
}

/* Rounded, to even where two are as near, and cut to a byte. */
static void bytes_of(const float *in, vtb_image *im) {
  size_t n = (size_t)im->width * (size_t)im->height, c = (size_t)im->channels;
  for (size_t k = 0; k < c; k++)
    for (size_t i = 0; i < n; i++) {
      float x = in[k * n + i];
      x = x < 0 ? 0 : x > 255 ? 255 : x;
      im->pixels[i * c + k] = (uint8_t)lrintf(x);
    }
}

static void put_in(const vtb_feed *f, const void *row, float *out) {
  const int32_t *whole = row;
  if (!f->is_int) memcpy(out, row, (size_t)f->count * sizeof *out);
  for (int64_t i = 0; f->is_int && i < f->count; i++) out[i] = (float)whole[i];
}

static void take_out(const vtb_feed *f, const float *in, void *row) {
  int32_t *whole = row;
  if (!f->is_int) memcpy(row, in, (size_t)f->count * sizeof *in);
  for (int64_t i = 0; f->is_int && i < f->count; i++) whole[i] = (int32_t)lrintf(in[i]);
}

/* A sample is one that a data set could have given. bytes: numbers will be cut to them. */
static vtb_status check(const vtb__augmenter *a, int i, const float *x, bool bytes,
                        vtb_error *err) {
  const vtb_feed *f = &a->feeds[a->fed[i]];
  const char *where = a->augment->where, *name = tensor(a, i)->name;
  bool numbers = true, finite = true;
  for (int64_t k = 0; k < f->count; k++) numbers &= x[k] == x[k], finite &= isfinite(x[k]) != 0;
  if (!numbers)
    return vtb_fail(err, VTB_E_INPUT, "%s: augment gives %s that is not a number (NaN)", where,
                    name);
  if (!finite && !bytes && !f->is_int)
    return vtb_fail(err, VTB_E_INPUT, "%s: augment gives %s that is not finite", where, name);
  for (int64_t k = 0; f->is_int && k < f->count; k++) {
    float c = rintf(x[k]);
    bool known = c == 255 || c == -1 || (c >= 0 && (f->classes ? c < (float)f->classes : c < 1e9f));
    if (!known)
      return vtb_fail(err, VTB_E_INPUT, "%s: augment gives %s class %g; the model takes 0 to %d",
                      where, name, (double)x[k], f->classes - 1);
  }
  return VTB_OK;
}

vtb_status vtb__augmenter_run(vtb__augmenter *a, int number, uint64_t key, vtb_image *im,
                              void *const *rows, vtb_error *err) {
  const vtb_program *p = a->augment->program;
  worker *w = &a->workers[number];
  int32_t seed = vtb__augment_seed(key);
  for (int i = 0; i < p->n_tensors; i++) {
    if (p->tensors[i].io != VTB_IO_INPUT) continue;
    if (a->fed[i] < 0)
      memcpy(w->args[i], &seed, sizeof seed);
    else if (a->fed[i] == a->image && im)
      planes_of(im, w->args[i]);
    else
      put_in(&a->feeds[a->fed[i]], rows[a->fed[i]], w->args[i]);
  }
  vtb_status status = vtb_program_execute(p, w->args, w->workspace, w->services, err);
  for (int i = 0; i < p->n_tensors && status == VTB_OK; i++) {
    if (p->tensors[i].io != VTB_IO_OUTPUT) continue;
    bool bytes = a->fed[i] == a->image && im;
    status = check(a, i, w->args[i], bytes, err);
    if (status == VTB_OK && bytes)
      bytes_of(w->args[i], im);
    else if (status == VTB_OK)
      take_out(&a->feeds[a->fed[i]], w->args[i], rows[a->fed[i]]);
  }
  return status;
}
