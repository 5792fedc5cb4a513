/* The training loop: one update a batch; everything that decides what happens next is in
 * vtb_train_state. */
#include "runtime/base/random.h"
#include "runtime/artefact/init.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/launch/threads.h"
#include "runtime/train/train_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

vtb_train_config vtb_train_defaults(void) {
  vtb_train_config c = {.epochs = 10, .log_steps = 50, .eval_epochs = 1};
  c.schedule = (vtb_schedule){.kind = VTB_SCHEDULE_COSINE,
                              .base_lr = 1e-3,
                              .final_lr = 1e-6,
                              .warmup_lr = 1e-6,
                              .prefix = true};
  return c;
}

/* ---- opening --------------------------------------------------------------------------------- */

static vtb_status check_data(vtb_trainer *t, vtb_error *err) {
  const vtb_train_config *c = &t->config;
  if (vtb__is_measured(&t->bound))
    return vtb__bound_feed(&t->bound, c->train_set, &c->train_transform, err);
  const vtb_tensor_info *image = &t->bound.program->tensors[t->bound.image];
  const vtb_preparation *f = &c->train_transform.prepare;
  if (image->dim[1] != f->channels || image->dim[2] != f->height || image->dim[3] != f->width)
    return vtb_fail(err, VTB_E_INPUT,
                    "images are prepared as %d x %d x %d, the model takes %lld x %lld x %lld",
                    f->channels, f->height, f->width, (long long)image->dim[1],
                    (long long)image->dim[2], (long long)image->dim[3]);
  if (vtb_dataset_classes(c->train_set) > t->bound.classes)
    return vtb_fail(err, VTB_E_INPUT, "data set %s has %d classes, the model %lld",
                    vtb_dataset_name(c->train_set), vtb_dataset_classes(c->train_set),
                    (long long)t->bound.classes);
  return VTB_OK;
}

static vtb_status check_numbers(const vtb_train_config *c, vtb_error *err) {
  if (c->epochs < 1) return vtb_fail(err, VTB_E_USAGE, "the number of epochs must be positive");
  if (!(c->schedule.base_lr >= 0) || isinf(c->schedule.base_lr))
    return vtb_fail(err, VTB_E_USAGE, "the learning rate must not be negative");
  if (c->schedule.warmup < 0 || c->max_steps < 0 || c->max_seconds < 0 || c->checkpoint_steps < 0)
    return vtb_fail(err, VTB_E_USAGE, "warm-up, limits and intervals must not be negative");
  return VTB_OK;
}

static vtb_status initialise(vtb_trainer *t, vtb_error *err) {
  const vtb_program *p = t->bound.program;
  vtb_status status = VTB_OK;
  for (int i = 0; i < p->n_tensors && status == VTB_OK; i++) {
    const vtb_tensor_info *info = &p->tensors[i];
    if ((info->io == VTB_IO_PARAM || info->io == VTB_IO_BUFFER) && !info->is_int)
      status = vtb_init_tensor(info->init, info->name, t->config.seed, info->rank, info->dim,
                               t->bound.args[i], err);
  }
  if (status != VTB_OK || !t->config.init_weights) return status;
  vtb_weights *w = NULL;
  status = vtb_safetensors_load(t->config.init_weights, &w, err);
  if (status == VTB_OK)
    status = vtb_weights_bind(p, w, NULL, t->bound.args, &t->n_missing, NULL, err);
  vtb_weights_free(w);
  return status;
}

static vtb_status prepare(vtb_trainer *t, vtb_error *err) {
  const vtb_train_config *c = &t->config;
  unsigned roles =
      1u << VTB_IO_PARAM | 1u << VTB_IO_BUFFER | 1u << VTB_IO_OUTPUT | 1u << VTB_IO_GRAD_OUT;
  vtb_status status = check_numbers(c, err);
  if (status == VTB_OK)
    status = vtb__bound_find(&t->bound, c->step, c->image, c->logits, true, err);
  if (status == VTB_OK) status = check_data(t, err);
  if (status == VTB_OK) status = vtb__bound_allocate(&t->bound, roles, err);
  if (status == VTB_OK) status = initialise(t, err);
  if (status == VTB_OK)
    status = vtb_optim_open(t->bound.program, t->bound.args, &c->optim, &t->optim, err);
  if (status != VTB_OK) return status;
  if (vtb__is_measured(&t->bound)) t->state.best_top1 = NAN;
  vtb_optim_begin_averages(t->optim);
  vtb__scale_open(t);
  int64_t samples = vtb_dataset_count(c->train_set), batch = t->bound.program->batch;
  t->batches = vtb_loader_batches(samples, batch, samples >= batch);
  if (c->resume && c->checkpoint && vtb_path_exists(c->checkpoint)) {
    status = vtb__checkpoint_load(t, c->checkpoint, err);
    t->resumed = status == VTB_OK;
  }
  if (status == VTB_OK) status = vtb__trainer_push(t, err);
  if (status == VTB_OK && c->log)
    status = vtb_run_log_open(c->log, t->resumed ? t->state.step : -1,
                              t->state.step - t->state.batch, &t->log, err);
  return status;
}

vtb_status vtb_trainer_open(const vtb_train_config *config, vtb_trainer **out, vtb_error *err) {
  vtb_trainer *t = calloc(1, sizeof *t);
  if (!t) return vtb_no_memory(err, "training");
  t->config = *config;
  t->state.best_top1 = -1;
  t->started = t->last_checkpoint = vtb_now();
  if (!t->config.log_steps) t->config.log_steps = 50;
  if (!t->config.eval_epochs) t->config.eval_epochs = 1;
  vtb_status status = prepare(t, err);
  if (status != VTB_OK) {
    vtb_trainer_close(t);
    return status;
  }
  *out = t;
  return VTB_OK;
}

void vtb_trainer_close(vtb_trainer *t) {
  if (!t) return;
  vtb_optim_free(t->optim);
  if (t->bound.program) vtb__bound_free(&t->bound);
  vtb_run_log_close(t->log);
  free(t);
}

vtb_status vtb__trainer_push(vtb_trainer *t, vtb_error *err) {
  return vtb_program_exchange(t->bound.program, t->bound.args, true, err);
}

vtb_status vtb__trainer_pull(vtb_trainer *t, vtb_error *err) {
  if (!t->stale) return VTB_OK;
  vtb_status status = vtb_program_exchange(t->bound.program, t->bound.args, false, err);
  t->stale = status != VTB_OK;
  return status;
}

float *vtb_trainer_param(vtb_trainer *t, const char *name, int64_t *count) {
  const vtb_program *p = t->bound.program;
  int i = vtb_program_find(p, name);
  if (i < 0 || (p->tensors[i].io != VTB_IO_PARAM && p->tensors[i].io != VTB_IO_BUFFER) ||
      p->tensors[i].is_int)
    return NULL;
  if (vtb__trainer_pull(t, NULL) != VTB_OK) return NULL;
  if (count) *count = vtb_tensor_info_count(&p->tensors[i]);
  return t->bound.args[i];
}

/* ---- evaluating ------------------------------------------------------------------------------ */

static void eval_progress(void *user, int64_t done, int64_t total) {
  const vtb_trainer *t = user;
  vtb_train_event e = vtb__event(t, VTB_TRAIN_EVAL_STEP);
  e.batch = done;
  e.n_batches = total;
  vtb__send(t, &e);
}

/* The training program's value of a tensor of the evaluation program, averaged if there is an
 * average. */
static vtb_status find_value(const vtb_trainer *t, const vtb_tensor_info *want, void **out,
                             vtb_error *err) {
  const vtb_program *p = t->bound.program;
  int i = vtb_program_find(p, want->name);
  if (i < 0 || vtb_tensor_info_count(&p->tensors[i]) != vtb_tensor_info_count(want))
    return vtb_fail(err, VTB_E_INPUT,
                    "the evaluation program's parameter %s is not the training program's",
                    want->name);
  float *average = vtb_optim_average(t->optim, i);
  *out = average ? average : t->bound.args[i];
  return VTB_OK;
}

vtb_status vtb_trainer_evaluate(vtb_trainer *t, vtb_eval_result *result, vtb_error *err) {
  const vtb_train_config *c = &t->config;
  if (!c->eval || !c->eval_set)
    return vtb_fail(err, VTB_E_USAGE, "no program or data set for evaluation");
  vtb_status status = vtb__trainer_pull(t, err);
  if (status != VTB_OK) return status;
  void **params = calloc((size_t)c->eval->n_tensors + 1, sizeof *params);
  if (!params) return vtb_no_memory(err, "evaluation");
  for (int i = 0; i < c->eval->n_tensors && status == VTB_OK; i++) {
    const vtb_tensor_info *info = &c->eval->tensors[i];
    if (info->io == VTB_IO_PARAM || info->io == VTB_IO_BUFFER)
      status = find_value(t, info, &params[i], err);
  }
  vtb_eval_options o = {.image = c->image,
                        .logits = c->logits,
                        .dataset = c->eval_set,
                        .transform = c->eval_transform,
                        .services = c->services,
                        .loader_threads = c->loader_threads,
                        .on_batch = eval_progress,
                        .user = t};
  if (status == VTB_OK) status = vtb_evaluate(c->eval, params, &o, result, err);
  free(params);
  return status;
}

/* ---- one update ------------------------------------------------------------------------------ */

static vtb_status update(vtb_trainer *t, const vtb_batch *batch, int64_t *correct, vtb_error *err) {
  vtb_bound *b = &t->bound;
  int32_t seed = (int32_t)(vtb_random_u64(t->config.seed, (uint64_t)t->state.step) >> 33);
  vtb__bound_fill(b, batch);
  if (b->seed >= 0) b->args[b->seed] = &seed;
  t->lr = vtb_schedule_lr(&t->config.schedule, t->state.step);
  vtb__scale_begin(t);
  vtb_optim_prepare(t->optim, t->lr, (double)t->loss_scale);
  vtb_status status =
      vtb_program_execute(b->program, b->args, b->workspace, t->config.services, err);
  if (status != VTB_OK) return status;
  t->loss = (double)*(const float *)b->args[b->loss];
  if (!isfinite(t->loss))
    return vtb_fail(err, VTB_E_NUMBERS,
                    "the loss is not finite at update %lld (learning rate %g); the parameters are "
                    "those before it",
                    (long long)t->state.step, t->lr);
  vtb_measures_add(&b->measures, b->args);
  vtb_error inner = {0};
  status = vtb_optim_judge(t->optim, batch->n, &t->grad_norm, correct, &inner);
  t->stale |= status == VTB_OK;
  return vtb__scale_end(t, status, &inner, err);
}

static void account(vtb_trainer *t, const vtb_batch *batch, int64_t correct, double seconds) {
  t->state.step++;
  t->state.batch++;
  t->state.seen += batch->n;
  t->state.correct += correct;
  t->state.loss_sum += t->loss * (double)batch->n;
  t->images += batch->n;
  t->train_seconds += seconds;
  t->step_seconds = t->step_seconds > 0 ? 0.95 * t->step_seconds + 0.05 * seconds : seconds;
}

/* ---- the end of an epoch --------------------------------------------------------------------- */

static bool evaluation_due(const vtb_trainer *t) {
  const vtb_train_config *c = &t->config;
  return c->eval && c->eval_set &&
         (t->state.epoch % c->eval_epochs == 0 || t->state.epoch == c->epochs);
}

static void take_evaluation(vtb_trainer *t, const vtb_eval_result *r) {
  t->result.eval_loss = r->loss;
  t->result.eval_top1 = r->top1;
  t->result.eval_top5 = r->top5;
  t->result.eval = r->measures;
}

static void keep_best(vtb_trainer *t, const vtb_eval_result *r) {
  double score = r->measures.n ? vtb_measured_score(&r->measures) : r->top1;
  bool better = r->measures.n ? vtb_measured_is_better(&r->measures, score, t->state.best_top1)
                              : score > t->state.best_top1;
  if (better) t->state.best_top1 = score;
}

static vtb_status end_epoch(vtb_trainer *t, vtb_error *err) {
  t->state.epoch++;
  t->state.batch = 0;
  vtb_train_event e = vtb__event(t, VTB_TRAIN_EPOCH);
  e.loss = t->state.loss_sum / (double)t->state.seen;
  e.accuracy = (double)t->state.correct / (double)t->state.seen;
  t->result.loss = e.loss;
  t->result.accuracy = e.accuracy;
  t->result.train = vtb_measures_values(&t->bound.measures);
  if (vtb__is_measured(&t->bound)) e.train = &t->result.train;
  if (evaluation_due(t)) {
    vtb_eval_result r = {0};
    vtb_status status = vtb_trainer_evaluate(t, &r, err);
    if (status != VTB_OK) return status;
    keep_best(t, &r);
    take_evaluation(t, &r);
    e.evaluated = true;
    e.eval_loss = r.loss;
    e.eval_top1 = r.top1;
    e.eval_top5 = r.top5;
    if (vtb__is_measured(&t->bound)) e.eval = &t->result.eval;
    e.best_top1 = t->state.best_top1;
  }
  t->state.loss_sum = 0;
  t->state.seen = t->state.correct = 0;
  vtb_measures_clear(&t->bound.measures);
  vtb__send(t, &e);
  return t->log ? vtb__log_epoch(t, &e, err) : VTB_OK;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static bool checkpoint_due(const vtb_trainer *t, bool epoch_ended) {
  const vtb_train_config *c = &t->config;
  if (!c->checkpoint) return false;
  if (epoch_ended) return true;
  if (c->checkpoint_steps > 0 && t->state.step % c->checkpoint_steps == 0) return true;
  return c->checkpoint_seconds > 0 && vtb_now() - t->last_checkpoint >= c->checkpoint_seconds;
}

/* Why to stop now, or NULL. */
static const char *reason_to_stop(const vtb_trainer *t) {
  const vtb_train_config *c = &t->config;
  if (t->state.epoch >= c->epochs) return "all epochs are done";
  if (c->stop && *c->stop) return "stopped on request";
  if (c->fit_seconds > 0 && t->fit_total && t->state.step >= t->fit_total)
    return "the time planned for is over";
  if (c->max_steps > 0 && t->state.step >= c->max_steps) return "the limit of updates is reached";
  if (c->max_seconds > 0 && vtb_now() - t->started >= c->max_seconds)
    return "the time limit is reached";
  return NULL;
}

/* As many updates in all as the rest of the time holds at the present speed. */
static void replan(vtb_trainer *t) {
  vtb_train_config *c = &t->config;
  if (c->fit_seconds <= 0) return;
  double left = c->fit_seconds - (vtb_now() - t->started);
  t->fit_total = t->state.step + (left > 0 ? (int64_t)(left / t->step_seconds) : 0);
  c->schedule.total = t->fit_total;
  c->epochs = t->state.step / t->batches + 1; /* never the reason to stop */
  if (t->fit_total / t->batches >= c->epochs)
    c->epochs = (t->fit_total + t->batches - 1) / t->batches;
}

/* Trains one batch; *ended: no batch was left. */
static vtb_status step_once(vtb_trainer *t, vtb_loader *loader, bool *ended, vtb_error *err) {
  double start = vtb_now();
  const vtb_batch *batch;
  int64_t correct = 0;
  vtb_status status = vtb_loader_next(loader, &batch, err);
  *ended = status == VTB_OK && !batch;
  if (status != VTB_OK || !batch) return status;
  status = update(t, batch, &correct, err);
  if (status != VTB_OK) return status;
  account(t, batch, correct, vtb_now() - start);
  replan(t);
  vtb_train_event e = vtb__event(t, VTB_TRAIN_STEP);
  e.accuracy = (double)correct / (double)batch->n;
  vtb__send(t, &e);
  return t->log && t->state.step % t->config.log_steps == 0 ? vtb__log_step(t, err) : VTB_OK;
}

static vtb_status loop(vtb_trainer *t, vtb_loader *loader, const char **why, vtb_error *err) {
  bool saved = t->resumed;
  while (!(*why = reason_to_stop(t))) {
    bool ended;
    vtb_status status = step_once(t, loader, &ended, err);
    if (status != VTB_OK) return status;
    assert(!ended);
    bool epoch_ended = t->state.batch == t->batches;
    if (epoch_ended) status = end_epoch(t, err);
    saved = false;
    if (status == VTB_OK && checkpoint_due(t, epoch_ended)) {
      status = vtb_trainer_checkpoint(t, t->config.checkpoint, err);
      saved = true;
    }
    if (status != VTB_OK) return status;
  }
  return t->config.checkpoint && !saved ? vtb_trainer_checkpoint(t, t->config.checkpoint, err)
                                        : VTB_OK;
}

static void send_start(const vtb_trainer *t) {
  char text[256], missing[64] = "";
  int64_t parameters = 0;
  for (int i = 0; i < vtb_optim_n_trained(t->optim); i++)
    parameters += vtb_tensor_info_count(&t->bound.program->tensors[vtb_optim_trained(t->optim, i)]);
  if (t->n_missing)
    snprintf(missing, sizeof missing, ", %d tensors not in the weights to start from",
             t->n_missing);
  snprintf(text, sizeof text,
           "%lld parameters, %lld %s, batch %lld, %lld updates an epoch%s, %d threads%s%s",
           (long long)parameters, (long long)vtb_dataset_count(t->config.train_set),
           vtb_dataset_has_images(t->config.train_set) ? "images" : "samples",
           (long long)t->bound.program->batch, (long long)t->batches,
           t->bound.program->exchange ? " on the device" : "", t->config.services->n_threads,
           t->resumed ? ", resumed" : "", missing);
  vtb_train_event e = vtb__event(t, VTB_TRAIN_START);
  e.text = text;
  vtb__send(t, &e);
}

/* The row of an epoch that was not trained to its end. */
static vtb_status log_cut_epoch(vtb_trainer *t, vtb_error *err) {
  vtb_train_event e = vtb__event(t, VTB_TRAIN_EPOCH);
  e.loss = t->result.loss;
  e.accuracy = t->result.accuracy;
  e.evaluated = true;
  e.eval_loss = t->result.eval_loss;
  e.eval_top1 = t->result.eval_top1;
  e.eval_top5 = t->result.eval_top5;
  return vtb__log_epoch(t, &e, err);
}

/* A run that a limit ended within an epoch is judged as it stands; its state is left as it was. */
static vtb_status judge_cut_run(vtb_trainer *t, vtb_error *err) {
  const vtb_train_config *c = &t->config;
  vtb_eval_result r = {0};
  if ((t->state.batch == 0 && !t->fit_total) || !c->eval || !c->eval_set || (c->stop && *c->stop))
    return VTB_OK;
  vtb_status status = vtb_trainer_evaluate(t, &r, err);
  if (status != VTB_OK) return status;
  if (t->state.seen) {
    t->result.loss = t->state.loss_sum / (double)t->state.seen;
    t->result.accuracy = (double)t->state.correct / (double)t->state.seen;
    t->result.train = vtb_measures_values(&t->bound.measures);
  }
  take_evaluation(t, &r);
  if (t->log && t->state.batch > 0) status = log_cut_epoch(t, err);
  return status == VTB_OK && t->log ? vtb__log_end(t, err) : status;
}

static void fill_result(vtb_trainer *t, const char *why, vtb_train_result *result) {
  t->result.steps = t->state.step;
  t->result.epochs = t->state.epoch;
  t->result.finished = t->state.epoch >= t->config.epochs;
  t->result.best_top1 = t->state.best_top1;
  t->result.skipped = t->state.skipped;
  t->result.seconds = vtb_now() - t->started;
  t->result.images_per_second = t->train_seconds > 0 ? (double)t->images / t->train_seconds : 0;
  vtb_train_event e = vtb__event(t, VTB_TRAIN_END);
  e.text = why;
  e.best_top1 = t->state.best_top1;
  vtb__send(t, &e);
  if (result) *result = t->result;
}

vtb_status vtb_trainer_run(vtb_trainer *t, vtb_train_result *result, vtb_error *err) {
  const vtb_train_config *c = &t->config;
  const char *why = reason_to_stop(t);
  vtb_loader *loader = NULL;
  vtb_status status = VTB_OK;
  send_start(t);
  if (!why) {
    vtb_loader_options o = {.dataset = c->train_set,
                            .transform = c->train_transform,
                            .batch = t->bound.program->batch,
                            .feeds = t->bound.feeds,
                            .n_feeds = t->bound.n_feeds,
                            .shuffle = true,
                            .drop_last = vtb_dataset_count(c->train_set) >= t->bound.program->batch,
                            .seed = c->seed,
                            .start_epoch = t->state.epoch,
                            .start_batch = t->state.batch,
                            .n_epochs = c->fit_seconds > 0 ? INT32_MAX : c->epochs,
                            .n_threads = c->loader_threads};
    status = vtb_loader_open(&o, &loader, err);
    if (status == VTB_OK) status = loop(t, loader, &why, err);
    vtb_loader_close(loader);
  }
  if (status == VTB_OK) status = judge_cut_run(t, err);
  if (status == VTB_OK) fill_result(t, why, result);
  return status;
}
