/* A run's reports: events for the caller, rows and lines for the logs. */
#include "runtime/train/train_internal.h"

#include <string.h>

vtb_train_event vtb__event(const vtb_trainer *t, vtb_train_event_kind kind) {
  vtb_train_event e = {.kind = kind,
                       .step = t->state.step,
                       .total_steps = t->fit_total ? t->fit_total : t->batches * t->config.epochs,
                       .epoch = t->state.epoch,
                       .n_epochs = t->config.epochs,
                       .batch = t->state.batch,
                       .n_batches = t->batches,
                       .loss = t->loss,
                       .lr = t->lr,
                       .grad_norm = t->grad_norm,
                       .loss_scale = vtb__is_scaled(t) ? t->state.scale : 0,
                       .skipped = t->state.skipped,
                       .seconds = vtb_now() - t->started,
                       .seconds_left = -1,
                       .ranks = t->n_ranks,
                       .slowest = t->slowest,
                       .waited = t->waited};
  if (t->step_seconds > 0) {
    double left = (double)(e.total_steps - e.step) * t->step_seconds;
    if (t->config.max_seconds > 0 && t->config.max_seconds - e.seconds < left)
      left = t->config.max_seconds - e.seconds;
    e.seconds_left = left > 0 ? left : 0;
    e.images_per_second = (double)t->whole / t->step_seconds;
  }
  return e;
}

void vtb__send(const vtb_trainer *t, const vtb_train_event *e) {
  if (t->config.on_event && !t->rank) t->config.on_event(t->config.user, e);
}

/* ---- logs ------------------------------------------------------------------------------------ */

#define REAL(name, value) ((vtb_log_field){.key = name, .kind = VTB_LOG_REAL, .r = (value)})
#define INT(name, value) ((vtb_log_field){.key = name, .kind = VTB_LOG_INT, .i = (value)})

/* Fields as scalars of TensorBoard: "train/loss" of updates, "epoch/loss" and "eval/top1" of
 * epochs. */
static vtb_status put_board(vtb_trainer *t, const char *group, int64_t step,
                            const vtb_log_field *fields, size_t n, vtb_error *err) {
  vtb_board_value values[2 * VTB_MOST_MEASURES + 10];
  size_t count = 0;
  if (!t->board) return VTB_OK;
  for (size_t i = 0; i < n; i++) {
    const char *key = fields[i].key;
    bool eval = vtb_starts_with(key, "eval_");
    if (fields[i].kind != VTB_LOG_REAL || strcmp(key, "seconds") == 0) continue;
    vtb_board_value *v = &values[count++];
    snprintf(v->tag, sizeof v->tag, "%s/%s", eval ? "eval" : group, eval ? key + 5 : key);
    v->value = fields[i].r;
  }
  return vtb_board_put(t->board, step, values, count, err);
}

vtb_status vtb__log_step(vtb_trainer *t, vtb_error *err) {
  vtb_train_event e = vtb__event(t, VTB_TRAIN_STEP);
  vtb_log_field fields[12] = {INT("epoch", e.epoch),
                              REAL("loss", e.loss),
                              REAL("lr", e.lr),
                              REAL("grad_norm", e.grad_norm),
                              REAL("images_per_second", e.images_per_second),
                              REAL("seconds", t->state.seconds + e.seconds)};
  size_t n = 6;
  if (e.loss_scale > 0) {
    fields[n++] = REAL("loss_scale", e.loss_scale);
    fields[n++] = INT("skipped", e.skipped);
  }
  if (t->n_ranks > 1) {
    fields[n++] = INT("ranks", t->n_ranks);
    fields[n++] = REAL("rank_images_per_second", e.images_per_second / t->n_ranks);
    fields[n++] = REAL("waited", t->waited);
    fields[n++] = INT("slowest_rank", t->slowest);
  }
  vtb_status status = put_board(t, "train", e.step, fields, n, err);
  if (status != VTB_OK || !t->log) return status;
  return vtb_run_log_event(t->log, "step", e.step, fields, n, err);
}

/* Epochs so far, the one that is trained in part. */
static double epochs_of(const vtb_trainer *t) {
  double part = t->batches > 0 ? (double)t->state.batch / (double)t->batches : 0;
  return (double)t->state.epoch + part;
}

vtb_status vtb__log_window(vtb_trainer *t, vtb_error *err) {
  vtb_train_state *s = &t->state;
  double n = (double)s->window_seen;
  vtb_log_field fields[] = {REAL("loss", s->window_loss / n), REAL("epoch", epochs_of(t)),
                            REAL("accuracy", (double)s->window_correct / n)};
  s->window_loss = 0;
  s->window_seen = s->window_correct = s->window_steps = 0;
  if (!t->log) return VTB_OK;
  return vtb_run_log_event(t->log, "window", s->step, fields, vtb__is_measured(&t->bound) ? 2 : 3,
                           err);
}

vtb_status vtb__log_plan(vtb_trainer *t, int64_t step, int64_t total, vtb_error *err) {
  if (!t->log) return VTB_OK;
  vtb_log_field field = INT("total", total);
  return vtb_run_log_event(t->log, "plan", step, &field, 1, err);
}

/* The fields of a line about an epoch or a run, with the texts of those that the model names. */
typedef struct line {
  vtb_log_field at[2 * VTB_MOST_MEASURES + 10];
  char names[2 * VTB_MOST_MEASURES][80];
  size_t n, n_names;
} line;

static void put_field(line *l, vtb_log_field f) { l->at[l->n++] = f; }

/* A loss that is the only one is the field "loss". */
static void put_measures(line *l, const vtb_measured_list *m, const char *prefix, bool known) {
  for (int i = 0; i < m->n; i++) {
    if (m->at[i].is_loss && vtb_measured_losses(m) == 1) continue;
    char *name = l->names[l->n_names++];
    snprintf(name, sizeof l->names[0], "%s%s", prefix, m->at[i].name);
    put_field(l, (vtb_log_field){.key = name,
                                 .kind = VTB_LOG_REAL,
                                 .r = known ? m->at[i].value : (double)__builtin_nanf("")});
  }
}

/* Results of training, then of evaluation: those that the model declares, else a classifier's. */
static void put_results(line *l, const vtb_train_result *r, bool evaluated, bool measured) {
  double none = (double)__builtin_nanf("");
  put_field(l, REAL("loss", r->loss));
  if (measured)
    put_measures(l, &r->train, "", true);
  else
    put_field(l, REAL("accuracy", r->accuracy));
  put_field(l, REAL("eval_loss", evaluated ? r->eval_loss : none));
  if (measured) {
    put_measures(l, evaluated ? &r->eval : &r->train, "eval_", evaluated);
    return;
  }
  put_field(l, REAL("eval_top1", evaluated ? r->eval_top1 : none));
  put_field(l, REAL("eval_top5", evaluated ? r->eval_top5 : none));
}

/* The score that runs of this model are compared by: in the lines of events only. */
static void put_score(line *l, const vtb_measured_list *m) {
  int i = vtb_measured_main(m);
  put_field(
      l, (vtb_log_field){.key = "score", .kind = VTB_LOG_TEXT, .text = vtb_measured_score_name(m)});
  put_field(l, (vtb_log_field){.key = "better",
                               .kind = VTB_LOG_TEXT,
                               .text = i < 0 || m->at[i].lower ? "lower" : "higher"});
}

vtb_status vtb__log_epoch(vtb_trainer *t, const vtb_train_event *e, vtb_error *err) {
  bool measured = vtb__is_measured(&t->bound);
  line l = {.n = 0};
  put_field(&l, REAL("epoch", epochs_of(t)));
  put_results(&l, &t->result, e->evaluated, measured);
  put_field(&l, REAL("lr", e->lr));
  put_field(&l, REAL("images_per_second", e->images_per_second));
  put_field(&l, REAL("seconds", t->state.seconds + e->seconds));
  size_t columns = l.n;
  if (measured) put_score(&l, &t->result.train);
  vtb_status status = put_board(t, "epoch", e->step, l.at, columns, err);
  if (status != VTB_OK || !t->log) return status;
  status = vtb_run_log_event(t->log, "epoch", e->step, l.at, l.n, err);
  return status == VTB_OK ? vtb_run_log_row(t->log, e->step, l.at, columns, err) : status;
}

vtb_status vtb__log_judged(vtb_trainer *t, const char *event, vtb_error *err) {
  vtb_train_event e = vtb__event(t, VTB_TRAIN_END);
  bool measured = vtb__is_measured(&t->bound);
  line l = {.n = 0};
  put_field(&l, REAL("epoch", epochs_of(t)));
  put_results(&l, &t->result, t->result.evaluated, measured);
  put_field(&l, REAL("images_per_second", e.images_per_second));
  put_field(&l, REAL("seconds", t->state.seconds + e.seconds));
  if (measured) put_score(&l, &t->result.train);
  return vtb_run_log_event(t->log, event, e.step, l.at, l.n, err);
}

/* ---- the first thing that is written --------------------------------------------------------- */

/* The step of the last update whose epoch has a row: of a pending one the row is written again. */
static int64_t logged_epochs(const vtb_trainer *t) {
  return t->state.pending ? t->state.step - 1 : t->first_step - t->first_step % t->batches;
}

/* How an update's images are shared out, where they are. */
static vtb_status log_shares(vtb_trainer *t, vtb_error *err) {
  int64_t here, all;
  const vtb_schedule *s = &t->config.schedule;
  double peak = s->lr * (s->factor > 0 ? s->factor : 1);
  vtb__state_bytes(t, &here, &all);
  const vtb_log_field fields[] = {
      INT("batch", t->whole),        INT("ranks", t->n_ranks), INT("accumulate", t->pieces),
      INT("rank_batch", t->rows),    REAL("lr", peak),         INT("state_bytes", here),
      INT("state_bytes_of_all", all)};
  if (!t->log || t->rows == t->whole) return VTB_OK;
  return vtb_run_log_event(t->log, "begin", t->first_step, fields, sizeof fields / sizeof *fields,
                           err);
}

vtb_status vtb__begin(vtb_trainer *t, vtb_error *err) {
  const vtb_train_config *c = &t->config;
  t->begun |= t->rank > 0;
  if (t->begun) return VTB_OK;
  vtb_status status = c->on_begin ? c->on_begin(c->user, err) : VTB_OK;
  if (status == VTB_OK && c->log)
    status =
        vtb_run_log_open(c->log, t->resumed ? t->first_step : -1, logged_epochs(t), &t->log, err);
  if (status == VTB_OK && c->board)
    status = vtb_board_open(c->board, t->resumed ? t->first_step : -1, &t->board, err);
  t->begun = status == VTB_OK;
  if (status == VTB_OK && c->fit_seconds > 0)
    status = vtb__log_plan(t, t->first_step, c->schedule.total, err);
  return status == VTB_OK ? log_shares(t, err) : status;
}
