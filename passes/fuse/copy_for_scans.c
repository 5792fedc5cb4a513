/* copy_for_scans: what scans that evaluate a body, and what stands around them, all read is made in
 * each of their kernels.
 *
 *   %g = fused @silu(%x) {kind = "loop"}
 *   %y = linscan ... %g ...           %dg = linscan_grad ... %g ...
 *   =>
 *   %g = fused @silu(%x) {kind = "loop"}     %g.1 = fused @silu(%x) {kind = "loop"}
 *   %y = linscan ... %g ...           %dg = linscan_grad ... %g.1 ...
 *
 * Where a function has a scan and its adjoint, cheap kernels that both read are copied, so that the
 * rows `grow` adds to each are not stored. Scans of a kernel that the row `directions` made stand
 * alone again, if there are enough columns for them to run one after the other.
 */
#include "ir/recurrence.h"
#include "passes/fuse/words.h"

enum { WARPS_EACH = 8 }; /* of a multiprocessor that is busy */

/* A slice is no part of a kernel whose threads have whole rows. */
static bool is_whole_view(const vtb_inst *i) { return vtb_is_view(i->op) && i->op != VTB_OP_slice; }

/* ---- copies ---------------------------------------------------------------------------------- */

enum { NEAR = 4, CHEAP_OPS = 8, MOST_INPUTS = 2 };

/* i is computed of what a scan makes, at most `depth` kernels before. */
static bool is_behind(const vtb_inst *i, int depth) {
  for (int o = 0; o < i->n_operands; o++) {
    const vtb_inst *def = i->operands[o]->def;
    if (def && (vtb_scan_takes_body(def) ||
                (depth > 0 && (is_whole_view(def) || vtb__is_elementwise(def)) &&
                 is_behind(def, depth - 1))))
      return true;
  }
  return false;
}

/* v is read by scans that take a body alone, or by what stands around them. */
static bool is_for_scans(const vtb_value *v, int depth) {
  vtb_inst **r = vtb__readers(v);
  bool all = *r && !vtb_is_returned(v);
  for (; *r && all; r++) {
    bool scan = vtb_scan_takes_body(*r), behind = is_behind(*r, NEAR);
    bool around =
        is_whole_view(*r) || vtb__is_elementwise(*r) || vtb_kernel_kind_of(*r) == VTB_KERNEL_COL;
    all = scan || (around && (behind || depth > 0));
    for (int k = 0; k < (*r)->n_results && all && !scan && !behind; k++)
      all = is_for_scans((*r)->results[k], depth - 1);
  }
  return all;
}

/* A cheap kernel of few rows, read by scans and around them. */
static bool is_worth_copies(const vtb_inst *i) {
  int large = 0;
  if (!is_whole_view(i) && (!vtb__is_elementwise(i) || vtb__group_ops(i) > CHEAP_OPS)) return false;
  int64_t count = vtb_type_count(&i->results[0]->type);
  for (int o = 0; o < i->n_operands; o++)
    large += vtb_type_count(&i->operands[o]->type) * 8 > count;
  for (int r = 0; r < i->n_results; r++)
    if (vtb_reader_count(i->results[r]) && !is_for_scans(i->results[r], NEAR)) return false;
  return large <= MOST_INPUTS;
}

/* A copy of i for each of its readers but one. */
static bool copy_for_readers(vtb_inst *i) {
  const vtb_inst *kept = NULL;
  bool any = false;
  for (int r = 0; r < i->n_results; r++)
    for (vtb_inst **k = vtb__readers(i->results[r]); *k; k++) {
      if (!kept) kept = *k;
      if (*k == kept) continue;
      vtb_builder b = vtb__before(i);
      const vtb_inst *copy = vtb_inst_clone(&b, i, i->operands);
      any = true;
      for (int s = 0; s < i->n_results; s++)
        vtb_inst_replace_operand(*k, i->results[s], copy->results[s]);
    }
  return any;
}

/* Where a function has a scan and its adjoint, what both compute of the same rows is made in either
 * kernel instead of being stored: last kernels first, so that those before have copies as
 * readers. */
static void copy_around_scans(vtb_func *f) {
  bool ahead = false, back = false;
  for (const vtb_inst *i = f->first; i; i = i->next) {
    ahead |= i->op == VTB_OP_linscan && vtb_scan_takes_body(i);
    back |= i->op == VTB_OP_linscan_grad && vtb_scan_takes_body(i);
  }
  for (vtb_inst *i = f->last, *before; i && ahead && back; i = before) {
    before = i->prev;
    if (i->n_results > 0 && is_worth_copies(i) && copy_for_readers(i)) before = i->prev;
  }
}

/* ---- directions ------------------------------------------------------------------------------ */

static void part(const vtb_gpu *gpu, vtb_inst *fused) {
  for (const vtb_inst *i = fused->callee->first; i; i = i->next)
    if (!vtb_scan_takes_body(i)) return;
  vtb_scan s = vtb_scan_of(fused->callee->first);
  if ((double)(s.n_batch * s.n_heads * ((s.V + 31) / 32)) < WARPS_EACH * gpu->processors) return;
  vtb__expand(fused);
}

void vtb__visit_copy_for_scans(const vtb_pass_context *c, vtb_func *f) {
  VTB__EACH_INST(f, i, next) {
    if (vtb_is_scans(i)) part(vtb_gpu_or_default(&c->gpu), i);
  }
  copy_around_scans(f);
}
