/* Gradients on a device, the fake driver's: y = w / x of four rows, run with any number of them,
 * from memory of the host and of the device. A row of zeros would make everything NaN. */
#include "tests/runtime/session_device.h"

enum { MOST = 3 * ROWS };

static void kernel(const char *name, unsigned blocks, unsigned threads, unsigned shared,
                   void **parameters) {
  const float *in[3];
  float *out[3];
  (void)name, (void)blocks, (void)threads, (void)shared;
  for (int i = 0; i < 3; i++) in[i] = (const float *)*(uintptr_t *)parameters[i];
  for (int i = 0; i < 3; i++) out[i] = (float *)*(uintptr_t *)parameters[3 + i];
  for (int c = 0; c < COLUMNS; c++) out[2][c] = 0;
  for (int i = 0; i < N; i++) { /* x, w, dy; y, dx, dw */
    float x = in[0][i], w = in[1][i % COLUMNS], dy = in[2][i];
    out[0][i] = w / x;
    out[1][i] = -dy * w / (x * x);
    out[2][i % COLUMNS] += dy / x;
  }
}

static vtb_status make_gradient(vtb_model **m, vtb_error *err) {
  static const char text[] = "fake\nk_vjp 6\n";
  static const struct {
    const char *name;
    vtb_io io;
    int rank;
  } of[6] = {{"x", VTB_IO_INPUT, 2},  {"w", VTB_IO_PARAM, 1},      {"d:y", VTB_IO_GRAD_IN, 2},
             {"y", VTB_IO_OUTPUT, 2}, {"d:x", VTB_IO_GRAD_OUT, 2}, {"d:w", VTB_IO_GRAD_OUT, 1}};
  vtb_cuda_image image = {text, sizeof text};
  vtb_cuda_device *device = NULL;
  vtb_program *program = NULL;
  vtb_status status = vtb_cuda_device_open(NULL, &device, err);
  if (status != VTB_OK) return status;
  vtb_launch_plan *p = vtb_xcalloc(1, sizeof *p);
  p->n_tensors = p->n_args = 6;
  p->tensors = VTB_NEW_ARRAY(&p->arena, vtb_tensor_info, 6);
  p->args = VTB_NEW_ARRAY(&p->arena, vtb_launch_arg, 6);
  for (int i = 0; i < 6; i++) {
    p->tensors[i] =
        (vtb_tensor_info){.name = of[i].name, .io = of[i].io, .rank = of[i].rank, .init = "ones"};
    p->tensors[i].dim[0] = of[i].rank == 2 ? ROWS : COLUMNS;
    p->tensors[i].dim[1] = of[i].rank == 2 ? COLUMNS : 0;
    p->args[i] = arg(VTB_LAUNCH_TENSOR, i, i < 3 ? VTB_LAUNCH_READ : VTB_LAUNCH_WRITE, i,
                     of[i].rank == 2 ? 4 * N : 4 * COLUMNS);
  }
  p->batch = ROWS;
  p->n_sources = p->n_kernels = p->n_steps = 1;
  p->sources = VTB_NEW_ARRAY(&p->arena, vtb_launch_source, 1);
  p->kernels = VTB_NEW_ARRAY(&p->arena, vtb_launch_kernel, 1);
  p->steps = VTB_NEW_ARRAY(&p->arena, vtb_launch_step, 1);
  p->kernels[0] = (vtb_launch_kernel){.name = "k_vjp", .threads = 32, .n_args = 6};
  p->steps[0] = (vtb_launch_step){VTB_LAUNCH_KERNEL, 0, 1, 0, 6};
  status = vtb_cuda_program(p, &image, device, &program, err);
  if (status == VTB_OK) status = vtb__model_of_program(program, NULL, NULL, m, err);
  if (status == VTB_OK) (*m)->variants[0].about.role = VTB_SESSION_VJP;
  return status;
}

static void expect_gradients(const float *x, const float *w, const float *dy, const float *y,
                             const float *dx, const float *dw, int n, const char *how) {
  float sum[COLUMNS] = {0};
  int wrong = 0;
  for (int i = 0; i < n * COLUMNS; i++) {
    float want = -dy[i] * w[i % COLUMNS] / (x[i] * x[i]);
    wrong += y[i] != w[i % COLUMNS] / x[i] || dx[i] != want;
    sum[i % COLUMNS] += dy[i] / x[i];
  }
  for (int c = 0; c < COLUMNS; c++) wrong += !(fabsf(dw[c] - sum[c]) <= 1e-5f * fabsf(sum[c]));
  CHECK_MSG(!wrong, "%d rows, %s: %d are wrong", n, how, wrong);
}

static vtb_array vector(const float *at, vtb_device device) {
  return (vtb_array){.size = sizeof(vtb_array),
                     .type = VTB_ARRAY_F32,
                     .device = device,
                     .rank = 1,
                     .dim = {COLUMNS},
                     .data = (void *)(uintptr_t)at};
}

/* On the device if `there` has the array's bit, else in the host's memory. */
static void run_rows(vtb_session *s, void *stream, uint64_t memory, int n, int there) {
  static const char *const names[] = {"x", "w", "d:y", "y", "d:x", "d:w"};
  static float host[6][MOST * COLUMNS];
  float *at_array[6];
  char how[32];
  for (int i = 0; i < 6; i++) {
    bool device = there >> i & 1, is_vector = i == 1 || i == 5;
    vtb_device where = device ? VTB_DEVICE_CUDA : VTB_DEVICE_CPU;
    at_array[i] = device ? at(memory) + (size_t)i * MOST * COLUMNS : host[i];
    vtb_array a =
        is_vector ? vector(at_array[i], where) : rows((uint64_t)(uintptr_t)at_array[i], n, where);
    for (int k = 0; k < (is_vector ? COLUMNS : n * COLUMNS); k++)
      at_array[i][k] = i < 3 ? 1 + (float)((k * (7 + i) + n) % 13) / 8 : NAN;
    CHECK_OK(vtb_session_bind(s, names[i], &a, err));
  }
  for (int run = 0; run < 3; run++) { /* parameters change, and sums begin anew */
    at_array[1][3] += 1;
    CHECK_OK(vtb_session_run(s, 0, err));
    CHECK(cu.cuStreamSynchronize(stream) == 0);
    snprintf(how, sizeof how, "places %d", there);
    expect_gradients(at_array[0], at_array[1], at_array[2], at_array[3], at_array[4], at_array[5],
                     n, how);
  }
}

TEST(gradients_on_a_device_add_up) {
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  caller c;
  uint64_t memory;
  void *popped;
  open_caller(&c, 0);
  CHECK(cu.cuCtxPushCurrent_v2(c.context) == 0);
  CHECK(cu.cuMemAlloc_v2(&memory, (size_t)6 * MOST * COLUMNS * sizeof(float)) == 0);
  CHECK(cu.cuCtxPopCurrent_v2(&popped) == 0);
  CHECK_OK(make_gradient(&m, err));
  vtb_session_options o = on_stream(c.stream);
  o.role = VTB_SESSION_VJP;
  o.batch = MOST;
  CHECK_OK(vtb_session_open(m, &o, &s, err));
  for (int n = 1; n <= MOST; n += 1 + n / 5)
    for (int there = 0; there < 64; there += 9) run_rows(s, c.stream, memory, n, there);
  for (int n = 1; n <= MOST; n += 2) run_rows(s, c.stream, memory, n, 63);
  vtb_session_close(s);
  vtb_model_release(m);
  CHECK(cu.cuMemFree_v2(memory) == 0);
  close_caller(&c, 0);
  expect_nothing_left();
}

int main(void) {
  void *fake = open_fake();
  *devices = 1;
  *(hook_fn *)dlsym(fake, "fake_cuda_hook") = kernel;
  RUN(gradients_on_a_device_add_up);
  dlclose(fake);
  return test_done();
}
