/* Names with places left open: "blocks.{i}.attn.*".
 *
 * "*" stands for any text that is not empty, "{i}" for a number called i, "{2i+1}" for one of the
 * form 2 i + 1, "[text]" for text that may be absent. A pattern that is filled in writes what
 * another one took: texts in their order, numbers by their letters, text in brackets always.
 */
#ifndef VTB_PATTERN_H
#define VTB_PATTERN_H

#include "runtime/base/base.h"

/* Each bracket doubles what matching may have to try. */
enum {
  VTB_PATTERN_TEXTS = 2,
  VTB_PATTERN_BRACKETS = 4,
  VTB_PATTERN_LETTERS = 26,
  VTB_PATTERN_NAME = 400
};

/* The parts of a name that a pattern took. */
typedef struct vtb_taken {
  const char *text[VTB_PATTERN_TEXTS]; /* in the name */
  size_t length[VTB_PATTERN_TEXTS];
  int n_texts;
  int64_t number[VTB_PATTERN_LETTERS]; /* -1: none of that letter */
} vtb_taken;

/* "" or why the n bytes are no pattern. */
const char *vtb_pattern_fault(const char *pattern, size_t n);
/* True if the whole name is of the pattern; names beyond VTB_PATTERN_NAME are of none. */
bool vtb_pattern_match(const char *pattern, const char *name, vtb_taken *taken);
/* Appends the pattern filled in with what was taken; false if that lacks something. */
bool vtb_pattern_fill(const char *pattern, const vtb_taken *taken, vtb_strbuf *out);
/* Open places, for comparing two patterns: number of "*" and a bit for each letter. */
int vtb_pattern_texts(const char *pattern);
uint32_t vtb_pattern_letters(const char *pattern);

#endif
