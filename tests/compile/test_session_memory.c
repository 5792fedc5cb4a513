/* Every allocation of sessions fails once, from opening the file to closing the session: rows of
 * images through programs of two batches, and a training step. Each failure is an error with a
 * sentence, nothing is left behind, and the same call then gives the same bits. */
#include "frontend/compile/driver.h"
#include "runtime/vertebra.h"
#include "tests/failing_malloc.h"
#include "tests/runtime/support.h"

#include <fcntl.h>

enum { ROWS = 3, SIDE = 28 };
static char built[512], trained[512], image[512], saved[512];

static void compile(bool training, const char *path) {
  static const char *const defines[] = {"depth=1", "dim=16"};
  static const int64_t batches[] = {2, 1};
  vtb_compile_options o = {.size = sizeof o, .model = "vil_nano", .no_tuning = true};
  vtb_report *r = vtb_report_new();
  o.defines = defines, o.n_defines = 2;
  o.training = training, o.optimizer = training ? "adamw" : NULL;
  if (training)
    o.batch = 2;
  else
    o.batches = batches, o.n_batches = 2, o.weights = saved;
  CHECK_MSG(vtb_compile_file(&o, path, r) == VTB_OK, "%s", vtb_report_text(r, false));
  vtb_report_free(r);
}

static vtb_status hash_of(vtb_session *s, const char *name, size_t n, uint64_t *hash,
                          vtb_error *err) {
  vtb_array a = {.size = sizeof a};
  vtb_status status = vtb_session_array(s, VTB_ARRAY_OUTPUT, name, &a, err);
  if (status == VTB_OK) *hash = vtb_hash_bytes(VTB_HASH_INIT, a.data, n * sizeof(float));
  return status;
}

static vtb_status classify(vtb_session *s, uint64_t *hash, vtb_error *err) {
  vtb_status status = VTB_OK;
  for (int i = 0; i < ROWS && status == VTB_OK; i++)
    status = vtb_session_load_image(s, "x", i, image, err);
  if (status == VTB_OK) status = vtb_session_run(s, ROWS, err);
  return status == VTB_OK ? hash_of(s, NULL, (size_t)ROWS * 10, hash, err) : status;
}

static vtb_status step(vtb_session *s, uint64_t *hash, vtb_error *err) {
  vtb_array x = {.size = sizeof x}, labels = x, scalars = x;
  vtb_status status = vtb_session_array(s, VTB_ARRAY_INPUT, "x", &x, err);
  if (status == VTB_OK) status = vtb_session_array(s, VTB_ARRAY_INPUT, "labels", &labels, err);
  if (status == VTB_OK)
    status = vtb_session_array(s, VTB_ARRAY_INPUT, "update.scalars", &scalars, err);
  if (status != VTB_OK) return status;
  for (int i = 0; i < 2 * SIDE * SIDE; i++) ((float *)x.data)[i] = (float)(i * 7 % 29) / 29;
  for (int i = 0; i < 2; i++) ((int32_t *)labels.data)[i] = i;
  ((float *)scalars.data)[0] = 1, ((float *)scalars.data)[2] = 1e-3f;
  status = vtb_session_run(s, 0, err);
  if (status == VTB_OK) status = hash_of(s, "loss", 1, hash, err);
  return status == VTB_OK ? vtb_session_save(s, saved, err) : status;
}

static vtb_status use(vtb_session_role role, uint64_t *hash, vtb_error *err) {
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  vtb_session_options o = {.size = sizeof o, .role = role, .threads = 2};
  bool trains = role == VTB_SESSION_STEP;
  if (!trains) o.batch = ROWS;
  vtb_status status = vtb_model_open(trains ? trained : built, NULL, &m, err);
  if (status == VTB_OK) status = vtb_session_open(m, &o, &s, err);
  if (status == VTB_OK) status = trains ? step(s, hash, err) : classify(s, hash, err);
  vtb_session_close(s);
  vtb_model_release(m);
  return status;
}

static size_t open_files(void) {
  size_t n = 0;
  for (int i = 0; i < 256; i++) n += fcntl(i, F_GETFD) >= 0;
  return n;
}

static void fail_each(vtb_session_role role) {
  uint64_t want = 0, hash = 0;
  CHECK_OK(use(role, &want, err));
  size_t files = open_files();
  int failures = 0;
  bool reached = true;
  for (int64_t n = 1; reached && n < 100000; n++) {
    vtb_error err = {0};
    fail_nth(n);
    vtb_status status = use(role, &hash, &err);
    reached = fail_off();
    failures += status != VTB_OK;
    CHECK_MSG(status == VTB_OK ? hash == want : status == VTB_E_MEMORY && err.text[0],
              "allocation %d: status %d \"%s\"", (int)n, (int)status, err.text);
    CHECK_MSG(open_files() == files, "allocation %d: %zu files are open, %zu were", (int)n,
              open_files(), files);
  }
  CHECK_MSG(failures > 20, "%d failures", failures);
  CHECK_OK(use(role, &hash, err));
  CHECK(hash == want);
}

TEST(rows_of_images) { fail_each(VTB_SESSION_INFER); }
TEST(a_training_step) { fail_each(VTB_SESSION_STEP); }

int main(void) {
  setenv("VTB_MODELS", VTB_SOURCE_DIR "/models", 1);
  snprintf(built, sizeof built, "%s", temp_path("built.so"));
  snprintf(trained, sizeof trained, "%s", temp_path("trained.so"));
  snprintf(saved, sizeof saved, "%s", temp_path("saved.safetensors"));
  snprintf(image, sizeof image, "%s", VTB_SOURCE_DIR "/tests/fuzz/corpus/image/rgb.png");
  uint64_t hash;
  compile(true, trained);
  CHECK_OK(use(VTB_SESSION_STEP, &hash, err)); /* whose weights the other file has */
  compile(false, built);
  RUN(rows_of_images);
  RUN(a_training_step);
  return test_done();
}
