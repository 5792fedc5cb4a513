/* A document is what a command tells: fields, tables and sentences, said once. Printers make text
 * for a terminal, JSON, CSV and Markdown of it.
 *
 * Fields and the rows of tables are members of JSON by their keys. Sentences are for people, and so
 * are columns without a key; columns without a heading are for programs. Sentences and tables
 * stand on a terminal in the order in which they were added; an object of JSON may be filled at any
 * time. Texts are copied, and names in them shown without what acts on a terminal.
 */
#ifndef VTB_DOCUMENT_H
#define VTB_DOCUMENT_H

#include "runtime/base/base.h"

#include <cjson/cJSON.h>

/* ---- values ---------------------------------------------------------------------------------- */

/* DOC_END is behind the last of a list. A text that is NULL and a number that is not finite are
 * null in JSON; DOC_NONE is no member. */
typedef enum doc_kind { DOC_END, DOC_NONE, DOC_NUMBER, DOC_TEXT, DOC_TRUTH, DOC_JSON } doc_kind;
typedef struct doc_value {
  doc_kind kind;
  double number;    /* of a truth 0 or 1 */
  const char *text; /* borrowed for the call */
  cJSON *json;      /* taken over */
} doc_value;

doc_value doc_number(double x);
doc_value doc_signed(int64_t x);
doc_value doc_unsigned(uint64_t x);
doc_value doc_text(const char *text);
doc_value doc_truth(bool x);
doc_value doc_json(cJSON *json);
doc_value doc_known(doc_value v); /* DOC_NONE of what is not finite, or NULL */
/* A number, text, truth or JSON as a value. A condition is an int in C: V((bool)(a < b)). */
#define V(x)                                                                                       \
  _Generic((x),                                                                                    \
      bool: doc_truth,                                                                             \
      char *: doc_text,                                                                            \
      const char *: doc_text,                                                                      \
      cJSON *: doc_json,                                                                           \
      float: doc_number,                                                                           \
      double: doc_number,                                                                          \
      unsigned: doc_unsigned,                                                                      \
      unsigned long: doc_unsigned,                                                                 \
      unsigned long long: doc_unsigned,                                                            \
      default: doc_signed)(x)

typedef struct doc_field {
  const char *key;
  doc_value value;
} doc_field;
#define F(key, x)                                                                                  \
  { key, V(x) }
#define K(key, x)                                                                                  \
  { key, doc_known(V(x)) } /* left out if it is not known */

/* Sets members of an object, in place of those that it has; returns it. */
cJSON *doc_put_fields(cJSON *to, const doc_field *fields);
#define doc_put(to, ...) doc_put_fields(to, (const doc_field[]){__VA_ARGS__, {0}})
/* An object of its own; one more of a list, borrowed. */
#define doc_object(...) doc_put(cJSON_CreateObject(), __VA_ARGS__)
cJSON *doc_append(cJSON *list, cJSON *item);
#define doc_item(list, ...) doc_append(list, doc_object(__VA_ARGS__))
cJSON *doc_numbers(const int64_t *x, int n); /* a list */

/* ---- tables ---------------------------------------------------------------------------------- */

/* How a number is written where people read it: into buf, which is returned. */
typedef const char *(*doc_writer)(double x, char *buf, size_t size);

typedef struct doc_column {
  const char *key;     /* member of a row; NULL: for people alone */
  const char *heading; /* NULL: for programs alone */
  int width;           /* columns of a terminal at least; below 0: begins at the left */
  const char *format;  /* of a number, for people: of the double times `scale`; NULL: "%.0f" */
  double scale;        /* 0: 1 */
  doc_writer write;    /* in place of format and scale; NULL: none */
  const char *none;    /* where there is no value; NULL: nothing, and no column if none has one */
  int most;            /* columns at most, the text is cut; below 0: so many, beyond which it has a
                          line of its own */
  bool ragged;         /* it is not widened: a text that is wider moves what is behind it */
  bool optional;       /* no member where there is no value */
} doc_column;

typedef struct doc_cell {
  doc_value value;
  const char *shown; /* NULL: there is none */
} doc_cell;
typedef struct doc_row {
  doc_cell *cells; /* one a column */
  int end;         /* the column that takes what is left of the line; their number: none does */
  bool hidden;     /* from people */
} doc_row;

/* How it looks on a terminal may be changed until the document is printed. */
typedef struct doc_table {
  int indent, gap; /* columns before the first and between two */
  bool headless;
  int cut; /* the first of the columns that people read that is cut where it does not fit, if a few
              columns are left; 0: none, such a field and those behind it are left out */
  /* of document.c: */
  cJSON *list;
  doc_column *columns;
  int n_columns;
  VTB_VEC(doc_row) rows;
} doc_table;

/* ---- documents ------------------------------------------------------------------------------- */

/* A sentence, or a table. */
typedef struct doc_part {
  const char *text;
  int indent; /* of the lines behind the first */
  doc_table *table;
} doc_part;

typedef struct doc {
  cJSON *json; /* owned: an object, or a list */
  vtb_arena arena;
  VTB_VEC(doc_part) parts;
} doc;

doc *doc_new(cJSON *json); /* takes it over */
void doc_free(doc *d);
/* A sentence, which a terminal breaks at its columns; "" is an empty line. */
void doc_say(doc *d, int indent, const char *fmt, ...) VTB_PRINTF(3, 4);
/* A name that may hold anything, also ends of lines, as a part of a sentence. */
const char *doc_visible(doc *d, const char *text);
/* Rows become objects of `list`, a list of d's JSON; NULL: they are for people alone. The table has
 * a gap of two columns. Strings of columns are borrowed. */
doc_table *doc_add_table(doc *d, cJSON *list, const doc_column *columns, int n);
#define DOC_TABLE(d, list, columns)                                                                \
  doc_add_table(d, list, columns, (int)(sizeof(columns) / sizeof *(columns)))
/* One value a column. Returns the row's object, borrowed; NULL without a list. */
cJSON *doc_add_row(doc *d, doc_table *t, const doc_value *values);
#define doc_row(d, t, ...) doc_add_row(d, t, (const doc_value[]){__VA_ARGS__, {DOC_END}})
/* True if people read the column: it has a heading, and something stands in it. */
bool doc_is_shown(const doc_table *t, int column);
/* A row for people alone that is a sentence. */
void doc_sentence_row(doc *d, doc_table *t, const char *fmt, ...) VTB_PRINTF(3, 4);
/* Changes the last row: people do not read it; in place of the values from a column on they read a
 * text. */
void doc_hide_row(doc_table *t);
void doc_end_row(doc *d, doc_table *t, int column, const char *fmt, ...) VTB_PRINTF(4, 5);

/* ---- printers, which append ------------------------------------------------------------------ */

/* Within the columns of a terminal; 0: any number. */
void doc_put_text(const doc *d, int columns, vtb_strbuf *out);
/* Tables alone, one behind the other with an empty line between; numbers as JSON has them. */
void doc_put_csv(const doc *d, vtb_strbuf *out);
void doc_put_markdown(const doc *d, vtb_strbuf *out);

#endif
