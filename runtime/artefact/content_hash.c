/* See content_hash.h. */
#include "runtime/artefact/content_hash.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

void vtb_content_hash_want(vtb_weights *w) { vtb_weights_set_meta(w, VTB_CONTENT_HASH, ""); }

static uint64_t hash_of_tensor(const vtb_weight *t) {
  uint64_t h = XXH3_64bits(t->name, strlen(t->name));
  h = XXH3_64bits_withSeed(t->dim, (size_t)t->rank * sizeof *t->dim, h + (uint64_t)t->elem);
  return XXH3_64bits_withSeed(t->data, (size_t)t->count * vtb_elem_bytes(t->elem), h);
}

void vtb_content_hash(const vtb_weights *w, char text[VTB_CONTENT_HASH_BYTES]) {
  uint64_t sum = 0;
  for (size_t i = 0; i < w->meta.n; i++) {
    const char *key = w->meta.at[i].key, *value = w->meta.at[i].value;
    if (strcmp(key, VTB_CONTENT_HASH) != 0)
      sum += XXH3_64bits_withSeed(value, strlen(value), XXH3_64bits(key, strlen(key)));
  }
  for (size_t i = 0; i < w->n; i++) sum += hash_of_tensor(w->at[i]);
  snprintf(text, VTB_CONTENT_HASH_BYTES, "%016llx", (unsigned long long)sum);
}

vtb_status vtb_content_hash_check(const char *path, const vtb_weights *w, vtb_error *err) {
  const char *want = vtb_weights_meta(w, VTB_CONTENT_HASH);
  char have[VTB_CONTENT_HASH_BYTES];
  if (!want) return VTB_OK;
  vtb_content_hash(w, have);
  if (strcmp(want, have) == 0) return VTB_OK;
  return vtb_fail(err, VTB_E_INPUT,
                  "%s is damaged: its bytes are not those that were written (%s %.16s, now %s); a "
                  "program that means to change them leaves \"%s\" out of the metadata",
                  path, VTB_CONTENT_HASH, want, have, VTB_CONTENT_HASH);
}
