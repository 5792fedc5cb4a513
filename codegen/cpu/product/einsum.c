/* einsum as matrix products.
 *
 * Letters are batch (in both operands and the result), m (first operand and result), n (second and
 * result) or k (summed). Adjacent letters of a class that keep one stride are merged; what cannot
 * be merged of m and n becomes a loop around the product, as batch letters are. An operand whose
 * strides no leading dimension can express is copied first, into the order batch, m, k (or batch,
 * n, k). The work is cut into blocks of rows and columns by shape only, each one sgemm of the
 * services; where that leaves too few blocks, k is cut as well and the parts are added in order.
 * Anything else is a generated kernel of a product and a sum.
 */
#include "codegen/cpu/product/einsum.h"
#include "ir/ops.h"

#include <string.h>

/* ---- letters --------------------------------------------------------------------------------- */

int vtb__einsum_tensor(const vtb_cpu *c, int which) {
  return which == EINSUM_OUT ? c->kernel->n_operands : which == EINSUM_ADD ? 2 : which;
}

/* ADD is broadcast to the result. */
static void read_addend(vtb_cpu *c, vtb__letters *l) {
  const vtb_type *add = c->kernel->types[2];
  int missing = c->kernel->types[vtb__einsum_tensor(c, EINSUM_OUT)]->rank - add->rank;
  for (int i = 0; i < l->n; i++) {
    int axis = l->at[i].in[EINSUM_OUT] ? l->at[i].at[EINSUM_OUT] - missing : -1;
    if (axis < 0 || add->dim[axis].size == 1) continue;
    l->at[i].in[EINSUM_ADD] = true;
    l->at[i].stride[EINSUM_ADD] = vtb_cpu_strides(c, 2)[axis];
  }
}

static void read_letters(vtb_cpu *c, const vtb_inst *inst, vtb__letters *l) {
  vtb_product p = vtb_product_of(inst);
  l->n = 0;
  l->adds = inst->n_operands == 3;
  for (int i = 0; i < p.n; i++) {
    const vtb_letter *from = &p.letters[i];
    if (from->size == 1) continue;
    vtb__letter *x = &l->at[l->n++];
    *x = (vtb__letter){.role = from->role, .size = from->size};
    for (int which = 0; which <= EINSUM_OUT; which++) {
      x->at[which] = from->at[which];
      x->in[which] = x->at[which] >= 0;
      if (x->in[which])
        x->stride[which] = vtb_cpu_strides(c, vtb__einsum_tensor(c, which))[x->at[which]];
    }
  }
  if (l->adds) read_addend(c, l);
}

/* ---- generic: a product and a sum as a kernel body ------------------------------------------- */

static void emit_generic(vtb_cpu *c, const vtb_inst *inst, bool unroll) {
  vtb_module *m = vtb_module_new("einsum");
  vtb_func *f = vtb_func_new(m, "body", VTB_FUNC_KERNEL, VTB_NO_SPAN);
  vtb_builder b = {.module = m, .func = f};
  vtb_value *x = vtb_func_add_arg(f, "x", inst->operands[0]->type);
  vtb_value *y = vtb_func_add_arg(f, "y", inst->operands[1]->type);
  vtb_value *r = vtb__einsum_sum(&b, inst, x, y, unroll);
  if (inst->n_operands == 3)
    r = vtb_b_binary(&b, VTB_OP_add, r, vtb_func_add_arg(f, "z", inst->operands[2]->type));
  vtb_func_set_returns(f, &r, NULL, 1);
  vtb_inst fused = *inst;
  fused.op = VTB_OP_fused;
  fused.callee = f;
  vtb__cpu_body(c, &fused);
  vtb_module_free(m);
}

/* One short summed letter, and a long innermost letter that is contiguous where it occurs: bound by
 * memory, not by arithmetic, and no work for a matrix product. */
static bool is_thin(const vtb_inst *inst, const vtb__letters *l) {
  const vtb__letter *k = NULL, *inner = NULL;
  for (int i = 0; i < l->n; i++) {
    vtb_letter_role class = l->at[i].role;
    if (class == VTB_LETTER_ALONE || (class == VTB_LETTER_SUM && k)) return false;
    if (class == VTB_LETTER_SUM) k = &l->at[i];
    if (l->at[i].in[EINSUM_OUT] && (!inner || l->at[i].at[EINSUM_OUT] > inner->at[EINSUM_OUT]))
      inner = &l->at[i];
  }
  int n = vtb_product_of(inst).n;
  if (!k || !inner || k->size > 8 || inner->size < 32 || n > VTB_MAX_RANK ||
      n != inst->results[0]->type.rank + 1)
    return false;
  return (!inner->in[EINSUM_A] || inner->stride[EINSUM_A] == 1) &&
         (!inner->in[EINSUM_B] || inner->stride[EINSUM_B] == 1);
}

/* ---- the plan of a product ------------------------------------------------------------------- */

typedef vtb__dim dim;
typedef vtb__product product;

static bool joins(const dim *outer, const dim *inner, int t, int u) {
  return outer->stride[t] == inner->stride[t] * inner->size &&
         outer->stride[u] == inner->stride[u] * inner->size;
}

static dim dim_of(const vtb__letter *l) {
  dim d = {.size = l->size};
  memcpy(d.stride, l->stride, sizeof d.stride);
  return d;
}

/* Letters of a class by their place in tensor `by`, outermost first. */
static int letters_of(const product *p, vtb_letter_role class, int by, const vtb__letter **out) {
  int n = 0;
  for (int axis = 0; axis < VTB_MAX_RANK; axis++)
    for (int i = 0; i < p->l.n; i++)
      if (p->l.at[i].role == class && p->l.at[i].at[by] == axis) out[n++] = &p->l.at[i];
  return n;
}

/* Merges a class from its innermost letter outwards over tensors t and u; the rest become loops. */
static dim merge_class(product *p, vtb_letter_role class, int by, int t, int u) {
  const vtb__letter *letters[EINSUM_MOST_LETTERS];
  int n = letters_of(p, class, by, letters);
  dim d = {.size = 1};
  if (!n) return d;
  d = dim_of(letters[--n]);
  bool open = true;
  while (n--) {
    dim outer = dim_of(letters[n]);
    open &= joins(&outer, &d, t, u) && (!p->l.adds || joins(&outer, &d, EINSUM_ADD, EINSUM_ADD));
    if (open)
      d.size *= outer.size;
    else
      p->loops[p->n_loops++] = outer;
  }
  return d;
}

/* A matrix with rows r and columns c of tensor t: leading dimension, and whether it lies
 * transposed. */
static bool matrix(const dim *r, const dim *c, int t, bool *trans, int64_t *ld) {
  int64_t rs = r->stride[t], cs = c->stride[t];
  if ((c->size == 1 || cs == 1) && (r->size == 1 || rs >= c->size)) {
    *trans = false;
    *ld = r->size == 1 ? c->size : rs;
    return true;
  }
  if ((r->size == 1 || rs == 1) && (c->size == 1 || cs >= r->size)) {
    *trans = true;
    *ld = c->size == 1 ? r->size : cs;
    return true;
  }
  return false;
}

/* All k letters are one in both operands, in a's order; otherwise the operand at fault, or -1. */
static int merge_k(product *p) {
  const vtb__letter *letters[EINSUM_MOST_LETTERS];
  int n = letters_of(p, VTB_LETTER_SUM, p->a, letters);
  p->k = n ? dim_of(letters[--n]) : (dim){.size = 1};
  while (n--) {
    dim outer = dim_of(letters[n]);
    if (!joins(&outer, &p->k, p->a, p->a)) return p->a;
    if (!joins(&outer, &p->k, p->b, p->b)) return p->b;
    p->k.size *= outer.size;
  }
  return -1;
}

/* Columns of a weight in panels (passes/memory/pack.c): number of a panel and column of it are
 * letters, and what is summed lies between them. They are one as in the result. */
static bool merge_panels(product *p, vtb_letter_role columns) {
  const vtb__letter *letters[EINSUM_MOST_LETTERS];
  if (letters_of(p, columns, EINSUM_OUT, letters) != 2) return false;
  dim panel = dim_of(letters[0]), in = dim_of(letters[1]);
  if (in.size != VTB_PANEL || in.stride[p->b] != 1 || p->k.stride[p->b] != VTB_PANEL ||
      panel.stride[p->b] != VTB_PANEL * p->k.size || !joins(&panel, &in, EINSUM_OUT, EINSUM_OUT) ||
      (p->l.adds && !joins(&panel, &in, EINSUM_ADD, EINSUM_ADD)))
    return false;
  p->n = in;
  p->n.size *= panel.size;
  return true;
}

/* Fills the plan; returns the tensor that must be copied into canonical order first, or -1. */
static int analyse(product *p) {
  vtb_letter_role row = p->a == EINSUM_A ? VTB_LETTER_ROWS : VTB_LETTER_COLUMNS,
                  column = p->a == EINSUM_A ? VTB_LETTER_COLUMNS : VTB_LETTER_ROWS;
  const vtb__letter *batch[EINSUM_MOST_LETTERS];
  bool trans;
  p->n_loops = 0;
  int n = letters_of(p, VTB_LETTER_BATCH, EINSUM_OUT, batch);
  for (int i = 0; i < n; i++) p->loops[p->n_loops++] = dim_of(batch[i]);
  p->m = merge_class(p, row, EINSUM_OUT, p->a, EINSUM_OUT);
  int fault = merge_k(p);
  p->in_panels = fault < 0 && merge_panels(p, column);
  if (!p->in_panels) p->n = merge_class(p, column, EINSUM_OUT, p->b, EINSUM_OUT);
  if (fault >= 0) return fault;
  if (!matrix(&p->m, &p->k, p->a, &p->trans_a, &p->lda)) return p->a;
  if (!p->in_panels && !matrix(&p->k, &p->n, p->b, &p->trans_b, &p->ldb)) return p->b;
  if (!matrix(&p->m, &p->n, EINSUM_OUT, &trans, &p->ldc) || trans) return EINSUM_OUT;
  return -1;
}

/* ---- copies into canonical order ------------------------------------------------------------- */

/* The letters of tensor t in the order batch, its own class, k (operands) or batch, rows, columns
 * (result). */
static int canonical(const product *p, int t, vtb__letter **out) {
  static const vtb_letter_role orders[3][3] = {
      {VTB_LETTER_BATCH, VTB_LETTER_ROWS, VTB_LETTER_SUM},
      {VTB_LETTER_BATCH, VTB_LETTER_COLUMNS, VTB_LETTER_SUM},
      {VTB_LETTER_BATCH, VTB_LETTER_ROWS, VTB_LETTER_COLUMNS}};
  int n = 0;
  for (int pass = 0; pass < 3; pass++) {
    vtb_letter_role class = orders[t][pass];
    if (t == EINSUM_OUT && p->a == EINSUM_B && pass) class = orders[t][3 - pass];
    const vtb__letter *letters[EINSUM_MOST_LETTERS];
    int count = letters_of(p, class, class == VTB_LETTER_SUM ? p->a : EINSUM_OUT, letters);
    for (int i = 0; i < count; i++) out[n++] = (vtb__letter *)letters[i];
  }
  return n;
}

/* Type and strides of tensor t seen in canonical order. */
static vtb_value reordered(int t, vtb__letter **letters, int n, int64_t *stride) {
  vtb_value v = {.type = {.dtype = VTB_F32, .rank = n}, .name = "reordered"};
  for (int i = 0; i < n; i++) {
    v.type.dim[i].size = letters[i]->size;
    stride[i] = letters[i]->stride[t];
  }
  return v;
}

static void dense_in_order(vtb__letter **letters, int n, int t) {
  int64_t s = 1;
  for (int i = n; i-- > 0;) {
    letters[i]->stride[t] = s;
    s *= letters[i]->size;
  }
}

static void copy_between(vtb_cpu *c, const vtb_value *v, const vtb_leaf *leaf,
                         const vtb_root *root) {
  vtb_cpu_expr e;
  vtb__expr_init(&e, c, NULL);
  vtb_leaf source = *leaf;
  source.value = v;
  vtb_vec_push(&e.body.leaves, source);
  vtb__emit_loop(&e.body, root, 1);
  vtb__expr_free(&e);
}

static void copy_operand(vtb_cpu *c, product *p, int t) {
  vtb__letter *letters[EINSUM_MOST_LETTERS];
  int64_t stride[EINSUM_MOST_LETTERS];
  int n = canonical(p, t, letters);
  vtb_value v = reordered(t, letters, n, stride);
  p->temp[t] = vtb_cpu_temp(c, vtb_type_count(&v.type) * 4);
  vtb_root root = {.value = &v, .tensor = -1, .temp = p->temp[t]};
  vtb__dense_strides(&v.type, root.stride);
  copy_between(c, &v, &(vtb_leaf){.tensor = t, .stride = stride}, &root);
  dense_in_order(letters, n, t);
}

/* The product goes to a temporary in canonical order; copy_result() brings it into place. */
static void redirect_result(vtb_cpu *c, product *p) {
  vtb__letter *letters[EINSUM_MOST_LETTERS];
  int n = canonical(p, EINSUM_OUT, letters);
  int64_t count = 1;
  for (int i = 0; i < n; i++) count *= letters[i]->size;
  p->temp[EINSUM_OUT] = vtb_cpu_temp(c, count * 4);
  dense_in_order(letters, n, EINSUM_OUT);
}

static void copy_result(vtb_cpu *c, product *p) {
  int64_t stride[EINSUM_MOST_LETTERS];
  vtb_value v = {.type = {.dtype = VTB_F32}, .name = "reordered"};
  vtb_root root = {.value = &v, .tensor = vtb__einsum_tensor(c, EINSUM_OUT)};
  /* in the result's own order, read with the temporary's strides: the stores are contiguous */
  for (int axis = 0; axis < VTB_MAX_RANK; axis++)
    for (int i = 0; i < p->l.n; i++) {
      if (p->l.at[i].at[EINSUM_OUT] != axis) continue;
      stride[v.type.rank] = p->l.at[i].stride[EINSUM_OUT];
      root.stride[v.type.rank] = vtb_cpu_strides(c, root.tensor)[axis];
      v.type.dim[v.type.rank++].size = p->l.at[i].size;
    }
  copy_between(c, &v, &(vtb_leaf){.tensor = -1, .temp = p->temp[EINSUM_OUT], .stride = stride},
               &root);
}

/* ---- choice ---------------------------------------------------------------------------------- */

/* The result's innermost letter decides which operand gives its columns. */
static void choose_sides(product *p) {
  const vtb__letter *inner = NULL;
  for (int i = 0; i < p->l.n; i++)
    if (p->l.at[i].in[EINSUM_OUT] && (!inner || p->l.at[i].at[EINSUM_OUT] > inner->at[EINSUM_OUT]))
      inner = &p->l.at[i];
  bool swap = inner && inner->role == VTB_LETTER_ROWS;
  p->a = swap ? EINSUM_B : EINSUM_A;
  p->b = swap ? EINSUM_A : EINSUM_B;
}

static bool is_product(const vtb__letters *l) {
  bool k = false;
  int64_t inner = 1, loops = 1;
  for (int i = 0; i < l->n; i++) {
    vtb_letter_role class = l->at[i].role;
    if (class == VTB_LETTER_ALONE) return false;
    k |= class == VTB_LETTER_SUM;
    *(class == VTB_LETTER_BATCH ? &loops : &inner) *= l->at[i].size;
  }
  return k && (inner >= 512 || loops <= 16); /* many tiny products are better generated */
}

void vtb__cpu_einsum(vtb_cpu *c, const vtb_inst *inst) {
  product p = {.temp = {-1, -1, -1}};
  read_letters(c, inst, &p.l);
  if (vtb__einsum_blocks(c, &p.l)) return;
  bool thin = is_thin(inst, &p.l);
  if (thin || !is_product(&p.l)) {
    emit_generic(c, inst, thin);
    return;
  }
  choose_sides(&p);
  for (int tries = 0;; tries++) {
    int fault = analyse(&p);
    if (fault < 0) break;
    vtb_check(tries < 4 && p.temp[fault] < 0, "einsum \"%s\" finds no layout",
              vtb_einsum_text(inst));
    if (fault == EINSUM_OUT)
      redirect_result(c, &p);
    else
      copy_operand(c, &p, fault);
  }
  vtb__einsum_emit(c, &p);
  if (p.temp[EINSUM_OUT] >= 0) copy_result(c, &p);
}
