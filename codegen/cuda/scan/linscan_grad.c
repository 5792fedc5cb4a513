/* linscan_grad, classes constant and scalar: the states before the chunks and the adjoints of those
 * after them, then dq, dk and dv as the three other products of text/linscan_product.cu, then the
 * decays' adjoint from sums that only add (text/linscan_terms.cu, linscan_decay.cu). Nothing is
 * kept from the forward pass. Other classes: linscan_steps_grad.c. */
#include "codegen/cuda/scan/linscan.h"
#include "codegen/cuda/plan/program.h"

#define THREADS 128

typedef struct decay_terms { /* temporaries, -1 if absent */
  int states, adjoints, rows, columns, inside, row_sums, column_sums, part;
} decay_terms;

static int64_t chunk_tiles(vtb__cuda_scan *s) { return (s->chunk + 63) / 64; }
static int floats(vtb__cuda_scan *s, int64_t n) { return vtb_cuda_temp(s->c, n * 4); }

static void hole_sizes(vtb__cuda_holes *h, vtb__cuda_scan *s) {
  vtb__hole_number(h, "N", s->N);
  vtb__hole_number(h, "K", s->K);
  vtb__hole_number(h, "CHUNK", s->chunk);
}

static void sum_terms(vtb__cuda_scan *s, const decay_terms *t) {
  vtb__cuda_holes h;
  vtb_cuda_kernel *k = vtb_cuda_begin(s->c, "linscan_terms", THREADS);
  int64_t deepest = s->K > s->V1 ? s->K : s->V1,
          slab = deepest >= 64 ? 64 : (deepest + 15) / 16 * 16;
  vtb__holes_init(&h);
  vtb__scan_begin(s, k, s->row_tiles);
  vtb__hole_place(&h, s, k);
  vtb__hole_decay(&h, s, k);
  vtb__hole_source(&h, s, k, VTB__ROW_Q, "q");
  vtb__hole_source(&h, s, k, VTB__ROW_K, "k");
  vtb__hole_source(&h, s, k, VTB__ROW_V, "v");
  vtb__hole_source(&h, s, k, VTB__ROW_DY, "dy");
  hole_sizes(&h, s);
  vtb__hole_number(&h, "V", s->V);
  vtb__hole_number(&h, "V1", s->V1);
  vtb__hole_number(
      &h, "FOUR",
      vtb__cuda_rows_four(
          s, (const vtb__cuda_row[]){VTB__ROW_Q, VTB__ROW_K, VTB__ROW_V, VTB__ROW_DY}, 4));
  vtb__hole_number(&h, "ROW_TILES", s->row_tiles);
  vtb__hole_number(&h, "SLAB", slab);
  vtb__hole_exact(&h, s->c);
  vtb_cuda_temp_out(k, t->inside, "float", "inside");
  vtb_cuda_temp_out(k, t->row_sums, "float", "row_sums");
  if (t->column_sums >= 0) {
    vtb_cuda_temp_out(k, t->column_sums, "float", "column_sums");
    vtb__hole_text(&h, "put_column_sum",
                   "column_sums[(((vtb_i64)scan * ROW_TILES + row_tile) * CHUNK_TILES + tile - "
                   "step) * 64 + tid - 64] = sum;");
  } else {
    vtb__hole_text(&h, "put_column_sum", "(void)sum;");
  }
  vtb_cuda_shared(k, "float", 4, "tiles", 2 * 64 * ((slab + 7) / 8 * 8 + 4));
  vtb_cuda_shared(k, "float", 4, "terms", 64 * 68);
  vtb_cuda_shared(k, "float", 4, "decays", 64);
  vtb_cuda_shared(k, "float", 4, "through", 64);
  vtb_cuda_shared(k, "float", 4, "after", 64);
  vtb_cuda_shared(k, "float", 4, "own", 64);
  vtb_cuda_shared(k, "float", 4, "parts", 32);
  vtb__holes_fill(&h, k, "linscan_terms.cu");
  vtb_cuda_launch(k, s->n * s->row_tiles);
}

/* The sum over i of temporary [n, B h, N] at token t. */
static void hole_term(vtb__cuda_holes *h, vtb__cuda_scan *s, vtb_cuda_kernel *k, int temp,
                      const char *name, const char *hole) {
  if (temp >= 0) vtb_cuda_temp_in(k, temp, "float", name);
  vtb__hole_text(h, hole, temp < 0 ? "0.0f" : "%s[((vtb_i64)i * %lld + scan) * N + t]", name,
                 (long long)s->n);
}

static void store_decays(vtb__cuda_scan *s, const decay_terms *t) {
  vtb__cuda_holes h;
  bool constant = s->decay == VTB_DECAY_CONSTANT, passing = t->rows >= 0 && t->columns >= 0;
  vtb_cuda_kernel *k = vtb_cuda_begin(s->c, "linscan_decay", THREADS);
  vtb__holes_init(&h);
  vtb__scan_begin(s, k, s->n_chunks);
  vtb__hole_place(&h, s, k);
  vtb__hole_decay(&h, s, k);
  hole_sizes(&h, s);
  vtb__hole_number(&h, "STATE_PITCH", s->state_pitch);
  hole_term(&h, s, k, t->rows, "row_terms", "row_term");
  hole_term(&h, s, k, t->columns, "column_terms", "column_term");
  vtb__hole_number(&h, "ROW_PARTS", vtb__cuda_scan_out_tiles(s->K));
  vtb__hole_number(&h, "COLUMN_PARTS", vtb__cuda_scan_out_tiles(s->K));
  vtb__hole_number(&h, "ENTERS", t->rows >= 0);
  vtb__hole_number(&h, "LEAVES", t->columns >= 0);
  vtb__hole_number(&h, "always_enters", s->init);
  vtb__hole_number(&h, "always_leaves", s->dlast);
  vtb__hole_number(&h, "PART", constant);
  vtb_cuda_temp_in(k, t->inside, "float", "inside");
  vtb_cuda_temp_in(k, t->row_sums, "float", "row_sums");
  if (t->column_sums >= 0) vtb_cuda_temp_in(k, t->column_sums, "float", "column_sums");
  vtb__hole_text(
      &h, "column_sum",
      t->column_sums < 0
          ? "0.0f"
          : "column_sums[((vtb_i64)scan * %lld + chunk * CHUNK_TILES + later) * CHUNK_TILES * 64 "
            "+ j]",
      (long long)s->row_tiles);
  if (passing) {
    vtb_cuda_temp_in(k, t->states, "float", "states");
    vtb_cuda_temp_in(k, t->adjoints, "float", "adjoints");
  }
  vtb__hole_text(&h, "passing",
                 passing ? "states[((vtb_i64)scan * N_CHUNKS + chunk) * STATE + i] * "
                           "adjoints[((vtb_i64)scan * N_CHUNKS + "
                           "chunk) * STATE + i]"
                         : "0.0f");
  if (constant) {
    vtb_cuda_temp_out(k, t->part, "float", "part");
    vtb__hole_text(&h, "put", "(void)pos;");
    vtb__hole_text(&h, "put_part", "part[vtb_block()] = total");
  } else {
    vtb__scan_out(s, k, &s->at.dd, "dd");
    vtb__hole_text(&h, "put", "dd[%s] = value;", vtb__cuda_scan_at(s, s->at.dd, NULL));
    vtb__hole_text(&h, "put_part", "(void)total");
  }
  vtb_cuda_shared(k, "float", 4, "parts", 32);
  vtb_cuda_shared(k, "float", 4, "near", 64);
  vtb__holes_fill(&h, k, "linscan_decay.cu");
  vtb_cuda_launch(k, s->n * s->n_chunks);
}

/* dd[h]: the parts of all batch entries and chunks; a block owns a head of a direction. */
static void add_parts(vtb__cuda_scan *s, int part) {
  vtb_cuda_kernel *k = vtb_cuda_begin(s->c, "linscan_decay_sum", 32);
  long long n_chunks = (long long)s->n_chunks, entry = s->n_dirs * (long long)s->heads;
  vtb__scan_begin(s, k, 1);
  vtb_cuda_temp_in(k, part, "float", "part");
  vtb__scan_out(s, k, &s->at.dd, "dd");
  vtb_cuda_line(k, "float sum = 0.0f;");
  vtb_cuda_open(k, "for (int i = vtb_lane(); i < %lld; i += 32)", (long long)s->B * n_chunks);
  vtb_cuda_line(k, "sum += part[((vtb_i64)(i / %lld) * %lld + scan) * %lld + i %% %lld];", n_chunks,
                entry, n_chunks, n_chunks);
  vtb_cuda_close(k);
  vtb_cuda_line(k, "sum = vtb_warp_sum(sum);");
  vtb_cuda_line(k, "if (vtb_lane() == 0) dd[%s] = sum;",
                vtb_cuda_offset(s->c, s->at.dd, (const char *const[]){"h"}));
  vtb_cuda_launch(k, entry);
}

/* Constant decays are often fixed numbers of a model whose adjoint nobody reads. */
static bool is_read(const vtb_value *v) {
  for (const vtb_inst *i = v->func->first; i; i = i->next)
    for (int o = 0; o < i->n_operands; o++)
      if (i->operands[o] == v) return true;
  for (int r = 0; r < v->func->n_returns; r++)
    if (v->func->returns[r] == v) return true;
  return false;
}

/* Of any direction: results are those of the instruction being emitted. */
static bool decays_are_read(const vtb__cuda_scan *s) {
  const vtb_inst *inst = s->c->unit.inst;
  bool read = false;
  for (int d = 0; d < s->n_dirs; d++)
    read = read || is_read(inst->results[s->dir_at[d].dd - inst->n_operands]);
  return read;
}

static void by_products(vtb__cuda_scan *s) {
  int64_t tokens = s->n * s->N, terms = vtb__cuda_scan_out_tiles(s->K) * tokens;
  decay_terms t = {.states = vtb__cuda_scan_states(s, false),
                   .adjoints = vtb__cuda_scan_states(s, true)};
  bool decays = decays_are_read(s);
  t.rows = decays && t.states >= 0 ? floats(s, terms) : -1;
  t.columns = decays && t.adjoints >= 0 ? floats(s, terms) : -1;
  vtb__cuda_scan_product(s, VTB__PRODUCT_DQ, t.states, t.rows);
  vtb__cuda_scan_product(s, VTB__PRODUCT_DK, t.adjoints, t.columns);
  vtb__cuda_scan_product(s, VTB__PRODUCT_DV, t.adjoints, -1);
  if (!decays) return;
  t.inside = floats(s, tokens);
  t.row_sums = floats(s, tokens);
  t.column_sums = chunk_tiles(s) > 1 ? floats(s, s->n * s->row_tiles * chunk_tiles(s) * 64) : -1;
  t.part = s->decay == VTB_DECAY_CONSTANT ? floats(s, s->n * s->n_chunks) : -1;
  sum_terms(s, &t);
  store_decays(s, &t);
  if (t.part >= 0) add_parts(s, t.part);
}

void vtb__cuda_scan_grad(vtb__cuda_scan *s) {
  if (s->by_steps)
    vtb__cuda_scan_steps_grad(s);
  else
    by_products(s);
}
