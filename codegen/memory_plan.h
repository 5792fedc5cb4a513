/* The memory plan: where every value of a module lives that passes are done with (memory_plan.c),
 * and whether a plan is what is said of one here (memory_check.c).
 *
 * Ownership: a plan is its maker's until vtb_plan_free(); the module must outlive it. One thread.
 */
#ifndef VTB_CODEGEN_MEMORY_PLAN_H
#define VTB_CODEGEN_MEMORY_PLAN_H

#include "passes/passes.h"

/* Where each value of a function lives when compiled. Views (reshape, slice, transpose, broadcast
 * of stored values) have no storage of their own but alias another value with an element offset and
 * strides. */
typedef enum vtb_place {
  VTB_PLACE_ARG,
  VTB_PLACE_RETURN,
  VTB_PLACE_WORKSPACE,
  VTB_PLACE_KEPT, /* of the entry, where the target wants that: memory that stays between runs */
  VTB_PLACE_VIEW,
  VTB_PLACE_CONSTANT,
  VTB_PLACE_NONE
} vtb_place;
typedef struct vtb_slot {
  vtb_place place;
  int index;      /* argument or return; for a constant: number in the function's constant table */
  int64_t offset; /* bytes into the function's workspace frame or what is kept, 64-byte aligned */
  int64_t bytes;
  const vtb_value *base; /* VIEW: the stored value it aliases (never itself a view) */
  int64_t view_offset;   /* VIEW: elements */
  bool in_place; /* a concatenation whose operands are written into it: nothing is left to do */
  /* element strides; of stored values the row-major ones, or those of an image whose channels are
   * neighbours (channels_last of vtb_places); 0 on broadcast axes */
  int64_t stride[VTB_MAX_RANK];
} vtb_slot;
typedef struct vtb_frame {
  vtb_slot *slots;     /* by value id */
  int64_t bytes;       /* this function's frame; callees run in frames placed right after it */
  int64_t total_bytes; /* frame plus the deepest callee */
  int64_t kept_bytes;  /* beside it */
} vtb_frame;
typedef struct vtb_plan {
  size_t n_funcs;
  vtb_func **funcs; /* post order from the entry, kernel functions left out */
  vtb_frame *frames;
  int64_t peak_bytes; /* entry's total */
  int64_t kept_bytes; /* entry's */
} vtb_plan;
/* The module must be bound (no VTB_DYN). places NULL: as on the CPU. */
VTB_MUST_USE vtb_status vtb_plan_memory(vtb_module *m, vtb_func *entry, const vtb_places *places,
                                        vtb_plan *plan, vtb_error *err);
void vtb_plan_free(vtb_plan *p);
void vtb_plan_print(const vtb_plan *p, vtb_strbuf *out);
const vtb_frame *vtb_plan_frame(const vtb_plan *p, const vtb_func *f);

/* VTB_E_INTERNAL, with the function, the value and the rule, if it is not. `places` are those it
 * was made for, or NULL. vtb_plan_memory() asks where checks are
 * wanted (ir/checks.h). */
VTB_MUST_USE vtb_status vtb_plan_check(const vtb_plan *p, const vtb_func *entry,
                                       const vtb_places *places, vtb_error *err);

#endif
