/* Block-diagonal products with small square blocks, as in headwise projections:
 *
 *   y[t, g, o] = sum_i x[t, g, i] w[g, o, i]          "bngi,goi->bngo", and its adjoint in x
 *   dw[g, o, i] = sum_t dy[t, g, o] x[t, g, i]        "bngo,bngi->goi"
 *
 * t stands for any letters. Lanes run over c = (g, o): a vector holds whole blocks, and x[t, g, i]
 * for all its lanes is a shuffle of the vector of x at c. The weights are laid out as w[i][c]
 * first; they stay in registers while a block of tokens passes. Blocks of size 2, 4, ... up to the
 * vector width only.
 */
#include <string.h>

#include "codegen/cpu/product/einsum.h"
#include "ir/ops.h"

enum { TOKENS = 64, TOKENS_SUMMED = 256, MOST_BLOCK = 16 };

typedef struct block_form {
  const vtb__letter *g, *in, *out; /* group; summed or inner letter; the other inner letter */
  int x, w, y; /* tensors: tokens in, weights, tokens out. For dw: y is the operand with `out` */
  int64_t size, width; /* of a block; of all blocks */
  /* token letters but for the merged innermost ones */
  const vtb__letter *outer[EINSUM_MOST_LETTERS];
  int n_outer;
  bool adds;
  int64_t outer_size;
  int64_t tokens, step[EINSUM_TENSORS]; /* innermost token letters merged, and their strides */
} block_form;

static const vtb__letter *only_letter(const vtb__letters *l, vtb_letter_role class) {
  const vtb__letter *found = NULL;
  for (int i = 0; i < l->n; i++) {
    if (l->at[i].role != class) continue;
    if (found) return NULL;
    found = &l->at[i];
  }
  return found;
}

static bool blocks_are_adjacent(const block_form *f, const vtb__letter *inner, int tensor) {
  return inner->stride[tensor] == 1 && f->g->stride[tensor] == f->size;
}

/* Token letters by their place in x; those that join keep one stride in both tensors t and u. */
static void gather_tokens(const vtb__letters *l, vtb_letter_role class, block_form *f, int t,
                          int u) {
  f->tokens = 1;
  f->outer_size = 1;
  f->n_outer = 0;
  bool open = true;
  for (int axis = VTB_MAX_RANK; axis-- > 0;)
    for (int i = 0; i < l->n; i++) {
      const vtb__letter *x = &l->at[i];
      if (x->role != class || x->at[t] != axis) continue;
      if (f->tokens == 1 && !f->n_outer) {
        memcpy(f->step, x->stride, sizeof f->step);
        f->tokens = x->size;
        continue;
      }
      open &= x->stride[t] == f->step[t] * f->tokens && x->stride[u] == f->step[u] * f->tokens &&
              x->stride[EINSUM_ADD] == f->step[EINSUM_ADD] * f->tokens;
      if (open) {
        f->tokens *= x->size;
      } else {
        f->outer[f->n_outer++] = x; /* innermost first */
        f->outer_size *= x->size;
      }
    }
}

static bool good_size(const vtb_cpu *c, int64_t n) {
  return n >= 2 && n <= MOST_BLOCK && n <= c->width && (n & (n - 1)) == 0;
}

/* ---- shared emission ------------------------------------------------------------------------- */

/* Offsets of the outer token letters in every tensor for one linear number. */
static void outer_offsets(vtb_cpu *c, const block_form *f, LLVMValueRef number, LLVMValueRef *at) {
  for (int x = 0; x < EINSUM_TENSORS; x++) at[x] = vtb_cpu_i64(c, 0);
  for (int i = 0; i < f->n_outer; i++) {
    bool last = i + 1 == f->n_outer;
    LLVMValueRef k = last ? number : vtb_cpu_rem(c, number, f->outer[i]->size);
    if (!last) number = vtb_cpu_div(c, number, f->outer[i]->size);
    for (int x = 0; x < EINSUM_TENSORS; x++)
      at[x] = vtb_cpu_add(c, at[x], vtb_cpu_mul(c, k, f->outer[i]->stride[x]));
  }
}

/* Lane l takes element i of its own block. */
static LLVMValueRef spread(vtb_cpu *c, LLVMValueRef v, int64_t size, int i) {
  LLVMValueRef lane[64];
  for (int l = 0; l < c->width; l++)
    lane[l] = LLVMConstInt(c->i32, (unsigned long long)(l / size * size + i), 0);
  return LLVMBuildShuffleVector(c->b, v, LLVMGetPoison(LLVMTypeOf(v)),
                                LLVMConstVector(lane, (unsigned)c->width), "");
}

static LLVMValueRef load(vtb_cpu *c, LLVMValueRef ptr, LLVMValueRef mask) {
  return mask ? vtb_cpu_load_masked(c, ptr, mask, c->width) : vtb_cpu_load(c, ptr, c->width);
}

static void store(vtb_cpu *c, LLVMValueRef v, LLVMValueRef ptr, LLVMValueRef mask) {
  if (mask)
    vtb_cpu_store_masked(c, v, ptr, mask);
  else
    vtb_cpu_store(c, v, ptr);
}

typedef struct span {
  LLVMValueRef x, y, to;  /* pointers at the outer letters' place; weights or sums */
  LLVMValueRef add;       /* what is added, or NULL */
  LLVMValueRef from, end; /* tokens */
} span;
typedef void (*column_fn)(vtb_cpu *c, const block_form *f, const span *s, LLVMValueRef column,
                          LLVMValueRef mask);

static void for_columns(vtb_cpu *c, const block_form *f, const span *s, column_fn body) {
  int64_t whole = f->width / c->width * c->width;
  if (whole) {
    vtb_cpu_for l =
        vtb_cpu_for_begin(c, vtb_cpu_i64(c, 0), vtb_cpu_i64(c, whole), vtb_cpu_i64(c, c->width));
    body(c, f, s, l.i, NULL);
    vtb_cpu_for_end(c, &l);
  }
  if (whole < f->width)
    body(c, f, s, vtb_cpu_i64(c, whole),
         vtb_cpu_mask(c, vtb_cpu_i64(c, f->width - whole), c->width));
}

/* The range of tokens of a piece, and pointers. index = outer * pieces + piece. */
static span span_of(vtb_cpu *c, const block_form *f, vtb_cpu_task *t, int64_t piece_tokens,
                    int64_t pieces) {
  LLVMValueRef at[EINSUM_TENSORS], piece = vtb_cpu_rem(c, t->index, pieces);
  outer_offsets(c, f, vtb_cpu_div(c, t->index, pieces), at);
  span s = {.from = vtb_cpu_mul(c, piece, piece_tokens)};
  s.end = vtb_cpu_min(c, vtb_cpu_add(c, s.from, vtb_cpu_i64(c, piece_tokens)),
                      vtb_cpu_i64(c, f->tokens));
  s.x = vtb_cpu_at(c, t->t[vtb__einsum_tensor(c, f->x)].ptr, at[f->x]);
  s.y = vtb_cpu_at(c, t->t[vtb__einsum_tensor(c, f->y)].ptr, at[f->y]);
  if (f->adds) s.add = vtb_cpu_at(c, t->t[vtb__einsum_tensor(c, EINSUM_ADD)].ptr, at[EINSUM_ADD]);
  return s;
}

/* ---- y = x w --------------------------------------------------------------------------------- */

static void apply_column(vtb_cpu *c, const block_form *f, const span *s, LLVMValueRef column,
                         LLVMValueRef mask) {
  LLVMValueRef w[MOST_BLOCK];
  for (int i = 0; i < f->size; i++)
    w[i] =
        load(c, vtb_cpu_at(c, s->to, vtb_cpu_add(c, column, vtb_cpu_i64(c, i * f->width))), mask);
  /* a bias: the same for every token of the piece */
  bool one_row = f->adds && f->step[EINSUM_ADD] == 0;
  LLVMValueRef bias = one_row ? load(c, vtb_cpu_at(c, s->add, column), mask) : NULL;
  vtb_cpu_for l = vtb_cpu_for_begin(c, s->from, s->end, vtb_cpu_i64(c, 1));
  LLVMValueRef x = load(
      c, vtb_cpu_at(c, s->x, vtb_cpu_add(c, vtb_cpu_mul(c, l.i, f->step[f->x]), column)), mask);
  LLVMValueRef first = spread(c, x, f->size, 0), start = bias;
  if (f->adds && !bias)
    start = load(
        c, vtb_cpu_at(c, s->add, vtb_cpu_add(c, vtb_cpu_mul(c, l.i, f->step[EINSUM_ADD]), column)),
        mask);
  LLVMValueRef acc =
      start ? vtb_cpu_fma(c, first, w[0], start) : LLVMBuildFMul(c->b, first, w[0], "");
  for (int i = 1; i < f->size; i++) acc = vtb_cpu_fma(c, spread(c, x, f->size, i), w[i], acc);
  store(c, acc, vtb_cpu_at(c, s->y, vtb_cpu_add(c, vtb_cpu_mul(c, l.i, f->step[f->y]), column)),
        mask);
  vtb_cpu_for_end(c, &l);
}

/* w[in][g][out], dense. */
static int64_t lay_out_weights(vtb_cpu *c, const block_form *f) {
  vtb_value v = {.type = {.dtype = VTB_F32, .rank = 3}, .name = "weights"};
  const vtb__letter *order[] = {f->in, f->g, f->out};
  int64_t stride[3];
  for (int a = 0; a < 3; a++) {
    v.type.dim[a].size = order[a]->size;
    stride[a] = order[a]->stride[f->w];
  }
  vtb_root root = {.value = &v, .tensor = -1, .temp = vtb_cpu_temp(c, vtb_type_count(&v.type) * 4)};
  vtb__dense_strides(&v.type, root.stride);
  vtb_cpu_expr e;
  vtb__expr_init(&e, c, NULL);
  vtb_vec_push(&e.body.leaves, ((vtb_leaf){&v, f->w, 0, stride}));
  vtb__emit_loop(&e.body, &root, 1);
  vtb__expr_free(&e);
  return root.temp;
}

static void emit_apply(vtb_cpu *c, const block_form *f) {
  int64_t weights = lay_out_weights(c, f), pieces = (f->tokens + TOKENS - 1) / TOKENS;
  vtb_cpu_task *t =
      vtb__task_begin(c, "blocks", f->outer_size * pieces, 1 + 8192 / (TOKENS * f->width));
  span s = span_of(c, f, t, TOKENS, pieces);
  s.to = vtb_cpu_temp_ptr(c, t, weights);
  for_columns(c, f, &s, apply_column);
  vtb_cpu_task_end(c, t);
}

static bool match_apply(const vtb_cpu *c, const vtb__letters *l, block_form *f) {
  f->g = only_letter(l, VTB_LETTER_BATCH);
  f->in = only_letter(l, VTB_LETTER_SUM);
  if (!f->g || !f->in) return false;
  for (int side = 0; side < 2; side++) { /* which operand is the weights */
    vtb_letter_role own = side ? VTB_LETTER_COLUMNS : VTB_LETTER_ROWS,
                    tokens = side ? VTB_LETTER_ROWS : VTB_LETTER_COLUMNS;
    f->w = side ? EINSUM_B : EINSUM_A;
    f->x = side ? EINSUM_A : EINSUM_B;
    f->y = EINSUM_OUT;
    f->out = only_letter(l, own);
    if (!f->out || f->out->size != f->in->size || !good_size(c, f->in->size)) continue;
    f->size = f->in->size;
    f->width = f->size * f->g->size;
    if (!blocks_are_adjacent(f, f->in, f->x) || !blocks_are_adjacent(f, f->out, f->y)) continue;
    if (l->adds && !blocks_are_adjacent(f, f->out, EINSUM_ADD)) continue;
    f->adds = l->adds;
    gather_tokens(l, tokens, f, f->x, f->y);
    return true;
  }
  return false;
}

/* ---- dw = sum dy x --------------------------------------------------------------------------- */

static void sum_column(vtb_cpu *c, const block_form *f, const span *s, LLVMValueRef column,
                       LLVMValueRef mask) {
  vtb_cpu_for l = vtb_cpu_for_begin(c, s->from, s->end, vtb_cpu_i64(c, 1));
  LLVMValueRef acc[MOST_BLOCK];
  for (int i = 0; i < f->size; i++) acc[i] = vtb_cpu_carry(c, &l, LLVMConstNull(c->vf32));
  LLVMValueRef x = load(
      c, vtb_cpu_at(c, s->x, vtb_cpu_add(c, vtb_cpu_mul(c, l.i, f->step[f->x]), column)), mask);
  LLVMValueRef y = load(
      c, vtb_cpu_at(c, s->y, vtb_cpu_add(c, vtb_cpu_mul(c, l.i, f->step[f->y]), column)), mask);
  for (int i = 0; i < f->size; i++)
    vtb_cpu_carry_next(&l, i, vtb_cpu_fma(c, spread(c, x, f->size, i), y, acc[i]));
  vtb_cpu_for_end(c, &l);
  for (int i = 0; i < f->size; i++)
    store(c, vtb_cpu_carried(&l, i),
          vtb_cpu_at(c, s->to, vtb_cpu_add(c, column, vtb_cpu_i64(c, i * f->width))), mask);
}

/* Parts [part][in][g][out] to the result in its own order, added in the order of parts. */
static void sum_parts(vtb_cpu *c, const block_form *f, int64_t parts, int64_t temp) {
  vtb_value v = {.type = {.dtype = VTB_F32, .rank = 4}, .name = "parts"};
  vtb_value sum = {.type = {.dtype = VTB_F32, .rank = 3}, .name = "sum"};
  vtb_root root = {.value = &sum, .tensor = vtb__einsum_tensor(c, EINSUM_OUT)};
  int64_t stride[4] = {f->size * f->width}, axis = 0;
  const vtb__letter *letters[] = {f->g, f->in, f->out};
  const int64_t strides[] = {f->size, f->width, 1};
  int rank = 0;
  v.type.dim[0].size = parts;
  for (int a = 0; a < VTB_MAX_RANK; a++)
    for (int k = 0; k < 3; k++) {
      if (letters[k]->at[EINSUM_OUT] != a) continue;
      root.stride[rank] = letters[k]->stride[EINSUM_OUT];
      sum.type.dim[rank].size = letters[k]->size;
      v.type.dim[++rank].size = letters[k]->size;
      stride[rank] = strides[k];
    }
  vtb_attr axes = VTB_A_INTS("axes", &axis, 1);
  vtb_value *operand = &v, *result = &sum;
  vtb_inst add = {.op = VTB_OP_reduce_sum,
                  .n_operands = 1,
                  .n_results = 1,
                  .n_attrs = 1,
                  .operands = &operand,
                  .results = &result,
                  .attrs = &axes};
  sum.def = &add;
  vtb_cpu_expr e;
  vtb__expr_init(&e, c, NULL);
  vtb_vec_push(&e.body.leaves, ((vtb_leaf){&v, -1, temp, stride}));
  vtb__emit_reduce(&e.body, &root, 1);
  vtb__expr_free(&e);
}

static void emit_sum(vtb_cpu *c, const block_form *f) {
  int64_t piece = TOKENS_SUMMED;
  while (f->outer_size * ((f->tokens + piece - 1) / piece) > 128 && piece < f->tokens) piece *= 2;
  int64_t pieces = (f->tokens + piece - 1) / piece, parts = f->outer_size * pieces;
  int64_t temp = vtb_cpu_temp(c, parts * f->size * f->width * 4);
  vtb_cpu_task *t = vtb__task_begin(c, "block_sums", parts, 1);
  span s = span_of(c, f, t, piece, pieces);
  s.to = vtb_cpu_at(c, vtb_cpu_temp_ptr(c, t, temp), vtb_cpu_mul(c, t->index, f->size * f->width));
  for_columns(c, f, &s, sum_column);
  vtb_cpu_task_end(c, t);
  sum_parts(c, f, parts, temp);
}

static bool match_sum(const vtb_cpu *c, const vtb__letters *l, block_form *f) {
  f->g = only_letter(l, VTB_LETTER_BATCH);
  f->out = only_letter(l, VTB_LETTER_ROWS);
  f->in = only_letter(l, VTB_LETTER_COLUMNS);
  f->y = EINSUM_A;
  f->x = EINSUM_B;
  if (l->adds || !f->g || !f->out || !f->in || f->out->size != f->in->size ||
      !good_size(c, f->in->size))
    return false;
  f->size = f->in->size;
  f->width = f->size * f->g->size;
  if (!blocks_are_adjacent(f, f->in, f->x) || !blocks_are_adjacent(f, f->out, f->y)) return false;
  gather_tokens(l, VTB_LETTER_SUM, f, f->x, f->y);
  return f->tokens * f->outer_size > 1 && f->outer_size <= 4096;
}

bool vtb__einsum_blocks(vtb_cpu *c, const vtb__letters *l) {
  block_form f = {0};
  for (int i = 0; i < l->n; i++)
    if (l->at[i].role == VTB_LETTER_ALONE) return false;
  if (match_apply(c, l, &f)) {
    emit_apply(c, &f);
    return true;
  }
  if (match_sum(c, l, &f)) {
    emit_sum(c, &f);
    return true;
  }
  return false;
}
