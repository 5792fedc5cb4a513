/* The checker of memory plans: a sound plan passes, and with one field broken it says which rule
 * that breaks. */
#include "codegen/memory_plan.h"
#include "tests/passes/pass_check.h"

static const char text[] =
    "module \"m\"\n"
    "entry func @main(%x: f32[4, 6], %y: f32[4, 6]) -> (f32[6, 4], f32[8, 6], f32[6]) {\n"
    "  %a = exp %x : f32[4, 6]\n"
    "  %b = exp %y : f32[4, 6]\n"
    "  %c = constant {value = 2.0} : f32[4, 6]\n"
    "  %d = constant {value = 3.0} : f32[4, 6]\n"
    "  %p = einsum %a, %c {spec = \"ij,ij->ij\"} : f32[4, 6]\n"
    "  %q = einsum %b, %d {spec = \"ij,ij->ij\"} : f32[4, 6]\n"
    "  %t = transpose %p {perm = [1, 0]} : f32[6, 4]\n"
    "  %u = slice %t {axis = 0, start = 2, limit = 4} : f32[2, 4]\n"
    "  %w = call @g(%u) : f32[2, 4]\n"
    "  %v = neg %t : f32[6, 4]\n"
    "  %e = exp %w : f32[2, 4]\n"
    "  %j = concat %p, %q {axis = 0} : f32[8, 6]\n"
    "  %k = neg %j : f32[8, 6]\n"
    "  %r = reduce_sum %q {axes = [0]} : f32[6]\n"
    "  %s = sum_ranks %r {ranks = 2} : f32[6]\n"
    "  %z = neg %s : f32[6]\n"
    "  return %v, %k, %z\n"
    "}\n"
    "func @g(%x: f32[2, 4]) -> (f32[2, 4]) {\n"
    "  %h = exp %x : f32[2, 4]\n"
    "  %y = neg %h : f32[2, 4]\n"
    "  return %y\n"
    "}\n";

static vtb_module *m;
static vtb_plan plan;
static vtb_error err;

static void make(void) {
  m = parse_ir(text);
  err = (vtb_error){0};
  CHECK_MSG(vtb_plan_memory(m, m->entry, NULL, &plan, &err) == VTB_OK, "%s", err.text);
  CHECK_MSG(vtb_plan_check(&plan, m->entry, NULL, &err) == VTB_OK, "%s", err.text);
}

static vtb_value *value(const char *name) {
  for (int a = 0; a < m->entry->n_args; a++)
    if (strcmp(m->entry->args[a]->name, name) == 0) return m->entry->args[a];
  for (const vtb_inst *i = m->entry->first; i; i = i->next)
    for (int r = 0; r < i->n_results; r++)
      if (strcmp(i->results[r]->name, name) == 0) return i->results[r];
  CHECK_MSG(false, "there is no %%%s", name);
  exit(1);
}

static vtb_frame *frame(void) { return &plan.frames[plan.n_funcs - 1]; }
static vtb_slot *slot(const char *name) { return &frame()->slots[value(name)->id]; }

static void refused(const char *why) {
  err = (vtb_error){0};
  CHECK(vtb_plan_check(&plan, m->entry, NULL, &err) == VTB_E_INTERNAL);
  CHECK_MSG(strstr(err.text, "memory plan of @main: ") && strstr(err.text, why),
            "\"%s\", not \"%s\"", err.text, why);
  vtb_plan_free(&plan);
  vtb_module_free(m);
}

TEST(places) {
  make();
  slot("x")->index = 1;
  refused("%x is said to be argument 1");
  make();
  slot("v")->index = 3;
  refused("%v is said to be return 3");
  make();
  slot("d")->index = slot("c")->index;
  refused("%d is constant 0, as another is");
  make();
  slot("a")->place = VTB_PLACE_CONSTANT;
  refused("%a is said to be constant");
  make();
  slot("a")->place = VTB_PLACE_NONE;
  refused("%a has no place");
  make();
  slot("a")->base = value("b");
  refused("%a has a base and is no view");
  make();
  slot("u")->base = NULL;
  refused("%u is a view without a base");
  make();
  slot("u")->base = value("t");
  refused("%u is a view of the view %t");
}

TEST(frames) {
  make();
  slot("a")->offset += 4;
  refused("%a lies at ");
  make();
  slot("a")->bytes = 64;
  refused("%a has 64 bytes for 96");
  make();
  slot("a")->offset = frame()->bytes;
  refused(", behind the frame of ");
  make();
  frame()->total_bytes += 64;
  refused("its total of ");
  make();
  plan.peak_bytes += 64;
  refused("its total is not the plan's peak");
  make();
  slot("b")->offset = slot("a")->offset;
  refused("%a lies where %b does, while both are needed");
  make(); /* what a view reads lives as long as the view */
  slot("w")->offset = slot("j")->offset;
  refused("lies where ");
}

TEST(elements) {
  make();
  slot("a")->stride[0] = 1;
  refused("%a is not stored row by row");
  make();
  slot("a")->view_offset = 1;
  refused("%a is no view and begins inside its storage");
  make();
  slot("u")->view_offset = 40;
  refused("%u reaches from element 40 to 59 of the 48 of %j");
  make();
  slot("u")->view_offset = 1;
  refused("%u is said to have an element of %t at 1, where it has another");
  make();
  slot("t")->stride[0] = 6;
  slot("t")->stride[1] = 1;
  refused("%t ");
}

/* A sum whose operand has lost an axis, and one of what others read. */
TEST(sums) {
  make();
  vtb_value *s = value("s");
  CHECK(slot("s")->place == VTB_PLACE_VIEW && slot("s")->base == value("r"));
  s->type = (vtb_type){.rank = 2, .dim = {{.size = 1}, {.size = 6}}};
  slot("s")->stride[0] = 6;
  slot("s")->stride[1] = 1;
  refused("%s has another shape than %r, in whose place it is summed");
  make();
  vtb_inst_set_operand(value("z")->def, 0, value("r"));
  m->entry->returns[2] = value("s");
  refused("%s is summed in place of %r, which others read");
}

TEST(concatenations) {
  make();
  CHECK(slot("j")->in_place);
  slot("q")->view_offset -= 6;
  refused("%j is in place, and its part %q is not where it belongs");
  make();
  slot("k")->in_place = true;
  refused("%k is in place and no concatenation");
}

TEST(functions) {
  make();
  vtb_func *first = plan.funcs[0];
  vtb_frame own = plan.frames[0];
  plan.funcs[0] = plan.funcs[1], plan.frames[0] = plan.frames[1];
  plan.funcs[1] = first, plan.frames[1] = own;
  refused("@g, which it calls, comes later");
}

/* What is prepared lies in memory that is kept, if anything else reads it. */
TEST(what_is_kept) {
  static const char prepared[] =
      "module \"m\"\n"
      "entry func @main(%x: f32[4, 6], %w: f32[4, 6] param \"w\") -> (f32[6, 4], f32[4, 6]) {\n"
      "  %a = exp %w {prepared = 1} : f32[4, 6]\n"
      "  %b = neg %a {prepared = 1} : f32[4, 6]\n"
      "  %c = exp %b {prepared = 1} : f32[4, 6]\n"
      "  %t = reshape %c {shape = [6, 4], prepared = 1} : f32[6, 4]\n"
      "  %d = mul %x, %b : f32[4, 6]\n"
      "  %e = neg %d : f32[4, 6]\n"
      "  %u = reshape %e {shape = [6, 4]} : f32[6, 4]\n"
      "  %f = mul %u, %t : f32[6, 4]\n"
      "  %g = neg %e : f32[4, 6]\n"
      "  return %f, %g\n"
      "}\n";
  static const char *const kept[] = {"b", "c"}, *const others[] = {"a", "d", "e"};
  for (int at = 0; at < 5; at++) {
    m = parse_ir(prepared);
    err = (vtb_error){0};
    const vtb_places *places = &vtb_target_find("cpu")->places;
    CHECK_MSG(vtb_plan_memory(m, m->entry, places, &plan, &err) == VTB_OK, "%s", err.text);
    CHECK_MSG(vtb_plan_check(&plan, m->entry, places, &err) == VTB_OK, "%s", err.text);
    for (int i = 0; i < 2; i++) CHECK(slot(kept[i])->place == VTB_PLACE_KEPT);
    for (int i = 0; i < 3; i++) CHECK(slot(others[i])->place == VTB_PLACE_WORKSPACE);
    CHECK(plan.kept_bytes == 256 && frame()->bytes == 256); /* of the others two live at a time */
    static const char *const why[] = {
        "%e is kept and not prepared", "%c is prepared, not kept, and read by what is not",
        "both are needed", "%c ends at 256, behind the frame of 128", "is not the plan's peak"};
    if (at == 0) slot("e")->place = VTB_PLACE_KEPT;
    if (at == 1) slot("c")->place = VTB_PLACE_WORKSPACE;
    if (at == 2) slot("c")->offset = 0;
    if (at == 3) frame()->kept_bytes = 128;
    if (at == 4) plan.kept_bytes = 128;
    CHECK(vtb_plan_check(&plan, m->entry, places, &err) == VTB_E_INTERNAL);
    CHECK_MSG(strstr(err.text, why[at]), "\"%s\", not \"%s\"", err.text, why[at]);
    vtb_plan_free(&plan);
    vtb_module_free(m);
  }
}

int main(void) {
  RUN(places);
  RUN(frames);
  RUN(elements);
  RUN(sums);
  RUN(concatenations);
  RUN(functions);
  RUN(what_is_kept);
  return test_done();
}
