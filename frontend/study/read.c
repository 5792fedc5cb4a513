/* Studies from YAML files: the options of `vertebra ablate` by their names. */
#include "frontend/study/options.h"
#include "frontend/study/yaml.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>

enum { MOST_BYTES = 128 << 10, MOST_LIST = 2000 };

typedef struct reader {
  const char *path;
  study *s;
  struct fy_node *key; /* that is read */
  const char *name;
  vtb_error *err;
} reader;

static vtb_status fail_at(reader *r, struct fy_node *node, const char *text) {
  int line, column;
  study_yaml_place(node, &line, &column);
  return vtb_fail(r->err, VTB_E_INPUT, "%s:%d:%d: %s", r->path, line, column, text);
}

static vtb_status wrong(reader *r, const char *want) {
  char *text = vtb_need(vtb_strprintf("'%s' takes %s", r->name, want));
  vtb_status status = fail_at(r, r->key, text);
  vtb_free(text);
  return status;
}

/* ---- values ---------------------------------------------------------------------------------- */

static vtb_status read_text(reader *r, struct fy_node *node, char **out) {
  char *text = study_yaml_scalar(node);
  if (!text) return wrong(r, "a single value");
  vtb_free(*out);
  *out = study_yaml_is_null(node, text) ? NULL : vtb_xstrdup(text);
  vtb_free(text);
  return VTB_OK;
}

static vtb_status read_bool(reader *r, struct fy_node *node, bool *out) {
  char *text = study_yaml_scalar(node);
  bool on = vtb_streq(text, "true"), off = vtb_streq(text, "false");
  vtb_free(text);
  *out = on;
  return on || off ? VTB_OK : wrong(r, "true or false");
}

static vtb_status read_number(reader *r, struct fy_node *node, double least, double most,
                              bool whole, double *out) {
  char *text = study_yaml_scalar(node), *end = NULL, want[96];
  errno = 0;
  double x = text && *text && !isspace((unsigned char)*text) ? strtod(text, &end) : NAN;
  bool ok = end && !*end && !errno && x >= least && x <= most && (!whole || x == floor(x));
  vtb_free(text);
  *out = x;
  snprintf(want, sizeof want, "a %snumber from %.0f to %.0f", whole ? "whole " : "", least, most);
  return ok ? VTB_OK : wrong(r, want);
}

static vtb_status read_count(reader *r, struct fy_node *node, int64_t least, int64_t most,
                             int64_t *out) {
  double x;
  vtb_status status = read_number(r, node, (double)least, (double)most, true, &x);
  if (status == VTB_OK) *out = (int64_t)x;
  return status;
}

/* A scalar or a list of them. */
static vtb_status read_list(reader *r, struct fy_node *node, study_texts *out) {
  void *at = NULL;
  char *text = study_yaml_scalar(node);
  if (text) {
    vtb_vec_push(out, text);
    return VTB_OK;
  }
  if (!node || !fy_node_is_sequence(node)) return wrong(r, "a text or a list of them");
  for (struct fy_node *item; (item = fy_node_sequence_iterate(node, &at)) != NULL;) {
    text = study_yaml_scalar(study_yaml_behind(item));
    if (!text || out->n > MOST_LIST) {
      vtb_free(text);
      return wrong(r, "a text or a list of them");
    }
    vtb_vec_push(out, text);
  }
  return VTB_OK;
}

/* ---- axes ------------------------------------------------------------------------------------ */

/* A scalar, or a list as .vtb text: "[rows, cols]"; of an axis of several names "192:3". NULL: it
 * is neither. */
static char *value_text(const study_axis *a, struct fy_node *node) {
  vtb_strbuf out = {0};
  void *at = NULL;
  bool together = a->parts.n > 1, first = true;
  char *text = study_yaml_scalar(node);
  if (text || !node || !fy_node_is_sequence(node)) return text;
  if (!together) vtb_strbuf_putc(&out, '[');
  for (struct fy_node *item; (item = fy_node_sequence_iterate(node, &at)) != NULL; first = false) {
    text = study_yaml_scalar(study_yaml_behind(item));
    vtb_strbuf_puts(&out, first ? "" : together ? ":" : ", ");
    vtb_strbuf_puts(&out, text ? text : "");
    if (!text) vtb_strbuf_free(&out);
    if (!text) return NULL;
    vtb_free(text);
  }
  if (!together) vtb_strbuf_putc(&out, ']');
  return out.at ? out.at : vtb_xstrdup("");
}

static vtb_status add_value(reader *r, study_axis *a, struct fy_node *label, struct fy_node *node) {
  char *text = value_text(a, study_yaml_behind(node));
  char *name = label ? study_yaml_scalar(study_yaml_behind(label)) : NULL;
  if (text && !name) name = vtb_xstrdup(text);
  bool many = a->values.n >= MOST_LIST;
  if (!text || (label && !name) || many) {
    vtb_free(text);
    vtb_free(name);
    if (many) return fail_at(r, label ? label : node, "an axis has at most 2000 values");
    return fail_at(r, label ? label : node, "a value is a text, a list, or LABEL: VALUE");
  }
  vtb_vec_push(&a->values, text);
  vtb_vec_push(&a->labels, name);
  return VTB_OK;
}

static vtb_status add_labelled(reader *r, study_axis *a, struct fy_node *map) {
  void *at = NULL;
  vtb_status status = VTB_OK;
  for (struct fy_node_pair *pair;
       status == VTB_OK && (pair = fy_node_mapping_iterate(map, &at)) != NULL;)
    status = add_value(r, a, fy_node_pair_key(pair), fy_node_pair_value(pair));
  return status;
}

static vtb_status add_values(reader *r, study_axis *a, struct fy_node *node) {
  void *at = NULL;
  vtb_status status = VTB_OK;
  if (node && fy_node_is_mapping(node)) return add_labelled(r, a, node);
  for (struct fy_node *item;
       status == VTB_OK && (item = fy_node_sequence_iterate(node, &at)) != NULL;) {
    struct fy_node *value = study_yaml_behind(item);
    status = value && fy_node_is_mapping(value) ? add_labelled(r, a, value)
                                                : add_value(r, a, NULL, item);
  }
  return status;
}

/* NAME: [A, B], NAME: {LABEL: A}, or NAME: A, B as on the command line. */
static vtb_status read_axis(reader *r, struct fy_node *key, struct fy_node *node) {
  char *name = study_yaml_scalar(study_yaml_behind(key)), *list = study_yaml_scalar(node);
  vtb_status status = VTB_OK;
  if (!name || !*name || strchr(name, '=') || !node) {
    status = fail_at(r, key, "vary is lines `NAME: [A, B]`");
  } else if (list) {
    char *text = vtb_need(vtb_strprintf("%s=%s", name, list));
    vtb_error inner = {0};
    if (study_vary(r->s, text, &inner) != VTB_OK) status = fail_at(r, key, inner.text);
    vtb_free(text);
  } else {
    char *head = vtb_need(vtb_strprintf("%s=", name));
    status = study_vary(r->s, head, r->err);
    study_axis *a = &r->s->axes.at[r->s->axes.n - 1];
    study_texts_free(&a->values);
    study_texts_free(&a->labels);
    if (status == VTB_OK) status = add_values(r, a, node);
    vtb_free(head);
  }
  vtb_free(list);
  vtb_free(name);
  return status;
}

static vtb_status read_vary(reader *r, struct fy_node *node) {
  void *at = NULL;
  vtb_status status = VTB_OK;
  study_texts lines = {0};
  study_axes_free(r->s);
  if (node && fy_node_is_mapping(node)) {
    for (struct fy_node_pair *pair;
         status == VTB_OK && (pair = fy_node_mapping_iterate(node, &at)) != NULL;)
      status = read_axis(r, fy_node_pair_key(pair), study_yaml_behind(fy_node_pair_value(pair)));
    return status;
  }
  status = read_list(r, node, &lines);
  for (size_t i = 0; i < lines.n && status == VTB_OK; i++) {
    vtb_error inner = {0};
    if (study_vary(r->s, lines.at[i], &inner) != VTB_OK) status = fail_at(r, r->key, inner.text);
  }
  study_texts_free(&lines);
  return status;
}

/* ---- options of steps ------------------------------------------------------------------------ */

/* Refuses a name that is no option of these steps and none of `more`. */
static vtb_status unknown(reader *r, struct fy_node *key, const char *name, int steps,
                          const char *const *more, int n_more) {
  VTB_VEC(const char *) names = {0};
  size_t n;
  const study_option *table = study_option_table(&n);
  for (int i = 0; i < n_more; i++) vtb_vec_push(&names, more[i]);
  for (size_t i = 0; i < n; i++)
    if (table[i].steps & steps) vtb_vec_push(&names, table[i].word + 2);
  const char *near = vtb_suggest(name, names.at, names.n);
  char *text =
      vtb_need(vtb_strprintf("unknown option '%s'%s%s%s", name, near ? "; did you mean '" : "",
                             near ? near : "", near ? "'?" : ""));
  vtb_status status = fail_at(r, key, text);
  vtb_free(text);
  vtb_vec_free(&names);
  return status;
}

static vtb_status read_option(reader *r, struct fy_node *key, const char *name,
                              struct fy_node *node, int steps, study_texts *words) {
  const study_option *o = study_option_find(name);
  if (!o || !(o->steps & steps)) return unknown(r, key, name, steps, NULL, 0);
  char *value = study_yaml_scalar(node);
  bool flag = o->kind == STUDY_VALUE_FLAG, on = vtb_streq(value, "true");
  vtb_status status = VTB_OK;
  if (!value || (flag && !on && strcmp(value, "false") != 0))
    status = fail_at(r, key, flag ? "this is true or false" : "this takes a single value");
  else if (!flag || on)
    study_set(words, o->word, NULL, flag ? NULL : value);
  vtb_free(value);
  return status;
}

static vtb_status read_options(reader *r, struct fy_node *map, int steps, study_texts *words) {
  void *at = NULL;
  vtb_status status = VTB_OK;
  for (struct fy_node_pair *pair;
       status == VTB_OK && (pair = fy_node_mapping_iterate(map, &at)) != NULL;) {
    struct fy_node *key = fy_node_pair_key(pair);
    char *name = study_yaml_scalar(study_yaml_behind(key));
    status =
        name ? read_option(r, key, name, study_yaml_behind(fy_node_pair_value(pair)), steps, words)
             : fail_at(r, key, "a name is not text");
    vtb_free(name);
  }
  return status;
}

/* {depth: 4} or ["depth=4"] */
static vtb_status read_defines(reader *r, struct fy_node *node) {
  study_texts list = {0};
  void *at = NULL;
  vtb_status status = VTB_OK;
  if (node && fy_node_is_mapping(node)) {
    for (struct fy_node_pair *pair;
         status == VTB_OK && (pair = fy_node_mapping_iterate(node, &at)) != NULL;) {
      char *name = study_yaml_scalar(study_yaml_behind(fy_node_pair_key(pair)));
      char *value = study_yaml_scalar(study_yaml_behind(fy_node_pair_value(pair)));
      if (name && *name && value)
        study_set(&r->s->options, "-D", name, value);
      else
        status = wrong(r, "{NAME: VALUE} or [\"NAME=VALUE\"]");
      vtb_free(name);
      vtb_free(value);
    }
    return status;
  }
  status = read_list(r, node, &list);
  for (size_t i = 0; i < list.n && status == VTB_OK; i++) {
    char *eq = strchr(list.at[i], '=');
    if (eq && eq != list.at[i]) {
      *eq = 0;
      study_set(&r->s->options, "-D", list.at[i], eq + 1);
    } else {
      status = wrong(r, "{NAME: VALUE} or [\"NAME=VALUE\"]");
    }
  }
  study_texts_free(&list);
  return status;
}

/* [--image, "128", -D, depth=4] */
static vtb_status read_words(reader *r, struct fy_node *node) {
  study_texts list = {0};
  vtb_status status = read_list(r, node, &list);
  for (size_t i = 0; i < list.n && status == VTB_OK; i++) {
    char *word = list.at[i], *eq = strchr(word, '=');
    const char *value = i + 1 < list.n ? list.at[i + 1] : NULL;
    if (strcmp(word, "-D") == 0 && value && (eq = strchr(value, '=')) && eq != value) {
      *eq = 0;
      study_set(&r->s->options, "-D", value, eq + 1);
      i++;
      continue;
    }
    if (vtb_starts_with(word, "--") && eq) *eq = 0;
    const study_option *o = vtb_starts_with(word, "--") ? study_option_find(word + 2) : NULL;
    bool flag = o && o->kind == STUDY_VALUE_FLAG;
    if (o && (flag || eq || value)) {
      study_set(&r->s->options, o->word, NULL, flag ? NULL : eq ? eq + 1 : value);
      i += !flag && !eq;
    } else {
      status = o ? wrong(r, "a value behind each option")
                 : unknown(r, r->key, word + strspn(word, "-"), STUDY_EVERYWHERE, NULL, 0);
    }
  }
  study_texts_free(&list);
  return status;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static vtb_status read_arrangement(reader *r, struct fy_node *node) {
  static const char *const names[] = {"grid", "pairwise", "one-at-a-time"};
  char *text = study_yaml_scalar(node);
  bool known = false;
  for (int i = 0; i < 3; i++)
    if (vtb_streq(text, names[i])) {
      r->s->arrangement = (study_arrangement)i;
      known = true;
    }
  vtb_free(text);
  return known ? VTB_OK
               : wrong(r, "grid, pairwise or one-at-a-time; `sample: N` draws so many cells");
}

/* A recipe's name, or options of train. */
static vtb_status read_train(reader *r, struct fy_node *node) {
  study *s = r->s;
  if (!node || !fy_node_is_mapping(node)) return read_text(r, node, &s->recipe);
  study_texts words = {0};
  vtb_status status = read_options(r, node, STUDY_IN_TRAIN, &words);
  study_texts_free(&s->train);
  for (size_t i = 0; i < words.n; i++) {
    char **field = strcmp(words.at[i], "--recipe") == 0 ? &s->recipe
                   : strcmp(words.at[i], "--data") == 0 ? &s->data
                                                        : NULL;
    if (!field) {
      vtb_vec_push(&s->train, words.at[i]);
      continue;
    }
    vtb_free(*field);
    *field = words.at[i + 1];
    vtb_free(words.at[i++]);
  }
  vtb_vec_free(&words);
  return status;
}

/* true, or a training step: train. */
static vtb_status read_bench(reader *r, struct fy_node *node) {
  char *text = study_yaml_scalar(node);
  bool train = vtb_streq(text, "train");
  vtb_free(text);
  r->s->bench_train = train;
  if (!train) return read_bool(r, node, &r->s->bench);
  r->s->bench = true;
  return VTB_OK;
}

static vtb_status read_mapping(reader *r, struct fy_node *map, bool inner);

static vtb_status read_sample(reader *r, struct fy_node *node) {
  r->s->arrangement = STUDY_SAMPLE;
  return read_count(r, node, 1, 1 << 20, &r->s->sample);
}

static vtb_status read_where(reader *r, struct fy_node *node) {
  study_texts_free(&r->s->where);
  return read_list(r, node, &r->s->where);
}

static vtb_status read_common(reader *r, struct fy_node *node) {
  if (node && fy_node_is_mapping(node))
    return read_options(r, node, STUDY_EVERYWHERE, &r->s->options);
  return read_words(r, node);
}

enum { MOST_SEED = 0x7fffffff, MOST_ROUNDS = 1000, MOST_SEEDS = 1000, MOST_PROCESSES = 1024 };

static vtb_status read_bench_train(reader *r, struct fy_node *n) {
  vtb_status status = read_bool(r, n, &r->s->bench_train);
  r->s->bench |= r->s->bench_train;
  return status;
}
static vtb_status read_overrides(reader *r, struct fy_node *n) {
  return n && fy_node_is_mapping(n) ? read_mapping(r, n, true) : wrong(r, "lines `option: value`");
}

/* A key is read by a function, or is a field of the study; of an arrangement `least`. */
typedef enum key_kind { BY_FUNCTION, A_TEXT, A_COUNT, A_NUMBER, AN_ARRANGEMENT } key_kind;
static const struct key {
  const char *name;
  key_kind kind;
  vtb_status (*read)(reader *r, struct fy_node *node);
  size_t field;
  int64_t least, most;
} keys[] = {
#define BY(name, read)                                                                             \
  { name, BY_FUNCTION, read, 0, 0, 0 }
#define FIELD(kind, member, least, most)                                                           \
  { #member, kind, NULL, offsetof(study, member), least, most }
    FIELD(A_TEXT, title, 0, 0),
    FIELD(A_TEXT, model, 0, 0),
    BY("vary", read_vary),
    BY("where", read_where),
    BY("arrangement", read_arrangement),
    {"pairwise", AN_ARRANGEMENT, NULL, 0, STUDY_PAIRWISE, 0},
    {"one-at-a-time", AN_ARRANGEMENT, NULL, 0, STUDY_ONE_AT_A_TIME, 0},
    BY("sample", read_sample),
    FIELD(A_COUNT, seed, 0, MOST_SEED),
    BY("D", read_defines),
    BY("options", read_common),
    BY("bench", read_bench),
    BY("bench-train", read_bench_train),
    FIELD(A_COUNT, rounds, 1, MOST_ROUNDS),
    FIELD(A_NUMBER, seconds, 0, 1000000),
    BY("train", read_train),
    FIELD(A_TEXT, data, 0, 0),
    FIELD(A_COUNT, seeds, 1, MOST_SEEDS),
    FIELD(A_COUNT, jobs, 1, MOST_PROCESSES),
    FIELD(A_COUNT, threads, 0, MOST_PROCESSES),
    BY("overrides", read_overrides),
#undef BY
#undef FIELD
};
enum { N_KEYS = sizeof keys / sizeof *keys };

static vtb_status read_key(reader *r, const struct key *k, struct fy_node *node) {
  void *field = (char *)r->s + k->field;
  bool on = false;
  switch (k->kind) {
  case A_TEXT:
    return read_text(r, node, field);
  case A_COUNT:
    return read_count(r, node, k->least, k->most, field);
  case A_NUMBER:
    return read_number(r, node, (double)k->least, (double)k->most, false, field);
  case AN_ARRANGEMENT:
    VTB_TRY(read_bool(r, node, &on));
    if (on) r->s->arrangement = (study_arrangement)k->least;
    return VTB_OK;
  default:
    return k->read(r, node);
  }
}

static vtb_status unknown_key(reader *r, const char *name) {
  const char *names[N_KEYS];
  for (int i = 0; i < N_KEYS - 1; i++) names[i] = keys[i].name;
  return unknown(r, r->key, name, ~0, names, N_KEYS - 1);
}

static vtb_status read_pair(reader *r, struct fy_node_pair *pair, bool inner) {
  r->key = fy_node_pair_key(pair);
  struct fy_node *value = study_yaml_behind(fy_node_pair_value(pair));
  char *name = study_yaml_scalar(study_yaml_behind(r->key));
  if (!name) return fail_at(r, r->key, "a name is not text");
  r->name = name;
  const struct key *found = NULL;
  for (int i = 0; i < N_KEYS - inner; i++)
    if (strcmp(keys[i].name, name) == 0) found = &keys[i];
  const study_option *o = found ? NULL : study_option_find(name);
  vtb_status status = VTB_OK;
  if (found)
    status = read_key(r, found, value);
  else if (o && strcmp(o->word, "--recipe") != 0)
    status = read_option(r, r->key, name, value, STUDY_EVERYWHERE, &r->s->options);
  else
    status = unknown_key(r, name);
  vtb_free(name);
  return status;
}

static vtb_status read_mapping(reader *r, struct fy_node *map, bool inner) {
  void *at = NULL;
  vtb_status status = VTB_OK;
  for (struct fy_node_pair *pair;
       status == VTB_OK && (pair = fy_node_mapping_iterate(map, &at)) != NULL;)
    status = read_pair(r, pair, inner);
  return status;
}

static vtb_status take_study(void *arg, struct fy_node *root) {
  return read_mapping(arg, root, false);
}

vtb_status study_read_text(const char *path, const char *text, size_t n, study *out,
                           vtb_error *err) {
  reader r = {.path = path, .s = out, .err = err};
  *out = study_defaults();
  if (memchr(text, 0, n)) return vtb_fail(err, VTB_E_INPUT, "%s is no text", path);
  if (!n) return vtb_fail(err, VTB_E_INPUT, "%s is empty: a study has a `model` and `vary`", path);
  VTB_TRY(study_yaml_read(path, text, n, take_study, &r, err));
  if (!out->model) {
    bool varied = false;
    for (size_t i = 0; i < out->axes.n; i++)
      for (size_t k = 0; k < out->axes.at[i].parts.n; k++)
        varied |= strcmp(out->axes.at[i].parts.at[k].name, "model") == 0;
    if (!varied) return vtb_fail(err, VTB_E_INPUT, "%s: it has no `model: NAME`", path);
  }
  out->text = vtb_xmalloc(n + 1);
  memcpy(out->text, text, n);
  out->text[n] = 0;
  return VTB_OK;
}

vtb_status study_read(const char *path, study *out, vtb_error *err) {
  char *text = NULL;
  size_t n = 0;
  *out = study_defaults();
  vtb_status status = vtb_file_read(path, MOST_BYTES, &text, &n, err);
  if (status == VTB_OK) status = study_read_text(path, text, n, out, err);
  vtb_free(text);
  return status;
}
