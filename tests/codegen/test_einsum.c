/* einsum in all its mappings, against the interpreter. */
#include "tests/codegen/codegen_check.h"

static const char *cpu; /* NULL: this machine's */

static void check_einsum(const char *spec, const char *a, const char *b, const char *out) {
  check_format(spec, &(check_options){.cpu = cpu},
               "func @f(%%x: f32[%s], %%y: f32[%s]) -> (f32[%s]) {\n  %%z = einsum %%x, %%y {spec "
               "= \"%s\"} : "
               "f32[%s]\n  return %%z\n}\n",
               a, b, out, spec, out);
}

static void check_sum(const char *spec, const char *a, const char *b, const char *add,
                      const char *out) {
  check_format(spec, &(check_options){.cpu = cpu},
               "func @f(%%x: f32[%s], %%y: f32[%s], %%z: f32[%s]) -> (f32[%s]) {\n  %%r = einsum "
               "%%x, %%y, %%z {spec = "
               "\"%s\"} : f32[%s]\n  return %%r\n}\n",
               a, b, add, out, spec, out);
}

TEST(sums_start_with_the_third_operand) {
  static const char *const adds[] = {"", "50", "1, 50", "70, 1", "70, 50"};
  for (size_t i = 0; i < sizeof adds / sizeof *adds; i++) {
    check_sum("mk,kn->mn", "70, 33", "33, 50", adds[i], "70, 50");
    check_sum("mk,nk->mn", "70, 33", "50, 33", adds[i], "70, 50");
    check_sum("mk,nk->nm", "50, 33", "70, 33", adds[i], "70, 50");
    check_sum("mk,nk->mn", "70, 3", "50, 3", adds[i], "70, 50");
    check_sum("mn,mn->mn", "70, 50", "70, 50", adds[i], "70, 50");
  }
  check_sum("bnd,ed->bne", "3, 50, 24", "40, 24", "50, 40", "3, 50, 40");
  check_sum("bnd,ed->bne", "3, 50, 24", "40, 24", "3, 50, 40", "3, 50, 40");
  check_sum("bnd,ed->ben", "3, 50, 24", "40, 24", "3, 40, 50", "3, 40, 50");
  check_sum("bnd,bne->de", "3, 950, 24", "3, 950, 40", "24, 40", "24, 40");
  check_sum("bmk,bkn->mnb", "5, 20, 30", "5, 30, 20", "20, 5", "20, 20, 5");
  check_sum("bngi,goi->bngo", "2, 77, 6, 4", "6, 4, 4", "6, 4", "2, 77, 6, 4");
  check_sum("bngi,goi->bngo", "2, 77, 6, 4", "6, 4, 4", "2, 77, 6, 4", "2, 77, 6, 4");
  check_sum("bngi,goi->bngo", "2, 77, 6, 4", "6, 4, 4", "77, 6, 1", "2, 77, 6, 4");
  check_sum("bngo,bngi->goi", "2, 77, 6, 4", "2, 77, 6, 4", "6, 4, 4", "6, 4, 4");
}

TEST(narrow_products) {
  static const int widths[] = {2, 4, 7, 8, 11, 16};
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
    char w[32], y[32], dw[32];
    snprintf(w, sizeof w, "%d, 96", widths[i]);
    snprintf(y, sizeof y, "3, 70, %d", widths[i]);
    snprintf(dw, sizeof dw, "%d", widths[i]);
    check_einsum("bnd,ed->bne", "3, 70, 96", w, y);
    check_einsum("bne,ed->bnd", y, w, "3, 70, 96");
    check_einsum("bne,bnd->ed", y, "3, 70, 96", w);
    check_sum("bnd,ed->bne", "3, 70, 96", w, dw, y);
    check_sum("bnd,ed->bne", "3, 70, 96", w, y, y);
    check_sum("bne,ed->bnd", y, w, "3, 70, 96", "3, 70, 96");
    check_sum("bne,bnd->ed", y, "3, 70, 96", w, w);
  }
  check_einsum("kd,ke->de", "9000, 8", "9000, 48", "8, 48");
  check_einsum("kd,ke->de", "9000, 4", "9000, 128", "4, 128");
}

TEST(matrix_products_in_every_layout) {
  check_einsum("mk,kn->mn", "70, 33", "33, 50", "70, 50");
  check_einsum("mk,nk->mn", "70, 33", "50, 33", "70, 50");
  check_einsum("km,kn->mn", "33, 70", "33, 50", "70, 50");
  check_einsum("km,nk->mn", "33, 70", "50, 33", "70, 50");
  check_einsum("mk,kn->nm", "70, 33", "33, 50", "50, 70");
  check_einsum("mk,nk->nm", "70, 33", "50, 33", "50, 70");
  check_einsum("mk,kn->mn", "1, 33", "33, 50", "1, 50");
  check_einsum("mk,kn->mn", "70, 33", "33, 1", "70, 1");
  check_einsum("mk,k->m", "70, 33", "33", "70");
  check_einsum("k,kn->n", "33", "33, 21", "21");
  check_einsum("k,k->", "133", "133", "");
  check_einsum("m,n->mn", "17", "13", "17, 13");
}

TEST(letters_merge_or_loop) {
  check_einsum("bnd,ed->bne", "2, 50, 24", "40, 24", "2, 50, 40");
  check_einsum("bnd,ed->ben", "2, 50, 24", "40, 24", "2, 40, 50");
  check_einsum("bnd,bne->de", "3, 50, 24", "3, 50, 40", "24, 40");
  check_einsum("bnd,nbe->de", "3, 50, 24", "50, 3, 40", "24, 40");
  check_einsum("bne,bnd->de", "3, 50, 24", "3, 50, 40", "40, 24");
  check_einsum("bhqk,bkhd->bqhd", "2, 3, 20, 30", "2, 30, 3, 8", "2, 20, 3, 8");
  check_einsum("bqhd,bkhd->bhqk", "2, 20, 3, 8", "2, 30, 3, 8", "2, 3, 20, 30");
  check_einsum("bnd,bne->nbde", "3, 10, 24", "3, 10, 40", "10, 3, 24, 40");
  check_einsum("bmk,bkn->mnb", "5, 20, 30", "5, 30, 20", "20, 20, 5");
  check_einsum("abk,kcd->acbd", "6, 7, 20", "20, 8, 9", "6, 8, 7, 9");
  check_einsum("xy,yz->zx", "1, 19", "19, 1", "1, 1");
}

TEST(sums_that_no_product_has) {
  check_einsum("bn,bc->b", "7, 9", "7, 5", "7");
  check_einsum("ij,jk->k", "7, 9", "9, 20", "20");
  check_einsum("bi,bi->bi", "7, 9", "7, 9", "7, 9");
  check_einsum("bi,b->bi", "7, 9", "7", "7, 9");
  check_einsum("bni,bni->bn", "7, 90, 4", "7, 90, 4", "7, 90");
  check_einsum("bn,bnk->bnk", "7, 9", "7, 9, 3", "7, 9, 3");
}

TEST(block_diagonal_products) {
  static const struct {
    int groups, size;
  } cases[] = {{1, 4}, {3, 4}, {12, 4}, {5, 2}, {3, 8}, {5, 3}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char x[64], w[64];
    snprintf(x, sizeof x, "2, 77, %d, %d", cases[i].groups, cases[i].size);
    snprintf(w, sizeof w, "%d, %d, %d", cases[i].groups, cases[i].size, cases[i].size);
    check_einsum("bngi,goi->bngo", x, w, x);
    check_einsum("bngo,goi->bngi", x, w, x);
    check_einsum("bngo,bngi->goi", x, x, w);
    snprintf(x, sizeof x, "3, 5, 2, 7, %d, %d", cases[i].groups, cases[i].size);
    char y[64];
    snprintf(y, sizeof y, "7, 2, 5, 3, %d, %d", cases[i].groups, cases[i].size);
    check_einsum("abcngi,goi->ncbago", x, w, y); /* tokens that lie apart */
    snprintf(x, sizeof x, "2, 77, %d, %d", cases[i].groups, cases[i].size);
    if (i > 2) continue;
    check_einsum("goi,bngi->bngo", w, x, x);
    check_einsum("bngi,bngo->goi", x, x, w);
  }
}

TEST(large_products_do_not_depend_on_threads) {
  check_einsum("bnd,ed->bne", "2, 196, 192", "384, 192", "2, 196, 384");
  check_einsum("bnd,bne->de", "4, 1200, 20", "4, 1200, 12", "20, 12");
  check_einsum("bnd,bne->ed", "4, 1200, 20", "4, 1200, 12", "12, 20");
  check_einsum("kd,ke->de", "9000, 64", "9000, 48", "64, 48");
}

TEST(operands_may_be_views) {
  check_text("views",
             "func @f(%x: f32[2, 20, 48], %w: f32[30, 48]) -> (f32[2, 19, 30], f32[2, 20, 30], "
             "f32[24, 24], f32[20, 2, "
             "30]) {\n"
             "  %a = slice %x {axis = 1, start = 1, limit = 20} : f32[2, 19, 48]\n"
             "  %p = einsum %a, %w {spec = \"bnd,ed->bne\"} : f32[2, 19, 30]\n"
             "  %h = slice %x {axis = 2, start = 0, limit = 48, step = 2} : f32[2, 20, 24]\n"
             "  %v = slice %w {axis = 1, start = 24, limit = 48} : f32[30, 24]\n"
             "  %q = einsum %h, %v {spec = \"bnd,ed->bne\"} : f32[2, 20, 30]\n"
             "  %l = slice %x {axis = 2, start = 24, limit = 48} : f32[2, 20, 24]\n"
             "  %r = einsum %h, %l {spec = \"bnd,bne->de\"} : f32[24, 24]\n"
             "  %t = transpose %x {perm = [1, 0, 2]} : f32[20, 2, 48]\n"
             "  %s = einsum %t, %w {spec = \"nbd,ed->nbe\"} : f32[20, 2, 30]\n"
             "  return %p, %q, %r, %s\n}\n",
             NULL);
  check_text("broadcast operand",
             "func @f(%x: f32[20, 12], %w: f32[1, 16]) -> (f32[3, 20, 16]) {\n"
             "  %b = broadcast %x {shape = [3, 20, 12]} : f32[3, 20, 12]\n"
             "  %c = broadcast %w {shape = [12, 16]} : f32[12, 16]\n"
             "  %k = constant {value = 0.5} : f32[12, 16]\n"
             "  %z = einsum %b, %c {spec = \"bnd,de->bne\"} : f32[3, 20, 16]\n"
             "  %y = einsum %b, %k {spec = \"bnd,de->bne\"} : f32[3, 20, 16]\n"
             "  %s = add %y, %z : f32[3, 20, 16]\n"
             "  return %s\n}\n",
             NULL);
}

TEST(short_sums_are_written_out) {
  check_einsum("bne,ed->bnd", "2, 19, 4", "4, 100", "2, 19, 100");
  check_einsum("ed,bne->bnd", "5, 33", "2, 19, 5", "2, 19, 33");
  check_einsum("bek,bkd->bed", "3, 70, 2", "3, 2, 64", "3, 70, 64");
  check_einsum("bne,de->bnd", "2, 19, 4", "100, 4", "2, 19, 100");
}

/* Results written into a concatenation. */
TEST(results_may_be_views) {
  check_text("products side by side",
             "func @f(%x: f32[2, 30, 24], %w: f32[40, 24], %u: f32[8, 24], %g: f32[10, 4, 4]) -> "
             "(f32[2, 30, 128]) {\n"
             "  %a = einsum %x, %w {spec = \"bnd,ed->bne\"} : f32[2, 30, 40]\n"
             "  %b = einsum %x, %u {spec = \"bnd,ed->bne\"} : f32[2, 30, 8]\n"
             "  %s = reshape %a {shape = [2, 30, 10, 4]} : f32[2, 30, 10, 4]\n"
             "  %h = einsum %s, %g, %s {spec = \"bngi,goi->bngo\"} : f32[2, 30, 10, 4]\n"
             "  %c = reshape %h {shape = [2, 30, 40]} : f32[2, 30, 40]\n"
             "  %d = exp %c : f32[2, 30, 40]\n"
             "  %y = concat %c, %b, %a, %d {axis = 2} : f32[2, 30, 128]\n  return %y\n}\n",
             &(check_options){.cpu = cpu});
  check_text("sums and transposed results above each other",
             "func @f(%x: f32[3, 500, 12], %y: f32[3, 500, 20], %z: f32[3, 500, 5, 4], %v: f32[5, "
             "40]) -> (f32[67, 20], "
             "f32[5]) {\n"
             "  %a = einsum %x, %y {spec = \"bnd,bne->de\"} : f32[12, 20]\n"
             "  %b = einsum %z, %z {spec = \"bngi,bngo->goi\"} : f32[5, 4, 4]\n"
             "  %c = reshape %b {shape = [4, 20]} : f32[4, 20]\n"
             "  %t = einsum %y, %x {spec = \"bne,bnd->de\"} : f32[12, 20]\n"
             "  %s = slice %v {axis = 1, start = 0, limit = 20} : f32[5, 20]\n"
             "  %m = exp %s : f32[5, 20]\n"
             "  %r = reduce_sum %m {axes = [1]} : f32[5]\n"
             "  %p = einsum %v, %v {spec = \"ab,cb->ac\"} : f32[5, 5]\n"
             "  %q = concat %p, %p, %p, %p {axis = 1} : f32[5, 20]\n"
             "  %n = concat %q, %t, %t {axis = 0} : f32[29, 20]\n"
             "  %o = concat %a, %c, %n, %m, %q, %t {axis = 0} : f32[67, 20]\n  return %o, %r\n}\n",
             &(check_options){.cpu = cpu});
}

/* The same code for other vector widths. */
TEST(every_width_agrees) {
  static const char *const cpus[] = {"x86-64", "x86-64-v3-wide"};
  for (int i = 0; i < 2; i++) {
    cpu = cpus[i];
    check_einsum("bngi,goi->bngo", "2, 77, 5, 4", "5, 4, 4", "2, 77, 5, 4");
    check_einsum("bngi,goi->bngo", "2, 77, 3, 8", "3, 8, 8", "2, 77, 3, 8");
    check_einsum("bngo,bngi->goi", "2, 77, 5, 4", "2, 77, 5, 4", "5, 4, 4");
    check_einsum("bne,ed->bnd", "2, 19, 4", "4, 100", "2, 19, 100");
    check_einsum("kd,ke->de", "9000, 64", "9000, 48", "64, 48");
    check_einsum("bnd,ed->bne", "2, 90, 64", "8, 64", "2, 90, 8");
    check_sum("bnd,ed->bne", "2, 90, 64", "5, 64", "5", "2, 90, 5");
  }
  cpu = NULL;
}

int main(void) {
  RUN(sums_start_with_the_third_operand);
  RUN(narrow_products);
  RUN(matrix_products_in_every_layout);
  RUN(letters_merge_or_loop);
  RUN(sums_that_no_product_has);
  RUN(block_diagonal_products);
  RUN(large_products_do_not_depend_on_threads);
  RUN(operands_may_be_views);
  RUN(short_sums_are_written_out);
  RUN(results_may_be_views);
  RUN(every_width_agrees);
  return test_done();
}
