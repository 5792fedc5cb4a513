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

/* Other formats and deeper folders, which people take for samples. */
static void note_others(const char *folder, const vtb__others *o, vtb_strbuf *notes) {
  if (o->folders)
    vtb_strbuf_printf(notes, "%s: %lld %s inside the classes' folders left out: %s%s\n", folder,
                      (long long)o->folders, o->folders == 1 ? "folder" : "folders", o->folder,
                      o->folders == 1 ? "" : " ...");
  if (o->files)
    vtb_strbuf_printf(notes,
                      "%s: %lld %s in the classes' folders left out, no .png, .jpg, .jpeg or "
                      ".webp: %s%s\n",
                      folder, (long long)o->files, o->files == 1 ? "file" : "files", o->file,
                      o->files == 1 ? "" : " ...");
}

/* Classes that a folder without images makes; the labels are in order. */
static void note_empty(const char *folder, const vtb__names *classes, const numbers *labels,
                       vtb_strbuf *notes) {
  size_t next = 0, empty = 0, first = 0;
  for (size_t c = 0; c < classes->n; c++) {
    bool here = next < labels->n && labels->at[next] == (int32_t)c;
    if (!here && !empty++) first = c;
    while (next < labels->n && labels->at[next] == (int32_t)c) next++;
  }
  if (empty)
    vtb_strbuf_printf(notes, "%s: %zu of the %zu classes %s no image: %s%s\n", folder, empty,
                      classes->n, empty == 1 ? "has" : "have", classes->at[first],
                      empty == 1 ? "" : " ...");
}

static vtb_status add_classes(const char *folder, const char *class_folder,
                              const vtb__names *classes, vtb__source *d, vtb__names *files,
                              numbers *labels, vtb_error *err) {
  vtb__names here = {0};
  vtb__others others = {0};
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
    if (status == VTB_OK) status = vtb__count_others(sub, vtb__image_endings, &others, err);
    free(sub);
  }
  if (status == VTB_OK) note_others(folder, &others, &d->notes);
  vtb__free_others(&others);
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
  if (status == VTB_OK && folder == class_folder) note_empty(folder, &classes, &labels, &d->notes);
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

static vtb_status load_file(const vtb__source *d, int64_t i, int channels, vtb_image *out,
                            vtb_error *err) {
  return vtb_image_load(file_of(d, i), channels, out, err);
}

static void close_folders(vtb__source *d) { vtb__free_texts(files_of(d), d->count); }

const vtb__format vtb__folder_format = {
    .what = "one sub-folder of .png, .jpg or .webp files for each class",
    .find = find_folders,
    .open = open_folders,
    .image = load_file,
    .file = file_of,
    .close = close_folders};
