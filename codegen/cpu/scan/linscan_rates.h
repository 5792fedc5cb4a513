/* Shared by the emitters of linscan and linscan_grad of class rates: S_t = exp(d_t A) o S_{t-1} +
 * k_t v_t^T.
 *
 * Channels of V are lanes: a tile of VTB__LANES of them is one value of LLVM, which splits it into
 * the machine's vectors and so runs several exponentials side by side. A block of at most VTB__KEYS
 * rows of the state is carried from token to token; rows that find no register stay on the stack.
 * No state and no decay is written to memory but those at boundaries. Rows of scratch memory hold
 * VTB__LANES floats, of which those past V are zeros.
 */
#ifndef VTB_CODEGEN_CPU_LINSCAN_RATES_H
#define VTB_CODEGEN_CPU_LINSCAN_RATES_H

#include "codegen/cpu/scan/linscan.h"

enum { VTB__LANES = 16, VTB__KEYS = 16 };

typedef struct vtb__rates {
  vtb__cpu_scan *s;
  int64_t n_tiles;
  LLVMValueRef tile, mask; /* mask: lanes below V, NULL if all are */
} vtb__rates;

int64_t vtb__rates_tiles(const vtb__cpu_scan *s);
void vtb__rates_at_tile(vtb__rates *g, LLVMValueRef tile);

/* This tile's part of tensor i's row of a token; the row starts at `row`. */
LLVMValueRef vtb__rates_load(const vtb__rates *g, LLVMValueRef row);
void vtb__rates_store(const vtb__rates *g, LLVMValueRef v, LLVMValueRef row);
/* Row k of a state tensor [batch, head, K, V]. */
LLVMValueRef vtb__rates_state_row(const vtb__rates *g, int tensor, LLVMValueRef k);
/* Address of row `k` of scratch rows. */
LLVMValueRef vtb__rates_row(const vtb__rates *g, LLVMValueRef rows, LLVMValueRef k);

/* n rows of the rates from k0 on, in units of a power of two. */
void vtb__rates_exponents(const vtb__rates *g, LLVMValueRef k0, int n, LLVMValueRef *out);
/* exp(step A) for n rows. */
void vtb__rates_decays(const vtb__rates *g, LLVMValueRef step, const LLVMValueRef *exponents, int n,
                       LLVMValueRef *out);

/* Calls fn for every block of keys: first key, number of keys, whether it is the first block (i1,
 * may be constant). */
typedef void vtb__rates_fn(void *user, LLVMValueRef k0, int n, LLVMValueRef first);
void vtb__rates_blocks(const vtb__rates *g, vtb__rates_fn *fn, void *user);
/* Adds to what the blocks before have left in the row; the first block overwrites. */
void vtb__rates_accumulate(const vtb__rates *g, LLVMValueRef v, LLVMValueRef row,
                           LLVMValueRef first);

/* Keys k0 ... k0+n of the state from the rows `from`, through tokens t0 ... t0+n_steps, to the rows
 * `to` (NULL: not kept). y: writes what each step reads out. */
typedef struct vtb__rates_run {
  LLVMValueRef t0, n_steps, from, to;
  bool y;
} vtb__rates_run;
void vtb__rates_advance(const vtb__rates *g, const vtb__rates_run *run, LLVMValueRef k0, int n,
                        LLVMValueRef first);

#endif
