/* Folders of images, one sub-folder a class, perhaps below one a split. */
#include "runtime/data/dataset_internal.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef VTB_VEC(int) numbers;

static int by_bytes(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

const char *const vtb__image_endings[] = {".png", ".jpg", ".jpeg", NULL};

static bool ends_in(const char *name, const char *const *endings) {
  const char *dot = strrchr(name, '.');
  for (; dot && *endings; endings++)
    if (strcasecmp(dot, *endings) == 0) return true;
  return false;
}

/* Hidden ones are left out. */
vtb_status vtb__list_folder(const char *folder, const char *const *endings, vtb__names *out,
                            vtb_error *err) {
  DIR *dir = opendir(folder);
  if (!dir) return vtb_file_fail(err, "open folder", folder);
  const struct dirent *entry;
  bool enough = true;
  while (enough && (entry = readdir(dir)) != NULL) {
    if (entry->d_name[0] == '.') continue;
    char *path = vtb__join(folder, entry->d_name);
    bool is_dir = path && vtb_path_is_dir(path);
    enough = path != NULL;
    free(path);
    if (enough && (!endings ? is_dir : !is_dir && ends_in(entry->d_name, endings)))
      enough = vtb__add_name(out, strdup(entry->d_name));
  }
  closedir(dir);
  if (!enough) return vtb_no_memory(err, folder);
  if (out->n) qsort(out->at, out->n, sizeof *out->at, by_bytes);
  return VTB_OK;
}

static vtb_status add_class(const char *folder, int label, vtb__names *files, numbers *labels,
                            vtb_error *err) {
  vtb__names in_class = {0};
  vtb_status status = vtb__list_folder(folder, vtb__image_endings, &in_class, err);
  for (size_t i = 0; i < in_class.n && status == VTB_OK; i++) {
    if (!vtb__add_name(files, vtb__join(folder, in_class.at[i])) ||
        !vtb_vec_try_push(labels, label))
      status = vtb_no_memory(err, folder);
  }
  vtb__free_names(&in_class);
  return status;
}

static int find_class(const vtb__names *classes, const char *name) {
  char *const *at =
      classes->n ? bsearch(&name, classes->at, classes->n, sizeof *classes->at, by_bytes) : NULL;
  return at ? (int)(at - classes->at) : -1;
}

char *vtb__sub_folder(const char *path, const char *name, bool *no_memory) {
  char *sub = vtb__join(path, name);
  if (!sub) *no_memory = true;
  if (sub && vtb_path_is_dir(sub)) return sub;
  free(sub);
  return NULL;
}

/* The folder that holds the split; NULL if the data set has splits but not this one. Caller
 * frees. */
static char *split_folder(const char *path, const char *split, bool *no_memory) {
  static const char *const evaluation[] = {"val", "test", "valid", "validation"};
  char *sub = vtb__sub_folder(path, split, no_memory);
  for (int i = 0; !sub && !vtb_streq(split, "train") && i < 4; i++)
    sub = vtb__sub_folder(path, evaluation[i], no_memory);
  if (sub || *no_memory) return sub;
  char *train = vtb__sub_folder(path, "train", no_memory);
  if (!train && !*no_memory) {
    char *whole = strdup(path);
    *no_memory = !whole;
    return whole;
  }
  free(train);
  return NULL;
}

/* Labels are positions in the list of sub-folders of `class_folder`, which may be another
 * split's. */
static vtb_status read_folder(const char *folder, const char *class_folder, vtb_dataset *d,
                              vtb_error *err) {
  vtb__names classes = {0}, here = {0}, files = {0};
  numbers labels = {0};
  vtb_status status = vtb__list_folder(class_folder, NULL, &classes, err);
  if (status == VTB_OK) status = vtb__list_folder(folder, NULL, &here, err);
  for (size_t i = 0; i < here.n && status == VTB_OK; i++) {
    char *sub = vtb__join(folder, here.at[i]);
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
  vtb__free_names(&here);
  d->data = files.at;
  d->labels = labels.at;
  d->count = (int64_t)files.n;
  d->class_names = classes.at;
  d->n_classes = (int)classes.n;
  return status;
}

static vtb_status open_folders(const char *path, const char *split, vtb_dataset *d, bool *found,
                               vtb_error *err) {
  bool no_memory = false;
  char *folder = split_folder(path, split, &no_memory),
       *train = vtb__sub_folder(path, "train", &no_memory);
  vtb_status status;
  if (no_memory)
    status = vtb_no_memory(err, path);
  else if (!folder)
    status = vtb_fail(err, VTB_E_INPUT, "%s: has a folder train but none for \"%s\"", path, split);
  else
    status = read_folder(folder, train ? train : folder, d, err);
  *found = d->count > 0;
  free(train);
  free(folder);
  return status;
}

/* The file of every sample. */
static char **files_of(const vtb_dataset *d) { return d->data; }

static const char *file_of(const vtb_dataset *d, int64_t i) { return files_of(d)[i]; }

static vtb_status load(const vtb_dataset *d, int64_t i, int channels, vtb_image *out,
                       vtb_error *err) {
  return vtb_image_load(file_of(d, i), channels, out, err);
}

/* They are sorted by class, so they are taken at even distances. */
static void keep_some(vtb_dataset *d, int64_t n) {
  char **files = files_of(d);
  for (int64_t kept = 0, i = 0; i < d->count; i++) {
    if (kept < n && i == kept * d->count / n) {
      d->labels[kept] = d->labels[i];
      files[kept++] = files[i];
    } else {
      free(files[i]);
    }
  }
}

static void close_folders(vtb_dataset *d) { vtb__free_texts(files_of(d), d->count); }

const vtb__format vtb__folder_format = {.what =
                                            "one sub-folder of .png or .jpg files for each class",
                                        .open = open_folders,
                                        .image = load,
                                        .file = file_of,
                                        .keep = keep_some,
                                        .close = close_folders};
