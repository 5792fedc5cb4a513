/* library: large products are left to the vendor's library, which is told so.
 *
 *   %y = einsum %x, %w {spec = "abc,dc->abd"}
 *   =>
 *   %y = einsum %x, %w {spec = "abc,dc->abd", library = 1}
 *
 * For targets that have one, when it is there (`library` of the context), behind the passes that
 * give products epilogues and sums: those that have one keep it, which spares more bytes than the
 * library gains. Needs a bound batch and products' precision. Code generation may still make the
 * product itself, where strides or element types are not what the library takes. Declines products
 * of which one direction is shorter than LEAST, and those whose factors are split in two.
 */
#include "passes/passes_internal.h"

#include "ir/narrow.h"

enum { LEAST = 64 };

bool vtb__is_large(const vtb_inst *einsum) {
  int64_t size[3];
  return vtb_factors_of(einsum) != VTB_FACTORS_SPLIT && vtb__product_sizes(einsum, size) &&
         size[0] >= LEAST && size[1] >= LEAST && size[2] >= LEAST;
}

void vtb__visit_library(const vtb_pass_context *c, vtb_func *f) {
  for (vtb_inst *i = f->first; i && c->library; i = i->next)
    if (i->op == VTB_OP_einsum && vtb__is_large(i)) vtb_attr_set(i, VTB_A_INT("library", 1));
}
