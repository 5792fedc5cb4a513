/* What an einsum is as a structure (ir/product.h): random ones against a reading of their text, and
 * the forms that kernels are made for, whatever letters are called and in whatever order. */
#include "ir/product.h"
#include "ir/ops.h"
#include "tests/test.h"

static unsigned long long seed = 20261127;
static int below(int n) { return (int)((test_random(&seed) + 1) / 2 * n) % n; }

typedef struct fixture {
  vtb_module *m;
  vtb_func *f;
  vtb_diags diags;
  vtb_builder b;
} fixture;

static void start(fixture *x) {
  *x = (fixture){.m = vtb_module_new("t")};
  x->f = vtb_func_new(x->m, "f", VTB_FUNC_PLAIN, VTB_NO_SPAN);
  x->b = (vtb_builder){.module = x->m, .func = x->f, .diags = &x->diags};
}

static void stop(fixture *x) {
  vtb_diags_free(&x->diags);
  vtb_module_free(x->m);
}

/* Sizes of letters, by character; 0: 3. */
static int64_t sizes[128];

static vtb_value *factor(fixture *x, const char *letters, size_t n) {
  vtb_type t = {.dtype = VTB_F32, .rank = (int)n};
  for (size_t i = 0; i < n; i++) {
    int64_t size = sizes[(unsigned char)letters[i]];
    t.dim[i].size = size ? size : 3;
  }
  return vtb_func_add_arg(x->f, "x", t);
}

/* NULL if the rule refuses it. */
static vtb_inst *einsum(fixture *x, const char *spec) {
  const char *comma = strchr(spec, ','), *arrow = strstr(spec, "->");
  vtb_value *a = factor(x, spec, (size_t)(comma - spec)),
            *b = factor(x, comma + 1, (size_t)(arrow - comma - 1));
  vtb_value *y = vtb_b_einsum(&x->b, spec, a, b);
  return y ? y->def : NULL;
}

/* ---- against the text ------------------------------------------------------------------------ */

static int place_in(const char *part, size_t n, char c) {
  const char *at = memchr(part, c, n);
  return at ? (int)(at - part) : -1;
}

static vtb_letter_role role_of(bool first, bool second, bool kept) {
  if (first && second) return kept ? VTB_LETTER_BATCH : VTB_LETTER_SUM;
  return !kept ? VTB_LETTER_ALONE : first ? VTB_LETTER_ROWS : VTB_LETTER_COLUMNS;
}

static void agrees(const vtb_product *p, const char *spec) {
  const char *part[] = {spec, strchr(spec, ',') + 1, strchr(spec, '>') + 1};
  size_t n[] = {(size_t)(part[1] - spec - 1), (size_t)(part[2] - part[1] - 2), strlen(part[2])};
  int64_t size[VTB_LETTER_ROLES];
  int count[VTB_LETTER_ROLES] = {0}, letters = 0;
  for (int r = 0; r < VTB_LETTER_ROLES; r++) size[r] = 1;
  for (int place = 0; place < 3; place++) {
    CHECK(p->rank[place] == (int)n[place]);
    for (int axis = 0; axis < (int)n[place]; axis++) {
      char c = part[place][axis];
      int at[3];
      for (int k = 0; k < 3; k++) at[k] = place_in(part[k], n[k], c);
      const vtb_letter *l = vtb_product_at(p, place, axis);
      int64_t want = sizes[(unsigned char)c] ? sizes[(unsigned char)c] : 3;
      CHECK_MSG(l->name == c && !memcmp(l->at, at, sizeof at), "%s: %c of %d", spec, c, place);
      CHECK(l->role == role_of(at[0] >= 0, at[1] >= 0, at[2] >= 0) && l->size == want);
      if (place == 2 || (place == 1 && at[0] >= 0)) continue; /* counted */
      count[l->role]++, letters++;
      size[l->role] *= want == VTB_DYN ? 5 : want;
    }
  }
  CHECK(p->n == letters);
  for (int r = 0; r < VTB_LETTER_ROLES; r++) {
    const vtb_letter *only = vtb_product_only(p, (vtb_letter_role)r);
    CHECK(p->count[r] == count[r] && vtb_product_size(p, (vtb_letter_role)r, 5) == size[r]);
    CHECK((only != NULL) == (count[r] == 1) && (!only || only->role == (vtb_letter_role)r));
  }
}

static void draw(char *spec) {
  static const char alphabet[] = "abdhkmqxzBNQ";
  char letters[13], part[3][9];
  int used = 2 + below(10);
  memcpy(letters, alphabet, sizeof letters);
  for (int i = 12; i-- > 1;) {
    int k = below(i + 1);
    char c = letters[i];
    letters[i] = letters[k], letters[k] = c;
  }
  for (int place = 0; place < 3; place++) {
    int n = 0;
    for (int tries = below(12); tries-- > 0 && n < VTB_MAX_RANK;) {
      char c = letters[below(used)];
      bool there = place < 2 || strchr(part[0], c) || strchr(part[1], c);
      if (there && !memchr(part[place], c, (size_t)n)) part[place][n++] = c;
    }
    part[place][n] = 0;
  }
  snprintf(spec, 32, "%s,%s->%s", part[0], part[1], part[2]);
}

TEST(random_products_are_what_their_text_says) {
  for (int round = 0; round < 2000; round++) {
    fixture x;
    char spec[32];
    start(&x);
    draw(spec);
    for (const char *c = spec; *c; c++) sizes[(unsigned char)*c] = 1 + below(4);
    vtb_inst *i = einsum(&x, spec);
    CHECK_MSG(i != NULL, "%s", spec);
    if (i) {
      vtb_product p = vtb_product_of(i);
      agrees(&p, spec);
      CHECK_STR(vtb_einsum_text(i), spec);
      vtb_spec again = vtb_spec_of(&p); /* made of its letters it is the same */
      vtb_value *y = vtb_b_einsum_of(&x.b, &again, i->operands[0], i->operands[1]);
      CHECK(y && vtb_einsum_alike(i, y->def) && vtb_type_equal(&y->type, &i->results[0]->type));
    }
    stop(&x);
  }
  memset(sizes, 0, sizeof sizes);
}

TEST(the_batch_is_a_size_of_its_own) {
  fixture x;
  start(&x);
  sizes['b'] = VTB_DYN;
  vtb_product p = vtb_product_of(einsum(&x, "bnd,bed->bne"));
  agrees(&p, "bnd,bed->bne");
  CHECK(vtb_product_only(&p, VTB_LETTER_BATCH)->size == VTB_DYN);
  CHECK(vtb_product_size(&p, VTB_LETTER_BATCH, 7) == 7);
  sizes['b'] = 0;
  stop(&x);
}

/* ---- kept with the instruction --------------------------------------------------------------- */

TEST(a_spec_that_is_set_is_read_again) {
  fixture x;
  start(&x);
  vtb_inst *i = einsum(&x, "ab,bc->ac");
  vtb_product p = vtb_product_of(i);
  vtb_spec turned = vtb_spec_of(&p);
  turned.of[VTB_IN_RESULT][0] = 'c', turned.of[VTB_IN_RESULT][1] = 'a';
  vtb_einsum_set(i, &turned);
  CHECK_STR(vtb_einsum_text(i), "ab,bc->ca");
  p = vtb_product_of(i);
  agrees(&p, "ab,bc->ca");
  vtb_attr_set(i, VTB_A_INT("library", 1));
  p = vtb_product_of(i);
  agrees(&p, "ab,bc->ca");
  stop(&x);
}

TEST(copies_have_it_in_their_own_module) {
  fixture x;
  start(&x);
  vtb_value *y = einsum(&x, "gi,goi->go")->results[0];
  vtb_func_set_returns(x.f, &y, NULL, 1);
  x.m->entry = x.f;
  vtb_module *copy = vtb_module_clone(x.m);
  stop(&x);
  vtb_product p = vtb_product_of(copy->entry->first);
  agrees(&p, "gi,goi->go");
  vtb_module_free(copy);
}

TEST(an_ill_formed_spec_is_refused_with_what_is_wrong) {
  static const struct {
    const char *spec, *why;
  } bad[] = {{"ab,bc-ac", "want \"ab,bc->ac\""},
             {"ab;bc->ac", "want \"ab,bc->ac\""},
             {"ab,bc->ac ", "want \"ab,bc->ac\""},
             {"aba,bc->ac", "a letter comes twice in one place"},
             {"ab,bc->acc", "a letter comes twice in one place"},
             {"abcdefghi,i->a", "too many letters"},
             {"ab,bc->ad", "a letter of the result is in no operand"},
             {"aba,bc->ad", "a letter comes twice in one place"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    fixture x;
    start(&x);
    vtb_value *a = factor(&x, "ab", 2), *b = factor(&x, "bc", 2);
    CHECK(!vtb_b_einsum(&x.b, bad[i].spec, a, b));
    vtb_strbuf said = {0};
    vtb_diags_render(&x.diags, &said, false);
    CHECK_MSG(said.at && strstr(said.at, bad[i].why), "%s: %s", bad[i].spec, said.at);
    vtb_strbuf_free(&said);
    stop(&x);
  }
}

/* ---- forms ----------------------------------------------------------------------------------- */

static bool keeps_rows(const char *spec) {
  fixture x;
  start(&x);
  vtb_product p = vtb_product_of(einsum(&x, spec));
  bool keeps = vtb_product_keeps_rows(&p);
  stop(&x);
  return keeps;
}

TEST(rows_are_kept_where_only_the_last_axis_changes) {
  CHECK(keeps_rows("bnd,ed->bne") && keeps_rows("xyz,zq->xyq") && keeps_rows("k,ek->e"));
  CHECK(keeps_rows("bngi,goi->bngo") && keeps_rows("bnk,bek->bne"));
  CHECK(!keeps_rows("nbd,ed->bne")); /* in another order */
  CHECK(!keeps_rows("bnd,ed->be"));  /* one is summed */
  CHECK(!keeps_rows("bnd,ed->ben"));
  CHECK(!keeps_rows("bnd,edz->bne")); /* a letter in one factor alone */
  CHECK(!keeps_rows("bnd,ez->bne"));
  CHECK(!keeps_rows("bnd,ed->bned"));
  CHECK(!keeps_rows("bn,nd->bdn"));
}

static bool blocks_are(const char *spec, vtb_blocks want) {
  fixture x;
  vtb_blocks b = {0};
  start(&x);
  bool are = vtb_blocks_of(einsum(&x, spec), &b) && b.groups == want.groups &&
             b.inner == want.inner && b.outer == want.outer && b.at_group == want.at_group &&
             b.at_inner == want.at_inner && b.at_outer == want.at_outer;
  stop(&x);
  return are;
}

TEST(blocks_are_found_in_any_order_of_letters_of_any_name) {
  sizes['g'] = 6, sizes['i'] = 4, sizes['o'] = 8;
  sizes['P'] = 6, sizes['k'] = 4, sizes['a'] = 8;
  CHECK(blocks_are("bngi,goi->bngo", (vtb_blocks){6, 4, 8, 0, 2, 1}));
  CHECK(blocks_are("bngi,gio->bngo", (vtb_blocks){6, 4, 8, 0, 1, 2}));
  CHECK(blocks_are("bngi,oig->bngo", (vtb_blocks){6, 4, 8, 2, 1, 0}));
  CHECK(blocks_are("zPk,kPa->zPa", (vtb_blocks){6, 4, 8, 1, 0, 2}));
  CHECK(blocks_are("bnvwgi,goi->bnvwgo", (vtb_blocks){6, 4, 8, 0, 2, 1}));
  vtb_blocks b;
  static const char *const none[] = {
      "bnig,goi->bnog", "gbni,goi->gbno",  "bgni,goi->bgno", "bngi,goi->bgno",  "gi,goi->go",
      "bngi,oi->bngo",  "bngi,bgoi->bngo", "bngi,goi->bng",  "bngi,goiz->bngo", "bngo,bngi->goi"};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    fixture x;
    start(&x);
    CHECK_MSG(!vtb_blocks_of(einsum(&x, none[i]), &b), "%s", none[i]);
    stop(&x);
  }
  memset(sizes, 0, sizeof sizes);
}

static bool is_gradient(const char *spec) {
  fixture x;
  start(&x);
  bool is = vtb_is_blocks_gradient(einsum(&x, spec));
  stop(&x);
  return is;
}

TEST(gradients_of_blocks_sum_over_rows) {
  CHECK(is_gradient("bngo,bngi->goi") && is_gradient("tPx,tPy->Pxy"));
  CHECK(is_gradient("bnvgo,bnvgi->goi"));
  CHECK(!is_gradient("bngo,bngi->gio")); /* stored as input by output */
  CHECK(!is_gradient("bngo,bngi->gbi") && !is_gradient("bngo,bngi->gob"));
  CHECK(!is_gradient("bngo,bngi->bgoi") && !is_gradient("bngo,nbgi->goi"));
  CHECK(!is_gradient("bno,bni->oi") && !is_gradient("go,gi->goi"));
}

/* ---- others of it ---------------------------------------------------------------------------- */

TEST(names_of_letters_mean_nothing) {
  fixture x;
  start(&x);
  const vtb_inst *a = einsum(&x, "bnc,ec->bne"), *b = einsum(&x, "abc,zc->abz"),
                 *c = einsum(&x, "bnc,ce->bne");
  CHECK(vtb_einsum_alike(a, b) && !vtb_einsum_alike(a, c));
  stop(&x);
}

TEST(unused_letters_are_those_wished_for_first) {
  fixture x;
  char out[4];
  start(&x);
  vtb_product p = vtb_product_of(einsum(&x, "bnc,ec->bne"));
  vtb_unused_letters(&p, "bnhzyx", 3, out);
  CHECK_STR(out, "hzy");
  stop(&x);
}

TEST(what_is_added_may_be_nothing) {
  fixture x;
  start(&x);
  vtb_value *a = factor(&x, "ab", 2), *b = factor(&x, "bc", 2), *bias = factor(&x, "c", 1);
  CHECK(vtb_b_einsum_from(&x.b, "ab,bc->ac", a, b, NULL)->def->n_operands == 2);
  const vtb_value *y = vtb_b_einsum_from(&x.b, "ab,bc->ac", a, b, bias);
  CHECK(y->def->n_operands == 3 && y->def->operands[2] == bias);
  const vtb_value *like = vtb_b_einsum_like(&x.b, y->def, b, a);
  CHECK(like->def->n_operands == 2 && vtb_einsum_alike(like->def, y->def));
  CHECK_STR(vtb_einsum_text(vtb_b_unary(&x.b, VTB_OP_exp, a)->def), "");
  stop(&x);
}

int main(void) {
  RUN(random_products_are_what_their_text_says);
  RUN(the_batch_is_a_size_of_its_own);
  RUN(a_spec_that_is_set_is_read_again);
  RUN(copies_have_it_in_their_own_module);
  RUN(an_ill_formed_spec_is_refused_with_what_is_wrong);
  RUN(rows_are_kept_where_only_the_last_axis_changes);
  RUN(blocks_are_found_in_any_order_of_letters_of_any_name);
  RUN(gradients_of_blocks_sum_over_rows);
  RUN(names_of_letters_mean_nothing);
  RUN(unused_letters_are_those_wished_for_first);
  RUN(what_is_added_may_be_nothing);
  return test_done();
}
