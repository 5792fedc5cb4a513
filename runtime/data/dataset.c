/* Data sets: opening, names of classes, samples, moments. Formats have files of their own. */
#include "runtime/data/dataset_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FASHION_MNIST_FOLDER "/usr/share/datasets/fashion-mnist"

/* ---- known data sets ------------------------------------------------------------------------- */

static const struct known {
  const char *name;
  float mean[3], std[3]; /* gray ones repeat the value */
  const char *classes[10];
} known_sets[] = {
    {"fashion-mnist",
     {0.2860f, 0.2860f, 0.2860f},
     {0.3530f, 0.3530f, 0.3530f},
     {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
      "Ankle boot"}},
    {"mnist",
     {0.1307f, 0.1307f, 0.1307f},
     {0.3081f, 0.3081f, 0.3081f},
     {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}},
};
static const float imagenet_mean[3] = {0.485f, 0.456f, 0.406f},
                   imagenet_std[3] = {0.229f, 0.224f, 0.225f};

static const struct known *find_known(const char *name) {
  for (size_t i = 0; i < sizeof known_sets / sizeof *known_sets; i++)
    if (strcasecmp(known_sets[i].name, name) == 0) return &known_sets[i];
  return NULL;
}

/* ---- texts ----------------------------------------------------------------------------------- */

void vtb__free_names(vtb__names *v) {
  for (size_t i = 0; i < v->n; i++) free(v->at[i]);
  vtb_vec_free(v);
}

/* NULL when out of memory. */
char *vtb__join(const char *folder, const char *name) {
  return vtb_strprintf("%s/%s", folder, name);
}

/* Takes the name. */
bool vtb__add_name(vtb__names *v, char *name) {
  if (name && vtb_vec_try_push(v, name)) return true;
  free(name);
  return false;
}

void vtb__free_texts(char **texts, int64_t n) {
  for (int64_t i = 0; texts && i < n; i++) free(texts[i]);
  free(texts);
}

/* ---- names of classes ------------------------------------------------------------------------ */

/* The lines of a text, without spaces at their ends; false when out of memory. */
static bool read_lines(char *text, vtb__names *lines) {
  char *rest = text, *line;
  while ((line = strsep(&rest, "\n")) != NULL) {
    size_t end = strlen(line);
    while (end && (line[end - 1] == '\r' || line[end - 1] == ' ')) line[--end] = 0;
    if (end && !vtb__add_name(lines, strdup(line))) return false;
  }
  return true;
}

/* classes.txt beside the data: one name a line, in the order of the labels. */
static vtb_status read_class_file(const char *folder, vtb_dataset *d, vtb_error *err) {
  char *path = vtb__join(folder, "classes.txt"), *text = NULL;
  vtb__names lines = {0};
  size_t n;
  if (!path) return vtb_no_memory(err, folder);
  vtb_status status = VTB_OK;
  if (vtb_path_exists(path)) status = vtb_file_read(path, 1u << 20, &text, &n, err);
  if (text && !read_lines(text, &lines))
    status = vtb_no_memory(err, path);
  else if (text && lines.n < (size_t)d->n_classes)
    status =
        vtb_fail(err, VTB_E_INPUT, "%s: %zu names for %d classes", path, lines.n, d->n_classes);
  if (text && status == VTB_OK) {
    d->n_classes = (int)lines.n;
    d->class_names = lines.at;
  } else {
    vtb__free_names(&lines);
  }
  free(text);
  free(path);
  return status;
}

static vtb_status number_classes(vtb_dataset *d, vtb_error *err) {
  const struct known *k = find_known(d->name);
  d->class_names = calloc((size_t)d->n_classes, sizeof *d->class_names);
  bool enough = d->class_names != NULL;
  for (int i = 0; enough && i < d->n_classes; i++) {
    char number[16];
    snprintf(number, sizeof number, "%d", i);
    d->class_names[i] = strdup(k && i < 10 ? k->classes[i] : number);
    enough = d->class_names[i] != NULL;
  }
  return enough ? VTB_OK : vtb_no_memory(err, "names of classes");
}

/* ---- opening --------------------------------------------------------------------------------- */

/* NULL when out of memory. */
static char *last_part(const char *path) {
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/') n--;
  size_t start = n;
  while (start && path[start - 1] != '/') start--;
  return strndup(path + start, n - start);
}

static const vtb__format *const formats[] = {
    &vtb__idx_format, &vtb__mask_format, &vtb__array_folder, &vtb__folder_format, &vtb__array_file};
enum { N_FORMATS = sizeof formats / sizeof *formats };

static vtb_status no_format(const char *path, bool is_file, vtb_error *err) {
  char text[512] = "";
  size_t n = 0;
  for (int f = 0; f < N_FORMATS && n < sizeof text; f++)
    if (formats[f]->is_file == is_file)
      n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? " or " : "", formats[f]->what);
  return vtb_fail(err, VTB_E_INPUT, "%s: no data set here: expected %s", path, text);
}

static vtb_status open_split(const char *path, const char *split, vtb_dataset *d, vtb_error *err) {
  vtb_status status = VTB_OK;
  bool found = false;
  bool is_file = !vtb_path_is_dir(path);
  for (int f = 0; f < N_FORMATS && !found && status == VTB_OK; f++) {
    if (formats[f]->is_file != is_file) continue;
    d->format = formats[f];
    status = d->format->open(path, split, d, &found, err);
  }
  if (status != VTB_OK) return status;
  if (!found) return no_format(path, is_file, err);
  if (!d->class_names && !is_file) status = read_class_file(path, d, err);
  return status == VTB_OK && !d->class_names ? number_classes(d, err) : status;
}

vtb_status vtb_dataset_open(const char *path, const vtb_dataset_options *options, vtb_dataset **out,
                            vtb_error *err) {
  const char *split = options && options->split ? options->split : "train";
  if (!vtb_streq(split, "train") && !vtb_streq(split, "val") && !vtb_streq(split, "test"))
    return vtb_fail(err, VTB_E_USAGE, "split \"%s\" is none of train, val, test", split);
  if (vtb_streq(path, "fashion-mnist") && !vtb_path_exists(path)) {
    path = FASHION_MNIST_FOLDER;
    if (!vtb_path_is_dir(path))
      return vtb_fail(err, VTB_E_INPUT,
                      "data set fashion-mnist is not installed (Debian: dataset-fashion-mnist)");
  }
  if (!vtb_path_exists(path)) return vtb_fail(err, VTB_E_INPUT, "no data set at %s", path);
  vtb_dataset *d = calloc(1, sizeof *d);
  if (!d) return vtb_no_memory(err, path);
  d->name = last_part(path);
  vtb_status status = d->name ? open_split(path, split, d, err) : vtb_no_memory(err, path);
  if (status != VTB_OK) {
    vtb_dataset_free(d);
    return status;
  }
  if (options && options->limit > 0 && options->limit < d->count) {
    if (d->format->keep) d->format->keep(d, options->limit);
    d->count = options->limit;
  }
  *out = d;
  return VTB_OK;
}

void vtb_dataset_free(vtb_dataset *d) {
  if (!d) return;
  if (d->data) d->format->close(d);
  vtb__free_texts(d->class_names, d->n_classes);
  free(d->labels);
  free(d->name);
  free(d);
}

/* ---- samples --------------------------------------------------------------------------------- */

int64_t vtb_dataset_count(const vtb_dataset *d) { return d->count; }
int vtb_dataset_classes(const vtb_dataset *d) { return d->n_classes; }
const char *vtb_dataset_class_name(const vtb_dataset *d, int label) {
  return label >= 0 && label < d->n_classes ? d->class_names[label] : "?";
}
const char *vtb_dataset_name(const vtb_dataset *d) { return d->name; }

int vtb_dataset_label(const vtb_dataset *d, int64_t i) {
  assert(i >= 0 && i < d->count);
  return d->labels ? d->labels[i] : -1;
}

bool vtb_dataset_has_images(const vtb_dataset *d) { return d->format->image != NULL; }
bool vtb_dataset_has_labels(const vtb_dataset *d) { return d->labels != NULL; }
bool vtb_dataset_has_masks(const vtb_dataset *d) { return d->format->mask != NULL; }

vtb_status vtb_dataset_mask(const vtb_dataset *d, int64_t i, vtb_image *out, vtb_error *err) {
  assert(i >= 0 && i < d->count && d->format->mask);
  return d->format->mask(d, i, out, err);
}

int vtb_dataset_arrays(const vtb_dataset *d) {
  return d->format->arrays ? d->format->arrays(d) : 0;
}

vtb_array_info vtb_dataset_array(const vtb_dataset *d, int array) {
  return d->format->array(d, array);
}

vtb_status vtb_dataset_read(const vtb_dataset *d, int array, int64_t i, bool as_int, void *out,
                            vtb_error *err) {
  assert(i >= 0 && i < d->count);
  return d->format->read(d, array, i, as_int, out, err);
}

const char *vtb_dataset_file(const vtb_dataset *d, int64_t i) {
  assert(i >= 0 && i < d->count);
  return d->format->file ? d->format->file(d, i) : NULL;
}

vtb_status vtb_dataset_image(const vtb_dataset *d, int64_t i, int channels, vtb_image *out,
                             vtb_error *err) {
  assert(i >= 0 && i < d->count);
  if (!d->format->image)
    return vtb_fail(
        err, VTB_E_INPUT,
        "data set %s has arrays and no images; arrays go into a model that declares its "
        "own losses (`loss name = ...`)",
        d->name);
  return d->format->image(d, i, channels, out, err);
}

vtb_status vtb_dataset_size(const vtb_dataset *d, int *channels, int *height, int *width,
                            vtb_error *err) {
  vtb_image im;
  vtb_status status = vtb_dataset_image(d, 0, 0, &im, err);
  if (status != VTB_OK) return status;
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
    vtb_status status = vtb_dataset_image(d, i, channels, &im, err);
    if (status != VTB_OK) return status;
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
  const struct known *k = find_known(d->name);
  int stored = 3, h, w;
  if (!k) {
    vtb_status status = vtb_dataset_size(d, &stored, &h, &w, err);
    if (status != VTB_OK) return status;
  }
  if (!k && (channels == 1 || stored == 1)) return measure(d, channels, mean, std, err);
  for (int c = 0; c < 3; c++) {
    mean[c] = k ? k->mean[c] : imagenet_mean[c];
    std[c] = k ? k->std[c] : imagenet_std[c];
  }
  return VTB_OK;
}
