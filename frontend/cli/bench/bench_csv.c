/* A measurement as comma-separated values. */
#include "frontend/cli/bench/bench_output.h"
#include "frontend/study/json.h"

#include <stdlib.h>
#include <string.h>

/* A column and the member of a cell that it holds; a name with % begins with infer or train. */
typedef struct column {
  const char *name, *member;
  double scale; /* of a number; 0: a text, or a number as it is */
} column;
static const column columns[] = {
    {"model", "model", 0},
    {"target", "target", 0},
    {"precision", "precision", 0},
    {"mode", "mode", 0},
    {"chunk", "chunk", 0},
    {"threads", "threads", 0},
    {"timed", "timed", 0},
    {"%_img_size", "img_size", 0},
    {"%_batch_size", "batch", 0},
    {"%_samples_per_sec", "images_per_second", 1},
    {"%_step_time", "best_ms", 1},
    {"%_step_median", "median_ms", 1},
    {"%_spread", "spread", 1},
    {"%_gmacs", "gmacs", 1},
    {"param_count", "param_count", 1e-6},
    {"gflop", "gflop", 1},
    {"percent_of_peak", "percent_of_peak", 1},
    {"product_gflops", "peak.product_gflops", 1},
    {"copy_gbytes", "peak.copy_gbytes", 1},
    {"peak_bytes", "peak_bytes", 0},
    {"workspace_bytes", "workspace_bytes", 0},
    {"status", "status", 0},
    {"message", "message", 0},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* ---- writing --------------------------------------------------------------------------------- */

/* Square images are one number, as timm has them. */
static const char *size_of(doc *d, const char *size) {
  const char *x = strchr(size, 'x');
  size_t n = x ? (size_t)(x - size) : 0;
  bool square = x && strlen(x + 1) == n && strncmp(size, x + 1, n) == 0;
  return square ? vtb_arena_strndup(&d->arena, size, n) : size;
}

static const char *text_of(doc *d, const cJSON *cell, const column *c) {
  const cJSON *v = study_member(cell, c->member);
  if (cJSON_IsString(v))
    return strcmp(c->member, "img_size") == 0 ? size_of(d, v->valuestring) : v->valuestring;
  if (cJSON_IsNumber(v))
    return vtb_arena_printf(&d->arena, c->scale != 0 ? "%.6g" : "%.0f",
                            v->valuedouble * (c->scale != 0 ? c->scale : 1));
  return strcmp(c->member, "status") == 0 ? "done" : "";
}

static bool is_training(const cJSON *cell) {
  return strchr(study_text_of(cell, "timed"), ',') != NULL;
}

/* A setting that no column has: a hyperparameter. */
static bool is_extra(const cJSON *setting) {
  static const char *const known[] = {"model", "image",  "batch", "precision",
                                      "mode",  "target", "chunk", "threads"};
  return !CLI_IS_AMONG(setting->string, known);
}

/* The columns of every table, then those of what is varied; returns their number. */
static int make_columns(doc *d, const cJSON *settings, bool training, doc_column *out) {
  const cJSON *setting;
  int n = 0;
  for (; n < COLUMNS; n++) {
    const char *name = columns[n].name;
    out[n].key = name[0] != '%'
                     ? name
                     : vtb_arena_printf(&d->arena, "%s%s", training ? "train" : "infer", name + 1);
  }
  cJSON_ArrayForEach(setting, settings) {
    if (is_extra(setting)) out[n++].key = setting->string;
  }
  return n;
}

void bench_csv_put(cJSON *const *cells, size_t n, vtb_strbuf *out) {
  bool training = false; /* of all cells; one that failed does not say */
  for (size_t i = 0; i < n; i++) training |= is_training(cells[i]);
  const cJSON *first = n ? study_member(cells[0], "settings") : NULL, *setting;
  size_t most = COLUMNS + (size_t)cJSON_GetArraySize(first);
  doc *d = doc_new(NULL);
  doc_column *made = VTB_NEW_ARRAY(&d->arena, doc_column, most);
  int width = make_columns(d, first, training, made);
  doc_table *t = doc_add_table(d, NULL, made, width);
  for (size_t i = 0; i < n; i++) {
    doc_value *values = VTB_NEW_ARRAY(&d->arena, doc_value, most + 1);
    int k = 0;
    for (; k < COLUMNS; k++) values[k] = V(text_of(d, cells[i], &columns[k]));
    cJSON_ArrayForEach(setting, study_member(cells[i], "settings")) {
      if (k < width && is_extra(setting)) values[k++] = V((const char *)setting->valuestring);
    }
    while (k < width) values[k++] = V("");
    doc_add_row(d, t, values);
  }
  doc_put_csv(d, out);
  doc_free(d);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The next field, without its quotes; *end: it was the last of its line. NULL: nothing is left. */
static char *next_field(const char **at, bool *end) {
  vtb_strbuf out = {0};
  const char *c = *at;
  bool quoted = *c == '"';
  if (!*c) return NULL;
  for (c += quoted; *c; c++) {
    if (quoted && *c == '"' && c[1] != '"') {
      quoted = false;
      continue;
    }
    if (!quoted && (*c == ',' || *c == '\n')) break;
    if (*c == '"' && c[1] == '"') c++;
    if (*c != '\r') vtb_strbuf_putc(&out, *c);
  }
  *end = *c != ',';
  *at = *c ? c + 1 : c;
  return out.at ? out.at : vtb_xstrdup("");
}

static const column *column_named(const char *name) {
  bool training = vtb_starts_with(name, "train_");
  for (int k = 0; k < COLUMNS; k++) {
    const char *own = columns[k].name;
    if (own[0] != '%'
            ? strcmp(own, name) == 0
            : (training || vtb_starts_with(name, "infer_")) && strcmp(own + 1, name + 5) == 0)
      return &columns[k];
  }
  return NULL;
}

/* A field into the cell, under the name of the JSON. */
static void take_field(cJSON *cell, const char *name, const char *value) {
  const column *c = column_named(name);
  const char *dot = c ? strchr(c->member, '.') : NULL;
  char *end;
  double x = strtod(value, &end);
  bool is_number = *value && !*end;
  if (!*value) return;
  if (!c) {
    cJSON *settings = cJSON_GetObjectItemCaseSensitive(cell, "settings");
    if (!settings) settings = cJSON_AddObjectToObject(cell, "settings");
    cJSON_AddStringToObject(settings, name, value);
  } else if (dot) {
    cJSON *peak = cJSON_GetObjectItemCaseSensitive(cell, "peak");
    if (!peak) peak = cJSON_AddObjectToObject(cell, "peak");
    cJSON_AddNumberToObject(peak, dot + 1, x);
  } else if (is_number && strcmp(c->member, "img_size") != 0) {
    cJSON_AddNumberToObject(cell, c->member, c->scale != 0 ? x / c->scale : x);
  } else {
    char square[80];
    snprintf(square, sizeof square, is_number ? "%.30sx%.30s" : "%.60s", value, value);
    bool is_size = strcmp(c->member, "img_size") == 0;
    cJSON_AddStringToObject(cell, c->member, is_size ? square : value);
  }
}

cJSON *bench_csv_read(const char *text) {
  VTB_VEC(char *) names = {0};
  cJSON *out = cJSON_CreateObject(), *cells = cJSON_AddArrayToObject(out, "cells");
  bool end = false, known = false;
  for (char *name; !end && (name = next_field(&text, &end));) {
    known |= column_named(name) && strcmp(column_named(name)->member, "best_ms") == 0;
    vtb_vec_push(&names, name);
  }
  while (*text) {
    cJSON *cell = cJSON_CreateObject();
    end = false;
    for (size_t i = 0; !end; i++) {
      char *value = next_field(&text, &end);
      if (!value) break;
      if (i < names.n) take_field(cell, names.at[i], value);
      vtb_free(value);
    }
    cJSON_AddItemToArray(cells, cell);
  }
  for (size_t i = 0; i < names.n; i++) vtb_free(names.at[i]);
  vtb_vec_free(&names);
  if (known) return out;
  cJSON_Delete(out);
  return NULL;
}
