/* Tasks: the frame of every kernel function, its tensors, its scratch memory and temporaries.
 *
 * void task(ptr closure, i64 begin, i64 end) { entry: load the closure; for (index = begin; index <
 * end; index++) body }
 */
#include "codegen/cpu/host/host.h"

#include <string.h>

static LLVMValueRef load_slot(vtb_cpu *c, LLVMBuilderRef b, LLVMValueRef closure, int slot) {
  LLVMValueRef at =
      LLVMBuildInBoundsGEP2(b, c->ptr, closure, (LLVMValueRef[]){vtb_cpu_i64(c, slot)}, 1, "");
  return LLVMBuildLoad2(b, c->ptr, at, "");
}

static void set_name(LLVMValueRef v, const char *name) { LLVMSetValueName2(v, name, strlen(name)); }

static void mark(vtb_cpu *c, LLVMValueRef fn, const char *attribute) {
  unsigned kind = LLVMGetEnumAttributeKindForName(attribute, strlen(attribute));
  LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          LLVMCreateEnumAttribute(c->ctx, kind, 0));
}

void vtb__own_function(vtb_cpu *c, LLVMValueRef fn) {
  LLVMSetLinkage(fn, LLVMInternalLinkage);
  mark(c, fn, "noinline");
  mark(c, fn, "nounwind");
  if (c->width == 16)
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(c->ctx, "prefer-vector-width", 19, "512", 3));
}

static LLVMValueRef new_task_function(vtb_cpu *c, const char *kind) {
  vtb_cpu_kernel *k = c->kernel;
  vtb_strbuf name = {0};
  vtb_strbuf_printf(&name, "%s.%.*s.%s.%zu", k->name, (int)strcspn(k->label, " "), k->label, kind,
                    k->steps.n + c->host->joint.tasks.n);
  LLVMValueRef fn = LLVMAddFunction(c->module, name.at, c->host->task_type);
  vtb_strbuf_free(&name);
  vtb__own_function(c, fn);
  return fn;
}

static const char *tensor_name(const vtb_cpu_kernel *k, int i) {
  if (!k->inst) return "";
  return i < k->n_operands ? k->inst->operands[i]->name : k->inst->results[i - k->n_operands]->name;
}

/* The tensors' pointers, in the prologue. */
static void load_tensors(vtb_cpu *c, vtb_cpu_task *t) {
  vtb_cpu_kernel *k = c->kernel;
  int n = k->n_operands + k->n_results;
  t->t = VTB_NEW_ARRAY(&c->host->arena, vtb_cpu_tensor, n ? n : 1);
  t->temp = load_slot(c, t->prologue, t->closure, 1 + n);
  for (int i = 0; i < n; i++) {
    vtb_cpu_tensor *x = &t->t[i];
    x->type = k->types[i];
    memcpy(x->stride, k->stride[i], sizeof x->stride);
    x->ptr = load_slot(c, t->prologue, t->closure, 1 + i);
    set_name(x->ptr, tensor_name(k, i));
  }
}

static vtb_cpu_task *open_task(vtb_cpu *c, vtb_cpu_task *t, const char *kind, int64_t n,
                               int64_t grain) {
  *t = (vtb_cpu_task){.n = n, .grain = grain < 1 ? 1 : grain};
  t->n_operands = c->kernel->n_operands;
  t->n_results = c->kernel->n_results;
  t->fn = new_task_function(c, kind);
  t->closure = LLVMGetParam(t->fn, 0);
  t->begin = LLVMGetParam(t->fn, 1);
  t->end = LLVMGetParam(t->fn, 2);
  set_name(t->closure, "closure");
  set_name(t->begin, "begin");
  set_name(t->end, "end");
  t->entry = LLVMAppendBasicBlockInContext(c->ctx, t->fn, "entry");
  t->head = LLVMAppendBasicBlockInContext(c->ctx, t->fn, "each");
  LLVMBasicBlockRef body = LLVMAppendBasicBlockInContext(c->ctx, t->fn, "index");
  t->latch = LLVMAppendBasicBlockInContext(c->ctx, t->fn, "next");
  t->exit = LLVMAppendBasicBlockInContext(c->ctx, t->fn, "return");
  t->prologue = LLVMCreateBuilderInContext(c->ctx);
  LLVMPositionBuilderAtEnd(t->prologue, t->entry);
  t->services = load_slot(c, t->prologue, t->closure, 0);
  load_tensors(c, t);
  LLVMPositionBuilderAtEnd(c->b, t->head);
  t->index = LLVMBuildPhi(c->b, c->i64, "index");
  LLVMAddIncoming(t->index, &t->begin, &t->entry, 1);
  LLVMBuildCondBr(c->b, LLVMBuildICmp(c->b, LLVMIntSLT, t->index, t->end, ""), body, t->exit);
  LLVMPositionBuilderAtEnd(c->b, body);
  return t;
}

static vtb_cpu_task *join_task(vtb_cpu *c, const char *kind, int64_t n, int64_t grain) {
  vtb_cpu_joint *joint = &c->host->joint;
  if (joint->next == joint->tasks.n) {
    vtb_cpu_task *t = open_task(c, VTB_NEW(&c->host->arena, vtb_cpu_task), kind, n, grain);
    vtb_vec_push(&joint->tasks, t);
    joint->next++;
    return t;
  }
  vtb_cpu_task *t = joint->tasks.at[joint->next++];
  vtb_check(t->n == n && t->grain == grain, "tasks '%s' of joined instructions differ", kind);
  if (t->scratch_bytes > t->scratch_most) t->scratch_most = t->scratch_bytes;
  t->scratch_bytes = 0;
  LLVMPositionBuilderAtEnd(c->b, t->body_end);
  return t;
}

vtb_cpu_task *vtb__task_begin(vtb_cpu *c, const char *kind, int64_t n, int64_t grain) {
  return c->host->joint.on ? join_task(c, kind, n, grain)
                           : open_task(c, &c->host->task, kind, n, grain);
}

vtb_cpu_task *vtb_cpu_task_begin(vtb_cpu *c, const vtb_inst *inst, const char *kind, int64_t n,
                                 int64_t grain) {
  (void)inst;
  return vtb__task_begin(c, kind, n, grain);
}

static void close_task(vtb_cpu *c, vtb_cpu_task *t) {
  LLVMBuildBr(c->b, t->latch);
  LLVMPositionBuilderAtEnd(c->b, t->latch);
  LLVMValueRef next = LLVMBuildNSWAdd(c->b, t->index, vtb_cpu_i64(c, 1), "");
  LLVMBuildBr(c->b, t->head);
  LLVMAddIncoming(t->index, &next, &t->latch, 1);
  LLVMPositionBuilderAtEnd(c->b, t->exit);
  LLVMBuildRetVoid(c->b);
  int64_t scratch = t->scratch_bytes > t->scratch_most ? t->scratch_bytes : t->scratch_most;
  if (t->scratch_call) { /* without memory the task does nothing: the run is known to have failed */
    LLVMSetOperand(t->scratch_call, 1, vtb_cpu_i64(c, scratch));
    LLVMBuildCondBr(t->prologue, LLVMBuildIsNotNull(t->prologue, t->scratch_call, ""), t->head,
                    t->exit);
  } else {
    LLVMBuildBr(t->prologue, t->head);
  }
  LLVMDisposeBuilder(t->prologue);
  vtb_vec_push(&c->kernel->steps, ((vtb_cpu_step){t->fn, t->n, t->grain}));
}

void vtb_cpu_task_end(vtb_cpu *c, vtb_cpu_task *t) {
  t->body_end = LLVMGetInsertBlock(c->b);
  if (!c->host->joint.on) close_task(c, t);
}

void vtb__join_begin(vtb_cpu *c) { c->host->joint.on = true; }
void vtb__join_next(vtb_cpu *c) { c->host->joint.next = 0; }

void vtb__join_end(vtb_cpu *c) {
  vtb_cpu_joint *joint = &c->host->joint;
  for (size_t i = 0; i < joint->tasks.n; i++) {
    LLVMPositionBuilderAtEnd(c->b, joint->tasks.at[i]->body_end);
    close_task(c, joint->tasks.at[i]);
  }
  vtb_vec_free(&joint->tasks);
  *joint = (vtb_cpu_joint){0};
}

/* ---- memory ---------------------------------------------------------------------------------- */

static LLVMValueRef load_service(vtb_cpu *c, LLVMBuilderRef b, LLVMValueRef services,
                                 size_t offset) {
  LLVMValueRef at = LLVMBuildInBoundsGEP2(b, c->i8, services,
                                          (LLVMValueRef[]){vtb_cpu_i64(c, (int64_t)offset)}, 1, "");
  return LLVMBuildLoad2(b, c->ptr, at, "");
}

static int64_t round_up(int64_t bytes) { return (bytes + 63) / 64 * 64; }

LLVMValueRef vtb_cpu_scratch(vtb_cpu *c, vtb_cpu_task *t, int64_t bytes) {
  if (!t->scratch_call) { /* one request a task; its size is known at the task's end */
    LLVMTypeRef type = LLVMFunctionType(c->ptr, (LLVMTypeRef[]){c->ptr, c->i64}, 2, 0);
    LLVMValueRef fn = load_service(c, t->prologue, t->services, offsetof(vtb_services, scratch));
    t->scratch_call = LLVMBuildCall2(
        t->prologue, type, fn, (LLVMValueRef[]){t->services, vtb_cpu_i64(c, 0)}, 2, "scratch");
  }
  LLVMValueRef at = vtb_cpu_i64(c, t->scratch_bytes);
  t->scratch_bytes += round_up(bytes);
  return LLVMBuildInBoundsGEP2(t->prologue, c->i8, t->scratch_call, &at, 1, "");
}

int64_t vtb_cpu_temp(vtb_cpu *c, int64_t bytes) {
  int64_t at = c->kernel->temp_bytes;
  c->kernel->temp_bytes += round_up(bytes);
  return at;
}

LLVMValueRef vtb_cpu_temp_ptr(vtb_cpu *c, vtb_cpu_task *t, int64_t temp) {
  return LLVMBuildInBoundsGEP2(t->prologue, c->i8, t->temp, (LLVMValueRef[]){vtb_cpu_i64(c, temp)},
                               1, "");
}

LLVMValueRef vtb_cpu_var(vtb_cpu *c, vtb_cpu_task *t, LLVMTypeRef type) {
  (void)c;
  return LLVMBuildAlloca(t->prologue, type, "var");
}

const int64_t *vtb_cpu_strides(vtb_cpu *c, int i) { return c->kernel->stride[i]; }

/* ---- tables ---------------------------------------------------------------------------------- */

LLVMValueRef vtb__const_bytes(vtb_cpu *c, const void *data, size_t n_bytes) {
  vtb_host *h = c->host;
  for (size_t i = 0; i < h->tables.n; i++)
    if (h->tables.at[i].n_bytes == n_bytes && memcmp(h->tables.at[i].data, data, n_bytes) == 0)
      return h->tables.at[i].global;
  LLVMValueRef bytes = LLVMConstStringInContext2(c->ctx, data, n_bytes, 1);
  LLVMValueRef global = LLVMAddGlobal(c->module, LLVMTypeOf(bytes), "table");
  LLVMSetInitializer(global, bytes);
  LLVMSetGlobalConstant(global, 1);
  LLVMSetLinkage(global, LLVMInternalLinkage);
  LLVMSetAlignment(global, 64);
  vtb_vec_push(&h->tables,
               ((vtb_host_table){vtb_arena_memdup(&h->arena, data, n_bytes), n_bytes, global}));
  return global;
}

LLVMValueRef vtb_cpu_const_i32(vtb_cpu *c, const int32_t *v, size_t n) {
  return vtb__const_bytes(c, v, n * sizeof *v);
}
