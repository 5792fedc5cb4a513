/* Members of documents that others wrote, by path: "bench.best_ms". What is missing, or of another
 * type, is told by the value, never an error. */
#ifndef VTB_STUDY_JSON_H
#define VTB_STUDY_JSON_H

#include <cjson/cJSON.h>

/* Borrowed of j, which may be NULL. */
const cJSON *study_member(const cJSON *j, const char *path);  /* NULL where there is none */
const char *study_text_of(const cJSON *j, const char *path);  /* "" */
double study_number(const cJSON *j, const char *path);        /* NAN, also if it is not finite */
void study_add_number(cJSON *to, const char *name, double x); /* unless it is not finite */

#endif
