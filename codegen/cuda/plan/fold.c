/* fold: the callee once a step, as calls of the plan (ir/fold.h). States go to and fro between two buffers, so that the
 * last step writes the result; a step of a sequence lies in the sequence, or is copied where it would not be dense
 * (several samples) or not aligned.
 *
 * The tail of the function's frame holds the second states, the steps, then the callee's frame.
 */
#include "ir/fold.h"

#include <stdlib.h>

#include "codegen/cuda/plan/program.h"
#include "ir/path.h"

typedef struct part { /* a sequence [B, N, ...] and its step [B, 1, ...] */
  vtb_cuda_ref sequence, step;
  vtb_type type; /* [B, len], of a step */
  int64_t n, len;
  bool copied;
} part;

typedef struct fold {
  vtb_cuda *c;
  const vtb_inst *inst;
  const vtb_cuda_func *callee;
  vtb_fold p;
  int64_t n, tail;
  vtb_cuda_ref *operands;
  vtb_cuda_ref *result, *other; /* states */
  part *parts;                  /* sequences, yields, kept states */
} fold;

static vtb_cuda_ref take_tail(fold *f, int64_t bytes) {
  vtb_cuda_ref r = {
      .place = VTB_CUDA_TAIL, .offset = f->tail, .bytes = bytes, .value = f->c->func->n_values++};
  f->tail += (bytes + 255) / 256 * 256;
  return r;
}

static part part_of(fold *f, const vtb_type *t, vtb_cuda_ref sequence) {
  part p = {.sequence = sequence, .n = t->dim[1].size, .type = {.dtype = t->dtype, .rank = 2}};
  p.len = vtb_type_count(t) / (t->dim[0].size * p.n);
  p.type.dim[0].size = t->dim[0].size;
  p.type.dim[1].size = p.len;
  p.copied = t->dim[0].size > 1 || p.len % 4 != 0;
  if (p.copied) p.step = take_tail(f, vtb_type_count(&p.type) * 4);
  return p;
}

/* The step at `pos` where it lies in the sequence. */
static vtb_cuda_ref in_sequence(const part *p, int64_t pos) {
  vtb_cuda_ref r = p->sequence;
  r.offset += pos * p->len * 4;
  r.bytes = ((p->type.dim[0].size - 1) * p->n * p->len + p->len) * 4;
  return r;
}

static void move_step(fold *f, const part *p, int64_t pos, vtb_cuda_ref step, bool out) {
  const int64_t whole[VTB_MAX_RANK] = {p->n * p->len, 1}, dense[VTB_MAX_RANK] = {p->len, 1};
  if (out)
    vtb__cuda_copy_between(f->c, &p->type, step, dense, in_sequence(p, pos), whole);
  else
    vtb__cuda_copy_between(f->c, &p->type, in_sequence(p, pos), whole, step, dense);
}

static vtb_cuda_ref step_place(const part *p, int64_t pos) {
  return p->copied ? p->step : in_sequence(p, pos);
}

static void emit_step(fold *f, int64_t t, int64_t pos) {
  const vtb_fold *p = &f->p;
  const part *yields = f->parts + p->seqs, *kept = yields + p->yields;
  const vtb_cuda_ref *old = (f->n - t) % 2 ? f->other : f->result,
                     *now = old == f->other ? f->result : f->other;
  int n = 2 * p->states + p->seqs + p->consts + p->yields, slot = 0;
  vtb_cuda_step s = {
      .callee = f->callee, .n_refs = n, .refs = VTB_NEW_ARRAY(&f->c->arena, vtb_cuda_ref, n + 1)};
  for (int i = 0; i < p->states; i++) {
    if (p->keep) move_step(f, &kept[i], pos, old[i], true);
    s.refs[slot++] = old[i];
  }
  for (int i = 0; i < p->seqs; i++) {
    if (f->parts[i].copied) move_step(f, &f->parts[i], pos, f->parts[i].step, false);
    s.refs[slot++] = step_place(&f->parts[i], pos);
  }
  for (int i = 0; i < p->consts; i++) s.refs[slot++] = f->operands[p->states + p->seqs + i];
  for (int i = 0; i < p->states; i++) s.refs[slot++] = now[i];
  for (int i = 0; i < p->yields; i++) s.refs[slot++] = step_place(&yields[i], pos);
  s.frame = f->tail;
  vtb_vec_push(&f->c->func->steps, s);
  for (int i = 0; i < p->yields; i++)
    if (yields[i].copied) move_step(f, &yields[i], pos, yields[i].step, true);
}

static void take_buffers(fold *f) {
  const vtb_fold *p = &f->p;
  const vtb_inst *inst = f->inst;
  int n = 0;
  for (int i = 0; i < p->states; i++) {
    const vtb_type *t = &inst->operands[i]->type;
    int64_t dense[VTB_MAX_RANK] = {0};
    vtb__dense_strides(t, dense);
    f->result[i] = vtb__cuda_place(f->c, inst->results[p->yields + i]);
    f->other[i] = take_tail(f, vtb_type_count(t) * 4);
    vtb__cuda_copy_between(f->c, t, f->operands[i], dense, f->n % 2 ? f->other[i] : f->result[i],
                           dense);
  }
  for (int i = 0; i < p->seqs; i++)
    f->parts[n++] = part_of(f, &inst->operands[p->states + i]->type, f->operands[p->states + i]);
  for (int i = 0; i < p->yields; i++)
    f->parts[n++] = part_of(f, &inst->results[i]->type, vtb__cuda_place(f->c, inst->results[i]));
  for (int i = 0; p->keep && i < p->states; i++) {
    const vtb_value *v = inst->results[p->yields + p->states + i];
    f->parts[n++] = part_of(f, &v->type, vtb__cuda_place(f->c, v));
  }
}

/* Storage positions in the order of the steps. */
static int64_t *positions(const fold *f) {
  int64_t *at = vtb_xcalloc((size_t)f->n + 1, sizeof *at);
  for (int64_t t = 0; t < f->n; t++) at[t] = t;
  if (f->p.path) {
    vtb_path path;
    vtb_error err = {0};
    vtb_check(vtb_path_parse(f->p.path, &path, &err) == VTB_OK && path.n == f->n, "path %s: %s",
              f->p.path, err.text);
    vtb_path_indices(&path, at);
    vtb_path_free(&path);
  }
  return at;
}

void vtb__cuda_emit_fold(vtb_cuda *c, const vtb_inst *inst) {
  fold f = {
      .c = c, .inst = inst, .callee = vtb__cuda_find_func(c, inst->callee), .p = vtb_fold_of(inst)};
  f.n = vtb_fold_steps(inst);
  f.operands = vtb_xcalloc((size_t)inst->n_operands + 1, sizeof *f.operands);
  f.result = vtb_xcalloc((size_t)f.p.states + 1, sizeof *f.result);
  f.other = vtb_xcalloc((size_t)f.p.states + 1, sizeof *f.other);
  f.parts = vtb_xcalloc((size_t)(inst->n_operands + inst->n_results) + 1, sizeof *f.parts);
  vtb__cuda_dense_operands(c, inst, f.operands);
  take_buffers(&f);
  int64_t *at = positions(&f);
  for (int64_t t = 0; t < f.n; t++) emit_step(&f, t, at[f.p.reverse ? f.n - 1 - t : t]);
  if (f.tail + f.callee->total_bytes > c->func->tail_bytes)
    c->func->tail_bytes = f.tail + f.callee->total_bytes;
  free(at);
  free(f.operands);
  free(f.result);
  free(f.other);
  free(f.parts);
}
