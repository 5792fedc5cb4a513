/* Tokens of the IR text, for ir/parse.c. */
#ifndef VTB_IR_PARSE_LEX_H
#define VTB_IR_PARSE_LEX_H

#include "ir/internal.h"

typedef enum vtb__token_kind {
  VTB__T_END,
  VTB__T_WORD,   /* name of an op, keyword, axis name */
  VTB__T_VALUE,  /* %name */
  VTB__T_FUNC,   /* @name */
  VTB__T_STRING, /* "..." */
  VTB__T_NUMBER,
  VTB__T_ARROW, /* -> */
  VTB__T_PUNCT, /* one of ( ) { } [ ] , : = ? */
  VTB__T_BAD
} vtb__token_kind;

typedef struct vtb__lexer {
  const vtb_source *source;
  size_t at; /* of the byte after the token */
  vtb__token_kind kind;
  char punct;
  vtb_span span;
  vtb_strbuf text;  /* name without its mark, decoded string, or digits */
  const char *what; /* for BAD: what is wrong */
} vtb__lexer;

/* and reads the first token */
void vtb__lex_at(vtb__lexer *l, const vtb_source *source, size_t offset);
void vtb__lex_next(vtb__lexer *l);
void vtb__lex_free(vtb__lexer *l);

#endif
