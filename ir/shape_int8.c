/* Shape rules of products of numbers of 8 bits (ir/int8.h). */
#include "ir/int8.h"
#include "ir/internal.h"

#include <inttypes.h>

bool vtb__shape_quantize(vtb__shape *s) {
  const vtb_type *w = vtb__shape_operand(s, 0);
  if (!vtb__shape_f32(s)) return false;
  if (w->rank != 2 || vtb_type_is_dynamic(w) || w->dim[1].size > VTB_INT8_MOST_K)
    return vtb__shape_fail(s, VTB_DIAG_IR_EINSUM,
                           "quantize of %s; want a matrix [rows, K], K at most %d",
                           vtb__shape_text(s, w), VTB_INT8_MOST_K);
  int64_t panels = vtb_int8_panels(w->dim[0].size), groups = vtb_int8_groups(w->dim[1].size);
  vtb__shape_push(s, vtb_type_make(VTB_I32, 3, (int64_t[]){panels, groups, VTB_INT8_PANEL}));
  vtb__shape_push(s, vtb_type_make(VTB_F32, 2, (int64_t[]){panels, VTB_INT8_PANEL}));
  vtb__shape_push(s, vtb_type_make(VTB_I32, 2, (int64_t[]){panels, VTB_INT8_PANEL}));
  return true;
}

/* The operand's type, wanted. */
static bool has_type(vtb__shape *s, int operand, vtb_type want) {
  const vtb_type *is = vtb__shape_operand(s, operand);
  if (vtb_type_equal(is, &want)) return true;
  return vtb__shape_fail(s, VTB_DIAG_IR_EINSUM, "product8: operand %d is %s and should be %s",
                         operand + 1, vtb__shape_text(s, is), vtb__shape_text(s, &want));
}

bool vtb__shape_product8(vtb__shape *s) {
  vtb_type t = *vtb__shape_operand(s, 0);
  int64_t columns = vtb_attr_int(s->inst, "columns", 0), panels = vtb_int8_panels(columns);
  if (t.dtype != VTB_F32 || t.rank < 1 || columns < 1)
    return vtb__shape_fail(s, VTB_DIAG_IR_EINSUM, "product8 of %s; want rows [.., K] of f32",
                           vtb__shape_text(s, &t));
  int64_t groups = vtb_int8_groups(t.dim[t.rank - 1].size);
  if (!has_type(s, 1, vtb_type_make(VTB_I32, 3, (int64_t[]){panels, groups, VTB_INT8_PANEL})) ||
      !has_type(s, 2, vtb_type_make(VTB_F32, 2, (int64_t[]){panels, VTB_INT8_PANEL})) ||
      !has_type(s, 3, vtb_type_make(VTB_I32, 2, (int64_t[]){panels, VTB_INT8_PANEL})))
    return false;
  t.dim[t.rank - 1] = vtb__dim(columns, NULL);
  return (s->inst->n_operands < 5 || vtb__shape_adds(s, 4, &t)) && (vtb__shape_push(s, t), true);
}
