/* The state that lexer, grammar and error recovery share while one text is parsed. Nodes go to the
 * unit's arena.
 *
 * Tokens pass flex (lexer.l), then vtb__next_token() (token.c), which decides which line ends end a
 * statement and hands out the tokens that recovery put in front, then the grammar (parser.y).
 * parse_error.c words the messages and chooses where parsing goes on.
 */
#ifndef VTB_LANG_PARSE_H
#define VTB_LANG_PARSE_H

#include "frontend/lang/ast.h"

typedef struct vtb_loc { /* byte offsets in the source */
  uint32_t begin, end;
} vtb_loc;

typedef struct vtb_list { /* of arena pointers, itself in the arena */
  void **at;
  size_t n, cap;
} vtb_list;

typedef struct vtb_block_text { /* statements between braces, with the braces' place */
  vtb_list *stmts;
  vtb_loc loc;
} vtb_block_text;

typedef struct vtb_bracket {
  char open; /* ( [ {, or 0 outside brackets */
  vtb_loc loc;
} vtb_bracket;

typedef struct vtb_token {
  int kind; /* bison's token kind */
  vtb_loc loc;
  void *value;        /* text of words, node of numbers and strings */
  vtb_bracket inside; /* innermost bracket around it */
  size_t n_inside;    /* brackets around it */
} vtb_token;

typedef struct vtb_parse {
  void *scanner;
  vtb_unit *unit;
  vtb_file *file; /* NULL for text outside files */
  const vtb_source *source;
  vtb_diags *diags;
  uint32_t begin, end; /* the range of the source that is parsed */
  int string_depth;    /* strings around this text */
  int start;           /* token that selects the grammar: START_FILE, START_EXPR */

  uint32_t offset; /* of the text flex reads next */
  uint32_t comment_begin;
  uint32_t broken_at; /* end of a string without an end: its line is not complained about again */
  bool bad_encoding;  /* NUL or malformed UTF-8 was reported */
  VTB_VEC(vtb_bracket) brackets;
  VTB_VEC(vtb_token) queue; /* put in by recovery; handed out before the lexer is asked again */
  size_t queue_at;
  bool has_held; /* the token after a line end that was handed out */
  vtb_token held;
  bool started;
  vtb_token last, before_last; /* handed out */
  vtb_token head;              /* first of its statement */
  int n_assigns;               /* = seen in this statement, as deep in brackets as its head */
  uint32_t last_error;         /* begin of the token of the last error, plus one */
  bool give_up;                /* end of file from here on, no more messages */

  bool record; /* keep every token in `tokens`, for the formatter */
  VTB_VEC(vtb_token) tokens;
  VTB_VEC(vtb_span) comments;

  vtb_expr *result;                              /* of START_EXPR */
  void (*run)(struct vtb_parse *, bool as_expr); /* vtb__parse_run, for expressions in strings */
} vtb_parse;

/* ---- parser.y, lexer.l, token.c -------------------------------------------------------------- */

/* Parses range [begin, end) of p->source; p is filled by vtb__parse_begin(). */
void vtb__parse_begin(vtb_parse *p, vtb_unit *u, vtb_file *file, const vtb_source *source,
                      vtb_diags *diags);
void vtb__parse_run(vtb_parse *p, bool as_expr);
void vtb__parse_end(vtb_parse *p); /* frees what is not in the arena */

void *vtb__scanner_new(vtb_parse *p); /* flex state over p's range */
vtb_token
vtb__significant_token(vtb_parse *p); /* with line ends that count, without recovery's queue */
void vtb__scanner_free(void *scanner);
void vtb__check_encoding(vtb_parse *p); /* reports NUL bytes and malformed UTF-8, one each */

/* True if only blanks stand before the offset on its line; the blanks its line begins with. */
bool vtb__first_on_line(const vtb_parse *p, uint32_t offset);
int vtb__indent(const vtb_parse *p, uint32_t offset);
bool vtb__is_declaration_word(int kind);
bool vtb__is_binary(int kind); /* of an operator with two operands; also ? and | */

/* ---- literal.c ------------------------------------------------------------------------------- */

vtb_expr *vtb__number(vtb_parse *p, vtb_loc loc);
/* End of the string that begins at `begin` (a quote); *closed is false if the line ended first. */
uint32_t vtb__string_extent(const vtb_source *s, uint32_t begin, uint32_t end, char quote,
                            bool *closed);
vtb_expr *vtb__string(vtb_parse *p, vtb_loc loc, bool closed);

/* ---- parse_error.c --------------------------------------------------------------------------- */

vtb_span vtb__span(const vtb_parse *p, vtb_loc loc);
void vtb__error(vtb_parse *p, vtb_loc loc, int code, const char *fmt, ...) VTB_PRINTF(4, 5);
/* A token the grammar cannot take. `expected` are its token kinds; n < 0: too many. */
void vtb__report_unexpected(vtb_parse *p, int found, vtb_loc loc, const int *expected, int n);
void vtb__report_exhausted(vtb_parse *p, vtb_loc loc);
void vtb__check_comments(vtb_parse *p); /* warns of those that look like divisions */
bool vtb__among(const int *kinds, int n, int kind);

/* ---- recover.c ------------------------------------------------------------------------------- */

/* Skips and queues tokens so that the grammar's `error` alternative around p->last is followed by
 * what it expects. */
void vtb__recover(vtb_parse *p, const int *expected, int n);
/* t begins a declaration, and by its indentation the block around it should have ended. */
bool vtb__block_left_open(const vtb_parse *p, vtb_token t);

/* ---- build.c: nodes; each checks depth ------------------------------------------------------- */

vtb_list *vtb__list(vtb_parse *p);
vtb_list *vtb__list_add(vtb_parse *p, vtb_list *l, void *item);
vtb_name *vtb__name(vtb_parse *p, const char *text, vtb_loc loc);
vtb_name *vtb__dotted(vtb_parse *p, vtb_name *front, const vtb_name *last, vtb_loc loc);
vtb_expr *vtb__expr_new(vtb_parse *p, vtb_expr_kind kind, vtb_loc loc);
vtb_expr *vtb__expr_text(vtb_parse *p, const vtb_name *n); /* a bare name as a string */
vtb_expr *vtb__expr_name(vtb_parse *p, const vtb_name *n);
vtb_expr *vtb__expr_list_of(vtb_parse *p, vtb_expr_kind kind, vtb_list *items, vtb_loc loc);
vtb_expr *vtb__expr_unary(vtb_parse *p, vtb_unary_op op, vtb_expr *x, vtb_loc loc);
vtb_expr *vtb__expr_binary(vtb_parse *p, vtb_binary_op op, vtb_expr *l, vtb_expr *r, vtb_loc op_loc,
                           vtb_loc loc);
vtb_expr *vtb__expr_conditional(vtb_parse *p, vtb_expr *c, vtb_expr *a, vtb_expr *b, vtb_loc loc);
vtb_expr *vtb__expr_index(vtb_parse *p, vtb_expr *base, vtb_list *places, vtb_loc loc);
/* Each of the three may be NULL. */
vtb_expr *vtb__expr_range(vtb_parse *p, vtb_expr *from, vtb_expr *to, vtb_expr *by, vtb_loc loc);
vtb_expr *vtb__expr_member(vtb_parse *p, vtb_expr *base, const vtb_name *member, vtb_loc loc);
vtb_expr *vtb__expr_call(vtb_parse *p, vtb_expr *self, const vtb_name *callee, vtb_list *args,
                         vtb_loc loc);
/* flags: 1 no_decay, 2 buffer */
vtb_expr *vtb__expr_param(vtb_parse *p, vtb_expr *name, const vtb_type_expr *shape, vtb_expr *init,
                          int flags, vtb_loc loc);
vtb_expr *vtb__expr_along(vtb_parse *p, bool each, vtb_expr *path, vtb_expr *suffix,
                          const vtb_name *as, vtb_block_text body, vtb_loc loc);
vtb_expr *vtb__expr_block(vtb_parse *p, vtb_block_text body);
vtb_expr *vtb__expr_stmt(vtb_parse *p, vtb_expr_kind kind, vtb_stmt *s);
vtb_arg *vtb__arg(vtb_parse *p, const vtb_name *name, vtb_expr *value, vtb_loc loc);

vtb_stmt *vtb__stmt_value(vtb_parse *p, vtb_expr *e);
vtb_stmt *vtb__stmt_assign(vtb_parse *p, vtb_list *targets, vtb_expr *value, vtb_loc op_loc,
                           vtb_loc loc);
vtb_stmt *vtb__stmt_op_assign(vtb_parse *p, const vtb_name *target, vtb_binary_op op,
                              vtb_expr *value, vtb_loc op_loc, vtb_loc loc);
vtb_stmt *vtb__stmt_let(vtb_parse *p, const vtb_name *name, vtb_expr *value, vtb_loc loc);
vtb_stmt *vtb__stmt_input(vtb_parse *p, vtb_list *names, vtb_type_expr *type, vtb_loc loc);
vtb_type_expr *vtb__type_view(vtb_parse *p, const vtb_name *word, const vtb_name *picture,
                              vtb_type_expr *of, vtb_loc loc);
vtb_stmt *vtb__stmt_named(vtb_parse *p, vtb_stmt_kind kind, vtb_expr *name, vtb_expr *value,
                          vtb_loc loc);
vtb_stmt *vtb__stmt_repeat(vtb_parse *p, vtb_expr *count, const vtb_name *as, vtb_expr *scope,
                           vtb_block_text body, vtb_loc loc);
vtb_stmt *vtb__stmt_iterate(vtb_parse *p, vtb_expr *test, const vtb_name *most, vtb_expr *count,
                            const vtb_name *as, vtb_block_text body, vtb_loc loc);
vtb_stmt *vtb__stmt_if(vtb_parse *p, vtb_expr *test, vtb_block_text yes, const vtb_block_text *no,
                       vtb_loc loc);
vtb_stmt *vtb__stmt_scope(vtb_parse *p, vtb_scope_kind kind, vtb_expr *name, vtb_block_text body,
                          vtb_loc loc);
vtb_stmt *vtb__stmt_measure(vtb_parse *p, vtb_stmt_kind kind, vtb_expr *name, bool lower,
                            vtb_list *values, vtb_loc loc);
vtb_stmt *vtb__stmt_values(vtb_parse *p, vtb_stmt_kind kind, vtb_list *values, vtb_loc loc);
vtb_stmt *vtb__stmt_state(vtb_parse *p, vtb_list *states, vtb_loc loc);
vtb_stmt *vtb__stmt_assert(vtb_parse *p, vtb_expr *test, vtb_expr *message, vtb_loc loc);
/* Adds to a block's statements; a line that begins with '-' after another statement is reported. */
vtb_list *vtb__stmts_add(vtb_parse *p, vtb_list *l, vtb_stmt *s);

vtb_type_expr *vtb__type(vtb_parse *p, vtb_type_kind kind, vtb_loc loc);
vtb_type_expr *vtb__type_dims(vtb_parse *p, const vtb_name *name, vtb_list *dims, vtb_loc loc);
vtb_type_expr *vtb__type_choices(vtb_parse *p, vtb_list *choices, vtb_loc loc);
vtb_choice *vtb__choice(vtb_parse *p, const vtb_name *name, vtb_list *aliases);
vtb_state_decl *vtb__state(vtb_parse *p, const vtb_name *name, vtb_type_expr *type);
vtb_param *vtb__param(vtb_parse *p, const vtb_name *name, vtb_type_expr *type, vtb_expr *fallback,
                      vtb_list *aliases, vtb_loc loc);
void vtb__add_decl(vtb_parse *p, vtb_decl_kind kind, const vtb_name *name, vtb_list *params,
                   vtb_list *results, const vtb_block_text *body, vtb_loc loc);
void vtb__add_constant(vtb_parse *p, const vtb_name *name, vtb_type_expr *type, vtb_expr *value,
                       vtb_loc loc);
void vtb__add_preset(vtb_parse *p, const vtb_name *name, vtb_list *aliases, vtb_expr *value,
                     vtb_expr *prepare, vtb_loc loc);
/* kind: of a vtb_note; of NULL: the file */
void vtb__add_note(vtb_parse *p, int kind, const vtb_name *of, const vtb_expr *text, vtb_loc loc);
void vtb__add_use(vtb_parse *p, const vtb_name *path);

/* ---- place.c --------------------------------------------------------------------------------- */

/* Statements where they do not belong: yield outside recurrences, input outside models ... */
void vtb__check_places(const vtb_decl *d, vtb_parse *p);

#endif
