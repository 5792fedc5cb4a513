/* What a run tells: events for the caller, rows and lines for the logs, text for a terminal. */
#include "runtime/train/train_internal.h"

#include <string.h>
#include <unistd.h>

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
                       .seconds_left = -1};
  if (t->step_seconds > 0) {
    double left = (double)(e.total_steps - e.step) * t->step_seconds;
    if (t->config.max_seconds > 0 && t->config.max_seconds - e.seconds < left)
      left = t->config.max_seconds - e.seconds;
    e.seconds_left = left > 0 ? left : 0;
    e.images_per_second = (double)t->bound.program->batch / t->step_seconds;
  }
  return e;
}

void vtb__send(const vtb_trainer *t, const vtb_train_event *e) {
  if (t->config.on_event) t->config.on_event(t->config.user, e);
}

/* ---- logs ------------------------------------------------------------------------------------ */

#define REAL(name, value) ((vtb_log_field){.key = name, .kind = VTB_LOG_REAL, .r = (value)})
#define INT(name, value) ((vtb_log_field){.key = name, .kind = VTB_LOG_INT, .i = (value)})

vtb_status vtb__log_step(vtb_trainer *t, vtb_error *err) {
  vtb_train_event e = vtb__event(t, VTB_TRAIN_STEP);
  vtb_log_field fields[] = {INT("epoch", e.epoch),
                            REAL("loss", e.loss),
                            REAL("lr", e.lr),
                            REAL("grad_norm", e.grad_norm),
                            REAL("images_per_second", e.images_per_second),
                            REAL("seconds", t->state.seconds + e.seconds),
                            REAL("loss_scale", e.loss_scale),
                            INT("skipped", e.skipped)};
  size_t n = sizeof fields / sizeof *fields - (e.loss_scale > 0 ? 0 : 2);
  return vtb_run_log_event(t->log, "step", e.step, fields, n, err);
}

vtb_status vtb__log_epoch(vtb_trainer *t, const vtb_train_event *e, vtb_error *err) {
  double none = (double)__builtin_nanf("");
  vtb_log_field fields[] = {INT("epoch", e->epoch),
                            REAL("loss", e->loss),
                            REAL("accuracy", e->accuracy),
                            REAL("eval_loss", e->evaluated ? e->eval_loss : none),
                            REAL("eval_top1", e->evaluated ? e->eval_top1 : none),
                            REAL("eval_top5", e->evaluated ? e->eval_top5 : none),
                            REAL("lr", e->lr),
                            REAL("images_per_second", e->images_per_second),
                            REAL("seconds", t->state.seconds + e->seconds)};
  size_t n = sizeof fields / sizeof *fields;
  vtb_status status = vtb_run_log_event(t->log, "epoch", e->step, fields, n, err);
  return status == VTB_OK ? vtb_run_log_row(t->log, e->step, fields, n, err) : status;
}

vtb_status vtb__log_end(vtb_trainer *t, vtb_error *err) {
  vtb_train_event e = vtb__event(t, VTB_TRAIN_END);
  double part = t->batches > 0 ? (double)t->state.batch / (double)t->batches : 0;
  vtb_log_field fields[] = {REAL("epoch", (double)t->state.epoch + part),
                            REAL("loss", t->result.loss),
                            REAL("accuracy", t->result.accuracy),
                            REAL("eval_loss", t->result.eval_loss),
                            REAL("eval_top1", t->result.eval_top1),
                            REAL("eval_top5", t->result.eval_top5),
                            REAL("images_per_second", e.images_per_second),
                            REAL("seconds", t->state.seconds + e.seconds)};
  return vtb_run_log_event(t->log, "end", e.step, fields, sizeof fields / sizeof *fields, err);
}

/* ---- a terminal, or a file of lines ---------------------------------------------------------- */

vtb_progress vtb_progress_to(FILE *out) {
  return (vtb_progress){
      .out = out, .terminal = isatty(fileno(out)), .plain_seconds = 10, .last = -1e9};
}

static void put_duration(vtb_strbuf *s, double seconds) {
  long long t = seconds < 0 ? -1 : (long long)(seconds + 0.5);
  if (t < 0)
    vtb_strbuf_puts(s, "?");
  else if (t < 60)
    vtb_strbuf_printf(s, "%llds", t);
  else if (t < 3600)
    vtb_strbuf_printf(s, "%lld:%02lld", t / 60, t % 60);
  else
    vtb_strbuf_printf(s, "%lld:%02lld:%02lld", t / 3600, t / 60 % 60, t % 60);
}

static void put_bar(vtb_strbuf *s, int64_t done, int64_t total) {
  enum { WIDTH = 20 };
  int64_t full = total > 0 ? done * WIDTH / total : 0;
  vtb_strbuf_putc(s, '[');
  for (int i = 0; i < WIDTH; i++) vtb_strbuf_putc(s, i < full ? '=' : i == full ? '>' : ' ');
  vtb_strbuf_putc(s, ']');
}

static void put_skipped(vtb_strbuf *s, const vtb_train_event *e) {
  if (e->skipped)
    vtb_strbuf_printf(s, "  skipped %lld (scale %g)", (long long)e->skipped, e->loss_scale);
}

static void put_step(vtb_strbuf *s, const vtb_train_event *e, bool bar) {
  /* The batch that ends an epoch is reported as that epoch's last. */
  int64_t epoch = e->epoch + 1 < e->n_epochs ? e->epoch + 1 : e->n_epochs;
  vtb_strbuf_printf(s, "epoch %lld/%lld ", (long long)epoch, (long long)e->n_epochs);
  if (bar) put_bar(s, e->batch, e->n_batches);
  vtb_strbuf_printf(s, " %lld/%lld  loss %.4f  lr %.2e  %.0f img/s  left ", (long long)e->batch,
                    (long long)e->n_batches, e->loss, e->lr, e->images_per_second);
  put_duration(s, e->seconds_left);
  put_skipped(s, e);
}

static void put_epoch(vtb_strbuf *s, const vtb_train_event *e) {
  vtb_strbuf_printf(s, "epoch %lld/%lld  loss %.4f  train %.2f%%", (long long)e->epoch,
                    (long long)e->n_epochs, e->loss, 100 * e->accuracy);
  if (e->evaluated)
    vtb_strbuf_printf(s, "  eval loss %.4f  top-1 %.2f%%  top-5 %.2f%%  best %.2f%%", e->eval_loss,
                      100 * e->eval_top1, 100 * e->eval_top5, 100 * e->best_top1);
  vtb_strbuf_printf(s, "  %.0f img/s  ", e->images_per_second);
  put_duration(s, e->seconds);
  put_skipped(s, e);
}

/* Overwrites what the last transient line left. */
static void show(vtb_progress *p, const char *text, bool transient) {
  int n = (int)strlen(text);
  if (p->width > 0) fprintf(p->out, "\r%*s\r", p->width, "");
  fputs(text, p->out);
  p->width = transient ? n : 0;
  if (!transient) fputc('\n', p->out);
  fflush(p->out);
}

void vtb_progress_event(void *progress, const vtb_train_event *e) {
  vtb_progress *p = progress;
  vtb_strbuf s = VTB_CHECKED_STRBUF; /* without memory there is no line */
  bool transient = false, wanted = true;
  double interval = p->terminal ? 0.1 : p->plain_seconds > 0 ? p->plain_seconds : 10;
  switch (e->kind) {
  case VTB_TRAIN_START:
    vtb_strbuf_puts(&s, e->text);
    break;
  case VTB_TRAIN_END:
    vtb_strbuf_printf(&s, "%s after %lld updates", e->text, (long long)e->step);
    break;
  case VTB_TRAIN_EPOCH:
    put_epoch(&s, e);
    break;
  case VTB_TRAIN_CHECKPOINT:
    wanted = false;
    break;
  case VTB_TRAIN_STEP:
  case VTB_TRAIN_EVAL_STEP:
    transient = p->terminal;
    wanted = vtb_now() - p->last >= interval && (p->terminal || e->kind == VTB_TRAIN_STEP);
    if (!wanted) break;
    p->last = vtb_now();
    if (e->kind == VTB_TRAIN_STEP) {
      put_step(&s, e, p->terminal);
    } else {
      vtb_strbuf_puts(&s, "evaluating ");
      put_bar(&s, e->batch, e->n_batches);
      vtb_strbuf_printf(&s, " %lld/%lld", (long long)e->batch, (long long)e->n_batches);
    }
    break;
  }
  if (wanted && !s.failed) show(p, s.at, transient);
  vtb_strbuf_free(&s);
}
