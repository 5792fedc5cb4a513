/* The meaning of names in a unit's files: for editors. Nothing is evaluated, and files with syntax
 * errors are taken as far as they were understood.
 *
 * Ownership: symbols point into their unit, which must outlive them. One thread at a time. */
#ifndef VTB_LANG_SYMBOLS_H
#define VTB_LANG_SYMBOLS_H

#include "frontend/lang/lang.h"

typedef enum vtb_symbol_kind {
  VTB_SYMBOL_DECL,      /* a model, block, fn, recurrence, preset, const or optimizer */
  VTB_SYMBOL_PARAMETER, /* of a declaration */
  VTB_SYMBOL_VARIABLE,  /* of a body: assigned, let, input, output, state, index or axis */
  VTB_SYMBOL_BUILTIN,   /* a function or word of the language; it has no place */
  VTB_SYMBOL_FILE       /* of a `use`: its place is the begin of the file */
} vtb_symbol_kind;

typedef struct vtb_lang_symbol {
  vtb_symbol_kind kind;
  vtb_decl_kind decl_kind; /* of declarations */
  const char *name;
  vtb_span at;              /* its name, where it is first given; no source: none */
  vtb_span all;             /* of declarations: all of their text */
  const char *doc;          /* of declarations: the comment above, or "" */
  const char *signature;    /* on one line: "block mlp(x: tokens, ratio: int = 4)"; of a builtin
                             * function the row of builtins.def */
  const char *const *words; /* of parameters: the choices of `one of` */
  size_t n_words;
  const struct vtb_lang_symbol *const *parameters; /* likewise; of presets their model's */
  size_t n_parameters;
  size_t n_results; /* of recurrences: what they yield */
  bool is_function; /* may be called */
  bool required;    /* of parameters: without a default */
  bool is_tensor;   /* likewise: a tensor, not known when compiling */
} vtb_lang_symbol;

/* A name in the text. */
typedef struct vtb_occurrence {
  const vtb_lang_symbol *symbol;
  vtb_span at;
  bool alias;  /* it stands there under another of its names */
  bool writes; /* it gets a value, or is declared, here */
} vtb_occurrence;

typedef struct vtb_symbols vtb_symbols;
vtb_symbols *vtb_symbols_new(vtb_unit *u);
void vtb_symbols_free(vtb_symbols *s); /* NULL is fine */

/* Occurrences in all files, by file and place. */
size_t vtb_symbols_occurrences(const vtb_symbols *s, const vtb_occurrence **out);
/* At a byte of the root file, or directly behind a name; NULL: no name with a meaning is there. */
const vtb_occurrence *vtb_symbols_at(const vtb_symbols *s, uint32_t offset);
/* Names that may be written at a byte of the root file: variables and parameters of the body around
 * it, declarations of the file and those it uses, builtins. *out is for vtb_free(). */
size_t vtb_symbols_visible(const vtb_symbols *s, uint32_t offset, const vtb_lang_symbol ***out);
/* The innermost call around a byte of the root file whose callee has a meaning: the callee; NULL:
 * none. */
const vtb_lang_symbol *vtb_symbols_call(const vtb_symbols *s, uint32_t offset);
/* The declarations of the root file, in order. *out is for vtb_free(). */
size_t vtb_symbols_decls(const vtb_symbols *s, const vtb_lang_symbol ***out);

/* The words that the grammar knows: the i-th, NULL behind the last. */
const char *vtb_keyword(size_t i);
/* Words that may stand behind a dot, of tensors, sizes and orders: eval.c's; NULL ends. */
extern const char *const vtb_members[];
/* Builtin functions, or the other names with a meaning of their own. *out is for vtb_free(). */
size_t vtb_builtins(bool functions, const char ***out);

#endif
