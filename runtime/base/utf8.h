/* UTF-8 and what it takes on a terminal: the one decoder of the tree.
 *
 * Well-formed is what table 3-7 of the Unicode standard lists: no overlong forms, no surrogates,
 * nothing beyond U+10FFFF. Widths are those of Unicode 14 (East Asian Width, combining marks);
 * characters of ambiguous width take one column.
 */
#ifndef VTB_UTF8_H
#define VTB_UTF8_H

#include "runtime/base/base.h"

/* Bytes of the well-formed character that the n bytes at s begin with, 1 to 4, and the character in
 * *c (NULL: not wanted); 0 if there is none. */
size_t vtb_utf8_decode(const char *s, size_t n, uint32_t *c);
/* Offset of the first byte that belongs to no well-formed character, or n. */
size_t vtb_utf8_check(const char *s, size_t n);
/* Writes up to 4 bytes and returns how many; c is no surrogate and at most 0x10ffff. */
size_t vtb_utf8_encode(uint32_t c, char *out);

/* Columns of a character: 0 (combining, invisible), 1 or 2. */
int vtb_char_columns(uint32_t c);
/* Columns of n bytes of text; a byte that is not UTF-8 takes one, a control character none. */
int vtb_text_columns(const char *s, size_t n);
/* Bytes of the longest beginning of whole characters that takes at most so many columns. */
size_t vtb_text_fit(const char *s, size_t n, int columns);
/* Appends the text with what would act on a terminal, or is not UTF-8, as \x1b: control characters
 * (C0, DEL, C1) and marks that reverse the direction of text. */
void vtb_text_visible(vtb_strbuf *out, const char *s, size_t n);
/* The same of a text whose lines may end. */
void vtb_lines_visible(vtb_strbuf *out, const char *text);

#endif
