/* Interpreter of tangent, before it is lowered: differences along the line that the tangents give,
 * at two distances, of which the error of the second order is taken away.
 *
 *   D(h) = (f(x + h dx) - f(x - h dx)) / 2 h      dy = (4 D(h/2) - D(h)) / 3
 *
 * In double about ten digits are right, where the function has no kink within h. What lowers the op
 * (passes/grad/tangent.c) is held to this.
 */
#include "ir/interp_internal.h"
#include "ir/ops.h"

#include <math.h>

/* A distance for arguments and tangents of size 1. */
#define DISTANCE 4e-5

typedef struct line {
  vtb__interp_eval *e;
  const int64_t *wrt;
  int n_args, n_wrt, n_returns;
  double unit;    /* the distance at which no element moves by more than 1 */
  vtb_tensor **x; /* the arguments, moved */
  vtb_tensor *to; /* what the callee returns there */
} line;

static double largest(const vtb_tensor *t) {
  double most = 0;
  for (int64_t i = vtb_type_count(&t->type); i-- > 0;) most = fmax(most, fabs(t->data[i]));
  return most;
}

void vtb__hold(vtb__held *h, vtb_tensor *t) {
  size_t bytes = (size_t)vtb_type_count(&t->type) * sizeof(double);
  if (!h->at_point) {
    memcpy(t->data, h->values.at[h->next++], bytes);
    return;
  }
  if (h->up) vtb__hold(h->up, t);
  double *copy = vtb_xmalloc(bytes);
  memcpy(copy, t->data, bytes);
  vtb_vec_push(&h->values, copy);
}

static line line_new(vtb__interp_eval *e) {
  const vtb_func *f = e->inst->callee;
  line l = {.e = e, .n_args = f->n_args, .n_returns = f->n_returns};
  l.wrt = vtb_attr_ints(e->inst, "wrt", &l.n_wrt);
  l.x = vtb_xcalloc((size_t)l.n_args + 1, sizeof *l.x);
  l.to = vtb_xcalloc((size_t)l.n_returns + 1, sizeof *l.to);
  for (int i = 0; i < l.n_args; i++) l.x[i] = e->in[i];
  for (int i = 0; i < l.n_wrt; i++) {
    vtb_tensor *moved = vtb_xmalloc(sizeof *moved);
    *moved = vtb_tensor_new(e->in[l.wrt[i]]->type);
    l.x[l.wrt[i]] = moved;
    l.unit = fmax(l.unit, largest(e->in[l.n_args + i]));
  }
  for (int r = 0; r < l.n_returns; r++) l.to[r] = vtb_tensor_new(e->out[r]->type);
  l.unit = l.unit > 0 ? 1 / l.unit : 1;
  return l;
}

static void line_free(line *l) {
  for (int i = 0; i < l->n_wrt; i++) {
    vtb_tensor_free(l->x[l->wrt[i]]);
    vtb_free(l->x[l->wrt[i]]);
  }
  for (int r = 0; r < l->n_returns; r++) vtb_tensor_free(&l->to[r]);
  vtb_free(l->x);
  vtb_free(l->to);
}

/* Adds `times` the results at a distance to the tangents. */
static vtb_status add_at(line *l, double distance, double times) {
  vtb__interp_eval *e = l->e;
  vtb_tensor *out[64],
      **at = l->n_returns > 64 ? vtb_xcalloc((size_t)l->n_returns, sizeof *at) : out;
  for (int i = 0; i < l->n_wrt; i++) {
    const vtb_tensor *x = e->in[l->wrt[i]], *dx = e->in[l->n_args + i];
    for (int64_t k = vtb_type_count(&x->type); k-- > 0;)
      l->x[l->wrt[i]]->data[k] = x->data[k] + distance * dx->data[k];
  }
  for (int r = 0; r < l->n_returns; r++) at[r] = &l->to[r];
  e->machine->held->next = 0;
  vtb_status status = vtb__interp_callee(e, l->x, at);
  for (int r = 0, d = l->n_returns; r < l->n_returns && status == VTB_OK; r++) {
    if (l->to[r].type.dtype != VTB_F32) continue;
    vtb_tensor *tangent = e->out[d++];
    for (int64_t k = vtb_type_count(&tangent->type); k-- > 0;)
      tangent->data[k] += times * l->to[r].data[k];
  }
  if (at != out) vtb_free(at);
  return status;
}

static vtb_status differences(line *l) {
  double h = DISTANCE * l->unit;
  vtb_status status = add_at(l, h / 2, 4 / (3 * h));
  if (status == VTB_OK) status = add_at(l, -h / 2, -4 / (3 * h));
  if (status == VTB_OK) status = add_at(l, h, -1 / (6 * h));
  return status == VTB_OK ? add_at(l, -h, 1 / (6 * h)) : status;
}

vtb_status vtb__interp_tangent(vtb__interp_eval *e) {
  const vtb_func *f = e->inst->callee;
  vtb__machine *m = e->machine;
  vtb__held held = {.at_point = true, .up = m->held};
  bool silent = m->silent;
  m->held = &held;
  vtb_status status = vtb__interp_callee(e, e->in, e->out);
  for (int r = f->n_returns; r < e->inst->n_results; r++)
    memset(e->out[r]->data, 0, (size_t)vtb_type_count(&e->out[r]->type) * sizeof(double));
  line l = line_new(e);
  held.at_point = false;
  m->silent = true;
  if (status == VTB_OK) status = differences(&l);
  m->silent = silent;
  m->held = held.up;
  line_free(&l);
  for (size_t i = 0; i < held.values.n; i++) vtb_free(held.values.at[i]);
  vtb_vec_free(&held.values);
  return status;
}
