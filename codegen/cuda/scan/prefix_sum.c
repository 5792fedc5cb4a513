/* prefix_sum: running sums along an axis, in double: text/prefix_sum.cu.
 *
 * A sequence is one index of the axes before the tokens and one of those behind. A warp owns a
 * sequence and its lanes pieces of it; where there are sequences enough for all lanes of a GPU, a
 * lane owns a whole one, next to its neighbours in memory.
 */
#include "codegen/cuda/emitters.h"

#define MANY (1 << 15) /* sequences */
#define THREADS 128

/* Offset of tensor i in terms of pos on `axis`, b, the index of the axes before, and r, behind. */
static const char *offset(vtb_cuda *c, int i, int axis) {
  const vtb_type *t = vtb_cuda_tensor_of(c, i)->type;
  const char *index[VTB_MAX_RANK];
  char text[VTB_MAX_RANK][64];
  int64_t inner = 1;
  for (int a = t->rank - 1; a >= 0; a--) {
    if (a == axis) {
      index[a] = "pos", inner = 1;
      continue;
    }
    int64_t size = t->dim[a].size;
    snprintf(text[a], sizeof text[a], "%c / %lld %% %lld", a < axis ? 'b' : 'r', (long long)inner,
             (long long)size);
    index[a] = text[a];
    inner *= size;
  }
  return vtb_cuda_offset(c, i, index);
}

void vtb__cuda_prefix_sum(vtb_cuda *c, const vtb_inst *inst) {
  const vtb_type *x = &inst->operands[0]->type;
  int axis = (int)vtb_attr_int(inst, "axis", 0);
  int64_t sequences = 1, rest = 1, N = x->dim[axis].size;
  for (int a = 0; a < x->rank; a++)
    if (a != axis) sequences *= x->dim[a].size;
  for (int a = axis + 1; a < x->rank; a++) rest *= x->dim[a].size;
  bool many = sequences >= MANY;
  double w = vtb_attr_float(inst, "wrap", 0);
  vtb_cuda_kernel *k = vtb_cuda_begin_text(c, "prefix_sum", "prefix_sum.cu", THREADS);
  vtb_cuda_in(k, 0, "x");
  vtb_cuda_out(k, 1, "y");
  vtb_cuda_order order = vtb_cuda_order_make(k, vtb_attr_str(inst, "path", NULL), N, "order");
  vtb_cuda_fill(k, "place", "%s", vtb_cuda_order_at(c, &order, "t"));
  vtb_cuda_fill(k, "x_at", "%s", offset(c, 0, axis));
  vtb_cuda_fill(k, "y_at", "%s", offset(c, 1, axis));
  if (w > 0)
    vtb_cuda_fill(k, "wrap", "s - %.17g * vtb_rint64(s * %.17g)", w, 1 / w);
  else
    vtb_cuda_fill(k, "wrap", "s");
  VTB_CUDA_NUMBERS(k, {"N", N}, {"REST", rest}, {"SEQUENCES", sequences}, {"LANES", many ? 1 : 32},
                   {"PIECE", many ? N : (N + 31) / 32},
                   {"REVERSE", vtb_attr_int(inst, "reverse", 0) != 0},
                   {"EXCLUSIVE", vtb_attr_int(inst, "exclusive", 0) != 0});
  int64_t per_block = many ? THREADS : THREADS / 32;
  vtb_cuda_launch(k, (sequences + per_block - 1) / per_block);
}
