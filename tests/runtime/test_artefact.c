/* Built files: native code and a plan for a GPU run through the public header alone, and whatever
 * is wrong with a file is said before any of it runs. */
#include "runtime/artefact/artefact_file.h"
#include "runtime/artefact/cpu_level.h"
#include "runtime/launch/launch_plan_file.h"
#include "runtime/vertebra.h"
#include "tests/runtime/sample_file.h"

#include <dlfcn.h>

/* ---- what works ------------------------------------------------------------------------------ */

static void run_and_compare(vtb_session *s, float factor, const float *add) {
  vtb_array in = {.size = sizeof in}, out = {.size = sizeof out};
  CHECK_OK(vtb_session_array(s, VTB_ARRAY_INPUT, NULL, &in, err));
  CHECK(in.rank == 1 && in.dim[0] == 64 && in.type == VTB_ARRAY_F32);
  float *x = in.data;
  for (int i = 0; i < 64; i++) x[i] = (float)(i % 5);
  CHECK_OK(vtb_session_run(s, 0, err));
  CHECK_OK(vtb_session_array(s, VTB_ARRAY_OUTPUT, "y", &out, err));
  const float *y = out.data;
  for (int i = 0; i < 64; i++) CHECK(y[i] == factor * x[i] + add[i]);
}

static const vtb_behaviour *behaviour; /* of the next session; NULL: the environment's */

/* The model may be given back as soon as it has a session. */
static vtb_session *open_session(const char *path, vtb_device device) {
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  vtb_session_options o = {.size = sizeof o, .device = device, .behaviour = behaviour};
  CHECK_OK(vtb_model_open(path, NULL, &m, err));
  if (m) CHECK_OK(vtb_session_open(m, &o, &s, err));
  vtb_model_release(m);
  return s;
}

TEST(a_file_runs_on_the_processor_with_its_weights) {
  const char *path = temp_path("whole.so");
  sample *file = make();
  float add[64];
  CHECK_OK(write_sample(file, path, err));
  for (int i = 0; i < 64; i++) add[i] = (float)i;
  vtb_session *s = open_session(path, VTB_DEVICE_ANY);
  if (s) run_and_compare(s, 3, add);
  vtb_session_close(s);
  free(file);
}

TEST(what_a_file_says_of_itself) {
  const char *path = temp_path("says.so");
  sample *file = make();
  vtb_model *m = NULL;
  vtb_program_info p = {.size = sizeof p};
  vtb_array a = {.size = sizeof a};
  CHECK_OK(write_sample(file, path, err));
  CHECK_OK(vtb_model_open(
      path, &(vtb_open_options){.size = sizeof(vtb_open_options), .verify = true}, &m, err));
  CHECK_STR(vtb_model_meta(m, "classes"), "[\"cat\"]");
  CHECK_STR(vtb_model_meta_key(m, 0), "classes");
  CHECK(!vtb_model_meta(m, "mean") && !vtb_model_meta_key(m, 1) && !vtb_model_meta_key(m, -1));
  CHECK_OK(vtb_model_program(m, 0, &p, err));
  CHECK(p.role == VTB_SESSION_INFER && p.batch == 1 && p.n_arrays == 3 && p.cpu && p.cuda);
  CHECK_REFUSED(vtb_model_program(m, 1, &p, err), "there is no program 1");
  CHECK_OK(vtb_model_array(m, 0, 1, &a, err));
  CHECK_STR(a.name, "w");
  CHECK(a.kind == VTB_ARRAY_PARAMETER && ((const float *)a.data)[63] == 63);
  CHECK((uintptr_t)a.data % 64 == 0);
  CHECK_OK(vtb_model_array(m, 0, 0, &a, err));
  CHECK(a.kind == VTB_ARRAY_INPUT && !a.data);
  CHECK_REFUSED(vtb_model_array(m, 0, 3, &a, err), "program 0 has no array 3");
  /* structs of another size: a caller of an older header, and mistakes */
  p.size = offsetof(vtb_program_info, cpu), p.cpu = false;
  CHECK_OK(vtb_model_program(m, 0, &p, err));
  CHECK(!p.cpu && p.batch == 1);
  p.size = 0;
  CHECK_REFUSED(vtb_model_program(m, 0, &p, err), "set it to sizeof(vtb_program_info)");
  struct {
    vtb_open_options o;
    uint64_t newer;
  } o = {.o = {.size = sizeof o}};
  vtb_model *again = NULL;
  CHECK_OK(vtb_model_open(path, &o.o, &again, err));
  vtb_model_release(again);
  o.newer = 1;
  CHECK_REFUSED(vtb_model_open(path, &o.o, &again, err), "asks for more than vertebra");
  vtb_model_release(m);
  free(file);
}

/* On the device whose architecture has a plan of its own: whether it was that one. */
static bool runs_in_clusters(const char *path, const float *add) {
  void *fake = dlopen(VTB_FAKE_CUDA, RTLD_NOW);
  char *trace = dlsym(fake, "fake_cuda_trace");
  *trace = '\0';
  vtb_session *s = open_session(path, VTB_DEVICE_CUDA);
  for (int i = 0; s && i < 3; i++) run_and_compare(s, 2, add);
  vtb_session_close(s);
  CHECK(s && strstr(trace, "launch k_double"));
  bool clusters = strstr(trace, "clusters of 2;") != NULL;
  dlclose(fake);
  return clusters;
}

TEST(the_same_file_runs_on_a_device) {
  const char *path = temp_path("device.so");
  sample *file = make();
  float add[64];
  for (int i = 0; i < 64; i++) add[i] = 1;
  CHECK_OK(write_sample(file, path, err));
  /* its plan has no parameters, but what is kept must not be the input */
  CHECK(runs_in_clusters(path, add));
  setenv("VTB_CUDA_WGMMA", "0", 1); /* the plan for all, by its PTX */
  CHECK(!runs_in_clusters(path, add));
  behaviour = &(vtb_behaviour){.size = sizeof *behaviour}; /* says nothing, whatever it says */
  CHECK(runs_in_clusters(path, add));
  unsetenv("VTB_CUDA_WGMMA");
  behaviour = &(vtb_behaviour){.size = sizeof *behaviour, .wgmma = VTB_NO};
  CHECK(!runs_in_clusters(path, add));
  behaviour = NULL;
  file->program.n_images = 1; /* PTX of an older architecture serves as well */
  CHECK_OK(write_sample(file, path, err));
  CHECK(!runs_in_clusters(path, add));
  free(file);
}

TEST(plans_are_found_by_architecture) {
  const char *path = temp_path("plans.so");
  sample *file = make();
  vtb_artefact *a = NULL;
  CHECK_OK(write_sample(file, path, err));
  CHECK_OK(vtb_artefact_open(path, &a, err));
  const vtb_artefact_program *p = a ? vtb_artefact_find(a, VTB_ARTEFACT_INFERENCE) : NULL;
  static const char *const archs[] = {NULL, "sm_80", "sm_90a", "sm_100a"};
  for (int i = 0; p && i < 4; i++) {
    vtb_launch_plan *plan = NULL;
    int number = vtb_artefact_plan_for(p, archs[i]);
    CHECK_OK(vtb_artefact_read_plan(a, p, number, &plan, err));
    CHECK(plan && plan->kernels[0].cluster == (i == 2 ? 2 : 0));
    vtb_launch_plan_free(plan);
  }
  vtb_launch_plan *none = NULL;
  CHECK_REFUSED(vtb_artefact_read_plan(a, p, 2, &none, err), "build it with --target cuda");
  vtb_artefact_close(a);
  free(file);
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

static vtb_status open_on(const char *path, vtb_device device, vtb_error *err) {
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  vtb_session_options o = {.size = sizeof o, .device = device};
  vtb_status status = vtb_model_open(path, NULL, &m, err);
  if (status == VTB_OK) status = vtb_session_open(m, &o, &s, err);
  CHECK(!s || status == VTB_OK);
  vtb_session_close(s);
  vtb_model_release(m);
  return status;
}

static void expect(sample *s, vtb_device device, const char *says) {
  const char *path = temp_path("wrong.so");
  CHECK_OK(write_sample(s, path, err));
  CHECK_REFUSED(open_on(path, device, err), says);
  free(s);
}

TEST(a_level_runs_what_lesser_ones_do) {
  int v1 = vtb_cpu_level_find("x86-64"), v4 = vtb_cpu_level_find("x86-64-v4"),
      arm = vtb_cpu_level_find("aarch64");
  CHECK(vtb_cpu_level_runs(v4, v1) && vtb_cpu_level_runs(v4, v4) && !vtb_cpu_level_runs(v1, v4));
  CHECK(vtb_cpu_level_runs(arm, arm) && !vtb_cpu_level_runs(arm, v1));
  CHECK(!vtb_cpu_level_runs(v4, arm) && !vtb_cpu_level_runs(-1, v1));
}

TEST(nothing_for_this_machine) {
  sample *s = make();
  bool arm = vtb_cpu_levels_alike(vtb_cpu_level_here(), vtb_cpu_level_find("aarch64"));
  s->codes[0].cpu = arm ? "x86-64" : "aarch64";
  expect(s, VTB_DEVICE_CPU,
         arm ? "has code for x86-64; this machine has aarch64: build it with --target cpu:aarch64"
             : "has code for aarch64; this machine has x86-64");
  s = make();
  s->program.n_codes = 0;
  expect(s, VTB_DEVICE_CPU, "no code for processors: build it with --target cpu");
  s = make();
  s->images[0].arch = "sm_80";
  s->images[1].arch = "compute_100";
  expect(s, VTB_DEVICE_CUDA, "has code for sm_80, compute_100; Fake 0 has compute capability 9.0");
  s = make();
  s->program.n_images = 0;
  expect(s, VTB_DEVICE_CUDA, "no code for CUDA: build it with --target cuda");
  s = make();
  s->image_text = "not an image";
  expect(s, VTB_DEVICE_CUDA, "code for sm_90a by NVRTC 13.0, on Fake 0");
}

TEST(manifests_that_contradict_the_file) {
  sample *s = make();
  s->codes[0].entry = 1;
  expect(s, VTB_DEVICE_CPU, "its code has no entry 1");
  s = make();
  s->codes[0].entry = -1;
  expect(s, VTB_DEVICE_CPU, "its manifest is damaged");
  s = make();
  s->images[1].plan = 2;
  expect(s, VTB_DEVICE_CUDA, "its manifest is damaged");
  s = make();
  s->plans[1].arch = NULL;
  expect(s, VTB_DEVICE_CUDA, "its manifest is damaged");
  s = make();
  s->codes[0].workspace_bytes = -1;
  expect(s, VTB_DEVICE_CPU, "its manifest is damaged");
  s = make();
  s->codes[0].cpu = "z80";
  expect(s, VTB_DEVICE_CPU, "its manifest is damaged");
  s = make();
  s->tensors[0].dim[0] = INT64_C(1) << 62;
  expect(s, VTB_DEVICE_CPU, "its manifest is damaged");
  s = make();
  s->manifest.build = 43;
  expect(s, VTB_DEVICE_CPU, "code and manifest are of different builds");
  s = make();
  s->manifest.services_bytes = 4096;
  expect(s, VTB_DEVICE_CPU, "needs a newer runtime");
  s = make();
  s->tensors[1].dim[0] = 63;
  expect(s, VTB_DEVICE_CPU, "w"); /* the weights have 64 */
}

static vtb_status open_verified(const char *path, vtb_error *err) {
  vtb_artefact *a = NULL;
  vtb_status status = vtb_artefact_open(path, &a, err);
  if (status != VTB_OK) return status;
  status = vtb_artefact_verify(a, err);
  vtb_artefact_close(a);
  return status;
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
  CHECK_REFUSED(open_verified(path, err), says);
  /* without the hash damage may go unseen, but not into structure */
  if (vtb_artefact_open(path, &a, NULL) == VTB_OK) vtb_artefact_close(a);
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
  for (size_t at = 0; at < n - 80; at += 61) expect_damage(data, n, 0, at, 1, "damaged");
  for (size_t at = n - 80; at < n; at++)
    expect_damage(data, n, 0, at, 1, ""); /* the trailer, whole */
  expect_damage(data, n, 0, n - 16, 2, "has format 4; this is vertebra");
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
  RUN(what_a_file_says_of_itself);
  RUN(the_same_file_runs_on_a_device);
  RUN(plans_are_found_by_architecture);
  RUN(programs_outlive_the_artefact);
  RUN(a_level_runs_what_lesser_ones_do);
  RUN(nothing_for_this_machine);
  RUN(manifests_that_contradict_the_file);
  RUN(damaged_files);
  dlclose(fake);
  return test_done();
}
