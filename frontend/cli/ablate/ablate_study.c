/* The study of a command line: of a file, a report, a name, or made of options. */
#include "frontend/cli/ablate/ablate.h"
#include "frontend/cli/recipe_find.h"
#include "frontend/study/options.h"
#include "frontend/study/yaml.h"
#include "runtime/data/dataset.h"

#include <string.h>
#include <time.h>

#define DEFAULT_DATA "fashion-mnist"

/* ---- what the argument is -------------------------------------------------------------------- */

static bool is_yaml(const char *path) {
  return vtb_ends_with(path, ".yaml") || vtb_ends_with(path, ".yml");
}

/* Without slashes behind it: "report". */
static char *folder_name(const char *path) {
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/') n--;
  return vtb_need(vtb_strprintf("%.*s", (int)n, path));
}

/* The file of a study: itself, that of a report's folder, or one by name. NULL: it is a model. */
static char *study_file(const ablate_command *c) {
  const char *what = c->what;
  char *folder = folder_name(what), *file = vtb_need(vtb_strprintf("%s/study.yaml", folder));
  vtb_free(folder);
  if (is_yaml(what) || (vtb_path_is_dir(what) && vtb_path_exists(file))) {
    char *found = is_yaml(what) ? vtb_xstrdup(what) : vtb_xstrdup(file);
    vtb_free(file);
    return found;
  }
  vtb_free(file);
  file = NULL;
  recipe_list all = {0};
  if (!c->vary.n) recipe_files("studies", &all);
  for (size_t i = 0; i < all.n && !file; i++)
    if (strcmp(all.at[i].name, what) == 0) file = vtb_xstrdup(all.at[i].path);
  recipe_list_free(&all);
  return file;
}

/* The folder of a report that the file is the study of; NULL: it is none's. */
static char *report_of(const char *file) {
  const char *slash = strrchr(file, '/');
  if (strcmp(slash ? slash + 1 : file, "study.yaml") != 0) return NULL;
  char *folder = slash ? vtb_need(vtb_strprintf("%.*s", (int)(slash - file), file)) : NULL;
  if (!folder) folder = vtb_xstrdup(".");
  char *cells = vtb_need(vtb_strprintf("%s/cells", folder));
  char *results = vtb_need(vtb_strprintf("%s/results.json", folder));
  bool is = vtb_path_is_dir(cells) || vtb_path_exists(results);
  vtb_free(cells);
  vtb_free(results);
  if (is) return folder;
  vtb_free(folder);
  return NULL;
}

/* reports/NAME-DATE */
static char *new_folder(const char *name) {
  char date[32];
  time_t now = time(NULL);
  struct tm tm;
  const char *last = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
  strftime(date, sizeof date, "%Y%m%d-%H%M%S", localtime_r(&now, &tm));
  return vtb_need(
      vtb_strprintf("reports/%.*s-%s", (int)strcspn(last, "."), *last ? last : "study", date));
}

/* ---- options over what the file says --------------------------------------------------------- */

/* Names that the command line has replaced of a file: "seeds, lr". */
static void replaced(vtb_strbuf *list, const char *name) {
  vtb_strbuf_printf(list, "%s%s", list->n ? ", " : "", name);
}

static void take_text(char **field, const char *text, const char *name, vtb_strbuf *list) {
  if (!text) return;
  vtb_free(*field);
  *field = vtb_xstrdup(text);
  replaced(list, name);
}

static void take_number(int64_t *field, int64_t value, int64_t least, const char *name,
                        vtb_strbuf *list) {
  if (value < least) return;
  *field = value;
  replaced(list, name);
}

static vtb_status take_defines(const ablate_command *c, study *s, vtb_strbuf *list) {
  for (size_t i = 0; i < c->defines.n; i++) {
    const char *define = c->defines.at[i], *eq = strchr(define, '=');
    if (!eq || eq == define)
      return cli_usage_error("ablate", "-D takes NAME=VALUE, not '%s'", define);
    char *name = vtb_need(vtb_strprintf("%.*s", (int)(eq - define), define));
    study_set(&s->options, "-D", name, eq + 1);
    replaced(list, name);
    vtb_free(name);
  }
  return VTB_OK;
}

static void take_options(const ablate_command *c, study *s, vtb_strbuf *list) {
  size_t n;
  const study_option *table = study_option_table(&n);
  for (size_t i = 0; i < n; i++) {
    if (!c->option[i] && !c->flag[i]) continue;
    study_set(&s->options, table[i].word, NULL, c->option[i]);
    replaced(list, table[i].word + 2);
  }
}

/* An axis of a name that the file varies takes its place. */
static vtb_status take_axes(const ablate_command *c, study *s, vtb_strbuf *list, vtb_error *err) {
  vtb_status status = VTB_OK;
  size_t from_file = s->axes.n;
  for (size_t i = 0; i < c->vary.n && status == VTB_OK; i++) {
    status = study_vary(s, c->vary.at[i], err);
    size_t last = s->axes.n - 1;
    if (status == VTB_OK) replaced(list, s->axes.at[last].name);
    for (size_t k = 0; k < from_file && status == VTB_OK; k++) {
      if (strcmp(s->axes.at[k].name, s->axes.at[last].name) != 0) continue;
      study_axis old = s->axes.at[k];
      s->axes.at[k] = s->axes.at[last];
      s->axes.at[last] = old;
      study_axis_free(&s->axes.at[last]);
      s->axes.n--;
      break;
    }
  }
  return status;
}

static vtb_status take_arrangement(const ablate_command *c, study *s, vtb_strbuf *list) {
  if (c->pairwise + c->one_at_a_time + (c->sample > 0) > 1)
    return cli_usage_error("ablate", "--pairwise, --one-at-a-time and --sample exclude each other");
  if (c->pairwise) s->arrangement = STUDY_PAIRWISE;
  if (c->one_at_a_time) s->arrangement = STUDY_ONE_AT_A_TIME;
  if (c->sample > 0) s->arrangement = STUDY_SAMPLE;
  take_number(&s->sample, c->sample, 1, "sample", list);
  take_number(&s->seed, c->seed, 0, "seed", list);
  if (c->pairwise || c->one_at_a_time) replaced(list, "arrangement");
  return VTB_OK;
}

static void take_measures(const ablate_command *c, study *s, vtb_strbuf *list) {
  if (c->recipe) study_texts_free(&s->train);
  take_text(&s->recipe, c->recipe, "train", list);
  take_text(&s->data, c->data, "data", list);
  take_number(&s->seeds, c->seeds, 1, "seeds", list);
  take_number(&s->rounds, c->rounds, 1, "rounds", list);
  if (c->seconds >= 0) s->seconds = c->seconds, replaced(list, "seconds");
  if (c->bench || c->bench_train) replaced(list, "bench");
  s->bench |= c->bench || c->bench_train;
  s->bench_train |= c->bench_train;
  if (c->jobs > 0) s->jobs = c->jobs; /* results do not depend on them */
  if (c->threads >= 0) s->threads = c->threads;
}

static vtb_status take_all(const ablate_command *c, study *s, vtb_strbuf *list, vtb_error *err) {
  take_text(&s->title, c->title, "title", list);
  vtb_status status = take_axes(c, s, list, err);
  for (size_t i = 0; i < c->where.n; i++) vtb_vec_push(&s->where, vtb_xstrdup(c->where.at[i]));
  if (c->where.n) replaced(list, "where");
  if (status == VTB_OK) status = take_defines(c, s, list);
  if (status == VTB_OK) status = take_arrangement(c, s, list);
  take_options(c, s, list);
  take_measures(c, s, list);
  return status;
}

/* ---- data ------------------------------------------------------------------------------------ */

static vtb_status take_data(void *arg, struct fy_node *root) {
  *(char **)arg =
      study_yaml_scalar(study_yaml_behind(fy_node_mapping_lookup_by_string(root, "data", FY_NT)));
  return VTB_OK;
}

/* Evaluation has to be told, too: what the recipe names, or the default. */
static vtb_status find_data(study *s) {
  char *text = NULL;
  size_t n = 0;
  bool varied = false;
  for (size_t i = 0; i < s->axes.n; i++)
    for (size_t k = 0; k < s->axes.at[i].parts.n; k++)
      varied |= strcmp(s->axes.at[i].parts.at[k].name, "data") == 0;
  if (!s->seeds || s->data || varied) return VTB_OK;
  if (s->recipe_file && vtb_file_read(s->recipe_file, 1 << 20, &text, &n, NULL) == VTB_OK &&
      study_yaml_read(s->recipe_file, text, n, take_data, &s->data, NULL) != VTB_OK)
    s->data = NULL; /* lines, or what train will tell about */
  s->assumed_data = true;
  if (!s->data) {
    s->data = vtb_xstrdup(DEFAULT_DATA);
    cli_say("no --data: " DEFAULT_DATA "\n");
  }
  vtb_free(text);
  return VTB_OK;
}

/* Data that are not there are told before anything runs; without a test split val has to judge. */
static vtb_status look_at_data(study *s, const char *folder, vtb_error *err) {
  vtb_dataset *d = NULL;
  const vtb_dataset_options test = {.split = "test", .skip_damaged = VTB_SKIP_SOME};
  const vtb_dataset_options any = {.skip_damaged = VTB_SKIP_SOME};
  vtb_error quiet = {0};
  if (!s->seeds || !s->data || vtb_dataset_open(s->data, &test, &d, &quiet) == VTB_OK) {
    vtb_dataset_free(d);
    return VTB_OK;
  }
  s->untested = vtb_dataset_open(s->data, &any, &d, &quiet) == VTB_OK;
  vtb_dataset_free(d);
  if (s->untested)
    cli_say("%s has no test split: val judges, by which the weights are chosen, too\n", s->data);
  if (s->untested || vtb_path_exists(s->data)) return VTB_OK;
  char *results = vtb_need(vtb_strprintf("%s/results.json", folder));
  vtb_status status =
      vtb_path_exists(results) ? VTB_OK : vtb_fail(err, VTB_E_INPUT, "%s", quiet.text);
  vtb_free(results);
  return status;
}

/* ---- all together ---------------------------------------------------------------------------- */

static vtb_status read_file(ablate_command *c, const char *file, study *s, vtb_strbuf *changes,
                            vtb_error *err) {
  vtb_status status = study_read(file, s, err);
  if (status == VTB_OK) status = take_all(c, s, changes, err);
  if (status == VTB_OK && changes->n)
    cli_say("the command line replaces or adds to what %s says: %s\n", file, changes->at);
  if (c->run.folder) return status;
  c->folder = report_of(file);
  if (status == VTB_OK && c->folder) cli_say("goes on in %s; -o NEW begins anew\n", c->folder);
  return status;
}

static vtb_status make_study(ablate_command *c, const char *file, study *s, vtb_error *err) {
  vtb_strbuf list = {0};
  vtb_status status = VTB_OK;
  if (file) {
    status = read_file(c, file, s, &list, err);
  } else if (!c->vary.n) {
    status = cli_usage_error("ablate", "what is varied? --vary NAME=A,B,...; `vertebra ablate "
                                       "--list` has studies by name");
  } else {
    s->model = vtb_xstrdup(c->what);
    status = take_all(c, s, &list, err);
  }
  vtb_strbuf_free(&list);
  return status;
}

vtb_status ablate_study(ablate_command *c, study *s, vtb_error *err) {
  study_texts notes = {0};
  char *file = study_file(c);
  *s = study_defaults();
  if (c->run.folder) c->run.folder = c->folder = folder_name(c->run.folder);
  vtb_status status = make_study(c, file, s, err);
  if (status == VTB_OK && c->seeds > 0 && !s->recipe && !s->train.n)
    status = cli_usage_error("ablate", "--seeds is of trainings: give --train RECIPE, too");
  if (status == VTB_OK) study_complete(s);
  if (status == VTB_OK) status = study_resolve(s, &notes, err);
  for (size_t i = 0; i < notes.n && status == VTB_OK; i++) cli_say("%s\n", notes.at[i]);
  if (status == VTB_OK && s->seeds && s->recipe) status = recipe_find(s->recipe, &s->recipe_file);
  if (status == VTB_OK) status = find_data(s);
  if (status == VTB_OK && !c->run.folder && !c->folder)
    c->folder = new_folder(file ? file : s->model);
  if (!c->run.folder) c->run.folder = c->folder;
  if (status == VTB_OK) status = look_at_data(s, c->run.folder, err);
  study_texts_free(&notes);
  vtb_free(file);
  return status;
}

vtb_status ablate_list(void) {
  recipe_list all = {0};
  doc *d = doc_new(cJSON_CreateArray());
  recipe_files("studies", &all);
  for (size_t i = 0; i < all.n; i++) {
    study s;
    vtb_error err = {0};
    bool ok = study_read(all.at[i].path, &s, &err) == VTB_OK;
    const char *title = !ok ? err.text : s.title ? s.title : all.at[i].about;
    doc_item(d->json, F("name", all.at[i].name), F("title", title), F("path", all.at[i].path),
             F("about", all.at[i].about));
    doc_say(d, 23, "%-22s %s", all.at[i].name, title);
    study_free(&s);
  }
  cli_tell(d);
  recipe_list_free(&all);
  return VTB_OK;
}
