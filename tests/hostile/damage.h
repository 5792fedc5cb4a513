/* Damage as it happens and as somebody would do it on purpose: the same file and number give the
 * same bytes at every run. */
#ifndef VTB_TEST_DAMAGE_H
#define VTB_TEST_DAMAGE_H

#include "runtime/base/base.h"

#include <stdlib.h>
#include <string.h>

typedef struct bytes {
  unsigned char *at;
  size_t n;
} bytes;

typedef struct damage {
  unsigned long long state;
  bytes b; /* room for twice the file and 256 bytes */
  size_t cap;
} damage;

static inline size_t damage_below(damage *d, size_t n) {
  d->state ^= d->state << 13;
  d->state ^= d->state >> 7;
  d->state ^= d->state << 17;
  return n ? (size_t)((d->state >> 11) % n) : 0;
}

/* Every second time near the start, where lengths and headers are. */
static inline size_t damage_place(damage *d) {
  size_t head = d->b.n < 96 ? d->b.n : 96;
  return damage_below(d, damage_below(d, 2) ? head : d->b.n);
}

static inline void damage_cut(damage *d) {
  if (d->b.n) d->b.n = damage_below(d, 3) ? damage_below(d, d->b.n) : d->b.n - 1;
}

static inline void damage_bits(damage *d) {
  for (size_t k = 1 + damage_below(d, 8); k-- && d->b.n;)
    d->b.at[damage_place(d)] ^= (unsigned char)(1u << damage_below(d, 8));
}

static inline void damage_bytes(damage *d) {
  static const unsigned char to[] = {0, 0xff, 0x7f, 0x80, '"', '.', '/', '{'};
  for (size_t k = 1 + damage_below(d, 4); k-- && d->b.n;)
    d->b.at[damage_place(d)] = to[damage_below(d, sizeof to)];
}

/* A length, an offset or a count: of 2, 4 or 8 bytes, either end first. */
static inline void damage_number(damage *d) {
  const uint64_t to[] = {0,         1,          UINT64_MAX,        INT32_MAX,
                         INT64_MAX, UINT32_MAX, UINT64_C(1) << 31, UINT64_C(1) << 62,
                         d->b.n,    d->b.n + 1, 0x7fffffffu - 8,   65535};
  size_t width = (size_t)2 << damage_below(d, 3), at = damage_place(d);
  uint64_t x = to[damage_below(d, sizeof to / sizeof *to)];
  bool big = damage_below(d, 2);
  for (size_t k = 0; k < width && at + k < d->b.n; k++)
    d->b.at[at + k] = (unsigned char)(x >> 8 * (big ? width - 1 - k : k));
}

/* The digits of a number in text become others. */
static inline void damage_digits(damage *d) {
  static const char *const to[] = {"99999999999999999999", "-1",        "0", "1e999", "nan",
                                   "2147483648",           "4294967296"};
  size_t at = damage_below(d, d->b.n ? d->b.n : 1), end;
  while (at < d->b.n && !(d->b.at[at] >= '0' && d->b.at[at] <= '9')) at++;
  for (end = at; end < d->b.n && d->b.at[end] >= '0' && d->b.at[end] <= '9';) end++;
  const char *text = to[damage_below(d, sizeof to / sizeof *to)];
  size_t n = strlen(text);
  if (at == end || d->b.n - (end - at) + n > d->cap) return;
  memmove(d->b.at + at + n, d->b.at + end, d->b.n - end);
  memcpy(d->b.at + at, text, n);
  d->b.n = d->b.n - (end - at) + n;
}

/* A piece goes, comes twice, or stands somewhere else too. */
static inline void damage_pieces(damage *d) {
  size_t from = damage_place(d), n = damage_below(d, d->b.n - from < 200 ? d->b.n - from : 200);
  size_t to = damage_place(d), kind = damage_below(d, 3);
  if (kind == 0) {
    memmove(d->b.at + from, d->b.at + from + n, d->b.n - from - n);
    d->b.n -= n;
  } else if (kind == 1 && to + n <= d->b.n) {
    memmove(d->b.at + to, d->b.at + from, n);
  } else if (d->b.n + n <= d->cap) {
    unsigned char piece[200];
    memcpy(piece, d->b.at + from, n);
    memmove(d->b.at + to + n, d->b.at + to, d->b.n - to);
    memcpy(d->b.at + to, piece, n);
    d->b.n += n;
  }
}

static inline void damage_tail(damage *d) {
  for (size_t k = 1 + damage_below(d, 40); k-- && d->b.n < d->cap;)
    d->b.at[d->b.n++] = (unsigned char)damage_below(d, 256);
}

/* Number `number` of the damaged forms of a file, malloc'd: one wrong, or several. */
static inline bytes damage_make(const bytes *file, const char *name, int number) {
  static void (*const ways[])(damage *) = {damage_cut,    damage_bits,   damage_bytes,
                                           damage_number, damage_digits, damage_pieces,
                                           damage_tail};
  damage d = {.state =
                  vtb_hash_str(VTB_HASH_INIT, name) ^ (uint64_t)(number + 1) * 0x9e3779b97f4a7c15u,
              .cap = 2 * file->n + 256};
  d.b.at = malloc(d.cap);
  if (!d.b.at) exit(1);
  memcpy(d.b.at, file->at, file->n);
  d.b.n = file->n;
  for (int warm = 0; warm < 4; warm++) (void)damage_below(&d, 2);
  size_t n_ways = sizeof ways / sizeof *ways;
  ways[(size_t)number % n_ways](&d);
  for (size_t k = damage_below(&d, 3); k--;) ways[damage_below(&d, n_ways)](&d);
  while (d.b.n == file->n && memcmp(d.b.at, file->at, file->n) == 0) damage_bits(&d);
  return d.b;
}

#endif
