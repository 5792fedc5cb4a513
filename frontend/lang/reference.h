/* The reference of what can be called: builtin functions and declarations of std, from their rows,
 * signatures and comments, for help and for docs/std.md.
 */
#ifndef VTB_LANG_REFERENCE_H
#define VTB_LANG_REFERENCE_H

#include "frontend/lang/lang.h"

typedef struct vtb_reference_entry {
  const char *name;
  const char *signature; /* on one line: "fn softplus(x: tensor)" */
  const char *doc;       /* the comment above it, or the row's text; "" if there is none */
  const char *module;    /* "std.nn"; NULL: of the language */
  const char *about;     /* of the first entry of a module: the comment the file begins with */
} vtb_reference_entry;
typedef struct vtb_reference {
  vtb_arena arena; /* of all texts */
  vtb_reference_entry *at;
  size_t n;
} vtb_reference;

/* Builtins in the order of their rows, then std by file and place. Files with errors are left
 * out. vtb_reference_free() frees what it holds. */
void vtb_reference_read(const vtb_search *search, vtb_reference *out);
void vtb_reference_free(vtb_reference *r);

#endif
