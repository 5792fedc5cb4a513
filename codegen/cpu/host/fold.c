/* A fold as a loop around a call of its callee (ir/fold.h). Where a run tells how many steps there
 * are, the loop counts to the limit, or looks at the first state before each step. */

#include "codegen/cpu/host/print.h"
#include "codegen/cpu/loop/order.h"

typedef struct loop {
  vtb_host_print *f;
  const vtb_fold_loop *fold;
  vtb__loop_order order;
  LLVMValueRef n;             /* steps, as far as they are known before the first */
  LLVMValueRef odd, position; /* of the step at hand */
} loop;

static LLVMValueRef state(loop *l, int i, bool old) {
  LLVMValueRef result = vtb__host_address(l->f, &l->fold->result[i]);
  LLVMValueRef other = vtb__host_address(l->f, &l->fold->other[i]);
  return LLVMBuildSelect(l->f->b, l->odd, old ? other : result, old ? result : other, "");
}

/* The row of sample `b` that the step at hand has in the sequence. */
static LLVMValueRef in_sequence(loop *l, const vtb_fold_part *p, LLVMValueRef b) {
  vtb_cpu *c = &l->f->h->cpu;
  LLVMValueRef row = vtb_cpu_add(c, vtb_cpu_mul(c, b, p->n), l->position);
  return vtb_cpu_at(c, vtb__host_address(l->f, &p->sequence), vtb_cpu_mul(c, row, p->len));
}

static LLVMValueRef step_pointer(loop *l, const vtb_fold_part *p) {
  if (p->copied) return vtb__host_address(l->f, &p->step);
  return in_sequence(l, p, vtb_cpu_i64(&l->f->h->cpu, 0));
}

static void move(loop *l, const vtb_fold_move *m) {
  vtb_cpu *c = &l->f->h->cpu;
  const vtb_fold_part *p = &l->fold->parts[m->part];
  LLVMValueRef dense = m->old >= 0 ? state(l, m->old, true) : vtb__host_address(l->f, &p->step);
  LLVMValueRef batch = vtb_cpu_i64(c, p->type.dim[0].size);
  vtb_cpu_for b = vtb_cpu_for_begin(c, vtb_cpu_i64(c, 0), batch, vtb_cpu_i64(c, 1));
  LLVMValueRef all = in_sequence(l, p, b.i);
  LLVMValueRef one = vtb_cpu_at(c, dense, vtb_cpu_mul(c, b.i, p->len));
  LLVMBuildMemCpy(c->b, m->to_sequence ? all : one, 4, m->to_sequence ? one : all, 4,
                  vtb_cpu_i64(c, p->len * 4));
  vtb_cpu_for_end(c, &b);
}

static LLVMValueRef slot(loop *l, vtb_fold_slot s) {
  switch (s.kind) {
  case VTB_FOLD_OLD:
  case VTB_FOLD_NEW:
    return state(l, s.index, s.kind == VTB_FOLD_OLD);
  case VTB_FOLD_CONST:
    return vtb__host_address(l->f, &l->fold->constants[s.index]);
  case VTB_FOLD_PART:
    return step_pointer(l, &l->fold->parts[s.index]);
  }
  vtb_bug("a slot of kind %d", (int)s.kind);
}

static void print_body(loop *l, const vtb_func *callee, LLVMValueRef t) {
  vtb_cpu *c = &l->f->h->cpu;
  const vtb_fold_loop *fold = l->fold;
  LLVMValueRef back =
      LLVMBuildSub(c->b, LLVMBuildSub(c->b, l->n, t, "left"), vtb_cpu_i64(c, 1), "");
  l->position = vtb__order_at(c, &l->order, fold->p.reverse ? back : t);
  for (int i = 0; i < fold->n_before; i++) move(l, &fold->before[i]);
  for (int i = 0; i < fold->n_slots; i++) vtb__host_store(l->f, i, slot(l, fold->slots[i]));
  vtb__host_call(l->f, callee, fold->frame);
  for (int i = 0; i < fold->n_after; i++) move(l, &fold->after[i]);
}

/* The limit, within 0 and the steps there are; these without one. */
static LLVMValueRef steps_to_run(loop *l) {
  vtb_cpu *c = &l->f->h->cpu;
  LLVMValueRef most = vtb_cpu_i64(c, l->fold->n), none = vtb_cpu_i64(c, 0);
  if (!l->fold->p.has_limit) return most;
  LLVMValueRef at = vtb__host_address(l->f, &l->fold->constants[0]);
  LLVMValueRef n = LLVMBuildSExt(c->b, LLVMBuildLoad2(c->b, c->i32, at, ""), c->i64, "limit");
  n = LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, LLVMIntSLT, n, none, ""), none, n, "");
  return LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, LLVMIntSGT, n, most, ""), most, n, "");
}

/* Leaves the loop if all elements of the first state are 0, whatever the sign of a float. */
static void leave_if_done(loop *l, const vtb_cpu_for *t) {
  vtb_cpu *c = &l->f->h->cpu;
  const vtb_type *type = l->fold->result[0].type;
  unsigned long long bits = type->dtype == VTB_F32 ? 0x7fffffff : 0xffffffff;
  LLVMValueRef going = state(l, 0, true), zero = LLVMConstInt(c->i32, 0, 0);
  vtb_cpu_for e = vtb_cpu_for_begin(c, vtb_cpu_i64(c, 0), vtb_cpu_i64(c, vtb_type_count(type)),
                                    vtb_cpu_i64(c, 1));
  LLVMValueRef any = vtb_cpu_carry(c, &e, zero);
  LLVMValueRef one = LLVMBuildLoad2(c->b, c->i32, vtb_cpu_at(c, going, e.i), "");
  one = LLVMBuildAnd(c->b, one, LLVMConstInt(c->i32, bits, 0), "");
  vtb_cpu_carry_next(&e, 0, LLVMBuildOr(c->b, any, one, "any"));
  vtb_cpu_for_end(c, &e);
  LLVMBasicBlockRef go = LLVMAppendBasicBlockInContext(c->ctx, l->f->fn, "step");
  LLVMValueRef done = LLVMBuildICmp(c->b, LLVMIntEQ, vtb_cpu_carried(&e, 0), zero, "done");
  LLVMBuildCondBr(c->b, done, t->exit, go);
  LLVMPositionBuilderAtEnd(c->b, go);
}

/* After an odd number of steps the states lie in `other`. */
static void settle(loop *l, LLVMValueRef steps) {
  vtb_cpu *c = &l->f->h->cpu;
  vtb_cpu_if odd = vtb_cpu_if_begin(c, LLVMBuildTrunc(c->b, steps, c->i1, "odd"));
  for (int i = 0; i < l->fold->p.states; i++) {
    LLVMValueRef to = vtb__host_address(l->f, &l->fold->result[i]);
    LLVMValueRef from = vtb__host_address(l->f, &l->fold->other[i]);
    LLVMBuildMemCpy(c->b, to, 4, from, 4, vtb_cpu_i64(c, vtb_type_bytes(l->fold->result[i].type)));
  }
  vtb_cpu_if_end(c, &odd);
}

void vtb__host_fold(vtb_host_print *f, const vtb_step *step) {
  vtb_cpu *c = &f->h->cpu;
  const vtb_fold_loop *fold = step->fold;
  bool varies = vtb_fold_varies(&fold->p);
  LLVMBuilderRef tasks = c->b; /* loops are built where c->b stands */
  c->b = f->b;
  loop l = {.f = f, .fold = fold, .order = vtb__order_make(c, fold->p.path, fold->n)};
  l.n = steps_to_run(&l);
  vtb_cpu_for t = vtb_cpu_for_begin(c, vtb_cpu_i64(c, 0), l.n, vtb_cpu_i64(c, 1));
  LLVMValueRef number = varies ? t.i : LLVMBuildSub(c->b, l.n, t.i, "left");
  l.odd = LLVMBuildTrunc(c->b, number, c->i1, "odd");
  if (fold->p.is_while) leave_if_done(&l, &t);
  print_body(&l, step->inst->callee, t.i);
  vtb_cpu_for_end(c, &t);
  if (varies) settle(&l, t.i);
  c->b = tasks;
}
