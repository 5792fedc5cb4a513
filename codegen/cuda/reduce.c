/* Reductions over any axes, several of one operand shape together (sums for biases and gains, pooling, losses).
 *
 *   last axis kept:     a block owns 32 (or 32 x 4) neighbouring results and a range of rows; its 8 warps walk the rows
 *                       in turn, then the first warp adds the 8 parts in order
 *   last axis reduced:  a block owns one result and a range of its elements; its threads walk them, then are added
 *
 * Ranges come from the shape alone. Where there are several, blocks leave partial results in a temporary, which a
 * second kernel adds in order.
 */
#include <string.h>

#include "codegen/cuda/expr.h"

enum { THREADS = 256, WARPS = THREADS / 32, WANTED_BLOCKS = 512, LEAST_ROWS = 64, LEAST_ELEMENTS = 4096 };

typedef struct reduction {
  const vtb_cuda_root *roots;
  int n;
  vtb_cuda_space space;
  bool reduced[VTB_MAX_RANK];          /* by axis of the operand */
  int64_t count;                       /* elements of one result */
  int kept[VTB_CUDA_NEST_MAX], n_kept; /* groups; without the last */
  int over[VTB_CUDA_NEST_MAX], n_over; /* with it, if it is reduced */
  bool last_reduced;
  int64_t ranges, range; /* of the reduced groups: how many, how long */
  vtb_cuda_root to[8];   /* where blocks store */
} reduction;

static bool is_max(const vtb_cuda_root *r) { return r->value->def->op == VTB_OP_reduce_max; }

static const char *join(vtb_cuda_expr *e, const vtb_cuda_root *r, const char *acc, const char *v) {
  return vtb_arena_printf(&e->c->arena, is_max(r) ? "vtb_max(%s, %s)" : "%s + %s", acc, v);
}

static const char *operand_at(vtb_cuda_expr *e, const reduction *d, int r) {
  vtb_cuda_index index[VTB_MAX_RANK];
  vtb__cuda_space_index(e, &d->space, index);
  return vtb__cuda_eval(e, d->roots[r].value->def->operands[0], index);
}

/* Linear index of the result (dense). */
static vtb_cuda_index result_at(vtb_cuda_expr *e, const reduction *d) {
  vtb_cuda_index index[VTB_MAX_RANK], at = {0};
  int64_t stride = 1;
  const vtb_type *t = &d->roots[0].value->def->operands[0]->type;
  vtb__cuda_space_index(e, &d->space, index);
  for (int a = t->rank - 1; a >= 0; a--) {
    if (d->reduced[a]) continue;
    vtb_cuda_index part = vtb__cuda_index_scale(e, &index[a], stride);
    at = vtb__cuda_index_add(e, &at, &part);
    stride *= t->dim[a].size;
  }
  return at;
}

static void probe_reduction(vtb_cuda_expr *e, vtb_cuda_space *s, void *user) {
  reduction *d = user;
  d->space = *s;
  for (int r = 0; r < d->n; r++) operand_at(e, d, r);
  vtb_cuda_index at = result_at(e, d);
  vtb__cuda_index_text(e, &at);
  bool over[VTB_CUDA_NEST_MAX] = {0};
  for (int a = 0; a < s->rank; a++)
    for (int k = s->first[a]; k < s->first[a] + s->count[a]; k++) over[k] = d->reduced[a];
  for (int k = 0; k + 1 < e->n_vars; k++) e->no_merge[k] = over[k] != over[k + 1];
}

static bool group_reduced(const reduction *d, const vtb_cuda_group *g) {
  for (int a = 0; a < d->space.rank; a++)
    if (g->first >= d->space.first[a] && g->first < d->space.first[a] + d->space.count[a]) return d->reduced[a];
  return false;
}

static void sort_groups(vtb_cuda_expr *e, reduction *d) {
  int last = e->n_groups - 1;
  d->last_reduced = group_reduced(d, &e->groups[last]);
  for (int g = 0; g <= last; g++) {
    if (group_reduced(d, &e->groups[g]))
      d->over[d->n_over++] = g;
    else if (g < last)
      d->kept[d->n_kept++] = g;
  }
}

/* `size` reduced steps in ranges of at least `least`, so that `blocks` owners become enough blocks. */
static void choose_ranges(reduction *d, int64_t size, int64_t blocks, int64_t least) {
  int64_t want = (WANTED_BLOCKS + blocks - 1) / blocks, most = size / least;
  if (want > most) want = most;
  if (want < 1) want = 1;
  d->range = (size + want - 1) / want;
  d->ranges = (size + d->range - 1) / d->range;
}

/* ---- blocks ----------------------------------------------------------------------------------------------- */

/* Names of the accumulators, set to neutral elements. */
static void declare_sums(vtb_cuda_expr *e, const reduction *d) {
  for (int r = 0; r < d->n; r++) {
    const char *zero = is_max(&d->roots[r]) ? "-VTB_INF" : "0.0f";
    if (e->lanes > 1 && !d->last_reduced)
      vtb_cuda_line(e->k, "vtb_f4 vsum%d = vtb_splat(%s);", r, zero);
    else
      vtb_cuda_line(e->k, "float sum%d = %s;", r, zero);
  }
}

static const char *sum_name(vtb_cuda_expr *e, const reduction *d, int r) {
  return vtb_arena_printf(&e->c->arena, e->lanes > 1 && !d->last_reduced ? "vsum%d" : "sum%d", r);
}

static void add_operands(vtb_cuda_expr *e, const reduction *d) {
  size_t known = e->memo.n;
  for (int r = 0; r < d->n; r++) {
    const char *v = operand_at(e, d, r), *sum = sum_name(e, d, r);
    if (e->lanes > 1 && !vtb__cuda_is_vector(v)) v = vtb_arena_printf(&e->c->arena, "vtb_splat(%s)", v);
    if (d->last_reduced) v = vtb_arena_printf(&e->c->arena, is_max(&d->roots[r]) ? "vtb_max4(%s)" : "vtb_sum4(%s)", v);
    vtb_cuda_line(e->k, "%s = %s;", sum, join(e, &d->roots[r], sum, v));
  }
  vtb__cuda_forget(e, known);
}

/* Partial results lie behind one another: range * count + the element. */
static void store_sum(vtb_cuda_expr *e, const reduction *d, int r, const char *value) {
  vtb_cuda_index at = result_at(e, d);
  if (d->ranges > 1) {
    vtb_cuda_index part = vtb__cuda_index_dyn("range", false);
    part = vtb__cuda_index_scale(e, &part, d->count);
    at = vtb__cuda_index_add(e, &at, &part);
  }
  vtb_value flat = {.type = {.dtype = VTB_F32, .rank = 1}};
  flat.type.dim[0].size = d->count * d->ranges;
  vtb_cuda_root root = d->to[r];
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
  for (int r = 0; r < d->n; r++)
    vtb_cuda_line(k, "sum%d = vtb_block_%s(sum%d, %d, warps);", r, is_max(&d->roots[r]) ? "max" : "sum", r, WARPS);
  vtb_cuda_open(k, "if (vtb_tid() == 0)");
  int lanes = e->lanes; /* one result a block */
  e->lanes = 1;
  for (int r = 0; r < d->n; r++) store_sum(e, d, r, sum_name(e, d, r));
  e->lanes = lanes;
  vtb_cuda_close(k);
}

static void emit_last_kept(vtb_cuda_expr *e, reduction *d) {
  vtb_cuda_kernel *k = e->k;
  const vtb_cuda_group *g = &e->groups[e->vec];
  vtb_cuda_open(k, "if (i%d < %lld)", e->vec, (long long)g->size);
  vtb_cuda_open(k, "for (%s j = begin + vtb_warp(); j < end; j += %d)", vtb__cuda_int(e), WARPS);
  vtb__cuda_decode(e, "j", d->over, d->n_over);
  add_operands(e, d);
  vtb_cuda_close(k);
  vtb_cuda_close(k);
  const char *type = e->lanes > 1 ? "vtb_f4" : "float";
  vtb_cuda_shared(k, type, 4 * e->lanes, "parts", THREADS * d->n);
  for (int r = 0; r < d->n; r++) vtb_cuda_line(k, "parts[%d + vtb_tid()] = %s;", r * THREADS, sum_name(e, d, r));
  vtb_cuda_line(k, "vtb_sync();");
  vtb_cuda_open(k, "if (vtb_warp() == 0 && i%d < %lld)", e->vec, (long long)g->size);
  for (int r = 0; r < d->n; r++) {
    const char *sum = sum_name(e, d, r);
    const char *part = vtb_arena_printf(&e->c->arena, "parts[%d + w * 32 + vtb_lane()]", r * THREADS);
    vtb_cuda_line(k, "VTB_UNROLL for (int w = 1; w < %d; w++) %s = %s;", WARPS, sum, join(e, &d->roots[r], sum, part));
    store_sum(e, d, r, sum);
  }
  vtb_cuda_close(k);
}

/* block = (kept * tiles + tile) * ranges + range */
static void write_blocks(vtb_cuda_expr *e, reduction *d) {
  vtb_cuda_kernel *k = e->k = vtb_cuda_begin(e->c, "reduce", THREADS);
  int last = e->n_groups - 1;
  int64_t tile = d->last_reduced ? 1 : 32 * e->lanes;
  int64_t tiles = d->last_reduced ? 1 : (e->groups[last].size + tile - 1) / tile;
  int64_t kept = vtb__cuda_groups_size(e, d->kept, d->n_kept), size = vtb__cuda_groups_size(e, d->over, d->n_over);
  const char *type = vtb__cuda_int(e);
  e->memo.n = 0;
  e->next_name = 0;
  choose_ranges(d, size, kept * tiles, d->last_reduced ? LEAST_ELEMENTS / e->lanes : LEAST_ROWS);
  for (int r = 0; r < d->n; r++) {
    d->to[r] = d->roots[r];
    d->to[r].offset = 0;
    if (d->ranges == 1) continue;
    d->to[r].tensor = -1;
    d->to[r].temp = vtb_cuda_temp(e->c, d->ranges * d->count * 4);
  }
  if (d->last_reduced) vtb_cuda_shared(k, "float", 4, "warps", 32);
  if (d->ranges > 1) vtb_cuda_line(k, "const %s range = vtb_block() %% %lld;", type, (long long)d->ranges);
  vtb_cuda_line(k, "const %s owner = vtb_block() / %lld;", type, (long long)d->ranges);
  vtb_cuda_line(k, "const %s begin = %s;", type,
                d->ranges > 1 ? vtb_arena_printf(&e->c->arena, "range * %lld", (long long)d->range) : "0");
  if (d->ranges * d->range == size)
    vtb_cuda_line(k, "const %s end = begin + %lld;", type, (long long)d->range);
  else
    vtb_cuda_line(k, "const %s end = begin + %lld < %lld ? begin + %lld : %lld;", type, (long long)d->range,
                  (long long)size, (long long)d->range, (long long)size);
  if (!d->last_reduced) {
    e->groups[last].value = vtb_arena_printf(&e->c->arena, "i%d", last);
    vtb_cuda_line(k, "const %s %s = (owner %% %lld * 32 + vtb_lane()) * %d;", type, e->groups[last].value,
                  (long long)tiles, e->lanes);
  }
  vtb__cuda_decode(e, vtb_arena_printf(&e->c->arena, "owner / %lld", (long long)tiles), d->kept, d->n_kept);
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
  vtb_cuda_open(k, "if (i < %lld)", (long long)d->count);
  for (int r = 0; r < d->n; r++) {
    char from[32], to[32];
    snprintf(from, sizeof from, "part%d", r);
    snprintf(to, sizeof to, "total%d", r);
    vtb_cuda_temp_in(k, d->to[r].temp, "float", from);
    if (d->roots[r].tensor >= 0)
      vtb_cuda_out(k, d->roots[r].tensor, to);
    else
      vtb_cuda_temp_out(k, d->roots[r].temp, "float", to);
    vtb_cuda_line(k, "float sum%d = %s[i];", r, from);
    vtb_cuda_line(k, "for (int p = 1; p < %lld; p++) sum%d = %s;", (long long)d->ranges, r,
                  join(e, &d->roots[r], vtb_arena_printf(&e->c->arena, "sum%d", r),
                       vtb_arena_printf(&e->c->arena, "%s[(vtb_i64)p * %lld + i]", from, (long long)d->count)));
    vtb_cuda_line(k, "%s[i] = sum%d;", to, r);
  }
  vtb_cuda_close(k);
  vtb_cuda_launch(k, (d->count + THREADS - 1) / THREADS);
}

/* Whether the body can be four elements at a time: written once into a kernel that is thrown away. */
static bool takes_four(vtb_cuda_expr *e, const reduction *d) {
  if (e->groups[e->n_groups - 1].size % 4) return false;
  for (int g = 0; g < e->n_groups; g++) e->groups[g].value = "i";
  e->k = vtb_cuda_begin(e->c, "probe", 32);
  e->lanes = 4;
  e->no_lanes = false;
  e->memo.n = 0;
  add_operands(e, d);
  vtb__cuda_discard(e->k);
  return !e->no_lanes;
}

void vtb__cuda_emit_reduce(vtb_cuda_expr *e, const vtb_cuda_root *roots, int n) {
  const vtb_inst *first = roots[0].value->def;
  reduction d = {.roots = roots, .n = n, .count = vtb_type_count(&roots[0].value->type)};
  vtb_check(n <= (int)(sizeof d.to / sizeof *d.to), "too many reductions in one kernel");
  int n_axes;
  const int64_t *axes = vtb_attr_ints(first, "axes", &n_axes);
  for (int i = 0; i < n_axes; i++) d.reduced[axes[i]] = true;
  vtb_cuda_space space;
  vtb__cuda_space_init(e, &space, &first->operands[0]->type);
  memset(e->no_merge, 0, sizeof e->no_merge);
  vtb__cuda_probe(e, &space, probe_reduction, &d);
  if (e->n_groups == 0) { /* all axes have size 1: a loop of one turn */
    e->n_vars = e->n_groups = 1;
    e->var_size[0] = 1;
    e->groups[0] = (vtb_cuda_group){0, 0, 1, NULL};
  }
  e->vec = e->n_groups - 1;
  sort_groups(e, &d);
  e->lanes = takes_four(e, &d) ? 4 : 1;
  write_blocks(e, &d);
  if (d.ranges > 1) write_totals(e, &d);
  e->memo.n = 0;
  e->vec = -1;
  e->lanes = 1;
}
