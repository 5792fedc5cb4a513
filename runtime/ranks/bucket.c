/* Where buckets and shares end, and the sum in the order of the ranks. */
#include "runtime/ranks/internal.h"

#include <string.h>

enum { LINE_FLOATS = 16, BLOCK = 1024 };

int64_t vtb__bucket_room(int64_t held, int64_t bytes, int64_t most) {
  int64_t room = most - held;
  return bytes < room ? bytes : room;
}

int64_t vtb__share_begin(int64_t n_floats, int n_ranks, int rank) {
  int64_t lines = (n_floats + LINE_FLOATS - 1) / LINE_FLOATS;
  int64_t begin = (lines * rank / n_ranks) * LINE_FLOATS;
  return begin < n_floats ? begin : n_floats;
}

/* By blocks that stay in the first cache. */
void vtb__add_in_order(float *sum, const float *const *copies, int n_copies, int64_t n) {
  float block[BLOCK];
  for (int64_t at = 0; at < n; at += BLOCK) {
    int64_t most = n - at < BLOCK ? n - at : BLOCK;
    memcpy(block, copies[0] + at, (size_t)most * sizeof *block);
    for (int q = 1; q < n_copies; q++)
      for (int64_t i = 0; i < most; i++) block[i] += copies[q][at + i];
    memcpy(sum + at, block, (size_t)most * sizeof *block);
  }
}
