/* Sessions that make gradients: a gradient of what has no rows (a parameter) is a sum over the rows
 * of a run, also where the run is several programs. */
#include "runtime/model.h"

#include <string.h>

void vtb__session_match(vtb_session *s) {
  const vtb_tensor_info *t = s->parts[0].variant->tensors;
  for (int i = 0; i < s->n_tensors; i++) {
    bool given = t[i].io == VTB_IO_GRAD_IN, made = t[i].io == VTB_IO_GRAD_OUT;
    s->buffers[i].of = -1;
    if (!(given || made) || !vtb_starts_with(t[i].name, "d:")) continue;
    for (int k = 0; k < s->n_tensors && s->buffers[i].of < 0; k++) {
      bool fits =
          given ? t[k].io == VTB_IO_OUTPUT : t[k].io == VTB_IO_INPUT || t[k].io == VTB_IO_PARAM;
      if (fits && vtb_streq(t[k].name, t[i].name + strlen("d:"))) s->buffers[i].of = k;
    }
  }
}

bool vtb__vjp_in_place(const vtb__slice *c, int tensor, bool rows) {
  const vtb_tensor_info *t = &c->part->variant->tensors[tensor];
  if (rows) return c->n == c->part->variant->about.batch;
  return t->io != VTB_IO_GRAD_OUT || c->from == 0;
}

/* Inputs are the first row again: a row of zeros may be one where a function has no derivative,
 * and an adjoint of zero would not hide that. */
void vtb__vjp_fill(const vtb__slice *c, int tensor, char *copy, size_t each) {
  const vtb_tensor_info *t = &c->part->variant->tensors[tensor];
  int64_t n = c->part->variant->about.batch;
  for (int64_t row = c->n; row < n && t->io == VTB_IO_INPUT; row++)
    memcpy(copy + (size_t)row * each, copy, each);
}

void vtb__vjp_add(const vtb__slice *c, int tensor, char *memory, const char *made, size_t bytes) {
  const vtb_tensor_info *t = &c->part->variant->tensors[tensor];
  if (t->io != VTB_IO_GRAD_OUT || c->from == 0) {
    memcpy(memory, made, bytes);
    return;
  }
  for (size_t at = 0; at < bytes; at += sizeof(float)) { /* of any alignment */
    float sum, more;
    memcpy(&sum, memory + at, sizeof sum);
    memcpy(&more, made + at, sizeof more);
    sum += more;
    memcpy(memory + at, &sum, sizeof sum);
  }
}

bool vtb__vjp_moves(const vtb_session *s) {
  const vtb_tensor_info *t = s->parts[0].variant->tensors;
  bool moves = false;
  for (int i = 0; i < s->n_tensors && s->options.role == VTB_SESSION_VJP; i++)
    moves |= s->buffers[i].is_bound && (t[i].io == VTB_IO_PARAM || t[i].io == VTB_IO_BUFFER);
  return moves;
}
