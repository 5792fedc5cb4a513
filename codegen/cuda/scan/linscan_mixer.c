/* Mixers (a `fused` of kind "mixer", passes/fuse/fuse_mixer.c): a linear recurrence by products
 * whose blocks have whole rows of y and their normalizers, and evaluate there what is
 * computed of them. */
#include <string.h>

#include "codegen/cuda/emitters.h"
#include "codegen/cuda/loop/expr.h"
#include "codegen/cuda/scan/linscan.h"
#include "ir/rewrite.h"
#include "ir/scalar.h"

/* Tensors as long as y that its rows are computed of, or stored to. */
static int row_accesses(const vtb__cuda_scan *s) {
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
  vtb_check(rows != NULL, "a mixer whose body is not of rows");
  vtb_cuda_fill(s->k, "row_body", "%s", rows);
  VTB_CUDA_NUMBERS(s->k, {"Z", s->normalizer}, {"ROW_LANES", threads},
                   {"ROW_ACCESSES", row_accesses(s)});
}

/* Rows are read as they are before what multiplies them. */
void vtb__cuda_scan_find_rows(vtb__cuda_scan *s) {
  for (const vtb_inst *i = s->mixer ? s->mixer->callee->first : NULL; i; i = i->next)
    if (i->op == VTB_OP_maxplus) s->gates = i;
  int *const at[] = {&s->at.q, &s->at.k, &s->at.v};
  for (int o = 0; o < 3; o++) {
    const vtb_value *gain, *rows = vtb_mixer_rows(s->inst, o, &gain, &s->map[o]);
    vtb_check(!rows->def && (!gain || (o == 1 && (s->gates || !gain->def))),
              "a mixer's rows are arguments");
    if (gain && s->gates)
      s->gain_value = gain;
    else if (gain)
      s->gain = gain->index;
    *at[o] = rows->index;
  }
  s->dir_at[0] = s->at;
}

/* Row e of the matrix of group g, and four biases. */
static void fill_map(vtb__cuda_scan *s, int o, const char *name, char flag) {
  vtb_arena *arena = &s->c->arena;
  const vtb_inst *map = s->map[o];
  const char *w = vtb_arena_printf(arena, "%s_w", name),
             *add = vtb_arena_printf(arena, "%s_b", name);
  const char *matrix = "vtb_splat(0.0f)", *bias = "vtb_splat(0.0f)";
  bool last = false;
  if (map) {
    const char *spec = vtb_attr_str(map, "spec", ""), *letters = strchr(spec, ',') + 1;
    int at = map->operands[1]->index;
    last = letters[2] == spec[map->operands[0]->type.rank - 1];
    vtb_cuda_in(s->k, at, w);
    matrix = vtb_arena_printf(arena, "vtb_load4(%s, %s)", w,
                              vtb_cuda_offset(s->c, at, (const char *const[]){"g", "e", NULL}));
  }
  if (map && map->n_operands == 3) {
    int at = map->operands[2]->index;
    vtb_cuda_in(s->k, at, add);
    bias = vtb_arena_printf(arena, "vtb_load4(%s, %s)", add,
                            vtb_cuda_offset(s->c, at, (const char *const[]){"g", NULL}));
  }
  vtb_cuda_fill(s->k, vtb_arena_printf(arena, "%s_matrix", name), "%s", matrix);
  vtb_cuda_fill(s->k, vtb_arena_printf(arena, "%s_bias", name), "%s", bias);
  VTB_CUDA_NUMBERS(s->k, {vtb_arena_printf(arena, "%c_MAP", flag), map != NULL},
                   {vtb_arena_printf(arena, "%c_LAST_SUMMED", flag), last});
}

void vtb__cuda_scan_fill_maps(vtb__cuda_scan *s, const char *names) {
  for (int o = 0; o < 3; o++) {
    const char name[] = {names[o], '\0'};
    fill_map(s, o, vtb_arena_printf(&s->c->arena, "%s", name), (char)(names[o] - 'a' + 'A'));
  }
}

void vtb__cuda_mixer(vtb_cuda *c, const vtb_inst *fused) {
  vtb__cuda_scan s = vtb__cuda_scan_make(c, vtb_mixer_scan(fused));
  vtb_check(s.half, "a mixer of wide factors");
  s.mixer = fused;
  vtb__cuda_scan_find_rows(&s);
  if (vtb__cuda_scan_is_short(&s))
    vtb__cuda_scan_short(&s);
  else {
    vtb_check(!s.gates, "gates of a mixer of long sequences");
    vtb__cuda_scan_forward(&s);
  }
}
