/* Block-diagonal products with small square blocks, "bngi,goi->bngo" and its adjoints:
 * text/blocks.c. Blocks of size 2, 4, ... up to the vector width only.
 */
#include <string.h>

#include "codegen/cpu/product/einsum.h"
#include "codegen/cpu/text.h"
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

/* In pieces of so many tokens. temp: weights that the blocks are multiplied with, or where they are
 * summed to. */
static void run_text(vtb_cpu *c, const block_form *f, int64_t piece, int64_t temp, bool sums,
                     int64_t grain) {
  vtb_cpu_text *x = vtb_cpu_text_open(c, "blocks", c->width);
  const int tensors[] = {f->x, f->y, EINSUM_ADD};
  int64_t loops[VTB_MAX_RANK][4], steps[4] = {0}, numbers[4] = {0, 0, -1};
  numbers[3] = vtb_cpu_text_temp(x, temp);
  for (int k = 0; k < (f->adds ? 3 : 2); k++) {
    numbers[k] = vtb__einsum_tensor(c, tensors[k]);
    steps[k] = f->step[tensors[k]];
  }
  for (int i = 0; i < f->n_outer; i++) {
    loops[i][0] = f->outer[i]->size;
    for (int k = 0; k < 3; k++) loops[i][1 + k] = f->outer[i]->stride[tensors[k]];
  }
  vtb_cpu_text_fill(x, {"SIZE", f->size}, {"WIDTH", f->width}, {"TOKENS", f->tokens},
                    {"PIECE", piece}, {"OUTER", f->outer_size}, {"SUMS", sums}, {"GRAIN", grain});
  vtb_cpu_text_numbers(x, "LOOP", loops[0], 4 * f->n_outer);
  vtb_cpu_text_numbers(x, "TENSOR", numbers, 4);
  vtb_cpu_text_numbers(x, "STEP", steps, 4);
  vtb_cpu_text_run(x, c->kernel->inst);
}

/* ---- y = x w --------------------------------------------------------------------------------- */

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
  run_text(c, f, TOKENS, lay_out_weights(c, f), false, 1 + 8192 / (TOKENS * f->width));
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
  run_text(c, f, piece, temp, true, 1);
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
