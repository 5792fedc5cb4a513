/* fuse_norms: what is normed in front of products is normed behind them, and the statistics are
 * taken where the rows are made.
 *
 *   %x = add %p, %r : f32[b, n, c]
 *   %h = ... %x, %gain, %shift                                     // its norm
 *   %z = einsum %h, %w {spec = "bnc,ec->bne"}
 *   =>
 *   %x = add %p, %r
 *   %x16, %mean, %var = fused @x(%x) {kind = "row"}                // bf16, f32[b, n, 1] each
 *   %w16, %s, %t = fused @w(%w, %gain, %shift) {kind = "row"}      // w gain, its sums; w shift
 *   %p.1 = einsum %x16, %w16 {spec = "bnc,ec->bne"}
 *   %z = fused @z(%p.1, %mean, %var, %s, %t) {kind = "loop"}
 *                                                  // (p.1 - mean s) / sqrt(var / c + eps) + t
 *
 * Products take both kernels (`grow`): nobody writes or reads the normed rows, and nobody reads x
 * for its statistics, the mean and the squares of what is off it (of 32 columns at a time where
 * tiles have no whole rows; a small launch adds those up without cancellation). What becomes of the
 * weight depends on parameters alone (hoist.c, prepare.c); a bias joins t. x may come from and go
 * to other functions: they get further arguments and results.
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
 * parameters alone, what the library takes, and norms no product makes the rows of. Needs
 * products that know their factors (`precision`). Before `fuse`.
 */
#include "passes/fuse/fuse_norms.h"

#include "ir/narrow.h"
#include "ir/product.h"
#include "passes/fuse/group.h"

vtb__norm_source *vtb__source_of(const fusing *s, const vtb_value *x) {
  for (size_t i = 0; i < s->sources.n; i++)
    if (s->sources.at[i].x == x) return &s->sources.at[i];
  return NULL;
}

void vtb__stands_for(const fusing *s, vtb_value *v, vtb_value *now) {
  vtb__norm_source *x = vtb__source_of(s, v);
  if (x) x->x = now;
  for (size_t n = 0; n < s->norms.n; n++)
    if (s->norms.at[n].x == v) s->norms.at[n].x = now;
  vtb__stand_in(v, now);
}

/* ---- which norms ----------------------------------------------------------------------------- */

/* Depends on parameters alone, through whatever calls. */
static bool is_prepared(const fusing *s, const vtb_value *v) {
  if (v->def) {
    const vtb_op_class klass = vtb_op_get(v->def->op)->klass;
    if (klass != VTB_CLASS_SHAPE && klass != VTB_CLASS_ELEMENTWISE) return false;
    for (int o = 0; o < v->def->n_operands; o++)
      if (!is_prepared(s, v->def->operands[o])) return false;
    return v->def->op != VTB_OP_random;
  }
  if (v->func == s->module->entry) return vtb__is_parameter(v);
  for (vtb_inst **call = vtb__calls_of(v->func); *call; call++)
    if (!is_prepared(s, (*call)->operands[v->index])) return false;
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

static bool is_elementwise(const vtb_inst *i, const vtb_type *shape) {
  return i && vtb_op_get(i->op)->klass == VTB_CLASS_ELEMENTWISE &&
         vtb_type_equal(&i->results[0]->type, shape);
}

/* A product that is not the library's, which takes the large ones that nothing is made of. */
static bool is_ours(const fusing *s, const vtb_inst *i) {
  if (i->op != VTB_OP_einsum || !vtb_is_product(i) || vtb_attr_int(i, "library", 0)) return false;
  return !s->library || !vtb__is_large(i) ||
         is_elementwise(vtb_only_reader(i->results[0]), &i->results[0]->type);
}

/* Nobody but products of rounded factors and prepared weights reads the rows. */
static bool are_taken(const fusing *s, const vtb_value *normed) {
  vtb_inst **r = vtb__readers(normed);
  bool can = *r && !vtb_is_returned(normed) && normed->type.rank < VTB_MAX_RANK;
  for (; *r && can; r++) {
    const vtb_inst *i = *r;
    can = is_ours(s, i) && is_linear(i) && vtb_factors_of(i) == VTB_FACTORS_BF16 &&
          i->operands[0] == normed && i->operands[1] != normed && is_prepared(s, i->operands[1]) &&
          (i->n_operands < 3 || i->operands[2] != normed);
  }
  return can;
}

/* A number a row of what is like x. */
static bool is_of_rows(const vtb_value *v, const vtb_value *x) {
  return v->type.rank == x->type.rank && v->type.dim[v->type.rank - 1].size == 1 &&
         vtb_type_count(&v->type) * x->type.dim[x->type.rank - 1].size == vtb_type_count(&x->type);
}

/* A product makes x, or will have taken what makes it: its kernel keeps statistics. It
 * has no sums of a row to make x of. */
static bool is_made_by_product(const fusing *s, const vtb_value *x) {
  bool *of = VTB_SCRATCH(x->func, bool, x->func->n_values), made = false, rows = false;
  of[x->id] = true;
  for (const vtb_inst *i = x->def; i; i = i->prev) {
    if (!i->n_results || !of[i->results[0]->id]) continue;
    made |= is_ours(s, i) && vtb__keeps_parts(i);
    for (int o = 0; o < i->n_operands && is_elementwise(i, &x->type); o++) {
      of[i->operands[o]->id] |= vtb_type_equal(&i->operands[o]->type, &x->type);
      rows |= is_of_rows(i->operands[o], x);
    }
  }
  return made && !rows;
}

/* The library's products have no epilogue: a kernel that makes rows of theirs norms them, too. */
static bool is_wanted(const fusing *s, vtb_value *v, vtb__norm *n) {
  return are_taken(s, v) && vtb__norm_of(v, n) && (!n->gain || is_prepared(s, n->gain)) &&
         (!n->shift || is_prepared(s, n->shift)) &&
         !(s->library && is_elementwise(n->x->def, &n->x->type));
}

/* ---- what pays ------------------------------------------------------------------------------- */

void vtb__want(fusing *s, vtb_value *x) {
  if (vtb__source_of(s, x)) return;
  vtb__put(s, &s->sources, ((vtb__norm_source){.x = x}));
  if (x->def && x->def->op == VTB_OP_call) vtb__want(s, x->def->callee->returns[x->index]);
  if (x->def || x->func == s->module->entry) return;
  for (vtb_inst **call = vtb__calls_of(x->func); *call; call++)
    vtb__want(s, (*call)->operands[x->index]);
}

/* How often a run goes through f. */
static double times_of(const fusing *s, const vtb_func *f) {
  double times = f == s->module->entry;
  for (vtb_inst **call = vtb__calls_of(f), *first; (first = *call);) {
    int calls = 0;
    for (; *call && (*call)->func == first->func; call++) calls++;
    times += calls * times_of(s, first->func);
  }
  return times;
}

/* Seconds of launches that move so many bytes an element of x, in a run. */
static double seconds_of(const fusing *s, const vtb_gpu *gpu, const vtb_value *x, double bytes) {
  double once = gpu->launch + bytes * (double)vtb_type_count(&x->type) / gpu->bytes;
  return times_of(s, x->func) * once;
}

/* The norms' launches take longer than what is in their place: a product that makes the
 * rows stores 2 bytes an element more, unless streams are halves, and parts; what else makes them
 * is read again. */
static bool pays(const fusing *s, const vtb_gpu *gpu) {
  static const double bytes[2][2] = {{6, 2.5}, {8, 0.5}};
  const bool halves = s->n_kept > REST;
  double saved = 0;
  bool any = false;
  for (size_t i = 0; i < s->norms.n; i++) saved += seconds_of(s, gpu, s->norms.at[i].y, 6);
  for (size_t i = 0; i < s->sources.n; i++) {
    const vtb_value *x = s->sources.at[i].x;
    bool product = is_made_by_product(s, x), here = x->def && x->def->op != VTB_OP_call;
    any |= product;
    if (here || (!x->def && x->func == s->module->entry))
      saved -= seconds_of(s, gpu, x, bytes[halves][product]);
  }
  return any && saved > 0;
}

/* ---- kernels --------------------------------------------------------------------------------- */

static vtb_value *scaled(vtb_builder *b, vtb_value *x, double by) {
  return vtb_b_binary(b, VTB_OP_mul, x, vtb_b_constant(b, by));
}

static vtb_value *row_sum(vtb_builder *b, vtb_value *x) {
  return vtb_b_reduce(b, VTB_OP_reduce_sum, x, (const int64_t[]){x->type.rank - 1}, 1, true);
}

static vtb_value *rounded(vtb_builder *b, vtb_value *x) { return vtb_b_cast(b, x, VTB_BF16); }

/* v as of another rank: without its last axis, or with axes of size 1 behind. */
static vtb_value *ranked(vtb_builder *b, vtb_value *v, int rank) {
  vtb_type t = v->type;
  while (t.rank < rank) t.dim[t.rank++] = (vtb_dim){.size = 1};
  t.rank = rank;
  return rank == v->type.rank ? v : vtb_b_reshape(b, v, &t);
}

/* Instructions become a kernel, views between them apart. */
static void join(vtb_inst *first, vtb_inst *last, vtb_kernel_kind kind) {
  vtb_func_number(last->func);
  vtb__group g = vtb__group_round(last->func, last);
  for (vtb_inst *i = first; i != last; i = i->next)
    if (i->op != VTB_OP_reshape) vtb__group_add(&g, i);
  vtb__group_join(&g, kind);
}

/* ---- rows, from function to function --------------------------------------------------------- */

/* Behind whatever made x, for a kernel which a product that made it takes. */
static void keep(const fusing *s, vtb__norm_source *x, vtb_inst *behind) {
  vtb_func *f = x->x->func;
  vtb_builder b =
      behind ? vtb__before(behind) : (vtb_builder){.module = f->module, .func = f, .span = f->span};
  vtb_value *v = x->x, **kept = x->kept;
  kept[NARROW] = rounded(&b, v);
  kept[MEAN] = scaled(&b, row_sum(&b, v), 1 / (double)v->type.dim[v->type.rank - 1].size);
  if (s->n_kept > REST) kept[REST] = rounded(&b, vtb_b_binary(&b, VTB_OP_sub, v, kept[NARROW]));
  vtb_value *off = vtb_b_binary(&b, VTB_OP_sub, v, kept[MEAN]);
  off = vtb_b_unary(&b, VTB_OP_square, off);
  b.name_hint = "row_sums";
  kept[SQUARES] = row_sum(&b, off);
  x->first = kept[NARROW]->def;
  x->last = kept[SQUARES]->def;
}

static void keep_arguments(const fusing *s, vtb_func *f) {
  static const char *const names[] = {"narrow", "mean", "squares", "rest"};
  for (int a = 0, n = f->n_args; a < n; a++) {
    vtb__norm_source *x = vtb__source_of(s, f->args[a]);
    if (x && f == s->module->entry) keep(s, x, f->first);
    for (int k = 0; x && k < s->n_kept && f != s->module->entry; k++) {
      vtb_type t = x->x->type;
      if (k == NARROW || k == REST) t.dtype = VTB_BF16;
      if (k == MEAN || k == SQUARES) t.dim[t.rank - 1] = (vtb_dim){.size = 1};
      x->kept[k] = vtb_func_add_arg(f, names[k], t);
    }
  }
}

/* The call takes and gives what is kept where its function does. */
static void extend(const fusing *s, vtb_inst *call) {
  const vtb_func *f = call->callee;
  for (int o = 0, n = call->n_operands; o < n; o++) {
    const vtb__norm_source *x = vtb__source_of(s, call->operands[o]);
    for (int k = 0; k < s->n_kept && vtb__source_of(s, f->args[o]); k++)
      vtb_inst_add_operand(call, x->kept[k]);
  }
  for (int r = 0, n = call->n_results; r < n; r++) {
    const vtb__norm_source *inside = vtb__source_of(s, f->returns[r]);
    vtb__norm_source *x = vtb__source_of(s, call->results[r]);
    for (int k = 0; inside && k < s->n_kept; k++) {
      vtb_value *kept = vtb_inst_add_result(call, &inside->kept[k]->type);
      if (x) x->kept[k] = kept;
    }
  }
}

static void keep_rows(const fusing *s, vtb_func *f) {
  keep_arguments(s, f);
  VTB__EACH_INST(f, i, next) {
    if (i->op == VTB_OP_call) extend(s, i);
    for (int r = 0; r < i->n_results && i->op != VTB_OP_call; r++)
      if (vtb__source_of(s, i->results[r])) keep(s, vtb__source_of(s, i->results[r]), next);
  }
  for (int r = 0, n = f->n_returns; r < n && f != s->module->entry; r++) {
    const vtb__norm_source *x = vtb__source_of(s, f->returns[r]);
    for (int k = 0; x && k < s->n_kept; k++) vtb_func_add_return(f, x->kept[k], NULL);
  }
}

/* ---- norms ----------------------------------------------------------------------------------- */

/* A weight times what its rows are multiplied by: rounded; its sums; sums of its products with what
 * is added to the rows, with the bias; NULL: none. */
typedef struct weight {
  vtb_value *narrow, *sums, *shifts;
} weight;

/* v once more, of what a kernel can make of parameters itself; NULL: there is none. */
static vtb_value *again(vtb_builder *b, vtb_value *v) {
  vtb_value *operands[3];
  if (!v || !v->def || vtb_op_get(v->def->op)->klass != VTB_CLASS_ELEMENTWISE) return v;
  for (int o = 0; o < v->def->n_operands; o++) {
    vtb_value *of = v->def->operands[o];
    bool splat = of->def && vtb_is_splat(of->def);
    operands[o] = splat ? vtb_inst_clone(b, of->def, NULL)->results[0] : again(b, of);
  }
  return vtb_inst_clone(b, v->def, operands)->results[0];
}

static weight make_weight(vtb_builder *b, const vtb__norm *n, vtb_value *w, vtb_value *bias) {
  weight made = {NULL, NULL, NULL};
  vtb_value *gain = again(b, n->gain), *shift = again(b, n->shift);
  if (bias) bias = ranked(b, bias, w->type.rank);
  made.narrow = rounded(b, gain ? vtb_b_binary(b, VTB_OP_mul, w, gain) : w);
  if (n->centred) made.sums = row_sum(b, made.narrow);
  if (shift) made.shifts = row_sum(b, vtb_b_binary(b, VTB_OP_mul, w, shift));
  if (bias) made.shifts = vtb_b_binary(b, VTB_OP_add, made.shifts, bias);
  return made;
}

/* p -> (p - mean s) / sqrt(squares / C + eps) + t + start */
static void norm_behind(const fusing *s, const vtb__norm_source *x, const vtb__norm *n,
                        vtb_inst *product) {
  vtb_builder b = vtb__before(product);
  vtb_value *start = product->n_operands == 3 ? product->operands[2] : NULL;
  vtb_type columns = product->operands[1]->type;
  columns.rank--;
  bool joins = start && n->shift && vtb_type_equal(&start->type, &columns) && is_prepared(s, start);
  vtb_inst *ahead = product->prev;
  weight w = make_weight(&b, n, product->operands[1], joins ? start : NULL);
  vtb_inst *made = product->prev;
  if (w.sums) w.sums = ranked(&b, w.sums, columns.rank);
  if (w.shifts) w.shifts = ranked(&b, w.shifts, columns.rank);
  vtb_value *factors[] = {x->kept[NARROW], w.narrow};
  vtb_value *y =
      vtb_build(&b, VTB_OP_einsum, factors, 2, product->attrs, product->n_attrs)->results[0];
  vtb_value *var = ranked(&b, x->kept[SQUARES], y->type.rank),
            *mean = ranked(&b, x->kept[MEAN], y->type.rank);
  vtb_inst *bare = product->prev;
  var = scaled(&b, var, 1 / (double)x->x->type.dim[x->x->type.rank - 1].size);
  if (w.sums)
    y = vtb_b_binary(&b, VTB_OP_sub, y, vtb_b_binary(&b, VTB_OP_mul, mean, w.sums));
  else
    var = vtb_b_binary(&b, VTB_OP_add, var, vtb_b_unary(&b, VTB_OP_square, mean));
  var = vtb_b_binary(&b, VTB_OP_add, var, vtb_b_constant(&b, n->eps));
  y = vtb_b_binary(&b, VTB_OP_mul, y, vtb_b_unary(&b, VTB_OP_rsqrt, var));
  if (w.shifts) y = vtb_b_binary(&b, VTB_OP_add, y, w.shifts);
  if (start && !joins) y = vtb_b_binary(&b, VTB_OP_add, y, start);
  vtb__stands_for(s, product->results[0], y);
  vtb_inst_unlink(product);
  join(bare->next, y->def, VTB_KERNEL_LOOP);
  join(ahead ? ahead->next : made->func->first, made, VTB_KERNEL_ROW);
}

static void take_norm(const fusing *s, const vtb__norm *n) {
  const vtb__norm_source *x = vtb__source_of(s, n->x);
  vtb_check(x && x->kept[NARROW], "nobody gives the rows of a norm");
  for (vtb_inst **r = vtb__readers(n->y); *r; r++) norm_behind(s, x, n, *r);
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void find_norms(fusing *s) {
  vtb__norm norm;
  for (size_t g = 0; g < s->n_funcs; g++)
    for (vtb_inst *i = s->funcs[g]->first; i; i = i->next)
      if ((i->op == VTB_OP_mul || i->op == VTB_OP_add) && is_wanted(s, i->results[0], &norm)) {
        vtb__put(s, &s->norms, norm);
        vtb__want(s, norm.x);
      }
}

void vtb__change_fuse_norms(vtb_pass_context *c) {
  fusing s = {.module = c->module, .library = c->library, .n_kept = REST};
  if (c->precision != VTB_PRECISION_BF16_ALL) return;
  s.funcs = vtb__callees_first(c->module, c->module->entry);
  for (vtb_func **f = s.funcs; *f; f++)
    if ((*f)->kind == VTB_FUNC_PLAIN) s.funcs[s.n_funcs++] = *f;
  vtb__join_stream_arguments(&s);
  find_norms(&s);
  s.n_kept += vtb__can_halve(&s);
  if (!pays(&s, vtb_gpu_or_default(&c->gpu))) return;
  for (size_t g = 0; g < s.n_funcs; g++) keep_rows(&s, s.funcs[g]);
  for (size_t i = 0; i < s.norms.n; i++) take_norm(&s, &s.norms.at[i]);
  if (s.n_kept > REST) vtb__halve(&s);
  for (size_t i = 0; i < s.sources.n; i++)
    if (s.sources.at[i].first) join(s.sources.at[i].first, s.sources.at[i].last, VTB_KERNEL_ROW);
  vtb__change_dce(c);
}
