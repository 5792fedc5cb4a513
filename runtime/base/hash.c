/* Hashes of contents: XXH3, compiled in. */
#include "runtime/base/base.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t vtb_hash64(const void *data, size_t n) { return XXH3_64bits(data, n); }

void vtb_hash128(const void *data, size_t n, char text[33]) {
  XXH128_hash_t h = XXH3_128bits(data, n);
  snprintf(text, 33, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
}
