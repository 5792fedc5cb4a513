/* Kernels of ops that are expressions, moves and reductions: a fused body, or one bare op.
 *
 * Tried in this order: a row kernel for all results; otherwise every reduction is computed into memory (its result, or
 * a temporary), level by level, and what is left are loops, one task a shape. A result that is a concatenation is
 * stored piece by piece.
 */
#include <string.h>

#include "codegen/cpu/expr.h"
#include "ir/recurrence.h"

typedef VTB_VEC(vtb_root) root_list;

bool vtb__is_reduce(const vtb_value *v) { return v->def && vtb_op_get(v->def->op)->klass == VTB_CLASS_REDUCE; }

const vtb_value *vtb__body_reduction(const vtb_expr *e, int i) {
  const vtb_inst *bare = e->inst && !e->inst->callee ? e->inst : NULL;
  for (const vtb_inst *k = bare ? bare : e->inst ? e->inst->callee->first : NULL; k; k = bare ? NULL : k->next)
    if (k->n_results == 1 && vtb__is_reduce(k->results[0]) && !vtb__leaf_find(e, k->results[0]) && i-- == 0)
      return k->results[0];
  return NULL;
}

int vtb__reduce_level(vtb_expr *e, const vtb_value *v) {
  if (!v->def || vtb__leaf_find(e, v)) return 0;
  for (size_t i = 0; i < e->levels.n; i++)
    if (e->levels.at[i].value == v) return e->levels.at[i].level;
  int level = 0;
  for (int o = 0; o < v->def->n_operands; o++) {
    int below = vtb__reduce_level(e, v->def->operands[o]);
    if (below > level) level = below;
  }
  level += vtb__is_reduce(v);
  vtb_vec_push(&e->levels, ((vtb_level){v, level}));
  return level;
}

static bool same_space(const vtb_value *x, const vtb_value *y) {
  int n, m;
  const int64_t *a = vtb_attr_ints(x->def, "axes", &n), *b = vtb_attr_ints(y->def, "axes", &m);
  return vtb_type_equal(&x->def->operands[0]->type, &y->def->operands[0]->type) && n == m &&
         (n == 0 || memcmp(a, b, sizeof *a * (size_t)n) == 0);
}

/* Where a reduction goes: straight to the result if it is one, and dense. */
static void place_reduction(vtb_expr *e, vtb_root *r, const root_list *results) {
  vtb__dense_strides(&r->value->type, r->stride);
  for (size_t i = 0; i < results->n; i++)
    if (results->at[i].value == r->value && vtb__is_dense(&r->value->type, results->at[i].stride)) {
      r->tensor = results->at[i].tensor;
      return;
    }
  r->temp = vtb_cpu_temp(e->c, vtb_type_count(&r->value->type) * 4);
}

enum { MOST_TOGETHER = 16 };

/* The innermost reductions of one space, computed together, become leaves; until none are left. */
static void emit_reductions(vtb_expr *e, const root_list *results) {
  for (;;) {
    root_list now = {0};
    const vtb_value *v;
    for (int i = 0; now.n < MOST_TOGETHER && (v = vtb__body_reduction(e, i)); i++)
      if (vtb__reduce_level(e, v) == 1 && (!now.n || same_space(v, now.at[0].value)))
        vtb_vec_push(&now, ((vtb_root){.value = v, .tensor = -1}));
    if (!now.n) return;
    for (size_t i = 0; i < now.n; i++) place_reduction(e, &now.at[i], results);
    vtb__emit_reduce(e, now.at, (int)now.n);
    for (size_t i = 0; i < now.n; i++)
      vtb_vec_push(&e->leaves, ((vtb_leaf){now.at[i].value, now.at[i].tensor, now.at[i].temp, NULL}));
    e->levels.n = 0;
    vtb_vec_free(&now);
  }
}

/* A concatenation that is a result itself is stored operand by operand. */
static void expand(vtb_expr *e, vtb_root r, root_list *out) {
  const vtb_value *v = r.value;
  if (!v->def || vtb__leaf_find(e, v) || v->def->op != VTB_OP_concat) {
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

static void emit_loops(vtb_expr *e, root_list *roots) {
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
    vtb__emit_loop(e, same.at, (int)same.n);
    vtb_vec_free(&same);
    vtb_vec_free(roots);
    roots->at = rest.at;
    roots->n = rest.n;
    roots->cap = rest.cap;
  }
}

static void emit_results(vtb_expr *e, const root_list *results) {
  bool reduces = false;
  for (size_t i = 0; i < results->n; i++) reduces |= vtb__reduce_level(e, results->at[i].value) > 0;
  if (reduces && vtb__emit_row(e, results->at, (int)results->n)) return;
  if (reduces) emit_reductions(e, results);
  root_list loops = {0};
  for (size_t i = 0; i < results->n; i++) {
    const vtb_leaf *leaf = vtb__leaf_find(e, results->at[i].value);
    if (leaf && leaf->tensor == results->at[i].tensor) continue; /* a reduction, in place */
    expand(e, results->at[i], &loops);
  }
  emit_loops(e, &loops);
  vtb_vec_free(&loops);
}

void vtb__cpu_body(vtb_cpu *c, const vtb_inst *inst) {
  vtb_expr e;
  root_list results = {0};
  vtb__expr_init(&e, c, inst);
  for (int r = 0; r < inst->n_results; r++) {
    vtb_root root = {.value = inst->callee ? inst->callee->returns[r] : inst->results[r],
                     .tensor = inst->n_operands + r};
    memcpy(root.stride, c->kernel->stride[root.tensor], sizeof root.stride);
    vtb_vec_push(&results, root);
  }
  emit_results(&e, &results);
  vtb_vec_free(&results);
  vtb__expr_free(&e);
}

/* Several directions of one cell: the scans' emitters number tensors as `inst` has them. */
static void emit_scans(vtb_cpu *c, const vtb_inst *inst) {
  vtb__join_begin(c);
  for (const vtb_inst *scan = inst->callee->first; scan; scan = scan->next) {
    if (scan->prev) vtb__join_next(c);
    if (scan->op == VTB_OP_linscan)
      vtb__cpu_linscan(c, scan);
    else
      vtb__cpu_linscan_grad(c, scan);
  }
  vtb__join_end(c);
}

void vtb__cpu_fused(vtb_cpu *c, const vtb_inst *inst) {
  if (vtb_is_scans(inst))
    emit_scans(c, inst);
  else
    vtb__cpu_body(c, inst);
}
void vtb__cpu_reduce(vtb_cpu *c, const vtb_inst *inst) { vtb__cpu_body(c, inst); }

/* ---- copies ----------------------------------------------------------------------------------------------- */

static void emit_copy(vtb_cpu *c, const vtb_value *value, int from, int to, int64_t temp) {
  vtb_expr e;
  vtb_root root = {.value = value, .tensor = to, .temp = temp};
  vtb__expr_init(&e, c, NULL);
  vtb_vec_push(&e.leaves, ((vtb_leaf){value, from, 0, NULL}));
  vtb__dense_strides(&value->type, root.stride);
  vtb__emit_loop(&e, &root, 1);
  vtb__expr_free(&e);
}

void vtb__cpu_copy_in(vtb_cpu *c, const vtb_inst *inst, int from, int64_t temp) {
  emit_copy(c, inst->operands[from], from, -1, temp);
}

void vtb__cpu_copy(vtb_cpu *c, const vtb_value *value) { emit_copy(c, value, 0, 1, 0); }
