/* maxplus: m_t = max(m_{t-1} + g_t, i_t) along axis 1 in path order, and its adjoint, sequences
 * side by side (lanes.h). Adjoint: r_t = dm_t + (what m_t passes on to later steps) goes to g_t and
 * on to m_{t-1} where m_{t-1} + g_t > i_t, else to i_t.
 */
#include "codegen/cpu/scan/lanes.h"

static LLVMValueRef k_(vtb_cpu *c, int64_t v) { return vtb_cpu_i64(c, v); }

static LLVMValueRef lowest(const vtb__lanes *l) {
  return vtb_cpu_splat(l->c, vtb_cpu_f32(l->c, -(double)__builtin_inff()), l->width);
}

void vtb__cpu_maxplus(vtb_cpu *c, const vtb_inst *inst) {
  vtb__lanes l = vtb__lanes_open(c, inst, 1);
  int n_in = inst->n_operands;
  LLVMValueRef first = n_in == 3 ? vtb__lanes_get(&l, 2, NULL) : lowest(&l);
  vtb_cpu_for t = vtb_cpu_for_begin(c, k_(c, 0), k_(c, l.n_tokens), k_(c, 1));
  LLVMValueRef m = vtb_cpu_carry(c, &t, first), pos = vtb__order_at(c, &l.order, t.i);
  LLVMValueRef kept = LLVMBuildFAdd(c->b, m, vtb__lanes_get(&l, 0, pos), "");
  LLVMValueRef next = vtb_cpu_fmax(c, kept, vtb__lanes_get(&l, 1, pos));
  vtb__lanes_put(&l, next, n_in, pos);
  vtb_cpu_carry_next(&t, 0, next);
  vtb_cpu_for_end(c, &t);
  vtb__lanes_close(&l);
}

void vtb__cpu_maxplus_grad(vtb_cpu *c, const vtb_inst *inst) {
  bool init = vtb_attr_int(inst, "init", 0) != 0;
  vtb__lanes l = vtb__lanes_open(c, inst, 1);
  int m_at = 2 + init, dm_at = 3 + init, dg_at = 4 + init;
  LLVMValueRef first = init ? vtb__lanes_get(&l, 2, NULL) : lowest(&l),
               zero = vtb_cpu_like(c, first, 0);
  vtb_cpu_for r = vtb_cpu_for_begin(c, k_(c, 0), k_(c, l.n_tokens), k_(c, 1));
  LLVMValueRef later = vtb_cpu_carry(c, &r, zero),
               t = LLVMBuildNSWSub(c->b, k_(c, l.n_tokens - 1), r.i, "");
  LLVMValueRef pos = vtb__order_at(c, &l.order, t),
               at_start = LLVMBuildICmp(c->b, LLVMIntEQ, t, k_(c, 0), "");
  LLVMValueRef before = LLVMBuildSelect(c->b, at_start, t, vtb_cpu_add(c, t, k_(c, -1)), "");
  LLVMValueRef m = LLVMBuildSelect(
      c->b, at_start, first, vtb__lanes_get(&l, m_at, vtb__order_at(c, &l.order, before)), "");
  LLVMValueRef kept = LLVMBuildFAdd(c->b, m, vtb__lanes_get(&l, 0, pos), "");
  LLVMValueRef keeps = LLVMBuildFCmp(c->b, LLVMRealOGT, kept, vtb__lanes_get(&l, 1, pos), "");
  LLVMValueRef d = LLVMBuildFAdd(c->b, vtb__lanes_get(&l, dm_at, pos), later, "");
  LLVMValueRef to_g = LLVMBuildSelect(c->b, keeps, d, zero, "");
  vtb__lanes_put(&l, to_g, dg_at, pos);
  vtb__lanes_put(&l, LLVMBuildSelect(c->b, keeps, zero, d, ""), dg_at + 1, pos);
  vtb_cpu_carry_next(&r, 0, to_g);
  vtb_cpu_for_end(c, &r);
  if (init) vtb__lanes_put(&l, vtb_cpu_carried(&r, 0), dg_at + 2, NULL);
  vtb__lanes_close(&l);
}
