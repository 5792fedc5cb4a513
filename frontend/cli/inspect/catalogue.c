/* The models that can be named. */
#include "frontend/cli/inspect/catalogue.h"

#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

/* ---- what comments say ----------------------------------------------------------------------- */

/* "2406.04303" of the first "arXiv 2406.04303" behind `word`; NULL if the text has none. */
static char *find_paper(const char *text, size_t n, const char *word) {
  const char *end = text + n, *at = memmem(text, n, word, strlen(word));
  at = at ? memmem(at, (size_t)(end - at), "arXiv", 5) : NULL;
  if (!at) return NULL;
  at += 5;
  while (at < end && (*at == ' ' || *at == '\n' || *at == '/')) at++;
  size_t length = 0;
  while (at + length < end && (isdigit((unsigned char)at[length]) || at[length] == '.')) length++;
  while (length && at[length - 1] == '.') length--;
  return length ? vtb_strprintf("%.*s", (int)length, at) : NULL;
}

/* Bytes of the comment that the file begins with. */
static size_t head_comment(const vtb_source *s) {
  size_t n = 0;
  while (n + 1 < s->n && s->text[n] == '/' && s->text[n + 1] == '/') {
    const char *end = memchr(s->text + n, '\n', s->n - n);
    n = end ? (size_t)(end - s->text) + 1 : s->n;
  }
  return n;
}

/* Its first line up to the colon. */
static char *title_of(const vtb_source *s, const char *path) {
  const char *slash = strrchr(path, '/');
  size_t head = head_comment(s);
  if (!head) return vtb_xstrdup(slash ? slash + 1 : path);
  const char *line = s->text + 2 + strspn(s->text + 2, " ");
  size_t n = strcspn(line, ":\n");
  while (n && (line[n - 1] == '.' || line[n - 1] == ' ')) n--;
  return vtb_strprintf("%.*s", (int)n, line);
}

/* Of the list behind "// Published weights:", the text of the line that begins with the name. */
static char *find_weights(const vtb_source *s, const char *name) {
  static const char head[] = "\n// Published weights:";
  const char *at = memmem(s->text, s->n, head, sizeof head - 1);
  size_t length = strlen(name);
  at = at ? strchr(at + 1, '\n') : NULL;
  for (; at && strncmp(at, "\n//   ", 6) == 0; at = strchr(at + 1, '\n')) {
    const char *word = at + 6;
    if (strncmp(word, name, length) != 0 || word[length] != ':') continue;
    word += length + 1 + strspn(word + length + 1, " ");
    return vtb_strprintf("%.*s", (int)strcspn(word, "\n"), word);
  }
  return NULL;
}

/* ---- entries --------------------------------------------------------------------------------- */

/* The name behind "=" of "preset NAME alias OTHER = model(...)". */
static char *model_of(const vtb_decl_info *d) {
  if (d->kind == VTB_DECL_MODEL) return vtb_xstrdup(d->name);
  const vtb_source *s = d->span.source;
  const char *at = memchr(s->text + d->span.begin, '=', s->n - d->span.begin);
  if (!at) return NULL;
  at += 1 + strspn(at + 1, " \n");
  size_t n = 0;
  while (isalnum((unsigned char)at[n]) || at[n] == '_') n++;
  return vtb_strprintf("%.*s", (int)n, at);
}

static bool matches(const char *pattern, const char *name) {
  if (!name) return false;
  if (strpbrk(pattern, "*?[")) return fnmatch(pattern, name, 0) == 0;
  return strstr(name, pattern) != NULL;
}

static char *paper_of(const vtb_decl_info *d, const vtb_decl_info *all, size_t n,
                      const char *model) {
  char *paper = find_paper(d->doc, strlen(d->doc), "Paper:");
  for (size_t i = 0; i < n && !paper && model; i++)
    if (all[i].kind == VTB_DECL_MODEL && strcmp(all[i].name, model) == 0)
      paper = find_paper(all[i].doc, strlen(all[i].doc), "Paper:");
  const vtb_source *s = d->span.source;
  return paper ? paper : find_paper(s->text, head_comment(s), "");
}

/* seen: names so far; of two folders the first has the word. */
static void add_file(catalogue *c, const char *path, const char *pattern, vtb_map *seen) {
  vtb_diags quiet = {0};
  const vtb_decl_info *all;
  catalogue_family f = {.path = path, .unit = vtb_unit_load(path, NULL, &quiet)};
  size_t n = f.unit ? vtb_unit_decls(f.unit, &all) : 0;
  bool presets = false;
  for (size_t i = 0; i < n; i++) presets |= all[i].kind == VTB_DECL_PRESET;
  for (size_t i = 0; i < n; i++) {
    const vtb_decl_info *d = &all[i];
    if (d->kind != (presets ? VTB_DECL_PRESET : VTB_DECL_MODEL) || !d->span.source) continue;
    if (vtb_map_has(seen, d->name)) continue;
    vtb_map_set(seen, d->name, c);
    if (pattern && !matches(pattern, d->name) && !matches(pattern, d->alias)) continue;
    catalogue_entry e = {.name = d->name, .alias = d->alias, .model = model_of(d)};
    e.paper = paper_of(d, all, n, e.model);
    e.weights = find_weights(d->span.source, d->name);
    if (!f.title) f.title = title_of(d->span.source, path);
    vtb_vec_push(&f.entries, e);
  }
  vtb_diags_free(&quiet);
  if (f.entries.n)
    vtb_vec_push(&c->families, f);
  else
    vtb_unit_free(f.unit);
}

void catalogue_open(catalogue *c, const char *pattern) {
  *c = (catalogue){0};
  c->files = vtb_search_files(vtb_search_default(), &c->n_files);
  vtb_map seen = {0};
  for (size_t i = 0; i < c->n_files; i++) add_file(c, c->files[i], pattern, &seen);
  vtb_map_free(&seen);
}

void catalogue_free(catalogue *c) {
  for (size_t i = 0; i < c->families.n; i++) {
    catalogue_family *f = &c->families.at[i];
    for (size_t k = 0; k < f->entries.n; k++) {
      vtb_free(f->entries.at[k].model);
      vtb_free(f->entries.at[k].paper);
      vtb_free(f->entries.at[k].weights);
    }
    vtb_vec_free(&f->entries);
    vtb_free(f->title);
    vtb_unit_free(f->unit);
  }
  vtb_vec_free(&c->families);
  for (size_t i = 0; i < c->n_files; i++) vtb_free(c->files[i]);
  vtb_free(c->files);
}
