/* The product that an einsum is. Its attribute `spec`, "bnd,ed->bne", names the axes of two factors
 * and of the result by letters; letters of one name have one size, and what they are called means
 * nothing. Operand 3, if there is one, is broadcast to the result and added.
 *
 *   y[result] = sum over the letters that are not in the result of x[first] * w[second]
 *
 * A letter's role is where it occurs, not how it is spelt: passes and emitters ask for roles, axes
 * and sizes, and nothing but product.c reads the text. It is taken apart once, when an instruction
 * is made or its spec is set.
 */
#ifndef VTB_PRODUCT_H
#define VTB_PRODUCT_H

#include "ir/ir.h"

typedef enum vtb_letter_role {
  VTB_LETTER_BATCH,   /* in both factors and the result: a product each */
  VTB_LETTER_ROWS,    /* in the first factor and the result */
  VTB_LETTER_COLUMNS, /* in the second factor and the result */
  VTB_LETTER_SUM,     /* in both factors: what is multiplied is added along it */
  VTB_LETTER_ALONE,   /* in one factor and nowhere else, which is summed along it before */
  VTB_LETTER_ROLES
} vtb_letter_role;

enum { VTB_MOST_LETTERS = 2 * VTB_MAX_RANK };

/* Where letters are: in factor 0, in factor 1, in the result. */
enum { VTB_IN_RESULT = 2, VTB_LETTER_PLACES };

typedef struct vtb_letter {
  char name;
  vtb_letter_role role;
  int at[VTB_LETTER_PLACES]; /* its axis there; -1: it is not there */
  int64_t size;              /* VTB_DYN: the batch */
} vtb_letter;

typedef struct vtb_product {
  vtb_letter letters[VTB_MOST_LETTERS]; /* as they come in the first factor, then in the second */
  int n;
  int count[VTB_LETTER_ROLES];
  int rank[VTB_LETTER_PLACES];
  int of[VTB_LETTER_PLACES][VTB_MAX_RANK]; /* number of the letter of an axis */
} vtb_product;

/* The product of an einsum whose shapes hold; sizes are those of its factors. */
vtb_product vtb_product_of(const vtb_inst *einsum);
/* The letter of an axis of factor 0, factor 1 or the result; valid as long as *p. */
const vtb_letter *vtb_product_at(const vtb_product *p, int place, int axis);
/* The one letter of a role; NULL: there is none, or several. */
const vtb_letter *vtb_product_only(const vtb_product *p, vtb_letter_role role);
/* The sizes of a role's letters multiplied, VTB_DYN counted as `batch`. */
int64_t vtb_product_size(const vtb_product *p, vtb_letter_role role, int64_t batch);

/* ---- forms ----------------------------------------------------------------------------------- */

/* "bnd,ed->bne", "bngi,goi->bngo": rows of the first factor, its last axis, become rows of the
 * result; all axes before are where they were. The second factor's axes are in any order. */
bool vtb_product_keeps_rows(const vtb_product *p);

/* Products of small matrices, one a group of channels: rows [..., groups, inner] that are kept
 * (vtb_product_keeps_rows) times matrices of [groups], [inner] and [outer] in any order. */
typedef struct vtb_blocks {
  int64_t groups, inner, outer;     /* sizes */
  int at_group, at_inner, at_outer; /* axes of the matrices */
} vtb_blocks;
/* The size of the matrix that so many blocks side by side make, zeros elsewhere, as tensor cores
 * have them: 2, 4, 8, or the first 16, 32 or 48 columns that blocks end in; 0: none. */
int64_t vtb_blocks_joined(int64_t size);
/* False: the instruction is none, and *out is as it was. */
bool vtb_blocks_of(const vtb_inst *inst, vtb_blocks *out);
/* "bngo,bngi->goi": the gradient of such matrices, of the adjoint of what they made, [..., groups,
 * outer], and of the rows before them, [..., groups, inner]; [groups, outer, inner]. */
bool vtb_is_blocks_gradient(const vtb_inst *inst);

/* Both operands begin with one index, and it is summed: over images, and over tokens. */
bool vtb_ends_in_parameter(const vtb_inst *einsum);

/* ---- products made of others ----------------------------------------------------------------- */

/* Letters of a product that is to be made, by place, each a string. */
typedef struct vtb_spec {
  char of[VTB_LETTER_PLACES][VTB_MAX_RANK + 1];
} vtb_spec;
vtb_spec vtb_spec_of(const vtb_product *p);
/* One more axis there; the caller keeps to VTB_MAX_RANK. */
void vtb_spec_put(vtb_spec *s, int place, char name);
/* The first n letters of `wishes` that the product does not have, as a string. */
void vtb_unused_letters(const vtb_product *p, const char *wishes, int n, char *out);

/* vtb_b_einsum() of these letters, or of those of another einsum. */
vtb_value *vtb_b_einsum_of(vtb_builder *b, const vtb_spec *s, vtb_value *x, vtb_value *w);
vtb_value *vtb_b_einsum_like(vtb_builder *b, const vtb_inst *einsum, vtb_value *x, vtb_value *w);
/* As vtb_b_einsum(), and `start` is added; NULL: nothing. */
vtb_value *vtb_b_einsum_from(vtb_builder *b, const char *spec, vtb_value *x, vtb_value *w,
                             vtb_value *start);
/* The einsum has other letters from now on; its operands are the caller's to set. */
void vtb_einsum_set(vtb_inst *einsum, const vtb_spec *s);

/* Both have the same letters, whatever they are called: "bnc,ec->bne" and "abc,zc->abz". */
bool vtb_einsum_alike(const vtb_inst *a, const vtb_inst *b);
/* The text, for people; "" of any other instruction. */
const char *vtb_einsum_text(const vtb_inst *inst);

#endif
