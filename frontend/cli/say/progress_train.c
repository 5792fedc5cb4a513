/* The progress of a training: see progress.h. */
#include "frontend/cli/say/progress.h"

#include <math.h>

static void add_skipped(cli_line *l, const vtb_train_event *e) {
  if (e->skipped) cli_line_add(l, "skipped %lld (scale %g)", (long long)e->skipped, e->loss_scale);
}

static double part_of(const vtb_train_event *e) {
  return e->n_batches > 0 ? (double)e->batch / (double)e->n_batches : -1;
}

static void show_step(const vtb_train_event *e) {
  cli_line l = {0};
  char left[32];
  /* The batch that ends an epoch is reported as that epoch's last. */
  int64_t epoch = e->epoch + 1 < e->n_epochs ? e->epoch + 1 : e->n_epochs;
  cli_line_add(&l, "epoch %lld/%lld", (long long)epoch, (long long)e->n_epochs);
  cli_line_add(&l, "%lld/%lld", (long long)e->batch, (long long)e->n_batches);
  cli_line_add(&l, "loss %.4f", e->loss);
  cli_line_add(&l, "left %s", cli_duration(e->seconds_left, left, sizeof left));
  cli_line_add(&l, "%.0f img/s", e->images_per_second);
  cli_line_add(&l, "lr %.2e", e->lr);
  if (e->ranks > 1) cli_line_add(&l, "waited %.0f %%", 100 * e->waited);
  add_skipped(&l, e);
  cli_progress_show(&l, part_of(e));
}

static void show_evaluation(const vtb_train_event *e) {
  cli_line l = {0};
  cli_line_add(&l, "epoch %lld/%lld", (long long)e->epoch, (long long)e->n_epochs);
  cli_line_add(&l, "evaluating %lld/%lld", (long long)e->batch, (long long)e->n_batches);
  cli_progress_show(&l, part_of(e));
}

/* "iou 0.7312"; what nothing in the data counted for was not measured. */
static void add_value(cli_line *l, const char *name, double value) {
  if (isnan(value))
    cli_line_add(l, "%s not measured", name);
  else
    cli_line_add(l, "%s %.4f", name, value);
}

static void add_values(cli_line *l, const vtb_measured_list *m, const char *prefix) {
  char name[CLI_FIELD_BYTES / 2];
  for (int i = 0; i < m->n; i++) {
    if (m->at[i].is_loss && vtb_measured_losses(m) < 2) continue;
    snprintf(name, sizeof name, "%s%s", prefix, m->at[i].name);
    add_value(l, name, m->at[i].value);
  }
}

/* The evaluation first: it is what an epoch is looked at for. */
static void add_measured(cli_line *l, const vtb_train_event *e) {
  if (e->eval) {
    add_values(l, e->eval, "eval ");
    cli_line_add(l, "eval loss %.4f", e->eval_loss);
    cli_line_add(l, "best %s %.4f", vtb_measured_score_name(e->eval), e->best_top1);
  } else {
    cli_line_add(l, "not evaluated");
  }
  add_values(l, e->train, "");
}

static void add_classified(cli_line *l, const vtb_train_event *e) {
  if (e->evaluated) {
    cli_line_add(l, "top-1 %.2f %%", 100 * e->eval_top1);
    cli_line_add(l, "best %.2f %%", 100 * e->best_top1);
    cli_line_add(l, "eval loss %.4f", e->eval_loss);
  } else {
    cli_line_add(l, "not evaluated");
  }
  cli_line_add(l, "train %.2f %%", 100 * e->accuracy);
  if (e->evaluated) cli_line_add(l, "top-5 %.2f %%", 100 * e->eval_top5);
}

static void print_epoch(const vtb_train_event *e) {
  cli_line l = {0};
  char time[32];
  cli_line_add(&l, "epoch %lld/%lld", (long long)e->epoch, (long long)e->n_epochs);
  cli_line_add(&l, "loss %.4f", e->loss);
  if (e->train)
    add_measured(&l, e);
  else
    add_classified(&l, e);
  cli_line_add(&l, "%s", cli_duration(e->seconds, time, sizeof time));
  cli_line_add(&l, "%.0f img/s", e->images_per_second);
  add_skipped(&l, e);
  cli_progress_print(&l);
}

static void say_ranks(const vtb_train_event *e) {
  if (e->ranks < 2 || !(e->images_per_second > 0)) return;
  cli_say(
      "%d ranks: %.0f img/s each; they waited %.0f %% of the time for each other, rank %d least",
      e->ranks, e->images_per_second / e->ranks, 100 * e->waited, e->slowest);
}

void cli_progress_train(const vtb_train_event *e) {
  switch (e->kind) {
  case VTB_TRAIN_START:
    cli_say("%s", e->text);
    break;
  case VTB_TRAIN_END:
    cli_say("%s after %lld updates", e->text, (long long)e->step);
    say_ranks(e);
    break;
  case VTB_TRAIN_EPOCH:
    print_epoch(e);
    break;
  case VTB_TRAIN_CHECKPOINT:
    break;
  case VTB_TRAIN_STEP:
    if (!e->following && cli_progress_due()) show_step(e);
    break;
  case VTB_TRAIN_EVAL_STEP:
    if (cli_progress_due()) show_evaluation(e);
    break;
  }
}
