/* Numbers that multiply a scan's keys move into the kernel of its adjoints, with the same numbers,
 * or stay. */
#include "tests/passes/pass_check.h"
#include "ir/ops.h"

#include "ir/kernels.h"
#include "passes/target.h"

#define ROW "f32[2, 5, 3, 4]"
#define VALUES "f32[2, 5, 3, 6]"
#define ONE "f32[2, 5, 3, 1]"
#define HEAD "f32[2, 5, 3]"
#define ARGS                                                                                       \
  "%q: " ROW ", %k: " ROW ", %g: " ONE ", %v: " VALUES ", %d: " HEAD ", %dy: " VALUES ", %s: " ROW
#define GRAD(more)                                                                                 \
  "  %kg = mul %k, %g : " ROW "\n"                                                                 \
  "  %dq, %dkg, %dv, %dd = linscan_grad %q, %kg, %v, %d, %dy {class = \"scalar\", precision = "    \
  "\"bf16\"" more "} : " ROW ", " ROW ", " VALUES ", " HEAD "\n"
#define PARALLEL ", mode = \"parallel\""
#define BEHIND(keys)                                                                               \
  "  %dk = mul %dkg, %g : " ROW "\n  %e = mul %dkg, " keys " : " ROW "\n"                          \
  "  %dg = reduce_sum %e {axes = [3], keep = 1} : " ONE "\n"
#define FUNC(body, more)                                                                           \
  "entry func @f(" ARGS ") -> (" ROW ", " ROW ", " VALUES ", " HEAD ", " ONE more ") {\n" body     \
  "  return %dq, %dk, %dv, %dd, %dg"

static int kernels(const char *text) {
  vtb_module *before = parse_ir(text);
  if (!before) return -1;
  vtb_module *after = vtb_module_clone(before);
  vtb_pass_context c = {.module = after, .batch = 2, .target = vtb_target_find("cuda")};
  CHECK(run_passes_in(&c, "fuse,grow{mixer_adjoints},dce"));
  forget_precision(before);
  forget_precision(after);
  CHECK(compare_modules(before, after, 3) < 1e-12);
  int n = 0;
  for (const vtb_inst *i = after->entry->first; i; i = i->next) {
    bool one = vtb_kernel_kind_of(i) == VTB_KERNEL_MIXER_GRAD;
    n += one ? 100 : i->op == VTB_OP_fused || i->op == VTB_OP_linscan_grad;
  }
  vtb_module_free(before);
  vtb_module_free(after);
  return n;
}

TEST(products_of_keys_and_their_adjoints) {
  CHECK(kernels(FUNC(GRAD(PARALLEL) BEHIND("%k"), "") "\n}\n") == 100);
  CHECK(kernels(FUNC(GRAD(PARALLEL ", path = \"rows~@1x5\"") BEHIND("%k"), "") "\n}\n") == 100);
}

/* Chunks have states, which are made of the products; others read them, too; a sum with something
 * else is not the gain's adjoint. */
TEST(what_needs_the_products_stays) {
  CHECK(kernels(FUNC(GRAD(", mode = \"chunkwise\", chunk = 2") BEHIND("%k"), "") "\n}\n") == 3);
  CHECK(kernels(FUNC(GRAD(PARALLEL) BEHIND("%k"), ", " ROW) ", %kg\n}\n") == 3);
  CHECK(kernels(FUNC(GRAD(PARALLEL) BEHIND("%s"), "") "\n}\n") == 3);
  CHECK(kernels(FUNC(GRAD(PARALLEL) BEHIND("%g"), "") "\n}\n") == 3);
}

int main(void) {
  RUN(products_of_keys_and_their_adjoints);
  RUN(what_needs_the_products_stays);
  return test_done();
}
