/* See json.h: recursive descent, one function a kind of value. */
#include "runtime/base/json.h"
#include "runtime/base/utf8.h"

#include <math.h>
#include <string.h>

enum { MOST_NESTED = 100 };

typedef struct reader {
  const char *at, *end;
  vtb_arena *arena;
  int depth;
  bool no_memory;
} reader;

static bool value(reader *r, vtb_json *v);

static void skip_space(reader *r) {
  while (r->at < r->end && memchr(" \t\r\n", *r->at, 4)) r->at++;
}

static bool take_char(reader *r, char c) {
  if (r->at == r->end || *r->at != c) return false;
  r->at++;
  return true;
}

static bool take_word(reader *r, const char *word) {
  size_t n = strlen(word);
  if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) return false;
  r->at += n;
  return true;
}

static void *allocate(reader *r, size_t size_bytes) {
  void *p = vtb_arena_try(r->arena, 1, size_bytes);
  if (!p) r->no_memory = true;
  return p;
}

/* ---- strings --------------------------------------------------------------------------------- */

static bool hex4(reader *r, unsigned *out) {
  *out = 0;
  for (int i = 0; i < 4; i++, r->at++) {
    static const char digits[] = "0123456789abcdef";
    const char *d = r->at < r->end ? memchr(digits, *r->at | 0x20, 16) : NULL;
    if (!d || (*r->at < '0')) return false;
    *out = *out << 4 | (unsigned)(d - digits);
  }
  return true;
}

/* Behind "\u": one code point, of which the larger ones are two surrogates. */
static bool code_point(reader *r, unsigned *c) {
  unsigned low;
  if (!hex4(r, c)) return false;
  if (*c < 0xd800 || *c > 0xdfff) return *c != 0; /* texts here end with a NUL */
  if (*c > 0xdbff || !take_word(r, "\\u") || !hex4(r, &low)) return false;
  if (low < 0xdc00 || low > 0xdfff) return false;
  *c = 0x10000 + ((*c & 0x3ff) << 10) + (low & 0x3ff);
  return true;
}

static bool escape(reader *r, char **to) {
  static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
  unsigned c;
  if (take_char(r, 'u')) {
    if (!code_point(r, &c)) return false;
    *to += vtb_utf8_encode(c, *to);
    return true;
  }
  const char *name = r->at < r->end ? memchr(names, *r->at, sizeof names - 1) : NULL;
  if (!name) return false;
  *(*to)++ = values[name - names];
  r->at++;
  return true;
}

/* An escape is never shorter than what it stands for. */
static bool string(reader *r, const char **out) {
  if (!take_char(r, '"')) return false;
  const char *close = r->at;
  while (close < r->end && *close != '"') close += *close == '\\' && close + 1 < r->end ? 2 : 1;
  if (close >= r->end) return false;
  char *text = allocate(r, (size_t)(close - r->at) + 1), *to = text;
  if (!text) return false;
  while (r->at < close)
    if (take_char(r, '\\')) {
      if (!escape(r, &to)) return false;
    } else if ((unsigned char)*r->at < 0x20) {
      return false;
    } else {
      *to++ = *r->at++;
    }
  *out = text;
  return take_char(r, '"');
}

/* ---- other values ---------------------------------------------------------------------------- */

static bool digits(reader *r) {
  const char *from = r->at;
  while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
  return r->at > from;
}

static bool read_number(reader *r, double *out) {
  char text[64];
  const char *from = r->at;
  (void)take_char(r, '-');
  if (!take_char(r, '0') && !digits(r)) return false;
  if (take_char(r, '.') && !digits(r)) return false;
  if (take_char(r, 'e') || take_char(r, 'E')) {
    if (!take_char(r, '-')) (void)take_char(r, '+');
    if (!digits(r)) return false;
  }
  size_t n = (size_t)(r->at - from);
  if (n >= sizeof text) return false;
  memcpy(text, from, n);
  text[n] = 0;
  *out = strtod(text, NULL);
  return isfinite(*out);
}

/* The elements of an array, or with `keys` the members of an object, to the closing bracket. */
static bool elements(reader *r, vtb_json *parent, char close, bool keys) {
  vtb_json **end = &parent->first;
  skip_space(r);
  if (take_char(r, close)) return true;
  do {
    vtb_json *v = allocate(r, sizeof *v);
    if (!v) return false;
    skip_space(r);
    if (keys) {
      if (!string(r, &v->key)) return false;
      skip_space(r);
      if (!take_char(r, ':')) return false;
    }
    if (!value(r, v)) return false;
    *end = v;
    end = &v->next;
  } while (take_char(r, ','));
  return take_char(r, close);
}

static bool nested(reader *r, vtb_json *v, char close, bool keys) {
  v->kind = keys ? VTB_JSON_OBJECT : VTB_JSON_ARRAY;
  if (r->depth == MOST_NESTED) return false;
  r->depth++;
  bool good = elements(r, v, close, keys);
  r->depth--;
  return good;
}

static bool plain(reader *r, vtb_json *v) {
  if (take_char(r, '{')) return nested(r, v, '}', true);
  if (take_char(r, '[')) return nested(r, v, ']', false);
  v->kind = VTB_JSON_STRING;
  if (r->at < r->end && *r->at == '"') return string(r, &v->text);
  v->kind = VTB_JSON_NULL;
  if (take_word(r, "null")) return true;
  v->kind = VTB_JSON_BOOL;
  v->number = take_word(r, "true");
  if (v->number || take_word(r, "false")) return true;
  v->kind = VTB_JSON_NUMBER;
  return read_number(r, &v->number);
}

static bool value(reader *r, vtb_json *v) {
  skip_space(r);
  bool good = plain(r, v);
  skip_space(r);
  return good;
}

const vtb_json *vtb_json_parse(const char *text, size_t n, vtb_arena *arena, bool *no_memory,
                               size_t *at) {
  reader r = {.at = text, .end = text + n, .arena = arena};
  vtb_json *v = allocate(&r, sizeof *v);
  bool good = v && value(&r, v);
  *no_memory = r.no_memory;
  *at = (size_t)(r.at - text);
  return good ? v : NULL;
}

const vtb_json *vtb_json_member(const vtb_json *object, const char *key) {
  if (object->kind != VTB_JSON_OBJECT) return NULL;
  const vtb_json *m = object->first;
  while (m && strcmp(m->key, key) != 0) m = m->next;
  return m;
}
