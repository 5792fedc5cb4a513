/* Launch plans on a device, with a driver that needs none (fake_cuda.c): loading, copies, order of
 * steps, the graph from the second run on, and what is said when something fails. */
#include "runtime/cuda/cuda.h"
#include "runtime/launch/threads.h"
#include "runtime/launch/trace.h"
#include "tests/test.h"

#include <dlfcn.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

typedef void (*hook_fn)(const char *, unsigned, unsigned, unsigned, void **);
static hook_fn *hook;
static const char **fail_at;
static int *allocations, *launches, *graph_launches, *devices, *fail_number, *alive, *faults;
static const char **failed;
static char *trace;
static vtb_services *services;
static int prepared;               /* of the next plan's steps */
static vtb_io role = VTB_IO_INPUT; /* of its x */

/* k_double: out[i] = 2 in[i]; k_add_one: out[i] = in[i] + 1. One thread an element. */
static void run_kernel(const char *kernel, unsigned blocks, unsigned threads, unsigned shared,
                       void **parameters) {
  const float *in = (const float *)*(uintptr_t *)parameters[0];
  float *out = (float *)*(uintptr_t *)parameters[1];
  bool twice = strcmp(kernel, "k_double") == 0;
  CHECK(shared == (twice ? 65536u : 0));
  for (unsigned i = 0; i < blocks * threads; i++) out[i] = twice ? 2 * in[i] : in[i] + 1;
}

static vtb_launch_arg arg(int space, int tensor, int access, int value) {
  return (vtb_launch_arg){.space = (uint8_t)space,
                          .access = (uint8_t)access,
                          .element_bytes = 4,
                          .align = 16,
                          .tensor = tensor,
                          .value = value,
                          .bytes = 256};
}

static int clusters; /* of the first kernel's blocks, where there are any */

/* y = 2 x + 1 in two launches through the workspace. */
static vtb_launch_plan *make_plan(const char *second) {
  vtb_launch_plan *p = vtb_xcalloc(1, sizeof *p);
  vtb_arena *a = &p->arena;
  p->n_tensors = 2;
  p->tensors = VTB_NEW_ARRAY(a, vtb_tensor_info, 2);
  p->tensors[0] = (vtb_tensor_info){.name = "x", .io = role, .rank = 1, .dim = {64}};
  p->tensors[1] = (vtb_tensor_info){.name = "y", .io = VTB_IO_OUTPUT, .rank = 1, .dim = {64}};
  p->batch = 1;
  p->workspace_bytes = 256;
  p->n_sources = 1;
  p->sources = VTB_NEW_ARRAY(a, vtb_launch_source, 1);
  p->n_kernels = p->n_steps = 2;
  p->n_prepared = prepared;
  p->kernels = VTB_NEW_ARRAY(a, vtb_launch_kernel, 2);
  p->kernels[0] =
      (vtb_launch_kernel){.name = "k_double", .threads = 32, .shared_bytes = 65536, .n_args = 2};
  p->kernels[0].info = (vtb_kernel_info){.name = "k_double", .origin = "model.vtb:3"};
  if (clusters) p->kernels[0].cluster = clusters, p->kernels[0].arch = 90;
  p->kernels[1] = (vtb_launch_kernel){.name = second, .threads = 64, .n_args = 2};
  p->kernels[1].info = (vtb_kernel_info){.name = second, .origin = "model.vtb:7"};
  p->steps = VTB_NEW_ARRAY(a, vtb_launch_step, 2);
  p->steps[0] = (vtb_launch_step){VTB_LAUNCH_KERNEL, 0, 2, 0, 2};
  p->steps[1] = (vtb_launch_step){VTB_LAUNCH_KERNEL, 1, 1, 2, 2};
  p->n_args = 4;
  p->args = VTB_NEW_ARRAY(a, vtb_launch_arg, 4);
  p->args[0] = arg(VTB_LAUNCH_TENSOR, 0, VTB_LAUNCH_READ, 0);
  p->args[1] = arg(VTB_LAUNCH_WORKSPACE, 0, VTB_LAUNCH_WRITE, 1);
  p->args[2] = arg(VTB_LAUNCH_WORKSPACE, 0, VTB_LAUNCH_READ, 1);
  p->args[3] = arg(VTB_LAUNCH_TENSOR, 1, VTB_LAUNCH_WRITE, 2);
  return p;
}

static vtb_behaviour how; /* of what is made */

static vtb_status make_program(const char *second, const char *image, vtb_program **program,
                               vtb_error *err) {
  vtb_cuda_image images[] = {{image, strlen(image) + 1}};
  vtb_cuda_device *device = NULL;
  vtb_status status = vtb_cuda_device_open(&how, &device, err);
  if (status != VTB_OK) return status;
  CHECK_STR(vtb_cuda_device_arch(device), "sm_90a");
  vtb_launch_plan *plan = make_plan(second);
  status = vtb_cuda_program(plan, images, device, program, err);
  if (status == VTB_OK) return status;
  vtb_launch_plan_free(plan);
  vtb_cuda_device_close(device);
  return status;
}

static void run_and_compare(vtb_program *p, float start) {
  float x[64], y[64];
  void *args[] = {x, y};
  vtb_error err = {0};
  for (int i = 0; i < 64; i++) x[i] = start + (float)i;
  CHECK_MSG(vtb_program_execute(p, args, NULL, services, &err) == VTB_OK, "%s", err.text);
  for (int i = 0; i < 64; i++) CHECK(y[i] == 2 * (start + (float)i) + 1);
}

TEST(runs_and_then_replays_a_graph) {
  vtb_program *p = NULL;
  vtb_error err = {0};
  CHECK_MSG(make_program("k_add_one", "fake", &p, &err) == VTB_OK, "%s", err.text);
  if (!p) return;
  *launches = *graph_launches = 0;
  run_and_compare(p, 0);
  CHECK(*launches == 2 && *graph_launches == 0);
  run_and_compare(p, 5);
  run_and_compare(p, 9);
  CHECK(*launches == 6 && *graph_launches == 2);
  vtb_program_free(p);
  CHECK(*allocations == 0);
}

TEST(the_graph_can_be_turned_off) {
  vtb_program *p = NULL;
  vtb_error err = {0};
  how.cuda_graph = VTB_NO;
  CHECK(make_program("k_add_one", "fake", &p, &err) == VTB_OK);
  how.cuda_graph = VTB_UNSAID;
  *graph_launches = 0;
  for (int i = 0; i < 3; i++) run_and_compare(p, (float)i);
  CHECK(*graph_launches == 0);
  vtb_program_free(p);
}

TEST(profiles_count_every_kernel) {
  vtb_program *p = NULL;
  vtb_error err = {0};
  CHECK(make_program("k_add_one", "fake", &p, &err) == VTB_OK);
  vtb_services *plain = services;
  int n;
  services = vtb_services_profiling(1, 2);
  vtb_trace *t = vtb_trace_new(1, 10);
  vtb_services_trace(services, t);
  for (int i = 0; i < 3; i++) {
    *trace = '\0';
    run_and_compare(p, 1);
    CHECK_STR(trace, "in 256;sync;event;launch k_double;event;launch k_add_one;event;sync;"
                     "out 256;sync;");
  }
  const vtb_kernel_time *times = vtb_services_times(services, &n);
  CHECK(n == 2 && times[0].launches == 3 && times[1].launches == 3);
  for (int i = 0; i < 2; i++) /* by the device's clock */
    CHECK_MSG(fabs(times[i].seconds - 3e-3) < 1e-9, "%g s", times[i].seconds);
  CHECK(t->launches.n == 6 && t->launches.at[1].kernel == 1);
  CHECK(fabs(t->launches.at[1].begin - t->launches.at[0].end) < 1e-9);
  vtb_trace_free(t);
  vtb_services_free(services);
  services = plain;
  vtb_program_free(p);
  CHECK(*allocations == 0 && *alive == 0);
}

/* Without new parameters the first step is not repeated; with new ones it is, also once there is a
 * graph. */
TEST(prepared_steps_are_run_when_parameters_change) {
  const unsigned fixed = 1u << VTB_IO_PARAM | 1u << VTB_IO_BUFFER;
  vtb_program *p = NULL;
  vtb_error err = {0};
  prepared = 1;
  CHECK_MSG(make_program("k_add_one", "fake", &p, &err) == VTB_OK, "%s", err.text);
  prepared = 0;
  if (!p) return;
  *launches = *graph_launches = 0;
  run_and_compare(p, 0);
  vtb_program_keep(p, fixed);
  float x[64] = {4}, y[64];
  void *args[] = {x, y};
  for (int i = 0; i < 2; i++) {
    CHECK(vtb_program_execute(p, args, NULL, services, &err) == VTB_OK);
    CHECK(y[0] == 1); /* as prepared from the run before */
  }
  CHECK(*launches == 4 && *graph_launches == 2);
  vtb_program_keep(p, 0);
  run_and_compare(p, 3);
  CHECK(*launches == 6 && *graph_launches == 3);
  vtb_program_free(p);
  CHECK(*allocations == 0);
}

/* Kept inputs are those of the run before; kept results do not come back. */
TEST(copies_can_be_left_out) {
  vtb_program *p = NULL;
  vtb_error err = {0};
  float x[64] = {1}, y[64];
  void *args[] = {x, y};
  CHECK(make_program("k_add_one", "fake", &p, &err) == VTB_OK);
  vtb_program_keep(p, 1u << VTB_IO_INPUT);
  CHECK(vtb_program_execute(p, args, NULL, services, &err) == VTB_OK &&
        y[0] == 3); /* the first run copies */
  x[0] = 10;
  CHECK(vtb_program_execute(p, args, NULL, services, &err) == VTB_OK && y[0] == 3);
  vtb_program_keep(p, ~0u);
  y[0] = -1;
  CHECK(vtb_program_execute(p, args, NULL, services, &err) == VTB_OK && y[0] == -1);
  vtb_program_keep(p, 0);
  CHECK(vtb_program_execute(p, args, NULL, services, &err) == VTB_OK && y[0] == 21);
  vtb_program_free(p);
}

/* What is kept of parameters does not keep the inputs. */
TEST(inputs_are_copied_whatever_is_kept) {
  vtb_program *p = NULL;
  vtb_error err = {0};
  CHECK(make_program("k_add_one", "fake", &p, &err) == VTB_OK);
  vtb_program_keep(p, 1u << VTB_IO_PARAM | 1u << VTB_IO_BUFFER);
  for (int i = 0; i < 4; i++) {
    float x[64] = {(float)i}, y[64];
    void *args[] = {x, y};
    CHECK(vtb_program_execute(p, args, NULL, services, &err) == VTB_OK);
    CHECK_MSG(y[0] == (float)(2 * i + 1), "run %d: %g", i, (double)y[0]);
  }
  vtb_program_free(p);
}

static void expect_failure(const char *call, const char *message) {
  vtb_program *p = NULL;
  vtb_error err = {0};
  *fail_at = call;
  vtb_status status = make_program("k_add_one", "fake", &p, &err);
  if (status == VTB_OK) {
    float x[64] = {0}, y[64];
    void *args[] = {x, y};
    status = vtb_program_execute(p, args, NULL, services, &err);
  }
  *fail_at = NULL;
  CHECK(status == VTB_E_DEVICE);
  CHECK_MSG(strstr(err.text, message), "%s: \"%s\" lacks \"%s\"", call, err.text, message);
  vtb_program_free(p);
  CHECK(*allocations == 0);
}

TEST(failures_name_the_call) {
  expect_failure("cuInit", "CUDA_ERROR_OUT_OF_MEMORY (2: the fake refuses) in cuInit(0) at ");
  expect_failure("cuMemAlloc_v2", "MB of device memory for the parameters, inputs and results: ");
  expect_failure("cuLaunchKernel", "step 0, ");
  expect_failure("cuStreamSynchronize", "cuStreamSynchronize");
  expect_failure("old", "version 11.4; 12.0 or newer is needed");
}

/* Launches, captures and failures of kernels whose blocks run in clusters. */
TEST(clusters_are_launched_as_such) {
  vtb_program *p = NULL;
  vtb_error err = {0};
  clusters = 2;
  CHECK_MSG(make_program("k_add_one", "fake", &p, &err) == VTB_OK, "%s", err.text);
  *launches = *graph_launches = 0;
  *trace = '\0';
  for (int i = 0; p && i < 3; i++) run_and_compare(p, (float)i);
  CHECK(*launches == 6 && *graph_launches == 2);
  int n = 0;
  for (const char *at = trace; (at = strstr(at, "clusters of 2;launch k_double;")); at++) n++;
  CHECK_MSG(n == 3, "%s", trace);
  vtb_program_free(p);
  expect_failure("cuLaunchKernelEx", "step 0, ");
  expect_failure("cuOccupancyMaxActiveClusters", "kernel k_double (model.vtb:3): CUDA_ERROR_");
  expect_failure("cut into parts", "no cluster of 2 of its blocks fits on ");
  clusters = 0;
}

static int n_warnings;
static char warning[512];
static void warn(const char *text) {
  n_warnings++;
  snprintf(warning, sizeof warning, "%s", text);
}

static vtb_services *profiling;

/* n runs, up to `most` under way, and each gives what it was begun with. */
static vtb_status run_ahead(vtb_program *p, int n, int most, vtb_error *err) {
  float x[64], y[64];
  void *args[] = {x, y};
  vtb_status status = VTB_OK;
  for (int begun = 0, done = 0; done < n && status == VTB_OK;) {
    if (begun < n && begun - done < most) {
      for (int i = 0; i < 64; i++) x[i] = (float)(100 * begun + i);
      status = p->submit(p->owner, args, err);
      begun++;
      continue;
    }
    for (int leave = begun<n; begun - done> leave && status == VTB_OK; done++) {
      status = p->collect(p->owner, args, err);
      for (int i = 0; i < 64 && status == VTB_OK; i++)
        CHECK_MSG(y[i] == (float)(2 * (100 * done + i) + 1), "run %d: %g", done, (double)y[i]);
    }
  }
  return status;
}

/* Everything from opening to the end, with call number `n` failing. False: there are fewer. */
static bool fail_call(int n) {
  vtb_program *p = NULL;
  vtb_error err = {0};
  *fail_number = n;
  *failed = NULL;
  n_warnings = 0;
  vtb_status status = make_program("k_add_one", "fake", &p, &err);
  if (status == VTB_OK) p->warn = warn;
  for (int i = 0; i < 5 && status == VTB_OK; i++) { /* the last one with a profile */
    float x[64] = {(float)i}, y[64] = {0};
    void *args[] = {x, y};
    status = vtb_program_execute(p, args, NULL, i == 4 ? profiling : services, &err);
    if (status == VTB_OK) CHECK_MSG(y[0] == (float)(2 * i + 1), "call %d, run %d", n, i);
  }
  if (status == VTB_OK) status = run_ahead(p, 3, 4, &err);
  if (status == VTB_OK) status = run_ahead(p, 7, 7, &err); /* more than the feeds */
  bool while_freed = status == VTB_OK && !*failed;
  vtb_program_free(p);
  const char *name = *failed ? *failed : "";
  bool is_graph = strstr(name, "Capture") || strstr(name, "GraphInstantiate");
  bool is_given_back = (strstr(name, "Free") || strstr(name, "Destroy") || strstr(name, "Unload") ||
                        strstr(name, "Release"));
  if (!*name || while_freed || is_given_back)
    CHECK_MSG(status == VTB_OK && !n_warnings, "%s: %s", name, err.text);
  else if (status == VTB_OK) /* what has another way says so */
    CHECK_MSG(n_warnings == 1 && (is_graph || strcmp(name, "cuLaunchKernel") == 0) &&
                  strstr(warning, name),
              "%s: %d warnings, \"%s\"", name, n_warnings, warning);
  else
    CHECK_MSG(status == VTB_E_DEVICE && !is_graph && strstr(err.text, name) &&
                  strstr(err.text, "the fake refuses") && strstr(err.text, "runtime/cuda/"),
              "call %d, %s: \"%s\"", n, name, err.text);
  if (status != VTB_OK && (strstr(name, "GetFunction") || strstr(name, "FuncSet")))
    CHECK_MSG(strstr(err.text, "kernel k_double (model.vtb:3): ") ||
                  strstr(err.text, "kernel k_add_one (model.vtb:7): "),
              "%s", err.text);
  if (status != VTB_OK && strcmp(name, "cuLaunchKernel") == 0)
    CHECK_MSG(strstr(err.text, "step 0, k_double (model.vtb:3): ") ||
                  strstr(err.text, "step 1, k_add_one (model.vtb:7): "),
              "%s", err.text);
  CHECK_MSG(*allocations == 0 && *alive == 0 && *faults == 0,
            "call %d, %s: %d allocations, %d others, %d faults", n, name, *allocations, *alive,
            *faults);
  return *name;
}

TEST(any_call_may_fail) {
  int n = 1;
  *allocations = *alive = *faults = 0;
  profiling = vtb_services_profiling(1, 2);
  while (n < 1000 && fail_call(n)) n++;
  CHECK_MSG(n > 40 && n < 1000, "%d calls", n);
  *fail_number = 0;
  vtb_services_free(profiling);
}

TEST(without_a_graph_it_goes_on) {
  static const char *const calls[] = {"cuStreamBeginCapture_v2", "cuStreamEndCapture",
                                      "cuGraphInstantiateWithFlags"};
  for (int c = 0; c < 3; c++) {
    vtb_program *p = NULL;
    vtb_error err = {0};
    CHECK(make_program("k_add_one", "fake", &p, &err) == VTB_OK);
    p->warn = warn;
    n_warnings = *graph_launches = *launches = 0;
    *fail_at = calls[c];
    for (int i = 0; i < 4; i++) run_and_compare(p, (float)i);
    *fail_at = NULL;
    run_and_compare(p, 7);
    CHECK_MSG(n_warnings == 1 && strstr(warning, calls[c]) && strstr(warning, "VTB_CUDA_GRAPH=0"),
              "%d warnings, \"%s\"", n_warnings, warning);
    CHECK(*graph_launches == 0 && *launches == 10);
    vtb_program_free(p);
    CHECK(*allocations == 0 && *alive == 0);
  }
}

/* Copies in, work, copies out, and one synchronisation a run. */
TEST(calls_come_in_order) {
  vtb_program *p = NULL;
  vtb_error err = {0};
  CHECK(make_program("k_add_one", "fake", &p, &err) == VTB_OK);
  *trace = '\0';
  run_and_compare(p, 0);
  CHECK_STR(trace, "in 256;launch k_double;launch k_add_one;out 256;sync;");
  *trace = '\0';
  run_and_compare(p, 1);
  CHECK_STR(trace, "in 256;graph;launch k_double;launch k_add_one;out 256;sync;");
  *trace = '\0';
  vtb_program_free(p);
  CHECK_STR(trace, "sync;");
}

/* Inputs come on a stream of their own, behind the run before the last, whose set they take; the
 * host waits once for three runs, while the fourth is under way; at the end for that, too. */
TEST(runs_ahead_wait_where_results_are_read) {
#define COPY(wait) wait "2:in 256;2:event;after;"
#define LAUNCHES "launch k_double;launch k_add_one;"
#define END "out 256;event;"
#define AHEAD COPY("2:after;") "graph;" LAUNCHES END
  vtb_program *p = NULL;
  vtb_error err = {0};
  CHECK(make_program("k_add_one", "fake", &p, &err) == VTB_OK);
  if (!p || !p->submit) return;
  *trace = '\0';
  CHECK_MSG(run_ahead(p, 10, 4, &err) == VTB_OK, "%s", err.text);
  CHECK_STR(trace, COPY("") LAUNCHES END COPY("") "graph;" LAUNCHES END AHEAD AHEAD
                                                  "await;" AHEAD AHEAD AHEAD
                                                  "await;" AHEAD AHEAD AHEAD "await;await;");
  run_and_compare(p, 3); /* between such runs, one as ever */
  CHECK_MSG(run_ahead(p, 5, 4, &err) == VTB_OK, "%s", err.text);
  vtb_program_free(p);
  CHECK(*allocations == 0 && *alive == 0 && *faults == 0);
}

/* Results may wait for longer than inputs have room: from the sixth run on the host waits for the
 * copy of the run five before, no later one, and at the end once. */
TEST(more_runs_wait_for_a_reader_than_there_are_feeds) {
  vtb_program *p = NULL;
  vtb_error err = {0};
  CHECK(make_program("k_add_one", "fake", &p, &err) == VTB_OK);
  if (!p || !p->submit) return;
  *trace = '\0';
  CHECK_MSG(run_ahead(p, 8, 8, &err) == VTB_OK, "%s", err.text);
  CHECK_STR(trace,
            COPY("") LAUNCHES END COPY("") "graph;" LAUNCHES END AHEAD AHEAD AHEAD "await;" AHEAD
                                           "await;" AHEAD "await;" AHEAD "await;await;");
  CHECK_MSG(run_ahead(p, 600, p->most_ahead, &err) == VTB_OK, "%s", err.text);
  vtb_program_free(p);
  CHECK(*allocations == 0 && *alive == 0 && *faults == 0);
}

/* What a submitted run finds of parameters, and of what is made of them, is what `run` would: they
 * go behind the runs that are under way, and stay where they are kept. */
TEST(parameters_go_with_runs_ahead) {
  const unsigned fixed = 1u << VTB_IO_PARAM | 1u << VTB_IO_BUFFER;
  vtb_program *p = NULL;
  vtb_error err = {0};
  float x[64], y[64];
  void *args[] = {x, y};
  prepared = 1, role = VTB_IO_PARAM;
  CHECK_MSG(make_program("k_add_one", "fake", &p, &err) == VTB_OK, "%s", err.text);
  prepared = 0, role = VTB_IO_INPUT;
  CHECK(p && p->submit);
  if (!p || !p->submit) return;
  for (int i = 0; i < 4; i++) { /* the third finds nothing new */
    vtb_program_keep(p, i == 2 ? fixed : 0);
    for (int k = 0; k < 64; k++) x[k] = (float)(10 * i + k);
    *trace = '\0';
    CHECK_MSG(p->submit(p->owner, args, &err) == VTB_OK, "%s", err.text);
    CHECK_MSG((strstr(trace, "in 256;launch k_double;") != NULL) == (i != 2), "%d: %s", i, trace);
  }
  for (int i = 0; i < 4; i++) {
    float want = (float)(2 * (i == 2 ? 10 : 10 * i) + 1);
    CHECK_MSG(p->collect(p->owner, args, &err) == VTB_OK && y[0] == want && y[63] == want + 126,
              "run %d: %g", i, (double)y[0]);
  }
  vtb_program_free(p);
  CHECK(*allocations == 0 && *alive == 0 && *faults == 0);
}

TEST(results_of_runs_ahead_are_taken_first) {
  vtb_program *p = NULL;
  vtb_error err = {0};
  float x[64] = {0}, y[64];
  void *args[] = {x, y};
  CHECK(make_program("k_add_one", "fake", &p, &err) == VTB_OK);
  CHECK(p->collect(p->owner, args, &err) == VTB_E_INTERNAL && strstr(err.text, "no run"));
  for (int i = 0; i < p->most_ahead; i++) CHECK(p->submit(p->owner, args, &err) == VTB_OK);
  err = (vtb_error){0};
  CHECK(p->submit(p->owner, args, &err) == VTB_E_INTERNAL && strstr(err.text, "256 runs"));
  err = (vtb_error){0};
  CHECK(vtb_program_execute(p, args, NULL, services, &err) == VTB_E_INTERNAL &&
        strstr(err.text, "the results of 256 runs wait"));
  vtb_program_free(p); /* with work under way */
  CHECK(*allocations == 0 && *alive == 0 && *faults == 0);
}

TEST(what_is_missing_is_named) {
  vtb_program *p = NULL;
  vtb_error err = {0};
  vtb_cuda_device *d = NULL;
  CHECK(make_program("absent", "fake", &p, &err) == VTB_E_DEVICE &&
        strstr(err.text, "cuModuleGetFunction"));
  err = (vtb_error){0};
  CHECK(make_program("k_add_one", "not an image", &p, &err) == VTB_E_DEVICE &&
        strstr(err.text, "cuModuleLoadDataEx"));
  err = (vtb_error){0};
  *devices = 0;
  CHECK(vtb_cuda_device_open(NULL, &d, &err) == VTB_E_DEVICE &&
        strstr(err.text, "CUDA_ERROR_NO_DEVICE"));
  *devices = 1;
  err = (vtb_error){0};
  how.has_cuda_device = true;
  how.cuda_device = 3;
  CHECK(vtb_cuda_device_open(&how, &d, &err) == VTB_E_DEVICE &&
        strstr(err.text, "no CUDA device 3: the driver finds 1"));
  how.has_cuda_device = false;
  err = (vtb_error){0};
  setenv("VTB_CUDA_DRIVER", "/no/such/file.so", 1);
  CHECK(vtb_cuda_device_open(NULL, &d, &err) == VTB_E_DEVICE &&
        strstr(err.text, "VTB_CUDA_DRIVER=/no/such/file.so"));
  CHECK(*allocations == 0);
}

/* The fake driver is of CUDA 12.4: a library of 12 comes before one of 13, wherever that is. */
TEST(libraries_of_the_drivers_cuda_come_first) {
  const char *folder = VTB_BINARY_DIR "/test-libraries",
             *file = VTB_BINARY_DIR "/test-libraries/lib64/libcublasLt.so.12";
  vtb_strbuf text = {0};
  mkdir(folder, 0777);
  mkdir(VTB_BINARY_DIR "/test-libraries/lib64", 0777);
  unlink(file);
  CHECK(symlink(VTB_FAKE_CUDA, file) == 0); /* no cublasLt, which tells that it was taken */
  setenv("CUDA_HOME", folder, 1);
  setenv("VTB_CUDA_DRIVER", VTB_FAKE_CUDA, 1);
  CHECK(!vtb_cuda_probe_cublaslt(&text));
  CHECK_MSG(strstr(text.at, "lib64/libcublasLt.so.12 is too old: it has no cublasLtGetVersion"),
            "%s", text.at);
  unsetenv("CUDA_HOME");
  unlink(file);
  vtb_strbuf_free(&text);
}

TEST(a_broken_plan_does_not_reach_the_device) {
  vtb_error err = {0};
  vtb_cuda_device *d = NULL;
  vtb_program *p = NULL;
  vtb_cuda_image images[] = {{"fake", 5}};
  CHECK(vtb_cuda_device_open(NULL, &d, &err) == VTB_OK);
  vtb_launch_plan *plan = make_plan("k_add_one");
  plan->args[2].offset = 16;
  CHECK(vtb_cuda_program(plan, images, d, &p, &err) == VTB_E_INTERNAL &&
        strstr(err.text, "argument 0 reaches bytes"));
  vtb_launch_plan_free(plan);
  vtb_cuda_device_close(d);
}

int main(void) {
  void *fake = dlopen(VTB_FAKE_CUDA, RTLD_NOW);
  if (!fake) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  setenv("VTB_CUDA_DRIVER", VTB_FAKE_CUDA, 1);
  hook = dlsym(fake, "fake_cuda_hook");
  fail_at = dlsym(fake, "fake_cuda_fail");
  allocations = dlsym(fake, "fake_cuda_allocations");
  launches = dlsym(fake, "fake_cuda_launches");
  graph_launches = dlsym(fake, "fake_cuda_graph_launches");
  devices = dlsym(fake, "fake_cuda_devices");
  fail_number = dlsym(fake, "fake_cuda_fail_number");
  alive = dlsym(fake, "fake_cuda_alive");
  faults = dlsym(fake, "fake_cuda_faults");
  failed = dlsym(fake, "fake_cuda_failed");
  trace = dlsym(fake, "fake_cuda_trace");
  *hook = run_kernel;
  services = vtb_services_default(1);
  RUN(runs_and_then_replays_a_graph);
  RUN(the_graph_can_be_turned_off);
  RUN(profiles_count_every_kernel);
  RUN(prepared_steps_are_run_when_parameters_change);
  RUN(copies_can_be_left_out);
  RUN(inputs_are_copied_whatever_is_kept);
  RUN(failures_name_the_call);
  RUN(clusters_are_launched_as_such);
  RUN(any_call_may_fail);
  RUN(without_a_graph_it_goes_on);
  RUN(calls_come_in_order);
  RUN(runs_ahead_wait_where_results_are_read);
  RUN(more_runs_wait_for_a_reader_than_there_are_feeds);
  RUN(parameters_go_with_runs_ahead);
  RUN(results_of_runs_ahead_are_taken_first);
  RUN(a_broken_plan_does_not_reach_the_device);
  RUN(what_is_missing_is_named);
  RUN(libraries_of_the_drivers_cuda_come_first);
  vtb_services_free(services);
  dlclose(fake);
  return test_done();
}
