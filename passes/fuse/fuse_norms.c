/* fuse_norms: what is normed in front of products is normed behind them, and the statistics are
 * taken where the rows are made.
 *
 *   %x = fused @add(%p, %r) {kind = "loop"} : f32[b, n, c]
 *   %h = fused @norm(%x, %gain, %shift) {kind = "row"}
 *   %z = einsum %h, %w {spec = "bnc,ec->bne"}
 *   =>
 *   %x = fused @add(%p, %r) {kind = "loop"}
 *   %x16, %mean, %var = fused @row_sums(%x) {kind = "row"}         // bf16, f32[b, n, 1] each
 *   %w16, %s, %t = fused @weight(%w, %gain, %shift) {kind = "row"} // w gain, its sums; w shift
 *   %p.1 = einsum %x16, %w16 {spec = "bnc,ec->bne"}
 *   %z = fused @normed(%p.1, %mean, %var, %s, %t) {kind = "loop"}
 *                                                  // (p.1 - mean s) / sqrt(var / c + eps) + t
 *
 * Products take both kernels (`grow`): nobody writes or reads the normed rows, and nobody reads x
 * for its statistics, the mean and the squares of what is off it (of 32 columns at a time where
 * tiles have no whole rows; a small launch adds those up without cancellation). What becomes of the
 * weight depends on parameters alone (hoist.c, prepare.c); a bias joins t. x may come from and go
 * to other functions: they get further arguments and results. A kernel that makes x and its norm
 * makes x from now on.
 *
 * No row of ir/kernels.def: it changes what is computed, and what functions are called with.
 *
 * x is rounded where its normed rows were: what is rounded is off by 2^-9 of itself, not of its
 * distance from the mean, so that rows whose mean is many times their deviation lose as many times
 * more. So it is done in bf16-all alone. The mean is taken out with the sums of the rounded weight,
 * whose error is none.
 *
 * Declines where the norms' launches take less by the model of gpu.h than what stands for them: of
 * few rows, one more launch decides. And norms that anything else reads, weights not made of
 * parameters alone, what the library takes, and norms no product makes the rows of. Before
 * products grow.
 */
#include "passes/fuse/fuse_norms.h"

#include "ir/product.h"
#include "passes/fuse/product.h"
#include "passes/fuse/words.h"

vtb__source *vtb__source_of(const fusing *s, const vtb_value *x) {
  for (size_t i = 0; i < s->sources.n; i++)
    if (s->sources.at[i].x == x) return &s->sources.at[i];
  return NULL;
}

/* ---- which norms ----------------------------------------------------------------------------- */

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

/* A product that is not the library's, which takes the large ones that nothing is made of. */
static bool is_ours(const fusing *s, const vtb_inst *i) {
  if (i->op != VTB_OP_einsum || !vtb_is_product(i) || vtb_attr_int(i, "library", 0)) return false;
  if (!s->library || !vtb__is_large(i)) return true;
  vtb_inst *reader = vtb_only_reader(i->results[0]);
  vtb__group g = vtb__group_round(i->func, (vtb_inst *)i);
  return reader && vtb__word_elementwise(&g, reader, i->results[0], i);
}

static bool takes_norm(const fusing *s, const vtb_inst *product, const vtb_value *normed) {
  if (!is_ours(s, product) || product->operands[0] != normed || !is_linear(product) ||
      vtb_factors_of(product) != VTB_FACTORS_BF16 || !is_prepared(s, product->operands[1]))
    return false;
  for (int o = 1; o < product->n_operands; o++)
    if (product->operands[o] == normed) return false;
  return true;
}

/* Whether nobody but products reads the rows. */
static bool are_taken(const fusing *s, const vtb_value *normed) {
  vtb_inst **readers;
  size_t n = vtb_value_readers(normed, &readers);
  bool can = n > 0 && !vtb_is_returned(normed) && normed->type.rank < VTB_MAX_RANK;
  for (size_t k = 0; k < n; k++) can = can && takes_norm(s, readers[k], normed);
  vtb_free(readers);
  return can;
}

/* Whether a product makes x, or will have taken what makes it: its kernel keeps statistics. */
static bool is_made_by_product(const fusing *s, const vtb_value *x) {
  const vtb_inst *i = x->def;
  bool made = i && is_ours(s, i) && vtb__keeps_parts(i);
  for (int o = 0; i && i->op == VTB_OP_fused && o < i->n_operands; o++) {
    const vtb_value *v = i->operands[o];
    made |= v->def && is_ours(s, v->def) && vtb__keeps_parts(v->def) &&
            vtb_type_equal(&v->type, &x->type);
  }
  return made && x->type.dtype == VTB_F32 &&
         (vtb__is_elementwise(i) || i->op == VTB_OP_einsum ||
          vtb_kernel_kind_of(i) == VTB_KERNEL_ROW);
}

static bool is_wanted(const fusing *s, vtb_inst *i, vtb__norm *n) {
  return vtb__norm_of(i, n) && are_taken(s, i->results[n->which]) &&
         (!n->gain || is_prepared(s, n->gain)) && (!n->shift || is_prepared(s, n->shift));
}

/* ---- what pays ------------------------------------------------------------------------------- */

void vtb__want(fusing *s, vtb_value *x) {
  if (vtb__source_of(s, x)) return;
  vtb_vec_push(&s->sources, ((vtb__source){.x = x}));
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
  static const double bytes[2][2] = {{6, 2.5}, {8, 0.5}};
  const bool halves = s->n_kept > REST;
  double saved = 0;
  bool any = false;
  for (size_t i = 0; i < s->norms.n; i++) {
    const vtb_inst *row = s->norms.at[i].row;
    saved += times_of(s, row->func) * seconds_of(gpu, row->results[0], 6);
  }
  for (size_t i = 0; i < s->sources.n; i++) {
    const vtb_value *x = s->sources.at[i].x;
    bool product = is_made_by_product(s, x), here = x->def && x->def->op != VTB_OP_call;
    any |= product;
    if (here || (!x->def && x->func == s->module->entry))
      saved -= times_of(s, x->func) * seconds_of(gpu, x, bytes[halves][product]);
  }
  return any && saved > 0;
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

vtb__new_kernel vtb__kernel_begin(const vtb_inst *at, const char *name) {
  vtb_module *m = at->func->module;
  vtb_func *k = name ? vtb_func_new(m, name, VTB_FUNC_KERNEL, at->span) : vtb__kernel_new(at);
  return (vtb__new_kernel){.b = {.module = m, .func = k, .span = at->span}, .func = at->func};
}

vtb_value *vtb__kernel_reads(vtb__new_kernel *k, vtb_value *v) {
  vtb_type t = v->type;
  t.dtype = vtb_is_half(t.dtype) ? VTB_F32 : t.dtype;
  vtb_vec_push(&k->inputs, v);
  return vtb_func_add_arg(k->b.func, v->name, t);
}

vtb_inst *vtb__kernel_end(vtb__new_kernel *k, vtb_inst *before, vtb_kernel_kind kind,
                          vtb_value *const *returns, int n) {
  vtb_builder b = {.module = k->b.module, .func = k->func, .before = before, .span = k->b.span};
  vtb_attr attr = VTB_A_STR("kind", vtb_kernel_kind_name(kind));
  vtb_func_set_returns(k->b.func, returns, NULL, n);
  vtb_inst *call =
      vtb_build_call(&b, VTB_OP_fused, k->b.func, k->inputs.at, (int)k->inputs.n, &attr, 1);
  vtb_vec_free(&k->inputs);
  return call;
}

/* The values of a kernel once more; malloc'd, by id. */
static vtb_value **read_body(vtb__new_kernel *k, const vtb_inst *kernel) {
  const vtb_func *body = kernel->callee;
  vtb_value **inside = vtb_xcalloc((size_t)body->n_values + 1, sizeof *inside);
  for (int o = 0; o < kernel->n_operands; o++)
    inside[body->args[o]->id] = vtb__kernel_reads(k, kernel->operands[o]);
  vtb__copy_body(&k->b, body, inside);
  return inside;
}

void vtb__made_anew(vtb_inst *kernel, vtb_inst *with) {
  vtb_func_number(kernel->func);
  vtb__group g = vtb__group_round(kernel->func, kernel);
  if (with) vtb__group_add(&g, with);
  kernel = vtb__shrink_kernel(vtb__group_join(&g, vtb_kernel_kind_of(kernel)));
  bool row = false;
  for (const vtb_inst *i = kernel->callee->first; i; i = i->next)
    row |= vtb_op_get(i->op)->klass == VTB_CLASS_REDUCE;
  if (!row) vtb_attr_set(kernel, VTB_A_STR("kind", vtb_kernel_kind_name(VTB_KERNEL_LOOP)));
}

/* ---- sums and their norms -------------------------------------------------------------------- */

/* Whether all results but the normed rows are made element by element. */
static bool is_plain_beside(const vtb__norm *n) {
  const vtb_func *body = n->row->callee;
  bool *needed = vtb_xcalloc((size_t)body->n_values + 1, sizeof *needed), plain = true;
  for (int r = 0; r < body->n_returns; r++) {
    needed[body->returns[r]->id] |= r != n->which;
    plain &= vtb_type_equal(&body->returns[r]->type, &n->x->type);
  }
  for (const vtb_inst *i = body->last; i; i = i->prev) {
    if (!needed[i->results[0]->id]) continue;
    plain &= i->op == VTB_OP_constant || vtb_op_get(i->op)->klass == VTB_CLASS_ELEMENTWISE;
    for (int o = 0; o < i->n_operands; o++) needed[i->operands[o]->id] = true;
  }
  vtb_free(needed);
  return plain;
}

/* A kernel that makes x and norms it becomes one that makes x and one that norms it, if a product
 * takes the first. */
static void split(const fusing *s, vtb_inst *row) {
  vtb__norm n;
  if (!is_wanted(s, row, &n) || !n.x->def || !is_plain_beside(&n) ||
      !is_made_by_product(s, vtb__norm_rows(&n)))
    return;
  vtb__new_kernel k = vtb__kernel_begin(row, NULL);
  vtb_value **inside = read_body(&k, row), *x = vtb__kernel_reads(&k, vtb__norm_rows(&n)), *y;
  vtb_replace_all(inside[n.x->id], x);
  y = inside[row->callee->returns[n.which]->id];
  const vtb_inst *norm = vtb__shrink_kernel(vtb__kernel_end(&k, row->next, VTB_KERNEL_ROW, &y, 1));
  vtb__stand_in(row->results[n.which], norm->results[0]);
  vtb__made_anew(row, NULL);
  vtb_free(inside);
}

/* ---- rows, from function to function --------------------------------------------------------- */

/* A kernel behind whatever made x, which a product that made it takes. */
static void keep(const fusing *s, vtb__source *x, vtb_inst *before) {
  vtb_func *f = x->x->func;
  vtb__new_kernel k = vtb__kernel_begin(x->x->def ? x->x->def : f->first, "row_sums");
  vtb_value *v = vtb__kernel_reads(&k, x->x), *kept[VTB__MOST_KEPT];
  kept[NARROW] = rounded(&k.b, v);
  kept[MEAN] = scaled(&k.b, row_sum(&k.b, v), 1 / (double)v->type.dim[v->type.rank - 1].size);
  vtb_value *off = vtb_b_binary(&k.b, VTB_OP_sub, v, kept[MEAN]);
  kept[SQUARES] = row_sum(&k.b, vtb_b_unary(&k.b, VTB_OP_square, off));
  if (s->n_kept > REST) kept[REST] = rounded(&k.b, vtb_b_binary(&k.b, VTB_OP_sub, v, kept[NARROW]));
  const vtb_inst *call = vtb__kernel_end(&k, before, VTB_KERNEL_ROW, kept, s->n_kept);
  for (int r = 0; r < s->n_kept; r++) x->kept[r] = call->results[r];
}

static void add_arguments(fusing *s, vtb_func *f) {
  static const char *const names[] = {"narrow", "mean", "squares", "rest"};
  for (int a = 0, n = f->n_args; a < n; a++) {
    vtb__source *x = vtb__source_of(s, f->args[a]);
    for (int k = 0; x && k < s->n_kept; k++) {
      vtb_type t = row_type(&x->x->type), narrow = x->x->type;
      narrow.dtype = VTB_BF16;
      x->kept[k] = vtb_func_add_arg(f, names[k], k == MEAN || k == SQUARES ? t : narrow);
    }
  }
}

/* Values, and behind them what is kept of those at whose places `of` has some with a source; how
 * many. */
static int with_kept(const fusing *s, vtb_value *const *values, vtb_value *const *of, int n,
                     vtb_value **out) {
  int end = n;
  for (int i = 0; i < n; i++) {
    out[i] = values[i];
    if (!vtb__source_of(s, of[i])) continue;
    const vtb__source *x = vtb__source_of(s, values[i]);
    for (int k = 0; k < s->n_kept; k++) out[end++] = x->kept[k];
  }
  return end;
}

static void add_results(const fusing *s, vtb_func *f) {
  const size_t room = (size_t)f->n_returns * (1 + VTB__MOST_KEPT) + 1;
  vtb_value **returns = vtb_xcalloc(room, sizeof *returns);
  const char **names = vtb_xcalloc(room, sizeof *names);
  int n = with_kept(s, f->returns, f->returns, f->n_returns, returns);
  for (int r = 0; r < f->n_returns; r++) names[r] = f->return_names[r];
  if (n > f->n_returns) vtb_func_set_returns(f, returns, names, n);
  vtb_free(returns);
  vtb_free(names);
}

static void extend_call(const fusing *s, vtb_inst *call) {
  vtb_func *f = call->callee;
  vtb_value **operands = vtb_xcalloc((size_t)f->n_args + 1, sizeof *operands);
  int n = with_kept(s, call->operands, f->args, call->n_operands, operands), next = call->n_results;
  vtb_check(n == f->n_args, "@%s takes %d arguments, not %d", f->name, f->n_args, n);
  const vtb_inst *now = vtb__replace_call(call, f, operands, n, NULL);
  for (int r = 0; r < call->n_results; r++) {
    vtb__source *x = vtb__source_of(s, call->results[r]);
    if (x) x->x = now->results[r];
    for (int k = 0; vtb__source_of(s, f->returns[r]) && k < s->n_kept; k++, next++)
      if (x) x->kept[k] = now->results[next];
  }
  vtb_free(operands);
}

static void make_sources(fusing *s, vtb_func *f) {
  if (f != s->module->entry) add_arguments(s, f);
  for (int a = 0; a < f->n_args && f == s->module->entry; a++)
    if (vtb__source_of(s, f->args[a])) keep(s, vtb__source_of(s, f->args[a]), f->first);
  for (vtb_inst *i = f->first, *next; i; i = next) {
    next = i->next;
    for (int r = 0; r < i->n_results && i->op != VTB_OP_call; r++) {
      vtb__source *x = vtb__source_of(s, i->results[r]);
      if (x) keep(s, x, next);
    }
    if (i->op == VTB_OP_call) extend_call(s, i);
  }
  if (f != s->module->entry) add_results(s, f);
}

/* ---- norms ----------------------------------------------------------------------------------- */

/* Of a weight and what its rows are multiplied by: rounded, its sums, and those of its products
 * with what is added to the rows, with the bias; NULL: none. */
typedef struct weight {
  vtb_value *narrow, *sums, *shifts;
} weight;

/* v as of another rank: without its last axis, or with axes of size 1 behind. */
static vtb_value *ranked(vtb_inst *before, vtb_value *v, int rank) {
  vtb_builder b = {
      .module = before->func->module, .func = before->func, .before = before, .span = before->span};
  vtb_type t = v->type;
  while (t.rank < rank) t.dim[t.rank++] = (vtb_dim){.size = 1};
  t.rank = rank;
  return rank == v->type.rank ? v : vtb_b_reshape(&b, v, &t);
}

static weight make_weight(const vtb__norm *n, vtb_inst *product, vtb_value *bias) {
  vtb__new_kernel k = vtb__kernel_begin(product, "weight");
  vtb_builder *b = &k.b;
  vtb_value *w = vtb__kernel_reads(&k, product->operands[1]), *returns[3];
  vtb_value **inside = read_body(&k, n->row); /* of which little is left */
  int sums = 1, shifts = 1 + n->centred, rank = product->operands[1]->type.rank;
  returns[0] = rounded(b, n->gain ? vtb_b_binary(b, VTB_OP_mul, w, inside[n->gain->id]) : w);
  if (n->centred) returns[sums] = row_sum(b, returns[0]);
  if (n->shift) returns[shifts] = row_sum(b, vtb_b_binary(b, VTB_OP_mul, w, inside[n->shift->id]));
  if (bias)
    returns[shifts] = vtb_b_binary(b, VTB_OP_add, returns[shifts],
                                   vtb__kernel_reads(&k, ranked(product, bias, rank)));
  const vtb_inst *call = vtb__shrink_kernel(
      vtb__kernel_end(&k, product, VTB_KERNEL_ROW, returns, shifts + (n->shift != NULL)));
  vtb_free(inside);
  return (weight){.narrow = call->results[0],
                  .sums = n->centred ? ranked(product, call->results[sums], rank - 1) : NULL,
                  .shifts = n->shift ? ranked(product, call->results[shifts], rank - 1) : NULL};
}

/* p -> (p - mean s) / sqrt(squares / C + eps) + t + start */
static void norm_behind(const fusing *s, const vtb__source *x, const vtb__norm *n,
                        vtb_inst *product) {
  vtb_func *f = product->func;
  vtb_builder outer = {.module = f->module, .func = f, .before = product, .span = product->span};
  vtb_value *start = product->n_operands == 3 ? product->operands[2] : NULL;
  vtb_type columns = product->operands[1]->type;
  columns.rank--;
  bool joins = start && n->shift && vtb_type_equal(&start->type, &columns) && is_prepared(s, start);
  weight w = make_weight(n, product, joins ? start : NULL);
  vtb_value *factors[] = {x->kept[NARROW], w.narrow};
  const vtb_inst *bare =
      vtb_build(&outer, VTB_OP_einsum, factors, 2, product->attrs, product->n_attrs);
  const int rank = bare->results[0]->type.rank;
  vtb__new_kernel k = vtb__kernel_begin(product, NULL);
  vtb_builder *b = &k.b;
  vtb_value *y = vtb__kernel_reads(&k, bare->results[0]);
  vtb_value *var = vtb__kernel_reads(&k, ranked(product, x->kept[SQUARES], rank));
  vtb_value *mean = vtb__kernel_reads(&k, ranked(product, x->kept[MEAN], rank));
  var = scaled(b, var, 1 / (double)x->x->type.dim[x->x->type.rank - 1].size);
  if (w.sums)
    y = vtb_b_binary(b, VTB_OP_sub, y,
                     vtb_b_binary(b, VTB_OP_mul, mean, vtb__kernel_reads(&k, w.sums)));
  else
    var = vtb_b_binary(b, VTB_OP_add, var, vtb_b_unary(b, VTB_OP_square, mean));
  var = vtb_b_binary(b, VTB_OP_add, var, vtb_b_constant(b, n->eps));
  y = vtb_b_binary(b, VTB_OP_mul, y, vtb_b_unary(b, VTB_OP_rsqrt, var));
  if (w.shifts) y = vtb_b_binary(b, VTB_OP_add, y, vtb__kernel_reads(&k, w.shifts));
  if (start && !joins) y = vtb_b_binary(b, VTB_OP_add, y, vtb__kernel_reads(&k, start));
  const vtb_inst *call = vtb__kernel_end(&k, product, VTB_KERNEL_LOOP, &y, 1);
  vtb__stand_in(product->results[0], call->results[0]);
  vtb_inst_unlink(product);
}

static void take_norm(fusing *s, const vtb__norm *n) {
  const vtb__source *x = vtb__source_of(s, vtb__norm_rows(n));
  vtb_check(x && x->kept[NARROW], "nobody gives the rows of a norm");
  vtb_inst **readers;
  size_t n_readers = vtb_value_readers(n->row->results[0], &readers);
  for (size_t r = 0; r < n_readers; r++) norm_behind(s, x, n, readers[r]);
  vtb_free(readers);
  vtb_inst_unlink(n->row);
}

/* ---- the pass -------------------------------------------------------------------------------- */

vtb_status vtb__pass_fuse_norms(vtb_pass_context *c, vtb_error *err) {
  fusing s = {.module = c->module, .library = c->library, .n_kept = REST};
  vtb_func **all;
  vtb__norm norm;
  if (c->precision != VTB_PRECISION_BF16_ALL) return VTB_OK;
  size_t n = vtb_module_post_order(c->module->entry, &all);
  s.funcs = vtb_xcalloc(n + 1, sizeof *s.funcs);
  for (size_t i = 0; i < n; i++)
    if (all[i]->kind == VTB_FUNC_PLAIN) s.funcs[s.n_funcs++] = all[i];
  for (size_t g = 0; g < s.n_funcs && !s.library; g++)
    for (vtb_inst *i = s.funcs[g]->first, *next; i; i = next) {
      next = i->next;
      split(&s, i);
    }
  vtb__join_stream_arguments(&s);
  for (size_t g = 0; g < s.n_funcs; g++)
    for (vtb_inst *i = s.funcs[g]->first; i; i = i->next)
      if (is_wanted(&s, i, &norm) && i->n_results == 1) {
        vtb_vec_push(&s.norms, norm);
        vtb__want(&s, vtb__norm_rows(&norm));
      }
  s.n_kept += vtb__can_halve(&s);
  bool taken = pays(&s, vtb_gpu_or_default(&c->gpu));
  for (size_t g = 0; g < s.n_funcs && taken; g++) make_sources(&s, s.funcs[g]);
  for (size_t i = 0; i < s.norms.n && taken; i++) take_norm(&s, &s.norms.at[i]);
  if (taken && s.n_kept > REST) vtb__halve(&s);
  vtb_vec_free(&s.sources);
  vtb_vec_free(&s.norms);
  vtb_free(s.funcs);
  vtb_free(all);
  return taken ? vtb__pass_dce(c, err) : VTB_OK;
}
