/* split_thin: thin products of what a depthwise convolution reads and of what is made of it become
 * sums over shares of the channels.
 *
 *   %y = dwconv %x, %w
 *   %a = silu %y
 *   %p = einsum %a, %u, %bias {spec = "bnd,ed->bne"}
 *   %g = einsum %x, %v, %p {spec = "bnd,ed->bne"}
 *   =>
 *   %p.1 = einsum %a.1, %u.1 {spec = "bnsc,esc->sbne"}
 *   %g.1 = einsum %x.1, %v.1, %p.1 {spec = "bnsc,esc->sbne"}
 *   %g = slice %g.1 [0] + slice %g.1 [1] + %bias
 *
 * A block of the convolution's kernel has all channels of a share, so that `grow` can give it
 * the products (gates, say), which then read nothing from memory; the few numbers a token and share
 * are added by whatever reads the sum. No row: `fuse` gives readers these sums before rows grow.
 * Behind add_in_product, before fuse. Declines results that are not narrow beside the channels (the
 * shares would be more than what is saved), channels that do not divide into shares, and sums that
 * nothing made of the convolution is in.
 */
#include "passes/passes_internal.h"

#include "ir/axes.h"
#include "ir/kernels.h"
#include "ir/product.h"

enum { MOST_OUTPUTS = 32, MOST_CHANNELS = 512, LEAST_CHANNELS = 64, MOST_PARTS = 8, DEPTH = 8 };

typedef struct chain {
  vtb_inst *at[VTB_MOST_SHARES]; /* the last one first */
  bool made[VTB_MOST_SHARES];    /* of the convolution's result, not of its input */
  const vtb_inst *conv;
  vtb_value *start; /* what is added to the first; NULL: nothing */
  int n;
} chain;

/* "bnd,ed->bne". */
static bool is_thin(const vtb_inst *i) {
  if (i->op != VTB_OP_einsum) return false;
  vtb_product p = vtb_product_of(i);
  return p.rank[0] == 3 && p.rank[1] == 2 && vtb_product_keeps_rows(&p) &&
         vtb_product_only(&p, VTB_LETTER_SUM)->at[1] == 1 &&
         vtb_product_only(&p, VTB_LETTER_COLUMNS)->size <= MOST_OUTPUTS;
}

/* The convolution of whose result, element by element, v is made. */
static const vtb_inst *made_of(const vtb_value *v, int depth) {
  const vtb_inst *i = vtb_behind_reshapes(v)->def;
  if (!i || depth == 0) return NULL;
  if (i->op == VTB_OP_dwconv) return i;
  if (vtb_op_get(i->op)->klass != VTB_CLASS_ELEMENTWISE) return NULL;
  for (int o = 0; o < i->n_operands; o++) {
    if (vtb_type_count(&i->operands[o]->type) != vtb_type_count(&v->type)) continue;
    const vtb_inst *conv = made_of(i->operands[o], depth - 1);
    if (conv) return conv;
  }
  return NULL;
}

static vtb_inst *next_of(const vtb_inst *i) {
  return i->n_operands == 3 ? i->operands[2]->def : NULL;
}

/* The convolution that what one of the products adding up to i multiplies is made of: another may
 * read what it reads. */
static const vtb_inst *convolution_of(const vtb_inst *i) {
  const vtb_inst *conv = NULL;
  for (int n = 0; i && n < VTB_MOST_SHARES && is_thin(i) && !conv; n++) {
    conv = made_of(i->operands[0], DEPTH);
    i = next_of(i);
  }
  return conv;
}

/* The kernel of `conv` has what i multiplies. */
static bool has_factor(const vtb_inst *i, const vtb_inst *conv, bool *made) {
  *made = made_of(i->operands[0], DEPTH) == conv;
  bool reads = vtb_behind_reshapes(conv->operands[0]) == vtb_behind_reshapes(i->operands[0]);
  if (!(*made || reads) || conv->order > i->order) return false;
  const vtb_type *x = &i->operands[0]->type, *y = &conv->results[0]->type;
  return y->rank == 3 && vtb_type_same_axes(x, y, 3);
}

static void collect(vtb_inst *i, chain *c) {
  c->conv = convolution_of(i);
  while (c->conv && c->n < VTB_MOST_SHARES && is_thin(i) &&
         has_factor(i, c->conv, &c->made[c->n])) {
    c->at[c->n++] = i;
    c->start = i->n_operands == 3 ? i->operands[2] : NULL;
    if (!c->start || !c->start->def || !vtb_only_reader(c->start)) return;
    if (!vtb_type_equal(&c->start->type, &i->results[0]->type)) return;
    i = c->start->def;
  }
}

/* Equal shares of whole fours that a block can have; 0: none. */
static int64_t shares_of(const chain *c) {
  int64_t channels = c->conv->results[0]->type.dim[2].size;
  int64_t outputs = c->at[0]->results[0]->type.dim[2].size;
  for (int64_t n = (channels + MOST_CHANNELS - 1) / MOST_CHANNELS; n <= MOST_PARTS; n++)
    if (channels % (4 * n) == 0) /* parts are written and read; factors would be read, and narrow */
      return channels >= LEAST_CHANNELS && n * outputs * 8 <= channels * c->n ? n : 0;
  return 0;
}

/* v as of another shape, before `conv` if it is there, since the convolution's kernel will stand
 * before all that reads what it makes. */
static vtb_value *shaped(vtb_builder b, vtb_value *v, const vtb_type *t, const vtb_inst *conv) {
  vtb_value *base = vtb_behind_reshapes(v);
  if (vtb_made_before(base, conv)) b.before = (vtb_inst *)conv;
  return vtb_b_reshape(&b, base, t);
}

static vtb_value *product_of(vtb_builder *b, const vtb_inst *i, int64_t shares, vtb_value *start,
                             const vtb_inst *conv) {
  vtb_type x = i->operands[0]->type, w = i->operands[1]->type;
  x.rank = 4, w.rank = 3;
  x.dim[3] = (vtb_dim){.size = x.dim[2].size / shares};
  x.dim[2] = w.dim[1] = (vtb_dim){.size = shares};
  w.dim[2] = x.dim[3];
  b->span = i->span;
  vtb_value *factor = shaped(*b, i->operands[0], &x, conv),
            *weights = shaped(*b, i->operands[1], &w, conv);
  return vtb_b_einsum_from(b, "bnsc,esc->sbne", factor, weights, start);
}

/* A slice of the sum's columns, which can as well be the sum of slices: then whatever reads it adds
 * them up. */
static bool is_columns(const vtb_inst *i, const vtb_value *start) {
  vtb_slice s = i->op == VTB_OP_slice ? vtb_slice_of(i) : (vtb_slice){0};
  if (s.axis != 2 || s.step != 1) return false;
  if (!start) return true;
  int64_t columns = i->operands[0]->type.dim[2].size;
  return start->type.rank > 0 && start->type.dim[start->type.rank - 1].size == columns;
}

static vtb_value *columns_of(vtb_builder *b, vtb_value *v, const vtb_inst *slice) {
  if (!slice) return v;
  vtb_slice s = vtb_slice_of(slice);
  return vtb_b_slice(b, v, v->type.rank - 1, s.start, s.limit, 1);
}

/* The sum of all shares and the start; of a slice of their columns. */
static vtb_value *sum_of(vtb_builder *b, vtb_value *parts, int64_t shares, vtb_value *start,
                         const vtb_inst *slice) {
  vtb_value *sum = NULL;
  for (int64_t s = 0; s < shares; s++) {
    vtb_value *part = columns_of(b, vtb_b_slice(b, parts, 0, s, s + 1, 1), slice);
    vtb_type one = vtb_type_without_axis(&part->type, 0);
    sum = vtb__joined(b, VTB_OP_add, sum, vtb_b_reshape(b, part, &one));
  }
  return start ? vtb_b_binary(b, VTB_OP_add, sum, columns_of(b, start, slice)) : sum;
}

static void split(const chain *c, int64_t shares) {
  vtb_inst *last = c->at[0], **readers = vtb__readers(last->results[0]);
  vtb_builder b = vtb__before(last);
  vtb_value *parts = NULL;
  for (int input = 0; input < 2; input++) /* the convolution's input last */
    for (int k = c->n; k-- > 0;)
      if (c->made[k] == !input) parts = product_of(&b, c->at[k], shares, parts, c->conv);
  bool read = !*readers || vtb_is_returned(last->results[0]);
  for (vtb_inst **r = readers; *r; r++) read |= !is_columns(*r, c->start);
  for (vtb_inst **r = readers; *r && !read; r++) {
    b.before = *r;
    vtb__become(*r, sum_of(&b, parts, shares, c->start, *r));
  }
  if (read) vtb__stand_in(last->results[0], sum_of(&b, parts, shares, c->start, NULL));
  for (int k = 0; k < c->n; k++) vtb_inst_unlink(c->at[k]);
}

void vtb__visit_split_thin(const vtb_pass_context *p, vtb_func *f) {
  (void)p;
  vtb_func_number(f);
  for (vtb_inst *i = f->last, *before; i; i = before) {
    chain c = {0};
    bool made = false;
    int64_t shares;
    before = i->prev;
    collect(i, &c);
    for (int k = 0; k < c.n; k++) made |= c.made[k];
    if (!made || (shares = shares_of(&c)) == 0) continue;
    for (int k = c.n; k-- > 0 && before;)
      if (c.at[k] == before) before = before->prev, k = c.n;
    split(&c, shares);
    vtb_func_number(f);
  }
}
