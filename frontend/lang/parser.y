/* The grammar of .vtb text. Actions build nodes (build.c) and nothing else.
 *
 * Every bracketed list and every statement has an `error` alternative. When a token is wrong, parse_error.c queues the
 * tokens with which that alternative is followed, so each of them clears the lookahead and goes on at once.
 */
%require "3.8"
%define api.pure full
%define api.prefix {vtb__yy}
%define api.value.type union
%define api.location.type {vtb_loc}
%define parse.error custom
%define parse.lac full
%expect 0
%locations
%param {vtb_parse *p}

%code requires {
#include "frontend/lang/parse.h"
}

%code provides {
/* token.c: the next token the grammar sees. */
int vtb__next_token(VTB__YYSTYPE *value, vtb_loc *loc, vtb_parse *p);
/* lexer.l: the next token of the text. */
int vtb__raw_token(VTB__YYSTYPE *value, vtb_loc *loc, void *scanner);
/* Token as the user types it, "'('" or "a name". */
const char *vtb__token_text(int kind);
}

%code {
#define vtb__yylex vtb__next_token

#define YYLLOC_DEFAULT(cur, rhs, n)                                                                                    \
  ((n) ? ((cur).begin = YYRHSLOC(rhs, 1).begin, (cur).end = YYRHSLOC(rhs, n).end)                                      \
       : ((cur).begin = (cur).end = YYRHSLOC(rhs, 0).end))

/* After an `error`: the wrong token is dropped, the queue has what follows. */
#define RESUME                                                                                                         \
  do {                                                                                                                 \
    yyclearin;                                                                                                         \
    yyerrok;                                                                                                           \
    if (p->give_up) YYABORT;                                                                                           \
  } while (0)

static void vtb__yyerror(const vtb_loc *loc, vtb_parse *p, const char *text);
}

%token START_FILE START_EXPR
%token NEWLINE "the end of the line"

%token <const char *> IDENT "a name"
%token <vtb_expr *> NUMBER "a number" STRING "a string"

%token USE "'use'" CONST "'const'" FN "'fn'" BLOCK "'block'" RECURRENCE "'recurrence'" OPTIMIZER "'optimizer'" MODEL "'model'" PRESET "'preset'"
%token LET "'let'" PARAM "'param'" REPEAT "'repeat'" ITERATE "'iterate'" WHILE "'while'" AS "'as'" SCOPE "'scope'" IF "'if'" ELSE "'else'"
%token RETURN "'return'" YIELD "'yield'" ASSERT "'assert'" ALONG "'along'" ONE_OF "'one of'"
%token AND "'and'" OR "'or'" NOT "'not'" TRUE "'true'" FALSE "'false'"
/* Words only where the grammar waits for them, names elsewhere. */
%token <const char *> STATE "'state'" INPUT "'input'" OUTPUT "'output'" TAP "'tap'" EACH "'each'" ALIAS "'alias'"
%token <const char *> SUFFIX "'suffix'" NO_DECAY "'no_decay'" BUFFER "'buffer'" FROZEN "'frozen'"
%token <const char *> SHARE "'share'" FREEZE "'freeze'" AUGMENT "'augment'"
%token <const char *> LOSS "'loss'" METRIC "'metric'" LOWER "'lower'"
%token <const char *> PREPARE "'prepare'" PAPER "'paper'" WEIGHTS "'weights'" SCHEDULE "'schedule'"

%token LPAREN "'('" RPAREN "')'" LBRACKET "'['" RBRACKET "']'" LBRACE "'{'" RBRACE "'}'"
%token COMMA "','" COLON "':'" DOT "'.'" REST "'..'" BAR "'|'" ARROW "'->'" ASSIGN "'='" QUESTION "'?'" TILDE "'~'"
%token PLUS "'+'" MINUS "'-'" STAR "'*'" SLASH "'/'" PERCENT "'%'"
%token EQ "'=='" NE "'!='" LT "'<'" LE "'<='" GT "'>'" GE "'>='"
%token ADD_ASSIGN "'+='" SUB_ASSIGN "'-='" MUL_ASSIGN "'*='" DIV_ASSIGN "'/='"

%precedence CHOICE
%precedence ALIAS
%right QUESTION
%left OR
%left AND
%precedence NOT
%nonassoc EQ NE LT LE GT GE
%left PLUS MINUS
%left STAR SLASH PERCENT
%precedence NEGATION

%type <vtb_expr *> place end_opt
%type <vtb_list *> places
%type <vtb_expr *> expr postfix primary rhs init label element default_opt count_scope suffix_opt
%type <vtb_name *> name dotted alias_name as_opt
%type <const char *> word
%type <vtb_list *> args arg_list elements element_list aliases params param_list choices choice_aliases results
%type <vtb_expr *> prepare_opt
%type <vtb_list *> targets values states stmts stmt_list
%type <vtb_arg *> arg
%type <vtb_param *> param
%type <vtb_type_expr *> type view shape function_type
%type <vtb_choice *> choice
%type <vtb_state_decl *> state
%type <vtb_stmt *> stmt if_stmt scope_stmt
%type <vtb_block_text> block
%type <vtb_binary_op> op_assign
%type <int> flags

%%

text: START_FILE file
    | START_EXPR expr { p->result = $2; }
    | START_EXPR error { RESUME; }
    ;

/* ---- declarations ---- */

file: %empty | decls;
decls: decl | decls NEWLINE decl;

decl: USE dotted { vtb__add_use(p, $2); }
    | CONST name ASSIGN expr { vtb__add_constant(p, $2, NULL, $4, @$); }
    | CONST name COLON type ASSIGN expr { vtb__add_constant(p, $2, $4, $6, @$); }
    | PRESET name aliases ASSIGN expr prepare_opt { vtb__add_preset(p, $2, $3, $5, $6, @$); }
    | PAPER STRING { vtb__add_note(p, VTB_NOTE_PAPER, NULL, $2, @$); }
    | PAPER name ASSIGN STRING { vtb__add_note(p, VTB_NOTE_PAPER, $2, $4, @$); }
    | WEIGHTS name ASSIGN STRING { vtb__add_note(p, VTB_NOTE_WEIGHTS, $2, $4, @$); }
    | FN name params block { vtb__add_decl(p, VTB_DECL_FN, $2, $3, NULL, &$4, @$); }
    | BLOCK name params block { vtb__add_decl(p, VTB_DECL_BLOCK, $2, $3, NULL, &$4, @$); }
    | MODEL name params block { vtb__add_decl(p, VTB_DECL_MODEL, $2, $3, NULL, &$4, @$); }
    | OPTIMIZER name params block { vtb__add_decl(p, VTB_DECL_OPTIMIZER, $2, $3, NULL, &$4, @$); }
    | SCHEDULE name params block { vtb__add_decl(p, VTB_DECL_SCHEDULE, $2, $3, NULL, &$4, @$); }
    | RECURRENCE name params ARROW results block { vtb__add_decl(p, VTB_DECL_RECURRENCE, $2, $3, $5, &$6, @$); }
    | error { RESUME; }
    ;

prepare_opt: %empty { $$ = NULL; }
           | PREPARE LPAREN args RPAREN { $$ = vtb__expr_call(p, NULL, vtb__name(p, $1, @1), $3, @$); }
           ;
params: LPAREN RPAREN { $$ = vtb__list(p); }
      | LPAREN param_list RPAREN { $$ = $2; }
      | LPAREN param_list COMMA RPAREN { $$ = $2; }
      ;
param_list: param { $$ = vtb__list_add(p, vtb__list(p), $1); }
          | param_list COMMA param { $$ = vtb__list_add(p, $1, $3); }
          ;
param: name COLON type default_opt aliases { $$ = vtb__param(p, $1, $3, $4, $5, @$); }
     | name default_opt aliases { $$ = vtb__param(p, $1, NULL, $2, $3, @$); }
     | error { RESUME; $$ = NULL; }
     ;
default_opt: %empty { $$ = NULL; }
           | ASSIGN expr { $$ = $2; }
       ;
aliases: %empty { $$ = vtb__list(p); }
       | aliases ALIAS alias_name { $$ = vtb__list_add(p, $1, $3); }
       ;
alias_name: name
          | STRING { $$ = vtb__name(p, $1->kind == VTB_EXPR_STRING ? $1->u.str : "", @1); }
          ;

type: name { $$ = vtb__type_dims(p, $1, NULL, @$); }
    | function_type
    | LBRACKET function_type RBRACKET {
        $$ = vtb__type(p, VTB_TYPE_LIST, @$);
        $$->elem = $2;
      }
    | name LBRACKET elements RBRACKET { $$ = vtb__type_dims(p, $1, $3, @$); }
    | shape
    | ONE_OF choices { $$ = vtb__type_choices(p, $2, @$); }
    | LBRACKET ONE_OF choices RBRACKET {
        $$ = vtb__type(p, VTB_TYPE_LIST, @$);
        $$->elem = vtb__type_choices(p, $3, @3);
      }
    ;
function_type: BLOCK { $$ = vtb__type_dims(p, vtb__name(p, "block", @1), NULL, @$); }
             | MODEL { $$ = vtb__type_dims(p, vtb__name(p, "model", @1), NULL, @$); }
             ;
shape: LBRACKET elements RBRACKET { $$ = vtb__type_dims(p, NULL, $2, @$); };
choices: choice { $$ = vtb__list_add(p, vtb__list(p), $1); }
       | choices BAR choice { $$ = vtb__list_add(p, $1, $3); }
       ;
choice: alias_name choice_aliases %prec CHOICE { $$ = vtb__choice(p, $1, $2); };
choice_aliases: %empty { $$ = vtb__list(p); }
              | choice_aliases ALIAS alias_name { $$ = vtb__list_add(p, $1, $3); }
              ;
results: shape { $$ = vtb__list_add(p, vtb__list(p), $1); }
       | results COMMA shape { $$ = vtb__list_add(p, $1, $3); }
       ;

/* ---- statements ---- */

block: LBRACE stmts RBRACE { $$ = (vtb_block_text){$2, @$}; };
stmts: %empty { $$ = vtb__list(p); }
     | stmt_list
     ;
stmt_list: stmt { $$ = vtb__stmts_add(p, vtb__list(p), $1); }
         | stmt_list NEWLINE stmt { $$ = vtb__stmts_add(p, $1, $3); }
         ;

stmt: expr { $$ = vtb__stmt_value(p, $1); }
    | targets ASSIGN rhs { $$ = vtb__stmt_assign(p, $1, $3, @2, @$); }
    | name op_assign rhs { $$ = vtb__stmt_op_assign(p, $1, $2, $3, @2, @$); }
    | LET name ASSIGN rhs { $$ = vtb__stmt_let(p, $2, $4, @$); }
    | INPUT targets COLON type { $$ = vtb__stmt_input(p, $2, $4, @$); }
    | INPUT targets COLON view { $$ = vtb__stmt_input(p, $2, $4, @$); }
    | OUTPUT label ASSIGN rhs { $$ = vtb__stmt_named(p, VTB_STMT_OUTPUT, $2, $4, @$); }
    | LOSS label ASSIGN values { $$ = vtb__stmt_measure(p, VTB_STMT_LOSS, $2, true, $4, @$); }
    | METRIC label ASSIGN values { $$ = vtb__stmt_measure(p, VTB_STMT_METRIC, $2, false, $4, @$); }
    | METRIC label LOWER ASSIGN values { $$ = vtb__stmt_measure(p, VTB_STMT_METRIC, $2, true, $5, @$); }
    | TAP label ASSIGN rhs { $$ = vtb__stmt_named(p, VTB_STMT_TAP, $2, $4, @$); }
    | REPEAT expr as_opt count_scope block { $$ = vtb__stmt_repeat(p, $2, $3, $4, $5, @$); }
    | ITERATE expr as_opt block { $$ = vtb__stmt_iterate(p, NULL, NULL, $2, $3, $4, @$); }
    | ITERATE WHILE expr as_opt block { $$ = vtb__stmt_iterate(p, $3, NULL, NULL, $4, $5, @$); }
    | ITERATE WHILE expr COMMA name ASSIGN expr as_opt block { $$ = vtb__stmt_iterate(p, $3, $5, $7, $8, $9, @$); }
    | if_stmt
    | scope_stmt
    | RETURN values { $$ = vtb__stmt_values(p, VTB_STMT_RETURN, $2, @$); }
    | YIELD values { $$ = vtb__stmt_values(p, VTB_STMT_YIELD, $2, @$); }
    | STATE states { $$ = vtb__stmt_state(p, $2, @$); }
    | ASSERT expr { $$ = vtb__stmt_assert(p, $2, NULL, @$); }
    | ASSERT expr COMMA expr { $$ = vtb__stmt_assert(p, $2, $4, @$); }
    | error { RESUME; $$ = NULL; }
    ;

view: name LPAREN name RPAREN { $$ = vtb__type_view(p, $1, $3, NULL, @$); }
    | name LPAREN name COMMA type RPAREN { $$ = vtb__type_view(p, $1, $3, $5, @$); }
    ;
targets: name { $$ = vtb__list_add(p, vtb__list(p), $1); }
       | targets COMMA name { $$ = vtb__list_add(p, $1, $3); }
       ;
op_assign: ADD_ASSIGN { $$ = VTB_BIN_ADD; }
         | SUB_ASSIGN { $$ = VTB_BIN_SUB; }
         | MUL_ASSIGN { $$ = VTB_BIN_MUL; }
         | DIV_ASSIGN { $$ = VTB_BIN_DIV; }
         ;
as_opt: %empty { $$ = NULL; }
      | AS name { $$ = $2; }
      ;
count_scope: %empty { $$ = NULL; }
           | SCOPE expr { $$ = $2; }
           ;
if_stmt: IF expr block { $$ = vtb__stmt_if(p, $2, $3, NULL, @$); }
       | IF expr block ELSE block { $$ = vtb__stmt_if(p, $2, $3, &$5, @$); }
       | IF expr block ELSE if_stmt {
           vtb_block_text no = {vtb__list_add(p, vtb__list(p), $5), @5};
           $$ = vtb__stmt_if(p, $2, $3, &no, @$);
         }
       ;
scope_stmt: SCOPE expr block { $$ = vtb__stmt_scope(p, VTB_SCOPE_NAMED, $2, $3, @$); }
          | SHARE block { $$ = vtb__stmt_scope(p, VTB_SCOPE_SHARED, NULL, $2, @$); }
          | SHARE STRING block { $$ = vtb__stmt_scope(p, VTB_SCOPE_SHARED, $2, $3, @$); }
          | SHARE name block { $$ = vtb__stmt_scope(p, VTB_SCOPE_SHARED, vtb__expr_name(p, $2), $3, @$); }
          | FREEZE block { $$ = vtb__stmt_scope(p, VTB_SCOPE_FROZEN, NULL, $2, @$); }
          | FREEZE IF expr block { $$ = vtb__stmt_scope(p, VTB_SCOPE_FROZEN, $3, $4, @$); }
          | AUGMENT block { $$ = vtb__stmt_scope(p, VTB_SCOPE_AUGMENT, NULL, $2, @$); }
          ;
states: state { $$ = vtb__list_add(p, vtb__list(p), $1); }
      | states COMMA state { $$ = vtb__list_add(p, $1, $3); }
      ;
state: name COLON shape { $$ = vtb__state(p, $1, $3); }
     | name { $$ = vtb__state(p, $1, NULL); }
     ;

/* What may stand right of '=': an expression, or a construct in braces with its last value. */
rhs: expr
   | block { $$ = vtb__expr_block(p, $1); }
   | if_stmt { $$ = vtb__expr_stmt(p, VTB_EXPR_IF, $1); }
   | scope_stmt { $$ = vtb__expr_stmt(p, VTB_EXPR_SCOPE, $1); }
   ;
values: rhs { $$ = vtb__list_add(p, vtb__list(p), $1); }
      | values COMMA rhs { $$ = vtb__list_add(p, $1, $3); }
      ;

/* ---- expressions ---- */

expr: postfix
    | expr QUESTION expr COLON expr %prec QUESTION { $$ = vtb__expr_conditional(p, $1, $3, $5, @$); }
    | expr OR expr { $$ = vtb__expr_binary(p, VTB_BIN_OR, $1, $3, @2, @$); }
    | expr AND expr { $$ = vtb__expr_binary(p, VTB_BIN_AND, $1, $3, @2, @$); }
    | expr EQ expr { $$ = vtb__expr_binary(p, VTB_BIN_EQ, $1, $3, @2, @$); }
    | expr NE expr { $$ = vtb__expr_binary(p, VTB_BIN_NE, $1, $3, @2, @$); }
    | expr LT expr { $$ = vtb__expr_binary(p, VTB_BIN_LT, $1, $3, @2, @$); }
    | expr LE expr { $$ = vtb__expr_binary(p, VTB_BIN_LE, $1, $3, @2, @$); }
    | expr GT expr { $$ = vtb__expr_binary(p, VTB_BIN_GT, $1, $3, @2, @$); }
    | expr GE expr { $$ = vtb__expr_binary(p, VTB_BIN_GE, $1, $3, @2, @$); }
    | expr PLUS expr { $$ = vtb__expr_binary(p, VTB_BIN_ADD, $1, $3, @2, @$); }
    | expr MINUS expr { $$ = vtb__expr_binary(p, VTB_BIN_SUB, $1, $3, @2, @$); }
    | expr STAR expr { $$ = vtb__expr_binary(p, VTB_BIN_MUL, $1, $3, @2, @$); }
    | expr SLASH expr { $$ = vtb__expr_binary(p, VTB_BIN_DIV, $1, $3, @2, @$); }
    | expr PERCENT expr { $$ = vtb__expr_binary(p, VTB_BIN_MOD, $1, $3, @2, @$); }
    | MINUS expr %prec NEGATION { $$ = vtb__expr_unary(p, VTB_UNARY_NEG, $2, @$); }
    | NOT expr { $$ = vtb__expr_unary(p, VTB_UNARY_NOT, $2, @$); }
    ;

postfix: primary
       | postfix LBRACKET places RBRACKET { $$ = vtb__expr_index(p, $1, $3, @$); }
       | postfix DOT name { $$ = vtb__expr_member(p, $1, $3, @$); }
       | postfix DOT name LPAREN args RPAREN { $$ = vtb__expr_call(p, $1, $3, $5, @$); }
       | postfix TILDE { $$ = vtb__expr_unary(p, VTB_UNARY_REVERSE, $1, @$); }
       ;

/* What an index takes: an element, a range, and of a tensor an entry for each axis. */
places: place { $$ = vtb__list_add(p, vtb__list(p), $1); }
      | places COMMA place { $$ = vtb__list_add(p, $1, $3); }
      ;
place: element
     | end_opt COLON end_opt { $$ = vtb__expr_range(p, $1, $3, NULL, @$); }
     | end_opt COLON end_opt COLON end_opt { $$ = vtb__expr_range(p, $1, $3, $5, @$); }
     | REST { $$ = vtb__expr_new(p, VTB_EXPR_REST, @$); }
     ;
end_opt: %empty { $$ = NULL; }
       | expr
       ;

primary: NUMBER
       | STRING
       | TRUE { $$ = vtb__expr_new(p, VTB_EXPR_BOOL, @$); $$->u.b = true; }
       | FALSE { $$ = vtb__expr_new(p, VTB_EXPR_BOOL, @$); }
       | name { $$ = vtb__expr_name(p, $1); }
       | name LPAREN args RPAREN { $$ = vtb__expr_call(p, NULL, $1, $3, @$); }
       | LPAREN element RPAREN { $$ = $2; $$->parenthesised = true; $$->span = vtb__span(p, @$); }
       | LBRACKET elements RBRACKET { $$ = vtb__expr_list_of(p, VTB_EXPR_LIST, $2, @$); }
       | LBRACKET REPEAT expr as_opt block RBRACKET {
           $$ = vtb__expr_stmt(p, VTB_EXPR_REPEAT, vtb__stmt_repeat(p, $3, $4, NULL, $5, @$));
         }
       | PARAM label COLON shape TILDE init flags {
           $$ = vtb__expr_param(p, $2, $4, $6, $7, @$);
         }
       | ALONG LPAREN element RPAREN block { $$ = vtb__expr_along(p, false, $3, NULL, NULL, $5, @$); }
       | ALONG EACH expr suffix_opt as_opt block { $$ = vtb__expr_along(p, true, $3, $4, $5, $6, @$); }
       ;
suffix_opt: %empty { $$ = NULL; }
          | SUFFIX expr { $$ = $2; }
          ;

init: name { $$ = vtb__expr_name(p, $1); }
    | name LPAREN args RPAREN { $$ = vtb__expr_call(p, NULL, $1, $3, @$); }
    ;
flags: %empty { $$ = 0; }
     | flags NO_DECAY { $$ = $1 | 1; }
     | flags BUFFER { $$ = $1 | 2; }
     | flags FROZEN { $$ = $1 | 4; }
     ;
label: STRING
     | dotted { $$ = vtb__expr_text(p, $1); }
     ;

elements: %empty { $$ = vtb__list(p); }
        | element_list
        | element_list COMMA
        ;
element_list: element { $$ = vtb__list_add(p, vtb__list(p), $1); }
            | element_list COMMA element { $$ = vtb__list_add(p, $1, $3); }
            ;
element: expr
       | error { RESUME; $$ = vtb__expr_new(p, VTB_EXPR_ERROR, @$); }
       ;

args: %empty { $$ = vtb__list(p); }
    | arg_list
    | arg_list COMMA
    ;
arg_list: arg { $$ = vtb__list_add(p, vtb__list(p), $1); }
        | arg_list COMMA arg { $$ = vtb__list_add(p, $1, $3); }
        ;
arg: expr { $$ = vtb__arg(p, NULL, $1, @$); }
   | name ASSIGN expr { $$ = vtb__arg(p, $1, $3, @$); }
   | error { RESUME; $$ = vtb__arg(p, NULL, vtb__expr_new(p, VTB_EXPR_ERROR, @$), @$); }
   ;

/* ---- names ---- */

name: word { $$ = vtb__name(p, $1, @1); };
word: IDENT | STATE | INPUT | OUTPUT | TAP | EACH | ALIAS | SUFFIX | NO_DECAY | BUFFER | FROZEN | SHARE | FREEZE | AUGMENT | LOSS | METRIC | LOWER | PREPARE | PAPER | WEIGHTS | SCHEDULE;
dotted: name
      | dotted DOT name { $$ = vtb__dotted(p, $1, $3, @$); }
      ;

%%

static void vtb__yyerror(const vtb_loc *loc, vtb_parse *p, const char *text) {
  (void)text; /* only ever "memory exhausted": the parser's own stack has a limit */
  vtb__report_exhausted(p, *loc);
}

/* Token kinds of the symbols; bison numbers symbols apart from tokens. */
static int token_of_symbol(yysymbol_kind_t s) {
  for (int t = 0; t < YYMAXUTOK + 1; t++)
    if (YYTRANSLATE(t) == s) return t;
  return -1;
}

static int yyreport_syntax_error(const yypcontext_t *c, vtb_parse *p) {
  yysymbol_kind_t symbols[YYNTOKENS];
  int tokens[YYNTOKENS];
  int n = yypcontext_expected_tokens(c, symbols, YYNTOKENS);
  if (n < 0) return n;
  for (int i = 0; i < n; i++) tokens[i] = token_of_symbol(symbols[i]);
  vtb__report_unexpected(p, p->last.kind, *yypcontext_location(c), tokens, n); /* the last token handed out */
  return 0;
}

const char *vtb__token_text(int kind) {
  return yysymbol_name(YYTRANSLATE(kind));
}

void vtb__parse_run(vtb_parse *p, bool as_expr) {
  p->run = vtb__parse_run;
  p->start = as_expr ? START_EXPR : START_FILE;
  p->scanner = vtb__scanner_new(p);
  if (p->string_depth == 0) vtb__check_encoding(p);
  (void)vtb__yyparse(p); /* errors are in p->diags */
  vtb__scanner_free(p->scanner);
}
