/* One update: begun, and judged when its results are there, which for programs that run ahead of
 * their results is some updates later. */
#include "runtime/base/random.h"
#include "runtime/launch/threads.h"
#include "runtime/train/train_internal.h"

#include <math.h>
#include <string.h>

/* One of several runs of an update, which its last run judges. */
static vtb_status take_part(vtb_trainer *t, const vtb_batch *batch) {
  vtb_bound *b = &t->bound;
  t->part.loss += (double)*(const float *)b->args[b->loss];
  t->part.n += batch->n;
  t->part.correct += vtb_optim_correct(t->optim, batch->n);
  vtb_measures_add(&b->measures, b->args);
  return VTB_OK;
}

/* The schedule is asked for the update that is `step` behind the first; *rate: its learning
 * rate. */
static vtb_status pace_of(vtb_trainer *t, int64_t step, double *rate, vtb_error *err) {
  const vtb_schedule *s = &t->config.schedule;
  const vtb_moment moment = {
      .t = step + 1, .total = s->total, .updates_an_epoch = t->batches, .batch = t->whole};
  vtb_pace pace = {s->lr, NAN, NAN};
  if (s->at) VTB_TRY(s->at(s->user, &moment, &pace, err));
  *rate = pace.rate * (s->factor > 0 ? s->factor : 1);
  return vtb_optim_follow(t->optim, &pace, err);
}

vtb_status vtb__issue(vtb_trainer *t, const vtb_batch *batch, vtb_error *err) {
  vtb_bound *b = &t->bound;
  int64_t step = t->state.step + t->n_issued;
  bool last = batch->piece == t->pieces - 1;
  /* draws of the rows of a batch: by their number in it, or of each run others */
  uint64_t draws = b->first < 0 && batch->piece ? (uint64_t)batch->piece << 40 : 0;
  int32_t seed = (int32_t)(vtb_random_u64(t->config.seed, (uint64_t)step + draws) >> 33);
  double lr;
  VTB_TRY(pace_of(t, step, &lr, err));
  vtb__bound_fill(b, batch);
  t->first_row = (int32_t)((t->rank * t->pieces + batch->piece) * t->rows);
  if (b->seed >= 0) b->args[b->seed] = &seed;
  if (b->first >= 0) b->args[b->first] = &t->first_row;
  vtb__scale_begin(t);
  vtb_optim_run_ahead(t->optim, t->n_issued);
  vtb_optim_piece(t->optim, batch->piece, t->pieces);
  t->config.step->is_part = !last;
  vtb_optim_prepare(t->optim, lr, (double)t->loss_scale);
  vtb_status status = t->most_issued ? b->program->submit(b->program->owner, b->args, err)
                                     : vtb_program_execute(b->program, b->args, b->workspace,
                                                           t->config.services, err);
  if (status == VTB_OK && last) status = vtb__shards_share(t, err);
  if (status != VTB_OK && t->n_ranks > 1) t->cannot_save = true; /* sums may be half done */
  if (status == VTB_OK && !last) return take_part(t, batch);
  if (status == VTB_OK) t->issued[t->n_issued++] = (vtb_issued){.n = batch->n, .lr = lr};
  return status;
}

bool vtb__must_settle(const vtb_trainer *t) {
  const vtb_train_config *c = &t->config;
  int64_t step = t->state.step + t->n_issued;
  return !t->most_issued || !t->begun || t->state.batch + t->n_issued == t->batches ||
         (c->checkpoint_steps > 0 && step % c->checkpoint_steps == 0) ||
         (c->eval_steps > 0 && step % c->eval_steps == 0) ||
         (c->max_steps > 0 && step >= c->max_steps);
}

/* ---- results --------------------------------------------------------------------------------- */

/* others: updates behind it that have begun. */
static vtb_status judge(vtb_trainer *t, const vtb_issued *u, int others, int64_t *correct,
                        vtb_error *err) {
  vtb_bound *b = &t->bound;
  t->lr = u->lr;
  t->loss = (t->part.loss + (double)*(const float *)b->args[b->loss]) / (double)t->pieces;
  if (!isfinite(t->loss) && others)
    return vtb_fail(err, VTB_E_NUMBERS,
                    "the loss is not finite at update %lld (learning rate %g), which changed "
                    "nothing; updates behind it had begun and are done",
                    (long long)t->state.step, t->lr);
  if (!isfinite(t->loss))
    return vtb_fail(err, VTB_E_NUMBERS,
                    "the loss is not finite at update %lld (learning rate %g); the parameters are "
                    "those before it",
                    (long long)t->state.step, t->lr);
  vtb_error inner = {0};
  vtb_status status = vtb_optim_judge(t->optim, u->n, &t->grad_norm, correct, &inner);
  t->stale |= status == VTB_OK;
  status = vtb__scale_end(t, status, &inner, err);
  if (status == VTB_OK) vtb_measures_add(&b->measures, b->args);
  return status;
}

/* n: samples, on all ranks. */
static void account(vtb_trainer *t, int64_t n, int64_t correct) {
  t->state.step++;
  t->state.batch++;
  t->state.seen += n;
  t->state.correct += correct;
  t->state.loss_sum += t->loss * (double)n;
  t->state.window_loss += t->loss * (double)n;
  t->state.window_seen += n;
  t->state.window_correct += correct;
  t->state.window_steps++;
  t->changed = true;
  t->images += n;
}

static void take_time(vtb_trainer *t, double seconds) {
  t->train_seconds += seconds;
  t->step_seconds = t->step_seconds > 0 ? 0.95 * t->step_seconds + 0.05 * seconds : seconds;
}

/* As many updates in all as the rest of the time holds at the present speed; reckoned anew some
 * fifty times a run, so that the log can tell all of it. */
static vtb_status replan(vtb_trainer *t, vtb_error *err) {
  vtb_train_config *c = &t->config;
  int64_t total = t->n_ranks > 1 ? t->vote.plan : vtb__plan_anew(t);
  if (!total) return VTB_OK;
  t->planned_at = t->state.step;
  t->planned_when = vtb_now();
  t->fit_total = total;
  c->schedule.total = t->fit_total;
  c->epochs = t->state.step / t->batches + 1; /* never the reason to stop */
  if (t->fit_total / t->batches >= c->epochs)
    c->epochs = (t->fit_total + t->batches - 1) / t->batches;
  return vtb__log_plan(t, t->state.step, t->fit_total, err);
}

static vtb_status tell_update(vtb_trainer *t, int64_t n, int64_t correct, vtb_error *err) {
  vtb_status status = vtb__begin(t, err);
  if (status == VTB_OK) status = replan(t, err);
  if (status != VTB_OK) return status;
  vtb_train_event e = vtb__event(t, VTB_TRAIN_STEP);
  e.accuracy = (double)correct / (double)n;
  e.following = t->following;
  vtb__send(t, &e);
  if ((t->log || t->board) && t->state.step % t->config.log_steps == 0)
    status = vtb__log_step(t, err);
  if (status == VTB_OK && t->state.window_steps >= (e.total_steps > 50 ? e.total_steps / 50 : 1))
    status = vtb__log_window(t, err);
  return status;
}

/* *seconds: each update's share of the time since the last results, once it is known. */
static vtb_status take_updates(vtb_trainer *t, const vtb_issued *u, int others, int all,
                               double *seconds, vtb_error *err) {
  const vtb_program *p = t->bound.program;
  int64_t n = t->part.n + u->n, correct = 0;
  bool logged = (t->state.step + 1) % t->config.log_steps == 0;
  if (t->most_issued) VTB_TRY(p->collect(p->owner, t->bound.args, err));
  if (*seconds < 0) {
    double now = vtb_now();
    *seconds = (now - t->issued_since) / all;
    t->issued_since = now;
  }
  vtb_status status = judge(t, u, others, &correct, err);
  correct += t->part.correct;
  memset(&t->part, 0, sizeof t->part);
  if (status != VTB_OK) return status;
  take_time(t, *seconds);
  status = vtb__vote(t, logged, &n, &correct, err);
  if (status != VTB_OK) {
    t->cannot_save = true; /* the update is done and not counted */
    return status;
  }
  account(t, n, correct);
  return tell_update(t, n, correct, err);
}

vtb_status vtb__settle(vtb_trainer *t, int leave, vtb_error *err) {
  int n = t->n_issued, end = n - leave, done = 0;
  double seconds = -1;
  vtb_status first = VTB_OK;
  for (; done < end; done++) {
    vtb_error later = {0};
    t->following = end - done - 1;
    vtb_status status = take_updates(t, &t->issued[done], n - done - 1, end, &seconds,
                                     first == VTB_OK ? err : &later);
    if (status == VTB_OK) continue;
    if (first == VTB_OK) first = status;
    end = n; /* what has begun changes the weights, so it counts */
    if (status == VTB_E_DEVICE) break;
  }
  if (first == VTB_E_DEVICE) end = n;
  for (int i = end; i < n; i++) t->issued[i - end] = t->issued[i];
  t->n_issued = n - end;
  return first;
}
