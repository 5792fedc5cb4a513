/* The builder of einsums, of the letters of others too: product.h. */
#include "ir/internal.h"
#include "ir/ops.h"

vtb_value *vtb_b_einsum_from(vtb_builder *b, const char *spec, vtb_value *x, vtb_value *w,
                             vtb_value *start) {
  vtb_attr attr = vtb__spec_attr(spec);
  vtb_value *operands[] = {x, w, start};
  const vtb_inst *made = vtb_build(b, VTB_OP_einsum, operands, start ? 3 : 2, &attr, 1);
  return made ? made->results[0] : NULL;
}

vtb_value *vtb_b_einsum(vtb_builder *b, const char *spec, vtb_value *x, vtb_value *y) {
  return vtb_b_einsum_from(b, spec, x, y, NULL);
}

vtb_value *vtb_b_einsum_of(vtb_builder *b, const vtb_spec *s, vtb_value *x, vtb_value *w) {
  char buf[VTB_SPEC_SIZE];
  return vtb_b_einsum(b, vtb__spec_text(s, buf), x, w);
}

vtb_value *vtb_b_einsum_like(vtb_builder *b, const vtb_inst *einsum, vtb_value *x, vtb_value *w) {
  return vtb_b_einsum(b, vtb_einsum_text(einsum), x, w);
}

void vtb_einsum_set(vtb_inst *einsum, const vtb_spec *s) {
  char buf[VTB_SPEC_SIZE];
  vtb_attr_set(einsum, vtb__spec_attr(vtb__spec_text(s, buf)));
}
