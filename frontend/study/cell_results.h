/* What the document of results says of one cell. */
#ifndef VTB_STUDY_CELL_RESULTS_H
#define VTB_STUDY_CELL_RESULTS_H

#include "frontend/study/work.h"

cJSON *study_cell_results(const study_work *w, int cell, cJSON *pictures);
/* A number of a document under a name of its own, if it has it. */
void study_copy_number(cJSON *to, const char *name, const cJSON *from, const char *its_name);

#endif
