/* The study as a YAML file: what its options said, or its own text and what was changed since. */
#include "frontend/study/options.h"
#include "frontend/study/study.h"

#include <ctype.h>
#include <string.h>

#define OVERRIDES "\noverrides:"

/* ---- scalars and lists ----------------------------------------------------------------------- */

/* As YAML reads it back: plain where nothing in it means anything. */
static void put_scalar(vtb_strbuf *out, const char *text) {
  bool plain = *text && !strchr("-.~", *text) && strcmp(text, "null") != 0;
  for (const char *c = text; *c && plain; c++)
    plain = isalnum((unsigned char)*c) || strchr("_./+-()", *c);
  if (plain)
    vtb_strbuf_puts(out, text);
  else
    vtb_strbuf_json(out, text);
}

static void put_pair(vtb_strbuf *out, const char *key, const char *value) {
  vtb_strbuf_printf(out, "%s: ", key);
  if (value)
    put_scalar(out, value);
  else
    vtb_strbuf_puts(out, "null");
  vtb_strbuf_putc(out, '\n');
}

static void put_number(vtb_strbuf *out, const char *key, double x) {
  vtb_strbuf_printf(out, "%s: ", key);
  vtb_strbuf_double(out, x);
  vtb_strbuf_putc(out, '\n');
}

static void put_bool(vtb_strbuf *out, const char *key, bool on) {
  vtb_strbuf_printf(out, "%s: %s\n", key, on ? "true" : "false");
}

/* ---- keys: each writes its line, or nothing if there is nothing to say ----------------------- */

static void put_title(const study *s, vtb_strbuf *out) {
  if (s->title) put_pair(out, "title", s->title);
}

static void put_model(const study *s, vtb_strbuf *out) {
  if (s->model) put_pair(out, "model", s->model);
}

static void put_axis(const study_axis *a, const char *indent, vtb_strbuf *out) {
  vtb_strbuf_puts(out, indent);
  put_scalar(out, a->name);
  vtb_strbuf_puts(out, ": [");
  for (size_t i = 0; i < a->values.n; i++) {
    bool labelled = strcmp(a->labels.at[i], a->values.at[i]) != 0;
    vtb_strbuf_puts(out, i ? ", " : "");
    if (labelled) vtb_strbuf_putc(out, '{');
    if (labelled) put_scalar(out, a->labels.at[i]);
    if (labelled) vtb_strbuf_puts(out, ": ");
    put_scalar(out, a->values.at[i]);
    if (labelled) vtb_strbuf_putc(out, '}');
  }
  vtb_strbuf_puts(out, "]\n");
}

static void put_vary(const study *s, vtb_strbuf *out) {
  if (s->axes.n) vtb_strbuf_puts(out, "vary:\n");
  for (size_t i = 0; i < s->axes.n; i++) put_axis(&s->axes.at[i], "  ", out);
}

static void put_where(const study *s, vtb_strbuf *out) {
  if (!s->where.n) return;
  vtb_strbuf_puts(out, "where: [");
  for (size_t i = 0; i < s->where.n; i++) {
    vtb_strbuf_puts(out, i ? ", " : "");
    vtb_strbuf_json(out, s->where.at[i]);
  }
  vtb_strbuf_puts(out, "]\n");
}

static void put_design(const study *s, vtb_strbuf *out) {
  static const char *const names[] = {[STUDY_GRID] = "grid",
                                      [STUDY_PAIRWISE] = "pairwise",
                                      [STUDY_ONE_AT_A_TIME] = "one-at-a-time"};
  if (s->arrangement != STUDY_SAMPLE) {
    put_pair(out, "arrangement", names[s->arrangement]);
    return;
  }
  put_number(out, "sample", (double)s->sample);
  put_number(out, "seed", (double)s->seed);
}

static void put_defines(const study *s, vtb_strbuf *out) {
  bool any = false;
  for (size_t i = 0; i + 1 < s->options.n; i++) {
    if (strcmp(s->options.at[i], "-D") != 0) continue;
    char *name = vtb_xstrdup(s->options.at[++i]), *eq = strchr(name, '=');
    if (eq) *eq = 0;
    vtb_strbuf_puts(out, any ? ", " : "D: {");
    put_scalar(out, name);
    vtb_strbuf_puts(out, ": ");
    put_scalar(out, eq ? eq + 1 : "");
    vtb_free(name);
    any = true;
  }
  if (any) vtb_strbuf_puts(out, "}\n");
}

/* "{epochs: 3, flip: true}" of words; false if there are none. */
static bool put_words(vtb_strbuf *out, const char *key, const char *recipe,
                      const study_texts *words) {
  bool any = false;
  if (recipe) {
    vtb_strbuf_printf(out, "%s: {recipe: ", key);
    put_scalar(out, recipe);
    any = true;
  }
  for (size_t i = 0; i < words->n; i++) {
    const char *word = words->at[i];
    const study_option *o = vtb_starts_with(word, "--") ? study_option_find(word + 2) : NULL;
    if (strcmp(word, "-D") == 0) i++;
    if (!o) continue;
    vtb_strbuf_printf(out, "%s%s%s%s: ", any ? ", " : "", any ? "" : key, any ? "" : ": {",
                      word + 2);
    put_scalar(out, o->kind == STUDY_VALUE_FLAG || i + 1 >= words->n ? "true" : words->at[++i]);
    any = true;
  }
  if (any) vtb_strbuf_puts(out, "}\n");
  return any;
}

static void put_options(const study *s, vtb_strbuf *out) {
  put_words(out, "options", NULL, &s->options);
}

static void put_bench(const study *s, vtb_strbuf *out) {
  if (s->bench_train)
    put_pair(out, "bench", "train");
  else
    put_bool(out, "bench", s->bench);
}

static void put_rounds(const study *s, vtb_strbuf *out) {
  put_number(out, "rounds", (double)s->rounds);
}

static void put_seconds(const study *s, vtb_strbuf *out) { put_number(out, "seconds", s->seconds); }

static void put_train(const study *s, vtb_strbuf *out) {
  if (s->train.n)
    put_words(out, "train", s->recipe, &s->train);
  else if (s->recipe)
    put_pair(out, "train", s->recipe);
}

static void put_data(const study *s, vtb_strbuf *out) {
  if (s->data) put_pair(out, "data", s->data);
}

static void put_seeds(const study *s, vtb_strbuf *out) {
  if (s->seeds) put_number(out, "seeds", (double)s->seeds);
}

static const struct key {
  const char *name, *comment; /* comment: above it in a file that is written anew */
  void (*put)(const study *s, vtb_strbuf *out);
} keys[] = {{"title", NULL, put_title},
            {"model", NULL, put_model},
            {"vary", "# what differs between cells", put_vary},
            {"where", "# cells of which this does not hold are left out", put_where},
            {"arrangement", NULL, put_design},
            {"D", "# of all cells", put_defines},
            {"options", NULL, put_options},
            {"bench", "# what is measured", put_bench},
            {"rounds", NULL, put_rounds},
            {"seconds", NULL, put_seconds},
            {"train", NULL, put_train},
            {"data", NULL, put_data},
            {"seeds", NULL, put_seeds}};
enum { N_KEYS = sizeof keys / sizeof *keys };

/* ---- the file -------------------------------------------------------------------------------- */

/* Without what is not measured. */
static bool is_needed(const study *s, const char *key) {
  bool timing = strcmp(key, "rounds") == 0 || strcmp(key, "seconds") == 0;
  return !timing || s->bench;
}

static void put_anew(const study *s, vtb_strbuf *out) {
  vtb_strbuf_puts(out, "# `vertebra ablate` of this file repeats the study; docs/studies.md says "
                       "what may stand here.\n");
  for (int i = 0; i < N_KEYS; i++) {
    vtb_strbuf line = {0};
    if (is_needed(s, keys[i].name)) keys[i].put(s, &line);
    if (line.n && keys[i].comment) vtb_strbuf_printf(out, "%s\n", keys[i].comment);
    vtb_strbuf_puts(out, vtb_strbuf_text(&line));
    vtb_strbuf_free(&line);
  }
}

/* Where what was changed before begins; the text's end if nothing was. */
static size_t own_length(const char *text) {
  const char *found = NULL;
  for (const char *at = text; (at = strstr(at, OVERRIDES)) != NULL; at++) found = at;
  return found ? (size_t)(found - text) + 1 : strlen(text);
}

/* Each line of `text` two columns further in. */
static void put_indented(vtb_strbuf *out, const char *text) {
  while (*text) {
    size_t n = strcspn(text, "\n");
    vtb_strbuf_printf(out, "  %.*s\n", (int)n, text);
    text += n + (text[n] == '\n');
  }
}

/* Keys that are not as the file says; of those that it says and the study has no more, null or an
 * empty list. */
static void put_changes(const study *s, const study *was, vtb_strbuf *out) {
  for (int i = 0; i < N_KEYS; i++) {
    vtb_strbuf now = {0}, before = {0};
    if (s->assumed_data && keys[i].put == put_data) continue;
    keys[i].put(s, &now);
    keys[i].put(was, &before);
    if (!now.n && before.n)
      vtb_strbuf_printf(&now, "%s: %s\n", keys[i].name,
                        strcmp(keys[i].name, "where") == 0 ? "[]" : "null");
    if (strcmp(vtb_strbuf_text(&now), vtb_strbuf_text(&before)) != 0)
      put_indented(out, vtb_strbuf_text(&now));
    vtb_strbuf_free(&now);
    vtb_strbuf_free(&before);
  }
}

static bool reads_back(const char *text, size_t n) {
  study again;
  bool ok = study_read_text("study", text, n, &again, NULL) == VTB_OK;
  study_free(&again);
  return ok;
}

/* The file and what was changed since; false if that is no file of a study. */
static bool put_changed(const study *s, size_t n, vtb_strbuf *out) {
  vtb_strbuf changes = {0};
  study was;
  bool ok = study_read_text("study", s->text, n, &was, NULL) == VTB_OK;
  if (ok) study_complete(&was);
  if (ok) put_changes(s, &was, &changes);
  vtb_strbuf_write(out, s->text, n);
  if (changes.n)
    vtb_strbuf_printf(out, "%soverrides: # as given on the command line\n%s",
                      n && s->text[n - 1] != '\n' ? "\n" : "", changes.at);
  if (changes.n) ok &= reads_back(out->at, out->n);
  study_free(&was);
  vtb_strbuf_free(&changes);
  return ok;
}

/* Where the file has overrides of its own that nothing can be put behind, it is written anew. */
void study_text(const study *s, vtb_strbuf *out) {
  size_t before = out->n;
  if (s->text && put_changed(s, own_length(s->text), out)) return;
  out->n = before;
  if (s->text && put_changed(s, strlen(s->text), out)) return;
  out->n = before;
  put_anew(s, out);
}
