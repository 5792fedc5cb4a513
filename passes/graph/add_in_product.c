/* add_in_product: a sum with a product becomes the product's start value.
 *
 *   %p = einsum %x, %w {spec = "bnd,ed->bne"}
 *   %y = add %p, %bias
 *   =>
 *   %y = einsum %x, %w, %bias {spec = "bnd,ed->bne"}
 *
 * Products add into their result anyway, so a bias, a residual or another product's result costs no
 * pass over memory of its own. What is added to a chain of such products goes to its first one. A
 * reshape between product and sum moves behind the sum. After binding, before fuse. Declines if the
 * product has other uses or is not shaped like the sum.
 */
#include "passes/passes_internal.h"

static const vtb_inst *product_of(const vtb_value *v) {
  return v->def && v->def->op == VTB_OP_einsum && vtb_is_used_once(v) ? v->def : NULL;
}

/* The first of the chain of products that add up to v: it has room for a start value. NULL if there
 * is none. */
static vtb_inst *chain_start(const vtb_value *v) {
  if (v->def && v->def->op == VTB_OP_reshape && vtb_is_used_once(v)) v = v->def->operands[0];
  const vtb_inst *i = product_of(v);
  while (i && i->n_operands == 3) {
    const vtb_inst *before = product_of(i->operands[2]);
    if (before && !vtb_type_equal(&before->results[0]->type, &i->results[0]->type)) return NULL;
    i = before;
  }
  return (vtb_inst *)i;
}

/* `x`, which broadcasts to type `sum`, as a shape that broadcasts to `product`, which has the same
 * elements; false if it takes more than a reshape. */
static bool start_shape(const vtb_type *x, const vtb_type *sum, const vtb_type *product,
                        vtb_type *out) {
  *out = *x;
  if (vtb_type_equal(sum, product)) return true;
  if (vtb_type_count(x) == vtb_type_count(sum)) {
    *out = *product;
    return true;
  }
  if (x->rank == 0 || sum->rank == 0) return x->rank == 0;
  for (int a = 0; a + 1 < x->rank; a++)
    if (x->dim[a].size != 1) return false;
  int64_t last = x->dim[x->rank - 1].size, inner = 1;
  if (last == 1) { /* rank 0 broadcasts to everything, and a splat is one */
    out->rank = 0;
    return true;
  }
  int axis = product->rank;
  while (axis > 0 && inner < last) inner *= product->dim[--axis].size;
  if (inner != last) return false;
  out->rank = product->rank - axis;
  for (int a = 0; a < out->rank; a++) out->dim[a] = product->dim[axis + a];
  return true;
}

/* Operand `which` of the sum can take the other one; *start is where it goes in, of type
 * *shape. */
static bool can_take(const vtb_inst *sum, int which, vtb_inst **start, vtb_type *shape) {
  const vtb_value *own = sum->operands[which], *other = sum->operands[1 - which];
  const vtb_type *type = &sum->results[0]->type;
  *start = chain_start(own);
  if (!*start || other == own || !vtb_type_equal(&own->type, type)) return false;
  const vtb_value *last = own->def->op == VTB_OP_reshape ? own->def->operands[0] : own;
  if (!start_shape(&other->type, type, &last->type, shape)) return false;
  return (*start)->results[0] == last || vtb_made_before(other, *start);
}

/* `product` with a start value, in place of `product`. */
static void add_operand(vtb_func *f, vtb_inst *product, vtb_inst *before, vtb_value *x,
                        const vtb_type *shape) {
  vtb_value *old = product->results[0];
  vtb_builder b = {.module = f->module, .func = f, .before = before, .span = product->span};
  x = vtb_b_shaped(&b, x, shape);
  vtb_value *operands[] = {product->operands[0], product->operands[1], x};
  b.name_hint = old->name;
  vtb_inst *joined = vtb_build(&b, VTB_OP_einsum, operands, 3, product->attrs, product->n_attrs);
  joined->order = before->order;
  vtb_replace_all(old, joined->results[0]);
  vtb_inst_unlink(product);
}

static void rewrite(vtb_func *f, vtb_inst *sum, int which, vtb_inst *start, const vtb_type *shape) {
  vtb_value *own = sum->operands[which], *other = sum->operands[1 - which];
  vtb_inst *view = own->def->op == VTB_OP_reshape ? own->def : NULL;
  bool whole = start->results[0] == (view ? view->operands[0] : own);
  /* what is added may be younger than the product */
  add_operand(f, start, whole ? sum : start, other, shape);
  if (view) {
    vtb_inst_move_before(view, sum);
    view->order = sum->order;
  }
  vtb__become(sum, sum->operands[which]);
}

static void visit(vtb_func *f, vtb_inst *sum) {
  vtb_inst *start[2];
  vtb_type shape[2];
  bool takes[2];
  for (int which = 0; which < 2; which++)
    takes[which] = can_take(sum, which, &start[which], &shape[which]);
  /* of two products the later takes the earlier one's result, so that neither moves across what it
   * depends on */
  int which =
      takes[0] && takes[1] ? sum->operands[0]->def->order < sum->operands[1]->def->order : takes[1];
  if (takes[which]) rewrite(f, sum, which, start[which], &shape[which]);
}

void vtb__visit_add_in_product(const vtb_pass_context *c, vtb_func *f) {
  (void)c;
  vtb_func_number(f);
  VTB__EACH_INST(f, i, next) {
    if (i->op == VTB_OP_add) visit(f, i);
  }
}
