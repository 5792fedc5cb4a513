/* Row kernels: a task a row (codegen/body/row.c).
 *
 *   for each row (parallel):
 *     for level 1, 2, ...: one pass over the row for all reductions of the level
 *     one pass for the results as long as the row; the others are stored once a row
 *
 * Elementwise values are computed again in every pass that needs them, except costly ones, which
 * the first pass leaves in scratch memory.
 */
#include "codegen/cpu/loop/expr.h"
#include "ir/ops.h"

enum { SERIAL = 16384 };

typedef struct row {
  vtb_row of;
  int at[VTB_CPU_MAX_CARRY], n_at; /* sums of the pass being emitted */
} row;

/* ---- passes ---------------------------------------------------------------------------------- */

static LLVMValueRef identity(vtb_cpu_expr *e, const vtb_value *v) {
  return vtb_cpu_splat(e->c,
                       vtb_cpu_f32(e->c, v->def->op == VTB_OP_reduce_max ? -__builtin_inf() : 0.0),
                       e->body.lanes);
}

static void accumulate(vtb_cpu_expr *e, LLVMValueRef *carry, void *user) {
  row *r = user;
  LLVMBuilderRef b = e->c->b;
  for (int i = 0; i < r->n_at; i++) {
    const vtb_row_sum *s = &r->of.sums.at[r->at[i]];
    vtb_index inner[VTB_MAX_RANK];
    vtb__row_operand(&e->body, s, inner);
    LLVMValueRef v = vtb__widen(e, vtb__eval(e, s->value->def->operands[0], inner));
    if (e->mask) v = LLVMBuildSelect(b, e->mask, v, identity(e, s->value), "");
    carry[i] = s->value->def->op == VTB_OP_reduce_max ? vtb_cpu_fmax(e->c, v, carry[i])
                                                      : LLVMBuildFAdd(b, carry[i], v, "");
  }
}

static bool has_tail(const vtb_cpu_expr *e) {
  return e->body.groups[e->body.vec].size % e->body.lanes != 0;
}

static void whole_row(vtb_cpu_expr *e, LLVMValueRef *carry, int n_carry, vtb_vector_fn body,
                      void *user) {
  vtb_cpu *c = e->c;
  vtb__vector_loop(e, vtb_cpu_i64(c, 0), vtb_cpu_i64(c, e->body.groups[e->body.vec].size),
                   has_tail(e), carry, n_carry, body, user);
}

static void reduce_pass(vtb_cpu_expr *e, row *r, int level) {
  LLVMValueRef carry[VTB_CPU_MAX_CARRY];
  r->n_at = 0;
  e->body.pass = level;
  for (size_t i = 0; i < r->of.sums.n; i++) {
    if (r->of.sums.at[i].level != level) continue;
    carry[r->n_at] = identity(e, r->of.sums.at[i].value);
    r->at[r->n_at++] = (int)i;
  }
  whole_row(e, carry, r->n_at, accumulate, r);
  for (int i = 0; i < r->n_at; i++) {
    const vtb_row_sum *s = &r->of.sums.at[r->at[i]];
    LLVMValueRef v = carry[i];
    v = s->value->def->op == VTB_OP_reduce_max ? vtb_cpu_hmax(e->c, v) : vtb_cpu_hsum(e->c, v);
    vtb__row_know(&e->body, s, v);
  }
}

static void store_roots(vtb_cpu_expr *e, row *r, bool full) {
  for (int i = 0; i < r->of.n_roots; i++) {
    vtb_index index[VTB_MAX_RANK];
    bool is_full;
    vtb__row_root(&e->body, &r->of, r->of.roots[i].value, index, &is_full);
    if (is_full != full) continue;
    void *v = vtb__body_eval(&e->body, r->of.roots[i].value, index);
    e->body.target->store(&e->body, &r->of.roots[i], index, v);
  }
}

static void store_full(vtb_cpu_expr *e, LLVMValueRef *carry, void *user) {
  (void)carry;
  store_roots(e, user, true);
}

static void emit_passes(vtb_cpu_expr *e, row *r) {
  int64_t columns = e->body.groups[e->body.vec].size;
  for (size_t k = 0; k < e->body.kept.n; k++) {
    vtb_kept *kept = &e->body.kept.at[k];
    kept->place =
        __builtin_popcount(kept->passes) > 1 ? vtb_cpu_scratch(e->c, e->task, columns * 4) : NULL;
  }
  vtb__hoist_here(e);
  for (int level = 1; level <= r->of.levels; level++) reduce_pass(e, r, level);
  e->body.pass = VTB_LAST_PASS;
  bool any_full = false, full;
  vtb_index index[VTB_MAX_RANK];
  for (int i = 0; i < r->of.n_roots; i++)
    any_full |= vtb__row_root(&e->body, &r->of, r->of.roots[i].value, index, &full) && full;
  if (any_full) whole_row(e, NULL, 0, store_full, r);
  e->hoist = NULL;
  store_roots(e, r, false);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* Sums of one level travel together. */
static int most_sums(const vtb_row *r) {
  int most = 0;
  for (int level = 1; level <= r->levels; level++) {
    int count = 0;
    for (size_t i = 0; i < r->sums.n; i++) count += r->sums.at[i].level == level;
    if (count > most) most = count;
  }
  return most;
}

bool vtb__emit_row(vtb_body *b, const vtb_root *roots, int n) {
  vtb_cpu_expr *e = vtb__expr_of(b);
  row r = {0};
  bool ok = vtb__row_begin(b, &r.of, roots, n) && most_sums(&r.of) < VTB_CPU_MAX_CARRY;
  if (ok) {
    int last = b->n_groups - 1;
    vtb__choose_lanes(e, last);
    e->task = vtb__task_begin(e->c, "row", vtb__groups_size(e, 0, last),
                              SERIAL / (b->groups[last].size * e->weight));
    vtb__decode(e, e->task->index, 0, last);
    emit_passes(e, &r);
    vtb_cpu_task_end(e->c, e->task);
  }
  vtb__row_end(b, &r.of);
  return ok;
}
