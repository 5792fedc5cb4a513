/* See steps_check.h. */
#include "codegen/steps_check.h"
#include "ir/ops.h"

#include "codegen/body/body.h"

typedef struct checker {
  const vtb_steps *s;
  const vtb_func_steps *f;
  size_t at;    /* of the step */
  int64_t kept; /* bytes of what the function keeps */
  bool *summed; /* by value: it is being summed */
  vtb_error *err;
} checker;

static bool broken(const checker *c, const char *fmt, ...) VTB_PRINTF(2, 3);
static bool broken(const checker *c, const char *fmt, ...) {
  char rule[400];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(rule, sizeof rule, fmt, ap);
  va_end(ap);
  vtb_fail(c->err, VTB_E_INTERNAL, "step %zu of @%s: %s", c->at, c->f->func->name, rule);
  return false;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* Bytes from where the spot's first element is to behind its last. */
static int64_t reach_of(const vtb_spot *p) {
  int64_t last = 0;
  for (int a = 0; a < p->type->rank; a++) last += p->stride[a] * (p->type->dim[a].size - 1);
  return (last + 1) * vtb_dtype_bytes(p->type->dtype);
}

static bool is_splat(const vtb_spot *p) {
  return p->at == VTB_AT_CONSTANT && p->constant && !vtb_attr_find(p->constant, "data");
}

/* `tail`: bytes of it that are taken. */
static bool check_spot(const checker *c, const vtb_spot *p, int64_t tail) {
  const vtb_func *f = c->f->func;
  if (!p->type) return broken(c, "a tensor has no type");
  int64_t end = p->offset + reach_of(p), room = p->at == VTB_AT_FRAME  ? c->f->tail_base
                                                : p->at == VTB_AT_KEPT ? c->kept
                                                                       : tail;
  if (p->value < 0 || p->value >= c->f->n_values)
    return broken(c, "a tensor is value %d of %d", p->value, c->f->n_values);
  if (p->at == VTB_AT_CONSTANT && (!p->constant || p->constant->op != VTB_OP_constant))
    return broken(c, "a constant has no data");
  for (int a = 0; a < p->type->rank && is_splat(p); a++)
    if (p->stride[a]) return broken(c, "a constant of equal elements has strides");
  if (p->at == VTB_AT_ARG && (p->index < 0 || p->index >= f->n_args + f->n_returns))
    return broken(c, "a tensor is argument %d of %d", p->index, f->n_args + f->n_returns);
  if (p->offset < 0) return broken(c, "a tensor begins before its memory");
  bool bounded = p->at != VTB_AT_ARG && p->at != VTB_AT_CONSTANT;
  if (bounded && vtb_type_count(p->type) && end > room)
    return broken(c, "a tensor ends at byte %lld of the %s's %lld", (long long)end,
                  p->at == VTB_AT_FRAME  ? "frame"
                  : p->at == VTB_AT_KEPT ? "kept memory"
                                         : "tail",
                  (long long)room);
  return true;
}

static bool is_dense(const checker *c, const vtb_spot *p) {
  return vtb__is_dense(p->type, p->stride) && p->offset % c->s->places.tensor_align == 0;
}

static bool same_place(const vtb_spot *p, const vtb_spot *q) {
  return p->at == q->at && p->index == q->index && p->offset == q->offset && p->value == q->value;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static bool check_copy(const checker *c, const vtb_step *s) {
  if (s->n_operands != 1 || s->n_results != 1) return broken(c, "a copy is not from one to one");
  return vtb_type_equal(s->at[0].type, s->at[1].type) || broken(c, "a copy changes the type");
}

static bool check_sum(const checker *c, const vtb_step *s) {
  const vtb_spot *to = &s->at[s->n_operands];
  if (s->n_results != 1 || s->n_operands < 1 || s->n_operands > 2)
    return broken(c, "a sum over ranks is not of one tensor");
  if (!same_place(&s->at[0], to) || !vtb__is_dense(to->type, to->stride))
    return broken(c, "a sum over ranks is not in place, or not dense");
  return s->n_operands == 1 || vtb_type_count(s->at[1].type) == 1 ||
         broken(c, "a sum over ranks is asked for by more than a number");
}

static bool check_operands_dense(const checker *c, const vtb_step *s) {
  for (int i = 0; i < s->n_operands; i++)
    if (!is_splat(&s->at[i]) && vtb_type_count(s->at[i].type) && !is_dense(c, &s->at[i]))
      return broken(c, "operand %d of a function is not dense and aligned", i);
  return true;
}

/* ---- folds ----------------------------------------------------------------------------------- */

static bool check_part(const checker *c, const vtb_fold_loop *f, int i) {
  const vtb_fold_part *p = &f->parts[i];
  if (p->n != f->n)
    return broken(c, "part %d of the fold has %lld steps of %lld", i, (long long)p->n,
                  (long long)f->n);
  if (p->type.rank != 2 || p->type.dim[1].size != p->len ||
      vtb_type_count(p->sequence.type) != p->type.dim[0].size * p->n * p->len)
    return broken(c, "part %d of the fold is not its sequence cut into steps", i);
  if (!p->copied) return true;
  if (p->step.at != VTB_AT_TAIL || p->step.type != &p->type)
    return broken(c, "part %d of the fold is copied and has no place in the tail", i);
  return check_spot(c, &p->step, f->frame);
}

static bool check_move(const checker *c, const vtb_fold_loop *f, const vtb_fold_move *m,
                       int n_parts) {
  if (m->part < 0 || m->part >= n_parts) return broken(c, "a fold moves part %d", m->part);
  if (m->old >= 0)
    return (m->old < f->p.states && m->to_sequence) || broken(c, "a fold moves state %d", m->old);
  return f->parts[m->part].copied || broken(c, "a fold moves a part that is in place");
}

/* Slots hold what the callee gets: its arguments, then its returns, each of a kind that can be
 * there. */
static bool check_slots(const checker *c, const vtb_step *s, int n_parts) {
  const vtb_fold_loop *f = s->fold;
  const vtb_func *callee = s->inst->callee;
  if (f->n_slots != callee->n_args + callee->n_returns)
    return broken(c, "the fold hands %d tensors to @%s, which has %d", f->n_slots, callee->name,
                  callee->n_args + callee->n_returns);
  for (int i = 0; i < f->n_slots; i++) {
    const vtb_fold_slot *slot = &f->slots[i];
    bool back = i >= callee->n_args;
    int most = slot->kind == VTB_FOLD_PART    ? n_parts
               : slot->kind == VTB_FOLD_CONST ? f->p.consts
                                              : f->p.states;
    if (slot->index < 0 || slot->index >= most || (back && slot->kind == VTB_FOLD_OLD) ||
        (back && slot->kind == VTB_FOLD_CONST) || (!back && slot->kind == VTB_FOLD_NEW))
      return broken(c, "tensor %d that the fold hands on cannot be that", i);
  }
  return true;
}

static bool check_fold(const checker *c, const vtb_step *s) {
  const vtb_fold_loop *f = s->fold;
  if (!f) return broken(c, "a fold has no loop");
  int n_parts = f->p.seqs + f->p.yields + (f->p.keep ? f->p.states : 0);
  for (int i = 0; i < n_parts; i++)
    if (!check_part(c, f, i)) return false;
  for (int i = 0; i < f->p.states; i++)
    if (!check_spot(c, &f->other[i], f->frame) || !check_spot(c, &f->result[i], f->frame))
      return false;
  for (int i = 0; i < f->n_before; i++)
    if (!check_move(c, f, &f->before[i], n_parts)) return false;
  for (int i = 0; i < f->n_after; i++)
    if (!check_move(c, f, &f->after[i], n_parts)) return false;
  return check_slots(c, s, n_parts);
}

/* ---- sums and waits -------------------------------------------------------------------------- */

/* Nothing touches what is being summed before it is waited for. */
static bool check_order(const checker *c, const vtb_step *s, int *n_begun) {
  if (s->kind == VTB_STEP_WAIT) {
    for (int v = 0; v < c->f->n_values; v++) c->summed[v] = false;
    *n_begun = 0;
    return true;
  }
  for (int i = 0; i < s->n_operands + s->n_results; i++)
    if (s->at[i].at != VTB_AT_CONSTANT && c->summed[s->at[i].value] && s->kind != VTB_STEP_SUM)
      return broken(c, "touches a tensor that is being summed, without a wait before it");
  if (s->kind == VTB_STEP_SUM) {
    if (c->summed[s->at[0].value]) return broken(c, "sums what is being summed");
    c->summed[s->at[0].value] = true;
    ++*n_begun;
  }
  return true;
}

/* ---- functions ------------------------------------------------------------------------------- */

static bool check_step(const checker *c, const vtb_step *s) {
  bool copy = s->kind == VTB_STEP_COPY, wait = s->kind == VTB_STEP_WAIT;
  if (!s->inst && !copy && !wait) return broken(c, "is of no instruction");
  if ((s->label != NULL) == (copy || wait))
    return broken(c, s->label ? "a copy or a wait has a label" : "has no label");
  if (s->tail < 0 || s->tail % c->s->places.frame_align)
    return broken(c, "takes %lld bytes of the tail, which the frame's alignment does not divide",
                  (long long)s->tail);
  for (int i = 0; i < s->n_operands + s->n_results; i++)
    if (!check_spot(c, &s->at[i], s->tail)) return false;
  for (int i = s->n_operands; i < s->n_operands + s->n_results; i++)
    if (s->at[i].at == VTB_AT_KEPT && c->at >= c->f->n_prepared)
      return broken(c, "writes what is kept, in every run");
  switch (s->kind) {
  case VTB_STEP_COPY:
    return check_copy(c, s);
  case VTB_STEP_SUM:
    return check_sum(c, s);
  case VTB_STEP_CALL:
    return check_operands_dense(c, s);
  case VTB_STEP_FOLD:
    return check_operands_dense(c, s) && check_fold(c, s);
  case VTB_STEP_KERNEL:
  case VTB_STEP_WAIT:
    break;
  }
  return true;
}

static bool check_func(checker *c) {
  int n_begun = 0;
  for (c->at = 0; c->at < c->f->list.n; c->at++) {
    const vtb_step *s = &c->f->list.at[c->at];
    if (!check_step(c, s) || !check_order(c, s, &n_begun)) return false;
    if ((s->kind == VTB_STEP_CALL || s->kind == VTB_STEP_FOLD) &&
        vtb_steps_find(c->s, s->inst->callee) >= (size_t)(c->f - c->s->funcs))
      return broken(c, "calls @%s, which comes later", s->inst->callee->name);
  }
  return !n_begun || broken(c, "%d sums are never waited for", n_begun);
}

/* Runs of a function are those that its callers make. */
static bool check_runs(checker *c) {
  for (size_t k = 0; k < c->s->n_funcs; k++) {
    int64_t runs = k + 1 == c->s->n_funcs;
    for (size_t i = k + 1; i < c->s->n_funcs; i++)
      for (size_t at = 0; at < c->s->funcs[i].list.n; at++) {
        const vtb_step *s = &c->s->funcs[i].list.at[at];
        bool calls = s->kind == VTB_STEP_CALL || s->kind == VTB_STEP_FOLD;
        if (calls && s->inst->callee == c->s->funcs[k].func)
          runs += c->s->funcs[i].runs * (s->fold ? s->fold->n : 1);
      }
    c->f = &c->s->funcs[k];
    c->at = 0;
    if (c->f->runs != runs)
      return broken(c, "the function is said to run %d times and runs %lld", c->f->runs,
                    (long long)runs);
    if (c->f->is_step && runs)
      return broken(c, "the function runs inside a kernel and is called as well");
  }
  return true;
}

vtb_status vtb_steps_check(const vtb_steps *s, vtb_error *err) {
  checker c = {.s = s, .err = err};
  bool good = true;
  for (size_t i = 0; i < s->n_funcs && good; i++) {
    const vtb_frame *frame = vtb_plan_frame(&s->plan, s->funcs[i].func);
    c.f = &s->funcs[i];
    c.kept = frame->kept_bytes;
    c.summed = vtb_xcalloc((size_t)c.f->n_values + 1, sizeof *c.summed);
    good = check_func(&c);
    if (good && c.f->tail_base < vtb_places_round(&s->places, frame->bytes))
      good = broken(&c, "the tail begins inside the frame");
    vtb_free(c.summed);
  }
  return good && check_runs(&c) ? VTB_OK : VTB_E_INTERNAL;
}
