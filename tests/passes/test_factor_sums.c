/* Sums of a product's factor over its depth: results of the product, with the same numbers, or left
 * alone. */
#include "tests/passes/pass_check.h"
#include "ir/ops.h"

/* Results of the products after the pass; the numbers must be those from before. */
static int results(const char *text, const char *passes) {
  vtb_module *before = parse_ir(text), *after = vtb_module_clone(before);
  CHECK(run_passes(after, passes));
  CHECK(compare_modules(before, after, 3) < 1e-12);
  int n = 0;
  for (const vtb_inst *i = after->entry->first; i; i = i->next)
    if (i->op == VTB_OP_fused && vtb_streq(vtb_attr_str(i, "kind", ""), "product"))
      n += i->n_results;
  vtb_module_free(before);
  vtb_module_free(after);
  return n;
}

#define MODULE(spec, shape, sum, sum_shape, more)                                                  \
  "entry func @f(%x: f32[2, 9, 20], %y: f32[2, 9, 17]) -> (" shape ", " sum_shape ") {\n"          \
  "  %s = reduce_sum " sum " : " sum_shape "\n" more "  %p = einsum %x, %y {spec = \"" spec        \
  "\"} : " shape "\n"                                                                              \
  "  return %p, %s\n}\n"

TEST(sums_of_either_factor) {
  CHECK(results(MODULE("btc,btd->cd", "f32[20, 17]", "%x {axes = [0, 1]}", "f32[20]", ""),
                "fuse,grow{factor_sums}") == 2);
  CHECK(results(MODULE("btc,btd->cd", "f32[20, 17]", "%y {axes = [0, 1], keep = 1}",
                       "f32[1, 1, 17]", ""),
                "fuse,grow{factor_sums}") == 2);
  CHECK(results(MODULE("btc,btd->bcd", "f32[2, 20, 17]", "%x {axes = [1]}", "f32[2, 20]", ""),
                "grow{factor_sums}") == 2);
}

TEST(sums_that_stay_alone) {
  CHECK(results(/* over less than the depth */
                MODULE("btc,btd->cd", "f32[20, 17]", "%x {axes = [0]}", "f32[9, 20]", ""),
                "fuse,grow{factor_sums}") == 0);
  CHECK(results(/* over more */
                MODULE("btc,btd->bcd", "f32[2, 20, 17]", "%x {axes = [0, 1]}", "f32[20]", ""),
                "fuse,grow{factor_sums}") == 0);
  CHECK(results(/* maxima */
                "entry func @f(%x: f32[9, 20], %y: f32[9, 17]) -> (f32[20, 17], f32[20]) {\n"
                "  %p = einsum %x, %y {spec = \"tc,td->cd\"} : f32[20, 17]\n"
                "  %s = reduce_max %x {axes = [0]} : f32[20]\n"
                "  return %p, %s\n}\n",
                "fuse,grow{factor_sums}") == 0);
  CHECK(results(/* the library's */
                "entry func @f(%x: f32[9, 20], %y: f32[9, 17]) -> (f32[20, 17], f32[20]) {\n"
                "  %p = einsum %x, %y {spec = \"tc,td->cd\", library = 1} : f32[20, 17]\n"
                "  %s = reduce_sum %x {axes = [0]} : f32[20]\n"
                "  return %p, %s\n}\n",
                "fuse,grow{factor_sums}") == 0);
  CHECK(results(/* needed before the product */
                "entry func @f(%x: f32[9, 20], %y: f32[9, 20]) -> (f32[20, 20]) {\n"
                "  %s = reduce_sum %x {axes = [0]} : f32[20]\n"
                "  %z = mul %y, %s : f32[9, 20]\n"
                "  %p = einsum %x, %z {spec = \"tc,td->cd\"} : f32[20, 20]\n"
                "  return %p\n}\n",
                "fuse,grow{factor_sums}") == 0);
}

int main(void) {
  RUN(sums_of_either_factor);
  RUN(sums_that_stay_alone);
  return test_done();
}
