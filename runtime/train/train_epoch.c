/* The end of an epoch, and of a run within one: evaluation, what was best, lines of the log. */
#include "runtime/train/train_internal.h"

#include <stdlib.h>

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
  float *average = vtb__average(t, i);
  *out = average ? average : t->bound.args[i];
  return VTB_OK;
}

vtb_status vtb_trainer_evaluate(vtb_trainer *t, vtb_eval_result *result, vtb_error *err) {
  const vtb_train_config *c = &t->config;
  if (!c->eval || !c->eval_set)
    return vtb_fail(err, VTB_E_USAGE, "no program or data set for evaluation");
  VTB_TRY(vtb__trainer_pull(t, err));
  void **params = calloc((size_t)c->eval->n_tensors + 1, sizeof *params);
  if (!params) return vtb_no_memory(err, "evaluation");
  vtb_status status = vtb__shards_fetch_averages(t, err);
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
                        .ranks = c->ranks,
                        .on_batch = eval_progress,
                        .user = t,
                        .stop = c->stop};
  if (status == VTB_OK) status = vtb_evaluate(c->eval, params, &o, result, err);
  free(params);
  vtb__shards_release(t);
  if (status == VTB_OK) t->vote.stop |= result->stopped;
  return status;
}

/* ---- the end of an epoch --------------------------------------------------------------------- */

bool vtb__evaluation_due(const vtb_trainer *t) {
  const vtb_train_config *c = &t->config;
  return c->eval && c->eval_set &&
         (t->state.epoch % c->eval_epochs == 0 || t->state.epoch >= c->epochs);
}

static void take_evaluation(vtb_trainer *t, const vtb_eval_result *r) {
  t->result.evaluated = true;
  t->result.eval_loss = r->loss;
  t->result.eval_top1 = r->top1;
  t->result.eval_top5 = r->top5;
  t->result.eval = r->measures;
}

static void take_training(vtb_trainer *t) {
  if (!t->state.seen) return;
  t->result.trained = true;
  t->result.loss = t->state.loss_sum / (double)t->state.seen;
  t->result.accuracy = (double)t->state.correct / (double)t->state.seen;
  t->result.train = vtb_measures_values(&t->bound.measures);
}

static vtb_status keep_best(vtb_trainer *t, const vtb_eval_result *r, vtb_error *err) {
  double score = r->measures.n ? vtb_measured_score(&r->measures) : r->top1;
  bool better = r->measures.n ? vtb_measured_is_better(&r->measures, score, t->state.best_top1)
                              : score > t->state.best_top1;
  if (!better) return VTB_OK;
  t->state.best_top1 = score;
  return t->config.best ? vtb_trainer_save_weights(t, t->config.best, err) : VTB_OK;
}

void vtb__epoch_close(vtb_trainer *t) {
  t->state.epoch++;
  t->state.batch = 0;
  t->state.pending = true;
  t->result.evaluated = false;
}

static vtb_train_event epoch_event(const vtb_trainer *t) {
  vtb_train_event e = vtb__event(t, VTB_TRAIN_EPOCH);
  e.loss = t->result.loss;
  e.accuracy = t->result.accuracy;
  e.evaluated = t->result.evaluated;
  e.eval_loss = t->result.eval_loss;
  e.eval_top1 = t->result.eval_top1;
  e.eval_top5 = t->result.eval_top5;
  return e;
}

/* The event and the row; the sums of the next epoch begin. */
static vtb_status tell_epoch(vtb_trainer *t, vtb_error *err) {
  bool measured = vtb__is_measured(&t->bound);
  vtb_train_event e = epoch_event(t);
  e.best_top1 = t->state.best_top1;
  if (measured) e.train = &t->result.train;
  if (measured && e.evaluated) e.eval = &t->result.eval;
  if (t->log || t->board) VTB_TRY(vtb__log_epoch(t, &e, err));
  t->state.pending = false;
  t->state.loss_sum = 0;
  t->state.seen = t->state.correct = 0;
  vtb_measures_clear(&t->bound.measures);
  vtb__send(t, &e);
  return VTB_OK;
}

vtb_status vtb__epoch_settle(vtb_trainer *t, vtb_error *err) {
  vtb_status status = vtb__begin(t, err);
  take_training(t);
  if (status == VTB_OK && vtb__evaluation_due(t)) {
    vtb_eval_result r = {0};
    status = vtb_trainer_evaluate(t, &r, err);
    if (status != VTB_OK || r.stopped) return status;
    take_evaluation(t, &r);
    status = keep_best(t, &r, err);
  }
  t->changed = true;
  return status == VTB_OK ? tell_epoch(t, err) : status;
}

/* ---- within an epoch ------------------------------------------------------------------------- */

bool vtb__plan_is_over(const vtb_trainer *t) {
  return t->fit_total && t->state.step >= t->fit_total && !t->state.pending;
}

vtb_status vtb__judge_within(vtb_trainer *t, vtb_error *err) {
  const vtb_train_config *c = &t->config;
  vtb_eval_result r = {0};
  bool due = c->eval_steps > 0 && c->eval && c->eval_set && t->state.batch > 0 &&
             t->state.step % c->eval_steps == 0 && !vtb__plan_is_over(t);
  if (!due) return VTB_OK;
  take_training(t);
  vtb_status status = vtb_trainer_evaluate(t, &r, err);
  if (status != VTB_OK || r.stopped) return status;
  take_evaluation(t, &r);
  status = keep_best(t, &r, err);
  return status == VTB_OK && t->log ? vtb__log_judged(t, "eval", err) : status;
}

/* ---- a run that ended within an epoch -------------------------------------------------------- */

/* The row of an epoch that was not trained to its end. */
static vtb_status log_cut_epoch(vtb_trainer *t, vtb_error *err) {
  vtb_train_event e = epoch_event(t);
  return vtb__log_epoch(t, &e, err);
}

vtb_status vtb__judge_cut_run(vtb_trainer *t, vtb_error *err) {
  const vtb_train_config *c = &t->config;
  vtb_eval_result r = {0};
  bool over = vtb__plan_is_over(t);
  if (t->state.pending || (t->state.batch == 0 && (!t->fit_total || t->result.evaluated)))
    return VTB_OK;
  if (!t->begun && (!over || t->state.done)) return VTB_OK;
  VTB_TRY(vtb__begin(t, err));
  take_training(t);
  t->result.evaluated &= t->state.batch == 0; /* what an earlier epoch gave is not this one's */
  if (!c->eval || !c->eval_set || vtb__asked_to_stop(t)) return VTB_OK;
  vtb_status status = vtb_trainer_evaluate(t, &r, err);
  if (status != VTB_OK || r.stopped) return status;
  take_evaluation(t, &r);
  if (over) status = keep_best(t, &r, err); /* one that goes on would be judged twice */
  if (status == VTB_OK && t->log && t->state.batch > 0) status = log_cut_epoch(t, err);
  return status == VTB_OK && t->log ? vtb__log_judged(t, "end", err) : status;
}
