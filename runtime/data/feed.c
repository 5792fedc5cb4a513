/* Which part of a data set fills an input of a program. */
#include "runtime/base/augment.h"
#include "runtime/data/dataset.h"

#include <math.h>
#include <string.h>

static int64_t elements(const vtb_feed *f) {
  int64_t n = 1;
  for (int i = 0; i < f->rank; i++) n *= f->dim[i];
  return n;
}

/* "[3, 32, 32]", "a number" */
static void print_shape(char *out, size_t size, int rank, const int64_t *dim) {
  size_t n = (size_t)snprintf(out, size, "%s", rank ? "[" : "one number");
  for (int i = 0; i < rank && n < size; i++)
    n +=
        (size_t)snprintf(out + n, size - n, "%lld%s", (long long)dim[i], i + 1 < rank ? ", " : "]");
}

static bool same_shape(const vtb_feed *f, const vtb_array_info *a) {
  bool same = f->rank == a->rank;
  for (int i = 0; same && i < f->rank; i++) same = f->dim[i] == a->dim[i];
  return same;
}

static vtb_status array_feed(vtb_feed *f, const vtb_dataset *d, bool *found, vtb_error *err) {
  for (int i = 0; i < vtb_dataset_arrays(d); i++) {
    vtb_array_info a = vtb_dataset_array(d, i);
    if (strcmp(a.name, f->name) != 0) continue;
    *found = true;
    f->kind = VTB_FEED_ARRAY;
    f->array = i;
    char have[96], want[96];
    print_shape(have, sizeof have, a.rank, a.dim);
    print_shape(want, sizeof want, f->rank, f->dim);
    if (!same_shape(f, &a))
      return vtb_fail(err, VTB_E_INPUT, "%s: a sample of the array %s is %s, the input takes %s",
                      vtb_dataset_name(d), f->name, have, want);
    if (f->is_int && !a.is_int)
      return vtb_fail(err, VTB_E_INPUT,
                      "%s: the array %s holds fractions, the input takes whole numbers",
                      vtb_dataset_name(d), f->name);
  }
  return VTB_OK;
}

/* h x w places for n of them, in the proportion of the image. */
static bool grid_of(vtb_feed *f, const vtb_transform *t) {
  if (f->rank == 2) {
    f->height = (int)f->dim[0];
    f->width = (int)f->dim[1];
    return true;
  }
  if (f->rank != 1) return false;
  double side = sqrt((double)f->dim[0] * t->prepare.height / t->prepare.width);
  f->height = (int)(side + 0.5);
  f->width = f->height > 0 ? (int)(f->dim[0] / f->height) : 0;
  return f->height > 0 && (int64_t)f->height * f->width == f->dim[0] &&
         (int64_t)f->height * t->prepare.width == (int64_t)f->width * t->prepare.height;
}

static vtb_status label_feed(vtb_feed *f, const vtb_dataset *d, vtb_error *err) {
  f->kind = VTB_FEED_LABEL;
  if (f->classes && vtb_dataset_classes(d) > f->classes)
    return vtb_fail(err, VTB_E_INPUT, "data set %s has %d classes, the input %s takes %d",
                    vtb_dataset_name(d), vtb_dataset_classes(d), f->name, f->classes);
  return VTB_OK;
}

static bool is_image(const vtb_feed *f, const vtb_transform *t) {
  return !f->is_int && f->rank == 3 && f->dim[0] == t->prepare.channels &&
         (f->view || (f->dim[1] == t->prepare.height && f->dim[2] == t->prepare.width));
}

static vtb_status nothing(const vtb_feed *f, const vtb_dataset *d, vtb_error *err) {
  char shape[96], names[256] = "";
  size_t n = 0;
  print_shape(shape, sizeof shape, f->rank, f->dim);
  for (int i = 0; i < vtb_dataset_arrays(d) && n < sizeof names; i++)
    n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "",
                          vtb_dataset_array(d, i).name);
  const char *has = n                           ? names
                    : vtb_dataset_has_masks(d)  ? "images and a class for each pixel"
                    : vtb_dataset_has_labels(d) ? "images and a label for each"
                                                : "images";
  return vtb_fail(err, VTB_E_INPUT,
                  "data set %s cannot fill the input \"%s\", %s of %s a sample: it has %s; a "
                  ".safetensors file with an array of that name can",
                  vtb_dataset_name(d), f->name, f->is_int ? "whole numbers" : "numbers", shape,
                  has);
}

/* Inputs of a step that augments itself. */
static bool augment_feed(vtb_feed *f) {
  bool draw = vtb_starts_with(f->name, VTB_AUGMENT_DRAW);
  if (draw)
    f->kind = VTB_FEED_DRAW;
  else if (strcmp(f->name, VTB_AUGMENT_MOMENTS) == 0)
    f->kind = VTB_FEED_MOMENTS;
  else
    return false;
  if (draw) sscanf(f->name + strlen(VTB_AUGMENT_DRAW), "%d.%d", &f->view, &f->stream);
  return true;
}

vtb_status vtb_feed_find(vtb_feed *f, const vtb_dataset *d, const vtb_transform *t,
                         vtb_error *err) {
  bool found = false;
  f->count = elements(f);
  if (augment_feed(f)) return VTB_OK;
  vtb_status status = array_feed(f, d, &found, err);
  if (status != VTB_OK || found) return status;
  if (vtb_dataset_has_images(d) && is_image(f, t)) {
    f->kind = VTB_FEED_IMAGE;
    return VTB_OK;
  }
  if (vtb_dataset_has_labels(d) && f->is_int && f->count == 1) return label_feed(f, d, err);
  if (vtb_dataset_has_masks(d) && f->is_int && grid_of(f, t)) {
    f->kind = VTB_FEED_MASK;
    return VTB_OK;
  }
  return nothing(f, d, err);
}

vtb_status vtb_feeds_check(const vtb_feed *feeds, int n, vtb_error *err) {
  const vtb_feed *mask = NULL, *view = NULL;
  for (int i = 0; i < n; i++) {
    if (feeds[i].kind == VTB_FEED_MASK) mask = &feeds[i];
    if (feeds[i].kind == VTB_FEED_IMAGE && feeds[i].view > 1) view = &feeds[i];
  }
  if (!mask || !view) return VTB_OK;
  return vtb_fail(err, VTB_E_INPUT,
                  "the input %s is a class for each place of the image, and the view %s shows "
                  "others of its places: with classes of places there is one view",
                  mask->name, view->name);
}
