/* See build_lists.h. */
#include "frontend/cli/build/build_lists.h"

#include <stdlib.h>
#include <string.h>

static int falling(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x < y) - (x > y);
}

static void add_batch(build_lists *l, int64_t batch) {
  for (size_t i = 0; i < l->batches.n; i++)
    if (l->batches.at[i] == batch) return;
  vtb_vec_push(&l->batches, batch);
}

/* A number, and what is behind it. */
static bool read_batch(const char **text, int64_t *out) {
  char *end;
  *out = strtoll(*text, &end, 10);
  bool ok = end != *text && **text >= '0' && **text <= '9' && *out > 0 && *out <= INT32_MAX;
  *text = end;
  return ok;
}

static bool parse_batches(build_lists *l, bool alone) {
  const char *p = l->batch;
  int64_t n;
  bool exact = alone || strchr(p, ',') != NULL || *p == '=';
  p += *p == '=';
  for (;; p++) {
    if (!read_batch(&p, &n)) return false;
    add_batch(l, n);
    if (*p != ',') break;
  }
  for (int64_t power = 1; !exact && power < n; power *= 2) add_batch(l, power);
  qsort(l->batches.at, l->batches.n, sizeof *l->batches.at, falling);
  return !*p;
}

vtb_status build_lists_parse(build_lists *l, bool alone, vtb_compile_options *o) {
  if (l->batch && !parse_batches(l, alone))
    return cli_usage_error("build", "--batch is N (1, 2, 4 ... N), =N or N,M,..., not '%s'",
                           l->batch);
  if (l->image) {
    char *rest = l->text = vtb_xstrdup(l->image);
    for (char *word; (word = strsep(&rest, ","));) vtb_vec_push(&l->images, word);
    o->image = l->images.at[0];
  }
  if (l->batches.n) o->batch = l->batches.at[0];
  if (alone && (l->batches.n > 1 || l->images.n > 1))
    return cli_usage_error("build", "a file for training has one batch and one image size");
  if (alone) return VTB_OK;
  o->batches = l->batches.at, o->n_batches = l->batches.n;
  o->images = l->images.at, o->n_images = l->images.n;
  return VTB_OK;
}

void build_lists_free(build_lists *l) {
  vtb_vec_free(&l->batches);
  vtb_vec_free(&l->images);
  vtb_free(l->text);
}
