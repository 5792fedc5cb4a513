/* What models and sessions of built files cost: times of opening, and the memory of two processes
 * that have ten sessions each. Weights are initial values; files go into the working folder, and
 * those that are there are taken.
 *
 *   bench_sessions MODEL...        vil_tiny vil_base
 */
#include "frontend/compile/driver.h"
#include "runtime/runner.h"
#include "runtime/vertebra.h"

#include <string.h>
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 20, SESSIONS = 10, PROCESSES = 2 };

static void check(vtb_status status, const vtb_error *err) {
  if (status == VTB_OK) return;
  fprintf(stderr, "sessions: %s\n", err->text);
  exit(1);
}

static void build(const char *model, const char *path, const char *weights) {
  vtb_compile_options o = {.size = sizeof o, .model = model, .threads = 1};
  vtb_program *p = NULL;
  vtb_runner *r = NULL;
  vtb_report *report = vtb_report_new();
  vtb_error err = {0};
  vtb_status status = vtb_compile(&o, &p, report);
  if (status == VTB_OK) {
    check(vtb_runner_new(p, 1, &r, &err), &err);
    check(vtb_runner_init(r, 1, &err), &err);
    check(vtb_runner_save(r, weights, &err), &err);
    vtb_runner_free(r);
    o.weights = weights;
    status = vtb_compile_file(&o, path, report);
  }
  if (status != VTB_OK) fputs(vtb_report_text(report, false), stderr);
  exit(status);
}

/* By a process of its own: what the compiler leaves in memory is no session's. */
static void need(const char *model, const char *path) {
  char weights[512];
  int status = 0;
  snprintf(weights, sizeof weights, "%s.safetensors", model);
  if (access(path, R_OK) == 0) return;
  fflush(NULL);
  if (fork() == 0) build(model, path, weights);
  if (wait(&status) < 0 || status != 0) exit(1);
  remove(weights);
}

/* The least of several rounds, in milliseconds. */
static void times(const char *path, double *model_ms, double *session_ms) {
  vtb_session_options o = {.size = sizeof o, .threads = 1};
  vtb_error err = {0};
  *model_ms = *session_ms = 1e9;
  for (int i = 0; i < ROUNDS; i++) {
    vtb_model *m = NULL;
    vtb_session *s[2] = {0};
    double t0 = vtb_now();
    check(vtb_model_open(path, NULL, &m, &err), &err);
    double t1 = vtb_now();
    check(vtb_session_open(m, &o, &s[0], &err), &err);
    double t2 = vtb_now();
    check(vtb_session_open(m, &o, &s[1], &err), &err);
    double t3 = vtb_now();
    *model_ms = fmin(*model_ms, 1e3 * (t1 - t0));
    *session_ms = fmin(*session_ms, 1e3 * (t3 - t2));
    vtb_session_close(s[0]);
    vtb_session_close(s[1]);
    vtb_model_release(m);
  }
}

typedef struct memory {
  size_t dirty, shared; /* KiB: private pages that were written; clean ones that others have too */
} memory;

static memory look(void) {
  memory m = {0};
  char line[256];
  FILE *f = fopen("/proc/self/smaps_rollup", "r");
  while (f && fgets(line, sizeof line, f)) {
    (void)(sscanf(line, "Private_Dirty: %zu kB", &m.dirty) == 1 ||
           sscanf(line, "Shared_Clean: %zu kB", &m.shared) == 1);
  }
  if (f) fclose(f);
  return m;
}

/* Opens, runs, says so, waits for the others, looks. */
static void be_one_of(const char *path, int ready, int go, int out) {
  vtb_session_options o = {.size = sizeof o, .threads = 1};
  vtb_session *s[SESSIONS];
  vtb_model *m = NULL;
  vtb_error err = {0};
  char byte = 0;
  memory at[3] = {look()};
  check(vtb_model_open(path, NULL, &m, &err), &err);
  for (int i = 0; i < SESSIONS; i++) {
    check(vtb_session_open(m, &o, &s[i], &err), &err);
    check(vtb_session_run(s[i], 0, &err), &err);
    if (i == 0) at[1] = look();
  }
  if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 1) exit(1);
  at[2] = look();
  if (write(out, at, sizeof at) != sizeof at || write(ready, &byte, 1) != 1) exit(1);
  if (read(go, &byte, 1) != 1) exit(1); /* pages stay shared until all have looked */
  exit(0);
}

static void spread(int from, int to) {
  char byte = 0;
  for (int i = 0; i < PROCESSES; i++)
    if (read(from, &byte, 1) != 1) exit(1);
  for (int i = 0; i < PROCESSES; i++)
    if (write(to, &byte, 1) != 1) exit(1);
}

static void measure(const char *model) {
  char path[512];
  int ready[2], go[2], out[2];
  double model_ms, session_ms;
  memory at[PROCESSES][3];
  snprintf(path, sizeof path, "./%s.so", model);
  need(model, path);
  fflush(NULL);
  if (pipe(ready) || pipe(go) || pipe(out)) exit(1);
  for (int i = 0; i < PROCESSES; i++)
    if (fork() == 0) be_one_of(path, ready[1], go[0], out[1]);
  close(ready[1]); /* who fails is noticed by the end of the pipe */
  spread(ready[0], go[1]);
  spread(ready[0], go[1]);
  if (read(out[0], at, sizeof at) != sizeof at) exit(1);
  while (wait(NULL) > 0) continue;
  times(path, &model_ms, &session_ms);
  printf("%s: a model opens in %.2f ms, a further session in %.3f ms\n", model, model_ms,
         session_ms);
  for (int i = 0; i < PROCESSES; i++)
    printf("  process %d, %d sessions: %.1f MiB written of its own (%.1f a session), %.0f MiB "
           "shared\n",
           i + 1, SESSIONS, (double)(at[i][2].dirty - at[i][0].dirty) / 1024,
           (double)(at[i][2].dirty - at[i][1].dirty) / 1024 / (SESSIONS - 1),
           ((double)at[i][2].shared - (double)at[i][0].shared) / 1024);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) measure(argv[i]);
  return 0;
}
