/* Norms that products take in (passes/fuse/fuse_norms.c): what becomes of them, on both texts of
 * products in the emulator at odd sizes, and how far rows may be from zero. */
#include "codegen/cuda/compile/nvrtc.h"
#include "ir/kernels.h"
#include "ir/ops.h"
#include "runtime/launch/launch_check.h"
#include "tests/codegen/cuda_check.h"
#include "tests/passes/pass_check.h"

/* A residual block behind a product: the norm's rows come from a product with a residual. */
typedef struct block {
  int rows, width, inner; /* of two samples; of what is normed; of the product behind it */
  bool centred, gain, shift, bias, gelu, twice, calls;
  const char *tile; /* attribute of all products, with its number; or NULL */
  int number;
  double mean; /* of rows, in deviations */
  bool summed; /* rows are added up by the kernel that norms them, when passes begin */
} block;

static void say(vtb_strbuf *s, const char *format, const block *b) {
  for (const char *c = format; *c; c++) {
    if (*c == 'R')
      vtb_strbuf_printf(s, "%d", b->rows);
    else if (*c == 'C')
      vtb_strbuf_printf(s, "%d", b->width);
    else if (*c == 'D')
      vtb_strbuf_printf(s, "%d", b->inner);
    else
      vtb_strbuf_putc(s, *c);
  }
}

static void say_norm(vtb_strbuf *s, const block *b) {
  if (b->centred)
    say(s,
        "  %s = reduce_sum %x {axes = [2], keep = 1} : f32[2, R, 1]\n"
        "  %m = mul %s, %part : f32[2, R, 1]\n  %c = sub %x, %m : f32[2, R, C]\n",
        b);
  else
    say(s, "  %c = mul %x, %one : f32[2, R, C]\n", b);
  say(s,
      "  %q = square %c : f32[2, R, C]\n"
      "  %v = reduce_sum %q {axes = [2], keep = 1} : f32[2, R, 1]\n"
      "  %v.1 = mul %part, %v : f32[2, R, 1]\n  %v.2 = add %v.1, %eps : f32[2, R, 1]\n"
      "  %v.3 = rsqrt %v.2 : f32[2, R, 1]\n  %n = mul %c, %v.3 : f32[2, R, C]\n",
      b);
  say(s,
      b->gain ? "  %g.1 = add %one, %g : f32[C]\n  %n.1 = mul %n, %g.1 : f32[2, R, C]\n"
              : "  %n.1 = mul %n, %one : f32[2, R, C]\n",
      b);
  say(s,
      b->shift ? "  %h = add %n.1, %k : f32[2, R, C]\n" : "  %h = mul %n.1, %one : f32[2, R, C]\n",
      b);
}

static void say_block(vtb_strbuf *s, const block *b) {
  vtb_strbuf_printf(s, "  %%part = constant {value = %.17g} : f32[]\n", 1.0 / b->width);
  say(s, "  %eps = constant {value = 1e-5} : f32[]\n  %one = constant {value = 1} : f32[]\n", b);
  say_norm(s, b);
  say(s, "  %p = einsum %h, %w", b);
  say(s, b->bias ? ", %b" : "", b);
  say(s, " {spec = \"bnc,ec->bne\"} : f32[2, R, D]\n", b);
  say(s, b->gelu ? "  %a = gelu %p : f32[2, R, D]\n" : "  %a = mul %p, %one : f32[2, R, D]\n", b);
  if (b->twice)
    say(s,
        "  %p.1 = einsum %h, %w.1 {spec = \"bnc,ec->bne\"} : f32[2, R, D]\n"
        "  %a.1 = mul %a, %p.1 : f32[2, R, D]\n",
        b);
  say(s, "  %d = einsum ", b);
  say(s, b->twice ? "%a.1" : "%a", b);
  say(s, ", %u {spec = \"bne,ce->bnc\"} : f32[2, R, C]\n  %y = add %x, %d : f32[2, R, C]\n", b);
}

static char *text_of(const block *b) {
  static const char params[] =
      "%g: f32[C] param \"g\", %k: f32[C] param \"k\", %w: f32[D, C] "
      "param \"w\", %w.1: f32[D, C] param \"w.1\", %b: f32[D] param \"b\", "
      "%u: f32[C, D] param \"u\"";
  vtb_strbuf s = {0};
  if (b->calls) {
    say(&s,
        "func @block(%x: f32[2, R, C], %g: f32[C], %k: f32[C], %w: f32[D, C], %w.1: f32[D, C], "
        "%b: f32[D], %u: f32[C, D]) -> (f32[2, R, C]) {\n",
        b);
    say_block(&s, b);
    say(&s, "  return %y\n}\n", b);
  }
  say(&s, "entry func @f(%r: f32[2, R, C] input \"r\", %i: f32[2, R, D] input \"i\", ", b);
  say(&s, params, b);
  say(&s, ") -> (f32[2, R, C]) {\n", b);
  say(&s,
      "  %d.1 = einsum %i, %u {spec = \"bne,ce->bnc\"} : f32[2, R, C]\n"
      "  %x = add %d.1, %r : f32[2, R, C]\n",
      b);
  if (b->calls)
    say(&s,
        "  %x.1 = call @block(%x, %g, %k, %w, %w.1, %b, %u) : f32[2, R, C]\n"
        "  %y = call @block(%x.1, %g, %k, %w, %w.1, %b, %u) : f32[2, R, C]\n",
        b);
  else
    say_block(&s, b);
  say(&s, "  %z = add %y, %r : f32[2, R, C]\n  return %z\n}\n", b);
  return s.at;
}

static char *edited(const block *b, const char *from, const char *to) {
  char *text = text_of(b), *at = strstr(text, from);
  vtb_strbuf s = {0};
  CHECK_MSG(at != NULL, "no %s in the text", from);
  vtb_strbuf_printf(&s, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
  free(text);
  return s.at;
}

/* On its way to the pass; `summed`: a sum with a product is not part of it. */
static void clean(vtb_module *m, bool summed) {
  vtb_pass_context c = {.module = m, .target = vtb_target_find("cuda")};
  CHECK(run_passes_in(&c, summed ? "simplify,cse,dce" : "simplify,cse,dce,add_in_product"));
}

/* On its way to a machine on which launches cost nothing, or the default one. */
static vtb_pass_context context_of(vtb_module *m, bool fast) {
  vtb_pass_context c = {.module = m,
                        .target = vtb_target_find("cuda"),
                        .gpu = *vtb_gpu_default(),
                        .precision = VTB_PRECISION_BF16_ALL};
  if (fast) c.gpu.launch = 0;
  return c;
}

/* Fused, on its way to code; how many kernels norm their rows still. */
static vtb_launch_plan *plan_of(vtb_module *m, const block *b, const char *arch) {
  vtb_launch_plan *plan = NULL;
  vtb_error err = {0};
  vtb_codegen_options o = {.precision = VTB_PRECISION_BF16_ALL, .arch = arch};
  clean(m, b->summed);
  vtb_status status = VTB_OK;
  vtb_pass_context c = context_of(m, true);
  CHECK(run_passes_in(&c, strstr(c.target->pipeline, "precision,")));
  for (vtb_func *f = m->first; f; f = f->next)
    for (vtb_inst *i = f->first; b->tile && i; i = i->next)
      if (i->op == VTB_OP_einsum) vtb_attr_set(i, VTB_A_INT(b->tile, b->number));
  if (status == VTB_OK) status = vtb_cuda_plan(m, m->entry, &o, &plan, &err);
  if (status == VTB_OK) status = vtb_launch_plan_check(plan, NULL, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  if (status != VTB_OK) exit(1);
  return plan;
}

static vtb_tensor *arguments(const vtb_func *f, const block *b) {
  vtb_tensor *args = random_args(f, 2, 7);
  for (int a = 0; a < f->n_args; a++) {
    bool input = a < 2, matrix = f->args[a]->type.rank == 2;
    double by = matrix ? 1.5 / sqrt((double)args[a].type.dim[1].size) : a == 0 ? 1.7 : 1;
    for (int64_t k = 0; k < vtb_type_count(&args[a].type); k++)
      args[a].data[k] = args[a].data[k] * by + (a == 0 && input ? b->mean : 0);
  }
  return args;
}

/* The largest error, relative to the largest number; the interpreter runs the text as it is. */
static double error_of(const block *b, const char *arch, int *kernels, int *parted) {
  char *text = text_of(b);
  vtb_module *m = parse_ir(text), *plain = vtb_module_clone(m);
  vtb_launch_plan *plan = plan_of(m, b, arch);
  vtb_program *p = NULL;
  vtb_error err = {0};
  *parted = 0;
  for (const vtb_func *f = m->first; f; f = f->next) *parted += vtb_row_parts_of(f).of != NULL;
  *kernels = 0;
  for (int i = 0; i < plan->n_kernels; i++) *kernels += plan->kernels[i].arch == 90;
  vtb_tensor *args = arguments(plain->entry, b), *want = interpret(plain, args, 2);
  vtb_status status = vtb_emulator_program(plan, &(vtb_emulator_options){.seed = 3}, &p, &err);
  CHECK_MSG(status == VTB_OK && want, "%s", err.text);
  if (status != VTB_OK || !want) exit(1);
  void **got = cuda_run(p, plain->entry->n_args, args);
  double worst = 0, scale = 0;
  const float *y = got[plain->entry->n_args];
  for (int64_t k = 0; k < vtb_type_count(&want->type); k++) {
    double e = fabs(y[k] - want->data[k]);
    if (!(e <= worst)) worst = isnan(e) ? HUGE_VAL : e;
    scale =
        fmax(scale, fabs(want->data[k] - 2 * b->mean)); /* of rows and of what is added to them */
  }
  for (int i = 0; i < p->n_tensors; i++) free(got[i]);
  free(got);
  free_tensors(args, plain->entry->n_args);
  free_tensors(want, 1);
  vtb_program_free(p);
  vtb_module_free(plain);
  vtb_module_free(m);
  free(text);
  return worst / scale;
}

static void check(const block *b, const char *arch) {
  int kernels, parted;
  double error = error_of(b, arch, &kernels, &parted);
  CHECK_MSG(error < 1.2e-2, "%d x %d x %d, tile %d: off by %g", b->rows, b->width, b->inner,
            b->number, error);
  CHECK_MSG(parted > 0, "%d x %d x %d: no product keeps statistics", b->rows, b->width, b->inner);
  CHECK((kernels > 0) == (arch && b->tile));
}

TEST(every_kind_of_norm) {
  static const block blocks[] = {
      {37, 96, 72, true, true, true, true, true, false, false, NULL, 0, 0.3, false},
      {37, 96, 72, true, false, false, false, true, false, false, NULL, 0, 0.3, false},
      {21, 64, 40, false, true, false, true, false, false, false, NULL, 0, 0.3, false},
      {21, 64, 40, false, false, true, false, false, true, false, NULL, 0, 0.3, false},
      {9, 160, 48, true, true, false, true, true, true, true, NULL, 0, 0.3, false}};
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) check(&blocks[i], NULL);
}

TEST(rows_that_are_summed_where_they_are_normed) {
  static const block blocks[] = {
      {37, 96, 72, true, true, true, true, true, false, false, NULL, 0, 0.3, true},
      {20, 64, 40, false, true, false, false, false, true, true, NULL, 0, 0.3, true}};
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) check(&blocks[i], NULL);
}

/* Wide values of a stream's shape that functions take and give. */
static int wide_streams(const vtb_module *m) {
  int n = 0;
  for (const vtb_func *f = m->first; f; f = f->next) {
    if (f->kind != VTB_FUNC_PLAIN || f == m->entry) continue;
    const vtb_type *t = &f->returns[0]->type;
    for (int a = 0; a < f->n_args; a++)
      n += f->args[a]->type.rank == 3 && f->args[a]->type.dtype == VTB_F32 &&
           f->args[a]->type.dim[2].size == t->dim[2].size;
    for (int r = 0; r < f->n_returns; r++)
      n += f->returns[r]->type.dtype == VTB_F32 && vtb_type_equal(&f->returns[r]->type, t);
  }
  return n;
}

static int wide_streams_of(const block *b, bool fast, const char *from, const char *to) {
  char *text = from ? edited(b, from, to) : text_of(b);
  vtb_module *m = parse_ir(text);
  vtb_pass_context c = context_of(m, fast);
  clean(m, false);
  CHECK(run_passes_in(&c, "precision,fuse_norms,fuse,grow{products}"));
  int n = wide_streams(m);
  vtb_module_free(m);
  free(text);
  return n;
}

/* A stream is two halves unless something reads it that cannot: here a sum of columns. */
TEST(streams_go_from_block_to_block_in_halves) {
  block b = {.rows = 9, .width = 96, .inner = 72, .centred = true, .gain = true, .calls = true};
  CHECK(wide_streams_of(&b, true, NULL, NULL) == 0);
  CHECK(wide_streams_of(&b, false, NULL, NULL) == 2); /* of few rows a launch more decides */
  CHECK(wide_streams_of(&b, true, "%z = add %y, %r : f32[2, 9, 96]",
                        "%y.1 = slice %y {axis = 1, start = 2, limit = 3} : f32[2, 1, 96]\n"
                        "  %z = add %y.1, %r : f32[2, 9, 96]") == 2);
  b.mean = 0.3;
  check(&b, NULL);
  b.bias = b.gelu = b.twice = b.shift = true;
  b.rows = 33;
  check(&b, NULL);
  b.summed = true;
  check(&b, NULL);
}

TEST(every_tile_that_holds_parts) {
  static const int tiles[] = {0, 1, 4, 5, 6, 7, 8};
  block b = {75, 160, 136, true, true, true, true, true, false, false, "tile", 0, 0.3, false};
  for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
    b.number = tiles[i];
    check(&b, NULL);
  }
}

TEST(every_tile_of_wgmma) {
  block b = {75, 160, 136, true, true, true, true, false, false, true, "wide", 0, 0.3, false};
  for (b.number = 0; b.number < 7; b.number++) check(&b, "sm_90a");
}

TEST(ranges_of_the_depth_are_added_first) {
  block b = {3, 64, 2080, true, true, true, false, true, false, false, NULL, 0, 0.3, false};
  check(&b, NULL);
  b.tile = "wide";
  b.number = 5;
  check(&b, "sm_90a");
}

/* What is rounded is x, not what is left of it: the error grows with the mean. */
TEST(rows_far_from_zero_lose_as_much_more) {
  block b = {37, 96, 72, true, true, true, true, false, false, false, NULL, 0, 8, false};
  int kernels, parted;
  double near = error_of(&b, NULL, &kernels, &parted);
  b.mean = 30;
  double far = error_of(&b, NULL, &kernels, &parted);
  CHECK_MSG(near < 1e-2 && far < 3e-2, "off by %g and %g", near, far);
}

/* ---- the pass -------------------------------------------------------------------------------- */

static bool is_taken(const char *text, vtb_precision precision) {
  vtb_module *m = parse_ir(text);
  vtb_pass_context c = {.module = m, .target = vtb_target_find("cuda"), .precision = precision};
  clean(m, false);
  CHECK(run_passes_in(&c, "precision,fuse_norms,fuse,grow{products}"));
  bool taken = false;
  for (const vtb_func *f = m->first; f; f = f->next) taken |= vtb_row_parts_of(f).of != NULL;
  vtb_module_free(m);
  return taken;
}

TEST(norms_that_stay) {
  static const block plain = {.rows = 9,
                              .width = 96,
                              .inner = 72,
                              .centred = true,
                              .gain = true,
                              .shift = true,
                              .bias = true};
  static const block narrow = {.rows = 9,
                               .width = 40,
                               .inner = 72,
                               .centred = true,
                               .gain = true,
                               .shift = true,
                               .bias = true};
  static const struct {
    const char *from, *to;
  } edits[] = {/* read by something else */
               {"%y = add %x, %d", "%y = add %h, %d"},
               /* the library's */
               {"%p = einsum %h, %w, %b {spec = \"bnc,ec->bne\"}",
                "%p = einsum %h, %w, %b {spec = \"bnc,ec->bne\", library = 1}"},
               /* a weight that changes from run to run */
               {"%w: f32[72, 96] param \"w\"", "%w: f32[72, 96] input \"w\""},
               /* rows that no product makes */
               {"%x = add %d.1, %r : f32[2, 9, 96]", "%x = tanh %r : f32[2, 9, 96]"}};
  char *text = text_of(&plain);
  CHECK(is_taken(text, VTB_PRECISION_BF16_ALL));
  CHECK(!is_taken(text, VTB_PRECISION_BF16));
  CHECK(!is_taken(text, VTB_PRECISION_FP32));
  free(text);
  text = text_of(&narrow);
  CHECK(!is_taken(text, VTB_PRECISION_BF16_ALL));
  free(text);
  for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
    text = edited(&plain, edits[i].from, edits[i].to);
    CHECK_MSG(!is_taken(text, VTB_PRECISION_BF16_ALL), "%s", edits[i].to);
    free(text);
  }
  block square = plain; /* the product adds what it multiplies */
  square.inner = square.width;
  text = edited(&square, "%p = einsum %h, %w, %b", "%p = einsum %h, %w, %h");
  CHECK(!is_taken(text, VTB_PRECISION_BF16_ALL));
  free(text);
}

/* A sum that is not divided by the width is no variance; rows are divided by their own deviation.
 */
TEST(what_is_no_norm_stays) {
  static const block plain = {.rows = 9,
                              .width = 96,
                              .inner = 72,
                              .centred = true,
                              .gain = true,
                              .shift = true,
                              .bias = true};
  static const char *const edits[][2] = {{"%v.1 = mul %part, %v", "%v.1 = mul %eps, %v"},
                                         {"%n = mul %c, %v.3", "%n = mul %x, %v.3"},
                                         {"%q = square %c", "%q = square %x"},
                                         {"%c = sub %x, %m", "%c = sub %m, %x"},
                                         {"%v.3 = rsqrt %v.2", "%v.3 = rsqrt %v"}};
  for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
    char *text = edited(&plain, edits[i][0], edits[i][1]);
    CHECK_MSG(!is_taken(text, VTB_PRECISION_BF16_ALL), "%s", edits[i][1]);
    free(text);
  }
}

int main(void) {
  emulate_or_skip();
  RUN(norms_that_stay);
  RUN(what_is_no_norm_stays);
  RUN(every_kind_of_norm);
  RUN(rows_that_are_summed_where_they_are_normed);
  RUN(streams_go_from_block_to_block_in_halves);
  RUN(every_tile_that_holds_parts);
  RUN(every_tile_of_wgmma);
  RUN(ranges_of_the_depth_are_added_first);
  RUN(rows_far_from_zero_lose_as_much_more);
  return test_done();
}
