/* Text within the columns of a terminal. */
#ifndef VTB_DOCUMENT_WRAP_H
#define VTB_DOCUMENT_WRAP_H

#include "runtime/base/base.h"

/* Appends n bytes of text that begins in column `at`, broken at so many columns (0: any number);
 * lines behind the first begin in column `indent`. cut: also words that are wider than a line. */
void doc_wrap(vtb_strbuf *out, const char *text, size_t n, int columns, int at, int indent,
              bool cut);
/* Appends the fields of a line that fit into so many columns (0: all), with a gap between them.
 * What does not fit is cut, if a few columns are left: the first field, and those from `cut` on
 * (0: none). What acts on a terminal is shown. */
void doc_put_line(vtb_strbuf *out, const char *const *fields, int n, int columns, int gap, int cut);

#endif
