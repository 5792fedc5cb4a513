/* The host program: the steps of every function (codegen/steps.h) as straight-line code that fills
 * closures and launches tasks.
 *
 *   void f(ptr args, ptr workspace, ptr services)
 *
 * args holds one pointer an argument, then one a return.
 *
 * The entry begins with what is prepared, and leaves it out, or the rest, as the services say.
 */
#include "codegen/cpu/host/host.h"

#include <string.h>

#include "codegen/cpu/host/print.h"

/* ---- addresses ------------------------------------------------------------------------------- */

static LLVMValueRef bytes_from(vtb_host_print *f, LLVMValueRef ptr, int64_t bytes) {
  vtb_cpu *c = &f->h->cpu;
  if (bytes == 0) return ptr;
  return LLVMBuildInBoundsGEP2(f->b, c->i8, ptr, (LLVMValueRef[]){vtb_cpu_i64(c, bytes)}, 1, "");
}

static LLVMValueRef argument(vtb_host_print *f, int i) {
  vtb_cpu *c = &f->h->cpu;
  LLVMValueRef at =
      LLVMBuildInBoundsGEP2(f->b, c->ptr, f->args, (LLVMValueRef[]){vtb_cpu_i64(c, i)}, 1, "");
  return LLVMBuildLoad2(f->b, c->ptr, at, "");
}

/* Equal elements are one. */
static LLVMValueRef constant(vtb_host_print *f, const vtb_inst *inst) {
  LLVMValueRef *known = &f->constants[inst->results[0]->id];
  if (*known) return *known;
  const vtb_attr *data = vtb_attr_find(inst, "data");
  bool is_int = inst->results[0]->type.dtype == VTB_I32;
  size_t n = data ? (size_t)data->n : 1;
  union {
    float f;
    int32_t i;
  } *copy = vtb_xcalloc(n + 1, sizeof *copy);
  for (size_t i = 0; i < n; i++) {
    double x = data ? data->floats[i] : vtb_attr_float(inst, "value", 0);
    if (is_int)
      copy[i].i = (int32_t)x;
    else
      copy[i].f = (float)x;
  }
  *known = vtb__const_bytes(&f->h->cpu, copy, n * sizeof *copy);
  vtb_free(copy);
  return *known;
}

LLVMValueRef vtb__host_address(vtb_host_print *f, const vtb_spot *spot) {
  switch (spot->at) {
  case VTB_AT_ARG:
    return bytes_from(f, argument(f, spot->index), spot->offset);
  case VTB_AT_FRAME:
    return bytes_from(f, f->workspace, spot->offset);
  case VTB_AT_TAIL:
    return bytes_from(f, f->workspace, f->steps->tail_base + spot->offset);
  case VTB_AT_KEPT:
    return bytes_from(f, f->kept, spot->offset);
  case VTB_AT_CONSTANT:
    return bytes_from(f, constant(f, spot->constant), spot->offset);
  }
  vtb_bug("a place of kind %d", (int)spot->at);
}

static void take_tail(vtb_host_print *f, int64_t bytes) {
  if (bytes > f->tail_bytes) f->tail_bytes = bytes;
}

/* ---- launches -------------------------------------------------------------------------------- */

static LLVMValueRef service(vtb_host_print *f, size_t offset) {
  LLVMValueRef at = bytes_from(f, f->services, (int64_t)offset);
  return LLVMBuildLoad2(f->b, f->h->cpu.ptr, at, "");
}

/* services->kernel_begin / kernel_end may be NULL. */
static void emit_timing(vtb_host_print *f, size_t offset, const vtb_cpu_kernel *k) {
  vtb_cpu *c = &f->h->cpu;
  LLVMTypeRef w = LLVMIntTypeInContext(c->ctx, sizeof(int) * 8);
  LLVMValueRef fn = service(f, offset);
  LLVMBasicBlockRef call = LLVMAppendBasicBlockInContext(c->ctx, f->fn, "timed");
  LLVMBasicBlockRef after = LLVMAppendBasicBlockInContext(c->ctx, f->fn, "untimed");
  LLVMBuildCondBr(f->b, LLVMBuildIsNotNull(f->b, fn, ""), call, after);
  LLVMPositionBuilderAtEnd(f->b, call);
  LLVMTypeRef type = LLVMFunctionType(c->void_type, (LLVMTypeRef[]){c->ptr, w}, 2, 0);
  LLVMValueRef number = LLVMConstInt(w, (unsigned long long)k->number, 0);
  LLVMBuildCall2(f->b, type, fn, (LLVMValueRef[]){f->services, number}, 2, "");
  LLVMBuildBr(f->b, after);
  LLVMPositionBuilderAtEnd(f->b, after);
}

void vtb__host_store(vtb_host_print *f, int slot, LLVMValueRef v) {
  vtb_cpu *c = &f->h->cpu;
  LLVMValueRef at = LLVMBuildInBoundsGEP2(f->b, c->ptr, f->closure,
                                          (LLVMValueRef[]){vtb_cpu_i64(c, slot)}, 1, "");
  LLVMBuildStore(f->b, v, at);
}

/* A task that would be one piece anyway is called, and so are those of a step that runs inside a
 * task; else the services split it. */
static void emit_task(vtb_host_print *f, const vtb_cpu_step *s) {
  vtb_cpu *c = &f->h->cpu;
  LLVMValueRef n = vtb_cpu_i64(c, s->n);
  if (s->n <= s->grain || f->steps->is_step) {
    LLVMValueRef args[] = {f->closure, vtb_cpu_i64(c, 0), n};
    LLVMBuildCall2(f->b, f->h->task_type, s->fn, args, 3, "");
    return;
  }
  LLVMTypeRef type =
      LLVMFunctionType(c->void_type, (LLVMTypeRef[]){c->ptr, c->ptr, c->ptr, c->i64, c->i64}, 5, 0);
  LLVMValueRef args[] = {f->services, s->fn, f->closure, n, vtb_cpu_i64(c, s->grain)};
  LLVMBuildCall2(f->b, type, service(f, offsetof(vtb_services, parallel)), args, 5, "");
}

static void launch(vtb_host_print *f, const vtb_step *step, const vtb_cpu_kernel *k) {
  int n = k->n_operands + k->n_results;
  vtb_check(n + 2 <= f->closure_slots, "closure of %s is too small", k->name);
  bool profile = f->h->options->profile && !f->steps->is_step;
  take_tail(f, step->tail + k->temp_bytes);
  if (profile) emit_timing(f, offsetof(vtb_services, kernel_begin), k);
  vtb__host_store(f, 0, f->services);
  for (int i = 0; i < n; i++) vtb__host_store(f, 1 + i, vtb__host_address(f, &step->at[i]));
  if (k->temp_bytes)
    vtb__host_store(f, 1 + n, bytes_from(f, f->workspace, f->steps->tail_base + step->tail));
  for (size_t i = 0; i < k->steps.n; i++) emit_task(f, &k->steps.at[i]);
  if (profile) emit_timing(f, offsetof(vtb_services, kernel_end), k);
}

void vtb__host_call(vtb_host_print *f, const vtb_func *callee, int64_t frame) {
  const vtb_host_func *to = &f->h->funcs[vtb_steps_find(&f->h->steps, callee)];
  /* the closure's memory serves as the callee's argument array */
  LLVMValueRef args[] = {f->closure, bytes_from(f, f->workspace, f->steps->tail_base + frame),
                         f->services};
  take_tail(f, frame + to->total_bytes);
  LLVMBuildCall2(f->b, f->h->host_type, to->fn, args, 3, "");
}

/* The services have both: vtb_program_execute() looks. */
static void begin_sum(vtb_host_print *f, const vtb_step *step) {
  vtb_cpu *c = &f->h->cpu;
  LLVMTypeRef type = LLVMFunctionType(c->void_type, (LLVMTypeRef[]){c->ptr, c->ptr, c->i64}, 3, 0);
  LLVMValueRef args[] = {f->services, vtb__host_address(f, &step->at[0]),
                         vtb_cpu_i64(c, vtb_type_count(step->at[0].type))};
  LLVMBasicBlockRef after = NULL;
  if (step->n_operands > 1) {
    LLVMBasicBlockRef begin = LLVMAppendBasicBlockInContext(c->ctx, f->fn, "summed");
    after = LLVMAppendBasicBlockInContext(c->ctx, f->fn, "kept");
    LLVMValueRef when = LLVMBuildLoad2(f->b, c->f32, vtb__host_address(f, &step->at[1]), "");
    LLVMValueRef none = LLVMConstNull(c->f32);
    LLVMBuildCondBr(f->b, LLVMBuildFCmp(f->b, LLVMRealUNE, when, none, ""), begin, after);
    LLVMPositionBuilderAtEnd(f->b, begin);
  }
  LLVMBuildCall2(f->b, type, service(f, offsetof(vtb_services, sum_begin)), args, 3, "");
  if (!after) return;
  LLVMBuildBr(f->b, after);
  LLVMPositionBuilderAtEnd(f->b, after);
}

static void wait_for_sums(vtb_host_print *f) {
  vtb_cpu *c = &f->h->cpu;
  LLVMTypeRef type = LLVMFunctionType(c->void_type, (LLVMTypeRef[]){c->ptr}, 1, 0);
  LLVMBuildCall2(f->b, type, service(f, offsetof(vtb_services, sum_wait)),
                 (LLVMValueRef[]){f->services}, 1, "");
}

static vtb_status print_step(vtb_host_print *f, const vtb_step *step, vtb_error *err) {
  vtb_cpu_kernel *k;
  switch (step->kind) {
  case VTB_STEP_KERNEL:
  case VTB_STEP_COPY:
    k = vtb__host_kernel(f->h, step, f->steps->runs, err);
    if (!k) return err->status;
    launch(f, step, k);
    break;
  case VTB_STEP_CALL:
    for (int i = 0; i < step->n_operands + step->n_results; i++)
      vtb__host_store(f, i, vtb__host_address(f, &step->at[i]));
    vtb__host_call(f, step->inst->callee, 0);
    break;
  case VTB_STEP_FOLD:
    vtb__host_fold(f, step);
    break;
  case VTB_STEP_SUM:
    begin_sum(f, step);
    break;
  case VTB_STEP_WAIT:
    wait_for_sums(f);
    break;
  }
  return VTB_OK;
}

/* ---- functions ------------------------------------------------------------------------------- */

static void mark(const vtb_host *h, LLVMValueRef fn, const char *attribute) {
  unsigned kind = LLVMGetEnumAttributeKindForName(attribute, strlen(attribute));
  LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          LLVMCreateEnumAttribute(h->cpu.ctx, kind, 0));
}

static LLVMValueRef declare(vtb_host *h, const vtb_func_steps *steps, bool is_entry) {
  vtb_strbuf name = {0};
  vtb_strbuf_printf(&name, "host.%s", steps->func->name);
  LLVMValueRef fn = LLVMAddFunction(h->cpu.module, is_entry ? "vtb_entry" : name.at, h->host_type);
  vtb_strbuf_free(&name);
  if (!is_entry) LLVMSetLinkage(fn, LLVMInternalLinkage);
  /* straight-line code that stores pointers: optimising it takes longer than it saves, unless it
   * runs at every step of a fold */
  mark(h, fn, "noinline");
  if (!steps->is_step) mark(h, fn, "optnone");
  return fn;
}

/* Services before the tensors, temporaries behind them; a fold has slots of its own. */
static int closure_slots(const vtb_func_steps *steps) {
  int most = 4;
  for (size_t i = 0; i < steps->list.n; i++) {
    const vtb_step *step = &steps->list.at[i];
    int n = step->fold ? step->fold->n_slots : step->n_operands + step->n_results + 2;
    if (n > most) most = n;
  }
  return most;
}

static void dispose_builder(void *builder) { LLVMDisposeBuilder(builder); }

static vtb_status print_steps(vtb_host_print *f, size_t from, size_t to, vtb_error *err) {
  vtb_status status = VTB_OK;
  for (size_t i = from; i < to && status == VTB_OK; i++)
    status = print_step(f, &f->steps->list.at[i], err);
  return status;
}

/* Memory of the services' for what is kept, else the first of the workspace. */
static void find_kept(vtb_host_print *f, int64_t bytes) {
  LLVMValueRef given = service(f, offsetof(vtb_services, kept));
  LLVMValueRef none = LLVMBuildIsNull(f->b, given, "");
  f->kept = LLVMBuildSelect(f->b, none, f->workspace, given, "kept");
  f->workspace =
      LLVMBuildSelect(f->b, none, bytes_from(f, f->workspace, bytes), f->workspace, "workspace");
}

/* The steps of an entry that keeps what the first of them make: these, the others or all. */
static vtb_status print_parts(vtb_host_print *f, int64_t kept_bytes, vtb_error *err) {
  vtb_cpu *c = &f->h->cpu;
  size_t first = f->steps->n_prepared;
  LLVMBasicBlockRef prepare = LLVMAppendBasicBlockInContext(c->ctx, f->fn, "prepare");
  LLVMBasicBlockRef others = LLVMAppendBasicBlockInContext(c->ctx, f->fn, "others");
  LLVMBasicBlockRef left = LLVMAppendBasicBlockInContext(c->ctx, f->fn, "prepared");
  find_kept(f, kept_bytes);
  LLVMValueRef at = bytes_from(f, f->services, offsetof(vtb_services, part));
  LLVMValueRef part = LLVMBuildLoad2(f->b, c->i32, at, "part");
  LLVMValueRef no_first =
      LLVMBuildICmp(f->b, LLVMIntEQ, part, LLVMConstInt(c->i32, VTB_OTHER_STEPS, 0), "");
  LLVMValueRef only_first =
      LLVMBuildICmp(f->b, LLVMIntEQ, part, LLVMConstInt(c->i32, VTB_PREPARED_STEPS, 0), "");
  LLVMBuildCondBr(f->b, no_first, others, prepare);
  LLVMPositionBuilderAtEnd(f->b, prepare);
  VTB_TRY(print_steps(f, 0, first, err));
  LLVMBuildCondBr(f->b, only_first, left, others);
  LLVMPositionBuilderAtEnd(f->b, left);
  LLVMBuildRetVoid(f->b);
  LLVMPositionBuilderAtEnd(f->b, others);
  return print_steps(f, first, f->steps->list.n, err);
}

static vtb_status print_func(vtb_host *h, size_t number, vtb_error *err) {
  vtb_cpu *c = &h->cpu;
  const vtb_func_steps *steps = &h->steps.funcs[number];
  bool is_entry = number + 1 == h->steps.n_funcs;
  vtb_host_print f = {.h = h, .steps = steps, .fn = declare(h, steps, is_entry)};
  f.args = LLVMGetParam(f.fn, 0);
  f.workspace = LLVMGetParam(f.fn, 1);
  f.services = LLVMGetParam(f.fn, 2);
  f.b = LLVMCreateBuilderInContext(c->ctx);
  vtb_defer(dispose_builder, f.b);
  LLVMPositionBuilderAtEnd(f.b, LLVMAppendBasicBlockInContext(c->ctx, f.fn, "entry"));
  f.constants = vtb_xcalloc((size_t)steps->func->n_values + 1, sizeof *f.constants);
  f.closure_slots = closure_slots(steps);
  f.closure = LLVMBuildAlloca(f.b, LLVMArrayType2(c->ptr, (uint64_t)f.closure_slots), "closure");
  int64_t kept = is_entry ? h->steps.plan.kept_bytes : 0;
  vtb_status status = kept ? print_parts(&f, kept, err) : print_steps(&f, 0, steps->list.n, err);
  LLVMBuildRetVoid(f.b);
  h->funcs[number] =
      (vtb_host_func){f.fn, vtb_places_round(&h->steps.places, steps->tail_base + f.tail_bytes)};
  vtb_forget(f.b);
  LLVMDisposeBuilder(f.b);
  vtb_free(f.constants);
  return status;
}

vtb_status vtb__host_build(vtb_host *h, vtb_func *entry, vtb_error *err) {
  vtb_error ignored = {0};
  if (!err) err = &ignored;
  vtb_status status = vtb_steps_make(h->ir, entry, &vtb_target_find("cpu")->places, &h->steps, err);
  if (status != VTB_OK) return status;
  h->funcs = VTB_NEW_ARRAY(&h->arena, vtb_host_func, h->steps.n_funcs + 1);
  for (size_t i = 0; i < h->steps.n_funcs && status == VTB_OK; i++) status = print_func(h, i, err);
  return status;
}

static void free_llvm(void *what) {
  vtb_host *h = what;
  LLVMDisposeBuilder(h->cpu.b);
  if (h->cpu.module) LLVMDisposeModule(h->cpu.module);
  if (h->cpu.ctx) LLVMContextDispose(h->cpu.ctx);
}

void vtb__host_init(vtb_host *h, vtb_module *m, const vtb_codegen_options *o, int width) {
  *h = (vtb_host){.options = o, .ir = m};
  vtb_arena_init(&h->arena);
  vtb_cpu *c = &h->cpu;
  *c = (vtb_cpu){.ctx = LLVMContextCreate(), .width = width, .host = h};
  c->module = LLVMModuleCreateWithNameInContext(m->name ? m->name : "vertebra", c->ctx);
  c->b = LLVMCreateBuilderInContext(c->ctx);
  vtb_defer(free_llvm, h);
  c->f32 = LLVMFloatTypeInContext(c->ctx);
  c->i1 = LLVMInt1TypeInContext(c->ctx);
  c->i8 = LLVMInt8TypeInContext(c->ctx);
  c->i32 = LLVMInt32TypeInContext(c->ctx);
  c->i64 = LLVMInt64TypeInContext(c->ctx);
  c->ptr = LLVMPointerTypeInContext(c->ctx, 0);
  c->void_type = LLVMVoidTypeInContext(c->ctx);
  c->vf32 = LLVMVectorType(c->f32, (unsigned)width);
  c->vi32 = LLVMVectorType(c->i32, (unsigned)width);
  h->task_type = LLVMFunctionType(c->void_type, (LLVMTypeRef[]){c->ptr, c->i64, c->i64}, 3, 0);
  h->host_type = LLVMFunctionType(c->void_type, (LLVMTypeRef[]){c->ptr, c->ptr, c->ptr}, 3, 0);
}

void vtb__host_free(vtb_host *h) {
  vtb_forget(h);
  free_llvm(h);
  for (size_t i = 0; i < h->kernel_list.n; i++) vtb_vec_free(&h->kernel_list.at[i]->steps);
  vtb_vec_free(&h->kernel_list);
  vtb_vec_free(&h->tables);
  vtb_map_free(&h->kernels);
  vtb_steps_free(&h->steps);
  vtb_arena_free(&h->arena);
}
