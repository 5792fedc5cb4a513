/* Messages for tokens the grammar cannot take: what was found, what could have stood there, and
 * help for the slips people make. Where parsing goes on is chosen in recover.c. */
#include "frontend/lang/habits.h"
#include "frontend/lang/parse.h"
#include "frontend/lang/parser.gen.h"
#include "ir/diag_codes.h"

#include <ctype.h>
#include <string.h>

/* ---- wording --------------------------------------------------------------------------------- */

typedef struct token_set {
  bool has[512];
} token_set;

static const int expression_starts[] = {
    IDENT,  NUMBER, STRING, LPAREN, LBRACKET, MINUS, NOT,     TRUE,     FALSE,   PARAM,  ALONG,
    STATE,  INPUT,  OUTPUT, TAP,    EACH,     ALIAS, SUFFIX,  NO_DECAY, BUFFER,  FROZEN, SHARE,
    FREEZE, LOSS,   METRIC, LOWER,  PREPARE,  PAPER, WEIGHTS, SCHEDULE, AUGMENT, 0};
static const int operators[] = {PLUS, MINUS, STAR, SLASH, PERCENT, QUESTION, EQ, NE,
                                LT,   LE,    GT,   GE,    AND,     OR,       0};
static const int after_expression[] = {DOT, TILDE, LBRACKET, LPAREN, 0};
static const int name_words[] = {STATE,    INPUT,   OUTPUT, TAP,     EACH,     ALIAS,   SUFFIX,
                                 NO_DECAY, BUFFER,  FROZEN, SHARE,   FREEZE,   LOSS,    METRIC,
                                 LOWER,    PREPARE, PAPER,  WEIGHTS, SCHEDULE, AUGMENT, 0};
static const int op_assigns[] = {ADD_ASSIGN, SUB_ASSIGN, MUL_ASSIGN, DIV_ASSIGN, 0};
static const int declarations[] = {USE,   CONST,  FN,    BLOCK,   RECURRENCE, OPTIMIZER,
                                   MODEL, PRESET, PAPER, WEIGHTS, SCHEDULE,   0};
static const int statements[] = {LET, REPEAT, ITERATE, IF, SCOPE, RETURN, YIELD, ASSERT, 0};

static void leave_out(token_set *s, const int *kinds) {
  for (; *kinds; kinds++) s->has[*kinds] = false;
}

static const char *kind_text(const vtb_parse *p, int kind) {
  if (kind != VTB__YYEOF) return vtb__token_text(kind);
  return p->string_depth ? "'}'" : p->file ? "the end of the file" : "the end of the text";
}

static void append(vtb_strbuf *b, int *n, const char *text) {
  vtb_strbuf_printf(b, "%s%s", (*n)++ ? "\x1f" : "", text);
}

/* Tokens in the user's words: groups first, then what is left, joined by commas and "or". Empty if
 * too many. */
static void describe_tokens(const vtb_parse *p, vtb_strbuf *out, const int *expected, int n) {
  token_set s = {0};
  for (int i = 0; i < n; i++)
    if (expected[i] >= 0 && expected[i] < 512) s.has[expected[i]] = true;
  vtb_strbuf parts = {0};
  int count = 0;
  bool block_too = s.has[IF] && s.has[NUMBER];
  if (s.has[FN] && s.has[MODEL])
    append(&parts, &count, "a declaration"), leave_out(&s, declarations);
  if (s.has[LET])
    append(&parts, &count, "a statement"), leave_out(&s, statements),
        leave_out(&s, expression_starts);
  if (s.has[NUMBER] && s.has[IDENT])
    append(&parts, &count, "an expression"), leave_out(&s, expression_starts);
  if (block_too) leave_out(&s, statements), s.has[LBRACE] = false;
  if (s.has[IDENT]) {
    append(&parts, &count, "a name");
    s.has[IDENT] = false;
    leave_out(&s, name_words);
  }
  bool after = s.has[PLUS] || s.has[EQ] || s.has[AND];
  if (after) leave_out(&s, operators), leave_out(&s, after_expression);
  leave_out(&s, op_assigns);
  /* Of the many ways to go on, the ones that say most. */
  if (s.has[NEWLINE]) s.has[VTB__YYEOF] = s.has[COMMA] = false;
  if (s.has[NEWLINE] && p->last.kind != VTB__YYEOF) s.has[RBRACE] = false;
  if (s.has[NEWLINE] && p->last.kind == VTB__YYEOF) s.has[NEWLINE] = false;
  if (count) s.has[VTB__YYEOF] = false;
  if (s.has[COLON]) s.has[ASSIGN] = false;
  s.has[ALIAS] = s.has[ALIAS] && n == 1;
  if (!after) s.has[DOT] = s.has[DOT] && count + s.has[ASSIGN] + s.has[COLON] == 0;
  for (int i = 0; i < n; i++)
    if (expected[i] >= 0 && expected[i] < 512 && s.has[expected[i]])
      append(&parts, &count, kind_text(p, expected[i]));
  if (after && count == 0) append(&parts, &count, "an operator");
  for (char *c = parts.at; c && *c && count <= 4; c++) {
    if (*c != '\x1f') {
      vtb_strbuf_putc(out, *c);
      continue;
    }
    vtb_strbuf_puts(out, strchr(c + 1, '\x1f') ? ", " : " or ");
  }
  vtb_strbuf_free(&parts);
}

static const char *found_text(const vtb_parse *p, int kind, vtb_loc loc, char *buf, size_t size) {
  if (kind == VTB__YYEOF || kind == NEWLINE) return kind_text(p, kind);
  int n = (int)(loc.end - loc.begin);
  const char *text = p->source->text + loc.begin;
  const char *quote = kind == STRING ? "" : "'";
  snprintf(buf, size, "%s%.*s%s%s", quote, n > 32 ? 29 : n, text, n > 32 ? "..." : "", quote);
  return buf;
}

bool vtb__among(const int *expected, int n, int kind) {
  for (int i = 0; i < n; i++)
    if (expected[i] == kind) return true;
  return false;
}

/* The word before what does not fit, or the statement's first. */
static bool help_with_habits(vtb_parse *p) {
  uint32_t head = p->head.loc.begin;
  bool at_head = head == p->last.loc.begin || head == p->before_last.loc.begin;
  const vtb_token at[] = {at_head ? p->head : p->before_last, p->last};
  for (int i = 0; i < 2; i++) {
    char word[16];
    uint32_t n = at[i].loc.end - at[i].loc.begin;
    if ((at[i].kind != IDENT && at[i].kind != WHILE) || n >= sizeof word) continue;
    memcpy(word, p->source->text + at[i].loc.begin, n);
    word[n] = '\0';
    const char *help = vtb__habit(VTB__HABIT_STATEMENT, word);
    if (help) vtb_diag_help(p->diags, "%s", help);
    if (help) return true;
  }
  return false;
}

static bool is_comparison(int kind) {
  return kind == EQ || kind == NE || kind == LT || kind == LE || kind == GT || kind == GE;
}

/* A code of its own for the slips people make. */
static int code_for(const vtb_parse *p, int found, const int *expected, int n) {
  const vtb_bracket in = p->last.inside;
  if (found == ASSIGN && vtb__among(expected, n, PLUS)) {
    bool at_head = p->last.n_inside == p->head.n_inside && p->n_assigns <= 1;
    bool tests = p->head.kind == IF || p->head.kind == REPEAT || p->head.kind == ITERATE ||
                 p->head.kind == ASSERT || p->head.kind == RETURN;
    if (p->string_depth || !at_head || tests) return VTB_DIAG_ASSIGN_IN_EXPRESSION;
    if (in.open == '{') return VTB_DIAG_BAD_TARGET;
  }
  if (is_comparison(found) && vtb__among(expected, n, AND)) return VTB_DIAG_COMPARISON_CHAIN;
  if (found == RPAREN && in.open != '(') return VTB_DIAG_UNBALANCED;
  if (found == RBRACKET && in.open != '[') return VTB_DIAG_UNBALANCED;
  if (found == RBRACE && in.open != '{' && !p->string_depth) return VTB_DIAG_UNBALANCED;
  if (p->last.n_inside == 0 && vtb__among(expected, n, FN)) return VTB_DIAG_UNKNOWN_DECLARATION;
  if (n == 1 && expected[0] == TILDE) return VTB_DIAG_PARAM_WITHOUT_INIT;
  return VTB_DIAG_SYNTAX;
}

static bool is_word(const vtb_parse *p, vtb_loc loc) {
  char c = p->source->text[loc.begin];
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* A bracket that a comment behind it closes: linear("fc", x, dim // 2). */
static bool help_with_division(vtb_parse *p) {
  const vtb_bracket in = p->last.inside;
  const char *text = p->source->text;
  if (in.open != '(' && in.open != '[') return false;
  for (size_t i = 0; i < p->comments.n; i++) {
    const vtb_span c = p->comments.at[i];
    uint32_t n = c.end - c.begin;
    bool behind = c.begin > in.loc.begin && c.end <= p->last.loc.begin &&
                  text[c.begin + 1] == '/' && !vtb__first_on_line(p, c.begin);
    if (!behind || !memchr(text + c.begin, in.open == '(' ? ')' : ']', n)) continue;
    vtb_diag_note(p->diags, c, "'//' begins a comment");
    vtb_diag_help(p->diags, "floor(a / b) divides and rounds down");
    return true;
  }
  return false;
}

/* The slip that was most likely made, by the token that does not fit and the one before it. */
static bool help_with_slips(vtb_parse *p, const int *expected, int n) {
  int found = p->last.kind, before = p->before_last.kind;
  const vtb_bracket in = p->last.inside;
  const char *help = NULL;
  if (found == ARROW && vtb__among(expected, n, LBRACE))
    help = "what a fn or block returns is not declared";
  else if (found == IF && vtb__among(expected, n, NEWLINE))
    help = "a choice of values is written 'c ? a : b'";
  else if (found == NUMBER && before == TILDE)
    help = "write constant(v), zeros or ones";
  else if (found == REST)
    help = "a range is written 1:5, and '..' for axes that are not named";
  else if (found == STRING && before == IDENT && p->before_last.loc.end == p->last.loc.begin)
    help = "strings take values in braces by themselves: \"a{i}\"";
  else if (found == COMMA && in.open == '(' && !vtb__among(expected, n, COMMA))
    help = "a size is written 3x3, a list [3, 3], several values a, b = ... without brackets";
  else if (found == LPAREN && before == RPAREN)
    help = "the value of a call is not called: a layer is one call, linear(\"fc\", x, 64)";
  else if (found == LPAREN && before == RBRACKET)
    help = "only a name is called: f = fs[i], then f(x)";
  else if (found == LPAREN && before == PARAM)
    help = "write param weight: [out, in] ~ trunc_normal(0.02)";
  else if (found == COLON && before == IDENT && vtb__among(expected, n, ASSIGN))
    help = "a name gets a value with 'x = ...', without a type; there are no dictionaries";
  else if (found == REPEAT && vtb__among(expected, n, NUMBER))
    help = "a list is [repeat n as i { 2 * i }]; shapes broadcast by themselves";
  else if (found == BAR)
    help = "of truth values 'or', of tensors max(x, y)";
  else if (found == LT && before == LT)
    help = "write x * pow(2, n)";
  else if (found == ITERATE && vtb__among(expected, n, NUMBER))
    help = "iterate is no value: assign within it to variables that are there before it";
  else if (found == SCOPE && p->head.kind == ITERATE)
    help = "the scope goes around the loop, whose steps share their params: scope \"block\" { "
           "iterate n { ... } }";
  else if (before == SCOPE)
    help = "a scope's name is a string: scope \"block\" { ... }";
  else if (found == SCOPE && vtb__among(expected, n, NUMBER))
    help = "a scope is a value right behind '=' only; give it a name first";
  else if (before == COLON && vtb__is_declaration_word(found))
    help = "what is called has the type block: a fn, block, recurrence or builtin; or model: a "
           "model or preset";
  else if (vtb__is_declaration_word(found) && p->last.inside.open == '{')
    help = "a declaration stands by itself, outside of others";
  if (help) vtb_diag_help(p->diags, "%s", help);
  return help != NULL;
}

/* The brace that has no closing one at its indentation; the innermost, if all have. */
static vtb_loc left_open_brace(const vtb_parse *p) {
  const char *text = p->source->text;
  uint32_t open[VTB_MAX_NESTING], n = 0, end = p->last.loc.begin;
  for (uint32_t i = p->last.inside.loc.begin; i < end; i++) {
    bool closed;
    if (text[i] == '"') {
      i = vtb__string_extent(p->source, i, end, '"', &closed) - 1;
    } else if (text[i] == '/' && text[i + 1] == '/') {
      while (i + 1 < end && text[i + 1] != '\n') i++;
    } else if (text[i] == '{' && n < VTB_MAX_NESTING) {
      open[n++] = i;
    } else if (text[i] == '}' && n > 0) {
      uint32_t top = open[n - 1];
      if (vtb__first_on_line(p, i) && vtb__indent(p, i) < vtb__indent(p, top))
        return (vtb_loc){top, top + 1};
      n--;
    }
  }
  return p->last.inside.loc;
}

static void help_with(vtb_parse *p, int code, const int *expected, int n) {
  const vtb_bracket in = p->last.inside;
  bool left_open = vtb__block_left_open(p, p->last);
  bool wants_close =
      left_open || (in.open == '(' && vtb__among(expected, n, RPAREN)) ||
      (in.open == '[' && vtb__among(expected, n, RBRACKET)) ||
      (in.open == '{' && vtb__among(expected, n, RBRACE) && p->last.kind == VTB__YYEOF);
  if (code == VTB_DIAG_ASSIGN_IN_EXPRESSION) {
    vtb_diag_help(p->diags, "comparison is written '=='");
  } else if (code == VTB_DIAG_BAD_TARGET) {
    vtb_diag_help(p->diags, "on the left of '=' stand names only; concat and where(c, x, y) make a "
                            "new tensor of parts");
  } else if (code == VTB_DIAG_PARAM_WITHOUT_INIT) {
    vtb_diag_help(p->diags,
                  "say how it is filled before training: '~ zeros', '~ trunc_normal(0.02)'");
  } else if (wants_close || (code == VTB_DIAG_UNBALANCED && (in.open == '(' || in.open == '['))) {
    vtb_diag_note(p->diags, vtb__span(p, in.open == '{' ? left_open_brace(p) : in.loc),
                  "'%c' is open here", in.open);
  }
  if ((code == VTB_DIAG_SYNTAX || code == VTB_DIAG_UNKNOWN_DECLARATION) && help_with_habits(p))
    return;
  if (code == VTB_DIAG_SYNTAX && (help_with_division(p) || help_with_slips(p, expected, n))) return;
  if (code == VTB_DIAG_SYNTAX && vtb__among(expected, n, IDENT) && p->last.kind != IDENT &&
      p->last.kind != ELSE && is_word(p, p->last.loc))
    vtb_diag_help(p->diags, "'%.*s' is a word of the language and cannot be a name",
                  (int)(p->last.loc.end - p->last.loc.begin), p->source->text + p->last.loc.begin);
}

static void say_unexpected(vtb_parse *p, int found, vtb_loc loc, const int *expected, int n) {
  char buf[64];
  static const int closing_brace = RBRACE;
  if (vtb__block_left_open(p, p->last)) expected = &closing_brace, n = 1;
  const char *what = found_text(p, found, loc, buf, sizeof buf);
  int code = code_for(p, found, expected, n);
  vtb_strbuf wanted = {0};
  /* What is missing at a line's end is missing there, not at the brace on the next line. */
  bool after_line = (found == RBRACE || found == VTB__YYEOF) && p->before_last.loc.end > 0 &&
                    vtb__first_on_line(p, loc.begin);
  if (after_line && !p->string_depth && code != VTB_DIAG_UNBALANCED)
    loc = (vtb_loc){p->before_last.loc.end, p->before_last.loc.end};
  describe_tokens(p, &wanted, expected, n);
  if (code == VTB_DIAG_ASSIGN_IN_EXPRESSION)
    vtb__error(p, loc, code, "%s inside an expression", what);
  else if (code == VTB_DIAG_BAD_TARGET)
    vtb__error(p, loc, code, "only names can be assigned to");
  else if (code == VTB_DIAG_COMPARISON_CHAIN)
    vtb__error(p, loc, code, "comparisons cannot be chained; join two of them with 'and'");
  else if (code == VTB_DIAG_PARAM_WITHOUT_INIT)
    vtb__error(p, loc, code, "param without an initialiser: expected '~' before %s", what);
  else if (code == VTB_DIAG_UNBALANCED && p->last.inside.open != '(' && p->last.inside.open != '[')
    vtb__error(p, loc, code, "%s closes nothing", what);
  else if (wanted.n)
    vtb__error(p, loc, code, "expected %s before %s", wanted.at, what);
  else
    vtb__error(p, loc, code, "unexpected %s", what);
  vtb_strbuf_free(&wanted);
  help_with(p, code, expected, n);
}

/* In brackets of a statement with an error: right behind it, or where the next line begins because
 * the brackets were never closed. */
static bool follows_error(const vtb_parse *p, vtb_loc loc) {
  if (p->last.n_inside == 0 || p->last.inside.open == '{') return false;
  if (p->last_error && p->last_error == p->before_last.loc.begin + 1) return true;
  bool in_statement = false;
  for (size_t i = p->diags->list.n; i-- > 0 && !in_statement;) {
    const vtb_diag *d = &p->diags->list.at[i];
    in_statement = d->severity == VTB_SEV_ERROR && d->span.source == p->source &&
                   d->span.begin >= p->head.loc.begin && d->span.begin < loc.begin;
  }
  return in_statement && vtb__first_on_line(p, loc.begin);
}

void vtb__report_unexpected(vtb_parse *p, int found, vtb_loc loc, const int *expected, int n) {
  if (p->give_up) return;
  if (p->queue_at < p->queue.n)
    return; /* a queued token does not fit either: it is dropped, the rest decides */
  if (p->last_error == loc.begin + 1) {
    p->give_up = found == VTB__YYEOF;
    return;
  }
  bool cascade = follows_error(p, loc);
  p->last_error = loc.begin + 1;
  p->queue.n = p->queue_at = 0;
  bool said = found == VTB__YYUNDEF || (p->broken_at && loc.begin == p->broken_at);
  said |= cascade;
  if (!said) say_unexpected(p, found, loc, expected, n);
  vtb__recover(p, expected, n);
}

/* ---- comments ------------------------------------------------------------------------------- */

/* "// 2" right behind an expression: the comment is a number and nothing else. */
static bool is_divisor(const vtb_parse *p, vtb_span c) {
  const char *text = p->source->text;
  uint32_t at = c.begin, end = c.begin + 2;
  if (text[c.begin + 1] != '/' || at == 0 || vtb__first_on_line(p, at)) return false;
  if (text[at - 1] == ' ') at--;
  if (at == 0 || !(isalnum((unsigned char)text[at - 1]) || strchr("_)]", text[at - 1])))
    return false;
  while (end < c.end && text[end] == ' ') end++;
  uint32_t digits = end;
  while (end < c.end && isdigit((unsigned char)text[end])) end++;
  return end > digits && end == c.end;
}

void vtb__check_comments(vtb_parse *p) {
  for (size_t i = 0; i < p->comments.n; i++) {
    if (!is_divisor(p, p->comments.at[i])) continue;
    vtb_diag_warning(p->diags, VTB_DIAG_COMMENT_DIVISION, p->comments.at[i],
                     "'//' begins a comment, and divides nothing");
    vtb_diag_help(p->diags, "floor(a / b) divides and rounds down");
  }
}
