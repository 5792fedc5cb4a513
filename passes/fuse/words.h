/* The vocabulary of the rows VTB_FUSION in ir/kernels.def: anchors that groups grow round, and
 * words for what may join them.
 *
 * An anchor says whether an instruction is one. A word is asked about an instruction that a member
 * reads (before), that reads a member (behind), or that reads what a member reads (beside),
 * reshapes between left out; it adds that, and what it cannot be without, and says whether it did.
 * The engine (grow.c) keeps what leaves the group whole, and takes back what does not.
 */
#ifndef VTB_WORDS_H
#define VTB_WORDS_H

#include "passes/fuse/group.h"

typedef bool (*vtb__anchor)(const vtb_inst *i);
/* `at`: the value through which the group meets i, as the reader has it; `member` reads or makes
 * it. */
typedef bool (*vtb__word)(vtb__group *g, vtb_inst *i, const vtb_value *at, const vtb_inst *member);

#define VTB__ANCHOR(name) bool vtb__anchor_##name(const vtb_inst *i);
#define VTB__UNUSED __attribute__((unused))
#define VTB__WORD(name)                                                                            \
  bool vtb__word_##name(VTB__UNUSED vtb__group *g, VTB__UNUSED vtb_inst *i,                        \
                        VTB__UNUSED const vtb_value *at, VTB__UNUSED const vtb_inst *member)

/* A product; one that is alone. */
VTB__ANCHOR(product)
VTB__ANCHOR(tile_product)
/* Sums over rows: gradients of small matrices and of depthwise kernels. */
VTB__ANCHOR(row_gradient)
/* A depthwise convolution, a product of small matrices, or one of few columns. */
VTB__ANCHOR(local)
VTB__ANCHOR(filter_adjoint)  /* that of a convolution's input, with its group or not */
VTB__ANCHOR(filter_adjoints) /* a group that has those of input and weight */
VTB__ANCHOR(cell)            /* a scan of any kind */
VTB__ANCHOR(attention)       /* or its adjoint */
/* Scans by steps that evaluate a body, their adjoints; running maxima; scans by tiles. */
VTB__ANCHOR(steps)
VTB__ANCHOR(steps_adjoint)
VTB__ANCHOR(maximum)
VTB__ANCHOR(tiles)
VTB__ANCHOR(tiles_adjoint) /* the way back of those of few tokens */

VTB__WORD(turn);          /* what turns queries or keys, and their adjoints back (words_turns.c) */
VTB__WORD(elementwise);   /* of the anchor's shape, all that it makes */
VTB__WORD(sibling);       /* the same, of what is read beside the anchor */
VTB__WORD(row_parts);     /* means and squares of the rows that it makes (fuse_norms.c) */
VTB__WORD(factor_sum);    /* of a product's factor, over what the product sums over */
VTB__WORD(column_sum);    /* of the adjoint that the anchor reads, over its rows */
VTB__WORD(local);         /* what computes of a token and a few channels */
VTB__WORD(local_sibling); /* the same, of a large value that a member reads */
VTB__WORD(filter_gradient); /* of the convolution whose adjoint the anchor is */
VTB__WORD(adjoint_maker);   /* what makes the adjoint that the group reads, for it alone */
VTB__WORD(direction);       /* the same cell along another path, that reads rows in common */
VTB__WORD(body);            /* elementwise, behind a scan by steps */
VTB__WORD(private_body);    /* elementwise or a view, before it and for it alone */
VTB__WORD(twin);            /* a scan of the same cell that the body reads, too */
VTB__WORD(sums_of_columns); /* over samples and tokens, of what an adjoint makes */
VTB__WORD(sums_beside);     /* the same, of what an adjoint reads */
VTB__WORD(gates);           /* elementwise at a token, before or behind a running maximum */
VTB__WORD(head_row);        /* elementwise and sums over a head's columns */
VTB__WORD(gain);            /* a number a token that multiplies keys */
VTB__WORD(gain_adjoint);    /* what is made of the adjoint of gained keys, with the gain */
VTB__WORD(small_map);       /* products of small matrices that make rows of queries, keys, values */
VTB__WORD(running_maximum); /* what makes decays and gains of gates */

/* ---- what several words ask ------------------------------------------------------------------ */

/* A loop of elementwise ops and numbers, all that it makes f32. */
bool vtb__is_elementwise(const vtb_inst *i);
/* A kernel of this kind that holds an op, or the op alone: the op; NULL: neither. */
const vtb_inst *vtb__op_within(const vtb_inst *i, vtb_op op, vtb_kernel_kind kind);
/* Operand o of an op that i is or holds, as i has it; NULL: it is made inside. */
vtb_value *vtb__operand_of(const vtb_inst *i, const vtb_inst *op, int o);
/* True of products by small matrices, a group of channels each, which nothing reads but a scan
 * whose kernel multiplies its rows by them. */
bool vtb__mixer_takes(const vtb_inst *einsum);
/* "bngi,goi->bngo" or with the matrix turned round, of a size that vtb_blocks_joined takes. */
bool vtb__is_small_product(const vtb_inst *i);
/* words_mixer_back.c: adjoints of rows that small matrices of the group made go through these to
 * those of what they read, and to sums for the matrices: the group of a scan's adjoint gets what
 * makes these of them. Seconds that this took by itself. */
double vtb__group_take_back(vtb__group *g, vtb_asker *asker);

#endif
