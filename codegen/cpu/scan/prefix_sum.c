/* prefix_sum: running sums along an axis, carried in double, sequences side by side (lanes.h). A
 * wrapped sum is wrapped at each step, so that what is carried stays small. */
#include "codegen/cpu/scan/lanes.h"

static LLVMValueRef in_type_of(LLVMValueRef like, double v) {
  LLVMTypeRef t = LLVMTypeOf(like);
  if (LLVMGetTypeKind(t) != LLVMVectorTypeKind) return LLVMConstReal(t, v);
  LLVMValueRef lanes[64], one = LLVMConstReal(LLVMGetElementType(t), v);
  unsigned n = LLVMGetVectorSize(t);
  for (unsigned i = 0; i < n; i++) lanes[i] = one;
  return LLVMConstVector(lanes, n);
}

/* s less the nearest multiple of w. */
static LLVMValueRef wrapped(vtb_cpu *c, LLVMValueRef s, double w) {
  LLVMValueRef turns = LLVMBuildFMul(c->b, s, in_type_of(s, 1 / w), "");
  turns = vtb_cpu_intrinsic(c, "llvm.rint", &turns, 1);
  return LLVMBuildFSub(c->b, s, LLVMBuildFMul(c->b, turns, in_type_of(s, w), ""), "");
}

static LLVMTypeRef double_lanes(vtb_cpu *c, int width) {
  LLVMTypeRef t = LLVMDoubleTypeInContext(c->ctx);
  return width > 1 ? LLVMVectorType(t, (unsigned)width) : t;
}

void vtb__cpu_prefix_sum(vtb_cpu *c, const vtb_inst *inst) {
  vtb__lanes l = vtb__lanes_open(c, inst, (int)vtb_attr_int(inst, "axis", 0));
  bool reverse = vtb_attr_int(inst, "reverse", 0), without = vtb_attr_int(inst, "exclusive", 0);
  double w = vtb_attr_float(inst, "wrap", 0);
  LLVMTypeRef wide = double_lanes(c, l.width), narrow = vtb_cpu_vector(c, l.width);
  vtb_cpu_for t =
      vtb_cpu_for_begin(c, vtb_cpu_i64(c, 0), vtb_cpu_i64(c, l.n_tokens), vtb_cpu_i64(c, 1));
  LLVMValueRef before = vtb_cpu_carry(c, &t, LLVMConstNull(wide)), step = t.i;
  if (reverse) step = LLVMBuildNSWSub(c->b, vtb_cpu_i64(c, l.n_tokens - 1), t.i, "");
  LLVMValueRef pos = vtb__order_at(c, &l.order, step);
  LLVMValueRef x = LLVMBuildFPExt(c->b, vtb__lanes_get(&l, 0, pos), wide, "");
  LLVMValueRef sum = LLVMBuildFAdd(c->b, before, x, "");
  if (w > 0) sum = wrapped(c, sum, w);
  vtb__lanes_put(&l, LLVMBuildFPTrunc(c->b, without ? before : sum, narrow, ""), 1, pos);
  vtb_cpu_carry_next(&t, 0, sum);
  vtb_cpu_for_end(c, &t);
  vtb__lanes_close(&l);
}
