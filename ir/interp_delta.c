/* Interpreter: delta in its modes. Per batch entry and head the tokens are walked in path order;
 * the rows of a token lie together. As in interp_scan.c the modes share no arithmetic: recurrent
 * steps the state; parallel and chunkwise substitute forward through the pairs of rows, with rows
 * of the decay matrix P[t, s] = D_{t-1} P[t-1, s] that are products only.
 *
 * source  ir/recurrence.h
 */
#include "ir/interp_internal.h"
#include "ir/recurrence.h"

#include <assert.h>

/* One head of a delta. */
typedef struct head {
  vtb_delta of;
  int64_t n_batch;      /* which only the tensors know */
  int64_t *perm;        /* token of a step */
  int64_t d_size;       /* numbers of D a step: 1 or K */
  int64_t batch, index; /* where it is */
  const double *k, *v, *b, *d;
  double *w, *s; /* s [K, V] */
} head;

/* The R rows, `width` wide, of step t: in a [B, N, h, R, width] tensor. */
static int64_t rows_at(const head *c, int64_t t, int64_t width) {
  int64_t token = c->batch * c->of.n_tokens + c->perm[t];
  return (token * c->of.n_heads + c->index) * c->of.rank * width;
}

/* D of step t: d_size numbers. */
static const double *decay_at(const head *c, int64_t t) {
  if (!c->of.decay->by_step) return c->d + c->index;
  int64_t token = c->batch * c->of.n_tokens + c->perm[t];
  return c->d + (token * c->of.n_heads + c->index) * c->d_size;
}

static double decay_of(const head *c, const double *d, int64_t k) {
  return d[c->d_size == 1 ? 0 : k];
}

/* w += sum over keys of b * m * S; m may be NULL */
static void read_state(const head *c, const double *b, const double *m, const double *s,
                       double *w) {
  for (int64_t i = 0; i < c->of.K; i++)
    for (int64_t j = 0; j < c->of.V; j++)
      w[j] += b[i] * (m ? decay_of(c, m, i) : 1) * s[i * c->of.V + j];
}

/* s += (m * k) w^T; m may be NULL */
static void add_row(const head *c, const double *k, const double *m, const double *w, double *s) {
  for (int64_t i = 0; i < c->of.K; i++)
    for (int64_t j = 0; j < c->of.V; j++)
      s[i * c->of.V + j] += (m ? decay_of(c, m, i) : 1) * k[i] * w[j];
}

static void decay_state(const head *c, const double *d) {
  for (int64_t i = 0; i < c->of.K; i++)
    for (int64_t j = 0; j < c->of.V; j++) c->s[i * c->of.V + j] *= decay_of(c, d, i);
}

static void recurrent(head *c) {
  int64_t k_width = c->of.K, v_width = c->of.V;
  for (int64_t t = 0; t < c->of.n_tokens; t++) {
    const double *k = c->k + rows_at(c, t, k_width), *b = c->b + rows_at(c, t, k_width);
    double *w = c->w + rows_at(c, t, v_width);
    for (int64_t r = 0; r < c->of.rank; r++)
      read_state(c, b + r * k_width, NULL, c->s, w + r * v_width);
    decay_state(c, decay_at(c, t));
    for (int64_t r = 0; r < c->of.rank; r++)
      add_row(c, k + r * k_width, NULL, w + r * v_width, c->s);
  }
}

/* w_{t,r} += sum over rows of step s of (b . (P * k)) w */
static void read_rows(const head *c, const double *p, int64_t t, int64_t s) {
  int64_t k_width = c->of.K, v_width = c->of.V;
  for (int64_t r = 0; r < c->of.rank; r++) {
    const double *b = c->b + rows_at(c, t, k_width) + r * k_width;
    double *w = c->w + rows_at(c, t, v_width) + r * v_width;
    for (int64_t o = 0; o < c->of.rank; o++) {
      const double *k = c->k + rows_at(c, s, k_width) + o * k_width,
                   *other = c->w + rows_at(c, s, v_width) + o * v_width;
      double pair = 0;
      for (int64_t i = 0; i < k_width; i++) pair += b[i] * decay_of(c, p, i) * k[i];
      for (int64_t j = 0; j < v_width; j++) w[j] += pair * other[j];
    }
  }
}

/* The steps [begin, end) from the state c->s, which is then advanced to `end`. rows: the current
 * row of P, one element of d_size numbers a step; entering: the product of all decays since
 * `begin`. */
static void parallel(head *c, int64_t begin, int64_t end, double *rows, double *entering) {
  assert(begin < end && end <= c->of.n_tokens);
  for (int64_t i = 0; i < c->d_size; i++) entering[i] = 1;
  for (int64_t t = begin; t < end; t++) {
    for (int64_t r = 0; r < c->of.rank; r++)
      read_state(c, c->b + rows_at(c, t, c->of.K) + r * c->of.K, entering, c->s,
                 c->w + rows_at(c, t, c->of.V) + r * c->of.V);
    for (int64_t s = begin; s < t; s++) read_rows(c, rows + (s - begin) * c->d_size, t, s);
    const double *d = decay_at(c, t);
    for (int64_t i = 0; i < c->d_size; i++) entering[i] *= d[i];
    for (int64_t i = 0; i < (t - begin) * c->d_size; i++) rows[i] *= d[i % c->d_size];
    for (int64_t i = 0; i < c->d_size; i++) rows[(t - begin) * c->d_size + i] = 1;
  }
  decay_state(c, entering);
  for (int64_t s = begin; s < end; s++)
    for (int64_t r = 0; r < c->of.rank; r++)
      add_row(c, c->k + rows_at(c, s, c->of.K) + r * c->of.K, rows + (s - begin) * c->d_size,
              c->w + rows_at(c, s, c->of.V) + r * c->of.V, c->s);
}

static void in_chunks(head *c, int64_t chunk) {
  double *rows = vtb_xcalloc((size_t)(chunk * c->d_size), sizeof *rows),
         *entering = vtb_xcalloc((size_t)c->d_size, sizeof *entering);
  for (int64_t t = 0; t < c->of.n_tokens; t += chunk)
    parallel(c, t, t + chunk < c->of.n_tokens ? t + chunk : c->of.n_tokens, rows, entering);
  vtb_free(rows);
  vtb_free(entering);
}

static void run_head(head *c, const vtb__interp_eval *e, bool by_steps) {
  int64_t size = c->of.K * c->of.V, at = (c->batch * c->of.n_heads + c->index) * size;
  memset(c->s, 0, (size_t)size * sizeof *c->s);
  if (c->of.init) memcpy(c->s, e->in[4]->data + at, (size_t)size * sizeof *c->s);
  for (int64_t t = 0; t < c->of.n_tokens; t++) {
    int64_t rows = rows_at(c, t, c->of.V);
    memcpy(c->w + rows, c->v + rows, (size_t)(c->of.rank * c->of.V) * sizeof *c->w);
  }
  if (by_steps)
    recurrent(c);
  else
    in_chunks(c, c->of.chunk);
}

vtb_status vtb__interp_delta(vtb__interp_eval *e) {
  const char *mode = vtb_attr_str(e->inst, "mode", "auto");
  head c = {.of = vtb_delta_of(e->inst), .n_batch = e->in[0]->type.dim[0].size};
  c.perm = vtb__path_perm(e->inst, c.of.n_tokens);
  c.d_size = (c.of.decay->axes & VTB_ALONG_KEY) ? c.of.K : 1;
  c.k = e->in[0]->data, c.v = e->in[1]->data, c.b = e->in[2]->data, c.d = e->in[3]->data;
  c.w = e->out[0]->data;
  c.s = vtb_xcalloc((size_t)(c.of.K * c.of.V), sizeof *c.s);
  for (c.batch = 0; c.batch < c.n_batch; c.batch++)
    for (c.index = 0; c.index < c.of.n_heads; c.index++)
      run_head(&c, e, vtb_streq(mode, "recurrent") || vtb_streq(mode, "auto"));
  vtb_free(c.s);
  vtb_free(c.perm);
  return VTB_OK;
}
