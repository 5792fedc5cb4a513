/* A data set's identity in a line. */
#include "runtime/train/fingerprint.h"

#include <string.h>
#include <xxhash.h>

enum { LOOKED_AT = 64, MOST_FILE_BYTES = 64 << 20 };

/* ---- data ------------------------------------------------------------------------------------ */

static uint64_t hash_of_names(const vtb_dataset *d) {
  uint64_t h = 0;
  for (int k = 0; k < vtb_dataset_classes(d); k++) {
    const char *name = vtb_dataset_class_name(d, k);
    h = XXH3_64bits_withSeed(name, strlen(name), h + 1);
  }
  return h;
}

static uint64_t hash_of_labels(const vtb_dataset *d) {
  uint64_t h = 0;
  for (int64_t i = 0; vtb_dataset_has_labels(d) && i < vtb_dataset_count(d); i++) {
    int32_t label = vtb_dataset_label(d, i);
    h = XXH3_64bits_withSeed(&label, sizeof label, h + 1);
  }
  return h;
}

static uint64_t hash_of_pixels(const vtb_image *im) {
  return XXH3_64bits(im->pixels, (size_t)im->channels * (size_t)im->height * (size_t)im->width);
}

static uint64_t hash_of_image(const vtb_dataset *d, int64_t i) {
  const char *file = vtb_dataset_file(d, i);
  char *bytes = NULL;
  size_t n = 0;
  vtb_image image = {0};
  uint64_t h = 0;
  if (file && vtb_file_read(file, MOST_FILE_BYTES, &bytes, &n, NULL) == VTB_OK)
    h = XXH3_64bits(bytes, n);
  else if (vtb_dataset_image(d, i, 0, &image, NULL) == VTB_OK)
    h = hash_of_pixels(&image);
  free(bytes);
  vtb_image_free(&image);
  if (vtb_dataset_has_masks(d) && vtb_dataset_mask(d, i, &image, NULL) == VTB_OK) {
    h += hash_of_pixels(&image);
    vtb_image_free(&image);
  }
  return h;
}

static vtb_status hash_of_arrays(const vtb_dataset *d, int64_t i, uint64_t *h, vtb_error *err) {
  for (int a = 0; a < vtb_dataset_arrays(d); a++) {
    vtb_array_info info = vtb_dataset_array(d, a);
    size_t count = 1;
    for (int k = 0; k < info.rank; k++) count *= (size_t)info.dim[k];
    int32_t *values = calloc(count + 1, sizeof *values);
    if (!values) return vtb_no_memory(err, "looking at the data");
    if (vtb_dataset_read(d, a, i, info.is_int, values, NULL) == VTB_OK)
      *h += XXH3_64bits_withSeed(values, count * sizeof *values, (uint64_t)a);
    free(values);
  }
  return VTB_OK;
}

vtb_status vtb_fingerprint(const vtb_dataset *d, char out[VTB_FINGERPRINT], vtb_error *err) {
  int64_t n = vtb_dataset_count(d), looked_at = n < LOOKED_AT ? n : LOOKED_AT;
  uint64_t contents = 0;
  for (int64_t k = 0; k < looked_at; k++) {
    int64_t i = k * n / looked_at;
    uint64_t h = vtb_dataset_has_images(d) ? hash_of_image(d, i) : 0;
    VTB_TRY(hash_of_arrays(d, i, &h, err));
    contents = contents * 31 + h;
  }
  snprintf(out, VTB_FINGERPRINT, "samples=%lld classes=%016llx labels=%016llx contents=%016llx",
           (long long)n, (unsigned long long)hash_of_names(d),
           (unsigned long long)hash_of_labels(d), (unsigned long long)contents);
  return VTB_OK;
}

/* ---- differences ----------------------------------------------------------------------------- */

/* The word that has the key of `word`, "lr=0.1"; its length, 0 if there is none. */
static size_t word_like(const char *words, const char *word, const char **found) {
  size_t key = strcspn(word, "= ");
  for (const char *at = words; *at; at += strcspn(at, " "), at += *at == ' ') {
    *found = at;
    if (strcspn(at, "= ") == key && strncmp(at, word, key) == 0) return strcspn(at, " ");
  }
  return 0;
}

/* Behind the last slash. */
static void last_part(const char **word, size_t *n) {
  for (size_t i = *n; i > 0; i--)
    if ((*word)[i - 1] == '/') {
      *word += i;
      *n -= i;
      return;
    }
}

static bool same_word(const char *a, size_t n, const char *b, size_t m) {
  static const char *const paths[] = {"model=", "optimizer=", "init="};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    if (!vtb_starts_with(a, paths[i])) continue;
    size_t key = strlen(paths[i]);
    a += key, n -= key, b += key, m -= key;
    last_part(&a, &n);
    last_part(&b, &m);
    break;
  }
  return n == m && strncmp(a, b, n) == 0;
}

/* Words of `a` that `b` has with another value or lacks; only_missing: `a` is what is now, and what
 * `b` lacks is told. */
static void tell_differences(const char *a, const char *b, bool only_missing, const char *now,
                             char *out, size_t size) {
  for (const char *at = a; *at; at += strcspn(at, " "), at += *at == ' ') {
    const char *other = "";
    size_t n = strcspn(at, " "), m = word_like(b, at, &other), used = strlen(out);
    if (m && (only_missing || same_word(at, n, other, m))) continue;
    if (used) used += (size_t)snprintf(out + used, size - used, ", ");
    if (used >= size) return;
    if (m)
      snprintf(out + used, size - used, "%.*s (%s %.*s)", (int)n, at, now, (int)m, other);
    else if (only_missing)
      snprintf(out + used, size - used, "%s %.*s", now, (int)n, at);
    else
      snprintf(out + used, size - used, "%.*s (%s not set)", (int)n, at, now);
    if (strlen(out) + 1 >= size) return;
  }
}

void vtb_tell_others(const char *a, const char *b, const char *where, char *out, size_t size) {
  tell_differences(a, b, false, where, out, size);
  tell_differences(b, a, true, where, out, size);
}

void vtb_tell_differences(const char *then, const char *now, char *out, size_t size) {
  vtb_tell_others(then, now, "now", out, size);
}
