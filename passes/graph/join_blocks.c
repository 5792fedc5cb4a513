/* join_blocks: products of one operand with matrices a group of channels become one product.
 *
 *   %q = einsum %x, %wq, %bq {spec = "bngi,goi->bngo"}     %w = concat %wq[None], %wk[None]
 *   %k = einsum %x, %wk, %bk {spec = "bngi,goi->bngo"}  => %y = einsum %x, %w, %b {spec =
 *                                                               "bngi,sgoi->sbngo"}
 *                                                          %q = %y[0]      %k = %y[1]
 *
 * The rows are read once. Behind autodiff, whose adjoints would have to be put together first, and
 * behind add_in_product. Declines what callers get (a way back reads it, too), narrow matrices,
 * which kernels multiply where rows are read, second operands that are computed after the first
 * product, and sums that begin with something as large as the result.
 */
#include "passes/passes_internal.h"

#include "ir/product.h"

enum { MOST_JOINED = 4, LEAST_COLUMNS = 64 };

static bool is_small(const vtb_value *v, const vtb_value *beside) {
  return v->type.rank + 2 <= VTB_MAX_RANK && v->type.rank < beside->type.rank;
}

/* Callers get the value as it lies in memory: a part of a larger one would be copied for them. */
static bool is_for_callers(const vtb_value *v) {
  if (vtb_is_returned(v)) return true;
  for (vtb_inst **r = vtb__readers(v); *r; r++)
    if ((*r)->op == VTB_OP_reshape && is_for_callers((*r)->results[0])) return true;
  return false;
}

static bool is_candidate(const vtb_inst *e) {
  vtb_blocks blocks;
  if (!vtb_blocks_of(e, &blocks) || blocks.outer < LEAST_COLUMNS || e->n_attrs > 1) return false;
  return e->results[0]->type.rank < VTB_MAX_RANK && !is_for_callers(e->results[0]) &&
         (e->n_operands == 2 || is_small(e->operands[2], e->results[0]));
}

static bool alike(const vtb_inst *first, const vtb_inst *e) {
  if (first->operands[0] != e->operands[0] || first->n_operands != e->n_operands ||
      !vtb_einsum_alike(first, e))
    return false;
  for (int o = 1; o < e->n_operands; o++)
    if (!vtb_type_equal(&first->operands[o]->type, &e->operands[o]->type) ||
        !vtb_made_before(vtb_behind_reshapes(e->operands[o]), first))
      return false;
  return true;
}

/* Operands `o` of all of them on a new first axis, with axes of size 1 behind it up to `rank`. */
static vtb_value *stacked(vtb_builder *b, vtb_inst **group, int n, int o, int rank) {
  vtb_value *parts[MOST_JOINED];
  for (int i = 0; i < n; i++) {
    const vtb_type *t = &group[i]->operands[o]->type;
    int64_t dims[VTB_MAX_RANK];
    for (int a = 0; a < rank; a++)
      dims[a] = a < rank - t->rank ? 1 : t->dim[a - rank + t->rank].size;
    vtb_type type = vtb_type_make(t->dtype, rank, dims);
    parts[i] = vtb_b_reshape(b, vtb_behind_reshapes(group[i]->operands[o]), &type);
  }
  return vtb_b_concat(b, parts, n, 0);
}

static void join_groups(vtb_inst **group, int n) {
  vtb_inst *first = group[0];
  vtb_builder b = vtb__before(first);
  vtb_product p = vtb_product_of(first);
  vtb_spec old = vtb_spec_of(&p), s = old;
  char name[2];
  vtb_unused_letters(&p, "stuvwxyz", 1, name);
  for (int place = 1; place <= VTB_IN_RESULT; place++)
    snprintf(s.of[place], sizeof s.of[place], "%c%.*s", name[0], VTB_MAX_RANK - 1, old.of[place]);
  vtb_value *w = stacked(&b, group, n, 1, p.rank[1] + 1);
  vtb_value *start =
      first->n_operands == 3 ? stacked(&b, group, n, 2, p.rank[VTB_IN_RESULT] + 1) : NULL;
  vtb_value *y = vtb_b_einsum_of(&b, &s, first->operands[0], w);
  if (start) vtb_inst_add_operand(y->def, start);
  for (int i = 0; i < n; i++) {
    vtb_value *result = group[i]->results[0];
    vtb__stand_in(result, vtb_b_reshape(&b, vtb_b_slice(&b, y, 0, i, i + 1, 1), &result->type));
  }
  for (int i = 0; i < n; i++) vtb_inst_unlink(group[i]);
}

void vtb__visit_join_blocks(const vtb_pass_context *c, vtb_func *f) {
  (void)c;
  vtb_func_number(f);
  for (vtb_inst *i = f->first, *next; i; i = next) {
    vtb_inst *group[MOST_JOINED];
    int n = 0;
    next = i->next;
    if (!is_candidate(i)) continue;
    group[n++] = i;
    for (vtb_inst **r = vtb__readers(i->operands[0]); *r && n < MOST_JOINED; r++)
      if ((*r)->order > i->order && is_candidate(*r) && alike(i, *r)) group[n++] = *r;
    if (n < 2) continue;
    for (int k = 1; k < n; k++)
      if (next == group[k]) next = next->next;
    join_groups(group, n);
  }
}
