/* A study's run, phase by phase. */
#include "frontend/study/runner.h"

#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TICK = 500, ELSEWHERE = 200 }; /* milliseconds */

/* ---- telling --------------------------------------------------------------------------------- */

bool study_stops(const study_runner *r) { return r->options->stop && *r->options->stop; }

vtb_status study_stopped(const study_runner *r) {
  return study_stops(r) ? (vtb_status)(128 + *r->options->stop) : VTB_OK;
}

/* Seconds of the steps that are left, by the mean of their kind. */
static double time_left(const study_runner *r, size_t jobs) {
  double left = 0;
  bool known = false;
  for (size_t i = 0; i < r->work->tasks.n; i++) {
    const study_task *t = &r->work->tasks.at[i];
    study_task_state s = study_work_state(r->work, t);
    if (s == STUDY_TASK_DONE || s == STUDY_TASK_DROPPED || !r->ended[t->step]) continue;
    left += r->seconds[t->step] / r->ended[t->step] / (t->step == STUDY_BENCH ? 1 : (double)jobs);
    known = true;
  }
  return known ? left : -1;
}

static void tell_event(const study_runner *r, study_event e) {
  for (size_t i = 0; i < r->work->tasks.n; i++) {
    study_task_state s = study_work_state(r->work, &r->work->tasks.at[i]);
    if (r->work->tasks.at[i].step == STUDY_PATHS || s == STUDY_TASK_DROPPED) continue;
    e.total++;
    e.done += s == STUDY_TASK_DONE;
  }
  e.left = time_left(r, r->n ? r->n : 1);
  r->options->on_event(r->options->user, &e);
}

void study_says(const study_runner *r, const char *fmt, ...) {
  va_list ap;
  vtb_strbuf text = {0};
  va_start(ap, fmt);
  vtb_strbuf_vprintf(&text, fmt, ap);
  va_end(ap);
  r->options->on_event(r->options->user, &(study_event){.kind = STUDY_SAYS, .text = text.at});
  vtb_strbuf_free(&text);
}

/* ---- one step -------------------------------------------------------------------------------- */

static void stamp(char *out, size_t size) {
  time_t now = time(NULL);
  struct tm utc;
  gmtime_r(&now, &utc);
  strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/* The claim of a task, whose record may have come meanwhile. */
static vtb_status claim(study_runner *r, study_task *t, study_claim *c, bool *taken,
                        vtb_error *err) {
  char *path = study_task_path(r->work, t, ".claim");
  if (t->cell >= 0) {
    char *folder = study_cell_folder(r->work->folder, r->work->cells->at[t->cell].id);
    vtb_status made = vtb_make_dirs(folder, err);
    vtb_free(folder);
    if (made != VTB_OK) {
      vtb_free(path);
      return made;
    }
  }
  vtb_status status = study_claim_take(c, path, taken, err);
  vtb_free(path);
  if (status == VTB_OK && *taken) status = study_task_load(r->work, t, err);
  if (t->known || status != VTB_OK) {
    study_claim_give(c);
    *taken = false;
  }
  return status;
}

/* begun: false where the step is another process's, or is done. */
static vtb_status begin_step(study_runner *r, size_t task, size_t slot, bool *begun,
                             vtb_error *err) {
  study_task *t = &r->work->tasks.at[task];
  study_slot *s = &r->slots[slot];
  *begun = false;
  *s = (study_slot){.task = task, .claim = {.file = -1}};
  vtb_status status = claim(r, t, &s->claim, begun, err);
  if (status != VTB_OK || !*begun) return status;
  s->resumed = study_task_can_resume(r->work, t);
  status = study_task_prepare(r->work, t, s->resumed, err);
  study_task_words(r->work, t, s->resumed, &s->words);
  stamp(s->began, sizeof s->began);
  if (status == VTB_OK) status = study_worker_start(&r->workers[slot], &s->words, err);
  if (status != VTB_OK) {
    study_texts_free(&s->words);
    study_claim_give(&s->claim);
    return status;
  }
  t->running = true;
  tell_event(r, (study_event){.kind = STUDY_BEGAN, .task = t, .resumed = s->resumed});
  return VTB_OK;
}

/* The command of a record is the one that begins anew: it is what a person would repeat. */
static study_record make_record(study_runner *r, const study_slot *s, const study_task *t,
                                study_ending *e) {
  study_record out = {.step = study_task_name(t),
                      .n = t->n,
                      .key = study_task_key(r->work, t),
                      .status = e->status,
                      .signal = e->signal,
                      .seconds = e->seconds,
                      .cpu_seconds = e->cpu_seconds,
                      .others = e->others,
                      .peak_bytes = e->peak_bytes,
                      .host = vtb_xstrdup(r->host),
                      .began = vtb_xstrdup(s->began),
                      .messages = e->messages,
                      .document = cJSON_Parse(e->out)};
  study_task_words(r->work, t, false, &out.command);
  e->messages = NULL;
  return out;
}

/* A step that did not end by itself leaves no record. */
static vtb_status end(study_runner *r, size_t slot, study_ending *e, vtb_error *err) {
  study_slot *s = &r->slots[slot];
  study_task *t = &r->work->tasks.at[s->task];
  bool whole = e->signal == 0 && e->status == 0;
  vtb_status status = VTB_OK;
  t->running = false;
  if (whole || !study_stops(r)) {
    study_record record = make_record(r, s, t, e);
    r->seconds[t->step] += e->seconds;
    r->ended[t->step]++;
    status = study_task_finish(r->work, t, &record, err);
    if (status == VTB_OK) tell_event(r, (study_event){.kind = STUDY_ENDED, .task = t});
  }
  study_claim_give(&s->claim);
  study_texts_free(&s->words);
  study_ending_free(e);
  return status;
}

/* ---- many steps ------------------------------------------------------------------------------ */

/* Workers are told once; what they do then is their own affair. */
static void pass_on(study_runner *r) {
  if (r->told || !study_stops(r)) return;
  r->told = true;
  for (size_t i = 0; i < r->n; i++) study_worker_signal(&r->workers[i], SIGTERM);
}

static size_t count_running(const study_runner *r) {
  size_t n = 0;
  for (size_t i = 0; i < r->n; i++) n += r->workers[i].pid != 0;
  return n;
}

static size_t free_slot(const study_runner *r) {
  size_t i = 0;
  while (i < r->n && r->workers[i].pid) i++;
  return i;
}

/* Fills what slots are free; *left: whether steps remain that do not run here. */
static vtb_status fill_slots(study_runner *r, unsigned steps, bool *left, vtb_error *err) {
  vtb_status status = VTB_OK;
  *left = false;
  for (size_t i = 0; i < r->work->tasks.n && status == VTB_OK; i++) {
    const study_task *t = &r->work->tasks.at[i];
    if (!(steps >> t->step & 1) || t->running) continue;
    study_task_state state = study_work_state(r->work, t);
    if (state == STUDY_TASK_DONE || state == STUDY_TASK_DROPPED) continue;
    size_t slot = free_slot(r);
    bool begun = false;
    if (state == STUDY_TASK_READY && slot < r->n && !study_stops(r))
      status = begin_step(r, i, slot, &begun, err);
    *left |= !begun && !t->known;
  }
  return status;
}

/* After a wait. */
static vtb_status collect_ended(study_runner *r, vtb_error *err) {
  vtb_status status = VTB_OK;
  bool any = false;
  for (size_t i = 0; i < r->n; i++) {
    study_ending e;
    if (!r->workers[i].pid || !study_worker_ended(&r->workers[i], &e)) continue;
    vtb_status s = end(r, i, &e, err);
    if (status == VTB_OK) status = s;
    any = true;
  }
  if (status == VTB_OK && any && !r->options->launch.rank)
    status = r->options->on_results(r->options->user, r->work, false, err);
  return status;
}

static void tick(const study_runner *r) {
  const study_task *shown = NULL;
  for (size_t i = 0; i < r->n; i++)
    if (r->workers[i].pid && !shown) shown = &r->work->tasks.at[r->slots[i].task];
  tell_event(r, (study_event){.kind = STUDY_TICK, .task = shown});
}

/* Where this process cannot go on: no worker is left behind. */
static void give_up(study_runner *r) {
  for (size_t i = 0; i < r->n; i++) study_worker_signal(&r->workers[i], SIGTERM);
  while (count_running(r)) {
    study_workers_wait(r->workers, r->n, TICK);
    for (size_t i = 0; i < r->n; i++) {
      study_ending e;
      if (!r->workers[i].pid || !study_worker_ended(&r->workers[i], &e)) continue;
      study_claim_give(&r->slots[i].claim);
      study_texts_free(&r->slots[i].words);
      study_ending_free(&e);
    }
  }
}

/* Steps of the kinds in `steps` (1 << step) until all are done or dropped, `jobs` at a time; those
 * that other processes have claimed are waited for. VTB_OK, or 128 + the signal. */
static vtb_status run_steps(study_runner *r, unsigned steps, size_t jobs, vtb_error *err) {
  vtb_status status = VTB_OK;
  r->n = jobs < STUDY_MOST_JOBS ? jobs : STUDY_MOST_JOBS;
  memset(r->workers, 0, sizeof r->workers);
  while (status == VTB_OK) {
    bool left;
    status = fill_slots(r, steps, &left, err);
    size_t running = count_running(r);
    if (!running && (!left || study_stops(r))) break;
    if (status == VTB_OK) study_workers_wait(r->workers, r->n, running ? TICK : ELSEWHERE);
    pass_on(r);
    if (status == VTB_OK) status = collect_ended(r, err);
    if (status == VTB_OK) tick(r);
  }
  if (status != VTB_OK) give_up(r);
  return status == VTB_OK ? study_stopped(r) : status;
}

vtb_status study_run_one(study_runner *r, size_t task, vtb_error *err) {
  bool begun;
  r->n = 1;
  memset(r->workers, 0, sizeof r->workers[0]);
  if (study_work_state(r->work, &r->work->tasks.at[task]) != STUDY_TASK_READY) return VTB_OK;
  vtb_status status = begin_step(r, task, 0, &begun, err);
  while (status == VTB_OK && r->workers[0].pid) {
    study_workers_wait(r->workers, 1, TICK);
    pass_on(r);
    status = collect_ended(r, err);
    if (status == VTB_OK) tick(r);
  }
  if (status != VTB_OK) give_up(r);
  return status == VTB_OK ? study_stopped(r) : status;
}

/* ---- the study ------------------------------------------------------------------------------- */

/* Tells what was there before: stale records, failures. */
static void greet(const study_runner *r, int failed) {
  const study_work *w = r->work;
  if (w->damaged && !r->options->launch.rank)
    study_says(r, "%s is damaged: its step is done again", w->damaged);
  if (w->changed && !r->options->launch.rank)
    study_says(r, "%s has changed since: what was made with it is done again", w->changed);
  else if (w->stale && !r->options->launch.rank)
    study_says(r, "%d record%s made with other settings or another version: done again", w->stale,
               w->stale > 1 ? "s were" : " was");
  if (failed && !r->options->retry && !r->options->launch.rank)
    study_says(r, "%d step%s failed before; --retry does %s again", failed, failed > 1 ? "s" : "",
               failed > 1 ? "them" : "it");
}

/* Rounds of timing, of the cells that compile. */
static void plan_rounds(study_work *w) {
  size_t n = w->study->bench ? w->tasks.n : 0;
  for (int round = 0; n && round < w->study->rounds; round++) {
    study_work_add(w, -1, STUDY_PEAK, round);
    for (size_t i = 0; i < n; i++)
      if (w->tasks.at[i].step == STUDY_CHECK && w->tasks.at[i].known &&
          study_record_ok(&w->tasks.at[i].record))
        study_work_add(w, w->tasks.at[i].cell, STUDY_BENCH, round);
  }
}

/* Loads the records of later phases; those of the first are there. */
static vtb_status load_rest(study_runner *r, vtb_error *err) {
  vtb_status status = study_work_load(r->work, STUDY_PATHS, err);
  if (status == VTB_OK) status = study_work_load(r->work, STUDY_TRAIN, err);
  if (status == VTB_OK) status = study_work_load(r->work, STUDY_EVAL, err);
  int failed = 0;
  for (size_t i = 0; i < r->work->tasks.n; i++) {
    study_task *t = &r->work->tasks.at[i];
    if (!t->known || study_record_ok(&t->record) || t->step == STUDY_CHECK ||
        t->step == STUDY_PATHS)
      continue;
    failed++;
    if (r->options->retry && !r->options->launch.rank) study_task_forget(r->work, t);
  }
  if (status == VTB_OK) greet(r, failed);
  return status;
}

static bool has_work(const study_work *w, int step) {
  for (size_t i = 0; i < w->tasks.n; i++) {
    study_task_state s = study_work_state(w, &w->tasks.at[i]);
    if (w->tasks.at[i].step == step && s != STUDY_TASK_DONE && s != STUDY_TASK_DROPPED) return true;
  }
  return false;
}

static vtb_status run_phases(study_runner *r, vtb_error *err) {
  const study *s = r->work->study;
  int cores = study_machine_cores() / r->options->launch.here;
  vtb_status status = study_work_load(r->work, STUDY_CHECK, err);
  r->work->threads = 1;
  if (status == VTB_OK)
    status = run_steps(r, 1u << STUDY_CHECK, (size_t)(cores > 1 ? cores : 1), err);
  if (status == VTB_OK) plan_rounds(r->work);
  if (status == VTB_OK) status = load_rest(r, err);
  if (status == VTB_OK)
    status = run_steps(r, 1u << STUDY_PATHS, (size_t)(cores > 1 ? cores : 1), err);
  if (status == VTB_OK && (has_work(r->work, STUDY_TRAIN) || has_work(r->work, STUDY_EVAL))) {
    size_t jobs = study_choose_jobs(r, &r->work->threads);
    status = run_steps(r, 1u << STUDY_TRAIN | 1u << STUDY_EVAL, jobs, err);
  }
  r->work->threads = s->threads;
  if (status == VTB_OK && s->bench && !r->options->launch.rank) status = study_run_rounds(r, err);
  return status;
}

vtb_status study_run(study_work *w, const study_run_options *o, vtb_error *err) {
  char host[256] = "";
  study_runner *r = vtb_xcalloc(1, sizeof *r);
  gethostname(host, sizeof host - 1);
  r->work = w;
  r->options = o;
  r->host = host;
  if (!o->launch.rank) study_work_tidy(w);
  vtb_status status = run_phases(r, err);
  if ((status == VTB_OK || (int)status > 128) && !o->launch.rank) {
    vtb_status written = o->on_results(o->user, w, true, err);
    if (written != VTB_OK) status = written;
  }
  vtb_free(r);
  return status;
}
