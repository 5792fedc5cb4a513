/* Row kernels: reductions over the last axis among elementwise ops (norms, softmax, their adjoints).
 *
 *   a warp (short rows) or a block (long ones) a row:
 *     for level 1, 2, ...: one pass over the row for all reductions of the level, then a sum over the threads
 *     one pass for the results as long as the row; the others are stored once a row
 *
 * A thread's share of the row is a fixed number of chunks, so that what several passes need (loads, costly functions)
 * stays in registers, an array over the chunks. A reduction of level k needs those of lower levels. Declines if a
 * reduction is over anything else than the row, or a result has another shape.
 */
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/expr.h"

enum { BLOCK = 256, MOST_CHUNKS = 16, MOST_KEPT = 64 /* registers */, MOST_SUMS = 32, LAST_PASS = 31 };

typedef struct row_sum { /* a reduction at an index that depends on the row only */
  const vtb_value *value;
  vtb_cuda_index index[VTB_MAX_RANK];
  int level;
} row_sum;

typedef struct row {
  const vtb_cuda_root *roots;
  int n_roots;
  vtb_type shape;
  vtb_cuda_space space;
  VTB_VEC(row_sum) sums;
  int levels;
  bool failed;
  /* the schedule */
  int threads; /* of one row: 32 or BLOCK */
  int64_t columns, chunks;
} row;

static void operand_index(const vtb_cuda_expr *e, const row_sum *s, vtb_cuda_index *out) {
  const vtb_type *t = &s->value->def->operands[0]->type;
  for (int a = 0; a + 1 < t->rank; a++) out[a] = s->index[a];
  out[t->rank - 1] = t->dim[t->rank - 1].size == 1 ? vtb__cuda_index_const(0) : vtb__cuda_index_var(e->n_vars - 1, 1);
}

static bool fits(const vtb_cuda_expr *e, const row *r, const vtb_value *v, const vtb_cuda_index *index) {
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

static bool is_same(const row_sum *s, const vtb_value *v, const vtb_cuda_index *index) {
  bool same = s->value == v;
  for (int a = 0; same && a < v->type.rank; a++) same = vtb__cuda_index_equal(&s->index[a], &index[a]);
  return same;
}

/* While probing: remembers the sum, and looks into its operand as the pass of its level will. */
static const char *found_sum(vtb_cuda_expr *e, const vtb_value *v, const vtb_cuda_index *index) {
  row *r = e->user;
  vtb_check(e->probing, "row sum %%%s is not in its pass", v->name);
  if (r->failed || !fits(e, r, v, index)) {
    r->failed = true;
    return "0.0f";
  }
  for (size_t i = 0; i < r->sums.n; i++)
    if (is_same(&r->sums.at[i], v, index)) return "0.0f";
  row_sum s = {.value = v, .level = vtb__cuda_reduce_level(e, v)};
  memcpy(s.index, index, sizeof *index * (size_t)v->type.rank);
  vtb_vec_push(&r->sums, s);
  if (s.level > r->levels) r->levels = s.level;
  vtb_cuda_index inner[VTB_MAX_RANK];
  operand_index(e, &s, inner);
  vtb_cuda_expr outer = *e; /* a fresh memo: another pass sees no values of this one */
  e->memo.at = NULL;
  e->memo.n = e->memo.cap = 0;
  e->pass = s.level;
  vtb__cuda_eval(e, v->def->operands[0], inner);
  vtb_vec_free(&e->memo);
  e->memo.at = outer.memo.at;
  e->memo.n = outer.memo.n;
  e->memo.cap = outer.memo.cap;
  e->pass = outer.pass;
  return "0.0f";
}

/* Index of a root: the row's axes, and the last one if it is as long. False if its shape is neither. */
static bool root_index(const vtb_cuda_expr *e, const row *r, const vtb_value *v, vtb_cuda_index *index, bool *full) {
  vtb_cuda_index whole[VTB_MAX_RANK];
  int rank = r->shape.rank, n = v->type.rank;
  vtb__cuda_space_index(e, &r->space, whole);
  if (n != rank && n != rank - 1) return false;
  for (int a = 0; a < rank - 1; a++) {
    if (v->type.dim[a].size != r->shape.dim[a].size) return false;
    index[a] = whole[a];
  }
  *full = n == rank && v->type.dim[n - 1].size == r->shape.dim[rank - 1].size;
  if (n == rank && !*full && v->type.dim[n - 1].size != 1) return false;
  if (n == rank) index[n - 1] = *full ? whole[n - 1] : vtb__cuda_index_const(0);
  return true;
}

static void store_root(vtb_cuda_expr *e, const vtb_cuda_root *root, const vtb_cuda_index *index) {
  vtb__cuda_store(e, root, index, vtb__cuda_eval(e, root->value, index));
}

static void probe_row(vtb_cuda_expr *e, vtb_cuda_space *s, void *user) {
  row *r = user;
  r->space = *s;
  r->sums.n = 0;
  r->levels = 0;
  r->failed = false;
  for (int i = 0; i < r->n_roots && !r->failed; i++) {
    vtb_cuda_index index[VTB_MAX_RANK];
    bool full;
    e->pass = LAST_PASS;
    if (root_index(e, r, r->roots[i].value, index, &full))
      store_root(e, &r->roots[i], index);
    else
      r->failed = true;
  }
  if (e->n_vars > 1) e->no_merge[e->n_vars - 2] = true; /* the row stays apart */
}

/* ---- passes ----------------------------------------------------------------------------------------------- */

static bool is_max(const vtb_value *v) { return v->def->op == VTB_OP_reduce_max; }

/* The loop over a thread's chunks of the row. */
static size_t begin_chunks(vtb_cuda_expr *e, const row *r) {
  vtb_cuda_group *g = &e->groups[e->vec];
  vtb_cuda_kernel *k = e->k;
  const char *thread = r->threads == 32 ? "vtb_lane()" : "vtb_tid()";
  int64_t stride = (int64_t)r->threads * e->lanes;
  g->value = vtb_arena_printf(&e->c->arena, "i%d", e->vec);
  if (r->chunks <= MOST_CHUNKS)
    vtb_cuda_open(k, "VTB_UNROLL for (int c = 0; c < %lld; c++)", (long long)r->chunks);
  else
    vtb_cuda_open(k, "for (int c = 0; c < %lld; c++)", (long long)r->chunks);
  vtb_cuda_line(k, "const int %s = c * %lld + %s%s;", g->value, (long long)stride, thread, e->lanes > 1 ? " * 4" : "");
  if (r->columns % stride)
    vtb_cuda_open(k, "if (%s < %lld)", g->value, (long long)r->columns);
  else
    vtb_cuda_open(k, "%s", "");
  e->chunk = "c";
  return e->memo.n;
}

static void end_chunks(vtb_cuda_expr *e, size_t known) {
  vtb_cuda_close(e->k);
  vtb_cuda_close(e->k);
  vtb__cuda_forget(e, known);
}

static void know_sum(vtb_cuda_expr *e, const row_sum *s, const char *name) {
  vtb_cuda_memo known = {.value = s->value, .result = name};
  memcpy(known.index, s->index, sizeof known.index);
  vtb_vec_push(&e->memo, known);
}

static void reduce_pass(vtb_cuda_expr *e, row *r, int level) {
  const char *name[MOST_SUMS];
  vtb_cuda_kernel *k = e->k;
  e->pass = level;
  for (size_t i = 0; i < r->sums.n; i++) {
    if (r->sums.at[i].level != level) continue;
    name[i] = vtb_arena_printf(&e->c->arena, "sum%zu", i);
    vtb_cuda_line(k, "float %s = %s;", name[i], is_max(r->sums.at[i].value) ? "-VTB_INF" : "0.0f");
  }
  size_t known = begin_chunks(e, r);
  for (size_t i = 0; i < r->sums.n; i++) {
    const row_sum *s = &r->sums.at[i];
    vtb_cuda_index inner[VTB_MAX_RANK];
    if (s->level != level) continue;
    operand_index(e, s, inner);
    const char *v = vtb__cuda_eval(e, s->value->def->operands[0], inner);
    if (e->lanes > 1 && !vtb__cuda_is_vector(v)) v = vtb_arena_printf(&e->c->arena, "vtb_splat(%s)", v);
    if (is_max(s->value))
      vtb_cuda_line(k, "%s = vtb_max(%s, vtb_max4(%s));", name[i], name[i], v);
    else
      vtb_cuda_line(k, "%s += vtb_sum4(%s);", name[i], v);
  }
  end_chunks(e, known);
  for (size_t i = 0; i < r->sums.n; i++) {
    const row_sum *s = &r->sums.at[i];
    if (s->level != level) continue;
    const char *op = is_max(s->value) ? "max" : "sum";
    if (r->threads == 32)
      vtb_cuda_line(k, "%s = vtb_warp_%s(%s);", name[i], op, name[i]);
    else
      vtb_cuda_line(k, "%s = vtb_block_%s(%s, %d, warps);", name[i], op, name[i], BLOCK / 32);
    know_sum(e, s, name[i]);
  }
}

static void store_roots(vtb_cuda_expr *e, const row *r, bool full) {
  for (int i = 0; i < r->n_roots; i++) {
    vtb_cuda_index index[VTB_MAX_RANK];
    bool is_full;
    root_index(e, r, r->roots[i].value, index, &is_full);
    if (is_full == full) store_root(e, &r->roots[i], index);
  }
}

/* Arrays for what several passes need, as far as registers reach. */
static void declare_kept(vtb_cuda_expr *e, const row *r) {
  int64_t used = 0;
  for (size_t i = 0; i < e->kept.n; i++) {
    vtb_cuda_kept *k = &e->kept.at[i];
    k->array = NULL;
    k->stored = -1;
    if (__builtin_popcount(k->passes) < 2 || r->chunks > MOST_CHUNKS) continue;
    if (used + r->chunks * e->lanes > MOST_KEPT) continue;
    used += r->chunks * e->lanes;
    k->array = vtb_arena_printf(&e->c->arena, "%ck%zu", e->lanes > 1 ? 'v' : 's', i);
    vtb_cuda_line(e->k, "%s %s[%lld];", e->lanes > 1 ? "vtb_f4" : "float", k->array, (long long)r->chunks);
  }
}

static void emit_passes(vtb_cuda_expr *e, row *r) {
  declare_kept(e, r);
  for (int level = 1; level <= r->levels; level++) reduce_pass(e, r, level);
  e->pass = LAST_PASS;
  bool any[2] = {false, false}, full;
  vtb_cuda_index index[VTB_MAX_RANK];
  for (int i = 0; i < r->n_roots; i++) {
    root_index(e, r, r->roots[i].value, index, &full);
    any[full] = true;
  }
  if (any[1]) {
    size_t known = begin_chunks(e, r);
    store_roots(e, r, true);
    end_chunks(e, known);
  }
  if (any[0]) {
    vtb_cuda_open(e->k, "if (%s == 0)", r->threads == 32 ? "vtb_lane()" : "vtb_tid()");
    size_t known = e->memo.n;
    store_roots(e, r, false);
    vtb__cuda_forget(e, known);
    vtb_cuda_close(e->k);
  }
}

/* ---- the kernel ------------------------------------------------------------------------------------------- */

static bool write_kernel(vtb_cuda_expr *e, row *r, int lanes) {
  int outer[VTB_CUDA_NEST_MAX], last = e->n_groups - 1;
  for (int g = 0; g < last; g++) outer[g] = g;
  e->lanes = lanes;
  e->vec = last;
  e->no_lanes = false;
  e->memo.n = 0;
  e->next_name = 0;
  r->columns = e->groups[last].size;
  r->threads = r->columns <= 32 * 4 * 8 ? 32 : BLOCK;
  r->chunks = (r->columns + r->threads * lanes - 1) / ((int64_t)r->threads * lanes);
  int64_t rows = vtb__cuda_groups_size(e, outer, last), per_block = BLOCK / r->threads;
  e->k = vtb_cuda_begin(e->c, "row", BLOCK);
  const char *block = e->wide ? "(vtb_i64)vtb_block()" : "vtb_block()";
  if (r->threads == 32) {
    vtb_cuda_line(e->k, "const %s row = %s * %d + vtb_warp();", vtb__cuda_int(e), block, BLOCK / 32);
    vtb_cuda_open(e->k, "if (row < %lld)", (long long)rows);
  } else {
    vtb_cuda_shared(e->k, "float", 4, "warps", 32);
    vtb_cuda_line(e->k, "const %s row = %s;", vtb__cuda_int(e), block);
    vtb_cuda_open(e->k, "%s", "");
  }
  vtb__cuda_decode(e, "row", outer, last);
  emit_passes(e, r);
  vtb_cuda_close(e->k);
  if (lanes > 1 && e->no_lanes) {
    vtb__cuda_discard(e->k);
    return false;
  }
  vtb_cuda_launch(e->k, (rows + per_block - 1) / per_block);
  return true;
}

bool vtb__cuda_emit_row(vtb_cuda_expr *e, const vtb_cuda_root *roots, int n) {
  row r = {.roots = roots, .n_roots = n, .shape = roots[0].value->type};
  vtb_cuda_space space;
  for (int i = 0; i < n; i++)
    if (vtb_type_count(&roots[i].value->type) > vtb_type_count(&r.shape)) r.shape = roots[i].value->type;
  const vtb_value *v; /* the largest shape among results and reduced operands is that of the rows */
  for (int i = 0; (v = vtb__cuda_body_reduction(e, i)); i++)
    if (vtb_type_count(&v->def->operands[0]->type) > vtb_type_count(&r.shape)) r.shape = v->def->operands[0]->type;
  if (r.shape.rank == 0 || r.shape.dim[r.shape.rank - 1].size == 1) return false;
  vtb__cuda_space_init(e, &space, &r.shape);
  memset(e->no_merge, 0, sizeof e->no_merge);
  e->user = &r;
  e->reduce = found_sum;
  e->keep = true;
  vtb__cuda_probe(e, &space, probe_row, &r);
  bool ok = !r.failed && r.sums.n <= MOST_SUMS && r.levels < LAST_PASS;
  if (ok && (e->groups[e->n_groups - 1].size % 4 || !write_kernel(e, &r, 4))) write_kernel(e, &r, 1);
  e->memo.n = e->kept.n = 0;
  e->keep = false;
  e->reduce = NULL;
  e->vec = -1;
  e->lanes = 1;
  vtb_vec_free(&r.sums);
  return ok;
}
