/* Evaluation by programs that run ahead of their results: the driver's runtime (with a driver that
 * has no GPU, whose launches the emulator does) gives what runs one by one give, from bytes in
 * place of floats, and an error at any call is named and loses nothing.
 */
#include "runtime/base/random.h"
#include "runtime/train/train.h"
#include "tests/whole/device_model.h"
#include "tests/whole/driver_calls.h"

#include <dlfcn.h>

enum { TEST_IMAGES = 43 };

static vtb_status evaluate(vtb_program *p, void *const *params, int limit, vtb_eval_result *r,
                           vtb_error *e) {
  vtb_eval_options o = {.services = services, .confusion = true};
  vtb_dataset *part = NULL;
  vtb_dataset_options some = {.split = "test", .limit = limit};
  vtb_status status = vtb_dataset_open(temp_path("data"), &some, &part, e);
  o.dataset = part;
  if (status == VTB_OK) status = vtb_transform_init(&o.transform, part, 1, FAKE_SIDE, FAKE_SIDE, e);
  if (status == VTB_OK) status = vtb_evaluate(p, params, &o, r, e);
  vtb_dataset_free(part);
  return status;
}

static void **parameters_of(const vtb_program *p, float at) {
  void **params = vtb_xcalloc((size_t)p->n_tensors, sizeof *params);
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *t = &p->tensors[i];
    if (t->io != VTB_IO_PARAM && t->io != VTB_IO_BUFFER) continue;
    float *value = params[i] = vtb_aligned_alloc((size_t)vtb_tensor_info_count(t) * 4);
    for (int64_t k = 0; k < vtb_tensor_info_count(t); k++)
      value[k] = at + (float)(vtb_random_u64(3, (uint64_t)(1000 * i + k)) % 100) / 400;
  }
  return params;
}

static void free_parameters(const vtb_program *p, void **params) {
  for (int i = 0; i < p->n_tensors; i++) free(params[i]);
  free(params);
}

static void compare_results(const vtb_eval_result *got, const vtb_eval_result *want) {
  CHECK(got->n == want->n && got->loss == want->loss);
  CHECK(got->top1 == want->top1 && got->top5 == want->top5);
  CHECK(got->confusion && want->confusion &&
        !memcmp(got->confusion, want->confusion, 16 * sizeof *got->confusion));
}

/* Runs ahead, with images as bytes, give what runs one by one give with floats; again with other
 * parameters, whose first run sends them; of a few samples, and of no whole number of batches. */
TEST(an_evaluation_runs_ahead) {
  void *fake = dlopen(VTB_FAKE_CUDA, RTLD_NOW);
  vtb_program *driver = compile(plain, false, VTB_PRECISION_FP32, for_driver);
  vtb_program *emulated = compile(plain, false, VTB_PRECISION_FP32, for_emulator);
  char *trace = dlsym(fake, "fake_cuda_trace");
  bool *quiet = dlsym(fake, "fake_cuda_quiet");
  static const int samples[] = {TEST_IMAGES, 3, 2 * FAKE_BATCH};
  CHECK(driver->submit && driver->pixels);
  for (int i = 0; i < 3; i++) {
    void **params = parameters_of(driver, 0.1f * (float)i);
    vtb_eval_result want = {0}, got = {0};
    CHECK_OK(evaluate(emulated, params, samples[i], &want, err));
    *trace = '\0';
    *quiet = true;
    CHECK_OK(evaluate(driver, params, samples[i], &got, err));
    *quiet = false;
    compare_results(&got, &want);
    CHECK(got.n == samples[i] && !driver->uses_pixels);
    if (i == 0) {
      vtb_strbuf calls = {0};
      CHECK(strstr(trace, "2:in 1440;") && !strstr(trace, "2:in 1152;"));
      shorten(trace, &calls);
      /* six batches, parameters with the first; the host waits for three while the fourth runs */
      CHECK_STR(calls.at, "ieaIoeieaGoewieaGoewieaGoeSwieaGoewieaGoeSS");
      vtb_strbuf_free(&calls);
    }
    free(want.confusion);
    free(got.confusion);
    free_parameters(driver, params);
  }
  vtb_program_free(driver);
  vtb_program_free(emulated);
  CHECK(*(int *)dlsym(fake, "fake_cuda_allocations") == 0);
  vtb_emulator_free(launcher);
  dlclose(fake);
}

/* Whichever call fails, the evaluation is an error that names it, nothing stays under way that the
 * next one would wait for, and nothing is lost. */
TEST(an_evaluation_survives_any_call) {
  void *fake = dlopen(VTB_FAKE_CUDA, RTLD_NOW);
  int *fail_number = dlsym(fake, "fake_cuda_fail_number");
  const char **failed = dlsym(fake, "fake_cuda_failed");
  vtb_program *driver = compile(plain, false, VTB_PRECISION_FP32, for_driver);
  void **params = parameters_of(driver, 0);
  vtb_eval_result want = {0};
  CHECK_OK(evaluate(driver, params, TEST_IMAGES, &want, err));
  int n = 1, errors = 0;
  for (; n < 2000; n += 3) { /* of the graph's runs every third call */
    vtb_eval_result got = {0};
    vtb_error e = {0};
    *fail_number = n;
    *failed = NULL;
    vtb_status status = evaluate(driver, params, TEST_IMAGES, &got, &e);
    *fail_number = 0;
    if (!*failed) {
      CHECK(status == VTB_OK);
      free(got.confusion);
      break;
    }
    errors += status != VTB_OK;
    CHECK_MSG(status == VTB_E_DEVICE && strstr(e.text, *failed), "call %d, %s: \"%s\"", n, *failed,
              e.text);
    free(got.confusion);
    CHECK_OK(evaluate(driver, params, TEST_IMAGES, &got, err));
    compare_results(&got, &want);
    free(got.confusion);
  }
  CHECK_MSG(errors > 10 && n < 2000, "%d errors in %d calls", errors, n);
  free(want.confusion);
  free_parameters(driver, params);
  vtb_program_free(driver);
  CHECK(*(int *)dlsym(fake, "fake_cuda_allocations") == 0);
  vtb_emulator_free(launcher);
  dlclose(fake);
}

int main(void) {
  typedef void (*hook_fn)(const char *, unsigned, unsigned, unsigned, void **);
  vtb_error none = {0};
  void *fake = dlopen(VTB_FAKE_CUDA, RTLD_NOW);
  if (!fake || !vtb_emulator_available(NULL, &none)) {
    printf("skipped: %s\n", fake ? none.text : dlerror());
    return fake ? 77 : 1;
  }
  setenv("XDG_CACHE_HOME", VTB_BINARY_DIR "/test-cache", 1);
  setenv("VTB_CUDA_DRIVER", VTB_FAKE_CUDA, 1);
  *(hook_fn *)dlsym(fake, "fake_cuda_hook") = launch;
  fake_dataset("data", "t10k", TEST_IMAGES, 2);
  services = vtb_services_default(2);
  RUN(an_evaluation_runs_ahead);
  RUN(an_evaluation_survives_any_call);
  vtb_services_free(services);
  dlclose(fake);
  return test_done();
}
