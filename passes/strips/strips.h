/* Between the files of this folder. A model whose tokens are read one way runs strip by strip of
 * the image's rows: docs/strips.md. find.c says of every value how it follows the rows, emit.c
 * computes a function's values of some rows, strips.c puts the loop together.
 *
 * Rows are those of the coarsest grid of patches. They come in three parts: those at the head, by
 * themselves where tokens stand before the grid or values lag; strips of equal height, the loop;
 * and the rest, with what stands behind the grid.
 *
 * Everything lives in the module's scratch memory.
 */
#ifndef VTB_STRIPS_H
#define VTB_STRIPS_H

#include "ir/convolution.h"
#include "passes/passes_internal.h"
#include "passes/strips/run.h"

typedef enum vtb__when {
  VTB__WHOLE, /* does not follow the rows: there before the first strip */
  VTB__ROWS,  /* has an axis along which the rows come */
  VTB__LATE   /* there behind the last strip: made of what strips hand on */
} vtb__when;

/* How a value follows the rows: along `axis` are `head` elements, `per_row` for each row, `tail`.
 * With the first k rows of the image known, the value is known for the first k - lag. */
typedef struct vtb__flow {
  vtb__when when;
  int axis;
  int64_t head, per_row, tail, lag;
  int slot; /* LATE: of what it is the last; -1: computed of such */
} vtb__flow;

/* What a strip hands to the next one. */
typedef struct vtb__strip_slot {
  vtb_type type;
  double init;                /* before the first strip, everywhere */
  const vtb_value *from;      /* or this WHOLE value */
  struct vtb__strip_func *of; /* or what slot `at` of the called function has */
  const vtb_inst *call;
  int at;
} vtb__strip_slot;

enum { VTB__HEAD, VTB__STRIP, VTB__REST }; /* parts */

/* A function made of a part of another, whose arguments lag by so many rows more. */
typedef struct vtb__strip_made {
  int part;
  int64_t shift;
  vtb_func *f;
} vtb__strip_made;

/* A function whose arguments follow the rows in one way; the least of them lags by none. */
typedef struct vtb__strip_func {
  vtb_func *f;
  const vtb_inst *last;            /* of its instructions: the entry gets more */
  vtb__flow *of;                   /* by value id */
  int *slot_of;                    /* by order of instructions: the first of its slots */
  struct vtb__strip_func **callee; /* by order of instructions: of calls that follow the rows */
  VTB_VEC(vtb__strip_slot) slots;
  VTB_VEC(vtb__strip_made) made;
  int64_t need; /* rows of the head, at least, where it lags by none */
  struct vtb__strip_func *next;
} vtb__strip_func;

typedef struct vtb__strips {
  vtb_module *module;
  vtb_diags *diags;
  vtb__strip_func *funcs;
  VTB_VEC(const vtb_inst *) calls; /* that are being looked into, the innermost last */
  bool has_head;                   /* something stands before the rows */
  int64_t rows, tokens;            /* of the grid; tokens of a row */
  int64_t head, height, count;     /* rows of the head, of a strip; strips */
} vtb__strips;

/* ---- find.c ---------------------------------------------------------------------------------- */

/* f with arguments that follow the rows so; NULL where it cannot run in strips, which is told. */
vtb__strip_func *vtb__strips_find(vtb__strips *s, vtb_func *f, const vtb__flow *args);

/* ---- ways.c: how instructions follow the rows ------------------------------------------------ */

/* The lag, in rows, by which the arguments of a call lag at least. */
int64_t vtb__strips_shift(const vtb__strip_func *f, const vtb_inst *call);
/* Elements of a value of all rows. */
int64_t vtb__strips_total(const vtb__strips *s, const vtb__flow *x);
/* The axis of an operand along which rows come where they come along `axis` of the result; -1: it
 * has none. Of recurrences and folds sequences alone have one. */
int vtb__strips_axis(const vtb_inst *inst, int operand, int axis);
/* The axis of the result along which those of an operand come; below 0 as in ir/axes.h. */
int vtb__strips_after(const vtb_inst *inst, int operand, int axis);
/* What a reshape makes of it. */
bool vtb__strips_reshaped(const vtb__strips *s, const vtb_type *from, const vtb_type *to,
                          vtb__flow *x);
/* The axis of a grid whose lines are the rows, or of its tokens where there is one line. */
int vtb__strips_outermost(const vtb_depthwise *d);
/* A convolution that keeps the lines of its grid, dwconv or im2col, reads so many lines above and
 * below its own. */
typedef struct vtb__window {
  int64_t lines, width; /* of a row; elements of a line along the axis of the result */
  int64_t reach;        /* lines above, and below */
  int64_t lag;          /* rows by which the result lags */
} vtb__window;
bool vtb__strips_window(const vtb__strips *s, const vtb_inst *inst, const vtb__flow *x,
                        vtb__window *w);
/* The convolution reads this many tokens before its own along the sequence, and none behind; -1:
 * it does not. */
int64_t vtb__strips_causal(const vtb_inst *inst);
/* The order of the tokens is another than that of the rows: "from the last one on"; NULL: it is. */
const char *vtb__strips_order(const vtb_inst *inst);

/* ---- values.c, emit.c ------------------------------------------------------------------------ */

/* A function's values while a part of it is computed, in a function of its own or in the entry. */
typedef struct vtb__strip_part {
  vtb__strips *s;
  vtb__strip_func *f;
  int part;
  int64_t shift;
  vtb_builder b;
  vtb_value **of;   /* by id of f's values: what stands for them */
  vtb_value **slot; /* handed on so far */
  vtb_value *row;   /* of a strip: its first row, i32 */
  /* What stands for a WHOLE value that is not in `of`; NULL: it is computed where it is needed. */
  vtb_value *(*outer)(struct vtb__strip_part *p, const vtb_value *v);
  void *user;
} vtb__strip_part;

/* Elements of a part along the axis of x. */
int64_t vtb__strips_count(const vtb__strip_part *p, const vtb__flow *x);
/* Computes what follows the rows, and what is handed on. */
void vtb__strips_emit(vtb__strip_part *p);
/* What stands for a value of f that is WHOLE, or LATE. */
vtb_value *vtb__strips_value(vtb__strip_part *p, const vtb_value *v);
/* The part's elements of a WHOLE value along an axis. */
vtb_value *vtb__strips_cut(vtb__strip_part *p, const vtb_value *v, int axis, const vtb__flow *x);
/* The part's elements of a value that stands where the part is computed. */
vtb_value *vtb__strips_out(vtb__strip_part *p, vtb_value *v, int axis, const vtb__flow *x);
/* What slot i of f holds before the first strip. */
vtb_value *vtb__strips_first(vtb__strip_part *p, int i);

#endif
