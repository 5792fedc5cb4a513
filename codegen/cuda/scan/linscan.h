/* Shared by the emitters of linscan and linscan_grad: the instruction taken apart, its rows as C
 * expressions. Shapes and meaning: ir/recurrence.h. The normalizer is one more column: v = 1, dy =
 * dz, S = n. In texts b, h are the batch entry and head, pos a token's storage position, x a
 * column.
 *
 * Several directions of one cell (a `fused` of kind "scans") are one vtb__cuda_scan and share every
 * launch: blocks of one batch entry and head stand side by side, so that what directions have in
 * common is read once. A direction has its own path and may have its own tensors, laid out as those
 * of the first. */
#ifndef VTB_CODEGEN_CUDA_LINSCAN_H
#define VTB_CODEGEN_CUDA_LINSCAN_H

#include "codegen/cuda/cuda.h"
#include "ir/product.h"
#include "ir/recurrence.h"

enum { VTB__SCAN_DIRS = 8 };

typedef struct vtb__cuda_scan {
  vtb_cuda *c;
  const vtb_inst *inst; /* of the first direction */
  const vtb_decay *decay;
  bool grad, normalizer, init, last, dlast;
  bool by_steps;                 /* no matmul form for the class, or mode recurrent */
  int64_t rank;                  /* of a delta, its rows a token; else 0 */
  int64_t B, N, heads, K, V, V1; /* V1: V and the normalizer's column */
  int64_t n;                     /* scans of one sequence each: B heads n_dirs */
  int64_t chunk, n_chunks, row_tiles;
  bool half; /* factors round to 16 bits: linscan_tiles.c */
  /* Numbers of a row of states in temporaries: floats, V1 in whole fours; of 16 bits, V in whole
   * eights, and the normalizer's vectors are temporaries of their own. */
  int64_t state_pitch;
  vtb_scan_tensors at; /* of the first direction */
  int n_dirs;
  const vtb_inst *dir[VTB__SCAN_DIRS];
  vtb_scan_tensors dir_at[VTB__SCAN_DIRS];
  /* Directions 2i and 2i + 1 go opposite ways with the same queries: forward products take both in
   * one block, in the order of the first (linscan_products.c). */
  bool paired;
  const vtb_inst *mixer; /* its body takes the rows of y, or NULL (linscan_mixer.c) */
  /* of a mixer: matrices that q, k and v are multiplied by, einsums or NULL */
  const vtb_inst *map[3];
  int gain; /* tensor of what multiplies a token's keys, or -1 */
  /* A mixer's that makes decays and gains itself: the maxplus; the gain of a token, or NULL. */
  const vtb_inst *gates;
  const vtb_value *gain_value;
  int dgain; /* of its adjoint */
  /* A mixer's adjoint: matrices that dq, dk and dv go through, too; then at.dq is of the rows
   * before them, and weights and bias are the tensors of sums for them. joint: q and k have the
   * same rows, whose adjoint is at.dq and begins with the addend, a tensor or -1. */
  vtb_mixer_back back[3];
  int weights[3], bias[3], addend;
  bool joint;
  /* Recurrences that a block of linscan_steps.cu runs one after the other, as dir[]; 0 is 1. */
  int n_passes;
  /* The kernel in the making: members of vtb_scan_tensors that are its arguments, and its
   * pointers to those of the block's direction. */
  vtb_cuda_kernel *k;
  uint32_t declared;
  const char *pointers;
} vtb__cuda_scan;

/* In a delta's, q in `at` is b and y is w. */
vtb__cuda_scan vtb__cuda_scan_make(vtb_cuda *c, const vtb_inst *inst);

vtb_scan_tensors vtb__scan_tensors_of(const vtb_inst *inst);
/* Storage positions of direction `dir`, step by step. */
void vtb__scan_order(const vtb__cuda_scan *s, int dir, int32_t *table);

/* Begins a kernel from text/<file>, which finds in its block's number scan, the number of the
 * block's sequence, and unit, which of the scan's BLOCKS blocks it is; fills what all these
 * texts have of s: sizes, numbers of things, place. */
void vtb__scan_begin(vtb__cuda_scan *s, const char *kind, const char *file, int threads);
/* Ends it, with BLOCKS blocks for each of so many scans. */
void vtb__scan_launch(vtb__cuda_scan *s, int64_t scans);
/* Declares a member of s->at as argument `name`, that of the block's direction. */
void vtb__scan_in(vtb__cuda_scan *s, const int *member, const char *name);
void vtb__scan_out(vtb__cuda_scan *s, const int *member, const char *name);
/* Temporary `temp` as the expression hole `name`, or in its place, where it is -1 and so never
 * reached, `other`. */
void vtb__scan_temp(vtb__cuda_scan *s, int temp, const char *name, const char *other);

/* Rows of keys' width: q, k; of values' width with the normalizer's column: v (ones), dy (dz). As
 * the element x of the row at pos; declares the arguments. */
typedef enum vtb__cuda_row { VTB__ROW_Q, VTB__ROW_K, VTB__ROW_V, VTB__ROW_DY } vtb__cuda_row;
void vtb__fill_row(vtb__cuda_scan *s, vtb__cuda_row row, const char *hole);
const char *vtb__cuda_scan_row(vtb__cuda_scan *s, vtb__cuda_row row); /* the expression */
/* A number as an expression, or as what returns it, where the hole is code. */
void vtb__fill_number(vtb__cuda_scan *s, const char *hole, const char *value);
/* The same for vtb_copy_rows: ${<hole>_from}, the row's address, and, of rows with the
 * normalizer's column, ${<hole>_extra}. */
void vtb__fill_source(vtb__cuda_scan *s, vtb__cuda_row row, const char *hole);
/* True if the row's tensor can be read eight elements at a time, 16 bytes each access. */
bool vtb__cuda_row_eight(const vtb__cuda_scan *s, vtb__cuda_row row);
bool vtb__cuda_tensor_eight(const vtb__cuda_scan *s, int tensor);
/* True if the tensors of all of `n` rows can be read 16 bytes at a time. */
bool vtb__cuda_rows_four(const vtb__cuda_scan *s, const vtb__cuda_row *rows, int n);
/* ${decay}: the decay of the token at pos (classes constant and scalar). */
void vtb__fill_decay(vtb__cuda_scan *s);
/* A state read from a tensor and, for the normalizer, a vector, as expression ${hole} of key and
 * x; 0 without one. */
void vtb__fill_state(vtb__cuda_scan *s, const char *hole, const int *tensor, const int *vector);
/* Where s of key and x is stored, if `asked`: ${hole} and, of the normalizer's column,
 * ${hole_n}. */
void vtb__fill_put_state(vtb__cuda_scan *s, const char *hole, bool asked, const int *tensor,
                         const int *vector);
/* An offset [b, pos, h, x] or [b, h, key, x] of a tensor; the last index is left out where x is
 * NULL. */
const char *vtb__cuda_scan_at(const vtb__cuda_scan *s, int tensor, const char *x);

/* States at the borders of chunks [B h, chunk, K, state_pitch], and their normalizer's vectors
 * [B h, chunk, K], if those are apart: temporaries, -1 if there is nothing to keep. */
typedef struct vtb__scan_states {
  int states, vectors;
} vtb__scan_states;
/* Borders of chunks: a state that is kept for the products, one that is asked for, and where those
 * given and asked for are. */
typedef struct vtb__scan_borders {
  bool kept, asked;
  vtb__cuda_row keys, values;
  const int *from, *from_n, *to, *to_n;
} vtb__scan_borders;
/* Forward (with the final state if `last`), or of the adjoint, backward. */
vtb__scan_borders vtb__scan_borders_of(const vtb__cuda_scan *s, bool backward);
vtb__scan_states vtb__cuda_scan_states(vtb__cuda_scan *s, bool backward);
/* One of the four products out = (A B^T o M) C + f o (A S). `terms`: a temporary [parts, B h, N]
 * for the terms of the decays' adjoint, taken with rows of `mate`, or -1. */
typedef enum vtb__scan_product {
  VTB__PRODUCT_Y,
  VTB__PRODUCT_DQ,
  VTB__PRODUCT_DK,
  VTB__PRODUCT_DV
} vtb__scan_product;
typedef struct vtb__scan_shape {
  const char *kind;
  /* the depth is that of values; else of keys, and out is of values' width */
  bool earlier, by_values;
  vtb__cuda_row a, b, c, mate;
} vtb__scan_shape;
extern const vtb__scan_shape vtb__scan_shapes[];
void vtb__cuda_scan_product(vtb__cuda_scan *s, vtb__scan_product p, vtb__scan_states states,
                            int terms);
/* How many parts the terms of a row have. */
int64_t vtb__cuda_scan_parts(const vtb__cuda_scan *s);

/* linscan_tiles.c: the same of factors that round to 16 bits. */
vtb__scan_states vtb__cuda_scan_half_states(vtb__cuda_scan *s, bool backward);
/* `sums`: temporaries for what decays multiply inside chunks, which dq's kernel has, or NULL. */
typedef struct vtb__scan_sums {
  int inside, rows, columns; /* columns: -1 where a chunk is one tile */
} vtb__scan_sums;
void vtb__cuda_scan_half_product(vtb__cuda_scan *s, vtb__scan_product p, vtb__scan_states states,
                                 int terms, const vtb__scan_sums *sums);
bool vtb__cuda_scan_sums_dq(vtb__cuda_scan *s); /* dq's kernel takes them */

/* linscan_short.c: a mixer of few tokens and narrow heads in one kernel whose blocks have whole
 * sequences. */
bool vtb__cuda_scan_is_short(const vtb__cuda_scan *s);
void vtb__cuda_scan_short(vtb__cuda_scan *s);

/* A mixer's holes in both texts: code of rows, and numbers about it. */
void vtb__cuda_scan_fill_mixer(vtb__cuda_scan *s);
/* Holes of matrices before q, k and v, or of none: <name>_matrix, <name>_bias, flags; three
 * letters. */
void vtb__cuda_scan_fill_maps(vtb__cuda_scan *s, const char *names, int64_t group);
int64_t vtb__cuda_scan_map_size(const vtb__cuda_scan *s); /* of each */
#define VTB__SCAN_MAP_NUMBERS(s)                                                                   \
  {"GROUP", vtb_blocks_joined(vtb__cuda_scan_map_size(s))}, { "BLOCK", vtb__cuda_scan_map_size(s) }
/* Tensors as long as y that a mixer's rows are computed of, or stored to. */
int vtb__cuda_scan_row_accesses(const vtb__cuda_scan *s);
int vtb__cuda_scan_tile_threads(int64_t width); /* of a block of text/linscan_tiles.cu, at least */
/* Finds the rows of a mixer's scan as they are before what multiplies them. */
void vtb__cuda_scan_find_rows(vtb__cuda_scan *s);

/* linscan_grad_short.c: dq, dk and dv in one launch, with dd, if `decays` are asked for, or, of
 * class constant, temporary `part` of a number a scan (else -1). */
bool vtb__cuda_scan_is_short_grad(const vtb__cuda_scan *s, bool decays);
void vtb__cuda_scan_short_grad(vtb__cuda_scan *s, bool decays, int part);

/* All of an instruction's kernels: linscan_products.c, linscan_grad.c; token by token:
 * linscan_steps.c, linscan_steps_grad.c; of a delta: delta.c. */
void vtb__cuda_scan_forward(vtb__cuda_scan *s);
void vtb__cuda_scan_grad(vtb__cuda_scan *s);
void vtb__cuda_scan_steps(vtb__cuda_scan *s);
void vtb__cuda_scan_steps_grad(vtb__cuda_scan *s);
void vtb__cuda_scan_delta(vtb__cuda_scan *s);

/* ---- bodies (linscan_body.c) ----------------------------------------------------------------- */

enum { VTB_MAX_SCAN_SUMS = 8 };
/* Code of linscan_steps.cu where recurrences stand in a body of elementwise ops
 * (passes/fuse/words_scans.c). */
typedef struct vtb__scan_codes {
  const char *q, *k, *decay_row, *values, *rate, *first, *put; /* as the text's holes */
  int more;
  /* of linscan_rates_grad.cu */
  const char *given;
  int n_sums, sums[VTB_MAX_SCAN_SUMS]; /* results that are sums over samples and tokens */
} vtb__scan_codes;
/* The type of what a block keeps of its first recurrences: that of the body's narrowest result. */
vtb_dtype vtb__scan_kept_type(const vtb_inst *fused);
/* The type of states in memory: narrow if the rows that the body reads are. */
vtb_dtype vtb__scan_state_type(const vtb_inst *fused);
vtb__scan_codes vtb__scan_grad_codes_make(vtb__cuda_scan *s, const vtb_inst *fused);
void vtb__cuda_scan_rates_grad(vtb__cuda_scan *s, const vtb_inst *fused);
/* From s->k, which gets the arguments; the recurrences are s->dir, of `fused`. */
vtb__scan_codes vtb__scan_codes_make(vtb__cuda_scan *s, const vtb_inst *fused);
void vtb__cuda_scan_steps_body(vtb__cuda_scan *s, const vtb_inst *fused);

#endif
