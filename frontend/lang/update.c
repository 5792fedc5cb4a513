/* update(buffer, value): what a buffer is after a training step that counted.
 *
 * Nothing is written while a program runs. A function keeps its updates as results behind its own;
 * its caller asks for the same buffers under its own scopes, as it does for weights, and hands the
 * updates on; the entry returns them, named "updated.<official name>", and whoever trains copies
 * them back (runtime/train/train_buffers.c). A block that is called many times thus updates the
 * buffers of each call. */
#include "frontend/lang/builtin.h"

static int buffer_of(const vtb__frame *f, const vtb_value *v) {
  for (size_t i = 0; i < f->weights.n; i++)
    if (f->weights.at[i].arg == v && f->weights.at[i].role == VTB_ROLE_BUFFER) return (int)i;
  return -1;
}

bool vtb__add_update(vtb__eval *e, const vtb_value *buffer, vtb_value *value, vtb_span span) {
  vtb__frame *f = e->frame;
  int w = buffer_of(f, buffer);
  vtb_check(w >= 0, "an update of %%%s, which is no buffer", buffer->name);
  if (f->loop) {
    vtb__report(e, VTB_DIAG_MISPLACED, span,
                "buffer '%s' would be updated at every step of a loop; updates belong around it",
                f->weights.at[w].name);
    return false;
  }
  for (size_t i = 0; i < f->updates.n; i++) {
    if (f->updates.at[i].weight != w) continue;
    vtb__report(e, VTB_DIAG_UPDATED_TWICE, span, "buffer '%s' is updated twice",
                f->weights.at[w].name);
    if (!e->stopped) vtb_diag_note(e->diags, f->updates.at[i].span, "the other update");
    return false;
  }
  vtb_vec_push(&f->updates, ((vtb__update){w, value, span}));
  return true;
}

vtb__val vtb__b_update(vtb__eval *e, const vtb__args *a) {
  const vtb__argument *v = vtb__arg_of(a, "value");
  vtb_value *buffer = vtb__arg(a, "buffer").u.t.v, *value = vtb__as_tensor(e, v->value, v->span);
  if (!value) return VTB__ERR;
  if (e->frame->step)
    return vtb__report(e, VTB_DIAG_NOT_A_STEP_OPERATION, a->span, "a step cannot update a buffer");
  int w = buffer_of(e->frame, buffer);
  if (w < 0)
    return vtb__report(
        e, VTB_DIAG_NOT_A_BUFFER, a->span,
        "the first argument of 'update' is not a `param ... buffer` of this model or block");
  vtb_type joint;
  if (!vtb_type_broadcast(&value->type, &buffer->type, &joint) ||
      !vtb_type_equal(&joint, &buffer->type))
    return vtb__report(e, VTB_DIAG_WEIGHT_SHAPE, a->span,
                       "the update of buffer '%s' is %s, and the buffer is %s",
                       e->frame->weights.at[w].name, vtb__type_string(e, &value->type),
                       vtb__type_string(e, &buffer->type));
  value = vtb_b_stretched(vtb__at(e, a->span), value, &buffer->type);
  if (!value || !vtb__add_update(e, buffer, value, a->span)) return VTB__ERR;
  return VTB__NIL;
}
