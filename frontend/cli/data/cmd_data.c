/* vertebra data: what was found at a path: layout, splits, classes, sizes, what is damaged, what is
 * in two splits. */
#include "frontend/cli/data/data.h"
#include "frontend/cli/data/data_sheet.h"
#include "frontend/cli/interrupt.h"
#include "frontend/cli/say/progress.h"
#include "runtime/data/survey.h"

#include <stdlib.h>
#include <string.h>

typedef struct data_command {
  cli_data_options data;
  const char *sheet;
  int64_t top;
} data_command;

/* One split, all of it decoded. */
typedef struct part {
  vtb_dataset *d;
  vtb_sample_facts *facts; /* NULL: no images */
  int64_t done;
  int64_t *per_class;
} part;

enum { MOST_PARTS = 3, MOST_NAMES = 10 };

/* ---- numbers of a part ----------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
  int x = *(const int *)a, y = *(const int *)b;
  return (x > y) - (x < y);
}

typedef struct range {
  int least, median, most;
} range;

static range range_of(const part *p, bool heights) {
  int64_t n = 0, count = vtb_dataset_count(p->d);
  int *v = vtb_xcalloc((size_t)count + 1, sizeof *v);
  for (int64_t i = 0; i < count; i++)
    if (p->facts[i].width) v[n++] = heights ? p->facts[i].height : p->facts[i].width;
  qsort(v, (size_t)n, sizeof *v, by_value);
  range r = {0};
  if (n) r = (range){v[0], v[n / 2], v[n - 1]};
  vtb_free(v);
  return r;
}

static int64_t of_channels(const part *p, int channels) {
  int64_t n = 0;
  for (int64_t i = 0; i < vtb_dataset_count(p->d); i++) n += p->facts[i].channels == channels;
  return n;
}

static void count_classes(part *p) {
  p->per_class = vtb_xcalloc((size_t)vtb_dataset_classes(p->d) + 1, sizeof *p->per_class);
  for (int64_t i = 0; i < vtb_dataset_count(p->d); i++) {
    int label = vtb_dataset_label(p->d, i);
    if (label >= 0) p->per_class[label]++;
  }
}

/* ---- the same image twice -------------------------------------------------------------------- */

typedef struct print {
  uint64_t hash;
  int part;
  int64_t sample;
} print;

static int by_hash(const void *a, const void *b) {
  const print *x = a, *y = b;
  if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
  if (x->part != y->part) return x->part - y->part;
  return x->sample < y->sample ? -1 : x->sample > y->sample;
}

typedef struct twins {
  int64_t across, within; /* images that are in an earlier split too; that are twice in one */
  print first[MOST_NAMES][2];
  int n;
} twins;

static twins find_twins(const part *parts, int n_parts) {
  twins t = {0};
  VTB_VEC(print) all = {0};
  for (int k = 0; k < n_parts; k++)
    for (int64_t i = 0; parts[k].facts && i < vtb_dataset_count(parts[k].d); i++)
      if (parts[k].facts[i].width) vtb_vec_push(&all, ((print){parts[k].facts[i].hash, k, i}));
  if (all.n) qsort(all.at, all.n, sizeof *all.at, by_hash);
  size_t group = 0;
  for (size_t i = 1; i < all.n; i++) {
    if (all.at[i].hash != all.at[i - 1].hash) group = i;
    if (group == i) continue;
    bool across = all.at[i].part != all.at[group].part;
    if (across)
      t.across++;
    else
      t.within++;
    if (across && t.n < MOST_NAMES) {
      t.first[t.n][0] = all.at[group];
      t.first[t.n++][1] = all.at[i];
    }
  }
  vtb_vec_free(&all);
  return t;
}

static const char *name_of(const part *parts, print p, char *buf, size_t size) {
  const char *file = vtb_dataset_file(parts[p.part].d, p.sample);
  if (file) return file;
  snprintf(buf, size, "%s sample %lld", vtb_dataset_split(parts[p.part].d), (long long)p.sample);
  return buf;
}

/* ---- what is told ---------------------------------------------------------------------------- */

static void add_classes(doc *d, cJSON *out, const part *p, int64_t top) {
  enum { BAR = 24 };
  static const char bar[BAR + 1] = "########################";
  static const doc_column columns[] = {
      {"name", "class", .width = -4, .most = -40},
      {"samples", "samples", .width = 8},
      {.heading = "share", .width = -1},
  };
  int n = vtb_dataset_classes(p->d);
  int64_t most = 1;
  for (int k = 0; k < n; k++)
    if (p->per_class[k] > most) most = p->per_class[k];
  doc_table *t = DOC_TABLE(d, cJSON_AddArrayToObject(out, "classes"), columns);
  t->indent = 2, t->headless = true, t->cut = 2;
  for (int k = 0; k < n; k++) {
    int64_t length = BAR * p->per_class[k] / most;
    doc_row(d, t, V(vtb_dataset_class_name(p->d, k)), V(p->per_class[k]), V(bar + BAR - length));
    if (k >= top) doc_hide_row(t);
  }
  if (n > top) doc_say(d, 4, "  ... and %d classes more (--top N)", n - (int)top);
}

static void add_damaged(doc *d, cJSON *out, const part *p, int64_t top) {
  int64_t n = vtb_dataset_damaged(p->d);
  cJSON *list = cJSON_AddArrayToObject(out, "damaged");
  if (n) doc_say(d, 4, "  damaged: %lld", (long long)n);
  for (int64_t k = 0; k < n; k++) {
    doc_append(list, cJSON_CreateString(vtb_dataset_damage(p->d, k)));
    if (k < top) doc_say(d, 6, "    %s", doc_visible(d, vtb_dataset_damage(p->d, k)));
  }
  if (n > top) doc_say(d, 6, "    ... and %lld more (--top N)", (long long)(n - top));
}

static cJSON *range_json(range r) {
  return doc_object(F("min", r.least), F("median", r.median), F("max", r.most));
}

static void add_images(doc *d, cJSON *out, const part *p) {
  range w = range_of(p, false), h = range_of(p, true);
  int64_t gray = of_channels(p, 1), colour = of_channels(p, 3);
  doc_put(out, F("width", range_json(w)), F("height", range_json(h)), F("gray", gray),
          F("colour", colour));
  doc_say(d, 4,
          "  width %d to %d (median %d), height %d to %d (median %d), %lld gray, %lld in colour",
          w.least, w.most, w.median, h.least, h.most, h.median, (long long)gray, (long long)colour);
}

static void say_arrays(doc *d, const vtb_dataset *data) {
  for (int i = 0; i < vtb_dataset_arrays(data); i++) {
    vtb_array_info a = vtb_dataset_array(data, i);
    vtb_strbuf shape = {0};
    for (int k = 0; k < a.rank; k++)
      vtb_strbuf_printf(&shape, "%s%lld", k ? " x " : " ", (long long)a.dim[k]);
    doc_say(d, 4, "  array %s, of a sample:%s", a.name,
            a.rank ? vtb_strbuf_text(&shape) : " one number");
    vtb_strbuf_free(&shape);
  }
}

static void add_part(doc *d, cJSON *list, const part *p, const data_command *o) {
  const vtb_dataset *data = p->d;
  long long count = (long long)vtb_dataset_count(data);
  char classes[40] = "";
  cJSON *out = doc_item(list, F("name", vtb_dataset_split(data)), F("samples", count));
  if (vtb_dataset_has_labels(data))
    snprintf(classes, sizeof classes, ", %d classes", vtb_dataset_classes(data));
  doc_say(d, 4, "%s: %lld %s%s%s", vtb_dataset_split(data), count, p->facts ? "images" : "samples",
          classes, vtb_dataset_has_masks(data) ? ", a class for each pixel" : "");
  if (p->facts) add_images(d, out, p);
  say_arrays(d, data);
  if (vtb_dataset_has_labels(data)) add_classes(d, out, p, o->top);
  const char *notes = vtb_dataset_notes(data);
  for (const char *at = notes, *end; (end = strchr(at, '\n')) != NULL; at = end + 1)
    doc_say(d, 4, "  %.*s", (int)(end - at), at);
  add_damaged(d, out, p, o->top);
  doc_put(out, F("notes", notes));
}

static void say_twins(doc *d, const part *parts, const twins *t) {
  char a[64], b[64];
  if (t->within) doc_say(d, 2, "in their split twice: %lld images", (long long)t->within);
  if (t->across)
    doc_say(d, 2, "in two splits, so that what is measured was trained on: %lld images",
            (long long)t->across);
  for (int i = 0; i < t->n; i++)
    doc_say(d, 4, "  %s = %s", doc_visible(d, name_of(parts, t->first[i][0], a, sizeof a)),
            doc_visible(d, name_of(parts, t->first[i][1], b, sizeof b)));
}

static void tell_data(const char *path, const vtb_layout *l, const part *parts, int n,
                      const data_command *o, const twins *t) {
  vtb_strbuf splits = {0};
  bool val = false, train = !l->n_splits;
  doc *d = doc_new(doc_object(F("path", path), F("layout", l->what)));
  cJSON *list = cJSON_AddArrayToObject(d->json, "splits");
  for (int i = 0; i < l->n_splits; i++) {
    val |= vtb_streq(l->split[i], "val");
    train |= vtb_streq(l->split[i], "train");
    vtb_strbuf_printf(&splits, "%s%s", i ? ", " : "", l->split[i]);
  }
  doc_say(d, 2, "%s: %s; %s", path, l->what, l->n_splits ? splits.at : "no splits");
  vtb_strbuf_free(&splits);
  if (train && !val && o->data.val_fraction > 0)
    doc_say(d, 2, "training holds out %g %% of it for validation (--val-fraction)",
            100 * o->data.val_fraction);
  for (int k = 0; k < n; k++) add_part(d, list, &parts[k], o);
  say_twins(d, parts, t);
  doc_put(d->json, F("in_two_splits", t->across), F("twice_in_one", t->within));
  cli_tell(d);
}

/* ---- the command ----------------------------------------------------------------------------- */

static void on_sample(void *user, int64_t done, int64_t total) {
  cli_progress_images("looked at", done, total, *(double *)user);
}

static vtb_status look(const char *path, const char *split, const data_command *o,
                       const volatile int *stop, part *p, vtb_error *err) {
  vtb_dataset_options with = {
      .split = split, .limit = o->data.limit, .skip_damaged = o->data.skip_damaged};
  double start = vtb_now();
  VTB_TRY(vtb_dataset_open(path, &with, &p->d, err));
  count_classes(p);
  if (!vtb_dataset_has_images(p->d)) return VTB_OK;
  vtb_survey_options s = {.n_threads = (int)o->data.workers,
                          .on_sample = cli_progress_live() ? on_sample : NULL,
                          .user = &start,
                          .stop = stop};
  vtb_status status = vtb_dataset_survey(p->d, &s, &p->facts, &p->done, err);
  if (status == VTB_OK && *stop)
    return cli_interrupt_say(p->done, vtb_dataset_count(p->d), "images");
  return status;
}

/* True if a training would stop at what is damaged. */
static vtb_status judge(const part *parts, int n, vtb_error *err) {
  for (int k = 0; k < n; k++) {
    vtb_error why = {.status = VTB_E_INPUT};
    for (int64_t i = 0; parts[k].facts && i < vtb_dataset_count(parts[k].d); i++)
      if (!parts[k].facts[i].width) {
        snprintf(why.text, sizeof why.text, "damaged");
        return vtb_dataset_skip(parts[k].d, i, &why, err);
      }
  }
  return VTB_OK;
}

static vtb_status data_command_run(void *user, const cli_list *args, vtb_error *err) {
  static const char *const all[] = {"all"};
  const data_command *o = user;
  const char *path = args->at[0];
  vtb_layout l;
  part parts[MOST_PARTS] = {0};
  const volatile int *stop = cli_interrupt_wait();
  cli_data_keep_memory();
  vtb_status status = vtb_dataset_layout(path, &l, err);
  int n = status != VTB_OK ? 0 : l.n_splits ? l.n_splits : 1;
  for (int k = 0; k < n && status == VTB_OK; k++)
    status = look(path, l.n_splits ? l.split[k] : all[0], o, stop, &parts[k], err);
  if (status == VTB_OK) {
    twins t = find_twins(parts, n);
    tell_data(path, &l, parts, n, o, &t);
    if (o->sheet) status = data_sheet_save(parts[0].d, o->sheet, err);
    if (status == VTB_OK) status = judge(parts, n, err);
  }
  for (int k = 0; k < n; k++) {
    vtb_free(parts[k].facts);
    vtb_free(parts[k].per_class);
    vtb_dataset_free(parts[k].d);
  }
  return status;
}

vtb_status cli_cmd_data(int argc, char **argv) {
  data_command o = {.data = CLI_DATA_DEFAULTS, .top = 20};
  const cli_opt opts[] = {
      {"--sheet", CLI_FILE, &o.sheet, "FILE.png",
       "draw a contact sheet: some images of each class"},
      {"--top", CLI_INT, &o.top, "N", "classes and damaged files to list (default 20)"},
      {"--limit", CLI_INT, &o.data.limit, "N", "only N samples of each split"},
      {"--skip-damaged", CLI_INT, &o.data.skip_damaged, "N",
       "damaged samples that are no error (default one in a hundred, at least one)"},
      {"--workers", CLI_INT, &o.data.workers, "N", "threads that decode (default: cores)"}};
  return CLI_RUN("data", opts, .one = "one data set is needed: a folder or a file",
                 .run = data_command_run, .options = &o);
}
