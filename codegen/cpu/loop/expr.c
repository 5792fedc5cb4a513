/* Values of a body as LLVM values: loads, stores, elementwise ops, conditions.
 *
 * Conditions that do not vary from lane to lane become branches, so that what they exclude is never
 * read; the others select.
 */
#include "codegen/cpu/loop/expr.h"
#include "ir/ops.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/random.h"

/* ---- lanes ----------------------------------------------------------------------------------- */

static bool is_vector(LLVMValueRef v) {
  return LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind;
}

LLVMValueRef vtb__widen(vtb_cpu_expr *e, LLVMValueRef v) {
  return is_vector(v) ? v : vtb_cpu_splat(e->c, v, e->body.lanes);
}

static void unify(vtb_cpu_expr *e, LLVMValueRef *v, int n) {
  bool any = false;
  for (int i = 0; i < n; i++) any |= is_vector(v[i]);
  for (int i = 0; any && i < n; i++) v[i] = vtb__widen(e, v[i]);
}

static LLVMTypeRef element_type(vtb_cpu_expr *e, vtb_dtype d) {
  return d == VTB_F32 ? e->c->f32 : e->c->i32;
}

LLVMTypeRef vtb__lane_type(vtb_cpu_expr *e, vtb_dtype d) {
  LLVMTypeRef t = element_type(e, d);
  return e->body.lanes == 1 ? t : LLVMVectorType(t, (unsigned)e->body.lanes);
}

static LLVMValueRef scalar_constant(vtb_cpu_expr *e, vtb_dtype d, double v) {
  return d == VTB_F32 ? LLVMConstReal(e->c->f32, v)
                      : LLVMConstInt(e->c->i32, (unsigned long long)(int64_t)v, 1);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static LLVMValueRef intrinsic2(vtb_cpu_expr *e, const char *name, LLVMTypeRef a, LLVMTypeRef b,
                               LLVMValueRef *args, int n) {
  LLVMTypeRef over[] = {a, b};
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->c->module, id, over, 2);
  return LLVMBuildCall2(e->c->b, LLVMIntrinsicGetType(e->c->ctx, id, over, 2), fn, args,
                        (unsigned)n, "");
}

static LLVMValueRef all_lanes(vtb_cpu_expr *e) {
  return vtb_cpu_splat(e->c, LLVMConstInt(e->c->i1, 1, 0), e->body.lanes);
}

static LLVMValueRef gather(vtb_cpu_expr *e, vtb_dtype d, LLVMValueRef ptr, LLVMValueRef offsets) {
  vtb_cpu *c = e->c;
  LLVMTypeRef type = vtb__lane_type(e, d), ptrs = LLVMVectorType(c->ptr, (unsigned)e->body.lanes);
  LLVMValueRef at = LLVMBuildInBoundsGEP2(c->b, c->f32, ptr, &offsets, 1, "");
  LLVMValueRef args[] = {at, LLVMConstInt(c->i32, 4, 0), e->mask ? e->mask : all_lanes(e),
                         LLVMConstNull(type)};
  return intrinsic2(e, "llvm.masked.gather", type, ptrs, args, 4);
}

static LLVMValueRef load_scalar(vtb_cpu_expr *e, vtb_dtype d, LLVMValueRef ptr, LLVMValueRef at) {
  LLVMValueRef v = LLVMBuildLoad2(e->c->b, element_type(e, d), vtb_cpu_at(e->c, ptr, at), "");
  LLVMSetAlignment(v, 4);
  return v;
}

/* A load that does not depend on the innermost loop goes before it; never out of a branch that
 * guards it. */
static LLVMValueRef load_uniform(vtb_cpu_expr *e, vtb_dtype d, LLVMValueRef ptr,
                                 const vtb_index *at) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(e->c->b);
  bool inner = e->body.vec >= 0 && at->coef[e->body.groups[e->body.vec].last] != 0;
  bool lift = e->hoist && !e->body.conditions && !at->dyn && !inner;
  if (lift) LLVMPositionBuilderBefore(e->c->b, LLVMGetBasicBlockTerminator(e->hoist));
  LLVMValueRef v = load_scalar(e, d, ptr, vtb__index_emit(e, at).base);
  if (lift) LLVMPositionBuilderAtEnd(e->c->b, here);
  return v;
}

static LLVMValueRef load_at(vtb_cpu_expr *e, vtb_dtype d, LLVMValueRef ptr, const vtb_index *at) {
  vtb_cpu *c = e->c;
  if (!vtb__index_varies(&e->body, at)) return load_uniform(e, d, ptr, at);
  vtb_place_at p = vtb__index_emit(e, at);
  if (p.all || p.step != 1) return gather(e, d, ptr, p.all ? p.all : vtb__index_lanes(e, at));
  LLVMValueRef from = vtb_cpu_at(c, ptr, p.base);
  LLVMTypeRef type = vtb__lane_type(e, d);
  if (!e->mask) {
    LLVMValueRef v = LLVMBuildLoad2(c->b, type, from, "");
    LLVMSetAlignment(v, 4);
    return v;
  }
  LLVMValueRef args[] = {from, LLVMConstInt(c->i32, 4, 0), e->mask, LLVMConstNull(type)};
  return intrinsic2(e, "llvm.masked.load", type, c->ptr, args, 4);
}

void vtb__store(vtb_cpu_expr *e, LLVMValueRef v, LLVMValueRef ptr, const vtb_index *at) {
  vtb_place_at p = vtb__index_emit(e, at);
  LLVMValueRef to = vtb_cpu_at(e->c, ptr, p.base);
  if (!vtb__index_varies(&e->body, at)) {
    vtb_check(!is_vector(v), "a vector for one element");
    vtb_cpu_store(e->c, v, to);
    return;
  }
  vtb_check(p.step == 1 && !p.all, "strided store");
  v = vtb__widen(e, v);
  if (e->mask)
    vtb_cpu_store_masked(e->c, v, to, e->mask);
  else
    vtb_cpu_store(e->c, v, to);
}

static vtb_cpu_tensor leaf_tensor(vtb_cpu_expr *e, const vtb_leaf *leaf) {
  vtb_cpu_tensor t;
  if (leaf->tensor >= 0) {
    t = e->task->t[leaf->tensor];
    t.type = &leaf->value->type;
    if (leaf->stride) memcpy(t.stride, leaf->stride, sizeof *t.stride * (size_t)t.type->rank);
    return t;
  }
  t = (vtb_cpu_tensor){.type = &leaf->value->type};
  t.ptr = vtb_cpu_temp_ptr(e->c, e->task, leaf->temp);
  vtb__dense_strides(t.type, t.stride);
  if (leaf->stride) memcpy(t.stride, leaf->stride, sizeof *t.stride * (size_t)t.type->rank);
  return t;
}

static void *load_leaf(vtb_body *b, const vtb_leaf *leaf, const vtb_index *index) {
  vtb_cpu_expr *e = vtb__expr_of(b);
  vtb_cpu_tensor t = leaf_tensor(e, leaf);
  vtb_index at = vtb__linear(b, t.type, t.stride, index);
  return load_at(e, t.type->dtype, t.ptr, &at);
}

static void *load_table(vtb_body *b, vtb_dtype d, const int32_t *bits, size_t n,
                        const vtb_index *at) {
  vtb_cpu_expr *e = vtb__expr_of(b);
  return load_at(e, d, vtb__const_bytes(e->c, bits, n * sizeof *bits), at);
}

/* Offset of the current element in a kept row: the value of the vectorised variable. */
static vtb_index row_position(const vtb_body *b) {
  return vtb__index_var(b->groups[b->vec].last, 1);
}

static void *load_kept(vtb_body *b, const vtb_kept *k) {
  vtb_index at = row_position(b);
  return load_at(vtb__expr_of(b), VTB_F32, k->place, &at);
}

static void *store_kept(vtb_body *b, const vtb_kept *k, void *v) {
  vtb_index at = row_position(b);
  LLVMValueRef r = vtb__widen(vtb__expr_of(b), v);
  vtb__store(vtb__expr_of(b), r, k->place, &at);
  return r;
}

static void store_root(vtb_body *b, const vtb_root *r, const vtb_index *index, void *value) {
  vtb_cpu_expr *e = vtb__expr_of(b);
  vtb_index at = vtb__root_index(e, r, index);
  vtb__store(e, value, vtb__root_ptr(e, r), &at);
}

static int64_t new_temp(vtb_body *b, int64_t bytes) {
  return vtb_cpu_temp(vtb__expr_of(b)->c, bytes);
}

/* ---- conditions ------------------------------------------------------------------------------ */

static bool same_dyn(const void *x, const void *y) { return x == y; }

static void *both(vtb_body *b, void *x, void *y) {
  vtb_cpu_expr *e = vtb__expr_of(b);
  LLVMValueRef v[] = {x, y};
  unify(e, v, 2);
  return LLVMBuildAnd(e->c->b, v[0], v[1], "");
}

/* An arm's values are known inside its branch only. */
static void store_arm(vtb_cpu_expr *e, vtb_arm_fn arm, const void *user, bool yes,
                      LLVMValueRef var) {
  size_t known = e->body.memo.n;
  e->body.conditions++;
  LLVMBuildStore(e->c->b, vtb__widen(e, arm(&e->body, user, yes)), var);
  e->body.conditions--;
  e->body.memo.n = known;
}

static void *choose(vtb_body *b, vtb_dtype d, void *condition, vtb_arm_fn arm, const void *user) {
  vtb_cpu_expr *e = vtb__expr_of(b);
  vtb_cpu *c = e->c;
  if (is_vector(condition)) {
    LLVMValueRef yes = vtb__widen(e, arm(b, user, true)), no = vtb__widen(e, arm(b, user, false));
    return LLVMBuildSelect(c->b, condition, yes, no, "");
  }
  LLVMTypeRef type = vtb__lane_type(e, d);
  LLVMValueRef var = vtb_cpu_var(c, e->task, type);
  vtb_cpu_if branch = vtb_cpu_if_begin(c, condition);
  store_arm(e, arm, user, true, var);
  vtb_cpu_else(c, &branch);
  store_arm(e, arm, user, false, var);
  vtb_cpu_if_end(c, &branch);
  return LLVMBuildLoad2(c->b, type, var, "");
}

/* ---- elementwise ----------------------------------------------------------------------------- */

static LLVMValueRef like_int(vtb_cpu_expr *e, LLVMValueRef x, int64_t v) {
  LLVMValueRef k = LLVMConstInt(e->c->i32, (unsigned long long)v, 1);
  return is_vector(x) ? vtb_cpu_splat(e->c, k, e->body.lanes) : k;
}

static LLVMValueRef int_truth(vtb_cpu_expr *e, LLVMIntPredicate p, LLVMValueRef x, LLVMValueRef y) {
  LLVMTypeRef f = is_vector(x) ? vtb__lane_type(e, VTB_F32) : e->c->f32;
  return LLVMBuildUIToFP(e->c->b, LLVMBuildICmp(e->c->b, p, x, y, ""), f, "");
}

static LLVMValueRef pick_int(vtb_cpu_expr *e, LLVMIntPredicate p, LLVMValueRef x, LLVMValueRef y) {
  return LLVMBuildSelect(e->c->b, LLVMBuildICmp(e->c->b, p, x, y, ""), x, y, "");
}

/* Forms on i32, int_<name>: wrapping arithmetic. */
#define INT(name) static LLVMValueRef int_##name(vtb_cpu_expr *e, LLVMValueRef *a)

INT(neg) { return LLVMBuildSub(e->c->b, like_int(e, a[0], 0), a[0], ""); }
INT(abs) { return pick_int(e, LLVMIntSGT, a[0], int_neg(e, a)); }
INT(square) { return LLVMBuildMul(e->c->b, a[0], a[0], ""); }
INT(stop_gradient) { return (void)e, a[0]; }
INT(add) { return LLVMBuildAdd(e->c->b, a[0], a[1], ""); }
INT(sub) { return LLVMBuildSub(e->c->b, a[0], a[1], ""); }
INT(mul) { return LLVMBuildMul(e->c->b, a[0], a[1], ""); }
INT(max) { return pick_int(e, LLVMIntSGT, a[0], a[1]); }
INT(min) { return pick_int(e, LLVMIntSLT, a[0], a[1]); }
INT(gt) { return int_truth(e, LLVMIntSGT, a[0], a[1]); }
INT(ge) { return int_truth(e, LLVMIntSGE, a[0], a[1]); }
INT(eq) { return int_truth(e, LLVMIntEQ, a[0], a[1]); }

INT(sign) {
  LLVMBuilderRef b = e->c->b;
  LLVMValueRef minus = LLVMBuildAShr(b, a[0], like_int(e, a[0], 31), "");
  LLVMValueRef plus = LLVMBuildICmp(b, LLVMIntSGT, a[0], like_int(e, a[0], 0), "");
  return LLVMBuildOr(b, minus, LLVMBuildZExt(b, plus, LLVMTypeOf(a[0]), ""), "");
}

INT(select) {
  LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(a[0]));
  return LLVMBuildSelect(e->c->b, LLVMBuildICmp(e->c->b, LLVMIntNE, a[0], zero, ""), a[1], a[2],
                         "");
}

/* No other op is given i32: vtb__shape_broadcast() sees to it. */
#define FORM_ints(name) int_##name
#define FORM_floats(name) NULL
static LLVMValueRef (*const int_forms[VTB_OP_COUNT])(vtb_cpu_expr *e, LLVMValueRef *a) = {
#define VTB_SCALAR(name, n, formula, adjoints, eval, cpu, cuda, ints, ...)                         \
  [VTB_OP_##name] = FORM_##ints(name),
#include "ir/scalar_ops.def"
#undef VTB_SCALAR
};

static LLVMValueRef cast_op(vtb_cpu_expr *e, const vtb_inst *i, LLVMValueRef x) {
  vtb_dtype from = i->operands[0]->type.dtype, to = i->results[0]->type.dtype;
  if (from == to) return x;
  LLVMTypeRef type = is_vector(x) ? vtb__lane_type(e, to) : element_type(e, to);
  if (to == VTB_F32) return LLVMBuildSIToFP(e->c->b, x, type, "");
  /* saturating, NaN to 0: no undefined values from any input */
  LLVMTypeRef over[] = {type, LLVMTypeOf(x)};
  return intrinsic2(e, "llvm.fptosi.sat", over[0], over[1], &x, 1);
}

/* x * y + z may be contracted: the same on every thread and in every loop. */
static LLVMValueRef contract(LLVMValueRef v) {
  if (LLVMIsAInstruction(v) && LLVMCanValueUseFastMathFlags(v))
    LLVMSetFastMathFlags(v, LLVMFastMathAllowContract);
  return v;
}

/* For the reader of a dump; what an op merely passed on has a name already. */
static LLVMValueRef name_result(const vtb_inst *i, LLVMValueRef v) {
  const char *name = i->results[0]->name;
  size_t length;
  LLVMGetValueName2(v, &length);
  if (LLVMIsAInstruction(v) && length == 0) LLVMSetValueName2(v, name, strlen(name));
  return v;
}

static void *elementwise(vtb_body *b, const vtb_inst *i, void **operands) {
  vtb_cpu_expr *e = vtb__expr_of(b);
  LLVMValueRef a[3];
  for (int o = 0; o < i->n_operands; o++) a[o] = operands[o];
  unify(e, a, i->n_operands);
  if (i->op == VTB_OP_cast) return cast_op(e, i, a[0]);
  if (i->operands[0]->type.dtype == VTB_I32) return int_forms[i->op](e, a);
  LLVMValueRef r = name_result(i, vtb_cpu_scalar_op(e->c, i->op, a));
  return i->op == VTB_OP_add || i->op == VTB_OP_sub || i->op == VTB_OP_mul ? contract(r) : r;
}

/* ---- sources --------------------------------------------------------------------------------- */

static void *number(vtb_body *b, vtb_dtype d, double v) {
  return scalar_constant(vtb__expr_of(b), d, v);
}

static void *as_dyn(vtb_body *b, void *i32) {
  vtb_cpu_expr *e = vtb__expr_of(b);
  LLVMTypeRef wide = is_vector(i32) ? LLVMVectorType(e->c->i64, (unsigned)b->lanes) : e->c->i64;
  return LLVMBuildSExt(e->c->b, i32, wide, "");
}

/* The steps of vtb_random_mix(). */
static LLVMValueRef random_mix(vtb_cpu_expr *e, LLVMValueRef x) {
  LLVMBuilderRef b = e->c->b;
  x = LLVMBuildXor(b, x, LLVMBuildLShr(b, x, like_int(e, x, 16), ""), "");
  x = LLVMBuildMul(b, x, like_int(e, x, VTB_RANDOM_MUL_1), "");
  x = LLVMBuildXor(b, x, LLVMBuildLShr(b, x, like_int(e, x, 15), ""), "");
  x = LLVMBuildMul(b, x, like_int(e, x, VTB_RANDOM_MUL_2), "");
  return LLVMBuildXor(b, x, LLVMBuildLShr(b, x, like_int(e, x, 16), ""), "");
}

static void *random_value(vtb_body *body, void *seed, uint32_t stream, const vtb_index *at) {
  vtb_cpu_expr *e = vtb__expr_of(body);
  LLVMBuilderRef b = e->c->b;
  LLVMValueRef key =
      random_mix(e, LLVMBuildAdd(b, seed, like_int(e, seed, VTB_RANDOM_SEED_OFFSET), ""));
  key = random_mix(e, LLVMBuildXor(b, key, like_int(e, key, stream), ""));
  LLVMValueRef a[2] = {vtb__cpu_index_position(body, VTB_I32, at), key};
  unify(e, a, 2);
  LLVMValueRef hash = random_mix(e, LLVMBuildXor(b, a[0], a[1], ""));
  hash = LLVMBuildLShr(b, hash, like_int(e, hash, 8), "");
  LLVMValueRef f =
      LLVMBuildUIToFP(b, hash, is_vector(hash) ? vtb__lane_type(e, VTB_F32) : e->c->f32, "");
  return LLVMBuildFMul(b, f, vtb_cpu_like(e->c, f, 0x1p-24), "");
}

/* ---- the target ------------------------------------------------------------------------------ */

static const vtb_body_target target = {.most_together = 16,
                                       .same = same_dyn,
                                       .add = vtb__cpu_index_add,
                                       .scale = vtb__cpu_index_scale,
                                       .divide = vtb__cpu_index_divide,
                                       .clamp = vtb__cpu_index_clamp,
                                       .load = load_leaf,
                                       .number = number,
                                       .table = load_table,
                                       .position = vtb__cpu_index_position,
                                       .as_dyn = as_dyn,
                                       .random = random_value,
                                       .elementwise = elementwise,
                                       .load_kept = load_kept,
                                       .store_kept = store_kept,
                                       .within = vtb__cpu_index_within,
                                       .both = both,
                                       .choose = choose,
                                       .begin_probe = vtb__cpu_begin_probe,
                                       .end_probe = vtb__cpu_end_probe,
                                       .store = store_root,
                                       .temp = new_temp,
                                       .loop = vtb__emit_loop,
                                       .row = vtb__emit_row,
                                       .reduce = vtb__emit_reduce};

void vtb__expr_init(vtb_cpu_expr *e, vtb_cpu *c, const vtb_inst *inst) {
  *e = (vtb_cpu_expr){.c = c, .weight = inst ? vtb__body_weight(inst) : 1};
  vtb__body_init(&e->body, &target, inst);
}

void vtb__expr_free(vtb_cpu_expr *e) { vtb__body_free(&e->body); }

LLVMValueRef vtb__eval(vtb_cpu_expr *e, const vtb_value *v, const vtb_index *index) {
  return vtb__body_eval(&e->body, v, index);
}
