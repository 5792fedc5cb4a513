/* Values, and members of JSON. */
#include "frontend/document/document.h"

#include <math.h>

doc_value doc_number(double x) { return (doc_value){.kind = DOC_NUMBER, .number = x}; }
doc_value doc_signed(int64_t x) { return doc_number((double)x); }
doc_value doc_unsigned(uint64_t x) { return doc_number((double)x); }
doc_value doc_text(const char *text) { return (doc_value){.kind = DOC_TEXT, .text = text}; }
doc_value doc_truth(bool x) { return (doc_value){.kind = DOC_TRUTH, .number = x}; }
doc_value doc_json(cJSON *json) { return (doc_value){.kind = DOC_JSON, .json = json}; }

static bool is_known(const doc_value *v) {
  return v->kind == DOC_NUMBER ? isfinite(v->number)
         : v->kind == DOC_TEXT ? v->text != NULL
                               : v->kind != DOC_JSON || v->json;
}

doc_value doc_known(doc_value v) { return is_known(&v) ? v : (doc_value){.kind = DOC_NONE}; }

static cJSON *json_of(const doc_value *v) {
  if (!is_known(v)) return cJSON_CreateNull();
  return v->kind == DOC_JSON    ? v->json
         : v->kind == DOC_TEXT  ? cJSON_CreateString(v->text)
         : v->kind == DOC_TRUTH ? cJSON_CreateBool(v->number != 0)
                                : cJSON_CreateNumber(v->number);
}

cJSON *doc_put_fields(cJSON *to, const doc_field *fields) {
  for (const doc_field *f = fields; f->value.kind != DOC_END; f++) {
    cJSON_DeleteItemFromObjectCaseSensitive(to, f->key);
    if (f->value.kind != DOC_NONE) cJSON_AddItemToObject(to, f->key, json_of(&f->value));
  }
  return to;
}

cJSON *doc_append(cJSON *list, cJSON *item) {
  cJSON_AddItemToArray(list, item);
  return item;
}

cJSON *doc_numbers(const int64_t *x, int n) {
  cJSON *list = cJSON_CreateArray();
  for (int i = 0; i < n; i++) cJSON_AddItemToArray(list, cJSON_CreateNumber((double)x[i]));
  return list;
}
