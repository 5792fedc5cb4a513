/* Row kernels (codegen/body/row.c).
 *
 *   a warp (short rows) or a block (long ones) a row:
 *     for level 1, 2, ...: one pass over the row for all reductions of the level, then a sum
 *                          over the threads
 *     one pass for the results as long as the row; the others are stored once a row
 *
 * A thread's share of the row is a fixed number of chunks, so that what several passes need (loads,
 * costly functions) stays in registers, an array over the chunks.
 */
#include "codegen/cuda/loop/expr.h"

enum {
  BLOCK = 256,
  MOST_CHUNKS = 16,
  MOST_KEPT = 64 /* registers */,
  MOST_SUMS = 32,
  MOST_UNROLLED = 256
};

typedef struct row {
  vtb_row of;
  int threads; /* of one row: 32 or BLOCK */
  int64_t columns, chunks;
} row;

static void store_root(vtb_cuda_expr *e, const vtb_root *root, const vtb_index *index) {
  vtb__cuda_store(e, root, index, vtb__cuda_eval(e, root->value, index));
}

/* ---- passes ---------------------------------------------------------------------------------- */

static bool is_max(const vtb_value *v) { return v->def->op == VTB_OP_reduce_max; }

/* The loop over a thread's chunks of the row. */
static size_t begin_chunks(vtb_cuda_expr *e, const row *r) {
  vtb_group *g = &e->body.groups[e->body.vec];
  vtb_cuda_kernel *k = e->k;
  const char *thread = r->threads == 32 ? "vtb_lane()" : "vtb_tid()";
  int64_t stride = (int64_t)r->threads * e->body.lanes;
  g->value = vtb_arena_printf(&e->c->arena, "i%d", e->body.vec);
  if (r->chunks <= MOST_CHUNKS)
    vtb_cuda_open(k, "VTB_UNROLL for (int c = 0; c < %lld; c++)", (long long)r->chunks);
  else
    vtb_cuda_open(k, "for (int c = 0; c < %lld; c++)", (long long)r->chunks);
  vtb_cuda_line(k, "const int %s = c * %lld + %s%s;", (const char *)g->value, (long long)stride,
                thread, e->body.lanes > 1 ? " * 4" : "");
  if (r->columns % stride)
    vtb_cuda_open(k, "if (%s < %lld)", (const char *)g->value, (long long)r->columns);
  else
    vtb_cuda_open(k, "%s", "");
  e->chunk = "c";
  return e->body.memo.n;
}

static void end_chunks(vtb_cuda_expr *e, size_t known) {
  vtb_cuda_close(e->k);
  vtb_cuda_close(e->k);
  e->body.memo.n = known;
}

static void reduce_pass(vtb_cuda_expr *e, row *r, int level) {
  char *name[MOST_SUMS];
  vtb_cuda_kernel *k = e->k;
  e->body.pass = level;
  for (size_t i = 0; i < r->of.sums.n; i++) {
    if (r->of.sums.at[i].level != level) continue;
    name[i] = vtb_arena_printf(&e->c->arena, "sum%zu", i);
    vtb_cuda_line(k, "float %s = %s;", name[i],
                  is_max(r->of.sums.at[i].value) ? "-VTB_INF" : "0.0f");
  }
  size_t known = begin_chunks(e, r);
  for (size_t i = 0; i < r->of.sums.n; i++) {
    const vtb_row_sum *s = &r->of.sums.at[i];
    vtb_index inner[VTB_MAX_RANK];
    if (s->level != level) continue;
    vtb__row_operand(&e->body, s, inner);
    const char *v = vtb__cuda_eval(e, s->value->def->operands[0], inner);
    if (e->body.lanes > 1 && !vtb__cuda_is_vector(v))
      v = vtb_arena_printf(&e->c->arena, "vtb_splat(%s)", v);
    if (is_max(s->value))
      vtb_cuda_line(k, "%s = vtb_max(%s, vtb_max4(%s));", name[i], name[i], v);
    else
      vtb_cuda_line(k, "%s += vtb_sum4(%s);", name[i], v);
  }
  end_chunks(e, known);
  for (size_t i = 0; i < r->of.sums.n; i++) {
    const vtb_row_sum *s = &r->of.sums.at[i];
    if (s->level != level) continue;
    const char *op = is_max(s->value) ? "max" : "sum";
    if (r->threads == 32)
      vtb_cuda_line(k, "%s = vtb_warp_%s(%s);", name[i], op, name[i]);
    else
      vtb_cuda_line(k, "%s = vtb_block_%s(%s, %d, warps);", name[i], op, name[i], BLOCK / 32);
    vtb__row_know(&e->body, s, name[i]);
  }
}

static void store_roots(vtb_cuda_expr *e, const row *r, bool full) {
  for (int i = 0; i < r->of.n_roots; i++) {
    vtb_index index[VTB_MAX_RANK];
    bool is_full;
    vtb__row_root(&e->body, &r->of, r->of.roots[i].value, index, &is_full);
    if (is_full == full) store_root(e, &r->of.roots[i], index);
  }
}

/* Arrays for what several passes need, as far as registers reach. */
static void declare_kept(vtb_cuda_expr *e, const row *r) {
  int64_t used = 0;
  for (size_t i = 0; i < e->body.kept.n; i++) {
    vtb_kept *k = &e->body.kept.at[i];
    k->place = NULL;
    k->stored = -1;
    if (__builtin_popcount(k->passes) < 2 || r->chunks > MOST_CHUNKS) continue;
    if (used + r->chunks * e->body.lanes > MOST_KEPT) continue;
    used += r->chunks * e->body.lanes;
    k->place = vtb_arena_printf(&e->c->arena, "%ck%zu", e->body.lanes > 1 ? 'v' : 's', i);
    vtb_cuda_line(e->k, "%s %s[%lld];", e->body.lanes > 1 ? "vtb_f4" : "float",
                  (const char *)k->place, (long long)r->chunks);
  }
}

static void emit_passes(vtb_cuda_expr *e, row *r) {
  declare_kept(e, r);
  for (int level = 1; level <= r->of.levels; level++) reduce_pass(e, r, level);
  e->body.pass = VTB_LAST_PASS;
  bool any[2] = {false, false}, full;
  vtb_index index[VTB_MAX_RANK];
  for (int i = 0; i < r->of.n_roots; i++) {
    vtb__row_root(&e->body, &r->of, r->of.roots[i].value, index, &full);
    any[full] = true;
  }
  if (any[1]) {
    size_t known = begin_chunks(e, r);
    store_roots(e, r, true);
    end_chunks(e, known);
  }
  if (any[0]) {
    vtb_cuda_open(e->k, "if (%s == 0)", r->threads == 32 ? "vtb_lane()" : "vtb_tid()");
    size_t known = e->body.memo.n;
    store_roots(e, r, false);
    e->body.memo.n = known;
    vtb_cuda_close(e->k);
  }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* A warp is enough for a row: unrolled over its chunks, the body's ops still find registers. */
static bool is_short(const vtb_cuda_expr *e, int64_t columns) {
  int64_t chunks = (columns + 127) / 128, ops = 0;
  if (chunks > 8) return false;
  const vtb_func *body = e->body.inst ? e->body.inst->callee : NULL;
  for (const vtb_inst *i = body ? body->first : NULL; i; i = i->next) ops++;
  return chunks * ops <= MOST_UNROLLED;
}

static bool write_kernel(vtb_cuda_expr *e, row *r, int lanes) {
  int outer[VTB_NEST_MAX], last = e->body.n_groups - 1;
  for (int g = 0; g < last; g++) outer[g] = g;
  vtb__cuda_begin_lanes(e, lanes);
  r->columns = e->body.groups[last].size;
  r->threads = is_short(e, r->columns) ? 32 : BLOCK;
  r->chunks = (r->columns + r->threads * lanes - 1) / ((int64_t)r->threads * lanes);
  int64_t rows = vtb__cuda_groups_size(e, outer, last), per_block = BLOCK / r->threads;
  e->k = vtb_cuda_begin(e->c, "row", BLOCK);
  const char *block = e->wide ? "(vtb_i64)vtb_block()" : "vtb_block()";
  if (r->threads == 32) {
    vtb_cuda_line(e->k, "const %s row = %s * %d + vtb_warp();", vtb__cuda_int(e), block,
                  BLOCK / 32);
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

bool vtb__cuda_emit_row(vtb_body *b, const vtb_root *roots, int n) {
  vtb_cuda_expr *e = vtb__cuda_expr_of(b);
  row r = {0};
  bool ok = vtb__row_begin(b, &r.of, roots, n) && r.of.sums.n <= MOST_SUMS;
  if (ok && (b->groups[b->n_groups - 1].size % 4 || !write_kernel(e, &r, 4)))
    write_kernel(e, &r, 1);
  vtb__row_end(b, &r.of);
  return ok;
}
