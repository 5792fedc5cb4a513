/* Values of numbers and strings. Expressions in the braces of a string are parsed by a parser of
 * their own, over their range of the same source, so that their places are right. */
#include "frontend/lang/parse.h"
#include "ir/diag_codes.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STRING_DEPTH = 8 }; /* strings in braces of strings */

static bool read_int(const char *digits, int64_t *out) {
  errno = 0;
  long long v = strtoll(digits, NULL, 10);
  *out = v;
  return errno == 0;
}

/* 224x196, 8x14x14 */
static bool read_size(const char *text, vtb_grid *out) {
  int64_t side[VTB_GRID_AXES];
  int rank = 0;
  bool ok = true;
  for (const char *at = text; at && rank < VTB_GRID_AXES; rank++) {
    const char *x = strchr(at, 'x');
    ok &= read_int(at, &side[rank]);
    at = x ? x + 1 : NULL;
  }
  *out = vtb_grid_of(rank, side);
  return ok;
}

vtb_expr *vtb__number(vtb_parse *p, vtb_loc loc) {
  char *text = vtb_arena_strndup(&p->unit->arena, p->source->text + loc.begin, loc.end - loc.begin);
  bool ok, size = strchr(text, 'x');
  vtb_expr *e;
  if (size) {
    e = vtb__expr_new(p, VTB_EXPR_SIZE, loc);
    ok = read_size(text, &e->u.size);
  } else if (strpbrk(text, ".eE")) {
    e = vtb__expr_new(p, VTB_EXPR_FLOAT, loc);
    e->u.f = strtod(text, NULL);
    ok = isfinite(e->u.f);
  } else {
    e = vtb__expr_new(p, VTB_EXPR_INT, loc);
    ok = read_int(text, &e->u.i);
  }
  if (!ok)
    vtb__error(p, loc, VTB_DIAG_NUMBER_TOO_LARGE, "%.40s%s is too large", text,
               strlen(text) > 40 ? "..." : "");
  if (ok && size && (e->u.size.t < 1 || e->u.size.h < 1 || e->u.size.w < 1))
    vtb__error(p, loc, VTB_DIAG_BAD_SIZE, "%s has no pixels: height and width are at least 1",
               text);
  return e;
}

static uint32_t extent(const vtb_source *s, uint32_t at, uint32_t end, char quote, int depth,
                       bool *closed);

/* From behind an opening brace in a string to its closing brace; *closed is false if the line or
 * the range ends first. */
static uint32_t braces_extent(const vtb_source *s, uint32_t at, uint32_t end, int depth,
                              bool *closed) {
  *closed = false;
  for (int open = 1; at < end && s->text[at] != '\n';) {
    char c = s->text[at];
    if (c == '}' && --open == 0) {
      *closed = true;
      return at;
    }
    if (c == '{') open++;
    if (c == '"') {
      if (depth >= MAX_STRING_DEPTH) return at;
      at = extent(s, at, end, '"', depth + 1, closed);
      if (!*closed) return at;
      *closed = false;
    } else {
      at++;
    }
  }
  return at;
}

static uint32_t extent(const vtb_source *s, uint32_t at, uint32_t end, char quote, int depth,
                       bool *closed) {
  *closed = false;
  for (at++; at < end && s->text[at] != '\n';) {
    char c = s->text[at];
    if (c == quote) {
      *closed = true;
      return at + 1;
    }
    if (c == '\\' && at + 1 < end && s->text[at + 1] != '\n') {
      at += 2;
    } else if (c == '{' && quote == '"') {
      bool complete;
      at = braces_extent(s, at + 1, end, depth, &complete);
      if (!complete) break;
      at++;
    } else {
      at++;
    }
  }
  while (at < end && s->text[at] != '\n') at++;
  return at;
}

uint32_t vtb__string_extent(const vtb_source *s, uint32_t begin, uint32_t end, char quote,
                            bool *closed) {
  return extent(s, begin, end, quote, 0, closed);
}

static char escaped(vtb_parse *p, uint32_t at) {
  char c = p->source->text[at + 1];
  switch (c) {
  case 'n':
    return '\n';
  case 't':
    return '\t';
  case '"':
  case '\\':
  case '{':
  case '}':
    return c;
  default:
    if (!p->bad_encoding || (unsigned char)c < 0x80)
      vtb__error(p, (vtb_loc){at, at + 2}, VTB_DIAG_BAD_ESCAPE, "unknown escape '\\%c' in a string",
                 (unsigned char)c >= 0x20 && (unsigned char)c < 0x7f ? c : '?');
    return c;
  }
}

static void add_literal(vtb_parse *p, vtb_list *pieces, vtb_strbuf *text, vtb_loc loc) {
  if (!text->n) return;
  vtb_expr *e = vtb__expr_new(p, VTB_EXPR_STRING, loc);
  e->u.str = vtb_arena_strndup(&p->unit->arena, text->at, text->n);
  vtb__list_add(p, pieces, e);
  text->n = 0;
}

static vtb_expr *interpolated(vtb_parse *p, uint32_t begin, uint32_t end) {
  uint32_t first = begin;
  while (first < end && strchr(" \t\r", p->source->text[first])) first++;
  if (first == end || p->string_depth >= MAX_STRING_DEPTH) {
    vtb__error(p, (vtb_loc){begin - 1, end + 1},
               first == end ? VTB_DIAG_BAD_INTERPOLATION : VTB_DIAG_NESTING_TOO_DEEP,
               first == end ? "no expression between the braces; a brace itself is written \\{"
                            : "strings in strings are nested too deep");
    return vtb__expr_new(p, VTB_EXPR_ERROR, (vtb_loc){begin, end});
  }
  vtb_parse inner;
  vtb__parse_begin(&inner, p->unit, p->file, p->source, p->diags);
  inner.begin = inner.offset = begin;
  inner.end = end;
  inner.string_depth = p->string_depth + 1;
  inner.bad_encoding = p->bad_encoding;
  p->run(&inner, true);
  vtb_expr *e = inner.result;
  vtb__parse_end(&inner);
  return e ? e : vtb__expr_new(p, VTB_EXPR_ERROR, (vtb_loc){begin, end});
}

vtb_expr *vtb__string(vtb_parse *p, vtb_loc loc, bool closed) {
  vtb_list *pieces = vtb__list(p);
  vtb_strbuf text = {0};
  uint32_t end = closed ? loc.end - 1 : loc.end, literal = loc.begin + 1;
  bool braces = p->source->text[loc.begin] == '"' && closed;
  for (uint32_t at = literal; at < end;) {
    char c = p->source->text[at];
    if (c == '\\' && at + 1 < end) {
      vtb_strbuf_putc(&text, escaped(p, at));
      at += 2;
    } else if (c == '{' && braces) {
      bool complete;
      uint32_t close = braces_extent(p->source, at + 1, end, p->string_depth, &complete);
      add_literal(p, pieces, &text, (vtb_loc){literal, at});
      vtb__list_add(p, pieces, interpolated(p, at + 1, close));
      literal = at = close + 1;
    } else {
      if (c) vtb_strbuf_putc(&text, c);
      at++;
    }
  }
  vtb_expr *e;
  if (pieces->n) {
    add_literal(p, pieces, &text, (vtb_loc){literal, end});
    e = vtb__expr_list_of(p, VTB_EXPR_INTERP, pieces, loc);
  } else {
    e = vtb__expr_new(p, VTB_EXPR_STRING, loc);
    e->u.str = vtb_arena_strndup(&p->unit->arena, text.at ? text.at : "", text.n);
  }
  vtb_strbuf_free(&text);
  return e;
}
