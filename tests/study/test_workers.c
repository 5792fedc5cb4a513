/* Processes that do steps, the claims that keep two from doing one, records, launchers. The program
 * is its own worker: with an argument it is the process that is begun. */
#include "frontend/study/claim.h"
#include "frontend/study/launcher.h"
#include "frontend/study/record.h"
#include "frontend/study/worker.h"
#include "tests/test.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/vtb-study-XXXXXX";

static char *in_folder(const char *name) {
  static char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

/* ---- the other process ----------------------------------------------------------------------- */

static int act(const char *what) {
  if (strcmp(what, "print") == 0) {
    printf("{\"top1\": 0.5}\n");
    for (int i = 0; i < 3000; i++) fprintf(stderr, "line %d\n", i);
    return 3;
  }
  if (strcmp(what, "fill") == 0) { /* 64 MiB */
    volatile char *bytes = malloc(64 << 20);
    for (int i = 0; bytes && i < 64 << 20; i += 4096) bytes[i] = 1;
    return 0;
  }
  if (strcmp(what, "crash") == 0) raise(SIGKILL);
  if (strcmp(what, "claim") == 0) { /* until it is killed */
    study_claim c;
    bool taken;
    vtb_error err = {0};
    if (study_claim_take(&c, getenv("CLAIM"), &taken, &err) != VTB_OK || !taken) return 9;
    printf("taken\n");
    fflush(stdout);
  }
  pause();
  return 0;
}

static study_worker start(const char *what) {
  study_worker w;
  char *words[] = {"vertebra", (char *)what};
  study_texts t = {words, 2, 2};
  vtb_error err = {0};
  CHECK_MSG(study_worker_start(&w, &t, &err) == VTB_OK, "%s", err.text);
  return w;
}

static study_ending end_of(study_worker *w) {
  study_ending e;
  while (!study_worker_ended(w, &e)) study_workers_wait(w, 1, 100);
  return e;
}

/* ---- workers --------------------------------------------------------------------------------- */

TEST(a_worker_leaves_its_output_and_its_status) {
  study_worker w = start("print");
  study_ending e = end_of(&w);
  CHECK(e.status == 3 && e.signal == 0 && e.seconds > 0 && e.seconds < 60);
  CHECK_STR(e.out, "{\"top1\": 0.5}\n");
  CHECK(strlen(e.messages) == 4096 && strstr(e.messages, "line 2999\n"));
  study_ending_free(&e);
}

TEST(a_worker_tells_its_memory_and_its_signal) {
  study_worker w = start("fill");
  study_ending e = end_of(&w);
  CHECK(e.peak_bytes > 64 << 20 && e.peak_bytes < 1 << 30);
  study_ending_free(&e);
  w = start("crash");
  e = end_of(&w);
  CHECK(e.signal == SIGKILL);
  study_ending_free(&e);
}

TEST(a_worker_is_in_a_group_of_its_own) {
  study_worker w = start("wait");
  for (int i = 0; i < 200 && getpgid(w.pid) != w.pid; i++) usleep(10000);
  CHECK(getpgid(w.pid) == w.pid);
  study_worker_signal(&w, SIGTERM);
  study_ending e = end_of(&w);
  CHECK(e.signal == SIGTERM);
  study_ending_free(&e);
}

/* A process that begins a worker and is killed: the worker is gone soon after. */
TEST(a_worker_does_not_outlive_who_began_it) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  pid_t parent = fork();
  if (parent == 0) {
    study_worker w = start("wait");
    (void)!write(ends[1], &w.pid, sizeof w.pid);
    pause();
  }
  pid_t worker = 0;
  CHECK(read(ends[0], &worker, sizeof worker) == sizeof worker && worker > 0);
  kill(parent, SIGKILL);
  waitpid(parent, NULL, 0);
  char path[64], state = 'R';
  for (int i = 0; i < 500 && state != 'Z'; i++) { /* gone, or nobody has asked for its status */
    snprintf(path, sizeof path, "/proc/%d/stat", (int)worker);
    FILE *f = fopen(path, "r");
    if (!f) break;
    if (fscanf(f, "%*d %*s %c", &state) != 1) state = 'Z';
    fclose(f);
    usleep(10000);
  }
  CHECK(kill(worker, 0) != 0 || state == 'Z');
  close(ends[0]);
  close(ends[1]);
}

/* ---- claims ---------------------------------------------------------------------------------- */

TEST(a_claim_is_of_one_and_ends_with_it) {
  study_claim mine, second;
  bool taken;
  vtb_error err = {0};
  const char *path = in_folder("step.claim");
  setenv("CLAIM", path, 1);
  CHECK(study_claim_take(&mine, path, &taken, &err) == VTB_OK && taken);
  CHECK(study_claim_take(&second, path, &taken, &err) == VTB_OK && !taken);
  study_worker refused = start("claim");
  study_ending e = end_of(&refused);
  CHECK(e.status == 9);
  study_ending_free(&e);
  study_claim_give(&mine);
  CHECK(!vtb_path_exists(path));

  study_worker holder = start("claim");
  struct stat s = {0};
  for (int i = 0; i < 500 && s.st_size == 0; i++) usleep(10000), fstat(holder.out, &s);
  CHECK(study_claim_take(&mine, path, &taken, &err) == VTB_OK && !taken);
  study_worker_signal(&holder, SIGKILL);
  e = end_of(&holder);
  study_ending_free(&e);
  CHECK(study_claim_take(&mine, path, &taken, &err) == VTB_OK && taken);
  study_claim_give(&mine);
}

/* ---- records --------------------------------------------------------------------------------- */

TEST(a_record_comes_back_as_it_was) {
  vtb_error err = {0};
  const char *path = in_folder("eval-2.json");
  char *words[] = {"vertebra", "eval"};
  study_record r = {.step = "eval",
                    .n = 2,
                    .command = {words, 2, 2},
                    .key = "abc",
                    .seconds = 1.5,
                    .others = 0.25,
                    .peak_bytes = 1 << 20,
                    .host = "here",
                    .began = "2026-11-22T10:00:00Z",
                    .messages = "bytes \xff \033[2J\nand lines"};
  bool found;
  r.document = cJSON_Parse("{\"top1\": 0.75}");
  CHECK_MSG(study_record_write(path, &r, &err) == VTB_OK, "%s", err.text);
  cJSON_Delete(r.document);
  CHECK(study_record_read(path, &r, &found, &err) == VTB_OK && found);
  CHECK(r.n == 2 && r.command.n == 2 && r.peak_bytes == 1 << 20 && study_record_ok(&r));
  CHECK_STR(r.key, "abc");
  CHECK_STR(r.messages, "bytes \\xff \\x1b[2J\nand lines");
  CHECK_NEAR(study_number(r.document, "top1"), 0.75, 0);
  study_record_free(&r);
  CHECK(study_record_read(in_folder("eval-3.json"), &r, &found, &err) == VTB_OK && !found);
}

TEST(damaged_records_are_named) {
  const char *const texts[] = {"",
                               "{",
                               "[]",
                               "null",
                               "{\"step\": 3}",
                               "\"train\"",
                               "{\"step\": \"bench\", \"status\": 0}",
                               "{\"step\": \"bench\", \"status\": 0, \"document\": [1]}"};
  const char *path = in_folder("bench-0.json");
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    study_record r;
    bool found;
    vtb_error err = {0};
    CHECK(vtb_file_write_atomic(path, texts[i], strlen(texts[i]), &err) == VTB_OK);
    CHECK(study_record_read(path, &r, &found, &err) == VTB_E_INPUT && found);
    CHECK(strstr(err.text, "bench-0.json"));
    study_record_free(&r);
  }
}

TEST(a_failure_says_why) {
  study_record r = {.step = "train", .status = 1, .messages = "reading\nvertebra: no such file\n"};
  char *text = study_record_message(&r);
  CHECK_STR(text, "vertebra: no such file");
  vtb_free(text);
  r.document = cJSON_Parse("{\"error\": {\"code\": \"VTB1305\", \"message\": \"not square\"}}");
  text = study_record_message(&r);
  CHECK_STR(text, "VTB1305: not square");
  vtb_free(text);
  r.signal = SIGKILL;
  text = study_record_message(&r);
  CHECK(strstr(text, "signal 9") && strstr(text, "memory"));
  vtb_free(text);
  r.signal = SIGABRT;
  text = study_record_message(&r);
  CHECK(strstr(text, "signal 6") && strstr(text, "): vertebra: no such file"));
  vtb_free(text);
  r.messages = "terminate called\n  what():  std::bad_alloc\n";
  text = study_record_message(&r);
  CHECK(strstr(text, "for want of memory)") && !strstr(text, "what()"));
  vtb_free(text);
  cJSON_Delete(r.document);
}

/* ---- launchers ------------------------------------------------------------------------------- */

TEST(a_launcher_tells_the_rank) {
  study_launch l;
  vtb_error err = {0};
  CHECK(study_launch_find(NULL, &l, &err) == VTB_OK && l.rank == 0 && l.size == 1);
  CHECK(study_launch_find("mpi", &l, &err) == VTB_E_USAGE && strstr(err.text, "mpirun"));
  setenv("OMPI_COMM_WORLD_RANK", "2", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
  CHECK(study_launch_find("mpi", &l, &err) == VTB_OK && l.rank == 2 && l.size == 3 && l.here == 3);
  setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "1", 1);
  CHECK(study_launch_find("mpi", &l, &err) == VTB_OK && l.here == 1);
  setenv("OMPI_COMM_WORLD_RANK", "3", 1);
  err.text[0] = 0;
  CHECK(study_launch_find("mpi", &l, &err) == VTB_E_USAGE);
  err.text[0] = 0;
  CHECK(study_launch_find("pbs", &l, &err) == VTB_E_USAGE && strstr(err.text, "local, mpi"));
}

int main(int argc, char **argv) {
  if (argc > 1) return act(argv[1]);
  if (!mkdtemp(folder)) return 1;
  RUN(a_worker_leaves_its_output_and_its_status);
  RUN(a_worker_tells_its_memory_and_its_signal);
  RUN(a_worker_is_in_a_group_of_its_own);
  RUN(a_worker_does_not_outlive_who_began_it);
  RUN(a_claim_is_of_one_and_ends_with_it);
  RUN(a_record_comes_back_as_it_was);
  RUN(damaged_records_are_named);
  RUN(a_failure_says_why);
  RUN(a_launcher_tells_the_rank);
  char command[64];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command) != 0 || test_done();
}
