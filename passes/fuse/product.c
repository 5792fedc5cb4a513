/* What einsums and scans are on a machine with tensor cores: products of tiles or sums a thread.
 * Passes decide by it what is rounded and what the library makes, code generation which kernels
 * there are. */
#include "passes/fuse/product.h"

#include <string.h>

#include "ir/recurrence.h"

enum { NOMINAL_BATCH = 32 }; /* for a batch that is not bound yet */

bool vtb__product_sizes(const vtb_inst *einsum, int64_t size[3]) {
  const char *spec = vtb_attr_str(einsum, "spec", ""), *second = strchr(spec, ',') + 1,
             *out = strchr(spec, '>') + 1;
  size[0] = size[1] = size[2] = 1;
  for (int which = 0; which < 2; which++)
    for (const char *s = which == 0 ? spec : second; *s != ',' && *s != '-'; s++) {
      int64_t n = einsum->operands[which]->type.dim[s - (which == 0 ? spec : second)].size;
      const char *in_other =
          which == 0 ? strchr(second, *s) : memchr(spec, *s, (size_t)(second - spec));
      bool both = in_other && in_other < out - 2, kept = strchr(out, *s);
      if (n < 0) n = NOMINAL_BATCH;
      if (n == 1 || (both && kept) || (both && which == 1)) continue;
      if (!both && !kept) return false;
      size[both ? 2 : which] *= n;
    }
  return true;
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

bool vtb_ends_in_parameter(const vtb_inst *einsum) {
  const char *spec = vtb_attr_str(einsum, "spec", ""), *second = strchr(spec, ','),
             *out = strchr(spec, '>');
  return second && out && spec[0] != ',' && second[1] == spec[0] && !strchr(out, spec[0]);
}

/* The mean of of[.., C], and the sum of the squares of what it is off it. */
vtb_row_parts vtb_row_parts_of(const vtb_func *body) {
  vtb_row_parts none = {0}, p = {0};
  for (int r = 0; r < body->n_returns; r++) {
    const vtb_inst *sum = body->returns[r]->def;
    if (!sum || sum->op != VTB_OP_reduce_sum) continue;
    const vtb_inst *square = sum->operands[0]->def;
    if (!square || square->op != VTB_OP_square) continue;
    const vtb_inst *off = square->operands[0]->def;
    if (!off || off->op != VTB_OP_sub) return none;
    p = (vtb_row_parts){.of = off->operands[0], .mean = -1, .squares = r};
  }
  for (int r = 0; p.of && r < body->n_returns; r++)
    if (r != p.squares && vtb_type_equal(&body->returns[r]->type, &body->returns[p.squares]->type))
      p.mean = r;
  return p.of && p.mean >= 0 ? p : none;
}
