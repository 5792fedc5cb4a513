/* Before products grow: sums of rows and their norms are two kernels, so that a product takes the
 * sum and keeps what the norm needs.
 *
 *   %p = einsum %y, %w {spec = "bnc,ec->bne"}
 *   %x, %h = fused @norm(%p, %r, %gain) {kind = "row"}     // x = p + r, h = norm(x)
 *   =>
 *   %x = fused @sum(%p, %r) {kind = "loop"}
 *   %h = fused @norm(%x, %gain) {kind = "row"}
 */
#include "passes/fuse/fuse_norms.h"

/* Whether all but the normed rows is made element by element, of something a product makes. */
static bool parts_from_norm(const vtb_inst *row, int normed) {
  const vtb_func *body = row->callee;
  bool *needed = vtb_xcalloc((size_t)body->n_values + 1, sizeof *needed), plain = true, any = false;
  for (int r = 0; r < body->n_returns; r++) {
    needed[body->returns[r]->id] |= r != normed;
    plain &= vtb_type_equal(&body->returns[r]->type, &body->returns[normed]->type);
  }
  for (const vtb_inst *i = body->last; i; i = i->prev) {
    if (!needed[i->results[0]->id]) continue;
    plain &= i->op == VTB_OP_constant || vtb_op_get(i->op)->klass == VTB_CLASS_ELEMENTWISE;
    for (int o = 0; o < i->n_operands; o++) needed[i->operands[o]->id] = true;
  }
  for (int a = 0; a < body->n_args; a++)
    any |= needed[body->args[a]->id] && vtb__is_made_by_product(row->operands[a]) &&
           vtb_type_equal(&body->args[a]->type, &body->returns[normed]->type);
  vtb_free(needed);
  return plain && any;
}

/* A kernel with some results of another, of whose values `x` may be given, as `given`. */
static vtb_inst *part_of(vtb_inst *row, const bool *results, const vtb_value *x, vtb_value *given) {
  const vtb_func *body = row->callee;
  vtb_func *k = vtb__kernel_new(row);
  vtb_builder b = {.module = k->module, .func = k, .span = row->span};
  size_t room = (size_t)(body->n_values + body->n_args + body->n_returns) + 1;
  vtb_value **inside = vtb_xcalloc(room, sizeof *inside), **of = vtb_xcalloc(room, sizeof *of);
  bool *wanted = vtb_xcalloc(room, sizeof *wanted);
  int n = 0, n_returns = 0;
  for (int r = 0; r < body->n_returns; r++) wanted[body->returns[r]->id] |= results[r];
  if (x) inside[x->id] = vtb__kernel_argument(k, of[n++] = given);
  for (const vtb_inst *i = body->last; i; i = i->prev)
    for (int o = 0; o < i->n_operands; o++)
      wanted[i->operands[o]->id] |= wanted[i->results[0]->id] && i->results[0] != x;
  for (int a = 0; a < body->n_args; a++)
    if (wanted[body->args[a]->id])
      inside[body->args[a]->id] = vtb__kernel_argument(k, of[n++] = row->operands[a]);
  vtb__copy_needed(&b, body, wanted, inside);
  vtb_value **returns = vtb_xcalloc(room, sizeof *returns);
  for (int r = 0; r < body->n_returns; r++)
    if (results[r]) returns[n_returns++] = inside[body->returns[r]->id];
  vtb_func_set_returns(k, returns, NULL, n_returns);
  vtb_inst *call = vtb__call_kernel(row->func, row, k, x ? VTB_KERNEL_ROW : VTB_KERNEL_LOOP, of, n);
  vtb_free(inside);
  vtb_free(of);
  vtb_free(wanted);
  vtb_free(returns);
  return call;
}

/* A sum and the norm of its rows as a loop, which a product takes (grow.c), and the norm. */
static void split(vtb_inst *row, int normed, const vtb__norm *form) {
  bool *results = vtb_xcalloc((size_t)row->n_results + 1, sizeof *results);
  for (int r = 0; r < row->n_results; r++) results[r] = r != normed;
  const vtb_inst *loop = part_of(row, results, NULL, NULL);
  vtb_value *given = NULL;
  for (int r = 0, at = 0; r < row->n_results; r++) {
    if (r == normed) continue;
    if (row->callee->returns[r] == form->x) given = loop->results[at];
    at++;
  }
  for (int r = 0; r < row->n_results; r++) results[r] = r == normed;
  const vtb_inst *norm = part_of(row, results, form->x, given);
  for (int r = 0, at = 0; r < row->n_results; r++)
    vtb__stand_in(row->results[r], r == normed ? norm->results[0] : loop->results[at++]);
  vtb_inst_unlink(row);
  vtb_free(results);
}

void vtb__split_norms(fusing *s) {
  for (size_t g = 0; g < s->n_funcs; g++)
    for (vtb_inst *i = s->funcs[g]->first, *next; i; i = next) {
      vtb__norm form;
      int normed;
      next = i->next;
      if (i->op == VTB_OP_fused && vtb__norm_within(i, &normed, &form) &&
          parts_from_norm(i, normed) && vtb__norm_rows_taken(s, i->results[normed]))
        split(i, normed, &form);
    }
}
