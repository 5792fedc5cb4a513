/* See train_record.h. */
#include "frontend/cli/train/train_record.h"
#include "frontend/cli/train/train_recipe.h"
#include "frontend/study/run_log.h"
#include "runtime/train/fingerprint.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

/* ---- values ---------------------------------------------------------------------------------- */

/* Options of the invocation, not of the run. */
static const char *const not_stored[] = {
    "--out",        "--recipe",         "--resume",       "--again",       "--overwrite",
    "--json",       "--quiet",          "--time-passes",  "--print-after", "--trace",
    "--plan-scale", "--ranks-per-node", "--draw-schedule"};
/* A run may be continued with others: results do not depend on them, or they only say when it
 * stops. What the data are is compared by itself. */
static const char *const free_to_change[] = {
    "--data",       "--max-seconds",        "--max-steps",    "--fit-seconds", "--loss-scale",
    "--target",     "--checkpoint-minutes", "--eval-batch",   "--threads",     "--precision",
    "--workers",    "--tensorboard",        "--skip-damaged", "--label",       "--log-every",
    "--accumulate", "--shard-optimizer",    "--recompute",    "--memory"};

static bool is_set(const cli_opt *o) {
  switch (o->kind) {
  case CLI_FLAG:
    return *(const bool *)o->into;
  case CLI_STR:
  case CLI_CHOICE:
  case CLI_FILE:
  case CLI_FOLDER:
    return *(const char *const *)o->into != NULL;
  case CLI_LIST:
    return ((const cli_list *)o->into)->n > 0;
  case CLI_IF_SAID:
    return *(const int64_t *)o->into != 0;
  case CLI_INT:
  case CLI_POSITIVE:
  case CLI_THREADS:
  case CLI_SIZE:
    return *(const int64_t *)o->into > 0;
  case CLI_FLOAT:
    return *(const double *)o->into != 0 && !isnan(*(const double *)o->into);
  }
  return false;
}

/* Absolute, if there is such a file; "FILE(beta = 1)" too. To be freed. */
static char *absolute(const char *text) {
  size_t n = strcspn(text, "(");
  char *path = vtb_xstrdup(text);
  path[n] = 0;
  char *real = vtb_path_exists(path) ? realpath(path, NULL) : NULL;
  vtb_strbuf whole = {0};
  vtb_strbuf_printf(&whole, "%s%s", real ? real : path, text + n);
  vtb_free(real);
  vtb_free(path);
  return whole.at;
}

/* The same of the file of "PREFIX=FILE". */
static char *absolute_part(const char *text) {
  size_t prefix;
  const char *file = vtb_load_part(text, &prefix);
  char *path = absolute(file ? file : text);
  if (!file) return path;
  vtb_strbuf whole = {0};
  vtb_strbuf_printf(&whole, "%.*s=%s", (int)prefix, text, path);
  vtb_free(path);
  return whole.at;
}

static bool is_path(const cli_opt *o, const char *text) {
  return vtb_streq(o->metavar, "FILE") || vtb_streq(o->metavar, "DIR") ||
         strcmp(o->name, "--data") == 0 || strchr(text, '/') || strstr(text, ".vtb");
}

/* As JSON, which YAML reads, unless it is a plain word. */
static void put_text(vtb_strbuf *out, const char *text) {
  static const char *const words[] = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"};
  bool plain = isalpha((unsigned char)*text) || *text == '/';
  for (const char *c = text; *c; c++) plain &= isalnum((unsigned char)*c) || strchr("._/-", *c);
  if (plain && !CLI_IS_AMONG(text, words))
    vtb_strbuf_puts(out, text);
  else
    vtb_strbuf_json(out, text);
}

static void put_value(vtb_strbuf *out, const cli_opt *o) {
  if (o->kind == CLI_FLAG) {
    vtb_strbuf_puts(out, *(const bool *)o->into ? "true" : "false");
  } else if (o->kind == CLI_STR || o->kind == CLI_CHOICE) {
    const char *text = *(const char *const *)o->into;
    char *path = is_path(o, text) ? absolute(text) : vtb_xstrdup(text);
    put_text(out, path);
    vtb_free(path);
  } else if (o->kind == CLI_LIST) {
    const cli_list *list = o->into;
    for (size_t i = 0; i < list->n; i++) {
      char *text =
          vtb_streq(o->metavar, "FILE") ? absolute_part(list->at[i]) : vtb_xstrdup(list->at[i]);
      vtb_strbuf_puts(out, i ? ", " : "[");
      vtb_strbuf_json(out, text);
      vtb_free(text);
    }
    vtb_strbuf_putc(out, ']');
  } else if (o->kind == CLI_FLOAT) {
    vtb_strbuf_double(out, *(const double *)o->into);
  } else {
    vtb_strbuf_printf(out, "%lld", (long long)*(const int64_t *)o->into);
  }
}

void train_record_options(const char *what, const train_options *o, vtb_strbuf *out) {
  char *model = absolute(what);
  vtb_strbuf_puts(out, "model: ");
  put_text(out, model);
  vtb_strbuf_putc(out, '\n');
  vtb_free(model);
  for (int i = 0; i < o->n_rows; i++) {
    const cli_opt *row = &o->rows[i];
    bool always = row->kind == CLI_FLAG ||
                  (row->kind == CLI_INT && *(const int64_t *)row->into >= 0) ||
                  (row->kind == CLI_FLOAT && !isnan(*(const double *)row->into));
    if (CLI_IS_AMONG(row->name, not_stored) || !(always || is_set(row))) continue;
    vtb_strbuf_printf(out, "%s: ", row->name + strspn(row->name, "-"));
    put_value(out, row);
    vtb_strbuf_putc(out, '\n');
  }
}

void train_record_words(const train_options *o, const char *const *apart, size_t n_apart,
                        vtb_strbuf *out) {
  for (int i = 0; i < o->n_rows; i++) {
    const cli_opt *row = &o->rows[i];
    if (CLI_IS_AMONG(row->name, not_stored) || CLI_IS_AMONG(row->name, free_to_change) ||
        cli_is_among(row->name, apart, n_apart) || !is_set(row))
      continue;
    size_t from = out->n;
    vtb_strbuf_printf(out, "%s%s=", out->n ? " " : "", row->name + strspn(row->name, "-"));
    from += from > 0;
    put_value(out, row);
    for (size_t k = from; k < out->n; k++) /* a word has no blanks */
      if (out->at[k] == ' ') out->at[k] = '_';
  }
}

/* ---- sources --------------------------------------------------------------------------------- */

static bool hash_of_file(const char *path, char out[20]) {
  vtb_mapped_file file = {0};
  out[0] = 0;
  if (vtb_map_file(path, &file, NULL) != VTB_OK) return false;
  snprintf(out, 20, "%016llx", (unsigned long long)XXH3_64bits(file.data, file.n));
  vtb_unmap_file(&file);
  return true;
}

/* Hashes the weights that the run began with, and those of its parts. */
static bool hash_of_init(const cli_load_options *l, char out[20]) {
  if (!l->weights || !hash_of_file(l->weights, out)) return false;
  for (size_t i = 0, n; i < l->given.n; i++) {
    const char *file = vtb_load_part(l->given.at[i], &n);
    char other[20];
    if (!file || file == l->weights) continue;
    if (!hash_of_file(file, other)) return false;
    uint64_t h = XXH3_64bits_withSeed(other, strlen(other), strtoull(out, NULL, 16));
    snprintf(out, 20, "%016llx", (unsigned long long)h);
  }
  return true;
}

void train_record_model_hash(const char *what, const train_programs *p, char out[20]) {
  if (p->file) {
    hash_of_file(what, out);
    return;
  }
  uint64_t h = 0;
  for (size_t i = 0; i < p->sources.n; i++) {
    const vtb_source_file *f = &p->sources.at[i];
    h = XXH3_64bits_withSeed(f->name, strlen(f->name), h + 1);
    h = XXH3_64bits_withSeed(f->text, f->n, h);
  }
  snprintf(out, 20, "%016llx", (unsigned long long)h);
}

vtb_status train_record_sources(const run_folder *f, const train_sources *all, vtb_error *err) {
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < all->n && status == VTB_OK; i++) {
    char *path = run_file(f->sources, all->at[i].name), *slash = strrchr(path, '/');
    *slash = 0;
    status = vtb_make_dirs(path, err);
    *slash = '/';
    if (status == VTB_OK) status = vtb_file_write_atomic(path, all->at[i].text, all->at[i].n, err);
    vtb_free(path);
  }
  return status;
}

const char *train_record_changed(const run_folder *f, const train_sources *all) {
  const char *found = NULL;
  for (size_t i = 0; i < all->n && !found && vtb_path_is_dir(f->sources); i++) {
    char *path = run_file(f->sources, all->at[i].name), *text = NULL;
    size_t n = 0;
    if (vtb_file_read(path, (size_t)1 << 26, &text, &n, NULL) != VTB_OK || n != all->at[i].n ||
        memcmp(text, all->at[i].text, n) != 0)
      found = all->at[i].name;
    vtb_free(text);
    vtb_free(path);
  }
  return found;
}

void train_record_use_sources(const char *folder, const char *what, train_options *o) {
  char *sources = run_file(folder, "model");
  const vtb_search *search = vtb_search_default();
  char *record = run_file(folder, "run.yaml");
  train_record_text t;
  vtb_vec_push(&o->owned, sources);
  if (train_recipe_record(record, &t, NULL) == VTB_OK && t.name) {
    vtb_vec_push(&o->owned, t.name);
    o->name = t.name;
    t.name = NULL;
  }
  o->run_label = t.label;
  t.label = NULL;
  train_record_text_free(&t);
  vtb_free(record);
  if (!vtb_path_is_dir(sources)) return;
  vtb_vec_push(&o->search, sources);
  for (size_t i = 0; i < search->n_dirs; i++) vtb_vec_push(&o->search, search->dirs[i]);
  o->model.compile.search = o->search.at;
  o->model.compile.n_search = o->search.n;
  if (!vtb_ends_with(what, ".vtb") && !strchr(what, '/')) return;
  const char *slash = strrchr(what, '/');
  char *copy = run_file(sources, slash ? slash + 1 : what);
  vtb_vec_push(&o->owned, copy);
  if (vtb_path_exists(copy)) o->source = copy;
}

static vtb_status put_data(vtb_strbuf *out, const char *key, const vtb_dataset *d, vtb_error *err) {
  char data[VTB_FINGERPRINT];
  vtb_status status = d ? vtb_fingerprint(d, data, err) : VTB_OK;
  if (!d || status != VTB_OK) return status;
  vtb_strbuf_printf(out, "\n  %s: ", key);
  vtb_strbuf_json(out, data);
  return VTB_OK;
}

/* ---- the record ------------------------------------------------------------------------------ */

vtb_status train_record_write(const run_folder *f, const train_options *o, const char *options,
                              const char *name, const char *model_hash, const train_plan_list *plan,
                              vtb_error *err) {
  char date[40], hash[20];
  time_t now = time(NULL);
  struct tm tm;
  vtb_strbuf out = {0};
  strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
  vtb_strbuf_printf(&out,
                    "# A training run of vertebra, as a recipe: every option with its value.\n"
                    "# Once more, bit for bit: vertebra train --again %s\n%srun:\n"
                    "  vertebra: " VTB_VERSION "\n  started: %s\n  command: ",
                    f->path, options, date);
  vtb_strbuf_json(&out, o->command ? o->command : "");
  vtb_strbuf_puts(&out, "\n  name: ");
  vtb_strbuf_json(&out, name);
  vtb_strbuf_puts(&out, "\n  label: ");
  vtb_strbuf_json(&out, o->run_label ? o->run_label : "");
  vtb_strbuf_printf(&out, "\n  model_hash: \"%s\"", model_hash);
  vtb_status status = put_data(&out, "data", o->train.train_set, err);
  if (status == VTB_OK) status = put_data(&out, "eval_data", o->train.eval_set, err);
  if (hash_of_init(&o->init.load, hash)) vtb_strbuf_printf(&out, "\n  init_hash: \"%s\"", hash);
  for (size_t i = 0; i < plan->n; i++)
    vtb_strbuf_printf(&out, "%s%lld:%lld", i ? " " : "\n  plan: \"", (long long)plan->at[i].step,
                      (long long)plan->at[i].total);
  vtb_strbuf_puts(&out, plan->n ? "\"\n" : "\n");
  if (status == VTB_OK) status = vtb_file_write_atomic(f->record, out.at, out.n, err);
  vtb_strbuf_free(&out);
  return status;
}

static vtb_status changed(const char *folder, const char *what, const char *which, vtb_error *err) {
  return vtb_fail(err, VTB_E_INPUT, "%s is not what the run in %s read: %s", what, folder, which);
}

static vtb_status check_data(const char *folder, const char *path, const char *then,
                             const vtb_dataset *d, vtb_error *err) {
  char data[VTB_FINGERPRINT], which[400] = "";
  if (!then || !d) return VTB_OK;
  VTB_TRY(vtb_fingerprint(d, data, err));
  vtb_tell_differences(then, data, which, sizeof which);
  return *which ? changed(folder, path, which, err) : VTB_OK;
}

vtb_status train_record_check(const char *folder, const char *what, const train_options *o,
                              vtb_error *err) {
  char *path = run_file(folder, "run.yaml"), hash[20];
  train_record_text t;
  vtb_status status = train_recipe_record(path, &t, err);
  if (status == VTB_OK && t.vertebra && strcmp(t.vertebra, VTB_VERSION) != 0)
    cli_say("%s was made by vertebra %s, this is " VTB_VERSION ": results may differ\n", folder,
            t.vertebra);
  if (status == VTB_OK) status = check_data(folder, o->data.path, t.data, o->train.train_set, err);
  if (status == VTB_OK)
    status = check_data(folder, o->data.path, t.eval_data, o->train.eval_set, err);
  if (status == VTB_OK && t.init_hash && o->init.load.weights &&
      (!hash_of_init(&o->init.load, hash) || strcmp(hash, t.init_hash) != 0))
    status = changed(folder, o->init.load.weights, "its bytes differ", err);
  if (status == VTB_OK && t.model_hash && cli_is_built(what) && hash_of_file(what, hash) &&
      strcmp(hash, t.model_hash) != 0)
    status = changed(folder, what, "it was built again", err);
  train_record_text_free(&t);
  vtb_free(path);
  return status;
}

/* "0:480 12:470" */
static vtb_status read_plan(const char *folder, train_plan_list *out, vtb_error *err) {
  char *path = run_file(folder, "run.yaml");
  train_record_text t;
  vtb_status status = train_recipe_record(path, &t, err);
  int used = 0;
  long long step, total;
  for (const char *at = status == VTB_OK && t.plan ? t.plan : "";
       sscanf(at, "%lld:%lld%n", &step, &total, &used) == 2; at += used)
    vtb_vec_push(out, ((vtb_train_plan){step, total}));
  train_record_text_free(&t);
  vtb_free(path);
  return status;
}

vtb_status train_record_plan(const char *folder, bool from_log, train_plan_list *out,
                             vtb_error *err) {
  run_log log;
  vtb_status status = read_plan(folder, out, err);
  if (status != VTB_OK || out->n || !from_log) return status;
  VTB_TRY(run_log_read(folder, &log, err));
  for (size_t i = 0; i < log.events.n; i++) {
    const cJSON *e = log.events.at[i];
    double step = run_event_number(e, "step"), total = run_event_number(e, "total");
    if (run_event_is(e, "plan") && step >= 0 && total >= 0)
      vtb_vec_push(out, ((vtb_train_plan){(int64_t)step, (int64_t)total}));
  }
  run_log_free(&log);
  return VTB_OK;
}
