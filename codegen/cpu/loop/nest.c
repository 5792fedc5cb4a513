/* Nests as LLVM loops: numbers of groups, the vectorised innermost loop, and a place to probe. */
#include <string.h>

#include "codegen/cpu/loop/expr.h"

int64_t vtb__body_weight(const vtb_inst *inst) {
  int64_t w = 1;
  if (!inst->callee) return vtb__is_costly(inst->op) ? 8 : 1;
  for (const vtb_inst *i = inst->callee->first; i; i = i->next)
    if (vtb_op_get(i->op)->klass == VTB_CLASS_ELEMENTWISE) w += vtb__is_costly(i->op) ? 32 : 1;
  return 1 + w / 4;
}

/* ---- probing --------------------------------------------------------------------------------- */

/* A function that is thrown away: every pointer and variable is a parameter. */
void *vtb__cpu_begin_probe(vtb_body *b) {
  vtb_cpu_expr *e = vtb__expr_of(b);
  vtb_cpu *c = e->c;
  const vtb_cpu_kernel *k = c->kernel;
  int n = k->n_operands + k->n_results;
  LLVMTypeRef type = LLVMFunctionType(c->void_type, (LLVMTypeRef[]){c->ptr, c->i64}, 2, 0);
  vtb_cpu_task *t = e->task = &e->probe;
  *t = (vtb_cpu_task){.fn = LLVMAddFunction(c->module, "probe", type)};
  t->t = vtb_xcalloc((size_t)n + 1, sizeof *t->t);
  t->n_operands = k->n_operands;
  t->n_results = k->n_results;
  t->entry = LLVMAppendBasicBlockInContext(c->ctx, t->fn, "entry");
  t->prologue = LLVMCreateBuilderInContext(c->ctx);
  LLVMPositionBuilderAtEnd(t->prologue, t->entry);
  LLVMPositionBuilderAtEnd(c->b, LLVMAppendBasicBlockInContext(c->ctx, t->fn, "body"));
  t->temp = LLVMGetParam(t->fn, 0);
  for (int i = 0; i < n; i++) {
    t->t[i] = (vtb_cpu_tensor){.ptr = t->temp, .type = k->types[i]};
    memcpy(t->t[i].stride, k->stride[i], sizeof t->t[i].stride);
  }
  e->mask = NULL;
  return LLVMGetParam(t->fn, 1);
}

void vtb__cpu_end_probe(vtb_body *b) {
  vtb_cpu_expr *e = vtb__expr_of(b);
  e->task = NULL;
  LLVMClearInsertionPosition(e->c->b);
  LLVMDisposeBuilder(e->probe.prologue);
  LLVMDeleteFunction(e->probe.fn);
  vtb_free(e->probe.t);
}

/* ---- loops ----------------------------------------------------------------------------------- */

void vtb__decode_list(vtb_cpu_expr *e, LLVMValueRef linear, const int *groups, int n) {
  for (int i = n; i-- > 0;) {
    vtb_group *g = &e->body.groups[groups[i]];
    g->value = i ? vtb_cpu_rem(e->c, linear, g->size) : linear;
    if (i) linear = vtb_cpu_div(e->c, linear, g->size);
  }
}

void vtb__decode(vtb_cpu_expr *e, LLVMValueRef linear, int from, int to) {
  int list[VTB_NEST_MAX];
  for (int g = from; g < to; g++) list[g - from] = g;
  vtb__decode_list(e, linear, list, to - from);
}

int64_t vtb__groups_size(const vtb_cpu_expr *e, int from, int to) {
  int64_t n = 1;
  for (int g = from; g < to; g++) n *= e->body.groups[g].size;
  return n;
}

void vtb__choose_lanes(vtb_cpu_expr *e, int group) {
  e->body.vec = group;
  e->body.lanes = e->c->width;
  while (e->body.lanes > e->body.groups[group].size) e->body.lanes /= 2;
}

void vtb__hoist_here(vtb_cpu_expr *e) {
  vtb_cpu *c = e->c;
  LLVMValueRef fn = LLVMGetBasicBlockParent(LLVMGetInsertBlock(c->b));
  e->hoist = LLVMAppendBasicBlockInContext(c->ctx, fn, "before");
  LLVMBasicBlockRef next = LLVMAppendBasicBlockInContext(c->ctx, fn, "loops");
  LLVMBuildBr(c->b, e->hoist);
  LLVMPositionBuilderAtEnd(c->b, e->hoist);
  LLVMBuildBr(c->b, next);
  LLVMPositionBuilderAtEnd(c->b, next);
}

static void run_tail(vtb_cpu_expr *e, LLVMValueRef from, LLVMValueRef to, LLVMValueRef *carry,
                     vtb_vector_fn body, void *user) {
  size_t known = e->body.memo.n;
  e->body.groups[e->body.vec].value = from;
  e->mask = vtb_cpu_mask(e->c, LLVMBuildSub(e->c->b, to, from, ""), e->body.lanes);
  body(e, carry, user);
  e->mask = NULL;
  e->body.memo.n = known;
}

/* The tail when it is not known to exist: carried values pass through memory, which becomes
 * registers again. */
static void maybe_tail(vtb_cpu_expr *e, LLVMValueRef from, LLVMValueRef to, LLVMValueRef *carry,
                       int n_carry, vtb_vector_fn body, void *user) {
  vtb_cpu *c = e->c;
  LLVMValueRef var[VTB_CPU_MAX_CARRY];
  for (int i = 0; i < n_carry; i++) {
    var[i] = vtb_cpu_var(c, e->task, LLVMTypeOf(carry[i]));
    LLVMBuildStore(c->b, carry[i], var[i]);
  }
  vtb_cpu_if branch = vtb_cpu_if_begin(c, LLVMBuildICmp(c->b, LLVMIntSLT, from, to, ""));
  run_tail(e, from, to, carry, body, user);
  for (int i = 0; i < n_carry; i++) LLVMBuildStore(c->b, carry[i], var[i]);
  vtb_cpu_if_end(c, &branch);
  for (int i = 0; i < n_carry; i++)
    carry[i] = LLVMBuildLoad2(c->b, LLVMTypeOf(carry[i]), var[i], "");
}

void vtb__vector_loop(vtb_cpu_expr *e, LLVMValueRef from, LLVMValueRef to, bool tail,
                      LLVMValueRef *carry, int n_carry, vtb_vector_fn body, void *user) {
  vtb_cpu *c = e->c;
  tail &= e->body.lanes > 1;
  LLVMValueRef end = to;
  if (tail) {
    LLVMValueRef over = vtb_cpu_rem(c, LLVMBuildSub(c->b, to, from, ""), e->body.lanes);
    end = LLVMBuildSub(c->b, to, over, "");
  }
  size_t known = e->body.memo.n;
  vtb_cpu_for l = vtb_cpu_for_begin(c, from, end, vtb_cpu_i64(c, e->body.lanes));
  for (int i = 0; i < n_carry; i++) carry[i] = vtb_cpu_carry(c, &l, carry[i]);
  e->body.groups[e->body.vec].value = l.i;
  body(e, carry, user);
  for (int i = 0; i < n_carry; i++) vtb_cpu_carry_next(&l, i, carry[i]);
  vtb_cpu_for_end(c, &l);
  for (int i = 0; i < n_carry; i++) carry[i] = vtb_cpu_carried(&l, i);
  e->body.memo.n = known;
  if (!tail) return;
  if (LLVMIsAConstantInt(end) && LLVMIsAConstantInt(to)) {
    if (LLVMConstIntGetSExtValue(end) < LLVMConstIntGetSExtValue(to))
      run_tail(e, end, to, carry, body, user);
  } else {
    maybe_tail(e, end, to, carry, n_carry, body, user);
  }
}

/* ---- roots ----------------------------------------------------------------------------------- */

LLVMValueRef vtb__root_ptr(vtb_cpu_expr *e, const vtb_root *r) {
  return r->tensor >= 0 ? e->task->t[r->tensor].ptr : vtb_cpu_temp_ptr(e->c, e->task, r->temp);
}

vtb_index vtb__root_index(vtb_cpu_expr *e, const vtb_root *r, const vtb_index *index) {
  vtb_index at = vtb__linear(&e->body, &r->value->type, r->stride, index);
  return vtb__index_shift(&at, r->offset);
}
