/* What each measure is called, how it is written, and when one cell is better than another. */
#include "frontend/draw/number.h"
#include "frontend/report/results.h"
#include "frontend/study/statistics.h"

#include <math.h>
#include <string.h>

bool rp_has(const rp_report *r, rp_measure m) {
  for (size_t i = 0; m < RP_MEASURES && i < r->cells.n; i++)
    if (!isnan(r->cells.at[i].mean[m])) return true;
  return false;
}

int rp_direction(const rp_report *r, rp_measure m) {
  switch (m) {
  case RP_RATE:
  case RP_TRAIN_RATE:
    return 1;
  case RP_VAL:
  case RP_TEST:
    return r->lower ? -1 : 1;
  case RP_WORKSPACE:
  case RP_PEAK:
  case RP_MS:
    return -1;
  default:
    return 0;
  }
}

static const char *score_name(const rp_report *r, bool test) {
  if (strcmp(r->score, "top1") == 0) return test ? "top-1 on test, %" : "top-1 on val, %";
  if (strcmp(r->score, "top5") == 0) return test ? "top-5 on test, %" : "top-5 on val, %";
  return test ? "score on test" : "score on val";
}

const char *rp_name(const rp_report *r, rp_measure m) {
  switch (m) {
  case RP_PARAMS:
    return "parameters";
  case RP_GMACS:
    return "GMACs";
  case RP_WORKSPACE:
    return "working memory";
  case RP_PEAK:
    return "peak memory";
  case RP_MS:
    return "ms";
  case RP_RATE:
    return "images/s";
  case RP_TRAIN_RATE:
    return "training images/s";
  case RP_VAL:
    return score_name(r, false);
  case RP_TEST:
    return score_name(r, true);
  default:
    return "";
  }
}

const char *rp_format(const rp_report *r, rp_measure m, double x, char text[32]) {
  switch (m) {
  case RP_PARAMS:
    return nr_count(x, text);
  case RP_WORKSPACE:
  case RP_PEAK:
    return nr_bytes(x, text);
  case RP_VAL:
  case RP_TEST:
    return nr_fixed(r->percent ? 100 * x : x, r->percent ? 2 : 4, text);
  default:
    return nr_digits(x, 3, text);
  }
}

const char *rp_unit_name(const rp_report *r, rp_measure m) {
  return m == RP_WORKSPACE ? "working memory, MiB"
         : m == RP_PEAK    ? "peak memory, MiB"
         : m == RP_PARAMS  ? "parameters, millions"
                           : rp_name(r, m);
}

double rp_in_unit(const rp_report *r, rp_measure m, double x) {
  bool bytes = m == RP_WORKSPACE || m == RP_PEAK, score = m == RP_VAL || m == RP_TEST;
  return bytes ? x / 1048576 : m == RP_PARAMS ? x / 1e6 : score && r->percent ? 100 * x : x;
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

/* What takes other numbers of tokens is no rival in time and memory, unless it scores better. */
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
