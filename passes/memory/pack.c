/* pack: weights of products in panels, as their kernels read them.
 *
 *                                                  %p = fused @panels(%w)           [3, 64, 48]
 *   %y = einsum %x, %w, %c {"bnd,ed->bne"}   =>     %z = einsum %x, %p, %c.1 {"bnd,pdj->bnpj"}
 *                                                  %y = reshape %z                  [1, 197, 144]
 *
 * Columns are cut into panels of the target's width, each row by row: what a register tile reads
 * is contiguous. Panels are made of parameters alone, so that callers prepare them (hoist.c,
 * prepare.c), once for all runs; the parameters stay where they are, and a panel is a copy.
 * Nothing is packed where memory counts for more (strips of rows, a limit of memory).
 * Declines weights that depend on more, columns that are not whole panels, that are not the last of
 * the result or lie in the weight in another order, few rows, products in a batch, and addends
 * whose columns cannot be cut likewise.
 */
#include "passes/passes_internal.h"

#include "ir/product.h"

#include <string.h>

/* The weight's columns are `first` to first + n of its axes, and the last n of the result's. */
typedef struct columns {
  int first, n;
  int64_t size;
} columns;

static bool find_columns(const vtb_product *p, columns *out) {
  *out = (columns){.first = -1, .size = 1};
  for (int a = 0; a < p->rank[1]; a++) {
    const vtb_letter *l = vtb_product_at(p, 1, a);
    if (l->role != VTB_LETTER_COLUMNS) continue;
    if (out->first < 0) out->first = a;
    out->n++;
    out->size *= l->size;
  }
  int before = p->rank[VTB_IN_RESULT] - out->n; /* side by side, in the result's order */
  for (int k = 0; k < out->n; k++)
    if (p->of[1][out->first + k] != p->of[VTB_IN_RESULT][before + k]) return false;
  return out->n > 0 && before + 2 <= VTB_MAX_RANK && p->rank[1] - out->n + 2 <= VTB_MAX_RANK;
}

/* `t` with its last `n` axes as panels: the axes are as in the product's result, those of columns
 * all there, or all of size 1 or absent. False: it has some of them. */
static bool cut_type(const vtb_type *t, const vtb_type *result, int n, int64_t width,
                     vtb_type *out) {
  int missing = result->rank - t->rank, whole = 0, kept = t->rank > n ? t->rank - n : 0;
  int64_t count = 1;
  for (int a = kept; a < t->rank; a++) {
    whole += t->dim[a].size == result->dim[a + missing].size;
    count *= t->dim[a].size;
  }
  bool none = count == 1;
  if (!none && (whole < n || t->rank < n)) return false;
  *out = (vtb_type){.dtype = t->dtype, .rank = kept + 2};
  for (int a = 0; a < kept; a++) out->dim[a] = t->dim[a];
  out->dim[kept].size = none ? 1 : count / width;
  out->dim[kept + 1].size = none ? 1 : width;
  return true;
}

static bool is_candidate(const vtb_inst *i, const vtb_panels *panels, const bool *ready,
                         int n_known, columns *c) {
  if (i->op != VTB_OP_einsum) return false;
  const vtb_value *x = i->operands[0], *w = i->operands[1];
  if (w->id >= n_known || !ready[w->id] || (x->id < n_known && ready[x->id])) return false;
  vtb_product p = vtb_product_of(i);
  vtb_type cut;
  if (p.count[VTB_LETTER_BATCH] || p.count[VTB_LETTER_ALONE] || !find_columns(&p, c)) return false;
  if (i->n_operands == 3 &&
      !cut_type(&i->operands[2]->type, &i->results[0]->type, c->n, panels->columns, &cut))
    return false;
  return c->size % panels->columns == 0 &&
         vtb_product_size(&p, VTB_LETTER_ROWS, 1) >= panels->rows &&
         vtb_product_size(&p, VTB_LETTER_SUM, 1) >= panels->terms;
}

/* A kernel that lays out weights of a type. Products of one weight share it, and their panels. */
typedef struct layout {
  vtb_type weight;
  columns of;
  vtb_func *kernel;
} layout;
typedef struct packing {
  vtb_module *module;
  int64_t width;
  VTB_VEC(layout) layouts;
} packing;

/* From [.., columns, ..] to [columns / width, .., width]. */
static vtb_func *make_kernel(const packing *k, const vtb_type *weight, const columns *c) {
  vtb_func *kernel = vtb_func_new(k->module, "panels", VTB_FUNC_KERNEL, VTB_NO_SPAN);
  vtb_builder b = {.module = k->module, .func = kernel};
  vtb_type cut = {.dtype = weight->dtype};
  int64_t perm[VTB_MAX_RANK];
  int n = 0;
  for (int a = 0; a < weight->rank; a++) {
    if (a == c->first) {
      cut.dim[cut.rank++].size = c->size / k->width;
      cut.dim[cut.rank++].size = k->width;
    }
    if (a < c->first || a >= c->first + c->n) cut.dim[cut.rank++].size = weight->dim[a].size;
  }
  perm[n++] = c->first;
  for (int a = 0; a < cut.rank; a++)
    if (a != c->first && a != c->first + 1) perm[n++] = a;
  perm[n] = c->first + 1;
  vtb_value *x = vtb_b_reshape(&b, vtb_func_add_arg(kernel, "w", *weight), &cut);
  vtb_value *y = vtb_b_transpose(&b, x, perm);
  vtb_func_set_returns(kernel, &y, NULL, 1);
  return kernel;
}

static vtb_func *kernel_for(packing *k, const vtb_type *weight, const columns *c) {
  for (size_t i = 0; i < k->layouts.n; i++) {
    const layout *l = &k->layouts.at[i];
    if (vtb_type_equal(&l->weight, weight) && l->of.first == c->first && l->of.n == c->n)
      return l->kernel;
  }
  const layout l = {*weight, *c, make_kernel(k, weight, c)};
  vtb__put(k, &k->layouts, l);
  return l.kernel;
}

/* Letters of the product of panels: the first column's letter is that of a panel, and of what is
 * in it a new one. */
static vtb_spec cut_letters(const vtb_product *p, const columns *c) {
  vtb_spec old = vtb_spec_of(p), s = {0};
  char inside[2];
  vtb_unused_letters(p, "jklmopqrstuvwxyz", 1, inside);
  char panel = old.of[1][c->first];
  int before = p->rank[VTB_IN_RESULT] - c->n;
  memcpy(s.of[0], old.of[0], sizeof s.of[0]);
  vtb_spec_put(&s, 1, panel);
  for (int a = 0; a < p->rank[1]; a++)
    if (a < c->first || a >= c->first + c->n) vtb_spec_put(&s, 1, old.of[1][a]);
  vtb_spec_put(&s, 1, inside[0]);
  for (int a = 0; a < before; a++) vtb_spec_put(&s, VTB_IN_RESULT, old.of[VTB_IN_RESULT][a]);
  vtb_spec_put(&s, VTB_IN_RESULT, panel);
  vtb_spec_put(&s, VTB_IN_RESULT, inside[0]);
  return s;
}

static void pack(packing *k, vtb_inst *i, const columns *c) {
  const vtb_attr kind = VTB_A_STR("kind", "loop");
  vtb_builder b = vtb__before(i);
  vtb_product p = vtb_product_of(i);
  vtb_spec s = cut_letters(&p, c);
  b.name_hint = "panels";
  vtb_inst *panels = vtb_build_call(&b, VTB_OP_fused, kernel_for(k, &i->operands[1]->type, c),
                                    &i->operands[1], 1, &kind, 1);
  vtb_value *y = vtb_b_einsum_of(&b, &s, i->operands[0], panels->results[0]);
  if (i->n_operands == 3) {
    vtb_type cut;
    vtb_builder before = vtb__before(y->def);
    if (cut_type(&i->operands[2]->type, &i->results[0]->type, c->n, k->width, &cut))
      vtb_inst_add_operand(y->def, vtb_b_shaped(&before, i->operands[2], &cut));
  }
  vtb__become(i, vtb_b_reshape(&b, y, &i->results[0]->type));
}

void vtb__change_pack(vtb_pass_context *c) {
  const vtb_panels *panels = c->target ? &c->target->panels : NULL;
  if (!panels || !panels->columns || c->lean || vtb__is_left_alone(c)) return;
  packing k = {.module = c->module, .width = panels->columns};
  vtb__find_made_of_parameters(c->module);
  for (vtb_func *f = c->module->first; f; f = f->next) {
    if (f->kind != VTB_FUNC_PLAIN) continue;
    const bool *ready = vtb__made_of_parameters(f);
    int n_known = f->n_values; /* what packing makes is not among them */
    VTB__EACH_INST(f, i, next) {
      columns found;
      if (i->n_results == 1 && is_candidate(i, panels, ready, n_known, &found)) pack(&k, i, &found);
    }
  }
}
