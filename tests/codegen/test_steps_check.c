/* The checker of steps: sound ones pass, and with one field broken it says which rule that
 * breaks. */
#include "codegen/steps_check.h"
#include "codegen/cuda/plan/update.h"
#include "tests/passes/pass_check.h"

static const char text[] =
    "module \"m\"\n"
    "entry func @main(%x: f32[4, 6], %s: f32[4, 3], %seq: f32[4, 5, 1, 2], %when: f32[]) -> "
    "(f32[6, 4], f32[6], f32[4, 3], f32[4, 5, 1, 3]) {\n"
    "  %c = constant {value = 2.0} : f32[4, 6]\n"
    "  %a = mul %x, %c : f32[4, 6]\n"
    "  %t = transpose %a {perm = [1, 0]} : f32[6, 4]\n"
    "  %k = constant {value = 3.0} : f32[6, 4]\n"
    "  %w = call @g(%t, %k) : f32[6, 4]\n"
    "  %r = reduce_sum %a {axes = [0]} : f32[6]\n"
    "  %sum = sum_ranks %r, %when {ranks = 2} : f32[6]\n"
    "  %e = exp %w : f32[6, 4]\n"
    "  %z = neg %sum : f32[6]\n"
    "  %y, %last = fold @step(%s, %seq) {states = 1, seqs = 1} : f32[4, 5, 1, 3], f32[4, 3]\n"
    "  return %e, %z, %last, %y\n"
    "}\n"
    "func @g(%x: f32[6, 4], %k: f32[6, 4]) -> (f32[6, 4]) {\n"
    "  %y = mul %x, %k : f32[6, 4]\n"
    "  return %y\n"
    "}\n"
    "func @step(%s: f32[4, 3], %u: f32[4, 1, 1, 2]) -> (f32[4, 3], f32[4, 1, 1, 3]) {\n"
    "  %v = reduce_sum %u {axes = [1, 2, 3]} : f32[4]\n"
    "  %q = reshape %v {shape = [4, 1]} : f32[4, 1]\n"
    "  %n = add %s, %q : f32[4, 3]\n"
    "  %o = reshape %n {shape = [4, 1, 1, 3]} : f32[4, 1, 1, 3]\n"
    "  return %n, %o\n"
    "}\n";

static vtb_module *m;
static vtb_steps steps;
static vtb_error err;

static void make(void) {
  m = parse_ir(text);
  err = (vtb_error){0};
  if (!run_passes_in(&(vtb_pass_context){.module = m, .batch = 1}, "fuse")) exit(1);
  const vtb_places *places = &vtb_target_find("cpu")->places;
  if (vtb_steps_make(m, m->entry, places, &steps, &err) != VTB_OK ||
      vtb_steps_check(&steps, &err) != VTB_OK) {
    CHECK_MSG(false, "%s", err.text);
    exit(1);
  }
}

static vtb_func_steps *entry(void) { return &steps.funcs[steps.n_funcs - 1]; }

/* The n-th step of a kind. */
static vtb_step *step(vtb_step_kind kind, int n) {
  for (size_t i = 0; i < entry()->list.n; i++)
    if (entry()->list.at[i].kind == kind && n-- == 0) return &entry()->list.at[i];
  CHECK_MSG(false, "there is no such step of kind %d", (int)kind);
  exit(1);
}

static vtb_spot *first_spot(vtb_spot_kind at) {
  for (size_t i = 0; i < entry()->list.n; i++) {
    vtb_step *s = &entry()->list.at[i];
    for (int k = 0; k < s->n_operands + s->n_results; k++)
      if (s->at[k].at == at) return &s->at[k];
  }
  CHECK_MSG(false, "nothing lies at %d", (int)at);
  exit(1);
}

static void refused(const char *why) {
  err = (vtb_error){0};
  CHECK(vtb_steps_check(&steps, &err) == VTB_E_INTERNAL);
  CHECK_MSG(strstr(err.text, why), "\"%s\", not \"%s\"", err.text, why);
  vtb_steps_free(&steps);
  vtb_module_free(m);
}

TEST(places) {
  make();
  first_spot(VTB_AT_ARG)->index = 8;
  refused("a tensor is argument 8 of 8");
  make();
  first_spot(VTB_AT_FRAME)->value = entry()->n_values;
  refused("a tensor is value ");
  make();
  first_spot(VTB_AT_FRAME)->offset = entry()->tail_base;
  refused(" of the frame's ");
  make();
  first_spot(VTB_AT_FRAME)->offset = -64;
  refused("a tensor begins before its memory");
  make();
  first_spot(VTB_AT_CONSTANT)->stride[0] = 1;
  refused("a constant of equal elements has strides");
  make();
  first_spot(VTB_AT_CONSTANT)->constant = NULL;
  refused("a constant has no data");
  make();
  first_spot(VTB_AT_FRAME)->type = NULL;
  refused("a tensor has no type");
  make();
  entry()->tail_base = 64;
  refused("");
}

TEST(kinds) {
  make();
  step(VTB_STEP_KERNEL, 0)->inst = NULL;
  refused("is of no instruction");
  make();
  step(VTB_STEP_KERNEL, 0)->label = NULL;
  refused("has no label");
  make();
  step(VTB_STEP_COPY, 0)->label = "label";
  refused("a copy or a wait has a label");
  make();
  step(VTB_STEP_KERNEL, 0)->tail = 4;
  refused("takes 4 bytes of the tail");
  make();
  step(VTB_STEP_COPY, 0)->at[1].type = m->entry->args[1] ? &m->entry->args[1]->type : NULL;
  refused("a copy changes the type");
  make();
  vtb_step *call = step(VTB_STEP_CALL, 0);
  call->at[0].stride[0] = 1, call->at[0].stride[1] = 6;
  refused("operand 0 of a function is not dense and aligned");
}

TEST(sums) {
  make();
  step(VTB_STEP_SUM, 0)->at[0].offset += 64;
  refused("a sum over ranks is not in place, or not dense");
  make();
  step(VTB_STEP_SUM, 0)->at[1].type = step(VTB_STEP_SUM, 0)->at[0].type;
  step(VTB_STEP_SUM, 0)->at[1].stride[0] = 0;
  refused("a sum over ranks is asked for by more than a number");
  make(); /* what reads the sum comes before the wait */
  vtb_step *wait = step(VTB_STEP_WAIT, 0), held = *wait;
  wait[0] = wait[1];
  wait[1] = held;
  refused("touches a tensor that is being summed, without a wait before it");
  make();
  wait = step(VTB_STEP_WAIT, 0);
  entry()->list.n = (size_t)(wait - entry()->list.at);
  refused("1 sums are never waited for");
}

TEST(folds) {
  make();
  step(VTB_STEP_FOLD, 0)->fold->parts[0].n = 4;
  refused("part 0 of the fold has 4 steps of 5");
  make();
  step(VTB_STEP_FOLD, 0)->fold->parts[0].len = 3;
  refused("part 0 of the fold is not its sequence cut into steps");
  make();
  step(VTB_STEP_FOLD, 0)->fold->parts[0].step.at = VTB_AT_FRAME;
  refused("part 0 of the fold is copied and has no place in the tail");
  make();
  step(VTB_STEP_FOLD, 0)->fold->parts[0].step.offset = step(VTB_STEP_FOLD, 0)->fold->frame;
  refused(" of the tail's ");
  make();
  step(VTB_STEP_FOLD, 0)->fold->before[0].part = 2;
  refused("a fold moves part 2");
  make();
  step(VTB_STEP_FOLD, 0)->fold->before[0].old = 1;
  refused("a fold moves state 1");
  make();
  step(VTB_STEP_FOLD, 0)->fold->n_slots--;
  refused("the fold hands 3 tensors to @step, which has 4");
  make();
  step(VTB_STEP_FOLD, 0)->fold->slots[2].kind = VTB_FOLD_OLD;
  refused("tensor 2 that the fold hands on cannot be that");
}

TEST(functions) {
  make();
  steps.funcs[0].runs++;
  refused("and runs ");
  make();
  steps.funcs[0].is_step = true;
  refused("the function runs inside a kernel and is called as well");
  make();
  size_t last = steps.n_funcs - 1;
  vtb_func_steps callee = steps.funcs[0];
  steps.funcs[0] = steps.funcs[last];
  steps.funcs[last] = callee;
  refused(", which comes later");
}

/* Steps that only prepare come first, and nothing else writes what is kept. */
TEST(what_is_kept) {
  static const char prepared[] =
      "module \"m\"\n"
      "entry func @main(%x: f32[4, 6], %w: f32[4, 6] param \"w\") -> (f32[4, 6]) {\n"
      "  %a = exp %x : f32[4, 6]\n"
      "  %b = exp %w : f32[4, 6]\n"
      "  %c = mul %a, %b : f32[4, 6]\n"
      "  return %c\n"
      "}\n";
  for (int at = 0; at < 2; at++) {
    m = parse_ir(prepared);
    err = (vtb_error){0};
    if (!run_passes_in(&(vtb_pass_context){.module = m, .batch = 1}, "prepare")) exit(1);
    const vtb_places *places = &vtb_target_find("cpu")->places;
    CHECK_MSG(vtb_steps_make(m, m->entry, places, &steps, &err) == VTB_OK, "%s", err.text);
    CHECK_MSG(vtb_steps_check(&steps, &err) == VTB_OK, "%s", err.text);
    CHECK(entry()->list.n == 3 && entry()->n_prepared == 1 && entry()->list.at[0].prepared);
    if (at == 0) {
      first_spot(VTB_AT_KEPT)->offset = 64;
      refused("a tensor ends at byte 160 of the kept memory's 128");
    } else {
      entry()->n_prepared = 0;
      refused("writes what is kept, in every run");
    }
  }
}

/* ---- the state of a training step on CUDA (codegen/cuda/plan/update.h) ----------------------- */

static const char training[] =
    "module \"m\"\n"
    "rule @descend(%w: f32[B], %d: f32[B], %factor: f32[], %rate: f32[], %decay: f32[], %t: f32[], "
    "%lr: f32[], %average: f32[], %clip: f32[], %scale: f32[]) -> (f32[B]) {\n"
    "  %r = mul %rate, %lr : f32[]\n"
    "  %m = mul %d, %r : f32[B]\n"
    "  %n = sub %w, %m : f32[B]\n"
    "  return %n\n"
    "}\n"
    "entry func @main(%a: f32[100] param, %b: f32[6], %da: f32[100], %db: f32[6], %scalars: f32[5, "
    "2], %rates: f32[2, 2], %loss: f32[]) -> (f32[100], f32[6]) {\n"
    "  %gb = neg %db : f32[6]\n"
    "  %ga = neg %da : f32[100]\n"
    "  %v = verdict %scalars, %loss, %ga, %gb : f32[4]\n"
    "  %na, %nb = update @descend(%scalars, %rates, %v, %a, %b, %ga, %gb) {tensors = 2} : "
    "f32[100], f32[6]\n"
    "  return %na, %nb\n"
    "}\n";

static vtb_cuda cuda;

static void make_layout(void) {
  m = parse_ir(training);
  if (!m) exit(1);
  cuda = (vtb_cuda){0};
  err = (vtb_error){0};
  vtb_arena_init(&cuda.arena);
  vtb__cuda_update_layout(&cuda, m->entry);
  CHECK_MSG(vtb__cuda_layout_check(&cuda, &err) == VTB_OK, "%s", err.text);
}

static void layout_refused(const char *why) {
  err = (vtb_error){0};
  CHECK(vtb__cuda_layout_check(&cuda, &err) == VTB_E_INTERNAL);
  CHECK_MSG(strstr(err.text, why), "\"%s\", not \"%s\"", err.text, why);
  vtb_arena_free(&cuda.arena);
  vtb_module_free(m);
}

TEST(layouts_of_a_state) {
  make_layout();
  CHECK(cuda.groups->order[0] == 1); /* the gradient of %b is made first */
  cuda.groups->order[0] = 0;
  layout_refused("state: place 1 is of tensor 0, as another is");
  make_layout();
  cuda.groups->slot[0] -= 32;
  layout_refused("state: %a begins at element 32, behind 6");
  make_layout();
  cuda.groups->slot[0] = 0;
  layout_refused("state: %a begins at element 0, behind 6");
  make_layout();
  cuda.groups->bytes -= 256;
  layout_refused("state: slots end at byte 656 of a region of ");
  make_layout();
  cuda.groups->begin[1] = 0;
  layout_refused("state: region 1 begins at byte 0, behind ");
  make_layout();
  cuda.state_bytes -= 512;
  layout_refused("state: regions end at byte ");
}

int main(void) {
  RUN(places);
  RUN(kinds);
  RUN(sums);
  RUN(folds);
  RUN(functions);
  RUN(what_is_kept);
  RUN(layouts_of_a_state);
  return test_done();
}
