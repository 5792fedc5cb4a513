/* The word of rotary embeddings: what turns an attention's queries or keys becomes part of its
 * kernel, and behind attention_grad what turns their adjoints back.
 *
 *   %q2 = ... pairs of channels of %q turned ...
 *   %y, %lse = attention %q2, %k2, %v
 *   =>
 *   %y, %lse = fused @attention(%q, %cos, %sin, %k, ..., %v) {kind = "attention"}
 *   func kernel @attention { the turns, then the attention }
 *
 * A turn is what rotate_heads of std.attention becomes: channels 2p and 2p+1 of a head, below the
 * width of the tables, times cosines and sines that depend on token and channel, and on the head or
 * not. It is found by writing one down and comparing, and written once more beside the attention:
 * there rows have their heads, and tables no axes of 1. Declines where turned rows are wanted
 * elsewhere too, as a gradient may.
 */
#include "passes/fuse/words.h"

bool vtb__anchor_attention(const vtb_inst *i) {
  return i->op == VTB_OP_attention || i->op == VTB_OP_attention_grad;
}

/* ---- a turn as it is written ----------------------------------------------------------------- */

typedef struct turn {
  vtb_value *pairs, *halves; /* [B, N, h, r/2, 2] before and behind it */
  vtb_value *rows;           /* [B, N, h, K] with the channels that stay */
} turn;

/* Rows x with channels below `width` turned by tables [N, 1 or h, width/2]; or turned back as a
 * gradient writes it. */
static turn write_turn(vtb_builder *b, vtb_value *x, int64_t width, vtb_value *const *tables,
                       bool back) {
  turn t = {0};
  vtb_type pairs = x->type, rows = x->type;
  int64_t all = rows.dim[3].size;
  rows.dim[3] = (vtb_dim){.size = width};
  pairs.rank = 5, pairs.dim[3] = (vtb_dim){.size = width / 2}, pairs.dim[4] = (vtb_dim){.size = 2};
  t.pairs = vtb_b_reshape(b, width < all ? vtb_b_slice(b, x, 3, 0, width, 1) : x, &pairs);
  vtb_value *even = vtb_b_slice(b, t.pairs, 4, 0, 1, 1), *odd = vtb_b_slice(b, t.pairs, 4, 1, 2, 1);
  vtb_type table = tables[0]->type;
  table.rank = 4, table.dim[3] = (vtb_dim){.size = 1};
  vtb_value *cosines = vtb_b_shaped(b, tables[0], &table),
            *sines = vtb_b_shaped(b, tables[1], &table);
  vtb_value *minus = back ? vtb_b_unary(b, VTB_OP_neg, even) : even;
  vtb_value *even_c = vtb_b_binary(b, VTB_OP_mul, even, cosines),
            *odd_s = vtb_b_binary(b, VTB_OP_mul, odd, sines),
            *even_s = vtb_b_binary(b, VTB_OP_mul, minus, sines),
            *odd_c = vtb_b_binary(b, VTB_OP_mul, odd, cosines);
  vtb_value *halves[2] = {vtb_b_binary(b, back ? VTB_OP_add : VTB_OP_sub, even_c, odd_s),
                          vtb_b_binary(b, VTB_OP_add, even_s, odd_c)};
  t.halves = vtb_b_concat(b, halves, 2, 4);
  t.rows = vtb_b_reshape(b, t.halves, &rows);
  if (width < all)
    t.rows = vtb_b_concat(b, (vtb_value *[]){t.rows, vtb_b_slice(b, x, 3, width, all, 1)}, 2, 3);
  return t;
}

/* ---- a turn as it is found ------------------------------------------------------------------- */

/* Values that stand for those that are written: pairs or rows, cosines, sines. */
typedef struct found {
  vtb_value *written[3], *there[3];
} found;

/* v computes what is written as w. */
static bool is_written(found *f, vtb_value *w, vtb_value *v) {
  for (int k = 0; k < 3; k++)
    if (w == f->written[k]) return v == (f->there[k] = f->there[k] ? f->there[k] : v);
  const vtb_inst *x = w->def, *y = v->def;
  if (!x || !y || x->op != y->op || x->n_operands != y->n_operands ||
      !vtb__attrs_within(x, y, NULL) || !vtb__attrs_within(y, x, NULL) ||
      !vtb_type_equal(&w->type, &v->type))
    return false;
  bool commutes = x->op == VTB_OP_mul || x->op == VTB_OP_add;
  found before = *f;
  for (int swap = 0; swap <= commutes; swap++, *f = before) {
    bool same = true;
    for (int o = 0; o < x->n_operands && same; o++)
      same = is_written(f, x->operands[o], y->operands[swap ? 1 - o : o]);
    if (same) return true;
  }
  return false;
}

/* The table as [N, 1 or h, r/2]; of rank 0 where it is none of `rows`, whose first `width` channels
 * turn. */
static vtb_type table_type(const vtb_value *v, const vtb_type *rows, int64_t width) {
  const vtb_type *t = &v->type;
  vtb_type table = {.dtype = VTB_F32};
  int r = t->rank;
  if (r < 4 || (r == 5 && t->dim[0].size != 1) || t->dim[r - 1].size != 1) return table;
  for (int a = 0; a < 3; a++) table.dim[a].size = t->dim[r - 4 + a].size;
  if (table.dim[0].size == rows->dim[1].size && 2 * table.dim[2].size == width &&
      (table.dim[1].size == 1 || table.dim[1].size == rows->dim[2].size))
    table.rank = 3;
  return table;
}

/* Written in a function of its own, to compare with. */
static turn write_apart(vtb_func *f, const vtb_type *rows, int64_t width, bool back, found *out) {
  vtb_type table = {.dtype = VTB_F32, .rank = 4, .dim = {rows->dim[1], rows->dim[2]}};
  table.dim[2].size = width / 2, table.dim[3].size = 1;
  vtb_builder b = {.module = f->module, .func = f};
  vtb_value *x = vtb_func_add_arg(f, "x", *rows), **w = out->written;
  w[1] = vtb_func_add_arg(f, "c", table), w[2] = vtb_func_add_arg(f, "s", table);
  turn t = write_turn(&b, x, width, w + 1, back);
  w[0] = width < rows->dim[3].size && !back ? x : t.pairs;
  return t;
}

/* Channels of the rows v that may be turned. */
static int64_t width_of(const vtb_value *v) {
  bool part = v->def && v->def->op == VTB_OP_concat;
  return part ? v->def->operands[0]->type.dim[3].size : v->type.dim[3].size;
}

static bool find_turn(vtb_func *apart, vtb_value *v, found *out) {
  int64_t width = width_of(v);
  if (!v->def || width % 2) return false;
  turn t = write_apart(apart, &v->type, width, false, out);
  if (!is_written(out, t.rows, v)) return false;
  return (width == v->type.dim[3].size || vtb_type_equal(&out->there[0]->type, &v->type)) &&
         table_type(out->there[1], &v->type, width).rank == 3 &&
         vtb_type_equal(&out->there[1]->type, &out->there[2]->type);
}

/* Where the adjoint v of turned rows is turned back by the same tables: the pairs behind; NULL:
 * nowhere. */
static vtb_value *find_turn_back(vtb_func *apart, vtb_value *v, int64_t width, found *out) {
  turn t = write_apart(apart, &v->type, width, true, out);
  for (vtb_inst *i = v->def->next; i; i = i->next) {
    out->there[0] = NULL;
    if (i->op != VTB_OP_concat || !is_written(out, t.halves, i->results[0])) continue;
    const vtb_value *part = vtb_behind_reshapes(out->there[0]);
    if (width < v->type.dim[3].size && part->def && part->def->op == VTB_OP_slice &&
        vtb_attr_int(part->def, "axis", 0) == 3 && vtb_attr_int(part->def, "start", 0) == 0)
      part = part->def->operands[0];
    if (part == v) return i->results[0];
  }
  return NULL;
}

/* ---- the word -------------------------------------------------------------------------------- */

static bool add_between(vtb__group *g, const vtb_inst *behind, const vtb_inst *before) {
  bool room = true;
  for (vtb_inst *i = behind->next; i != before; i = i->next) room = room && vtb__group_add(g, i);
  return room;
}

/* The turn back stands behind the attention, and its readers read that. */
static bool put_back(vtb__group *g, vtb_builder *b, vtb_value *dx, vtb_value *old, int64_t width,
                     vtb_value *const *tables) {
  vtb_inst *attention = dx->def, *next = b->before = attention->next;
  turn t = write_turn(b, dx, width, tables, true);
  bool room = add_between(g, attention, next), part = width < dx->type.dim[3].size;
  vtb_value *turned = part ? vtb_b_slice(b, t.rows, 3, 0, width, 1) : t.rows;
  vtb_replace_all(old, vtb_b_reshape(b, turned, &old->type));
  for (vtb_inst **r = vtb__readers(dx); *r; r++) /* the channels that stay */
    if (!vtb__group_has(g, *r) && (*r)->op == VTB_OP_slice && vtb_attr_int(*r, "axis", 0) == 3 &&
        vtb_attr_int(*r, "start", 0) >= width)
      vtb_inst_set_operand(*r, 0, t.rows);
  return room;
}

VTB__WORD(turn) {
  vtb_inst *attention = g->anchor;
  int o = at == attention->operands[1];
  bool grad = attention->op == VTB_OP_attention_grad;
  if (member != attention || at != attention->operands[o] || !vtb_only_reader(at)) return false;
  vtb_value *rows = attention->operands[o], *dx = grad ? attention->results[o] : NULL, *old = NULL;
  vtb_func *apart = vtb__kernel_new(attention);
  found f = {0};
  int64_t width = width_of(rows);
  bool turned = find_turn(apart, rows, &f);
  vtb_value *x = f.there[0], *tables[2] = {f.there[1], f.there[2]};
  if (turned && grad) turned = (old = find_turn_back(apart, dx, width, &f)) != NULL;
  vtb_module_remove(g->func->module, apart);
  if (!turned) return false;
  vtb_builder b = vtb__before(attention);
  x = vtb_b_shaped(&b, x, &rows->type);
  for (int k = 0; k < 2; k++) {
    vtb_type t = table_type(tables[k], &rows->type, width);
    tables[k] = vtb_b_reshape(&b, tables[k], &t);
  }
  const vtb_inst *last = attention->prev;
  vtb_inst_set_operand(attention, o, write_turn(&b, x, width, tables, false).rows);
  bool room = add_between(g, last, attention) && (!grad || put_back(g, &b, dx, old, width, tables));
  vtb__dce_func(g->func);
  vtb_func_number(g->func);
  return room && !(grad && vtb__group_is_read(g, dx));
}
