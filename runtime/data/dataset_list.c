/* Lists of images with their labels: CSV files with a header, whose columns "file" and "label" (or
 * what else they are commonly called) are taken. Paths are relative to the list's folder. */
#include "runtime/data/dataset_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define LIST_LIMIT ((size_t)1 << 30)

static const char *const file_columns[] = {"file",       "filename", "file_name", "image",
                                           "image_path", "filepath", "path",      NULL};
static const char *const label_columns[] = {"label",    "class",      "target",
                                            "category", "class_name", NULL};

typedef struct list {
  vtb__names files, labels;
} list;

/* ---- CSV, RFC 4180 --------------------------------------------------------------------------- */

/* The field at *at, in place, and behind it *end: ',', '\n' or 0. *at moves behind the end. */
static char *next_field(char **at, char *end) {
  char *from = *at, *to = from, *field = from;
  bool quoted = *from == '"';
  if (quoted) from++;
  while (*from && (quoted || (*from != ',' && *from != '\n'))) {
    if (quoted && *from == '"') {
      if (from[1] != '"') {
        quoted = false;
        from++;
        continue;
      }
      from++;
    }
    *to++ = *from++;
  }
  *end = *from;
  *at = *from ? from + 1 : from;
  if (to > field && *end != ',' && to[-1] == '\r') to--;
  *to = 0;
  return field;
}

static bool is_among(const char *name, const char *const *names) {
  for (; *names; names++)
    if (strcasecmp(name, *names) == 0) return true;
  return false;
}

/* The columns that count, from the header, which *at moves behind; -1: there is none. */
static void find_columns(char **at, int *file, int *label) {
  char end = ',';
  *file = *label = -1;
  if (strncmp(*at, "\xef\xbb\xbf", 3) == 0) *at += 3;
  for (int i = 0; end == ','; i++) {
    const char *name = next_field(at, &end);
    if (*file < 0 && is_among(name, file_columns)) *file = i;
    if (*label < 0 && is_among(name, label_columns)) *label = i;
  }
}

/* ---- reading --------------------------------------------------------------------------------- */

static vtb_status read_text(const char *path, char **text, vtb_error *err) {
  size_t n;
  vtb_status status = vtb_file_read(path, LIST_LIMIT, text, &n, err);
  if (status == VTB_OK && strlen(*text) != n) {
    free(*text);
    status = vtb_fail(err, VTB_E_INPUT, "%s: no text: byte %zu is 0", path, strlen(*text));
  }
  return status;
}

/* Pipes and devices are left out; what is not there is a damaged sample. */
static vtb_status add_row(const char *folder, const char *file, const char *label, list *l,
                          vtb__source *d, vtb_error *err) {
  struct stat st;
  char *path = file[0] == '/' ? strdup(file) : vtb__join(folder, file);
  if (!path) return vtb_no_memory(err, folder);
  if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
    vtb_strbuf_printf(&d->notes, "%s is left out: it is no regular file\n", path);
    free(path);
    return VTB_OK;
  }
  return vtb__add_name(&l->files, path) && vtb__add_name(&l->labels, strdup(label))
             ? VTB_OK
             : vtb_no_memory(err, folder);
}

static vtb_status read_rows(const char *path, const char *folder, char *at, list *l, vtb__source *d,
                            vtb_error *err) {
  int file, label;
  vtb_status status = VTB_OK;
  find_columns(&at, &file, &label);
  if (file < 0 || label < 0)
    return vtb_fail(err, VTB_E_INPUT, "%s: its first line names no columns \"file\" and \"label\"",
                    path);
  for (int64_t row = 2; *at && status == VTB_OK; row++) {
    const char *of_file = NULL, *of_label = NULL;
    char end = ',';
    bool empty = *at == '\n' || (*at == '\r' && at[1] == '\n');
    for (int i = 0; end == ','; i++) {
      const char *field = next_field(&at, &end);
      if (i == file) of_file = field;
      if (i == label) of_label = field;
    }
    if (empty) continue;
    if (!of_file || !of_label || !*of_file || !*of_label)
      return vtb_fail(err, VTB_E_INPUT, "%s: row %lld has no file or no label", path,
                      (long long)row);
    status = add_row(folder, of_file, of_label, l, d, err);
  }
  return status;
}

static vtb_status open_list(const char *path, vtb__source *d, vtb_error *err) {
  list *l = d->data = calloc(1, sizeof *l);
  if (!l) return vtb_no_memory(err, path);
  const char *slash = strrchr(path, '/');
  char *text = NULL, *folder = slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
  vtb_status status = folder ? read_text(path, &text, err) : vtb_no_memory(err, path);
  if (status == VTB_OK) {
    status = read_rows(path, folder, text, l, d, err);
    free(text);
  }
  free(folder);
  d->count = (int64_t)l->files.n;
  if (status == VTB_OK && !d->count)
    status = vtb_fail(err, VTB_E_INPUT, "%s: it lists no images", path);
  return status == VTB_OK ? vtb__take_labels(l->labels.at, d->count, false, d, err) : status;
}

/* ---- finding --------------------------------------------------------------------------------- */

static vtb_status find_file(const char *path, unsigned *splits, bool *found, vtb_error *err) {
  (void)err;
  *splits = 0;
  *found = vtb_ends_with(path, ".csv");
  return VTB_OK;
}

static vtb_status open_file(const char *path, unsigned split, vtb__source *d, vtb_error *err) {
  (void)split;
  return open_list(path, d, err);
}

/* folder/train.csv, if its header has the columns. Caller frees. */
static char *list_of(const char *folder, unsigned split, bool *no_memory) {
  const char *name;
  for (int k = 0; (name = vtb__split_alias(split, k)) != NULL; k++) {
    char *path = vtb_strprintf("%s/%s.csv", folder, name);
    errno = 0;
    FILE *f = path ? fopen(path, "r") : NULL;
    *no_memory |= !path || errno == ENOMEM;
    char line[4096];
    int file = -1, label = -1;
    errno = 0;
    if (f && fgets(line, sizeof line, f)) {
      char *at = line;
      find_columns(&at, &file, &label);
    }
    *no_memory |= errno == ENOMEM;
    if (f) fclose(f);
    if (file >= 0 && label >= 0) return path;
    free(path);
  }
  return NULL;
}

static vtb_status find_lists(const char *folder, unsigned *splits, bool *found, vtb_error *err) {
  bool no_memory = false;
  for (unsigned split = VTB__TRAIN; split <= VTB__TEST; split *= 2) {
    char *path = list_of(folder, split, &no_memory);
    if (path) *splits |= split;
    free(path);
  }
  *found = *splits != 0;
  return no_memory ? vtb_no_memory(err, folder) : VTB_OK;
}

static vtb_status open_split(const char *folder, unsigned split, vtb__source *d, vtb_error *err) {
  bool no_memory = false;
  char *path = list_of(folder, split, &no_memory);
  vtb_status status = VTB_OK;
  if (no_memory)
    status = vtb_no_memory(err, folder);
  else if (!path)
    status = vtb_fail(err, VTB_E_INPUT, "%s: its list of images is gone", folder);
  else
    status = open_list(path, d, err);
  free(path);
  return status;
}

static const char *file_of(const vtb__source *d, int64_t i) {
  return ((const list *)d->data)->files.at[i];
}

static vtb_status load_row(const vtb__source *d, int64_t i, int channels, vtb_image *out,
                           vtb_error *err) {
  return vtb_image_load(file_of(d, i), channels, out, err);
}

static void close_list(vtb__source *d) {
  list *l = d->data;
  vtb__free_names(&l->files);
  vtb__free_names(&l->labels);
  free(l);
}

const vtb__format vtb__list_format = {.is_file = true,
                                      .what = "a .csv list of files and labels",
                                      .find = find_file,
                                      .open = open_file,
                                      .image = load_row,
                                      .file = file_of,
                                      .close = close_list};
const vtb__format vtb__lists_format = {.what = "train.csv, lists of files and labels",
                                       .find = find_lists,
                                       .open = open_split,
                                       .image = load_row,
                                       .file = file_of,
                                       .close = close_list};
