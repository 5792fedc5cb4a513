/* Shared by the emitters of attention and attention_grad: the instruction taken apart, blocks of
 * queries, tiles of keys, scores. Shapes and meaning: ir/attention.h. Keys of a head lie in scratch
 * memory transposed, tile after tile [n_tiles, K, ld_s]; rows of queries, keys and values are
 * padded with zeros to whole vectors.
 */
#ifndef VTB_CODEGEN_CPU_ATTENTION_H
#define VTB_CODEGEN_CPU_ATTENTION_H

#include "codegen/cpu/scan/linscan.h"
#include "ir/attention.h"

typedef struct vtb__attention {
  vtb_cpu *c;
  vtb_cpu_task *t; /* under construction */
  vtb_attention a;
  int64_t block, n_blocks;  /* queries a block */
  int64_t tile, n_tiles;    /* keys a tile, a multiple of the vector where there are several */
  int64_t ld_s, ld_k, ld_v; /* row lengths of scores, keys and queries, values */
  LLVMValueRef batch, head; /* of this part of the task */
  LLVMValueRef i0, rows;    /* the block */
  LLVMValueRef j0, cols;    /* the tile; columns in whole vectors: vectors */
  LLVMValueRef vectors;
} vtb__attention;

vtb__attention vtb__attention_make(vtb_cpu *c, const vtb_inst *inst);
LLVMValueRef vtb__attention_scratch(vtb__attention *g, int64_t floats);
LLVMValueRef vtb__attention_kv_head(const vtb__attention *g);

/* Row of token i of tensor `tensor` [B, tokens, heads, ...]. */
LLVMValueRef vtb__attention_row(const vtb__attention *g, int tensor, LLVMValueRef i,
                                LLVMValueRef head);
/* Rows [from, from + n) of `width` elements, padded with zeros, to out. */
void vtb__attention_pack(const vtb__attention *g, int tensor, LLVMValueRef head, int64_t width,
                         LLVMValueRef from, LLVMValueRef n, LLVMValueRef out, int64_t ld);
/* All keys' (or values') rows of the head, transposed by tiles; `rows` is scratch for one tile of
 * rows, NULL where the width is whole vectors and nothing turned. Columns beyond the last key
 * repeat it. */
void vtb__attention_transpose(vtb__attention *g, int tensor, LLVMValueRef head, int64_t width,
                              const vtb_turn *turn, LLVMValueRef rows, int64_t ld,
                              LLVMValueRef out);

/* Turns packed rows of the tokens from `from` on; nothing if t is NULL or no turn. */
void vtb__attention_turn(const vtb__attention *g, const vtb_turn *t, LLVMValueRef head,
                         LLVMValueRef from, LLVMValueRef n, LLVMValueRef rows, int64_t ld);
/* The same of adjoints, the other way round. */
void vtb__attention_turn_back(const vtb__attention *g, const vtb_turn *t, LLVMValueRef head,
                              LLVMValueRef from, LLVMValueRef n, LLVMValueRef rows, int64_t ld);

/* Sets i0 and rows of block `block`. */
void vtb__attention_block(vtb__attention *g, LLVMValueRef block);
/* Tiles that the block sees, at least one. */
LLVMValueRef vtb__attention_tiles(const vtb__attention *g);
void vtb__attention_tile(vtb__attention *g, LLVMValueRef tile);
/* Tile `tile` of transposed rows. */
LLVMValueRef vtb__attention_tile_at(const vtb__attention *g, LLVMValueRef all, LLVMValueRef tile,
                                    int64_t width);

/* The address of the bias of query i (of this batch entry and head) at key j0; tensor is the bias
 * or its adjoint. */
LLVMValueRef vtb__attention_bias_row(const vtb__attention *g, int tensor, LLVMValueRef i);
/* scale s + bias for the columns j ... of query i, excluded keys and columns beyond the last at
 * -inf (the latter only if there is a bias or an exclusion; else they repeat the last key). */
LLVMValueRef vtb__attention_score(const vtb__attention *g, LLVMValueRef s, LLVMValueRef bias_row,
                                  LLVMValueRef i, LLVMValueRef j);

void vtb__cpu_turned_attention(vtb_cpu *c, const vtb_inst *fused); /* vtb_is_turned_attention() */

#endif
