/* What runs leave on the disk: nothing before the first update, a checkpoint before an evaluation,
 * and one that is whole, of this model and this data, or is refused. */
#include "runtime/artefact/safetensors.h"
#include "runtime/launch/threads.h"
#include "runtime/train/tensorboard.h"
#include "runtime/train/train.h"
#include "tests/runtime/fake_program.h"
#include "tests/runtime/schedule.h"

#include <dirent.h>

static vtb_dataset *train_set, *eval_set;
static vtb_program step_program, eval_program;
static vtb_services *services;

static void open_data(void) {
  fake_dataset("data", "train", 100, 1);
  fake_dataset("data", "t10k", 43, 2);
  CHECK_OK(vtb_dataset_open(temp_path("data"), NULL, &train_set, err));
  CHECK_OK(
      vtb_dataset_open(temp_path("data"), &(vtb_dataset_options){.split = "test"}, &eval_set, err));
  if (!train_set || !eval_set) exit(1);
  step_program = fake_step_program();
  eval_program = fake_eval_program();
  services = vtb_services_default(1);
}

/* A folder of its own, with the names of a run's files in it. */
typedef struct files {
  char folder[128], checkpoint[160], best[160], log[160], csv[160], json[160];
} files;

static files files_in(const char *name) {
  files f;
  snprintf(f.folder, sizeof f.folder, "%s", temp_path(name));
  mkdir(f.folder, 0777);
  snprintf(f.checkpoint, sizeof f.checkpoint, "%s/checkpoint.safetensors", f.folder);
  snprintf(f.best, sizeof f.best, "%s/best.safetensors", f.folder);
  snprintf(f.log, sizeof f.log, "%s/log", f.folder);
  snprintf(f.csv, sizeof f.csv, "%s/log.csv", f.folder);
  snprintf(f.json, sizeof f.json, "%s/log.jsonl", f.folder);
  return f;
}

/* 100 samples in batches of 8: 12 updates an epoch, 4 epochs. */
static vtb_train_config config_for(const files *f) {
  vtb_train_config c = vtb_train_defaults();
  c.step = &step_program, c.eval = &eval_program, c.services = services;
  c.train_set = train_set, c.eval_set = eval_set;
  CHECK_OK(vtb_transform_init(&c.train_transform, train_set, 1, FAKE_SIDE, FAKE_SIDE, err));
  c.eval_transform = c.train_transform;
  c.optim.clip_norm = 1, c.optim.ema_decay = 0.95;
  c.schedule = warm_schedule(0.02, 6, 42);
  c.epochs = 4, c.seed = 17, c.recipe = "model=a/test.vtb lr=0.1";
  c.checkpoint = f->checkpoint, c.best = f->best, c.log = f->log, c.resume = true;
  return c;
}

/* Runs as far as it goes; the bytes of the weights at the end, to be freed. */
static char *run(const vtb_train_config *c, vtb_train_result *result, size_t *n) {
  vtb_trainer *t = NULL;
  CHECK_OK(vtb_trainer_open(c, &t, err));
  if (!t) exit(1);
  CHECK_OK(vtb_trainer_run(t, result, err));
  const char *path = temp_path("end.safetensors");
  CHECK_OK(vtb_trainer_save_weights(t, path, err));
  vtb_trainer_close(t);
  return read_file(path, n);
}

static char *whole(size_t *n, vtb_train_result *r, files *f) {
  *f = files_in("whole");
  vtb_train_config c = config_for(f);
  c.resume = false;
  return run(&c, r, n);
}

static bool equal(const char *a, size_t n, const char *b, size_t m) {
  return n == m && memcmp(a, b, n) == 0;
}

/* ---- evaluation ------------------------------------------------------------------------------ */

typedef struct stopper {
  const char *checkpoint;
  int stop, saw_checkpoint;
  int64_t at_epoch;
} stopper;

static void stop_in_evaluation(void *user, const vtb_train_event *e) {
  stopper *s = user;
  if (e->kind != VTB_TRAIN_EVAL_STEP || e->epoch != s->at_epoch) return;
  s->saw_checkpoint = vtb_path_exists(s->checkpoint);
  s->stop = 1;
}

static void same_rows(const char *a, const char *b) {
  size_t n, m;
  char *x = read_file(a, &n), *y = read_file(b, &m), *p = x, *q = y, *line, *other;
  while ((line = strsep(&p, "\n")) && (other = strsep(&q, "\n"))) { /* but for the times */
    for (int column = 0; column < 7; column++) {
      char *one = strsep(&line, ","), *two = strsep(&other, ",");
      CHECK_MSG(vtb_streq(one, two), "%s and %s", one ? one : "-", two ? two : "-");
    }
  }
  CHECK(!p && !q);
  free(x);
  free(y);
}

static void append_row(const char *path, int64_t step) {
  FILE *file = fopen(path, "a");
  if (!file) exit(1);
  fprintf(file, "%d,1,2,3,4,5,6,7,8,9\n", (int)step);
  fclose(file);
}

TEST(an_epoch_is_saved_before_it_is_evaluated_and_evaluated_when_resumed) {
  size_t n, m;
  files w;
  vtb_train_result all = {0};
  char *want = whole(&n, &all, &w);
  for (int64_t epoch = 1; epoch <= 4; epoch += 3) {
    files f = files_in(epoch == 1 ? "stopped1" : "stopped4");
    stopper s = {.checkpoint = f.checkpoint, .at_epoch = epoch};
    vtb_train_config c = config_for(&f);
    vtb_train_result r = {0};
    c.on_event = stop_in_evaluation, c.user = &s, c.stop = &s.stop;
    free(run(&c, &r, &m));
    CHECK(s.saw_checkpoint);
    CHECK(r.steps == 12 * epoch && !r.finished && !r.evaluated && r.trained);
    append_row(f.csv,
               12 * epoch); /* as if it had been killed behind its row, before a checkpoint */
    c.on_event = NULL, c.stop = NULL;
    char *got = run(&c, &r, &m);
    CHECK_MSG(equal(want, n, got, m), "stopped in epoch %d: other weights", (int)epoch);
    CHECK(r.finished && r.evaluated && r.eval_loss == all.eval_loss);
    CHECK(r.best_top1 == all.best_top1 && r.loss == all.loss);
    same_rows(w.csv, f.csv);
    free(got);
  }
  free(want);
}

/* Of a file of weights. */
static double top1_of(const char *path) {
  vtb_weights *w = NULL;
  CHECK_OK(vtb_safetensors_load(path, &w, err));
  if (!w) exit(1);
  float weight[FAKE_CLASSES * FAKE_PIXELS], bias[FAKE_CLASSES];
  void *params[] = {NULL, weight, bias, NULL};
  CHECK_OK(vtb_weights_bind(&eval_program, w, NULL, params, NULL, NULL, err));
  vtb_weights_free(w);
  vtb_train_config c = {0};
  CHECK_OK(vtb_transform_init(&c.eval_transform, eval_set, 1, FAKE_SIDE, FAKE_SIDE, err));
  vtb_eval_options o = {.dataset = eval_set, .transform = c.eval_transform, .services = services};
  vtb_eval_result e = {0};
  CHECK_OK(vtb_evaluate(&eval_program, params, &o, &e, err));
  return e.top1;
}

TEST(the_best_weights_stay) {
  files f = files_in("best");
  vtb_train_config c = config_for(&f);
  vtb_train_result r = {0};
  size_t n;
  c.max_steps = 24;
  free(run(&c, &r, &n));
  CHECK(top1_of(f.best) == r.best_top1);
}

static int64_t honest_from; /* the update from which on evaluations are what they are */
static int64_t evaluated[8];
static int n_evaluated;

static void evaluate_upside_down(void *const *a, void *workspace, const vtb_services *s) {
  fake_eval(a, workspace, s);
  for (int i = 0; honest_from && i < FAKE_BATCH * FAKE_CLASSES; i++) ((float *)a[3])[i] *= -1;
}

static void note_evaluations(void *user, const vtb_train_event *e) {
  (void)user;
  if (e->kind == VTB_TRAIN_STEP && e->step == honest_from) honest_from = 0;
  if (e->kind == VTB_TRAIN_EPOCH && e->evaluated && n_evaluated < 8)
    evaluated[n_evaluated++] = e->epoch;
}

/* 30 updates are two epochs and a half; what was judged before was bad. */
TEST(what_ends_within_an_epoch_may_be_the_best) {
  files f = files_in("cut");
  vtb_train_plan plan = {0, 30};
  vtb_train_config c = config_for(&f);
  vtb_train_result r = {0};
  size_t n;
  c.plan = &plan, c.n_plan = 1, c.on_event = note_evaluations, c.optim.ema_decay = 0.5;
  honest_from = 30;
  eval_program.entry = evaluate_upside_down;
  free(run(&c, &r, &n));
  CHECK(r.steps == 30 && r.finished && r.evaluated && r.eval_top1 > 0.5);
  CHECK(r.best_top1 == r.eval_top1 && top1_of(f.best) == r.best_top1);
  eval_program = fake_eval_program();
}

TEST(the_last_epoch_is_evaluated_whatever_comes_between) {
  static const struct {
    int64_t every, at[4];
    int n;
  } rows[] = {{1, {1, 2, 3, 4}, 4}, {2, {2, 4}, 2}, {3, {3, 4}, 2}, {9, {4}, 1}};
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    files f = files_in(k ? "seldom" : "always");
    vtb_train_config c = config_for(&f);
    vtb_train_result r = {0};
    size_t n;
    c.eval_epochs = rows[k].every, c.on_event = note_evaluations, c.resume = false;
    n_evaluated = 0;
    free(run(&c, &r, &n));
    CHECK_MSG(n_evaluated == rows[k].n &&
                  memcmp(evaluated, rows[k].at, (size_t)rows[k].n * sizeof *evaluated) == 0,
              "every %d: %d evaluations", (int)rows[k].every, n_evaluated);
    CHECK(r.evaluated && r.finished);
  }
}

/* ---- errors ---------------------------------------------------------------------------------- */

static vtb_status refuse(void *user, vtb_error *err) {
  (void)user;
  return vtb_fail(err, VTB_E_INPUT, "not now");
}

TEST(nothing_is_written_before_the_first_update) {
  files f = files_in("early");
  vtb_train_config c = config_for(&f);
  vtb_train_result r = {0};
  int stop = 1;
  size_t n;
  write_file(f.json, "of a run before", 15);
  c.stop = &stop, c.resume = false;
  free(run(&c, &r, &n));
  CHECK(r.steps == 0 && r.updates == 0 && !r.evaluated && !r.trained && !r.finished);
  CHECK(!vtb_path_exists(f.checkpoint) && !vtb_path_exists(f.csv));
  c.stop = NULL, c.on_begin = refuse;
  vtb_trainer *t = NULL;
  CHECK_OK(vtb_trainer_open(&c, &t, err));
  CHECK_REFUSED(vtb_trainer_run(t, NULL, err), "not now");
  vtb_trainer_close(t);
  CHECK(!vtb_path_exists(f.checkpoint) && !vtb_path_exists(f.csv));
  char *text = read_file(f.json, &n);
  CHECK(n == 15);
  free(text);
}

TEST(an_error_leaves_a_checkpoint_of_the_last_update) {
  size_t n, m;
  files w, f = files_in("full");
  char *want = whole(&n, NULL, &w);
  vtb_train_config c = config_for(&f);
  vtb_trainer *t = NULL;
  vtb_train_result r = {0};
  CHECK(symlink("/dev/full", f.json) == 0);
  c.log_steps = 5;
  CHECK_OK(vtb_trainer_open(&c, &t, err));
  CHECK_REFUSED(vtb_trainer_run(t, NULL, err), "as it was after update 1 is in");
  vtb_trainer_close(t);
  unlink(f.json);
  char *got = run(&c, &r, &m);
  CHECK(r.updates == 47 && equal(want, n, got, m));
  free(want);
  free(got);
}

/* ---- whose checkpoint it is ------------------------------------------------------------------ */

static void change(char *bytes, size_t n, const char *key) {
  size_t k = strlen(key);
  for (size_t i = 0; i + k < n; i++)
    if (memcmp(bytes + i, key, k) == 0) bytes[i + k] ^= 1;
}

TEST(changed_checkpoints_are_refused) {
  files f = files_in("changed");
  vtb_train_config c = config_for(&f);
  vtb_trainer *t = NULL;
  size_t n;
  c.max_steps = 3;
  free(run(&c, NULL, &n));
  char *file = read_file(f.checkpoint, &n);
  for (size_t back = 1; back < 400; back += 57) {
    file[n - back] ^= 4;
    write_file(f.checkpoint, file, n);
    CHECK_REFUSED(vtb_trainer_open(&c, &t, err), "is damaged: its bytes are not those");
    file[n - back] ^= 4;
  }
  change(file, n, "\"step\":\"");
  write_file(f.checkpoint, file, n);
  CHECK_REFUSED(vtb_trainer_open(&c, &t, err), "is damaged: its bytes are not those");
  free(file);
}

TEST(other_data_and_other_models_are_named) {
  files f = files_in("named");
  vtb_train_config c = config_for(&f);
  vtb_trainer *t = NULL;
  vtb_dataset *other = NULL;
  size_t n;
  c.max_steps = 3, c.model_hash = "1", c.more_recipe = "shift=1";
  free(run(&c, NULL, &n));
  fake_dataset("other", "train", 100, 3); /* as many, others */
  CHECK_OK(vtb_dataset_open(temp_path("other"), NULL, &other, err));
  c.train_set = other;
  CHECK_REFUSED(vtb_trainer_open(&c, &t, err), "training data are not those that the run began");
  c.train_set = train_set, c.eval_set = other;
  CHECK_REFUSED(vtb_trainer_open(&c, &t, err), "samples=43 (now samples=100)");
  c.eval_set = eval_set, c.model_hash = "2";
  CHECK_REFUSED(vtb_trainer_open(&c, &t, err), "the model's text is not the one");
  c.model_hash = "1", c.recipe = "model=b/test.vtb lr=0.1"; /* the same file elsewhere */
  CHECK_OK(vtb_trainer_open(&c, &t, err));
  vtb_trainer_close(t);
  c.recipe = "model=a/best.vtb lr=0.1";
  CHECK_REFUSED(vtb_trainer_open(&c, &t, err), "model=a/test.vtb (now model=a/best.vtb)");
  c.recipe = "model=a/test.vtb lr=0.1", c.more_recipe = "shift=2";
  CHECK_REFUSED(vtb_trainer_open(&c, &t, err), "shift=1 (now shift=2)");
  vtb_dataset_free(other);
}

/* ---- event files ----------------------------------------------------------------------------- */

static uint32_t little32(const unsigned char *at) {
  return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

TEST(event_files_are_records_with_checksums) {
  const char *folder = temp_path("board"), *digits = "123456789";
  vtb_board *b = NULL;
  vtb_board_value values[] = {{"train/loss", 1.5}, {"none", NAN}, {"eval/top1", 0.25}};
  uint32_t sum = 0xe3069283u; /* the published check value of CRC-32C */
  CHECK(vtb_board_checksum(digits, 9) == (sum >> 15 | sum << 17) + 0xa282ead8u);
  CHECK_OK(vtb_board_open(folder, 7, &b, err));
  CHECK_OK(vtb_board_put(b, 12, values, 3, err));
  vtb_board_close(b);
  char path[600] = "";
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));)
    if (vtb_starts_with(e->d_name, "events.out.tfevents."))
      snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
  if (d) closedir(d);
  size_t n, at = 0;
  int records = 0;
  unsigned char *bytes = (unsigned char *)read_file(path, &n);
  while (at + 16 <= n) {
    size_t length = little32(bytes + at);
    CHECK(little32(bytes + at + 8) == vtb_board_checksum(bytes + at, 8));
    CHECK(at + 16 + length <= n);
    if (at + 16 + length > n) break;
    CHECK(little32(bytes + at + 12 + length) == vtb_board_checksum(bytes + at + 12, length));
    at += 16 + length;
    records++;
  }
  CHECK(records == 3 && at == n); /* version, start after update 7, two values */
  CHECK(memmem(bytes, n, "brain.Event:2", 13) && memmem(bytes, n, "train/loss", 10));
  CHECK(!memmem(bytes, n, "none", 4));
  free(bytes);
}

/* ---- a run for a time, again ----------------------------------------------------------------- */

static size_t read_plan(const char *path, vtb_train_plan *plan, size_t most) {
  size_t n, count = 0;
  char *text = read_file(path, &n);
  for (char *at = text; (at = strstr(at, "{\"event\":\"plan\",\"step\":")) && count < most; at++) {
    long long step, total;
    if (sscanf(at, "{\"event\":\"plan\",\"step\":%lld,\"total\":%lld}", &step, &total) == 2)
      plan[count++] = (vtb_train_plan){step, total};
  }
  free(text);
  return count;
}

TEST(a_run_for_a_time_is_repeated_from_its_log) {
  files f = files_in("time"), g = files_in("again");
  vtb_train_config c = config_for(&f);
  vtb_train_result r = {0}, again = {0};
  vtb_train_plan plan[256];
  size_t n, m;
  c.fit_seconds = 0.3, c.resume = false;
  char *want = run(&c, &r, &n);
  vtb_train_config d = config_for(&g);
  d.plan = plan, d.n_plan = read_plan(f.json, plan, 256), d.resume = false;
  CHECK_MSG(d.n_plan > 2 && d.n_plan < 250, "%d entries", (int)d.n_plan);
  char *got = run(&d, &again, &m);
  CHECK_MSG(r.steps == again.steps && r.steps > 20, "%d and %d updates", (int)r.steps,
            (int)again.steps);
  CHECK(equal(want, n, got, m));
  free(want);
  free(got);
}

/* ---- a run of so many updates ---------------------------------------------------------------- */

static void stop_at_the_last(void *user, const vtb_train_event *e) {
  int *stop = user;
  if (e->kind == VTB_TRAIN_EVAL_STEP && e->step == 30) *stop = 1;
}

/* 30 updates are two epochs and a half: what ends while it is judged is judged when it goes on. */
TEST(a_run_of_so_many_updates_is_done_when_it_is_judged) {
  files f = files_in("updates"), g = files_in("unjudged");
  vtb_train_plan plan = {0, 30};
  vtb_train_config c = config_for(&f), d = config_for(&g);
  vtb_train_result all = {0}, r = {0};
  size_t n, m;
  int stop = 0;
  c.plan = d.plan = &plan, c.n_plan = d.n_plan = 1, c.eval_steps = d.eval_steps = 8;
  char *want = run(&c, &all, &n);
  CHECK(all.finished && all.evaluated && all.steps == 30 && vtb_path_exists(f.best));
  d.on_event = stop_at_the_last, d.user = &stop, d.stop = &stop;
  free(run(&d, &r, &m));
  CHECK(r.steps == 30 && !r.finished && !r.evaluated && stop);
  d.on_event = NULL, d.stop = NULL;
  char *got = run(&d, &r, &m);
  CHECK(r.finished && r.evaluated && r.eval_loss == all.eval_loss && r.updates == 0);
  CHECK(r.best_top1 == all.best_top1 && equal(want, n, got, m));
  free(got);
  got = run(&d, &r, &m);
  CHECK(r.finished && r.updates == 0); /* once more: nothing is left to do */
  same_rows(f.csv, g.csv);
  free(got);
  free(want);
}

int main(void) {
  open_data();
  RUN(an_epoch_is_saved_before_it_is_evaluated_and_evaluated_when_resumed);
  RUN(the_best_weights_stay);
  RUN(what_ends_within_an_epoch_may_be_the_best);
  RUN(the_last_epoch_is_evaluated_whatever_comes_between);
  RUN(nothing_is_written_before_the_first_update);
  RUN(an_error_leaves_a_checkpoint_of_the_last_update);
  RUN(changed_checkpoints_are_refused);
  RUN(other_data_and_other_models_are_named);
  RUN(event_files_are_records_with_checksums);
  RUN(a_run_for_a_time_is_repeated_from_its_log);
  RUN(a_run_of_so_many_updates_is_done_when_it_is_judged);
  vtb_services_free(services);
  vtb_dataset_free(train_set);
  vtb_dataset_free(eval_set);
  return test_done();
}
