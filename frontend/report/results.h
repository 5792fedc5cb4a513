/* The document of results.json (docs/studies.md) as the page's sections read it: cells with one
 * number a measure. Whatever is missing or of another type is absent: NAN, "", no element. Texts
 * belong to the document, or to the report's arena. */
#ifndef VTB_REPORT_RESULTS_H
#define VTB_REPORT_RESULTS_H

#include "frontend/study/json.h"
#include "runtime/base/base.h"

typedef enum rp_measure { /* in the order of the table's columns */
                          RP_TEST,
                          RP_VAL,
                          RP_RATE, /* samples a second, of the best time */
                          RP_MS,   /* the best of all rounds */
                          RP_TRAIN_RATE,
                          RP_GMACS,
                          RP_PARAMS,
                          RP_WORKSPACE, /* bytes, planned */
                          RP_PEAK,      /* bytes of the process, measured */
                          RP_MEASURES
} rp_measure;

typedef struct rp_axis {
  const char *name;
  VTB_VEC(const char *) values;
  VTB_VEC(const char *) labels; /* as they are shown, one a value */
  bool varies;                  /* more than one value */
  bool resizes;                 /* two cells that differ in it alone have other numbers of tokens */
} rp_axis;

typedef enum rp_status { RP_DONE, RP_FAILED, RP_IMPOSSIBLE, RP_EXCLUDED, RP_PENDING } rp_status;

typedef struct rp_cell {
  const cJSON *json;
  int number; /* from 0 */
  const char *id, *label, *message, *status_text;
  rp_status status;
  int *value; /* of each axis, the index of its value; -1: none */
  double mean[RP_MEASURES];
  double spread[RP_MEASURES]; /* in the same unit; NAN: one measurement alone, or exact */
  double tokens, chunk;       /* NAN: none */
  int seeds;
  double images;    /* of test, a seed; NAN: not known */
  double predicted; /* ms, of what was timed; NAN: not known */
} rp_cell;

typedef struct rp_report {
  const cJSON *json, *study;
  const char *title;
  VTB_VEC(rp_axis) axes;
  VTB_VEC(rp_cell) cells;
  const char *score; /* what is trained for: "top1" */
  bool percent;      /* scores are shown as such */
  bool lower;        /* a lower score is better */
  double margin;     /* that tells two speeds apart, as a part; NAN: not known, and none are told */
  int n_of[RP_PENDING + 1];
  vtb_arena arena;
} rp_report;

void rp_read(rp_report *r, const cJSON *document);
void rp_free(rp_report *r);

/* ---- cells and measures ---------------------------------------------------------------------- */

bool rp_has(const rp_report *r, rp_measure m); /* of any cell */
/* 1: more is better, -1: less is, 0: neither. */
int rp_direction(const rp_report *r, rp_measure m);
const char *rp_name(const rp_report *r, rp_measure m); /* "top-1 on test, %" */
/* As the tables show it, at most 32 bytes. "-" for NAN. */
const char *rp_format(const rp_report *r, rp_measure m, double x, char text[32]);
/* The same for charts: the name with its unit, and numbers in it. */
const char *rp_unit_name(const rp_report *r, rp_measure m);
double rp_in_unit(const rp_report *r, rp_measure m, double x);
/* The measures that sections on quality and on speed look at; RP_MEASURES: there is none. How fast
 * single trainings went is no measurement: nothing was timed in turns. */
rp_measure rp_quality(const rp_report *r);
rp_measure rp_speed(const rp_report *r);

/* True if a is better than b by more than chance, as frontend/study/statistics.h has it. False
 * where no spread is known. */
bool rp_beats(const rp_report *r, rp_measure m, const rp_cell *a, const rp_cell *b);
/* The spread of a cell's score, on average. NAN: not known, as of RP_MEASURES. */
double rp_usual_spread(const rp_report *r, rp_measure m);
/* The best cell; NULL if none has the measure. Scores are chosen on val. Of a study that only times
 * several sizes, the best one of the size of `like`, if that is not NULL. */
const rp_cell *rp_best(const rp_report *r, rp_measure m, const rp_cell *like);
/* True if it beats every other. */
bool rp_clear_winner(const rp_report *r, rp_measure m, const rp_cell *best);

#endif
