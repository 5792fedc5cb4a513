/* Training on a device, the fake driver's, in memory and on a stream of the caller's. */
#include "tests/runtime/session_device.h"

/* w += the first row of x; y = x + w. */
static vtb_launch_plan *step_plan(void) {
  static const vtb_tensor_info tensors[] = {
      {.name = "x", .io = VTB_IO_INPUT, .rank = 2, .dim = {ROWS, COLUMNS}},
      {.name = "w", .io = VTB_IO_PARAM, .rank = 1, .dim = {COLUMNS}, .init = "ones"},
      {.name = "y", .io = VTB_IO_OUTPUT, .rank = 2, .dim = {ROWS, COLUMNS}},
      {.name = "updated.w", .io = VTB_IO_UPDATE, .rank = 1, .dim = {COLUMNS}}};
  static const int64_t place[] = {-1, 0, -1, 0};
  vtb_launch_plan *p = vtb_xcalloc(1, sizeof *p);
  vtb_arena *a = &p->arena;
  p->n_tensors = 4;
  p->tensors = VTB_NEW_ARRAY(a, vtb_tensor_info, 4);
  memcpy(p->tensors, tensors, sizeof tensors);
  p->place = VTB_NEW_ARRAY(a, int64_t, 4);
  memcpy(p->place, place, sizeof place);
  p->batch = ROWS;
  p->state_bytes = p->workspace_bytes = 256;
  p->n_sources = 1;
  p->n_kernels = p->n_steps = 2;
  p->sources = VTB_NEW_ARRAY(a, vtb_launch_source, 1);
  p->kernels = VTB_NEW_ARRAY(a, vtb_launch_kernel, 2);
  p->kernels[0] = (vtb_launch_kernel){.name = "k_learn", .threads = 32, .n_args = 4};
  p->kernels[1] = (vtb_launch_kernel){.name = "k_store", .threads = 32, .n_args = 2};
  p->steps = VTB_NEW_ARRAY(a, vtb_launch_step, 2);
  p->steps[0] = (vtb_launch_step){VTB_LAUNCH_KERNEL, 0, 1, 0, 4};
  p->steps[1] = (vtb_launch_step){VTB_LAUNCH_KERNEL, 1, 1, 4, 2};
  p->n_args = 6;
  p->args = VTB_NEW_ARRAY(a, vtb_launch_arg, 6);
  p->args[0] = arg(VTB_LAUNCH_TENSOR, 0, VTB_LAUNCH_READ, 0, 4 * N);
  p->args[1] = arg(VTB_LAUNCH_TENSOR, 1, VTB_LAUNCH_READ, 1, 4 * COLUMNS);
  p->args[2] = arg(VTB_LAUNCH_TENSOR, 2, VTB_LAUNCH_WRITE, 2, 4 * N);
  p->args[3] = arg(VTB_LAUNCH_WORKSPACE, 0, VTB_LAUNCH_WRITE, 4, 4 * COLUMNS);
  p->args[4] = arg(VTB_LAUNCH_WORKSPACE, 0, VTB_LAUNCH_READ, 4, 4 * COLUMNS);
  p->args[5] = arg(VTB_LAUNCH_TENSOR, 3, VTB_LAUNCH_WRITE, 3, 4 * COLUMNS);
  return p;
}

/* Parameters stay on the device from run to run, whatever inputs are bound in between, and come
 * back when they are asked for. */
TEST(training_goes_on_in_arrays_of_the_callers) {
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  caller c;
  vtb_array w = {.size = sizeof w};
  open_caller(&c, 0);
  CHECK_OK(model_of(step_plan(), "fake\nk_learn 4\nk_store 2\n", &m, err));
  m->variants[0].about.role = VTB_SESSION_STEP;
  vtb_session_options o = on_stream(c.stream);
  o.role = VTB_SESSION_STEP;
  CHECK_OK(vtb_session_open(m, &o, &s, err));
  CHECK_OK(bind(s, "y", c.y, ROWS, err));
  for (int i = 0; i < 9; i++) {
    uint64_t x = c.x + 4 * N * (uint64_t)(i % 2);
    fill(x, 0);
    *trace = '\0';
    CHECK_OK(bind(s, "x", x, ROWS, err));
    CHECK_OK(vtb_session_run(s, 0, err));
    CHECK(cu.cuStreamSynchronize(c.stream) == 0);
    CHECK_MSG(count("in ") == (i % 3 == 0) && !count("out "), "%s", trace);
    CHECK(at(c.y)[1] == (float)(1 + 1 + i + 1) &&
          at(c.y)[N - 1] == (float)(N - 1 + 1 + 15 * (i + 1)));
    if (i % 3 != 2) continue;
    CHECK_OK(vtb_session_array(s, VTB_ARRAY_PARAMETER, "w", &w, err));
    CHECK(w.device == VTB_DEVICE_CPU && ((float *)w.data)[2] == (float)(1 + 2 * (i + 1)));
  }
  vtb_array param = rows(c.x, 0, VTB_DEVICE_CUDA);
  param.rank = 1, param.dim[0] = COLUMNS;
  CHECK_REFUSED(vtb_session_bind(s, "w", &param, err),
                "is the training session's own on the device");
  vtb_session_close(s);
  vtb_model_release(m);
  close_caller(&c, 0);
  expect_nothing_left();
}

int main(void) {
  void *fake = open_fake();
  *devices = 2;
  RUN(training_goes_on_in_arrays_of_the_callers);
  dlclose(fake);
  return test_done();
}
