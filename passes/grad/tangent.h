/* Forward mode, between its files: tangent.c drives, tangent_value.c knows tangents of values,
 * tangent_ops.c, tangent_scan.c and tangent_call.c hold the rules of ops.
 *
 * A function has a dual for each set of arguments that change: (args, tangents of those) ->
 * (returns, tangents of the returns that change). It is a copy of the function with tangents beside
 * its values. A value has the tangent of its own type, or none, which is zero. Everything here
 * lives in the module's scratch memory.
 */
#ifndef VTB_TANGENT_H
#define VTB_TANGENT_H

#include "passes/passes_internal.h"

/* A function whose arguments change where `changes` says so, and its dual. */
typedef struct vtb__dual {
  vtb_func *func, *dual;
  bool *changes;  /* by argument */
  bool *returned; /* by return: its tangent is among those behind the dual's returns, in order */
} vtb__dual;

typedef struct vtb__duals {
  vtb_module *module;
  VTB_VEC(vtb__dual *) all;
  vtb_error *err;
  vtb_status status; /* of the first failure */
} vtb__duals;

/* A dual being built. */
typedef struct vtb__tangents {
  vtb_builder b; /* appends to it */
  vtb__duals *duals;
  VTB_VEC(vtb_value *) of; /* by value id: the tangent, NULL: zero */
} vtb__tangents;

vtb__dual *vtb__dual_of(vtb__duals *d, vtb_func *f, const bool *changes);

/* NULL: zero. */
vtb_value *vtb__tangent(vtb__tangents *t, const vtb_value *v);
vtb_value *vtb__tangent_or_zeros(vtb__tangents *t, const vtb_value *v);
/* Adds d, which broadcasts to v's type; NULL: nothing. */
void vtb__add_tangent(vtb__tangents *t, vtb_value *v, vtb_value *d);

/* Emits the tangents of the results of `inst`, an instruction of the dual of which some operand has
 * one. What makes results itself unlinks `inst`, and gives it those results. */
typedef void (*vtb__tangent_rule)(vtb__tangents *t, vtb_inst *inst);
#define VTB_OP(name, klass, min, max, shape, interp, grad, tangent, ...)                           \
  void vtb__tangent_##tangent(vtb__tangents *t, vtb_inst *inst);
#include "ir/ops.def"
#undef VTB_OP

#endif
