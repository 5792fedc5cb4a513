/* Words of the compiler's tables, of which help texts, completions and messages are made, so that
 * none of these knows a table by heart:
 *
 *   targets     that programs can be made for
 *   modes       forms of recurrences
 *   precisions  of products
 *   stages      that `dump` prints
 *   machines    that code for CUDA is chosen for
 *   optimizers, schedules  declared in files of the search folders
 */
#ifndef VTB_COMPILE_WORDS_H
#define VTB_COMPILE_WORDS_H

#include "frontend/lang/lang.h"
#include "passes/target.h"

/* Appends the words of a table, `between` two of them, but `last` before the last one. search:
 * where optimizers and schedules are looked for, NULL: the default. False, and nothing appended:
 * there is no such table. */
bool vtb_words(const char *table, const vtb_search *search, const char *between, const char *last,
               vtb_strbuf *out);
/* Appends a text with "a, b or c" for each table in braces: "{targets} (default cpu)". Other braces
 * stay. */
void vtb_words_expand(const char *text, vtb_strbuf *out);
/* The stages' names, borrowed for ever, into `names`, of which there is room for VTB_MOST_STAGES;
 * returns their number. */
enum { VTB_MOST_STAGES = 32 };
size_t vtb_stage_names(const char *names[VTB_MOST_STAGES]);

/* NULL is fp32. VTB_E_USAGE, with the names there are, if it is none. */
VTB_MUST_USE vtb_status vtb_precision_find(const char *name, vtb_precision *out, vtb_error *err);
/* VTB_E_USAGE, with the precisions it knows, unless `t` knows p. */
VTB_MUST_USE vtb_status vtb_target_knows(const vtb_target *t, vtb_precision p, vtb_error *err);

#endif
