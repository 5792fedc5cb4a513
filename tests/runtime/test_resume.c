/* A run that was stopped and resumed reports the numbers of one that was not: of every epoch, and
 * at the end. */
#include "runtime/launch/threads.h"
#include "runtime/train/train.h"
#include "tests/runtime/fake_program.h"
#include "tests/runtime/schedule.h"

enum { EPOCHS = 4, BATCHES = 12, UPDATES = EPOCHS * BATCHES };

static vtb_dataset *train_set, *eval_set;
static vtb_program step_program, eval_program;

typedef struct report {
  double loss, accuracy, eval_loss, eval_top1, eval_top5, best, lr;
} report;

/* What is told of updates and epochs, by its number. */
typedef struct story {
  report update[UPDATES + 1], epoch[EPOCHS + 1];
} story;

static void note(void *user, const vtb_train_event *e) {
  story *s = user;
  if (e->kind == VTB_TRAIN_STEP && e->step <= UPDATES)
    s->update[e->step] = (report){.loss = e->loss, .accuracy = e->accuracy, .lr = e->lr};
  if (e->kind == VTB_TRAIN_EPOCH && e->epoch <= EPOCHS)
    s->epoch[e->epoch] = (report){e->loss,      e->accuracy,  e->eval_loss, e->eval_top1,
                                  e->eval_top5, e->best_top1, e->lr};
}

static vtb_train_config config_for(const vtb_services *s, story *told) {
  vtb_train_config c = vtb_train_defaults();
  c.step = &step_program, c.eval = &eval_program, c.services = s;
  c.train_set = train_set, c.eval_set = eval_set;
  CHECK_OK(vtb_transform_init(&c.train_transform, train_set, 1, FAKE_SIDE, FAKE_SIDE, err));
  c.eval_transform = c.train_transform;
  c.train_transform.augment.shift = 1;
  c.optim.clip_norm = 1, c.optim.ema_decay = 0.8;
  c.schedule = warm_schedule(0.02, 6, UPDATES);
  c.epochs = EPOCHS, c.seed = 17, c.resume = true;
  c.on_event = note, c.user = told;
  return c;
}

static vtb_train_result run(const vtb_train_config *c) {
  vtb_trainer *t = NULL;
  vtb_train_result r = {0};
  CHECK_OK(vtb_trainer_open(c, &t, err));
  if (!t) exit(1);
  CHECK_OK(vtb_trainer_run(t, &r, err));
  vtb_trainer_close(t);
  return r;
}

static void compare(const char *what, int number, const report *got, const report *want) {
  CHECK_MSG(memcmp(got, want, sizeof *got) == 0,
            "%s %d: loss %.17g, want %.17g, accuracy %g, want %g, test loss %g, want %g, top-1 %g, "
            "want %g, best %g, want %g",
            what, number, got->loss, want->loss, got->accuracy, want->accuracy, got->eval_loss,
            want->eval_loss, got->eval_top1, want->eval_top1, got->best, want->best);
}

static void compare_results(int stop, const vtb_train_result *got, const vtb_train_result *want) {
  CHECK(got->steps == want->steps && got->epochs == want->epochs && got->finished);
  const double pairs[][2] = {{got->loss, want->loss},           {got->accuracy, want->accuracy},
                             {got->eval_loss, want->eval_loss}, {got->eval_top1, want->eval_top1},
                             {got->eval_top5, want->eval_top5}, {got->best_top1, want->best_top1}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    CHECK_MSG(pairs[i][0] == pairs[i][1], "stopped after %d: number %zu is %.17g, want %.17g", stop,
              i, pairs[i][0], pairs[i][1]);
}

TEST(a_resumed_run_reports_the_same_numbers) {
  static story whole, parts;
  vtb_services *s = vtb_services_default(1);
  vtb_train_config c = config_for(s, &whole);
  vtb_train_result want = run(&c);
  for (int i = 1; i <= UPDATES; i++) CHECK(whole.update[i].loss > 0);
  for (int i = 1; i <= EPOCHS; i++) CHECK(whole.epoch[i].loss > 0 && whole.epoch[i].eval_loss > 0);
  const int stops[] = {1, 11, 12, 20, 24, 47};
  for (size_t k = 0; k < sizeof stops / sizeof *stops; k++) {
    memset(&parts, 0, sizeof parts);
    c = config_for(s, &parts);
    c.checkpoint = temp_path("stopped.safetensors");
    remove(c.checkpoint);
    c.max_steps = stops[k];
    run(&c);
    c.max_steps = 0;
    vtb_train_result got = run(&c);
    for (int i = 1; i <= UPDATES; i++) compare("update", i, &parts.update[i], &whole.update[i]);
    for (int i = 1; i <= EPOCHS; i++) compare("epoch", i, &parts.epoch[i], &whole.epoch[i]);
    compare_results(stops[k], &got, &want);
  }
  vtb_services_free(s);
}

static bool spoilt;

static void evaluate_spoilt(void *const *a, void *workspace, const vtb_services *s) {
  fake_eval(a, workspace, s);
  for (int i = 0; spoilt && i < FAKE_BATCH * FAKE_CLASSES; i++) ((float *)a[3])[i] *= -1;
}

/* After the resume no epoch is as good as the first two. */
TEST(the_best_of_earlier_epochs_is_kept) {
  static story told;
  vtb_services *s = vtb_services_default(1);
  vtb_train_config c = config_for(s, &told);
  c.checkpoint = temp_path("best.safetensors"), c.max_steps = 24;
  eval_program.entry = evaluate_spoilt;
  run(&c);
  double best = fmax(told.epoch[1].eval_top1, told.epoch[2].eval_top1);
  CHECK(best > 0.5 && told.epoch[2].best == best);
  spoilt = true, c.max_steps = 0;
  vtb_train_result r = run(&c);
  CHECK(r.steps == UPDATES && r.eval_top1 < 0.4 && r.best_top1 == best);
  for (int e = 3; e <= EPOCHS; e++)
    CHECK(told.epoch[e].eval_top1 < 0.4 && told.epoch[e].best == best);
  eval_program = fake_eval_program();
  vtb_services_free(s);
}

int main(void) {
  fake_dataset("data", "train", 100, 1);
  fake_dataset("data", "t10k", 43, 2);
  CHECK_OK(vtb_dataset_open(temp_path("data"), NULL, &train_set, err));
  vtb_dataset_options split = {.split = "test"};
  CHECK_OK(vtb_dataset_open(temp_path("data"), &split, &eval_set, err));
  if (!train_set || !eval_set) return 1;
  step_program = fake_step_program();
  eval_program = fake_eval_program();
  RUN(a_resumed_run_reports_the_same_numbers);
  RUN(the_best_of_earlier_epochs_is_kept);
  vtb_dataset_free(train_set);
  vtb_dataset_free(eval_set);
  return test_done();
}
