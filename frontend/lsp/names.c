/* Names: where they are declared, where they stand, and other names for them. */
#include "frontend/lsp/server.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

uint32_t lsp_offset_of(const lsp_server *s, const lsp_document *d, const cJSON *params) {
  return lsp_offset(lsp_text_of(d), cJSON_GetObjectItemCaseSensitive(params, "position"),
                    s->encoding);
}

static lsp_text text_of(vtb_span at) { return (lsp_text){at.source->text, at.source->n}; }

/* {uri, range} */
static cJSON *location_of(const lsp_server *s, vtb_span at) {
  cJSON *place = cJSON_CreateObject();
  char *uri = lsp_uri_of(at.source->path);
  cJSON_AddStringToObject(place, "uri", uri);
  cJSON_AddItemToObject(place, "range", lsp_range(text_of(at), at.begin, at.end, s->encoding));
  vtb_free(uri);
  return place;
}

static const vtb_occurrence *name_at(const lsp_server *s, const lsp_document *d,
                                     const cJSON *params) {
  return d->symbols ? vtb_symbols_at(d->symbols, lsp_offset_of(s, d, params)) : NULL;
}

cJSON *lsp_definition(lsp_server *s, lsp_document *d, const cJSON *params, vtb_error *err) {
  const vtb_occurrence *o = name_at(s, d, params);
  (void)err;
  return o && o->symbol->at.source ? location_of(s, o->symbol->at) : NULL;
}

/* ---- all places of a name -------------------------------------------------------------------- */

typedef struct place {
  char *path;
  uint32_t begin, end;
  bool alias, writes;
  cJSON *location;
} place;
typedef VTB_VEC(place) places;

static bool same_path(const char *a, const char *b) {
  if (strcmp(a, b) == 0) return true;
  char *whole_a = realpath(a, NULL), *whole_b = realpath(b, NULL);
  bool same = whole_a && whole_b && strcmp(whole_a, whole_b) == 0;
  vtb_free(whole_a);
  vtb_free(whole_b);
  return same;
}

static bool same_symbol(const vtb_lang_symbol *a, const vtb_lang_symbol *b) {
  if (a->kind != b->kind || strcmp(a->name, b->name) != 0) return false;
  if (!a->at.source || !b->at.source) return !a->at.source && !b->at.source;
  return a->at.begin == b->at.begin && same_path(a->at.source->path, b->at.source->path);
}

/* Places of the symbol in the root file of `symbols`. */
static void places_in(const lsp_server *s, const vtb_symbols *symbols, const char *path,
                      const vtb_lang_symbol *wanted, places *out) {
  const vtb_occurrence *list;
  size_t n = vtb_symbols_occurrences(symbols, &list);
  for (size_t i = 0; i < n; i++) {
    const vtb_occurrence *o = &list[i];
    if (!same_path(o->at.source->path, path) || !same_symbol(o->symbol, wanted)) continue;
    place p = {.path = vtb_xstrdup(path), .begin = o->at.begin, .end = o->at.end};
    p.alias = o->alias;
    p.writes = o->writes;
    p.location = location_of(s, o->at);
    vtb_vec_push(out, p);
  }
}

static void free_places(places *list) {
  for (size_t i = 0; i < list->n; i++) {
    vtb_free(list->at[i].path);
    cJSON_Delete(list->at[i].location);
  }
  vtb_vec_free(list);
}

/* Places of a name in other files that may use it; the texts of the folders that are open, and
 * `d`. */
static void places_elsewhere(lsp_server *s, const lsp_document *d, const vtb_lang_symbol *wanted,
                             places *out) {
  size_t n;
  vtb_search folders = {.dirs = (const char *const *)s->roots.at, .n_dirs = s->roots.n};
  char **files = vtb_search_files(&folders, &n);
  for (size_t i = 0; i < n; i++) {
    vtb_unit *u = NULL;
    vtb_symbols *symbols = NULL;
    if (!same_path(files[i], d->path) && lsp_understand_file(s, files[i], &u, &symbols))
      places_in(s, symbols, files[i], wanted, out);
    vtb_symbols_free(symbols);
    vtb_unit_free(u);
    vtb_free(files[i]);
  }
  vtb_free(files);
}

static void all_places(lsp_server *s, lsp_document *d, const vtb_lang_symbol *wanted, places *out) {
  places_in(s, d->symbols, d->path, wanted, out);
  if (wanted->kind == VTB_SYMBOL_DECL || wanted->kind == VTB_SYMBOL_PARAMETER)
    places_elsewhere(s, d, wanted, out);
}

cJSON *lsp_references(lsp_server *s, lsp_document *d, const cJSON *params, vtb_error *err) {
  const vtb_occurrence *o = name_at(s, d, params);
  const cJSON *context = cJSON_GetObjectItemCaseSensitive(params, "context");
  bool declarations =
      !cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(context, "includeDeclaration"));
  places list = {0};
  (void)err;
  if (!o) return NULL;
  all_places(s, d, o->symbol, &list);
  cJSON *rows = cJSON_CreateArray();
  for (size_t i = 0; i < list.n; i++) {
    if (list.at[i].writes && !declarations) continue;
    cJSON_AddItemToArray(rows, list.at[i].location);
    list.at[i].location = NULL;
  }
  free_places(&list);
  return rows;
}

cJSON *lsp_highlight(lsp_server *s, lsp_document *d, const cJSON *params, vtb_error *err) {
  const vtb_occurrence *o = name_at(s, d, params);
  places list = {0};
  (void)err;
  if (!o) return NULL;
  places_in(s, d->symbols, d->path, o->symbol, &list);
  cJSON *rows = cJSON_CreateArray();
  for (size_t i = 0; i < list.n; i++) {
    cJSON *row = cJSON_CreateObject();
    cJSON_AddItemToObject(row, "range",
                          lsp_range(lsp_text_of(d), list.at[i].begin, list.at[i].end, s->encoding));
    cJSON_AddNumberToObject(row, "kind", list.at[i].writes ? 3 : 2);
    cJSON_AddItemToArray(rows, row);
  }
  free_places(&list);
  return rows;
}

/* ---- rename ---------------------------------------------------------------------------------- */

static bool is_open(const lsp_server *s, const char *path) {
  for (size_t i = 0; i < s->documents.n; i++)
    if (same_path(s->documents.at[i]->path, path)) return true;
  char *whole = realpath(path, NULL);
  bool inside = false;
  for (size_t i = 0; i < s->roots.n && whole && !inside; i++) {
    char *root = realpath(s->roots.at[i], NULL);
    inside = root && vtb_starts_with(whole, root) && whole[strlen(root)] == '/';
    vtb_free(root);
  }
  vtb_free(whole);
  return inside;
}

/* The name that is there and may be renamed; NULL, and why not. */
static const vtb_occurrence *renamable(lsp_server *s, lsp_document *d, const cJSON *params,
                                       vtb_error *err) {
  const vtb_occurrence *o = name_at(s, d, params);
  if (!o) {
    vtb_fail(err, VTB_E_INPUT, "there is no name here");
    return NULL;
  }
  if (o->symbol->kind == VTB_SYMBOL_BUILTIN)
    vtb_fail(err, VTB_E_INPUT, "'%s' is a word of the language", o->symbol->name);
  else if (o->symbol->kind == VTB_SYMBOL_FILE)
    vtb_fail(err, VTB_E_INPUT, "'%s' is a file: rename the file", o->symbol->name);
  else if (!is_open(s, o->symbol->at.source->path))
    vtb_fail(err, VTB_E_INPUT, "'%s' is declared in %s, outside of the folders that are open",
             o->symbol->name, o->symbol->at.source->path);
  else if (o->alias)
    vtb_fail(err, VTB_E_INPUT, "this is another name of '%s', and stays", o->symbol->name);
  return err->status == VTB_OK ? o : NULL;
}

cJSON *lsp_prepare_rename(lsp_server *s, lsp_document *d, const cJSON *params, vtb_error *err) {
  const vtb_occurrence *o = renamable(s, d, params, err);
  if (!o) return NULL;
  cJSON *result = cJSON_CreateObject();
  cJSON_AddItemToObject(result, "range",
                        lsp_range(lsp_text_of(d), o->at.begin, o->at.end, s->encoding));
  cJSON_AddStringToObject(result, "placeholder", o->symbol->name);
  return result;
}

static bool is_word(const char *name) {
  bool word = isalpha((unsigned char)*name) || *name == '_';
  for (const char *c = name; *c && word; c++) word = isalnum((unsigned char)*c) || *c == '_';
  return word;
}

/* The new name can be one, and means nothing yet where the old one stands in this text. */
static bool check_name(const vtb_symbols *symbols, const places *list, const char *path,
                       const char *name, vtb_error *err) {
  if (!is_word(name))
    return vtb_fail(err, VTB_E_INPUT, "'%s' is no name: letters, digits and _", name), false;
  for (size_t i = 0; vtb_keyword(i); i++)
    if (strcmp(vtb_keyword(i), name) == 0)
      return vtb_fail(err, VTB_E_INPUT, "'%s' is a word of the language", name), false;
  for (size_t i = 0; i < list->n; i++) {
    const vtb_lang_symbol **seen;
    if (!same_path(list->at[i].path, path)) continue;
    size_t n = vtb_symbols_visible(symbols, list->at[i].begin, &seen);
    for (size_t k = 0; k < n; k++)
      if (strcmp(seen[k]->name, name) == 0)
        vtb_fail(err, VTB_E_INPUT, "'%s' has a meaning here already", name);
    vtb_free(seen);
    if (err->status != VTB_OK) return false;
  }
  return true;
}

static cJSON *edits_of(cJSON *changes, const cJSON *location) {
  const char *uri = cJSON_GetObjectItemCaseSensitive(location, "uri")->valuestring;
  cJSON *edits = cJSON_GetObjectItemCaseSensitive(changes, uri);
  return edits ? edits : cJSON_AddArrayToObject(changes, uri);
}

cJSON *lsp_rename(lsp_server *s, lsp_document *d, const cJSON *params, vtb_error *err) {
  const cJSON *wish = cJSON_GetObjectItemCaseSensitive(params, "newName");
  const vtb_occurrence *o = renamable(s, d, params, err);
  places list = {0};
  if (!o) return NULL;
  all_places(s, d, o->symbol, &list);
  const char *name = cJSON_IsString(wish) ? wish->valuestring : "";
  if (!check_name(d->symbols, &list, d->path, name, err)) {
    free_places(&list);
    return NULL;
  }
  cJSON *result = cJSON_CreateObject(), *changes = cJSON_AddObjectToObject(result, "changes");
  for (size_t i = 0; i < list.n; i++) {
    if (list.at[i].alias) continue;
    cJSON *edit = cJSON_CreateObject(), *at = list.at[i].location;
    cJSON_AddItemToObject(edit, "range", cJSON_DetachItemFromObject(at, "range"));
    cJSON_AddStringToObject(edit, "newText", name);
    cJSON_AddItemToArray(edits_of(changes, at), edit);
  }
  free_places(&list);
  return result;
}
