/* Sessions of a model share what its programs make of the parameters alone, whatever their batches
 * and threads; parameters of the caller's count as they are in each run. In files, in programs that
 * were compiled in memory, and in a child of the process. */
#include "frontend/compile/driver.h"
#include "runtime/model.h"
#include "runtime/runner.h"
#include "tests/runtime/support.h"

#include <pthread.h>
#include <sys/wait.h>

enum { ROWS = 4, IN = 12, OUT = 20, SESSIONS = 6, KEPT = IN * OUT * 4 };

/* The matrix of the product is made of parameters, its rows of one number each. */
static const char source[] =
    "block mixed(x: tensor) {\n"
    "  w = tanh(param w: [20, x.dim] ~ normal(0.3)) * (param s: [20, 1] ~ normal(0.3))\n"
    "  return matmul(x, w)\n"
    "}\n"
    "model kept() {\n"
    "  input x: tensor[12]\n"
    "  scope \"first\" { y = mixed(x) }\n"
    "  output z = tanh(y)\n"
    "}\n";

static char built[512], weights[512];

static vtb_compile_options options_of(void) {
  return (vtb_compile_options){
      .size = sizeof(vtb_compile_options), .model = "kept.vtb", .text = source};
}

static vtb_session *open_session(vtb_model *m, const vtb_session_options *given) {
  vtb_session_options o = given ? *given : (vtb_session_options){.threads = 1};
  vtb_session *s = NULL;
  o.size = sizeof o;
  CHECK_OK(vtb_session_open(m, &o, &s, err));
  if (!s) exit(1);
  return s;
}

static vtb_model *open_model(void) {
  vtb_open_options o = {.size = sizeof o, .weights = weights};
  vtb_model *m = NULL;
  CHECK_OK(vtb_model_open(built, &o, &m, err));
  if (!m) exit(1);
  return m;
}

static bool run(vtb_session *s, int64_t rows, float out[ROWS][OUT]) {
  vtb_error err = {0};
  vtb_array x = {.size = sizeof x}, y = {.size = sizeof y};
  if (vtb_session_array(s, VTB_ARRAY_INPUT, NULL, &x, &err)) return false;
  for (int i = 0; i < rows * IN; i++) ((float *)x.data)[i] = (float)(i * 7 % 13) / 13 - 0.4f;
  if (vtb_session_run(s, rows, &err) || vtb_session_array(s, VTB_ARRAY_OUTPUT, NULL, &y, &err))
    return false;
  memcpy(out, y.data, (size_t)rows * OUT * sizeof(float));
  return true;
}

static int n_kept(const vtb_model *m) {
  int n = 0;
  for (const vtb__kept *k = m->kept.first; k; k = k->next) n += k->is_ready;
  return n;
}

static float want[ROWS][OUT];

/* Wanted is what a program gives that prepares in every run. */
static void make_files(void) {
  static const int64_t batches[] = {ROWS, 1};
  vtb_compile_options o = options_of();
  vtb_program *p = NULL;
  vtb_runner *r = NULL;
  snprintf(built, sizeof built, "%s", temp_path("built.so"));
  snprintf(weights, sizeof weights, "%s", temp_path("w.safetensors"));
  o.batch = ROWS;
  CHECK(vtb_compile(&o, &p, NULL) == VTB_OK);
  if (!p) exit(1);
  CHECK_MSG(p->kept_bytes == KEPT, "%lld bytes are kept", (long long)p->kept_bytes);
  CHECK_OK(vtb_runner_new(p, 1, &r, err));
  CHECK_OK(vtb_runner_init(r, 11, err));
  CHECK_OK(vtb_runner_save(r, weights, err));
  float *x = vtb_runner_input(r, NULL, NULL);
  for (int i = 0; i < ROWS * IN; i++) x[i] = (float)(i * 7 % 13) / 13 - 0.4f;
  for (int i = 0; i < 3; i++) {
    CHECK_OK(vtb_runner_run(r, err));
    if (i) CHECK(memcmp(want, vtb_runner_output(r, NULL, NULL), sizeof want) == 0);
    memcpy(want, vtb_runner_output(r, NULL, NULL), sizeof want);
  }
  float *s = vtb_runner_param(r, "first.s", NULL); /* which is read again */
  float was = s[3];
  s[3] = 1;
  CHECK_OK(vtb_runner_run(r, err));
  CHECK(memcmp(want, vtb_runner_output(r, NULL, NULL), sizeof want) != 0);
  (void)vtb_runner_param(r, "first.s", NULL);
  s[3] = was;
  CHECK_OK(vtb_runner_run(r, err));
  CHECK(memcmp(want, vtb_runner_output(r, NULL, NULL), sizeof want) == 0);
  vtb_runner_free(r);
  o.batches = batches, o.n_batches = 2, o.batch = 0;
  vtb_report *report = vtb_report_new();
  CHECK_MSG(vtb_compile_file(&o, built, report) == VTB_OK, "%s", vtb_report_text(report, false));
  vtb_report_free(report);
}

TEST(sessions_and_batches_share_what_is_made_of_parameters) {
  vtb_model *m = open_model();
  vtb_session *a = open_session(m, NULL), *b = open_session(m, NULL);
  float got[ROWS][OUT];
  CHECK(n_kept(m) == 0); /* opening computes nothing */
  for (int64_t rows = ROWS; rows > 0; rows--) {
    CHECK(run(a, rows, got) && memcmp(got, want, (size_t)rows * sizeof *got) == 0);
    CHECK(run(b, rows, got) && memcmp(got, want, (size_t)rows * sizeof *got) == 0);
    CHECK(n_kept(m) == 1 && !m->kept.first->next);
  }
  /* which nobody makes again */
  memset(m->kept.first->memory, 0, KEPT);
  CHECK(run(b, ROWS, got) && memcmp(got, want, sizeof want) != 0);
  vtb_session_close(a);
  vtb_session_close(b);
  vtb_model_release(m);
}

/* The caller's parameters, in its memory, which it changes between runs. */
TEST(parameters_of_the_callers_are_read_in_each_run) {
  vtb_model *m = open_model();
  vtb_session *s = open_session(m, NULL), *other = open_session(m, NULL);
  static float mine[OUT];
  float got[ROWS][OUT], changed[ROWS][OUT];
  vtb_array a = {.size = sizeof a};
  CHECK(run(s, ROWS, got) && memcmp(got, want, sizeof want) == 0);
  CHECK_OK(vtb_session_array(s, VTB_ARRAY_PARAMETER, "first.s", &a, err));
  memcpy(mine, a.data, sizeof mine);
  a.data = mine;
  CHECK_OK(vtb_session_bind(s, "first.s", &a, err));
  CHECK(run(s, ROWS, got) && memcmp(got, want, sizeof want) == 0);
  float was = mine[3];
  mine[3] = 1;
  for (int64_t rows = ROWS; rows > 0; rows--) {
    CHECK(run(s, rows, changed) && memcmp(changed, want, (size_t)rows * sizeof *got) != 0);
    for (int64_t i = 0; i < rows; i++) CHECK(changed[i][2] == want[i][2]);
  }
  CHECK(run(other, ROWS, got) && memcmp(got, want, sizeof want) == 0);
  mine[3] = was;
  CHECK(run(s, ROWS, got) && memcmp(got, want, sizeof want) == 0);
  mine[3] = 2;
  CHECK_OK(vtb_session_bind(s, "first.s", NULL, err));
  CHECK(run(s, ROWS, got) && memcmp(got, want, sizeof want) == 0);
  CHECK(n_kept(m) == 1);
  vtb_session_close(s);
  vtb_session_close(other);
  vtb_model_release(m);
}

static void on_this_thread(void *user, vtb_task_fn fn, void *closure, int64_t n, int64_t grain) {
  (void)user, (void)grain;
  fn(closure, 0, n);
}

static vtb_model *shared;
static void *work(void *arg) {
  int number = *(const int *)arg;
  const vtb_session_options o = {.threads = 1 + number % 2,
                                 .pool = number % 3 ? NULL : on_this_thread};
  vtb_session *s = open_session(shared, &o);
  intptr_t bad = 0;
  for (int i = 0; i < 20; i++) {
    float got[ROWS][OUT];
    int64_t rows = 1 + (number + i) % ROWS;
    bad += !run(s, rows, got) || memcmp(got, want, (size_t)rows * sizeof *got) != 0;
  }
  vtb_session_close(s);
  return (void *)bad;
}

TEST(sessions_that_prepare_at_once) {
  for (int round = 0; round < 5; round++) {
    pthread_t threads[SESSIONS];
    int numbers[SESSIONS];
    shared = open_model();
    for (int i = 0; i < SESSIONS; i++) {
      numbers[i] = i;
      CHECK(pthread_create(&threads[i], NULL, work, &numbers[i]) == 0);
    }
    for (int i = 0; i < SESSIONS; i++) {
      void *bad;
      pthread_join(threads[i], &bad);
      CHECK_MSG(bad == NULL, "session %d: %d of its runs differ", i, (int)(intptr_t)bad);
    }
    CHECK(n_kept(shared) == 1 && !shared->kept.first->next);
    vtb_model_release(shared);
  }
}

/* Forked while a thread of the parent prepares: what it has half done is done again. */
TEST(a_child_finishes_what_its_parent_prepared) {
  vtb_model *m = open_model();
  vtb_session *s = open_session(m, NULL);
  float got[ROWS][OUT];
  CHECK(run(s, ROWS, got));
  vtb_session *t = open_session(m, NULL);
  m->kept.first->is_ready = false;
  memset(m->kept.first->memory, 0xff, KEPT);
  CHECK(vtb_lock_take(&m->kept.lock));
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(!(run(t, ROWS, got) && memcmp(got, want, sizeof want) == 0));
  }
  int state = -1;
  CHECK(child > 0 && waitpid(child, &state, 0) == child && state == 0);
  vtb_lock_give(&m->kept.lock);
  vtb_session_close(s);
  vtb_session_close(t);
  vtb_model_release(m);
}

TEST(models_compiled_in_memory_keep_it_too) {
  vtb_compile_options o = options_of();
  vtb_model *m = NULL;
  float got[ROWS][OUT];
  o.batch = ROWS;
  o.weights = weights;
  CHECK(vtb_compile_model(&o, &m, NULL) == VTB_OK);
  vtb_session *a = open_session(m, NULL), *b = open_session(m, NULL);
  for (int i = 0; i < 2; i++) {
    CHECK(run(a, ROWS, got) && memcmp(got, want, sizeof want) == 0);
    CHECK(run(b, ROWS, got) && memcmp(got, want, sizeof want) == 0);
  }
  CHECK(n_kept(m) == 1 && !m->kept.first->next);
  vtb_session_close(a);
  vtb_session_close(b);
  vtb_model_release(m);
}

int main(void) {
  setenv("VTB_MODELS", VTB_SOURCE_DIR "/models", 1);
  make_files();
  RUN(sessions_and_batches_share_what_is_made_of_parameters);
  RUN(parameters_of_the_callers_are_read_in_each_run);
  RUN(sessions_that_prepare_at_once);
  RUN(a_child_finishes_what_its_parent_prepared);
  RUN(models_compiled_in_memory_keep_it_too);
  return test_done();
}
