/* Labels: numbers that count the classes, or texts, which are numbers or names of classes. */
#include "runtime/data/dataset_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers --------------------------------------------------------------------------------- */

static vtb_status count_one(vtb__census *c, const char *file, int32_t label, int64_t i,
                            vtb_error *err) {
  if (label >= VTB__MOST_CLASSES)
    return vtb_fail(
        err, VTB_E_INPUT,
        "%s: sample %lld has the label %d: classes are counted from 0, and there are at most %d",
        file, (long long)i, label, VTB__MOST_CLASSES);
  if (label >= 0 && (size_t)label >= c->seen.n) {
    c->where = i;
    snprintf(c->file, sizeof c->file, "%s", file);
    while (c->seen.n <= (size_t)label)
      if (!vtb_vec_try_push(&c->seen, false)) return vtb_no_memory(err, file);
  }
  if (label >= 0) c->seen.at[label] = true;
  return VTB_OK;
}

vtb_status vtb__count_labels(vtb__source *d, const char *file, const int32_t *labels, int64_t n,
                             vtb_error *err) {
  vtb_status status = VTB_OK;
  for (int64_t i = 0; i < n && status == VTB_OK; i++)
    status = count_one(&d->census, file, labels[i], i, err);
  d->n_classes = (int)d->census.seen.n;
  return status;
}

/* One wrong number would make hundreds of classes: more of them without a sample than with one, and
 * no file that names them, are a mistake. Of a small val split they may be right. */
vtb_status vtb__check_census(const char *folder, vtb__source *d, vtb_error *err) {
  const vtb__census *c = &d->census;
  size_t empty = 0;
  if (d->split > VTB__TRAIN && !c->all_splits) return VTB_OK;
  for (size_t k = 0; k < c->seen.n; k++) empty += !c->seen.at[k];
  if (!d->named && empty > c->seen.n - empty)
    return vtb_fail(err, VTB_E_INPUT,
                    "%s: sample %lld has the label %zu, and %zu of the classes below it have no "
                    "samples; if that is right, name the classes in %s/classes.txt, one a line",
                    c->file, (long long)c->where, c->seen.n - 1, empty, folder);
  if (empty && !vtb__find_known(d->name))
    vtb_strbuf_printf(&d->notes, "%zu of the %d classes of %s have no samples\n", empty,
                      d->n_classes, d->name);
  return VTB_OK;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static bool whole_number(const char *text, int32_t *value) {
  char *end;
  errno = 0;
  long v = strtol(text, &end, 10);
  if (end == text || *end || errno || v < 0 || v >= VTB__MOST_CLASSES) return false;
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
  for (int64_t i = 0; i < n && numbers; i++) numbers = whole_number(texts[i], &d->labels[i]);
  return numbers ? vtb__count_labels(d, d->name, d->labels, n, err) : name_labels(texts, n, d, err);
}
