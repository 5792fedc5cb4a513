/* The numbers of a cell in a document of results, as they are compared. */
#ifndef VTB_STUDY_SCORES_H
#define VTB_STUDY_SCORES_H

#include "frontend/study/json.h"
#include "frontend/study/statistics.h"

/* Its mean is NAN for a cell without one. */
study_score study_score_of(const cJSON *cell);
/* True if the numbers of both cells are there, and they differ by more than chance, or than the
 * margin of their speeds. */
bool study_cells_differ_in_score(const cJSON *a, const cJSON *b);
bool study_cells_differ_in_speed(const cJSON *a, const cJSON *b, double margin);
/* The margin of timed cells, by their rounds (statistics.h), which are a member of each:
 * "bench.rounds" in a document of results. */
double study_margin_of(const cJSON *cells, const char *rounds);

#endif
