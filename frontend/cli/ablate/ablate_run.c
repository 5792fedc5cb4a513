/* vertebra ablate: from a study to its report: what is done, told on the terminal as it goes on. */
#include "frontend/cli/ablate/ablate.h"
#include "frontend/cli/ablate/ablate_table.h"
#include "frontend/cli/interrupt.h"
#include "frontend/cli/say/progress.h"
#include "frontend/report/page.h"
#include "frontend/study/against.h"
#include "frontend/study/results.h"
#include "frontend/study/run.h"

#include <math.h>
#include <string.h>

typedef struct session {
  const ablate_options *options;
  study_cells cells;
  study_work work;
  study_launch launch;
  cJSON *results, *old; /* old: of the report that it is compared with; NULL: none */
  double written;       /* when */
} session;

/* ---- progress -------------------------------------------------------------------------------- */

static const char *label_of(const session *s, const study_task *t) {
  return t->cell >= 0 ? s->cells.at[t->cell].label : "the machine";
}

/* "train of seed 1" */
static void put_step(cli_line *l, const study_task *t) {
  const char *name = study_task_name(t);
  if (t->step == STUDY_TRAIN || t->step == STUDY_EVAL)
    cli_line_add(l, "%s of seed %d", name, t->n);
  else if (t->step == STUDY_BENCH || t->step == STUDY_PEAK)
    cli_line_add(l, "%s, round %d", name, t->n + 1);
  else
    cli_line_add(l, "%s", name);
}

static void show(const session *s, const study_event *e) {
  char left[32];
  cli_line l = {.cut = true};
  cli_line_add(&l, "%d of %d steps", e->done, e->total);
  if (e->left >= 0) cli_line_add(&l, "left %s", cli_duration(e->left, left, sizeof left));
  if (e->task) put_step(&l, e->task);
  if (e->task) cli_line_add(&l, "%s", label_of(s, e->task));
  cli_progress_show(&l, e->total ? (double)e->done / e->total : -1);
}

/* The result of a step: "top1 0.8812", "1.03 ms". */
static void put_result(cli_line *l, const study_task *t) {
  static const struct {
    int step;
    const char *name, *as;
  } rows[] = {{STUDY_TRAIN, "eval_top1", "val top1 %.4f"},
              {STUDY_TRAIN, "loss", "loss %.4f"},
              {STUDY_EVAL, "top1", "test top1 %.4f"},
              {STUDY_BENCH, "best_ms", "%.4g ms"},
              {STUDY_PEAK, "product_gflops", "%.1f GFLOP/s"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    double x = study_number(t->record.document, rows[i].name);
    char text[64];
    if (rows[i].step != t->step || !isfinite(x)) continue;
    snprintf(text, sizeof text, rows[i].as, x);
    cli_line_add(l, "%s", text);
  }
}

/* Checks and pictures are quick and many: only what failed of them is told, and that not here. */
static void tell_end(const session *s, const study_event *e) {
  const study_task *t = e->task;
  char seconds[32];
  cli_line l = {.cut = true};
  bool ok = study_record_ok(&t->record);
  if (t->step == STUDY_PATHS || (t->step == STUDY_CHECK && ok)) return;
  cli_line_add(&l, "%*d/%d", e->total > 99 ? 3 : 2, e->done, e->total);
  put_step(&l, t);
  cli_line_add(&l, "%s", label_of(s, t));
  if (ok) {
    put_result(&l, t);
    cli_line_add(&l, "%s", cli_duration(t->record.seconds, seconds, sizeof seconds));
  } else {
    char *why = study_record_message(&t->record);
    why[strcspn(why, "\n")] = 0;
    cli_line_add(&l, "%s: %s", t->step == STUDY_CHECK ? "cannot be" : "failed", why);
    vtb_free(why);
  }
  cli_progress_print(&l);
}

static void on_event(void *user, const study_event *e) {
  session *s = user;
  if (s->launch.rank) return;
  if (e->kind == STUDY_SAYS) {
    cli_say("%s", e->text);
    return;
  }
  if (e->kind == STUDY_ENDED) tell_end(s, e);
  if (e->kind == STUDY_BEGAN && e->resumed)
    cli_say("%s: training of seed %d goes on where it stood", label_of(s, e->task), e->task->n);
  if (e->kind != STUDY_TICK || cli_progress_due()) show(s, e);
}

/* ---- the report ------------------------------------------------------------------------------ */

static vtb_status write_page(const session *s, vtb_error *err) {
  vtb_strbuf page = {0}, path = {0};
  vtb_status status = report_page(s->results, &page, err);
  vtb_strbuf_printf(&path, "%s/index.html", s->options->folder);
  if (status == VTB_OK) status = vtb_file_write_atomic(path.at, page.at, page.n, err);
  vtb_strbuf_free(&path);
  vtb_strbuf_free(&page);
  return status;
}

/* As often as one could look at it. */
static vtb_status on_results(void *user, const study_work *w, bool last, vtb_error *err) {
  enum { SECONDS = 2 };
  session *s = user;
  if (!last && vtb_now() - s->written < SECONDS) return VTB_OK;
  cJSON_Delete(s->results);
  s->results = study_results(w);
  if (s->old)
    cJSON_AddItemToObject(s->results, "against",
                          study_against(s->results, s->old, s->options->against));
  vtb_status status = study_results_write(s->results, s->options->folder, err);
  if (status == VTB_OK) status = write_page(s, err);
  s->written = vtb_now();
  return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* The study of the folder is this one, or there is none yet. */
static vtb_status enter(const session *s, const study *what, vtb_error *err) {
  vtb_strbuf path = {0}, text = {0};
  char *there = NULL;
  size_t n;
  vtb_status status = vtb_make_dirs(s->options->folder, err);
  vtb_strbuf_printf(&path, "%s/study.yaml", s->options->folder);
  study_text(what, &text);
  if (status == VTB_OK && vtb_path_exists(path.at)) {
    status = vtb_file_read(path.at, 1 << 26, &there, &n, err);
    if (status == VTB_OK && strcmp(there, vtb_strbuf_text(&text)) != 0 && !s->options->extend)
      status = vtb_fail(err, VTB_E_USAGE,
                        "%s holds another study (%s): give a new folder by -o, or --extend to "
                        "keep what both have",
                        s->options->folder, path.at);
  }
  if (status == VTB_OK && !s->launch.rank && !vtb_streq(there, vtb_strbuf_text(&text)))
    status = vtb_file_write_atomic(path.at, vtb_strbuf_text(&text), text.n, err);
  vtb_free(there);
  vtb_strbuf_free(&text);
  vtb_strbuf_free(&path);
  return status;
}

static vtb_status run_study(session *s, const study *what, vtb_error *err) {
  const study_run_options o = {.launch = s->launch,
                               .retry = s->options->retry,
                               .stop = cli_interrupt_wait(),
                               .on_event = on_event,
                               .on_results = on_results,
                               .user = s};
  study_work_begin(&s->work, what, &s->cells, s->options->folder);
  vtb_status status = study_run(&s->work, &o, err);
  cli_progress_clear();
  return status;
}

static void report(const session *s, vtb_status status) {
  if (s->launch.rank || !s->results) return;
  if ((int)status > 128) cli_say("interrupted: the same command goes on with it");
  if (cli_json())
    cli_print_json(cJSON_Duplicate(s->results, true));
  else
    ablate_print_table(s->results);
  if (!cli_json()) ablate_print_against(s->results);
  if (!cli_json()) printf("page: %s/index.html\n", s->options->folder);
}

/* Cells that were meant to run and did not. */
static vtb_status failures(const session *s) {
  const cJSON *cell;
  cJSON_ArrayForEach(cell, study_member(s->results, "cells")) {
    if (strcmp(study_text_of(cell, "status"), "failed") == 0) return VTB_E_INPUT;
  }
  return VTB_OK;
}

vtb_status ablate_run(study *what, const ablate_options *o) {
  vtb_error err = {0};
  session s = {.options = o};
  vtb_status status = study_launch_find(o->launcher, &s.launch, &err);
  if (status == VTB_OK) status = study_design(what, &s.cells, &err);
  if (status == VTB_OK && o->against) status = study_results_read(o->against, &s.old, &err);
  if (status == VTB_OK) status = enter(&s, what, &err);
  if (status == VTB_OK) status = run_study(&s, what, &err);
  if (status == VTB_OK || (int)status > 128) report(&s, status);
  if (status == VTB_OK) status = failures(&s);
  if (err.text[0]) cli_error(&err);
  study_work_free(&s.work);
  study_cells_free(&s.cells);
  cJSON_Delete(s.results);
  cJSON_Delete(s.old);
  return status;
}
