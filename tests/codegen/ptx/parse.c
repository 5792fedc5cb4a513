/* A statement's template as instructions: "{", ".reg .pred p;", "name.word.word arg, arg;". */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/codegen/ptx/ptx.h"

typedef struct reader {
  const char *at;
  ptx_statement *s;
  char *error; /* 400 bytes; "": none so far */
} reader;

static bool fail(reader *r, const char *what) {
  if (!*r->error) snprintf(r->error, 400, "%s at \"%.60s\"", what, r->at);
  return false;
}

static void skip_space(reader *r) {
  while (isspace((unsigned char)*r->at)) r->at++;
}

static bool accept(reader *r, char c) {
  skip_space(r);
  if (*r->at != c) return false;
  r->at++;
  return true;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || strchr("_$:", c); }

static void read_word(reader *r, char *to, size_t size) {
  size_t n = 0;
  skip_space(r);
  while (*r->at && is_word(*r->at)) {
    if (n + 1 < size) to[n++] = *r->at;
    r->at++;
  }
  to[n] = 0;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static bool read_percent(reader *r, ptx_item *i) {
  r->at++;
  if (*r->at == '%') {
    r->at++;
    i->kind = PTX_SPECIAL;
    read_word(r, i->name, sizeof i->name);
    if (*r->at == '.') { /* %%cluster_ctaid.x */
      size_t n = strlen(i->name);
      r->at++;
      snprintf(i->name + n, sizeof i->name - n, ".%c", *r->at ? *r->at++ : 0);
    }
    return *i->name || fail(r, "no name of a register");
  }
  char *end;
  i->kind = PTX_OPERAND;
  i->number = strtol(r->at, &end, 10);
  if (end == r->at || i->number < 0 || i->number >= r->s->n_operands)
    return fail(r, "no operand of the statement");
  r->at = end;
  return true;
}

static bool read_item(reader *r, ptx_item *i) {
  skip_space(r);
  if (*r->at == '%') return read_percent(r, i);
  if (isdigit((unsigned char)*r->at) || *r->at == '-') {
    char *end;
    i->kind = PTX_NUMBER;
    i->number = strtol(r->at, &end, 0);
    r->at = end;
    return true;
  }
  read_word(r, i->name, sizeof i->name);
  i->kind = strcmp(i->name, "_") == 0 ? PTX_SINK : PTX_REGISTER;
  if (i->kind == PTX_SINK) return true;
  for (i->number = 0; i->number < r->s->n_registers; i->number++)
    if (strcmp(r->s->registers[i->number], i->name) == 0) return true;
  return fail(r, "no argument");
}

static bool push(reader *r, ptx_arg *a) {
  if (a->n == PTX_OPERANDS) return fail(r, "too many items");
  memset(&a->item[a->n], 0, sizeof a->item[0]);
  return read_item(r, &a->item[a->n++]);
}

/* Items up to `close`; lists in it are flat. */
static bool read_items(reader *r, ptx_arg *a, char close) {
  do {
    if (accept(r, '{')) {
      if (!read_items(r, a, '}')) return false;
    } else if (!push(r, a)) {
      return false;
    }
  } while (accept(r, ','));
  return accept(r, close) || fail(r, "no end of a list");
}

static bool read_arg(reader *r, ptx_arg *a) {
  a->item = calloc(PTX_OPERANDS, sizeof *a->item);
  a->is_address = accept(r, '[');
  if (a->is_address) return read_items(r, a, ']');
  a->is_list = accept(r, '{');
  if (a->is_list) return read_items(r, a, '}');
  return push(r, a);
}

/* ---- instructions ---------------------------------------------------------------------------- */

static bool read_declaration(reader *r) {
  char type[16];
  read_word(r, type, sizeof type); /* behind ".reg" */
  if (!accept(r, '.')) return fail(r, "no type");
  read_word(r, type, sizeof type);
  if (r->s->n_registers == PTX_REGISTERS) return fail(r, "too many registers");
  read_word(r, r->s->registers[r->s->n_registers++], sizeof r->s->registers[0]);
  return accept(r, ';') || fail(r, "no end of a declaration");
}

static bool read_instruction(reader *r) {
  if (r->s->n_instructions == PTX_INSTRUCTIONS) return fail(r, "too many instructions");
  ptx_instruction *i = &r->s->instruction[r->s->n_instructions++];
  const char *from = r->at;
  do {
    if (i->n_words == PTX_WORDS) return fail(r, "too many words");
    read_word(r, i->word[i->n_words], sizeof i->word[0]);
    if (!*i->word[i->n_words++]) return fail(r, "no instruction");
  } while (*r->at == '.' && r->at++);
  snprintf(i->name, sizeof i->name, "%.*s", (int)(r->at - from), from);
  if (accept(r, ';')) return true;
  do {
    if (i->n_args == PTX_ARGS) return fail(r, "too many arguments");
    if (!read_arg(r, &i->arg[i->n_args++])) return false;
  } while (accept(r, ','));
  return accept(r, ';') || fail(r, "no end of an instruction");
}

bool ptx_parse(ptx_statement *s, char *error) {
  reader r = {s->template_text, s, error};
  int depth = 0;
  for (skip_space(&r); *r.at; skip_space(&r)) {
    if (*r.at == '{' || *r.at == '}') {
      depth += *r.at++ == '{' ? 1 : -1;
      if (depth < 0 || depth > 1) return fail(&r, "braces");
    } else if (*r.at == '.') {
      r.at++;
      if (!read_declaration(&r)) return false;
    } else if (!read_instruction(&r)) {
      return false;
    }
  }
  for (int i = 0; i < s->n_instructions; i++)
    if (!(s->instruction[i].row = ptx_find(s, &s->instruction[i], error))) return false;
  return depth == 0 || fail(&r, "an open brace");
}
