/* How files store weights: in fewer bits than programs compute with. */
#ifndef VTB_COMPILE_STORED_H
#define VTB_COMPILE_STORED_H

#include "ir/ir.h"
#include "runtime/artefact/tensors.h"

/* F32, F16 or BF16, by the name "bf16". VTB_E_USAGE, with the names, of another. */
VTB_MUST_USE vtb_status vtb_store_type(const char *name, vtb_elem *out, vtb_error *err);
bool vtb_elem_is_float(vtb_elem e);

/* Adds t to `into` as F32, F16 or BF16, to nearest. VTB_E_NUMBERS of a number that the type has no
 * finite number for. */
VTB_MUST_USE vtb_status vtb_store_as(vtb_weights *into, const vtb_weight *t, vtb_elem to,
                                     vtb_error *err);
/* Adds t, a matrix of its first axis and all others, in numbers of 8 bits, and the scales of its
 * rows as another tensor (vtb_weights_widen, runtime/artefact/tensors.h). */
VTB_MUST_USE vtb_status vtb_store_int8(vtb_weights *into, const vtb_weight *t, vtb_error *err);

/* A parameter of an entry is read as such a matrix alone, by products of 8 bits. */
bool vtb_is_read_as_int8(const vtb_value *parameter);

#endif
