/* A document as CSV and as Markdown. */
#include "frontend/document/document.h"

#include <math.h>

/* ---- CSV ------------------------------------------------------------------------------------- */

static const char *name_of(const doc_column *c) { return c->key ? c->key : c->heading; }

static void put_value(const doc_cell *cell, vtb_strbuf *out) {
  const doc_value *v = &cell->value;
  if (v->kind == DOC_NUMBER && isfinite(v->number))
    vtb_strbuf_double(out, v->number);
  else if (v->kind == DOC_TRUTH)
    vtb_strbuf_puts(out, v->number != 0 ? "true" : "false");
  else if (v->kind == DOC_TEXT && v->text)
    vtb_strbuf_csv(out, v->text);
}

static void put_lines(const doc_table *t, vtb_strbuf *out) {
  for (int c = 0; c < t->n_columns; c++) {
    vtb_strbuf_puts(out, c ? "," : "");
    vtb_strbuf_csv(out, name_of(&t->columns[c]));
  }
  for (size_t i = 0; i < t->rows.n; i++)
    for (int c = 0; c < t->n_columns && t->rows.at[i].end; c++) {
      vtb_strbuf_putc(out, c ? ',' : '\n');
      put_value(&t->rows.at[i].cells[c], out);
    }
  vtb_strbuf_putc(out, '\n');
}

void doc_put_csv(const doc *d, vtb_strbuf *out) {
  bool first = true;
  for (size_t i = 0; i < d->parts.n; i++) {
    if (!d->parts.at[i].table) continue;
    if (!first) vtb_strbuf_putc(out, '\n');
    put_lines(d->parts.at[i].table, out);
    first = false;
  }
}

/* ---- Markdown -------------------------------------------------------------------------------- */

/* A bar would end the cell. */
static void put_cell(const char *text, vtb_strbuf *out) {
  vtb_strbuf_putc(out, ' ');
  for (; *text; text++) {
    if (*text == '|') vtb_strbuf_putc(out, '\\');
    vtb_strbuf_putc(out, *text);
  }
  vtb_strbuf_puts(out, " |");
}

/* The text of a column in a row, or else among the headings and what divides them from the rows. */
static const char *text_of(const doc_table *t, int line, int column) {
  const doc_column *c = &t->columns[column];
  if (line < 0) return line == -2 ? c->heading : "---";
  const doc_row *row = &t->rows.at[line];
  if (column <= row->end && row->cells[column].shown) return row->cells[column].shown;
  return column < row->end && c->none ? c->none : "";
}

static void put_table(const doc_table *t, vtb_strbuf *out) {
  for (int line = -2; line < (int)t->rows.n; line++) {
    if (line >= 0 && t->rows.at[line].hidden) continue;
    vtb_strbuf_putc(out, '|');
    for (int c = 0; c < t->n_columns; c++)
      if (doc_is_shown(t, c)) put_cell(text_of(t, line, c), out);
    vtb_strbuf_putc(out, '\n');
  }
}

void doc_put_markdown(const doc *d, vtb_strbuf *out) {
  for (size_t i = 0; i < d->parts.n; i++) {
    const doc_part *p = &d->parts.at[i];
    if (i && (p->table || d->parts.at[i - 1].table)) vtb_strbuf_putc(out, '\n');
    if (p->table)
      put_table(p->table, out);
    else
      vtb_strbuf_printf(out, "%s\n", p->text);
  }
}
