/* The reference of what can be called: see reference.h. */
#include "frontend/lang/reference.h"
#include "frontend/lang/builtin.h"
#include "frontend/lang/symbols.h"

#include <string.h>

typedef VTB_VEC(vtb_reference_entry) entries;

static void add_builtins(vtb_arena *a, entries *out) {
  const char **names;
  size_t n = vtb_builtins(true, &names);
  for (size_t i = 0; i < n; i++) {
    const vtb__builtin *row = vtb__builtin_find(names[i]);
    if (!row->parameters) continue; /* initialisers */
    vtb_reference_entry entry = {.name = names[i], .doc = row->doc};
    entry.signature = vtb_arena_printf(a, "%s(%s)", names[i], row->parameters);
    vtb_vec_push(out, entry);
  }
  vtb_free(names);
}

/* The module of a file, "std.nn"; NULL: it is not of std. */
static const char *module_of(vtb_arena *a, const char *path) {
  const char *name = strrchr(path, '/');
  if (!name || name - path < 4 || strncmp(name - 4, "/std", 4) != 0) return NULL;
  return vtb_arena_printf(a, "std.%.*s", (int)(strlen(name + 1) - strlen(".vtb")), name + 1);
}

/* The comment that a file begins with and that belongs to no declaration: an empty line is behind
 * it. */
static const char *about(vtb_arena *a, const char *text) {
  vtb_strbuf out = {0};
  for (; strncmp(text, "//", 2) == 0; text += strcspn(text, "\n") + 1) {
    const char *line = text + 2 + strspn(text + 2, " ");
    vtb_strbuf_printf(&out, "%s%.*s", out.n ? "\n" : "", (int)strcspn(line, "\n"), line);
  }
  const char *found = *text == '\n' && out.n ? vtb_arena_strdup(a, out.at) : NULL;
  vtb_strbuf_free(&out);
  return found;
}

/* The first of two folders has the word. */
static bool has_module(const entries *list, const char *module) {
  for (size_t i = 0; i < list->n; i++)
    if (list->at[i].module && strcmp(list->at[i].module, module) == 0) return true;
  return false;
}

static void add_file(vtb_arena *a, const char *path, const char *module, const vtb_search *search,
                     entries *out) {
  vtb_diags quiet = {0};
  const vtb_lang_symbol **decls = NULL;
  vtb_source_file *files = NULL;
  vtb_unit *u = vtb_unit_load(path, search, &quiet);
  vtb_symbols *s = u && !quiet.n_errors ? vtb_symbols_new(u) : NULL;
  size_t n = s ? vtb_symbols_decls(s, &decls) : 0;
  const char *text = s && vtb_unit_sources(u, &files) ? about(a, files[0].text) : NULL;
  for (size_t i = 0; i < n; i++) {
    vtb_reference_entry entry = {.name = vtb_arena_strdup(a, decls[i]->name), .module = module};
    entry.signature = vtb_arena_strdup(a, decls[i]->signature);
    entry.doc = vtb_arena_strdup(a, decls[i]->doc);
    if (i == 0) entry.about = text;
    vtb_vec_push(out, entry);
  }
  vtb_free(files);
  vtb_free(decls);
  vtb_symbols_free(s);
  vtb_unit_free(u);
  vtb_diags_free(&quiet);
}

void vtb_reference_read(const vtb_search *search, vtb_reference *out) {
  entries list = {0};
  size_t n;
  vtb_arena_init(&out->arena);
  add_builtins(&out->arena, &list);
  char **files = vtb_search_files(search, &n);
  for (size_t i = 0; i < n; i++) {
    const char *module = module_of(&out->arena, files[i]);
    if (module && !has_module(&list, module))
      add_file(&out->arena, files[i], module, search, &list);
    vtb_free(files[i]);
  }
  vtb_free(files);
  out->at = list.at;
  out->n = list.n;
}

void vtb_reference_free(vtb_reference *r) {
  vtb_free(r->at);
  vtb_arena_free(&r->arena);
}
