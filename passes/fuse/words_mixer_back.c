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
 * of queries and keys of the same rows add up inside, from a start value that was there before; one
 * that was not begins with the kernel's sum instead. Declines adjoints that others read, and
 * gradients stored as input by output.
 */
#include "ir/product.h"
#include "passes/fuse/words.h"

enum { MOST_CHAIN = 8 };

/* d, made by `made`, is the adjoint of rows that the matrices of `map` made; NULL: none did. What
 * reads it: the product behind the matrices, and what has their gradients, or NULL. */
typedef struct way {
  vtb_inst *map, *made, *rows, *sums;
  vtb_value *d;
} mixer_way;

/* ---- what there is --------------------------------------------------------------------------- */

static bool is_last_summed(const vtb_inst *map) {
  vtb_blocks b;
  return vtb_blocks_of(map, &b) && b.at_inner == 2;
}

static bool take_reader(mixer_way *way, vtb_inst *i) {
  const vtb_inst *map = way->map, *of = i;
  if (vtb_kernel_kind_of(i) == VTB_KERNEL_SUMS) of = i->callee->first;
  bool rows = vtb__is_small_product(i);
  if (!rows && !(vtb_is_blocks_gradient(of) && of->n_operands == 2)) return false;
  const vtb_value *d = vtb__operand_of(i, of, 0), *by = vtb__operand_of(i, of, 1);
  vtb_inst **reader = rows ? &way->rows : &way->sums;
  if (*reader || !d || !by || vtb_behind_reshapes(d) != way->d ||
      !vtb_type_equal(&d->type, &map->results[0]->type))
    return false;
  *reader = i;
  return rows ? by == map->operands[1] && is_last_summed(i) != is_last_summed(map)
              : vtb_behind_reshapes(by) == vtb_behind_reshapes(map->operands[0]);
}

/* All that reads v, the adjoint or a view of it, is one of these. */
static bool take_readers(mixer_way *way, const vtb_value *v) {
  bool taken = !vtb_is_returned(v);
  for (vtb_inst **r = vtb__readers(v); *r && taken; r++)
    taken = (*r)->op == VTB_OP_reshape ? take_readers(way, (*r)->results[0]) : take_reader(way, *r);
  return taken;
}

/* ---- start values ---------------------------------------------------------------------------- */

static vtb_value *start_of(const vtb_inst *product) {
  return product->n_operands == 3 ? product->operands[2] : NULL;
}

/* Products outside the group that add up to v and nobody else reads, views between them among
 * these: the last first. The number, 0 if the first of them begins with something else. */
static int chain_of(const vtb__group *g, const vtb_value *v, vtb_inst **chain) {
  for (int n = 0; v && n < MOST_CHAIN;) {
    vtb_inst *i = v->def;
    if (!i || vtb__group_has(g, i) || !vtb_only_reader(v) ||
        (i->op != VTB_OP_reshape && i->op != VTB_OP_einsum))
      return 0;
    chain[n++] = i;
    v = i->op == VTB_OP_reshape ? i->operands[0] : start_of(i);
    if (!v) return n;
  }
  return 0;
}

static vtb_value *with_start(vtb_builder *b, const vtb_inst *product, vtb_value *x,
                             vtb_value *start) {
  vtb_value *operands[] = {x, product->operands[1], start};
  return vtb_build(b, VTB_OP_einsum, operands, start ? 3 : 2, product->attrs, product->n_attrs)
      ->results[0];
}

/* y stands for the sum of the product that `last` was without its start value: instead, what that
 * began with begins with y. */
static void begin_with(const vtb__group *g, vtb_inst *last, vtb_value *y) {
  vtb_inst *chain[MOST_CHAIN];
  int n = chain_of(g, start_of(last), chain);
  vtb_builder b = vtb__before(last);
  if (n) {
    vtb_inst *first = chain[n - 1];
    for (int i = n; i-- > 0;) vtb_inst_move_before(chain[i], last);
    b.before = first;
    y = vtb_b_shaped(&b, y, &first->results[0]->type);
    vtb__become(first, with_start(&b, first, first->operands[0], y));
    y = start_of(last);
    b.before = last;
  }
  vtb_replace_all(last->results[0], vtb_b_shaped(&b, y, &last->results[0]->type));
  vtb_inst_unlink(last);
}

/* ---- what is built --------------------------------------------------------------------------- */

static vtb_value *add_value(vtb__group *g, vtb_value *v) {
  vtb_check(v->def && vtb__group_add(g, v->def), "a mixer's adjoint of too many instructions");
  return v;
}

static vtb_value *put_view(vtb__group *g, vtb_builder *b, vtb_value *v, const vtb_type *type) {
  return add_value(g, vtb_b_reshape(b, v, type));
}

/* Gradients are sums over samples of those that the kernel makes of d, a kernel of its own each. */
static void put_sums(vtb__group *g, vtb_builder *b, const mixer_way *way, vtb_value *d) {
  vtb_inst *sums = way->sums;
  vtb_func *f = g->func;
  for (int r = 0; sums && r < sums->n_results; r++) {
    vtb_value *old = sums->results[r];
    bool bias = sums->op == VTB_OP_fused && sums->callee->returns[r]->def != sums->callee->first;
    vtb_value *parts = bias ? vtb_b_reduce(b, VTB_OP_reduce_sum, d, (const int64_t[]){1}, 1, false)
                            : vtb_b_einsum(b, "bngo,bngi->bgoi", d, way->map->operands[0]);
    add_value(g, parts);
    vtb_builder outer = vtb__before(sums);
    outer.name_hint = old->name;
    vtb_value *total =
        vtb_b_reduce(&outer, VTB_OP_reduce_sum, parts, (const int64_t[]){0}, 1, false);
    vtb_replace_all(old, vtb_b_shaped(&outer, total, &old->type));
    vtb_func_number(f);
    vtb__group alone = vtb__group_round(f, total->def);
    vtb__group_join(&alone, VTB_KERNEL_COL);
  }
  if (sums) vtb_inst_unlink(sums);
}

/* The time of n ways' readers, which the group's kernel makes from now on. */
static double seconds_of(vtb_asker *asker, mixer_way *const *ways, int n) {
  const vtb_inst *asked[4];
  int n_asked = 0;
  for (int m = 0; m < n; m++) {
    asked[n_asked++] = ways[m]->rows;
    if (ways[m]->sums) asked[n_asked++] = ways[m]->sums;
  }
  return vtb_ask_all(asker, asked, n_asked).seconds;
}

/* The second, if there are two, adds to what the first makes. */
static void take_back(vtb__group *g, mixer_way *const *ways, int n) {
  const vtb_inst *made = ways[n > 1 && ways[1]->made->order > ways[0]->made->order]->made;
  vtb_inst *first = ways[0]->rows, *last = ways[n - 1]->rows;
  vtb_builder b = {
      .module = g->func->module, .func = g->func, .before = made->next, .span = made->span};
  vtb_inst *chain[MOST_CHAIN];
  vtb_value *sum = start_of(first), *rows = last->results[0];
  if (sum && chain_of(g, sum, chain)) sum = NULL;
  const vtb_type *type = &ways[0]->d->type;
  if (sum) {
    sum = vtb_b_shaped(&b, vtb_behind_reshapes(sum), type);
    sum = put_view(g, &b, sum, &first->results[0]->type);
  }
  for (int m = 0; m < n; m++) {
    vtb_value *d = put_view(g, &b, ways[m]->d, &ways[m]->map->results[0]->type);
    sum = add_value(g, with_start(&b, ways[m]->rows, d, sum));
    put_sums(g, &b, ways[m], d);
  }
  sum = put_view(g, &b, sum, type);
  if (last != first) { /* the first has what the sum began with */
    vtb_replace_all(rows, first->results[0]);
    vtb_inst_move_before(first, last);
    vtb_inst_unlink(last);
  }
  begin_with(g, first, sum);
  vtb_func_number(g->func);
}

/* ---- which ----------------------------------------------------------------------------------- */

/* Without a start value, or with one that begins with the sum instead, or that two products begin
 * with inside. */
static bool can_begin(const vtb__group *g, const vtb_inst *rows, int n) {
  vtb_inst *chain[MOST_CHAIN];
  const vtb_value *start = start_of(rows);
  if (!start || chain_of(g, start, chain)) return true;
  start = vtb_behind_reshapes(start);
  return n == 2 && vtb_made_before(start, g->anchor) && start->type.dtype == VTB_F32;
}

static bool begins_with(const vtb_inst *rows, const vtb_inst *other) {
  return start_of(rows) == other->results[0] && vtb_only_reader(other->results[0]) != NULL;
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

double vtb__group_take_back(vtb__group *g, vtb_asker *asker) {
  mixer_way ways[3] = {{0}}, *pair[2];
  double apart = 0;
  bool there[3];
  for (int m = 0; m < g->n; m++)
    if (vtb__is_small_map(g->at[m])) find_way(g, g->at[m], ways);
  for (int o = 0; o < 3; o++)
    there[o] = ways[o].map && take_readers(&ways[o], ways[o].d) && ways[o].rows;
  for (int o = 0; o < 2 && there[0] && there[1]; o++) {
    pair[0] = &ways[o], pair[1] = &ways[1 - o];
    if (vtb_behind_reshapes(ways[0].map->operands[0]) !=
            vtb_behind_reshapes(ways[1].map->operands[0]) ||
        !begins_with(pair[1]->rows, pair[0]->rows) || !can_begin(g, pair[0]->rows, 2))
      continue;
    apart += seconds_of(asker, pair, 2);
    take_back(g, pair, 2);
    there[0] = there[1] = false;
  }
  for (int o = 0; o < 3; o++) {
    pair[0] = &ways[o];
    if (!there[o] || !can_begin(g, pair[0]->rows, 1)) continue;
    apart += seconds_of(asker, pair, 1);
    take_back(g, pair, 1);
  }
  return apart;
}
