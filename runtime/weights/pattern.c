/* See pattern.h. */
#include "runtime/weights/pattern.h"

#include <string.h>

/* ---- numbers: {i}, {2i}, {i+1}, {2i+1} ------------------------------------------------------- */

typedef struct linear {
  int64_t factor, offset;
  int letter;
  size_t length; /* of the text, braces included; 0: not one */
} linear;

static int64_t digits(const char **p) {
  int64_t v = 0;
  while (**p >= '0' && **p <= '9' && v < 100000000) v = 10 * v + (*(*p)++ - '0');
  return v;
}

static linear read_linear(const char *text) {
  const char *p = text + 1;
  linear l = {.factor = 1};
  if (*p >= '0' && *p <= '9') l.factor = digits(&p);
  if (*p < 'a' || *p > 'z' || l.factor < 1) return l;
  l.letter = *p++ - 'a';
  if (*p == '+') {
    p++;
    if (*p < '0' || *p > '9') return l;
    l.offset = digits(&p);
  }
  if (*p == '}') l.length = (size_t)(p + 1 - text);
  return l;
}

/* ---- checking -------------------------------------------------------------------------------- */

const char *vtb_pattern_fault(const char *pattern, size_t n) {
  int texts = 0, brackets = 0;
  bool open = false;
  if (!n) return "a name is missing";
  for (size_t i = 0; i < n; i++) {
    char c = pattern[i];
    if (c == '*' && ++texts > VTB_PATTERN_TEXTS) return "a name has at most two *";
    if (c == '*' && i && pattern[i - 1] == '*') return "two * beside each other";
    if (c == '[' || c == ']') {
      if (open == (c == '[')) return "brackets do not match";
      open = c == '[';
      if (open && ++brackets > VTB_PATTERN_BRACKETS) return "a name has at most four brackets";
    } else if (open && (c == '*' || c == '{')) {
      return "brackets hold plain text";
    }
    if (c == '}') return "braces do not match";
    if (c == '{') {
      linear l = read_linear(pattern + i);
      if (!l.length || i + l.length > n) return "braces hold a number: {i}, {2i} or {2i+1}";
      i += l.length - 1;
    }
  }
  return open ? "brackets do not match" : "";
}

int vtb_pattern_texts(const char *pattern) {
  int n = 0;
  for (; *pattern; pattern++) n += *pattern == '*';
  return n;
}

uint32_t vtb_pattern_letters(const char *pattern) {
  uint32_t letters = 0;
  for (; *pattern; pattern++)
    if (*pattern == '{') letters |= 1u << read_linear(pattern).letter;
  return letters;
}

/* ---- matching -------------------------------------------------------------------------------- */

static bool match_here(const char *p, const char *s, vtb_taken *t);

static bool match_number(const char *p, const char *s, vtb_taken *t) {
  linear l = read_linear(p);
  const char *end = s;
  int64_t v = digits(&end), before = t->number[l.letter];
  if (end == s || (*s == '0' && end > s + 1) || v < l.offset || (v - l.offset) % l.factor)
    return false;
  v = (v - l.offset) / l.factor;
  if (before >= 0 && before != v) return false;
  t->number[l.letter] = v;
  if (match_here(p + l.length, end, t)) return true;
  t->number[l.letter] = before;
  return false;
}

static bool match_text(const char *p, const char *s, vtb_taken *t) {
  int at = t->n_texts++;
  for (size_t n = strlen(s); n > 0; n--) {
    t->text[at] = s;
    t->length[at] = n;
    if (match_here(p + 1, s + n, t)) return true;
  }
  t->n_texts = at;
  return false;
}

static bool match_here(const char *p, const char *s, vtb_taken *t) {
  while (*p && *p != '*' && *p != '{' && *p != '[') {
    if (*p++ != *s++) return false;
  }
  if (!*p) return !*s;
  if (*p == '*') return match_text(p, s, t);
  if (*p == '{') return match_number(p, s, t);
  size_t n = strcspn(p, "]") - 1;
  const char *rest = p + n + 2;
  return (strncmp(p + 1, s, n) == 0 && match_here(rest, s + n, t)) || match_here(rest, s, t);
}

bool vtb_pattern_match(const char *pattern, const char *name, vtb_taken *taken) {
  *taken = (vtb_taken){0};
  for (int i = 0; i < VTB_PATTERN_LETTERS; i++) taken->number[i] = -1;
  return strlen(name) <= VTB_PATTERN_NAME && match_here(pattern, name, taken);
}

/* ---- filling in ------------------------------------------------------------------------------ */

bool vtb_pattern_fill(const char *p, const vtb_taken *t, vtb_strbuf *out) {
  int texts = 0;
  for (; *p; p++) {
    if (*p == '*') {
      if (texts >= t->n_texts) return false;
      vtb_strbuf_write(out, t->text[texts], t->length[texts]);
      texts++;
    } else if (*p == '{') {
      linear l = read_linear(p);
      if (t->number[l.letter] < 0) return false;
      vtb_strbuf_printf(out, "%lld", (long long)(l.factor * t->number[l.letter] + l.offset));
      p += l.length - 1;
    } else if (*p != '[' && *p != ']') {
      vtb_strbuf_putc(out, *p);
    }
  }
  return true;
}
