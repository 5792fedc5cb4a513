/* The meaning of the recurrence ops. Shapes: B batch (axis 0), N tokens (axis 1), h heads (axis 2),
 * K, V axes of the state.
 *
 * recurrence (before lowering)
 *   attributes  states      number of states s
 *               inits       0 or s (s + 1 if the step function reads the scale): how many operands
 *                           are initial states
 *               seqs        number of per-step inputs
 *               mode        "auto" | "recurrent" | "parallel" | "chunkwise", with chunk
 *               path        the order of the tokens
 *   operands    [initial states..., then the initial log scale m_0 if inits = s + 1],
 *               per-step inputs..., constants...
 *                 per-step input of step shape [X...]   [B, N, h..., X...]
 *                 initial state of step shape [X...]    [B, h..., X...]
 *                 initial log scale                     [B, h...]
 *                 constant of step shape [X...]         [h..., X...] or [X...], broadcast over B, N
 *               h... is any number of head axes (0 or more), the same for all operands that have
 *               them.
 *   callee      a function of kind STEP on step shapes: arguments (states..., inputs...,
 *               constants...) in operand order, returns (new states..., yields...). Its
 *               instructions are ordinary elementwise, reduce_sum, einsum, reshape ops, and
 *               state_scale.
 *   results     yields [B, N, h..., Y...] each, then final states [B, h..., X...], then the final
 *               log scale [B, h...]. Final states are relative to that scale, S = exp(m) S^. With
 *               no initial scale the scale of the final states starts from m_0 = 0, as public
 *               kernels do; inside, it starts from -inf. A recurrence without log gains (no factor
 *               exp(.) of an input on an update) has log scale 0.
 *
 * linscan: S_t = D_t * S_{t-1} + k_t v_t^T and y_t = S_t^T q_t, t along `path` (storage order if
 * absent), tensors in storage order.
 *   operands    q [B,N,h,K], k [B,N,h,K], v [B,N,h,V], d by class, then if init = 1: S_0 [B,h,K,V]
 *               and, with normalizer, n_0 [B,h,K]
 *   class       a row of ir/decays.def, which says what d is: "constant", "scalar", "key",
 *               "value", "full" or "rates"
 *               d is the decay itself (not its logarithm), of size at most 1 for the forms to be
 *               stable; of rates, step times rate <= 0.
 *   normalizer  1: also n_t = (D_t) n_{t-1} + k_t and z_t = n_t . q_t (classes constant, scalar,
 *               key): one more column of ones in v
 *   results     y [B,N,h,V], S_T [B,h,K,V], and with normalizer z [B,N,h], n_T [B,h,K]
 *   last        0: nothing reads S_T and n_T, targets may leave them undefined; absent or 1: they
 *               are computed
 *   starts      L: for the adjoint, the states before tokens L, 2L, ... in place of S_T,
 *               [B,ceil(N/L)-1,h,K,V] in an order that is the target's (class rates without an
 *               initial state)
 *   mode        "recurrent" | "parallel" | "chunkwise" (with chunk = L >= 1) | "auto":
 *               passes/recurrence/select_mode.c decides
 *
 * linscan_grad
 *   operands    q, k, v, d, [A], [S_0, [n_0]], dy, [dz if normalizer], and if dlast = 1: dS_T,
 *               [dn_T]; and with starts, those of the forward scan
 *   results     dq, dk, dv, dd (shape of d), [dA], and if init = 1: dS_0, [dn_0]
 *   States are recomputed from the inputs; nothing of size N x N or N x K x V is kept outside
 *   parallel mode.
 *
 * delta: what the steps of a recurrence add that reads its own state, R rows a token:
 *     w_{t,r} = v_{t,r} + S_{t-1}^T b_{t,r}      S_t = D_t * S_{t-1} + sum_r k_{t,r} w_{t,r}^T
 *   All rows of a token read the state before it. b carries every factor: signs, gates, decays.
 *   What reads S_t is R linscans of (k_r, w_r, D), the first of them from S_0.
 *   operands    k [B,N,h,R,K], v [B,N,h,R,V], b [B,N,h,R,K], d by class, then if init = 1:
 *               S_0 [B,h,K,V] (else S_0 = 0)
 *   class       "constant", "scalar" or "key"
 *   result      w [B,N,h,R,V]
 *   mode        as of linscan. A chunk of L tokens from the state S before it, rows i = (t, r),
 *               j = (s, r'), with P[t,s] the product of D over s+1 .. t-1 and p_t over the chunk's
 *               first .. t-1:
 *                 (I - Lm) W = V + (b * p) S     Lm[i,j] = b_i . (P[t,s] * k_j) for s < t, else 0
 *                 S <- p_end * S + sum_j (P[end,s] * k_j) w_j^T     end: behind the last token
 *               parallel: one chunk of all tokens.
 * adjoint     passes/grad/grad_delta.c: the same op on the reversed path, k and b exchanged, and a
 *               linscan_grad
 *   source      Yang et al. 2024, arXiv 2406.06484 (chunks), 2412.06464 (decays)
 *
 * Decay matrices are formed by products along rows, M[t,j] = D_t M[t-1,j], never as quotients of
 * exponentials: with D in [0,1] nothing overflows and nothing cancels.
 */
#ifndef VTB_RECURRENCE_H
#define VTB_RECURRENCE_H

#include "ir/ir.h"

typedef enum vtb_decay_class {
#define VTB_DECAY(id, ...) VTB_DECAY_##id,
#include "ir/decays.def"
#undef VTB_DECAY
} vtb_decay_class;
enum {
  VTB_N_DECAYS = 0
#define VTB_DECAY(...) +1
#include "ir/decays.def"
#undef VTB_DECAY
};

/* How a class is computed where it is not run step after step. */
typedef enum vtb_decay_form {
  VTB_FORM_PRODUCTS,  /* products of matrices under a mask of decays, one number a pair of steps */
  VTB_FORM_VECTOR,    /* products of rows and columns that carry their decays */
  VTB_FORM_STEPS,     /* step after step only */
  VTB_FORM_EXPONENTS, /* step after step, each decay made on the way */
  VTB_N_FORMS
} vtb_decay_form;

typedef enum vtb_decay_axes { /* bits */
                              VTB_ALONG_NEITHER,
                              VTB_ALONG_KEY,
                              VTB_ALONG_VALUE,
                              VTB_ALONG_BOTH
} vtb_decay_axes;

typedef struct vtb_decay {
  const char *name;
  vtb_decay_form form;
  bool by_step;
  vtb_decay_axes axes;
  bool rates;
  const char *operand; /* in words */
} vtb_decay;
const vtb_decay *vtb_decay_get(vtb_decay_class c);
const char *vtb_decay_class_name(vtb_decay_class c);
bool vtb_decay_class_find(const char *name, vtb_decay_class *c);

/* Where the operands and results of a linscan or linscan_grad are: numbers of operands, then of
 * results; -1 if absent. Inside a kernel of kind "scans" the numbers are those of the `fused`
 * instruction that runs it. */
typedef struct vtb_scan_tensors {
  int q, k, v, d, rates, s0, n0, dy, dz, ds, dn, given; /* operands; given: the starts */
  int y, s, starts, z, n;                               /* results of linscan */
  int dq, dk, dv, dd, drates, ds0, dn0;                 /* results of linscan_grad */
} vtb_scan_tensors;

/* A linscan or linscan_grad taken apart. */
typedef struct vtb_scan {
  const vtb_decay *decay;
  bool grad, normalizer, init, last, dlast;
  bool recurrent;   /* mode */
  int n_inputs;     /* operands before the initial state: q, k, v, d and, with rates, A */
  const char *path; /* NULL: storage order */
  int64_t n_batch, n_tokens, n_heads, K, V;
  int64_t chunk;  /* 1 ... n_tokens; n_tokens unless the mode is chunkwise */
  int64_t starts; /* tokens from one to the next; 0: none */
  vtb_scan_tensors at;
} vtb_scan;
/* The scan of an instruction that has passed its shape rule. */
vtb_scan vtb_scan_of(const vtb_inst *inst);
/* The form of its emitter: the class's, or STEPS where the mode is recurrent. */
vtb_decay_form vtb_scan_form(const vtb_scan *s);
/* The emitters that go token by token carry this state in double. What is read is divided by the
 * normalizer, whose column is rounded apart from the others: where one token outweighs all others,
 * y is v and the division's gradient a difference of equal numbers, which q . k near 0 divides by.
 * With one token there is nothing to carry. */
bool vtb_scan_is_wide(const vtb_scan *s);

/* Where the operands and the result of a delta are, as in vtb_scan_tensors. */
typedef struct vtb_delta_tensors {
  int k, v, b, d, s0; /* operands */
  int w;              /* result */
} vtb_delta_tensors;

/* A delta taken apart. */
typedef struct vtb_delta {
  const vtb_decay *decay; /* of form PRODUCTS or along the key */
  bool init, recurrent;
  const char *path; /* NULL: storage order */
  int64_t n_batch, n_tokens, n_heads, rank, K, V;
  int64_t chunk; /* tokens, 1 ... n_tokens; n_tokens unless the mode is chunkwise */
  vtb_delta_tensors at;
} vtb_delta;
/* The delta of an instruction that has passed its shape rule. */
vtb_delta vtb_delta_of(const vtb_inst *inst);

/* Result r is a value: not the state of a linscan whose attribute last is 0. */
bool vtb_scan_computes(const vtb_inst *inst, int r);
/* True for a `fused` whose kernel holds nothing but scans of equal shape: several directions of one
 * cell (row "directions" of ir/kernels.def). */
bool vtb_is_scans(const vtb_inst *inst);
/* The scan of a `fused` of kind "mixer", or "mixer_grad". */
const vtb_inst *vtb_mixer_scan(const vtb_inst *fused);
/* The argument that operand o (q, k or v) of a mixer's scan is made of: itself, multiplied by
 * *gain, a number a token and head [B, N, h, 1], behind *map, an einsum of small matrices. NULL:
 * not so. */
const vtb_value *vtb_mixer_rows(const vtb_inst *scan, int o, const vtb_value **gain,
                                const vtb_inst **map);
/* Results that a "mixer_grad" makes of d, the adjoint of operand o, where a matrix made its rows. d
 * itself is then no result. */
typedef struct vtb_mixer_back {
  const vtb_inst *rows; /* of the rows before the matrix, an einsum; NULL: d is a result */
  const vtb_inst *weights, *bias; /* sums of d's fours over the tokens, or NULL */
} vtb_mixer_back;
vtb_mixer_back vtb_mixer_back_of(const vtb_inst *scan, int o);

/* ---- the running scale of a step function (ir/recurrence.c) ---------------------------------- */

/* A sum of values of the step function that stand inside exp(.); empty: 0. */
typedef struct vtb_log_sum {
  vtb_value **values;
  int n;
} vtb_log_sum;

/* Every update is expanded into terms, s' = sum of products. Factors exp(.) beside the old state
 * are its log decay; factors exp(.) of values that depend on per-step inputs, beside anything else,
 * are log gains. Then with g the decay and i_j the gains
 *   m_t = max(m_{t-1} + g, max_j i_j),   S = exp(m) S^,
 * or m = 0 throughout where no update has a log gain. A term without such a factor, beside terms
 * that have one, has gain 0. */
typedef struct vtb_step_scale {
  bool scaled; /* some update carries a log gain */
  /* all updates could be expanded, share the decay, and decay and gains are one number a head */
  bool uniform;
  vtb_log_sum decay; /* meaningful if scaled and uniform */
  vtb_log_sum *gains;
  int n_gains;
  const vtb_value *blame; /* if not uniform: the value that breaks it */
} vtb_step_scale;

/* `step` has its states first (n_states), then per-step inputs (n_seqs), then constants. Free with
 * vtb_step_scale_free(). */
void vtb_step_scale_find(const vtb_func *step, int n_states, int n_seqs, vtb_step_scale *out);
void vtb_step_scale_free(vtb_step_scale *s);

/* Forms of a recurrence, as sources and options name them. */
enum { VTB_N_MODES = 4 };
extern const char *const vtb_mode_names[VTB_N_MODES];
bool vtb_is_mode(const char *name);

#endif
