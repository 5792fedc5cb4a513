/* Names of cells: the names of their folders, and their labels in legends. */
#ifndef VTB_STUDY_LABEL_H
#define VTB_STUDY_LABEL_H

#include "frontend/study/study.h"

/* Sets id and label of a cell that has its values. The id depends on nothing but the cell: it stays
 * when other values are added to the study. */
void study_name_cell(const study *s, study_cell *c);

#endif
