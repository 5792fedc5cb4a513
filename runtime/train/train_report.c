/* Progress: what a run tells, as text for a terminal or a file. */
#include "runtime/train/train_internal.h"

#include <string.h>
#include <unistd.h>

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

/* "iou 0.7312  acc 0.9120" */
static void put_values(vtb_strbuf *s, const vtb_measured_list *m, const char *prefix) {
  for (int i = 0; i < m->n; i++)
    if (!m->at[i].is_loss || vtb__count_losses(m) > 1)
      vtb_strbuf_printf(s, "  %s%s %.4f", prefix, m->at[i].name, m->at[i].value);
}

static void put_measured_epoch(vtb_strbuf *s, const vtb_train_event *e) {
  vtb_strbuf_printf(s, "epoch %lld/%lld  loss %.4f", (long long)e->epoch, (long long)e->n_epochs,
                    e->loss);
  put_values(s, e->train, "");
  if (e->eval) {
    vtb_strbuf_printf(s, "  eval loss %.4f", e->eval_loss);
    put_values(s, e->eval, "eval ");
    vtb_strbuf_printf(s, "  best %s %.4f", vtb_measured_score_name(e->eval), e->best_top1);
  }
}

static void put_classified_epoch(vtb_strbuf *s, const vtb_train_event *e) {
  vtb_strbuf_printf(s, "epoch %lld/%lld  loss %.4f  train %.2f%%", (long long)e->epoch,
                    (long long)e->n_epochs, e->loss, 100 * e->accuracy);
  if (e->evaluated)
    vtb_strbuf_printf(s, "  eval loss %.4f  top-1 %.2f%%  top-5 %.2f%%  best %.2f%%", e->eval_loss,
                      100 * e->eval_top1, 100 * e->eval_top5, 100 * e->best_top1);
}

static void put_epoch(vtb_strbuf *s, const vtb_train_event *e) {
  if (e->train)
    put_measured_epoch(s, e);
  else
    put_classified_epoch(s, e);
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
