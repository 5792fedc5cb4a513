/* results.csv: columns as in timm's tables of results and benchmarks where they have the same, one
 * more an axis, and what a study has besides. */
#include "frontend/study/results.h"

#include <math.h>
#include <string.h>

/* ---- fields ---------------------------------------------------------------------------------- */

static void put_number(vtb_strbuf *out, double x, int digits) {
  if (isfinite(x)) vtb_strbuf_printf(out, "%.*f", digits, x);
}

/* The timing of a cell: of a training step it stands in the columns of training. */
static const cJSON *timing_of(const cJSON *cell, bool training) {
  const cJSON *bench = study_member(cell, "bench");
  bool step = strchr(study_text_of(bench, "timed"), ',') != NULL;
  return step == training ? bench : NULL;
}

/* ---- columns --------------------------------------------------------------------------------- */

typedef struct column {
  const char *name, *part; /* part: the cell's member; "infer", "step": its timing */
  const char *field;       /* of the part; NULL: of the cell itself */
  double scale;
  int digits;
} column;

static const column columns[] = {
    {"img_size", "model", "img_size", 0, 0},
    {"top1", "train", "mean", 100, 3},
    {"top1_err", "train", "mean", -100, 3},
    {"top1_spread", "train", "spread", 100, 3},
    {"top5", "train", "top5", 100, 3},
    {"top5_err", "train", "top5", -100, 3},
    {"val_top1", "train", "val_mean", 100, 3},
    {"val_top1_spread", "train", "val_spread", 100, 3},
    {"seeds", "train", "seeds", 0, 0},
    {"param_count", "model", "param_count", 1e-6, 4},
    {"infer_gmacs", "model", "gmacs", 1, 6},
    {"infer_batch_size", "infer", "batch", 1, 0},
    {"infer_samples_per_sec", "infer", "samples_per_sec", 1, 2},
    {"infer_step_time", "infer", "best_ms", 1, 4},
    {"infer_spread", "infer", "spread", 1, 4},
    {"infer_peak_mib", "infer", "peak_bytes", 1.0 / 1048576, 1},
    {"train_samples_per_sec", "train", "samples_per_sec", 1, 2},
    {"train_step_time", "train", "step_time", 1, 4},
    {"train_peak_mib", "train", "peak_bytes", 1.0 / 1048576, 1},
};
enum { N_COLUMNS = sizeof columns / sizeof *columns };

static const cJSON *part_of(const cJSON *cell, const column *c) {
  if (strcmp(c->part, "infer") == 0) return timing_of(cell, false);
  const cJSON *part = study_member(cell, c->part);
  bool timed = vtb_starts_with(c->name, "train_");
  if (timed && !part) part = timing_of(cell, true);
  return part;
}

/* Columns of a score that is no accuracy have its name, and its own scale. */
static void put_column(vtb_strbuf *out, const cJSON *cell, const column *c, bool top1) {
  const cJSON *part = part_of(cell, c), *value = study_member(part, c->field);
  bool own = strstr(c->name, "top1") && !top1;
  if (!value && strcmp(c->name, "train_step_time") == 0) value = study_member(part, "best_ms");
  if (cJSON_IsArray(value))
    vtb_strbuf_printf(out, "%d", cJSON_GetArraySize(value));
  else if (cJSON_IsString(value))
    vtb_strbuf_csv(out, value->valuestring);
  else if (cJSON_IsNumber(value) && own)
    put_number(out, value->valuedouble, 6);
  else if (cJSON_IsNumber(value))
    put_number(out,
               c->scale < 0 ? 100 + c->scale * value->valuedouble : c->scale * value->valuedouble,
               c->digits);
}

/* The score of the study: that of its first cell that has one. */
static const char *score_of(const cJSON *results) {
  const cJSON *cell;
  cJSON_ArrayForEach(cell, study_member(results, "cells")) {
    if (*study_text_of(cell, "train.score")) return study_text_of(cell, "train.score");
  }
  return "top1";
}

/* Columns of errors are of accuracies alone. */
static bool is_left_out(const column *c, bool top1) {
  return !top1 && (strcmp(c->name, "top1_err") == 0 || vtb_starts_with(c->name, "top5"));
}

/* ---- the table ------------------------------------------------------------------------------- */

/* The settings by name, each once, in the order of the axes. */
static void put_axes(vtb_strbuf *out, const cJSON *results, const cJSON *cell) {
  const cJSON *axis;
  cJSON_ArrayForEach(axis, study_member(results, "study.axes")) {
    for (const char *name = study_text_of(axis, "name"); *name;) {
      char one[256];
      size_t n = strcspn(name, ",");
      snprintf(one, sizeof one, "%.*s", (int)n, name);
      name += n + (name[n] != 0);
      if (strcmp(one, "model") == 0) continue;
      vtb_strbuf_putc(out, ',');
      vtb_strbuf_csv(out, cell ? study_text_of(study_member(cell, "settings"), one) : one);
    }
  }
}

static void put_head(vtb_strbuf *out, const cJSON *results, const char *score, bool top1) {
  vtb_strbuf_puts(out, "model");
  put_axes(out, results, NULL);
  vtb_strbuf_puts(out, ",label,status");
  for (int i = 0; i < N_COLUMNS; i++) {
    const char *name = columns[i].name, *at = strstr(name, "top1");
    if (is_left_out(&columns[i], top1)) continue;
    vtb_strbuf_putc(out, ',');
    if (at && !top1)
      vtb_strbuf_printf(out, "%.*s%s%s", (int)(at - name), name, score, at + 4);
    else
      vtb_strbuf_puts(out, name);
  }
  vtb_strbuf_puts(out, ",message\n");
}

void study_csv(const cJSON *results, vtb_strbuf *out) {
  const cJSON *cell;
  const char *score = score_of(results);
  bool top1 = strcmp(score, "top1") == 0;
  put_head(out, results, score, top1);
  cJSON_ArrayForEach(cell, study_member(results, "cells")) {
    const char *model = study_text_of(cell, "settings.model");
    vtb_strbuf_csv(out, *model ? model : study_text_of(results, "study.model"));
    put_axes(out, results, cell);
    vtb_strbuf_putc(out, ',');
    vtb_strbuf_csv(out, study_text_of(cell, "label"));
    vtb_strbuf_putc(out, ',');
    vtb_strbuf_csv(out, study_text_of(cell, "status"));
    for (int i = 0; i < N_COLUMNS; i++) {
      if (is_left_out(&columns[i], top1)) continue;
      vtb_strbuf_putc(out, ',');
      put_column(out, cell, &columns[i], top1);
    }
    vtb_strbuf_putc(out, ',');
    vtb_strbuf_csv(out, study_text_of(cell, "message"));
    vtb_strbuf_putc(out, '\n');
  }
}
