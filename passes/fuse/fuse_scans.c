/* fuse_scans: elementwise kernels before a scan's operands and behind its results move into its
 * kernel.
 *
 *   %v = fused @mul(%delta, %u) {kind = "loop"}
 *   %y, %s = linscan %q, %k, %v, %delta, %A {class = "rates", last = 0}
 *   %out = fused @gate(%y, %z) {kind = "loop"}
 *   =>
 *   %out = fused @scan(%q, %k, %delta, %u, %A, %z) {kind = "scan"}
 *   func kernel @scan { mul's ops, the linscan, gate's ops }
 *
 * After `fuse` and `fuse_products`, for targets whose scans evaluate a body. Takes scans that run
 * token by token (vtb_scan_takes_body). Before them: kernels of elementwise ops that nothing else
 * reads; each value is computed where the scan reads it. Behind them: kernels of elementwise ops
 * whose results have as many elements as the scan's; what others read is stored as well. Of scans
 * that one such kernel adds up, all are of one kernel that runs them one after the other and keeps
 * what it has of the first until the last is there. Views between them go along. Declines what
 * would need a value of the group outside before the group can run, scans that read each other, and
 * sums of other columns than the scan's.
 *
 * An adjoint also takes sums over samples and tokens of what it makes or reads. Where a function
 * has a scan and its adjoint, each gets a copy of cheap kernels that both (and what stands around
 * them) read, so that their rows are not stored.
 *
 * Likewise around maxplus and its adjoint, whose kernels evaluate a body at each token: gates
 * before, which are stored where others read them, and what is made of the maximum behind. There a
 * body may also read the maximum of the token before (`shift` along the path), and shifts of what
 * it reads from memory.
 */
#include "ir/recurrence.h"
#include "passes/passes_internal.h"

#include "ir/kernels.h"

enum { MOST_OPS = 96, MOST_SCANS = 2, MANY_WARPS = 1056, MOST_SUMS = 4 };
/* What a block of 128 columns keeps of the scans before the last. */
#define MOST_KEPT (256 * 1024)

typedef struct group {
  vtb__group of;
  vtb_func *func;
  int scans, ops, sums;
} group;

static bool is_scan(const vtb_inst *i) {
  return i->op == VTB_OP_linscan || i->op == VTB_OP_linscan_grad;
}

bool vtb_scan_takes_body(const vtb_inst *scan) {
  if (!is_scan(scan) || vtb_scan_is_product(scan)) return false;
  vtb_scan s = vtb_scan_of(scan);
  vtb_decay_axes axes = s.decay->axes;
  if (s.grad) return s.decay->rates && s.K <= 16 && !s.init && !s.dlast;
  return !s.normalizer && s.K <= 256 &&
         (s.decay->rates || axes == VTB_ALONG_KEY || axes == VTB_ALONG_VALUE);
}

/* ---- membership ------------------------------------------------------------------------------ */

static bool has(const group *g, const vtb_inst *i) { return vtb__group_has(&g->of, i); }

/* A slice is no part of a kernel whose threads have whole rows. */
static bool is_whole_view(const vtb_inst *i) { return vtb_is_view(i->op) && i->op != VTB_OP_slice; }

static bool is_elementwise(const vtb_inst *i) {
  if (vtb_kernel_kind_of(i) != VTB_KERNEL_LOOP) return false;
  for (const vtb_inst *x = i->callee->first; x; x = x->next)
    if (x->op == VTB_OP_constant ? vtb_attr_find(x, "data") != NULL
                                 : vtb_op_get(x->op)->klass != VTB_CLASS_ELEMENTWISE)
      return false;
  for (int r = 0; r < i->n_results; r++)
    if (i->results[r]->type.dtype != VTB_F32) return false;
  return true;
}

/* Sums over samples and tokens, a number a column of the scan, of `count` elements. */
static bool is_column_sums(const vtb_inst *i, const vtb_inst *scan, int64_t count) {
  vtb_scan s = vtb_scan_of(scan);
  if (vtb_kernel_kind_of(i) != VTB_KERNEL_COL) return false;
  for (const vtb_inst *x = i->callee->first; x; x = x->next) {
    if (x->op == VTB_OP_constant || vtb_op_get(x->op)->klass == VTB_CLASS_ELEMENTWISE) continue;
    int n = 0;
    const int64_t *axes = x->op == VTB_OP_reduce_sum ? vtb_attr_ints(x, "axes", &n) : NULL;
    if (n != 2 || axes[0] != 0 || axes[1] != 1 || vtb_type_count(&x->operands[0]->type) != count ||
        vtb_type_count(&x->results[0]->type) != s.n_heads * s.V)
      return false;
  }
  for (int r = 0; r < i->n_results; r++)
    if (!i->callee->returns[r]->def || i->callee->returns[r]->def->op != VTB_OP_reduce_sum)
      return false;
  return true;
}

static int ops_of(const vtb_inst *i) {
  int n = 1;
  for (const vtb_inst *x = i->callee ? i->callee->first : NULL; x; x = x->next) n++;
  return n;
}

static bool is_whole(const group *g) {
  return g->ops <= MOST_OPS && g->sums <= MOST_SUMS && vtb__group_stands(&g->of);
}

static bool add(group *g, vtb_inst *i) {
  if (has(g, i)) return true;
  if (!vtb__group_add(&g->of, i)) return false;
  g->ops += ops_of(i);
  g->scans += is_scan(i);
  g->sums += vtb_kernel_kind_of(i) == VTB_KERNEL_COL ? i->n_results : 0;
  return true;
}

/* ---- growth ---------------------------------------------------------------------------------- */

/* What computes operands, as far as the group alone reads it. */
static void take_before(group *g) {
  for (int m = 0; m < g->of.n; m++)
    for (int o = 0; o < g->of.at[m]->n_operands; o++) {
      vtb_inst *def = g->of.at[m]->operands[o]->def;
      bool alone = def && !has(g, def) && (is_whole_view(def) || is_elementwise(def));
      for (int r = 0, first = INT32_MAX; alone && r < def->n_results; r++)
        alone = !vtb__group_is_read(&g->of, def->results[r], &first);
      if (alone && g->ops + ops_of(def) <= MOST_OPS) add(g, def);
    }
}

/* ---- copies ---------------------------------------------------------------------------------- */

enum { NEAR = 4, CHEAP_OPS = 8, MOST_INPUTS = 2 };

static bool takes_body(const vtb_inst *i) { return is_scan(i) && vtb_scan_takes_body(i); }

/* Whether i is computed of what a scan makes, at most `depth` kernels before. */
static bool is_behind(const vtb_inst *i, int depth) {
  for (int o = 0; o < i->n_operands; o++) {
    const vtb_inst *def = i->operands[o]->def;
    if (def && (takes_body(def) || (depth > 0 && (is_whole_view(def) || is_elementwise(def)) &&
                                    is_behind(def, depth - 1))))
      return true;
  }
  return false;
}

/* Whether v is read by scans that take a body alone, or by what stands around them. */
static bool is_for_scans(const vtb_value *v, int depth) {
  vtb_inst **readers;
  size_t n = vtb_value_readers(v, &readers);
  bool all = n > 0 && !vtb_is_returned(v);
  for (size_t i = 0; i < n && all; i++) {
    const vtb_inst *r = readers[i];
    bool around = is_whole_view(r) || is_elementwise(r) || vtb_kernel_kind_of(r) == VTB_KERNEL_COL;
    all = takes_body(r) || (around && is_behind(r, NEAR)) || (around && depth > 0);
    for (int k = 0; k < r->n_results && all && !takes_body(r) && !is_behind(r, NEAR); k++)
      all = is_for_scans(r->results[k], depth - 1);
  }
  vtb_free(readers);
  return all;
}

/* A cheap kernel of few rows, read by scans and around them. */
static bool is_worth_copies(const vtb_inst *i) {
  int large = 0;
  if (!is_whole_view(i) && (!is_elementwise(i) || ops_of(i) > CHEAP_OPS)) return false;
  int64_t count = vtb_type_count(&i->results[0]->type);
  for (int o = 0; o < i->n_operands; o++)
    large += vtb_type_count(&i->operands[o]->type) * 8 > count;
  for (int r = 0; r < i->n_results; r++)
    if (vtb_reader_count(i->results[r]) && !is_for_scans(i->results[r], NEAR)) return false;
  return large <= MOST_INPUTS;
}

/* A copy of i for each of its readers but one. */
static bool copy_for_readers(vtb_func *f, vtb_inst *i) {
  vtb_inst *kept = NULL;
  bool any = false;
  for (int r = 0; r < i->n_results; r++) {
    vtb_inst **readers;
    size_t n = vtb_value_readers(i->results[r], &readers);
    for (size_t k = 0; k < n; k++) {
      if (!kept) kept = readers[k];
      if (readers[k] == kept) continue;
      vtb_builder b = {.module = f->module, .func = f, .before = i, .span = i->span};
      const vtb_inst *copy = vtb_inst_clone(&b, i, i->operands);
      any = true;
      for (int o = 0; o < readers[k]->n_operands; o++)
        for (int s = 0; s < i->n_results; s++)
          if (readers[k]->operands[o] == i->results[s])
            vtb_inst_set_operand(readers[k], o, copy->results[s]);
    }
    vtb_free(readers);
  }
  return any;
}

/* Where a function has a scan and its adjoint, what both compute of the same rows is made in either
 * kernel instead of being stored: last kernels first, so that those before have copies as
 * readers. */
static void copy_around_scans(vtb_func *f) {
  bool ahead = false, back = false;
  for (const vtb_inst *i = f->first; i; i = i->next) {
    ahead |= i->op == VTB_OP_linscan && takes_body(i);
    back |= i->op == VTB_OP_linscan_grad && takes_body(i);
  }
  for (vtb_inst *i = f->last, *before; i && ahead && back; i = before) {
    before = i->prev;
    if (i->n_results > 0 && is_worth_copies(i) && copy_for_readers(f, i)) before = i->prev;
  }
}

/* Whether all of many elements that the kernel reads is read by the group, too. */
static bool reads_likewise(const group *g, const vtb_inst *i, int64_t count) {
  for (int o = 0; o < i->n_operands; o++) {
    bool read = vtb_type_count(&i->operands[o]->type) * 8 <= count;
    for (int m = 0; m < g->of.n && !read; m++)
      for (int n = 0; n < g->of.at[m]->n_operands; n++)
        read |=
            vtb_behind_reshapes(g->of.at[m]->operands[n]) == vtb_behind_reshapes(i->operands[o]);
    if (!read) return false;
  }
  return true;
}

static const vtb_inst *first_scan(const group *g) {
  for (int m = 0; m < g->of.n; m++)
    if (is_scan(g->of.at[m])) return g->of.at[m];
  return NULL;
}

/* Whether a block can run both one after the other. */
static bool are_alike(const vtb_inst *x, const vtb_inst *y) {
  vtb_scan a = vtb_scan_of(x), b = vtb_scan_of(y);
  return !a.grad && !b.grad && a.decay == b.decay && a.n_batch == b.n_batch &&
         a.n_tokens == b.n_tokens && a.n_heads == b.n_heads && a.K == b.K && a.V == b.V &&
         !a.init && !b.init && !a.last && !b.last && a.n_tokens * 128 * 4 <= MOST_KEPT;
}

/* The scan whose result v is, by views; *views gets what lies between. */
static vtb_inst *scan_behind(vtb_value *v, group *views) {
  while (v->def && v->def->op == VTB_OP_reshape && add(views, v->def)) v = v->def->operands[0];
  return v->def && v->def->op == VTB_OP_linscan && v->index == 0 && vtb_scan_takes_body(v->def)
             ? v->def
             : NULL;
}

/* Whether i needs the result of a scan of the group: a block has none of the next before all of one
 * are there. */
static bool reads_scan(const group *g, const vtb_inst *i) {
  for (int o = 0; o < i->n_operands; o++) {
    const vtb_inst *def = i->operands[o]->def;
    if (def && has(g, def) && (is_scan(def) || reads_scan(g, def))) return true;
  }
  return false;
}

static bool are_apart(const group *g) {
  for (int m = 0; m < g->of.n; m++)
    if (is_scan(g->of.at[m]) && reads_scan(g, g->of.at[m])) return false;
  return true;
}

/* The other scans that the kernel reads. */
static void take_scans(group *g, const vtb_inst *kernel) {
  for (int o = 0; o < kernel->n_operands && g->scans < MOST_SCANS; o++) {
    group views = {0}, before = *g;
    vtb_inst *scan = scan_behind(kernel->operands[o], &views);
    if (!scan || has(g, scan) || !are_alike(first_scan(g), scan)) continue;
    for (int i = 0; i < views.of.n; i++) add(g, views.of.at[i]);
    if (!add(g, scan) || !is_whole(g) || !are_apart(g)) *g = before;
  }
}

/* Sums over samples and tokens of what an adjoint's group reads anyway, as the gradient of D in
 * y + D u. */
static void take_beside(group *g, int64_t count) {
  for (int m = 0; m < g->of.n; m++)
    for (int o = 0; o < g->of.at[m]->n_operands; o++) {
      const vtb_value *v = vtb_behind_reshapes(g->of.at[m]->operands[o]);
      vtb_inst **readers;
      if (vtb_type_count(&v->type) != count || (v->def && has(g, v->def))) continue;
      size_t n = vtb_value_readers(v, &readers);
      for (size_t i = 0; i < n; i++) {
        group before = *g;
        if (has(g, readers[i]) || !is_column_sums(readers[i], first_scan(g), count) ||
            !reads_likewise(g, readers[i], count))
          continue;
        if (!add(g, readers[i]) || !is_whole(g)) *g = before;
      }
      vtb_free(readers);
    }
}

/* A recurrence's last state is there when all tokens are done. */
static bool reads_state(const group *g, const vtb_inst *i) {
  for (int o = 0; o < i->n_operands; o++) {
    const vtb_value *v = i->operands[o];
    if (v->def && v->def->op == VTB_OP_linscan && v->index > 0 && has(g, v->def)) return true;
  }
  return false;
}

/* Kernels that read v, of so many elements, and what reads those. */
static bool take_behind(group *g, const vtb_value *v, int64_t count) {
  vtb_inst **readers;
  size_t n = vtb_value_readers(v, &readers);
  bool any = false;
  for (size_t i = 0; i < n; i++) {
    vtb_inst *r = readers[i];
    group before = *g;
    if (has(g, r)) continue;
    bool sums = first_scan(g)->op == VTB_OP_linscan_grad && is_column_sums(r, first_scan(g), count);
    bool fits = r->op == VTB_OP_reshape || sums || is_elementwise(r);
    fits = fits && !reads_state(g, r);
    for (int k = 0; fits && !sums && k < r->n_results; k++)
      fits = vtb_type_count(&r->results[k]->type) == count;
    if (!fits || !add(g, r)) continue;
    if (!is_whole(g)) {
      *g = before;
      continue;
    }
    bool took = r->op != VTB_OP_reshape;
    if (took) take_scans(g, r);
    for (int k = 0; k < r->n_results; k++) took |= take_behind(g, r->results[k], count);
    if (!took) *g = before;
    any |= took;
  }
  vtb_free(readers);
  return any;
}

static void join(group *g) {
  const vtb_inst *scan = first_scan(g) ? first_scan(g) : g->of.at[0];
  vtb__group_join(&g->of, g->func, scan, vtb_kernel_kind_name(VTB_KERNEL_SCAN), true);
}

/* ---- directions ------------------------------------------------------------------------------ */

/* Scans of a kernel that the pass `directions` made stand alone again, if there are enough columns
 * for them to run one after the other. */
static void part(vtb_inst *fused) {
  const vtb_func *f = fused->callee;
  for (const vtb_inst *i = f->first; i; i = i->next)
    if (!vtb_scan_takes_body(i)) return;
  vtb_scan s = vtb_scan_of(f->first);
  if (s.n_batch * s.n_heads * ((s.V + 31) / 32) < MANY_WARPS) return;
  vtb_builder b = {
      .module = fused->func->module, .func = fused->func, .before = fused, .span = fused->span};
  vtb_value **inside = vtb_xcalloc((size_t)f->n_values + 1, sizeof *inside);
  for (int a = 0; a < f->n_args; a++) inside[f->args[a]->id] = fused->operands[a];
  vtb__copy_body(&b, f, inside);
  for (int r = 0; r < fused->n_results; r++)
    vtb_replace_all(fused->results[r], inside[f->returns[r]->id]);
  vtb_inst_unlink(fused);
  vtb_free(inside);
}

/* ---- maxplus --------------------------------------------------------------------------------- */

static bool depends_on(const vtb_value *v, const vtb_inst *scan) {
  if (v->def == scan) return true;
  if (v->def && v->def->order < scan->order) return false;
  for (int o = 0; v->def && o < v->def->n_operands; o++)
    if (depends_on(v->def->operands[o], scan)) return true;
  return false;
}

/* As depends_on, of a value in the body of a kernel of the group. */
static bool inside_depends(const vtb_inst *i, const vtb_value *v, const vtb_inst *scan) {
  if (!v->def) return depends_on(i->operands[v->index], scan);
  for (int o = 0; o < v->def->n_operands; o++)
    if (inside_depends(i, v->def->operands[o], scan)) return true;
  return false;
}

static const char *path_of(const vtb_inst *i) { return vtb_attr_str(i, "path", ""); }

/* The shift reads the maximum of the token before. */
static bool is_before(const vtb_inst *i, const vtb_inst *shift, const vtb_inst *scan) {
  const vtb_value *x = shift->operands[0];
  return !x->def && i->operands[x->index] == scan->results[0] && scan->op == VTB_OP_maxplus &&
         shift->n_operands == 1 && vtb_attr_int(shift, "axis", 0) == 1 &&
         vtb_attr_int(shift, "by", 0) == 1 && vtb_streq(path_of(shift), path_of(scan));
}

/* Elementwise at a token, of as many results as the scan has. */
static bool is_at_tokens(const vtb_inst *i, const vtb_inst *scan) {
  int64_t count = vtb_type_count(&scan->results[0]->type);
  if (vtb_kernel_kind_of(i) != VTB_KERNEL_LOOP) return false;
  for (const vtb_inst *x = i->callee->first; x; x = x->next) {
    bool view = x->op == VTB_OP_reshape || x->op == VTB_OP_broadcast;
    if (x->op == VTB_OP_constant ? vtb_attr_find(x, "data") != NULL
        : x->op == VTB_OP_shift  ? inside_depends(i, x->operands[0], scan) && !is_before(i, x, scan)
                                 : !view && vtb_op_get(x->op)->klass != VTB_CLASS_ELEMENTWISE)
      return false;
  }
  for (int r = 0; r < i->n_results; r++)
    if (i->results[r]->type.dtype != VTB_F32 || vtb_type_count(&i->results[r]->type) != count)
      return false;
  return true;
}

/* Takes the kernel that makes v, through views. */
static bool take_gates(group *g, const vtb_value *v, const vtb_inst *scan) {
  group before = *g;
  vtb_inst *i = v->def;
  for (; i && i->op == VTB_OP_reshape && add(g, i); v = i->operands[0], i = v->def) continue;
  if (!i || has(g, i) || !is_at_tokens(i, scan) || !add(g, i) || !is_whole(g)) {
    *g = before;
    return false;
  }
  for (int o = 0; o < i->n_operands; o++) take_gates(g, i->operands[o], scan);
  return true;
}

static bool take_readers(group *g, const vtb_value *v, const vtb_inst *scan) {
  vtb_inst **readers;
  size_t n = vtb_value_readers(v, &readers);
  bool any = false;
  for (size_t i = 0; i < n; i++) {
    vtb_inst *r = readers[i];
    group before = *g;
    bool view = r->op == VTB_OP_reshape, took = false;
    if (has(g, r) || (!view && !is_at_tokens(r, scan)) || !add(g, r)) continue;
    took = !view && is_whole(g);
    for (int k = 0; (took || view) && k < r->n_results; k++)
      took |= take_readers(g, r->results[k], scan);
    if (!took) *g = before;
    any |= took;
  }
  vtb_free(readers);
  return any;
}

static bool visit_maxplus(vtb_func *f, vtb_inst *scan) {
  group g = {.func = f};
  bool grad = scan->op == VTB_OP_maxplus_grad;
  if (grad ? vtb_attr_int(scan, "init", 0) : scan->n_operands == 3) return false;
  vtb_func_number(f);
  add(&g, scan);
  for (int o = 0; o < scan->n_operands; o++) take_gates(&g, scan->operands[o], scan);
  for (int m = 0; m < g.of.n; m++)
    for (int r = 0; r < g.of.at[m]->n_results; r++) take_readers(&g, g.of.at[m]->results[r], scan);
  if (g.of.n == 1 || !is_whole(&g)) return false;
  join(&g);
  return true;
}

/* True if the scan is part of a kernel now. */
static bool visit(vtb_func *f, vtb_inst *scan) {
  group g = {.func = f};
  vtb_func_number(f);
  add(&g, scan);
  bool grad = scan->op == VTB_OP_linscan_grad; /* behind the adjoints of v and the decays */
  for (int r = grad ? 2 : 0; r < (grad ? 4 : 1); r++)
    take_behind(&g, scan->results[r], vtb_type_count(&scan->operands[2]->type));
  take_before(&g);
  if (grad) take_beside(&g, vtb_type_count(&scan->operands[2]->type));
  if ((g.of.n == 1 && !grad) || !is_whole(&g)) return false;
  join(&g);
  return true;
}

vtb_status vtb__pass_fuse_scans(vtb_pass_context *c, vtb_error *err) {
  (void)err;
  for (vtb_func *f = c->module->first; f; f = f->next) {
    if (f->kind != VTB_FUNC_PLAIN) continue;
    for (vtb_inst *i = f->first, *next; i; i = next) {
      next = i->next;
      if (vtb_is_scans(i)) part(i);
    }
    copy_around_scans(f);
    for (bool again = true; again;) {
      again = false;
      for (vtb_inst *i = f->first; i && !again; i = i->next)
        again = is_scan(i) && vtb_scan_takes_body(i) && visit(f, i);
    }
    for (vtb_inst *i = f->first, *next; i; i = next) {
      next = i->next;
      if ((i->op == VTB_OP_maxplus || i->op == VTB_OP_maxplus_grad) && visit_maxplus(f, i))
        next = f->first;
    }
  }
  return VTB_OK;
}
