/* Library products on a device, with a driver and a cublasLt that need none: which candidate is
 * taken, what is computed, and what is said when a call fails. */
#include "runtime/cuda/cuda.h"
#include "runtime/launch/threads.h"
#include "tests/test.h"

#include <dlfcn.h>

static int *states, *n_offered, *alive, *used, *wanted, *fail_number, *allocations, *cuda_alive;
static vtb_services *services;

static vtb_launch_arg arg(int tensor, int access, int n) {
  return (vtb_launch_arg){.space = VTB_LAUNCH_TENSOR,
                          .access = (uint8_t)access,
                          .element_bytes = 4,
                          .align = 4,
                          .tensor = tensor,
                          .value = tensor,
                          .bytes = 4 * n,
                          .touched = 4 * n};
}

/* y[2, 3] = x[2, 4] w[4, 3] + b[3] */
static vtb_launch_plan *make_plan(void) {
  vtb_launch_plan *p = vtb_xcalloc(1, sizeof *p);
  vtb_arena *a = &p->arena;
  p->n_tensors = 4;
  p->tensors = VTB_NEW_ARRAY(a, vtb_tensor_info, 4);
  p->tensors[0] = (vtb_tensor_info){.name = "x", .io = VTB_IO_INPUT, .rank = 2, .dim = {2, 4}};
  p->tensors[1] = (vtb_tensor_info){.name = "w", .io = VTB_IO_PARAM, .rank = 2, .dim = {4, 3}};
  p->tensors[2] = (vtb_tensor_info){.name = "b", .io = VTB_IO_PARAM, .rank = 1, .dim = {3}};
  p->tensors[3] = (vtb_tensor_info){.name = "y", .io = VTB_IO_OUTPUT, .rank = 2, .dim = {2, 3}};
  p->batch = 2;
  p->n_gemms = p->n_steps = 1;
  p->gemms = VTB_NEW_ARRAY(a, vtb_launch_gemm, 1);
  p->gemms[0] = (vtb_launch_gemm){.m = 2,
                                  .n = 3,
                                  .k = 4,
                                  .batch = 1,
                                  .lda = 4,
                                  .ldb = 3,
                                  .ldc = 3,
                                  .has_bias = 1,
                                  .info = {.name = "cublaslt_0", .origin = "model.vtb:3"}};
  p->steps = VTB_NEW_ARRAY(a, vtb_launch_step, 1);
  p->steps[0] = (vtb_launch_step){VTB_LAUNCH_GEMM, 0, 0, 0, 4};
  p->n_args = 4;
  p->args = VTB_NEW_ARRAY(a, vtb_launch_arg, 4);
  p->args[0] = arg(0, VTB_LAUNCH_READ, 8);
  p->args[1] = arg(1, VTB_LAUNCH_READ, 12);
  p->args[2] = arg(3, VTB_LAUNCH_WRITE, 6);
  p->args[3] = arg(2, VTB_LAUNCH_READ, 3);
  return p;
}

static vtb_behaviour how = {.cublaslt_timing = VTB_NO};

static vtb_status make_program(vtb_program **program, vtb_error *err) {
  vtb_cuda_device *device = NULL;
  vtb_status status = vtb_cuda_device_open(&how, &device, err);
  if (status != VTB_OK) return status;
  vtb_launch_plan *plan = make_plan();
  status = vtb_cuda_program(plan, NULL, device, program, err);
  if (status == VTB_OK) return status;
  vtb_launch_plan_free(plan);
  vtb_cuda_device_close(device);
  return status;
}

static int *times, *products;
static char warning[512];
static void warn(const char *text) { snprintf(warning, sizeof warning, "%s", text); }

static vtb_status make_and_run(vtb_error *err) {
  vtb_program *p = NULL;
  float x[8], w[12], b[3] = {100, 200, 300}, y[6];
  void *args[] = {x, w, b, y};
  for (int i = 0; i < 8; i++) x[i] = (float)(i + 1);
  for (int i = 0; i < 12; i++) w[i] = (float)(i % 5);
  vtb_status status = make_program(&p, err);
  if (status == VTB_OK) p->warn = warn;
  if (status == VTB_OK) status = vtb_program_execute(p, args, NULL, services, err);
  for (int i = 0; i < 6 && status == VTB_OK; i++) {
    float sum = b[i % 3];
    for (int k = 0; k < 4; k++) sum += x[i / 3 * 4 + k] * w[k * 3 + i % 3];
    CHECK_MSG(y[i] == sum, "%d: %g is not %g", i, (double)y[i], (double)sum);
  }
  vtb_program_free(p);
  CHECK(*allocations == 0 && *cuda_alive == 0);
  CHECK_MSG(*alive == 0, "%d of cublasLt", *alive);
  return status;
}

static void offer(int n, int a, int b, int c) {
  *n_offered = n;
  states[0] = a;
  states[1] = b;
  states[2] = c;
  *used = -1;
}

TEST(the_first_candidate_that_can_run_is_taken) {
  vtb_error err = {0};
  offer(3, 0, 0, 0);
  CHECK_MSG(make_and_run(&err) == VTB_OK && *used == 0, "%s", err.text);
  CHECK(*wanted > 1);
  offer(3, 15, 0, 0);
  CHECK_MSG(make_and_run(&err) == VTB_OK && *used == 1, "%s", err.text);
  offer(3, 15, 7, 0);
  CHECK_MSG(make_and_run(&err) == VTB_OK && *used == 2, "%s", err.text);
}

static const char *cache_file(void) {
  static char path[512];
  FILE *ls = popen("ls " VTB_BINARY_DIR "/test-lt-cache/vertebra/cublaslt/*.txt", "r");
  if (!ls || !fgets(path, sizeof path, ls)) path[0] = 0;
  if (ls) pclose(ls);
  path[strcspn(path, "\n")] = 0;
  return path;
}

/* Timed once; what is kept is taken without; what is damaged or no more offered is timed again. */
TEST(the_fastest_is_kept) {
  vtb_error err = {0};
  if (system("rm -rf " VTB_BINARY_DIR "/test-lt-cache")) return;
  setenv("XDG_CACHE_HOME", VTB_BINARY_DIR "/test-lt-cache", 1);
  how.cublaslt_timing = VTB_UNSAID;
  offer(3, 0, 0, 0);
  times[0] = 5, times[1] = 2, times[2] = 9;
  *products = 0;
  CHECK_MSG(make_and_run(&err) == VTB_OK && *used == 1, "%s, %d", err.text, *used);
  CHECK_MSG(*products == 3 * 4 + 1 && !warning[0], "%d products, %s", *products, warning);
  times[1] = 20; /* it was fastest then */
  *products = 0;
  CHECK(make_and_run(&err) == VTB_OK && *used == 1 && *products == 1 && !warning[0]);
  offer(1, 0, 0, 0); /* of one there is nothing to choose */
  CHECK(make_and_run(&err) == VTB_OK && *used == 0);
  offer(3, 0, 15, 0);
  times[2] = 3;
  CHECK(make_and_run(&err) == VTB_OK && *used == 2 && strstr(warning, "offers that algorithm no"));
  warning[0] = 0;
  const char *path = cache_file();
  FILE *f = fopen(path, "r+");
  CHECK_MSG(f != NULL, "%s", path);
  if (f) fputs("vertebra-cublaslt-0", f);
  if (f) fclose(f);
  offer(3, 0, 0, 0);
  CHECK(make_and_run(&err) == VTB_OK && *used == 2 && strstr(warning, "damaged, or of another"));
  warning[0] = 0;
  CHECK(make_and_run(&err) == VTB_OK && *used == 2 && !warning[0]);
  how.cublaslt_timing = VTB_NO;
  CHECK(make_and_run(&err) == VTB_OK && *used == 0);
}

TEST(without_one_the_shape_is_named) {
  vtb_error err = {0};
  offer(2, 15, 15, 0);
  CHECK(make_and_run(&err) == VTB_E_DEVICE && strstr(err.text, "2 x 4 by 4 x 3"));
  err = (vtb_error){0};
  offer(0, 0, 0, 0);
  CHECK(make_and_run(&err) == VTB_E_DEVICE && strstr(err.text, "2 x 4 by 4 x 3"));
}

TEST(any_call_may_fail) {
  int n = 1;
  offer(1, 0, 0, 0);
  for (;; n++) {
    vtb_error err = {0};
    *fail_number = n;
    vtb_status status = make_and_run(&err);
    if (*fail_number) break; /* there are fewer calls */
    CHECK_MSG(status == VTB_E_DEVICE && strstr(err.text, "internal error (14) in cublasLt"),
              "call %d: \"%s\"", n, err.text);
    if (!strstr(err.text, "in cublasLtCreate("))
      CHECK_MSG(strstr(err.text, "cublaslt_0 (model.vtb:3): "), "%s", err.text);
    if (strstr(err.text, "in cublasLtMatmul("))
      CHECK_MSG(strstr(err.text, "step 0, cublaslt_0 (model.vtb:3): "), "%s", err.text);
  }
  *fail_number = 0;
  CHECK_MSG(n > 10, "%d calls", n);
}

int main(void) {
  setenv("VTB_CUDA_DRIVER", VTB_FAKE_CUDA, 1);
  setenv("VTB_CUBLASLT", VTB_FAKE_CUBLASLT, 1);
  void *cuda = dlopen(VTB_FAKE_CUDA, RTLD_NOW), *lt = dlopen(VTB_FAKE_CUBLASLT, RTLD_NOW);
  if (!cuda || !lt) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  allocations = dlsym(cuda, "fake_cuda_allocations");
  cuda_alive = dlsym(cuda, "fake_cuda_alive");
  states = dlsym(lt, "fake_lt_states");
  n_offered = dlsym(lt, "fake_lt_n");
  alive = dlsym(lt, "fake_lt_alive");
  used = dlsym(lt, "fake_lt_used");
  wanted = dlsym(lt, "fake_lt_wanted");
  fail_number = dlsym(lt, "fake_lt_fail_number");
  *(void **)dlsym(lt, "fake_lt_before") = dlsym(cuda, "fake_cuda_finish");
  times = dlsym(lt, "fake_lt_times");
  products = dlsym(lt, "fake_lt_products");
  *(void **)dlsym(lt, "fake_lt_clock") = dlsym(cuda, "fake_cuda_launches");
  services = vtb_services_default(1);
  RUN(the_first_candidate_that_can_run_is_taken);
  RUN(the_fastest_is_kept);
  RUN(without_one_the_shape_is_named);
  RUN(any_call_may_fail);
  vtb_services_free(services);
  return test_done();
}
