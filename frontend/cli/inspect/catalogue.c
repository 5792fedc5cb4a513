/* The models that can be named. */
#include "frontend/cli/inspect/catalogue.h"

#include <fnmatch.h>
#include <string.h>

/* ---- titles ---------------------------------------------------------------------------------- */

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

/* ---- entries --------------------------------------------------------------------------------- */

static bool matches(const char *pattern, const char *name) {
  if (!name) return false;
  if (strpbrk(pattern, "*?[")) return fnmatch(pattern, name, 0) == 0;
  return strstr(name, pattern) != NULL;
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
    if (!f.title) f.title = title_of(d->span.source, path);
    vtb_vec_push(&f.entries, *d);
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
    vtb_vec_free(&f->entries);
    vtb_free(f->title);
    vtb_unit_free(f->unit);
  }
  vtb_vec_free(&c->families);
  for (size_t i = 0; i < c->n_files; i++) vtb_free(c->files[i]);
  vtb_free(c->files);
}
