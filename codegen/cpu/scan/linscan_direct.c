/* Vector decays inside a sub-block, formed token by token: see linscan_direct.h.
 *
 * Scores sum over x: their lanes are tokens j, and W o b for all j of a group advances by one
 * multiplication a token. Sums and gradients keep x: their lanes are x. Tokens go in groups, a
 * triangle of groups at a time, so that a group's values stay in registers.
 */
#include "codegen/cpu/scan/linscan_direct.h"

#define GROUP 8 /* tokens held in registers where lanes run along x */
#define MAX_PAIR 2

static LLVMValueRef k_(vtb_cpu *c, int64_t v) { return vtb_cpu_i64(c, v); }
static LLVMValueRef sub(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y) {
  return LLVMBuildNSWSub(c->b, x, y, "");
}
static LLVMValueRef mul(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y) {
  return LLVMBuildFMul(c->b, x, y, "");
}
static LLVMValueRef get(vtb_cpu *c, LLVMValueRef at, LLVMValueRef i) {
  return vtb_cpu_load(c, vtb_cpu_at(c, at, i), c->width);
}
static void put(vtb_cpu *c, LLVMValueRef v, LLVMValueRef at, LLVMValueRef i) {
  vtb_cpu_store(c, v, vtb_cpu_at(c, at, i));
}
/* All lanes: the float at row, column. */
static LLVMValueRef lanes_of(vtb_cpu *c, LLVMValueRef at, LLVMValueRef row, int64_t ld,
                             LLVMValueRef col) {
  LLVMValueRef i = vtb_cpu_add(c, vtb_cpu_mul(c, row, ld), col);
  return vtb_cpu_splat(c, vtb_cpu_load(c, vtb_cpu_at(c, at, i), 1), c->width);
}
/* Offset of vector i of a row. */
static LLVMValueRef at_row(vtb_cpu *c, LLVMValueRef row, int64_t ld, LLVMValueRef offset) {
  return vtb_cpu_add(c, vtb_cpu_mul(c, row, ld), offset);
}
static LLVMValueRef groups_of(vtb_cpu *c, LLVMValueRef n, int64_t size) {
  return vtb_cpu_div(c, vtb_cpu_add(c, n, k_(c, size - 1)), size);
}

/* Lanes below (or up to) t keep v, the others get `otherwise`. */
static LLVMValueRef keep_lanes(vtb_cpu *c, LLVMValueRef v, int count, double otherwise) {
  LLVMValueRef keep[16];
  for (int i = 0; i < c->width; i++) keep[i] = LLVMConstInt(c->i1, i < count, 0);
  return LLVMBuildSelect(c->b, LLVMConstVector(keep, (unsigned)c->width), v,
                         vtb_cpu_like(c, v, otherwise), "");
}

void vtb__rows_times(vtb_cpu *c, LLVMValueRef out, LLVMValueRef x, LLVMValueRef y, int64_t ld,
                     int64_t y_ld, LLVMValueRef n, LLVMValueRef n_vectors) {
  vtb_cpu_for r = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, 1));
  LLVMValueRef row = vtb_cpu_mul(c, r.i, ld), y_row = vtb_cpu_at(c, y, vtb_cpu_mul(c, r.i, y_ld));
  vtb_cpu_for j =
      vtb_cpu_for_begin(c, k_(c, 0), vtb_cpu_mul(c, n_vectors, c->width), k_(c, c->width));
  LLVMValueRef at = vtb_cpu_add(c, row, j.i);
  put(c, mul(c, get(c, x, at), get(c, y_row, j.i)), out, at);
  vtb_cpu_for_end(c, &j);
  vtb_cpu_for_end(c, &r);
}

void vtb__keys_times(vtb_cpu *c, LLVMValueRef rows, int64_t ld, LLVMValueRef by, LLVMValueRef n,
                     LLVMValueRef n_vectors) {
  vtb_cpu_for r = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, 1));
  LLVMValueRef f = vtb_cpu_splat(c, vtb_cpu_load(c, vtb_cpu_at(c, by, r.i), 1), c->width);
  LLVMValueRef row = vtb_cpu_mul(c, r.i, ld);
  vtb_cpu_for j =
      vtb_cpu_for_begin(c, k_(c, 0), vtb_cpu_mul(c, n_vectors, c->width), k_(c, c->width));
  LLVMValueRef at = vtb_cpu_add(c, row, j.i);
  put(c, mul(c, get(c, rows, at), f), rows, at);
  vtb_cpu_for_end(c, &j);
  vtb_cpu_for_end(c, &r);
}

void vtb__direct_factors(vtb_cpu *c, const vtb__decays *d, double floor) {
  LLVMValueRef one = vtb_cpu_like(c, LLVMConstNull(c->vf32), 1), zero = k_(c, 0), unit = k_(c, 1);
  vtb_cpu_for x =
      vtb_cpu_for_begin(c, zero, vtb_cpu_mul(c, d->n_vectors, c->width), k_(c, c->width));
  vtb_cpu_for t = vtb_cpu_for_begin(c, zero, d->n, unit);
  LLVMValueRef p = vtb_cpu_carry(c, &t, one), at = at_row(c, t.i, d->ld, x.i), v = get(c, d->d, at);
  if (floor > 0) {
    v = vtb__scan_floor(c, v, floor);
    put(c, v, d->d, at);
  }
  if (d->before) put(c, p, d->pre, at);
  p = mul(c, p, v);
  if (!d->before) put(c, p, d->pre, at);
  vtb_cpu_carry_next(&t, 0, p);
  vtb_cpu_for_end(c, &t);
  put(c, vtb_cpu_carried(&t, 0), d->whole, x.i);
  if (d->suf) {
    vtb_cpu_for r = vtb_cpu_for_begin(c, zero, d->n, unit);
    LLVMValueRef after = vtb_cpu_carry(c, &r, one);
    LLVMValueRef here = at_row(c, sub(c, vtb_cpu_add(c, d->n, k_(c, -1)), r.i), d->ld, x.i);
    put(c, after, d->suf, here);
    vtb_cpu_carry_next(&r, 0, mul(c, after, get(c, d->d, here)));
    vtb_cpu_for_end(c, &r);
  }
  vtb_cpu_for pad = vtb_cpu_for_begin(c, d->n, k_(c, VTB__SUB), unit);
  put(c, one, d->d, at_row(c, pad.i, d->ld, x.i));
  vtb_cpu_for_end(c, &pad);
  vtb_cpu_for_end(c, &x);
}

/* ---- lanes are tokens ------------------------------------------------------------------------ */

typedef struct scores {
  const vtb__decays *d;
  int64_t X, ld_bt, ld_out;
  LLVMValueRef a, bt, out;
} scores;

/* The columns' factors as row t of a panel meets them; *b: as it leaves them to the next row. */
static LLVMValueRef advance_columns(vtb_cpu *c, const scores *g, LLVMValueRef *b, LLVMValueRef d,
                                    bool triangle, int t) {
  int64_t group = g->d->before;
  if (!group) {
    if (!triangle || t > 0) *b = mul(c, *b, triangle ? keep_lanes(c, d, t, 1) : d);
    return *b;
  }
  LLVMValueRef seen = *b;
  if (t % group == group - 1)
    *b = mul(c, *b, triangle ? keep_lanes(c, d, (int)(t / group * group), 1) : d);
  return seen;
}

/* Rows of group `i` against the columns of group `j`: those of one group form a triangle. */
static void score_panel(vtb_cpu *c, const scores *g, LLVMValueRef i, LLVMValueRef j,
                        bool triangle) {
  int w = c->width;
  int64_t group = g->d->before;
  LLVMValueRef first = vtb_cpu_mul(c, i, w), col = vtb_cpu_mul(c, j, w);
  vtb_cpu_for x = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->X), k_(c, 1));
  LLVMValueRef sum[16], at = at_row(c, x.i, g->ld_bt, col), b = get(c, g->bt, at);
  for (int t = 0; t < w; t++) sum[t] = vtb_cpu_carry(c, &x, LLVMConstNull(c->vf32));
  for (int t = 0; t < w; t++) {
    LLVMValueRef row = vtb_cpu_add(c, first, k_(c, t)),
                 d = lanes_of(c, g->d->d, row, g->d->ld, x.i);
    LLVMValueRef seen = advance_columns(c, g, &b, d, triangle, t);
    vtb_cpu_carry_next(&x, t, vtb_cpu_fma(c, lanes_of(c, g->a, row, g->d->ld, x.i), seen, sum[t]));
  }
  put(c, b, g->bt, at);
  vtb_cpu_for_end(c, &x);
  for (int t = 0; t < w; t++) {
    LLVMValueRef v = vtb_cpu_carried(&x, t);
    if (triangle) v = keep_lanes(c, v, group ? (int)(t / group * group) : t + 1, 0);
    put(c, v, g->out, at_row(c, vtb_cpu_add(c, first, k_(c, t)), g->ld_out, col));
  }
}

/* Zeros in the rows of group i right of its triangle. */
static void clear_right(vtb_cpu *c, const scores *g, LLVMValueRef i, LLVMValueRef n_groups) {
  LLVMValueRef next = vtb_cpu_add(c, i, k_(c, 1));
  vtb_cpu_for t =
      vtb_cpu_for_begin(c, vtb_cpu_mul(c, i, c->width), vtb_cpu_mul(c, next, c->width), k_(c, 1));
  vtb_cpu_for j = vtb_cpu_for_begin(c, next, n_groups, k_(c, 1));
  put(c, LLVMConstNull(c->vf32), g->out, at_row(c, t.i, g->ld_out, vtb_cpu_mul(c, j.i, c->width)));
  vtb_cpu_for_end(c, &j);
  vtb_cpu_for_end(c, &t);
}

void vtb__direct_scores(vtb_cpu *c, const vtb__decays *d, int64_t X, LLVMValueRef a,
                        LLVMValueRef bt, int64_t ld_bt, LLVMValueRef out, int64_t ld_out) {
  scores g = {.d = d, .X = X, .ld_bt = ld_bt, .ld_out = ld_out, .a = a, .bt = bt, .out = out};
  LLVMValueRef n_groups = groups_of(c, d->n, c->width);
  vtb_cpu_for j = vtb_cpu_for_begin(c, k_(c, 0), n_groups, k_(c, 1));
  score_panel(c, &g, j.i, j.i, true);
  if (c->width < VTB__SUB) {
    clear_right(c, &g, j.i, n_groups);
    vtb_cpu_for i = vtb_cpu_for_begin(c, vtb_cpu_add(c, j.i, k_(c, 1)), n_groups, k_(c, 1));
    score_panel(c, &g, i.i, j.i, false);
    vtb_cpu_for_end(c, &i);
  }
  vtb_cpu_for_end(c, &j);
}

/* ---- lanes run along x ----------------------------------------------------------------------- */

typedef struct sums {
  const vtb__decays *d;
  int64_t ld_N;
  LLVMValueRef N, b, y, x; /* x: offset of this vector */
} sums;

/* Adds the tokens of group j, held in b, to the rows of group i. */
static void sum_panel(vtb_cpu *c, const sums *g, LLVMValueRef i, LLVMValueRef j, bool triangle,
                      LLVMValueRef *b) {
  for (int t = 0; t < GROUP; t++) {
    LLVMValueRef row = vtb_cpu_add(c, vtb_cpu_mul(c, i, GROUP), k_(c, t)),
                 at = at_row(c, row, g->d->ld, g->x);
    LLVMValueRef d = get(c, g->d->d, at), y = get(c, g->y, at);
    for (int s = 0; s < (triangle ? t : GROUP); s++) b[s] = mul(c, b[s], d);
    for (int s = 0; s < (triangle ? t + 1 : GROUP); s++) {
      LLVMValueRef col = vtb_cpu_add(c, vtb_cpu_mul(c, j, GROUP), k_(c, s));
      y = vtb_cpu_fma(c, lanes_of(c, g->N, row, g->ld_N, col), b[s], y);
    }
    put(c, y, g->y, at);
  }
}

void vtb__direct_sums(vtb_cpu *c, const vtb__decays *d, LLVMValueRef N, int64_t ld_N,
                      LLVMValueRef b, LLVMValueRef y) {
  LLVMValueRef n_groups = groups_of(c, d->n, GROUP), held[GROUP], at[GROUP];
  vtb_cpu_for x =
      vtb_cpu_for_begin(c, k_(c, 0), vtb_cpu_mul(c, d->n_vectors, c->width), k_(c, c->width));
  sums g = {.d = d, .ld_N = ld_N, .N = N, .b = b, .y = y, .x = x.i};
  vtb_cpu_for j = vtb_cpu_for_begin(c, k_(c, 0), n_groups, k_(c, 1));
  for (int s = 0; s < GROUP; s++) {
    at[s] = at_row(c, vtb_cpu_add(c, vtb_cpu_mul(c, j.i, GROUP), k_(c, s)), d->ld, x.i);
    held[s] = get(c, b, at[s]);
  }
  sum_panel(c, &g, j.i, j.i, true, held);
  vtb_cpu_for i = vtb_cpu_for_begin(c, vtb_cpu_add(c, j.i, k_(c, 1)), n_groups, k_(c, 1));
  for (int s = 0; s < GROUP; s++) held[s] = vtb_cpu_carry(c, &i, held[s]);
  sum_panel(c, &g, i.i, j.i, false, held);
  for (int s = 0; s < GROUP; s++) vtb_cpu_carry_next(&i, s, held[s]);
  vtb_cpu_for_end(c, &i);
  for (int s = 0; s < GROUP; s++) put(c, vtb_cpu_carried(&i, s), b, at[s]);
  vtb_cpu_for_end(c, &j);
  vtb_cpu_for_end(c, &x);
}

typedef struct grads {
  const vtb__decays *d;
  int64_t ld_N;
  LLVMValueRef N, a, b, da, db, inner;
} grads;

/* Row t of the triangle from its diagonal leftwards, W growing by d_j from column j to column j-1:
 * what row t adds to da_t and to every db_j. inner_t needs db_j summed over the rows from t on,
 * which is what db_j holds then. */
static void grad_row(vtb_cpu *c, const grads *g, LLVMValueRef t, const LLVMValueRef *x,
                     int vectors) {
  int64_t ld = g->d->ld;
  LLVMValueRef a[MAX_PAIR], w[MAX_PAIR], da[MAX_PAIR], n = lanes_of(c, g->N, t, g->ld_N, t);
  for (int i = 0; i < vectors; i++) {
    LLVMValueRef at = at_row(c, t, ld, x[i]);
    a[i] = get(c, g->a, at);
    w[i] = get(c, g->d->d, at);
    da[i] = mul(c, n, get(c, g->b, at));
    put(c, vtb_cpu_fma(c, n, a[i], get(c, g->db, at)), g->db, at);
  }
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), t, k_(c, 1));
  LLVMValueRef j = sub(c, vtb_cpu_add(c, t, k_(c, -1)), l.i), inner[MAX_PAIR];
  for (int i = 0; i < vectors; i++) {
    w[i] = vtb_cpu_carry(c, &l, w[i]);
    da[i] = vtb_cpu_carry(c, &l, da[i]);
    inner[i] = vtb_cpu_carry(c, &l, LLVMConstNull(c->vf32));
  }
  n = lanes_of(c, g->N, t, g->ld_N, j);
  for (int i = 0; i < vectors; i++) {
    LLVMValueRef at = at_row(c, j, ld, x[i]), b = get(c, g->b, at), m = mul(c, w[i], n);
    LLVMValueRef db = vtb_cpu_fma(c, m, a[i], get(c, g->db, at));
    put(c, db, g->db, at);
    vtb_cpu_carry_next(&l, 3 * i, mul(c, w[i], get(c, g->d->d, at)));
    vtb_cpu_carry_next(&l, 3 * i + 1, vtb_cpu_fma(c, m, b, da[i]));
    vtb_cpu_carry_next(&l, 3 * i + 2, vtb_cpu_fma(c, b, db, inner[i]));
  }
  vtb_cpu_for_end(c, &l);
  for (int i = 0; i < vectors; i++) {
    LLVMValueRef at = at_row(c, t, ld, x[i]);
    put(c, vtb_cpu_carried(&l, 3 * i + 1), g->da, at);
    put(c, vtb_cpu_carried(&l, 3 * i + 2), g->inner, at);
  }
}

static void grad_vectors(vtb_cpu *c, const grads *g, LLVMValueRef first, int vectors) {
  LLVMValueRef x[MAX_PAIR], n = g->d->n;
  for (int i = 0; i < vectors; i++) x[i] = vtb_cpu_add(c, first, k_(c, i * c->width));
  vtb_cpu_for z = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, 1));
  for (int i = 0; i < vectors; i++)
    put(c, LLVMConstNull(c->vf32), g->db, at_row(c, z.i, g->d->ld, x[i]));
  vtb_cpu_for_end(c, &z);
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, 1));
  grad_row(c, g, sub(c, vtb_cpu_add(c, n, k_(c, -1)), l.i), x, vectors);
  vtb_cpu_for_end(c, &l);
}

void vtb__direct_grads(vtb_cpu *c, const vtb__decays *d, LLVMValueRef N, int64_t ld_N,
                       LLVMValueRef a, LLVMValueRef b, LLVMValueRef da, LLVMValueRef db,
                       LLVMValueRef inner) {
  grads g = {.d = d, .ld_N = ld_N, .N = N, .a = a, .b = b, .da = da, .db = db, .inner = inner};
  LLVMValueRef from = k_(c, 0), end = vtb_cpu_mul(c, d->n_vectors, c->width);
  for (int vectors = MAX_PAIR; vectors >= 1; vectors--) {
    int64_t step = (int64_t)vectors * c->width;
    vtb_cpu_for x = vtb_cpu_for_begin(c, from, vtb_cpu_add(c, end, k_(c, 1 - step)), k_(c, step));
    grad_vectors(c, &g, x.i, vectors);
    vtb_cpu_for_end(c, &x);
    from = x.i;
  }
}
