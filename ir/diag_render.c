/* Diagnostics as text with the source line and a caret range, and as JSON. */
#include "ir/diag.h"

#include "runtime/base/utf8.h"

#include <string.h>

#define WINDOW_COLUMNS 66 /* longer source lines are shown around the caret only */

vtb_line_col vtb_source_locate(const vtb_source *s, uint32_t offset) {
  vtb_line_col at = {1, 1};
  size_t end = offset < s->n ? offset : s->n;
  for (size_t i = 0; i < end; i++) {
    at.col++;
    if (s->text[i] == '\n') at.line++, at.col = 1;
  }
  return at;
}

char *vtb_span_text(vtb_span s, char *buf, size_t n) {
  if (n == 0) return buf;
  buf[0] = 0;
  if (!s.source) return buf;
  const char *name = s.source->name ? s.source->name : s.source->path;
  snprintf(buf, n, "%s:%d", name, vtb_source_locate(s.source, s.begin).line);
  return buf;
}

/* ---- text ------------------------------------------------------------------------------------ */

static const char *const severity_names[] = {"error", "warning", "note", "help"};
static const char *const severity_colors[] = {"\033[1;31m", "\033[1;35m", "\033[1;36m",
                                              "\033[1;32m"};

static const char *color_of(bool color, const char *sequence) { return color ? sequence : ""; }

/* Copies text[from, to): tabs become spaces, other bytes that would upset a terminal '?'. */
static void put_line(vtb_strbuf *out, const char *text, size_t from, size_t to) {
  for (size_t i = from; i < to;) {
    size_t len = vtb_utf8_decode(text + i, to - i, NULL);
    unsigned char c = (unsigned char)text[i];
    if (c == '\t')
      vtb_strbuf_putc(out, ' ');
    else if (len == 0 || c < 0x20 || c == 0x7f)
      vtb_strbuf_putc(out, '?');
    else
      vtb_strbuf_write(out, text + i, len);
    i += len ? len : 1;
  }
}

/* Columns of what put_line() writes. */
static size_t columns(const char *text, size_t from, size_t to) {
  size_t n = 0;
  for (size_t i = from; i < to;) {
    uint32_t c = '?';
    size_t len = vtb_utf8_decode(text + i, to - i, &c);
    n += c < 0x20 || c == 0x7f ? 1 : (size_t)vtb_char_columns(c);
    i += len ? len : 1;
  }
  return n;
}

static void repeat(vtb_strbuf *out, char c, size_t n) {
  while (n--) vtb_strbuf_putc(out, c);
}

typedef struct excerpt {
  size_t begin, end;       /* what is shown of the line */
  size_t caret, caret_end; /* within it */
  bool cut_left, cut_right;
} excerpt;

static excerpt find_excerpt(const vtb_source *s, vtb_span span) {
  size_t at = span.begin < s->n ? span.begin : s->n;
  excerpt e = {.begin = at, .end = at, .caret = at};
  while (e.begin > 0 && s->text[e.begin - 1] != '\n') e.begin--;
  while (e.end < s->n && s->text[e.end] != '\n') e.end++;
  if (e.end > e.begin && s->text[e.end - 1] == '\r') e.end--;
  if (e.caret > e.end) e.caret = e.end;
  if (e.end - e.begin > WINDOW_COLUMNS) {
    if (e.caret - e.begin > WINDOW_COLUMNS / 2)
      e.begin = e.caret - WINDOW_COLUMNS / 2, e.cut_left = true;
    if (e.end - e.begin > WINDOW_COLUMNS) e.end = e.begin + WINDOW_COLUMNS, e.cut_right = true;
  }
  /* a range over several lines is marked on its first */
  e.caret_end = span.end > e.end ? e.end : span.end;
  if (e.caret_end < e.caret) e.caret_end = e.caret;
  return e;
}

static void render_excerpt(vtb_strbuf *out, vtb_span span, int line, vtb_severity severity,
                           bool color) {
  const vtb_source *s = span.source;
  excerpt e = find_excerpt(s, span);
  vtb_strbuf_printf(out, "%5d | %s", line, e.cut_left ? "..." : "");
  put_line(out, s->text, e.begin, e.end);
  vtb_strbuf_printf(out, "%s\n      | ", e.cut_right ? "..." : "");
  repeat(out, ' ', columns(s->text, e.begin, e.caret) + (e.cut_left ? 3 : 0));
  size_t width = columns(s->text, e.caret, e.caret_end);
  vtb_strbuf_puts(out, color_of(color, severity_colors[severity]));
  vtb_strbuf_putc(out, '^');
  repeat(out, '~', width > 1 ? width - 1 : 0);
  vtb_strbuf_puts(out, color_of(color, "\033[0m"));
  vtb_strbuf_putc(out, '\n');
}

static void render_one(const vtb_diag *d, vtb_strbuf *out, bool color) {
  vtb_line_col at = {0, 0};
  vtb_strbuf_puts(out, color_of(color, "\033[1m"));
  if (d->span.source) {
    at = vtb_source_locate(d->span.source, d->span.begin);
    const vtb_source *s = d->span.source;
    vtb_lines_visible(out, s->library ? s->name : s->path);
    vtb_strbuf_printf(out, ":%d:%d: ", at.line, at.col);
  }
  vtb_strbuf_printf(out, "%s%s", color_of(color, severity_colors[d->severity]),
                    severity_names[d->severity]);
  if (d->code) vtb_strbuf_printf(out, "[VTB%04d]", d->code);
  vtb_strbuf_printf(out, ":%s ", color_of(color, "\033[0m"));
  bool bold = color && d->severity <= VTB_SEV_WARNING;
  vtb_strbuf_puts(out, color_of(bold, "\033[1m"));
  vtb_lines_visible(out, d->text);
  vtb_strbuf_printf(out, "%s\n", color_of(bold, "\033[0m"));
  if (d->span.source) render_excerpt(out, d->span, at.line, d->severity, color);
}

static int n_dropped(const vtb_diags *d) {
  int limit = d->limit > 0 ? d->limit : 20;
  return d->n_errors > limit ? d->n_errors - limit : 0;
}

void vtb_diags_render(const vtb_diags *d, vtb_strbuf *out, bool color) {
  for (size_t i = 0; i < d->list.n; i++) render_one(&d->list.at[i], out, color);
  int dropped = n_dropped(d);
  if (dropped)
    vtb_strbuf_printf(out, "%d more error%s not shown\n", dropped, dropped == 1 ? "" : "s");
}

void vtb_diags_print(const vtb_diags *d, FILE *f) {
  vtb_strbuf text = {0};
  vtb_diags_render(d, &text, vtb_color_enabled(f));
  if (text.n) fwrite(text.at, 1, text.n, f);
  vtb_strbuf_free(&text);
}
