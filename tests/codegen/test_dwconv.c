/* Depthwise convolutions, patches, max-plus scans with their adjoints and prefix sums: machine code
 * against the interpreter. */
#include "tests/codegen/one_kernel.h"
#include "ir/ops.h"

static vtb_type shape(int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
  return vtb_type_make(VTB_F32, rank, (int64_t[]){a, b, c, d});
}

static unsigned long long state = 99;

/* One instruction over arguments of the given types. With `views`, the first operand [B, N, C] or
 * [B, N, h, X] is read as part of a longer last axis. */
static void check(vtb_op op, const vtb_type *types, int n, const vtb_attr *attrs, int n_attrs,
                  bool views, double tol) {
  vtb_module *m = vtb_module_new("test");
  vtb_func *f = vtb_func_new(m, "kernel", VTB_FUNC_PLAIN, (vtb_span){0});
  vtb_builder b = {.module = m, .func = f};
  vtb_value *operands[5];
  vtb_tensor args[5];
  vtb_strbuf what = {0};
  for (int i = 0; i < n; i++) {
    char name[8];
    snprintf(name, sizeof name, "x%d", i);
    vtb_type t = types[i];
    int last = t.rank - 1;
    if (views && i == 0) t.dim[last].size += 5;
    operands[i] = vtb_func_add_arg(f, name, t);
    if (views && i == 0)
      operands[i] = vtb_b_slice(&b, operands[i], last, 3, 3 + types[i].dim[last].size, 1);
    args[i] = kernel_random(t, &state, 1, 0);
  }
  vtb_inst *inst = vtb_build(&b, op, operands, n, attrs, n_attrs);
  vtb_func_set_returns(f, inst->results, NULL, inst->n_results);
  m->entry = f;
  vtb_inst_print(inst, &what);
  kernel_check(m, f, args, tol, what.at);
  vtb_strbuf_free(&what);
  for (int i = 0; i < n; i++) vtb_tensor_free(&args[i]);
  vtb_module_free(m);
}

static void convolutions(int64_t B, int64_t gh, int64_t gw, int64_t C, int64_t kh, int64_t kw,
                         int64_t top, int64_t left, const char *path) {
  vtb_type x = shape(3, B, gh * gw, C, 0), w = shape(3, C, kh, kw, 0);
  const int64_t grid[] = {gh, gw}, pad[] = {top, left}, kernel[] = {kh, kw};
  vtb_attr attrs[4] = {VTB_A_INTS("grid", grid, 2), VTB_A_INTS("pad", pad, 2)};
  int n = 2;
  if (path) attrs[n++] = VTB_A_STR("path", path);
  check(VTB_OP_dwconv, (vtb_type[]){x, w}, 2, attrs, n, C == 12, 2e-6);
  check(VTB_OP_dwconv_dx, (vtb_type[]){x, w}, 2, attrs, n, C == 12, 2e-6);
  attrs[n++] = VTB_A_INTS("kernel", kernel, 2);
  check(VTB_OP_dwconv_dw, (vtb_type[]){x, x}, 2, attrs, n, C == 12, 1e-5);
}

TEST(depthwise_on_grids) {
  convolutions(1, 14, 14, 128, 3, 3, 1, 1, NULL);
  convolutions(2, 4, 3, 64, 3, 3, 1, 1, "rows.hflip@4x3");
  convolutions(2, 5, 7, 12, 3, 3, 1, 1, "rows~@5x7");
  convolutions(1, 4, 6, 3, 3, 3, 1, 1, "cols@4x6");
  convolutions(2, 3, 4, 1, 3, 3, 1, 1, "snake@3x4");
  convolutions(1, 4, 4, 20, 5, 5, 2, 2, "hilbert@4x4");
  convolutions(1, 3, 2, 8, 2, 4, 0, 3, "cols~@3x2");
}

TEST(depthwise_on_sequences) {
  convolutions(1, 1, 197, 24, 1, 4, 0, 3, "rows@14x14+head=1");
  convolutions(2, 1, 37, 9, 1, 3, 0, 1, "rows~@6x6+mid=1,at=18");
  convolutions(1, 1, 1, 17, 1, 4, 0, 3, NULL);
}

/* More than one pass over the taps; and more rows than channels, which shares out the sums of
 * dw. */
TEST(depthwise_large_kernel) { convolutions(3, 9, 8, 5, 5, 7, 2, 3, NULL); }

/* Passes that are a loop, with and without a rest; kernels wider than the grid. */
TEST(depthwise_kernels_of_many_taps) {
  convolutions(1, 9, 14, 12, 11, 9, 5, 4, "cols@9x14");
  convolutions(2, 6, 5, 21, 12, 12, 3, 8, NULL);
  convolutions(1, 1, 50, 8, 1, 131, 0, 130, NULL);
  convolutions(1, 7, 7, 64, 31, 31, 15, 15, NULL);
}

/* Tokens that are no part of the grid, at the ends, in the middle of a row, and along a path that
 * moves them; sums that begin with a number a channel. */
static void past_extra(int64_t B, int64_t C, int64_t kw, const int64_t *extra, int n_extra,
                       const char *path) {
  vtb_type x = shape(3, B, 4 * 5 + n_extra, C, 0), w = shape(3, C, 3, kw, 0),
           start = shape(1, C, 0, 0, 0);
  const int64_t grid[] = {4, 5}, pad[] = {1, kw / 2}, kernel[] = {3, kw};
  vtb_attr attrs[6] = {VTB_A_INTS("grid", grid, 2), VTB_A_INTS("pad", pad, 2)};
  int n = 2;
  if (n_extra) attrs[n++] = VTB_A_INTS("extra", extra, n_extra);
  if (path) attrs[n++] = VTB_A_STR("path", path);
  check(VTB_OP_dwconv, (vtb_type[]){x, w}, 2, attrs, n, C == 12, 2e-6);
  check(VTB_OP_dwconv, (vtb_type[]){x, w, start}, 3, attrs, n, false, 2e-6);
  check(VTB_OP_dwconv_dx, (vtb_type[]){x, w}, 2, attrs, n, C == 12, 2e-6);
  attrs[n++] = VTB_A_INTS("kernel", kernel, 2);
  check(VTB_OP_dwconv_dw, (vtb_type[]){x, x}, 2, attrs, n, C == 12, 1e-5);
  attrs[n++] = VTB_A_INT("start", 1);
  check(VTB_OP_dwconv_dw, (vtb_type[]){x, x}, 2, attrs, n, C == 12, 1e-5);
}

TEST(depthwise_past_extra_tokens) {
  past_extra(2, 12, 5, (int64_t[]){10}, 1, NULL);
  past_extra(1, 37, 5, (int64_t[]){0, 13, 22}, 3, NULL);
  past_extra(3, 5, 5, (int64_t[]){20}, 1, "rows~@4x5+mid=1,at=7");
  past_extra(2, 16, 5, (int64_t[]){0, 1}, 2, "cols.hflip@4x5+head=2");
  past_extra(2, 3, 5, NULL, 0, "cols@4x5");
  past_extra(1, 33, 29, (int64_t[]){3}, 1, NULL);
}

static void patches(int64_t B, int64_t C, int64_t H, int64_t W, const int64_t *kernel,
                    const int64_t *stride, const int64_t *pad, bool views) {
  int64_t oh = (H + pad[0] + pad[2] - kernel[0]) / stride[0] + 1,
          ow = (W + pad[1] + pad[3] - kernel[1]) / stride[1] + 1;
  const int64_t image[] = {C, H, W};
  vtb_attr attrs[4] = {VTB_A_INTS("kernel", kernel, 2), VTB_A_INTS("stride", stride, 2),
                       VTB_A_INTS("pad", pad, 4), VTB_A_INTS("image", image, 3)};
  vtb_type x = shape(4, B, C, H, W), cols = shape(3, B, oh * ow, C * kernel[0] * kernel[1], 0);
  check(VTB_OP_im2col, &x, 1, attrs, 3, views, 0);
  check(VTB_OP_col2im, &cols, 1, attrs, 4, views, 1e-6);
}

TEST(patches) {
  patches(1, 3, 32, 32, (int64_t[]){16, 16}, (int64_t[]){16, 16}, (int64_t[]){0, 0, 0, 0}, false);
  patches(2, 3, 9, 11, (int64_t[]){3, 3}, (int64_t[]){2, 2}, (int64_t[]){1, 1, 1, 1}, true);
  patches(2, 2, 7, 6, (int64_t[]){4, 2}, (int64_t[]){1, 3}, (int64_t[]){2, 0, 1, 3}, false);
  patches(1, 1, 3, 2, (int64_t[]){5, 7}, (int64_t[]){1, 1}, (int64_t[]){2, 3, 2, 3}, false);
  patches(1, 2, 20, 70, (int64_t[]){4, 41}, (int64_t[]){4, 9}, (int64_t[]){0, 4, 0, 0}, true);
}

/* Grids of any number of axes, extents outermost first. */
static void on_grid(int rank, int64_t B, int64_t C, const int64_t *grid, const int64_t *kernel,
                    const int64_t *pad, const char *path) {
  int64_t n = 1;
  vtb_type w = {.dtype = VTB_F32, .rank = 1 + rank, .dim = {{C, NULL}}};
  for (int k = 0; k < rank; k++) n *= grid[k], w.dim[1 + k].size = kernel[k];
  vtb_type x = shape(3, B, n, C, 0);
  vtb_attr attrs[4] = {VTB_A_INTS("grid", grid, rank), VTB_A_INTS("pad", pad, rank)};
  int n_attrs = 2;
  if (path) attrs[n_attrs++] = VTB_A_STR("path", path);
  check(VTB_OP_dwconv, (vtb_type[]){x, w}, 2, attrs, n_attrs, C == 12, 2e-6);
  check(VTB_OP_dwconv_dx, (vtb_type[]){x, w}, 2, attrs, n_attrs, C == 12, 2e-6);
  attrs[n_attrs++] = VTB_A_INTS("kernel", kernel, rank);
  check(VTB_OP_dwconv_dw, (vtb_type[]){x, x}, 2, attrs, n_attrs, C == 12, 1e-5);
}

TEST(depthwise_of_series_and_video) {
  on_grid(3, 2, 20, (int64_t[]){3, 4, 5}, (int64_t[]){3, 3, 3}, (int64_t[]){1, 1, 1}, NULL);
  on_grid(3, 1, 12, (int64_t[]){5, 3, 2}, (int64_t[]){3, 1, 5}, (int64_t[]){1, 0, 2},
          "frames~@3x2x5");
  on_grid(3, 2, 7, (int64_t[]){2, 3, 7}, (int64_t[]){5, 2, 1}, (int64_t[]){4, 0, 0},
          "hilbert@2x3x7");
  on_grid(3, 1, 5, (int64_t[]){1, 4, 3}, (int64_t[]){3, 3, 3}, (int64_t[]){1, 1, 1}, NULL);
  on_grid(1, 2, 33, (int64_t[]){19}, (int64_t[]){5}, (int64_t[]){4}, "rows~@19");
  on_grid(1, 1, 3, (int64_t[]){1}, (int64_t[]){3}, (int64_t[]){1}, NULL);
}

TEST(depthwise_kernels_of_many_taps_of_video) {
  on_grid(3, 1, 12, (int64_t[]){4, 5, 3}, (int64_t[]){5, 5, 5}, (int64_t[]){2, 1, 4}, NULL);
}

static void patches_on(int rank, int64_t B, int64_t C, const int64_t *size, const int64_t *kernel,
                       const int64_t *stride, const int64_t *pad) {
  int64_t n = 1, taps = 1, image[4] = {C};
  vtb_type x = {.dtype = VTB_F32, .rank = 2 + rank, .dim = {{B, NULL}, {C, NULL}}};
  for (int k = 0; k < rank; k++) {
    x.dim[2 + k].size = image[1 + k] = size[k];
    n *= (size[k] + pad[k] + pad[rank + k] - kernel[k]) / stride[k] + 1, taps *= kernel[k];
  }
  vtb_type cols = shape(3, B, n, C * taps, 0);
  vtb_attr attrs[4] = {VTB_A_INTS("kernel", kernel, rank), VTB_A_INTS("stride", stride, rank),
                       VTB_A_INTS("pad", pad, 2 * rank), VTB_A_INTS("image", image, 1 + rank)};
  check(VTB_OP_im2col, &x, 1, attrs, 3, false, 0);
  check(VTB_OP_col2im, &cols, 1, attrs, 4, false, 1e-6);
}

TEST(patches_of_series_and_video) {
  patches_on(3, 2, 3, (int64_t[]){4, 6, 8}, (int64_t[]){2, 3, 4}, (int64_t[]){2, 3, 4},
             (int64_t[]){0, 0, 0, 0, 0, 0});
  patches_on(3, 1, 2, (int64_t[]){3, 5, 7}, (int64_t[]){3, 2, 3}, (int64_t[]){1, 2, 2},
             (int64_t[]){1, 0, 1, 1, 1, 2});
  patches_on(3, 2, 1, (int64_t[]){5, 1, 9}, (int64_t[]){2, 1, 9}, (int64_t[]){3, 1, 1},
             (int64_t[]){0, 0, 0, 0, 0, 0});
  patches_on(1, 3, 2, (int64_t[]){17}, (int64_t[]){5}, (int64_t[]){3}, (int64_t[]){2, 1});
  patches_on(1, 1, 1, (int64_t[]){3}, (int64_t[]){1}, (int64_t[]){1}, (int64_t[]){0, 0});
}

static void max_plus(vtb_type t, const char *path, bool init, bool views) {
  vtb_attr attrs[2] = {{0}};
  vtb_type m0 = t, types[5] = {t, t};
  int n = 2, n_attrs = 0;
  m0.rank--;
  for (int a = 2; a < t.rank; a++) m0.dim[a - 1] = t.dim[a];
  if (init) types[n++] = m0;
  if (path) attrs[n_attrs++] = VTB_A_STR("path", path);
  check(VTB_OP_maxplus, types, n, attrs, n_attrs, views, 2e-6);
  types[n++] = t, types[n++] = t;
  if (init) attrs[n_attrs++] = VTB_A_INT("init", 1);
  check(VTB_OP_maxplus_grad, types, n, attrs, n_attrs, views, 2e-6);
}

TEST(max_plus) {
  max_plus(shape(2, 3, 17, 0, 0), NULL, true, false);
  max_plus(shape(3, 2, 24, 4, 0), "cols~@4x6", false, false);
  max_plus(shape(3, 1, 16, 37, 0), "hilbert@4x4", true, true);
  max_plus(shape(4, 2, 5, 3, 5), "rows~@1x5", true, false);
  max_plus(shape(4, 1, 9, 3, 40), "snake@3x3", false, true);
  max_plus(shape(3, 1, 1, 1, 0), NULL, false, false);
}

static void prefix_sum(vtb_type t, int axis, const char *path, int kind, double wrap, bool views) {
  vtb_attr attrs[5] = {VTB_A_INT("axis", axis)};
  int n = 1;
  if (path) attrs[n++] = VTB_A_STR("path", path);
  if (kind & 1) attrs[n++] = VTB_A_INT("reverse", 1);
  if (kind & 2) attrs[n++] = VTB_A_INT("exclusive", 1);
  if (wrap > 0) attrs[n++] = VTB_A_FLOAT("wrap", wrap);
  check(VTB_OP_prefix_sum, &t, 1, attrs, n, views, 2e-7);
}

TEST(prefix_sums) {
  prefix_sum(shape(2, 3, 17, 0, 0), 1, NULL, 0, 0, false);
  prefix_sum(shape(3, 2, 24, 4, 0), 1, "cols~@4x6", 1, 0, false);
  prefix_sum(shape(3, 1, 16, 37, 0), 1, "hilbert@4x4", 2, 0, true);
  prefix_sum(shape(4, 2, 5, 3, 5), 2, NULL, 3, 0, true);
  prefix_sum(shape(4, 2, 5, 3, 6), 3, "rows~@2x3", 0, 0, false);
  prefix_sum(shape(3, 5, 4, 19, 0), 0, NULL, 1, 0, true);
  prefix_sum(shape(1, 9, 0, 0, 0), 0, NULL, 3, 0.25, false);
  prefix_sum(shape(3, 1, 3136, 3, 0), 1, NULL, 0, 6.283185307179586, false);
}

int main(void) {
  RUN(depthwise_on_grids);
  RUN(depthwise_on_sequences);
  RUN(depthwise_large_kernel);
  RUN(depthwise_past_extra_tokens);
  RUN(depthwise_kernels_of_many_taps);
  RUN(depthwise_kernels_of_many_taps_of_video);
  RUN(patches);
  RUN(depthwise_of_series_and_video);
  RUN(patches_of_series_and_video);
  RUN(max_plus);
  RUN(prefix_sums);
  return test_done();
}
