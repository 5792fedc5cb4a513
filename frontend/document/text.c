/* A document on a terminal. */
#include "frontend/document/document.h"
#include "frontend/document/wrap.h"
#include "runtime/base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_APART = 20 }; /* columns of what may have a line of its own */

/* How wide each column of a table is; 0: nothing is in it. */
typedef struct widths {
  const doc_table *table;
  int *of;
} widths;

static int columns_of(const char *text) { return vtb_text_columns(text, strlen(text)); }

/* most: columns that its texts may have, 0: any. */
static int widest(const doc_table *t, int column, int most) {
  const doc_column *c = &t->columns[column];
  int wide = 0;
  for (size_t i = 0; i < t->rows.n && !c->ragged; i++) {
    const doc_row *row = &t->rows.at[i];
    const char *text = row->cells[column].shown;
    if (row->hidden || row->end <= column || !text) continue;
    int n = columns_of(text);
    if (most && n > most) n = c->most < 0 ? 0 : most; /* it has a line of its own, or is cut */
    if (n > wide) wide = n;
  }
  if (abs(c->width) > wide) wide = abs(c->width);
  int heading = t->headless ? 0 : columns_of(c->heading);
  return heading > wide ? heading : wide > 0 ? wide : 1;
}

/* Where there is a terminal, what may have a line of its own has the columns that the others
 * leave. */
static void fit(widths *w, int columns) {
  const doc_table *t = w->table;
  int first = -1, used = t->indent - t->gap;
  for (int c = 0; c < t->n_columns; c++) {
    if (w->of[c] && t->columns[c].most < 0) first = c;
    if (w->of[c]) used += w->of[c] + t->gap;
  }
  if (first < 0 || columns == 0 || used <= columns) return;
  int room = w->of[first] - (used - columns);
  w->of[first] = widest(t, first, room < LEAST_APART ? LEAST_APART : room);
}

/* The text in its column, cut if it is too wide; by its width's sign, or as numbers are. */
static void put_cell(vtb_strbuf *out, const doc_column *c, const char *text, int wide, bool right) {
  size_t n = strlen(text);
  int columns = columns_of(text), cut = c->most > 0 && columns > wide ? 3 : 0;
  if (cut) {
    n = vtb_text_fit(text, n, wide - cut);
    columns = vtb_text_columns(text, n) + cut;
  }
  int pad = columns < wide ? wide - columns : 0;
  vtb_strbuf_printf(out, "%*s%.*s%.*s%*s", right ? pad : 0, "", (int)n, text, cut, "...",
                    right ? 0 : pad, "");
}

/* A text on lines of its own. */
static void put_apart(const char *text, int columns, int indent, int behind, vtb_strbuf *out) {
  vtb_strbuf_printf(out, "%*s", indent, "");
  doc_wrap(out, text, strlen(text), columns, indent, behind, true);
  vtb_strbuf_putc(out, '\n');
}

/* A row, or the headings. */
static void put_row(const widths *w, const doc_row *row, int columns, vtb_strbuf *out) {
  const doc_table *t = w->table;
  char **fields = vtb_xcalloc((size_t)t->n_columns + 1, sizeof *fields);
  int n = 0, end = row ? row->end : t->n_columns;
  for (int i = 0; i < t->n_columns && i <= end; i++) {
    const doc_column *c = &t->columns[i];
    if (!w->of[i] && i < end) continue;
    const char *text = row ? row->cells[i].shown : c->heading;
    if (!text) text = c->none ? c->none : "";
    if (c->most < 0 && columns_of(text) > w->of[i]) {
      put_apart(text, columns, t->indent, t->indent + 2, out);
      text = "";
    }
    vtb_strbuf field = {0};
    vtb_strbuf_printf(&field, "%*s", n ? 0 : t->indent, "");
    put_cell(&field, c, text, i < end ? w->of[i] : columns_of(text), c->width >= 0);
    fields[n++] = field.at;
  }
  int cut = !row ? 0 : end < t->n_columns ? n - 1 : t->cut;
  doc_put_line(out, (const char *const *)fields, n, columns, t->gap, cut);
  while (out->n && out->at[out->n - 1] == ' ') out->at[--out->n] = 0;
  vtb_strbuf_putc(out, '\n');
  for (int i = 0; i < n; i++) vtb_free(fields[i]);
  vtb_free((void *)fields);
}

static void put_table(const doc_table *t, int columns, vtb_strbuf *out) {
  widths w = {t, vtb_xcalloc((size_t)t->n_columns + 1, sizeof(int))};
  for (int c = 0; c < t->n_columns; c++)
    w.of[c] = doc_is_shown(t, c) ? widest(t, c, abs(t->columns[c].most)) : 0;
  fit(&w, columns);
  if (!t->headless && t->rows.n) put_row(&w, NULL, columns, out);
  for (size_t i = 0; i < t->rows.n; i++) {
    const doc_row *row = &t->rows.at[i];
    if (row->hidden) continue;
    if (row->end == 0)
      put_apart(row->cells[0].shown, columns, 0, 4, out);
    else
      put_row(&w, row, columns, out);
  }
  vtb_free(w.of);
}

void doc_put_text(const doc *d, int columns, vtb_strbuf *out) {
  for (size_t i = 0; i < d->parts.n; i++) {
    const doc_part *p = &d->parts.at[i];
    if (p->table) {
      put_table(p->table, columns, out);
      continue;
    }
    put_apart(p->text, columns, 0, p->indent, out);
  }
}
