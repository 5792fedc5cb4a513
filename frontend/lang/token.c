/* Between lexer and grammar: which line ends end a statement, and the tokens that error recovery
 * puts in.
 *
 * A line end is no token inside ( ) and [ ] (lexer.l), after a token that cannot end a statement,
 * and before one that cannot begin one (`else`, `{`, a closing bracket, a binary operator other
 * than -).
 */
#include "frontend/lang/parse.h"
#include "frontend/lang/parser.gen.h"
#include "ir/diag_codes.h"
#include "runtime/base/utf8.h"

#include <string.h>

bool vtb__is_binary(int kind) {
  switch (kind) {
  case PLUS:
  case MINUS:
  case STAR:
  case SLASH:
  case PERCENT:
  case EQ:
  case NE:
  case LT:
  case LE:
  case GT:
  case GE:
  case AND:
  case OR:
  case QUESTION:
  case BAR:
    return true;
  default:
    return false;
  }
}

/* Something of the same statement is before it and behind it. */
static bool joins(int kind) {
  switch (kind) {
  case LBRACE:
  case COMMA:
  case COLON:
  case DOT:
  case ARROW:
  case ASSIGN:
  case ADD_ASSIGN:
  case SUB_ASSIGN:
  case MUL_ASSIGN:
  case DIV_ASSIGN:
  case ELSE:
    return true;
  default:
    return vtb__is_binary(kind);
  }
}

static bool cannot_end(int kind) {
  return joins(kind) || kind == NEWLINE || kind == LPAREN || kind == LBRACKET || kind == NOT;
}

static bool cannot_begin(int kind) {
  return (joins(kind) && kind != MINUS) || kind == VTB__YYEOF || kind == RPAREN ||
         kind == RBRACKET || kind == RBRACE || kind == TILDE;
}

bool vtb__is_declaration_word(int kind) {
  switch (kind) {
  case USE:
  case CONST:
  case FN:
  case BLOCK:
  case RECURRENCE:
  case OPTIMIZER:
  case MODEL:
  case PRESET:
    return true;
  default:
    return false;
  }
}

static vtb_token raw(vtb_parse *p) {
  vtb_token t = {.n_inside = p->brackets.n};
  if (t.n_inside) t.inside = p->brackets.at[t.n_inside - 1];
  VTB__YYSTYPE value;
  memset(&value, 0, sizeof value);
  t.kind = vtb__raw_token(&value, &t.loc, p->scanner);
  if (t.kind == VTB__YYEOF || p->give_up) t.kind = VTB__YYEOF, t.loc = (vtb_loc){p->end, p->end};
  memcpy(&t.value, &value, sizeof t.value); /* words and literals hold one pointer */
  return t;
}

/* Keeps what later tokens are judged by. */
static vtb_token note(vtb_parse *p, vtb_token t) {
  if (!p->started || p->last.kind == NEWLINE || p->last.kind == LBRACE)
    p->head = t, p->n_assigns = 0;
  if (t.kind == ASSIGN && t.n_inside == p->head.n_inside) p->n_assigns++;
  p->started = true;
  p->before_last = p->last;
  p->last = t;
  if (p->record && t.kind != VTB__YYEOF) vtb_vec_push(&p->tokens, t);
  return t;
}

vtb_token vtb__significant_token(vtb_parse *p) {
  if (p->has_held) {
    p->has_held = false;
    return note(p, p->held);
  }
  vtb_token t = raw(p), line_end = {0};
  bool ended = false;
  for (; t.kind == NEWLINE; t = raw(p))
    if (!ended) ended = true, line_end = t;
  if (!ended || !p->started || cannot_end(p->last.kind) || cannot_begin(t.kind)) return note(p, t);
  p->held = t;
  p->has_held = true;
  return note(p, line_end);
}

int vtb__next_token(VTB__YYSTYPE *value, vtb_loc *loc, vtb_parse *p) {
  if (p->start) {
    int start = p->start;
    p->start = 0;
    *loc = (vtb_loc){p->begin, p->begin};
    return start;
  }
  vtb_token t = {.kind = VTB__YYEOF, .loc = {p->end, p->end}};
  if (p->give_up)
    ;
  else if (p->queue_at < p->queue.n)
    t = note(p, p->queue.at[p->queue_at++]);
  else
    t = vtb__significant_token(p);
  memcpy(value, &t.value, sizeof t.value);
  *loc = t.loc;
  return t.kind;
}

bool vtb__first_on_line(const vtb_parse *p, uint32_t offset) {
  for (; offset > 0; offset--) {
    char c = p->source->text[offset - 1];
    if (c == '\n') return true;
    if (c != ' ' && c != '\t' && c != '\r') return false;
  }
  return true;
}

int vtb__indent(const vtb_parse *p, uint32_t offset) {
  const char *text = p->source->text;
  while (offset > 0 && text[offset - 1] != '\n') offset--;
  int n = 0;
  while (text[offset + (uint32_t)n] == ' ' || text[offset + (uint32_t)n] == '\t') n++;
  return n;
}

void vtb__check_encoding(vtb_parse *p) {
  const unsigned char *s = (const unsigned char *)p->source->text;
  bool nul = false, malformed = false;
  for (uint32_t i = p->begin; i < p->end;) {
    size_t len = vtb_utf8_decode(p->source->text + i, p->end - i, NULL);
    if (s[i] == 0 && !nul) {
      nul = true;
      vtb__error(p, (vtb_loc){i, i + 1}, VTB_DIAG_NUL_BYTE,
                 "the text holds a NUL byte; it is not a .vtb file");
    }
    if (len == 0 && !malformed) {
      malformed = true;
      vtb__error(p, (vtb_loc){i, i + 1}, VTB_DIAG_BAD_UTF8,
                 "byte 0x%02x does not belong to UTF-8 text", s[i]);
    }
    i += len ? (uint32_t)len : 1;
  }
  p->bad_encoding = nul || malformed;
}

void vtb__parse_begin(vtb_parse *p, vtb_unit *u, vtb_file *file, const vtb_source *source,
                      vtb_diags *diags) {
  *p = (vtb_parse){
      .unit = u, .file = file, .source = source, .diags = diags, .end = (uint32_t)source->n};
}

void vtb__parse_end(vtb_parse *p) {
  vtb_vec_free(&p->brackets);
  vtb_vec_free(&p->queue);
  vtb_vec_free(&p->tokens);
  vtb_vec_free(&p->comments);
}
