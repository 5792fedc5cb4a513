/* Which of a study's timed cells are the fastest, and where along an axis they take turns. */
#ifndef VTB_STUDY_RANKING_H
#define VTB_STUDY_RANKING_H

#include "frontend/study/study.h"

/* The study, its cells and their times are borrowed. */
typedef struct study_ranking {
  const study *study;
  const study_cells *cells;
  const double *ms; /* one a cell: an image's time at best; NAN: it was not measured */
  double margin;    /* that tells two of them apart (statistics.h) */
  int compared;     /* the axis whose values are alternatives; -1: none */
  int along;        /* an axis of numbers along which they may take turns; -1: none */
  size_t *best;     /* of each cell the fastest that differs by `compared` alone; owned */
} study_ranking;
void study_rank(const study *s, const study_cells *cells, const double *ms, double margin,
                study_ranking *out);
void study_ranking_free(study_ranking *r);

/* Measured, and none like it is faster. */
bool study_is_best(const study_ranking *r, size_t cell);
/* Measured, and slower than the best like it, but not by more than the margin. */
bool study_is_close(const study_ranking *r, size_t cell);

/* From a number at which one is clearly the fastest to the next at which another one is. */
typedef struct study_crossover {
  size_t before, after; /* the best cells there */
  /* where their times are equal, times between measured points taken as powers of the number; NAN:
   * one of them is not measured at both */
  double at;
} study_crossover;
typedef VTB_VEC(study_crossover) study_crossovers;
void study_find_crossovers(const study_ranking *r, study_crossovers *out);
/* "batch 8: mode chunkwise(64) overtakes parallel between image 224 and 384, at about 300" */
void study_put_crossover(const study_ranking *r, const study_crossover *c, vtb_strbuf *out);

#endif
