/* Folders of images, one sub-folder a class, perhaps below one a split. */
#include "runtime/data/dataset_internal.h"

#include <stdlib.h>

typedef VTB_VEC(int32_t) numbers;

static vtb_status add_class(const char *folder, int label, vtb__names *files, numbers *labels,
                            vtb_strbuf *notes, vtb_error *err) {
  vtb__names in_class = {0};
  vtb_status status = vtb__list_folder(folder, vtb__image_endings, &in_class, notes, err);
  for (size_t i = 0; i < in_class.n && status == VTB_OK; i++) {
    if (!vtb__add_name(files, vtb__join(folder, in_class.at[i])) ||
        !vtb_vec_try_push(labels, label))
      status = vtb_no_memory(err, folder);
  }
  vtb__free_names(&in_class);
  return status;
}

static vtb_status add_classes(const char *folder, const char *class_folder,
                              const vtb__names *classes, vtb__source *d, vtb__names *files,
                              numbers *labels, vtb_error *err) {
  vtb__names here = {0};
  vtb_status status = vtb__list_folder(folder, NULL, &here, NULL, err);
  for (size_t i = 0; i < here.n && status == VTB_OK; i++) {
    char *sub = vtb__join(folder, here.at[i]);
    int label = vtb__find_name(classes, here.at[i]);
    if (!sub)
      status = vtb_no_memory(err, folder);
    else if (label < 0)
      status = vtb_fail(err, VTB_E_INPUT, "%s: class %s is not among those of %s", folder,
                        here.at[i], class_folder);
    else
      status = add_class(sub, label, files, labels, &d->notes, err);
    free(sub);
  }
  vtb__free_names(&here);
  return status;
}

/* Labels are positions in the list of sub-folders of `class_folder`, which may be another
 * split's. */
static vtb_status read_folder(const char *folder, const char *class_folder, vtb__source *d,
                              vtb_error *err) {
  vtb__names classes = {0}, files = {0};
  numbers labels = {0};
  vtb_status status = vtb__list_folder(class_folder, NULL, &classes, NULL, err);
  if (status == VTB_OK)
    status = add_classes(folder, class_folder, &classes, d, &files, &labels, err);
  if (status == VTB_OK && !files.n)
    status =
        vtb_fail(err, VTB_E_INPUT,
                 "%s: no .png, .jpg, .jpeg or .webp file in its sub-folders, one a class", folder);
  d->data = files.at;
  d->labels = labels.at;
  d->count = (int64_t)files.n;
  d->class_names = classes.at;
  d->n_classes = (int)classes.n;
  d->named = true;
  return status;
}

static vtb_status find_folders(const char *path, unsigned *splits, bool *found, vtb_error *err) {
  vtb__names classes = {0};
  vtb_status status = vtb__split_folders(path, splits, err);
  if (status == VTB_OK && !*splits) status = vtb__list_folder(path, NULL, &classes, NULL, err);
  *found = *splits || classes.n;
  vtb__free_names(&classes);
  return status;
}

static vtb_status open_folders(const char *path, unsigned split, vtb__source *d, vtb_error *err) {
  bool no_memory = false;
  char *here = split ? vtb__split_folder(path, split, &no_memory) : NULL,
       *train = split ? vtb__split_folder(path, VTB__TRAIN, &no_memory) : NULL;
  const char *folder = here ? here : path;
  vtb_status status =
      no_memory ? vtb_no_memory(err, path) : read_folder(folder, train ? train : folder, d, err);
  free(here);
  free(train);
  return status;
}

/* The file of every sample. */
static char **files_of(const vtb__source *d) { return d->data; }

static const char *file_of(const vtb__source *d, int64_t i) { return files_of(d)[i]; }

static vtb_status load(const vtb__source *d, int64_t i, int channels, vtb_image *out,
                       vtb_error *err) {
  return vtb_image_load(file_of(d, i), channels, out, err);
}

static void close_folders(vtb__source *d) { vtb__free_texts(files_of(d), d->count); }

const vtb__format vtb__folder_format = {
    .what = "one sub-folder of .png, .jpg or .webp files for each class",
    .find = find_folders,
    .open = open_folders,
    .image = load,
    .file = file_of,
    .close = close_folders};
