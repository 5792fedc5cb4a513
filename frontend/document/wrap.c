/* Text within the columns of a terminal. */
#include "frontend/document/wrap.h"
#include "runtime/base/utf8.h"

#include <limits.h>
#include <string.h>

/* Columns of n bytes, without what sets colours. */
static int width_of(const char *text, size_t n) {
  int width = 0;
  for (size_t i = 0; i < n;) {
    size_t plain = 0;
    while (i + plain < n && text[i + plain] != '\033') plain++;
    width += vtb_text_columns(text + i, plain);
    i += plain;
    while (i < n && text[i] != 'm') i++;
    i += i < n;
  }
  return width;
}

/* A word that no line has room for, cut at the columns; returns the column behind it. */
static int put_pieces(vtb_strbuf *out, const char *word, size_t n, int columns, int at,
                      int indent) {
  while (at + vtb_text_columns(word, n) > columns) {
    size_t fits = vtb_text_fit(word, n, columns - at);
    if (fits == 0 && at <= indent) break;
    vtb_strbuf_write(out, word, fits);
    vtb_strbuf_printf(out, "\n%*s", indent, "");
    word += fits;
    n -= fits;
    at = indent;
  }
  vtb_strbuf_write(out, word, n);
  return at + vtb_text_columns(word, n);
}

void doc_wrap(vtb_strbuf *out, const char *text, size_t n, int columns, int at, int indent,
              bool cut) {
  if (columns == 0) columns = INT_MAX;
  for (size_t i = 0; i < n;) {
    size_t blanks = 0, word = 0;
    while (i + blanks < n && text[i + blanks] == ' ') blanks++;
    while (i + blanks + word < n && text[i + blanks + word] != ' ') word++;
    int width = width_of(text + i + blanks, word);
    if (at > indent && word && at + (int)blanks + width > columns) {
      vtb_strbuf_printf(out, "\n%*s", indent, "");
      at = indent;
    } else {
      vtb_strbuf_write(out, text + i, blanks);
      at += (int)blanks;
    }
    if (cut && at + width > columns) {
      at = put_pieces(out, text + i + blanks, word, columns, at, indent);
    } else {
      vtb_strbuf_write(out, text + i + blanks, word);
      at += width;
    }
    i += blanks + word;
  }
}

/* "something lo..." */
static void put_cut(vtb_strbuf *out, const char *text, size_t n, int columns) {
  vtb_strbuf_write(out, text, vtb_text_fit(text, n, columns - 3));
  vtb_strbuf_puts(out, "...");
}

void doc_put_line(vtb_strbuf *out, const char *const *fields, int n, int columns, int gap,
                  int cut) {
  enum { LEAST = 8 };
  int used = 0;
  vtb_strbuf field = VTB_CHECKED_STRBUF;
  for (int i = 0; i < n; i++) {
    field.n = 0;
    vtb_text_visible(&field, fields[i], strlen(fields[i]));
    const char *text = vtb_strbuf_text(&field);
    while (i + 1 == n && field.n && text[field.n - 1] == ' ') field.n--;
    int width = vtb_text_columns(text, field.n), before = i ? gap : 0;
    int room = columns - used - before;
    if (columns && width > room && cut && i >= cut) { /* blanks behind it need not fit */
      while (field.n && text[field.n - 1] == ' ') field.n--;
      width = vtb_text_columns(text, field.n);
    }
    bool fits = columns == 0 || width <= room;
    if (!fits && i && (i < cut || cut == 0 || room < LEAST)) break;
    vtb_strbuf_printf(out, "%*s", before, "");
    if (fits)
      vtb_strbuf_write(out, text, field.n);
    else
      put_cut(out, text, field.n, room);
    used += before + width;
    if (!fits) break;
  }
  vtb_strbuf_free(&field);
}
