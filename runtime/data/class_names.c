/* Names of the classes of a data set: files beside the data, known data sets, numbers. */
#include "runtime/base/utf8.h"
#include "runtime/data/dataset_internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const vtb__known known_sets[] = {
    {"fashion-mnist",
     0.2860f,
     0.3530f,
     {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
      "Ankle boot"}},
    {"mnist", 0.1307f, 0.3081f, {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}},
};

const vtb__known *vtb__find_known(const char *name) {
  for (size_t i = 0; i < sizeof known_sets / sizeof *known_sets; i++)
    if (strcasecmp(known_sets[i].name, name) == 0) return &known_sets[i];
  return NULL;
}

bool vtb__read_lines(char *text, vtb__names *lines) {
  char *rest = text, *line;
  while ((line = strsep(&rest, "\n")) != NULL) {
    size_t end = strlen(line);
    while (end && (line[end - 1] == '\r' || line[end - 1] == ' ')) line[--end] = 0;
    if (end && !vtb__add_name(lines, strdup(line))) return false;
  }
  return true;
}

vtb_status vtb__read_class_names(const char *folder, const char *name, vtb__source *d,
                                 vtb_error *err) {
  char *path = vtb__join(folder, name), *text = NULL;
  vtb__names lines = {0};
  size_t n;
  if (!path) return vtb_no_memory(err, folder);
  vtb_status status = VTB_OK;
  if (vtb_path_exists(path)) status = vtb_file_read(path, 1u << 20, &text, &n, err);
  if (text && !vtb__read_lines(text, &lines))
    status = vtb_no_memory(err, path);
  else if (text && lines.n < (size_t)d->n_classes)
    status =
        vtb_fail(err, VTB_E_INPUT, "%s: %zu names for %d classes", path, lines.n, d->n_classes);
  if (text && status == VTB_OK) {
    d->n_classes = (int)lines.n;
    d->class_names = lines.at;
    d->named = true;
  } else {
    vtb__free_names(&lines);
  }
  free(text);
  free(path);
  return status;
}

static vtb_status number_classes(vtb__source *d, vtb_error *err) {
  const vtb__known *k = vtb__find_known(d->name);
  d->named = k != NULL;
  d->class_names = calloc((size_t)d->n_classes + 1, sizeof *d->class_names);
  bool enough = d->class_names != NULL;
  for (int i = 0; enough && i < d->n_classes; i++) {
    char number[16];
    snprintf(number, sizeof number, "%d", i);
    d->class_names[i] = strdup(k && i < 10 ? k->classes[i] : number);
    enough = d->class_names[i] != NULL;
  }
  return enough ? VTB_OK : vtb_no_memory(err, "names of classes");
}

/* Names go into the header of weights, which is UTF-8. */
static vtb_status check_names(const char *path, const vtb__source *d, vtb_error *err) {
  for (int i = 0; i < d->n_classes; i++) {
    const char *name = d->class_names[i];
    if (vtb_utf8_check(name, strlen(name)) == strlen(name)) continue;
    vtb_strbuf shown = VTB_CHECKED_STRBUF;
    vtb_text_visible(&shown, name, strlen(name));
    vtb_fail(err, VTB_E_INPUT, "%s: the name of the class %s is not UTF-8: rename it", path,
             vtb_strbuf_text(&shown));
    vtb_strbuf_free(&shown);
    return VTB_E_INPUT;
  }
  return VTB_OK;
}

/* Where a file beside the data would lie; NULL when out of memory. */
static char *folder_of(const char *path, bool is_file) {
  const char *slash = is_file ? strrchr(path, '/') : NULL;
  if (!is_file) return strdup(path);
  return slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
}

vtb_status vtb__name_classes(const char *path, vtb__source *d, vtb_error *err) {
  vtb_status status = VTB_OK;
  char *folder = folder_of(path, d->format->is_file);
  if (!folder) return vtb_no_memory(err, path);
  if (d->format == &vtb__folder_format) status = vtb__map_classes(path, d, err);
  if (status == VTB_OK && !d->class_names && (d->labels || !d->format->is_file))
    status = vtb__read_class_names(folder, "classes.txt", d, err);
  if (status == VTB_OK && !d->class_names) status = number_classes(d, err);
  if (status == VTB_OK) status = vtb__check_census(folder, d, err);
  free(folder);
  return status == VTB_OK ? check_names(path, d, err) : status;
}
