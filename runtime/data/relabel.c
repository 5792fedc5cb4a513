/* Labels in the order of a model's classes, or of another split's. */
#include "runtime/data/dataset_internal.h"

#include <stdlib.h>
#include <string.h>

static int find_text(char *const *names, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(names[i], name) == 0) return i;
  return -1;
}

/* The classes that have samples and are not among `names`. */
static vtb_status check_known(const vtb_dataset *d, const int *to, vtb_error *err) {
  bool *used = calloc((size_t)d->n_classes + 1, sizeof *used);
  vtb_strbuf list = VTB_CHECKED_STRBUF;
  int unknown = 0;
  if (!used) return vtb_no_memory(err, "names of classes");
  for (int64_t i = 0; i < d->count; i++)
    if (d->labels[i] >= 0) used[d->labels[i]] = true;
  for (int k = 0; k < d->n_classes; k++) {
    if (!used[k] || to[k] >= 0) continue;
    if (unknown++ < 8)
      vtb_strbuf_printf(&list, "%s%s", unknown > 1 ? ", " : "", vtb_dataset_class_name(d, k));
  }
  free(used);
  vtb_status status = VTB_OK;
  if (unknown)
    status = vtb_fail(err, VTB_E_INPUT,
                      "%d class%s of %s not known to the model: %s%s; name the data's classes as "
                      "those that it was trained on",
                      unknown, unknown > 1 ? "es" : "", d->source->name, vtb_strbuf_text(&list),
                      unknown > 8 ? ", ..." : "");
  vtb_strbuf_free(&list);
  return status;
}

static vtb_status own_names(vtb_dataset *d, char *const *names, int n, vtb_error *err) {
  d->class_names = calloc((size_t)n + 1, sizeof *d->class_names);
  if (!d->class_names) return vtb_no_memory(err, "names of classes");
  d->n_classes = n;
  for (int i = 0; i < n; i++)
    if (!(d->class_names[i] = strdup(names[i]))) return vtb_no_memory(err, "names of classes");
  return VTB_OK;
}

vtb_status vtb_dataset_relabel(vtb_dataset *d, char *const *names, int n, bool *moved,
                               vtb_error *err) {
  *moved = false;
  if (!d->labels || d->class_names) return VTB_OK;
  int *to = calloc((size_t)d->n_classes + 1, sizeof *to);
  if (!to) return vtb_no_memory(err, "names of classes");
  for (int k = 0; k < d->n_classes; k++) to[k] = find_text(names, n, vtb_dataset_class_name(d, k));
  vtb_status status = check_known(d, to, err);
  if (status == VTB_OK) status = own_names(d, names, n, err);
  for (int64_t i = 0; i < d->count && status == VTB_OK; i++) {
    if (d->labels[i] < 0) continue;
    *moved |= to[d->labels[i]] != d->labels[i];
    d->labels[i] = to[d->labels[i]];
  }
  free(to);
  return status;
}

vtb_status vtb__agree_on_classes(const vtb_dataset *train, vtb_dataset *val, vtb_error *err) {
  bool moved;
  if (!val->labels || !train->labels || !train->n_classes || val->class_names) return VTB_OK;
  if (val->source == train->source) return VTB_OK;
  if (train->source->named && val->source->named)
    return vtb_dataset_relabel(val, train->source->class_names, train->n_classes, &moved, err);
  if (!train->source->named && !val->source->named && val->n_classes < train->n_classes)
    return own_names(val, train->source->class_names, train->n_classes, err);
  return VTB_OK;
}
