/* Between the files of einsum: letters with their sizes and strides. */
#ifndef VTB_CODEGEN_CPU_EINSUM_H
#define VTB_CODEGEN_CPU_EINSUM_H

#include "codegen/cpu/loop/expr.h"
#include "ir/product.h"

/* Tensors of an einsum. ADD, if the instruction has it, starts the sum; its letters are those of
 * the result. */
enum {
  EINSUM_A,
  EINSUM_B,
  EINSUM_OUT,
  EINSUM_ADD,
  EINSUM_TENSORS,
  EINSUM_MOST_LETTERS = VTB_MOST_LETTERS
};

typedef struct vtb__letter {
  vtb_letter_role role;
  int64_t size;
  bool in[EINSUM_TENSORS];
  int64_t stride[EINSUM_TENSORS]; /* elements; 0 where absent */
  int at[EINSUM_OUT + 1];         /* axis; -1 where absent */
} vtb__letter;

/* Letters of size 1 are left out: they move nothing. */
typedef struct vtb__letters {
  vtb__letter at[EINSUM_MOST_LETTERS];
  int n;
  bool adds; /* there is an ADD */
} vtb__letters;

/* Number of tensor `which` among the kernel's operands and results. */
int vtb__einsum_tensor(const vtb_cpu *c, int which);

/* Letters merged into one: a size, and a stride a tensor. */
typedef struct vtb__dim {
  int64_t size, stride[EINSUM_TENSORS];
} vtb__dim;

typedef struct vtb__product {
  vtb__letters l;
  int a, b; /* which operand has the rows and which the columns of the result */
  vtb__dim m, n, k;
  vtb__dim loops[EINSUM_MOST_LETTERS];
  int n_loops;
  int64_t temp[EINSUM_OUT + 1]; /* >= 0: the tensor's copy in canonical order */
  bool trans_a, trans_b;
  int64_t lda, ldb, ldc;
  bool in_panels; /* B: its columns lie in panels, and k rows of them behind one another */
} vtb__product;

/* Tasks that compute a planned product into the result, or into temp[EINSUM_OUT]
 * (einsum_tasks.c). */
void vtb__einsum_emit(vtb_cpu *c, vtb__product *p);

/* Products of many small blocks, "bngi,goi->bngo" and its adjoints; false if it is not one (nothing
 * emitted). */
bool vtb__einsum_blocks(vtb_cpu *c, const vtb__letters *l);

#endif
