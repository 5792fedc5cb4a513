/* Reading rules: a statement a line, docs/weights.md. */
#include "runtime/weights/rename_internal.h"

#include <string.h>

enum { MAX_FILE_BYTES = 1 << 20 };

/* The reader of a statement. */
typedef struct reader {
  vtb_names *names;
  const char *file;
  int line;
  struct vtb_name_set *set; /* NULL before the first */
  vtb_error *err;
} reader;

void vtb_names_init(vtb_names *n) {
  *n = (vtb_names){0};
  vtb_arena_init(&n->arena);
}

void vtb_names_free(vtb_names *n) {
  vtb_vec_free(&n->sets);
  vtb_vec_free(&n->ignored);
  vtb_vec_free(&n->configs);
  vtb_arena_free(&n->arena);
}

const char *vtb_names_label(const vtb_names *n, size_t set) { return n->sets.at[set]->label; }

static vtb_status fault(const reader *r, const char *what) {
  return vtb_fail(r->err, VTB_E_INPUT, "%s:%d: %s", r->file, r->line, what);
}

static char *copy_text(reader *r, const char *text, size_t n) {
  char *to = vtb_arena_try(&r->names->arena, n + 1, 1);
  if (to) memcpy(to, text, n);
  return to;
}

/* The next word; its length 0 at the end. */
static const char *next_word(const char **p, size_t *n) {
  *p += strspn(*p, " \t");
  const char *word = *p;
  *n = strcspn(word, " \t");
  *p += *n;
  return word;
}

static bool is_word(const char *word, size_t n, const char *text) {
  return strlen(text) == n && memcmp(word, text, n) == 0;
}

static vtb_status take_pattern(reader *r, const char *word, size_t n, const char **out) {
  const char *why = vtb_pattern_fault(word, n);
  if (*why) return fault(r, why);
  *out = copy_text(r, word, n);
  return *out ? VTB_OK : vtb_no_memory(r->err, r->file);
}

/* "A + B + C", up to the word that ends it. */
static vtb_status read_side(reader *r, const char **p, const char *const *ends, const char **at,
                            int *count, const char **end) {
  *count = 0;
  for (;;) {
    size_t n;
    const char *word = next_word(p, &n);
    if (*count == VTB_RENAME_PARTS) return fault(r, "at most 8 tensors are joined or split");
    VTB_TRY(take_pattern(r, word, n, &at[*count]));
    ++*count;
    word = next_word(p, &n);
    if (is_word(word, n, "+")) continue;
    for (*end = NULL; *ends && !*end; ends++)
      if (is_word(word, n, *ends)) *end = *ends;
    if (*end || !n) return VTB_OK;
    return fault(r, "expected +, -> or : between names");
  }
}

static vtb_status read_axes(reader *r, const char **p, vtb_name_rule *rule) {
  bool seen[VTB_WEIGHT_MAX_RANK] = {false};
  for (;;) {
    size_t n;
    const char *word = next_word(p, &n);
    if (!n) break;
    int axis = *word - '0';
    if (n != 1 || axis < 0 || axis >= VTB_WEIGHT_MAX_RANK || seen[axis])
      return fault(r, "transpose takes every axis once: transpose 1 0");
    seen[axis] = true;
    rule->axes[rule->n_axes++] = axis;
  }
  for (int i = 0; i < rule->n_axes; i++)
    if (!seen[i]) return fault(r, "transpose takes every axis once: transpose 1 0");
  return rule->n_axes ? VTB_OK : fault(r, "transpose takes every axis once: transpose 1 0");
}

static vtb_status read_layout(reader *r, const char **p, vtb_name_rule *rule) {
  size_t n;
  const char *word = next_word(p, &n);
  if (is_word(word, n, "transpose")) return read_axes(r, p, rule);
  if (!is_word(word, n, "reshape")) return fault(r, "a layout is transpose or reshape");
  rule->reshape = true;
  next_word(p, &n);
  return n ? fault(r, "text after the rule") : VTB_OK;
}

/* All names of a rule have the same open places, so that each follows from each other one. */
static vtb_status check_places(reader *r, const vtb_name_rule *rule) {
  const char *first = rule->from[0];
  bool same = true;
  for (int i = 0; i < rule->n_from + rule->n_to; i++) {
    const char *p = i < rule->n_from ? rule->from[i] : rule->to[i - rule->n_from];
    same &= vtb_pattern_texts(p) == vtb_pattern_texts(first) &&
            vtb_pattern_letters(p) == vtb_pattern_letters(first);
    if (i >= rule->n_from && strchr(p, '[')) return fault(r, "brackets are for names of the file");
  }
  if (!same) return fault(r, "the names of a rule need the same *, {i} and {j}");
  if (rule->n_from > 1 && rule->n_to > 1)
    return fault(r, "a rule joins several tensors or splits one");
  return VTB_OK;
}

static vtb_status read_rule(reader *r, const char *line) {
  static const char *const arrow[] = {"->", NULL}, *const colon[] = {":", NULL};
  const char *end = NULL;
  vtb_name_rule *rule = vtb_arena_try(&r->names->arena, 1, sizeof *rule);
  if (!rule) return vtb_no_memory(r->err, r->file);
  if (!r->set) return fault(r, "a rule before the first names \"...\"");
  VTB_TRY(read_side(r, &line, arrow, rule->from, &rule->n_from, &end));
  if (!end) return fault(r, "expected NAME -> NAME");
  VTB_TRY(read_side(r, &line, colon, rule->to, &rule->n_to, &end));
  if (end) VTB_TRY(read_layout(r, &line, rule));
  VTB_TRY(check_places(r, rule));
  if (r->set->last)
    r->set->last->next = rule;
  else
    r->set->first = rule;
  r->set->last = rule;
  r->set->n_rules++;
  return VTB_OK;
}

static vtb_status begin_set(reader *r, const char *line) {
  size_t n = strlen(line);
  while (n && (line[n - 1] == ' ' || line[n - 1] == '\t')) n--;
  if (n < 3 || line[0] != '"' || line[n - 1] != '"' || memchr(line + 1, '"', n - 2))
    return fault(r, "expected names \"whose\"");
  r->set = vtb_arena_try(&r->names->arena, 1, sizeof *r->set);
  if (!r->set || !(r->set->label = copy_text(r, line + 1, n - 2)) ||
      !vtb_vec_try_push(&r->names->sets, r->set))
    return vtb_no_memory(r->err, r->file);
  r->set->file = r->file;
  return VTB_OK;
}

static vtb_status read_ignored(reader *r, const char *line) {
  size_t n;
  const char *word = next_word(&line, &n);
  struct vtb_name_pattern *p = vtb_arena_try(&r->names->arena, 1, sizeof *p);
  if (!p) return vtb_no_memory(r->err, r->file);
  VTB_TRY(take_pattern(r, word, n, &p->text));
  next_word(&line, &n);
  if (n) return fault(r, "ignore takes one name");
  return vtb_vec_try_push(&r->names->ignored, p) ? VTB_OK : vtb_no_memory(r->err, r->file);
}

/* "num_attention_heads -> heads" or "hidden_act = gelu" */
static vtb_status read_config(reader *r, const char *line) {
  size_t n[4];
  const char *word[4];
  for (int i = 0; i < 4; i++) word[i] = next_word(&line, &n[i]);
  bool setting = is_word(word[1], n[1], "->");
  if (!n[2] || n[3] || (!setting && !is_word(word[1], n[1], "=")))
    return fault(r, "config takes KEY -> SETTING or KEY = VALUE");
  const char *key = copy_text(r, word[0], n[0]), *to = copy_text(r, word[2], n[2]);
  vtb_name_config c = {.key = key, .setting = setting ? to : NULL, .value = setting ? NULL : to};
  return key && to && vtb_vec_try_push(&r->names->configs, c) ? VTB_OK
                                                              : vtb_no_memory(r->err, r->file);
}

static vtb_status read_statement(reader *r, const char *text) {
  const char *line = text;
  size_t n;
  const char *word = next_word(&line, &n);
  const char *rest = line + strspn(line, " \t");
  if (!n) return VTB_OK;
  if (is_word(word, n, "names")) return begin_set(r, rest);
  if (is_word(word, n, "ignore")) return read_ignored(r, rest);
  if (is_word(word, n, "config")) return read_config(r, rest);
  return read_rule(r, text);
}

static bool goes_on(const char *line) {
  size_t n = strlen(line);
  while (n && (line[n - 1] == ' ' || line[n - 1] == '\t')) n--;
  return (n >= 1 && line[n - 1] == '+') || (n >= 2 && line[n - 2] == '-' && line[n - 1] == '>');
}

/* Statements of the text, which is cut up. */
static vtb_status read_lines(reader *r, char *text) {
  vtb_strbuf statement = VTB_CHECKED_STRBUF;
  vtb_status status = VTB_OK;
  int number = 0;
  for (char *line; status == VTB_OK && (line = strsep(&text, "\n"));) {
    number++;
    line[strcspn(line, "#\r")] = 0;
    if (!statement.n) r->line = number;
    vtb_strbuf_puts(&statement, line);
    vtb_strbuf_putc(&statement, ' ');
    if (goes_on(line) && text) continue;
    status = vtb_strbuf_check(&statement, r->err);
    if (status == VTB_OK) status = read_statement(r, statement.at);
    statement.n = 0;
  }
  vtb_strbuf_free(&statement);
  return status;
}

vtb_status vtb_names_parse(vtb_names *n, const char *name, const char *text, vtb_error *err) {
  reader r = {.names = n, .err = err};
  char *own = strdup(text);
  r.file = copy_text(&r, name, strlen(name));
  vtb_status status = own && r.file ? read_lines(&r, own) : vtb_no_memory(err, name);
  free(own);
  return status;
}

vtb_status vtb_names_read(vtb_names *n, const char *path, vtb_error *err) {
  char *text;
  size_t bytes;
  VTB_TRY(vtb_file_read(path, MAX_FILE_BYTES, &text, &bytes, err));
  vtb_status status = strlen(text) == bytes
                          ? vtb_names_parse(n, path, text, err)
                          : vtb_fail(err, VTB_E_INPUT, "%s: a zero byte, which no text has", path);
  free(text);
  return status;
}
