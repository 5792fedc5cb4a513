/* Values of a body at an index: every op that is an expression of its operands or a change of index.
 *
 * A value is a scalar while it does not vary from lane to lane, else a vector of e->lanes; the two mix by splatting.
 * Conditions that do not vary become branches, so that what they exclude is never read; the others clamp and select.
 */
#include "codegen/cpu/expr.h"

#include <stdlib.h>
#include <string.h>

#include "ir/path.h"
#include "runtime/base/random.h"

/* ---- lanes ------------------------------------------------------------------------------------------------ */

static bool is_vector(LLVMValueRef v) { return LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind; }

LLVMValueRef vtb__widen(vtb_expr *e, LLVMValueRef v) { return is_vector(v) ? v : vtb_cpu_splat(e->c, v, e->lanes); }

static void unify(vtb_expr *e, LLVMValueRef *v, int n) {
  bool any = false;
  for (int i = 0; i < n; i++) any |= is_vector(v[i]);
  for (int i = 0; any && i < n; i++) v[i] = vtb__widen(e, v[i]);
}

static LLVMTypeRef element_type(vtb_expr *e, vtb_dtype d) { return d == VTB_F32 ? e->c->f32 : e->c->i32; }

static LLVMTypeRef lane_type(vtb_expr *e, vtb_dtype d) {
  LLVMTypeRef t = element_type(e, d);
  return e->lanes == 1 ? t : LLVMVectorType(t, (unsigned)e->lanes);
}

static LLVMValueRef scalar_constant(vtb_expr *e, vtb_dtype d, double v) {
  return d == VTB_F32 ? LLVMConstReal(e->c->f32, v) : LLVMConstInt(e->c->i32, (unsigned long long)(int64_t)v, 1);
}

/* ---- memory ----------------------------------------------------------------------------------------------- */

vtb_index vtb__linear(vtb_expr *e, const vtb_type *t, const int64_t *stride, const vtb_index *index) {
  vtb_index at = {0};
  for (int a = 0; a < t->rank; a++) {
    if (t->dim[a].size == 1) continue;
    vtb_index part = vtb__index_scale(e, &index[a], stride[a]);
    at = vtb__index_add(e, &at, &part);
  }
  return at;
}

static LLVMValueRef intrinsic2(vtb_expr *e, const char *name, LLVMTypeRef a, LLVMTypeRef b, LLVMValueRef *args, int n) {
  LLVMTypeRef over[] = {a, b};
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->c->module, id, over, 2);
  return LLVMBuildCall2(e->c->b, LLVMIntrinsicGetType(e->c->ctx, id, over, 2), fn, args, (unsigned)n, "");
}

static LLVMValueRef all_lanes(vtb_expr *e) { return vtb_cpu_splat(e->c, LLVMConstInt(e->c->i1, 1, 0), e->lanes); }

static LLVMValueRef gather(vtb_expr *e, vtb_dtype d, LLVMValueRef ptr, LLVMValueRef offsets) {
  vtb_cpu *c = e->c;
  LLVMTypeRef type = lane_type(e, d), ptrs = LLVMVectorType(c->ptr, (unsigned)e->lanes);
  LLVMValueRef at = LLVMBuildInBoundsGEP2(c->b, c->f32, ptr, &offsets, 1, "");
  LLVMValueRef args[] = {at, LLVMConstInt(c->i32, 4, 0), e->mask ? e->mask : all_lanes(e), LLVMConstNull(type)};
  return intrinsic2(e, "llvm.masked.gather", type, ptrs, args, 4);
}

static LLVMValueRef load_scalar(vtb_expr *e, vtb_dtype d, LLVMValueRef ptr, LLVMValueRef at) {
  LLVMValueRef v = LLVMBuildLoad2(e->c->b, element_type(e, d), vtb_cpu_at(e->c, ptr, at), "");
  LLVMSetAlignment(v, 4);
  return v;
}

/* A load that does not depend on the innermost loop goes before it; never out of a branch that guards it. */
static LLVMValueRef load_uniform(vtb_expr *e, vtb_dtype d, LLVMValueRef ptr, const vtb_index *at) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(e->c->b);
  bool inner = e->vec >= 0 && at->coef[e->groups[e->vec].last] != 0;
  bool lift = e->hoist && !e->conditions && !at->dyn && !inner;
  if (lift) LLVMPositionBuilderBefore(e->c->b, LLVMGetBasicBlockTerminator(e->hoist));
  LLVMValueRef v = load_scalar(e, d, ptr, vtb__index_emit(e, at).base);
  if (lift) LLVMPositionBuilderAtEnd(e->c->b, here);
  return v;
}

static LLVMValueRef load_at(vtb_expr *e, vtb_dtype d, LLVMValueRef ptr, const vtb_index *at) {
  vtb_cpu *c = e->c;
  if (!vtb__index_varies(e, at)) return load_uniform(e, d, ptr, at);
  vtb_place_at p = vtb__index_emit(e, at);
  if (p.all || p.step != 1) return gather(e, d, ptr, p.all ? p.all : vtb__index_lanes(e, at));
  LLVMValueRef from = vtb_cpu_at(c, ptr, p.base);
  LLVMTypeRef type = lane_type(e, d);
  if (!e->mask) {
    LLVMValueRef v = LLVMBuildLoad2(c->b, type, from, "");
    LLVMSetAlignment(v, 4);
    return v;
  }
  LLVMValueRef args[] = {from, LLVMConstInt(c->i32, 4, 0), e->mask, LLVMConstNull(type)};
  return intrinsic2(e, "llvm.masked.load", type, c->ptr, args, 4);
}

LLVMValueRef vtb__load(vtb_expr *e, const vtb_cpu_tensor *t, const vtb_index *index) {
  vtb_index at = vtb__linear(e, t->type, t->stride, index);
  return load_at(e, t->type->dtype, t->ptr, &at);
}

void vtb__store(vtb_expr *e, LLVMValueRef v, LLVMValueRef ptr, const vtb_index *at) {
  vtb_place_at p = vtb__index_emit(e, at);
  LLVMValueRef to = vtb_cpu_at(e->c, ptr, p.base);
  if (!vtb__index_varies(e, at)) {
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

const vtb_leaf *vtb__leaf_find(const vtb_expr *e, const vtb_value *v) {
  for (size_t i = 0; i < e->leaves.n; i++)
    if (e->leaves.at[i].value == v) return &e->leaves.at[i];
  return NULL;
}

vtb_cpu_tensor vtb__leaf_tensor(vtb_expr *e, const vtb_leaf *leaf) {
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

/* ---- conditions ------------------------------------------------------------------------------------------- */

typedef enum truth { NEVER, ALWAYS, SOMETIMES } truth;

/* lo <= x < hi; *cond is set, scalar or lanes, when that is not known now. */
static truth in_range(vtb_expr *e, const vtb_index *x, int64_t lo, int64_t hi, LLVMValueRef *cond) {
  int64_t min, max;
  LLVMBuilderRef b = e->c->b;
  if (vtb__index_bounds(e, x, &min, &max)) {
    if (min >= lo && max < hi) return ALWAYS;
    if (max < lo || min >= hi) return NEVER;
  }
  bool varies = vtb__index_varies(e, x);
  LLVMValueRef v = varies ? vtb__index_lanes(e, x) : vtb__index_emit(e, x).base;
  LLVMValueRef from = vtb_cpu_i64(e->c, lo), to = vtb_cpu_i64(e->c, hi);
  if (varies) {
    from = vtb_cpu_splat(e->c, from, e->lanes);
    to = vtb_cpu_splat(e->c, to, e->lanes);
  }
  *cond = LLVMBuildAnd(b, LLVMBuildICmp(b, LLVMIntSGE, v, from, ""), LLVMBuildICmp(b, LLVMIntSLT, v, to, ""), "");
  return SOMETIMES;
}

/* x clamped into [lo, hi), a run-time index. */
static vtb_index clamp(vtb_expr *e, const vtb_index *x, int64_t lo, int64_t hi) {
  LLVMBuilderRef b = e->c->b;
  vtb_index r = {.lanes = vtb__index_varies(e, x)};
  LLVMValueRef v = r.lanes ? vtb__index_lanes(e, x) : vtb__index_emit(e, x).base;
  LLVMValueRef from = vtb_cpu_i64(e->c, lo), to = vtb_cpu_i64(e->c, hi - 1);
  if (r.lanes) {
    from = vtb_cpu_splat(e->c, from, e->lanes);
    to = vtb_cpu_splat(e->c, to, e->lanes);
  }
  v = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, v, from, ""), from, v, "");
  r.dyn = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSGT, v, to, ""), to, v, "");
  return r;
}

/* One arm of a condition: a value at an index, or a constant if value is NULL. */
typedef struct arm {
  const vtb_value *value;
  const vtb_index *index;
  double fill;
} arm;

static LLVMValueRef eval_arm(vtb_expr *e, const arm *a, vtb_dtype d) {
  return a->value ? vtb__eval(e, a->value, a->index) : scalar_constant(e, d, a->fill);
}

/* What an arm computes is known inside its branch only. */
static void store_arm(vtb_expr *e, const arm *a, vtb_dtype d, LLVMValueRef var) {
  size_t known = e->memo.n;
  e->conditions++;
  LLVMBuildStore(e->c->b, vtb__widen(e, eval_arm(e, a, d)), var);
  e->conditions--;
  e->memo.n = known;
}

/* `yes` where cond, else `no`. Arms of a condition that varies must be readable everywhere (clamped). */
static LLVMValueRef choose(vtb_expr *e, LLVMValueRef cond, const arm *yes, const arm *no, vtb_dtype d) {
  vtb_cpu *c = e->c;
  if (is_vector(cond)) {
    LLVMValueRef v[2] = {vtb__widen(e, eval_arm(e, yes, d)), vtb__widen(e, eval_arm(e, no, d))};
    return LLVMBuildSelect(c->b, cond, v[0], v[1], "");
  }
  LLVMTypeRef type = lane_type(e, d);
  LLVMValueRef var = vtb_cpu_var(c, e->task, type);
  vtb_cpu_if branch = vtb_cpu_if_begin(c, cond);
  store_arm(e, yes, d, var);
  vtb_cpu_else(c, &branch);
  store_arm(e, no, d, var);
  vtb_cpu_if_end(c, &branch);
  return LLVMBuildLoad2(c->b, type, var, "");
}

/* ---- elementwise ------------------------------------------------------------------------------------------ */

/* Numpy broadcast: the operand's axes are the last ones of the result. */
static void operand_index(const vtb_value *operand, const vtb_type *result, const vtb_index *index, vtb_index *out) {
  int skip = result->rank - operand->type.rank;
  for (int a = 0; a < operand->type.rank; a++)
    out[a] = operand->type.dim[a].size == 1 ? vtb__index_const(0) : index[a + skip];
}

static LLVMValueRef like_int(vtb_expr *e, LLVMValueRef x, int64_t v) {
  LLVMValueRef k = LLVMConstInt(e->c->i32, (unsigned long long)v, 1);
  return is_vector(x) ? vtb_cpu_splat(e->c, k, e->lanes) : k;
}

static LLVMValueRef int_truth(vtb_expr *e, LLVMIntPredicate p, LLVMValueRef x, LLVMValueRef y) {
  LLVMTypeRef f = is_vector(x) ? lane_type(e, VTB_F32) : e->c->f32;
  return LLVMBuildUIToFP(e->c->b, LLVMBuildICmp(e->c->b, p, x, y, ""), f, "");
}

static LLVMValueRef pick_int(vtb_expr *e, LLVMIntPredicate p, LLVMValueRef x, LLVMValueRef y) {
  return LLVMBuildSelect(e->c->b, LLVMBuildICmp(e->c->b, p, x, y, ""), x, y, "");
}

static LLVMValueRef int_op(vtb_expr *e, vtb_op op, LLVMValueRef *a) {
  LLVMBuilderRef b = e->c->b;
  LLVMValueRef zero = like_int(e, a[0], 0), minus;
  switch (op) {
  case VTB_OP_neg:
    return LLVMBuildSub(b, zero, a[0], "");
  case VTB_OP_abs:
    return pick_int(e, LLVMIntSGT, a[0], LLVMBuildSub(b, zero, a[0], ""));
  case VTB_OP_sign:
    minus = LLVMBuildAShr(b, a[0], like_int(e, a[0], 31), "");
    return LLVMBuildOr(b, minus, LLVMBuildZExt(b, LLVMBuildICmp(b, LLVMIntSGT, a[0], zero, ""), LLVMTypeOf(a[0]), ""),
                       "");
  case VTB_OP_square:
    return LLVMBuildMul(b, a[0], a[0], "");
  case VTB_OP_stop_gradient:
    return a[0];
  case VTB_OP_add:
    return LLVMBuildAdd(b, a[0], a[1], "");
  case VTB_OP_sub:
    return LLVMBuildSub(b, a[0], a[1], "");
  case VTB_OP_mul:
    return LLVMBuildMul(b, a[0], a[1], "");
  case VTB_OP_max:
    return pick_int(e, LLVMIntSGT, a[0], a[1]);
  case VTB_OP_min:
    return pick_int(e, LLVMIntSLT, a[0], a[1]);
  case VTB_OP_gt:
    return int_truth(e, LLVMIntSGT, a[0], a[1]);
  case VTB_OP_ge:
    return int_truth(e, LLVMIntSGE, a[0], a[1]);
  case VTB_OP_eq:
    return int_truth(e, LLVMIntEQ, a[0], a[1]);
  default:
    vtb_bug("op %s of i32", vtb_op_get(op)->name);
  }
}

static LLVMValueRef cast_op(vtb_expr *e, const vtb_inst *i, LLVMValueRef x) {
  vtb_dtype from = i->operands[0]->type.dtype, to = i->results[0]->type.dtype;
  if (from == to) return x;
  LLVMTypeRef type = is_vector(x) ? lane_type(e, to) : element_type(e, to);
  if (to == VTB_F32) return LLVMBuildSIToFP(e->c->b, x, type, "");
  /* saturating, NaN to 0: no undefined values from any input */
  LLVMTypeRef over[] = {type, LLVMTypeOf(x)};
  return intrinsic2(e, "llvm.fptosi.sat", over[0], over[1], &x, 1);
}

static LLVMValueRef select_op(vtb_expr *e, const vtb_inst *i, LLVMValueRef *a) {
  LLVMBuilderRef b = e->c->b;
  LLVMValueRef cond = i->operands[0]->type.dtype == VTB_F32
                          ? LLVMBuildFCmp(b, LLVMRealUNE, a[0], LLVMConstNull(LLVMTypeOf(a[0])), "")
                          : LLVMBuildICmp(b, LLVMIntNE, a[0], LLVMConstNull(LLVMTypeOf(a[0])), "");
  return LLVMBuildSelect(b, cond, a[1], a[2], "");
}

/* x * y + z may be contracted: the same on every thread and in every loop. */
static LLVMValueRef contract(LLVMValueRef v) {
  if (LLVMIsAInstruction(v) && LLVMCanValueUseFastMathFlags(v)) LLVMSetFastMathFlags(v, LLVMFastMathAllowContract);
  return v;
}

static LLVMValueRef eval_elementwise(vtb_expr *e, const vtb_value *v, const vtb_index *index) {
  const vtb_inst *i = v->def;
  LLVMValueRef a[3];
  for (int o = 0; o < i->n_operands; o++) {
    vtb_index at[VTB_MAX_RANK];
    operand_index(i->operands[o], &v->type, index, at);
    a[o] = vtb__eval(e, i->operands[o], at);
  }
  unify(e, a, i->n_operands);
  if (i->op == VTB_OP_cast) return cast_op(e, i, a[0]);
  if (i->op == VTB_OP_select) return select_op(e, i, a);
  if (i->operands[0]->type.dtype == VTB_I32) return int_op(e, i->op, a);
  LLVMValueRef r = vtb_cpu_scalar_op(e->c, i->op, a);
  return i->op == VTB_OP_add || i->op == VTB_OP_sub || i->op == VTB_OP_mul ? contract(r) : r;
}

/* ---- sources ---------------------------------------------------------------------------------------------- */

static LLVMValueRef table_of(vtb_expr *e, const vtb_inst *i, const vtb_attr *data) {
  int32_t *bits = vtb_xmalloc((size_t)data->n * sizeof *bits + 1);
  for (int k = 0; k < data->n; k++) {
    float f = (float)data->floats[k];
    bits[k] = (int32_t)data->floats[k];
    if (i->results[0]->type.dtype == VTB_F32) memcpy(&bits[k], &f, sizeof f);
  }
  LLVMValueRef table = vtb__const_bytes(e->c, bits, (size_t)data->n * sizeof *bits);
  free(bits);
  return table;
}

static LLVMValueRef eval_constant(vtb_expr *e, const vtb_value *v, const vtb_index *index) {
  const vtb_attr *data = vtb_attr_find(v->def, "data");
  if (!data) return scalar_constant(e, v->type.dtype, vtb_attr_float(v->def, "value", 0));
  int64_t stride[VTB_MAX_RANK];
  vtb__dense_strides(&v->type, stride);
  vtb_index at = vtb__linear(e, &v->type, stride, index);
  return load_at(e, v->type.dtype, table_of(e, v->def, data), &at);
}

/* An index as a value of i32 lanes. */
static LLVMValueRef index_value(vtb_expr *e, const vtb_index *x) {
  bool varies = vtb__index_varies(e, x);
  LLVMValueRef v = varies ? vtb__index_lanes(e, x) : vtb__index_emit(e, x).base;
  return LLVMBuildTrunc(e->c->b, v, varies ? lane_type(e, VTB_I32) : e->c->i32, "");
}

static LLVMValueRef eval_iota(vtb_expr *e, const vtb_value *v, const vtb_index *index) {
  LLVMValueRef n = index_value(e, &index[vtb_attr_int(v->def, "axis", 0)]);
  if (v->type.dtype == VTB_I32) return n;
  return LLVMBuildSIToFP(e->c->b, n, is_vector(n) ? lane_type(e, VTB_F32) : e->c->f32, "");
}

/* The steps of vtb_random_mix(). */
static LLVMValueRef random_mix(vtb_expr *e, LLVMValueRef x) {
  LLVMBuilderRef b = e->c->b;
  x = LLVMBuildXor(b, x, LLVMBuildLShr(b, x, like_int(e, x, 16), ""), "");
  x = LLVMBuildMul(b, x, like_int(e, x, VTB_RANDOM_MUL_1), "");
  x = LLVMBuildXor(b, x, LLVMBuildLShr(b, x, like_int(e, x, 15), ""), "");
  x = LLVMBuildMul(b, x, like_int(e, x, VTB_RANDOM_MUL_2), "");
  return LLVMBuildXor(b, x, LLVMBuildLShr(b, x, like_int(e, x, 16), ""), "");
}

static LLVMValueRef eval_random(vtb_expr *e, const vtb_value *v, const vtb_index *index) {
  LLVMBuilderRef b = e->c->b;
  int64_t stride[VTB_MAX_RANK];
  vtb_index zero[VTB_MAX_RANK] = {{0}};
  vtb__dense_strides(&v->type, stride);
  LLVMValueRef seed = vtb__eval(e, v->def->operands[0], zero);
  LLVMValueRef key = random_mix(e, LLVMBuildAdd(b, seed, like_int(e, seed, VTB_RANDOM_SEED_OFFSET), ""));
  int64_t stream = (int64_t)(uint32_t)vtb_attr_int(v->def, "stream", 0);
  key = random_mix(e, LLVMBuildXor(b, key, like_int(e, key, stream), ""));
  vtb_index at = vtb__linear(e, &v->type, stride, index);
  LLVMValueRef a[2] = {index_value(e, &at), key};
  unify(e, a, 2);
  LLVMValueRef hash = random_mix(e, LLVMBuildXor(b, a[0], a[1], ""));
  hash = LLVMBuildLShr(b, hash, like_int(e, hash, 8), "");
  LLVMValueRef f = LLVMBuildUIToFP(b, hash, is_vector(hash) ? lane_type(e, VTB_F32) : e->c->f32, "");
  return LLVMBuildFMul(b, f, vtb_cpu_like(e->c, f, 0x1p-24), "");
}

/* ---- views ------------------------------------------------------------------------------------------------ */

/* Row-major regrouping: runs of axes with equal products are joined, then cut at the operand's sizes. */
static void reshape_index(vtb_expr *e, const vtb_type *to, const vtb_index *index, const vtb_type *from,
                          vtb_index *out) {
  int a = to->rank - 1, b = from->rank - 1;
  while (b >= 0) {
    if (from->dim[b].size == 1) {
      out[b--] = vtb__index_const(0);
      continue;
    }
    while (a >= 0 && to->dim[a].size == 1) a--;
    vtb_check(a >= 0, "reshape of different counts");
    int first = b;
    int64_t have = to->dim[a].size, want = from->dim[b].size;
    vtb_index joined = index[a--];
    while (have != want) {
      if (have < want) {
        vtb_index part = vtb__index_scale(e, &index[a], have);
        joined = vtb__index_add(e, &joined, &part);
        have *= to->dim[a--].size;
      } else {
        want *= from->dim[--first].size;
      }
    }
    for (int k = b; k > first; k--) {
      vtb_index q;
      vtb__index_split(e, &joined, from->dim[k].size, &q, &out[k]);
      joined = q;
    }
    out[first] = joined;
    b = first - 1;
  }
}

static LLVMValueRef eval_pad(vtb_expr *e, const vtb_value *v, const vtb_index *index) {
  const vtb_inst *i = v->def;
  const vtb_value *x = i->operands[0];
  int axis = (int)vtb_attr_int(i, "axis", 0);
  int64_t step = vtb_attr_int(i, "step", 1), size = x->type.dim[axis].size;
  vtb_index at[VTB_MAX_RANK];
  memcpy(at, index, sizeof *at * (size_t)v->type.rank);
  at[axis] = vtb__index_shift(&index[axis], -vtb_attr_int(i, "low", 0));
  LLVMValueRef cond = NULL;
  truth t = in_range(e, &at[axis], 0, (size - 1) * step + 1, &cond);
  if (t == NEVER) return scalar_constant(e, v->type.dtype, 0);
  bool varies = vtb__index_varies(e, &at[axis]);
  if (t == SOMETIMES && (varies || step > 1)) at[axis] = clamp(e, &at[axis], 0, (size - 1) * step + 1);
  if (step > 1) { /* only multiples of step come from x */
    vtb_index q, r;
    LLVMValueRef whole = NULL;
    vtb__index_split(e, &at[axis], step, &q, &r);
    truth tw = in_range(e, &r, 0, 1, &whole);
    if (tw == NEVER) return scalar_constant(e, v->type.dtype, 0);
    if (tw == SOMETIMES) {
      LLVMValueRef both[2] = {cond ? cond : whole, whole};
      unify(e, both, 2);
      cond = cond ? LLVMBuildAnd(e->c->b, both[0], both[1], "") : whole;
      t = SOMETIMES;
    }
    at[axis] = q;
  }
  if (t == ALWAYS) return vtb__eval(e, x, at);
  return choose(e, cond, &(arm){x, at, 0}, &(arm){0}, v->type.dtype);
}

static LLVMValueRef eval_concat(vtb_expr *e, const vtb_value *v, const vtb_index *index, int k, int64_t start) {
  const vtb_inst *i = v->def;
  int axis = (int)vtb_attr_int(i, "axis", 0);
  const vtb_value *x = i->operands[k];
  int64_t size = x->type.dim[axis].size;
  vtb_index at[VTB_MAX_RANK];
  memcpy(at, index, sizeof *at * (size_t)v->type.rank);
  at[axis] = vtb__index_shift(&index[axis], -start);
  if (k + 1 == i->n_operands) {
    if (vtb__index_varies(e, &at[axis])) at[axis] = clamp(e, &at[axis], 0, size);
    return vtb__eval(e, x, at);
  }
  LLVMValueRef cond = NULL;
  truth t = in_range(e, &index[axis], start, start + size, &cond);
  if (t == ALWAYS) return vtb__eval(e, x, at);
  if (t == NEVER) return eval_concat(e, v, index, k + 1, start + size);
  vtb_cpu *c = e->c;
  if (is_vector(cond)) {
    at[axis] = clamp(e, &at[axis], 0, size);
    LLVMValueRef yes = vtb__widen(e, vtb__eval(e, x, at));
    LLVMValueRef no = vtb__widen(e, eval_concat(e, v, index, k + 1, start + size));
    return LLVMBuildSelect(c->b, cond, yes, no, "");
  }
  LLVMValueRef var = vtb_cpu_var(c, e->task, lane_type(e, v->type.dtype));
  vtb_cpu_if branch = vtb_cpu_if_begin(c, cond);
  store_arm(e, &(arm){x, at, 0}, v->type.dtype, var);
  vtb_cpu_else(c, &branch);
  size_t known = e->memo.n;
  e->conditions++;
  LLVMBuildStore(c->b, vtb__widen(e, eval_concat(e, v, index, k + 1, start + size)), var);
  e->conditions--;
  e->memo.n = known;
  vtb_cpu_if_end(c, &branch);
  return LLVMBuildLoad2(c->b, lane_type(e, v->type.dtype), var, "");
}

/* ---- along a path ----------------------------------------------------------------------------------------- */

/* from[s]: which position of x comes to position s; -1: none. */
static int32_t *source_table(const vtb_inst *i, int64_t n) {
  int64_t *perm = vtb_xmalloc((size_t)n * sizeof *perm);
  const char *text = vtb_attr_str(i, "path", NULL);
  for (int64_t t = 0; t < n; t++) perm[t] = t;
  if (text) {
    vtb_path path;
    vtb_error err = {0};
    vtb_check(vtb_path_parse(text, &path, &err) == VTB_OK && path.n == n, "path %s: %s", text, err.text);
    vtb_path_indices(&path, perm);
    vtb_path_free(&path);
  }
  int32_t *from = vtb_xmalloc((size_t)n * sizeof *from);
  int64_t by = vtb_attr_int(i, "by", 0);
  bool inverse = vtb_attr_int(i, "inverse", 0) != 0;
  for (int64_t t = 0; t < n; t++) {
    if (i->op == VTB_OP_shift)
      from[perm[t]] = t - by >= 0 && t - by < n ? (int32_t)perm[t - by] : -1;
    else if (inverse)
      from[perm[t]] = (int32_t)t;
    else
      from[t] = (int32_t)perm[t];
  }
  free(perm);
  return from;
}

/* from[s] = a s + b for lo <= s < hi, -1 elsewhere. */
static bool table_is_line(const int32_t *from, int64_t n, int64_t *lo, int64_t *hi, int64_t *a, int64_t *b) {
  for (*lo = 0; *lo < n && from[*lo] < 0;) ++*lo;
  for (*hi = n; *hi > *lo && from[*hi - 1] < 0;) --*hi;
  *a = *hi - *lo > 1 ? from[*lo + 1] - from[*lo] : 1;
  *b = *lo < n ? from[*lo] - *a * *lo : 0;
  for (int64_t s = *lo; s < *hi; s++)
    if (from[s] < 0 || from[s] != *a * s + *b) return false;
  return true;
}

/* from[s] = from[0] + (s / inner) outer_step + (s % inner) inner_step, nothing missing. */
static bool table_is_grid(const int32_t *from, int64_t n, int64_t *inner, int64_t *outer_step, int64_t *inner_step) {
  if (n < 4 || from[0] < 0) return false;
  *inner_step = from[1] - from[0];
  for (*inner = 1; *inner < n && from[*inner] - from[*inner - 1] == *inner_step;) ++*inner;
  if (*inner == n || n % *inner) return false;
  *outer_step = from[*inner] - from[0];
  for (int64_t s = 0; s < n; s++)
    if (from[s] != from[0] + s / *inner * *outer_step + s % *inner * *inner_step) return false;
  return true;
}

/* Index into x along the axis; *cond as in_range. */
static truth source_index(vtb_expr *e, const vtb_inst *i, int64_t n, const vtb_index *at, vtb_index *out,
                          LLVMValueRef *cond) {
  int32_t *from = source_table(i, n);
  int64_t lo, hi, a, b;
  truth t = ALWAYS;
  if (table_is_line(from, n, &lo, &hi, &a, &b)) {
    t = hi > lo ? in_range(e, at, lo, hi, cond) : NEVER;
    *out = vtb__index_scale(e, at, a);
    *out = vtb__index_shift(out, b);
    if (t == SOMETIMES && vtb__index_varies(e, out)) *out = clamp(e, out, 0, n);
    free(from);
    return t;
  }
  if (table_is_grid(from, n, &lo, &a, &b)) {
    vtb_index q, r;
    if (vtb__index_split(e, at, lo, &q, &r)) {
      q = vtb__index_scale(e, &q, a);
      r = vtb__index_scale(e, &r, b);
      *out = vtb__index_add(e, &q, &r);
      *out = vtb__index_shift(out, from[0]);
      free(from);
      return ALWAYS;
    }
  }
  LLVMValueRef entry = load_at(e, VTB_I32, vtb_cpu_const_i32(e->c, from, (size_t)n), at);
  bool missing = false;
  for (int64_t s = 0; s < n; s++) missing |= from[s] < 0;
  free(from);
  *out = (vtb_index){.lanes = is_vector(entry)};
  LLVMTypeRef wide = out->lanes ? LLVMVectorType(e->c->i64, (unsigned)e->lanes) : e->c->i64;
  out->dyn = LLVMBuildSExt(e->c->b, entry, wide, "");
  if (!missing) return ALWAYS;
  t = in_range(e, out, 0, n, cond);
  if (out->lanes) *out = clamp(e, out, 0, n);
  return t;
}

static LLVMValueRef eval_moved(vtb_expr *e, const vtb_value *v, const vtb_index *index) {
  const vtb_inst *i = v->def;
  int axis = (int)vtb_attr_int(i, "axis", 0);
  vtb_index at[VTB_MAX_RANK], edge[VTB_MAX_RANK];
  memcpy(at, index, sizeof *at * (size_t)v->type.rank);
  LLVMValueRef cond = NULL;
  truth t = source_index(e, i, v->type.dim[axis].size, &index[axis], &at[axis], &cond);
  arm no = {.fill = vtb_attr_float(i, "fill", 0)};
  if (i->n_operands == 2) {
    for (int a = 0; a + 1 < v->type.rank; a++) edge[a] = index[a < axis ? a : a + 1];
    no = (arm){.value = i->operands[1], .index = edge};
  }
  if (t == ALWAYS) return vtb__eval(e, i->operands[0], at);
  if (t == NEVER) return eval_arm(e, &no, v->type.dtype);
  return choose(e, cond, &(arm){i->operands[0], at, 0}, &no, v->type.dtype);
}

static LLVMValueRef eval_shape(vtb_expr *e, const vtb_value *v, const vtb_index *index) {
  const vtb_inst *i = v->def;
  vtb_index at[VTB_MAX_RANK] = {{0}};
  int n;
  switch (i->op) {
  case VTB_OP_constant:
    return eval_constant(e, v, index);
  case VTB_OP_iota:
    return eval_iota(e, v, index);
  case VTB_OP_random:
    return eval_random(e, v, index);
  case VTB_OP_reshape:
    reshape_index(e, &v->type, index, &i->operands[0]->type, at);
    break;
  case VTB_OP_broadcast:
    operand_index(i->operands[0], &v->type, index, at);
    break;
  case VTB_OP_transpose: {
    const int64_t *perm = vtb_attr_ints(i, "perm", &n);
    for (int a = 0; a < n; a++) at[perm[a]] = index[a];
    break;
  }
  case VTB_OP_slice: {
    int axis = (int)vtb_attr_int(i, "axis", 0);
    memcpy(at, index, sizeof *at * (size_t)v->type.rank);
    at[axis] = vtb__index_scale(e, &index[axis], vtb_attr_int(i, "step", 1));
    at[axis] = vtb__index_shift(&at[axis], vtb_attr_int(i, "start", 0));
    break;
  }
  case VTB_OP_pad:
    return eval_pad(e, v, index);
  case VTB_OP_concat:
    return eval_concat(e, v, index, 0, 0);
  case VTB_OP_permute:
  case VTB_OP_shift:
    return eval_moved(e, v, index);
  default:
    vtb_bug("op %s inside a kernel body", vtb_op_get(i->op)->name);
  }
  return vtb__eval(e, i->operands[0], at);
}

/* ---- values ----------------------------------------------------------------------------------------------- */

bool vtb__is_costly(vtb_op op) {
  switch (op) {
  case VTB_OP_exp:
  case VTB_OP_log:
  case VTB_OP_sin:
  case VTB_OP_cos:
  case VTB_OP_tanh:
  case VTB_OP_erf:
  case VTB_OP_sigmoid:
  case VTB_OP_log_sigmoid:
  case VTB_OP_softplus:
  case VTB_OP_silu:
  case VTB_OP_gelu:
  case VTB_OP_gelu_tanh:
  case VTB_OP_pow:
    return true;
  default:
    return false;
  }
}

static bool same_place(const vtb_value *v, const vtb_index *x, const vtb_index *y) {
  for (int a = 0; a < v->type.rank; a++)
    if (!vtb__index_equal(&x[a], &y[a])) return false;
  return true;
}

/* The entry for a costly value that the row's loop computes element by element; made while probing. */
static vtb_kept *kept_entry(vtb_expr *e, const vtb_value *v, const vtb_index *index) {
  if (!e->keep || e->conditions || e->vec < 0 || !vtb__is_costly(v->def->op)) return NULL;
  bool along_row = false;
  for (int a = 0; a < v->type.rank; a++) along_row |= index[a].coef[e->groups[e->vec].last] != 0;
  if (!along_row) return NULL;
  for (size_t k = 0; k < e->kept.n; k++)
    if (e->kept.at[k].value == v && same_place(v, index, e->kept.at[k].index)) return &e->kept.at[k];
  if (!e->probing) return NULL;
  vtb_kept fresh = {.value = v, .stored = -1};
  memcpy(fresh.index, index, sizeof *index * (size_t)v->type.rank);
  vtb_vec_push(&e->kept, fresh);
  return &e->kept.at[e->kept.n - 1];
}

/* Offset of the current element in a kept row: the value of the vectorised variable. */
static vtb_index row_position(vtb_expr *e) { return vtb__index_var(e->groups[e->vec].last, 1); }

static LLVMValueRef eval_kept(vtb_expr *e, vtb_kept *k, const vtb_value *v, const vtb_index *index) {
  if (e->probing) {
    k->passes |= 1u << (e->pass < 31 ? e->pass : 31);
    return eval_elementwise(e, v, index);
  }
  if (!k->row || e->vec < 0) return eval_elementwise(e, v, index);
  vtb_index at = row_position(e);
  if (k->stored >= 0 && k->stored < e->pass) return load_at(e, VTB_F32, k->row, &at);
  LLVMValueRef r = vtb__widen(e, eval_elementwise(e, v, index));
  vtb__store(e, r, k->row, &at);
  k->stored = e->pass;
  return r;
}

static LLVMValueRef eval_new(vtb_expr *e, const vtb_value *v, const vtb_index *index) {
  vtb_check(v->def != NULL, "value %%%s of a kernel is neither an operand nor computed", v->name);
  switch (vtb_op_get(v->def->op)->klass) {
  case VTB_CLASS_ELEMENTWISE: {
    vtb_kept *k = kept_entry(e, v, index);
    return k ? eval_kept(e, k, v, index) : eval_elementwise(e, v, index);
  }
  case VTB_CLASS_SHAPE:
    return eval_shape(e, v, index);
  case VTB_CLASS_REDUCE:
    vtb_check(e->reduce != NULL, "reduction %%%s is not computed yet", v->name);
    return e->reduce(e, v, index);
  default:
    vtb_bug("op %s inside a kernel body", vtb_op_get(v->def->op)->name);
  }
}

LLVMValueRef vtb__eval(vtb_expr *e, const vtb_value *v, const vtb_index *index) {
  for (size_t m = e->memo.n; m-- > 0;)
    if (e->memo.at[m].value == v && same_place(v, e->memo.at[m].index, index)) return e->memo.at[m].result;
  const vtb_leaf *leaf = vtb__leaf_find(e, v);
  LLVMValueRef r;
  if (leaf) {
    vtb_cpu_tensor t = vtb__leaf_tensor(e, leaf);
    r = vtb__load(e, &t, index);
  } else {
    r = eval_new(e, v, index);
  }
  vtb_memo known = {.value = v, .result = r};
  memcpy(known.index, index, sizeof *index * (size_t)v->type.rank);
  vtb_vec_push(&e->memo, known);
  return r;
}
