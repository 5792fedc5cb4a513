/* The results of a study: the document results.json and the table results.csv, as docs/studies.md
 * describes them. */
#ifndef VTB_STUDY_RESULTS_H
#define VTB_STUDY_RESULTS_H

#include "frontend/study/work.h"

/* The document, of what is known so far; to be deleted. */
cJSON *study_results(const study_work *w);

/* findings.c: adds which cells are best, which cannot be told from them, and the main effects of
 * the axes. */
void study_findings(cJSON *results);

/* A line a cell; the order of cells and columns follows from the study alone. */
void study_csv(const cJSON *results, vtb_strbuf *out);

/* Reads FOLDER/results.json, or a file; VTB_E_INPUT if it is none. */
VTB_MUST_USE vtb_status study_results_read(const char *path, cJSON **out, vtb_error *err);
/* Writes results.json and results.csv into the folder. */
VTB_MUST_USE vtb_status study_results_write(const cJSON *results, const char *folder,
                                            vtb_error *err);

#endif
