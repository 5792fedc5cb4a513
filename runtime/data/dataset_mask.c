/* Images with the class of each of their pixels: two folders of files with the same stems. */
#include "runtime/data/dataset_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct pairs {
  char **images, **masks; /* count of each */
  int64_t count;
} pairs;

static const char *const mask_folders[] = {"labels", "masks"};
static const char *const mask_endings[] = {".png", NULL};

/* "path/a/b", or "path/b" where a is NULL, if that is a folder. Caller frees. */
static char *folder_at(const char *path, const char *a, const char *b, bool *no_memory) {
  char *at = a ? vtb_strprintf("%s/%s/%s", path, a, b) : vtb__join(path, b);
  if (!at) *no_memory = true;
  if (at && vtb_path_is_dir(at)) return at;
  free(at);
  return NULL;
}

/* The folder of the split's images, and that of their masks: path/split/images, path/images/split
 * or path/images (split 0). NULL, NULL: there are none. The caller frees both. */
static vtb_status find_folders(const char *path, unsigned split, char **images, char **masks,
                               vtb_error *err) {
  bool no_memory = false;
  const char *name = NULL;
  *images = *masks = NULL;
  for (int k = 0; !*masks && (split ? (name = vtb__split_alias(split, k)) != NULL : k < 1); k++)
    for (int turned = 0; turned < (split ? 2 : 1) && !*masks; turned++)
      for (int m = 0; m < 2 && !*masks && !no_memory; m++) {
        const char *of_images = turned ? name : "images",
                   *of_masks = turned ? name : mask_folders[m];
        *images = folder_at(path, turned ? "images" : name, of_images, &no_memory);
        *masks = folder_at(path, turned ? mask_folders[m] : name, of_masks, &no_memory);
        if (*images && *masks) continue;
        free(*images);
        free(*masks);
        *images = *masks = NULL;
      }
  return no_memory ? vtb_no_memory(err, path) : VTB_OK;
}

static size_t stem(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot ? (size_t)(dot - name) : strlen(name);
}

static bool same_stem(const char *a, const char *b) {
  size_t n = stem(a);
  return n == stem(b) && strncmp(a, b, n) == 0;
}

/* Both lists are sorted by bytes, which orders stems but for those with dots: so it is searched. */
static const char *find_mask(const vtb__names *masks, const char *image, size_t from) {
  for (size_t k = 0; k < masks->n; k++) {
    const char *name = masks->at[(from + k) % masks->n];
    if (same_stem(name, image)) return name;
  }
  return NULL;
}

static vtb_status pair_up(const char *images, const char *masks, const vtb__names *of_images,
                          const vtb__names *of_masks, pairs *p, vtb_error *err) {
  p->images = calloc(of_images->n + 1, sizeof *p->images);
  p->masks = calloc(of_images->n + 1, sizeof *p->masks);
  if (!p->images || !p->masks) return vtb_no_memory(err, images);
  for (size_t i = 0; i < of_images->n; i++) {
    const char *mask = find_mask(of_masks, of_images->at[i], i);
    if (!mask)
      return vtb_fail(err, VTB_E_INPUT, "%s/%s has no labels: %s has no PNG of that stem", images,
                      of_images->at[i], masks);
    p->images[i] = vtb__join(images, of_images->at[i]);
    p->masks[i] = vtb__join(masks, mask);
    p->count++;
    if (!p->images[i] || !p->masks[i]) return vtb_no_memory(err, images);
  }
  return VTB_OK;
}

static vtb_status find_masks(const char *path, unsigned *splits, bool *found, vtb_error *err) {
  vtb_status status = VTB_OK;
  for (unsigned split = VTB__TRAIN; split <= 2 * VTB__TEST && status == VTB_OK; split *= 2) {
    char *images, *masks;
    unsigned which = split <= VTB__TEST ? split : 0; /* last, where there are no splits */
    if (!which && *splits) break;
    status = find_folders(path, which, &images, &masks, err);
    if (masks) *splits |= which;
    if (masks) *found = true;
    free(images);
    free(masks);
  }
  return status;
}

static vtb_status open_masks(const char *path, unsigned split, vtb__source *d, vtb_error *err) {
  char *images, *masks;
  vtb__names of_images = {0}, of_masks = {0};
  vtb_status status = find_folders(path, split, &images, &masks, err);
  if (status != VTB_OK) return status;
  if (!masks) return vtb_fail(err, VTB_E_INPUT, "%s: its images and masks are gone", path);
  pairs *p = calloc(1, sizeof *p);
  d->data = p;
  if (!p) status = vtb_no_memory(err, path);
  if (status == VTB_OK)
    status = vtb__list_folder(images, vtb__image_endings, &of_images, &d->notes, err);
  if (status == VTB_OK) status = vtb__list_folder(masks, mask_endings, &of_masks, NULL, err);
  if (status == VTB_OK && !of_images.n)
    status = vtb_fail(err, VTB_E_INPUT, "%s holds no images", images);
  if (status == VTB_OK) status = pair_up(images, masks, &of_images, &of_masks, p, err);
  if (status == VTB_OK) d->count = p->count;
  vtb__free_names(&of_images);
  vtb__free_names(&of_masks);
  free(images);
  free(masks);
  return status;
}

static vtb_status load_image(const vtb__source *d, int64_t i, int channels, vtb_image *out,
                             vtb_error *err) {
  return vtb_image_load(((const pairs *)d->data)->images[i], channels, out, err);
}

static vtb_status load_mask(const vtb__source *d, int64_t i, vtb_image *out, vtb_error *err) {
  return vtb_image_load_classes(((const pairs *)d->data)->masks[i], out, err);
}

static const char *file_of(const vtb__source *d, int64_t i) {
  return ((const pairs *)d->data)->images[i];
}

static void close_masks(vtb__source *d) {
  pairs *p = d->data;
  vtb__free_texts(p->images, p->count);
  vtb__free_texts(p->masks, p->count);
  free(p);
}

const vtb__format vtb__mask_format = {
    .what = "folders images/ and labels/ (a PNG of classes for each image)",
    .find = find_masks,
    .open = open_masks,
    .image = load_image,
    .mask = load_mask,
    .file = file_of,
    .close = close_masks};
