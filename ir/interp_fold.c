/* Interpreter of fold: the callee's frame, run again for every step. */
#include "ir/fold.h"
#include "ir/interp_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct fold_run {
  vtb__eval *e;
  vtb_fold p;
  vtb__frame frame;
  int64_t batch, n;
} fold_run;

static double *argument(const fold_run *r, int i) {
  return r->frame.t[r->frame.func->args[i]->id].data;
}
static const vtb_tensor *returned(const fold_run *r, int i) {
  return &r->frame.t[r->frame.func->returns[i]->id];
}

/* Elements [b, pos, ...] of a sequence to (or from) the contiguous step [b, 0, ...]. */
static void move(const fold_run *r, double *sequence, double *step, int64_t count, int64_t pos,
                 bool out) {
  int64_t len = count / r->batch;
  for (int64_t b = 0; b < r->batch; b++) {
    double *at = sequence + (b * r->n + pos) * len, *one = step + b * len;
    memcpy(out ? at : one, out ? one : at, (size_t)len * sizeof(double));
  }
}

static fold_run run_new(vtb__eval *e) {
  fold_run r = {.e = e, .p = vtb_fold_of(e->inst)};
  const vtb_type *x = &e->in[r.p.states]->type;
  r.batch = x->dim[0].size, r.n = x->dim[1].size;
  vtb__frame_init(&r.frame, e->inst->callee, true);
  for (int i = 0; i < e->inst->n_operands; i++) {
    const vtb_value *arg = e->inst->callee->args[i];
    bool is_const = i >= r.p.states + r.p.seqs;
    vtb_type t = vtb__resolve(e->machine, &arg->type);
    r.frame.borrowed[arg->id] = is_const;
    r.frame.t[arg->id] = is_const ? *e->in[i] : vtb_tensor_new(t);
    if (i < r.p.states)
      memcpy(argument(&r, i), e->in[i]->data, (size_t)vtb_type_count(&t) * sizeof(double));
  }
  return r;
}

static vtb_status run_step(fold_run *r, int64_t pos) {
  const vtb_fold *p = &r->p;
  for (int i = 0; i < p->seqs; i++) {
    int arg = p->states + i;
    int64_t count = vtb_type_count(&r->e->in[arg]->type) / r->n;
    move(r, r->e->in[arg]->data, argument(r, arg), count, pos, false);
  }
  for (int i = 0; p->keep && i < p->states; i++) {
    vtb_tensor *kept = r->e->out[p->yields + p->states + i];
    move(r, kept->data, argument(r, i), vtb_type_count(&kept->type) / r->n, pos, true);
  }
  vtb_status status = vtb__frame_run(r->e->machine, &r->frame);
  if (status != VTB_OK) return status;
  for (int i = 0; i < p->yields; i++) {
    vtb_tensor *y = r->e->out[i];
    move(r, y->data, returned(r, p->states + i)->data, vtb_type_count(&y->type) / r->n, pos, true);
  }
  /* results first, as a new state may be an old one of another name */
  for (int i = 0; i < p->states; i++) {
    vtb_tensor *last = r->e->out[p->yields + i];
    memcpy(last->data, returned(r, i)->data, (size_t)vtb_type_count(&last->type) * sizeof(double));
  }
  for (int i = 0; i < p->states; i++) {
    const vtb_tensor *last = r->e->out[p->yields + i];
    memcpy(argument(r, i), last->data, (size_t)vtb_type_count(&last->type) * sizeof(double));
  }
  return VTB_OK;
}

vtb_status vtb__interp_fold(vtb__eval *e) {
  if (e->machine->depth >= VTB__MAX_CALL_DEPTH)
    return vtb_fail(e->machine->err, VTB_E_INPUT, "calls nest too deeply at @%s",
                    e->inst->callee->name);
  fold_run r = run_new(e);
  int64_t *perm = vtb__path_perm(e->inst, r.n);
  vtb_status status = VTB_OK;
  e->machine->depth++;
  for (int64_t t = 0; t < r.n && status == VTB_OK; t++)
    status = run_step(&r, perm[r.p.reverse ? r.n - 1 - t : t]);
  e->machine->depth--;
  vtb_free(perm);
  vtb__frame_free(&r.frame);
  return status;
}
