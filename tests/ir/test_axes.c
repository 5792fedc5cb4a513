/* Where axes go through ops (ir/axes.h). */
#include "ir/axes.h"
#include "tests/passes/pass_check.h"

enum { GONE = VTB_AXIS_GONE, MIXED = VTB_AXIS_MIXED };

/* The last instruction of a function of these arguments. */
static const vtb_inst *last_of(vtb_module **m, const char *args, const char *body) {
  char text[512];
  snprintf(text, sizeof text,
           "func @f(%s) -> (f32[]) {\n%s\n  %%end = constant {value=0.0} : f32[]\n"
           "  return %%end\n}\n",
           args, body);
  *m = parse_ir(text);
  return *m ? (*m)->first->last->prev : NULL;
}

/* Of every axis of operand o. */
static void goes(const char *args, const char *body, int o, const int *to) {
  vtb_module *m;
  const vtb_inst *i = last_of(&m, args, body);
  for (int a = 0; i && a < i->operands[o]->type.rank; a++)
    CHECK_MSG(vtb_axis_after(i, o, a) == to[a], "%s: axis %d of operand %d goes to %d", body, a, o,
              vtb_axis_after(i, o, a));
  vtb_module_free(m);
}
#define GOES(args, body, o, ...) goes(args, "  " body, o, (const int[]){__VA_ARGS__})

TEST(through_views) {
  GOES("%x: f32[2, 3, 4]", "%y = reshape %x {shape=[2, 12]} : f32[2, 12]", 0, 0, MIXED, MIXED);
  GOES("%x: f32[2, 12]", "%y = reshape %x {shape=[1, 2, 3, 4]} : f32[1, 2, 3, 4]", 0, 1, MIXED);
  GOES("%x: f32[4, 3, 4]", "%y = reshape %x {shape=[12, 4]} : f32[12, 4]", 0, MIXED, MIXED, 1);
  GOES("%x: f32[2, 3, 4]", "%y = transpose %x {perm=[2, 0, 1]} : f32[4, 2, 3]", 0, 1, 2, 0);
  GOES("%x: f32[3, 1]", "%y = broadcast %x {shape=[2, 3, 4]} : f32[2, 3, 4]", 0, 1, 2);
  GOES("%x: f32[2, 6]", "%y = slice %x {axis=1, start=2, limit=4} : f32[2, 2]", 0, 0, MIXED);
}

TEST(through_sums_and_products) {
  GOES("%x: f32[2, 3, 4]", "%y = reduce_sum %x {axes=[0, 2]} : f32[3]", 0, GONE, 0, GONE);
  GOES("%x: f32[2, 3, 4]", "%y = reduce_max %x {axes=[1], keep=1} : f32[2, 1, 4]", 0, 0, GONE, 2);
  const char *args = "%x: f32[2, 3, 4], %w: f32[5, 4], %s: f32[5]";
  GOES(args, "%y = einsum %x, %w, %s {spec=\"bnd,ed->nbe\"} : f32[3, 2, 5]", 0, 1, 0, GONE);
  GOES(args, "%y = einsum %x, %w, %s {spec=\"bnd,ed->nbe\"} : f32[3, 2, 5]", 1, 2, GONE);
  GOES(args, "%y = einsum %x, %w, %s {spec=\"bnd,ed->nbe\"} : f32[3, 2, 5]", 2, 2);
}

TEST(through_what_moves_along_another_axis) {
  const char *args = "%x: f32[2, 5, 3], %i: f32[2, 3]";
  GOES(args, "%y = shift %x, %i {axis=1, by=1} : f32[2, 5, 3]", 0, 0, MIXED, 2);
  GOES(args, "%y = shift %x, %i {axis=1, by=1} : f32[2, 5, 3]", 1, 0, 2);
  GOES(args, "%y = prefix_sum %x {axis=1} : f32[2, 5, 3]", 0, 0, MIXED, 2);
  GOES(args, "%y = mul %x, %x : f32[2, 5, 3]", 1, 0, 1, 2);
  GOES("%x: f32[3], %y: f32[2, 3]", "%z = add %x, %y : f32[2, 3]", 0, 1);
}

TEST(through_rows_at_indices) {
  const char *args =
      "%x: f32[2, 5, 3], %i: i32[2, 6, 7], %d: f32[2, 6, 7, 3], %t: f32[B, 3], %n: i32[B]";
  GOES(args, "%y = gather %x, %i {axis=1} : f32[2, 6, 7, 3]", 0, 0, MIXED, 3);
  GOES(args, "%y = gather %x, %i {axis=1} : f32[2, 6, 7, 3]", 1, 0, 1, 2);
  GOES(args, "%y = gather %t, %n {axis=0} : f32[B, 3]", 0, MIXED, 1);
  GOES(args, "%y = scatter_sum %d, %i {axis=1, size=5} : f32[2, 5, 3]", 0, 0, GONE, GONE, 2);
  GOES(args, "%y = scatter_sum %d, %i {axis=1, size=5} : f32[2, 5, 3]", 1, 0, GONE, GONE);
  GOES(args, "%y = scatter_sum %t, %n {axis=0, size=5} : f32[5, 3]", 0, GONE, 1);
  GOES(args, "%y = scatter_sum %t, %n {axis=0, size=-1} : f32[B, 3]", 0, MIXED, 1);
}

/* What moves with axis `a` of operand 0 in operand 1. */
static int beside(const char *args, const char *body, int a) {
  vtb_module *m;
  const vtb_inst *i = last_of(&m, args, body);
  int at = i ? vtb_axis_beside(i, 0, a, 1) : -9;
  vtb_module_free(m);
  return at;
}

TEST(what_moves_with_it) {
  const char *product = "  %y = einsum %x, %w {spec=\"bnd,ebd->be\"} : f32[2, 5]";
  const char *args = "%x: f32[2, 3, 4], %w: f32[5, 2, 4]";
  CHECK(beside(args, product, 0) == 1 && beside(args, product, 1) == -1);
  CHECK(beside(args, product, 2) == 2); /* summed in both */
  const char *sum = "  %y = add %x, %w : f32[2, 3, 4]";
  CHECK(beside("%x: f32[2, 3, 4], %w: f32[3, 1]", sum, 1) == 0);
  CHECK(beside("%x: f32[2, 3, 4], %w: f32[3, 1]", sum, 0) == -1);
  CHECK(beside("%x: f32[2, 3, 4], %w: f32[3, 1]", sum, 2) == -1);
}

TEST(what_moves_with_rows_at_indices) {
  const char *args = "%x: f32[2, 4, 4], %i: i32[2, 4]";
  const char *picks = "  %y = gather %x, %i {axis=1} : f32[2, 4, 4]";
  const char *sums = "  %y = scatter_sum %x, %i {axis=1, size=4} : f32[2, 4, 4]";
  CHECK(beside(args, picks, 0) == 0 && beside(args, picks, 1) == -1 &&
        beside(args, picks, 2) == -1);
  CHECK(beside(args, sums, 0) == 0 && beside(args, sums, 1) == 1 && beside(args, sums, 2) == -1);
}

static bool keeps(const char *args, const char *body) {
  vtb_module *m;
  const vtb_inst *i = last_of(&m, args, body);
  bool is = i && vtb_keeps_samples(i);
  vtb_module_free(m);
  return is;
}

TEST(samples_apart) {
  CHECK(keeps("%x: f32[B, 4], %w: f32[4, 5]",
              "  %y = einsum %x, %w {spec=\"bd,de->be\"} : f32[B, 5]"));
  CHECK(!keeps("%x: f32[B, 4], %w: f32[B, 5]",
               "  %y = einsum %x, %w {spec=\"bd,be->de\"} : f32[4, 5]"));
  CHECK(!keeps("%x: f32[B, 4]", "  %y = reduce_sum %x {axes=[0]} : f32[4]"));
  CHECK(keeps("%x: f32[B, 4]", "  %y = reduce_sum %x {axes=[1]} : f32[B]"));
  CHECK(keeps("%x: f32[4]", "  %y = exp %x : f32[4]"));
  CHECK(keeps("%x: f32[B, 4], %i: i32[B, 2]", "  %y = gather %x, %i {axis=1} : f32[B, 2]"));
  CHECK(keeps("%x: f32[4], %i: i32[B, 2]", "  %y = gather %x, %i {axis=0} : f32[B, 2]"));
  CHECK(!keeps("%x: f32[B, 4], %i: i32[B]", "  %y = gather %x, %i {axis=0} : f32[B, 4]"));
}

/* [2, 3] with 5 more before axis `at`. */
static void check_with(const char *body, int at, int rank, const int64_t *sizes) {
  vtb_module *m = parse_ir(body);
  if (!m) return;
  vtb_func *f = m->first;
  vtb_builder b = {.module = m, .func = f, .before = f->last};
  vtb_value *y = vtb_b_with_axes(&b, f->first, &f->args[1 + at], at, 1);
  vtb_type want = vtb_type_make(VTB_F32, rank, sizes);
  CHECK_MSG(vtb_type_equal(&y->type, &want), "%s: at %d", body, at);
  vtb_module_free(m);
}

#define ARGS "func @f(%x: f32[2, 3], %y: f32[5, 2, 3], %z: f32[2, 5, 3]) -> (f32[]) {\n  "
#define END "\n  %end = constant {value=0.0} : f32[]\n  return %end\n}\n"

TEST(ops_on_operands_with_more_axes) {
  static const char turned[] = ARGS "%t = transpose %x {perm=[1, 0]} : f32[3, 2]" END;
  static const char sum[] = ARGS "%t = reduce_sum %x {axes=[1]} : f32[2]" END;
  static const char part[] = ARGS "%t = slice %x {axis=1, start=0, limit=1} : f32[2, 1]" END;
  check_with(turned, 0, 3, (const int64_t[]){5, 3, 2});
  check_with(turned, 1, 3, (const int64_t[]){3, 2, 5});
  check_with(sum, 0, 2, (const int64_t[]){5, 2});
  check_with(sum, 1, 2, (const int64_t[]){2, 5});
  check_with(part, 0, 3, (const int64_t[]){5, 2, 1});
  check_with(part, 1, 3, (const int64_t[]){2, 5, 1});
}

int main(void) {
  RUN(through_views);
  RUN(through_sums_and_products);
  RUN(through_what_moves_along_another_axis);
  RUN(through_rows_at_indices);
  RUN(what_moves_with_it);
  RUN(what_moves_with_rows_at_indices);
  RUN(samples_apart);
  RUN(ops_on_operands_with_more_axes);
  return test_done();
}
