/* Running a study: the program is its own `vertebra`, so that steps are quick and do what the test
 * tells them by their model: what they print, how they fail. Each leaves a line in a diary. */
#include "frontend/study/results.h"
#include "frontend/study/run.h"
#include "tests/test.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static char folder[] = "/tmp/vtb-study-XXXXXX";
static char diary[64], report[64];

/* ---- the commands ---------------------------------------------------------------------------- */

static const char *value_of(int argc, char **argv, const char *option) {
  size_t n = strlen(option);
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], option) == 0 && i + 1 < argc) return argv[i + 1];
    if (strncmp(argv[i], option, n) == 0 && argv[i][n] == '=') return argv[i] + n + 1;
  }
  return "";
}

static void write_line(int argc, char **argv) {
  char line[2048] = "";
  int file = open(getenv("DIARY"), O_WRONLY | O_APPEND | O_CREAT, 0666);
  for (int i = 1; i < argc; i++) {
    strncat(line, argv[i], sizeof line - strlen(line) - 2);
    strcat(line, i + 1 < argc ? " " : "\n");
  }
  (void)!write(file, line, strlen(line));
  close(file);
}

/* How many lines of the diary begin with this text. */
static int count(const char *text) {
  char line[2048];
  int n = 0;
  FILE *f = fopen(getenv("DIARY"), "r");
  while (f && fgets(line, sizeof line, f)) n += strncmp(line, text, strlen(text)) == 0;
  if (f) fclose(f);
  return n;
}

static int train(int argc, char **argv) {
  const char *out = value_of(argc, argv, "--out");
  char command[512];
  if (!*out) out = value_of(argc, argv, "--resume");
  double val = 0.5 + 0.01 * atoi(value_of(argc, argv, "--seed"));
  if (strstr(out, "train-0") && strstr(out, "slow") && !strstr(argv[2], "--resume")) {
    snprintf(command, sizeof command, "mkdir -p '%s' && touch '%s/checkpoint.safetensors'", out,
             out);
    if (system(command) != 0) return 1;
    pause();
  }
  snprintf(command, sizeof command,
           "mkdir -p '%s' && printf '{\"event\":\"epoch\",\"step\":1,\"epoch\":1,\"loss\":1,"
           "\"eval_top1\":null,\"seconds\":1}\\n{\"event\":\"end\",\"step\":1,\"epoch\":1,"
           "\"eval_top1\":%g,\"seconds\":1}\\n' > '%s/log.jsonl'",
           out, val, out);
  if (system(command) != 0) return 1;
  printf("{\"updates\": 10, \"seconds\": 1, \"images_per_second\": 100}\n");
  return 0;
}

static int act(int argc, char **argv) {
  const char *what = argv[1], *model = argv[2];
  write_line(argc, argv);
  if (strcmp(what, "check") == 0 && strstr(model, "refused")) {
    printf("{\"error\": {\"code\": \"VTB1305\", \"message\": \"not so\"}, \"status\": 1}\n");
    return 1;
  }
  if (strcmp(what, "check") == 0 && strstr(model, "vanished")) raise(SIGKILL);
  if (strcmp(what, "check") == 0)
    printf("{\"text_hash\": \"%s\", \"parameters\": 1000, \"flops\": 1000, \"sources\": []}\n",
           getenv("MODEL_TEXT"));
  if (strcmp(what, "train") == 0) {
    if (strstr(model, "killed")) raise(SIGKILL);
    return train(argc, argv);
  }
  if (strcmp(what, "eval") == 0)
    printf("{\"images\": 1000, \"top1\": 0.5, \"top5\": 0.9, \"loss\": 1}\n");
  if (strcmp(what, "paths") == 0) puts("{}");
  if (strcmp(what, "bench") == 0 && strcmp(model, "--peak") == 0)
    printf("{\"product_gflops\": 10, \"copy_gbytes\": 2}\n");
  else if (strcmp(what, "bench") == 0) /* of a restless model each time is another one */
    printf("{\"timed\": \"forward\", \"batch\": 2, \"best_ms\": %d, \"median_ms\": 9}\n",
           strstr(model, "restless") ? 4 + count("bench restless") : 4);
  return 0;
}

/* ---- a study --------------------------------------------------------------------------------- */

static study s;
static study_cells cells;
static study_work work;
static cJSON *results;
static char said[4096];
static volatile int stop;
static char recipe_file[64];
static int stop_after; /* begun steps; 0: never */
static int64_t threads;

static void on_event(void *user, const study_event *e) {
  (void)user;
  if (e->kind == STUDY_SAYS) strncat(said, e->text, sizeof said - strlen(said) - 1);
  CHECK(e->kind == STUDY_SAYS || (e->done <= e->total && e->total > 0));
  if (stop_after && e->kind == STUDY_TICK && e->task && e->task->step == STUDY_TRAIN &&
      --stop_after == 0)
    stop = SIGTERM;
}

static vtb_status on_results(void *user, const study_work *w, bool last, vtb_error *err) {
  (void)user;
  if (last) results = study_results(w);
  return last ? study_results_write(results, w->folder, err) : VTB_OK;
}

/* Models of the cells, "a,b"; the study is new each time, the folder is not. */
static vtb_status run(const char *models, bool bench, int64_t seeds, bool retry) {
  vtb_error err = {0};
  char axis[256];
  snprintf(axis, sizeof axis, "model=%s", models);
  cJSON_Delete(results);
  results = NULL;
  s = study_defaults();
  s.model = vtb_xstrdup("none");
  s.bench = bench;
  s.rounds = 2;
  s.seeds = seeds;
  s.jobs = 2;
  s.threads = threads;
  if (seeds) s.recipe = vtb_xstrdup("no-recipe");
  if (seeds) s.recipe_file = vtb_xstrdup(recipe_file);
  said[0] = 0;
  CHECK_MSG(study_vary(&s, axis, &err) == VTB_OK, "%s", err.text);
  CHECK(study_design(&s, &cells, &err) == VTB_OK);
  study_work_begin(&work, &s, &cells, report);
  const study_run_options o = {.launch = {0, 1, 1},
                               .retry = retry,
                               .stop = &stop,
                               .on_event = on_event,
                               .on_results = on_results};
  vtb_status status = study_run(&work, &o, &err);
  CHECK_MSG(status == VTB_OK || (int)status > 128, "%s", err.text);
  study_work_free(&work);
  study_cells_free(&cells);
  study_free(&s);
  return status;
}

static void begin_anew(void) {
  char command[256];
  snprintf(command, sizeof command, "rm -rf %s/*", folder);
  CHECK(system(command) == 0);
  CHECK(vtb_make_dirs(report, NULL) == VTB_OK);
  setenv("MODEL_TEXT", "one", 1);
  stop = stop_after = 0;
  threads = 0;
}

static const cJSON *cell(int i) {
  return cJSON_GetArrayItem(cJSON_GetObjectItem(results, "cells"), i);
}
static const cJSON *of(const cJSON *j, const char *name) { return cJSON_GetObjectItem(j, name); }
static const char *text(const cJSON *j, const char *name) {
  const cJSON *v = of(j, name);
  return cJSON_IsString(v) ? v->valuestring : "";
}

/* ---- stories --------------------------------------------------------------------------------- */

TEST(every_step_is_done_once) {
  begin_anew();
  CHECK(run("a,b", true, 2, false) == VTB_OK);
  CHECK(count("check ") == 2 && count("train a") + count("train b") == 4 && count("eval ") == 4);
  CHECK(count("bench a") == 2 && count("bench b") == 2 && count("bench --peak") == 2);
  CHECK_STR(text(cell(0), "status"), "done");
  CHECK_NEAR(study_number(of(cell(1), "train"), "val_mean"), 0.505, 1e-9);
  CHECK_NEAR(study_number(of(cell(1), "bench"), "samples_per_sec"), 500, 1e-9);
  CHECK(cJSON_GetArraySize(of(of(cell(0), "bench"), "rounds")) == 2);
  CHECK(run("a,b", true, 2, false) == VTB_OK);
  CHECK(count("") == 2 + 2 + 4 + 4 + 4 + 2); /* checks, pictures, trainings, evaluations, times */
}

/* What a writer left that was killed a while ago goes; what is being written stays. */
TEST(half_written_files_go) {
  begin_anew();
  CHECK(run("a", false, 1, false) == VTB_OK);
  char command[512], old[128], young[128];
  snprintf(old, sizeof old, "%s/results.json.tmp-00000001", report);
  snprintf(young, sizeof young, "%s/results.csv.tmp-00000002", report);
  snprintf(command, sizeof command, "touch -d '1 hour ago' %s && touch %s", old, young);
  CHECK(system(command) == 0);
  CHECK(run("a", false, 1, false) == VTB_OK);
  CHECK(!vtb_path_exists(old) && vtb_path_exists(young));
}

TEST(a_third_seed_is_added_to_two) {
  begin_anew();
  CHECK(run("a", false, 2, false) == VTB_OK && run("a", false, 3, false) == VTB_OK);
  CHECK(count("train a") == 3 && count("eval ") == 3);
  CHECK(cJSON_GetArraySize(of(of(cell(0), "train"), "seeds")) == 3);
}

/* No result of a training depends on them, times do. */
TEST(threads_make_no_training_stale) {
  begin_anew();
  CHECK(run("a", true, 1, false) == VTB_OK);
  threads = 3;
  CHECK(run("a", true, 1, false) == VTB_OK);
  CHECK(count("train a") == 1 && count("eval a") == 1 && count("bench a") == 4);
}

/* Only what the compiler refuses is impossible. */
TEST(a_check_that_is_killed_is_a_failure) {
  begin_anew();
  CHECK(run("vanished,a", false, 1, false) == VTB_OK);
  CHECK_STR(text(cell(0), "status"), "failed");
  CHECK_STR(text(cell(1), "status"), "done");
}

TEST(another_text_of_the_recipe_trains_anew) {
  begin_anew();
  snprintf(recipe_file, sizeof recipe_file, "%s/recipe.yaml", folder);
  CHECK(vtb_file_write_atomic(recipe_file, "lr: 1", 5, NULL) == VTB_OK);
  CHECK(run("a", false, 1, false) == VTB_OK && run("a", false, 1, false) == VTB_OK);
  CHECK(count("train a") == 1);
  CHECK(vtb_file_write_atomic(recipe_file, "lr: 2", 5, NULL) == VTB_OK);
  CHECK(run("a", false, 1, false) == VTB_OK && count("train a") == 2);
  recipe_file[0] = 0;
}

TEST(failures_stop_nothing_else) {
  begin_anew();
  CHECK(run("refused,killed,a", true, 2, false) == VTB_OK);
  CHECK_STR(text(cell(0), "status"), "impossible");
  CHECK_STR(text(cell(0), "message"), "VTB1305: not so");
  CHECK_STR(text(cell(1), "status"), "failed");
  CHECK(strstr(text(cell(1), "message"), "train of seed 0: ended by signal 9"));
  CHECK_STR(text(cell(2), "status"), "done");
  CHECK(count("train refused") == 0 && count("bench refused") == 0 && count("eval killed") == 0);
  CHECK(count("bench killed") == 2);
  int before = count("train killed");
  CHECK(run("refused,killed,a", true, 2, false) == VTB_OK);
  CHECK(count("train killed") == before && strstr(said, "--retry"));
  CHECK(run("refused,killed,a", true, 2, true) == VTB_OK);
  CHECK(count("train killed") > before && count("train a") == 2);
}

TEST(restless_cells_are_timed_again) {
  begin_anew();
  CHECK(run("restless,a", true, 0, false) == VTB_OK);
  CHECK(count("bench restless") == 4 && count("bench a") == 4 && count("bench --peak") == 4);
  CHECK(strstr(said, "further rounds") && strstr(said, "still varies"));
  CHECK_NEAR(study_number(of(cell(0), "bench"), "repeated"), 2, 0);
  CHECK_NEAR(study_number(of(cell(0), "bench"), "best_ms"), 5, 0);
  CHECK_NEAR(study_number(of(cell(0), "bench"), "spread"), 1.5 / 5, 1e-9);
  CHECK_STR(text(of(cell(1), "bench"), "rank"), "best");
}

TEST(another_text_of_the_model_is_another_model) {
  begin_anew();
  CHECK(run("a,b", false, 1, false) == VTB_OK);
  setenv("MODEL_TEXT", "two", 1);
  char command[256];
  snprintf(command, sizeof command, "rm %s/cells/*a/check.json", report);
  CHECK(system(command) == 0);
  CHECK(run("a,b", false, 1, false) == VTB_OK);
  CHECK(count("train a") == 2 && count("train b") == 1 && strstr(said, "done again"));
}

/* The first training waits until it is told to end; the next start goes on with it. */
TEST(an_interrupted_training_goes_on) {
  begin_anew();
  stop_after = 1;
  CHECK((int)run("slow,a,b", false, 1, false) == 128 + SIGTERM);
  CHECK_STR(text(cell(0), "status"), "pending");
  CHECK(count("train --resume") == 0 && count("train slow") == 1);
  stop = 0;
  CHECK(run("slow,a,b", false, 1, false) == VTB_OK);
  CHECK(count("train --resume") == 1 && count("train slow") == 1);
  CHECK_STR(text(cell(0), "status"), "done");
}

/* Not one of another recipe. */
TEST(what_another_study_began_is_not_gone_on_with) {
  begin_anew();
  stop_after = 1;
  CHECK((int)run("slow", false, 1, false) == 128 + SIGTERM);
  char command[256];
  snprintf(command, sizeof command, "for f in %s/cells/*slow/train-0.key; do echo other > $f; done",
           report);
  CHECK(system(command) == 0);
  stop = 0;
  stop_after = 1;
  CHECK((int)run("slow", false, 1, false) == 128 + SIGTERM);
  CHECK(count("train --resume") == 0 && count("train slow") == 2);
}

int main(int argc, char **argv) {
  if (argc > 1) return act(argc, argv);
  if (!mkdtemp(folder)) return 1;
  snprintf(diary, sizeof diary, "%s/diary", folder);
  snprintf(report, sizeof report, "%s/report", folder);
  setenv("DIARY", diary, 1);
  RUN(every_step_is_done_once);
  RUN(threads_make_no_training_stale);
  RUN(a_check_that_is_killed_is_a_failure);
  RUN(another_text_of_the_recipe_trains_anew);
  RUN(half_written_files_go);
  RUN(a_third_seed_is_added_to_two);
  RUN(failures_stop_nothing_else);
  RUN(restless_cells_are_timed_again);
  RUN(another_text_of_the_model_is_another_model);
  RUN(an_interrupted_training_goes_on);
  RUN(what_another_study_began_is_not_gone_on_with);
  cJSON_Delete(results);
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command) != 0 || test_done();
}
