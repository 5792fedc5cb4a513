/* Where parsing goes on after a wrong token.
 *
 * Recovery works on brackets, not on grammar states: around a wrong token is a list in ( ) or [ ],
 * a block in { }, or the file. Tokens are skipped, nested brackets as a whole, to the next comma,
 * closing bracket or line end of that surrounding, which is queued for the grammar; brackets that
 * seem to have been forgotten are queued as if they stood there. So each error costs one list
 * element or one statement, and the parser always sees balanced brackets.
 */
#include "frontend/lang/parse.h"
#include "frontend/lang/parser.gen.h"

#include <string.h>

/* A declaration begins where a block is still open. */
bool vtb__block_left_open(const vtb_parse *p, vtb_token t) {
  return t.inside.open == '{' && vtb__is_declaration_word(t.kind) &&
         vtb__first_on_line(p, t.loc.begin) &&
         vtb__indent(p, t.loc.begin) <= vtb__indent(p, t.inside.loc.begin);
}

static void queue(vtb_parse *p, vtb_token t) { vtb_vec_push(&p->queue, t); }

static void queue_kind(vtb_parse *p, int kind, uint32_t at, vtb_bracket inside, size_t n_inside) {
  queue(p, (vtb_token){.kind = kind, .loc = {at, at}, .inside = inside, .n_inside = n_inside});
}

static int closer_of(char open) { return open == '(' ? RPAREN : open == '[' ? RBRACKET : RBRACE; }

/* Queues closing brackets for all but the `keep` outermost of those around t. */
static void close_down_to(vtb_parse *p, vtb_bracket *around, size_t n, size_t keep, uint32_t at) {
  for (; n > keep; n--) queue_kind(p, closer_of(around[n - 1].open), at, around[n - 1], n);
}

/* The brackets around the wrong token, as they were when it was read. */
typedef struct surrounding {
  vtb_bracket at[VTB_MAX_NESTING + 1];
  size_t n;
} surrounding;

static bool opens(int kind) { return kind == LPAREN || kind == LBRACKET || kind == LBRACE; }

/* Forgets the brackets of `s` beyond `keep`, not the one t itself opened. */
static void drop_brackets(vtb_parse *p, size_t keep, vtb_token t) {
  if (p->brackets.n <= keep) return;
  vtb_bracket own = p->brackets.at[p->brackets.n - 1];
  p->brackets.n = keep;
  if (opens(t.kind)) vtb_vec_push(&p->brackets, own);
}

/* In a list: true if parsing goes on with t, which is then queued, after the brackets that were
 * forgotten before it. */
static bool resume_in_list(vtb_parse *p, surrounding *s, vtb_token t) {
  char open = s->at[s->n - 1].open;
  /* brackets that stay if the list was never closed: those down to the block */
  size_t outer = s->n;
  while (outer > 0 && s->at[outer - 1].open != '{') outer--;
  bool first = vtb__first_on_line(p, t.loc.begin);
  bool heads_block = p->head.kind == FN || p->head.kind == BLOCK || p->head.kind == MODEL ||
                     p->head.kind == IF || p->head.kind == REPEAT || p->head.kind == SCOPE;
  if (t.kind == VTB__YYEOF) {
    close_down_to(p, s->at, s->n, 0, t.loc.begin);
  } else if (t.kind == COMMA || t.kind == closer_of(open)) {
    /* the list goes on, or ends */
  } else if (t.kind == LBRACE && heads_block && s->n == p->head.n_inside + 1) {
    close_down_to(p, s->at, s->n, s->n - 1, t.loc.begin);
    drop_brackets(p, s->n - 1, t);
  } else if (t.kind == RPAREN || t.kind == RBRACKET) {
    size_t keep = p->brackets.n < s->n ? p->brackets.n + 1 : s->n - 1;
    bool closes_other = p->brackets.n < s->n;
    close_down_to(p, s->at, s->n, keep, t.loc.begin);
    if (!closes_other) {
      p->brackets.n = keep; /* taken for the bracket that was meant */
      return true;
    }
  } else if (t.kind == RBRACE) {
    close_down_to(p, s->at, s->n, outer, t.loc.begin);
  } else if (first && (vtb__is_declaration_word(t.kind) ||
                       vtb__indent(p, t.loc.begin) <= vtb__indent(p, s->at[s->n - 1].loc.begin))) {
    size_t keep = vtb__is_declaration_word(t.kind) ? 0 : outer;
    close_down_to(p, s->at, s->n, keep, t.loc.begin);
    drop_brackets(p, keep, t);
    queue_kind(p, NEWLINE, t.loc.begin, keep ? s->at[keep - 1] : (vtb_bracket){0}, keep);
  } else {
    return false;
  }
  queue(p, t);
  return true;
}

/* The same in a block or in the file. */
static bool resume_in_block(vtb_parse *p, surrounding *s, vtb_token t) {
  if (vtb__block_left_open(p, t)) {
    close_down_to(p, s->at, s->n, 0, t.loc.begin);
    drop_brackets(p, 0, t);
    queue_kind(p, NEWLINE, t.loc.begin, (vtb_bracket){0}, 0);
  } else if (t.kind == NEWLINE && s->n == 0) {
    if (p->has_held && !vtb__is_declaration_word(p->held.kind)) return false;
  } else if (t.kind != NEWLINE && t.kind != VTB__YYEOF && !(t.kind == RBRACE && s->n)) {
    return false;
  }
  queue(p, t);
  return true;
}

/* A block without its braces (`if c` or `if c:` and indented lines): skips what is indented deeper
 * than t's line, and a closing brace after it. */
static vtb_token skip_indented(vtb_parse *p, const surrounding *s, vtb_token t) {
  int indent = vtb__indent(p, t.loc.begin);
  while (t.kind != NEWLINE && t.kind != VTB__YYEOF) t = vtb__significant_token(p);
  vtb_token line_end = t;
  for (;;) {
    if (t.kind == VTB__YYEOF) return t;
    bool deeper = vtb__indent(p, t.loc.begin) > indent;
    bool out = t.kind != NEWLINE && vtb__first_on_line(p, t.loc.begin) && !deeper;
    if (out && t.kind == RBRACE && p->brackets.n < s->n) {
      if (s->n)
        vtb_vec_push(&p->brackets, s->at[s->n - 1]); /* it closed the block that was never opened */
      return vtb__significant_token(p);
    }
    if (out && t.kind == RBRACE) return vtb__significant_token(p);
    if (out) {
      queue(p, line_end);
      return t;
    }
    t = vtb__significant_token(p);
  }
}

void vtb__recover(vtb_parse *p, const int *expected, int n) {
  vtb_token t = p->last;
  surrounding s = {.n = t.n_inside};
  if (s.n > VTB_MAX_NESTING) return;
  if (s.n) /* a closing token popped some, the array keeps them */
    memcpy(s.at, p->brackets.at, s.n * sizeof *s.at);
  bool list = s.n && s.at[s.n - 1].open != '{';
  if (!list && vtb__among(expected, n, LBRACE) && !vtb__among(expected, n, NUMBER) &&
      (t.kind == NEWLINE || t.kind == COLON)) {
    t = skip_indented(p, &s, t);
    if (p->queue.n) {
      queue(p, t);
      return;
    }
  }
  size_t depth = s.n;
  while (!((t.n_inside <= depth || t.kind == VTB__YYEOF) &&
           (list ? resume_in_list(p, &s, t) : resume_in_block(p, &s, t)))) {
    t = vtb__significant_token(p);
    if (p->give_up) return;
  }
}
