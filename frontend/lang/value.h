/* The state that evaluation of the tree works with: compile-time values, the layout of token
 * tensors, environments, and the evaluator's state. Inside frontend/lang only.
 *
 * Values are small and copied. What they point to lives in the evaluator's arena, IR values in the
 * module's. VTB__ERROR stands for a value whose message has been given; whatever uses it stays
 * silent and gives VTB__ERROR.
 */
#ifndef VTB_LANG_VALUE_H
#define VTB_LANG_VALUE_H

#include "frontend/lang/ast.h"
#include "ir/diag_codes.h"
#include "ir/path.h"
#include "runtime/base/schedule.h"

#include <stdlib.h>
#include <string.h>

/* ---- limits: no text can hang or exhaust memory ---------------------------------------------- */

#define VTB__MAX_STEPS 1000000               /* evaluated statements and expressions */
#define VTB__MAX_INSTS 400000                /* instructions in a module */
#define VTB__MAX_CALLS 64                    /* nested calls of fn and block */
#define VTB__MAX_ELEMENTS (INT64_C(1) << 40) /* of an input or a param: 4 TiB */
#define VTB__MAX_CHAIN 500                   /* ops of a step, each of which reads the one before */
#define VTB__MAX_DEPTH 1200                  /* nested evaluations on the C stack */
#define VTB__MAX_LIST 65536                  /* elements of a list */
#define VTB__MAX_TEXT 4096                   /* bytes of a string */
#define VTB__MAX_DATA (1 << 22)              /* elements of a computed constant */
#define VTB__MAX_SIZE (INT64_C(1) << 31)     /* an axis */

/* ---- layouts --------------------------------------------------------------------------------- */

typedef struct vtb__layout vtb__layout;

/* How a sequence came to be in the order it is in. */
typedef struct vtb__traversal {
  const char *path;         /* text with grid and extras, for op permute */
  bool grid;                /* the traversed sequence is itself a grid, row by row */
  const vtb__layout *outer; /* layout before */
} vtb__traversal;

typedef enum vtb__layout_kind { VTB__PLAIN, VTB__TOKENS, VTB__IMAGE } vtb__layout_kind;

/* Tokens stand on axis 1: head extra tokens, then a row-major grid with `mid` extra tokens after
 * `at` of its tokens, then tail extra tokens. An image is [B, C, grid...]: a series [B, C, w], an
 * image [B, C, h, w] or a video [B, C, t, h, w]. */
struct vtb__layout {
  vtb__layout_kind kind;
  vtb_grid grid;
  int64_t head, mid, at, tail;
  const vtb__traversal *via; /* NULL: storage order */
  /* For drawings only: how far the grid was rolled (frames, rows, columns), and the grid whose
   * windows stand side by side in the channels; rank 0: none. */
  int64_t rolled[VTB_GRID_AXES];
  vtb_grid windows_of;
  bool joined; /* of several sequences end to end: which tokens are patches is not known */
};
extern const vtb__layout vtb__plain;

int64_t vtb__layout_tokens(const vtb__layout *l);
int64_t vtb__layout_extra(const vtb__layout *l);
bool vtb__layout_equal(const vtb__layout *a, const vtb__layout *b);
void vtb__layout_print(const vtb__layout *l,
                       vtb_strbuf *out); /* unique text, for keys and messages */

/* ---- paths ----------------------------------------------------------------------------------- */

/* An order as the language has it: reversal, mirrors, list; the grid comes with the tokens. */
typedef struct vtb__path {
  vtb_path order;
  const struct vtb__path_by *by; /* sorts the cells of a grid (path_by.c); NULL: order says it */
  const char *key;               /* of `by`: its text, with the values it was made with */
} vtb__path;

/* ---- values ---------------------------------------------------------------------------------- */

typedef enum vtb__kind {
  VTB__NONE,
  VTB__ERROR,
  VTB__INT,
  VTB__FLOAT,
  VTB__BOOL,
  VTB__STRING,
  VTB__SIZE,
  VTB__PATH,
  VTB__MODE,
  VTB__INIT,
  VTB__FUNCTION,
  VTB__LIST,
  VTB__TUPLE, /* several values of one call; never inside another value */
  VTB__TENSOR
} vtb__kind;

typedef struct vtb__val {
  vtb__kind kind;
  union {
    int64_t i;
    double f;
    bool b;
    struct {
      const char *s;
      const vtb_type_expr *choice; /* the `one of` it was checked against, or NULL */
      bool suffixed;               /* {suffix} is written in it */
    } str;
    vtb_grid size; /* rank 0: an int given for a size, the same on each axis */
    const vtb__path *path;
    struct {
      const char *name; /* auto, parallel, recurrent, chunkwise */
      int64_t chunk;    /* 0: default */
    } mode;
    const char *init; /* canonical initialiser text */
    struct {          /* what is called: one of the two */
      const vtb_decl *decl;
      const struct vtb__builtin *builtin;
      vtb_span at; /* where it was named */
    } fn;
    struct {
      struct vtb__val *at;
      size_t n;
    } list;
    struct {
      vtb_value *v;
      const vtb__layout *layout; /* never NULL */
    } t;
  } u;
} vtb__val;

#define VTB__ERR ((vtb__val){.kind = VTB__ERROR})
#define VTB__NIL ((vtb__val){.kind = VTB__NONE})
vtb__val vtb__int(int64_t i);
vtb__val vtb__float(double f);
vtb__val vtb__bool(bool b);
vtb__val vtb__val_string(const char *s);
vtb__val vtb__tensor(vtb_value *v, const vtb__layout *l); /* VTB__ERROR if v is NULL */
/* The name of the axis of size 1 that across() puts before the batch: what transpose() makes of
 * [B, 1] has none of that name. */
#define VTB__ACROSS "across"
bool vtb__is_number(vtb__val v);
double vtb__val_number(vtb__val v); /* of an int or float */
bool vtb__val_equal(vtb__val a, vtb__val b);
const char *vtb__function_name(vtb__val v); /* of a VTB__FUNCTION */
bool vtb__is_model(vtb__val v);             /* a model or preset, to be called */
const char *vtb__kind_text(vtb__kind k);    /* "int", "list" ... */
/* Unique text of a compile-time value, and of a tensor's type and layout. */
void vtb__val_print(vtb__val v, vtb_strbuf *out);
/* The same, in which functions of one name in two files are two. */
void vtb__val_key(vtb__val v, vtb_strbuf *out);

/* ---- environments ---------------------------------------------------------------------------- */

typedef struct vtb__binding {
  const char *name;
  vtb__val value;
  const char *fixed; /* why it may not be assigned, "a let", "a parameter" ...; NULL if it may */
  vtb_span span;     /* where it was bound */
  struct vtb__binding *next;
} vtb__binding;

/* The variables of one body. Only an `along` body sees those outside it (up != NULL), in its own
 * order. */
typedef struct vtb__env {
  struct vtb__env *up;
  vtb__binding *first;
  const vtb__path *along;  /* of the body, NULL otherwise */
  struct vtb__env *caller; /* of the call this is the body of: for messages only */
  struct vtb__env *ended;  /* bodies inside this one that are over: for messages only */
  struct vtb__env *ended_next;
} vtb__env;

/* ---- the evaluator --------------------------------------------------------------------------- */

typedef struct vtb__weight { /* a parameter of the function being built */
  const char *name;          /* relative to the function */
  vtb_value *arg;
  const char *init;
  int decay;
  vtb_role role;
  bool frozen;
  int share;     /* the evaluation of a `share` that declared it last; 0: none */
  vtb_span span; /* of its param */
  vtb_span made; /* the user's line that made it: the param, or the call that led there */
} vtb__weight;

typedef struct vtb__update { /* of a buffer of the function being built */
  int weight;                /* number in the frame's weights */
  vtb_value *value;
  vtb_span span;
} vtb__update;

typedef struct vtb__output {
  const char *name;
  vtb_value *value;
  vtb_span span;
  const char *prefix; /* of taps: the e->tap_prefix it was made under */
} vtb__output;

typedef struct vtb__measured { /* a loss or metric of the model being built */
  const char *name;            /* as the module returns it: ir/objective.h */
  vtb_value *value, *by;       /* by: what the value's sum is divided by; NULL: the samples */
  vtb_span span;
} vtb__measured;

enum {
  VTB__PREPARE_CROP,
  VTB__PREPARE_RESIZE,
  VTB__PREPARE_FILTER,
  VTB__PREPARE_MEAN,
  VTB__PREPARE_STD,
  VTB__PREPARE_FIELDS
};
typedef struct vtb__prepared { /* a field of `prepare` */
  const char *text;            /* its value as JSON; NULL: not given */
  vtb_span span;
  int level; /* who said so */
} vtb__prepared;

/* An `iterate` whose body is evaluated. */
typedef struct vtb__loop {
  struct vtb__loop *up;
  vtb_value *index; /* the stand-in of the step's number, an i32 scalar */
  int64_t stride;   /* of seeds, from step to step: draws differ */
} vtb__loop;

typedef struct vtb__declared { /* an input of the model being built */
  vtb_name name;
  vtb__val value;
  const char *view; /* the picture it is a view of; NULL: none */
  vtb_value *made;  /* labels that `augment` makes in the step; NULL: as they are fed */
} vtb__declared;

/* The function being built: the entry, a block, or a recurrence's step. */
typedef struct vtb__frame {
  vtb_builder b;
  vtb_func *func;
  VTB_VEC(vtb__weight) weights;
  VTB_VEC(vtb__output) outputs, taps;
  VTB_VEC(vtb__update) updates;
  VTB_VEC(vtb__measured) measures;
  VTB_VEC(vtb__declared) inputs;
  const vtb_stmt *augment; /* the statement, when it was there */
  size_t n_augmented;      /* inputs that stand before it */
  vtb_func *augmented;     /* what it became for the options' input */
  int calls;               /* e->calls inside its body, without functions in line */
  VTB_VEC(int) named; /* by a value's id, the arena's: depth of calls at which it got its name */
  vtb_value *seed;    /* argument for op random, NULL until needed */
  int n_seeds;        /* calls that were given a seed of their own */
  bool is_model;      /* input and output statements belong here */
  struct vtb__step *step; /* inside a recurrence */
  vtb__loop *loop;        /* the innermost */
} vtb__frame;

/* A recurrence body while it is evaluated. Every tensor in it has its axes in the order of
 * `axes`. */
typedef struct vtb__step {
  const vtb_decl *decl;
  const char *axes[VTB_MAX_RANK];
  int64_t sizes[VTB_MAX_RANK];
  int n_axes;
  const char **states; /* names */
  vtb_value **state;   /* the old values */
  bool *updated;
  int n_states;
  VTB_VEC(vtb__val) yields;
  VTB_VEC(vtb__output) taps;
} vtb__step;

/* One instantiation of a block. */
typedef struct vtb__instance {
  vtb_func *func; /* NULL if its body had errors */
  vtb__weight *weights;
  size_t n_weights;
  bool seeded;
  int seed_index;
  vtb__val *results; /* kind and layout of each; values are the callee's */
  size_t n_results;
  vtb__update *updates; /* further results of the function, behind `results` */
  size_t n_updates;
  vtb_value **operands; /* of the call at hand, by argument: tensors, weights, the seed */
  vtb__kind kind;       /* of the value: a tensor, or a list or tuple of them */
  bool in_progress;
} vtb__instance;

typedef struct vtb__eval vtb__eval;
/* How many batches an axis is, where the batch may be a number; 0: another axis. */
int64_t vtb__batches_of(const vtb__eval *e, vtb_dim axis);
/* The word for the size of n batches, joined: "batch", "2 * batch"; n of a value, 0 of others. */
vtb__val vtb__batch_word(vtb__eval *e, int64_t n);
int64_t vtb__batches_meant(vtb__val word);

/* Where values for a declaration's parameters come from. */
typedef struct vtb__actual {
  const char *name; /* NULL: positional */
  const vtb_expr *expr;
  vtb__val value; /* used when expr is NULL */
  vtb_span span;
} vtb__actual;

/* Calls of the evaluator's ground into its roof: expressions hold calls, calls run statements,
 * statements hold expressions. Called by the functions of the same names below; `sorted` is
 * vtb__path_by_list, `model` vtb__call_model. */
typedef struct vtb__evaluator {
  vtb__val (*expr)(vtb__eval *e, const vtb_expr *x);
  vtb__val (*expr_as)(vtb__eval *e, const vtb_expr *x, const vtb_type_expr *type, const char *what);
  const char *(*text)(vtb__eval *e, const vtb_expr *x);
  vtb__val (*body_value)(vtb__eval *e, const vtb_stmt_list *body);
  vtb__val (*constant)(vtb__eval *e, const vtb_decl *d);
  vtb__val (*unknown)(vtb__eval *e, const char *what, const char *name, vtb_span span);
  vtb__val (*model)(vtb__eval *e, const vtb_decl *d, const vtb__actual *args, size_t n,
                    vtb_span span);
  int64_t *(*sorted)(vtb__eval *e, const struct vtb__path_by *by, const vtb__layout *l,
                     vtb_span span);
} vtb__evaluator;

struct vtb__eval {
  const vtb__evaluator *evaluator;
  vtb_unit *unit;
  vtb_diags *diags;
  vtb_module *module;
  const vtb_instantiate_options *options;
  vtb_arena arena;
  vtb__frame *frame;
  vtb__env *env;
  const vtb_file *file;  /* where names are looked up */
  const vtb_decl *decl;  /* whose body is evaluated */
  const char *prefix;    /* scopes so far, joined with '.' */
  const char *suffix;    /* of `along each`, NULL outside */
  const char *suffix_at; /* the prefix whose next name gets the suffix */
  bool suffix_empty;     /* there is none, in the first of several directions */
  const char *tap_prefix;
  const char *missing_use; /* what the last message said should be used; NULL */
  bool suffix_read, inexact, returning, stopped;
  bool frozen;         /* inside a `freeze` of this function's body */
  int share, n_shares; /* the evaluation of the innermost `share`, 0 outside; how many there were */
  vtb__val result;     /* of `return` */
  struct vtb__model_call *models; /* those that are being evaluated, the innermost first */
  vtb__env *step_env;             /* of the recurrence that was built last */
  vtb__prepared prepared[VTB__PREPARE_FIELDS];
  vtb_map blocks; /* key -> vtb__instance */
  vtb_map steps;  /* key -> STEP function */
  vtb_map consts; /* declaration's place -> vtb__val */
  vtb_map orders; /* key and layout -> the positions of path(by = ...) */
  int64_t batch;  /* VTB_DYN, or the size the entry's inputs have */
  int64_t n_steps;
  int n_streams, n_loops, n_insts, calls, depth, errors_before;
};

/* False, after a message, if an input or a param has more than VTB__MAX_ELEMENTS. */
bool vtb__check_elements(vtb__eval *e, const vtb_type *t, const char *what, vtb_span span);
/* False, after a message, if an instruction of a step or of an optimizer depends on a longer row of
 * others than VTB__MAX_CHAIN: the passes look at their equations in depth. */
bool vtb__check_chain(vtb__eval *e, const vtb_func *f, const char *what, const char *name);
/* Reports and gives VTB__ERR. */
vtb__val vtb__report(vtb__eval *e, int code, vtb_span span, const char *fmt, ...) VTB_PRINTF(4, 5);
/* Tells the options' observer, if there is one, what stands at a place. */
void vtb__observe(vtb__eval *e, vtb_span at, vtb__val v);
/* A sentence of advice below the message before. */
void vtb__help(vtb__eval *e, const char *fmt, ...) VTB_PRINTF(2, 3);
/* The caller of an entry did not give the shape of the tensor `p`. */
void vtb__report_shape(vtb__eval *e, const vtb_param *p);
/* "did you mean" for `name`, if one of the candidates is near; false if none is. */
bool vtb__suggest_help(vtb__eval *e, const char *name, const char *const *names, size_t n);
/* Text of a value's kind or a tensor's type, in the arena: "an int", "tokens f32[B, N=196,
 * C=192]". */
const char *vtb__describe(vtb__eval *e, vtb__val v);
const char *vtb__type_string(vtb__eval *e, const vtb_type *t);
/* Counts one step of evaluation; false once the limit is reached (reported once). */
bool vtb__tick(vtb__eval *e, vtb_span span);

/* env.c */
vtb__binding *vtb__env_find_here(vtb__env *env, const char *name);
vtb__binding *vtb__env_bind(vtb__eval *e, const char *name, vtb__val v, const char *fixed,
                            vtb_span span);
/* A body inside the current one is over; its variables are remembered for messages. */
void vtb__env_end(vtb__eval *e, vtb__env *inner);
/* Removes a variable, or gives it back what it was bound to before: `was`. */
void vtb__env_unbind(vtb__eval *e, const char *name, const vtb__binding *was);
/* The value of a variable as seen from the innermost body; false if there is none. */
bool vtb__env_get(vtb__eval *e, const char *name, vtb_span span, vtb__val *out);
bool vtb__env_has(vtb__eval *e, const char *name);

/* eval.c */
static inline vtb__val vtb__expr(vtb__eval *e, const vtb_expr *x) {
  return e->evaluator->expr(e, x);
}
/* With the type that the place expects, so that bare choice names are understood; checked and
 * converted. */
static inline vtb__val vtb__expr_as(vtb__eval *e, const vtb_expr *x, const vtb_type_expr *type,
                                    const char *what) {
  return e->evaluator->expr_as(e, x, type, what);
}
/* Text of a string expression, NULL after an error. e->suffix_read says whether it contains
 * {suffix}. */
static inline const char *vtb__text(vtb__eval *e, const vtb_expr *x) {
  return e->evaluator->text(e, x);
}

/* coerce.c */
vtb__val vtb__coerce(vtb__eval *e, vtb__val v, const vtb_type_expr *type, vtb_span span,
                     const char *what, bool config);
bool vtb__is_tensor_type(const vtb_type_expr *t);
bool vtb__is_function_type(const vtb_type_expr *t); /* block or model: what is called */
/* Axes of the grid of an image type: 1 series, 2 image, 3 video; 0 for other names. */
int vtb__image_rank(const char *type);
/* The choice's name if `word` is that or an alias; NULL. */
const char *vtb__choice_find(const vtb_type_expr *t, const char *word);
vtb__val vtb__chosen(vtb__eval *e, const char *word, const vtb_type_expr *t, vtb_span span);

/* eval_stmt.c */
/* Runs statements; the value of the last expression statement, else VTB__NIL. Stops at return
 * (e->returning). */
vtb__val vtb__body(vtb__eval *e, const vtb_stmt_list *body);
/* The same, and a return inside ends here. */
static inline vtb__val vtb__body_value(vtb__eval *e, const vtb_stmt_list *body) {
  return e->evaluator->body_value(e, body);
}
vtb__val vtb__run_body_value(vtb__eval *e, const vtb_stmt_list *body);

/* collect.c */
/* [repeat n as i { e }]: the list of the body's values. */
vtb__val vtb__collect(vtb__eval *e, const vtb_expr *x);
bool vtb__repeat_count(vtb__eval *e, const vtb_expr *x, int64_t *n); /* false after an error */

/* iterate.c */
void vtb__iterate(vtb__eval *e, const vtb_stmt *s);

/* eval_op.c */
vtb__val vtb__unary(vtb__eval *e, vtb_unary_op op, vtb__val v, vtb_span span);
vtb__val vtb__binary(vtb__eval *e, vtb_binary_op op, vtb__val a, vtb__val b, vtb_span span);
/* The elementwise op on tensors and numbers, layouts merged. */
/* An op of ir/scalar_ops.def: n tensors or numbers, brought to the same axes. */
vtb__val vtb__elementwise(vtb__eval *e, vtb_op op, const vtb__val *a, int n, vtb_span span);
vtb__val vtb__elementwise2(vtb__eval *e, vtb_op op, vtb__val a, vtb__val b, vtb_span span);
vtb_value *vtb__as_tensor(vtb__eval *e, vtb__val v, vtb_span span); /* numbers become constants */
/* The builder, at `span`; counts the instruction. NULL past the limit. */
vtb_builder *vtb__at(vtb__eval *e, vtb_span span);

/* eval_call.c */
vtb__val vtb__call(vtb__eval *e, const vtb_expr *x);
/* Binds parameters as variables of e->env, defaults included. False after an error. `used` may be
 * NULL. */
bool vtb__bind_params(vtb__eval *e, const vtb_decl *d, const vtb__actual *args, size_t n,
                      vtb__env *caller_env, const vtb_file *caller_file, vtb_span span);
/* Until vtb__leave_call, messages come from within a call of `d` at `span`. */
void vtb__enter_call(vtb__eval *e, vtb_diag_call *call, const vtb_decl *d, vtb_span span);
void vtb__leave_call(vtb__eval *e, const vtb_diag_call *call);
/* Evaluates a body with its parameters bound; reports a body without a value. */
vtb__val vtb__run_body(vtb__eval *e, const vtb_decl *d, vtb__env *env, vtb_span span);
const vtb_param *vtb__param_find(const vtb_decl *d, const char *name);
/* The body of d as a function of its own for arguments of these types, made once: `what` tells
 * declarations apart. Its operands are those of a call here. NULL after a message. */
vtb__instance *vtb__instance_of(vtb__eval *e, const char *what, const vtb_decl *d, vtb__env *bound,
                                vtb_span span);
/* The n_results tensors that a call of it gives; updates of buffers are told. False after a
 * message. */
bool vtb__instance_results(vtb__eval *e, const vtb__instance *in, const vtb_inst *call,
                           vtb__val *out);
static inline vtb__val vtb__const(vtb__eval *e, const vtb_decl *d) {
  return e->evaluator->constant(e, d);
}

/* eval_model.c: a model called inside another; the entry is the outermost, without a frame. */
typedef struct vtb__model_call {
  const vtb_decl *decl;
  const vtb__frame *frame; /* its inputs and outputs are this call's; NULL: the program's */
  vtb_span span;
  vtb__actual *inputs; /* given, with their values; those without a name in order */
  size_t n_inputs;
  bool *taken;                  /* by input */
  int64_t batch;                /* samples, as sizes say them; 0: not known yet */
  VTB_VEC(vtb__output) missing; /* inputs that are not given, with what stands for them */
  VTB_VEC(vtb__val) outputs;
  struct vtb__model_call *up;
} vtb__model_call;
vtb__val vtb__call_model(vtb__eval *e, const vtb_decl *d, const vtb__actual *args, size_t n,
                         vtb_span span);
/* The call whose body is being evaluated, not one of a function of the program; else NULL. */
static inline vtb__model_call *vtb__called_model(const vtb__eval *e) {
  return e->models && e->models->frame && e->models->frame == e->frame ? e->models : NULL;
}
/* The value of an input of it, which is declared as `type` in the layout l. */
vtb__val vtb__model_input(vtb__eval *e, vtb__model_call *m, vtb_name name, const vtb_type *type,
                          const vtb__layout *l);

/* eval_param.c */
/* Scopes and suffix applied; reports names that a checkpoint cannot hold. */
const char *vtb__official(vtb__eval *e, const char *name, vtb_span span);
vtb__val vtb__eval_param(vtb__eval *e, const vtb_expr *x);
/* The weight of the current function that `like` describes, of that type, made if need be; NULL
 * after an error. like.arg: the block's argument that it is for, or NULL; like.made: what asks for
 * it, the param or the call of the block it belongs to. */
vtb_value *vtb__weight_get(vtb__eval *e, vtb__weight like, const vtb_type *type);
/* True if the options freeze all params of the scope that is being evaluated: what is called there
 * needs no gradients of them. */
bool vtb__freezes_scope(const vtb__eval *e);
/* The i32 scalar that op random hashes; fresh: one of its own, for a call. */
vtb_value *vtb__seed(vtb__eval *e, bool fresh, vtb_span span);
bool vtb__init_builtin(const char *name);
vtb__val vtb__init_value(vtb__eval *e, const char *name, const vtb__val *args, size_t n,
                         vtb_span span);
const char *vtb__tap_name(vtb__eval *e, const char *name); /* with the prefix of `tapped` */
void vtb__tap(vtb__eval *e, const vtb_expr *name, const vtb_expr *value, vtb_span span);

/* names.c: what dumps call a value. Values of other functions and arguments keep their names. */
/* The scopes so far; in none, the function in line whose body it is; "" in neither. */
const char *vtb__scope(const vtb__eval *e);
void vtb__name_assigned(vtb__eval *e, vtb__val v, const char *variable); /* by a statement */
void vtb__name_scoped(vtb__eval *e, vtb__val v);                         /* the value of a scope */
/* The result of a builtin, if it was made by it: its id is at least first_id. */
void vtb__name_built(vtb__eval *e, vtb__val v, const char *builtin, int first_id);

/* A letter for an axis of an einsum, its name's first (B: b, heads: h) if `used` lacks it. */
char vtb__axis_letter(const char *axis, const char *used);
/* Letters of the first n axes, none of `used`, which are at most 18, and all distinct; out has room
 * for n + 1. */
void vtb__axis_letters(const vtb_type *t, int n, const char *used, char *out);

/* optimizer.c: the rule of an optimizer as the frame's function; values by parameter. */
void vtb__optimizer_entry(vtb__eval *e, const vtb_decl *d, const vtb__val *values);

/* schedule.c: what the body gives an update; params: its hyperparameters. False after errors. */
bool vtb__schedule_at(vtb__eval *e, const vtb_decl *d, const vtb__env *params, const vtb_moment *m,
                      vtb_pace *pace);

/* update.c: records that `buffer`, an argument of the current function, becomes `value`. False
 * after an error. */
bool vtb__add_update(vtb__eval *e, const vtb_value *buffer, vtb_value *value, vtb_span span);

/* prepare.c: prepare(...) of a model's body; that of a preset, which holds over those of lower
 * levels, the model's being 0; then the module's text. */
vtb__val vtb__prepare(vtb__eval *e, const vtb_expr *x);
void vtb__prepare_preset(vtb__eval *e, const vtb_decl *preset, int level);
void vtb__set_preparation(vtb__eval *e);

/* objective.c: a `loss` or `metric` statement; then the entry's returns, its measures among them,
 * which go again, with the inputs that only they read, unless the options want them. */
void vtb__measure(vtb__eval *e, const vtb_stmt *s);
void vtb__set_returns(vtb__eval *e);
void vtb__drop_objective(vtb__eval *e);

/* augment.c: `augment { }`, and the inputs that it is of, which are told when they are declared;
 * view: its type, NULL of others. At the model's end they must fit together. */
vtb__val vtb__augment(vtb__eval *e, const vtb_stmt *s);
void vtb__declare_input(vtb__eval *e, vtb_name name, vtb__val v, const vtb_type_expr *view);
void vtb__check_inputs(vtb__eval *e);
/* The one-hot table, not finite where labels are no class that `augment` in the step made. */
vtb_value *vtb__check_classes(vtb__eval *e, vtb_value *labels, vtb_value *table, vtb_span span);

/* along.c */
vtb__val vtb__along(vtb__eval *e, const vtb_expr *x);

/* index.c: base[places]; the layout of tokens from .. to - 1 */
vtb__val vtb__index(vtb__eval *e, const vtb_expr *x);
const vtb__layout *vtb__tokens_part(vtb__eval *e, const vtb__layout *l, int64_t from, int64_t to);

/* layout.c */
vtb__val vtb__path_val(vtb__eval *e, vtb__path p);
vtb__val vtb__enter_path(vtb__eval *e, vtb__val v, const vtb__path *p, vtb_span span);
vtb__val vtb__leave_path(vtb__eval *e, vtb__val v, const vtb__path *p, vtb_span span);
/* "txhxw" of a grid; "3 a side" for a size without axes. */
const char *vtb__grid_text(vtb__eval *e, const vtb_grid *g);

/* path_by.c: orders by a key of each cell */
typedef struct vtb__path_by vtb__path_by;
vtb__val vtb__path_by_call(vtb__eval *e, const vtb_expr *key);
/* Storage positions of all tokens of l, in order; NULL after a message. */
int64_t *vtb__path_by_list(vtb__eval *e, const vtb__path_by *by, const vtb__layout *l,
                           vtb_span span);

const vtb__layout *vtb__layout_new(vtb__eval *e, vtb__layout l);
bool vtb__is_param(const vtb__eval *e, const vtb_value *v);
/* Warns where the channels of x are those of all windows: "and WHAT". */
void vtb__warn_windows(vtb__eval *e, vtb_span span, vtb__val x, const char *what);
/* Layout of a result that has the shape of a and b together; reports if their orders differ. */
/* The attribute `layout` (ir/path.h) of n tokens that stand in l, in storage order; NULL if l says
 * nothing of them: no grid, no extra tokens, or a part of the sequence. */
const char *vtb__layout_attr(vtb__eval *e, const vtb__layout *l, int64_t n);
/* The attribute `windows` of tokens that are places of windows; NULL if they are not. */
const char *vtb__windows_attr(vtb__eval *e, const vtb__layout *l);
const vtb__layout *vtb__layout_merge(vtb__eval *e, vtb__val a, vtb__val b, vtb_span span);

/* unknown.c: reports a name that nothing has; `what`: "name" or "function". */
vtb__val vtb__unknown_name(vtb__eval *e, const char *what, const char *name, vtb_span span);
static inline vtb__val vtb__unknown(vtb__eval *e, const char *what, const char *name,
                                    vtb_span span) {
  return e->evaluator->unknown(e, what, name, span);
}

/* unused.c: warnings about the root file's names, and params of the entry, that have no effect. */
void vtb__warn_unused(vtb__eval *e);
void vtb__warn_hidden(vtb__eval *e); /* declarations with the name of a builtin */
void vtb__warn_unreached(vtb__eval *e);

/* hint.c: messages that say what would have worked. */
void vtb__hint_axes(vtb__eval *e, vtb__val v);
/* A help that says what may have been meant by a call of a builtin that does not fit. */
void vtb__hint_call(vtb__eval *e, const char *builtin);
/* After a message that a and b do not broadcast. */
void vtb__hint_shapes(vtb__eval *e, const vtb_type *a, const vtb_type *b);

void vtb__hint_batch(vtb__eval *e, const vtb_type *x,
                     const vtb_type *y);                         /* it meets another axis */
void vtb__chunk_help(vtb__eval *e);                              /* after a chunk below 1 */
void vtb__list_hyperparameters(vtb__eval *e, const vtb_decl *d); /* as a help */
/* Models and presets of the root, as a help. */
void vtb__list_entries(vtb__eval *e, const vtb_file *root);
/* Warns that `taken` is taken because nobody said which of the root's models. */
void vtb__several_models(vtb__eval *e, const vtb_file *root, const vtb_decl *taken);

/* builtin.c; what builtins share is in builtin.h */
typedef struct vtb__builtin vtb__builtin;
const vtb__builtin *vtb__builtin_find(const char *name);
/* The name that an old one has now, NULL: it is none; a warning if it is one. */
const char *vtb__name_now(const char *name);
void vtb__warn_of_old(vtb__eval *e, vtb_name old);
size_t vtb__builtin_names(const char ***out); /* malloc'd array */
/* `name`: what it is called in messages, and by functions that several rows share. */
vtb__val vtb__builtin_call(vtb__eval *e, const vtb__builtin *b, const char *name,
                           const vtb_expr *x);
bool vtb__builtin_is_value(const vtb__builtin *b); /* false: only calls of it have a meaning */
bool vtb__rounds(const vtb__builtin *b); /* floor and its like: gives an int of any number */

/* word.c */
extern const char *const vtb__words[]; /* of orders, modes and the like; NULL ends */
bool vtb__is_word(const char *name);   /* one of these, or an initialiser */
bool vtb__builtin_name(vtb__eval *e, const char *name,
                       vtb__val *out); /* rows, auto, zeros, training ... */

/* recurrence.c */
vtb__val vtb__call_recurrence(vtb__eval *e, const vtb_decl *d, const vtb__actual *args, size_t n,
                              vtb_span span);
typedef struct vtb__entry_values { /* what a config says about a recurrence, and what came of it */
  vtb__val *values;                /* hyperparameters, by parameter */
  vtb__val mode;                   /* VTB__NIL if not given */
  int64_t chunk;
  int64_t batch, tokens, heads;
  bool has_state;
} vtb__entry_values;
bool vtb__recurrence_entry(vtb__eval *e, const vtb_decl *d, vtb__entry_values *given);
/* Gives two step tensors shapes that broadcast by axis name; the names of the result in *out. */
/* step_axes.c */
bool vtb__step_align(vtb__eval *e, vtb_value **a, vtb_value **b, vtb_type *out, vtb_span span);

/* resample.c: rows of weights, out x in, of interpolating `in` samples at `out` places with a
 * filter that is known. */
bool vtb__resample_knows(const char *filter);
double *vtb__resample_weights(vtb__eval *e, int64_t in, int64_t out, const char *filter,
                              bool antialias, bool align_corners, double coefficient);

#endif
