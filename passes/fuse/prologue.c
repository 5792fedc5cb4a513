/* prologue: the rotary embedding of an attention's queries and keys moves into the attention's
 * kernel.
 *
 *   %q2 = ... pairs of channels of %q turned ...
 *   %y, %lse = attention %q2, %k2, %v
 *   =>
 *   %y, %lse = fused @attention(%q, %cos, %sin, %k, ..., %v) {kind = "attention", turned = 3}
 *   func kernel @attention { the turns, then the attention }
 *
 * Likewise attention_grad, if the adjoints of what is turned are turned back behind it, which its
 * kernel then does too.
 *
 * Before `fuse`. A turn is what rotate_heads of std.attention becomes: channels 2p and 2p+1 of a
 * head, below the width of the tables, times cosines and sines that depend on token and channel,
 * and on the head or not. Declines where turned rows are wanted elsewhere too, as a gradient may.
 *
 * No row of ir/kernels.def: a row's kernel holds what was there, and emitters of attention want
 * turns in one form, with operands in one order and tables without axes of 1.
 */
#include "ir/attention.h"
#include "passes/passes_internal.h"

#include "ir/kernels.h"

#include <stdlib.h>

typedef struct turn {
  vtb_value *pairs; /* [B, N, h, r/2, 2] */
  /* [B, N, h, K], of which the pairs are the first channels; NULL: they are all */
  vtb_value *whole;
  vtb_value *cosines, *sines; /* [..1, N, 1 or h, r/2, 1] */
  /* of attention_grad: the adjoint of the pairs before the turn, made of that behind it */
  vtb_value *back, *adjoint;
} turn;

static bool is_op(const vtb_value *v, vtb_op op, int n_operands) {
  return v->def && v->def->op == op && v->def->n_operands == n_operands;
}

static bool is_slice(const vtb_value *v, int axis, int64_t start, int64_t limit) {
  return is_op(v, VTB_OP_slice, 1) && vtb_attr_int(v->def, "axis", 0) == axis &&
         vtb_attr_int(v->def, "step", 1) == 1 && vtb_attr_int(v->def, "start", 0) == start &&
         vtb_attr_int(v->def, "limit", 0) == limit;
}

/* The factor beside x in the product v; NULL if v is no such product. */
static vtb_value *beside(const vtb_value *v, const vtb_value *x) {
  if (!is_op(v, VTB_OP_mul, 2)) return NULL;
  return v->def->operands[0] == x   ? v->def->operands[1]
         : v->def->operands[1] == x ? v->def->operands[0]
                                    : NULL;
}

/* first = even c - odd s, second = even s + odd c; even and odd are the two halves of pairs. */
static bool is_rotation(const vtb_value *first, const vtb_value *second, turn *t) {
  if (!is_op(first, VTB_OP_sub, 2) || !is_op(second, VTB_OP_add, 2) ||
      !is_op(first->def->operands[0], VTB_OP_mul, 2))
    return false;
  for (int side = 0; side < 2; side++) {
    vtb_value *even = first->def->operands[0]->def->operands[side];
    if (!is_slice(even, 4, 0, 1)) continue;
    t->pairs = even->def->operands[0];
    t->cosines = beside(first->def->operands[0], even);
    t->sines = beside(second->def->operands[0], even);
    vtb_value *odd = NULL;
    for (int o = 0; o < 2 && is_op(first->def->operands[1], VTB_OP_mul, 2); o++) {
      vtb_value *x = first->def->operands[1]->def->operands[o];
      if (is_slice(x, 4, 1, 2) && x->def->operands[0] == t->pairs) odd = x;
    }
    return odd && t->cosines && t->sines && beside(first->def->operands[1], odd) == t->sines &&
           beside(second->def->operands[1], odd) == t->cosines;
  }
  return false;
}

static bool is_table(const vtb_value *v, const vtb_type *pairs) {
  const vtb_type *t = &v->type;
  int r = t->rank;
  if (r < 4 || (r == 5 && t->dim[0].size != 1) || t->dim[r - 1].size != 1) return false;
  int64_t heads = t->dim[r - 3].size;
  return t->dim[r - 4].size == pairs->dim[1].size && (heads == 1 || heads == pairs->dim[2].size) &&
         t->dim[r - 2].size == pairs->dim[3].size;
}

static bool find_turn(vtb_value *v, turn *t) {
  vtb_value *turned = v, *rest = NULL;
  *t = (turn){0};
  if (is_op(v, VTB_OP_concat, 2) && vtb_attr_int(v->def, "axis", 0) == 3) {
    turned = v->def->operands[0];
    rest = v->def->operands[1];
  }
  if (!is_op(turned, VTB_OP_reshape, 1) || !is_op(turned->def->operands[0], VTB_OP_concat, 2))
    return false;
  const vtb_inst *halves = turned->def->operands[0]->def;
  const vtb_type *pairs = &halves->results[0]->type;
  if (pairs->rank != 5 || vtb_attr_int(halves, "axis", 0) != 4 || pairs->dim[4].size != 2)
    return false;
  if (!is_rotation(halves->operands[0], halves->operands[1], t) ||
      !vtb_type_equal(&t->pairs->type, pairs))
    return false;
  for (int a = 0; a < 3; a++)
    if (pairs->dim[a].size != turned->type.dim[a].size) return false;
  if (!is_table(t->cosines, pairs) || !vtb_type_equal(&t->cosines->type, &t->sines->type))
    return false;
  if (!rest) return true;
  int64_t r = turned->type.dim[3].size;
  if (!is_op(t->pairs, VTB_OP_reshape, 1) || !is_slice(t->pairs->def->operands[0], 3, 0, r))
    return false;
  t->whole = t->pairs->def->operands[0]->def->operands[0];
  return vtb_type_equal(&t->whole->type, &v->type) && is_slice(rest, 3, r, v->type.dim[3].size) &&
         rest->def->operands[0] == t->whole;
}

/* ---- turned back ----------------------------------------------------------------------------- */

/* The half of some pairs, 0 for even, in a product; *factor is beside it. */
static vtb_value *half_in(const vtb_value *v, int which, vtb_value **factor) {
  for (int o = 0; o < 2 && is_op(v, VTB_OP_mul, 2); o++) {
    vtb_value *half = v->def->operands[o];
    *factor = v->def->operands[1 - o];
    if (is_slice(half, 4, which, which + 1)) return half;
  }
  return NULL;
}

/* first = even c + odd s, second = odd c - even s, as a gradient writes it; even and odd are the
 * halves of pairs, which nothing else reads. */
static bool is_rotation_back(const vtb_inst *first, const vtb_inst *second, const int *uses,
                             turn *t) {
  for (int side = 0; side < 4; side++) {
    const vtb_value *even_c = first->operands[side & 1], *odd_s = first->operands[1 - (side & 1)];
    const vtb_value *odd_c = second->operands[side >> 1],
                    *even_s = second->operands[1 - (side >> 1)];
    const vtb_value *even = half_in(even_c, 0, &t->cosines), *odd = half_in(odd_s, 1, &t->sines);
    if (!even || !odd || even->def->operands[0] != odd->def->operands[0]) continue;
    t->pairs = even->def->operands[0];
    if (uses[even->id] != 2 || uses[odd->id] != 2 || uses[t->pairs->id] != 2) return false;
    if (beside(odd_c, odd) != t->cosines || !is_op(even_s, VTB_OP_mul, 2)) continue;
    for (int o = 0; o < 2; o++) {
      const vtb_value *minus = even_s->def->operands[o];
      if (is_op(minus, VTB_OP_neg, 1) && minus->def->operands[0] == even &&
          beside(even_s, minus) == t->sines)
        return true;
    }
  }
  return false;
}

static bool reads(const vtb_inst *i, const vtb_value *v) {
  for (int o = 0; o < i->n_operands; o++)
    if (i->operands[o] == v) return true;
  return false;
}

/* Whether the channels of v below r are read by `part` alone, which is v itself or a slice of
 * it. */
static bool is_read_once(const vtb_func *f, const vtb_value *v, const vtb_value *part, int64_t r,
                         const int *uses) {
  if (uses[part->id] != 1) return false;
  if (part == v) return true;
  int others = 0;
  for (const vtb_inst *i = f->first; i; i = i->next)
    others += reads(i, v) && i != part->def && is_slice(i->results[0], 3, r, v->type.dim[3].size);
  return uses[v->id] == 1 + others;
}

/* Finds where the adjoint `v` of turned rows is turned back by the same tables. */
static bool find_turn_back(const vtb_func *f, const vtb_value *v, const int *uses, turn *t) {
  int64_t r = 2 * t->pairs->type.dim[3].size;
  for (const vtb_inst *i = v->def->next; i; i = i->next) {
    turn back = {0};
    if (i->op != VTB_OP_concat || i->n_operands != 2 || vtb_attr_int(i, "axis", 0) != 4) continue;
    if (!vtb_type_equal(&i->results[0]->type, &t->pairs->type)) continue;
    if (!is_op(i->operands[0], VTB_OP_add, 2) || !is_op(i->operands[1], VTB_OP_add, 2)) continue;
    if (!is_rotation_back(i->operands[0]->def, i->operands[1]->def, uses, &back)) continue;
    if (back.cosines != t->cosines || back.sines != t->sines ||
        !is_op(back.pairs, VTB_OP_reshape, 1))
      continue;
    const vtb_value *part = back.pairs->def->operands[0];
    bool whole = part == v && r == v->type.dim[3].size;
    if (!whole && (!is_slice(part, 3, 0, r) || part->def->operands[0] != v)) continue;
    t->back = i->results[0];
    t->adjoint = back.pairs;
    return is_read_once(f, v, part, r, uses);
  }
  return false;
}

/* ---- the kernel ------------------------------------------------------------------------------ */

typedef struct kernel {
  vtb_func *func;
  vtb_builder inner, outer;
  vtb_value *inputs[12];
  int n;
} kernel;

static vtb_value *argument(kernel *k, vtb_value *v) {
  k->inputs[k->n++] = v;
  return vtb_func_add_arg(k->func, v->name, v->type);
}

/* Outside: the table as [N, 1 or h, r/2]. Inside: with the axis of the pair. */
static vtb_value *table(kernel *k, vtb_value *v) {
  vtb_type t = {.dtype = VTB_F32, .rank = 3};
  for (int a = 0; a < 3; a++) t.dim[a].size = v->type.dim[v->type.rank - 4 + a].size;
  vtb_value *inside = argument(k, vtb_b_reshape(&k->outer, v, &t));
  t.dim[t.rank++].size = 1;
  return vtb_b_reshape(&k->inner, inside, &t);
}

/* Rows x, inside the kernel, with channels below the tables' width turned, or turned back. */
static vtb_value *rotated(vtb_builder *b, vtb_value *x, const turn *t, vtb_value *const *tables,
                          bool back) {
  vtb_type pairs = t->pairs->type, rows = x->type;
  int64_t all = rows.dim[3].size, width = 2 * pairs.dim[3].size;
  vtb_value *split = vtb_b_reshape(b, width < all ? vtb_b_slice(b, x, 3, 0, width, 1) : x, &pairs);
  vtb_value *even = vtb_b_slice(b, split, 4, 0, 1, 1), *odd = vtb_b_slice(b, split, 4, 1, 2, 1);
  vtb_value *cosines = tables[0], *sines = tables[1];
  vtb_value *even_c = vtb_b_binary(b, VTB_OP_mul, even, cosines),
            *odd_s = vtb_b_binary(b, VTB_OP_mul, odd, sines);
  vtb_value *even_s = vtb_b_binary(b, VTB_OP_mul, even, sines),
            *odd_c = vtb_b_binary(b, VTB_OP_mul, odd, cosines);
  vtb_value *halves[2] = {vtb_b_binary(b, back ? VTB_OP_add : VTB_OP_sub, even_c, odd_s),
                          back ? vtb_b_binary(b, VTB_OP_sub, odd_c, even_s)
                               : vtb_b_binary(b, VTB_OP_add, even_s, odd_c)};
  rows.dim[3].size = width;
  vtb_value *y = vtb_b_reshape(b, vtb_b_concat(b, halves, 2, 4), &rows);
  if (width == all) return y;
  return vtb_b_concat(b, (vtb_value *[]){y, vtb_b_slice(b, x, 3, width, all, 1)}, 2, 3);
}

/* Operand v of the attention, inside the kernel. */
static vtb_value *turned(kernel *k, vtb_value *v, const turn *t, vtb_value **tables) {
  if (!t->pairs) return argument(k, v);
  vtb_value *x = argument(k, t->whole ? t->whole : vtb_b_reshape(&k->outer, t->pairs, &v->type));
  tables[0] = table(k, t->cosines);
  tables[1] = table(k, t->sines);
  return rotated(&k->inner, x, t, tables, false);
}

static void join(vtb_func *f, vtb_inst *attention, const turn *t) {
  kernel out = {.func = vtb__kernel_new(attention)};
  out.inner = (vtb_builder){.module = f->module, .func = out.func, .span = attention->span};
  out.outer =
      (vtb_builder){.module = f->module, .func = f, .before = attention, .span = attention->span};
  vtb_value *operands[8], *tables[2][2], *results[4];
  for (int o = 0; o < attention->n_operands; o++)
    operands[o] = o < 2 ? turned(&out, attention->operands[o], &t[o], tables[o])
                        : argument(&out, attention->operands[o]);
  const vtb_inst *inside = vtb_inst_clone(&out.inner, attention, operands);
  for (int r = 0; r < inside->n_results; r++)
    results[r] = r < 2 && t[r].back
                     ? rotated(&out.inner, inside->results[r], &t[r], tables[r], true)
                     : inside->results[r];
  vtb_func_set_returns(out.func, results, NULL, inside->n_results);
  vtb_attr attrs[] = {VTB_A_STR("kind", vtb_kernel_kind_name(VTB_KERNEL_ATTENTION)),
                      VTB_A_INT("turned", (t[0].pairs ? 1 : 0) + (t[1].pairs ? 2 : 0))};
  const vtb_inst *fused =
      vtb_build_call(&out.outer, VTB_OP_fused, out.func, out.inputs, out.n, attrs, 2);
  for (int r = 0; r < fused->n_results; r++) {
    vtb__stand_in(attention->results[r], fused->results[r]);
    if (r < 2 && t[r].back) vtb_replace_all(t[r].back, t[r].adjoint);
  }
  vtb_inst_unlink(attention);
}

/* What of operand o (q or k) can move into the kernel. */
static turn turn_of(const vtb_func *f, const vtb_inst *attention, int o, const int *uses,
                    int n_uses) {
  turn t = {0};
  vtb_value *v = attention->operands[o];
  bool found = v->id < n_uses && uses[v->id] == 1 && find_turn(v, &t);
  if (found && attention->op == VTB_OP_attention_grad)
    found =
        attention->results[o]->id < n_uses && find_turn_back(f, attention->results[o], uses, &t);
  return found ? t : (turn){0};
}

vtb_status vtb__pass_prologue(vtb_pass_context *c, vtb_error *err) {
  (void)err;
  for (vtb_func *f = c->module->first; f; f = f->next) {
    if (f->kind != VTB_FUNC_PLAIN) continue;
    int *uses = vtb_count_uses(f), n = f->n_values;
    for (vtb_inst *i = f->first, *next; i; i = next) {
      next = i->next;
      if (i->op != VTB_OP_attention && i->op != VTB_OP_attention_grad) continue;
      turn t[2] = {turn_of(f, i, 0, uses, n), turn_of(f, i, 1, uses, n)};
      if (t[0].pairs || t[1].pairs) join(f, i, t);
    }
    vtb_free(uses);
    vtb__dce_func(f);
  }
  return VTB_OK;
}
