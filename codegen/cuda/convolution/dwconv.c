/* Depthwise convolution of tokens [B, N, C] on the grid [gh, gw] that the path walks row by row,
 * and its adjoints.
 *
 *   y[p(t)] = sum over taps (a, e) of w[c, a, e] x[p(t')],   t' = t + (a - top) gw + (e - left),
 *             zero where it leaves the grid
 *   dx        the same with the kernel turned by 180 degrees
 *   dw        sum over batch and t of x[p(t')] dy[p(t)]
 *
 * Lanes run along the channels; a thread walks a strip of a grid row with a window of inputs in
 * registers. dw: shares of the strips by blocks, added in order by a second kernel.
 */
#include "codegen/cuda/emitters.h"
#include "codegen/cuda/compile/holes.h"

#define THREADS 128
#define STRIP 16
#define WINDOW 64      /* taps times channels of a thread that may sit in registers */
#define SUMS 25        /* taps of dw a thread sums at once */
#define DW_BLOCKS 1024 /* about as many for dw, so that all of a GPU works */

typedef struct dwconv {
  vtb_cuda *c;
  const vtb_inst *inst;
  int64_t B, N, C, gh, gw, kh, kw, top, left, strip, strips;
} dwconv;

static int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }

static dwconv take_apart(vtb_cuda *c, const vtb_inst *inst, int64_t kh, int64_t kw) {
  int n;
  const vtb_type *x = &inst->operands[0]->type;
  const int64_t *grid = vtb_attr_ints(inst, "grid", &n), *pad = vtb_attr_ints(inst, "pad", &n);
  dwconv g = {.c = c, .inst = inst, .B = x->dim[0].size, .N = x->dim[1].size, .C = x->dim[2].size};
  g.gh = grid[0], g.gw = grid[1], g.kh = kh, g.kw = kw, g.top = pad[0], g.left = pad[1];
  g.strip = g.gw < STRIP ? g.gw : STRIP;
  g.strips = ceil_div(g.gw, g.strip);
  return g;
}

static void hole_shape(vtb__cuda_holes *h, const dwconv *g, vtb_cuda_kernel *k) {
  const struct {
    const char *name;
    int64_t value;
  } numbers[] = {{"C", g->C},       {"GH", g->gh},       {"GW", g->gw},
                 {"KH", g->kh},     {"KW", g->kw},       {"TOP", g->top},
                 {"LEFT", g->left}, {"STRIP", g->strip}, {"STRIPS", g->strips}};
  vtb_cuda_order order = vtb_cuda_order_make(k, vtb_attr_str(g->inst, "path", NULL), g->N, "order");
  vtb__hole_text(h, "place", "%s", vtb_cuda_order_at(g->c, &order, "t"));
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    vtb__hole_number(h, numbers[i].name, numbers[i].value);
}

static const char *token_at(const dwconv *g, int tensor) {
  return vtb_cuda_offset(g->c, tensor, (const char *const[]){"b", "pos", "ch"});
}

static void convolve(vtb_cuda *c, const vtb_inst *inst, bool turned) {
  const vtb_type *w = &inst->operands[1]->type;
  dwconv g = take_apart(c, inst, w->dim[1].size, w->dim[2].size);
  if (turned) g.top = g.kh - 1 - g.top, g.left = g.kw - 1 - g.left;
  bool four =
      vtb_cuda_rows_of_four(c, 0) && vtb_cuda_rows_of_four(c, 2) && g.kh * g.kw * 4 <= WINDOW;
  int64_t per = four ? 4 : 1, threads = g.B * g.gh * g.strips * (g.C / per);
  const char *w_at = vtb_cuda_offset(
      c, 1, (const char *const[]){"ch", turned ? "KH - 1 - a" : "a", turned ? "KW - 1 - e" : "e"});
  long long w_step = (long long)vtb_cuda_tensor_of(c, 1)->stride[0];
  vtb__cuda_holes h;
  vtb_cuda_kernel *k = vtb_cuda_begin(c, turned ? "dwconv_dx" : "dwconv", THREADS);
  vtb__holes_init(&h);
  vtb_cuda_in(k, 0, "x_in");
  vtb_cuda_in(k, 1, "w_in");
  vtb_cuda_out(k, 2, "y_out");
  hole_shape(&h, &g, k);
  vtb__hole_number(&h, "THREADS", threads);
  vtb__hole_number(&h, "PER", per);
  vtb__hole_number(&h, "WINDOW", WINDOW);
  vtb__hole_text(&h, "value", four ? "vtb_f4" : "float");
  vtb__hole_text(&h, "zero", four ? "vtb_splat(0.0f)" : "0.0f");
  if (four) {
    vtb__hole_text(&h, "load", "vtb_load4(x_in, %s)", token_at(&g, 0));
    vtb__hole_text(&h, "store", "vtb_store4(y_out, %s, sum)", token_at(&g, 2));
    vtb__hole_text(&h, "weight", "vtb_gather4(w_in, %s, %lld)", w_at, w_step);
  } else {
    vtb__hole_text(&h, "load", "x_in[%s]", token_at(&g, 0));
    vtb__hole_text(&h, "store", "y_out[%s] = sum", token_at(&g, 2));
    vtb__hole_text(&h, "weight", "w_in[%s]", w_at);
  }
  vtb__holes_fill(&h, k, "dwconv.cu");
  vtb_cuda_launch(k, ceil_div(threads, THREADS));
}

void vtb__cuda_dwconv(vtb_cuda *c, const vtb_inst *inst) { convolve(c, inst, false); }
void vtb__cuda_dwconv_dx(vtb_cuda *c, const vtb_inst *inst) { convolve(c, inst, true); }

/* dw [C, kh, kw] from parts [share, tap, C]. */
static void add_shares(const dwconv *g, int part, int64_t shares) {
  long long taps = (long long)(g->kh * g->kw), C = (long long)g->C;
  vtb_cuda_kernel *k = vtb_cuda_begin(g->c, "dwconv_add", THREADS);
  vtb_cuda_temp_in(k, part, "float", "part");
  vtb_cuda_out(k, 2, "dw");
  vtb_cuda_line(k, "const int i = vtb_block() * %d + vtb_tid();", THREADS);
  vtb_cuda_open(k, "if (i < %lld)", taps * C);
  vtb_cuda_line(k, "const int ch = i %% %lld, a = i / %lld / %lld, e = i / %lld %% %lld;", C, C,
                (long long)g->kw, C, (long long)g->kw);
  vtb_cuda_line(k, "float sum = 0.0f;");
  vtb_cuda_line(k, "for (int share = 0; share < %lld; share++) sum += part[share * %lld + i];",
                (long long)shares, taps * C);
  vtb_cuda_line(k, "dw[%s] = sum;",
                vtb_cuda_offset(g->c, 2, (const char *const[]){"ch", "a", "e"}));
  vtb_cuda_close(k);
  vtb_cuda_launch(k, ceil_div(taps * C, THREADS));
}

void vtb__cuda_dwconv_dw(vtb_cuda *c, const vtb_inst *inst) {
  int n;
  const int64_t *kernel = vtb_attr_ints(inst, "kernel", &n);
  dwconv g = take_apart(c, inst, kernel[0], kernel[1]);
  int64_t taps = g.kh * g.kw, groups = ceil_div(taps, SUMS), sums = ceil_div(taps, groups);
  int64_t strips = g.B * g.gh * g.strips, others = ceil_div(g.C, 32) * groups;
  int64_t shares = ceil_div(DW_BLOCKS, others), most = ceil_div(strips, 8);
  if (shares > most) shares = most;
  int part = vtb_cuda_temp(c, shares * taps * g.C * 4);
  vtb__cuda_holes h;
  vtb_cuda_kernel *k = vtb_cuda_begin(c, "dwconv_dw", 256);
  vtb__holes_init(&h);
  vtb_cuda_in(k, 0, "x_in");
  vtb_cuda_in(k, 1, "dy_in");
  vtb_cuda_temp_out(k, part, "float", "part");
  hole_shape(&h, &g, k);
  vtb__hole_number(&h, "TAPS_AT_ONCE", sums);
  vtb__hole_number(&h, "GROUPS", groups);
  vtb__hole_number(&h, "SHARES", shares);
  vtb__hole_number(&h, "ALL", strips);
  vtb__hole_text(&h, "x", "x_in[%s]", token_at(&g, 0));
  vtb__hole_text(&h, "dy", "dy_in[%s]", token_at(&g, 1));
  vtb_cuda_shared(k, "float", 4, "warps", 8 * sums * 32);
  vtb__holes_fill(&h, k, "dwconv_dw.cu");
  vtb_cuda_launch(k, others * shares);
  add_shares(&g, part, shares);
}
