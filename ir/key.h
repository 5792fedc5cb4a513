/* Instructions as text of what they compute: equal texts are equal code, whatever their values are
 * called and wherever they stand. Appended to `out`. */
#ifndef VTB_KEY_H
#define VTB_KEY_H

#include "ir/ir.h"

/* Element type and sizes. */
void vtb_key_type(const vtb_type *t, vtb_strbuf *out);
/* The op and its attributes; neither types nor operands. */
void vtb_key_op(const vtb_inst *inst, vtb_strbuf *out);
/* Values are numbers in the order in which they come; functions that are called stand where they
 * are. */
void vtb_key_body(const vtb_func *f, vtb_strbuf *out);

#endif
