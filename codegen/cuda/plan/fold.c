/* A fold: the callee once a step, as calls of the plan (ir/fold.h). */

#include "codegen/cuda/plan/program.h"

typedef struct loop {
  vtb_cuda *c;
  const vtb_fold_loop *fold;
  bool odd; /* of the step at hand */
  int64_t position;
} loop;

static vtb_spot state(const loop *l, int i, bool old) {
  return l->odd == old ? l->fold->other[i] : l->fold->result[i];
}

static vtb_spot step_of(const loop *l, const vtb_fold_part *p) {
  return p->copied ? p->step : vtb_fold_in_sequence(p, l->position);
}

/* A state of any shape, as the part has it. */
static vtb_spot as_step(vtb_spot spot, const vtb_fold_part *p) {
  spot.type = &p->type;
  spot.stride[0] = p->len;
  spot.stride[1] = 1;
  return spot;
}

static void move(const loop *l, const vtb_fold_move *m) {
  const vtb_fold_part *p = &l->fold->parts[m->part];
  vtb_spot dense = m->old >= 0 ? as_step(state(l, m->old, true), p) : p->step;
  vtb_spot all = vtb_fold_in_sequence(p, l->position);
  vtb_spot at[2] = {m->to_sequence ? dense : all, m->to_sequence ? all : dense};
  vtb_step copy = {.kind = VTB_STEP_COPY, .n_operands = 1, .n_results = 1, .at = at};
  copy.tail = l->fold->frame;
  vtb__cuda_emit_copy(l->c, &copy);
}

static vtb_spot slot(const loop *l, vtb_fold_slot s) {
  switch (s.kind) {
  case VTB_FOLD_OLD:
  case VTB_FOLD_NEW:
    return state(l, s.index, s.kind == VTB_FOLD_OLD);
  case VTB_FOLD_CONST:
    return l->fold->constants[s.index];
  case VTB_FOLD_PART:
    return step_of(l, &l->fold->parts[s.index]);
  }
  vtb_bug("a slot of kind %d", (int)s.kind);
}

static void emit_step(const loop *l, const vtb_func *callee, vtb_spot *spots) {
  const vtb_fold_loop *f = l->fold;
  for (int i = 0; i < f->n_before; i++) move(l, &f->before[i]);
  for (int i = 0; i < f->n_slots; i++) spots[i] = slot(l, f->slots[i]);
  vtb__cuda_emit_call(l->c, callee, f->frame, spots, f->n_slots);
  for (int i = 0; i < f->n_after; i++) move(l, &f->after[i]);
}

void vtb__cuda_emit_fold(vtb_cuda *c, const vtb_step *step) {
  if (vtb_fold_varies(&step->fold->p)) {
    vtb_cuda_unsupported(c, step->inst, "a loop whose number of steps a run tells");
    return;
  }
  loop l = {.c = c, .fold = step->fold};
  int64_t *at = vtb_fold_positions(l.fold);
  vtb_spot *spots = vtb_xcalloc((size_t)l.fold->n_slots + 1, sizeof *spots);
  for (int64_t t = 0; t < l.fold->n; t++) {
    l.odd = (l.fold->n - t) % 2;
    l.position = at[t];
    emit_step(&l, step->inst->callee, spots);
  }
  vtb_free(spots);
  vtb_free(at);
}
