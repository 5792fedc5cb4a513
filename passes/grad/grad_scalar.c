/* Derivatives of elementwise ops, by the adjoints of their rows.
 *
 * Shapes: operands broadcast, so contributions have the result's shape; vtb__contribute() sums them
 * down.
 */
#include "ir/scalar.h"
#include "passes/grad/autodiff.h"

/* The expressions of a row's adjoints being built; each of its nodes is built once. */
typedef struct expansion {
  vtb_builder *b;
  const vtb_scalar *row;
  const vtb_inst *inst;
  vtb_value *adjoint;
  vtb_value *built[VTB_SCALAR_NODES];
} expansion;

static vtb_value *build(expansion *e, int node);

static vtb_value *build_new(expansion *e, const vtb_scalar_node *n) {
  vtb_value *operands[VTB_SCALAR_OPERANDS];
  switch (n->leaf) {
  case VTB_LEAF_NUMBER:
    return vtb_b_constant(e->b, n->number);
  case VTB_LEAF_R:
    return e->inst->results[0];
  case VTB_LEAF_D:
    return e->adjoint;
  case VTB_LEAF_NONE:
    break;
  default:
    return e->inst->operands[n->leaf - VTB_LEAF_X];
  }
  int count = vtb_scalar_get(n->op)->n_operands;
  for (int i = 0; i < count; i++) operands[i] = build(e, n->arg[i]);
  return vtb_build(e->b, n->op, operands, count, NULL, 0)->results[0];
}

static vtb_value *build(expansion *e, int node) {
  if (!e->built[node]) e->built[node] = build_new(e, &e->row->nodes[node]);
  return e->built[node];
}

void vtb__grad_scalar(vtb__gradient *g, vtb_inst *inst) {
  expansion e = {&g->b, vtb_scalar_get(inst->op), inst, vtb__adjoint(g, inst->results[0]), {NULL}};
  for (int i = 0; i < inst->n_operands; i++)
    if (e.row->adjoint[i] >= 0 && vtb__wants(inst->operands[i]))
      vtb__contribute(g, inst->operands[i], build(&e, e.row->adjoint[i]));
}

vtb_value *vtb__scalar_derivative(vtb_builder *b, const vtb_inst *inst, int operand, vtb_value *d) {
  expansion e = {b, vtb_scalar_get(inst->op), inst, d, {NULL}};
  return e.row->adjoint[operand] < 0 ? NULL : build(&e, e.row->adjoint[operand]);
}

void vtb__grad_zero(vtb__gradient *g, vtb_inst *inst) { (void)g, (void)inst; }

void vtb__grad_not_diff(vtb__gradient *g, vtb_inst *inst) {
  if (g->ad->status != VTB_OK) return;
  char place[256];
  vtb_span_text(inst->span, place, sizeof place);
  g->ad->status = vtb_fail(g->ad->err, VTB_E_INPUT,
                           "%s%s%s in @%s has no derivative, but a gradient has to pass through it",
                           place, place[0] ? ": " : "", vtb_op_get(inst->op)->name, g->joint->name);
}
