/* delta token by token, for every class: the state [K, V] stays in scratch memory, vectors run
 * along V. All rows of a token read the state, then it decays and all of them are added; the pass
 * that adds the last one reads for the next token's first, so that one row a token is one pass.
 * Tiles of V are independent. */
#include "codegen/cpu/scan/delta.h"

#define MAX_GROUP 4

typedef struct step {
  const vtb__cpu_delta_rule *d;
  const vtb__steps *g;
  LLVMValueRef pos, r, w; /* of row r: w in scratch memory */
  LLVMValueRef state;
  bool decays;                      /* the row is the first to be added */
  LLVMValueRef next_pos, next_rows; /* it is the last one: the token behind it; or NULL */
} step;

static LLVMValueRef k_(vtb_cpu *c, int64_t v) { return vtb_cpu_i64(c, v); }

static LLVMValueRef place(const step *a, LLVMValueRef key, LLVMValueRef j) {
  vtb_cpu *c = a->g->s->c;
  return vtb_cpu_at(c, a->state, vtb_cpu_add(c, vtb_cpu_mul(c, key, a->g->ld), j));
}

/* All lanes: the number under a key in row r of the token at pos. */
static LLVMValueRef element(const step *a, int tensor, LLVMValueRef pos, LLVMValueRef r,
                            LLVMValueRef key) {
  vtb_cpu *c = a->g->s->c;
  LLVMValueRef row = vtb__delta_row(a->d, tensor, pos, r);
  return vtb_cpu_splat(c, vtb_cpu_load(c, vtb_cpu_at(c, row, key), 1), c->width);
}

/* w += S^T b */
static void read_vectors(void *user, LLVMValueRef j, int vectors, int64_t left) {
  const step *a = user;
  vtb_cpu *c = a->g->s->c;
  LLVMValueRef at[MAX_GROUP], w[MAX_GROUP];
  (void)left;
  for (int i = 0; i < vectors; i++) {
    at[i] = vtb_cpu_add(c, j, k_(c, i * c->width));
    w[i] = vtb_cpu_load(c, vtb_cpu_at(c, a->w, at[i]), c->width);
  }
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, a->g->s->of.K), k_(c, 1));
  for (int i = 0; i < vectors; i++) w[i] = vtb_cpu_carry(c, &l, w[i]);
  LLVMValueRef b = element(a, a->d->b, a->pos, a->r, l.i);
  for (int i = 0; i < vectors; i++) {
    LLVMValueRef s = vtb_cpu_load(c, place(a, l.i, at[i]), c->width);
    vtb_cpu_carry_next(&l, i, vtb_cpu_fma(c, b, s, w[i]));
  }
  vtb_cpu_for_end(c, &l);
  for (int i = 0; i < vectors; i++)
    vtb_cpu_store(c, vtb_cpu_carried(&l, i), vtb_cpu_at(c, a->w, at[i]));
}

/* S = D o S + k w^T, the decay with the first row alone; with the last one, next w += S^T b. */
static void add_vectors(void *user, LLVMValueRef j, int vectors, int64_t left) {
  const step *a = user;
  vtb_cpu *c = a->g->s->c;
  LLVMValueRef at[MAX_GROUP], w[MAX_GROUP], next[MAX_GROUP], b = NULL;
  for (int i = 0; i < vectors; i++) {
    at[i] = vtb_cpu_add(c, j, k_(c, i * c->width));
    w[i] = vtb_cpu_load(c, vtb_cpu_at(c, a->w, at[i]), c->width);
    if (a->next_pos) next[i] = vtb_cpu_load(c, vtb_cpu_at(c, a->next_rows, at[i]), c->width);
  }
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, a->g->s->of.K), k_(c, 1));
  for (int i = 0; a->next_pos && i < vectors; i++) next[i] = vtb_cpu_carry(c, &l, next[i]);
  LLVMValueRef key = element(a, a->g->s->of.at.k, a->pos, a->r, l.i);
  if (a->next_pos) b = element(a, a->d->b, a->next_pos, k_(c, 0), l.i);
  for (int i = 0; i < vectors; i++) {
    LLVMValueRef s_at = place(a, l.i, at[i]), s = vtb_cpu_load(c, s_at, c->width);
    if (a->decays) s = LLVMBuildFMul(c->b, vtb__steps_decay(a->g, a->pos, l.i, at[i], left), s, "");
    s = vtb_cpu_fma(c, key, w[i], s);
    vtb_cpu_store(c, s, s_at);
    if (a->next_pos) vtb_cpu_carry_next(&l, i, vtb_cpu_fma(c, b, s, next[i]));
  }
  vtb_cpu_for_end(c, &l);
  for (int i = 0; a->next_pos && i < vectors; i++)
    vtb_cpu_store(c, vtb_cpu_carried(&l, i), vtb_cpu_at(c, a->next_rows, at[i]));
}

/* Rows from ... to of the token at a->pos. */
static void each_row(step *a, LLVMValueRef rows, int64_t from, int64_t to, vtb__vectors_fn *fn) {
  vtb_cpu *c = a->g->s->c;
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, from), k_(c, to), k_(c, 1));
  a->r = l.i;
  a->w = vtb_cpu_at(c, rows, vtb_cpu_mul(c, l.i, a->g->ld));
  vtb__each_vector(c, &a->g->cols, MAX_GROUP, fn, a);
  vtb_cpu_for_end(c, &l);
}

/* Decays the state and adds a token's rows; the next token's first has then read it. */
static void advance(step *a, LLVMValueRef rows, LLVMValueRef next_pos) {
  int64_t last = a->d->rows - 1;
  for (int part = 0; part < 3; part++) { /* the first row, those between, the last */
    int64_t from = part == 0   ? 0
                   : part == 1 ? 1
                               : last,
            to = part == 0   ? 1
                 : part == 1 ? last
                             : last + 1;
    if (from >= to || (part == 2 && last == 0)) continue;
    a->decays = part == 0;
    a->next_pos = to == last + 1 ? next_pos : NULL;
    each_row(a, rows, from, to, add_vectors);
  }
}

void vtb__delta_steps(vtb__cpu_delta_rule *d, const vtb_inst *inst) {
  vtb__cpu_scan *s = &d->scan;
  vtb_cpu *c = s->c;
  vtb__steps g = vtb__steps_begin(s, inst, 64);
  step a = {.d = d, .g = &g};
  LLVMValueRef zero = k_(c, 0), one = k_(c, 1), last = k_(c, s->of.n_tokens - 1), rows[2];
  a.state = vtb_cpu_scratch(c, s->t, s->of.K * g.ld * (int64_t)sizeof(float));
  for (int i = 0; i < 2; i++)
    rows[i] = vtb_cpu_scratch(c, s->t, d->rows * g.ld * (int64_t)sizeof(float));
  if (s->of.init)
    vtb__scan_pack_state(s, &g.cols, s->of.at.s0, -1, a.state, g.ld);
  else
    vtb__fill(c, a.state, k_(c, s->of.K * g.ld), 0);
  vtb__delta_pack(d, &g.cols, s->of.at.v, zero, one, rows[0], g.ld);
  a.pos = vtb__order_at(c, &s->order, zero);
  each_row(&a, rows[0], 0, 1, read_vectors);
  vtb_cpu_for t = vtb_cpu_for_begin(c, zero, k_(c, s->of.n_tokens), one);
  for (int i = 0; i < 2; i++) rows[i] = vtb_cpu_carry(c, &t, rows[i]);
  a.pos = vtb__order_at(c, &s->order, t.i);
  if (d->rows > 1) each_row(&a, rows[0], 1, d->rows, read_vectors);
  vtb__delta_unpack(d, &g.cols, d->w, t.i, one, rows[0], g.ld);
  LLVMValueRef next = vtb_cpu_min(c, vtb_cpu_add(c, t.i, one), last);
  vtb__delta_pack(d, &g.cols, s->of.at.v, next, one, rows[1], g.ld);
  a.next_rows = rows[1];
  advance(&a, rows[0], vtb__order_at(c, &s->order, next));
  for (int i = 0; i < 2; i++) vtb_cpu_carry_next(&t, i, rows[1 - i]);
  vtb_cpu_for_end(c, &t);
  vtb_cpu_task_end(c, s->t);
}
