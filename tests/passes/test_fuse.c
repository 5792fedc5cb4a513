/* Fusion and memory planning: kernel counts, kinds, unchanged meaning, views, disjoint live
 * ranges. */
#include "ir/interp.h"
#include "ir/ops.h"
#include "ir/kernels.h"
#include "passes/passes.h"
#include "tests/test.h"

static vtb_module *parse(const char *text) {
  static vtb_source source;
  source = (vtb_source){.path = "<test>", .text = text, .n = strlen(text)};
  vtb_diags diags = {0};
  vtb_module *m = vtb_module_parse(&source, &diags);
  vtb_diags_print(&diags, stderr);
  CHECK(m && !diags.n_errors);
  vtb_diags_free(&diags);
  if (!m) exit(1);
  return m;
}

static const vtb_target *target; /* of run(); NULL: none */

static void run(vtb_module *m, const char *pipeline) {
  vtb_diags diags = {0};
  vtb_error err = {0};
  vtb_pass_context c = {.module = m, .diags = &diags, .batch = 2, .target = target};
  vtb_pipeline_options o = {.pipeline = pipeline, .verify_each = true};
  CHECK_MSG(vtb_run_pipeline(&c, &o, &err) == VTB_OK, "%s", err.text);
}

static int count_kind(const vtb_func *f, const char *kind) {
  int n = 0;
  for (const vtb_inst *i = f->first; i; i = i->next)
    n += i->op == VTB_OP_fused && strcmp(vtb_attr_str(i, "kind", ""), kind) == 0;
  return n;
}

static int count_op(const vtb_func *f, vtb_op op) {
  int n = 0;
  for (const vtb_inst *i = f->first; i; i = i->next) n += i->op == op;
  return n;
}

static void evaluate(vtb_func *f, vtb_tensor *out) {
  vtb_tensor in[8];
  unsigned long long seed = 12345;
  for (int a = 0; a < f->n_args; a++) {
    in[a] = vtb_tensor_new(f->args[a]->type);
    for (int64_t k = 0; k < vtb_type_count(&in[a].type); k++) in[a].data[k] = test_random(&seed);
  }
  vtb_error err = {0};
  CHECK_MSG(vtb_interpret(f, in, out, &(vtb_interp_options){0}, &err) == VTB_OK, "%s", err.text);
  for (int a = 0; a < f->n_args; a++) vtb_tensor_free(&in[a]);
}

/* Fuses and compares the values of all returns before and after. */
static vtb_module *fuse_and_compare(const char *text) {
  vtb_module *m = parse(text);
  vtb_tensor before[8], after[8];
  int n = m->entry->n_returns;
  evaluate(m->entry, before);
  run(m, "fuse");
  evaluate(m->entry, after);
  for (int r = 0; r < n; r++) {
    for (int64_t k = 0; k < vtb_type_count(&before[r].type); k++)
      CHECK_NEAR(after[r].data[k], before[r].data[k], 1e-12);
    vtb_tensor_free(&before[r]);
    vtb_tensor_free(&after[r]);
  }
  return m;
}

TEST(equal_kernels_are_one_whatever_their_values_are_called) {
  vtb_module *m = parse("entry func @main(%x: f32[2, 5], %w: f32[5, 5]) -> (f32[2, 5]) {\n"
                        "  %half = exp %x : f32[2, 5]\n"
                        "  %hidden = square %half : f32[2, 5]\n"
                        "  %p = einsum %hidden, %w {spec = \"bn,nm->bm\"} : f32[2, 5]\n"
                        "  %other = exp %p : f32[2, 5]\n"
                        "  %gate = square %other : f32[2, 5]\n"
                        "  return %gate\n}\n");
  run(m, "fuse");
  vtb_strbuf text = {0};
  vtb_module_print(m, NULL, &text);
  CHECK_STR(strstr(text.at, "entry"),
            "entry func @main(%x: f32[2, 5], %w: f32[5, 5]) -> (f32[2, 5]) {\n"
            "  %hidden = fused @hidden(%x) {kind = \"loop\"} : f32[2, 5]\n"
            "  %p = einsum %hidden, %w {spec = \"bn,nm->bm\"} : f32[2, 5]\n"
            "  %gate = fused @hidden(%p) {kind = \"loop\"} : f32[2, 5]\n"
            "  return %gate\n}\n\n"
            "kernel @hidden(%x: f32[2, 5]) -> (f32[2, 5]) {\n"
            "  %half = exp %x : f32[2, 5]\n"
            "  %hidden = square %half : f32[2, 5]\n"
            "  return %hidden\n}\n");
  vtb_strbuf_free(&text);
  vtb_module_free(m);
}

TEST(layernorm_is_one_row_kernel) {
  vtb_module *m =
      fuse_and_compare("entry func @main(%x: f32[2, 5, 8], %w: f32[8]) -> (f32[2, 5, 8]) {\n"
                       "  %c8 = constant {value = 0.125} : f32[]\n"
                       "  %one = constant {value = 1.0} : f32[]\n"
                       "  %s = reduce_sum %x {axes = [2], keep = 1} : f32[2, 5, 1]\n"
                       "  %mu = mul %s, %c8 : f32[2, 5, 1]\n"
                       "  %c = sub %x, %mu : f32[2, 5, 8]\n"
                       "  %q = square %c : f32[2, 5, 8]\n"
                       "  %v = reduce_sum %q {axes = [2], keep = 1} : f32[2, 5, 1]\n"
                       "  %r = rsqrt %v : f32[2, 5, 1]\n"
                       "  %n = mul %c, %r : f32[2, 5, 8]\n"
                       "  %w1 = add %w, %one : f32[8]\n"
                       "  %y = mul %n, %w1 : f32[2, 5, 8]\n"
                       "  return %y\n}\n");
  CHECK(count_kind(m->entry, "row") == 1);
  CHECK(count_op(m->entry, VTB_OP_fused) == 1);
  CHECK(m->entry->first == m->entry->last);
  vtb_module_free(m);
}

/* What keeps the loop from the statistic is gone once both are parts of larger kernels. */
TEST(a_norm_whose_statistic_is_kept_is_one_kernel_where_memory_is_the_limit) {
  const char *norm = "entry func @main(%x: f32[2, 5, 8], %w: f32[8]) -> (f32[2, 5, 8], "
                     "f32[2, 5, 1]) {\n"
                     "  %s = reduce_sum %x {axes = [2], keep = 1} : f32[2, 5, 1]\n"
                     "  %c = sub %x, %s : f32[2, 5, 8]\n"
                     "  %q = square %c : f32[2, 5, 8]\n"
                     "  %v = reduce_sum %q {axes = [2], keep = 1} : f32[2, 5, 1]\n"
                     "  %r = rsqrt %v : f32[2, 5, 1]\n"
                     "  %n = mul %c, %r : f32[2, 5, 8]\n"
                     "  %y = mul %n, %w : f32[2, 5, 8]\n"
                     "  return %y, %r\n}\n";
  vtb_module *m = fuse_and_compare(norm);
  CHECK(count_op(m->entry, VTB_OP_fused) == 2);
  vtb_module_free(m);
  target = vtb_target_find("cuda");
  m = fuse_and_compare(norm);
  target = NULL;
  CHECK(count_op(m->entry, VTB_OP_fused) == 1 && count_kind(m->entry, "row") == 1);
  vtb_module_free(m);
}

TEST(a_product_between_keeps_two_kernels_apart) {
  vtb_module *m =
      fuse_and_compare("entry func @main(%x: f32[4, 8], %w: f32[8, 8]) -> (f32[4, 8]) {\n"
                       "  %a = exp %x : f32[4, 8]\n"
                       "  %b = einsum %a, %w {spec = \"nc,dc->nd\"} : f32[4, 8]\n"
                       "  %c = add %a, %b : f32[4, 8]\n"
                       "  %d = neg %c : f32[4, 8]\n"
                       "  return %d\n}\n");
  CHECK(count_kind(m->entry, "loop") == 2);
  CHECK(count_op(m->entry, VTB_OP_einsum) == 1);
  vtb_module_free(m);
}

TEST(column_sums_take_their_private_producer_and_share) {
  vtb_module *m = fuse_and_compare(
      "entry func @main(%dy: f32[2, 6, 8], %x: f32[2, 6, 8]) -> (f32[8], f32[8]) {\n"
      "  %p = mul %dy, %x : f32[2, 6, 8]\n"
      "  %dw = reduce_sum %p {axes = [0, 1]} : f32[8]\n"
      "  %db = reduce_sum %dy {axes = [0, 1]} : f32[8]\n"
      "  return %dw, %db\n}\n");
  CHECK(count_kind(m->entry, "col") == 1);
  CHECK(count_op(m->entry, VTB_OP_fused) == 1);
  vtb_module_free(m);
}

/* A norm's backward: what its gain's and bias's gradients read is in the kernel, and %y, which only
 * they read, is not stored. */
TEST(column_sums_go_with_the_rows_they_read_where_memory_is_the_limit) {
  target = vtb_target_find("cuda");
  vtb_module *m = fuse_and_compare(
      "entry func @main(%dy: f32[2, 61, 8], %x: f32[2, 61, 8], %r: f32[2, 61, 1]) -> (f32[2, 61, "
      "8], f32[8], f32[1, 8]) {\n"
      "  %y = mul %x, %r : f32[2, 61, 8]\n"
      "  %p = mul %dy, %y : f32[2, 61, 8]\n"
      "  %dw = reduce_sum %p {axes = [0, 1]} : f32[8]\n"
      "  %q = reduce_sum %dy {axes = [0], keep = 1} : f32[1, 61, 8]\n"
      "  %b = reshape %dy {shape = [122, 8]} : f32[122, 8]\n"
      "  %db = reduce_sum %b {axes = [0], keep = 1} : f32[1, 8]\n"
      "  %s = reduce_sum %p {axes = [2], keep = 1} : f32[2, 61, 1]\n"
      "  %dx = mul %x, %s : f32[2, 61, 8]\n"
      "  return %dx, %dw, %db\n}\n");
  target = NULL;
  CHECK(count_kind(m->entry, "strips") == 1 && count_kind(m->entry, "row") == 0);
  const vtb_inst *strips = NULL;
  for (const vtb_inst *i = m->entry->first; i; i = i->next)
    if (i->op == VTB_OP_fused && vtb_streq(vtb_attr_str(i, "kind", ""), "strips")) strips = i;
  CHECK(strips && strips->n_results == 2); /* %dx and the parts of %dw: no %y, no %p */
  vtb_module_free(m);
}

/* Two strips of rows a multiprocessor, in whole warps of parts. */
static int64_t parts_on(double processors) {
  vtb_module *m = parse("entry func @main(%d: f32[2, 4096, 8], %x: f32[2, 4096, 8]) -> "
                        "(f32[2, 4096, 8], f32[8]) {\n"
                        "  %y = mul %d, %x : f32[2, 4096, 8]\n"
                        "  %s = reduce_sum %d {axes = [0, 1]} : f32[8]\n"
                        "  return %y, %s\n}\n");
  int64_t parts = 0;
  vtb_pass_context c = {.module = m, .batch = 2, .target = vtb_target_find("cuda")};
  c.gpu = *vtb_gpu_default();
  c.gpu.processors = processors;
  vtb_error err = {0};
  CHECK(vtb_run_pipeline(&c, &(vtb_pipeline_options){.pipeline = "fuse"}, &err) == VTB_OK);
  for (const vtb_inst *i = m->entry->first; i; i = i->next)
    if (vtb_kernel_kind_of(i) == VTB_KERNEL_STRIPS) parts = i->results[1]->type.dim[0].size;
  vtb_module_free(m);
  return parts;
}

TEST(strips_follow_the_machine) {
  CHECK(parts_on(132) == 256);
  CHECK(parts_on(16) == 32);
  CHECK(parts_on(9) == 32);
}

/* All read %d; what alone reads a product is left for its kernel. */
TEST(neighbours_are_one_kernel_where_memory_is_the_limit) {
  target = vtb_target_find("cuda");
  vtb_module *m = fuse_and_compare(
      "entry func @main(%d: f32[2, 6, 8], %k: f32[2, 6, 8], %g: f32[2, 6, 1], %w: f32[8, 8]) -> "
      "(f32[2, 6, 8], f32[2, 6, 1], f32[2, 6, 8]) {\n"
      "  %a = mul %d, %g : f32[2, 6, 8]\n"
      "  %p = mul %d, %k : f32[2, 6, 8]\n"
      "  %s = reduce_sum %p {axes = [2], keep = 1} : f32[2, 6, 1]\n"
      "  %q = einsum %k, %w {spec = \"abc,dc->abd\"} : f32[2, 6, 8]\n"
      "  %e = mul %q, %d : f32[2, 6, 8]\n"
      "  return %a, %s, %e\n}\n");
  target = NULL;
  CHECK(count_kind(m->entry, "row") == 1 && count_kind(m->entry, "loop") == 1);
  vtb_module_free(m);
}

/* They read nothing in common, but are put side by side: adjoints of two gates. */
TEST(small_parts_of_one_value_are_one_kernel_where_launches_count) {
  target = vtb_target_find("cuda");
  vtb_module *m = fuse_and_compare(
      "entry func @main(%x: f32[2, 7, 4], %y: f32[2, 7, 4]) -> (f32[2, 7, 8], f32[4], f32[4]) {\n"
      "  %a = sin %x : f32[2, 7, 4]\n"
      "  %b = exp %y : f32[2, 7, 4]\n"
      "  %s = reduce_sum %a {axes = [0, 1]} : f32[4]\n"
      "  %t = reduce_sum %b {axes = [0, 1]} : f32[4]\n"
      "  %c = concat %a, %b {axis = 2} : f32[2, 7, 8]\n"
      "  return %c, %s, %t\n}\n");
  target = NULL;
  CHECK(count_kind(m->entry, "strips") == 1 && count_kind(m->entry, "loop") == 1);
  vtb_module_free(m);
}

/* Samples that blocks drop: a launch each would be for next to nothing. */
TEST(small_loops_that_read_one_number_are_one_kernel_where_launches_count) {
  target = vtb_target_find("cuda");
  vtb_module *m = fuse_and_compare("entry func @main(%s: f32[], %x: f32[9000]) -> (f32[5], f32[5], "
                                   "f32[9000], f32[9000]) {\n"
                                   "  %c = constant {data = [1, 2, 3, 4, 5]} : f32[5]\n"
                                   "  %d = constant {data = [5, 4, 3, 2, 1]} : f32[5]\n"
                                   "  %a = mul %c, %s : f32[5]\n"
                                   "  %b = mul %d, %s : f32[5]\n"
                                   "  %y = mul %x, %s : f32[9000]\n"
                                   "  %f = iota {axis = 0} : f32[9000]\n"
                                   "  %z = mul %f, %s : f32[9000]\n"
                                   "  return %a, %b, %y, %z\n}\n");
  target = NULL;
  CHECK(count_kind(m->entry, "loop") == 3);
  vtb_module_free(m);
}

/* Rows that read the sum of their columns wait for all of it. */
TEST(column_sums_are_not_beside_rows_that_read_them) {
  target = vtb_target_find("cuda");
  vtb_module *m = fuse_and_compare("entry func @main(%x: f32[2, 6, 8]) -> (f32[2, 6, 8]) {\n"
                                   "  %s = reduce_sum %x {axes = [0, 1]} : f32[8]\n"
                                   "  %y = sub %x, %s : f32[2, 6, 8]\n"
                                   "  return %y\n}\n");
  target = NULL;
  CHECK(count_kind(m->entry, "col") == 1 && count_kind(m->entry, "loop") == 1);
  vtb_module_free(m);
}

/* A kernel has at most 128 ops, totals of parts among them. */
TEST(totals_of_many_sums_are_several_kernels) {
  enum { SUMS = 200 };
  vtb_strbuf types = {0}, body = {0}, returns = {0}, text = {0};
  for (int i = 0; i < SUMS; i++) {
    vtb_strbuf_printf(&types, "%sf32[4]", i ? ", " : "");
    vtb_strbuf_printf(&body,
                      "  %%p%d = einsum %%%s%d, %%m {spec = \"abc,cd->abd\"} : f32[2, 70, 4]\n"
                      "  %%r%d = reduce_sum %%p%d {axes = [2], keep = 1} : f32[2, 70, 1]\n"
                      "  %%z%d = mul %%p%d, %%r%d : f32[2, 70, 4]\n"
                      "  %%s%d = reduce_sum %%z%d {axes = [0, 1]} : f32[4]\n",
                      i, i ? "z" : "x", i ? i - 1 : 0, i, i, i, i, i, i, i);
    vtb_strbuf_printf(&returns, "%s%%s%d", i ? ", " : "", i);
  }
  vtb_strbuf_printf(&text,
                    "entry func @main(%%x0: f32[2, 70, 4], %%m: f32[4, 4]) -> (%s) {\n%s"
                    "  return %s\n}\n",
                    types.at, body.at, returns.at);
  target = vtb_target_find("cuda");
  vtb_module *m = parse(text.at);
  run(m, "fuse");
  target = NULL;
  CHECK_MSG(count_kind(m->entry, "strips") == SUMS && count_kind(m->entry, "col") == 2, "%d and %d",
            count_kind(m->entry, "strips"), count_kind(m->entry, "col"));
  vtb_module_free(m);
  vtb_strbuf_free(&types), vtb_strbuf_free(&body), vtb_strbuf_free(&returns);
  vtb_strbuf_free(&text);
}

/* A loop that will be a product's epilogue has no rows. */
TEST(column_sums_leave_epilogues_alone) {
  target = vtb_target_find("cuda");
  vtb_module *m = fuse_and_compare(
      "entry func @main(%x: f32[2, 6, 8], %w: f32[8, 8]) -> (f32[2, 6, 8], f32[8]) {\n"
      "  %p = einsum %x, %w {spec = \"abc,dc->abd\"} : f32[2, 6, 8]\n"
      "  %y = exp %p : f32[2, 6, 8]\n"
      "  %s = reduce_sum %y {axes = [0, 1]} : f32[8]\n"
      "  return %y, %s\n}\n");
  target = NULL;
  CHECK(count_kind(m->entry, "loop") == 1 && count_kind(m->entry, "col") == 1);
  vtb_module_free(m);
}

TEST(a_stored_producer_is_not_taken_into_a_column_sum) {
  vtb_module *m =
      fuse_and_compare("entry func @main(%dy: f32[2, 6, 8]) -> (f32[8], f32[2, 6, 8]) {\n"
                       "  %p = exp %dy : f32[2, 6, 8]\n"
                       "  %s = reduce_sum %p {axes = [0, 1]} : f32[8]\n"
                       "  return %s, %p\n}\n");
  CHECK(count_kind(m->entry, "col") == 1 && count_kind(m->entry, "loop") == 1);
  vtb_module_free(m);
}

/* Sums along rows of one shape do not share a kernel with those of another. */
TEST(rows_of_other_shapes_are_other_kernels) {
  vtb_module *m = fuse_and_compare(
      "entry func @main(%x: f32[1, 4, 8], %z: f32[3, 4, 8]) -> (f32[3, 4, 8], f32[1, 4, 1]) {\n"
      "  %s = reduce_sum %x {axes = [2], keep = 1} : f32[1, 4, 1]\n"
      "  %e = exp %s : f32[1, 4, 1]\n"
      "  %y = mul %z, %e : f32[3, 4, 8]\n"
      "  return %y, %e\n}\n");
  CHECK(count_kind(m->entry, "row") == 1 && count_kind(m->entry, "loop") == 1);
  vtb_module_free(m);
}

/* A column that is stored is one for its own rows, not for those of all samples. */
TEST(a_stored_column_of_fewer_rows_stays_out) {
  vtb_module *m = fuse_and_compare(
      "entry func @main(%c: f32[1, 4, 1], %z: f32[3, 4, 8]) -> (f32[3, 4, 1], f32[1, 4, 1]) {\n"
      "  %e = exp %c : f32[1, 4, 1]\n"
      "  %p = mul %z, %e : f32[3, 4, 8]\n"
      "  %s = reduce_sum %p {axes = [2], keep = 1} : f32[3, 4, 1]\n"
      "  return %s, %e\n}\n");
  CHECK(count_kind(m->entry, "row") == 1 && count_kind(m->entry, "loop") == 1);
  vtb_module_free(m);
}

/* Two sums of one shape that read the same, but of which one waits for the other by way of a
 * product. */
TEST(column_sums_that_wait_for_each_other_stay_apart) {
  vtb_module *m =
      fuse_and_compare("entry func @main(%x: f32[6, 8], %w: f32[8, 8]) -> (f32[8], f32[8]) {\n"
                       "  %a = reduce_sum %x {axes = [0]} : f32[8]\n"
                       "  %p = einsum %a, %w {spec = \"c,dc->d\"} : f32[8]\n"
                       "  %q = mul %x, %p : f32[6, 8]\n"
                       "  %b = reduce_sum %q {axes = [0]} : f32[8]\n"
                       "  return %a, %b\n}\n");
  CHECK(count_kind(m->entry, "col") == 2);
  vtb_module_free(m);
}

TEST(equal_kernels_are_one_function) {
  vtb_module *m =
      fuse_and_compare("entry func @main(%x: f32[4, 8], %w: f32[8, 8]) -> (f32[4, 8]) {\n"
                       "  %a = silu %x : f32[4, 8]\n"
                       "  %b = einsum %a, %w {spec = \"nc,dc->nd\"} : f32[4, 8]\n"
                       "  %c = silu %b : f32[4, 8]\n"
                       "  return %c\n}\n");
  int kernels = 0;
  for (vtb_func *f = m->first; f; f = f->next) kernels += f->kind == VTB_FUNC_KERNEL;
  CHECK(kernels == 1);
  CHECK(count_kind(m->entry, "loop") == 2);
  vtb_module_free(m);
}

int main(void) {
  RUN(equal_kernels_are_one_whatever_their_values_are_called);
  RUN(layernorm_is_one_row_kernel);
  RUN(a_norm_whose_statistic_is_kept_is_one_kernel_where_memory_is_the_limit);
  RUN(a_product_between_keeps_two_kernels_apart);
  RUN(column_sums_take_their_private_producer_and_share);
  RUN(column_sums_go_with_the_rows_they_read_where_memory_is_the_limit);
  RUN(strips_follow_the_machine);
  RUN(column_sums_are_not_beside_rows_that_read_them);
  RUN(totals_of_many_sums_are_several_kernels);
  RUN(neighbours_are_one_kernel_where_memory_is_the_limit);
  RUN(small_parts_of_one_value_are_one_kernel_where_launches_count);
  RUN(small_loops_that_read_one_number_are_one_kernel_where_launches_count);
  RUN(column_sums_leave_epilogues_alone);
  RUN(a_stored_producer_is_not_taken_into_a_column_sum);
  RUN(rows_of_other_shapes_are_other_kernels);
  RUN(a_stored_column_of_fewer_rows_stays_out);
  RUN(column_sums_that_wait_for_each_other_stay_apart);
  RUN(equal_kernels_are_one_function);
  return test_done();
}
