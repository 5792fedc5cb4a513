/* Canonical layout, first half: the tokens and comments of a text, and the blanks between them.
 *
 * The layout depends on the tokens, on which comments stand on lines of their own, on single blank
 * lines between statements, on whether a block was written on one line, and on trailing commas in
 * lists; on nothing else. Formatting keeps all of these, so formatting twice gives the same text.
 */
#include "frontend/lang/format.h"
#include "frontend/lang/parse.h"
#include "frontend/lang/parser.gen.h"

#include <string.h>

/* The state that decides blanks, carried from token to token; indexed by bracket depth. */
typedef struct spacing {
  int previous; /* token kind, 0 at the beginning */
  bool operand; /* the previous token ends an operand */
  bool glued;   /* the previous token takes no blank after it */
  int depth;
  int questions[VTB_MAX_NESTING + 2];   /* ? still waiting for : */
  bool index[VTB_MAX_NESTING + 2];      /* the bracket takes parts of what is before it */
  int param_state[VTB_MAX_NESTING + 2]; /* 1 behind param, 2 behind its colon */
} spacing;

static bool is_contextual(int kind) {
  return kind == STATE || kind == INPUT || kind == OUTPUT || kind == TAP || kind == EACH ||
         kind == ALIAS || kind == SUFFIX || kind == NO_DECAY || kind == BUFFER || kind == LOSS ||
         kind == METRIC || kind == LOWER;
}

/* The colon of a param, a choice, a range or a type; true if nothing stands behind it. */
static bool place_colon(spacing *s, vtb_item *it, bool *may_break) {
  bool of_param = s->param_state[s->depth] == 1, range = !of_param && s->index[s->depth];
  if (of_param) s->param_state[s->depth] = 2;
  if (!of_param && s->questions[s->depth] > 0) {
    s->questions[s->depth]--;
    *may_break = true;
    return false;
  }
  it->space = range && s->previous == COMMA;
  return range;
}

/* Fills space and may_break of the token's item; returns nothing about comments, which always have
 * a blank before. */
static void place_token(spacing *s, int kind, vtb_item *it) {
  bool unary = kind == MINUS && !s->operand;
  bool word = kind == IDENT || kind == PREPARE || kind == PAPER || kind == WEIGHTS ||
              kind == SCHEDULE || is_contextual(kind);
  bool keyword_use = (is_contextual(kind) && s->operand) || (kind == EACH && s->previous == ALONG);
  it->space = s->previous != 0 && !s->glued;
  bool glued = false, operand = false, opens_index = false;
  bool may_break = vtb__is_binary(kind) && !unary;
  switch (kind) {
  case LPAREN:
    it->space = it->space && !(s->operand || s->previous == ALONG);
    glued = true;
    break;
  case LBRACKET:
    opens_index = s->operand;
    it->space = it->space && !s->operand;
    glued = true;
    break;
  case RPAREN:
  case RBRACKET:
    it->space = false;
    operand = true;
    break;
  case RBRACE:
    operand = true;
    break;
  case COMMA:
    it->space = false;
    may_break = true;
    break;
  case DOT:
    it->space = false;
    glued = true;
    break;
  case MINUS:
    it->space = it->space || (unary && s->previous == MINUS); /* - -x, not --x */
    glued = unary;
    break;
  case COLON:
    glued = place_colon(s, it, &may_break);
    break;
  case QUESTION:
    s->questions[s->depth]++;
    break;
  case PARAM:
    s->param_state[s->depth] = 1;
    break;
  case TILDE:
    if (s->param_state[s->depth] == 2) {
      s->param_state[s->depth] = 0;
    } else {
      it->space = false;
      operand = true;
    }
    break;
  default:
    operand =
        (word && !keyword_use) || kind == NUMBER || kind == STRING || kind == TRUE || kind == FALSE;
    break;
  }
  it->may_break = may_break;
  s->glued = glued;
  s->operand = operand;
  s->previous = kind;
  if ((kind == LPAREN || kind == LBRACKET || kind == LBRACE) && s->depth < VTB_MAX_NESTING) {
    s->depth++;
    s->questions[s->depth] = s->param_state[s->depth] = 0;
    s->index[s->depth] = opens_index;
  }
  if ((kind == RPAREN || kind == RBRACKET || kind == RBRACE) && s->depth > 0) s->depth--;
  if (kind == NEWLINE)
    s->operand = false, s->previous = 0, s->questions[s->depth] = s->param_state[s->depth] = 0;
}

static vtb_item_kind item_kind(int kind) {
  switch (kind) {
  case COMMA:
    return VTB_ITEM_COMMA;
  case LPAREN:
  case LBRACKET:
    return VTB_ITEM_OPEN;
  case LBRACE:
    return VTB_ITEM_BRACE;
  case RPAREN:
  case RBRACKET:
  case RBRACE:
    return VTB_ITEM_CLOSE;
  case ELSE:
    return VTB_ITEM_ELSE;
  case NEWLINE:
    return VTB_ITEM_END;
  default:
    return VTB_ITEM_TOKEN;
  }
}

static int line_ends(const char *text, uint32_t from, uint32_t to) {
  int n = 0;
  for (; from < to; from++) n += text[from] == '\n';
  return n;
}

static void add_comment(vtb_items *items, const vtb_parse *p, vtb_span c, uint32_t previous_end) {
  vtb_item it = {.kind = VTB_ITEM_COMMENT, .space = true};
  it.text = p->source->text + c.begin;
  it.n = c.end - c.begin;
  while (it.n &&
         (it.text[it.n - 1] == '\r' || it.text[it.n - 1] == ' ' || it.text[it.n - 1] == '\t'))
    it.n--;
  it.lines_before = line_ends(p->source->text, previous_end, c.begin);
  it.own_line = vtb__first_on_line(p, c.begin);
  it.ends_line = it.text[1] == '/' || memchr(it.text, '\n', it.n);
  vtb_vec_push(items, it);
}

static void add_token(vtb_items *items, spacing *s, const vtb_parse *p, vtb_token t,
                      uint32_t previous_end) {
  vtb_item it = {.kind = item_kind(t.kind)};
  it.text = p->source->text + t.loc.begin;
  it.n = t.kind == NEWLINE ? 0 : t.loc.end - t.loc.begin;
  if (t.kind == ONE_OF) it.text = "one of", it.n = 6;
  it.lines_before = line_ends(p->source->text, previous_end, t.loc.begin);
  place_token(s, t.kind, &it);
  vtb_vec_push(items, it);
}

/* {} has nothing between its braces, wherever they stood. */
static void close_empty(vtb_items *items, size_t open, size_t close) {
  for (size_t i = open + 1; i < close; i++)
    if (items->at[i].kind != VTB_ITEM_END) return;
  for (size_t i = open + 1; i <= close; i++) items->at[i].space = false;
}

static void match_brackets(vtb_items *items) {
  VTB_VEC(size_t) open = {0};
  for (size_t i = 0; i < items->n; i++) {
    vtb_item_kind kind = items->at[i].kind;
    if (kind == VTB_ITEM_OPEN || kind == VTB_ITEM_BRACE) vtb_vec_push(&open, i);
    if (kind != VTB_ITEM_CLOSE || !open.n) continue;
    size_t begin = open.at[--open.n];
    items->at[begin].match = i;
    if (items->at[begin].kind == VTB_ITEM_BRACE) close_empty(items, begin, i);
  }
  vtb_vec_free(&open);
}

static void collect_items(const vtb_parse *p, vtb_items *items) {
  spacing *s = vtb_xcalloc(1, sizeof *s);
  size_t c = 0;
  uint32_t previous_end = 0;
  for (size_t t = 0; t < p->tokens.n || c < p->comments.n;) {
    bool comment = c < p->comments.n &&
                   (t == p->tokens.n || p->comments.at[c].begin < p->tokens.at[t].loc.begin);
    if (comment) {
      add_comment(items, p, p->comments.at[c], previous_end);
      previous_end = p->comments.at[c++].end;
    } else {
      add_token(items, s, p, p->tokens.at[t], previous_end);
      if (p->tokens.at[t].kind != NEWLINE) previous_end = p->tokens.at[t].loc.end;
      t++;
    }
  }
  vtb_free(s);
  match_brackets(items);
}

bool vtb_format(const vtb_source *source, vtb_strbuf *out, vtb_diags *diags) {
  vtb_unit unit = {0};
  vtb_file file = {.source = source, .unit = &unit};
  vtb_arena_init(&unit.arena);
  vtb_parse p;
  vtb__parse_begin(&p, &unit, &file, source, diags);
  p.record = true;
  vtb__parse_run(&p, false);
  if (!unit.has_syntax_errors) {
    vtb_items items = {0};
    collect_items(&p, &items);
    vtb__layout_items(&items, out);
    vtb_vec_free(&items);
  }
  vtb__parse_end(&p);
  vtb_vec_free(&file.decls);
  vtb_vec_free(&file.notes);
  vtb_vec_free(&file.uses);
  vtb_arena_free(&unit.arena);
  return !unit.has_syntax_errors;
}
