/* See label.h. */
#include "frontend/study/label.h"

#include <ctype.h>
#include <string.h>

enum { MOST_ID = 80, HASH_DIGITS = 16 };

/* Characters that a name of a file keeps; a bracketed number at the end of a word becomes ".16",
 * others between words "_". False if something was lost. */
static bool put_safe(vtb_strbuf *out, const char *text) {
  bool whole = true, gap = false;
  size_t n = strlen(text), first = out->n;
  for (size_t i = 0; i < n; i++) {
    char c = text[i];
    bool last = c == ')' && i + 1 == n;
    if (c == '(' && i && text[n - 1] == ')') c = '.';
    if (isalnum((unsigned char)c) || strchr("_.-", c)) {
      if (gap && out->n > first) vtb_strbuf_putc(out, '_');
      vtb_strbuf_putc(out, c);
      gap = false;
    } else {
      gap |= !last;
      whole &= last;
    }
  }
  return whole && n;
}

static char *make_id(const study_settings *settings) {
  vtb_strbuf id = {0};
  bool whole = true;
  uint64_t hash = VTB_HASH_INIT;
  for (size_t i = 0; i < settings->n; i++) {
    if (i) vtb_strbuf_putc(&id, '-');
    whole &= put_safe(&id, settings->at[i].name);
    vtb_strbuf_putc(&id, '=');
    whole &= put_safe(&id, settings->at[i].value);
    hash = vtb_hash_str(vtb_hash_str(hash, settings->at[i].name), "=");
    hash = vtb_hash_str(vtb_hash_str(hash, settings->at[i].value), "\n");
  }
  if (!settings->n) vtb_strbuf_puts(&id, "model");
  if (whole && id.n <= MOST_ID) return id.at;
  char *text = vtb_need(
      vtb_strprintf("%.*s-%016llx", MOST_ID - HASH_DIGITS - 1, id.at, (unsigned long long)hash));
  vtb_strbuf_free(&id);
  return text;
}

static const char *label_of(const study_axis *a, const char *value) {
  for (size_t i = 0; i < a->values.n; i++)
    if (strcmp(a->values.at[i], value) == 0) return a->labels.at[i];
  return value;
}

/* "16" says little without its name, unless the study calls a value so; what two axes have says
 * nothing. */
static bool needs_name(const study *s, size_t axis, const char *value, const char *text) {
  bool own = strcmp(value, text) != 0;
  if (!own && (isdigit((unsigned char)text[0]) || strcmp(text, "true") == 0 ||
               strcmp(text, "false") == 0 || strcmp(text, "none") == 0))
    return true;
  for (size_t i = 0; i < s->axes.n; i++)
    for (size_t v = 0; i != axis && v < s->axes.at[i].labels.n; v++)
      if (strcmp(s->axes.at[i].labels.at[v], text) == 0) return true;
  return false;
}

/* The values that a label shows: of one-at-a-time what is not the baseline's; else what cells
 * differ in. */
static bool is_shown(const study *s, const study_axis *a, const char *value) {
  if (s->arrangement == STUDY_ONE_AT_A_TIME) return strcmp(a->values.at[a->base], value) != 0;
  return a->values.n > 1;
}

/* One value; of names that vary together, and have no label for it, each with its own. */
static void put_value(const study *s, size_t axis, const char *value, vtb_strbuf *out) {
  const study_axis *a = &s->axes.at[axis];
  const char *text = label_of(a, value);
  study_texts parts = {0};
  if (a->parts.n > 1 && strcmp(text, value) == 0) {
    study_axis_value(a, value, &parts);
    for (size_t k = 0; k < a->parts.n && k < parts.n; k++)
      vtb_strbuf_printf(out, "%s%s %s", k ? ", " : "", a->parts.at[k].name, parts.at[k]);
    study_texts_free(&parts);
    return;
  }
  if (needs_name(s, axis, value, text)) vtb_strbuf_printf(out, "%s ", a->name);
  vtb_strbuf_puts(out, text);
}

static char *make_label(const study *s, const study_cell *c) {
  vtb_strbuf out = {0};
  for (size_t i = 0; i < s->axes.n; i++) {
    const study_axis *a = &s->axes.at[i];
    if (!is_shown(s, a, c->value.at[i])) continue;
    vtb_strbuf_puts(&out, out.n ? ", " : "");
    put_value(s, i, c->value.at[i], &out);
  }
  if (!out.n && s->arrangement == STUDY_ONE_AT_A_TIME) vtb_strbuf_puts(&out, "baseline");
  if (!out.n) vtb_strbuf_puts(&out, s->model ? s->model : "model");
  return out.at;
}

void study_name_cell(const study *s, study_cell *c) {
  study_settings settings = {0};
  study_cell_settings(s, c, &settings);
  c->id = make_id(&settings);
  c->label = make_label(s, c);
  study_settings_free(&settings);
}
