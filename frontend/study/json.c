/* See json.h. */
#include "frontend/study/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const cJSON *study_member(const cJSON *j, const char *path) {
  char name[64];
  while (j && *path) {
    size_t n = strcspn(path, ".");
    snprintf(name, sizeof name, "%.*s", (int)n, path);
    j = cJSON_GetObjectItemCaseSensitive(j, name);
    path += n + (path[n] == '.');
  }
  return j;
}

const char *study_text_of(const cJSON *j, const char *path) {
  const cJSON *v = study_member(j, path);
  return cJSON_IsString(v) ? v->valuestring : "";
}

double study_number(const cJSON *j, const char *path) {
  const cJSON *v = study_member(j, path);
  return cJSON_IsNumber(v) && isfinite(v->valuedouble) ? v->valuedouble : (double)NAN;
}

void study_add_number(cJSON *to, const char *name, double x) {
  if (isfinite(x)) cJSON_AddNumberToObject(to, name, x);
}
