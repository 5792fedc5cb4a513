/* Reverse mode, between its files: autodiff.c drives, adjoint.c accumulates, autodiff_split.c cuts
 * a function in forward and backward, grad_*.c hold one rule a family of ops.
 *
 * A function is differentiated in a joint function: a copy of its instructions (the forward part)
 * followed by adjoint code that reads forward values directly. Every forward value carries a
 * vtb__node in its scratch pointer. Everything here lives in the module's scratch memory.
 */
#ifndef VTB_AUTODIFF_H
#define VTB_AUTODIFF_H

#include "passes/passes_internal.h"

/* One function of the module, as reverse mode knows it. Sets are unions over all call sites, so
 * that repeated blocks share one backward. */
typedef struct vtb__ad_func {
  vtb_func *func;
  int n_words;    /* of a row of deps */
  uint64_t *deps; /* n_returns rows: the args a return depends on with a derivative */
  bool *wanted;   /* by arg: some site wants its adjoint */
  bool *live;     /* by return: some site has an adjoint for it */
  /* (args) -> (returns, further saved values); may be func itself; NULL: no gradient is asked for
   * */
  vtb_func *fwd;
  /* (args[bwd_args], results[saved], adjoints of live returns) -> adjoints of wanted args */
  vtb_func *bwd;
  vtb_func *again; /* both in one: (args, adjoints of live returns); NULL until it is wanted */
  int n_bwd_args, n_saved;
  int *bwd_args; /* numbers of args */
  int *saved;    /* numbers of fwd's results */
} vtb__ad_func;

typedef struct vtb__ad {
  vtb_module *module;
  size_t n_funcs;
  vtb__ad_func *funcs; /* callees first */
  vtb_error *err;
  vtb_status status; /* of the first failure */
  bool values;       /* deps are of values, also where no derivative passes */
  bool keeps;        /* what products of both halves read is saved */
  bool starts;       /* scans save states for their adjoints */
  vtb_map backs;     /* by the name of what a fold calls: its adjoint (grad_fold.c) */
} vtb__ad;

/* One contribution to an adjoint. axis < 0: to the whole value; else to [start, limit) along
 * axis. */
typedef struct vtb__gradient_part {
  vtb_value *value;
  int axis;
  int64_t start, limit;
} vtb__gradient_part;

typedef struct vtb__node {
  bool active; /* depends on a wanted arg, and a live return depends on it */
  bool resolved;
  vtb_value *adjoint;
  VTB_VEC(vtb__gradient_part) parts;
} vtb__node;

/* A joint function being built. */
typedef struct vtb__gradient {
  vtb_builder b; /* appends to the joint function */
  vtb__ad *ad;
  vtb_func *joint;
  vtb_inst *last_forward; /* NULL if the function has no instructions */
  vtb_inst *last_again;   /* the last call whose forward half runs again; NULL: none does */
  bool again;             /* adjoints are at that call, or ahead of it */
  vtb_value **forward;    /* by value id of the original: its copy */
} vtb__gradient;

/* ---- for rules (adjoint.c) ------------------------------------------------------------------- */

/* The adjoint of a forward value, of its type; NULL means zero. Final: no contribution may
 * follow. */
vtb_value *vtb__adjoint(vtb__gradient *g, vtb_value *v);
/* The same with zeros made explicit. */
vtb_value *vtb__adjoint_or_zeros(vtb__gradient *g, vtb_value *v);
bool vtb__wants(const vtb_value *v);
/* Adds `d`, of v's type or of one that v's type broadcasts to, if v wants an adjoint. */
void vtb__contribute(vtb__gradient *g, vtb_value *v, vtb_value *d);
/* Adds `d` to elements [start, limit) of axis. */
void vtb__contribute_slice(vtb__gradient *g, vtb_value *v, vtb_value *d, int axis, int64_t start,
                           int64_t limit);
vtb_value *vtb__build_pad(vtb_builder *b, vtb_value *x, int axis, int64_t low, int64_t high,
                          int64_t step);

/* ---- what forward mode asks, too ------------------------------------------------------------- */

/* The derivative of an elementwise instruction by an operand, times d; NULL: zero
 * (grad_scalar.c). */
vtb_value *vtb__scalar_derivative(vtb_builder *b, const vtb_inst *inst, int operand, vtb_value *d);
/* 1 at the first of the largest elements that a reduce_max chooses, else 0; NULL: it chooses none
 * (grad_shape.c). */
vtb_value *vtb__first_largest(vtb_builder *b, const vtb_inst *inst);
/* v where tokens are of the grid of a depthwise convolution, 0 at the others, which its weights do
 * not see (grad_structured.c). */
vtb_value *vtb__on_grid(vtb_builder *b, const vtb_inst *inst, vtb_value *v);

/* ---- rules ----------------------------------------------------------------------------------- */

/* Emits the adjoints of the operands of `inst`. Called when a result has an adjoint and an operand
 * wants one. */
typedef void (*vtb__grad_rule)(vtb__gradient *g, vtb_inst *inst);
#define VTB_OP(name, klass, min, max, shape, interp, grad, ...)                                    \
  void vtb__grad_##grad(vtb__gradient *g, vtb_inst *inst);
#include "ir/ops.def"
#undef VTB_OP

/* ---- splitting (autodiff_split.c) ------------------------------------------------------------ */

/* Makes fi->fwd and fi->bwd from the joint function: seeds are the adjoint arguments, by live
 * return; outs the adjoints, by wanted arg, none NULL. */
void vtb__ad_split(vtb__ad *ad, vtb__ad_func *fi, vtb_func *joint, vtb_inst *last_forward,
                   vtb_value *const *outs, int n_outs);

#endif
