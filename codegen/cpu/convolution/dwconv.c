/* Depthwise convolution of tokens [B, N, C] on the grid [gt, gh, gw] that the path walks row by
 * row, and its adjoints. Grids of fewer axes have frames, or rows, of extent 1.
 *
 *   y[p(t)] = sum over taps (f, a, e) of w[c, f, a, e] x[p(t')],
 *             t' = t + ((f - front) gh + (a - top)) gw + (e - left), zero where it leaves the grid
 *   dx        the same sum with the taps mirrored
 *   dw        sum over batch and t of x[p(t')] dy[p(t)]
 *
 * p is the path (storage order if absent). Vectors run along C; weights are first laid out tap by
 * tap. Taps outside the grid read a row of zeros. y, dx: a task owns a row of the grid. dw: a task
 * owns a block of channels and a share of the rows; shares are fixed by the shapes and added in
 * order.
 */
#include "codegen/cpu/loop/order.h"
#include "ir/convolution.h"

#include <stdlib.h>

#define MAX_TAPS                                                                                   \
  12 /* taps handled in one pass over the channels or tokens: addresses or sums kept in registers */

typedef struct dwconv {
  vtb_cpu *c;
  vtb_cpu_task *t;
  vtb__order order;
  int rank;
  int64_t n_batch, n_tokens, C, gt, gh, gw, kt, kh, kw, front, top, left;
  int64_t rows, taps; /* of the grid, all frames; of the kernel */
  bool mirrored;
  LLVMValueRef zeros, weights; /* weights: [taps, C] */
} dwconv;

static LLVMValueRef k_(vtb_cpu *c, int64_t v) { return vtb_cpu_i64(c, v); }

static dwconv take_apart(vtb_cpu *c, const vtb_inst *inst) {
  vtb_depthwise d;
  vtb_check(vtb_depthwise_of(inst, &d), "dwconv: attributes");
  dwconv g = {.c = c, .n_batch = d.batch, .n_tokens = d.tokens, .C = d.channels, .rank = d.rank};
  g.gt = d.grid[0], g.gh = d.grid[1], g.gw = d.grid[2];
  g.kt = d.kernel[0], g.kh = d.kernel[1], g.kw = d.kernel[2];
  g.front = d.pad[0], g.top = d.pad[1], g.left = d.pad[2];
  g.rows = g.gt * g.gh, g.taps = g.kt * g.kh * g.kw;
  g.order = vtb__order_make(c, vtb_attr_str(inst, "path", NULL), g.n_tokens);
  return g;
}

static void make_zeros(dwconv *g, int64_t n) {
  float *zeros = vtb_xcalloc((size_t)n, sizeof *zeros);
  g->zeros = vtb_cpu_const_f32(g->c, zeros, (size_t)n);
  vtb_free(zeros);
}

/* 0 <= v < n */
static LLVMValueRef below(vtb_cpu *c, LLVMValueRef v, int64_t n) {
  return LLVMBuildICmp(c->b, LLVMIntULT, v, k_(c, n), "");
}

/* Address of the element of weights [C, kernel...] for row a of the kernel, rows of all frames
 * counted through. */
static LLVMValueRef weight_at(const dwconv *g, int i, LLVMValueRef ch, LLVMValueRef a,
                              LLVMValueRef e) {
  vtb_cpu *c = g->c;
  LLVMValueRef at[4] = {ch, vtb_cpu_div(c, a, g->kh), vtb_cpu_rem(c, a, g->kh), e};
  if (g->rank == 2) at[1] = a;
  if (g->rank < 3) at[g->rank] = e;
  return vtb_cpu_element(c, &g->t->t[i], at, g->rank + 1);
}

/* Address of the row of tensor i that tap number `tap` reads for the token at column x of row y of
 * the walked grid, rows of all frames counted through; zeros outside. */
static LLVMValueRef tap_row(const dwconv *g, int i, LLVMValueRef b, LLVMValueRef y, LLVMValueRef x,
                            int64_t tap) {
  vtb_cpu *c = g->c;
  int64_t dt = tap / (g->kh * g->kw) - g->front, dy = tap / g->kw % g->kh - g->top,
          dx = tap % g->kw - g->left;
  if (g->mirrored) dt = -dt, dy = -dy, dx = -dx;
  LLVMValueRef row = g->gt > 1 ? vtb_cpu_rem(c, y, g->gh) : y; /* of its frame */
  LLVMValueRef inside = below(c, vtb_cpu_add(c, row, k_(c, dy)), g->gh),
               tx = vtb_cpu_add(c, x, k_(c, dx));
  inside = LLVMBuildAnd(c->b, inside, below(c, tx, g->gw), "");
  if (dt)
    inside = LLVMBuildAnd(c->b, inside,
                          below(c, vtb_cpu_add(c, vtb_cpu_div(c, y, g->gh), k_(c, dt)), g->gt), "");
  LLVMValueRef ty = vtb_cpu_add(c, y, k_(c, dt * g->gh + dy));
  LLVMValueRef t = vtb_cpu_add(c, vtb_cpu_mul(c, ty, g->gw), tx);
  t = LLVMBuildSelect(c->b, inside, t, k_(c, 0), "");
  LLVMValueRef at =
      vtb_cpu_element(c, &g->t->t[i], (LLVMValueRef[]){b, vtb__order_at(c, &g->order, t)}, 2);
  return LLVMBuildSelect(c->b, inside, at, g->zeros, "");
}

static LLVMValueRef load(vtb_cpu *c, LLVMValueRef at, LLVMValueRef mask) {
  return mask ? vtb_cpu_load_masked(c, at, mask, c->width) : vtb_cpu_load(c, at, c->width);
}

static void store(vtb_cpu *c, LLVMValueRef v, LLVMValueRef at, LLVMValueRef mask) {
  if (mask)
    vtb_cpu_store_masked(c, v, at, mask);
  else
    vtb_cpu_store(c, v, at);
}

/* One vector of channels: out = (first taps: 0, else out) + sum of the taps' products. */
static void channels(const dwconv *g, const LLVMValueRef *rows, int64_t first, int64_t n,
                     LLVMValueRef out, LLVMValueRef at, LLVMValueRef mask) {
  vtb_cpu *c = g->c;
  LLVMValueRef to = vtb_cpu_at(c, out, at),
               sum = first ? load(c, to, mask) : LLVMConstNull(c->vf32);
  for (int64_t i = 0; i < n; i++) {
    LLVMValueRef w =
        load(c, vtb_cpu_at(c, g->weights, vtb_cpu_add(c, at, k_(c, (first + i) * g->C))), mask);
    sum = vtb_cpu_fma(c, load(c, vtb_cpu_at(c, rows[i], at), mask), w, sum);
  }
  store(c, sum, to, mask);
}

static void token(const dwconv *g, LLVMValueRef b, LLVMValueRef y, LLVMValueRef x) {
  vtb_cpu *c = g->c;
  int64_t taps = g->taps, whole = g->C / c->width * c->width;
  LLVMValueRef t = vtb_cpu_add(c, vtb_cpu_mul(c, y, g->gw), x),
               pos = vtb__order_at(c, &g->order, t);
  LLVMValueRef out = vtb_cpu_element(c, &g->t->t[g->t->n_operands], (LLVMValueRef[]){b, pos}, 2);
  for (int64_t first = 0; first < taps; first += MAX_TAPS) {
    int64_t n = taps - first < MAX_TAPS ? taps - first : MAX_TAPS;
    LLVMValueRef rows[MAX_TAPS];
    for (int64_t i = 0; i < n; i++) rows[i] = tap_row(g, 0, b, y, x, first + i);
    vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, whole), k_(c, c->width));
    channels(g, rows, first, n, out, l.i, NULL);
    vtb_cpu_for_end(c, &l);
    if (whole < g->C)
      channels(g, rows, first, n, out, k_(c, whole),
               vtb_cpu_mask(c, k_(c, g->C - whole), c->width));
  }
}

/* [C, kernel...] to [taps, C] in the instruction's temporaries. */
static void lay_out_weights(dwconv *g, const vtb_inst *inst, int64_t temp) {
  vtb_cpu *c = g->c;
  int64_t taps = g->taps;
  g->t = vtb_cpu_task_begin(c, inst, "weights", g->C, 4096 / taps + 1);
  LLVMValueRef out = vtb_cpu_temp_ptr(c, g->t, temp), ch = g->t->index;
  vtb_cpu_for a = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->kt * g->kh), k_(c, 1));
  vtb_cpu_for e = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->kw), k_(c, 1));
  LLVMValueRef w = vtb_cpu_load(c, weight_at(g, 1, ch, a.i, e.i), 1);
  LLVMValueRef tap = vtb_cpu_add(c, vtb_cpu_mul(c, a.i, g->kw), e.i);
  vtb_cpu_store(c, w, vtb_cpu_at(c, out, vtb_cpu_add(c, vtb_cpu_mul(c, tap, g->C), ch)));
  vtb_cpu_for_end(c, &e);
  vtb_cpu_for_end(c, &a);
  vtb_cpu_task_end(c, g->t);
}

static void convolve(vtb_cpu *c, const vtb_inst *inst, bool mirrored) {
  dwconv g = take_apart(c, inst);
  g.mirrored = mirrored;
  make_zeros(&g, g.C);
  int64_t temp = vtb_cpu_temp(c, g.taps * g.C * (int64_t)sizeof(float));
  lay_out_weights(&g, inst, temp);
  /* A sequence without a grid is one row: cut it. */
  int64_t piece = g.rows > 1 ? g.gw : (g.gw + 15) / 16, n_pieces = (g.gw + piece - 1) / piece;
  g.t = vtb_cpu_task_begin(c, inst, mirrored ? "dx" : "conv", g.n_batch * g.rows * n_pieces, 1);
  g.weights = vtb_cpu_temp_ptr(c, g.t, temp);
  LLVMValueRef from = vtb_cpu_mul(c, vtb_cpu_rem(c, g.t->index, n_pieces), piece);
  LLVMValueRef row = vtb_cpu_div(c, g.t->index, n_pieces);
  LLVMValueRef b = vtb_cpu_div(c, row, g.rows), y = vtb_cpu_rem(c, row, g.rows);
  vtb_cpu_for x = vtb_cpu_for_begin(
      c, from, vtb_cpu_min(c, vtb_cpu_add(c, from, k_(c, piece)), k_(c, g.gw)), k_(c, 1));
  token(&g, b, y, x.i);
  vtb_cpu_for_end(c, &x);
  vtb_cpu_task_end(c, g.t);
}

void vtb__cpu_dwconv(vtb_cpu *c, const vtb_inst *inst) { convolve(c, inst, false); }
void vtb__cpu_dwconv_dx(vtb_cpu *c, const vtb_inst *inst) { convolve(c, inst, true); }

/* ---- dw -------------------------------------------------------------------------------------- */

#define MAX_SUMS 12 /* vectors of sums kept in registers: taps times vectors of channels */

/* How the work on dw is cut: blocks of channels, `vectors` each, and shares of the grid rows of all
 * batch entries. */
typedef struct dw_cut {
  int vectors;             /* of a block of channels: 1, or more where C is a multiple of them */
  int64_t n_blocks, block; /* block: channels */
  int64_t n_shares, share; /* share: rows */
} dw_cut;

static dw_cut cut(const dwconv *g) {
  dw_cut k = {.vectors = 4};
  while (k.vectors > 1 &&
         (g->C % (k.vectors * g->c->width) || g->C / (k.vectors * g->c->width) < 4))
    k.vectors /= 2;
  k.block = (int64_t)k.vectors * g->c->width;
  k.n_blocks = (g->C + k.block - 1) / k.block;
  int64_t rows = g->n_batch * g->rows,
          want = k.n_blocks >= 16 ? 1 : (16 + k.n_blocks - 1) / k.n_blocks;
  if (want > rows) want = rows;
  k.share = (rows + want - 1) / want;
  k.n_shares = (rows + k.share - 1) / k.share;
  return k;
}

/* Sums of taps first ... first+n for a block of channels from `ch`, over grid rows from ... to of
 * all batch entries. */
static void weight_sums(const dwconv *g, const dw_cut *k, int64_t first, int n, LLVMValueRef ch,
                        LLVMValueRef mask, LLVMValueRef from, LLVMValueRef to, LLVMValueRef out) {
  vtb_cpu *c = g->c;
  int n_sums = n * k->vectors;
  vtb_cpu_for rows = vtb_cpu_for_begin(c, from, to, k_(c, 1));
  for (int i = 0; i < n_sums; i++) vtb_cpu_carry(c, &rows, LLVMConstNull(c->vf32));
  LLVMValueRef b = vtb_cpu_div(c, rows.i, g->rows), y = vtb_cpu_rem(c, rows.i, g->rows), dy[4];
  vtb_cpu_for x = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->gw), k_(c, 1));
  for (int i = 0; i < n_sums; i++) vtb_cpu_carry(c, &x, vtb_cpu_carried(&rows, i));
  LLVMValueRef t = vtb_cpu_add(c, vtb_cpu_mul(c, y, g->gw), x.i),
               pos = vtb__order_at(c, &g->order, t);
  LLVMValueRef dy_at = vtb_cpu_element(c, &g->t->t[1], (LLVMValueRef[]){b, pos, ch}, 3);
  for (int v = 0; v < k->vectors; v++)
    dy[v] = load(c, vtb_cpu_at(c, dy_at, k_(c, v * c->width)), mask);
  for (int i = 0; i < n; i++) {
    LLVMValueRef x_at = vtb_cpu_at(c, tap_row(g, 0, b, y, x.i, first + i), ch);
    for (int v = 0; v < k->vectors; v++) {
      int sum = i * k->vectors + v;
      LLVMValueRef value = load(c, vtb_cpu_at(c, x_at, k_(c, v * c->width)), mask);
      vtb_cpu_carry_next(&x, sum, vtb_cpu_fma(c, value, dy[v], vtb_cpu_carried(&x, sum)));
    }
  }
  vtb_cpu_for_end(c, &x);
  for (int i = 0; i < n_sums; i++) vtb_cpu_carry_next(&rows, i, vtb_cpu_carried(&x, i));
  vtb_cpu_for_end(c, &rows);
  for (int i = 0; i < n_sums; i++)
    vtb_cpu_store(c, vtb_cpu_carried(&rows, i),
                  vtb_cpu_at(c, out, k_(c, first * k->block + i * c->width)));
}

/* Partial sums [share, block, tap, channel of the block] to dw [C, kernel...]. */
static void add_shares(dwconv *g, const vtb_inst *inst, int64_t temp, const dw_cut *k) {
  vtb_cpu *c = g->c;
  int64_t taps = g->taps;
  g->t = vtb_cpu_task_begin(c, inst, "sum", g->C, 4096 / (taps * k->n_shares) + 1);
  LLVMValueRef parts = vtb_cpu_temp_ptr(c, g->t, temp), ch = g->t->index;
  LLVMValueRef at = vtb_cpu_mul(c, vtb_cpu_div(c, ch, k->block), taps * k->block);
  at = vtb_cpu_add(c, at, vtb_cpu_rem(c, ch, k->block));
  vtb_cpu_for a = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->kt * g->kh), k_(c, 1));
  vtb_cpu_for e = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->kw), k_(c, 1));
  LLVMValueRef tap = vtb_cpu_add(c, vtb_cpu_mul(c, a.i, g->kw), e.i);
  LLVMValueRef element = vtb_cpu_add(c, at, vtb_cpu_mul(c, tap, k->block));
  vtb_cpu_for s = vtb_cpu_for_begin(c, k_(c, 0), k_(c, k->n_shares), k_(c, 1));
  LLVMValueRef sum = vtb_cpu_carry(c, &s, vtb_cpu_f32(c, 0));
  LLVMValueRef part = vtb_cpu_add(c, element, vtb_cpu_mul(c, s.i, k->n_blocks * taps * k->block));
  vtb_cpu_carry_next(&s, 0,
                     LLVMBuildFAdd(c->b, sum, vtb_cpu_load(c, vtb_cpu_at(c, parts, part), 1), ""));
  vtb_cpu_for_end(c, &s);
  vtb_cpu_store(c, vtb_cpu_carried(&s, 0), weight_at(g, 2, ch, a.i, e.i));
  vtb_cpu_for_end(c, &e);
  vtb_cpu_for_end(c, &a);
  vtb_cpu_task_end(c, g->t);
}

void vtb__cpu_dwconv_dw(vtb_cpu *c, const vtb_inst *inst) {
  dwconv g = take_apart(c, inst);
  dw_cut k = cut(&g);
  int64_t taps = g.taps;
  make_zeros(&g, k.n_blocks * k.block);
  int64_t temp = vtb_cpu_temp(c, k.n_shares * k.n_blocks * taps * k.block * (int64_t)sizeof(float));
  g.t = vtb_cpu_task_begin(c, inst, "dw", k.n_shares * k.n_blocks, 1);
  LLVMValueRef out =
      vtb_cpu_at(c, vtb_cpu_temp_ptr(c, g.t, temp), vtb_cpu_mul(c, g.t->index, taps * k.block));
  LLVMValueRef ch = vtb_cpu_mul(c, vtb_cpu_rem(c, g.t->index, k.n_blocks), k.block);
  LLVMValueRef from = vtb_cpu_mul(c, vtb_cpu_div(c, g.t->index, k.n_blocks), k.share);
  LLVMValueRef to = vtb_cpu_min(c, vtb_cpu_add(c, from, k_(c, k.share)), k_(c, g.n_batch * g.rows));
  LLVMValueRef mask =
      g.C % k.block ? vtb_cpu_mask(c, LLVMBuildNSWSub(c->b, k_(c, g.C), ch, ""), c->width) : NULL;
  int most = MAX_SUMS / k.vectors;
  for (int64_t first = 0; first < taps; first += most)
    weight_sums(&g, &k, first, taps - first < most ? (int)(taps - first) : most, ch, mask, from, to,
                out);
  vtb_cpu_task_end(c, g.t);
  add_shares(&g, inst, temp, &k);
}
