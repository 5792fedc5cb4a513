/* Reductions over any axes, several of one operand shape together (sums for biases and gains,
 * pooling, losses).
 *
 * The reduced space is cut into blocks by its shape alone, never by the number of threads; blocks
 * leave partial results in a temporary, which a second task adds in order. If the last axis is
 * kept, a block walks its rows and adds them to a row of results; if it is reduced, lanes are added
 * up at the end of a block.
 */
#include "codegen/cpu/loop/expr.h"
#include "ir/ops.h"

enum { BLOCK = 16384, COLUMNS = 1024, MOST_TASKS = 64, SERIAL = 16384 };

typedef struct reduction {
  vtb_reduction of;
  int kept[VTB_NEST_MAX], n_kept, over[VTB_NEST_MAX], n_over; /* groups, but for the last */
  bool last_reduced;
  int64_t kept_size, over_size, last_size;
  int64_t pieces;                     /* of the last group */
  int64_t piece;                      /* elements */
  int64_t blocks, per_block;          /* of the reduced groups */
  int64_t partial[VTB_CPU_MAX_CARRY]; /* temporaries, where blocks > 1 */
  LLVMValueRef to[VTB_CPU_MAX_CARRY]; /* where the task stores */
} reduction;

static bool is_max(const vtb_root *r) { return r->value->def->op == VTB_OP_reduce_max; }

static double neutral(const vtb_root *r) { return is_max(r) ? -__builtin_inf() : 0.0; }

static LLVMValueRef join(vtb_cpu_expr *e, const vtb_root *r, LLVMValueRef acc, LLVMValueRef v) {
  return is_max(r) ? vtb_cpu_fmax(e->c, v, acc) : LLVMBuildFAdd(e->c->b, acc, v, "");
}

static LLVMValueRef operand_at(vtb_cpu_expr *e, const reduction *d, int r) {
  return vtb__reduction_operand(&e->body, &d->of, r);
}

static vtb_index result_at(vtb_cpu_expr *e, const reduction *d) {
  return vtb__reduction_result(&e->body, &d->of);
}

/* ---- shape of the work ----------------------------------------------------------------------- */

static void choose_blocks(vtb_cpu_expr *e, reduction *d) {
  int last = e->body.n_groups - 1;
  d->kept_size = d->over_size = 1;
  d->last_reduced = vtb__reduction_over(&d->of, &e->body.groups[last]);
  d->last_size = e->body.groups[last].size;
  for (int g = 0; g < last; g++) {
    if (vtb__reduction_over(&d->of, &e->body.groups[g])) {
      d->over[d->n_over++] = g;
      d->over_size *= e->body.groups[g].size;
    } else {
      d->kept[d->n_kept++] = g;
      d->kept_size *= e->body.groups[g].size;
    }
  }
  d->pieces = 1;
  d->piece = d->last_size;
  if (!d->last_reduced && d->last_size > COLUMNS) {
    d->piece = COLUMNS;
    d->pieces = (d->last_size + COLUMNS - 1) / COLUMNS;
  }
  /* one long row: its pieces are the blocks */
  if (d->last_reduced && d->over_size == 1 && d->last_size > 2 * BLOCK) {
    int64_t most = MOST_TASKS / d->kept_size, want = d->last_size / BLOCK;
    if (want > most) want = most;
    if (want > 1) {
      d->piece = ((d->last_size + want - 1) / want + 63) / 64 * 64;
      d->pieces = (d->last_size + d->piece - 1) / d->piece;
    }
  }
  int64_t tasks = d->kept_size * (d->last_reduced ? 1 : d->pieces);
  int64_t want = d->over_size * d->piece / BLOCK, most = MOST_TASKS / tasks;
  if (want > most) want = most;
  if (want > d->over_size) want = d->over_size;
  if (want < 1) want = 1;
  d->per_block = (d->over_size + want - 1) / want;
  d->blocks = (d->over_size + d->per_block - 1) / d->per_block;
}

/* Partial results a result has. */
static int64_t partials(const reduction *d) {
  return d->blocks * (d->last_reduced ? d->pieces : 1);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static void fill_row(vtb_cpu_expr *e, LLVMValueRef *carry, void *user) {
  (void)carry;
  reduction *d = user;
  vtb_index at = result_at(e, d);
  for (int r = 0; r < d->of.n; r++)
    vtb__store(e, vtb_cpu_splat(e->c, vtb_cpu_f32(e->c, neutral(&d->of.roots[r])), e->body.lanes),
               d->to[r], &at);
}

static LLVMValueRef load_result(vtb_cpu_expr *e, LLVMValueRef ptr, const vtb_index *at) {
  vtb_place_at p = vtb__index_emit(e, at);
  LLVMValueRef from = vtb_cpu_at(e->c, ptr, p.base);
  return e->mask ? vtb_cpu_load_masked(e->c, from, e->mask, e->body.lanes)
                 : vtb_cpu_load(e->c, from, e->body.lanes);
}

static void add_row(vtb_cpu_expr *e, LLVMValueRef *carry, void *user) {
  (void)carry;
  reduction *d = user;
  for (int r = 0; r < d->of.n; r++) {
    LLVMValueRef v = vtb__widen(e, operand_at(e, d, r));
    vtb_index at = result_at(e, d);
    LLVMValueRef acc = load_result(e, d->to[r], &at);
    vtb__store(e, join(e, &d->of.roots[r], acc, v), d->to[r], &at);
  }
}

static void add_lanes(vtb_cpu_expr *e, LLVMValueRef *carry, void *user) {
  reduction *d = user;
  for (int r = 0; r < d->of.n; r++) {
    LLVMValueRef v = vtb__widen(e, operand_at(e, d, r));
    LLVMValueRef none =
        vtb_cpu_splat(e->c, vtb_cpu_f32(e->c, neutral(&d->of.roots[r])), e->body.lanes);
    if (e->mask) v = LLVMBuildSelect(e->c->b, e->mask, v, none, "");
    carry[r] = join(e, &d->of.roots[r], carry[r], v);
  }
}

/* The rows of this block: a loop that sets the reduced groups. */
static vtb_cpu_for begin_rows(vtb_cpu_expr *e, reduction *d, LLVMValueRef block) {
  vtb_cpu *c = e->c;
  LLVMValueRef from = vtb_cpu_mul(c, block, d->per_block);
  LLVMValueRef to = vtb_cpu_min(c, vtb_cpu_add(c, from, vtb_cpu_i64(c, d->per_block)),
                                vtb_cpu_i64(c, d->over_size));
  vtb_cpu_for rows = vtb_cpu_for_begin(c, from, to, vtb_cpu_i64(c, 1));
  vtb__decode_list(e, rows.i, d->over, d->n_over);
  return rows;
}

static void emit_kept_last(vtb_cpu_expr *e, reduction *d, LLVMValueRef piece, LLVMValueRef block) {
  vtb_cpu *c = e->c;
  bool tail = d->last_size % e->body.lanes != 0;
  LLVMValueRef from = vtb_cpu_mul(c, piece, d->piece);
  LLVMValueRef to =
      vtb_cpu_min(c, vtb_cpu_add(c, from, vtb_cpu_i64(c, d->piece)), vtb_cpu_i64(c, d->last_size));
  vtb__vector_loop(e, from, to, tail, NULL, 0, fill_row, d);
  vtb_cpu_for rows = begin_rows(e, d, block);
  vtb__hoist_here(e);
  vtb__vector_loop(e, from, to, tail, NULL, 0, add_row, d);
  e->hoist = NULL;
  vtb_cpu_for_end(c, &rows);
}

static void emit_reduced_last(vtb_cpu_expr *e, reduction *d, LLVMValueRef piece,
                              LLVMValueRef block) {
  vtb_cpu *c = e->c;
  LLVMValueRef carry[VTB_CPU_MAX_CARRY];
  LLVMValueRef from = vtb_cpu_mul(c, piece, d->piece);
  LLVMValueRef to =
      vtb_cpu_min(c, vtb_cpu_add(c, from, vtb_cpu_i64(c, d->piece)), vtb_cpu_i64(c, d->last_size));
  for (int r = 0; r < d->of.n; r++)
    carry[r] = vtb_cpu_splat(c, vtb_cpu_f32(c, neutral(&d->of.roots[r])), e->body.lanes);
  vtb_cpu_for rows = begin_rows(e, d, block);
  for (int r = 0; r < d->of.n; r++) carry[r] = vtb_cpu_carry(c, &rows, carry[r]);
  vtb__hoist_here(e);
  vtb__vector_loop(e, from, to, d->last_size % e->body.lanes != 0, carry, d->of.n, add_lanes, d);
  e->hoist = NULL;
  for (int r = 0; r < d->of.n; r++) vtb_cpu_carry_next(&rows, r, carry[r]);
  vtb_cpu_for_end(c, &rows);
  vtb_index at = result_at(e, d);
  LLVMValueRef place = vtb__index_emit(e, &at).base;
  for (int r = 0; r < d->of.n; r++) {
    LLVMValueRef v = vtb_cpu_carried(&rows, r);
    v = is_max(&d->of.roots[r]) ? vtb_cpu_hmax(c, v) : vtb_cpu_hsum(c, v);
    vtb_cpu_store(c, v, vtb_cpu_at(c, d->to[r], place));
  }
}

/* index = (kept * pieces + piece) * blocks + block */
static void emit_blocks(vtb_cpu_expr *e, reduction *d) {
  vtb_cpu *c = e->c;
  int64_t work = d->per_block * d->piece * e->weight * d->of.n;
  e->task = vtb__task_begin(c, "reduce", d->kept_size * d->pieces * d->blocks,
                            SERIAL / (work ? work : 1));
  LLVMValueRef block = vtb_cpu_rem(c, e->task->index, d->blocks),
               rest = vtb_cpu_div(c, e->task->index, d->blocks);
  LLVMValueRef piece = vtb_cpu_rem(c, rest, d->pieces);
  vtb__decode_list(e, vtb_cpu_div(c, rest, d->pieces), d->kept, d->n_kept);
  LLVMValueRef number = block;
  if (d->last_reduced) number = vtb_cpu_add(c, vtb_cpu_mul(c, block, d->pieces), piece);
  for (int r = 0; r < d->of.n; r++) {
    d->to[r] = vtb__root_ptr(e, &d->of.roots[r]);
    if (partials(d) > 1) {
      d->to[r] = vtb_cpu_temp_ptr(c, e->task, d->partial[r]);
      d->to[r] = vtb_cpu_at(c, d->to[r], vtb_cpu_mul(c, number, d->of.count));
    }
  }
  if (d->last_reduced)
    emit_reduced_last(e, d, piece, block);
  else
    emit_kept_last(e, d, piece, block);
  vtb_cpu_task_end(c, e->task);
}

/* Adds the partial results of one element after another. */
static void add_partials(vtb_cpu_expr *e, LLVMValueRef *carry, void *user) {
  (void)carry;
  reduction *d = user;
  vtb_cpu *c = e->c;
  vtb_index at = vtb__index_var(0, 1);
  for (int r = 0; r < d->of.n; r++) {
    LLVMValueRef from = vtb_cpu_temp_ptr(c, e->task, d->partial[r]);
    LLVMValueRef first = load_result(e, from, &at);
    vtb_cpu_for l =
        vtb_cpu_for_begin(c, vtb_cpu_i64(c, 1), vtb_cpu_i64(c, partials(d)), vtb_cpu_i64(c, 1));
    LLVMValueRef acc = vtb_cpu_carry(c, &l, first);
    LLVMValueRef v = load_result(e, vtb_cpu_at(c, from, vtb_cpu_mul(c, l.i, d->of.count)), &at);
    vtb_cpu_carry_next(&l, 0, join(e, &d->of.roots[r], acc, v));
    vtb_cpu_for_end(c, &l);
    vtb__store(e, vtb_cpu_carried(&l, 0), vtb__root_ptr(e, &d->of.roots[r]), &at);
  }
}

static void emit_sum_of_partials(vtb_cpu_expr *e, reduction *d) {
  vtb_cpu *c = e->c;
  int64_t n = (d->of.count + COLUMNS - 1) / COLUMNS;
  e->body.n_vars = e->body.n_groups = 1;
  e->body.var_size[0] = d->of.count;
  e->body.groups[0] = (vtb_group){0, 0, d->of.count, NULL};
  e->body.memo.n = 0;
  vtb__choose_lanes(e, 0);
  e->task = vtb__task_begin(c, "total", n, SERIAL / (COLUMNS * partials(d)));
  LLVMValueRef from = vtb_cpu_mul(c, e->task->index, COLUMNS);
  LLVMValueRef to =
      vtb_cpu_min(c, vtb_cpu_add(c, from, vtb_cpu_i64(c, COLUMNS)), vtb_cpu_i64(c, d->of.count));
  vtb__vector_loop(e, from, to,
                   d->of.count % e->body.lanes != 0 || d->of.count % COLUMNS % e->body.lanes != 0,
                   NULL, 0, add_partials, d);
  vtb_cpu_task_end(c, e->task);
}

void vtb__emit_reduce(vtb_body *b, const vtb_root *roots, int n) {
  vtb_cpu_expr *e = vtb__expr_of(b);
  vtb_check(n < VTB_CPU_MAX_CARRY, "too many reductions in one kernel");
  reduction d = {0};
  vtb__reduction_begin(b, &d.of, roots, n);
  choose_blocks(e, &d);
  vtb__choose_lanes(e, b->n_groups - 1);
  for (int r = 0; r < n && partials(&d) > 1; r++)
    d.partial[r] = vtb_cpu_temp(e->c, partials(&d) * d.of.count * 4);
  emit_blocks(e, &d);
  if (partials(&d) > 1) emit_sum_of_partials(e, &d);
  vtb__nest_end(b);
}
