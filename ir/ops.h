/* The names of ops, VTB_OP_add and so on, apart from ir.h: a new row of ir/ops.def compiles again
 * what names an op, and nothing else. */
#ifndef VTB_OPS_H
#define VTB_OPS_H

#include "ir/ir.h"

enum {
#define VTB_OP(name, ...) VTB_OP_##name,
#include "ir/ops.def"
#undef VTB_OP
  VTB_OP_COUNT
};

#endif
