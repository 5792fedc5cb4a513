/* Bugs planted in emitted plans. Every argument that is one element shorter than the kernel
 * believes is noticed; every barrier taken out of the text is noticed, or was not needed and
 * changes no number; memory moved onto live memory is noticed before anything runs. */
#include "runtime/launch/launch_check.h"
#include "tests/codegen/codegen_check.h"
#include "tests/codegen/cuda_plan.h"
#include "tests/codegen/emulate.h"

/* Two products with a map between them, whose results live in the workspace, and a reduction. */
static const char model[] =
    "func @f(%x: f32[70, 40], %w: f32[40, 48], %u: f32[48, 33]) -> (f32[70, 33], f32[33]) {\n"
    "  %y = einsum %x, %w {spec = \"mk,kn->mn\"} : f32[70, 48]\n"
    "  %t = square %y : f32[70, 48]\n"
    "  %z = einsum %t, %u {spec = \"mk,kn->mn\"} : f32[70, 33]\n"
    "  %s = reduce_sum %z {axes = [0]} : f32[33]\n"
    "  return %z, %s\n"
    "}\n";
enum { N_IN = 3, N_OUT = 2 };
static const int64_t sizes[N_IN + N_OUT] = {70 * 40, 40 * 48, 48 * 33, 70 * 33, 33};
static float *buffers[N_IN + N_OUT];
static vtb_module *module;
static vtb_services *services;

static vtb_launch_plan *make_plan(void) {
  vtb_error err = {0};
  vtb_launch_plan *plan = NULL;
  vtb_status status = cuda_plan(module, module->entry, &(vtb_codegen_options){0}, &plan, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  if (status != VTB_OK) exit(test_done());
  return plan;
}

/* Runs the plan, and takes it; the error's text, "" if it ran. */
static const char *run(vtb_launch_plan *plan, uint64_t seed) {
  static vtb_error err;
  vtb_program *p = NULL;
  err = (vtb_error){0};
  vtb_status status = vtb_emulator_program(plan, &(vtb_emulator_options){.seed = seed}, &p, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  if (status != VTB_OK) {
    vtb_launch_plan_free(plan);
    return "does not compile";
  }
  status = vtb_program_execute(p, (void *const *)buffers, NULL, services, &err);
  CHECK((status == VTB_OK) == (err.text[0] == 0));
  vtb_program_free(p);
  return err.text;
}

TEST(a_sound_plan) {
  vtb_error err = {0};
  vtb_launch_plan *plan = make_plan();
  CHECK_MSG(vtb_launch_plan_check(plan, NULL, &err) == VTB_OK, "%s", err.text);
  CHECK_STR(run(plan, 1), "");
}

TEST(every_short_argument) {
  vtb_launch_plan *plan = make_plan();
  int n = plan->n_args;
  CHECK(n >= 8);
  vtb_launch_plan_free(plan);
  for (int i = 0; i < n; i++) {
    plan = make_plan();
    plan->args[i].bytes -= 4;
    const char *message = run(plan, (uint64_t)i);
    CHECK_MSG(strstr(message, "access out of bounds"), "argument %d of the plan: \"%s\"", i,
              message);
  }
}

/* The text with barrier `number` taken out; NULL if it has fewer. */
static char *without_barrier(vtb_launch_plan *plan, int number) {
  static const char barrier[] = "vtb_sync();";
  for (int s = 0; s < plan->n_sources; s++)
    for (const char *at = plan->sources[s].text; (at = strstr(at, barrier));
         at += strlen(barrier)) {
      if (number--) continue;
      char *text = vtb_arena_strdup(&plan->arena, plan->sources[s].text);
      memset(text + (at - plan->sources[s].text), ' ', strlen(barrier));
      plan->sources[s].text = text;
      return text;
    }
  return NULL;
}

TEST(every_missing_barrier) {
  int caught = 0, n = 0;
  float want = 0;
  CHECK_STR(run(make_plan(), 1), "");
  want = buffers[N_IN][sizes[N_IN] - 1];
  for (;; n++) {
    vtb_launch_plan *plan = make_plan();
    if (!without_barrier(plan, n)) {
      vtb_launch_plan_free(plan);
      break;
    }
    const char *message = run(plan, (uint64_t)n);
    caught += message[0] != 0;
    if (message[0])
      CHECK_MSG(strstr(message, "shared memory") && strstr(message, "kernels.cu:"),
                "barrier %d: \"%s\"", n, message);
    else
      CHECK_MSG(buffers[N_IN][sizes[N_IN] - 1] == want,
                "barrier %d is missed and changes the result", n);
  }
  CHECK(n > 0 && caught > 0);
}

TEST(memory_that_is_still_needed) {
  vtb_launch_plan *plan = make_plan();
  vtb_error err = {0};
  int moved = 0;
  for (int i = 0; i < plan->n_args; i++) /* every value of the workspace at one place */
    if (plan->args[i].space == VTB_LAUNCH_WORKSPACE && plan->args[i].offset)
      plan->args[i].offset = 0, moved++;
  CHECK(moved > 0);
  CHECK(vtb_launch_plan_check(plan, NULL, &err) == VTB_E_INTERNAL);
  CHECK_MSG(strstr(err.text, "over value") || strstr(err.text, "overwritten"), "%s", err.text);
  vtb_launch_plan_free(plan);
}

int main(void) {
  emulate_or_skip();
  module = parse_ir(model);
  if (!module) return test_done();
  module->entry = vtb_module_find(module, "f");
  services = vtb_services_default(1);
  unsigned long long seed = 88172645463325252ull;
  for (int i = 0; i < N_IN + N_OUT; i++) {
    buffers[i] = vtb_xcalloc((size_t)sizes[i], sizeof *buffers[i]);
    for (int64_t k = 0; k < sizes[i]; k++) buffers[i][k] = (float)test_random(&seed);
  }
  RUN(a_sound_plan);
  RUN(every_short_argument);
  RUN(every_missing_barrier);
  RUN(memory_that_is_still_needed);
  for (int i = 0; i < N_IN + N_OUT; i++) free(buffers[i]);
  vtb_services_free(services);
  vtb_module_free(module);
  return test_done();
}
