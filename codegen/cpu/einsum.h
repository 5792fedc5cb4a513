/* Between the files of einsum: letters with their sizes and strides. */
#ifndef VTB_CODEGEN_CPU_EINSUM_H
#define VTB_CODEGEN_CPU_EINSUM_H

#include "codegen/cpu/expr.h"

enum { EINSUM_A, EINSUM_B, EINSUM_OUT, EINSUM_MOST_LETTERS = 3 * VTB_MAX_RANK };

typedef struct vtb_letter {
  char name;
  int64_t size;
  bool in[3];
  int64_t stride[3]; /* elements; 0 where absent */
  int at[3];         /* axis; -1 where absent */
} vtb_letter;

/* Letters of size 1 are left out: they move nothing. */
typedef struct vtb_letters {
  vtb_letter at[EINSUM_MOST_LETTERS];
  int n;
} vtb_letters;

typedef enum vtb_letter_class { LETTER_BATCH, LETTER_M, LETTER_N, LETTER_K, LETTER_LONE } vtb_letter_class;
vtb_letter_class vtb__letter_class(const vtb_letter *l); /* m: in A and the result, n: in B and the result */

void vtb__letters_read(vtb_cpu *c, const vtb_inst *inst, vtb_letters *l);

/* Products of many small blocks, "bngi,goi->bngo" and its adjoints; false if it is not one (nothing emitted). */
bool vtb__einsum_blocks(vtb_cpu *c, const vtb_letters *l);

#endif
