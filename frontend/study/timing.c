/* Timing, fairly: one step at a time with nothing else of the study beside it; in rounds, so that
 * what changes on the machine meets all cells alike; the cells of a round in another order each
 * time; what the machine itself reaches before each round; again what varied much. */
#include "frontend/study/rounds.h"
#include "frontend/study/runner.h"
#include "frontend/study/statistics.h"
#include "runtime/base/random.h"

#include <math.h>
#include <string.h>

enum { WAIT = 500 };

/* Best times of a cell's rounds, *n of them; to be freed. */
static double *times_of(const study_work *w, int cell, size_t *n) {
  double *out = vtb_xcalloc(w->tasks.n + 1, sizeof *out);
  *n = 0;
  for (size_t i = 0; i < w->tasks.n; i++) {
    const study_task *t = &w->tasks.at[i];
    double ms = t->cell == cell && t->step == STUDY_BENCH && t->known
                    ? study_number(t->record.document, "best_ms")
                    : (double)NAN;
    if (isfinite(ms)) out[(*n)++] = ms;
  }
  return out;
}

static double spread_of(const study_work *w, int cell) {
  size_t n;
  double *times = times_of(w, cell, &n);
  double spread = study_time_spread(times, n);
  vtb_free(times);
  return spread;
}

/* Numbers of cells in the order of a round. */
static void shuffle(int *cells, size_t n, uint64_t seed, uint64_t round) {
  for (size_t i = n; i > 1; i--) {
    size_t k = vtb_random_u64(seed + 1, round << 32 | i) % i;
    int c = cells[i - 1];
    cells[i - 1] = cells[k];
    cells[k] = c;
  }
}

/* A step of the round, loaded if it was done before. */
static vtb_status do_step(study_runner *r, int cell, int step, int round, vtb_error *err) {
  if (!study_work_find(r->work, cell, step, round)) study_work_add(r->work, cell, step, round);
  study_task *t = study_work_find(r->work, cell, step, round);
  vtb_status status = study_task_load(r->work, t, err);
  if (t->known && r->options->retry && !study_record_ok(&t->record)) study_task_forget(r->work, t);
  if (status != VTB_OK) return status;
  return study_run_one(r, (size_t)(t - r->work->tasks.at), err);
}

/* Without it the report has no peaks; said once. */
static vtb_status measure_machine(study_runner *r, int round, bool *works, vtb_error *err) {
  if (!*works) return VTB_OK;
  vtb_status status = do_step(r, -1, STUDY_PEAK, round, err);
  const study_task *t = study_work_find(r->work, -1, STUDY_PEAK, round);
  *works = status == VTB_OK && t && t->known && study_record_ok(&t->record);
  if (*works || status != VTB_OK || !t || !t->known) return status;
  char *why = study_record_message(&t->record);
  study_says(r, "what the machine itself reaches is not known: %s", why);
  vtb_free(why);
  return VTB_OK;
}

typedef struct timing {
  study_runner *r;
  int *cells;
  size_t n;
  bool peaks; /* the machine can be measured */
} timing;

static vtb_status run_round(void *user, int64_t round, vtb_error *err) {
  timing *t = user;
  int *order = vtb_xcalloc(t->n + 1, sizeof *order);
  memcpy(order, t->cells, t->n * sizeof *order);
  shuffle(order, t->n, (uint64_t)t->r->work->study->seed, (uint64_t)round);
  vtb_status status = measure_machine(t->r, (int)round, &t->peaks, err);
  for (size_t i = 0; i < t->n && status == VTB_OK; i++)
    status = do_step(t->r, order[i], STUDY_BENCH, (int)round, err);
  vtb_free(order);
  return status;
}

/* Cells of the study that compile. */
static size_t find_cells(const study_work *w, int *out) {
  size_t n = 0;
  for (size_t i = 0; i < w->tasks.n; i++) {
    const study_task *t = &w->tasks.at[i];
    if (t->step == STUDY_CHECK && t->known && study_record_ok(&t->record)) out[n++] = t->cell;
  }
  return n;
}

static size_t count_restless(void *user) {
  timing *t = user;
  size_t found = 0;
  for (size_t i = 0; i < t->n; i++) found += spread_of(t->r->work, t->cells[i]) > STUDY_RESTLESS;
  return found;
}

static void tell_restless(void *user, size_t n, int64_t further) {
  timing *t = user;
  if (further)
    study_says(t->r,
               "%zu cell%s more than %.0f %% between rounds: up to %lld further rounds of all", n,
               n > 1 ? "s vary by" : " varies by", 100 * STUDY_RESTLESS, (long long)further);
  else
    study_says(t->r, "%zu cell%s: the machine does other things beside", n,
               n > 1 ? "s still vary" : " still varies");
}

/* Two studies that time at once would time each other. */
static vtb_status claim_machine(study_runner *r, study_claim *c, vtb_error *err) {
  vtb_strbuf path = {0};
  bool taken = false, said = false;
  vtb_status status = VTB_OK;
  vtb_strbuf_printf(&path, "%s/timing.claim", r->work->folder);
  while (status == VTB_OK && !taken && !study_stops(r)) {
    status = study_claim_take(c, path.at, &taken, err);
    if (status != VTB_OK || taken) break;
    if (!said) study_says(r, "another process times cells of this report: waiting for it");
    said = true;
    study_workers_wait(r->workers, 0, WAIT);
  }
  vtb_strbuf_free(&path);
  return status == VTB_OK ? study_stopped(r) : status;
}

vtb_status study_run_rounds(study_runner *r, vtb_error *err) {
  timing t = {.r = r, .cells = vtb_xcalloc(r->work->tasks.n + 1, sizeof(int)), .peaks = true};
  study_rounds rounds = {r->work->study->rounds, run_round, count_restless, tell_restless, &t};
  study_claim c = {.file = -1};
  t.n = find_cells(r->work, t.cells);
  vtb_status status = t.n ? claim_machine(r, &c, err) : VTB_OK;
  if (status == VTB_OK && t.n) status = study_rounds_run(&rounds, err);
  study_claim_give(&c);
  vtb_free(t.cells);
  return status;
}
