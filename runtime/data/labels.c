/* Labels that are texts: numbers, or names of classes. */
#include "runtime/data/dataset_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CLASSES = 1 << 20 };

static bool whole_number(const char *text, int32_t *value) {
  char *end;
  errno = 0;
  long v = strtol(text, &end, 10);
  if (end == text || *end || errno || v < 0 || v >= MOST_CLASSES) return false;
  *value = (int32_t)v;
  return true;
}

static int by_bytes(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The different labels, sorted, as names of the classes. */
static vtb_status name_labels(char *const *texts, int64_t n, vtb__source *d, vtb_error *err) {
  vtb__names names = {0};
  char **sorted = malloc(((size_t)n + 1) * sizeof *sorted);
  bool enough = sorted != NULL;
  if (enough) memcpy(sorted, texts, (size_t)n * sizeof *sorted);
  if (enough) qsort(sorted, (size_t)n, sizeof *sorted, by_bytes);
  for (int64_t i = 0; i < n && enough; i++)
    if (!i || strcmp(sorted[i], sorted[i - 1]) != 0)
      enough = vtb__add_name(&names, strdup(sorted[i]));
  for (int64_t i = 0; i < n && enough; i++) d->labels[i] = vtb__find_name(&names, texts[i]);
  d->class_names = names.at;
  d->n_classes = (int)names.n;
  d->named = true;
  free(sorted);
  return enough ? VTB_OK : vtb_no_memory(err, d->name);
}

vtb_status vtb__take_labels(char *const *texts, int64_t n, bool names, vtb__source *d,
                            vtb_error *err) {
  bool numbers = !names;
  d->labels = calloc((size_t)n + 1, sizeof *d->labels);
  if (!d->labels) return vtb_no_memory(err, d->name);
  for (int64_t i = 0; i < n && numbers; i++) {
    numbers = whole_number(texts[i], &d->labels[i]);
    if (numbers && d->labels[i] >= d->n_classes) d->n_classes = d->labels[i] + 1;
  }
  return numbers ? VTB_OK : name_labels(texts, n, d, err);
}
