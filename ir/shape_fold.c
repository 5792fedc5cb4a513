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
  f.steps = vtb_attr_int(inst, "steps", 0);
  f.is_while = vtb_attr_int(inst, "while", 0) != 0;
  f.has_limit = vtb_attr_int(inst, "limit", 0) != 0;
  return f;
}

bool vtb_fold_varies(const vtb_fold *p) { return p->is_while || p->has_limit; }

int64_t vtb_fold_steps(const vtb_inst *inst) {
  int64_t steps = vtb_attr_int(inst, "steps", 0);
  return steps ? steps : inst->operands[vtb_attr_int(inst, "states", 0)]->type.dim[1].size;
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

static bool push_kept(vtb__shape *s, const vtb_type *state, vtb_dim n, int i) {
  if (state->rank == VTB_MAX_RANK)
    return vtb__shape_fail(s, VTB_DIAG_IR_SCAN,
                           "fold @%s: state %d is %s, which leaves no axis for the steps",
                           s->inst->callee->name, i + 1, vtb__shape_text(s, state));
  vtb_type t = *state;
  if (t.rank == 0) t = vtb_type_with_axis(&t, 0, (vtb_dim){.size = 1});
  vtb__shape_push(s, vtb_type_with_axis(&t, 1, n));
  return true;
}

/* Sequences of one length, and with a tile of one batch; the length is that of the steps. */
static bool sequences_fit(vtb__shape *s, const vtb_fold *p, vtb_dim *n) {
  const vtb_type *first = vtb__shape_operand(s, p->states);
  if (!p->steps) *n = first->dim[1];
  for (int i = 0; i < p->seqs; i++) {
    const vtb_type *t = vtb__shape_operand(s, p->states + i);
    bool other_batch = !p->steps && t->dim[0].size != first->dim[0].size;
    if (vtb_is_batch(n->size) || other_batch || t->dim[1].size != n->size)
      return vtb__shape_fail(
          s, VTB_DIAG_IR_SCAN, "fold @%s: sequences %s and %s do not go together",
          s->inst->callee->name, vtb__shape_text(s, first), vtb__shape_text(s, t));
  }
  return true;
}

/* The end of a loop is told by state 0, or by the first constant. */
static bool ends_fit(vtb__shape *s, const vtb_fold *p) {
  const vtb_type *count =
      p->has_limit && p->consts > 0 ? vtb__shape_operand(s, p->states + p->seqs) : NULL;
  const char *wrong = NULL;
  if (p->steps < 0 || (!p->steps && !p->seqs)) wrong = "it has neither sequences nor steps";
  if ((p->is_while || p->has_limit) &&
      (!p->steps || p->tile || p->path || p->is_while == p->has_limit))
    wrong = "while, or limit, needs steps and neither a path nor a tile";
  if (p->tile && p->steps) wrong = "a loop of steps has no tiles";
  if (p->is_while && p->states < 1) wrong = "while needs a state that tells who goes on";
  if (p->has_limit && (!count || count->dtype != VTB_I32 || count->rank))
    wrong = "its limit, the first constant, is no i32 scalar";
  return !wrong ||
         vtb__shape_fail(s, VTB_DIAG_IR_SCAN, "fold @%s: %s", s->inst->callee->name, wrong);
}

bool vtb__shape_fold(vtb__shape *s) {
  const vtb_func *f = s->inst->callee;
  vtb_fold p = vtb_fold_of(s->inst);
  vtb_dim n = {.size = p.steps}, batch = {0};
  if (p.states < 0 || p.seqs < 0 || p.consts < 0 || p.yields < 0 || p.tile < 0 ||
      f->n_args != s->inst->n_operands)
    return vtb__shape_fail(s, VTB_DIAG_IR_SCAN,
                           "fold @%s: %d operands do not fit %d states, %d sequences, %d arguments",
                           f->name, s->inst->n_operands, p.states, p.seqs, f->n_args);
  for (int i = 0; i < f->n_args; i++)
    if (!argument_fits(&p, i, &s->inst->operands[i]->type, &f->args[i]->type)) /* as stored */
      return vtb__shape_fail(
          s, VTB_DIAG_IR_SCAN, "fold @%s: operand %d is %s, which does not fit %s", f->name, i + 1,
          vtb__shape_text(s, &s->inst->operands[i]->type), vtb__shape_text(s, &f->args[i]->type));
  if (!ends_fit(s, &p) || (p.seqs && !sequences_fit(s, &p, &n))) return false;
  if (p.seqs) batch = vtb__shape_operand(s, p.states)->dim[0];
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
    if (!push_kept(s, vtb__shape_operand(s, i), n, i)) return false;
  return true;
}
