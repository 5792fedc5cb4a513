/* Reductions over any axes, several of one operand shape together (sums for biases and gains,
 * pooling, losses).
 *
 *   last axis kept:     a block owns 32 (or 32 x 4) neighbouring results and a range of rows; its 8
 *                       warps walk the rows in turn, then the first warp adds the 8 parts in order
 *   last axis reduced:  a block owns one result and a range of its elements; its threads walk them,
 *                       then are added
 *
 * Ranges come from the shape alone. Where there are several, blocks leave partial results in a
 * temporary, which a second kernel adds in order.
 */
#include "codegen/cuda/loop/expr.h"
#include "ir/ops.h"

enum {
  THREADS = 256,
  WARPS = THREADS / 32,
  WANTED_BLOCKS = 512,
  LEAST_ROWS = 64,
  FEW_ROWS = 512,  /* in one range: parts that another kernel left */
  FEW_BLOCKS = 64, /* better one column a thread than four */
  LEAST_ELEMENTS = 4096
};

typedef struct reduction {
  vtb_reduction of;
  int kept[VTB_NEST_MAX], n_kept; /* groups; without the last */
  int over[VTB_NEST_MAX], n_over; /* with it, if it is reduced */
  bool last_reduced;
  int64_t ranges, range; /* of the reduced groups: how many, how long */
  vtb_root to[8];        /* where blocks store */
} reduction;

static bool is_max(const vtb_root *r) { return r->value->def->op == VTB_OP_reduce_max; }

static const char *join(vtb_cuda_expr *e, const vtb_root *r, const char *acc, const char *v) {
  return vtb_arena_printf(&e->c->arena, is_max(r) ? "vtb_max(%s, %s)" : "%s + %s", acc, v);
}

static const char *operand_at(vtb_cuda_expr *e, const reduction *d, int r) {
  return vtb__reduction_operand(&e->body, &d->of, r);
}

static vtb_index result_at(vtb_cuda_expr *e, const reduction *d) {
  return vtb__reduction_result(&e->body, &d->of);
}

static void sort_groups(vtb_cuda_expr *e, reduction *d) {
  int last = e->body.n_groups - 1;
  d->last_reduced = vtb__reduction_over(&d->of, &e->body.groups[last]);
  for (int g = 0; g <= last; g++) {
    if (vtb__reduction_over(&d->of, &e->body.groups[g]))
      d->over[d->n_over++] = g;
    else if (g < last)
      d->kept[d->n_kept++] = g;
  }
}

/* `size` reduced steps in ranges of at least `least`, so that `blocks` owners become enough
 * blocks. */
static void choose_ranges(reduction *d, int64_t size, int64_t blocks, int64_t least) {
  int64_t want = (WANTED_BLOCKS + blocks - 1) / blocks, most = size / least;
  if (want > most) want = most;
  if (want < 1 || size <= FEW_ROWS) want = 1;
  d->range = (size + want - 1) / want;
  d->ranges = (size + d->range - 1) / d->range;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Names of the accumulators, set to neutral elements. */
static void declare_sums(vtb_cuda_expr *e, const reduction *d) {
  for (int r = 0; r < d->of.n; r++) {
    const char *zero = is_max(&d->of.roots[r]) ? "-VTB_INF" : "0.0f";
    if (e->body.lanes > 1 && !d->last_reduced)
      vtb_cuda_line(e->k, "vtb_f4 vsum%d = vtb_splat(%s);", r, zero);
    else
      vtb_cuda_line(e->k, "float sum%d = %s;", r, zero);
  }
}

static const char *sum_name(vtb_cuda_expr *e, const reduction *d, int r) {
  return vtb_arena_printf(&e->c->arena, e->body.lanes > 1 && !d->last_reduced ? "vsum%d" : "sum%d",
                          r);
}

static void add_operands(vtb_cuda_expr *e, const reduction *d) {
  size_t known = e->body.memo.n;
  for (int r = 0; r < d->of.n; r++) {
    const char *v = operand_at(e, d, r), *sum = sum_name(e, d, r);
    if (e->body.lanes > 1 && !vtb__cuda_is_vector(v))
      v = vtb_arena_printf(&e->c->arena, "vtb_splat(%s)", v);
    if (d->last_reduced)
      v = vtb_arena_printf(&e->c->arena, is_max(&d->of.roots[r]) ? "vtb_max4(%s)" : "vtb_sum4(%s)",
                           v);
    vtb_cuda_line(e->k, "%s = %s;", sum, join(e, &d->of.roots[r], sum, v));
  }
  e->body.memo.n = known;
}

/* Partial results lie behind one another: range * count + the element. */
static void store_sum(vtb_cuda_expr *e, const reduction *d, int r, const char *value) {
  vtb_index at = result_at(e, d);
  if (d->ranges > 1) {
    vtb_index part = vtb__index_dyn("range", false);
    part = vtb__index_scale(&e->body, &part, d->of.count);
    at = vtb__index_add(&e->body, &at, &part);
  }
  vtb_value flat = {.type = {.dtype = VTB_F32, .rank = 1}};
  flat.type.dim[0].size = d->of.count * d->ranges;
  vtb_root root = d->to[r];
  root.value = &flat;
  root.stride[0] = 1;
  vtb__cuda_store(e, &root, &at, value);
}

static void emit_last_reduced(vtb_cuda_expr *e, reduction *d) {
  vtb_cuda_kernel *k = e->k;
  vtb_cuda_open(k, "for (%s j = begin + vtb_tid(); j < end; j += %d)", vtb__cuda_int(e), THREADS);
  vtb__cuda_decode(e, "j", d->over, d->n_over);
  add_operands(e, d);
  vtb_cuda_close(k);
  for (int r = 0; r < d->of.n; r++)
    vtb_cuda_line(k, "sum%d = vtb_block_%s(sum%d, %d, warps);", r,
                  is_max(&d->of.roots[r]) ? "max" : "sum", r, WARPS);
  vtb_cuda_open(k, "if (vtb_tid() == 0)");
  int lanes = e->body.lanes; /* one result a block */
  e->body.lanes = 1;
  for (int r = 0; r < d->of.n; r++) store_sum(e, d, r, sum_name(e, d, r));
  e->body.lanes = lanes;
  vtb_cuda_close(k);
}

static void emit_last_kept(vtb_cuda_expr *e, reduction *d) {
  vtb_cuda_kernel *k = e->k;
  const vtb_group *g = &e->body.groups[e->body.vec];
  vtb_cuda_open(k, "if (i%d < %lld)", e->body.vec, (long long)g->size);
  vtb_cuda_open(k, "for (%s j = begin + vtb_warp(); j < end; j += %d)", vtb__cuda_int(e), WARPS);
  vtb__cuda_decode(e, "j", d->over, d->n_over);
  add_operands(e, d);
  vtb_cuda_close(k);
  vtb_cuda_close(k);
  const char *type = e->body.lanes > 1 ? "vtb_f4" : "float";
  vtb_cuda_shared(k, type, 4 * e->body.lanes, "parts", THREADS * d->of.n);
  for (int r = 0; r < d->of.n; r++)
    vtb_cuda_line(k, "parts[%d + vtb_tid()] = %s;", r * THREADS, sum_name(e, d, r));
  vtb_cuda_line(k, "vtb_sync();");
  vtb_cuda_open(k, "if (vtb_warp() == 0 && i%d < %lld)", e->body.vec, (long long)g->size);
  for (int r = 0; r < d->of.n; r++) {
    const char *sum = sum_name(e, d, r);
    const char *part =
        vtb_arena_printf(&e->c->arena, "parts[%d + w * 32 + vtb_lane()]", r * THREADS);
    vtb_cuda_line(k, "VTB_UNROLL for (int w = 1; w < %d; w++) %s = %s;", WARPS, sum,
                  join(e, &d->of.roots[r], sum, part));
    store_sum(e, d, r, sum);
  }
  vtb_cuda_close(k);
}

/* block = (kept * tiles + tile) * ranges + range */
static void write_blocks(vtb_cuda_expr *e, reduction *d) {
  vtb_cuda_kernel *k = e->k = vtb_cuda_begin(e->c, "reduce", THREADS);
  int last = e->body.n_groups - 1;
  int64_t tile = d->last_reduced ? 1 : 32 * e->body.lanes;
  int64_t tiles = d->last_reduced ? 1 : (e->body.groups[last].size + tile - 1) / tile;
  int64_t kept = vtb__cuda_groups_size(e, d->kept, d->n_kept),
          size = vtb__cuda_groups_size(e, d->over, d->n_over);
  const char *type = vtb__cuda_int(e);
  e->body.memo.n = 0;
  e->next_name = 0;
  choose_ranges(d, size, kept * tiles,
                d->last_reduced ? LEAST_ELEMENTS / e->body.lanes : LEAST_ROWS);
  for (int r = 0; r < d->of.n; r++) {
    d->to[r] = d->of.roots[r];
    d->to[r].offset = 0;
    if (d->ranges == 1) continue;
    d->to[r].tensor = -1;
    d->to[r].temp = vtb_cuda_temp(e->c, d->ranges * d->of.count * 4);
  }
  if (d->last_reduced) vtb_cuda_shared(k, "float", 4, "warps", 32);
  if (d->ranges > 1)
    vtb_cuda_line(k, "const %s range = vtb_block() %% %lld;", type, (long long)d->ranges);
  vtb_cuda_line(k, "const %s owner = vtb_block() / %lld;", type, (long long)d->ranges);
  vtb_cuda_line(k, "const %s begin = %s;", type,
                d->ranges > 1 ? vtb_arena_printf(&e->c->arena, "range * %lld", (long long)d->range)
                              : "0");
  if (d->ranges * d->range == size)
    vtb_cuda_line(k, "const %s end = begin + %lld;", type, (long long)d->range);
  else
    vtb_cuda_line(k, "const %s end = begin + %lld < %lld ? begin + %lld : %lld;", type,
                  (long long)d->range, (long long)size, (long long)d->range, (long long)size);
  if (!d->last_reduced) {
    char *name = e->body.groups[last].value = vtb_arena_printf(&e->c->arena, "i%d", last);
    vtb_cuda_line(k, "const %s %s = (owner %% %lld * 32 + vtb_lane()) * %d;", type, name,
                  (long long)tiles, e->body.lanes);
  }
  vtb__cuda_decode(e, vtb_arena_printf(&e->c->arena, "owner / %lld", (long long)tiles), d->kept,
                   d->n_kept);
  declare_sums(e, d);
  if (d->last_reduced)
    emit_last_reduced(e, d);
  else
    emit_last_kept(e, d);
  vtb_cuda_launch(k, kept * tiles * d->ranges);
}

/* Adds the partial results of one element after another. */
static void write_totals(vtb_cuda_expr *e, const reduction *d) {
  vtb_cuda_kernel *k = vtb_cuda_begin(e->c, "total", THREADS);
  vtb_cuda_line(k, "const vtb_i64 i = (vtb_i64)vtb_block() * %d + vtb_tid();", THREADS);
  vtb_cuda_open(k, "if (i < %lld)", (long long)d->of.count);
  for (int r = 0; r < d->of.n; r++) {
    char from[32], to[32];
    snprintf(from, sizeof from, "part%d", r);
    snprintf(to, sizeof to, "total%d", r);
    vtb_cuda_temp_in(k, d->to[r].temp, "float", from);
    if (d->of.roots[r].tensor >= 0)
      vtb_cuda_out(k, d->of.roots[r].tensor, to);
    else
      vtb_cuda_temp_out(k, d->of.roots[r].temp, "float", to);
    vtb_cuda_line(k, "float sum%d = %s[i];", r, from);
    vtb_cuda_line(k, "for (int p = 1; p < %lld; p++) sum%d = %s;", (long long)d->ranges, r,
                  join(e, &d->of.roots[r], vtb_arena_printf(&e->c->arena, "sum%d", r),
                       vtb_arena_printf(&e->c->arena, "%s[(vtb_i64)p * %lld + i]", from,
                                        (long long)d->of.count)));
    vtb_cuda_line(k, "%s[i] = sum%d;", to, r);
  }
  vtb_cuda_close(k);
  vtb_cuda_launch(k, (d->of.count + THREADS - 1) / THREADS);
}

/* The body can be four elements at a time: written once into a kernel that is thrown
 * away. */
static bool takes_four(vtb_cuda_expr *e, const reduction *d) {
  if (e->body.groups[e->body.n_groups - 1].size % 4) return false;
  for (int g = 0; g < e->body.n_groups; g++) e->body.groups[g].value = "i";
  e->k = vtb_cuda_begin(e->c, "probe", 32);
  e->body.lanes = 4;
  e->no_lanes = false;
  e->body.memo.n = 0;
  add_operands(e, d);
  vtb__cuda_discard(e->k);
  return !e->no_lanes;
}

void vtb__cuda_emit_reduce(vtb_body *b, const vtb_root *roots, int n) {
  vtb_cuda_expr *e = vtb__cuda_expr_of(b);
  reduction d = {0};
  int most = (int)(sizeof d.to / sizeof *d.to);
  if (n > most || vtb_attr_int(roots[0].value->def, "parts", 0)) {
    vtb_cuda_unsupported(e->c, e->c->unit.inst, "%d sums in one kernel, and %d are the most%s", n,
                         most, n > most ? "" : "; or sums in parts, without their rows");
    return;
  }
  vtb__reduction_begin(b, &d.of, roots, n);
  b->vec = b->n_groups - 1;
  sort_groups(e, &d);
  int64_t kept = vtb_type_count(&roots[0].value->type),
          over = vtb_type_count(&d.of.roots[0].value->def->operands[0]->type) / (kept ? kept : 1);
  bool narrow = !d.last_reduced && over <= FEW_ROWS && kept <= FEW_BLOCKS * 128;
  b->lanes = !narrow && takes_four(e, &d) ? 4 : 1;
  write_blocks(e, &d);
  if (d.ranges > 1) write_totals(e, &d);
  vtb__nest_end(b);
}
