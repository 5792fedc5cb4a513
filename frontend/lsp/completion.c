/* Names that may be written at a place: after `use` files, inside a call its parameters and their
 * choices, elsewhere every name that is seen there, words of the grammar, and declarations of std
 * files that are not used yet, with the line that uses them. */
#include "frontend/lsp/server.h"

#include <ctype.h>
#include <string.h>

/* CompletionItemKind of the protocol. */
enum {
  METHOD_ITEM = 2,
  FUNCTION_ITEM = 3,
  FIELD_ITEM = 5,
  VARIABLE_ITEM = 6,
  CLASS_ITEM = 7,
  MODULE_ITEM = 9,
  VALUE_ITEM = 12,
  KEYWORD_ITEM = 14,
  CONSTANT_ITEM = 21
};

/* ---- the place ------------------------------------------------------------------------------- */

typedef struct context {
  uint32_t begin;       /* of the word that is being written */
  bool in_member;       /* behind a dot */
  bool in_use;          /* behind `use` */
  bool in_comment;      /* or a string */
  const char *argument; /* the name before '=', whose choices are wanted; NULL. For vtb_free() */
} context;

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static char *argument_before(const char *line, const char *word) {
  const char *end = word;
  while (end > line && end[-1] == ' ') end--;
  if (end == line || end[-1] != '=' || (end - 1 > line && strchr("=<>!", end[-2]))) return NULL;
  end--;
  while (end > line && end[-1] == ' ') end--;
  const char *begin = end;
  while (begin > line && is_word(begin[-1])) begin--;
  return begin < end ? vtb_strprintf("%.*s", (int)(end - begin), begin) : NULL;
}

static context context_of(const lsp_document *d, uint32_t offset) {
  context c = {.begin = offset};
  const char *text = d->text, *line = text + offset;
  while (line > text && line[-1] != '\n') line--;
  while (c.begin > 0 && is_word(text[c.begin - 1])) c.begin--;
  const char *first = line;
  while (*first == ' ') first++;
  c.in_member = c.begin > 0 && text[c.begin - 1] == '.';
  c.in_use = vtb_starts_with(first, "use ") && text + offset >= first + 4;
  bool quoted = false;
  for (const char *at = line; at < text + c.begin && !c.in_comment; at++) {
    if (*at == '"') quoted = !quoted;
    if (*at == '{' || *at == '}') continue;
    c.in_comment = !quoted && at[0] == '/' && at[1] == '/';
  }
  c.in_comment |= quoted && !memchr(line, '{', (size_t)(text + c.begin - line));
  c.argument = argument_before(line, text + c.begin);
  return c;
}

/* ---- items ----------------------------------------------------------------------------------- */

typedef struct completion {
  lsp_server *s;
  lsp_document *d;
  cJSON *items;
  vtb_map seen;
} completion;

/* order: lower is nearer. NULL if the label is there already. */
static cJSON *add_item(completion *c, const char *label, int kind, int order, const char *detail) {
  if (vtb_map_has(&c->seen, label)) return NULL;
  vtb_map_set(&c->seen, label, c);
  cJSON *item = cJSON_CreateObject();
  char *sort = vtb_strprintf("%d%s", order, label);
  cJSON_AddStringToObject(item, "label", label);
  cJSON_AddNumberToObject(item, "kind", kind);
  if (detail && *detail) cJSON_AddStringToObject(item, "detail", detail);
  cJSON_AddStringToObject(item, "sortText", sort);
  vtb_free(sort);
  cJSON_AddItemToArray(c->items, item);
  return item;
}

static int kind_of(const vtb_lang_symbol *s) {
  switch (s->kind) {
  case VTB_SYMBOL_PARAMETER:
    return FIELD_ITEM;
  case VTB_SYMBOL_VARIABLE:
    return VARIABLE_ITEM;
  case VTB_SYMBOL_FILE:
    return MODULE_ITEM;
  case VTB_SYMBOL_BUILTIN:
    return s->is_function ? FUNCTION_ITEM : CONSTANT_ITEM;
  default:
    return s->decl_kind == VTB_DECL_CONST ? CONSTANT_ITEM
           : s->decl_kind == VTB_DECL_FN  ? FUNCTION_ITEM
                                          : CLASS_ITEM;
  }
}

static const char *detail_of(const completion *c, const vtb_lang_symbol *s) {
  const lsp_fact *f = s->at.source ? lsp_fact_at(c->s, s->at.source->path, s->at.begin) : NULL;
  return s->kind == VTB_SYMBOL_VARIABLE && f ? f->texts.at[0]
         : s->kind == VTB_SYMBOL_BUILTIN     ? NULL
                                             : s->signature;
}

static void add_parameters(completion *c, uint32_t offset, const char *argument) {
  const vtb_lang_symbol *callee = vtb_symbols_call(c->d->symbols, offset);
  for (size_t i = 0; callee && i < callee->n_parameters; i++) {
    const vtb_lang_symbol *p = callee->parameters[i];
    if (argument && strcmp(argument, p->name) == 0)
      for (size_t k = 0; k < p->n_words; k++) add_item(c, p->words[k], VALUE_ITEM, 0, p->signature);
    if (argument) continue;
    char *label = vtb_strprintf("%s = ", p->name);
    add_item(c, label, FIELD_ITEM, 1, p->signature);
    vtb_free(label);
  }
}

/* Functions are called of their first argument too: x.gelu(). */
static void add_members(completion *c, uint32_t offset) {
  const vtb_lang_symbol **list;
  for (size_t i = 0; vtb_members[i]; i++) add_item(c, vtb_members[i], FIELD_ITEM, 0, NULL);
  size_t n = vtb_symbols_visible(c->d->symbols, offset, &list);
  for (size_t i = 0; i < n; i++)
    if (list[i]->is_function) add_item(c, list[i]->name, METHOD_ITEM, 1, detail_of(c, list[i]));
  vtb_free(list);
}

static void add_visible(completion *c, uint32_t offset) {
  const vtb_lang_symbol **list;
  size_t n = vtb_symbols_visible(c->d->symbols, offset, &list);
  for (size_t i = 0; i < n; i++) {
    bool own = list[i]->kind == VTB_SYMBOL_VARIABLE || list[i]->kind == VTB_SYMBOL_PARAMETER;
    int order = own ? 2 : list[i]->kind == VTB_SYMBOL_DECL ? 3 : 4;
    add_item(c, list[i]->name, kind_of(list[i]), order, detail_of(c, list[i]));
  }
  vtb_free(list);
  for (size_t i = 0; vtb_keyword(i); i++) add_item(c, vtb_keyword(i), KEYWORD_ITEM, 5, NULL);
}

/* ---- other files ----------------------------------------------------------------------------- */

/* "std.nn" of a file below a search folder; for vtb_free(). NULL: it lies in none. */
static char *dotted_name(const char *path) {
  const vtb_search *search = vtb_search_default();
  for (size_t i = 0; i < search->n_dirs; i++) {
    size_t n = strlen(search->dirs[i]);
    if (strncmp(path, search->dirs[i], n) != 0 || path[n] != '/') continue;
    char *name = vtb_xstrdup(path + n + 1);
    name[strlen(name) - strlen(".vtb")] = '\0';
    for (char *at = name; *at; at++)
      if (*at == '/') *at = '.';
    return name;
  }
  return NULL;
}

/* A line behind the last `use`, or at the top. */
static cJSON *use_edit(const lsp_server *s, const lsp_document *d, const char *name) {
  uint32_t at = 0;
  bool any = false;
  for (const char *line = d->text; line; line = strchr(line, '\n')) {
    if (*line == '\n') line++;
    if (!vtb_starts_with(line, "use ")) continue;
    const char *end = strchr(line, '\n');
    at = (uint32_t)(end ? end + 1 - d->text : (ptrdiff_t)d->n);
    any = true;
  }
  char *text = vtb_strprintf("use %s\n%s", name, any ? "" : "\n");
  cJSON *edit = cJSON_CreateObject(), *list = cJSON_CreateArray();
  cJSON_AddItemToObject(edit, "range", lsp_range(lsp_text_of(d), at, at, s->encoding));
  cJSON_AddStringToObject(edit, "newText", text);
  cJSON_AddItemToArray(list, edit);
  vtb_free(text);
  return list;
}

static void add_from(completion *c, const char *path, const char *dotted) {
  vtb_unit *u = NULL;
  vtb_symbols *symbols = NULL;
  const vtb_lang_symbol **list = NULL;
  if (!lsp_understand_file(c->s, path, &u, &symbols)) return;
  size_t n = vtb_symbols_decls(symbols, &list);
  char *detail = vtb_strprintf("use %s", dotted);
  for (size_t i = 0; i < n; i++) {
    if (list[i]->decl_kind == VTB_DECL_MODEL || list[i]->decl_kind == VTB_DECL_PRESET) continue;
    cJSON *item = add_item(c, list[i]->name, kind_of(list[i]), 6, detail);
    if (item) cJSON_AddItemToObject(item, "additionalTextEdits", use_edit(c->s, c->d, dotted));
  }
  vtb_free(detail);
  vtb_free(list);
  vtb_symbols_free(symbols);
  vtb_unit_free(u);
}

/* Files, as names of a `use`, or what those in std declare. */
static void add_files(completion *c, bool names) {
  size_t n;
  char **files = vtb_search_files(vtb_search_default(), &n);
  for (size_t i = 0; i < n; i++) {
    char *dotted = dotted_name(files[i]);
    if (dotted && names)
      add_item(c, dotted, MODULE_ITEM, 0, NULL);
    else if (dotted && vtb_starts_with(dotted, "std."))
      add_from(c, files[i], dotted);
    vtb_free(dotted);
    vtb_free(files[i]);
  }
  vtb_free(files);
}

cJSON *lsp_completion(lsp_server *s, lsp_document *d, const cJSON *params, vtb_error *err) {
  uint32_t offset = lsp_offset_of(s, d, params);
  context at = context_of(d, offset);
  completion c = {.s = s, .d = d, .items = cJSON_CreateArray()};
  (void)err;
  if (at.in_use) {
    add_files(&c, true);
  } else if (at.in_member && d->symbols) {
    add_members(&c, offset);
  } else if (!at.in_comment && d->symbols) {
    add_parameters(&c, offset, at.argument);
    add_visible(&c, offset);
    add_files(&c, false);
  }
  vtb_map_free(&c.seen);
  vtb_free((void *)at.argument);
  cJSON *result = cJSON_CreateObject();
  cJSON_AddBoolToObject(result, "isIncomplete", false);
  cJSON_AddItemToObject(result, "items", c.items);
  return result;
}
