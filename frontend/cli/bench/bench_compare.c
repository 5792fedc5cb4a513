/* A measurement beside an earlier one: what has changed. */
#include "frontend/cli/bench/bench_output.h"
#include "frontend/study/json.h"
#include "frontend/study/statistics.h"

#include <math.h>
#include <string.h>

#define MOST_BYTES ((size_t)256 << 20)

/* ---- what was measured, whichever way it was written ----------------------------------------- */

/* A measured cell: texts that say what it is of, and its time. */
typedef struct entry {
  cJSON *is; /* {"model": "vil_nano", "batch": "8", ...}; owned */
  double image_ms, spread;
  const cJSON *peak; /* of the machine; NULL: not known */
} entry;
typedef VTB_VEC(entry) entries;

static void put_setting(entry *e, const char *name, const char *value) {
  const char *open = strchr(value, '(');
  if (study_member(e->is, name) || !*value) return;
  if (strcmp(name, "mode") == 0 && open) { /* chunkwise(16) */
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)(open - value), value);
    cJSON_AddStringToObject(e->is, "mode", text);
    snprintf(text, sizeof text, "%.*s", (int)strcspn(open + 1, ")"), open + 1);
    cJSON_AddStringToObject(e->is, "chunk", text);
    return;
  }
  cJSON_AddStringToObject(e->is, name, value);
}

static void put_from(entry *e, const cJSON *j, const char *name) {
  const cJSON *v = study_member(j, name);
  char text[32];
  if (cJSON_IsString(v)) put_setting(e, name, v->valuestring);
  if (!cJSON_IsNumber(v)) return;
  snprintf(text, sizeof text, "%.15g", v->valuedouble);
  put_setting(e, name, text);
}

/* A cell of `bench`, or of a study, whose cells have what is measured in a part of their own. */
static void add_entry(const cJSON *cell, const cJSON *of_study, const cJSON *peak, entries *out) {
  static const char *const names[] = {"timed", "target", "precision", "mode",
                                      "chunk", "batch",  "threads",   "img_size"};
  const cJSON *bench = of_study ? study_member(cell, "bench") : cell, *setting;
  entry e = {.spread = study_number(bench, "spread"), .peak = peak};
  double best = study_number(bench, "best_ms"), batch = study_number(bench, "batch");
  if (!(best > 0) || !(batch > 0)) return;
  e.image_ms = best / batch;
  if (!(e.spread >= 0)) e.spread = 0;
  if (study_member(cell, "peak")) e.peak = study_member(cell, "peak");
  e.is = cJSON_CreateObject();
  cJSON_ArrayForEach(setting, study_member(cell, "settings")) {
    if (cJSON_IsString(setting) && setting->string && strcmp(setting->string, "image") != 0)
      put_setting(&e, setting->string, setting->valuestring);
  }
  put_from(&e, of_study ? of_study : cell, "model");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) put_from(&e, bench, names[i]);
  if (of_study) put_from(&e, study_member(cell, "model"), "img_size");
  vtb_vec_push(out, e);
}

static void entries_of(cJSON *document, entries *out) {
  const cJSON *of_study = study_member(document, "study"), *peaks = study_member(document, "peaks");
  const cJSON *peak = cJSON_GetArrayItem(peaks, cJSON_GetArraySize(peaks) - 1);
  size_t n;
  cJSON **cells = bench_cells_of(document, &n);
  for (size_t i = 0; i < n; i++) add_entry(cells[i], of_study, peak, out);
  vtb_free(cells);
}

static void free_entries(entries *list) {
  for (size_t i = 0; i < list->n; i++) cJSON_Delete(list->at[i].is);
  vtb_vec_free(list);
}

/* How much two have in common; -1: they differ in something that both say. */
static int likeness(const entry *a, const entry *b) {
  const cJSON *one;
  int same = 0;
  cJSON_ArrayForEach(one, a->is) {
    const cJSON *other = study_member(b->is, one->string);
    if (other && strcmp(other->valuestring, one->valuestring) != 0) return -1;
    same += other != NULL;
  }
  return same;
}

static const entry *like(const entries *list, const entry *e) {
  const entry *best = NULL;
  int most = 0;
  for (size_t i = 0; i < list->n; i++) {
    int same = likeness(&list->at[i], e);
    if (same <= most) continue;
    most = same;
    best = &list->at[i];
  }
  return best;
}

/* ---- what has changed ------------------------------------------------------------------------ */

static const char *verdict(const entry *was, const entry *is) {
  if (!study_times_differ(was->image_ms, is->image_ms, was->spread + is->spread)) return "";
  return is->image_ms < was->image_ms ? "faster" : "slower";
}

static void put_label(const entries *all, const entry *e, vtb_strbuf *out) {
  const cJSON *one;
  cJSON_ArrayForEach(one, e->is) { /* what differs among them */
    bool differs = false;
    for (size_t i = 0; i < all->n && !differs; i++) {
      const cJSON *other = study_member(all->at[i].is, one->string);
      differs = !other || strcmp(other->valuestring, one->valuestring) != 0;
    }
    if (!differs) continue;
    bool mode = strcmp(one->string, "mode") == 0, image = strcmp(one->string, "img_size") == 0;
    vtb_strbuf_printf(out, "%s%s%s%s", out->n ? ", " : "",
                      mode    ? ""
                      : image ? "image"
                              : one->string,
                      mode ? "" : " ", one->valuestring);
  }
  if (!out->n && study_member(e->is, "model"))
    vtb_strbuf_puts(out, study_member(e->is, "model")->valuestring);
}

/* The machine's peak, now over then, NAN where one of them was not measured. */
static double peak_ratio(const entry *was, const entry *is, const char *name) {
  return study_number(is->peak, name) / study_number(was->peak, name);
}

static void say_peaks(doc *d, const entry *was, const entry *is) {
  double product = peak_ratio(was, is, "product_gflops"), copy = peak_ratio(was, is, "copy_gbytes");
  if (isnan(product) || isnan(copy))
    doc_say(d, 4,
            "the machine's peak is not known of both: with --peak each time it is told whether the "
            "machine itself has changed");
  else if (fabs(product - 1) > 0.05 || fabs(copy - 1) > 0.05)
    doc_say(d, 4,
            "the machine itself differs: its peak is %.2f of what it was in products, %.2f in "
            "copies",
            product, copy);
}

static void add_changes(doc *d, const char *path, const entries *old, const entries *new) {
  static const doc_column columns[] = {
      {.key = "settings"},
      {.key = "image_ms"},
      {"image_ms_before", "then", .width = 8, .format = "%.3f", .optional = true},
      {.heading = "now", .width = 8, .format = "%.3f"},
      {"ratio", "ratio", .width = 6, .format = "%.2f", .optional = true},
      {"verdict", .optional = true},
      {.heading = "verdict", .width = -6},
      {.heading = "what", .width = -1},
      {"peak_product_ratio", .optional = true},
      {"peak_copy_ratio", .optional = true},
  };
  const entry *one = NULL, *its = NULL;
  doc_say(d, 4, "\nbeside %s: ms an image then and now, the speed now over then", path);
  cJSON *out = doc_object(F("file", path)), *rows = cJSON_AddArrayToObject(out, "rows");
  doc_put(d->json, F("compare", out));
  doc_table *t = DOC_TABLE(d, rows, columns);
  t->headless = true, t->cut = 4;
  for (size_t i = 0; i < new->n; i++) {
    const entry *e = &new->at[i], *was = like(old, e);
    const char *found = was ? verdict(was, e) : NULL;
    vtb_strbuf label = {0};
    put_label(new, e, &label);
    doc_row(d, t, V(cJSON_Duplicate(e->is, true)), V(e->image_ms), V(was ? was->image_ms : NAN),
            V(was ? e->image_ms : NAN), V(was ? was->image_ms / e->image_ms : NAN), V(found),
            V(was ? found : "not there"), V(label.at),
            V(was ? peak_ratio(was, e, "product_gflops") : NAN),
            V(was ? peak_ratio(was, e, "copy_gbytes") : NAN));
    vtb_strbuf_free(&label);
    if (was) one = was, its = e;
  }
  if (one) say_peaks(d, one, its);
}

vtb_status bench_compare(const char *path, doc *d) {
  vtb_error err = {0};
  char *text = NULL;
  size_t n = 0;
  entries old = {0}, new = {0};
  char *file = vtb_need(vtb_strprintf("%s%s", path, vtb_path_is_dir(path) ? "/results.json" : ""));
  vtb_status status = vtb_file_read(file, MOST_BYTES, &text, &n, &err);
  vtb_free(file);
  if (status != VTB_OK) return cli_error(&err);
  cJSON *before = cJSON_Parse(text);
  if (!before) before = bench_csv_read(text);
  if (before) entries_of(before, &old);
  if (!old.n) {
    vtb_fail(&err, VTB_E_INPUT,
             "%s holds no times: --compare takes what bench --json or --csv wrote, or a report's "
             "results.json",
             path);
    status = cli_error(&err);
  } else {
    entries_of(d->json, &new);
    add_changes(d, path, &old, &new);
  }
  free_entries(&old);
  free_entries(&new);
  cJSON_Delete(before);
  vtb_free(text);
  return status;
}
