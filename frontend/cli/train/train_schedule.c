/* See train_schedule.h. */
#include "frontend/cli/train/train_schedule.h"

#include "frontend/cli/say/progress.h"
#include "frontend/draw/plot.h"

#include <math.h>

/* The moment with all that the command knows of it. */
static vtb_moment complete(const train_options *o, vtb_moment m) {
  m.lr = o->train.schedule.lr;
  m.final = o->final_lr;
  m.warmup = o->warm;
  m.decay = o->decay;
  m.ema = o->train.optim.ema_decay;
  return m;
}

static vtb_status at(void *user, const vtb_moment *moment, vtb_pace *pace, vtb_error *err) {
  train_schedule *s = user;
  const vtb_moment m = complete(s->options, *moment);
  if (vtb_schedule_at(s->source, &m, pace) == VTB_OK) return VTB_OK;
  cli_report(&s->options->model, VTB_E_INPUT);
  return vtb_fail(err, VTB_E_INPUT, "the schedule has no rate for update %lld", (long long)m.t);
}

/* Options that the schedule has no use for, where they are not as they are anyway. */
static void say_unread(const train_schedule *s, const train_options *o) {
  const struct {
    const char *name, *option;
    bool given;
  } all[] = {{"final", "--final-lr", o->final_lr != TRAIN_FINAL_LR},
             {"warmup", "--warmup", o->warmup != TRAIN_WARMUP || o->warmup_updates}};
  for (size_t i = 0; i < sizeof all / sizeof *all && !o->quiet; i++)
    if (all[i].given && !vtb_schedule_reads(s->source, all[i].name))
      cli_say("%s changes nothing: schedule %s does not read `%s`", all[i].option, o->schedule,
              all[i].name);
}

vtb_status train_schedule_open(train_schedule *s, train_options *o, train_programs *p) {
  const char *text = o->schedule ? o->schedule : CLI_DEFAULT_SCHEDULE;
  s->options = o;
  vtb_status status = vtb_schedule_open(text, &o->model.compile, &s->source, o->model.report);
  if (status != VTB_OK) return cli_report(&o->model, status);
  train_programs_keep(p, vtb_schedule_unit(s->source));
  say_unread(s, o);
  o->train.schedule.at = at;
  o->train.schedule.user = s;
  return VTB_OK;
}

vtb_status train_schedule_try(train_schedule *s) {
  const train_options *o = s->options;
  int64_t batch = o->train.step->batch * vtb_ranks_count(o->train.ranks) *
                  (o->train.accumulate > 1 ? o->train.accumulate : 1);
  vtb_moment m = {.total = o->train.schedule.total, .batch = batch};
  m.updates_an_epoch = vtb_loader_batches(vtb_dataset_count(o->train.train_set), batch, true);
  const vtb_moment whole = complete(o, m);
  return cli_report(&o->model, vtb_schedule_try(s->source, &whole));
}

/* ---- as a picture ---------------------------------------------------------------------------- */

vtb_status train_schedule_draw(const train_options *o, const char *path) {
  enum { POINTS = 1000, AN_EPOCH = 100 };
  const char *text = o->schedule ? o->schedule : CLI_DEFAULT_SCHEDULE;
  vtb_schedule_source *source = NULL;
  vtb_status status = vtb_schedule_open(text, &o->model.compile, &source, o->model.report);
  vtb_moment m = {.total = o->updates ? o->updates : o->train.epochs * AN_EPOCH,
                  .updates_an_epoch = AN_EPOCH,
                  .batch = o->model.compile.batch ? o->model.compile.batch : 64};
  m = complete(o, m);
  m.warmup = o->warmup_updates ? o->warmup_updates : (int64_t)(o->warmup * AN_EPOCH);
  if (isnan(m.decay)) m.decay = 0;
  int64_t n = m.total < POINTS ? m.total : POINTS;
  double *x = vtb_xcalloc(2 * (size_t)n + 1, sizeof *x), *y = x + n;
  for (int64_t i = 0; i < n && status == VTB_OK; i++) {
    vtb_pace pace;
    m.t = n > 1 ? 1 + (m.total - 1) * i / (n - 1) : 1;
    status = vtb_schedule_at(source, &m, &pace);
    x[i] = o->updates ? (double)m.t : (double)(m.t - 1) / AN_EPOCH;
    y[i] = pace.rate;
  }
  const plot_series series = {.name = text, .x = x, .y = y, .n = (size_t)n};
  const plot p = {.title = text,
                  .x_label = o->updates ? "update" : "epoch",
                  .y_label = "learning rate",
                  .series = &series,
                  .n_series = 1};
  vtb_error err = {0};
  cli_report(&o->model, status);
  if (status == VTB_OK) status = plot_save(&p, path, &err);
  if (err.text[0]) cli_error(&err);
  vtb_free(x);
  vtb_schedule_free(source);
  return status;
}

void train_schedule_free(train_schedule *s) { vtb_schedule_free(s->source); }
