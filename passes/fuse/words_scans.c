/* Words of scans: several directions of one cell, those that run token by token and evaluate a body
 * there, running maxima. See words.h. */
#include "ir/axes.h"
#include "ir/recurrence.h"
#include "passes/fuse/words.h"

static bool is_scan(const vtb_inst *i) {
  return i->op == VTB_OP_linscan || i->op == VTB_OP_linscan_grad;
}

/* ---- directions ------------------------------------------------------------------------------ */

bool vtb__anchor_cell(const vtb_inst *i) { return is_scan(i) || i->op == VTB_OP_delta; }

/* They differ in path and operands at most, and have rows in common. */
static bool are_one_cell(const vtb_inst *a, const vtb_inst *b) {
  enum { N_SEQUENCES = 3 }; /* rows of tokens come first */
  bool share = false;
  if (a->op != b->op || a->n_operands != b->n_operands || !vtb__attrs_within(a, b, "path") ||
      !vtb__attrs_within(b, a, "path"))
    return false;
  for (int o = 0; o < a->n_operands; o++) {
    if (!vtb_type_equal(&a->operands[o]->type, &b->operands[o]->type)) return false;
    share |= o < N_SEQUENCES && a->operands[o] == b->operands[o];
  }
  return share;
}

VTB__WORD(direction) {
  for (int o = 0; o < i->n_operands; o++)
    if (vtb__group_maker(g, i->operands[o])) return false;
  return are_one_cell(g->anchor, i) && vtb__group_add(g, i);
}

/* ---- bodies ---------------------------------------------------------------------------------- */

bool vtb_scan_takes_body(const vtb_inst *scan) {
  if (!is_scan(scan) || vtb_scan_is_product(scan)) return false;
  vtb_scan s = vtb_scan_of(scan);
  vtb_decay_axes axes = s.decay->axes;
  if (s.K > 256) return false; /* whose sums over keys are several blocks' */
  if (s.grad) return s.decay->rates && !s.init && !s.dlast;
  return !s.normalizer && (s.decay->rates || axes == VTB_ALONG_KEY || axes == VTB_ALONG_VALUE);
}

bool vtb__anchor_steps(const vtb_inst *i) {
  return i->op == VTB_OP_linscan && vtb_scan_takes_body(i);
}
bool vtb__anchor_steps_adjoint(const vtb_inst *i) {
  return i->op == VTB_OP_linscan_grad && vtb_scan_takes_body(i);
}

/* Elements of what a scan makes, and of its adjoints of values and decays. */
static int64_t count_of(const vtb__group *g) {
  return vtb_type_count(&g->anchor->operands[2]->type);
}

/* ---- behind ---------------------------------------------------------------------------------- */

/* Results behind which a body is evaluated: a scan's y, an adjoint's of values and decays; a last
 * state is there when all tokens are done. */
static bool is_at_token(const vtb_value *v) {
  v = vtb_behind_reshapes(v);
  if (!v->def || !is_scan(v->def)) return true;
  return v->def->op == VTB_OP_linscan ? v->index == 0 : v->index == 2 || v->index == 3;
}

static bool reads_tokens(const vtb__group *g, const vtb_inst *i) {
  for (int o = 0; o < i->n_operands; o++)
    if (vtb__group_maker(g, i->operands[o]) && !is_at_token(i->operands[o])) return false;
  return true;
}

VTB__WORD(body) {
  if (!vtb__is_elementwise(i) || !reads_tokens(g, i)) return false;
  for (int r = 0; r < i->n_results; r++)
    if (vtb_type_count(&i->results[r]->type) != count_of(g)) return false;
  return vtb__group_add(g, i);
}

/* ---- before ---------------------------------------------------------------------------------- */

static bool is_spread(const vtb_inst *i) {
  return i->op == VTB_OP_broadcast || i->op == VTB_OP_transpose;
}

VTB__WORD(private_body) {
  return (is_spread(i) || vtb__is_elementwise(i)) && vtb__group_reads_alone(g, i) &&
         vtb__group_add(g, i);
}

/* A block can run both one after the other. */
static bool are_alike(const vtb_inst *x, const vtb_inst *y) {
  vtb_scan a = vtb_scan_of(x), b = vtb_scan_of(y);
  return !a.grad && !b.grad && a.decay == b.decay && a.n_batch == b.n_batch &&
         a.n_tokens == b.n_tokens && a.n_heads == b.n_heads && a.K == b.K && a.V == b.V &&
         !a.init && !b.init && !a.last && !b.last;
}

/* i reads what a scan of the group makes. */
static bool reads_scan(const vtb__group *g, const vtb_inst *i) {
  for (int o = 0; o < i->n_operands; o++) {
    const vtb_inst *maker = vtb__group_maker(g, i->operands[o]);
    if (maker && (is_scan(maker) || reads_scan(g, maker))) return true;
  }
  return false;
}

VTB__WORD(twin) {
  at = vtb_behind_reshapes(at);
  return vtb__anchor_steps(i) && at->index == 0 && vtb__is_elementwise(member) &&
         reads_scan(g, member) && are_alike(g->anchor, i) && vtb__group_add(g, i);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* Sums over samples and tokens, a number a column of the scan, of `count` elements. */
static bool is_column_sums(const vtb_inst *i, const vtb_inst *scan, int64_t count) {
  vtb_scan s = vtb_scan_of(scan);
  if (vtb_kernel_kind_of(i) != VTB_KERNEL_COL) return false;
  for (const vtb_inst *x = i->callee->first; x; x = x->next) {
    if (x->op == VTB_OP_constant || vtb_op_get(x->op)->klass == VTB_CLASS_ELEMENTWISE) continue;
    if (x->op != VTB_OP_reduce_sum || vtb_reduces_leading(x) != 2 ||
        vtb_type_count(&x->operands[0]->type) != count ||
        vtb_type_count(&x->results[0]->type) != s.n_heads * s.V)
      return false;
  }
  for (int r = 0; r < i->n_results; r++)
    if (!i->callee->returns[r]->def || i->callee->returns[r]->def->op != VTB_OP_reduce_sum)
      return false;
  return true;
}

VTB__WORD(sums_of_columns) {
  return is_column_sums(i, g->anchor, count_of(g)) && reads_tokens(g, i) && vtb__group_add(g, i);
}

/* All of many elements that the kernel reads is read by the group, too. */
static bool reads_likewise(const vtb__group *g, const vtb_inst *i) {
  for (int o = 0; o < i->n_operands; o++) {
    const vtb_value *v = vtb_behind_reshapes(i->operands[o]);
    bool read = vtb_type_count(&v->type) * 8 <= count_of(g);
    VTB__EACH_MEMBER_READ(g, m, by)
    read |= vtb_behind_reshapes(*by) == v;
    if (!read) return false;
  }
  return true;
}

VTB__WORD(sums_beside) {
  return vtb_type_count(&at->type) == count_of(g) && reads_likewise(g, i) &&
         vtb__word_sums_of_columns(g, i, at, member);
}

/* ---- running maxima -------------------------------------------------------------------------- */

bool vtb__anchor_maximum(const vtb_inst *i) {
  return (i->op == VTB_OP_maxplus && i->n_operands < 3) ||
         (i->op == VTB_OP_maxplus_grad && !vtb_attr_int(i, "init", 0));
}

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
VTB__WORD(gates) {
  const vtb_inst *scan = g->anchor;
  int64_t count = vtb_type_count(&scan->results[0]->type);
  if (vtb_kernel_kind_of(i) != VTB_KERNEL_LOOP) return false;
  for (const vtb_inst *x = i->callee->first; x; x = x->next) {
    bool view = x->op == VTB_OP_reshape || x->op == VTB_OP_broadcast;
    if (x->op == VTB_OP_shift
            ? inside_depends(i, x->operands[0], scan) && !is_before(i, x, scan)
            : !view && !vtb_is_splat(x) && vtb_op_get(x->op)->klass != VTB_CLASS_ELEMENTWISE)
      return false;
  }
  for (int r = 0; r < i->n_results; r++)
    if (i->results[r]->type.dtype != VTB_F32 || vtb_type_count(&i->results[r]->type) != count)
      return false;
  return vtb__group_add(g, i);
}
