/* A product on tensor cores under construction: what the files of this folder share (einsum.c). */
#ifndef VTB_CODEGEN_CUDA_PRODUCT_H
#define VTB_CODEGEN_CUDA_PRODUCT_H

#include "codegen/cuda/cuda.h"
#include "ir/ir.h"
#include "ir/kernels.h"
#include "ir/narrow.h"
#include "ir/product.h"
#include "passes/passes.h"

enum { A, B, OUT, ADD, SUM, TENSORS };
enum { MOST_LETTERS = VTB_MOST_LETTERS, THREADS = 256 };

typedef struct letter {
  int number; /* among those of the einsum */
  vtb_letter_role role;
  int64_t size;
  bool in[TENSORS];
  int64_t stride[TENSORS]; /* elements; 0 where absent */
  int at;                  /* axis of the result, or of the first operand for k */
} letter;

typedef struct index_of { /* the letters of a class, outermost first: one index */
  letter at[MOST_LETTERS];
  int n;
  int64_t size;
} index_of;

typedef enum letter_class { BATCH, M, N, K, LONE, CLASSES } letter_class;

typedef struct product {
  vtb_cuda *c;
  const vtb_inst *einsum;
  const vtb_inst *fused; /* whose body begins with the einsum; NULL: it stands alone */
  letter letters[MOST_LETTERS];
  int n_letters;
  bool adds;
  const vtb_inst *sum;    /* of the fused body: of a factor over k; or NULL */
  int sum_of, sum_result; /* A or B; which result */
  vtb_row_parts parts;    /* of the fused body */
  bool whole_rows;        /* a tile has them, and so their statistics */
  int part_temp;          /* else those of parts of rows */
  int a, b;               /* which operand has the rows and which the columns of the result */
  index_of of[CLASSES];
  /* the tile */
  int bm, bn, warps_n, k_step;
  int64_t splits, k_range;
  double seconds; /* by the model */
  int groups;     /* of wgmma, with bn; 0: text/product.cu */
  int cluster;    /* blocks of wgmma that read one tile of a factor, 1 or 2 */
  bool share_a;   /* A's */
} product;

/* The number of tensor A, B, OUT, ADD or SUM of the instruction; its type. */
int vtb__product_tensor(const product *p, int which);
const vtb_type *vtb__product_type(const product *p, int which);
letter_class vtb__product_class(const product *p, const letter *l);
/* Offset in tensor t of the number `i` (a C name) of a class; of the element at batch, m, n. */
const char *vtb__product_offset(product *p, const index_of *x, int t, const char *i);
const char *vtb__product_place(product *p, int t);
/* True if tensor t's strides of the letters of x are multiples of n, but that of `but`. */
bool vtb__product_multiples(int64_t n, const index_of *x, int t, const letter *but);
static inline const letter *vtb__product_inner(const index_of *x) {
  return x->n ? &x->at[x->n - 1] : NULL;
}

/* ---- tile.c ---------------------------------------------------------------------------------- */

/* Decides the tile and the ranges of k; the attribute `tile` of the einsum names a row of tile.c
 * instead. */
void vtb__product_choose_tile(product *p, vtb_factors factors);

/* True if that takes less than p->seconds; then p has its tile and ranges. */
bool vtb__product_choose_wide(product *p, vtb_factors factors);
void vtb__product_write_wide(product *p, vtb_factors factors, int temp);
/* Stores a tile's sums (einsum.c): fills EACH, `store` and `store4`. */
void vtb__product_accumulate(product *p, vtb_cuda_kernel *k, int temp);
/* And of a factor's sums, if there are any: fills SUMMED, `store_total_m` and `store_total_n`. */
void vtb__product_sum(product *p, vtb_cuda_kernel *k);

/* ---- epilogue.c ------------------------------------------------------------------------------ */

/* The statement that stores the sum at batch, m, n: of one element, `sum`, or of four neighbours
 * along n, `vsum` (lanes = 4; NULL: that cannot be). Declares what it needs as arguments of the
 * kernel, which has no text yet. */
const char *vtb__product_store(product *p, vtb_cuda_kernel *k, int lanes);
/* The statement that stores the mean and the squares of a row, or of 32 columns of it: "" if there
 * are none. After the former, which leaves what they are of in `vpart`. */
const char *vtb__product_store_part(product *p, vtb_cuda_kernel *k);
/* Makes room for statistics of parts of rows; adds them up behind the product. */
void vtb__product_begin_parts(product *p);
void vtb__product_add_parts(product *p);
/* The statement that stores `total`, a factor's sum over k, at batch and m or n. */
const char *vtb__product_store_sum(product *p, vtb_cuda_kernel *k);

#endif
