/* Loop nests: variables of an iteration space, probing, merging into groups, and the vectorised innermost loop. */
#include <stdlib.h>
#include <string.h>

#include "codegen/cpu/expr.h"

void vtb__expr_init(vtb_expr *e, vtb_cpu *c, const vtb_inst *inst) {
  *e = (vtb_expr){.c = c, .inst = inst, .vec = -1, .lanes = 1, .weight = inst ? vtb__body_weight(inst) : 1};
  for (int o = 0; inst && o < inst->n_operands; o++) {
    const vtb_value *v = inst->callee ? inst->callee->args[o] : inst->operands[o];
    vtb_vec_push(&e->leaves, ((vtb_leaf){.value = v, .tensor = o}));
  }
}

void vtb__expr_free(vtb_expr *e) {
  vtb_vec_free(&e->leaves);
  vtb_vec_free(&e->memo);
  vtb_vec_free(&e->kept);
  vtb_vec_free(&e->uses);
  vtb_vec_free(&e->levels);
}

int64_t vtb__body_weight(const vtb_inst *inst) {
  int64_t w = 1;
  if (!inst->callee) return vtb__is_costly(inst->op) ? 8 : 1;
  for (const vtb_inst *i = inst->callee->first; i; i = i->next)
    if (vtb_op_get(i->op)->klass == VTB_CLASS_ELEMENTWISE) w += vtb__is_costly(i->op) ? 32 : 1;
  return 1 + w / 4;
}

/* ---- spaces ----------------------------------------------------------------------------------------------- */

void vtb__space_init(vtb_expr *e, vtb_space *s, const vtb_type *shape) {
  *s = (vtb_space){.rank = shape->rank};
  e->n_vars = 0;
  for (int a = 0; a < shape->rank; a++) {
    s->first[a] = e->n_vars;
    s->count[a] = shape->dim[a].size > 1;
    if (s->count[a]) e->var_size[e->n_vars++] = shape->dim[a].size;
  }
}

void vtb__space_index(const vtb_expr *e, const vtb_space *s, vtb_index *index) {
  for (int a = 0; a < s->rank; a++) {
    int64_t coef = 1;
    index[a] = vtb__index_const(0);
    for (int k = s->first[a] + s->count[a] - 1; k >= s->first[a]; k--) {
      index[a].coef[k] = coef;
      coef *= e->var_size[k];
    }
  }
}

static void split_var(vtb_expr *e, vtb_space *s, int k, int64_t inner) {
  for (int i = e->n_vars; i > k + 1; i--) e->var_size[i] = e->var_size[i - 1];
  e->var_size[k] /= inner;
  e->var_size[k + 1] = inner;
  e->n_vars++;
  for (int a = 0; a < s->rank; a++) {
    if (s->first[a] > k)
      s->first[a]++;
    else if (k < s->first[a] + s->count[a])
      s->count[a]++;
  }
}

/* ---- probing ---------------------------------------------------------------------------------------------- */

static void singleton_groups(vtb_expr *e, LLVMValueRef value) {
  e->n_groups = e->n_vars;
  for (int k = 0; k < e->n_vars; k++) e->groups[k] = (vtb_group){k, k, e->var_size[k], value};
}

static bool may_join(const vtb_expr *e, int k) {
  if (e->no_merge[k]) return false;
  for (size_t u = 0; u < e->uses.n; u++)
    if (e->uses.at[u].coef[k] != e->uses.at[u].coef[k + 1] * e->var_size[k + 1]) return false;
  return true;
}

static void merge_groups(vtb_expr *e) {
  e->n_groups = 0;
  for (int k = 0; k < e->n_vars; k++) {
    vtb_group *g = e->n_groups ? &e->groups[e->n_groups - 1] : NULL;
    if (g && may_join(e, k - 1)) {
      g->last = k;
      g->size *= e->var_size[k];
    } else {
      e->groups[e->n_groups++] = (vtb_group){k, k, e->var_size[k], NULL};
    }
  }
}

/* The stand-in for a task while probing: every pointer and variable is a parameter. */
static vtb_cpu_task *probe_task(vtb_cpu *c, vtb_cpu_task *t, vtb_cpu_tensor *tensors, LLVMValueRef *variable) {
  const vtb_cpu_kernel *k = c->kernel;
  LLVMTypeRef type = LLVMFunctionType(c->void_type, (LLVMTypeRef[]){c->ptr, c->i64}, 2, 0);
  *t = (vtb_cpu_task){.fn = LLVMAddFunction(c->module, "probe", type), .t = tensors};
  t->n_operands = k->n_operands;
  t->n_results = k->n_results;
  t->entry = LLVMAppendBasicBlockInContext(c->ctx, t->fn, "entry");
  t->prologue = LLVMCreateBuilderInContext(c->ctx);
  LLVMPositionBuilderAtEnd(t->prologue, t->entry);
  LLVMPositionBuilderAtEnd(c->b, LLVMAppendBasicBlockInContext(c->ctx, t->fn, "body"));
  t->temp = LLVMGetParam(t->fn, 0);
  *variable = LLVMGetParam(t->fn, 1);
  for (int i = 0; i < k->n_operands + k->n_results; i++) {
    tensors[i] = (vtb_cpu_tensor){.ptr = t->temp, .type = k->types[i]};
    memcpy(tensors[i].stride, k->stride[i], sizeof tensors[i].stride);
    if (i < k->n_operands && k->operand_temp[i] >= 0) vtb__dense_strides(k->types[i], tensors[i].stride);
  }
  return t;
}

static void probe_once(vtb_expr *e, vtb_space *s, vtb_probe_fn body, void *user) {
  vtb_cpu_task task;
  int n = e->c->kernel->n_operands + e->c->kernel->n_results;
  vtb_cpu_tensor *tensors = vtb_xcalloc((size_t)n + 1, sizeof *tensors);
  LLVMValueRef variable;
  e->task = probe_task(e->c, &task, tensors, &variable);
  singleton_groups(e, variable);
  e->uses.n = e->memo.n = e->kept.n = 0;
  e->split_inner = 0;
  e->lanes = 1;
  e->mask = NULL;
  e->vec = e->n_groups - 1;
  e->probing = true;
  body(e, s, user);
  e->probing = false;
  e->memo.n = 0;
  e->vec = -1;
  e->task = NULL;
  LLVMClearInsertionPosition(e->c->b);
  LLVMDisposeBuilder(task.prologue);
  LLVMDeleteFunction(task.fn);
  free(tensors);
}

void vtb__probe(vtb_expr *e, vtb_space *s, vtb_probe_fn body, void *user) {
  for (;;) {
    probe_once(e, s, body, user);
    if (!e->split_inner) break;
    split_var(e, s, e->split_var, e->split_inner);
  }
  merge_groups(e);
}

/* ---- loops ------------------------------------------------------------------------------------------------ */

void vtb__decode_list(vtb_expr *e, LLVMValueRef linear, const int *groups, int n) {
  for (int i = n; i-- > 0;) {
    vtb_group *g = &e->groups[groups[i]];
    g->value = i ? vtb_cpu_rem(e->c, linear, g->size) : linear;
    if (i) linear = vtb_cpu_div(e->c, linear, g->size);
  }
}

void vtb__decode(vtb_expr *e, LLVMValueRef linear, int from, int to) {
  int list[VTB_NEST_MAX];
  for (int g = from; g < to; g++) list[g - from] = g;
  vtb__decode_list(e, linear, list, to - from);
}

int64_t vtb__groups_size(const vtb_expr *e, int from, int to) {
  int64_t n = 1;
  for (int g = from; g < to; g++) n *= e->groups[g].size;
  return n;
}

void vtb__choose_lanes(vtb_expr *e, int group) {
  e->vec = group;
  e->lanes = e->c->width;
  while (e->lanes > e->groups[group].size) e->lanes /= 2;
}

void vtb__hoist_here(vtb_expr *e) {
  vtb_cpu *c = e->c;
  LLVMValueRef fn = LLVMGetBasicBlockParent(LLVMGetInsertBlock(c->b));
  e->hoist = LLVMAppendBasicBlockInContext(c->ctx, fn, "before");
  LLVMBasicBlockRef next = LLVMAppendBasicBlockInContext(c->ctx, fn, "loops");
  LLVMBuildBr(c->b, e->hoist);
  LLVMPositionBuilderAtEnd(c->b, e->hoist);
  LLVMBuildBr(c->b, next);
  LLVMPositionBuilderAtEnd(c->b, next);
}

static void run_tail(vtb_expr *e, LLVMValueRef from, LLVMValueRef to, LLVMValueRef *carry, vtb_vector_fn body,
                     void *user) {
  size_t known = e->memo.n;
  e->groups[e->vec].value = from;
  e->mask = vtb_cpu_mask(e->c, LLVMBuildSub(e->c->b, to, from, ""), e->lanes);
  body(e, carry, user);
  e->mask = NULL;
  e->memo.n = known;
}

/* The tail when it is not known to exist: carried values pass through memory, which becomes registers again. */
static void maybe_tail(vtb_expr *e, LLVMValueRef from, LLVMValueRef to, LLVMValueRef *carry, int n_carry,
                       vtb_vector_fn body, void *user) {
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
  for (int i = 0; i < n_carry; i++) carry[i] = LLVMBuildLoad2(c->b, LLVMTypeOf(carry[i]), var[i], "");
}

void vtb__vector_loop(vtb_expr *e, LLVMValueRef from, LLVMValueRef to, bool tail, LLVMValueRef *carry, int n_carry,
                      vtb_vector_fn body, void *user) {
  vtb_cpu *c = e->c;
  tail &= e->lanes > 1;
  LLVMValueRef end = to;
  if (tail) {
    LLVMValueRef over = vtb_cpu_rem(c, LLVMBuildSub(c->b, to, from, ""), e->lanes);
    end = LLVMBuildSub(c->b, to, over, "");
  }
  size_t known = e->memo.n;
  vtb_cpu_for l = vtb_cpu_for_begin(c, from, end, vtb_cpu_i64(c, e->lanes));
  for (int i = 0; i < n_carry; i++) carry[i] = vtb_cpu_carry(c, &l, carry[i]);
  e->groups[e->vec].value = l.i;
  body(e, carry, user);
  for (int i = 0; i < n_carry; i++) vtb_cpu_carry_next(&l, i, carry[i]);
  vtb_cpu_for_end(c, &l);
  for (int i = 0; i < n_carry; i++) carry[i] = vtb_cpu_carried(&l, i);
  e->memo.n = known;
  if (!tail) return;
  if (LLVMIsAConstantInt(end) && LLVMIsAConstantInt(to)) {
    if (LLVMConstIntGetSExtValue(end) < LLVMConstIntGetSExtValue(to)) run_tail(e, end, to, carry, body, user);
  } else {
    maybe_tail(e, end, to, carry, n_carry, body, user);
  }
}

/* ---- roots ------------------------------------------------------------------------------------------------ */

LLVMValueRef vtb__root_ptr(vtb_expr *e, const vtb_root *r) {
  return r->tensor >= 0 ? e->task->t[r->tensor].ptr : vtb_cpu_temp_ptr(e->c, e->task, r->temp);
}

vtb_index vtb__root_index(vtb_expr *e, const vtb_root *r, const vtb_index *index) {
  vtb_index at = vtb__linear(e, &r->value->type, r->stride, index);
  return vtb__index_shift(&at, r->offset);
}
