/* Shared by the emitters of linscan and linscan_grad: the instruction taken apart, rows of tokens
 * in path order, the decays of a chunk. Shapes and meaning: ir/recurrence.h. The normalizer is one
 * more column: v = 1, dy = dz, S = n.
 */
#ifndef VTB_CODEGEN_CPU_LINSCAN_H
#define VTB_CODEGEN_CPU_LINSCAN_H

#include "codegen/cpu/product/smallgemm.h"
#include "codegen/cpu/text.h"
#include "ir/recurrence.h"

typedef struct vtb__cpu_scan {
  vtb_cpu *c;
  vtb_cpu_task *t; /* under construction */
  vtb_scan of;
  vtb__loop_order order;
  LLVMValueRef batch, head; /* of this index of the task */
} vtb__cpu_scan;

/* Columns of a row that a task works on, in whole vectors and one partial one. With `extra` the
 * column after the last is the normalizer's. */
typedef struct vtb__cols {
  int64_t n;
  bool extra;
  LLVMValueRef from;    /* first column, whole vectors from the row's start */
  LLVMValueRef whole;   /* elements in whole vectors */
  LLVMValueRef tail_if; /* i1: this task has the partial vector; NULL: it has, if there is one */
} vtb__cols;

vtb__cpu_scan vtb__scan_make(vtb_cpu *c, const vtb_inst *inst);

/* A text of codegen/cpu/text with the holes of text/scan.h filled; `s` must live until it has run.
 */
vtb_cpu_text *vtb__scan_text(const vtb__cpu_scan *s, const char *name);

/* All columns; or part `tile` of those that are `width` wide (a multiple of the vector's). */
vtb__cols vtb__cols_all(vtb_cpu *c, int64_t n, bool extra);
vtb__cols vtb__cols_tile(vtb_cpu *c, int64_t n, bool extra, int64_t width, LLVMValueRef tile);
LLVMValueRef vtb__cols_vectors(vtb_cpu *c, const vtb__cols *cols); /* partial one included */
/* floats of a padded row, extra included */
int64_t vtb__cols_stored(const vtb_cpu *c, int64_t n, bool extra);

/* out = scale * (x | extra | zeros to a whole vector). extra: scalar, where cols has it; scale:
 * scalar or NULL. */
void vtb__row_pack(vtb_cpu *c, const vtb__cols *cols, LLVMValueRef x, LLVMValueRef extra,
                   LLVMValueRef scale, LLVMValueRef out);
/* The reverse; *extra_at receives the extra column, NULL to drop it. */
void vtb__row_unpack(vtb_cpu *c, const vtb__cols *cols, LLVMValueRef row, LLVMValueRef extra_at,
                     LLVMValueRef x);

/* Address of tensor i's row of the token at storage position `pos` (all axes after the head at
 * 0). */
LLVMValueRef vtb__scan_row(const vtb__cpu_scan *s, int i, LLVMValueRef pos);

/* Rows t0 ... t0+n of tensor i, in path order, to out with row length ld. `ones`: the extra column
 * is 1; else it is read from tensor `extra`. scales: one factor a row, or NULL. */
typedef struct vtb__pack {
  int tensor, extra;
  bool ones;
  LLVMValueRef scales;
} vtb__pack;
void vtb__scan_pack(const vtb__cpu_scan *s, const vtb__cols *cols, vtb__pack p, LLVMValueRef t0,
                    LLVMValueRef n, LLVMValueRef out, int64_t ld);
void vtb__scan_unpack(const vtb__cpu_scan *s, const vtb__cols *cols, int tensor, int extra,
                      LLVMValueRef t0, LLVMValueRef n, LLVMValueRef rows, int64_t ld);
/* States: tensor [batch, head, K, V] with the vector [batch, head, K] as extra column, from and to
 * rows of K. */
void vtb__scan_pack_state(const vtb__cpu_scan *s, const vtb__cols *cols, int tensor, int vector,
                          LLVMValueRef out, int64_t ld);
void vtb__scan_unpack_state(const vtb__cpu_scan *s, const vtb__cols *cols, int tensor, int vector,
                            LLVMValueRef rows, int64_t ld);

/* Decays of a chunk (classes constant and scalar), scratch arrays of n floats: d itself, no nearer
 * to 0 than `floor` (either sign); b_t, the product up to and with t; s_t, the product of those
 * after t. Returns b of the last, the whole chunk's decay. */
LLVMValueRef vtb__scan_decays(const vtb__cpu_scan *s, LLVMValueRef t0, LLVMValueRef n, double floor,
                              LLVMValueRef d, LLVMValueRef b, LLVMValueRef suffix);

/* n floats rounded up to whole vectors */
void vtb__fill(vtb_cpu *c, LLVMValueRef at, LLVMValueRef n, double v);

/* out[r, :] = x[r, :] o y[r, :], or o y[:] for every row if y_ld is 0; n rows of n_vectors. */
void vtb__rows_times(vtb_cpu *c, LLVMValueRef out, LLVMValueRef x, LLVMValueRef y, int64_t ld,
                     int64_t y_ld, LLVMValueRef n, LLVMValueRef n_vectors);
/* rows[k, 0 ... n_vectors) *= by[k] for k < n. */
void vtb__keys_times(vtb_cpu *c, LLVMValueRef rows, int64_t ld, LLVMValueRef by, LLVMValueRef n,
                     LLVMValueRef n_vectors);

/* ---- chunk by chunk, with a matrix form (linscan.c) ------------------------------------------ */

/* First member of an emitter's own state. */
typedef struct vtb__chunked {
  vtb__cpu_scan *s;
  vtb__cols k_cols, v_cols;
  int64_t ld_t, ld_k, ld_v; /* row lengths by what runs along the row */
  LLVMValueRef n_vectors;   /* of the V tile */
  LLVMValueRef state;       /* scratch: [K, ld_v] */
} vtb__chunked;

typedef void vtb__reserve_fn(vtb__chunked *g); /* scratch memory */
/* Tokens t0 ... t0+n; only: they are all there are. */
typedef void vtb__chunk_fn(const vtb__chunked *g, LLVMValueRef t0, LLVMValueRef n, bool only);
/* The task over batch, heads and tiles of V that walks the chunks with the state in scratch
 * memory. */
void vtb__scan_by_chunks(vtb__chunked *g, vtb__cpu_scan *s, const vtb_inst *inst,
                         vtb__reserve_fn *reserve_for, vtb__chunk_fn *emit);

/* Columns of V a task of theirs takes: all, unless batch and heads are too few to feed two threads
 * or so. */
int64_t vtb__chunk_width(const vtb__cpu_scan *s);

/* ---- classes key and value as products of matrices (text/direct.h) -------------------------- */

void vtb__linscan_vector(vtb__cpu_scan *s, const vtb_inst *inst);
void vtb__linscan_grad_vector(vtb__cpu_scan *s, const vtb_inst *inst);

/* ---- token by token, any class (text/steps.h) ------------------------------------------------ */

/* A text that includes text/steps.h, in tiles of at most max_vectors of V. */
vtb_cpu_text *vtb__steps_text(const vtb__cpu_scan *s, const char *name, int max_vectors);

void vtb__linscan_steps(vtb__cpu_scan *s, const vtb_inst *inst);      /* classes other than rates */
void vtb__linscan_grad_steps(vtb__cpu_scan *s, const vtb_inst *inst); /* classes key, value, full */

/* ---- class rates (text/rates.h) ----------------------------------------------------------- */

void vtb__linscan_rates(vtb__cpu_scan *s, const vtb_inst *inst);
void vtb__linscan_grad_rates(vtb__cpu_scan *s, const vtb_inst *inst);

#endif
