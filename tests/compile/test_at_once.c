/* The library from several threads at once: models opened from one file, run and freed, sources
 * compiled, sound and wrong ones, damaged files refused. Everything gives what it gives alone.
 * `./dev tsan` runs this under the thread sanitizer. */
#include "frontend/compile/compile.h"
#include "runtime/vertebra.h"
#include "tests/runtime/support.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 3, IMAGE = 36, CLASSES = 5 };

static const char source[] =
    "use std.nn\n"
    "use std.conv\n"
    "model tiny(width: int = 8) {\n"
    "  input image: image[1, 6, 6]\n"
    "  x = gelu(linear(\"up\", linear(\"embed\", pixels(image), 4), width))\n"
    "  output logits = linear(\"head\", mean(x, axis = \"tokens\"), 5)\n"
    "}\n";
static const char wrong[] =
    "model tiny() {\n  input image: image[1, 6, 6]\n  output y = nothing\n}\n";

static char built[512], damaged[512], weights[512];

static vtb_compile_options options_of(const char *text) {
  return (vtb_compile_options){
      .size = sizeof(vtb_compile_options), .model = "tiny.vtb", .text = text};
}

/* Takes the model; its logits on an image of a number. 0: they could not be had. */
static int run_model(vtb_model *m, int number, float out[CLASSES]) {
  vtb_error err = {0};
  int64_t n, n_out;
  float *image = vtb_model_input(m, NULL, &n);
  for (int64_t i = 0; i < n; i++) image[i] = (float)((i * 7 + number) % 13) / 13;
  bool good = vtb_model_run(m, &err) == VTB_OK;
  const float *logits = vtb_model_output(m, NULL, &n_out);
  good = good && n == IMAGE && n_out == CLASSES;
  if (good) memcpy(out, logits, CLASSES * sizeof *out);
  vtb_model_free(m);
  return good;
}

static int from_file(int number, float out[CLASSES]) {
  vtb_model *m = NULL;
  vtb_error err = {0};
  vtb_open_options o = {.n_threads = 1 + number % 2};
  if (vtb_model_open(built, &o, &m, &err) != VTB_OK) return 0;
  if (vtb_model_load(m, weights, &err) != VTB_OK) {
    vtb_model_free(m);
    return 0;
  }
  return run_model(m, number, out);
}

static int from_source(int number, float out[CLASSES]) {
  vtb_compile_options o = options_of(source);
  vtb_report *r = vtb_report_new();
  vtb_program *p = NULL;
  vtb_model *m = NULL;
  vtb_error err = {0};
  vtb_status status = vtb_compile(&o, &p, r);
  vtb_report_free(r);
  if (status != VTB_OK || vtb_model_new(p, 1, &m, &err) != VTB_OK) return 0;
  if (vtb_model_load(m, weights, &err) != VTB_OK) {
    vtb_model_free(m);
    return 0;
  }
  return run_model(m, number, out);
}

/* What is wrong is said to who asked. */
static int refusals(int number) {
  vtb_compile_options o = options_of(wrong);
  vtb_report *r = vtb_report_new();
  vtb_program *p = NULL;
  const vtb_diagnostic *d;
  int good = vtb_compile(&o, &p, r) != VTB_OK && vtb_report_diagnostics(r, &d) > 0 &&
             strstr(d->text, "nothing") != NULL;
  vtb_report_free(r);
  vtb_model *m = NULL;
  vtb_error err = {0};
  good &= vtb_model_open(damaged, NULL, &m, &err) != VTB_OK && strstr(err.text, "damaged.so");
  good &= vtb_model_open(number % 2 ? "/nonexistent/a.so" : "/nonexistent/b.so", NULL, &m, &err) !=
          VTB_OK;
  return good;
}

static float alone[THREADS * ROUNDS][CLASSES];

static void *work(void *arg) {
  int thread = *(const int *)arg;
  intptr_t bad = 0;
  for (int round = 0; round < ROUNDS; round++) {
    int number = thread * ROUNDS + round;
    float a[CLASSES], b[CLASSES];
    bad += !from_file(number, a) || memcmp(a, alone[number], sizeof a) != 0;
    bad += !refusals(number);
    bad += !from_source(number, b) || memcmp(b, alone[number], sizeof b) != 0;
  }
  return (void *)bad;
}

static void make_files(void) {
  vtb_compile_options o = options_of(source);
  vtb_program *p = NULL;
  vtb_model *m = NULL;
  size_t n;
  snprintf(built, sizeof built, "%s", temp_path("built.so"));
  snprintf(damaged, sizeof damaged, "%s", temp_path("damaged.so"));
  snprintf(weights, sizeof weights, "%s", temp_path("w.safetensors"));
  CHECK(vtb_compile_file(&o, built, NULL) == VTB_OK);
  CHECK(vtb_compile(&o, &p, NULL) == VTB_OK);
  if (!p) exit(1);
  CHECK_OK(vtb_model_new(p, 1, &m, err));
  CHECK_OK(vtb_model_init(m, 11, err));
  CHECK_OK(vtb_model_save(m, weights, err));
  vtb_model_free(m);
  char *bytes = read_file(built, &n);
  bytes[n / 2] ^= 1;
  write_file(damaged, bytes, n);
  free(bytes);
}

TEST(many_at_once_are_like_one_alone) {
  pthread_t threads[THREADS];
  int numbers[THREADS];
  make_files();
  for (int i = 0; i < THREADS * ROUNDS; i++) CHECK(from_file(i, alone[i]));
  for (int i = 0; i < THREADS; i++) {
    numbers[i] = i;
    CHECK(pthread_create(&threads[i], NULL, work, &numbers[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) {
    void *bad;
    pthread_join(threads[i], &bad);
    CHECK_MSG(bad == NULL, "thread %d: %d of its results differ", i, (int)(intptr_t)bad);
  }
}

/* A model may be made by one thread, run by another and freed by a third. */
static vtb_model *handed_on;
static void *run_it(void *out) {
  vtb_error err = {0};
  return vtb_model_run(handed_on, &err) == VTB_OK ? out : NULL;
}
static void *free_it(void *arg) {
  vtb_model_free(handed_on);
  return arg;
}

TEST(models_wander_between_threads) {
  vtb_error err = {0};
  pthread_t t;
  void *ran;
  vtb_open_options o = {.n_threads = 2};
  CHECK_MSG(vtb_model_open(built, &o, &handed_on, &err) == VTB_OK, "%s", err.text);
  CHECK(pthread_create(&t, NULL, run_it, &err) == 0);
  pthread_join(t, &ran);
  CHECK(ran == &err);
  CHECK(pthread_create(&t, NULL, free_it, NULL) == 0);
  pthread_join(t, NULL);
}

int main(void) {
  setenv("VTB_MODELS", VTB_SOURCE_DIR "/models", 1);
  RUN(many_at_once_are_like_one_alone);
  RUN(models_wander_between_threads);
  return test_done();
}
