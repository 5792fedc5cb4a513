/* The reader of results.json for the page's sections. */
#include "frontend/report/results.h"

#include <math.h>
#include <string.h>

/* A value of an axis: a text, or what else as JSON has it. */
static const char *value_text(rp_report *r, const cJSON *x) {
  if (cJSON_IsString(x)) return x->valuestring;
  char *text = x ? cJSON_PrintUnformatted(x) : NULL;
  const char *kept = vtb_arena_strdup(&r->arena, text ? text : "");
  cJSON_free(text);
  return kept;
}

/* ---- axes ------------------------------------------------------------------------------------ */

static int value_index(rp_axis *a, const char *value) {
  for (size_t i = 0; i < a->values.n; i++)
    if (strcmp(a->values.at[i], value) == 0) return (int)i;
  vtb_vec_push(&a->values, value);
  vtb_vec_push(&a->labels, value);
  return (int)a->values.n - 1;
}

static void read_axes(rp_report *r) {
  const cJSON *axis, *value;
  cJSON_ArrayForEach(axis, study_member(r->study, "axes")) {
    rp_axis a = {.name = study_text_of(axis, "name")};
    if (!*a.name) continue;
    cJSON_ArrayForEach(value, study_member(axis, "values")) value_index(&a, value_text(r, value));
    size_t k = 0;
    cJSON_ArrayForEach(value, study_member(axis, "labels")) {
      if (k < a.labels.n && cJSON_IsString(value)) a.labels.at[k] = value->valuestring;
      k++;
    }
    vtb_vec_push(&r->axes, a);
  }
}

/* ---- cells ----------------------------------------------------------------------------------- */

static const struct {
  const char *mean, *spread;
} member[RP_MEASURES] = {
    [RP_PARAMS] = {"model.param_count", ""},
    [RP_GMACS] = {"model.gmacs", ""},
    [RP_WORKSPACE] = {"model.workspace_bytes", ""},
    [RP_PEAK] = {"bench.peak_bytes", ""},
    [RP_MS] = {"bench.best_ms", "bench.spread"},
    [RP_RATE] = {"bench.samples_per_sec", "bench.spread"},
    [RP_TRAIN_RATE] = {"train.samples_per_sec", ""},
    [RP_VAL] = {"train.val_mean", "train.val_spread"},
    [RP_TEST] = {"train.mean", "train.spread"},
};

static void read_measures(rp_cell *c) {
  int seeds = c->seeds;
  int rounds = cJSON_GetArraySize(study_member(c->json, "bench.rounds"));
  for (int m = 0; m < RP_MEASURES; m++) {
    bool timed = m == RP_MS || m == RP_RATE;
    c->mean[m] = study_number(c->json, member[m].mean);
    c->spread[m] = *member[m].spread ? study_number(c->json, member[m].spread) : (double)NAN;
    if (timed) c->spread[m] *= c->mean[m];
    if ((timed ? rounds : seeds) < 2) c->spread[m] = (double)NAN;
    if (m == RP_PARAMS || m == RP_GMACS || m == RP_WORKSPACE) c->spread[m] = 0;
  }
  if (isnan(c->mean[RP_PEAK])) c->mean[RP_PEAK] = study_number(c->json, "train.peak_bytes");
}

/* The size of a chunk: of the axis "chunk", or in the brackets of a mode. */
static double chunk_of(const rp_report *r, const rp_cell *c) {
  for (size_t i = 0; i < r->axes.n; i++) {
    const rp_axis *a = &r->axes.at[i];
    if (c->value[i] < 0) continue;
    const char *v = a->values.at[c->value[i]];
    char *end;
    if (strcmp(a->name, "chunk") == 0) {
      double x = strtod(v, &end);
      if (end > v && !*end && x > 0) return x;
    }
    const char *open = strcmp(a->name, "mode") == 0 ? strchr(v, '(') : NULL;
    double x = open ? strtod(open + 1, &end) : 0;
    if (open && end > open + 1 && *end == ')' && x > 0) return x;
  }
  return (double)NAN;
}

static rp_status status_of(const char *text) {
  static const char *const names[] = {"done", "failed", "impossible", "excluded", "pending"};
  for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
    if (strcmp(names[i], text) == 0) return (rp_status)i;
  return RP_PENDING;
}

/* The value of a cell for an axis; of an axis of several names, "a,b", their values as "x:y". NULL:
 * nothing. */
static const char *setting(rp_report *r, const cJSON *settings, const char *axis) {
  vtb_strbuf s = {0};
  bool any = false;
  for (const char *at = axis; *at;) {
    char name[256];
    size_t n = strcspn(at, ",");
    snprintf(name, sizeof name, "%.*s", (int)n, at);
    const cJSON *x = cJSON_GetObjectItemCaseSensitive(settings, name);
    if (at > axis) vtb_strbuf_putc(&s, ':');
    if (x) vtb_strbuf_puts(&s, value_text(r, x));
    any |= x != NULL;
    at += n + (at[n] != 0);
  }
  const char *text = any ? vtb_arena_strdup(&r->arena, vtb_strbuf_text(&s)) : NULL;
  vtb_strbuf_free(&s);
  return text;
}

static void read_cell(rp_report *r, const cJSON *json) {
  rp_cell c = {.json = json,
               .number = (int)r->cells.n,
               .id = study_text_of(json, "id"),
               .message = study_text_of(json, "message"),
               .status_text = study_text_of(json, "status")};
  c.status = status_of(c.status_text);
  if (c.status == RP_PENDING) c.status_text = "pending";
  c.value = VTB_NEW_ARRAY(&r->arena, int, r->axes.n + 1);
  for (size_t i = 0; i < r->axes.n; i++) {
    const char *x = setting(r, study_member(json, "settings"), r->axes.at[i].name);
    c.value[i] = x ? value_index(&r->axes.at[i], x) : -1;
  }
  c.label = study_text_of(json, "label");
  if (!*c.label) c.label = *c.id ? c.id : study_text_of(r->study, "model");
  c.tokens = study_number(json, "model.tokens");
  c.chunk = chunk_of(r, &c);
  c.seeds = cJSON_GetArraySize(study_member(json, "train.seeds"));
  c.images = study_number(json, "train.images");
  bool step = vtb_starts_with(study_text_of(json, "bench.timed"), "train");
  c.predicted = study_number(json, step ? "model.train_predicted_ms" : "model.predicted_ms");
  read_measures(&c);
  r->n_of[c.status]++;
  vtb_vec_push(&r->cells, c);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static bool agree_but(const rp_report *r, size_t axis, const rp_cell *a, const rp_cell *b) {
  for (size_t i = 0; i < r->axes.n; i++)
    if ((i == axis) == (a->value[i] == b->value[i])) return false;
  return true;
}

static bool resizes(const rp_report *r, size_t axis) {
  for (size_t i = 0; i < r->cells.n; i++)
    for (size_t k = 0; k < i; k++) {
      const rp_cell *a = &r->cells.at[i], *b = &r->cells.at[k];
      if (a->tokens > 0 && b->tokens > 0 && a->tokens != b->tokens && agree_but(r, axis, a, b))
        return true;
    }
  return false;
}

static void read_score(rp_report *r) {
  r->score = "score";
  for (size_t i = 0; i < r->cells.n; i++) {
    const char *score = study_text_of(r->cells.at[i].json, "train.score");
    if (!*score) continue;
    r->score = score;
    r->lower = strcmp(study_text_of(r->cells.at[i].json, "train.better"), "lower") == 0;
    break;
  }
  r->percent = strcmp(r->score, "top1") == 0 || strcmp(r->score, "top5") == 0;
}

void rp_read(rp_report *r, const cJSON *document) {
  *r = (rp_report){.json = document, .study = study_member(document, "study")};
  r->margin = study_number(document, "speed_margin");
  vtb_arena_init(&r->arena);
  r->title = study_text_of(r->study, "title");
  read_axes(r);
  const cJSON *cell;
  cJSON_ArrayForEach(cell, study_member(document, "cells")) {
    if (cJSON_IsObject(cell)) read_cell(r, cell);
  }
  for (size_t i = 0; i < r->axes.n; i++) {
    r->axes.at[i].varies = r->axes.at[i].values.n > 1;
    r->axes.at[i].resizes = resizes(r, i);
  }
  read_score(r);
}

void rp_free(rp_report *r) {
  for (size_t i = 0; i < r->axes.n; i++) {
    vtb_vec_free(&r->axes.at[i].values);
    vtb_vec_free(&r->axes.at[i].labels);
  }
  vtb_vec_free(&r->axes);
  vtb_vec_free(&r->cells);
  vtb_arena_free(&r->arena);
}
