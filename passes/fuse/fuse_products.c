/* fuse_products: an elementwise kernel that reads a product becomes its epilogue.
 *
 *   %p = einsum %x, %w {spec = "abc,dc->abd"}
 *   %y = fused @loop(%p, %r) {kind = "loop"}
 *   %z = fused @other(%r) {kind = "loop"}
 *   =>
 *   %y, %z = fused @product(%x, %w, %r) {kind = "product"}
 *   func kernel @product { einsum, then the loops' ops }
 *
 * After `fuse`, for targets whose products have room for an epilogue; those that are left to a
 * vendor's library (attribute `library`) have none. The epilogue sees an element of the product
 * while it is in registers: all ops are elementwise, all results have the product's shape. A
 * product that others read as well is a result beside them. Kernels that read no product but what
 * such an epilogue reads join it. The kernel stands where all that it reads is there; declines if
 * somebody reads its results before.
 */
#include "passes/passes_internal.h"

#include "ir/kernels.h"

#include <stdlib.h>
#include <string.h>

static bool same_shape(const vtb_type *a, const vtb_type *b) {
  return a->dtype == VTB_F32 && b->dtype == VTB_F32 && vtb_type_equal(a, b);
}

static bool is_fused_product(const vtb_inst *i) {
  return vtb_kernel_kind_of(i) == VTB_KERNEL_PRODUCT;
}

static const vtb_inst *einsum_of(const vtb_inst *product) {
  return is_fused_product(product) ? product->callee->first : product;
}

/* Whether both read one tensor of the results' shape, the product for its epilogue. */
static bool share_operand(const vtb_inst *loop, const vtb_inst *product) {
  const vtb_type *shape = &einsum_of(product)->results[0]->type;
  for (int p = einsum_of(product)->n_operands; p < product->n_operands; p++)
    for (int o = 0; o < loop->n_operands; o++)
      if (loop->operands[o] == product->operands[p] && same_shape(&loop->operands[o]->type, shape))
        return true;
  return false;
}

/* All ops elementwise, all results of the product's shape. */
static bool is_epilogue(const vtb_inst *loop, const vtb_type *shape) {
  if (vtb_kernel_kind_of(loop) != VTB_KERNEL_LOOP) return false;
  for (int r = 0; r < loop->n_results; r++)
    if (!same_shape(&loop->results[r]->type, shape)) return false;
  for (const vtb_inst *i = loop->callee->first; i; i = i->next)
    if (i->op != VTB_OP_constant && vtb_op_get(i->op)->klass != VTB_CLASS_ELEMENTWISE) return false;
  return true;
}

/* ---- where ----------------------------------------------------------------------------------- */

/* The instruction right behind which all is there that either reads; NULL: the function begins. */
static vtb_inst *place_of(const vtb_inst *product, const vtb_inst *loop) {
  vtb_inst *last = NULL;
  for (int which = 0; which < 2; which++) {
    const vtb_inst *i = which ? loop : product;
    for (int o = 0; o < i->n_operands; o++) {
      vtb_inst *def = i->operands[o]->def;
      if (def && def != product && (!last || def->order > last->order)) last = def;
    }
  }
  return last;
}

/* Nobody but `loop` reads results of `i` before `place`. */
static bool free_behind(const vtb_inst *i, const vtb_inst *loop, const vtb_inst *place) {
  bool can = true;
  for (int r = 0; r < i->n_results; r++) {
    vtb_inst **readers;
    size_t n = vtb_value_readers(i->results[r], &readers);
    for (size_t k = 0; k < n; k++)
      can &= readers[k] == loop || !place || readers[k]->order > place->order;
    vtb_free(readers);
  }
  return can;
}

static bool can_merge(const vtb_inst *product, const vtb_inst *loop) {
  const vtb_inst *place = place_of(product, loop);
  for (int o = 0; o < product->n_operands; o++)
    if (product->operands[o]->def == loop) return false;
  return is_epilogue(loop, &einsum_of(product)->results[0]->type) &&
         free_behind(product, loop, place) && free_behind(loop, loop, place);
}

/* ---- merging --------------------------------------------------------------------------------- */

typedef struct merging {
  vtb_func *kernel;
  vtb_value **inputs, **outer, **inner; /* of the call; its results before, and in the kernel */
  int n_inputs, n_results;
} merging;

static vtb_value *input(merging *m, vtb_value *v, int n_factors) {
  for (int i = n_factors; i < m->n_inputs; i++)
    if (m->inputs[i] == v) return m->kernel->args[i];
  m->inputs[m->n_inputs++] = v;
  return vtb_func_add_arg(m->kernel, v->name, v->type);
}

static void add_result(merging *m, vtb_value *outer, vtb_value *inner) {
  m->outer[m->n_results] = outer;
  m->inner[m->n_results++] = inner;
}

/* The product's part; its results in the kernel go to `made`. */
static void copy_product(merging *m, vtb_builder *b, const vtb_inst *product, vtb_value **made) {
  vtb_value *args[VTB_MAX_RANK] = {0};
  if (!is_fused_product(product)) {
    for (int o = 0; o < product->n_operands; o++)
      args[o] = input(m, product->operands[o], product->n_operands);
    made[0] = vtb_inst_clone(b, product, args)->results[0];
    return;
  }
  vtb_value **inside = vtb_xcalloc((size_t)product->callee->n_values + 1, sizeof *inside);
  for (int o = 0; o < product->n_operands; o++)
    inside[product->callee->args[o]->id] = input(m, product->operands[o], product->n_operands);
  vtb__copy_body(b, product->callee, inside);
  for (int r = 0; r < product->n_results; r++) made[r] = inside[product->callee->returns[r]->id];
  vtb_free(inside);
}

static void copy_loop(merging *m, vtb_builder *b, const vtb_inst *product, const vtb_inst *loop,
                      vtb_value **made) {
  int n_factors = einsum_of(product)->n_operands;
  vtb_value **inside = vtb_xcalloc((size_t)loop->callee->n_values + 1, sizeof *inside);
  for (int o = 0; o < loop->n_operands; o++) {
    vtb_value *v = loop->operands[o];
    inside[loop->callee->args[o]->id] = v->def == product ? made[v->index] : input(m, v, n_factors);
  }
  vtb__copy_body(b, loop->callee, inside);
  for (int r = 0; r < loop->n_results; r++)
    add_result(m, loop->results[r], inside[loop->callee->returns[r]->id]);
  vtb_free(inside);
}

static bool others_read(const vtb_value *v, const vtb_inst *loop) {
  return vtb_is_read(v) && vtb_only_reader(v) != loop;
}

/* Orders with room between them for what is made. */
static void number_all(vtb_func *f) {
  int n = 0;
  for (vtb_inst *i = f->first; i; i = i->next) i->order = n += 64;
}

static void number(vtb_func *f, vtb_inst *made) {
  int low = made->prev ? made->prev->order : 0, high = made->next ? made->next->order : low + 64;
  made->order = low + (high - low) / 2;
  if (made->order == low) number_all(f);
}

/* The results of the product that somebody else needs, then the loop's. */
static vtb_inst *merge(vtb_func *f, vtb_inst *product, vtb_inst *loop) {
  size_t most = (size_t)(product->n_operands + loop->n_operands + product->n_results) +
                (size_t)loop->n_results;
  vtb_inst *place = place_of(product, loop), *before = place ? place->next : f->first;
  merging m = {.kernel = vtb__kernel_new((vtb_inst *)einsum_of(product)),
               .inputs = vtb_xcalloc(most, sizeof *m.inputs),
               .outer = vtb_xcalloc(most, sizeof *m.outer),
               .inner = vtb_xcalloc(most, sizeof *m.inner)};
  vtb_value **made = vtb_xcalloc((size_t)product->n_results + 1, sizeof *made);
  vtb_builder b = {.module = f->module, .func = m.kernel, .span = product->span};
  copy_product(&m, &b, product, made);
  for (int r = 0; r < product->n_results; r++) {
    if (others_read(product->results[r], loop)) add_result(&m, product->results[r], made[r]);
  }
  copy_loop(&m, &b, product, loop, made);
  vtb_func_set_returns(m.kernel, m.inner, NULL, m.n_results);
  vtb_builder outer = {.module = f->module, .func = f, .before = before, .span = product->span};
  vtb_attr attr = VTB_A_STR("kind", vtb_kernel_kind_name(VTB_KERNEL_PRODUCT));
  vtb_inst *fused = vtb_build_call(&outer, VTB_OP_fused, m.kernel, m.inputs, m.n_inputs, &attr, 1);
  for (int r = 0; r < m.n_results; r++) vtb__stand_in(m.outer[r], fused->results[r]);
  vtb_inst_unlink(loop);
  vtb_inst_unlink(product);
  number(f, fused);
  vtb_free(made);
  vtb_free(m.inputs);
  vtb_free(m.outer);
  vtb_free(m.inner);
  return fused;
}

/* ---- the choice ------------------------------------------------------------------------------ */

/* A kernel that reads the product, else, of one with an epilogue, one that reads what this does. */
static vtb_inst *epilogue_for(const vtb_inst *product) {
  vtb_inst *found = NULL;
  for (int r = 0; r < product->n_results && !found; r++) {
    vtb_inst **readers;
    size_t n = vtb_value_readers(product->results[r], &readers);
    for (size_t k = 0; k < n && !found; k++)
      if (can_merge(product, readers[k])) found = readers[k];
    vtb_free(readers);
  }
  for (int o = einsum_of(product)->n_operands; o < product->n_operands && !found; o++) {
    vtb_inst **readers;
    size_t n = vtb_value_readers(product->operands[o], &readers);
    for (size_t k = 0; k < n && !found; k++)
      if (readers[k] != product && share_operand(readers[k], product) &&
          can_merge(product, readers[k]))
        found = readers[k];
    vtb_free(readers);
  }
  return found;
}

vtb_status vtb__pass_fuse_products(vtb_pass_context *c, vtb_error *err) {
  (void)err;
  for (vtb_func *f = c->module->first; f; f = f->next) {
    if (f->kind != VTB_FUNC_PLAIN) continue;
    number_all(f);
    for (vtb_inst *i = f->first, *next; i; i = next) {
      vtb_inst *loop = NULL;
      next = i->next;
      if ((i->op == VTB_OP_einsum && !vtb_attr_int(i, "library", 0)) || is_fused_product(i))
        loop = epilogue_for(i);
      if (loop) next = merge(f, i, loop); /* it may take another */
    }
  }
  return VTB_OK;
}
