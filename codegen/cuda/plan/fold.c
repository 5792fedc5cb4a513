/* A fold: its callee once a step (ir/fold.h), as a loop of the launch plan.
 *
 *   turn = 0                                  of an odd number of steps the first one here
 *   n / 2 times  { before(turn, turn + 1), callee(result -> other), after(turn)
 *                  before(turn + 1, turn + 2), callee(other -> result), after(turn + 1) }
 *
 * A turn of the loop is two steps, so that states go to and fro between two places and are never
 * copied. A step's place in its sequence depends on its number, which lies in memory and goes to
 * and fro as well: the first kernel of a step reads it and leaves the next one where the next step
 * reads it. One kernel a side copies all steps of sequences (fold_step.c). Two or three steps are
 * launched one after another, in place in their sequences where those allow it.
 */
#include "codegen/cuda/plan/fold_step.h"

enum { FEW = 4 };

static vtb_spot state(const vtb_cuda_fold *l, int i, bool old) {
  return l->odd == old ? l->fold->other[i] : l->fold->result[i];
}

static vtb_spot slot(const vtb_cuda_fold *l, vtb_fold_slot s) {
  const vtb_fold_part *p = &l->fold->parts[s.index];
  switch (s.kind) {
  case VTB_FOLD_OLD:
  case VTB_FOLD_NEW:
    return state(l, s.index, s.kind == VTB_FOLD_OLD);
  case VTB_FOLD_CONST:
    return l->fold->constants[s.index];
  case VTB_FOLD_PART:
    return l->step ? l->step[s.index] : p->copied ? p->step : vtb_fold_in_sequence(p, l->position);
  }
  vtb_bug("a slot of kind %d", (int)s.kind);
}

static void call(const vtb_cuda_fold *l, const vtb_func *callee) {
  const vtb_fold_loop *f = l->fold;
  vtb_spot *spots = vtb_xcalloc((size_t)f->n_slots + 1, sizeof *spots);
  for (int i = 0; i < f->n_slots; i++) spots[i] = slot(l, f->slots[i]);
  vtb__cuda_emit_call(l->c, callee, l->frame, spots, f->n_slots);
  vtb_free(spots);
}

/* ---- a few steps ----------------------------------------------------------------------------- */

/* A state of any shape, as the part has it. */
static vtb_spot as_step(vtb_spot spot, const vtb_fold_part *p) {
  spot.type = &p->type;
  spot.stride[0] = p->len;
  spot.stride[1] = 1;
  return spot;
}

static void move(const vtb_cuda_fold *l, const vtb_fold_move *m) {
  const vtb_fold_part *p = &l->fold->parts[m->part];
  vtb_spot dense = m->old >= 0 ? as_step(state(l, m->old, true), p) : p->step;
  vtb_spot all = vtb_fold_in_sequence(p, l->position);
  vtb_spot at[2] = {m->to_sequence ? dense : all, m->to_sequence ? all : dense};
  vtb_step copy = {.kind = VTB_STEP_COPY, .n_operands = 1, .n_results = 1, .at = at};
  copy.tail = l->fold->frame;
  vtb__cuda_emit_copy(l->c, &copy);
}

static void emit_few(vtb_cuda_fold *l, const vtb_func *callee) {
  const vtb_fold_loop *f = l->fold;
  for (int64_t t = 0; t < f->n; t++) {
    l->odd = (f->n - t) % 2;
    l->position = l->order[t];
    for (int i = 0; i < f->n_before; i++) move(l, &f->before[i]);
    call(l, callee);
    for (int i = 0; i < f->n_after; i++) move(l, &f->after[i]);
  }
}

/* ---- a loop ---------------------------------------------------------------------------------- */

static void add_move(vtb_cuda_moves *moves, const vtb_cuda_fold *l, int part, int old, bool back) {
  vtb_vec_push(moves, ((vtb_cuda_move){&l->fold->parts[part],
                                       old >= 0 ? state(l, old, true) : l->step[part], back}));
}

/* Parts that would be in place are copied, too: their place is another one at each step. */
static void list_moves(const vtb_cuda_fold *l, bool before, vtb_cuda_moves *moves) {
  const vtb_fold *p = &l->fold->p;
  moves->n = 0;
  for (int i = 0; before && i < p->seqs; i++) add_move(moves, l, i, -1, false);
  for (int i = 0; before && p->keep && i < p->states; i++)
    add_move(moves, l, p->seqs + p->yields + i, i, true);
  for (int i = 0; !before && i < p->yields; i++) add_move(moves, l, p->seqs + i, -1, true);
}

/* The step whose number is counter[0], if anything asks for it. */
static void emit_step(vtb_cuda_fold *l, const vtb_func *callee, bool odd) {
  vtb_cuda_moves moves = {0};
  l->odd = odd;
  l->counts = true;
  list_moves(l, true, &moves);
  vtb__cuda_fold_moves(l, &moves);
  call(l, callee);
  list_moves(l, false, &moves);
  vtb__cuda_fold_moves(l, &moves);
  vtb_vec_free(&moves);
  vtb_cuda_ref next = l->counter[1];
  l->counter[1] = l->counter[0];
  l->counter[0] = next;
}

static void emit_loop(vtb_cuda_fold *l, const vtb_func *callee) {
  int64_t n = l->fold->n;
  vtb__cuda_fold_places(l);
  if (n % 2) emit_step(l, callee, true);
  vtb__cuda_begin_loop(l->c, n / 2);
  emit_step(l, callee, false);
  emit_step(l, callee, true);
  vtb__cuda_end_loop(l->c);
}

void vtb__cuda_emit_fold(vtb_cuda *c, const vtb_step *step) {
  if (vtb_fold_varies(&step->fold->p)) {
    vtb_cuda_unsupported(c, step->inst, "a loop whose number of steps a run tells");
    return;
  }
  vtb_cuda_fold l = {.c = c, .fold = step->fold, .label = step->label, .frame = step->fold->frame};
  l.order = vtb_fold_positions(l.fold);
  if (l.fold->n < FEW)
    emit_few(&l, step->inst->callee);
  else
    emit_loop(&l, step->inst->callee);
  vtb_free(l.order);
}
