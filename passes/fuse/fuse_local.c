/* fuse_local: depthwise convolutions, products of small matrices a group of channels, and the
 * elementwise kernels beside them become one kernel.
 *
 *   %y = dwconv %x, %w {grid = [14, 14], pad = [1, 1]}
 *   %a = fused @silu(%y, %bias) {kind = "loop"}
 *   %q = einsum %a.1, %u {spec = "bngi,goi->bngo"}
 *   =>
 *   %a, %q = fused @conv(%x, %w, %bias, %u) {kind = "local"}
 *
 * All of them compute, for a token and a few channels, from that token and those channels alone
 * (the convolution's input and a few numbers a token apart), so that nothing between them has to be
 * stored and what several read is read once. After `fuse`, for targets with such kernels. Two
 * neighbours join if one feeds the other, through reshapes at most, or both read one large value;
 * if there is a place for both before all that reads what the first makes; and if they have at most
 * one convolution, which nothing in the kernel feeds. Products in shares of the channels
 * (split_thin.c) of what a convolution reads or what is made of it, which add up to one result, go
 * with it. Declines blocks of other sizes than four channels.
 */
#include "passes/passes_internal.h"

#include "ir/kernels.h"
#include "ir/product.h"

#include <limits.h>
#include <stdlib.h>

enum { BLOCK = 4, MOST_PRODUCTS = 4, MOST_OPS = 64, MOST_VALUES = 96 };

/* ---- what may be inside ---------------------------------------------------------------------- */

static bool is_convolution(const vtb_inst *i) {
  return i->op == VTB_OP_dwconv || i->op == VTB_OP_dwconv_dx;
}

/* "bngi,goi->bngo" with the letters of the matrix in any order. */
static bool is_block(const vtb_inst *i) {
  vtb_blocks b;
  if (!vtb_blocks_of(i, &b) || b.inner != BLOCK || b.outer != BLOCK) return false;
  return (i->n_operands == 2 || !vtb_type_is_dynamic(&i->operands[2]->type)) &&
         !vtb__mixer_takes(i);
}

/* "bne,ed->bnd" with few e, its matrix in any order: a few numbers a token, spread over
 * channels. */
static bool is_thin(const vtb_inst *i) {
  if (i->op != VTB_OP_einsum) return false;
  vtb_product p = vtb_product_of(i);
  return p.rank[1] == 2 && vtb_product_keeps_rows(&p) && p.rank[0] >= 2 &&
         vtb_product_only(&p, VTB_LETTER_SUM)->size <= VTB_SHORT_SUM &&
         vtb_product_only(&p, VTB_LETTER_COLUMNS)->size % BLOCK == 0;
}

static bool is_product(const vtb_inst *i) { return is_block(i) || is_thin(i); }

static bool is_local(const vtb_inst *i) {
  return i->op == VTB_OP_fused && vtb_kernel_kind_of(i) == VTB_KERNEL_LOCAL;
}

static bool is_loop(const vtb_inst *i) {
  if (i->op != VTB_OP_fused || vtb_kernel_kind_of(i) != VTB_KERNEL_LOOP) return false;
  for (const vtb_inst *k = i->callee->first; k; k = k->next)
    if (vtb_op_get(k->op)->klass != VTB_CLASS_ELEMENTWISE &&
        (k->op != VTB_OP_constant || vtb_attr_find(k, "data")))
      return false;
  for (int r = 1; r < i->n_results; r++)
    if (vtb_type_count(&i->results[r]->type) != vtb_type_count(&i->results[0]->type)) return false;
  return true;
}

static bool is_core(const vtb_inst *i) {
  return is_convolution(i) || is_product(i) || is_local(i) || vtb_is_share(i);
}

/* The convolution that i is or begins with. */
static const vtb_inst *head_of(const vtb_inst *i) {
  if (is_local(i)) i = i->callee->first;
  return is_convolution(i) ? i : NULL;
}

static int count(const vtb_inst *i, bool products) {
  int n = 0;
  if (i->op != VTB_OP_fused) return products ? is_product(i) : 1;
  for (const vtb_inst *k = i->callee->first; k; k = k->next) n += !products || is_product(k);
  return n;
}

/* One is a reshape of the other along whole axes or parts of them, so that indices of one split
 * into those of the other. */
static bool same_elements(const vtb_type *x, const vtb_type *y) {
  if (x->dtype != VTB_F32 || y->dtype != VTB_F32) return false;
  if (vtb_type_count(x) != vtb_type_count(y) || vtb_type_count(x) == 0) return false;
  int a = x->rank, b = y->rank;
  int64_t m = 1, n = 1;
  while (a > 0 || b > 0) {
    if (m == n) {
      if (a > 0) m *= x->dim[--a].size;
      if (b > 0) n *= y->dim[--b].size;
    } else if (m < n && a > 0) {
      m *= x->dim[--a].size;
    } else if (n < m && b > 0) {
      n *= y->dim[--b].size;
    } else {
      return false;
    }
    if (m % n && n % m) return false;
  }
  return true;
}

/* ---- whether two may join -------------------------------------------------------------------- */

/* The first instruction but views and `except` that reads v or a view of it: its order; INT_MAX:
 * none. *read: whether there is one, or v is returned. */
static int first_reader(const vtb_func *f, const vtb_value *v, const vtb_inst *except, bool *read) {
  int first = INT_MAX;
  vtb_inst **readers;
  size_t n = vtb_value_readers(v, &readers);
  for (size_t r = 0; r < n; r++) {
    int order = readers[r]->order;
    if (readers[r] == except) continue;
    if (vtb_is_view(readers[r]->op))
      order = first_reader(f, readers[r]->results[0], except, read);
    else
      *read = true;
    if (order < first) first = order;
  }
  *read |= vtb_is_returned(v);
  vtb_free(readers);
  return first;
}

static bool feeds(const vtb_inst *p, const vtb_value *v) {
  return vtb_behind_reshapes(v)->def == p;
}

/* v, or what it is a view of, is computed before `place`, or is all that p makes of a result: of a
 * part of one, c would wait for itself. */
static bool is_there(const vtb_value *v, const vtb_inst *p, const vtb_inst *place) {
  const vtb_value *base = v;
  while (base->def && vtb_is_view(base->def->op)) base = base->def->operands[0];
  if (base->def == p) return feeds(p, v);
  return vtb_made_before(v, place);
}

/* Where p and c, which comes behind it, may stand as one: where c does or, if something between
 * them reads what p makes, before that; NULL: nowhere. */
static vtb_inst *place_of(const vtb_func *f, const vtb_inst *p, vtb_inst *c) {
  bool read = false;
  int first = c->order;
  for (int r = 0; r < p->n_results; r++) {
    int order = first_reader(f, p->results[r], c, &read);
    if (order < first) first = order;
  }
  vtb_inst *place = c;
  while (place->order > first) place = place->prev;
  for (int o = 0; o < c->n_operands; o++)
    if (!is_there(c->operands[o], p, place)) return NULL;
  return place;
}

/* Views of v that stand before `order` move right behind `place`. */
static void move_views(const vtb_value *v, vtb_inst *place, int order) {
  vtb_inst **readers;
  size_t n = vtb_value_readers(v, &readers);
  for (size_t r = n; r-- > 0;) {
    if (!vtb_is_view(readers[r]->op)) continue;
    move_views(readers[r]->results[0], place, order);
    if (readers[r]->order < order) vtb_inst_move_before(readers[r], place->next);
  }
  vtb_free(readers);
}

/* Sums over the rows of v, gradients that nothing reads so soon, go behind c. */
static void sink_sums(vtb_func *f, const vtb_value *v, vtb_inst *c) {
  vtb_inst **readers;
  size_t n = vtb_value_readers(v, &readers);
  for (size_t r = 0; r < n; r++) {
    vtb_inst *i = readers[r];
    bool read = false, sums = i->op == VTB_OP_fused && vtb_kernel_kind_of(i) == VTB_KERNEL_SUMS;
    if (i->op == VTB_OP_reshape) sink_sums(f, i->results[0], c);
    for (int k = 0; sums && k < i->n_results; k++)
      sums = first_reader(f, i->results[k], NULL, &read) > c->order;
    if (!sums || i->order > c->order) continue;
    vtb_inst_move_before(i, c->next);
    for (int k = 0; k < i->n_results; k++) move_views(i->results[k], i, c->order);
  }
  vtb_free(readers);
  vtb_func_number(f);
}

static bool has_shares(const vtb_inst *i) {
  bool has = false;
  for (const vtb_inst *k = is_local(i) ? i->callee->first : NULL; k; k = k->next)
    has |= vtb_is_share(k);
  return has;
}

/* p has the convolution that share c reads around, and what else adds up with c; something else
 * reads what p makes of the channels. */
static bool takes_share(const vtb_func *f, const vtb_inst *p, const vtb_inst *c) {
  const vtb_inst *head = head_of(p);
  bool read = false;
  if (!head || head->op != VTB_OP_dwconv || vtb_is_share(p)) return false;
  if (has_shares(p) != (c->n_operands == 3) || (c->n_operands == 3 && !feeds(p, c->operands[2])))
    return false;
  if (!feeds(p, c->operands[0]) &&
      vtb_behind_reshapes(c->operands[0]) != vtb_behind_reshapes(p->operands[0]))
    return false;
  first_reader(f, p->results[0], c, &read);
  return read && place_of(f, p, (vtb_inst *)c) != NULL;
}

/* p comes before c. */
static bool may_join(vtb_func *f, const vtb_inst *p, vtb_inst *c) {
  if (!is_core(p) && !is_core(c)) return false;
  if (vtb_is_share(p)) return false;
  if (vtb_is_share(c)) return takes_share(f, p, c);
  if (!same_elements(&p->results[0]->type, &c->results[0]->type)) return false;
  if (head_of(p) && head_of(c)) return false;
  if (head_of(c) && (feeds(p, c->operands[0]) || feeds(p, c->operands[1]))) return false;
  if (count(p, true) + count(c, true) > MOST_PRODUCTS) return false;
  if (count(p, false) + count(c, false) > MOST_OPS) return false;
  if (place_of(f, p, c)) return true;
  for (int r = 0; r < p->n_results; r++) sink_sums(f, p->results[r], c);
  return place_of(f, p, c) != NULL;
}

/* Something before c that c can join: first what feeds it, then what reads the same. */
static vtb_inst *partner_of(vtb_func *f, vtb_inst *c) {
  for (int o = 0; o < c->n_operands; o++) {
    vtb_inst *p = vtb_behind_reshapes(c->operands[o])->def;
    if (p && p->order < c->order && (is_core(p) || is_loop(p)) && may_join(f, p, c)) return p;
  }
  if (!is_core(c)) return NULL;
  for (int o = 0; o < c->n_operands; o++) {
    const vtb_value *v = vtb_behind_reshapes(c->operands[o]);
    if (vtb_type_count(&v->type) * 2 < vtb_type_count(&c->results[0]->type)) continue;
    vtb_inst **readers, *found = NULL;
    size_t n = vtb_value_readers(v, &readers);
    for (size_t r = 0; r < n && !found; r++) {
      vtb_inst *p = readers[r], **again = NULL;
      size_t m = vtb_is_view(p->op) ? vtb_value_readers(p->results[0], &again) : 1;
      for (size_t k = 0; k < m && !found; k++) {
        vtb_inst *q = again ? again[k] : p;
        if (q->order < c->order && is_core(q) && may_join(f, q, c)) found = q;
      }
      vtb_free(again);
    }
    vtb_free(readers);
    if (found) return found;
  }
  return NULL;
}

/* ---- joining --------------------------------------------------------------------------------- */

typedef struct joining {
  vtb_builder b;
  vtb_func *kernel;
  const vtb_value *outer[MOST_VALUES]; /* values of the function, and what they are inside */
  vtb_value *inner[MOST_VALUES], *inputs[MOST_VALUES];
  int n, n_inputs;
} joining;

static void know(joining *j, const vtb_value *outer, vtb_value *inner) {
  vtb_check(j->n < MOST_VALUES, "a local kernel of too many values");
  j->outer[j->n] = outer;
  j->inner[j->n++] = inner;
}

static vtb_value *known(const joining *j, const vtb_value *outer) {
  for (int i = 0; i < j->n; i++)
    if (j->outer[i] == outer) return j->inner[i];
  return NULL;
}

/* v inside: what was computed there, a reshape of it, or an argument. */
static vtb_value *inside(joining *j, vtb_value *v) {
  vtb_value *inner = known(j, v);
  if (inner) return inner;
  const vtb_value *base = vtb_behind_reshapes(v);
  inner = known(j, base);
  if (inner && inner->def) return vtb_b_reshape(&j->b, inner, &v->type);
  inner = vtb_func_add_arg(j->kernel, v->name, v->type);
  j->inputs[j->n_inputs++] = v;
  know(j, v, inner);
  return inner;
}

/* What a share multiplies, as a reshape of what the kernel has, be it the convolution's input. */
static vtb_value *factor_inside(joining *j, vtb_value *v) {
  const vtb_value *base = vtb_behind_reshapes(v);
  for (int i = 0; i < j->n; i++)
    if (vtb_behind_reshapes(j->outer[i]) == base)
      return vtb_b_reshape(&j->b, j->inner[i], &v->type);
  return inside(j, v);
}

/* The ops of i, but for its convolution if that stands already. */
static void copy(joining *j, const vtb_inst *i) {
  vtb_value *operands[MOST_VALUES];
  if (i->op != VTB_OP_fused) {
    if (known(j, i->results[0])) return;
    for (int o = 0; o < i->n_operands; o++)
      operands[o] =
          o == 0 && vtb_is_share(i) ? factor_inside(j, i->operands[o]) : inside(j, i->operands[o]);
    know(j, i->results[0], vtb_inst_clone(&j->b, i, operands)->results[0]);
    return;
  }
  const vtb_func *f = i->callee;
  vtb_value **of = vtb_xcalloc((size_t)f->n_values + 1, sizeof *of);
  for (int a = 0; a < f->n_args; a++) of[f->args[a]->id] = inside(j, i->operands[a]);
  for (const vtb_inst *k = f->first; k; k = k->next) {
    vtb_value *stands = known(j, k->results[0]);
    if (stands) {
      of[k->results[0]->id] = stands;
      continue;
    }
    for (int o = 0; o < k->n_operands; o++) operands[o] = of[k->operands[o]->id];
    const vtb_inst *twin = vtb_inst_clone(&j->b, k, operands);
    for (int r = 0; r < k->n_results; r++) of[k->results[r]->id] = twin->results[r];
  }
  for (int r = 0; r < i->n_results; r++) know(j, i->results[r], of[f->returns[r]->id]);
  vtb_free(of);
}

/* The convolution comes first, so that its operands are the kernel's first. */
static void copy_head(joining *j, const vtb_inst *i) {
  const vtb_inst *head = head_of(i);
  vtb_value *operands[2];
  if (!head) return;
  for (int o = 0; o < 2; o++) operands[o] = inside(j, i->operands[o]);
  know(j, head->results[0], vtb_inst_clone(&j->b, head, operands)->results[0]);
}

static void remove_dead_views(const vtb_func *f, const vtb_value *v) {
  vtb_inst **readers;
  size_t n = vtb_value_readers(v, &readers);
  for (size_t r = 0; r < n; r++) {
    bool read = false;
    if (!vtb_is_view(readers[r]->op)) continue;
    remove_dead_views(f, readers[r]->results[0]);
    first_reader(f, readers[r]->results[0], NULL, &read);
    if (!read) vtb_inst_unlink(readers[r]);
  }
  vtb_free(readers);
}

static vtb_inst *join(vtb_func *f, vtb_inst *p, vtb_inst *c) {
  const vtb_inst *first = head_of(c) || !is_core(p) ? c : p;
  joining j = {.kernel = vtb__kernel_new(first)};
  j.b = (vtb_builder){.module = f->module, .func = j.kernel, .span = first->span};
  vtb_value *outputs[MOST_VALUES], *returns[MOST_VALUES];
  int n = 0;
  copy_head(&j, p);
  copy_head(&j, c);
  copy(&j, p);
  copy(&j, c);
  for (int which = 0; which < 2; which++) {
    const vtb_inst *i = which ? c : p;
    for (int r = 0; r < i->n_results; r++) {
      bool read = which == 1;
      if (!which) first_reader(f, i->results[r], c, &read);
      if (!read) continue;
      outputs[n] = i->results[r];
      returns[n++] = known(&j, i->results[r]);
    }
  }
  vtb_func_set_returns(j.kernel, returns, NULL, n);
  vtb_inst *place = place_of(f, p, c);
  vtb_builder outer = {.module = f->module, .func = f, .before = place, .span = first->span};
  vtb_attr kind = VTB_A_STR("kind", vtb_kernel_kind_name(VTB_KERNEL_LOCAL));
  vtb_inst *fused = vtb_build_call(&outer, VTB_OP_fused, j.kernel, j.inputs, j.n_inputs, &kind, 1);
  int order = place->order;
  for (int r = 0; r < n; r++) vtb__stand_in(outputs[r], fused->results[r]);
  vtb_inst_unlink(c);
  for (int r = 0; r < p->n_results; r++) remove_dead_views(f, p->results[r]);
  for (int r = 0; r < n; r++) move_views(fused->results[r], fused, order);
  vtb_inst_unlink(p);
  return fused;
}

vtb_status vtb__pass_fuse_local(vtb_pass_context *c, vtb_error *err) {
  (void)err;
  for (vtb_func *f = c->module->first; f; f = f->next) {
    if (f->kind != VTB_FUNC_PLAIN) continue;
    vtb_func_number(f);
    for (vtb_inst *i = f->first; i; i = i->next) {
      vtb_inst *p; /* the joined one may stand before i: what is between has been seen */
      while ((is_core(i) || is_loop(i)) && (p = partner_of(f, i))) {
        i = join(f, p, i);
        vtb_func_number(f);
      }
    }
  }
  return VTB_OK;
}
