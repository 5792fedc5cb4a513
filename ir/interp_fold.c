/* Interpreter of fold: the callee's frame, run again for every step of every tile. */
#include "ir/fold.h"
#include "ir/interp_internal.h"

#include <string.h>

typedef struct fold_run {
  vtb__interp_eval *e;
  vtb_fold p;
  vtb__interp_frame frame;
  int64_t batch, n; /* samples of a tile, or 1 for all; steps */
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
  int64_t rows = r->p.tile ? r->p.tile : sequence->type.dim[0].size;
  int64_t len = vtb_type_count(&sequence->type) / (sequence->type.dim[0].size * r->n);
  for (int64_t b = 0; b < rows; b++) {
    double *at = sequence->data + ((r->first + b) * r->n + pos) * len, *one = step + b * len;
    memcpy(out ? at : one, out ? one : at, (size_t)len * sizeof(double));
  }
}

static fold_run run_new(vtb__interp_eval *e) {
  fold_run r = {.e = e, .p = vtb_fold_of(e->inst)};
  r.batch = r.p.tile ? r.p.tile : 1, r.n = vtb_fold_steps(e->inst);
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

/* A state that is not 0 everywhere, or none to ask. */
static bool goes_on(const fold_run *r) {
  if (!r->p.is_while) return true;
  const double *state = argument(r, 0);
  int64_t n = vtb_type_count(&r->frame.t[r->frame.func->args[0]->id].type);
  for (int64_t i = 0; i < n; i++)
    if (state[i] != 0) return true;
  return false;
}

static int64_t steps_of(const fold_run *r) {
  if (!r->p.has_limit) return r->n;
  double limit = r->e->in[r->p.states + r->p.seqs]->data[0];
  return limit < 0 ? 0 : limit > (double)r->n ? r->n : (int64_t)limit;
}

static vtb_status run_tile(fold_run *r, const int64_t *perm) {
  size_t bytes;
  for (int i = 0; i < r->p.states; i++) {
    const double *init = state_at(r, r->e->in[i], i, &bytes);
    memcpy(argument(r, i), init, bytes);
  }
  for (int i = 0; i < r->p.states; i++) { /* what is left if no step is run */
    double *last = state_at(r, r->e->out[r->p.yields + i], i, &bytes);
    memcpy(last, argument(r, i), bytes);
  }
  vtb_status status = VTB_OK;
  int64_t n = steps_of(r);
  for (int64_t t = 0; t < n && status == VTB_OK && goes_on(r); t++)
    status = run_step(r, perm[r->p.reverse ? n - 1 - t : t]);
  return status;
}

vtb_status vtb__interp_fold(vtb__interp_eval *e) {
  if (e->machine->depth >= VTB__MAX_CALL_DEPTH)
    return vtb_fail(e->machine->err, VTB_E_INPUT, "calls nest too deeply at @%s",
                    e->inst->callee->name);
  fold_run r = run_new(e);
  int64_t *perm = vtb__path_perm(e->inst, r.n);
  vtb_status status = VTB_OK;
  int64_t samples = r.p.tile ? e->in[r.p.states]->type.dim[0].size : 1;
  e->machine->depth++;
  for (; r.first < samples && status == VTB_OK; r.first += r.batch) status = run_tile(&r, perm);
  e->machine->depth--;
  vtb_free(perm);
  vtb__frame_free(&r.frame);
  return status;
}
