/* Kernels of ops that are expressions, moves and reductions: a fused body, or one bare op. Mirrors codegen/cpu/fused.c.
 *
 * Tried in this order: a row kernel for all results; otherwise every reduction is computed into memory (its result, or
 * a temporary), level by level, and what is left are loops, one kernel a shape. A result that is a concatenation is
 * stored piece by piece.
 */
#include <string.h>

#include "codegen/cuda/emitters.h"
#include "codegen/cuda/expr.h"
#include "ir/recurrence.h"

typedef VTB_VEC(vtb_cuda_root) root_list;

bool vtb__cuda_is_reduce(const vtb_value *v) { return v->def && vtb_op_get(v->def->op)->klass == VTB_CLASS_REDUCE; }

const vtb_value *vtb__cuda_body_reduction(const vtb_cuda_expr *e, int i) {
  const vtb_inst *bare = e->inst && !e->inst->callee ? e->inst : NULL;
  for (const vtb_inst *k = bare ? bare : e->inst ? e->inst->callee->first : NULL; k; k = bare ? NULL : k->next)
    if (k->n_results == 1 && vtb__cuda_is_reduce(k->results[0]) && !vtb__cuda_leaf_find(e, k->results[0]) && i-- == 0)
      return k->results[0];
  return NULL;
}

int vtb__cuda_reduce_level(vtb_cuda_expr *e, const vtb_value *v) {
  if (!v->def || vtb__cuda_leaf_find(e, v)) return 0;
  for (size_t i = 0; i < e->levels.n; i++)
    if (e->levels.at[i].value == v) return e->levels.at[i].level;
  int level = 0;
  for (int o = 0; o < v->def->n_operands; o++) {
    int below = vtb__cuda_reduce_level(e, v->def->operands[o]);
    if (below > level) level = below;
  }
  level += vtb__cuda_is_reduce(v);
  vtb_vec_push(&e->levels, ((vtb_cuda_level){v, level}));
  return level;
}

static bool same_space(const vtb_value *x, const vtb_value *y) {
  int n, m;
  const int64_t *a = vtb_attr_ints(x->def, "axes", &n), *b = vtb_attr_ints(y->def, "axes", &m);
  return vtb_type_equal(&x->def->operands[0]->type, &y->def->operands[0]->type) && n == m &&
         (n == 0 || memcmp(a, b, sizeof *a * (size_t)n) == 0);
}

static bool is_dense(const vtb_type *t, const int64_t *stride) {
  int64_t dense[VTB_MAX_RANK];
  vtb__cuda_dense(t, dense);
  for (int a = 0; a < t->rank; a++)
    if (t->dim[a].size > 1 && stride[a] != dense[a]) return false;
  return true;
}

/* Where a reduction goes: straight to the result if it is one, and dense. */
static void place_reduction(vtb_cuda_expr *e, vtb_cuda_root *r, const root_list *results) {
  vtb__cuda_dense(&r->value->type, r->stride);
  for (size_t i = 0; i < results->n; i++)
    if (results->at[i].value == r->value && is_dense(&r->value->type, results->at[i].stride)) {
      r->tensor = results->at[i].tensor;
      return;
    }
  r->temp = vtb_cuda_temp(e->c, vtb_type_count(&r->value->type) * 4);
}

enum { MOST_TOGETHER = 8 };

/* The innermost reductions of one space, computed together, become leaves; until none are left. */
static void emit_reductions(vtb_cuda_expr *e, const root_list *results) {
  for (;;) {
    root_list now = {0};
    const vtb_value *v;
    for (int i = 0; now.n < MOST_TOGETHER && (v = vtb__cuda_body_reduction(e, i)); i++)
      if (vtb__cuda_reduce_level(e, v) == 1 && (!now.n || same_space(v, now.at[0].value)))
        vtb_vec_push(&now, ((vtb_cuda_root){.value = v, .tensor = -1}));
    if (!now.n) return;
    for (size_t i = 0; i < now.n; i++) place_reduction(e, &now.at[i], results);
    vtb__cuda_emit_reduce(e, now.at, (int)now.n);
    for (size_t i = 0; i < now.n; i++)
      vtb_vec_push(&e->leaves, ((vtb_cuda_leaf){now.at[i].value, now.at[i].tensor, now.at[i].temp}));
    e->levels.n = 0;
    vtb_vec_free(&now);
  }
}

/* A concatenation that is a result itself is stored operand by operand. */
static void expand(vtb_cuda_expr *e, vtb_cuda_root r, root_list *out) {
  const vtb_value *v = r.value;
  if (!v->def || vtb__cuda_leaf_find(e, v) || v->def->op != VTB_OP_concat) {
    vtb_vec_push(out, r);
    return;
  }
  int axis = (int)vtb_attr_int(v->def, "axis", 0);
  for (int o = 0; o < v->def->n_operands; o++) {
    r.value = v->def->operands[o];
    expand(e, r, out);
    r.offset += r.value->type.dim[axis].size * r.stride[axis];
  }
}

static void emit_loops(vtb_cuda_expr *e, root_list *roots) {
  while (roots->n) {
    root_list same = {0}, rest = {0};
    for (size_t i = 0; i < roots->n; i++) {
      vtb_type a = roots->at[i].value->type, b = roots->at[0].value->type;
      a.dtype = b.dtype;
      if (vtb_type_equal(&a, &b))
        vtb_vec_push(&same, roots->at[i]);
      else
        vtb_vec_push(&rest, roots->at[i]);
    }
    vtb__cuda_emit_loop(e, same.at, (int)same.n);
    vtb_vec_free(&same);
    vtb_vec_free(roots);
    roots->at = rest.at;
    roots->n = rest.n;
    roots->cap = rest.cap;
  }
}

static void emit_results(vtb_cuda_expr *e, const root_list *results) {
  bool reduces = false;
  for (size_t i = 0; i < results->n; i++) reduces |= vtb__cuda_reduce_level(e, results->at[i].value) > 0;
  if (reduces && vtb__cuda_emit_row(e, results->at, (int)results->n)) return;
  if (reduces) emit_reductions(e, results);
  root_list loops = {0};
  for (size_t i = 0; i < results->n; i++) {
    const vtb_cuda_leaf *leaf = vtb__cuda_leaf_find(e, results->at[i].value);
    if (leaf && leaf->tensor == results->at[i].tensor) continue; /* a reduction, in place */
    expand(e, results->at[i], &loops);
  }
  emit_loops(e, &loops);
  vtb_vec_free(&loops);
}

void vtb__cuda_body(vtb_cuda *c, const vtb_inst *inst) {
  vtb_cuda_expr e;
  root_list results = {0};
  vtb__cuda_expr_init(&e, c, inst);
  for (int r = 0; r < inst->n_results; r++) {
    vtb_cuda_root root = {.value = inst->callee ? inst->callee->returns[r] : inst->results[r],
                          .tensor = inst->n_operands + r};
    memcpy(root.stride, vtb_cuda_tensor_of(c, root.tensor)->stride, sizeof root.stride);
    vtb_vec_push(&results, root);
  }
  emit_results(&e, &results);
  vtb_vec_free(&results);
  vtb__cuda_expr_free(&e);
}

/* Several directions of one cell: the scans' emitters number tensors as `inst` has them. */
static void emit_scans(vtb_cuda *c, const vtb_inst *inst) {
  for (const vtb_inst *scan = inst->callee->first; scan; scan = scan->next) {
    if (scan->op == VTB_OP_linscan)
      vtb__cuda_linscan(c, scan);
    else
      vtb__cuda_linscan_grad(c, scan);
  }
}

void vtb__cuda_fused(vtb_cuda *c, const vtb_inst *inst) {
  if (vtb_is_scans(inst))
    emit_scans(c, inst);
  else if (vtb_streq(vtb_attr_str(inst, "kind", ""), "product"))
    vtb__cuda_product(c, inst);
  else
    vtb__cuda_body(c, inst);
}
void vtb__cuda_reduce(vtb_cuda *c, const vtb_inst *inst) { vtb__cuda_body(c, inst); }

void vtb__cuda_copy(vtb_cuda *c, const vtb_value *value, int from, int to, int temp) {
  vtb_cuda_expr e;
  vtb_cuda_root root = {.value = value, .tensor = to, .temp = temp};
  vtb__cuda_expr_init(&e, c, NULL);
  vtb_vec_push(&e.leaves, ((vtb_cuda_leaf){.value = value, .tensor = from}));
  vtb__cuda_dense(&value->type, root.stride);
  if (to >= 0) memcpy(root.stride, vtb_cuda_tensor_of(c, to)->stride, sizeof root.stride);
  vtb__cuda_emit_loop(&e, &root, 1);
  vtb__cuda_expr_free(&e);
}
