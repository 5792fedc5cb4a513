/* Names of kernels for their readers: where in the model it stands and what it computes,
 * "blocks.*.layer.proj_up 64 -> 256", "blocks.*.norm.normed". Texts are the arena's. */
#ifndef VTB_CODEGEN_LABEL_H
#define VTB_CODEGEN_LABEL_H

#include "ir/ir.h"

/* The label of an instruction in a function whose callers' scopes are `path` ("" for the entry):
 * the module path and the result, which a product with weights needs not, and the widths of a
 * product. */
const char *vtb_label_of(const vtb_inst *inst, const char *path, vtb_arena *arena);
/* Scopes one inside the other; either may be "". */
const char *vtb_label_join(const char *outer, const char *inner, vtb_arena *arena);
/* One text for two: words ('.', '_' and ' ' part them) that differ become one '*'. NULL is nothing.
 */
const char *vtb_label_merge(const char *a, const char *b, vtb_arena *arena);
/* The path as an identifier of C: "blocks_x_layer_proj_up"; the widths are left out. */
void vtb_label_identifier(const char *label, vtb_strbuf *out);

#endif
