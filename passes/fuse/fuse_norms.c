/* fuse_norms: a norm in front of a product becomes part of the product's epilogue, and its
 * statistics part of the product that made what is normed.
 *
 *   %x = fused @add(%y, %u, %r) {kind = "product"} : f32[b, n, c]
 *   %h = fused @norm(%x, %gain, %shift) {kind = "row"}
 *   %z = einsum %h, %w {spec = "bnc,ec->bne"}
 *   =>
 *   %x, %x16, %mean, %var = fused @add(%y, %u, %r) {kind = "product"}  // bf16, f32[b, n, 1] each
 *   %w16, %s, %t = fused @weight(%w, %gain, %shift) {kind = "row"} // w gain, its sums; w shift
 *   %z = fused @product(%x16, %w16, %mean, %var, %s, %t) {kind = "product"}
 *                                                  // (x16 w16 - mean s) / sqrt(var / c + eps) + t
 *
 * Nobody writes or reads the normed rows, and nobody reads x for its statistics: a product keeps
 * its rows' mean and squares of what they are off it (of 32 columns at a time where its tiles have
 * no whole rows; a small launch adds those up without cancellation). What becomes of the weight
 * depends on parameters alone (hoist.c, prepare.c); a bias joins t. x may come from and go to
 * other functions: they get further arguments and results. Whoever makes x and is no product is
 * followed by a kernel that reads it once.
 *
 * x is rounded where its normed rows were: what is rounded is off by 2^-9 of itself, not of its
 * distance from the mean, so that rows whose mean is many times their deviation lose as many times
 * more. So it is done in bf16-all alone. The mean is taken out with the sums of the rounded weight,
 * whose error is none.
 *
 * Declines where the norms' launches take less by the model of gpu.h than what stands for them: of
 * few rows, one more launch decides. And norms that anything else reads, weights not made of
 * parameters alone, what the library takes, and norms no product makes the rows of. Behind
 * the products have grown, before storage.
 */
#include "ir/product.h"
#include "passes/fuse/fuse_norms.h"

#include <stdlib.h>
#include <string.h>

row_source *vtb__source_of(const fusing *s, const vtb_value *x) {
  for (size_t i = 0; i < s->sources.n; i++)
    if (s->sources.at[i].x == x) return &s->sources.at[i];
  return NULL;
}

/* ---- which norms ----------------------------------------------------------------------------- */

const vtb_inst *vtb__einsum_of(const vtb_inst *product) {
  if (product->op == VTB_OP_einsum) return product;
  return vtb_kernel_kind_of(product) == VTB_KERNEL_PRODUCT ? product->callee->first : NULL;
}

static bool has_plain_epilogue(const vtb_inst *product) {
  const vtb_inst *einsum = vtb__einsum_of(product);
  for (const vtb_inst *i = einsum->next; einsum != product && i; i = i->next)
    if (i->op != VTB_OP_constant && vtb_op_get(i->op)->klass != VTB_CLASS_ELEMENTWISE) return false;
  return true;
}

/* Whether it depends on parameters alone, through whatever calls. */
static bool is_prepared(const fusing *s, const vtb_value *v) {
  if (v->def) {
    const vtb_op_class klass = vtb_op_get(v->def->op)->klass;
    if (v->def->op != VTB_OP_fused && klass != VTB_CLASS_SHAPE && klass != VTB_CLASS_ELEMENTWISE)
      return false;
    for (int o = 0; o < v->def->n_operands; o++)
      if (!is_prepared(s, v->def->operands[o])) return false;
    return v->def->op != VTB_OP_random;
  }
  if (v->func == s->module->entry) {
    vtb_role role = v->func->arg_info[v->index].role;
    return role == VTB_ROLE_PARAM || role == VTB_ROLE_BUFFER;
  }
  for (size_t g = 0; g < s->n_funcs; g++)
    for (const vtb_inst *i = s->funcs[g]->first; i; i = i->next)
      if (i->callee == v->func && !is_prepared(s, i->operands[v->index])) return false;
  return true;
}

/* "..k,..k->....": the rows as they are, then the weight's. */
static bool is_linear(const vtb_inst *einsum) {
  vtb_product p = vtb_product_of(einsum);
  int rows = p.rank[0] - 1, columns = p.rank[1] - 1;
  const vtb_letter *k = vtb_product_only(&p, VTB_LETTER_SUM);
  bool linear =
      k && k->at[0] == rows && k->at[1] == columns && p.rank[VTB_IN_RESULT] == rows + columns;
  for (int l = 0; linear && l < p.n; l++) {
    const int *at = p.letters[l].at;
    if (&p.letters[l] != k) linear = at[VTB_IN_RESULT] == (at[0] >= 0 ? at[0] : rows + at[1]);
  }
  return linear;
}

static bool takes_norm(const fusing *s, const vtb_inst *product, const vtb_value *normed) {
  const vtb_inst *einsum = vtb__einsum_of(product);
  if (!einsum || product->operands[0] != normed || !is_linear(einsum) || !vtb_is_product(einsum) ||
      vtb_factors_of(einsum) != VTB_FACTORS_BF16 || vtb_attr_int(einsum, "library", 0) ||
      !has_plain_epilogue(product) || !is_prepared(s, product->operands[1]))
    return false;
  for (int o = 1; o < product->n_operands; o++)
    if (product->operands[o] == normed) return false;
  return true;
}

/* Whether nobody but products reads the rows. */
bool vtb__norm_rows_taken(const fusing *s, const vtb_value *normed) {
  const vtb_type *t = &normed->type;
  const int64_t width = t->dim[t->rank - 1].size;
  if (vtb_is_returned(normed) || width % VTB_ROW_PART || width == VTB_ROW_PART ||
      t->rank + 1 > VTB_MAX_RANK)
    return false;
  vtb_inst **readers;
  size_t n = vtb_value_readers(normed, &readers);
  bool can = n > 0;
  for (size_t k = 0; k < n; k++) can = can && takes_norm(s, readers[k], normed);
  vtb_free(readers);
  return can;
}

static bool is_wanted(const fusing *s, const vtb_inst *i) {
  vtb__norm norm;
  if (i->op != VTB_OP_fused || !vtb__norm_of(i, &norm)) return false;
  for (int o = 0; o < i->n_operands; o++)
    if (o != norm.x->index && !is_prepared(s, i->operands[o])) return false;
  return vtb__norm_rows_taken(s, i->results[0]);
}

static vtb_value *normed_by(const vtb_inst *i) {
  vtb__norm norm;
  vtb_check(vtb__norm_of(i, &norm), "a norm has become another kernel");
  return i->operands[norm.x->index];
}

/* ---- where rows come from -------------------------------------------------------------------- */

/* A product whose epilogue can keep statistics of the result. */
bool vtb__is_made_by_product(const vtb_value *x) {
  const vtb_inst *einsum = x->def ? vtb__einsum_of(x->def) : NULL;
  return einsum && vtb_is_product(einsum) && !vtb_attr_int(einsum, "library", 0) &&
         has_plain_epilogue(x->def) && vtb_type_equal(&einsum->results[0]->type, &x->type) &&
         x->type.dtype == VTB_F32;
}

void vtb__want(fusing *s, vtb_value *x) {
  if (vtb__source_of(s, x)) return;
  vtb_vec_push(&s->sources, ((row_source){.x = x}));
  if (x->def && x->def->op == VTB_OP_call) vtb__want(s, x->def->callee->returns[x->index]);
  if (x->def || x->func == s->module->entry) return;
  for (size_t g = 0; g < s->n_funcs; g++)
    for (vtb_inst *i = s->funcs[g]->first; i; i = i->next)
      if (i->callee == x->func) vtb__want(s, i->operands[x->index]);
}

/* How often a run goes through f. */
static double times_of(const fusing *s, const vtb_func *f) {
  double times = f == s->module->entry;
  for (size_t g = 0; g < s->n_funcs; g++) {
    int calls = 0;
    for (const vtb_inst *i = s->funcs[g]->first; i; i = i->next) calls += i->callee == f;
    if (calls) times += calls * times_of(s, s->funcs[g]);
  }
  return times;
}

/* Seconds of a launch that moves so many bytes an element of x. */
static double seconds_of(const vtb_gpu *gpu, const vtb_value *x, double bytes) {
  return gpu->launch + bytes * (double)vtb_type_count(&x->type) / gpu->bytes;
}

/* Whether the norms' launches take longer than what is in their place: a product that makes the
 * rows stores 2 bytes an element more, unless streams are halves, and parts; what else makes them
 * is read again. */
static bool pays(const fusing *s, const vtb_gpu *gpu) {
  double saved = 0;
  bool any = false;
  for (size_t i = 0; i < s->norms.n; i++)
    saved += times_of(s, s->norms.at[i]->func) * seconds_of(gpu, s->norms.at[i]->results[0], 6);
  for (size_t i = 0; i < s->sources.n; i++) {
    const vtb_value *x = s->sources.at[i].x;
    bool product = vtb__is_made_by_product(x), here = x->def && x->def->op != VTB_OP_call;
    any |= product;
    if (here || (!x->def && x->func == s->module->entry))
      saved -= times_of(s, x->func) * seconds_of(gpu, x,
                                                 product     ? (s->halves ? 0.5 : 2.5)
                                                 : s->halves ? 8
                                                             : 6);
  }
  return any && saved > 0;
}

void vtb__replace_kernel(fusing *s, vtb_inst *old, const vtb_inst *now, const int *map) {
  for (int r = 0; r < old->n_results; r++) {
    int to = map ? map[r] : r;
    if (to < 0) continue;
    for (size_t i = 0; i < s->sources.n; i++) {
      row_source *x = &s->sources.at[i];
      vtb_value **fields[] = {&x->x, &x->narrow, &x->mean, &x->squares, &x->rest};
      for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
        if (*fields[f] == old->results[r]) *fields[f] = now->results[to];
    }
    vtb__stand_in(old->results[r], now->results[to]);
  }
  vtb_inst_unlink(old);
}

/* ---- kernels --------------------------------------------------------------------------------- */

static vtb_type row_type(const vtb_type *x) {
  vtb_type t = *x;
  t.dtype = VTB_F32;
  t.dim[t.rank - 1].size = 1;
  t.dim[t.rank - 1].name = NULL;
  return t;
}

static vtb_value *scaled(vtb_builder *b, vtb_value *x, double by) {
  return vtb_b_binary(b, VTB_OP_mul, x, vtb_b_constant(b, by));
}

static vtb_value *row_sum(vtb_builder *b, vtb_value *x) {
  return vtb_b_reduce(b, VTB_OP_reduce_sum, x, (const int64_t[]){x->type.rank - 1}, 1, true);
}

static vtb_value *rounded(vtb_builder *b, vtb_value *x) {
  vtb_attr to = VTB_A_STR("to", vtb_dtype_name(VTB_BF16));
  return vtb_build(b, VTB_OP_cast, &x, 1, &to, 1)->results[0];
}

static vtb_value *rest_of(vtb_builder *b, vtb_value *x, vtb_value *narrow) {
  return rounded(b, vtb_b_binary(b, VTB_OP_sub, x, narrow));
}

vtb_inst *vtb__call_kernel(vtb_func *f, vtb_inst *before, vtb_func *kernel, vtb_kernel_kind kind,
                           vtb_value *const *inputs, int n) {
  vtb_builder b = {.module = f->module, .func = f, .before = before, .span = kernel->span};
  vtb_attr attr = VTB_A_STR("kind", vtb_kernel_kind_name(kind));
  return vtb_build_call(&b, VTB_OP_fused, kernel, inputs, n, &attr, 1);
}

vtb_value *vtb__kernel_argument(vtb_func *kernel, const vtb_value *v) {
  vtb_type t = v->type; /* kernels read it as f32, whatever memory holds */
  t.dtype = vtb_is_half(t.dtype) ? VTB_F32 : t.dtype;
  return vtb_func_add_arg(kernel, v->name, t);
}

/* The mean of rows, and the squares of what they are off it. */
static void add_statistics(vtb_builder *b, vtb_value *x, double part, vtb_value **to) {
  to[0] = scaled(b, row_sum(b, x), part);
  vtb_value *off = vtb_b_binary(b, VTB_OP_sub, x, to[0]);
  to[1] = row_sum(b, vtb_b_unary(b, VTB_OP_square, off));
}

/* The product once more, with the rounded rows and their statistics behind its results. */
static void extend_product(fusing *all, row_source *s) {
  vtb_inst *product = s->x->def;
  int n = product->n_results, which = s->x->index;
  vtb_func *f = product->func, *k = vtb__kernel_new(product);
  vtb_builder b = {.module = f->module, .func = k, .span = product->span};
  const vtb_inst *einsum = vtb__einsum_of(product);
  vtb_value **returns = vtb_xcalloc((size_t)n + 4, sizeof *returns);
  vtb_value **args = vtb_xcalloc((size_t)product->n_operands + 1, sizeof *args);
  for (int o = 0; o < product->n_operands; o++)
    args[o] = vtb__kernel_argument(k, product->operands[o]);
  if (einsum == product) {
    returns[0] = vtb_inst_clone(&b, product, args)->results[0];
  } else {
    const vtb_func *body = product->callee;
    vtb_value **inside = vtb_xcalloc((size_t)body->n_values + 1, sizeof *inside);
    for (int a = 0; a < body->n_args; a++) inside[body->args[a]->id] = args[a];
    vtb__copy_body(&b, body, inside);
    for (int r = 0; r < n; r++) returns[r] = inside[body->returns[r]->id];
    vtb_free(inside);
  }
  double width = (double)s->x->type.dim[s->x->type.rank - 1].size;
  returns[n] = rounded(&b, returns[which]);
  add_statistics(&b, returns[which], 1 / width, &returns[n + 1]);
  if (all->halves) returns[n + 3] = rest_of(&b, returns[which], returns[n]);
  vtb_func_set_returns(k, returns, NULL, n + 3 + all->halves);
  vtb_inst *now =
      vtb__call_kernel(f, product, k, VTB_KERNEL_PRODUCT, product->operands, product->n_operands);
  vtb__replace_kernel(all, product, now, NULL);
  s->narrow = now->results[n];
  s->mean = now->results[n + 1];
  s->squares = now->results[n + 2];
  s->rest = all->halves ? now->results[n + 3] : NULL;
  vtb_free(returns);
  vtb_free(args);
}

/* A kernel behind whatever made x. */
static void read_again(const fusing *all, row_source *s, vtb_inst *before) {
  vtb_func *f = s->x->func, *k = vtb_func_new(f->module, "row_sums", VTB_FUNC_KERNEL,
                                              s->x->def ? s->x->def->span : f->span);
  vtb_builder b = {.module = f->module, .func = k, .span = k->span};
  vtb_value *x = vtb_func_add_arg(k, "x", s->x->type);
  vtb_value *of[2], *narrow;
  add_statistics(&b, x, 1 / (double)x->type.dim[x->type.rank - 1].size, of);
  narrow = rounded(&b, x);
  vtb_value *rest = all->halves ? rest_of(&b, x, narrow) : NULL;
  vtb_func_set_returns(k, (vtb_value *const[]){narrow, of[0], of[1], rest}, NULL, 3 + all->halves);
  vtb_inst *call = vtb__call_kernel(f, before, k, VTB_KERNEL_ROW, &s->x, 1);
  s->narrow = call->results[0];
  s->mean = call->results[1];
  s->squares = call->results[2];
  s->rest = all->halves ? call->results[3] : NULL;
}

/* ---- from function to function --------------------------------------------------------------- */

static void add_arguments(fusing *s, vtb_func *f) {
  int n = f->n_args;
  for (int a = 0; a < n; a++) {
    row_source *x = vtb__source_of(s, f->args[a]);
    if (!x) continue;
    vtb_type narrow = x->x->type, row = row_type(&narrow);
    narrow.dtype = VTB_BF16;
    x->narrow = vtb_func_add_arg(f, "narrow", narrow);
    x->mean = vtb_func_add_arg(f, "mean", row);
    x->squares = vtb_func_add_arg(f, "squares", row);
    if (s->halves) x->rest = vtb_func_add_arg(f, "rest", narrow);
  }
}

/* What functions give and take beside their values that are normed; results' sources follow. */
static void add_results(fusing *s, vtb_func *f) {
  int n = f->n_returns, wanted = 0;
  vtb_value **returns = vtb_xcalloc((size_t)n * 5 + 1, sizeof *returns);
  const char **names = vtb_xcalloc((size_t)n * 5 + 1, sizeof *names);
  for (int r = 0; r < n; r++) {
    returns[r] = f->returns[r];
    names[r] = f->return_names[r];
  }
  for (int r = 0; r < n; r++) {
    const row_source *x = vtb__source_of(s, f->returns[r]);
    if (!x) continue;
    vtb_value *const more[] = {x->narrow, x->mean, x->squares, x->rest};
    for (int m = 0; m < 3 + s->halves; m++) returns[n + wanted++] = more[m];
  }
  if (wanted) vtb_func_set_returns(f, returns, names, n + wanted);
  vtb_free(returns);
  vtb_free(names);
}

static vtb_inst *extend_call(fusing *s, vtb_inst *call) {
  const vtb_func *f = call->callee;
  int n = call->n_operands, before = call->n_results, next = before;
  vtb_value **operands = vtb_xcalloc((size_t)f->n_args + 1, sizeof *operands);
  for (int o = 0; o < call->n_operands; o++) {
    operands[o] = call->operands[o];
    const row_source *x =
        vtb__source_of(s, f->args[o]) ? vtb__source_of(s, call->operands[o]) : NULL;
    if (!x) continue;
    operands[n++] = x->narrow;
    operands[n++] = x->mean;
    operands[n++] = x->squares;
    if (s->halves) operands[n++] = x->rest;
  }
  vtb_check(n == f->n_args, "@%s takes %d arguments, not %d", f->name, f->n_args, n);
  row_source **of = vtb_xcalloc((size_t)before + 1, sizeof *of);
  for (int r = 0; r < before; r++) of[r] = vtb__source_of(s, call->results[r]);
  vtb_inst *now = vtb__replace_call(call, (vtb_func *)f, operands, n, NULL);
  for (int r = 0; r < before; r++) {
    const bool given = vtb__source_of(s, f->returns[r]) != NULL;
    if (of[r])
      *of[r] = (row_source){now->results[r], now->results[next], now->results[next + 1],
                            now->results[next + 2], s->halves ? now->results[next + 3] : NULL};
    next += given ? 3 + s->halves : 0;
  }
  vtb_free(of);
  vtb_free(operands);
  return now;
}

static void make_sources(fusing *s, vtb_func *f) {
  if (f != s->module->entry)
    add_arguments(s, f);
  else
    for (int a = 0; a < f->n_args; a++)
      if (vtb__source_of(s, f->args[a])) read_again(s, vtb__source_of(s, f->args[a]), f->first);
  for (vtb_inst *i = f->first, *next; i; i = next) {
    next = i->next;
    if (i->op == VTB_OP_call) {
      extend_call(s, i);
      continue;
    }
    for (int r = 0; r < i->n_results; r++) {
      row_source *x = vtb__source_of(s, i->results[r]);
      if (!x || x->narrow) continue;
      if (vtb__is_made_by_product(x->x)) { /* it keeps one result's */
        extend_product(s, x);
        i = x->x->def;
      } else {
        read_again(s, x, next);
      }
    }
  }
  if (f != s->module->entry) add_results(s, f);
}

/* ---- norms ----------------------------------------------------------------------------------- */

/* Of a weight and what its rows are multiplied by: rounded, its sums, and those of its products
 * with what is added to the rows; NULL: none. */
typedef struct weight {
  vtb_value *narrow, *sums, *shifts;
} weight;

/* What `wanted` (by value id) of a body needs and `inside` does not have, in another kernel. */
void vtb__copy_needed(vtb_builder *b, const vtb_func *body, bool *wanted, vtb_value **inside) {
  for (const vtb_inst *i = body->last; i; i = i->prev)
    for (int o = 0; o < i->n_operands; o++)
      wanted[i->operands[o]->id] |= wanted[i->results[0]->id] && !inside[i->results[0]->id];
  for (const vtb_inst *i = body->first; i; i = i->next) {
    if (!wanted[i->results[0]->id] || inside[i->results[0]->id]) continue;
    vtb_value **operands = vtb_xcalloc((size_t)i->n_operands + 1, sizeof *operands);
    for (int o = 0; o < i->n_operands; o++) operands[o] = inside[i->operands[o]->id];
    inside[i->results[0]->id] = vtb_inst_clone(b, i, operands)->results[0];
    vtb_free(operands);
  }
}

/* The row's terms that are the same for all rows, in another kernel. */
static void copy_fixed(vtb_builder *b, const vtb_inst *norm, const vtb__norm *form,
                       vtb_value **inside) {
  bool *wanted = vtb_xcalloc((size_t)norm->callee->n_values + 1, sizeof *wanted);
  if (form->gain) wanted[form->gain->id] = true;
  if (form->shift) wanted[form->shift->id] = true;
  vtb__copy_needed(b, norm->callee, wanted, inside);
  vtb_free(wanted);
}

static vtb_value *without_last(vtb_inst *before, vtb_value *v) {
  vtb_builder b = {
      .module = before->func->module, .func = before->func, .before = before, .span = before->span};
  vtb_type t = v->type;
  t.rank--;
  return vtb_b_reshape(&b, v, &t);
}

static weight make_weight(const vtb_inst *norm, const vtb__norm *form, vtb_inst *product) {
  vtb_func *k = vtb_func_new(norm->func->module, "weight", VTB_FUNC_KERNEL, product->span);
  vtb_builder b = {.module = k->module, .func = k, .span = k->span};
  vtb_value **inside = vtb_xcalloc((size_t)norm->callee->n_values + 1, sizeof *inside);
  vtb_value **inputs = vtb_xcalloc((size_t)norm->n_operands + 1, sizeof *inputs), *returns[3];
  vtb_value *w = vtb__kernel_argument(k, product->operands[1]);
  int n = 0, n_returns = 1, shifts = -1, sums = -1;
  inputs[n++] = product->operands[1];
  for (int o = 0; o < norm->n_operands; o++) {
    if (o == form->x->index) continue;
    inside[norm->callee->args[o]->id] = vtb__kernel_argument(k, norm->operands[o]);
    inputs[n++] = norm->operands[o];
  }
  copy_fixed(&b, norm, form, inside);
  vtb_value *gain = form->gain ? inside[form->gain->id] : NULL;
  vtb_value *shift = form->shift ? inside[form->shift->id] : NULL;
  returns[0] = rounded(&b, gain ? vtb_b_binary(&b, VTB_OP_mul, w, gain) : w);
  if (form->centred) {
    sums = n_returns;
    returns[n_returns++] = row_sum(&b, returns[0]);
  }
  if (shift) {
    shifts = n_returns;
    returns[n_returns++] = row_sum(&b, vtb_b_binary(&b, VTB_OP_mul, w, shift));
  }
  vtb_func_set_returns(k, returns, NULL, n_returns);
  vtb_inst *call = vtb__call_kernel(norm->func, product, k, VTB_KERNEL_ROW, inputs, n);
  vtb_free(inside);
  vtb_free(inputs);
  return (weight){call->results[0], sums < 0 ? NULL : without_last(product, call->results[sums]),
                  shifts < 0 ? NULL : without_last(product, call->results[shifts])};
}

/* A number a row, as it meets results. */
static vtb_value *beside(vtb_inst *before, vtb_value *row, const vtb_type *result) {
  vtb_builder b = {
      .module = before->func->module, .func = before->func, .before = before, .span = before->span};
  vtb_type t = *result;
  int lead = row->type.rank - 1;
  if (t.rank == row->type.rank) lead = t.rank;
  for (int a = row->type.rank - 1; a < t.rank; a++) t.dim[a] = (vtb_dim){.size = 1};
  return lead == t.rank ? row : vtb_b_reshape(&b, row, &t);
}

/* sum -> (sum - mean s) / sqrt(squares / C + eps) + t */
static vtb_value *normed_sum(vtb_builder *b, const vtb__norm *form, vtb_value *sum, double width,
                             vtb_value *mean, vtb_value *squares, vtb_value *sums,
                             vtb_value *shifts) {
  vtb_value *var = scaled(b, squares, 1 / width);
  if (form->centred)
    sum = vtb_b_binary(b, VTB_OP_sub, sum, vtb_b_binary(b, VTB_OP_mul, mean, sums));
  else
    var = vtb_b_binary(b, VTB_OP_add, var, vtb_b_unary(b, VTB_OP_square, mean));
  var = vtb_b_binary(b, VTB_OP_add, var, vtb_b_constant(b, form->eps));
  sum = vtb_b_binary(b, VTB_OP_mul, sum, vtb_b_unary(b, VTB_OP_rsqrt, var));
  return shifts ? vtb_b_binary(b, VTB_OP_add, sum, shifts) : sum;
}

/* Whether a product's addend joins what is added for the norm: a bias that its epilogue does not
 * read. */
static bool has_bias(const fusing *s, const vtb_inst *product, const vtb_value *shifts) {
  const vtb_inst *einsum = vtb__einsum_of(product);
  if (!shifts || einsum->n_operands < 3 || !is_prepared(s, product->operands[2]) ||
      !vtb_type_equal(&product->operands[2]->type, &shifts->type))
    return false;
  return einsum == product || vtb_reader_count(product->callee->args[2]) == 1;
}

static vtb_value *sum_of(vtb_inst *before, vtb_value *x, vtb_value *y) {
  vtb_func *k = vtb_func_new(before->func->module, "shift", VTB_FUNC_KERNEL, before->span);
  vtb_builder b = {.module = k->module, .func = k, .span = k->span};
  vtb_value *inputs[] = {x, y}, *args[2];
  for (int i = 0; i < 2; i++) args[i] = vtb__kernel_argument(k, inputs[i]);
  vtb_value *sum = vtb_b_binary(&b, VTB_OP_add, args[0], args[1]);
  vtb_func_set_returns(k, &sum, NULL, 1);
  return vtb__call_kernel(before->func, before, k, VTB_KERNEL_LOOP, inputs, 2)->results[0];
}

/* The product of rows as they are, normed behind it. */
static void join(fusing *s, const row_source *x, const vtb_inst *norm, const vtb__norm *form,
                 vtb_inst *product) {
  const vtb_inst *einsum = vtb__einsum_of(product);
  vtb_func *f = product->func, *k = vtb__kernel_new(product);
  vtb_builder b = {.module = f->module, .func = k, .span = product->span};
  weight w = make_weight(norm, form, product);
  vtb_value **inputs = vtb_xcalloc((size_t)product->n_operands + 5, sizeof *inputs);
  vtb_value **args = vtb_xcalloc((size_t)product->n_operands + 5, sizeof *args);
  const vtb_type *result = &einsum->results[0]->type;
  int n = product->n_operands, last = n;
  double width = (double)x->x->type.dim[x->x->type.rank - 1].size;
  for (int o = 0; o < n; o++) inputs[o] = product->operands[o];
  inputs[0] = x->narrow;
  inputs[1] = w.narrow;
  if (has_bias(s, product, w.shifts)) {
    inputs[2] = sum_of(product, w.shifts, inputs[2]);
    w.shifts = NULL;
  }
  inputs[last++] = beside(product, x->squares, result);
  inputs[last++] = beside(product, x->mean, result);
  if (w.sums) inputs[last++] = w.sums;
  if (w.shifts) inputs[last++] = w.shifts;
  for (int o = 0; o < last; o++) args[o] = vtb__kernel_argument(k, inputs[o]);
  vtb_inst *bare = vtb_build(&b, VTB_OP_einsum, args, 2, einsum->attrs, einsum->n_attrs);
  vtb_value *sum = normed_sum(&b, form, bare->results[0], width, args[n + 1], args[n],
                              w.sums ? args[n + 2] : NULL, w.shifts ? args[last - 1] : NULL);
  vtb_value *returns[VTB_MAX_RANK * 2] = {sum};
  const vtb_func *body = einsum == product ? NULL : product->callee;
  vtb_value **inside = vtb_xcalloc(body ? (size_t)body->n_values + 1 : 1, sizeof *inside);
  if (einsum->n_operands == 3) sum = vtb_b_binary(&b, VTB_OP_add, sum, args[2]);
  returns[0] = sum;
  vtb_check(product->n_results <= VTB_MAX_RANK * 2, "a product has %d results", product->n_results);
  if (body) {
    for (int a = 0; a < body->n_args; a++) inside[body->args[a]->id] = args[a];
    inside[einsum->results[0]->id] = sum;
    vtb__copy_body_from(&b, einsum->next, inside);
    for (int r = 0; r < body->n_returns; r++) returns[r] = inside[body->returns[r]->id];
  }
  vtb_func_set_returns(k, returns, NULL, product->n_results);
  vtb_inst *now = vtb__call_kernel(f, product, k, VTB_KERNEL_PRODUCT, inputs, last);
  vtb__replace_kernel(s, product, now, NULL);
  vtb_free(inputs);
  vtb_free(args);
  vtb_free(inside);
}

static void take_norm(fusing *s, vtb_inst *norm) {
  vtb__norm form;
  vtb_check(vtb__norm_of(norm, &form), "a norm has become another kernel");
  const row_source *x = vtb__source_of(s, norm->operands[form.x->index]);
  vtb_check(x && x->narrow, "nobody gives the rows of a norm");
  vtb_inst **readers;
  size_t n = vtb_value_readers(norm->results[0], &readers);
  for (size_t k = 0; k < n; k++) join(s, x, norm, &form, readers[k]);
  vtb_free(readers);
  vtb_inst_unlink(norm);
}

static vtb_status fuse_all(fusing *s, vtb_pass_context *c, vtb_error *err) {
  vtb__join_stream_arguments(s);
  for (size_t g = 0; g < s->n_funcs; g++)
    for (vtb_inst *i = s->funcs[g]->first; i; i = i->next)
      if (is_wanted(s, i)) {
        vtb_vec_push(&s->norms, i);
        vtb__want(s, normed_by(i));
      }
  s->halves = vtb__can_halve(s);
  if (!pays(s, vtb_gpu_or_default(&c->gpu))) return VTB_OK;
  for (size_t g = 0; g < s->n_funcs; g++) make_sources(s, s->funcs[g]);
  for (size_t i = 0; i < s->norms.n; i++) take_norm(s, s->norms.at[i]);
  if (s->halves) vtb__halve(s);
  vtb_status status = vtb__pass_dce(c, err);
  if (status == VTB_OK && s->halves) vtb__drop_results(s);
  return status;
}

/* With the option "split" it comes before products grow, and only takes rows' sums from their
 * norms. */
vtb_status vtb__pass_fuse_norms(vtb_pass_context *c, vtb_error *err) {
  vtb_status status = VTB_OK;
  fusing s = {.module = c->module};
  vtb_func **all;
  bool splits = vtb_streq(c->options, "split");
  if (c->precision != VTB_PRECISION_BF16_ALL || (splits && c->library)) return VTB_OK;
  size_t n = vtb_module_post_order(c->module->entry, &all);
  s.funcs = vtb_xcalloc(n + 1, sizeof *s.funcs);
  for (size_t i = 0; i < n; i++)
    if (all[i]->kind == VTB_FUNC_PLAIN) s.funcs[s.n_funcs++] = all[i];
  if (splits)
    vtb__split_norms(&s);
  else
    status = fuse_all(&s, c, err);
  vtb_vec_free(&s.sources);
  vtb_vec_free(&s.norms);
  vtb_free(s.funcs);
  vtb_free(all);
  return status;
}
