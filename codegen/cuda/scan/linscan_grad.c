/* linscan_grad, classes constant and scalar: the states before the chunks and the adjoints of those
 * after them, then dq, dk and dv as the three other products of text/linscan_product.cu, then the
 * decays' adjoint from sums that only add (text/linscan_terms.cu, or linscan_terms_tiles.cu where
 * factors round to 16 bits, unless dq's kernel has them; linscan_decay.cu). Nothing is kept from
 * the forward pass. Other classes: linscan_steps_grad.c; few tokens in 16 bits:
 * linscan_grad_short.c. */
#include "codegen/cuda/scan/linscan.h"
#include "codegen/cuda/plan/program.h"
#include "ir/rewrite.h"

#define THREADS 128

typedef struct decay_terms { /* temporaries, -1 if absent */
  vtb__scan_states states, adjoints;
  int rows, columns, part;
  vtb__scan_sums sums;
} decay_terms;

static int64_t chunk_tiles(vtb__cuda_scan *s) { return (s->chunk + 63) / 64; }
static int floats(vtb__cuda_scan *s, int64_t n) { return vtb_cuda_temp(s->c, n * 4); }

static void fill_half_terms(vtb__cuda_scan *s) {
  VTB_CUDA_NUMBERS(s->k, {"Q_EIGHT", vtb__cuda_row_eight(s, VTB__ROW_Q)},
                   {"K_EIGHT", vtb__cuda_row_eight(s, VTB__ROW_K)},
                   {"V_EIGHT", vtb__cuda_row_eight(s, VTB__ROW_V)},
                   {"DY_EIGHT", vtb__cuda_row_eight(s, VTB__ROW_DY)});
  vtb_cuda_fill(s->k, "T", "%s", vtb__cuda_tile_type(s->c));
  if (s->gain >= 0) vtb_cuda_in(s->k, s->gain, "gain");
  vtb_cuda_fill(s->k, "gain", s->gain >= 0 ? "gain[%s]" : "1.0f",
                s->gain >= 0 ? vtb__cuda_scan_at(s, s->gain, NULL) : "");
  VTB_CUDA_NUMBERS(s->k, {"GAIN", s->gain >= 0});
}

static void sum_terms(vtb__cuda_scan *s, const decay_terms *t) {
  static const vtb__cuda_row rows[] = {VTB__ROW_Q, VTB__ROW_K, VTB__ROW_V, VTB__ROW_DY};
  vtb__scan_begin(s, "linscan_terms", s->half ? "linscan_terms_tiles.cu" : "linscan_terms.cu",
                  THREADS);
  vtb__fill_decay(s);
  vtb__fill_source(s, VTB__ROW_Q, "q");
  vtb__fill_source(s, VTB__ROW_K, "k");
  vtb__fill_source(s, VTB__ROW_V, "v");
  vtb__fill_source(s, VTB__ROW_DY, "dy");
  VTB_CUDA_NUMBERS(s->k, {"FACTORS", vtb__cuda_factors(s->c)});
  if (s->half)
    fill_half_terms(s);
  else
    VTB_CUDA_NUMBERS(s->k, {"FOUR", vtb__cuda_rows_four(s, rows, 4)});
  vtb_cuda_temp_out(s->k, t->sums.inside, "float", "inside");
  vtb_cuda_temp_out(s->k, t->sums.rows, "float", "row_sums");
  if (t->sums.columns >= 0) vtb_cuda_temp_out(s->k, t->sums.columns, "float", "column_sums");
  vtb_cuda_fill(s->k, "column_sums", t->sums.columns >= 0 ? "column_sums" : "inside");
  vtb__scan_launch(s, s->n);
}

static void fill_states(vtb__cuda_scan *s, vtb__scan_states t, const char *states,
                        const char *vectors) {
  const char *type = s->half ? vtb__cuda_tile_type(s->c) : "float";
  if (t.states >= 0) vtb_cuda_temp_in(s->k, t.states, type, states);
  vtb_cuda_fill(s->k, states, "%s", t.states >= 0 ? states : "inside");
  vtb__scan_temp(s, t.vectors, vectors, "inside");
}

static void store_decays(vtb__cuda_scan *s, const decay_terms *t) {
  static const vtb__scan_states none = {-1, -1};
  bool constant = !s->decay->by_step, passing = t->rows >= 0 && t->columns >= 0;
  vtb__scan_begin(s, "linscan_decay", "linscan_decay.cu", THREADS);
  vtb__fill_decay(s);
  VTB_CUDA_NUMBERS(s->k, {"ENTERS", t->rows >= 0}, {"LEAVES", t->columns >= 0},
                   {"ALWAYS_ENTERS", s->init}, {"ALWAYS_LEAVES", s->dlast}, {"PART", constant},
                   {"PARTS", vtb__cuda_scan_parts(s)},
                   {"VECTORS", passing && t->states.vectors >= 0});
  vtb_cuda_temp_in(s->k, t->sums.inside, "float", "inside");
  vtb_cuda_temp_in(s->k, t->sums.rows, "float", "row_sums");
  vtb__scan_temp(s, t->rows, "row_terms", "inside");
  vtb__scan_temp(s, t->columns, "column_terms", "inside");
  vtb__scan_temp(s, t->sums.columns, "column_sums", "inside");
  fill_states(s, passing ? t->states : none, "states", "vectors");
  fill_states(s, passing ? t->adjoints : none, "adjoints", "adjoint_vectors");
  if (constant)
    vtb_cuda_temp_out(s->k, t->part, "float", "part");
  else
    vtb__scan_out(s, &s->at.dd, "dd");
  vtb_cuda_fill(s->k, "put", constant ? "" : "dd[%s] = value;",
                constant ? "" : vtb__cuda_scan_at(s, s->at.dd, NULL));
  vtb_cuda_fill(s->k, "put_part", "%s", constant ? "part[vtb_block()] = total;" : "");
  vtb__scan_launch(s, s->n);
}

static void add_parts(vtb__cuda_scan *s, int part) {
  vtb__scan_begin(s, "linscan_decay_sum", "linscan_decay_sum.cu", 32);
  vtb_cuda_temp_in(s->k, part, "float", "part");
  vtb__scan_out(s, &s->at.dd, "dd");
  VTB_CUDA_NUMBERS(s->k, {"N_CHUNKS", s->n_chunks});
  vtb_cuda_fill(s->k, "dd_at", "%s", vtb_cuda_offset(s->c, s->at.dd, (const char *const[]){"h"}));
  vtb__scan_launch(s, s->n_dirs * s->heads);
}

/* Constant decays are often fixed numbers of a model whose adjoint nobody reads. */
/* True of decays of any direction: results are those of the instruction being emitted. */
static bool decays_are_read(const vtb__cuda_scan *s) {
  const vtb_inst *inst = s->c->unit.inst;
  bool read = false;
  for (int d = 0; d < s->n_dirs; d++)
    read = read ||
           (s->dir_at[d].dd >= 0 && vtb_is_read(inst->results[s->dir_at[d].dd - inst->n_operands]));
  return read;
}

static void by_products(vtb__cuda_scan *s) {
  int64_t tokens = s->n * s->N, terms = vtb__cuda_scan_parts(s) * tokens;
  decay_terms t = {.states = vtb__cuda_scan_states(s, false),
                   .adjoints = vtb__cuda_scan_states(s, true)};
  bool decays = decays_are_read(s);
  t.rows = decays && t.states.states >= 0 ? floats(s, terms) : -1;
  t.columns = decays && t.adjoints.states >= 0 ? floats(s, terms) : -1;
  bool together = decays && vtb__cuda_scan_sums_dq(s); /* sums with dq */
  if (decays) {
    int64_t crossing = s->n * s->row_tiles * chunk_tiles(s) * 64;
    t.sums.inside = floats(s, tokens);
    t.sums.rows = floats(s, tokens);
    t.sums.columns = chunk_tiles(s) > 1 ? floats(s, crossing) : -1;
    t.part = !s->decay->by_step ? floats(s, s->n * s->n_chunks) : -1;
  }
  if (together)
    vtb__cuda_scan_half_product(s, VTB__PRODUCT_DQ, t.states, t.rows, &t.sums);
  else
    vtb__cuda_scan_product(s, VTB__PRODUCT_DQ, t.states, t.rows);
  vtb__cuda_scan_product(s, VTB__PRODUCT_DK, t.adjoints, t.columns);
  vtb__cuda_scan_product(s, VTB__PRODUCT_DV, t.adjoints, -1);
  if (!decays) return;
  if (!together) sum_terms(s, &t);
  store_decays(s, &t);
  if (t.part >= 0) add_parts(s, t.part);
}

static void in_one(vtb__cuda_scan *s, bool decays) {
  int part = decays && !s->decay->by_step ? floats(s, s->n) : -1;
  vtb__cuda_scan_short_grad(s, decays, part);
  if (part >= 0) add_parts(s, part);
}

void vtb__cuda_scan_grad(vtb__cuda_scan *s) {
  bool decays = decays_are_read(s);
  if (s->by_steps)
    vtb__cuda_scan_steps_grad(s);
  else if (vtb__cuda_scan_is_short_grad(s, decays))
    in_one(s, decays);
  else
    by_products(s);
}
