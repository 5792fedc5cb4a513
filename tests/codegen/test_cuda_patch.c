/* Loops that read along another axis than they write: against the interpreter at sizes that patches
 * do and do not divide, and within twice the sectors that their bytes need. */
#include "codegen/emulator/audit.h"
#include "tests/codegen/cuda_check.h"

static vtb_module *parse(const char *text) {
  static vtb_source source;
  source = (vtb_source){.path = "<test>", .text = text, .n = strlen(text)};
  vtb_diags d = {0};
  vtb_module *m = vtb_module_parse(&source, &d);
  vtb_diags_print(&d, stderr);
  CHECK_MSG(m != NULL, "the IR does not parse:\n%s", text);
  vtb_diags_free(&d);
  return m;
}

static void check(const char *what, const char *text) {
  vtb_module *m = parse(text);
  unsigned long long seed = 11400714819323198485ull;
  if (!m) return;
  vtb_func *f = m->entry = vtb_module_find(m, "f");
  vtb_tensor *args = vtb_xcalloc((size_t)f->n_args + 1, sizeof *args);
  for (int a = 0; a < f->n_args; a++) {
    args[a] = vtb_tensor_new(f->args[a]->type);
    for (int64_t k = 0; k < vtb_type_count(&args[a].type); k++)
      args[a].data[k] = (float)test_random(&seed);
  }
  cuda_check(m, f, args, 1e-6, what);
  for (int a = 0; a < f->n_args; a++) vtb_tensor_free(&args[a]);
  free(args);
  vtb_module_free(m);
}

TEST(any_size) {
  check(
      "edges of patches",
      "func @f(%x: f32[3, 37, 52], %y: f32[2, 64, 24], %z: f32[2, 9, 2, 3, 20], %w: f32[2, 50, 9, "
      "2, 2])\n"
      "    -> (f32[3, 52, 37], f32[2, 24, 64], f32[2, 20, 9, 2, 3], f32[2, 2, 2, 50, 9], f32[2, "
      "24, 64]) {\n"
      "  %a = transpose %x {perm = [0, 2, 1]} : f32[3, 52, 37]\n"
      "  %a1 = neg %a : f32[3, 52, 37]\n"
      "  %b = transpose %y {perm = [0, 2, 1]} : f32[2, 24, 64]\n"
      "  %b1 = neg %b : f32[2, 24, 64]\n"
      "  %c = transpose %z {perm = [0, 4, 1, 2, 3]} : f32[2, 20, 9, 2, 3]\n"
      "  %c1 = neg %c : f32[2, 20, 9, 2, 3]\n"
      "  %d = transpose %w {perm = [0, 3, 4, 1, 2]} : f32[2, 2, 2, 50, 9]\n"
      "  %d1 = neg %d : f32[2, 2, 2, 50, 9]\n"
      "  %e = add %b, %b1 : f32[2, 24, 64]\n"
      "  return %a1, %b1, %c1, %d1, %e\n}\n");
}

/* The sectors over their ideal of the launch that wastes most; *n: how many there are. */
static double sectors_of_launches(const char *text, int *n) {
  vtb_module *m = parse(text);
  vtb_launch_plan *plan = NULL;
  vtb_error err = {0};
  vtb_audit a = {0};
  double worst = 0;
  m->entry = vtb_module_find(m, "f");
  vtb_status status = cuda_plan(m, m->entry, &(vtb_codegen_options){0}, &plan, &err);
  if (status == VTB_OK) status = vtb_audit_plan(plan, 0, false, &a, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  for (size_t i = 0; i < a.rows.n; i++) worst = fmax(worst, vtb_audit_sectors(&a.rows.at[i]));
  *n = (int)a.rows.n;
  vtb_audit_free(&a);
  vtb_launch_plan_free(plan);
  vtb_module_free(m);
  return worst;
}

static double sectors_of(const char *text) {
  int n;
  return sectors_of_launches(text, &n);
}

TEST(whole_sectors) {
  double r = sectors_of("func @f(%x: f32[4, 96, 784]) -> (f32[4, 784, 96]) {\n"
                        "  %a = transpose %x {perm = [0, 2, 1]} : f32[4, 784, 96]\n"
                        "  %b = neg %a : f32[4, 784, 96]\n  return %b\n}\n");
  CHECK_MSG(r == 1, "a transpose: %g", r);
  r = sectors_of("func @f(%x: bf16[4, 96, 784]) -> (bf16[4, 784, 96]) {\n"
                 "  %a = transpose %x {perm = [0, 2, 1]} : bf16[4, 784, 96]\n"
                 "  %b = neg %a : bf16[4, 784, 96]\n  return %b\n}\n");
  CHECK_MSG(r <= 1.5, "a transpose of halves: %g", r);
  r = sectors_of("func @f(%x: f32[400, 96, 2, 2]) -> (f32[400, 2, 2, 96]) {\n"
                 "  %a = transpose %x {perm = [0, 2, 3, 1]} : f32[400, 2, 2, 96]\n"
                 "  %b = neg %a : f32[400, 2, 2, 96]\n  return %b\n}\n");
  CHECK_MSG(r <= 1.5, "small axes: %g", r);
}

/* Every second element, and rows that begin anywhere: a thread an element. */
TEST(neighbours_apart) {
  double r =
      sectors_of("func @f(%x: f32[64, 196, 64]) -> (f32[64, 196, 32]) {\n"
                 "  %a = slice %x {axis = 2, start = 1, limit = 64, step = 2} : f32[64, 196, "
                 "32]\n"
                 "  %b = neg %a : f32[64, 196, 32]\n  return %b\n}\n");
  CHECK_MSG(r <= 1.5, "every second: %g", r);
  r = sectors_of("func @f(%x: f32[64, 196, 38]) -> (f32[64, 196, 32]) {\n"
                 "  %a = slice %x {axis = 2, start = 6, limit = 38} : f32[64, 196, 32]\n"
                 "  %b = neg %a : f32[64, 196, 32]\n  return %b\n}\n");
  CHECK_MSG(r <= 1.25, "rows of 38: %g", r);
}

/* Pixels of two by two that become channels and back: 16 bits or 32. */
TEST(pixels_and_channels) {
  double r =
      sectors_of("func @f(%x: bf16[64, 28, 28, 96, 2, 2]) -> (bf16[64, 28, 28, 2, 2, 96]) {\n"
                 "  %a = transpose %x {perm = [0, 1, 2, 4, 5, 3]} : bf16[64, 28, 28, 2, 2, "
                 "96]\n  %b = neg %a : bf16[64, 28, 28, 2, 2, 96]\n  return %b\n}\n");
  CHECK_MSG(r <= 1.6, "16 bits: %g", r);
  r = sectors_of("func @f(%x: f32[64, 28, 28, 96, 2, 2]) -> (f32[64, 28, 28, 2, 2, 96]) {\n"
                 "  %a = transpose %x {perm = [0, 1, 2, 4, 5, 3]} : f32[64, 28, 28, 2, 2, 96]\n"
                 "  %b = neg %a : f32[64, 28, 28, 2, 2, 96]\n  return %b\n}\n");
  CHECK_MSG(r <= 1.1, "32 bits: %g", r);
}

/* The adjoint of patches side by side goes through shared memory, too. */
TEST(patches_of_images) {
  double r = sectors_of("func @f(%x: f32[8, 784, 384]) -> (f32[8, 96, 56, 56]) {\n"
                        "  %a = col2im %x {kernel = [2, 2], stride = [2, 2], pad = [0, 0, 0, 0], "
                        "image = [96, 56, 56]} : f32[8, 96, 56, 56]\n  return %a\n}\n");
  CHECK_MSG(r <= 1.05, "col2im: %g", r);
  r = sectors_of("func @f(%x: f32[8, 784, 864]) -> (f32[8, 96, 28, 28]) {\n"
                 "  %a = col2im %x {kernel = [3, 3], stride = [1, 1], pad = [1, 1, 1, 1], "
                 "image = [96, 28, 28]} : f32[8, 96, 28, 28]\n  return %a\n}\n");
  CHECK_MSG(r <= 1.5, "col2im of patches that overlap: %g", r);
  r = sectors_of("func @f(%x: f32[8, 96, 56, 56]) -> (f32[8, 3136, 864]) {\n"
                 "  %a = im2col %x {kernel = [3, 3], stride = [1, 1], pad = [1, 1, 1, 1]} : f32[8, "
                 "3136, 864]\n  return %a\n}\n");
  CHECK_MSG(r <= 1.5, "im2col: %g", r);
}

/* Patches of the image that tokens [B, H W, C] are, and what adjoints of such patches add up to, as
 * tokens again. */
static void check_tokens(const char *type, int B, int C, int H, int W, int kernel, int stride,
                         int pad) {
  int oh = (H + 2 * pad - kernel) / stride + 1, ow = (W + 2 * pad - kernel) / stride + 1;
  char attrs[128];
  snprintf(attrs, sizeof attrs, "kernel = [%d, %d], stride = [%d, %d], pad = [%d, %d, %d, %d]",
           kernel, kernel, stride, stride, pad, pad, pad, pad);
  vtb_strbuf s = {0};
  vtb_strbuf_printf(&s,
                    "func @f(%%x: %s[%d, %d, %d], %%d: %s[%d, %d, %d]) -> (%s[%d, %d, %d], %s[%d, "
                    "%d, %d]) {\n",
                    type, B, H * W, C, type, B, oh * ow, C * kernel * kernel, type, B, oh * ow,
                    C * kernel * kernel, type, B, H * W, C);
  vtb_strbuf_printf(&s, "  %%a = reshape %%x {shape = [%d, %d, %d, %d]} : %s[%d, %d, %d, %d]\n", B,
                    H, W, C, type, B, H, W, C);
  vtb_strbuf_printf(&s, "  %%b = transpose %%a {perm = [0, 3, 1, 2]} : %s[%d, %d, %d, %d]\n", type,
                    B, C, H, W);
  vtb_strbuf_printf(&s, "  %%p = im2col %%b {%s} : %s[%d, %d, %d]\n", attrs, type, B, oh * ow,
                    C * kernel * kernel);
  vtb_strbuf_printf(&s, "  %%e = col2im %%d {%s, image = [%d, %d, %d]} : %s[%d, %d, %d, %d]\n",
                    attrs, C, H, W, type, B, C, H, W);
  vtb_strbuf_printf(&s, "  %%g = transpose %%e {perm = [0, 2, 3, 1]} : %s[%d, %d, %d, %d]\n", type,
                    B, H, W, C);
  vtb_strbuf_printf(&s, "  %%h = reshape %%g {shape = [%d, %d, %d]} : %s[%d, %d, %d]\n", B, H * W,
                    C, type, B, H * W, C);
  vtb_strbuf_printf(&s, "  %%n = neg %%h : %s[%d, %d, %d]\n  return %%p, %%n\n}\n", type, B, H * W,
                    C);
  check(attrs, s.at);
  vtb_strbuf_free(&s);
}

/* The taps of single channels lie 49 apart: a thread of four reads a row of the kernel at a time,
 * so that a sector of taps is read again for the next row, from L1. */
TEST(taps_of_channels) {
  double r = sectors_of("func @f(%x: f32[4, 49, 192], %w: f32[192, 7, 7]) -> (f32[4, 49, 192]) {\n"
                        "  %a = dwconv %x, %w {grid = [7, 7], pad = [3, 3]} : f32[4, 49, 192]\n"
                        "  return %a\n}\n");
  CHECK_MSG(r <= 5, "dwconv: %g", r);
}

TEST(images_of_tokens) {
  check_tokens("f32", 2, 36, 9, 11, 3, 2, 1);
  check_tokens("f32", 1, 7, 6, 5, 3, 1, 1);
  check_tokens("f32", 2, 70, 8, 6, 2, 2, 0);
  check_tokens("f32", 1, 40, 9, 19, 3, 1, 1);  /* parts of 32 and 8 channels, pieces of the image */
  check_tokens("f32", 1, 2, 7, 7, 2, 3, 0);    /* pixels in no patch */
  check_tokens("f32", 1, 20, 13, 9, 7, 4, 3);  /* many taps */
  check_tokens("f32", 1, 4, 31, 30, 30, 1, 0); /* patches that shared memory does not hold */
}

/* Without copies: patches from tokens, and tokens from the adjoints of patches. */
TEST(tokens_are_not_turned) {
  int n;
  double r = sectors_of_launches(
      "func @f(%x: bf16[8, 784, 96]) -> (bf16[8, 196, 384]) {\n"
      "  %a = reshape %x {shape = [8, 28, 28, 96]} : bf16[8, 28, 28, 96]\n"
      "  %b = transpose %a {perm = [0, 3, 1, 2]} : bf16[8, 96, 28, 28]\n"
      "  %p = im2col %b {kernel = [2, 2], stride = [2, 2], pad = [0, 0, 0, 0]} : "
      "bf16[8, 196, 384]\n  return %p\n}\n",
      &n);
  CHECK_MSG(r <= 1.05 && n == 1, "im2col: %g, %d launches", r, n);
  r = sectors_of_launches(
      "func @f(%x: bf16[8, 196, 864]) -> (bf16[8, 784, 96]) {\n"
      "  %a = col2im %x {kernel = [3, 3], stride = [2, 2], pad = [1, 1, 1, 1], image = "
      "[96, 28, 28]} : bf16[8, 96, 28, 28]\n"
      "  %b = transpose %a {perm = [0, 2, 3, 1]} : bf16[8, 28, 28, 96]\n"
      "  %c = reshape %b {shape = [8, 784, 96]} : bf16[8, 784, 96]\n"
      "  %d = neg %c : bf16[8, 784, 96]\n  return %d\n}\n",
      &n);
  CHECK_MSG(r <= 1.05 && n == 2, "col2im: %g, %d launches", r, n);
}

/* Pieces of 12 and 32 bytes, in rows of 76: one kernel writes whole rows. */
TEST(short_pieces_of_rows) {
  static const char text[] =
      "func @f(%a: TYPE[200, 6], %b: TYPE[200, 16], %c: TYPE[200, 16]) -> (TYPE[200, 38]) {\n"
      "  %r = concat %a, %b, %c {axis = 1} : TYPE[200, 38]\n  return %r\n}\n";
  static const char *const types[] = {"f32", "bf16"};
  for (int t = 0; t < 2; t++) {
    vtb_strbuf s = {0};
    for (const char *c = text; *c; c++) {
      bool hole = strncmp(c, "TYPE", 4) == 0;
      if (hole)
        vtb_strbuf_puts(&s, types[t]);
      else
        vtb_strbuf_putc(&s, *c);
      c += hole ? 3 : 0;
    }
    int n;
    if (t == 0) check("pieces of rows", s.at);
    double r = sectors_of_launches(s.at, &n);
    CHECK_MSG(r <= 1.6 && n == 1, "%s: %g, %d launches", types[t], r, n);
    vtb_strbuf_free(&s);
  }
}

int main(void) {
  emulate_or_skip();
  RUN(any_size);
  RUN(whole_sectors);
  RUN(neighbours_apart);
  RUN(pixels_and_channels);
  RUN(patches_of_images);
  RUN(taps_of_channels);
  RUN(short_pieces_of_rows);
  RUN(images_of_tokens);
  RUN(tokens_are_not_turned);
  return test_done();
}
