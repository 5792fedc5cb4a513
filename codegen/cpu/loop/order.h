/* The order in which a kernel visits tokens: storage position of step t as index arithmetic, or
 * through a table in the program where the path has no formula. */
#ifndef VTB_CODEGEN_CPU_ORDER_H
#define VTB_CODEGEN_CPU_ORDER_H

#include "codegen/cpu/cpu.h"
#include "ir/path.h"

typedef enum vtb__order_kind {
  VTB__ORDER_LINEAR, /* base + t * step */
  VTB__ORDER_AFFINE, /* vtb_path_affine */
  VTB__ORDER_TABLE
} vtb__order_kind;

typedef struct vtb__loop_order {
  vtb__order_kind kind;
  int64_t base, step;
  vtb_path_affine affine;
  LLVMValueRef table;
} vtb__loop_order;

/* `path` is the text of the attribute, NULL for storage order; the verifier has checked it against
 * n. */
vtb__loop_order vtb__order_make(vtb_cpu *c, const char *path, int64_t n);
/* The order of a list of places: the position of step t is places[t]. */
vtb__loop_order vtb__order_list(vtb_cpu *c, const int64_t *places, int64_t n);
LLVMValueRef vtb__order_at(vtb_cpu *c, const vtb__loop_order *o, LLVMValueRef t);

#endif
