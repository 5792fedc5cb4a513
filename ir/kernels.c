/* See kernels.h. */
#include "ir/kernels.h"

#include <string.h>

enum { DENSE, ANYWHERE, ANYTHING = 0, ROWS };

static const struct {
  const char *name;
  bool stores_anywhere, reads_rows;
} kinds[] = {
#define VTB_KERNEL(id, name, cpu, cuda, stores, reads, what) {name, stores, reads},
#include "ir/kernels.def"
#undef VTB_KERNEL
};

bool vtb_kernel_kind_find(const char *name, vtb_kernel_kind *k) {
  for (int i = 0; i < VTB_KERNEL_NONE; i++) {
    if (!vtb_streq(kinds[i].name, name)) continue;
    *k = (vtb_kernel_kind)i;
    return true;
  }
  return false;
}

vtb_kernel_kind vtb_kernel_kind_of(const vtb_inst *inst) {
  vtb_kernel_kind k = VTB_KERNEL_NONE;
  if (inst->op != VTB_OP_fused) return k;
  const char *name = vtb_attr_str(inst, "kind", kinds[VTB_KERNEL_LOOP].name);
  vtb_check(vtb_kernel_kind_find(name, &k), "no kernel is of kind \"%s\"", name);
  return k;
}

const char *vtb_kernel_kind_name(vtb_kernel_kind k) { return kinds[k].name; }
bool vtb_kernel_stores_anywhere(vtb_kernel_kind k) {
  return k != VTB_KERNEL_NONE && kinds[k].stores_anywhere;
}
bool vtb_kernel_reads_rows(vtb_kernel_kind k) {
  return k != VTB_KERNEL_NONE && kinds[k].reads_rows;
}

bool vtb_is_share(const vtb_inst *i) {
  if (i->op != VTB_OP_einsum || i->operands[1]->type.rank != 3) return false;
  const char *x = vtb_attr_str(i, "spec", ""), *w = strchr(x, ',') + 1, *y = strchr(x, '>') + 1;
  size_t n = (size_t)i->operands[0]->type.rank;
  if (n < 3 || strlen(y) != n || w[1] != x[n - 2] || w[2] != x[n - 1]) return false;
  return y[0] == x[n - 2] && memcmp(y + 1, x, n - 2) == 0 && y[n - 1] == w[0];
}
