/* The asm statements of a preprocessed text: found, taken apart, and replaced by calls of the
 * machine with the same operands. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/codegen/ptx/ptx.h"

static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Behind a string literal that begins at p. */
static const char *skip_string(const char *p) {
  for (p++; *p && *p != '"'; p++)
    if (*p == '\\' && p[1]) p++;
  return *p ? p + 1 : p;
}

/* The first of `wanted` at no depth of parentheses, from p on, or the end. */
static const char *find(const char *p, const char *end, const char *wanted) {
  int depth = 0;
  while (p < end) {
    if (!depth && strchr(wanted, *p)) return p;
    if (*p == '"') {
      p = skip_string(p);
      continue;
    }
    depth += strchr("([{", *p) != NULL;
    depth -= strchr(")]}", *p) != NULL;
    p++;
  }
  return end;
}

static char *copy(const char *from, const char *end) {
  while (from < end && isspace((unsigned char)*from)) from++;
  while (end > from && isspace((unsigned char)end[-1])) end--;
  vtb_strbuf s = {0};
  vtb_strbuf_write(&s, from, (size_t)(end - from));
  if (!s.at) vtb_strbuf_puts(&s, "");
  return s.at;
}

/* Neighbouring literals as one. */
static bool join_literals(const char *from, const char *end, vtb_strbuf *out) {
  while (from < end) {
    if (isspace((unsigned char)*from)) {
      from++;
      continue;
    }
    if (*from != '"') return false;
    const char *stop = skip_string(from) - 1;
    for (from++; from < stop; from++) {
      char c = *from;
      if (c == '\\') c = *++from == 'n' ? '\n' : *from == 't' ? '\t' : *from;
      vtb_strbuf_putc(out, c);
    }
    from++;
  }
  return true;
}

/* "=r"(x), "r"(y): constraints and expressions. */
static bool read_operands(ptx_statement *s, const char *from, const char *end) {
  while (from < end) {
    const char *stop = find(from, end, ",");
    while (from < stop && isspace((unsigned char)*from)) from++;
    if (from == stop) return stop == end; /* none */
    if (*from != '"' || s->n_operands == PTX_OPERANDS) return false;
    const char *close = skip_string(from), *open = find(close, stop, "(");
    if (open == stop) return false;
    const char *last = stop - 1;
    while (last > open && *last != ')') last--;
    snprintf(s->constraint[s->n_operands], sizeof s->constraint[0], "%.*s", (int)(close - from - 2),
             from + 1);
    s->expression[s->n_operands++] = copy(open + 1, last);
    from = stop + (stop < end);
  }
  return true;
}

/* What is between the parentheses of an asm. */
static bool read_statement(ptx_statement *s, const char *from, const char *end) {
  vtb_strbuf text = {0};
  const char *part[5] = {from, end, end, end, end};
  int n = 1;
  for (const char *p = from; n < 4 && (p = find(p, end, ":")) < end; p++) part[n++] = p + 1;
  const char *stop[4];
  for (int i = 0; i < 4; i++) stop[i] = i + 1 < n ? part[i + 1] - 1 : end;
  bool ok = join_literals(part[0], stop[0], &text);
  s->template_text = text.at ? text.at : copy(from, from);
  ok = ok && (n < 2 || read_operands(s, part[1], stop[1]));
  int n_out = s->n_operands;
  ok = ok && (n < 3 || read_operands(s, part[2], stop[2]));
  for (int i = 0; ok && i < s->n_operands; i++)
    ok = (strpbrk(s->constraint[i], "=+") != NULL) == (i < n_out);
  char *clobbers = n < 4 ? copy(end, end) : copy(part[3], stop[3]);
  s->clobbers_memory = strcmp(clobbers, "\"memory\"") == 0;
  ok = ok && (s->clobbers_memory || !*clobbers);
  free(clobbers);
  return ok;
}

static void write_call(const ptx_statement *s, int number, vtb_strbuf *out) {
  vtb_strbuf_puts(out, "do { ptx_operand ptx_o[] = {");
  for (int i = 0; i < s->n_operands; i++)
    vtb_strbuf_printf(out, "%s(%s), ", strpbrk(s->constraint[i], "=+") ? "ptx_out" : "ptx_in",
                      s->expression[i]);
  vtb_strbuf_printf(out, "{}}; ptx_the_host->execute(%d, ptx_o); } while (0)", number);
}

/* The name before the parenthesis that the one at `close` ends: of a function whose body begins. */
static void name_function(const char *text, const char *close, char *name, size_t size) {
  int depth = 0;
  const char *p = close;
  for (; p > text; p--) {
    depth += (*p == ')') - (*p == '(');
    if (!depth) break;
  }
  const char *end = p;
  while (end > text && isspace((unsigned char)end[-1])) end--;
  const char *from = end;
  while (from > text && is_name(from[-1])) from--;
  static const char *const none[] = {"if", "for", "while", "switch", "constexpr", ""};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++)
    if ((size_t)(end - from) == strlen(none[i]) && !strncmp(from, none[i], strlen(none[i]))) return;
  snprintf(name, size, "%.*s", (int)(end - from), from);
}

/* The name of the function that the brace at p opens the body of, if it does. */
static void enter(const char *text, const char *p, char *name, size_t size) {
  while (p > text && isspace((unsigned char)p[-1])) p--;
  if (p - text > 5 && strncmp(p - 5, "const", 5) == 0) p -= 5;
  while (p > text && isspace((unsigned char)p[-1])) p--;
  if (p > text && p[-1] == ')') name_function(text, p - 1, name, size);
}

/* One whose asm begins at p; returns its end. */
static const char *take_statement(ptx_text *t, const char *p, const char *function, vtb_strbuf *cpp,
                                  char *error) {
  ptx_statement *s = &t->statement[t->n++];
  snprintf(s->function, sizeof s->function, "%s", function);
  p += strlen("asm");
  while (isspace((unsigned char)*p)) p++;
  s->is_volatile = strncmp(p, "volatile", 8) == 0;
  if (s->is_volatile) p += 8;
  while (isspace((unsigned char)*p)) p++;
  const char *end = p + strlen(p), *close = *p == '(' ? find(p + 1, end, ")") : end;
  if (close == end || !read_statement(s, p + 1, close)) {
    snprintf(error, 512, "%s: an asm statement that is not understood", function);
    return NULL;
  }
  char why[400] = "";
  if (!ptx_parse(s, why)) {
    snprintf(error, 512, "%s: %s", function, why);
    return NULL;
  }
  write_call(s, t->n - 1, cpp);
  return close + 1;
}

bool ptx_read(const char *text, ptx_text *t, vtb_strbuf *cpp, char *error) {
  char function[64] = "";
  t->statement = calloc(PTX_STATEMENTS, sizeof *t->statement);
  t->n = 0;
  for (const char *p = text; *p;) {
    static const char dynamic[] = "vtb_dynamic";
    bool begins = p == text || !is_name(p[-1]);
    if (*p == '{') enter(text, p, function, sizeof function);
    if (begins && strncmp(p, "asm", 3) == 0 && !is_name(p[3])) {
      if (t->n == PTX_STATEMENTS) return snprintf(error, 512, "too many statements"), false;
      p = take_statement(t, p, function, cpp, error);
      if (!p) return false;
    } else if (begins && strncmp(p, dynamic, strlen(dynamic)) == 0) {
      /* its declaration becomes that of a name that nobody uses */
      p += strlen(dynamic);
      vtb_strbuf_puts(cpp, *p == '[' ? "ptx_unused" : "((vtb_u8 *)ptx_the_host->shared())");
    } else if (*p == '"') {
      const char *end = skip_string(p);
      vtb_strbuf_write(cpp, p, (size_t)(end - p));
      p = end;
    } else {
      vtb_strbuf_putc(cpp, *p++);
    }
  }
  return true;
}

void ptx_text_free(ptx_text *t) {
  for (int i = 0; i < t->n; i++) {
    ptx_statement *s = &t->statement[i];
    free(s->template_text);
    for (int k = 0; k < s->n_operands; k++) free(s->expression[k]);
    for (int k = 0; k < s->n_instructions; k++)
      for (int a = 0; a < s->instruction[k].n_args; a++) free(s->instruction[k].arg[a].item);
  }
  free(t->statement);
  *t = (ptx_text){0};
}
