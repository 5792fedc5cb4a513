/* Interpreter: linscan in its three modes, its adjoint, and max-plus scans.
 *
 * Per batch and head the operands are gathered into arrays in path order; a normalizer is one more
 * column of ones in v. The three modes share no arithmetic: recurrent steps the state; parallel and
 * chunkwise (a parallel form a chunk, states carried between) keep the rows of the decay matrix,
 * M[t, j] = D_t M[t-1, j], products only.
 *
 * source  ir/recurrence.h; adjoint: P_t = q_t dy_t^T + D_{t+1} P_{t+1}, see linscan_grad there
 */
#include "ir/interp_internal.h"
#include "ir/recurrence.h"

#include <assert.h>
#include <math.h>

/* Shapes of one linscan, and the scan of one head, gathered. */
typedef struct scan {
  const vtb_decay *decay;
  bool normalizer, init;
  vtb_factors factors;       /* of products: states and scores among them */
  int n_inputs;              /* 5 with rates, else 4 */
  int64_t b, n, h, k, v, v1; /* v1 = v + normalizer */
  int64_t d_size;            /* numbers of D a step: 1, K, V or K*V */
  int64_t by_key, by_value;  /* D[k, v] is number by_key * k + by_value * v of them */
  int64_t *perm;
  double *q, *key, *value, *d; /* [N,K] [N,K] [N,V1] [N,d_size] */
  double *s0;                  /* [K,V1] */
  double *step, *rate;         /* of rates, which are a full decay from then on: [N,V] [K,V] */
  double *y, *s;               /* [N,V1], [K,V1] */
} scan;

static double *numbers(int64_t n) { return vtb_xcalloc((size_t)n, sizeof(double)); }

/* The scan of a batch that only the tensors know. */
static scan scan_new(const vtb_inst *inst, const vtb_tensor *q) {
  vtb_scan of = vtb_scan_of(inst);
  scan c = {.decay = of.decay,
            .normalizer = of.normalizer,
            .init = of.init,
            .factors = vtb_factors_of(inst),
            .n_inputs = of.n_inputs,
            .b = q->type.dim[0].size,
            .n = of.n_tokens,
            .h = of.n_heads,
            .k = of.K,
            .v = of.V,
            .v1 = of.V + of.normalizer};
  if (of.decay->rates) c.step = numbers(c.n * c.v), c.rate = numbers(c.k * c.v);
  c.by_value = (of.decay->axes & VTB_ALONG_VALUE) ? 1 : 0;
  c.by_key = (of.decay->axes & VTB_ALONG_KEY) ? (c.by_value ? c.v : 1) : 0;
  c.d_size =
      ((of.decay->axes & VTB_ALONG_KEY) ? c.k : 1) * ((of.decay->axes & VTB_ALONG_VALUE) ? c.v : 1);
  c.perm = vtb__path_perm(inst, c.n);
  c.q = numbers(c.n * c.k), c.key = numbers(c.n * c.k), c.value = numbers(c.n * c.v1);
  c.d = numbers(c.n * c.d_size), c.s0 = numbers(c.k * c.v1);
  c.y = numbers(c.n * c.v1), c.s = numbers(c.k * c.v1);
  return c;
}

static void scan_free(scan *c) {
  vtb_free(c->perm), vtb_free(c->q), vtb_free(c->key), vtb_free(c->value), vtb_free(c->d),
      vtb_free(c->s0), vtb_free(c->y), vtb_free(c->s);
  vtb_free(c->step), vtb_free(c->rate);
}

/* ---- between tensors and one head ------------------------------------------------------------ */

/* Step t of the head: row `width` wide of a [B, N, h, width] tensor. */
static int64_t row(const scan *c, int64_t b, int64_t h, int64_t t, int64_t width) {
  return ((b * c->n + c->perm[t]) * c->h + h) * width;
}

static void gather_rows(const scan *c, const vtb_tensor *x, int64_t b, int64_t h, int64_t width,
                        double *to, int64_t pitch) {
  assert(b < c->b && h < c->h && pitch >= width);
  for (int64_t t = 0; t < c->n; t++)
    memcpy(to + t * pitch, x->data + row(c, b, h, t, width), (size_t)width * sizeof *to);
}

static void scatter_rows(const scan *c, vtb_tensor *x, int64_t b, int64_t h, int64_t width,
                         const double *from, int64_t pitch) {
  for (int64_t t = 0; t < c->n; t++)
    memcpy(x->data + row(c, b, h, t, width), from + t * pitch, (size_t)width * sizeof *from);
}

/* [B, h, K, V] and [B, h, K] to the head's [K, V1]. */
static void gather_state(const scan *c, vtb_tensor *const *in, int64_t b, int64_t h, double *s) {
  for (int64_t k = 0; k < c->k; k++) {
    memcpy(s + k * c->v1, in[0]->data + ((b * c->h + h) * c->k + k) * c->v,
           (size_t)c->v * sizeof *s);
    if (c->normalizer) s[k * c->v1 + c->v] = in[1]->data[(b * c->h + h) * c->k + k];
  }
}

static void scatter_state(const scan *c, vtb_tensor *s_out, vtb_tensor *n_out, int64_t b, int64_t h,
                          const double *s) {
  for (int64_t k = 0; k < c->k; k++) {
    memcpy(s_out->data + ((b * c->h + h) * c->k + k) * c->v, s + k * c->v1,
           (size_t)c->v * sizeof *s);
    if (c->normalizer) n_out->data[(b * c->h + h) * c->k + k] = s[k * c->v1 + c->v];
  }
}

/* D_t = exp(step_t rate) of every step. */
static void gather_rates(scan *c, vtb_tensor *const *in, int64_t b, int64_t h) {
  gather_rows(c, in[3], b, h, c->v, c->step, c->v);
  memcpy(c->rate, in[4]->data + h * c->k * c->v, (size_t)(c->k * c->v) * sizeof(double));
  for (int64_t t = 0; t < c->n; t++)
    for (int64_t i = 0; i < c->k * c->v; i++)
      c->d[t * c->d_size + i] = exp(c->step[t * c->v + i % c->v] * c->rate[i]);
}

static void gather(scan *c, vtb_tensor *const *in, int64_t b, int64_t h) {
  gather_rows(c, in[0], b, h, c->k, c->q, c->k);
  gather_rows(c, in[1], b, h, c->k, c->key, c->k);
  gather_rows(c, in[2], b, h, c->v, c->value, c->v1);
  for (int64_t t = 0; c->normalizer && t < c->n; t++) c->value[t * c->v1 + c->v] = 1;
  if (!c->decay->by_step)
    for (int64_t t = 0; t < c->n; t++) c->d[t] = in[3]->data[h];
  else if (c->rate)
    gather_rates(c, in, b, h);
  else
    gather_rows(c, in[3], b, h, c->d_size, c->d, c->d_size);
  if (c->init) gather_state(c, in + c->n_inputs, b, h, c->s0);
}

/* ---- D applied ------------------------------------------------------------------------------- */

/* s[K, V1] *= d, d of one step. */
static void decay_state(const scan *c, const double *d, double *s) {
  for (int64_t k = 0; k < c->k; k++, s += c->v1)
    for (int64_t v = 0; v < c->v1; v++) s[v] *= d[k * c->by_key + v * c->by_value];
}

/* s += k v^T */
static void add_outer(const scan *c, const double *k, const double *v, double *s) {
  for (int64_t i = 0; i < c->k; i++, s += c->v1)
    for (int64_t j = 0; j < c->v1; j++) s[j] += k[i] * v[j];
}

/* s += m . (k v^T), m an element of the decay matrix */
static void add_decayed(const scan *c, const double *m, const double *k, const double *v,
                        double *s) {
  for (int64_t i = 0; i < c->k; i++, s += c->v1)
    for (int64_t j = 0; j < c->v1; j++) s[j] += m[i * c->by_key + j * c->by_value] * k[i] * v[j];
}

/* y += s^T q */
static void read_state(const scan *c, const double *s, const double *q, double *y) {
  for (int64_t k = 0; k < c->k; k++)
    for (int64_t v = 0; v < c->v1; v++)
      y[v] += vtb_round_factor(s[k * c->v1 + v], c->factors) * q[k];
}

/* y += the contribution of step j to step t, m the element M[t, j] of the decay matrix */
static void read_pair(const scan *c, const double *m, int64_t t, int64_t j, double *y) {
  const double *q = c->q + t * c->k, *k = c->key + j * c->k, *v = c->value + j * c->v1;
  for (int64_t o = 0; o < c->v1; o++) {
    double a = 0;
    for (int64_t i = 0; i < c->k; i++) a += q[i] * m[i * c->by_key + o * c->by_value] * k[i];
    y[o] += vtb_round_factor(a, c->factors) * v[o];
  }
}

/* ---- modes ----------------------------------------------------------------------------------- */

static void recurrent(scan *c) {
  memcpy(c->s, c->s0, (size_t)(c->k * c->v1) * sizeof *c->s);
  for (int64_t t = 0; t < c->n; t++) {
    decay_state(c, c->d + t * c->d_size, c->s);
    add_outer(c, c->key + t * c->k, c->value + t * c->v1, c->s);
    read_state(c, c->s, c->q + t * c->k, c->y + t * c->v1);
  }
}

/* The parallel form of steps [begin, end) from the state c->s, which is then advanced to `end`.
 * rows: the current row of the decay matrix, one element of d_size numbers a step; entering: the
 * product of all decays since `begin`. */
static void parallel(scan *c, int64_t begin, int64_t end, double *rows, double *entering) {
  assert(begin < end && end <= c->n);
  double *state = numbers(c->k * c->v1);
  for (int64_t i = 0; i < c->d_size; i++) entering[i] = 1;
  for (int64_t t = begin; t < end; t++) {
    const double *d = c->d + t * c->d_size;
    double *y = c->y + t * c->v1;
    for (int64_t i = 0; i < c->d_size; i++) entering[i] *= d[i];
    for (int64_t j = begin; j < t; j++)
      for (int64_t i = 0; i < c->d_size; i++) rows[(j - begin) * c->d_size + i] *= d[i];
    for (int64_t i = 0; i < c->d_size; i++) rows[(t - begin) * c->d_size + i] = 1;
    memcpy(state, c->s, (size_t)(c->k * c->v1) * sizeof *state);
    decay_state(c, entering, state);
    read_state(c, state, c->q + t * c->k, y);
    for (int64_t j = begin; j <= t; j++) read_pair(c, rows + (j - begin) * c->d_size, t, j, y);
  }
  decay_state(c, entering, c->s);
  for (int64_t j = begin; j < end; j++)
    add_decayed(c, rows + (j - begin) * c->d_size, c->key + j * c->k, c->value + j * c->v1, c->s);
  vtb_free(state);
}

static void chunkwise(scan *c, int64_t chunk) {
  assert(chunk >= 1);
  if (chunk > c->n) chunk = c->n;
  double *rows = numbers(chunk * c->d_size), *entering = numbers(c->d_size);
  memcpy(c->s, c->s0, (size_t)(c->k * c->v1) * sizeof *c->s);
  for (int64_t t = 0; t < c->n; t += chunk)
    parallel(c, t, t + chunk < c->n ? t + chunk : c->n, rows, entering);
  vtb_free(rows);
  vtb_free(entering);
}

/* The state before every token that is a multiple of `every`, in the order [V, K]. */
static void scatter_starts(const scan *c, vtb_tensor *to, int64_t every, int64_t b, int64_t h) {
  int64_t size = c->k * c->v, n = (c->n - 1) / every;
  memcpy(c->s, c->s0, (size_t)size * sizeof *c->s);
  for (int64_t t = 0; t < n * every; t++) {
    decay_state(c, c->d + t * c->d_size, c->s);
    add_outer(c, c->key + t * c->k, c->value + t * c->v1, c->s);
    if ((t + 1) % every != 0) continue;
    double *out = to->data + ((b * n + t / every) * c->h + h) * size;
    for (int64_t i = 0; i < size; i++) out[i % c->v * c->k + i / c->v] = c->s[i];
  }
}

vtb_status vtb__interp_linscan(vtb__interp_eval *e) {
  scan c = scan_new(e->inst, e->in[0]);
  int64_t starts = vtb_attr_int(e->inst, "starts", 0);
  const char *mode = vtb_attr_str(e->inst, "mode", "auto");
  for (int64_t b = 0; b < c.b; b++)
    for (int64_t h = 0; h < c.h; h++) {
      gather(&c, e->in, b, h);
      memset(c.y, 0, (size_t)(c.n * c.v1) * sizeof *c.y);
      if (vtb_streq(mode, "parallel"))
        chunkwise(&c, c.n);
      else if (vtb_streq(mode, "chunkwise"))
        chunkwise(&c, vtb_attr_int(e->inst, "chunk", 1));
      else
        recurrent(&c);
      scatter_rows(&c, e->out[0], b, h, c.v, c.y, c.v1);
      if (c.normalizer) scatter_rows(&c, e->out[2], b, h, 1, c.y + c.v, c.v1);
      if (starts)
        scatter_starts(&c, e->out[1], starts, b, h);
      else
        scatter_state(&c, e->out[1], c.normalizer ? e->out[3] : NULL, b, h, c.s);
    }
  scan_free(&c);
  return VTB_OK;
}

/* ---- adjoint --------------------------------------------------------------------------------- */

typedef struct adjoint {
  double *states; /* [N+1, K, V1]: before the first step and after each */
  double *dy, *p; /* [N, V1], [K, V1] */
  double *dq, *dk, *dv, *dd;
} adjoint;

static void run_states(const scan *c, adjoint *a) {
  int64_t size = c->k * c->v1;
  memcpy(a->states, c->s0, (size_t)size * sizeof(double));
  for (int64_t t = 0; t < c->n; t++) {
    double *s = a->states + (t + 1) * size;
    memcpy(s, s - size, (size_t)size * sizeof(double));
    decay_state(c, c->d + t * c->d_size, s);
    add_outer(c, c->key + t * c->k, c->value + t * c->v1, s);
  }
}

static void add_decay_gradient(const scan *c, const double *p, const double *before, double *dd) {
  for (int64_t k = 0; k < c->k; k++)
    for (int64_t v = 0; v < c->v1; v++)
      dd[k * c->by_key + v * c->by_value] += p[k * c->v1 + v] * before[k * c->v1 + v];
}

static void run_back(const scan *c, adjoint *a) {
  int64_t size = c->k * c->v1;
  for (int64_t t = c->n - 1; t >= 0; t--) {
    const double *q = c->q + t * c->k, *key = c->key + t * c->k, *v = c->value + t * c->v1,
                 *dy = a->dy + t * c->v1;
    const double *after = a->states + (t + 1) * size;
    for (int64_t i = 0; i < c->k; i++) {
      double dq = 0, dk = 0;
      for (int64_t j = 0; j < c->v1; j++) {
        double *sum = &a->p[i * c->v1 + j];
        *sum += q[i] * dy[j];
        double p = vtb_round_factor(*sum, c->factors);
        dq += vtb_round_factor(after[i * c->v1 + j], c->factors) * dy[j];
        dk += p * v[j];
        a->dv[t * c->v1 + j] += p * key[i];
      }
      a->dq[t * c->k + i] = dq;
      a->dk[t * c->k + i] = dk;
    }
    add_decay_gradient(c, a->p, after - size, a->dd + t * c->d_size);
    decay_state(c, c->d + t * c->d_size, a->p);
  }
}

/* Operands after q, k, v, d, [A], [S_0, [n_0]]: dy, [dz], [dS_T, [dn_T]]. */
static void gather_adjoints(const scan *c, const vtb__interp_eval *e, adjoint *a, int64_t b,
                            int64_t h) {
  int at = c->n_inputs + (c->init ? 1 + c->normalizer : 0);
  gather_rows(c, e->in[at++], b, h, c->v, a->dy, c->v1);
  if (c->normalizer) gather_rows(c, e->in[at++], b, h, 1, a->dy + c->v, c->v1);
  memset(a->p, 0, (size_t)(c->k * c->v1) * sizeof(double));
  if (vtb_attr_int(e->inst, "dlast", 0)) gather_state(c, e->in + at, b, h, a->p);
  memset(a->dv, 0, (size_t)(c->n * c->v1) * sizeof(double));
  memset(a->dd, 0, (size_t)(c->n * c->d_size) * sizeof(double));
}

/* From dD: d log D = dD o D; the step size gets its sum over keys times the rates, a rate its sum
 * over steps (and over the batch) times the step sizes. c->step becomes its own adjoint. */
static void scatter_rates(const scan *c, const vtb__interp_eval *e, const adjoint *a, int64_t b,
                          int64_t h) {
  double *drate = e->out[4]->data + h * c->k * c->v;
  for (int64_t t = 0; t < c->n; t++)
    for (int64_t v = 0; v < c->v; v++) {
      double *step = &c->step[t * c->v + v], dstep = 0;
      for (int64_t i = v; i < c->d_size; i += c->v) {
        double dlog = a->dd[t * c->d_size + i] * c->d[t * c->d_size + i];
        dstep += dlog * c->rate[i];
        drate[i] += dlog * *step;
      }
      *step = dstep;
    }
  scatter_rows(c, e->out[3], b, h, c->v, c->step, c->v);
}

static void scatter_adjoints(const scan *c, const vtb__interp_eval *e, const adjoint *a, int64_t b,
                             int64_t h) {
  scatter_rows(c, e->out[0], b, h, c->k, a->dq, c->k);
  scatter_rows(c, e->out[1], b, h, c->k, a->dk, c->k);
  scatter_rows(c, e->out[2], b, h, c->v, a->dv, c->v1);
  if (!c->decay->by_step)
    for (int64_t t = 0; t < c->n; t++) e->out[3]->data[h] += a->dd[t];
  else if (c->rate)
    scatter_rates(c, e, a, b, h);
  else
    scatter_rows(c, e->out[3], b, h, c->d_size, a->dd, c->d_size);
  vtb_tensor *const *states = e->out + c->n_inputs;
  if (c->init) scatter_state(c, states[0], c->normalizer ? states[1] : NULL, b, h, a->p);
}

vtb_status vtb__interp_linscan_grad(vtb__interp_eval *e) {
  scan c = scan_new(e->inst, e->in[0]);
  adjoint a = {numbers((c.n + 1) * c.k * c.v1),
               numbers(c.n * c.v1),
               numbers(c.k * c.v1),
               numbers(c.n * c.k),
               numbers(c.n * c.k),
               numbers(c.n * c.v1),
               numbers(c.n * c.d_size)};
  for (int i = 3; i < c.n_inputs; i++)
    memset(e->out[i]->data, 0, (size_t)vtb_type_count(&e->out[i]->type) * sizeof(double));
  for (int64_t b = 0; b < c.b; b++)
    for (int64_t h = 0; h < c.h; h++) {
      gather(&c, e->in, b, h);
      gather_adjoints(&c, e, &a, b, h);
      run_states(&c, &a);
      run_back(&c, &a);
      scatter_adjoints(&c, e, &a, b, h);
    }
  vtb_free(a.states), vtb_free(a.dy), vtb_free(a.p), vtb_free(a.dq), vtb_free(a.dk), vtb_free(a.dv),
      vtb_free(a.dd);
  scan_free(&c);
  return VTB_OK;
}

/* ---- max-plus -------------------------------------------------------------------------------- */

/* [B, N, rest] */
typedef struct sweep {
  int64_t b, n, rest, *perm;
} sweep;

static sweep sweep_new(const vtb_inst *inst, const vtb_type *t) {
  sweep w = {t->dim[0].size, t->dim[1].size, 1, vtb__path_perm(inst, t->dim[1].size)};
  for (int i = 2; i < t->rank; i++) w.rest *= t->dim[i].size;
  return w;
}

vtb_status vtb__interp_maxplus(vtb__interp_eval *e) {
  sweep w = sweep_new(e->inst, &e->out[0]->type);
  for (int64_t b = 0; b < w.b; b++)
    for (int64_t r = 0; r < w.rest; r++) {
      double m = e->inst->n_operands == 3 ? e->in[2]->data[b * w.rest + r] : -INFINITY;
      for (int64_t t = 0; t < w.n; t++) {
        int64_t at = (b * w.n + w.perm[t]) * w.rest + r;
        double kept = m + e->in[0]->data[at], gain = e->in[1]->data[at];
        m = kept > gain ? kept : gain;
        e->out[0]->data[at] = m;
      }
    }
  vtb_free(w.perm);
  return VTB_OK;
}

/* The adjoint flows back to the input that won the last maximum; ties go to i. */
vtb_status vtb__interp_maxplus_grad(vtb__interp_eval *e) {
  bool init = vtb_attr_int(e->inst, "init", 0) != 0;
  const double *g = e->in[0]->data, *i = e->in[1]->data, *m = e->in[2 + init]->data,
               *dm = e->in[3 + init]->data;
  sweep w = sweep_new(e->inst, &e->in[0]->type);
  for (int64_t b = 0; b < w.b; b++)
    for (int64_t r = 0; r < w.rest; r++) {
      double carry = 0;
      for (int64_t t = w.n - 1; t >= 0; t--) {
        int64_t at = (b * w.n + w.perm[t]) * w.rest + r;
        double before = t > 0  ? m[(b * w.n + w.perm[t - 1]) * w.rest + r]
                        : init ? e->in[2]->data[b * w.rest + r]
                               : -INFINITY;
        bool kept = before + g[at] > i[at];
        carry += dm[at];
        e->out[0]->data[at] = kept ? carry : 0;
        e->out[1]->data[at] = kept ? 0 : carry;
        if (!kept) carry = 0;
      }
      if (init) e->out[2]->data[b * w.rest + r] = carry;
    }
  vtb_free(w.perm);
  return VTB_OK;
}
