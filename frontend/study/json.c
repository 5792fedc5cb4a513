/* See json.h. */
#include "frontend/study/json.h"

#include <math.h>

const cJSON *study_member(const cJSON *j, const char *name) {
  return cJSON_GetObjectItemCaseSensitive(j, name);
}

const char *study_text_of(const cJSON *j, const char *name) {
  const cJSON *v = study_member(j, name);
  return cJSON_IsString(v) ? v->valuestring : "";
}

double study_number(const cJSON *j, const char *name) {
  const cJSON *v = study_member(j, name);
  return cJSON_IsNumber(v) ? v->valuedouble : (double)NAN;
}

void study_add_number(cJSON *to, const char *name, double x) {
  if (isfinite(x)) cJSON_AddNumberToObject(to, name, x);
}
