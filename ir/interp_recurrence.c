/* Interpreter: recurrence before lowering, by calling the step function for every batch, head and
 * step of the path.
 *
 * States are carried as written, unscaled. The running scale m follows from the values that
 * ir/recurrence.c finds in the step function: a first, silent evaluation of a step yields its decay
 * and gains, then m, then the step is evaluated with state_scale = e^m.
 */
#include "ir/interp_internal.h"
#include "ir/ops.h"
#include "ir/recurrence.h"

#include <math.h>

typedef struct fold {
  vtb__interp_eval *e;
  const vtb_func *step;
  int states, inits, seqs, consts, yields;
  int64_t b, n, heads, *perm;
  bool reads_scale;
  vtb_step_scale scale;
  vtb__interp_frame frame;
  double **next; /* new states, copied before the old ones are overwritten */
} fold;

static int64_t count(const vtb_value *v) { return vtb_type_count(&v->type); }

static bool uses_scale(const vtb_func *f) {
  for (const vtb_inst *inst = f->first; inst; inst = inst->next)
    if (inst->op == VTB_OP_state_scale) return true;
  return false;
}

static fold fold_new(vtb__interp_eval *e) {
  const vtb_inst *inst = e->inst;
  fold f = {.e = e, .step = inst->callee};
  f.states = (int)vtb_attr_int(inst, "states", 0);
  f.inits = (int)vtb_attr_int(inst, "inits", 0);
  f.seqs = (int)vtb_attr_int(inst, "seqs", 0);
  f.consts = inst->n_operands - f.inits - f.seqs;
  f.yields = f.step->n_returns - f.states;
  const vtb_type *x = &e->in[f.inits]->type;
  f.b = x->dim[0].size;
  f.n = x->dim[1].size;
  f.heads = vtb_type_count(x) / (f.b * f.n * count(f.step->args[f.states]));
  f.perm = vtb__path_perm(inst, f.n);
  f.reads_scale = uses_scale(f.step);
  vtb_step_scale_find(f.step, f.states, f.seqs, &f.scale);
  vtb__frame_init(&f.frame, f.step, true);
  f.next = vtb_xcalloc((size_t)f.states + 1, sizeof *f.next);
  for (int i = 0; i < f.states; i++) {
    f.frame.t[f.step->args[i]->id] = vtb_tensor_new(f.step->args[i]->type);
    f.next[i] = vtb_xcalloc((size_t)count(f.step->args[i]), sizeof(double));
  }
  return f;
}

static void fold_free(fold *f) {
  vtb__frame_free(&f->frame);
  vtb_step_scale_free(&f->scale);
  for (int i = 0; i < f->states; i++) vtb_free(f->next[i]);
  vtb_free(f->next);
  vtb_free(f->perm);
}

static double *state(const fold *f, int i) { return f->frame.t[f->step->args[i]->id].data; }

/* ---- one head -------------------------------------------------------------------------------- */

/* Initial states come relative to their log scale m_0, so that S_0 = exp(m_0) S^_0. */
static void load_states(fold *f, int64_t b, int64_t h, double m0) {
  for (int i = 0; i < f->states; i++) {
    int64_t n = count(f->step->args[i]);
    const double *from = f->inits ? f->e->in[i]->data + (b * f->heads + h) * n : NULL;
    for (int64_t k = 0; k < n; k++) state(f, i)[k] = from ? from[k] * (m0 == 0 ? 1 : exp(m0)) : 0;
  }
}

static void borrow(fold *f, const vtb_value *arg, double *data) {
  f->frame.t[arg->id] = (vtb_tensor){arg->type, data};
  f->frame.borrowed[arg->id] = true;
}

static void load_constants(fold *f, int64_t h) {
  for (int i = 0; i < f->consts; i++) {
    const vtb_value *arg = f->step->args[f->states + f->seqs + i];
    const vtb_tensor *t = f->e->in[f->inits + f->seqs + i];
    borrow(f, arg, t->data + (t->type.rank > arg->type.rank ? h * count(arg) : 0));
  }
}

static void load_inputs(fold *f, int64_t row) {
  for (int i = 0; i < f->seqs; i++) {
    const vtb_value *arg = f->step->args[f->states + i];
    borrow(f, arg, f->e->in[f->inits + i]->data + row * count(arg));
  }
}

static double log_sum(const fold *f, const vtb_log_sum *s) {
  double sum = 0;
  for (int i = 0; i < s->n; i++) sum += f->frame.t[s->values[i]->id].data[0];
  return sum;
}

static double advance_scale(const fold *f, double m) {
  m += log_sum(f, &f->scale.decay);
  for (int i = 0; i < f->scale.n_gains; i++) {
    double gain = log_sum(f, &f->scale.gains[i]);
    if (!(m > gain)) m = gain;
  }
  return m;
}

static void store_step(fold *f, int64_t row) {
  for (int i = 0; i < f->states; i++) {
    const vtb_value *r = f->step->returns[i];
    memcpy(f->next[i], f->frame.t[r->id].data, (size_t)count(r) * sizeof(double));
  }
  for (int i = 0; i < f->yields; i++) {
    const vtb_value *r = f->step->returns[f->states + i];
    memcpy(f->e->out[i]->data + row * count(r), f->frame.t[r->id].data,
           (size_t)count(r) * sizeof(double));
  }
  for (int i = 0; i < f->states; i++)
    memcpy(state(f, i), f->next[i], (size_t)count(f->step->args[i]) * sizeof(double));
}

/* Final states relative to exp(m); exp(-m) in two halves, so that it overflows only where the
 * result does. */
static void store_final(fold *f, int64_t b, int64_t h, double m) {
  double half = m == -INFINITY ? 1 : exp(-m / 2);
  for (int i = 0; i < f->states; i++) {
    int64_t n = count(f->step->args[i]);
    double *to = f->e->out[f->yields + i]->data + (b * f->heads + h) * n;
    for (int64_t k = 0; k < n; k++) to[k] = state(f, i)[k] * half * half;
  }
  f->e->out[f->yields + f->states]->data[b * f->heads + h] = m;
}

static vtb_status run_step(fold *f, bool silent) {
  bool before = f->e->machine->silent;
  f->e->machine->silent = before || silent;
  vtb_status status = vtb__frame_run(f->e->machine, &f->frame);
  f->e->machine->silent = before;
  return status;
}

static vtb_status run_head(fold *f, int64_t b, int64_t h) {
  bool scaled = f->scale.scaled && f->scale.uniform, given = f->inits > f->states;
  double m0 = given ? f->e->in[f->states]->data[b * f->heads + h] : 0;
  /* Without initial states the running maximum starts empty; the scale reported at the end starts
   * from 0. */
  double inside = given || f->inits ? m0 : -INFINITY, final = m0;
  load_states(f, b, h, m0);
  load_constants(f, h);
  for (int64_t t = 0; t < f->n; t++) {
    int64_t row = (b * f->n + f->perm[t]) * f->heads + h;
    load_inputs(f, row);
    f->e->machine->log_scale = 0;
    vtb_status status = scaled && f->reads_scale ? run_step(f, true) : VTB_OK;
    if (status) return status;
    if (scaled && f->reads_scale) f->e->machine->log_scale = inside = advance_scale(f, inside);
    status = run_step(f, false);
    if (status) return status;
    if (scaled) final = advance_scale(f, final);
    store_step(f, row);
  }
  store_final(f, b, h, final);
  return VTB_OK;
}

vtb_status vtb__interp_recurrence(vtb__interp_eval *e) {
  fold f = fold_new(e);
  vtb_status status = VTB_OK;
  if (f.reads_scale && f.scale.scaled && !f.scale.uniform)
    status = vtb_fail(e->machine->err, VTB_E_INPUT,
                      "@%s reads its scale, but its states have no common one%s%s", f.step->name,
                      f.scale.blame ? ": see " : "", f.scale.blame ? f.scale.blame->name : "");
  for (int64_t b = 0; b < f.b && status == VTB_OK; b++)
    for (int64_t h = 0; h < f.heads && status == VTB_OK; h++) status = run_head(&f, b, h);
  fold_free(&f);
  return status;
}

vtb_status vtb__interp_state_scale(vtb__interp_eval *e) {
  double m = e->machine->log_scale;
  e->out[0]->data[0] = vtb_attr_int(e->inst, "log", 0) ? m : exp(m);
  return VTB_OK;
}
