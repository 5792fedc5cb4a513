/* Values of the expressions in a text's declarations (text.h): C's operators over int64, holes,
 * constants, and the one-line functions of integers that the .cuh files have, so that no formula
 * is written twice. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/compile/text.h"
#include "codegen/cuda/texts.h"

enum { MOST_ARGUMENTS = 4, MOST_DEPTH = 16 };

/* An expression being read; inside a function, the values of its parameters. */
typedef struct reader {
  const char *s;
  vtb__text *text; /* NULL inside a function */
  vtb_error *err;
  int depth, n_args;
  char name[MOST_ARGUMENTS][24];
  int64_t value[MOST_ARGUMENTS];
} reader;

static int64_t choice(reader *r);

static int64_t wrong(reader *r, const char *what, const char *name) {
  vtb_fail(r->err, VTB_E_INTERNAL, "%s: %s '%s'", r->text ? r->text->file : "a function", what,
           name);
  r->s = "";
  return 0;
}

static bool take(reader *r, const char *token) {
  while (*r->s == ' ' || *r->s == '\n') r->s++;
  if (*r->s != *token || !vtb_starts_with(r->s, token)) return false;
  r->s += strlen(token);
  return true;
}

static void take_name(reader *r, char name[64]) {
  size_t n = 0;
  while (isalnum((unsigned char)r->s[n]) || r->s[n] == '_') n++;
  size_t kept = n < 63 ? n : 63;
  memcpy(name, r->s, kept);
  name[kept] = 0;
  r->s += n;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* The text behind "int NAME(" in a .cuh file. */
static const char *find_function(const char *name) {
  char head[80];
  snprintf(head, sizeof head, " int %s(int ", name);
  for (int i = 0; i < vtb__cuda_n_texts; i++) {
    const vtb_cuda_text_file *f = &vtb__cuda_texts[i];
    const char *at = vtb_ends_with(f->name, ".cuh") ? strstr(f->text, head) : NULL;
    if (at) return at + strlen(head) - strlen("int ");
  }
  return NULL;
}

static int64_t call(reader *r, const char *name) {
  reader f = {.s = find_function(name), .err = r->err, .depth = r->depth + 1};
  if (!f.s || f.depth > MOST_DEPTH) return wrong(r, "no function of integers", name);
  do {
    if (f.n_args == MOST_ARGUMENTS || !take(&f, "int ")) return wrong(r, "arguments of", name);
    char parameter[64];
    take_name(&f, parameter);
    snprintf(f.name[f.n_args], sizeof f.name[0], "%.23s", parameter);
    f.value[f.n_args++] = choice(r);
    if (take(&f, ",") != take(r, ",")) return wrong(r, "number of arguments of", name);
  } while (*f.s == ' ');
  if (!take(r, ")") || !take(&f, ")") || !take(&f, "{") || !take(&f, "return "))
    return wrong(r, "not a call of one expression:", name);
  return choice(&f);
}

/* ---- operands -------------------------------------------------------------------------------- */

static int64_t constant(reader *r, vtb__declaration *d) {
  if (d->kind == VTB__TEXT_NUMBER && !d->filled) return wrong(r, "not filled yet:", d->name);
  if (d->kind != VTB__TEXT_CONSTANT || d->filled) return d->number;
  if (d->open) return wrong(r, "defined by itself:", d->name);
  d->open = true;
  reader of = {.s = d->text, .text = r->text, .err = r->err, .depth = r->depth + 1};
  d->number = choice(&of);
  d->open = false;
  d->filled = r->err->status == VTB_OK; /* else perhaps later */
  return d->number;
}

static int64_t named(reader *r, const char *name) {
  for (int i = 0; i < r->n_args; i++)
    if (vtb_streq(r->name[i], name)) return r->value[i];
  for (size_t i = 0; r->text && i < r->text->all.n; i++) {
    vtb__declaration *d = &r->text->all.at[i];
    bool number =
        d->kind == VTB__TEXT_NUMBER || d->kind == VTB__TEXT_CONSTANT || d->kind == VTB__TEXT_SHARED;
    if (number && vtb_streq(d->name, name)) return constant(r, d);
  }
  return vtb_streq(name, "true") ? 1 : vtb_streq(name, "false") ? 0 : wrong(r, "no number", name);
}

int64_t vtb__text_bytes_of(const vtb__text *t, const char *type) {
  static const struct {
    const char *name;
    int64_t bytes;
  } types[] = {{"float", 4},   {"int", 4},     {"double", 8},   {"vtb_u64", 8},
               {"vtb_i64", 8}, {"vtb_f4", 16}, {"vtb_bf16", 2}, {"vtb_f16", 2}};
  for (size_t i = 0; i < t->all.n; i++)
    if (t->all.at[i].kind == VTB__TEXT_TYPE && vtb_streq(t->all.at[i].name, type))
      return t->all.at[i].filled ? vtb__text_bytes_of(t, t->all.at[i].text) : 4;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (vtb_streq(types[i].name, type)) return types[i].bytes;
  return 0;
}

static int64_t size_of(reader *r) {
  char type[64];
  take_name(r, type);
  int64_t bytes = r->text ? vtb__text_bytes_of(r->text, type) : 0;
  return bytes && take(r, ")") ? bytes : wrong(r, "no type", type);
}

static int64_t operand(reader *r) {
  char name[64];
  if (take(r, "!")) return !operand(r);
  if (take(r, "-")) return -operand(r);
  if (take(r, "(")) {
    int64_t v = choice(r);
    return take(r, ")") ? v : wrong(r, "no ')' at", r->s);
  }
  if (take(r, "sizeof(")) return size_of(r);
  if (isdigit((unsigned char)*r->s)) {
    char *end;
    int64_t v = strtoll(r->s, &end, 10);
    r->s = end;
    return v;
  }
  take_name(r, name);
  return take(r, "(") ? call(r, name) : named(r, name);
}

/* ---- operators ------------------------------------------------------------------------------- */

static int64_t quotient(reader *r, int64_t x, int64_t y, bool rest) {
  if (y == 0) return wrong(r, "division by zero before", r->s);
  return rest ? x % y : x / y;
}

/* Longer tokens before those they begin with. */
static const struct operator{
  const char *token;
  int binds;
}
operators[] = {{"||", 1}, {"&&", 2}, {"==", 3}, {"!=", 3}, {"<=", 4}, {">=", 4}, {"<", 4},
               {">", 4},  {"+", 5},  {"-", 5},  {"*", 6},  {"/", 6},  {"%", 6}};

static int64_t apply(reader *r, const char *o, int64_t x, int64_t y) {
  switch (o[0]) {
  case '|':
    return x || y;
  case '&':
    return x && y;
  case '=':
    return x == y;
  case '!':
    return x != y;
  case '<':
    return o[1] ? x <= y : x < y;
  case '>':
    return o[1] ? x >= y : x > y;
  case '+':
    return x + y;
  case '-':
    return x - y;
  case '*':
    return x * y;
  default:
    return quotient(r, x, y, o[0] == '%');
  }
}

/* Operators that bind as tightly as `least`, from the left. */
static int64_t binary(reader *r, int least) {
  int64_t x = operand(r);
  for (size_t i = 0; i < sizeof operators / sizeof *operators;) {
    const struct operator* o = & operators[i++];
    if (o->binds < least || !take(r, o->token)) continue;
    x = apply(r, o->token, x, binary(r, o->binds + 1));
    i = 0;
  }
  return x;
}

static int64_t choice(reader *r) {
  int64_t x = binary(r, 1);
  if (!take(r, "?")) return x;
  int64_t yes = choice(r);
  if (!take(r, ":")) return wrong(r, "no ':' at", r->s);
  int64_t no = choice(r);
  return x ? yes : no;
}

int64_t vtb__text_value(vtb__text *t, const char *expression, vtb_error *err) {
  reader r = {.s = expression, .text = t, .err = err};
  int64_t v = choice(&r);
  r.s += strspn(r.s, " \n");
  return *r.s && err->status == VTB_OK ? wrong(&r, "what is", r.s) : v;
}
