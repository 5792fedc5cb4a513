/* Documents as they are made. */
#include "frontend/document/document.h"
#include "runtime/base/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

doc *doc_new(cJSON *json) {
  doc *d = vtb_xcalloc(1, sizeof *d);
  d->json = json;
  vtb_arena_init(&d->arena);
  return d;
}

void doc_free(doc *d) {
  cJSON_Delete(d->json);
  vtb_arena_free(&d->arena);
  vtb_free(d);
}

static const char *format(doc *d, const char *fmt, va_list ap) {
  vtb_strbuf text = {0}, visible = {0};
  vtb_strbuf_vprintf(&text, fmt, ap);
  vtb_lines_visible(&visible, vtb_strbuf_text(&text));
  const char *out = vtb_arena_strdup(&d->arena, vtb_strbuf_text(&visible));
  vtb_strbuf_free(&text);
  vtb_strbuf_free(&visible);
  return out;
}

void doc_say(doc *d, int indent, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  doc_part part = {.indent = indent, .text = format(d, fmt, ap)};
  va_end(ap);
  vtb_vec_put(&d->arena, &d->parts, part);
}

const char *doc_visible(doc *d, const char *text) {
  vtb_strbuf visible = {0};
  vtb_text_visible(&visible, text, strlen(text));
  const char *out = vtb_arena_strdup(&d->arena, vtb_strbuf_text(&visible));
  vtb_strbuf_free(&visible);
  return out;
}

doc_table *doc_add_table(doc *d, cJSON *list, const doc_column *columns, int n) {
  doc_table *t = VTB_NEW(&d->arena, doc_table);
  *t = (doc_table){.gap = 2, .list = list, .n_columns = n};
  t->columns = vtb_arena_memdup(&d->arena, columns, (size_t)n * sizeof *columns);
  doc_part part = {.table = t};
  vtb_vec_put(&d->arena, &d->parts, part);
  return t;
}

/* The text that people read; NULL: nothing. */
static const char *shown(doc *d, const doc_column *c, const doc_value *v) {
  char number[64];
  double scale = c->scale != 0 ? c->scale : 1;
  if (v->kind == DOC_TEXT) return v->text ? vtb_arena_strdup(&d->arena, v->text) : NULL;
  if (v->kind == DOC_TRUTH) return v->number != 0 ? "yes" : "no";
  if (v->kind != DOC_NUMBER || isnan(v->number)) return NULL;
  if (c->write) return vtb_arena_strdup(&d->arena, c->write(v->number, number, sizeof number));
  return vtb_arena_printf(&d->arena, c->format ? c->format : "%.0f", scale * v->number);
}

cJSON *doc_add_row(doc *d, doc_table *t, const doc_value *values) {
  doc_row row = {.end = t->n_columns, .cells = VTB_NEW_ARRAY(&d->arena, doc_cell, t->n_columns)};
  cJSON *json = t->list ? doc_append(t->list, cJSON_CreateObject()) : NULL;
  for (int i = 0; i < t->n_columns; i++) {
    const doc_column *c = &t->columns[i];
    doc_value v = values[i];
    vtb_check(v.kind != DOC_END, "a row of %d values, not %d", i, t->n_columns);
    if (c->optional) v = doc_known(v);
    if (json && c->key) doc_put_fields(json, (const doc_field[]){{c->key, v}, {0}});
    if (c->heading) row.cells[i].shown = shown(d, c, &v);
    if (v.kind == DOC_TEXT) v.text = v.text ? vtb_arena_strdup(&d->arena, v.text) : NULL;
    row.cells[i].value = v;
  }
  vtb_check(values[t->n_columns].kind == DOC_END, "a row of more than %d values", t->n_columns);
  vtb_vec_put(&d->arena, &t->rows, row);
  return json;
}

bool doc_is_shown(const doc_table *t, int column) {
  bool any = t->columns[column].none != NULL;
  for (size_t i = 0; i < t->rows.n && !any; i++)
    any = t->rows.at[i].end > column && t->rows.at[i].cells[column].shown;
  return t->columns[column].heading && any;
}

void doc_hide_row(doc_table *t) { t->rows.at[t->rows.n - 1].hidden = true; }

void doc_end_row(doc *d, doc_table *t, int column, const char *fmt, ...) {
  doc_row *row = &t->rows.at[t->rows.n - 1];
  va_list ap;
  va_start(ap, fmt);
  row->end = column;
  row->cells[column].shown = format(d, fmt, ap);
  va_end(ap);
}

void doc_sentence_row(doc *d, doc_table *t, const char *fmt, ...) {
  doc_row row = {.cells = VTB_NEW_ARRAY(&d->arena, doc_cell, t->n_columns)};
  va_list ap;
  va_start(ap, fmt);
  row.cells[0].shown = format(d, fmt, ap);
  va_end(ap);
  vtb_vec_put(&d->arena, &t->rows, row);
}
