/* Between the files of einsum: letters with their sizes and strides. */
#ifndef VTB_CODEGEN_CPU_EINSUM_H
#define VTB_CODEGEN_CPU_EINSUM_H

#include "codegen/cpu/loop/expr.h"

/* Tensors of an einsum. ADD, if the instruction has it, starts the sum; its letters are those of
 * the result. */
enum {
  EINSUM_A,
  EINSUM_B,
  EINSUM_OUT,
  EINSUM_ADD,
  EINSUM_TENSORS,
  EINSUM_MOST_LETTERS = 3 * VTB_MAX_RANK
};

typedef struct vtb_letter {
  char name;
  int64_t size;
  bool in[EINSUM_TENSORS];
  int64_t stride[EINSUM_TENSORS]; /* elements; 0 where absent */
  int at[EINSUM_OUT + 1];         /* axis; -1 where absent */
} vtb_letter;

/* Letters of size 1 are left out: they move nothing. */
typedef struct vtb_letters {
  vtb_letter at[EINSUM_MOST_LETTERS];
  int n;
  bool adds; /* there is an ADD */
} vtb_letters;

typedef enum vtb_letter_class {
  LETTER_BATCH,
  LETTER_M,
  LETTER_N,
  LETTER_K,
  LETTER_LONE
} vtb_letter_class;
vtb_letter_class
vtb__letter_class(const vtb_letter *l); /* m: in A and the result, n: in B and the result */

/* Number of tensor `which` among the kernel's operands and results. */
int vtb__einsum_tensor(const vtb_cpu *c, int which);
void vtb__letters_read(vtb_cpu *c, const vtb_inst *inst, vtb_letters *l);

/* Letters merged into one: a size, and a stride a tensor. */
typedef struct vtb__dim {
  int64_t size, stride[EINSUM_TENSORS];
} vtb__dim;

typedef struct vtb__product {
  vtb_letters l;
  int a, b; /* which operand has the rows and which the columns of the result */
  vtb__dim m, n, k;
  vtb__dim loops[EINSUM_MOST_LETTERS];
  int n_loops;
  int64_t temp[EINSUM_OUT + 1]; /* >= 0: the tensor's copy in canonical order */
  bool trans_a, trans_b;
  int64_t lda, ldb, ldc;
  bool narrow;    /* by vtb__smallgemm, not by BLAS */
  int64_t padded; /* > 0: columns of B as stored, whole vectors, where n is fewer */
} vtb__product;

/* Tasks that compute a planned product into the result, or into temp[EINSUM_OUT]
 * (einsum_tasks.c). */
void vtb__einsum_emit(vtb_cpu *c, vtb__product *p);

/* Products of many small blocks, "bngi,goi->bngo" and its adjoints; false if it is not one (nothing
 * emitted). */
bool vtb__einsum_blocks(vtb_cpu *c, const vtb_letters *l);

#endif
