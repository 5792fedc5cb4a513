/* Loop, row, reduction and product kernels for CUDA: emulated, against the interpreter, bare and
 * fused. One function holds all cases of a kind, so that they are compiled together. */
#include "codegen/memory_plan.h"
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

static int n_strips; /* kernels with sums of rows beside, of the last check */

static void count_strips(const vtb_func *f) {
  n_strips = 0;
  for (const vtb_inst *i = f->first; i; i = i->next)
    n_strips += vtb_streq(vtb_attr_str(i, "kind", ""), "strips");
}

/* Random arguments in [low, high). */
static void check(const char *what, const char *text, bool fused, double low, double high,
                  double tol) {
  vtb_module *m = parse(text);
  unsigned long long seed = 11400714819323198485ull;
  if (!m) return;
  vtb_func *f = m->entry = vtb_module_find(m, "f");
  if (fused) cuda_passes(m, "fuse");
  count_strips(f);
  vtb_tensor *args = vtb_xcalloc((size_t)f->n_args + 1, sizeof *args);
  for (int a = 0; a < f->n_args; a++) {
    args[a] = vtb_tensor_new(f->args[a]->type);
    for (int64_t k = 0; k < vtb_type_count(&args[a].type); k++)
      args[a].data[k] = (float)(low + (test_random(&seed) + 1) / 2 * (high - low));
  }
  cuda_check(m, f, args, tol, what);
  for (int a = 0; a < f->n_args; a++) vtb_tensor_free(&args[a]);
  free(args);
  vtb_module_free(m);
}

/* Views, edges, paths, integers, tables and random numbers, with rows of fours and rows that are
 * not. */
static const char moves[] =
    "func @f(%x: f32[2, 12, 20], %z: f32[2, 3, 20], %e: f32[2, 20], %w: f32[3, 5, 7]) -> (f32[2, "
    "15, 20],\n"
    "    f32[2, 12, 20], f32[2, 12, 20], f32[2, 12, 20], f32[2, 12, 20], f32[20, 12, 2], f32[2, "
    "16, 20],\n"
    "    f32[3, 5, 17], f32[2, 60, 4], f32[3, 5, 7], f32[3, 5, 7], f32[3, 5, 7], f32[2, 12, 9]) {\n"
    "  %a = concat %x, %z {axis = 1} : f32[2, 15, 20]\n"
    "  %b = permute %x {axis = 1, path = \"cols~@3x4\"} : f32[2, 12, 20]\n"
    "  %c = permute %x {axis = 1, path = \"hilbert@3x4\", inverse = 1} : f32[2, 12, 20]\n"
    "  %d = shift %x, %e {axis = 1, by = 1, path = \"snake@3x4\"} : f32[2, 12, 20]\n"
    "  %g = shift %x {axis = 1, by = -2, fill = 0.5} : f32[2, 12, 20]\n"
    "  %t = transpose %x {perm = [2, 1, 0]} : f32[20, 12, 2]\n"
    "  %h = silu %t : f32[20, 12, 2]\n"
    "  %p = pad %x {axis = 1, low = 3, high = 1} : f32[2, 16, 20]\n"
    "  %q = pad %w {axis = 2, low = 1, high = 3, step = 2} : f32[3, 5, 17]\n"
    "  %r = reshape %x {shape = [2, 60, 4]} : f32[2, 60, 4]\n"
    "  %s = gelu %r : f32[2, 60, 4]\n"
    "  %i = cast %w {to = \"i32\"} : i32[3, 5, 7]\n"
    "  %j = iota {axis = 1} : i32[3, 5, 7]\n"
    "  %k = mul %i, %j : i32[3, 5, 7]\n"
    "  %l = cast %k {to = \"f32\"} : f32[3, 5, 7]\n"
    "  %m = constant {data = [1, 2, 3.5, -4, 5]} : f32[5, 1]\n"
    "  %n = mul %w, %m : f32[3, 5, 7]\n"
    "  %seed = constant {value = 42} : i32[]\n"
    "  %o = random %seed {stream = 7} : f32[3, 5, 7]\n"
    "  %u = slice %x {axis = 2, start = 1, limit = 19, step = 2} : f32[2, 12, 9]\n"
    "  %v = log_sigmoid %u : f32[2, 12, 9]\n"
    "  return %a, %b, %c, %d, %g, %h, %p, %q, %s, %l, %n, %o, %v\n"
    "}\n";

TEST(moves_alone) { check("moves", moves, false, -3, 3, 1e-6); }
TEST(moves_fused) { check("fused moves", moves, true, -3, 3, 1e-6); }

/* A norm of short rows with fours, one of odd rows, a softmax of rows longer than a block's
 * registers hold. */
static const char rows[] = "func @f(%x: f32[3, 5, 96], %g: f32[96], %o: f32[9, 37], %l: f32[2, "
                           "20000]) -> (f32[3, 5, 96], f32[3, 5, 1],\n"
                           "    f32[9, 37], f32[2, 20000]) {\n"
                           "  %inv = constant {value = 0.010416667} : f32[]\n"
                           "  %eps = constant {value = 1e-5} : f32[]\n"
                           "  %s = reduce_sum %x {axes = [2], keep = 1} : f32[3, 5, 1]\n"
                           "  %m = mul %s, %inv : f32[3, 5, 1]\n"
                           "  %c = sub %x, %m : f32[3, 5, 96]\n"
                           "  %q = square %c : f32[3, 5, 96]\n"
                           "  %v = reduce_sum %q {axes = [2], keep = 1} : f32[3, 5, 1]\n"
                           "  %w = mul %v, %inv : f32[3, 5, 1]\n"
                           "  %e = add %w, %eps : f32[3, 5, 1]\n"
                           "  %r = rsqrt %e : f32[3, 5, 1]\n"
                           "  %n = mul %c, %r : f32[3, 5, 96]\n"
                           "  %y = mul %n, %g : f32[3, 5, 96]\n"
                           "  %om = reduce_max %o {axes = [1], keep = 1} : f32[9, 1]\n"
                           "  %oc = sub %o, %om : f32[9, 37]\n"
                           "  %oe = exp %oc : f32[9, 37]\n"
                           "  %os = reduce_sum %oe {axes = [1], keep = 1} : f32[9, 1]\n"
                           "  %oy = div %oe, %os : f32[9, 37]\n"
                           "  %lm = reduce_max %l {axes = [1], keep = 1} : f32[2, 1]\n"
                           "  %lc = sub %l, %lm : f32[2, 20000]\n"
                           "  return %y, %r, %oy, %lc\n"
                           "}\n";

TEST(rows_alone) { check("rows", rows, false, -1, 1, 2e-6); }
TEST(rows_fused) { check("fused rows", rows, true, -1, 1, 2e-6); }

/* Sums over leading axes beside rows and elements: the backward of a norm with the gradients of its
 * gain and bias, in fours and with rows that are not; strips of several blocks and one; rows of a
 * block each; heads whose sums stay apart, so that a block walks one head's rows. */
static const char strips[] =
    "func @f(%x: f32[3, 101, 96], %dy: f32[3, 101, 96], %g: f32[96], %o: f32[9, 5, 37],\n"
    "    %l: f32[2, 9, 1100], %h: f32[5, 31, 3, 20], %e: f32[40, 50, 12])\n"
    "    -> (f32[3, 101, 96], f32[96], f32[96], f32[1, 1, 96], f32[9, 5, 37], f32[37], f32[2, 9, "
    "1100],\n"
    "    f32[1100], f32[5, 31, 3, 20], f32[3, 20], f32[40, 50, 12], f32[12], f32[50, 12]) {\n"
    "  %q = mul %x, %dy : f32[3, 101, 96]\n"
    "  %s = reduce_sum %q {axes = [2], keep = 1} : f32[3, 101, 1]\n"
    "  %c = mul %x, %s : f32[3, 101, 96]\n"
    "  %t = mul %dy, %g : f32[3, 101, 96]\n"
    "  %dx = add %t, %c : f32[3, 101, 96]\n"
    "  %dg = reduce_sum %q {axes = [0, 1]} : f32[96]\n"
    "  %dc = reduce_sum %c {axes = [0, 1]} : f32[96]\n"
    "  %db = reduce_sum %dy {axes = [0, 1], keep = 1} : f32[1, 1, 96]\n"
    "  %os = reduce_sum %o {axes = [2], keep = 1} : f32[9, 5, 1]\n"
    "  %oc = sub %o, %os : f32[9, 5, 37]\n"
    "  %od = reduce_sum %oc {axes = [0, 1]} : f32[37]\n"
    "  %lm = reduce_max %l {axes = [2], keep = 1} : f32[2, 9, 1]\n"
    "  %lc = sub %l, %lm : f32[2, 9, 1100]\n"
    "  %ld = reduce_sum %lc {axes = [0, 1]} : f32[1100]\n"
    "  %hs = reduce_sum %h {axes = [3], keep = 1} : f32[5, 31, 3, 1]\n"
    "  %hc = mul %h, %hs : f32[5, 31, 3, 20]\n"
    "  %hd = reduce_sum %hc {axes = [0, 1]} : f32[3, 20]\n"
    "  %ee = exp %e : f32[40, 50, 12]\n"
    "  %ed = reduce_sum %ee {axes = [0, 1]} : f32[12]\n"
    "  %en = neg %e : f32[40, 50, 12]\n"
    "  %ep = reduce_sum %en {axes = [0]} : f32[50, 12]\n"
    "  return %dx, %dg, %dc, %db, %oc, %od, %lc, %ld, %hc, %hd, %ee, %ed, %ep\n"
    "}\n";

TEST(strips_alone) { check("strips", strips, false, -1, 1, 3e-6); }
TEST(strips_fused) {
  check("fused strips", strips, true, -1, 1, 3e-6);
  CHECK(n_strips == 5); /* the two sums of %e are over different axes */
}

/* The adjoints of a projection's parts: attention's and a scan's store them side by side. */
static const char parts[] =
    "func @f(%q: f32[2, 9, 3, 8], %k: f32[2, 9, 3, 8], %v: f32[2, 9, 3, 8], %y: f32[2, 9, 3, 8],\n"
    "    %lse: f32[2, 9, 3], %dy: f32[2, 9, 3, 8], %d: f32[3])\n"
    "    -> (f32[2, 9, 72], f32[2, 9, 72], f32[3]) {\n"
    "  %aq, %ak, %av = attention_grad %q, %k, %v, %y, %lse, %dy {scale = 0.4} : f32[2, 9, 3, 8], "
    "f32[2, 9, 3, 8], f32[2, 9, 3, 8]\n"
    "  %a = reshape %aq {shape = [2, 9, 24]} : f32[2, 9, 24]\n"
    "  %b = reshape %ak {shape = [2, 9, 24]} : f32[2, 9, 24]\n"
    "  %c = reshape %av {shape = [2, 9, 24]} : f32[2, 9, 24]\n"
    "  %e = concat %a, %b, %c {axis = 2} : f32[2, 9, 72]\n"
    "  %sq, %sk, %sv, %sd = linscan_grad %q, %k, %v, %d, %dy {class = \"constant\", mode = "
    "\"parallel\"} : f32[2, 9, 3, 8], f32[2, 9, 3, 8], f32[2, 9, 3, 8], f32[3]\n"
    "  %h = reshape %sq {shape = [2, 9, 24]} : f32[2, 9, 24]\n"
    "  %i = reshape %sk {shape = [2, 9, 24]} : f32[2, 9, 24]\n"
    "  %j = reshape %sv {shape = [2, 9, 24]} : f32[2, 9, 24]\n"
    "  %l = concat %h, %i, %j {axis = 2} : f32[2, 9, 72]\n"
    "  return %e, %l, %sd\n"
    "}\n";

TEST(parts_side_by_side) {
  check("parts", parts, true, 0.1, 0.9, 2e-6);
  vtb_module *m = parse(parts);
  vtb_plan plan;
  vtb_error err = {0};
  m->entry = vtb_module_find(m, "f");
  cuda_passes(m, "fuse");
  CHECK(vtb_plan_memory(m, m->entry, &vtb_target_find("cuda")->places, &plan, &err) == VTB_OK);
  int joined = 0;
  for (const vtb_inst *i = m->entry->first; i; i = i->next)
    joined += i->n_results == 1 && plan.frames[0].slots[i->results[0]->id].in_place;
  CHECK(joined == 2);
  vtb_plan_free(&plan);
  vtb_module_free(m);
}

/* Over leading, middle and last axes; in one range and in several. */
static const char reductions[] = "func @f(%x: f32[6, 7, 33], %z: f32[40, 50, 12], %l: f32[2, "
                                 "30000]) -> (f32[7, 33], f32[6, 33], f32[7], f32[],\n"
                                 "    f32[12], f32[12], f32[40, 12], f32[2], f32[30000]) {\n"
                                 "  %p = square %x : f32[6, 7, 33]\n"
                                 "  %a = reduce_sum %p {axes = [0]} : f32[7, 33]\n"
                                 "  %b = reduce_max %x {axes = [1]} : f32[6, 33]\n"
                                 "  %c = reduce_sum %x {axes = [0, 2]} : f32[7]\n"
                                 "  %d = reduce_sum %x {axes = [0, 1, 2]} : f32[]\n"
                                 "  %q = silu %z : f32[40, 50, 12]\n"
                                 "  %e = reduce_sum %q {axes = [0, 1]} : f32[12]\n"
                                 "  %g = reduce_sum %z {axes = [0, 1]} : f32[12]\n"
                                 "  %h = reduce_sum %z {axes = [1]} : f32[40, 12]\n"
                                 "  %i = reduce_sum %l {axes = [1]} : f32[2]\n"
                                 "  %j = reduce_max %l {axes = [0]} : f32[30000]\n"
                                 "  return %a, %b, %c, %d, %e, %g, %h, %i, %j\n"
                                 "}\n";

TEST(reductions_alone) { check("reductions", reductions, false, -0.5, 1, 2e-6); }
TEST(reductions_fused) { check("fused reductions", reductions, true, -0.5, 1, 2e-6); }

/* Every tile, both shared layouts of either side, 16- and 4-byte copies, ranges of k, batches, odd
 * edges, letters that do not merge, an addend, short and missing k. */
static const char products[] =
    "func @f(%x: f32[2, 70, 96], %w: f32[80, 96], %b: f32[80], %v: f32[96, 50], %q: f32[2, 19, 3, "
    "21],\n"
    "    %k: f32[2, 23, 3, 21], %y: f32[2, 300, 34], %z: f32[2, 300, 18], %n: f32[9, 96], %g: "
    "f32[2, 5, 24, 4],\n"
    "    %h: f32[24, 4, 4], %s: f32[130, 20], %t: f32[20, 130], %i: f32[3, 24, 4, 4], %j: f32[3, "
    "1, 1, 24, 4]) -> (f32[2, 70, 80], f32[2, 70, "
    "50],\n"
    "    f32[2, 3, 19, 23], f32[34, 18], f32[2, 70, 9], f32[2, 5, 24, 4], f32[130, 130], f32[9, "
    "80], f32[80, 70, 2], f32[3, 2, 5, 24, 4]) "
    "{\n"
    "  %p1 = einsum %x, %w, %b {spec = \"abc,dc->abd\"} : f32[2, 70, 80]\n"
    "  %p2 = einsum %x, %v {spec = \"abc,cd->abd\"} : f32[2, 70, 50]\n"
    "  %p3 = einsum %q, %k {spec = \"bnhk,bmhk->bhnm\"} : f32[2, 3, 19, 23]\n"
    "  %p4 = einsum %y, %z {spec = \"bnc,bnd->cd\"} : f32[34, 18]\n"
    "  %p5 = einsum %x, %n {spec = \"abc,dc->abd\"} : f32[2, 70, 9]\n"
    "  %p6 = einsum %g, %h {spec = \"bngi,goi->bngo\"} : f32[2, 5, 24, 4]\n"
    "  %p7 = einsum %s, %t {spec = \"mk,kn->mn\"} : f32[130, 130]\n"
    "  %p8 = einsum %n, %w, %b {spec = \"ac,bc->ab\"} : f32[9, 80]\n"
    "  %p9 = einsum %x, %w {spec = \"abc,dc->dba\"} : f32[80, 70, 2]\n"
    "  %p10 = einsum %g, %i, %j {spec = \"bngi,sgoi->sbngo\"} : f32[3, 2, 5, 24, 4]\n"
    "  return %p1, %p2, %p3, %p4, %p5, %p6, %p7, %p8, %p9, %p10\n"
    "}\n";

/* Elementwise kernels behind products: with and without parts to add, sums written out, two
 * results, results in concatenations of aligned and of odd rows, letters that do not merge. */
static const char epilogues[] =
    "func @f(%x: f32[2, 70, 96], %w: f32[80, 96], %b: f32[80], %r: f32[2, 70, 80], %q: f32[2, 19, "
    "3, 21],\n"
    "    %k: f32[2, 23, 3, 21], %s: f32[2, 3, 1, 23], %y: f32[2, 600, 34], %z: f32[2, 600, 18], "
    "%l: f32[18],\n"
    "    %g: f32[2, 5, 24, 4], %h: f32[24, 4, 4], %c: f32[2, 70, 3], %d: f32[2, 70, 1]) -> (f32[2, "
    "70, 80], f32[2, 70, 80], f32[2, 3, 19, 23], f32[34, 18],\n"
    "    f32[2, 5, 24, 4], f32[2, 70, 160], f32[2, 70, 83]) {\n"
    "  %p1 = einsum %x, %w, %b {spec = \"abc,dc->abd\"} : f32[2, 70, 80]\n"
    "  %e1 = gelu %p1 : f32[2, 70, 80]\n"
    "  %e2 = add %e1, %r : f32[2, 70, 80]\n"
    "  %e3 = square %e1 : f32[2, 70, 80]\n"
    "  %p3 = einsum %q, %k {spec = \"bnhk,bmhk->bhnm\"} : f32[2, 3, 19, 23]\n"
    "  %e4 = mul %p3, %s : f32[2, 3, 19, 23]\n"
    "  %p4 = einsum %y, %z {spec = \"bnc,bnd->cd\"} : f32[34, 18]\n"
    "  %e5 = mul %p4, %l : f32[34, 18]\n"
    "  %p6 = einsum %g, %h {spec = \"bngi,goi->bngo\"} : f32[2, 5, 24, 4]\n"
    "  %e6 = silu %p6 : f32[2, 5, 24, 4]\n"
    "  %p7 = einsum %x, %w {spec = \"abc,dc->abd\"} : f32[2, 70, 80]\n"
    "  %e7 = relu %p7 : f32[2, 70, 80]\n"
    "  %e8 = concat %r, %e7 {axis = 2} : f32[2, 70, 160]\n"
    "  %p9 = einsum %x, %w, %d {spec = \"abc,dc->abd\"} : f32[2, 70, 80]\n"
    "  %e9 = silu %p9 : f32[2, 70, 80]\n"
    "  %e10 = concat %c, %e9 {axis = 2} : f32[2, 70, 83]\n"
    "  return %e2, %e3, %e4, %e5, %e6, %e8, %e10\n"
    "}\n";

/* Sums of either factor over the depth beside the product: in ranges of k and in one, of batches,
 * of odd sizes, with axes kept. */
static const char factor_sums[] =
    "func @f(%y: f32[2, 300, 34], %z: f32[2, 300, 18], %u: f32[3, 14, 5, 130], %v: f32[3, 14, 5, "
    "21],\n"
    "    %g: f32[40, 136], %h: f32[40, 132]) -> (f32[34, 18], f32[34], f32[18, 34], f32[1, 1, 18], "
    "f32[5, 130, 21],\n"
    "    f32[1, 1, 5, 130], f32[136, 132], f32[132], f32[40, 40], f32[40, 1]) {\n"
    "  %s1 = reduce_sum %y {axes = [0, 1]} : f32[34]\n"
    "  %p1 = einsum %y, %z {spec = \"bnc,bnd->cd\"} : f32[34, 18]\n"
    "  %p2 = einsum %z, %y {spec = \"bnc,bnd->cd\"} : f32[18, 34]\n"
    "  %s2 = reduce_sum %z {axes = [0, 1], keep = 1} : f32[1, 1, 18]\n"
    "  %p3 = einsum %u, %v {spec = \"bnhc,bnhd->hcd\"} : f32[5, 130, 21]\n"
    "  %s3 = reduce_sum %u {axes = [0, 1], keep = 1} : f32[1, 1, 5, 130]\n"
    "  %p4 = einsum %g, %h {spec = \"tc,td->cd\"} : f32[136, 132]\n"
    "  %s4 = reduce_sum %h {axes = [0]} : f32[132]\n"
    "  %p5 = einsum %g, %g {spec = \"tc,uc->tu\"} : f32[40, 40]\n"
    "  %s5 = reduce_sum %g {axes = [1], keep = 1} : f32[40, 1]\n"
    "  return %p1, %s1, %p2, %s2, %p3, %s3, %p4, %s4, %p5, %s5\n"
    "}\n";

/* How many kernels the plan has that hold both. */
static int kernels_with_sums(const char *text, vtb_precision precision) {
  vtb_module *m = parse(text);
  vtb_launch_plan *plan = NULL;
  vtb_error err = {0};
  int n = 0;
  m->entry = vtb_module_find(m, "f");
  CHECK(cuda_plan(m, m->entry, &(vtb_codegen_options){.precision = precision}, &plan, &err) ==
        VTB_OK);
  for (int s = 0; plan && s < plan->n_sources; s++)
    for (const char *at = plan->sources[s].text; (at = strstr(at, "SUMMED = ")); at++)
      n += at[strlen("SUMMED = ")] != '0';
  vtb_launch_plan_free(plan);
  vtb_module_free(m);
  return n;
}

TEST(products_with_sums_of_a_factor) {
  CHECK(kernels_with_sums(factor_sums, VTB_PRECISION_FP32) == 5);
  check("sums of factors", factor_sums, false, -0.5, 1, 2e-6);
}

TEST(products_with_epilogues) { check("epilogues", epilogues, true, -1, 1, 2e-6); }

TEST(products_of_every_kind) { check("products", products, false, -1, 1, 2e-6); }

/* Large plain matrices are steps of the plan for a library (which the emulator plays): both
 * transpositions, a bias, batches. */
static const char library[] =
    "func @f(%x: f32[2, 70, 96], %w: f32[80, 96], %b: f32[80], %v: f32[96, 64], %q: f32[3, 65, "
    "72],\n"
    "    %k: f32[3, 72, 66], %y: f32[2, 70, 80]) -> (f32[2, 70, 80], f32[2, 70, 64], f32[3, 65, "
    "66], f32[96, 80]) {\n"
    "  %p1 = einsum %x, %w, %b {spec = \"abc,dc->abd\"} : f32[2, 70, 80]\n"
    "  %p2 = einsum %x, %v {spec = \"abc,cd->abd\"} : f32[2, 70, 64]\n"
    "  %p3 = einsum %q, %k {spec = \"bmk,bkn->bmn\"} : f32[3, 65, 66]\n"
    "  %p4 = einsum %x, %y {spec = \"abc,abd->cd\"} : f32[96, 80]\n"
    "  return %p1, %p2, %p3, %p4\n"
    "}\n";

TEST(plain_products_can_be_a_librarys) {
  vtb_module *m = parse(library);
  vtb_func *f = m->entry = vtb_module_find(m, "f");
  vtb_error err = {0};
  vtb_launch_plan *plan = NULL;
  vtb_program *p = NULL;
  unsigned long long seed = 7;
  vtb_tensor args[8], want[4];
  for (int a = 0; a < f->n_args; a++) {
    args[a] = vtb_tensor_new(f->args[a]->type);
    for (int64_t k = 0; k < vtb_type_count(&args[a].type); k++)
      args[a].data[k] = (float)test_random(&seed);
  }
  CHECK(vtb_interpret(f, args, want, &(vtb_interp_options){.batch = 1}, &err) == VTB_OK);
  CHECK(cuda_plan(m, f, &(vtb_codegen_options){.library = true}, &plan, &err) == VTB_OK);
  CHECK(plan->n_gemms == 4 && plan->n_steps == 4 && plan->n_kernels == 0);
  vtb_status status = vtb_emulator_program(plan, NULL, &p, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  void **got = cuda_run(p, f->n_args, args);
  for (int r = 0; r < f->n_returns; r++)
    cuda_compare("library", "product", got[f->n_args + r], &want[r], 2e-6);
  for (int i = 0; i < p->n_tensors; i++) free(got[i]);
  for (int a = 0; a < f->n_args; a++) vtb_tensor_free(&args[a]);
  for (int r = 0; r < f->n_returns; r++) vtb_tensor_free(&want[r]);
  free(got);
  vtb_program_free(p);
  vtb_module_free(m);
}

/* Errors of one sign would add up along so deep a sum of positive numbers: to 1e-5 if tensor cores
 * kept it. */
TEST(deep_products_have_no_drift) {
  check("deep product",
        "func @f(%x: f32[32, 1024], %w: f32[16, 1024]) -> (f32[32, 16]) {\n"
        "  %y = einsum %x, %w {spec = \"mk,nk->mn\"} : f32[32, 16]\n"
        "  return %y\n"
        "}\n",
        false, 0.5, 1, 1e-6);
}

int main(void) {
  emulate_or_skip();
  RUN(moves_alone);
  RUN(moves_fused);
  RUN(rows_alone);
  RUN(rows_fused);
  RUN(strips_alone);
  RUN(strips_fused);
  RUN(parts_side_by_side);
  RUN(reductions_alone);
  RUN(reductions_fused);
  RUN(products_of_every_kind);
  RUN(products_with_epilogues);
  RUN(products_with_sums_of_a_factor);
  RUN(plain_products_can_be_a_librarys);
  RUN(deep_products_have_no_drift);
  return test_done();
}
