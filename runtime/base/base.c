#include "runtime/base/base.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

vtb_status vtb_fail(vtb_error *err, vtb_status status, const char *fmt, ...) {
  if (err && !err->text[0]) {
    va_list ap;
    va_start(ap, fmt);
    err->status = status;
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
  }
  return status;
}

void vtb_bug_at(const char *file, int line, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  fprintf(stderr, "vertebra: internal error at %s:%d: ", file, line);
  vfprintf(stderr, fmt, ap);
  fprintf(stderr, "\nThis is a defect in vertebra, not in your input; please report it with the "
                  "command you ran.\n");
  va_end(ap);
  exit(VTB_E_INTERNAL);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static VTB_NORETURN void out_of_memory(size_t size_bytes) {
  fprintf(stderr, "vertebra: out of memory (a request for %zu bytes failed)\n", size_bytes);
  exit(VTB_E_MEMORY);
}

void *vtb_xmalloc(size_t size_bytes) {
  void *p = malloc(size_bytes ? size_bytes : 1);
  if (!p) out_of_memory(size_bytes);
  return p;
}

void *vtb_xcalloc(size_t count, size_t size_bytes) {
  void *p = calloc(count ? count : 1, size_bytes ? size_bytes : 1);
  if (!p) out_of_memory(size_bytes);
  return p;
}

void *vtb_xrealloc(void *p, size_t count, size_t size_bytes) {
  size_t total;
  if (__builtin_mul_overflow(count, size_bytes, &total)) out_of_memory(SIZE_MAX);
  p = realloc(p, total ? total : 1);
  if (!p) out_of_memory(total);
  return p;
}

char *vtb_xstrdup(const char *s) {
  size_t n = strlen(s) + 1;
  return memcpy(vtb_xmalloc(n), s, n);
}

void *vtb_aligned_alloc(size_t size_bytes) {
  if (size_bytes > SIZE_MAX - 64) return NULL;
  size_t rounded = (size_bytes + 63) / 64 * 64;
  return aligned_alloc(64, rounded ? rounded : 64);
}

struct vtb_arena_block {
  struct vtb_arena_block *next;
  size_t used, cap;
  _Alignas(16) unsigned char bytes[];
};

void vtb_arena_init(vtb_arena *a) { *a = (vtb_arena){0}; }

void vtb_arena_free(vtb_arena *a) {
  for (struct vtb_arena_block *b = a->head, *next; b; b = next) {
    next = b->next;
    free(b);
  }
  *a = (vtb_arena){0};
}

void *vtb_arena_alloc(vtb_arena *a, size_t size_bytes) {
  if (size_bytes > SIZE_MAX / 4) out_of_memory(size_bytes);
  size_t need = (size_bytes + 15) & ~(size_t)15;
  struct vtb_arena_block *b = a->head;
  if (!b || b->cap - b->used < need) {
    size_t cap = need > 65536 ? need : 65536;
    b = vtb_xmalloc(sizeof *b + cap);
    *b = (struct vtb_arena_block){.next = a->head, .cap = cap};
    a->head = b;
  }
  void *p = b->bytes + b->used;
  b->used += need;
  a->used_bytes += need;
  return memset(p, 0, need);
}

void *vtb_arena_array(vtb_arena *a, size_t count, size_t size_bytes) {
  size_t total;
  if (__builtin_mul_overflow(count, size_bytes, &total)) out_of_memory(SIZE_MAX);
  return vtb_arena_alloc(a, total);
}

void *vtb_arena_memdup(vtb_arena *a, const void *p, size_t size_bytes) {
  void *copy = vtb_arena_alloc(a, size_bytes);
  return size_bytes ? memcpy(copy, p, size_bytes) : copy;
}

char *vtb_arena_strndup(vtb_arena *a, const char *s, size_t n) {
  char *copy = vtb_arena_alloc(a, n + 1);
  memcpy(copy, s, n);
  copy[n] = 0;
  return copy;
}

char *vtb_arena_strdup(vtb_arena *a, const char *s) { return vtb_arena_strndup(a, s, strlen(s)); }

char *vtb_arena_printf(vtb_arena *a, const char *fmt, ...) {
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  char *s = vtb_arena_alloc(a, (size_t)n + 1);
  vsnprintf(s, (size_t)n + 1, fmt, again);
  va_end(again);
  return s;
}

void *vtb__vec_grow(void *at, size_t *cap, size_t need, size_t elem_bytes) {
  size_t grown = *cap ? *cap * 2 : 8;
  *cap = grown < need ? need : grown;
  return vtb_xrealloc(at, *cap, elem_bytes);
}

/* ---- strings --------------------------------------------------------------------------------- */

static void strbuf_reserve(vtb_strbuf *s, size_t extra) {
  if (s->n + extra + 1 > s->cap) s->at = vtb__vec_grow(s->at, &s->cap, s->n + extra + 1, 1);
}

void vtb_strbuf_write(vtb_strbuf *s, const char *bytes, size_t n) {
  strbuf_reserve(s, n);
  memcpy(s->at + s->n, bytes, n);
  s->n += n;
  s->at[s->n] = 0;
}

void vtb_strbuf_putc(vtb_strbuf *s, char c) { vtb_strbuf_write(s, &c, 1); }
void vtb_strbuf_puts(vtb_strbuf *s, const char *text) { vtb_strbuf_write(s, text, strlen(text)); }

void vtb_strbuf_vprintf(vtb_strbuf *s, const char *fmt, va_list ap) {
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  strbuf_reserve(s, (size_t)n);
  vsnprintf(s->at + s->n, (size_t)n + 1, fmt, again);
  s->n += (size_t)n;
  va_end(again);
}

void vtb_strbuf_printf(vtb_strbuf *s, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vtb_strbuf_vprintf(s, fmt, ap);
  va_end(ap);
}

/* "%g" with the fewest digits that read back; 100 rather than 1e2, 1e-5 rather than 1e-05. */
static void put_shortest(vtb_strbuf *s, double x, bool single) {
  char text[40];
  bool plain = fabs(x) >= 1 && fabs(x) < 1e6;
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, x);
    double back = single ? (double)strtof(text, NULL) : strtod(text, NULL);
    if (back == x && !(plain && strchr(text, 'e'))) break;
  }
  const char *e = isfinite(x) ? strchr(text, 'e') : NULL;
  vtb_strbuf_write(s, text, e ? (size_t)(e - text) : strlen(text));
  if (e) vtb_strbuf_printf(s, "e%d", atoi(e + 1));
}

void vtb_strbuf_double(vtb_strbuf *s, double x) {
  if (isnan(x))
    vtb_strbuf_puts(s, "nan"); /* without a sign */
  else
    put_shortest(s, x, false);
}

void vtb_strbuf_float(vtb_strbuf *s, float x) {
  if (isnan(x))
    vtb_strbuf_puts(s, "nan");
  else
    put_shortest(s, (double)x, true);
}

void vtb_strbuf_free(vtb_strbuf *s) {
  free(s->at);
  *s = (vtb_strbuf){0};
}

bool vtb_streq(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }
bool vtb_starts_with(const char *s, const char *prefix) {
  return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool vtb_ends_with(const char *s, const char *suffix) {
  size_t n = strlen(s), k = strlen(suffix);
  return n >= k && memcmp(s + n - k, suffix, k) == 0;
}

int vtb_edit_distance(const char *a, const char *b, int limit) {
  enum { MAX = 64 };
  size_t n = strlen(a), m = strlen(b);
  if (n > MAX || m > MAX || (n > m ? n - m : m - n) > (size_t)limit) return limit + 1;
  int row[3][MAX + 1];
  for (size_t j = 0; j <= m; j++) row[0][j] = (int)j;
  for (size_t i = 1; i <= n; i++) {
    int *cur = row[i % 3], *prev = row[(i + 2) % 3], *prev2 = row[(i + 1) % 3];
    cur[0] = (int)i;
    for (size_t j = 1; j <= m; j++) {
      int best = prev[j - 1] + (a[i - 1] != b[j - 1]);
      if (prev[j] + 1 < best) best = prev[j] + 1;
      if (cur[j - 1] + 1 < best) best = cur[j - 1] + 1;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && prev2[j - 2] + 1 < best)
        best = prev2[j - 2] + 1;
      cur[j] = best;
    }
  }
  int d = row[n % 3][m];
  return d > limit ? limit + 1 : d;
}

const char *vtb_suggest(const char *name, const char *const *candidates, size_t n) {
  int limit = strlen(name) <= 3 ? 1 : strlen(name) <= 8 ? 2 : 3;
  const char *best = NULL;
  for (size_t i = 0; i < n; i++) {
    int d = vtb_edit_distance(name, candidates[i], limit);
    if (d <= limit && d > 0) {
      best = candidates[i];
      limit = d - 1;
    }
  }
  return best;
}

static size_t map_find(const vtb_map *m, const char *key) {
  size_t i = vtb_hash_str(VTB_HASH_INIT, key) & (m->n_slots - 1);
  while (m->slots[i] && strcmp(m->at[m->slots[i] - 1].key, key) != 0)
    i = (i + 1) & (m->n_slots - 1);
  return i;
}

bool vtb_map_has(const vtb_map *m, const char *key) { return m->n && m->slots[map_find(m, key)]; }

void *vtb_map_get(const vtb_map *m, const char *key) {
  if (!m->n) return NULL;
  uint32_t slot = m->slots[map_find(m, key)];
  return slot ? m->at[slot - 1].value : NULL;
}

static void map_rehash(vtb_map *m) {
  m->n_slots = m->n_slots ? m->n_slots * 2 : 16;
  free(m->slots);
  m->slots = vtb_xcalloc(m->n_slots, sizeof *m->slots);
  for (size_t i = 0; i < m->n; i++) m->slots[map_find(m, m->at[i].key)] = (uint32_t)i + 1;
}

void vtb_map_set(vtb_map *m, const char *key, void *value) {
  if ((m->n + 1) * 2 > m->n_slots) map_rehash(m);
  size_t i = map_find(m, key);
  if (m->slots[i]) {
    m->at[m->slots[i] - 1].value = value;
    return;
  }
  if (m->n == m->cap) m->at = vtb__vec_grow(m->at, &m->cap, m->n + 1, sizeof *m->at);
  m->at[m->n++] = (struct vtb_map_entry){vtb_xstrdup(key), value};
  m->slots[i] = (uint32_t)m->n;
}

void vtb_map_free(vtb_map *m) {
  for (size_t i = 0; i < m->n; i++) free(m->at[i].key);
  free(m->at);
  free(m->slots);
  *m = (vtb_map){0};
}

uint64_t vtb_hash_bytes(uint64_t h, const void *p, size_t n) {
  const unsigned char *b = p;
  for (size_t i = 0; i < n; i++) h = (h ^ b[i]) * UINT64_C(0x100000001b3);
  return h;
}

uint64_t vtb_hash_str(uint64_t h, const char *s) { return vtb_hash_bytes(h, s, strlen(s)); }

/* ---- time, terminal, log --------------------------------------------------------------------- */

double vtb_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool vtb_color_enabled(FILE *f) {
  const char *no_color = getenv("NO_COLOR");
  return !(no_color && no_color[0]) && isatty(fileno(f));
}

static int verbose = -1;

void vtb_log_verbose(bool on) { verbose = on; }

void vtb_log(const char *fmt, ...) {
  if (verbose < 0) {
    const char *v = getenv("VTB_VERBOSE");
    verbose = v && v[0] && strcmp(v, "0") != 0;
  }
  if (!verbose) return;
  va_list ap;
  va_start(ap, fmt);
  vfprintf(stderr, fmt, ap);
  fputc('\n', stderr);
  va_end(ap);
}
