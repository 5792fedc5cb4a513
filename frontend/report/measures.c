/* Measures: how each is called and written, and when one cell is better than another. */
#include "frontend/draw/number.h"
#include "frontend/report/results.h"
#include "frontend/study/statistics.h"

#include <math.h>
#include <string.h>

/* How a measure is written; OWN: as the study's score is. */
typedef enum form { DIGITS, COUNT, BYTES, OWN } form;

static const struct {
  const char *name, *unit_name; /* in tables, in charts */
  form form;
  int direction; /* 1: more is better */
  double unit;   /* of charts */
} measures[RP_MEASURES] = {
    [RP_TEST] = {"test", NULL, OWN, 1, 1},
    [RP_VAL] = {"val", NULL, OWN, 1, 1},
    [RP_RATE] = {"images/s", NULL, DIGITS, 1, 1},
    [RP_MS] = {"ms", NULL, DIGITS, -1, 1},
    [RP_TRAIN_RATE] = {"training images/s", NULL, DIGITS, 1, 1},
    [RP_GMACS] = {"GMACs", NULL, DIGITS, 0, 1},
    [RP_PARAMS] = {"parameters", "parameters, millions", COUNT, 0, 1e6},
    [RP_WORKSPACE] = {"working memory", "working memory, MiB", BYTES, -1, 1048576},
    [RP_PEAK] = {"peak memory", "peak memory, MiB", BYTES, -1, 1048576},
};

static bool is_own(rp_measure m) { return m < RP_MEASURES && measures[m].form == OWN; }

bool rp_has(const rp_report *r, rp_measure m) {
  for (size_t i = 0; m < RP_MEASURES && i < r->cells.n; i++)
    if (!isnan(r->cells.at[i].mean[m])) return true;
  return false;
}

int rp_direction(const rp_report *r, rp_measure m) {
  if (m >= RP_MEASURES) return 0;
  return is_own(m) && r->lower ? -1 : measures[m].direction;
}

const char *rp_name(const rp_report *r, rp_measure m) {
  static const char *const scores[][3] = {
      [RP_TEST] = {"score on test", "top-1 on test, %", "top-5 on test, %"},
      [RP_VAL] = {"score on val", "top-1 on val, %", "top-5 on val, %"}};
  if (m >= RP_MEASURES) return "";
  if (!is_own(m)) return measures[m].name;
  return scores[m][strcmp(r->score, "top1") == 0 ? 1 : strcmp(r->score, "top5") == 0 ? 2 : 0];
}

const char *rp_format(const rp_report *r, rp_measure m, double x, char text[32]) {
  if (is_own(m)) return nr_fixed(r->percent ? 100 * x : x, r->percent ? 2 : 4, text);
  if (measures[m].form == COUNT) return nr_count(x, text);
  return measures[m].form == BYTES ? nr_bytes(x, text) : nr_digits(x, 3, text);
}

const char *rp_unit_name(const rp_report *r, rp_measure m) {
  return measures[m].unit_name ? measures[m].unit_name : rp_name(r, m);
}

double rp_in_unit(const rp_report *r, rp_measure m, double x) {
  return is_own(m) && r->percent ? 100 * x : x / measures[m].unit;
}

rp_measure rp_quality(const rp_report *r) {
  return rp_has(r, RP_TEST) ? RP_TEST : rp_has(r, RP_VAL) ? RP_VAL : RP_MEASURES;
}

rp_measure rp_speed(const rp_report *r) { return rp_has(r, RP_RATE) ? RP_RATE : RP_MEASURES; }

static study_score score_of(const rp_report *r, rp_measure m, const rp_cell *c) {
  bool proportion = strcmp(r->score, "top1") == 0 && !isnan(c->images);
  return (study_score){.mean = c->mean[m],
                       .deviation = c->spread[m],
                       .seeds = isnan(c->spread[m]) ? 1 : (size_t)c->seeds,
                       .images = proportion ? c->images : 0};
}

bool rp_beats(const rp_report *r, rp_measure m, const rp_cell *a, const rp_cell *b) {
  double lead = rp_direction(r, m) * (a->mean[m] - b->mean[m]);
  if (!(lead > 0)) return false;
  if (m == RP_TEST || m == RP_VAL) {
    study_score x = score_of(r, m, a), y = score_of(r, m, b);
    return study_scores_differ(&x, &y);
  }
  if (m == RP_MS || m == RP_RATE) return study_times_differ(a->mean[m], b->mean[m], r->margin);
  return lead > a->spread[m] && lead > b->spread[m];
}

/* The measure that a cell is chosen by. */
static rp_measure chosen_by(const rp_report *r, rp_measure m) {
  return m == RP_TEST && rp_has(r, RP_VAL) ? RP_VAL : m;
}

/* True if two are rivals: what takes other numbers of tokens is none in time and memory, unless it
 * scores better. */
static bool rivals(const rp_report *r, const rp_cell *a, const rp_cell *b) {
  if (!a || rp_quality(r) != RP_MEASURES) return true;
  for (size_t i = 0; i < r->axes.n; i++)
    if (r->axes.at[i].resizes && a->value[i] != b->value[i]) return false;
  return true;
}

const rp_cell *rp_best(const rp_report *r, rp_measure m, const rp_cell *like) {
  const rp_cell *best = NULL;
  rp_measure by = chosen_by(r, m);
  for (size_t i = 0; i < r->cells.n; i++) {
    const rp_cell *c = &r->cells.at[i];
    if (isnan(c->mean[by]) || isnan(c->mean[m]) || !rivals(r, like, c)) continue;
    if (!best || rp_direction(r, m) * (c->mean[by] - best->mean[by]) > 0) best = c;
  }
  return best;
}

bool rp_clear_winner(const rp_report *r, rp_measure m, const rp_cell *best) {
  int others = 0;
  for (size_t i = 0; best && i < r->cells.n; i++) {
    const rp_cell *c = &r->cells.at[i];
    if (c == best || isnan(c->mean[m]) || !rivals(r, best, c)) continue;
    others++;
    if (!rp_beats(r, m, best, c)) return false;
  }
  return others > 0;
}

double rp_usual_spread(const rp_report *r, rp_measure m) {
  double sum = 0;
  int n = 0;
  for (size_t i = 0; m < RP_MEASURES && i < r->cells.n; i++) {
    const rp_cell *c = &r->cells.at[i];
    if (isnan(c->spread[m])) continue;
    sum += c->spread[m];
    n++;
  }
  return n ? sum / n : (double)NAN;
}
