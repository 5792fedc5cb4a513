/* Products and the elementwise kernels that read them: joined, with the same numbers, or left
 * alone. */
#include "tests/passes/pass_check.h"
#include "ir/ops.h"

/* Kernels of kind "product" after fuse and grow{products}; the numbers must be those before. */
static int products(const char *text) {
  vtb_module *before = parse_ir(text), *after = vtb_module_clone(before);
  CHECK(run_passes(after, "fuse,grow{products}"));
  CHECK(compare_modules(before, after, 3) < 1e-12);
  int n = 0;
  for (const vtb_inst *i = after->entry->first; i; i = i->next)
    n += i->op == VTB_OP_fused && vtb_streq(vtb_attr_str(i, "kind", ""), "product");
  vtb_module_free(before);
  vtb_module_free(after);
  return n;
}

TEST(an_elementwise_kernel_joins_its_product) {
  CHECK(products("entry func @f(%x: f32[5, 6], %w: f32[6, 7], %b: f32[7], %r: f32[5, 7]) -> "
                 "(f32[5, 7], f32[5, 7]) {\n"
                 "  %p = einsum %x, %w, %b {spec = \"ab,bc->ac\"} : f32[5, 7]\n"
                 "  %g = gelu %p : f32[5, 7]\n"
                 "  %y = add %g, %r : f32[5, 7]\n"
                 "  return %g, %y\n}\n") == 1);
}

TEST(the_first_operand_is_read_again_by_the_epilogue) {
  CHECK(products("entry func @f(%x: f32[5, 5], %w: f32[5, 5]) -> (f32[5, 5]) {\n"
                 "  %p = einsum %x, %w {spec = \"ab,bc->ac\"} : f32[5, 5]\n"
                 "  %y = mul %p, %x : f32[5, 5]\n"
                 "  return %y\n}\n") == 1);
}

/* How many instructions are left of what others read as well, or what reads the same. */
static int instructions(const char *text) {
  vtb_module *before = parse_ir(text), *after = vtb_module_clone(before);
  CHECK(run_passes(after, "fuse,grow{products}"));
  CHECK(compare_modules(before, after, 3) < 1e-12);
  int n = 0;
  for (const vtb_inst *i = after->entry->first; i; i = i->next) n++;
  vtb_module_free(before);
  vtb_module_free(after);
  return n;
}

TEST(a_product_that_others_read_is_a_result_beside_its_epilogue) {
  CHECK(instructions("entry func @f(%x: f32[5, 6], %w: f32[6, 7]) -> (f32[5, 7], f32[5, 7]) {\n"
                     "  %p = einsum %x, %w {spec = \"ab,bc->ac\"} : f32[5, 7]\n"
                     "  %y = gelu %p : f32[5, 7]\n"
                     "  return %p, %y\n}\n") == 1);
  CHECK(instructions(/* by another product, which needs the first */
                     "entry func @f(%x: f32[5, 6], %w: f32[6, 7], %v: f32[7, 5]) -> (f32[5, 7], "
                     "f32[5, 5]) {\n"
                     "  %p = einsum %x, %w {spec = \"ab,bc->ac\"} : f32[5, 7]\n"
                     "  %q = einsum %p, %v {spec = \"ab,bc->ac\"} : f32[5, 5]\n"
                     "  %y = gelu %p : f32[5, 7]\n"
                     "  return %y, %q\n}\n") == 2);
}

TEST(an_epilogue_waits_for_what_is_made_of_the_product) {
  CHECK(instructions("entry func @f(%x: f32[5, 6], %w: f32[6, 7], %v: f32[7, 7]) -> (f32[5, 7]) {\n"
                     "  %p = einsum %x, %w {spec = \"ab,bc->ac\"} : f32[5, 7]\n"
                     "  %q = reduce_sum %p {axes = [0]} : f32[7]\n"
                     "  %g = gelu %p : f32[5, 7]\n"
                     "  %y = mul %g, %q : f32[5, 7]\n"
                     "  return %y\n}\n") == 3);
}

TEST(a_kernel_that_reads_what_an_epilogue_reads_joins_it) {
  static const char text[] =
      "entry func @f(%%d: f32[5, 6], %%w: f32[6, 7], %%p: f32[5, 7]) -> (f32[5, 7], f32[6, 7]) {\n"
      "  %%h = gelu %%p : f32[5, 7]\n"
      "  %%u = einsum %%d, %%%s {spec = \"ta,tb->ab\"} : f32[6, 7]\n"
      "  %%v = einsum %%%s, %%w {spec = \"ta,ab->tb\"} : f32[5, 7]\n"
      "  %%s = silu %%p : f32[5, 7]\n"
      "  %%y = mul %%v, %%s : f32[5, 7]\n"
      "  return %%y, %%u\n}\n";
  char own[600];
  snprintf(own, sizeof own, text, "h", "d");
  CHECK(instructions(own) == 2);
  static const char through[] = /* the product needs the kernel */
      "entry func @f(%w: f32[7, 7], %p: f32[5, 7]) -> (f32[5, 7], f32[5, 7]) {\n"
      "  %h = gelu %p : f32[5, 7]\n"
      "  %v = einsum %h, %w {spec = \"ta,ab->tb\"} : f32[5, 7]\n"
      "  %y = mul %v, %p : f32[5, 7]\n"
      "  return %y, %h\n}\n";
  CHECK(instructions(through) == 2);
}

TEST(products_that_stay_alone) {
  CHECK(
      products(/* broadcast to more */
               "entry func @f(%x: f32[5, 6], %w: f32[6, 7], %r: f32[3, 5, 7]) -> (f32[3, 5, 7]) {\n"
               "  %p = einsum %x, %w {spec = \"ab,bc->ac\"} : f32[5, 7]\n"
               "  %y = add %p, %r : f32[3, 5, 7]\n"
               "  return %y\n}\n") == 0);
  CHECK(products(/* a sum of the row */
                 "entry func @f(%x: f32[5, 6], %w: f32[6, 7]) -> (f32[5, 7]) {\n"
                 "  %p = einsum %x, %w {spec = \"ab,bc->ac\"} : f32[5, 7]\n"
                 "  %s = reduce_sum %p {axes = [1], keep = 1} : f32[5, 1]\n"
                 "  %y = div %p, %s : f32[5, 7]\n"
                 "  return %y\n}\n") == 0);
  CHECK(products(/* moved */
                 "entry func @f(%x: f32[5, 6], %w: f32[6, 7]) -> (f32[5, 7]) {\n"
                 "  %p = einsum %x, %w {spec = \"ab,bc->ac\"} : f32[5, 7]\n"
                 "  %y = shift %p {axis = 1, by = 1} : f32[5, 7]\n"
                 "  return %y\n}\n") == 0);
}

int main(void) {
  RUN(an_elementwise_kernel_joins_its_product);
  RUN(the_first_operand_is_read_again_by_the_epilogue);
  RUN(a_product_that_others_read_is_a_result_beside_its_epilogue);
  RUN(an_epilogue_waits_for_what_is_made_of_the_product);
  RUN(a_kernel_that_reads_what_an_epilogue_reads_joins_it);
  RUN(products_that_stay_alone);
  return test_done();
}
