/* Tasks of a planned product (text/product.c): blocks of rows and columns, cut by shape only.
 *
 * How the factors are read, and how much of them a task takes at a time, is decided here. Sums of
 * very many terms are cut as well, by their length alone, and the parts added in order: which bits
 * a row has does not depend on how many rows there are. */
#include "codegen/cpu/product/einsum.h"
#include "codegen/cpu/text.h"
#include "ir/ops.h"

typedef struct blocks {
  int64_t vectors;                 /* of a panel */
  int64_t m, n, part;              /* sizes of a block, terms of a part of a sum */
  int64_t nm, nn, parts;           /* how many */
  int64_t b_lies, a_turned, depth; /* as text/product.c has them */
} blocks;

enum { DIRECT, PANELS, BY_ROWS, TRANSPOSED };
/* Blocks: about so many for few threads, at most; terms of a sum in one piece; rows and terms of a
 * factor that stay in cache, panels of the other. */
enum { FEW_BLOCKS = 8, MOST_BLOCKS = 64, MOST_TERMS = 8192, ROWS_IN_CACHE = 256 };
enum { DEPTH = 512, MOST_DEPTH = 768, PANELS_IN_CACHE = 8 };

static int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }
static int64_t at_most(int64_t x, int64_t most) { return x < most ? x : most; }
static int64_t at_least(int64_t x, int64_t least) { return x > least ? x : least; }
static int64_t round_up(int64_t x, int64_t to) { return ceil_div(x, to) * to; }

static int64_t loops_size(const vtb__product *p) {
  int64_t n = 1;
  for (int i = 0; i < p->n_loops; i++) n *= p->loops[i].size;
  return n;
}

static double flops_of(int64_t m, int64_t n, int64_t k) {
  return 2.0 * (double)m * (double)n * (double)k;
}

/* ---- panels ---------------------------------------------------------------------------------- */

/* Rows of a tile of registers (text/small.c). */
static int64_t tile_rows(const vtb_cpu *c) { return c->registers > 16 ? 8 : 6; }

/* b is read where it lies if too few rows read it to pay for laying it out. */
static bool reads_b_directly(const vtb_cpu *c, const vtb__product *p) {
  if (p->trans_b) return false;
  bool whole = p->n.size % c->width == 0;
  return p->m.size <= 2 * tile_rows(c) || (whole && p->k.size <= 32);
}

/* As wide as a tile of registers, or two vectors where that leaves none over. */
static void choose_panels(const vtb_cpu *c, const vtb__product *p, blocks *b) {
  int64_t vectors = ceil_div(p->n.size, c->width), most = c->registers > 16 ? 3 : 2;
  b->vectors = vectors % 3 && vectors % 2 == 0 ? 2 : at_most(vectors, most);
  b->b_lies = p->in_panels             ? PANELS
              : reads_b_directly(c, p) ? DIRECT
              : p->trans_b             ? TRANSPOSED
                                       : BY_ROWS;
  b->a_turned = p->m.stride[p->a] == 1 && p->k.stride[p->a] != 1 && p->m.size > 1 &&
                p->n.size > b->vectors * c->width;
}

static bool packs_b(const blocks *b) { return b->b_lies == BY_ROWS || b->b_lies == TRANSPOSED; }

/* ---- blocks ---------------------------------------------------------------------------------- */

/* `count` pieces of one size, a multiple of `step`. */
static void cut(int64_t size, int64_t count, int64_t step, int64_t *piece, int64_t *n) {
  *piece = round_up(ceil_div(size, at_least(count, 1)), step);
  *n = ceil_div(size, *piece);
}

/* nm x nn blocks, `want` or a few more: of all ways the one that reads least, where laying a factor
 * out counts like reading it `packing` times. */
static void cut_squarely(const vtb_cpu *c, const vtb__product *p, int64_t want, blocks *b) {
  enum { PACKING = 3 };
  int64_t column = b->vectors * c->width, best = INT64_MAX;
  int64_t most_n = ceil_div(p->n.size, column), most_m = ceil_div(p->m.size, tile_rows(c));
  int64_t least_n = ceil_div(most_n, PANELS_IN_CACHE);
  int64_t weight_a = b->a_turned ? PACKING : 1;
  int64_t weight_b = packs_b(b) ? PACKING : 1;
  for (int64_t nn = least_n; nn <= most_n; nn++) {
    int64_t nm = at_most(ceil_div(want, nn), most_m);
    int64_t read = nn * p->m.size * weight_a + nm * p->n.size * weight_b;
    bool enough = nm * nn >= want || nn == most_n;
    if (!enough || read >= best) continue;
    best = read;
    cut(p->n.size, nn, column, &b->n, &b->nn);
    cut(p->m.size, nm, tile_rows(c), &b->m, &b->nm);
  }
}

/* Parts are summed as one dense row. */
static bool may_cut_k(const vtb__product *p) {
  return p->n_loops == 0 && !p->l.adds && (p->ldc == p->n.size || p->m.size == 1);
}

/* About 100 million operations a block, or as few as 4 million to have FEW_BLOCKS for the
 * threads. */
static blocks choose(const vtb_cpu *c, const vtb__product *p) {
  double flops = flops_of(p->m.size, p->n.size, p->k.size);
  int64_t outer = loops_size(p), want = at_least((int64_t)(flops / 100e6),
                                                 at_most((int64_t)(flops / 4e6), FEW_BLOCKS - 1)) +
                                        1;
  blocks b = {.part = p->k.size};
  want = at_least(at_most(want, MOST_BLOCKS / outer), 1);
  choose_panels(c, p, &b);
  cut_squarely(c, p, want, &b);
  if (may_cut_k(p)) b.part = at_most(b.part, MOST_TERMS);
  b.parts = ceil_div(p->k.size, b.part);
  b.depth = b.part <= MOST_DEPTH ? b.part : round_up(ceil_div(b.part, ceil_div(b.part, DEPTH)), 16);
  return b;
}

/* ---- the text -------------------------------------------------------------------------------- */

/* Number of a tensor among the text's. */
static int tensor_of(vtb_cpu_text *x, const vtb_cpu *c, const vtb__product *p, int which) {
  return which <= EINSUM_OUT && p->temp[which] >= 0 ? vtb_cpu_text_temp(x, p->temp[which])
                                                    : vtb__einsum_tensor(c, which);
}

static void fill_loops(vtb_cpu_text *x, const vtb__product *p, const int which[4]) {
  int64_t loops[EINSUM_MOST_LETTERS * 5];
  for (int i = 0; i < p->n_loops; i++) {
    loops[i * 5] = p->loops[i].size;
    for (int k = 0; k < 4; k++) loops[i * 5 + 1 + k] = p->loops[i].stride[which[k]];
  }
  vtb_cpu_text_numbers(x, "LOOP", loops, p->n_loops * 5);
}

static void fill_tensors(vtb_cpu_text *x, const vtb_cpu *c, const vtb__product *p, const blocks *b,
                         const int which[4], int64_t partial) {
  int64_t numbers[4], steps[4][3] = {{0}};
  for (int k = 0; k < 4; k++) {
    int t = which[k];
    bool absent = t == EINSUM_ADD && !p->l.adds;
    numbers[k] = absent ? -1 : tensor_of(x, c, p, t);
    steps[k][0] = p->m.stride[t];
    steps[k][1] = p->n.stride[t];
    steps[k][2] = p->k.stride[t];
  }
  steps[2][0] = p->ldc;
  steps[2][1] = 1;
  if (b->parts > 1) numbers[2] = vtb_cpu_text_temp(x, partial);
  vtb_cpu_text_numbers(x, "TENSOR", numbers, 4);
  vtb_cpu_text_numbers(x, "STEP", steps[0], 12);
}

static void emit_blocks(vtb_cpu *c, const vtb__product *p, const blocks *b, int64_t partial) {
  const int which[] = {p->a, p->b, EINSUM_OUT, EINSUM_ADD};
  vtb_cpu_text *x = vtb_cpu_text_open(c, "product", c->width);
  const bool alone = loops_size(p) == 1;
  vtb_cpu_text_fill(x, {"M", p->m.size}, {"N", p->n.size}, {"K", p->k.size}, {"PART", b->part},
                    {"TASK_ROWS", b->m}, {"TASK_COLUMNS", b->n}, {"VECTORS", b->vectors},
                    {"PANEL", VTB_PANEL}, {"DEPTH", b->depth}, {"B_LIES", b->b_lies},
                    {"GROUP_ROWS", at_most(round_up(ROWS_IN_CACHE, tile_rows(c)), b->m)},
                    {"A_TURNED", b->a_turned}, {"A_SHARED", alone && b->a_turned && b->nn > 1},
                    {"B_SHARED", alone && packs_b(b) && b->nm > 1},
                    {"GRAIN", (int64_t)(2e5 / flops_of(b->m, b->n, b->part))});
  fill_loops(x, p, which);
  fill_tensors(x, c, p, b, which, partial);
  vtb_cpu_text_run(x, c->kernel->inst);
}

/* Adds the partial results at `partial` into the result: reduce_sum over axis 0. */
static void sum_parts(vtb_cpu *c, const vtb__product *p, const blocks *b, int64_t partial) {
  vtb_value parts = {.type = {.dtype = VTB_F32, .rank = 2}, .name = "parts"},
            sum = {.type = {.dtype = VTB_F32, .rank = 1}, .name = "sum"};
  int64_t count = p->m.size * p->n.size, axis = 0;
  parts.type.dim[0].size = b->parts;
  parts.type.dim[1].size = sum.type.dim[0].size = count;
  vtb_attr axes = VTB_A_INTS("axes", &axis, 1);
  vtb_value *operand = &parts, *result = &sum;
  vtb_inst add = {.op = VTB_OP_reduce_sum,
                  .n_operands = 1,
                  .n_results = 1,
                  .n_attrs = 1,
                  .operands = &operand,
                  .results = &result,
                  .attrs = &axes};
  sum.def = &add;
  vtb_root root = {.value = &sum, .stride = {1}};
  root.tensor = p->temp[EINSUM_OUT] >= 0 ? -1 : vtb__einsum_tensor(c, EINSUM_OUT);
  root.temp = p->temp[EINSUM_OUT];
  vtb_cpu_expr e;
  vtb__expr_init(&e, c, NULL);
  vtb_vec_push(&e.body.leaves, ((vtb_leaf){&parts, -1, partial, NULL}));
  vtb__emit_reduce(&e.body, &root, 1);
  vtb__expr_free(&e);
}

void vtb__einsum_emit(vtb_cpu *c, vtb__product *p) {
  blocks b = choose(c, p);
  int64_t partial = b.parts > 1 ? vtb_cpu_temp(c, b.parts * p->m.size * p->n.size * 4) : 0;
  emit_blocks(c, p, &b, partial);
  if (b.parts > 1) sum_parts(c, p, &b, partial);
}
