/* Data sets: what is at a path, samples, damaged ones, moments. Formats have files of their own. */
#include "runtime/data/dataset_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FASHION_MNIST_FOLDER "/usr/share/datasets/fashion-mnist"

/* ---- sources --------------------------------------------------------------------------------- */

/* In the order in which they are tried: vtb__<name>_format of dataset_*.c. */
#define FORMATS(F)                                                                                 \
  F(idx) F(cifar) F(mask) F(arrays) F(tars) F(lists) F(folder) F(array) F(tar) F(list)
#define DECLARED(name) extern const vtb__format vtb__##name##_format;
#define LISTED(name) &vtb__##name##_format,
FORMATS(DECLARED)
static const vtb__format *const formats[] = {FORMATS(LISTED)};
enum { N_FORMATS = sizeof formats / sizeof *formats };

static vtb_status no_format(const char *path, bool is_file, vtb_error *err) {
  char text[512] = "";
  size_t n = 0;
  for (int f = 0; f < N_FORMATS && n < sizeof text; f++)
    if (formats[f]->is_file == is_file)
      n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? " or " : "", formats[f]->what);
  return vtb_fail(err, VTB_E_INPUT, "%s: no data set here: expected %s", path, text);
}

vtb_status vtb__find(const char *path, vtb__place *out, vtb_error *err) {
  if (vtb_streq(path, "fashion-mnist") && !vtb_path_exists(path)) {
    path = FASHION_MNIST_FOLDER;
    if (!vtb_path_is_dir(path))
      return vtb_fail(err, VTB_E_INPUT,
                      "data set fashion-mnist is not installed (Debian: dataset-fashion-mnist)");
  }
  if (!vtb_path_exists(path) && !strpbrk(path, "*?{"))
    return vtb_fail(err, VTB_E_INPUT, "no data set at %s%s", path,
                    strchr(path, '/') ? "" : " (known by its name is fashion-mnist alone)");
  bool is_file = !vtb_path_is_dir(path);
  for (int f = 0; f < N_FORMATS; f++) {
    if (formats[f]->is_file != is_file) continue;
    *out = (vtb__place){.path = path, .format = formats[f]};
    bool found = false;
    vtb_status status = formats[f]->find(path, &out->splits, &found, err);
    if (status != VTB_OK || found) return status;
  }
  return no_format(path, is_file, err);
}

/* NULL when out of memory. */
static char *last_part(const char *path) {
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/') n--;
  size_t start = n;
  while (start && path[start - 1] != '/') start--;
  return strndup(path + start, n - start);
}

static vtb_status check_labels(const vtb__source *s, vtb_error *err) {
  for (int64_t i = 0; s->labels && i < s->count; i++)
    if (s->labels[i] < -1 || s->labels[i] >= s->n_classes)
      return vtb_fail(err, VTB_E_INPUT, "data set %s: sample %lld has the label %d, of %d classes",
                      s->name, (long long)i, s->labels[i], s->n_classes);
  return VTB_OK;
}

vtb_status vtb__source_open(const vtb__place *at, unsigned split, vtb__source **out,
                            vtb_error *err) {
  vtb__source *s = calloc(1, sizeof *s);
  if (!s) return vtb_no_memory(err, at->path);
  s->users = 1;
  s->format = at->format;
  s->split = split;
  s->notes = VTB_CHECKED_STRBUF;
  s->name = last_part(at->path);
  pthread_mutex_init(&s->lock, NULL);
  vtb_status status =
      s->name ? at->format->open(at->path, split, s, err) : vtb_no_memory(err, at->path);
  if (status == VTB_OK) status = vtb__name_classes(at->path, s, err);
  if (status == VTB_OK) status = check_labels(s, err);
  if (status == VTB_OK) status = vtb_strbuf_check(&s->notes, err);
  if (status == VTB_OK)
    *out = s;
  else
    vtb__source_leave(s);
  return status;
}

void vtb__source_leave(vtb__source *s) {
  if (!s || atomic_fetch_sub(&s->users, 1) > 1) return;
  if (s->data) s->format->close(s);
  vtb__free_texts(s->class_names, s->n_classes);
  for (size_t i = 0; i < s->damaged.n; i++) free(s->damaged.at[i].why);
  vtb_vec_free(&s->damaged);
  vtb_vec_free(&s->census.seen);
  pthread_mutex_destroy(&s->lock);
  vtb_strbuf_free(&s->notes);
  free(s->labels);
  free(s->name);
  free(s);
}

/* ---- views of them --------------------------------------------------------------------------- */

vtb_status vtb__view_open(vtb__source *s, const vtb_dataset_options *o, vtb_dataset **out,
                          vtb_error *err) {
  vtb_dataset *d = calloc(1, sizeof *d);
  if (!d) return vtb_no_memory(err, s->name);
  atomic_fetch_add(&s->users, 1);
  *d = (vtb_dataset){.source = s,
                     .count = s->count,
                     .n_classes = s->n_classes,
                     .split = s->split ? vtb__split_name(s->split) : "all",
                     .skip_damaged = o->skip_damaged,
                     .notes = VTB_CHECKED_STRBUF};
  *out = d;
  vtb_strbuf_puts(&d->notes, vtb_strbuf_text(&s->notes));
  if (!s->labels) return vtb_strbuf_check(&d->notes, err);
  d->labels = malloc((size_t)s->count * sizeof *d->labels + 1);
  if (!d->labels) return vtb_no_memory(err, s->name);
  memcpy(d->labels, s->labels, (size_t)s->count * sizeof *d->labels);
  return vtb_strbuf_check(&d->notes, err);
}

void vtb_dataset_free(vtb_dataset *d) {
  if (!d) return;
  vtb__source_leave(d->source);
  if (d->class_names) vtb__free_texts(d->class_names, d->n_classes);
  vtb_strbuf_free(&d->notes);
  free(d->labels);
  free(d->pick);
  free(d);
}

const char *vtb_dataset_split(const vtb_dataset *d) { return d->split; }

bool vtb_dataset_held_out(const vtb_dataset *d) { return d->held_out > 0; }

const char *vtb_dataset_notes(const vtb_dataset *d) { return vtb_strbuf_text(&d->notes); }

static int64_t stored(const vtb_dataset *d, int64_t i) {
  assert(i >= 0 && i < d->count);
  return d->pick ? d->pick[i] : i;
}

uint64_t vtb_dataset_fingerprint(const vtb_dataset *d) {
  const vtb__source *s = d->source;
  uint64_t h = vtb_hash_bytes(VTB_HASH_INIT, &s->count, sizeof s->count);
  if (s->labels) h = vtb_hash_bytes(h, s->labels, (size_t)s->count * sizeof *s->labels);
  for (int64_t i = 0; i < s->count && s->format->file; i++) {
    uint64_t name = vtb__sample_hash(s, i);
    h = vtb_hash_bytes(h, &name, sizeof name);
  }
  for (int64_t k = 0; k < 8 && s->format->image; k++) {
    vtb_image im = {0};
    vtb_error ignored = {0};
    if (s->format->image(s, k * s->count / 8, 0, &im, &ignored) == VTB_OK)
      h = vtb_hash_bytes(h, im.pixels, (size_t)im.width * (size_t)im.height * (size_t)im.channels);
    vtb_image_free(&im);
  }
  return h;
}

/* ---- damaged samples ------------------------------------------------------------------------- */

static int64_t allowed(const vtb_dataset *d) {
  if (d->skip_damaged != VTB_SKIP_SOME) return d->skip_damaged;
  return d->source->count > 200 ? d->source->count / 100 : 1;
}

static bool is_listed(const vtb__source *s, int64_t sample) {
  for (size_t i = 0; i < s->damaged.n; i++)
    if (s->damaged.at[i].sample == sample) return true;
  return false;
}

/* Under the lock. */
static vtb_status too_many(const vtb_dataset *d, vtb_error *err) {
  const vtb__source *s = d->source;
  vtb_strbuf list = VTB_CHECKED_STRBUF;
  for (size_t i = 0; i < s->damaged.n && i < 3; i++)
    vtb_strbuf_printf(&list, "%s%s", i ? "; " : "", s->damaged.at[i].why);
  vtb_status status =
      d->skip_damaged == 0
          ? vtb_fail(err, VTB_E_INPUT, "%s", vtb_strbuf_text(&list))
          : vtb_fail(err, VTB_E_INPUT,
                     "more than %lld of the %lld samples of %s are damaged: %s%s (--skip-damaged N "
                     "allows more)",
                     (long long)allowed(d), (long long)s->count, s->name, vtb_strbuf_text(&list),
                     s->damaged.n > 3 ? "; ..." : "");
  vtb_strbuf_free(&list);
  return status;
}

vtb_status vtb_dataset_skip(const vtb_dataset *d, int64_t i, const vtb_error *why, vtb_error *err) {
  vtb__source *s = d->source;
  int64_t sample = stored(d, i);
  if (why->status != VTB_E_INPUT) return vtb_fail(err, why->status, "%s", why->text);
  pthread_mutex_lock(&s->lock);
  vtb_status status = VTB_OK;
  if (!is_listed(s, sample)) {
    vtb__damage found = {sample, strdup(why->text)};
    if (!found.why || !vtb_vec_try_push(&s->damaged, found)) {
      free(found.why);
      status = vtb_no_memory(err, s->name);
    }
  }
  if (status == VTB_OK && (int64_t)s->damaged.n > allowed(d)) status = too_many(d, err);
  pthread_mutex_unlock(&s->lock);
  return status;
}

int64_t vtb_dataset_damaged(const vtb_dataset *d) {
  pthread_mutex_lock(&d->source->lock);
  int64_t n = (int64_t)d->source->damaged.n;
  pthread_mutex_unlock(&d->source->lock);
  return n;
}

const char *vtb_dataset_damage(const vtb_dataset *d, int64_t k) {
  pthread_mutex_lock(&d->source->lock);
  const char *why = d->source->damaged.at[k].why;
  pthread_mutex_unlock(&d->source->lock);
  return why;
}

/* ---- samples --------------------------------------------------------------------------------- */

int64_t vtb_dataset_count(const vtb_dataset *d) { return d->count; }
int vtb_dataset_classes(const vtb_dataset *d) { return d->n_classes; }
const char *vtb_dataset_class_name(const vtb_dataset *d, int label) {
  return label >= 0 && label < d->n_classes
             ? (d->class_names ? d->class_names : d->source->class_names)[label]
             : "?";
}
const char *vtb_dataset_name(const vtb_dataset *d) { return d->source->name; }

int vtb_dataset_label(const vtb_dataset *d, int64_t i) {
  assert(i >= 0 && i < d->count);
  return d->labels ? d->labels[i] : -1;
}

bool vtb_dataset_named(const vtb_dataset *d) { return d->class_names || d->source->named; }

bool vtb_dataset_has_images(const vtb_dataset *d) { return d->source->format->image != NULL; }
bool vtb_dataset_has_labels(const vtb_dataset *d) { return d->labels != NULL; }
bool vtb_dataset_has_masks(const vtb_dataset *d) { return d->source->format->mask != NULL; }

vtb_status vtb_dataset_mask(const vtb_dataset *d, int64_t i, vtb_image *out, vtb_error *err) {
  assert(i >= 0 && i < d->count && d->source->format->mask);
  return d->source->format->mask(d->source, stored(d, i), out, err);
}

int vtb_dataset_arrays(const vtb_dataset *d) {
  return d->source->format->arrays ? d->source->format->arrays(d->source) : 0;
}

vtb_array_info vtb_dataset_array(const vtb_dataset *d, int array) {
  return d->source->format->array(d->source, array);
}

vtb_status vtb_dataset_read(const vtb_dataset *d, int array, int64_t i, bool as_int, void *out,
                            vtb_error *err) {
  assert(i >= 0 && i < d->count);
  return d->source->format->read(d->source, array, stored(d, i), as_int, out, err);
}

const char *vtb_dataset_file(const vtb_dataset *d, int64_t i) {
  assert(i >= 0 && i < d->count);
  return d->source->format->file ? d->source->format->file(d->source, stored(d, i)) : NULL;
}

vtb_status vtb_dataset_image(const vtb_dataset *d, int64_t i, int channels, vtb_image *out,
                             vtb_error *err) {
  assert(i >= 0 && i < d->count);
  if (!d->source->format->image)
    return vtb_fail(
        err, VTB_E_INPUT,
        "data set %s has arrays and no images; arrays go into a model that declares its "
        "own losses (`loss name = ...`)",
        d->source->name);
  return d->source->format->image(d->source, stored(d, i), channels, out, err);
}

/* An image at or behind sample *i, which becomes its number; damaged ones are passed over. */
static vtb_status sound_image(const vtb_dataset *d, int64_t *i, int channels, vtb_image *out,
                              vtb_error *err) {
  vtb_error why = {0};
  vtb_status status = vtb_dataset_image(d, *i, channels, out, &why);
  while (status != VTB_OK && *i + 1 < d->count && d->source->format->image) {
    if (vtb_dataset_skip(d, *i, &why, err) != VTB_OK) return err->status;
    why = (vtb_error){0};
    status = vtb_dataset_image(d, ++*i, channels, out, &why);
  }
  return status == VTB_OK ? VTB_OK : vtb_fail(err, status, "%s", why.text);
}

/* Size of the first sample. */
static vtb_status first_size(const vtb_dataset *d, int *channels, int *height, int *width,
                             vtb_error *err) {
  vtb_image im;
  int64_t first = 0;
  VTB_TRY(sound_image(d, &first, 0, &im, err));
  *channels = im.channels;
  *height = im.height;
  *width = im.width;
  vtb_image_free(&im);
  return VTB_OK;
}

/* ---- moments --------------------------------------------------------------------------------- */

static vtb_status measure(const vtb_dataset *d, int channels, float mean[3], float std[3],
                          vtb_error *err) {
  double sum[3] = {0}, squares[3] = {0}, n = 0;
  int64_t stride = d->count > 2048 ? d->count / 2048 : 1;
  for (int64_t i = 0; i < d->count; i += stride) {
    vtb_image im;
    int64_t at = i;
    VTB_TRY(sound_image(d, &at, channels, &im, err));
    size_t pixels = (size_t)im.width * (size_t)im.height;
    for (size_t p = 0; p < pixels; p++)
      for (int c = 0; c < channels; c++) {
        double v = im.pixels[p * (size_t)channels + (size_t)c] / 255.0;
        sum[c] += v;
        squares[c] += v * v;
      }
    n += (double)pixels;
    vtb_image_free(&im);
  }
  for (int c = 0; c < channels; c++) {
    double m = sum[c] / n, var = squares[c] / n - m * m;
    mean[c] = (float)m;
    std[c] = var > 1e-6 ? (float)sqrt(var) : 1.0f;
  }
  return VTB_OK;
}

vtb_status vtb_dataset_moments(const vtb_dataset *d, int channels, float mean[3], float std[3],
                               vtb_error *err) {
  static const float imagenet_mean[3] = {0.485f, 0.456f, 0.406f},
                     imagenet_std[3] = {0.229f, 0.224f, 0.225f};
  const vtb__known *k = vtb__find_known(d->source->name);
  int stored_channels = 3, h, w;
  if (!k) VTB_TRY(first_size(d, &stored_channels, &h, &w, err));
  if (!k && (channels == 1 || stored_channels == 1)) return measure(d, channels, mean, std, err);
  for (int c = 0; c < 3; c++) {
    mean[c] = k ? k->mean : imagenet_mean[c];
    std[c] = k ? k->std : imagenet_std[c];
  }
  return VTB_OK;
}
