/* linscan_grad token by token, classes key, value and full, in every mode.
 *
 * A task owns one batch entry, one head and a tile of V. First it runs forward and keeps the state
 * at every segment boundary; then, from the last segment to the first, it recomputes the states
 * inside the segment and runs the adjoint
 *   P_t = q_t dy_t^T + D_{t+1} o P_{t+1}
 *   dq_t = S_t dy_t     dk_t = P_t v_t     dv_t = P_t^T k_t
 *   dD_t = P_t o S_{t-1}, summed over the axes D does not have
 * Segments are about sqrt(N) long, which keeps the fewest states. What sums over V (dq, dk, dd of
 * class key) goes to partial sums of one tile each, added in order by a second task.
 */
#include "codegen/cpu/scan/linscan.h"

#define MAX_GROUP 2
#define N_SUMS 3 /* dq, dk, dd */

typedef struct backward {
  vtb__steps steps;
  int64_t segment, n_segments;
  LLVMValueRef bounds, inside, adjoint; /* states: [n_segments], [segment + 1], 1 */
  LLVMValueRef dy, dv, dd;              /* rows of the tile */
  LLVMValueRef sums[N_SUMS];            /* [K, width]: vectors to be summed across */
  /* [tile, sum, B, N, h, K] in the instruction's temporaries, NULL: one tile */
  LLVMValueRef partial;
  LLVMValueRef pos, now, before; /* step being run: S_t, S_{t-1} */
} backward;

static LLVMValueRef k_(vtb_cpu *c, int64_t v) { return vtb_cpu_i64(c, v); }

static int n_sums(const vtb__cpu_scan *s) { return s->of.decay->axes == VTB_ALONG_KEY ? 3 : 2; }

static int64_t segment_length(int64_t n_tokens) {
  int64_t length = 1;
  while (length * length < n_tokens) length++;
  return length;
}

static LLVMValueRef state_at(const backward *g, LLVMValueRef states, LLVMValueRef i) {
  return vtb_cpu_at(g->steps.s->c, states,
                    vtb_cpu_mul(g->steps.s->c, i, g->steps.s->of.K * g->steps.ld));
}

static void reserve(backward *g) {
  vtb__cpu_scan *s = g->steps.s;
  vtb_cpu *c = s->c;
  int64_t f = (int64_t)sizeof(float), state = s->of.K * g->steps.ld * f, row = g->steps.ld * f;
  g->segment = segment_length(s->of.n_tokens);
  g->n_segments = (s->of.n_tokens + g->segment - 1) / g->segment;
  g->bounds = vtb_cpu_scratch(c, s->t, g->n_segments * state);
  g->inside = vtb_cpu_scratch(c, s->t, (g->segment + 1) * state);
  g->adjoint = vtb_cpu_scratch(c, s->t, state);
  g->dy = vtb_cpu_scratch(c, s->t, row);
  g->dv = vtb_cpu_scratch(c, s->t, row);
  g->dd = vtb_cpu_scratch(c, s->t, row);
  for (int i = 0; i < n_sums(s); i++)
    g->sums[i] = vtb_cpu_scratch(c, s->t, vtb__padded(c, s->of.K) * c->width * f);
}

static void copy_state(const backward *g, LLVMValueRef from, LLVMValueRef to) {
  vtb_cpu *c = g->steps.s->c;
  int64_t n = g->steps.s->of.K * g->steps.ld;
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, n), k_(c, c->width));
  vtb_cpu_store(c, vtb_cpu_load(c, vtb_cpu_at(c, from, l.i), c->width), vtb_cpu_at(c, to, l.i));
  vtb_cpu_for_end(c, &l);
}

/* The state before each segment. */
static void run_forward(const backward *g) {
  vtb__cpu_scan *s = g->steps.s;
  vtb_cpu *c = s->c;
  if (s->of.init)
    vtb__scan_pack_state(s, &g->steps.cols, s->of.at.s0, s->of.at.n0, g->bounds, g->steps.ld);
  else
    vtb__fill(c, g->bounds, k_(c, s->of.K * g->steps.ld), 0);
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 1), k_(c, g->n_segments), k_(c, 1));
  LLVMValueRef state = state_at(g, g->bounds, l.i);
  copy_state(g, state_at(g, g->bounds, vtb_cpu_add(c, l.i, k_(c, -1))), state);
  vtb_cpu_for i = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->segment), k_(c, 1));
  LLVMValueRef t = vtb_cpu_add(c, vtb_cpu_mul(c, vtb_cpu_add(c, l.i, k_(c, -1)), g->segment), i.i);
  LLVMValueRef pos = vtb__order_at(c, &s->order, t);
  vtb__steps_rows(&g->steps, pos);
  vtb__steps_advance(&g->steps, pos, state, state, NULL);
  vtb_cpu_for_end(c, &i);
  vtb_cpu_for_end(c, &l);
}

static void add_to(vtb_cpu *c, LLVMValueRef at, LLVMValueRef v) {
  vtb_cpu_store(c, LLVMBuildFAdd(c->b, vtb_cpu_load(c, at, c->width), v, ""), at);
}

static LLVMValueRef total(vtb_cpu *c, LLVMValueRef *v, int n) {
  LLVMValueRef sum = v[0];
  for (int i = 1; i < n; i++) sum = LLVMBuildFAdd(c->b, sum, v[i], "");
  return sum;
}

static void store_dd(const backward *g, LLVMValueRef k, LLVMValueRef j, int64_t left,
                     LLVMValueRef v) {
  vtb__cpu_scan *s = g->steps.s;
  vtb_cpu *c = s->c;
  LLVMValueRef index[] = {s->batch, g->pos, s->head, k, vtb_cpu_add(c, g->steps.cols.from, j)};
  LLVMValueRef at = vtb_cpu_element(c, &s->t->t[s->of.at.dd], index, 5);
  if (left)
    vtb_cpu_store_masked(c, v, at, vtb_cpu_mask(c, k_(c, left), c->width));
  else
    vtb_cpu_store(c, v, at);
}

/* All keys for a few vectors of V: dv and dd of class value are complete afterwards, the sums over
 * V have grown. */
static void adjoint_vectors(void *user, LLVMValueRef j, int vectors, int64_t left) {
  const backward *g = user;
  vtb__cpu_scan *s = g->steps.s;
  vtb_cpu *c = s->c;
  int w = c->width;
  bool by_value = s->of.decay->axes == VTB_ALONG_VALUE;
  LLVMValueRef at[MAX_GROUP], v[MAX_GROUP], dy[MAX_GROUP], to_q[MAX_GROUP] = {0}, to_k[MAX_GROUP],
                                                           to_d[MAX_GROUP];
  for (int i = 0; i < vectors; i++) {
    at[i] = vtb_cpu_add(c, j, k_(c, i * w));
    v[i] = vtb_cpu_load(c, vtb_cpu_at(c, g->steps.v, at[i]), w);
    dy[i] = vtb_cpu_load(c, vtb_cpu_at(c, g->dy, at[i]), w);
  }
  LLVMValueRef keys = vtb__scan_row(s, s->of.at.k, g->pos),
               queries = vtb__scan_row(s, s->of.at.q, g->pos);
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, s->of.K), k_(c, 1));
  for (int i = 0; i < 2 * vectors; i++) vtb_cpu_carry(c, &l, LLVMConstNull(c->vf32)); /* dv, dd */
  LLVMValueRef key = vtb_cpu_splat(c, vtb_cpu_load(c, vtb_cpu_at(c, keys, l.i), 1), w);
  LLVMValueRef query = vtb_cpu_splat(c, vtb_cpu_load(c, vtb_cpu_at(c, queries, l.i), 1), w);
  for (int i = 0; i < vectors; i++) {
    LLVMValueRef offset = vtb_cpu_add(c, vtb_cpu_mul(c, l.i, g->steps.ld), at[i]);
    LLVMValueRef p_at = vtb_cpu_at(c, g->adjoint, offset);
    LLVMValueRef p = vtb_cpu_fma(c, query, dy[i], vtb_cpu_load(c, p_at, w));
    to_q[i] = LLVMBuildFMul(c->b, vtb_cpu_load(c, vtb_cpu_at(c, g->now, offset), w), dy[i], "");
    to_k[i] = LLVMBuildFMul(c->b, p, v[i], "");
    to_d[i] = LLVMBuildFMul(c->b, p, vtb_cpu_load(c, vtb_cpu_at(c, g->before, offset), w), "");
    vtb_cpu_carry_next(&l, i, vtb_cpu_fma(c, p, key, vtb_cpu_carried(&l, i)));
    if (by_value)
      vtb_cpu_carry_next(&l, vectors + i,
                         LLVMBuildFAdd(c->b, vtb_cpu_carried(&l, vectors + i), to_d[i], ""));
    if (s->of.decay->axes == VTB_ALONG_BOTH) store_dd(g, l.i, at[i], left, to_d[i]);
    vtb_cpu_store(
        c, LLVMBuildFMul(c->b, vtb__steps_decay(&g->steps, g->pos, l.i, at[i], left), p, ""), p_at);
  }
  LLVMValueRef sum_at = vtb_cpu_mul(c, l.i, w);
  add_to(c, vtb_cpu_at(c, g->sums[0], sum_at), total(c, to_q, vectors));
  add_to(c, vtb_cpu_at(c, g->sums[1], sum_at), total(c, to_k, vectors));
  if (s->of.decay->axes == VTB_ALONG_KEY)
    add_to(c, vtb_cpu_at(c, g->sums[2], sum_at), total(c, to_d, vectors));
  vtb_cpu_for_end(c, &l);
  for (int i = 0; i < vectors; i++) {
    vtb_cpu_store(c, vtb_cpu_carried(&l, i), vtb_cpu_at(c, g->dv, at[i]));
    if (by_value) vtb_cpu_store(c, vtb_cpu_carried(&l, vectors + i), vtb_cpu_at(c, g->dd, at[i]));
  }
}

/* Row K of sum i of this tile's token. */
static LLVMValueRef partial_row(const backward *g, LLVMValueRef tile, int i, LLVMValueRef batch,
                                LLVMValueRef pos, LLVMValueRef head) {
  vtb__cpu_scan *s = g->steps.s;
  vtb_cpu *c = s->c;
  LLVMValueRef at = vtb_cpu_add(c, vtb_cpu_mul(c, tile, n_sums(s)), k_(c, i));
  at = vtb_cpu_add(c, vtb_cpu_mul(c, at, s->of.n_batch), batch);
  at = vtb_cpu_add(c, vtb_cpu_mul(c, at, s->of.n_tokens), pos);
  at = vtb_cpu_add(c, vtb_cpu_mul(c, at, s->of.n_heads), head);
  return vtb_cpu_at(c, g->partial, vtb_cpu_mul(c, at, s->of.K));
}

static int sum_result(const vtb__cpu_scan *s, int i) {
  return i == 0 ? s->of.at.dq : i == 1 ? s->of.at.dk : s->of.at.dd;
}

static void store_sums(const backward *g) {
  vtb__cpu_scan *s = g->steps.s;
  vtb_cpu *c = s->c;
  LLVMValueRef tile = vtb_cpu_rem(c, s->t->index, g->steps.n_tiles);
  for (int i = 0; i < n_sums(s); i++) {
    LLVMValueRef out = g->partial ? partial_row(g, tile, i, s->batch, g->pos, s->head)
                                  : vtb__scan_row(s, sum_result(s, i), g->pos);
    vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, s->of.K), k_(c, c->width));
    LLVMValueRef r[16];
    for (int k = 0; k < c->width; k++) {
      LLVMValueRef row = vtb_cpu_mul(c, vtb_cpu_add(c, l.i, k_(c, k)), c->width);
      r[k] = vtb_cpu_load(c, vtb_cpu_at(c, g->sums[i], row), c->width);
    }
    LLVMValueRef v = vtb__sum_rows(c, r), at = vtb_cpu_at(c, out, l.i);
    LLVMValueRef left = LLVMBuildNSWSub(c->b, k_(c, s->of.K), l.i, "");
    if (s->of.K % c->width)
      vtb_cpu_store_masked(c, v, at, vtb_cpu_mask(c, left, c->width));
    else
      vtb_cpu_store(c, v, at);
    vtb_cpu_for_end(c, &l);
  }
}

static void step_back(backward *g, LLVMValueRef t, LLVMValueRef i) {
  vtb__cpu_scan *s = g->steps.s;
  vtb_cpu *c = s->c;
  g->pos = vtb__order_at(c, &s->order, t);
  g->before = state_at(g, g->inside, i);
  g->now = state_at(g, g->inside, vtb_cpu_add(c, i, k_(c, 1)));
  vtb__steps_rows(&g->steps, g->pos);
  LLVMValueRef dz =
      s->of.normalizer ? vtb_cpu_load(c, vtb__scan_row(s, s->of.at.dz, g->pos), 1) : NULL;
  vtb__row_pack(c, &g->steps.cols, vtb__scan_row(s, s->of.at.dy, g->pos), dz, NULL, g->dy);
  for (int k = 0; k < n_sums(s); k++)
    vtb__fill(c, g->sums[k], k_(c, vtb__padded(c, s->of.K) * c->width), 0);
  vtb__each_vector(c, &g->steps.cols, MAX_GROUP, adjoint_vectors, g);
  store_sums(g);
  vtb__row_unpack(c, &g->steps.cols, g->dv, NULL, vtb__scan_row(s, s->of.at.dv, g->pos));
  if (s->of.decay->axes == VTB_ALONG_VALUE)
    vtb__row_unpack(c, &g->steps.cols, g->dd, NULL, vtb__scan_row(s, s->of.at.dd, g->pos));
}

static void run_backward(backward *g) {
  vtb__cpu_scan *s = g->steps.s;
  vtb_cpu *c = s->c;
  if (s->of.dlast)
    vtb__scan_pack_state(s, &g->steps.cols, s->of.at.ds, s->of.at.dn, g->adjoint, g->steps.ld);
  else
    vtb__fill(c, g->adjoint, k_(c, s->of.K * g->steps.ld), 0);
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->n_segments), k_(c, 1));
  LLVMValueRef segment = LLVMBuildNSWSub(c->b, k_(c, g->n_segments - 1), l.i, "");
  LLVMValueRef t0 = vtb_cpu_mul(c, segment, g->segment);
  LLVMValueRef n =
      vtb_cpu_min(c, LLVMBuildNSWSub(c->b, k_(c, s->of.n_tokens), t0, ""), k_(c, g->segment));
  copy_state(g, state_at(g, g->bounds, segment), g->inside);
  vtb_cpu_for i = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, 1));
  LLVMValueRef pos = vtb__order_at(c, &s->order, vtb_cpu_add(c, t0, i.i));
  vtb__steps_rows(&g->steps, pos);
  LLVMValueRef next = state_at(g, g->inside, vtb_cpu_add(c, i.i, k_(c, 1)));
  vtb__steps_advance(&g->steps, pos, state_at(g, g->inside, i.i), next, NULL);
  vtb_cpu_for_end(c, &i);
  vtb_cpu_for r = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, 1));
  LLVMValueRef back = LLVMBuildNSWSub(c->b, vtb_cpu_add(c, n, k_(c, -1)), r.i, "");
  step_back(g, vtb_cpu_add(c, t0, back), back);
  vtb_cpu_for_end(c, &r);
  vtb_cpu_for_end(c, &l);
  if (s->of.init)
    vtb__scan_unpack_state(s, &g->steps.cols, s->of.at.ds0, s->of.at.dn0, g->adjoint, g->steps.ld);
}

/* dq, dk, dd of every token: the tiles' partial sums, added in order. */
static void add_partials(backward *g, const vtb_inst *inst, int64_t temp) {
  vtb__cpu_scan *s = g->steps.s;
  vtb_cpu *c = s->c;
  s->t = vtb_cpu_task_begin(c, inst, "sum", s->of.n_batch * s->of.n_tokens, 16);
  g->partial = vtb_cpu_temp_ptr(c, s->t, temp);
  LLVMValueRef pos = vtb_cpu_rem(c, s->t->index, s->of.n_tokens);
  s->batch = vtb_cpu_div(c, s->t->index, s->of.n_tokens);
  vtb_cpu_for h = vtb_cpu_for_begin(c, k_(c, 0), k_(c, s->of.n_heads), k_(c, 1));
  s->head = h.i;
  for (int i = 0; i < n_sums(s); i++) {
    LLVMValueRef out = vtb__scan_row(s, sum_result(s, i), pos);
    vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, s->of.K), k_(c, 1));
    vtb_cpu_for tile = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->steps.n_tiles), k_(c, 1));
    LLVMValueRef sum = vtb_cpu_carry(c, &tile, vtb_cpu_f32(c, 0));
    LLVMValueRef at = vtb_cpu_at(c, partial_row(g, tile.i, i, s->batch, pos, s->head), l.i);
    vtb_cpu_carry_next(&tile, 0, LLVMBuildFAdd(c->b, sum, vtb_cpu_load(c, at, 1), ""));
    vtb_cpu_for_end(c, &tile);
    vtb_cpu_store(c, vtb_cpu_carried(&tile, 0), vtb_cpu_at(c, out, l.i));
    vtb_cpu_for_end(c, &l);
  }
  vtb_cpu_for_end(c, &h);
  vtb_cpu_task_end(c, s->t);
}

void vtb__linscan_grad_steps(vtb__cpu_scan *s, const vtb_inst *inst) {
  vtb_cpu *c = s->c;
  backward g = {.steps = vtb__steps_begin(s, inst, 8)};
  int64_t temp = 0;
  if (g.steps.n_tiles > 1) {
    int64_t rows = g.steps.n_tiles * n_sums(s) * s->of.n_batch * s->of.n_tokens * s->of.n_heads;
    temp = vtb_cpu_temp(c, rows * s->of.K * (int64_t)sizeof(float));
    g.partial = vtb_cpu_temp_ptr(c, s->t, temp);
  }
  reserve(&g);
  run_forward(&g);
  run_backward(&g);
  vtb_cpu_task_end(c, s->t);
  if (g.steps.n_tiles > 1) add_partials(&g, inst, temp);
}
