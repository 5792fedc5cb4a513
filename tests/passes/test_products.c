/* Passes around products and scans: siblings, accumulate, unscale, split_rows. Each: the same
 * meaning, fewer passes over memory, and left alone where it would not fit. */
#include "ir/kernels.h"
#include "ir/ops.h"
#include "tests/passes/pass_check.h"

/* Runs the pipeline on the text and compares with the text; the caller frees the module. */
static vtb_module *changed(const char *pipeline, const char *text) {
  vtb_module *before = parse_ir(text), *after = parse_ir(text);
  if (before && after && run_passes(after, pipeline)) {
    double error = compare_modules(before, after, 7);
    CHECK_MSG(error < 1e-12, "%s: results differ by %g", pipeline, error);
  }
  if (before) vtb_module_free(before);
  return after;
}

static const vtb_inst *first_op(const vtb_module *m, vtb_op op) {
  for (const vtb_inst *i = m->entry->first; i; i = i->next)
    if (i->op == op) return i;
  return NULL;
}

/* ---- siblings -------------------------------------------------------------------------------- */

TEST(narrow_products_of_one_operand_join) {
  vtb_module *m =
      changed("join_products",
              "entry func @f(%x: f32[2, 5, 12], %u: f32[3, 12], %v: f32[4, 12]) -> (f32[2, 5, 3], "
              "f32[2, 5, 4], f32[2, 5, 3]) {\n"
              "  %a = einsum %x, %u {spec = \"bnd,hd->bnh\"} : f32[2, 5, 3]\n"
              "  %b = einsum %x, %v {spec = \"bnd,hd->bnh\"} : f32[2, 5, 4]\n"
              "  %c = neg %a : f32[2, 5, 3]\n"
              "  return %a, %b, %c\n}\n");
  CHECK(count_ops(m, VTB_OP_einsum) == 1);
  CHECK(count_ops(m, VTB_OP_concat) == 1 && count_ops(m, VTB_OP_slice) == 2);
  vtb_module_free(m);
}

TEST(three_groups_of_siblings) {
  vtb_module *m = changed(
      "join_products",
      "entry func @f(%x: f32[5, 6], %y: f32[5, 6], %u: f32[6, 2], %v: f32[6, 2], %w: f32[6, "
      "8]) -> (f32[5, 2], f32[5, 2], f32[5, 2], f32[5, 2], f32[5, 8], f32[5, 8]) {\n"
      "  %a = einsum %x, %u {spec = \"nd,dh->nh\"} : f32[5, 2]\n"
      "  %b = einsum %x, %v {spec = \"nd,dh->nh\"} : f32[5, 2]\n"
      "  %c = einsum %y, %u {spec = \"nd,dh->nh\"} : f32[5, 2]\n"
      "  %d = einsum %y, %v {spec = \"nd,dh->nh\"} : f32[5, 2]\n"
      "  %e = einsum %y, %w {spec = \"nd,dh->nh\"} : f32[5, 8]\n"
      "  %g = einsum %x, %w {spec = \"nd,dh->nh\"} : f32[5, 8]\n"
      "  return %a, %b, %c, %d, %e, %g\n}\n");
  CHECK(count_ops(m, VTB_OP_einsum) == 2);
  vtb_module_free(m);
}

TEST(siblings_that_stay_apart) {
  CHECK_KEPT(
      "join_products", /* wide */
      "entry func @f(%x: f32[5, 6], %u: f32[17, 6], %v: f32[17, 6]) -> (f32[5, 17], f32[5, 17]) {\n"
      "  %a = einsum %x, %u {spec = \"nd,hd->nh\"} : f32[5, 17]\n"
      "  %b = einsum %x, %v {spec = \"nd,hd->nh\"} : f32[5, 17]\n  return %a, %b\n}\n");
  CHECK_KEPT("join_products", /* a batch letter */
             "entry func @f(%x: f32[5, 6, 4], %u: f32[6, 4, 4], %v: f32[6, 4, 4]) -> (f32[5, 6, "
             "4], f32[5, 6, 4]) {\n"
             "  %a = einsum %x, %u {spec = \"ngi,goi->ngo\"} : f32[5, 6, 4]\n"
             "  %b = einsum %x, %v {spec = \"ngi,goi->ngo\"} : f32[5, 6, 4]\n  return %a, %b\n}\n");
  CHECK_KEPT("join_products", /* the second weight is computed from the first product */
             "entry func @f(%x: f32[5, 5], %u: f32[5, 5]) -> (f32[5, 5]) {\n"
             "  %a = einsum %x, %u {spec = \"nd,hd->nh\"} : f32[5, 5]\n"
             "  %b = einsum %x, %a {spec = \"nd,hd->nh\"} : f32[5, 5]\n  return %b\n}\n");
}

/* ---- join_blocks ----------------------------------------------------------------------------- */

/* Queries and keys of one operand, their biases views that are made between them; not values, of
 * another. What callers get is not cut out of something larger. */
#define WIDE "f32[2, 3, 2, 64]"
#define MATRICES "f32[2, 64, 64]"
#define MAPS(of_values, returned)                                                                  \
  "entry func @f(%x: " WIDE ", %z: " WIDE ", %u: " MATRICES ", %v: " MATRICES ", %w: " MATRICES    \
  ", %b: f32[128], %c: f32[128]) -> (" WIDE ", " WIDE ", " WIDE ") {\n"                            \
  "  %bb = reshape %b {shape = [2, 64]} : f32[2, 64]\n"                                            \
  "  %q = einsum %x, %u, %bb {spec = \"bngi,goi->bngo\"} : " WIDE "\n"                             \
  "  %cc = reshape %c {shape = [2, 64]} : f32[2, 64]\n"                                            \
  "  %k = einsum %x, %v, %cc {spec = \"bngi,goi->bngo\"} : " WIDE "\n"                             \
  "  %l = einsum %" of_values ", %w, %cc {spec = \"bngi,goi->bngo\"} : " WIDE "\n"                 \
  "  %e = exp %q : " WIDE "\n  %g = neg %k : " WIDE "\n  %h = abs %l : " WIDE "\n"                 \
  "  return " returned "\n}\n"
TEST(products_with_matrices_of_groups_join) {
  vtb_module *m = changed("join_blocks", MAPS("z", "%e, %g, %h"));
  CHECK(count_ops(m, VTB_OP_einsum) == 2 && count_ops(m, VTB_OP_slice) == 2);
  vtb_module_free(m);
  m = changed("join_blocks", MAPS("x", "%e, %g, %h"));
  CHECK(count_ops(m, VTB_OP_einsum) == 1 && count_ops(m, VTB_OP_slice) == 3);
  vtb_module_free(m);
}

TEST(matrices_of_groups_that_stay_apart) {
  CHECK_KEPT("join_blocks", MAPS("z", "%q, %g, %h"));
  CHECK_KEPT("join_blocks", /* multiplied where rows are read */
             "entry func @f(%x: f32[5, 6, 4], %u: f32[6, 4, 4], %v: f32[6, 4, 4]) -> (f32[5, 6, "
             "4], f32[5, 6, 4]) {\n"
             "  %a = einsum %x, %u {spec = \"ngi,goi->ngo\"} : f32[5, 6, 4]\n"
             "  %b = einsum %x, %v {spec = \"ngi,goi->ngo\"} : f32[5, 6, 4]\n"
             "  %c = exp %a : f32[5, 6, 4]\n  %d = exp %b : f32[5, 6, 4]\n  return %c, %d\n}\n");
}

/* ---- distribute ------------------------------------------------------------------------------ */

/* Pieces of three sizes, each with its own part of the weight, whichever side the weight is on and
 * wherever its summed axis stands. */
#define PIECES(weight, e)                                                                          \
  "entry func @f(%a: f32[2, 5, 8], %b: f32[2, 5, 3], %c: f32[2, 5, 9], %w: " weight                \
  ") -> (f32[2, 5, 2]) {\n"                                                                        \
  "  %g = concat %a, %b, %c {axis = 2} : f32[2, 5, 20]\n"                                          \
  "  %y = einsum " e " : f32[2, 5, 2]\n  return %y\n}\n"

TEST(products_of_concatenations_become_sums_of_products) {
  static const char *const texts[] = {PIECES("f32[2, 20]", "%g, %w {spec = \"bnd,ed->bne\"}"),
                                      PIECES("f32[20, 2]", "%g, %w {spec = \"bnd,de->bne\"}"),
                                      PIECES("f32[2, 20]", "%w, %g {spec = \"ed,bnd->bne\"}")};
  for (int i = 0; i < 3; i++) {
    vtb_module *m = changed("split_concat", texts[i]);
    CHECK(count_ops(m, VTB_OP_einsum) == 3 && count_ops(m, VTB_OP_concat) == 0);
    CHECK(count_ops(m, VTB_OP_slice) == 3 && count_ops(m, VTB_OP_add) == 2);
    vtb_module_free(m);
  }
}

TEST(concatenations_that_stay) {
  CHECK_KEPT("split_concat", /* a wide result */
             "entry func @f(%a: f32[5, 8], %b: f32[5, 8], %w: f32[3, 16]) -> (f32[5, 3]) {\n"
             "  %g = concat %a, %b {axis = 1} : f32[5, 16]\n"
             "  %y = einsum %g, %w {spec = \"nd,ed->ne\"} : f32[5, 3]\n  return %y\n}\n");
  CHECK_KEPT("split_concat", /* something else reads it */
             "entry func @f(%a: f32[5, 8], %b: f32[5, 8], %w: f32[1, 16]) -> (f32[5, 1], f32[5, "
             "16]) {\n"
             "  %g = concat %a, %b {axis = 1} : f32[5, 16]\n"
             "  %y = einsum %g, %w {spec = \"nd,ed->ne\"} : f32[5, 1]\n"
             "  %z = neg %g : f32[5, 16]\n  return %y, %z\n}\n");
  CHECK_KEPT("split_concat", /* it is returned */
             "entry func @f(%a: f32[5, 8], %b: f32[5, 8], %w: f32[1, 16]) -> (f32[5, 1], f32[5, "
             "16]) {\n"
             "  %g = concat %a, %b {axis = 1} : f32[5, 16]\n"
             "  %y = einsum %g, %w {spec = \"nd,ed->ne\"} : f32[5, 1]\n  return %y, %g\n}\n");
  CHECK_KEPT("split_concat", /* both factors */
             "entry func @f(%a: f32[5, 8], %b: f32[5, 8]) -> (f32[5]) {\n"
             "  %g = concat %a, %b {axis = 1} : f32[5, 16]\n"
             "  %y = einsum %g, %g {spec = \"nd,nd->n\"} : f32[5]\n  return %y\n}\n");
  CHECK_KEPT("split_concat", /* its axis is kept */
             "entry func @f(%a: f32[4, 20], %b: f32[4, 20], %w: f32[20]) -> (f32[8]) {\n"
             "  %g = concat %a, %b {axis = 0} : f32[8, 20]\n"
             "  %y = einsum %g, %w {spec = \"nd,d->n\"} : f32[8]\n  return %y\n}\n");
}

/* ---- split_thin ------------------------------------------------------------------------------ */

/* Two thin products that add up, of what a convolution reads and of what `made` is. */
#define BESIDE(channels, outputs, made)                                                            \
  "entry func @f(%x: f32[2, 6, " channels "], %w: f32[" channels ", 3], %u: f32[" outputs          \
  ", " channels "], %v: f32[" outputs ", " channels "], %c: f32[" outputs                          \
  "]) -> (f32[2, 6, " outputs "]) {\n"                                                             \
  "  %y = dwconv %x, %w {grid = [6], pad = [1]} : f32[2, 6, " channels "]\n"                       \
  "  %a = silu %" made " : f32[2, 6, " channels "]\n"                                              \
  "  %p = einsum %x, %u, %c {spec = \"bnd,ed->bne\"} : f32[2, 6, " outputs "]\n"                   \
  "  %g = einsum %a, %v, %p {spec = \"bnd,ed->bne\"} : f32[2, 6, " outputs "]\n"                   \
  "  return %g\n}\n"

/* Shares of each product, of how many products; 0: as they were. */
static int64_t shares_of(const char *text, int *products) {
  vtb_module *m = changed("split_thin", text);
  int64_t shares = 0;
  *products = 0;
  for (const vtb_inst *i = m->entry->first; i; i = i->next) {
    if (!vtb_is_share(i)) continue;
    shares = i->results[0]->type.dim[0].size;
    CHECK(*products == (i->n_operands == 3)); /* each adds to the one before */
    *products += 1;
  }
  vtb_module_free(m);
  return shares;
}

TEST(thin_products_beside_a_convolution_are_split) {
  int n;
  CHECK(shares_of(BESIDE("1032", "5", "y"), &n) == 3 && n == 2);
  CHECK(shares_of(BESIDE("96", "12", "y"), &n) == 1 && n == 2);
  CHECK(shares_of(BESIDE("60", "2", "y"), &n) == 0);   /* few channels */
  CHECK(shares_of(BESIDE("1030", "2", "y"), &n) == 0); /* no fours */
  CHECK(shares_of(BESIDE("96", "16", "y"), &n) == 1);
  CHECK(shares_of(BESIDE("640", "33", "y"), &n) == 0);  /* not narrow */
  CHECK(shares_of(BESIDE("1040", "16", "x"), &n) == 0); /* nothing is made of the convolution */
}

/* ---- compose --------------------------------------------------------------------------------- */

/* The gates of a cell: of queries and keys, both of %x, and of values, of %y, in front of which
 * `weights` and biases are arguments of a block that is called twice. */
#define GATES                                                                                      \
  "entry func @f(%x: f32[B, 40, 96], %y: f32[B, 40, 96], %u: f32[24, 4, 4] param \"u\", %v: "      \
  "f32[24, 4, 4] param \"v\", %p: f32[96] param \"p\", %w: f32[8, 288] param \"w\") -> (f32[B, "   \
  "40, 8], f32[B, 40, 8]) {\n"                                                                     \
  "  %a = call @block(%x, %y, %u, %v, %p, %w) : f32[B, 40, 8]\n"                                   \
  "  %b = call @block(%y, %x, %v, %u, %p, %w) : f32[B, 40, 8]\n"                                   \
  "  return %a, %b\n}\n"                                                                           \
  "func @block(%x: f32[B, 40, 96], %y: f32[B, 40, 96], %u: f32[24, 4, 4], %v: f32[24, 4, 4], "     \
  "%p: f32[96], %w: f32[8, 288]) -> (f32[B, 40, 8]) {\n"                                           \
  "  %xg = reshape %x {shape = [-1, 40, 24, 4]} : f32[B, 40, 24, 4]\n"                             \
  "  %qe = einsum %xg, %u {spec = \"bngi,goi->bngo\"} : f32[B, 40, 24, 4]\n"                       \
  "  %qr = reshape %qe {shape = [-1, 40, 96]} : f32[B, 40, 96]\n"                                  \
  "  %q = add %qr, %p : f32[B, 40, 96]\n"                                                          \
  "  %ke = einsum %xg, %v {spec = \"bngo,goi->bngi\"} : f32[B, 40, 24, 4]\n"                       \
  "  %k = reshape %ke {shape = [-1, 40, 96]} : f32[B, 40, 96]\n"                                   \
  "  %yg = reshape %y {shape = [-1, 40, 24, 4]} : f32[B, 40, 24, 4]\n"                             \
  "  %ve = einsum %yg, %v {spec = \"bngi,gio->bngo\"} : f32[B, 40, 24, 4]\n"                       \
  "  %vr = reshape %ve {shape = [-1, 40, 96]} : f32[B, 40, 96]\n"                                  \
  "  %vb = add %vr, %p : f32[B, 40, 96]\n"                                                         \
  "  %w0 = slice %w {axis = 1, start = 0, limit = 96} : f32[8, 96]\n"                              \
  "  %w1 = slice %w {axis = 1, start = 96, limit = 192} : f32[8, 96]\n"                            \
  "  %w2 = slice %w {axis = 1, start = 192, limit = 288} : f32[8, 96]\n"                           \
  "  %g0 = einsum %q, %w0 {spec = \"bnd,ed->bne\"} : f32[B, 40, 8]\n"                              \
  "  %g1 = einsum %k, %w1 {spec = \"bnd,ed->bne\"} : f32[B, 40, 8]\n"                              \
  "  %g2 = einsum %vb, %w2 {spec = \"bnd,ed->bne\"} : f32[B, 40, 8]\n"                             \
  "  %s = add %g0, %g1 : f32[B, 40, 8]\n"                                                          \
  "  %t = add %s, %g2 : f32[B, 40, 8]\n"                                                           \
  "  return %t\n}\n"

TEST(gates_read_what_queries_and_keys_are_made_of) {
  vtb_module *m = changed("compose_weights", GATES);
  const vtb_func *block = vtb_module_find(m, "block");
  int products = 0;
  for (const vtb_inst *i = block->first; i; i = i->next)
    if (i->op == VTB_OP_einsum) {
      products++;
      CHECK(i->operands[0] == block->args[0] || i->operands[0] == block->args[1]);
      CHECK(!i->operands[1]->def); /* the caller composes the weights */
    }
  CHECK_MSG(products == 2, "%d products are left of six", products);
  vtb_module_free(m);
}

TEST(turned_weights_and_wider_operands_compose) {
  vtb_module *m = changed("compose_weights",
                          "entry func @f(%x: f32[40, 64], %u: f32[32, 2, 3], %w: f32[96, 5]) -> "
                          "(f32[40, 5]) {\n"
                          "  %xg = reshape %x {shape = [40, 32, 2]} : f32[40, 32, 2]\n"
                          "  %q = einsum %xg, %u {spec = \"ngi,gio->ngo\"} : f32[40, 32, 3]\n"
                          "  %r = reshape %q {shape = [40, 96]} : f32[40, 96]\n"
                          "  %g = einsum %r, %w {spec = \"nd,de->ne\"} : f32[40, 5]\n"
                          "  return %g\n}\n");
  const vtb_inst *last = m->entry->last;
  CHECK(last->op == VTB_OP_einsum && last->operands[0] == m->entry->args[0]);
  vtb_module_free(m);
}

/* One product of q = blocks(x): tokens, x's width in 32 groups, columns. */
#define ONE(tokens, from, columns)                                                                 \
  "entry func @f(%x: f32[" tokens ", 32, " from "], %u: f32[32, 4, " from "], %w: f32[" columns    \
  ", 128]) -> (f32[" tokens ", " columns "]) {\n"                                                  \
  "  %q = einsum %x, %u {spec = \"ngi,goi->ngo\"} : f32[" tokens ", 32, 4]\n"                      \
  "  %r = reshape %q {shape = [" tokens ", 128]} : f32[" tokens ", 128]\n"                         \
  "  %g = einsum %r, %w {spec = \"nd,ed->ne\"} : f32[" tokens ", " columns "]\n"                   \
  "  return %g\n}\n"

TEST(products_that_are_not_composed) {
  vtb_module *m = changed("compose_weights", ONE("40", "4", "8"));
  CHECK(m->entry->last->operands[0]->def->operands[0] == m->entry->args[0]);
  vtb_module_free(m);
  CHECK_KEPT("compose_weights", ONE("40", "4", "24")); /* wide beside q */
  CHECK_KEPT("compose_weights", ONE("7", "4", "8"));   /* fewer tokens than columns */
  CHECK_KEPT("compose_weights", ONE("40", "5", "8"));  /* x is wider than q */
}

/* ---- accumulate ------------------------------------------------------------------------------ */

TEST(a_bias_goes_to_the_start_of_a_chain) {
  vtb_module *m =
      changed("add_in_product",
              "entry func @f(%x: f32[5, 6], %y: f32[5, 6], %u: f32[3, 6], %b: f32[3]) -> (f32[5, "
              "3]) {\n"
              "  %p = einsum %x, %u {spec = \"nd,hd->nh\"} : f32[5, 3]\n"
              "  %q = einsum %y, %u {spec = \"nd,hd->nh\"} : f32[5, 3]\n"
              "  %s = add %p, %q : f32[5, 3]\n"
              "  %r = add %s, %b : f32[5, 3]\n  return %r\n}\n");
  CHECK(count_ops(m, VTB_OP_add) == 0 && count_ops(m, VTB_OP_einsum) == 2);
  const vtb_inst *start = first_op(m, VTB_OP_einsum);
  CHECK(start->n_operands == 3 && start->operands[2]->type.rank == 1);
  vtb_module_free(m);
}

TEST(a_reshape_moves_behind_the_sum) {
  static const char *const added[] = {"5, 12", "12", "1, 12", "5, 1", "1", ""};
  for (size_t i = 0; i < sizeof added / sizeof *added; i++) {
    char text[1024];
    snprintf(text, sizeof text,
             "entry func @f(%%x: f32[5, 3, 4], %%w: f32[3, 4, 4], %%b: f32[%s]) -> (f32[5, 12]) {\n"
             "  %%p = einsum %%x, %%w {spec = \"ngi,goi->ngo\"} : f32[5, 3, 4]\n"
             "  %%v = reshape %%p {shape = [5, 12]} : f32[5, 12]\n"
             "  %%r = add %%b, %%v : f32[5, 12]\n  return %%r\n}\n",
             added[i]);
    vtb_module *m = changed("add_in_product", text);
    CHECK_MSG(count_ops(m, VTB_OP_add) == (i == 3), "added [%s]",
              added[i]); /* a column needs more than a reshape */
    vtb_module_free(m);
  }
}

TEST(sums_that_products_do_not_take) {
  CHECK_KEPT("add_in_product", /* another use of the product */
             "entry func @f(%x: f32[5, 6], %u: f32[3, 6], %b: f32[3]) -> (f32[5, 3], f32[5, 3]) {\n"
             "  %p = einsum %x, %u {spec = \"nd,hd->nh\"} : f32[5, 3]\n"
             "  %r = add %p, %b : f32[5, 3]\n  return %r, %p\n}\n");
  CHECK_KEPT("add_in_product", /* the product is broadcast */
             "entry func @f(%x: f32[1, 6], %u: f32[3, 6], %b: f32[5, 3]) -> (f32[5, 3]) {\n"
             "  %p = einsum %x, %u {spec = \"nd,hd->nh\"} : f32[1, 3]\n"
             "  %r = add %p, %b : f32[5, 3]\n  return %r\n}\n");
  CHECK_KEPT("add_in_product", /* a product added to itself */
             "entry func @f(%x: f32[5, 6], %u: f32[3, 6]) -> (f32[5, 3]) {\n"
             "  %p = einsum %x, %u {spec = \"nd,hd->nh\"} : f32[5, 3]\n"
             "  %r = add %p, %p : f32[5, 3]\n  return %r\n}\n");
}

TEST(what_is_added_may_be_younger_than_the_product) {
  vtb_module *m =
      changed("add_in_product",
              "entry func @f(%x: f32[5, 6], %u: f32[3, 6], %b: f32[5, 3]) -> (f32[5, 3]) {\n"
              "  %p = einsum %x, %u {spec = \"nd,hd->nh\"} : f32[5, 3]\n"
              "  %e = exp %b : f32[5, 3]\n"
              "  %r = add %p, %e : f32[5, 3]\n  return %r\n}\n");
  CHECK(count_ops(m, VTB_OP_add) == 0);
  vtb_module_free(m);
}

/* ---- unscale --------------------------------------------------------------------------------- */

#define SCAN(scale)                                                                                \
  "entry func @f(%q: f32[2, 9, 3, 4], %k: f32[2, 9, 3, 4], %v: f32[2, 9, 3, 5], %d: f32[2, 9, "    \
  "3], %s: f32[]) -> "                                                                             \
  "(f32[2, 9, 3, 5], f32[2, 3, 4, 5], f32[2, 9, 3], f32[2, 3, 4]) {\n" scale                       \
  "  %t = mul %q, %c : f32[2, 9, 3, 4]\n"                                                          \
  "  %y, %a, %z, %n = linscan %t, %k, %v, %d {class = \"scalar\", mode = \"auto\", normalizer = "  \
  "1} : f32[2, 9, 3, "                                                                             \
  "5], f32[2, 3, 4, 5], f32[2, 9, 3], f32[2, 3, 4]\n  return %y, %a, %z, %n\n}\n"

TEST(factors_of_queries_move_behind_the_scan) {
  vtb_module *m = changed("unscale,dce", SCAN("  %c = constant {value = 0.5} : f32[]\n"));
  const vtb_inst *scan = first_op(m, VTB_OP_linscan);
  CHECK(scan && !scan->operands[0]->def && count_ops(m, VTB_OP_mul) == 2);
  vtb_module_free(m);
  CHECK_KEPT("unscale", SCAN("  %c = exp %s : f32[]\n"));
}

TEST(factors_of_queries_move_through_reshapes) {
  vtb_module *m = changed(
      "unscale,dce",
      "entry func @f(%q: f32[2, 9, 12], %k: f32[2, 9, 3, 4], %v: f32[2, 9, 3, 5], %d: f32[2, 9, "
      "3]) -> (f32[2, 9, 15]) {\n"
      "  %c = constant {value = 0.5} : f32[]\n"
      "  %t = mul %q, %c : f32[2, 9, 12]\n"
      "  %r = reshape %t {shape = [2, 9, 3, 4]} : f32[2, 9, 3, 4]\n"
      "  %y, %a = linscan %r, %k, %v, %d {class = \"scalar\", mode = \"auto\"} : f32[2, 9, 3, 5], "
      "f32[2, 3, 4, 5]\n"
      "  %z = reshape %y {shape = [2, 9, 15]} : f32[2, 9, 15]\n  return %z\n}\n");
  const vtb_inst *scan = first_op(m, VTB_OP_linscan), *mul = first_op(m, VTB_OP_mul);
  CHECK(scan && !scan->operands[0]->def->operands[0]->def && count_ops(m, VTB_OP_mul) == 1);
  CHECK(mul && mul->operands[0]->type.rank == 3); /* beside what follows */
  vtb_module_free(m);
}

/* ---- split_rows ------------------------------------------------------------------------------ */

TEST(elementwise_ops_join_the_rows_beside_them) {
  vtb_module *m = changed("split_rows,simplify,fuse",
                          "entry func @f(%x: f32[2, 5, 12], %g: f32[2, 5, 12], %w: f32[12], %c: "
                          "f32[2, 5, 1]) -> (f32[2, 5, "
                          "12]) {\n"
                          "  %e = exp %x : f32[2, 5, 12]\n"
                          "  %h = reshape %e {shape = [2, 5, 3, 4]} : f32[2, 5, 3, 4]\n"
                          "  %s = reduce_sum %h {axes = [3], keep = 1} : f32[2, 5, 3, 1]\n"
                          "  %d = div %h, %s : f32[2, 5, 3, 4]\n"
                          "  %y = reshape %d {shape = [2, 5, 12]} : f32[2, 5, 12]\n"
                          "  %a = mul %y, %w : f32[2, 5, 12]\n"
                          "  %b = silu %g : f32[2, 5, 12]\n"
                          "  %m = mul %a, %b : f32[2, 5, 12]\n"
                          "  %r = add %m, %c : f32[2, 5, 12]\n  return %r\n}\n");
  CHECK(count_ops(m, VTB_OP_fused) == 1);
  vtb_module_free(m);
}

/* One head of all columns. */
TEST(ops_beside_rows_of_one_head) {
  vtb_module *m = changed("split_rows,simplify,fuse",
                          "entry func @f(%x: f32[2, 5, 1, 12], %g: f32[2, 5, 12], %w: f32[12]) -> "
                          "(f32[2, 5, 12]) {\n"
                          "  %s = reduce_sum %x {axes = [3], keep = 1} : f32[2, 5, 1, 1]\n"
                          "  %d = div %x, %s : f32[2, 5, 1, 12]\n"
                          "  %y = reshape %d {shape = [2, 5, 12]} : f32[2, 5, 12]\n"
                          "  %a = mul %y, %w : f32[2, 5, 12]\n"
                          "  %b = silu %g : f32[2, 5, 12]\n"
                          "  %m = mul %a, %b : f32[2, 5, 12]\n  return %m\n}\n");
  CHECK(count_ops(m, VTB_OP_fused) == 1);
  vtb_module_free(m);
}

TEST(ops_beside_whole_rows_and_column_sums_keep_their_shape) {
  CHECK_KEPT("split_rows", /* y belongs to a reduction over the whole row */
             "entry func @f(%x: f32[5, 3, 4]) -> (f32[5, 12], f32[5, 1]) {\n"
             "  %s = reduce_sum %x {axes = [2], keep = 1} : f32[5, 3, 1]\n"
             "  %d = div %x, %s : f32[5, 3, 4]\n"
             "  %v = reshape %d {shape = [5, 12]} : f32[5, 12]\n"
             "  %y = exp %v : f32[5, 12]\n"
             "  %t = reduce_sum %y {axes = [1], keep = 1} : f32[5, 1]\n"
             "  %z = div %y, %t : f32[5, 12]\n  return %z, %t\n}\n");
  CHECK_KEPT("split_rows", /* the product is computed inside the column sum */
             "entry func @f(%x: f32[5, 3, 4], %g: f32[5, 12]) -> (f32[12]) {\n"
             "  %s = reduce_sum %x {axes = [2], keep = 1} : f32[5, 3, 1]\n"
             "  %d = div %x, %s : f32[5, 3, 4]\n"
             "  %v = reshape %d {shape = [5, 12]} : f32[5, 12]\n"
             "  %y = mul %v, %g : f32[5, 12]\n"
             "  %t = reduce_sum %y {axes = [0]} : f32[12]\n  return %t\n}\n");
}

/* ---- extra tokens ---------------------------------------------------------------------------- */

/* A sequence [2, 9, 4] whose tokens 0, 5 and 6 are not of a grid of 2 x 3: with `conv` of %g, the
 * others, in the variables %p and %q, put together as `sequence`. */
#define PAST(conv, sequence)                                                                       \
  "entry func @f(%x: f32[2, 9, 4], %w: f32[4, 3, 3], %b: f32[4], %o: f32[2, 9, 4]) -> (f32[2, 9, " \
  "4]) {\n"                                                                                        \
  "  %s = slice %x {axis = 1, start = 1, limit = 5} : f32[2, 4, 4]\n"                              \
  "  %t = slice %x {axis = 1, start = 7, limit = 9} : f32[2, 2, 4]\n"                              \
  "  %u = slice %x {axis = 1, start = 6, limit = 8} : f32[2, 2, 4]\n" conv                         \
  "  %h = slice %x {axis = 1, start = 0, limit = 1} : f32[2, 1, 4]\n"                              \
  "  %m = slice %x {axis = 1, start = 5, limit = 7} : f32[2, 2, 4]\n"                              \
  "  %n = slice %o {axis = 1, start = 5, limit = 7} : f32[2, 2, 4]\n"                              \
  "  %p = slice %y {axis = 1, start = 0, limit = 4} : f32[2, 4, 4]\n"                              \
  "  %q = slice %y {axis = 1, start = 4, limit = 6} : f32[2, 2, 4]\n"                              \
  "  %z = concat " sequence " {axis = 1} : f32[2, 9, 4]\n  return %z\n}\n"
#define CELLS(second)                                                                              \
  "  %g = concat %s, " second " {axis = 1} : f32[2, 6, 4]\n"                                       \
  "  %c = dwconv %g, %w {grid = [2, 3], pad = [1, 1]} : f32[2, 6, 4]\n"
#define WITH(sum) "  %y = " sum " : f32[2, 6, 4]\n"

TEST(extra_tokens_pass_convolutions) {
  static const char *const texts[] = {
      PAST(CELLS("%t") WITH("add %c, %b"), "%h, %p, %m, %q"),
      PAST(CELLS("%t") WITH("add %b, %c"), "%h, %p, %m, %q"),
      PAST("  %g = concat %s, %t {axis = 1} : f32[2, 6, 4]\n"
           "  %y = dwconv %g, %w {grid = [2, 3], pad = [1, 1]} : f32[2, 6, 4]\n",
           "%h, %p, %m, %q"),
  };
  for (int i = 0; i < 3; i++) {
    vtb_module *m = changed("pass_extra,simplify,dce", texts[i]);
    CHECK(count_ops(m, VTB_OP_dwconv) == 1 && count_ops(m, VTB_OP_concat) == 0);
    CHECK(count_ops(m, VTB_OP_slice) == 0 && count_ops(m, VTB_OP_add) == 0);
    vtb_module_free(m);
  }
}

/* At one end, so that what is convolved is one piece, and behind a permutation of all. */
TEST(paths_fold_through_what_lets_extra_tokens_past) {
  vtb_module *m = changed(
      "pass_extra,path_fold,dce",
      "entry func @f(%x: f32[2, 7, 4], %w: f32[4, 3, 3]) -> (f32[2, 7, 4]) {\n"
      "  %v = permute %x {axis = 1, path = \"rows~@2x3+head=1\"} : f32[2, 7, 4]\n"
      "  %g = slice %v {axis = 1, start = 0, limit = 6} : f32[2, 6, 4]\n"
      "  %y = dwconv %g, %w {grid = [2, 3], pad = [1, 1]} : f32[2, 6, 4]\n"
      "  %e = slice %v {axis = 1, start = 6, limit = 7} : f32[2, 1, 4]\n"
      "  %z = concat %y, %e {axis = 1} : f32[2, 7, 4]\n"
      "  %r = permute %z {axis = 1, path = \"rows~@2x3+head=1\", inverse = 1} : f32[2, 7, 4]\n"
      "  return %r\n}\n");
  CHECK(count_ops(m, VTB_OP_dwconv) == 1 && count_ops(m, VTB_OP_permute) == 0);
  CHECK(vtb_attr_find(first_op(m, VTB_OP_dwconv), "path") != NULL);
  vtb_module_free(m);
}

TEST(tokens_that_are_put_together_otherwise) {
#define KEPT(conv, sequence) CHECK_KEPT("pass_extra", PAST(conv, sequence))
  KEPT(CELLS("%t") WITH("add %c, %b"), "%h, %p, %n, %q"); /* others stand there */
  KEPT(CELLS("%t") WITH("add %c, %b"), "%h, %q, %m, %p"); /* the grid is turned about */
  KEPT(CELLS("%t") WITH("add %c, %b"), "%m, %p, %h, %q"); /* the others are */
  KEPT(CELLS("%u") WITH("add %c, %b"), "%h, %p, %m, %q"); /* one of these is convolved */
  KEPT(CELLS("%t")
           WITH("add %c, %b") "  %i = slice %x {axis = 1, start = 6, limit = 7} : f32[2, 1, 4]\n"
                              "  %j = slice %x {axis = 1, start = 5, limit = 6} : f32[2, 1, 4]\n",
       "%h, %p, %i, %j, %q"); /* two of them are */
  KEPT("  %g = slice %x {axis = 1, start = 1, limit = 7} : f32[2, 6, 4]\n"
       "  %y = dwconv %g, %w {grid = [2, 3], pad = [1, 1]} : f32[2, 6, 4]\n",
       "%h, %p, %m, %q"); /* both of these are convolved */
  KEPT(CELLS("%t") WITH("mul %c, %b"), "%h, %p, %m, %q");
  KEPT(CELLS("%t") WITH("add %c, %g"), "%h, %p, %m, %q");
}

int main(void) {
  RUN(narrow_products_of_one_operand_join);
  RUN(three_groups_of_siblings);
  RUN(siblings_that_stay_apart);
  RUN(products_with_matrices_of_groups_join);
  RUN(matrices_of_groups_that_stay_apart);
  RUN(products_of_concatenations_become_sums_of_products);
  RUN(concatenations_that_stay);
  RUN(extra_tokens_pass_convolutions);
  RUN(paths_fold_through_what_lets_extra_tokens_past);
  RUN(tokens_that_are_put_together_otherwise);
  RUN(gates_read_what_queries_and_keys_are_made_of);
  RUN(turned_weights_and_wider_operands_compose);
  RUN(products_that_are_not_composed);
  RUN(a_bias_goes_to_the_start_of_a_chain);
  RUN(a_reshape_moves_behind_the_sum);
  RUN(sums_that_products_do_not_take);
  RUN(what_is_added_may_be_younger_than_the_product);
  RUN(factors_of_queries_move_behind_the_scan);
  RUN(factors_of_queries_move_through_reshapes);
  RUN(elementwise_ops_join_the_rows_beside_them);
  RUN(ops_beside_rows_of_one_head);
  RUN(ops_beside_whole_rows_and_column_sums_keep_their_shape);
  RUN(thin_products_beside_a_convolution_are_split);
  return test_done();
}
