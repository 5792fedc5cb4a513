/* Row "mixer_adjoints", flag BACK: the adjoints of queries, keys and values on through the matrices
 * that made them.
 *
 *   %dq, %dk, %dv, ... = fused @d_k(...) {kind = "mixer_grad"}
 *   %dx = einsum %dq, %wq, %dxk {spec = "bngo,goi->bngi"}        dxk: the same of dk
 *   %dw, %db = fused @dw(%dq, %x) {kind = "sums"}                "bngo,bngi->goi"; sums over tokens
 *   =>
 *   %dx, %pw, %pb, ... = fused @d_k(...) {kind = "mixer_grad"}   "bngo,bngi->bgoi"
 *   %dw = fused @total(%pw) {kind = "col"}
 *
 * The kernel has slabs of dq, dk and dv in shared memory and the rows before the matrices anyway:
 * dq, dk and dv are not in memory at all, and sums of a sample, in their order, are few. Products
 * of queries and keys of the same rows add up inside; what a kernel behind adds to their sum with
 * something that was there before is their start value. A start value that was not becomes that of
 * what made it. Declines adjoints that others read, and gradients stored as input by output.
 */
#include "ir/product.h"
#include "ir/recurrence.h"
#include "passes/fuse/words.h"

enum { MOST_CHAIN = 8 };

/* d, made by `made`: the adjoint of rows that the matrices of `map` made; `map` NULL: none did. */
typedef struct way {
  vtb_inst *map, *made;
  vtb_value *d;
} mixer_way;

/* What reads the adjoint of rows. */
typedef struct readers {
  vtb_inst *rows, *sums; /* the product behind the matrix; what has the gradients, or NULL */
  vtb_value *weights, *bias;
} readers;

/* ---- what there is --------------------------------------------------------------------------- */

static bool is_last_summed(const vtb_inst *map) {
  vtb_blocks b;
  return vtb_blocks_of(map, &b) && b.at_inner == 2;
}

/* Of the adjoint and the rows. */
static bool is_gradient(const vtb_inst *i) {
  return vtb_is_blocks_gradient(i) && i->n_operands == 2 && i->operands[0]->type.rank == 4;
}

/* Gradients of the matrix and its bias, as an einsum or a kernel of both. */
static bool take_sums(const mixer_way *way, vtb_inst *i, readers *r) {
  bool kernel = vtb_kernel_kind_of(i) == VTB_KERNEL_SUMS;
  const vtb_inst *of = kernel ? i->callee->first : i;
  if (r->sums || !of || !is_gradient(of)) return false;
  vtb_value *d = kernel && !of->operands[0]->def ? i->operands[of->operands[0]->index] : NULL,
            *x = kernel && !of->operands[1]->def ? i->operands[of->operands[1]->index] : NULL;
  if (!kernel) d = of->operands[0], x = of->operands[1];
  if (!d || !x || vtb_behind_reshapes(d) != way->d ||
      vtb_behind_reshapes(x) != vtb_behind_reshapes(way->map->operands[0]) ||
      !vtb_type_equal(&d->type, &way->map->results[0]->type))
    return false;
  r->sums = i;
  for (int n = 0; n < i->n_results; n++) {
    bool weights = !kernel || i->callee->returns[n] == of->results[0];
    const vtb_value *from = kernel ? vtb_behind_reshapes(i->callee->returns[n]) : NULL;
    if (!weights && (!from->def || from->def->op != VTB_OP_reduce_sum)) return false;
    *(weights ? &r->weights : &r->bias) = i->results[n];
  }
  return true;
}

static bool take_reader(const mixer_way *way, vtb_inst *i, readers *r) {
  if (!vtb__is_small_product(i)) return take_sums(way, i, r);
  if (r->rows || vtb_behind_reshapes(i->operands[0]) != way->d ||
      i->operands[1] != way->map->operands[1] || is_last_summed(i) == is_last_summed(way->map) ||
      !vtb_type_equal(&i->operands[0]->type, &way->map->results[0]->type))
    return false;
  r->rows = i;
  return true;
}

/* All that reads v, the adjoint or a view of it, is one of these. */
static bool take_readers(const mixer_way *way, const vtb_value *v, readers *r) {
  vtb_inst **all;
  size_t n = vtb_value_readers(v, &all);
  bool taken = !vtb_is_returned(v);
  for (size_t i = 0; i < n && taken; i++)
    taken = all[i]->op == VTB_OP_reshape ? take_readers(way, all[i]->results[0], r)
                                         : take_reader(way, all[i], r);
  vtb_free(all);
  return taken;
}

/* ---- start values ---------------------------------------------------------------------------- */

/* Products outside the group that add up to v and nobody else reads, views between them among
 * these: the last first. The number, 0 if the first of them begins with something else. */
static int chain_of(const vtb__group *g, const vtb_value *v, vtb_inst **chain) {
  int n = 0;
  while (n < MOST_CHAIN) {
    vtb_inst *i = v->def;
    if (!i || vtb__group_has(g, i) || !vtb_only_reader(v) ||
        (i->op != VTB_OP_reshape && i->op != VTB_OP_einsum))
      return 0;
    chain[n++] = i;
    if (i->op == VTB_OP_einsum && i->n_operands == 2) return n;
    v = i->operands[i->op == VTB_OP_einsum ? 2 : 0];
  }
  return 0;
}

static vtb_inst *with_start(vtb_builder *b, const vtb_inst *product, vtb_value *start) {
  vtb_value *operands[] = {product->operands[0], product->operands[1], start};
  return vtb_build(b, VTB_OP_einsum, operands, start ? 3 : 2, product->attrs, product->n_attrs);
}

static void replace_inst(vtb_inst *old, vtb_inst *with) {
  vtb__stand_in(old->results[0], with->results[0]);
  vtb_inst_unlink(old);
}

/* y stands for the sum of the product that `last` was without its start value: instead, that
 * begins with it. */
static void begin_with(const vtb__group *g, vtb_func *f, vtb_inst *last, vtb_value *y) {
  vtb_inst *chain[MOST_CHAIN];
  int n = last->n_operands == 3 ? chain_of(g, last->operands[2], chain) : 0;
  vtb_builder b = {.module = f->module, .func = f, .before = last, .span = last->span};
  if (n) {
    vtb_value *sum = last->operands[2];
    for (int i = n; i-- > 0;) vtb_inst_move_before(chain[i], last);
    b.before = chain[n - 1];
    vtb_value *start = vtb_b_reshape(&b, y, &chain[n - 1]->results[0]->type);
    vtb_inst *begun = with_start(&b, chain[n - 1], start);
    if (sum == chain[n - 1]->results[0]) sum = begun->results[0];
    replace_inst(chain[n - 1], begun);
    y = sum;
    b.before = last;
  }
  if (!vtb_type_equal(&y->type, &last->results[0]->type))
    y = vtb_b_reshape(&b, y, &last->results[0]->type);
  vtb_replace_all(last->results[0], y);
}

/* What a kernel that reads v, the sum of products behind the matrices, adds it to: a product with a
 * start value that is there before `made`; that value is the sum's then. NULL: nothing. */
static vtb_value *take_addend(vtb_func *f, const vtb_value *v, const vtb_inst *made) {
  vtb_inst *loop = vtb_only_reader(v);
  while (loop && loop->op == VTB_OP_reshape) v = loop->results[0], loop = vtb_only_reader(v);
  if (!loop || vtb_kernel_kind_of(loop) != VTB_KERNEL_LOOP) return NULL;
  vtb_value *other = NULL;
  for (int o = 0; o < loop->n_operands; o++) {
    const vtb_inst *add = loop->operands[o] == v ? vtb_only_reader(loop->callee->args[o]) : NULL;
    if (!add || add->op != VTB_OP_add) continue;
    const vtb_value *arg = add->operands[add->operands[0] == loop->callee->args[o]];
    if (!arg->def && vtb_only_reader(arg) && vtb_type_equal(&arg->type, &v->type))
      other = loop->operands[arg->index];
  }
  vtb_inst *product = other ? vtb_behind_reshapes(other)->def : NULL;
  if (!product || product->op != VTB_OP_einsum || product->n_operands != 3 ||
      !vtb_only_reader(other) || !vtb_only_reader(product->results[0]))
    return NULL;
  vtb_value *start = vtb_behind_reshapes(product->operands[2]);
  if (!vtb_made_before(start, made) || start->type.dtype != VTB_F32 ||
      vtb_type_count(&start->type) != vtb_type_count(&v->type))
    return NULL;
  vtb_builder b = {.module = f->module, .func = f, .before = product, .span = product->span};
  replace_inst(product, with_start(&b, product, NULL));
  return start;
}

/* ---- what is built --------------------------------------------------------------------------- */

static void add_value(vtb__group *g, const vtb_value *v) {
  vtb_check(v->def && vtb__group_add(g, v->def), "a mixer's adjoint of too many instructions");
}

/* Sums over samples, a kernel of its own. */
static void put_total(vtb_func *f, vtb_inst *sums, vtb_value *parts, vtb_value *old) {
  vtb_builder b = {.module = f->module, .func = f, .before = sums, .span = sums->span};
  b.name_hint = old->name;
  vtb_value *total = vtb_b_reduce(&b, VTB_OP_reduce_sum, parts, (const int64_t[]){0}, 1, false);
  if (!vtb_type_equal(&total->type, &old->type)) {
    vtb_value *view = vtb_b_reshape(&b, total, &old->type);
    vtb_replace_all(old, view);
  } else {
    vtb_replace_all(old, total);
  }
  vtb_func_number(f);
  vtb__group alone = vtb__group_round(f, total->def);
  vtb__group_join(&alone, VTB_KERNEL_COL);
}

static void put_sums(vtb__group *g, vtb_func *f, vtb_builder *b, const mixer_way *way,
                     vtb_value *fours, readers *r) {
  if (!r->sums) return;
  vtb_value *weights =
      r->weights ? vtb_b_einsum(b, "bngo,bngi->bgoi", fours, way->map->operands[0]) : NULL;
  vtb_value *bias =
      r->bias ? vtb_b_reduce(b, VTB_OP_reduce_sum, fours, (const int64_t[]){1}, 1, false) : NULL;
  if (weights) add_value(g, weights), put_total(f, r->sums, weights, r->weights);
  if (bias) add_value(g, bias), put_total(f, r->sums, bias, r->bias);
}

/* The product behind the matrix, which begins with `start`, if that is not NULL. */
static vtb_value *put_rows(vtb__group *g, vtb_builder *b, const vtb_inst *old, vtb_value *fours,
                           vtb_value *start) {
  vtb_value *operands[] = {fours, old->operands[1], start};
  vtb_value *rows =
      vtb_build(b, VTB_OP_einsum, operands, start ? 3 : 2, old->attrs, old->n_attrs)->results[0];
  add_value(g, rows);
  return rows;
}

static vtb_value *put_view(vtb__group *g, vtb_builder *b, vtb_value *v, const vtb_type *type) {
  vtb_value *view = vtb_b_reshape(b, v, type);
  if (view != v) add_value(g, view);
  return view;
}

/* `second`, if there is one, adds to what `first` makes. */
static void take_back(vtb__group *g, vtb_func *f, mixer_way *const ways[2], readers *of[2]) {
  const vtb_inst *made = ways[ways[1] && ways[1]->made->order > ways[0]->made->order]->made;
  vtb_builder b = {.module = f->module, .func = f, .before = made->next, .span = made->span};
  vtb_value *addend = NULL, *sum = NULL;
  const vtb_type *type = &ways[0]->d->type;
  if (ways[1]) addend = take_addend(f, of[1]->rows->results[0], made);
  if (addend) {
    if (!vtb_type_equal(&addend->type, type)) addend = vtb_b_reshape(&b, addend, type);
    sum = put_view(g, &b, addend, &ways[0]->map->results[0]->type);
  }
  for (int m = 0; m < 2 && ways[m]; m++) {
    vtb_value *fours = put_view(g, &b, ways[m]->d, &ways[m]->map->results[0]->type);
    sum = put_rows(g, &b, of[m]->rows, fours, sum);
    put_sums(g, f, &b, ways[m], fours, of[m]);
  }
  sum = put_view(g, &b, sum, type);
  if (ways[1]) { /* the first has what the sum began with */
    const vtb_inst *view = of[1]->rows;
    vtb_inst *first = of[0]->rows;
    vtb_replace_all(view->results[0], first->results[0]);
    vtb_inst_move_before(first, (vtb_inst *)view);
    vtb_inst_unlink((vtb_inst *)view);
  }
  begin_with(g, f, of[0]->rows, sum);
  vtb_inst_unlink(of[0]->rows);
  for (int m = 0; m < 2 && ways[m]; m++)
    if (of[m]->sums) vtb_inst_unlink(of[m]->sums);
  vtb_func_number(f);
}

static bool can_begin(const vtb__group *g, const vtb_inst *rows) {
  vtb_inst *chain[MOST_CHAIN];
  return rows->n_operands == 2 || chain_of(g, rows->operands[2], chain) > 0;
}

static bool begins_with(const vtb_inst *rows, const vtb_inst *other) {
  return rows->n_operands == 3 && rows->operands[2] == other->results[0] &&
         vtb_only_reader(other->results[0]) != NULL;
}

/* The adjoint of what the map makes: of keys it is behind that of their gain. */
static void find_way(const vtb__group *g, vtb_inst *map, mixer_way ways[3]) {
  vtb_inst *scan = g->anchor, *row = vtb_only_reader(scan->results[1]);
  const vtb_value *rows = vtb_only_reader(map->results[0])->results[0];
  int o = rows == scan->operands[0] ? 0 : rows == scan->operands[2] ? 2 : 1;
  int keys = row->results[0]->type.dim[3].size == 1;
  ways[o] = (mixer_way){
      .map = map, .made = o == 1 ? row : scan, .d = o == 1 ? row->results[keys] : scan->results[o]};
}

void vtb__group_take_back(vtb__group *g) {
  vtb_func *f = g->func;
  mixer_way ways[3] = {0};
  readers of[3] = {0};
  bool there[3];
  for (int m = 0; m < g->n; m++)
    if (vtb__is_small_map(g->at[m])) find_way(g, g->at[m], ways);
  for (int o = 0; o < 3; o++)
    there[o] = ways[o].map && take_readers(&ways[o], ways[o].d, &of[o]) && of[o].rows;
  if (there[0] && there[1] &&
      vtb_behind_reshapes(ways[0].map->operands[0]) ==
          vtb_behind_reshapes(ways[1].map->operands[0])) {
    int first = begins_with(of[0].rows, of[1].rows) ? 1 : 0;
    if (begins_with(of[1 - first].rows, of[first].rows) && can_begin(g, of[first].rows)) {
      take_back(g, f, (mixer_way *const[]){&ways[first], &ways[1 - first]},
                (readers *[]){&of[first], &of[1 - first]});
      there[0] = there[1] = false;
    }
  }
  for (int o = 0; o < 3; o++)
    if (there[o] && can_begin(g, of[o].rows))
      take_back(g, f, (mixer_way *const[]){&ways[o], NULL}, (readers *[]){&of[o], NULL});
}
