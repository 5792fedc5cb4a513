/* Builtin functions: rows of builtins.def, and how a function of a row gets its arguments.
 *
 * A row says which parameters there are and of which kind. The call's arguments are evaluated,
 * bound to them by name or by place, and checked before the function runs, which asks for them by
 * name:
 *
 *   vtb__val vtb__b_range(vtb__eval *e, const vtb__args *a) { int64_t n = vtb__arg(a, "n").u.i; ...
 *
 * Included by frontend/lang only. Everything lives in the evaluator's arena.
 */
#ifndef VTB_LANG_BUILTIN_H
#define VTB_LANG_BUILTIN_H

#include "frontend/lang/value.h"

typedef struct vtb__argument {
  const char *name;
  vtb__val value; /* its default, VTB__NIL if that says nothing, where it is not given */
  bool given;
  vtb_span span;
} vtb__argument;

typedef struct vtb__args {
  const char *name;  /* of the builtin, as it was called */
  vtb_span span;     /* of the call */
  vtb__argument *at; /* by parameter; of "x: tensor..." one for each that is given */
  size_t n;
  vtb__argument *more; /* named ones that are not the builtin's, where it takes them */
  size_t n_more;
} vtb__args;

typedef vtb__val vtb__builtin_fn(vtb__eval *e, const vtb__args *a);
typedef enum vtb__builtin_where {
  VTB__anywhere,
  VTB__outside, /* of a step */
  VTB__inside
} vtb__builtin_where;
struct vtb__builtin {
  const char *name;
  vtb__builtin_fn *fn; /* NULL: called before its arguments are evaluated */
  vtb__builtin_where where;
  const char *parameters, *doc;
};

/* builtin.c: those that are not rows of ir/scalar_ops.def, and those; NULL names end. */
#define VTB_BUILTIN(name, function, where, parameters, doc) vtb__builtin_fn vtb__b_##function;
#include "frontend/lang/builtins.def"
#undef VTB_BUILTIN
extern const vtb__builtin vtb__scalar_builtins[];

/* builtin_args.c */
typedef struct vtb__parameter {
  const char *name, *kind, *otherwise; /* otherwise: the default's text; NULL: it has to be given */
  bool any;                            /* any number of them */
} vtb__parameter;
enum { VTB__MOST_PARAMETERS = 8 };
/* The parameters of the form at *at in a row's text, which moves behind it; returns their
 * number. */
int vtb__builtin_form(vtb_arena *arena, const char **at, vtb__parameter out[VTB__MOST_PARAMETERS]);
/* Binds the n values, of which those of `list` are the last, to the parameters of
 * the row; false after a message. */
bool vtb__args_bind(vtb__eval *e, const vtb__builtin *row, const vtb_arg_list *list,
                    const vtb__val *values, size_t n, vtb__args *a);
/* The argument of a parameter that the row has: numbers are floats, a size is a size. */
const vtb__argument *vtb__arg_of(const vtb__args *a, const char *name);
static inline vtb__val vtb__arg(const vtb__args *a, const char *name) {
  return vtb__arg_of(a, name)->value;
}
/* A size as the extents of `rank` axes, the outermost first; false after a message. */
bool vtb__sides(vtb__eval *e, const vtb__args *a, const char *name, int rank, int64_t *out);
/* The last axis of x is no image's width; false after a message. */
bool vtb__channels_last(vtb__eval *e, const vtb__args *a, vtb__val x);

/* builtin_along.c: the axis that the argument `axis` names, the last without one. */
typedef struct vtb__axis {
  vtb__val x; /* the operand; opened: tokens as [B, grid..., C], one of whose axes is meant */
  int64_t axis;
  bool tokens;          /* the tokens', which reductions take away */
  bool of_grid, opened; /* an axis of the grid: of an image, or of such tokens */
  vtb_span span;
} vtb__axis;
/* False after a message: there is no such axis, or none is named of an image. */
bool vtb__take_axis(vtb__eval *e, const vtb__args *a, vtb__val x, vtb__axis *out);
/* y, made of w->x along the axis, as what it is of: tokens and images with another extent there;
 * tokens of another number are a sequence. */
vtb__val vtb__along_axis(vtb__eval *e, const vtb__axis *w, vtb_value *y);
/* The layout of w->x where the axis has size 1, or is gone. */
const vtb__layout *vtb__reduced_layout(const vtb__axis *w);

/* builtin_batch.c: concat and split along the batch; n is the word `batch`. */
vtb__val vtb__concat_batches(vtb__eval *e, const vtb__args *a, size_t n);
vtb__val vtb__split_batches(vtb__eval *e, const vtb__args *a);
/* The number of each sample of n joined batches, f32 [n*B]: those of the next begin where one
 * ends, rows that only fill it up left out. */
vtb_value *vtb__sample_numbers(vtb__eval *e, int64_t n, vtb_span span);
/* Samples of x [B, ...]: i where i + by was, round the end; the last first; those of `indices`. */
vtb__val vtb__roll_batch(vtb__eval *e, const vtb__args *a, vtb__val x, int64_t by);
vtb__val vtb__reverse_batch(vtb__eval *e, const vtb__args *a, vtb__val x);
vtb__val vtb__gather_batch(vtb__eval *e, const vtb__args *a);

/* builtin_tensor.c: how many samples the batch has, a number that is known when it runs */
vtb_value *vtb__n_samples(vtb__eval *e, vtb_span span);

/* builtin_order.c: 1 where the index is 0 .. n - 1, along a new last axis called `name`. */
vtb_value *vtb__index_table(vtb__eval *e, vtb_value *idx, int64_t n, const char *name,
                            vtb_span span);

/* builtin_tokens.c */
/* True if x is [B, N, C] of a complete grid and nothing else, in storage order if asked for. */
bool vtb__needs_grid(vtb__eval *e, const vtb__args *a, vtb__val x, bool storage);
/* The type [B, grid..., C] of tokens [B, N, C]. */
vtb_type vtb__grid_type(const vtb_type *tokens, const vtb_grid *g);
/* Tokens of a complete grid as [B, C, grid...]; NULL after a message. */
vtb_value *vtb__grid_as_image(vtb__eval *e, const vtb__args *a, vtb__val x);

/* builtin_extra.c */
/* Tokens from .. to - 1 of [B, N, ...]. */
vtb_value *vtb__slice_tokens(vtb__eval *e, vtb_value *v, int64_t from, int64_t to, vtb_span span);
/* The patches of tokens x without its extra tokens, in the order they are in. */
vtb_value *vtb__without_extra(vtb__eval *e, vtb__val x, vtb_span span);

/* builtin_grid.c: the grid of x moved by so many places an axis, round its ends */
vtb__val vtb__roll_grid(vtb__eval *e, const vtb__args *a, vtb__val x, vtb__val steps);

#endif
