/* Loops, integers, addresses and vectors at c->b: thin forms over the LLVM builder, with constants
 * folded early so that the text stays small. See cpu.h for the contracts. */
#include "codegen/cpu/cpu.h"

#include <assert.h>
#include <string.h>

/* ---- control --------------------------------------------------------------------------------- */

static LLVMValueRef current_function(vtb_cpu *c) {
  return LLVMGetBasicBlockParent(LLVMGetInsertBlock(c->b));
}

static LLVMBasicBlockRef new_block(vtb_cpu *c, const char *name) {
  return LLVMAppendBasicBlockInContext(c->ctx, current_function(c), name);
}

vtb_cpu_for vtb_cpu_for_begin(vtb_cpu *c, LLVMValueRef from, LLVMValueRef to, LLVMValueRef step) {
  vtb_cpu_for l = {.before = LLVMGetInsertBlock(c->b), .to = to, .step = step};
  l.head = new_block(c, "for");
  l.body = new_block(c, "body");
  l.exit = new_block(c, "done");
  LLVMBuildBr(c->b, l.head);
  LLVMPositionBuilderAtEnd(c->b, l.head);
  l.i = LLVMBuildPhi(c->b, c->i64, "i");
  LLVMAddIncoming(l.i, &from, &l.before, 1);
  LLVMBuildCondBr(c->b, LLVMBuildICmp(c->b, LLVMIntSLT, l.i, to, ""), l.body, l.exit);
  LLVMPositionBuilderAtEnd(c->b, l.body);
  return l;
}

LLVMValueRef vtb_cpu_carry(vtb_cpu *c, vtb_cpu_for *l, LLVMValueRef init) {
  vtb_check(l->n_carry < VTB_CPU_MAX_CARRY, "too many loop-carried values");
  LLVMBasicBlockRef here = LLVMGetInsertBlock(c->b);
  LLVMPositionBuilderBefore(c->b, LLVMGetFirstInstruction(l->head));
  LLVMValueRef phi = LLVMBuildPhi(c->b, LLVMTypeOf(init), "carry");
  LLVMAddIncoming(phi, &init, &l->before, 1);
  LLVMPositionBuilderAtEnd(c->b, here);
  l->next[l->n_carry] = phi;
  l->phi[l->n_carry++] = phi;
  return phi;
}

void vtb_cpu_carry_next(vtb_cpu_for *l, int k, LLVMValueRef value) {
  assert(k < l->n_carry && LLVMTypeOf(value) == LLVMTypeOf(l->phi[k]));
  l->next[k] = value;
}

LLVMValueRef vtb_cpu_carried(const vtb_cpu_for *l, int k) { return l->phi[k]; }

void vtb_cpu_for_end(vtb_cpu *c, vtb_cpu_for *l) {
  LLVMBasicBlockRef latch = LLVMGetInsertBlock(c->b);
  LLVMValueRef next = LLVMBuildNSWAdd(c->b, l->i, l->step, "");
  LLVMBuildBr(c->b, l->head);
  LLVMAddIncoming(l->i, &next, &latch, 1);
  for (int k = 0; k < l->n_carry; k++) LLVMAddIncoming(l->phi[k], &l->next[k], &latch, 1);
  LLVMPositionBuilderAtEnd(c->b, l->exit);
}

vtb_cpu_if vtb_cpu_if_begin(vtb_cpu *c, LLVMValueRef cond) {
  vtb_cpu_if i = {.then = new_block(c, "then"), .exit = new_block(c, "endif")};
  LLVMBasicBlockRef from = LLVMGetInsertBlock(c->b);
  i.otherwise = LLVMInsertBasicBlockInContext(c->ctx, i.exit, "else");
  LLVMPositionBuilderAtEnd(c->b, from);
  LLVMBuildCondBr(c->b, cond, i.then, i.otherwise);
  LLVMPositionBuilderAtEnd(c->b, i.then);
  return i;
}

void vtb_cpu_else(vtb_cpu *c, vtb_cpu_if *i) {
  LLVMBuildBr(c->b, i->exit);
  LLVMPositionBuilderAtEnd(c->b, i->otherwise);
  i->otherwise = NULL;
}

void vtb_cpu_if_end(vtb_cpu *c, vtb_cpu_if *i) {
  LLVMBuildBr(c->b, i->exit);
  if (i->otherwise) {
    LLVMPositionBuilderAtEnd(c->b, i->otherwise);
    LLVMBuildBr(c->b, i->exit);
  }
  LLVMPositionBuilderAtEnd(c->b, i->exit);
}

/* ---- integers and addresses ------------------------------------------------------------------ */

static bool constant_int(LLVMValueRef v, int64_t *out) {
  if (!LLVMIsAConstantInt(v)) return false;
  *out = LLVMConstIntGetSExtValue(v);
  return true;
}

LLVMValueRef vtb_cpu_i64(vtb_cpu *c, int64_t v) {
  return LLVMConstInt(c->i64, (unsigned long long)v, 1);
}

LLVMValueRef vtb_cpu_add(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y) {
  int64_t a, b;
  bool ca = constant_int(x, &a), cb = constant_int(y, &b);
  if (ca && a == 0) return y;
  if (cb && b == 0) return x;
  if (ca && cb) return vtb_cpu_i64(c, a + b);
  return LLVMBuildNSWAdd(c->b, x, y, "");
}

LLVMValueRef vtb_cpu_mul(vtb_cpu *c, LLVMValueRef x, int64_t k) {
  int64_t a;
  if (k == 1) return x;
  if (constant_int(x, &a)) return vtb_cpu_i64(c, a * k);
  if (k == 0) return vtb_cpu_i64(c, 0);
  return LLVMBuildNSWMul(c->b, x, vtb_cpu_i64(c, k), "");
}

LLVMValueRef vtb_cpu_div(vtb_cpu *c, LLVMValueRef x, int64_t k) {
  int64_t a;
  assert(k > 0); /* the division is unsigned */
  if (k == 1) return x;
  if (constant_int(x, &a)) return vtb_cpu_i64(c, a / k);
  return LLVMBuildUDiv(c->b, x, vtb_cpu_i64(c, k), "");
}

LLVMValueRef vtb_cpu_rem(vtb_cpu *c, LLVMValueRef x, int64_t k) {
  int64_t a;
  assert(k > 0);
  if (k == 1) return vtb_cpu_i64(c, 0);
  if (constant_int(x, &a)) return vtb_cpu_i64(c, a % k);
  return LLVMBuildURem(c->b, x, vtb_cpu_i64(c, k), "");
}

LLVMValueRef vtb_cpu_min(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y) {
  int64_t a, b;
  if (constant_int(x, &a) && constant_int(y, &b)) return vtb_cpu_i64(c, a < b ? a : b);
  return LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, LLVMIntSLT, x, y, ""), x, y, "");
}

LLVMValueRef vtb_cpu_at(vtb_cpu *c, LLVMValueRef ptr, LLVMValueRef elements) {
  int64_t k;
  if (constant_int(elements, &k) && k == 0) return ptr;
  return LLVMBuildInBoundsGEP2(c->b, c->f32, ptr, &elements, 1, "");
}

/* ---- f32 scalars and vectors ----------------------------------------------------------------- */

LLVMTypeRef vtb_cpu_vector(vtb_cpu *c, int lanes) {
  return lanes == 1 ? c->f32 : LLVMVectorType(c->f32, (unsigned)lanes);
}

LLVMValueRef vtb_cpu_f32(vtb_cpu *c, double v) { return LLVMConstReal(c->f32, v); }

static LLVMValueRef constant_splat(LLVMValueRef v, int lanes) {
  LLVMValueRef all[64];
  for (int i = 0; i < lanes; i++) all[i] = v;
  return LLVMConstVector(all, (unsigned)lanes);
}

static int lanes_of(LLVMTypeRef type) {
  return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(type) : 1;
}

LLVMValueRef vtb_cpu_like(vtb_cpu *c, LLVMValueRef x, double v) {
  int lanes = lanes_of(LLVMTypeOf(x));
  return lanes == 1 ? vtb_cpu_f32(c, v) : constant_splat(vtb_cpu_f32(c, v), lanes);
}

LLVMValueRef vtb_cpu_splat(vtb_cpu *c, LLVMValueRef x, int lanes) {
  if (lanes == 1) return x;
  if (LLVMIsConstant(x)) return constant_splat(x, lanes);
  LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(x), (unsigned)lanes);
  LLVMValueRef one = LLVMBuildInsertElement(c->b, LLVMGetPoison(type), x, vtb_cpu_i64(c, 0), "");
  LLVMValueRef zeros = LLVMConstNull(LLVMVectorType(c->i32, (unsigned)lanes));
  return LLVMBuildShuffleVector(c->b, one, LLVMGetPoison(type), zeros, "");
}

LLVMValueRef vtb_cpu_load(vtb_cpu *c, LLVMValueRef ptr, int lanes) {
  LLVMValueRef v = LLVMBuildLoad2(c->b, vtb_cpu_vector(c, lanes), ptr, "");
  LLVMSetAlignment(v, 4);
  return v;
}

void vtb_cpu_store(vtb_cpu *c, LLVMValueRef v, LLVMValueRef ptr) {
  LLVMSetAlignment(LLVMBuildStore(c->b, v, ptr), 4);
}

LLVMValueRef vtb_cpu_load_i32(vtb_cpu *c, LLVMValueRef ptr) {
  LLVMValueRef v = LLVMBuildLoad2(c->b, c->i32, ptr, "");
  LLVMSetAlignment(v, 4);
  return v;
}

LLVMValueRef vtb_cpu_mask(vtb_cpu *c, LLVMValueRef left, int lanes) {
  LLVMValueRef lane[64];
  for (int i = 0; i < lanes; i++) lane[i] = LLVMConstInt(c->i32, (unsigned long long)i, 0);
  LLVMValueRef n = LLVMBuildTrunc(c->b, vtb_cpu_min(c, left, vtb_cpu_i64(c, lanes)), c->i32, "");
  if (lanes == 1) return LLVMBuildICmp(c->b, LLVMIntSLT, lane[0], n, "");
  return LLVMBuildICmp(c->b, LLVMIntSLT, LLVMConstVector(lane, (unsigned)lanes),
                       vtb_cpu_splat(c, n, lanes), "mask");
}

static LLVMValueRef call_intrinsic(vtb_cpu *c, const char *name, LLVMTypeRef *over, int n_over,
                                   LLVMValueRef *args, int n) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  vtb_check(id, "LLVM has no intrinsic %s", name);
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(c->module, id, over, (size_t)n_over);
  return LLVMBuildCall2(c->b, LLVMIntrinsicGetType(c->ctx, id, over, (size_t)n_over), fn, args,
                        (unsigned)n, "");
}

LLVMValueRef vtb_cpu_intrinsic(vtb_cpu *c, const char *name, LLVMValueRef *args, int n) {
  LLVMTypeRef type = LLVMTypeOf(args[0]);
  return call_intrinsic(c, name, &type, 1, args, n);
}

LLVMValueRef vtb_cpu_machine_intrinsic(vtb_cpu *c, const char *name, LLVMValueRef *args, int n) {
  return call_intrinsic(c, name, NULL, 0, args, n);
}

LLVMValueRef vtb_cpu_load_masked(vtb_cpu *c, LLVMValueRef ptr, LLVMValueRef mask, int lanes) {
  vtb_check(lanes > 1, "masked load of a scalar");
  LLVMTypeRef over[2] = {vtb_cpu_vector(c, lanes), c->ptr};
  LLVMValueRef args[4] = {ptr, LLVMConstInt(c->i32, 4, 0), mask, LLVMConstNull(over[0])};
  return call_intrinsic(c, "llvm.masked.load", over, 2, args, 4);
}

void vtb_cpu_store_masked(vtb_cpu *c, LLVMValueRef v, LLVMValueRef ptr, LLVMValueRef mask) {
  LLVMTypeRef over[2] = {LLVMTypeOf(v), c->ptr};
  LLVMValueRef args[4] = {v, ptr, LLVMConstInt(c->i32, 4, 0), mask};
  call_intrinsic(c, "llvm.masked.store", over, 2, args, 4);
}

LLVMValueRef vtb_cpu_fma(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y, LLVMValueRef z) {
  return vtb_cpu_intrinsic(c, "llvm.fma", (LLVMValueRef[]){x, y, z}, 3);
}

LLVMValueRef vtb_cpu_fmax(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y) {
  return LLVMBuildSelect(c->b, LLVMBuildFCmp(c->b, LLVMRealOGT, x, y, ""), x, y, "");
}

LLVMValueRef vtb_cpu_fmin(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y) {
  return LLVMBuildSelect(c->b, LLVMBuildFCmp(c->b, LLVMRealOLT, x, y, ""), x, y, "");
}

static LLVMValueRef join_add(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y) {
  return LLVMBuildFAdd(c->b, x, y, "");
}

/* Halves the vector until one lane is left: lane l with lane l + n/2. */
static LLVMValueRef halve(vtb_cpu *c, LLVMValueRef v,
                          LLVMValueRef (*join)(vtb_cpu *, LLVMValueRef, LLVMValueRef)) {
  int lanes = lanes_of(LLVMTypeOf(v));
  if (lanes == 1) return v;
  while (lanes > 1) {
    LLVMValueRef low[64], high[64];
    lanes /= 2;
    for (int i = 0; i < lanes; i++) {
      low[i] = LLVMConstInt(c->i32, (unsigned long long)i, 0);
      high[i] = LLVMConstInt(c->i32, (unsigned long long)(i + lanes), 0);
    }
    LLVMValueRef none = LLVMGetPoison(LLVMTypeOf(v));
    LLVMValueRef a =
        LLVMBuildShuffleVector(c->b, v, none, LLVMConstVector(low, (unsigned)lanes), "");
    LLVMValueRef b =
        LLVMBuildShuffleVector(c->b, v, none, LLVMConstVector(high, (unsigned)lanes), "");
    v = join(c, a, b);
  }
  return LLVMBuildExtractElement(c->b, v, vtb_cpu_i64(c, 0), "");
}

LLVMValueRef vtb_cpu_hsum(vtb_cpu *c, LLVMValueRef v) { return halve(c, v, join_add); }
LLVMValueRef vtb_cpu_hmax(vtb_cpu *c, LLVMValueRef v) { return halve(c, v, vtb_cpu_fmax); }
