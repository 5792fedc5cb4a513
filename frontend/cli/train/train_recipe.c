/* See train_recipe.h. */
#include "frontend/cli/train/train_recipe.h"

#include "frontend/study/yaml.h"

#include <string.h>

/* libfyaml compares each name of a mapping with those before it. */
enum { MOST_BYTES = 128 << 10, MOST_DEPTH = 16, MOST_MERGES = 1000 };

typedef struct reader {
  const char *path;
  const cli_opt *opts;
  int n_opts;
  train_words *words;
  vtb_error *err;
  int merges; /* mappings that were taken in by << */
} reader;

void train_words_free(train_words *w) {
  for (size_t i = 0; i < w->list.n; i++) vtb_free(w->list.at[i]);
  vtb_vec_free(&w->list);
  vtb_free(w->model);
}

static void push(reader *r, const char *word) { vtb_vec_push(&r->words->list, vtb_xstrdup(word)); }

/* ---- options --------------------------------------------------------------------------------- */

/* An option that a recipe cannot say: it belongs to one run. */
static bool is_of_command_line(const char *name) {
  static const char *const names[] = {"--recipe", "--resume", "--again", "--overwrite"};
  return CLI_IS_AMONG(name, names);
}

static const cli_opt *find_option(const reader *r, const char *name) {
  return is_of_command_line(name) ? NULL : cli_find_option(r->opts, r->n_opts, name);
}

static vtb_status unknown(const reader *r, const char *name, int line, int column) {
  const char **names = vtb_xcalloc((size_t)r->n_opts + 1, sizeof *names);
  size_t n = 0;
  for (int i = 0; i < r->n_opts; i++)
    if (!is_of_command_line(r->opts[i].name)) names[n++] = r->opts[i].name + 2;
  names[n++] = "model";
  bool only = is_of_command_line(name);
  const char *bare = name + strspn(name, "-"), *near = only ? NULL : vtb_suggest(bare, names, n);
  vtb_fail(r->err, VTB_E_INPUT, "%s:%d:%d: %s '%s'%s%s%s", r->path, line, column,
           only ? "no option of a recipe:" : "unknown option", bare, near ? "; did you mean '" : "",
           near ? near : "", near ? "'?" : "");
  vtb_free(names);
  return VTB_E_INPUT;
}

static vtb_status put_option(reader *r, const cli_opt *o, const char *value, int line, int column) {
  if (o->kind != CLI_FLAG) {
    push(r, o->name);
    push(r, value);
    return VTB_OK;
  }
  bool on = strcmp(value, "true") == 0;
  if (!on && strcmp(value, "false") != 0)
    return vtb_fail(r->err, VTB_E_INPUT, "%s:%d:%d: '%s' is true or false, not '%s'", r->path, line,
                    column, o->name + 2, value);
  if (on) push(r, o->name);
  return VTB_OK;
}

/* ---- lines of names and values --------------------------------------------------------------- */

static vtb_status read_line(reader *r, char *line, int number) {
  char *hash = strchr(line, '#');
  if (hash) *hash = 0;
  int column = 1 + (int)strspn(line, " \t");
  line += column - 1;
  size_t n = strlen(line);
  while (n && strchr(" \t\r", line[n - 1])) line[--n] = 0;
  if (!n) return VTB_OK;
  if (line[0] == '-' && line[1] == 'D') { /* -D name=value */
    push(r, "-D");
    push(r, line + 2 + strspn(line + 2, " \t"));
    return VTB_OK;
  }
  char *eq = strchr(line, '=');
  vtb_strbuf name = {0};
  vtb_strbuf_printf(&name, "%s%.*s", line[0] == '-' ? "" : "--",
                    (int)(eq ? strcspn(line, " \t=") : n), line);
  const cli_opt *o = find_option(r, name.at);
  const char *value = eq ? eq + 1 + strspn(eq + 1, " \t") : NULL;
  vtb_status status = VTB_OK;
  if (!o)
    status = unknown(r, name.at, number, column);
  else if (o->kind != CLI_FLAG && !value)
    status = vtb_fail(r->err, VTB_E_INPUT, "%s:%d:%d: no value for '%s'", r->path, number, column,
                      name.at + 2);
  else
    status = put_option(r, o, value ? value : "true", number, column);
  vtb_strbuf_free(&name);
  return status;
}

static vtb_status read_lines(reader *r, char *text) {
  vtb_status status = VTB_OK;
  char *rest = text;
  int number = 1;
  for (char *line; status == VTB_OK && (line = strsep(&rest, "\n")); number++)
    status = read_line(r, line, number);
  return status;
}

/* Not YAML: the first line that has one of them has a `=` before any `:`. */
static bool is_lines(const char *path, const char *text) {
  if (vtb_ends_with(path, ".yaml") || vtb_ends_with(path, ".yml")) return false;
  for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
    size_t n = strcspn(line, "#\n"), at = strcspn(line, "=:");
    if (at < n) return line[at] == '=';
  }
  return true;
}

/* ---- YAML ------------------------------------------------------------------------------------ */

static vtb_status wrong_value(const reader *r, const cli_opt *o, struct fy_node *key) {
  int line, column;
  study_yaml_place(key, &line, &column);
  return vtb_fail(r->err, VTB_E_INPUT, "%s:%d:%d: the value of '%s' is no %s", r->path, line,
                  column, o->name + strspn(o->name, "-"),
                  o->kind == CLI_LIST ? "list" : "single value");
}

/* {depth: 12}: depth=12. */
static vtb_status read_settings(reader *r, const cli_opt *o, struct fy_node *map,
                                struct fy_node *key) {
  void *at = NULL;
  vtb_status status = VTB_OK;
  for (struct fy_node_pair *pair;
       status == VTB_OK && (pair = fy_node_mapping_iterate(map, &at)) != NULL;) {
    char *name = study_yaml_scalar(study_yaml_behind(fy_node_pair_key(pair))),
         *value = study_yaml_scalar(study_yaml_behind(fy_node_pair_value(pair)));
    vtb_strbuf text = {0};
    if (name && value) {
      vtb_strbuf_printf(&text, "%s=%s", name, value);
      push(r, o->name);
      push(r, text.at);
    } else {
      status = wrong_value(r, o, key);
    }
    vtb_strbuf_free(&text);
    vtb_free(name);
    vtb_free(value);
  }
  return status;
}

static vtb_status read_list(reader *r, const cli_opt *o, struct fy_node *list,
                            struct fy_node *key) {
  void *at = NULL;
  vtb_status status = VTB_OK;
  int line, column;
  study_yaml_place(key, &line, &column);
  for (struct fy_node *item; status == VTB_OK && (item = fy_node_sequence_iterate(list, &at));) {
    char *text = study_yaml_scalar(study_yaml_behind(item));
    status = text ? put_option(r, o, text, line, column) : wrong_value(r, o, key);
    vtb_free(text);
  }
  return status;
}

static vtb_status read_value(reader *r, const cli_opt *o, struct fy_node *key,
                             struct fy_node *value) {
  if (value && o->kind == CLI_LIST && fy_node_is_sequence(value))
    return read_list(r, o, value, key);
  if (value && o->kind == CLI_LIST && fy_node_is_mapping(value))
    return read_settings(r, o, value, key);
  char *text = study_yaml_scalar(value);
  int line, column;
  study_yaml_place(key, &line, &column);
  vtb_status status = VTB_OK;
  if (!text)
    status = wrong_value(r, o, key);
  else if (!study_yaml_is_null(value, text))
    status = put_option(r, o, text, line, column);
  vtb_free(text);
  return status;
}

static vtb_status read_mapping(reader *r, struct fy_node *map, int depth);

/* The value of <<: a mapping, or a list of mappings, of which the first one counts most. */
static vtb_status read_merged(reader *r, struct fy_node *value, int depth, int line, int column) {
  const char *wrong = NULL;
  if (depth >= MOST_DEPTH || r->merges++ >= MOST_MERGES)
    wrong = "too much is taken in by <<";
  else if (!value)
    wrong = "<< names no anchor of this file";
  else if (!fy_node_is_mapping(value) && !fy_node_is_sequence(value))
    wrong = "<< takes a mapping or a list of mappings";
  if (wrong) return vtb_fail(r->err, VTB_E_INPUT, "%s:%d:%d: %s", r->path, line, column, wrong);
  if (fy_node_is_mapping(value)) return read_mapping(r, value, depth + 1);
  vtb_status status = VTB_OK;
  void *at = NULL;
  for (struct fy_node *item;
       status == VTB_OK && (item = fy_node_sequence_reverse_iterate(value, &at)) != NULL;)
    status = read_merged(r, study_yaml_behind(item), depth + 1, line, column);
  return status;
}

static vtb_status read_model(reader *r, struct fy_node *value, int line, int column) {
  vtb_free(r->words->model);
  r->words->model = study_yaml_scalar(value);
  if (r->words->model) return VTB_OK;
  return vtb_fail(r->err, VTB_E_INPUT, "%s:%d:%d: the value of 'model' is no single value", r->path,
                  line, column);
}

static vtb_status read_pair(reader *r, struct fy_node_pair *pair, int depth) {
  struct fy_node *key = fy_node_pair_key(pair),
                 *value = study_yaml_behind(fy_node_pair_value(pair));
  char *name = study_yaml_scalar(study_yaml_behind(key));
  vtb_status status = VTB_OK;
  int line, column;
  study_yaml_place(key, &line, &column);
  vtb_strbuf option = {0};
  if (name) vtb_strbuf_printf(&option, "%s%s", strcmp(name, "D") == 0 ? "-" : "--", name);
  const cli_opt *o = name ? find_option(r, name[0] == '-' ? name : option.at) : NULL;
  if (!name) {
    status = vtb_fail(r->err, VTB_E_INPUT, "%s:%d:%d: a name is not text", r->path, line, column);
  } else if (strcmp(name, "<<") == 0) {
    status = read_merged(r, value, depth, line, column);
  } else if (strcmp(name, "model") == 0) {
    status = read_model(r, value, line, column);
  } else if (o) {
    status = read_value(r, o, key, value);
  } else if (strcmp(name, "run") != 0 || !value || !fy_node_is_mapping(value)) {
    status = unknown(r, option.at, line, column);
  }
  vtb_strbuf_free(&option);
  vtb_free(name);
  return status;
}

/* A mapping; what is taken in first stands below what the mapping says itself. */
static vtb_status read_mapping(reader *r, struct fy_node *map, int depth) {
  vtb_status status = VTB_OK;
  for (int merged = 1; merged >= 0 && status == VTB_OK; merged--) {
    void *at = NULL;
    for (struct fy_node_pair *pair;
         status == VTB_OK && (pair = fy_node_mapping_iterate(map, &at)) != NULL;) {
      char *name = study_yaml_scalar(study_yaml_behind(fy_node_pair_key(pair)));
      if (vtb_streq(name, "<<") == (merged == 1)) status = read_pair(r, pair, depth);
      vtb_free(name);
    }
  }
  return status;
}

static vtb_status take_options(void *arg, struct fy_node *root) {
  return read_mapping(arg, root, 0);
}

vtb_status train_recipe_read(const char *path, const cli_opt *opts, int n_opts,
                             train_words *words) {
  char *text = NULL;
  size_t n = 0;
  vtb_error err = {0};
  reader r = {.path = path, .opts = opts, .n_opts = n_opts, .words = words, .err = &err};
  vtb_status status = vtb_file_read(path, MOST_BYTES, &text, &n, &err);
  if (status == VTB_OK && memchr(text, 0, n))
    status = vtb_fail(&err, VTB_E_INPUT, "%s is no text", path);
  if (status == VTB_OK && is_lines(path, text))
    status = read_lines(&r, text);
  else if (status == VTB_OK)
    status = study_yaml_read(path, text, n, take_options, &r, &err);
  vtb_free(text);
  return status == VTB_OK ? VTB_OK : cli_error(&err);
}

/* ---- what a run tells of itself -------------------------------------------------------------- */

static vtb_status take_record(void *arg, struct fy_node *root) {
  train_record_text *t = arg;
  struct fy_node *run = fy_node_mapping_lookup_by_string(root, "run", FY_NT);
  if (!run || !fy_node_is_mapping(run)) return VTB_OK;
  t->vertebra = study_yaml_scalar(fy_node_mapping_lookup_by_string(run, "vertebra", FY_NT));
  t->data = study_yaml_scalar(fy_node_mapping_lookup_by_string(run, "data", FY_NT));
  t->eval_data = study_yaml_scalar(fy_node_mapping_lookup_by_string(run, "eval_data", FY_NT));
  t->init_hash = study_yaml_scalar(fy_node_mapping_lookup_by_string(run, "init_hash", FY_NT));
  t->model_hash = study_yaml_scalar(fy_node_mapping_lookup_by_string(run, "model_hash", FY_NT));
  t->name = study_yaml_scalar(fy_node_mapping_lookup_by_string(run, "name", FY_NT));
  t->label = study_yaml_scalar(fy_node_mapping_lookup_by_string(run, "label", FY_NT));
  t->plan = study_yaml_scalar(fy_node_mapping_lookup_by_string(run, "plan", FY_NT));
  return VTB_OK;
}

vtb_status train_recipe_record(const char *path, train_record_text *out, vtb_error *err) {
  char *text = NULL;
  size_t n = 0;
  *out = (train_record_text){0};
  vtb_status status = vtb_file_read(path, MOST_BYTES, &text, &n, err);
  if (status == VTB_OK) status = study_yaml_read(path, text, n, take_record, out, err);
  vtb_free(text);
  return status;
}

void train_record_text_free(train_record_text *t) {
  vtb_free(t->vertebra);
  vtb_free(t->data);
  vtb_free(t->eval_data);
  vtb_free(t->init_hash);
  vtb_free(t->model_hash);
  vtb_free(t->plan);
  vtb_free(t->label);
  vtb_free(t->name);
}
