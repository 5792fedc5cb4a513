/* Einsums and scans on a machine with tensor cores: products of tiles, or sums a thread. Passes
 * decide by it what is rounded and what the library makes, code generation which kernels there
 * are. */
#include "passes/passes_internal.h"
#include "ir/ops.h"

#include "ir/kernels.h"
#include "ir/product.h"
#include "ir/recurrence.h"

enum { NOMINAL_BATCH = 32 }; /* for a batch that is not bound yet */

bool vtb__product_sizes(const vtb_inst *einsum, int64_t size[3]) {
  vtb_product p = vtb_product_of(einsum);
  size[0] = vtb_product_size(&p, VTB_LETTER_ROWS, NOMINAL_BATCH);
  size[1] = vtb_product_size(&p, VTB_LETTER_COLUMNS, NOMINAL_BATCH);
  size[2] = vtb_product_size(&p, VTB_LETTER_SUM, NOMINAL_BATCH);
  return vtb_product_size(&p, VTB_LETTER_ALONE, NOMINAL_BATCH) == 1;
}

/* Else tiles are mostly empty in both directions. */
bool vtb_is_product(const vtb_inst *einsum) {
  int64_t size[3];
  return vtb__product_sizes(einsum, size) && size[2] > VTB_SHORT_SUM &&
         (size[0] >= 16 || size[1] >= 16);
}

bool vtb_scan_is_product(const vtb_inst *scan) {
  vtb_scan s = vtb_scan_of(scan);
  return s.decay->form == VTB_FORM_PRODUCTS && !(s.recurrent && !s.grad);
}

bool vtb__keeps_parts(const vtb_inst *einsum) {
  int64_t size[3];
  const vtb_type *t = &einsum->results[0]->type;
  return vtb_is_product(einsum) && vtb__product_sizes(einsum, size) &&
         size[1] == t->dim[t->rank - 1].size && size[1] % VTB_ROW_PART == 0 &&
         size[1] > VTB_ROW_PART;
}
