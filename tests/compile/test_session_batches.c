/* Files with programs of several batches and image sizes: any number of rows gives what its rows
 * give one by one, in the session's memory and in the caller's; weights are mapped, not copied. */
#include "runtime/base/update.h"
#include "frontend/compile/driver.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/runner.h"
#include "runtime/vertebra.h"
#include "tests/runtime/support.h"

enum { CLASSES = 10, MOST = 9, LARGE = 28, SMALL = 20 };
static char built[512], padded[512], weights[512];

static vtb_compile_options options(void) {
  static const char *const defines[] = {"depth=2", "dim=16"};
  return (vtb_compile_options){.size = sizeof(vtb_compile_options),
                               .model = "vil_nano",
                               .defines = defines,
                               .n_defines = 2,
                               .weights = weights,
                               .no_tuning = true};
}

static void compile(const vtb_compile_options *o, const char *path) {
  vtb_report *r = vtb_report_new();
  CHECK_MSG(vtb_compile_file(o, path, r) == VTB_OK, "%s", vtb_report_text(r, false));
  vtb_report_free(r);
}

/* As if it had been trained: what is initialised as zeros hides what is behind it. */
static void disturb(vtb_runner *m) {
  const vtb_tensor_info *t;
  unsigned long long seed = 5;
  for (int i = vtb_runner_tensors(m, &t) - 1; i >= 0; i--) {
    int64_t n;
    float *at = t[i].io == VTB_IO_PARAM ? vtb_runner_param(m, t[i].name, &n) : NULL;
    for (int64_t k = 0; at && k < n; k++) at[k] += 0.3f * (float)test_random(&seed);
  }
}

static void make_files(void) {
  static const int64_t batches[] = {4, 2, 1}, three[] = {3};
  static const char *const images[] = {"28", "20"};
  snprintf(built, sizeof built, "%s", temp_path("built.so"));
  snprintf(padded, sizeof padded, "%s", temp_path("padded.so"));
  snprintf(weights, sizeof weights, "%s", temp_path("w.safetensors"));
  vtb_compile_options o = options();
  vtb_program *p = NULL;
  vtb_runner *m = NULL;
  o.weights = NULL;
  CHECK(vtb_compile(&o, &p, NULL) == VTB_OK);
  if (!p) exit(1);
  CHECK_OK(vtb_runner_new(p, 1, &m, err));
  CHECK_OK(vtb_runner_init(m, 11, err));
  disturb(m);
  CHECK_OK(vtb_runner_save(m, weights, err));
  vtb_runner_free(m);
  o.weights = weights;
  o.batches = three, o.n_batches = 1;
  compile(&o, padded);
  o.batches = batches, o.n_batches = 3;
  o.images = images, o.n_images = 2;
  compile(&o, built);
}

static void fill(float *at, int64_t rows, int side, int first) {
  for (int64_t i = 0; i < rows * side * side; i++)
    at[i] = (float)((i % (side * side) * 7 + (first + i / (side * side)) * 131) % 29) / 29 - 0.3f;
}

static vtb_array images_at(float *at, int64_t rows, int side) {
  return (vtb_array){.size = sizeof(vtb_array),
                     .type = VTB_ARRAY_F32,
                     .rank = 4,
                     .dim = {rows, 1, side, side},
                     .data = at};
}

static vtb_array scores_at(float *at, int64_t rows) {
  return (vtb_array){.size = sizeof(vtb_array),
                     .type = VTB_ARRAY_F32,
                     .rank = 2,
                     .dim = {rows, CLASSES},
                     .data = at};
}

static vtb_session *open_session(const char *path, int64_t batch) {
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  vtb_session_options o = {.size = sizeof o, .threads = 1, .batch = batch};
  CHECK_OK(vtb_model_open(path, NULL, &m, err));
  CHECK_OK(vtb_session_open(m, &o, &s, err));
  vtb_model_release(m);
  return s;
}

/* Rows `first` to first + rows, in memory of the caller's, which is checked behind the last row. */
static void run_bound(vtb_session *s, int side, int first, int64_t rows, float *scores) {
  static float x[MOST * LARGE * LARGE], y[(MOST + 1) * CLASSES];
  fill(x, rows, side, first);
  for (int i = 0; i < (MOST + 1) * CLASSES; i++) y[i] = -77;
  vtb_array in = images_at(x, rows, side), out = scores_at(y, MOST + 1);
  CHECK_OK(vtb_session_bind(s, "x", &in, err));
  CHECK_OK(vtb_session_bind(s, "y", &out, err));
  CHECK_OK(vtb_session_run(s, 0, err));
  for (int64_t i = rows * CLASSES; i < (MOST + 1) * CLASSES; i++) CHECK(y[i] == -77);
  memcpy(scores, y, (size_t)rows * CLASSES * sizeof *y);
}

static float alone[2][MOST][CLASSES];

static double worst(const float *a, const float *b, int64_t n) {
  double most = 0;
  for (int64_t i = 0; i < n; i++) most = fmax(most, fabs((double)(a[i] - b[i])));
  return most;
}

/* Products of other sizes may sum in another order: rounding, no more. */
static void check_rows(const char *path, int64_t batch) {
  vtb_session *s = open_session(path, batch);
  float scores[MOST * CLASSES];
  for (int64_t rows = 1; rows <= batch; rows++) {
    run_bound(s, LARGE, 0, rows, scores);
    CHECK_MSG(worst(scores, &alone[0][0][0], rows * CLASSES) < 1e-5, "%d rows differ by %g",
              (int)rows, worst(scores, &alone[0][0][0], rows * CLASSES));
  }
  CHECK_REFUSED(vtb_session_run(s, batch + 1, err), "the session has a batch of");
  vtb_session_close(s);
}

TEST(any_number_of_rows_gives_what_each_gives_alone) {
  vtb_session *s = open_session(built, 1);
  for (int row = 0; row < MOST; row++) {
    run_bound(s, LARGE, row, 1, alone[0][row]);
    run_bound(s, SMALL, row, 1, alone[1][row]);
    CHECK(worst(alone[0][row], alone[1][row], CLASSES) > 1e-3); /* they are other images */
    if (row) CHECK(worst(alone[0][row], alone[0][row - 1], CLASSES) > 1e-3);
  }
  vtb_session_close(s);
  check_rows(built, 4);
  check_rows(built, MOST);
  check_rows(padded, 3); /* one program of 3: rows in vain */
  check_rows(padded, 7);
}

/* A row gives the same bits wherever it stands in a program, and beside whatever. */
TEST(rows_do_not_see_each_other) {
  vtb_session *s = open_session(padded, 3);
  float first[3 * CLASSES], scores[3 * CLASSES];
  run_bound(s, LARGE, 0, 3, first);
  run_bound(s, LARGE, 1, 2, scores);
  CHECK(memcmp(scores, first + CLASSES, 2 * CLASSES * sizeof *scores) == 0);
  run_bound(s, LARGE, 2, 1, scores);
  CHECK(memcmp(scores, first + 2 * CLASSES, CLASSES * sizeof *scores) == 0);
  vtb_session_close(s);
}

/* Samples that meet need one program for them; joined batches meet nobody. */
TEST(rows_that_meet_are_run_together) {
  static const int64_t batches[] = {4, 2};
  static const char *const texts[] = {
      "model m() {\n  input x: tensor[1]\n  output y = roll(x, 1, axis = \"B\")\n}\n",
      "model m() {\n  input x: tensor[1]\n"
      "  output y = split(square(concat(x, 0 * x, axis = \"B\")), 2, axis = \"B\")[0]\n}\n"};
  for (int k = 0; k < 2; k++) {
    vtb_compile_options o = {.size = sizeof o, .text = texts[k], .no_tuning = true};
    o.batches = batches, o.n_batches = 2;
    const char *path = temp_path("meet.so");
    compile(&o, path);
    vtb_session *s = open_session(path, 4);
    float x[4] = {1, 2, 3, 4}, y[4];
    vtb_array in = scores_at(x, 4), out = scores_at(y, 4);
    in.dim[1] = out.dim[1] = 1;
    CHECK_OK(vtb_session_bind(s, "x", &in, err));
    CHECK_OK(vtb_session_bind(s, "y", &out, err));
    for (int64_t rows = 4; rows > 0; rows -= 2) {
      CHECK_OK(vtb_session_run(s, rows, err));
      for (int64_t i = 0; i < rows; i++)
        CHECK_NEAR((double)y[i], k ? (double)(x[i] * x[i]) : (double)x[(i + rows - 1) % rows], 0);
    }
    if (k)
      CHECK_OK(vtb_session_run(s, 3, err));
    else
      CHECK_REFUSED(vtb_session_run(s, 3, err), "samples meet in this model");
    vtb_session_close(s);
  }
}

TEST(bound_inputs_choose_the_image_size) {
  vtb_session *s = open_session(built, 0);
  float scores[4 * CLASSES];
  for (int round = 0; round < 3; round++) {
    int side = round % 2 ? SMALL : LARGE;
    run_bound(s, side, 0, 3, scores);
    CHECK(worst(scores, &alone[round % 2][0][0], 3 * CLASSES) < 1e-5);
  }
  static float x[24 * 24];
  vtb_array other = images_at(x, 1, 24);
  CHECK_REFUSED(vtb_session_bind(s, "x", &other, err), "or those of another image size");
  vtb_session_close(s);
}

/* The session's own memory, with an image size that is asked for. */
TEST(an_image_size_may_be_asked_for) {
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  vtb_session_options o = {.size = sizeof o, .threads = 2, .height = SMALL, .width = SMALL};
  vtb_array in = {.size = sizeof in}, out = {.size = sizeof out};
  vtb_program_info p = {.size = sizeof p};
  CHECK_OK(vtb_model_open(built, NULL, &m, err));
  int n = 0;
  while (vtb_model_program(m, n, &p, NULL) == VTB_OK) n++;
  CHECK(n == 6 && p.height == SMALL && p.batch == 1);
  CHECK_OK(vtb_session_open(m, &o, &s, err));
  CHECK_OK(vtb_session_array(s, VTB_ARRAY_INPUT, NULL, &in, err));
  CHECK(in.dim[0] == 4 && in.dim[3] == SMALL);
  fill(in.data, 3, SMALL, 0);
  CHECK_OK(vtb_session_run(s, 3, err));
  CHECK_OK(vtb_session_array(s, VTB_ARRAY_OUTPUT, NULL, &out, err));
  CHECK(out.dim[0] == 4 && worst(out.data, &alone[1][0][0], 3 * CLASSES) < 1e-5);
  vtb_session_close(s);
  vtb_model_release(m);
}

/* ---- training -------------------------------------------------------------------------------- */

static const float *data_of(vtb_session *s, vtb_array_kind kind, const char *name) {
  vtb_array a = {.size = sizeof a};
  CHECK_OK(vtb_session_array(s, kind, name, &a, err));
  return a.data;
}

/* What an update needs and nobody has given: the first update of a learning rate of none, AdamW's
 * own settings in as many digits as two floats hold, every parameter at the whole rate. */
static void check_scalars(vtb_session *s) {
  const float *at = data_of(s, VTB_ARRAY_INPUT, VTB_UPDATE_SCALARS);
  const float *rates = data_of(s, VTB_ARRAY_INPUT, VTB_UPDATE_RATES);
  static const double want[] = {1, 0, 0, 0, 1, 0.9, 0.999, 1e-8};
  _Static_assert(VTB_N_SCALARS == 5, "the first of AdamW's own");
  for (int i = 0; i < 8; i++)
    CHECK_NEAR((double)at[2 * i] + (double)at[2 * i + 1], want[i], 1e-13 * want[i]);
  vtb_array a = {.size = sizeof a};
  CHECK_OK(vtb_session_array(s, VTB_ARRAY_INPUT, VTB_UPDATE_RATES, &a, err));
  int decayed = 0;
  for (int64_t i = 0; i < a.dim[0]; i++) {
    CHECK(rates[2 * i] == 1 && (rates[2 * i + 1] == 0 || rates[2 * i + 1] == 1));
    decayed += rates[2 * i + 1] == 1;
  }
  CHECK_MSG(decayed > 0 && decayed < a.dim[0], "%d of %d decay", decayed, (int)a.dim[0]);
}

/* A session that trains has parameters of its own, which its runs change; the model's stay. */
TEST(a_session_trains_parameters_of_its_own) {
  vtb_compile_options o = options();
  char path[512], saved[512];
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  vtb_session_options train = {.size = sizeof train, .role = VTB_SESSION_STEP, .threads = 1};
  snprintf(path, sizeof path, "%s", temp_path("train.so"));
  snprintf(saved, sizeof saved, "%s", temp_path("trained.safetensors"));
  o.training = true, o.optimizer = "adamw", o.batch = 4;
  compile(&o, path);
  CHECK_OK(vtb_model_open(path, NULL, &m, err));
  CHECK_OK(vtb_session_open(m, &train, &s, err));
  fill((float *)(uintptr_t)data_of(s, VTB_ARRAY_INPUT, "x"), 4, LARGE, 0);
  int32_t *labels = (int32_t *)(uintptr_t)data_of(s, VTB_ARRAY_INPUT, "labels");
  for (int i = 0; i < 4; i++) labels[i] = i;
  float *scalars = (float *)(uintptr_t)data_of(s, VTB_ARRAY_INPUT, "update.scalars");
  check_scalars(s);
  double first = 0, last = 0;
  for (int step = 1; step <= 30; step++) {
    scalars[0] = (float)step, scalars[2] = 3e-3f; /* the number of the update, the learning rate */
    CHECK_OK(vtb_session_run(s, 0, err));
    last = (double)*data_of(s, VTB_ARRAY_OUTPUT, "loss");
    if (step == 1) first = last;
    CHECK(data_of(s, VTB_ARRAY_OUTPUT, "update.verdict")[1] == 1);
  }
  CHECK_MSG(first > 0.5 && last < first / 3, "the loss was %g and is %g", first, last);
  CHECK_REFUSED(vtb_session_run(s, 3, err), "a training step takes 4 rows, not 3");
  CHECK_OK(vtb_session_save(s, saved, err));
  vtb_session_close(s);
  vtb_weights *before = NULL, *after = NULL;
  CHECK_OK(vtb_safetensors_load(weights, &before, err));
  CHECK_OK(vtb_safetensors_load(saved, &after, err));
  const vtb_weight *a = vtb_weights_find(before, "head.weight");
  const vtb_weight *b = vtb_weights_find(after, "head.weight");
  CHECK(a && b && worst(a->data, b->data, a->count) > 1e-3);
  vtb_weights_free(before);
  vtb_weights_free(after);
  /* another begins where the model is */
  CHECK_OK(vtb_session_open(m, &train, &s, err));
  fill((float *)(uintptr_t)data_of(s, VTB_ARRAY_INPUT, "x"), 4, LARGE, 0);
  labels = (int32_t *)(uintptr_t)data_of(s, VTB_ARRAY_INPUT, "labels");
  for (int i = 0; i < 4; i++) labels[i] = i;
  CHECK_OK(vtb_session_run(s, 0, err));
  CHECK((double)*data_of(s, VTB_ARRAY_OUTPUT, "loss") == first);
  vtb_session_close(s);
  vtb_model_release(m);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Bytes of the file that the process has changed copies of, and those of it that are in memory. */
static void look_at_mapping(const char *path, size_t *dirty, size_t *rss) {
  char line[1024];
  bool of_file = false;
  FILE *f = fopen("/proc/self/smaps", "r");
  *dirty = *rss = 0;
  while (f && fgets(line, sizeof line, f)) {
    size_t kib;
    if (strstr(line, "-") && strstr(line, " r") && strchr(line, ':') && line[0] != 'R')
      of_file = strstr(line, path) != NULL;
    if (of_file && sscanf(line, "Private_Dirty: %zu kB", &kib) == 1) *dirty += kib << 10;
    if (of_file && sscanf(line, "Rss: %zu kB", &kib) == 1) *rss += kib << 10;
  }
  if (f) fclose(f);
}

static size_t private_dirty(void) {
  char line[256];
  size_t kib = 0;
  FILE *f = fopen("/proc/self/smaps_rollup", "r");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "Private_Dirty: %zu kB", &kib) == 1) break;
  if (f) fclose(f);
  return kib << 10;
}

/* A large table of weights beside the file is read through ten sessions, and copied by none. */
TEST(weights_are_mapped_and_not_copied) {
  enum { WIDTH = 4096, ROWS = 1024, MANY = 10 }; /* 16 MiB */
  static const char text[] = "use std.nn\nmodel wide() {\n  input x: tensor[1024]\n"
                             "  output y = linear(\"head\", x, 4096)\n}\n";
  char path[512], file[512];
  vtb_compile_options o = {.size = sizeof o, .model = "wide.vtb", .text = text};
  vtb_weights *w = vtb_weights_new();
  vtb_model *m = NULL;
  vtb_session *sessions[MANY] = {0};
  snprintf(path, sizeof path, "%s", temp_path("wide.so"));
  snprintf(file, sizeof file, "%s", temp_path("wide.safetensors"));
  vtb_weights_add(w, "head.weight", VTB_ELEM_F32, 2, (int64_t[]){WIDTH, ROWS});
  vtb_weights_add(w, "head.bias", VTB_ELEM_F32, 1, (int64_t[]){WIDTH});
  CHECK_OK(vtb_safetensors_save(file, w, err));
  vtb_weights_free(w);
  compile(&o, path);
  vtb_open_options beside = {.size = sizeof beside, .weights = file};
  vtb_session_options one = {.size = sizeof one, .threads = 1};
  CHECK_OK(vtb_model_open(path, &beside, &m, err));
  size_t before = private_dirty(), dirty, rss;
  for (int i = 0; i < MANY && m; i++) {
    CHECK_OK(vtb_session_open(m, &one, &sessions[i], err));
    CHECK_OK(vtb_session_run(sessions[i], 1, err));
  }
  size_t bytes = (size_t)WIDTH * ROWS * 4, grown = private_dirty() - before;
  look_at_mapping(file, &dirty, &rss);
  CHECK_MSG(before && grown < bytes / 2, "ten sessions have %zu KiB of their own", grown >> 10);
  CHECK_MSG(dirty == 0 && rss >= bytes, "%zu of %zu bytes of the mapped weights are copies", dirty,
            rss);
  for (int i = 0; i < MANY; i++) vtb_session_close(sessions[i]);
  vtb_model_release(m);
}

int main(void) {
  setenv("VTB_MODELS", VTB_SOURCE_DIR "/models", 1);
  make_files();
  RUN(any_number_of_rows_gives_what_each_gives_alone);
  RUN(rows_do_not_see_each_other);
  RUN(rows_that_meet_are_run_together);
  RUN(bound_inputs_choose_the_image_size);
  RUN(an_image_size_may_be_asked_for);
  RUN(a_session_trains_parameters_of_its_own);
  RUN(weights_are_mapped_and_not_copied);
  return test_done();
}
