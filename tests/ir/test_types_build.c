/* Types and the builder: shapes, names, the symbolic batch, helpers, messages. */
#include "ir/ir.h"
#include "ir/ops.h"
#include "tests/test.h"

static vtb_type type_of(const char *spec) {
  /* "B,3,N=4": a letter alone is the batch */
  vtb_type t = {.dtype = VTB_F32};
  static char names[64][8];
  static int used;
  char copy[128];
  snprintf(copy, sizeof copy, "%s", spec);
  for (char *w = strtok(copy, ","); w; w = strtok(NULL, ",")) {
    char *eq = strchr(w, '=');
    vtb_dim *d = &t.dim[t.rank++];
    d->size = eq ? atoi(eq + 1) : (w[0] >= '0' && w[0] <= '9') ? atoi(w) : VTB_DYN;
    if (eq || d->size == VTB_DYN) {
      if (eq) *eq = 0;
      d->name = strcpy(names[used++ % 64], w);
    }
  }
  return t;
}

static const char *text_of(const vtb_type *t) {
  static char text[256];
  vtb_strbuf s = {0};
  vtb_type_print(t, &s);
  snprintf(text, sizeof text, "%s", s.at);
  vtb_strbuf_free(&s);
  return text;
}

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
  vtb_error err = {0};
  CHECK_MSG(vtb_module_verify(x->m, &err), "%s", err.text);
  vtb_diags_free(&x->diags);
  vtb_module_free(x->m);
}

static vtb_value *arg(fixture *x, const char *name, const char *spec) {
  return vtb_func_add_arg(x->f, name, type_of(spec));
}

TEST(broadcast_aligns_at_the_last_axis) {
  vtb_type a = type_of("B,N=4,1"), b = type_of("C=3"), t;
  CHECK(vtb_type_broadcast(&a, &b, &t));
  CHECK_STR(text_of(&t), "f32[B, N=4, C=3]");
  a = type_of("B,1"), b = type_of("B,5");
  CHECK(vtb_type_broadcast(&a, &b, &t));
  CHECK_STR(text_of(&t), "f32[B, 5]");
  a = type_of("B,2"), b = type_of("7,2");
  CHECK(!vtb_type_broadcast(&a, &b, &t));
  CHECK(vtb_type_count(&a) == 2);
}

TEST(names_are_unique_and_safe) {
  fixture x;
  start(&x);
  vtb_value *a = arg(&x, "x", "3");
  x.b.name_hint = "x";
  CHECK_STR(vtb_b_unary(&x.b, VTB_OP_neg, a)->name, "x.1");
  x.b.name_hint = "x";
  CHECK_STR(vtb_b_unary(&x.b, VTB_OP_neg, a)->name, "x.2");
  CHECK_STR(vtb_b_unary(&x.b, VTB_OP_neg, a)->name, "neg");
  x.b.span.scope = "blocks.0.mlp.2";
  CHECK_STR(vtb_b_unary(&x.b, VTB_OP_neg, a)->name, "mlp.2.neg");
  CHECK_STR(vtb_b_unary(&x.b, VTB_OP_neg, a)->name, "mlp.2.neg.1");
  x.b.span.scope = NULL;
  vtb_type t = a->type;
  CHECK_STR(vtb_b_reshape(&x.b, a, &t)->name, "x.3");
  x.b.name_hint = "blocks.0.a b/c";
  CHECK_STR(vtb_b_unary(&x.b, VTB_OP_neg, a)->name, "blocks.0.a_b_c");
  CHECK_STR(vtb_func_new(x.m, "f", VTB_FUNC_PLAIN, VTB_NO_SPAN)->name, "f_1");
  vtb_inst_unlink(x.m->first->first);
  vtb_module_renumber_names(x.m);
  CHECK_STR(x.m->first->first->results[0]->name, "x.1");
  stop(&x);
}

static void check_error(fixture *x, vtb_value *v, int code, const char *text) {
  CHECK(v == NULL);
  CHECK(x->diags.list.n > 0 && x->diags.list.at[x->diags.list.n - 1].code == code);
  if (x->diags.list.n) CHECK_STR(x->diags.list.at[x->diags.list.n - 1].text, text);
}

TEST(errors_name_shapes_and_axes) {
  fixture x;
  start(&x);
  vtb_value *a = arg(&x, "a", "B,N=196,C=192"), *c = arg(&x, "c", "C=384"),
            *d = arg(&x, "d", "5,N=196,C=192");
  check_error(
      &x, vtb_b_binary(&x.b, VTB_OP_mul, a, c), 2001,
      "mul: shapes f32[B, N=196, C=192] and f32[C=384] do not broadcast: axis C is 192 and 384");
  check_error(&x, vtb_b_binary(&x.b, VTB_OP_mul, a, d), 2001,
              "mul: shapes f32[B, N=196, C=192] and f32[5, N=196, C=192] do not broadcast: the "
              "batch axis B meets 5");
  check_error(&x, vtb_b_reduce(&x.b, VTB_OP_reduce_sum, c, (int64_t[]){1}, 1, false), 2002,
              "reduce_sum: axis 1 of f32[C=384], which has 1 axes");
  vtb_type t = type_of("B,196,2,97");
  check_error(&x, vtb_b_reshape(&x.b, a, &t), 2003,
              "reshape of f32[B, N=196, C=192] to f32[B, N=196, 2, 97]: 37632 x batch elements to "
              "38024 x batch");
  check_error(&x, vtb_b_einsum(&x.b, "bnd,ed->bne", a, c), 2004,
              "einsum \"bnd,ed->bne\": operand 2 is f32[C=384], which has 1 axes");
  check_error(&x, vtb_b_einsum(&x.b, "bnd,d->bn", a, c), 2004,
              "einsum \"bnd,d->bn\" of f32[B, N=196, C=192] and f32[C=384]: d has two sizes");
  check_error(&x, vtb_b_einsum(&x.b, "bnd,e->bnf", a, c), 2004,
              "einsum \"bnd,e->bnf\": a letter of the result is in no operand");
  stop(&x);
}

TEST(null_operands_pass_silently) {
  fixture x;
  start(&x);
  x.b.name_hint = "lost";
  vtb_type t = vtb_type_scalar();
  CHECK(vtb_b_binary(&x.b, VTB_OP_add, NULL, NULL) == NULL && x.diags.n_errors == 0 &&
        x.b.name_hint == NULL);
  CHECK(vtb_b_reshape(&x.b, NULL, &t) == NULL && vtb_b_reduce_to(&x.b, NULL, &t) == NULL);
  stop(&x);
}

TEST(batch_goes_through_rules) {
  fixture x;
  start(&x);
  vtb_value *a = arg(&x, "a", "B,N=4,C=6"), *w = arg(&x, "w", "E=5,C=6");
  CHECK_STR(text_of(&vtb_b_einsum(&x.b, "bnc,ec->bne", a, w)->type), "f32[B, N=4, E=5]");
  CHECK_STR(text_of(&vtb_b_einsum(&x.b, "bnc,bnc->c", a, a)->type), "f32[C=6]");
  CHECK_STR(text_of(&vtb_b_reduce(&x.b, VTB_OP_reduce_sum, a, (int64_t[]){0, 1}, 2, false)->type),
            "f32[C=6]");
  CHECK_STR(text_of(&vtb_b_reduce(&x.b, VTB_OP_reduce_max, a, (int64_t[]){2}, 1, true)->type),
            "f32[B, N=4, 1]");
  vtb_type t = type_of("B,4,h=2,3");
  CHECK_STR(text_of(&vtb_b_reshape(&x.b, a, &t)->type), "f32[B, N=4, h=2, 3]");
  CHECK_STR(text_of(&vtb_b_transpose(&x.b, a, (int64_t[]){2, 0, 1})->type), "f32[C=6, B, N=4]");
  CHECK_STR(text_of(&vtb_b_slice(&x.b, a, 1, 1, 4, 2)->type), "f32[B, 2, C=6]");
  CHECK_STR(text_of(&vtb_b_concat(&x.b, (vtb_value *[]){a, a}, 2, 1)->type), "f32[B, 8, C=6]");
  CHECK(vtb_b_slice(&x.b, a, 0, 0, 1, 1) == NULL &&
        vtb_b_concat(&x.b, (vtb_value *[]){a, a}, 2, 0) == NULL);
  t = type_of("B,4,6");
  vtb_value *row = arg(&x, "row", "6");
  CHECK_STR(text_of(&vtb_b_broadcast(&x.b, row, &t)->type), "f32[B, 4, 6]");
  CHECK(vtb_b_broadcast(&x.b, w, &t) == NULL);
  stop(&x);
}

TEST(reduce_to_is_the_adjoint_of_broadcast) {
  fixture x;
  start(&x);
  vtb_value *a = arg(&x, "a", "B,N=4,C=6");
  static const char *const shapes[] = {"B,N=4,C=6", "6", "1,6", "B,1,6", "4,1", "1,1,1", ""};
  for (int i = 0; i < 7; i++) {
    vtb_type t = type_of(shapes[i]);
    vtb_value *r = vtb_b_reduce_to(&x.b, a, &t);
    CHECK_MSG(r && vtb_type_equal(&r->type, &t), "to %s", shapes[i]);
    CHECK((i == 0) == (r == a));
  }
  stop(&x);
}

TEST(clones_are_independent_and_equal) {
  fixture x;
  start(&x);
  vtb_func *g = vtb_func_new(x.m, "g", VTB_FUNC_PLAIN, VTB_NO_SPAN);
  vtb_value *ga = vtb_func_add_arg(g, "a", type_of("B,3"));
  vtb_builder gb = {.module = x.m, .func = g};
  vtb_value *gr = vtb_b_unary(&gb, VTB_OP_exp, ga);
  vtb_func_set_returns(g, &gr, NULL, 1);
  vtb_value *a = arg(&x, "a", "B,3");
  x.f->arg_info[0] =
      (vtb_arg_info){.role = VTB_ROLE_PARAM, .official = "w.0", .init = "ones", .decay = 1};
  vtb_value *r = vtb_b_call(&x.b, g, &a, 1)->results[0];
  const char *name = "logits";
  vtb_func_set_returns(x.f, &r, &name, 1);
  x.m->entry = x.f;
  vtb_module *copy = vtb_module_clone(x.m);
  vtb_strbuf one = {0}, two = {0};
  vtb_module_print(x.m, NULL, &one);
  vtb_module_print(copy, NULL, &two);
  CHECK_STR(two.at, one.at);
  CHECK(copy->entry->first->callee->module == copy);
  vtb_func *h = vtb_func_clone(x.f, x.m, "h");
  CHECK(h->first->callee == g && vtb_module_find(x.m, "h") == h);
  vtb_module_remove(x.m, h);
  CHECK(vtb_module_find(x.m, "h") == NULL);
  vtb_func **order;
  CHECK(vtb_module_post_order(x.f, &order) == 2 && order[0] == g && order[1] == x.f);
  free(order);
  vtb_strbuf_free(&one);
  vtb_strbuf_free(&two);
  vtb_module_free(copy);
  stop(&x);
}

TEST(rewriting_keeps_lists_whole) {
  fixture x;
  start(&x);
  vtb_value *a = arg(&x, "a", "3"), *unused = arg(&x, "u", "3"), *last = arg(&x, "z", "3");
  vtb_value *e = vtb_b_unary(&x.b, VTB_OP_exp, a), *n = vtb_b_unary(&x.b, VTB_OP_neg, e);
  vtb_value *s = vtb_b_binary(&x.b, VTB_OP_add, n, last);
  vtb_func_set_returns(x.f, &s, NULL, 1);
  int *uses = vtb_count_uses(x.f);
  CHECK(uses[e->id] == 1 && uses[s->id] == 1 && uses[unused->id] == 0);
  free(uses);
  vtb_func_remove_arg(x.f, 1);
  CHECK(x.f->n_args == 2 && x.f->args[1] == last && last->index == 1);
  arg(&x, "more", "2");
  arg(&x, "evenmore", "2");
  CHECK(x.f->n_args == 4);
  x.b.before = n->def;
  vtb_value *sq = vtb_b_unary(&x.b, VTB_OP_square, e);
  CHECK(sq->def->next == n->def);
  vtb_replace_all(n, sq);
  CHECK(s->def->operands[0] == sq);
  vtb_inst_unlink(n->def);
  CHECK(vtb_func_number(x.f) == 3 && s->def->order == 2);
  x.b.before = NULL;
  vtb_inst *copy = vtb_inst_clone(&x.b, s->def, (vtb_value *[]){sq, sq});
  CHECK(copy->results[0]->type.rank == 1 && x.f->last == copy);
  vtb_inst_move_before(copy, s->def);
  CHECK(x.f->last == s->def);
  vtb_attr_set(copy, VTB_A_INT("k", 3));
  vtb_attr_set(copy, VTB_A_INT("k", 4));
  CHECK(copy->n_attrs == 1 && vtb_attr_int(copy, "k", 0) == 4);
  vtb_attr_remove(copy, "k");
  CHECK(copy->n_attrs == 0 && vtb_attr_int(copy, "k", -1) == -1);
  stop(&x);
}

TEST(costs_count_multiply_and_add) {
  fixture x;
  start(&x);
  vtb_value *a = arg(&x, "a", "B,N=4,C=6"), *w = arg(&x, "w", "E=5,C=6");
  vtb_cost c = vtb_inst_cost(vtb_b_einsum(&x.b, "bnc,ec->bne", a, w)->def, 2);
  CHECK_NEAR(c.flops, 2.0 * 2 * 4 * 6 * 5, 0);
  CHECK_NEAR(c.bytes, 4.0 * (2 * 4 * 6 + 5 * 6 + 2 * 4 * 5), 0);
  c = vtb_inst_cost(vtb_b_unary(&x.b, VTB_OP_silu, a)->def, 3);
  CHECK_NEAR(c.flops, 4.0 * 3 * 24, 0);
  stop(&x);
}

TEST(papers_count_multiply_adds_and_mixers_apart) {
  fixture x;
  start(&x);
  vtb_value *a = arg(&x, "a", "B,N=4,C=6"), *w = arg(&x, "w", "E=6,C=6");
  vtb_value *q = arg(&x, "q", "B,N=4,H=2,K=3"), *v = arg(&x, "v", "B,N=4,H=2,V=5");
  vtb_value *y = vtb_b_einsum(&x.b, "bnc,ec->bne", a, w);
  CHECK(vtb_b_unary(&x.b, VTB_OP_silu, y));
  vtb_attr scale[] = {VTB_A_FLOAT("scale", 1)};
  CHECK(vtb_build(&x.b, VTB_OP_attention, (vtb_value *[]){q, q, v}, 3, scale, 1));
  vtb_published_macs macs = vtb_func_published_macs(x.f);
  CHECK_NEAR(macs.layers, 4.0 * 6 * 6, 0);
  CHECK_NEAR(macs.mixers, 4.0 * 4 * 2 * (3 + 5), 0);
  CHECK_NEAR(vtb_func_cost(x.f, 1).flops,
             2.0 * macs.layers + 4.0 * 4 * 6 + vtb_inst_cost(x.f->last, 1).flops, 0);
  stop(&x);
}

TEST(counts_that_no_number_holds_are_the_largest) {
  vtb_type t = vtb_type_make(VTB_F32, 3, (int64_t[]){INT64_C(1) << 31, INT64_C(1) << 31, 4});
  CHECK(vtb_type_count(&t) == INT64_MAX && vtb_type_bytes(&t) == INT64_MAX);
  t.dim[2].size = 1;
  CHECK(vtb_type_count(&t) == INT64_C(1) << 62 && vtb_type_bytes(&t) == INT64_MAX);
}

TEST(functions_know_what_they_are_instances_of) {
  vtb_module *m = vtb_module_new("m");
  vtb_func_new(m, "block", VTB_FUNC_PLAIN, VTB_NO_SPAN);
  vtb_func *second = vtb_func_new(m, "block", VTB_FUNC_PLAIN, VTB_NO_SPAN);
  CHECK_STR(second->name, "block_1");
  CHECK_STR(second->declared, "block");
  vtb_func *made = vtb_func_made_of(second, "fwd");
  CHECK_STR(made->name, "block_1_fwd");
  CHECK_STR(made->declared, "block_fwd");
  vtb_module *copy = vtb_module_clone(m);
  CHECK_STR(vtb_module_find(copy, "block_1_fwd")->declared, "block_fwd");
  vtb_module_free(copy);
  vtb_module_free(m);
}

int main(void) {
  RUN(counts_that_no_number_holds_are_the_largest);
  RUN(broadcast_aligns_at_the_last_axis);
  RUN(names_are_unique_and_safe);
  RUN(errors_name_shapes_and_axes);
  RUN(null_operands_pass_silently);
  RUN(batch_goes_through_rules);
  RUN(reduce_to_is_the_adjoint_of_broadcast);
  RUN(clones_are_independent_and_equal);
  RUN(rewriting_keeps_lists_whole);
  RUN(costs_count_multiply_and_add);
  RUN(papers_count_multiply_adds_and_mixers_apart);
  RUN(functions_know_what_they_are_instances_of);
  return test_done();
}
