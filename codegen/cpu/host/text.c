/* Texts of kernels: holes filled, folded, linked, launched: see codegen/cpu/text.h. */
#include "codegen/cpu/text.h"

#include <string.h>

#include "codegen/cpu/host/host.h"
#include "codegen/cpu/texts.h"

typedef struct hole_function {
  const char *name;
  vtb_cpu_text_fn *build;
  const void *user;
  const char *text; /* that has it, as a function which all texts share; NULL: it is built */
} hole_function;

typedef struct text_task {
  const char *kind;
  char *linked; /* its function's name in the program */
  int64_t n, grain, scratch;
} text_task;

typedef struct linked_function {
  char *linked;
  const hole_function *hole;
} linked_function;

struct vtb_cpu_text {
  vtb_cpu *c;
  const char *name;
  LLVMModuleRef module;
  VTB_VEC(hole_function) functions;
  VTB_VEC(text_task) tasks;
  VTB_VEC(linked_function) declared;
  VTB_VEC(int64_t) temps; /* tensors behind operands and results */
};

enum { FUNCTION = -1 }; /* LLVMAttributeFunctionIndex, as an index of attributes */

vtb_status vtb__texts_check(vtb_error *err) {
  unsigned major, minor, patch;
  LLVMGetVersion(&major, &minor, &patch);
  if (major == VTB_TEXTS_LLVM) return VTB_OK;
  return vtb_fail(err, VTB_E_DEVICE,
                  "LLVM %u.%u was opened, and kernels are compiled for LLVM %d: install libllvm%d, "
                  "or point VTB_LLVM at it",
                  major, minor, VTB_TEXTS_LLVM, VTB_TEXTS_LLVM);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void dispose_module(void *x) { LLVMDisposeModule(((vtb_cpu_text *)x)->module); }

static LLVMModuleRef parse(vtb_cpu *c, const char *name, int width) {
  char file[80];
  snprintf(file, sizeof file, "%s.%d.bc", name, width);
  for (int i = 0; i < vtb__cpu_n_texts; i++) {
    const vtb_cpu_text_file *f = &vtb__cpu_texts[i];
    if (!vtb_streq(f->name, file)) continue;
    LLVMMemoryBufferRef bytes = LLVMCreateMemoryBufferWithMemoryRange(f->text, f->n_bytes, file, 0);
    LLVMModuleRef module;
    LLVMBool failed = LLVMParseBitcodeInContext2(c->ctx, bytes, &module);
    LLVMDisposeMemoryBuffer(bytes);
    vtb_check(!failed, "the text %s is no bitcode for this LLVM", file);
    return module;
  }
  vtb_bug("there is no text %s", file);
}

/* Clang's ideas of a machine are not those of the program. */
static void forget_machine(LLVMValueRef fn) {
  const LLVMAttributeIndex at = (LLVMAttributeIndex)FUNCTION;
  unsigned n = LLVMGetAttributeCountAtIndex(fn, at);
  LLVMAttributeRef *all = vtb_xcalloc(n + 1, sizeof(LLVMAttributeRef));
  LLVMGetAttributesAtIndex(fn, at, all);
  for (unsigned i = 0; i < n; i++) {
    unsigned length;
    if (!LLVMIsStringAttribute(all[i])) continue;
    const char *kind = LLVMGetStringAttributeKind(all[i], &length);
    LLVMRemoveStringAttributeAtIndex(fn, at, kind, length);
  }
  vtb_free(all);
}

static unsigned inlined(void) { return LLVMGetEnumAttributeKindForName("alwaysinline", 12); }

/* Becomes part of those who call it. */
static void dissolve(vtb_cpu *c, LLVMValueRef fn) {
  LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)FUNCTION,
                          LLVMCreateEnumAttribute(c->ctx, inlined(), 0));
  LLVMSetLinkage(fn, LLVMInternalLinkage);
}

static bool is_intrinsic(LLVMValueRef fn) {
  size_t n;
  return strncmp(LLVMGetValueName2(fn, &n), "llvm.", 5) == 0;
}

vtb_cpu_text *vtb_cpu_text_open(vtb_cpu *c, const char *name, int width) {
  vtb_cpu_text *x = VTB_NEW(&c->host->arena, vtb_cpu_text);
  *x = (vtb_cpu_text){.c = c, .name = name, .module = parse(c, name, width)};
  vtb_defer(dispose_module, x);
  LLVMSetTarget(x->module, LLVMGetTarget(c->module));
  LLVMSetModuleDataLayout(x->module, LLVMGetModuleDataLayout(c->module));
  for (LLVMValueRef f = LLVMGetFirstFunction(x->module); f; f = LLVMGetNextFunction(f))
    if (!is_intrinsic(f)) forget_machine(f);
  return x;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void fill(vtb_cpu_text *x, const char *hole, LLVMValueRef value) {
  LLVMValueRef global = LLVMGetNamedGlobal(x->module, hole);
  LLVMSetInitializer(global, value);
  LLVMSetLinkage(global, LLVMInternalLinkage);
}

/* Clang drops what a text declares and does not use. */
static LLVMTypeRef type_of(vtb_cpu_text *x, const char *hole) {
  LLVMValueRef global = LLVMGetNamedGlobal(x->module, hole);
  vtb_check(global, "the text %s has no hole %s", x->name, hole);
  return LLVMGlobalGetValueType(global);
}

void vtb_cpu_text_number(vtb_cpu_text *x, const char *hole, int64_t v) {
  fill(x, hole, LLVMConstInt(type_of(x, hole), (unsigned long long)v, 1));
}

void vtb_cpu_text_offer(vtb_cpu_text *x, const char *hole, int64_t v) {
  if (LLVMGetNamedGlobal(x->module, hole)) vtb_cpu_text_number(x, hole, v);
}

void vtb__cpu_text_fill(vtb_cpu_text *x, const vtb_cpu_hole *v, size_t n) {
  for (size_t i = 0; i < n; i++) vtb_cpu_text_number(x, v[i].name, v[i].v);
}

void vtb_cpu_text_real(vtb_cpu_text *x, const char *hole, double v) {
  fill(x, hole, LLVMConstReal(type_of(x, hole), v));
}

/* What `type` takes of the values, which are taken off the list. */
static LLVMValueRef take_values(LLVMTypeRef type, const int64_t **v, const int64_t *end) {
  if (LLVMGetTypeKind(type) != LLVMArrayTypeKind)
    return LLVMConstInt(type, *v < end ? (unsigned long long)*(*v)++ : 0, 1);
  LLVMTypeRef of = LLVMGetElementType(type);
  uint64_t n = LLVMGetArrayLength2(type);
  LLVMValueRef *all = vtb_xcalloc(n, sizeof(LLVMValueRef));
  for (uint64_t i = 0; i < n; i++) all[i] = take_values(of, v, end);
  LLVMValueRef array = LLVMConstArray2(of, all, n);
  vtb_free(all);
  return array;
}

void vtb_cpu_text_numbers(vtb_cpu_text *x, const char *hole, const int64_t *v, int n) {
  const int64_t *end = v + n;
  fill(x, hole, take_values(type_of(x, hole), &v, end));
  vtb_check(v == end, "the hole %s of the text %s is too small for %d numbers", hole, x->name, n);
}

/* What every text may name. */
static void fill_common(vtb_cpu_text *x) {
  vtb_cpu_text_offer(x, "REGISTERS", x->c->registers);
  const vtb_cpu_kernel *k = x->c->kernel;
  if (LLVMGetNamedGlobal(x->module, "STRIDE"))
    vtb_cpu_text_numbers(x, "STRIDE", k->stride[0], (k->n_operands + k->n_results) * VTB_MAX_RANK);
}

/* ---- functions ------------------------------------------------------------------------------- */

void vtb_cpu_text_function(vtb_cpu_text *x, const char *name, vtb_cpu_text_fn *build,
                           const void *user) {
  vtb_check(LLVMGetNamedFunction(x->module, name), "the text %s has no function %s", x->name, name);
  vtb_vec_push(&x->functions, ((hole_function){name, build, user, NULL}));
}

static LLVMValueRef build_place(vtb_cpu *c, LLVMTypeRef type, LLVMValueRef *args,
                                const void *user) {
  (void)type;
  return vtb__order_at(c, user, args[0]);
}

void vtb_cpu_text_order(vtb_cpu_text *x, const char *name, const vtb__loop_order *order) {
  vtb_cpu_text_function(x, name, build_place, order);
}

static LLVMValueRef build_load_part(vtb_cpu *c, LLVMTypeRef type, LLVMValueRef *args,
                                    const void *user) {
  (void)user;
  int lanes = (int)LLVMGetVectorSize(type);
  return vtb_cpu_load_masked(c, args[0], vtb_cpu_mask(c, args[1], lanes), lanes);
}

static LLVMValueRef build_store_part(vtb_cpu *c, LLVMTypeRef type, LLVMValueRef *args,
                                     const void *user) {
  (void)type, (void)user;
  int lanes = (int)LLVMGetVectorSize(LLVMTypeOf(args[1]));
  vtb_cpu_store_masked(c, args[1], args[0], vtb_cpu_mask(c, args[2], lanes));
  return NULL;
}

static LLVMValueRef build_part(vtb_cpu *c, LLVMTypeRef type, LLVMValueRef *args, const void *user) {
  (void)user;
  LLVMValueRef mask = vtb_cpu_mask(c, args[1], (int)LLVMGetVectorSize(type));
  return LLVMBuildSelect(c->b, mask, args[0], args[2], "");
}

/* build_<name>: what `of` gives of its only argument. */
#define UNARY(name, of)                                                                            \
  static LLVMValueRef build_##name(vtb_cpu *c, LLVMTypeRef type, LLVMValueRef *args,               \
                                   const void *user) {                                             \
    (void)type, (void)user;                                                                        \
    return of(c, args[0]);                                                                         \
  }
UNARY(exp, vtb_cpu_exp)
UNARY(exp2, vtb_cpu_exp2)
UNARY(log, vtb_cpu_log)
UNARY(sum, vtb_cpu_hsum)
UNARY(max, vtb_cpu_hmax)

/* What every text may call; the types are the text's. */
static const hole_function common[] = {{"vtb_load_part", build_load_part, NULL, NULL},
                                       {"vtb_store_part", build_store_part, NULL, NULL},
                                       {"vtb_load_part_16", build_load_part, NULL, NULL},
                                       {"vtb_store_part_16", build_store_part, NULL, NULL},
                                       {"vtb_exp2_16", build_exp2, NULL, NULL},
                                       {"vtb_part", build_part, NULL, NULL},
                                       {"vtb_exp", build_exp, NULL, NULL},
                                       {"vtb_exp_1", build_exp, NULL, NULL},
                                       {"vtb_log_1", build_log, NULL, NULL},
                                       {"vtb_sum", build_sum, NULL, NULL},
                                       {"vtb_max", build_max, NULL, NULL},
                                       {"vtb_product_from", NULL, NULL, "small"},
                                       {"vtb_product_columns", NULL, NULL, "small"},
                                       {"vtb_solve", NULL, NULL, "small"},
                                       {"vtb_transpose", NULL, NULL, "small"}};

static const hole_function *common_function(const char *name) {
  for (size_t i = 0; i < sizeof common / sizeof *common; i++)
    if (vtb_streq(common[i].name, name)) return &common[i];
  return NULL;
}

static const hole_function *function_named(const vtb_cpu_text *x, const char *name) {
  for (size_t i = 0; i < x->functions.n; i++)
    if (vtb_streq(x->functions.at[i].name, name)) return &x->functions.at[i];
  const hole_function *f = common_function(name);
  vtb_check(f, "the function %s of the text %s is not filled", name, x->name);
  return f;
}

static LLVMValueRef shared_function(vtb_cpu *c, const char *name);

/* In the program, in the place of its declaration. */
static void define(vtb_cpu *c, const char *linked, const hole_function *f) {
  enum { MOST = 12 };
  LLVMValueRef fn = LLVMGetNamedFunction(c->module, linked), args[MOST];
  if (!fn) return; /* nobody is left who calls it */
  if (f->text) {
    LLVMReplaceAllUsesWith(fn, shared_function(c, f->name));
    LLVMDeleteFunction(fn);
    return;
  }
  vtb_check(LLVMCountParams(fn) <= MOST, "%s has too many arguments", linked);
  LLVMGetParams(fn, args);
  LLVMBuilderRef saved = c->b;
  c->b = LLVMCreateBuilderInContext(c->ctx);
  LLVMPositionBuilderAtEnd(c->b, LLVMAppendBasicBlockInContext(c->ctx, fn, "entry"));
  LLVMTypeRef type = LLVMGetReturnType(LLVMGlobalGetValueType(fn));
  LLVMValueRef result = f->build(c, type, args, f->user);
  if (result)
    LLVMBuildRet(c->b, result);
  else
    LLVMBuildRetVoid(c->b);
  LLVMDisposeBuilder(c->b);
  c->b = saved;
  dissolve(c, fn);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

/* What the text's function `of`_`kind` returns: a number, once it is folded; 0: there is none. */
static int64_t number_of(vtb_cpu_text *x, const char *of, const char *kind) {
  char name[80];
  snprintf(name, sizeof name, "%s_%s", of, kind);
  LLVMValueRef fn = LLVMGetNamedFunction(x->module, name);
  if (!fn) return 0;
  LLVMValueRef end = LLVMGetBasicBlockTerminator(LLVMGetEntryBasicBlock(fn));
  LLVMValueRef value = LLVMIsAReturnInst(end) ? LLVMGetOperand(end, 0) : NULL;
  vtb_check(value && LLVMIsAConstantInt(value), "%s of the text %s depends on more than its holes",
            name, x->name);
  int64_t number = LLVMConstIntGetSExtValue(value);
  LLVMDeleteFunction(fn);
  return number;
}

/* What only holes decide is decided: branches go, and loops that the text marks, and no others,
 * are unrolled here, while the functions it calls are not yet part of it. */
static const char folding[] =
    "function(early-cse,sccp,simplifycfg,loop(loop-rotate),"
    "loop-unroll<O2;full-unroll-max=0;no-partial;no-runtime;no-upperbound;no-peeling>,"
    "sroa,early-cse,simplifycfg)";

static void fold(vtb_cpu_text *x) {
  for (LLVMValueRef g = LLVMGetFirstGlobal(x->module); g; g = LLVMGetNextGlobal(g)) {
    size_t n;
    vtb_check(!LLVMIsDeclaration(g), "the hole %s of the text %s is not filled",
              LLVMGetValueName2(g, &n), x->name);
  }
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef failed = LLVMRunPasses(x->module, folding, NULL, options);
  LLVMDisposePassBuilderOptions(options);
  vtb_check(!failed, "the text %s cannot be folded", x->name);
}

/* A name that no other text of the program gives; what holes stand for is looked up by the old one.
 */
static void give_names(vtb_cpu_text *x) {
  vtb_host *h = x->c->host;
  int number = h->n_texts++;
  for (LLVMValueRef f = LLVMGetFirstFunction(x->module), next; f; f = next) {
    size_t n;
    const char *name = LLVMGetValueName2(f, &n);
    next = LLVMGetNextFunction(f);
    if (is_intrinsic(f)) continue;
    bool is_task = strncmp(name, "task_", 5) == 0;
    if (!is_task && !LLVMIsDeclaration(f)) continue; /* a number of a task further on */
    char *linked = vtb_arena_printf(&h->arena, "%s.%d.%s", x->name, number, name);
    if (is_task) {
      const char *kind = vtb_arena_strdup(&h->arena, name + 5);
      text_task task = {.kind = kind, .linked = linked, .n = number_of(x, "n", kind)};
      task.grain = number_of(x, "grain", kind);
      task.scratch = number_of(x, "scratch", kind);
      vtb_vec_push(&x->tasks, task);
    } else {
      vtb_vec_push(&x->declared, ((linked_function){linked, function_named(x, name)}));
    }
    LLVMSetValueName2(f, linked, strlen(linked));
  }
}

static void link_in(vtb_cpu_text *x) {
  vtb_cpu *c = x->c;
  vtb_forget(x);
  LLVMBool failed = LLVMLinkModules2(c->module, x->module);
  vtb_check(!failed, "the text %s cannot be linked", x->name);
  for (size_t i = 0; i < x->declared.n; i++)
    define(c, x->declared.at[i].linked, x->declared.at[i].hole);
}

static void close_text(vtb_cpu_text *x) {
  vtb_vec_free(&x->tasks);
  vtb_vec_free(&x->declared);
  vtb_vec_free(&x->temps);
  vtb_vec_free(&x->functions);
}

/* ---- functions that texts share -------------------------------------------------------------- */

/* Of all that the text defines. */
static void keep_only(vtb_cpu_text *x, const char *name) {
  for (LLVMValueRef f = LLVMGetFirstFunction(x->module), next; f; f = next) {
    size_t n;
    next = LLVMGetNextFunction(f);
    if (!LLVMIsDeclaration(f) && !vtb_streq(LLVMGetValueName2(f, &n), name)) LLVMDeleteFunction(f);
  }
}

static LLVMValueRef shared_function(vtb_cpu *c, const char *name) {
  LLVMValueRef fn = LLVMGetNamedFunction(c->module, name);
  if (fn) return fn;
  vtb_cpu_text *x = vtb_cpu_text_open(c, common_function(name)->text, c->width);
  vtb_cpu_text_offer(x, "REGISTERS", c->registers);
  keep_only(x, name);
  give_names(x);
  link_in(x);
  close_text(x);
  fn = LLVMGetNamedFunction(c->module, name);
  LLVMRemoveEnumAttributeAtIndex(fn, (LLVMAttributeIndex)FUNCTION, inlined());
  vtb__own_function(c, fn);
  return fn;
}

/* ---- running --------------------------------------------------------------------------------- */

int vtb_cpu_text_temp(vtb_cpu_text *x, int64_t temp) {
  const vtb_cpu_kernel *k = x->c->kernel;
  vtb_vec_push(&x->temps, temp);
  return k->n_operands + k->n_results + (int)x->temps.n - 1;
}

/* The array of tensors is taken apart again by LLVM: it is known where it is filled. */
static LLVMValueRef tensors(const vtb_cpu_text *x, vtb_cpu_task *t) {
  vtb_cpu *c = x->c;
  int own = t->n_operands + t->n_results, n = own + (int)x->temps.n;
  LLVMValueRef all =
      LLVMBuildAlloca(t->prologue, LLVMArrayType2(c->ptr, (uint64_t)(n ? n : 1)), "tensors");
  for (int i = 0; i < n; i++) {
    LLVMValueRef at = vtb_cpu_i64(c, i);
    LLVMValueRef ptr = i < own ? t->t[i].ptr : vtb_cpu_temp_ptr(c, t, x->temps.at[i - own]);
    LLVMBuildStore(t->prologue, ptr, LLVMBuildInBoundsGEP2(t->prologue, c->ptr, all, &at, 1, ""));
  }
  return all;
}

static void emit_task(vtb_cpu_text *x, const text_task *task, const vtb_inst *inst, int64_t temp) {
  vtb_cpu *c = x->c;
  LLVMValueRef fn = LLVMGetNamedFunction(c->module, task->linked);
  if (task->n == 0) {
    LLVMDeleteFunction(fn);
    return;
  }
  dissolve(c, fn);
  vtb_cpu_task *t = vtb_cpu_task_begin(c, inst, task->kind, task->n, task->grain);
  LLVMValueRef none = LLVMConstNull(c->ptr);
  LLVMValueRef args[] = {tensors(x, t), t->index,
                         task->scratch ? vtb_cpu_scratch(c, t, task->scratch) : none,
                         temp >= 0 ? vtb_cpu_temp_ptr(c, t, temp) : none};
  LLVMBuildCall2(c->b, LLVMGlobalGetValueType(fn), fn, args, 4, "");
  vtb_cpu_task_end(c, t);
}

void vtb_cpu_text_run(vtb_cpu_text *x, const vtb_inst *inst) {
  fill_common(x);
  fold(x);
  int64_t bytes = number_of(x, "temp", "bytes"), temp = -1;
  if (bytes) temp = vtb_cpu_temp(x->c, bytes);
  give_names(x);
  link_in(x);
  for (size_t i = 0; i < x->tasks.n; i++) emit_task(x, &x->tasks.at[i], inst, temp);
  close_text(x);
}
