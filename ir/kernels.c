/* See kernels.h. */
#include "ir/kernels.h"

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
