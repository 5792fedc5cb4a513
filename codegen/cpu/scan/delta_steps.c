/* delta token by token, for every class: the state [K, V] stays in scratch memory, vectors run
 * along V. First all rows of a token read the state, then it decays and all of them are added.
 * Tiles of V are independent. */
#include "codegen/cpu/scan/delta.h"

#define MAX_GROUP 4

typedef struct step {
  const vtb__delta *d;
  const vtb__steps *g;
  LLVMValueRef pos, r, w; /* of row r: w in scratch memory */
  LLVMValueRef state;
  bool decays; /* the row is the first to be added */
} step;

static LLVMValueRef k_(vtb_cpu *c, int64_t v) { return vtb_cpu_i64(c, v); }

static LLVMValueRef place(const step *a, LLVMValueRef key, LLVMValueRef j) {
  vtb_cpu *c = a->g->s->c;
  return vtb_cpu_at(c, a->state, vtb_cpu_add(c, vtb_cpu_mul(c, key, a->g->ld), j));
}

static LLVMValueRef element(const step *a, int tensor, LLVMValueRef key) {
  vtb_cpu *c = a->g->s->c;
  LLVMValueRef row = vtb__delta_row(a->d, tensor, a->pos, a->r);
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
  LLVMValueRef b = element(a, a->d->b, l.i);
  for (int i = 0; i < vectors; i++) {
    LLVMValueRef s = vtb_cpu_load(c, place(a, l.i, at[i]), c->width);
    vtb_cpu_carry_next(&l, i, vtb_cpu_fma(c, b, s, w[i]));
  }
  vtb_cpu_for_end(c, &l);
  for (int i = 0; i < vectors; i++)
    vtb_cpu_store(c, vtb_cpu_carried(&l, i), vtb_cpu_at(c, a->w, at[i]));
}

/* S = D o S + k w^T, the decay with the first row alone. */
static void add_vectors(void *user, LLVMValueRef j, int vectors, int64_t left) {
  const step *a = user;
  vtb_cpu *c = a->g->s->c;
  LLVMValueRef at[MAX_GROUP], w[MAX_GROUP];
  for (int i = 0; i < vectors; i++) {
    at[i] = vtb_cpu_add(c, j, k_(c, i * c->width));
    w[i] = vtb_cpu_load(c, vtb_cpu_at(c, a->w, at[i]), c->width);
  }
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, a->g->s->of.K), k_(c, 1));
  LLVMValueRef key = element(a, a->g->s->of.at.k, l.i);
  for (int i = 0; i < vectors; i++) {
    LLVMValueRef s_at = place(a, l.i, at[i]), s = vtb_cpu_load(c, s_at, c->width);
    if (a->decays) s = LLVMBuildFMul(c->b, vtb__steps_decay(a->g, a->pos, l.i, at[i], left), s, "");
    vtb_cpu_store(c, vtb_cpu_fma(c, key, w[i], s), s_at);
  }
  vtb_cpu_for_end(c, &l);
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

void vtb__delta_steps(vtb__delta *d, const vtb_inst *inst) {
  vtb__scan *s = &d->scan;
  vtb_cpu *c = s->c;
  vtb__steps g = vtb__steps_begin(s, inst, 64);
  step a = {.d = d, .g = &g};
  a.state = vtb_cpu_scratch(c, s->t, s->of.K * g.ld * (int64_t)sizeof(float));
  LLVMValueRef rows = vtb_cpu_scratch(c, s->t, d->rows * g.ld * (int64_t)sizeof(float));
  if (s->of.init)
    vtb__scan_pack_state(s, &g.cols, s->of.at.s0, -1, a.state, g.ld);
  else
    vtb__fill(c, a.state, k_(c, s->of.K * g.ld), 0);
  vtb_cpu_for t = vtb_cpu_for_begin(c, k_(c, 0), k_(c, s->of.n_tokens), k_(c, 1));
  a.pos = vtb__order_at(c, &s->order, t.i);
  vtb__delta_pack(d, &g.cols, s->of.at.v, t.i, k_(c, 1), rows, g.ld);
  each_row(&a, rows, 0, d->rows, read_vectors);
  vtb__delta_unpack(d, &g.cols, d->w, t.i, k_(c, 1), rows, g.ld);
  a.decays = true;
  each_row(&a, rows, 0, 1, add_vectors);
  a.decays = false;
  if (d->rows > 1) each_row(&a, rows, 1, d->rows, add_vectors);
  vtb_cpu_for_end(c, &t);
  vtb_cpu_task_end(c, s->t);
}
