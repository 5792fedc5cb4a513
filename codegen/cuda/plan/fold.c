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
 *
 * Where a limit tells the number of steps it is the same, with numbers of turns in memory: one or
 * none for the step of an odd number, whose states are put into place first. While a state tells
 * whether there is another step, a turn is one step: the kernel behind it copies the states back
 * and leaves the answer.
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
  const vtb_cuda_ref from = l->counter[0], to = l->counter[1];
  vtb_cuda_side side = {.from = &from, .to = &to};
  l->odd = odd;
  list_moves(l, true, &side.moves);
  if (side.moves.n) {
    vtb__cuda_fold_side(l, &side);
    side.to = NULL;
  }
  call(l, callee);
  list_moves(l, false, &side.moves);
  if (side.moves.n) vtb__cuda_fold_side(l, &side);
  vtb_vec_free(&side.moves);
  l->counter[0] = to;
  l->counter[1] = from;
}

static void emit_pairs(vtb_cuda_fold *l, const vtb_func *callee, const vtb_cuda_ref *turns) {
  if (l->fold->n < 2) return;
  vtb__cuda_begin_loop(l->c, l->fold->n / 2, turns);
  emit_step(l, callee, false);
  emit_step(l, callee, true);
  vtb__cuda_end_loop(l->c);
}

static void emit_loop(vtb_cuda_fold *l, const vtb_func *callee) {
  if (l->counts) vtb__cuda_fold_begin(l);
  if (l->fold->n % 2) emit_step(l, callee, true);
  emit_pairs(l, callee, NULL);
}

/* The step of an odd number reads `other`; its states, and with them the counter, go there. */
static void emit_limited(vtb_cuda_fold *l, const vtb_func *callee) {
  const vtb_cuda_ref from = l->counter[0], to = l->counter[1];
  const vtb_cuda_side other = {.from = &from, .to = &to, .counted = true, .hands = VTB_HANDS_BACK};
  vtb__cuda_fold_begin(l);
  vtb__cuda_begin_loop(l->c, 1, &l->first);
  vtb__cuda_fold_side(l, &other);
  l->counter[0] = to;
  l->counter[1] = from;
  emit_step(l, callee, true);
  vtb__cuda_end_loop(l->c);
  emit_pairs(l, callee, &l->turns);
}

static void emit_while(vtb_cuda_fold *l, const vtb_func *callee) {
  vtb_cuda_side before = {.from = &l->counter[0], .to = &l->counter[1]};
  vtb_cuda_side behind = {
      .from = &l->counter[1], .to = &l->counter[0], .counted = true, .hands = VTB_HANDS_ON};
  vtb__cuda_fold_begin(l);
  vtb__cuda_begin_loop(l->c, l->fold->n, &l->turns);
  l->odd = false;
  list_moves(l, true, &before.moves);
  list_moves(l, false, &behind.moves);
  if (l->counts) vtb__cuda_fold_side(l, &before);
  call(l, callee);
  vtb__cuda_fold_side(l, &behind);
  vtb__cuda_end_loop(l->c);
  vtb_vec_free(&before.moves);
  vtb_vec_free(&behind.moves);
}

void vtb__cuda_emit_fold(vtb_cuda *c, const vtb_step *step) {
  const vtb_fold *p = &step->fold->p;
  vtb_cuda_fold l = {.c = c, .fold = step->fold, .label = step->label, .frame = step->fold->frame};
  bool few = l.fold->n < FEW && !vtb_fold_varies(p);
  l.order = vtb_fold_positions(l.fold);
  if (!few) vtb__cuda_fold_places(&l);
  if (few)
    emit_few(&l, step->inst->callee);
  else if (p->is_while)
    emit_while(&l, step->inst->callee);
  else if (p->has_limit)
    emit_limited(&l, step->inst->callee);
  else
    emit_loop(&l, step->inst->callee);
  vtb_free(l.order);
}
