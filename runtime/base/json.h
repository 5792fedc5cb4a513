/* Reading JSON (RFC 8259): a tree in an arena. No global state, and no memory is told from bad
 * text.
 *
 * Why not the usual libraries: cJSON writes a pointer that all threads of the process share;
 * jansson 2.14 ignores that its buffer for a token could not grow, and then, without memory,
 * returns names that lack a character or writes behind its own block. The text comes from files
 * that nobody vouches for, and the host must go on.
 *
 * Text is UTF-8 that the caller has checked; escapes become UTF-8; nesting is limited. Ownership:
 * everything is the arena's. */
#ifndef VTB_JSON_H
#define VTB_JSON_H

#include "runtime/base/base.h"

typedef enum vtb_json_kind {
  VTB_JSON_NULL,
  VTB_JSON_BOOL,
  VTB_JSON_NUMBER,
  VTB_JSON_STRING,
  VTB_JSON_ARRAY,
  VTB_JSON_OBJECT
} vtb_json_kind;

typedef struct vtb_json {
  vtb_json_kind kind;
  const char *key;               /* of a member of an object */
  const char *text;              /* of a string */
  double number;                 /* of a number; of a bool 0 or 1 */
  struct vtb_json *first, *next; /* elements in their order; the next one beside this one */
} vtb_json;

/* The value at the beginning of n bytes; *at: the byte behind it and the white space after it.
 * NULL: *no_memory says whether that was the reason; if not, the text is no JSON at byte *at. */
const vtb_json *vtb_json_parse(const char *text, size_t n, vtb_arena *arena, bool *no_memory,
                               size_t *at);
/* The first member of that name; NULL if there is none, or if this is no object. */
const vtb_json *vtb_json_member(const vtb_json *object, const char *key);

#endif
