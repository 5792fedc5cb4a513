/* Status, memory and arenas: see base.h. */
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

vtb_status vtb_no_memory(vtb_error *err, const char *what) {
  return vtb_fail(err, VTB_E_MEMORY, "out of memory for %s", what);
}

/* ---- memory ---------------------------------------------------------------------------------- */

void *vtb_aligned_alloc(size_t size_bytes) {
  if (size_bytes > SIZE_MAX - 64) return NULL;
  size_t rounded = (size_bytes + 63) / 64 * 64;
  return aligned_alloc(64, rounded ? rounded : 64);
}

char *vtb_strprintf(const char *fmt, ...) {
  char *text;
  va_list ap;
  va_start(ap, fmt);
  int n = vasprintf(&text, fmt, ap);
  va_end(ap);
  return n < 0 ? NULL : text;
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
    vtb_free(b);
  }
  *a = (vtb_arena){0};
}

/* From the first block, if it has room. */
static void *arena_take(vtb_arena *a, size_t need) {
  struct vtb_arena_block *b = a->head;
  if (!b || b->cap - b->used < need) return NULL;
  void *p = b->bytes + b->used;
  b->used += need;
  a->used_bytes += need;
  return memset(p, 0, need);
}

static size_t block_bytes(size_t need) {
  return sizeof(struct vtb_arena_block) + (need > 65536 ? need : 65536);
}

static void *arena_add(vtb_arena *a, struct vtb_arena_block *b, size_t need) {
  *b = (struct vtb_arena_block){.next = a->head, .cap = block_bytes(need) - sizeof *b};
  a->head = b;
  return arena_take(a, need);
}

void *vtb_arena_try(vtb_arena *a, size_t count, size_t size_bytes) {
  size_t total;
  if (__builtin_mul_overflow(count, size_bytes, &total) || total > SIZE_MAX / 4) return NULL;
  size_t need = (total + 15) & ~(size_t)15;
  void *p = arena_take(a, need);
  if (p) return p;
  struct vtb_arena_block *b = malloc(block_bytes(need));
  return b ? arena_add(a, b, need) : NULL;
}

void *vtb_arena_array(vtb_arena *a, size_t count, size_t size_bytes) {
  size_t total;
  if (__builtin_mul_overflow(count, size_bytes, &total) || total > SIZE_MAX / 4)
    total = SIZE_MAX / 4;
  size_t need = (total + 15) & ~(size_t)15;
  void *p = arena_take(a, need);
  return p ? p : arena_add(a, vtb_xmalloc(block_bytes(need)), need);
}

void *vtb_arena_alloc(vtb_arena *a, size_t size_bytes) { return vtb_arena_array(a, 1, size_bytes); }

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
  char shorter[200]; /* than most are */
  int n = vsnprintf(shorter, sizeof shorter, fmt, ap);
  va_end(ap);
  char *s = vtb_arena_alloc(a, (size_t)n + 1);
  if ((size_t)n < sizeof shorter)
    memcpy(s, shorter, (size_t)n + 1);
  else
    vsnprintf(s, (size_t)n + 1, fmt, again);
  va_end(again);
  return s;
}

/* Both families behind one: NULL only if `checked`. */
static void *resize(void *p, size_t count, size_t size_bytes, bool checked) {
  size_t total;
  if (!checked) return vtb_xrealloc(p, count, size_bytes);
  if (__builtin_mul_overflow(count, size_bytes, &total)) return NULL;
  return realloc(p, total ? total : 1);
}

static void *grow(void *at, size_t *cap, size_t need, size_t elem_bytes, bool checked) {
  size_t grown = *cap ? *cap * 2 : 8;
  if (grown < need) grown = need;
  at = resize(at, grown, elem_bytes, checked);
  if (at) *cap = grown;
  return at;
}

void *vtb__vec_grow(void *at, size_t *cap, size_t need, size_t elem_bytes) {
  return grow(at, cap, need, elem_bytes, false);
}

bool vtb__vec_try_grow(void *address_of_at, size_t *cap, size_t need, size_t elem_bytes) {
  void *at;
  memcpy(&at, address_of_at, sizeof at);
  at = grow(at, cap, need, elem_bytes, true);
  if (at) memcpy(address_of_at, &at, sizeof at);
  return at != NULL;
}

void *vtb__vec_grow_in(vtb_arena *a, const void *at, size_t *cap, size_t n, size_t need,
                       size_t elem_bytes) {
  *cap = need < 8 ? 8 : 2 * need;
  void *room = vtb_arena_array(a, *cap, elem_bytes);
  return n ? memcpy(room, at, n * elem_bytes) : room;
}

/* ---- strings --------------------------------------------------------------------------------- */

/* Room for so many bytes more and a NUL; false: a checked one has failed, now or before. */
static bool strbuf_reserve(vtb_strbuf *s, size_t extra) {
  size_t need = s->n + extra + 1;
  if (s->failed || need <= s->cap) return !s->failed;
  char *at = grow(s->at, &s->cap, need, 1, s->checked);
  if (at) s->at = at;
  s->failed = !at;
  return at != NULL;
}

void vtb_strbuf_write(vtb_strbuf *s, const char *bytes, size_t n) {
  if (!strbuf_reserve(s, n)) return;
  memcpy(s->at + s->n, bytes, n);
  s->n += n;
  s->at[s->n] = 0;
}

void vtb_strbuf_putc(vtb_strbuf *s, char c) { vtb_strbuf_write(s, &c, 1); }
void vtb_strbuf_puts(vtb_strbuf *s, const char *text) { vtb_strbuf_write(s, text, strlen(text)); }

void vtb_strbuf_vprintf(vtb_strbuf *s, const char *fmt, va_list ap) {
  va_list again;
  va_copy(again, ap);
  size_t room = s->failed ? 0 : s->cap - s->n; /* most fits: counting what does takes as long */
  int n = vsnprintf(room ? s->at + s->n : NULL, room, fmt, ap);
  if ((size_t)n < room) {
    s->n += (size_t)n;
  } else if (strbuf_reserve(s, (size_t)n)) {
    vsnprintf(s->at + s->n, (size_t)n + 1, fmt, again);
    s->n += (size_t)n;
  } else if (room) {
    s->at[s->n] = 0;
  }
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

const char *vtb_strbuf_format(vtb_strbuf *s, const char *fmt, ...) {
  va_list ap;
  s->n = 0;
  va_start(ap, fmt);
  vtb_strbuf_vprintf(s, fmt, ap);
  va_end(ap);
  return s->failed ? NULL : s->at;
}

const char *vtb_strbuf_text(const vtb_strbuf *s) { return s->at ? s->at : ""; }

vtb_status vtb_strbuf_check(const vtb_strbuf *s, vtb_error *err) {
  return s->failed ? vtb_no_memory(err, "text") : VTB_OK;
}

void vtb_strbuf_json(vtb_strbuf *s, const char *text) {
  static const char named[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
  vtb_strbuf_putc(s, '"');
  for (const char *p = text; *p; p++) {
    const char *name = strchr(named, *p);
    if (name)
      vtb_strbuf_printf(s, "\\%c", names[name - named]);
    else if ((unsigned char)*p < 0x20)
      vtb_strbuf_printf(s, "\\u%04x", (unsigned)*p);
    else
      vtb_strbuf_putc(s, *p);
  }
  vtb_strbuf_putc(s, '"');
}

void vtb_strbuf_word(vtb_strbuf *s, const char *text) {
  bool plain = *text && !strpbrk(text, " \t\n'\"\\$`*?[](){}<>|&;#~!");
  if (s->n) vtb_strbuf_putc(s, ' ');
  if (!plain) vtb_strbuf_putc(s, '\'');
  for (const char *c = text; *c; c++) {
    if (*c == '\'')
      vtb_strbuf_puts(s, "'\\''");
    else
      vtb_strbuf_putc(s, *c);
  }
  if (!plain) vtb_strbuf_putc(s, '\'');
}

void vtb_strbuf_xml(vtb_strbuf *s, const char *text) {
  static const char special[] = "<>&\"'";
  static const char *const entities[] = {"&lt;", "&gt;", "&amp;", "&quot;", "&#39;"};
  for (const char *c = text; *c; c++) {
    const char *at = strchr(special, *c);
    if (at)
      vtb_strbuf_puts(s, entities[at - special]);
    else
      vtb_strbuf_putc(s, *c);
  }
}

void vtb_strbuf_csv(vtb_strbuf *s, const char *text) {
  bool quoted = strpbrk(text, ",\"\r\n") != NULL;
  if (quoted) vtb_strbuf_putc(s, '"');
  for (const char *c = text; *c; c++) {
    if (*c == '"') vtb_strbuf_putc(s, '"');
    vtb_strbuf_putc(s, *c == '\n' || *c == '\r' ? ' ' : *c);
  }
  if (quoted) vtb_strbuf_putc(s, '"');
}

void vtb_strbuf_free(vtb_strbuf *s) {
  vtb_free(s->at);
  *s = (vtb_strbuf){.checked = s->checked};
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
  size_t length = strlen(name);
  int limit = length < 2 ? 0 : length <= 4 ? 1 : length <= 8 ? 2 : 3;
  const char *best = NULL;
  bool begins = false; /* best begins with the name: of equal distances that is meant */
  for (size_t i = 0; i < n; i++) {
    if (!candidates[i][0] || !candidates[i][1]) continue;
    int d = vtb_edit_distance(name, candidates[i], limit);
    bool longer = strncmp(candidates[i], name, length) == 0;
    if (d > limit || d == 0 || (best && d == limit && (begins || !longer))) continue;
    best = candidates[i];
    begins = longer;
    limit = d;
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

static bool map_rehash(vtb_map *m, bool checked) {
  size_t n_slots = m->n_slots ? m->n_slots * 2 : 16;
  uint32_t *slots = resize(NULL, n_slots, sizeof *slots, checked);
  if (!slots) return false;
  vtb_free(m->slots);
  m->slots = memset(slots, 0, n_slots * sizeof *slots);
  m->n_slots = n_slots;
  for (size_t i = 0; i < m->n; i++) m->slots[map_find(m, m->at[i].key)] = (uint32_t)i + 1;
  return true;
}

static bool map_add(vtb_map *m, size_t slot, const char *key, void *value, bool checked) {
  if (m->n == m->cap) {
    struct vtb_map_entry *at = grow(m->at, &m->cap, m->n + 1, sizeof *at, checked);
    if (!at) return false;
    m->at = at;
  }
  size_t bytes = strlen(key) + 1;
  char *copy = resize(NULL, bytes, 1, checked);
  if (!copy) return false;
  m->at[m->n++] = (struct vtb_map_entry){memcpy(copy, key, bytes), value};
  m->slots[slot] = (uint32_t)m->n;
  return true;
}

static bool map_put(vtb_map *m, const char *key, void *value, bool checked) {
  if ((m->n + 1) * 2 > m->n_slots && !map_rehash(m, checked)) return false;
  size_t slot = map_find(m, key);
  if (!m->slots[slot]) return map_add(m, slot, key, value, checked);
  m->at[m->slots[slot] - 1].value = value;
  return true;
}

void vtb_map_set(vtb_map *m, const char *key, void *value) { (void)map_put(m, key, value, false); }
bool vtb_map_try_set(vtb_map *m, const char *key, void *value) {
  return map_put(m, key, value, true);
}

void vtb_map_free(vtb_map *m) {
  for (size_t i = 0; i < m->n; i++) vtb_free(m->at[i].key);
  vtb_free(m->at);
  vtb_free(m->slots);
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
