/* Linear recurrences as products of matrices, of all tokens or of chunks: ir/recurrence.h.
 *
 * Tokens stand in path order as [B, h, C, L, ...], C chunks of L; the parallel form is one chunk.
 * What a chunk leaves behind enters the next ones by the same means: chunks are tokens of decays
 * that are a chunk's. A normalizer is one more column of ones in v.
 *
 * A decay matrix M[t, j] = D_{j+1} ... D_t is made of products alone, in log2(L) rounds: the
 * products of the last k decays, k = 0 ... s - 1, give those of s ... 2 s - 1 by one product with
 * that of the last s. Decays of 0 and negative ones are exact, and nothing overflows. */
#include "frontend/onnx/linscan.h"

#define B(op, a, b) vtb__ox_binary(x, op, a, b)

/* ---- decays ---------------------------------------------------------------------------------- */

static ox_value *ones(ox *x, const ox_type *like, int rank) {
  return vtb__ox_expand(x, vtb__ox_number(x, 1), rank, like->dim);
}

/* Where M[t, j] stands in products by (t, L - 1 - k), k = t - j; above the diagonal the place of a
 * product that begins before the first token, which is 0. */
static ox_value *skew(ox *x, int64_t n) {
  int64_t *at = VTB_NEW_ARRAY(&x->arena, int64_t, n * n);
  for (int64_t t = 0; t < n; t++)
    for (int64_t j = 0; j < n; j++) at[t * n + j] = j <= t ? t * n + n - 1 - (t - j) : 0;
  ox_type type = vtb__ox_shape(OX_I64, 2, (const int64_t[]){n, n});
  return vtb__ox_data(x, &type, at);
}

/* [..., L] to [..., L, L] */
static ox_value *decay_matrix(ox *x, ox_value *d) {
  int axis = d->type.rank - 1;
  int64_t n = d->type.dim[axis];
  ox_type t = d->type;
  t.dim[t.rank++] = 1;
  ox_value *w = ones(x, &t, t.rank), *last = d;
  for (int64_t s = 1, take; s < n; s += take) {
    take = s < n - s ? s : n - s;
    ox_value *before = vtb__ox_slice(x, w, axis + 1, s - take, s, 1);
    ox_value *more =
        B("Mul", vtb__ox_shift(x, before, axis, s, 0), vtb__ox_unsqueeze(x, last, axis + 1));
    w = vtb__ox_concat(x, (ox_value *const[]){more, w}, 2, axis + 1);
    if (s + take < n) last = B("Mul", last, vtb__ox_shift(x, last, axis, s, 1));
  }
  t = d->type;
  t.dim[axis] = n * n;
  return vtb__ox_gather(x, vtb__ox_reshape(x, w, t.rank, t.dim), axis, skew(x, n));
}

/* The decays of M: the product of all decays up to t, and of those behind j. */
static ox_value *entering(ox *x, ox_value *m, ox_value *d) {
  int axis = d->type.rank - 1;
  ox_value *first = vtb__ox_squeeze(x, vtb__ox_slice(x, m, axis + 1, 0, 1, 1), axis + 1);
  return B("Mul", first, vtb__ox_slice(x, d, axis, 0, 1, 1));
}
static ox_value *leaving(ox *x, ox_value *m) {
  int axis = m->type.rank - 2;
  int64_t n = m->type.dim[axis];
  return vtb__ox_squeeze(x, vtb__ox_slice(x, m, axis, n - 1, n, 1), axis);
}

/* ---- operands -------------------------------------------------------------------------------- */

ox_form vtb__ox_form_of(ox *x, const vtb_inst *inst, ox_value *const *in, int64_t chunk) {
  ox_form f = {.x = x, .inst = inst, .in = in, .s = vtb_scan_of(inst)};
  int64_t n = f.s.n_tokens;
  f.L = chunk < n ? chunk : n;
  f.C = (n + f.L - 1) / f.L;
  f.V1 = f.s.V + f.s.normalizer;
  int *results[] = {&f.s.at.y, &f.s.at.s, &f.s.at.z, &f.s.at.n};
  for (int i = 0; i < 4; i++) *results[i] -= inst->n_operands; /* numbers go on from operands */
  return f;
}

ox_value *vtb__ox_form_values(const ox_form *f) {
  ox_value *v = f->in[f->s.at.v];
  return f->s.normalizer ? vtb__ox_pad(f->x, v, 3, 0, 1, 1) : v;
}

ox_value *vtb__ox_form_start(const ox_form *f) {
  if (!f->s.init) return NULL;
  ox_value *s = f->in[f->s.at.s0];
  if (!f->s.normalizer) return s;
  ox_value *n = vtb__ox_unsqueeze(f->x, f->in[f->s.at.n0], 3);
  return vtb__ox_concat(f->x, (ox_value *const[]){s, n}, 2, 3);
}

/* [B, N, h, W...] to [B, h, C, L, W...]; behind the last token `with`. */
static ox_value *chunked(const ox_form *f, ox_value *a, double with) {
  ox *x = f->x;
  int rank = a->type.rank;
  int64_t perm[OX_MAX_RANK] = {0, 2, 1}, dim[OX_MAX_RANK];
  for (int i = 3; i < rank; i++) perm[i] = i;
  a = vtb__ox_transpose(x, vtb__ox_along(x, f->inst, a, 1, false), perm);
  a = vtb__ox_pad(x, a, 2, 0, f->C * f->L - f->s.n_tokens, with);
  dim[0] = a->type.dim[0], dim[1] = a->type.dim[1], dim[2] = f->C, dim[3] = f->L;
  for (int i = 3; i < rank; i++) dim[i + 1] = a->type.dim[i];
  return vtb__ox_reshape(x, a, rank + 1, dim);
}

/* The decays as [..., C, L], or with an axis of the state [..., C, E, L]. */
static ox_value *decays(const ox_form *f) {
  ox *x = f->x;
  ox_value *d = f->in[f->s.at.d];
  if (!f->s.decay->by_step) {
    const int64_t line[] = {f->s.n_heads, f->s.n_tokens}, dim[] = {f->s.n_heads, f->C, f->L};
    d = vtb__ox_expand(x, vtb__ox_unsqueeze(x, d, 1), 2, line);
    return vtb__ox_reshape(x, vtb__ox_pad(x, d, 1, 0, f->C * f->L - f->s.n_tokens, 1), 3, dim);
  }
  d = chunked(f, d, 1);
  return f->s.decay->axes == VTB_ALONG_NEITHER ? d : OX_TRANSPOSE(x, d, 0, 1, 2, 4, 3);
}

/* ---- between chunks -------------------------------------------------------------------------- */

/* States after each chunk: p [..., C] or [..., C, E] decays of whole chunks, u [B, h, C, K, V1]
 * what they add. */
static ox_value *carried(const ox_form *f, ox_value *p, ox_value *u) {
  ox *x = f->x;
  const int64_t *d = u->type.dim;
  if (f->s.decay->axes == VTB_ALONG_NEITHER) {
    ox_value *flat = OX_RESHAPE(x, u, d[0], d[1], d[2], d[3] * d[4]);
    ox_value *s = vtb__ox_matmul(x, decay_matrix(x, p), flat);
    return vtb__ox_reshape(x, s, 5, d);
  }
  ox_value *m = decay_matrix(x, OX_TRANSPOSE(x, p, 0, 1, 3, 2));
  if (f->s.decay->axes == VTB_ALONG_KEY)
    return OX_TRANSPOSE(x, vtb__ox_matmul(x, m, OX_TRANSPOSE(x, u, 0, 1, 3, 2, 4)), 0, 1, 3, 2, 4);
  return OX_TRANSPOSE(x, vtb__ox_matmul(x, m, OX_TRANSPOSE(x, u, 0, 1, 4, 2, 3)), 0, 1, 3, 4, 2);
}

/* The state in front of each chunk (NULL: none), and the last one. */
static void form_carry(const ox_form *f, ox_value *p, ox_value *u, ox_carry_fn *carry,
                       ox_value **before, ox_value **last) {
  ox *x = f->x;
  ox_value *start = vtb__ox_form_start(f);
  int axis = f->s.decay->by_step ? 2 : 1; /* of chunks in p */
  if (!start && f->C == 1) {
    *before = NULL;
    *last = vtb__ox_squeeze(x, u, 2);
    return;
  }
  int64_t n = f->C;
  if (start) { /* as what a chunk before the first leaves */
    ox_type t = p->type;
    t.dim[axis] = 1;
    p = vtb__ox_concat(x, (ox_value *const[]){ones(x, &t, t.rank), p}, 2, axis);
    u = vtb__ox_concat(x, (ox_value *const[]){vtb__ox_unsqueeze(x, start, 2), u}, 2, 2);
    n++;
  }
  ox_value *after = carry(f, p, u);
  *last = vtb__ox_squeeze(x, vtb__ox_slice(x, after, 2, n - 1, n, 1), 2);
  *before = start ? vtb__ox_slice(x, after, 2, 0, n - 1, 1) : vtb__ox_shift(x, after, 2, 1, 0);
}

/* ---- results --------------------------------------------------------------------------------- */

/* The last state [B, h, K, V1] as the scan's results. */
void vtb__ox_form_last(const ox_form *f, ox_value *last, ox_value **out) {
  ox *x = f->x;
  out[f->s.at.s] = vtb__ox_slice(x, last, 3, 0, f->s.V, 1);
  if (f->s.normalizer)
    out[f->s.at.n] = vtb__ox_squeeze(x, vtb__ox_slice(x, last, 3, f->s.V, f->V1, 1), 3);
}

/* [B, N, h, V1] in path order. */
void vtb__ox_form_outputs(const ox_form *f, ox_value *y, ox_value **out) {
  ox *x = f->x;
  y = vtb__ox_along(x, f->inst, y, 1, true);
  out[f->s.at.y] = vtb__ox_slice(x, y, 3, 0, f->s.V, 1);
  if (f->s.normalizer)
    out[f->s.at.z] = vtb__ox_squeeze(x, vtb__ox_slice(x, y, 3, f->s.V, f->V1, 1), 3);
}

/* [B, h, C, L, V1] to what vtb__ox_form_outputs() takes. */
static ox_value *tokens(const ox_form *f, ox_value *y) {
  ox *x = f->x;
  y = OX_RESHAPE(x, y, y->type.dim[0], f->s.n_heads, f->C * f->L, f->V1);
  return OX_TRANSPOSE(x, vtb__ox_slice(x, y, 2, 0, f->s.n_tokens, 1), 0, 2, 1, 3);
}

/* ---- one decay a head, key or value ---------------------------------------------------------- */

static ox_value *turned(ox *x, ox_value *a) { return OX_TRANSPOSE(x, a, 0, 1, 2, 4, 3); }

/* Scores of pairs of a chunk, decayed, times values. */
static ox_value *inside(const ox_form *f, ox_value *q, ox_value *k, ox_value *v, ox_value *m) {
  ox *x = f->x;
  if (f->s.decay->axes == VTB_ALONG_KEY) {
    const int64_t axis = 3;
    ox_value *rows = vtb__ox_unsqueeze(x, turned(x, q), 5),
             *cols = vtb__ox_unsqueeze(x, turned(x, k), 4);
    ox_value *a =
        vtb__ox_reduce(x, "ReduceSum", B("Mul", B("Mul", m, rows), cols), &axis, 1, false);
    return vtb__ox_matmul(x, a, v);
  }
  ox_value *a = vtb__ox_matmul(x, q, turned(x, k));
  if (f->s.decay->axes == VTB_ALONG_NEITHER) return vtb__ox_matmul(x, B("Mul", a, m), v);
  a = B("Mul", m, vtb__ox_unsqueeze(x, a, 3));
  ox_value *y = vtb__ox_matmul(x, a, vtb__ox_unsqueeze(x, turned(x, v), 5));
  return turned(x, vtb__ox_squeeze(x, y, 5));
}

/* Decays of tokens [..., C, L] or [..., C, E, L] as factors of rows [B, h, C, L, W]. */
static ox_value *by_rows(const ox_form *f, ox_value *d) {
  if (f->s.decay->axes == VTB_ALONG_NEITHER) return vtb__ox_unsqueeze(f->x, d, d->type.rank);
  return turned(f->x, d);
}

static void by_products(const ox_form *f, ox_value **out) {
  ox *x = f->x;
  bool values = f->s.decay->axes == VTB_ALONG_VALUE;
  ox_value *q = chunked(f, f->in[f->s.at.q], 0), *k = chunked(f, f->in[f->s.at.k], 0),
           *v = chunked(f, vtb__ox_form_values(f), 0), *d = decays(f), *before, *last;
  ox_value *m = decay_matrix(x, d), *e = entering(x, m, d), *r = by_rows(f, leaving(x, m));
  ox_value *y = inside(f, q, k, v, m);
  ox_value *u =
      vtb__ox_matmul(x, turned(x, values ? k : B("Mul", k, r)), values ? B("Mul", v, r) : v);
  int axis = e->type.rank - 1;
  ox_value *whole = vtb__ox_squeeze(x, vtb__ox_slice(x, e, axis, f->L - 1, f->L, 1), axis);
  form_carry(f, whole, u, carried, &before, &last);
  if (before) {
    e = by_rows(f, e);
    ox_value *read = vtb__ox_matmul(x, values ? q : B("Mul", q, e), before);
    y = B("Add", y, values ? B("Mul", read, e) : read);
  }
  vtb__ox_form_last(f, last, out);
  vtb__ox_form_outputs(f, tokens(f, y), out);
}

/* ---- a decay an entry of the state ----------------------------------------------------------- */

typedef struct pairs {
  ox_value *a, *b; /* S_t = a_t S_{t-1} + b_t */
} pairs;

/* After each token those of all tokens since the first, in log2(n) rounds. */
static pairs accumulated(ox *x, pairs p, int axis) {
  for (int64_t s = 1, n = p.b->type.dim[axis]; s < n; s *= 2) {
    p.b = B("Add", p.b, B("Mul", p.a, vtb__ox_shift(x, p.b, axis, s, 0)));
    p.a = B("Mul", p.a, vtb__ox_shift(x, p.a, axis, s, 1));
  }
  return p;
}

static ox_value *carried_states(const ox_form *f, ox_value *p, ox_value *u) {
  return accumulated(f->x, (pairs){p, u}, 2).b;
}

/* [B, h, C, L, K, V] */
static ox_value *full_decays(const ox_form *f) {
  ox *x = f->x;
  if (!f->s.decay->rates) return chunked(f, f->in[f->s.at.d], 1);
  ox_value *step = vtb__ox_unsqueeze(x, chunked(f, f->in[f->s.at.d], 0), 4);
  ox_value *rate = OX_RESHAPE(x, f->in[f->s.at.rates], f->s.n_heads, 1, 1, f->s.K, f->s.V);
  return vtb__ox_unary(x, "Exp", B("Mul", step, rate));
}

static void by_states(const ox_form *f, ox_value **out) {
  ox *x = f->x;
  ox_value *q = chunked(f, f->in[f->s.at.q], 0), *k = chunked(f, f->in[f->s.at.k], 0),
           *v = chunked(f, vtb__ox_form_values(f), 0), *before, *last;
  pairs p = {full_decays(f), B("Mul", vtb__ox_unsqueeze(x, k, 5), vtb__ox_unsqueeze(x, v, 4))};
  p = accumulated(x, p, 3);
  int64_t end = f->L - 1;
  ox_value *a = vtb__ox_squeeze(x, vtb__ox_slice(x, p.a, 3, end, f->L, 1), 3),
           *b = vtb__ox_squeeze(x, vtb__ox_slice(x, p.b, 3, end, f->L, 1), 3);
  form_carry(f, a, b, carried_states, &before, &last);
  ox_value *s = p.b;
  if (before) s = B("Add", s, B("Mul", p.a, vtb__ox_unsqueeze(x, before, 3)));
  ox_value *y = vtb__ox_matmul(x, vtb__ox_unsqueeze(x, q, 4), s);
  vtb__ox_form_last(f, last, out);
  vtb__ox_form_outputs(f, tokens(f, vtb__ox_squeeze(x, y, 4)), out);
}

/* ---- forms ----------------------------------------------------------------------------------- */

enum { MOST_PARALLEL = 512 }; /* tokens: the matrix of pairs is small beside the rest */

/* The mode that was asked for, else what the source says, else what suits. */
static vtb_onnx_mode mode_of(const ox *x, const vtb_scan *s, const char *written) {
  vtb_decay_form form = s->decay->form;
  if (x->job->mode != VTB_ONNX_AUTO) return x->job->mode;
  if (vtb_streq(written, "parallel")) return VTB_ONNX_PARALLEL;
  if (vtb_streq(written, "chunkwise")) return VTB_ONNX_CHUNKWISE;
  if (vtb_streq(written, "recurrent")) return VTB_ONNX_SCAN;
  if (form == VTB_FORM_STEPS || form == VTB_FORM_EXPONENTS) return VTB_ONNX_SCAN;
  bool few = form == VTB_FORM_PRODUCTS && s->n_tokens <= MOST_PARALLEL;
  return few ? VTB_ONNX_PARALLEL : VTB_ONNX_CHUNKWISE;
}

void vtb__ox_linscan(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  vtb_scan s = vtb_scan_of(inst);
  vtb_onnx_mode mode = mode_of(x, &s, vtb_attr_str(inst, "mode", "auto"));
  if (mode == VTB_ONNX_SCAN) {
    vtb__ox_linscan_steps(x, inst, in, out);
    return;
  }
  int64_t own = s.decay->form == VTB_FORM_PRODUCTS ? 64 : 16,
          given = vtb_attr_int(inst, "chunk", 0);
  int64_t chunk = x->job->chunk ? x->job->chunk : given ? given : own;
  ox_form f = vtb__ox_form_of(x, inst, in, mode == VTB_ONNX_PARALLEL ? s.n_tokens : chunk);
  if (s.decay->axes == VTB_ALONG_BOTH)
    by_states(&f, out);
  else
    by_products(&f, out);
}
