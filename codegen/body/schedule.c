/* Which kernels a body becomes.
 *
 * Tried in this order: a row kernel for all results; otherwise every reduction is computed into
 * memory (its result, or a temporary), level by level, and what is left are loops, one kernel a
 * shape. A result that is a concatenation is stored piece by piece.
 */
#include "codegen/body/body.h"
#include "ir/ops.h"

#include <string.h>

typedef VTB_VEC(vtb_root) root_list;

bool vtb__is_reduce(const vtb_value *v) {
  return v->def && vtb_op_get(v->def->op)->klass == VTB_CLASS_REDUCE;
}

const vtb_value *vtb__body_reduction(const vtb_body *b, int i) {
  const vtb_inst *bare = b->inst && !b->inst->callee ? b->inst : NULL;
  for (const vtb_inst *k = bare      ? bare
                           : b->inst ? b->inst->callee->first
                                     : NULL;
       k; k = bare ? NULL : k->next)
    if (k->n_results == 1 && vtb__is_reduce(k->results[0]) && !vtb__leaf_find(b, k->results[0]) &&
        i-- == 0)
      return k->results[0];
  return NULL;
}

int vtb__reduce_level(vtb_body *b, const vtb_value *v) {
  if (!v->def || vtb__leaf_find(b, v)) return 0;
  for (size_t i = 0; i < b->levels.n; i++)
    if (b->levels.at[i].value == v) return b->levels.at[i].level;
  int level = 0;
  for (int o = 0; o < v->def->n_operands; o++) {
    int below = vtb__reduce_level(b, v->def->operands[o]);
    if (below > level) level = below;
  }
  level += vtb__is_reduce(v);
  vtb_vec_push(&b->levels, ((vtb_level){v, level}));
  return level;
}

static bool same_space(const vtb_value *x, const vtb_value *y) {
  int n, m;
  const int64_t *a = vtb_attr_ints(x->def, "axes", &n), *b = vtb_attr_ints(y->def, "axes", &m);
  return vtb_type_equal(&x->def->operands[0]->type, &y->def->operands[0]->type) && n == m &&
         vtb_attr_int(x->def, "parts", 0) == vtb_attr_int(y->def, "parts", 0) &&
         (n == 0 || memcmp(a, b, sizeof *a * (size_t)n) == 0);
}

/* Where a reduction goes: straight to the result if it is one, and dense. */
static void place_reduction(vtb_body *b, vtb_root *r, const vtb_root *results, int n) {
  vtb__dense_strides(&r->value->type, r->stride);
  for (int i = 0; i < n; i++)
    if (results[i].value == r->value && vtb__is_dense(&r->value->type, results[i].stride)) {
      r->tensor = results[i].tensor;
      return;
    }
  r->temp = b->target->temp(b, vtb_type_count(&r->value->type) * 4);
}

/* The innermost reductions of one space, computed together, become leaves; until none are left. */
static void emit_reductions(vtb_body *b, const vtb_root *results, int n) {
  for (;;) {
    root_list now = {0};
    const vtb_value *v;
    for (int i = 0; now.n < (size_t)b->target->most_together && (v = vtb__body_reduction(b, i));
         i++)
      if (vtb__reduce_level(b, v) == 1 && (!now.n || same_space(v, now.at[0].value)))
        vtb_vec_push(&now, ((vtb_root){.value = v, .tensor = -1}));
    if (!now.n) return;
    for (size_t i = 0; i < now.n; i++) place_reduction(b, &now.at[i], results, n);
    b->target->reduce(b, now.at, (int)now.n);
    for (size_t i = 0; i < now.n; i++)
      vtb_vec_push(&b->leaves,
                   ((vtb_leaf){now.at[i].value, now.at[i].tensor, now.at[i].temp, NULL}));
    b->levels.n = 0;
    vtb_vec_free(&now);
  }
}

/* Rows in which a piece would be less than what memory moves at once: better stored whole. */
static bool has_short_pieces(const vtb_value *v) {
  enum { MOST_ROW = 128, SHORT = 16 };
  int axis = (int)vtb_attr_int(v->def, "axis", 0);
  bool is_short = false, differ = false;
  if (axis != v->type.rank - 1 || v->type.dim[axis].size > MOST_ROW) return false;
  for (int o = 0; o < v->def->n_operands; o++) {
    int64_t n = v->def->operands[o]->type.dim[axis].size;
    is_short |= n < SHORT;
    differ |= n != v->def->operands[0]->type.dim[axis].size;
  }
  return is_short && differ;
}

/* A concatenation that is a result itself is stored operand by operand. */
static void expand(vtb_body *b, vtb_root r, root_list *out) {
  const vtb_value *v = r.value;
  if (!v->def || vtb__leaf_find(b, v) || v->def->op != VTB_OP_concat ||
      (b->target->joins_rows && has_short_pieces(v))) {
    vtb_vec_push(out, r);
    return;
  }
  int axis = (int)vtb_attr_int(v->def, "axis", 0);
  for (int o = 0; o < v->def->n_operands; o++) {
    r.value = v->def->operands[o];
    expand(b, r, out);
    r.offset += r.value->type.dim[axis].size * r.stride[axis];
  }
}

static void emit_loops(vtb_body *b, root_list *roots) {
  while (roots->n) {
    root_list same = {0}, rest = {0};
    for (size_t i = 0; i < roots->n; i++) {
      vtb_type x = roots->at[i].value->type, y = roots->at[0].value->type;
      x.dtype = y.dtype;
      if (vtb_type_equal(&x, &y))
        vtb_vec_push(&same, roots->at[i]);
      else
        vtb_vec_push(&rest, roots->at[i]);
    }
    b->target->loop(b, same.at, (int)same.n);
    vtb_vec_free(&same);
    vtb_vec_free(roots);
    roots->at = rest.at;
    roots->n = rest.n;
    roots->cap = rest.cap;
  }
}

void vtb__schedule(vtb_body *b, const vtb_root *results, int n) {
  bool reduces = false;
  for (int i = 0; i < n; i++) reduces |= vtb__reduce_level(b, results[i].value) > 0;
  if (reduces && b->target->row(b, results, n)) return;
  if (reduces) emit_reductions(b, results, n);
  root_list loops = {0};
  for (int i = 0; i < n; i++) {
    const vtb_leaf *leaf = vtb__leaf_find(b, results[i].value);
    if (leaf && leaf->tensor == results[i].tensor) continue; /* a reduction, in place */
    expand(b, results[i], &loops);
  }
  emit_loops(b, &loops);
  vtb_vec_free(&loops);
}
