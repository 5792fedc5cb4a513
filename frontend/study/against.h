/* Two reports, cell by cell: what is better now, what is worse, and what is no more than chance. */
#ifndef VTB_STUDY_AGAINST_H
#define VTB_STUDY_AGAINST_H

#include "runtime/base/base.h"

#include <cjson/cJSON.h>

/* The comparison as docs/studies.md describes it under "against"; to be deleted. Cells are the same
 * if their settings are. name: what the old report is called, its folder. */
cJSON *study_against(const cJSON *results, const cJSON *old, const char *name);

#endif
