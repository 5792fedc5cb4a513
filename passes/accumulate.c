/* accumulate: a sum with a product becomes the product's start value.
 *
 *   %p = einsum %x, %w {spec = "bnd,ed->bne"}           %y = einsum %x, %w, %bias {spec = "bnd,ed->bne"}
 *   %y = add %p, %bias                            =>
 *
 * Products add into their result anyway, so a bias, a residual or another product's result costs no pass over memory of its
 * own. Needs nothing; runs after autodiff, before fuse. Declines if the product has other uses, already adds something, or is not
 * shaped like the sum.
 */
#include "passes/passes_internal.h"

#include <stdlib.h>

static bool can_take(const vtb_inst *product, const vtb_inst *sum, const int *uses) {
  return product && product->op == VTB_OP_einsum && product->n_operands == 2 && uses[product->results[0]->id] == 1 &&
         vtb_type_equal(&product->results[0]->type, &sum->results[0]->type);
}

/* Of two products the later one takes the earlier one's result, so that neither moves across what it depends on. */
static int choose(const vtb_inst *sum, const int *uses) {
  const vtb_inst *x = sum->operands[0]->def, *y = sum->operands[1]->def;
  bool take_x = can_take(x, sum, uses), take_y = can_take(y, sum, uses) && x != y;
  if (take_x && take_y) return x->order > y->order ? 0 : 1;
  return take_x ? 0 : take_y ? 1 : -1;
}

static void rewrite(vtb_func *f, vtb_inst *sum, int which) {
  vtb_inst *product = sum->operands[which]->def;
  vtb_value *operands[] = {product->operands[0], product->operands[1], sum->operands[1 - which]};
  vtb_builder b = {.module = f->module, .func = f, .before = sum, .span = product->span, .name_hint = sum->results[0]->name};
  vtb_inst *joined = vtb_build(&b, VTB_OP_einsum, operands, 3, product->attrs, product->n_attrs);
  joined->order = sum->order;
  vtb_replace_all(sum->results[0], joined->results[0]);
  vtb_inst_unlink(sum);
  vtb_inst_unlink(product);
}

vtb_status vtb__pass_accumulate(vtb_pass_context *c, vtb_error *err) {
  (void)err;
  for (vtb_func *f = c->module->first; f; f = f->next) {
    if (f->kind != VTB_FUNC_PLAIN) continue;
    vtb_func_number(f);
    for (vtb_inst *i = f->first, *next; i; i = next) {
      next = i->next;
      if (i->op != VTB_OP_add) continue;
      int *uses = vtb_count_uses(f);
      int which = choose(i, uses);
      free(uses);
      if (which >= 0) rewrite(f, i, which);
    }
  }
  return VTB_OK;
}
