/* An einsum as one MatMul, between the transposes and reshapes that its letters ask for.
 *
 * Letters are in both operands and the result (batch), in one and the result (left, right), in both
 * and summed, or in one alone, which is summed before. The symbolic batch as a letter of one
 * operand stays an axis of its own in front: other letters may be merged with each other, but
 * not with what has no number. */
#include "frontend/onnx/internal.h"

#include <string.h>

typedef struct letters {
  char at[OX_MAX_RANK + 1];
  int n;
} letters;

static void add(letters *l, char c) {
  l->at[l->n++] = c;
  l->at[l->n] = 0;
}
static bool has(const letters *l, char c) { return strchr(l->at, c) != NULL; }

typedef struct product {
  letters in[2], out, batch, left, right, sum;
  char free; /* the symbolic batch, if one operand alone has it; 0 */
  int64_t size[128];
} product;

/* "bnd,ed->bne" */
static void parse(const char *spec, product *p) {
  letters *to[] = {&p->in[0], &p->in[1], &p->out};
  int at = 0;
  for (; *spec; spec++)
    if (*spec == ',' || *spec == '>')
      at++;
    else if (*spec != '-')
      add(to[at], *spec);
}

static int64_t merged(const product *p, const letters *l) {
  int64_t n = 1;
  for (int i = 0; i < l->n; i++) n *= p->size[(unsigned char)l->at[i]];
  return n;
}

/* The operand over the letters of `order`. */
static ox_value *ordered(ox *x, ox_value *a, const letters *from, const letters *order) {
  int64_t perm[OX_MAX_RANK];
  for (int i = 0; i < order->n; i++) perm[i] = strchr(from->at, order->at[i]) - from->at;
  return vtb__ox_transpose(x, a, perm);
}

/* Letters that nothing else has are summed away. */
static ox_value *without_solo(ox *x, product *p, int k, ox_value *a) {
  letters kept = {{0}, 0};
  int64_t axes[OX_MAX_RANK];
  int n = 0;
  for (int i = 0; i < p->in[k].n; i++) {
    char c = p->in[k].at[i];
    if (has(&p->in[!k], c) || has(&p->out, c))
      add(&kept, c);
    else
      axes[n++] = i;
  }
  p->in[k] = kept;
  return vtb__ox_reduce(x, "ReduceSum", a, axes, n, false);
}

static void classify(product *p) {
  for (int i = 0; i < p->out.n; i++) {
    char c = p->out.at[i];
    bool a = has(&p->in[0], c), b = has(&p->in[1], c);
    if (a && b)
      add(&p->batch, c);
    else if (p->size[(unsigned char)c] == VTB_DYN)
      p->free = c;
    else
      add(a ? &p->left : &p->right, c);
  }
  for (int i = 0; i < p->in[0].n; i++)
    if (has(&p->in[1], p->in[0].at[i]) && !has(&p->out, p->in[0].at[i]))
      add(&p->sum, p->in[0].at[i]);
}

/* The shape of batch letters, then two merged groups; leading axes that have no batch letters stay
 * as they are, if that saves a reshape. */
static ox_value *as_matrix(ox *x, const product *p, ox_value *a, bool free, const letters *rows,
                           const letters *cols) {
  int64_t dim[OX_MAX_RANK];
  int rank = 0;
  if (free) dim[rank++] = VTB_DYN;
  for (int i = 0; i < p->batch.n; i++) dim[rank++] = p->size[(unsigned char)p->batch.at[i]];
  dim[rank++] = merged(p, rows);
  dim[rank++] = merged(p, cols);
  return vtb__ox_reshape(x, a, rank, dim);
}

static letters joined(char free, const letters *a, const letters *b, const letters *c) {
  letters l = {{0}, 0};
  const letters *parts[] = {a, b, c};
  if (free) add(&l, free);
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < parts[k]->n; i++) add(&l, parts[k]->at[i]);
  return l;
}

static ox_value *multiply(ox *x, product *p, ox_value *a, ox_value *b) {
  bool left = p->free && has(&p->in[0], p->free), right = p->free && !left;
  letters la = joined(left ? p->free : 0, &p->batch, &p->left, &p->sum),
          lb = joined(right ? p->free : 0, &p->batch, &p->sum, &p->right),
          ly = joined(p->free, &p->batch, &p->left, &p->right);
  a = as_matrix(x, p, ordered(x, a, &p->in[0], &la), left, &p->left, &p->sum);
  b = as_matrix(x, p, ordered(x, b, &p->in[1], &lb), right, &p->sum, &p->right);
  ox_value *y = vtb__ox_matmul(x, a, b);
  int64_t dim[OX_MAX_RANK];
  for (int i = 0; i < ly.n; i++) dim[i] = p->size[(unsigned char)ly.at[i]];
  return ordered(x, vtb__ox_reshape(x, y, ly.n, dim), &ly, &p->out);
}

void vtb__ox_einsum(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  product p = {0};
  ox_value *v[2];
  if (vtb__ox_conv_of_einsum(x, inst, in, out)) return;
  parse(vtb_attr_str(inst, "spec", ""), &p);
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < p.in[k].n; i++) p.size[(unsigned char)p.in[k].at[i]] = in[k]->type.dim[i];
  for (int k = 0; k < 2; k++) v[k] = without_solo(x, &p, k, in[k]);
  classify(&p);
  out[0] = multiply(x, &p, v[0], v[1]);
  if (inst->n_operands == 3) out[0] = vtb__ox_binary(x, "Add", out[0], in[2]);
}
