/* Source spans and diagnostics: the one way every layer above the runtime reports the user's
 * mistakes.
 *
 * A span is a file and a byte range; line and column are computed when a message is printed. Every
 * message has a code (VTB1001 ...) from diag_codes.def, so `vertebra explain CODE` and
 * docs/errors.md can say more.
 * A vtb_diags collects messages; nothing is printed before vtb_diags_print(). Not thread-safe.
 */
#ifndef VTB_DIAG_H
#define VTB_DIAG_H

#include "runtime/base/base.h"

typedef struct vtb_source {
  const char *path; /* as the user wrote it; "<config>", "<command line>" for text without a file */
  const char *text; /* NUL-terminated */
  size_t n;
  /* what does not depend on where the tree lies: path in its search folder; NULL: path */
  const char *name;
  bool library; /* read from a search folder because another file uses it: not the user's text */
} vtb_source;

typedef struct vtb_span {
  const vtb_source *source; /* NULL: no place */
  uint32_t begin, end;      /* byte offsets, end exclusive */
  /* Scopes around instructions in their function, "layer.proj_up", or, in none, the name of a
   * function in line; NULL: neither. The module's. */
  const char *scope;
} vtb_span;

#define VTB_NO_SPAN ((vtb_span){0})

typedef enum vtb_severity {
  VTB_SEV_ERROR,
  VTB_SEV_WARNING,
  VTB_SEV_NOTE,
  VTB_SEV_HELP
} vtb_severity;

/* One row a code in diag_codes.def: X(number, "title", "explanation", "bad example", "remedy"). */
typedef struct vtb_diag_code {
  int number;
  const char *title, *explanation, *example, *remedy;
} vtb_diag_code;
const vtb_diag_code *vtb_diag_code_find(int number); /* NULL if unknown */
const vtb_diag_code *vtb_diag_codes(size_t *n);

typedef struct vtb_diag {
  vtb_severity severity;
  int code; /* 0 for notes and help, which belong to the error before them */
  vtb_span span;
  char *text;
} vtb_diag;

/* A call whose callee is being evaluated. The caller of vtb_diag_... keeps it, on its stack, from
 * setting vtb_diags.calls to it until setting that back to `up`. */
typedef struct vtb_diag_call {
  const char *callee;
  const char *scope; /* the scopes the call stands in, "stages.1", or "" */
  vtb_span span;     /* of the call */
  const struct vtb_diag_call *up;
} vtb_diag_call;

/* While `calls` is set, an error or warning stands where the user wrote something: at the innermost
 * call in a file that is no library, if its own place is in a library. Notes below it lead from
 * there to the place ("in linear"), and from there to the first call ("called from here"). */
typedef struct vtb_diags {
  VTB_VEC(vtb_diag) list;
  int n_errors;
  int limit;                  /* errors kept; 0 means 20 */
  const vtb_diag_call *calls; /* innermost first; NULL: none */
  bool muted;                 /* what was added last was said already, and so are its notes */
} vtb_diags;
/* Where the user wrote what led to `span`: itself, or the innermost call outside the libraries. */
vtb_span vtb_diags_own(const vtb_diags *d, vtb_span span);

void vtb_diags_free(vtb_diags *d);
/* Texts are lower case, factual, in the user's names and shapes, without a full stop. */
void vtb_diag_error(vtb_diags *d, int code, vtb_span span, const char *fmt, ...) VTB_PRINTF(4, 5);
void vtb_diag_warning(vtb_diags *d, int code, vtb_span span, const char *fmt, ...) VTB_PRINTF(4, 5);
/* Either, or what belongs to it; without a code or a place: 0, VTB_NO_SPAN. */
void vtb_diag_say(vtb_diags *d, vtb_severity severity, int code, vtb_span span, const char *fmt,
                  ...) VTB_PRINTF(5, 6);
/* belongs to the last one */
void vtb_diag_note(vtb_diags *d, vtb_span span, const char *fmt, ...) VTB_PRINTF(3, 4);
void vtb_diag_help(vtb_diags *d, const char *fmt, ...) VTB_PRINTF(2, 3);

typedef struct vtb_line_col {
  int line, col; /* from 1; col counts bytes */
} vtb_line_col;
vtb_line_col vtb_source_locate(const vtb_source *s, uint32_t offset);
/* "std/nn.vtb:12" (its name, else its path) or "" */
char *vtb_span_text(vtb_span s, char *buf, size_t n);

/* file:line:col: error[VTB1001]: text / the source line / caret range / notes / help. */
void vtb_diags_render(const vtb_diags *d, vtb_strbuf *out, bool color);
void vtb_diags_print(const vtb_diags *d, FILE *f);

#endif
