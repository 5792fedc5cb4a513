/* Shape rule of fold; ir/fold.h has the meaning of operands and results. */
#include "ir/fold.h"
#include "ir/internal.h"

/* An attribute that counts operands; out of range: a number that fits no instruction. */
static int count_of(const vtb_inst *inst, const char *key) {
  int64_t n = vtb_attr_int(inst, key, -1);
  return n < 0 ? -1 : n > inst->n_operands ? inst->n_operands + 1 : (int)n;
}

vtb_fold vtb_fold_of(const vtb_inst *inst) {
  vtb_fold f = {.states = count_of(inst, "states"), .seqs = count_of(inst, "seqs")};
  f.consts = inst->n_operands - f.states - f.seqs;
  f.yields = inst->callee->n_returns - f.states;
  f.keep = vtb_attr_int(inst, "keep", 0) != 0;
  f.reverse = vtb_attr_int(inst, "reverse", 0) != 0;
  f.path = vtb_attr_str(inst, "path", NULL);
  f.tile = vtb_attr_int(inst, "tile", 0);
  return f;
}

int64_t vtb_fold_steps(const vtb_inst *inst) {
  return inst->operands[vtb_attr_int(inst, "states", 0)]->type.dim[1].size;
}

/* True if operand i is what the callee takes. */
static bool argument_fits(const vtb_fold *p, int i, const vtb_type *operand, const vtb_type *arg) {
  vtb_type t = *operand;
  bool is_seq = i >= p->states && i < p->states + p->seqs;
  if (is_seq && t.rank < 2) return false;
  if (is_seq) t.dim[1].size = 1;
  if (p->tile && i < p->states + p->seqs) {
    if (t.rank < 1 || (!vtb_is_batch(t.dim[0].size) && t.dim[0].size % p->tile)) return false;
    t.dim[0].size = p->tile;
  }
  return vtb_type_equal(&t, arg);
}

/* A result of the callee for all samples. */
static vtb_type of_all(const vtb_fold *p, vtb_type t, vtb_dim batch) {
  if (p->tile && t.rank > 0) t.dim[0] = batch;
  return t;
}

/* [B, 1, ...] at one step, [B, N, ...] of all. */
static bool push_sequence(vtb__shape *s, vtb_type t, vtb_dim n, const char *what, int i) {
  if (t.rank < 2 || t.dim[1].size != 1)
    return vtb__shape_fail(s, VTB_DIAG_IR_SCAN,
                           "fold @%s: %s %d is %s, which is no step of a sequence",
                           s->inst->callee->name, what, i + 1, vtb__shape_text(s, &t));
  t.dim[1] = n;
  vtb__shape_push(s, t);
  return true;
}

static bool push_kept(vtb__shape *s, const vtb_type *state, vtb_dim batch, vtb_dim n, int i) {
  if (state->rank < 1 || state->rank == VTB_MAX_RANK || state->dim[0].size != batch.size)
    return vtb__shape_fail(s, VTB_DIAG_IR_SCAN,
                           "fold @%s: state %d is %s, which cannot be kept by sample",
                           s->inst->callee->name, i + 1, vtb__shape_text(s, state));
  vtb_type t = {.dtype = state->dtype, .rank = state->rank + 1, .dim = {state->dim[0], n}};
  for (int a = 1; a < state->rank; a++) t.dim[a + 1] = state->dim[a];
  vtb__shape_push(s, t);
  return true;
}

bool vtb__shape_fold(vtb__shape *s) {
  const vtb_func *f = s->inst->callee;
  vtb_fold p = vtb_fold_of(s->inst);
  if (p.states < 0 || p.seqs < 1 || p.consts < 0 || p.yields < 0 || p.tile < 0 ||
      f->n_args != s->inst->n_operands)
    return vtb__shape_fail(s, VTB_DIAG_IR_SCAN,
                           "fold @%s: %d operands do not fit %d states, %d sequences, %d arguments",
                           f->name, s->inst->n_operands, p.states, p.seqs, f->n_args);
  for (int i = 0; i < f->n_args; i++)
    if (!argument_fits(&p, i, vtb__shape_operand(s, i), &f->args[i]->type))
      return vtb__shape_fail(
          s, VTB_DIAG_IR_SCAN, "fold @%s: operand %d is %s, which does not fit %s", f->name, i + 1,
          vtb__shape_text(s, vtb__shape_operand(s, i)), vtb__shape_text(s, &f->args[i]->type));
  const vtb_type *first = vtb__shape_operand(s, p.states);
  vtb_dim batch = first->dim[0], n = first->dim[1];
  for (int i = 0; i < p.seqs; i++) {
    const vtb_type *t = vtb__shape_operand(s, p.states + i);
    if (vtb_is_batch(n.size) || t->dim[0].size != batch.size || t->dim[1].size != n.size)
      return vtb__shape_fail(s, VTB_DIAG_IR_SCAN,
                             "fold @%s: sequences %s and %s do not go together", f->name,
                             vtb__shape_text(s, first), vtb__shape_text(s, t));
  }
  if (!vtb__shape_path(s, n.size)) return false;
  for (int i = 0; i < p.states; i++)
    if (!vtb_type_equal(&f->returns[i]->type, &f->args[i]->type))
      return vtb__shape_fail(s, VTB_DIAG_IR_SCAN, "fold @%s: state %d is %s but its update is %s",
                             f->name, i + 1, vtb__shape_text(s, &f->args[i]->type),
                             vtb__shape_text(s, &f->returns[i]->type));
  for (int i = 0; i < p.yields; i++)
    if (!push_sequence(s, of_all(&p, f->returns[p.states + i]->type, batch), n, "yield", i))
      return false;
  for (int i = 0; i < p.states; i++) vtb__shape_push(s, *vtb__shape_operand(s, i));
  for (int i = 0; p.keep && i < p.states; i++)
    if (!push_kept(s, vtb__shape_operand(s, i), batch, n, i)) return false;
  return true;
}
