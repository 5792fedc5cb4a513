/* Loops of launch plans on a device, with a driver that needs none (fake_cuda.c): turns in graphs,
 * profiles, and numbers on the device that end them. */
#include "runtime/cuda/cuda.h"
#include "runtime/launch/threads.h"
#include "tests/test.h"

#include <dlfcn.h>

static int *allocations, *launches, *graph_launches, *alive, *faults, *fail_number;
static const char **failed;
static char *trace;
static vtb_services *services;
static int32_t by; /* what each kernel adds to whole numbers */

static void add(const char *kernel, unsigned blocks, unsigned threads, unsigned shared,
                void **parameters) {
  const int32_t *in = (const int32_t *)*(uintptr_t *)parameters[0];
  int32_t *out = (int32_t *)*(uintptr_t *)parameters[1];
  (void)kernel, (void)shared;
  for (unsigned i = 0; i < blocks * threads; i++) out[i] = in[i] + by;
}

static vtb_launch_arg arg(int space, int tensor, int access, int value, int64_t offset) {
  return (vtb_launch_arg){.space = (uint8_t)space,
                          .access = (uint8_t)access,
                          .element_bytes = 4,
                          .align = 16,
                          .tensor = tensor,
                          .value = value,
                          .offset = offset,
                          .bytes = 256,
                          .touched = 256};
}

/* x -> a, `times` times { a -> b, b -> a }, a -> y; a is the condition, if it `asks`. */
static vtb_program *make(int64_t times, bool asks) {
  enum { X = VTB_LAUNCH_TENSOR, WS = VTB_LAUNCH_WORKSPACE, R = VTB_LAUNCH_READ };
  enum { W = VTB_LAUNCH_WRITE };
  vtb_launch_plan *p = vtb_xcalloc(1, sizeof *p);
  const vtb_launch_arg args[] = {arg(X, 0, R, 0, 0),    arg(WS, 0, W, 2, 0),   arg(WS, 0, R, 2, 0),
                                 arg(WS, 0, W, 3, 256), arg(WS, 0, R, 3, 256), arg(WS, 0, W, 2, 0),
                                 arg(WS, 0, R, 2, 0),   arg(X, 1, W, 1, 0),    arg(WS, 0, R, 2, 0)};
  const vtb_launch_loop loop = {.first = 1, .n = 2, .times = times, .condition = asks ? 9 : 0};
  const vtb_tensor_info tensors[] = {{.name = "x", .io = VTB_IO_INPUT, .rank = 1, .dim = {64}},
                                     {.name = "y", .io = VTB_IO_OUTPUT, .rank = 1, .dim = {64}}};
  vtb_cuda_image image = {"fake", 5};
  vtb_cuda_device *device = NULL;
  vtb_program *program = NULL;
  vtb_error err = {0};
  p->n_tensors = 2;
  p->tensors = vtb_arena_memdup(&p->arena, tensors, sizeof tensors);
  p->batch = 1;
  p->workspace_bytes = 512;
  p->n_sources = p->n_kernels = p->n_loops = 1;
  p->n_steps = 4;
  p->n_args = 9;
  p->sources = VTB_NEW_ARRAY(&p->arena, vtb_launch_source, 1);
  p->kernels = VTB_NEW_ARRAY(&p->arena, vtb_launch_kernel, 1);
  p->kernels[0] = (vtb_launch_kernel){.name = "k_add", .threads = 64, .n_args = 2};
  p->steps = VTB_NEW_ARRAY(&p->arena, vtb_launch_step, 4);
  for (int i = 0; i < 4; i++) p->steps[i] = (vtb_launch_step){VTB_LAUNCH_KERNEL, 0, 1, 2 * i, 2};
  p->args = vtb_arena_memdup(&p->arena, args, sizeof args);
  p->args[8].bytes = p->args[8].touched = 4;
  p->loops = vtb_arena_memdup(&p->arena, &loop, sizeof loop);
  CHECK(vtb_cuda_device_open(NULL, &device, &err) == VTB_OK);
  vtb_status status = vtb_cuda_program(p, &image, device, &program, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  return program;
}

static int32_t run(vtb_program *p, int32_t first) {
  int32_t x[64] = {first}, y[64] = {0};
  void *args[] = {x, y};
  vtb_error err = {0};
  *trace = '\0';
  CHECK_MSG(vtb_program_execute(p, args, NULL, services, &err) == VTB_OK, "%s", err.text);
  return y[0];
}

static void end(vtb_program *p) {
  vtb_program_free(p);
  CHECK(*allocations == 0 && *alive == 0 && *faults == 0);
}

/* Few launches are one graph; of many each turn is a launch of one graph, with one for what is
 * before the loop and one for what is behind it. */
TEST(many_turns_share_a_graph) {
  static const int times[] = {3, 2100}, graphs[] = {1, 2102};
  by = 1;
  for (int i = 0; i < 2; i++) {
    vtb_program *p = make(times[i], false);
    if (!p) return;
    *launches = *graph_launches = 0;
    for (int r = 0; r < 3; r++) CHECK(run(p, r) == r + 2 + 2 * times[i]);
    CHECK_MSG(*launches == 3 * (2 + 2 * times[i]), "%d launches", *launches);
    CHECK_MSG(*graph_launches == 2 * graphs[i], "%d launches of graphs", *graph_launches);
    end(p);
  }
}

/* All kernels take 1 away. What the first one leaves says how many turns are run before the number
 * is read again, or, below 0, at all, of four at most. */
static int n_warnings;
static void warn(const char *text) {
  (void)text;
  n_warnings++;
}

/* And no graph is tried that would hold the question. */
TEST(a_number_on_the_device_ends_a_loop) {
  static const struct {
    int x, y, answers;
  } all[] = {{1, -1, 1}, {0, -4, 1}, {2, -4, 2}, {3, -7, 2}, {6, -4, 1}, {5, -5, 1}};
  by = -1;
  vtb_program *p = make(4, true);
  n_warnings = 0;
  if (p) p->warn = warn;
  for (size_t i = 0; p && i < sizeof all / sizeof *all; i++) {
    int32_t y = run(p, all[i].x);
    int n = 0;
    for (const char *at = trace; (at = strstr(at, "out 4;sync;")); at++) n++;
    CHECK_MSG(y == all[i].y && n == all[i].answers, "%d: %d with %d answers, %s", all[i].x, y, n,
              trace);
  }
  CHECK(n_warnings == 0);
  end(p);
}

TEST(profiles_count_every_turn) {
  vtb_services *plain = services;
  int n;
  by = -1;
  services = vtb_services_profiling(1, 1);
  for (int asks = 0; asks < 2; asks++) {
    vtb_program *p = make(3, asks);
    if (!p) return;
    CHECK(run(p, 3) == -5); /* three turns, the third of which is the second answer's */
    end(p);
  }
  const vtb_kernel_time *all = vtb_services_times(services, &n);
  CHECK(n == 1 && all[0].launches == 16);
  vtb_services_free(services);
  services = plain;
}

/* The n-th call fails: the run before, in or behind the loop ends with a sentence, or goes on
 * without a graph; nothing is left, and the next run is whole. */
TEST(any_call_of_a_loop_may_fail) {
  by = -1;
  for (int n = 1;; n++) {
    vtb_program *p = make(4, true);
    vtb_status status = VTB_OK;
    vtb_error err = {0};
    if (!p) return;
    p->warn = warn;
    n_warnings = 0;
    *failed = NULL;
    *fail_number = n;
    for (int i = 0; i < 3 && status == VTB_OK; i++) {
      int32_t x[64] = {3}, y[64] = {0};
      void *args[] = {x, y};
      status = vtb_program_execute(p, args, NULL, services, &err);
      if (status == VTB_OK) CHECK_MSG(y[0] == -7, "call %d, run %d: %d", n, i, y[0]);
    }
    *fail_number = 0;
    const char *name = *failed;
    bool told = (status == VTB_E_DEVICE && name && strstr(err.text, name)) || n_warnings == 1;
    if (name && !strstr(name, "Destroy")) /* of what gives back nobody is told */
      CHECK_MSG(told, "call %d, %s: %d, \"%s\"", n, name, (int)status, err.text);
    CHECK(run(p, 3) == -7);
    end(p);
    if (!name) {
      CHECK_MSG(n > 30, "%d calls", n);
      return;
    }
  }
}

int main(void) {
  void *fake = dlopen(VTB_FAKE_CUDA, RTLD_NOW);
  if (!fake) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  setenv("VTB_CUDA_DRIVER", VTB_FAKE_CUDA, 1);
  allocations = dlsym(fake, "fake_cuda_allocations");
  launches = dlsym(fake, "fake_cuda_launches");
  graph_launches = dlsym(fake, "fake_cuda_graph_launches");
  alive = dlsym(fake, "fake_cuda_alive");
  faults = dlsym(fake, "fake_cuda_faults");
  failed = dlsym(fake, "fake_cuda_failed");
  fail_number = dlsym(fake, "fake_cuda_fail_number");
  trace = dlsym(fake, "fake_cuda_trace");
  void (**hook)(const char *, unsigned, unsigned, unsigned, void **) =
      dlsym(fake, "fake_cuda_hook");
  *hook = add;
  services = vtb_services_default(1);
  RUN(many_turns_share_a_graph);
  RUN(a_number_on_the_device_ends_a_loop);
  RUN(profiles_count_every_turn);
  RUN(any_call_of_a_loop_may_fail);
  vtb_services_free(services);
  dlclose(fake);
  return test_done();
}
