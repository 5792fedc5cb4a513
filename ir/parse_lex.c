/* Tokens of the IR text. Any bytes are taken; what is no token becomes VTB__T_BAD. */
#include "ir/parse_lex.h"

static int peek(const vtb__lexer *l, size_t ahead) {
  return l->at + ahead < l->source->n ? (unsigned char)l->source->text[l->at + ahead] : -1;
}

static bool name_char(int c, bool first) { return c >= 0 && vtb__is_name_char((char)c, first); }
static bool digit(int c) { return c >= '0' && c <= '9'; }

static void skip_blank(vtb__lexer *l) {
  for (;;) {
    int c = peek(l, 0);
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
      l->at++;
    else if (c == '/' && peek(l, 1) == '/')
      while (peek(l, 0) >= 0 && peek(l, 0) != '\n') l->at++;
    else
      return;
  }
}

static void bad(vtb__lexer *l, const char *what) {
  l->kind = VTB__T_BAD;
  l->what = what;
}

static void read_name(vtb__lexer *l, vtb__token_kind kind) {
  l->kind = kind;
  if (!name_char(peek(l, 0), true)) {
    bad(l, "expected a name");
    return;
  }
  for (bool first = true; name_char(peek(l, 0), first); first = false)
    vtb_strbuf_putc(&l->text, (char)peek(l, 0)), l->at++;
}

/* Digits, point and exponent; "-inf" counts as a number. Whether it is well formed is seen when it
 * is converted. */
static void read_number(vtb__lexer *l) {
  l->kind = VTB__T_NUMBER;
  vtb_strbuf_putc(&l->text, (char)peek(l, 0));
  l->at++;
  for (;;) {
    int c = peek(l, 0), before = (unsigned char)l->text.at[l->text.n - 1];
    bool sign = (c == '+' || c == '-') && (before == 'e' || before == 'E');
    if (!sign && !digit(c) && c != '.' && !name_char(c, true)) return;
    vtb_strbuf_putc(&l->text, (char)c);
    l->at++;
  }
}

static int hex(int c) {
  return digit(c)               ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

static bool read_escape(vtb__lexer *l) {
  int c = peek(l, 1);
  if (c == '"' || c == '\\' || c == 'n') {
    vtb_strbuf_putc(&l->text, c == 'n' ? '\n' : (char)c);
    l->at += 2;
    return true;
  }
  int high = hex(peek(l, 2)), low = hex(peek(l, 3));
  if (c != 'x' || high < 0 || low < 0 || high + low == 0) return false;
  vtb_strbuf_putc(&l->text, (char)(high * 16 + low));
  l->at += 4;
  return true;
}

static void read_string(vtb__lexer *l) {
  l->kind = VTB__T_STRING;
  l->at++;
  for (;;) {
    int c = peek(l, 0);
    if (c < 0 || c == '\n' || c == 0) {
      bad(l, "string without end");
      return;
    }
    if (c == '\\') {
      if (read_escape(l)) continue;
      bad(l, "unknown escape in a string");
      return;
    }
    l->at++;
    if (c == '"') return;
    vtb_strbuf_putc(&l->text, (char)c);
  }
}

static void read_token(vtb__lexer *l, int c) {
  if (c < 0) {
    l->kind = VTB__T_END;
  } else if (c == '%' || c == '@') {
    l->at++;
    read_name(l, c == '%' ? VTB__T_VALUE : VTB__T_FUNC);
  } else if (c == '"') {
    read_string(l);
  } else if (c == '-' && peek(l, 1) == '>') {
    l->kind = VTB__T_ARROW;
    l->at += 2;
  } else if (c == '-' || digit(c)) {
    read_number(l);
  } else if (name_char(c, true)) {
    read_name(l, VTB__T_WORD);
  } else if (c && strchr("(){}[],:=?*", c)) {
    l->kind = VTB__T_PUNCT;
    l->punct = (char)c;
    l->at++;
  } else {
    bad(l, "unexpected character");
    l->at++;
  }
}

void vtb__lex_next(vtb__lexer *l) {
  skip_blank(l);
  size_t begin = l->at;
  l->punct = 0;
  l->text.n = 0;
  vtb_strbuf_puts(&l->text, "");
  read_token(l, peek(l, 0));
  vtb_strbuf_putc(&l->text, 0);
  l->text.n--;
  l->span = (vtb_span){.source = l->source, .begin = (uint32_t)begin, .end = (uint32_t)l->at};
}

void vtb__lex_at(vtb__lexer *l, const vtb_source *source, size_t offset) {
  l->source = source;
  l->at = offset;
  vtb__lex_next(l);
}

void vtb__lex_free(vtb__lexer *l) { vtb_strbuf_free(&l->text); }
