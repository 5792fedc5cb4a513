/* gather and scatter_sum: text/gather.cu, text/scatter_sum.cu. */
#include "codegen/cuda/emitters.h"

enum { THREADS = 256, PER_BLOCK = 4096, MOST_ROWS = 1024, MOST_COLUMNS = 256 };

typedef struct rows {
  int axis, n_indices; /* that is picked from; axes of the indices */
  int64_t lead, picks, places, rest;
} rows;

static int64_t sizes(const vtb_type *t, int from, int to) {
  int64_t n = 1;
  for (int a = from; a < to; a++) n *= t->dim[a].size;
  return n;
}

static rows rows_of(const vtb_inst *inst, const vtb_type *whole) {
  const vtb_type *i = &inst->operands[1]->type;
  int axis = (int)vtb_attr_int(inst, "axis", 0);
  return (rows){axis,
                i->rank,
                sizes(i, 0, axis),
                sizes(i, axis, i->rank),
                whole->dim[axis].size,
                sizes(whole, axis + 1, whole->rank)};
}

/* The offset in a tensor, of lead, of pick or place, and of rest. */
static void fill_at(vtb_cuda_kernel *k, vtb_cuda *c, const rows *r, const char *name, int tensor,
                    bool whole) {
  const vtb_type *t = vtb_cuda_tensor_of(c, tensor)->type;
  const char *index[VTB_MAX_RANK];
  char text[VTB_MAX_RANK][64];
  int behind = whole ? r->axis + 1 : r->n_indices;
  int64_t inner = 1;
  for (int a = t->rank - 1; a >= 0; a--) {
    const char *number = a < r->axis ? "lead" : a >= behind ? "rest" : whole ? "place" : "pick";
    if (a == r->axis - 1 || a == behind - 1) inner = 1;
    snprintf(text[a], sizeof text[a], "%s / %lld %% %lld", number, (long long)inner,
             (long long)t->dim[a].size);
    index[a] = text[a];
    inner *= t->dim[a].size;
  }
  vtb_cuda_fill(k, name, "%s", vtb_cuda_offset(c, tensor, index));
}

/* Four elements of the rest are neighbours in both. */
static bool are_fours(const vtb_cuda *c, const rows *r) {
  return r->rest % 4 == 0 && vtb_cuda_rows_of_four(c, 0) && vtb_cuda_rows_of_four(c, 2) &&
         vtb_cuda_tensor_of(c, 2)->type->dtype == VTB_F32 &&
         vtb_cuda_tensor_of(c, 0)->type->rank > r->axis + 1;
}

void vtb__cuda_gather(vtb_cuda *c, const vtb_inst *inst) {
  rows r = rows_of(inst, &inst->operands[0]->type);
  bool four = are_fours(c, &r), real = inst->results[0]->type.dtype == VTB_F32;
  int64_t n = r.lead * r.picks * r.rest, threads = four ? n / 4 : n;
  vtb_cuda_kernel *k = vtb_cuda_begin_text(c, "gather", "gather.cu", THREADS);
  vtb_cuda_in(k, 0, "x");
  vtb_cuda_in(k, 1, "indices");
  vtb_cuda_out(k, 2, "y");
  VTB_CUDA_NUMBERS(k, {"PICKS", r.picks}, {"PLACES", r.places}, {"REST", r.rest}, {"ELEMENTS", n});
  vtb_cuda_fill(k, "value", four ? "vtb_f4" : real ? "float" : "int");
  vtb_cuda_fill(k, "number", vtb_cuda_is_far(c, n + 4 * THREADS) ? "vtb_i64" : "int");
  fill_at(k, c, &r, "x_at", 0, true);
  fill_at(k, c, &r, "indices_at", 1, false);
  fill_at(k, c, &r, "y_at", 2, false);
  vtb_cuda_launch(k, (threads + THREADS - 1) / THREADS);
}

void vtb__cuda_scatter_sum(vtb_cuda *c, const vtb_inst *inst) {
  rows r = rows_of(inst, &inst->results[0]->type);
  int64_t columns = r.rest < MOST_COLUMNS ? r.rest : MOST_COLUMNS, across = 1;
  while (across < columns) across *= 2;
  int64_t own = PER_BLOCK / columns < MOST_ROWS ? PER_BLOCK / columns : MOST_ROWS;
  vtb_cuda_kernel *k = vtb_cuda_begin_text(c, "scatter_sum", "scatter_sum.cu", THREADS);
  vtb_cuda_in(k, 0, "x");
  vtb_cuda_in(k, 1, "indices");
  vtb_cuda_out(k, 2, "y");
  VTB_CUDA_NUMBERS(k, {"PICKS", r.picks}, {"PLACES", r.places}, {"REST", r.rest}, {"ROWS", own},
                   {"COLUMNS", columns}, {"ACROSS", across});
  fill_at(k, c, &r, "x_at", 0, false);
  fill_at(k, c, &r, "indices_at", 1, false);
  fill_at(k, c, &r, "y_at", 2, true);
  vtb_cuda_launch(k, r.lead * vtb_cuda_value(k, "SLICES * PARTS"));
}
