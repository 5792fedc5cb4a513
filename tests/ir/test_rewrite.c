/* Who reads a value, what stands before what, what is a view: ir/rewrite.h against a walk over all
 * instructions of random functions that are rewritten on the way. */
#include "ir/rewrite.h"
#include "ir/ops.h"
#include "tests/test.h"

static unsigned long long seed = 20261127;
static int below(int n) { return (int)((test_random(&seed) + 1) / 2 * n) % n; }

typedef struct fixture {
  vtb_module *m;
  vtb_func *f;
  vtb_builder b;
  vtb_value *of[64];
  int n;
} fixture;

static void start(fixture *x) {
  *x = (fixture){.m = vtb_module_new("t")};
  x->f = vtb_func_new(x->m, "f", VTB_FUNC_PLAIN, VTB_NO_SPAN);
  x->b = (vtb_builder){.module = x->m, .func = x->f};
}

/* Sums and reshapes of [2, 6] and [12], of which some are returned, in random order. */
static void grow(fixture *x, int n) {
  vtb_type whole = vtb_type_make(VTB_F32, 2, (const int64_t[]){2, 6}),
           flat = vtb_type_make(VTB_F32, 1, (const int64_t[]){12});
  vtb_value *returns[8];
  x->of[x->n++] = vtb_func_add_arg(x->f, "x", whole);
  x->of[x->n++] = vtb_func_add_arg(x->f, "y", whole);
  for (int i = 0; i < n; i++) {
    vtb_value *u = x->of[below(x->n)], *v = x->of[below(x->n)];
    if (below(3) == 0)
      v = vtb_b_reshape(&x->b, u, u->type.rank == 2 ? &flat : &whole);
    else
      v = vtb_b_binary(&x->b, VTB_OP_add, u, u->type.rank == v->type.rank ? v : u);
    x->of[x->n++] = v;
  }
  for (int r = 0; r < 8; r++) returns[r] = x->of[below(x->n)];
  vtb_func_set_returns(x->f, returns, NULL, 8);
  vtb_func_number(x->f);
}

static bool reads(const vtb_inst *i, const vtb_value *v) {
  for (int o = 0; o < i->n_operands; o++)
    if (i->operands[o] == v) return true;
  return false;
}

static void compare(const fixture *x, const vtb_value *v) {
  int readers = 0, returned = -1;
  vtb_inst *last = NULL;
  for (int r = x->f->n_returns; r-- > 0;)
    if (x->f->returns[r] == v) returned = r;
  for (vtb_inst *i = x->f->first; i; i = i->next) {
    if (reads(i, v)) last = i, readers++;
    CHECK(vtb_made_before(v, i) == (!v->def || v->def->order < i->order));
  }
  CHECK(vtb_return_of(v) == returned);
  CHECK(vtb_is_returned(v) == (returned >= 0));
  CHECK(vtb_reader_count(v) == readers);
  CHECK(vtb_is_read(v) == (readers > 0 || returned >= 0));
  CHECK(vtb_only_reader(v) == (readers == 1 && returned < 0 ? last : NULL));
  const vtb_value *behind = v;
  while (behind->def && behind->def->op == VTB_OP_reshape) behind = behind->def->operands[0];
  CHECK(vtb_behind_reshapes(v) == behind);
}

TEST(readers_are_those_of_the_function_as_it_is_now) {
  for (int round = 0; round < 60; round++) {
    fixture x;
    start(&x);
    grow(&x, 4 + below(40));
    for (int v = 0; v < x.n; v++) compare(&x, x.of[v]);
    for (int again = 0; again < 4; again++) { /* a value gives place to one of before it */
      vtb_value *old = x.of[2 + below(x.n - 2)], *with = x.of[below(2)];
      if (old->type.rank != with->type.rank || !old->def || !(old->def->prev || old->def->next))
        continue;
      vtb_replace_all(old, with);
      vtb_inst_unlink(old->def);
      old->def = NULL; /* for compare(): it is nobody's result */
      for (int v = 0; v < x.n; v++)
        if (v < 2 || x.of[v]->def) compare(&x, x.of[v]);
    }
    vtb_module_free(x.m);
  }
}

TEST(an_instruction_that_reads_a_value_twice_is_one_reader) {
  fixture x;
  start(&x);
  vtb_value *v = vtb_func_add_arg(x.f, "x", vtb_type_scalar());
  const vtb_value *twice = vtb_b_binary(&x.b, VTB_OP_mul, v, v);
  CHECK(vtb_reader_count(v) == 1 && vtb_only_reader(v) == twice->def);
  CHECK(!vtb_is_read(twice) && !vtb_only_reader(twice));
  vtb_module_free(x.m);
}

TEST(views_show_elements_and_free_ops_make_none) {
  static const vtb_op views[] = {VTB_OP_reshape, VTB_OP_transpose, VTB_OP_broadcast, VTB_OP_slice};
  static const vtb_op others[] = {VTB_OP_pad, VTB_OP_permute, VTB_OP_shift, VTB_OP_constant,
                                  VTB_OP_iota};
  static const vtb_op made[] = {VTB_OP_concat, VTB_OP_random, VTB_OP_add,
                                VTB_OP_einsum, VTB_OP_call,   VTB_OP_reduce_sum};
  for (size_t i = 0; i < sizeof views / sizeof *views; i++)
    CHECK(vtb_is_view(views[i]) && vtb_is_free(views[i]));
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    CHECK(!vtb_is_view(others[i]) && vtb_is_free(others[i]));
  for (size_t i = 0; i < sizeof made / sizeof *made; i++)
    CHECK(!vtb_is_view(made[i]) && !vtb_is_free(made[i]));
}

int main(void) {
  RUN(readers_are_those_of_the_function_as_it_is_now);
  RUN(an_instruction_that_reads_a_value_twice_is_one_reader);
  RUN(views_show_elements_and_free_ops_make_none);
  return test_done();
}
