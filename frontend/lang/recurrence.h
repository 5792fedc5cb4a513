/* Between recurrence.c (calls), step.c (step functions) and instantiate.c (entries). Inside
 * frontend/lang only. */
#ifndef VTB_LANG_RECURRENCE_H
#define VTB_LANG_RECURRENCE_H

#include "frontend/lang/value.h"

/* A recurrence with its arguments, ready to be built. Arrays have decl->params.n entries; step
 * parameters have a tensor, hyperparameters a compile-time value. */
typedef struct vtb__rcall {
  const vtb_decl *decl;
  vtb__val *values;
  bool *is_step, *is_seq; /* declared with a shape; has a token axis */
  vtb_span *spans;
  const vtb_state_decl **state;
  vtb__val *init; /* initial states, VTB__NIL where absent */
  size_t n_states;
  vtb__val scale0; /* initial log scale */
  bool scaled;     /* scale0 is given */
  const char *mode;
  int64_t chunk;
  bool want_states, want_scale;
  /* axes of the step, in their order inside it, and of the heads */
  const char *axes[VTB_MAX_RANK];
  int64_t sizes[VTB_MAX_RANK];
  int n_axes, n_heads;
  vtb_dim heads[VTB_MAX_RANK], batch, tokens;
  const vtb__layout *layout;
  vtb_span span;
} vtb__rcall;

typedef struct vtb__rstep { /* a built step function */
  vtb_func *func;           /* NULL after errors */
  size_t n_yields, n_taps;
  const char **tap_names;
  vtb__env *env; /* the body's variables */
} vtb__rstep;

vtb__rstep *vtb__rcall_step(vtb__eval *e, vtb__rcall *c);
int vtb__step_axis_of(const vtb__step *s, const char *name); /* -1 if there is none */
/* Bit set of the axes of a step value; its unnamed axes are none of them. */
unsigned vtb__step_axes_of(const vtb__step *s, const vtb_type *t);
/* The value with ones for the axes of `set` that it lacks; leading ones are left out,
 * broadcasting supplies them. */
vtb_value *vtb__step_spread(vtb__eval *e, vtb_value *v, unsigned set, vtb_span span);
vtb_type vtb__step_type_of_axes(const vtb__step *s, unsigned set);
int vtb__axis_index(const vtb__rcall *c, const char *name); /* -1 if unknown */

#endif
