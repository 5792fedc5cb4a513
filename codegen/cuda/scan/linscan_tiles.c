/* linscan and linscan_grad, classes constant and scalar, of factors that round to 16 bits: states
 * at the borders of chunks by text/linscan_borders.cu, in 16 bits too, with the normalizer's
 * vectors in floats; products by text/linscan_tiles.cu, whose blocks own whole rows of their
 * results. */
#include "codegen/cuda/scan/linscan.h"

#include <math.h>

#include "codegen/cuda/cost.h"
#include "codegen/cuda/plan/program.h"

enum { STATE_THREADS = 256 };

/* The widest tiles of the state that still make a block a multiprocessor. */
static int64_t value_tile(const vtb__cuda_scan *s, int64_t tile_k) {
  int64_t tile = 128, key_tiles = (s->K + tile_k - 1) / tile_k,
          enough = vtb_cuda_gpu(s->c)->processors;
  while (tile > 16 && (tile / 2 >= s->V || s->n * key_tiles * ((s->V + tile - 1) / tile) < enough))
    tile /= 2;
  return tile;
}

vtb__scan_states vtb__cuda_scan_half_states(vtb__cuda_scan *s, bool backward) {
  vtb__scan_borders b = vtb__scan_borders_of(s, backward);
  int64_t rows = s->n * s->n_chunks * s->K, tile_k = s->K > 64 ? 128 : 64;
  vtb__scan_states to = {vtb_cuda_temp(s->c, rows * s->state_pitch * 2), -1};
  if (s->normalizer) to.vectors = vtb_cuda_temp(s->c, rows * 4);
  vtb__scan_begin(s, backward ? "linscan_adjoint_borders" : "linscan_borders", "linscan_borders.cu",
                  STATE_THREADS);
  vtb__fill_decay(s);
  vtb__fill_source(s, b.keys, "key");
  vtb__fill_source(s, b.values, "value");
  vtb__fill_state(s, "first", b.from, b.from_n);
  vtb__fill_put_state(s, "put_last", b.asked, b.to, b.to_n);
  VTB_CUDA_NUMBERS(s->k, {"TILE_K", tile_k}, {"TILE_V", value_tile(s, tile_k)},
                   {"KEY_EIGHT", vtb__cuda_row_eight(s, b.keys)},
                   {"VALUE_EIGHT", vtb__cuda_row_eight(s, b.values)},
                   {"FACTORS", vtb__cuda_factors(s->c)}, {"BACK", backward},
                   {"FIRST", *b.from >= 0}, {"LAST", b.asked}, {"NORMALIZED", s->normalizer});
  const char *type = vtb__cuda_tile_type(s->c);
  vtb_cuda_fill(s->k, "T", "%s", type);
  vtb_cuda_temp_out(s->k, to.states, type, "states");
  if (s->normalizer) vtb_cuda_temp_out(s->k, to.vectors, "float", "vectors");
  vtb_cuda_fill(s->k, "vectors", s->normalizer ? "vectors" : "states");
  vtb__scan_launch(s, s->n);
  return b.kept ? to : (vtb__scan_states){-1, -1};
}

static void fill_states(vtb__cuda_scan *s, vtb__scan_states t) {
  if (t.states >= 0) vtb_cuda_temp_in(s->k, t.states, vtb__cuda_tile_type(s->c), "states");
  vtb_cuda_fill(s->k, "states", t.states >= 0 ? "states" : "d"); /* not reached */
  vtb__scan_temp(s, t.vectors, "vectors", "d");
}

static void fill_terms(vtb__cuda_scan *s, vtb__cuda_row mate, int terms, bool dot) {
  VTB_CUDA_NUMBERS(s->k, {"TERM", terms >= 0});
  if (terms >= 0) vtb_cuda_temp_out(s->k, terms, "float", "terms");
  vtb_cuda_fill(s->k, "terms", terms >= 0 ? "terms" : "ring"); /* not reached */
  if (terms >= 0 || dot)
    vtb__fill_source(s, mate, "mate");
  else
    vtb_cuda_fill(s->k, "mate_from", "d"); /* not reached */
}

static void fill_result(vtb__cuda_scan *s, vtb__scan_product p) {
  const int *const results[] = {&s->at.y, &s->at.dq, &s->at.dk, &s->at.dv};
  bool z = s->normalizer && p == VTB__PRODUCT_Y;
  if (s->mixer) {
    vtb__cuda_scan_fill_mixer(s);
    vtb_cuda_fill(s->k, "result", "ring"); /* not reached */
    vtb_cuda_fill(s->k, "result_at", "0");
    vtb_cuda_fill(s->k, "put_z", "%s", "");
    VTB_CUDA_NUMBERS(s->k, {"BODY", true}, {"HALF", true}, {"FOUR", false});
    return;
  }
  const vtb_cuda_tensor *t = vtb_cuda_tensor_of(s->c, *results[p]);
  vtb__scan_out(s, results[p], "result");
  if (z) vtb__scan_out(s, &s->at.z, "z");
  vtb_cuda_fill(s->k, "row_body", "%s", "");
  vtb_cuda_fill(s->k, "result", "result");
  vtb_cuda_fill(s->k, "result_at", "%s", vtb__cuda_scan_at(s, *results[p], "x"));
  vtb_cuda_fill(s->k, "put_z", z ? "z[%s] = value;" : "",
                z ? vtb__cuda_scan_at(s, s->at.z, NULL) : "");
  VTB_CUDA_NUMBERS(
      s->k, {"Z", z}, {"BODY", false}, {"ROW_LANES", 32}, {"ROW_ACCESSES", 0},
      {"HALF", vtb_streq(vtb__cuda_type_name(t->type->dtype), vtb__cuda_tile_type(s->c))},
      {"FOUR", vtb_cuda_rows_of_four(s->c, *results[p])});
}

/* A number a token that multiplies keys: of scores' columns, or of the rows of dk and dv; its
 * adjoint is made of dk's. */
static void fill_gain(vtb__cuda_scan *s, const vtb__scan_shape *shape, bool dot) {
  bool gain = s->gain >= 0;
  if (gain) vtb_cuda_in(s->k, s->gain, "gain");
  if (dot) vtb_cuda_out(s->k, s->dgain, "dgain");
  vtb_cuda_fill(s->k, "gain", gain ? "gain[%s]" : "1.0f",
                gain ? vtb__cuda_scan_at(s, s->gain, NULL) : "");
  vtb_cuda_fill(s->k, "put_gain", dot ? "dgain[%s] = value;" : "",
                dot ? vtb__cuda_scan_at(s, s->dgain, NULL) : "");
  VTB_CUDA_NUMBERS(s->k, {"GAIN", gain && shape->earlier}, {"ROW_GAIN", gain && !shape->earlier},
                   {"DOT", dot});
}

/* The sums that decays multiply, as far as dq's kernel leaves them. */
static void fill_sums(vtb__cuda_scan *s, const vtb__scan_sums *sums) {
  VTB_CUDA_NUMBERS(s->k, {"SUMMED", sums != NULL},
                   {"Q_EIGHT", sums && vtb__cuda_row_eight(s, VTB__ROW_Q)});
  if (sums) {
    vtb__fill_source(s, VTB__ROW_Q, "q");
    vtb_cuda_temp_out(s->k, sums->inside, "float", "inside");
    vtb_cuda_temp_out(s->k, sums->rows, "float", "row_sums");
  } else {
    vtb_cuda_fill(s->k, "q_from", "d"); /* not reached */
    VTB_CUDA_NUMBERS(s->k, {"q_stride", 0});
  }
  bool crossing = sums && sums->columns >= 0;
  if (crossing) vtb_cuda_temp_out(s->k, sums->columns, "float", "column_sums");
  vtb_cuda_fill(s->k, "inside", sums ? "inside" : "ring");
  vtb_cuda_fill(s->k, "row_sums", sums ? "row_sums" : "ring");
  vtb_cuda_fill(s->k, "column_sums", crossing ? "column_sums" : "ring");
}

bool vtb__cuda_scan_sums_dq(vtb__cuda_scan *s) {
  const vtb__scan_shape *shape = &vtb__scan_shapes[VTB__PRODUCT_DQ];
  int64_t bytes;
  return s->half &&
         VTB_CUDA_TAKES(s->c, "linscan_tiles.cu", vtb__cuda_tile_type(s->c), &bytes, {"N", s->N},
                        {"K", s->K}, {"CHUNK", s->chunk}, {"DEPTH", s->V}, {"WIDTH", s->K},
                        {"SUMMED", true}, {"FORWARD", shape->earlier}, {"PAIRED", s->paired},
                        {"OUTSIDE", s->n_chunks > 1 || s->init || s->dlast},
                        {"STATE_ACROSS", shape->by_values}, {"HALF", true}, {"Z", false},
                        {"GAIN", s->gain >= 0}, {"ROW_GAIN", false}, VTB__SCAN_MAP_NUMBERS(s),
                        {"A_MAP", false}, {"B_MAP", false}, {"C_MAP", false},
                        {"FACTORS", vtb__cuda_factors(s->c)}, {"WGMMA", false},
                        {"THREADS", vtb__cuda_scan_tile_threads(s->K)});
}

/* Who makes a block's products: the usual warps; twice as many, where a block is alone on a
 * multiprocessor: they wait less and read more from shared memory; a group of four on sm_90a,
 * whose factors no warp reads. The quickest, by what the text says. */
typedef struct workers {
  int threads;
  bool wgmma;
} workers;

static workers workers_of(const vtb__cuda_scan *s, const vtb__scan_shape *shape, bool outside,
                          bool summed) {
  const char *file = "linscan_tiles.cu", *type = vtb__cuda_tile_type(s->c);
  int64_t width = shape->by_values ? s->K : s->V, depth = shape->by_values ? s->V : s->K, bytes;
  int usual = vtb__cuda_scan_tile_threads(width);
  const workers all[] = {{usual, false}, {2 * usual, false}, {128, true}};
  workers best = all[0];
  double least = HUGE_VAL;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const vtb_cuda_number numbers[] = {
        {"N", s->N},
        {"K", s->K},
        {"CHUNK", s->chunk},
        {"ROW_TILES", s->row_tiles},
        {"DEPTH", depth},
        {"WIDTH", width},
        {"FACTORS", vtb__cuda_factors(s->c)},
        {"THREADS", all[i].threads},
        {"WGMMA", all[i].wgmma},
        {"FORWARD", shape->earlier},
        {"PAIRED", s->paired},
        {"OUTSIDE", outside},
        {"STATE_ACROSS", shape->by_values},
        {"HALF", true},
        {"BODY", s->mixer != NULL},
        {"EXTRA", (s->normalizer && shape->by_values) || (s->map[1] && s->map[1]->n_operands == 3)},
        {"SUMMED", summed},
        {"Z", s->mixer && s->normalizer},
        {"GAIN", s->gain >= 0 && shape->earlier},
        {"ROW_GAIN", s->gain >= 0 && !shape->earlier},
        {"DOT", s->gain >= 0 && shape->by_values},
        VTB__SCAN_MAP_NUMBERS(s),
        {"A_MAP", s->map[0] != NULL},
        {"B_MAP", s->map[1] != NULL},
        {"C_MAP", s->map[2] != NULL},
        {"ROW_ACCESSES", s->mixer ? vtb__cuda_scan_row_accesses(s) : 0},
    };
    const size_t n = sizeof numbers / sizeof *numbers;
    if (all[i].wgmma && !vtb_cuda_is_hopper(s->c)) continue;
    if (!vtb_cuda_takes(s->c, file, type, numbers, n, &bytes)) continue;
    double seconds = vtb_cuda_text_seconds(s->c, file, type, numbers, n, "BLOCKS",
                                           (vtb_work){.blocks = (double)(s->n / (1 + s->paired))});
    if (all[i].wgmma && vtb_cuda_wants_wgmma(s->c)) seconds = 0;
    if (seconds >= least) continue;
    best = all[i];
    least = seconds;
  }
  return best;
}

void vtb__cuda_scan_half_product(vtb__cuda_scan *s, vtb__scan_product p, vtb__scan_states states,
                                 int terms, const vtb__scan_sums *sums) {
  const vtb__scan_shape *shape = &vtb__scan_shapes[p];
  int64_t width = shape->by_values ? s->K : s->V;
  bool extra = s->normalizer && shape->by_values, outside = states.states >= 0;
  bool dot = s->gain >= 0 && p == VTB__PRODUCT_DK;
  workers by = workers_of(s, shape, outside, sums != NULL);
  vtb__scan_begin(s, shape->kind, "linscan_tiles.cu", by.threads);
  if (by.wgmma) vtb_cuda_include(s->k, "hopper.cuh"), vtb_cuda_include(s->k, "wgmma.cuh");
  vtb_cuda_fill(s->k, "products", by.wgmma ? "vtb_by_wgmma" : "vtb_no_wgmma");
  vtb__fill_decay(s);
  vtb__fill_source(s, shape->a, "a");
  vtb__fill_source(s, shape->b, "b");
  vtb__fill_source(s, shape->c, "c");
  fill_result(s, p);
  fill_terms(s, shape->mate, outside ? terms : -1, dot);
  fill_states(s, states);
  fill_sums(s, sums);
  if (extra) vtb__scan_in(s, &s->at.dz, "dz");
  fill_gain(s, shape, dot);
  vtb_cuda_fill(s->k, "extra", extra ? "dz[%s]" : "0.0f",
                extra ? vtb__cuda_scan_at(s, s->at.dz, NULL) : "");
  vtb__cuda_scan_fill_maps(s, "abc", vtb_blocks_joined(vtb__cuda_scan_map_size(s)));
  vtb_cuda_fill(s->k, "T", "%s", vtb__cuda_tile_type(s->c));
  VTB_CUDA_NUMBERS(s->k, {"DEPTH", shape->by_values ? s->V : s->K}, {"WIDTH", width},
                   {"FACTORS", vtb__cuda_factors(s->c)}, {"WGMMA", by.wgmma},
                   {"A_EIGHT", vtb__cuda_row_eight(s, shape->a)},
                   {"B_EIGHT", vtb__cuda_row_eight(s, shape->b)},
                   {"C_EIGHT", vtb__cuda_row_eight(s, shape->c)}, {"FORWARD", shape->earlier},
                   {"OUTSIDE", outside}, {"ALWAYS", shape->earlier ? s->init : s->dlast},
                   {"STATE_ACROSS", shape->by_values}, {"NORMALIZED", s->normalizer && outside},
                   {"EXTRA", extra || (s->map[1] && s->map[1]->n_operands == 3)});
  int together = (int)vtb_cuda_value(s->k, "TOGETHER");
  if (together > 1 && (by.wgmma || width % 64 != 0)) /* else ptxas keeps to that by itself */
    vtb_cuda_together(s->k, together);
  vtb__scan_launch(s, s->paired ? s->n / 2 : s->n);
}
