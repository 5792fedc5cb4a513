/* Built files: native code and a plan for a GPU run through the public header alone, and whatever
 * is wrong with a file is said before any of it runs. */
#include "runtime/artefact/artefact_file.h"
#include "runtime/artefact/cpu_level.h"
#include "runtime/launch/launch_plan_file.h"
#include "runtime/vertebra.h"
#include "tests/runtime/sample_file.h"

#include <dlfcn.h>

/* ---- what works ------------------------------------------------------------------------------ */

static void run_and_compare(vtb_model *m, float factor, const float *add) {
  int64_t n;
  float *x = vtb_model_input(m, NULL, &n);
  CHECK(n == 64);
  for (int i = 0; i < 64; i++) x[i] = (float)(i % 5);
  CHECK_OK(vtb_model_run(m, err));
  const float *y = vtb_model_output(m, NULL, NULL);
  for (int i = 0; i < 64; i++) CHECK(y[i] == factor * x[i] + add[i]);
}

TEST(a_file_runs_on_the_processor_with_its_weights) {
  const char *path = temp_path("whole.so");
  sample *s = make();
  vtb_model *m = NULL;
  float add[64];
  CHECK_OK(write_sample(s, path, err));
  CHECK_OK(vtb_model_open(path, NULL, &m, err));
  for (int i = 0; i < 64; i++) add[i] = (float)i;
  if (m) run_and_compare(m, 3, add);
  if (m) CHECK_STR(vtb_model_meta(m, "classes"), "[\"cat\"]");
  if (m) CHECK(vtb_model_meta(m, "mean") == NULL);
  vtb_model_free(m);
  free(s);
}

TEST(the_same_file_runs_on_a_device) {
  const char *path = temp_path("device.so");
  sample *s = make();
  vtb_model *m = NULL;
  float add[64];
  CHECK_OK(write_sample(s, path, err));
  CHECK_OK(vtb_model_open(path, &(vtb_open_options){.target = "cuda"}, &m, err));
  for (int i = 0; i < 64; i++) add[i] = 1;
  if (m) run_and_compare(m, 2, add);
  vtb_model_free(m);
  /* its plan has no parameters, but what is kept must not be the input */
  CHECK_OK(vtb_model_open(path, &(vtb_open_options){.target = "cuda"}, &m, err));
  for (int i = 0; m && i < 3; i++) run_and_compare(m, 2, add);
  vtb_model_free(m);
  s->program.n_images = 1; /* PTX of an older architecture serves as well */
  CHECK_OK(write_sample(s, path, err));
  CHECK_OK(vtb_model_open(path, &(vtb_open_options){.target = "cuda"}, &m, err));
  vtb_model_free(m);
  free(s);
}

TEST(programs_outlive_the_artefact) {
  const char *path = temp_path("outlive.so");
  sample *s = make();
  vtb_artefact *a = NULL;
  vtb_program *p = NULL;
  CHECK_OK(write_sample(s, path, err));
  CHECK_OK(vtb_artefact_open(path, &a, err));
  CHECK(a && vtb_artefact_weights(a) && strcmp(vtb_artefact_target(a), "cpu") == 0);
  CHECK_OK(vtb_artefact_load(a, VTB_ARTEFACT_INFERENCE, "cpu", &p, err));
  CHECK_REFUSED(vtb_artefact_load(a, VTB_ARTEFACT_STEP, "cpu", &p, err),
                "has no training step: build it with --train");
  vtb_artefact_close(a);
  if (p)
    CHECK(p->n_kernels == 1 && strcmp(p->kernels[0].origin, "m.vtb:1") == 0 &&
          vtb_program_find(p, "y") == 2);
  vtb_program_free(p);
  free(s);
}

/* ---- what does not --------------------------------------------------------------------------- */

static void expect(sample *s, const char *target, const char *says) {
  const char *path = temp_path("wrong.so");
  vtb_model *m = NULL;
  CHECK_OK(write_sample(s, path, err));
  CHECK_REFUSED(vtb_model_open(path, &(vtb_open_options){.target = target}, &m, err), says);
  free(s);
}

TEST(nothing_for_this_machine) {
  sample *s = make();
  if (vtb_cpu_level_here() < 3) {
    s->codes[0].cpu = "x86-64-v4";
    expect(s, "cpu", "has code for x86-64-v4; this machine has x86-64");
    s = make();
  }
  s->program.n_codes = 0;
  expect(s, "cpu", "has no code for processors: build it with --target cpu");
  s = make();
  s->images[0].arch = "sm_80";
  s->images[1].arch = "compute_100";
  expect(s, "cuda", "has code for sm_80, compute_100; Fake 0 has compute capability 9.0");
  s = make();
  s->program.n_images = 0;
  expect(s, "cuda", "has no code for CUDA: build it with --target cuda");
  s = make();
  s->image_text = "not an image";
  expect(s, "cuda", "code for sm_90a by NVRTC 13.0, on Fake 0");
  expect(make(), "tpu", "built files run on cpu and cuda, not on tpu");
}

TEST(manifests_that_contradict_the_file) {
  sample *s = make();
  s->codes[0].entry = 1;
  expect(s, "cpu", "its code has no entry 1");
  s = make();
  s->codes[0].entry = -1;
  expect(s, "cpu", "its manifest is damaged");
  s = make();
  s->codes[0].workspace_bytes = -1;
  expect(s, "cpu", "its manifest is damaged");
  s = make();
  s->codes[0].cpu = "z80";
  expect(s, "cpu", "its manifest is damaged");
  s = make();
  s->tensors[0].dim[0] = INT64_C(1) << 62;
  expect(s, "cpu", "its manifest is damaged");
  s = make();
  s->manifest.build = 43;
  expect(s, "cpu", "code and manifest are of different builds");
  s = make();
  s->manifest.services_bytes = 4096;
  expect(s, "cpu", "needs a newer runtime");
  s = make();
  s->tensors[1].dim[0] = 63;
  expect(s, "cpu", "w"); /* the weights have 64 */
}

/* As a file of its own, the last `cut` bytes removed, byte `at` changed. */
static void expect_damage(const char *data, size_t n, size_t cut, size_t at, int with,
                          const char *says) {
  const char *path = temp_path("damaged.so");
  vtb_artefact *a = NULL;
  char *copy = vtb_xmalloc(n);
  memcpy(copy, data, n);
  copy[at] = (char)(copy[at] ^ with);
  write_file(path, copy, n - cut);
  CHECK_REFUSED(vtb_artefact_open(path, &a, err), says);
  free(copy);
}

TEST(damaged_files) {
  const char *path = temp_path("sound.so");
  sample *s = make();
  size_t n;
  CHECK_OK(write_sample(s, path, err));
  char *data = read_file(path, &n);
  expect_damage(data, n, 1, 0, 0, "cut short");
  expect_damage(data, n, n - 100, 0, 0, "cut short");
  expect_damage(data, n, n, 0, 0, "is not a file that `vertebra build` made");
  for (size_t at = 0; at < n - 72; at += 61) expect_damage(data, n, 0, at, 1, "is damaged");
  for (size_t at = n - 72; at < n; at++)
    expect_damage(data, n, 0, at, 1, ""); /* the trailer, whole */
  expect_damage(data, n, 0, n - 16, 1, "has format 2; this is vertebra");
  char *longer = vtb_xmalloc(2 * n); /* the trailer of another, shorter file */
  memcpy(longer, data, n);
  memcpy(longer + n, data, n);
  write_file(path, longer, 2 * n);
  vtb_artefact *a;
  CHECK_REFUSED(vtb_artefact_open(path, &a, err), "but was built with");
  CHECK_REFUSED(vtb_artefact_open(temp_path("absent.so"), &a, err), "cannot open");
  CHECK(vtb_artefact_recognise(VTB_BUILT_CODE) && !vtb_artefact_recognise("/tmp"));
  free(longer);
  free(data);
  free(s);
}

typedef void (*hook_fn)(const char *, unsigned, unsigned, unsigned, void **);

static void run_kernel(const char *kernel, unsigned blocks, unsigned threads, unsigned shared,
                       void **parameters) {
  const float *in = (const float *)*(uintptr_t *)parameters[0];
  float *out = (float *)*(uintptr_t *)parameters[1];
  (void)shared;
  for (unsigned i = 0; i < blocks * threads; i++)
    out[i] = strcmp(kernel, "k_double") == 0 ? 2 * in[i] : in[i] + 1;
}

int main(void) {
  void *fake = dlopen(VTB_FAKE_CUDA, RTLD_NOW);
  hook_fn *hook = fake ? dlsym(fake, "fake_cuda_hook") : NULL;
  if (!hook) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  setenv("VTB_CUDA_DRIVER", VTB_FAKE_CUDA, 1);
  *hook = run_kernel;
  RUN(a_file_runs_on_the_processor_with_its_weights);
  RUN(the_same_file_runs_on_a_device);
  RUN(programs_outlive_the_artefact);
  RUN(nothing_for_this_machine);
  RUN(manifests_that_contradict_the_file);
  RUN(damaged_files);
  dlclose(fake);
  return test_done();
}
