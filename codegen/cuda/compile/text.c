/* Texts of kernels taken apart, checked and written: see text.h. */
#include "codegen/cuda/compile/text.h"

#include <ctype.h>
#include <string.h>

#include "codegen/cuda/texts.h"

const char *vtb__text_find(const char *file) {
  for (int i = 0; i < vtb__cuda_n_texts; i++)
    if (vtb_streq(vtb__cuda_texts[i].name, file)) return vtb__cuda_texts[i].text;
  vtb_bug("codegen/cuda/text has no %s", file);
}

/* ---- parsing --------------------------------------------------------------------------------- */

typedef struct parser {
  const char *s;
  vtb_arena *arena;
  vtb__text *t;
  vtb_error *err;
} parser;

static bool fails(parser *p, const char *what) {
  vtb_fail(p->err, VTB_E_INTERNAL, "%s: %s at '%.30s'", p->t->file, what, p->s);
  return false;
}

static void skip_space(parser *p) {
  for (;;) {
    while (*p->s == ' ' || *p->s == '\n') p->s++;
    const char *end = *p->s == '/' && p->s[1] == '*' ? strstr(p->s, "*/") : NULL;
    if (!end) return;
    p->s = end + 2;
  }
}

static bool take(parser *p, const char *token) {
  skip_space(p);
  if (*p->s != *token || !vtb_starts_with(p->s, token)) return false;
  p->s += strlen(token);
  return true;
}

static const char *take_name(parser *p) {
  size_t n = 0;
  skip_space(p);
  while (isalnum((unsigned char)p->s[n]) || p->s[n] == '_') n++;
  p->s += n;
  return vtb_arena_strndup(p->arena, p->s - n, n);
}

/* Up to one of `ends` outside parentheses, its lines joined; the end stays. */
static const char *take_expression(parser *p, const char *ends) {
  vtb_strbuf s = {0};
  int depth = 0;
  skip_space(p);
  for (; *p->s && (depth || !strchr(ends, *p->s)); p->s++) {
    depth += (*p->s == '(') - (*p->s == ')');
    if (*p->s == '\n') p->s += strspn(p->s, " \n") - 1;
    vtb_strbuf_putc(&s, *p->s == '\n' ? ' ' : *p->s);
  }
  const char *text = vtb_arena_strdup(p->arena, s.n ? s.at : "");
  vtb_strbuf_free(&s);
  return text;
}

static void declare(parser *p, vtb__declaration d) { vtb_vec_push(&p->t->all, d); }

static bool take_end(parser *p) { return take(p, ";") || fails(p, "no ';'"); }

static bool parse_hole(parser *p) {
  static const struct {
    const char *type;
    vtb__text_kind kind;
  } kinds[] = {{"int", VTB__TEXT_NUMBER},     {"bool", VTB__TEXT_NUMBER},
               {"vtb_i64", VTB__TEXT_NUMBER}, {"float", VTB__TEXT_FLOAT},
               {"type", VTB__TEXT_TYPE},      {"expr", VTB__TEXT_EXPR},
               {"code", VTB__TEXT_CODE}};
  const char *type = take_name(p);
  size_t i = 0, n = sizeof kinds / sizeof *kinds;
  while (i < n && !vtb_streq(kinds[i].type, type)) i++;
  if (i == n) return fails(p, "no kind of holes");
  vtb__declaration d = {.kind = kinds[i].kind, .type = type};
  do {
    d.name = take_name(p);
    declare(p, d);
    d.continues = true;
  } while (take(p, ","));
  return take_end(p);
}

static bool parse_constant(parser *p) {
  vtb__declaration d = {.kind = VTB__TEXT_CONSTANT, .type = take_name(p)};
  do {
    d.name = take_name(p);
    if (!take(p, "=")) return fails(p, "no '='");
    d.text = take_expression(p, ",;");
    declare(p, d);
    d.continues = true;
  } while (take(p, ","));
  return take_end(p);
}

static bool parse_shared(parser *p) {
  const char *type = take_name(p);
  do {
    vtb__declaration d = {.kind = VTB__TEXT_SHARED, .type = type, .name = take_name(p)};
    if (!take(p, "[")) return fails(p, "no '['");
    d.text = take_expression(p, "]");
    if (!take(p, "]")) return fails(p, "no ']'");
    if (take(p, "over ")) d.over = take_expression(p, ",;");
    declare(p, d);
  } while (take(p, ","));
  return take_end(p);
}

static bool parse_require(parser *p) {
  declare(p, (vtb__declaration){.kind = VTB__TEXT_REQUIRE, .name = take_expression(p, ";")});
  return take_end(p);
}

static bool parse_cost(parser *p) {
  vtb__declaration d = {.kind = VTB__TEXT_COST, .name = take_name(p)};
  if (!take(p, "=")) return fails(p, "no '='");
  d.text = take_expression(p, ";");
  declare(p, d);
  return take_end(p);
}

static bool parse_include(parser *p) {
  declare(p, (vtb__declaration){.kind = VTB__TEXT_INCLUDE, .name = take_expression(p, "\"")});
  return take(p, "\"") || fails(p, "no '\"'");
}

static const struct statement {
  const char *keyword;
  bool (*parse)(parser *);
} statements[] = {{"hole ", parse_hole},     {"constexpr ", parse_constant},
                  {"shared ", parse_shared}, {"require ", parse_require},
                  {"cost ", parse_cost},     {"#include \"", parse_include}};

static const struct statement *next_statement(parser *p) {
  skip_space(p);
  for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
    if (take(p, statements[i].keyword)) return &statements[i];
  return NULL;
}

/* Behind the statement: comments that begin on its line are its own. */
static const char *next_line(const char *s) {
  s += strspn(s, " ");
  const char *end = vtb_starts_with(s, "/*") ? strstr(s, "*/") : NULL;
  return end ? next_line(end + 2) : s + strspn(s, "\n");
}

/* The body with the parts that its lines include in place of these. */
static const char *with_parts(parser *p, const char *body) {
  static const char include[] = "#include \"";
  vtb_strbuf s = {0};
  for (const char *at; (at = strstr(body, include)) != NULL;) {
    const char *name = at + strlen(include), *end = name + strcspn(name, "\"\n");
    vtb_strbuf_printf(&s, "%.*s", (int)(at - body), body);
    vtb_strbuf_puts(&s, vtb__text_find(vtb_arena_strndup(p->arena, name, (size_t)(end - name))));
    end += strcspn(end, "\n");
    body = end + (*end == '\n');
  }
  if (!s.n) return body;
  vtb_strbuf_puts(&s, body);
  body = vtb_arena_strdup(p->arena, s.at);
  vtb_strbuf_free(&s);
  return body;
}

vtb_status vtb__text_parse(const char *file, const char *source, vtb_arena *arena, vtb__text *t,
                           vtb_error *err) {
  parser p = {.s = source, .arena = arena, .t = t, .err = err};
  *t = (vtb__text){.file = file, .body = next_line(source)};
  for (const struct statement *s; (s = next_statement(&p)) != NULL; t->body = next_line(p.s))
    if (!s->parse(&p)) return VTB_E_INTERNAL;
  t->body = with_parts(&p, t->body);
  return VTB_OK;
}

void vtb__text_free(vtb__text *t) { vtb_vec_free(&t->all); }

static int64_t *cost_named(vtb__text_costs *c, const char *name) {
  const struct {
    const char *name;
    int64_t *value;
  } all[] = {{"tensor", &c->tensor},       {"wide", &c->wide},     {"issue", &c->issue},
             {"special", &c->special},     {"chain", &c->chain},   {"wavefronts", &c->wavefronts},
             {"registers", &c->registers}, {"flight", &c->flight}, {"after", &c->after},
             {"phases", &c->phases}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (vtb_streq(all[i].name, name)) return all[i].value;
  return NULL;
}

/* ---- checking -------------------------------------------------------------------------------- */

static bool is_hole(const vtb__declaration *d) { return d->kind <= VTB__TEXT_CODE; }
static bool is_named(const vtb__declaration *d) { return d->kind <= VTB__TEXT_SHARED; }
static bool in_braces(const vtb__declaration *d) {
  return d->kind == VTB__TEXT_EXPR || d->kind == VTB__TEXT_CODE;
}

static vtb__declaration *find(const vtb__text *t, const char *name, size_t length) {
  for (size_t i = 0; i < t->all.n; i++) {
    vtb__declaration *d = &t->all.at[i];
    if (is_named(d) && strlen(d->name) == length && strncmp(d->name, name, length) == 0) return d;
  }
  return NULL;
}

static bool has_word(const char *s, const char *word) {
  size_t n = strlen(word);
  for (const char *at = s; (at = strstr(at, word)) != NULL; at += n) {
    char before = at == s ? ' ' : at[-1];
    if (!isalnum((unsigned char)before) && before != '_' && !isalnum((unsigned char)at[n]) &&
        at[n] != '_')
      return true;
  }
  return false;
}

static bool is_used(const vtb__text *t, const vtb__declaration *d) {
  if (has_word(t->body, d->name)) return true;
  for (size_t i = 0; i < t->all.n; i++) {
    const vtb__declaration *by = &t->all.at[i];
    if (by == d) continue;
    if ((by->text && has_word(by->text, d->name)) || (by->over && has_word(by->over, d->name)) ||
        (by->type && vtb_streq(by->type, d->name)) ||
        (by->kind == VTB__TEXT_REQUIRE && has_word(by->name, d->name)))
      return true;
  }
  return false;
}

/* The next ${name}, of `length`, from *s on, which moves behind it; NULL: there is none. */
static const char *next_hole(const char **s, size_t *length) {
  const char *at = strstr(*s, "${");
  if (!at) return NULL;
  *length = strcspn(at + 2, "}");
  *s = at + 2 + *length + 1;
  return at + 2;
}

static vtb_status check_declaration(const vtb__text *t, const vtb__declaration *d, vtb_error *err) {
  char hole[80];
  snprintf(hole, sizeof hole, "${%s}", d->name);
  if (find(t, d->name, strlen(d->name)) != d)
    return vtb_fail(err, VTB_E_INTERNAL, "%s: %s is declared twice", t->file, d->name);
  if (in_braces(d) ? !strstr(t->body, hole) : !is_used(t, d))
    return vtb_fail(err, VTB_E_INTERNAL, "%s: %s is declared but not used", t->file, d->name);
  return VTB_OK;
}

vtb_status vtb__text_check(const vtb__text *t, vtb_error *err) {
  for (size_t i = 0; i < t->all.n; i++)
    if (is_named(&t->all.at[i]) && check_declaration(t, &t->all.at[i], err) != VTB_OK)
      return VTB_E_INTERNAL;
  vtb__text_costs costs;
  for (size_t i = 0; i < t->all.n; i++)
    if (t->all.at[i].kind == VTB__TEXT_COST && !cost_named(&costs, t->all.at[i].name))
      return vtb_fail(err, VTB_E_INTERNAL, "%s: no cost is named %s", t->file, t->all.at[i].name);
  const char *s = t->body, *name;
  for (size_t n; (name = next_hole(&s, &n)) != NULL;) {
    const vtb__declaration *d = find(t, name, n);
    if (!d || !in_braces(d))
      return vtb_fail(err, VTB_E_INTERNAL, "%s: ${%.*s} is not declared as expr or code", t->file,
                      (int)n, name);
  }
  return VTB_OK;
}

/* ---- filling --------------------------------------------------------------------------------- */

static vtb__declaration *hole_of(vtb__text *t, const char *name) {
  vtb__declaration *d = find(t, name, strlen(name));
  vtb_check(d && is_hole(d), "%s declares no hole %s", t->file, name);
  vtb_check(!d->filled, "%s: hole %s is filled twice", t->file, name);
  d->filled = true;
  return d;
}

bool vtb__text_has(const vtb__text *t, const char *name) {
  return find(t, name, strlen(name)) != NULL;
}

void vtb__text_fill_number(vtb__text *t, const char *name, int64_t number) {
  vtb__declaration *d = hole_of(t, name);
  vtb_check(d->kind == VTB__TEXT_NUMBER, "%s: hole %s is no number", t->file, name);
  bool fits = vtb_streq(d->type, "bool")  ? number == 0 || number == 1
              : vtb_streq(d->type, "int") ? number >= INT32_MIN && number <= INT32_MAX
                                          : true;
  vtb_check(fits, "%s: %s %s cannot be %lld", t->file, d->type, name, (long long)number);
  d->number = number;
}

void vtb__text_fill(vtb__text *t, const char *name, const char *text) {
  vtb__declaration *d = hole_of(t, name);
  vtb_check(d->kind != VTB__TEXT_NUMBER, "%s: hole %s is a number", t->file, name);
  vtb_check(d->kind != VTB__TEXT_TYPE || vtb__text_bytes_of(t, text) > 0, "%s: %s is no type",
            t->file, text);
  vtb_check(d->kind == VTB__TEXT_CODE || (*text && !strpbrk(text, ";{}\n")),
            "%s: '%s' is no expression for %s", t->file, text, name);
  d->text = text;
}

/* ---- shared memory --------------------------------------------------------------------------- */

vtb_status vtb__text_layout(vtb__text *t, vtb__text_arrays *arrays, int64_t *bytes,
                            vtb_error *err) {
  *bytes = 0;
  for (size_t i = 0; i < t->all.n; i++) {
    vtb__declaration *d = &t->all.at[i];
    if (d->kind != VTB__TEXT_SHARED) continue;
    vtb__text_array a = {.name = d->name, .type = d->type, .over = d->over != NULL};
    a.count = vtb__text_value(t, d->text, err);
    a.bytes = a.count * vtb__text_bytes_of(t, d->type);
    a.at = d->number = d->over ? vtb__text_value(t, d->over, err) : *bytes;
    if (err->status != VTB_OK) return err->status;
    if (a.count < 0 || (a.count && !a.bytes) || a.at % 16)
      return vtb_fail(err, VTB_E_INTERNAL, "%s: %s %s[%lld] at %lld", t->file, a.type, a.name,
                      (long long)a.count, (long long)a.at);
    int64_t end = a.at + (a.bytes + 15) / 16 * 16;
    if (end > *bytes) *bytes = end;
    vtb_vec_push(arrays, a);
  }
  return VTB_OK;
}

/* ---- costs of a block ------------------------------------------------------------------------ */

vtb_status vtb__text_costs_of(vtb__text *t, vtb__text_costs *costs, vtb_error *err) {
  *costs = (vtb__text_costs){0};
  for (size_t i = 0; i < t->all.n; i++) {
    const vtb__declaration *d = &t->all.at[i];
    if (d->kind != VTB__TEXT_COST) continue;
    int64_t *to = cost_named(costs, d->name);
    vtb_check(to != NULL, "%s: no cost is named %s", t->file, d->name);
    *to = vtb__text_value(t, d->text, err);
    if (err->status != VTB_OK) return err->status;
    if (*to < 0)
      return vtb_fail(err, VTB_E_INTERNAL, "%s: cost %s is %lld", t->file, d->name, (long long)*to);
    costs->any = true;
  }
  return VTB_OK;
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* The next part of "A && B && C", without the operator; all of what has another operator outside of
 * parentheses, too. *s moves behind it. */
static const char *next_part(const char **s, vtb_arena *arena) {
  const char *begin = *s + strspn(*s, " "), *end = begin;
  for (int depth = 0; *end && (depth || !vtb_starts_with(end, "&&")); end++)
    depth += (*end == '(') - (*end == ')');
  *s = *end ? end + 2 : end;
  while (end > begin && end[-1] == ' ') end--;
  return vtb_arena_strndup(arena, begin, (size_t)(end - begin));
}

static bool has_alternatives(const char *s) {
  int depth = 0;
  for (; *s; s++) {
    depth += (*s == '(') - (*s == ')');
    if (!depth && (vtb_starts_with(s, "||") || *s == '?')) return true;
  }
  return false;
}

/* "linscan_tiles.cu requires DEPTH <= 512: DEPTH is 640" */
static const char *refusal_of(vtb__text *t, const char *part, vtb_arena *arena) {
  vtb_strbuf s = {0};
  int n = 0;
  vtb_strbuf_printf(&s, "%s requires %s", t->file, part);
  for (size_t i = 0; i < t->all.n; i++) {
    const vtb__declaration *d = &t->all.at[i];
    vtb_error err = {0};
    if ((d->kind != VTB__TEXT_NUMBER && d->kind != VTB__TEXT_CONSTANT) || !has_word(part, d->name))
      continue;
    int64_t value = vtb__text_value(t, d->name, &err);
    if (err.status == VTB_OK)
      vtb_strbuf_printf(&s, "%s %s is %lld", n++ ? "," : ":", d->name, (long long)value);
  }
  const char *text = vtb_arena_strdup(arena, s.at);
  vtb_strbuf_free(&s);
  return text;
}

const char *vtb__text_refusal(vtb__text *t, vtb_arena *arena) {
  for (size_t i = 0; i < t->all.n; i++) {
    const char *all = t->all.at[i].name;
    if (t->all.at[i].kind != VTB__TEXT_REQUIRE) continue;
    for (const char *s = all; *s;) {
      const char *part = has_alternatives(all) ? (s = "", all) : next_part(&s, arena);
      vtb_error err = {0};
      if (!vtb__text_value(t, part, &err) && err.status == VTB_OK)
        return refusal_of(t, part, arena);
    }
  }
  return NULL;
}

/* ---- writing --------------------------------------------------------------------------------- */

static vtb_status check_filled(vtb__text *t, vtb_error *err) {
  for (size_t i = 0; i < t->all.n; i++) {
    const vtb__declaration *d = &t->all.at[i];
    if (is_hole(d) && !d->filled)
      return vtb_fail(err, VTB_E_INTERNAL, "%s: nothing for hole %s", t->file, d->name);
    if (d->kind == VTB__TEXT_REQUIRE && !vtb__text_value(t, d->name, err))
      return vtb_fail(err, VTB_E_INTERNAL, "%s requires %s", t->file, d->name);
  }
  return VTB_OK;
}

static void write_constant(const vtb__declaration *d, vtb_strbuf *out) {
  if (d->continues)
    out->n -= strlen(";\n"), vtb_strbuf_printf(out, ", %s = ", d->name);
  else
    vtb_strbuf_printf(out, "  constexpr %s %s = ", d->type, d->name);
  if (d->kind != VTB__TEXT_NUMBER)
    vtb_strbuf_puts(out, d->text);
  else if (vtb_streq(d->type, "bool"))
    vtb_strbuf_puts(out, d->number ? "true" : "false");
  else
    vtb_strbuf_printf(out, "%lld", (long long)d->number);
  vtb_strbuf_puts(out, ";\n");
}

static void write_declarations(const vtb__text *t, vtb_strbuf *out) {
  for (size_t i = 0; i < t->all.n; i++) {
    const vtb__declaration *d = &t->all.at[i];
    if (d->kind == VTB__TEXT_NUMBER || d->kind == VTB__TEXT_FLOAT || d->kind == VTB__TEXT_CONSTANT)
      write_constant(d, out);
    if (d->kind == VTB__TEXT_TYPE) vtb_strbuf_printf(out, "  typedef %s %s;\n", d->text, d->name);
  }
}

static void write_body(const vtb__text *t, vtb_strbuf *out) {
  const char *s = t->body, *from = s, *name;
  for (size_t n; (name = next_hole(&s, &n)) != NULL; from = s) {
    vtb_strbuf_write(out, from, (size_t)(name - 2 - from));
    vtb_strbuf_puts(out, find(t, name, n)->text);
  }
  vtb_strbuf_puts(out, from);
}

vtb_status vtb__text_write(vtb__text *t, vtb_strbuf *out, int64_t *shared_bytes, vtb_error *err) {
  vtb__text_arrays arrays = {0};
  if (check_filled(t, err) != VTB_OK) return err->status;
  vtb_status status = vtb__text_layout(t, &arrays, shared_bytes, err);
  write_declarations(t, out);
  for (size_t i = 0; i < arrays.n; i++)
    vtb_strbuf_printf(out, "  VTB_SHARED(%s, %s, %lld, %lld);\n", arrays.at[i].type,
                      arrays.at[i].name, (long long)arrays.at[i].at, (long long)arrays.at[i].count);
  if (status == VTB_OK) write_body(t, out);
  vtb_vec_free(&arrays);
  return status;
}
