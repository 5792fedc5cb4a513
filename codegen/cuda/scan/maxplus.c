/* maxplus: m_t = max(m_{t-1} + g_t, i_t) along axis 1 in path order, and its adjoint:
 * text/maxplus.cu, maxplus_grad.cu.
 *
 * A sequence is one batch entry and one index of the axes after the tokens. A warp owns a sequence
 * and its lanes pieces of it: the maximum of a piece is known up to what enters it, so a scan over
 * the lanes gives every piece its start. Where there are sequences enough for all lanes of a GPU, a
 * lane owns a whole one, next to its neighbours in memory.
 */
#include "codegen/cuda/emitters.h"

#define MANY (1 << 15) /* sequences */
#define THREADS 128

/* Offset of tensor i in terms of b, pos (if it has tokens) and r, the index of the axes behind. */
static const char *offset(vtb_cuda *c, int i, bool tokens) {
  const vtb_cuda_tensor *t = vtb_cuda_tensor_of(c, i);
  const char *index[VTB_MAX_RANK] = {"b", tokens ? "pos" : NULL};
  char text[VTB_MAX_RANK][64];
  int64_t inner = 1;
  for (int a = t->type->rank - 1; a >= 1 + tokens; a--) {
    int64_t size = t->type->dim[a].size;
    snprintf(text[a], sizeof text[a], "r / %lld %% %lld", (long long)inner, (long long)size);
    index[a] = text[a];
    inner *= size;
  }
  return vtb_cuda_offset(c, i, index);
}

/* The kernel with g, i and the initial m, the operands from 0 on. */
static vtb_cuda_kernel *begin(vtb_cuda *c, const vtb_inst *inst, const char *file, bool init,
                              int64_t *blocks) {
  const vtb_type *g = &inst->operands[0]->type;
  int64_t rest = 1, N = g->dim[1].size;
  for (int a = 2; a < g->rank; a++) rest *= g->dim[a].size;
  int64_t sequences = g->dim[0].size * rest;
  bool many = sequences >= MANY;
  vtb_cuda_kernel *k = vtb_cuda_begin_text(c, vtb_op_get(inst->op)->name, file, THREADS);
  vtb_cuda_in(k, 0, "g");
  vtb_cuda_in(k, 1, "i");
  vtb_cuda_order order = vtb_cuda_order_make(k, vtb_attr_str(inst, "path", NULL), N, "order");
  vtb_cuda_fill(k, "place", "%s", vtb_cuda_order_at(c, &order, "t"));
  vtb_cuda_fill(k, "g_at", "%s", offset(c, 0, true));
  vtb_cuda_fill(k, "i_at", "%s", offset(c, 1, true));
  if (init) vtb_cuda_in(k, 2, "first");
  vtb_cuda_fill(k, "first", init ? "first[%s]" : "-VTB_INF", init ? offset(c, 2, false) : "");
  VTB_CUDA_NUMBERS(k, {"N", N}, {"REST", rest}, {"SEQUENCES", sequences}, {"LANES", many ? 1 : 32},
                   {"PIECE", many ? N : (N + 31) / 32});
  int64_t per_block = many ? THREADS : THREADS / 32;
  *blocks = (sequences + per_block - 1) / per_block;
  return k;
}

void vtb__cuda_maxplus(vtb_cuda *c, const vtb_inst *inst) {
  int64_t blocks;
  vtb_cuda_kernel *k = begin(c, inst, "maxplus.cu", inst->n_operands == 3, &blocks);
  vtb_cuda_out(k, inst->n_operands, "m_out");
  vtb_cuda_fill(k, "m_at", "%s", offset(c, inst->n_operands, true));
  vtb_cuda_launch(k, blocks);
}

void vtb__cuda_maxplus_grad(vtb_cuda *c, const vtb_inst *inst) {
  int64_t blocks;
  bool init = vtb_attr_int(inst, "init", 0) != 0;
  vtb_cuda_kernel *k = begin(c, inst, "maxplus_grad.cu", init, &blocks);
  vtb_cuda_in(k, 2 + init, "m_in");
  vtb_cuda_in(k, 3 + init, "dm");
  vtb_cuda_out(k, 4 + init, "dg");
  vtb_cuda_out(k, 5 + init, "di");
  vtb_cuda_fill(k, "m_at", "%s", offset(c, 2 + init, true));
  vtb_cuda_fill(k, "dm_at", "%s", offset(c, 3 + init, true));
  vtb_cuda_fill(k, "dg_at", "%s", offset(c, 4 + init, true));
  vtb_cuda_fill(k, "di_at", "%s", offset(c, 5 + init, true));
  if (init) vtb_cuda_out(k, 6 + init, "dfirst");
  vtb_cuda_fill(k, "put_first", init ? "dfirst[%s] = carry;" : "(void)carry;",
                init ? offset(c, 6 + init, false) : "");
  vtb_cuda_launch(k, blocks);
}
