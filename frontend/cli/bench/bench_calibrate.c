/* vertebra bench --calibrate: what the numbers of a GPU (passes/cost/gpu.h) are on the device at
 * hand, as a file that --machine, --estimate and VTB_MACHINE take. Each number comes from a program
 * made here that is bound by it alone; what cannot be told so is that of --machine. */
#include "frontend/cli/bench/bench_small.h"

#include "frontend/cli/say/progress.h"
#include "frontend/compile/driver.h"

#include <string.h>

static const char text[] =
    "model copy(image: size = 32x32, dim: int = 8) {\n"
    "  input x: tokens[image, dim]\n"
    "  output y = 2 * x\n"
    "}\n"
    "model product(image: size = 32x32, dim: int = 1024) {\n"
    "  input x: tokens[image, dim]\n"
    "  output y = matmul(x, param weight: [dim, dim] ~ normal(0.02))\n"
    "}\n"
    "model exponentials(image: size = 32x32, dim: int = 8, times: int = 64) {\n"
    "  input x: tokens[image, dim]\n"
    "  repeat times { x = exp(-x) }\n"
    "  output y = x\n"
    "}\n"
    "model steps(image: size = 32x32, dim: int = 8, times: int = 64) {\n"
    "  input x: tokens[image, dim]\n"
    "  repeat times { x = x * 0.999 + 0.001 }\n"
    "  output y = x\n"
    "}\n"
    "model chain(image: size = 8x8, dim: int = 32, times: int = 64) {\n"
    "  input x: tokens[image, dim]\n"
    "  w = param weight: [dim, dim] ~ normal(0.02)\n"
    "  repeat times { x = matmul(x, w) }\n"
    "  output y = x\n"
    "}\n";

enum { COPY_FLOATS = 8, EXPONENTIALS = 64, STEPS = 64, CHAIN = 24 };

/* A device is filled by large sizes; an emulated one is slow. */
typedef struct sizes {
  int side, product; /* of the square of tokens, 8 numbers each; of matrices */
  int exponentials, steps, chain;
  double seconds;
} sizes;
static const sizes of_device = {4096, 8192, EXPONENTIALS, STEPS, CHAIN, 0.2},
                   of_emulator = {16, 64, 4, 4, 3, 0.01};

typedef struct calibration {
  const cli_model_options *options;
  const sizes *sizes;
  vtb_gpu gpu;
  vtb_error err;
} calibration;

static vtb_status time_of(calibration *c, bench_small s, double *seconds, int *launches) {
  vtb_program *p = NULL;
  s.name = "calibration";
  s.text = text;
  vtb_status status = bench_small_compile(c->options, &s, &p);
  if (status == VTB_OK)
    status = bench_small_best(p, c->options->threads, c->sizes->seconds, seconds, &c->err);
  *launches = 0;
  for (int k = 0; p && k < p->n_kernels; k++) *launches += p->kernels[k].launches;
  vtb_program_free(p);
  return status;
}

/* The bandwidth of memory: one read and one write of every number, more than caches hold. */
static vtb_status measure_copy(calibration *c) {
  int side = c->sizes->side, launches;
  double seconds = 1;
  vtb_status status =
      time_of(c, (bench_small){.entry = "copy", .height = side, .width = side, .dim = COPY_FLOATS},
              &seconds, &launches);
  c->gpu.bytes = 2.0 * COPY_FLOATS * sizeof(float) * side * side / seconds;
  if (c->gpu.l2_bytes < c->gpu.bytes) c->gpu.l2_bytes = c->gpu.bytes;
  return status;
}

/* The cost of a tiny launch more: `launch` and `latency` in the same ratio as before. */
static vtb_status measure_launch(calibration *c) {
  double few = 1, many = 1, each = c->gpu.launch + c->gpu.latency;
  int n_few, n_many;
  bench_small s = {.entry = "chain", .height = 8, .width = 8, .dim = 32, .times = c->sizes->chain};
  vtb_status status = time_of(c, s, &few, &n_few);
  s.times *= 2;
  if (status == VTB_OK) status = time_of(c, s, &many, &n_many);
  if (status != VTB_OK || n_many <= n_few || many <= few) return status;
  double ratio = (many - few) / (n_many - n_few) / each;
  c->gpu.launch *= ratio;
  c->gpu.latency *= ratio;
  return VTB_OK;
}

static vtb_status measure_product(calibration *c, const char *precision, vtb_vendor_library library,
                                  vtb_tensor_unit unit) {
  double side = c->sizes->product, seconds = 1;
  int launches;
  vtb_status status = time_of(c,
                              (bench_small){.entry = "product",
                                            .precision = precision,
                                            .height = c->sizes->product,
                                            .width = 1,
                                            .dim = c->sizes->product,
                                            .library = library},
                              &seconds, &launches);
  c->gpu.tensor[unit] = 2 * side * side * side / seconds;
  return status;
}

/* Rates of a multiprocessor and clock: `each` instructions of a lane, or special functions, a
 * number and step. */
static vtb_status measure_steps(calibration *c, const char *entry, int times, double lanes,
                                double *out) {
  int side = c->sizes->side / 2, launches;
  double seconds = 1, count = (double)COPY_FLOATS * side * side * times;
  vtb_status status = time_of(c,
                              (bench_small){.entry = entry,
                                            .precision = "fp32",
                                            .height = side,
                                            .width = side,
                                            .dim = COPY_FLOATS,
                                            .times = times},
                              &seconds, &launches);
  *out = count / lanes / seconds / (c->gpu.clock * c->gpu.processors);
  return status;
}

static vtb_status measure(calibration *c) {
  cli_progress_note("measuring the device");
  vtb_status status = measure_copy(c);
  if (status == VTB_OK) status = measure_launch(c);
  if (status == VTB_OK) status = measure_product(c, "bf16-all", VTB_LIBRARY_NO, VTB_TENSOR_WARP_16);
  if (status == VTB_OK) status = measure_product(c, "tf32", VTB_LIBRARY_NO, VTB_TENSOR_WARP_TF32);
  if (status == VTB_OK) status = measure_steps(c, "steps", c->sizes->steps, 32, &c->gpu.issue);
  if (status == VTB_OK)
    status = measure_steps(c, "exponentials", c->sizes->exponentials, 1, &c->gpu.special);
  cli_progress_clear();
  return status;
}

/* The measured numbers beside the assumed ones. */
static void print(const vtb_gpu *now, const vtb_gpu *before, const char *path) {
  const struct {
    const char *what;
    double now, before, unit;
  } rows[] = {{"memory, TB/s", now->bytes, before->bytes, 1e-12},
              {"a launch, us", now->launch + now->latency, before->launch + before->latency, 1e6},
              {"products of 16 bits, TFLOP/s", now->tensor[0], before->tensor[0], 1e-12},
              {"products of tf32, TFLOP/s", now->tensor[1], before->tensor[1], 1e-12},
              {"instructions a clock", now->issue, before->issue, 1},
              {"special functions a clock", now->special, before->special, 1}};
  cli_printf(4, "%-30s %10s %10s", "", "measured", before->name);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    cli_printf(4, "%-30s %10.4g %10.4g", rows[i].what, rows[i].now * rows[i].unit,
               rows[i].before * rows[i].unit);
  cli_printf(4, "the rest is that of %s; written to %s", before->name, path);
}

vtb_status bench_calibrate(const cli_model_options *o, const char *path) {
  calibration c = {.options = o};
  const vtb_target *target;
  vtb_status status = vtb_compile_target(o->compile.target, false, &target, &c.err);
  if (status == VTB_OK) status = vtb_compile_gpu(o->compile.machine, cli_how(), &c.gpu, &c.err);
  if (status != VTB_OK) return cli_error(&c.err);
  const vtb_backend *backend = vtb_backend_of(target);
  if (!backend || !backend->plan)
    return cli_usage_error("bench", "--calibrate describes a GPU: --target cuda");
  c.sizes = backend->run_plan ? &of_emulator : &of_device;
  vtb_gpu before = c.gpu;
  VTB_TRY(measure(&c));
  snprintf(c.gpu.name, sizeof c.gpu.name, "measured");
  snprintf(c.gpu.what, sizeof c.gpu.what, "target %s, the rest %s", target->name, before.name);
  char *file = vtb_gpu_write(&c.gpu);
  status = vtb_file_write_atomic(path, file, strlen(file), &c.err);
  if (status == VTB_OK && o->json) cli_print_json(cJSON_Parse(file));
  if (status == VTB_OK && !o->json) print(&c.gpu, &before, path);
  vtb_free(file);
  return status == VTB_OK ? VTB_OK : cli_error(&c.err);
}
