/* See template.h. The text is read as it is written: what is not live is skipped by the same
 * functions. */
#include "frontend/report/template.h"

#include "frontend/draw/picture.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct scope { /* names of {each}, the innermost first */
  const char *name;
  size_t n;
  const cJSON *value;
  cJSON nth; /* its place in the list, from 1: "x.nth" */
  const struct scope *outer;
} scope;

typedef struct filler {
  const char *text;
  const cJSON *tree;
  tp_format format;
  const void *user;
  vtb_strbuf *out;
  bool joined; /* what is written next follows a brace that leaves no blank */
} filler;

/* ---- words ----------------------------------------------------------------------------------- */

static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.'; }

static void skip_blanks(const char **at) {
  while (**at == ' ' || **at == '\n') ++*at;
}

/* Goes past the word or sign if it stands there. */
static bool word(const char **at, const char *w) {
  size_t n = strlen(w);
  skip_blanks(at);
  if (strncmp(*at, w, n) != 0 || (is_name(*w) && is_name((*at)[n]))) return false;
  *at += n;
  return true;
}

static size_t name(const char **at, const char **start) {
  skip_blanks(at);
  *start = *at;
  while (is_name(**at)) ++*at;
  if (*at == *start) vtb_bug("the template lacks a name: %.40s", *start);
  return (size_t)(*at - *start);
}

/* The text in quotes that stands there. */
static const char *quoted(const char **at, size_t *n) {
  if (!word(at, "\"")) return NULL;
  const char *start = *at;
  *n = strcspn(start, "\"");
  *at = start + *n + 1;
  return start;
}

static const char *close(const char *at) {
  skip_blanks(&at);
  if (*at != '}') vtb_bug("the template lacks a brace: %.40s", at);
  return at + 1;
}

/* ---- values ---------------------------------------------------------------------------------- */

static const cJSON *member(const filler *f, const scope *s, const char *path, size_t n) {
  size_t first = 0;
  while (first < n && path[first] != '.') first++;
  while (s && (s->n != first || strncmp(s->name, path, first) != 0)) s = s->outer;
  const cJSON *at = s ? s->value : f->tree;
  for (size_t from = s ? first + 1 : 0; at && from < n;) {
    char part[64];
    size_t length = strcspn(path + from, "."), most = n - from;
    if (length > most) length = most;
    snprintf(part, sizeof part, "%.*s", (int)length, path + from);
    if (s && at == s->value && strcmp(part, "nth") == 0) return &s->nth;
    at = cJSON_GetObjectItemCaseSensitive(at, part);
    from += length + 1;
  }
  return cJSON_IsNull(at) ? NULL : at;
}

typedef struct operand {
  double number;    /* NAN: it is none */
  const char *text; /* NULL: it is none */
  size_t n;
  bool holds;
} operand;

static operand read_operand(const filler *f, const scope *s, const char **at) {
  operand o = {.number = (double)NAN};
  const char *start;
  char *end;
  if ((o.text = quoted(at, &o.n)) != NULL) return o;
  skip_blanks(at);
  if (isdigit((unsigned char)**at) || **at == '-') {
    o.number = strtod(*at, &end);
    *at = end;
    return o;
  }
  size_t n = name(at, &start);
  const cJSON *v = member(f, s, start, n);
  if (cJSON_IsNumber(v) && isfinite(v->valuedouble)) o.number = v->valuedouble;
  o.text = cJSON_GetStringValue(v);
  o.n = o.text ? strlen(o.text) : 0;
  o.holds = cJSON_IsString(v)                       ? o.n > 0
            : cJSON_IsNumber(v)                     ? o.number != 0 && !isnan(o.number)
            : cJSON_IsArray(v) || cJSON_IsObject(v) ? v->child != NULL
                                                    : cJSON_IsTrue(v);
  return o;
}

/* -1, 0, 1; 2: they cannot be compared. Texts are equal or 1. */
static int compare(const operand *a, const operand *b) {
  if (a->text && b->text) return !(a->n == b->n && strncmp(a->text, b->text, a->n) == 0);
  if (isnan(a->number) || isnan(b->number)) return 2;
  return (a->number > b->number) - (a->number < b->number);
}

static bool read_term(const filler *f, const scope *s, const char **at) {
  static const struct {
    const char *sign;
    int one, other; /* results of compare() that it holds of */
  } signs[] = {{"==", 0, 0}, {"!=", -1, 1}, {"<=", -1, 0},
               {">=", 0, 1}, {"<", -1, -1}, {">", 1, 1}};
  if (word(at, "not")) return !read_term(f, s, at);
  operand a = read_operand(f, s, at);
  for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
    if (!word(at, signs[i].sign)) continue;
    operand b = read_operand(f, s, at);
    int result = compare(&a, &b);
    return result == signs[i].one || result == signs[i].other;
  }
  return a.holds;
}

static bool read_condition(const filler *f, const scope *s, const char **at) {
  bool holds = read_term(f, s, at);
  for (;;) {
    bool both = word(at, "and");
    if (!both && !word(at, "or")) return holds;
    bool next = read_term(f, s, at);
    holds = both ? holds && next : holds || next;
  }
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool is_control(const char *brace) {
  static const char *const words[] = {"if", "else", "each", "end", "define", "use", "#"};
  for (size_t i = 0; *brace == '{' && i < sizeof words / sizeof *words; i++) {
    const char *at = brace + 1;
    if (word(&at, words[i])) return true;
  }
  return false;
}

/* The text from `at` to `to`, where a brace or the end stands. */
static void write_plain(filler *f, const char *at, const char *to) {
  while (at < to) {
    size_t n = strcspn(at, "\n");
    if (at + n > to) n = (size_t)(to - at);
    size_t kept = n;
    if (at[n] == '\n')
      while (kept && at[kept - 1] == ' ') kept--;
    vtb_strbuf_write(f->out, at, kept);
    f->joined &= n == 0;
    at += n;
    if (at == to) return;
    skip_blanks(&at);
    bool control = at >= to && is_control(to);
    if (f->joined || control) continue;
    char before = f->out->n ? f->out->at[f->out->n - 1] : '\n';
    bool element = before == '>' && strchr("<{", *at); /* the end, too */
    if (before != '\n' && !(element && *at == '{')) vtb_strbuf_putc(f->out, element ? '\n' : ' ');
  }
}

static const char *write_value(filler *f, const char *at, const scope *s, bool live) {
  const char *start;
  size_t n = name(&at, &start);
  const cJSON *v = live ? member(f, s, start, n) : NULL;
  f->joined = false;
  if (word(&at, "|")) {
    char format[16];
    n = name(&at, &start);
    snprintf(format, sizeof format, "%.*s", (int)n, start);
    int number = 0;
    for (skip_blanks(&at); isdigit((unsigned char)*at); at++) number = 10 * number + (*at - '0');
    if (live && !f->format(f->user, format, number, v, f->out))
      vtb_bug("the template has a format that is unknown: %s", format);
  } else if (cJSON_IsNumber(v)) {
    vtb_strbuf_double(f->out, v->valuedouble);
  } else {
    picture_put_text(f->out, cJSON_GetStringValue(v));
  }
  return close(at);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static const char *block(filler *f, const char *at, const scope *s, bool live);

/* Behind the {end} that stands there. */
static const char *end_of(filler *f, const char *at) {
  ++at;
  if (!word(&at, "end")) vtb_bug("the template lacks an end: %.40s", at);
  f->joined = true;
  return close(at);
}

static const char *run_if(filler *f, const char *at, const scope *s, bool live) {
  bool done = false;
  for (;;) {
    bool holds = read_condition(f, s, &at);
    at = block(f, close(at), s, live && !done && holds);
    done |= holds;
    const char *tag = at + 1;
    if (!word(&tag, "else")) return end_of(f, at);
    f->joined = true;
    if (word(&tag, "if")) {
      at = tag;
      continue;
    }
    return end_of(f, block(f, close(tag), s, live && !done));
  }
}

static const char *run_each(filler *f, const char *at, const scope *s, bool live) {
  scope own = {.outer = s};
  const char *path;
  size_t between_n = 0;
  own.n = name(&at, &own.name);
  if (!word(&at, "in")) vtb_bug("the template lacks an `in`: %.40s", at);
  size_t n = name(&at, &path);
  const char *between = quoted(&at, &between_n), *end = NULL;
  at = close(at);
  const cJSON *list = live ? member(f, s, path, n) : NULL;
  bool is_list = cJSON_IsArray(list);
  if (cJSON_IsFalse(list)) list = NULL;
  own.nth.type = cJSON_Number;
  for (own.value = is_list ? list->child : list; own.value;
       own.value = is_list ? own.value->next : NULL) {
    own.nth.valuedouble++;
    if (end && between) vtb_strbuf_write(f->out, between, between_n);
    f->joined = true;
    end = block(f, at, &own, true);
  }
  return end_of(f, end ? end : block(f, at, &own, false));
}

/* Writes what is defined by the name. */
static const char *run_use(filler *f, const char *at, const scope *s, bool live) {
  const char *of, *start, *text = live ? f->text : "";
  size_t n = name(&at, &of);
  while ((text = strstr(text, "{define ")) != NULL) {
    text += strlen("{define ");
    if (name(&text, &start) == n && strncmp(start, of, n) == 0) break;
  }
  if (live && !text) vtb_bug("the template has no %.*s", (int)n, of);
  f->joined = true;
  if (live) block(f, close(text), s, true);
  f->joined = true;
  return close(at);
}

static const char *run_define(filler *f, const char *at, const scope *s) {
  const char *of;
  name(&at, &of);
  return end_of(f, block(f, close(at), s, false));
}

/* One brace and what it opens, up to its end; `at` is behind the brace. */
static const char *run_brace(filler *f, const char *at, const scope *s, bool live) {
  f->joined |= is_control(at - 1);
  if (word(&at, "#")) return strchr(at, '}') + 1;
  if (word(&at, "if")) return run_if(f, at, s, live);
  if (word(&at, "each")) return run_each(f, at, s, live);
  if (word(&at, "use")) return run_use(f, at, s, live);
  if (word(&at, "define")) return run_define(f, at, s);
  return write_value(f, at, s, live);
}

/* Writes, or skips, up to the {end} or {else} that belongs to what stands before `at`, or to the
 * end of the text; returns where that is. */
static const char *block(filler *f, const char *at, const scope *s, bool live) {
  for (;;) {
    const char *brace = at;
    while (*brace && !(*brace == '{' && (isalpha((unsigned char)brace[1]) || brace[1] == '#')))
      brace++;
    if (live) write_plain(f, at, brace);
    if (!*brace) return brace;
    const char *tag = brace + 1;
    if (word(&tag, "end") || word(&tag, "else")) return brace;
    at = run_brace(f, brace + 1, s, live);
  }
}

void tp_fill(const char *text, const cJSON *tree, tp_format format, const void *user,
             vtb_strbuf *out) {
  filler f = {text, tree, format, user, out, true};
  block(&f, text, NULL, true);
}
