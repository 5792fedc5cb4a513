/* Row kernels: reductions over the last axis among elementwise ops (norms, softmax, their adjoints).
 *
 *   for each row (parallel):  for level 1, 2, ...: one pass over the row for all reductions of the level
 *                             one pass for the results as long as the row; the others are stored once a row
 *
 * A reduction of level k needs those of lower levels. Elementwise values are computed again in every pass that needs
 * them, except costly ones, which the first pass leaves in scratch memory. Declines if a reduction is over anything
 * else than the row, or a result has another shape.
 */
#include <stdlib.h>
#include <string.h>

#include "codegen/cpu/expr.h"

enum { SERIAL = 16384 };

typedef struct row_sum { /* a reduction at an index that depends on the row only */
  const vtb_value *value;
  vtb_index index[VTB_MAX_RANK];
  int level;
} row_sum;

typedef struct row {
  const vtb_root *roots;
  int n_roots;
  vtb_type shape;
  vtb_space space;
  VTB_VEC(row_sum) sums;
  int levels;
  bool failed;
  int pass;                        /* being emitted */
  int at[VTB_CPU_MAX_CARRY], n_at; /* its sums */
} row;

static void operand_index(vtb_expr *e, const row_sum *s, vtb_index *out) {
  const vtb_type *t = &s->value->def->operands[0]->type;
  for (int a = 0; a + 1 < t->rank; a++) out[a] = s->index[a];
  out[t->rank - 1] = t->dim[t->rank - 1].size == 1 ? vtb__index_const(0) : vtb__index_var(e->n_vars - 1, 1);
}

static bool fits(const vtb_expr *e, const row *r, const vtb_value *v, const vtb_index *index) {
  const vtb_type *t = &v->def->operands[0]->type;
  int n;
  const int64_t *axes = vtb_attr_ints(v->def, "axes", &n);
  if (n != 1 || axes[0] != t->rank - 1 || t->dim[t->rank - 1].size != r->shape.dim[r->shape.rank - 1].size)
    return false;
  if (e->var_size[e->n_vars - 1] != t->dim[t->rank - 1].size) return false;
  for (int a = 0; a < v->type.rank; a++)
    if (index[a].dyn || index[a].coef[e->n_vars - 1]) return false;
  return true;
}

/* While probing: remembers the sum, and looks into its operand as the pass of its level will. */
static LLVMValueRef found_sum(vtb_expr *e, const vtb_value *v, const vtb_index *index) {
  row *r = e->user;
  LLVMValueRef nothing = LLVMGetUndef(e->c->f32);
  if (!e->probing) vtb_bug("row sum %%%s is not in its pass", v->name);
  if (r->failed || !fits(e, r, v, index)) {
    r->failed = true;
    return nothing;
  }
  row_sum s = {.value = v, .level = vtb__reduce_level(e, v)};
  memcpy(s.index, index, sizeof *index * (size_t)v->type.rank);
  vtb_vec_push(&r->sums, s);
  if (s.level > r->levels) r->levels = s.level;
  vtb_index inner[VTB_MAX_RANK];
  operand_index(e, &s, inner);
  vtb_expr outer = *e; /* a fresh memo: another pass sees no values of this one */
  e->memo.at = NULL;
  e->memo.n = e->memo.cap = 0;
  e->pass = s.level;
  vtb__eval(e, v->def->operands[0], inner);
  vtb_vec_free(&e->memo);
  e->memo.at = outer.memo.at;
  e->memo.n = outer.memo.n;
  e->memo.cap = outer.memo.cap;
  e->pass = outer.pass;
  return nothing;
}

/* Index of a root: the row's axes, and the last one if it is as long. False if its shape is neither. */
static bool root_index(const vtb_expr *e, const row *r, const vtb_value *v, vtb_index *index, bool *full) {
  vtb_index whole[VTB_MAX_RANK];
  int rank = r->shape.rank, n = v->type.rank;
  vtb__space_index(e, &r->space, whole);
  if (n != rank && n != rank - 1) return false;
  for (int a = 0; a < rank - 1; a++) {
    if (v->type.dim[a].size != r->shape.dim[a].size) return false;
    index[a] = whole[a];
  }
  *full = n == rank && v->type.dim[n - 1].size == r->shape.dim[rank - 1].size;
  if (n == rank && !*full && v->type.dim[n - 1].size != 1) return false;
  if (n == rank) index[n - 1] = *full ? whole[n - 1] : vtb__index_const(0);
  return true;
}

static void probe_row(vtb_expr *e, vtb_space *s, void *user) {
  row *r = user;
  r->space = *s;
  r->sums.n = 0;
  r->levels = 0;
  r->failed = false;
  for (int i = 0; i < r->n_roots && !r->failed; i++) {
    vtb_index index[VTB_MAX_RANK];
    bool full;
    if (!root_index(e, r, r->roots[i].value, index, &full)) {
      r->failed = true;
      break;
    }
    e->pass = 31; /* the last */
    LLVMValueRef v = vtb__eval(e, r->roots[i].value, index);
    vtb_index at = vtb__root_index(e, &r->roots[i], index);
    vtb__store(e, v, vtb__root_ptr(e, &r->roots[i]), &at);
  }
  e->no_merge[e->n_vars > 1 ? e->n_vars - 2 : 0] = true; /* the row stays apart */
}

/* ---- passes ----------------------------------------------------------------------------------------------- */

static LLVMValueRef identity(vtb_expr *e, const vtb_value *v) {
  return vtb_cpu_splat(e->c, vtb_cpu_f32(e->c, v->def->op == VTB_OP_reduce_max ? -__builtin_inf() : 0.0), e->lanes);
}

static void accumulate(vtb_expr *e, LLVMValueRef *carry, void *user) {
  row *r = user;
  LLVMBuilderRef b = e->c->b;
  for (int i = 0; i < r->n_at; i++) {
    const row_sum *s = &r->sums.at[r->at[i]];
    vtb_index inner[VTB_MAX_RANK];
    operand_index(e, s, inner);
    LLVMValueRef v = vtb__widen(e, vtb__eval(e, s->value->def->operands[0], inner));
    if (e->mask) v = LLVMBuildSelect(b, e->mask, v, identity(e, s->value), "");
    carry[i] =
        s->value->def->op == VTB_OP_reduce_max ? vtb_cpu_fmax(e->c, v, carry[i]) : LLVMBuildFAdd(b, carry[i], v, "");
  }
}

static bool has_tail(const vtb_expr *e) { return e->groups[e->vec].size % e->lanes != 0; }

static void whole_row(vtb_expr *e, LLVMValueRef *carry, int n_carry, vtb_vector_fn body, void *user) {
  vtb_cpu *c = e->c;
  vtb__vector_loop(e, vtb_cpu_i64(c, 0), vtb_cpu_i64(c, e->groups[e->vec].size), has_tail(e), carry, n_carry, body,
                   user);
}

static void reduce_pass(vtb_expr *e, row *r, int level) {
  LLVMValueRef carry[VTB_CPU_MAX_CARRY];
  r->n_at = 0;
  e->pass = level;
  for (size_t i = 0; i < r->sums.n; i++) {
    if (r->sums.at[i].level != level) continue;
    carry[r->n_at] = identity(e, r->sums.at[i].value);
    r->at[r->n_at++] = (int)i;
  }
  whole_row(e, carry, r->n_at, accumulate, r);
  for (int i = 0; i < r->n_at; i++) {
    const row_sum *s = &r->sums.at[r->at[i]];
    vtb_memo known = {.value = s->value};
    known.result = s->value->def->op == VTB_OP_reduce_max ? vtb_cpu_hmax(e->c, carry[i]) : vtb_cpu_hsum(e->c, carry[i]);
    memcpy(known.index, s->index, sizeof known.index);
    vtb_vec_push(&e->memo, known);
  }
}

static void store_roots(vtb_expr *e, row *r, bool full) {
  for (int i = 0; i < r->n_roots; i++) {
    vtb_index index[VTB_MAX_RANK];
    bool is_full;
    root_index(e, r, r->roots[i].value, index, &is_full);
    if (is_full != full) continue;
    LLVMValueRef v = vtb__eval(e, r->roots[i].value, index);
    vtb_index at = vtb__root_index(e, &r->roots[i], index);
    vtb__store(e, v, vtb__root_ptr(e, &r->roots[i]), &at);
  }
}

static void store_full(vtb_expr *e, LLVMValueRef *carry, void *user) {
  (void)carry;
  store_roots(e, user, true);
}

static void emit_passes(vtb_expr *e, row *r) {
  int64_t columns = e->groups[e->vec].size;
  for (size_t k = 0; k < e->kept.n; k++) {
    vtb_kept *kept = &e->kept.at[k];
    kept->row = __builtin_popcount(kept->passes) > 1 ? vtb_cpu_scratch(e->c, e->task, columns * 4) : NULL;
  }
  vtb__hoist_here(e);
  for (int level = 1; level <= r->levels; level++) reduce_pass(e, r, level);
  e->pass = 31;
  bool any_full = false, full;
  vtb_index index[VTB_MAX_RANK];
  for (int i = 0; i < r->n_roots; i++) any_full |= root_index(e, r, r->roots[i].value, index, &full) && full;
  if (any_full) whole_row(e, NULL, 0, store_full, r);
  e->hoist = NULL;
  store_roots(e, r, false);
}

/* ---- the kernel ------------------------------------------------------------------------------------------- */

bool vtb__emit_row(vtb_expr *e, const vtb_root *roots, int n) {
  vtb_cpu *c = e->c;
  row r = {.roots = roots, .n_roots = n, .shape = roots[0].value->type};
  vtb_space space;
  for (int i = 0; i < n; i++) {
    if (vtb_type_count(&roots[i].value->type) > vtb_type_count(&r.shape)) r.shape = roots[i].value->type;
  }
  const vtb_value *v; /* the largest shape among results and reduced operands is that of the rows */
  for (int i = 0; (v = vtb__body_reduction(e, i)); i++)
    if (vtb_type_count(&v->def->operands[0]->type) > vtb_type_count(&r.shape)) r.shape = v->def->operands[0]->type;
  if (r.shape.rank == 0 || r.shape.dim[r.shape.rank - 1].size == 1) return false;
  vtb__space_init(e, &space, &r.shape);
  memset(e->no_merge, 0, sizeof e->no_merge);
  e->user = &r;
  e->reduce = found_sum;
  e->keep = true;
  vtb__probe(e, &space, probe_row, &r);
  int largest = 0; /* sums of one level travel together */
  for (int level = 1; level <= r.levels; level++) {
    int count = 0;
    for (size_t i = 0; i < r.sums.n; i++) count += r.sums.at[i].level == level;
    if (count > largest) largest = count;
  }
  bool ok = !r.failed && largest < VTB_CPU_MAX_CARRY && r.levels < 31;
  if (ok) {
    int last = e->n_groups - 1;
    int64_t grain = SERIAL / (e->groups[last].size * e->weight);
    vtb__choose_lanes(e, last);
    e->task = vtb__task_begin(c, "row", vtb__groups_size(e, 0, last), grain);
    vtb__decode(e, e->task->index, 0, last);
    emit_passes(e, &r);
    vtb_cpu_task_end(c, e->task);
  }
  e->memo.n = e->kept.n = 0;
  e->keep = false;
  e->reduce = NULL;
  e->vec = -1;
  e->lanes = 1;
  vtb_vec_free(&r.sums);
  return ok;
}
