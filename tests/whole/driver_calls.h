/* What the fake driver wrote down, short enough to compare, and buckets of gradients counted. */
#ifndef VTB_TEST_DRIVER_CALLS_H
#define VTB_TEST_DRIVER_CALLS_H

#include "runtime/launch/program.h"

/* A letter a call, inputs and results of a step as one: "iea" inputs on their way, "w" behind an
 * earlier run, "G" the graph, "oe" results; "S" is where the host waits. */
static inline void shorten(const char *trace, vtb_strbuf *out) {
  static const struct {
    const char *call;
    char letter;
  } letters[] = {{"2:in ", 'i'}, {"2:event", 'e'}, {"2:after", 'w'}, {"after", 'a'}, {"graph", 'G'},
                 {"out ", 'o'},  {"event", 'e'},   {"await", 'S'},   {"sync", 'S'},  {"in ", 'I'}};
  for (const char *at = trace; *at; at = strchr(at, ';') + 1) {
    char letter = '?';
    for (size_t i = 0; i < sizeof letters / sizeof *letters && letter == '?'; i++)
      if (vtb_starts_with(at, letters[i].call)) letter = letters[i].letter;
    if (!out->n || out->at[out->n - 1] != letter || !strchr("ioI", letter))
      vtb_strbuf_putc(out, letter);
  }
}

enum { MOST_BUCKETS = 16 };
typedef struct bucket_calls {
  int n, expected; /* calls; the number of the next */
  int in_all;      /* buckets */
  vtb_bucket last[MOST_BUCKETS];
  uint64_t hash[MOST_BUCKETS];
  float factor; /* gradients are multiplied by it */
  void (*finish)(void *stream);
} bucket_calls;

static inline uint64_t hash_of_bucket(const vtb_bucket *b) {
  return vtb_hash_bytes(VTB_HASH_INIT, (const void *)(uintptr_t)b->at, (size_t)b->bytes);
}

static inline vtb_status on_bucket(void *user, const vtb_bucket *b, vtb_error *err) {
  bucket_calls *c = user;
  if (b->index != c->expected)
    return vtb_fail(err, VTB_E_INTERNAL, "bucket %d instead of %d", b->index, c->expected);
  float *at = (float *)(uintptr_t)b->at;
  if (b->stream) c->finish(b->stream);
  for (int64_t i = 0; i < b->bytes / 4; i++) at[i] *= c->factor;
  c->last[b->index] = *b;
  c->hash[b->index] = hash_of_bucket(b);
  c->n++;
  c->expected = (c->expected + 1) % c->in_all;
  return VTB_OK;
}

#endif
