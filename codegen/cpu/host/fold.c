/* A fold as a loop around a call of its callee (ir/fold.h). */

#include "codegen/cpu/host/print.h"
#include "codegen/cpu/loop/order.h"

typedef struct loop {
  vtb_host_print *f;
  const vtb_fold_loop *fold;
  vtb__loop_order order;
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
  LLVMValueRef left = LLVMBuildSub(c->b, vtb_cpu_i64(c, fold->n), t, "left");
  LLVMValueRef back = LLVMBuildSub(c->b, left, vtb_cpu_i64(c, 1), "");
  l->odd = LLVMBuildTrunc(c->b, left, c->i1, "odd");
  l->position = vtb__order_at(c, &l->order, fold->p.reverse ? back : t);
  for (int i = 0; i < fold->n_before; i++) move(l, &fold->before[i]);
  for (int i = 0; i < fold->n_slots; i++) vtb__host_store(l->f, i, slot(l, fold->slots[i]));
  vtb__host_call(l->f, callee, fold->frame);
  for (int i = 0; i < fold->n_after; i++) move(l, &fold->after[i]);
}

void vtb__host_fold(vtb_host_print *f, const vtb_step *step) {
  vtb_cpu *c = &f->h->cpu;
  const vtb_fold_loop *fold = step->fold;
  LLVMBuilderRef tasks = c->b; /* loops are built where c->b stands */
  c->b = f->b;
  loop l = {.f = f, .fold = fold, .order = vtb__order_make(c, fold->p.path, fold->n)};
  vtb_cpu_for t =
      vtb_cpu_for_begin(c, vtb_cpu_i64(c, 0), vtb_cpu_i64(c, fold->n), vtb_cpu_i64(c, 1));
  print_body(&l, step->inst->callee, t.i);
  vtb_cpu_for_end(c, &t);
  c->b = tasks;
}
