/* Interpreter of fold: the callee's frame, run again for every step of every tile. */
#include "ir/fold.h"
#include "ir/interp_internal.h"

#include <string.h>

typedef struct fold_run {
  vtb__interp_eval *e;
  vtb_fold p;
  vtb__interp_frame frame;
  int64_t batch, n; /* samples of a tile, steps */
  int64_t first;    /* sample of the tile at hand */
} fold_run;

static double *argument(const fold_run *r, int i) {
  return r->frame.t[r->frame.func->args[i]->id].data;
}
static const vtb_tensor *returned(const fold_run *r, int i) {
  return &r->frame.t[r->frame.func->returns[i]->id];
}

/* Elements [b, pos, ...] of a sequence to (or from) the contiguous step [b, 0, ...] of the tile. */
static void move(const fold_run *r, const vtb_tensor *sequence, double *step, int64_t pos,
                 bool out) {
  int64_t len = vtb_type_count(&sequence->type) / (sequence->type.dim[0].size * r->n);
  for (int64_t b = 0; b < r->batch; b++) {
    double *at = sequence->data + ((r->first + b) * r->n + pos) * len, *one = step + b * len;
    memcpy(out ? at : one, out ? one : at, (size_t)len * sizeof(double));
  }
}

static fold_run run_new(vtb__interp_eval *e) {
  fold_run r = {.e = e, .p = vtb_fold_of(e->inst)};
  const vtb_type *x = &e->in[r.p.states]->type;
  r.batch = r.p.tile ? r.p.tile : x->dim[0].size, r.n = x->dim[1].size;
  vtb__frame_init(&r.frame, e->inst->callee, true);
  for (int i = 0; i < e->inst->n_operands; i++) {
    const vtb_value *arg = e->inst->callee->args[i];
    bool is_const = i >= r.p.states + r.p.seqs;
    vtb_type t = vtb__resolve(e->machine, &arg->type);
    r.frame.borrowed[arg->id] = is_const;
    r.frame.t[arg->id] = is_const ? *e->in[i] : vtb_tensor_new(t);
  }
  return r;
}

/* Where the states of the tile at hand begin; without tiles a state need not have samples. */
static double *state_at(const fold_run *r, const vtb_tensor *all, int i, size_t *bytes) {
  int64_t count = vtb_type_count(&r->frame.t[r->frame.func->args[i]->id].type);
  *bytes = (size_t)count * sizeof(double);
  return all->data + r->first / r->batch * count;
}

static vtb_status run_step(fold_run *r, int64_t pos) {
  const vtb_fold *p = &r->p;
  for (int i = 0; i < p->seqs; i++) {
    int arg = p->states + i;
    move(r, r->e->in[arg], argument(r, arg), pos, false);
  }
  for (int i = 0; p->keep && i < p->states; i++) {
    move(r, r->e->out[p->yields + p->states + i], argument(r, i), pos, true);
  }
  VTB_TRY(vtb__frame_run(r->e->machine, &r->frame));
  for (int i = 0; i < p->yields; i++) {
    move(r, r->e->out[i], returned(r, p->states + i)->data, pos, true);
  }
  /* results first, as a new state may be an old one of another name */
  size_t bytes;
  for (int i = 0; i < p->states; i++) {
    double *last = state_at(r, r->e->out[p->yields + i], i, &bytes);
    memcpy(last, returned(r, i)->data, bytes);
  }
  for (int i = 0; i < p->states; i++) {
    const double *last = state_at(r, r->e->out[p->yields + i], i, &bytes);
    memcpy(argument(r, i), last, bytes);
  }
  return VTB_OK;
}

static vtb_status run_tile(fold_run *r, const int64_t *perm) {
  size_t bytes;
  for (int i = 0; i < r->p.states; i++) {
    const double *init = state_at(r, r->e->in[i], i, &bytes);
    memcpy(argument(r, i), init, bytes);
  }
  vtb_status status = VTB_OK;
  for (int64_t t = 0; t < r->n && status == VTB_OK; t++)
    status = run_step(r, perm[r->p.reverse ? r->n - 1 - t : t]);
  return status;
}

vtb_status vtb__interp_fold(vtb__interp_eval *e) {
  if (e->machine->depth >= VTB__MAX_CALL_DEPTH)
    return vtb_fail(e->machine->err, VTB_E_INPUT, "calls nest too deeply at @%s",
                    e->inst->callee->name);
  fold_run r = run_new(e);
  int64_t *perm = vtb__path_perm(e->inst, r.n);
  vtb_status status = VTB_OK;
  int64_t samples = e->in[r.p.states]->type.dim[0].size;
  e->machine->depth++;
  for (; r.first < samples && status == VTB_OK; r.first += r.batch) status = run_tile(&r, perm);
  e->machine->depth--;
  vtb_free(perm);
  vtb__frame_free(&r.frame);
  return status;
}
