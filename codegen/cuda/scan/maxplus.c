/* maxplus: m_t = max(m_{t-1} + g_t, i_t) along axis 1 in path order, and its adjoint:
 * text/maxplus.cu, maxplus_grad.cu.
 *
 * A sequence is one batch entry and one index of the axes after the tokens. A warp owns a sequence
 * and its lanes pieces of it: the maximum of a piece is known up to what enters it, so a scan over
 * the lanes gives every piece its start. Where there are sequences enough for all lanes of a GPU, a
 * lane owns a whole one, next to its neighbours in memory.
 */
#include "codegen/cuda/emitters.h"
#include "codegen/cuda/compile/holes.h"

#define MANY (1 << 15) /* sequences */
#define THREADS 128

/* Offset of tensor i in terms of b, pos (NULL: the tensor has no tokens) and r, the index of the
 * axes behind. */
static const char *offset(vtb_cuda *c, vtb__cuda_holes *h, int i, bool tokens) {
  const vtb_cuda_tensor *t = vtb_cuda_tensor_of(c, i);
  const char *index[VTB_MAX_RANK] = {"b", tokens ? "pos" : NULL};
  int64_t inner = 1;
  for (int a = t->type->rank - 1; a >= 1 + tokens; a--) {
    index[a] = vtb_arena_printf(&h->texts, "r / %lld %% %lld", (long long)inner,
                                (long long)t->type->dim[a].size);
    inner *= t->type->dim[a].size;
  }
  return vtb_cuda_offset(c, i, index);
}

static void tensor_hole(vtb_cuda *c, vtb__cuda_holes *h, const char *hole, const char *name, int i,
                        bool tokens) {
  vtb__hole_text(h, hole, "%s[%s]", name, offset(c, h, i, tokens));
}

static vtb_cuda_kernel *begin(vtb_cuda *c, const vtb_inst *inst, vtb__cuda_holes *h,
                              int64_t *blocks) {
  const vtb_type *g = &inst->operands[0]->type;
  int64_t rest = 1, N = g->dim[1].size;
  for (int a = 2; a < g->rank; a++) rest *= g->dim[a].size;
  int64_t sequences = g->dim[0].size * rest;
  bool many = sequences >= MANY;
  vtb_cuda_kernel *k = vtb_cuda_begin(c, vtb_op_get(inst->op)->name, THREADS);
  vtb__holes_init(h);
  vtb_cuda_in(k, 0, "g");
  vtb_cuda_in(k, 1, "i");
  vtb_cuda_order order = vtb_cuda_order_make(k, vtb_attr_str(inst, "path", NULL), N, "order");
  vtb__hole_text(h, "place", "%s", vtb_cuda_order_at(c, &order, "t"));
  tensor_hole(c, h, "g", "g", 0, true);
  tensor_hole(c, h, "i", "i", 1, true);
  vtb__hole_number(h, "N", N);
  vtb__hole_number(h, "REST", rest);
  vtb__hole_number(h, "SEQUENCES", sequences);
  vtb__hole_number(h, "LANES", many ? 1 : 32);
  vtb__hole_number(h, "PIECE", many ? N : (N + 31) / 32);
  int64_t per_block = many ? THREADS : THREADS / 32;
  *blocks = (sequences + per_block - 1) / per_block;
  return k;
}

static void hole_first(vtb_cuda *c, vtb__cuda_holes *h, vtb_cuda_kernel *k, bool init) {
  if (init) vtb_cuda_in(k, 2, "first");
  if (init)
    tensor_hole(c, h, "first", "first", 2, false);
  else
    vtb__hole_text(h, "first", "-VTB_INF");
}

void vtb__cuda_maxplus(vtb_cuda *c, const vtb_inst *inst) {
  vtb__cuda_holes h;
  int64_t blocks;
  vtb_cuda_kernel *k = begin(c, inst, &h, &blocks);
  hole_first(c, &h, k, inst->n_operands == 3);
  vtb_cuda_out(k, inst->n_operands, "m_out");
  tensor_hole(c, &h, "m", "m_out", inst->n_operands, true);
  vtb__holes_fill(&h, k, "maxplus.cu");
  vtb_cuda_launch(k, blocks);
}

void vtb__cuda_maxplus_grad(vtb_cuda *c, const vtb_inst *inst) {
  vtb__cuda_holes h;
  int64_t blocks;
  bool init = vtb_attr_int(inst, "init", 0) != 0;
  vtb_cuda_kernel *k = begin(c, inst, &h, &blocks);
  hole_first(c, &h, k, init);
  vtb_cuda_in(k, 2 + init, "m_in");
  vtb_cuda_in(k, 3 + init, "dm");
  vtb_cuda_out(k, 4 + init, "dg");
  vtb_cuda_out(k, 5 + init, "di");
  tensor_hole(c, &h, "m", "m_in", 2 + init, true);
  tensor_hole(c, &h, "dm", "dm", 3 + init, true);
  tensor_hole(c, &h, "dg", "dg", 4 + init, true);
  tensor_hole(c, &h, "di", "di", 5 + init, true);
  if (init) {
    vtb_cuda_out(k, 6 + init, "dfirst");
    vtb__hole_text(&h, "put_first", "dfirst[%s] = carry;", offset(c, &h, 6 + init, false));
  } else {
    vtb__hole_text(&h, "put_first", "(void)carry;");
  }
  vtb__holes_fill(&h, k, "maxplus_grad.cu");
  vtb_cuda_launch(k, blocks);
}
