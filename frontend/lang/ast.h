/* The syntax tree of .vtb text, and the unit that owns it. Inside frontend/lang only.
 *
 * Everything is allocated from the unit's arena and lives as long as the unit. Lists are arrays of
 * pointers with a count; absent optional parts are NULL. Every node has the span of all its text. A
 * tree that comes from a file with syntax errors is never evaluated, so evaluation meets no
 * VTB_EXPR_ERROR.
 * Depth of any tree is at most VTB_MAX_NESTING: recursion over it is safe.
 */
#ifndef VTB_LANG_AST_H
#define VTB_LANG_AST_H

#include "frontend/lang/lang.h"
#include "ir/path.h"

#define VTB_MAX_NESTING 200

typedef struct vtb_expr vtb_expr;
typedef struct vtb_stmt vtb_stmt;
typedef struct vtb_decl vtb_decl;
typedef struct vtb_file vtb_file;

/* A name and where it stands. text is NULL where an optional name is absent. */
typedef struct vtb_name {
  const char *text;
  vtb_span span;
} vtb_name;

/* ---- expressions ----------------------------------------------------------------------------- */

typedef enum vtb_expr_kind {
  VTB_EXPR_ERROR,       /* stands for text with a syntax error */
  VTB_EXPR_INT,         /* u.i */
  VTB_EXPR_FLOAT,       /* u.f */
  VTB_EXPR_BOOL,        /* u.b */
  VTB_EXPR_SIZE,        /* 224x196: u.size */
  VTB_EXPR_STRING,      /* u.str: no interpolation */
  VTB_EXPR_INTERP,      /* u.list: pieces, literal ones are VTB_EXPR_STRING */
  VTB_EXPR_NAME,        /* u.name */
  VTB_EXPR_LIST,        /* [a, b]: u.list */
  VTB_EXPR_INDEX,       /* base[0], base[:, 1:5]: u.index, of which RANGE and REST are a part */
  VTB_EXPR_RANGE,       /* from:to:by: u.range */
  VTB_EXPR_REST,        /* .. */
  VTB_EXPR_MEMBER,      /* base.member: u.member; paths too: rows.hflip */
  VTB_EXPR_CALL,        /* u.call */
  VTB_EXPR_UNARY,       /* u.unary */
  VTB_EXPR_BINARY,      /* u.binary */
  VTB_EXPR_CONDITIONAL, /* c ? a : b: u.cond */
  VTB_EXPR_PARAM,       /* u.param */
  VTB_EXPR_ALONG,       /* along(path) { } and along each ...: u.along */
  VTB_EXPR_BLOCK,       /* { } on the right of '=': u.block */
  VTB_EXPR_IF,          /* if on the right of '=': u.stmt, a VTB_STMT_IF */
  VTB_EXPR_SCOPE,       /* scope on the right of '=': u.stmt, a VTB_STMT_SCOPE */
  VTB_EXPR_REPEAT       /* [repeat n as i { e }], a list: u.stmt, a VTB_STMT_REPEAT */
} vtb_expr_kind;

typedef enum vtb_unary_op {
  VTB_UNARY_NEG,
  VTB_UNARY_NOT,
  VTB_UNARY_REVERSE /* postfix ~ */
} vtb_unary_op;

/* Arithmetic first, then comparisons, then logic. */
typedef enum vtb_binary_op {
  VTB_BIN_ADD,
  VTB_BIN_SUB,
  VTB_BIN_MUL,
  VTB_BIN_DIV,
  VTB_BIN_MOD,
  VTB_BIN_EQ,
  VTB_BIN_NE,
  VTB_BIN_LT,
  VTB_BIN_LE,
  VTB_BIN_GT,
  VTB_BIN_GE,
  VTB_BIN_AND,
  VTB_BIN_OR
} vtb_binary_op;
const char *vtb__unary_text(vtb_unary_op op);   /* "-" "not" "~" */
const char *vtb__binary_text(vtb_binary_op op); /* "+" ... "and" "or" */

typedef struct vtb_expr_list {
  vtb_expr **at;
  size_t n;
} vtb_expr_list;

/* One argument of a call: positional when name.text is NULL. Order is as written. */
typedef struct vtb_arg {
  vtb_name name;
  vtb_expr *value;
  vtb_span span;
} vtb_arg;

typedef struct vtb_arg_list {
  vtb_arg **at;
  size_t n;
} vtb_arg_list;

typedef struct vtb_stmt_list {
  vtb_stmt **at;
  size_t n;
  vtb_span span; /* braces included */
} vtb_stmt_list;

struct vtb_expr {
  vtb_expr_kind kind;
  int depth; /* 1 for leaves */
  bool parenthesised;
  vtb_span span;
  union {
    int64_t i;
    double f;
    bool b;
    vtb_grid size;
    const char *str; /* escapes resolved; no NUL inside */
    const char *name;
    vtb_expr_list list;
    struct {
      vtb_expr *base;
      vtb_expr_list places; /* at least one */
    } index;
    struct {
      vtb_expr *from, *to, *by; /* NULL where nothing is written */
    } range;
    struct {
      vtb_expr *base;
      vtb_name member;
    } member;
    struct {
      vtb_name callee; /* functions are not values: only names are called */
      vtb_expr *self;  /* base of `base.callee(args)`, else NULL */
      vtb_arg_list args;
    } call;
    struct {
      vtb_unary_op op;
      vtb_expr *operand;
    } unary;
    struct {
      vtb_binary_op op;
      vtb_span op_span;
      vtb_expr *left, *right;
    } binary;
    struct {
      vtb_expr *test, *yes, *no;
    } cond;
    struct {
      vtb_expr *name; /* STRING or INTERP; written bare (weight, a.b) it is a STRING */
      vtb_expr_list dims;
      vtb_span dims_span; /* brackets included */
      vtb_expr *init;     /* NAME (an initialiser, or a value of type init) or CALL */
      bool no_decay, buffer, frozen;
    } param;
    struct {
      bool each;        /* along each */
      vtb_expr *path;   /* the path, or with `each` the list */
      vtb_expr *suffix; /* list after `suffix`, or NULL */
      vtb_name as;      /* text NULL if absent */
      vtb_stmt_list body;
    } along;
    vtb_stmt_list block;
    vtb_stmt *stmt;
  } u;
};

/* ---- statements ------------------------------------------------------------------------------ */

typedef enum vtb_stmt_kind {
  VTB_STMT_EXPR,      /* value of a block if last: u.value */
  VTB_STMT_ASSIGN,    /* a, b = e: u.assign, op absent */
  VTB_STMT_OP_ASSIGN, /* a += e: u.assign with one target */
  VTB_STMT_LET,       /* u.let */
  VTB_STMT_INPUT,     /* u.input */
  VTB_STMT_OUTPUT,    /* u.named; a bare NAME is a STRING */
  VTB_STMT_TAP,       /* u.named */
  VTB_STMT_LOSS,      /* u.measure */
  VTB_STMT_METRIC,    /* u.measure */
  VTB_STMT_REPEAT,    /* u.repeat */
  VTB_STMT_ITERATE,   /* a loop kept at run time: u.iterate */
  VTB_STMT_IF,        /* u.cond */
  VTB_STMT_SCOPE,     /* scope, share, freeze: u.scope */
  VTB_STMT_RETURN,    /* u.values, at least one */
  VTB_STMT_YIELD,     /* u.values, at least one; recurrences */
  VTB_STMT_STATE,     /* u.state; recurrences */
  VTB_STMT_ASSERT     /* u.check */
} vtb_stmt_kind;

/* Scopes: what holds for the params in braces. */
typedef enum vtb_scope_kind {
  VTB_SCOPE_NAMED,  /* scope "a": names begin with "a." */
  VTB_SCOPE_SHARED, /* share "a": the same, and each evaluation means the same params */
  VTB_SCOPE_FROZEN, /* freeze, freeze if c: not trained */
  VTB_SCOPE_AUGMENT /* augment: no params, but equations of one sample */
} vtb_scope_kind;

/* How a type is written; meaning comes from elaboration. */
typedef enum vtb_type_kind {
  VTB_TYPE_NAME,   /* int, tokens, image ...: name; image[3], tokens[14x14, 192]: with dims */
  VTB_TYPE_LIST,   /* [T]: elem. In parameters of everything but recurrences */
  VTB_TYPE_SHAPE,  /* [K, V], []: dims. In recurrences: step parameters, states, results */
  VTB_TYPE_CHOICE, /* one of a | b alias "2d" | c: choices */
  VTB_TYPE_VIEW    /* view(NAME, T) of inputs: name, elem or NULL */
} vtb_type_kind;

typedef struct vtb_choice {
  vtb_name name;
  vtb_name *aliases;
  size_t n_aliases;
} vtb_choice;

typedef struct vtb_type_expr {
  vtb_type_kind kind;
  vtb_span span;
  vtb_name name;
  bool has_dims; /* NAME followed by [ ] */
  vtb_expr_list dims;
  struct vtb_type_expr *elem;
  vtb_choice **choices;
  size_t n_choices;
} vtb_type_expr;

typedef struct vtb_state_decl {
  vtb_name name;
  vtb_type_expr *type; /* SHAPE; NULL in optimizers */
} vtb_state_decl;

struct vtb_stmt {
  vtb_stmt_kind kind;
  int depth;
  vtb_span span;
  union {
    vtb_expr *value;
    struct {
      vtb_name *targets;
      size_t n_targets;
      vtb_binary_op op; /* OP_ASSIGN only */
      vtb_span op_span;
      vtb_expr *value;
    } assign;
    struct {
      vtb_name name;
      vtb_expr *value;
    } let;
    struct {
      vtb_name *names;
      size_t n_names;
      vtb_type_expr *type;
    } input;
    struct {
      vtb_expr *name; /* STRING or INTERP */
      vtb_expr *value;
    } named;
    struct {
      vtb_expr *name;       /* STRING or INTERP */
      vtb_expr_list values; /* one, or a sum and what it is divided by */
      bool lower;           /* is better */
    } measure;
    struct {
      vtb_expr *count;
      vtb_name as;     /* text NULL if absent */
      vtb_expr *scope; /* NULL if absent */
      vtb_stmt_list body;
    } repeat;
    struct {
      vtb_expr *test;  /* of `while`, NULL if absent */
      vtb_name most;   /* the word before the bound of `while`; text NULL if absent */
      vtb_expr *count; /* steps, or with `while` how many at most; NULL if absent */
      vtb_name as;     /* text NULL if absent */
      vtb_stmt_list body;
    } iterate;
    struct {
      vtb_expr *test;
      vtb_stmt_list yes;
      bool has_else;
      vtb_stmt_list no; /* `else if` is a list of one VTB_STMT_IF */
    } cond;
    struct {
      vtb_scope_kind kind;
      vtb_expr *name; /* of freeze: its condition. NULL if absent */
      vtb_stmt_list body;
    } scope;
    vtb_expr_list values;
    struct {
      vtb_state_decl **at;
      size_t n;
    } state;
    struct {
      vtb_expr *test;
      vtb_expr *message; /* NULL if absent */
    } check;
  } u;
};

/* ---- declarations ---------------------------------------------------------------------------- */

typedef struct vtb_param {
  vtb_name name;
  vtb_type_expr *type;
  vtb_expr *fallback; /* the default, or NULL */
  vtb_name *aliases;
  size_t n_aliases;
  vtb_span span;
} vtb_param;

typedef struct vtb_param_list {
  vtb_param **at;
  size_t n;
} vtb_param_list;

/* kind CONST: value. PRESET: value (a CALL of a model or another preset), aliases, prepare.
 * FN, BLOCK, MODEL: params, body. RECURRENCE: params, results (SHAPE each), body.
 * OPTIMIZER, SCHEDULE: params, body. */
struct vtb_decl {
  vtb_decl_kind kind;
  vtb_name name;
  vtb_name *aliases;
  size_t n_aliases;
  vtb_span span;
  const char *doc; /* comment directly above, markers stripped, or "" */
  vtb_param_list params;
  vtb_type_expr **results;
  size_t n_results;
  vtb_stmt_list body;
  vtb_expr *value;
  vtb_type_expr *type; /* of a const; NULL if not written */
  vtb_expr *prepare;   /* of a preset, a CALL: what it says of images; NULL: nothing */
  vtb_file *file;
};
const char *
vtb__decl_kind_text(vtb_decl_kind k); /* "model" "preset" "block" "fn" "recurrence" "const" */
const char *vtb__decl_kind_an(vtb_decl_kind k); /* "a model" "an optimizer" */
/* The model, or else, that a preset leads to; what is none itself; NULL: a preset of nothing. */
const vtb_decl *vtb__behind_presets(const vtb_decl *d);
/* True for what is called by its name: fn, block, recurrence. */
bool vtb__is_called(const vtb_decl *d);
/* True for what other files see by `use`; optimizers and schedules are found by options. */
bool vtb__is_used(const vtb_decl *d);

/* ---- units ----------------------------------------------------------------------------------- */

typedef struct vtb_use {
  vtb_name path;  /* "std.nn" */
  vtb_file *file; /* NULL if not found */
} vtb_use;

/* paper "2406.04303", paper NAME = "...", weights NAME = "..." */
typedef struct vtb_note {
  enum { VTB_NOTE_PAPER, VTB_NOTE_WEIGHTS } kind;
  vtb_name of;          /* text NULL: of the file */
  const vtb_decl *decl; /* the file's of that name, a model or preset; NULL: after an error */
  const char *text;
  vtb_span span; /* of the text */
} vtb_note;

struct vtb_file {
  const vtb_source *source;
  vtb_unit *unit;
  VTB_VEC(vtb_decl *) decls;
  VTB_VEC(vtb_note) notes;
  VTB_VEC(vtb_use) uses;
  VTB_VEC(vtb_span) comments; /* markers included, in order */
  bool loading;               /* for finding cycles of uses */
};

struct vtb_unit {
  vtb_arena arena;
  VTB_VEC(vtb_file *) files; /* at[0] is the root */
  VTB_VEC(char *) texts;     /* malloc'd file contents */
  VTB_VEC(vtb_decl_info) infos;
  /* in any file: vtb_instantiate() must return NULL without further messages */
  bool has_syntax_errors;
};

/* The declaration of `name`, or of that alias, in `file` itself; NULL if nothing. */
vtb_decl *vtb__file_own(const vtb_file *file, const char *name);
/* The declaration `name` (or alias) means in `file`: its own, else one of the files it uses itself
 * (not what those use). NULL if there is none. */
vtb_decl *vtb__file_lookup(const vtb_file *file, const char *name);
/* The same from the root file. */
vtb_decl *vtb__unit_lookup(const vtb_unit *u, const char *name);
/* In any file of the unit, visible or not: for "declared in std.nn; add `use std.nn`". */
vtb_decl *vtb__unit_lookup_anywhere(const vtb_unit *u, const char *name);
/* The file lies in a search folder. */
bool vtb__is_shipped(const vtb_file *f);
/* "std.nn" if a file of a search folder's std/ declares `name`, in the unit's arena; NULL. */
const char *vtb__file_to_use(vtb_unit *u, const char *name);
/* Every name visible in `file`, for suggestions. *out is malloc'd; the names are not. */
size_t vtb__file_names(const vtb_file *file, const char ***out);

/* One expression from text that is in no file: an override ("<command line>", "<config>"). Text and
 * origin are copied into the unit. NULL with diags on a syntax error. */
vtb_expr *vtb__parse_expr_text(vtb_unit *u, const char *origin, const char *text, vtb_diags *diags);

/* Canonical text of an expression, one line. */
void vtb__expr_print(const vtb_expr *e, vtb_strbuf *out);

#endif
