/* Axes of values in a step: sets of them as bits, in the step's order. */
#include "frontend/lang/recurrence.h"

int vtb__step_axis_of(const vtb__step *s, const char *name) {
  for (int i = 0; name && i < s->n_axes; i++)
    if (strcmp(s->axes[i], name) == 0) return i;
  return -1;
}

/* Bit set of the axes of a step value; its unnamed axes are none of them. */
unsigned vtb__step_axes_of(const vtb__step *s, const vtb_type *t) {
  unsigned set = 0;
  for (int i = 0; i < t->rank; i++) {
    int a = vtb__step_axis_of(s, t->dim[i].name);
    if (a >= 0) set |= 1u << a;
  }
  return set;
}

vtb_type vtb__step_type_of_axes(const vtb__step *s, unsigned set) {
  vtb_type t = {.dtype = VTB_F32};
  for (int a = 0; a < s->n_axes; a++)
    if (set & (1u << a)) t.dim[t.rank++] = (vtb_dim){s->sizes[a], s->axes[a]};
  return t;
}

/* The value with ones for the axes of `set` that it lacks; leading ones are left out, broadcasting
 * supplies them. */
vtb_value *vtb__step_spread(vtb__eval *e, vtb_value *v, unsigned set, vtb_span span) {
  const vtb__step *s = e->frame->step;
  unsigned own = vtb__step_axes_of(s, &v->type);
  vtb_type t = {.dtype = VTB_F32};
  for (int a = 0; a < s->n_axes; a++) {
    if (own & (1u << a))
      t.dim[t.rank++] = (vtb_dim){s->sizes[a], s->axes[a]};
    else if ((set & (1u << a)) && t.rank)
      t.dim[t.rank++] = (vtb_dim){1, NULL};
  }
  if (t.rank == v->type.rank) return v;
  vtb_builder *b = vtb__at(e, span);
  return b ? vtb_b_reshape(b, v, &t) : NULL;
}

bool vtb__step_align(vtb__eval *e, vtb_value **a, vtb_value **b, vtb_type *out, vtb_span span) {
  const vtb__step *s = e->frame->step;
  unsigned set = vtb__step_axes_of(s, &(*a)->type) | vtb__step_axes_of(s, &(*b)->type);
  *out = vtb__step_type_of_axes(s, set);
  *a = vtb__step_spread(e, *a, set, span);
  *b = *a ? vtb__step_spread(e, *b, set, span) : NULL;
  return *a && *b;
}
