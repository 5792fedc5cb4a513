/* Row kernels (codegen/body/row.c).
 *
 *   a warp (short rows) or a block (long ones) a row:
 *     for level 1, 2, ...: one pass over the row for all reductions of the level, then a sum
 *                          over the threads
 *     one pass for the results as long as the row; the others are stored once a row
 *
 * A thread's share of the row is a fixed number of chunks, so that what several passes need (loads,
 * costly functions) stays in registers, an array over the chunks.
 *
 * Kind strips: a block walks a strip of rows, its warps in turn, and every thread adds up its
 * columns in registers. At the end the warps' sums are added in order through shared memory and
 * stored as the strip's part of the result, which another kernel adds to the others.
 */
#include <string.h>

#include "codegen/cuda/loop/expr.h"
#include "ir/ops.h"

enum {
  BLOCK = 256,
  MOST_CHUNKS = 16,
  MOST_KEPT = 64 /* registers */,
  MOST_SUMS = 32,
  MOST_UNROLLED = 256,
  SUMS_IN_REGISTERS = 2, /* of columns */
  MANY_COLUMNS = 72,     /* more of one sum alone in registers, beside what a row keeps */
  MOST_COLUMNS = 96,     /* registers for sums of columns; more are a block's */
  BESIDE_ARRAYS = 36     /* of a thread: what ptxas takes of rows that keep little */
};

typedef struct row {
  vtb_row of;
  int threads; /* of one row: 32 or BLOCK; of rows of another kernel a part of a warp */
  bool inside; /* another kernel, whose rows are `real` or not */
  int64_t columns, chunks;
  int n_strips;      /* roots that are sums of rows */
  int64_t registers; /* of a thread, for arrays */
} row;

static void store_root(vtb_cuda_expr *e, const vtb_root *root, const vtb_index *index) {
  vtb__cuda_store(e, root, index, vtb__cuda_eval(e, root->value, index));
}

/* ---- passes ---------------------------------------------------------------------------------- */

static bool is_max(const vtb_value *v) { return v->def->op == VTB_OP_reduce_max; }

/* Which of a row's threads this is. */
static const char *thread_of(const row *r) {
  return r->inside ? "row_lane" : r->threads == 32 ? "vtb_lane()" : "vtb_tid()";
}

/* The loop over a thread's chunks of the row. */
static size_t begin_chunks(vtb_cuda_expr *e, const row *r) {
  vtb_group *g = &e->body.groups[e->body.vec];
  vtb_cuda_kernel *k = e->k;
  const char *thread = thread_of(r);
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
    if (r->inside)
      vtb_cuda_line(k, "%s = vtb_part_%s<%d>(%s);", name[i], op, r->threads, name[i]);
    else if (r->threads == 32)
      vtb_cuda_line(k, "%s = vtb_warp_%s(%s);", name[i], op, name[i]);
    else
      vtb_cuda_line(k, "%s = vtb_block_%s(%s, %d, warps);", name[i], op, name[i], BLOCK / 32);
    vtb__row_know(&e->body, s, name[i]);
  }
}

/* A root's columns are added up in shared memory, where each thread has places of its own:
 * registers are for those before it. */
static bool is_beside(const vtb_cuda_expr *e, const row *r, int root) {
  int before = 0;
  bool many = r->chunks * e->body.lanes * r->n_strips > MANY_COLUMNS;
  for (int i = 0; i < root; i++) before += vtb__row_is_strip(r->of.roots[i].value);
  return r->threads == 32 && before >= (many ? 1 : SUMS_IN_REGISTERS);
}

static const char *column_of(vtb_cuda_expr *e, const row *r, int root) {
  if (!is_beside(e, r, root)) return vtb_arena_printf(&e->c->arena, "columns%d[c]", root);
  return vtb_arena_printf(&e->c->arena, "columns%d[vtb_warp() * %lld + c * 32 + vtb_lane()]", root,
                          (long long)(r->chunks * 32));
}

static void add_to_column(vtb_cuda_expr *e, const row *r, int root) {
  vtb_index index[VTB_MAX_RANK];
  vtb__space_index(&e->body, &r->of.space, index);
  const char *v = vtb__cuda_eval(e, r->of.roots[root].value->def->operands[0], index);
  const char *column = column_of(e, r, root);
  vtb_cuda_line(e->k, "%s = %s + %s;", column, column, v);
}

static void store_roots(vtb_cuda_expr *e, const row *r, bool full) {
  for (int i = 0; i < r->of.n_roots; i++) {
    vtb_index index[VTB_MAX_RANK];
    bool is_full;
    if (vtb__row_is_strip(r->of.roots[i].value)) {
      if (full) add_to_column(e, r, i);
      continue;
    }
    vtb__row_root(&e->body, &r->of, r->of.roots[i].value, index, &is_full);
    if (is_full == full) store_root(e, &r->of.roots[i], index);
  }
}

/* It is not the same in every row. */
static bool varies_by_row(const vtb_cuda_expr *e, const vtb_kept *k) {
  for (int a = 0; a < k->value->type.rank; a++)
    for (int g = 0; g < e->body.n_groups; g++)
      if (g != e->body.vec && k->index[a].coef[e->body.groups[g].last]) return true;
  return false;
}

/* Arrays for what several passes need, as far as registers reach: first what each row has of its
 * own; the rest is in the caches. */
static void declare_kept(vtb_cuda_expr *e, row *r) {
  int64_t used = 0;
  for (size_t i = 0; i < e->body.kept.n; i++) {
    e->body.kept.at[i].place = NULL;
    e->body.kept.at[i].stored = -1;
  }
  for (size_t n = 0; n < 2 * e->body.kept.n; n++) {
    size_t i = n % e->body.kept.n;
    vtb_kept *k = &e->body.kept.at[i];
    if (varies_by_row(e, k) != (n < e->body.kept.n)) continue;
    if (__builtin_popcount(k->passes) < 2 || r->chunks > MOST_CHUNKS) continue;
    if (used + r->chunks * e->body.lanes > MOST_KEPT) continue;
    used += r->chunks * e->body.lanes;
    r->registers += r->chunks * e->body.lanes;
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
    full = vtb__row_is_strip(r->of.roots[i].value);
    if (!full) vtb__row_root(&e->body, &r->of, r->of.roots[i].value, index, &full);
    any[full] = true;
  }
  if (r->inside) vtb_cuda_open(e->k, "if (real)");
  if (any[1]) {
    size_t known = begin_chunks(e, r);
    store_roots(e, r, true);
    end_chunks(e, known);
  }
  if (any[0]) {
    vtb_cuda_open(e->k, "if (%s == 0)", thread_of(r));
    size_t known = e->body.memo.n;
    store_roots(e, r, false);
    e->body.memo.n = known;
    vtb_cuda_close(e->k);
  }
  if (r->inside) vtb_cuda_close(e->k);
}

/* ---- strips ---------------------------------------------------------------------------------- */

static void declare_columns(vtb_cuda_expr *e, row *r) {
  for (int i = 0; i < r->of.n_roots; i++) {
    if (!vtb__row_is_strip(r->of.roots[i].value)) continue;
    const char *type = e->body.lanes > 1 ? "vtb_f4" : "float";
    if (is_beside(e, r, i))
      vtb_cuda_shared(e->k, type, 4 * e->body.lanes, vtb_arena_printf(&e->c->arena, "columns%d", i),
                      r->chunks * BLOCK);
    else
      vtb_cuda_line(e->k, "%s columns%d[%lld];", type, i, (long long)r->chunks);
    if (!is_beside(e, r, i)) r->registers += r->chunks * e->body.lanes;
    vtb_cuda_line(e->k, "VTB_UNROLL for (int c = 0; c < %lld; c++) %s = %s;", (long long)r->chunks,
                  column_of(e, r, i), e->body.lanes > 1 ? "vtb_splat(0.0f)" : "0.0f");
  }
}

/* Parts lie behind one another, each as long as the sum of all rows. */
static void store_part(vtb_cuda_expr *e, const row *r, int root, const char *value) {
  const vtb_type *t = &r->of.roots[root].value->type;
  vtb_value flat = {.type = {.dtype = VTB_F32, .rank = 1}};
  flat.type.dim[0].size = vtb_type_count(t);
  vtb_index at = vtb__row_strip_index(&e->body, &r->of), part = vtb__index_dyn("part", false);
  part = vtb__index_scale(&e->body, &part, flat.type.dim[0].size / t->dim[0].size);
  at = vtb__index_add(&e->body, &at, &part);
  vtb_root to = r->of.roots[root];
  to.value = &flat;
  to.stride[0] = 1;
  vtb__cuda_store(e, &to, &at, value);
}

/* A block has each column once: in its threads, or in those of the first warp when it has added the
 * others'. */
static void store_columns(vtb_cuda_expr *e, const row *r) {
  vtb_cuda_kernel *k = e->k;
  int64_t share = r->chunks * r->threads;
  bool warps = r->threads == 32;
  if (warps)
    vtb_cuda_shared(k, e->body.lanes > 1 ? "vtb_f4" : "float", 4 * e->body.lanes, "sums",
                    share * (BLOCK / 32));
  e->body.groups[e->body.vec].value = vtb_arena_printf(&e->c->arena, "i%d", e->body.vec);
  const char *i = e->body.groups[e->body.vec].value, *times = e->body.lanes > 1 ? " * 4" : "";
  for (int root = 0; root < r->of.n_roots; root++) {
    if (!vtb__row_is_strip(r->of.roots[root].value)) continue;
    if (warps) {
      vtb_cuda_line(k, "vtb_sync();");
      vtb_cuda_line(k,
                    "VTB_UNROLL for (int c = 0; c < %lld; c++) sums[vtb_warp() * %lld + c * 32 + "
                    "vtb_lane()] = %s;",
                    (long long)r->chunks, (long long)share, column_of(e, r, root));
      vtb_cuda_line(k, "vtb_sync();");
      vtb_cuda_open(k, "for (int q = vtb_tid(); q < %lld; q += %d)", (long long)share, BLOCK);
      vtb_cuda_line(k, "const int %s = q%s;", i, times);
    } else {
      vtb_cuda_open(k, "VTB_UNROLL for (int c = 0; c < %lld; c++)", (long long)r->chunks);
      vtb_cuda_line(k, "const int %s = (c * %d + vtb_tid())%s;", i, BLOCK, times);
    }
    vtb_cuda_open(k, "if (%s < %lld)", i, (long long)r->columns);
    const char *total = e->body.lanes > 1 ? "vtotal" : "total";
    vtb_cuda_line(k, "%s %s = %s;", e->body.lanes > 1 ? "vtb_f4" : "float", total,
                  warps ? "sums[q]" : vtb_arena_printf(&e->c->arena, "columns%d[c]", root));
    if (warps)
      vtb_cuda_line(k, "VTB_UNROLL for (int w = 1; w < %d; w++) %s = %s + sums[w * %lld + q];",
                    BLOCK / 32, total, total, (long long)share);
    store_part(e, r, root, total);
    vtb_cuda_close(k);
    vtb_cuda_close(k);
  }
}

/* block = owner * parts + part; an owner is what columns are of that are not summed over. */
static int64_t write_strips(vtb_cuda_expr *e, row *r, const int *outer, int n) {
  vtb_cuda_kernel *k = e->k;
  const vtb_value *sum = NULL;
  int over = 0, most = r->of.space.first[r->of.strip]; /* variables that are summed over */
  while (over < n && e->body.groups[outer[over]].first < most) over++;
  for (int i = 0; i < r->of.n_roots && !sum; i++)
    if (vtb__row_is_strip(r->of.roots[i].value)) sum = r->of.roots[i].value;
  int64_t rows = vtb__cuda_groups_size(e, outer, over),
          owners = vtb__cuda_groups_size(e, outer + over, n - over), parts = sum->type.dim[0].size,
          range = (rows + parts - 1) / parts;
  const char *type = vtb__cuda_int(e);
  bool warps = r->threads == 32;
  vtb_cuda_line(k, "const int part = vtb_block() %% %lld;", (long long)parts);
  vtb__cuda_decode(e, vtb_arena_printf(&e->c->arena, "vtb_block() / %lld", (long long)parts),
                   outer + over, n - over);
  declare_columns(e, r);
  vtb_cuda_line(k, "const %s begin = (%s)part * %lld;", type, type, (long long)range);
  if (parts * range == rows)
    vtb_cuda_line(k, "const %s end = begin + %lld;", type, (long long)range);
  else
    vtb_cuda_line(k, "const %s end = begin + %lld < %lld ? begin + %lld : %lld;", type,
                  (long long)range, (long long)rows, (long long)range, (long long)rows);
  vtb_cuda_open(k, "for (%s row = begin%s; row < end; row += %d)", type,
                warps ? " + vtb_warp()" : "", warps ? BLOCK / 32 : 1);
  vtb__cuda_decode(e, "row", outer, over);
  emit_passes(e, r);
  vtb_cuda_close(k);
  store_columns(e, r);
  return parts * owners;
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

/* A block a row, or a warp. */
static int64_t write_rows(vtb_cuda_expr *e, row *r, const int *outer, int n) {
  int64_t rows = vtb__cuda_groups_size(e, outer, n), per_block = BLOCK / r->threads;
  const char *block = e->wide ? "(vtb_i64)vtb_block()" : "vtb_block()";
  if (r->threads == 32) {
    vtb_cuda_line(e->k, "const %s row = %s * %d + vtb_warp();", vtb__cuda_int(e), block,
                  BLOCK / 32);
    vtb_cuda_open(e->k, "if (row < %lld)", (long long)rows);
  } else {
    vtb_cuda_line(e->k, "const %s row = %s;", vtb__cuda_int(e), block);
    vtb_cuda_open(e->k, "%s", "");
  }
  vtb__cuda_decode(e, "row", outer, n);
  emit_passes(e, r);
  vtb_cuda_close(e->k);
  return (rows + per_block - 1) / per_block;
}

/* The threads of a row and each one's share. */
static void choose_threads(const vtb_cuda_expr *e, row *r) {
  int64_t lanes = e->body.lanes, chunks = (r->columns + 32 * lanes - 1) / (32 * lanes);
  bool warp =
      is_short(e, r->columns) &&
      (!r->n_strips || (chunks <= MOST_CHUNKS && chunks * lanes * r->n_strips <= MOST_COLUMNS));
  r->threads = warp ? 32 : BLOCK;
  r->chunks = (r->columns + r->threads * lanes - 1) / (r->threads * lanes);
}

static bool write_kernel(vtb_cuda_expr *e, row *r, int lanes) {
  int outer[VTB_NEST_MAX], last = e->body.n_groups - 1;
  for (int g = 0; g < last; g++) outer[g] = g;
  vtb__cuda_begin_lanes(e, lanes);
  r->columns = e->body.groups[last].size;
  r->n_strips = 0;
  r->registers = 0;
  for (int i = 0; i < r->of.n_roots; i++) r->n_strips += vtb__row_is_strip(r->of.roots[i].value);
  choose_threads(e, r);
  e->k = vtb_cuda_begin(e->c, r->n_strips ? "strips" : "row", BLOCK);
  if (r->threads > 32 && r->of.levels) vtb_cuda_shared(e->k, "float", 4, "warps", 32);
  int64_t blocks = (r->n_strips ? write_strips : write_rows)(e, r, outer, last);
  if (lanes > 1 && e->no_lanes) {
    vtb__cuda_discard(e->k);
    return false;
  }
  vtb__cuda_registers(e->k, BESIDE_ARRAYS + r->registers);
  vtb_cuda_launch(e->k, blocks);
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

/* ---- rows of another kernel ------------------------------------------------------------------ */

/* The fewest threads of a warp that have at most MOST_OWN of a row each: what is the same in all of
 * a row is computed for several at once, and sums take fewer exchanges. */
static int threads_inside(int64_t columns, int lanes) {
  enum { FEWEST = 4, MOST_OWN = 12 };
  int threads = FEWEST;
  while (threads < 32 && (columns + threads * lanes - 1) / (threads * lanes) * lanes > MOST_OWN)
    threads *= 2;
  return threads;
}

static bool write_row(vtb_cuda_expr *e, row *r, const char *const *number, int lanes) {
  vtb__cuda_begin_lanes(e, lanes);
  r->inside = true;
  r->threads = threads_inside(r->columns, lanes);
  r->chunks = (r->columns + r->threads * lanes - 1) / (r->threads * lanes);
  for (int a = 0; a + 1 < r->of.space.rank; a++) {
    int list[VTB_NEST_MAX], n = 0, first = r->of.space.first[a];
    for (int g = 0; g + 1 < e->body.n_groups; g++)
      if (e->body.groups[g].first >= first &&
          e->body.groups[g].first < first + r->of.space.count[a])
        list[n++] = g;
    vtb__cuda_decode(e, number[a], list, n);
  }
  emit_passes(e, r);
  return lanes == 1 || !e->no_lanes;
}

const char *vtb__cuda_row_text(vtb_cuda_kernel *k, const vtb_inst *fused, const char *const *number,
                               const vtb_cuda_near *near, int n_near, int *threads) {
  vtb_cuda_expr e;
  row r = {0};
  vtb_root roots[MOST_SUMS];
  const char *text = NULL;
  if (fused->n_results > MOST_SUMS) return NULL;
  vtb__cuda_expr_init(&e, k->c, fused);
  e.k = k;
  e.near = near;
  e.n_near = n_near;
  e.body.apart = true;
  for (int i = 0; i < n_near; i++)
    vtb_vec_push(&e.body.leaves, ((vtb_leaf){.value = near[i].value, .tensor = -1}));
  for (int i = 0; i < fused->n_results; i++) {
    roots[i] = (vtb_root){.value = fused->callee->returns[i], .tensor = fused->n_operands + i};
    memcpy(roots[i].stride, vtb_cuda_tensor_of(k->c, roots[i].tensor)->stride,
           sizeof roots[i].stride);
  }
  if (vtb__row_begin(&e.body, &r.of, roots, fused->n_results) && r.of.sums.n <= MOST_SUMS) {
    int indent = k->indent;
    r.columns = e.body.groups[e.body.n_groups - 1].size;
    for (int lanes = r.columns % 4 ? 1 : 4; !text; lanes = 1) {
      k->indent = 2;
      bool done = write_row(&e, &r, number, lanes);
      k->indent = indent;
      if (done) text = vtb_arena_strdup(&k->c->arena, k->body.at);
      *threads = r.threads;
      k->body.n = 0;
      if (k->body.at) k->body.at[0] = '\0';
    }
  }
  vtb__row_end(&e.body, &r.of);
  vtb__cuda_expr_free(&e);
  return text;
}
