/* Where values stand: views of views, frames of functions within functions, and that what is alive
 * at one time does not share a place. */
#include "codegen/memory_plan.h"
#include "tests/passes/pass_check.h"

static vtb_plan planned(vtb_module *m) {
  vtb_plan plan;
  vtb_error err = {0};
  CHECK_MSG(vtb_plan_memory(m, m->entry, NULL, &plan, &err) == VTB_OK, "%s", err.text);
  return plan;
}

static const vtb_slot *slot_of(const vtb_plan *p, const vtb_func *f, const char *name) {
  const vtb_frame *frame = vtb_plan_frame(p, f);
  for (const vtb_inst *i = f->first; i; i = i->next)
    for (int r = 0; r < i->n_results; r++)
      if (strcmp(i->results[r]->name, name) == 0) return &frame->slots[i->results[r]->id];
  CHECK_MSG(false, "there is no %%%s", name);
  exit(1);
}

TEST(a_view_of_a_view_begins_behind_both) {
  vtb_module *m =
      parse_ir("entry func @f(%x: f32[8, 6]) -> (f32[2, 2]) {\n"
               "  %e = exp %x : f32[8, 6]\n"
               "  %a = slice %e {axis = 0, start = 3, limit = 8} : f32[5, 6]\n"
               "  %b = slice %a {axis = 1, start = 2, limit = 6} : f32[5, 4]\n"
               "  %c = slice %b {axis = 0, start = 1, limit = 5, step = 3} : f32[2, 4]\n"
               "  %d = transpose %c {perm = [1, 0]} : f32[4, 2]\n"
               "  %g = slice %d {axis = 0, start = 1, limit = 3} : f32[2, 2]\n"
               "  %y = exp %g : f32[2, 2]\n"
               "  return %y\n}\n");
  vtb_plan plan = planned(m);
  const struct {
    const char *name;
    int64_t offset, stride[2];
  } views[] = {{"a", 18, {6, 1}},
               {"b", 20, {6, 1}},
               {"c", 26, {18, 1}},
               {"d", 26, {1, 18}},
               {"g", 27, {1, 18}}};
  for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
    const vtb_slot *s = slot_of(&plan, m->entry, views[i].name);
    CHECK_MSG(s->place == VTB_PLACE_VIEW && s->base == m->entry->first->results[0] &&
                  s->view_offset == views[i].offset && s->stride[0] == views[i].stride[0] &&
                  s->stride[1] == views[i].stride[1],
              "%%%s: offset %lld, strides %lld and %lld", views[i].name, (long long)s->view_offset,
              (long long)s->stride[0], (long long)s->stride[1]);
  }
  vtb_plan_free(&plan);
  vtb_module_free(m);
}

/* What a view shows stays as long as the view is read. */
TEST(a_value_lives_as_long_as_its_views) {
  vtb_module *m = parse_ir("entry func @f(%x: f32[64]) -> (f32[64]) {\n"
                           "  %e = exp %x : f32[64]\n"
                           "  %v = reshape %e {shape = [8, 8]} : f32[8, 8]\n"
                           "  %t = transpose %v {perm = [1, 0]} : f32[8, 8]\n"
                           "  %a = neg %x : f32[64]\n"
                           "  %b = exp %a : f32[64]\n"
                           "  %c = reshape %b {shape = [8, 8]} : f32[8, 8]\n"
                           "  %s = add %t, %c : f32[8, 8]\n"
                           "  %y = reshape %s {shape = [64]} : f32[64]\n"
                           "  %z = neg %y : f32[64]\n"
                           "  return %z\n}\n");
  vtb_plan plan = planned(m);
  int64_t e = slot_of(&plan, m->entry, "e")->offset, a = slot_of(&plan, m->entry, "a")->offset,
          b = slot_of(&plan, m->entry, "b")->offset, s = slot_of(&plan, m->entry, "s")->offset;
  CHECK(e != a && e != b && a != b && e != s && b != s);
  CHECK(plan.peak_bytes == 3 * 256);
  vtb_plan_free(&plan);
  vtb_module_free(m);
}

/* A function's frame is behind its caller's: the entry has room for the deepest chain of calls. */
TEST(frames_of_calls_within_calls_add_up) {
  vtb_module *m = parse_ir("func @inner(%x: f32[64]) -> (f32[64]) {\n"
                           "  %a = exp %x : f32[64]\n  %b = neg %a : f32[64]\n"
                           "  %y = exp %b : f32[64]\n  return %y\n}\n"
                           "func @middle(%x: f32[64]) -> (f32[64]) {\n"
                           "  %c = exp %x : f32[64]\n  %d = call @inner(%c) : f32[64]\n"
                           "  %y = exp %d : f32[64]\n  return %y\n}\n"
                           "entry func @f(%x: f32[64]) -> (f32[64]) {\n"
                           "  %g = neg %x : f32[64]\n  %h = call @middle(%g) : f32[64]\n"
                           "  %y = neg %h : f32[64]\n  return %y\n}\n");
  vtb_plan plan = planned(m);
  int64_t own[3], all[3];
  static const char *const names[] = {"inner", "middle", "f"};
  for (int i = 0; i < 3; i++) {
    const vtb_frame *frame = vtb_plan_frame(&plan, vtb_module_find(m, names[i]));
    own[i] = frame->bytes, all[i] = frame->total_bytes;
    CHECK(own[i] == 2 * 256);
  }
  CHECK(all[0] == own[0] && all[1] == own[1] + own[0] && all[2] == own[2] + own[1] + own[0]);
  CHECK(plan.peak_bytes == all[2]);
  vtb_plan_free(&plan);
  vtb_module_free(m);
}

/* The operands of an instruction are alive while its result is written. */
TEST(a_result_is_not_put_over_its_operands) {
  vtb_module *m = parse_ir("entry func @f(%x: f32[16, 4], %w: f32[4, 4]) -> (f32[16, 4]) {\n"
                           "  %a = exp %x : f32[16, 4]\n"
                           "  %p = einsum %a, %w {spec = \"nc,dc->nd\"} : f32[16, 4]\n"
                           "  %q = einsum %p, %w {spec = \"nc,dc->nd\"} : f32[16, 4]\n"
                           "  %y = neg %q : f32[16, 4]\n"
                           "  return %y\n}\n");
  vtb_plan plan = planned(m);
  int64_t a = slot_of(&plan, m->entry, "a")->offset, p = slot_of(&plan, m->entry, "p")->offset,
          q = slot_of(&plan, m->entry, "q")->offset;
  CHECK(a != p && p != q && plan.peak_bytes == 2 * 256);
  vtb_plan_free(&plan);
  vtb_module_free(m);
}

TEST(plan_views_cost_nothing_and_live_values_do_not_overlap) {
  vtb_module *m = parse_ir("entry func @main(%x: f32[4, 16], %w: f32[8, 8]) -> (f32[4, 8]) {\n"
                           "  %a = slice %x {axis = 1, start = 0, limit = 8} : f32[4, 8]\n"
                           "  %z = slice %x {axis = 1, start = 8, limit = 16} : f32[4, 8]\n"
                           "  %p = einsum %a, %w {spec = \"nc,dc->nd\"} : f32[4, 8]\n"
                           "  %q = einsum %p, %w {spec = \"nc,dc->nd\"} : f32[4, 8]\n"
                           "  %r = einsum %q, %w {spec = \"nc,dc->nd\"} : f32[4, 8]\n"
                           "  %t = transpose %r {perm = [1, 0]} : f32[8, 4]\n"
                           "  %u = transpose %t {perm = [1, 0]} : f32[4, 8]\n"
                           "  %y = add %u, %z : f32[4, 8]\n"
                           "  return %y\n}\n");
  vtb_plan plan;
  vtb_error err = {0};
  CHECK(vtb_plan_memory(m, m->entry, NULL, &plan, &err) == VTB_OK);
  const vtb_frame *frame = vtb_plan_frame(&plan, m->entry);
  vtb_inst *i = m->entry->first;
  const vtb_slot *a = &frame->slots[i->results[0]->id], *z = &frame->slots[i->next->results[0]->id];
  CHECK(a->place == VTB_PLACE_VIEW && a->view_offset == 0 && a->stride[0] == 16);
  CHECK(z->place == VTB_PLACE_VIEW && z->view_offset == 8);
  const vtb_slot *p = &frame->slots[i->next->next->results[0]->id];
  const vtb_slot *q = &frame->slots[i->next->next->next->results[0]->id];
  const vtb_slot *r = &frame->slots[i->next->next->next->next->results[0]->id];
  CHECK(p->offset != q->offset && q->offset != r->offset);
  CHECK(p->offset == r->offset); /* p is dead when r is made */
  CHECK(plan.peak_bytes == 2 * 128);
  CHECK(frame->slots[m->entry->returns[0]->id].place == VTB_PLACE_RETURN);
  vtb_plan_free(&plan);
  vtb_module_free(m);
}

TEST(plan_reshape_of_a_strided_view_is_a_view_only_if_strides_allow) {
  vtb_module *m = parse_ir("entry func @main(%x: f32[4, 16]) -> (f32[32], f32[4, 2, 4]) {\n"
                           "  %a = slice %x {axis = 1, start = 0, limit = 8} : f32[4, 8]\n"
                           "  %flat = reshape %a {shape = [32]} : f32[32]\n"
                           "  %split = reshape %a {shape = [4, 2, 4]} : f32[4, 2, 4]\n"
                           "  %f = neg %flat : f32[32]\n"
                           "  %s = neg %split : f32[4, 2, 4]\n"
                           "  return %f, %s\n}\n");
  vtb_plan plan;
  vtb_error err = {0};
  CHECK(vtb_plan_memory(m, m->entry, NULL, &plan, &err) == VTB_OK);
  const vtb_frame *frame = vtb_plan_frame(&plan, m->entry);
  vtb_inst *i = m->entry->first;
  CHECK(frame->slots[i->next->results[0]->id].place == VTB_PLACE_WORKSPACE);
  const vtb_slot *split = &frame->slots[i->next->next->results[0]->id];
  CHECK(split->place == VTB_PLACE_VIEW && split->stride[0] == 16 && split->stride[1] == 4 &&
        split->stride[2] == 1);
  vtb_plan_free(&plan);
  vtb_module_free(m);
}

TEST(plan_writes_parts_of_a_concatenation_in_place) {
  vtb_module *m = parse_ir("entry func @main(%x: f32[4, 16], %w: f32[8, 16]) -> (f32[4, 24]) {\n"
                           "  %p = einsum %x, %w {spec = \"nc,dc->nd\"} : f32[4, 8]\n"
                           "  %r = reshape %p {shape = [4, 2, 4]} : f32[4, 2, 4]\n"
                           "  %q = einsum %r, %r {spec = \"nac,nbc->nab\"} : f32[4, 2, 2]\n"
                           "  %s = reshape %q {shape = [4, 4]} : f32[4, 4]\n"
                           "  %t = einsum %s, %s {spec = \"ab,cb->ac\"} : f32[4, 4]\n"
                           "  %c = concat %p, %s {axis = 1} : f32[4, 12]\n"
                           "  %d = concat %t, %t, %t {axis = 1} : f32[4, 12]\n"
                           "  %y = concat %c, %d {axis = 1} : f32[4, 24]\n"
                           "  return %y\n}\n");
  vtb_plan plan;
  vtb_error err = {0};
  CHECK(vtb_plan_memory(m, m->entry, NULL, &plan, &err) == VTB_OK);
  const vtb_frame *frame = vtb_plan_frame(&plan, m->entry);
  const vtb_slot *slot[8];
  int n = 0;
  for (vtb_inst *i = m->entry->first; i && n < 8; i = i->next)
    slot[n++] = &frame->slots[i->results[0]->id];
  CHECK(slot[5]->in_place && slot[5]->place == VTB_PLACE_WORKSPACE);
  CHECK(slot[0]->place == VTB_PLACE_VIEW && slot[0]->view_offset == 0 && slot[0]->stride[0] == 12);
  CHECK(slot[1]->base == slot[0]->base && slot[1]->stride[1] == 4);
  CHECK(slot[2]->place == VTB_PLACE_VIEW && slot[2]->view_offset == 8 && slot[2]->stride[1] == 2);
  CHECK(!slot[6]->in_place); /* one value three times */
  CHECK(!slot[7]->in_place); /* parts that are concatenations themselves */
  vtb_plan_free(&plan);
  vtb_module_free(m);
}

TEST(plan_returns_the_value_behind_a_reshape) {
  vtb_module *m =
      parse_ir("entry func @main(%x: f32[4, 16], %w: f32[8, 16]) -> (f32[32], f32[4, 8]) {\n"
               "  %p = einsum %x, %w {spec = \"nc,dc->nd\"} : f32[4, 8]\n"
               "  %r = reshape %p {shape = [32]} : f32[32]\n"
               "  %q = einsum %x, %w {spec = \"nc,dc->nd\"} : f32[4, 8]\n"
               "  return %r, %q\n}\n");
  vtb_plan plan;
  vtb_error err = {0};
  CHECK(vtb_plan_memory(m, m->entry, NULL, &plan, &err) == VTB_OK);
  const vtb_frame *frame = vtb_plan_frame(&plan, m->entry);
  const vtb_slot *p = &frame->slots[m->entry->first->results[0]->id],
                 *r = &frame->slots[m->entry->returns[0]->id];
  CHECK(p->place == VTB_PLACE_RETURN && p->index == 0);
  CHECK(r->place == VTB_PLACE_VIEW && r->base == m->entry->first->results[0]);
  vtb_plan_free(&plan);
  vtb_module_free(m);
}

/* Two runs of which the second begins behind what is prepared: nothing is put over it. */
TEST(what_is_prepared_keeps_its_place_to_the_end) {
  static const char text[] = "entry func @f(%x: f32[64], %w: f32[64] param \"w\") -> (f32[64]) {\n"
                             "  %v = exp %w {prepared = 1} : f32[64]\n"
                             "  %a = mul %x, %v : f32[64]\n"
                             "  %b = exp %a : f32[64]\n"
                             "  %c = exp %b : f32[64]\n"
                             "  %d = exp %c : f32[64]\n"
                             "  return %d\n}\n";
  vtb_module *m = parse_ir(text);
  vtb_plan plan;
  vtb_error err = {0};
  CHECK(vtb_plan_memory(m, m->entry, NULL, &plan, &err) == VTB_OK);
  const vtb_frame *frame = vtb_plan_frame(&plan, m->entry);
  const vtb_slot *prepared = &frame->slots[m->entry->first->results[0]->id];
  int others = 0;
  for (const vtb_inst *i = m->entry->first->next; i; i = i->next) {
    const vtb_slot *s = &frame->slots[i->results[0]->id];
    if (s->place != VTB_PLACE_WORKSPACE) continue;
    others++;
    CHECK_MSG(s->offset >= prepared->offset + prepared->bytes ||
                  s->offset + s->bytes <= prepared->offset,
              "%%%s lies over what is prepared", i->results[0]->name);
  }
  CHECK(prepared->place == VTB_PLACE_WORKSPACE && others == 3);
  CHECK(frame->bytes == 3 * 256); /* of the others two live at a time */
  vtb_plan_free(&plan);
  vtb_module_free(m);
}

int main(void) {
  RUN(a_view_of_a_view_begins_behind_both);
  RUN(a_value_lives_as_long_as_its_views);
  RUN(frames_of_calls_within_calls_add_up);
  RUN(a_result_is_not_put_over_its_operands);
  RUN(plan_views_cost_nothing_and_live_values_do_not_overlap);
  RUN(plan_reshape_of_a_strided_view_is_a_view_only_if_strides_allow);
  RUN(plan_writes_parts_of_a_concatenation_in_place);
  RUN(plan_returns_the_value_behind_a_reshape);
  RUN(what_is_prepared_keeps_its_place_to_the_end);
  return test_done();
}
