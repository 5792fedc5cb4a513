/* The reader of cases.map. */
#include "frontend/cli/verify/case_map.h"

#include "runtime/weights/pattern.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

typedef enum row_kind { ROW_FACT, ROW_SETTING, ROW_NAMES, ROW_ENTRY } row_kind;

/* A line. Texts are the map's. */
typedef struct case_row {
  row_kind kind;
  int line;
  const char *text;
  bool used;
  const char *entries; /* of the header above, words */
  const char *field;   /* "": of all cases. NAMES: the pattern of the file; ENTRY: the file */
  const char *value;   /* of the field; NULL: any */
  const char *to; /* SETTING: a hyperparameter, "": none; FACT: the expression; else as field */
  const char *to_value;
} case_row;

/* ---- reading --------------------------------------------------------------------------------- */

static char *trimmed(char *s) {
  while (isspace((unsigned char)*s)) s++;
  for (size_t n = strlen(s); n && isspace((unsigned char)s[n - 1]);) s[--n] = '\0';
  return s;
}

/* Where the text stands outside of quotes; NULL: nowhere. */
static char *find_outside(char *s, const char *text) {
  for (bool quoted = false; *s; s++) {
    if (*s == '"') quoted = !quoted;
    if (!quoted && vtb_starts_with(s, text)) return s;
  }
  return NULL;
}

/* Ends s at the text and gives what follows; NULL if it is not there. */
static char *cut(char *s, const char *text) {
  char *at = find_outside(s, text);
  if (!at) return NULL;
  *at = '\0';
  return trimmed(at + strlen(text));
}

static const char *read_names(char *line, case_row *row) {
  char *to = cut(line, "->");
  row->kind = ROW_NAMES;
  row->field = trimmed(line);
  row->to = to;
  if (!to) return "names PATTERN -> PATTERN is meant";
  const char *why = vtb_pattern_fault(row->field, strlen(row->field));
  return *why ? why : vtb_pattern_fault(row->to, strlen(row->to));
}

static const char *read_entry(char *line, case_row *row) {
  char *to = cut(line, " ");
  row->kind = ROW_ENTRY;
  row->field = line;
  row->to = to;
  return to && *to ? "" : "entry FILE NAME is meant";
}

static const char *read_field(char *line, case_row *row) {
  char *to = cut(line, "->"), *value = cut(line, "=");
  row->kind = to ? ROW_SETTING : ROW_FACT;
  row->field = trimmed(line);
  if (!to && (!value || !*value || !*row->field))
    return "FIELD = EXPRESSION or FIELD -> HYPERPARAMETER is meant";
  row->value = to ? value : NULL;
  row->to_value = to ? cut(to, "=") : NULL;
  row->to = to ? trimmed(to) : value;
  return *row->field || row->to_value ? "" : "-> HYPERPARAMETER = VALUE is meant";
}

/* The fault of a line, or "". */
static const char *read_line(case_map *m, int number, char *line, const char **entries) {
  char *comment = find_outside(line, "#");
  if (comment) *comment = '\0';
  line = trimmed(line);
  size_t n = strlen(line);
  if (!n) return "";
  if (*line == '[') {
    if (line[n - 1] != ']') return "[ENTRY...] is meant";
    line[n - 1] = '\0';
    *entries = line + 1;
    return "";
  }
  if (!*entries) return "a line before the first [ENTRY...]";
  case_row *row = VTB_NEW(&m->arena, case_row);
  row->entries = *entries;
  row->line = number;
  row->text = vtb_arena_strdup(&m->arena, line);
  vtb_vec_push(&m->rows, row);
  if (vtb_starts_with(line, "names ")) return read_names(line + 6, row);
  if (vtb_starts_with(line, "entry ")) return read_entry(line + 6, row);
  return read_field(line, row);
}

/* That of the published models' cases: installed beside the models, else the source tree's. */
static char *find_published(void) {
  const vtb_search *s = vtb_search_default();
  char *path = vtb_strprintf("%s/../cases/cases.map", s->dirs[s->n_dirs - 1]);
  if (vtb_path_exists(path)) return path;
  vtb_free(path);
  return vtb_path_exists(VTB_CASES_MAP) ? vtb_xstrdup(VTB_CASES_MAP) : NULL;
}

/* cases.map in the case's folder, or in the one above, or that of the published models. */
static char *find_map(const char *case_path) {
  const char *slash = strrchr(case_path, '/');
  int n = slash ? (int)(slash - case_path) + 1 : 0;
  for (int up = 0; up < 2; up++) {
    char *path = vtb_strprintf("%.*s%scases.map", n, case_path, up ? "../" : "");
    if (vtb_path_exists(path)) return path;
    vtb_free(path);
  }
  return find_published();
}

vtb_status case_map_open(case_map *m, const char *given, const char *case_path, vtb_error *err) {
  char *bytes = NULL;
  size_t n;
  *m = (case_map){.path = given ? vtb_xstrdup(given) : find_map(case_path)};
  vtb_arena_init(&m->arena);
  if (!m->path) return VTB_OK;
  vtb_status status = vtb_file_read(m->path, 1 << 20, &bytes, &n, err);
  char *rest = status == VTB_OK ? vtb_arena_strdup(&m->arena, bytes) : NULL;
  vtb_free(bytes);
  const char *entries = NULL, *why = "";
  for (int line = 1; rest && status == VTB_OK; line++) {
    why = read_line(m, line, strsep(&rest, "\n"), &entries);
    if (*why) status = vtb_fail(err, VTB_E_INPUT, "%s:%d: %s", m->path, line, why);
  }
  return status;
}

void case_map_free(case_map *m) {
  vtb_vec_free(&m->rows);
  vtb_arena_free(&m->arena);
  vtb_free(m->path);
}

/* ---- what it says ---------------------------------------------------------------------------- */

static bool is_for(const case_row *row, const char *entry) {
  char *copy = vtb_xstrdup(row->entries), *rest = copy;
  bool found = false;
  for (char *word; !found && (word = strsep(&rest, " \t"));)
    found = *word && fnmatch(word, entry, 0) == 0;
  vtb_free(copy);
  return found;
}

/* The next row of a kind for the entry, from *at on; NULL: none. */
static case_row *next_row(const case_map *m, row_kind kind, const char *entry, size_t *at) {
  while (*at < m->rows.n) {
    case_row *row = m->rows.at[(*at)++];
    if (row->kind == kind && is_for(row, entry)) return row;
  }
  return NULL;
}

static const case_row *row_of(const case_map *m, const char *entry, const vtb_override *field) {
  for (size_t i = 0; i < m->rows.n; i++) {
    case_row *row = m->rows.at[i];
    if (row->kind <= ROW_SETTING && strcmp(row->field, field->name) == 0 &&
        (!row->value || strcmp(row->value, field->value) == 0) && is_for(row, entry)) {
      row->used = true;
      return row;
    }
  }
  return NULL;
}

void case_map_fields(const case_map *m, const char *entry, case_overrides *fields) {
  size_t kept = 0, at = 0;
  for (size_t i = 0; i < fields->n; i++) {
    vtb_override o = fields->at[i];
    const case_row *row = row_of(m, entry, &o);
    if (row && row->kind == ROW_FACT) o.fact = row->to;
    if (row && row->kind == ROW_SETTING) {
      if (!*row->to) continue;
      o.name = row->to;
      if (row->to_value) o.value = row->to_value;
    }
    fields->at[kept++] = o;
  }
  fields->n = kept;
  for (case_row *row; (row = next_row(m, ROW_SETTING, entry, &at));) {
    if (*row->field) continue;
    row->used = true;
    vtb_vec_push(fields,
                 ((vtb_override){.name = row->to, .value = row->to_value, .from_config = true}));
  }
}

bool case_map_name(const case_map *m, const char *entry, bool of_case, const char *name, size_t *at,
                   vtb_strbuf *out) {
  vtb_taken taken;
  for (case_row *row; (row = next_row(m, ROW_NAMES, entry, at));) {
    out->n = 0;
    if (vtb_pattern_match(of_case ? row->to : row->field, name, &taken) &&
        vtb_pattern_fill(of_case ? row->field : row->to, &taken, out))
      return row->used = true;
  }
  return false;
}

bool case_map_entry(case_map *m, const char **entry, const char **file) {
  size_t at = 0;
  case_row *row = next_row(m, ROW_ENTRY, *entry, &at);
  if (!row) return false;
  row->used = true;
  const char *slash = strrchr(m->path, '/');
  *entry = row->to;
  *file = vtb_arena_printf(&m->arena, "%.*s%s", slash ? (int)(slash - m->path) + 1 : 0, m->path,
                           row->field);
  return true;
}

void case_map_add_used(case_map *m, const case_map *other) {
  for (size_t i = 0; i < m->rows.n && i < other->rows.n; i++)
    m->rows.at[i]->used |= other->rows.at[i]->used;
}

int case_map_unused(const case_map *m, size_t *at, const char **text) {
  while (*at < m->rows.n && m->rows.at[*at]->used) ++*at;
  if (*at == m->rows.n) return 0;
  *text = m->rows.at[*at]->text;
  return m->rows.at[(*at)++]->line;
}
