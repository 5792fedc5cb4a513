#include "frontend/study/results.h"

#include "frontend/study/cell_results.h"
#include "frontend/study/worker.h"

#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 30 };

static void add_texts(cJSON *to, const char *name, const study_texts *texts) {
  cJSON *list = cJSON_AddArrayToObject(to, name);
  for (size_t i = 0; i < texts->n; i++)
    cJSON_AddItemToArray(list, cJSON_CreateString(texts->at[i]));
}

static void add_axes(cJSON *to, const study *s) {
  static const char *const kinds[] = {"hyperparameter", "option", "model"};
  cJSON *list = cJSON_AddArrayToObject(to, "axes");
  for (size_t i = 0; i < s->axes.n; i++) {
    const study_axis *a = &s->axes.at[i];
    cJSON *axis = cJSON_CreateObject();
    cJSON_AddStringToObject(axis, "name", a->name);
    cJSON_AddStringToObject(axis, "kind", kinds[a->kind]);
    add_texts(axis, "values", &a->values);
    add_texts(axis, "labels", &a->labels);
    cJSON_AddItemToArray(list, axis);
  }
}

static cJSON *study_json(const study *s) {
  static const char *const arrangements[] = {"grid", "pairwise", "one_at_a_time", "sample"};
  cJSON *out = cJSON_CreateObject();
  vtb_strbuf text = {0};
  cJSON_AddStringToObject(out, "title", s->title ? s->title : "");
  cJSON_AddStringToObject(out, "model", s->model ? s->model : "");
  cJSON_AddStringToObject(out, "arrangement", arrangements[s->arrangement]);
  add_axes(out, s);
  add_texts(out, "where", &s->where);
  if (s->recipe) cJSON_AddStringToObject(out, "recipe", s->recipe);
  if (s->data) cJSON_AddStringToObject(out, "data", s->data);
  cJSON_AddNumberToObject(out, "seeds", (double)s->seeds);
  if (s->bench) cJSON_AddNumberToObject(out, "rounds", (double)s->rounds);
  study_text(s, &text);
  cJSON_AddStringToObject(out, "text", vtb_strbuf_text(&text));
  vtb_strbuf_free(&text);
  return out;
}

/* "AMD EPYC 7B13", as the system calls it. */
static void processor_name(char *out, size_t size) {
  char line[512];
  FILE *f = fopen("/proc/cpuinfo", "r");
  out[0] = 0;
  while (f && fgets(line, sizeof line, f)) {
    char *colon = strchr(line, ':');
    if (!vtb_starts_with(line, "model name") || !colon) continue;
    colon[1 + strcspn(colon + 1, "\n")] = 0;
    snprintf(out, size, "%s", colon + 1 + strspn(colon + 1, " \t"));
    break;
  }
  if (f) fclose(f);
}

static cJSON *machine_json(const study *s) {
  char host[256] = "", processor[256];
  cJSON *out = cJSON_CreateObject();
  int cores = study_machine_cores();
  gethostname(host, sizeof host - 1);
  processor_name(processor, sizeof processor);
  cJSON_AddStringToObject(out, "host", host);
  cJSON_AddStringToObject(out, "processor", processor);
  cJSON_AddNumberToObject(out, "cores", cores);
  cJSON_AddNumberToObject(out, "threads", s->threads ? (double)s->threads : cores);
  return out;
}

/* From when to when the steps ran that are known. */
static void add_times(cJSON *to, const study_work *w) {
  const char *first = NULL, *last = NULL;
  for (size_t i = 0; i < w->tasks.n; i++) {
    const study_task *t = &w->tasks.at[i];
    if (!t->known || !*t->record.began) continue;
    if (!first || strcmp(t->record.began, first) < 0) first = t->record.began;
    if (!last || strcmp(t->record.began, last) > 0) last = t->record.began;
  }
  cJSON_AddStringToObject(to, "began", first ? first : "");
  cJSON_AddStringToObject(to, "ended", last ? last : "");
}

static cJSON *peaks_json(const study_work *w) {
  cJSON *list = cJSON_CreateArray();
  for (size_t i = 0; i < w->tasks.n; i++) {
    const study_task *t = &w->tasks.at[i];
    if (t->step != STUDY_PEAK || !t->known || !study_record_ok(&t->record)) continue;
    cJSON *peak = cJSON_CreateObject();
    cJSON_AddNumberToObject(peak, "round", t->n);
    study_copy_number(peak, "product_gflops", t->record.document, "product_gflops");
    study_copy_number(peak, "copy_gbytes", t->record.document, "copy_gbytes");
    if (t->record.others >= 0) cJSON_AddNumberToObject(peak, "others", t->record.others);
    cJSON_AddItemToArray(list, peak);
  }
  return list;
}

cJSON *study_results(const study_work *w) {
  cJSON *out = cJSON_CreateObject();
  cJSON_AddStringToObject(out, "vertebra", VTB_VERSION);
  cJSON_AddItemToObject(out, "study", study_json(w->study));
  cJSON_AddItemToObject(out, "machine", machine_json(w->study));
  add_times(out, w);
  cJSON *peaks = peaks_json(w), *cells = NULL;
  if (cJSON_GetArraySize(peaks))
    cJSON_AddItemToObject(out, "peaks", peaks);
  else
    cJSON_Delete(peaks);
  cJSON *pictures = cJSON_CreateArray();
  cells = cJSON_AddArrayToObject(out, "cells");
  for (size_t i = 0; i < w->cells->n; i++)
    cJSON_AddItemToArray(cells, study_cell_results(w, (int)i, pictures));
  if (cJSON_GetArraySize(pictures))
    cJSON_AddItemToObject(out, "pictures", pictures);
  else
    cJSON_Delete(pictures);
  study_findings(out);
  return out;
}

/* ---- files ----------------------------------------------------------------------------------- */

vtb_status study_results_read(const char *path, cJSON **out, vtb_error *err) {
  char *text = NULL;
  size_t n;
  vtb_strbuf file = {0};
  vtb_strbuf_printf(&file, "%s%s", path, vtb_path_is_dir(path) ? "/results.json" : "");
  vtb_status status = vtb_file_read(file.at, MOST_BYTES, &text, &n, err);
  *out = status == VTB_OK ? cJSON_ParseWithLength(text, n) : NULL;
  if (status == VTB_OK && !cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(*out, "cells"))) {
    cJSON_Delete(*out);
    *out = NULL;
    status = vtb_fail(err, VTB_E_INPUT, "%s holds no results of a study", file.at);
  }
  vtb_free(text);
  vtb_strbuf_free(&file);
  return status;
}

static vtb_status write_in(const char *folder, const char *name, const char *text, vtb_error *err) {
  vtb_strbuf path = {0};
  vtb_strbuf_printf(&path, "%s/%s", folder, name);
  vtb_status status = vtb_file_write_atomic(path.at, text, strlen(text), err);
  vtb_strbuf_free(&path);
  return status;
}

vtb_status study_results_write(const cJSON *results, const char *folder, vtb_error *err) {
  vtb_strbuf csv = {0};
  char *text = cJSON_Print(results);
  if (!text) return vtb_no_memory(err, "the results");
  vtb_status status = write_in(folder, "results.json", text, err);
  cJSON_free(text);
  study_csv(results, &csv);
  if (status == VTB_OK) status = write_in(folder, "results.csv", vtb_strbuf_text(&csv), err);
  vtb_strbuf_free(&csv);
  return status;
}
