/* Depthwise convolution of tokens [B, N, C] on the grid [gt, gh, gw] that the path walks row by
 * row, and its adjoints. Grids of fewer axes have frames, or rows, of extent 1.
 *
 *   y[p(t)] = start[c] + sum over taps (f, a, e) of w[c, f, a, e] x[p(t')],
 *             t' = t + ((f - front) gh + (a - top)) gw + (e - left), zero where it leaves the grid
 *   dx        the same with the kernel turned round
 *   dw        sum over batch and t of x[p(t')] dy[p(t)], of dy alone for start
 *
 * Extra tokens of the path are no t: y and dx have what they read there.
 * Thin products of what a convolution reads and makes (kind local) are sums of its kernel, a share
 * of the channels each.
 *
 * Lanes run along the channels; a thread walks a strip of a grid row with a window of inputs in
 * registers. dw: shares of the strips by blocks, added in order by a second kernel.
 */
#include "codegen/cuda/emitters.h"
#include "ir/ops.h"
#include "codegen/cuda/loop/expr.h"
#include "ir/convolution.h"
#include "ir/kernels.h"
#include "ir/rewrite.h"

#define THREADS 128
#define STRIP 16
#define WINDOW 64      /* taps times channels of a thread that may sit in registers */
#define ROW_TAPS 8     /* of a thread of four channels, beside the sums of a strip */
#define MOST_TAPS 49   /* of dw, which keeps them in registers */
#define SUMS 25        /* taps of dw a thread sums at once */
#define DW_WINDOW 36   /* of dw: those that a thread of four channels has */
#define DW_BLOCKS 1024 /* about as many for dw, so that all of a GPU works */

typedef struct dwconv {
  vtb_cuda *c;
  const vtb_inst *inst;
  int rank;
  int64_t B, N, C, gt, gh, gw, kt, kh, kw, front, top, left, strip, strips, taps, n_extra;
} dwconv;

static int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }

/* Strips of a grid row: equal ones if there are, of at least half the length. */
static int64_t strips_of(int64_t columns) {
  int64_t least = ceil_div(columns, STRIP);
  for (int64_t n = least; n <= 2 * least; n++)
    if (columns % n == 0) return n;
  return least;
}

static dwconv take_apart(vtb_cuda *c, const vtb_inst *inst) {
  vtb_depthwise d;
  vtb_check(vtb_depthwise_of(inst, &d), "dwconv: attributes");
  dwconv g = {.c = c, .inst = inst, .B = d.batch, .N = d.tokens, .C = d.channels, .rank = d.rank};
  g.gt = d.grid[0], g.gh = d.grid[1], g.gw = d.grid[2];
  g.kt = d.kernel[0], g.kh = d.kernel[1], g.kw = d.kernel[2];
  g.front = d.pad[0], g.top = d.pad[1], g.left = d.pad[2];
  g.taps = g.kt * g.kh * g.kw, g.n_extra = d.n_extra;
  g.strips = strips_of(g.gw);
  g.strip = ceil_div(g.gw, g.strips);
  return g;
}

/* From cell to cell of a grid row; 0 if it is not the same everywhere. */
static int64_t step_along(const dwconv *g, const int64_t *places) {
  int64_t cells = g->gt * g->gh * g->gw, step = g->gw > 1 ? places[1] - places[0] : 1;
  for (int64_t t = 1; t < cells; t++)
    if (t % g->gw && places[t] - places[t - 1] != step) return 0;
  return step;
}

/* `extra`: the kernel has what it makes of extra tokens, too. Gives the step from token to token of
 * a grid row, 0 if it is not the same everywhere. */
static int64_t fill_shape(vtb_cuda_kernel *k, const dwconv *g, bool extra) {
  int64_t *places = vtb_xcalloc((size_t)g->N + 1, sizeof *places), cells = g->N - g->n_extra;
  vtb_depthwise d;
  vtb_check(vtb_depthwise_of(g->inst, &d), "dwconv: attributes");
  vtb_depthwise_places(g->inst, &d, places);
  const char *path = vtb_attr_str(g->inst, "path", NULL);
  vtb_cuda_order order = g->n_extra ? vtb_cuda_order_of(k, places, cells, "order")
                                    : vtb_cuda_order_make(k, path, g->N, "order");
  int64_t step = step_along(g, places);
  if (extra) {
    vtb_cuda_order past = vtb_cuda_order_of(k, places + cells, g->n_extra, "extra_order");
    vtb_cuda_fill(k, "extra", "%s", vtb_cuda_order_at(g->c, &past, "e"));
    VTB_CUDA_NUMBERS(k, {"EXTRA", g->n_extra}, {"EXTRAS", g->B * g->n_extra});
  }
  vtb_free(places);
  vtb_cuda_fill(k, "place", "%s", vtb_cuda_order_at(g->c, &order, "t"));
  VTB_CUDA_NUMBERS(k, {"C", g->C}, {"GT", g->gt}, {"GH", g->gh}, {"GW", g->gw}, {"KT", g->kt},
                   {"KH", g->kh}, {"KW", g->kw}, {"FRONT", g->front}, {"TOP", g->top},
                   {"LEFT", g->left}, {"STRIP", g->strip}, {"STRIPS", g->strips});
  return step;
}

/* The taps of four neighbouring channels lie behind one another, 16-byte aligned. */
static bool is_flat(const dwconv *g, int tensor) {
  const vtb_cuda_tensor *w = vtb_cuda_tensor_of(g->c, tensor);
  return vtb__is_dense(w->type, w->stride) && w->align >= 4;
}

static const char *token_at(const dwconv *g, int tensor) {
  return vtb_cuda_offset(g->c, tensor, (const char *const[]){"b", "pos", "ch"});
}

/* Offset of the weight of channel ch for row a of the kernel, rows of all frames counted through,
 * and column e; turned: of the tap opposite. */
static const char *weight_at(const dwconv *g, int tensor, bool turned) {
  const char *const e = turned ? "KW - 1 - e" : "e",
                    *const t = turned ? "KT - 1 - a / KH" : "a / KH",
                    *const a = turned ? "KH - 1 - a % KH" : "a % KH";
  const char *const index[] = {"ch", t, a, e},
                    *const plane[] = {"ch", turned ? "KH - 1 - a" : "a", e},
                    *const line[] = {"ch", e};
  return vtb_cuda_offset(g->c, tensor, g->rank == 3 ? index : g->rank == 2 ? plane : line);
}

/* The start of sums: a number a channel, the convolution's third operand. */
static void fill_start(const dwconv *g, vtb_cuda_kernel *k) {
  bool starts = g->inst->n_operands == 3;
  if (starts) vtb_cuda_in(k, 2, "start_in");
  vtb_cuda_fill(k, "start_from", starts ? "start_in + (%s)" : "w_in", /* not reached */
                starts ? vtb_cuda_offset(g->c, 2, (const char *const[]){"ch"}) : "");
  VTB_CUDA_NUMBERS(k, {"START", starts},
                   {"START_STEP", starts ? vtb_cuda_tensor_of(g->c, 2)->stride[0] : 0});
}

/* The lines that store the sum. NULL: the body behind it takes no fours. */
static const char *store_text(const dwconv *g, vtb_cuda_kernel *k, const vtb_inst *fused,
                              bool four) {
  if (!fused) {
    int y = g->inst->n_operands;
    vtb_cuda_out(k, y, "y_out");
    return vtb_arena_printf(&g->c->arena, "vtb_write(y_out, %s, sum);", token_at(g, y));
  }
  const char *const numbers[] = {"b", "pos", "ch"};
  vtb_cuda_point p = {.value = g->inst->results[0],
                      .name = four ? "vsum" : "sum",
                      .number = numbers,
                      .lanes = four ? 4 : 1};
  const char *text = vtb__cuda_local_text(k, fused, &p);
  if (!text || !four) return text;
  return vtb_arena_printf(&g->c->arena, "const vtb_f4 vsum = sum;\n%s", text);
}

/* Products of small matrices read what other channels of their group have. */
static bool mixes_channels(const vtb_inst *fused) {
  for (const vtb_inst *i = fused->callee->first; i; i = i->next)
    if (i->op == VTB_OP_einsum && !vtb_is_share(i)) return true;
  return false;
}

/* A thread of four channels has all taps, or those of a row and the sums of a strip. */
static bool fits_fours(const dwconv *g) { return g->taps * 4 <= WINDOW || g->kw <= ROW_TAPS; }

/* With a body behind it, or without. False: it cannot have fours. */
static bool convolve_with(vtb_cuda *c, const vtb_inst *inst, const vtb_inst *fused, bool four) {
  bool turned = inst->op == VTB_OP_dwconv_dx;
  dwconv g = take_apart(c, inst);
  if (turned) g.front = g.kt - 1 - g.front, g.top = g.kh - 1 - g.top, g.left = g.kw - 1 - g.left;
  bool aligned =
      vtb_cuda_rows_of_four(c, 0) && (fused || vtb_cuda_rows_of_four(c, inst->n_operands));
  bool wanted = aligned && fits_fours(&g);
  four = four && g.C % 4 == 0 && (wanted || (fused && mixes_channels(fused)));
  int64_t per = four ? 4 : 1, threads = g.B * g.gt * g.gh * g.strips * (g.C / per);
  int64_t others = g.B * g.n_extra * (g.C / per);
  vtb_cuda_kernel *k =
      vtb_cuda_begin_text(c, turned ? "dwconv_dx" : "dwconv", "dwconv.cu", THREADS);
  vtb_cuda_in(k, 0, "x_in");
  vtb_cuda_in(k, 1, "w_in");
  const char *store = store_text(&g, k, fused, four);
  if (!store) {
    vtb__cuda_discard(k);
    return false;
  }
  vtb_cuda_fill(k, "store", "%s", store);
  int64_t step = fill_shape(k, &g, true);
  fill_start(&g, k);
  VTB_CUDA_NUMBERS(k, {"ITEMS", threads}, {"WINDOW", WINDOW},
                   {"X_STEP", aligned ? 0 : vtb_cuda_tensor_of(c, 0)->stride[2]},
                   {"X_ALONG", step * vtb_cuda_tensor_of(c, 0)->stride[1]},
                   {"W_FLAT", is_flat(&g, 1)}, {"TURNED", turned},
                   {"W_STEP", vtb_cuda_tensor_of(c, 1)->stride[0]});
  vtb_cuda_fill(k, "value", four ? "vtb_f4" : "float");
  vtb_cuda_fill(k, "x_at", "%s", token_at(&g, 0));
  vtb_cuda_fill(k, "w_at", "%s", weight_at(&g, 1, turned));
  vtb_cuda_launch(k, ceil_div(threads + others, THREADS));
  return true;
}

/* ---- with thin products beside -------------------------------------------------------------- */

/* Tiles hold the elements as they lie in memory, eight in 16 bytes each access. */
static bool are_pieces(vtb_cuda *c, int tensor) {
  const vtb_cuda_tensor *t = vtb_cuda_tensor_of(c, tensor);
  int last = t->type->rank - 1;
  bool eight = vtb_dtype_bytes(t->type->dtype) == 2 && t->align == 8 && t->stride[last] == 1 &&
               t->type->dim[last].size % 8 == 0 &&
               vtb_streq(vtb__cuda_type_name(t->type->dtype), vtb__cuda_tile_type(c));
  for (int a = 0; a < last; a++) eight &= t->type->dim[a].size == 1 || t->stride[a] % 8 == 0;
  return eight;
}

/* Addresses of the products' factors, and where their sum goes. */
static void fill_products(const dwconv *g, vtb_cuda_kernel *k, const vtb_inst *fused, int n) {
  const vtb_inst *shares[VTB_MOST_SHARES];
  int found = 0, result = 0;
  bool four = true, eight = true;
  vtb_strbuf bring = {0};
  for (const vtb_inst *i = fused->callee->first; i; i = i->next)
    if (vtb_is_share(i)) shares[found++] = i;
  for (int p = 0; p < n; p++) {
    int tensor = shares[p]->operands[1]->index;
    const char *name = vtb_arena_printf(&g->c->arena, "u%d", p);
    const char *const index[] = {"n", "share", NULL};
    vtb_cuda_in(k, tensor, name);
    four &= vtb_cuda_rows_of_four(g->c, tensor);
    eight &= are_pieces(g->c, tensor);
    vtb_strbuf_printf(&bring, "copy(%d, [&](int n) { return %s + (%s); });\n", p, name,
                      vtb_cuda_offset(g->c, tensor, index));
  }
  while (fused->callee->returns[result] != shares[n - 1]->results[0]) result++;
  const char *const index[] = {"share", "b", "pos", "n"};
  vtb_cuda_out(k, fused->n_operands + result, "part_out");
  vtb_cuda_fill(k, "bring", "%s", bring.at);
  vtb_cuda_fill(k, "put", "part_out[%s] = total;",
                vtb_cuda_offset(g->c, fused->n_operands + result, index));
  VTB_CUDA_NUMBERS(k, {"EACH", eight ? 8 : four ? 4 : 1}, {"PRODUCTS", n});
  vtb_strbuf_free(&bring);
}

/* A block has a share of a strip's channels; tiles have 16 tokens. False: it cannot have fours. */
static bool convolve_shares(vtb_cuda *c, const vtb_inst *fused, int n, bool four) {
  const vtb_inst *inst = fused->callee->first, *share = inst;
  while (!vtb_is_share(share)) share = share->next;
  dwconv g = take_apart(c, inst);
  const vtb_type *sum = &share->results[0]->type;
  int64_t shares = sum->dim[0].size, per = four ? 4 : 1, lanes = ceil_div(g.C / shares, per);
  bool aligned = vtb_cuda_rows_of_four(c, 0) && (g.C / shares) % 4 == 0;
  const char *const numbers[] = {"b", "pos", "ch"};
  vtb_cuda_point at = {.value = inst->results[0],
                       .name = four ? "vsum" : "sum",
                       .number = numbers,
                       .lanes = four ? 4 : 1,
                       .centre = four ? "vcentre" : "centre"};
  vtb_cuda_kernel *k =
      vtb_cuda_begin_text(c, "dwconv_thin", "dwconv_thin.cu", (int)ceil_div(lanes, 32) * 32);
  vtb_cuda_in(k, 0, "x_in");
  vtb_cuda_in(k, 1, "w_in");
  const char *store = vtb__cuda_local_text(k, fused, &at);
  if (!store) {
    vtb__cuda_discard(k);
    return false;
  }
  vtb_cuda_fill(k, "store", "%s%s", four ? "const vtb_f4 vsum = sum, vcentre = centre;\n" : "",
                store);
  int64_t step = fill_shape(k, &g, true), blocks = g.B * g.gt * g.gh * g.strips * shares;
  fill_start(&g, k);
  fill_products(&g, k, fused, n);
  VTB_CUDA_NUMBERS(k, {"GRID_BLOCKS", blocks}, {"SHARES", shares},
                   {"OUTPUTS", sum->dim[sum->rank - 1].size}, {"FACTORS", vtb__cuda_factors(c)},
                   {"WINDOW", WINDOW},
                   {"X_STEP", aligned ? 0 : vtb_cuda_tensor_of(c, 0)->stride[2]},
                   {"X_ALONG", step * vtb_cuda_tensor_of(c, 0)->stride[1]},
                   {"W_FLAT", is_flat(&g, 1)}, {"W_STEP", vtb_cuda_tensor_of(c, 1)->stride[0]});
  vtb_cuda_fill(k, "value", four ? "vtb_f4" : "float");
  vtb_cuda_fill(k, "T", "%s", vtb__cuda_tile_type(c));
  vtb_cuda_fill(k, "x_at", "%s", token_at(&g, 0));
  vtb_cuda_fill(k, "w_at", "%s", weight_at(&g, 1, false));
  vtb_cuda_launch(k, blocks + ceil_div(g.B * g.n_extra, g.strip) * shares);
  return true;
}

static void refuse_body(vtb_cuda *c, const vtb_inst *fused) {
  vtb_cuda_unsupported(c, fused,
                       "a convolution of %lld channels with a body that is not of four "
                       "neighbouring ones, or of one",
                       (long long)vtb_cuda_tensor_of(c, 0)->type->dim[2].size);
}

static void convolve(vtb_cuda *c, const vtb_inst *inst, const vtb_inst *fused) {
  int n = 0;
  for (const vtb_inst *i = fused ? inst : NULL; i; i = i->next) n += vtb_is_share(i);
  bool done;
  if (n > VTB_MOST_SHARES) {
    vtb_cuda_unsupported(c, fused, "%d products of shares, and %d are the most", n,
                         VTB_MOST_SHARES);
    return;
  }
  if (n > 0) {
    const dwconv g = take_apart(c, inst);
    bool four = fits_fours(&g) || mixes_channels(fused);
    done = convolve_shares(c, fused, n, four) || convolve_shares(c, fused, n, !four);
  } else {
    done = convolve_with(c, inst, fused, true) || convolve_with(c, inst, fused, false);
  }
  if (!done) refuse_body(c, fused);
}

void vtb__cuda_dwconv(vtb_cuda *c, const vtb_inst *inst) { convolve(c, inst, NULL); }
void vtb__cuda_dwconv_dx(vtb_cuda *c, const vtb_inst *inst) { convolve(c, inst, NULL); }

/* The shares' sums of all taps, and of dy for a bias: `sums` a channel. */
static void add_shares(const dwconv *g, int part, int64_t shares, int64_t sums, int dw,
                       int bias_at) {
  vtb_cuda_kernel *k = vtb_cuda_begin_text(g->c, "dwconv_add", "parts_add.cu", 256);
  vtb_arena *arena = &g->c->arena;
  vtb_cuda_temp_in(k, part, "float", "part");
  vtb_cuda_out(k, dw, "dw");
  if (sums > g->taps) vtb_cuda_out(k, bias_at, "d_bias");
  VTB_CUDA_NUMBERS(k, {"COUNT", sums * g->C}, {"SHARES", shares});
  const char *bias = sums > g->taps
                         ? vtb_arena_printf(arena, "if (a == %lld) d_bias[ch] = sum; else ",
                                            (long long)(g->kt * g->kh))
                         : "";
  vtb_cuda_fill(k, "store",
                "constexpr int KT = %lld, KH = %lld, KW = %lld;\n"
                "  (void)KT, (void)KH;\n"
                "  const int ch = i %% %lld, a = i / %lld / KW, e = i / %lld %% KW;\n"
                "  %sdw[%s] = sum;",
                (long long)g->kt, (long long)g->kh, (long long)g->kw, (long long)g->C,
                (long long)g->C, (long long)g->C, bias, weight_at(g, dw, false));
  vtb_cuda_launch(k, ceil_div(sums * g->C, 32));
}

/* Many taps: a thread sums some of one channel. */
static void sum_taps(dwconv *g, bool bias) {
  int64_t taps = g->taps + bias, groups = ceil_div(taps, SUMS), sums = ceil_div(taps, groups);
  int64_t strips = g->B * g->gt * g->gh * g->strips, others = ceil_div(g->C, 32) * groups;
  int64_t shares = ceil_div(DW_BLOCKS, others), most = ceil_div(strips, 8);
  if (shares > most) shares = most;
  int part = vtb_cuda_temp(g->c, shares * taps * g->C * 4);
  vtb_cuda_kernel *k = vtb_cuda_begin_text(g->c, "dwconv_dw", "dwconv_dw.cu", 256);
  vtb_cuda_in(k, 0, "x_in");
  vtb_cuda_in(k, 1, "dy_in");
  vtb_cuda_temp_out(k, part, "float", "part");
  fill_shape(k, g, false);
  VTB_CUDA_NUMBERS(k, {"BIAS", bias}, {"SUMS", sums}, {"GROUPS", groups}, {"SHARES", shares},
                   {"ALL", strips});
  vtb_cuda_fill(k, "x_at", "%s", token_at(g, 0));
  vtb_cuda_fill(k, "dy_at", "%s", token_at(g, 1));
  vtb_cuda_launch(k, others * shares);
  add_shares(g, part, shares, taps, 2, 3);
}

/* All taps of one channel, or of four, sit in a thread's registers twice: inputs and sums; where
 * those of four are too many, those of a row of the kernel. */
static void sum_strips(dwconv *g, bool bias) {
  vtb_cuda *c = g->c;
  bool all = g->taps * 4 <= DW_WINDOW, four = vtb_cuda_rows_of_four(c, 0) &&
                                              vtb_cuda_rows_of_four(c, 1) &&
                                              (all || g->kw <= ROW_TAPS);
  int64_t rows = g->kt * g->kh, groups = four && !all ? rows : 1;
  int64_t columns = g->C / (four ? 4 : 1), along = columns < 32 ? columns : 32;
  int64_t strips = g->B * g->gt * g->gh * g->strips, tiles = ceil_div(columns, along) * groups;
  int64_t shares = ceil_div(DW_BLOCKS, tiles), most = ceil_div(strips * along, 256);
  if (shares > most) shares = most;
  int part = vtb_cuda_temp(c, shares * (g->taps + bias) * g->C * 4);
  vtb_cuda_kernel *k = vtb_cuda_begin_text(c, "dwconv_dw", "dwconv_dw_strip.cu", 256);
  vtb_cuda_in(k, 0, "x_in");
  vtb_cuda_in(k, 1, "dy_in");
  vtb_cuda_temp_out(k, part, "float", "part");
  fill_shape(k, g, false);
  VTB_CUDA_NUMBERS(k, {"ALONG", along}, {"SHARES", shares}, {"ALL", strips}, {"BIAS", bias},
                   {"EACH", rows / groups});
  vtb_cuda_fill(k, "value", four ? "vtb_f4" : "float");
  vtb_cuda_fill(k, "x_at", "%s", token_at(g, 0));
  vtb_cuda_fill(k, "dy_at", "%s", token_at(g, 1));
  vtb_cuda_launch(k, tiles * shares);
  add_shares(g, part, shares, g->taps + bias, 2, 3);
}

static void sum(vtb_cuda *c, const vtb_inst *dw, bool bias) {
  dwconv g = take_apart(c, dw);
  if (g.taps <= MOST_TAPS)
    sum_strips(&g, bias);
  else
    sum_taps(&g, bias);
}

void vtb__cuda_dwconv_dw(vtb_cuda *c, const vtb_inst *inst) { sum(c, inst, inst->n_results == 2); }

/* With the bias' gradient, which is dy's sum: a `fused` of kind "sums". */
void vtb__cuda_dwconv_sums(vtb_cuda *c, const vtb_inst *fused) {
  sum(c, fused->callee->first, true);
}

/* ---- all adjoints at once -------------------------------------------------------------------- */

static const vtb_inst *op_of(const vtb_inst *fused, vtb_op op) {
  const vtb_inst *i = fused->callee->first;
  while (i && i->op != op) i = i->next;
  return i;
}

/* The kernel's tensor of result r of the first such op; -1: none. */
static int result_of(const vtb_inst *fused, vtb_op op, int r) {
  const vtb_inst *i = op_of(fused, op);
  int at = i && r < i->n_results ? vtb_return_of(i->results[r]) : -1;
  return at < 0 ? -1 : fused->n_operands + at;
}

/* The holes that read dy: where it lies, or lines that make it. False: these take no fours. */
static bool fill_dy(const dwconv *g, vtb_cuda_kernel *k, const vtb_inst *fused, bool four) {
  const vtb_value *dy = g->inst->operands[0];
  if (!dy->def) {
    bool aligned = vtb_cuda_rows_of_four(g->c, dy->index);
    vtb_cuda_in(k, dy->index, "dy_in");
    VTB_CUDA_NUMBERS(k, {"DY_STEP", aligned ? 0 : vtb_cuda_tensor_of(g->c, dy->index)->stride[2]});
    vtb_cuda_fill(k, "dy_at", "%s", token_at(g, dy->index));
    return true;
  }
  const char *const numbers[] = {"b", "pos", "ch"};
  vtb_cuda_point p = {
      .value = dy, .name = four ? "vmade" : "made", .number = numbers, .lanes = four ? 4 : 1};
  const char *take = vtb__cuda_local_value(k, fused, &p);
  if (take) vtb_cuda_fill(k, "take", four ? "vtb_f4 vmade;\n%smade = vmade;" : "%s", take);
  return take != NULL;
}

static bool adjoints_with(vtb_cuda *c, const vtb_inst *fused, bool four) {
  const vtb_inst *dx = op_of(fused, VTB_OP_dwconv_dx), *dw = op_of(fused, VTB_OP_dwconv_dw);
  dwconv g = take_apart(c, dx);
  const vtb_value *dy = dx->operands[0];
  int w = dx->operands[1]->index, x = dw->operands[0]->index;
  int dw_at = result_of(fused, VTB_OP_dwconv_dw, 0), bias = result_of(fused, VTB_OP_dwconv_dw, 1);
  if (bias < 0) bias = result_of(fused, VTB_OP_reduce_sum, 0);
  g.front = g.kt - 1 - g.front, g.top = g.kh - 1 - g.top, g.left = g.kw - 1 - g.left;
  bool few = g.taps * 4 <= DW_WINDOW;
  bool dy_aligned = dy->def || vtb_cuda_rows_of_four(c, dy->index),
       x_aligned = vtb_cuda_rows_of_four(c, x);
  four = four && g.C % 4 == 0 && few && ((dy_aligned && x_aligned) || mixes_channels(fused));
  int64_t columns = g.C / (four ? 4 : 1), along = columns < 32 ? columns : 32;
  if (dy->def) g.strips = 1, g.strip = g.gw;
  int64_t strips = g.B * g.gt * g.gh * g.strips, tiles = ceil_div(columns, along);
  int64_t lanes = THREADS / along, shares = ceil_div(DW_BLOCKS, tiles);
  shares = ceil_div(strips, ceil_div(ceil_div(strips, shares), lanes) * lanes);
  int64_t sums = g.taps + (bias >= 0);
  const char *text = dy->def ? "dwconv_grad_take.cu" : "dwconv_grad.cu";
  vtb_cuda_kernel *k = vtb_cuda_begin_text(c, "dwconv_grad", text, THREADS);
  vtb_cuda_in(k, w, "w_in");
  vtb_cuda_in(k, x, "x_in");
  bool taken = fill_dy(&g, k, fused, four);
  const char *store = taken ? store_text(&g, k, fused, four) : NULL;
  if (!store) {
    vtb__cuda_discard(k);
    return false;
  }
  int part = vtb_cuda_temp(c, shares * sums * g.C * 4);
  vtb_cuda_temp_out(k, part, "float", "part");
  vtb_cuda_fill(k, "store", "%s", store);
  fill_shape(k, &g, true);
  VTB_CUDA_NUMBERS(k, {"ALONG", along}, {"SHARES", shares}, {"ALL", strips}, {"BIAS", bias >= 0},
                   {"W_FLAT", is_flat(&g, w)}, {"W_STEP", vtb_cuda_tensor_of(c, w)->stride[0]},
                   {"X_STEP", x_aligned ? 0 : vtb_cuda_tensor_of(c, x)->stride[2]});
  vtb_cuda_fill(k, "value", four ? "vtb_f4" : "float");
  vtb_cuda_fill(k, "x_at", "%s", token_at(&g, x));
  vtb_cuda_fill(k, "w_at", "%s", weight_at(&g, w, true));
  vtb_cuda_launch(k, tiles * shares);
  add_shares(&g, part, shares, sums, dw_at, bias);
  return true;
}

void vtb__cuda_local_convolution(vtb_cuda *c, const vtb_inst *fused) {
  if (!op_of(fused, VTB_OP_dwconv_dw))
    convolve(c, fused->callee->first, fused);
  else if (!adjoints_with(c, fused, true) && !adjoints_with(c, fused, false))
    refuse_body(c, fused);
}
