/* An einsum as one MatMul, between the transposes and reshapes that its letters ask for.
 *
 * Letters are in both operands and the result (batch), in one and the result (left, right), in both
 * and summed, or in one alone, which is summed before. The symbolic batch as a letter of one
 * operand stays an axis of its own in front: other letters may be merged with each other, but
 * not with what has no number. */
#include "frontend/onnx/internal.h"

#include "ir/product.h"

/* Some letters of the product, by number. */
typedef struct letters {
  int at[OX_MAX_RANK];
  int n;
} letters;

static void add_letter(letters *l, int number) { l->at[l->n++] = number; }

typedef struct product {
  vtb_product of; /* its letters, with the sizes that the operands have here */
  letters in[2], out, batch, left, right, sum;
  int free; /* the symbolic batch, if one operand alone has it; -1 */
} product;

static int64_t merged(const product *p, const letters *l) {
  int64_t n = 1;
  for (int i = 0; i < l->n; i++) n *= p->of.letters[l->at[i]].size;
  return n;
}

/* The operand over the letters of `order`. */
static ox_value *ordered(ox *x, ox_value *a, const letters *from, const letters *order) {
  int64_t perm[OX_MAX_RANK];
  for (int i = 0; i < order->n; i++)
    for (int k = 0; k < from->n; k++)
      if (from->at[k] == order->at[i]) perm[i] = k;
  return vtb__ox_transpose(x, a, perm);
}

/* Letters that nothing else has are summed away. */
static ox_value *without_solo(ox *x, product *p, int k, ox_value *a) {
  int64_t axes[OX_MAX_RANK];
  int n = 0;
  for (int i = 0; i < p->of.rank[k]; i++)
    if (vtb_product_at(&p->of, k, i)->role == VTB_LETTER_ALONE)
      axes[n++] = i;
    else
      add_letter(&p->in[k], p->of.of[k][i]);
  return vtb__ox_reduce(x, "ReduceSum", a, axes, n, false);
}

static void classify(product *p) {
  p->free = -1;
  for (int i = 0; i < p->of.rank[VTB_IN_RESULT]; i++) {
    int number = p->of.of[VTB_IN_RESULT][i];
    const vtb_letter *l = &p->of.letters[number];
    add_letter(&p->out, number);
    if (l->role == VTB_LETTER_BATCH)
      add_letter(&p->batch, number);
    else if (l->size == VTB_DYN)
      p->free = number;
    else
      add_letter(l->role == VTB_LETTER_ROWS ? &p->left : &p->right, number);
  }
  for (int i = 0; i < p->in[0].n; i++)
    if (p->of.letters[p->in[0].at[i]].role == VTB_LETTER_SUM) add_letter(&p->sum, p->in[0].at[i]);
}

/* The shape of batch letters, then two merged groups; leading axes that have no batch letters stay
 * as they are, if that saves a reshape. */
static ox_value *as_matrix(ox *x, const product *p, ox_value *a, bool free, const letters *rows,
                           const letters *cols) {
  int64_t dim[OX_MAX_RANK];
  int rank = 0;
  if (free) dim[rank++] = VTB_DYN;
  for (int i = 0; i < p->batch.n; i++) dim[rank++] = p->of.letters[p->batch.at[i]].size;
  dim[rank++] = merged(p, rows);
  dim[rank++] = merged(p, cols);
  return vtb__ox_reshape(x, a, rank, dim);
}

static letters joined(int free, const letters *a, const letters *b, const letters *c) {
  letters l = {{0}, 0};
  const letters *parts[] = {a, b, c};
  if (free >= 0) add_letter(&l, free);
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < parts[k]->n; i++) add_letter(&l, parts[k]->at[i]);
  return l;
}

static ox_value *multiply(ox *x, product *p, ox_value *a, ox_value *b) {
  bool free = p->free >= 0, left = free && p->of.letters[p->free].at[0] >= 0, right = free && !left;
  letters la = joined(left ? p->free : -1, &p->batch, &p->left, &p->sum),
          lb = joined(right ? p->free : -1, &p->batch, &p->sum, &p->right),
          ly = joined(p->free, &p->batch, &p->left, &p->right);
  a = as_matrix(x, p, ordered(x, a, &p->in[0], &la), left, &p->left, &p->sum);
  b = as_matrix(x, p, ordered(x, b, &p->in[1], &lb), right, &p->sum, &p->right);
  ox_value *y = vtb__ox_matmul(x, a, b);
  int64_t dim[OX_MAX_RANK];
  for (int i = 0; i < ly.n; i++) dim[i] = p->of.letters[ly.at[i]].size;
  return ordered(x, vtb__ox_reshape(x, y, ly.n, dim), &ly, &p->out);
}

void vtb__ox_einsum(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  product p = {.of = vtb_product_of(inst)};
  ox_value *v[2];
  if (vtb__ox_conv_of_einsum(x, inst, in, out)) return;
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < p.of.rank[k]; i++) p.of.letters[p.of.of[k][i]].size = in[k]->type.dim[i];
  for (int k = 0; k < 2; k++) v[k] = without_solo(x, &p, k, in[k]);
  classify(&p);
  out[0] = multiply(x, &p, v[0], v[1]);
  if (inst->n_operands == 3) out[0] = vtb__ox_binary(x, "Add", out[0], in[2]);
}
