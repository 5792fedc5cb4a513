/* linscan, classes constant and scalar, as products on tensor cores: S_t = d_t S_{t-1} + k_t v_t^T,
 * y_t = S_t^T q_t.
 *
 * First the states at the borders of chunks, one kernel that walks the chunks with tiles of the
 * state in registers; then all tiles of 64 tokens at once, each with the tiles before it in its
 * chunk and the state that enters the chunk. Parallel mode is one chunk of all tokens, without
 * states. Products are text/linscan_product.cu, which serves y and the adjoints dq, dk and dv
 * alike. Directions that go opposite ways share a block (linscan.h, paired). */
#include "codegen/cuda/scan/linscan.h"

#define THREADS 128

static int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }
static int64_t along(int64_t n) { return (n + 7) / 8 * 8 + 4; }         /* vtb_pitch_along */
static int64_t across(int64_t n) { return (n + 15) / 16 * 16 + 8; }     /* vtb_pitch_across */
static int64_t along_half(int64_t n) { return (n + 15) / 16 * 16 + 8; } /* vtb_pitch_half */
static int64_t largest(int64_t x, int64_t y) { return x > y ? x : y; }

/* ---- states ---------------------------------------------------------------------------------- */

static void hole_first_and_last(vtb__cuda_holes *h, vtb__cuda_scan *s, vtb_cuda_kernel *k,
                                bool backward) {
  const int *from = backward ? &s->at.ds : &s->at.s0, *from_n = backward ? &s->at.dn : &s->at.n0;
  const int *to = backward ? &s->at.ds0 : &s->at.s, *to_n = backward ? &s->at.dn0 : &s->at.n;
  bool first = *from >= 0, last = backward ? s->init : !s->grad && s->last;
  vtb__hole_number(h, "FIRST", first);
  vtb__hole_number(h, "LAST", last);
  if (first) vtb__scan_in(s, k, from, "first");
  if (first && *from_n >= 0) {
    vtb__scan_in(s, k, from_n, "first_n");
    vtb__hole_text(h, "first", "(x < V ? first[%s] : first_n[%s])",
                   vtb__cuda_state_at(s, *from, false), vtb__cuda_state_at(s, *from_n, true));
  } else {
    vtb__hole_text(h, "first", first ? "first[%s]" : "0.0f",
                   first ? vtb__cuda_state_at(s, *from, false) : "");
  }
  if (last) vtb__scan_out(s, k, to, "last");
  if (last && *to_n >= 0) {
    vtb__scan_out(s, k, to_n, "last_n");
    vtb__hole_text(h, "put_last", "if (x < V)\n last[%s] = s;\nelse\n last_n[%s] = s;",
                   vtb__cuda_state_at(s, *to, false), vtb__cuda_state_at(s, *to_n, true));
  } else if (last) {
    vtb__hole_text(h, "put_last", "last[%s] = s;", vtb__cuda_state_at(s, *to, false));
  } else {
    vtb__hole_text(h, "put_last", "%s", "");
  }
}

int vtb__cuda_scan_states(vtb__cuda_scan *s, bool backward) {
  vtb__cuda_holes h;
  bool enters = s->n_chunks > 1 || (backward ? s->dlast : s->init);
  bool asked = backward ? s->init : !s->grad && s->last;
  if (!enters && !asked) return -1;
  vtb_cuda_kernel *k =
      vtb_cuda_begin(s->c, backward ? "linscan_adjoint_states" : "linscan_states", 2 * THREADS);
  int temp = vtb_cuda_temp(s->c, s->n * s->n_chunks * s->K * s->state_pitch * 4);
  int64_t per_scan = ceil_div(s->K, 64) * ceil_div(s->V1, 64);
  vtb__holes_init(&h);
  vtb__scan_begin(s, k, per_scan);
  vtb__hole_place(&h, s, k);
  vtb__hole_decay(&h, s, k);
  const vtb__cuda_row rows[] = {backward ? VTB__ROW_Q : VTB__ROW_K,
                                backward ? VTB__ROW_DY : VTB__ROW_V};
  vtb__hole_source(&h, s, k, rows[0], "key");
  vtb__hole_source(&h, s, k, rows[1], "value");
  vtb__hole_number(&h, "FOUR", vtb__cuda_rows_four(s, rows, 2));
  vtb__hole_number(&h, "STATE_PITCH", s->state_pitch);
  hole_first_and_last(&h, s, k, backward);
  vtb__hole_number(&h, "N", s->N);
  vtb__hole_number(&h, "K", s->K);
  vtb__hole_number(&h, "V", s->V);
  vtb__hole_number(&h, "V1", s->V1);
  vtb__hole_number(&h, "CHUNK", s->chunk);
  vtb__hole_exact(&h, s->c);
  vtb__hole_number(&h, "ROW_TILES", s->row_tiles);
  vtb__hole_text(&h, "BACKWARD", s->paired ? "dir %% 2 == 1" : backward ? "true" : "false");
  vtb__hole_number(&h, "PAIRED", s->paired);
  vtb_cuda_temp_out(k, temp, "float", "states");
  vtb_cuda_shared(k, "float", 4, "keys", 64 * across(64));
  vtb_cuda_shared(k, "float", 4, "values", 64 * across(64));
  vtb_cuda_shared(k, "float", 4, "decays", 64);
  vtb_cuda_shared(k, "float", 4, "through", 64);
  vtb_cuda_shared(k, "float", 4, "after", 64);
  vtb_cuda_shared(k, "float", 4, "parts", 32);
  vtb__holes_fill(&h, k, "linscan_states.cu");
  vtb_cuda_launch(k, s->n * per_scan);
  return enters ? temp : -1;
}

/* ---- products -------------------------------------------------------------------------------- */

/* Columns of a product that a block takes: all, or parts of about equal width where they exceed the
 * registers. */
static int64_t tile_width(int64_t width) {
  int64_t n = ceil_div(width, 128);
  return ceil_div(ceil_div(width, n), 8) * 8;
}

int64_t vtb__cuda_scan_out_tiles(int64_t width) { return ceil_div(width, tile_width(width)); }

/* out = (A B^T o M) C + f o (A S), and the row that the terms are taken with. */
typedef struct product_shape {
  const char *kind;
  /* the depth is that of values; else of keys, and out is of values' width */
  bool earlier, by_values;
  vtb__cuda_row a, b, c, mate;
} product_shape;

static const product_shape shapes[] = {
    [VTB__PRODUCT_Y] = {"linscan", true, false, VTB__ROW_Q, VTB__ROW_K, VTB__ROW_V, VTB__ROW_Q},
    [VTB__PRODUCT_DQ] = {"linscan_dq", true, true, VTB__ROW_DY, VTB__ROW_V, VTB__ROW_K, VTB__ROW_Q},
    [VTB__PRODUCT_DK] = {"linscan_dk", false, true, VTB__ROW_V, VTB__ROW_DY, VTB__ROW_Q,
                         VTB__ROW_K},
    [VTB__PRODUCT_DV] = {"linscan_dv", false, false, VTB__ROW_K, VTB__ROW_Q, VTB__ROW_DY,
                         VTB__ROW_K},
};

/* A factor's rows, how many of its columns are a tensor's, and whether there is one more. */
static void hole_factor(vtb__cuda_holes *h, vtb__cuda_scan *s, vtb_cuda_kernel *k,
                        vtb__cuda_row row, const char *hole) {
  bool values = row == VTB__ROW_V || row == VTB__ROW_DY;
  vtb__hole_source(h, s, k, row, hole);
  if (!values) vtb__hole_text(h, vtb_arena_printf(&h->texts, "%s_extra", hole), "0.0f");
  vtb__hole_number(h, vtb_arena_printf(&h->texts, "%s_columns", hole), values ? s->V : s->K);
  vtb__hole_number(h, vtb_arena_printf(&h->texts, "%s_more", hole), values && s->normalizer);
}

static void hole_result(vtb__cuda_holes *h, vtb__cuda_scan *s, vtb_cuda_kernel *k,
                        vtb__scan_product p) {
  const int *const results[] = {&s->at.y, &s->at.dq, &s->at.dk, &s->at.dv};
  const char *at = vtb__cuda_scan_at(s, *results[p], "x");
  vtb__scan_out(s, k, results[p], "result");
  if (!s->normalizer || shapes[p].by_values) {
    vtb__hole_text(h, "put", "result[%s] = value;", at);
  } else if (p == VTB__PRODUCT_Y) {
    vtb__scan_out(s, k, &s->at.z, "z");
    vtb__hole_text(h, "put", "if (x < V)\n result[%s] = value;\nelse\n z[%s] = value;", at,
                   vtb__cuda_scan_at(s, s->at.z, NULL));
  } else {
    vtb__hole_text(h, "put", "if (x < V) result[%s] = value;", at);
  }
}

static void hole_terms(vtb__cuda_holes *h, vtb__cuda_scan *s, vtb_cuda_kernel *k,
                       const product_shape *shape, int terms) {
  vtb__hole_number(h, "TERM", terms >= 0);
  if (terms < 0) {
    vtb__hole_text(h, "mate_from", "states"); /* not reached */
    vtb__hole_text(h, "put_term", "(void)sum");
    return;
  }
  vtb__hole_source(h, s, k, shape->mate, "mate");
  vtb_cuda_temp_out(k, terms, "float", "terms");
  vtb__hole_text(h, "put_term", "terms[((vtb_i64)out_tile * %lld + scan) * N + i0 + r] = sum",
                 (long long)s->n);
}

/* Tiles are of 16 bits where products round to them, and then second factors are taken by
 * ldmatrix. */
static void hole_tiles(vtb__cuda_holes *h, vtb_cuda_kernel *k, const char *half) {
  static const char *const wide[] = {"[&](int x, int o) -> float { return b_tile[o * PA + x]; }",
                                     "[&](int x, int o) -> float { return b_tile[x * PC + o]; }",
                                     "[&](int x, int j) -> float { return b_tile[j * PA + x]; }",
                                     "[&](int j, int o) -> float { return c_tile[j * PC + o]; }"};
  static const char *const narrow[] = {"vtb_tile<true, PA>(b_tile)", "vtb_tile<false, PC>(b_tile)",
                                       "vtb_tile<true, PA>(b_tile)", "vtb_tile<false, PC>(c_tile)"};
  static const char *const names[] = {"state_along", "state_across", "columns", "values"};
  for (int i = 0; i < 4; i++) vtb__hole_text(h, names[i], "%s", half ? narrow[i] : wide[i]);
  vtb__hole_text(h, "tile", "%s", half ? half : "float");
  vtb__hole_text(h, "pitch_along", "%s", half ? "vtb_pitch_half" : "vtb_pitch_along");
  if (!half) return;
  vtb_cuda_include(k, "products.cuh");
  vtb_cuda_include(k, "halves.cuh");
}

void vtb__cuda_scan_product(vtb__cuda_scan *s, vtb__scan_product p, int states, int terms) {
  const product_shape *shape = &shapes[p];
  vtb__cuda_holes h;
  int64_t depth = shape->by_values ? s->V1 : s->K, width = shape->by_values       ? s->K
                                                           : p == VTB__PRODUCT_DV ? s->V
                                                                                  : s->V1;
  int64_t tile = tile_width(width), slab = depth >= 64 ? 64 : ceil_div(depth, 16) * 16;
  int64_t per_scan = s->row_tiles * ceil_div(width, tile);
  vtb_cuda_kernel *k = vtb_cuda_begin(s->c, shape->kind, THREADS);
  vtb__holes_init(&h);
  vtb_cuda_line(k, "bool have_a = false; /* the rows' tile */");
  if (s->paired)
    vtb__scan_begin_pair(s, k, per_scan);
  else
    vtb__scan_begin(s, k, per_scan);
  vtb__hole_place(&h, s, k);
  vtb__hole_decay(&h, s, k);
  hole_factor(&h, s, k, shape->a, "a");
  hole_factor(&h, s, k, shape->b, "b");
  hole_factor(&h, s, k, shape->c, "c");
  hole_result(&h, s, k, p);
  hole_terms(&h, s, k, shape, states >= 0 ? terms : -1);
  const struct {
    const char *name;
    int64_t value;
  } numbers[] = {
      {"N", s->N},
      {"V", s->V},
      {"CHUNK", s->chunk},
      {"DEPTH", depth},
      {"WIDTH", width},
      {"TILE", tile},
      {"ROW_TILES", s->row_tiles},
      {"SLAB", slab},
      {"K", s->K},
      {"FOUR", vtb__cuda_rows_four(
                   s, (const vtb__cuda_row[]){shape->a, shape->b, shape->c, shape->mate}, 4)},
      {"STATE_PITCH", s->state_pitch},
      {"PAIRED", s->paired},
      {"OUTSIDE", states >= 0},
      {"STATE_ACROSS", shape->by_values},
      {"always_outside", shape->earlier ? s->init : s->dlast}};
  vtb__hole_text(&h, "EARLIER", s->paired ? "side == 0" : shape->earlier ? "true" : "false");
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    vtb__hole_number(&h, numbers[i].name, numbers[i].value);
  vtb__hole_exact(&h, s->c);
  if (states >= 0) {
    vtb_cuda_temp_in(k, states, "float", "states");
  } else {
    vtb_cuda_line(k, "VTB_PTR(const float) states = d; /* none */");
  }
  const char *half = vtb__cuda_half_tiles(s->c);
  int64_t pitch = half ? along_half(slab) : along(slab);
  int64_t state = shape->by_values ? tile * pitch : slab * across(tile);
  int64_t elements = 64 * pitch + largest(64 * pitch, states >= 0 ? state : 0);
  elements = s->paired ? largest(elements, 64 * pitch + 64 * across(tile))
                       : largest(elements, 64 * across(tile));
  hole_tiles(&h, k, half);
  vtb_cuda_shared(k, half ? half : "float", half ? 2 : 4, "tiles", elements);
  vtb_cuda_shared(k, "float", 4, "scores", 64 * along(64));
  vtb_cuda_shared(k, "float", 4, "decays", 64);
  vtb_cuda_shared(k, "float", 4, "through", 64);
  vtb_cuda_shared(k, "float", 4, "after", 64);
  vtb_cuda_shared(k, "float", 4, "own", 64);
  vtb_cuda_shared(k, "float", 4, "parts", 32);
  vtb__holes_fill(&h, k, "linscan_product.cu");
  if (s->paired) vtb_cuda_close(k);
  vtb_cuda_launch(k, s->n * per_scan / (s->paired ? 2 : 1));
}

void vtb__cuda_scan_forward(vtb__cuda_scan *s) {
  if (s->by_steps) {
    vtb__cuda_scan_steps(s);
    return;
  }
  int states = vtb__cuda_scan_states(s, false);
  vtb__cuda_scan_product(s, VTB__PRODUCT_Y, states, -1);
}
