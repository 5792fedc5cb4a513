/* Data sets: opening, folders of images, names of classes, samples, moments. IDX is in
 * dataset_idx.c. */
#include "runtime/data/dataset_internal.h"

#include <assert.h>
#include <dirent.h>
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

/* ---- folders of images ----------------------------------------------------------------------- */

typedef VTB_VEC(char *) names;
typedef VTB_VEC(int) numbers;

static int by_bytes(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_names(names *v) {
  for (size_t i = 0; i < v->n; i++) free(v->at[i]);
  vtb_vec_free(v);
}

/* NULL when out of memory. */
static char *join(const char *folder, const char *name) {
  return vtb_strprintf("%s/%s", folder, name);
}

/* Takes the name. */
static bool add_name(names *v, char *name) {
  if (name && vtb_vec_try_push(v, name)) return true;
  free(name);
  return false;
}

static bool is_image_name(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot && (strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".jpg") == 0 ||
                 strcasecmp(dot, ".jpeg") == 0);
}

/* Sorted entries of a folder that are sub-folders, or that are image files. Hidden ones are left
 * out. */
static vtb_status list_folder(const char *folder, bool want_folders, names *out, vtb_error *err) {
  DIR *dir = opendir(folder);
  if (!dir) return vtb_file_fail(err, "open folder", folder);
  const struct dirent *entry;
  bool enough = true;
  while (enough && (entry = readdir(dir)) != NULL) {
    if (entry->d_name[0] == '.') continue;
    char *path = join(folder, entry->d_name);
    bool is_dir = path && vtb_path_is_dir(path);
    enough = path != NULL;
    free(path);
    if (enough && (want_folders ? is_dir : !is_dir && is_image_name(entry->d_name)))
      enough = add_name(out, strdup(entry->d_name));
  }
  closedir(dir);
  if (!enough) return vtb_no_memory(err, folder);
  if (out->n) qsort(out->at, out->n, sizeof *out->at, by_bytes);
  return VTB_OK;
}

static vtb_status add_class(const char *folder, int label, names *files, numbers *labels,
                            vtb_error *err) {
  names in_class = {0};
  vtb_status status = list_folder(folder, false, &in_class, err);
  for (size_t i = 0; i < in_class.n && status == VTB_OK; i++) {
    if (!add_name(files, join(folder, in_class.at[i])) || !vtb_vec_try_push(labels, label))
      status = vtb_no_memory(err, folder);
  }
  free_names(&in_class);
  return status;
}

static int find_class(const names *classes, const char *name) {
  char *const *at =
      classes->n ? bsearch(&name, classes->at, classes->n, sizeof *classes->at, by_bytes) : NULL;
  return at ? (int)(at - classes->at) : -1;
}

vtb_status vtb__folder_open(const char *folder, const char *class_folder, vtb_dataset *d,
                            vtb_error *err) {
  names classes = {0}, here = {0}, files = {0};
  numbers labels = {0};
  vtb_status status = list_folder(class_folder, true, &classes, err);
  if (status == VTB_OK) status = list_folder(folder, true, &here, err);
  for (size_t i = 0; i < here.n && status == VTB_OK; i++) {
    char *sub = join(folder, here.at[i]);
    int label = find_class(&classes, here.at[i]);
    if (!sub)
      status = vtb_no_memory(err, folder);
    else if (label < 0)
      status = vtb_fail(err, VTB_E_INPUT, "%s: class %s is not among those of %s", folder,
                        here.at[i], class_folder);
    else
      status = add_class(sub, label, &files, &labels, err);
    free(sub);
  }
  free_names(&here);
  d->files = files.at;
  d->labels = labels.at;
  d->count = (int64_t)files.n;
  d->class_names = classes.at;
  d->n_classes = (int)classes.n;
  if (status == VTB_OK && !files.n)
    status = vtb_fail(err, VTB_E_INPUT,
                      "%s: no data set here: expected IDX files (train-images-idx3-ubyte.gz ...) "
                      "or one sub-folder of "
                      ".png or .jpg files for each class",
                      folder);
  return status;
}

/* ---- names of classes ------------------------------------------------------------------------ */

/* The lines of a text, without spaces at their ends; false when out of memory. */
static bool read_lines(char *text, names *lines) {
  char *rest = text, *line;
  while ((line = strsep(&rest, "\n")) != NULL) {
    size_t end = strlen(line);
    while (end && (line[end - 1] == '\r' || line[end - 1] == ' ')) line[--end] = 0;
    if (end && !add_name(lines, strdup(line))) return false;
  }
  return true;
}

/* classes.txt beside the data: one name a line, in the order of the labels. */
static vtb_status read_class_file(const char *folder, vtb_dataset *d, vtb_error *err) {
  char *path = join(folder, "classes.txt"), *text = NULL;
  names lines = {0};
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
    free_names(&lines);
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

/* path/name if that is a folder; *no_memory: that could not be found out. Caller frees. */
static char *sub_folder(const char *path, const char *name, bool *no_memory) {
  char *sub = join(path, name);
  if (!sub) *no_memory = true;
  if (sub && vtb_path_is_dir(sub)) return sub;
  free(sub);
  return NULL;
}

/* The folder that holds the split; NULL if the data set has splits but not this one. Caller
 * frees. */
static char *split_folder(const char *path, const char *split, bool *no_memory) {
  static const char *const evaluation[] = {"val", "test", "valid", "validation"};
  char *sub = sub_folder(path, split, no_memory);
  for (int i = 0; !sub && !vtb_streq(split, "train") && i < 4; i++)
    sub = sub_folder(path, evaluation[i], no_memory);
  if (sub || *no_memory) return sub;
  char *train = sub_folder(path, "train", no_memory);
  if (!train && !*no_memory) {
    char *whole = strdup(path);
    *no_memory = !whole;
    return whole;
  }
  free(train);
  return NULL;
}

static vtb_status open_folders(const char *path, const char *split, vtb_dataset *d,
                               vtb_error *err) {
  bool no_memory = false;
  char *folder = split_folder(path, split, &no_memory),
       *train = sub_folder(path, "train", &no_memory);
  vtb_status status;
  if (no_memory)
    status = vtb_no_memory(err, path);
  else if (!folder)
    status = vtb_fail(err, VTB_E_INPUT, "%s: has a folder train but none for \"%s\"", path, split);
  else
    status = vtb__folder_open(folder, train ? train : folder, d, err);
  free(train);
  free(folder);
  return status;
}

static vtb_status open_split(const char *path, const char *split, vtb_dataset *d, vtb_error *err) {
  bool idx = false;
  vtb_status status = vtb__idx_open(path, split, d, &idx, err);
  if (status != VTB_OK) return status;
  if (!idx) return open_folders(path, split, d, err);
  status = read_class_file(path, d, err);
  return status == VTB_OK && !d->class_names ? number_classes(d, err) : status;
}

/* Folders are sorted by class, so theirs are taken at even distances; IDX files are mixed
 * already. */
static void keep_some(vtb_dataset *d, int64_t n) {
  for (int64_t kept = 0, i = 0; d->files && i < d->count; i++) {
    if (kept < n && i == kept * d->count / n) {
      d->labels[kept] = d->labels[i];
      d->files[kept++] = d->files[i];
    } else {
      free(d->files[i]);
    }
  }
  d->count = n;
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
  if (!vtb_path_is_dir(path))
    return vtb_fail(err, VTB_E_INPUT,
                    vtb_path_exists(path) ? "data set %s is not a folder" : "no data set at %s",
                    path);
  vtb_dataset *d = calloc(1, sizeof *d);
  if (!d) return vtb_no_memory(err, path);
  d->name = last_part(path);
  vtb_status status = d->name ? open_split(path, split, d, err) : vtb_no_memory(err, path);
  if (status != VTB_OK) {
    vtb_dataset_free(d);
    return status;
  }
  if (options && options->limit > 0 && options->limit < d->count) keep_some(d, options->limit);
  *out = d;
  return VTB_OK;
}

void vtb_dataset_free(vtb_dataset *d) {
  if (!d) return;
  for (int i = 0; d->class_names && i < d->n_classes; i++) free(d->class_names[i]);
  for (int64_t i = 0; d->files && i < d->count; i++) free(d->files[i]);
  free(d->class_names);
  free(d->files);
  free(d->labels);
  free(d->pixels);
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
  return d->labels[i];
}

const char *vtb_dataset_file(const vtb_dataset *d, int64_t i) {
  assert(i >= 0 && i < d->count);
  return d->files ? d->files[i] : NULL;
}

vtb_status vtb_dataset_image(const vtb_dataset *d, int64_t i, int channels, vtb_image *out,
                             vtb_error *err) {
  const char *file = vtb_dataset_file(d, i);
  if (file) return vtb_image_load(file, channels, out, err);
  size_t n = (size_t)d->height * (size_t)d->width * (size_t)d->channels;
  vtb_image view = {d->width, d->height, d->channels, d->pixels + (size_t)i * n};
  vtb_image made = vtb_image_convert(&view, channels ? channels : d->channels);
  if (!made.pixels) return vtb_no_memory(err, "an image");
  *out = made;
  return VTB_OK;
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
