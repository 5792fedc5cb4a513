/* The meaning of the attention ops. Shapes: B batch, N queries, M keys, h heads, g heads of keys
 * and values (g divides h), K the width of a query and a key, V that of a value.
 *
 * attention
 *   operands    q [B,N,h,K], k [B,M,g,K], v [B,M,g,V], and optionally bias [N,M], [a,N,M] or
 *               [B or 1,a,N,M], a divides h
 *   attributes  scale (absent: 1); causal = 1: query i sees keys j <= i + M - N, so that the last
 *               query sees all keys
 *   results     y [B,N,h,V], lse [B,N,h]:
 *                 s[i,j] = scale q_i . k_j + bias[i,j]
 *                 lse_i  = log sum_j exp s[i,j]
 *                 y_i    = sum_j exp(s[i,j] - lse_i) v_j
 *   Head i reads keys and values of head i div (h/g), and the bias of head i mod a: windows in the
 *   head axis (windows major) share one bias. Biases of -inf exclude keys. A query without any key
 *   has y = 0 and lse = +inf, which makes its probabilities exp(s - lse) zero in the adjoint too.
 *
 * attention_grad
 *   operands    q, k, v, [bias if bias = 1], y, lse, dy, [dlse if dlse = 1]
 *   attributes  those of attention; bias = 1: there is a bias; dbias = 1: its adjoint is a result
 *   results     dq, dk, dv, and with dbias: dbias
 *   Probabilities are made again from lse: P = exp(s - lse), dS = P o (dy v^T - (dy . y - dlse)).
 *
 * No target keeps an N x M matrix in memory; blocks of queries meet tiles of keys.
 */
#ifndef VTB_ATTENTION_H
#define VTB_ATTENTION_H

#include "ir/ir.h"

/* Tables [N, 1 or h, width/2] by which the first `width` channels of rows are turned; 0: they are
 * not. */
typedef struct vtb_turn {
  int cosines, sines;
  int64_t width;
} vtb_turn;

/* One attention or attention_grad, or the kernel that holds one, taken apart. Tensors are numbered
 * as operands, then results; -1 where absent. */
typedef struct vtb_attention {
  int64_t n_batch, n_queries, n_keys, n_heads, kv_heads, width, value_width;
  int64_t bias_batch, bias_heads; /* sizes of the bias's leading axes; 1 where it has none */
  double scale;
  bool causal, wants_dbias;
  int q, k, v;
  int bias, y, lse, dy, dlse; /* operands; attention has only a bias */
  int result[4];              /* y and lse, or dq, dk, dv and dbias */
  vtb_turn turn[2];           /* of queries and keys, in a kernel of both */
} vtb_attention;

/* The attention of an instruction whose shapes hold. */
vtb_attention vtb_attention_of(const vtb_inst *inst);

/* True for a `fused` of kind "attention": a kernel of rotary embeddings and the attention they lead
 * to, made by passes/fuse/words_turns.c. Channels 2p and 2p+1 below the tables' width become
 * x c - y s and x s + y c; the others stay. Results are the attention's. Or all this of an
 * attention_grad: its q and k are turned, and the adjoints of what is turned are turned back
 * (x c + y s and y c - x s). */
bool vtb_is_turned_attention(const vtb_inst *inst);
/* The attention or attention_grad in its kernel. */
const vtb_inst *vtb_turned_attention(const vtb_inst *fused);

#endif
