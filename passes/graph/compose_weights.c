/* compose_weights: a narrow product of a product of small matrices reads what that one reads.
 *
 *   func @block(%x, %wq, %w)                           func @block(%x, %wq, %c)
 *     %q = einsum %x, %wq {"bngi,goi->bngo"}             %g = einsum %x, %c {"bnd,ed->bne"}
 *     %g = einsum %q, %w {"bnd,ed->bne"}          =>   its caller
 *                                                        %c = einsum %w, %wq {"ego,goi->egi"}
 *
 * also through a bias of q, which becomes one of g, and reshapes. Of a sum of such products those
 * of one x are a single product by the sum of their weights: gates that read a concatenation of
 * queries and keys, both of x, read x alone, and queries and keys have a reader less, so that they
 * need not be in memory where a kernel can make them. The weights are composed in fp32, by the
 * callers of a block (hoist.c). Where memory is the limit, before autodiff, behind siblings and
 * distribute. Declines wide results, tensors with fewer tokens than the result has columns, x wider
 * than q unless that leaves fewer tensors to read, and matrices so large that composing them is
 * work.
 */
#include "passes/passes_internal.h"

#include "ir/product.h"

#include <stdlib.h>

enum { MOST_COLUMNS = 32, MOST_MATRIX = 64, MOST_TERMS = 16 };

/* einsum q, w with q's last letter the only one that is summed, and w of that letter and the
 * result's last: the gates. */
typedef struct narrow {
  vtb_inst *inst;
  int64_t columns, width;
  bool columns_first; /* w is [columns, width] */
} narrow;

/* q as far as what makes it: x [..., g, i] or [..., g * i] times w [letters g, o, i in any order],
 * and what is added to it. */
typedef struct source {
  vtb_value *x, *w, *bias; /* bias: of `width` elements; NULL: none */
  int64_t groups, from, to;
  char letters[4]; /* of w: 'g', 'o', 'i' */
} source;

typedef struct term {
  narrow product;
  source source;
  bool composed; /* the product has a source; else it stays */
} term;

static bool parse_narrow(vtb_inst *e, narrow *out) {
  if (e->op != VTB_OP_einsum || e->n_operands != 2) return false;
  vtb_product p = vtb_product_of(e);
  int last = p.rank[0] - 1;
  if (last < 1 || p.rank[1] != 2 || !vtb_product_keeps_rows(&p)) return false;
  const vtb_letter *column = vtb_product_only(&p, VTB_LETTER_COLUMNS);
  *out = (narrow){.inst = e,
                  .columns = column->size,
                  .width = vtb_product_only(&p, VTB_LETTER_SUM)->size,
                  .columns_first = column->at[1] == 0};
  int64_t tokens = 1;
  for (int a = 0; a < last; a++) {
    int64_t size = e->results[0]->type.dim[a].size;
    if (size > 0) tokens *= size;
  }
  return out->width > 0 && out->columns <= MOST_COLUMNS && out->columns * 8 <= out->width &&
         tokens >= out->columns;
}

/* The same tensor with the last axis in parts, or the other way round. */
static bool regroups(const vtb_value *from, const vtb_value *to) {
  const vtb_type *x = &from->type, *y = &to->type;
  int lead = (x->rank < y->rank ? x->rank : y->rank) - 1;
  return lead >= 1 && abs(x->rank - y->rank) <= 1 && vtb_type_same_axes(x, y, lead);
}

/* v without what is added to it, a number each of its last `width` elements. */
static vtb_value *without_bias(vtb_value *v, int64_t width, vtb_value **bias) {
  if (!v->def || v->def->op != VTB_OP_add || *bias) return v;
  for (int o = 0; o < 2; o++) {
    vtb_value *x = v->def->operands[o], *b = v->def->operands[1 - o];
    if (!vtb_type_equal(&x->type, &v->type) || vtb_type_count(&b->type) != width) continue;
    if (b->type.rank > 2 || vtb_type_is_dynamic(&b->type)) continue;
    int64_t tail = 1;
    for (int a = v->type.rank - b->type.rank; a < v->type.rank; a++) tail *= v->type.dim[a].size;
    if (tail != width) continue;
    *bias = b;
    return x;
  }
  return v;
}

/* e as x [..., g, i] times w; x may be read where its last axis is still one. */
static bool parse_blocks(const vtb_inst *e, int64_t width, source *out) {
  if (!e || e->op != VTB_OP_einsum || e->n_operands != 2) return false;
  vtb_blocks b;
  int rank = e->operands[0]->type.rank;
  if (!vtb_blocks_of(e, &b)) return false;
  out->letters[b.at_group] = 'g';
  out->letters[b.at_inner] = 'i';
  out->letters[b.at_outer] = 'o';
  out->letters[3] = '\0';
  out->groups = b.groups, out->from = b.inner, out->to = b.outer;
  out->x = e->operands[0];
  out->w = e->operands[1];
  if (out->x->def && out->x->def->op == VTB_OP_reshape &&
      out->x->def->operands[0]->type.rank == rank - 1 && regroups(out->x->def->operands[0], out->x))
    out->x = out->x->def->operands[0];
  return out->groups > 1 && out->groups * out->to == width && out->from <= MOST_MATRIX &&
         out->to <= MOST_MATRIX;
}

static bool find_source(const narrow *n, source *out) {
  vtb_value *v = without_bias(n->inst->operands[0], n->width, &out->bias);
  if (v->def && v->def->op == VTB_OP_reshape && regroups(v->def->operands[0], v))
    v = without_bias(v->def->operands[0], n->width, &out->bias);
  return parse_blocks(v->def, n->width, out);
}

/* ---- which ----------------------------------------------------------------------------------- */

/* The products that add up to v, in order, behind n others, and how many there are then; what is
 * used elsewhere too is no part. -1 if there is anything else. */
static int collect(vtb_value *v, int depth, term *terms, int n) {
  narrow p;
  if (!v->def || n < 0 || depth > MOST_TERMS || (depth > 0 && !vtb_is_used_once(v))) return -1;
  if (v->def->op == VTB_OP_add) {
    for (int o = 0; o < 2; o++)
      if (!vtb_type_equal(&v->def->operands[o]->type, &v->type)) return -1;
    n = collect(v->def->operands[0], depth + 1, terms, n);
    return collect(v->def->operands[1], depth + 1, terms, n);
  }
  if (n == MOST_TERMS || !parse_narrow(v->def, &p)) return -1;
  terms[n] = (term){.product = p};
  terms[n].composed = find_source(&p, &terms[n].source);
  return n + 1;
}

static vtb_value *read_by(const term *t) {
  return t->composed ? t->source.x : t->product.inst->operands[0];
}

/* Terms a and b are one product. */
static bool together(const term *a, const term *b) {
  return read_by(a) == read_by(b) && a->product.columns_first == b->product.columns_first &&
         vtb_type_equal(&a->product.inst->operands[0]->type, &b->product.inst->operands[0]->type) &&
         (!a->composed || !b->composed ||
          a->source.from * a->source.groups == b->source.from * b->source.groups);
}

static bool is_first(const term *terms, int t) {
  for (int k = 0; k < t; k++)
    if (together(&terms[k], &terms[t])) return false;
  return true;
}

/* As many elements a token are read as before at most, or fewer tensors. */
static bool pays(const term *terms, int n) {
  int64_t before = 0, after = 0;
  int tensors = 0, composed = 0;
  for (int t = 0; t < n; t++) {
    const term *it = &terms[t];
    before += it->product.width;
    composed += it->composed;
    if (!is_first(terms, t)) continue;
    after += it->composed ? it->source.groups * it->source.from : it->product.width;
    tensors++;
  }
  return composed > 0 && (after <= before || (tensors < n && after <= before * 2));
}

/* ---- the rewriting --------------------------------------------------------------------------- */

static vtb_value *shaped(vtb_builder *b, vtb_value *v, int rank, const int64_t *sizes) {
  vtb_type t = vtb_type_make(v->type.dtype, rank, sizes);
  return vtb_b_shaped(b, v, &t);
}

/* The weight by which x is multiplied, in the place of q's. */
static vtb_value *compose(vtb_builder *b, const term *t) {
  vtb_value *w = t->product.inst->operands[1];
  const source *s = &t->source;
  if (!t->composed) return w;
  bool first = t->product.columns_first;
  int64_t e = t->product.columns, parts[] = {e, s->groups, s->to}, turned[] = {s->groups, s->to, e};
  int64_t whole[] = {e, s->groups * s->from}, turned_whole[] = {s->groups * s->from, e};
  char spec[16];
  snprintf(spec, sizeof spec, "%s,%s->%s", first ? "ego" : "goe", s->letters,
           first ? "egi" : "gie");
  vtb_value *c = vtb_b_einsum(b, spec, shaped(b, w, 3, first ? parts : turned), s->w);
  return shaped(b, c, 2, first ? whole : turned_whole);
}

/* The part of the result that q's bias adds, [columns]; NULL: none. */
static vtb_value *constant_of(vtb_builder *b, const term *t) {
  if (!t->composed || !t->source.bias) return NULL;
  bool first = t->product.columns_first;
  int64_t row[] = {1, t->product.width}, column[] = {t->product.width, 1}, axis = first;
  vtb_value *bias = shaped(b, t->source.bias, 2, first ? row : column);
  vtb_value *each = vtb_b_binary(b, VTB_OP_mul, t->product.inst->operands[1], bias);
  return vtb_b_reduce(b, VTB_OP_reduce_sum, each, &axis, 1, false);
}

/* x with tokens and width as the product reads them. */
static vtb_value *operand(vtb_builder *b, const term *t) {
  vtb_value *x = read_by(t);
  vtb_type flat = t->product.inst->operands[0]->type;
  if (!t->composed) return x;
  flat.dim[flat.rank - 1] = (vtb_dim){t->source.groups * t->source.from, NULL};
  return x->type.rank == flat.rank ? x : vtb_b_reshape(b, x, &flat);
}

typedef VTB_VEC(vtb_value *) weights;

/* Instructions of parameters alone go to `made`. */
static void rewrite(vtb_func *f, vtb_inst *root, const term *terms, int n, weights *made) {
  vtb_builder b = vtb__before(root);
  vtb_value *sum = NULL, *constant = NULL, *old = root->results[0];
  for (int t = 0; t < n; t++)
    constant = vtb__joined(&b, VTB_OP_add, constant, constant_of(&b, &terms[t]));
  for (int t = 0; t < n; t++) {
    if (!is_first(terms, t)) continue;
    vtb_value *w = NULL;
    for (int k = t; k < n; k++)
      if (together(&terms[t], &terms[k]))
        w = vtb__joined(&b, VTB_OP_add, w, compose(&b, &terms[k]));
    if (w != terms[t].product.inst->operands[1]) vtb__put(f, made, w);
    vtb_value *x = operand(&b, &terms[t]);
    sum = vtb__joined(&b, VTB_OP_add, sum, vtb_b_einsum_like(&b, terms[t].product.inst, x, w));
  }
  sum = vtb__joined(&b, VTB_OP_add, sum, constant);
  if (constant) vtb__put(f, made, constant);
  vtb__stand_in(old, sum);
}

/* From the end, so that a sum is met before its parts, which then have no reader. */
void vtb__visit_compose_weights(const vtb_pass_context *c, vtb_func *f) {
  (void)c;
  vtb__dce_func(f);
  weights made = {0};
  for (vtb_inst *i = f->last, *before; i; i = before) {
    term terms[MOST_TERMS];
    before = i->prev;
    if (i->op != VTB_OP_add && i->op != VTB_OP_einsum) continue;
    vtb_inst *next = i->next;
    int n = vtb_is_read(i->results[0]) ? collect(i->results[0], 0, terms, 0) : 0;
    if (n < 1 || !pays(terms, n)) continue;
    rewrite(f, i, terms, n, &made);
    vtb__dce_func(f);
    before = next ? next->prev : f->last;
  }
  if (made.n && f != f->module->entry) vtb__hoist(f, made.at, (int)made.n);
  if (made.n) vtb__dce_func(f);
  if (made.n) vtb__cse_func(f);
}
