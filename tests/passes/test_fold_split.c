/* fold_split: the same numbers, and what leaves the loop. */
#include "tests/passes/grad_check.h"
#include "ir/ops.h"
#include "tests/passes/pass_check.h"
#include "tests/passes/random_step.h"

enum { CELLS = 60 };

static bool lower(vtb_module *m) {
  vtb_diags d = {0};
  vtb_error err = {0};
  vtb_pass_context c = {.module = m, .diags = &d, .batch = GRAD_BATCH};
  vtb_pipeline_options o = {.pipeline = vtb_pipeline_graph, .verify_each = true};
  bool done = vtb_run_pipeline(&c, &o, &err) == VTB_OK;
  if (!done) vtb_diags_print(&d, stderr);
  vtb_diags_free(&d);
  return done;
}

static int count_in(const vtb_func *f, vtb_op op) {
  int n = 0;
  for (const vtb_inst *i = f->first; i; i = i->next)
    n += i->op == op ? 1 : i->op == VTB_OP_call ? count_in(i->callee, op) : 0;
  return n;
}

static int count_in_folds(const vtb_module *m, vtb_op op) {
  int n = 0;
  for (const vtb_func *f = m->first; f; f = f->next)
    for (const vtb_inst *i = f->first; i; i = i->next)
      n += i->op == VTB_OP_fold ? count_in(i->callee, op) : 0;
  return n;
}

/* The entry with the gradients of its first result and of its final states. */
static bool differentiate(vtb_module *m) {
  int outs[8], wrt[16];
  vtb_error err = {0};
  vtb_func *grad = NULL;
  for (int i = 0; i < m->entry->n_returns; i++) outs[i] = i;
  for (int i = 0; i < m->entry->n_args; i++) wrt[i] = i;
  vtb_status status = vtb_autodiff(m, m->entry, outs, m->entry->n_returns, wrt, m->entry->n_args,
                                   &grad, NULL, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  if (grad) m->entry = grad;
  return grad != NULL;
}

TEST(random_cells_and_their_gradients_stay_the_same) {
  int split = 0;
  for (int i = 0; i < CELLS; i++) {
    vtb_module *m = parse_ir(random_step_text(random_step_of(i)));
    if (!m || !lower(m)) {
      CHECK_MSG(false, "cell %d is refused", i);
      return;
    }
    if (!count_ops(m, VTB_OP_fold)) continue; /* it happens to be linear */
    CHECK(differentiate(m) && run_passes(m, "simplify,cse,dce"));
    vtb_module *before = vtb_module_clone(m);
    CHECK(run_passes(m, "fold_split,simplify,cse,dce"));
    double error = compare_modules(before, m, 11 + (unsigned)i);
    CHECK_MSG(error <= 1e-12, "cell %d differs by %g:\n%s", i, error, print_ir(m));
    split += count_in_folds(m, VTB_OP_einsum) < count_in_folds(before, VTB_OP_einsum);
    vtb_module_free(before);
    vtb_module_free(m);
  }
  CHECK_MSG(split > CELLS / 2, "only %d cells of %d were split", split, CELLS);
}

/* A context of one sample makes tiles of one; two samples are two tiles. */
TEST(tiles_of_samples_are_the_same_too) {
  for (int i = 0; i < CELLS; i += 3) {
    vtb_module *m = parse_ir(random_step_text(random_step_of(i)));
    if (!m || !lower(m) || !count_ops(m, VTB_OP_fold)) continue;
    CHECK(differentiate(m) && run_passes(m, "simplify,cse,dce"));
    vtb_module *before = vtb_module_clone(m);
    vtb_pass_context c = {.module = m, .batch = 1, .target = vtb_target_find("cpu")};
    CHECK(run_passes_in(&c, "fold_split,fold_tile,simplify,cse,dce"));
    double error = compare_modules(before, m, 5 + (unsigned)i);
    CHECK_MSG(error <= 1e-12, "cell %d differs by %g", i, error);
    char *text = print_ir(m);
    CHECK_MSG(strstr(text, "tile = 1") != NULL, "cell %d has no tiles", i);
    free(text);
    vtb_module_free(before);
    vtb_module_free(m);
  }
}

/* The new state is a mean over samples: tiles would not know the others. */
static const char mixes_samples[] =
    "entry func @f(%x: f32[B, N=4, 2]) -> (f32[B, N=4, 2]) {\n"
    "  %z = constant {value = 0} : f32[B, 2]\n"
    "  %y, %s = fold @s(%z, %x) {states = 1, seqs = 1} : f32[B, N=4, 2], f32[B, 2]\n"
    "  return %y\n}\n\n"
    "func @s(%s: f32[B, 2], %x: f32[B, N=1, 2]) -> (f32[B, 2], f32[B, N=1, 2]) {\n"
    "  %p = reshape %x {shape = [-1, 2]} : f32[B, 2]\n"
    "  %m = reduce_sum %s {axes = [0], keep = 1} : f32[1, 2]\n  %a = add %m, %p : f32[B, 2]\n"
    "  %t = tanh %a : f32[B, 2]\n  %y = reshape %t {shape = [-1, 1, 2]} : f32[B, N=1, 2]\n"
    "  return %t, %y\n}\n";

TEST(a_step_that_mixes_samples_has_no_tiles) {
  vtb_module *m = parse_ir(mixes_samples);
  vtb_pass_context c = {.module = m, .batch = 2, .target = vtb_target_find("cpu")};
  if (!m || !run_passes_in(&c, "fold_tile")) return;
  char *text = print_ir(m);
  CHECK(strstr(text, "tile") == NULL);
  free(text);
  vtb_module_free(m);
}

static const char both_sides[] =
    "entry func @f(%x: f32[B, N=4, 3], %w: f32[3, 2], %r: f32[2, 2]) -> (f32[B, N=4, 5], f32[3, "
    "2]) {\n"
    "  %z = constant {value = 0} : f32[B, 2]\n  %o = constant {value = 0} : f32[3, 2]\n"
    "  %y, %s, %d = fold @s(%z, %o, %x, %w, %r) {states = 2, seqs = 1, reverse = 1} : f32[B, N=4, "
    "5], f32[B, 2], f32[3, 2]\n"
    "  return %y, %d\n}\n"
    "func @s(%s: f32[B, 2], %d: f32[3, 2], %x: f32[B, N=1, 3], %w: f32[3, 2], %r: f32[2, 2]) -> "
    "(f32[B, 2], f32[3, 2], f32[B, N=1, 5]) {\n"
    "  %xw = einsum %x, %w {spec = \"bni,io->bno\"} : f32[B, N=1, 2]\n"
    "  %p = reshape %xw {shape = [-1, 2]} : f32[B, 2]\n"
    "  %q = einsum %s, %r {spec = \"bi,io->bo\"} : f32[B, 2]\n  %a = add %p, %q : f32[B, 2]\n"
    "  %t = tanh %a : f32[B, 2]\n  %x1 = reshape %x {shape = [-1, 3]} : f32[B, 3]\n"
    "  %e = einsum %x1, %t {spec = \"bi,bo->io\"} : f32[3, 2]\n  %d2 = add %d, %e : f32[3, 2]\n"
    "  %l = einsum %t, %w {spec = \"bo,io->bi\"} : f32[B, 3]\n"
    "  %c = concat %l, %t {axis = 1} : f32[B, 5]\n  %y = reshape %c {shape = [-1, 1, 5]} : f32[B, "
    "N=1, 5]\n"
    "  return %t, %d2, %y\n}\n";

/* One product before the loop, one behind it, one sum over tokens; one stays. */
TEST(products_leave_the_loop_on_both_sides) {
  vtb_module *before = parse_ir(both_sides), *m = parse_ir(both_sides);
  if (!m || !before || !run_passes(m, "fold_split,simplify,cse,dce")) return;
  CHECK(count_in_folds(before, VTB_OP_einsum) == 4 && count_in_folds(m, VTB_OP_einsum) == 1);
  CHECK(count_ops(m, VTB_OP_einsum) == 4 && count_in_folds(m, VTB_OP_concat) == 0);
  for (const vtb_inst *i = m->entry->first; i; i = i->next)
    CHECK(i->op != VTB_OP_fold || vtb_attr_int(i, "states", 0) == 1);
  CHECK(compare_modules(before, m, 3) <= 1e-13);
  vtb_module_free(m);
  vtb_module_free(before);
}

/* Nothing but elementwise ops could leave: the step stays whole. */
static const char whole[] =
    "entry func @f(%x: f32[B, N=4, 2], %r: f32[2, 2]) -> (f32[B, N=4, 2]) {\n"
    "  %z = constant {value = 0} : f32[B, 2]\n"
    "  %y, %s = fold @s(%z, %x, %r) {states = 1, seqs = 1} : f32[B, N=4, 2], f32[B, 2]\n"
    "  return %y\n}\n\n"
    "func @s(%s: f32[B, 2], %x: f32[B, N=1, 2], %r: f32[2, 2]) -> (f32[B, 2], f32[B, N=1, 2]) {\n"
    "  %e = exp %x : f32[B, N=1, 2]\n  %p = reshape %e {shape = [-1, 2]} : f32[B, 2]\n"
    "  %q = einsum %s, %r {spec = \"bi,io->bo\"} : f32[B, 2]\n  %a = add %p, %q : f32[B, 2]\n"
    "  %t = tanh %a : f32[B, 2]\n  %y = reshape %t {shape = [-1, 1, 2]} : f32[B, N=1, 2]\n"
    "  return %t, %y\n}\n";

/* A sum that the step reads is a state. */
static const char reads_its_sum[] =
    "entry func @f(%x: f32[B, N=4, 2]) -> (f32[B, N=4, 2]) {\n"
    "  %z = constant {value = 0} : f32[B, 2]\n"
    "  %y, %s = fold @s(%z, %x) {states = 1, seqs = 1} : f32[B, N=4, 2], f32[B, 2]\n"
    "  return %y\n}\n\n"
    "func @s(%s: f32[B, 2], %x: f32[B, N=1, 2]) -> (f32[B, 2], f32[B, N=1, 2]) {\n"
    "  %p = reshape %x {shape = [-1, 2]} : f32[B, 2]\n  %a = add %s, %p : f32[B, 2]\n"
    "  %t = tanh %a : f32[B, 2]\n  %y = reshape %t {shape = [-1, 1, 2]} : f32[B, N=1, 2]\n"
    "  return %a, %y\n}\n";

TEST(a_step_without_such_products_stays) {
  CHECK_KEPT("fold_split", whole);
  CHECK_KEPT("fold_split", reads_its_sum);
}

/* Bound batches cannot be told from other axes. */
TEST(a_number_for_the_batch_is_left_alone) {
  vtb_module *m = parse_ir(both_sides);
  if (!m || !run_passes(m, "bind")) return;
  char *text = print_ir(m);
  CHECK_KEPT("fold_split", text);
  free(text);
  vtb_module_free(m);
}

int main(void) {
  RUN(random_cells_and_their_gradients_stay_the_same);
  RUN(tiles_of_samples_are_the_same_too);
  RUN(a_step_that_mixes_samples_has_no_tiles);
  RUN(products_leave_the_loop_on_both_sides);
  RUN(a_step_without_such_products_stays);
  RUN(a_number_for_the_batch_is_left_alone);
  return test_done();
}
