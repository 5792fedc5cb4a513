/* One cell in the document of results. */
#ifndef VTB_STUDY_CELL_RESULTS_H
#define VTB_STUDY_CELL_RESULTS_H

#include "frontend/study/work.h"

cJSON *study_cell_results(const study_work *w, int cell, cJSON *pictures);

#endif
