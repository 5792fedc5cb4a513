/* Pieces of source text as people are shown them: on one line. Inside frontend/lang only. */
#ifndef VTB_LANG_SYMBOLS_TEXT_H
#define VTB_LANG_SYMBOLS_TEXT_H

#include "frontend/lang/ast.h"

/* In the arena. Runs of blanks are one; what is long is cut and ends in "...". */
const char *vtb__one_line(vtb_arena *a, vtb_span text);
/* A declaration without its body. */
const char *vtb__signature(vtb_arena *a, const vtb_decl *d);
/* The line that a place is on. */
const char *vtb__line_of(vtb_arena *a, vtb_span place);

#endif
