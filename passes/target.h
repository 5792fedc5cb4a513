/* A target is one row: what the compiler must know of a machine before it makes code for it. Passes
 * read the row from their context; the functions that make code of a module are in the row that
 * codegen/targets.h adds under the same name. Nothing else asks for a target by name.
 *
 * Rows are constant and outlive everything.
 */
#ifndef VTB_TARGET_H
#define VTB_TARGET_H

#include "runtime/base/base.h"

/* How factors of products are rounded; sums are fp32, and so is everything else
 * (passes/precision.c). */
typedef enum vtb_precision {
  VTB_PRECISION_FP32,
  VTB_PRECISION_TF32,
  VTB_PRECISION_BF16,
  VTB_PRECISION_FP16,
  VTB_PRECISION_BF16_ALL, /* no product is spared */
  VTB_N_PRECISIONS
} vtb_precision;
extern const char *const vtb_precision_names[VTB_N_PRECISIONS];
/* NULL is fp32. VTB_E_USAGE, with the names there are, if it is none. */
VTB_MUST_USE vtb_status vtb_precision_find(const char *name, vtb_precision *out, vtb_error *err);

typedef struct vtb_target {
  const char *name, *summary;
  /* from a module of the graph, differentiated or not, to what code is made of */
  const char *pipeline;
  const char *needs;   /* besides this program, as a text for people; NULL: nothing */
  unsigned precisions; /* 1u << each vtb_precision it knows */
  bool in_double;      /* computes in double precision: equal to the reference but for order */
} vtb_target;
const vtb_target *vtb_targets(size_t *n);
const vtb_target *vtb_target_find(const char *name); /* NULL: no target has the name */
/* VTB_E_USAGE, with the precisions it knows, unless `t` knows p. */
VTB_MUST_USE vtb_status vtb_target_knows(const vtb_target *t, vtb_precision p, vtb_error *err);

#endif
