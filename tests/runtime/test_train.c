#include "runtime/artefact/safetensors.h"
#include "runtime/launch/threads.h"
#include "runtime/train/train.h"
#include "tests/runtime/fake_program.h"
#include "tests/runtime/schedule.h"

#include <signal.h>
#include <sys/wait.h>

static vtb_dataset *train_set, *eval_set;
static vtb_program step_program, eval_program;

static void open_data(void) {
  fake_dataset("data", "train", 100, 1);
  fake_dataset("data", "t10k", 43, 2);
  CHECK_OK(vtb_dataset_open(temp_path("data"), NULL, &train_set, err));
  CHECK_OK(
      vtb_dataset_open(temp_path("data"), &(vtb_dataset_options){.split = "test"}, &eval_set, err));
  if (!train_set || !eval_set) exit(1);
  step_program = fake_step_program();
  eval_program = fake_eval_program();
}

/* 100 samples in batches of 8: 12 updates an epoch, 4 epochs. */
static vtb_train_config config_for(const vtb_services *s) {
  vtb_train_config c = vtb_train_defaults();
  c.step = &step_program, c.eval = &eval_program, c.services = s;
  c.train_set = train_set, c.eval_set = eval_set;
  CHECK_OK(vtb_transform_init(&c.train_transform, train_set, 1, FAKE_SIDE, FAKE_SIDE, err));
  c.eval_transform = c.train_transform;
  c.train_transform.augment.shift = 1;
  c.optim.clip_norm = 1, c.optim.ema_decay = 0.95;
  c.schedule = warm_schedule(0.02, 6, 42);
  c.epochs = 4, c.seed = 17, c.recipe = "model=test lr=0.1 -Ddim=8";
  return c;
}

static uint64_t hash_of(vtb_trainer *t) {
  int64_t n, m;
  float *w = vtb_trainer_param(t, "weight", &n), *b = vtb_trainer_param(t, "bias", &m);
  return vtb_hash_bytes(vtb_hash_bytes(VTB_HASH_INIT, w, (size_t)n * 4), b, (size_t)m * 4);
}

/* Runs to the end or to a limit; the hash of the parameters. */
static uint64_t run(const vtb_train_config *c, vtb_train_result *result) {
  vtb_trainer *t = NULL;
  CHECK_OK(vtb_trainer_open(c, &t, err));
  if (!t) return 0;
  CHECK_OK(vtb_trainer_run(t, result, err));
  uint64_t h = hash_of(t);
  vtb_trainer_close(t);
  return h;
}

static uint64_t uninterrupted(void) {
  vtb_services *s = vtb_services_default(1);
  vtb_train_config c = config_for(s);
  uint64_t h = run(&c, NULL);
  vtb_services_free(s);
  return h;
}

TEST(training_learns_and_reports) {
  vtb_services *s = vtb_services_default(2);
  vtb_train_config c = config_for(s);
  vtb_train_result r = {0};
  run(&c, &r);
  CHECK(r.finished && r.steps == 48 && r.epochs == 4);
  CHECK_MSG(r.eval_top1 > 0.8 && r.loss < 1 && r.best_top1 >= r.eval_top1, "top1 %g loss %g",
            r.eval_top1, r.loss);
  CHECK_NEAR(r.eval_top5, 1, 0);
  vtb_services_free(s);
}

TEST(threads_do_not_change_the_result) {
  uint64_t want = uninterrupted();
  for (int threads = 2; threads <= 3; threads++) {
    vtb_services *s = vtb_services_default(threads);
    vtb_train_config c = config_for(s);
    c.loader_threads = threads;
    CHECK(run(&c, NULL) == want);
    c.seed++;
    CHECK(run(&c, NULL) != want);
    vtb_services_free(s);
  }
}

/* Stopping after any number of updates, mid-epoch or not, and going on (with other threads) changes
 * no bit. */
TEST(resumed_runs_end_in_the_same_bits) {
  uint64_t want = uninterrupted();
  const int64_t stops[] = {1, 12, 13, 30, 48};
  for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
    vtb_services *s = vtb_services_default(1 + (int)i % 2);
    vtb_train_config c = config_for(s);
    vtb_train_result r = {0};
    c.checkpoint = temp_path("ck.safetensors"), c.resume = true;
    remove(c.checkpoint);
    c.max_steps = stops[i];
    run(&c, &r);
    CHECK(r.steps == stops[i] && r.finished == (stops[i] == 48));
    c.max_steps = 0;
    CHECK_MSG(run(&c, &r) == want, "stopped after %d", (int)stops[i]);
    CHECK(r.finished && r.steps == 48);
    vtb_services_free(s);
  }
}

static void slow_down(void *user, const vtb_train_event *e) {
  (void)user;
  if (e->kind == VTB_TRAIN_STEP) usleep(1000);
}

/* A child is killed at odd moments again and again, with a checkpoint after every third update:
 * each next child goes on. */
TEST(a_killed_run_goes_on_from_its_last_checkpoint) {
  uint64_t want = uninterrupted();
  char path[512];
  snprintf(path, sizeof path, "%s", temp_path("killed.safetensors"));
  int kills = 0, status = -1;
  for (int round = 0; round < 100; round++) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
      vtb_services *s = vtb_services_default(1);
      vtb_train_config c = config_for(s);
      c.checkpoint = path, c.checkpoint_steps = 3, c.resume = true;
      c.on_event = slow_down;
      _exit(run(&c, NULL) == want ? 0 : 9);
    }
    usleep((useconds_t)(20000 + 9700 * round));
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    if (!WIFSIGNALED(status)) break;
    kills++;
  }
  CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
  CHECK_MSG(kills > 0, "no child was killed");
}

TEST(checkpoints_of_other_runs_and_damaged_ones_are_refused) {
  vtb_services *s = vtb_services_default(1);
  vtb_train_config c = config_for(s);
  vtb_trainer *t = NULL;
  char path[512];
  snprintf(path, sizeof path, "%s", temp_path("other.safetensors"));
  c.checkpoint = path, c.max_steps = 3, c.resume = true;
  run(&c, NULL);
  vtb_train_config d = c;
  d.seed = 18;
  CHECK_REFUSED(vtb_trainer_open(&d, &t, err), "its seed is 17, this run's is 18");
  d = c, d.recipe = "model=test lr=0.2 ema=0.9";
  CHECK_REFUSED(vtb_trainer_open(&d, &t, err),
                "lr=0.1 (now lr=0.2), -Ddim=8 (now not set), now ema=0.9; the same are needed");
  d = c, d.train_set = eval_set;
  CHECK_REFUSED(vtb_trainer_open(&d, &t, err), "number of training samples is 100");
  vtb_tensor_info tensors[FAKE_TENSORS];
  vtb_program by_sgd = step_program;
  memcpy(tensors, by_sgd.tensors, sizeof tensors);
  tensors[FAKE_SCALARS].init = "sgd t lr average clip scale mu=0.9 dampening=0 decay=0 nothing=0";
  by_sgd.tensors = tensors;
  d = c, d.step = &by_sgd;
  CHECK_REFUSED(vtb_trainer_open(&d, &t, err), "written by optimiser adamw");
  size_t n;
  char *file = read_file(path, &n);
  for (size_t cut = 0; cut < n; cut += 211) {
    write_file(path, file, cut);
    CHECK_REFUSED(vtb_trainer_open(&c, &t, err), "other.safetensors");
  }
  free(file);
  vtb_weights *w = vtb_weights_new();
  CHECK_OK(vtb_safetensors_save(path, w, err));
  vtb_weights_free(w);
  CHECK_REFUSED(vtb_trainer_open(&c, &t, err), "not a checkpoint");
  vtb_services_free(s);
}

TEST(saved_weights_are_the_average_and_start_a_new_run) {
  vtb_services *s = vtb_services_default(1);
  vtb_train_config c = config_for(s);
  vtb_trainer *t = NULL;
  char path[512];
  snprintf(path, sizeof path, "%s", temp_path("weights.safetensors"));
  CHECK_OK(vtb_trainer_open(&c, &t, err));
  CHECK_OK(vtb_trainer_run(t, NULL, err));
  vtb_eval_result from_trainer = {0}, from_file = {0};
  CHECK_OK(vtb_trainer_evaluate(t, &from_trainer, err));
  CHECK_OK(vtb_trainer_save_weights(t, path, err));
  vtb_trainer_close(t);

  float weight[FAKE_CLASSES * FAKE_PIXELS], bias[FAKE_CLASSES];
  void *params[] = {NULL, weight, bias, NULL};
  vtb_weights *w = NULL;
  CHECK_OK(vtb_safetensors_load(path, &w, err));
  CHECK(w && w->n == 2);
  CHECK_OK(vtb_weights_bind(&eval_program, w, NULL, params, NULL, NULL, err));
  vtb_weights_free(w);
  vtb_eval_options o = {
      .dataset = eval_set, .transform = c.eval_transform, .services = s, .confusion = true};
  CHECK_OK(vtb_evaluate(&eval_program, params, &o, &from_file, err));
  CHECK(from_file.n == 43 && from_file.loss == from_trainer.loss &&
        from_file.top1 == from_trainer.top1);
  int64_t right = 0, all = 0;
  for (int i = 0; i < FAKE_CLASSES * FAKE_CLASSES; i++) {
    all += from_file.confusion[i];
    if (i % (FAKE_CLASSES + 1) == 0) right += from_file.confusion[i];
  }
  CHECK(all == 43);
  CHECK_NEAR((double)right / 43, from_file.top1, 1e-12);
  free(from_file.confusion);

  c.init_weights = path, c.max_steps = 1, c.schedule = (vtb_schedule){.lr = 0};
  CHECK_OK(vtb_trainer_open(&c, &t, err));
  CHECK(memcmp(vtb_trainer_param(t, "weight", NULL), weight, sizeof weight) == 0);
  vtb_trainer_close(t);
  vtb_services_free(s);
}

static int count_lines(const char *path, const char *part) {
  size_t n;
  int lines = 0;
  char *text = read_file(path, &n);
  for (char *at = text; (at = strstr(at, part)) != NULL; at++) lines++;
  free(text);
  return lines;
}

TEST(logs_of_a_resumed_run_have_no_gaps_and_no_doubles) {
  vtb_services *s = vtb_services_default(1);
  vtb_train_config c = config_for(s);
  char log[512], csv[600], json[600], ck[512];
  snprintf(log, sizeof log, "%s", temp_path("run"));
  snprintf(csv, sizeof csv, "%s.csv", log);
  snprintf(json, sizeof json, "%s.jsonl", log);
  snprintf(ck, sizeof ck, "%s", temp_path("log.safetensors"));
  c.log = log, c.checkpoint = ck, c.log_steps = 1;
  c.max_steps = 14;
  run(&c, NULL);
  /* What a crash after the checkpoint would leave: lines of later updates, the last cut short. */
  FILE *f = fopen(json, "a");
  fprintf(f, "{\"event\":\"step\",\"step\":15}\n{\"event\":\"st");
  fclose(f);
  f = fopen(csv, "a");
  fprintf(f, "24,2,0.1,0.2,,,,,,\n");
  fclose(f);
  c.resume = true, c.max_steps = 0;
  run(&c, NULL);
  CHECK(count_lines(json, "\"event\":\"step\"") == 48);
  CHECK(count_lines(json, "\"event\":\"step\",\"step\":15,") == 1);
  CHECK(count_lines(json, "\"event\":\"epoch\"") == 4);
  CHECK(count_lines(csv, "\n") == 5);
  CHECK(count_lines(csv, "step,epoch,loss,accuracy,eval_loss,eval_top1") == 1);
  CHECK(count_lines(csv, "\n24,2,0.") == 1);
  vtb_services_free(s);
}

static int asked_to_stop;

static void stop_at_seven(void *user, const vtb_train_event *e) {
  int *events = user;
  events[e->kind]++;
  if (e->kind == VTB_TRAIN_STEP && e->step == 7) asked_to_stop = 1;
}

static void oversleep(void *user, const vtb_train_event *e) {
  (void)user;
  if (e->kind == VTB_TRAIN_STEP) usleep(600000);
}

TEST(a_run_stops_on_request_and_tells_what_happens) {
  vtb_services *s = vtb_services_default(1);
  vtb_train_config c = config_for(s);
  vtb_train_result r = {0};
  int events[8] = {0};
  c.on_event = stop_at_seven, c.user = events, c.stop = &asked_to_stop;
  c.checkpoint = temp_path("stop.safetensors");
  run(&c, &r);
  CHECK(r.steps == 7 && !r.finished);
  CHECK(events[VTB_TRAIN_START] == 1 && events[VTB_TRAIN_STEP] == 7 && events[VTB_TRAIN_END] == 1);
  CHECK(events[VTB_TRAIN_CHECKPOINT] == 1);
  asked_to_stop = 0;
  c.stop = NULL, c.on_event = oversleep, c.max_seconds = 0.5;
  run(&c, &r);
  CHECK(r.steps >= 1 && r.steps < 48 && !r.finished && r.eval_top5 == 1);
  vtb_services_free(s);
}

TEST(exploding_runs_end_with_an_error) {
  vtb_services *s = vtb_services_default(1);
  vtb_train_config c = config_for(s);
  c.schedule = (vtb_schedule){.lr = 1e30};
  vtb_trainer *t = NULL;
  CHECK_OK(vtb_trainer_open(&c, &t, err));
  CHECK_REFUSED(vtb_trainer_run(t, NULL, err), "not finite at update");
  vtb_trainer_close(t);
  vtb_services_free(s);
}

TEST(programs_that_do_not_fit_are_refused) {
  vtb_services *s = vtb_services_default(1);
  vtb_train_config c = config_for(s);
  vtb_trainer *t = NULL;
  c.step = &eval_program;
  CHECK_REFUSED(vtb_trainer_open(&c, &t, err), "no integer input \"labels\"");
  c = config_for(s), c.image = "picture";
  CHECK_REFUSED(vtb_trainer_open(&c, &t, err), "no image input picture");
  c = config_for(s), c.train_transform.prepare.height = 5;
  CHECK_REFUSED(vtb_trainer_open(&c, &t, err), "prepared as 1 x 5 x 6, the model takes 1 x 6 x 6");
  c = config_for(s), c.optim.ema_decay = 0;
  CHECK_REFUSED(vtb_trainer_open(&c, &t, err), "was made with averages");
  c = config_for(s), c.optim.name = "sgd";
  CHECK_REFUSED(vtb_trainer_open(&c, &t, err), "by adamw, these settings want sgd");
  vtb_setting momentum = {"momentum", 0.5};
  c = config_for(s), c.optim.settings = &momentum, c.optim.n_settings = 1;
  CHECK_REFUSED(vtb_trainer_open(&c, &t, err),
                "no hyperparameter momentum: there are beta1, beta2, eps, decay");
  c = config_for(s), c.epochs = 0;
  CHECK_REFUSED(vtb_trainer_open(&c, &t, err), "epochs must be positive");
  c = config_for(s), c.init_weights = "/nonexistent";
  CHECK_REFUSED(vtb_trainer_open(&c, &t, err), "cannot open /nonexistent");
  c = config_for(s), c.log = "/nonexistent/run"; /* logs begin after the first update */
  CHECK_OK(vtb_trainer_open(&c, &t, err));
  CHECK_REFUSED(vtb_trainer_run(t, NULL, err), "cannot write /nonexistent/run.csv");
  vtb_trainer_close(t);
  c = config_for(s), c.checkpoint = "/nonexistent/c.safetensors", c.max_steps = 1;
  CHECK_OK(vtb_trainer_open(&c, &t, err));
  CHECK_REFUSED(vtb_trainer_run(t, NULL, err), "cannot write /nonexistent/c.safetensors");
  vtb_trainer_close(t);
  vtb_services_free(s);
}

int main(void) {
  open_data();
  RUN(a_killed_run_goes_on_from_its_last_checkpoint); /* first: forks before there are threads */
  RUN(training_learns_and_reports);
  RUN(threads_do_not_change_the_result);
  RUN(resumed_runs_end_in_the_same_bits);
  RUN(checkpoints_of_other_runs_and_damaged_ones_are_refused);
  RUN(saved_weights_are_the_average_and_start_a_new_run);
  RUN(logs_of_a_resumed_run_have_no_gaps_and_no_doubles);
  RUN(a_run_stops_on_request_and_tells_what_happens);
  RUN(exploding_runs_end_with_an_error);
  RUN(programs_that_do_not_fit_are_refused);
  vtb_dataset_free(train_set);
  vtb_dataset_free(eval_set);
  return test_done();
}
