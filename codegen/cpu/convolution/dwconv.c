/* Depthwise convolution of tokens [B, N, C] on the grid [gt, gh, gw] that the path walks row by
 * row, and its adjoints. Grids of fewer axes have frames, or rows, of extent 1.
 *
 *   y[p(t)] = start[c] + sum over taps (f, a, e) of w[c, f, a, e] x[p(t')],
 *             t' = t + ((f - front) gh + (a - top)) gw + (e - left), zero where it leaves the grid
 *   dx        the same sum with the taps mirrored
 *   dw        sum over batch and t of x[p(t')] dy[p(t)]; of dy alone for start, as of one tap more
 *
 * p is the path (storage order if absent) without its extra tokens, which y and dx copy. Vectors
 * run along C; weights are first laid out tap by tap. Taps outside the grid read a row of zeros.
 * y, dx: a task owns a row of the grid, or the extra tokens of a sample. dw: a task owns a block of
 * channels and a share of the rows; shares are fixed by the shapes and added in order.
 */
#include "codegen/cpu/loop/order.h"
#include "ir/convolution.h"

#define MAX_TAPS                                                                                   \
  12 /* taps handled in one pass over the channels or tokens: addresses or sums kept in registers */
#define MAX_UNROLLED 81 /* taps of kernels whose passes are written out; of larger ones they loop */

typedef struct dwconv {
  vtb_cpu *c;
  vtb_cpu_task *t;
  vtb__loop_order order, extra; /* of cells, of extra tokens */
  int rank, n_extra;
  int64_t n_batch, n_tokens, C, gt, gh, gw, kt, kh, kw, front, top, left;
  int64_t rows, taps; /* of the grid, all frames; of the kernel */
  bool mirrored, starts;
  LLVMValueRef zeros, ones, weights; /* weights: [taps, C] */
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
  g.n_extra = d.n_extra;
  g.starts = inst->n_operands == 3 || inst->n_results == 2;
  int64_t cells = g.n_tokens - g.n_extra;
  int64_t *places = vtb_xcalloc((size_t)g.n_tokens + 1, sizeof *places);
  vtb_depthwise_places(inst, &d, places);
  g.order = g.n_extra ? vtb__order_list(c, places, cells)
                      : vtb__order_make(c, vtb_attr_str(inst, "path", NULL), g.n_tokens);
  g.extra = vtb__order_list(c, places + cells, g.n_extra);
  vtb_free(places);
  return g;
}

static LLVMValueRef make_row(const dwconv *g, int64_t n, float value) {
  float *row = vtb_xcalloc((size_t)n, sizeof *row);
  for (int64_t i = 0; i < n; i++) row[i] = value;
  LLVMValueRef v = vtb_cpu_const_f32(g->c, row, (size_t)n);
  vtb_free(row);
  return v;
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

/* How far a tap reaches along an axis: its place in the kernel less the padding. */
static LLVMValueRef reach(const dwconv *g, LLVMValueRef place, int64_t pad) {
  vtb_cpu *c = g->c;
  return g->mirrored ? LLVMBuildNSWSub(c->b, k_(c, pad), place, "")
                     : LLVMBuildNSWSub(c->b, place, k_(c, pad), "");
}

static bool is_zero(LLVMValueRef v) {
  return LLVMIsAConstantInt(v) && LLVMConstIntGetSExtValue(v) == 0;
}

/* Address of the row of tensor i that tap number `tap` reads for the token at column x of row y of
 * the walked grid, rows of all frames counted through; zeros outside. */
static LLVMValueRef tap_row(const dwconv *g, int i, LLVMValueRef b, LLVMValueRef y, LLVMValueRef x,
                            LLVMValueRef tap) {
  vtb_cpu *c = g->c;
  LLVMValueRef line = vtb_cpu_div(c, tap, g->kw);
  LLVMValueRef dt = reach(g, vtb_cpu_div(c, line, g->kh), g->front),
               dy = reach(g, vtb_cpu_rem(c, line, g->kh), g->top),
               dx = reach(g, vtb_cpu_rem(c, tap, g->kw), g->left);
  LLVMValueRef row = g->gt > 1 ? vtb_cpu_rem(c, y, g->gh) : y; /* of its frame */
  LLVMValueRef inside = below(c, vtb_cpu_add(c, row, dy), g->gh), tx = vtb_cpu_add(c, x, dx);
  inside = LLVMBuildAnd(c->b, inside, below(c, tx, g->gw), "");
  if (!is_zero(dt))
    inside = LLVMBuildAnd(c->b, inside,
                          below(c, vtb_cpu_add(c, vtb_cpu_div(c, y, g->gh), dt), g->gt), "");
  LLVMValueRef ty = vtb_cpu_add(c, y, vtb_cpu_add(c, vtb_cpu_mul(c, dt, g->gh), dy));
  LLVMValueRef t = vtb_cpu_add(c, vtb_cpu_mul(c, ty, g->gw), tx);
  t = LLVMBuildSelect(c->b, inside, t, k_(c, 0), "");
  LLVMValueRef at =
      vtb_cpu_element(c, &g->t->t[i], (LLVMValueRef[]){b, vtb__order_at(c, &g->order, t)}, 2);
  return LLVMBuildSelect(c->b, inside, at, g->zeros, "");
}

/* Passes over `most` taps at a time, from tap `first` of the kernel: small kernels written out,
 * large ones as a loop, with the first pass before it and what is left after it. */
typedef void (*taps_pass)(void *user, LLVMValueRef first, int n);
static void each_pass(const dwconv *g, int64_t taps, int most, taps_pass pass, void *user) {
  vtb_cpu *c = g->c;
  int64_t done = 0;
  if (taps > MAX_UNROLLED && taps >= 3 * most) {
    pass(user, k_(c, 0), most);
    done = taps / most * most;
    vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, most), k_(c, done), k_(c, most));
    pass(user, l.i, most);
    vtb_cpu_for_end(c, &l);
  }
  for (; done < taps; done += most)
    pass(user, k_(c, done), taps - done < most ? (int)(taps - done) : most);
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

/* A token's sums. */
typedef struct token_sums {
  const dwconv *g;
  LLVMValueRef b, y, x, out;
} token_sums;

/* The start of a token's sums. */
static LLVMValueRef start_of(const dwconv *g, LLVMValueRef at, LLVMValueRef mask) {
  if (!g->starts) return LLVMConstNull(g->c->vf32);
  return load(g->c, vtb_cpu_element(g->c, &g->t->t[2], (LLVMValueRef[]){at}, 1), mask);
}

/* One vector of channels: out = (first taps: the start, else out) + sum of the taps' products. */
static void channels(const token_sums *s, const LLVMValueRef *rows, LLVMValueRef first, int n,
                     LLVMValueRef at, LLVMValueRef mask) {
  const dwconv *g = s->g;
  vtb_cpu *c = g->c;
  LLVMValueRef to = vtb_cpu_at(c, s->out, at),
               sum = is_zero(first) ? start_of(g, at, mask) : load(c, to, mask);
  for (int i = 0; i < n; i++) {
    LLVMValueRef tap = vtb_cpu_mul(c, vtb_cpu_add(c, first, k_(c, i)), g->C);
    LLVMValueRef w = load(c, vtb_cpu_at(c, g->weights, vtb_cpu_add(c, at, tap)), mask);
    sum = vtb_cpu_fma(c, load(c, vtb_cpu_at(c, rows[i], at), mask), w, sum);
  }
  store(c, sum, to, mask);
}

static void add_taps(void *user, LLVMValueRef first, int n) {
  const token_sums *s = user;
  const dwconv *g = s->g;
  vtb_cpu *c = g->c;
  int64_t whole = g->C / c->width * c->width;
  LLVMValueRef rows[MAX_TAPS];
  for (int i = 0; i < n; i++)
    rows[i] = tap_row(g, 0, s->b, s->y, s->x, vtb_cpu_add(c, first, k_(c, i)));
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, whole), k_(c, c->width));
  channels(s, rows, first, n, l.i, NULL);
  vtb_cpu_for_end(c, &l);
  if (whole < g->C)
    channels(s, rows, first, n, k_(c, whole), vtb_cpu_mask(c, k_(c, g->C - whole), c->width));
}

static void token(const dwconv *g, LLVMValueRef b, LLVMValueRef y, LLVMValueRef x) {
  vtb_cpu *c = g->c;
  LLVMValueRef t = vtb_cpu_add(c, vtb_cpu_mul(c, y, g->gw), x),
               pos = vtb__order_at(c, &g->order, t);
  token_sums s = {g, b, y, x,
                  vtb_cpu_element(c, &g->t->t[g->t->n_operands], (LLVMValueRef[]){b, pos}, 2)};
  each_pass(g, g->taps, MAX_TAPS, add_taps, &s);
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

/* The extra tokens of a sample. */
static void copy_extra(dwconv *g, const vtb_inst *inst) {
  vtb_cpu *c = g->c;
  g->t = vtb_cpu_task_begin(c, inst, "extra", g->n_batch, 1 + 4096 / (g->n_extra * g->C));
  LLVMValueRef mask = g->C % c->width ? vtb_cpu_mask(c, k_(c, g->C % c->width), c->width) : NULL;
  vtb_cpu_for e = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->n_extra), k_(c, 1));
  LLVMValueRef at[] = {g->t->index, vtb__order_at(c, &g->extra, e.i)};
  LLVMValueRef from = vtb_cpu_element(c, &g->t->t[0], at, 2),
               to = vtb_cpu_element(c, &g->t->t[g->t->n_operands], at, 2);
  int64_t whole = g->C / c->width * c->width;
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, whole), k_(c, c->width));
  store(c, load(c, vtb_cpu_at(c, from, l.i), NULL), vtb_cpu_at(c, to, l.i), NULL);
  vtb_cpu_for_end(c, &l);
  LLVMValueRef rest = k_(c, whole);
  if (mask) store(c, load(c, vtb_cpu_at(c, from, rest), mask), vtb_cpu_at(c, to, rest), mask);
  vtb_cpu_for_end(c, &e);
  vtb_cpu_task_end(c, g->t);
}

static void convolve(vtb_cpu *c, const vtb_inst *inst, bool mirrored) {
  dwconv g = take_apart(c, inst);
  g.mirrored = mirrored;
  g.zeros = make_row(&g, g.C, 0);
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
  if (g.n_extra) copy_extra(&g, inst);
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

/* Sums for a block of channels from `ch`, over grid rows from ... to of all batch entries. */
typedef struct weight_sums {
  const dwconv *g;
  const dw_cut *k;
  LLVMValueRef ch, mask, from, to, out;
} weight_sums;

static void sum_taps(void *user, LLVMValueRef first, int n) {
  const weight_sums *s = user;
  const dwconv *g = s->g;
  const dw_cut *k = s->k;
  vtb_cpu *c = g->c;
  int n_sums = n * k->vectors;
  vtb_cpu_for rows = vtb_cpu_for_begin(c, s->from, s->to, k_(c, 1));
  for (int i = 0; i < n_sums; i++) vtb_cpu_carry(c, &rows, LLVMConstNull(c->vf32));
  LLVMValueRef b = vtb_cpu_div(c, rows.i, g->rows), y = vtb_cpu_rem(c, rows.i, g->rows), dy[4];
  vtb_cpu_for x = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->gw), k_(c, 1));
  for (int i = 0; i < n_sums; i++) vtb_cpu_carry(c, &x, vtb_cpu_carried(&rows, i));
  LLVMValueRef t = vtb_cpu_add(c, vtb_cpu_mul(c, y, g->gw), x.i),
               pos = vtb__order_at(c, &g->order, t);
  LLVMValueRef dy_at = vtb_cpu_element(c, &g->t->t[1], (LLVMValueRef[]){b, pos, s->ch}, 3);
  for (int v = 0; v < k->vectors; v++)
    dy[v] = load(c, vtb_cpu_at(c, dy_at, k_(c, v * c->width)), s->mask);
  for (int i = 0; i < n; i++) {
    LLVMValueRef tap = vtb_cpu_add(c, first, k_(c, i));
    LLVMValueRef x_at = vtb_cpu_at(c, tap_row(g, 0, b, y, x.i, tap), s->ch);
    if (g->starts) x_at = LLVMBuildSelect(c->b, below(c, tap, g->taps), x_at, g->ones, "");
    for (int v = 0; v < k->vectors; v++) {
      int sum = i * k->vectors + v;
      LLVMValueRef value = load(c, vtb_cpu_at(c, x_at, k_(c, v * c->width)), s->mask);
      vtb_cpu_carry_next(&x, sum, vtb_cpu_fma(c, value, dy[v], vtb_cpu_carried(&x, sum)));
    }
  }
  vtb_cpu_for_end(c, &x);
  for (int i = 0; i < n_sums; i++) vtb_cpu_carry_next(&rows, i, vtb_cpu_carried(&x, i));
  vtb_cpu_for_end(c, &rows);
  LLVMValueRef out = vtb_cpu_at(c, s->out, vtb_cpu_mul(c, first, k->block));
  for (int i = 0; i < n_sums; i++)
    vtb_cpu_store(c, vtb_cpu_carried(&rows, i), vtb_cpu_at(c, out, k_(c, i * c->width)));
}

/* One number a share, from `element` of the first on. */
static void add_share(const dwconv *g, LLVMValueRef parts, LLVMValueRef element, const dw_cut *k,
                      LLVMValueRef to) {
  vtb_cpu *c = g->c;
  int64_t share = k->n_blocks * (g->taps + g->starts) * k->block;
  vtb_cpu_for s = vtb_cpu_for_begin(c, k_(c, 0), k_(c, k->n_shares), k_(c, 1));
  LLVMValueRef sum = vtb_cpu_carry(c, &s, vtb_cpu_f32(c, 0));
  LLVMValueRef part = vtb_cpu_add(c, element, vtb_cpu_mul(c, s.i, share));
  vtb_cpu_carry_next(&s, 0,
                     LLVMBuildFAdd(c->b, sum, vtb_cpu_load(c, vtb_cpu_at(c, parts, part), 1), ""));
  vtb_cpu_for_end(c, &s);
  vtb_cpu_store(c, vtb_cpu_carried(&s, 0), to);
}

/* Partial sums [share, block, tap, channel of the block] to dw [C, kernel...], and those of the tap
 * behind them. */
static void add_shares(dwconv *g, const vtb_inst *inst, int64_t temp, const dw_cut *k) {
  vtb_cpu *c = g->c;
  int64_t taps = g->taps + g->starts;
  g->t = vtb_cpu_task_begin(c, inst, "sum", g->C, 4096 / (taps * k->n_shares) + 1);
  LLVMValueRef parts = vtb_cpu_temp_ptr(c, g->t, temp), ch = g->t->index;
  LLVMValueRef at = vtb_cpu_mul(c, vtb_cpu_div(c, ch, k->block), taps * k->block);
  at = vtb_cpu_add(c, at, vtb_cpu_rem(c, ch, k->block));
  vtb_cpu_for a = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->kt * g->kh), k_(c, 1));
  vtb_cpu_for e = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->kw), k_(c, 1));
  LLVMValueRef tap = vtb_cpu_add(c, vtb_cpu_mul(c, a.i, g->kw), e.i);
  add_share(g, parts, vtb_cpu_add(c, at, vtb_cpu_mul(c, tap, k->block)), k,
            weight_at(g, 2, ch, a.i, e.i));
  vtb_cpu_for_end(c, &e);
  vtb_cpu_for_end(c, &a);
  if (g->starts)
    add_share(g, parts, vtb_cpu_add(c, at, k_(c, g->taps * k->block)), k,
              vtb_cpu_element(c, &g->t->t[3], (LLVMValueRef[]){ch}, 1));
  vtb_cpu_task_end(c, g->t);
}

void vtb__cpu_dwconv_dw(vtb_cpu *c, const vtb_inst *inst) {
  dwconv g = take_apart(c, inst);
  dw_cut k = cut(&g);
  int64_t taps = g.taps + g.starts;
  g.zeros = make_row(&g, k.n_blocks * k.block, 0);
  if (g.starts) g.ones = make_row(&g, k.block, 1);
  int64_t temp = vtb_cpu_temp(c, k.n_shares * k.n_blocks * taps * k.block * (int64_t)sizeof(float));
  g.t = vtb_cpu_task_begin(c, inst, "dw", k.n_shares * k.n_blocks, 1);
  LLVMValueRef out =
      vtb_cpu_at(c, vtb_cpu_temp_ptr(c, g.t, temp), vtb_cpu_mul(c, g.t->index, taps * k.block));
  LLVMValueRef ch = vtb_cpu_mul(c, vtb_cpu_rem(c, g.t->index, k.n_blocks), k.block);
  LLVMValueRef from = vtb_cpu_mul(c, vtb_cpu_div(c, g.t->index, k.n_blocks), k.share);
  LLVMValueRef to = vtb_cpu_min(c, vtb_cpu_add(c, from, k_(c, k.share)), k_(c, g.n_batch * g.rows));
  LLVMValueRef mask =
      g.C % k.block ? vtb_cpu_mask(c, LLVMBuildNSWSub(c->b, k_(c, g.C), ch, ""), c->width) : NULL;
  weight_sums sums = {&g, &k, ch, mask, from, to, out};
  each_pass(&g, taps, MAX_SUMS / k.vectors, sum_taps, &sums);
  vtb_cpu_task_end(c, g.t);
  add_shares(&g, inst, temp, &k);
}
