/* Pieces of source text on one line. */
#include "frontend/lang/symbols_text.h"

#include <ctype.h>
#include <string.h>

enum { MOST_BYTES = 400 };

/* From a comment's begin to its end, or `i` where none begins. */
static uint32_t behind_comment(const char *text, uint32_t i, uint32_t end) {
  if (i + 1 >= end || text[i] != '/' || (text[i + 1] != '/' && text[i + 1] != '*')) return i;
  const char *mark = text[i + 1] == '/' ? "\n" : "*/";
  const char *found = memmem(text + i, end - i, mark, strlen(mark));
  return found ? (uint32_t)(found - text) + (uint32_t)strlen(mark) : end;
}

const char *vtb__one_line(vtb_arena *a, vtb_span span) {
  if (!span.source) return "";
  const char *text = span.source->text;
  vtb_strbuf out = {0};
  bool blank = false;
  for (uint32_t i = span.begin; i < span.end; i++) {
    uint32_t next = behind_comment(text, i, span.end);
    if (next > i || isspace((unsigned char)text[i])) {
      blank = true;
      if (next > i) i = next - 1;
      continue;
    }
    bool tight = !out.n || out.at[out.n - 1] == '(' || text[i] == ')' || text[i] == ',';
    if (out.n > MOST_BYTES && ((unsigned char)text[i] & 0xc0) != 0x80) {
      vtb_strbuf_puts(&out, " ...");
      break;
    }
    if (text[i] == ')' && out.n && out.at[out.n - 1] == ',')
      out.n--; /* of a list with a line each */
    if (blank && !tight) vtb_strbuf_putc(&out, ' ');
    vtb_strbuf_putc(&out, text[i]);
    blank = false;
  }
  const char *line = vtb_arena_strndup(a, out.at ? out.at : "", out.n);
  vtb_strbuf_free(&out);
  return line;
}

const char *vtb__signature(vtb_arena *a, const vtb_decl *d) {
  vtb_span head = d->span;
  bool has_body = d->kind != VTB_DECL_CONST && d->kind != VTB_DECL_PRESET;
  if (has_body && d->body.span.source && d->body.span.begin > head.begin)
    head.end = d->body.span.begin;
  return vtb__one_line(a, head);
}

const char *vtb__line_of(vtb_arena *a, vtb_span place) {
  if (!place.source) return "";
  const vtb_source *s = place.source;
  while (place.begin > 0 && s->text[place.begin - 1] != '\n') place.begin--;
  while (place.end < s->n && s->text[place.end] != '\n') place.end++;
  return vtb__one_line(a, place);
}
