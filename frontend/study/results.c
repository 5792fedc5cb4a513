/* The results of a study, written. */
#include "frontend/study/results.h"

#include "frontend/document/document.h"
#include "frontend/study/cell_results.h"
#include "frontend/study/worker.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 30 };

static cJSON *texts_json(const study_texts *texts) {
  cJSON *list = cJSON_CreateArray();
  for (size_t i = 0; i < texts->n; i++) doc_append(list, cJSON_CreateString(texts->at[i]));
  return list;
}

static cJSON *axes_json(const study *s) {
  static const char *const kinds[] = {"hyperparameter", "option", "model"};
  cJSON *list = cJSON_CreateArray();
  for (size_t i = 0; i < s->axes.n; i++) {
    const study_axis *a = &s->axes.at[i];
    doc_item(list, F("name", a->name), F("kind", kinds[a->kind]),
             F("values", texts_json(&a->values)), F("labels", texts_json(&a->labels)));
  }
  return list;
}

static cJSON *study_json(const study *s) {
  static const char *const arrangements[] = {"grid", "pairwise", "one_at_a_time", "sample"};
  vtb_strbuf text = {0};
  study_text(s, &text);
  cJSON *out =
      doc_object(F("title", s->title ? s->title : ""), F("model", s->model ? s->model : ""),
                 F("arrangement", arrangements[s->arrangement]), F("axes", axes_json(s)),
                 F("where", texts_json(&s->where)), K("recipe", s->recipe), K("data", s->data),
                 F("seeds", s->seeds), K("rounds", s->bench ? (double)s->rounds : (double)NAN),
                 F("text", vtb_strbuf_text(&text)));
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
  int cores = study_machine_cores();
  gethostname(host, sizeof host - 1);
  processor_name(processor, sizeof processor);
  return doc_object(F("host", host), F("processor", processor), F("cores", cores),
                    F("threads", s->threads ? s->threads : cores));
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
  doc_put(to, F("began", first ? first : ""), F("ended", last ? last : ""));
}

/* NULL if none was measured. */
static cJSON *peaks_json(const study_work *w) {
  cJSON *list = NULL;
  for (size_t i = 0; i < w->tasks.n; i++) {
    const study_task *t = &w->tasks.at[i];
    const cJSON *d = t->record.document;
    double others = t->record.others;
    if (t->step != STUDY_PEAK || !t->known || !study_record_ok(&t->record)) continue;
    if (!list) list = cJSON_CreateArray();
    doc_item(list, F("round", t->n), K("product_gflops", study_number(d, "product_gflops")),
             K("copy_gbytes", study_number(d, "copy_gbytes")),
             K("others", others >= 0 ? others : (double)NAN));
  }
  return list;
}

cJSON *study_results(const study_work *w) {
  cJSON *out = doc_object(F("vertebra", VTB_VERSION), F("study", study_json(w->study)),
                          F("machine", machine_json(w->study)));
  add_times(out, w);
  doc_put(out, K("peaks", peaks_json(w)));
  cJSON *pictures = cJSON_CreateArray(), *cells = cJSON_AddArrayToObject(out, "cells");
  for (size_t i = 0; i < w->cells->n; i++)
    doc_append(cells, study_cell_results(w, (int)i, pictures));
  if (cJSON_GetArraySize(pictures))
    doc_put(out, F("pictures", pictures));
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
