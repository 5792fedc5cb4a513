/* fuse_mixer_grad: keys that are multiplied by a number a token, and small matrices that make
 * queries, keys and values, on the way back.
 *
 *   %kg = fused @k(%k, %gain) {kind = "loop"}                     a mul
 *   %dq, %dkg, %dv, %dd = linscan_grad %q, %kg, %v, %d, %dy, ...
 *   %dk, %dgain = fused @d_k(%dkg, %gain, %k) {kind = "row"}      dkg gain; sum of dkg k
 *   =>
 *   %dq, %dk, %dv, %dd, %dgain = fused @d_k(%k, %gain, %q, ...) {kind = "mixer_grad"}
 *   func kernel @d_k { all of them }
 *
 * The kernel of few tokens (text/linscan_grad_short.cu) multiplies scores instead, and has the sum
 * beside those of the decays' adjoint: neither product is in memory. After `fuse`, for factors of
 * 16 bits. Declines several directions, states at the ends, chunks, and products that others read.
 */
#include "ir/narrow.h"
#include "ir/recurrence.h"
#include "passes/fuse/words.h"

static bool is_short(const vtb_inst *i) {
  if (i->op != VTB_OP_linscan_grad || !vtb_scan_is_product(i)) return false;
  vtb_factors factors = vtb_factors_of(i);
  vtb_scan s = vtb_scan_of(i);
  return (factors == VTB_FACTORS_BF16 || factors == VTB_FACTORS_FP16) && s.K > 1 &&
         s.chunk >= s.n_tokens && !s.init && !s.dlast && !s.recurrent;
}

/* [B, N, h, K], and [B, N, h, 1] of it. */
static bool is_product(const vtb_inst *mul, const vtb_value *x, const vtb_value *y) {
  if (mul->op != VTB_OP_mul) return false;
  return (mul->operands[0] == x && mul->operands[1] == y) ||
         (mul->operands[0] == y && mul->operands[1] == x);
}

static const vtb_value *argument_of(const vtb_inst *fused, const vtb_value *v) {
  for (int o = 0; o < fused->n_operands; o++)
    if (fused->operands[o] == v) return fused->callee->args[o];
  return NULL;
}

static bool is_number_a_row(const vtb_type *t, const vtb_type *k) {
  if (t->rank != 4 || t->dim[3].size != 1) return false;
  for (int a = 0; a < 3; a++)
    if (t->dim[a].size != k->dim[a].size) return false;
  return true;
}

/* The loop that makes the scan's keys, alone: of two operands, of which *gain is a row's number. */
static vtb_inst *keys_loop(const vtb_inst *scan, const vtb_value **keys, const vtb_value **gain) {
  vtb_inst *loop = scan->operands[1]->def;
  const vtb_type *k = &scan->operands[1]->type;
  if (!loop || vtb_kernel_kind_of(loop) != VTB_KERNEL_LOOP || loop->n_operands != 2) return NULL;
  const vtb_inst *mul = loop->callee->first;
  bool first = is_number_a_row(&loop->operands[0]->type, k);
  *gain = loop->operands[first ? 0 : 1], *keys = loop->operands[first ? 1 : 0];
  if (mul->next || !is_product(mul, loop->callee->args[0], loop->callee->args[1]) ||
      !is_number_a_row(&(*gain)->type, k) || vtb_type_count(&(*keys)->type) != vtb_type_count(k))
    return NULL;
  return vtb_only_reader(loop->results[0]) ? loop : NULL;
}

/* The row behind dk, with nothing but both products and the second's sum. */
static vtb_inst *adjoint_row(const vtb_inst *scan, const vtb_value *keys, const vtb_value *gain) {
  const vtb_value *dk = scan->results[1];
  vtb_inst *row = vtb_only_reader(dk);
  if (!row || vtb_kernel_kind_of(row) != VTB_KERNEL_ROW || row->n_results != 2) return NULL;
  const vtb_value *of = argument_of(row, dk), *k = argument_of(row, keys),
                  *g = argument_of(row, gain);
  bool scaled = false, summed = false;
  for (const vtb_inst *x = row->callee->first; x; x = x->next) {
    int n = 0;
    const int64_t *axes = x->op == VTB_OP_reduce_sum ? vtb_attr_ints(x, "axes", &n) : NULL;
    const vtb_inst *from = x->operands[0]->def;
    if (g && is_product(x, of, g))
      scaled = true;
    else if (axes && n == 1 && axes[0] == 3 && vtb_attr_int(x, "keep", 0) && from && k &&
             is_product(from, of, k))
      summed = true;
    else if (!k || !is_product(x, of, k))
      return NULL;
  }
  return scaled && summed ? row : NULL;
}

/* The scan that v is an operand of, as it is or times a number a row. */
static const vtb_inst *scan_behind(const vtb_value *v) {
  vtb_inst **readers;
  const vtb_inst *scan = NULL;
  size_t n = vtb_value_readers(v, &readers);
  for (size_t i = 0; i < n && !scan; i++) {
    const vtb_inst *r = readers[i];
    if (r->op == VTB_OP_linscan_grad) scan = r;
    if (!vtb__is_gain_loop(r)) continue;
    const vtb_inst *behind = vtb_only_reader(r->results[0]);
    if (behind && behind->op == VTB_OP_linscan_grad) scan = behind;
  }
  vtb_free(readers);
  return scan;
}

static bool takes(const vtb_inst *einsum) {
  if (!vtb__is_small_map(einsum)) return false;
  vtb_inst **readers;
  const vtb_inst *view = vtb_only_reader(einsum->results[0]);
  if (!view || view->op != VTB_OP_reshape) return false;
  const vtb_value *v = view->results[0], *keys = NULL, *gain = NULL;
  const vtb_inst *scan = scan_behind(v);
  if (!scan || !is_short(scan) || v->type.rank != 4 ||
      v->type.dim[3].size % vtb__small_map_size(einsum) != 0 || vtb_is_returned(v))
    return false;
  const vtb_inst *loop = keys_loop(scan, &keys, &gain);
  const vtb_inst *row = loop && keys == v ? adjoint_row(scan, keys, gain) : NULL;
  bool only = row != NULL || (v != keys && (scan->operands[0] == v || scan->operands[2] == v));
  size_t n = vtb_value_readers(v, &readers);
  for (size_t i = 0; i < n; i++)
    only &= row ? readers[i] == loop || readers[i] == row : readers[i] == scan;
  vtb_free(readers);
  for (int o = 0, times = 0; o < scan->n_operands; o++) {
    times += scan->operands[o] == v;
    only &= times <= 1 && (o <= 2 || scan->operands[o] != v);
  }
  return only && loop && adjoint_row(scan, keys, gain);
}

/* The matrices that make operand o, or what its gain multiplies. */
static vtb_inst *take_map(vtb__group *g, const vtb_value *rows) {
  vtb_inst *view = rows->def, *map = view && view->n_operands == 1 ? view->operands[0]->def : NULL;
  vtb__group before = *g;
  if (!map || view->op != VTB_OP_reshape || !takes(map) || !vtb__maps_are_alike(g, map))
    return NULL;
  vtb__map_reads_rows(g->func, map, &rows->type);
  if (vtb__group_add(g, map) && vtb__group_add(g, map->operands[0]->def) && vtb__group_is_whole(g))
    return map;
  *g = before;
  return NULL;
}

static bool visit(vtb_pass_context *c, vtb_func *f, vtb_inst *scan) {
  const vtb_value *keys = NULL, *gain = NULL;
  vtb_inst *loop = keys_loop(scan, &keys, &gain), *maps[3] = {NULL};
  vtb_inst *row = loop ? adjoint_row(scan, keys, gain) : NULL;
  if (!row) return false;
  vtb_func_number(f);
  vtb__group g = vtb__group_round(f, scan);
  vtb__group_add(&g, loop);
  vtb__group_add(&g, row);
  if (!vtb__group_is_whole(&g) || vtb__group_is_read(&g, loop->results[0]) ||
      vtb__group_is_read(&g, scan->results[1]) || !vtb__group_is_read(&g, scan->results[0]) ||
      !vtb__group_is_read(&g, scan->results[2]) || !vtb__group_is_read(&g, row->results[0]) ||
      !vtb__group_is_read(&g, row->results[1]))
    return false;
  vtb__group all = g;
  vtb_decision d = {.fusion = "fuse_mixer_grad"};
  for (int o = 0; o < 3; o++) maps[o] = take_map(&all, o == 1 ? keys : scan->operands[o]);
  vtb__group some = all;
  bool with_maps = vtb__group_pays(c, &d, &some, VTB_KERNEL_MIXER_GRAD, &all);
  bool taken = with_maps || vtb__group_pays(c, &d, &g, VTB_KERNEL_MIXER_GRAD, &all);
  vtb__group_decided(c, &d);
  if (!taken) return false;
  if (with_maps) g = all;
  vtb__mixer_way ways[3] = {0};
  int sum = row->results[0]->type.dim[3].size == 1;
  for (int o = 0; o < 3 && with_maps; o++)
    if (maps[o])
      ways[o] = (vtb__mixer_way){.map = maps[o],
                                 .made = o == 1 ? row : scan,
                                 .d = o == 1 ? row->results[sum] : scan->results[o]};
  vtb__group_take_back(&g, ways);
  vtb__group_join(&g, VTB_KERNEL_MIXER_GRAD);
  return true;
}

vtb_status vtb__pass_fuse_mixer_grad(vtb_pass_context *c, vtb_error *err) {
  (void)err;
  for (vtb_func *f = c->module->first; f; f = f->next) {
    if (f->kind != VTB_FUNC_PLAIN) continue;
    for (vtb_inst *i = f->first, *next; i; i = next) {
      next = i->next;
      if (is_short(i) && visit(c, f, i)) next = f->first;
    }
  }
  return VTB_OK;
}
