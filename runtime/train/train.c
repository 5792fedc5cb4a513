/* The training loop: one update a batch; everything that decides what happens next is in
 * vtb_train_state. */
#include "runtime/artefact/init.h"
#include "runtime/train/train_internal.h"
#include "runtime/weights/open.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

vtb_train_config vtb_train_defaults(void) {
  vtb_train_config c = {.epochs = 10, .eval_epochs = 1};
  c.schedule = (vtb_schedule){.lr = 1e-3};
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
  return vtb__bound_feed(&t->bound, c->train_set, &c->train_transform, err);
}

static vtb_status check_numbers(const vtb_train_config *c, vtb_error *err) {
  if (c->epochs < 1) return vtb_fail(err, VTB_E_USAGE, "the number of epochs must be positive");
  if (!(c->schedule.lr >= 0) || isinf(c->schedule.lr))
    return vtb_fail(err, VTB_E_USAGE, "the learning rate must be a finite number of at least 0");
  if (c->max_steps < 0 || c->max_seconds < 0 || c->checkpoint_steps < 0 || c->log_steps < 0)
    return vtb_fail(err, VTB_E_USAGE, "limits and intervals must not be negative");
  return VTB_OK;
}

static vtb_status start_from(vtb_trainer *t, vtb_error *err) {
  const vtb_train_config *c = &t->config;
  const vtb_program *p = t->bound.program;
  vtb_fit_options fit = c->fit ? *c->fit : (vtb_fit_options){0};
  vtb_fit_report report, *into = c->fitted ? c->fitted : &report;
  vtb_weights *own = NULL;
  if (!c->init && !c->init_weights) return VTB_OK;
  if (!fit.path) fit.path = c->init_weights ? c->init_weights : "weights";
  vtb_status status = c->init ? VTB_OK : vtb_weights_open(c->init_weights, &own, NULL, err);
  if (status != VTB_OK) return status;
  status =
      vtb_fit(p->tensors, p->n_tensors, c->init ? c->init : own, &fit, t->bound.args, into, err);
  if (!c->fitted) vtb_fit_report_free(&report);
  vtb_weights_free(own);
  return status;
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
  return status == VTB_OK ? start_from(t, err) : status;
}

/* How many updates may have begun: those whose results are read together, and one that goes on
 * meanwhile. A scale of the loss and a plan of time depend on the update before. */
static int updates_ahead(const vtb_trainer *t) {
  enum { TOGETHER = 3 };
  const vtb_train_config *c = &t->config;
  const vtb_program *p = t->bound.program;
  if (!p->submit || vtb__is_scaled(t) || c->fit_seconds > 0 || c->n_plan || t->pieces > 1) return 0;
  if (c->services && c->services->size >= sizeof *c->services && c->services->kernel_took) return 0;
  int64_t most = p->most_ahead < VTB__MOST_ISSUED ? p->most_ahead : VTB__MOST_ISSUED;
  int64_t n = c->log_steps == 1 ? 1 : (c->log_steps ? c->log_steps : TOGETHER) + 1;
  return (int)(n < most ? n : most);
}

static vtb_status prepare(vtb_trainer *t, vtb_error *err) {
  const vtb_train_config *c = &t->config;
  unsigned roles =
      1u << VTB_IO_PARAM | 1u << VTB_IO_BUFFER | 1u << VTB_IO_OUTPUT | 1u << VTB_IO_GRAD_OUT;
  vtb_status status = check_numbers(c, err);
  if (status == VTB_OK) status = vtb__ranks_open(t, err);
  if (status == VTB_OK && t->pieces > 1 && !vtb_optim_accumulates(c->step))
    status = vtb_fail(err, VTB_E_USAGE,
                      "the step is made for updates of one run: it cannot add up gradients of %lld",
                      (long long)t->pieces);
  if (status == VTB_OK)
    status = vtb__bound_find(&t->bound, c->step, c->image, c->logits, true, err);
  if (status == VTB_OK) status = check_data(t, err);
  if (status == VTB_OK) status = vtb__bound_allocate(&t->bound, roles, err);
  if (status == VTB_OK) status = initialise(t, err);
  if (status == VTB_OK)
    status = vtb_optim_open(t->bound.program, t->bound.args, &c->optim, &t->optim, err);
  if (status == VTB_OK) status = vtb__shards_open(t, err);
  if (status == VTB_OK) status = vtb_rates_apply(&c->rates, t->bound.program, t->optim, err);
  if (status != VTB_OK) return status;
  if (vtb__is_measured(&t->bound)) t->state.best_top1 = NAN;
  vtb_optim_begin_averages(t->optim);
  vtb__scale_open(t);
  int64_t samples = vtb_dataset_count(c->train_set);
  t->batches = vtb_loader_batches(samples, t->whole, samples >= t->whole);
  if (c->resume && c->checkpoint && vtb_path_exists(c->checkpoint)) {
    status = vtb__checkpoint_load(t, c->checkpoint, err);
    t->resumed = status == VTB_OK;
  }
  t->first_step = t->state.step;
  t->most_issued = updates_ahead(t);
  if (!t->config.log_steps) t->config.log_steps = 50;
  if (c->n_plan) {
    t->fit_total = c->plan[c->n_plan - 1].total;
    t->config.epochs = (t->fit_total + t->batches - 1) / t->batches;
  }
  if (status == VTB_OK) status = vtb__ranks_compare(t, err);
  return status == VTB_OK ? vtb__trainer_push(t, err) : status;
}

/* An error of one is the end of all. */
static void tell_ranks(const vtb_trainer *t, const vtb_error *err) {
  if (vtb_ranks_count(t->config.ranks) > 1)
    vtb_ranks_fail(t->config.ranks, err ? err->status : VTB_E_DEVICE, err ? err->text : "");
}

vtb_status vtb_trainer_open(const vtb_train_config *config, vtb_trainer **out, vtb_error *err) {
  vtb_trainer *t = calloc(1, sizeof *t);
  if (!t) return vtb_no_memory(err, "training");
  t->config = *config;
  t->state.best_top1 = t->saved_step = -1;
  t->started = t->last_checkpoint = vtb_now();
  if (!t->config.eval_epochs) t->config.eval_epochs = 1;
  vtb_status status = prepare(t, err);
  if (status != VTB_OK) {
    tell_ranks(t, err);
    vtb_trainer_close(t);
    return status;
  }
  *out = t;
  return VTB_OK;
}

void vtb_trainer_close(vtb_trainer *t) {
  if (!t) return;
  if (t->bound.program) vtb__shards_free(t);
  vtb_optim_free(t->optim);
  if (t->bound.program) vtb__bound_free(&t->bound);
  free(t->votes);
  vtb_run_log_close(t->log);
  vtb_board_close(t->board);
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

/* ---- the loop -------------------------------------------------------------------------------- */

static bool checkpoint_is_late(const vtb_trainer *t) {
  return t->n_ranks > 1 ? t->vote.late : vtb__checkpoint_is_late(t);
}

static bool checkpoint_due(const vtb_trainer *t) {
  const vtb_train_config *c = &t->config;
  if (!c->checkpoint) return false;
  if (t->state.batch == 0) return true; /* an epoch ended */
  if (c->checkpoint_steps > 0 && t->state.step % c->checkpoint_steps == 0) return true;
  return checkpoint_is_late(t);
}

/* Why to stop now, or NULL. */
static const char *reason_to_stop(const vtb_trainer *t) {
  const vtb_train_config *c = &t->config;
  if (t->state.epoch >= c->epochs && !t->state.pending) return "all epochs are done";
  const char *planned =
      c->fit_seconds > 0 ? "the time planned for is over" : "all planned updates are done";
  if (t->state.done) return planned;
  if (vtb__asked_to_stop(t)) return "stopped on request";
  if (t->fit_total && t->state.step >= t->fit_total) return planned;
  if (c->max_steps > 0 && t->state.step >= c->max_steps) return "the limit of updates is reached";
  if (t->n_ranks > 1 ? t->vote.over : vtb__time_is_over(t)) return "the time limit is reached";
  return NULL;
}

static void follow_plan(vtb_trainer *t) {
  vtb_train_config *c = &t->config;
  for (; t->next_plan < c->n_plan && c->plan[t->next_plan].step <= t->state.step; t->next_plan++)
    c->schedule.total = c->plan[t->next_plan].total;
}

/* Begins to train one batch, and ends what has to be; *ended: no batch was left. */
static vtb_status step_once(vtb_trainer *t, vtb_loader *loader, bool *ended, vtb_error *err) {
  const vtb_batch *batch;
  if (!t->n_issued) t->issued_since = vtb_now();
  follow_plan(t);
  for (int64_t piece = 0; piece < t->pieces; piece++) {
    vtb_status status = vtb_loader_next(loader, &batch, err);
    *ended = status == VTB_OK && !batch;
    if (status != VTB_OK || !batch) return status;
    VTB_TRY(vtb__issue(t, batch, err));
  }
  if (vtb__must_settle(t)) return vtb__settle(t, 0, err);
  return t->n_issued == t->most_issued ? vtb__settle(t, t->most_issued > 1, err) : VTB_OK;
}

static vtb_status save(vtb_trainer *t, vtb_error *err) {
  if (!t->config.checkpoint || !t->changed) return VTB_OK;
  vtb_status status = vtb_trainer_checkpoint(t, t->config.checkpoint, err);
  t->cannot_save = status != VTB_OK;
  return status;
}

/* Weights that took hours to train are on the disk before anything else can go wrong. */
static vtb_status end_epoch(vtb_trainer *t, vtb_error *err) {
  vtb__epoch_close(t);
  vtb_status status = vtb__evaluation_due(t) ? save(t, err) : VTB_OK;
  return status == VTB_OK ? vtb__epoch_settle(t, err) : status;
}

/* Updates that are under way are in the weights, so they are in the state before anything is saved;
 * an error in between keeps what it says. */
static vtb_status settle_after_error(vtb_trainer *t, vtb_status status) {
  vtb_error ignored = {0};
  if (t->n_ranks > 1) { /* others would have to settle, too */
    t->cannot_save |= t->n_issued > 0;
    return status;
  }
  if (vtb__settle(t, 0, &ignored) != VTB_OK) t->cannot_save = true;
  return status;
}

static vtb_status loop(vtb_trainer *t, vtb_loader *loader, const char **why, vtb_error *err) {
  for (;;) {
    bool ended;
    vtb_status status = VTB_OK;
    if ((*why = reason_to_stop(t)) && !t->n_issued) break;
    if (*why) {
      status = vtb__settle(t, 0, err);
    } else {
      status = step_once(t, loader, &ended, err);
      if (status != VTB_OK) return settle_after_error(t, status);
      assert(!ended);
      if (t->n_issued && !checkpoint_is_late(t)) continue;
      status = vtb__settle(t, 0, err);
    }
    if (status != VTB_OK) return status;
    if (t->state.batch == t->batches) status = end_epoch(t, err);
    if (status == VTB_OK) status = vtb__judge_within(t, err);
    if (status == VTB_OK && checkpoint_due(t)) status = save(t, err);
    if (status != VTB_OK) return status;
  }
  if (vtb__plan_is_over(t) && !t->config.n_plan) t->state.done = t->changed = true;
  return save(t, err);
}

/* A run of so many updates is done when it is judged: one that was ended before goes on there. */
static vtb_status settle_plan(vtb_trainer *t, vtb_error *err) {
  const vtb_train_config *c = &t->config;
  if (!c->n_plan || t->state.done || !vtb__plan_is_over(t) || vtb__asked_to_stop(t)) return VTB_OK;
  t->state.done = t->changed = true;
  return save(t, err);
}

/* An error ends the run; the parameters are those of the last good update. */
static void save_after_error(vtb_trainer *t, vtb_error *err) {
  if (t->rank || !t->begun || !t->config.checkpoint) return;
  t->cannot_save |= t->shards != NULL; /* others would have to help */
  if (t->state.batch == t->batches) vtb__epoch_close(t);
  if (!t->cannot_save) (void)!save(t, NULL);
  if (t->changed && (t->n_ranks == 1 || t->saved_step < 0)) return;
  size_t n = strlen(err->text);
  snprintf(err->text + n, sizeof err->text - n,
           "; the run as it was after update %lld is in %s: --resume goes on from there",
           (long long)t->saved_step, t->config.checkpoint);
}

static void send_start(const vtb_trainer *t) {
  char text[600], augmented[160] = "", resumed[64] = "", shared[80] = "", sharded[80] = "";
  int64_t parameters = 0, here, all;
  for (int i = 0; i < vtb_optim_n_trained(t->optim); i++)
    parameters += vtb_tensor_info_count(&t->bound.program->tensors[vtb_optim_trained(t->optim, i)]);
  if (t->resumed)
    snprintf(resumed, sizeof resumed, ", resumed after update %lld", (long long)t->state.step);
  if (t->n_ranks > 1 && t->pieces > 1)
    snprintf(shared, sizeof shared, " = %d ranks x %lld x %lld", t->n_ranks, (long long)t->pieces,
             (long long)t->rows);
  else if (t->n_ranks > 1)
    snprintf(shared, sizeof shared, " = %d ranks x %lld", t->n_ranks, (long long)t->rows);
  else if (t->pieces > 1)
    snprintf(shared, sizeof shared, " = %lld x %lld", (long long)t->pieces, (long long)t->rows);
  vtb__state_bytes(t, &here, &all);
  if (t->shards)
    snprintf(sharded, sizeof sharded, ", %.1f of %.1f MB of optimizer state here",
             1e-6 * (double)here, 1e-6 * (double)all);
  if (t->config.augmented)
    snprintf(augmented, sizeof augmented, ", augmented by %s", t->config.augmented);
  snprintf(text, sizeof text,
           "%lld parameters, %lld %s, batch %lld%s, %lld updates an epoch%s, %d thread%s%s%s%s%s",
           (long long)parameters, (long long)vtb_dataset_count(t->config.train_set),
           vtb_dataset_has_images(t->config.train_set) ? "images" : "samples", (long long)t->whole,
           shared, (long long)t->batches, t->bound.program->exchange ? " on the device" : "",
           t->config.services->n_threads, t->config.services->n_threads == 1 ? "" : "s",
           t->n_ranks > 1 ? " a rank" : "", sharded, augmented, resumed);
  vtb_train_event e = vtb__event(t, VTB_TRAIN_START);
  e.text = text;
  vtb__send(t, &e);
}

static void fill_result(vtb_trainer *t, const char *why, vtb_train_result *result) {
  t->result.steps = t->state.step;
  t->result.epochs = t->state.epoch;
  t->result.updates = t->state.step - t->first_step;
  t->result.finished = t->state.done || (!t->state.pending && t->state.epoch >= t->config.epochs);
  t->result.best_top1 = t->state.best_top1;
  t->result.skipped = t->state.skipped;
  t->result.seconds = vtb_now() - t->started;
  t->result.ranks = t->n_ranks;
  t->result.slowest = t->slowest;
  t->result.waited = t->all_seconds > 0 ? fmin(1, t->all_waited / t->all_seconds) : 0;
  t->result.stopped = vtb__asked_to_stop(t);
  t->result.images_per_second = t->train_seconds > 0 ? (double)t->images / t->train_seconds : 0;
  vtb_train_event e = vtb__event(t, VTB_TRAIN_END);
  e.waited = t->result.waited;
  e.text = why;
  e.best_top1 = t->state.best_top1;
  vtb__send(t, &e);
  if (result) *result = t->result;
}

static vtb_status run_loop(vtb_trainer *t, const char **why, vtb_error *err) {
  const vtb_train_config *c = &t->config;
  bool planned = c->fit_seconds > 0 || c->n_plan;
  vtb_loader_options o = {.dataset = c->train_set,
                          .transform = c->train_transform,
                          .batch = t->rows,
                          .whole = t->whole,
                          .first = t->rank * t->pieces * t->rows,
                          .pieces = t->pieces,
                          .feeds = t->bound.feeds,
                          .n_feeds = t->bound.n_feeds,
                          .pixels = t->most_issued && vtb__bound_takes_pixels(&t->bound),
                          .shuffle = true,
                          .drop_last = vtb_dataset_count(c->train_set) >= t->whole,
                          .augments = c->augments,
                          .n_augments = c->n_augments,
                          .seed = c->seed,
                          .start_epoch = t->state.epoch,
                          .start_batch = t->state.batch,
                          .n_epochs = planned ? INT32_MAX : c->epochs,
                          .n_threads = c->loader_threads};
  vtb_loader *loader = NULL;
  c->step->uses_pixels = o.pixels;
  vtb_status status = vtb_loader_open(&o, &loader, err);
  if (status == VTB_OK) status = loop(t, loader, why, err);
  c->step->uses_pixels = false;
  vtb_loader_close(loader);
  return status;
}

vtb_status vtb_trainer_run(vtb_trainer *t, vtb_train_result *result, vtb_error *err) {
  vtb_error own = {0};
  int64_t none[2] = {0, 0};
  if (!err) err = &own;
  send_start(t);
  vtb_status status = vtb__vote(t, true, &none[0], &none[1], err);
  vtb__waiting_begins(t);
  /* a run that was ended while its last epoch was evaluated goes on there */
  if (status == VTB_OK && t->state.pending) status = vtb__epoch_settle(t, err);
  const char *why = reason_to_stop(t);
  if (status == VTB_OK && t->changed) status = save(t, err);
  if (status == VTB_OK && !why) status = run_loop(t, &why, err);
  if (status != VTB_OK) save_after_error(t, err);
  if (status == VTB_OK) status = vtb__judge_cut_run(t, err);
  if (status == VTB_OK) status = settle_plan(t, err);
  if (status == VTB_OK) status = vtb__vote(t, true, &none[0], &none[1], err);
  if (status != VTB_OK) tell_ranks(t, err);
  if (status == VTB_OK) fill_result(t, why, result);
  return status;
}
