/* Op delta for the corrections of a state, and the linscans that these read.
 *
 * Rows that read nothing are a linear recurrence of their own, whose state the corrections read by
 * an ordinary linscan:
 *
 *   A_t = D_t * A_{t-1} + sum_f key_f c_f^T            C_t = D_t * C_{t-1} + sum_r key_r w_r^T
 *   w_r = (c_r + A_{t-1}^T b_r) + C_{t-1}^T b_r        S_t = A_t + C_t,   S_0 = C_0
 */
#include "passes/recurrence/recurrence.h"

/* [B,N,h,X] as one row. */
static vtb_value *as_row(vtb__rec *r, vtb_value *x) {
  vtb_type t = vtb_type_with_axis(&x->type, 3, (vtb_dim){.size = 1});
  return vtb_b_reshape(&r->b, x, &t);
}

static vtb_value *stack(vtb__rec *r, vtb_value *const *rows, int n) {
  vtb_value **made = VTB_SCRATCH(r->step, vtb_value *, n);
  for (int i = 0; i < n; i++) made[i] = as_row(r, rows[i]);
  return n == 1 ? made[0] : vtb_b_concat(&r->b, made, n, 3);
}

/* A value of the step, of one axis or none, as [B,N,h,n]; NULL is 0. */
static vtb_value *full_line(vtb__rec *r, vtb_value *v, int64_t n) {
  vtb__lifted x = v ? vtb__rec_lift(r, v) : vtb__rec_number(r, 0);
  return vtb__rec_full(r, x, &(vtb_dim){.size = n}, 1);
}

/* The state with the corrections' key axis as its key. */
static vtb__state turned(const vtb__state *s) {
  vtb__state t = *s;
  t.key = s->delta->key, t.whole = false;
  return t;
}

typedef struct rows {
  vtb_value **k, **c, **b, *d; /* [B,N,h,X] each, and the decay */
  const char *klass;
} rows;

static rows emit_rows(vtb__rec *r, const vtb__state *s) {
  const vtb__delta *delta = s->delta;
  vtb_dim keys = s->type->dim[s->key];
  int64_t n_values = s->type->rank == 2 ? s->type->dim[1 - s->key].size : 1;
  int n = delta->n_rows + 1;
  vtb_value *rates;
  rows e = {.k = VTB_SCRATCH(r->step, vtb_value *, n)};
  e.c = VTB_SCRATCH(r->step, vtb_value *, n), e.b = VTB_SCRATCH(r->step, vtb_value *, n);
  e.d = vtb__rec_decay(r, s, &e.klass, &rates);
  for (int i = 0; i < delta->n_rows; i++) {
    r->b.name_hint = "k";
    e.k[i] = vtb__rec_side(r, &delta->rows[i].key, ~0u, &keys);
    e.c[i] = full_line(r, delta->rows[i].c, n_values);
    if (i < delta->rank) e.b[i] = full_line(r, delta->rows[i].b, keys.size);
  }
  return e;
}

/* c + the sum over rows that read nothing of A_{t-1}^T b. */
static vtb_value *read_free(vtb__rec *r, const vtb__state *s, const rows *e, int row) {
  const vtb__delta *delta = s->delta;
  vtb_value *line = e->c[row];
  for (int f = delta->rank; f < delta->n_rows; f++) {
    vtb_value *operands[] = {vtb__rec_shift(r, e->b[row], -1, 0, NULL), e->k[f], e->c[f], e->d};
    r->b.name_hint = vtb__text(r->step, "%s.old", s->old->name);
    vtb_value *y = vtb__rec_build_scan(r, VTB_OP_linscan, operands, 4, e->klass, 0)->results[0];
    line = vtb_b_binary(&r->b, VTB_OP_add, line, vtb__rec_shift(r, y, 1, 0, NULL));
  }
  return line;
}

/* The rows' corrections as values of the step: [B,N,h,V] each, or [B,N,h] for a vector. */
static void set_corrections(vtb__rec *r, const vtb__state *s, vtb_value *all) {
  const vtb__delta *delta = s->delta;
  int rank = s->type->rank - 1;
  vtb_type t = all->type;
  t.dim[3] = t.dim[4], t.rank = 3 + rank;
  for (int i = 0; i < delta->rank; i++) {
    vtb_value *w = delta->rank == 1 ? all : vtb_b_slice(&r->b, all, 3, i, i + 1, 1);
    vtb__rec_set_lifted(r, delta->w[i], (vtb__lifted){vtb_b_reshape(&r->b, w, &t), 3, rank, 0});
  }
}

/* [B,h,K,V] */
static vtb_value *initial(vtb__rec *r, const vtb__state *s, int state) {
  vtb_value *v = vtb__rec_initial_matrix(r, s, state);
  vtb_type t = v->type;
  if (t.rank == 4) return v;
  t.dim[t.rank++] = (vtb_dim){.size = 1};
  return vtb_b_reshape(&r->b, v, &t);
}

static void emit_delta(vtb__rec *r, int state) {
  const vtb__state s = turned(&r->states[state]);
  const vtb__delta *delta = s.delta;
  rows e = emit_rows(r, &s);
  vtb_value **lines = VTB_SCRATCH(r->step, vtb_value *, delta->rank);
  for (int i = 0; i < delta->rank; i++) lines[i] = read_free(r, &s, &e, i);
  vtb_value *operands[5] = {stack(r, e.k, delta->rank), stack(r, lines, delta->rank),
                            stack(r, e.b, delta->rank), e.d};
  int n = 4;
  if (r->n_inits) operands[n++] = initial(r, &s, state);
  r->b.name_hint = "w";
  vtb_inst *made =
      vtb__rec_build_scan(r, VTB_OP_delta, operands, n, e.klass, r->n_inits ? VTB__SCAN_INIT : 0);
  set_corrections(r, &s, made->results[0]);
}

/* A state that `state` reads has corrections that are still to be made. */
static bool waits(const vtb__rec *r, int state, uint64_t left) {
  uint64_t self = UINT64_C(1) << state;
  return (r->reach[state] & left & ~self) != 0;
}

void vtb__rec_emit_corrections(vtb__rec *r) {
  uint64_t left = 0;
  for (int i = 0; i < r->n_states; i++)
    if (r->states[i].delta && r->states[i].delta->rank) left |= UINT64_C(1) << i;
  for (int i = 0; left; i = (i + 1) % r->n_states) {
    if (!(left >> i & 1) || waits(r, i, left)) continue;
    emit_delta(r, i);
    left &= ~(UINT64_C(1) << i);
  }
}
