/* The library from several threads at once: models opened from one file, run and freed, sources
 * compiled, sound and wrong ones, damaged files refused. Everything gives what it gives alone.
 * `./dev tsan` runs this under the thread sanitizer. */
#include "frontend/compile/driver.h"
#include "runtime/runner.h"
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

static void fill(float *image, int64_t n, int number) {
  for (int64_t i = 0; i < n; i++) image[i] = (float)((i * 7 + number) % 13) / 13;
}

/* Its logits on an image of a number. 0: they could not be had. */
static int run_session(vtb_session *s, int number, float out[CLASSES]) {
  vtb_error err = {0};
  vtb_array image = {.size = sizeof image}, logits = {.size = sizeof logits};
  bool good = vtb_session_array(s, VTB_ARRAY_INPUT, NULL, &image, &err) == VTB_OK;
  if (good) fill(image.data, IMAGE, number);
  good = good && vtb_session_run(s, 1, &err) == VTB_OK &&
         vtb_session_array(s, VTB_ARRAY_OUTPUT, NULL, &logits, &err) == VTB_OK &&
         logits.dim[1] == CLASSES;
  if (good) memcpy(out, logits.data, CLASSES * sizeof *out);
  if (!good) fprintf(stderr, "%s\n", err.text);
  return good;
}

static int run_model(vtb_model *m, int number, float out[CLASSES]) {
  vtb_session *s = NULL;
  vtb_error err = {0};
  vtb_session_options o = {.size = sizeof o, .threads = 1 + number % 2};
  int good = vtb_session_open(m, &o, &s, &err) == VTB_OK && run_session(s, number, out);
  vtb_session_close(s);
  return good;
}

static int from_file(int number, float out[CLASSES]) {
  vtb_model *m = NULL;
  vtb_error err = {0};
  vtb_open_options o = {.size = sizeof o, .weights = weights};
  int good = vtb_model_open(built, &o, &m, &err) == VTB_OK && run_model(m, number, out);
  vtb_model_release(m);
  return good;
}

static int from_source(int number, float out[CLASSES]) {
  vtb_compile_options o = options_of(source);
  vtb_model *m = NULL;
  o.weights = weights;
  int good = vtb_compile_model(&o, &m, NULL) == VTB_OK && run_model(m, number, out);
  vtb_model_release(m);
  return good;
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
  vtb_open_options verified = {.size = sizeof verified, .verify = true};
  good &= vtb_model_open(damaged, &verified, &m, &err) != VTB_OK && strstr(err.text, "damaged.so");
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
  vtb_runner *m = NULL;
  size_t n;
  snprintf(built, sizeof built, "%s", temp_path("built.so"));
  snprintf(damaged, sizeof damaged, "%s", temp_path("damaged.so"));
  snprintf(weights, sizeof weights, "%s", temp_path("w.safetensors"));
  CHECK(vtb_compile_file(&o, built, NULL) == VTB_OK);
  CHECK(vtb_compile(&o, &p, NULL) == VTB_OK);
  if (!p) exit(1);
  CHECK_OK(vtb_runner_new(p, 1, &m, err));
  CHECK_OK(vtb_runner_init(m, 11, err));
  CHECK_OK(vtb_runner_save(m, weights, err));
  vtb_runner_free(m);
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

/* A session may be made by one thread, run by another and freed by a third. */
static vtb_session *handed_on;
static void *run_it(void *out) {
  vtb_error err = {0};
  return vtb_session_run(handed_on, 1, &err) == VTB_OK ? out : NULL;
}
static void *free_it(void *arg) {
  vtb_session_close(handed_on);
  return arg;
}

TEST(sessions_wander_between_threads) {
  vtb_model *m = NULL;
  pthread_t t;
  void *ran;
  vtb_open_options o = {.size = sizeof o, .weights = weights};
  vtb_session_options two = {.size = sizeof two, .threads = 2};
  CHECK_OK(vtb_model_open(built, &o, &m, err));
  CHECK_OK(vtb_session_open(m, &two, &handed_on, err));
  vtb_model_release(m);
  CHECK(pthread_create(&t, NULL, run_it, &two) == 0);
  pthread_join(t, &ran);
  CHECK(ran == &two);
  CHECK(pthread_create(&t, NULL, free_it, NULL) == 0);
  pthread_join(t, NULL);
}

/* One model, a session a thread, all threads at the same time. */
enum { SESSIONS = 10, RUNS = 20 };
static vtb_model *shared;
static void *run_many(void *arg) {
  int number = *(const int *)arg;
  vtb_session *s = NULL;
  vtb_error err = {0};
  vtb_session_options o = {.size = sizeof o, .threads = 1 + number % 2};
  intptr_t bad = vtb_session_open(shared, &o, &s, &err) != VTB_OK;
  for (int i = 0; i < RUNS && !bad; i++) {
    int image = (number + i) % (THREADS * ROUNDS);
    float out[CLASSES];
    bad += !run_session(s, image, out) || memcmp(out, alone[image], sizeof out) != 0;
  }
  vtb_session_close(s);
  vtb_model_release(shared);
  return (void *)bad;
}

TEST(sessions_of_one_model_at_once) {
  pthread_t threads[SESSIONS];
  int numbers[SESSIONS];
  vtb_open_options o = {.size = sizeof o, .weights = weights};
  CHECK_OK(vtb_model_open(built, &o, &shared, err));
  for (int i = 0; i < SESSIONS; i++) {
    numbers[i] = i;
    vtb_model_retain(shared);
    CHECK(pthread_create(&threads[i], NULL, run_many, &numbers[i]) == 0);
  }
  vtb_model_release(shared);
  for (int i = 0; i < SESSIONS; i++) {
    void *bad;
    pthread_join(threads[i], &bad);
    CHECK_MSG(bad == NULL, "session %d: %d of its results differ", i, (int)(intptr_t)bad);
  }
}

int main(void) {
  setenv("VTB_MODELS", VTB_SOURCE_DIR "/models", 1);
  RUN(many_at_once_are_like_one_alone);
  RUN(sessions_wander_between_threads);
  RUN(sessions_of_one_model_at_once);
  return test_done();
}
