/* The verifier refuses modules that break one rule each. */
#include "ir/ir.h"
#include "ir/ops.h"
#include "tests/test.h"

static const char text[] = "module \"m\"\n"
                           "entry func @main(%x: f32[B, 3]) -> (f32[B, 3]) {\n"
                           "  %a = exp %x : f32[B, 3]\n"
                           "  %b = neg %a : f32[B, 3]\n"
                           "  %c = call @g(%b) : f32[B, 3]\n"
                           "  return %c\n"
                           "}\n"
                           "func @g(%x: f32[B, 3]) -> (f32[B, 3]) {\n"
                           "  %y = relu %x : f32[B, 3]\n"
                           "  return %y\n"
                           "}\n";
static const vtb_source source = {.path = "m.ir", .text = text, .n = sizeof text - 1};

static vtb_module *fresh(void) {
  vtb_diags diags = {0};
  vtb_module *m = vtb_module_parse(&source, &diags);
  vtb_diags_print(&diags, stderr);
  vtb_diags_free(&diags);
  return m;
}

static void refused(vtb_module *m, const char *why) {
  vtb_error err = {0};
  CHECK(!vtb_module_verify(m, &err));
  CHECK_MSG(strstr(err.text, why) != NULL, "\"%s\" does not say \"%s\"", err.text, why);
  vtb_module_free(m);
}

static vtb_inst *inst_at(vtb_module *m, int i) {
  vtb_inst *inst = m->entry->first;
  while (i-- > 0) inst = inst->next;
  return inst;
}

TEST(a_good_module_passes) {
  vtb_module *m = fresh();
  vtb_error err = {0};
  CHECK_MSG(vtb_module_verify(m, &err), "%s", err.text);
  vtb_module_free(m);
}

TEST(use_before_definition) {
  vtb_module *m = fresh();
  vtb_inst_move_before(inst_at(m, 0), inst_at(m, 2));
  refused(m, "@main: %b = neg %a : f32[B, 3]: %a is used before its definition");
}

TEST(wrong_result_type) {
  vtb_module *m = fresh();
  inst_at(m, 1)->results[0]->type.dim[1].size = 4;
  refused(m, "%b is f32[B, 4] and should be f32[B, 3]");
}

/* What a rewrite does that gives a reader an operand of another rank, which broadcasts as well. */
TEST(operand_of_another_rank) {
  static const char sums[] = "module \"m\"\n"
                             "entry func @main(%x: f32[1, 3], %y: f32[3]) -> (f32[1, 3]) {\n"
                             "  %a = neg %y : f32[3]\n"
                             "  %s = sum_ranks %x {ranks = 2} : f32[1, 3]\n"
                             "  return %s\n"
                             "}\n";
  static const vtb_source other = {.path = "s.ir", .text = sums, .n = sizeof sums - 1};
  vtb_diags diags = {0};
  vtb_module *m = vtb_module_parse(&other, &diags);
  vtb_inst_set_operand(inst_at(m, 1), 0, inst_at(m, 0)->results[0]);
  refused(m, "sum_ranks %a {ranks = 2} : f32[1, 3]: %s is f32[1, 3] and should be f32[3]");
}

/* Results follow from operands and attributes, but of ops that make tensors of nothing or of
 * scalars. */
TEST(every_op_has_a_rule_of_its_results) {
  static const struct row {
    const char *op, *shape;
  } rows[] = {
#define VTB_OP(name, klass, min, max, shape, ...) {#name, #shape},
#include "ir/ops.def"
#undef VTB_OP
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].shape, "given") == 0)
      CHECK_MSG(strstr(" constant iota random state_scale ", rows[i].op) != NULL,
                "the result of %s may be of any type", rows[i].op);
}

TEST(two_values_of_one_name) {
  vtb_module *m = fresh();
  inst_at(m, 1)->results[0]->name = "a";
  refused(m, "two values are named %a");
}

TEST(value_of_another_function) {
  vtb_module *m = fresh();
  inst_at(m, 1)->operands[0] = m->entry->next->args[0];
  refused(m, "belongs to another function");
}

TEST(value_that_does_not_know_its_reader) {
  vtb_module *m = fresh();
  m->entry->args[0]->n_readers = 0;
  refused(m, "does not know its reader");
}

TEST(unknown_attribute) {
  vtb_module *m = fresh();
  vtb_attr_set(inst_at(m, 0), VTB_A_INT("axis", 1));
  refused(m, "exp has no attribute axis");
}

TEST(attribute_of_the_wrong_kind) {
  vtb_module *m = fresh();
  vtb_builder b = {.module = m, .func = m->entry};
  vtb_value *s = vtb_b_slice(&b, m->entry->args[0], 1, 0, 2, 1);
  vtb_attr_set(s->def, VTB_A_STR("start", "0"));
  refused(m, "attribute start is of the wrong kind");
}

TEST(callee_outside_the_module) {
  vtb_module *m = fresh();
  vtb_module_remove(m, m->entry->next);
  refused(m, "@g is not in the module");
}

TEST(callee_of_the_wrong_kind) {
  vtb_module *m = fresh();
  m->entry->next->kind = VTB_FUNC_KERNEL;
  refused(m, "@g is of the wrong kind for call");
}

TEST(callee_that_changed_its_type) {
  vtb_module *m = fresh();
  m->entry->next->args[0]->type.dim[1].size = 5;
  refused(m, "@g takes f32[B, 5] as x, not f32[B, 3]");
}

TEST(recursion) {
  vtb_module *m = fresh();
  vtb_func *g = m->entry->next;
  vtb_builder b = {.module = m, .func = g, .before = g->first};
  CHECK(vtb_b_call(&b, g, &g->args[0], 1) != NULL);
  refused(m, "calls itself through @g");
}

TEST(state_scale_outside_a_step) {
  vtb_module *m = fresh();
  vtb_builder b = {.module = m, .func = m->entry};
  vtb_type scalar = vtb_type_scalar();
  CHECK(vtb_build_typed(&b, VTB_OP_state_scale, NULL, 0, NULL, 0, &scalar, 1) != NULL);
  refused(m, "state_scale outside a step function");
}

TEST(broken_list) {
  vtb_module *m = fresh();
  inst_at(m, 1)->prev = NULL;
  refused(m, "list of instructions");
}

TEST(returned_value_that_was_removed) {
  vtb_module *m = fresh();
  vtb_inst_unlink(inst_at(m, 2));
  refused(m, "%c is used before its definition");
}

TEST(entry_of_another_kind) {
  vtb_module *m = fresh();
  m->entry->kind = VTB_FUNC_STEP;
  refused(m, "the entry is not a plain function");
}

/* A fold without sequences says how many steps it has, and what ends it goes with nothing else that
 * does. */
TEST(loops_that_cannot_end_so) {
  static const char loop[] =
      "module \"m\"\nentry func @main(%x: f32[B, 3], %n: i32[]) -> (f32[B, 3]) {\n"
      "  %y = fold @s(%x, %n) {states = 1, seqs = 0, steps = 4} : f32[B, 3]\n  return %y\n}\n"
      "func @s(%x: f32[B, 3], %n: i32[]) -> (f32[B, 3]) {\n  %y = exp %x : f32[B, 3]\n"
      "  return %y\n}\n";
  static const vtb_source of_loop = {.path = "m.ir", .text = loop, .n = sizeof loop - 1};
  static const struct {
    const char *key[2];
    int64_t value[2];
    const char *why; /* NULL: nothing is wrong */
  } cases[] = {{{"while"}, {1}, NULL},
               {{"limit"}, {1}, NULL},
               {{"steps"}, {0}, "it has neither sequences nor steps"},
               {{"steps"}, {-1}, "it has neither sequences nor steps"},
               {{"while", "limit"}, {1, 1}, "while, or limit, needs steps"},
               {{"states", "while"}, {0, 1}, "a state that tells who goes on"},
               {{"states", "limit"}, {0, 1}, "its limit, the first constant, is no i32 scalar"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    vtb_diags diags = {0};
    vtb_error err = {0};
    vtb_module *m = vtb_module_parse(&of_loop, &diags);
    CHECK(m != NULL);
    if (!m) return;
    for (int k = 0; k < 2 && cases[i].key[k]; k++)
      vtb_attr_set(inst_at(m, 0), VTB_A_INT(cases[i].key[k], cases[i].value[k]));
    bool good = vtb_module_verify(m, &err);
    const char *why = cases[i].why;
    CHECK_MSG(good == !why && (!why || strstr(err.text, why)), "%zu: \"%s\"", i, err.text);
    vtb_module_free(m);
    vtb_diags_free(&diags);
  }
}

int main(void) {
  RUN(a_good_module_passes);
  RUN(use_before_definition);
  RUN(wrong_result_type);
  RUN(operand_of_another_rank);
  RUN(every_op_has_a_rule_of_its_results);
  RUN(two_values_of_one_name);
  RUN(value_of_another_function);
  RUN(value_that_does_not_know_its_reader);
  RUN(unknown_attribute);
  RUN(attribute_of_the_wrong_kind);
  RUN(callee_outside_the_module);
  RUN(callee_of_the_wrong_kind);
  RUN(callee_that_changed_its_type);
  RUN(recursion);
  RUN(state_scale_outside_a_step);
  RUN(broken_list);
  RUN(returned_value_that_was_removed);
  RUN(entry_of_another_kind);
  RUN(loops_that_cannot_end_so);
  return test_done();
}
