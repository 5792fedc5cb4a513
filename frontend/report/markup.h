/* Writing HTML and SVG that parses as XML too. */
#ifndef VTB_REPORT_MARKUP_H
#define VTB_REPORT_MARKUP_H

#include "runtime/base/base.h"

/* Appends the format; what %s stands for is escaped as mk_text() does it. Knows %s, %d, %c, %% and
 * %f, %g with a precision. */
void mk(vtb_strbuf *out, const char *fmt, ...) VTB_PRINTF(2, 3);

/* Text of an element or an attribute. What is not UTF-8, control characters and marks that turn the
 * direction of text show as \x1b; lines may end. NULL is nothing. */
void mk_text(vtb_strbuf *out, const char *text);

/* "data:TYPE;base64,...": a picture from elsewhere cannot run scripts or fetch anything. */
void mk_data_uri(vtb_strbuf *out, const char *type, const char *text);

/* JSON text as it may stand inside <script>, in HTML and in XML. */
void mk_json(vtb_strbuf *out, const char *json);

#endif
