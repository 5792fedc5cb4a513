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
} arrays;

/* The split that a name begins with, 0: none; *rest: the name without it. */
static unsigned split_of(const char *name, const char **rest) {
  *rest = name;
  for (unsigned split = VTB__TRAIN; split <= VTB__TEST; split *= 2) {
    size_t n = strlen(vtb__split_name(split));
    if (strncmp(name, vtb__split_name(split), n) != 0 || name[n] != '/') continue;
    *rest = name + n + 1;
    return split;
  }
  return 0;
}

static unsigned splits_of(const vtb_weights *file) {
  unsigned splits = 0;
  const char *rest;
  for (size_t i = 0; i < file->n; i++) splits |= split_of(file->at[i]->name, &rest);
  return splits;
}

/* The arrays of the split; of a file without splits all of them. */
static vtb_status choose_arrays(const char *path, unsigned split, arrays *a, vtb_error *err) {
  a->at = calloc(a->file->n + 1, sizeof *a->at);
  a->names = calloc(a->file->n + 1, sizeof *a->names);
  if (!a->at || !a->names) return vtb_no_memory(err, path);
  for (size_t i = 0; i < a->file->n; i++) {
    const char *name;
    if (split_of(a->file->at[i]->name, &name) != split && split) continue;
    a->at[a->n] = a->file->at[i];
    a->names[a->n++] = split ? name : a->file->at[i]->name;
  }
  if (!a->n)
    return vtb_fail(err, VTB_E_INPUT, "%s has no arrays for the split \"%s\"", path,
                    vtb__split_name(split));
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

/* Classes by the labels of all splits, which must agree on how many there are. */
static vtb_status count_classes(const vtb_weight *w, vtb__source *d, vtb_error *err) {
  int32_t *all = malloc((size_t)w->count * sizeof *all);
  vtb_status status = all ? vtb_weight_read_i32(w, all, err) : vtb_no_memory(err, w->name);
  d->census.all_splits = true;
  if (status == VTB_OK) status = vtb__count_labels(d, w->name, all, w->count, err);
  free(all);
  return status;
}

/* An array of one whole number a sample called "labels" or "label" is the sample's class. */
static vtb_status take_labels(const arrays *a, vtb__source *d, vtb_error *err) {
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < a->file->n && status == VTB_OK; i++) {
    const vtb_weight *w = a->file->at[i];
    const char *slash = strchr(w->name, '/');
    if (is_label(w, slash ? slash + 1 : w->name)) status = count_classes(w, d, err);
  }
  for (int i = 0; i < a->n && status == VTB_OK && !d->labels; i++) {
    if (!is_label(a->at[i], a->names[i])) continue;
    d->labels = malloc((size_t)d->count * sizeof *d->labels);
    status = d->labels ? vtb_weight_read_i32(a->at[i], d->labels, err)
                       : vtb_no_memory(err, a->at[i]->name);
  }
  return status;
}

static vtb_status take_arrays(const char *path, unsigned split, vtb__source *d, vtb_error *err) {
  arrays *a = d->data;
  vtb_status status = choose_arrays(path, split, a, err);
  if (status == VTB_OK) status = count_samples(path, a, &d->count, err);
  return status == VTB_OK ? take_labels(a, d, err) : status;
}

static vtb_status find_file(const char *path, unsigned *splits, bool *found, vtb_error *err) {
  *found = vtb_ends_with(path, ".safetensors");
  if (!*found) return VTB_OK;
  vtb_weights *file = NULL;
  vtb_status status = vtb_safetensors_load(path, &file, err);
  if (status == VTB_OK) *splits = splits_of(file);
  vtb_weights_free(file);
  return status;
}

static vtb_status open_file(const char *path, unsigned split, vtb__source *d, vtb_error *err) {
  arrays *a = calloc(1, sizeof *a);
  d->data = a;
  if (!a) return vtb_no_memory(err, path);
  vtb_status status = vtb_safetensors_load(path, &a->file, err);
  return status == VTB_OK ? take_arrays(path, split, d, err) : status;
}

static const char *const npy_endings[] = {".npy", NULL};

/* Every .npy file of a folder, as "<split>/<stem>" or "<stem>". */
static vtb_status load_folder(const char *folder, const char *split, vtb_weights *into,
                              vtb_error *err) {
  vtb__names files = {0};
  vtb_status status = vtb__list_folder(folder, npy_endings, &files, NULL, err);
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

static vtb_status has_arrays(const char *folder, bool *found, vtb_error *err) {
  vtb__names files = {0};
  vtb_status status = vtb__list_folder(folder, npy_endings, &files, NULL, err);
  *found = files.n > 0;
  vtb__free_names(&files);
  return status;
}

static vtb_status find_folder(const char *path, unsigned *splits, bool *found, vtb_error *err) {
  bool no_memory = false;
  vtb_status status = has_arrays(path, found, err);
  if (status != VTB_OK || *found) return status;
  for (unsigned split = VTB__TRAIN; split <= VTB__TEST && status == VTB_OK; split *= 2) {
    char *sub = vtb__split_folder(path, split, &no_memory);
    bool here = false;
    if (sub) status = has_arrays(sub, &here, err);
    if (here) *splits |= split;
    free(sub);
  }
  if (status == VTB_OK && no_memory) status = vtb_no_memory(err, path);
  *found = *splits != 0;
  return status;
}

/* All splits, as labels of all of them count. */
static vtb_status open_folder(const char *path, unsigned split, vtb__source *d, vtb_error *err) {
  arrays *a = calloc(1, sizeof *a);
  d->data = a;
  if (a) a->file = vtb_weights_new();
  if (!a || !a->file) return vtb_no_memory(err, path);
  vtb_status status = split ? VTB_OK : load_folder(path, "", a->file, err);
  bool no_memory = false;
  for (unsigned k = VTB__TRAIN; k <= VTB__TEST && split && status == VTB_OK; k *= 2) {
    char *sub = vtb__split_folder(path, k, &no_memory);
    if (sub) status = load_folder(sub, vtb__split_name(k), a->file, err);
    free(sub);
  }
  if (status == VTB_OK && no_memory) status = vtb_no_memory(err, path);
  return status == VTB_OK ? take_arrays(path, split, d, err) : status;
}

static int count_arrays(const vtb__source *d) { return ((const arrays *)d->data)->n; }

static vtb_array_info info_of(const vtb__source *d, int array) {
  const arrays *a = d->data;
  const vtb_weight *w = a->at[array];
  vtb_array_info info = {.name = a->names[array], .is_int = is_whole(w->elem), .rank = w->rank - 1};
  for (int i = 0; i < info.rank; i++) info.dim[i] = w->dim[i + 1];
  return info;
}

/* A view of one sample. */
static vtb_status read_sample(const vtb__source *d, int array, int64_t i, bool as_int, void *out,
                              vtb_error *err) {
  const arrays *a = d->data;
  vtb_weight one = *a->at[array];
  one.count /= one.dim[0];
  one.data = (char *)one.data + (size_t)(i * one.count) * vtb_elem_bytes(one.elem);
  one.dim[0] = 1;
  if (as_int) return vtb_weight_read_i32(&one, out, err);
  vtb_weight_read_f32(&one, out);
  return VTB_OK;
}

static void close_arrays(vtb__source *d) {
  arrays *a = d->data;
  vtb_weights_free(a->file);
  free(a->at);
  free(a->names);
  free(a);
}

const vtb__format vtb__array_format = {.is_file = true,
                                       .ordered = true,
                                       .what = "a .safetensors file of arrays",
                                       .find = find_file,
                                       .open = open_file,
                                       .arrays = count_arrays,
                                       .array = info_of,
                                       .read = read_sample,
                                       .close = close_arrays};
const vtb__format vtb__arrays_format = {.ordered = true,
                                        .what = ".npy files of arrays",
                                        .find = find_folder,
                                        .open = open_folder,
                                        .arrays = count_arrays,
                                        .array = info_of,
                                        .read = read_sample,
                                        .close = close_arrays};
