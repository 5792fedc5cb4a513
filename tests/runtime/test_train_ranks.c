/* Trainers of several ranks, each in a thread of its own, against one that is alone: the same run
 * but for the order of sums. */
#include "runtime/artefact/safetensors.h"
#include "runtime/launch/threads.h"
#include "runtime/train/train.h"
#include "tests/runtime/fake_program.h"
#include "tests/runtime/schedule.h"

#include <pthread.h>

enum { MOST_RANKS = 8, MOST_STEPS = 64, N_WEIGHTS = FAKE_CLASSES * FAKE_PIXELS };

static vtb_dataset *train_set, *eval_set, *other_set;
static vtb_program alone_program, shared_program, eval_program;

static void open_data(void) {
  fake_dataset("data", "train", 100, 1);
  fake_dataset("data", "t10k", 43, 2);
  fake_dataset("other", "train", 100, 3);
  CHECK_OK(vtb_dataset_open(temp_path("data"), NULL, &train_set, err));
  CHECK_OK(vtb_dataset_open(temp_path("other"), NULL, &other_set, err));
  CHECK_OK(
      vtb_dataset_open(temp_path("data"), &(vtb_dataset_options){.split = "test"}, &eval_set, err));
  if (!train_set || !eval_set || !other_set) exit(1);
  alone_program = fake_step_program();
  eval_program = fake_eval_program();
}

/* 100 samples in batches of 8: 12 updates an epoch, 4 epochs. */
static vtb_train_config common(void) {
  vtb_train_config c = vtb_train_defaults();
  c.train_set = train_set, c.eval_set = eval_set;
  CHECK_OK(vtb_transform_init(&c.train_transform, train_set, 1, FAKE_SIDE, FAKE_SIDE, err));
  c.eval_transform = c.train_transform;
  c.train_transform.augment.shift = 1;
  c.optim.clip_norm = 1, c.optim.ema_decay = 0.95;
  c.schedule = warm_schedule(0.02, 6, 42);
  c.epochs = 4, c.seed = 17, c.recipe = "model=test lr=0.1 -Ddim=8";
  c.loader_threads = 1;
  return c;
}

/* ---- a rank ---------------------------------------------------------------------------------- */

typedef struct rank_run {
  int rank;
  vtb_ranks *ranks;
  vtb_train_config config;
  vtb_train_result result;
  vtb_status status;
  vtb_error error;
  double loss[MOST_STEPS], accuracy[MOST_STEPS];
  int events;
  int64_t first, last; /* updates that were told of */
  volatile int stop;
  int n_runs;
  vtb_program step, eval; /* of its own: those who run a program leave notes in it */
  float weights[N_WEIGHTS];
} rank_run;

static void note(void *user, const vtb_train_event *e) {
  rank_run *r = user;
  r->events++;
  if (e->kind != VTB_TRAIN_STEP || e->step > MOST_STEPS) return;
  r->loss[e->step - 1] = e->loss;
  r->accuracy[e->step - 1] = e->accuracy;
  if (!r->first) r->first = e->step;
  r->last = e->step;
}

static void *train(void *user) {
  rank_run *r = user;
  vtb_trainer *t = NULL;
  vtb_services *s = vtb_services_default(1);
  vtb_services_ranks(s, r->ranks);
  r->config.services = s;
  r->config.ranks = r->ranks;
  r->config.step = &r->step, r->config.eval = &r->eval;
  r->config.on_event = note;
  r->config.user = r;
  r->config.stop = &r->stop;
  r->status = vtb_trainer_open(&r->config, &t, &r->error);
  if (r->status == VTB_OK) r->status = vtb_trainer_run(t, &r->result, &r->error);
  if (r->status == VTB_OK)
    memcpy(r->weights, vtb_trainer_param(t, "weight", NULL), sizeof r->weights);
  vtb_trainer_close(t);
  vtb_ranks_close(r->ranks);
  vtb_services_free(s);
  return NULL;
}

/* All of them to their ends; those of 1 are alone. */
static void train_all(rank_run *runs, int n) {
  vtb_ranks *ranks[MOST_RANKS] = {NULL};
  pthread_t threads[MOST_RANKS];
  if (n > 1) CHECK_OK(vtb_ranks_open_threads(n, NULL, ranks, err));
  for (int r = 0; r < n; r++) {
    runs[r].rank = r;
    runs[r].ranks = ranks[r];
    pthread_create(&threads[r], NULL, train, &runs[r]);
  }
  for (int r = 0; r < n; r++) pthread_join(threads[r], NULL);
}

static rank_run *make_runs(int n, const vtb_train_config *c) {
  rank_run *runs = calloc((size_t)n, sizeof *runs);
  if (n > 1) shared_program = fake_shared(FAKE_BATCH / n);
  for (int r = 0; r < n; r++) {
    runs[r].config = *c;
    runs[r].step = n > 1 ? shared_program : alone_program;
    runs[r].eval = eval_program;
  }
  return runs;
}

static rank_run *run_on(int n, const vtb_train_config *c) {
  rank_run *runs = make_runs(n, c);
  train_all(runs, n);
  for (int r = 0; r < n; r++) {
    CHECK_MSG(runs[r].status == VTB_OK, "rank %d of %d: %s", r, n, runs[r].error.text);
    CHECK(memcmp(runs[r].weights, runs[0].weights, sizeof runs[0].weights) == 0);
    CHECK(runs[r].result.steps == runs[0].result.steps);
    CHECK(runs[r].result.eval_loss == runs[0].result.eval_loss);
    CHECK(r == 0 ? runs[r].events > 0 : runs[r].events == 0);
  }
  return runs;
}

/* Updates `from` to the end as those of `want`. */
static void check_same(const rank_run *got, const rank_run *want, int64_t from, int n) {
  CHECK(got->first == from && got->last == want->last && got->result.steps == want->result.steps);
  for (int64_t i = from - 1; i < want->last; i++) {
    CHECK_MSG(fabs(got->loss[i] - want->loss[i]) <= 1e-5, "%d ranks, update %d: loss %g, alone %g",
              n, (int)i + 1, got->loss[i], want->loss[i]);
    CHECK(got->accuracy[i] == want->accuracy[i]);
  }
  for (int i = 0; i < N_WEIGHTS; i++)
    CHECK_NEAR((double)got->weights[i], (double)want->weights[i], 1e-5);
  CHECK_NEAR(got->result.eval_loss, want->result.eval_loss, 1e-5);
  CHECK(got->result.eval_top1 == want->result.eval_top1);
}

/* ---- the same run ---------------------------------------------------------------------------- */

TEST(ranks_train_as_one_does) {
  vtb_train_config c = common();
  rank_run *alone = run_on(1, &c);
  CHECK(alone->last == 48 && alone->result.eval_top1 > 0.8);
  for (int n = 2; n <= 8; n *= 2) {
    rank_run *first = run_on(n, &c), *second = run_on(n, &c);
    check_same(first, alone, 1, n);
    CHECK(memcmp(first->weights, second->weights, sizeof first->weights) == 0);
    CHECK(memcmp(first->loss, second->loss, sizeof first->loss) == 0);
    CHECK(first->result.ranks == n);
    free(first);
    free(second);
  }
  free(alone);
}

TEST(runs_go_on_with_other_ranks) {
  static const int chain[] = {4, 2, 1, 8};
  vtb_train_config c = common();
  rank_run *alone = run_on(1, &c);
  int64_t from = 1;
  c.checkpoint = temp_path("chain.safetensors"), c.resume = true;
  for (int i = 0; i < 4; i++) {
    c.max_steps = i < 3 ? 13 * (i + 1) : 0;
    rank_run *part = run_on(chain[i], &c);
    if (i == 3) {
      check_same(part, alone, from, chain[i]);
    } else {
      CHECK(part->first == from && part->last == c.max_steps && !part->result.finished);
      for (int64_t k = from - 1; k < c.max_steps; k++)
        CHECK_NEAR(part->loss[k], alone->loss[k], 1e-5);
    }
    from = c.max_steps + 1;
    free(part);
  }
  free(alone);
}

/* ---- together -------------------------------------------------------------------------------- */

static vtb_status stop_later(void *owner, void *const *args, const vtb_services *s,
                             vtb_error *err) {
  float workspace[FAKE_BATCH * FAKE_CLASSES];
  rank_run *r = owner;
  (void)err;
  shared_program.entry(args, workspace, s);
  if (++r->n_runs == 7) r->stop = 15;
  return VTB_OK;
}

/* One rank is asked to stop: all do, after the same update, which is in the checkpoint. */
TEST(all_stop_when_one_is_asked_to) {
  vtb_train_config c = common();
  char path[512];
  snprintf(path, sizeof path, "%s", temp_path("stop.safetensors"));
  c.checkpoint = path;
  rank_run *runs = make_runs(4, &c);
  runs[3].step.run = stop_later, runs[3].step.owner = &runs[3];
  train_all(runs, 4);
  for (int r = 0; r < 4; r++) {
    CHECK_MSG(runs[r].status == VTB_OK, "%s", runs[r].error.text);
    CHECK(runs[r].result.stopped && !runs[r].result.finished);
    CHECK(runs[r].result.steps == runs[0].result.steps);
  }
  CHECK(runs[0].result.steps >= 7 && runs[0].result.steps <= 9);
  vtb_weights *w = NULL;
  char steps[32];
  CHECK_OK(vtb_safetensors_load(path, &w, err));
  snprintf(steps, sizeof steps, "%lld", (long long)runs[0].result.steps);
  CHECK_STR(vtb_weights_meta(w, "step"), steps);
  vtb_weights_free(w);
  free(runs);
}

/* Rank 0's clock decides; the others' may say what they like. */
TEST(a_time_that_is_over_is_over_for_all) {
  vtb_train_config c = common();
  c.epochs = 100000, c.max_seconds = 0.2;
  rank_run *runs = run_on(4, &c);
  CHECK(!runs[0].result.finished && runs[0].result.steps >= 1);
  free(runs);
  c = common();
  c.fit_seconds = 0.3, c.schedule = warm_schedule(0.02, 0, 42);
  runs = run_on(4, &c);
  CHECK(runs[0].result.finished && runs[0].result.steps >= 1);
  free(runs);
}

TEST(only_rank_0_writes_and_tells_of_all) {
  vtb_train_config c = common();
  char log[512], json[600];
  snprintf(log, sizeof log, "%s", temp_path("run"));
  snprintf(json, sizeof json, "%s.jsonl", log);
  c.log = log, c.log_steps = 4;
  rank_run *runs = run_on(4, &c);
  size_t n;
  char *text = read_file(json, &n);
  int lines = 0;
  for (char *at = text; (at = strstr(at, "\"event\":\"step\"")) != NULL; at++) lines++;
  CHECK(lines == 12);
  CHECK(strstr(text, "\"ranks\":4,\"rank_images_per_second\":") != NULL);
  CHECK(strstr(text, "\"slowest_rank\":") != NULL);
  CHECK(strstr(text, "\"event\":\"begin\",\"step\":0,\"batch\":8,\"ranks\":4,\"accumulate\":1,"
                     "\"rank_batch\":2") != NULL);
  free(text);
  free(runs);
}

/* ---- sharded state -------------------------------------------------------------------------- */

static rank_run *run_sharded(const vtb_train_config *c) {
  static vtb_tensor_info tensors[2][FAKE_TENSORS + 1];
  rank_run *runs = make_runs(2, c);
  for (int r = 0; r < 2; r++) {
    runs[r].step = fake_sharded(FAKE_BATCH / 2, r, tensors[r]);
    runs[r].config.shard = true;
  }
  train_all(runs, 2);
  for (int r = 0; r < 2; r++)
    CHECK_MSG(runs[r].status == VTB_OK, "rank %d: %s", r, runs[r].error.text);
  CHECK(memcmp(runs[0].weights, runs[1].weights, sizeof runs[0].weights) == 0);
  return runs;
}

/* What two checkpoints have but for times. */
static void check_equal_files(const char *a, const char *b) {
  vtb_weights *x = NULL, *y = NULL;
  CHECK_OK(vtb_safetensors_load(a, &x, err));
  CHECK_OK(vtb_safetensors_load(b, &y, err));
  CHECK(x->n == y->n && x->n == 8);
  for (size_t i = 0; i < x->n; i++) {
    const vtb_weight *other = vtb_weights_find(y, x->at[i]->name);
    CHECK_MSG(other != NULL, "%s is missing", x->at[i]->name);
    if (!other) continue;
    CHECK(other->count == x->at[i]->count);
    CHECK_MSG(memcmp(x->at[i]->data, other->data, (size_t)other->count * 4) == 0, "%s differs",
              other->name);
  }
  CHECK_STR(vtb_weights_meta(x, "loss_sum"), vtb_weights_meta(y, "loss_sum"));
  CHECK_STR(vtb_weights_meta(x, "best_top1"), vtb_weights_meta(y, "best_top1"));
  vtb_weights_free(x);
  vtb_weights_free(y);
}

TEST(sharded_state_changes_no_bit) {
  vtb_train_config c = common();
  char whole[512], shards[512], best[2][512];
  snprintf(whole, sizeof whole, "%s", temp_path("whole.safetensors"));
  snprintf(shards, sizeof shards, "%s", temp_path("shards.safetensors"));
  for (int i = 0; i < 2; i++)
    snprintf(best[i], sizeof best[i], "%s", temp_path(i ? "best1" : "best0"));
  c.resume = true, c.max_steps = 20;
  c.checkpoint = whole, c.best = best[0];
  rank_run *want = run_on(2, &c);
  c.checkpoint = shards, c.best = best[1];
  rank_run *got = run_sharded(&c);
  CHECK(memcmp(got->weights, want->weights, sizeof got->weights) == 0);
  CHECK(memcmp(got->loss, want->loss, sizeof got->loss) == 0);
  check_equal_files(whole, shards);
  size_t n[2];
  char *file[2] = {read_file(best[0], &n[0]), read_file(best[1], &n[1])};
  CHECK(n[0] == n[1] && memcmp(file[0], file[1], n[0]) == 0);
  free(file[0]);
  free(file[1]);
  free(got);
  free(want);
  /* and on, each from the other's */
  c.max_steps = 0, c.checkpoint = whole, c.best = NULL;
  got = run_sharded(&c);
  c.checkpoint = shards;
  want = run_on(2, &c);
  CHECK(memcmp(got->weights, want->weights, sizeof got->weights) == 0);
  check_equal_files(whole, shards);
  free(got);
  free(want);
}

/* ---- what goes wrong ------------------------------------------------------------------------- */

static void expect_all(rank_run *runs, int n, const char *text) {
  train_all(runs, n);
  for (int r = 0; r < n; r++) {
    CHECK(runs[r].status != VTB_OK);
    CHECK_MSG(strstr(runs[r].error.text, text) != NULL, "rank %d: %s", r, runs[r].error.text);
  }
  free(runs);
}

TEST(ranks_that_are_not_the_same_run_are_told) {
  vtb_train_config c = common();
  rank_run *runs = make_runs(3, &c);
  runs[2].config.recipe = "model=test lr=0.2 -Ddim=8";
  expect_all(runs, 3, "rank 2 has other settings than rank 0: lr=0.1 (there lr=0.2)");
  static char long_text[2][9000]; /* which differ far behind what is told of them */
  for (int k = 0; k < 2; k++) {
    memset(long_text[k], 'a', sizeof long_text[k] - 1);
    long_text[k][8000] = (char)('a' + k);
  }
  runs = make_runs(2, &c);
  runs[0].config.recipe = runs[1].config.recipe = long_text[0];
  runs[1].config.more_recipe = "x=1";
  expect_all(runs, 2, "rank 1 has other settings than rank 0");
  runs = make_runs(2, &c);
  runs[0].config.recipe = long_text[0], runs[1].config.recipe = long_text[1];
  expect_all(runs, 2, "rank 1 has other settings than rank 0");
  runs = make_runs(2, &c);
  runs[1].config.seed = 18;
  expect_all(runs, 2, "rank 1 has other settings than rank 0: seed=17 (there seed=18)");
  runs = make_runs(2, &c);
  runs[1].config.train_set = other_set;
  expect_all(runs, 2, "rank 1 has other training data than rank 0: labels=");
  runs = make_runs(2, &c);
  vtb_tensor_info tensors[FAKE_TENSORS + 1];
  memcpy(tensors, runs[1].step.tensors, sizeof tensors);
  tensors[3].init = "trunc_normal(0.03)";
  runs[1].step.tensors = tensors;
  expect_all(runs, 2, "rank 1 has other weights than rank 0: values=");
}

static vtb_status fail_later(void *owner, void *const *args, const vtb_services *s,
                             vtb_error *err) {
  float workspace[FAKE_BATCH * FAKE_CLASSES];
  rank_run *r = owner;
  if (++r->n_runs > 17) return vtb_fail(err, VTB_E_MEMORY, "no room for the run");
  shared_program.entry(args, workspace, s);
  return VTB_OK;
}

/* The others end with its sentence; the last checkpoint is whole, and from there it goes on. */
TEST(an_error_of_one_rank_ends_all) {
  vtb_train_config c = common();
  rank_run *alone = run_on(1, &c);
  char path[512];
  snprintf(path, sizeof path, "%s", temp_path("failed.safetensors"));
  c.checkpoint = path, c.checkpoint_steps = 5, c.resume = true;
  rank_run *runs = make_runs(4, &c);
  runs[2].step.run = fail_later, runs[2].step.owner = &runs[2];
  train_all(runs, 4);
  for (int r = 0; r < 4; r++)
    CHECK_MSG(runs[r].status != VTB_OK && strstr(runs[r].error.text, "no room for the run"),
              "rank %d: %s", r, runs[r].error.text);
  CHECK_MSG(strstr(runs[0].error.text, "rank 2"), "%s", runs[0].error.text);
  CHECK_MSG(strstr(runs[0].error.text, "; the run as it was after update 15 is in "), "%s",
            runs[0].error.text);
  free(runs);
  runs = run_on(2, &c);
  check_same(runs, alone, 16, 2);
  free(runs);
  free(alone);
}

TEST(batches_that_do_not_divide_are_refused) {
  int64_t rows = 0;
  CHECK_OK(vtb_train_divide(64, 4, 2, &rows, err));
  CHECK(rows == 8);
  CHECK_OK(vtb_train_divide(1, 1, 1, &rows, err));
  CHECK(rows == 1);
  CHECK_REFUSED(vtb_train_divide(64, 3, 1, &rows, err),
                "a batch of 64 cannot be divided among 3 ranks: 63 or 66 can, or 2 or 4 ranks");
  CHECK_REFUSED(vtb_train_divide(64, 3, 2, &rows, err),
                "a batch of 64 cannot be divided among 3 ranks of 2 runs an update: 60 or 66 can, "
                "or 2 or 4 ranks");
  CHECK_REFUSED(vtb_train_divide(6, 4, 1, &rows, err),
                "a batch of 6 cannot be divided among 4 ranks: 4 or 8 can, or 3 or 6 ranks");
  CHECK_REFUSED(vtb_train_divide(3, 5, 1, &rows, err),
                "a batch of 3 cannot be divided among 5 ranks: 5 can, or 3 ranks");
  CHECK_REFUSED(vtb_train_divide(7, 2, 2, &rows, err),
                "a batch of 7 cannot be divided among 2 ranks of 2 runs an update: 4 or 8 can");
  CHECK_REFUSED(vtb_train_divide(2, 1, 4, &rows, err),
                "a batch of 2 cannot be divided among 4 runs an update: 4 can");
}

/* ---- evaluation ------------------------------------------------------------------------------ */

typedef struct judge {
  vtb_ranks *ranks;
  void **params;
  vtb_eval_result result;
  vtb_status status;
} judge;

static void *evaluate(void *user) {
  judge *j = user;
  vtb_services *s = vtb_services_default(1);
  vtb_eval_options o = {.dataset = eval_set,
                        .services = s,
                        .loader_threads = 1,
                        .ranks = j->ranks,
                        .confusion = true};
  CHECK_OK(vtb_transform_init(&o.transform, train_set, 1, FAKE_SIDE, FAKE_SIDE, err));
  vtb_program p = eval_program;
  j->status = vtb_evaluate(&p, j->params, &o, &j->result, NULL);
  vtb_ranks_close(j->ranks);
  vtb_services_free(s);
  return NULL;
}

/* 43 images in 6 batches, of which 8 ranks have one or none. */
TEST(evaluation_is_shared_out) {
  float weight[N_WEIGHTS], bias[FAKE_CLASSES] = {0};
  void *params[] = {NULL, weight, bias, NULL};
  unsigned long long seed = 5;
  for (int i = 0; i < N_WEIGHTS; i++) weight[i] = (float)test_random(&seed) - 0.5f;
  judge alone = {.params = params};
  evaluate(&alone);
  CHECK(alone.status == VTB_OK && alone.result.n == 43);
  for (int n = 2; n <= MOST_RANKS; n += 3) {
    vtb_ranks *ranks[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    judge all[MOST_RANKS];
    CHECK_OK(vtb_ranks_open_threads(n, NULL, ranks, err));
    for (int r = 0; r < n; r++) {
      all[r] = (judge){.ranks = ranks[r], .params = params};
      pthread_create(&threads[r], NULL, evaluate, &all[r]);
    }
    for (int r = 0; r < n; r++) pthread_join(threads[r], NULL);
    for (int r = 0; r < n; r++) {
      const vtb_eval_result *got = &all[r].result, *want = &alone.result;
      CHECK(all[r].status == VTB_OK && got->n == 43);
      CHECK(got->top1 == want->top1 && got->top5 == want->top5);
      CHECK_NEAR(got->loss, want->loss, 1e-12);
      CHECK(memcmp(got->confusion, want->confusion,
                   FAKE_CLASSES * FAKE_CLASSES * sizeof *got->confusion) == 0);
      free(got->confusion);
    }
  }
  free(alone.result.confusion);
}

int main(void) {
  open_data();
  RUN(ranks_train_as_one_does);
  RUN(runs_go_on_with_other_ranks);
  RUN(all_stop_when_one_is_asked_to);
  RUN(a_time_that_is_over_is_over_for_all);
  RUN(only_rank_0_writes_and_tells_of_all);
  RUN(sharded_state_changes_no_bit);
  RUN(ranks_that_are_not_the_same_run_are_told);
  RUN(an_error_of_one_rank_ends_all);
  RUN(batches_that_do_not_divide_are_refused);
  RUN(evaluation_is_shared_out);
  vtb_dataset_free(train_set);
  vtb_dataset_free(eval_set);
  vtb_dataset_free(other_set);
  return test_done();
}
