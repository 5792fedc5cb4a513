/* Rotary embeddings as IR, as std.attention and autodiff write them: for tests of their way into
 * attention's kernels. */
#ifndef VTB_TEST_TURNED_H
#define VTB_TEST_TURNED_H

#include "ir/attention.h"
#include "ir/ops.h"
#include "ir/ir.h"

/* Tables of a turn, with the axis of the pair: [n, 1 or h, r/2, 1]. */
typedef struct turn_tables {
  vtb_value *cosines, *sines;
} turn_tables;

static inline vtb_type turn_table_type(int64_t n, int64_t heads, int64_t r) {
  return vtb_type_make(VTB_F32, 3, (int64_t[]){n, heads, r / 2});
}
static inline turn_tables turn_tables_of(vtb_builder *b, vtb_value *cosines, vtb_value *sines) {
  vtb_type t = cosines->type;
  t.dim[t.rank++] = (vtb_dim){.size = 1};
  return (turn_tables){vtb_b_reshape(b, cosines, &t), vtb_b_reshape(b, sines, &t)};
}

typedef struct turn_halves {
  vtb_value *even, *odd;
  vtb_type rows; /* of the channels that turn */
} turn_halves;

static inline turn_halves turn_split(vtb_builder *b, vtb_value *x, const turn_tables *t) {
  turn_halves s = {.rows = x->type};
  int64_t r = 2 * t->cosines->type.dim[2].size, all = x->type.dim[3].size;
  vtb_type pairs = x->type;
  s.rows.dim[3] = (vtb_dim){.size = r};
  pairs.dim[3] = (vtb_dim){.size = r / 2};
  pairs.dim[pairs.rank++] = (vtb_dim){.size = 2};
  vtb_value *split = vtb_b_reshape(b, r < all ? vtb_b_slice(b, x, 3, 0, r, 1) : x, &pairs);
  s.even = vtb_b_slice(b, split, 4, 0, 1, 1);
  s.odd = vtb_b_slice(b, split, 4, 1, 2, 1);
  return s;
}

static inline vtb_value *turn_join(vtb_builder *b, vtb_value *x, vtb_value *even, vtb_value *odd,
                                   const vtb_type *rows) {
  int64_t r = rows->dim[3].size, all = x->type.dim[3].size;
  vtb_value *y = vtb_b_reshape(b, vtb_b_concat(b, (vtb_value *[]){even, odd}, 2, 4), rows);
  if (r == all) return y;
  return vtb_b_concat(b, (vtb_value *[]){y, vtb_b_slice(b, x, 3, r, all, 1)}, 2, 3);
}

/* Rows x [B, n, h, K] with their first channels turned. */
static inline vtb_value *turned(vtb_builder *b, vtb_value *x, const turn_tables *t) {
  turn_halves s = turn_split(b, x, t);
  vtb_value *even_c = vtb_b_binary(b, VTB_OP_mul, s.even, t->cosines);
  vtb_value *odd_s = vtb_b_binary(b, VTB_OP_mul, s.odd, t->sines);
  vtb_value *even_s = vtb_b_binary(b, VTB_OP_mul, s.even, t->sines);
  vtb_value *odd_c = vtb_b_binary(b, VTB_OP_mul, s.odd, t->cosines);
  return turn_join(b, x, vtb_b_binary(b, VTB_OP_sub, even_c, odd_s),
                   vtb_b_binary(b, VTB_OP_add, even_s, odd_c), &s.rows);
}

/* The adjoint of x from that of turned(x). */
static inline vtb_value *turned_back(vtb_builder *b, vtb_value *dx, const turn_tables *t) {
  turn_halves s = turn_split(b, dx, t);
  vtb_value *odd_c = vtb_b_binary(b, VTB_OP_mul, s.odd, t->cosines);
  vtb_value *odd_s = vtb_b_binary(b, VTB_OP_mul, s.odd, t->sines);
  vtb_value *minus = vtb_b_binary(b, VTB_OP_mul, vtb_b_unary(b, VTB_OP_neg, s.even), t->sines);
  vtb_value *even_c = vtb_b_binary(b, VTB_OP_mul, s.even, t->cosines);
  vtb_value *odd = vtb_b_binary(b, VTB_OP_add, odd_c, minus);
  return turn_join(b, dx, vtb_b_binary(b, VTB_OP_add, odd_s, even_c), odd, &s.rows);
}

/* Kernels of turned attention in f; *others: what else computes. */
static inline int turned_kernels(const vtb_func *f, int *others) {
  int n = 0;
  *others = 0;
  for (const vtb_inst *i = f->first; i; i = i->next) {
    n += vtb_is_turned_attention(i);
    *others += vtb_op_get(i->op)->klass != VTB_CLASS_SHAPE && !vtb_is_turned_attention(i);
  }
  return n;
}

#endif
