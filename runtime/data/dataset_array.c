/* Arrays by the names of a program's inputs, their first axis the samples: a .safetensors file, or
 * a folder of .npy files, perhaps below one a split. */
#include "runtime/artefact/npy.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/data/dataset_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct arrays {
  vtb_weights *file;
  const vtb_weight **at; /* those of the split */
  const char **names;    /* without the split */
  int n;
  int64_t first; /* sample 0 of the data set is that of the arrays */
} arrays;

static bool of_split(const char *name, const char *split, const char **rest) {
  static const char *const evaluation[] = {"val/", "test/"};
  size_t n = strlen(split);
  if (strncmp(name, split, n) == 0 && name[n] == '/') {
    *rest = name + n + 1;
    return true;
  }
  for (int i = 0; !vtb_streq(split, "train") && i < 2; i++)
    if (vtb_starts_with(name, evaluation[i])) {
      *rest = name + strlen(evaluation[i]);
      return true;
    }
  return false;
}

static bool names_a_split(const char *name) {
  return vtb_starts_with(name, "train/") || vtb_starts_with(name, "val/") ||
         vtb_starts_with(name, "test/");
}

/* The arrays of the split; of a file without splits all of them. */
static vtb_status choose(const char *path, const char *split, arrays *a, bool *split_here,
                         vtb_error *err) {
  a->at = calloc(a->file->n + 1, sizeof *a->at);
  a->names = calloc(a->file->n + 1, sizeof *a->names);
  if (!a->at || !a->names) return vtb_no_memory(err, path);

  for (size_t i = 0; i < a->file->n; i++) *split_here |= names_a_split(a->file->at[i]->name);
  for (size_t i = 0; i < a->file->n; i++) {
    const vtb_weight *w = a->file->at[i];
    const char *name = w->name;
    if (*split_here && !of_split(w->name, split, &name)) continue;
    for (int k = 0; k < a->n; k++)
      if (strcmp(a->names[k], name) == 0)
        return vtb_fail(err, VTB_E_INPUT, "%s has \"%s\" twice, in val and in test", path, name);
    a->at[a->n] = w;
    a->names[a->n++] = name;
  }
  if (!a->n)
    return vtb_fail(err, VTB_E_INPUT, "%s has no arrays for the split \"%s\"", path, split);
  return VTB_OK;
}

static vtb_status count_samples(const char *path, const arrays *a, int64_t *count, vtb_error *err) {
  for (int i = 0; i < a->n; i++) {
    const vtb_weight *w = a->at[i];
    if (w->rank < 1)
      return vtb_fail(err, VTB_E_INPUT, "%s: array %s has no axis of samples", path, w->name);
    if (w->dim[0] < 1)
      return vtb_fail(err, VTB_E_INPUT, "%s: array %s has no samples", path, w->name);
    if (w->rank > 7)
      return vtb_fail(err, VTB_E_INPUT, "%s: array %s has too many axes", path, w->name);
    if (i && w->dim[0] != *count)
      return vtb_fail(err, VTB_E_INPUT, "%s: %s has %lld samples and %s has %lld", path,
                      a->at[0]->name, (long long)*count, w->name, (long long)w->dim[0]);
    *count = w->dim[0];
  }
  return VTB_OK;
}

static bool is_whole(vtb_elem e) { return e >= VTB_ELEM_I64; }

static bool is_label(const vtb_weight *w, const char *name) {
  return (vtb_streq(name, "labels") || vtb_streq(name, "label")) && w->rank >= 1 &&
         w->count == w->dim[0] && is_whole(w->elem);
}

/* Of the labels of all splits, which must agree on how many classes there are. */
static vtb_status count_classes(const vtb_weight *w, vtb_dataset *d, vtb_error *err) {
  int32_t *all = malloc((size_t)w->count * sizeof *all);
  vtb_status status = all ? vtb_weight_read_i32(w, all, err) : vtb_no_memory(err, w->name);
  for (int64_t i = 0; status == VTB_OK && i < w->count; i++)
    if (all[i] >= d->n_classes) d->n_classes = all[i] + 1;
  free(all);
  return status;
}

/* An array of one whole number a sample called "labels" or "label" is the sample's class. */
static vtb_status take_labels(const arrays *a, vtb_dataset *d, vtb_error *err) {
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < a->file->n && status == VTB_OK; i++) {
    const vtb_weight *w = a->file->at[i];
    const char *slash = strchr(w->name, '/');
    if (is_label(w, slash ? slash + 1 : w->name)) status = count_classes(w, d, err);
  }
  for (int i = 0; i < a->n && status == VTB_OK && !d->labels; i++) {
    if (!is_label(a->at[i], a->names[i])) continue;
    vtb_weight part = *a->at[i];
    part.data = (char *)part.data + (size_t)a->first * vtb_elem_bytes(part.elem);
    part.count = part.dim[0] = d->count;
    d->labels = malloc((size_t)d->count * sizeof *d->labels);
    status = d->labels ? vtb_weight_read_i32(&part, d->labels, err) : vtb_no_memory(err, part.name);
  }
  return status;
}

/* Without splits in the file the last tenth, at least one sample, is for testing. */
static vtb_status take(const char *path, const char *split, vtb_dataset *d, vtb_error *err) {
  arrays *a = d->data;
  bool split_here = false;
  int64_t count = 0;
  vtb_status status = choose(path, split, a, &split_here, err);
  if (status == VTB_OK) status = count_samples(path, a, &count, err);
  if (status != VTB_OK) return status;
  d->count = count;
  if (!split_here && count > 1) {
    int64_t last = count / 10 > 0 ? count / 10 : 1;
    bool train = vtb_streq(split, "train");
    a->first = train ? 0 : count - last;
    d->count = train ? count - last : last;
  }
  return take_labels(a, d, err);
}

static vtb_status open_file(const char *path, const char *split, vtb_dataset *d, bool *found,
                            vtb_error *err) {
  *found = vtb_ends_with(path, ".safetensors");
  if (!*found) return VTB_OK;
  arrays *a = calloc(1, sizeof *a);
  d->data = a;
  if (!a) return vtb_no_memory(err, path);
  vtb_status status = vtb_safetensors_load(path, &a->file, err);
  return status == VTB_OK ? take(path, split, d, err) : status;
}

/* Every .npy file of a folder, as "<split>/<stem>" or "<stem>". */
static vtb_status load_folder(const char *folder, const char *split, vtb_weights *into,
                              vtb_error *err) {
  static const char *const endings[] = {".npy", NULL};
  vtb__names files = {0};
  vtb_status status = vtb__list_folder(folder, endings, &files, err);
  for (size_t i = 0; i < files.n && status == VTB_OK; i++) {
    int stem = (int)strlen(files.at[i]) - 4;
    char *path = vtb__join(folder, files.at[i]),
         *name = vtb_strprintf("%s%s%.*s", split, *split ? "/" : "", stem, files.at[i]);
    status = path && name ? vtb_npy_load(path, name, into, err) : vtb_no_memory(err, folder);
    free(path);
    free(name);
  }
  vtb__free_names(&files);
  return status;
}

static vtb_status open_folder(const char *path, const char *split, vtb_dataset *d, bool *found,
                              vtb_error *err) {
  static const char *const splits[] = {"train", "val", "test"};
  arrays *a = calloc(1, sizeof *a);
  vtb_weights *file = vtb_weights_new();
  vtb_status status = a && file ? load_folder(path, "", file, err) : vtb_no_memory(err, path);
  bool no_memory = false;
  bool split_here = status == VTB_OK && !file->n;
  for (int k = 0; k < 3 && split_here && status == VTB_OK; k++) {
    char *sub = vtb__sub_folder(path, splits[k], &no_memory);
    if (sub) status = load_folder(sub, splits[k], file, err);
    free(sub);
  }
  if (status == VTB_OK && no_memory) status = vtb_no_memory(err, path);
  *found = status == VTB_OK && file->n > 0;
  if (!*found) {
    vtb_weights_free(file);
    free(a);
    return status;
  }
  a->file = file;
  d->data = a;
  return take(path, split, d, err);
}

static int count_arrays(const vtb_dataset *d) { return ((const arrays *)d->data)->n; }

static vtb_array_info info_of(const vtb_dataset *d, int array) {
  const arrays *a = d->data;
  const vtb_weight *w = a->at[array];
  vtb_array_info info = {.name = a->names[array], .is_int = is_whole(w->elem), .rank = w->rank - 1};
  for (int i = 0; i < info.rank; i++) info.dim[i] = w->dim[i + 1];
  return info;
}

/* A view of one sample. */
static vtb_status read_sample(const vtb_dataset *d, int array, int64_t i, bool as_int, void *out,
                              vtb_error *err) {
  const arrays *a = d->data;
  vtb_weight one = *a->at[array];
  one.count /= one.dim[0];
  one.data = (char *)one.data + (size_t)((a->first + i) * one.count) * vtb_elem_bytes(one.elem);
  one.dim[0] = 1;
  if (as_int) return vtb_weight_read_i32(&one, out, err);
  vtb_weight_read_f32(&one, out);
  return VTB_OK;
}

static void close_arrays(vtb_dataset *d) {
  arrays *a = d->data;
  vtb_weights_free(a->file);
  free(a->at);
  free(a->names);
  free(a);
}

const vtb__format vtb__array_file = {.is_file = true,
                                     .what = "a .safetensors file of arrays",
                                     .open = open_file,
                                     .arrays = count_arrays,
                                     .array = info_of,
                                     .read = read_sample,
                                     .close = close_arrays};
const vtb__format vtb__array_folder = {.what = ".npy files of arrays",
                                       .open = open_folder,
                                       .arrays = count_arrays,
                                       .array = info_of,
                                       .read = read_sample,
                                       .close = close_arrays};
