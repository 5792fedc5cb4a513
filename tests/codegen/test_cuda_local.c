/* Kernels of kind local (convolutions, products of small matrices and what is elementwise beside
 * them) and of kind sums (gradients of a weight and a bias), joined by the passes and emulated,
 * against the interpreter. */
#include <stdlib.h>

#include "ir/kernels.h"
#include "ir/ops.h"
#include "tests/codegen/cuda_check.h"

/* `kernels`: instructions of this kind that the passes are to leave, and no bare op. */
static void check_within(const char *what, const char *text, vtb_kernel_kind kind, int kernels,
                         double tol) {
  vtb_source source = {.path = "<test>", .text = text, .n = strlen(text)};
  vtb_diags d = {0};
  vtb_module *m = vtb_module_parse(&source, &d);
  vtb_diags_print(&d, stderr);
  CHECK_MSG(m != NULL, "%s does not parse", what);
  if (!m) return;
  vtb_func *f = m->entry = vtb_module_find(m, "f");
  cuda_passes(m, "add_in_product,simplify,split_thin,grow{row_gradients},fuse,"
                 "grow{local+filter_gradients+filter_adjoints},dce");
  vtb_error err = {0};
  CHECK_MSG(vtb_module_verify(m, &err), "%s: %s", what, err.text);
  int left = 0;
  for (const vtb_inst *i = f->first; i; i = i->next) {
    left += i->op == VTB_OP_fused && vtb_kernel_kind_of(i) == kind;
    CHECK_MSG(i->op == VTB_OP_fused || vtb_op_get(i->op)->klass == VTB_CLASS_SHAPE,
              "%s: a %s is left", what, vtb_op_get(i->op)->name);
  }
  CHECK_MSG(left == kernels, "%s: %d such kernels, want %d", what, left, kernels);
  unsigned long long seed = 77;
  vtb_tensor args[16];
  for (int a = 0; a < f->n_args; a++) {
    args[a] = vtb_tensor_new(f->args[a]->type);
    for (int64_t k = 0; k < vtb_type_count(&args[a].type); k++)
      args[a].data[k] = (float)test_random(&seed);
  }
  cuda_check(m, f, args, tol, what);
  for (int a = 0; a < f->n_args; a++) vtb_tensor_free(&args[a]);
  vtb_module_free(m);
  vtb_diags_free(&d);
}

static void check_kind(const char *what, const char *text, vtb_kernel_kind kind, int kernels) {
  check_within(what, text, kind, kernels, 1e-5);
}

static void check(const char *what, const char *text, int kernels) {
  check_kind(what, text, VTB_KERNEL_LOCAL, kernels);
}

/* All of it in one kernel: the input is half of a wider tensor, heads and blocks split the channels
 * differently, one product reads the input itself. */
TEST(a_convolution_with_all_that_follows) {
  check("convolution",
        "func @f(%up: f32[2, 20, 48], %w: f32[24, 3, 3], %b: f32[2, 12], %q: f32[6, 4, 4], %k: "
        "f32[6, 4, 4],\n"
        "    %bk: f32[6, 4], %v: f32[6, 4, 4]) -> (f32[2, 20, 2, 12], f32[2, 20, 6, 4], f32[2, 20, "
        "6, 4], f32[2, 20, 6, 4]) {\n"
        "  %x = slice %up {axis = 2, start = 0, limit = 24} : f32[2, 20, 24]\n"
        "  %y = dwconv %x, %w {grid = [4, 5], pad = [1, 1]} : f32[2, 20, 24]\n"
        "  %h = reshape %y {shape = [2, 20, 2, 12]} : f32[2, 20, 2, 12]\n"
        "  %s = add %h, %b : f32[2, 20, 2, 12]\n"
        "  %a = silu %s : f32[2, 20, 2, 12]\n"
        "  %g = reshape %a {shape = [2, 20, 6, 4]} : f32[2, 20, 6, 4]\n"
        "  %p1 = einsum %g, %q {spec = \"bngi,goi->bngo\"} : f32[2, 20, 6, 4]\n"
        "  %p2 = einsum %g, %k, %bk {spec = \"bngi,gio->bngo\"} : f32[2, 20, 6, 4]\n"
        "  %z = reshape %x {shape = [2, 20, 6, 4]} : f32[2, 20, 6, 4]\n"
        "  %p3 = einsum %z, %v {spec = \"bngi,goi->bngo\"} : f32[2, 20, 6, 4]\n"
        "  return %a, %p1, %p2, %p3\n"
        "}\n",
        1);
}

/* More taps than registers, an input that is not aligned, along a path. */
TEST(a_large_kernel_and_an_odd_view) {
  check("large",
        "func @f(%up: f32[2, 30, 11], %w: f32[8, 5, 5], %q: f32[2, 4, 4]) -> (f32[2, 30, 2, 4]) {\n"
        "  %x = slice %up {axis = 2, start = 3, limit = 11} : f32[2, 30, 8]\n"
        "  %y = dwconv %x, %w {grid = [5, 6], pad = [2, 2], path = \"snake@5x6\"} : f32[2, 30, 8]\n"
        "  %a = gelu %y : f32[2, 30, 8]\n"
        "  %g = reshape %a {shape = [2, 30, 2, 4]} : f32[2, 30, 2, 4]\n"
        "  %p = einsum %g, %q {spec = \"bngi,goi->bngo\"} : f32[2, 30, 2, 4]\n"
        "  return %p\n"
        "}\n",
        1);
}

/* Channels that are no fours; the input itself is added behind the convolution. */
TEST(an_odd_number_of_channels) {
  check("odd",
        "func @f(%x: f32[3, 21, 7], %w: f32[7, 4], %b: f32[7]) -> (f32[3, 21, 7], f32[3, 21, 7]) "
        "{\n"
        "  %y = dwconv %x, %w {grid = [21], pad = [3]} : f32[3, 21, 7]\n"
        "  %s = add %y, %b : f32[3, 21, 7]\n"
        "  %r = add %s, %x : f32[3, 21, 7]\n"
        "  %a = silu %r : f32[3, 21, 7]\n"
        "  return %s, %a\n"
        "}\n",
        1);
}

/* Gates of what a convolution reads and makes are sums of its kernel: in three shares whose last
 * warp is not full, along strips of which the second is short; others read what is made, too. */
TEST(thin_products_beside_a_convolution) {
  check("thin",
        "func @f(%up: f32[2, 51, 1040], %w: f32[1032, 3, 3], %b: f32[1032], %u: f32[5, 1032], %c: "
        "f32[5],\n"
        "    %v: f32[5, 1032]) -> (f32[2, 51, 1032], f32[2, 51, 5]) {\n"
        "  %x = slice %up {axis = 2, start = 0, limit = 1032} : f32[2, 51, 1032]\n"
        "  %y = dwconv %x, %w {grid = [3, 17], pad = [1, 1]} : f32[2, 51, 1032]\n"
        "  %s = add %y, %b : f32[2, 51, 1032]\n"
        "  %a = silu %s : f32[2, 51, 1032]\n"
        "  %p = einsum %x, %v, %c {spec = \"bnd,ed->bne\"} : f32[2, 51, 5]\n"
        "  %g = einsum %a, %u, %p {spec = \"bnd,ed->bne\"} : f32[2, 51, 5]\n"
        "  %r = tanh %g : f32[2, 51, 5]\n"
        "  return %a, %r\n"
        "}\n",
        1);
}

/* Of the convolution alone, of one share, along a path and causal; more results than two tiles have
 * columns. */
TEST(thin_products_of_a_causal_convolution) {
  check("causal",
        "func @f(%x: f32[3, 21, 136], %w: f32[136, 4], %u: f32[17, 136]) -> (f32[3, 21, 136], "
        "f32[3, 21, 17]) {\n"
        "  %y = dwconv %x, %w {grid = [21], pad = [3], path = \"snake@3x7\"} : f32[3, 21, 136]\n"
        "  %a = gelu %y : f32[3, 21, 136]\n"
        "  %g = einsum %a, %u {spec = \"bnd,ed->bne\"} : f32[3, 21, 17]\n"
        "  return %a, %g\n"
        "}\n",
        1);
}

/* A window of single channels, an input of which no four lie aligned. */
TEST(thin_products_of_a_large_kernel) {
  check("large",
        "func @f(%up: f32[2, 30, 75], %w: f32[72, 5, 5], %u: f32[3, 72], %v: f32[3, 72]) -> "
        "(f32[2, 30, 72], f32[2, 30, 3]) {\n"
        "  %x = slice %up {axis = 2, start = 3, limit = 75} : f32[2, 30, 72]\n"
        "  %y = dwconv %x, %w {grid = [5, 6], pad = [2, 2], path = \"snake@5x6\"} : f32[2, 30, "
        "72]\n"
        "  %a = silu %y : f32[2, 30, 72]\n"
        "  %p = einsum %a, %u {spec = \"bnd,ed->bne\"} : f32[2, 30, 3]\n"
        "  %g = einsum %x, %v, %p {spec = \"bnd,ed->bne\"} : f32[2, 30, 3]\n"
        "  return %a, %g\n"
        "}\n",
        1);
}

/* A window that is not in registers; factors of more outputs than a tile has columns come in
 * turn. */
TEST(thin_products_of_a_larger_kernel) {
  check("large",
        "func @f(%up: f32[2, 30, 75], %w: f32[72, 9, 9], %u: f32[11, 72], %v: f32[11, 72]) -> "
        "(f32[2, 30, 72], f32[2, 30, 11]) {\n"
        "  %x = slice %up {axis = 2, start = 3, limit = 75} : f32[2, 30, 72]\n"
        "  %y = dwconv %x, %w {grid = [5, 6], pad = [4, 4], path = \"snake@5x6\"} : f32[2, 30, "
        "72]\n"
        "  %a = silu %y : f32[2, 30, 72]\n"
        "  %p = einsum %a, %u {spec = \"bnd,ed->bne\"} : f32[2, 30, 11]\n"
        "  %g = einsum %x, %v, %p {spec = \"bnd,ed->bne\"} : f32[2, 30, 11]\n"
        "  return %a, %g\n"
        "}\n",
        1);
}

/* Of 16 bits, copied eight at a time; the output behind the second tile's columns is none's. */
TEST(thin_products_of_16_bits_in_turn) {
  check_within(
      "turn",
      "func @f(%x: f32[2, 21, 72], %w: f32[72, 3, 3], %u: f32[17, 72], %v: f32[17, 72]) -> "
      "(f32[2, 21, 72], f32[2, 21, 17]) {\n"
      "  %s = cast %u {to = \"bf16\"} : bf16[17, 72]\n"
      "  %t = cast %v {to = \"bf16\"} : bf16[17, 72]\n"
      "  %y = dwconv %x, %w {grid = [3, 7], pad = [1, 1]} : f32[2, 21, 72]\n"
      "  %a = silu %y : f32[2, 21, 72]\n"
      "  %p = einsum %a, %s {spec = \"bnd,ed->bne\", precision = \"bf16\"} : f32[2, 21, 17]\n"
      "  %g = einsum %x, %t, %p {spec = \"bnd,ed->bne\", precision = \"bf16\"} : f32[2, 21, 17]\n"
      "  return %a, %g\n"
      "}\n",
      VTB_KERNEL_LOCAL, 1, 2e-2);
}

/* Two convolutions of one input: each gets the gates of what it makes, and its own of the input. */
TEST(thin_products_beside_two_convolutions) {
  check("two",
        "func @f(%x: f32[2, 35, 264], %w: f32[264, 3, 3], %k: f32[264, 3, 3], %u: f32[5, 264], "
        "%v: f32[5, 264], %s: f32[5, 264], %t: f32[5, 264]) -> (f32[2, 35, 264], f32[2, 35, 264], "
        "f32[2, 35, 5], f32[2, 35, 5]) {\n"
        "  %y = dwconv %x, %w {grid = [5, 7], pad = [1, 1]} : f32[2, 35, 264]\n"
        "  %a = silu %y : f32[2, 35, 264]\n"
        "  %z = dwconv %x, %k {grid = [5, 7], pad = [1, 1]} : f32[2, 35, 264]\n"
        "  %b = silu %z : f32[2, 35, 264]\n"
        "  %p = einsum %a, %u {spec = \"bnd,ed->bne\"} : f32[2, 35, 5]\n"
        "  %g = einsum %x, %v, %p {spec = \"bnd,ed->bne\"} : f32[2, 35, 5]\n"
        "  %q = einsum %b, %s {spec = \"bnd,ed->bne\"} : f32[2, 35, 5]\n"
        "  %h = einsum %x, %t, %q {spec = \"bnd,ed->bne\"} : f32[2, 35, 5]\n"
        "  return %a, %b, %g, %h\n"
        "}\n",
        2);
}

/* Tokens that are not of the grid go past: through a convolution with what follows, and one in
 * shares with thin products beside it, along a path that reverses them; through the adjoints, of a
 * dy that is read and of one that is made, while the sums for weight and bias leave them out. */
TEST(extra_tokens_go_past_convolutions) {
  check("past",
        "func @f(%up: f32[2, 23, 48], %w: f32[24, 3, 3], %b: f32[24], %q: f32[6, 4, 4]) -> "
        "(f32[2, 23, 24], f32[2, 23, 6, 4]) {\n"
        "  %x = slice %up {axis = 2, start = 0, limit = 24} : f32[2, 23, 24]\n"
        "  %y = dwconv %x, %w, %b {grid = [4, 5], pad = [1, 1], extra = [0, 8, 22]} : f32[2, 23, "
        "24]\n"
        "  %a = silu %y : f32[2, 23, 24]\n"
        "  %g = reshape %a {shape = [2, 23, 6, 4]} : f32[2, 23, 6, 4]\n"
        "  %p = einsum %g, %q {spec = \"bngi,goi->bngo\"} : f32[2, 23, 6, 4]\n"
        "  return %a, %p\n"
        "}\n",
        1);
  check("past thin products",
        "func @f(%x: f32[3, 53, 264], %w: f32[264, 3, 3], %b: f32[264], %u: f32[5, 264], %v: "
        "f32[5, 264]) -> (f32[3, 53, 264], f32[3, 53, 5]) {\n"
        "  %y = dwconv %x, %w, %b {grid = [3, 17], pad = [1, 1], extra = [0, 26], path = "
        "\"rows~@53\"} : f32[3, 53, 264]\n"
        "  %a = silu %y : f32[3, 53, 264]\n"
        "  %p = einsum %x, %v {spec = \"bnd,ed->bne\"} : f32[3, 53, 5]\n"
        "  %g = einsum %a, %u, %p {spec = \"bnd,ed->bne\"} : f32[3, 53, 5]\n"
        "  return %a, %g\n"
        "}\n",
        1);
  check("past adjoints",
        "func @f(%x: f32[3, 182, 12], %dy: f32[3, 182, 12], %w: f32[12, 3, 3], %r: f32[3, 182, "
        "12]) -> (f32[12, 3, 3], f32[12], f32[3, 182, 12]) {\n"
        "  %dw, %db = dwconv_dw %x, %dy {grid = [9, 20], pad = [1, 1], kernel = [3, 3], extra = "
        "[91, 181], start = 1, path = \"rows~@182\"} : f32[12, 3, 3], f32[12]\n"
        "  %dx = dwconv_dx %dy, %w {grid = [9, 20], pad = [1, 1], extra = [91, 181], path = "
        "\"rows~@182\"} : f32[3, 182, 12]\n"
        "  %s = add %dx, %r : f32[3, 182, 12]\n"
        "  return %dw, %db, %s\n"
        "}\n",
        1);
  check("past adjoints that make dy",
        "func @f(%x: f32[5, 38, 132], %p: f32[5, 38, 132], %a: f32[5, 38, 132], %w: f32[132, 4]) "
        "-> (f32[132, 4], f32[132], f32[5, 38, 132]) {\n"
        "  %s = sigmoid %a : f32[5, 38, 132]\n"
        "  %dy = mul %p, %s : f32[5, 38, 132]\n"
        "  %dw, %db = dwconv_dw %x, %dy {grid = [37], pad = [3], kernel = [4], extra = [18], start "
        "= 1} : f32[132, 4], f32[132]\n"
        "  %dx = dwconv_dx %dy, %w {grid = [37], pad = [3], extra = [18]} : f32[5, 38, 132]\n"
        "  %r = add %dx, %x : f32[5, 38, 132]\n"
        "  return %dw, %db, %r\n"
        "}\n",
        1);
}

/* As backward: two products that add up, a derivative behind them, and an adjoint of a convolution
 * with a product added to it. */
TEST(sums_of_products_without_a_convolution) {
  check("sums",
        "func @f(%dq: f32[2, 35, 12], %dk: f32[2, 35, 12], %dv: f32[2, 35, 3, 4], %q: f32[3, 4, "
        "4], %k: f32[3, 4, 4],\n"
        "    %v: f32[3, 4, 4], %a: f32[2, 35, 12], %w: f32[12, 3, 3]) -> (f32[2, 35, 12], f32[2, "
        "35, 3, 4]) {\n"
        "  %gk = reshape %dk {shape = [2, 35, 3, 4]} : f32[2, 35, 3, 4]\n"
        "  %gq = reshape %dq {shape = [2, 35, 3, 4]} : f32[2, 35, 3, 4]\n"
        "  %p1 = einsum %gk, %k {spec = \"bngo,goi->bngi\"} : f32[2, 35, 3, 4]\n"
        "  %p2 = einsum %gq, %q, %p1 {spec = \"bngo,goi->bngi\"} : f32[2, 35, 3, 4]\n"
        "  %d = reshape %p2 {shape = [2, 35, 12]} : f32[2, 35, 12]\n"
        "  %s = sigmoid %a : f32[2, 35, 12]\n"
        "  %da = mul %d, %s : f32[2, 35, 12]\n"
        "  %x = dwconv_dx %da, %w {grid = [5, 7], pad = [1, 1]} : f32[2, 35, 12]\n"
        "  %g = reshape %x {shape = [2, 35, 3, 4]} : f32[2, 35, 3, 4]\n"
        "  %p3 = einsum %dv, %v, %g {spec = \"bngo,goi->bngi\"} : f32[2, 35, 3, 4]\n"
        "  return %da, %p3\n"
        "}\n",
        2);
}

/* Gates' adjoints spread over the channels, a block's adjoint behind them, and gradients that read
 * what is between: they go behind it. */
TEST(few_numbers_a_token_over_its_channels) {
  check("thin",
        "func @f(%g: f32[2, 45, 5], %w: f32[5, 12], %p: f32[2, 45, 12], %h: f32[3, 4, 4], %x: "
        "f32[2, 45, 3, 4], %m: f32[2, 45, 3, 1]) -> (f32[12, 4], f32[12], f32[2, 45, 12], f32[2, "
        "45, 8]) {\n"
        "  %t = einsum %g, %w, %p {spec = \"bne,ed->bnd\"} : f32[2, 45, 12]\n"
        "  %r = reshape %t {shape = [2, 45, 3, 4]} : f32[2, 45, 3, 4]\n"
        "  %d = einsum %r, %x {spec = \"bngo,bngi->goi\"} : f32[3, 4, 4]\n"
        "  %b = reduce_sum %t {axes = [0, 1]} : f32[12]\n"
        "  %f = reshape %d {shape = [12, 4]} : f32[12, 4]\n"
        "  %o = exp %h : f32[3, 4, 4]\n"
        "  %u = einsum %r, %o, %x {spec = \"bngo,goi->bngi\"} : f32[2, 45, 3, 4]\n"
        "  %v = mul %u, %m : f32[2, 45, 3, 4]\n"
        "  %y = reshape %v {shape = [2, 45, 12]} : f32[2, 45, 12]\n"
        "  %s = slice %w {axis = 1, start = 4, limit = 12} : f32[5, 8]\n"
        "  %z = einsum %g, %s {spec = \"bne,ed->bnd\"} : f32[2, 45, 8]\n"
        "  %e = exp %z : f32[2, 45, 8]\n"
        "  return %f, %b, %y, %e\n"
        "}\n",
        2);
}

/* Of convolutions with fours and without, of many taps, along a path; of blocks in one share and in
 * several; where the bias' sum sees another shape. */
TEST(a_weight_and_its_bias) {
  check_kind(
      "gradients",
      "func @f(%x: f32[2, 70, 12], %dy: f32[2, 70, 12], %z: f32[3, 20, 8], %dz: f32[3, 20, 8], %b: "
      "f32[2, 250, 40, 4],\n"
      "    %db: f32[2, 250, 160], %s: f32[1, 70, 3, 2], %ds: f32[1, 70, 3, 5]) -> (f32[12, 3, 3], "
      "f32[3, 4], f32[8, 5, 5], f32[8], f32[40, 4, 4], f32[160], f32[3, 5, 2], f32[3, 5]) {\n"
      "  %dw = dwconv_dw %x, %dy {grid = [7, 10], pad = [1, 1], kernel = [3, 3]} : f32[12, 3, 3]\n"
      "  %r = reshape %dy {shape = [2, 70, 3, 4]} : f32[2, 70, 3, 4]\n"
      "  %d1 = reduce_sum %r {axes = [0, 1]} : f32[3, 4]\n"
      "  %d2 = reduce_sum %dz {axes = [0, 1]} : f32[8]\n"
      "  %dv = dwconv_dw %z, %dz {grid = [4, 5], pad = [2, 2], kernel = [5, 5], path = "
      "\"rows~@4x5\"} : f32[8, 5, 5]\n"
      "  %g = reshape %db {shape = [2, 250, 40, 4]} : f32[2, 250, 40, 4]\n"
      "  %du = einsum %g, %b {spec = \"bngo,bngi->goi\"} : f32[40, 4, 4]\n"
      "  %d3 = reduce_sum %db {axes = [0, 1]} : f32[160]\n"
      "  %dt = einsum %ds, %s {spec = \"bngo,bngi->goi\"} : f32[3, 5, 2]\n"
      "  %d4 = reduce_sum %ds {axes = [0, 1]} : f32[3, 5]\n"
      "  return %dw, %d1, %dv, %d2, %du, %d3, %dt, %d4\n"
      "}\n",
      VTB_KERNEL_SUMS, 4);
}

/* In several shares, along a path: dy, whose place in memory is odd, goes to dx behind a product
 * and to the gradients of weight and bias, of which one is reshaped before dx. */
TEST(all_adjoints_of_a_convolution) {
  check("adjoints",
        "func @f(%x: f32[3, 180, 12], %up: f32[3, 180, 15], %w: f32[12, 3, 3], %dv: f32[3, 180, 3, "
        "4], %v: f32[3, 4, 4]) -> (f32[12, 9], f32[12], f32[3, 180, 3, 4]) {\n"
        "  %dy = slice %up {axis = 2, start = 3, limit = 15} : f32[3, 180, 12]\n"
        "  %dw = dwconv_dw %x, %dy {grid = [9, 20], pad = [1, 1], kernel = [3, 3], path = "
        "\"snake@9x20\"} : f32[12, 3, 3]\n"
        "  %db = reduce_sum %dy {axes = [0, 1]} : f32[12]\n"
        "  %flat = reshape %dw {shape = [12, 9]} : f32[12, 9]\n"
        "  %dx = dwconv_dx %dy, %w {grid = [9, 20], pad = [1, 1], path = \"snake@9x20\"} : f32[3, "
        "180, 12]\n"
        "  %g = reshape %dx {shape = [3, 180, 3, 4]} : f32[3, 180, 3, 4]\n"
        "  %p = einsum %dv, %v, %g {spec = \"bngo,goi->bngi\"} : f32[3, 180, 3, 4]\n"
        "  return %flat, %db, %p\n"
        "}\n",
        1);
}

/* One axis, padded on one side, with something added behind, its weight before it; odd channels and
 * 25 taps, bare; frames, padded unevenly; the input is read by what is behind. */
TEST(adjoints_of_other_convolutions) {
  check("others",
        "func @f(%x: f32[5, 37, 132], %dy: f32[5, 37, 132], %w: f32[132, 4], %r: f32[5, 37, 132], "
        "%u: f32[2, 30, 7], %du: f32[2, 30, 7], %k: f32[7, 5, 5], %z: f32[2, 48, 8], %dz: f32[2, "
        "48, 8], %m: f32[8, 2, 2, 2]) -> (f32[132, 4], f32[132], f32[5, 37, 132], f32[2, 30, 7], "
        "f32[7, 5, 5], f32[8, 2, 2, 2], f32[2, 48, 8]) {\n"
        "  %d1 = dwconv_dw %x, %dy {grid = [37], pad = [3], kernel = [4]} : f32[132, 4]\n"
        "  %b1 = reduce_sum %dy {axes = [0, 1]} : f32[132]\n"
        "  %e1 = dwconv_dx %dy, %w {grid = [37], pad = [3]} : f32[5, 37, 132]\n"
        "  %a1 = add %e1, %r : f32[5, 37, 132]\n"
        "  %e2 = dwconv_dx %du, %k {grid = [5, 6], pad = [2, 2], path = \"rows~@5x6\"} : f32[2, "
        "30, 7]\n"
        "  %d2 = dwconv_dw %u, %du {grid = [5, 6], pad = [2, 2], kernel = [5, 5], path = "
        "\"rows~@5x6\"} : f32[7, 5, 5]\n"
        "  %d3 = dwconv_dw %z, %dz {grid = [3, 4, 4], pad = [1, 0, 1], kernel = [2, 2, 2]} : "
        "f32[8, 2, 2, 2]\n"
        "  %e3 = dwconv_dx %dz, %m {grid = [3, 4, 4], pad = [1, 0, 1]} : f32[2, 48, 8]\n"
        "  %s3 = mul %e3, %z : f32[2, 48, 8]\n"
        "  return %d1, %b1, %a1, %e2, %d2, %d3, %s3\n"
        "}\n",
        3);
}

/* 49 taps are too many for it. */
TEST(adjoints_of_many_taps) {
  check_kind("many taps",
             "func @f(%x: f32[2, 20, 4], %dy: f32[2, 20, 4], %w: f32[4, 7, 7], %r: f32[2, 20, 4]) "
             "-> (f32[4, 7, 7], f32[4], f32[2, 20, 4]) {\n"
             "  %dw = dwconv_dw %x, %dy {grid = [4, 5], pad = [3, 3], kernel = [7, 7]} : f32[4, 7, "
             "7]\n"
             "  %db = reduce_sum %dy {axes = [0, 1]} : f32[4]\n"
             "  %dx = dwconv_dx %dy, %w {grid = [4, 5], pad = [3, 3]} : f32[2, 20, 4]\n"
             "  %s = add %dx, %r : f32[2, 20, 4]\n"
             "  return %dw, %db, %s\n"
             "}\n",
             VTB_KERNEL_LOCAL, 1);
}

/* dy is made inside: of samples of which several share a block, along a path; in several turns of
 * several shares, of fours and of odd channels; windows that begin at the row itself. */
TEST(adjoints_that_make_what_they_read) {
  check("a path",
        "func @f(%x: f32[3, 180, 12], %p: f32[3, 180, 12], %a: f32[3, 180, 12], %w: f32[12, 3, 3], "
        "%g: f32[3, 180, 5], %u: f32[5, 12]) -> (f32[12, 3, 3], f32[12], f32[3, 180, 12]) {\n"
        "  %t = einsum %g, %u {spec = \"bne,ed->bnd\"} : f32[3, 180, 12]\n"
        "  %d = add %t, %p : f32[3, 180, 12]\n"
        "  %s = sigmoid %a : f32[3, 180, 12]\n"
        "  %dy = mul %d, %s : f32[3, 180, 12]\n"
        "  %dw = dwconv_dw %x, %dy {grid = [9, 20], pad = [1, 1], kernel = [3, 3], path = "
        "\"snake@9x20\"} : f32[12, 3, 3]\n"
        "  %db = reduce_sum %dy {axes = [0, 1]} : f32[12]\n"
        "  %dx = dwconv_dx %dy, %w {grid = [9, 20], pad = [1, 1], path = \"snake@9x20\"} : f32[3, "
        "180, 12]\n"
        "  %r = add %dx, %x : f32[3, 180, 12]\n"
        "  return %dw, %db, %r\n"
        "}\n",
        1);
  check(
      "turns",
      "func @f(%x: f32[51, 9, 1040], %p: f32[51, 9, 1040], %a: f32[51, 9, 1040], %w: f32[1040, 3, "
      "3], %g: f32[51, 9, 8], %u: f32[8, 1040]) -> (f32[1040, 3, 3], f32[1040], f32[51, 9, 1040]) "
      "{\n"
      "  %t = einsum %g, %u {spec = \"bne,ed->bnd\"} : f32[51, 9, 1040]\n"
      "  %d = add %t, %p : f32[51, 9, 1040]\n"
      "  %s = sigmoid %a : f32[51, 9, 1040]\n"
      "  %dy = mul %d, %s : f32[51, 9, 1040]\n"
      "  %dw = dwconv_dw %x, %dy {grid = [9, 1], pad = [1, 1], kernel = [3, 3]} : f32[1040, 3, 3]\n"
      "  %db = reduce_sum %dy {axes = [0, 1]} : f32[1040]\n"
      "  %dx = dwconv_dx %dy, %w {grid = [9, 1], pad = [1, 1]} : f32[51, 9, 1040]\n"
      "  %r = add %dx, %x : f32[51, 9, 1040]\n"
      "  return %dw, %db, %r\n"
      "}\n",
      1);
  check_kind(
      "odd turns",
      "func @f(%x: f32[13, 22, 1023], %p: f32[13, 22, 1023], %a: f32[13, 22, 1023], %w: "
      "f32[1023, 2, 3]) -> (f32[1023, 2, 3], f32[1023], f32[13, 22, 1023]) {\n"
      "  %s = sigmoid %a : f32[13, 22, 1023]\n"
      "  %dy = mul %p, %s : f32[13, 22, 1023]\n"
      "  %dw = dwconv_dw %x, %dy {grid = [11, 2], pad = [0, 2], kernel = [2, 3]} : f32[1023, 2, "
      "3]\n"
      "  %db = reduce_sum %dy {axes = [0, 1]} : f32[1023]\n"
      "  %dx = dwconv_dx %dy, %w {grid = [11, 2], pad = [0, 2]} : f32[13, 22, 1023]\n"
      "  %r = add %dx, %x : f32[13, 22, 1023]\n"
      "  return %dw, %db, %r\n"
      "}\n",
      VTB_KERNEL_LOOP, 0);
  check_kind(
      "many taps",
      "func @f(%x: f32[2, 30, 8], %p: f32[2, 30, 8], %a: f32[2, 30, 8], %w: f32[8, 5, 5]) -> "
      "(f32[8, 5, 5], f32[8], f32[2, 30, 8]) {\n"
      "  %s = sigmoid %a : f32[2, 30, 8]\n"
      "  %dy = mul %p, %s : f32[2, 30, 8]\n"
      "  %dw = dwconv_dw %x, %dy {grid = [5, 6], pad = [2, 3], kernel = [5, 5], path = "
      "\"rows~@5x6\"} : f32[8, 5, 5]\n"
      "  %db = reduce_sum %dy {axes = [0, 1]} : f32[8]\n"
      "  %dx = dwconv_dx %dy, %w {grid = [5, 6], pad = [2, 3], path = \"rows~@5x6\"} : f32[2, "
      "30, 8]\n"
      "  %r = add %dx, %x : f32[2, 30, 8]\n"
      "  return %dw, %db, %r\n"
      "}\n",
      VTB_KERNEL_LOOP, 0);
}

/* Rows that are too wide for shared memory. */
TEST(adjoints_that_leave_what_they_read) {
  check_kind(
      "wide rows",
      "func @f(%x: f32[1, 6000, 4], %p: f32[1, 6000, 4], %a: f32[1, 6000, 4], %w: f32[4, 3, 3]) -> "
      "(f32[4, 3, 3], f32[4], f32[1, 6000, 4]) {\n"
      "  %s = sigmoid %a : f32[1, 6000, 4]\n"
      "  %dy = mul %p, %s : f32[1, 6000, 4]\n"
      "  %dw = dwconv_dw %x, %dy {grid = [2, 3000], pad = [1, 1], kernel = [3, 3]} : f32[4, 3, 3]\n"
      "  %db = reduce_sum %dy {axes = [0, 1]} : f32[4]\n"
      "  %dx = dwconv_dx %dy, %w {grid = [2, 3000], pad = [1, 1]} : f32[1, 6000, 4]\n"
      "  %r = add %dx, %x : f32[1, 6000, 4]\n"
      "  return %dw, %db, %r\n"
      "}\n",
      VTB_KERNEL_LOOP, 1);
}

int main(void) {
  emulate_or_skip();
  RUN(adjoints_that_make_what_they_read);
  RUN(adjoints_that_leave_what_they_read);
  RUN(all_adjoints_of_a_convolution);
  RUN(adjoints_of_other_convolutions);
  RUN(adjoints_of_many_taps);
  RUN(a_convolution_with_all_that_follows);
  RUN(an_odd_number_of_channels);
  RUN(thin_products_beside_a_convolution);
  RUN(thin_products_of_a_causal_convolution);
  RUN(thin_products_of_a_large_kernel);
  RUN(thin_products_of_a_larger_kernel);
  RUN(extra_tokens_go_past_convolutions);
  RUN(thin_products_of_16_bits_in_turn);
  RUN(thin_products_beside_two_convolutions);
  RUN(sums_of_products_without_a_convolution);
  RUN(a_large_kernel_and_an_odd_view);
  RUN(few_numbers_a_token_over_its_channels);
  RUN(a_weight_and_its_bias);
  return test_done();
}
