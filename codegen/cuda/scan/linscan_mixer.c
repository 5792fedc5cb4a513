/* Mixers (a `fused` of kind "mixer", passes/fuse/words_mixer.c): a linear recurrence by products
 * whose blocks have whole rows of y and their normalizers, and evaluate there what is
 * computed of them. */
#include "codegen/cuda/loop/expr.h"
#include "ir/ops.h"
#include "codegen/cuda/scan/linscan.h"
#include "ir/product.h"
#include "ir/rewrite.h"
#include "ir/scalar.h"

int vtb__cuda_scan_row_accesses(const vtb__cuda_scan *s) {
  int64_t all = vtb_type_count(&s->inst->results[0]->type);
  int n = 0;
  for (int r = 0; r < s->mixer->n_results; r++)
    n += vtb_type_count(&s->mixer->results[r]->type) == all;
  for (const vtb_inst *i = s->mixer->callee->first; i; i = i->next) {
    if (!vtb_scalar_get(i->op) || i->results[0] == s->inst->operands[1]) continue;
    for (int o = 0; o < i->n_operands; o++) {
      const vtb_value *v = vtb_behind_reshapes(i->operands[o]);
      n += !v->def && vtb_type_count(&v->type) == all;
    }
  }
  return n;
}

void vtb__cuda_scan_fill_mixer(vtb__cuda_scan *s) {
  static const char *const number[] = {"b", "pos", "h"};
  const vtb_value *const *results = (const vtb_value *const *)s->inst->results;
  vtb_cuda_near near[] = {{results[0], "done_row", true},
                          {s->normalizer ? results[2] : NULL, "z_row", false},
                          {s->gates ? s->gates->results[0] : NULL, "m_row", false}};
  int threads = 32, n = 1 + s->normalizer;
  if (s->gates) near[n++] = near[2];
  const char *rows = vtb__cuda_row_text(s->k, s->mixer, number, near, n, &threads);
  if (!rows) {
    vtb_cuda_unsupported(s->c, s->mixer, "a mixer computes something that is not of rows");
    return;
  }
  vtb_cuda_fill(s->k, "row_body", "%s", rows);
  VTB_CUDA_NUMBERS(s->k, {"Z", s->normalizer}, {"ROW_LANES", threads},
                   {"ROW_ACCESSES", vtb__cuda_scan_row_accesses(s)});
}

/* Rows are read as they are before what multiplies them. */
void vtb__cuda_scan_find_rows(vtb__cuda_scan *s) {
  for (const vtb_inst *i = s->mixer ? s->mixer->callee->first : NULL; i; i = i->next)
    if (i->op == VTB_OP_maxplus) s->gates = i;
  int *const at[] = {&s->at.q, &s->at.k, &s->at.v};
  for (int o = 0; o < 3; o++) {
    const vtb_value *gain, *rows = vtb_mixer_rows(s->inst, o, &gain, &s->map[o]);
    if (rows->def || (gain && (o != 1 || (!s->gates && gain->def)))) {
      vtb_cuda_unsupported(s->c, s->c->unit.inst, "rows of a mixer that are computed in it");
      return;
    }
    if (gain && s->gates)
      s->gain_value = gain;
    else if (gain)
      s->gain = gain->index;
    *at[o] = rows->index;
  }
  s->dir_at[0] = s->at;
}

/* What row c of so many rows lies at, of [groups, rows, ...]: mostly they follow each other. */
static const char *row_at(vtb__cuda_scan *s, int at, int64_t rows, const char *i) {
  const int64_t *stride = vtb_cuda_tensor_of(s->c, at)->stride;
  bool dense = stride[0] == rows * stride[1];
  const char *group = vtb_arena_printf(&s->c->arena, "(c / %lld)", (long long)rows);
  const char *row = vtb_arena_printf(&s->c->arena, "(c %% %lld)", (long long)rows);
  return vtb_cuda_offset(s->c, at,
                         (const char *const[]){dense ? "0" : group, dense ? "c" : row, i});
}

/* Element i of row c of the matrices, and the bias there. */
static void fill_map(vtb__cuda_scan *s, int o, const char *name, char flag) {
  vtb_arena *arena = &s->c->arena;
  const vtb_inst *map = s->map[o];
  const char *w = vtb_arena_printf(arena, "%s_w", name),
             *add = vtb_arena_printf(arena, "%s_b", name);
  const char *matrix = "0.0f", *bias = "0.0f";
  bool last = false;
  if (map) {
    vtb_blocks blocks;
    int at = map->operands[1]->index;
    last = vtb_blocks_of(map, &blocks) && blocks.at_inner == 2;
    vtb_cuda_in(s->k, at, w);
    matrix = vtb_arena_printf(arena, "%s[%s]", w, row_at(s, at, vtb__cuda_scan_map_size(s), "i"));
  }
  if (map && map->n_operands == 3) {
    int at = map->operands[2]->index;
    vtb_cuda_in(s->k, at, add);
    bias = vtb_arena_printf(arena, "%s[%s]", add, row_at(s, at, vtb__cuda_scan_map_size(s), NULL));
  }
  vtb_cuda_fill(s->k, vtb_arena_printf(arena, "%s_matrix", name), "%s", matrix);
  vtb_cuda_fill(s->k, vtb_arena_printf(arena, "%s_bias", name), "%s", bias);
  VTB_CUDA_NUMBERS(s->k, {vtb_arena_printf(arena, "%c_MAP", flag), map != NULL},
                   {vtb_arena_printf(arena, "%c_LAST_SUMMED", flag), last});
}

int64_t vtb__cuda_scan_map_size(const vtb__cuda_scan *s) {
  int64_t size = 4; /* of nothing */
  for (int o = 0; o < 3; o++)
    if (s->map[o]) size = s->map[o]->operands[1]->type.dim[1].size;
  return size;
}

void vtb__cuda_scan_fill_maps(vtb__cuda_scan *s, const char *names, int64_t group) {
  for (int o = 0; o < 3; o++) {
    const char name[] = {names[o], '\0'};
    fill_map(s, o, vtb_arena_printf(&s->c->arena, "%s", name), (char)(names[o] - 'a' + 'A'));
  }
  VTB_CUDA_NUMBERS(s->k, {"GROUP", group}, {"BLOCK", vtb__cuda_scan_map_size(s)});
}
