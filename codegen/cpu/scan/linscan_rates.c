/* linscan of class rates: see linscan_rates.h. A task owns one batch entry, one head and a tile of
 * V, and walks the tokens once a block of keys. Serves every mode: the recurrent form is the
 * cheapest, for there is no matrix form. */
#include "codegen/cpu/scan/linscan_rates.h"

static LLVMValueRef k_(vtb_cpu *c, int64_t v) { return vtb_cpu_i64(c, v); }

int64_t vtb__rates_tiles(const vtb__cpu_scan *s) { return (s->of.V + VTB__LANES - 1) / VTB__LANES; }

void vtb__rates_at_tile(vtb__rates *g, LLVMValueRef tile) {
  vtb_cpu *c = g->s->c;
  g->tile = tile;
  g->mask = NULL;
  if (g->s->of.V % VTB__LANES == 0) return;
  LLVMValueRef left =
      LLVMBuildNSWSub(c->b, k_(c, g->s->of.V), vtb_cpu_mul(c, tile, VTB__LANES), "");
  g->mask = vtb_cpu_mask(c, left, VTB__LANES);
}

static LLVMValueRef at_tile(const vtb__rates *g, LLVMValueRef row) {
  return vtb_cpu_at(g->s->c, row, vtb_cpu_mul(g->s->c, g->tile, VTB__LANES));
}

LLVMValueRef vtb__rates_load(const vtb__rates *g, LLVMValueRef row) {
  vtb_cpu *c = g->s->c;
  LLVMValueRef at = at_tile(g, row);
  return g->mask ? vtb_cpu_load_masked(c, at, g->mask, VTB__LANES)
                 : vtb_cpu_load(c, at, VTB__LANES);
}

void vtb__rates_store(const vtb__rates *g, LLVMValueRef v, LLVMValueRef row) {
  vtb_cpu *c = g->s->c;
  LLVMValueRef at = at_tile(g, row);
  if (g->mask)
    vtb_cpu_store_masked(c, v, at, g->mask);
  else
    vtb_cpu_store(c, v, at);
}

LLVMValueRef vtb__rates_state_row(const vtb__rates *g, int tensor, LLVMValueRef k) {
  const vtb__cpu_scan *s = g->s;
  return vtb_cpu_element(s->c, &s->t->t[tensor], (LLVMValueRef[]){s->batch, s->head, k}, 3);
}

LLVMValueRef vtb__rates_row(const vtb__rates *g, LLVMValueRef rows, LLVMValueRef k) {
  return vtb_cpu_at(g->s->c, rows, vtb_cpu_mul(g->s->c, k, VTB__LANES));
}

/* ---- decays ---------------------------------------------------------------------------------- */

void vtb__rates_exponents(const vtb__rates *g, LLVMValueRef k0, int n, LLVMValueRef *out) {
  vtb__cpu_scan *s = g->s;
  vtb_cpu *c = s->c;
  for (int k = 0; k < n; k++) {
    LLVMValueRef index[] = {s->head, vtb_cpu_add(c, k0, k_(c, k))};
    LLVMValueRef a = vtb__rates_load(g, vtb_cpu_element(c, &s->t->t[s->of.at.rates], index, 2));
    out[k] = LLVMBuildFMul(c->b, a, vtb_cpu_like(c, a, 1.44269504088896341), "rate");
  }
}

void vtb__rates_decays(const vtb__rates *g, LLVMValueRef step, const LLVMValueRef *exponents, int n,
                       LLVMValueRef *out) {
  vtb_cpu *c = g->s->c;
  for (int k = 0; k < n; k++) out[k] = vtb_cpu_exp2(c, LLVMBuildFMul(c->b, step, exponents[k], ""));
}

/* ---- blocks of keys -------------------------------------------------------------------------- */

void vtb__rates_blocks(const vtb__rates *g, vtb__rates_fn *fn, void *user) {
  vtb_cpu *c = g->s->c;
  int64_t whole = g->s->of.K / VTB__KEYS * VTB__KEYS, rest = g->s->of.K - whole;
  LLVMValueRef yes = LLVMConstInt(c->i1, 1, 0), no = LLVMConstInt(c->i1, 0, 0);
  if (whole == VTB__KEYS) {
    fn(user, k_(c, 0), VTB__KEYS, yes);
  } else if (whole) {
    vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, whole), k_(c, VTB__KEYS));
    fn(user, l.i, VTB__KEYS, LLVMBuildICmp(c->b, LLVMIntEQ, l.i, k_(c, 0), ""));
    vtb_cpu_for_end(c, &l);
  }
  if (rest) fn(user, k_(c, whole), (int)rest, whole ? no : yes);
}

void vtb__rates_accumulate(const vtb__rates *g, LLVMValueRef v, LLVMValueRef row,
                           LLVMValueRef first) {
  vtb_cpu *c = g->s->c;
  if (!LLVMIsAConstantInt(first) || LLVMConstIntGetZExtValue(first) == 0) {
    LLVMValueRef sum = LLVMBuildFAdd(c->b, v, vtb__rates_load(g, row), "");
    v = LLVMBuildSelect(c->b, first, v, sum, "");
  }
  vtb__rates_store(g, v, row);
}

/* ---- the scan -------------------------------------------------------------------------------- */

void vtb__rates_advance(const vtb__rates *g, const vtb__rates_run *run, LLVMValueRef k0, int n,
                        LLVMValueRef first) {
  vtb__cpu_scan *s = g->s;
  vtb_cpu *c = s->c;
  LLVMValueRef exponents[VTB__KEYS], decay[VTB__KEYS], state[VTB__KEYS], row[VTB__KEYS], y[2];
  vtb__rates_exponents(g, k0, n, exponents);
  for (int k = 0; k < n; k++) {
    row[k] = vtb_cpu_add(c, k0, k_(c, k));
    state[k] = vtb_cpu_load(c, vtb__rates_row(g, run->from, row[k]), VTB__LANES);
  }
  vtb_cpu_for t = vtb_cpu_for_begin(c, k_(c, 0), run->n_steps, k_(c, 1));
  for (int k = 0; k < n; k++) state[k] = vtb_cpu_carry(c, &t, state[k]);
  LLVMValueRef pos = vtb__order_at(c, &s->order, vtb_cpu_add(c, run->t0, t.i));
  LLVMValueRef keys = vtb__scan_row(s, s->of.at.k, pos),
               queries = run->y ? vtb__scan_row(s, s->of.at.q, pos) : NULL;
  LLVMValueRef v = vtb__rates_load(g, vtb__scan_row(s, s->of.at.v, pos));
  vtb__rates_decays(g, vtb__rates_load(g, vtb__scan_row(s, s->of.at.d, pos)), exponents, n, decay);
  y[0] = y[1] = vtb_cpu_like(c, v, 0);
  for (int k = 0; k < n; k++) {
    LLVMValueRef key =
        vtb_cpu_splat(c, vtb_cpu_load(c, vtb_cpu_at(c, keys, row[k]), 1), VTB__LANES);
    LLVMValueRef next = vtb_cpu_fma(c, decay[k], state[k], LLVMBuildFMul(c->b, key, v, ""));
    vtb_cpu_carry_next(&t, k, next);
    if (!run->y) continue;
    LLVMValueRef query =
        vtb_cpu_splat(c, vtb_cpu_load(c, vtb_cpu_at(c, queries, row[k]), 1), VTB__LANES);
    y[k % 2] = vtb_cpu_fma(c, query, next, y[k % 2]);
  }
  if (run->y)
    vtb__rates_accumulate(g, LLVMBuildFAdd(c->b, y[0], y[1], ""), vtb__scan_row(s, s->of.at.y, pos),
                          first);
  vtb_cpu_for_end(c, &t);
  for (int k = 0; run->to && k < n; k++)
    vtb_cpu_store(c, vtb_cpu_carried(&t, k), vtb__rates_row(g, run->to, row[k]));
}

typedef struct forward {
  vtb__rates g;
  vtb__rates_run run;
} forward;

static void advance(void *user, LLVMValueRef k0, int n, LLVMValueRef first) {
  const forward *f = user;
  vtb__rates_advance(&f->g, &f->run, k0, n, first);
}

/* The initial state of the tile, zeros if there is none. */
static void load_initial(const vtb__rates *g, LLVMValueRef rows) {
  vtb__cpu_scan *s = g->s;
  vtb_cpu *c = s->c;
  vtb_cpu_for k = vtb_cpu_for_begin(c, k_(c, 0), k_(c, s->of.K), k_(c, 1));
  LLVMValueRef v = LLVMConstNull(vtb_cpu_vector(c, VTB__LANES));
  if (s->of.init) v = vtb__rates_load(g, vtb__rates_state_row(g, s->of.at.s0, k.i));
  vtb_cpu_store(c, v, vtb__rates_row(g, rows, k.i));
  vtb_cpu_for_end(c, &k);
}

void vtb__linscan_rates(vtb__cpu_scan *s, const vtb_inst *inst) {
  vtb_cpu *c = s->c;
  forward f = {.g = {.s = s, .n_tiles = vtb__rates_tiles(s)}};
  s->t = vtb_cpu_task_begin(c, inst, "rates", s->of.n_batch * s->of.n_heads * f.g.n_tiles, 1);
  LLVMValueRef bh = vtb_cpu_div(c, s->t->index, f.g.n_tiles);
  s->batch = vtb_cpu_div(c, bh, s->of.n_heads);
  s->head = vtb_cpu_rem(c, bh, s->of.n_heads);
  vtb__rates_at_tile(&f.g, vtb_cpu_rem(c, s->t->index, f.g.n_tiles));
  LLVMValueRef state = vtb_cpu_scratch(c, s->t, s->of.K * VTB__LANES * (int64_t)sizeof(float));
  load_initial(&f.g, state);
  f.run =
      (vtb__rates_run){.t0 = k_(c, 0), .n_steps = k_(c, s->of.n_tokens), .from = state, .y = true};
  if (s->of.last) f.run.to = state;
  vtb__rates_blocks(&f.g, advance, &f);
  if (s->of.last) {
    vtb_cpu_for k = vtb_cpu_for_begin(c, k_(c, 0), k_(c, s->of.K), k_(c, 1));
    LLVMValueRef v = vtb_cpu_load(c, vtb__rates_row(&f.g, state, k.i), VTB__LANES);
    vtb__rates_store(&f.g, v, vtb__rates_state_row(&f.g, s->of.at.s, k.i));
    vtb_cpu_for_end(c, &k);
  }
  vtb_cpu_task_end(c, s->t);
}
