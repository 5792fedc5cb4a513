/* vertebra data: what was found at a path: layout, splits, classes, sizes, what is damaged, what is
 * in two splits. */
#include "frontend/cli/data/data.h"
#include "frontend/cli/data/data_sheet.h"
#include "frontend/cli/interrupt.h"
#include "frontend/cli/names.h"
#include "frontend/cli/say/progress.h"
#include "runtime/base/utf8.h"
#include "runtime/data/survey.h"

#include <stdlib.h>
#include <string.h>

typedef struct data_command {
  cli_data_options data;
  const char *sheet;
  int64_t top;
  bool json;
} data_command;

/* One split, all of it decoded. */
typedef struct part {
  vtb_dataset *d;
  vtb_sample_facts *facts; /* NULL: no images */
  int64_t done;
  int64_t *per_class;
} part;

enum { MOST_PARTS = 3, MOST_NAMES = 10 };

static const char *visible(vtb_strbuf *buf, const char *text) {
  buf->n = 0;
  vtb_text_visible(buf, text, strlen(text));
  return vtb_strbuf_text(buf);
}

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

/* ---- as text --------------------------------------------------------------------------------- */

enum { NUMBERS = 2 + 1 + 8 + 2, MOST_BAR = 24, LEAST_BAR = 8, MOST_WIDE = 40 };

/* In so many columns; cut where there is a terminal whose line it would leave. */
static void print_class_name(const char *text, int wide, bool cut) {
  size_t n = strlen(text);
  int columns = vtb_text_columns(text, n);
  cut = cut && columns > wide;
  if (cut) n = vtb_text_fit(text, n, wide - 3);
  int pad = wide - (cut ? 3 + vtb_text_columns(text, n) : columns);
  printf("  %.*s%s%*s", (int)n, text, cut ? "..." : "", pad > 0 ? pad : 0, "");
}

static void print_classes(const part *p, int64_t top) {
  int n = vtb_dataset_classes(p->d), shown = n < top ? n : (int)top, wide = 4;
  int columns = cli_columns(stdout), most_wide = MOST_WIDE, bars = MOST_BAR;
  int64_t most = 1;
  vtb_strbuf name = {0};
  for (int k = 0; k < n; k++)
    if (p->per_class[k] > most) most = p->per_class[k];
  if (columns && columns - NUMBERS - LEAST_BAR < most_wide)
    most_wide = columns - NUMBERS - LEAST_BAR > 4 ? columns - NUMBERS - LEAST_BAR : 4;
  for (int k = 0; k < shown; k++) {
    const char *text = visible(&name, vtb_dataset_class_name(p->d, k));
    int own = vtb_text_columns(text, strlen(text));
    if (own > wide) wide = own < most_wide ? own : most_wide;
  }
  if (columns && columns - NUMBERS - wide < bars) bars = columns - NUMBERS - wide;
  for (int k = 0; k < shown; k++) {
    print_class_name(visible(&name, vtb_dataset_class_name(p->d, k)), wide, columns > 0);
    printf(" %8lld  ", (long long)p->per_class[k]);
    for (int64_t bar = 0; bar < bars * p->per_class[k] / most; bar++) putchar('#');
    putchar('\n');
  }
  if (shown < n) printf("  ... and %d classes more (--top N)\n", n - shown);
  vtb_strbuf_free(&name);
}

static void print_damaged(const part *p, int64_t top) {
  int64_t n = vtb_dataset_damaged(p->d);
  vtb_strbuf text = {0};
  if (n) printf("  damaged: %lld\n", (long long)n);
  for (int64_t k = 0; k < n && k < top; k++)
    printf("    %s\n", visible(&text, vtb_dataset_damage(p->d, k)));
  if (n > top) printf("    ... and %lld more (--top N)\n", (long long)(n - top));
  vtb_strbuf_free(&text);
}

static void print_part(const part *p, const data_command *o) {
  const vtb_dataset *d = p->d;
  printf("%s: %lld %s", vtb_dataset_split(d), (long long)vtb_dataset_count(d),
         p->facts ? "images" : "samples");
  if (vtb_dataset_has_labels(d)) printf(", %d classes", vtb_dataset_classes(d));
  if (vtb_dataset_has_masks(d)) printf(", a class for each pixel");
  putchar('\n');
  if (p->facts) {
    range w = range_of(p, false), h = range_of(p, true);
    cli_printf(4,
               "  width %d to %d (median %d), height %d to %d (median %d), %lld gray, %lld in "
               "colour",
               w.least, w.most, w.median, h.least, h.most, h.median, (long long)of_channels(p, 1),
               (long long)of_channels(p, 3));
  }
  for (int i = 0; i < vtb_dataset_arrays(d); i++) {
    vtb_array_info a = vtb_dataset_array(d, i);
    printf("  array %s, of a sample:", a.name);
    for (int k = 0; k < a.rank; k++) printf("%s%lld", k ? " x " : " ", (long long)a.dim[k]);
    puts(a.rank ? "" : " one number");
  }
  if (vtb_dataset_has_labels(d)) print_classes(p, o->top);
  const char *notes = vtb_dataset_notes(d);
  for (const char *end; (end = strchr(notes, '\n')) != NULL; notes = end + 1)
    printf("  %.*s\n", (int)(end - notes), notes);
  print_damaged(p, o->top);
}

static void print_twins(const part *parts, const twins *t) {
  char a[64], b[64];
  vtb_strbuf x = {0}, y = {0};
  if (t->within) printf("in their split twice: %lld images\n", (long long)t->within);
  if (t->across)
    cli_printf(2, "in two splits, so that what is measured was trained on: %lld images",
               (long long)t->across);
  for (int i = 0; i < t->n; i++)
    printf("  %s = %s\n", visible(&x, name_of(parts, t->first[i][0], a, sizeof a)),
           visible(&y, name_of(parts, t->first[i][1], b, sizeof b)));
  vtb_strbuf_free(&x);
  vtb_strbuf_free(&y);
}

static void print_text(const char *path, const vtb_layout *l, const part *parts, int n,
                       const data_command *o, const twins *t) {
  vtb_strbuf head = {0};
  vtb_strbuf_printf(&head, "%s: %s; ", path, l->what);
  for (int i = 0; i < l->n_splits; i++)
    vtb_strbuf_printf(&head, "%s%s", i ? ", " : "", l->split[i]);
  bool val = false, train = !l->n_splits;
  for (int i = 0; i < l->n_splits; i++) {
    val |= vtb_streq(l->split[i], "val");
    train |= vtb_streq(l->split[i], "train");
  }
  cli_printf(2, "%s%s", head.at, l->n_splits ? "" : "no splits");
  vtb_strbuf_free(&head);
  if (train && !val && o->data.val_fraction > 0)
    cli_printf(2, "training holds out %g %% of it for validation (--val-fraction)",
               100 * o->data.val_fraction);
  for (int k = 0; k < n; k++) print_part(&parts[k], o);
  print_twins(parts, t);
}

/* ---- as JSON --------------------------------------------------------------------------------- */

static void add_range(cJSON *to, const char *name, range r) {
  cJSON *j = cJSON_AddObjectToObject(to, name);
  cJSON_AddNumberToObject(j, "min", r.least);
  cJSON_AddNumberToObject(j, "median", r.median);
  cJSON_AddNumberToObject(j, "max", r.most);
}

static cJSON *part_json(const part *p) {
  cJSON *j = cJSON_CreateObject();
  cJSON_AddStringToObject(j, "name", vtb_dataset_split(p->d));
  cJSON_AddNumberToObject(j, "samples", (double)vtb_dataset_count(p->d));
  if (p->facts) {
    add_range(j, "width", range_of(p, false));
    add_range(j, "height", range_of(p, true));
    cJSON_AddNumberToObject(j, "gray", (double)of_channels(p, 1));
    cJSON_AddNumberToObject(j, "colour", (double)of_channels(p, 3));
  }
  if (vtb_dataset_has_labels(p->d)) {
    cJSON *list = cJSON_AddArrayToObject(j, "classes");
    for (int k = 0; k < vtb_dataset_classes(p->d); k++) {
      cJSON *c = cJSON_CreateObject();
      cJSON_AddStringToObject(c, "name", vtb_dataset_class_name(p->d, k));
      cJSON_AddNumberToObject(c, "samples", (double)p->per_class[k]);
      cJSON_AddItemToArray(list, c);
    }
  }
  cJSON *damaged = cJSON_AddArrayToObject(j, "damaged");
  for (int64_t k = 0; k < vtb_dataset_damaged(p->d); k++)
    cJSON_AddItemToArray(damaged, cJSON_CreateString(vtb_dataset_damage(p->d, k)));
  cJSON_AddStringToObject(j, "notes", vtb_dataset_notes(p->d));
  return j;
}

static void print_as_json(const char *path, const vtb_layout *l, const part *parts, int n,
                          const twins *t) {
  cJSON *j = cJSON_CreateObject();
  cJSON_AddStringToObject(j, "path", path);
  cJSON_AddStringToObject(j, "layout", l->what);
  cJSON *list = cJSON_AddArrayToObject(j, "splits");
  for (int k = 0; k < n; k++) cJSON_AddItemToArray(list, part_json(&parts[k]));
  cJSON_AddNumberToObject(j, "in_two_splits", (double)t->across);
  cJSON_AddNumberToObject(j, "twice_in_one", (double)t->within);
  cli_print_json(j);
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

/* Whether a training would stop at what is damaged. */
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

static vtb_status data_command_run(const char *path, const data_command *o) {
  static const char *const all[] = {"all"};
  vtb_error err = {0};
  vtb_layout l;
  part parts[MOST_PARTS] = {0};
  const volatile int *stop = cli_interrupt_wait();
  cli_data_keep_memory();
  vtb_status status = vtb_dataset_layout(path, &l, &err);
  int n = status != VTB_OK ? 0 : l.n_splits ? l.n_splits : 1;
  for (int k = 0; k < n && status == VTB_OK; k++)
    status = look(path, l.n_splits ? l.split[k] : all[0], o, stop, &parts[k], &err);
  if (status == VTB_OK) {
    twins t = find_twins(parts, n);
    if (o->json)
      print_as_json(path, &l, parts, n, &t);
    else
      print_text(path, &l, parts, n, o, &t);
    if (o->sheet) status = data_sheet_save(parts[0].d, o->sheet, &err);
    if (status == VTB_OK) status = judge(parts, n, &err);
  }
  if (status != VTB_OK && err.text[0]) cli_error(&err);
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
      {"--sheet", CLI_STR, &o.sheet, "FILE.png", "draw a contact sheet: some images of each class"},
      {"--top", CLI_INT, &o.top, "N", "classes and damaged files to list (default 20)"},
      {"--limit", CLI_INT, &o.data.limit, "N", "only N samples of each split"},
      {"--skip-damaged", CLI_INT, &o.data.skip_damaged, "N",
       "damaged samples that are no error (default one in a hundred, at least one)"},
      {"--workers", CLI_INT, &o.data.workers, "N", "threads that decode (default: cores)"},
      {"--json", CLI_FLAG, &o.json, NULL, "machine-readable output"}};
  cli_list rest = {0};
  int parsed = cli_parse("data", opts, CLI_COUNT(opts), argc, argv, &rest);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  if (rest.n != 1) return cli_usage_error("data", "one data set is needed: a folder or a file");
  vtb_status status = cli_check_name("data", "--sheet", o.sheet, ".png");
  if (status == VTB_OK) status = data_command_run(rest.at[0], &o);
  vtb_vec_free(&rest);
  return status;
}
