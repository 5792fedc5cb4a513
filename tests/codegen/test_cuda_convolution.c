/* Depthwise convolutions, patches and max-plus scans with their adjoints: emulated CUDA kernels
 * against the interpreter. */
#include "tests/codegen/cuda_check.h"
#include "ir/ops.h"

static vtb_type shape(int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
  return vtb_type_make(VTB_F32, rank, (int64_t[]){a, b, c, d});
}

static void depthwise(cuda_cases *c, int64_t B, int64_t gh, int64_t gw, int64_t C, int64_t kh,
                      int64_t kw, int64_t top, int64_t left, const char *path) {
  vtb_type t = shape(3, B, gh * gw, C, 0);
  vtb_value *x = cuda_arg(c, t, 1, 0), *dy = cuda_arg(c, t, 1, 0),
            *w = cuda_arg(c, shape(3, C, kh, kw, 0), 1, 0);
  const int64_t grid[] = {gh, gw}, pad[] = {top, left}, kernel[] = {kh, kw};
  vtb_attr attrs[4] = {VTB_A_INTS("grid", grid, 2), VTB_A_INTS("pad", pad, 2)};
  int n = 2;
  if (path) attrs[n++] = VTB_A_STR("path", path);
  cuda_return(c, vtb_build(&c->b, VTB_OP_dwconv, (vtb_value *[]){x, w}, 2, attrs, n));
  cuda_return(c, vtb_build(&c->b, VTB_OP_dwconv_dx, (vtb_value *[]){dy, w}, 2, attrs, n));
  attrs[n++] = VTB_A_INTS("kernel", kernel, 2);
  cuda_return(c, vtb_build(&c->b, VTB_OP_dwconv_dw, (vtb_value *[]){x, dy}, 2, attrs, n));
  c->n_cases++;
}

static void depthwise_on(cuda_cases *c, int rank, int64_t B, int64_t C, const int64_t *grid,
                         const int64_t *kernel, const int64_t *pad, const char *path) {
  int64_t tokens = 1;
  vtb_type w_type = {.dtype = VTB_F32, .rank = 1 + rank, .dim = {{C, NULL}}};
  for (int k = 0; k < rank; k++) tokens *= grid[k], w_type.dim[1 + k].size = kernel[k];
  vtb_type t = shape(3, B, tokens, C, 0);
  vtb_value *x = cuda_arg(c, t, 1, 0), *dy = cuda_arg(c, t, 1, 0), *w = cuda_arg(c, w_type, 1, 0);
  vtb_attr attrs[4] = {VTB_A_INTS("grid", grid, rank), VTB_A_INTS("pad", pad, rank)};
  int n = 2;
  if (path) attrs[n++] = VTB_A_STR("path", path);
  cuda_return(c, vtb_build(&c->b, VTB_OP_dwconv, (vtb_value *[]){x, w}, 2, attrs, n));
  cuda_return(c, vtb_build(&c->b, VTB_OP_dwconv_dx, (vtb_value *[]){dy, w}, 2, attrs, n));
  attrs[n++] = VTB_A_INTS("kernel", kernel, rank);
  cuda_return(c, vtb_build(&c->b, VTB_OP_dwconv_dw, (vtb_value *[]){x, dy}, 2, attrs, n));
  c->n_cases++;
}

static void patches_on(cuda_cases *c, int rank, int64_t B, int64_t C, const int64_t *size,
                       const int64_t *kernel, const int64_t *stride, const int64_t *pad) {
  int64_t n = 1, taps = 1, image[4] = {C};
  vtb_type t = {.dtype = VTB_F32, .rank = 2 + rank, .dim = {{B, NULL}, {C, NULL}}};
  for (int k = 0; k < rank; k++) {
    t.dim[2 + k].size = image[1 + k] = size[k];
    n *= (size[k] + pad[k] + pad[rank + k] - kernel[k]) / stride[k] + 1, taps *= kernel[k];
  }
  vtb_value *x = cuda_arg(c, t, 1, 0), *cols = cuda_arg(c, shape(3, B, n, C * taps, 0), 1, 0);
  vtb_attr attrs[4] = {VTB_A_INTS("kernel", kernel, rank), VTB_A_INTS("stride", stride, rank),
                       VTB_A_INTS("pad", pad, 2 * rank), VTB_A_INTS("image", image, 1 + rank)};
  cuda_return(c, vtb_build(&c->b, VTB_OP_im2col, &x, 1, attrs, 3));
  cuda_return(c, vtb_build(&c->b, VTB_OP_col2im, &cols, 1, attrs, 4));
  c->n_cases++;
}

TEST(series_and_video) {
  cuda_cases c;
  cuda_begin(&c);
  depthwise_on(&c, 3, 2, 20, (int64_t[]){3, 4, 5}, (int64_t[]){3, 3, 3}, (int64_t[]){1, 1, 1},
               NULL);
  depthwise_on(&c, 3, 1, 12, (int64_t[]){5, 3, 2}, (int64_t[]){3, 1, 5}, (int64_t[]){1, 0, 2},
               "frames~@3x2x5");
  depthwise_on(&c, 3, 2, 7, (int64_t[]){2, 3, 7}, (int64_t[]){5, 2, 1}, (int64_t[]){4, 0, 0},
               "hilbert@2x3x7");
  depthwise_on(&c, 1, 2, 33, (int64_t[]){19}, (int64_t[]){5}, (int64_t[]){4}, "rows~@19");
  patches_on(&c, 3, 2, 3, (int64_t[]){4, 6, 8}, (int64_t[]){2, 3, 4}, (int64_t[]){2, 3, 4},
             (int64_t[]){0, 0, 0, 0, 0, 0});
  patches_on(&c, 3, 1, 2, (int64_t[]){3, 5, 7}, (int64_t[]){3, 2, 3}, (int64_t[]){1, 2, 2},
             (int64_t[]){1, 0, 1, 1, 1, 2});
  patches_on(&c, 1, 3, 2, (int64_t[]){17}, (int64_t[]){5}, (int64_t[]){3}, (int64_t[]){2, 1});
  cuda_end(&c, 1e-5, "series and video");
}

TEST(depthwise_convolutions) {
  cuda_cases c;
  cuda_begin(&c);
  depthwise(&c, 1, 14, 14, 36, 3, 3, 1, 1, NULL);
  depthwise(&c, 2, 4, 3, 8, 3, 3, 1, 1, "rows.hflip@4x3");
  depthwise(&c, 2, 5, 7, 12, 3, 3, 1, 1, "rows~@5x7");
  depthwise(&c, 2, 3, 4, 1, 3, 3, 1, 1, "snake@3x4");
  depthwise(&c, 1, 4, 4, 20, 5, 5, 2, 2, "hilbert@4x4");
  depthwise(&c, 1, 3, 2, 8, 2, 4, 0, 3, "cols~@3x2");
  depthwise(&c, 1, 9, 10, 5, 9, 9, 4, 4, NULL);
  depthwise(&c, 2, 1, 37, 70, 1, 4, 0, 3, NULL);
  depthwise(&c, 2, 2, 3, 150, 5, 3, 2, 1, NULL); /* more channels than a block has threads */
  depthwise(&c, 1, 3, 5, 8, 7, 7, 3, 3, "cols@3x5");
  depthwise(&c, 1, 1, 1, 4, 3, 1, 1, 0, NULL);
  cuda_end(&c, 1e-5, "depthwise");
}

/* Tokens that are not of the grid go past; sums begin with a number a channel. */
static void past(cuda_cases *c, int64_t B, int64_t C, int64_t side, const int64_t *extra,
                 int n_extra, const char *path) {
  vtb_type t = shape(3, B, 20 + n_extra, C, 0);
  vtb_value *x = cuda_arg(c, t, 1, 0), *dy = cuda_arg(c, t, 1, 0),
            *w = cuda_arg(c, shape(3, C, side, side, 0), 1, 0),
            *start = cuda_arg(c, shape(1, C, 0, 0, 0), 1, 0);
  const int64_t grid[] = {4, 5}, pad[] = {side / 2, side / 2}, kernel[] = {side, side};
  vtb_attr attrs[6] = {VTB_A_INTS("grid", grid, 2), VTB_A_INTS("pad", pad, 2),
                       VTB_A_INTS("extra", extra, n_extra)};
  int n = 3;
  if (path) attrs[n++] = VTB_A_STR("path", path);
  cuda_return(c, vtb_build(&c->b, VTB_OP_dwconv, (vtb_value *[]){x, w, start}, 3, attrs, n));
  cuda_return(c, vtb_build(&c->b, VTB_OP_dwconv_dx, (vtb_value *[]){dy, w}, 2, attrs, n));
  attrs[n++] = VTB_A_INTS("kernel", kernel, 2), attrs[n++] = VTB_A_INT("start", 1);
  cuda_return(c, vtb_build(&c->b, VTB_OP_dwconv_dw, (vtb_value *[]){x, dy}, 2, attrs, n));
  c->n_cases++;
}

TEST(depthwise_past_extra_tokens) {
  cuda_cases c;
  cuda_begin(&c);
  past(&c, 2, 12, 3, (int64_t[]){10}, 1, NULL);
  past(&c, 3, 5, 5, (int64_t[]){0, 7, 22}, 3, NULL);
  past(&c, 1, 36, 7, (int64_t[]){20}, 1, "rows~@4x5+mid=1,at=7");
  past(&c, 2, 3, 9, (int64_t[]){0, 1}, 2, "cols.hflip@4x5+head=2"); /* more taps than registers */
  cuda_end(&c, 1e-5, "past extra tokens");
}

static void patches(cuda_cases *c, int64_t B, int64_t C, int64_t H, int64_t W, int64_t kh,
                    int64_t kw, int64_t sh, int64_t sw, const int64_t *pad) {
  int64_t oh = (H + pad[0] + pad[2] - kh) / sh + 1, ow = (W + pad[1] + pad[3] - kw) / sw + 1;
  const int64_t kernel[] = {kh, kw}, stride[] = {sh, sw}, image[] = {C, H, W};
  vtb_value *x = cuda_arg(c, shape(4, B, C, H, W), 1, 0),
            *cols = cuda_arg(c, shape(3, B, oh * ow, C * kh * kw, 0), 1, 0);
  vtb_attr attrs[4] = {VTB_A_INTS("kernel", kernel, 2), VTB_A_INTS("stride", stride, 2),
                       VTB_A_INTS("pad", pad, 4), VTB_A_INTS("image", image, 3)};
  cuda_return(c, vtb_build(&c->b, VTB_OP_im2col, &x, 1, attrs, 3));
  cuda_return(c, vtb_build(&c->b, VTB_OP_col2im, &cols, 1, attrs, 4));
  c->n_cases++;
}

static void sweep(cuda_cases *c, vtb_type t, const char *path, bool init) {
  vtb_type first = t;
  for (int a = 2; a < t.rank; a++) first.dim[a - 1] = t.dim[a];
  first.rank--;
  vtb_value *v[5] = {cuda_arg(c, t, 2, -1), cuda_arg(c, t, 3, 0)};
  int n = 2;
  if (init) v[n++] = cuda_arg(c, first, 4, 0);
  vtb_attr attrs[2];
  int n_attrs = 0;
  if (path) attrs[n_attrs++] = VTB_A_STR("path", path);
  vtb_inst *m = vtb_build(&c->b, VTB_OP_maxplus, v, n, attrs, n_attrs);
  cuda_return(c, m);
  if (init) attrs[n_attrs++] = VTB_A_INT("init", 1);
  v[n++] = m->results[0];
  v[n++] = cuda_arg(c, t, 1, 0);
  cuda_return(c, vtb_build(&c->b, VTB_OP_maxplus_grad, v, n, attrs, n_attrs));
  c->n_cases++;
}

TEST(patches_and_sweeps) {
  cuda_cases c;
  cuda_begin(&c);
  patches(&c, 2, 3, 12, 8, 4, 4, 4, 4, (int64_t[]){0, 0, 0, 0});
  patches(&c, 1, 2, 7, 9, 3, 3, 2, 2, (int64_t[]){1, 1, 1, 1});
  patches(&c, 2, 1, 5, 6, 2, 3, 1, 2, (int64_t[]){0, 2, 1, 0});
  patches(&c, 1, 1, 9, 9, 2, 2, 3, 4, (int64_t[]){0, 0, 0, 0});
  patches(&c, 1, 2, 8, 10, 3, 3, 2, 2, (int64_t[]){0, 0, 0, 0}); /* the last row is in no patch */
  sweep(&c, shape(2, 2, 5, 0, 0), NULL, false);
  sweep(&c, shape(3, 2, 77, 3, 0), "rows~@7x11", true);
  sweep(&c, shape(4, 1, 12, 2, 5), "snake@3x4", false);
  sweep(&c, shape(3, 1, 1, 4, 0), NULL, true);
  sweep(&c, shape(3, 2, 3, 16390, 0), "cols@3x1", true); /* a lane a sequence */
  cuda_end(&c, 2e-6, "patches and sweeps");
}

static void prefix_sum(cuda_cases *c, vtb_type t, int axis, const char *path, int kind,
                       double wrap) {
  vtb_value *x = cuda_arg(c, t, 3, 0);
  vtb_attr attrs[5] = {VTB_A_INT("axis", axis)};
  int n = 1;
  if (path) attrs[n++] = VTB_A_STR("path", path);
  if (kind & 1) attrs[n++] = VTB_A_INT("reverse", 1);
  if (kind & 2) attrs[n++] = VTB_A_INT("exclusive", 1);
  if (wrap > 0) attrs[n++] = VTB_A_FLOAT("wrap", wrap);
  cuda_return(c, vtb_build(&c->b, VTB_OP_prefix_sum, &x, 1, attrs, n));
  c->n_cases++;
}

TEST(prefix_sums) {
  cuda_cases c;
  cuda_begin(&c);
  prefix_sum(&c, shape(2, 2, 5, 0, 0), 1, NULL, 0, 0);
  prefix_sum(&c, shape(3, 2, 77, 3, 0), 1, "rows~@7x11", 1, 0);
  prefix_sum(&c, shape(4, 1, 12, 2, 5), 1, "snake@3x4", 2, 0);
  prefix_sum(&c, shape(4, 2, 3, 70, 5), 2, NULL, 3, 0);
  prefix_sum(&c, shape(3, 2, 3, 9, 0), 2, "cols@3x3", 0, 0);
  prefix_sum(&c, shape(2, 3, 16390, 0, 0), 0, NULL, 1, 0);       /* not quite a lane a sequence */
  prefix_sum(&c, shape(3, 2, 3, 16390, 0), 1, "cols@3x1", 2, 0); /* a lane a sequence */
  prefix_sum(&c, shape(3, 1, 3136, 3, 0), 1, NULL, 0, 6.283185307179586);
  cuda_end(&c, 2e-7, "prefix sums");
}

/* Something large comes early and goes in the middle: what is left behind it is a small number, of
 * which a sum that travels between lanes as one float would have lost every digit. */
TEST(prefix_sums_that_cancel) {
  enum { N = 3136, MIDDLE = N / 2 };
  cuda_cases c;
  cuda_begin(&c);
  for (int kind = 0; kind < 4; kind++) {
    prefix_sum(&c, shape(2, 2, N, 0, 0), 1, NULL, kind, 0);
    vtb_tensor *x = &c.args[c.f->n_args - 1];
    for (int b = 0; b < 2; b++) x->data[b * N + 3] = -3e7, x->data[b * N + MIDDLE] = 3e7;
    bool reverse = kind & 1;
    vtb_value *all = c.returns[--c.n_returns];
    const vtb_attr rest[] = {VTB_A_INT("axis", 1), VTB_A_INT("start", reverse ? 0 : MIDDLE + 1),
                             VTB_A_INT("limit", reverse ? 3 : N)};
    cuda_return(&c, vtb_build(&c.b, VTB_OP_slice, &all, 1, rest, 3));
  }
  cuda_end(&c, 2e-7, "prefix sums that cancel");
}

int main(void) {
  emulate_or_skip();
  RUN(depthwise_convolutions);
  RUN(depthwise_past_extra_tokens);
  RUN(series_and_video);
  RUN(patches_and_sweeps);
  RUN(prefix_sums);
  RUN(prefix_sums_that_cancel);
  return test_done();
}
