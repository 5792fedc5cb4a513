/* See steps.h. */
#include "codegen/steps_check.h"
#include "ir/ops.h"

#include "codegen/label.h"

#include <assert.h>
#include <string.h>

#include "codegen/body/body.h"
#include "ir/checks.h"
#include "ir/kernels.h"
#include "ir/path.h"

typedef struct maker { /* the function at hand */
  vtb_steps *s;
  vtb_func_steps *out;
  const vtb_frame *frame;
  int64_t copies;     /* bytes that copies of call operands take at most */
  vtb_spot *returned; /* by return: where it is afterwards */
  bool *has_returned;
} maker;

int64_t vtb_places_round(const vtb_places *p, int64_t bytes) {
  assert(p->frame_align > 0 && bytes >= 0);
  return (bytes + p->frame_align - 1) / p->frame_align * p->frame_align;
}

static int64_t rounded(const maker *m, int64_t bytes) {
  return vtb_places_round(&m->s->places, bytes);
}

/* ---- places ---------------------------------------------------------------------------------- */

static const vtb_slot *slot_of(const maker *m, const vtb_value *v) {
  return &m->frame->slots[v->id];
}

static const vtb_value *stored_value(const maker *m, const vtb_value *v) {
  return slot_of(m, v)->place == VTB_PLACE_VIEW ? slot_of(m, v)->base : v;
}

/* A constant of equal elements is one of them. */
static bool is_splat(const maker *m, const vtb_value *v) {
  const vtb_value *base = stored_value(m, v);
  return slot_of(m, base)->place == VTB_PLACE_CONSTANT && !vtb_attr_find(base->def, "data");
}

static void place_base(const maker *m, const vtb_value *base, vtb_spot *spot) {
  const vtb_slot *slot = slot_of(m, base);
  switch (slot->place) {
  case VTB_PLACE_ARG:
    spot->index = slot->index;
    return;
  case VTB_PLACE_RETURN:
    spot->index = m->out->func->n_args + slot->index;
    return;
  case VTB_PLACE_WORKSPACE:
    spot->at = VTB_AT_FRAME;
    spot->offset = slot->offset;
    return;
  case VTB_PLACE_KEPT:
    spot->at = VTB_AT_KEPT;
    spot->offset = slot->offset;
    return;
  case VTB_PLACE_CONSTANT:
    spot->at = VTB_AT_CONSTANT;
    spot->constant = base->def;
    return;
  case VTB_PLACE_VIEW:
  case VTB_PLACE_NONE:
    break;
  }
  vtb_bug("value %%%s of @%s has no place", base->name, m->out->func->name);
}

static vtb_spot spot_of(const maker *m, const vtb_value *v) {
  const vtb_value *base = stored_value(m, v);
  vtb_spot spot = {.at = VTB_AT_ARG, .value = base->id, .type = &v->type};
  place_base(m, base, &spot);
  if (is_splat(m, v)) return spot;
  if (base != v) spot.offset += slot_of(m, v)->view_offset * vtb_dtype_bytes(base->type.dtype);
  memcpy(spot.stride, slot_of(m, v)->stride, sizeof(int64_t) * (size_t)v->type.rank);
  return spot;
}

static vtb_spot dense_spot(maker *m, vtb_spot_kind at, int64_t offset, const vtb_type *type) {
  vtb_spot spot = {.at = at, .offset = offset, .type = type, .value = m->out->n_values++};
  vtb__dense_strides(type, spot.stride);
  return spot;
}

/* The next piece of the tail of which `used` bytes are taken. */
static vtb_spot tail_spot(maker *m, const vtb_type *type, int64_t *used) {
  vtb_spot spot = dense_spot(m, VTB_AT_TAIL, *used, type);
  *used += rounded(m, vtb_type_bytes(type));
  return spot;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void add_copy(maker *m, const vtb_inst *inst, vtb_spot from, vtb_spot to, int64_t tail) {
  vtb_step step = {
      .kind = VTB_STEP_COPY, .inst = inst, .n_operands = 1, .n_results = 1, .tail = tail};
  step.at = VTB_NEW_ARRAY(&m->s->arena, vtb_spot, 2);
  step.at[0] = from;
  step.at[1] = to;
  vtb_vec_push(&m->out->list, step);
}

static vtb_step step_of(maker *m, vtb_step_kind kind, const vtb_inst *inst) {
  int n = inst->n_operands + inst->n_results;
  vtb_step step = {
      .kind = kind, .inst = inst, .n_operands = inst->n_operands, .n_results = inst->n_results};
  step.prepared = vtb_attr_int(inst, "prepared", 0) != 0;
  step.at = VTB_NEW_ARRAY(&m->s->arena, vtb_spot, n + 1);
  for (int i = 0; i < inst->n_operands; i++) step.at[i] = spot_of(m, inst->operands[i]);
  for (int r = 0; r < inst->n_results; r++)
    step.at[inst->n_operands + r] = spot_of(m, inst->results[r]);
  return step;
}

/* Structured ops address rows: their last axis must be contiguous, in operands that the plan made
 * views. */
static bool takes_rows(const vtb_inst *inst) {
  bool structured =
      vtb_op_get(inst->op)->klass == VTB_CLASS_STRUCTURED && inst->op != VTB_OP_einsum;
  return structured || vtb_kernel_reads_rows(vtb_kernel_kind_of(inst));
}

static bool has_rows(const maker *m, const vtb_inst *inst, const vtb_spot *spot) {
  int last = spot->type->rank - 1;
  if (m->s->places.channels_last && inst->op == VTB_OP_im2col && spot->stride[1] == 1) return true;
  return last < 0 || spot->type->dim[last].size == 1 || spot->stride[last] == 1;
}

static void add_kernel(maker *m, const vtb_inst *inst) {
  vtb_step step = step_of(m, VTB_STEP_KERNEL, inst);
  for (int i = 0; takes_rows(inst) && i < inst->n_operands; i++) {
    if (has_rows(m, inst, &step.at[i])) continue;
    vtb_spot to = tail_spot(m, step.at[i].type, &step.tail);
    add_copy(m, inst, step.at[i], to, step.tail);
    step.at[i] = to;
  }
  vtb_vec_push(&m->out->list, step);
}

/* Functions take dense, aligned tensors. */
static bool needs_copy(const maker *m, const vtb_spot *spot) {
  return !vtb__is_dense(spot->type, spot->stride) || spot->offset % m->s->places.tensor_align;
}

static void make_operands_dense(maker *m, vtb_step *step) {
  int64_t base = rounded(m, m->frame->bytes), copied = 0;
  for (int i = 0; i < step->n_operands; i++) {
    if (!needs_copy(m, &step->at[i])) continue;
    vtb_spot to = dense_spot(m, VTB_AT_FRAME, base + copied, step->at[i].type);
    add_copy(m, NULL, step->at[i], to, 0);
    copied += rounded(m, vtb_type_bytes(to.type));
    step->at[i] = to;
  }
  if (copied > m->copies) m->copies = copied;
}

/* An update comes after everything else, so that nothing reads a parameter behind it, and takes
 * gradients from where they are returned. Its operands are dense; equal elements are one. */
static bool comes_last(const vtb_inst *inst) {
  return inst->op == VTB_OP_verdict || inst->op == VTB_OP_update;
}

/* A verdict that is read by more than updates stands where it stands. */
static bool is_read_early(const vtb_inst *inst) {
  vtb_inst **readers;
  size_t n = inst->op == VTB_OP_verdict ? vtb_value_readers(inst->results[0], &readers) : 0;
  bool early = false;
  for (size_t i = 0; i < n; i++) early |= readers[i]->op != VTB_OP_update;
  if (inst->op == VTB_OP_verdict) vtb_free(readers);
  return early;
}

static void add_last(maker *m, const vtb_inst *inst) {
  vtb_step step = step_of(m, VTB_STEP_KERNEL, inst);
  for (int i = 0; i < inst->n_operands; i++)
    for (int r = 0; r < m->out->func->n_returns; r++)
      if (m->out->func->returns[r] == inst->operands[i]) step.at[i] = m->returned[r];
  vtb_vec_push(&m->out->list, step);
}

static void add_call(maker *m, const vtb_inst *inst) {
  vtb_step step = step_of(m, VTB_STEP_CALL, inst);
  make_operands_dense(m, &step);
  vtb_vec_push(&m->out->list, step);
}

/* ---- folds ----------------------------------------------------------------------------------- */

static vtb_fold_part part_of(maker *m, const vtb_spot *sequence, int64_t *tail) {
  const vtb_type *t = sequence->type;
  vtb_fold_part p = {
      .sequence = *sequence, .n = t->dim[1].size, .type = {.dtype = t->dtype, .rank = 2}};
  p.len = vtb_type_count(t) / (t->dim[0].size * p.n);
  p.type.dim[0].size = t->dim[0].size;
  p.type.dim[1].size = p.len;
  p.copied = t->dim[0].size > 1 || p.len * vtb_dtype_bytes(t->dtype) % m->s->places.tensor_align;
  if (p.copied) p.step = tail_spot(m, &p.type, tail);
  return p;
}

/* Types of steps lie in the parts: their addresses last. */
static void point_at_types(vtb_fold_part *parts, int n) {
  for (int i = 0; i < n; i++)
    if (parts[i].copied) parts[i].step.type = &parts[i].type;
}

static int make_parts(maker *m, const vtb_step *step, vtb_fold_loop *f) {
  const vtb_fold *p = &f->p;
  const vtb_spot *results = step->at + step->n_operands;
  int n = 0;
  f->parts = VTB_NEW_ARRAY(&m->s->arena, vtb_fold_part, step->n_operands + step->n_results + 1);
  for (int i = 0; i < p->seqs; i++) f->parts[n++] = part_of(m, &step->at[p->states + i], &f->frame);
  for (int i = 0; i < p->yields; i++) f->parts[n++] = part_of(m, &results[i], &f->frame);
  for (int i = 0; p->keep && i < p->states; i++)
    f->parts[n++] = part_of(m, &results[p->yields + p->states + i], &f->frame);
  point_at_types(f->parts, n);
  return n;
}

static void make_states(maker *m, const vtb_step *step, vtb_fold_loop *f) {
  f->result = step->at + step->n_operands + f->p.yields;
  f->other = VTB_NEW_ARRAY(&m->s->arena, vtb_spot, f->p.states + 1);
  bool odd = f->n % 2 && !vtb_fold_varies(&f->p);
  for (int i = 0; i < f->p.states; i++) {
    f->other[i] = tail_spot(m, step->at[i].type, &f->frame);
    add_copy(m, NULL, step->at[i], odd ? f->other[i] : f->result[i], f->frame);
  }
}

static void make_slots(vtb_fold_loop *f) {
  const vtb_fold *p = &f->p;
  vtb_fold_slot *slot = f->slots;
  for (int i = 0; i < p->states; i++) *slot++ = (vtb_fold_slot){VTB_FOLD_OLD, i};
  for (int i = 0; i < p->seqs; i++) *slot++ = (vtb_fold_slot){VTB_FOLD_PART, i};
  for (int i = 0; i < p->consts; i++) *slot++ = (vtb_fold_slot){VTB_FOLD_CONST, i};
  for (int i = 0; i < p->states; i++) *slot++ = (vtb_fold_slot){VTB_FOLD_NEW, i};
  for (int i = 0; i < p->yields; i++) *slot++ = (vtb_fold_slot){VTB_FOLD_PART, p->seqs + i};
  f->n_slots = (int)(slot - f->slots);
  assert(f->n_slots == 2 * p->states + p->seqs + p->consts + p->yields);
}

static void make_moves(vtb_fold_loop *f) {
  const vtb_fold *p = &f->p;
  for (int i = 0; p->keep && i < p->states; i++)
    f->before[f->n_before++] = (vtb_fold_move){p->seqs + p->yields + i, i, true};
  for (int i = 0; i < p->seqs; i++)
    if (f->parts[i].copied) f->before[f->n_before++] = (vtb_fold_move){i, -1, false};
  for (int i = p->seqs; i < p->seqs + p->yields; i++)
    if (f->parts[i].copied) f->after[f->n_after++] = (vtb_fold_move){i, -1, true};
}

/* A fold in tiles is one kernel, which runs its step. */
static void add_tiled_fold(maker *m, const vtb_inst *inst) {
  vtb_step step = step_of(m, VTB_STEP_KERNEL, inst);
  make_operands_dense(m, &step);
  if (inst->callee->kind == VTB_FUNC_PLAIN)
    m->s->funcs[vtb_steps_find(m->s, inst->callee)].is_step = true;
  vtb_vec_push(&m->out->list, step);
}

static void add_fold(maker *m, const vtb_inst *inst) {
  if (vtb_fold_of(inst).tile) {
    add_tiled_fold(m, inst);
    return;
  }
  vtb_step step = step_of(m, VTB_STEP_FOLD, inst);
  vtb_fold_loop *f = step.fold = VTB_NEW(&m->s->arena, vtb_fold_loop);
  int most = 2 * (inst->n_operands + inst->n_results) + 1;
  *f = (vtb_fold_loop){.p = vtb_fold_of(inst), .n = vtb_fold_steps(inst)};
  f->slots = VTB_NEW_ARRAY(&m->s->arena, vtb_fold_slot, most);
  f->before = VTB_NEW_ARRAY(&m->s->arena, vtb_fold_move, most);
  f->after = VTB_NEW_ARRAY(&m->s->arena, vtb_fold_move, most);
  make_operands_dense(m, &step);
  f->constants = step.at + f->p.states + f->p.seqs;
  make_states(m, &step, f);
  make_parts(m, &step, f);
  make_slots(f);
  make_moves(f);
  vtb_vec_push(&m->out->list, step);
}

int64_t *vtb_fold_positions(const vtb_fold_loop *f) {
  int64_t *stored = vtb_xcalloc((size_t)f->n + 1, sizeof *stored);
  for (int64_t t = 0; t < f->n; t++) stored[t] = t;
  if (f->p.path) {
    vtb_path path;
    vtb_error err = {0};
    vtb_check(vtb_path_parse(f->p.path, &path, &err) == VTB_OK && path.n == f->n, "path %s: %s",
              f->p.path, err.text);
    vtb_path_indices(&path, stored);
    vtb_path_free(&path);
  }
  for (int64_t t = 0; f->p.reverse && t < f->n / 2; t++) {
    int64_t first = stored[t];
    stored[t] = stored[f->n - 1 - t];
    stored[f->n - 1 - t] = first;
  }
  return stored;
}

vtb_spot vtb_fold_in_sequence(const vtb_fold_part *p, int64_t position) {
  assert(position >= 0 && position < p->n);
  vtb_spot spot = p->sequence;
  spot.type = &p->type;
  spot.offset += position * p->len * vtb_dtype_bytes(p->type.dtype);
  memset(spot.stride, 0, sizeof spot.stride);
  spot.stride[0] = p->n * p->len;
  spot.stride[1] = 1;
  return spot;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* Nothing to do: constants are read where they are used, views are addresses, parts of a
 * concatenation are written where they belong, and tensors without elements are nowhere. */
static bool needs_no_step(const maker *m, const vtb_inst *i) {
  if (i->op == VTB_OP_constant) return true;
  if (i->op == VTB_OP_call || i->op == VTB_OP_fold) return false;
  if (i->n_results == 1) {
    const vtb_slot *slot = slot_of(m, i->results[0]);
    bool view = slot->place == VTB_PLACE_VIEW && vtb_op_get(i->op)->klass == VTB_CLASS_SHAPE;
    if (slot->in_place || view) return true;
  }
  bool empty = i->n_results > 0;
  for (int r = 0; r < i->n_results; r++) empty &= vtb_type_count(&i->results[r]->type) == 0;
  return empty;
}

/* A returned value that was not computed in place: an argument, a constant, a view, or one that is
 * returned twice. */
static void add_return(maker *m, int r) {
  const vtb_func *f = m->out->func;
  const vtb_value *v = f->returns[r];
  vtb_spot from = spot_of(m, v);
  bool in_place = from.at == VTB_AT_ARG && from.index == f->n_args + r;
  const vtb_slot *slot = slot_of(m, v), *base = slot_of(m, stored_value(m, v));
  if (m->has_returned[r]) return;
  m->has_returned[r] = true;
  m->returned[r] = from;
  if (vtb_type_count(&v->type) == 0) return;
  if (in_place && (base == slot || (slot->view_offset == 0 && !needs_copy(m, &from)))) return;
  vtb_spot to = dense_spot(m, VTB_AT_ARG, 0, &v->type);
  to.index = f->n_args + r;
  add_copy(m, NULL, from, to, 0);
  m->returned[r] = to;
}

static void add_early(maker *m, const vtb_inst *inst) {
  for (int r = 0; r < m->out->func->n_returns; r++)
    for (int i = 0; i < inst->n_operands; i++)
      if (m->out->func->returns[r] == inst->operands[i]) add_return(m, r);
  add_last(m, inst);
}

/* ---- sums over ranks ------------------------------------------------------------------------- */

static void add_sum(maker *m, const vtb_inst *inst) {
  vtb_step step = step_of(m, VTB_STEP_SUM, inst);
  const vtb_spot *to = &step.at[inst->n_operands];
  if (step.at[0].value != to->value) add_copy(m, NULL, step.at[0], *to, 0);
  step.at[0] = *to;
  vtb_vec_push(&m->out->list, step);
}

static bool reads_sum(const vtb_step *step, const bool *begun) {
  if (step->kind == VTB_STEP_SUM) return false;
  for (int i = 0; i < step->n_operands + step->n_results; i++)
    if (step->at[i].at != VTB_AT_CONSTANT && begun[step->at[i].value]) return true;
  return false;
}

/* Waits before the first step that touches what is being summed, and at the function's end. */
static void add_waits(vtb_steps *s, vtb_func_steps *f) {
  VTB_VEC(vtb_step) list = {0};
  bool *begun = vtb_xcalloc((size_t)f->n_values + 1, sizeof *begun), any = false;
  for (size_t i = 0; i <= f->list.n; i++) {
    const vtb_step *step = i < f->list.n ? &f->list.at[i] : NULL;
    if (any && (!step || reads_sum(step, begun))) {
      vtb_vec_push(&list, ((vtb_step){.kind = VTB_STEP_WAIT, .at = VTB_NEW(&s->arena, vtb_spot)}));
      memset(begun, 0, (size_t)f->n_values * sizeof *begun);
      any = false;
    }
    if (step && step->kind == VTB_STEP_SUM) any = begun[step->at[0].value] = true;
    if (step) vtb_vec_push(&list, *step);
  }
  f->list.n = 0;
  for (size_t i = 0; i < list.n; i++) vtb_vec_push(&f->list, list.at[i]);
  vtb_vec_free(&list);
  vtb_free(begun);
}

static void list_func(vtb_steps *s, vtb_func_steps *out) {
  maker m = {.s = s, .out = out, .frame = vtb_plan_frame(&s->plan, out->func)};
  out->n_values = out->func->n_values;
  m.returned = VTB_NEW_ARRAY(&s->arena, vtb_spot, out->func->n_returns + 1);
  m.has_returned = VTB_NEW_ARRAY(&s->arena, bool, out->func->n_returns + 1);
  for (const vtb_inst *i = out->func->first; i; i = i->next) {
    if (needs_no_step(&m, i)) continue;
    if (is_read_early(i)) add_early(&m, i);
    if (comes_last(i)) continue;
    if (i->op == VTB_OP_call)
      add_call(&m, i);
    else if (i->op == VTB_OP_fold)
      add_fold(&m, i);
    else if (i->op == VTB_OP_sum_ranks)
      add_sum(&m, i);
    else
      add_kernel(&m, i);
  }
  for (int r = 0; r < out->func->n_returns; r++) add_return(&m, r);
  for (const vtb_inst *i = out->func->first; i; i = i->next)
    if (comes_last(i) && !is_read_early(i)) add_last(&m, i);
  add_waits(s, out);
  out->tail_base = rounded(&m, m.frame->bytes) + m.copies;
  for (size_t i = 0; i < out->list.n && m.frame->kept_bytes; i++)
    if (out->list.at[i].prepared) out->n_prepared = i + 1;
}

/* How often each function runs in one run of the entry: callers are later in post order. */
static void count_runs(vtb_steps *s) {
  if (s->n_funcs) s->funcs[s->n_funcs - 1].runs = 1;
  for (size_t i = s->n_funcs; i-- > 0;)
    for (size_t k = 0; k < s->funcs[i].list.n; k++) {
      const vtb_step *step = &s->funcs[i].list.at[k];
      if (step->kind != VTB_STEP_CALL && step->kind != VTB_STEP_FOLD) continue;
      int64_t times = step->fold ? step->fold->n : 1;
      s->funcs[vtb_steps_find(s, step->inst->callee)].runs += s->funcs[i].runs * (int)times;
    }
}

size_t vtb_steps_find(const vtb_steps *s, const vtb_func *f) {
  for (size_t i = 0; i < s->n_funcs; i++)
    if (s->funcs[i].func == f) return i;
  vtb_bug("@%s is not in the memory plan", f->name);
}

static void label_steps(vtb_steps *s) {
  for (size_t i = s->n_funcs; i-- > 0;) {
    vtb_func_steps *f = &s->funcs[i];
    if (!f->path) f->path = "";
    for (size_t k = 0; k < f->list.n; k++) {
      vtb_step *step = &f->list.at[k];
      if (!step->inst || step->kind == VTB_STEP_COPY) continue;
      step->label = vtb_label_of(step->inst, f->path, &s->arena);
      bool tiled = step->kind == VTB_STEP_KERNEL && step->inst->op == VTB_OP_fold &&
                   step->inst->callee->kind == VTB_FUNC_PLAIN;
      if (step->kind != VTB_STEP_CALL && step->kind != VTB_STEP_FOLD && !tiled) continue;
      const char *scope = step->inst->span.scope ? step->inst->span.scope : "";
      vtb_func_steps *to = &s->funcs[vtb_steps_find(s, step->inst->callee)];
      to->path = vtb_label_merge(to->path, vtb_label_join(f->path, scope, &s->arena), &s->arena);
    }
  }
}

vtb_status vtb_steps_make(vtb_module *m, vtb_func *entry, const vtb_places *places, vtb_steps *out,
                          vtb_error *err) {
  *out = (vtb_steps){.places = *places};
  VTB_TRY(vtb_plan_memory(m, entry, places, &out->plan, err));
  vtb_arena_init(&out->arena);
  out->n_funcs = out->plan.n_funcs;
  out->funcs = VTB_NEW_ARRAY(&out->arena, vtb_func_steps, out->n_funcs + 1);
  for (size_t i = 0; i < out->n_funcs; i++) {
    out->funcs[i].func = out->plan.funcs[i];
    list_func(out, &out->funcs[i]);
  }
  count_runs(out);
  label_steps(out);
  vtb_status status = vtb_checks() ? vtb_steps_check(out, err) : VTB_OK;
  if (status != VTB_OK) vtb_steps_free(out);
  return status;
}

void vtb_steps_free(vtb_steps *s) {
  for (size_t i = 0; i < s->n_funcs; i++) vtb_vec_free(&s->funcs[i].list);
  vtb_plan_free(&s->plan);
  vtb_arena_free(&s->arena);
  *s = (vtb_steps){0};
}
