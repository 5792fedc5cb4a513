/* Sessions of a model: their arrays, memory of the caller's, images, pools, forks. The model is
 * y = 3 x + w, or a classifier written by hand. */
#include "runtime/artefact/safetensors.h"
#include "runtime/image/prepare.h"
#include "runtime/model.h"
#include "tests/runtime/fake_program.h"
#include "tests/runtime/sample_file.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

static char built[512];

static vtb_session *open_sample(vtb_model **m) {
  vtb_session *s = NULL;
  vtb_session_options o = {.size = sizeof o, .threads = 1};
  CHECK_OK(vtb_model_open(built, NULL, m, err));
  CHECK_OK(vtb_session_open(*m, &o, &s, err));
  return s;
}

static vtb_array floats(float *at, int64_t n) {
  return (vtb_array){
      .size = sizeof(vtb_array), .type = VTB_ARRAY_F32, .rank = 1, .dim = {n}, .data = at};
}

/* ---- arrays ---------------------------------------------------------------------------------- */

TEST(runs_work_in_the_callers_memory) {
  vtb_model *m = NULL;
  vtb_session *s = open_sample(&m);
  _Alignas(64) float x[64], y[64], w[64];
  vtb_array in = floats(x, 64), out = floats(y, 64), param = floats(w, 64);
  vtb_array at = {.size = sizeof at};
  for (int i = 0; i < 64; i++) x[i] = (float)i, w[i] = -1;
  CHECK_OK(vtb_session_bind(s, "x", &in, err));
  CHECK_OK(vtb_session_bind(s, "y", &out, err));
  CHECK_OK(vtb_session_run(s, 0, err));
  for (int i = 0; i < 64; i++) CHECK(y[i] == 4 * (float)i);
  CHECK_OK(vtb_session_array(s, VTB_ARRAY_OUTPUT, "y", &at, err));
  CHECK(at.data == y);
  CHECK_OK(vtb_session_bind(s, "w", &param, err)); /* parameters too, for this session alone */
  CHECK_OK(vtb_session_run(s, 1, err));
  CHECK(y[9] == 26);
  CHECK_OK(vtb_session_bind(s, "w", NULL, err));
  CHECK_OK(vtb_session_bind(s, "y", NULL, err));
  x[0] = 5;
  CHECK_OK(vtb_session_run(s, 1, err));
  CHECK_OK(vtb_session_array(s, VTB_ARRAY_OUTPUT, NULL, &at, err));
  CHECK(at.data != y && *(float *)at.data == 15 && y[9] == 26);
  vtb_session_close(s);
  vtb_model_release(m);
}

TEST(unaligned_memory_is_copied) {
  vtb_model *m = NULL;
  vtb_session *s = open_sample(&m);
  char bytes[2][64 * 4 + 2];
  float x[64], y[64];
  memset(bytes, 0x5a, sizeof bytes);
  for (int i = 0; i < 64; i++) x[i] = (float)i;
  memcpy(bytes[0] + 1, x, sizeof x);
  vtb_array in = floats((float *)(void *)(bytes[0] + 1), 64);
  vtb_array out = floats((float *)(void *)(bytes[1] + 1), 64);
  CHECK_OK(vtb_session_bind(s, "x", &in, err));
  CHECK_OK(vtb_session_bind(s, "y", &out, err));
  CHECK_OK(vtb_session_run(s, 1, err));
  memcpy(y, bytes[1] + 1, sizeof y);
  for (int i = 0; i < 64; i++) CHECK(y[i] == 4 * (float)i);
  CHECK(bytes[1][0] == 0x5a && bytes[1][257] == 0x5a);
  vtb_session_close(s);
  vtb_model_release(m);
}

TEST(what_does_not_fit_is_refused) {
  vtb_model *m = NULL;
  vtb_session *s = open_sample(&m), *none = NULL;
  float x[64];
  vtb_array a = floats(x, 63), at = {.size = sizeof at};
  CHECK_REFUSED(vtb_session_bind(s, "x", &a, err), "\"x\" is [63], and [64] is needed");
  a = floats(x, 64), a.type = VTB_ARRAY_I32;
  CHECK_REFUSED(vtb_session_bind(s, "x", &a, err), "is not of type VTB_ARRAY_F32");
  a = floats(NULL, 64);
  CHECK_REFUSED(vtb_session_bind(s, "x", &a, err), "has no data");
  a = floats(x, 64), a.rank = 9;
  CHECK_REFUSED(vtb_session_bind(s, "x", &a, err), "is needed");
  a = floats(x, 64), a.size = 3;
  CHECK_REFUSED(vtb_session_bind(s, "x", &a, err), "sizeof(vtb_array)");
  a = floats(x, 64), a.device = VTB_DEVICE_CUDA;
  CHECK_REFUSED(vtb_session_bind(s, "x", &a, err), "not in the host's memory");
  CHECK_REFUSED(vtb_session_bind(s, "xx", &a, err), "no array \"xx\"");
  CHECK_REFUSED(vtb_session_bind(s, NULL, &a, err), "bound by its name");
  CHECK_REFUSED(vtb_session_array(s, VTB_ARRAY_OUTPUT, "x", &at, err), "no output \"x\"");
  CHECK_REFUSED(vtb_session_array(s, VTB_ARRAY_STATE, NULL, &at, err), "no state");
  CHECK_REFUSED(vtb_session_run(s, 2, err), "the session has a batch of 1");
  CHECK_REFUSED(vtb_session_run(s, -1, err), "a run of -1 rows");
  CHECK_OK(vtb_session_run(s, 1, err)); /* nothing of that was kept */
  vtb_session_options o = {.size = sizeof o, .threads = -1};
  CHECK_REFUSED(vtb_session_open(m, &o, &none, err), "threads is -1");
  o = (vtb_session_options){.size = sizeof o, .role = VTB_SESSION_STEP};
  CHECK_REFUSED(vtb_session_open(m, &o, &none, err), "no program to train: build it with --train");
  o = (vtb_session_options){.size = sizeof o, .height = 224, .width = 224};
  CHECK_REFUSED(vtb_session_open(m, &o, &none, err), "no program for images of 224x224");
  CHECK_REFUSED(vtb_session_open(m, &(vtb_session_options){0}, &none, err),
                "sizeof(vtb_session_options)");
  CHECK(!none);
  vtb_session_close(s);
  vtb_model_release(m);
}

/* ---- images ---------------------------------------------------------------------------------- */

static vtb_program classifier; /* what the model's program points to */

static vtb_model *open_classifier(const char *weights) {
  vtb_model *m = NULL;
  classifier = fake_eval_program();
  classifier.free = NULL;
  strcpy(classifier.prepare, "{\"crop\": 0.5, \"mean\": 0.25, \"std\": 2}");
  CHECK_OK(vtb__model_of_program(&classifier, weights, NULL, &m, err));
  return m;
}

/* Row 2 gets the image as the model says, then as the caller does; the others stay. */
TEST(images_are_prepared_as_the_model_or_the_caller_says) {
  vtb_model *m = open_classifier(NULL);
  vtb_session *s = NULL;
  vtb_array a = {.size = sizeof a};
  char json[256];
  CHECK_OK(vtb_session_open(m, NULL, &s, err));
  CHECK_OK(vtb_session_preparation(s, NULL, json, sizeof json, err));
  CHECK_MSG(strstr(json, "\"crop\": 0.5") && strstr(json, "\"std\": [2"), "%s", json);
  CHECK_REFUSED(vtb_session_preparation(s, NULL, json, 20, err), "bytes, and there are 20");
  uint8_t pixels[9 * 7 * 3];
  memset(pixels, 255, sizeof pixels);
  vtb_picture white = {sizeof white, 9, 7, 3, pixels};
  CHECK_OK(vtb_session_array(s, VTB_ARRAY_INPUT, NULL, &a, err));
  const float *row = (const float *)a.data + 2 * FAKE_PIXELS;
  CHECK_OK(vtb_session_set_image(s, NULL, 2, &white, err));
  CHECK_NEAR((double)row[0], 0.375, 1e-6);
  CHECK_NEAR((double)row[FAKE_PIXELS - 1], 0.375, 1e-6);
  CHECK(row[-1] == 0 && row[FAKE_PIXELS] == 0);
  vtb_image im = {9, 7, 3, pixels};
  CHECK_OK(vtb_image_save_png(temp_path("white.png"), &im, err));
  CHECK_OK(vtb_session_load_image(s, "image", 3, temp_path("white.png"), err));
  CHECK_NEAR((double)row[FAKE_PIXELS], 0.375, 1e-6);
  size_t n;
  char *bytes = read_file(temp_path("white.png"), &n);
  CHECK_OK(vtb_session_decode_image(s, NULL, 4, bytes, n, err));
  CHECK_NEAR((double)row[2 * FAKE_PIXELS], 0.375, 1e-6);
  CHECK_REFUSED(vtb_session_decode_image(s, NULL, 4, bytes, n / 2, err), "the image");
  free(bytes);

  CHECK_OK(vtb_session_prepare(s, "{\"mean\": 0}", err));
  CHECK_OK(vtb_session_set_image(s, NULL, 2, &white, err));
  CHECK_NEAR((double)row[0], 0.5, 1e-6);
  CHECK_REFUSED(vtb_session_prepare(s, "{\"std\": 0}", err), "std has 0");
  CHECK_OK(vtb_session_set_image(s, NULL, 2, &white, err)); /* and what held holds */
  CHECK_NEAR((double)row[0], 0.5, 1e-6);
  CHECK_OK(vtb_session_prepare(s, NULL, err));
  CHECK_OK(vtb_session_set_image(s, NULL, 2, &white, err));
  CHECK_NEAR((double)row[0], 0.375, 1e-6);

  CHECK_REFUSED(vtb_session_set_image(s, NULL, FAKE_BATCH, &white, err), "row 8 of image");
  CHECK_REFUSED(vtb_session_set_image(s, NULL, -1, &white, err), "row -1");
  CHECK_REFUSED(vtb_session_set_image(s, "logits", 0, &white, err), "no image input logits");
  CHECK_REFUSED(vtb_session_load_image(s, NULL, 0, temp_path("no.png"), err), "no.png");
  white.channels = 4;
  CHECK_REFUSED(vtb_session_set_image(s, NULL, 0, &white, err), "in 4 channels");
  vtb_session_close(s);
  vtb_model_release(m);
}

/* Weights that are named hold over the model. */
TEST(images_are_prepared_as_named_weights_say) {
  vtb_model *m = open_classifier(NULL);
  vtb_session *s = NULL;
  CHECK_OK(vtb_session_open(m, NULL, &s, err));
  CHECK_OK(vtb_session_save(s, temp_path("w.safetensors"), err));
  vtb_session_close(s);
  vtb_model_release(m);
  vtb_weights *w = NULL;
  CHECK_OK(vtb_safetensors_load(temp_path("w.safetensors"), &w, err));
  vtb_weights_set_meta(w, "prepare", "{\"mean\": 0}");
  vtb_weights_set_meta(w, "classes", "[]");
  CHECK_OK(vtb_safetensors_save(temp_path("said.safetensors"), w, err));
  vtb_weights_set_meta(w, "prepare", "{\"std\": 0}");
  CHECK_OK(vtb_safetensors_save(temp_path("bad.safetensors"), w, err));
  vtb_weights_free(w);
  char json[256];
  m = open_classifier(temp_path("said.safetensors"));
  CHECK_STR(vtb_model_meta(m, "classes"), "[]");
  CHECK_OK(vtb_session_open(m, NULL, &s, err));
  CHECK_OK(vtb_session_preparation(s, NULL, json, sizeof json, err));
  CHECK_MSG(strstr(json, "\"crop\": 0.5") && strstr(json, "\"mean\": [0"), "%s", json);
  CHECK_OK(vtb_session_prepare(s, "{\"crop\": 1}", err)); /* over both, of what it says alone */
  CHECK_OK(vtb_session_preparation(s, NULL, json, sizeof json, err));
  CHECK_MSG(strstr(json, "\"crop\": 1,") && strstr(json, "\"mean\": [0]"), "%s", json);
  vtb_session_close(s);
  vtb_model_release(m);
  m = open_classifier(temp_path("bad.safetensors"));
  CHECK_OK(vtb_session_open(m, NULL, &s, err));
  CHECK_REFUSED(vtb_session_preparation(s, NULL, json, sizeof json, err), "the weights: std has 0");
  vtb_session_close(s);
  vtb_model_release(m);
}

/* ---- pools ----------------------------------------------------------------------------------- */

/* A thread a range, as a pool of somebody's might do. */
typedef struct part {
  vtb_job job;
  void *closure;
  int64_t begin, end;
} part;
static void *run_part(void *arg) {
  const part *p = arg;
  p->job(p->closure, p->begin, p->end);
  return NULL;
}
static int pool_calls;
static void pool(void *user, vtb_job job, void *closure, int64_t n, int64_t grain) {
  pthread_t threads[16];
  part parts[16];
  int used = 0;
  CHECK(user == &pool_calls);
  pool_calls++;
  for (int64_t at = 0; at < n;) {
    int64_t end = used == 15 || n - at < grain ? n : at + grain;
    parts[used] = (part){job, closure, at, end};
    CHECK(pthread_create(&threads[used], NULL, run_part, &parts[used]) == 0);
    used++;
    at = end;
  }
  for (int i = 0; i < used; i++) pthread_join(threads[i], NULL);
}

TEST(threads_of_the_callers_give_the_same) {
  vtb_model *m = open_classifier(NULL);
  float logits[2][FAKE_BATCH * FAKE_CLASSES];
  for (int way = 0; way < 2; way++) {
    vtb_session *s = NULL;
    vtb_session_options o = {.size = sizeof o, .threads = 3};
    vtb_array x = {.size = sizeof x}, y = {.size = sizeof y};
    if (way) o.pool = pool, o.pool_user = &pool_calls;
    CHECK_OK(vtb_session_open(m, &o, &s, err));
    CHECK_OK(vtb_session_array(s, VTB_ARRAY_INPUT, NULL, &x, err));
    for (int i = 0; i < FAKE_BATCH * FAKE_PIXELS; i++) ((float *)x.data)[i] = (float)(i % 7);
    CHECK_OK(vtb_session_run(s, 0, err));
    CHECK_OK(vtb_session_array(s, VTB_ARRAY_OUTPUT, NULL, &y, err));
    memcpy(logits[way], y.data, sizeof logits[way]);
    vtb_session_close(s);
  }
  CHECK(pool_calls > 0 && memcmp(logits[0], logits[1], sizeof logits[0]) == 0);
  vtb_model_release(m);
}

/* ---- another thread, a child, another library ------------------------------------------------ */

static vtb_session *reentered;
static void run_again(void *user, vtb_job job, void *closure, int64_t n, int64_t grain) {
  (void)user, (void)grain;
  CHECK_REFUSED(vtb_session_run(reentered, 1, err), "in use: by another thread");
  job(closure, 0, n);
}

TEST(two_runs_of_a_session_at_once_are_refused) {
  vtb_model *m = open_classifier(NULL);
  vtb_session_options o = {.size = sizeof o, .threads = 2, .pool = run_again};
  CHECK_OK(vtb_session_open(m, &o, &reentered, err));
  CHECK_OK(vtb_session_run(reentered, 0, err));
  vtb_session_close(reentered);
  vtb_model_release(m);
}

/* The exit status of what a child does. */
static int in_child(int (*work)(vtb_model *m, vtb_session *s), vtb_model *m, vtb_session *s) {
  int status = -1;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    alarm(20); /* a hang is a failure */
    _exit(work(m, s));
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static int run_and_close(vtb_model *m, vtb_session *s) {
  vtb_session *another = NULL;
  vtb_session_options o = {.size = sizeof o, .threads = 3};
  vtb_error err = {0};
  int bad = vtb_session_run(s, 0, &err) != VTB_OK;
  vtb_session_close(s);
  bad += vtb_session_open(m, &o, &another, &err) != VTB_OK;
  bad += !bad && vtb_session_run(another, 0, &err) != VTB_OK;
  vtb_session_close(another);
  vtb_model_release(m);
  if (bad) fprintf(stderr, "%s\n", err.text);
  return bad;
}

TEST(a_forked_child_uses_what_its_parent_opened) {
  vtb_model *m = open_classifier(NULL);
  vtb_session *s = NULL;
  vtb_session_options o = {.size = sizeof o, .threads = 3};
  CHECK_OK(vtb_session_open(m, &o, &s, err));
  CHECK_OK(vtb_session_run(s, 0, err));
  CHECK(in_child(run_and_close, m, s) == 0);
  CHECK_OK(vtb_session_run(s, 0, err)); /* and the parent goes on */
  vtb_session_close(s);
  vtb_model_release(m);
}

static int run_only(vtb_model *m, vtb_session *s) {
  vtb_error err = {0};
  (void)m;
  bool refused = vtb_session_run(s, 0, &err) == VTB_E_USAGE && strstr(err.text, "was forked");
  vtb_session_close(s);
  return !refused;
}

static void fork_inside(void *user, vtb_job job, void *closure, int64_t n, int64_t grain) {
  (void)grain;
  CHECK(in_child(run_only, user, reentered) == 0);
  job(closure, 0, n);
}

TEST(a_session_that_ran_while_its_process_forked_is_refused) {
  vtb_model *m = open_classifier(NULL);
  vtb_session_options o = {.size = sizeof o, .threads = 2, .pool = fork_inside, .pool_user = m};
  CHECK_OK(vtb_session_open(m, &o, &reentered, err));
  CHECK_OK(vtb_session_run(reentered, 0, err));
  vtb_session_close(reentered);
  vtb_model_release(m);
}

TEST(the_versions_are_known) {
  CHECK(vtb_version()[0] >= '0' && vtb_version()[0] <= '9');
  CHECK(vtb_abi_version() == VTB_ABI_VERSION);
}

int main(void) {
  sample *file = make();
  snprintf(built, sizeof built, "%s", temp_path("built.so"));
  CHECK_OK(write_sample(file, built, err));
  free(file);
  RUN(runs_work_in_the_callers_memory);
  RUN(unaligned_memory_is_copied);
  RUN(what_does_not_fit_is_refused);
  RUN(images_are_prepared_as_the_model_or_the_caller_says);
  RUN(images_are_prepared_as_named_weights_say);
  RUN(threads_of_the_callers_give_the_same);
  RUN(two_runs_of_a_session_at_once_are_refused);
  RUN(a_forked_child_uses_what_its_parent_opened);
  RUN(a_session_that_ran_while_its_process_forked_is_refused);
  RUN(the_versions_are_known);
  return test_done();
}
