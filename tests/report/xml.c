#include "xml.h"

#include "runtime/base/utf8.h"

#include <ctype.h>
#include <string.h>

enum { MOST_DEPTH = 64, MOST_NAME = 64, MOST_ATTRIBUTES = 16 };

typedef struct reader {
  const char *text, *end, *at, *error;
  char open[MOST_DEPTH][MOST_NAME];
  int depth, roots;
} reader;

static bool wrong(reader *r, const char *why) {
  if (!r->error) r->error = why;
  return false;
}

static bool looking_at(const reader *r, const char *what) {
  size_t n = strlen(what);
  return (size_t)(r->end - r->at) >= n && memcmp(r->at, what, n) == 0;
}

static bool skip(reader *r, const char *what) {
  if (!looking_at(r, what)) return false;
  r->at += strlen(what);
  return true;
}

static void spaces(reader *r) {
  while (r->at < r->end && strchr(" \t\r\n", *r->at)) r->at++;
}

/* One character that XML 1.0 allows. */
static bool character(reader *r) {
  uint32_t c;
  size_t n = vtb_utf8_decode(r->at, (size_t)(r->end - r->at), &c);
  if (!n) return wrong(r, "this is not UTF-8");
  if ((c < 0x20 && !strchr("\t\n\r", (int)c)) || c == 0 || c == 0xfffe || c == 0xffff)
    return wrong(r, "no character of XML");
  r->at += n;
  return true;
}

static bool reference(reader *r) {
  static const char *const known[] = {"&lt;", "&gt;", "&amp;", "&quot;", "&#39;"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (skip(r, known[i])) return true;
  return wrong(r, "no reference");
}

static bool name(reader *r, char out[MOST_NAME]) {
  size_t n = 0;
  while (r->at < r->end && (isalnum((unsigned char)*r->at) || strchr("-_:", *r->at))) {
    if (n + 1 == MOST_NAME) return wrong(r, "a name is too long");
    out[n++] = *r->at++;
  }
  out[n] = 0;
  return n > 0 || wrong(r, "a name is missing");
}

static bool attribute(reader *r, char names[MOST_ATTRIBUTES][MOST_NAME], int n) {
  if (n == MOST_ATTRIBUTES) return wrong(r, "too many attributes");
  if (!name(r, names[n])) return false;
  for (int i = 0; i < n; i++)
    if (strcmp(names[i], names[n]) == 0) return wrong(r, "an attribute twice");
  if (!skip(r, "=\"")) return wrong(r, "an attribute without a quoted value");
  while (r->at < r->end && *r->at != '"') {
    if (*r->at == '<') return wrong(r, "'<' in an attribute");
    if (!(*r->at == '&' ? reference(r) : character(r))) return false;
  }
  return skip(r, "\"") || wrong(r, "a value without an end");
}

static bool element(reader *r) {
  char names[MOST_ATTRIBUTES][MOST_NAME];
  if (r->depth == MOST_DEPTH) return wrong(r, "too deep");
  if (r->depth == 0 && r->roots++) return wrong(r, "a second root");
  if (!name(r, r->open[r->depth])) return false;
  for (int n = 0;; n++) {
    spaces(r);
    if (skip(r, "/>")) return true;
    if (skip(r, ">")) {
      r->depth++;
      return true;
    }
    if (!attribute(r, names, n)) return false;
  }
}

static bool closing(reader *r) {
  char closed[MOST_NAME];
  if (!name(r, closed) || !skip(r, ">")) return wrong(r, "a closing tag");
  if (r->depth == 0 || strcmp(closed, r->open[--r->depth]) != 0)
    return wrong(r, "this closes what is not open");
  return true;
}

static bool literal(reader *r) {
  while (!looking_at(r, "]]>"))
    if (r->at >= r->end || !character(r)) return wrong(r, "CDATA without an end");
  return skip(r, "]]>");
}

static bool step(reader *r) {
  if (skip(r, "<![CDATA[")) return literal(r);
  if (skip(r, "</")) return closing(r);
  if (skip(r, "<")) return element(r);
  if (r->depth == 0 && !strchr(" \n", *r->at)) return wrong(r, "text outside");
  if (looking_at(r, "]]>")) return wrong(r, "]]> in text");
  return *r->at == '&' ? reference(r) : character(r);
}

const char *xml_check(const char *text, size_t n, size_t *at) {
  reader r = {.text = text, .end = text + n, .at = text};
  if (!skip(&r, "<!DOCTYPE html>")) wrong(&r, "no doctype");
  while (!r.error && r.at < r.end && step(&r)) continue;
  if (!r.error && r.depth) wrong(&r, "an element is not closed");
  if (!r.error && r.roots != 1) wrong(&r, "no root");
  *at = (size_t)(r.at - text);
  return r.error;
}
