/* linscan, classes constant and scalar, as products on tensor cores: S_t = d_t S_{t-1} + k_t v_t^T,
 * y_t = S_t^T q_t.
 *
 * First the states at the borders of chunks, one kernel that walks the chunks with tiles of the
 * state in registers; then all tiles of 64 tokens at once, each with the tiles before it in its
 * chunk and the state that enters the chunk. Parallel mode is one chunk of all tokens, without
 * states. Products are text/linscan_product.cu, which serves y and the adjoints dq, dk and dv
 * alike. Directions that go opposite ways share a block (linscan.h, paired). */
#include "codegen/cuda/scan/linscan.h"
#include "codegen/cuda/plan/program.h"

#define THREADS 128

/* ---- states ---------------------------------------------------------------------------------- */

vtb__scan_states vtb__cuda_scan_states(vtb__cuda_scan *s, bool backward) {
  vtb__scan_borders b = vtb__scan_borders_of(s, backward);
  const vtb__cuda_row rows[] = {b.keys, b.values};
  if (!b.kept && !b.asked) return (vtb__scan_states){-1, -1};
  if (s->half) return vtb__cuda_scan_half_states(s, backward);
  int temp = vtb_cuda_temp(s->c, s->n * s->n_chunks * s->K * s->state_pitch * 4);
  vtb__scan_begin(s, backward ? "linscan_adjoint_states" : "linscan_states", "linscan_states.cu",
                  2 * THREADS);
  vtb__fill_decay(s);
  vtb__fill_source(s, rows[0], "key");
  vtb__fill_source(s, rows[1], "value");
  vtb__fill_state(s, "first", b.from, b.from_n);
  vtb__fill_put_state(s, "put_last", b.asked, b.to, b.to_n);
  VTB_CUDA_NUMBERS(s->k, {"FOUR", vtb__cuda_rows_four(s, rows, 2)},
                   {"FACTORS", vtb__cuda_factors(s->c)}, {"BACK", backward},
                   {"FIRST", *b.from >= 0}, {"LAST", b.asked});
  vtb_cuda_temp_out(s->k, temp, "float", "states");
  vtb__scan_launch(s, s->n);
  return (vtb__scan_states){b.kept ? temp : -1, -1};
}

/* ---- products -------------------------------------------------------------------------------- */

const vtb__scan_shape vtb__scan_shapes[] = {
    [VTB__PRODUCT_Y] = {"linscan", true, false, VTB__ROW_Q, VTB__ROW_K, VTB__ROW_V, VTB__ROW_Q},
    [VTB__PRODUCT_DQ] = {"linscan_dq", true, true, VTB__ROW_DY, VTB__ROW_V, VTB__ROW_K, VTB__ROW_Q},
    [VTB__PRODUCT_DK] = {"linscan_dk", false, true, VTB__ROW_V, VTB__ROW_DY, VTB__ROW_Q,
                         VTB__ROW_K},
    [VTB__PRODUCT_DV] = {"linscan_dv", false, false, VTB__ROW_K, VTB__ROW_Q, VTB__ROW_DY,
                         VTB__ROW_K},
};

int64_t vtb__cuda_scan_parts(const vtb__cuda_scan *s) {
  return s->half ? 1 : vtb_cuda_formula("vtb_parts", s->K);
}

/* A factor's rows, how many of its columns are a tensor's, and whether there is one more. */
static void fill_factor(vtb__cuda_scan *s, vtb__cuda_row row, const char *hole) {
  bool values = row == VTB__ROW_V || row == VTB__ROW_DY;
  vtb__fill_source(s, row, hole);
  VTB_CUDA_NUMBERS(s->k, {vtb_arena_printf(&s->c->arena, "%s_columns", hole), values ? s->V : s->K},
                   {vtb_arena_printf(&s->c->arena, "%s_more", hole), values && s->normalizer});
}

static void fill_result(vtb__cuda_scan *s, vtb__scan_product p) {
  const int *const results[] = {&s->at.y, &s->at.dq, &s->at.dk, &s->at.dv};
  bool z = s->normalizer && p == VTB__PRODUCT_Y;
  vtb__scan_out(s, results[p], "result");
  if (z) vtb__scan_out(s, &s->at.z, "z");
  vtb_cuda_fill(s->k, "result_at", "%s", vtb__cuda_scan_at(s, *results[p], "x"));
  vtb_cuda_fill(s->k, "put_z", z ? "z[%s] = value;" : "",
                z ? vtb__cuda_scan_at(s, s->at.z, NULL) : "");
}

static void fill_terms(vtb__cuda_scan *s, const vtb__scan_shape *shape, int terms) {
  VTB_CUDA_NUMBERS(s->k, {"TERM", terms >= 0});
  if (terms >= 0) vtb_cuda_temp_out(s->k, terms, "float", "terms");
  vtb_cuda_fill(s->k, "terms", terms >= 0 ? "terms" : "result"); /* not reached */
  if (terms >= 0)
    vtb__fill_source(s, shape->mate, "mate");
  else
    vtb_cuda_fill(s->k, "mate_from", "d"); /* not reached */
}

void vtb__cuda_scan_product(vtb__cuda_scan *s, vtb__scan_product p, vtb__scan_states of,
                            int terms) {
  const vtb__scan_shape *shape = &vtb__scan_shapes[p];
  int states = of.states;
  if (s->half) {
    vtb__cuda_scan_half_product(s, p, of, terms, NULL);
    return;
  }
  const vtb__cuda_row rows[] = {shape->a, shape->b, shape->c, shape->mate};
  int64_t values = p == VTB__PRODUCT_DV ? s->V : s->V1;
  vtb__scan_begin(s, shape->kind, "linscan_product.cu", THREADS);
  vtb__fill_decay(s);
  fill_factor(s, shape->a, "a");
  fill_factor(s, shape->b, "b");
  fill_factor(s, shape->c, "c");
  fill_result(s, p);
  fill_terms(s, shape, states >= 0 ? terms : -1);
  vtb__scan_temp(s, states, "states", "d");
  vtb_cuda_fill(s->k, "T", "%s", vtb__cuda_tile_type(s->c));
  VTB_CUDA_NUMBERS(
      s->k, {"DEPTH", shape->by_values ? s->V1 : s->K}, {"WIDTH", shape->by_values ? s->K : values},
      {"COLUMNS", shape->by_values ? s->K : s->V}, {"FACTORS", vtb__cuda_factors(s->c)},
      {"FOUR", vtb__cuda_rows_four(s, rows, 4)}, {"FORWARD", shape->earlier},
      {"OUTSIDE", states >= 0}, {"ALWAYS", shape->earlier ? s->init : s->dlast},
      {"STATE_ACROSS", shape->by_values});
  vtb__scan_launch(s, s->paired ? s->n / 2 : s->n);
}

void vtb__cuda_scan_forward(vtb__cuda_scan *s) {
  if (s->by_steps) {
    vtb__cuda_scan_steps(s);
    return;
  }
  vtb__scan_states states = vtb__cuda_scan_states(s, false);
  vtb__cuda_scan_product(s, VTB__PRODUCT_Y, states, -1);
}
