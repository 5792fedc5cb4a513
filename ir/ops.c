/* The op table as data. */
#include "ir/internal.h"
#include "ir/ops.h"

static const vtb_op_info table[] = {
#define VTB_OP(name, klass, min, max, shape, interp, grad, tangent, cpu, cost, attrs, doc)         \
  {#name, VTB_CLASS_##klass, min, max, attrs, doc},
#include "ir/ops.def"
#undef VTB_OP
};
_Static_assert(sizeof table / sizeof table[0] == VTB_OP_COUNT, "one row an op");

const vtb_op_info *vtb_op_get(vtb_op op) {
  vtb_check((unsigned)op < VTB_OP_COUNT, "op number %d", (int)op);
  return &table[op];
}

bool vtb_op_find(const char *name, vtb_op *op) {
  for (int i = 0; i < VTB_OP_COUNT; i++) {
    if (strcmp(table[i].name, name) != 0) continue;
    *op = (vtb_op)i;
    return true;
  }
  return false;
}
