/* Training with the update in the launch plan, by AdamW or SGD, from .vtb text to checkpoints: the
 * emulated device follows the CPU, a run goes on on either from the other's checkpoint, a step that
 * does not count changes nothing, and the driver's runtime (with a driver that has no GPU, whose
 * launches the emulator does) gives the emulator's bits; in fp16, gradients that would be lost are
 * not where the loss is scaled.
 */
#include "runtime/base/random.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/train/train.h"
#include "tests/whole/device_model.h"
#include "tests/whole/driver_calls.h"
#include "tests/runtime/schedule.h"

#include <dlfcn.h>

enum { TRAIN_IMAGES = 5 * FAKE_BATCH, TEST_IMAGES = 43, STEPS = 10 };

/* Adjoints of what the convolution gives are near 1e-8, below half of what fp16 can say; those of
 * the head's parameters are not made by tensor cores. */
static const char faint[] =
    MODEL("  x = relu(conv2d(\"conv\", image, 16, 3, pad = 1))\n"
          "  output logits = 1e-4 * linear(\"head\", mean(x, axis = \"tokens\"), 4)\n");

static vtb_dataset *train_set, *eval_set;
static vtb_program *host, *device, *host_by_sgd, *by_sgd, *eval_program;
static vtb_program *exact, *half; /* of the faint model */

/* ---- training -------------------------------------------------------------------------------- */

static vtb_train_config config(const vtb_program *step) {
  vtb_train_config c = vtb_train_defaults();
  c.step = (vtb_program *)(uintptr_t)step, c.eval = eval_program, c.services = services;
  c.train_set = train_set, c.eval_set = eval_set;
  CHECK_OK(vtb_transform_init(&c.train_transform, train_set, 1, FAKE_SIDE, FAKE_SIDE, err));
  c.eval_transform = c.train_transform;
  c.optim.ema_decay = 0.8, c.optim.clip_norm = 0.05; /* below what the gradients have */
  c.schedule = warm_schedule(0.01, 2, STEPS);
  c.epochs = STEPS / 5, c.seed = 5;
  return c;
}

typedef struct history {
  double loss[STEPS + 1], accuracy[STEPS + 1], norm[STEPS + 1], scale[STEPS + 1], eval_loss;
  int64_t skipped;
  float *values[64]; /* a copy of each tensor that training moves */
  int64_t count[64];
  int n_values;
} history;

static void on_event(void *user, const vtb_train_event *e) {
  history *h = user;
  if (e->kind != VTB_TRAIN_STEP) return;
  h->loss[e->step] = e->loss;
  h->accuracy[e->step] = e->accuracy;
  h->norm[e->step] = e->grad_norm;
  h->scale[e->step] = e->loss_scale;
  h->skipped = e->skipped;
}

static void keep_values(history *h, const char *path) {
  vtb_weights *w = NULL;
  CHECK_OK(vtb_safetensors_load(path, &w, err));
  for (size_t i = 0; w && i < w->n; i++) {
    h->count[h->n_values] = w->at[i]->count;
    h->values[h->n_values] = vtb_xcalloc((size_t)w->at[i]->count, 4);
    vtb_weight_read_f32(w->at[i], h->values[h->n_values++]);
  }
  vtb_weights_free(w);
}

/* Trains and keeps the checkpoint's tensors: parameters, buffers, moments, averages. */
static void train(vtb_train_config c, history *h) {
  vtb_trainer *t = NULL;
  vtb_train_result r = {0};
  char path[512];
  snprintf(path, sizeof path, "%s", temp_path("last"));
  c.on_event = on_event, c.user = h;
  CHECK_OK(vtb_trainer_open(&c, &t, err));
  if (!t) exit(1);
  CHECK_OK(vtb_trainer_run(t, &r, err));
  CHECK_OK(vtb_trainer_checkpoint(t, path, err));
  h->eval_loss = r.eval_loss;
  vtb_trainer_close(t);
  keep_values(h, path);
}

static void forget(history *h) {
  for (int i = 0; i < h->n_values; i++) free(h->values[i]);
  *h = (history){0};
}

/* The largest difference between tensors of two runs, over the tensor's largest number. */
static double distance(const history *a, const history *b) {
  double worst = a->n_values == b->n_values ? 0 : HUGE_VAL;
  for (int i = 0; i < a->n_values && i < b->n_values; i++) {
    double scale = 0, difference = 0;
    for (int64_t k = 0; k < a->count[i]; k++) {
      scale = fmax(scale, fabs((double)b->values[i][k]));
      difference = fmax(difference, fabs((double)a->values[i][k] - (double)b->values[i][k]));
    }
    if (!(difference <= worst * scale)) worst = difference / scale;
  }
  return worst;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* A run as in c, and one by another program: they agree, and learn. */
static void follow(vtb_train_config c, const vtb_program *step, int n_values) {
  history want = {0}, got = {0};
  train(c, &want);
  c.step = (vtb_program *)(uintptr_t)step;
  train(c, &got);
  for (int i = 1; i <= STEPS; i++) {
    CHECK_NEAR(got.loss[i], want.loss[i], 1e-5);
    CHECK_NEAR(got.norm[i], want.norm[i], 1e-4 * want.norm[i]);
    CHECK(got.accuracy[i] == want.accuracy[i]);
  }
  CHECK(want.norm[1] > 0.05 && want.loss[STEPS] < want.loss[1]);
  CHECK_NEAR(got.eval_loss, want.eval_loss, 1e-5);
  CHECK_MSG(want.n_values == n_values, "%d tensors", want.n_values);
  CHECK_MSG(distance(&got, &want) < 1e-3, "distance %g", distance(&got, &want));
  forget(&want);
  forget(&got);
}

TEST(the_device_follows_the_cpu) { follow(config(host), device, 40); }

/* With Nesterov's step and its own decay; dampening is of no use to that, but must be taken. */
static const vtb_setting sgd_settings[] = {{"decay", 0.1}, {"dampening", 0.3}, {"mu", 0.8}};

static vtb_train_config sgd_config(const vtb_program *step) {
  vtb_train_config c = config(step);
  c.optim.settings = sgd_settings, c.optim.n_settings = 3;
  c.schedule.lr = 0.5;
  return c;
}

/* One moment less for each of nine parameters. */
TEST(the_device_follows_the_cpu_by_sgd) { follow(sgd_config(host_by_sgd), by_sgd, 31); }

/* Begun on `first` and gone on with on c's program against one uninterrupted run on that. */
static double interrupted(const vtb_program *first, vtb_train_config c) {
  history whole = {0}, part = {0};
  vtb_program *second = c.step;
  train(c, &whole);
  c.checkpoint = temp_path("parts"), c.resume = true, c.max_steps = 4;
  c.step = (vtb_program *)(uintptr_t)first;
  remove(c.checkpoint);
  train(c, &part);
  forget(&part);
  c.step = second, c.max_steps = 0;
  train(c, &part);
  double d = distance(&part, &whole);
  forget(&whole);
  forget(&part);
  return d;
}

TEST(checkpoints_go_on_on_either) {
  char path[512];
  snprintf(path, sizeof path, "%s", temp_path("parts")); /* one name for all runs */
  CHECK(interrupted(device, config(device)) == 0);
  CHECK(interrupted(host, config(device)) < 1e-3);
  CHECK(interrupted(device, config(host)) < 1e-3);
  CHECK(interrupted(host_by_sgd, sgd_config(by_sgd)) < 1e-3);
  CHECK(interrupted(by_sgd, sgd_config(host_by_sgd)) < 1e-3);
}

TEST(settings_the_program_was_not_made_for_are_refused) {
  vtb_trainer *t = NULL;
  vtb_train_config c = sgd_config(device);
  CHECK_REFUSED(vtb_trainer_open(&c, &t, err), "optimiser adamw has no hyperparameter dampening");
  c = config(by_sgd), c.optim.name = "adamw";
  CHECK_REFUSED(vtb_trainer_open(&c, &t, err), "by sgd, these settings want adamw");
  c = config(device), c.optim.ema_decay = 0;
  CHECK_REFUSED(vtb_trainer_open(&c, &t, err), "was made with averages");
}

TEST(what_is_no_training_step_is_refused) {
  vtb_diags diags = {0};
  vtb_unit *u = vtb_unit_load_text("small.vtb", plain, strlen(plain), vtb_search_default(), &diags);
  vtb_unit *o = vtb_unit_find("adamw", NULL, &diags);
  vtb_module *m = module_of(u, false, false), *rule = vtb_instantiate(o, "adamw", NULL, &diags);
  CHECK_REFUSED(vtb_attach_update(m, m->entry, &(vtb_update_options){.rule = rule->entry}, err),
                "is no training step");
  vtb_module_free(rule);
  vtb_module_free(m);
  vtb_unit_free(o);
  vtb_unit_free(u);
  vtb_diags_free(&diags);
}

/* Buffers for every tensor of a program, parameters initialised. */
static void **buffers_of(const vtb_program *p, vtb_optim **optim) {
  void **all = vtb_xcalloc((size_t)p->n_tensors, sizeof *all);
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *x = &p->tensors[i];
    int64_t n = vtb_tensor_info_count(x);
    if (x->io == VTB_IO_STATE || x->io == VTB_IO_UPDATE || vtb_starts_with(x->name, "update."))
      continue; /* the optimiser's */
    all[i] = vtb_xcalloc((size_t)n + 1, 4);
    float *at = all[i];
    if (x->io == VTB_IO_PARAM || x->io == VTB_IO_BUFFER)
      CHECK_OK(vtb_init_tensor(x->init, x->name, 1, x->rank, x->dim, at, err));
    for (int64_t k = 0; k < n && x->io == VTB_IO_INPUT && !x->is_int; k++)
      at[k] = (float)vtb_random_unit(1, (uint64_t)k);
    for (int64_t k = 0; k < n && x->is_int && x->io == VTB_IO_INPUT; k++)
      ((int32_t *)all[i])[k] = (int32_t)k % 4;
  }
  vtb_setting halves[] = {{"beta1", 0.5}, {"beta2", 0.5}};
  vtb_optim_config c = {.settings = halves, .n_settings = 2, .ema_decay = 0.5};
  CHECK_OK(vtb_optim_open(p, all, &c, optim, err));
  vtb_optim_prepare(*optim, 0.01, 1);
  return all;
}

static void free_all(const vtb_program *p, void **all, vtb_optim *optim) {
  vtb_optim_free(optim);
  for (int i = 0; i < p->n_tensors; i++) free(all[i]);
  free(all);
}

static uint64_t hash_of_state(const vtb_program *p, void **all) {
  uint64_t h = VTB_HASH_INIT;
  CHECK_OK(vtb_program_exchange(p, all, false, err));
  for (int i = 0; i < p->n_tensors; i++)
    if (vtb_program_is_resident(p, i) && p->tensors[i].io != VTB_IO_UPDATE)
      h = vtb_hash_bytes(h, all[i], (size_t)vtb_tensor_info_count(&p->tensors[i]) * 4);
  return h;
}

TEST(a_step_that_does_not_count_changes_nothing) {
  vtb_optim *optim = NULL;
  void **all = buffers_of(device, &optim);
  float *result = all[vtb_program_find(device, VTB_UPDATE_VERDICT)],
        *image = all[vtb_program_find(device, "image")];
  CHECK_OK(vtb_program_exchange(device, all, true, err));
  uint64_t before = hash_of_state(device, all);
  image[7] = NAN;
  CHECK_OK(vtb_program_execute(device, all, NULL, services, err));
  CHECK(result[VTB_VERDICT_COUNTS] == 0 &&
        result[VTB_VERDICT_CULPRIT] == 0); /* the first parameter */
  CHECK(hash_of_state(device, all) == before);
  image[7] = 0.5f;
  CHECK_OK(vtb_program_execute(device, all, NULL, services, err));
  CHECK(result[VTB_VERDICT_COUNTS] == 1 && result[VTB_VERDICT_CULPRIT] == -1 &&
        result[VTB_VERDICT_NORM] > 0);
  CHECK(hash_of_state(device, all) != before);
  free_all(device, all, optim);
}

/* ---- the driver's runtime, its launches done by the emulator --------------------------------- */

TEST(the_driver_runs_the_same_plan) {
  typedef void (*hook_fn)(const char *, unsigned, unsigned, unsigned, void **);
  void *fake = dlopen(VTB_FAKE_CUDA, RTLD_NOW);
  CHECK_MSG(fake != NULL, "%s", dlerror());
  if (!fake) return;
  setenv("VTB_CUDA_DRIVER", VTB_FAKE_CUDA, 1);
  *(hook_fn *)dlsym(fake, "fake_cuda_hook") = launch;
  vtb_program *driver = compile(plain, true, VTB_PRECISION_FP32, for_driver);
  history want = {0}, got = {0};
  vtb_train_config c = config(device); /* the emulator takes floats, the driver's runtime bytes */
  c.train_transform.augment = (vtb_augmentation){.shift = 1, .flip = true, .erase_prob = 0.5};
  train(c, &want);
  c.step = driver;
  train(c, &got);
  CHECK(distance(&got, &want) == 0 && got.loss[STEPS] == want.loss[STEPS] &&
        got.norm[STEPS] == want.norm[STEPS]);
  CHECK(*(int *)dlsym(fake, "fake_cuda_graph_launches") == STEPS - 1);
  vtb_program_free(driver);
  CHECK(*(int *)dlsym(fake, "fake_cuda_allocations") == 0);
  vtb_emulator_free(launcher);
  forget(&want);
  forget(&got);
  dlclose(fake);
}

/* ---- the host does not wait ------------------------------------------------------------------ */

TEST(the_host_waits_only_where_it_reads) {
  void *fake = dlopen(VTB_FAKE_CUDA, RTLD_NOW);
  vtb_program *driver = compile(plain, true, VTB_PRECISION_FP32, for_driver);
  char *trace = dlsym(fake, "fake_cuda_trace");
  bool *quiet = dlsym(fake, "fake_cuda_quiet");
  vtb_strbuf calls = {0};
  vtb_trainer *t = NULL;
  vtb_train_config c = config(driver);
  c.eval = NULL;
  *quiet = true;
  CHECK_OK(vtb_trainer_open(&c, &t, err));
  *trace = '\0';
  CHECK_OK(vtb_trainer_run(t, NULL, err));
  CHECK(strstr(trace, "2:in 1440;")); /* images as bytes, 288; with boxes and values */
  CHECK(!strstr(trace, "2:in 1152;"));
  shorten(trace, &calls);
  /* the first update before anything is written; two epochs of five, at whose ends the newest is
   * waited for too; of the second's first four, three are read while the fourth runs */
  CHECK_STR(calls.at, "ieaoeSieaGoewieaGoewieaGoewieaGoeSS"
                      "wieaGoewieaGoewieaGoewieaGoeSwieaGoeSS");
  *trace = '\0';
  calls.n = 0;
  vtb_trainer_param(t, "mid.weight", NULL);
  shorten(trace, &calls);
  CHECK_STR(calls.at, "oS");
  vtb_trainer_close(t);
  CHECK(interrupted(driver, config(driver)) == 0); /* checkpoints are of what was begun */
  c.schedule.lr = 1e38; /* no number stays finite; found when others have begun */
  CHECK_OK(vtb_trainer_open(&c, &t, err));
  CHECK_REFUSED(vtb_trainer_run(t, NULL, err), "updates behind it had begun and are done");
  vtb_trainer_close(t);
  *quiet = false;
  vtb_program_free(driver);
  vtb_emulator_free(launcher);
  vtb_strbuf_free(&calls);
  dlclose(fake);
}

/* With a line of the log every four updates the host reads as often, and waits for nothing else but
 * the copy of the inputs five updates ago. */
TEST(the_log_says_how_often_results_are_read) {
  void *fake = dlopen(VTB_FAKE_CUDA, RTLD_NOW);
  vtb_program *driver = compile(plain, true, VTB_PRECISION_FP32, for_driver);
  char *trace = dlsym(fake, "fake_cuda_trace");
  bool *quiet = dlsym(fake, "fake_cuda_quiet");
  history want = {0}, got = {0};
  vtb_strbuf calls = {0};
  vtb_train_config c = config(driver);
  c.eval = NULL;
  train(c, &want);
  *quiet = true;
  for (int every = 1; every <= 100; every += 99) {
    vtb_trainer *t = NULL;
    c.log_steps = every;
    CHECK_OK(vtb_trainer_open(&c, &t, err));
    *trace = '\0';
    calls.n = 0;
    CHECK_OK(vtb_trainer_run(t, NULL, err));
    shorten(trace, &calls);
    CHECK_STR(calls.at, every == 1 ? "wieaGoeSwieaGoeSwieaGoeSwieaGoeSwieaGoeS"
                                     "wieaGoeSwieaGoeSwieaGoeSwieaGoeSwieaGoeS"
                                   : "wieaGoeSwieaGoewieaGoewieaGoewieaGoeSS"
                                     "wieaGoewieaGoewieaGoewieaGoewieaGoeSS");
    vtb_trainer_close(t);
  }
  *quiet = false;
  c.log_steps = 4;
  train(c, &got);
  CHECK(distance(&got, &want) == 0 && got.loss[STEPS] == want.loss[STEPS]);
  forget(&want);
  forget(&got);
  vtb_program_free(driver);
  vtb_emulator_free(launcher);
  vtb_strbuf_free(&calls);
  dlclose(fake);
}

/* ---- gradients in buckets -------------------------------------------------------------------- */

/* Ten steps; each bucket is told once a step, in order, when nothing changes it any more; what is
 * done to it is done before the norm. */
static void train_in_buckets(vtb_program *p, void (*finish)(void *), const history *want) {
  history got = {0};
  bucket_calls calls = {.in_all = p->n_buckets, .factor = 2, .finish = finish};
  p->on_bucket = on_bucket, p->bucket_user = &calls;
  train(config(p), &got);
  p->on_bucket = NULL;
  CHECK_MSG(p->n_buckets > 2 && p->n_buckets < MOST_BUCKETS, "%d buckets", p->n_buckets);
  CHECK_MSG(calls.n == STEPS * p->n_buckets && calls.expected == 0, "%d calls", calls.n);
  CHECK(got.loss[1] == want->loss[1] && got.norm[1] == 2 * want->norm[1]);
  int64_t bytes = 0, n = 0, gradients = 0;
  for (int i = 0; i < p->n_buckets; i++) {
    CHECK(hash_of_bucket(&calls.last[i]) == calls.hash[i]);
    bytes += calls.last[i].bytes;
    n += calls.last[i].n_tensors;
  }
  for (int i = 0; i < p->n_tensors; i++)
    if (p->tensors[i].io == VTB_IO_PARAM) {
      gradients++;
      bytes -= vtb_tensor_info_count(&p->tensors[i]) * 4;
    }
  CHECK(n == gradients && bytes >= 0 && bytes < 256 * n);
  forget(&got);
}

TEST(gradients_are_told_in_buckets) {
  history want = {0};
  train(config(device), &want);
  bucket_calls one = {.in_all = 1, .factor = 1};
  CHECK(device->n_buckets == 1);
  device->on_bucket = on_bucket, device->bucket_user = &one;
  history again = {0};
  train(config(device), &again);
  CHECK(distance(&again, &want) == 0);
  forget(&again);
  device->on_bucket = NULL;
  CHECK(one.n == STEPS);
  bucket_bytes = 2048;
  vtb_program *emulated = compile(plain, true, VTB_PRECISION_FP32, for_emulator);
  vtb_program *driver = compile(plain, true, VTB_PRECISION_FP32, for_driver);
  bucket_bytes = 0;
  train_in_buckets(emulated, NULL, &want);
  void *fake = dlopen(VTB_FAKE_CUDA, RTLD_NOW);
  int *graphs = dlsym(fake, "fake_cuda_graph_launches");
  void (*finish)(void *) = NULL;
  *(void **)&finish = dlsym(fake, "fake_cuda_finish");
  *graphs = 0;
  train_in_buckets(driver, finish, &want);
  /* a graph between each two, unless jobs of one kernel end them both */
  int each = *graphs / (STEPS - 1);
  CHECK_MSG(*graphs == (STEPS - 1) * each && each >= 2 && each <= driver->n_buckets + 1,
            "%d graphs", *graphs);
  vtb_program_free(emulated);
  vtb_program_free(driver);
  vtb_emulator_free(launcher);
  forget(&want);
  dlclose(fake);
}

/* ---- fp16 ------------------------------------------------------------------------------------ */

enum { FILTER = 16 * 9 };

/* The filter's first moment after one step is half its gradient: into `moment`; the largest of
 * it. */
static double half_gradient(const vtb_program *p, float scale, float *moment, bool *counts) {
  vtb_optim *optim = NULL;
  void **all = buffers_of(p, &optim);
  float *result = all[vtb_program_find(p, VTB_UPDATE_VERDICT)];
  int at = vtb_program_find(p, VTB_LOSS_SCALE);
  double largest = 0;
  if (at >= 0) *(float *)all[at] = scale;
  vtb_optim_prepare(optim, 0, (double)scale);
  CHECK_OK(vtb_program_exchange(p, all, true, err));
  CHECK_OK(vtb_program_execute(p, all, NULL, services, err));
  CHECK_OK(vtb_program_exchange(p, all, false, err));
  memcpy(moment, all[vtb_program_find(p, "optim/m/conv.weight")], FILTER * sizeof *moment);
  for (int i = 0; i < FILTER; i++) largest = fmax(largest, fabs((double)moment[i]));
  *counts = result[VTB_VERDICT_COUNTS] != 0;
  free_all(p, all, optim);
  return largest;
}

TEST(scaling_saves_what_fp16_would_lose) {
  float want[FILTER], got[FILTER];
  bool counts;
  double largest = half_gradient(exact, 1, want, &counts), difference = 0;
  CHECK(largest > 0 && counts);
  CHECK(half_gradient(half, 1, got, &counts) == 0 && counts); /* all of it is lost */
  half_gradient(half, 65536, got, &counts);
  for (int i = 0; i < FILTER; i++)
    difference = fmax(difference, fabs((double)got[i] - (double)want[i]));
  CHECK_MSG(difference < 5e-3 * largest && counts, "difference %g of %g", difference, largest);
  CHECK(half_gradient(half, 0x1p60f, got, &counts) == 0 &&
        !counts); /* too much: the step is left out */
}

TEST(the_scale_finds_its_size) {
  history want = {0}, whole = {0}, part = {0};
  vtb_train_config c = config(exact);
  c.eval = NULL;
  train(c, &want);
  c.step = half, c.loss_scale = 0x1p46, c.loss_scale_steps = 3;
  train(c, &whole);
  CHECK_MSG(whole.skipped > 0 && whole.skipped < STEPS - 3, "%d were skipped", (int)whole.skipped);
  CHECK(isnan(whole.norm[1]) && whole.norm[STEPS] > 0);
  CHECK_NEAR(whole.loss[1], want.loss[1], 1e-4);
  bool grew = false; /* after three updates that counted */
  for (int i = 2; i <= STEPS; i++) {
    grew |= whole.scale[i] == 2 * whole.scale[i - 1];
    if (isnan(whole.norm[i])) CHECK(whole.scale[i] == whole.scale[i - 1] / 2);
  }
  CHECK(grew);
  c.checkpoint = temp_path("scaled"), c.resume = true,
  c.max_steps = 2; /* what was found is in the checkpoint */
  train(c, &part);
  forget(&part);
  c.max_steps = 0;
  train(c, &part);
  CHECK(distance(&part, &whole) == 0 && part.scale[STEPS] == whole.scale[STEPS] &&
        part.skipped == whole.skipped);
  forget(&want);
  forget(&whole);
  forget(&part);
}

int main(void) {
  vtb_error none = {0};
  if (!vtb_emulator_available(NULL, &none)) {
    printf("skipped: %s\n", none.text);
    return 77;
  }
  setenv("XDG_CACHE_HOME", VTB_BINARY_DIR "/test-cache", 1);
  fake_dataset("data", "train", TRAIN_IMAGES, 1);
  fake_dataset("data", "t10k", TEST_IMAGES, 2);
  CHECK_OK(vtb_dataset_open(temp_path("data"), NULL, &train_set, err));
  CHECK_OK(
      vtb_dataset_open(temp_path("data"), &(vtb_dataset_options){.split = "test"}, &eval_set, err));
  services = vtb_services_default(2);
  host = compile(plain, true, VTB_PRECISION_FP32, for_cpu);
  eval_program = compile(plain, false, VTB_PRECISION_FP32, for_cpu);
  device = compile(plain, true, VTB_PRECISION_FP32, for_emulator);
  CHECK_MSG(jobs > 0 && idle == 0, "%d kernels of small ones, %d that nobody launches", jobs, idle);
  checked = false; /* updates by other rules are checked in test_update, fp16 in cuda_half */
  optimizer = "sgd";
  host_by_sgd = compile(plain, true, VTB_PRECISION_FP32, for_cpu);
  by_sgd = compile(plain, true, VTB_PRECISION_FP32, for_emulator);
  optimizer = "adamw";
  exact = compile(faint, true, VTB_PRECISION_FP32, for_emulator);
  half = compile(faint, true, VTB_PRECISION_FP16, for_emulator);
  RUN(the_device_follows_the_cpu);
  RUN(the_device_follows_the_cpu_by_sgd);
  RUN(checkpoints_go_on_on_either);
  RUN(settings_the_program_was_not_made_for_are_refused);
  RUN(what_is_no_training_step_is_refused);
  RUN(a_step_that_does_not_count_changes_nothing);
  RUN(the_driver_runs_the_same_plan);
  RUN(the_host_waits_only_where_it_reads);
  RUN(the_log_says_how_often_results_are_read);
  RUN(gradients_are_told_in_buckets);
  RUN(scaling_saves_what_fp16_would_lose);
  RUN(the_scale_finds_its_size);
  vtb_program_free(host);
  vtb_program_free(device);
  vtb_program_free(host_by_sgd);
  vtb_program_free(by_sgd);
  vtb_program_free(exact);
  vtb_program_free(half);
  vtb_program_free(eval_program);
  vtb_services_free(services);
  vtb_dataset_free(train_set);
  vtb_dataset_free(eval_set);
  return test_done();
}
