/* Between the files of the recurrence pass: the normal form of one recurrence, and what is built
 * from it.
 *
 * The step function works on step shapes; its batched copy has up to three leading axes more: none
 * (constants), heads [h, X...], or everything [B, N, h, X...]. Several head axes are one here, none
 * is one of size 1.
 */
#ifndef VTB_PASSES_RECURRENCE_H
#define VTB_PASSES_RECURRENCE_H

#include "passes/passes_internal.h"

/* Dependences of a step value: bit j for state j, and these. */
enum { VTB__MAX_STATES = 56 };
#define VTB__DEP_SEQ (UINT64_C(1) << 60)   /* a per-step input */
#define VTB__DEP_SCALE (UINT64_C(1) << 61) /* state_scale */
#define VTB__DEP_KNOWN (UINT64_C(1) << 62)
#define VTB__DEP_STATES ((UINT64_C(1) << VTB__MAX_STATES) - 1)

/* A factor of a product, v or 1/v. The product has a frame of axes; axis[a] is the frame axis of
 * axis a of v, -1 where v has size 1. Frame axes ascend with a. */
typedef struct vtb__factor {
  vtb_value *v;
  int sign;
  int axis[VTB_MAX_RANK];
} vtb__factor;

typedef struct vtb__term {
  double coef;
  vtb__factor *at;
  int n, cap;
} vtb__term;

/* A contraction of a state with a vector that no state enters: sum over the key axis of q * S,
 * times `post`, and with sum_value also over the other axis. */
typedef struct vtb__read {
  vtb_inst *inst;
  int state;
  bool old; /* reads the state before this step */
  int key;  /* axis of the state that is contracted; -1: any */
  vtb__term factors;
  bool sum_value;
} vtb__read;

/* One emitted linscan and the readout it was made for. */
typedef struct vtb__scan {
  vtb__term q;
  bool old, any_q; /* any_q: made for the final state alone */
  vtb_value *y, *z, *s_last, *n_last;
} vtb__scan;

/* key (c + S^T b)^T, added to a state S that the update reads. Factors of the key are on axis 0; c
 * and b are values of the step of one axis or none, NULL for 0. */
typedef struct vtb__row {
  vtb__term key;
  vtb_value *c, *b;
} vtb__row;

/* A state with corrections: an update of the normal form once w, arguments of the step that op
 * delta makes, stand for the lines of the first `rank` rows; the other rows do not read the state,
 * and w is their c. */
typedef struct vtb__delta {
  int key; /* axis of the state */
  vtb__row *rows;
  vtb_value **w;
  int n_rows, rank;
} vtb__delta;

/* s' = a * s + sum of u. Terms of u that have the same gain are one; without a running scale there
 * is one. A state is either read whole (linscan with K = 1 and all its elements as V) or only
 * through contractions over `key` (linscan with that axis as K); a vector read like its matrix
 * becomes the normalizer of that. */
typedef struct vtb__state {
  vtb_value *old, *now;
  const vtb_type *type;
  vtb__term a, *u; /* coef 0: nothing */
  int n_u;         /* at least 1 */
  bool whole;
  int key;
  int leader, normalizer; /* indices of states, or -1 */
  vtb__delta *delta;      /* NULL: none; then u are outer products, a scan each */
  const vtb_inst *blame;  /* why there are none, though the update sums over the state */
  const char *why;
  int scale; /* the running scale it is relative to, or -1 */
  VTB_VEC(vtb__scan) scans;
} vtb__state;

/* A batched value: v has `lead` leading axes (0, 1: heads, 3: B, N, heads) and `rank` step axes.
 * The true value is e^(sum of degree m) times v, one number for each of VTB__MAX_SCALES running
 * scales; NULL: v itself. */
typedef struct vtb__lifted {
  vtb_value *v;
  int lead, rank;
  const double *degree;
} vtb__lifted;

/* A running scale m: one number a head and step, or one for each index of some axes of a state,
 * whose frame its own axes are aligned with at the last. */
typedef struct vtb__scale {
  vtb__lifted m;
  unsigned axes;              /* of the states' frame */
  vtb_dim dims[VTB_MAX_RANK]; /* 1 for the others */
  int rank, state;            /* of m; a state that has it */
  vtb_value *g, *prev, *init; /* log decay, the step before's m [B,N,h,dims]; [B,h,dims] */
  int flat;                   /* the scale that is its largest; -1: not made */
} vtb__scale;
enum { VTB__MAX_SCALES = 16 };

typedef struct vtb__rec {
  vtb_inst *inst;
  vtb_func *step; /* a copy that synthetic values may be added to */
  vtb_diags *diags;
  int n_states, n_inits, n_seqs, n_yields;
  vtb__state *states;
  VTB_VEC(uint64_t) deps; /* by id of step values */
  uint64_t *reach;        /* by state: the states its update depends on, however indirectly */
  VTB_VEC(vtb__read) reads;
  /* bounds: products and sums of shared values grow exponentially when multiplied out */
  int budget, expansions;
  bool exploded;

  vtb_builder b;
  const char *path;
  vtb_dim batch, tokens, heads;
  int n_heads;                 /* head axes before flattening */
  VTB_VEC(vtb__lifted) lifted; /* by id of step values */
  /* e^m can be seen from outside: only factors exp(.) make it, as ir/recurrence.h says */
  bool exact_scale;
  VTB_VEC(vtb__scale) scales; /* those of states first, then what is made of them */
  int n_scales;               /* of states */
} vtb__rec;

/* ---- fold.c: step after step ------------------------------------------------------ */

/* The recurrence as a fold; of a step that can be lifted, does not read its scale and is given no
 * initial one. */
void vtb__rec_emit_fold(vtb__rec *r);

/* ---- terms.c ---------------------------------------------------------------------- */

/* Axis maps of v on a frame of that rank, whose last axis is v's last. */
void vtb__frame_axes(const vtb_value *v, int rank, int *axis);
vtb__factor vtb__factor_of(vtb_value *v, int rank);
unsigned vtb__factor_axes(const vtb__factor *f); /* bit set of frame axes it varies over */
unsigned vtb__term_axes(const vtb__term *t);
/* The same with all that it varies over on one frame axis. */
vtb__factor vtb__factor_on(const vtb__factor *f, int axis);
vtb__term vtb__term_copy(vtb__rec *r, const vtb__term *t);
void vtb__term_push(vtb__rec *r, vtb__term *t, vtb__factor f);
bool vtb__term_take(vtb__term *t, const vtb__factor *f); /* away from it; false: it has none */
/* Traits of a factor: one that varies over other axes than those of a set, a gain, different from
 * step to step. The factors that are, or the others, with the coefficient. */
typedef enum vtb__trait { VTB__BEYOND, VTB__A_GAIN, VTB__CHANGES } vtb__trait;
vtb__term vtb__term_part(vtb__rec *r, const vtb__term *t, vtb__trait trait, unsigned axes, bool is);
vtb__term vtb__term_within(vtb__rec *r, const vtb__term *t, unsigned axes);
vtb__term vtb__term_beyond(vtb__rec *r, const vtb__term *t, unsigned axes);
/* The same factors along the same axes; with the same coefficient; of their gains. */
bool vtb__factors_same(const vtb__term *x, const vtb__term *y);
bool vtb__terms_same(const vtb__term *x, const vtb__term *y);
bool vtb__same_gains(vtb__rec *r, const vtb__term *x, const vtb__term *y);
/* The same product, when axis x_key of the one frame stands for axis y_key of the other and no
 * other axis occurs. */
bool vtb__terms_match(const vtb__term *x, int x_key, const vtb__term *y, int y_key);
/* A value of the step that is the factor's own, or the product, on a frame of that rank, against
 * which it broadcasts. */
vtb_value *vtb__factor_value(vtb_builder *b, const vtb__factor *f, int rank);
vtb_value *vtb__term_value(vtb_builder *b, const vtb__term *t, int rank);
/* Neither a state nor its scale enters v. */
bool vtb__rec_is_stateless(vtb__rec *r, const vtb_value *v);

/* ---- form.c: the normal form ------------------------------------------------------ */

uint64_t vtb__rec_deps(vtb__rec *r, const vtb_value *v);
bool vtb__rec_normal_form(vtb__rec *r); /* false: diagnostics were given */
/* Multiplies `t` by v^sign, taken apart as far as products, quotients and reshapes by ones go. */
void vtb__rec_multiply(vtb__rec *r, vtb__term *t, vtb_value *v, int sign, const int *axis);
/* Axis maps of operand o, of which all axes are in the result, from those of that. */
void vtb__rec_operand_axes(const vtb_inst *user, int o, const int *axis, int *out);
bool vtb__is_gain(vtb__rec *r, const vtb__factor *f);
/* "`C * C`", from the source if there is one. */
const char *vtb__rec_text(vtb__rec *r, const vtb_inst *inst);

bool vtb__rec_given(vtb__rec *r, int state, const vtb_value *v); /* state does not enter v */

/* A polynomial of degree one in one state, or in two that read each other: terms times each, and
 * the rest. */
typedef VTB_VEC(vtb__term) vtb__terms;
enum { VTB__MAX_PAIR_TERMS = 64 };
typedef struct vtb__expansion {
  int states[2], n; /* how many */
  vtb__terms factors[2], rest;
} vtb__expansion;
/* Adds what the state becomes, as far as sums, products with what no state enters and selections by
 * such a condition go. False: it is no such polynomial; diagnostics were given. */
bool vtb__rec_expand(vtb__rec *r, int state, vtb__expansion *e);
bool vtb__reads_scale(const vtb_func *step);
void vtb__rec_find_reach(vtb__rec *r);

/* ---- delta.c, _rows.c, _correct.c: corrections ------------------------------------ */

/* Rewrites the step of every state whose update reads it by sums over one axis; before the normal
 * form. */
void vtb__rec_find_delta(vtb__rec *r);
/* delta_emit.c: makes the corrections of all states, before anything reads them. */
void vtb__rec_emit_corrections(vtb__rec *r);

/* ---- read.c: how states are read -------------------------------------------------- */

void vtb__rec_find_reads(vtb__rec *r); /* fills reads, whole, key, leader, normalizer */
const vtb__read *vtb__rec_read_of(const vtb__rec *r, const vtb_inst *inst);
int vtb__rec_new_state(vtb__rec *r, const vtb_value *v); /* index, or -1 */
int vtb__rec_old_state(const vtb__rec *r, const vtb_value *v);
/* The contraction of a state that `inst` is, if it is one. */
bool vtb__rec_match_read(vtb__rec *r, vtb_inst *inst, vtb__read *read);

/* ---- pair.c: pairs of states that turn each other --------------------------------- */

/* re' = rho (cos(angle) re - sin(angle) im) + common * x_re, and
 * im' = rho (sin(angle) re + cos(angle) im) + common * x_im. */
typedef struct vtb__pair {
  int re, im;             /* states */
  int rank;               /* of their type */
  vtb__term rho;          /* on the states' frame */
  vtb_value *angle;       /* of the step; no state enters it */
  vtb__term common;       /* what all terms of both inputs have */
  vtb_value *x_re, *x_im; /* NULL: zero */
} vtb__pair;
/* The first pair of the step, whose `reach` is known; builds values in r->step. */
bool vtb__rec_find_pair(vtb__rec *r, vtb__pair *out);

/* ---- rotate.c --------------------------------------------------------------------- */

/* The recurrence without its first pair, in place of r->inst, which is gone; NULL: there is
 * none. */
vtb_inst *vtb__rec_rotate(vtb__rec *r);

/* exp(.) cannot grow: its argument is at most 0 whatever the inputs are (ir/ranges.h), or, of a
 * softmax, another factor of the term bounds it, exp(x) / sum(exp(x)). */
bool vtb__rec_is_bounded(const vtb_value *log_gain);
bool vtb__rec_at_most_one(const vtb__factor *gain);
bool vtb__rec_term_bounds(const vtb__term *t, const vtb__factor *gain);

/* ---- scale.c: stabilisation ------------------------------------------------------- */

/* groups.c: which states have a running scale, and which share one; false: diagnostics
 * were given. */
bool vtb__rec_decide_scale(vtb__rec *r);
void vtb__rec_emit_scale(vtb__rec *r);
/* The decay and a term's gain exp(i - m) of a state with a scale: [B,N,h,dims of its scale]. */
vtb_value *vtb__rec_scaled_decay(vtb__rec *r, const vtb__state *s);
vtb_value *vtb__rec_scaled_gain(vtb__rec *r, const vtb__state *s, const vtb__term *u);
/* The last visited token's [B, ...] of x [B, N, ...]. */
vtb_value *vtb__rec_last_token(vtb__rec *r, vtb_value *x);
/* [B, h]: the log scale that final states are relative to. */
vtb_value *vtb__rec_common_scale(vtb__rec *r);
/* The factor that brings a final state to the common scale: [B, h, dims]; NULL: nothing. */
vtb_value *vtb__rec_to_common(vtb__rec *r, const vtb__state *s);

/* ---- degree.c --------------------------------------------------------------------- */

const double *vtb__degree_one(vtb__rec *r, int scale); /* scale -1: NULL */
const double *vtb__degree_sum(vtb__rec *r, const vtb__lifted x[2]);
/* x times exp(e); its degree is not changed. */
vtb__lifted vtb__rec_times_exp(vtb__rec *r, vtb__lifted x, vtb__lifted e);
vtb__lifted vtb__rec_true_value(vtb__rec *r, vtb__lifted x);
/* The scale of one number a head that is the largest of a scale's; -1: there are too many. */
int vtb__rec_flat_scale(vtb__rec *r, int scale);
/* x relative to scales of one number a head alone. */
vtb__lifted vtb__rec_flatten(vtb__rec *r, vtb__lifted x);
/* Operands from `first` at one degree, which is returned. */
const double *vtb__rec_same_degree(vtb__rec *r, vtb__lifted *x, int first, int n);
/* Operands of an elementwise op at degrees that it can take; returns that of its result. */
const double *vtb__rec_settle(vtb__rec *r, const vtb_inst *inst, vtb__lifted *x);
vtb__lifted vtb__rec_log(vtb__rec *r, vtb__lifted x);

/* ---- batched.c: axes of batched values -------------------------------------------- */

static inline int vtb__larger(int a, int b) { return a > b ? a : b; }
/* With `lead` axes before dims as in vtb__lifted, or 2: B, heads. */
vtb_type vtb__rec_type(const vtb__rec *r, int lead, const vtb_dim *dims, int rank);
/* Axes of size 1 from `lead` on. */
vtb_type vtb__ones_behind(const vtb_type *t, int lead);
/* The leading axes of x as they are (the head axis may be missing its size), then dims. */
vtb_value *vtb__rec_reshape(vtb__rec *r, vtb__lifted x, const vtb_dim *dims, int rank);
vtb__lifted vtb__rec_to_rank(vtb__rec *r, vtb__lifted x,
                             int rank); /* step axes of size 1 in front */
vtb__lifted vtb__rec_number(vtb__rec *r, double c);
/* The degree of the result is left to the caller. */
vtb__lifted vtb__rec_binary(vtb__rec *r, vtb_op op, vtb__lifted x, vtb__lifted y);
/* [B, N, h, dims...] with every axis at its full size. */
vtb_value *vtb__rec_full(vtb__rec *r, vtb__lifted x, const vtb_dim *dims, int rank);
vtb_value *vtb__rec_shift(vtb__rec *r, vtb_value *x, int by, double fill, vtb_value *first);
/* The recurrence's `path` and `layout`, for ops that take both; the number of them. */
int vtb__rec_order(const vtb__rec *r, vtb_attr attrs[2]);
/* The largest over the axes from `lead` on. */
vtb_value *vtb__rec_largest(vtb__rec *r, vtb_value *x, int lead);

/* ---- lift.c: step values to batched values ---------------------------------------- */

vtb__lifted vtb__rec_lift(vtb__rec *r, vtb_value *v);
void vtb__rec_set_lifted(vtb__rec *r, const vtb_value *v, vtb__lifted x);
/* The product of the factors that vary over `axes` (bit set) or less, on an output frame: frame
 * axis a becomes axis to[a]. */
vtb__lifted vtb__rec_product(vtb__rec *r, const vtb__term *t, unsigned axes, const int *to,
                             int rank);
bool vtb__rec_can_lift(vtb__rec *r); /* false: a diagnostic names the op */

/* ---- scan.c: linscans and what reads them ----------------------------------------- */

enum { VTB__SCAN_INIT = 1, VTB__SCAN_NORMALIZER = 2 };
/* linscan or delta, in the recurrence's mode and order. */
vtb_inst *vtb__rec_build_scan(vtb__rec *r, vtb_op op, vtb_value *const *operands, int n,
                              const char *klass, unsigned with);
/* The factors on one axis, of `dim`, or on none: [B, N, h, dim]. */
vtb_value *vtb__rec_side(vtb__rec *r, const vtb__term *t, unsigned axes, const vtb_dim *dim);
/* The decay operand and its class, and for class rates the operand after it. */
vtb_value *vtb__rec_decay(vtb__rec *r, const vtb__state *s, const char **klass, vtb_value **rates);
/* The initial state [B,h,K,V], keys first; of a vector that is not read whole [B,h,K]. */
vtb_value *vtb__rec_initial_matrix(vtb__rec *r, const vtb__state *s, int state);
vtb__lifted vtb__rec_whole(vtb__rec *r, int state, bool old);
vtb__lifted vtb__rec_emit_read(vtb__rec *r, const vtb__read *read);
vtb_value *vtb__rec_last_state(vtb__rec *r, int state); /* in the type of the recurrence's result */
vtb_value *vtb__rec_last_scale(vtb__rec *r);

/* ---- rates.c ---------------------------------------------------------------------- */

/* The decay of a matrix state read by contractions as step sizes [B,N,h,V] and rates [h,K,V];
 * false: it is no such product. */
bool vtb__rec_rates(vtb__rec *r, const vtb__state *s, vtb_value **steps, vtb_value **rates);

#endif
