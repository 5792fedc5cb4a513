/* Cells of designs that are chosen: rows of numbers of values, one an axis. Inside frontend/study
 * only. */
#ifndef VTB_STUDY_PAIRS_H
#define VTB_STUDY_PAIRS_H

#include "frontend/study/study.h"

enum { STUDY_MOST_CELLS = 20000 };

typedef VTB_VEC(size_t) study_rows; /* s->axes.n numbers a row, one row after the other */

/* Cells of the grid; no more than SIZE_MAX / 2. */
size_t study_grid_count(const study *s);
/* Appends the k-th row of the grid; the last axis varies fastest. */
void study_grid_row(const study *s, size_t k, study_rows *out);

typedef bool (*study_allowed)(void *user, const size_t *row);

/* Rows in which every two values of two axes meet, unless no row that is allowed has them. The same
 * for the same study. */
void study_pairs(const study *s, study_allowed allowed, void *user, study_rows *out);
/* s->sample rows, or as many as there are, drawn by s->seed, without repeats, in the order of the
 * grid. */
void study_draw(const study *s, study_allowed allowed, void *user, study_rows *out);

#endif
