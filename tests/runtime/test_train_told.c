/* What a run tells of itself: events, lines of the log, scalars for TensorBoard, and what it
 * decides by its clock and by the factor on its loss. */
#include "runtime/launch/threads.h"
#include "runtime/train/train_internal.h"
#include "tests/runtime/fake_program.h"
#include "tests/runtime/schedule.h"

#include <cjson/cJSON.h>
#include <dirent.h>

/* ---- a trainer that has been set up by hand -------------------------------------------------- */

static vtb_trainer made(void) {
  vtb_trainer t = {.config = vtb_train_defaults(), .n_ranks = 1, .batches = 10, .whole = 64};
  t.bound.scale = -1;
  t.rows = 16, t.pieces = 2;
  t.started = vtb_now();
  t.config.epochs = 5;
  return t;
}

TEST(the_clock_decides_after_the_time_that_was_given) {
  vtb_trainer t = made();
  t.started -= 100;
  t.last_checkpoint = vtb_now() - 50;
  CHECK(!vtb__time_is_over(&t) && !vtb__checkpoint_is_late(&t));
  t.config.max_seconds = 99;
  CHECK(vtb__time_is_over(&t));
  t.config.max_seconds = 160;
  CHECK(!vtb__time_is_over(&t));
  t.config.checkpoint_seconds = 49;
  CHECK(!vtb__checkpoint_is_late(&t)); /* there is none */
  t.config.checkpoint = "checkpoint";
  CHECK(vtb__checkpoint_is_late(&t));
  t.config.checkpoint_seconds = 90;
  CHECK(!vtb__checkpoint_is_late(&t));
}

/* 40 seconds more at 2 seconds an update are 20 updates; a plan is made anew when a fiftieth of it
 * has gone. */
TEST(a_run_for_a_time_is_planned_by_its_speed) {
  vtb_trainer t = made();
  t.state.step = 30, t.started -= 60;
  CHECK(vtb__plan_anew(&t) == 0);
  t.config.fit_seconds = 100.5;
  CHECK(vtb__plan_anew(&t) == 0); /* no update was timed */
  t.step_seconds = 2;
  CHECK(vtb__plan_anew(&t) == 50);
  t.n_ranks = 2; /* the update at hand is not counted yet */
  CHECK(vtb__plan_anew(&t) == 51);
  t.n_ranks = 1;
  t.fit_total = 500, t.planned_at = 25, t.planned_when = vtb_now();
  CHECK(vtb__plan_anew(&t) == 0);
  t.planned_at = 20;
  CHECK(vtb__plan_anew(&t) == 50);
  t.planned_at = 25, t.planned_when -= 3;
  CHECK(vtb__plan_anew(&t) == 50);
  t.config.fit_seconds = 10; /* over: no further update */
  CHECK(vtb__plan_anew(&t) == 30);
}

TEST(events_say_what_is_left_and_how_fast_it_goes) {
  vtb_trainer t = made();
  t.state.step = 20, t.state.epoch = 2, t.state.scale = 8, t.loss = 0.5;
  vtb_train_event e = vtb__event(&t, VTB_TRAIN_STEP);
  CHECK(e.total_steps == 50 && e.step == 20 && e.epoch == 2 && e.n_epochs == 5);
  CHECK(e.seconds_left == -1 && e.images_per_second == 0 && e.loss_scale == 0 && e.loss == 0.5);
  t.step_seconds = 2;
  e = vtb__event(&t, VTB_TRAIN_STEP);
  CHECK_NEAR(e.seconds_left, 60, 1e-9);
  CHECK_NEAR(e.images_per_second, 32, 1e-9); /* of all ranks and all runs of an update */
  t.config.max_seconds = 70;
  CHECK_NEAR(vtb__event(&t, VTB_TRAIN_STEP).seconds_left, 60, 1e-9);
  t.config.max_seconds = 40;
  CHECK_NEAR(vtb__event(&t, VTB_TRAIN_STEP).seconds_left, 40, 5);
  t.started -= 100;
  CHECK(vtb__event(&t, VTB_TRAIN_STEP).seconds_left == 0);
  t.fit_total = 24, t.config.max_seconds = 0;
  e = vtb__event(&t, VTB_TRAIN_STEP);
  CHECK(e.total_steps == 24 && fabs(e.seconds_left - 8) < 1e-9);
  t.bound.scale = 3;
  CHECK(vtb__event(&t, VTB_TRAIN_STEP).loss_scale == 8);
}

/* ---- the factor on the loss ------------------------------------------------------------------ */

static void good(vtb_trainer *t, int n, double scale) {
  for (int i = 0; i < n; i++) {
    CHECK_OK(vtb__scale_end(t, VTB_OK, NULL, err));
    CHECK(t->state.scale == (i + 1 < n ? t->state.scale : scale));
  }
  CHECK_MSG(t->state.scale == scale, "%g after %d good updates, not %g", t->state.scale, n, scale);
}

TEST(the_factor_doubles_after_good_updates_and_halves_on_overflow) {
  vtb_trainer t = made();
  void *args[4] = {NULL};
  vtb_error inner = {.status = VTB_E_NUMBERS, .text = "the gradient of w is not finite"};
  t.bound.scale = 2, t.bound.args = args;
  vtb__scale_open(&t);
  CHECK(t.state.scale == 65536 && args[2] == &t.loss_scale);
  t.config.loss_scale = 8, t.config.loss_scale_steps = 3;
  vtb__scale_open(&t);
  vtb__scale_begin(&t);
  CHECK(t.loss_scale == 8);
  good(&t, 2, 8);
  good(&t, 1, 16);
  good(&t, 2, 16); /* counted from the change on */
  CHECK_OK(vtb__scale_end(&t, VTB_E_NUMBERS, &inner, err));
  CHECK(t.state.scale == 8 && t.state.skipped == 1 && isnan(t.grad_norm));
  good(&t, 2, 8); /* and again */
  good(&t, 1, 16);
  for (double scale = 8; scale >= 1; scale /= 2) {
    CHECK_OK(vtb__scale_end(&t, VTB_E_NUMBERS, &inner, err));
    CHECK(t.state.scale == scale);
  }
  CHECK(t.state.skipped == 5);
  CHECK_REFUSED(vtb__scale_end(&t, VTB_E_NUMBERS, &inner, err), "gradient of w"); /* no smaller */
  t.state.scale = 8;
  inner.status = VTB_E_MEMORY;
  CHECK_REFUSED(vtb__scale_end(&t, VTB_E_MEMORY, &inner, err), "gradient of w");
  CHECK(t.state.scale == 8 && t.state.skipped == 5);
  t.bound.scale = -1; /* without a factor every such error ends the run */
  vtb__scale_begin(&t);
  CHECK(t.loss_scale == 1);
  CHECK_REFUSED(vtb__scale_end(&t, VTB_E_NUMBERS, &inner, err), "gradient of w");
}

/* ---- logs of a run --------------------------------------------------------------------------- */

static vtb_dataset *train_set, *eval_set;
static vtb_program step_program, eval_program;
enum { EPOCHS = 10, BATCHES = 12, UPDATES = EPOCHS * BATCHES, WINDOW = 2 };
static double losses[UPDATES];
static int n_losses;

static void note(void *user, const vtb_train_event *e) {
  (void)user;
  if (e->kind == VTB_TRAIN_STEP && n_losses < UPDATES) losses[n_losses++] = e->loss;
}

/* 96 samples in batches of 8; windows are a fiftieth of the run. */
static void train(const char *log, const char *board, int64_t most, bool resume) {
  vtb_train_config c = vtb_train_defaults();
  vtb_services *s = vtb_services_default(1);
  vtb_trainer *t = NULL;
  vtb_train_result r = {0};
  c.step = &step_program, c.eval = &eval_program, c.services = s;
  c.train_set = train_set, c.eval_set = eval_set;
  CHECK_OK(vtb_transform_init(&c.train_transform, train_set, 1, FAKE_SIDE, FAKE_SIDE, err));
  c.eval_transform = c.train_transform;
  c.optim.clip_norm = 1, c.optim.ema_decay = 0.8;
  c.schedule = warm_schedule(0.02, 0, UPDATES);
  c.epochs = EPOCHS, c.seed = 17;
  c.log = log, c.board = board, c.on_event = note;
  c.checkpoint = temp_path("told.safetensors"), c.resume = resume, c.max_steps = most;
  c.eval_steps = 5, c.log_steps = 1;
  CHECK_OK(vtb_trainer_open(&c, &t, err));
  if (!t) exit(1);
  CHECK_OK(vtb_trainer_run(t, &r, err));
  vtb_trainer_close(t);
  vtb_services_free(s);
}

/* Line k of the kind, to be freed; NULL: there are fewer. */
static cJSON *line_of(const char *path, const char *event, int k) {
  size_t n;
  char *text = read_file(path, &n), *rest = text, *line;
  cJSON *found = NULL;
  while (!found && (line = strsep(&rest, "\n"))) {
    cJSON *one = *line ? cJSON_Parse(line) : NULL;
    const cJSON *kind = cJSON_GetObjectItem(one, "event");
    if (kind && strcmp(kind->valuestring, event) == 0 && k-- == 0)
      found = one;
    else
      cJSON_Delete(one);
  }
  free(text);
  return found;
}

static double field(const cJSON *line, const char *key) {
  const cJSON *v = cJSON_GetObjectItem(line, key);
  return cJSON_IsNumber(v) ? v->valuedouble : (double)NAN;
}

/* Windows and epochs have the means of their own updates, whole ones as those of a run that was
 * stopped in between. */
TEST(lines_are_of_the_updates_since_the_last) {
  char log[600], json[640];
  for (int stopped = 0; stopped < 2; stopped++) {
    snprintf(log, sizeof log, "%s", temp_path(stopped ? "stopped" : "whole"));
    snprintf(json, sizeof json, "%s.jsonl", log);
    n_losses = 0;
    remove(temp_path("told.safetensors"));
    if (stopped) train(log, NULL, 7, false);
    train(log, NULL, 0, stopped);
    CHECK(n_losses == UPDATES);
    for (int k = 0; k < EPOCHS; k++) {
      cJSON *epoch = line_of(json, "epoch", k);
      double sum = 0;
      for (int i = 0; i < BATCHES; i++) sum += losses[BATCHES * k + i];
      CHECK(field(epoch, "step") == BATCHES * (k + 1) && field(epoch, "epoch") == k + 1);
      CHECK_NEAR(field(epoch, "loss"), sum / BATCHES, 1e-6);
      cJSON_Delete(epoch);
    }
    cJSON *none = line_of(json, "epoch", EPOCHS);
    CHECK(!none);
    cJSON_Delete(none);
    double before = -1;
    int windows = 0;
    for (cJSON *w; (w = line_of(json, "window", windows)); windows++) {
      int from = WINDOW * windows, to = (int)field(w, "step");
      double sum = 0, accuracy = field(w, "accuracy");
      CHECK(to == from + WINDOW && field(w, "step") > before);
      for (int i = from; i < to; i++) sum += losses[i];
      CHECK_NEAR(field(w, "loss"), sum / (to - from), 1e-6);
      CHECK_NEAR(field(w, "epoch"), to / (double)BATCHES, 1e-6);
      CHECK_MSG(accuracy >= 0 && accuracy <= 1, "accuracy %g", accuracy);
      before = to;
      cJSON_Delete(w);
    }
    CHECK_MSG(windows == UPDATES / WINDOW, "%d windows", windows);
  }
}

TEST(scalars_stand_in_their_groups) {
  static const char *const there[] = {"train/loss", "train/lr",  "epoch/loss", "epoch/accuracy",
                                      "eval/loss",  "eval/top1", "eval/top5",  "train/grad_norm"},
                           *const not_there[] = {"epoch/top1", "epoch/eval", "/seconds",
                                                 "train/epoch"};
  const char *folder = temp_path("board");
  char path[900] = "";
  size_t n;
  remove(temp_path("told.safetensors"));
  train(NULL, folder, 0, false);
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));)
    if (vtb_starts_with(e->d_name, "events.out"))
      snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
  if (d) closedir(d);
  char *bytes = read_file(path, &n);
  for (size_t i = 0; i < sizeof there / sizeof *there; i++)
    CHECK_MSG(memmem(bytes, n, there[i], strlen(there[i])), "no %s", there[i]);
  for (size_t i = 0; i < sizeof not_there / sizeof *not_there; i++)
    CHECK_MSG(!memmem(bytes, n, not_there[i], strlen(not_there[i])), "there is %s", not_there[i]);
  free(bytes);
}

int main(void) {
  fake_dataset("data", "train", 96, 1);
  fake_dataset("data", "t10k", 43, 2);
  CHECK_OK(vtb_dataset_open(temp_path("data"), NULL, &train_set, err));
  CHECK_OK(
      vtb_dataset_open(temp_path("data"), &(vtb_dataset_options){.split = "test"}, &eval_set, err));
  if (!train_set || !eval_set) return 1;
  step_program = fake_step_program();
  eval_program = fake_eval_program();
  RUN(the_clock_decides_after_the_time_that_was_given);
  RUN(a_run_for_a_time_is_planned_by_its_speed);
  RUN(events_say_what_is_left_and_how_fast_it_goes);
  RUN(the_factor_doubles_after_good_updates_and_halves_on_overflow);
  RUN(lines_are_of_the_updates_since_the_last);
  RUN(scalars_stand_in_their_groups);
  vtb_dataset_free(train_set);
  vtb_dataset_free(eval_set);
  return test_done();
}
