/* linscan, linscan_grad and delta: what emits them, alone, several directions of one cell together,
 * or with what stands around one: see linscan.h. */
#include <string.h>

#include "codegen/cuda/emitters.h"
#include "codegen/cuda/plan/program.h"
#include "codegen/cuda/scan/linscan.h"

/* ---- directions ------------------------------------------------------------------------------ */

enum { N_MEMBERS = sizeof(vtb_scan_tensors) / sizeof(int) };

static const int *members(const vtb_scan_tensors *t) { return (const int *)t; }

/* Member m of direction `dir` lies in memory as that of the first: the texts have one set of
 * strides and alignments. */
static bool laid_out_alike(const vtb__cuda_scan *s, int dir, int m) {
  int first = members(&s->at)[m], other = members(&s->dir_at[dir])[m];
  if (first < 0 || first == other) return other == first;
  const vtb_cuda_tensor *a = vtb_cuda_tensor_of(s->c, first), *b = vtb_cuda_tensor_of(s->c, other);
  return a->type->dtype == b->type->dtype &&
         vtb_cuda_rows_of_four(s->c, first) == vtb_cuda_rows_of_four(s->c, other) &&
         memcmp(a->stride, b->stride, (size_t)a->type->rank * sizeof *a->stride) == 0;
}

static bool add_direction(vtb__cuda_scan *s, const vtb_inst *inst) {
  if (s->n_dirs == VTB__SCAN_DIRS) return false;
  s->dir[s->n_dirs] = inst;
  s->dir_at[s->n_dirs] = vtb__scan_tensors_of(inst);
  for (int m = 0; m < N_MEMBERS; m++)
    if (!laid_out_alike(s, s->n_dirs, m)) return false;
  s->n_dirs++;
  s->n = s->B * s->heads * s->n_dirs;
  return true;
}

static bool are_opposite(const vtb__cuda_scan *s, int a, int b) {
  int32_t *order = vtb_xcalloc((size_t)(2 * s->N), sizeof *order);
  bool opposite = s->dir_at[a].q == s->dir_at[b].q;
  vtb__scan_order(s, a, order);
  vtb__scan_order(s, b, order + s->N);
  for (int64_t t = 0; opposite && t < s->N; t++) opposite = order[t] == order[2 * s->N - 1 - t];
  vtb_free(order);
  return opposite;
}

static void swap_directions(vtb__cuda_scan *s, int a, int b) {
  const vtb_inst *inst = s->dir[a];
  vtb_scan_tensors at = s->dir_at[a];
  s->dir[a] = s->dir[b], s->dir_at[a] = s->dir_at[b];
  s->dir[b] = inst, s->dir_at[b] = at;
}

/* Brings opposite directions side by side. */
static void pair_directions(vtb__cuda_scan *s) {
  bool paired = !s->rank && !s->by_steps && !s->grad && s->n_dirs % 2 == 0 && s->K <= 64;
  for (int a = 0; paired && a < s->n_dirs; a += 2) {
    int b = a + 1;
    while (b < s->n_dirs && !are_opposite(s, a, b)) b++;
    paired = b < s->n_dirs;
    if (paired) swap_directions(s, a + 1, b);
  }
  s->paired = paired;
}

static void emit(vtb__cuda_scan *s) {
  if (s->rank)
    vtb__cuda_scan_delta(s);
  else if (s->grad)
    vtb__cuda_scan_grad(s);
  else
    vtb__cuda_scan_forward(s);
}

void vtb__cuda_linscan(vtb_cuda *c, const vtb_inst *inst) {
  vtb__cuda_scan s = vtb__cuda_scan_make(c, inst);
  emit(&s);
}

void vtb__cuda_linscan_grad(vtb_cuda *c, const vtb_inst *inst) { vtb__cuda_linscan(c, inst); }
void vtb__cuda_delta(vtb_cuda *c, const vtb_inst *inst) { vtb__cuda_linscan(c, inst); }

void vtb__cuda_scans(vtb_cuda *c, const vtb_inst *inst) {
  for (const vtb_inst *i = inst->callee->first; i;) {
    vtb__cuda_scan s = vtb__cuda_scan_make(c, i);
    for (i = i->next; i && add_direction(&s, i); i = i->next) continue;
    pair_directions(&s);
    emit(&s);
  }
}

/* ---- mixers ---------------------------------------------------------------------------------- */

void vtb__cuda_mixer(vtb_cuda *c, const vtb_inst *fused) {
  vtb__cuda_scan s = vtb__cuda_scan_make(c, vtb_mixer_scan(fused));
  s.mixer = fused;
  if (s.half) vtb__cuda_scan_find_rows(&s);
  if (!s.half)
    vtb_cuda_unsupported(c, fused,
                         "a mixer of heads of %lld x %lld numbers and %s factors: kernels have "
                         "factors of 16 bits and what linscan_tiles.cu requires",
                         (long long)s.K, (long long)s.V, vtb_factors_names[vtb__cuda_factors(c)]);
  else if (!c->failed && vtb__cuda_scan_is_short(&s))
    vtb__cuda_scan_short(&s);
  else if (s.gates)
    vtb_cuda_unsupported(c, fused,
                         "gates in a mixer of %lld tokens and heads of %lld x %lld, which has no "
                         "block for a sequence",
                         (long long)s.N, (long long)s.K, (long long)s.V);
  else if (!c->failed)
    vtb__cuda_scan_forward(&s);
}
